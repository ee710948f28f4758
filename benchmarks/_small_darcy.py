"""A small published data set: the operators compared with classical surrogates under a limit of the training time.

The file is the Darcy set that the neuraloperator project publishes (MIT licence) as one ``.npz`` with
``train16_a``, ``train16_u`` (1000 binary coefficients and solutions at 16 x 16), ``test16_*`` and
``test32_*`` (50 each). Its grid holds one edge of the unit square and not the other: point i of n lies
at i / n.
"""

import argparse
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from scipy.interpolate import make_interp_spline
from sklearn.model_selection import KFold

from benchmarks._models import (
    OPERATORS,
    add_mno_options,
    classical_models,
    estimator_names,
    make_operator,
    operator_name,
    until_time,
)
from benchmarks._report import Report, mean_and_spread
from skop._typing import FloatArray, PathOrStr
from skop.data import FieldSet
from skop.estimators import EnsembleRegressor, PODRegressor, SymmetryOptions
from skop.exceptions import FieldDataError
from skop.metrics import relative_l2_error

__all__ = ["add_command"]

_KEYS = ("train16_a", "train16_u", "test16_a", "test16_u", "test32_a", "test32_u")
_SYMMETRIES = ("flip_x", "flip_y", "transpose")
_DOMAIN = ((0.0, 1.0), (0.0, 1.0))
_COLUMNS = ("16x16", "32x32", "32x32 interpolated")
Fields = tuple[FieldSet, FieldSet]


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("small-darcy", help=__doc__.splitlines()[0])
    parser.add_argument("data", help="the .npz file")
    parser.add_argument("--budgets", type=float, nargs="+", default=[60.0, 300.0], help="seconds of training")
    parser.add_argument("--seeds", type=int, default=3, help="fits for each row of the table")
    parser.add_argument("--sizes", type=int, nargs="*", default=[25, 50, 100, 200, 500, 1000], help="small-data curve")
    kinds = ["classical", "ensemble", *OPERATORS]
    parser.add_argument("--models", nargs="+", default=["classical", "lamo"], choices=kinds)
    add_mno_options(parser)
    parser.add_argument("--members", type=int, default=5, help="networks of an ensemble, which share the budget")
    parser.add_argument("--curve-budget", type=float, default=60.0, help="seconds of training for each size")
    parser.add_argument("--folds", type=int, default=5, help="of a cross-validation; 0 leaves it out")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time, each on its share of the cores")
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    data = read_small_darcy(options.data)
    report = Report(
        "Real Darcy flow, 1000 samples at 16 x 16",
        options.output,
        ["EnsembleRegressor", *estimator_names(options.models)],
    )
    _main_table(report, data, options)
    if options.folds:
        _cross_validation(report, data, options)
    if options.sizes:
        _small_data_curve(report, data, options)


def read_small_darcy(path: PathOrStr) -> dict[str, FieldSet]:
    """Read the published file.

    Parameters
    ----------
    path : path-like
        The ``.npz`` file.

    Returns
    -------
    dict of FieldSet
        The six sets, on points i / n of the unit square.

    Raises
    ------
    FieldDataError
        If arrays are missing.
    """
    with np.load(path) as file:
        missing = [key for key in _KEYS if key not in file]
        if missing:
            raise FieldDataError(f"{path} lacks {missing}; it holds {sorted(file)}. Expected {list(_KEYS)}.")
        arrays = {key: file[key].astype(np.float32)[..., None] for key in _KEYS}
    sets = {}
    for key, array in arrays.items():
        axis = np.arange(array.shape[1]) / array.shape[1]
        sets[key] = FieldSet(np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1), array)
    return sets


# ---------------------------------------------------------------------- models
def _operator(kind: str, budget: float, seed: int, options: argparse.Namespace, *, symmetric: bool) -> Any:
    """Return an operator with default parameters and a time limit, with or without the symmetries of the problem."""
    symmetries = SymmetryOptions(names=_SYMMETRIES, domain=_DOMAIN, average_predictions=True) if symmetric else None
    return make_operator(kind, options, random_state=seed, symmetries=symmetries, **until_time(budget))


def _double(coarse: FieldSet) -> FloatArray:
    """Values at the points i / 2n from those at i / n, by cubic splines along both axes."""
    grid = coarse.to_grid()
    n_points = grid.shape[1]
    for axis in (1, 2):
        spline = make_interp_spline(np.arange(n_points) / n_points, grid, k=3, axis=axis)
        grid = spline(np.arange(2 * n_points) / (2 * n_points))
    return grid.reshape(len(coarse), -1, 1)


def _measure(name: str, model: Any, train: Fields, test: Fields, fine: Fields | None, threads: int) -> dict[str, Any]:
    """Fit one model and take its errors; the work of one process."""
    torch.set_num_threads(threads)
    model.fit(*train)
    predicted = model.predict(test[0])
    numbers: dict[str, Any] = {"name": name, "16x16": float(relative_l2_error(test[1], predicted))}
    if fine is not None:
        # The coarse test grid is a part of the fine one, so these are the same fields.
        interpolated = fine[1].with_values(_double(predicted))
        numbers["32x32 interpolated"] = float(relative_l2_error(fine[1], interpolated))
    if not isinstance(model, PODRegressor):
        members = getattr(model, "estimators_", [model])
        numbers |= {"epochs": sum(member.n_iter_ for member in members)}
        numbers |= {"seconds": sum(member.fit_seconds_ for member in members)}
        if fine is not None:
            numbers["32x32"] = float(relative_l2_error(fine[1], model.predict(fine[0])))
    return numbers


