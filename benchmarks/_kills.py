"""Fits that are killed and called again, compared bit for bit with fits that are not.

Each case is a fit in a process of its own with checkpoints after every epoch. It is killed by SIGKILL at a random
moment, from one to three times, and called again until it ends: its weights, loss curve and predictions must be those
of a fit without checkpoints. Processes are forked where the system can, so that a start takes milliseconds.
"""

import argparse
import hashlib
import json
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._report import Report
from skop.data import FieldSet
from skop.estimators import (
    AMORegressor,
    ConformalRegressor,
    DeepONetRegressor,
    EnsembleRegressor,
    GeoMaNORegressor,
    LaMORegressor,
    MNORegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
    TransolverRegressor,
    UNetRegressor,
)
from skop.estimators.fitting._checkpoint import FitCheckpoints
from skop.exceptions import SkopError
from skop.training import TrainingOptions, fingerprint

__all__ = ["FITS", "add_command", "result_of"]

_SIZES: dict[str, Any] = {"width": 8, "depth": 1, "max_iter": 8, "batch_size": 4, "random_state": 0}


def _fields() -> tuple[Any, Any]:
    """Fields on a grid, with targets that are no linear map of them."""
    X = np.random.default_rng(0).normal(size=(24, 4, 4, 1))
    return X, np.sin(X) + 0.3 * np.roll(X, 1, axis=1) ** 2


def _linear() -> tuple[Any, Any]:
    """Fields on a grid with targets that are nearly a linear map of them, so that a base model is of use."""
    X, y = _fields()
    return X, 3 * X.mean(axis=(1, 2), keepdims=True) + X + 0.02 * y


def _points() -> tuple[Any, Any]:
    """Samples with points of their own."""
    rng = np.random.default_rng(0)
    coords = [rng.random((int(n), 2)) for n in rng.integers(12, 20, size=16)]
    X = FieldSet(coords, [np.sin(4 * points[:, :1]) for points in coords])
    return X, [points[:, :1] * points[:, 1:] for points in coords]


def _frames() -> tuple[Any, Any]:
    """Trajectories: a first frame, and three that follow."""
    X = np.random.default_rng(0).normal(size=(12, 4, 4, 1))
    return X, np.concatenate([np.roll(X, step, axis=1) * 0.9**step for step in (1, 2, 3)], axis=-1)


