"""The state-space-dual scan of Mamba-2: one scalar decay for each head and token."""

from collections.abc import Sequence
from functools import reduce as fold
from typing import Literal, overload

import torch
from torch import Tensor

from skop.ops.ssd_scan._naive import ssd_scan_naive
from skop.ops.ssd_scan._torch import autocast_off, ssd_scan_torch

__all__ = ["ssd_scan"]


@overload
def ssd_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    *,
    initial_state: Tensor | None = None,
    mask: Tensor | None = None,
    reverse: bool | Sequence[bool] = False,
    chunk_size: int = 64,
    return_final_state: Literal[False] = False,
    backend: str | None = None,
) -> Tensor: ...


@overload
def ssd_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    *,
    initial_state: Tensor | None = None,
    mask: Tensor | None = None,
    reverse: bool | Sequence[bool] = False,
    chunk_size: int = 64,
    return_final_state: Literal[True],
    backend: str | None = None,
) -> tuple[Tensor, Tensor]: ...


def ssd_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    *,
    initial_state: Tensor | None = None,
    mask: Tensor | None = None,
    reverse: bool | Sequence[bool] = False,
    chunk_size: int = 64,
    return_final_state: bool = False,
    backend: str | None = None,
) -> Tensor | tuple[Tensor, Tensor | None]:
    """Scan a sequence with a linear state-space recurrence, one scalar decay per head and token.

    For each head, with h_0 the initial state and t counted in the direction of the scan::

        h_t = exp(dt_t A) h_{t-1} + dt_t x_t B_tᵀ        (head_dim, d_state)
        y_t = h_t C_t + D x_t                            (head_dim,)

    This is Mamba-2's recurrence [1]_, with the Euler rule for B as in LaMO [2]_, Eq. 5. Time and
    memory are linear in the length. States and decays are held in float32 at least, under autocast
    too; the gradients of all tensors are exact.

    Parameters
    ----------
    x : Tensor of shape (batch, length, heads, head_dim)
        Inputs, floating point.
    dt : Tensor of shape (batch, length, heads)
        Step sizes, not negative: after the softplus.
    A : Tensor of shape (heads,)
        Decay rates, negative.
    B, C : Tensor of shape (batch, length, groups, d_state)
        Input and output maps. The heads are a multiple of the groups, and head ``i`` uses group
        ``i // (heads // groups)``.
    D : Tensor of shape (heads,) or (heads, head_dim), optional
        Skip from the input to the output; none by default.
    initial_state : Tensor of shape (batch, heads, head_dim, d_state), optional
        State before the first token scanned; zero by default.
    mask : bool Tensor of shape (batch, length), optional
        True at real tokens. The others leave the state as it is and their y is 0; what x, dt, B and
        C hold there has no influence. By default all tokens are real.
    reverse : bool or sequence of bool, one per group, default False
        True scans from the last token to the first; y stays in the order of x. A sequence gives the
        direction of each group of heads.
    chunk_size : int, default 64
        Most tokens that are treated as one dense matrix, at least 1; LaMO and Mamba-2 use 64 to 256.
        It affects speed, memory and rounding.
    return_final_state : bool, default False
        Whether to return the final state too.
    backend : {None, "torch", "naive"}, default None
        ``"torch"`` is the chunked matrix form, ``"naive"`` the recurrence token by token, slow, for
        reference. None chooses ``"torch"``.

    Returns
    -------
    y : Tensor of shape (batch, length, heads, head_dim)
        Outputs, in the dtype of x.
    final_state : Tensor of shape (batch, heads, head_dim, d_state)
        State after the last token scanned (the first of the sequence where the scan is reversed), in
        the dtype of the computation. Only if `return_final_state` is True.

    Raises
    ------
    ValueError
        If a shape, a dtype or an option does not fit.

    References
    ----------
    .. [1] T. Dao and A. Gu, "Transformers are SSMs: generalized models and efficient algorithms through
       structured state space duality", ICML 2024, arXiv:2405.21060.
    .. [2] K. Tiwari et al., "Latent Mamba operator for partial differential equations", ICML 2025.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import ssd_scan
    >>> one = torch.ones(1, 3, 1, 1)
    >>> halving = torch.tensor([0.5]).log()
    >>> ssd_scan(one, one[..., 0], halving, one, one).flatten()
    tensor([1.0000, 1.5000, 1.7500])
    >>> ssd_scan(one, one[..., 0], halving, one, one, reverse=True).flatten()
    tensor([1.7500, 1.5000, 1.0000])
    """
    _check_shapes(x, dt, A, B, C, D, initial_state, mask)
    directions = _check_options(reverse, chunk_size, backend, groups=B.shape[2])
    given = (x, dt, A, B, C, D, initial_state)
    dtype = fold(torch.promote_types, (value.dtype for value in given if value is not None), torch.float32)
    with autocast_off(x.device):
        u, step, b, c = (_zero_unless(mask, value.to(dtype)) for value in (x, dt, B, C))
        a = A.to(dtype)
        skip = None if D is None else D.to(dtype).reshape(x.shape[2], -1)
        start = None if initial_state is None else initial_state.to(dtype)
        end: Tensor | None
        if backend == "naive":
            y, end = ssd_scan_naive(u, step, a, b, c, skip, start, directions)
        else:
            y, end = ssd_scan_torch(u, step, a, b, c, skip, start, directions, chunk_size, return_final_state)
    y = y.to(x.dtype)
    return (y, end) if return_final_state else y


