"""GeoMaNO's ablation at any size: recurrence, positional encoding and correction, with the paper's numbers.

The rows are those of Table 3 of X. Han et al., "GeoMaNO: geometric Mamba neural operator for partial
differential equations", 2025, or all combinations; data come from `skop.datasets.make_darcy` and
`make_navier_stokes`, and the network is the paper's preset unless a smaller one is asked for. Fits of one seed
share their data and the order of their batches, so that differences between rows are taken in pairs.
"""

import argparse
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib import Parallel, delayed

from benchmarks._report import Report, mean_and_spread, mean_change
from skop._typing import FloatArray
from skop.datasets import make_darcy, make_navier_stokes
from skop.estimators import GeoMaNORegressor, RolloutRegressor
from skop.metrics import relative_l2_error

__all__ = ["add_command"]


class Variant(NamedTuple):
    """A row of the table."""

    recurrence: str
    position: str | None
    correction: str | None


#: Table 3 of the paper: relative L2 errors.
_PUBLISHED = {
    "darcy": {
        Variant("sequence", "learned", None): 0.00389,
        Variant("sequence", None, None): 0.00381,
        Variant("sequence", None, "0001"): 0.00385,
        Variant("sequence", None, "0011"): 0.00376,
        Variant("sequence", None, "0111"): 0.00387,
        Variant("sequence", None, "learnable"): 0.00386,
        Variant("grid", "learned", None): 0.00428,
        Variant("grid", None, None): 0.00380,
        Variant("grid", None, "0001"): 0.00387,
        Variant("grid", None, "0011"): 0.00362,
        Variant("grid", None, "0111"): 0.00383,
        Variant("grid", None, "learnable"): 0.00372,
    },
    "navier_stokes": {
        Variant("sequence", None, None): 0.04190,
        Variant("sequence", None, "0001"): 0.04212,
        Variant("sequence", None, "0011"): 0.04062,
        Variant("sequence", None, "0111"): 0.04153,
        Variant("sequence", None, "learnable"): 0.04190,
        Variant("sequence", "learned", None): 0.03938,
        Variant("sequence", "learned", "0001"): 0.03795,
        Variant("sequence", "learned", "0011"): 0.03783,
        Variant("sequence", "learned", "0111"): 0.03709,
        Variant("sequence", "learned", "learnable"): 0.03701,
        Variant("grid", None, None): 0.13554,
        Variant("grid", "learned", None): 0.18287,
    },
}
_CORRECTIONS = (None, "0001", "0011", "0111", "learnable")
_ALL = [Variant(*row) for row in product(("sequence", "grid"), ("learned", None), _CORRECTIONS)]
_NAMES = {"sequence": "1-D", "grid": "2-D", "learned": "yes", None: "none"}


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("geomano-ablation", help=__doc__.splitlines()[0])
    parser.add_argument("--benchmark", choices=_PUBLISHED, default="darcy")
    parser.add_argument("--resolution", type=int, help="points per side (paper: 85 for Darcy, 64 for Navier-Stokes)")
    parser.add_argument(
        "--solver-resolution", type=int, help="points per side of the solver; for Darcy 421 in the paper"
    )
    parser.add_argument("--viscosity", type=float, default=1e-5, help="of Navier-Stokes")
    parser.add_argument("--train", type=int, default=1000, help="training samples")
    parser.add_argument("--test", type=int, default=200, help="test samples")
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--width", type=int, help="of the network, in place of the preset's")
    parser.add_argument("--depth", type=int, help="of the network, in place of the preset's")
    parser.add_argument("--batch", type=int, help="samples of a step, in place of the preset's")
    parser.add_argument("--learning-rate", type=float, help="in place of the preset's")
    parser.add_argument("--every-combination", action="store_true", help="rows that the paper leaves out too")
    parser.add_argument(
        "--corrections",
        nargs="+",
        choices=[_NAMES.get(word, word) for word in _CORRECTIONS],
        help="rows with these alone",
    )
    parser.add_argument("--seeds", type=int, default=3, help="fits for each row")
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
    X, y = _data(options)
    published = _PUBLISHED[options.benchmark]
    variants = _ALL if options.every_combination else list(published)
    if options.corrections:
        variants = [variant for variant in variants if (variant.correction or "none") in options.corrections]
    report = Report(
        f"GeoMaNO's ablation, {options.benchmark}", options.output, [f"GeoMaNORegressor {options.benchmark}"]
    )
    train, test = (X[: options.train], y[: options.train]), (X[options.train :], y[options.train :])
    threads = max(1, torch.get_num_threads() // options.jobs)
    tasks = [(variant, seed) for seed in range(options.seeds) for variant in variants]
    runs = Parallel(n_jobs=options.jobs, return_as="generator")(
        delayed(_fit)(_model(options, variant, seed), train, test, threads) for variant, seed in tasks
    )
    errors: dict[Variant, list[float]] = {variant: [] for variant in variants}
    for (variant, seed), numbers in zip(tasks, runs, strict=True):
        report.record(f"{_row_name(variant)}, seed {seed}", numbers)
        errors[variant].append(numbers["error"])
    heading = f"Relative L2 error at {X.shape[1]} x {X.shape[2]}, {options.train} samples, {options.epochs} epochs"
    rows = [
        [
            *_cells(variant),
            f"{published[variant]:.5f}" if variant in published else "",
            mean_and_spread(errors[variant]),
        ]
        for variant in variants
    ]
    report.table(heading, ["scan", "position code", "correction", "paper", f"here, {options.seeds} seeds"], rows)
    _compare(report, errors, published)


def _data(options: argparse.Namespace) -> tuple[FloatArray, FloatArray]:
    """Training and test samples, in this order."""
    count = options.train + options.test
    sizes: dict[str, Any] = {"random_state": 0, "n_jobs": -1}
    if options.benchmark == "darcy":
        resolution = options.resolution or 85
        sizes |= {"resolution": resolution, "solver_resolution": options.solver_resolution}
        return make_darcy(count, **sizes)
    sizes |= {"resolution": options.resolution or 64, "viscosity": options.viscosity}
    if options.solver_resolution:
        sizes["solver_resolution"] = options.solver_resolution
    return make_navier_stokes(count, **sizes)


def _model(options: argparse.Namespace, variant: Variant, seed: int) -> Any:
    """The preset with a row's variant and the sizes asked for."""
    asked = {"width": options.width, "depth": options.depth, "batch_size": options.batch}
    asked |= {"learning_rate_init": options.learning_rate, "patches__lifting_width": options.width}
    changes = {name: value for name, value in asked.items() if value is not None}
    changes |= {"mixer__recurrence": variant.recurrence, "mixer__correction": variant.correction}
    changes["patches__positional_encoding"] = variant.position
    model = GeoMaNORegressor.from_preset(options.benchmark, max_iter=options.epochs, random_state=seed, **changes)
    return model if options.benchmark == "darcy" else RolloutRegressor(model, window=10, increments=False)


def _fit(
    model: Any, train: tuple[FloatArray, FloatArray], test: tuple[FloatArray, FloatArray], threads: int
) -> dict[str, Any]:
    """Fit one model and take its error; the work of one process."""
    torch.set_num_threads(threads)
    model.fit(*train)
    network = getattr(model, "estimator_", model)
    error = float(relative_l2_error(test[1], model.predict(test[0])))
    return {"error": error, "training loss": network.loss_curve_[-1], "seconds": network.fit_seconds_}


def _compare(report: Report, errors: dict[Variant, list[float]], published: dict[Variant, float]) -> None:
    """What the paper claims, as differences of rows that differ in one thing, seed by seed."""
    rows = []
    for name, field, before, after in (
        ("2-D instead of 1-D", "recurrence", "sequence", "grid"),
        ("a position code instead of none", "position", None, "learned"),
        *((f"{after} instead of no correction", "correction", None, after) for after in _CORRECTIONS[1:]),
    ):
        pairs = [(row, row._replace(**{field: after})) for row in errors if getattr(row, field) == before]
        pairs = [(row, other) for row, other in pairs if other in errors]
        if not pairs:
            continue
        changes = np.mean([np.log(np.divide(errors[other], errors[row])) for row, other in pairs], axis=0)
        stated = [np.log(published[other] / published[row]) for row, other in pairs if {row, other} <= set(published)]
        count = str(len(pairs)) if len(stated) == len(pairs) else f"{len(pairs)} (paper: {len(stated)})"
        rows.append([name, count, mean_change([float(np.mean(stated))]) if stated else "", mean_change(changes)])
    report.table("Change of the error, in the mean over pairs of rows", ["change", "pairs", "paper", "here"], rows)


def _cells(variant: Variant) -> list[str]:
    """A variant in the words of the paper's table."""
    return [_NAMES[variant.recurrence], _NAMES[variant.position], variant.correction or "none"]


def _row_name(variant: Variant) -> str:
    """A variant as the name of a record."""
    scan, position, correction = _cells(variant)
    return f"{scan}, position code {position}, correction {correction}"
