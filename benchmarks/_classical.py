"""Operators and classical surrogates on the same problems, smooth ones with few samples among them.

All models get the same samples and one limit of the training time; those without a limit take what they need. Errors
are relative L2 errors of test samples, with other data and another start for each seed.
"""

import argparse
import ast
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import numpy as np
import torch
from scipy.interpolate import Akima1DInterpolator, RBFInterpolator, make_interp_spline
from scipy.spatial import KDTree
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from threadpoolctl import threadpool_limits

from benchmarks._models import until_time
from benchmarks._problems import PROBLEMS, Problem, Recipe, read_recipe
from benchmarks._report import Report, mean_and_spread
from skop._typing import FloatArray
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
from skop.exceptions import FieldDataError
from skop.metrics import channel_sizes, relative_l2_error

__all__ = ["add_command", "add_options"]

#: Leading modes and first samples from which the parameters of a Gaussian process on raw values are estimated.
_LEADING_MODES, _MOST_SAMPLES = 10, 300
#: Most values of scikit-learn's array of samples x samples x outputs, which grows when a process has many outputs.
_MOST_VALUES = 5e7
#: Largest number of outputs that have models of their own.
_FEW_OUTPUTS = 16
#: Quotients of an error and the least error of all other models above which the summary marks a model.
_LAMO_LIMIT, _AUTO_LIMIT = 1.05, 1.1
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

    Attributes: its name; `make`, an unfitted estimator for a run; its group, a word of the command line; `key`, by
    which its results are kept, the name unless it must say more: it names settings that a default may change;
    `reads_tables`, whether it gets the table of a problem that has one; `suits`, whether a problem is for it;
    `depends_on`, the estimators whose defaults it has.
    """

    name: str
    make: Callable[[_Run], Any]
    group: str
    key: str = ""
    reads_tables: bool = False
    suits: Callable[[Problem], bool] = lambda problem: True
    depends_on: tuple[str, ...] = ("PODRegressor",)

    @property
    def is_timed(self) -> bool:
        """Whether it has a limit of the training time."""
        return self.group != "classical"

    def label(self, seconds: float) -> str:
        """What it is called in the tables."""
        return f"{self.name}, {seconds:g} s" if self.is_timed else self.name

    def kept_as(self, seconds: float) -> str:
        """What it is called in the JSON file."""
        return f"{self.key or self.name}, {seconds:g} s" if self.is_timed else self.key or self.name


def _classical(
    name: str,
    make: Callable[[], Any],
    suits: Callable[[Problem], bool] = lambda problem: True,
    *,
    reads_tables: bool = True,
) -> _Model:
    """A model without a limit of the time."""
    return _Model(name, lambda run: make(), "classical", reads_tables=reads_tables, suits=suits)


def _operator(kind: Any, base: str | None) -> Callable[[_Run], Any]:
    """An operator over a base or alone. Defaults may change, so that the base is always said."""
    grid_only = kind in {GeoMaNORegressor, UNetRegressor, FNORegressor}
    return lambda run: kind(base=base, **run.limits, **(run.grid if grid_only else run.points))


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


def _has_few_outputs(problem: Problem) -> bool:
    """Whether a model of its own for each output is soon fitted."""
    return _n_outputs(problem) <= _FEW_OUTPUTS


def _lies_in_plane(problem: Problem) -> bool:
    """Whether every sample has points of its own, in the plane."""
    return problem.has_own_points and problem.X_train.coords.shape[-1] == 2


def _pod(regressor: str, **options: Any) -> Callable[[], PODRegressor]:
    """PODRegressor with one of its regressors."""
    return lambda: PODRegressor(regressor=regressor, **options)


#: Operators and peers by the words of the command line.
_OPERATORS: dict[str, tuple[str, Any]] = {
    "lamo": ("LaMO", LaMORegressor),
    "geomano": ("GeoMaNO", GeoMaNORegressor),
    "mno": ("MNO", MNORegressor),
    "amo": ("AMO", AMORegressor),
}
_PEERS: dict[str, tuple[str, Any, Callable[[Problem], bool]]] = {
    "transolver": ("Transolver", TransolverRegressor, lambda problem: True),
    "deeponet": ("DeepONet", DeepONetRegressor, lambda problem: True),
    "unet": ("U-Net", UNetRegressor, _has_same_points),
    "fno": ("FNO", FNORegressor, _has_same_points),
}
#: More components than any training set has modes, so that PODRegressor keeps all of them.
_ALL: dict[str, Any] = {"n_components": 10**6}
#: All models by the words of the command line, in the order of the tables. A further estimator is one more line; it is
#: timed unless it is of the classical ones, and gets fields and points rather than tables.
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
    "akima": _classical("Akima's interpolation", lambda: _Interpolation("akima"), _has_one_parameter),
    "rbf": _classical("radial basis functions", lambda: _Interpolation(None), _has_few_parameters),
    "ridge": _classical("ridge on values", lambda: _OnValues(RidgeCV(np.logspace(-8, 4, 25)))),
    "gp": _classical("GP on values", lambda: _OnValues(None)),
    "boosting": _classical(
        "gradient boosting",
        lambda: _OnValues(MultiOutputRegressor(HistGradientBoostingRegressor(random_state=0))),
        _has_few_outputs,
    ),
    **{
        word: _Model(
            name,
            _operator(kind, "auto"),
            "operators",
            key=f"{name}, base='auto', Muon, Sobolev",
            depends_on=(kind.__name__, "PODRegressor"),
        )
        for word, (name, kind) in _OPERATORS.items()
    },
    "lamo-symmetries": _Model(
        "LaMO, symmetries declared",
        lambda run: LaMORegressor(symmetries=run.problem.symmetries, **run.limits),
        "variants",
        key="LaMO, symmetries declared, Muon, Sobolev",
        suits=lambda problem: problem.symmetries is not None,
        depends_on=("LaMORegressor", "PODRegressor"),
    ),
    "auto": _Model(
        "AutoRegressor",
        lambda run: AutoRegressor(max_time=run.seconds, random_state=run.seed),
        "auto",
        key="AutoRegressor, Muon, Sobolev",
        depends_on=("AutoRegressor", "LaMORegressor", "PODRegressor"),
    ),
    # Models to compare with are as their papers have them, without a base.
    **{
        word: _Model(
            name, _operator(kind, None), "peers", key=f"{name}, Muon, Sobolev", suits=suits, depends_on=(kind.__name__,)
        )
        for word, (name, kind, suits) in _PEERS.items()
    },
    **{
        f"{word}-alone": _Model(
            f"{name} alone",
            _operator(kind, None),
            "alone",
            key=f"{name}, base=None, Muon, Sobolev",
            depends_on=(kind.__name__,),
        )
        for word, (name, kind) in _OPERATORS.items()
    },
}
_LAMO, _AUTO = _MODELS["lamo"], _MODELS["auto"]
#: Words of the command line for several models.
_GROUPS = {
    group: [word for word, model in _MODELS.items() if model.group == group]
    for group in ("classical", "operators", "variants", "peers", "alone")
}


def _chosen(text: str) -> list[_Model]:
    """Models of a word of the command line, with what its part after a colon changes: ``lamo-alone:batch_size=4``."""
    word, _, changes = text.partition(":")
    if word not in {*_GROUPS, *_MODELS}:
        raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join([*_GROUPS, *_MODELS])}")
    models = [_MODELS[name] for name in _GROUPS.get(word, [word])]
    return [_changed(model, changes) for model in models] if changes else models


def _changed(model: _Model, changes: str) -> _Model:
    """A model with other parameters: ``name=value`` with commas between, values as in Python or plain words."""
    params = {}
    for change in changes.split(","):
        name, is_given, value = change.partition("=")
        if not (name and is_given):
            raise argparse.ArgumentTypeError(f"{change!r} is no name=value; values with commas cannot be given")
        try:
            params[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            params[name] = value
    words = ", ".join(f"{name.removeprefix('training__')}={value}" for name, value in params.items())
    return replace(
        model,
        name=f"{model.name}, {words}",
        key=f"{model.key or model.name}, {words}",
        make=lambda run: model.make(run).set_params(**params),
    )


class _Interpolation:
    """Interpolation of all values over the parameters: splines of one, radial basis functions of a few.

    Parameters
    ----------
    degree : int, "akima" or None
        Degree of the spline; ``"akima"`` takes Akima's cubics for each value, and None thin plates.
    """

    def __init__(self, degree: int | str | None) -> None:
        self.degree = degree

    def fit(self, X: FloatArray, y: Any) -> Self:
        """Interpolate values (n, P, c) over parameters (n, p)."""
        rows, values = np.asarray(X, dtype=np.float64), _values(y)
        if self.degree is None:
            spread = rows.std(axis=0)
            self.scale_ = np.where(spread > 0, spread, 1.0)
            self.surface_: Any = RBFInterpolator(rows / self.scale_, values.reshape(len(values), -1))
        elif isinstance(self.degree, str):
            order = np.argsort(rows[:, 0])
            self.surface_ = Akima1DInterpolator(rows[order, 0], values[order])
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
        Regressor from tables or fields on the grid to fields on the grid.
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
    add_options(commands.add_parser("classical", help=__doc__.splitlines()[0]), "Operators and classical surrogates")


def add_options(
    parser: argparse.ArgumentParser,
    title: str,
    *,
    rows: Iterable[str] = PROBLEMS,
    models: Iterable[str] = _MODELS,
    **defaults: Any,
) -> None:
    """Make a command one that measures models on problems.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Parser of the command.
    title : str
        Heading of its page.
    rows, models : iterable of str, default=all
        Problems and models that it measures unless others are asked for.
    **defaults
        Defaults of other options.
    """
    parser.add_argument(
        "--rows", nargs="*", default=list(rows), choices=list(PROBLEMS), metavar="ROW", help="problems; may be none"
    )
    parser.add_argument("--data", help="an .npz file with X_train, y_train, X_test, y_test, as a further row")
    parser.add_argument(
        "--models",
        nargs="+",
        type=_chosen,
        default=[_chosen(word) for word in models],
        metavar="MODEL",
        help=f"{', '.join([*_GROUPS, *_MODELS])}; with other parameters after a colon: lamo-alone:batch_size=4",
    )
    parser.add_argument("--seconds", type=float, nargs="+", default=[60.0], help="limits of the training time")
    parser.add_argument("--threads", type=int, default=1, help="threads of a fit")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="measure all times as time of the processor, of one thread, on a machine that has other work as well",
    )
    parser.add_argument("--seeds", type=int, default=3, help="draws of the data and starts of the fits")
    parser.add_argument("--train", type=int, help="training samples of every row; its own number by default")
    parser.add_argument("--test", type=int, help="test samples of every row; its own number by default")
    parser.add_argument("--learning-curve", type=int, nargs="+", metavar="N", help="numbers of training samples")
    parser.add_argument(
        "--output", help="Markdown file to write, with a JSON file beside it, from which a cut run continues"
    )
    parser.add_argument(
        "--merge", nargs="+", default=[], metavar="JSON", help="files of other runs whose results are taken over"
    )
    parser.add_argument(
        "--print-only", action="store_true", help="measure nothing, and write the tables of what is measured"
    )
    parser.set_defaults(run=run, title=title, **defaults)


def run(options: argparse.Namespace) -> None:
    """Measure what is not measured yet, and report all.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    names = [name for given in options.models for model in given for name in model.depends_on]
    report = Report(options.title, options.output, names)
    report.resume()
    for path in options.merge:
        _take_over(report, Path(path))
    models = {model.name: model for given in options.models for model in given}
    columns = _columns(list(models.values()), options.seconds)
    cases = [_Case(*row) for row in _rows(options)]
    if options.processor_time and options.threads != 1:
        raise SystemExit("--processor-time adds up the time of all threads; set --threads 1")
    torch.set_num_threads(options.threads)
    # Limits of the training time are read by this clock as well.
    clock = time.process_time if options.processor_time else time.perf_counter
    try:
        with patch.object(time, "perf_counter", clock), threadpool_limits(options.threads):
            for case in cases:
                for seed in range(options.seeds):
                    problem = _Lazy(case.recipe, case.n_train, seed)
                    for model, seconds in columns:
                        key = case.plan(model, seconds, seed, options.threads)
                        # What failed is tried again.
                        if not options.print_only and "failure" in report.numbers.get(key, {"failure": ""}):
                            timed = {"clock": "processor"} if options.processor_time else {}
                            report.record(key, _measure(model, problem, seconds) | timed)
    except KeyboardInterrupt:
        _tables(report, cases, columns, curves=bool(options.learning_curve))
        print("interrupted; the same command measures what is left", file=sys.stderr)
        raise SystemExit(130) from None
    _tables(report, cases, columns, curves=bool(options.learning_curve))


