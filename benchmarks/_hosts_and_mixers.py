"""MNO's three hosts with three mixers on Darcy flow, at equal training time and at equal numbers of epochs.

Rows and questions are those of Table I of C.-W. Cheng et al., "Mamba Neural Operator: Who Wins? Transformers vs.
State-Space Models for PDEs", 2024, at a size for two cores: data from `skop.datasets.make_darcy(variant="pdebench")`.
What the paper prints as "RMSE" is the mean absolute error, and its "nRMSE" the mean of ``|e| / (|u| + 1e-9)`` over
samples and points; both have those names here. Fits of one seed share their data and the order of their batches, so
that mixers are compared seed by seed.
"""

import argparse
from itertools import product
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

from benchmarks._models import HOSTS, MIXERS, classical_models, mno_parts, until_epoch, until_time
from benchmarks._report import Report, mean_and_spread, mean_change
from skop._typing import FloatArray
from skop.datasets import make_darcy
from skop.estimators import LaMORegressor, MNORegressor
from skop.exceptions import TrainingDivergedError
from skop.metrics import mean_absolute_error, mean_pointwise_relative_error, relative_l2_error

__all__ = ["add_command"]

#: Errors of a prediction, by the headings of their columns.
_ERRORS = {
    "relative L2": relative_l2_error,
    "mean absolute error": mean_absolute_error,
    "point-wise relative error": mean_pointwise_relative_error,
}
#: Table I of the paper, in the order of these errors: RL2, "RMSE" and "nRMSE".
_PUBLISHED = {
    ("gnot", "linear"): (0.0370, 0.0070, 0.0485),
    ("gnot", "softmax"): (0.0299, 0.0061, 0.0394),
    ("gnot", "mamba"): (0.0297, 0.0061, 0.0367),
    ("galerkin", "linear"): (0.1261, 0.0188, 0.2027),
    ("galerkin", "softmax"): (0.0648, 0.0103, 0.1050),
    ("galerkin", "mamba"): (0.0286, 0.0061, 0.0382),
    ("oformer", "linear"): (0.0242, 0.0054, 0.0253),
    ("oformer", "softmax"): (0.0323, 0.0066, 0.0324),
    ("oformer", "mamba"): (0.0241, 0.0054, 0.0244),
}
#: Host and mixer of a row; the operator that it is compared with has neither.
Pair = tuple[str, str]
_LAMO: Pair = ("LaMO", "")
#: Numbers of the fits of a row, by their seeds; those of a training that diverged are missing.
Fits = dict[int, dict[str, Any]]
Data = tuple[FloatArray, FloatArray]


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("hosts-and-mixers", help=__doc__.splitlines()[0])
    parser.add_argument("--resolution", type=int, default=32, help="points per side (paper: 64)")
    parser.add_argument("--solver-resolution", type=int, default=128, help="points per side of the solver (paper: 128)")
    parser.add_argument("--train", type=int, default=200, help="training samples (paper: 9000)")
    parser.add_argument("--test", type=int, default=100, help="test samples (paper: 1000)")
    parser.add_argument("--data-seed", type=int, default=0, help="of the permeabilities")
    parser.add_argument("--hosts", nargs="+", choices=HOSTS, default=HOSTS)
    parser.add_argument("--mixers", nargs="+", choices=MIXERS, default=MIXERS)
    parser.add_argument("--published", action="store_true", help="MNO's published networks and training")
    parser.add_argument("--budgets", type=float, nargs="*", default=[60.0], help="seconds of training; may be none")
    parser.add_argument("--epochs", type=int, nargs="*", default=[30], help="numbers of epochs; may be none")
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
    X, y = make_darcy(
        options.train + options.test,
        variant="pdebench",
        resolution=options.resolution,
        solver_resolution=options.solver_resolution,
        random_state=options.data_seed,
        n_jobs=-1,
    )
    train, test = (X[: options.train], y[: options.train]), (X[options.train :], y[options.train :])
    report = Report(
        "MNO's hosts and mixers on Darcy flow", options.output, ["MNORegressor", "LaMORegressor", "PODRegressor"]
    )
    references = _classical_rows(report, train, test)
    limits = {f"{budget:g} s": until_time(budget) for budget in options.budgets}
    limits |= {f"{epochs} epochs": until_epoch(epochs) for epochs in options.epochs}
    for limit, ends in limits.items():
        fits = _fit_all(report, limit, ends, train, test, options)
        rows = [[*pair, *_cells(fits[pair]), _published(pair)] for pair in fits]
        sizes = f"{options.train} training and {options.test} test samples of {X.shape[1]} x {X.shape[2]}"
        columns = ["host", "mixer", *_ERRORS, "epochs", "seconds", "paper: these errors"]
        report.table(f"Errors after {limit} of training; {sizes}", columns, [*rows, *references])
        _compare(report, limit, {pair: found for pair, found in fits.items() if pair != _LAMO})


