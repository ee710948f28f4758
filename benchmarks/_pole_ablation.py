"""AMO's ablation at any size: fixed and adaptive poles, their number, and orthogonality, with the paper's numbers.

The rows are those of Table 4 of Z. Song and Z. Jiang, "Adaptive Mamba Neural Operators", 2025, on Darcy flow and
European options, the comparison with plain kernels of its section 5.3, and on demand the directions of its Figure 2
and other uses of the functions. Latent tokens read the points once, as in the paper, in a network of small width
that otherwise has the default parameters. Fits of one seed share their data and the order of their batches, so that
differences between rows are taken in pairs.
"""

import argparse
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib import Parallel, delayed
from scipy.stats import spearmanr

from benchmarks._models import until_epoch, until_time
from benchmarks._report import Report, mean_and_spread, mean_change
from skop.datasets import make_darcy, make_european_option
from skop.estimators import AMORegressor
from skop.exceptions import FieldDataError
from skop.metrics import relative_l2_error
from skop.modules import SCAN_DIRECTIONS, TRANSFORMS
from skop.parts import LatentAttention, LatentTokens, LiteralExpansions, TakenakaMalmquist

__all__ = ["add_command"]


class Variant(NamedTuple):
    """A row of the table."""

    n_poles: int = 32
    adaptive: bool = True
    orthogonal: bool = True
    directions: str = "bidirectional"
    transform: str = "coefficients"

    def cells(self) -> list[str]:
        """Words of the row."""
        # As printed, a block has as many poles as its number says.
        number = "1 and more" if self.transform == "literal" else str(self.n_poles)
        kinds = "adaptive" if self.adaptive else "static", "orthogonal" if self.orthogonal else "plain kernels"
        return [kinds[0], number, kinds[1], self.directions, self.transform]


_STATIC = Variant(adaptive=False)
#: Table 4 of the paper: relative L2 errors.
_PUBLISHED = {
    data: {_STATIC: static, **{Variant(number): error for number, error in adaptive.items()}}
    for data, static, adaptive in (
        ("darcy", 0.0174, {4: 0.0057, 6: 0.0047, 8: 0.0036, 16: 0.0029, 32: 0.0021, 64: 0.0046}),
        ("european-option", 0.0035, {4: 0.0014, 6: 0.0010, 8: 0.0009, 16: 0.0008, 32: 0.0006, 64: 0.0009}),
    )
}


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("pole-ablation", help=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=_PUBLISHED, default=["european-option", "darcy"])
    parser.add_argument("--resolution", type=int, default=32, help="points per side (paper: 85 for Darcy)")
    parser.add_argument("--solver-resolution", type=int, default=125, help="points per side of the Darcy solver")
    parser.add_argument("--train", type=int, default=400, help="training samples")
    parser.add_argument("--test", type=int, default=200, help="test samples")
    parser.add_argument("--poles", type=int, nargs="+", default=[4, 8, 16, 32, 64], help="numbers of adaptive poles")
    parser.add_argument(
        "--directions", nargs="*", choices=SCAN_DIRECTIONS, default=[], help="rows with directions of their own"
    )
    parser.add_argument(
        "--transforms", nargs="*", choices=(*TRANSFORMS, "literal"), default=[], help="rows with other transforms"
    )
    parser.add_argument("--geometry", choices=("points", "grid"), default="points", help="latent tokens, or patches")
    parser.add_argument(
        "--latents", choices=("once", "each_block"), default="once", help="exchange of latent tokens and points"
    )
    parser.add_argument("--width", type=int, default=32, help="of the network (paper: 128)")
    parser.add_argument("--depth", type=int, default=4, help="of the network (paper: 4)")
    limits = parser.add_mutually_exclusive_group()
    limits.add_argument("--epochs", type=int, default=20, help="of every fit (paper: 500)")
    limits.add_argument("--budget", type=float, help="seconds of every fit, in place of the epochs")
    parser.add_argument("--seeds", type=int, default=3, help="fits for each row")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time, each on one thread")
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.

    Raises
    ------
    FieldDataError
        If the transform as printed is asked for without the paper's latent tokens.
    """
    if "literal" in options.transforms and (options.geometry, options.latents) != ("points", "once"):
        raise FieldDataError("--transforms literal needs --geometry points and --latents once, the defaults.")
    report = Report("The poles of AMO", options.output, ["AMORegressor"])
    variants = _variants(options)
    limit = f"{options.budget:g} s" if options.budget else f"{options.epochs} epochs"
    found = {}
    for name in options.data:
        data, published = _data(name, options), _PUBLISHED[name]
        tasks = [(variant, seed) for seed in range(options.seeds) for variant in variants]
        runs = Parallel(n_jobs=options.jobs, return_as="generator")(
            delayed(_fit)(_model(variant, seed, options), data, options.train) for variant, seed in tasks
        )
        fits: dict[Variant, list[dict[str, Any]]] = {variant: [] for variant in variants}
        for (variant, seed), numbers in zip(tasks, runs, strict=True):
            report.record(f"{name}, {', '.join(variant.cells())}, seed {seed}", numbers)
            fits[variant].append(numbers)
        rows = [
            [
                *variant.cells(),
                f"{published[variant]:.4f}" if variant in published else "",
                mean_and_spread([run["error"] for run in runs_of]),
                f"{np.mean([run['seconds'] / run['epochs'] for run in runs_of]):.2f}",
            ]
            for variant, runs_of in fits.items()
        ]
        sizes = f"{options.train} samples of {options.resolution} x {options.resolution}, {limit}"
        columns = ["poles", "number", "functions", "directions", "transform", "paper", f"here, {options.seeds} seeds"]
        report.table(f"Relative L2 error, {name}; {sizes}", [*columns, "seconds an epoch"], rows)
        found[name] = {variant: [run["error"] for run in runs_of] for variant, runs_of in fits.items()}
    _compare(report, found)


def _variants(options: argparse.Namespace) -> list[Variant]:
    """Rows that were asked for."""
    usual = [_STATIC, *(Variant(number) for number in options.poles), Variant(orthogonal=False)]
    others = [Variant(directions=directions) for directions in options.directions]
    others += [Variant(transform=transform) for transform in options.transforms]
    return list(dict.fromkeys([*usual, *others]))


def _data(name: str, options: argparse.Namespace) -> Any:
    """Training and test samples, in this order."""
    count = options.train + options.test
    if name == "european-option":
        return make_european_option(count, resolution=options.resolution, random_state=0)
    sizes = {"resolution": options.resolution, "solver_resolution": options.solver_resolution}
    return make_darcy(count, random_state=0, n_jobs=-1, **sizes)


def _model(variant: Variant, seed: int, options: argparse.Namespace) -> AMORegressor:
    """AMO with a row's variant and the sizes asked for."""
    kinds: dict[str, Any] = {"adaptive_poles": variant.adaptive, "orthogonal": variant.orthogonal}
    mixer: TakenakaMalmquist | LiteralExpansions = LiteralExpansions(**kinds)
    if variant.transform != "literal":
        mixer = TakenakaMalmquist(
            n_poles=variant.n_poles, scan_directions=variant.directions, transform=variant.transform, **kinds
        )
    # The paper's number of latent tokens.
    latents = (LatentAttention if options.latents == "once" else LatentTokens)(n_tokens=64)
    return AMORegressor(
        geometry=options.geometry,
        width=options.width,
        depth=options.depth,
        mixer=mixer,
        latents=latents if options.geometry == "points" else None,
        base=None,
        random_state=seed,
        **(until_time(options.budget) if options.budget else until_epoch(options.epochs)),
    )