def _take_over(report: Report, path: Path) -> None:
    """Take over the results of another run that are missing here; a result goes before a failure."""
    try:
        report.take_over(path, lambda key: "failure" in report.numbers.get(key, {"failure": ""}))
    except ValueError as error:
        raise FieldDataError(f"{path} is no JSON file of this benchmark: {error}.") from error


@dataclass
class _Case:
    """A problem with a number of training samples.

    Attributes: name, recipe and number of training samples; `keys`, under which the results of a model with a limit of
    the time are kept, for each seed.
    """

    row: str
    recipe: Recipe
    n_train: int
    keys: dict[str, dict[int, str]] = field(default_factory=dict)

    def plan(self, model: _Model, seconds: float, seed: int, threads: int) -> str:
        """Return the key of a result, and note it for the tables."""
        # Given data are the same for all seeds, and a model without a limit has no start that a seed draws.
        drawn = 0 if self.recipe.is_given and not model.is_timed else seed
        key = f"{self.row}, {self.n_train} samples, {model.kept_as(seconds)}, seed {drawn}, {threads} threads"
        self.keys.setdefault(model.label(seconds), {})[seed] = key
        return key

    def results(self, report: Report, model: _Model, seconds: float) -> dict[int, dict[str, Any]]:
        """Return the results of a model by seed, without what failed or is not measured."""
        keys = self.keys.get(model.label(seconds), {})
        found = {seed: report.numbers.get(key, {}) for seed, key in keys.items()}
        return {seed: numbers for seed, numbers in found.items() if "error" in numbers}


