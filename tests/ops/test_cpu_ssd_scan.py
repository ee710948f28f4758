"""The CPU kernels of the SSD scan against float64 autograd of the recurrence, and what they leave alone."""

import importlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from skop.ops import _cpu_tools
from skop.ops.ssd_scan._cpu import backward, forward
from skop.ops.ssd_scan._naive import ssd_scan_naive
from skop.ops.ssd_scan._operation import Arguments

NAMES = ("x", "dt", "A", "B", "C", "D", "initial_state")
NARROW = ("x", "B", "C")
KINDS = [torch.float32, torch.float64, torch.bfloat16]


@pytest.fixture(autouse=True)
def _threads():
    """Give back torch's number of threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def problem(length, n_paths, heads, head_dim, d_state, *, batch=2, shared=True, own_maps=True, skip=1, start=True):
    """Arguments of a scan in float64, rounded to bfloat16 so that every precision holds them, and paths."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator).bfloat16().double()

    n_maps = n_paths if own_maps else 1
    arguments = [
        normal(batch, length, 1 if shared else n_paths, heads, head_dim),
        softplus(normal(batch, length, n_paths, heads)).bfloat16().double(),
        -softplus(normal(n_paths, heads)).bfloat16().double(),
        normal(batch, length, n_maps, d_state),
        normal(batch, length, n_maps, d_state),
        normal(n_paths, heads, head_dim if skip == "channel" else 1) if skip else None,
        normal(batch, n_paths, heads, head_dim, d_state) if start else None,
    ]
    return arguments, torch.stack([torch.randperm(length, generator=generator) for _ in range(n_paths)]).int()


def cotangents(arguments):
    """Gradients of y and of the final state, rounded to bfloat16."""
    x, dt, maps = arguments[0], arguments[1], arguments[3]
    generator = torch.Generator().manual_seed(1)
    shapes = x.shape, (len(x), *dt.shape[2:], x.shape[-1], maps.shape[-1])
    return [torch.randn(shape, generator=generator).bfloat16().double() for shape in shapes]


def cast(arguments, dtype):
    """Arguments in the precisions that kernels take them in."""
    wide = torch.promote_types(dtype, torch.float32)
    pairs = zip(NAMES, arguments, strict=True)
    return [None if value is None else value.to(dtype if name in NARROW else wide) for name, value in pairs]


def scan(x, dt, A, B, C, D, initial_state, paths):
    """Outputs and final states, path by path, by the sequential reference."""
    outputs, states = [], []
    for path, order in enumerate(paths.long()):
        along, entering, leaving = (value[:, order, path % value.shape[2]] for value in (x, B, C))
        skip, start = (None if value is None else value for value in (D, initial_state))
        y, state = ssd_scan_naive(
            along,
            dt[:, order, path],
            A[path],
            entering.unsqueeze(2),
            leaving.unsqueeze(2),
            None if skip is None else skip[path],
            None if start is None else start[:, path],
            (False,),
        )
        outputs.append(y[:, order.argsort()])
        states.append(state)
    y = torch.stack(outputs, dim=2)
    return (y if x.shape[2] == len(paths) else y.sum(2, keepdim=True)), torch.stack(states, dim=1)


def reference(arguments, paths, grad_y, grad_final):
    """Outputs, and gradients of what is there, in float64 by autograd."""
    leaves = [None if value is None else value.detach().clone().requires_grad_() for value in arguments]
    y, final = scan(*leaves, paths)
    outputs, weights = ((y, final), (grad_y, grad_final)) if grad_final is not None else ((y,), (grad_y,))
    grads = torch.autograd.grad(outputs, [leaf for leaf in leaves if leaf is not None], weights)
    return [y.detach(), final.detach(), *grads]


def kernel(arguments, paths, grad_y, grad_final, dtype=torch.float64):
    """Outputs, and gradients of what is there, of the kernels."""
    given = cast(arguments, dtype)
    core = Arguments(*given, paths)
    y, final, kept = forward(core, True)
    grad_final = None if grad_final is None else grad_final.to(final.dtype)
    grads = backward(core, kept, grad_y.to(y.dtype), grad_final)
    assert [value is None for value in grads] == [value is None for value in given]
    found = [(value, grad) for value, grad in zip(given, grads, strict=True) if value is not None]
    for value, grad in found:
        assert (grad.dtype, grad.shape) == (value.dtype, value.shape)
    return [y, final, *(grad for _, grad in found)]


def expect_close(actual, expected, bound):
    """Fail where the relative difference in the norm of an output or a gradient is too large."""
    differences = [float((a.double() - b).norm() / b.norm()) for a, b in zip(actual, expected, strict=True)]
    assert torch.tensor(differences).max() <= bound, differences