def _measure_all(report: Report, tasks: list[tuple[Any, ...]], jobs: int) -> list[dict[str, Any]]:
    """Run tasks, some at a time, and keep their numbers."""
    threads = max(1, torch.get_num_threads() // jobs)
    results = []
    for numbers in Parallel(n_jobs=jobs, return_as="generator")(delayed(_measure)(*task, threads) for task in tasks):
        report.record(f"{len(report.numbers)}: {numbers['name']}", numbers | {"threads": threads})
        results.append(numbers)
    return results


# ---------------------------------------------------------------------- tables
def _main_table(report: Report, data: dict[str, FieldSet], options: argparse.Namespace) -> None:
    """Errors on the published test fields."""
    train, test, fine = ((data[f"{part}_a"], data[f"{part}_u"]) for part in ("train16", "test16", "test32"))
    models: list[tuple[str, Any]] = []
    if "classical" in options.models:
        models += classical_models().items()
    for budget in options.budgets:
        for symmetric in (False, True):
            for kind in _chosen(options):
                name = _name(kind, budget, options, symmetric=symmetric)
                models += [
                    (name, _operator(kind, budget, seed, options, symmetric=symmetric)) for seed in range(options.seeds)
                ]
            if "ensemble" in options.models:
                name = _name("lamo", budget, options, symmetric=symmetric)
                member = _operator("lamo", budget / options.members, 0, options, symmetric=symmetric)
                models += [
                    (
                        f"{name}, {options.members} members",
                        EnsembleRegressor(member, n_members=options.members, random_state=seed),
                    )
                    for seed in range(options.seeds)
                ]
    tasks = [(name, model, train, test, fine) for name, model in models]
    results = _measure_all(report, tasks, options.jobs)
    rows = []
    for name in dict.fromkeys(result["name"] for result in results):
        runs = [result for result in results if result["name"] == name]
        cells = [mean_and_spread([run[key] for run in runs]) if key in runs[0] else "" for key in _COLUMNS]
        epochs = f"{np.mean([run['epochs'] for run in runs]):.0f}" if "epochs" in runs[0] else ""
        rows.append([name, *cells, epochs])
    columns = ["model", "16x16", "32x32, not retrained", "32x32, prediction at 16x16 interpolated", "epochs"]
    report.table("Relative L2 error on the 50 test fields", columns, rows)


def _cross_validation(report: Report, data: dict[str, FieldSet], options: argparse.Namespace) -> None:
    """Errors over folds of the training samples: 1000 samples say more than 50."""
    X, y = data["train16_a"], data["train16_u"]
    budget = options.budgets[0]
    models = {name: model for name, model in classical_models().items() if name != "mean field"} | {
        _name(kind, budget, options, symmetric=symmetric): _operator(kind, budget, 0, options, symmetric=symmetric)
        for kind in _chosen(options)
        for symmetric in (False, True)
    }
    folds = list(KFold(options.folds, shuffle=True, random_state=0).split(X))
    tasks = [
        (name, model, (X[train], y[train]), (X[test], y[test]), None)
        for name, model in models.items()
        for train, test in folds
    ]
    results = _measure_all(report, tasks, options.jobs)
    rows = [
        [name, mean_and_spread([result["16x16"] for result in results if result["name"] == name])] for name in models
    ]
    title = f"{options.folds}-fold cross-validation over the 1000 training samples (spread over the folds)"
    report.table(title, ["model", "relative L2"], rows)


def _small_data_curve(report: Report, data: dict[str, FieldSet], options: argparse.Namespace) -> None:
    """Errors after training on the first few samples only."""
    budget = options.curve_budget
    models = {name: model for name, model in classical_models().items() if name != "mean field"} | {
        _name(kind, budget, options, symmetric=symmetric): _operator(kind, budget, 0, options, symmetric=symmetric)
        for kind in _chosen(options)
        for symmetric in (False, True)
    }
    test = (data["test16_a"], data["test16_u"])
    tasks = [
        (name, model, (data["train16_a"][:size], data["train16_u"][:size]), test, None)
        for size in options.sizes
        for name, model in models.items()
    ]
    results = iter(_measure_all(report, tasks, options.jobs))
    rows = [[str(size), *(f"{next(results)['16x16']:.4f}" for _ in models)] for size in options.sizes]
    report.table("Relative L2 error against the number of training samples", ["samples", *models], rows)


def _chosen(options: argparse.Namespace) -> list[str]:
    """Operators among the models asked for."""
    return [kind for kind in OPERATORS if kind in options.models]


def _name(kind: str, budget: float, options: argparse.Namespace, *, symmetric: bool) -> str:
    """What a row of an operator is called."""
    return f"{operator_name(kind, options)}, {budget:g} s" + (", symmetries declared" if symmetric else "")
