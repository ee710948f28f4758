"""Transolver's network against the official code: stored weights, inputs, outputs and gradients.

`make_transolver_official.py` made the file from the official model files, with small sizes: points and structured
meshes in the plane and in space, with and without fields and distances from a reference grid.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from skop.networks import TransolverNetwork

GOLDEN = Path(__file__).with_name("transolver_official.npz")
KINDS = ("weight", "bias")
#: Grid and options that differ from those of most configurations.
CONFIGURATIONS = {
    "points": (None, {"n_fields": 0}),
    "points_with_fields": (None, {"mlp_ratio": 2.0, "reference_size": 3}),
    "mesh_in_the_plane": ((4, 5), {"n_fields": 0, "mlp_ratio": 2.0}),
    "grid_in_the_plane": ((5, 4), {"reference_size": 3}),
    "grid_in_space": ((3, 4, 2), {"n_dims": 3}),
}


@cache
def golden(name):
    """Arrays of one network by their names, in float64."""
    arrays = {}
    with np.load(GOLDEN) as file:
        for group in (f"{name}/small", f"{name}/exact"):
            shapes = {key: tuple(shape) for key, shape in json.loads(str(file[f"{group}/shapes"])).items()}
            ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes.values()])
            parts = np.split(file[group].astype(np.float64), ends[:-1])
            arrays |= {
                key: torch.from_numpy(part.reshape(shapes[key])) for key, part in zip(shapes, parts, strict=True)
            }
    return arrays


def ours(name, prefix="weight/"):
    """Official tensors of a network under our names; none is left over."""
    theirs = {key.removeprefix(prefix): held for key, held in golden(name).items() if key.startswith(prefix)}
    mapped = {"placeholder": theirs.pop("placeholder")} if "placeholder" in theirs else {}
    for kind in KINDS:
        mapped[f"lifting.0.{kind}"] = theirs.pop(f"preprocess.linear_pre.0.{kind}")
        mapped[f"lifting.2.{kind}"] = theirs.pop(f"preprocess.linear_post.{kind}")
        mapped[f"head.0.{kind}"] = theirs.pop(f"blocks.1.ln_3.{kind}")
        mapped[f"head.1.{kind}"] = theirs.pop(f"blocks.1.mlp2.{kind}")
    for index in range(2):
        block = f"blocks.{index}."
        mapped[f"{block}latents.temperature"] = theirs.pop(f"{block}Attn.temperature").flatten()
        for own, other in (("queries", "q"), ("keys", "k"), ("values", "v")):
            mapped[f"{block}mixer.{own}.weight"] = theirs.pop(f"{block}Attn.to_{other}.weight")
        for kind in KINDS:
            for own, other in (
                ("latents.queries", "Attn.in_project_x"), ("latents.values", "Attn.in_project_fx"),
                ("latents.scores", "Attn.in_project_slice"), ("out_projection", "Attn.to_out.0"),
                ("norm_mixer", "ln_1"), ("norm_mlp", "ln_2"), ("mlp.fc1", "mlp.linear_pre.0"),
                ("mlp.fc2", "mlp.linear_post"),
            ):  # fmt: skip
                mapped[f"{block}{own}.{kind}"] = theirs.pop(f"{block}{other}.{kind}")
    assert not theirs
    return mapped


def make_network(grid=None, **changes):
    sizes = {
        "n_dims": 2, "n_fields": 1, "n_params": 0, "n_outputs": 2, "n_scalars": 0, "width": 4, "depth": 2,
        "n_slices": 3, "n_heads": 2, "mlp_ratio": 1.0, "structured": grid is not None,
    }  # fmt: skip
    return TransolverNetwork(**(sizes | changes)).double().eval()


def close(found, expected):
    """Whether tensors agree to rounding, against the largest entry."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 * float(expected.detach().abs().max()) + 1e-14)


def test_outputs_and_gradients_are_those_of_the_official_code():
    for name in CONFIGURATIONS:
        grid, options = CONFIGURATIONS[name]
        network, arrays = make_network(grid, **options), golden(name)
        network.load_state_dict(ours(name))
        inputs = {key: arrays[key].clone().requires_grad_() for key in ("coords", "fields") if key in arrays}
        outputs = network(inputs["coords"], inputs.get("fields"), None, grid).field
        close(outputs, arrays["outputs"])
        (outputs - arrays["target"]).square().sum().backward()
        for key, held in inputs.items():
            # With distances from a reference grid the official code takes its own regular grid, not the coordinates.
            if f"gradient/{key}" in arrays:
                close(held.grad, arrays[f"gradient/{key}"])
        expected, parameters = ours(name, "gradient/weight/"), dict(network.named_parameters())
        assert {key for key, held in parameters.items() if held.grad is None} == set(parameters) - set(expected)
        for key, held in expected.items():
            close(parameters[key].grad, held)


def test_slices_that_share_no_map_would_be_noticed():
    weights = ours("points") | {"blocks.0.mixer.keys.weight": ours("points")["blocks.0.mixer.queries.weight"]}
    network, arrays = make_network(n_fields=0), golden("points")
    network.load_state_dict(weights)
    assert (network(arrays["coords"], None, None).field - arrays["outputs"]).abs().max() > 1e-6


def test_heads_have_to_divide_the_width():
    with pytest.raises(ValueError, match="n_heads=3 does not divide width=4"):
        make_network(n_heads=3)


def test_the_file_stays_small():
    assert GOLDEN.stat().st_size < 150_000
