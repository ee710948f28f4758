"""Operators and classical surrogates on the same problems, smooth ones with few samples among them.

All models get the same samples and one limit of the training time; those without a limit take what they need. Errors
are relative L2 errors of test samples, with other data and another start for each seed.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from scipy.interpolate import RBFInterpolator, make_interp_spline
from scipy.spatial import KDTree
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import RidgeCV
from threadpoolctl import threadpool_limits

from skop._typing import FloatArray
from skop.bench._models import until_time
from skop.bench._problems import PROBLEMS, Problem, Recipe, read_problem
from skop.bench._report import Report, mean_and_spread
from skop.data import FieldSet, interpolate_fields
from skop.estimators import (
    AMORegressor,
    AutoRegressor,
    DeepONetRegressor,
    FNORegressor,
    GeoMaNORegressor,
    LaMORegressor,
    MNORegressor,
    PODRegressor,
    TransolverRegressor,
    UNetRegressor,
)
from skop.metrics import relative_l2_error

__all__ = ["add_command"]

#: Leading modes and first samples from which the parameters of a Gaussian process on raw values are estimated.
_LEADING_MODES, _MOST_SAMPLES = 10, 300
#: Most values of scikit-learn's array of samples x samples x outputs, which grows when a process has many outputs.
_MOST_VALUES = 5e7
#: What a file of the user is called in the tables.
_FILE = "a file of the user"
#: Points per side of the common grid of samples on own points.
_GRID_SIDE = 41


# ---------------------------------------------------------------------- models
@dataclass(frozen=True)
class _Run:
    """What a model may depend on."""

    problem: Problem
    seconds: float
    seed: int

    @property
    def limits(self) -> dict[str, Any]:
        """Seed and limit of the training time of an operator."""
        return {"random_state": self.seed, **until_time(self.seconds)}

    @property
    def points(self) -> dict[str, Any]:
        """What operators on points need where the target is on others than the input."""
        return {"geometry": "points"} if self.problem.has_other_points else {}

    @property
    def grid(self) -> dict[str, Any]:
        """What operators on grids need where there is none."""
        return {} if self.problem.has_grid else {"grid": "auto"}


@dataclass(frozen=True)
class _Model:
    """A row of the tables.

    Attributes: its name; `make`, an unfitted estimator for a run; `is_timed`, whether it has a limit of the training
    time; `reads_tables`, whether it gets the table of a problem that has one; `suits`, whether a problem is for it.
    """

    name: str
    make: Callable[[_Run], Any]
    is_timed: bool = True
    reads_tables: bool = False
    suits: Callable[[Problem], bool] = lambda problem: True


def _classical(
    name: str,
    make: Callable[[], Any],
    suits: Callable[[Problem], bool] = lambda problem: True,
    *,
    reads_tables: bool = True,
) -> _Model:
    """A model without a limit of the time."""
    return _Model(name, lambda run: make(), is_timed=False, reads_tables=reads_tables, suits=suits)


def _has_same_points(problem: Problem) -> bool:
    """Whether the target is on the points of the input."""
    return not problem.has_other_points


def _has_one_parameter(problem: Problem) -> bool:
    """Whether a sample is described by one number."""
    return problem.tables is not None and problem.tables[0].shape[1] == 1


def _has_few_parameters(problem: Problem) -> bool:
    """Whether a sample is described by a few numbers, and there are more samples than those."""
    return problem.tables is not None and problem.tables[0].shape[1] <= min(10, len(problem.tables[0]) - 2)


def _has_little_memory(problem: Problem) -> bool:
    """Whether a Gaussian process with as many outputs as samples fits into the memory."""
    n_samples = len(problem.y_train)
    return n_samples**2 * min(n_samples, _n_outputs(problem)) <= _MOST_VALUES


def _n_outputs(problem: Problem) -> int:
    """Number of values of a sample of y."""
    return int(np.prod(problem.y_train.shape[1:]))


def _lies_in_plane(problem: Problem) -> bool:
    """Whether every sample has points of its own, in the plane."""
    return problem.has_own_points and problem.X_train.coords.shape[-1] == 2


def _pod(regressor: str, **options: Any) -> Callable[[], PODRegressor]:
    """PODRegressor with one of its regressors."""
    return lambda: PODRegressor(regressor=regressor, **options)


#: Every sample's own mode: PODRegressor takes as many as there are.
_ALL: dict[str, Any] = {"n_components": 10**6}
#: All models by the words of the command line, in the order of the tables. A further estimator is one more line; it is
#: timed unless it says otherwise, and gets fields and points rather than tables.
_MODELS = {
    "mean": _classical("mean field", _pod("mean")),
    "pod": _classical("PODRegressor", PODRegressor),
    "pod-ridge": _classical("POD + ridge", _pod("ridge")),
    "pod-gp": _classical("POD + GP", _pod("gaussian_process")),
    "pod-ridge-all": _classical("POD + ridge, all modes", _pod("ridge", **_ALL)),
    "pod-gp-all": _classical("POD + GP, all modes", _pod("gaussian_process", **_ALL), _has_little_memory),
    "pod-gp-grid": _classical(
        "POD + GP, all modes, on a common grid",
        lambda: _OnGrid(PODRegressor(regressor="gaussian_process", **_ALL)),
        _lies_in_plane,
        reads_tables=False,
    ),
    "linear": _classical("linear interpolation", lambda: _Interpolation(1), _has_one_parameter),
    "spline": _classical("cubic spline", lambda: _Interpolation(3), _has_one_parameter),
    "rbf": _classical("radial basis functions", lambda: _Interpolation(None), _has_few_parameters),
    "ridge": _classical("ridge on values", lambda: _OnValues(RidgeCV(np.logspace(-8, 4, 25)))),
    "gp": _classical("GP on values", lambda: _OnValues(None)),
    "lamo": _Model("LaMO", lambda run: LaMORegressor(**run.limits, **run.points)),
    "lamo-auto": _Model("LaMO, base='auto'", lambda run: LaMORegressor(base="auto", **run.limits, **run.points)),
    "lamo-pod": _Model("LaMO, base='pod'", lambda run: LaMORegressor(base="pod", **run.limits, **run.points)),
    "geomano": _Model("GeoMaNO", lambda run: GeoMaNORegressor(**run.limits, **run.grid)),
    "mno": _Model("MNO", lambda run: MNORegressor(**run.limits, **run.points)),
    "amo": _Model("AMO", lambda run: AMORegressor(**run.limits, **run.points)),
    "auto": _Model("AutoRegressor", lambda run: AutoRegressor(max_time=run.seconds, random_state=run.seed)),
    "transolver": _Model("Transolver", lambda run: TransolverRegressor(**run.limits, **run.points)),
    "deeponet": _Model("DeepONet", lambda run: DeepONetRegressor(**run.limits, **run.points)),
    "unet": _Model("U-Net", lambda run: UNetRegressor(**run.limits, **run.grid), suits=_has_same_points),
    "fno": _Model("FNO", lambda run: FNORegressor(**run.limits, **run.grid), suits=_has_same_points),
}
#: Words of the command line for several models.
_GROUPS = {
    "classical": [word for word, model in _MODELS.items() if not model.is_timed],
    "operators": ["lamo", "geomano", "mno", "amo"],
    "peers": ["transolver", "deeponet", "unet", "fno"],
}


class _Interpolation:
    """Interpolation of all values over the parameters: splines of one, radial basis functions of a few.

    Parameters
    ----------
    degree : int or None
        Degree of the spline; None takes thin plates.
    """

    def __init__(self, degree: int | None) -> None:
        self.degree = degree

    def fit(self, X: FloatArray, y: Any) -> Self:
        """Interpolate values (n, P, c) over parameters (n, p)."""
        rows, values = np.asarray(X, dtype=np.float64), _values(y)
        if self.degree is None:
            spread = rows.std(axis=0)
            self.scale_ = np.where(spread > 0, spread, 1.0)
            self.surface_: Any = RBFInterpolator(rows / self.scale_, values.reshape(len(values), -1))
        else:
            order = np.argsort(rows[:, 0])
            self.surface_ = make_interp_spline(rows[order, 0], values[order], k=min(self.degree, len(rows) - 1))
        self.shape_ = values.shape[1:]
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Values (n, P, c)."""
        rows = np.asarray(X, dtype=np.float64)
        found = self.surface_(rows / self.scale_ if self.degree is None else rows[:, 0])
        return np.asarray(found).reshape(len(rows), *self.shape_)


