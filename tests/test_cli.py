"""What a newcomer sees: the demo writes what it says, its lines of Python run, and errors are one line."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
from matplotlib import pyplot  # noqa: E402

import skop  # noqa: E402
from skop._demo import DemoOptions, run_demo  # noqa: E402
from skop.cli import main  # noqa: E402
from skop.datasets import make_darcy  # noqa: E402
from skop.metrics import relative_l2_error  # noqa: E402

TINY = ["demo", "--samples", "24", "--resolution", "8", "--epochs", "2", "--seed", "3"]
PNG_SIGNATURE = b"\x89PNG"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Folder and printed lines of one tiny demo."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    finished = subprocess.run(
        [sys.executable, "-m", "skop", *TINY, "--output", str(folder)], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    return folder, finished.stdout.splitlines()


def test_demo_writes_two_pictures_and_a_model(demo):
    folder, lines = demo
    assert sorted(path.name for path in folder.iterdir()) == ["fields.png", "learning_curve.png", "model.skop"]
    for name in ("fields.png", "learning_curve.png"):
        assert (folder / name).read_bytes().startswith(PNG_SIGNATURE)
        picture = pyplot.imread(folder / name)
        assert min(picture.shape[:2]) > 300
        assert np.ptp(picture) > 0.9
        assert any(str(folder / name) in line for line in lines)


def test_demo_prints_an_aligned_table_of_the_models(demo):
    _, lines = demo
    start = next(index for index, line in enumerate(lines) if line.split()[:1] == ["model"])
    table = lines[start : start + 5]
    names = ["model", "mean field", "POD + ridge", "POD + Gaussian process", "LaMO"]
    assert [row[3:27].strip() for row in table] == names
    assert len({len(row) for row in table}) == 1
    errors = [float(row[27:].split()[0]) for row in table[1:]]
    assert all(0 < error < 200 for error in errors)
    # The samples follow from the seed alone, so the error of their mean is known without the demo.
    _, y = make_darcy(124, resolution=8, solver_resolution=22, random_state=3)
    mean_error = relative_l2_error(y[24:], np.broadcast_to(y[:24].mean(axis=0), y[24:].shape))
    assert errors[0] == pytest.approx(100 * mean_error, abs=0.01)


def test_the_printed_lines_of_python_run(demo, capsys):
    _, lines = demo
    start = next(index for index, line in enumerate(lines) if line.strip() == "import skop")
    names = {}
    exec("\n".join(line.strip() for line in lines[start:]), names)
    assert names["pressure"].shape == names["y"].shape == (10, 8, 8, 1)
    printed = capsys.readouterr().out.strip()
    expected = relative_l2_error(names["y"], names["pressure"])
    assert printed == f"relative L2 error {expected:.2%}"


@pytest.mark.exhaustive
def test_demo_beats_the_mean_field_within_seconds(tmp_path):
    errors = run_demo(DemoOptions(output=str(tmp_path), samples=120, resolution=12, epochs=15))
    assert errors["POD + ridge"] < errors["mean field"]
    assert errors["LaMO"] < 0.5 * errors["mean field"]


def test_max_time_ends_the_training(tmp_path):
    assert main([*TINY[:-4], "--epochs", "10000", "--max-time", "0.5", "--output", str(tmp_path)]) == 0
    model = skop.load(tmp_path / "model.skop")
    assert model.stopped_ == "max_time"
    assert model.n_iter_ < 10000


def one_line_of(capsys):
    printed = capsys.readouterr().err
    assert printed.endswith("\n")
    assert printed.count("\n") == 1
    return printed


def test_an_output_that_cannot_be_written_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main([*TINY, "--output", str(tmp_path / "file")]) == 2
    assert "file': File exists. Choose another folder with --output" in one_line_of(capsys)
    assert main([*TINY, "--output", str(tmp_path / "file" / "below")]) == 2
    assert one_line_of(capsys).startswith("skop demo: error: cannot write to")


def test_missing_matplotlib_names_the_extra_before_any_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setattr("skop._demo.make_darcy", lambda *_, **__: pytest.fail("simulated for nothing"))
    assert main([*TINY, "--output", str(tmp_path)]) == 2
    assert "skop[plot]" in one_line_of(capsys)


def test_an_interrupted_demo_says_so(capsys, monkeypatch):
    def interrupt(_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("skop.cli.run_demo", interrupt)
    assert main(TINY) == 130
    assert one_line_of(capsys) == "skop demo: interrupted\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["demo", "--samples", "3"], "expected an integer of at least 16, got '3'"),
        (["demo", "--samples", "1e3"], "expected an integer of at least 16, got '1e3'"),
        (["demo", "--resolution", "x"], "expected an integer of at least 4, got 'x'"),
        (["demo", "--max-time", "nan"], "expected a number of at least 0.01, got 'nan'"),
        (["demo", "--seed", "-1"], "expected an integer of at least 0"),
        (["fly"], "invalid choice: 'fly'"),
        ([], "arguments are required"),
    ],
)
def test_wrong_words_end_with_status_2(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_info_lists_versions_device_and_absent_packages(capsys, monkeypatch):
    monkeypatch.setattr("skop.cli._OPTIONAL_PACKAGES", ("matplotlib", "no-such-package"))
    assert main(["info"]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["skop"] == skop.__version__
    assert rows["numpy"] == np.__version__
    assert rows["matplotlib"] == matplotlib.__version__
    assert rows["no-such-package"] == "not installed (optional)"
    assert {"python", "torch", "scikit-learn", "device", "threads"} <= set(rows)


def test_version_and_help(capsys):
    for word, expected in (("--version", f"skop {skop.__version__}"), ("--help", "demo")):
        with pytest.raises(SystemExit) as stop:
            main([word])
        assert stop.value.code == 0
        assert expected in capsys.readouterr().out


def test_the_console_script_is_the_one_of_the_package():
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    assert 'skop = "skop.cli:main"' in project
