"""The comparison of estimated and measured cost: one row for each fit, on data of six kinds."""

import argparse
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from benchmarks import _cost_estimate as cost
from benchmarks.__main__ import main
from benchmarks._report import read_report
from skop.training import measure_epoch


@pytest.mark.exhaustive
def test_every_kind_of_data_is_estimated_and_fitted(tmp_path, monkeypatch):
    # Threads in place of processes, which take seconds to start: the memory is then that of the tests.
    monkeypatch.setattr(cost, "ProcessPoolExecutor", ThreadPoolExecutor)
    monkeypatch.setattr("skop.estimators.fitting._session.measure_epoch", partial(measure_epoch, seconds=0.0))
    output = tmp_path / "cost.md"
    words = ["--samples", "0.08", "--resolution", "8", "--seconds", "0.1", "--output", str(output)]
    assert main(["cost-estimate", *words]) == 0
    numbers = read_report(output)[0]
    fits = {name: found for name, found in numbers.items() if name != "summary"}
    assert {f"{problem}, default" for problem in cost._PROBLEMS} <= set(fits)
    assert all(found["estimated"] > 0 and found["measured"] > 0 and found["epochs"] >= 2 for found in fits.values())
    close = sum(abs(found["estimated"] / found["measured"] - 1) <= 0.3 for found in fits.values())
    assert numbers["summary"]["within 30 %"] == close
    assert output.read_text().count("| default |") == 6


def test_meshes_of_unlike_size_are_ragged_and_clouds_are_not():
    options = argparse.Namespace(samples=0.01, resolution=8, data_seed=0)
    sizes = {problem: cost._data(problem, options)[0].n_points for problem in ("point clouds", "meshes of unlike size")}
    assert len(np.unique(sizes["point clouds"])) == 1 < len(np.unique(sizes["meshes of unlike size"]))
