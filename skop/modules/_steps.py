"""Steps that state-space mixers start from."""

import math
from collections.abc import Sequence

import torch

__all__ = ["STEP_RANGE", "initial_step_bias"]

#: Mamba's range of steps.
STEP_RANGE = (1e-3, 0.1)


def initial_step_bias(count: int, step_range: Sequence[float] = STEP_RANGE) -> torch.Tensor:
    """Draw biases whose softplus are random steps, even on a logarithmic scale.

    Parameters
    ----------
    count : int
        Biases.
    step_range : sequence of two floats, default=(0.001, 0.1)
        Smallest and largest step, positive.

    Returns
    -------
    Tensor of shape (count,)
        Biases.

    Raises
    ------
    ValueError
        If the range holds other than two positive steps.

    Examples
    --------
    >>> import torch
    >>> from skop.modules._steps import initial_step_bias
    >>> steps = torch.nn.functional.softplus(initial_step_bias(100))
    >>> bool((steps > 0.00099).all() and (steps < 0.101).all())
    True
    """
    if len(step_range) != 2 or min(step_range) <= 0:
        raise ValueError(f"step_range is {step_range!r}; expected two positive steps, smallest and largest.")
    low, high = sorted(math.log(step) for step in step_range)
    steps = torch.empty(count).uniform_(low, high).exp()
    return steps + torch.log(-torch.expm1(-steps))