CASES = [
    # length, paths, heads, head_dim, d_state, shared, own maps, skip, start
    (5, 1, 2, 3, 2, False, True, "head", True),
    (31, 2, 1, 16, 16, True, True, "channel", False),
    (32, 3, 3, 5, 7, False, False, None, True),
    (33, 2, 3, 17, 33, True, False, "head", True),
    (64, 1, 5, 32, 20, False, True, "channel", True),
    (70, 3, 2, 40, 5, True, True, "channel", True),
    (97, 2, 4, 8, 64, False, False, "channel", False),
    (150, 2, 2, 33, 17, True, False, None, False),
    (40, 1, 40, 4, 3, False, True, "head", True),
    (70, 1, 1, 300, 40, False, True, "head", True),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-6), (torch.float64, 1e-11)])
def test_equals_the_reference(case, dtype, bound):
    *sizes, shared, own_maps, skip, start = case
    given = problem(*sizes, shared=shared, own_maps=own_maps, skip=skip, start=start)
    weights = cotangents(given[0])
    expect_close(kernel(*given, *weights, dtype), reference(*given, *weights), bound)


@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1, 1), (2, 1, 1, 1, 1), (1, 2, 1, 1, 1), (1, 1, 1, 17, 1), (33, 1, 1, 1, 17)]
)
def test_sizes_of_one(sizes):
    for shared in (True, False):
        given = problem(*sizes, shared=shared, batch=1)
        weights = cotangents(given[0])
        expect_close(kernel(*given, *weights), reference(*given, *weights), 1e-11)


def test_without_a_gradient_of_the_final_state():
    given = problem(70, 2, 2, 5, 3)
    grad_y, _ = cotangents(given[0])
    expect_close(kernel(*given, grad_y, None), reference(*given, grad_y, None), 1e-11)


def test_nothing_is_kept_unless_asked_for():
    arguments, paths = problem(70, 2, 2, 5, 3)
    given = Arguments(*arguments, paths)
    assert forward(given, False)[2] is None
    torch.testing.assert_close(forward(given, False)[:2], forward(given, True)[:2], rtol=0, atol=0)


@pytest.mark.parametrize("shared", [True, False])
def test_bfloat16_is_float32_with_the_results_rounded(shared):
    given = problem(70, 2, 3, 20, 5, shared=shared)
    weights = cotangents(given[0])
    wide, narrow = kernel(*given, *weights, torch.float32), kernel(*given, *weights, torch.bfloat16)
    for exact, value in zip(wide, narrow, strict=True):
        torch.testing.assert_close(value, exact.to(value.dtype), rtol=0, atol=0)


def test_long_sequences_stay_accurate():
    given = problem(10_000, 1, 2, 4, 6, batch=1)
    weights = cotangents(given[0])
    expect_close(kernel(*given, *weights, torch.float32), reference(*given, *weights), 2e-6)


def decaying(exponents):
    """A problem with these values of dt A, one for each token or for all."""
    arguments, paths = problem(70, 1, 2, 20, 17, shared=False)
    arguments[2] = -torch.ones_like(arguments[2])
    arguments[1] = (torch.zeros(70, dtype=torch.float64) - exponents)[None, :, None, None].expand(2, 70, 1, 2).clone()
    return arguments, paths


@pytest.mark.parametrize("exponent", [-6.0, -50.0])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float64, 1e-11)])
def test_strong_decay(exponent, dtype, bound):
    given = decaying(exponent)
    weights = cotangents(given[0])
    expect_close(kernel(*given, *weights, dtype), reference(*given, *weights), bound)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-6), (torch.float64, 1e-11)])
@pytest.mark.parametrize("strong", [-6.0, -50.0, -3e4])
def test_strong_decays_among_weak_ones(strong, dtype, bound):
    exponents = torch.full((70,), -1 / 64, dtype=torch.float64)
    exponents[::5] = strong
    given = decaying(exponents)
    weights = cotangents(given[0])
    expect_close(kernel(*given, *weights, dtype), reference(*given, *weights), bound)


def test_steps_of_zero_change_nothing():
    given = decaying(torch.zeros(70))
    weights = cotangents(given[0])
    actual, expected = kernel(*given, *weights, torch.float32), reference(*given, *weights)
    torch.testing.assert_close(actual[1].double(), given[0][6], rtol=0, atol=0)
    torch.testing.assert_close(actual[2], (given[0][5] * weights[0].unsqueeze(2)[:, :, 0]).float())
    for place in (0, 3, 4, 6, 7, 8):
        expect_close([actual[place]], [expected[place]], 1e-6) if expected[place].norm() else None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_growth_is_right_or_nan(dtype):
    """Growing states: dt A in 0 ... 300 a token."""
    arguments, paths = problem(3, 1, 64, 2, 2, batch=1, shared=False)
    arguments[1] = torch.ones_like(arguments[1])
    growth = torch.linspace(0, 300, 64, dtype=torch.float64)
    arguments[2] = growth[None]
    given = cast(arguments, dtype)
    y, final, _ = forward(Arguments(*given, paths), False)
    expected = scan(*given, paths)
    for value, true in zip((y, final), expected, strict=True):
        same = torch.isclose(value, true, rtol=1e-3 if dtype == torch.float32 else 1e-9, equal_nan=True)
        assert (same | value.isnan()).all()
    assert y[:, :, :, 3 * growth < (80 if dtype == torch.float32 else 700)].isfinite().all()


