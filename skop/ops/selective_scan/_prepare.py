"""What the selective scans do to their arguments before the recurrence.

Letters: x input, dt step, A decay rate, B input map, C output map, D skip, R share of the own token's
input that y does not see.
"""

from typing import NamedTuple

from torch import Tensor

from skop.ops._checks import fill_masked, narrow_dtype, working_dtype
from skop.ops._dispatch import NARROW


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
    >>> from skop.ops.selective_scan._prepare import prepare
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
