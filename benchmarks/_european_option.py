"""European options: price surfaces from six parameters, by operators, POD, and a network that maps single points.

Data come from `skop.datasets.make_european_option`. The problem is that of Table 3 of Z. Song and Z. Jiang, "Adaptive
Mamba Neural Operators", 2025, which gives neither ranges nor grids nor numbers of samples. The multilayer perceptron
maps r, sigma, q, K, T, is_call, S and t / T to the price, point by point, with the loss and the time of the operators.
"""

import argparse
import time
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from torch import nn

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
from skop.data import FieldSet
from skop.datasets import make_european_option
from skop.metrics import relative_l2_error

__all__ = ["add_command"]

#: Table 3 of the paper: relative L2 errors after 500 epochs.
_PUBLISHED = {"lamo": "0.0008", "amo": "0.0006"}
_MLP = "multilayer perceptron of points"


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("european-option", help=__doc__.splitlines()[0])
    kinds = ["classical", "mlp", *OPERATORS]
    parser.add_argument("--models", nargs="+", default=["classical", "mlp", "lamo", "amo"], choices=kinds)
    add_mno_options(parser)
    parser.add_argument("--resolution", type=int, default=64, help="points along spot and along time")
    parser.add_argument("--train", type=int, default=1000, help="training samples")
    parser.add_argument("--test", type=int, default=200, help="test samples")
    parser.add_argument("--data-seed", type=int, default=0, help="of the parameters")
    parser.add_argument("--budgets", type=float, nargs="+", default=[60.0, 300.0], help="seconds of training")
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
    count = options.train + options.test
    data = make_european_option(count, resolution=options.resolution, random_state=options.data_seed)
    report = Report("Prices of European options from six parameters", options.output, estimator_names(options.models))
    rows = []
    if "classical" in options.models:
        for name, model in classical_models().items():
            numbers = _fit(model, data, options.train)
            report.record(name, numbers)
            rows.append([name, f"{numbers['error']:.4f}", "", "", ""])
    names = {kind: operator_name(kind, options) for kind in OPERATORS if kind in options.models}
    if "mlp" in options.models:
        names = {"mlp": _MLP} | names
    tasks = [(budget, kind, seed) for budget in options.budgets for kind in names for seed in range(options.seeds)]
    results = Parallel(n_jobs=options.jobs, return_as="generator")(
        delayed(_fit)(_model(kind, budget, seed, options), data, options.train) for budget, kind, seed in tasks
    )
    runs: dict[tuple[float, str], list[dict[str, Any]]] = {}
    for (budget, kind, seed), numbers in zip(tasks, results, strict=True):
        report.record(f"{names[kind]}, {budget:g} s, seed {seed}", numbers)
        runs.setdefault((budget, kind), []).append(numbers)
    for (budget, kind), fits in runs.items():
        error, epochs = mean_and_spread([fit["error"] for fit in fits]), np.mean([fit["epochs"] for fit in fits])
        size = f"{fits[0]['parameters']:,}"
        rows.append([f"{names[kind]}, {budget:g} s", error, f"{epochs:.0f}", size, _PUBLISHED.get(kind, "")])
    sizes = f"{options.train} training and {options.test} test surfaces of {options.resolution} x {options.resolution}"
    columns = ["model", "error", "epochs", "parameters", "paper, 500 epochs"]
    report.table(f"Relative L2 error; {sizes}, {options.seeds} seeds", columns, rows)


def _model(kind: str, budget: float, seed: int, options: argparse.Namespace) -> Any:
    """A network with default parameters and a time limit."""
    if kind == "mlp":
        return PointPerceptron(budget, seed)
    return make_operator(kind, options, random_state=seed, **until_time(budget))


def _fit(model: Any, data: tuple[FloatArray, FieldSet], n_train: int) -> dict[str, Any]:
    """Fit one model and take its error; the work of one process."""
    torch.set_num_threads(1)
    X, y = data
    model.fit(X[:n_train], y[:n_train])
    numbers: dict[str, Any] = {"error": float(relative_l2_error(y[n_train:], model.predict(X[n_train:])))}
    if hasattr(model, "n_iter_"):
        size = sum(parameter.numel() for parameter in model.module_.parameters())
        numbers |= {"epochs": model.n_iter_, "parameters": size, "seconds": model.fit_seconds_}
    return numbers


