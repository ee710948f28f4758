"""The selective scan of Mamba (S6): one decay for each channel, state and token.

Notation, as in Mamba: x input, dt step, A decay rate, B input map, C output map, D skip, R share of the
own token's input that y does not see, y output.
"""

from collections.abc import Sequence
from typing import Literal, overload

from torch import Tensor

from skop.ops._checks import autocast_off, expect_axes, expect_floating, expect_mask, expect_one_device, expect_shape
from skop.ops._paths import check_paths, directions_of_groups, path_table
from skop.ops._selective import Prepared, prepare, split_correction
from skop.ops.selective_scan._operation import SELECTIVE_SCAN

__all__ = ["selective_scan"]


@overload
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
    return_final_state: Literal[False] = False,
    backend: str | None = None,
) -> Tensor: ...


@overload
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
    return_final_state: Literal[True],
    backend: str | None = None,
) -> tuple[Tensor, Tensor]: ...


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
    _check(x, dt, A, B, C, D, dt_bias, R, initial_state, mask, along_paths=paths is not None)
    if paths is None:
        order = path_table(x.shape[1], directions_of_groups(reverse, B.shape[2]), x.device)
    elif reverse is not False:
        raise ValueError(f"reverse is {reverse!r}; with paths expected False: add the reversed path to the paths.")
    else:
        order = check_paths(paths, dt.shape[2], x.shape[1], x.device).order
    with autocast_off(x.device):
        core = prepare(x, dt, A, B, C, D, dt_bias, R, initial_state, mask, dt_softplus)
        core = core if paths is not None else _by_group(core)
        (u, *others), rest = split_correction(core, correction, dt_softplus)
        y, end = SELECTIVE_SCAN.run(backend, u if paths is None else u.unsqueeze(2), *others, order, dt_softplus)
        y = y if paths is None else y.squeeze(2)
        y = y if rest is None else y - rest
    if paths is None:
        y, end = y.flatten(2), end.flatten(1, 2)
    y = y.to(x.dtype)
    return (y, end) if return_final_state else y


def _by_group(given: Prepared) -> Prepared:
    """Give the channels of each group an axis, so that a group is a path with an x of its own."""
    groups = (given.B.shape[2], -1)
    start = None if given.initial_state is None else given.initial_state.unflatten(1, groups)
    weights = (given.D, given.dt_bias, given.R)
    skip, bias, share = (None if value is None else value.unflatten(0, groups) for value in weights)
    return Prepared(
        given.x.unflatten(2, groups),
        given.dt.unflatten(2, groups),
        given.A.unflatten(0, groups),
        given.B,
        given.C,
        skip,
        bias,
        share,
        start,
    )


def _check(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    initial_state: Tensor | None,
    mask: Tensor | None,
    *,
    along_paths: bool,
) -> None:
    """Raise ValueError where shapes, dtypes or devices do not fit together."""
    expect_axes("x", x, "batch, length, channels")
    rows = "n_paths" if along_paths else "groups"
    expect_axes("B", B, f"batch, length, {rows}, d_state")
    batch, length, channels = x.shape
    groups, states = B.shape[2:]
    each, names, like = ((groups,), "n_paths, ", "") if along_paths else ((), "", ",")
    if not along_paths and channels % groups:
        raise ValueError(f"x has {channels} channels and B has {groups} groups; expected a multiple of the groups.")
    steps = "(batch, length, n_paths, channels)" if along_paths else "the shape of x"
    expect_shape("dt", dt, steps, (batch, length, *each, channels))
    expect_shape("A", A, f"({names}channels, d_state)", (*each, channels, states))
    expect_shape("B", B, f"(batch, length, {rows}, d_state)", (batch, length, groups, states))
    expect_shape("C", C, "the shape of B", (batch, length, groups, states))
    for name, value in (("D", D), ("dt_bias", dt_bias)):
        if value is not None:
            expect_shape(name, value, f"({names}channels{like})", (*each, channels))
    if R is not None:
        expect_shape("R", R, f"({names}channels, d_state)", (*each, channels, states))
    if initial_state is not None:
        expected = (batch, *each, channels, states)
        expect_shape("initial_state", initial_state, f"(batch, {names}channels, d_state)", expected)
    expect_mask(mask, "(batch, length)", (batch, length))
    given = {"x": x, "dt": dt, "A": A, "B": B, "C": C, "D": D}
    given |= {"dt_bias": dt_bias, "R": R, "initial_state": initial_state}
    expect_floating(given)
    expect_one_device(given | {"mask": mask})