class _Lazy:
    """A problem that is made when it is asked for, so that nothing is made for a row that is measured.

    Parameters
    ----------
    recipe : Recipe
        Recipe of the problem.
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
    if options.data:
        recipes[Path(options.data).stem] = read_recipe(options.data)
    for row, recipe in recipes.items():
        wanted = options.learning_curve or [options.train or recipe.n_train]
        for n_train in dict.fromkeys(min(size, recipe.n_train) if recipe.is_given else size for size in wanted):
            yield row, replace(recipe, n_test=options.test or recipe.n_test), n_train


def _columns(models: list[_Model], seconds: list[float]) -> list[tuple[_Model, float]]:
    """Models with each limit of the time; those without a limit once."""
    return [(model, limit) for model in models for limit in seconds[: None if model.is_timed else 1]]


def _measure(model: _Model, lazy: _Lazy, seconds: float) -> dict[str, Any]:
    """Error, time of the fit and time of a prediction, and how the training ended; or why there are none."""
    try:
        problem = lazy.made
        if not model.suits(problem):
            return {"unsuited": True}
        X_train, y_train, X_test = problem.X_train, problem.y_train, problem.X_test
        start = time.perf_counter()
        estimator = model.make(_Run(problem, seconds, lazy.seed))
        # A table does not say where values are, which PODRegressor needs if nodes do not correspond.
        needs_points = isinstance(estimator, PODRegressor) and problem.has_other_nodes
        if model.reads_tables and problem.tables is not None and not needs_points:
            (X_train, X_test), y_train = problem.tables, _values(y_train)
        estimator.fit(X_train, y_train)
        fit_seconds = time.perf_counter() - start
        predicted = _values(estimator.predict(X_test))
    # A model that cannot take a problem must not end the hours of the others; the tables say what it said.
    except Exception as error:
        return {"failure": f"{type(error).__name__}: {error}"}
    if getattr(estimator, "stopped_", None) == "interrupted":
        # A fit of its own keeps its best model; a comparison with one that was cut short says nothing.
        raise KeyboardInterrupt
    start = time.perf_counter()
    estimator.predict(X_test)
    milliseconds = 1000 * (time.perf_counter() - start) / len(predicted)
    truth = _values(problem.y_test)
    kind: Any = {"kind": "scalar", "units": channel_sizes(truth, kind="scalar")} if truth.ndim == 2 else {}
    numbers = {
        "error": float(relative_l2_error(truth, predicted.reshape(truth.shape), **kind)),
        "fit_seconds": fit_seconds,
        "predict_milliseconds": milliseconds,
    }
    return numbers | _ending(estimator)


def _ending(estimator: Any) -> dict[str, Any]:
    """How the training of a model ended; its base, with the share of the network; and what was chosen."""
    found: dict[str, Any] = {}
    if hasattr(estimator, "n_iter_"):
        found |= {"epochs": estimator.n_iter_, "stopped": estimator.stopped_}
    if getattr(estimator, "base", None) is not None:
        base = estimator.base_
        found["base"] = None if base is None else str(base.estimator)
        if base is not None:
            found |= {"base_error": float(base.error), "field_share": estimator.module_.field_share.tolist()}
    if isinstance(estimator, AutoRegressor):
        found |= {"chosen": estimator.results_[0]["candidate"]} | _ending(estimator.estimator_)
    return found


# ---------------------------------------------------------------------- tables
def _tables(report: Report, cases: list[_Case], columns: list[tuple[_Model, float]], *, curves: bool) -> None:
    """Write the summary for each limit of the time, then every model's numbers of each problem."""
    limits = dict.fromkeys(seconds for model, seconds in columns if model.is_timed) or dict.fromkeys([0.0])
    for limit in limits:
        at_limit = [(model, seconds) for model, seconds in columns if seconds == limit or not model.is_timed]
        _summary(report, cases, at_limit, limit)
    for row in dict.fromkeys(case.row for case in cases):
        same = [case for case in cases if case.row == row]
        words = same[0].recipe.words + ("; seeds draw the starts alone" if same[0].recipe.is_given else "")
        if curves:
            heads = ["model", *(f"{case.n_train} samples" for case in same)]
            lines = [
                [model.label(limit), *(_cell(case, report, model, limit) for case in same)] for model, limit in columns
            ]
            lines = [line for line in lines if any(line[1:])]
            for name, errors in same[0].recipe.published.items():
                lines.append([f"{name}, published", *(f"{errors.get(case.n_train, '')}" for case in same)])
        else:
            heads = ["model", "relative L2 error", "seeds", "s to fit", "ms to predict a sample"]
            lines = [line for model, limit in columns if (line := _details(same[0], report, model, limit))]
        if lines:
            report.table(f"{row}: {words}", heads, lines)
        if len(limits) > 1 and not curves:
            _equal_errors(report, same[0], columns)
    keys = dict.fromkeys(key for case in cases for places in case.keys.values() for key in places.values())
    failures = [[key, report.numbers[key]["failure"]] for key in keys if "failure" in report.numbers.get(key, {})]
    if failures:
        report.table("Without a result", ["run", "reason"], failures)


