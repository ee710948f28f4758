"""What the selective scans share: their arguments before the recurrence, and the places of the correction R.

Notation: x input, dt step, A decay rate, B input map, C output map, D skip, R share of the own token's
input that y does not see.

GeoMaNO prints its correction at three places: at the state, at the output, at the input. All three are
linear in R, and what is taken off y needs no state, so the kernels know the first one only.
"""

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional

from skop.ops._blocked import own_share
from skop.ops._checks import fill_masked, narrow_dtype, working_dtype
from skop.ops._dispatch import NARROW

__all__ = ["CORRECTIONS", "Prepared", "prepare", "split_correction", "step_sizes"]

#: Names that `correction` arguments take.
CORRECTIONS = ("state", "output", "input")


class Prepared(NamedTuple):
    """Arguments of a selective scan in the precision of the computation, masked tokens made neutral.

    Attributes
    ----------
    x, dt, A, B, C : Tensor
        Inputs, steps, decay rates, input and output maps.
    D, dt_bias, R, initial_state : Tensor or None
        What may be missing; the bias stands here only if a softplus follows.
    """

    x: Tensor
    dt: Tensor
    A: Tensor
    B: Tensor
    C: Tensor
    D: Tensor | None
    dt_bias: Tensor | None
    R: Tensor | None
    initial_state: Tensor | None


def prepare(
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
    softplus: bool,
) -> Prepared:
    """Bring the arguments to float32 at least, x, B and C to bfloat16, and make masked tokens neutral.

    Parameters
    ----------
    x, dt, A, B, C : Tensor
        Arguments of a scan, in its shapes.
    D, dt_bias, R, initial_state : Tensor or None
        Arguments that may be missing.
    mask : bool Tensor or None
        True at real tokens, over the first axes of x, dt, B and C.
    softplus : bool
        Whether the steps are softplus(dt + dt_bias).

    Returns
    -------
    Prepared
        The arguments; at a masked token the step, x, B and C are 0.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._selective import prepare
    >>> one, mask = torch.ones(1, 2, 1), torch.tensor([[True, False]])
    >>> prepare(one, one, one, one, one, None, None, None, None, mask, softplus=True).dt.flatten()
    tensor([1., -inf])
    """
    given = (x, dt, A, B, C, D, dt_bias, R, initial_state)
    dtype = working_dtype(*given)
    kinds = dict.fromkeys(range(len(given)), dtype) | dict.fromkeys(NARROW, narrow_dtype(dtype, x, B, C))
    wide = Prepared(*(None if v is None else v.to(kinds[place]) for place, v in enumerate(given)))  # type: ignore[arg-type]
    step, bias = wide.dt, wide.dt_bias
    if not softplus and bias is not None:
        step, bias = step + bias, None
    return wide._replace(
        x=fill_masked(wide.x, mask),
        dt=fill_masked(step, mask, float("-inf") if softplus else 0.0),  # softplus(-inf) is exactly 0
        B=fill_masked(wide.B, mask),
        C=fill_masked(wide.C, mask),
        dt_bias=bias,
    )


def step_sizes(dt: Tensor, dt_bias: Tensor | None, softplus: bool) -> Tensor:
    """Steps from what the network computes: the bias is added, then the softplus is taken.

    Parameters
    ----------
    dt : Tensor of shape (..., K, D)
        Step sizes before the bias.
    dt_bias : Tensor of shape (K, D) or None
        Bias.
    softplus : bool
        Whether to take the softplus.

    Returns
    -------
    Tensor of shape (..., K, D)
        Steps.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._selective import step_sizes
    >>> step_sizes(torch.tensor([[-torch.inf, -1.0]]), torch.ones(1, 2), softplus=True)
    tensor([[0.0000, 0.6931]])
    """
    biased = dt if dt_bias is None else dt + dt_bias
    return functional.softplus(biased) if softplus else biased


def split_correction(given: Prepared, correction: str, softplus: bool) -> tuple[Prepared, Tensor | None]:
    """Split off the corrections at the output and at the input, which are added outside the scan.

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
    >>> from skop.ops._selective import split_correction
    >>> from skop.ops._selective import Prepared
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
