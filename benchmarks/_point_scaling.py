"""Time and memory of a prediction on 10,000 to 1,000,000 points, and on demand of a training step.

Every size is predicted in a separate process, and trained on in another. Memory is the increase of the peak memory of
the process by the prediction, or by the fit.
"""

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from joblib.externals.loky import ProcessPoolExecutor

from benchmarks._report import Report
from skop._typing import FloatArray
from skop.data import FieldSet
from skop.estimators import AMORegressor, LaMORegressor
from skop.parts import LatentAttention

__all__ = ["add_command"]

#: Names of the models, and how they are made.
_MODELS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "lamo": ("LaMO", LaMORegressor, {}),
    "amo": ("AMO", AMORegressor, {}),
    "amo-once": (
        "AMO, latent tokens read points once",
        AMORegressor,
        {"latents": LatentAttention(n_tokens=64)},
    ),
}
#: Bytes of the unit in which the system counts peak memory.
_UNIT = 1 if sys.platform == "darwin" else 1024


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("point-scaling", help=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=_MODELS, default=["lamo"], help="default networks")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 30_000, 100_000, 300_000, 1_000_000])
    parser.add_argument("--dimensions", type=int, default=3, help="space dimensions")
    parser.add_argument("--repeats", type=int, default=3, help="predictions, of which the median counts")
    parser.add_argument("--steps", type=int, default=0, help="training steps, of which the mean counts; 0 omits them")
    parser.add_argument("--batch", type=int, default=4, help="samples of a training step")
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    names = [_MODELS[kind][0] for kind in options.models]
    report = Report(
        f"{names[0] if len(names) == 1 else 'Operators'} on many points",
        options.output,
        [_MODELS[kind][1].__name__ for kind in options.models],
    )
    for kind, name in zip(options.models, names, strict=True):
        # The only model is named in the title.
        prefix = f"{name}: " if len(names) > 1 else ""
        rows = _rows(report, prefix, kind, _measure, options.sizes, options.dimensions, 1, options.repeats)
        columns = ["points", "time", "µs a point", "slope from the row above", "memory above that before"]
        report.table(f"{prefix}One sample, default network, float32", columns, rows)
        if options.steps:
            prefix += "training, "
            rows = _rows(report, prefix, kind, _train, options.sizes, options.dimensions, options.batch, options.steps)
            heading = f"{prefix}mean of {options.steps} steps on {options.batch} samples, default network, float32"
            report.table(heading[0].upper() + heading[1:], columns, rows)


def _rows(
    report: Report,
    prefix: str,
    kind: str,
    measure: Any,
    sizes: Sequence[int],
    n_dims: int,
    n_samples: int,
    repeats: int,
) -> list[list[str]]:
    """Measure a model on each number of points, with the slope of the time from one to the next."""
    rows, previous = [], None
    for size in sizes:
        with ProcessPoolExecutor(1) as pool:
            numbers = pool.submit(measure, kind, (n_samples, size, n_dims), repeats).result()
        report.record(f"{prefix}{size} points", numbers)
        slope = ""
        if previous is not None:
            slope = f"{np.log(numbers['seconds'] / previous[1]) / np.log(size / previous[0]):.2f}"
        previous = size, numbers["seconds"]
        per_point = f"{1e6 * numbers['seconds'] / (n_samples * size):.2f}"
        rows.append([f"{size:,}", f"{numbers['seconds']:.2f} s", per_point, slope, f"{numbers['megabytes']:.0f} MB"])
    return rows


def _measure(kind: str, shape: tuple[int, int, int], repeats: int) -> dict[str, Any]:
    """Median time and peak additional memory of predicting samples; the work of one process."""
    generator = np.random.default_rng(0)
    model = _fit_small(kind, generator, shape[-1])
    samples = FieldSet(generator.random(shape).astype(np.float32))
    before, seconds = _peak(), []
    for _ in range(repeats):
        start = time.perf_counter()
        model.predict(samples)
        seconds.append(time.perf_counter() - start)
    return {"seconds": float(np.median(seconds)), "megabytes": _peak() - before, "threads": torch.get_num_threads()}


def _train(kind: str, shape: tuple[int, int, int], n_steps: int) -> dict[str, Any]:
    """Mean time of a step on one batch, and peak additional memory of the fit; the work of one process."""
    generator = np.random.default_rng(0)
    _fit_small(kind, generator, shape[-1])  # loads all that a fit needs, and compiles kernels where they are new
    samples = FieldSet(generator.random(shape).astype(np.float32))
    targets, model, before = _targets(samples), _make(kind, batch_size=len(samples), warm_start=True), _peak()
    model.fit(samples, targets)  # the first step allocates memory
    model.set_params(max_iter=n_steps).fit(samples, targets)
    added = _peak() - before
    return {"seconds": model.fit_seconds_ / n_steps, "megabytes": added, "threads": torch.get_num_threads()}


def _fit_small(kind: str, generator: np.random.Generator, n_dims: int) -> Any:
    """Return a model after an epoch on few points: untrained weights cost as much as trained ones."""
    small = FieldSet(generator.random((4, 50, n_dims)).astype(np.float32))
    return _make(kind).fit(small, _targets(small))


def _targets(samples: FieldSet) -> FloatArray:
    """Values at the points of samples."""
    coords: FloatArray = np.asarray(samples.coords)
    return np.sin(coords.sum(axis=-1, keepdims=True))


def _make(kind: str, **parameters: Any) -> Any:
    """Return a model for an epoch."""
    _, model, own = _MODELS[kind]
    return model(max_iter=1, random_state=0, **own, **parameters)


def _peak() -> float:
    """Peak memory of the process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT / 1e6
