"""The Triton kernels of all scans against the recurrences: in Triton's interpreter, and on a GPU where there is one.

Whether Triton interprets is settled when it is imported, so the interpreted tests run in a process of their own.
"""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from scan_problems import (
    ALL_DIRECTIONS,
    NAIVE,
    OPTIONAL,
    cast,
    core_problem,
    reference,
    relative_errors,
    run_kernel,
    tensors,
)

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
CROSS = ((2, 1), (1, 2), (-2, -1), (-1, -2))
kernels = pytest.mark.parametrize("name", NAIVE)
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available() or INTERPRETED, reason="needs a CUDA device")


def run_interpreted(words):
    """Run tests of this file in a process that interprets Triton, and return what pytest says."""
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-m", "not gpu", "-k", words, __file__]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    root = Path(__file__).parents[2]
    result = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    return result.stdout


@pytest.mark.skipif(INTERPRETED, reason="it would start itself")
class TestProcesses:
    """Processes that interpret."""

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("part", ["selective_scan_2d", "ssd_scan", "not selective_scan_2d and not ssd_scan"])
    def test_in_the_interpreter(self, part):
        run_interpreted(part)

    def test_one_case_of_each_kernel_in_the_interpreter(self):
        assert "4 passed" in run_interpreted("quick")


def problem(name, *tokens, directions=None, device="cpu", b=1, k=1, **sizes):
    """Arguments of kernels: small ones, unless sizes are given."""
    small = {"c": 1, "n": 1} if name == "selective_scan_2d" else {"c": 3, "h": 2, "p": 3, "n": 2, "q": 3}
    small |= {"q": sizes["p"]} if "p" in sizes else {}
    given = core_problem(name, *tokens, b=b, k=len(directions or ()) or k, **(small | sizes))
    given = given._replace(order=directions) if directions else given
    return given._make(value.to(device) if isinstance(value, torch.Tensor) else value for value in given)


def run(name, given, dtype=torch.float64, **options):
    """Outputs and gradients of the kernels."""
    return run_kernel(import_module(f"skop.ops.{name}._triton"), given, dtype, **options)


def errors(name, given, dtype=torch.float64, final=True):
    """Relative errors of the outputs and of every gradient, against float64, by name."""
    names = ["y", *(["end"] if name != "selective_scan_2d" else [])]
    names += [key for key, value in tensors(given).items() if value is not None]
    found = relative_errors(run(name, given, dtype, final=final), reference(name, given, final))
    return dict(zip(names, found, strict=True))


def decaying(given, decay, **change):
    """The same problem with dt A of one size."""
    steps, rates = torch.full_like(given.dt, decay), torch.full_like(given.A, -1.0)
    given = given._replace(dt=steps, A=rates, **change)
    return given._replace(softplus=False) if hasattr(given, "softplus") else given


CASES = {
    "selective_scan": [
        ((1,), {}),
        ((5,), {"activated": False, "without": OPTIONAL, "b": 2}),
        ((31,), {"without": OPTIONAL[1:], "k": 2}),
        ((32,), {"activated": False, "without": OPTIONAL[:2], "c": 1, "n": 1}),
        ((33,), {"k": 2, "shared": False}),
        ((33,), {"activated": False, "c": 33, "n": 1, "without": ("D", "initial_state")}),
        ((40,), {"n": 5, "b": 2}),
        ((70,), {"k": 3, "without": ("dt_bias", "initial_state")}),
        ((70,), {"activated": False, "k": 2, "shared": False, "without": ("D", "R")}),
    ],
    "selective_scan_2d": [
        *(((5, 6), {"directions": (direction,)}) for direction in ALL_DIRECTIONS),
        ((1, 1), {"k": 2}),
        ((1, 10), {"activated": False, "without": ("D", "dt_bias"), "k": 2}),
        ((10, 1), {"without": ("dt_bias", "R"), "k": 2}),
        ((4, 8), {"activated": False, "without": OPTIONAL, "b": 2, "k": 2}),
        ((3, 3), {"c": 17, "without": ("D", "R"), "k": 2}),
        ((6, 5), {"activated": False, "n": 2, "without": ("dt_bias",), "k": 2}),
        ((5, 3), {"c": 3, "n": 2, "without": ("R",), "k": 2}),
        ((3, 5), {"directions": CROSS}),
    ],
    "ssd_scan": [
        ((1,), {}),
        ((5,), {"without": OPTIONAL, "b": 2}),
        ((63,), {"q": 1, "k": 2, "own_maps": False}),
        ((64,), {"without": ("initial_state",), "p": 1, "h": 1, "n": 1}),
        ((65,), {"k": 2, "shared": False, "own_maps": False, "h": 3}),
        ((65,), {"k": 2, "q": 1}),
        ((70,), {"p": 35, "h": 1}),
        ((70,), {"n": 37, "h": 1, "b": 2}),
        ((150,), {"k": 3, "shared": False, "without": ("D",)}),
        ((150,), {"b": 2, "k": 2, "own_maps": False}),
    ],
}
#: Tokens of a problem with several chunks or tiles.
SOME = {"selective_scan": (40,), "selective_scan_2d": (5, 3), "ssd_scan": (70,)}