class PointPerceptron:
    """Multilayer perceptron from the parameters and the place of a point to the value there.

    All inputs and the target are scaled to mean 0 and deviation 1. A step draws some points of some samples, and the
    loss is the relative L2 error of each sample on its points, in the mean over samples. The optimiser is AdamW, and
    the learning rate follows half a cosine over the time after a short warm-up.

    Parameters
    ----------
    seconds : float
        Length of the training.
    seed : int
        Seed of the weights and draws.
    width, depth : int, default=128, 4
        Size and number of the hidden layers.
    n_samples, n_points : int, default=32, 64
        Samples of a step, and points of each.
    learning_rate : float, default=3e-3
        Highest learning rate.

    Attributes
    ----------
    module_ : torch.nn.Module
        Network of scaled inputs and outputs.
    n_iter_ : float
        Points that were drawn, as a multiple of all training points.
    fit_seconds_ : float
        Time of the training.
    """

    def __init__(
        self,
        seconds: float,
        seed: int,
        *,
        width: int = 128,
        depth: int = 4,
        n_samples: int = 32,
        n_points: int = 64,
        learning_rate: float = 3e-3,
    ) -> None:
        self.seconds, self.seed, self.width, self.depth = seconds, seed, width, depth
        self.n_samples, self.n_points, self.learning_rate = n_samples, n_points, learning_rate

    def fit(self, X: FloatArray, y: FieldSet) -> "PointPerceptron":
        """Train on surfaces.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Parameters.
        y : FieldSet
            Values of one channel at the same P points in all samples.

        Returns
        -------
        self
            The fitted network.
        """
        self.targets_, coords, values = y, y.coords, np.asarray(y.values)[..., 0]
        self.scales_ = [(part.mean(axis=0), part.std(axis=0)) for part in (X, coords)]
        self.mean_, self.deviation_ = values.mean(), values.std()
        torch.manual_seed(self.seed)
        sizes = [X.shape[1] + coords.shape[1], *[self.width] * self.depth]
        hidden = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.GELU())]
        self.module_ = nn.Sequential(*hidden, nn.Linear(self.width, 1))
        params, places = self._scaled(X, coords)
        targets = torch.as_tensor((values - self.mean_) / self.deviation_, dtype=torch.float32)
        # Errors are divided by the size of the values themselves, as in the metric.
        sizes_of_values = torch.as_tensor(np.sqrt(np.square(values).mean(axis=1)) / self.deviation_)
        optimiser = torch.optim.AdamW(self.module_.parameters(), lr=self.learning_rate, weight_decay=1e-5)
        start, drawn, share = time.perf_counter(), 0, 0.0
        while share < 1:
            for group in optimiser.param_groups:
                group["lr"] = self.learning_rate * min(1.0, share / 0.05 + 0.01) * (1 + np.cos(np.pi * share)) / 2
            sample = torch.randint(len(X), (self.n_samples, 1))
            point = torch.randint(len(coords), (self.n_samples, self.n_points))
            inputs = torch.cat([params[sample].expand(-1, self.n_points, -1), places[point]], dim=-1)
            errors = self.module_(inputs)[..., 0] - targets[sample, point]
            loss = (errors.square().mean(dim=1).sqrt() / sizes_of_values[sample[:, 0]]).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            drawn += point.numel()
            share = (time.perf_counter() - start) / self.seconds
        self.n_iter_, self.fit_seconds_ = drawn / targets.numel(), time.perf_counter() - start
        return self

    @torch.no_grad()
    def predict(self, X: FloatArray) -> FieldSet:
        """Predict surfaces.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Parameters.

        Returns
        -------
        FieldSet
            Values at the points of the training.
        """
        params, places = self._scaled(X, self.targets_.coords)
        rows = [self.module_(torch.cat([row.expand(len(places), -1), places], dim=1)) for row in params]
        values = torch.stack(rows).numpy() * self.deviation_ + self.mean_
        return FieldSet(self.targets_.coords, values)

    def _scaled(self, *parts: FloatArray) -> list[torch.Tensor]:
        """Parameters and places with mean 0 and deviation 1."""
        return [
            torch.as_tensor((part - mean) / np.where(deviation > 0, deviation, 1), dtype=torch.float32)
            for part, (mean, deviation) in zip(parts, self.scales_, strict=True)
        ]
