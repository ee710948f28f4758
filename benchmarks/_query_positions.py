"""Targets on other points than the inputs: the "diagonal" experiment of MNO's paper, as described and as published.

Darcy flow (`skop.datasets.make_darcy`, variant of PDEBench) is solved on 2n x 2n cells. Inputs are the permeabilities
at the even cells of both axes, on n x n points. Targets are the pressures at the same points ("identical") or at the
odd cells, which are one cell further along both axes ("diagonal"). There are four ways to get the pressures at the odd
cells:

- the network is trained at the odd points, with their true coordinates;
- the published script trains with the pressures of the odd points and the coordinates of the even ones, so that the
  network is not asked at other points but learns to shift its output ("published");
- a network that was trained at the even points is asked at the odd ones, without having been trained there ("not
  retrained"). Nothing is extrapolated, so this is for the (n - 1) x (n - 1) odd points between even ones;
- the same network's prediction at the even points is interpolated by cubic splines.

A table over all points is followed by one over the points between the inputs, where all four can be compared.
"""

import argparse
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

from benchmarks._models import mno_parts
from benchmarks._report import Report, mean_and_spread
from skop._typing import FloatArray
from skop.data import FieldSet, interpolate_fields
from skop.datasets import make_darcy
from skop.estimators import MNORegressor
from skop.metrics import mean_absolute_error, mean_pointwise_relative_error, relative_l2_error

__all__ = ["add_command"]

