"""Small patch networks in float64 and inputs for them, which the tests of this folder share."""

import math

import torch

from skop.data import unit_grid
from skop.networks import GeoMaNONetwork, LaMOPatchNetwork


def make_lamo(grid, *, n_fields=1, n_params=0, n_outputs=1, seed=0, dtype=torch.float64, **options):
    torch.manual_seed(seed)
    sizes = {"width": 8, "depth": 1, "d_state": 2, "position": "coordinates", "unit_normal_patches": False}
    return LaMOPatchNetwork(len(grid), n_fields, n_params, n_outputs, grid, **(sizes | options)).to(dtype).eval()


def make_geomano(grid, *, n_fields=1, n_params=0, n_outputs=1, seed=0, dtype=torch.float64, **options):
    torch.manual_seed(seed)
    sizes = {"width": 6, "depth": 1, "d_state": 2, "lift": 5, "step_range": (0.2, 1.0)}
    return GeoMaNONetwork(len(grid), n_fields, n_params, n_outputs, grid, **(sizes | options)).to(dtype).eval()


def coords_of(grid):
    return torch.from_numpy(unit_grid(grid))


def fields_on(grid, batch=2, channels=1):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, math.prod(grid), channels, generator=generator, dtype=torch.float64)
