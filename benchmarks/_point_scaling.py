"""Time and memory of a prediction on 1,000 to 1,000,000 points, and on demand of a training step.

Every size is predicted in a separate process, and trained on in another. Memory is the increase of the peak memory of
the process by the prediction, or by the fit. At its end a fit passes its samples through the network with all of their
points, for novelty; this takes the time and memory of a prediction, and is in the memory, not in the time of a step.
"""

import argparse
import resource
import sys
import time
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from joblib.externals.loky import ProcessPoolExecutor

from benchmarks._report import Report
from skop._typing import FloatArray
from skop.data import FieldSet
from skop.estimators import AMORegressor, LaMORegressor
from skop.parts import LatentAttention
from skop.training import TrainingOptions

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
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--dimensions", type=int, default=3, help="space dimensions")
    parser.add_argument("--repeats", type=int, default=3, help="predictions, of which the median counts")
    parser.add_argument("--steps", type=int, default=0, help="training steps, of which the mean counts; 0 omits them")
    parser.add_argument("--batch", type=int, default=4, help="samples of a training step")
    parser.add_argument(
        "--draw", type=int, nargs="+", default=[0], help="points of a sample that a step draws; 0 takes all"
    )
    parser.add_argument(
        "--gigabytes", type=float, default=8.0, help="memory; a size that by the smaller one needs more is left out"
    )
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="measure time of the processor, on a machine that has other work; set OMP_NUM_THREADS=1",
    )
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
        columns = ["points", "time", "µs a point", "slope from the row above", "memory above that before"]
        rows = _rows(report, prefix, kind, options, None)
        report.table(f"{prefix}One sample, default network, float32", columns, rows)
        for drawn in options.draw if options.steps else ():
            what = f"training on {drawn} drawn points, " if drawn else "training, "
            rows = _rows(report, prefix + what, kind, options, drawn)
            heading = (
                f"{prefix}{what}mean of {options.steps} steps on {options.batch} samples, default network, float32"
            )
            report.table(heading[0].upper() + heading[1:], columns, rows)


def _rows(report: Report, prefix: str, kind: str, options: argparse.Namespace, drawn: int | None) -> list[list[str]]:
    """Measure a model on each number of points, with the slope of the time from one to the next.

    Without a number of drawn points, predictions are measured.
    """
    rows, previous = [], None
    n_samples = 1 if drawn is None else options.batch
    for size in options.sizes:
        if previous is not None and previous[2] * size / previous[0] > 1e3 * options.gigabytes and not drawn:
            rows.append([f"{size:,}", "too much memory", "", "", ""])
            break
        with ProcessPoolExecutor(1) as pool:
            numbers = pool.submit(_measured, kind, size, options, drawn).result()
        report.record(f"{prefix}{size} points", numbers)
        slope = ""
        if previous is not None:
            slope = f"{np.log(numbers['seconds'] / previous[1]) / np.log(size / previous[0]):.2f}"
        previous = size, numbers["seconds"], numbers["megabytes"]
        per_point = f"{1e6 * numbers['seconds'] / (n_samples * size):.2f}"
        rows.append([f"{size:,}", f"{numbers['seconds']:.2f} s", per_point, slope, f"{numbers['megabytes']:.0f} MB"])
    return rows


def _measured(kind: str, size: int, options: argparse.Namespace, drawn: int | None) -> dict[str, Any]:
    """Time and peak additional memory of a prediction, or of a fit; the work of one process."""
    generator, clock = np.random.default_rng(0), time.process_time if options.processor_time else time.perf_counter
    with patch.object(time, "perf_counter", clock):
        # It loads all that a fit needs, and compiles kernels where they are new.
        model = _fit_small(kind, generator, options.dimensions)
        n_samples = 1 if drawn is None else options.batch
        samples = FieldSet(generator.random((n_samples, size, options.dimensions)).astype(np.float32))
        if drawn is None:
            seconds, added = _predicted(model, samples, options.repeats)
        else:
            parameters = {"training": TrainingOptions(subsample_points=drawn)} if drawn else {}
            seconds, added = _trained(_make(kind, **parameters), samples, options.steps)
    return {"seconds": seconds, "megabytes": added, "threads": torch.get_num_threads()}


def _predicted(model: Any, samples: FieldSet, repeats: int) -> tuple[float, float]:
    """Median time and peak additional memory of predicting samples."""
    before, seconds = _peak(), []
    for _ in range(repeats):
        start = time.perf_counter()
        model.predict(samples)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), _peak() - before


def _trained(model: Any, samples: FieldSet, n_steps: int) -> tuple[float, float]:
    """Mean time of a step on one batch, and peak additional memory of the fit."""
    targets, before = _targets(samples), _peak()
    model.set_params(batch_size=len(samples), warm_start=True).fit(samples, targets)  # the first step allocates memory
    model.set_params(max_iter=n_steps).fit(samples, targets)
    return model.fit_seconds_ / n_steps, _peak() - before


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
