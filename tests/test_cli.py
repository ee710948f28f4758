"""What a newcomer sees in a shell: files in, files and numbers out, errors in one line, and exit codes to trust."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import h5py
import joblib
import meshio
import numpy as np
import pandas as pd
import pytest
from click import UsageError
from safetensors.torch import save as save_tensors
from scipy.io import savemat
from scipy.spatial import Delaunay

matplotlib = pytest.importorskip("matplotlib")
from matplotlib import pyplot  # noqa: E402

import skop  # noqa: E402
from skop._demo import DemoOptions, run_demo  # noqa: E402
from skop.cli import main  # noqa: E402
from skop.cli._data import Choice, read_samples  # noqa: E402
from skop.cli._fit import split_rows  # noqa: E402
from skop.cli._models import check_outputs  # noqa: E402
from skop.cli._series import _names_of_frames  # noqa: E402
from skop.data import FieldLoader, FieldSet, MeshSeries, read_mesh_series, read_meshes  # noqa: E402
from skop.data._mesh_files import write_mesh  # noqa: E402
from skop.datasets import make_darcy  # noqa: E402
from skop.estimators.files._container import digest, read_container  # noqa: E402
from skop.exceptions import FieldDataError  # noqa: E402
from skop.metrics import relative_l2_error  # noqa: E402

TINY = ["demo", "--samples", "24", "--resolution", "8", "--epochs", "2", "--seed", "3"]
OLD_MODEL = Path(__file__).with_name("estimators") / "files" / "pod.skop"
PNG_SIGNATURE = b"\x89PNG"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Folder and printed lines of one tiny demo, with its report beside the folder."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    words = [*TINY, "--output", str(folder), "--report", str(folder.parent / "report.html")]
    printed, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
        assert main(words) == 0
    # Progress, and nothing else.
    assert all(line.startswith("LaMORegressor") for line in errors.getvalue().splitlines()), errors.getvalue()
    return folder, printed.getvalue().splitlines()


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


def test_the_report_of_the_demo_holds_the_errors_of_the_table(demo, capsys):
    folder, lines = demo
    report = folder.parent / "report.html"
    text = report.read_text(encoding="utf-8")
    section = text[text.index("<h2>Comparison</h2>") :]
    for name in ("mean field", "POD + ridge", "POD + Gaussian process", "LaMO"):
        printed = float(next(line for line in lines if line.startswith(f"   {name} "))[27:].split()[0])
        row = re.search(rf'<td class="name">{re.escape(name)}.*?<td class="n">(.*?) %', section)
        assert float(row[1]) == pytest.approx(printed, abs=0.006, rel=5e-3)
    assert main([*TINY, "--output", str(folder), "--report", str(report)]) == 2
    assert "exists" in one_line_of(capsys)


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
    assert main([*TINY[:-4], "--epochs", "10000", "--max-time", "0.05", "--output", str(tmp_path)]) == 0
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


def test_missing_matplotlib_is_named_before_any_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setattr("skop._demo.make_darcy", lambda *_, **__: pytest.fail("simulated for nothing"))
    assert main([*TINY, "--output", str(tmp_path)]) == 2
    assert "pip install matplotlib" in one_line_of(capsys)


def test_an_interrupted_demo_says_so(capsys, monkeypatch):
    def interrupt(_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("skop._demo.run_demo", interrupt)
    assert main(TINY) == 130
    assert one_line_of(capsys) == "skop demo: interrupted\n"


def test_wrong_words_end_with_status_2_and_one_line(capsys, subtests):
    for words, message in [
        (["demo", "--samples", "3"], "3 is not in the range x>=16"),
        (["demo", "--samples", "1e3"], "'1e3' is not a valid integer range"),
        (["demo", "--max-time", "0"], "0.0 is not in the range x>=0.01"),
        (["demo", "--seed", "-1"], "-1 is not in the range"),
        (["fly"], "No such command 'fly'"),
        ([], "Missing command"),
        (["fit", "a.vtu"], "Missing option '--output'"),
        (["fit", "a.vtu", "-o", "m.skop", "--set", "width"], "'width' is not of the form name=value"),
    ]:
        with subtests.test(words=words, message=message):
            assert main(words) == 2
            line = one_line_of(capsys)
            assert message in line
            assert "--help" in line


def test_info_lists_versions_device_and_absent_packages(capsys, monkeypatch):
    monkeypatch.setattr("skop.cli._info._OPTIONAL_PACKAGES", ("matplotlib", "no-such-package"))
    assert main(["info"]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["skop"] == skop.__version__
    assert rows["numpy"] == np.__version__
    assert rows["matplotlib"] == matplotlib.__version__
    assert rows["no-such-package"] == "not installed (optional)"
    assert {"python", "torch", "scikit-learn", "device", "threads"} <= set(rows)


def test_version_and_help(capsys):
    commands = ("fit", "predict", "score", "compare", "describe")
    for words, expected in (
        (["--version"], f"skop {skop.__version__}"),
        (["--help"], "demo"),
        *(([name, "--help"], f"skop {name} ") for name in commands),
    ):
        assert main(words) == 0
        assert expected in capsys.readouterr().out


def test_help_needs_neither_torch_nor_scikit_learn():
    code = "import sys, skop.cli; print(*sorted({'torch', 'sklearn', 'scipy', 'numpy', 'meshio'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_the_console_script_is_the_one_of_the_package():
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    assert 'skop = "skop.cli:main"' in project


# ---------------------------------------------------------------------- runs in, models, files and errors out
#: In tables of text, some versions of pandas read numbers of 17 digits as their neighbours.
LOADS = np.linspace(1, 3, 12)
TINY_FIT = ["--epochs", "2", "--set", "width=8", "--set", "depth=1", "--quiet"]


def plate(number, load):
    """A mesh with a stress that follows from the load and the number of the run."""
    points = np.random.default_rng(number).random((30 + number % 3, 2))
    stress = load * (1 + points[:, 0] * points[:, 1])
    points = np.column_stack([points, np.zeros(len(points))])
    return meshio.Mesh(points, [("triangle", Delaunay(points[:, :2]).simplices)], {"stress": stress, "x": points[:, 0]})


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Folder with 12 runs, a table of their loads in another order, and a model that was fitted by the command."""
    folder = tmp_path_factory.mktemp("study")
    for number, load in enumerate(LOADS):
        plate(number, load).write(folder / f"run_{number}.vtu")
    rows = [f"run_{number},{LOADS[number]},{number % 4}" for number in np.random.default_rng(0).permutation(12)]
    (folder / "doe.csv").write_text("\n".join(["name,load,batch", *rows]))
    words = ["fit", str(folder / "run_*.vtu"), "--target", "stress", "--params", str(folder / "doe.csv")]
    words += ["--param", "load", "--test-fraction", "0.25", "-o", str(folder / "model.skop"), *TINY_FIT]
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        assert main(words) == 0
    return folder, stream.getvalue().splitlines()


def inputs_of(folder):
    """The runs in natural order with their loads, as the command should have read them."""
    samples = read_meshes(str(folder / "run_*.vtu"), ["stress"])
    X = samples.select(None).with_params(LOADS[:, None])
    return X, samples.select("stress")


def test_fit_prints_the_error_of_the_held_out_runs(study):
    folder, lines = study
    assert lines[0].startswith(f"{folder / 'model.skop'}: LaMORegressor, 2 epochs (max_iter)")
    X, y = inputs_of(folder)
    worst = [line.split()[1] for line in lines if line.split()[0] == "worst"]
    rows = [int(name.removesuffix(".vtu").partition("_")[2]) for name in worst]
    assert len(rows) == 3
    score = skop.load(folder / "model.skop").score(X[rows], y[rows])
    assert f"relative L2 error of 3 held-out samples: {1 - score:.2%}" in lines[1]
    errors = relative_l2_error(y[rows], skop.load(folder / "model.skop").predict(X[rows]), average="none")
    mean = relative_l2_error(y[rows], y[rows].with_values(np.full_like(y[rows].values, y[rows].values.mean())))
    spread = f"(median {np.median(errors):.2%}, worst {errors.max():.2%})"
    assert lines[1].endswith(f"{spread}; their mean field has {mean:.2%}")
    assert [line.split()[-1] for line in lines[2:]] == [f"{error:.2%}" for error in errors]


def test_a_fit_that_has_ended_is_taken_from_its_checkpoints(study, tmp_path, monkeypatch, capsys):
    folder, _ = study
    words = ["fit", str(folder / "run_*.vtu"), "--target", "stress", "--checkpoint-dir", str(tmp_path / "kept")]
    assert main([*words, "-o", str(tmp_path / "first.skop"), *TINY_FIT]) == 0

    def refuse(self, indices):
        raise AssertionError("trained again")

    monkeypatch.setattr(FieldLoader, "gather", refuse)
    assert main([*words, "-o", str(tmp_path / "second.skop"), *TINY_FIT]) == 0
    assert (tmp_path / "first.skop").read_bytes() == (tmp_path / "second.skop").read_bytes()
    capsys.readouterr()
    assert main([*words, "-o", str(tmp_path / "pod.skop"), "--estimator", "pod"]) == 2
    assert "a PODRegressor writes no checkpoints" in capsys.readouterr().err


