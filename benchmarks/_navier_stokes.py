"""Autoregressive rollouts on `skop.datasets.make_navier_stokes`: error by step, compared with POD and persistence.

Ten frames of vorticity are given and the ten that follow are predicted, each step from the ten frames
before it; viscosity 1e-3, solved on a finer grid than the one learned on.
"""

import argparse
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

from benchmarks._models import until_time
from benchmarks._report import Report, mean_and_spread
from skop._typing import FloatArray
from skop.datasets import make_navier_stokes
from skop.estimators import LaMORegressor, PODRegressor, RolloutRegressor

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("navier-stokes", help=__doc__.splitlines()[0])
    parser.add_argument("--train", type=int, default=200, help="training trajectories")
    parser.add_argument("--test", type=int, default=50, help="test trajectories")
    parser.add_argument("--viscosity", type=float, default=1e-3)
    parser.add_argument("--resolution", type=int, default=32, help="points per side that are learned on")
    parser.add_argument("--solver-resolution", type=int, default=64, help="points per side of the solver")
    parser.add_argument("--budget", type=float, default=600.0, help="seconds of training")
    parser.add_argument("--seeds", type=int, default=1, help="fits of LaMO")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0], help="of the inputs in training")
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
    X, y = make_navier_stokes(
        options.train + options.test,
        viscosity=options.viscosity,
        resolution=options.resolution,
        solver_resolution=options.solver_resolution,
        random_state=0,
        n_jobs=-1,
    )
    train, test = slice(options.train), slice(options.train, None)
    report = Report(
        f"Navier-Stokes, viscosity {options.viscosity:g}",
        options.output,
        ["LaMORegressor", "PODRegressor", "RolloutRegressor"],
    )
    rows = [_row("the last frame again", [_errors(np.repeat(X[test][..., -1:], y.shape[-1], axis=-1), y[test])])]
    pod = RolloutRegressor(PODRegressor(regressor="ridge", n_components=0.99), window=X.shape[-1]).fit(
        X[train], y[train]
    )
    rows.append(_row("POD + ridge", [_errors(pod.predict(X[test]), y[test])]))
    threads = max(1, torch.get_num_threads() // options.jobs)
    tasks = [(noise, seed) for noise in options.noise for seed in range(options.seeds)]
    results = Parallel(n_jobs=options.jobs)(
        delayed(_fit_lamo)((X[train], y[train]), (X[test], y[test]), options.budget, noise, seed, threads)
        for noise, seed in tasks
    )
    for noise in options.noise:
        runs = [numbers for (given, _), numbers in zip(tasks, results, strict=True) if given == noise]
        name = f"LaMO, {options.budget:g} s" + (f", noise {noise:g}" if noise else "")
        for seed, numbers in enumerate(runs):
            report.record(f"{name}, seed {seed}", numbers)
        rows.append(_row(name, [np.asarray(numbers["errors"]) for numbers in runs]))
    steps = [f"step {step}" for step in range(1, y.shape[-1] + 1)]
    title = f"Relative L2 error; {options.train} training and {options.test} test trajectories at {options.resolution}"
    report.table(title, ["model", "all steps jointly", *steps], rows)


def _errors(predicted: FloatArray, truth: FloatArray) -> FloatArray:
    """Mean relative L2 error of all frames jointly, and of each step."""
    n_frames = truth.shape[-1]
    found, true = (part.reshape(len(part), -1, n_frames).astype(np.float64) for part in (predicted, truth))
    squares = [((found - true) ** 2).sum(axis=1), (true**2).sum(axis=1)]
    jointly = np.sqrt(squares[0].sum(axis=1) / squares[1].sum(axis=1)).mean()
    return np.concatenate([[jointly], np.sqrt(squares[0] / squares[1]).mean(axis=0)])


def _row(name: str, runs: list[FloatArray]) -> list[str]:
    """Name, joint error with its spread over the fits, and the mean error of each step."""
    joint = mean_and_spread([float(run[0]) for run in runs])
    return [name, joint, *(f"{error:.4f}" for error in np.mean(runs, axis=0)[1:])]


def _fit_lamo(
    train: tuple[FloatArray, FloatArray],
    test: tuple[FloatArray, FloatArray],
    budget: float,
    noise: float,
    seed: int,
    threads: int,
) -> dict[str, Any]:
    """Fit a rollout of LaMO with default parameters under a time limit, and compute its errors."""
    torch.set_num_threads(threads)
    member = LaMORegressor(base=None, random_state=seed, **until_time(budget))
    model = RolloutRegressor(member, window=train[0].shape[-1], noise=noise).fit(*train)
    errors = _errors(model.predict(test[0]), test[1])
    return {"errors": errors.tolist(), "epochs": model.estimator_.n_iter_, "threads": threads}
