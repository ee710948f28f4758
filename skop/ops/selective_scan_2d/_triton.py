"""GPU form of `skop.ops.selective_scan_2d` in Triton: gradients written out, no autograd.

The grid is cut into square tiles that are worked on at once, in every direction: a 44 x 44 grid of 128
channels is 72 programs per direction and sample, a 256 x 256 grid 2,048. Five steps: what each tile adds
to the first pass, that carried over the tiles, the same for the second pass, and the outputs of every
tile from the states that enter it. The backward pass takes the same steps from the other end. The entering
states of both passes are the checkpoints: 2 d_state / 16 times dt.

bfloat16 and float32 tensors are computed in float32, float64 ones in float64.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from skop.ops._selective import step_sizes
from skop.ops._triton_tools import LAUNCH, carry, on_device, power_of_two, step_gradient
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

    Attributes
    ----------
    members : tuple of int
        Numbers of the directions.
    n_p, n_q : int
        Cells along the first and the second pass.
    table, back_table : int32 Tensor of shape (members, 4)
        For each direction its number, its first cell, and the distances of the next cells along the passes;
        and the same for the way back, from the last cell with the passes exchanged.
    """

    members: tuple[int, ...]
    n_p: int
    n_q: int
    table: Tensor
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


def forward(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    directions: tuple[tuple[int, int], ...],
    softplus: bool,
    keep: bool,
) -> tuple[Tensor, Tensor | None]:
    """Scan a grid along two axes, in every direction.

    Parameters
    ----------
    x : Tensor of shape (b, H, W, D)
        Inputs: bfloat16, float32 or float64.
    dt : Tensor of shape (b, H, W, K, D)
        Step sizes, before the softplus if there is one: float32, or float64 if x is; so are the parameters
        A, D, dt_bias and R.
    A : Tensor of shape (K, D, N)
        Decay rates, negative.
    B, C : Tensor of shape (b, H, W, K, N)
        Input and output maps, in the dtype of x.
    D, dt_bias : Tensor of shape (K, D) or None
        Skip from input to output, and what is added to dt before the softplus.
    R : Tensor of shape (K, D, N) or None
        Share of the own cell's input that is taken off the state before y is read; None means zero.
    directions : tuple of K pairs of int
        Axes of the first and the second pass of each direction, 1 for rows and 2 for columns, negative where the
        pass runs backwards.
    softplus : bool
        Whether the steps are softplus(dt + dt_bias).
    keep : bool
        Whether to return the checkpoints that `backward` needs.

    Returns
    -------
    y : Tensor of the shape and dtype of x
        Outputs, summed over the directions.
    checkpoints : Tensor or None
        The states that enter each tile in either pass.
    """
    # The kernels read the steps three to six times; taking the softplus once costs one pass over dt.
    steps = step_sizes(dt, dt_bias, softplus).contiguous()
    x, A, B, C = (tensor.contiguous() for tensor in (x, A, B, C))
    skip, share = (None if tensor is None else tensor.contiguous() for tensor in (D, R))
    groups = _groups(directions, x.shape[1], x.shape[2], x.device)
    kept = _empty_edges(steps, A, groups)
    # The directions meet the cells in different orders: one output for each, and torch adds them up.
    alone = len(directions) == 1
    y = steps.new_empty(steps.shape, dtype=x.dtype if alone else steps.dtype)
    for group, first, second in _split_edges(kept, steps, A, groups):
        _walk(x, B, steps, A, group, first, second, backward=False)
        with on_device(x):
            output_kernel[(_programs(steps, group),)](
                *(x, steps, A, B, C, A if skip is None else skip, A if share is None else share),
                *(group.table, first, second, y),
                *_shape(steps, A, group),
                HAS_D=skip is not None,
                HAS_R=share is not None,
                **_options(steps, group),
            )
    y = y.squeeze(3) if alone else y.sum(3).to(x.dtype)
    return y, kept if keep else None


def backward(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    directions: tuple[tuple[int, int], ...],
    softplus: bool,
    checkpoints: Tensor,
    grad_y: Tensor,
) -> tuple[Tensor | None, ...]:
    """Gradients of all arguments of `forward`.

    Parameters
    ----------
    x, dt, A, B, C, D, dt_bias, R, directions, softplus
        As given to `forward`.
    checkpoints : Tensor
        As returned by `forward`.
    grad_y : Tensor of the shape and dtype of x
        Gradient of the outputs.

    Returns
    -------
    tuple of Tensor or None
        Gradients of x, dt, A, B, C, D, dt_bias and R, in their dtypes; None where the argument is None.
    """
    steps = step_sizes(dt, dt_bias, softplus).contiguous()
    x, A, B, C, grad_y = (tensor.contiguous() for tensor in (x, A, B, C, grad_y))
    groups = _groups(directions, x.shape[1], x.shape[2], x.device)
    edges = _split_edges(checkpoints, steps, A, groups)
    grad_x, grad_steps, part_A, part_B, part_C, part_R = _gradients((x, steps, A, B, C), D, R, edges, grad_y)
    grad_dt = step_gradient(grad_steps, dt, dt_bias, softplus)
    return (
        grad_x.squeeze(3) if len(directions) == 1 else grad_x.sum(3).to(x.dtype),
        grad_dt,
        part_A.sum((0, 2)),
        part_B.sum(4).to(x.dtype),
        part_C.sum(4).to(x.dtype),
        None if D is None else (grad_y.to(D.dtype) * x).sum((0, 1, 2)).expand(D.shape).contiguous(),
        None if dt_bias is None else grad_dt.sum((0, 1, 2)),
        None if part_R is None else part_R.sum((0, 2)),
    )


