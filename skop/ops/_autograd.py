"""What the hand-written gradients of the scans share."""

from collections.abc import Callable, Sequence
from typing import Any

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


def complete_derivatives(
    outputs: tuple[Tensor, ...],
    inputs: Sequence[Tensor | None],
    exact: Callable[..., tuple[Tensor, ...]],
    quick: Callable[..., tuple[Tensor, ...]],
    lacking: Sequence[int] = (),
) -> tuple[Tensor, ...]:
    """Give the outputs of somebody else's function the derivatives that it leaves out.

    Its first derivatives are used as they are. Second ones, which a function with a kernel of its own in the
    backward pass gets wrong without a word, are taken through a plain form of the same function.

    Parameters
    ----------
    outputs : tuple of Tensor
        What the function returned, with its graph.
    inputs : sequence of Tensor or None
        Its arguments.
    exact : callable
        The same function by operations that autograd knows; used for second derivatives.
    quick : callable
        The same function again; used for first derivatives of outputs that lack them.
    lacking : sequence of int, default ()
        Places of the outputs that the function gives no gradients of.

    Returns
    -------
    tuple of Tensor
        The outputs.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._autograd import complete_derivatives
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> cube = lambda value: (value**3,)
    >>> (y,) = complete_derivatives((x.detach() ** 3,), [x], cube, cube, lacking=[0])
    >>> (slope,) = torch.autograd.grad(y, x, create_graph=True)
    >>> slope.item(), torch.autograd.grad(slope, x)[0].item()
    (27.0, 18.0)
    """
    return _Completed.apply(exact, quick, tuple(lacking), len(outputs), *outputs, *inputs)


class _Completed(torch.autograd.Function):
    """Outputs pass through, and so do their gradients, where they have some and nobody differentiates again."""

    @staticmethod
    def forward(
        ctx: Any, exact: Any, quick: Any, lacking: tuple[int, ...], n_outputs: int, *values: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """Keep the inputs, which follow the outputs."""
        ctx.save_for_backward(*values[n_outputs:])
        ctx.exact, ctx.quick, ctx.lacking = exact, quick, lacking
        ctx.set_materialize_grads(False)
        return tuple(None if value is None else value.detach() for value in values[:n_outputs])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients of the outputs that have some, and of the inputs for the rest."""
        inputs = ctx.saved_tensors
        if torch.is_grad_enabled():  # only where a second derivative will be asked for
            nothing = (None,) * len(grads)
            return (None, None, None, None, *nothing, *differentiable_gradients(ctx.exact, inputs, grads))
        passed = [None if place in ctx.lacking else grad for place, grad in enumerate(grads)]
        missing = [grad if place in ctx.lacking else None for place, grad in enumerate(grads)]
        rest = _gradients(ctx.quick, inputs, missing)
        return (None, None, None, None, *passed, *rest)


def _gradients(
    function: Callable[..., tuple[Tensor, ...]], inputs: Sequence[Tensor | None], cotangents: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """Gradients that nobody differentiates again; None where an input needs none or nothing reaches it."""
    if all(cotangent is None for cotangent in cotangents):
        return (None,) * len(inputs)
    leaves = [None if value is None else value.detach().requires_grad_(value.requires_grad) for value in inputs]
    with torch.enable_grad():
        outputs = function(*leaves)
    pairs = [pair for pair in zip(outputs, cotangents, strict=True) if pair[1] is not None]
    results, weights = zip(*pairs, strict=True)
    sources = [value for value in leaves if value is not None and value.requires_grad]
    grads = iter(torch.autograd.grad(results, sources, weights, allow_unused=True))
    return tuple(next(grads) if value is not None and value.requires_grad else None for value in leaves)
