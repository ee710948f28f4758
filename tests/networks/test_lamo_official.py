"""LaMO's networks against the official code: stored weights, inputs, outputs and gradients of its six configurations.

`make_lamo_official.py` made the file from the official model files, with small sizes.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
import torch

from skop.networks import LaMOPatchNetwork, LaMOPointNetwork
from skop.parts import Hydra, Mamba2

from .problems import LAMO_GRID, LAMO_POINTS, changed

GOLDEN = Path(__file__).with_name("lamo_official.npz")
#: Official paths: rows, columns, reversed rows, reversed columns. Ours: each reverse after its own.
PATHS, STATES = [0, 2, 1, 3], 3
KINDS = ("weight", "bias")
PATCHES = changed(LAMO_GRID, {
    "depth": 2, "scan__d_state": STATES, "scan__n_heads": 2, "patches__positional_encoding": "learned",
    "patches__init": "normal",
})  # fmt: skip
POINTS = changed(LAMO_POINTS, {"depth": 2, "latents__n_tokens": 5, "mixer": Hydra(d_state=STATES, n_heads=4)})
MESH = POINTS | {"structured": True}
UNSHARED = changed(MESH, {"mixer": Mamba2(d_state=STATES, n_heads=4), "latents__shared": False})
CONFIGURATIONS = {
    "darcy": (LaMOPatchNetwork, (9, 10), changed(PATCHES, {"patches__pad_to_multiple": 8})),
    "navier_stokes": (LaMOPatchNetwork, (6, 4), PATCHES | {"n_fields": 3}),
    "elasticity": (LaMOPointNetwork, None, POINTS | {"n_fields": 0}),
    "plasticity": (LaMOPointNetwork, (5, 3), changed(UNSHARED, {
        "n_params": 1, "n_outputs": 4, "latents__parameter_embedding": "sinusoidal",
    })),
    "airfoil": (LaMOPointNetwork, (4, 5), MESH | {"n_fields": 0, "mixer": Hydra(d_state=1, expand=1, n_heads=2)}),
    "pipe": (LaMOPointNetwork, (3, 4), UNSHARED | {"n_fields": 0, "mlp_ratio": 2.0}),
}  # fmt: skip


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


def official(name, prefix):
    """Weights or gradients of the official network, without those that it has none of."""
    arrays = golden(name)
    return {key.removeprefix(prefix): held for key, held in arrays.items() if key.startswith(prefix)}


# ---------------------------------------------------------------- names: official -> ours
def map_patches(weights):
    """Tensors of the official network of regular grids under our names; takes them out of the argument."""
    ours = {
        "embedding.linear.weight": weights.pop("patch_embed1.WE").permute(0, 2, 3, 1).flatten(1),
        "embedding.linear.bias": weights.pop("patch_embed1.bE"),
        "positional_encoding.table": weights.pop("pos_embed1")[0],
        "unembedding.shift": weights.pop("depatch_embed1.bE"),
        "unembedding.linear.weight": weights.pop("depatch_embed1.WE").permute(2, 3, 1, 0).flatten(0, 2),
    }
    for kind in KINDS:
        ours[f"embedding.norm.{kind}"] = weights.pop(f"patch_embed1.layer_norm.{kind}")
        ours[f"unembedding.norm.{kind}"] = weights.pop(f"depatch_embed1.layer_norm.{kind}")
    for index in range(2):
        old, new = f"block1.{index}.", f"blocks.{index}."
        for kind in KINDS:
            ours[f"{new}norm_mixer.{kind}"] = weights.pop(f"{old}norm1.{kind}")
            ours[f"{new}norm_mlp.{kind}"] = weights.pop(f"{old}norm2.{kind}")
            ours[f"{new}mlp.fc1.{kind}"] = weights.pop(f"{old}mlp.fc1.{kind}")
            ours[f"{new}mlp.fc2.{kind}"] = weights.pop(f"{old}mlp.fc2.{kind}")
            ours[f"{new}mixer.convolution.{kind}"] = weights.pop(f"{old}hydra.conv2d.1.{kind}")
            ours[f"{new}mixer.norm.{kind}"] = weights.pop(f"{old}hydra.out_norm.{kind}")
        ours[f"{new}mixer.in_projection.weight"] = weights.pop(f"{old}hydra.in_proj.weight")
        ours[f"{new}mixer.out_projection.weight"] = weights.pop(f"{old}hydra.out_proj.weight")
        ours[f"{new}mixer.step_bias"] = weights.pop(f"{old}hydra.dt_projs_bias")[PATHS]
        ours[f"{new}mixer.log_decay"] = weights.pop(f"{old}hydra.A_logs")[PATHS]
        ours[f"{new}mixer.direct"] = weights.pop(f"{old}hydra.Ds")[PATHS]
        projection = weights.pop(f"{old}hydra.x_proj_weight")[PATHS]
        parts = projection.split([projection.shape[1] - 2 * STATES, STATES, STATES], dim=1)
        ours[f"{new}mixer.path_projection.weight"] = torch.cat([part.flatten(0, 1) for part in parts])
    return ours


def map_points(weights):
    """Tensors of the official networks of points and meshes under our names; takes them out of the argument."""
    shared, ours = "in_project_x.weight" in weights, {}
    for kind in KINDS:
        ours[f"lifting.0.{kind}"] = weights.pop(f"preprocess.linear_pre.0.{kind}")
        ours[f"lifting.2.{kind}"] = weights.pop(f"preprocess.linear_post.{kind}")
        ours[f"head.0.{kind}"] = weights.pop(f"blocks.1.ln_3.{kind}")
        ours[f"head.1.{kind}"] = weights.pop(f"blocks.1.mlp2.{kind}")
        if f"time_fc.0.{kind}" in weights:
            ours[f"parameter_embedding.fc1.{kind}"] = weights.pop(f"time_fc.0.{kind}")
            ours[f"parameter_embedding.fc2.{kind}"] = weights.pop(f"time_fc.2.{kind}")
    for index in range(1 if shared else 2):
        old, new = "" if shared else f"blocks.{index}.Attn.", f"latents.{index}."
        ours[f"{new}temperature"] = weights.pop(f"{old}temperature").flatten()
        for kind in KINDS:
            ours[f"{new}queries.{kind}"] = weights.pop(f"{old}in_project_x.{kind}")
            ours[f"{new}values.{kind}"] = weights.pop(f"{old}in_project_fx.{kind}")
            ours[f"{new}scores.{kind}"] = weights.pop(f"{old}in_project_slice.{kind}")
    for index in range(2):
        old, new = f"blocks.{index}.", f"blocks.{index}."
        for kind in KINDS:
            ours[f"{new}norm_mixer.{kind}"] = weights.pop(f"{old}ln_1.{kind}")
            ours[f"{new}norm_mlp.{kind}"] = weights.pop(f"{old}ln_2.{kind}")
            ours[f"{new}mlp.fc1.{kind}"] = weights.pop(f"{old}mlp.linear_pre.0.{kind}")
            ours[f"{new}mlp.fc2.{kind}"] = weights.pop(f"{old}mlp.linear_post.{kind}")
            ours[f"{new}out_projection.{kind}"] = weights.pop(f"{old}Attn.to_out.0.{kind}")
        old, new = f"{old}Attn.hydra.", f"{new}mixer."
        for theirs, own in (("in_proj", "in_projection"), ("out_proj", "out_projection"), ("norm", "norm")):
            ours[f"{new}{own}.weight"] = weights.pop(f"{old}{theirs}.weight")
        scalars = (("dt_bias", "step_bias"), ("A_log", "log_decay"), ("D", "direct"))
        if f"{old}fc_D.weight" in weights:  # Hydra
            ours[f"{new}direct_projection.weight"] = weights.pop(f"{old}fc_D.weight")
            ours[f"{new}initial_state"] = weights.pop(f"{old}init_states")
            ours |= {f"{new}convolution.{kind}": weights.pop(f"{old}conv1d.{kind}") for kind in KINDS}
            ours |= {new + own: weights.pop(old + theirs) for theirs, own in scalars}
        else:  # bidirectional Mamba-2
            for kind in KINDS:
                for side, tail in enumerate(("", "_b")):
                    ours[f"{new}convolutions.{side}.{kind}"] = weights.pop(f"{old}conv1d{tail}.{kind}")
            for theirs, own in scalars:
                ours[new + own] = torch.stack([weights.pop(old + theirs), weights.pop(f"{old}{theirs}_b")])
    return ours


def ours(name, prefix="weight/"):
    """Official tensors of a network under our names; none is left over."""
    tensors = official(name, prefix)
    placeholder = tensors.pop("placeholder", None)
    mapped = (map_patches if CONFIGURATIONS[name][0] is LaMOPatchNetwork else map_points)(tensors)
    assert not tensors
    return mapped if placeholder is None else mapped | {"placeholder": placeholder}


def rebuilt(name):
    """Our network of a configuration with the official weights."""
    kind, grid, options = CONFIGURATIONS[name]
    data = {"n_dims": 2, "n_fields": 1, "n_params": 0, "n_outputs": 1, "n_scalars": 0}
    options = data | options | ({"grid_shape": grid} if kind is LaMOPatchNetwork else {})
    network = kind(**options).double()
    network.load_state_dict(ours(name))
    if name == "plasticity":
        # The table of frequencies is one of float32, ours by its formula and theirs by its cast.
        half = len(network.parameter_embedding.frequencies)
        network.parameter_embedding.frequencies = 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    return network


def close(found, expected):
    """Whether tensors agree to rounding, against the largest entry."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 * float(expected.abs().max()))


