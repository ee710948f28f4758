"""Waves that travel along a line: the error of the phase of long and of short waves.

Data come from `skop.datasets.make_advection`: a sum of smooth waves (wavenumbers 1 to 20) and a weak spike at one
wavenumber of 140 to 250, moved by a quarter of the line; the target is the exact solution. Figure 3 of Z. Song and
Z. Jiang, "Adaptive Mamba Neural Operators", 2025, shows that LaMO loses the phase at the wavenumbers of the spike, and
says nothing of AMO there. A prediction that knows nothing of a wave has a phase error of pi / 2 = 1.57 in the mean, and
one without that wave has a relative error of 1 in its band.
"""

import argparse
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

from benchmarks._models import (
    OPERATORS,
    add_mno_options,
    estimator_names,
    make_operator,
    operator_name,
    until_time,
)
from benchmarks._report import Report, mean_and_spread
from skop._typing import FloatArray
from skop.datasets import make_advection
from skop.estimators import PODRegressor
from skop.metrics import phase_error, relative_l2_error, spectral_error

__all__ = ["add_command"]

#: Lowest and highest wavenumber of the smooth part and of the spike.
_BANDS = ((1, 20), (140, 250))


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("phase-error", help=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["classical", "lamo", "amo"], choices=["classical", *OPERATORS])
    add_mno_options(parser)
    parser.add_argument("--resolution", type=int, default=1024, help="points of the line, more than 500")
    parser.add_argument("--train", type=int, default=1000, help="training samples")
    parser.add_argument("--test", type=int, default=200, help="test samples")
    parser.add_argument("--data-seed", type=int, default=0, help="of the waves")
    parser.add_argument("--budgets", type=float, nargs="+", default=[120.0], help="seconds of training")
    parser.add_argument("--seeds", type=int, default=3, help="fits for each row of the table")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time, each on one thread")
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    data = make_advection(
        options.train + options.test,
        resolution=options.resolution,
        spike_wavenumbers=_BANDS[1],
        max_wavenumber=_BANDS[0][1],
        random_state=options.data_seed,
    )
    report = Report("The phase of long and of short waves", options.output, estimator_names(options.models))
    models: list[tuple[str, Any]] = [("PODRegressor", PODRegressor())] if "classical" in options.models else []
    models += [
        (
            f"{operator_name(kind, options)}, {budget:g} s",
            make_operator(kind, options, random_state=seed, **until_time(budget)),
        )
        for budget in options.budgets
        for kind in OPERATORS
        if kind in options.models
        for seed in range(options.seeds)
    ]
    results = Parallel(n_jobs=options.jobs, return_as="generator")(
        delayed(_fit)(model, data, options.train) for _, model in models
    )
    runs: dict[str, list[dict[str, Any]]] = {}
    for (name, _), numbers in zip(models, results, strict=True):
        fits = runs.setdefault(name, [])
        report.record(f"{name}, seed {len(fits)}", numbers)
        fits.append(numbers)
    figures = ["relative L2", *(f"{figure}, {_words(band)}" for band in _BANDS for figure in ("phase", "error"))]
    rows = [
        [
            name,
            *(mean_and_spread([fit[figure] for fit in fits]) for figure in figures),
            f"{np.mean([fit['epochs'] for fit in fits]):.0f}" if "epochs" in fits[0] else "",
        ]
        for name, fits in runs.items()
    ]
    sizes = f"{options.train} training and {options.test} test samples of {options.resolution} points"
    title = "Relative L2 error; error of the phase, in radians, and relative error of bands of wavenumbers"
    report.table(f"{title}; {sizes}, {options.seeds} seeds", ["model", *figures, "epochs"], rows)


def _fit(model: Any, data: tuple[FloatArray, FloatArray], n_train: int) -> dict[str, Any]:
    """Fit one model and take its errors; the work of one process."""
    torch.set_num_threads(1)
    X, y = data
    model.fit(X[:n_train], y[:n_train])
    numbers = _figures(y[n_train:], model.predict(X[n_train:]))
    if hasattr(model, "n_iter_"):
        numbers |= {"epochs": model.n_iter_, "seconds": model.fit_seconds_}
    return numbers


def _figures(y: FloatArray, predicted: FloatArray) -> dict[str, Any]:
    """Relative L2 error of all waves, and the errors of the phase and of the waves of each band."""
    shape = y.shape[1:-1]
    phases = phase_error(y, predicted, average="none", grid_shape=shape)
    edges = [edge for low, high in _BANDS for edge in (low, high + 1)]
    sizes, errors = (
        spectral_error(y, other, average="none", bands=edges, grid_shape=shape)
        for other in (np.zeros_like(y), predicted)
    )
    numbers: dict[str, Any] = {"relative L2": float(relative_l2_error(y, predicted))}
    for index, band in enumerate(_BANDS):
        # Before, between and after the bands, there are no waves.
        inside = 2 * index + 1
        numbers[f"phase, {_words(band)}"] = float(np.nanmean(phases[:, band[0] : band[1] + 1]))
        numbers[f"error, {_words(band)}"] = float(np.mean(errors[:, inside] / sizes[:, inside]))
    counted = ~np.isnan(phases)
    means = np.where(counted, phases, 0).sum(axis=0) / np.maximum(counted.sum(axis=0), 1)
    numbers["phase by wavenumber"] = {
        str(number): round(float(means[number]), 4) for number in np.flatnonzero(counted.any(axis=0)) if number
    }
    return numbers


def _words(band: tuple[int, int]) -> str:
    """A band in words."""
    return f"k = {band[0]} to {band[1]}"
