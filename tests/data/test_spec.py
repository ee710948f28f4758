"""DataSpec: what a saved estimator remembers of its data."""

import json
from dataclasses import FrozenInstanceError, replace

import pytest

from skop.data import DataSpec, GridResampler, TargetForm

FORM = TargetForm("meshes", "float32", channel_names=("u", "v"), components=(("u", 1), ("v", 1)))
CONTENT = {
    "input_form": "grid", "role": "fields", "target_form": FORM, "n_dims": 2, "n_fields": 3, "n_params": 1,
    "n_outputs": 1, "grid_shape": (8, 4), "n_scalars": 0, "geometry": "grid", "kept_axes": (0, 2),
    "resampler": GridResampler((0.0, 0.0), (1.0, 2.0), (4, 5)),
}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [{}, {"grid_shape": None}, {"kept_axes": None, "resampler": None}, {"target_form": TargetForm("array")}],
)
def test_json_gives_an_equal_spec(changes):
    spec = DataSpec(**(CONTENT | changes))
    again = DataSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert again == spec
    assert hash(again) == hash(spec)
    assert again.grid_shape == (CONTENT | changes)["grid_shape"]


def test_every_attribute_counts():
    spec = DataSpec(**CONTENT)
    for name in CONTENT:
        assert DataSpec(**(CONTENT | {name: "other"})) != spec
    for name in ("container", "dtype", "squeezes_channel", "has_grid_axes", "channel_names", "components"):
        assert replace(FORM, **{name: "other"}) != FORM
    with pytest.raises(FrozenInstanceError):
        spec.n_dims = 3


def test_the_network_sees_the_data_or_the_grid():
    spec = DataSpec(**CONTENT | {"geometry": "points", "grid_shape": None})
    seen = spec.network_spec
    assert (seen.geometry, seen.grid_shape, seen.n_fields, seen.resampler) == ("grid", (4, 5), 3, None)
    assert seen.network_spec is seen
    with_distance = replace(spec, resampler=replace(spec.resampler, distance=True))
    assert with_distance.network_spec.n_fields == 4
