"""Novelty of samples beside their true errors on shifted test sets, and beside three other signs of a large error.

Every problem has training samples and several test sets: one like the training samples, and others that are shifted.
For each model and each number that a user can compute without the truth, the table states Spearman's rank correlation
with the relative L2 error of the samples, over all test sets together:

- the score of ``novelty``;
- the distance to the nearest training sample: in standardised global parameters, or where there are none between means
  of the fields, or of the points, of the samples in cells, each standardised by itself;
- the width of the band of `ConformalRegressor`, whose scale an estimator of the same kind learns from the errors;
- the standard deviation of an ensemble of three members, or that of the Gaussian processes of `PODRegressor`.

Widths and deviations are divided by the size of the prediction.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

from benchmarks._problems import make_burgers
from benchmarks._report import Report
from skop._typing import FloatArray
from skop.data import FieldSet
from skop.datasets import make_darcy, make_elasticity, make_european_option, make_joukowski, make_moving_hole
from skop.estimators import ConformalRegressor, EnsembleRegressor, LaMORegressor, PODRegressor
from skop.surrogate._novelty import raw_features

__all__ = ["add_command"]

#: Signs of a large error, in the order of the columns.
_SIGNS = ("novelty", "nearest sample", "conformal width", "spread")


@dataclass
class Shifted:
    """Training samples, and test sets by name, of which the first is like these."""

    X: Any
    y: Any
    tests: dict[str, tuple[Any, Any]] = field(default_factory=dict)


def _option(n_train: int, n_test: int, seed: int) -> Shifted:
    """Prices of options: volatility, strike and maturity beyond the range."""
    near = {"volatility": (0.2, 0.4), "strike": (80.0, 120.0), "maturity": (0.5, 1.2)}
    options: dict[str, Any] = {"resolution": 16, "call_probability": 1.0}
    tests = {
        "like the training": make_european_option(n_test, ranges=near, random_state=seed + 1, **options),
        "parameters of the full ranges": make_european_option(2 * n_test, random_state=seed + 2, **options),
    }
    return Shifted(*make_european_option(n_train, ranges=near, random_state=seed, **options), tests)


def _airfoils(n_train: int, n_test: int, seed: int) -> Shifted:
    """Pressures on airfoils: thicker, thinner and more cambered ones at larger angles."""
    near = {"angle": (0.0, 6.0), "thickness": (0.1, 0.14), "camber": (0.01, 0.03)}

    def make(count: int, seed: int, **options: Any) -> tuple[FieldSet, FieldSet]:
        table, y = make_joukowski(count, geometry="varied", random_state=seed, **options)
        return FieldSet(y.coords, params=table), y.with_values(np.asarray(y.values)[..., :1])

    tests = {
        "like the training": make(n_test, seed + 1, ranges=near),
        "other shapes and angles": make(2 * n_test, seed + 2),
    }
    return Shifted(*make(n_train, seed, ranges=near), tests)


def _elasticity(n_train: int, n_test: int, seed: int) -> Shifted:
    """Stresses around voids: larger and more irregular voids; the data need scikit-fem."""

    def make(count: int, seed: int, radii: tuple[float, float]) -> tuple[Any, Any]:
        X, y = make_elasticity(count, n_points=(48, 9), shuffle_points=True, radius_range=radii, random_state=seed)
        return X, y

    ranges = {"like the training": (0.2, 0.3), "larger voids": (0.3, 0.45), "smaller voids": (0.1, 0.2)}
    tests = {name: make(n_test, seed + 1 + i, radii) for i, (name, radii) in enumerate(ranges.items())}
    return Shifted(*make(n_train, seed, (0.2, 0.3)), tests)


def _holes(n_train: int, n_test: int, seed: int) -> Shifted:
    """Fields around a hole, given by the scattered points alone: coarser and finer sets of points."""

    def make(count: int, seed: int, n_points: tuple[int, int]) -> tuple[FieldSet, FieldSet]:
        _, y = make_moving_hole(count, nodes="scattered", n_points=n_points, random_state=seed)
        return FieldSet(y.coords), y

    sizes = {"like the training": (48, 9), "half the points": (34, 6), "a sixth": (20, 4), "twice the points": (68, 13)}
    tests = {name: make(n_test, seed + 1 + i, size) for i, (name, size) in enumerate(sizes.items())}
    return Shifted(*make(n_train, seed, (48, 9)), tests)


def _darcy(n_train: int, n_test: int, seed: int) -> Shifted:
    """Pressures for permeabilities: longer and shorter waves, and another contrast."""
    options: dict[str, Any] = {"resolution": 24}
    tests = {
        "like the training": make_darcy(n_test, random_state=seed + 1, **options),
        "longer waves": make_darcy(n_test, tau=1.0, alpha=3.0, random_state=seed + 2, **options),
        "shorter waves": make_darcy(n_test, tau=8.0, random_state=seed + 3, **options),
        "higher contrast": make_darcy(n_test, values=(3.0, 24.0), random_state=seed + 4, **options),
    }
    return Shifted(*make_darcy(n_train, random_state=seed, **options), tests)


def _burgers(n_train: int, n_test: int, seed: int) -> Shifted:
    """Later states of functions: coarser grids, and more waves."""

    def make(count: int, n_points: int, seed: int, n_waves: int = 3) -> tuple[FieldSet, FieldSet]:
        grid = (np.arange(n_points) / n_points)[:, np.newaxis]
        X, y = make_burgers(count, n_points, seed, n_waves=n_waves)
        return FieldSet(grid, X), FieldSet(grid, y)

    tests = {
        "like the training": make(n_test, 64, seed + 1),
        "half the points": make(n_test, 32, seed + 2),
        "more waves": make(n_test, 64, seed + 3, n_waves=8),
    }
    return Shifted(*make(n_train, 64, seed), tests)


#: Problems by the words of the command line, with their number of training samples.
PROBLEMS: dict[str, tuple[Callable[[int, int, int], Shifted], int]] = {
    "option": (_option, 200),
    "airfoils": (_airfoils, 100),
    "elasticity": (_elasticity, 120),
    "holes": (_holes, 80),
    "darcy": (_darcy, 200),
    "burgers": (_burgers, 200),
}
#: Problems whose samples, or test sets, have no nodes that correspond, as `PODRegressor` needs them.
_WITHOUT_NODES = ("elasticity", "holes", "burgers")


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("novelty", help=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--epochs", type=int, default=15, help="of each network")
    parser.add_argument("--test", type=int, default=25, help="samples of a test set, or half of them")
    parser.add_argument("--seed", type=int, default=100, help="of the data")
    parser.add_argument("--resume", action="store_true", help="take rows from the JSON file of an earlier run")
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    report = Report(
        "Novelty and true errors",
        options.output,
        ["LaMORegressor", "PODRegressor", "EnsembleRegressor", "ConformalRegressor"],
    )
    if options.resume:
        report.resume()
    for name in options.problems:
        make, n_train = PROBLEMS[name]
        problem = None
        for label, model in {"LaMO": make_lamo(options.epochs), "POD": PODRegressor()}.items():
            row = f"{name}, {label}"
            if row in report.numbers or (label == "POD" and name in _WITHOUT_NODES):
                continue
            problem = problem or make(n_train, options.test, options.seed)
            report.record(row, measure(model, problem))
    found = {row: numbers for row, numbers in report.numbers.items() if row.split(",")[0] in options.problems}
    ranks = [
        [row, *(f"{numbers['all'][sign]:.2f}" for sign in _SIGNS), f"{numbers['all']['samples']:.0f}"]
        for row, numbers in found.items()
    ]
    report.table("Rank correlation with the error over all test sets", ["problem", *_SIGNS, "samples"], ranks)
    sets = [
        [
            row,
            name,
            f"{numbers['error']:.2g}",
            f"{numbers['score']:.2f}",
            f"{numbers['quantile']:.2f}",
            *(f"{numbers[sign]:.2f}" for sign in _SIGNS),
        ]
        for row, parts in found.items()
        for name, numbers in parts["sets"].items()
    ]
    columns = ["problem", "test set", "median error", "median score", "median quantile", *_SIGNS]
    report.table("Rank correlation with the error within each test set", columns, sets)
    costs = [
        [row, f"{numbers['fit']:.1f}", f"{numbers['reference']:.2f}", f"{numbers['reference'] / numbers['fit']:.1%}"]
        for row, numbers in found.items()
    ]
    report.table("Cost of the features in a fit", ["problem", "fit, s", "features, s", "part of the fit"], costs)


def measure(model: Any, problem: Shifted) -> dict[str, Any]:
    """Fit a model, its band and its ensemble, and compare what they say with the errors.

    Parameters
    ----------
    model : estimator
        Unfitted model.
    problem : Shifted
        Training samples and test sets.

    Returns
    -------
    dict
        ``"all"`` and, for each test set, ``"sets"``: rank correlations and medians; ``"fit"`` and ``"reference"``:
        processor times in seconds of one fit, and of the features in it.
    """
    with warnings.catch_warnings():
        # Test sets are outside of what the fits have seen, on purpose.
        warnings.simplefilter("ignore")
        has_spread = isinstance(model, PODRegressor)
        start = time.process_time()
        one = model.fit(problem.X, problem.y)
        seconds = {"fit": time.process_time() - start}
        inputs, start = one._read_inputs(problem.X)[0], time.process_time()
        one._store_reference(inputs, None)
        seconds["reference"] = time.process_time() - start
        spread = one if has_spread else EnsembleRegressor(model, n_members=3, random_state=0).fit(problem.X, problem.y)
        scale = PODRegressor() if has_spread else model
        band = ConformalRegressor(model, coverage=0.8, scale=scale, random_state=0).fit(problem.X, problem.y)
        sets = {name: _numbers(one, spread, band, inputs, *test) for name, test in problem.tests.items()}
    whole = {key: np.concatenate([part[key] for part in sets.values()]) for key in ("error", *_SIGNS)}
    return {
        "all": {sign: _rank(whole[sign], whole["error"]) for sign in _SIGNS} | {"samples": len(whole["error"])},
        "sets": {
            name: {sign: _rank(part[sign], part["error"]) for sign in _SIGNS}
            | {"error": float(np.median(part["error"])), "score": float(np.median(part["novelty"]))}
            | {"quantile": float(np.median(part["quantile"]))}
            for name, part in sets.items()
        },
        **seconds,
    }


def _numbers(one: Any, spread: Any, band: Any, seen: FieldSet, X: Any, y: Any) -> dict[str, FloatArray]:
    """Error, quantile and all signs for each sample of a test set."""
    novelty = one.novelty(X, level=None)
    mean, deviation = spread.predict(X, return_std=True)
    middle, low, high = band.predict_interval(X)
    widths = [upper - lower for lower, upper in zip(arrays_of(low), arrays_of(high), strict=True)]
    return {
        "error": sample_errors(y, one.predict(X)),
        "quantile": novelty.quantile,
        "novelty": novelty.score,
        "nearest sample": nearest(one, seen, one._read_inputs(X)[0]),
        "conformal width": sizes_of(widths, middle),
        "spread": sizes_of(deviation, mean),
    }


def _rank(sign: FloatArray, error: FloatArray) -> float:
    """Spearman's rank correlation; 0 for a sign that says nothing."""
    return float(spearmanr(sign, error).statistic) if np.ptp(sign) > 0 else 0.0


