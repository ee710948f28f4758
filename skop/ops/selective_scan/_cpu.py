"""Fused CPU kernels of `skop.ops.selective_scan`: what they are given, and what becomes of their results.

Notation: b batch, L length, K paths, D channels of a path, N states of a channel, S splits of the
channels between work items.
"""

from torch import Tensor

from skop.ops._cpu_selective import SelectiveScan, Walk

__all__ = ["backward", "forward"]

#: Tokens of a tile of a path.
_TILE = 32


def forward(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    initial_state: Tensor | None,
    paths: Tensor,
    softplus: bool,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Scan; arguments as in `skop.ops.selective_scan._naive.selective_scan_naive`.

    Parameters
    ----------
    x, dt, A, B, C, D, dt_bias, R, initial_state, paths, softplus
        x, B and C in float32, float64 or bfloat16, the others in float32 (float64 if x is).
    keep : bool
        Whether to return the checkpoints.

    Returns
    -------
    y : Tensor of shape (b, L, 1 or K, D)
        Outputs, in the dtype of x.
    final_state : Tensor of shape (b, K, D, N)
        States after the last tokens.
    checkpoints : Tensor or None
        States that enter each chunk, for `backward`.

    Examples
    --------
    >>> import torch
    >>> from skop.ops.selective_scan._cpu import forward
    >>> one, path = torch.ones(1, 3, 1, 1), torch.tensor([[2, 1, 0]], dtype=torch.int32)
    >>> halving = torch.full((1, 1, 1), 0.5).log()
    >>> y, state, _ = forward(one, one, halving, one, one, None, None, None, None, path, False, False)
    >>> y.flatten(), state.flatten()
    (tensor([1.7500, 1.5000, 1.0000]), tensor([1.7500]))
    """
    problem = _problem(x, dt, A, B, C, D, dt_bias, R, initial_state, paths, softplus)
    y, final, kept = problem.forward(keep=keep)
    return y.to(x.dtype), final, kept


def backward(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    initial_state: Tensor | None,
    paths: Tensor,
    softplus: bool,
    checkpoints: Tensor,
    grad_y: Tensor,
    grad_final: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """Gradients of what `forward` was given.

    Parameters
    ----------
    x, dt, A, B, C, D, dt_bias, R, initial_state, paths, softplus
        As given to `forward`.
    checkpoints : Tensor
        From `forward`.
    grad_y : Tensor of shape (b, L, 1 or K, D)
        Gradient of the outputs.
    grad_final : Tensor of shape (b, K, D, N) or None
        Gradient of the final states; None where they have no influence.

    Returns
    -------
    tuple of Tensor or None
        Gradients of x, dt, A, B, C, D, dt_bias, R and initial_state; None for what was None.

    Examples
    --------
    >>> import torch
    >>> from skop.ops.selective_scan._cpu import backward, forward
    >>> one, path = torch.ones(1, 3, 1, 1), torch.tensor([[0, 1, 2]], dtype=torch.int32)
    >>> halving = torch.full((1, 1, 1), 0.5).log()
    >>> arguments = (one, one, halving, one, one, None, None, None, None, path, False)
    >>> _, _, kept = forward(*arguments, True)
    >>> backward(*arguments, kept, one, None)[0].flatten()
    tensor([1.7500, 1.5000, 1.0000])
    """
    problem = _problem(x, dt, A, B, C, D, dt_bias, R, initial_state, paths, softplus)
    grad_x, grad_dt, grad_a, grad_b, grad_c, *rest = problem.backward(checkpoints, grad_y, grad_final)
    return grad_x.to(x.dtype), grad_dt, grad_a, grad_b.to(B.dtype), grad_c.to(C.dtype), *rest


def _problem(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    initial_state: Tensor | None,
    paths: Tensor,
    softplus: bool,
) -> SelectiveScan:
    """The scan in the form that its kernels read: each path is one line."""
    walks = [Walk(dt.shape[1], 1, _TILE, 1, 1)] * len(paths)
    return SelectiveScan(
        x, dt, A, B, C, D, dt_bias, R, initial_state, paths, walks, softplus, is_grid=False
    )  # fmt: skip
