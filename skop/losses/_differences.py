"""Finite differences and norms of batches of fields.

Notation: B samples of a batch, P points of a sample, c channels. Fields are flat
points with channels last, (B, P, c); on a regular grid the points are in C order (last axis
fastest).
"""

from math import prod

import torch
from torch import Tensor

from skop._typing import GridShape
from skop.exceptions import FieldDataError

__all__ = [
    "check_grid",
    "check_neighbours",
    "count_entries",
    "interior",
    "neighbour_difference",
    "neighbour_norm",
    "one_sided_difference",
    "sample_norm",
    "zero_padded_difference",
]

#: Second-order differences at the border of a grid need three points along an axis.
MIN_POINTS_PER_AXIS = 3


def check_grid(
    grid_shape: GridShape | None, n_points: int, name: str, *, least: int = MIN_POINTS_PER_AXIS
) -> GridShape:
    """Shape of the grid, or an error that says what is missing."""
    if grid_shape is None:
        raise FieldDataError(
            f"{name} takes derivatives and needs fields on a regular grid, but grid_shape is None. "
            "Give the grid, or use 'relative_l2' for points without one."
        )
    if prod(grid_shape) != n_points:
        raise FieldDataError(f"grid_shape is {tuple(grid_shape)}, but the fields have {n_points} points.")
    if min(grid_shape) < least:
        raise FieldDataError(f"grid_shape is {tuple(grid_shape)}, expected at least {least} points an axis.")
    return tuple(grid_shape)


def check_neighbours(neighbours: Tensor | None, field: Tensor) -> None:
    """Refuse neighbours of another shape than (B, P, k) or (P, k), or that are no points of the field (B, P, c)."""
    shape = tuple(field.shape[:2])
    came = f"of type {type(neighbours).__name__}"
    if isinstance(neighbours, Tensor):
        came = f"of shape {tuple(neighbours.shape)} and dtype {neighbours.dtype}"
        is_whole = neighbours.dtype in (torch.int32, torch.int64)
        if is_whole and neighbours.ndim in (2, 3) and neighbours.shape[:-1] in (shape, shape[1:]):
            # On other devices a look at the values would wait for the device.
            if neighbours.device.type != "cpu" or not neighbours.numel():
                return
            least, most = (int(end) for end in neighbours.aminmax())
            if least >= 0 and most < shape[1]:
                return
            came = f"from {least} to {most}"
    raise FieldDataError(
        f"neighbours are {came}, expected a tensor {(*shape, 'k')} or {(*shape[1:], 'k')} of int64: for each point the "
        f"numbers, from 0 to {shape[1] - 1}, of k points of its sample, 2 for each dimension of the space."
    )


def sample_norm(field: Tensor) -> Tensor:
    """Euclidean norm per sample; PyTorch gives this one the gradient 0 at 0."""
    return torch.linalg.vector_norm(field.flatten(1), dim=1)


def count_entries(field: Tensor, mask: Tensor | None) -> Tensor:
    """Count the real entries per sample, at least 1, as a float tensor (B,) or ()."""
    if mask is None:
        return field.new_tensor(float(field.shape[1] * field.shape[2]))
    return (mask.sum(1) * field.shape[2]).clamp_min(1).to(field.dtype)


def interior(grid: GridShape, device: torch.device) -> Tensor:
    """Mark the points inside the outermost ring of the grid, as (P, 1)."""
    inside = torch.zeros(grid, dtype=torch.bool, device=device)
    inside[tuple(slice(1, -1) for _ in grid)] = True
    return inside.reshape(-1, 1)


def zero_padded_difference(field: Tensor, mask: Tensor | None, grid: GridShape, axis: int) -> Tensor:
    """Central differences (B, *grid, c) in units of the spacing, with zeros outside the domain."""
    padded = _pad_axis(field.unflatten(1, grid), axis + 1, value=0.0)
    size = grid[axis]
    difference = 0.5 * (padded.narrow(axis + 1, 2, size) - padded.narrow(axis + 1, 0, size))
    if mask is None:
        return difference
    # Outside the domain the value 0 is known, so the padding counts as real.
    real = _pad_axis(mask.unflatten(1, grid), axis + 1, value=True)
    whole = real.narrow(axis + 1, 0, size) & real.narrow(axis + 1, 1, size) & real.narrow(axis + 1, 2, size)
    return torch.where(whole[..., None], difference, 0.0)


def _pad_axis(field: Tensor, axis: int, value: float | bool) -> Tensor:
    """Append one slice filled with a value at both ends of an axis."""
    border = torch.full_like(field.narrow(axis, 0, 1), value)
    return torch.cat([border, field, border], dim=axis)


def one_sided_difference(field: Tensor, mask: Tensor | None, grid: GridShape, axis: int, spacing: float) -> Tensor:
    """Second-order differences (B, *grid, c): central inside, one-sided at the two ends of the axis."""
    on_grid = field.unflatten(1, grid)
    (slope,) = torch.gradient(on_grid, spacing=(float(spacing),), dim=axis + 1, edge_order=2)
    if mask is None:
        return slope
    real = mask.unflatten(1, grid)
    n_inside = grid[axis] - 2
    inside = (
        real.narrow(axis + 1, 0, n_inside) & real.narrow(axis + 1, 1, n_inside) & real.narrow(axis + 1, 2, n_inside)
    )
    # The one-sided stencil at an end uses the same three points as its neighbour's central one.
    ends = inside.narrow(axis + 1, 0, 1), inside.narrow(axis + 1, n_inside - 1, 1)
    whole = torch.cat([ends[0], inside, ends[1]], dim=axis + 1)
    return torch.where(whole[..., None], slope, 0.0)


def neighbour_difference(field: Tensor, mask: Tensor | None, grid: GridShape, axis: int) -> Tensor:
    """Differences (B, *grid less 1, c) of neighbours along an axis, divided by their distance in the unit box."""
    # Unlike central differences they see errors that change their sign from point to point.
    slope = (grid[axis] - 1) * field.unflatten(1, grid).diff(dim=axis + 1)
    if mask is None:
        return slope
    real = mask.unflatten(1, grid)
    both = real.narrow(axis + 1, 1, grid[axis] - 1) & real.narrow(axis + 1, 0, grid[axis] - 1)
    return torch.where(both[..., None], slope, 0.0)


def neighbour_norm(field: Tensor, mask: Tensor | None, neighbours: Tensor) -> Tensor:
    """Norm per sample of the slopes (B, P, k, c) from each point to its neighbours (B, P, k) or (P, k)."""
    n_dims = neighbours.shape[-1] / 2
    samples = torch.arange(len(field), device=field.device)[:, None, None]
    slope = field[samples, neighbours] - field[:, :, None]
    counts = torch.tensor(float(field.shape[1]), device=field.device)
    if mask is not None:
        counts = mask.sum(1)
        slope = torch.where((mask[..., None] & mask[samples, neighbours])[..., None], slope, 0.0)
    # On a grid each pair of neighbours comes twice.
    per_side = counts.to(field.dtype) ** (1 / n_dims) - 1 if n_dims else torch.zeros_like(counts, dtype=field.dtype)
    return sample_norm(slope) * per_side / 2**0.5
