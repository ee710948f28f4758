"""The selective scan along several paths over the same tokens, summed.

Letters, as in Mamba: x input, dt step, A decay rate, B input map, C output map, D skip, R share of the
own token's input that y does not see, y output.
"""

from torch import Tensor

from skop.ops._checks import expect_axes, expect_floating, expect_mask, expect_one_device, expect_shape
from skop.ops._paths import check_paths
from skop.ops.selective_scan._correction import split_correction
from skop.ops.selective_scan._operation import SELECTIVE_SCAN
from skop.ops.selective_scan._prepare import prepare
from skop.ops.ssd_scan._torch import autocast_off

__all__ = ["selective_path_scan"]


def selective_path_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    *,
    paths: Tensor,
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    R: Tensor | None = None,
    correction: str = "state",
    mask: Tensor | None = None,
    backend: str | None = None,
) -> Tensor:
    """Scan the same tokens along several paths and add the outputs.

    Path k visits the tokens in the order ``paths[k]`` with its own step, decay, input and output maps;
    its recurrence is that of `selective_scan`. With four paths over the points of a grid, by rows and by
    columns, forwards and backwards, this is the cross scan of VMamba [1]_; with one path and its reverse
    it is the bidirectional scan of MNO [2]_.

    Parameters
    ----------
    x : Tensor of shape (batch, length, channels)
        Inputs, floating point, shared by all paths.
    dt : Tensor of shape (batch, length, n_paths, channels)
        Step sizes: not negative once the bias is added, unless the softplus follows.
    A : Tensor of shape (n_paths, channels, d_state)
        Decay rates, negative.
    B, C : Tensor of shape (batch, length, n_paths, d_state)
        Input and output maps of each path, shared by the channels.
    D : Tensor of shape (n_paths, channels), optional
        Skip from the input to the output; none by default.
    paths : integer Tensor of shape (n_paths, length)
        Tokens in the order in which each path visits them: each row is a permutation.
    dt_bias : Tensor of shape (n_paths, channels), optional
        Added to dt; none by default.
    dt_softplus : bool, default False
        Whether the steps are the softplus of dt + dt_bias, as in Mamba.
    R : Tensor of shape (n_paths, channels, d_state), optional
        Share of the own token's input that is taken off the state before y is read, 0 to 1; none by
        default.
    correction : {"state", "output", "input"}, default "state"
        What R is a share of, as in `selective_scan_2d`: GeoMaNO [3]_ argues for the state, but prints the
        other two. Without R it has no effect.
    mask : bool Tensor of shape (batch, length), optional
        True at real tokens. The others leave the states as they are and their y is 0; what x, dt, B and
        C hold there has no influence. By default all tokens are real.
    backend : {None, "naive", "torch", "numba", "triton", "mamba_ssm"}, default None
        As in `selective_scan`.

    Returns
    -------
    Tensor of shape (batch, length, channels)
        Sum of the outputs of all paths, in the order and the dtype of x.

    Raises
    ------
    ValueError
        If a shape, a dtype, a device or an option does not fit, or a path is no permutation.

    References
    ----------
    .. [1] Y. Liu et al., "VMamba: visual state space model", NeurIPS 2024, arXiv:2401.10166.
    .. [2] C.-W. Cheng et al., "Mamba neural operator: who wins? Transformers vs. state-space models for
       PDEs", 2024.
    .. [3] X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for
       partial differential equations", 2025, section 4.3, Eq. 9 and Algorithm 2.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import selective_path_scan
    >>> x, dt, maps = torch.ones(1, 4, 1), torch.ones(1, 4, 2, 1), torch.ones(1, 4, 2, 1)
    >>> paths = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0]])
    >>> selective_path_scan(x, dt, torch.zeros(2, 1, 1), maps, maps, paths=paths).flatten().tolist()
    [5.0, 5.0, 5.0, 5.0]
    """
    _check(x, dt, A, B, C, D, dt_bias, R, mask)
    order = check_paths(paths, dt.shape[2], x.shape[1], x.device).order
    with autocast_off(x.device):
        given = prepare(x, dt, A, B, C, D, dt_bias, R, None, mask, dt_softplus)
        (u, *others), rest = split_correction(given, correction, dt_softplus)
        y, _ = SELECTIVE_SCAN.run(backend, u.unsqueeze(2), *others, order, dt_softplus)
        y = y.squeeze(2) if rest is None else y.squeeze(2) - rest
    return y.to(x.dtype)


def _check(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    mask: Tensor | None,
) -> None:
    """Raise ValueError where shapes, dtypes or devices do not fit together."""
    expect_axes("x", x, "batch, length, channels")
    expect_axes("B", B, "batch, length, n_paths, d_state")
    batch, length, channels = x.shape
    n_paths, states = B.shape[2:]
    maps = (batch, length, n_paths, states)
    expect_shape("dt", dt, "(batch, length, n_paths, channels)", (batch, length, n_paths, channels))
    expect_shape("A", A, "(n_paths, channels, d_state)", (n_paths, channels, states))
    expect_shape("B", B, "(batch, length, n_paths, d_state)", maps)
    expect_shape("C", C, "the shape of B", maps)
    for name, value in (("D", D), ("dt_bias", dt_bias)):
        if value is not None:
            expect_shape(name, value, "(n_paths, channels)", (n_paths, channels))
    if R is not None:
        expect_shape("R", R, "the shape of A", (n_paths, channels, states))
    expect_mask(mask, "(batch, length)", (batch, length))
    given = {"x": x, "dt": dt, "A": A, "B": B, "C": C, "D": D, "dt_bias": dt_bias, "R": R}
    expect_floating(given)
    expect_one_device(given | {"mask": mask})
