"""Latent tokens on maps in which every output depends on every input, from functions on [0, 1] to functions.

There are three linear maps of random smooth functions u: the reversed function u(1 - x), the integral of exp(-|x - y|)
u(y) over y, and the antiderivative from 0 to x. Latent tokens whose weights depend on features alone, as published, are
initially nearly the same mean of all points. With the default parameters, half of the heads have centres in space.
"""

import argparse
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

from benchmarks._report import Report, mean_and_spread
from skop._typing import FloatArray
from skop.estimators import LaMORegressor
from skop.parts import LatentTokens

__all__ = ["add_command"]

_MODELS: dict[str, dict[str, Any]] = {
    "published slicing, our network and training": {
        "geometry": "points",
        "latents": LatentTokens(n_tokens=64, n_heads=8, n_centred_heads=0, n_frequencies=0, weight_init="trunc_normal"),
    },
    "latent tokens, default": {"geometry": "points"},
    "patches, default": {"geometry": "grid"},
}
_MAPS = ("reversed", "integral", "antiderivative")
#: Waves of the random functions.
_WAVES = 6


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("function-maps", help=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, nargs="+", default=[16, 64], help="points of the line")
    parser.add_argument("--train", type=int, default=400, help="training samples")
    parser.add_argument("--test", type=int, default=100, help="test samples")
    parser.add_argument("--maps", nargs="+", default=_MAPS, choices=_MAPS)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=1, help="fits for each cell of the table")
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
    report = Report("Maps from function to function", options.output, ["LaMORegressor"])
    for n_points in options.points:
        cells = [(name, kind) for name in _MODELS for kind in options.maps]
        found = Parallel(n_jobs=options.jobs)(
            delayed(_fit)(name, kind, n_points, seed, options) for name, kind in cells for seed in range(options.seeds)
        )
        errors = np.reshape(found, (len(_MODELS), len(options.maps), options.seeds))
        report.record(f"{n_points} points", {"errors": errors.tolist()})
        rows = [
            [name, *(mean_and_spread(list(seeds)) for seeds in row)] for name, row in zip(_MODELS, errors, strict=True)
        ]
        title = f"Relative L2 error on {n_points} points after {options.epochs} epochs of {options.train} samples"
        report.table(title, ["model", *options.maps], rows)


def make_map(kind: str, n_samples: int, n_points: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Draw functions and map them.

    Parameters
    ----------
    kind : {"reversed", "integral", "antiderivative"}
        Map.
    n_samples, n_points : int
        Number of functions, and of equally spaced points of [0, 1].
    seed : int
        Seed of the random functions.

    Returns
    -------
    tuple of ndarray of shape (n_samples, n_points, 1)
        The functions and their images; integrals by the trapezoidal rule.
    """
    x = np.linspace(0, 1, n_points)
    weights = np.random.default_rng(seed).normal(size=(n_samples, _WAVES)) / np.arange(1, _WAVES + 1)
    u = weights @ np.cos(np.pi * np.arange(_WAVES)[:, None] * x)
    if kind == "reversed":
        return u[..., None], u[:, ::-1, None].copy()
    if kind == "antiderivative":
        steps = np.cumsum((u[:, 1:] + u[:, :-1]) / 2, axis=1) / (n_points - 1)
        return u[..., None], np.concatenate([np.zeros((n_samples, 1)), steps], axis=1)[..., None]
    rule = np.full(n_points, 1 / (n_points - 1))
    rule[[0, -1]] /= 2
    return u[..., None], (u @ (rule[:, None] * np.exp(-np.abs(x[:, None] - x))))[..., None]


def _fit(name: str, kind: str, n_points: int, seed: int, options: argparse.Namespace) -> float:
    """Error of one fit."""
    torch.set_num_threads(1)
    X, y = make_map(kind, options.train + options.test, n_points, seed)
    model = LaMORegressor(base=None, max_iter=options.epochs, random_state=seed).set_params(**_MODELS[name])
    model.fit(X[: options.train], y[: options.train])
    return 1.0 - model.score(X[options.train :], y[options.train :])
