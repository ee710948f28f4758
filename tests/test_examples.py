"""Every example runs, and the numbers that it prints are as good as its text says."""

import ast
import runpy
from pathlib import Path

import pytest
import torch

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

from skop.exceptions import ResolutionWarning  # noqa: E402

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("plot_*.py"))


@pytest.fixture
def run_example(capsys):
    """Execute an example; gives its variables and the lines that it printed."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def run(name):
        variables = runpy.run_path(str(FOLDER / f"plot_{name}.py"), run_name="__main__")
        return variables, capsys.readouterr().out.splitlines()

    yield run
    torch.set_num_threads(n_threads)
    pyplot.close("all")


def test_quick_start(run_example):
    variables, lines = run_example("quick_start")
    assert lines[-1] == f"relative L2 error of the loaded model: {variables['error']:.4f}"
    assert variables["error"] < 0.06
    assert variables["error"] < variables["mean_field_error"] / 4
    assert variables["error"] == pytest.approx(1 - variables["model"].score(variables["X_test"], variables["y_test"]))
    assert len(pyplot.get_fignums()) == 2


def test_grid_search(run_example):
    variables, lines = run_example("grid_search")
    assert lines[-1] == f"relative L2 error of the best model on the test set: {variables['error']:.4f}"
    assert variables["error"] < 0.05
    assert min(variables["cv_errors"]) < 0.5 * max(variables["cv_errors"])
    assert variables["search"].best_index_ == variables["cv_errors"].argmin()
    assert len(lines) == 5


def test_resolution_change(run_example):
    with pytest.warns(ResolutionWarning):
        variables, lines = run_example("resolution_change")
    assert lines[-1].split()[-1] == f"{variables['fine_error']:.4f}"
    assert variables["coarse_error"] < 0.06
    # What the text concludes: a small gain on interpolation by default, and failure of the network itself.
    assert variables["interpolated_error"] < variables["coarse_error"] + variables["floor"]
    assert 0.75 * variables["interpolated_error"] < variables["fine_error"] < variables["interpolated_error"]
    assert variables["native_error"] > 2 * variables["interpolated_error"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_have_a_title_cells_and_a_test(path):
    text = path.read_text()
    title, underline, *_ = ast.get_docstring(ast.parse(text)).splitlines()
    assert underline == "=" * len(title)
    assert text.count("# %%") >= 3
    assert f"test_{path.stem.removeprefix('plot_')}" in globals()
