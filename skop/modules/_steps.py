"""Initial values of the steps and decay rates of state-space mixers."""

import math
from collections.abc import Sequence

import torch

__all__ = ["STEP_RANGE", "initial_step_bias", "log_range"]

#: Range of the initial steps in Mamba.
STEP_RANGE = (1e-3, 0.1)


def initial_step_bias(count: int, step_range: Sequence[float] = STEP_RANGE) -> torch.Tensor:
    """Draw initial biases of the steps: their softplus is evenly distributed on a logarithmic scale.

    Parameters
    ----------
    count : int
        Number of biases.
    step_range : sequence of two floats, default=(0.001, 0.1)
        Smallest and largest step, positive and finite.

    Returns
    -------
    Tensor of shape (count,)
        Biases.

    Raises
    ------
    ValueError
        If `step_range` is not a pair of positive numbers.

    Examples
    --------
    >>> import torch
    >>> from skop.modules._steps import initial_step_bias
    >>> steps = torch.nn.functional.softplus(initial_step_bias(100))
    >>> bool((steps > 0.00099).all() and (steps < 0.101).all())
    True
    """
    low, high = sorted(log_range("step_range", step_range))
    steps = torch.empty(count).uniform_(low, high).exp()
    return steps + torch.log(-torch.expm1(-steps))


def log_range(name: str, values: Sequence[float]) -> tuple[float, float]:
    """Return the logarithms of the ends of a range.

    Parameters
    ----------
    name : str
        Name of the range for error messages.
    values : sequence of two floats
        Ends of the range, positive and finite.

    Returns
    -------
    tuple of two floats
        Logarithms, in the same order.

    Raises
    ------
    ValueError
        If `values` is not a pair of positive numbers.

    Examples
    --------
    >>> from skop.modules._steps import log_range
    >>> log_range("step_range", (1.0, 1.0))
    (0.0, 0.0)
    """
    if len(values) != 2 or not all(0 < value < math.inf for value in values):
        raise ValueError(f"{name} is {values!r}; expected two positive numbers, smallest and largest.")
    return math.log(values[0]), math.log(values[1])
