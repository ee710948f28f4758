"""What the hand-written gradients of the scans share."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def differentiable_gradients(
    function: Callable[..., Tensor | tuple[Tensor | None, ...]],
    inputs: Sequence[Tensor | None],
    cotangents: Sequence[Tensor | None],
    *,
    again: bool = True,
) -> tuple[Tensor | None, ...]:
    """Compute the gradients of a function by autograd, such that autograd can differentiate them again.

    A cotangent is None for an output without influence, a gradient for an input that needs none. Without `again`,
    nobody differentiates the gradients, and no graph is kept.
    """
    if all(cotangent is None for cotangent in cotangents):
        return (None,) * len(inputs)
    # Aliases cut the inputs off from each other: one is often computed from another.
    aliases = [
        None if value is None else value.view_as(value) if again else value.detach().requires_grad_(value.requires_grad)
        for value in inputs
    ]
    with torch.enable_grad():
        outputs = function(*aliases)
    outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
    pairs = [
        (output, cotangent)
        for output, cotangent in zip(outputs, cotangents, strict=True)
        if output is not None and output.requires_grad and cotangent is not None
    ]
    if not pairs:  # what has a cotangent does not depend on what needs a gradient
        return (None,) * len(inputs)
    results, weights = zip(*pairs, strict=True)
    sources = [value for value in aliases if value is not None and value.requires_grad]
    grads = iter(torch.autograd.grad(results, sources, weights, create_graph=again, allow_unused=True))
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
    backward pass gets wrong without a word, are taken through `exact`, the same function by operations that autograd
    knows. `quick`, once more the same, is for first derivatives of the outputs at the places `lacking`.
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
        return (None, None, None, None, *passed, *differentiable_gradients(ctx.quick, inputs, missing, again=False))
