"""The fused CPU kernels of the scan over a grid against autograd of its definition in float64."""

from itertools import product

import pytest
import torch
from torch.nn.functional import softplus

pytest.importorskip("numba")

from skop.ops._selective import Arguments
from skop.ops.selective_scan_2d._cpu import backward, forward
from skop.ops.selective_scan_2d._naive import selective_scan_2d_naive

NAMES = ("x", "dt", "A", "B", "C", "D", "dt_bias", "R")
ONE, TWO = ((2, 1),), ((2, 1), (-1, -2))
ALL = tuple((s * a, t * (3 - a)) for a, s, t in product((1, 2), (1, -1), (1, -1)))


def make(batch, height, width, count, channels, d_state, *, without=(), rate=1.0, dtype=torch.float64):
    """Random arguments of the core by name."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    values = {
        "x": normal(batch, height, width, 1, channels),
        "dt": normal(batch, height, width, count, channels),
        "A": -rate * softplus(normal(count, channels, d_state)),
        "B": normal(batch, height, width, count, d_state),
        "C": normal(batch, height, width, count, d_state),
        "D": normal(count, channels),
        "dt_bias": normal(count, channels),
        "R": torch.rand(count, channels, d_state, generator=generator, dtype=torch.float64),
    }
    narrow = {"x", "B", "C"} if dtype == torch.bfloat16 else ()
    kinds = {name: dtype if name in narrow or dtype != torch.bfloat16 else torch.float32 for name in NAMES}
    return [None if name in without else values[name].to(kinds[name]) for name in NAMES]


def run(arguments, directions, use_softplus=True):
    """Output and gradients of the kernels, for a random cotangent."""
    given = Arguments(*arguments, None, directions, use_softplus)
    y, _, kept = forward(given, True)
    cotangent = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(y.dtype)
    *grads, grad_start = backward(given, kept, cotangent, None)
    assert grad_start is None
    return y, *grads


def expected(arguments, directions, use_softplus=True):
    """The same of the definition in float64."""
    leaves = [None if value is None else value.double().requires_grad_() for value in arguments]
    y, _ = selective_scan_2d_naive(Arguments(*leaves, None, directions, use_softplus))
    cotangent = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    given = [value for value in leaves if value is not None]
    gradients = iter(torch.autograd.grad(y, given, cotangent.to(arguments[0].dtype).double()))
    return y.detach(), *(None if value is None else next(gradients) for value in leaves)


def output(arguments, directions, use_softplus):
    """Output of the kernels."""
    return forward(Arguments(*arguments, None, directions, use_softplus), False)[0]


def assert_close(found, wanted, tolerance):
    """Compare relative to the norm of each, and that the same ones are missing."""
    for name, left, right in zip(("y", *NAMES), found, wanted, strict=True):
        assert (left is None) == (right is None), name
        if left is not None:
            assert left.shape == right.shape, name
            error = (left.double() - right).norm()
            assert error <= tolerance * right.norm(), f"{name}: {error:.1e}"


@pytest.mark.parametrize(
    ("height", "width", "directions", "channels", "d_state"),
    [
        (5, 7, ALL, 19, 5),
        (1, 9, ALL, 35, 1),
        (9, 1, ALL, 35, 3),
        (1, 1, TWO, 16, 2),
        (50, 19, TWO, 3, 2),
        (19, 50, TWO, 3, 2),
        (23, 61, ONE, 40, 3),
        (2, 300, TWO, 5, 2),
        (700, 2, TWO, 5, 2),
    ],
)
def test_gradients(height, width, directions, channels, d_state):
    """Tails in channels and states, one line, one cell a line, several strips of lines and parts of a line."""
    arguments = make(2, height, width, len(directions), channels, d_state)
    assert_close(run(arguments, directions), expected(arguments, directions), 1e-11)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 8e-3)])
@pytest.mark.parametrize("directions", [ONE, ALL])
def test_precisions(dtype, tolerance, directions):
    """Outputs and gradients have the precision and the dtype of the arguments."""
    arguments = make(2, 22, 51, len(directions), 33, 5, dtype=dtype)
    found = run(arguments, directions)
    assert_close(found, expected(arguments, directions), tolerance)
    assert [value.dtype for value in found] == [dtype, *(value.dtype for value in arguments)]


@pytest.mark.parametrize("without", [("D",), ("dt_bias",), ("R",), ("D", "dt_bias", "R")])
def test_optional_arguments(without):
    """What is not given has no gradient and no influence."""
    arguments = make(1, 6, 50, 2, 17, 3, without=without)
    assert_close(run(arguments, TWO), expected(arguments, TWO), 1e-11)


@pytest.mark.parametrize("step", [6.0, 50.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-6)])
def test_strong_decay(step, dtype, tolerance):
    """States that forget nearly everything at each cell."""
    arguments = make(1, 13, 50, 8, 17, 2, without=("dt_bias",), dtype=dtype)
    arguments[1] = step * arguments[1].abs().clamp(0.5, 2)
    assert_close(run(arguments, ALL, False), expected(arguments, ALL, False), tolerance)


def test_correction_is_exact():
    """With R = 1 a cell does not see its own input, however large."""
    arguments = make(1, 4, 5, 2, 3, 2, without=("D", "dt_bias"), dtype=torch.float32)
    arguments[7] = torch.ones_like(arguments[7])
    arguments[0][0, 2, 2] = 1e8
    y = output(arguments, TWO, True)
    arguments[0][0, 2, 2] = 0.0
    assert torch.equal(y[0, 2, 2], output(arguments, TWO, True)[0, 2, 2])


def test_zero_steps():
    """Cells with a step of zero leave the states as they are: the others see a smaller grid."""
    arguments = make(1, 6, 50, 2, 16, 2, without=("dt_bias", "R"))
    arguments[1] = arguments[1].abs()
    arguments[1][:, 3] = 0.0
    arguments[1][:, :, 7] = 0.0
    assert_close(run(arguments, TWO, False), expected(arguments, TWO, False), 1e-11)
    rows, columns = [0, 1, 2, 4, 5], [*range(7), *range(8, 50)]
    smaller = [v[:, rows][:, :, columns] if place in (0, 1, 3, 4) else v for place, v in enumerate(arguments)]
    found = output(arguments, TWO, False)[:, rows][:, :, columns]
    torch.testing.assert_close(found, output(smaller, TWO, False), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["x", "dt", "A", "B", "C", "D", "dt_bias", "R"])
def test_nan_passes(name):
    """What depends on a NaN is NaN; other channels are not."""
    arguments = make(1, 4, 50, 2, 17, 3)
    arguments[NAMES.index(name)].view(-1)[-1] = float("nan")
    found, wanted = run(arguments, TWO), expected(arguments, TWO)
    assert torch.isnan(found[0]).any()
    for left, right in zip(found, wanted, strict=True):
        assert (left.isnan() | ~right.isnan()).all()
    assert name in ("B", "C") or not found[0][..., 0].isnan().any()


def test_growth_beyond_all_numbers_is_nan():
    """A decay rate that grows states beyond the greatest number gives NaN, not a wrong number."""
    arguments = make(1, 3, 3, 1, 2, 2, without=("dt_bias",), dtype=torch.float32)
    arguments[1].fill_(1e3)
    arguments[2].fill_(1.0)
    assert output(arguments, ONE, False).isnan().all()


def test_threads_change_no_bit():
    """Every sum has an order that depends on shapes alone."""
    arguments = make(3, 13, 50, 8, 67, 5, dtype=torch.float32)
    before, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(run(arguments, ALL))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(left, right) for left, right in zip(results[0], other, strict=True))


def test_checkpoints_are_only_read():
    """The backward pass can run again."""
    arguments = make(2, 40, 60, 2, 17, 3, dtype=torch.float32)
    given = Arguments(*arguments, None, TWO, True)
    y, _, kept = forward(given, True)
    before = kept.clone()
    first, second = (backward(given, kept, y, None)[:8] for _ in range(2))
    assert torch.equal(kept, before)
    assert all(torch.equal(left, right) for left, right in zip(first, second, strict=True))
    assert forward(given, False)[2] is None
