"""The selective scan of Mamba (S6): one decay for each channel, state and token.

Letters, as in Mamba: x input, dt step, A decay rate, B input map, C output map, D skip, R share of the
own token's input that y does not see, y output.
"""

from collections.abc import Sequence
from typing import Literal, overload

from torch import Tensor

from skop.ops._checks import expect_axes, expect_floating, expect_mask, expect_one_device, expect_shape
from skop.ops._paths import directions_of_groups, path_table
from skop.ops.selective_scan._correction import split_correction
from skop.ops.selective_scan._operation import SELECTIVE_SCAN
from skop.ops.selective_scan._prepare import Prepared, prepare
from skop.ops.ssd_scan._torch import autocast_off

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

    Parameters
    ----------
    x : Tensor of shape (batch, length, channels)
        Inputs, floating point.
    dt : Tensor of shape (batch, length, channels)
        Step sizes: not negative once the bias is added, unless the softplus follows.
    A : Tensor of shape (channels, d_state)
        Decay rates, negative; Mamba starts from -1, ..., -d_state.
    B, C : Tensor of shape (batch, length, groups, d_state)
        Input and output maps. The channels are a multiple of the groups, and channel ``c`` uses group
        ``c // (channels // groups)``; Mamba has one group.
    D : Tensor of shape (channels,), optional
        Skip from the input to the output; none by default.
    dt_bias : Tensor of shape (channels,), optional
        Added to dt; none by default.
    dt_softplus : bool, default False
        Whether the steps are the softplus of dt + dt_bias, as in Mamba.
    R : Tensor of shape (channels, d_state), optional
        Share of the own token's input that is taken off the state before y is read, 0 to 1; none by
        default.
    correction : {"state", "output", "input"}, default "state"
        What R is a share of. ``"state"`` is the formula above; ``"output"`` takes R dt' B x off each
        term of y, without C, as Eq. 9 prints it; ``"input"`` takes C R x off, without dt' B, as line 24
        of Algorithm 2 prints it. Without R it has no effect.
    initial_state : Tensor of shape (batch, channels, d_state), optional
        State before the first token scanned; zero by default.
    mask : bool Tensor of shape (batch, length), optional
        True at real tokens. The others leave the state as it is and their y is 0; what x, dt, B and
        C hold there has no influence. By default all tokens are real.
    reverse : bool or sequence of bool, one per group, default False
        True scans from the last token to the first; y stays in the order of x. A sequence gives the
        direction of each group of channels.
    return_final_state : bool, default False
        Whether to return the final state too.
    backend : {None, "naive", "torch", "numba", "triton", "mamba_ssm"}, default None
        ``"numba"`` and ``"triton"`` are fused kernels for CPU and CUDA, ``"mamba_ssm"`` is that package's
        for CUDA, without an initial state; ``"torch"`` works in blocks in plain torch anywhere,
        ``"naive"`` is the recurrence token by token, slow, for reference. None takes the environment
        variable SKOP_BACKEND, or else the kernel of the device: on CUDA the faster one, as measured, where
        mamba_ssm is installed.

    Returns
    -------
    y : Tensor of shape (batch, length, channels)
        Outputs, in the dtype of x.
    final_state : Tensor of shape (batch, channels, d_state)
        State after the last token scanned (the first of the sequence where the scan is reversed), in
        the dtype of the computation. Only if `return_final_state` is True.

    Raises
    ------
    ValueError
        If a shape, a dtype, a device or an option does not fit.

    References
    ----------
    .. [1] A. Gu and T. Dao, "Mamba: linear-time sequence modeling with selective state spaces", 2023,
       arXiv:2312.00752, Algorithm 2.
    .. [2] X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for
       partial differential equations", 2025, section 4.3, Eq. 9 and Algorithm 2.

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
    """
    _check(x, dt, A, B, C, D, dt_bias, R, initial_state, mask)
    groups = B.shape[2]
    paths = path_table(x.shape[1], directions_of_groups(reverse, groups), x.device)
    with autocast_off(x.device):
        given = prepare(x, dt, A, B, C, D, dt_bias, R, initial_state, mask, dt_softplus)
        u, step = (values.unflatten(2, (groups, -1)) for values in (given.x, given.dt))
        a, weights = given.A.unflatten(0, (groups, -1)), (given.D, given.dt_bias, given.R)
        skip, bias, share = (None if value is None else value.unflatten(0, (groups, -1)) for value in weights)
        start = None if given.initial_state is None else given.initial_state.unflatten(1, (groups, -1))
        core = Prepared(u, step, a, given.B, given.C, skip, bias, share, start)
        core, rest = split_correction(core, correction, dt_softplus)
        y, end = SELECTIVE_SCAN.run(backend, *core, paths, dt_softplus)
        y = y if rest is None else y - rest
    y = y.flatten(2).to(x.dtype)
    return (y, end.flatten(1, 2)) if return_final_state else y


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
) -> None:
    """Raise ValueError where shapes, dtypes or devices do not fit together."""
    expect_axes("x", x, "batch, length, channels")
    expect_axes("B", B, "batch, length, groups, d_state")
    batch, length, channels = x.shape
    groups, states = B.shape[2:]
    if channels % groups:
        raise ValueError(f"x has {channels} channels and B has {groups} groups; expected a multiple of the groups.")
    expect_shape("dt", dt, "the shape of x", (batch, length, channels))
    expect_shape("A", A, "(channels, d_state)", (channels, states))
    expect_shape("B", B, "(batch, length, groups, d_state)", (batch, length, groups, states))
    expect_shape("C", C, "the shape of B", (batch, length, groups, states))
    for name, value in (("D", D), ("dt_bias", dt_bias)):
        if value is not None:
            expect_shape(name, value, "(channels,)", (channels,))
    if R is not None:
        expect_shape("R", R, "(channels, d_state)", (channels, states))
    if initial_state is not None:
        expect_shape("initial_state", initial_state, "(batch, channels, d_state)", (batch, channels, states))
    expect_mask(mask, "(batch, length)", (batch, length))
    given = {
        "x": x,
        "dt": dt,
        "A": A,
        "B": B,
        "C": C,
        "D": D,
        "dt_bias": dt_bias,
        "R": R,
        "initial_state": initial_state,
    }
    expect_floating(given)
    expect_one_device(given | {"mask": mask})