def _fit(model: AMORegressor, data: Any, n_train: int) -> dict[str, Any]:
    """Fit one model and take its error; the work of one process."""
    torch.set_num_threads(1)
    X, y = data
    model.fit(X[:n_train], y[:n_train])
    error = float(relative_l2_error(y[n_train:], model.predict(X[n_train:])))
    return {"error": error, "epochs": model.n_iter_, "seconds": model.fit_seconds_}


def _compare(report: Report, found: dict[str, dict[Variant, list[float]]]) -> None:
    """What the paper claims: the order of its rows, and differences of rows, seed by seed."""
    rows = []
    for data, errors in found.items():
        both = [variant for variant in errors if variant in _PUBLISHED[data]]
        if len(both) < 3:
            continue
        paper, own = [_PUBLISHED[data][variant] for variant in both], np.array([errors[variant] for variant in both])
        of_mean, *of_seeds = (f"{spearmanr(paper, one).statistic:.2f}" for one in (own.mean(axis=1), *own.T))
        rows.append([data, str(len(both)), of_mean, ", ".join(of_seeds)])
    if rows:
        columns = ["data", "rows", "of the mean errors", "of the errors of each seed"]
        report.table("Rank correlation of the errors here with those of the paper", columns, rows)
    usual, rows = Variant(), []
    asked = dict.fromkeys(variant for errors in found.values() for variant in errors)
    pairs = {f"{number} poles instead of 32": (usual, Variant(number)) for number in (4, 64)}
    pairs |= {"32 adaptive poles instead of static ones": (_STATIC, usual)}
    pairs |= {"4 adaptive poles instead of 32 static ones": (_STATIC, Variant(4))}
    pairs |= {"plain kernels instead of orthogonal functions": (usual, Variant(orthogonal=False))}
    pairs |= {f"{one.directions} instead of bidirectional": (usual, one) for one in asked if one[3] != usual[3]}
    pairs |= {f"{one.transform} instead of coefficients": (usual, one) for one in asked if one[4] != usual[4]}
    for data, errors in found.items():
        published = _PUBLISHED[data]
        for name, (before, after) in pairs.items():
            if not {before, after} <= set(errors):
                continue
            stated = ""
            if {before, after} <= set(published):
                stated = mean_change([np.log(published[after] / published[before])])
            rows.append([data, name, stated, mean_change(np.log(np.divide(errors[after], errors[before])))])
    report.table(
        "Change of the error, seed by seed, with the standard error", ["data", "change", "paper", "here"], rows
    )
