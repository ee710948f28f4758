"""GPU form of `skop.ops.selective_scan_2d` in Triton: gradients written out, no autograd.

The grid is cut into square tiles that are worked on at once, in every direction: a 44 x 44 grid of 128
channels is 72 programs per direction and sample, a 256 x 256 grid 2,048. Five steps: what each tile adds
to the first pass, that carried over the tiles, the same for the second pass, and the outputs of every
tile from the states that enter it. The backward pass takes the same steps from the other end. The entering
states of both passes are the checkpoints: 2 d_state / 16 times dt.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import torch
from torch import Tensor

from skop.ops._selective import Arguments
from skop.ops._triton_selective import Gradients, flags, pointers, ready
from skop.ops._triton_tools import carry, launch, per_path, power_of_two, sum_paths
from skop.ops.selective_scan_2d._triton_kernels import (
    first_ends_kernel,
    gradient_kernel,
    output_kernel,
    second_ends_kernel,
)

__all__ = ["backward", "forward"]

# Cells of a tile along each pass; a small grid is one smaller tile. The states at the edges are 2 / 16 of all states;
# with shorter tiles they would outweigh the input.
_TILE = 16
# Channels of a program: 64 bytes of float32 side by side in memory, two sectors.
_BLOCK_D = 16
# Numbers of a tile that one thread holds, which sets the warps of a program; with fewer, more of a scan crosses
# from warp to warp, with more, registers spill.
_PER_THREAD = 16


@dataclass(frozen=True)
class _Group:
    """Directions with the same axis first, and how they walk over the grid.

    A row of a table is for one direction: its number, its first cell, and the distances of the next cells along the
    passes. The other table is for the way back, from the last cell with the passes exchanged.
    """

    members: tuple[int, ...]  # numbers of the directions
    n_p: int  # cells along the first pass, and along the second
    n_q: int
    table: Tensor  # int32 (members, 4)
    back_table: Tensor

    @property
    def tile(self) -> int:
        """Cells of a tile along each pass."""
        return power_of_two(max(self.n_p, self.n_q), least=4, most=_TILE)

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles along the first and the second pass."""
        return -(-self.n_p // self.tile), -(-self.n_q // self.tile)

    def reversed(self) -> "_Group":
        """The way back."""
        return _Group(self.members, self.n_q, self.n_p, self.back_table, self.table)


@lru_cache(maxsize=128)
def _groups(
    directions: tuple[tuple[int, int], ...], height: int, width: int, device: torch.device
) -> tuple[_Group, ...]:
    """Sort directions by the axis of their first pass: within a group all grids have one shape."""
    groups = []
    for axis in (1, 2):
        members = tuple(k for k, (first, _) in enumerate(directions) if abs(first) == axis)
        if not members:
            continue
        sizes, strides = {1: height, 2: width}, {1: width, 2: 1}
        rows, back_rows = [], []
        for k in members:
            # A pass against an axis starts at its far end.
            start = sum((sizes[-a] - 1) * strides[-a] for a in directions[k] if a < 0)
            end = sum((sizes[a] - 1) * strides[a] for a in directions[k] if a > 0)
            step_p, step_q = (strides[abs(a)] * (1 if a > 0 else -1) for a in directions[k])
            rows.append((k, start, step_p, step_q))
            back_rows.append((k, end, -step_q, -step_p))
        tables = (torch.tensor(values, dtype=torch.int32, device=device) for values in (rows, back_rows))
        groups.append(_Group(members, sizes[axis], sizes[3 - axis], *tables))
    return tuple(groups)


def forward(given: Arguments, keep: bool) -> tuple[Tensor, None, Tensor | None]:
    """Scan in every direction: y, and the states that enter each tile in either pass, if they are to be kept."""
    core = ready(given)
    groups = _groups(core.order, *core.x.shape[1:3], core.x.device)
    kept = _empty_edges(core, groups)
    y = per_path(core)
    for group, first, second in _split_edges(kept, core, groups):
        _walk(core, core.x, core.B, group, first, second, backward=False)
        arguments = (*pointers(core), group.table, first, second, y, *_shape(core, group))
        launch(output_kernel, _programs(core, group), *arguments, **flags(core), **_options(core, group))
    return sum_paths(core, y), None, kept if keep else None


def backward(given: Arguments, checkpoints: Tensor, grad_y: Tensor, grad_final: None) -> tuple[Tensor | None, ...]:
    """Gradients of the tensors that `forward` was given; None for what was None."""
    core, grad_y = ready(given), grad_y.contiguous()
    groups = _groups(core.order, *core.x.shape[1:3], core.x.device)
    edges = _split_edges(checkpoints, core, groups)
    n_tiles = groups[0].tiles[0] * groups[0].tiles[1]
    grads = Gradients.empty(core, n_tiles, -(-core.dt.shape[4] // _block_d(core)))
    for group, first, second in edges:
        back = group.reversed()
        ((_, grad_first, grad_second),) = _split_edges(_empty_edges(core, (back,)), core, (back,))
        _walk(core, grad_y, core.C, back, grad_first, grad_second, backward=True)
        states = group.table, first, second, grad_first, grad_second
        new = (*grads[:5], core.A if grads.R is None else grads.R)
        arguments = (*pointers(core), *states, grad_y, *new, *_shape(core, group))
        launch(gradient_kernel, _programs(core, group), *arguments, **flags(core), **_options(core, group))
    D = core.D
    grad_D = None if D is None else (grad_y.to(D.dtype) * core.x).sum((0, 1, 2)).expand(D.shape).contiguous()
    return grads.summed(given, grad_D, None)


def _walk(
    core: Arguments, values: Tensor, maps: Tensor, group: _Group, first: Tensor, second: Tensor, *, backward: bool
) -> None:
    """Fill the edges of both passes: each (sequences, tiles, elements), the states that enter the tiles."""
    rates = torch.stack([core.A[k] for k in group.members]).flatten(1)
    amounts, second_amounts = (core.dt.new_empty(*edges.shape[:2], core.A.shape[1]) for edges in (first, second))
    programs, given = _programs(core, group), (values, maps, core.dt, core.A, group.table, first)
    shape, options = _shape(core, group), {"BACKWARD": backward, **_options(core, group)}
    launch(first_ends_kernel, programs, *given, amounts, second_amounts, *shape, **options)
    carry(first, amounts, rates, None, per_path=group.n_q)
    launch(second_ends_kernel, programs, *given, second, *shape, **options)
    carry(second, second_amounts, rates, None, per_path=group.n_p)


def _edge_shapes(core: Arguments, group: _Group) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Shapes of the states that enter the tiles of a group in its first and its second pass."""
    sequences, elements = len(core.dt) * len(group.members), core.A[0].numel()
    tiles_p, tiles_q = group.tiles
    return (sequences * group.n_q, tiles_p, elements), (sequences * group.n_p, tiles_q, elements)


def _empty_edges(core: Arguments, groups: tuple[_Group, ...]) -> Tensor:
    """One tensor for the edges of all groups, so that there is one checkpoint to keep."""
    return core.dt.new_empty(sum(prod(shape) for group in groups for shape in _edge_shapes(core, group)))


def _split_edges(kept: Tensor, core: Arguments, groups: tuple[_Group, ...]) -> list[tuple[_Group, Tensor, Tensor]]:
    """Every group with its first and second edges."""
    shapes = [shape for group in groups for shape in _edge_shapes(core, group)]
    parts = kept.split([prod(shape) for shape in shapes])
    edges = (part.view(shape) for part, shape in zip(parts, shapes, strict=True))
    return [(group, next(edges), next(edges)) for group in groups]


def _programs(core: Arguments, group: _Group) -> int:
    """Programs of a group: samples, directions, tiles and blocks of channels."""
    tiles_p, tiles_q = group.tiles
    return len(core.dt) * len(group.members) * tiles_p * tiles_q * -(-core.dt.shape[4] // _block_d(core))


def _shape(core: Arguments, group: _Group) -> tuple[int, ...]:
    """Shape arguments that all kernels share."""
    return group.n_p, group.n_q, len(group.members), *core.dt.shape[3:], core.A.shape[2]


def _block_d(core: Arguments) -> int:
    """Channels of a program."""
    return power_of_two(core.dt.shape[4], most=_BLOCK_D)


def _options(core: Arguments, group: _Group) -> dict[str, Any]:
    """Options of a launch."""
    block_d = _block_d(core)
    warps = min(max(group.tile**2 * block_d // (32 * _PER_THREAD), 1), 16)
    return {"TILE": group.tile, "BLOCK_D": block_d, "num_warps": warps}