_HOSTS, _MIXERS = ("oformer", "gnot", "galerkin"), ("linear", "softmax", "mamba")
#: Ways to train, by the names of their columns.
_WAYS = ("identical", "diagonal", "diagonal as published")
#: Ways to get the values between the inputs, in the order of the columns.
_BETWEEN = (*_WAYS[1:], "not retrained", "interpolated")
#: Figures of a prediction. In the paper's table the second is called RMSE and the third nRMSE.
_FIGURES = {
    "relative L2": relative_l2_error,
    "mean absolute error (published as RMSE)": mean_absolute_error,
    "mean point-wise relative error (published as nRMSE)": mean_pointwise_relative_error,
}
#: More than any budget allows, so that only the time ends a fit.
_MANY_EPOCHS = 10**6


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("query-positions", help=__doc__.splitlines()[0])
    parser.add_argument("--hosts", nargs="+", default=["oformer"], choices=_HOSTS)
    parser.add_argument("--mixers", nargs="+", default=list(_MIXERS), choices=_MIXERS)
    parser.add_argument("--resolution", type=int, default=32, help="points per side n of inputs and of targets")
    parser.add_argument("--train", type=int, default=400, help="training samples")
    parser.add_argument("--test", type=int, default=100, help="test samples")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of training of each fit")
    parser.add_argument("--seeds", type=int, default=3, help="fits for each cell of the table")
    parser.add_argument("--data-seed", type=int, default=0, help="of the permeabilities")
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
    data = make_shifted(options.train + options.test, options.resolution, options.data_seed)
    report = Report("Targets on other points than the inputs", options.output, ["MNORegressor"])
    threads = max(1, torch.get_num_threads() // options.jobs)
    tasks = [
        (host, mixer, way, seed)
        for seed in range(options.seeds)
        for host in options.hosts
        for mixer in options.mixers
        for way in _WAYS
    ]
    fits = Parallel(n_jobs=options.jobs, return_as="generator")(
        delayed(_fit)(*task, data, options.train, options.budget, threads) for task in tasks
    )
    results = {}
    for task, numbers in zip(tasks, fits, strict=True):
        host, mixer, way, seed = task
        results[task] = numbers
        report.record(f"{host}, {mixer}, {way}, seed {seed}", numbers)
    sizes = f"{options.train} training and {options.test} test samples, {options.budget:g} s for each fit"
    for figure in _FIGURES:
        for place, columns in (("at all points", _WAYS), ("at the odd points between even ones", _BETWEEN)):
            rows = [
                [f"{host}, {mixer}", *(_cell(results, host, mixer, column, place, figure) for column in columns)]
                for host in options.hosts
                for mixer in options.mixers
            ]
            report.table(f"{figure} {place}; {sizes}", ["network", *columns], rows)
    rows = [
        [f"{host}, {mixer}", *(f"{np.mean(_values(results, host, mixer, way, ('epochs',))):.0f}" for way in _WAYS)]
        for host in options.hosts
        for mixer in options.mixers
    ]
    report.table("Epochs within the time", ["network", *_WAYS], rows)


def make_shifted(n_samples: int, resolution: int, seed: int) -> dict[str, FieldSet]:
    """Generate permeabilities at even cells, and pressures at even and at odd ones.

    Parameters
    ----------
    n_samples : int
        Number of samples.
    resolution : int
        Number of points n per side; the equation is solved on 2n x 2n cells.
    seed : int
        Seed of the permeabilities.

    Returns
    -------
    dict of FieldSet
        ``"inputs"``: permeabilities at the even cells. ``"identical"``: pressures at the even cells. ``"diagonal"``:
        pressures at the odd cells. ``"diagonal as published"``: the same values with the coordinates of the even cells.
    """
    (coords, permeability), pressure = make_darcy(
        n_samples, variant="pdebench", resolution=2 * resolution, random_state=seed, return_coords=True
    )
    even, odd = (slice(None), *[slice(0, None, 2)] * 2), (slice(None), *[slice(1, None, 2)] * 2)
    places, others = coords[even[1:]], coords[odd[1:]]
    return {
        "inputs": FieldSet(places, permeability[even]),
        "identical": FieldSet(places, pressure[even]),
        "diagonal": FieldSet(others, pressure[odd]),
        "diagonal as published": FieldSet(places, pressure[odd]),
    }


def _fit(
    host: str,
    mixer: str,
    way: str,
    seed: int,
    data: dict[str, FieldSet],
    n_train: int,
    budget: float,
    threads: int,
) -> dict[str, Any]:
    """Fit one network and take its errors; the work of one process."""
    torch.set_num_threads(threads)
    run: dict[str, Any] = {"base": None, "max_time": budget, "max_iter": _MANY_EPOCHS, "random_state": seed}
    model = MNORegressor(**mno_parts(host, mixer), **run)
    if host == "galerkin":
        # Spectral convolutions give values on the grid of the input only. All ways get the same network.
        model.set_params(host__decoder="pointwise")
    model.fit(data["inputs"][:n_train], data[way][:n_train])
    inputs, shifted = data["inputs"][n_train:], data["diagonal"][n_train:]
    predicted = model.predict(inputs)
    numbers = {"at all points": {way: _figures(data[way][n_train:].to_grid(), predicted.to_grid())}}
    between = shifted.to_grid()[:, :-1, :-1]
    found = {way: predicted.to_grid()[:, :-1, :-1]}
    if way == "identical":
        side = between.shape[1]
        places = FieldSet(shifted.coords.reshape(side + 1, side + 1, 2)[:-1, :-1], between)
        asked = model.predict(inputs, coords=places.coords).values
        splines = interpolate_fields(predicted, places)
        found = {
            name: np.reshape(values, between.shape) for name, values in zip(_BETWEEN[2:], (asked, splines), strict=True)
        }
    numbers["at the odd points between even ones"] = {name: _figures(between, values) for name, values in found.items()}
    return numbers | {"epochs": model.n_iter_, "seconds": model.fit_seconds_, "threads": threads}


def _figures(true: FloatArray, predicted: FloatArray) -> dict[str, float]:
    """All figures of a prediction ``(n, *grid, 1)``."""
    return {name: float(figure(true, predicted)) for name, figure in _FIGURES.items()}


def _cell(results: dict[Any, Any], host: str, mixer: str, column: str, place: str, figure: str) -> str:
    """Mean and spread of a figure over the seeds."""
    way = column if column in _WAYS else "identical"
    return mean_and_spread(_values(results, host, mixer, way, (place, column, figure)))


def _values(results: dict[Any, Any], host: str, mixer: str, way: str, keys: tuple[str, ...]) -> list[float]:
    """A number of the fits of all seeds."""
    found = []
    for task, numbers in results.items():
        if task[:3] == (host, mixer, way):
            value = numbers
            for key in keys:
                value = value[key]
            found.append(value)
    return found
