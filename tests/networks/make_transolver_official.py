"""Make `transolver_official.npz`: weights, inputs, outputs and gradients of the official Transolver, made small.

    python tests/networks/make_transolver_official.py PATH_OF_OFFICIAL_CHECKOUT

PATH is a checkout of github.com/thuml/Transolver (MIT licence), the directory with `PDE-Solving-StandardBenchmark`; the
stored file is from commit 75e0f67. Needs torch and einops. The model files are imported unmodified and called with
small sizes; timm is replaced by torch's own truncated normal distribution, `.cuda()` by nothing, and single by double
precision. Every weight is random, also those that start at 0 or 1, and rounded to float16, so that the file is small
and exact. The tests read the file and do not run this script.
"""

import importlib
import json
import sys
import types
from pathlib import Path

import numpy as np
import torch

TARGET = Path(__file__).with_name("transolver_official.npz")
SMALL = {"n_layers": 2, "n_hidden": 4, "n_head": 2, "slice_num": 3, "dropout": 0.0, "out_dim": 2, "ref": 3}
#: Model file, grid or number of points, and options, as the official scripts combine them.
CONFIGURATIONS = {
    "points": ("Irregular_Mesh", (9,), {"space_dim": 2, "fun_dim": 0, "mlp_ratio": 1}),
    "points_with_fields": ("Irregular_Mesh", (9,), {"space_dim": 2, "fun_dim": 1, "mlp_ratio": 2, "unified_pos": True}),
    "mesh_in_the_plane": ("Structured_Mesh_2D", (4, 5), {"space_dim": 2, "fun_dim": 0, "mlp_ratio": 2}),
    "grid_in_the_plane": ("Structured_Mesh_2D", (5, 4), {"space_dim": 2, "fun_dim": 1, "unified_pos": True}),
    "grid_in_space": ("Structured_Mesh_3D", (3, 4, 2), {"space_dim": 3, "fun_dim": 1}),
}  # fmt: skip


def replace_what_is_missing():
    """Stand-ins for timm, and for the GPU."""
    layers = types.ModuleType("timm.models.layers")
    layers.trunc_normal_ = torch.nn.init.trunc_normal_
    sys.modules |= {"timm": types.ModuleType("timm"), "timm.models": types.ModuleType("timm.models")}
    sys.modules["timm.models.layers"] = layers
    torch.Tensor.cuda = lambda self, *_: self
    torch.float = torch.float64


def exact(*shape):
    """Random numbers that float16 holds exactly."""
    return (0.5 * torch.randn(*shape)).half().double()


def regular(grid):
    """Points of a regular grid of the unit box, ends included."""
    lines = [torch.linspace(0, 1, size, dtype=torch.float64) for size in grid]
    return torch.stack(torch.meshgrid(*lines, indexing="ij"), dim=-1).flatten(0, -2)


def record(kind, grid, options):
    """Arrays of one network by their names."""
    sizes = dict(zip("HWD", grid, strict=False)) if kind != "Irregular_Mesh" else {}
    network = importlib.import_module(f"model.Transolver_{kind}").Model(**(SMALL | options | sizes)).double().eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(0.3 + exact(*parameter.shape).abs() if "temperature" in name else exact(*parameter.shape))
    count = int(np.prod(grid))
    arrays = {f"weight/{name}": held.detach().clone() for name, held in network.named_parameters()}
    placed = options.get("unified_pos") and sizes
    arrays["coords"] = regular(grid).expand(2, -1, -1).clone() if placed else exact(2, count, options["space_dim"])
    if options["fun_dim"]:
        arrays["fields"] = exact(2, count, options["fun_dim"])
    arrays["target"] = exact(2, count, 2)
    inputs = {key: arrays[key].clone().requires_grad_() for key in ("coords", "fields") if key in arrays}
    outputs = network(inputs["coords"], inputs.get("fields"))
    ((outputs - arrays["target"]) ** 2).sum().backward()
    arrays["outputs"] = outputs.detach()
    parts = inputs | {f"weight/{name}": held for name, held in network.named_parameters()}
    return arrays | {f"gradient/{name}": held.grad for name, held in parts.items() if held.grad is not None}


def main():
    """Write the file."""
    sys.path.insert(0, str(Path(sys.argv[1]) / "PDE-Solving-StandardBenchmark"))
    replace_what_is_missing()
    stored = {}
    for seed, (name, configuration) in enumerate(CONFIGURATIONS.items()):
        torch.manual_seed(seed)
        arrays = record(*configuration)
        for key, held in arrays.items():
            is_exact = bool((held == held.half().double()).all())
            group = f"{name}/{'small' if is_exact else 'exact'}"
            stored.setdefault(group, {})[key] = held
    packed = {}
    for group, arrays in stored.items():
        kind = np.float16 if group.endswith("small") else np.float64
        packed[group] = np.concatenate([held.numpy().ravel() for held in arrays.values()]).astype(kind)
        packed[f"{group}/shapes"] = json.dumps({key: list(held.shape) for key, held in arrays.items()})
    np.savez_compressed(TARGET, **packed)
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