class TestInterpreted:
    """Tiny scans, one number after the other."""

    __test__ = INTERPRETED

    @pytest.fixture(autouse=True)
    def _small_tiles(self, monkeypatch):
        """Several tiles in a tiny grid."""
        monkeypatch.setattr(import_module("skop.ops.selective_scan_2d._triton"), "_TILE", 4)

    @kernels
    def test_quick(self, name):
        tokens = {"selective_scan_2d": (5, 3)}.get(name, (5,))
        assert max(errors(name, problem(name, *tokens, k=2, b=2)).values()) < 1e-12

    @kernels
    def test_equals_the_reference(self, name):
        for number, (tokens, sizes) in enumerate(CASES[name]):
            found = errors(name, problem(name, *tokens, **sizes), final=number % 2 == 0)
            assert max(found.values()) < 1e-12, (tokens, sizes, found)

    def test_other_tiles_selective_scan_2d(self, monkeypatch):
        given = problem("selective_scan_2d", 3, 5, directions=CROSS)
        small = run("selective_scan_2d", given)
        monkeypatch.setattr(import_module("skop.ops.selective_scan_2d._triton"), "_TILE", 8)
        torch.testing.assert_close(run("selective_scan_2d", given), small)

    @kernels
    def test_float32_error_does_not_depend_on_the_decay(self, name):
        tokens = {"selective_scan": (70,), "selective_scan_2d": (5, 4), "ssd_scan": (100,)}[name]
        for decay in (0.0, 1e-3, 6.0, 50.0):
            given = problem(name, *tokens, without=("dt_bias", "R"), k=2 if name == "ssd_scan" else 1)
            found = errors(name, decaying(given, decay), torch.float32)
            assert max(found.values()) < 2e-6, (decay, found)
        if name != "ssd_scan":  # what is left without the own token keeps its digits
            for decay in (1.0, 6.0, 12.0):
                given = problem(name, *tokens, without=("D", "dt_bias", "initial_state"))
                found = errors(name, decaying(given, decay, R=torch.ones_like(given.R)), torch.float32, final=False)
                assert max(found.values()) < 2e-6, (decay, found)

    @pytest.mark.parametrize("name", ["selective_scan", "ssd_scan"])
    def test_a_strong_step_among_weak_ones(self, name):
        given = problem(name, 100, activated=False, without=("dt_bias", "R"))
        given.dt[:, 10::20] *= 200
        found = errors(name, given, torch.float32)
        assert max(found.values()) < 2e-6, found

    @kernels
    def test_steps_of_zero_pass_the_state_and_leave_the_skip(self, name):
        given = problem(name, *SOME[name], activated=False, k=2, without=("R",))
        given.dt.zero_()
        y, *rest = run(name, given)
        torch.testing.assert_close(y, reference(name, given)[0])
        assert name == "selective_scan_2d" or torch.equal(rest[0], given.initial_state)

    @kernels
    def test_nan_is_not_lost(self, name):
        for key in [key for key, value in tensors(problem(name, *SOME[name])).items() if value is not None]:
            given = problem(name, *SOME[name])
            getattr(given, key).view(-1)[-1] = torch.nan
            for value, true in zip(run(name, given)[:2], reference(name, given)[:2], strict=True):
                assert value[true.isnan()].isnan().all(), key

    def test_nan_does_not_reach_earlier_tokens_selective_scan(self):
        for key in ("x", "dt", "B", "C"):
            given = problem("selective_scan", 70)
            getattr(given, key)[:, given.order[0, 40].long()] = torch.nan
            assert run("selective_scan", given)[0][:, given.order[0, :40].long()].isfinite().all()

    @pytest.mark.parametrize("name", ["selective_scan", "ssd_scan"])
    def test_two_halves_are_the_whole(self, name):
        given, key = problem(name, 130), {"selective_scan": "order", "ssd_scan": "paths"}[name]
        order = torch.arange(130, dtype=torch.int32)[None]
        forward = import_module(f"skop.ops.{name}._triton").forward
        y, end, _ = forward(given._replace(**{key: order}), False)
        ys, state = [], given.initial_state
        for part in (slice(None, 75), slice(75, None)):
            cut = {held: getattr(given, held)[:, part] for held in ("x", "dt", "B", "C")}
            cut |= {"initial_state": state, key: order[:, : cut["x"].shape[1]]}
            one, state, _ = forward(given._replace(**cut), False)
            ys.append(one)
        torch.testing.assert_close((torch.cat(ys, dim=1), state), (y, end))

    @kernels
    def test_bfloat16_is_computed_in_float32(self, name):
        found = errors(name, problem(name, *SOME[name], k=2), torch.bfloat16)
        assert all(found[key] < (4e-3 if key in ("y", "x", "B", "C") else 2e-6) for key in found), found

    @kernels
    def test_strided_arguments(self, name):
        given = problem(name, *SOME[name], k=2)
        turned = {
            k: v.transpose(0, -1).contiguous().transpose(0, -1) for k, v in tensors(given).items() if v is not None
        }
        if "initial_state" in turned:
            turned["initial_state"] = given.initial_state.repeat_interleave(2, dim=1)[:, ::2]
        for key in ("order", "paths"):
            if isinstance(getattr(given, key, None), torch.Tensor):
                turned[key] = getattr(given, key).T.contiguous().T
        torch.testing.assert_close(run(name, given._replace(**turned)), run(name, given))

    @kernels
    def test_repeats_bit_by_bit_and_keeps_nothing_unless_asked_for(self, name):
        given = problem(name, *SOME[name], k=2)
        first, second = run(name, given, torch.float32), run(name, given, torch.float32)
        torch.testing.assert_close(first, second, rtol=0, atol=0)
        y, _, checkpoints = import_module(f"skop.ops.{name}._triton").forward(cast(given, torch.float32), False)
        assert checkpoints is None
        torch.testing.assert_close(y, first[0], rtol=0, atol=0)


