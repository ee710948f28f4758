"""The selective scan of Mamba (S6): one decay for each channel, state and token.

Notation, as in Mamba: x input, dt step, A decay rate, B input map, C output map, D skip, R share of the
own token's input that y does not see, y output.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal, overload

from torch import Tensor

from skop.ops._arguments import by_group, check
from skop.ops._dispatch import Operation
from skop.ops._paths import check_paths, directions_of_groups, path_table
from skop.ops._selective import N_TENSORS, Arguments, axes, example, scan
from skop.ops.selective_scan._naive import selective_scan_naive
from skop.ops.selective_scan._torch import selective_scan_torch

__all__ = ["selective_scan"]

SELECTIVE_SCAN = Operation(
    "selective_scan",
    {"naive": selective_scan_naive, "torch": selective_scan_torch},
    N_TENSORS,
    partial(example, 70),  # longer than a chunk of any kernel
    small=2**12,
    traceable="torch",
)


@overload
def selective_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, *, paths: Tensor | None = None,
    dt_bias: Tensor | None = None, dt_softplus: bool = False, R: Tensor | None = None, correction: str = "state",
    initial_state: Tensor | None = None, mask: Tensor | None = None, reverse: bool | Sequence[bool] = False,
    return_final_state: Literal[False] = False, backend: str | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def selective_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, *, paths: Tensor | None = None,
    dt_bias: Tensor | None = None, dt_softplus: bool = False, R: Tensor | None = None, correction: str = "state",
    initial_state: Tensor | None = None, mask: Tensor | None = None, reverse: bool | Sequence[bool] = False,
    return_final_state: Literal[True], backend: str | None = None,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def selective_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    *,
    paths: Tensor | None = None,
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    R: Tensor | None = None,
    correction: str = "state",
    initial_state: Tensor | None = None,
    mask: Tensor | None = None,
    reverse: bool | Sequence[bool] = False,
    return_final_state: bool = False,
    backend: str | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Scan a sequence with a linear state-space recurrence, one decay per channel, state and token.

    For each channel c and state n, with h_0 the initial state, t counted in the direction of the scan
    and dt' = softplus(dt + dt_bias) or dt + dt_bias::

        h_t[c, n] = exp(dt'_t[c] A[c, n]) h_{t-1}[c, n] + dt'_t[c] B_t[n] x_t[c]
        y_t[c] = sum over n of C_t[n] (h_t[c, n] - R[c, n] dt'_t[c] B_t[n] x_t[c])  +  D[c] x_t[c]

    This is Mamba's recurrence [1]_, with the correction R of GeoMaNO [2]_ at the state: 1 takes the own
    token off the state, so that y sees it through D only. Time and memory are linear in the length.
    States and decays are held in float32 at least, under autocast too; all gradients are exact.

    With `paths` the same tokens are scanned along several paths and the outputs are added: path k visits
    the tokens in the order ``paths[k]`` with its own steps, decays, maps and skip. With four paths over the
    points of a grid, by rows and by columns, forwards and backwards, this is the cross scan of VMamba [3]_;
    with one path and its reverse it is the bidirectional scan of MNO [4]_. Some arguments then have an axis
    of paths, as stated for each.

    Parameters
    ----------
    x : Tensor of shape (batch, length, channels)
        Inputs, floating point; shared by all paths.
    dt : Tensor of shape (batch, length, channels)
        Step sizes: not negative once the bias is added, unless the softplus follows. With paths
        (batch, length, n_paths, channels).
    A : Tensor of shape (channels, d_state)
        Decay rates, negative; Mamba starts from -1, ..., -d_state. With paths
        (n_paths, channels, d_state).
    B, C : Tensor of shape (batch, length, groups, d_state)
        Input and output maps. The channels are a multiple of the groups, and channel ``c`` uses group
        ``c // (channels // groups)``; Mamba has one group. With paths (batch, length, n_paths, d_state):
        maps of each path, shared by the channels.
    D : Tensor of shape (channels,), optional
        Skip from the input to the output; none by default. With paths (n_paths, channels).
    paths : int64 or int32 Tensor of shape (n_paths, length), optional
        Tokens in the order in which each path visits them: each row is a permutation. By default there
        is one sequence.
    dt_bias : Tensor of shape (channels,), optional
        Bias of dt; none by default. With paths (n_paths, channels).
    dt_softplus : bool, default False
        Whether the steps are the softplus of dt + dt_bias, as in Mamba.
    R : Tensor of shape (channels, d_state), optional
        Share of the own token's input that is taken off the state before y is read, 0 to 1; none by
        default. With paths (n_paths, channels, d_state).
    correction : {"state", "output", "input"}, default "state"
        What R is a share of. ``"state"`` is the formula above; ``"output"`` takes R dt' B x off each
        term of y, without C, as Eq. 9 prints it; ``"input"`` takes C R x off, without dt' B, as line 24
        of Algorithm 2 prints it. Without R it has no effect.
    initial_state : Tensor of shape (batch, channels, d_state), optional
        State before the first token scanned; zero by default. With paths
        (batch, n_paths, channels, d_state).
    mask : bool Tensor of shape (batch, length), optional
        True at real tokens. The others leave the state as it is and their y is 0; what x, dt, B and
        C hold there has no influence. By default all tokens are real.
    reverse : bool or sequence of bool, one per group, default False
        True scans from the last token to the first; y stays in the order of x. A sequence gives the
        direction of each group of channels. With paths it is False: a reversed path is a path of its own.
    return_final_state : bool, default False
        Whether to return the final state too.
    backend : {None, "naive", "torch", "numba", "triton", "mamba_ssm"}, default None
        ``"numba"`` and ``"triton"`` are fused kernels for CPU and CUDA, ``"mamba_ssm"`` is that package's
        for CUDA, without an initial state; ``"torch"`` works in blocks in plain torch anywhere,
        ``"naive"`` is the recurrence token by token, slow, for reference. None takes the environment
        variable SKOP_BACKEND, or else the kernel of the device; plain torch for a small scan on a CPU.

    Returns
    -------
    y : Tensor of shape (batch, length, channels)
        Outputs, in the dtype of x.
    final_state : Tensor of shape (batch, channels, d_state)
        State after the last token scanned (the first of the sequence where the scan is reversed), in
        the dtype of the computation; with paths (batch, n_paths, channels, d_state). Only if
        `return_final_state` is True.

    Raises
    ------
    ValueError
        If a shape, a dtype, a device or an option does not fit, or a path is no permutation.

    References
    ----------
    .. [1] A. Gu and T. Dao, "Mamba: linear-time sequence modeling with selective state spaces", 2023,
       arXiv:2312.00752, Algorithm 2.
    .. [2] X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for
       partial differential equations", 2025, section 4.3, Eq. 9 and Algorithm 2.
    .. [3] Y. Liu et al., "VMamba: visual state space model", NeurIPS 2024, arXiv:2401.10166.
    .. [4] C.-W. Cheng et al., "Mamba neural operator: who wins? Transformers vs. state-space models for
       PDEs", 2024.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import selective_scan
    >>> one, halving = torch.ones(1, 3, 1), torch.tensor([[0.5]]).log()
    >>> maps = one.unsqueeze(-1)
    >>> selective_scan(one, one, halving, maps, maps).flatten()
    tensor([1.0000, 1.5000, 1.7500])
    >>> selective_scan(one, one, halving, maps, maps, R=torch.ones(1, 1)).flatten()
    tensor([0.0000, 0.5000, 0.7500])
    >>> there_and_back = torch.tensor([[0, 1, 2], [2, 1, 0]])
    >>> dt, maps = torch.ones(1, 3, 2, 1), torch.ones(1, 3, 2, 1)
    >>> selective_scan(one, dt, halving.expand(2, 1, 1), maps, maps, paths=there_and_back).flatten()
    tensor([2.7500, 3.0000, 2.7500])
    """
    given = Arguments(x, dt, A, B, C, D, dt_bias, R, initial_state, (), dt_softplus)
    check(given, mask, axes("length", None if paths is None else "n_paths"))
    if paths is None:
        order = path_table(x.shape[1], directions_of_groups(reverse, B.shape[2]), x.device)
        given = by_group(given)._replace(order=order)
    elif reverse is not False:
        raise ValueError(f"reverse is {reverse!r}; with paths expected False: add the reversed path to the paths.")
    else:
        order = check_paths(paths, dt.shape[2], x.shape[1], x.device).order
        given = given._replace(x=x.unsqueeze(2), order=order)
    y, end = scan(SELECTIVE_SCAN, backend, given, correction, mask)
    y, end = y.flatten(2), end.flatten(1, 2) if paths is None else end
    return (y, end) if return_final_state else y
