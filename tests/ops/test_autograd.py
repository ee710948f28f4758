"""Gradients that can be differentiated again, through a plain form of a function."""

import torch

from skop.ops._autograd import differentiable_gradients


def leaf(*values):
    """A leaf that needs a gradient."""
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_first_and_second_derivatives():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    weight = torch.tensor([1.0, 10.0], dtype=torch.float64)
    dx, dy = differentiable_gradients(lambda a, b: a**2 * b, [x, y], [weight])
    torch.testing.assert_close(dx, 2 * x * y * weight)
    torch.testing.assert_close(dy, x**2 * weight)
    torch.testing.assert_close(torch.autograd.grad(dx.sum(), y)[0], 2 * x.detach() * weight)


def test_gradients_with_respect_to_the_cotangents():
    x, weight = leaf(2.0), leaf(5.0)
    (dx,) = differentiable_gradients(torch.square, [x], [weight])
    torch.testing.assert_close(torch.autograd.grad(dx, weight)[0], 2 * x.detach())


def test_inputs_that_are_computed_from_each_other_are_kept_apart():
    x = leaf(3.0)
    square = x**2  # the gradient of x is that of the first argument alone
    dx, dsquare = differentiable_gradients(lambda a, b: a * b, [x, square], [torch.ones(1).double()])
    assert (dx.item(), dsquare.item()) == (9.0, 3.0)
    assert torch.autograd.grad(dx, x)[0].item() == 6.0


def test_the_same_tensor_twice():
    x = leaf(3.0)
    first, second = differentiable_gradients(lambda a, b: a * b**2, [x, x], [torch.ones(1).double()])
    assert (first.item(), second.item()) == (9.0, 18.0)


def test_what_needs_no_gradient_or_is_not_used_gets_none():
    x, fixed, unused = leaf(3.0), torch.tensor([2.0], dtype=torch.float64), leaf(1.0)
    results = differentiable_gradients(lambda a, b, c, d: a * b, [x, fixed, unused, None], [torch.ones(1).double()])
    assert results[0].item() == 2.0
    assert results[1:] == (None, None, None)


def test_outputs_without_influence():
    for place in [0, 1]:
        x = leaf(3.0)
        cotangents = [torch.ones(1).double() if i == place else None for i in range(2)]
        (dx,) = differentiable_gradients(lambda a: (a**2, a**3), [x], cotangents)
        assert dx.item() == [6.0, 27.0][place]
