"""The CPU kernels of the selective scan against float64 autograd of the recurrence, and what they leave alone."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from skop.ops import _cpu_tools, selective_scan
from skop.ops._selective import Arguments
from skop.ops.selective_scan._cpu import backward, forward
from skop.ops.selective_scan._naive import selective_scan_naive

NAMES = ("x", "dt", "A", "B", "C", "D", "dt_bias", "R", "initial_state")
NARROW = ("x", "B", "C")
OPTIONAL = ("D", "dt_bias", "R", "initial_state")
KINDS = [torch.float32, torch.float64, torch.bfloat16]


@pytest.fixture(autouse=True)
def _threads():
    """Give back torch's number of threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def problem(length, n_paths, channels, states, *, batch=2, shared=True, activated=True, without=(), seed=0):
    """Arguments of a scan in float64, rounded to bfloat16 so that every precision holds them, paths and softplus."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator).bfloat16().double()

    steps = normal(batch, length, n_paths, channels)
    values = {
        "x": normal(batch, length, 1 if shared else n_paths, channels),
        "dt": steps if activated else softplus(steps).bfloat16().double(),
        "A": -normal(n_paths, channels, states).exp().bfloat16().double(),
        "B": normal(batch, length, n_paths, states),
        "C": normal(batch, length, n_paths, states),
        "D": normal(n_paths, channels),
        "dt_bias": normal(n_paths, channels) if activated else None,
        "R": torch.rand(n_paths, channels, states, generator=generator).bfloat16().double(),
        "initial_state": normal(batch, n_paths, channels, states),
    }
    paths = torch.stack([torch.randperm(length, generator=generator) for _ in range(n_paths)]).int()
    return [None if name in without else values[name] for name in NAMES], paths, activated


def cotangents(arguments, seed=1):
    """Gradients of y and of the final state, rounded to bfloat16."""
    x, states = arguments[0], arguments[2].shape
    generator = torch.Generator().manual_seed(seed)
    shapes = x.shape, (len(x), *states)
    return [torch.randn(shape, generator=generator).bfloat16().double() for shape in shapes]


def cast(arguments, dtype):
    """Arguments in the precisions that kernels take them in."""
    wide = torch.promote_types(dtype, torch.float32)
    pairs = zip(NAMES, arguments, strict=True)
    return [None if value is None else value.to(dtype if name in NARROW else wide) for name, value in pairs]


def reference(arguments, paths, activated, grad_y, grad_final):
    """Outputs, and gradients of what is there, in float64 by autograd."""
    leaves = [None if value is None else value.detach().clone().requires_grad_() for value in arguments]
    y, final = selective_scan_naive(Arguments(*leaves, paths, activated))
    outputs, weights = ((y, final), (grad_y, grad_final)) if grad_final is not None else ((y,), (grad_y,))
    grads = torch.autograd.grad(outputs, [leaf for leaf in leaves if leaf is not None], weights)
    return [y.detach(), final.detach(), *grads]


def kernel(arguments, paths, activated, grad_y, grad_final, dtype=torch.float64):
    """Outputs, and gradients of what is there, of the kernels."""
    given = cast(arguments, dtype)
    core = Arguments(*given, paths, activated)
    y, final, kept = forward(core, True)
    grad_final = None if grad_final is None else grad_final.to(final.dtype)
    grads = backward(core, kept, grad_y.to(y.dtype), grad_final)
    assert [value is None for value in grads] == [value is None for value in given]
    found = [(value, grad) for value, grad in zip(given, grads, strict=True) if value is not None]
    for value, grad in found:
        assert (grad.dtype, grad.shape) == (value.dtype, value.shape)
    return [y, final, *(grad for _, grad in found)]


def difference(value, true):
    """Relative difference in the norm."""
    return float((value.double() - true).norm() / true.norm())


def expect_close(actual, expected, bound):
    """Fail with the worst of the outputs and gradients."""
    differences = [difference(*pair) for pair in zip(actual, expected, strict=True)]
    assert torch.tensor(differences).max() <= bound, differences


CASES = [
    # length, paths, channels, states, shared, activated, without
    (1, 2, 3, 2, True, False, ()),
    (31, 1, 16, 16, False, True, ("R",)),
    (32, 2, 17, 3, True, True, ("D",)),
    (33, 3, 5, 17, False, False, ("initial_state",)),
    (70, 2, 40, 5, True, True, ()),
    (70, 2, 40, 5, False, True, ("dt_bias", "R")),
    (101, 3, 33, 16, True, False, ("D", "R", "initial_state")),
    (64, 1, 150, 1, True, True, ("D", "dt_bias", "R", "initial_state")),
    (40, 2, 300, 2, True, True, ()),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_equals_the_reference(case, dtype, bound):
    length, n_paths, channels, states, shared, activated, without = case
    given = problem(length, n_paths, channels, states, shared=shared, activated=activated, without=without)
    weights = cotangents(given[0])
    expect_close(kernel(*given, *weights, dtype), reference(*given, *weights), bound)


@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1), (2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 17, 1), (1, 1, 1, 17), (33, 1, 1, 1)]
)
def test_sizes_of_one(sizes):
    for shared in (True, False):  # in float64 alone: a single number may be what two larger ones leave
        given = problem(*sizes, shared=shared, batch=1)
        weights = cotangents(given[0])
        expect_close(kernel(*given, *weights), reference(*given, *weights), 1e-12)


@pytest.mark.parametrize("name", OPTIONAL)
@pytest.mark.parametrize("shared", [True, False])
def test_each_optional_argument_alone(name, shared):
    given = problem(37, 2, 18, 3, shared=shared, without=set(OPTIONAL) - {name})
    weights = cotangents(given[0])
    expect_close(kernel(*given, *weights), reference(*given, *weights), 1e-12)


def test_without_a_gradient_of_the_final_state():
    given = problem(70, 2, 18, 3)
    grad_y, _ = cotangents(given[0])
    expect_close(kernel(*given, grad_y, None), reference(*given, grad_y, None), 1e-12)


def test_more_samples_than_threads_and_one_sample():
    for batch in (1, 9):
        given = problem(5, 2, 18, 3, batch=batch)
        weights = cotangents(given[0])
        expect_close(kernel(*given, *weights), reference(*given, *weights), 1e-12)


@pytest.mark.parametrize("shared", [True, False])
def test_bfloat16_is_float32_with_the_results_rounded(shared):
    given = problem(70, 2, 40, 5, shared=shared)
    weights = cotangents(given[0])
    wide, narrow = kernel(*given, *weights, torch.float32), kernel(*given, *weights, torch.bfloat16)
    for exact, value in zip(wide, narrow, strict=True):
        torch.testing.assert_close(value, exact.to(value.dtype), rtol=0, atol=0)


def test_long_sequences_stay_accurate():
    given = problem(20_000, 1, 16, 4, batch=1)
    weights = cotangents(given[0])
    exact = kernel(*given, *weights, torch.float64)  # which shorter ones hold to the recurrence
    expect_close(kernel(*given, *weights, torch.float32), exact, 1e-6)


@pytest.mark.parametrize("exponent", [-6.0, -50.0])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 2e-6), (torch.float64, 1e-12)])
def test_strong_decay(exponent, dtype, bound):
    # exp(dt A) has the rounding error of its exponent, 50 x 6e-8, in float32.
    bound = bound * max(1, -exponent / 20)
    arguments, paths, _ = problem(70, 2, 20, 4, activated=False, without=("R",))
    arguments[1] = 0.75 + arguments[1].clamp(0, 0.5)
    arguments[2] = torch.full_like(arguments[2], exponent)
    weights = cotangents(arguments)
    expect_close(kernel(arguments, paths, False, *weights, dtype), reference(arguments, paths, False, *weights), bound)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 2e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("exponent", [-1.0, -6.0])
def test_the_correction_where_the_own_input_outweighs_the_past(dtype, bound, exponent):
    # R = 1 leaves y nothing but the past, which decays to a small part of the own input.
    arguments, paths, _ = problem(70, 2, 20, 4, activated=False, without=("D", "initial_state"))
    arguments[1] = 0.75 + arguments[1].clamp(0, 0.5)
    arguments[2] = torch.full_like(arguments[2], exponent)
    arguments[7] = torch.ones_like(arguments[7])
    weights = cotangents(arguments)
    expect_close(kernel(arguments, paths, False, *weights, dtype), reference(arguments, paths, False, *weights), bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sign", [1, -1])
def test_growth_is_right_or_nan(dtype, sign):
    """Growing states: dt A in 0 ... 900, by positive rates or by negative steps."""
    arguments, paths, _ = problem(3, 1, 64, 2, batch=1, shared=False, activated=False, without=("R",))
    arguments[1] = sign * torch.ones_like(arguments[1])
    growth = torch.linspace(0, 900, 64, dtype=torch.float64)
    arguments[2] = sign * torch.stack([growth, -growth], -1)[None]
    given = Arguments(*cast(arguments, dtype), paths, False)
    y, final, _ = forward(given, False)
    expected = selective_scan_naive(given)
    for value, true in zip((y, final), expected, strict=True):
        same = torch.isclose(value, true, rtol=1e-3 if dtype == torch.float32 else 1e-9, equal_nan=True)
        assert (same | value.isnan()).all()
    largest = 80 if dtype == torch.float32 else 700
    assert y[0, paths[0, 0].long(), 0, growth < largest].isfinite().all()


def nan_patterns(given, weights):
    """Where outputs and gradients are NaN, of the kernel and of the reference."""
    return [[value.isnan() for value in values] for values in (kernel(*given, *weights), reference(*given, *weights))]


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("shared", [True, False])
def test_nan_spreads_as_in_the_reference(place, shared):
    # Three states: the kernel fills them up with a fourth, which must not pass NaN on either.
    arguments, *rest = problem(70, 2, 20, 3, shared=shared)
    arguments[place] = arguments[place].clone()
    arguments[place][(0, 40, 0, 7)[: arguments[place].ndim - 1] if place != 2 else (0, 7)][1] = torch.nan
    weights = cotangents(arguments)
    actual, expected = nan_patterns((arguments, *rest), weights)
    assert any(mask.any() for mask in expected)
    for got, mask in zip(actual, expected, strict=True):
        assert got[mask].all()
    if place != 2:  # a rate makes all states of its channel NaN
        for got, mask in zip(actual, expected, strict=True):
            torch.testing.assert_close(got, mask)


def test_nan_in_one_token_stays_in_its_channel_and_later_tokens():
    arguments, paths, activated = problem(70, 1, 20, 3, shared=False)
    for place in (0, 1):
        values = [None if value is None else value.clone() for value in arguments]
        values[place][0, paths[0, 40].long(), 0, 7] = torch.nan
        y, final, _ = forward(Arguments(*values, paths, activated), False)
        expected = torch.zeros_like(y, dtype=torch.bool)
        expected[0, paths[0, 40:].long(), 0, 7] = True
        torch.testing.assert_close(y.isnan(), expected)
        assert final.isnan().sum() == 3


def test_missing_values_of_other_programs_are_nan_too():
    arguments, paths, activated = problem(5, 1, 2, 1, batch=1)
    missing = torch.from_numpy(np.array([0x7FF00000000007A2]).view(np.float64))  # R's NA
    for place in (0, 1):
        values = [None if value is None else value.clone() for value in arguments]
        values[place][0, paths[0, 0].long(), 0, 0] = missing
        y, _, _ = forward(Arguments(*values, paths, activated), False)
        assert y[..., 0].isnan().all()
        assert y[..., 1].isfinite().all()


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shared", [True, False])
def test_bits_do_not_depend_on_threads_or_runs(dtype, shared):
    given = problem(70, 2, 70, 5, shared=shared)
    weights = cotangents(given[0])
    torch.set_num_threads(1)
    expected = kernel(*given, *weights, dtype)
    for threads in (2, 3, 5, 2, 1):
        torch.set_num_threads(threads)
        for value, true in zip(kernel(*given, *weights, dtype), expected, strict=True):
            torch.testing.assert_close(value, true, rtol=0, atol=0)
        assert torch.get_num_threads() == threads


@pytest.mark.parametrize("dtype", KINDS)
def test_strides_do_not_matter_and_arguments_are_left_alone(dtype):
    arguments, paths, activated = problem(33, 2, 20, 3)
    weights = cotangents(arguments)
    expected = kernel(arguments, paths, activated, *weights, dtype)

    def strided(value):
        """The same numbers with axes in reverse order and gaps between them, among NaN."""
        buffer = torch.full([2 * size for size in value.shape[::-1]], torch.nan, dtype=torch.float64)
        view = buffer[(slice(None, None, 2),) * value.ndim].permute(*range(value.ndim)[::-1])
        return view.copy_(value)

    given = [None if value is None else strided(value) for value in arguments]
    cotangent_views = [strided(value) for value in weights]
    order = paths.T.contiguous().T
    assert not any(value.is_contiguous() for value in (*given[:5], order, *cotangent_views))
    before = [value.clone() for value in (*given, *cotangent_views, order)]
    actual = kernel(given, order, activated, *cotangent_views, dtype)  # whose casts keep strides
    for value, true in zip(actual, expected, strict=True):
        torch.testing.assert_close(value, true, rtol=0, atol=0)
    torch.testing.assert_close([*given, *cotangent_views, order], before, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("case", [(33, 2, 17, 3, True), (70, 3, 40, 18, False), (1, 1, 1, 1, False)], ids=str)
def test_memory_is_written_within_bounds_and_read_after_it_is_written(monkeypatch, dtype, case):
    *sizes, shared = case
    given = problem(*sizes, shared=shared)
    weights = cotangents(given[0])
    expected = kernel(*given, *weights, dtype)
    guard, buffers, empty = 64, [], torch.empty

    def guarded(*shape, dtype, **options):
        """Fresh memory in the middle of NaN, and NaN itself."""
        shape = empty(*shape, dtype=torch.uint8).shape
        buffers.append(torch.full((shape.numel() + 2 * guard,), torch.nan, dtype=dtype, **options))
        return buffers[-1][guard : guard + shape.numel()].view(shape)

    def guarded_scratch(count, dtype):
        buffers.append(torch.full((count + 2 * guard,), 255, dtype=torch.uint8))  # NaN in every precision
        return buffers[-1][guard : guard + count].numpy()

    def guarded_like(value, *shape, dtype=None):
        return guarded(*shape, dtype=dtype or value.dtype)

    monkeypatch.setattr(torch, "empty", guarded)
    monkeypatch.setattr(torch.Tensor, "new_empty", guarded_like)
    monkeypatch.setattr(torch, "empty_like", lambda value: guarded(*value.shape, dtype=value.dtype))
    fake = SimpleNamespace(empty=guarded_scratch, zeros=np.zeros, uint8=np.uint8, int64=np.int64)
    monkeypatch.setattr(_cpu_tools, "np", fake)
    actual = kernel(*given, *weights, dtype)
    monkeypatch.undo()
    assert len(buffers) > 8
    for value, true in zip(actual, expected, strict=True):
        torch.testing.assert_close(value, true, rtol=0, atol=0)
    for buffer in buffers:
        edges = torch.cat([buffer[:guard], buffer[-guard:]])
        assert (edges.isnan() if edges.is_floating_point() else edges == 255).all()


@pytest.mark.parametrize("empty", ["batch", "length", "channels", "states"])
def test_empty_axes_are_refused(empty):
    batch, length, channels, states = (0 if empty == name else 2 for name in ("batch", "length", "channels", "states"))
    x, maps = torch.ones(batch, length, channels), torch.ones(batch, length, 1, states)
    with pytest.raises(ValueError, match="none of them 0"):
        selective_scan(x, x, torch.ones(channels, states), maps, maps, backend="numba")


MEMORY = """
import resource, torch
from skop.ops import selective_scan

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def growth(length, channels=64, states=16):
    '''Growth of the peak during a scan and its gradients.'''
    x, dt, grad_y = torch.rand(3, 1, length, channels)
    maps = torch.rand(2, 1, length, 1, states)
    arguments = [value.clone().requires_grad_() for value in (x, dt, -torch.ones(channels, states), *maps)]
    filler = torch.ones(max(0, peak() - resident()) // 4)  # what compiling once took is in use again
    before = peak()
    y = selective_scan(*arguments, dt_softplus=True, backend="numba")
    gradients = torch.autograd.grad(y, arguments, grad_y)
    return (peak() - before) / x.nbytes

torch.set_num_threads(1)
growth(64)
print(growth(65536))
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read as Linux counts it")
def test_memory_is_a_few_times_the_input():
    """In units of x: 1 for y, 2 for the gradients of x and dt, the rest for checkpoints and partial sums."""
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}  # what is freed goes back at once
    command = [sys.executable, "-c", MEMORY]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert 3 < float(done.stdout) <= 6