@pytest.mark.gpu
@on_a_gpu
class TestGPU:
    """Real sizes, compiled."""

    SIZES = {
        "selective_scan": {"b": 4, "k": 2, "c": 64, "n": 16},
        "selective_scan_2d": {"b": 4, "directions": CROSS, "c": 64, "n": 16},
        "ssd_scan": {"b": 4, "k": 2, "h": 4, "p": 32, "n": 64, "own_maps": False},
    }

    @kernels
    @pytest.mark.parametrize(
        ("dtype", "narrow", "wide"),
        [(torch.float32, 1e-5, 1e-5), (torch.bfloat16, 4e-3, 1e-5), (torch.float64, 1e-12, 1e-12)],
    )
    def test_equals_the_reference(self, name, dtype, narrow, wide):
        tokens = (44, 44) if name == "selective_scan_2d" else (1936,)
        found = errors(name, problem(name, *tokens, device="cuda", **self.SIZES[name]), dtype)
        wide = 2e-3 if (name, dtype) == ("ssd_scan", torch.bfloat16) else wide
        assert all(found[key] < (narrow if key in ("y", "x", "B", "C") else wide) for key in found), found

    SHAPES = [
        *(("selective_scan", (500,), {"c": c, "n": n}) for c, n in [(5, 3), (33, 1), (64, 64), (512, 16), (1, 200)]),
        ("selective_scan_2d", (100, 33), {"directions": ALL_DIRECTIONS, "c": 5, "n": 3, "b": 1}),
        ("selective_scan_2d", (1, 70), {"directions": ALL_DIRECTIONS, "c": 33, "n": 1, "b": 1}),
        ("selective_scan_2d", (70, 9), {"directions": ALL_DIRECTIONS, "c": 1, "n": 40, "b": 1}),
        *(
            ("ssd_scan", (777,), {"p": p, "n": n, "h": h, "b": 2, "own_maps": True})
            for p, n, h in [(5, 3, 3), (64, 16, 2), (128, 128, 1), (33, 200, 2)]
        ),
    ]

    @kernels
    def test_other_shapes_of_the_state(self, name):
        for own, tokens, sizes in self.SHAPES:
            if own == name:
                given = problem(name, *tokens, device="cuda", **(self.SIZES[name] | {"shared": False} | sizes))
                found = errors(name, given, torch.float32)
                assert max(found.values()) < 1e-5, (tokens, sizes, found)

    @kernels
    def test_error_does_not_depend_on_the_decay(self, name):
        tokens = (40, 50) if name == "selective_scan_2d" else (500,)
        given = problem(name, *tokens, device="cuda", without=("dt_bias", "R"), **self.SIZES[name])
        for decay in (0.0, 1e-3, 6.0, 50.0):
            found = errors(name, decaying(given, decay), torch.float32)
            assert max(found.values()) < 1e-5, (decay, found)

    @kernels
    def test_repeats_bit_by_bit(self, name):
        tokens = (256, 256) if name == "selective_scan_2d" else (65536,)
        given = problem(name, *tokens, device="cuda", **(self.SIZES[name] | {"b": 1}))
        first, second = run(name, given, torch.float32), run(name, given, torch.float32)
        torch.testing.assert_close(first, second, rtol=0, atol=0)


