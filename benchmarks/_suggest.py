"""Choice of the next simulations: errors of models whose runs were suggested, spread over the inputs, or drawn.

A model is fitted to the first samples of a problem, drawn at random from a pool of candidates. Batches from the pool
are added, and the model is fitted again after each. The batch is

- "random": drawn at random;
- "space-filling": each candidate the farthest from all samples before it, in standardised parameters or in the values
  of input functions, which needs no model (maximin, or farthest-first, design);
- "distance alone": `skop.suggest` with a model that knows no uncertainty;
- "suggested": `skop.suggest` with the model itself.

All choices begin with the same samples, and are tested on the same ones.
"""

import argparse
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks._problems import PROBLEMS, Problem
from benchmarks._report import Report, mean_and_spread, mean_change
from skop._typing import FloatArray, IntArray
from skop.data import FieldSet
from skop.estimators import DeepONetRegressor, EnsembleRegressor, MeanFieldRegressor, PODRegressor, suggest
from skop.exceptions import FieldDataError

__all__ = ["add_command"]

#: Ways to choose, in the order of the rows.
_CHOICES = ("random", "space-filling", "distance alone", "suggested")
#: Number of members of the ensemble, and the options of these, so small that a fit takes seconds.
_MEMBERS = 3
_NETWORK: dict[str, Any] = {
    "width": 32,
    "n_basis": 16,
    "base": None,
    "max_iter": 40,
    "batch_size": 8,
    "learning_rate_init": 5e-3,
}
#: Models, by their words on the command line.
_MODELS = {
    "pod": ("PODRegressor", lambda seed: PODRegressor()),
    "ensemble": (
        f"an ensemble of {_MEMBERS} small DeepONetRegressor",
        lambda seed: EnsembleRegressor(DeepONetRegressor(**_NETWORK), n_members=_MEMBERS, random_state=seed),
    ),
}


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("suggest", help=__doc__.splitlines()[0])
    names = sorted(PROBLEMS)
    default = ["hole", "european-option", "extrapolation", "decades", "burgers-16", "antiderivative"]
    parser.add_argument("--problems", nargs="*", default=default, choices=names, help="for PODRegressor")
    parser.add_argument("--ensembles", nargs="*", default=[], choices=names, help="for an ensemble of small networks")
    parser.add_argument("--pool", type=int, default=300, help="candidates, with the first samples")
    parser.add_argument("--test", type=int, default=150, help="test samples")
    parser.add_argument("--start", type=int, default=20, help="first samples")
    parser.add_argument("--batch", type=int, default=10, help="samples that are added before each fit")
    parser.add_argument("--end", type=int, default=60, help="samples of the last fit")
    parser.add_argument("--seeds", type=int, default=5, help="fits with other pools and first samples")
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time, each in a process")
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    if not 2 <= options.start < options.end <= options.pool or (options.end - options.start) % options.batch:
        raise FieldDataError(
            f"--start {options.start}, --batch {options.batch}, --end {options.end} and --pool {options.pool} do not "
            "fit together; whole batches must lead from the start to the end, which the pool holds."
        )
    report = Report(
        "Which run next? Suggested, space-filling and random choice",
        options.output,
        ["PODRegressor", "DeepONetRegressor", "EnsembleRegressor"],
    )
    sizes = range(options.start, options.end + 1, options.batch)
    tasks = [("pod", name) for name in options.problems] + [("ensemble", name) for name in options.ensembles]
    for model, name in tasks:
        found = Parallel(n_jobs=options.jobs)(
            delayed(_errors)(model, name, seed, options.pool, options.test, sizes) for seed in range(options.seeds)
        )
        for seed, errors in enumerate(found):
            report.record(f"{name}, {model}, seed {seed}", errors)
        rows = []
        for choice in _CHOICES:
            errors, others = (np.array([one[way] for one in found]) for way in (choice, "random"))
            changes = np.log(errors / others)[:, 1:].mean(axis=1)
            cells = [mean_and_spread(100 * column) for column in errors.T]
            rows.append([choice, *cells, "" if choice == "random" else mean_change(changes)])
        report.table(
            f"{name} ({PROBLEMS[name].words}), {_MODELS[model][0]}; test error in %, {options.seeds} seeds",
            ["choice", *(f"{size} samples" for size in sizes), "change against random"],
            rows,
        )


def _errors(model: str, name: str, seed: int, n_pool: int, n_test: int, sizes: range) -> dict[str, list[float]]:
    """Test errors after each batch, for each choice; the work of one process."""
    problem = PROBLEMS[name].make(n_pool, n_test, seed)
    make = _MODELS[model][1]
    first = np.random.default_rng(seed).permutation(n_pool)[: sizes[0]]
    start = make(seed).fit(problem.X_train[first], problem.y_train[first])
    found = {}
    for choice in _CHOICES:
        # The same draws whatever the order of the choices.
        rng = np.random.default_rng([seed, 1])
        rows, fitted = first, start
        errors = [1 - fitted.score(problem.X_test, problem.y_test)]
        for _ in sizes[1:]:
            rest = np.setdiff1d(np.arange(n_pool), rows)
            rows = np.concatenate([rows, rest[_chosen(choice, problem, fitted, rows, rest, sizes.step, rng)]])
            fitted = make(seed).fit(problem.X_train[rows], problem.y_train[rows])
            errors.append(1 - fitted.score(problem.X_test, problem.y_test))
        found[choice] = errors
    return found


def _chosen(
    choice: str, problem: Problem, fitted: Any, rows: IntArray, rest: IntArray, n: int, rng: np.random.Generator
) -> IntArray:
    """Choose among the rest of the pool."""
    if choice == "random":
        return rng.permutation(len(rest))[:n]
    if choice == "space-filling":
        return _space_filling(_coordinates(problem), rows, rest, n)
    if choice == "distance alone":
        fitted = MeanFieldRegressor().fit(problem.X_train[rows], problem.y_train[rows])
    return np.asarray(suggest(fitted, problem.X_train[rest], n))


def _coordinates(problem: Problem) -> FloatArray:
    """Parameters, each standardised, or values of input functions."""
    if problem.tables is not None:
        table = np.asarray(problem.tables[0], dtype=np.float64)
        return (table - table.mean(axis=0)) / table.std(axis=0)
    X = problem.X_train
    return np.asarray(X.values if isinstance(X, FieldSet) else X, dtype=np.float64).reshape(len(X), -1)


def _space_filling(points: FloatArray, rows: IntArray, rest: IntArray, n: int) -> IntArray:
    """Choose rows of the rest, each the farthest from all before it."""
    distances = np.linalg.norm(points[rest][:, np.newaxis] - points[rows], axis=-1).min(axis=1)
    chosen = []
    for _ in range(n):
        chosen.append(int(distances.argmax()))
        apart = np.linalg.norm(points[rest] - points[rest[chosen[-1]]], axis=1)
        distances = np.minimum(distances, apart)
    return np.array(chosen)
