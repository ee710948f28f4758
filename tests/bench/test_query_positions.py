"""The measurement of targets on other points: its data are one solution at shifted points, and it reports every way."""

import numpy as np
import pytest

from benchmarks import _query_positions
from benchmarks.__main__ import main
from benchmarks._report import read_report
from skop.data import read
from skop.datasets import make_darcy


def test_inputs_and_targets_are_parts_of_one_solution():
    data = _query_positions.make_shifted(3, 6, 1)
    a, u = make_darcy(3, variant="pdebench", resolution=12, random_state=1)
    np.testing.assert_array_equal(data["inputs"].to_grid(), a[:, ::2, ::2])
    np.testing.assert_array_equal(data["identical"].to_grid(), u[:, ::2, ::2])
    np.testing.assert_array_equal(data["diagonal"].to_grid(), u[:, 1::2, 1::2])
    np.testing.assert_allclose(data["diagonal"].coords - data["inputs"].coords, 1 / 12, rtol=1e-5)
    published = data["diagonal as published"]
    np.testing.assert_array_equal(published.values, data["diagonal"].values)
    np.testing.assert_array_equal(published.coords, data["inputs"].coords)


def test_only_the_diagonal_is_on_other_points():
    data = _query_positions.make_shifted(2, 4, 0)
    kinds = {
        way: read(data["inputs"], data[way], other_points=True).spec.target_points for way in _query_positions._WAYS
    }
    assert kinds == {"identical": "inputs", "diagonal": "shared", "diagonal as published": "inputs"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("host", ["oformer", "galerkin"])
def test_a_whole_run_writes_its_tables(host, tmp_path, capsys):
    output = tmp_path / "result.md"
    words = ["--resolution", "6", "--train", "8", "--test", "3", "--budget", "0.5", "--seeds", "2", "--hosts", host]
    assert main(["query-positions", *words, "--mixers", "linear", "mamba", "--output", str(output)]) == 0
    numbers = read_report(output)[0]
    assert len(numbers) == 2 * 2 * 3
    for name, found in numbers.items():
        way = name.split(", ")[2]
        between = found["at the odd points between even ones"]
        assert set(between) == ({"not retrained", "interpolated"} if way == "identical" else {way})
        figures = [*found["at all points"].values(), *between.values()]
        assert all(np.isfinite(list(own.values())).all() for own in figures)
    text = capsys.readouterr().out
    for word in (
        "relative L2 at all points",
        "published as RMSE",
        "published as nRMSE",
        "Epochs",
        f"| {host}, mamba |",
    ):
        assert word in text
