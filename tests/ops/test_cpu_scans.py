"""The CPU kernels of all scans against float64 autograd of the recurrences, and what they leave alone."""

import os
import subprocess
import sys
from importlib import import_module
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scan_problems import (
    NAIVE,
    OPTIONAL,
    cast,
    core_problem,
    cotangents_of,
    reference,
    relative_errors,
    run_kernel,
    tensors,
)

pytest.importorskip("numba")

from skop.ops import _cpu_tools

KERNELS = {name: import_module(f"skop.ops.{name}._cpu") for name in NAIVE}
KINDS = [torch.float32, torch.float64, torch.bfloat16]
kernels = pytest.mark.parametrize("name", KERNELS)
lines = pytest.mark.parametrize("name", ["selective_scan", "ssd_scan"])


@pytest.fixture(autouse=True)
def _threads():
    """Give back torch's number of threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def kernel(name, given, dtype=torch.float64, **options):
    """Outputs, and gradients of what is there, of a kernel."""
    return run_kernel(KERNELS[name], given, dtype, **options)


def expect_close(name, given, bound, dtype=torch.float64, **options):
    """Fail with the errors of the outputs and gradients."""
    errors = relative_errors(kernel(name, given, dtype, **options), reference(name, given, **options))
    assert torch.tensor(errors).max() <= bound, errors


def expect_equal(found, expected):
    """Fail unless all bits are the same, but for NaN."""
    for value, true in zip(found, expected, strict=True):
        torch.testing.assert_close(value, true, rtol=0, atol=0, equal_nan=True)


CASES = {
    "selective_scan": [
        ((1,), {"k": 2, "c": 3, "n": 2, "activated": False}),
        ((31,), {"k": 1, "c": 16, "n": 16, "shared": False, "without": ("R",)}),
        ((32,), {"k": 2, "c": 17, "n": 3, "without": ("D",)}),
        ((33,), {"k": 3, "c": 5, "n": 17, "shared": False, "activated": False, "without": ("initial_state",)}),
        ((70,), {"c": 40, "n": 5, "shared": False, "without": ("dt_bias", "R")}),
        ((101,), {"k": 3, "c": 33, "n": 16, "activated": False, "without": ("D", "R", "initial_state")}),
        ((64,), {"k": 1, "c": 150, "n": 1, "without": OPTIONAL}),
        ((40,), {"c": 300, "n": 2}),
    ],
    # Tails in channels and states, one line, one cell a line, several strips of lines and parts of a line.
    "selective_scan_2d": [
        ((5, 7), {"k": 8, "c": 19, "n": 5}),
        ((1, 9), {"k": 8, "c": 35, "n": 1}),
        ((9, 1), {"k": 8, "c": 35, "n": 3}),
        ((50, 19), {"c": 3, "n": 2}),
        ((23, 61), {"k": 1, "c": 40, "n": 3}),
        ((2, 300), {"c": 5, "n": 2}),
        ((700, 2), {"c": 5, "n": 2}),
        ((22, 51), {"k": 8, "c": 33, "n": 5}),
    ],
    "ssd_scan": [
        ((5,), {"k": 1, "h": 2, "p": 3, "n": 2, "shared": False}),
        ((31,), {"h": 1, "p": 16, "n": 16, "q": 16, "without": ("initial_state",)}),
        ((32,), {"k": 3, "p": 5, "n": 7, "shared": False, "own_maps": False, "without": ("D",)}),
        ((33,), {"n": 33, "own_maps": False}),
        ((64,), {"k": 1, "h": 5, "p": 32, "n": 20, "q": 32, "shared": False}),
        ((97,), {"h": 4, "p": 8, "n": 64, "q": 8, "shared": False, "own_maps": False, "without": ("initial_state",)}),
        ((150,), {"h": 2, "p": 33, "n": 17, "own_maps": False, "without": ("D", "initial_state")}),
        ((40,), {"k": 1, "h": 40, "p": 4, "shared": False}),
        ((70,), {"k": 1, "h": 1, "p": 300, "n": 40, "shared": False}),
    ],
}


@kernels
def test_equals_the_reference(name):
    for tokens, sizes in CASES[name]:
        given = core_problem(name, *tokens, **sizes)
        expected = reference(name, given)
        for dtype, bound in ((torch.float32, 1e-6), (torch.float64, 1e-11)):
            errors = relative_errors(kernel(name, given, dtype), expected)
            assert torch.tensor(errors).max() <= bound, (tokens, sizes, dtype, errors)


@kernels
def test_sizes_of_one(name):
    one = {"b": 1, "k": 1, "c": 1, "h": 1, "p": 1, "n": 1}
    for change in ({}, {"t": 2}, {"k": 2}, {"c": 17, "p": 17}, {"n": 17}, {"t": 33}):
        sizes = one | change
        tokens = (sizes.pop("t", 1),) * (2 if name == "selective_scan_2d" else 1)
        for shared in (True, False):  # in float64 alone: a single number may be what two larger ones leave
            expect_close(name, core_problem(name, *tokens, **sizes, shared=shared), 1e-11)


@kernels
def test_each_optional_argument_alone_and_any_number_of_samples(name):
    """What is not given has no gradient and no influence."""
    tokens = (6, 50) if name == "selective_scan_2d" else (37,)
    for left, shared in product(OPTIONAL, (True, False)):
        expect_close(name, core_problem(name, *tokens, shared=shared, without=set(OPTIONAL) - {left}), 1e-11)
    for batch in (1, 9):
        expect_close(name, core_problem(name, *tokens[:1] * len(tokens), b=batch), 1e-11)
    expect_close(name, core_problem(name, *tokens), 1e-11, final=False)


@kernels
def test_the_backward_pass_can_run_again_and_nothing_is_kept_unless_asked_for(name):
    given = cast(core_problem(name, *((40, 60) if name == "selective_scan_2d" else (70,))), torch.float32)
    y, end, kept = KERNELS[name].forward(given, True)
    before = kept.clone()
    first, second = (KERNELS[name].backward(given, kept, y, end) for _ in range(2))
    assert torch.equal(kept, before)
    expect_equal([grad for grad in first if grad is not None], [grad for grad in second if grad is not None])
    *outputs, kept = KERNELS[name].forward(given, False)
    assert kept is None
    expect_equal([out for out in outputs if out is not None], [out for out in (y, end) if out is not None])


# -- Precision -------------------------------------------------------------------------------------------------------


@kernels
def test_bfloat16_is_float32_with_the_results_rounded(name):
    for shared in (True, False):
        given = core_problem(name, *((22, 51) if name == "selective_scan_2d" else (70,)), c=40, n=5, shared=shared)
        wide, narrow = kernel(name, given, torch.float32), kernel(name, given, torch.bfloat16)
        expect_equal(narrow, [exact.to(value.dtype) for exact, value in zip(wide, narrow, strict=True)])


@lines
def test_long_sequences_stay_accurate(name):
    given = core_problem(name, 20_000, b=1, k=1, c=16, h=2, p=4, n=4)
    # In float64, which shorter ones hold to the recurrence.
    errors = relative_errors(kernel(name, given, torch.float32), kernel(name, given))
    assert max(errors) <= 2e-6, errors


@kernels
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 2e-6), (torch.float64, 1e-11)])
def test_strong_decay(name, dtype, bound):
    tokens = (13, 50) if name == "selective_scan_2d" else (70,)
    for exponent in (-1.0, -6.0, -50.0):
        # exp(dt A) has the rounding error of its exponent, 50 x 6e-8, in float32.
        limit = bound * max(1, -exponent / 20)
        given = core_problem(name, *tokens, activated=False, without=("R",), k=2)
        given = given._replace(dt=0.75 + given.dt.clamp(0, 0.5), A=torch.full_like(given.A, exponent))
        expect_close(name, given, limit, dtype)
        if name == "selective_scan" and exponent > -50:
            # R = 1 leaves y nothing but the past, which decays to a small part of the own input.
            ones = torch.ones_like(core_problem(name, *tokens).R)
            expect_close(name, given._replace(R=ones, D=None, initial_state=None), limit, dtype)


@lines
def test_strong_decays_among_weak_ones(name):
    for strong, (dtype, bound) in product((-6.0, -50.0, -3e4), [(torch.float32, 2e-6), (torch.float64, 1e-11)]):
        given = core_problem(name, 70, k=1, shared=False, activated=False, without=("R",))
        steps = torch.full_like(given.dt, 1 / 64)
        steps[:, ::5] = -strong
        expect_close(name, given._replace(dt=steps, A=-torch.ones_like(given.A)), bound, dtype)


@lines
def test_steps_of_zero_pass_the_state_and_leave_the_skip(name):
    given = core_problem(name, 70, activated=False, without=("R",), shared=False)
    given = given._replace(dt=torch.zeros_like(given.dt))
    found, expected = kernel(name, given, torch.float32), reference(name, given)
    torch.testing.assert_close(found[1].double(), given.initial_state, rtol=0, atol=0)
    for value, true in zip(found, expected, strict=True):
        torch.testing.assert_close(value.double(), true, rtol=1e-5, atol=1e-5)


def test_a_step_of_zero_is_a_cell_less():
    """Lines of cells with a step of zero leave the states as they are: the others see a smaller grid."""
    given = core_problem("selective_scan_2d", 6, 50, c=16, activated=False, without=("R",))
    given.dt[:, 3] = given.dt[:, :, 7] = 0.0
    expect_close("selective_scan_2d", given, 1e-11)
    rows, columns = [0, 1, 2, 4, 5], [*range(7), *range(8, 50)]
    smaller = given._replace(**{key: getattr(given, key)[:, rows][:, :, columns] for key in ("x", "dt", "B", "C")})
    whole, part = (KERNELS["selective_scan_2d"].forward(each, False)[0] for each in (given, smaller))
    torch.testing.assert_close(whole[:, rows][:, :, columns], part, rtol=1e-11, atol=1e-11)


def test_the_correction_over_a_grid_is_exact():
    """With R = 1 a cell does not see its own input, however large."""
    given = cast(core_problem("selective_scan_2d", 4, 5, c=3, without=("D", "dt_bias")), torch.float32)
    given = given._replace(R=torch.ones_like(given.R))
    ys = []
    for size in (1e8, 0.0):
        given.x[0, 2, 2] = size
        ys.append(KERNELS["selective_scan_2d"].forward(given, False)[0][0, 2, 2])
    assert torch.equal(*ys)


@lines
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_growth_is_right_or_nan(name, dtype):
    """Growing states: dt A in 0 ... 900, by positive rates or, where these have states of their own, negative steps."""
    growth = torch.linspace(0, 900 if name == "selective_scan" else 300, 64, dtype=torch.float64)
    for sign in (1, -1) if name == "selective_scan" else (1,):
        given = core_problem(name, 3, b=1, k=1, c=64, h=64, p=2, n=2, shared=False, activated=False, without=("R",))
        rates = sign * torch.stack([growth, -growth], -1) if name == "selective_scan" else growth
        given = cast(given._replace(dt=sign * torch.ones_like(given.dt), A=rates[None]), dtype)
        y, final, _ = KERNELS[name].forward(given, False)
        for value, true in zip((y, final), NAIVE[name](given), strict=True):
            same = torch.isclose(value, true, rtol=1e-3 if dtype == torch.float32 else 1e-9, equal_nan=True)
            assert (same | value.isnan()).all()
        is_small = growth < (80 if dtype == torch.float32 else 700) / (1 if name == "selective_scan" else 3)
        first = (given.order if name == "selective_scan" else given.paths)[0, 0].long()
        assert y[0, first, 0, is_small].isfinite().all()


def test_growth_beyond_all_numbers_is_nan_over_a_grid():
    given = cast(core_problem("selective_scan_2d", 3, 3, k=1, c=2, n=2, activated=False), torch.float32)
    given = given._replace(dt=torch.full_like(given.dt, 1e3), A=torch.ones_like(given.A))
    assert KERNELS["selective_scan_2d"].forward(given, False)[0].isnan().all()


# -- NaN -------------------------------------------------------------------------------------------------------------


@kernels
def test_nan_spreads_as_in_the_reference(name):
    # Three states: the kernels fill them up with a fourth, which must not pass NaN on either.
    tokens = (4, 50) if name == "selective_scan_2d" else (70,)
    for shared, key in product((True, False), ("x", "dt", "A", "B", "C", *OPTIONAL)):
        given = core_problem(name, *tokens, shared=shared)
        if getattr(given, key, None) is None:
            continue
        spoiled = getattr(given, key).clone()
        spoiled.view(-1)[spoiled.numel() // 2] = torch.nan
        given = given._replace(**{key: spoiled})
        found, expected = kernel(name, given), reference(name, given)
        assert any(true.isnan().any() for true in expected), key
        for value, true in zip(found, expected, strict=True):
            assert value[true.isnan()].isnan().all(), key
            if name == "selective_scan" and key != "A":  # a rate makes all states of its channel NaN
                assert torch.equal(value.isnan(), true.isnan()), key


@kernels
def test_nan_stays_in_its_channel_and_in_later_tokens(name):
    if name == "selective_scan_2d":
        given = core_problem(name, 4, 50, k=1)
        given.x[0, 2, 20, 0, 7] = torch.nan
        y, _, _ = KERNELS[name].forward(given, False)
        expected = torch.zeros_like(y, dtype=torch.bool)
        expected[0, 2:, 20:, 0, 7] = True
        assert torch.equal(y.isnan(), expected)
        return
    given = core_problem(name, 70, k=1, shared=False)
    path = (given.paths if name == "ssd_scan" else given.order)[0].long()
    channel = (1, 2) if name == "ssd_scan" else (7,)
    given.x[(0, path[40], 0, *channel)] = torch.nan
    y, final, _ = KERNELS[name].forward(given, False)
    assert y[(0, path[40:], 0, *channel)].isnan().all()
    assert y[0, path[:32]].isfinite().all()
    others = [c for c in range(y.shape[3]) if c != channel[0]]
    assert y[:, :, :, others].isfinite().all()
    assert final[:, :, others].isfinite().all()
    if name == "selective_scan":
        assert y[0, path[:40]].isfinite().all()
        assert final.isnan().sum() == 3


def test_missing_values_of_other_programs_are_nan_too():
    missing = torch.from_numpy(np.array([0x7FF00000000007A2]).view(np.float64))  # R's NA
    for key in ("x", "dt"):
        given = core_problem("selective_scan", 5, b=1, k=1, c=2, n=1)
        getattr(given, key)[0, given.order[0, 0].long(), 0, 0] = missing
        y, _, _ = KERNELS["selective_scan"].forward(given, False)
        assert y[..., 0].isnan().all()
        assert y[..., 1].isfinite().all()


# -- Threads and memory ----------------------------------------------------------------------------------------------


@kernels
@pytest.mark.parametrize("dtype", KINDS)
def test_bits_do_not_depend_on_threads_or_runs(name, dtype):
    for shared in (True, False):
        given = core_problem(
            name, *((13, 50) if name == "selective_scan_2d" else (70,)), c=70, h=6, p=7, n=5, shared=shared
        )
        torch.set_num_threads(1)
        expected = kernel(name, given, dtype)
        for threads in (2, 3, 5, 1):
            torch.set_num_threads(threads)
            expect_equal(kernel(name, given, dtype), expected)
            assert torch.get_num_threads() == threads


@kernels
@pytest.mark.parametrize("dtype", KINDS)
def test_strides_do_not_matter_and_arguments_are_left_alone(name, dtype):
    given = core_problem(name, *((7, 9) if name == "selective_scan_2d" else (33,)), q=17)
    expected = kernel(name, given, dtype)

    def strided(value):
        """The same numbers with axes in reverse order and gaps between them, among NaN."""
        if value is None:
            return None
        buffer = torch.full([2 * size for size in value.shape[::-1]], torch.nan, dtype=torch.float64)
        view = buffer[(slice(None, None, 2),) * value.ndim].permute(*range(value.ndim)[::-1])
        return view.copy_(value)

    turned = given._replace(**{key: strided(value) for key, value in tensors(given).items()})
    for key in ("order", "paths"):
        if isinstance(getattr(given, key, None), torch.Tensor):
            turned = turned._replace(**{key: getattr(given, key).T.contiguous().T})
    outputs = KERNELS[name].forward(cast(given, dtype), False)[:2]
    cotangents = [strided(value) for value in cotangents_of(outputs)]
    held = [value for value in (*turned, *cotangents) if isinstance(value, torch.Tensor)]
    before = [value.clone() for value in held]
    expect_equal(kernel(name, turned, dtype, cotangents=cotangents), expected)  # whose casts keep strides
    expect_equal(held, before)


@kernels
@pytest.mark.parametrize("dtype", KINDS)
def test_memory_is_written_within_bounds_and_read_after_it_is_written(monkeypatch, name, dtype):
    grid, guard, empty = name == "selective_scan_2d", 64, torch.empty
    large = {"k": 3, "c": 40, "h": 2, "p": 40, "n": 18, "shared": False}
    for size, sizes in ((33, {"c": 17}), (70, large), (1, {"b": 1})):
        given = core_problem(name, *((size % 30, 5) if grid else (size,)), **sizes)
        expected, buffers = kernel(name, given, dtype), []

        def guarded(*shape, dtype, buffers=buffers, **options):
            """Fresh memory in the middle of NaN, and NaN itself."""
            shape = empty(*shape, dtype=torch.uint8).shape
            buffers.append(torch.full((shape.numel() + 2 * guard,), torch.nan, dtype=dtype, **options))
            return buffers[-1][guard : guard + shape.numel()].view(shape)

        def guarded_bytes(count, dtype, buffers=buffers):
            buffers.append(torch.full((count + 2 * guard,), 255, dtype=torch.uint8))  # NaN in every precision
            return buffers[-1][guard : guard + count].numpy()

        def guarded_like(value, *shape, dtype=None, new=guarded):
            return new(*shape, dtype=dtype or value.dtype)

        with monkeypatch.context() as patch:
            patch.setattr(torch, "empty", guarded)
            patch.setattr(torch.Tensor, "new_empty", guarded_like)
            patch.setattr(torch, "empty_like", lambda value, new=guarded: new(*value.shape, dtype=value.dtype))
            fake = SimpleNamespace(empty=guarded_bytes, zeros=np.zeros, uint8=np.uint8, int64=np.int64)
            for module in (_cpu_tools, KERNELS[name]):
                patch.setattr(module, "np", fake, raising=False)
            found = kernel(name, given, dtype)
        assert len(buffers) > 8
        expect_equal(found, expected)
        for buffer in buffers:
            edges = torch.cat([buffer[:guard], buffer[-guard:]])
            assert (edges.isnan() if edges.is_floating_point() else edges == 255).all()


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
