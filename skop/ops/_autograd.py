"""What the hand-written gradients of the scans share."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def differentiable_gradients(
    function: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Tensor | None],
    cotangents: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    """Compute gradients that autograd can differentiate again, through a plain form of a function.

    Parameters
    ----------
    function : callable
        Maps the inputs to a tensor or a tuple of tensors, by operations that autograd knows.
    inputs : sequence of Tensor or None
        Arguments of the function.
    cotangents : sequence of Tensor or None
        Gradient of each output; None where it has no influence.

    Returns
    -------
    tuple of Tensor or None
        Gradient of each input; None where the input needs none.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._autograd import differentiable_gradients
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (slope,) = differentiable_gradients(lambda value: value**3, [x], [torch.tensor(1.0)])
    >>> slope.item(), torch.autograd.grad(slope, x)[0].item()
    (27.0, 18.0)
    """
    # Aliases cut the inputs off from each other: one is often computed from another.
    aliases = [None if value is None else value.view_as(value) for value in inputs]
    outputs = function(*aliases)
    outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
    pairs = [pair for pair in zip(outputs, cotangents, strict=True) if pair[1] is not None]
    results, weights = zip(*pairs, strict=True)
    sources = [value for value in aliases if value is not None and value.requires_grad]
    grads = iter(torch.autograd.grad(results, sources, weights, create_graph=True, allow_unused=True))
    return tuple(next(grads) if value is not None and value.requires_grad else None for value in aliases)