def _gradients(
    given: tuple[Tensor, ...],
    D: Tensor | None,
    R: Tensor | None,
    edges: list[tuple[_Group, Tensor, Tensor]],
    grad_y: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of x for each direction and of the steps; those of A, B, C and R in parts to be summed."""
    x, steps, A, B, C = given
    n_directions = steps.shape[3]
    n_tiles = edges[0][0].tiles[0] * edges[0][0].tiles[1]
    # One number for each program that adds to a sum; torch adds them up in a fixed order.
    grad_x = steps.new_empty(steps.shape, dtype=x.dtype if n_directions == 1 else steps.dtype)
    grad_steps = torch.empty_like(steps)
    part_A = A.new_empty(x.shape[0], n_directions, n_tiles, *A.shape[1:])
    by_block = (*B.shape[:4], -(-x.shape[3] // _block_d(steps)), B.shape[4])
    part_B, part_C = steps.new_empty(by_block), steps.new_empty(by_block)
    part_R = None if R is None else torch.empty_like(part_A)
    # A kernel needs some pointer where there is no tensor; it is not followed.
    optional = tuple(A if tensor is None else tensor.contiguous() for tensor in (D, R))
    for group, first, second in edges:
        back = group.reversed()
        ((_, grad_first, grad_second),) = _split_edges(_empty_edges(steps, A, (back,)), steps, A, (back,))
        _walk(grad_y, C, steps, A, back, grad_first, grad_second, backward=True)
        with on_device(x):
            gradient_kernel[(_programs(steps, group),)](
                *(*given, *optional, group.table, first, second, grad_first, grad_second, grad_y),
                *(grad_x, grad_steps, part_A, part_B, part_C, A if part_R is None else part_R),
                *_shape(steps, A, group),
                HAS_D=D is not None,
                HAS_R=R is not None,
                **_options(steps, group),
            )
    return grad_x, grad_steps, part_A, part_B, part_C, part_R


def _walk(
    values: Tensor,
    maps: Tensor,
    steps: Tensor,
    A: Tensor,
    group: _Group,
    first: Tensor,
    second: Tensor,
    *,
    backward: bool,
) -> None:
    """Fill the edges of both passes: each (sequences, tiles, elements), the states that enter the tiles."""
    rates = torch.stack([A[k] for k in group.members]).flatten(1)
    amounts, second_amounts = (steps.new_empty(*edges.shape[:2], A.shape[1]) for edges in (first, second))
    programs, shape = (_programs(steps, group),), _shape(steps, A, group)
    options = {"BACKWARD": backward, **_options(steps, group)}
    with on_device(values):
        first_ends_kernel[programs](
            values, maps, steps, A, group.table, first, amounts, second_amounts, *shape, **options
        )
    carry(first, amounts, rates, None, per_path=group.n_q)
    with on_device(values):
        second_ends_kernel[programs](values, maps, steps, A, group.table, first, second, *shape, **options)
    carry(second, second_amounts, rates, None, per_path=group.n_p)


def _edge_shapes(steps: Tensor, A: Tensor, group: _Group) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Shapes of the states that enter the tiles of a group in its first and its second pass."""
    sequences, elements = steps.shape[0] * len(group.members), A.shape[1] * A.shape[2]
    tiles_p, tiles_q = group.tiles
    return (sequences * group.n_q, tiles_p, elements), (sequences * group.n_p, tiles_q, elements)


def _empty_edges(steps: Tensor, A: Tensor, groups: tuple[_Group, ...]) -> Tensor:
    """One tensor for the edges of all groups, so that there is one checkpoint to keep."""
    shapes = (shape for group in groups for shape in _edge_shapes(steps, A, group))
    return steps.new_empty(sum(a * b * c for a, b, c in shapes))


def _split_edges(
    kept: Tensor, steps: Tensor, A: Tensor, groups: tuple[_Group, ...]
) -> list[tuple[_Group, Tensor, Tensor]]:
    """Every group with its first and second edges."""
    parts, begin = [], 0
    for group in groups:
        edges = []
        for shape in _edge_shapes(steps, A, group):
            size = shape[0] * shape[1] * shape[2]
            edges.append(kept[begin : begin + size].view(shape))
            begin += size
        parts.append((group, edges[0], edges[1]))
    return parts


def _programs(steps: Tensor, group: _Group) -> int:
    """Programs of a group: samples, directions, tiles and blocks of channels."""
    tiles_p, tiles_q = group.tiles
    return steps.shape[0] * len(group.members) * tiles_p * tiles_q * -(-steps.shape[4] // _block_d(steps))


def _shape(steps: Tensor, A: Tensor, group: _Group) -> tuple[int, ...]:
    """Shape arguments that all kernels share."""
    return group.n_p, group.n_q, len(group.members), *steps.shape[3:], A.shape[2]


def _block_d(steps: Tensor) -> int:
    """Channels of a program."""
    return power_of_two(steps.shape[4], most=_BLOCK_D)


def _options(steps: Tensor, group: _Group) -> dict[str, Any]:
    """Options of a launch."""
    block_d = _block_d(steps)
    warps = min(max(group.tile**2 * block_d // (32 * _PER_THREAD), 1), 16)
    return {"TILE": group.tile, "BLOCK_D": block_d, "num_warps": warps, **LAUNCH}