#: Fits by name: functions that return an estimator that is not fitted and its X and y.
FITS: dict[str, tuple[Callable[[], Any], Callable[[], tuple[Any, Any]]]] = {
    "plain": (lambda: LaMORegressor(base=None, **_SIZES), _fields),
    "validated, averaged, augmented": (
        lambda: LaMORegressor(
            base=None,
            early_stopping=True,
            symmetries=["flip_x"],
            training=TrainingOptions(ema_decay=0.9, drop_path=0.2, n_iter_no_change=3),
            **_SIZES,
        ),
        _fields,
    ),
    "over a base": (lambda: LaMORegressor(base="pod", early_stopping=True, **_SIZES), _linear),
    "points, some of them drawn": (
        lambda: LaMORegressor(training=TrainingOptions(subsample_points=8), **_SIZES),
        _points,
    ),
    "GeoMaNO": (lambda: GeoMaNORegressor(base=None, **_SIZES), _fields),
    "MNO": (lambda: MNORegressor(base=None, **_SIZES), _points),
    "AMO": (lambda: AMORegressor(base=None, **_SIZES), _fields),
    "Transolver": (lambda: TransolverRegressor(base=None, **_SIZES), _points),
    "U-Net": (lambda: UNetRegressor(base=None, **_SIZES), _fields),
    "DeepONet": (lambda: DeepONetRegressor(width=8, max_iter=8, batch_size=4, random_state=0), _fields),
    "ensemble": (
        lambda: EnsembleRegressor(LaMORegressor(**(_SIZES | {"max_iter": 3})), n_members=2, random_state=0),
        _linear,
    ),
    "rollout": (
        lambda: RolloutRegressor(LaMORegressor(**(_SIZES | {"max_iter": 3})), window=1, noise=0.05, unroll=2),
        _frames,
    ),
    "conditioned on time": (
        lambda: TimeConditionedRegressor(LaMORegressor(**(_SIZES | {"max_iter": 3}))),
        _frames,
    ),
    "band by folds": (
        lambda: ConformalRegressor(
            LaMORegressor(**(_SIZES | {"max_iter": 3})), coverage=0.6, method="cv+", cv=2, random_state=0
        ),
        _linear,
    ),
}


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("kills", help=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=len(FITS), help="number of fits that are killed")
    parser.add_argument("--fits", nargs="+", choices=FITS, default=list(FITS))
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Kill fits, compare, and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.

    Raises
    ------
    SkopError
        If a fit that was killed has ended with another result.
    """
    report = Report("Fits that were killed and called again", options.output)
    rng = np.random.default_rng(options.seed)
    torch.set_num_threads(1)
    expected: dict[str, tuple[str, float]] = {}
    counts = {name: {"cases": 0, "kills": 0, "different": 0} for name in options.fits}
    for number in range(options.cases):
        name = options.fits[number % len(options.fits)]
        if name not in expected:
            expected[name] = result_of(name, None), _duration(name)
        result, seconds = expected[name]
        found, kills = _killed(name, rng.uniform(0, seconds, size=rng.integers(1, 4)).tolist())
        counts[name]["cases"] += 1
        counts[name]["kills"] += kills
        counts[name]["different"] += found != result
    for name, numbers in counts.items():
        report.record(name, numbers)
    rows = [[name, *map(str, numbers.values())] for name, numbers in counts.items() if numbers["cases"]]
    report.table("Kills", ["fit", "cases", "kills", "different results"], rows)
    if different := sum(numbers["different"] for numbers in counts.values()):
        raise SkopError(f"{different} of {options.cases} fits that were killed ended with another result.")


def result_of(name: str, folder: Path | None) -> str:
    """Fit, and describe the result.

    Parameters
    ----------
    name : str
        Name of the fit.
    folder : Path or None
        Folder for checkpoints.

    Returns
    -------
    str
        Checksums of weights, loss curves and predictions.
    """
    make, samples = FITS[name]
    X, y = samples()
    with warnings.catch_warnings():
        # Trainings are too short to learn much.
        warnings.simplefilter("ignore")
        model = make().fit(X, y, **({} if folder is None else {"checkpoint_dir": folder}))
        predicted = model.predict(X)
    members = getattr(model, "estimators_", [getattr(model, "estimator_", model)])
    members = [*members, *getattr(model, "fold_estimators_", [])]
    total = hashlib.sha256()
    for part in predicted if isinstance(predicted, list) else [predicted]:
        total.update(np.asarray(part.values if isinstance(part, FieldSet) else part).tobytes())
    parts = [
        (fingerprint(member.module_), member.loss_curve_, member.best_iter_, member.stopped_) for member in members
    ]
    return json.dumps([parts, total.hexdigest()])


def _work(name: str, folder: Path, answer: Path) -> None:
    """Fit in a process of its own, with a checkpoint after each epoch, and write the result."""
    FitCheckpoints.pause, FitCheckpoints.part = 0.0, float("inf")
    torch.set_num_threads(1)
    result = result_of(name, folder)
    answer.with_suffix(".part").write_text(result)
    answer.with_suffix(".part").replace(answer)


def _start(name: str, folder: Path, answer: Path) -> Any:
    """Start a fit in a process of its own."""
    kinds = multiprocessing.get_all_start_methods()
    process = multiprocessing.get_context("fork" if "fork" in kinds else "spawn").Process(  # type: ignore[attr-defined]
        target=_work, args=(name, folder, answer)
    )
    process.start()
    return process


def _duration(name: str) -> float:
    """Seconds of a fit that is not killed."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        _start(name, Path(folder), Path(folder) / "answer").join()
        return time.perf_counter() - start


def _killed(name: str, moments: list[float]) -> tuple[str, int]:
    """Kill a fit at some moments after each start, then let it end; return its result and the number of kills.

    If it ends before the first kill, it is made again and killed sooner.
    """
    with tempfile.TemporaryDirectory() as place:
        folder, answer, kills = Path(place) / "checkpoints", Path(place) / "answer", 0
        for moment in moments:
            process = _start(name, folder, answer)
            process.join(moment)
            if process.exitcode is not None:
                break
            process.kill()
            process.join()
            kills += 1
        if not answer.exists():
            _start(name, folder, answer).join()
        found = answer.read_text() if answer.exists() else "no result"
    return (found, kills) if kills else _killed(name, [moment / 2 for moment in moments])
