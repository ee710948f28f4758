"""The state-space-dual scan of Mamba-2: one scalar decay for each head and token.

Notation, as in Mamba-2: x input, dt step, A decay rate, B and C input and output maps, D skip.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, overload

from torch import Tensor

from skop.ops._arguments import autocast_off, by_group, check, fill_masked, in_working_precision
from skop.ops._paths import check_paths, directions_of_groups, path_table
from skop.ops.ssd_scan._operation import SSD_SCAN, Arguments

__all__ = ["ssd_scan"]


@overload
def ssd_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, *, paths: Tensor | None = None,
    initial_state: Tensor | None = None, mask: Tensor | None = None, reverse: bool | Sequence[bool] = False,
    chunk_size: int = 64, return_final_state: Literal[False] = False, backend: str | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def ssd_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, *, paths: Tensor | None = None,
    initial_state: Tensor | None = None, mask: Tensor | None = None, reverse: bool | Sequence[bool] = False,
    chunk_size: int = 64, return_final_state: Literal[True], backend: str | None = None,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
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
    options: dict[str, Any] = {"paths": paths, "chunk_size": chunk_size, "needs_final_state": return_final_state}
    given = Arguments(x, dt, A, B, C, D, initial_state, **options)
    check(given, mask, _axes("" if paths is None else "n_paths, "))
    if not isinstance(chunk_size, int) or chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size!r}; expected an integer of at least 1.")
    given = given._replace(D=None if D is None else D.reshape(*A.shape, -1))
    if paths is None:
        directions = directions_of_groups(reverse, B.shape[2])
        given = by_group(given)._replace(paths=path_table(x.shape[1], directions, x.device), directions=directions)
    elif reverse is not False:
        raise ValueError(f"reverse is {reverse!r}; with paths expected False: add the reversed path to the paths.")
    else:
        checked = check_paths(paths, dt.shape[2], x.shape[1], x.device)
        given = given._replace(x=x.unsqueeze(2), paths=checked.order, in_opposite_pairs=checked.in_opposite_pairs)
    with autocast_off(x.device):
        y, end = SSD_SCAN.run(backend, fill_masked(in_working_precision(given), mask))
    y = y.flatten(2, 3).to(x.dtype)
    if not return_final_state:
        return y
    return y, end.flatten(1, 2) if paths is None else end


@cache
def _axes(each: str) -> dict[str, str]:
    """Axes of the arguments by name; `each` is the axis of the paths, if there are any."""
    maps = f"batch, length, {'n_paths or 1' if each else 'groups'}, d_state"
    return {
        "x": "batch, length, heads, head_dim", "dt": f"batch, length, {each}heads", "B": maps, "C": maps,
        "A": f"{each}heads", "D": f"{each}heads | {each}heads, head_dim",
        "initial_state": f"batch, {each}heads, head_dim, d_state", "mask": "batch, length",
    }  # fmt: skip
