"""The state-space-dual scan of Mamba-2: one scalar decay for each head and token."""

from collections.abc import Sequence
from typing import Literal, overload

from torch import Tensor

from skop.ops._checks import (
    expect_axes,
    expect_floating,
    expect_mask,
    expect_one_device,
    expect_shape,
    fill_masked,
    narrow_dtype,
    working_dtype,
)
from skop.ops._paths import directions_of_groups, path_table
from skop.ops.ssd_scan._naive import ssd_scan_naive
from skop.ops.ssd_scan._operation import SSD_SCAN
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
        Most tokens that the form ``"torch"`` treats as one dense matrix, at least 1; LaMO and Mamba-2 use
        64 to 256. It affects speed, memory and rounding.
    return_final_state : bool, default False
        Whether to return the final state too.
    backend : {None, "naive", "torch", "numba", "triton", "mamba_ssm"}, default None
        ``"numba"`` and ``"triton"`` are fused kernels for CPU and CUDA, ``"mamba_ssm"`` is that package's
        for CUDA, ``"torch"`` is the chunked matrix form in plain torch anywhere, ``"naive"`` the recurrence
        token by token, slow, for reference. None takes the environment variable SKOP_BACKEND, or else the
        kernel of the device: on CUDA the faster one, as measured, where mamba_ssm is installed.

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
    _check_chunk_size(chunk_size)
    directions = directions_of_groups(reverse, B.shape[2])
    dtype = working_dtype(x, dt, A, B, C, D, initial_state)
    narrow = narrow_dtype(dtype, x, B, C)
    name = SSD_SCAN.choose(backend, x.device, narrow)
    # The plain forms need one precision, and turn groups around by themselves.
    kind = dtype if name in SSD_SCAN.plain else narrow
    with autocast_off(x.device):
        u, step, b, c = (fill_masked(v.to(k), mask) for v, k in ((x, kind), (dt, dtype), (B, kind), (C, kind)))
        a = A.to(dtype)
        skip = None if D is None else D.to(dtype).reshape(x.shape[2], -1)
        start = None if initial_state is None else initial_state.to(dtype)
        end: Tensor | None
        if name == "naive":
            y, end = ssd_scan_naive(u, step, a, b, c, skip, start, directions)
        elif name == "torch":
            y, end = ssd_scan_torch(u, step, a, b, c, skip, start, directions, chunk_size, return_final_state)
        else:
            y, end = _scan_groups(backend, u, step, a, b, c, skip, start, directions)
    y = y.to(x.dtype)
    return (y, end) if return_final_state else y


def _scan_groups(
    backend: str | None,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
    directions: tuple[bool, ...],
) -> tuple[Tensor, Tensor]:
    """Scan with a kernel, for which each group of heads is a path."""
    groups = (len(directions), -1)
    skip = None if D is None else D.unflatten(0, groups)
    start = None if initial_state is None else initial_state.unflatten(1, groups)
    paths = path_table(x.shape[1], directions, x.device)
    y, end = SSD_SCAN.run(
        backend, x.unflatten(2, groups), dt.unflatten(2, groups), A.unflatten(0, groups), B, C, skip, start, paths
    )
    return y.flatten(2, 3), end.flatten(1, 2)


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
    expect_axes("x", x, "batch, length, heads, head_dim")
    expect_axes("B", B, "batch, length, groups, d_state")
    batch, length, heads, head_dim = x.shape
    groups, d_state = B.shape[2:]
    if heads % groups:
        raise ValueError(f"x has {heads} heads and B has {groups} groups; expected a multiple of the groups.")
    expect_shape("dt", dt, "(batch, length, heads)", (batch, length, heads))
    expect_shape("A", A, "(heads,)", (heads,))
    expect_shape("B", B, "(batch, length, groups, d_state)", (batch, length, groups, d_state))
    expect_shape("C", C, "the shape of B", (batch, length, groups, d_state))
    if D is not None and D.shape != (heads,):
        expect_shape("D", D, "(heads,) or (heads, head_dim)", (heads, head_dim))
    if initial_state is not None:
        expected = (batch, heads, head_dim, d_state)
        expect_shape("initial_state", initial_state, "(batch, heads, head_dim, d_state)", expected)
    given = {"x": x, "dt": dt, "A": A, "B": B, "C": C, "D": D, "initial_state": initial_state}
    expect_floating(given)
    expect_mask(mask, "(batch, length)", (batch, length))
    expect_one_device(given | {"mask": mask})


def _check_chunk_size(chunk_size: int) -> None:
    """Raise ValueError unless it is a positive integer."""
    if not isinstance(chunk_size, int) or chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size!r}; expected an integer of at least 1.")