def nearest(model: Any, seen: FieldSet, inputs: FieldSet) -> FloatArray:
    """Distances to the nearest training sample in parameters, or else in fields or points, by standard deviations."""
    groups = {group.kind: group for group in model.reference_.groups}
    raw = [raw_features(part, model.reference_.lattice, lambda _: None) for part in (seen, inputs)]
    kind = next(kind for kind in ("params", "fields", "points") if kind in groups)
    known, new = (np.where(np.isfinite(part[kind]), part[kind], groups[kind].mean) for part in raw)
    spread = known.std(axis=0)
    varies = spread > 1e-6 * np.abs(known).max(axis=0)
    return np.asarray(cdist(new[:, varies] / spread[varies], known[:, varies] / spread[varies]).min(axis=1))


def make_lamo(epochs: int) -> LaMORegressor:
    """Return the network of the measurement."""
    return LaMORegressor(width=16, depth=2, max_iter=epochs, base=None, random_state=0, verbose=False)


def sample_errors(true: Any, found: Any) -> FloatArray:
    """Relative L2 errors of samples."""
    pairs = zip(arrays_of(true), arrays_of(found), strict=True)
    return np.array([np.linalg.norm(b - a) / np.linalg.norm(a) for a, b in pairs])


def arrays_of(fields: Any) -> list[FloatArray]:
    """Values of each sample."""
    return fields.to_list() if isinstance(fields, FieldSet) else [np.asarray(values) for values in fields]


def sizes_of(parts: Any, means: Any) -> FloatArray:
    """Norms of widths or deviations over those of predictions."""
    pairs = zip(arrays_of(parts), arrays_of(means), strict=True)
    return np.array([np.linalg.norm(part) / np.linalg.norm(mean) for part, mean in pairs])
