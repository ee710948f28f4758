"""The comparison with classical surrogates: exact models are exact, runs continue, and failures are reported."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

from benchmarks import _classical
from benchmarks.__main__ import main
from benchmarks._classical import _MODELS, _chosen, _Interpolation, _OnGrid, _OnValues, _Run
from benchmarks._problems import PROBLEMS, Problem
from benchmarks._report import read_report
from skop import FieldSet
from skop.estimators import AutoRegressor, LaMORegressor, PODRegressor, TrainingOptions

T = np.linspace(0, 1, 9)[:, None]
Q = np.array([[0.03], [0.71]])


def numbers_of(path):
    return read_report(path)[0]


@pytest.mark.parametrize(("kind", "degree"), [(1, 1), (3, 3), ("akima", 1)])
def test_splines_are_exact_for_their_polynomials(kind, degree):
    def y(t):
        return np.stack([t**degree, 1 - 2 * t**degree], axis=1)

    model = _Interpolation(kind).fit(T[::-1], FieldSet(np.zeros((2, 1)), y(T[::-1])))
    np.testing.assert_allclose(model.predict(Q), y(Q), atol=1e-7)


def test_radial_basis_functions_are_exact_for_planes():
    X, Z = (np.random.default_rng(seed).random((12, 2)) * [1, 1000] for seed in (0, 1))
    model = _Interpolation(None).fit(X, (X @ [[1.0, 2.0], [-0.003, 0.01]])[..., None])
    np.testing.assert_allclose(model.predict(Z)[..., 0], Z @ [[1.0, 2.0], [-0.003, 0.01]], atol=1e-6)


def test_regressors_on_values():
    draws = np.random.default_rng(0)
    matrix = draws.normal(size=(4, 6))
    X, Z = draws.normal(size=(40, 4)), draws.normal(size=(5, 4))
    ridge = _MODELS["ridge"].make(None).fit(X[..., None], (X @ matrix).reshape(40, 3, 2))
    np.testing.assert_allclose(ridge.predict(Z[..., None]), (Z @ matrix).reshape(5, 3, 2), atol=1e-5)
    process = _OnValues(None).fit(T, np.sin(3 * T + np.arange(4))[..., None])
    np.testing.assert_allclose(process.predict(Q)[..., 0], np.sin(3 * Q + np.arange(4)), atol=1e-3)


def test_common_grid_with_and_without_a_table():
    points = np.random.default_rng(0).random((12, 80, 2))
    points[:, :4] = [[0, 0], [0, 1], [1, 0], [1, 1]]
    loads = np.linspace(1, 2, 12)[:, None]
    plane = loads[:, :, None] * (1 + points[..., :1])
    X = FieldSet(points, params=loads)
    model = _OnGrid(PODRegressor(n_components=3)).fit(X[::2], FieldSet(points[::2], plane[::2]))
    np.testing.assert_allclose(model.predict(X[1::2]), plane[1::2], rtol=1e-3)
    shapes = FieldSet(points)
    model = _OnGrid(PODRegressor(regressor="mean")).fit(shapes, (1 + points[..., :1]))
    np.testing.assert_allclose(model.predict(shapes), 1 + points[..., :1], rtol=1e-3)


def test_models_get_what_suits_the_problem():
    wake, shapes, between = (
        PROBLEMS[row].make(5, 2, 0) for row in ("wake", "airfoil-shapes", "antiderivative-between")
    )
    assert _Run(wake, 1.0, 0).grid == _Run(shapes, 1.0, 0).grid == {"grid": "auto"}
    assert _Run(between, 1.0, 0).points == {"geometry": "points"}
    assert _Run(wake, 1.0, 0).points == {}
    unsuited = {
        name: {word for word, model in _MODELS.items() if not model.suits(problem)}
        for name, problem in (("wake", wake), ("shapes", shapes), ("darcy", PROBLEMS["darcy-32"].make(5, 2, 0)))
    }
    assert unsuited["wake"] == {"pod-gp-grid", "boosting", "lamo-symmetries"}
    assert unsuited["shapes"] == {"linear", "spline", "akima", "boosting", "lamo-symmetries"}
    assert "lamo-symmetries" not in unsuited["darcy"]
    many = Problem(np.zeros((900, 4, 1)), np.zeros((900, 900, 1)), None, None)
    assert not _MODELS["pod-gp-all"].suits(many)
    for model in _MODELS.values():
        parameters = model.make(_Run(wake, 7.0, 3)).get_params() if model.is_timed else {"max_time": 7.0}
        assert parameters["max_time"] == 7.0


def test_words_for_models_may_change_parameters(capsys):
    run = _Run(PROBLEMS["wake"].make(5, 2, 0), 7.0, 3)
    assert _chosen("lamo-alone") == [_MODELS["lamo-alone"]]
    (changed,) = _chosen("lamo-alone:batch_size=4,training__optimizer=adamw,training__ema_decay=None")
    parameters, plain = (model.make(run).get_params() for model in (changed, _MODELS["lamo-alone"]))
    different = {name: parameters[name] for name in plain if parameters[name] != plain[name]}
    assert isinstance(different.pop("training"), TrainingOptions)
    assert different == {"batch_size": 4, "training__optimizer": "adamw", "training__ema_decay": None}
    assert changed.label(7) == "LaMO alone, batch_size=4, optimizer=adamw, ema_decay=None, 7 s"
    assert changed.kept_as(7) != _MODELS["lamo-alone"].kept_as(7)
    names = [model.name for model in _chosen("peers:learning_rate_init=0.1")]
    assert names == [f"{name}, learning_rate_init=0.1" for name in ("Transolver", "DeepONet", "U-Net", "FNO")]
    with pytest.raises(SystemExit):
        main(["classical", "--models", "lam:batch_size=4"])
    assert "'lam' is none of classical," in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["classical", "--models", "lamo:symmetries=['flip_x','flip_y']"])
    assert "no name=value" in capsys.readouterr().err
    # A wrong name fails that model alone, and is named.
    with pytest.raises(ValueError, match="Invalid parameter 'wide'"):
        _chosen("lamo:wide=4")[0].make(run)


def test_a_run_reports_continues_and_tries_failures_again(tmp_path, capsys, monkeypatch):
    output = tmp_path / "result.md"
    command = ["classical", "--rows", "airfoil", "hole-scattered", "--train", "6", "--test", "3", "--seeds", "2"]
    command += ["--models", "mean", "spline", "pod-gp-grid", "ridge", "--output", str(output)]
    broken = _classical._Model("ridge on values", lambda run: 1 / 0, "classical")
    with monkeypatch.context() as patch:
        patch.setitem(_MODELS, "ridge", broken)
        assert main(command) == 0
    text = output.read_text(encoding="utf-8")
    for word in ("| airfoil | 6 | cubic spline ", "## hole-scattered:", "ZeroDivisionError", "ms to predict"):
        assert word in text
    first = numbers_of(output)
    assert len(first) == 2 * 2 * 4
    found = first["airfoil, 6 samples, cubic spline, seed 1, 1 threads"]
    assert 0 < found["error"] < 0.05
    assert {"fit_seconds", "predict_milliseconds"} < found.keys()
    # What is measured is not measured again, so that times stay; what failed is.
    capsys.readouterr()
    assert main(command) == 0
    second = numbers_of(output)
    assert [key for key in first if first[key] != second[key]] == [key for key in first if "failure" in first[key]]
    assert capsys.readouterr().err.count("ridge on values") == 4
    assert "Without a result" not in output.read_text(encoding="utf-8")


@pytest.fixture
def given(tmp_path):
    """Linear map in a file of the user, with nine training samples."""
    X = np.random.default_rng(0).random((12, 2))
    y = (X @ [[1.0, 2.0, 3.0], [3.0, -1.0, 0.5]])[..., None]
    np.savez(tmp_path / "mine.npz", X_train=X[:9], y_train=y[:9], X_test=X[9:], y_test=y[9:])
    return ["classical", "--rows", "--data", str(tmp_path / "mine.npz")]


def test_learning_curve_of_a_file_of_the_user(tmp_path, given, monkeypatch):
    output = tmp_path / "curve.md"

    class Picky(_OnValues):
        def fit(self, X, y):
            if len(X) < 9:
                raise ValueError("too few")
            return super().fit(X, y)

    picky = _classical._Model("picky", lambda run: Picky(RidgeCV([1e-8])), "classical")
    monkeypatch.setitem(_MODELS, "gp", picky)
    command = [*given, "--models", "ridge", "mean", "gp", "--seeds", "2", "--test", "2", "--output", str(output)]
    assert main([*command, "--learning-curve", "5", "9", "100"]) == 0
    numbers = numbers_of(output)
    # No more samples than there are, and models without a start once for the same samples.
    assert len(numbers) == 6
    assert numbers["mine, 9 samples, ridge on values, seed 0, 1 threads"]["error"] < 1e-4
    text = output.read_text(encoding="utf-8")
    assert "## mine: a file of the user; seeds draw the starts alone" in text
    assert "| model | 5 samples | 9 samples |" in text
    (line,) = (line for line in text.splitlines() if line.startswith("| picky |"))
    _, _, few, many, _ = line.split("|")
    assert few.strip() == ""
    assert float(many) < 1e-4
    assert "| mine, 5 samples, picky, seed 0, 1 threads | ValueError: too few |" in text


def test_summary_says_where_the_default_and_the_choice_are_behind(tmp_path, given):
    """Results of several runs, given by hand, and results of the time when base="auto" was no default."""
    results = {
        "one": {"PODRegressor, seed 0": 0.010, "PODRegressor, seed 1": 0.020, "GP on values, seed 0": 0.5},
        "two": {
            "LaMO, base='auto', Muon, Sobolev, 9 s, seed 0": 0.012,
            "LaMO, base='auto', Muon, Sobolev, 9 s, seed 1": 0.024,
            "LaMO, 9 s, seed 0": 0.001,
            "AutoRegressor, Muon, Sobolev, 9 s, seed 0": 0.0109,
            # A single seed is compared with the same seed of others.
            "Transolver, Muon, Sobolev, 9 s, seed 0": 0.0109,
        },
    }
    for name, errors in results.items():
        numbers = {
            f"hole, 7 samples, {key}, 1 threads": {"error": error, "fit_seconds": 1.0, "predict_milliseconds": 1.0}
            for key, error in errors.items()
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(numbers), encoding="utf-8")
    files = [str(tmp_path / f"{name}.json") for name in results]
    command = ["classical", "--rows", "hole", "wake", "--train", "7", "--seeds", "2", "--seconds", "9", "30"]
    command += ["--output", str(tmp_path / "all.md"), "--print-only"]
    assert main([*command, "--merge", *files]) == 0
    text = (tmp_path / "all.md").read_text(encoding="utf-8")
    first = text.split("## ")[1].splitlines()
    assert first[0] == (
        "Least relative L2 errors within 9 s: LaMO above 1.05 times the best of all others in 1 of 1, "
        "AutoRegressor above 1.1 times the best of all others in 0 of 1"
    )
    assert first[2].split(" | ")[2:5] == ["best classical model", "best peer", "LaMO"]
    cells = ["hole", "7", "PODRegressor 0.0150 ± 0.0071", "Transolver 0.0109", "0.0180 ± 0.0085", "0.0109"]
    assert first[4:] == ["| " + " | ".join([*cells, "**1.20**", "1.09"]) + " |", ""]
    assert "## Least relative L2 errors within 30 s\n" in text
    assert "wake" not in text.split("## ", 1)[1]
    # All results lie in the file of the page now.
    assert len(numbers_of(tmp_path / "all.md")) == 8
    assert main([*command, "--merge", str(tmp_path / "mine.npz")]) == 2


def test_the_time_to_equal_errors_follows_powers_of_the_time(tmp_path):
    models = {"lamo-alone": (0.2, -1.0), "unet": (0.1, -0.5), "transolver": (0.02, -0.1)}
    limits = [1.0, 2.0, 4.0, 8.0]
    numbers = {
        f"hole, 7 samples, {_MODELS[word].kept_as(limit)}, seed 0, 1 threads": {
            "error": scale * limit**power, "fit_seconds": limit, "predict_milliseconds": 1.0, "epochs": int(3 * limit)
        }
        for word, (scale, power) in models.items()
        for limit in limits
    }  # fmt: skip
    (tmp_path / "made.json").write_text(json.dumps(numbers), encoding="utf-8")
    command = ["classical", "--rows", "hole", "--train", "7", "--models", *models, "--print-only"]
    command += ["--seconds", *map(str, limits), "--output", str(tmp_path / "made.md")]
    assert main([*command, "--merge", str(tmp_path / "made.json")]) == 0
    table = (
        (tmp_path / "made.md").read_text(encoding="utf-8").split("## hole: the least error that all models reach")[1]
    )
    rows = [line.strip("| ").split(" | ") for line in table.strip().splitlines()]
    # The slowest ends at 0.1 / sqrt(8); 0.2 / t falls to it at t = 2 sqrt(8).
    assert rows[0] == ["model", "epochs a second", "s to the error 0.0354"]
    assert rows[2:] == [["LaMO alone", "3", "5.66"], ["U-Net", "3", "8"], ["Transolver", "3", "at most 1"]]


def test_published_errors_stand_beside_those_measured(tmp_path, monkeypatch):
    monkeypatch.setitem(PROBLEMS, "fibre", replace(PROBLEMS["wake"], published={"FNO": {6: 0.25}}))
    output = tmp_path / "page.md"
    command = ["cost-accuracy", "--rows", "fibre", "--models", "mean", "--learning-curve", "4", "6", "--test", "3"]
    assert main([*command, "--output", str(output)]) == 0
    text = output.read_text(encoding="utf-8")
    assert text.startswith("# Cost against accuracy\n")
    lines = [line for line in text.split("## fibre")[1].splitlines() if line.startswith("|")]
    assert lines[0] == "| model | 4 samples | 6 samples |"
    assert lines[2].startswith("| mean field | 0.")
    assert lines[3:] == ["| FNO, published |  | 0.25 |"]


def test_an_interrupted_run_keeps_and_prints_what_is_measured(tmp_path, given, monkeypatch, capsys):
    class Cut(_OnValues):
        stopped_, n_iter_ = "interrupted", 1

    monkeypatch.setitem(_MODELS, "ridge", _classical._Model("cut", lambda run: Cut(RidgeCV([1.0])), "classical"))
    command = [*given, "--models", "mean", "ridge", "gp", "--seeds", "1", "--output", str(tmp_path / "cut.md")]
    with pytest.raises(SystemExit, match="130"):
        main(command)
    assert list(numbers_of(tmp_path / "cut.md")) == ["mine, 9 samples, mean field, seed 0, 1 threads"]
    assert "| mine | 9 | mean field" in (tmp_path / "cut.md").read_text(encoding="utf-8")
    assert "the same command measures what is left" in capsys.readouterr().err


def test_results_say_how_the_training_ended():
    table = np.linspace(0, 1, 12)[:, None]
    y = np.sin(3 * table[..., None] + np.linspace(0, 1, 5)[:, None])
    options = {"max_iter": 1, "width": 8, "depth": 1, "random_state": 0}
    over_base = _classical._ending(LaMORegressor(base="pod", **options).fit(table, y))
    assert over_base["stopped"] == "max_iter"
    assert over_base["epochs"] == 1
    assert over_base["base"].startswith("PODRegressor(")
    assert len(over_base["field_share"]) == 1
    assert 0 <= over_base["base_error"] < 1
    alone = LaMORegressor(base=None, **options)
    assert _classical._ending(alone.fit(table, y)) == {"epochs": 1, "stopped": "max_iter"}
    candidates = [("ridge", PODRegressor(regressor="ridge")), ("mean", PODRegressor(regressor="mean"))]
    choice = AutoRegressor(candidates=candidates, max_time=None, cv=2)
    found = _classical._ending(choice.fit(table, y))
    assert found == {"chosen": choice.results_[0]["candidate"]}


def test_processor_time_leaves_out_what_a_fit_waits(tmp_path, given, monkeypatch, capsys):
    class Sleeper:
        def fit(self, X, y):
            time.sleep(0.2)
            self.shape = y.shape[1:]
            return self

        def predict(self, X):
            return np.zeros((len(X), *self.shape))

    monkeypatch.setitem(_MODELS, "mean", _classical._Model("mean field", lambda run: Sleeper(), "classical"))
    given += ["--seeds", "1", "--models", "mean"]
    clock = time.perf_counter
    for options, least, most in ([], 0.2, np.inf), (["--processor-time"], 0, 0.1):
        output = tmp_path / f"{len(options)}.md"
        assert main([*given, *options, "--output", str(output)]) == 0
        (found,) = numbers_of(output).values()
        assert least <= found["fit_seconds"] < most
        assert ("clock" in found) == bool(options)
    assert time.perf_counter is clock
    with pytest.raises(SystemExit, match="--threads 1"):
        main([*given, "--processor-time", "--threads", "2"])


@pytest.mark.exhaustive
def test_operators_in_a_second(tmp_path):
    output = tmp_path / "result.md"
    command = [
        "classical",
        "--rows",
        "airfoil",
        "hole",
        "--train",
        "6",
        "--test",
        "2",
        "--seeds",
        "1",
        "--seconds",
        "0.2",
    ]
    assert main([*command, "--models", "operators", "mean", "--output", str(output)]) == 0
    numbers = numbers_of(output)
    assert len(numbers) == 2 * 5
    assert all(np.isfinite(found["error"]) for found in numbers.values())
    assert "LaMO, 0.2 s" in output.read_text(encoding="utf-8")