def _zero_unless(mask: Tensor | None, values: Tensor) -> Tensor:
    """Set (batch, length, ...) to zero where the mask (batch, length) is False: a neutral token."""
    if mask is None:
        return values
    return values.masked_fill(~mask.view(*mask.shape, *(1,) * (values.ndim - 2)), 0.0)


def _check_shapes(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
    mask: Tensor | None,
) -> None:
    """Raise ValueError where shapes or dtypes do not fit together."""
    for name, value, axes in (("x", x, "heads, head_dim"), ("B", B, "groups, d_state")):
        if value.ndim != 4 or 0 in value.shape:
            came = tuple(value.shape)
            raise ValueError(f"{name} has shape {came}; expected (batch, length, {axes}), none of them 0.")
    batch, length, heads, head_dim = x.shape
    groups, d_state = B.shape[2:]
    if heads % groups:
        raise ValueError(f"x has {heads} heads and B has {groups} groups; expected a multiple of the groups.")
    _expect_shape("dt", dt, "(batch, length, heads)", (batch, length, heads))
    _expect_shape("A", A, "(heads,)", (heads,))
    _expect_shape("B", B, "(batch, length, groups, d_state)", (batch, length, groups, d_state))
    _expect_shape("C", C, "the shape of B", (batch, length, groups, d_state))
    if D is not None and D.shape != (heads,):
        _expect_shape("D", D, "(heads,) or (heads, head_dim)", (heads, head_dim))
    if initial_state is not None:
        expected = (batch, heads, head_dim, d_state)
        _expect_shape("initial_state", initial_state, "(batch, heads, head_dim, d_state)", expected)
    given = {"x": x, "dt": dt, "A": A, "B": B, "C": C, "D": D, "initial_state": initial_state}
    for name, tensor in given.items():
        if tensor is not None and not tensor.is_floating_point():
            raise ValueError(f"{name} has dtype {tensor.dtype}; expected a real floating-point dtype.")
    if mask is not None:
        _expect_shape("mask", mask, "(batch, length)", (batch, length))
        if mask.dtype != torch.bool:
            raise ValueError(f"mask has dtype {mask.dtype}; expected torch.bool, True at real tokens.")


def _expect_shape(name: str, value: Tensor, axes: str, expected: tuple[int, ...]) -> None:
    """Raise ValueError unless the tensor has the expected shape."""
    if value.shape != expected:
        raise ValueError(f"{name} has shape {tuple(value.shape)}; expected {axes} = {expected}.")


def _check_options(
    reverse: bool | Sequence[bool], chunk_size: int, backend: str | None, *, groups: int
) -> tuple[bool, ...]:
    """Direction of each group, or ValueError where an option does not fit."""
    if not isinstance(chunk_size, int) or chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size!r}; expected an integer of at least 1.")
    if backend not in (None, "torch", "naive"):
        raise ValueError(f"backend is {backend!r}; expected None, 'torch' or 'naive'.")
    directions = (reverse,) * groups if isinstance(reverse, bool) else tuple(reverse)
    if len(directions) != groups or not all(isinstance(direction, bool) for direction in directions):
        raise ValueError(f"reverse is {reverse!r}; expected a bool, or one for each of the {groups} groups.")
    return directions
