"""DataSpec: what a saved estimator remembers of its data."""

import json
from dataclasses import FrozenInstanceError

import pytest

from skop.data import DataSpec

CONTENT = {
    "input_form": "grid", "role": "fields", "target_form": "grid_single", "n_dims": 2, "n_fields": 3, "n_params": 1,
    "n_outputs": 1, "grid_shape": (8, 4), "target_dtype": "float32", "channel_names": ("u", "v"),
}  # fmt: skip


@pytest.mark.parametrize("changes", [{}, {"grid_shape": None}, {"channel_names": None}])
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


@pytest.mark.parametrize(
    "form", ["vector", "table", "grid", "grid_single", "points", "points_single", "fieldset", "tuple"]
)
def test_only_vectors_and_tables_are_scalar(form):
    assert DataSpec(**(CONTENT | {"target_form": form})).scalar_output == (form in {"vector", "table"})