@pytest.mark.parametrize("place", range(7))
def test_nan_passes(place):
    arguments, paths = problem(70, 2, 2, 5, 3)
    arguments[place] = arguments[place].clone()
    arguments[place].view(-1)[arguments[place].numel() // 2] = torch.nan
    weights = cotangents(arguments)
    for dtype in (torch.float32, torch.float64):
        actual = kernel(arguments, paths, *weights, dtype)
        expected = reference(arguments, paths, *weights)
        assert any(value.isnan().any() for value in expected)
        for value, true in zip(actual, expected, strict=True):
            assert value[true.isnan()].isnan().all()


def test_nan_does_not_reach_earlier_chunks_or_other_heads():
    arguments, paths = problem(70, 1, 2, 5, 3, batch=1)
    arguments[0][0, paths[0, 40].long(), 0, 1, 2] = torch.nan
    y, final, _ = forward(Arguments(*arguments, paths), False)
    assert y[0, paths[0, 40:].long(), 0, 1, 2].isnan().all()
    assert y[0, paths[0, :32].long()].isfinite().all()
    assert y[:, :, :, 0].isfinite().all()
    assert final[:, :, 0].isfinite().all()


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shared", [True, False])
def test_bits_do_not_depend_on_threads_or_runs(dtype, shared):
    given = problem(70, 2, 6, 7, 5, shared=shared)
    weights = cotangents(given[0])
    torch.set_num_threads(1)
    expected = kernel(*given, *weights, dtype)
    for threads in (2, 3, 1):
        torch.set_num_threads(threads)
        for value, true in zip(kernel(*given, *weights, dtype), expected, strict=True):
            torch.testing.assert_close(value, true, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", KINDS)
def test_strides_do_not_matter_and_arguments_are_left_alone(dtype):
    arguments, paths = problem(33, 2, 3, 20, 3, skip="channel")
    weights = cotangents(arguments)
    expected = kernel(arguments, paths, *weights, dtype)

    def strided(value):
        """The same numbers with axes in reverse order and gaps between them, among NaN."""
        buffer = torch.full([2 * size for size in value.shape[::-1]], torch.nan, dtype=torch.float64)
        view = buffer[(slice(None, None, 2),) * value.ndim].permute(*range(value.ndim)[::-1])
        return view.copy_(value)

    given, cotangent_views = [strided(value) for value in arguments], [strided(value) for value in weights]
    order = paths.T.contiguous().T
    before = [value.clone() for value in (*given, *cotangent_views, order)]
    for value, true in zip(kernel(given, order, *cotangent_views, dtype), expected, strict=True):
        torch.testing.assert_close(value, true, rtol=0, atol=0)
    torch.testing.assert_close([*given, *cotangent_views, order], before, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("case", [(33, 2, 3, 17, 3, True), (70, 3, 2, 40, 18, False), (1, 1, 1, 1, 1, False)], ids=str)
def test_memory_is_written_within_bounds_and_read_after_it_is_written(monkeypatch, dtype, case):
    *sizes, shared = case
    given = problem(*sizes, shared=shared)
    weights = cotangents(given[0])
    expected = kernel(*given, *weights, dtype)
    guard, buffers, empty = 64, [], torch.empty

    def guarded(*shape, dtype):
        """Fresh memory in the middle of NaN, and NaN itself."""
        shape = empty(*shape, dtype=torch.uint8).shape
        buffers.append(torch.full((shape.numel() + 2 * guard,), torch.nan, dtype=dtype))
        return buffers[-1][guard : guard + shape.numel()].view(shape)

    def guarded_bytes(count, dtype):
        buffers.append(torch.full((count + 2 * guard,), 255, dtype=torch.uint8))  # NaN in every precision
        return buffers[-1][guard : guard + count].numpy()

    def guarded_like(value, *shape, dtype=None):
        return guarded(*shape, dtype=dtype or value.dtype)

    monkeypatch.setattr(torch.Tensor, "new_empty", guarded_like)
    monkeypatch.setattr(torch, "empty_like", lambda value: guarded(*value.shape, dtype=value.dtype))
    fake = SimpleNamespace(empty=guarded_bytes, zeros=np.zeros, uint8=np.uint8, int64=np.int64)
    for module in (_cpu_tools, importlib.import_module("skop.ops.ssd_scan._cpu")):
        monkeypatch.setattr(module, "np", fake)
    actual = kernel(*given, *weights, dtype)
    monkeypatch.undo()
    assert len(buffers) > 8
    for value, true in zip(actual, expected, strict=True):
        torch.testing.assert_close(value, true, rtol=0, atol=0)
    for buffer in buffers:
        edges = torch.cat([buffer[:guard], buffer[-guard:]])
        assert (edges.isnan() if edges.is_floating_point() else edges == 255).all()
