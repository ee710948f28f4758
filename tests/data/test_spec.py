"""DataSpec: what a saved estimator remembers of its data."""

import json
from dataclasses import FrozenInstanceError

import pytest

from skop.data import DataSpec

CONTENT = {
    "input_form": "grid", "role": "fields", "target_form": "grid_single", "n_dims": 2, "n_fields": 3, "n_params": 1,
    "n_outputs": 1, "grid_shape": (8, 4), "target_dtype": "float32", "channel_names": ("u", "v"), "n_scalars": 0,
    "layout": "grid", "kept_axes": (0, 2), "components": (("u", 1), ("v", 1)),
}  # fmt: skip


@pytest.mark.parametrize(
    "changes", [{}, {"grid_shape": None}, {"channel_names": None, "kept_axes": None, "components": None}]
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
    with pytest.raises(FrozenInstanceError):
        spec.n_dims = 3


def test_only_outputs_without_a_field_are_scalar():
    assert not DataSpec(**CONTENT).scalar_output
    assert not DataSpec(**(CONTENT | {"n_scalars": 2})).scalar_output
    assert DataSpec(**(CONTENT | {"target_form": "table", "n_outputs": 0, "n_scalars": 2})).scalar_output
