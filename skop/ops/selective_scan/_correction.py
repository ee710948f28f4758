"""The places where GeoMaNO prints its correction R: at the state, at the output, at the input.

All three are linear in R, and what is taken off y needs no state, so the kernels know the first one only.

Letters: x input, dt step, B input map, C output map, R share of the own cell's input that y does not see.
"""

from torch import Tensor

from skop.ops._blocked import own_share
from skop.ops.selective_scan._naive import step_sizes
from skop.ops.selective_scan._prepare import Prepared

#: Names that `correction` arguments take.
CORRECTIONS = ("state", "output", "input")


def split_correction(given: Prepared, correction: str, softplus: bool) -> tuple[Prepared, Tensor | None]:
    """Take a correction that the scans do not know out of their arguments.

    Parameters
    ----------
    given : Prepared
        Arguments of a scan: x (..., K, D), or (..., D) if it is shared by the paths; dt (..., K, D); B and C
        (..., K, N); dt_bias (K, D) or None; R (K, D, N) or None.
    correction : {"state", "output", "input"}
        What R is a share of: of C dt' B x, which the scans take off themselves, of dt' B x, or of C x.
    softplus : bool
        Whether the steps dt' are softplus(dt + dt_bias).

    Returns
    -------
    given : Prepared
        Arguments to scan with. Without R and in one precision, if there is something to take off y.
    rest : Tensor of the shape of x, or None
        What is to be taken off y, summed over the paths if they share x.

    Raises
    ------
    ValueError
        If there is no such correction.

    Examples
    --------
    >>> import torch
    >>> from skop.ops.selective_scan._correction import split_correction
    >>> from skop.ops.selective_scan._prepare import Prepared
    >>> x, dt, B, C, R = (torch.full((1, 1, 1, 1), value) for value in (2.0, 0.5, 3.0, 5.0, 1.0))
    >>> given = Prepared(x, dt, -R[0], B, C, None, None, R[0], None)
    >>> [split_correction(given, word, softplus=False)[1] for word in ("state", "output", "input")]
    [None, tensor([[[[3.]]]]), tensor([[[[10.]]]])]
    """
    if correction not in CORRECTIONS:
        raise ValueError(f"correction is {correction!r}; expected one of {CORRECTIONS}.")
    if given.R is None or correction == "state":
        return given, None
    x, maps_in, maps_out = (values.to(given.dt.dtype) for values in (given.x, given.B, given.C))
    one = given.R.new_ones(())
    if correction == "output":
        weights = own_share(maps_in, one, given.R) * step_sizes(given.dt, given.dt_bias, softplus)
    else:
        weights = own_share(maps_out, one, given.R)
    rest = x * (weights if x.ndim == weights.ndim else weights.sum(-2))
    return given._replace(x=x, B=maps_in, C=maps_out, R=None), rest
