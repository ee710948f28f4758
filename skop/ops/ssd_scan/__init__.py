"""The state-space-dual scan of Mamba-2: one scalar decay for each head and token.

Notation, as in Mamba-2: x input, dt step, A decay rate, B and C input and output maps, D skip.
"""

from collections.abc import Sequence
from typing import Literal, overload

from torch import Tensor

from skop.ops._checks import (
    autocast_off,
    expect_axes,
    expect_floating,
    expect_mask,
    expect_one_device,
    expect_shape,
    fill_masked,
    narrow_dtype,
    working_dtype,
)
from skop.ops._dispatch import n_states, wants_gradients
from skop.ops._paths import CheckedPaths, check_paths, directions_of_groups, path_table
from skop.ops.ssd_scan._along_paths import path_scan_naive, path_scan_torch
from skop.ops.ssd_scan._naive import ssd_scan_naive
from skop.ops.ssd_scan._operation import SSD_SCAN
from skop.ops.ssd_scan._pairs import scan_pairs
from skop.ops.ssd_scan._torch import ssd_scan_torch

__all__ = ["ssd_scan"]

#: Up to this many tokens plain torch forms all pairs at once along paths in opposite pairs: the pairs then cost
#: less than the gathers and the chunk loop that they replace.
_PAIRS_TOKENS = 128