class _OnValues:
    """A regressor of scikit-learn from all values of a sample to all values of its target.

    Parameters
    ----------
    regressor : regressor or None
        None takes a Gaussian process, whose parameters are estimated on the leading modes of the targets only.
    """

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the rows of values."""
        rows, values = _inputs(X), _values(y)
        # Numbers of a table have different units; values of fields have one.
        is_table = not isinstance(X, FieldSet) and np.ndim(X) == 2
        spread = rows.std(axis=0) if is_table else np.full(rows.shape[1], rows.std())
        self.mean_, self.scale_ = rows.mean(axis=0), np.where(spread > 0, spread, 1.0)
        self.shape_ = values.shape[1:]
        targets = values.reshape(len(values), -1)
        self.target_mean_, self.target_scale_ = targets.mean(axis=0), float(targets.std()) or 1.0
        rows, targets = (rows - self.mean_) / self.scale_, (targets - self.target_mean_) / self.target_scale_
        regressor = _gaussian_process(rows, targets) if self.regressor is None else self.regressor
        self.regressor_ = regressor.fit(rows, targets)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Values (n, P, c)."""
        rows = (_inputs(X) - self.mean_) / self.scale_
        found = np.asarray(self.regressor_.predict(rows)) * self.target_scale_ + self.target_mean_.reshape(1, -1)
        return found.reshape(len(rows), *self.shape_)


