"""The ablation of the CPU kernels runs, and what is compared computes the same."""

import pytest

pytest.importorskip("numba")

from benchmarks.__main__ import main
from benchmarks._report import read_report
from skop.ops.ssd_scan import _cpu


@pytest.mark.exhaustive
def test_tiny_problems(tmp_path):
    output = tmp_path / "ablation.md"
    assert main(["kernel-ablation", "--quick", "--repeats", "1", "--output", str(output)]) == 0
    numbers = read_report(output)[0]
    assert len(numbers) == 4
    assert all(row["with"] > 0 and row["without"] > 0 for row in numbers.values())
    assert _cpu._PREFETCHES  # for the next call, too
