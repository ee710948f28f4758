"""Operators on meshes that differ between samples, compared with POD and interpolation.

Data come from `skop.datasets.make_elasticity`. LaMO, MNO and AMO read the points of the meshes; GeoMaNO needs a grid,
and gets one with about as many points (``grid="auto"``). POD needs the same points in every sample. It gets each void
as the distance to the nearest mesh point on a common grid, learns the stress interpolated to that grid, and its
prediction is interpolated back to the points of each mesh, where all errors are taken.
"""

import argparse
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from scipy.spatial import KDTree

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
from skop._typing import FloatArray
from skop.data import FieldSet, interpolate_fields, unit_grid
from skop.datasets import make_elasticity
from skop.metrics import relative_l2_error
from skop.training import TrainingOptions

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("elasticity", help=__doc__.splitlines()[0])
    kinds = ["classical", *OPERATORS]
    parser.add_argument("--models", nargs="+", default=["classical", "lamo"], choices=kinds)
    add_mno_options(parser)
    parser.add_argument("--train", type=int, default=600, help="training samples")
    parser.add_argument("--test", type=int, default=200, help="test samples")
    parser.add_argument("--budgets", type=float, nargs="+", default=[600.0], help="seconds of training")
    parser.add_argument("--seeds", type=int, default=3, help="fits for each budget")
    parser.add_argument("--data-seed", type=int, default=1, help="of the voids; settings were chosen on seed 0")
    parser.add_argument("--grid", type=int, default=41, help="points per side of the grid of POD")
    parser.add_argument(
        "--draw-points", type=int, help="points of a sample in each training step of lamo and amo; all by default"
    )
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
    data: Any = make_elasticity(
        options.train + options.test, random_state=options.data_seed, n_jobs=-1, return_X_y=False
    )
    coords, stress = data["coords"], data["stress"]
    report = Report(
        "Stress around a void, every sample on its own mesh",
        options.output,
        ["PODRegressor", *estimator_names(options.models)],
    )
    rows = _classical_rows(report, coords, stress, options) if "classical" in options.models else []
    names = {kind: operator_name(kind, options) for kind in OPERATORS if kind in options.models}
    tasks = [(kind, budget, seed) for budget in options.budgets for kind in names for seed in range(options.seeds)]
    threads = max(1, torch.get_num_threads() // options.jobs)
    results = Parallel(n_jobs=options.jobs, return_as="generator")(
        delayed(_fit)(_model(kind, budget, seed, options), coords, stress, options.train, threads)
        for kind, budget, seed in tasks
    )
    runs: dict[tuple[float, str], list[dict[str, Any]]] = {}
    for (kind, budget, seed), numbers in zip(tasks, results, strict=True):
        report.record(f"{names[kind]}, {budget:g} s, seed {seed}", numbers)
        runs.setdefault((budget, kind), []).append(numbers)
    for (budget, kind), fits in runs.items():
        errors, epochs = [numbers["error"] for numbers in fits], [numbers["epochs"] for numbers in fits]
        rows.append([f"{names[kind]}, {budget:g} s", mean_and_spread(errors), f"{np.mean(epochs):.0f}"])
    sizes = f"{options.train} training and {options.test} test samples of {coords.shape[1]} points"
    report.table(f"Relative L2 error at the mesh points; {sizes}", ["model", "error", "epochs"], rows)


def _model(kind: str, budget: float, seed: int, options: argparse.Namespace) -> Any:
    """An operator with default parameters and a time limit."""
    drawn = {"training": TrainingOptions(subsample_points=options.draw_points)}
    further: dict[str, dict[str, Any]] = {"lamo": drawn, "amo": drawn, "geomano": {"grid": "auto"}}
    return make_operator(kind, options, random_state=seed, **until_time(budget), **further.get(kind, {}))


def _fit(model: Any, coords: FloatArray, stress: FloatArray, n_train: int, threads: int) -> dict[str, Any]:
    """Fit one model and take its error; the work of one process."""
    torch.set_num_threads(threads)
    model.fit(FieldSet(coords[:n_train]), stress[:n_train])
    predicted = model.predict(FieldSet(coords[n_train:]))
    error = float(relative_l2_error(stress[n_train:], predicted))
    return {"error": error, "epochs": model.n_iter_, "seconds": model.fit_seconds_, "threads": threads}


def _classical_rows(
    report: Report, coords: FloatArray, stress: FloatArray, options: argparse.Namespace
) -> list[list[str]]:
    """Errors of the mean field and of POD on a common grid."""
    grid, split = unit_grid((options.grid, options.grid)), options.train
    on_grid = FieldSet(grid, np.empty((len(coords), len(grid), 0)))
    distance = np.stack([KDTree(points).query(grid)[0] for points in coords])
    inputs = on_grid.with_values(distance[..., None])
    targets = on_grid.with_values(interpolate_fields(FieldSet(coords, stress), on_grid))
    meshes = FieldSet(coords[split:], np.empty((*stress[split:].shape[:2], 0)))

    def error(fields: FieldSet) -> float:
        """Error of fields on the grid at the points of the test meshes."""
        return float(relative_l2_error(stress[split:], interpolate_fields(fields, meshes)))

    rows = [["the stress itself, to the grid and back", f"{error(targets[split:]):.4f}", ""]]
    for name, model in classical_models().items():
        found = error(model.fit(inputs[:split], targets[:split]).predict(inputs[split:]))
        report.record(name, {"error": found})
        rows.append([name, f"{found:.4f}", ""])
    return rows
