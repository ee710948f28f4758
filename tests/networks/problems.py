"""Small patch networks in float64 and inputs for them, which the tests of this folder share."""

import math
from functools import partial

import torch

from skop.data import unit_grid
from skop.networks import AMOPatchNetwork, GeoMaNONetwork, LaMOPatchNetwork

#: Sizes that the tests of this folder start from, by the names of the networks' keywords.
PATCHES = {"patch_size": 2, "depth": 1, "d_state": 2, "expand": 2, "mlp_ratio": 4.0, "kernel_size": 3}
LAMO_GRID = PATCHES | {
    "width": 8, "positional_encoding": "coordinates", "n_frequencies": 1, "n_heads": None, "scan_directions": "cross",
    "path_weights": "own", "activation": "gelu", "decay_range": (1.0, 1.0),
}  # fmt: skip
GEOMANO = PATCHES | {
    "width": 6, "lifting_width": 5, "n_frequencies": 1, "dt_rank": None, "recurrence": "grid",
    "scan_directions": "cross", "direction_order": "vmamba", "correction": None, "correction_at": "state",
    "activation": "silu", "separate_gate": False, "activate_output": True, "step_range": (0.2, 1.0),
    "decay_range": None,
}  # fmt: skip
LAMO_POINTS = {
    "width": 8, "depth": 2, "structured": False, "n_latents": 3, "n_latent_heads": 2, "n_centred_heads": 0,
    "temperature": 0.5, "normalize_latents": True, "decoder": "encoder_weights", "shared_projections": True,
    "mixer": "hydra", "d_state": 2, "expand": 2, "n_heads": 2, "mlp_ratio": 1.0, "weight_init": "trunc_normal",
}  # fmt: skip
AMO = {
    "width": 8, "expand": 2, "d_state": 2, "kernel_size": 3, "mlp_ratio": 2.0, "n_poles": 3, "n_pole_heads": 1,
    "adaptive_poles": True, "orthogonal": True, "transform": "coefficients", "max_radius": 0.9,
}  # fmt: skip
AMO_GRID = AMO | {
    "depth": 1, "patch_size": 2, "scan_directions": "cross", "positional_encoding": "coordinates", "n_frequencies": 1,
}  # fmt: skip
AMO_POINTS = AMO | {
    "depth": 2, "scan_directions": "bidirectional", "n_latents": 6, "n_latent_heads": 2, "n_centred_heads": 0,
    "decoder": "encoder_weights", "latents": "once", "aggregation": "last",
}  # fmt: skip


def make_patches(kind, sizes, grid, *, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, seed=0, dtype=torch.float64,
                 **options):  # fmt: skip
    torch.manual_seed(seed)
    data = {"n_dims": len(grid), "n_fields": n_fields, "n_params": n_params, "grid_shape": grid}
    data |= {"n_outputs": n_outputs, "n_scalars": n_scalars}
    return kind(**(sizes | data | options)).to(dtype).eval()


make_lamo = partial(make_patches, LaMOPatchNetwork, LAMO_GRID)
make_amo = partial(make_patches, AMOPatchNetwork, AMO_GRID)
make_geomano = partial(make_patches, GeoMaNONetwork, GEOMANO)


def coords_of(grid):
    return torch.from_numpy(unit_grid(grid))


def fields_on(grid, batch=2, channels=1):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, math.prod(grid), channels, generator=generator, dtype=torch.float64)