@overload
def ssd_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    *,
    paths: Tensor | None = None,
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
    paths: Tensor | None = None,
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
    paths: Tensor | None = None,
    initial_state: Tensor | None = None,
    mask: Tensor | None = None,
    reverse: bool | Sequence[bool] = False,
    chunk_size: int = 64,
    return_final_state: bool = False,
    backend: str | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Scan a sequence with a linear state-space recurrence, one scalar decay per head and token.

    For each head, with h_0 the initial state and t counted in the direction of the scan::

        h_t = exp(dt_t A) h_{t-1} + dt_t x_t B_tᵀ        (head_dim, d_state)
        y_t = h_t C_t + D x_t                            (head_dim,)

    This is Mamba-2's recurrence [1]_, with the Euler rule for B as in LaMO [2]_, Eq. 5. Time and
    memory are linear in the length. States and decays are held in float32 at least, under autocast
    too; the gradients of all tensors are exact.

    With `paths` the same tokens are scanned along several paths and the outputs are added: path k visits
    the tokens in the order ``paths[k]`` with its own steps, decays and skip. This is the sum over
    directions in LaMO's Eq. 13. Some arguments then have an axis of paths, as stated for each.

    Parameters
    ----------
    x : Tensor of shape (batch, length, heads, head_dim)
        Inputs, floating point; shared by all paths.
    dt : Tensor of shape (batch, length, heads)
        Step sizes, not negative: after the softplus. With paths (batch, length, n_paths, heads).
    A : Tensor of shape (heads,)
        Decay rates, negative. With paths (n_paths, heads).
    B, C : Tensor of shape (batch, length, groups, d_state)
        Input and output maps. The heads are a multiple of the groups, and head ``i`` uses group
        ``i // (heads // groups)``. With paths (batch, length, n_paths or 1, d_state): maps of each path,
        or of all, shared by the heads.
    D : Tensor of shape (heads,) or (heads, head_dim), optional
        Skip from the input to the output; none by default. With paths (n_paths, heads) or
        (n_paths, heads, head_dim).
    paths : int64 or int32 Tensor of shape (n_paths, length), optional
        Tokens in the order in which each path visits them: each row is a permutation. By default there
        is one sequence.
    initial_state : Tensor of shape (batch, heads, head_dim, d_state), optional
        State before the first token scanned; zero by default. With paths
        (batch, n_paths, heads, head_dim, d_state).
    mask : bool Tensor of shape (batch, length), optional
        True at real tokens. The others leave the state as it is and their y is 0; what x, dt, B and
        C hold there has no influence. By default all tokens are real.
    reverse : bool or sequence of bool, one per group, default False
        True scans from the last token to the first; y stays in the order of x. A sequence gives the
        direction of each group of heads. With paths it is False: a reversed path is a path of its own.
    chunk_size : int, default 64
        Most tokens that the form ``"torch"`` treats as one dense matrix, at least 1; LaMO and Mamba-2 use
        64 to 256. It affects speed, memory and rounding.
    return_final_state : bool, default False
        Whether to return the final state too.
    backend : {None, "naive", "torch", "numba", "triton", "mamba_ssm"}, default None
        ``"numba"`` and ``"triton"`` are fused kernels for CPU and CUDA, ``"mamba_ssm"`` is that package's
        for CUDA, ``"torch"`` is a matrix form in plain torch anywhere (in chunks; all pairs of tokens for
        up to 128 tokens along paths in opposite pairs), ``"naive"`` the recurrence token by token, slow,
        for reference. None takes the environment variable SKOP_BACKEND, or else the kernel of the device;
        plain torch for a small scan on a CPU.

    Returns
    -------
    y : Tensor of shape (batch, length, heads, head_dim)
        Outputs, in the dtype of x.
    final_state : Tensor of shape (batch, heads, head_dim, d_state)
        State after the last token scanned (the first of the sequence where the scan is reversed), in
        the dtype of the computation; with paths (batch, n_paths, heads, head_dim, d_state). Only if
        `return_final_state` is True.

    Raises
    ------
    ValueError
        If a shape, a dtype or an option does not fit, or a path is no permutation.

    References
    ----------
    .. [1] T. Dao and A. Gu, "Transformers are SSMs: generalized models and efficient algorithms through
       structured state space duality", ICML 2024, arXiv:2405.21060.
    .. [2] K. Tiwari et al., "Latent Mamba operator for partial differential equations", ICML 2025, Eqs. 5
       and 13.

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
    >>> there_and_back = torch.tensor([[0, 1, 2], [2, 1, 0]])
    >>> dt, maps = torch.ones(1, 3, 2, 1), torch.ones(1, 3, 1, 1)
    >>> ssd_scan(one, dt, halving.expand(2, 1), maps, maps, paths=there_and_back).flatten()
    tensor([2.7500, 3.0000, 2.7500])
    """
    _check(x, dt, A, B, C, D, initial_state, mask, along_paths=paths is not None)
    _check_chunk_size(chunk_size)
    if paths is not None and reverse is not False:
        raise ValueError(f"reverse is {reverse!r}; with paths expected False: add the reversed path to the paths.")
    dtype = working_dtype(x, dt, A, B, C, D, initial_state)
    narrow = narrow_dtype(dtype, x, B, C)
    inputs = x if paths is None else x.unsqueeze(2)
    name = SSD_SCAN.choose(
        backend,
        x.device,
        narrow,
        states=n_states(inputs, dt, B),
        gradients=wants_gradients((x, dt, A, B, C, D, initial_state)),
    )
    kind = dtype if name in SSD_SCAN.plain else narrow  # the plain forms need one precision
    chunks = (chunk_size, return_final_state)
    with autocast_off(x.device):
        u, b, c = (fill_masked(values.to(kind), mask) for values in (inputs, B, C))
        step, a = fill_masked(dt.to(dtype), mask), A.to(dtype)
        skip = None if D is None else D.to(dtype).reshape(*A.shape, -1)
        start = None if initial_state is None else initial_state.to(dtype)
        if paths is None:
            directions = directions_of_groups(reverse, B.shape[2])
            y, end = _scan_groups(name, backend, u, step, a, b, c, skip, start, directions, *chunks)
        else:
            checked = check_paths(paths, dt.shape[2], x.shape[1], x.device)
            y, end = _scan_paths(name, backend, u, step, a, b, c, skip, start, checked, *chunks)
            y = y.squeeze(2)
    y = y.to(x.dtype)
    return (y, end) if end is not None and return_final_state else y


def _scan_groups(
    name: str,
    backend: str | None,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
    directions: tuple[bool, ...],
    chunk_size: int,
    return_final_state: bool,
) -> tuple[Tensor, Tensor | None]:
    """Scan groups of heads: the plain forms turn them around by themselves, to a kernel each is a path."""
    if name == "naive":
        return ssd_scan_naive(x, dt, A, B, C, D, initial_state, directions)
    if name == "torch":
        return ssd_scan_torch(x, dt, A, B, C, D, initial_state, directions, chunk_size, return_final_state)
    groups = (len(directions), -1)
    skip = None if D is None else D.unflatten(0, groups)
    start = None if initial_state is None else initial_state.unflatten(1, groups)
    order = path_table(x.shape[1], directions, x.device)
    y, end = SSD_SCAN.run(
        backend, x.unflatten(2, groups), dt.unflatten(2, groups), A.unflatten(0, groups), B, C, skip, start, order
    )
    return y.flatten(2, 3), end.flatten(1, 2)


def _scan_paths(
    name: str,
    backend: str | None,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
    paths: CheckedPaths,
    chunk_size: int,
    return_final_state: bool,
) -> tuple[Tensor, Tensor | None]:
    """Scan along paths that share x, and add the outputs."""
    few = paths.in_opposite_pairs and x.shape[1] <= _PAIRS_TOKENS
    if name == "torch" and few and initial_state is None and not return_final_state:
        signal = x.squeeze(2)
        y = scan_pairs(signal, dt, A, B, C, paths.order.long())
        return (y if D is None else y + signal * D.sum(0)).unsqueeze(2), None
    core = (x, dt, A, B, C, D, initial_state, paths.order)
    if name == "torch":
        return path_scan_torch(*core, chunk_size)
    y, end = path_scan_naive(*core) if name == "naive" else SSD_SCAN.run(backend, *core)
    return y, end


def _check(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
    mask: Tensor | None,
    *,
    along_paths: bool,
) -> None:
    """Raise ValueError where shapes, dtypes or devices do not fit together."""
    expect_axes("x", x, "batch, length, heads, head_dim")
    batch, length, heads, head_dim = x.shape
    paths: tuple[int, ...] = ()
    if along_paths:
        expect_axes("dt", dt, "batch, length, n_paths, heads")
        expect_axes("B", B, "batch, length, n_paths or 1, d_state")
        paths, names, rows = (dt.shape[2],), "n_paths, ", "n_paths or 1"
        groups = 1 if B.shape[2] == 1 else dt.shape[2]
    else:
        expect_axes("B", B, "batch, length, groups, d_state")
        names, rows, groups = "", "groups", B.shape[2]
        if heads % groups:
            raise ValueError(f"x has {heads} heads and B has {groups} groups; expected a multiple of the groups.")
    d_state = B.shape[3]
    expect_shape("dt", dt, f"(batch, length, {names}heads)", (batch, length, *paths, heads))
    expect_shape("A", A, f"({names}heads)" if paths else "(heads,)", (*paths, heads))
    expect_shape("B", B, f"(batch, length, {rows}, d_state)", (batch, length, groups, d_state))
    expect_shape("C", C, "the shape of B", (batch, length, groups, d_state))
    if D is not None and D.shape != (*paths, heads):
        either = f"({names}heads) or ({names}heads, head_dim)" if paths else "(heads,) or (heads, head_dim)"
        expect_shape("D", D, either, (*paths, heads, head_dim))
    if initial_state is not None:
        expected = (batch, *paths, heads, head_dim, d_state)
        expect_shape("initial_state", initial_state, f"(batch, {names}heads, head_dim, d_state)", expected)
    given = {"x": x, "dt": dt, "A": A, "B": B, "C": C, "D": D, "initial_state": initial_state}
    expect_floating(given)
    expect_mask(mask, "(batch, length)", (batch, length))
    expect_one_device(given | {"mask": mask})


def _check_chunk_size(chunk_size: int) -> None:
    """Raise ValueError unless it is a positive integer."""
    if not isinstance(chunk_size, int) or chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size!r}; expected an integer of at least 1.")