# -- States carried over chunks --------------------------------------------------------------------------------------


def carry_slowly(added, amounts, rates, start, per_path, reverse):
    """One chunk after the other, in torch: the state that enters each, and the last."""
    sequences, chunks, elements = added.shape
    path = torch.arange(sequences, device=added.device) // per_path % len(rates)
    rate = rates[path].repeat_interleave(elements // rates.shape[1], dim=1)
    decays = (amounts.repeat_interleave(elements // amounts.shape[2], dim=2) * rate[:, None]).exp()
    state = torch.zeros_like(added[:, 0]) if start is None else start
    entering = torch.empty_like(added)
    for chunk in range(chunks)[:: -1 if reverse else 1]:
        entering[:, chunk] = state
        state = decays[:, chunk] * state + added[:, chunk]
    return entering, state


def check_carry(chunks, elements, channels, n_rates, per_path, reverse, with_start, device="cpu"):
    from skop.ops._triton_tools import carry

    generator = torch.Generator().manual_seed(chunks)

    def uniform(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64).to(device)

    paths = 2
    added = uniform(2 * paths * per_path, chunks, elements) - 0.5
    amounts, rates = uniform(len(added), chunks, channels), -uniform(paths, n_rates)
    start = uniform(len(added), elements) if with_start else None
    expected = carry_slowly(added, amounts, rates, start, per_path, reverse)
    end = carry(added, amounts, rates, start, per_path=per_path, reverse=reverse)
    torch.testing.assert_close((added, end), expected, rtol=1e-12, atol=1e-12)


# 64 chunks are carried in one level, 65 in two; 2,100 need three.
CARRIES = [
    # chunks, elements, channels, rates, sequences of a path
    (1, 6, 3, 6, 1),
    (5, 6, 1, 1, 3),
    (64, 12, 4, 2, 1),
    (65, 300, 3, 300, 1),
    (130, 12, 12, 4, 2),
]


class TestCarryInterpreted:
    """Small numbers of chunks, one number after the other."""

    __test__ = INTERPRETED

    def test_carry_quick(self):
        check_carry(65, 6, 3, 6, 1, True, True)

    @pytest.mark.parametrize("reverse", [False, True])
    def test_carry(self, reverse):
        for sizes in CARRIES:
            for with_start in (False, True):
                check_carry(*sizes, reverse, with_start)

    def test_carry_in_three_levels(self, monkeypatch):
        monkeypatch.setattr(import_module("skop.ops._triton_tools"), "_GROUP", 2)
        check_carry(11, 6, 3, 6, 1, False, True)
        check_carry(11, 6, 3, 6, 1, True, True)

    def test_power_of_two(self):
        from skop.ops._triton_tools import power_of_two

        assert [power_of_two(size) for size in (1, 5, 8)] == [1, 8, 8]
        assert (power_of_two(3, least=16), power_of_two(1000, most=64)) == (16, 64)


@pytest.mark.gpu
@on_a_gpu
def test_carry_on_a_gpu():
    for sizes in [*CARRIES, (2100, 512, 32, 512, 1)]:
        for reverse in (False, True):
            check_carry(*sizes, reverse, True, "cuda")