def _classical_rows(report: Report, train: Data, test: Data) -> list[list[str]]:
    """Rows of models without a training."""
    rows = []
    for name, model in classical_models().items():
        numbers = _errors(model.fit(*train), test)
        report.record(name, numbers)
        rows.append([name, "", *(f"{error:.4f}" for error in numbers.values()), "", "", ""])
    return rows


def _fit_all(
    report: Report, limit: str, ends: dict[str, Any], train: Data, test: Data, options: argparse.Namespace
) -> dict[Pair, Fits]:
    """Fit every row with every seed, one seed after the other, and keep the numbers."""
    pairs = [*product(options.hosts, options.mixers), _LAMO]
    tasks = [(pair, seed) for seed in range(options.seeds) for pair in pairs]
    threads = max(1, torch.get_num_threads() // options.jobs)
    runs = Parallel(n_jobs=options.jobs, return_as="generator")(
        delayed(_fit)(_model(pair, options.published, random_state=seed, **ends), train, test, threads)
        for pair, seed in tasks
    )
    fits: dict[Pair, Fits] = {pair: {} for pair in pairs}
    for (pair, seed), numbers in zip(tasks, runs, strict=True):
        report.record(f"{' '.join(pair).strip()}, {limit}, seed {seed}", numbers)
        if "diverged" not in numbers:
            fits[pair][seed] = numbers
    return fits


def _model(pair: Pair, published: bool, **changes: Any) -> Any:
    """The operator of a row."""
    if pair == _LAMO:
        return LaMORegressor(base=None, **changes)
    if published:
        return MNORegressor.from_preset("darcy", host=pair[0], mixer=pair[1], **changes)
    return MNORegressor(base=None, **mno_parts(*pair), **changes)


def _fit(model: Any, train: Data, test: Data, threads: int) -> dict[str, Any]:
    """Fit one model and take its errors; the work of one process."""
    torch.set_num_threads(threads)
    try:
        model.fit(*train)
    except TrainingDivergedError as error:
        return {"diverged": str(error)}
    n_weights = sum(weights.numel() for weights in model.module_.parameters())
    run = {"epochs": model.n_iter_, "seconds": model.fit_seconds_, "parameters": n_weights, "threads": threads}
    return _errors(model, test) | run


def _errors(model: Any, test: Data) -> dict[str, Any]:
    """Errors of a fitted model."""
    predicted = model.predict(test[0])
    return {name: float(error(test[1], predicted)) for name, error in _ERRORS.items()}


def _cells(fits: Fits) -> list[str]:
    """Errors with their spread over the seeds, mean number of epochs, and mean time."""
    if not fits:
        return ["diverged", *[""] * (len(_ERRORS) + 1)]
    errors = [mean_and_spread([run[name] for run in fits.values()]) for name in _ERRORS]
    epochs, seconds = (np.mean([run[name] for run in fits.values()]) for name in ("epochs", "seconds"))
    return [*errors, f"{epochs:.0f}", f"{seconds:.0f}"]


def _published(pair: Pair) -> str:
    """The paper's figures of a row."""
    return ", ".join(f"{error:.4f}" for error in _PUBLISHED.get(pair, ()))


def _compare(report: Report, limit: str, fits: dict[Pair, Fits]) -> None:
    """Which mixer wins in each host, and by how much."""
    errors = {pair: {seed: run["relative L2"] for seed, run in found.items()} for pair, found in fits.items() if found}
    means = {pair: np.mean(list(found.values())) for pair, found in errors.items()}
    rows = []
    for host in dict.fromkeys(host for host, _ in errors):
        best, *others = sorted((pair for pair in errors if pair[0] == host), key=means.__getitem__)
        for other in others:
            changes = [
                np.log(errors[other][seed] / errors[best][seed]) for seed in errors[best] if seed in errors[other]
            ]
            paper = [np.log(_PUBLISHED[other][0] / _PUBLISHED[best][0])]
            rows.append([host, best[1], other[1], mean_change(changes) if changes else "", mean_change(paper)])
    columns = ["host", "smallest error", "other mixer", "its error is larger by", "paper"]
    report.table(f"Who wins after {limit}: relative L2 error, seed by seed, with the standard error", columns, rows)