def _summary(report: Report, cases: list[_Case], columns: list[tuple[_Model, float]], limit: float) -> None:
    """Write the best model of each kind, and how far LaMO and AutoRegressor are from the best of all others."""
    bests = {
        "best classical model": [column for column in columns if column[0].group == "classical"],
        "best peer": [column for column in columns if column[0].group == "peers"],
        "best other operator": [
            column
            for column in columns
            if column[0].group in {"operators", "variants", "alone"} and column[0] is not _LAMO
        ],
    }
    marked = {_LAMO: _LAMO_LIMIT, _AUTO: _AUTO_LIMIT}
    lines: list[list[str]] = []
    quotients: dict[_Model, list[bool]] = {model: [] for model in marked}
    for case in cases:
        errors = {
            model: {seed: numbers["error"] for seed, numbers in case.results(report, model, seconds).items()}
            for model, seconds in columns
        }
        line = [case.row, str(case.n_train)]
        for group in bests.values():
            found = [(model, seconds) for model, seconds in group if errors[model]]
            best = min(found, key=lambda column: float(np.mean(list(errors[column[0]].values()))), default=None)
            line.append("" if best is None else f"{best[0].name} {_cell(case, report, *best)}")
        line += [_cell(case, report, model, limit) for model in marked]
        for model, most in marked.items():
            quotient = _quotient(model, errors)
            quotients[model] += [] if quotient is None else [quotient > most]
            mark = "**" if quotient is not None and quotient > most else ""
            line.append("" if quotient is None else f"{mark}{quotient:.2f}{mark}")
        lines += [line] if any(line[2:]) else []
    counts = [
        f"{model.name} above {most:g} times the best of all others in {sum(above)} of {len(above)}"
        for (model, most), above in zip(marked.items(), quotients.values(), strict=True)
        if above
    ]
    heads = ["problem", "samples", *bests, *(model.name for model in marked)]
    heads += [f"{model.name} / best of all others" for model in marked]
    used = [number for number in range(len(heads)) if number < 2 or any(line[number] for line in lines)]
    title = f"Least relative L2 errors within {limit:g} s" if limit else "Least relative L2 errors"
    report.table(
        ": ".join([title, ", ".join(counts)] if counts else [title]),
        [heads[number] for number in used],
        [[line[number] for number in used] for line in lines],
    )