def test_rows_belong_to_the_files_that_they_name(study, capsys, tmp_path):
    folder, _ = study
    model = skop.load(folder / "model.skop")
    assert main(["score", str(folder / "model.skop"), str(folder / "run_*.vtu"), "--params", str(folder / "doe.csv"),
                 "--json"]) == 0  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    X, y = inputs_of(folder)
    assert found["error"] == pytest.approx(1 - model.score(X, y), rel=1e-6)
    assert list(found["samples"].values()) == sorted(found["samples"].values(), reverse=True)
    # A column may hold the name of the folder of all runs, which names none of them.
    header, *rows = (folder / "doe.csv").read_text().splitlines()
    table = tmp_path / "doe.csv"
    table.write_text("\n".join([f"part,{header}", *(f"{folder.name},{row}" for row in rows)]))
    assert main(["score", str(folder / "model.skop"), str(folder / "run_*.vtu"), "--params", str(table), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == found["samples"]


def test_predicted_meshes_hold_prediction_truth_and_error(study, tmp_path, capsys):
    folder, _ = study
    words = ["predict", str(folder / "model.skop"), str(folder / "run_1*.vtu"), "--params", str(folder / "doe.csv")]
    assert main([*words, "-o", str(tmp_path / "out")]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["run_1.vtu", "run_10.vtu", "run_11.vtu"]
    X, y = inputs_of(folder)
    predicted = skop.load(folder / "model.skop").predict(X[[10]])
    predicted = predicted[0].point_data["stress"] if isinstance(predicted, list) else predicted.to_list()[0][:, 0]
    data = meshio.read(tmp_path / "out" / "run_10.vtu").point_data
    np.testing.assert_allclose(data["stress"], predicted, rtol=1e-5)
    np.testing.assert_allclose(data["stress_true"], y[[10]].to_list()[0][:, 0])
    np.testing.assert_allclose(data["stress_error"], data["stress"] - data["stress_true"], atol=1e-12)
    # In processes the files are the same.
    with joblib.parallel_config(backend="threading"):
        assert main([*words, "-o", str(tmp_path / "by_jobs"), "--jobs", "2"]) == 0
    for number in (1, 10, 11):
        one, other = (meshio.read(tmp_path / name / f"run_{number}.vtu").point_data for name in ("out", "by_jobs"))
        assert one.keys() == other.keys()
        np.testing.assert_allclose(other["stress"], one["stress"], rtol=1e-5)
    assert main([*words, "-o", str(tmp_path / "none"), "--jobs", "0"]) == 2
    assert "0 jobs predict nothing" in capsys.readouterr().err
    # Existing files are kept unless the user says otherwise, and inputs in any case.
    assert main([*words, "-o", str(tmp_path / "out")]) == 2
    expected = "run_1.vtu exists, and so do 2 more of the 3 outputs; choose another output by -o, or overwrite them by"
    assert expected in capsys.readouterr().err
    assert main([*words, "-o", str(tmp_path / "out"), "--force"]) == 0
    assert main([*words, "-o", str(folder), "--force"]) == 2
    assert "is an input file" in capsys.readouterr().err


#: Arguments of `skop fit`, and words of the error.
UNUSABLE_DATA = [
    (["no_*.vtu", "--target", "stress"], "no file matches 'no_*.vtu'"),
    (["."], "'.' is a folder; name its files"),
    (["run_*.vtu", "--target", "stress", "x"], "one value: to give it another, write --target x"),
    (
        ["run_*.vtu", "--set", "width=4", "depth=1", "--target", "x"],
        "there is no file 'depth=1'; an option takes one value: to give it another, write --set depth=1",
    ),
    (["run_*.vtu", "--target", "stress", "run_99.vtu"], "there is no file 'run_99.vtu'; "),
    (["run_*.vtu", "doe.csv", "--target", "stress"], "or as the parameters of the meshes by --params doe.csv"),
    (["run_*.vtu"], "--target is missing; the fields of run_0.vtu are: stress, x"),
    (["run_*.vtu", "--target", "strain"], "has no field 'strain'"),
    (
        ["run_*.vtu", "--target", "stress", "--params", "short.csv"],
        "2 of 12 files have no row in short.csv (run_10.vtu, run_11.vtu), by the names in column 'name'",
    ),
    (["run_*.vtu", "--target", "stress", "--params", "rows.csv"], "has 2 rows and no column with names of the 12"),
    (["run_*.vtu", "--target", "stress", "--params", "inputs.csv"], "column 'name' of inputs.csv has another text in"),
    (["run_*.vtu", "--target", "stress", "--params", "text.csv", "--param", "load"], "holds text, such as 'high'"),
    (["run_*.vtu", "--target", "stress", "--set", "with=3"], "Invalid parameter 'with'"),
    (["run_*.vtu", "--target", "stress", "--estimator", "pod", "--epochs", "3"], "does not apply to --estimator"),
    (["run_*.vtu", "--target", "stress", "--group", "batch"], "--group 'batch' is no column of the table"),
    (["run_*.vtu", "--target", "stress", "--estimator", "mean", "--group", "load"], "mean has no use of groups; add"),
    (["run_*.vtu", "--target", "stress", "--set", "base__n_components=3"], "base__n_components is a parameter of"),
    (["flow.npz"], "no array of targets by a known name; choose by --y from: a (12, 5, 4), p (12, 5, 4)"),
    (["flow.npz", "--y", "q"], "has no array 'q'; it holds: a (12, 5, 4), p (12, 5, 4)"),
    (["flow.npz", "run_0.vtu"], "2 files with a .npz file; pass it alone"),
    # What would give wrong numbers in silence: another array, a copy of the target, an input less.
    (["names.npz"], "names.npz holds x and a; say which by --x from: x (12, 5, 4), a (12, 5, 4), u (12, 5, 4)"),
    (["names.npz", "--x", "u", "--y", "u"], "'u' is both --x and --y"),
    (["run_*.vtu", "--target", "stress", "--input", "x,stress"], "'stress' is both --input and --target"),
    (["run_*.vtu", "--target", "load", "--params", "doe.csv", "--param", "load"], "'load' is both --param and"),
    (
        ["table.csv", "--target", "drag"],
        "column 'width' of table.csv holds text, such as '1,5'; expected numbers. Correct it, or name the columns to "
        "use by --input or --param. If the comma is a decimal one, write points in the file, or pass",
    ),
    (
        ["run_*.vtu", "--target", "stress", "--params", "hole.csv"],
        "column 'load' of hole.csv has no number for run_4",
    ),
    (
        ["run_*.vtu", "--target", "stress", "--set", "target_fields=x"],
        "target_fields does not apply: --target says",
    ),
]


def test_data_that_cannot_be_used_are_one_line(study, monkeypatch, capsys, subtests):
    folder, _ = study
    monkeypatch.chdir(folder)
    (folder / "short.csv").write_text("name,load\n" + "\n".join(f"run_{number}.vtu,1" for number in range(10)))
    (folder / "rows.csv").write_text("load\n1\n2\n")
    (folder / "inputs.csv").write_text("name,load\n" + "\n".join(f"case_{n}.inp,{n}" for n in range(12)))
    (folder / "text.csv").write_text("name,load\n" + "\n".join(f"run_{number},high" for number in range(12)))
    np.savez(folder / "flow.npz", a=np.zeros((12, 5, 4)), p=np.zeros((12, 5, 4)))
    np.savez(folder / "names.npz", x=np.zeros((12, 5, 4)), a=np.ones((12, 5, 4)), u=np.ones((12, 5, 4)))
    widths = ['"1,5"' if number == 3 else str(number) for number in range(9)]
    rows = "\n".join(f"m{number},{width},{number}" for number, width in enumerate(widths))
    (folder / "table.csv").write_text(f"name,width,drag\n{rows}\n")
    loads = [f"run_{number},{'' if number == 4 else number}" for number in reversed(range(12))]
    (folder / "hole.csv").write_text("name,load\n" + "\n".join(loads))
    for words, message in UNUSABLE_DATA:
        with subtests.test(" ".join(words)):
            assert main(["fit", *words, "-o", "other.skop", "--quiet"]) == 2
            line = capsys.readouterr().err.splitlines()[-1]
            assert line.startswith("skop fit: error: ")
            assert message in line
            assert not (folder / "other.skop").exists()


@pytest.mark.parametrize("ending", [".npz", ".mat"])
def test_damaged_archives_are_one_line(tmp_path, ending, capsys):
    path, arrays = tmp_path / f"a{ending}", {"X": np.random.default_rng(0).random((9, 3)), "y": np.arange(9.0)}
    if ending == ".npz":
        np.savez_compressed(path, **arrays)
    else:
        savemat(path, arrays, do_compression=True)
    whole = path.read_bytes()
    for place in range(140, len(whole) - 1, len(whole) // 9):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        if main(["describe", str(path)]) == 2:
            assert "cannot read" in capsys.readouterr().err.splitlines()[-1]
        else:
            capsys.readouterr()
    path.write_bytes(whole[: len(whole) // 2])
    assert main(["describe", str(path)]) == 2
    assert "cannot read" in one_line_of(capsys)


def test_archives_without_samples_are_one_line(tmp_path, monkeypatch, capsys):
    """A single number, a member that is no array, a password, a size that no memory holds, and a null data set."""
    monkeypatch.chdir(tmp_path)
    np.savez("single.npz", X=np.zeros((4, 3)), y=np.float64(3))
    np.savez("huge.npz", X=np.zeros((4, 3)))
    names = {"notes.npz": "notes.txt", "locked.npz": "X.npy", "huge.npz": "y.npy"}
    for name, member in names.items():
        with zipfile.ZipFile(name, "a") as archive:
            content = b"text"
            if name == "huge.npz":
                shape = "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999,)}".ljust(117) + "\n"
                content = b"\x93NUMPY\x01\x00" + len(shape).to_bytes(2, "little") + shape.encode()
            archive.writestr(member, content)
    locked = bytearray(Path("locked.npz").read_bytes())
    locked[6] |= 1
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    Path("locked.npz").write_bytes(locked)
    with h5py.File("null.mat", "w", userblock_size=512) as file:
        file["X"] = h5py.Empty("f8")
    words = {"single.npz": "y is a single number", "notes.npz": "no array of inputs", "locked.npz": "encrypted"}
    for name, message in (words | {"huge.npz": "cannot read", "null.mat": "no array of inputs"}).items():
        assert main(["describe", name]) == 2
        assert message in capsys.readouterr().err.splitlines()[-1]
    os.mkfifo("pipe.csv")
    assert main(["describe", "pipe.csv"]) == 2
    assert "no regular file" in one_line_of(capsys)
    for text in ("[" * 5000, "-" * 20_000 + "1"):
        assert main(["fit", "single.npz", "-o", "m.skop", "--set", f"base={text}"]) == 2
        assert "nested too deeply" in one_line_of(capsys)


def test_a_row_belongs_to_one_file(study, tmp_path, monkeypatch, capsys):
    folder, _ = study
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in (1, 2):
            shutil.copy(folder / f"run_{number}.vtu", tmp_path / name / f"run_{number}.vtu")
    words = ["fit", "?/run_*.vtu", "--target", "stress", "--params", "doe.csv", "-o", "m.skop", "--estimator", "pod"]
    # Names without the folder mean two files each.
    (tmp_path / "doe.csv").write_text("file,load\nrun_1,1\nrun_2,2\n")
    assert main(words) == 2
    assert "'run_1' in row 0 of doe.csv may be" in capsys.readouterr().err
    rows = [("b/run_2.vtu", 4.0), ("a/run_1.vtu", 1.0), ("a/run_2.vtu", 2.0), ("b/run_1.vtu", 3.0)]
    (tmp_path / "doe.csv").write_text("file,load\n" + "\n".join(f"{name},{load}" for name, load in rows))
    samples = read_samples(["?/run_*.vtu"], Choice(targets=("stress",), params="doe.csv"))
    np.testing.assert_array_equal(samples.X.params[:, 0], [1.0, 2.0, 3.0, 4.0])


def test_files_of_equal_name_in_folders_and_columns_that_count(study, tmp_path, monkeypatch, capsys):
    folder, _ = study
    monkeypatch.chdir(tmp_path)
    for number in range(12):
        (tmp_path / f"case_{number}").mkdir()
        shutil.copy(folder / f"run_{number}.vtu", tmp_path / f"case_{number}" / "result.vtu")
    (tmp_path / "doe.csv").write_text("case,load\n" + "\n".join(f"{row},{load}" for row, load in enumerate(LOADS)))
    samples = read_samples(["case_*/result.vtu"], Choice(targets=("stress",), params="doe.csv"))
    assert samples.names[10] == "case_10_result.vtu"
    assert samples.parameter_names == ["load"]
    np.testing.assert_allclose(samples.X.params[:, 0], LOADS, rtol=1e-15)
    assert "'case' only counts the rows" in capsys.readouterr().err
    assert main(["predict", str(folder / "model.skop"), "case_*/result.vtu", "--params", "doe.csv", "-o", "out"]) == 0
    assert len(list((tmp_path / "out").iterdir())) == 12


def numbered(path, numbers, **columns):
    """Write a table with the loads of these runs, in their order, and read its rows for their files."""
    (folder := path.parent).mkdir(exist_ok=True)
    for number in numbers:
        plate(number, LOADS[number]).write(folder / f"run_{number}.vtu")
    pd.DataFrame({"load": LOADS[list(numbers)]} | columns).to_csv(path, index=False)
    return lambda **options: read_samples([str(folder / "run_*.vtu")], Choice(("stress",), params=str(path), **options))


def test_rows_are_matched_with_files_by_numbers(tmp_path, capsys):
    """A design in a random order of its runs, whole and with gaps, has a column of their numbers."""
    orders = {"whole": np.random.default_rng(0).permutation(12), "gaps": np.array([7, 0, 9, 3])}
    # A join writes 3.0 for 3.
    orders["joined"] = orders["whole"].astype(float)
    for name, order in orders.items():
        read = numbered(tmp_path / name / "doe.csv", order.astype(int), run=order)
        samples = read()
        np.testing.assert_allclose(samples.params["load"], LOADS[np.sort(order.astype(int))], rtol=1e-15)
        assert samples.parameter_names == (["load"] if name == "whole" else ["load", "run"])
        said = capsys.readouterr().err
        assert "the numbers in column 'run' are matched with those in the names of the files" in said
        assert ("are a parameter too" in said) == (name != "whole")
        # As a model asks for its parameters.
        np.testing.assert_array_equal(read(columns=("load",)).X.params[:, 0], samples.params["load"])


def test_rows_without_a_file_are_named_and_not_used(tmp_path, capsys):
    order = np.random.default_rng(0).permutation(12)
    read = numbered(tmp_path / "doe.csv", order, run=order)
    for number in (3, 8):
        (tmp_path / f"run_{number}.vtu").unlink()
    samples = read()
    np.testing.assert_allclose(samples.params["load"], np.delete(LOADS[:12], [3, 8]), rtol=1e-15)
    # Numbers with gaps are no parameter where they counted the rows.
    assert samples.parameter_names == ["load"]
    lost = ", ".join(str(number) for number in order if number in (3, 8))
    assert f"doe.csv: 2 rows have no file and are not used: {lost}" in capsys.readouterr().err
    # Two columns that may number the files, or numbers of few of the rows, are not certain.
    pd.read_csv(tmp_path / "doe.csv").assign(level=order[::-1]).to_csv(tmp_path / "doe.csv", index=False)
    with pytest.raises(UsageError, match=r"columns 'run', 'level' of .* in different orders"):
        read()
    numbered(tmp_path / "doe.csv", order, run=order)
    for number in range(6):
        (tmp_path / f"run_{number}.vtu").unlink()
    with pytest.raises(UsageError, match="has 12 rows and no column with names of the 6 files"):
        read()


def test_a_row_of_units_is_named(tmp_path):
    read = numbered(tmp_path / "units" / "doe.csv", [0, 1, 2], run=["run_0", "run_1", "run_2"], force=[1.5, 2.5, 4.0])
    header, *rows = (tmp_path / "units" / "doe.csv").read_text().splitlines()
    (tmp_path / "units" / "doe.csv").write_text("\n".join([header, "N,-,kN", *rows]))
    with pytest.raises(FieldDataError, match=r"'load' of .* holds numbers beside text in rows that are not used"):
        read()


def test_rows_in_another_order_than_the_files_are_refused(tmp_path):
    order = np.random.default_rng(0).permutation(12)
    read = numbered(tmp_path / "others" / "doe.csv", order, run=order + 1)
    with pytest.raises(UsageError, match=r"column 'run' of .* numbers the runs .* in another order than the files"):
        read()
    # As a parameter the column says nothing of the order, which is that of the files.
    np.testing.assert_array_equal(read(columns=("run",)).X.params[:, 0], order + 1)
    read = numbered(tmp_path / "two" / "doe.csv", order, run=order, standard=np.arange(12))
    with pytest.raises(UsageError, match=r"columns 'run', 'standard' of .* in different orders"):
        read()


def test_quantities_with_units_are_no_names_of_files(tmp_path):
    with pytest.raises(FieldDataError, match=r"column 'width' of .* the unit 'mm'"):
        numbered(tmp_path / "doe.csv", range(3), width=["1.5 mm", "1.6 mm", "1.7 mm"])()
    for number in range(3):
        shutil.copy(tmp_path / f"run_{number}.vtu", tmp_path / f"{number + 1}mm.vtu")
    (tmp_path / "doe.csv").write_text("file,load\n2mm,2.5\n1mm,1.5\n3mm,3.5\n")
    samples = read_samples([str(tmp_path / "?mm.vtu")], Choice(("stress",), params=str(tmp_path / "doe.csv")))
    assert samples.params["load"].tolist() == [1.5, 2.5, 3.5]


def test_a_column_of_the_table_is_predicted_from_meshes(study, tmp_path, capsys):
    folder, _ = study
    model, doe = str(tmp_path / "m.skop"), ["--params", str(folder / "doe.csv")]
    words = ["fit", str(folder / "run_*.vtu"), *doe, "--target", "load", "--param", "batch", "-o", model]
    assert main([*words, *TINY_FIT]) == 0
    assert main(["predict", model, str(folder / "run_1*.vtu"), *doe, "-o", str(tmp_path)]) == 0
    lines = (tmp_path / "predictions.csv").read_text().splitlines()
    assert [lines[0], *(line.partition(",")[0] for line in lines[1:])] == [
        "file,load",
        "run_1.vtu",
        "run_10.vtu",
        "run_11.vtu",
    ]
    capsys.readouterr()
    assert main(["score", model, str(folder / "run_*.vtu"), *doe, "--json"]) == 0
    samples = read_samples([str(folder / "run_*.vtu")], Choice(("load",), columns=("batch",), params=doe[1]))
    expected = 1 - skop.load(model).score(samples.paths, samples.y, params=samples.parameters)
    assert json.loads(capsys.readouterr().out)["error"] == pytest.approx(expected)


def test_groups_stay_on_one_side_of_the_split(study):
    folder, _ = study
    samples = read_samples([str(folder / "run_*.vtu")], Choice(targets=("stress",), params=str(folder / "doe.csv")))
    train, test = split_rows(samples, 0.25, "batch", 0)
    groups = samples.table["batch"].to_numpy()
    assert set(groups[train]).isdisjoint(groups[test])
    assert sorted([*train, *test]) == list(range(12))
    assert len(test) == 3
    some = samples.take(np.array([3, 5, 7])).take(np.array([1]))
    assert some.names == ("run_5.vtu",)
    assert some.parameters["load"][0] == pytest.approx(LOADS[5])
    np.testing.assert_array_equal(some.cells[0].points, plate(5, 1.0).points)
    # A missing value is no group.
    table = samples.table.assign(batch=["a", None, *"bc" * 5])
    with pytest.raises(UsageError, match=r"--group batch: 1 of 12 samples have no value, run_1\.vtu the first"):
        split_rows(replace(samples, table=table), 0.25, "batch", 0)
    # The seed chooses the split.
    assert len({tuple(split_rows(samples, 0.25, None, seed)[1]) for seed in range(5)}) > 1


def test_compare_limits_the_time_and_reports_on_the_best_named_model(study, tmp_path, monkeypatch):
    folder, _ = study
    made, shown = {}, []

    def compared(models, *_, **__):
        made.update(models)
        errors = {"mean": 0.1, "LaMO": 0.3, "POD": 0.2}
        return [
            SimpleNamespace(name=name, error=error, evaluation=None, note="", model=name)
            for name, error in errors.items()
        ]

    monkeypatch.setattr("skop.inspection.compare_models", compared)
    monkeypatch.setattr("skop.inspection.write_report", lambda _, model, *__, **___: shown.append(model))
    words = ["compare", str(folder / "run_*.vtu"), "--target", "stress", "--estimator", "lamo", "--estimator", "pod"]
    assert main([*words, "--max-time", "7", "--quiet", "--report", str(tmp_path / "r.html")]) == 0
    assert made["LaMO"].max_time == 7
    assert not hasattr(made["POD"], "max_time")
    assert shown == ["POD"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", ["fit", "predict", "score", "compare", "describe", "demo"])
def test_an_interrupt_ends_each_command_in_one_line_and_leaves_no_half_file(tmp_path, command):
    X = np.random.default_rng(0).normal(size=(60, 24, 24, 1))
    np.savez(tmp_path / "data.npz", X=X, y=np.cumsum(X, axis=1))
    skop.PODRegressor().fit(X[:8], X[:8]).save(tmp_path / "model.skop")
    folder = tmp_path / "out"
    folder.mkdir()
    words = {
        "fit": ["data.npz", "-o", "out/model.skop", "--epochs", "100000"],
        "predict": ["model.skop", "data.npz", "-o", "out/predicted.npz"],
        "score": ["model.skop", "data.npz", "--report", "out/report.html"],
        "compare": ["data.npz", "--report", "out/report.html"],
        "describe": ["data.npz"],
        "demo": ["--output", "out"],
    }[command]
    # What Ctrl-C does, after some time of the processor, which other programs do not change.
    for seconds in (0.2, 0.8):
        code = (
            "import os, signal, sys; from skop.cli import main; "
            "signal.signal(signal.SIGINT, signal.default_int_handler); "
            "signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), signal.SIGINT)); "
            f"signal.setitimer(signal.ITIMER_PROF, {seconds}); sys.exit(main())"
        )
        call = [sys.executable, "-c", code, command, *words]
        ended = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 130, ended.stderr
        assert ended.stderr.splitlines()[-1] == f"skop {command}: interrupted"
        assert "Traceback" not in ended.stderr
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize("place", ["a caught error", "a callback, of which Python prints the error"])
def test_an_interrupt_that_is_lost_while_packages_are_imported_ends_the_command(tmp_path, place):
    code = f"""
import contextlib, os, signal, sys, weakref
from skop.cli import main

class Object:
    pass

def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)

class Loses:
    def find_spec(self, name, *_):
        if name == "torch" and "callback" in {place!r}:
            gone = Object()
            watched = weakref.ref(gone, interrupt)
            del gone
        elif name == "torch":
            with contextlib.suppress(KeyboardInterrupt):
                interrupt()

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Loses())
sys.exit(main())
"""
    call = [sys.executable, "-c", code, *TINY]
    ended = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (130, "skop demo: interrupted\n")


def test_an_interrupt_does_not_abort_where_a_thread_computes(tmp_path):
    """Joblib's threads go on after an interrupt; one that leaves code of C++ as Python ends aborts the process."""
    code = """
import sys, threading, numpy, scipy.fft, skop._demo
from skop.cli import main

ready = threading.Barrier(5)

def compute():
    scipy.fft.dst(numpy.ones(2**15))
    ready.wait()
    while True:
        scipy.fft.dst(numpy.ones(2**15))

def interrupted(_options):
    for _ in range(4):
        threading.Thread(target=compute, daemon=True).start()
    ready.wait()
    raise KeyboardInterrupt

skop._demo.run_demo = interrupted
sys.exit(main())
"""
    call = [sys.executable, "-c", code, *TINY]
    ended = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (130, "skop demo: interrupted\n")


@pytest.mark.parametrize("words", [["describe", "data.npz"], ["fit", "--help"]])
def test_a_reader_that_has_enough_ends_a_command_without_a_traceback(tmp_path, words):
    np.savez(tmp_path / "data.npz", X=np.zeros((4, 2)), y=np.zeros(4))
    reading, writing = os.pipe()
    os.close(reading)
    try:
        call = [sys.executable, "-m", "skop", *words]
        ended = subprocess.run(call, cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writing)
    assert ended.returncode in (1, 2)
    assert "Traceback" not in ended.stderr
    assert "Broken" not in ended.stderr


def test_a_table_whose_columns_share_a_name_is_refused(tmp_path, capsys):
    for separator in ",;\t":
        (tmp_path / "table.csv").write_text("\n".join(separator.join(row) for row in ("aba", "123", "456")))
        assert main(["describe", str(tmp_path / "table.csv")]) == 2
        assert "has 'a' 2 times" in one_line_of(capsys)


def test_an_interrupted_comparison_prints_what_is_finished(study, tmp_path, monkeypatch, capsys):
    def interrupted(self, X, y, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr(skop.LaMORegressor, "fit", interrupted)
    words = ["compare", str(study[0] / "run_*.vtu"), "--target", "stress", "--quiet"]
    assert main([*words, "--report", str(tmp_path / "r.html")]) == 130
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "%" in rows["mean"]
    assert "interrupted after" in rows["LaMO"]
    # There is no model to report on.
    assert not (tmp_path / "r.html").exists()


def test_a_model_that_fails_leaves_the_others_of_a_comparison(study, capsys):
    words = ["compare", str(study[0] / "run_*.vtu"), "--target", "stress", "--epochs", "1", "--quiet"]
    # The runs have no grid.
    assert main([*words, "--estimator", "lamo", "--estimator", "unet"]) == 2
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "%" in rows["LaMO"]
    assert "failed: UNetRegressor convolves regular grids" in rows["UNet"]
    # Without any model that was asked for there is an error.
    assert main([*words, "--estimator", "unet"]) == 2
    assert "error: UNetRegressor convolves regular grids" in capsys.readouterr().err


def test_an_interrupt_keeps_and_saves_the_best_model_so_far(study, monkeypatch, capsys):
    folder, _ = study
    gather, count = FieldLoader.gather, [0]

    def interrupted(self, indices):
        count[0] += 1
        if count[0] == 20:
            raise KeyboardInterrupt
        return gather(self, indices)

    monkeypatch.setattr(FieldLoader, "gather", interrupted)
    words = ["fit", str(folder / "run_*.vtu"), "--target", "stress", "--set", "width=8", "--set", "depth=1", "--quiet"]
    assert main([*words, "--epochs", "500", "--set", "batch_size=4", "-o", str(folder / "cut.skop")]) == 130
    assert "interrupted: saved the best model so far" in capsys.readouterr().err
    model = skop.load(folder / "cut.skop")
    assert model.stopped_ == "interrupted"
    assert 0 < model.n_iter_ < 500
    # The model was given the files themselves, and takes files.
    assert len(model.predict(str(folder / "run_1*.vtu"))) == 3


def test_arrays_of_matlab_and_numpy_give_the_same_model(tmp_path, monkeypatch, capsys):
    h5py = pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    a = np.random.default_rng(0).random((10, 18, 17))
    arrays = {"a": a, "u": a.cumsum(axis=1)}
    np.savez("flow.npz", **arrays)
    savemat("flow.mat", arrays)
    # A vector of MATLAB, which is a row there, is one number a sample.
    savemat("vector.mat", {"X": a[:, 0, :3], "y": a[:, 0, 0]})
    assert read_samples(["vector.mat"], Choice()).y.shape == (10,)
    with h5py.File("new.mat", "w") as file:
        for name, array in arrays.items():
            file[name] = array.T
    assert main(["fit", "flow.npz", "-o", "flow.skop", *TINY_FIT, "--set", "patches__size=4"]) == 0
    # 17 numbers in the last axis are points, so the grid has two axes.
    assert skop.load("flow.skop").spec_.grid_shape == (18, 17)
    capsys.readouterr()
    errors = []
    for name in ("flow.npz", "flow.mat", "new.mat"):
        if name == "new.mat":  # of version 7.3, which SciPy leaves to h5py
            monkeypatch.setattr("scipy.io.loadmat", lambda _: (_ for _ in ()).throw(NotImplementedError))
        assert main(["score", "flow.skop", name, "--json"]) == 0
        errors.append(json.loads(capsys.readouterr().out)["error"])
    assert errors[0] == pytest.approx(errors[1]) == pytest.approx(errors[2])
    assert main(["predict", "flow.skop", "flow.npz", "-o", "predicted.npz"]) == 0
    assert np.load("predicted.npz")["y"].shape == (10, 18, 17, 1)
    assert main(["predict", "flow.skop", "flow.npz", "-o", "by_jobs.npz", "--jobs", "1"]) == 0
    np.testing.assert_allclose(np.load("by_jobs.npz")["y"], np.load("predicted.npz")["y"], rtol=1e-5, atol=1e-6)
    # Points come back with the prediction.
    coords = np.random.default_rng(1).random((25, 2))
    np.savez(
        "points.npz", coords=coords, X=a[:, :5, :5].reshape(10, 25), y=a[:, 0, :1] * coords[:, 0], theta=a[:, 0, 0]
    )
    assert main(["fit", "points.npz", "-o", "points.skop", "--estimator", "pod"]) == 0
    assert skop.load("points.skop").spec_.n_params == 1
    assert main(["predict", "points.skop", "points.npz", "-o", "on_points.npz"]) == 0
    np.testing.assert_array_equal(np.load("on_points.npz")["coords"], coords)


@pytest.mark.parametrize("n_components", [None, 2])
def test_of_many_channels_the_worst_or_whole_frames_are_shown(n_components):
    from skop.cli._fit import _SHOWN_CHANNELS, _shown_channels

    errors = np.random.default_rng(0).permutation(40).astype(float).tolist()
    shown = _shown_channels(errors, n_components)
    assert len(shown) == _SHOWN_CHANNELS
    if n_components is None:
        assert sorted(errors[number] for number in shown) == [*range(40 - _SHOWN_CHANNELS, 40)]
    else:
        assert {0, 1, 38, 39} < set(shown)
        assert {number ^ 1 for number in shown} == set(shown)
    assert _shown_channels(errors[:16], n_components) == [*range(16)]


def test_channels_that_are_not_shown_are_counted(tmp_path, monkeypatch, capsys):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    load = random.random(30)
    outputs = {f"out{k}": load + k for k in range(17)} | {"noise": random.normal(size=30), "zero": 0 * load}
    pandas.DataFrame({"load": load} | outputs).to_csv("all.csv", index=False)
    assert main(["fit", "all.csv", "--target", ",".join(outputs), "--input", "load", "--estimator", "pod",
                 "--set", "regressor=ridge", "-o", "m.skop"]) == 0  # fmt: skip
    capsys.readouterr()
    assert main(["score", "m.skop", "all.csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  and 3 more channels: skop score --json has all" in lines
    assert any(line.split()[:2] == ["channel", "noise"] for line in lines)


def test_tables_from_csv_to_csv(tmp_path, monkeypatch, capsys):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).random((30, 2))
    table = pandas.DataFrame({"load": X[:, 0], "width": X[:, 1], "drag": X[:, 0] + 2 * X[:, 1], "note": "x"})
    table.to_csv("all.csv", index=False)
    assert main(["fit", "all.csv", "--target", "drag", "--input", "load,width", "--estimator", "pod",
                 "-o", "m.skop"]) == 0  # fmt: skip
    model = skop.load("m.skop")
    (name,) = [name for name, error in model.leave_one_out_errors_.items() if error == model.leave_one_out_error_]
    # Two decimals of a percentage would show 0.
    words = re.escape(f"% ({name}); that of the mean {model.leave_one_out_errors_['mean']:.2%}, ")
    printed = re.search(rf"m\.skop: PODRegressor, leave-one-out error (\S+){words}", capsys.readouterr().out)
    assert float(printed[1]) / 100 == pytest.approx(model.leave_one_out_error_, rel=0.05)
    assert 0 < model.leave_one_out_error_ < 1e-3
    # The columns of the fit are found by their names, in any order.
    table[["note", "width", "load"]].to_csv("new.csv", index=False)
    assert main(["predict", "m.skop", "new.csv", "-o", "out.csv"]) == 0
    found = pandas.read_csv("out.csv")
    np.testing.assert_allclose(found["drag"], table["drag"], rtol=1e-3)
    known = table.assign(drag=table["drag"] + 1)
    known.to_csv("known.csv", index=False)
    assert main(["predict", "m.skop", "known.csv", "-o", "known_out.csv"]) == 0
    found = pandas.read_csv("known_out.csv")
    np.testing.assert_allclose(found["drag_true"], known["drag"])
    np.testing.assert_allclose(found["drag_error"], found["drag"] - known["drag"])
    capsys.readouterr()
    assert main(["compare", "all.csv", "--target", "drag", "--input", "load,width", "--epochs", "1", "--quiet",
                 "--set", "width=8", "--json"]) == 0  # fmt: skip
    errors = {row["model"]: row["error"] for row in json.loads(capsys.readouterr().out)}
    # The map is linear, so that ridge regression on the modes finds it, and the mean does not.
    assert errors["POD"] < 0.01 < errors["mean"]
    assert "LaMO" in errors
    # The mean and POD know no epochs and no time limit.
    assert main(["compare", "all.csv", "--target", "drag", "--estimator", "mean", "--estimator", "pod", "--epochs", "1",
                 "--max-time", "9", "--input", "load,width", "--quiet"]) == 0  # fmt: skip
    assert "MeanField" in capsys.readouterr().out


def test_truth_of_some_targets_of_a_table_is_kept_beside_their_predictions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a = np.linspace(0, 1, 12)
    table = pd.DataFrame({"a": a, "lift": 1 + a, "drag": 2 - a})
    table.to_csv("all.csv", index=False)
    assert main(["fit", "all.csv", "--target", "lift,drag", "--estimator", "pod", "-o", "m.skop"]) == 0
    table.drop(columns="drag").to_csv("new.csv", index=False)
    for name in ("all", "new"):
        assert main(["predict", "m.skop", f"{name}.csv", "-o", f"{name}_out.csv"]) == 0
    whole, part = pd.read_csv("all_out.csv"), pd.read_csv("new_out.csv")
    np.testing.assert_allclose(part["lift_true"], table["lift"])
    pd.testing.assert_frame_equal(part, whole.drop(columns=["drag_true", "drag_error"]))


def test_names_are_written_to_tables_as_they_are(tmp_path, monkeypatch):
    """A name that a spreadsheet takes for a formula is found again; the page says how to open such tables."""
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).random((30, 2))
    table = pandas.DataFrame({"=1+1": X[:, 0], "@b": X[:, 1], "=SUM(A1)": X.sum(axis=1)})
    table.to_csv("all.csv", index=False)
    assert main(["fit", "all.csv", "--target", "=SUM(A1)", "--estimator", "pod", "-o", "m.skop"]) == 0
    assert main(["predict", "m.skop", "all.csv", "-o", "out.csv"]) == 0
    found = pandas.read_csv("out.csv")
    assert list(found.columns[:3]) == list(table.columns)
    np.testing.assert_allclose(found["=SUM(A1)"], X.sum(axis=1), rtol=1e-3)


BAND = ["--estimator", "pod", "--coverage", "0.6", "--quiet"]


@pytest.mark.parametrize(
    ("channels", "shape_of_X", "shape_of_y"),
    [("none", (8,), (8,)), ("none", (8, 12), (8, 12)), ("last", (6, 20), (6, 20)), ("last", (2,), (6, 20))],
)
def test_a_model_reads_channels_as_its_fit_did(channels, shape_of_X, shape_of_y, tmp_path, monkeypatch, capsys):
    """By --channels auto these arrays would be read otherwise."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("a.npz", X=rng.random((10, *shape_of_X)), y=rng.random((10, *shape_of_y)))
    assert main(["fit", "a.npz", "--estimator", "mean", "--channels", channels, "-o", "a.skop"]) == 0
    found = []
    for option in ([], ["--channels", channels]):
        capsys.readouterr()
        assert main(["score", "a.skop", "a.npz", "--json", *option]) == 0, capsys.readouterr().err
        score = json.loads(capsys.readouterr().out)["samples"]
        assert main(["predict", "a.skop", "a.npz", "-o", "p.npz", "--force", *option]) == 0, capsys.readouterr().err
        with np.load("p.npz") as file:
            found.append((score, file["y"].tolist()))
    assert found[0] == found[1]


def test_bands_of_tables_and_arrays_are_those_of_the_estimator(tmp_path, monkeypatch, capsys):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(rng.random((40, 3)), columns=["load", "width", "drag"]).assign(plant=np.arange(40) % 8)
    table.to_csv("all.csv", index=False)
    words = ["all.csv", "--target", "drag", "--input", "load,width"]
    assert main(["fit", *words, *BAND, "-o", "m.skop"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("m.skop: ConformalRegressor of PODRegressor, ")
    assert lines[1] == "bands of 0.6 pointwise, calibrated with 10 runs"
    for jobs in ([], ["--jobs", "2"]):
        assert main(["predict", "m.skop", "all.csv", *jobs, "--force", "-o", "out.csv"]) == 0
        found, expected = pandas.read_csv("out.csv"), skop.load("m.skop").predict_interval(table[["load", "width"]])
        for name, values in zip(["drag", "drag_lower", "drag_upper"], expected, strict=True):
            np.testing.assert_allclose(found[name], np.ravel(values), rtol=1e-12)
    # So is what is said of them on other samples.
    expected = skop.load("m.skop").score_coverage(table[["load", "width"]], table["drag"])
    capsys.readouterr()
    assert main(["score", "m.skop", "all.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["coverage"] == pytest.approx(expected)
    assert main(["score", "m.skop", "all.csv"]) == 0
    assert f"inside the bands of 0.6: {expected['drag']:.1%} of the samples" in capsys.readouterr().out
    # Groups are held out as a whole, and count as one.
    whole = ["--guarantee", "simultaneous", "--group", "plant", "-o", "groups.skop"]
    assert main(["fit", *words, *BAND, *whole]) == 0
    assert "bands of 0.6 simultaneous, calibrated with 2 groups" in capsys.readouterr().out
    assert skop.load("groups.skop").guarantee == "simultaneous"
    assert main(["fit", *words, "--guarantee", "simultaneous", "-o", "n.skop"]) == 2
    assert "--guarantee needs --coverage" in one_line_of(capsys)
    assert main(["fit", *words, *BAND[:-3], "--coverage", "0.99", "--quiet", "-o", "n.skop"]) == 2
    assert "coverage=0.99 needs at least 99 calibration samples, but there are 10" in one_line_of(capsys)
    X = rng.random((20, 5, 4, 1))
    np.savez("fields.npz", a=X, u=X**2)
    assert main(["fit", "fields.npz", "--x", "a", "--y", "u", *BAND, "-o", "fields.skop"]) == 0
    assert main(["predict", "fields.skop", "fields.npz", "-o", "bands.npz"]) == 0
    found = np.load("bands.npz")
    for name, values in zip(["y", "y_lower", "y_upper"], skop.load("fields.skop").predict_interval(X), strict=True):
        np.testing.assert_array_equal(found[name], values)


def test_bands_on_meshes_and_series_are_those_of_the_estimator(study, trajectories, tmp_path, capsys):
    folder, pattern = study[0], str(study[0] / "run_*.vtu")
    table = ["--params", str(folder / "doe.csv"), "--param", "load"]
    tiny = ["--coverage", "0.6", *TINY_FIT]
    model = str(tmp_path / "meshes.skop")
    assert main(["fit", pattern, "--target", "stress", *table, *tiny, "--set", "base=null", "-o", model]) == 0
    for name, jobs in (("out", []), ("parts", ["--jobs", "2"])):
        words = ["predict", model, pattern, "--params", str(folder / "doe.csv"), *jobs, "-o", str(tmp_path / name)]
        assert main(words) == 0
        found = [meshio.read(tmp_path / name / f"run_{number}.vtu").point_data for number in range(12)]
        expected = skop.load(model).predict_interval(pattern, params=LOADS[:, None])[0]
        for one, other in zip(found, expected, strict=True):
            assert {"stress", "stress_true", "stress_lower", "stress_upper", "x"} <= set(one)
            for key in ("stress", "stress_lower", "stress_upper"):
                np.testing.assert_allclose(one[key], other.point_data[key], rtol=1e-5)
    runs, model = str(trajectories[0] / "run_*.pvd"), str(tmp_path / "series.skop")
    assert main(["fit", runs, "--target", "u", *tiny, "--set", "base=null", "-o", model]) == 0
    assert "ConformalRegressor of RolloutRegressor of LaMORegressor, 2 epochs" in capsys.readouterr().out
    assert main(["predict", model, runs, "--steps", "2", "-o", str(tmp_path / "frames")]) == 0
    expected = skop.load(model).predict_interval(runs, n_steps=2)[0]
    for one, other in zip(read_mesh_series(str(tmp_path / "frames" / "run_*.pvd")), expected, strict=True):
        assert one.times.tolist() == [0.5, 1.0]
        np.testing.assert_array_equal(one.meshes[1].point_data["u_upper"], other.meshes[1].point_data["u_upper"])
    capsys.readouterr()
    assert main(["score", model, runs, "--json"]) == 0
    assert all(0 <= share <= 1 for share in json.loads(capsys.readouterr().out)["coverage"].values())
    assert main(["predict", model, runs, "--steps", "4", "-o", str(tmp_path / "more")]) == 2
    assert "n_steps=4, but 3 steps were calibrated" in capsys.readouterr().err


def test_auto_chooses_among_models_with_groups_in_one_fold(tmp_path, monkeypatch, capsys):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).random((12, 2))
    table = pandas.DataFrame({"load": X[:, 0], "width": X[:, 1], "drag": X[:, 0] + 2 * X[:, 1], "plant": 1})
    table.to_csv("all.csv", index=False)
    words = ["fit", "all.csv", "--target", "drag", "--input", "load,width", "--estimator", "auto", "-o", "m.skop"]
    words += ["--max-time", "0.5", "--quiet"]
    assert main([*words, "--group", "plant"]) == 2
    assert "the 12 runs to train on are one group, and it takes two to leave one out" in capsys.readouterr().err
    assert main(words) == 0
    chosen = type(skop.load("m.skop").estimator_).__name__
    assert capsys.readouterr().out.startswith(f"m.skop: AutoRegressor of {chosen}, ")
    assert main(["predict", "m.skop", "all.csv", "-o", "out.csv"]) == 0
    np.testing.assert_allclose(pandas.read_csv("out.csv")["drag"], table["drag"], rtol=1e-2)


def test_describe_names_the_files_that_are_not_like_the_others(study, tmp_path, capsys):
    folder, _ = study
    for number in range(9):
        mesh = meshio.read(folder / f"run_{number}.vtu")
        if number == 3:
            mesh.point_data["stress"] = 1e6 * mesh.point_data["stress"]
        if number == 5:
            mesh.point_data["stress"][4] = np.nan
        mesh.write(tmp_path / f"run_{number}.vtu")
    (tmp_path / "run_7.vtu").write_bytes(b"<VTKFile")
    assert main(["describe", str(tmp_path / "*.vtu"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_samples"] == 7
    assert {item["name"] for item in found["channels"]} == {"stress", "x"}
    problems = [(item["text"], item["samples"]) for item in found["findings"] if item["level"] == "problem"]
    assert [names for text, names in problems if "units" in text] == [["run_3.vtu"]]
    assert [names for text, names in problems if "NaN" in text] == [["run_5.vtu"]]
    assert [names for text, names in problems if "cannot read" in text] == [["run_7.vtu"]]


def test_describe_shows_the_card_of_a_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X = FieldSet(np.random.default_rng(0).random((12, 2)), np.random.default_rng(1).random((20, 12, 1)))
    X = FieldSet(X.coords, X.values, channel_names=["heat\x1b[2J"])
    model = skop.ConformalRegressor(skop.PODRegressor(), coverage=0.5, random_state=0).fit(X, X)
    model.save("model.skop")
    assert main(["describe", "model.skop", "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert main(["describe", "model.skop"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert len(shown.splitlines()) < 24
    words = [card["data"]["checksum"], "20 samples of 12 points in 2-D", f"skop {skop.__version__}", "heat?[2J: "]
    for text in (*words, "hold 50 %", "holds PODRegressor()", "leave-one-out: "):
        assert text in shown
    assert main(["describe", str(OLD_MODEL)]) == 0
    assert "the file has no card" in capsys.readouterr().out
    for words in (
        ["model.skop", str(OLD_MODEL)],
        ["model.skop", "--target", "u"],
        ["model.skop", "--report", "r.html"],
    ):
        assert main(["describe", *words]) == 2
        assert "alone" in one_line_of(capsys)


@pytest.mark.parametrize(
    "card", [[], {}, {"estimator": 3}, {"estimator": "", "data": {"samples": 3}}, {"estimator": "", "errors": 1}]
)
def test_a_wrong_card_is_one_line(card, tmp_path, capsys):
    header, tensors = read_container(OLD_MODEL)
    text = json.dumps(header | {"card": card})
    (tmp_path / "model.skop").write_bytes(save_tensors(tensors, {"skop": text, "sha256": digest(text, tensors)}))
    assert main(["describe", str(tmp_path / "model.skop")]) == 2
    assert "save it again" in one_line_of(capsys)


# ---------------------------------------------------------------------- time series of meshes
TIMES = np.array([0.0, 0.5, 1.0, 2.0])


def series(number):
    """A field on a mesh of its own that decays from a start at a rate that follows from the number."""
    mesh = plate(number, 1.0)
    start = mesh.point_data["stress"]
    data = [{"start": start, "u": start * np.exp(-number * time / 4)} for time in TIMES]
    return MeshSeries([meshio.Mesh(mesh.points, mesh.cells, item) for item in data], TIMES)


@pytest.fixture(scope="module")
def trajectories(tmp_path_factory):
    """Folder with six collections, their frames, a table of rates in another order, and a model of each use of time."""
    folder = tmp_path_factory.mktemp("series")
    for number in range(6):
        series(number).write(folder / f"run_{number}.pvd")
    rows = [f"run_{number},{number / 2}" for number in (3, 1, 5, 0, 2, 4)]
    (folder / "rates.csv").write_text("\n".join(["run,rate", *rows]))
    data, tiny = str(folder / "run_*.pvd"), ["--target", "u", "--epochs", "1", *TINY_FIT[2:]]
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        rollout = ["--window", "2", "--test-fraction", "0.34", "--set", "noise=0.1", "--set", "batch_size=3"]
        rollout += ["--set", "increments=false"]
        assert main(["fit", data, *tiny, *rollout, "-o", str(folder / "rollout.skop")]) == 0
        words = [str(folder / "run_*/run_*.vtu"), *tiny, "--time", "parameter", "--input", "start"]
        assert main(["fit", *words, "--params", str(folder / "rates.csv"), "-o", str(folder / "parameter.skop")]) == 0
    return folder, stream.getvalue().splitlines()


def test_time_series_are_fitted_and_scored_as_by_the_estimators(trajectories, capsys):
    folder, lines = trajectories
    model, data = skop.load(folder / "rollout.skop"), str(folder / "run_*.pvd")
    assert lines[0].startswith(f"{folder / 'rollout.skop'}: RolloutRegressor of LaMORegressor, 1 epoch (max_iter)")
    two = read_samples([data], Choice(targets=("u", "start")))
    assert ", times 0 to 2 in run_0.pvd; frame 0 is given, u, start in the others" in two.describe()
    assert two.y.channel_names == tuple(f"{name}, t = {time}" for time in ("0.5", "1", "2") for name in ("u", "start"))
    np.testing.assert_array_equal(two.y.to_list()[2][:, 3], series(2).meshes[0].point_data["start"])
    np.testing.assert_array_equal(two.take(np.array([0, 2])).cells[1].points, series(2).meshes[0].points)
    np.testing.assert_array_equal(two.y.to_list()[2][:, 4], series(2).meshes[3].point_data["u"])
    assert (model.window, model.n_steps_, model.noise, model.estimator.batch_size) == (2, 2, 0.1, 3)
    assert model.increments is False
    held_out = [line.split()[1] for line in lines if line.split()[0] == "worst"]
    error = 1 - model.score([str(folder / name) for name in held_out])
    assert f"relative L2 error of 2 held-out samples: {error:.2%}" in lines[1]
    assert main(["score", str(folder / "rollout.skop"), data, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["error"] == pytest.approx(1 - model.score(data))
    np.testing.assert_allclose(list(found["channels"].values()), model.error_by_step(data))
    assert list(found["channels"]) == ["u, t = 1", "u, t = 2"]
    # Each run has the rate of its own row; the frames are those of a folder.
    pandas = pytest.importorskip("pandas")
    frames, rates = str(folder / "run_*/run_*.vtu"), str(folder / "rates.csv")
    assert main(["score", str(folder / "parameter.skop"), frames, "--params", rates, "--json"]) == 0
    by_time, table = skop.load(folder / "parameter.skop"), pandas.DataFrame({"rate": np.arange(6) / 2})
    assert by_time.estimator.input_fields == ["start"]
    found = json.loads(capsys.readouterr().out)
    assert found["error"] == pytest.approx(1 - by_time.score(frames, params=table))
    assert set(found["samples"]) == {f"run_{number}" for number in range(6)}


def test_predicted_series_are_those_of_the_model(trajectories, tmp_path, capsys):
    folder, _ = trajectories
    out, model = tmp_path / "out", str(folder / "rollout.skop")
    assert main(["predict", model, str(folder / "run_*.pvd"), "-o", str(out), "--steps", "3"]) == 0
    expected = skop.load(model).predict(str(folder / "run_*.pvd"), n_steps=3)
    found = read_mesh_series(str(out / "run_*.pvd"))
    assert [item.times.tolist() for item in found] == [[1.0, 2.0, 3.0]] * 6
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(one.meshes[2].point_data["u"], other.meshes[2].point_data["u"])
        np.testing.assert_array_equal(one.meshes[0].point_data["u_true"], series(number).meshes[2].point_data["u"])
    # A first state is enough.
    first = tmp_path / "first"
    MeshSeries(series(4).meshes[:2], TIMES[:2]).write(first / "new.pvd")
    assert main(["predict", model, str(first / "new.pvd"), "-o", str(tmp_path / "new.pvd")]) == 0
    (found,) = read_mesh_series(tmp_path / "new.pvd")
    np.testing.assert_allclose(found.meshes[1].point_data["u"], expected[4].meshes[1].point_data["u"], rtol=1e-5)
    words = ["predict", str(folder / "parameter.skop"), str(folder / "run_2/*.vtu"), "-o", str(tmp_path / "by_time")]
    (tmp_path / "new.csv").write_text("run,rate\nrun_2,1\n")
    assert main([*words, "--params", str(tmp_path / "new.csv"), "--times", "0.25,1"]) == 0
    (found,) = read_mesh_series(tmp_path / "by_time" / "run_2.pvd")
    assert found.times.tolist() == [0.25, 1.0]
    capsys.readouterr()


def test_groups_of_series_are_left_out_as_a_whole(trajectories, tmp_path, capsys):
    pandas, runs, model = pytest.importorskip("pandas"), str(trajectories[0] / "run_*.pvd"), str(tmp_path / "m.skop")
    numbers = np.array([3, 1, 5, 0, 2, 4])
    table = pandas.DataFrame({"run": [f"run_{i}" for i in numbers], "rate": numbers / 2, "part": numbers % 3})
    table.to_csv(tmp_path / "rates.csv", index=False)
    words = ["--params", str(tmp_path / "rates.csv"), "--param", "rate", "--time", "parameter", "--group", "part"]
    words += ["--estimator", "pod", "--set", "regressor=ridge", "--quiet", "-o", model]
    assert main(["fit", runs, "--target", "u", *words]) == 0
    expected = skop.TimeConditionedRegressor(skop.PODRegressor(target_fields=["u"], regressor="ridge"))
    rates, errors = pandas.DataFrame({"rate": np.arange(6) / 2}), []
    for groups in (np.arange(6) % 3, None):
        errors.append(expected.fit(runs, params=rates, groups=groups).estimator_.leave_one_out_error_)
    assert skop.load(model).estimator_.leave_one_out_error_ == errors[0] != errors[1]
    # Numbers of groups are an input only where the user knows of it.
    assert "are an input" not in capsys.readouterr().err
    del words[2:4]
    assert main(["fit", runs, "--target", "u", *words, "--force"]) == 0
    assert "--group part: its numbers are an input of the model, too (see --param)" in capsys.readouterr().err


def test_scores_of_runs_at_other_times_are_refused(trajectories, tmp_path, capsys):
    """Frames are scored as channels, which hold no times: those of other times would count as those of the fit."""
    folder, _ = trajectories
    for number in range(6):
        item = series(number)
        MeshSeries(item.meshes, 10 * item.times).write(tmp_path / f"run_{number}.pvd")
    words = [str(tmp_path / "run_*.pvd"), "--params", str(folder / "rates.csv")]
    for model, message in (("rollout", "the fit has 0.5 to 1;"), ("parameter", "expected the same times")):
        given = words if model == "parameter" else words[:1]
        assert main(["score", str(folder / f"{model}.skop"), *given]) == 2
        assert message in one_line_of(capsys)


def test_scores_of_runs_with_fewer_frames_say_so(trajectories, tmp_path, capsys):
    """They hold the fields, and fewer frames of these."""
    folder, _ = trajectories
    for number in range(6):
        item = series(number)
        MeshSeries(item.meshes[:3], item.times[:3]).write(tmp_path / f"run_{number}.pvd")
    words = [str(tmp_path / "run_*.pvd"), "--params", str(folder / "rates.csv")]
    for model, message in (
        ("rollout", "expected u in 4 frames, but run_0.pvd has 3"),
        ("parameter", "has 3 frames at"),
    ):
        given = words if model == "parameter" else words[:1]
        assert main(["score", str(folder / f"{model}.skop"), *given]) == 2
        assert message in one_line_of(capsys)


def test_predicted_frames_overwrite_neither_inputs_nor_other_files(trajectories, tmp_path, capsys):
    folder, _ = trajectories
    model = str(folder / "rollout.skop")
    before = {path: path.read_bytes() for path in folder.rglob("*.vtu")}
    for data in ("run_*/run_*.vtu", "run_*.pvd"):
        assert main(["predict", model, str(folder / data), "-o", str(folder), "--force"]) == 2
        assert "holds inputs; choose another -o" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in folder.rglob("*.vtu")}
    (tmp_path / "run_1").mkdir()
    (tmp_path / "run_0").mkdir()
    assert main(["predict", model, str(folder / "run_0.pvd"), "-o", str(tmp_path)]) == 0
    (tmp_path / "run_1" / "mine.txt").write_text("mine")
    assert main(["predict", model, str(folder / "run_1.pvd"), "-o", str(tmp_path)]) == 2
    assert "which holds files" in capsys.readouterr().err
    # Runs of one name in two folders become two files.
    for name in ("a", "b"):
        series(1 if name == "a" else 4).write(tmp_path / name / "run.pvd")
    assert main(["predict", model, str(tmp_path / "?/run.pvd"), "-o", str(tmp_path / "out")]) == 0
    assert [path.name for path in sorted((tmp_path / "out").glob("*.pvd"))] == ["a_run.pvd", "b_run.pvd"]


def test_describe_says_steps_and_times_of_series(trajectories, tmp_path, capsys):
    folder, _ = trajectories
    for number in range(9):
        item = series(number)
        if number == 6:
            item.meshes[2].point_data["u"] *= 1e6
        if number == 7:
            item.meshes[1].points = item.meshes[1].points + 0.1
        if number == 8:
            item.meshes[3].point_data["u"][2] = np.nan
        item.write(tmp_path / f"run_{number}.pvd")
    assert main(["describe", str(tmp_path / "*.pvd"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["form"].startswith("7 runs of 4 frames, times 0 to 2, on points of their own, 30 to 32 in 2-D")
    assert found["n_points"] == [30, 31, 32]
    values = np.concatenate([mesh.point_data["start"] for number in range(8) for mesh in series(number).meshes
                             if number != 7])  # fmt: skip
    start = next(item for item in found["channels"] if item["name"] == "start")
    for key, value in (("minimum", values.min()), ("mean", values.mean()), ("deviation", values.std())):
        assert start[key] == pytest.approx(value)
    findings = [(item["text"], item["samples"]) for item in found["findings"]]
    assert [names for text, names in findings if "its channel 'u' (root" in text] == [["run_6.pvd"]]
    assert [names for text, names in findings if "changes in time" in text] == [["run_7.pvd"]]
    assert [names for text, names in findings if "NaN" in text] == [["run_8.pvd"]]
    assert any("frames are 0.5 to 1 apart in time" in text for text, _ in findings)
    words = [str(folder / "run_*/*.vtu"), "--target", "u"]
    assert main(["describe", *words, "--time", "rollout", "--params", str(folder / "rates.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [found["form"].partition(",")[0], found["channels"][1]["maximum"]] == ["6 runs of 4 frames", 2.5]


@pytest.mark.parametrize("unit", [1e-9, 1.0, 3e7])
def test_frames_are_named_by_the_times_that_runs_share_in_any_unit(unit):
    samples, steps = SimpleNamespace(fields=SimpleNamespace(channel_names=("u", "v"))), 1e6 + np.arange(4.0)
    for shift, is_same in ((0.0, True), (1e-5, True), (0.01, False)):
        runs = [SimpleNamespace(times=unit * (steps + moved)) for moved in (0.0, shift)]
        names = _names_of_frames(samples, runs, 3)
        words = [f"t = {unit * step:.10g}" if is_same else f"frame {k}" for k, step in enumerate(steps[:3])]
        assert names == [f"{name}, {word}" for word in words for name in "uv"]
        assert len(set(names)) == 6


def test_series_that_cannot_be_used_are_one_line(trajectories, monkeypatch, capsys, subtests):
    folder, _ = trajectories
    monkeypatch.chdir(folder)
    for words, message in [
        (["run_*.pvd"], "--target is missing; the fields of run_0.pvd are: start, u"),
        (["run_*.pvd", "--target", "u", "--window", "4"], "has 4 frames, and the first 4 are inputs"),
        (["run_*.pvd", "--target", "u", "--input", "start"], "--input does not apply to a rollout"),
        (["run_*.pvd", "--target", "u", "--set", "window=2"], "--set window does not apply: --window says it"),
        (["run_*.pvd", "run_1/run_1_0000.vtu", "--target", "u"], "is a time series and run_1/run_1_0000.vtu is not"),
        (["rates.csv", "--target", "rate", "--time", "rollout"], "time series of meshes were expected, not .csv files"),
    ]:
        with subtests.test(" ".join(words)):
            assert main(["fit", *words, "-o", "other.skop", "--quiet"]) == 2
            assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_model_of_other_data_says_that_a_series_is_none_of_these(study, trajectories, tmp_path, capsys):
    """No option was given that the words could name."""
    data, table = str(trajectories[0] / "run_0.pvd"), tmp_path / "tab.csv"
    table.write_text("\n".join(["a,s", *(f"{number},{number**2}" for number in range(9))]))
    for words, kind in [
        ([str(table), "--target", "s"], "a table"),
        ([str(study[0] / "run_*.vtu"), "--target", "stress"], "single meshes"),
    ]:
        model = str(tmp_path / "m.skop")
        assert main(["fit", *words, "--estimator", "pod", "-o", model, "--quiet", "--force"]) == 0
        capsys.readouterr()
        for command in (["predict", model, data, "-o", str(tmp_path / "out")], ["score", model, data]):
            assert main(command) == 2
            said = one_line_of(capsys)
            assert f"m.skop was fitted on {kind}, and {data} is a time series of meshes; pass " in said


def test_the_error_of_a_fit_of_rollouts_is_named_as_that_of_one_step(trajectories, tmp_path, capsys):
    words = ["fit", str(trajectories[0] / "run_*.pvd"), "--target", "u", "--estimator", "pod"]
    words += ["--set", "regressor=ridge", "--quiet"]
    for time, name in (("rollout", "leave-one-out error of one step "), ("parameter", "leave-one-out error ")):
        assert main([*words, "--time", time, "-o", str(tmp_path / f"{time}.skop")]) == 0
        assert re.search(rf"PODRegressor, {name}[\d.]", capsys.readouterr().out)


def test_an_xdmf_series_is_one_run_and_folders_are_asked_about(trajectories, tmp_path, monkeypatch, capsys):
    folder, _ = trajectories
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        item = series(number)
        with meshio.xdmf.TimeSeriesWriter(f"run_{number}.xdmf", data_format="XML") as writer:
            writer.write_points_cells(item.meshes[0].points, item.meshes[0].cells)
            for time, mesh in zip(TIMES, item.meshes, strict=True):
                writer.write_data(time, point_data=mesh.point_data)
    samples = read_samples(["run_*.xdmf"], Choice(targets=("u",)))
    assert (len(samples.runs), len(samples), samples.y.n_channels) == (3, 3, 3)
    words = ["predict", str(folder / "rollout.skop"), "run_*.xdmf", "-o", "out"]
    assert main(words) == 0
    assert read_mesh_series("out/run_2.pvd")[0].times.tolist() == [1.0, 2.0]
    # The frames of one folder are one run too, to fit on as to predict.
    words = ["fit", str(folder / "run_1/*.vtu"), "--time", "parameter", "--target", "u", "-o", "one.skop", *TINY_FIT]
    assert main(words) == 0
    np.testing.assert_array_equal(skop.load("one.skop").times_, [0, 1, 2, 3])
    capsys.readouterr()
    assert not read_samples([str(folder / "run_*/*.vtu")], Choice(targets=("u",))).runs
    assert "say so by --time rollout" in capsys.readouterr().err


def test_cell_data_reach_the_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number in range(4):
        mesh = plate(number, 1.0)
        mesh.cell_data = {"flux": [mesh.points[mesh.cells[0].data].mean(axis=1)[:, 0]]}
        mesh.write(f"run_{number}.vtu")
    assert main(["fit", "run_*.vtu", "--target", "flux", "--cell-data", "cells", "-o", "m.skop", *TINY_FIT]) == 0
    assert main(["predict", "m.skop", "run_1.vtu", "-o", "out"]) == 0
    found = meshio.read("out/run_1.vtu").cell_data
    np.testing.assert_allclose(found["flux_true"][0], meshio.read("run_1.vtu").cell_data["flux"][0])
    capsys.readouterr()


# ---------------------------------------------------------------------- files that may not be lost
def test_one_file_by_two_names_is_one_sample(study, monkeypatch):
    monkeypatch.chdir(study[0])
    samples = read_samples(["run_*.vtu", "./run_3.vtu", str(study[0] / "run_4.vtu")], Choice(targets=("stress",)))
    assert samples.names == tuple(f"run_{number}.vtu" for number in range(12))


def test_what_a_pattern_leaves_out_is_said_once(study, tmp_path, capsys):
    """A broken link to a run is not in the training; folders of other names are no runs."""
    folder, _ = study
    for number in range(3):
        shutil.copy(folder / f"run_{number}.vtu", tmp_path)
    (tmp_path / "run_3.vtu").symlink_to(tmp_path / "moved.vtu")
    os.mkfifo(tmp_path / "run_4.vtu")
    (tmp_path / "run_5").mkdir()
    assert main(["describe", str(tmp_path / "run_*")]) == 0
    said = capsys.readouterr().err
    assert said.count("2 of 6 names that match") == 1
    assert "run_3.vtu; mend" in said
    with pytest.warns(skop.exceptions.SkopWarning, match="2 of 5 names"):
        assert len(read_meshes(str(tmp_path / "*.vtu")).fields) == 3


def test_an_output_that_is_a_hard_link_of_an_input_is_refused(study, tmp_path, capsys):
    folder, _ = study
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    shutil.copy(folder / "run_1.vtu", tmp_path / "in")
    os.link(tmp_path / "in" / "run_1.vtu", tmp_path / "out" / "run_1.vtu")
    words = ["predict", str(folder / "model.skop"), str(tmp_path / "in" / "run_1.vtu"), "--force"]
    assert main([*words, "--params", str(folder / "doe.csv"), "-o", str(tmp_path / "out")]) == 2
    assert "is an input file" in one_line_of(capsys)


def test_the_check_of_outputs_asks_each_file_once(tmp_path, monkeypatch):
    """Twice as many files take twice as many questions to the system, and not four times as many."""
    counts, asked = [], []
    for name in ("stat", "lstat"):
        usual = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, usual=usual, **more: asked.append(1) or usual(*given, **more))
    for count in (8, 16):
        inputs = [tmp_path / f"{number}.vtu" for number in range(count)]
        for path in inputs:
            path.touch()
        asked.clear()
        check_outputs([tmp_path / f"out_{count}" / path.name for path in inputs], inputs, force=False)
        counts.append(len(asked))
    assert 0 < counts[1] < 2.5 * counts[0]


def test_an_interrupted_prediction_says_what_was_written(study, tmp_path, monkeypatch, capsys):
    folder, _ = study
    write, left = skop.data.write_mesh, iter(range(2))

    def interrupted(mesh, path):
        if next(left, None) is None:
            raise KeyboardInterrupt
        write(mesh, path)

    monkeypatch.setattr("skop.data.write_mesh", interrupted)
    words = ["predict", str(folder / "model.skop"), str(folder / "run_*.vtu"), "--params", str(folder / "doe.csv")]
    # An earlier file counts only if it is written again.
    (tmp_path / "run_0.vtu").touch()
    (tmp_path / "run_7.vtu").touch()
    assert main([*words, "-o", str(tmp_path), "--force"]) == 130
    said = capsys.readouterr().err.splitlines()
    assert said[-2:] == [f"{tmp_path}: 2 of 12 files were written", "skop predict: interrupted"]


def test_outputs_are_written_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    """A failure within the writing leaves the old file, and nothing beside it."""
    path = tmp_path / "a.vtu"
    plate(0, 1.0).write(path)
    before = path.read_bytes()

    def fails(beside):
        beside.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(meshio.Mesh, "write", lambda self, beside: fails(beside))
    with pytest.raises(OSError, match="No space left"):
        write_mesh(plate(1, 2.0), path)
    assert [item.name for item in tmp_path.iterdir()] == ["a.vtu"]
    assert path.read_bytes() == before


def test_outputs_are_checked_before_any_work(study, tmp_path, monkeypatch, capsys):
    folder, _ = study
    monkeypatch.setattr("skop.cli._fit.read_samples", lambda *_: pytest.fail("read for nothing"))
    monkeypatch.setattr("skop.cli._predict.read_samples", lambda *_: pytest.fail("read for nothing"))
    (tmp_path / "file").write_text("")
    doe, model, runs = str(folder / "doe.csv"), str(folder / "model.skop"), str(folder / "run_*.vtu")
    before = Path(doe).read_bytes()
    fit = ["fit", runs, "--target", "stress", "--params", doe, "--force"]
    predict = ["predict", model, runs, "--params", doe, "--force"]
    for words, message in (
        ([*fit, "-o", doe], "is an input file"),
        ([*predict, "-o", str(tmp_path), "--report", doe], "is an input file"),
        ([*predict, "-o", str(tmp_path), "--report", model], "is an input file"),
        ([*fit, "-o", str(tmp_path / "m.skop"), "--report", str(tmp_path / "m.skop")], "would be written twice"),
        ([*fit, "-o", str(tmp_path / "file" / "m.skop")], "is no folder but a file; correct the path"),
        ([*fit, "-o", str(tmp_path / "file" / "new" / "m.skop")], "Not a directory; choose another output"),
        ([*fit, "-o", str(tmp_path)], "is a folder; name a file"),
        ([*predict, "-o", str(tmp_path / "out.vtk")], "are written as .vtu; name a folder"),
        (["predict", doe, runs, "-o", str(tmp_path)], "is not a skop model file"),
    ):
        assert main(words) == 2
        assert message in one_line_of(capsys)
    assert Path(doe).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_table_of_scalars_overwrites_nothing_in_silence(study, tmp_path, monkeypatch, capsys):
    folder, _ = study
    monkeypatch.chdir(tmp_path)
    shutil.copy(folder / "doe.csv", "predictions.csv")
    runs, model = str(folder / "run_*.vtu"), "m.skop"
    table = ["--params", "predictions.csv"]
    assert main(["fit", runs, *table, "--target", "load", "--param", "batch", "-o", model, *TINY_FIT]) == 0
    assert main(["predict", model, runs, *table, "-o", "."]) == 2
    assert "is an input file" in capsys.readouterr().err
    assert main(["predict", model, runs, *table, "-o", "loads.csv"]) == 0
    assert Path("loads.csv").read_text().startswith("file,load\nrun_0.vtu,")
    assert main(["predict", model, runs, "-o", "other.csv"]) == 2
    assert "parameters are needed (batch); pass their table by --params" in capsys.readouterr().err


def test_scalars_beside_fields_go_to_a_table(study, tmp_path, monkeypatch):
    folder, _ = study
    monkeypatch.chdir(tmp_path)
    files = sorted(map(str, folder.glob("run_*.vtu")))
    peaks = pytest.importorskip("pandas").DataFrame({"peak": np.arange(12.0)})
    inner = skop.LaMORegressor(target_fields=["stress"], width=8, depth=1, max_iter=1, base=None)
    skop.ConformalRegressor(inner, coverage=0.5, random_state=0).fit(files, peaks).save("m.skop")
    for jobs in ([], ["--jobs", "1"]):
        assert main(["predict", "m.skop", *files, "-o", "out", "--force", *jobs]) == 0
        assert {"stress", "stress_lower"} <= set(meshio.read("out/run_3.vtu").point_data)
        lines = Path("out/predictions.csv").read_text().splitlines()
        assert lines[0] == "file,peak,peak_lower,peak_upper"
        assert len(lines) == 13
    assert main(["predict", "m.skop", files[0], "-o", "one.vtu"]) == 0
    assert Path("one.csv").read_text().startswith("file,peak")


def test_a_trained_model_is_saved_elsewhere_if_its_file_cannot_be_written(study, tmp_path, monkeypatch, capsys):
    folder, _ = study
    save = skop.LaMORegressor.save

    def full(self, path):
        if Path(path).parent == tmp_path:
            raise OSError(28, "No space left on device")
        save(self, path)

    monkeypatch.setattr(skop.LaMORegressor, "save", full)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "other"))
    (tmp_path / "other").mkdir()
    words = ["fit", str(folder / "run_*.vtu"), "--target", "stress", "-o", str(tmp_path / "m.skop"), *TINY_FIT]
    assert main(words) == 2
    assert "No space left on device); the model was saved to" in capsys.readouterr().err
    (saved,) = (tmp_path / "other").rglob("m.skop")
    assert skop.load(saved).n_iter_ == 2


def test_rows_without_truth_are_predicted_but_not_scored(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [(number / 7, number % 5, number) for number in range(20)]
    Path("all.csv").write_text("a,b,c\n" + "\n".join(",".join(map(str, row)) for row in rows))
    assert main(["fit", "all.csv", "--target", "c", "--estimator", "pod", "-o", "m.skop"]) == 0
    Path("new.csv").write_text("b,c,a\n1,,0.5\n2,3,0.7\n")
    assert main(["predict", "m.skop", "new.csv", "-o", "out.csv"]) == 0
    assert Path("out.csv").read_text().startswith("a,b,c\n0.5,1,")
    assert main(["score", "m.skop", "new.csv"]) == 2
    assert "column 'c' of new.csv has no number in row 0" in capsys.readouterr().err