def test_outputs_and_gradients_are_those_of_the_official_code():
    for name in CONFIGURATIONS:
        network, arrays, grid = rebuilt(name), golden(name), CONFIGURATIONS[name][1]
        inputs = {key: arrays[key].clone().requires_grad_() for key in ("coords", "fields") if key in arrays}
        outputs = network(inputs["coords"], inputs.get("fields"), arrays.get("times"), grid).field
        close(outputs, arrays["outputs"])
        target = arrays["target"]
        ((outputs - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)).sum().backward()
        for key, held in inputs.items():
            close(held.grad, arrays[f"gradient/{key}"])
        expected = ours(name, "gradient/weight/")
        parameters = dict(network.named_parameters())
        unused = {key for key, held in parameters.items() if held.grad is None}
        # It stands in for a field where there is none.
        assert unused == set(parameters) - set(expected) == ({"placeholder"} if "fields" in inputs else set())
        for key, held in expected.items():
            close(parameters[key].grad, held)


def test_exchanged_paths_would_be_noticed(monkeypatch):
    monkeypatch.setitem(globals(), "PATHS", [0, 1, 2, 3])
    arrays = golden("darcy")
    outputs = rebuilt("darcy")(arrays["coords"], arrays["fields"], None, (9, 10)).field
    assert (outputs - arrays["outputs"]).abs().max() > 1e-3


def test_the_file_stays_small():
    assert GOLDEN.stat().st_size < 300_000
