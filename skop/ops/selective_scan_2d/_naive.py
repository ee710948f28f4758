"""The recurrence of `skop.ops.selective_scan_2d` and `selective_scan_3d`, cell by cell along one axis after the other.

Slow, but the definition itself: every other implementation is tested against it. Grids have any number of axes.

Notation of the shapes: b batch, H rows, W columns, or more axes, K directions, D channels, N states of a channel.
Notation of the maths: x input, dt step, A decay rate, B input map, C output map, D skip, R share of
the own cell's input that y does not see, y output.
"""

import torch
from torch import Tensor

from skop.ops._selective import step_sizes

#: Signed axis of each pass in turn, counted from 1 over the axes of the grid, minus backwards.
Direction = tuple[int, ...]


def selective_scan_2d_naive(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    directions: tuple[Direction, ...],
    softplus: bool,
) -> Tensor:
    """Scan along one axis of the grid after the other, in the precision of the arguments.

    Parameters
    ----------
    x : Tensor of shape (b, H, W, D)
        Inputs, shared by the directions. For (H, W), here and below, any number of axes may stand.
    dt : Tensor of shape (b, H, W, K, D)
        Step sizes, before the softplus if there is one.
    A : Tensor of shape (K, D, N)
        Decay rates, negative.
    B, C : Tensor of shape (b, H, W, K, N)
        Input and output maps.
    D, dt_bias : Tensor of shape (K, D) or None
        Skip from input to output, and what is added to dt before the softplus.
    R : Tensor of shape (K, D, N) or None
        Share of the own cell's input that is taken off the state before y is read; None means zero.
    directions : tuple of K tuples of int
        Signed axes of the passes in turn, each axis of the grid once.
    softplus : bool
        Whether the steps are softplus(dt + dt_bias).

    Returns
    -------
    Tensor of shape (b, H, W, D)
        Outputs, summed over the directions.

    Examples
    --------
    >>> import torch
    >>> from skop.ops.selective_scan_2d._naive import selective_scan_2d_naive
    >>> one, halving = torch.ones(1, 2, 2, 1, 1), torch.full((1, 1, 1), 0.5).log()
    >>> options = None, None, None, ((2, 1),), False
    >>> selective_scan_2d_naive(one[..., 0, :], one, halving, one, one, *options)[0, ..., 0]
    tensor([[1.0000, 1.5000],
            [1.5000, 2.2500]])
    """
    steps = step_sizes(dt, dt_bias, softplus)
    total = torch.zeros_like(x) if D is None else D.sum(0) * x
    for k, direction in enumerate(directions):
        u, step, b, c = (oriented(values, direction) for values in (x, steps[..., k, :], B[..., k, :], C[..., k, :]))
        decays = torch.exp(step.unsqueeze(-1) * A[k])
        updates = (step * u).unsqueeze(-1) * b.unsqueeze(-2)
        states = updates
        for dim in reversed(range(1, x.ndim - 1)):
            states = _accumulate(decays, states, dim)
        seen = states if R is None else states - R[k] * updates
        total = total + oriented((seen * c.unsqueeze(-2)).sum(-1), direction, back=True)
    return total


def oriented(values: Tensor, direction: Direction, back: bool = False) -> Tensor:
    """Turn a grid so that the first pass runs along its last axis, the next along the one before, all forwards.

    Parameters
    ----------
    values : Tensor of shape (b, H, W, ...)
        Values on the grid, of as many axes as the direction has; with `back`, on the turned grid.
    direction : tuple of int
        Signed axes of the passes in turn.
    back : bool, default False
        Whether to undo the turn.

    Returns
    -------
    Tensor of shape (b, H, W, ...) or (b, W, H, ...)
        A view or a copy, its axes those of the passes from the last to the first.

    Examples
    --------
    >>> import torch
    >>> from skop.ops.selective_scan_2d._naive import oriented
    >>> oriented(torch.tensor([[[1, 2], [3, 4]]]), (-1, 2))[0]
    tensor([[3, 1],
            [4, 2]])
    """
    places, axes = tuple(range(1, len(direction) + 1)), tuple(map(abs, reversed(direction)))
    backwards = [-axis for axis in direction if axis < 0]
    if back:
        values = values.movedim(places, axes)
        return values.flip(backwards) if backwards else values
    values = values.flip(backwards) if backwards else values
    return values.movedim(axes, places)


def _accumulate(decays: Tensor, updates: Tensor, dim: int) -> Tensor:
    """Run state = decay * state + update along an axis, from a state of zero."""
    state, states = torch.zeros_like(updates.select(dim, 0)), []
    for decay, update in zip(decays.unbind(dim), updates.unbind(dim), strict=True):
        state = decay * state + update
        states.append(state)
    return torch.stack(states, dim)