def _quotient(model: _Model, errors: dict[_Model, dict[int, float]]) -> float | None:
    """Error of a model over the least one of all others, each on the seeds that both have; None without others."""
    own, quotients = errors.get(model, {}), []
    for other, theirs in errors.items():
        both = own.keys() & theirs.keys()
        if other is not model and both:
            least = max(sum(theirs[seed] for seed in both), np.finfo(np.float64).tiny)
            quotients.append(sum(own[seed] for seed in both) / least)
    return max(quotients, default=None)


def _equal_errors(report: Report, case: _Case, columns: list[tuple[_Model, float]]) -> None:
    """Write the epochs a second of the models, and the time in which each reaches the least error that all reach."""
    found: dict[str, dict[float, list[dict[str, Any]]]] = {}
    for model, limit in columns:
        if model.is_timed and (numbers := list(case.results(report, model, limit).values())):
            found.setdefault(model.name, {})[limit] = numbers
    errors = {
        name: {limit: float(np.mean([numbers["error"] for numbers in runs])) for limit, runs in by_limit.items()}
        for name, by_limit in found.items()
        if len(by_limit) > 1
    }
    if len(errors) < 2:
        return
    target = max(min(by_limit.values()) for by_limit in errors.values())
    lines = []
    for name, by_limit in errors.items():
        runs = [numbers for runs in found[name].values() for numbers in runs if "epochs" in numbers]
        rate = sum(run["epochs"] for run in runs) / sum(run["fit_seconds"] for run in runs) if runs else None
        lines.append([name, "" if rate is None else f"{rate:.3g}", _reached(by_limit, target)])
    heads = ["model", "epochs a second", f"s to the error {_spread([target])}"]
    report.table(f"{case.row}: the least error that all models reach", heads, lines)