def _gaussian_process(rows: FloatArray, targets: FloatArray) -> GaussianProcessRegressor:
    """Gaussian process with the parameters of its kernel estimated, not yet fitted to all targets."""
    distance = max(float(np.sqrt(2 * rows.var(axis=0).sum())), 1e-3)
    modes = PCA(min(_LEADING_MODES, *targets.shape)).fit_transform(targets)
    some = slice(_MOST_SAMPLES)
    found = []
    # From one start alone the likelihood often ends at noise without a signal, which predicts the mean.
    for factor in (0.5, 2.0, 8.0):
        length = RBF(factor * distance, (0.01 * distance, 100 * distance))
        kernel = ConstantKernel(1.0, (1e-4, 1e6)) * length + WhiteKernel(1e-6, (1e-12, 1e1))
        found.append(GaussianProcessRegressor(kernel).fit(rows[some], modes[some] / modes[:, 0].std()))
    best = max(found, key=lambda process: process.log_marginal_likelihood_value_)
    return GaussianProcessRegressor(best.kernel_, optimizer=None)


class _OnGrid:
    """A model of fields on a common grid, for samples on points of their own in the plane.

    Targets are interpolated to the grid and predictions back. Without a table of parameters, the distance of each place
    of the grid to the nearest point is the input.

    Parameters
    ----------
    model : estimator
        From tables or fields on the grid to fields there.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: FieldSet, y: Any) -> Self:
        """Fit on the grid over the rectangle of all training points."""
        points = X.coords.reshape(-1, 2)
        axes = [np.linspace(*ends, _GRID_SIDE) for ends in zip(points.min(axis=0), points.max(axis=0), strict=True)]
        self.grid_ = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        self.model.fit(self._inputs(X), interpolate_fields(FieldSet(X.coords, _values(y)), _places(self.grid_, len(y))))
        return self

    def predict(self, X: FieldSet) -> FloatArray:
        """Fields at the points of each sample."""
        found = np.asarray(self.model.predict(self._inputs(X)))
        fields = FieldSet(self.grid_, found.reshape(len(X), len(self.grid_), -1))
        return interpolate_fields(fields, _places(X.coords, len(X)))

    def _inputs(self, X: FieldSet) -> FloatArray:
        """Table of parameters, or distances at the places of the grid, (n, G)."""
        if X.params is not None:
            return np.asarray(X.params)
        return np.stack([KDTree(points).query(self.grid_)[0] for points in X.coords])


def _places(coords: FloatArray, n_samples: int) -> FieldSet:
    """Points without values."""
    return FieldSet(coords, np.empty((n_samples, coords.shape[-2], 0)))


def _values(y: Any) -> FloatArray:
    """Values of fields, (n, P, c) or (n, *grid, c)."""
    return np.asarray(y.values if isinstance(y, FieldSet) else y, dtype=np.float64)


def _inputs(X: Any) -> FloatArray:
    """All numbers that differ between samples, one row for each."""
    if not isinstance(X, FieldSet):
        return np.asarray(X, dtype=np.float64).reshape(len(X), -1)
    parts = [None if X.shared_coords else X.coords, X.values, X.params]
    return np.concatenate([_inputs(np.asarray(part)) for part in parts if part is not None], axis=1)


# --------------------------------------------------------------------- command
def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("classical", help=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS), metavar="ROW")
    parser.add_argument("--data", help="an .npz file with X_train, y_train, X_test, y_test, as a further row")
    parser.add_argument("--models", nargs="+", default=list(_MODELS), choices=[*_GROUPS, *_MODELS], metavar="MODEL")
    parser.add_argument("--seconds", type=float, nargs="+", default=[60.0], help="limits of the training time")
    parser.add_argument("--threads", type=int, default=1, help="threads of a fit")
    parser.add_argument("--seeds", type=int, default=3, help="draws of the data and starts of the fits")
    parser.add_argument("--train", type=int, help="training samples of every row; its own number by default")
    parser.add_argument("--test", type=int, help="test samples of every row; its own number by default")
    parser.add_argument("--learning-curve", type=int, nargs="+", metavar="N", help="numbers of training samples")
    parser.add_argument(
        "--output", help="Markdown file to write, with a JSON file beside it, from which a cut run continues"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure what is not measured yet, and report all.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    report = Report("Operators and classical surrogates", options.output)
    report.resume()
    words = dict.fromkeys(word for given in options.models for word in _GROUPS.get(given, [given]))
    models = [model for word, model in _MODELS.items() if word in words]
    torch.set_num_threads(options.threads)
    keys: dict[tuple[str, int], list[list[str]]] = {}
    with threadpool_limits(options.threads):
        for row, recipe, n_train in _rows(options):
            for seed in range(options.seeds):
                problem = _Lazy(recipe, n_train, seed)
                for number, (model, seconds) in enumerate(_columns(models, options)):
                    key = f"{row}, {n_train} samples, {_label(model, seconds)}, seed {seed}, {options.threads} threads"
                    places = keys.setdefault((row, n_train), [[] for _ in _columns(models, options)])
                    places[number].append(key)
                    # What failed is tried again.
                    if "failure" in report.numbers.get(key, {"failure": ""}):
                        report.record(key, _measure(model, _Run(problem.made, seconds, seed)))
    labels = [_label(model, seconds) for model, seconds in _columns(models, options)]
    timed = [model.is_timed for model, _ in _columns(models, options)]
    _tables(report, keys, labels, timed, curves=bool(options.learning_curve))


class _Lazy:
    """A problem that is made when it is asked for, so that nothing is made for a row that is measured.

    Parameters
    ----------
    recipe : Recipe
        How it is made.
    n_train, seed : int
        Number of training samples, and seed.
    """

    def __init__(self, recipe: Recipe, n_train: int, seed: int) -> None:
        self.recipe, self.n_train, self.seed = recipe, n_train, seed

    @cached_property
    def made(self) -> Problem:
        """The problem."""
        return self.recipe.make(self.n_train, self.recipe.n_test, self.seed)


def _rows(options: argparse.Namespace) -> Iterator[tuple[str, Recipe, int]]:
    """Names, recipes and numbers of training samples of the rows asked for."""
    recipes = {row: PROBLEMS[row] for row in options.rows}
    limits: dict[str, int] = {}
    if options.data:
        given, name = read_problem(options.data), Path(options.data).stem
        sizes = (len(given.y_train), len(given.y_test))
        recipes[name] = Recipe(_FILE, lambda n_train, n_test, seed: given.first(n_train), *sizes)
        limits[name] = len(given.y_train)
    for row, recipe in recipes.items():
        wanted = options.learning_curve or [options.train or recipe.n_train]
        for n_train in dict.fromkeys(min(size, limits.get(row, size)) for size in wanted):
            yield row, replace(recipe, n_test=options.test or recipe.n_test), n_train


def _columns(models: list[_Model], options: argparse.Namespace) -> list[tuple[_Model, float]]:
    """Models with each limit of the time; those without a limit once."""
    return [(model, seconds) for model in models for seconds in options.seconds[: None if model.is_timed else 1]]


def _label(model: _Model, seconds: float) -> str:
    """What a model is called in the tables."""
    return f"{model.name}, {seconds:g} s" if model.is_timed else model.name


def _measure(model: _Model, run: _Run) -> dict[str, Any]:
    """Error, time of the fit and time of a prediction; or why there are none."""
    problem = run.problem
    if not model.suits(problem):
        return {"unsuited": True}
    X_train, y_train, X_test = problem.X_train, problem.y_train, problem.X_test
    if model.reads_tables and problem.tables is not None:
        (X_train, X_test), y_train = problem.tables, _values(y_train)
    start = time.perf_counter()
    try:
        estimator = model.make(run)
        estimator.fit(X_train, y_train)
        seconds = time.perf_counter() - start
        predicted = _values(estimator.predict(X_test))
    # A model that cannot take a problem must not end the hours of the others; the tables say what it said.
    except Exception as error:
        return {"failure": f"{type(error).__name__}: {error}"}
    start = time.perf_counter()
    estimator.predict(X_test)
    milliseconds = 1000 * (time.perf_counter() - start) / len(predicted)
    truth = _values(problem.y_test)
    numbers = {
        "error": float(relative_l2_error(truth, predicted.reshape(truth.shape))),
        "fit_seconds": seconds,
        "predict_milliseconds": milliseconds,
    }
    return numbers | ({"epochs": estimator.n_iter_} if hasattr(estimator, "n_iter_") else {})


# ---------------------------------------------------------------------- tables
def _tables(
    report: Report,
    keys: dict[tuple[str, int], list[list[str]]],
    labels: list[str],
    timed: list[bool],
    *,
    curves: bool,
) -> None:
    """Write the best of each row, then every model's numbers for each row, or against the number of samples."""
    summary, failures = [], []
    details: dict[str, list[list[str]]] = {}
    for (row, n_train), places in keys.items():
        runs = {
            label: [report.numbers[key] for key in cell if "error" in report.numbers[key]]
            for label, cell in zip(labels, places, strict=True)
        }
        for cell in places:
            failures += [[key, report.numbers[key]["failure"]] for key in cell if "failure" in report.numbers[key]]
        best = []
        for kind in (False, True):
            errors = {
                label: [numbers["error"] for numbers in runs[label]]
                for label, is_timed in zip(labels, timed, strict=True)
                if is_timed is kind and runs[label]
            }
            name = min(errors, key=lambda label: float(np.mean(errors[label])), default="")
            best += [name, _spread(errors[name])] if name else ["", ""]
        summary.append([row, str(n_train), *best])
        if curves:
            cells = [_spread([n["error"] for n in runs[label]]) if runs[label] else "" for label in labels]
            details.setdefault(row, []).append([str(n_train), *cells])
        else:
            details[row] = [
                [
                    label,
                    _spread([numbers["error"] for numbers in found]),
                    f"{np.mean([numbers['fit_seconds'] for numbers in found]):.2f}",
                    f"{np.mean([numbers['predict_milliseconds'] for numbers in found]):.3g}",
                ]
                for label, found in runs.items()
                if found
            ]
    columns = ["problem", "samples", "best classical model", "error", "best model with a limit of time", "error"]
    report.table("Least relative L2 error of each problem", columns, summary)
    for row, lines in details.items():
        words = PROBLEMS[row].words if row in PROBLEMS else _FILE
        heads = ["samples", *labels] if curves else ["model", "relative L2 error", "s to fit", "ms to predict a sample"]
        report.table(f"{row}: {words}", heads, lines)
    if failures:
        report.table("Without a result", ["run", "reason"], failures)


def _spread(errors: list[float]) -> str:
    """Mean and spread of errors with enough digits for small ones."""
    if np.mean(errors) >= 0.01:
        return mean_and_spread(errors)
    spread = f" ± {np.std(errors, ddof=1):.1e}" if len(errors) > 1 else ""
    return f"{np.mean(errors):.2e}{spread}"
