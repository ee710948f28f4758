"""What the Triton kernels share: states carried over chunks, and scans that keep two results.

Whether Triton interprets is settled when it is imported, so the interpreted tests run in a process of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.mark.exhaustive
def test_in_the_interpreter():
    pytest.importorskip("triton")
    if INTERPRETED:
        return
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-m", "not gpu", __file__]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    root = Path(__file__).parents[2]
    result = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]


def test_one_case_of_each_file_in_the_interpreter():
    pytest.importorskip("triton")
    if INTERPRETED:
        return
    files = [str(path) for path in Path(__file__).parent.glob("test_triton_*.py")]
    assert len(files) == 4
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-m", "not gpu", "-k", "quick", *files]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    root = Path(__file__).parents[2]
    result = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert "4 passed" in result.stdout, result.stdout[-4000:]


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
CASES = [
    # chunks, elements, channels, rates, sequences of a path
    (1, 6, 3, 6, 1),
    (5, 6, 1, 1, 3),
    (64, 12, 4, 2, 1),
    (65, 300, 3, 300, 1),
    (130, 12, 12, 4, 2),
]


class TestInterpreted:
    """Small numbers of chunks, one number after the other."""

    __test__ = INTERPRETED

    def test_carry_quick(self):
        check_carry(65, 6, 3, 6, 1, True, True)

    @pytest.mark.parametrize(("chunks", "elements", "channels", "rates", "per_path"), CASES)
    @pytest.mark.parametrize("reverse", [False, True])
    def test_carry(self, chunks, elements, channels, rates, per_path, reverse):
        for with_start in (False, True):
            check_carry(chunks, elements, channels, rates, per_path, reverse, with_start)

    def test_carry_in_three_levels(self, monkeypatch):
        from skop.ops import _triton_tools

        monkeypatch.setattr(_triton_tools, "_GROUP", 2)
        check_carry(11, 6, 3, 6, 1, False, True)
        check_carry(11, 6, 3, 6, 1, True, True)

    @pytest.mark.parametrize(
        ("size", "options", "expected"), [(1, {}, 1), (5, {}, 8), (8, {}, 8), (3, {"least": 16}, 16)]
    )
    def test_power_of_two(self, size, options, expected):
        from skop.ops._triton_tools import power_of_two

        assert power_of_two(size, **options) == expected
        assert power_of_two(1000, most=64) == 64


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available() or INTERPRETED, reason="needs a CUDA device")
class TestGPU:
    """The same, compiled."""

    @pytest.mark.parametrize(("chunks", "elements", "channels", "rates", "per_path"), [*CASES, (2100, 512, 32, 512, 1)])
    def test_carry(self, chunks, elements, channels, rates, per_path):
        for reverse in (False, True):
            check_carry(chunks, elements, channels, rates, per_path, reverse, True, "cuda")