def _reached(errors: dict[float, float], target: float) -> str:
    """Limit of the time at which errors fall to a target, straight between limits where both are logarithms."""
    limits = sorted(errors)
    if errors[limits[0]] <= target:
        return f"at most {limits[0]:g}"
    for before, after in pairwise(limits):
        if errors[after] <= target:
            share = np.log(errors[before] / target) / np.log(errors[before] / errors[after])
            return f"{before * (after / before) ** share:.3g}"
    raise AssertionError("every model reaches the target within one of the limits")


def _details(case: _Case, report: Report, model: _Model, limit: float) -> list[str]:
    """Line of a model in the table of a problem, empty without results."""
    found = case.results(report, model, limit)
    if not found:
        return []
    seconds, milliseconds = (
        float(np.mean([numbers[name] for numbers in found.values()]))
        for name in ("fit_seconds", "predict_milliseconds")
    )
    n_seeds = len({case.keys[model.label(limit)][seed] for seed in found})
    return [
        model.label(limit),
        _cell(case, report, model, limit),
        str(n_seeds),
        f"{seconds:.2f}",
        f"{milliseconds:.3g}",
    ]


def _cell(case: _Case, report: Report, model: _Model, limit: float) -> str:
    """Mean and spread of the errors of a model, empty without results."""
    keys = case.keys.get(model.label(limit), {})
    found = {keys[seed]: numbers["error"] for seed, numbers in case.results(report, model, limit).items()}
    return _spread(list(found.values())) if found else ""


def _spread(errors: Sequence[float]) -> str:
    """Mean and spread of errors with enough digits for small ones."""
    if np.mean(errors) >= 0.01:
        return mean_and_spread(errors)
    spread = f" ± {np.std(errors, ddof=1):.1e}" if len(errors) > 1 else ""
    return f"{np.mean(errors):.2e}{spread}"
