"""What reviewers ask of a surrogate, on Darcy flow: the solver at equal error, spectra, integrals, derivatives, grids.

The samples for training and the truth come from one solver on a fine grid. That solver on coarser grids is a model
beside the others. All times are those of the processor, on one thread, the limits of the training time too.
"""

import argparse
import itertools
import math
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from scipy.interpolate import make_interp_spline
from threadpoolctl import threadpool_limits

from benchmarks._models import until_time
from benchmarks._report import Report, mean_and_spread
from skop._typing import FloatArray
from skop.datasets import make_darcy
from skop.datasets._darcy import solve_darcy
from skop.estimators import FNORegressor, LaMORegressor, PODRegressor
from skop.metrics import relative_l2_error, spectral_error

__all__ = ["add_command", "break_even", "compare", "on_grid", "solve_on"]

#: Intervals of the truth's grid in one of the models' grid.
_FINER = 8
#: Seed of the test samples; those of the training samples count from 0.
_TEST_SEED = 1000
#: Edges between the bands of the spectrum, in cycles per side.
_BANDS = (2, 4, 8, 12)
#: Samples that are predicted one by one for the time of a prediction.
_N_SINGLE = 20
#: Wave numbers of the logarithm of the smooth permeability, whose amplitudes are the parameters.
_WAVES = ((1, 0), (0, 1), (2, 0), (0, 2))
#: Steps of the central differences of the solver, which works to a residual of 1e-10, and of POD's predictions.
_STEP = 1e-4
#: Parameters of the tuning, their values, the defaults of both models among them, and the share of the samples that
#: chooses.
_TUNED, _RATES, _WIDTHS, _HELD_OUT = ("learning_rate_init", "width"), (0.004, 0.008), (32, 64), 0.2
#: Sections of the page, by the methods of `_Study`.
_SECTIONS = ("seeds", "solver", "spectra", "integrals", "derivatives", "resolutions", "tuning")


def _operator(kind: Any, **fixed: Any) -> Callable[..., Any]:
    """An operator whose training ends by time."""
    return lambda seconds, seed, **changed: kind(**fixed, **changed, **until_time(seconds), random_state=seed)


#: Unfitted estimators by name, for a limit of the time, a seed and other parameters; the networks without a base.
_MODELS: dict[str, Callable[..., Any]] = {
    "LaMO": _operator(LaMORegressor),
    "LaMO alone": _operator(LaMORegressor, base=None),
    "PODRegressor": lambda seconds, seed: PODRegressor(),
    "FNO": _operator(FNORegressor, base=None),
}
_ALONE = ("LaMO alone", "FNO")


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("trust", help=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of the training time of an operator")
    parser.add_argument("--seeds", type=int, default=5, help="draws of the training samples and starts of the fits")
    parser.add_argument("--alone-seeds", type=int, default=3, help="the same of networks without a base")
    parser.add_argument("--train", type=int, default=300, help="training samples")
    parser.add_argument("--test", type=int, default=100, help="test samples")
    parser.add_argument("--resolution", type=int, default=32, help="points per side of the models' grid")
    parser.add_argument(
        "--grids", type=int, nargs="+", default=[9, 17, 32, 63, 125], help="points per side of the solver's grids"
    )
    parser.add_argument("--sections", nargs="+", default=_SECTIONS, choices=_SECTIONS, help="parts of the page")
    parser.add_argument(
        "--output", help="Markdown file to write, with a JSON file beside it, from which a cut run continues"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure what is not measured yet, and report all.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    report = Report(
        "What reviewers ask of a surrogate", options.output, ["LaMORegressor", "PODRegressor", "FNORegressor"]
    )
    report.resume()
    torch.set_num_threads(1)
    # Limits of the training time are read by this clock as well.
    with patch.object(time, "perf_counter", time.process_time), threadpool_limits(1):
        study = _Study(options, report)
        for section in options.sections:
            getattr(study, section)()


# ------------------------------------------------------------------- measures
def on_grid(fields: FloatArray, n_points: int) -> FloatArray:
    """Carry fields to another grid of the unit square by cubic splines.

    Parameters
    ----------
    fields : ndarray of shape (n, m, m, c)
        Fields on m x m points, those on the border included.
    n_points : int
        Points per side of the other grid.

    Returns
    -------
    ndarray of shape (n, n_points, n_points, c)
        Fields at its points.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks._trust import on_grid
    >>> x = np.linspace(0, 1, 4)
    >>> bool(np.allclose(on_grid((x[:, None] * x**3)[None, ..., None], 3)[0, 1, :, 0], [0, 1 / 16, 1 / 2]))
    True
    """
    old, new = np.linspace(0, 1, fields.shape[1]), np.linspace(0, 1, n_points)
    for axis in (1, 2):
        fields = make_interp_spline(old, fields, k=3, axis=axis)(new)
    return fields


def _flux(permeability: FloatArray, pressure: FloatArray) -> FloatArray:
    """Flux through the side x = 0 of each sample, by one-sided differences of second order."""
    spacing = 1 / (pressure.shape[1] - 1)
    slope = (-3 * pressure[:, 0] + 4 * pressure[:, 1] - pressure[:, 2]) / (2 * spacing)
    return np.trapezoid((permeability[:, 0] * slope)[..., 0], dx=spacing, axis=1)


def _bands(n_points: int) -> list[int]:
    """Edges of the bands that a grid of some points per side resolves."""
    return [edge for edge in _BANDS if edge < n_points // 2]


def compare(permeability: FloatArray, truth: FloatArray, predicted: FloatArray) -> dict[str, Any]:
    """Return errors of predicted pressures: of the fields, by bands of the wavenumber, and of integrals.

    Parameters
    ----------
    permeability, truth, predicted : ndarray of shape (n, m, m, 1)
        Fields on the same grid.

    Returns
    -------
    dict
        ``error`` and ``worst``, mean and maximum of the relative L2 errors; ``bands``, root mean square of the error
        over that of the truth for each band of the wavenumber; ``mean``, ``flux`` and ``largest``, mean relative
        errors of the mean over the square, of the flux through the side x = 0 and of the largest value.
    """
    permeability, truth, predicted = (np.asarray(part, dtype=np.float64) for part in (permeability, truth, predicted))
    errors = relative_l2_error(truth, predicted, average="none")
    # The last points on the border are the first ones of the next period.
    period = (slice(None), slice(-1), slice(-1))
    bands = _bands(truth.shape[1])
    powers = [spectral_error(truth[period], other[period], bands=bands) for other in (predicted, np.zeros_like(truth))]
    quantities: dict[str, Callable[[FloatArray], FloatArray]] = {
        "mean": lambda field: field[period].mean(axis=(1, 2, 3)),
        "flux": lambda field: _flux(permeability, field),
        "largest": lambda field: field.max(axis=(1, 2, 3)),
    }
    return {
        "error": float(np.mean(errors)),
        "worst": float(np.max(errors)),
        "bands": (powers[0] / powers[1]).tolist(),
        **{name: float(np.mean(np.abs(of(predicted) / of(truth) - 1))) for name, of in quantities.items()},
    }


def break_even(invested: float, surrogate: float, solver: float) -> float:
    """Return the number of predictions from which on a surrogate has taken less time than a solver.

    Parameters
    ----------
    invested : float
        Time for the training samples and the training.
    surrogate, solver : float
        Time of one prediction, and of one solution.

    Returns
    -------
    float
        Number, infinite where a prediction takes as long as a solution or longer.

    Examples
    --------
    >>> from benchmarks._trust import break_even
    >>> break_even(90.0, 0.1, 1.0)
    100.0
    >>> break_even(90.0, 1.0, 0.5)
    inf
    """
    return invested / (solver - surrogate) if solver > surrogate else math.inf


def solve_on(permeability: FloatArray, sizes: tuple[int, ...]) -> tuple[list[FloatArray], float]:
    """Solve on the grid of a permeability, and carry the pressure to other grids by cubic splines.

    Parameters
    ----------
    permeability : ndarray of shape (n, m, m, 1)
        Permeability on the solver's grid.
    sizes : tuple of int
        Points per side of the other grids.

    Returns
    -------
    pressures : list of ndarray
        Pressures on each of the other grids.
    seconds : float
        Time of a solution, without what follows it.
    """
    fields = permeability[..., 0].astype(np.float64)
    start = time.perf_counter()
    solved = np.stack([solve_darcy(field) for field in fields])[..., np.newaxis]
    seconds = (time.perf_counter() - start) / len(fields)
    return [on_grid(solved, size) for size in sizes], seconds


# -------------------------------------------------------------------- sections
class _Study:
    """The sections of the page: each measures what the report does not have yet, and adds its table.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    report : Report
        Where numbers are kept.
    """

    def __init__(self, options: argparse.Namespace, report: Report) -> None:
        self.options, self.report = options, report
        self.size, self.finer = options.resolution, 2 * options.resolution - 1
        self.solver_size = _FINER * (options.resolution - 1) + 1
        self.case = f"{self.size} x {self.size}, {options.train} and {options.test} samples"

    def kept(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return numbers of the report, measured if it does not have them."""
        key = f"{self.case}, {name}"
        if key not in self.report.numbers:
            self.report.record(key, measure())
        found: dict[str, Any] = self.report.numbers[key]
        return found

    def train(self, seed: int) -> tuple[FloatArray, FloatArray]:
        """Training samples of a seed."""
        return _drawn(self.options.train, self.size, self.solver_size, seed)

    def test(self) -> tuple[FloatArray, FloatArray]:
        """Test samples at half the spacing; every second point is one of the models' grid."""
        return _drawn(self.options.test, self.finer, self.solver_size, _TEST_SEED)

    # ------------------------------------------------------------ seeds
    def fitted(self, name: str, seed: int, seconds: float, **changed: Any) -> dict[str, Any]:
        """Return what a model, fitted to the training samples of a seed, does on the test samples."""
        words = "".join(f", {key}={value}" for key, value in changed.items())
        limit = "" if name == "PODRegressor" else f", {seconds:g} s"
        return self.kept(f"{name}{words}{limit}, seed {seed}", lambda: self.measured(name, seed, seconds, **changed))

    def measured(self, name: str, seed: int, seconds: float, **changed: Any) -> dict[str, Any]:
        """Fit a model, and measure errors, times, and for an operator errors on the finer grid."""
        X_train, y_train = self.train(seed)
        X_fine, y_fine = self.test()
        X, y = X_fine[:, ::2, ::2], y_fine[:, ::2, ::2]
        model, fit_seconds = _fit(_MODELS[name](seconds, seed, **changed), X_train, y_train)
        predicted = model.predict(X)
        found = {"fit_seconds": fit_seconds, **compare(X, y, predicted), "epochs": getattr(model, "n_iter_", None)}
        _, seconds_all = _timed(lambda: model.predict(X))
        _, seconds_single = _timed(lambda: [model.predict(X[i : i + 1]) for i in range(min(_N_SINGLE, len(X)))])
        found |= {"predict_seconds": seconds_all / len(X), "single_seconds": seconds_single / min(_N_SINGLE, len(X))}
        if name != "PODRegressor":
            on_fine, seconds_fine = _timed(lambda: model.predict(X_fine))
            found |= {
                "finer_error": _error(y_fine, on_fine),
                "finer_interpolated": _error(y_fine, on_grid(predicted, self.finer)),
                "finer_seconds": seconds_fine / len(X),
            }
        return found

    def runs(self, name: str) -> list[dict[str, Any]]:
        """Return the numbers of a model for all of its seeds."""
        n_seeds = self.options.alone_seeds if name in _ALONE else self.options.seeds
        return [self.fitted(name, seed, self.options.seconds) for seed in range(n_seeds)]

    def seeds(self) -> None:
        """Errors over draws of the training samples and starts."""
        lines = []
        for name in _MODELS:
            runs = self.runs(name)
            lines.append(
                [
                    name,
                    mean_and_spread([run["error"] for run in runs]),
                    f"{max(run['worst'] for run in runs):.4f}",
                    str(len(runs)),
                    f"{_mean(runs, 'fit_seconds'):.1f}",
                    "" if runs[0]["epochs"] is None else f"{_mean(runs, 'epochs'):.0f}",
                ]
            )
        self.report.table(
            f"Seeds: permeability to pressure, {self.size} x {self.size}, {self.options.train} samples",
            ["model", "relative L2 error", "worst test sample", "seeds", "s to fit", "epochs"],
            lines,
            "Mean and standard deviation over new draws of the training samples and new starts; the "
            f"{self.options.test} test samples are the same. Truth: the solver on {self.solver_size} x "
            f"{self.solver_size} points, of which "
            f"the models see every {_FINER}th. Operators have {self.options.seconds:g} s.",
        )

    # ----------------------------------------------------------- solver
    def solved(self, size: int) -> dict[str, Any]:
        """Return what the solver on a coarser grid does on the test samples."""

        def measure() -> dict[str, Any]:
            """Solve, and compare on both grids of the test samples."""
            permeability, _ = make_darcy(self.options.test, resolution=size, random_state=_TEST_SEED)
            X_fine, y_fine = self.test()
            (pressure, on_fine), seconds = solve_on(permeability, (self.size, self.finer))
            found = compare(X_fine[:, ::2, ::2], y_fine[:, ::2, ::2], pressure)
            found |= {"finer_error": _error(y_fine, on_fine), "solve_seconds": seconds}
            return found

        return self.kept(f"solver {size}", measure)

    def truth(self) -> dict[str, Any]:
        """Return the time of a training sample, and the truth's difference from solutions at half its spacing."""

        def measure() -> dict[str, Any]:
            """Make some test samples on both grids."""
            n_samples = min(_N_SINGLE, self.options.test)
            options: Any = {"resolution": self.size, "random_state": _TEST_SEED}
            (_, y), seconds = _timed(lambda: make_darcy(n_samples, solver_resolution=self.solver_size, **options))
            _, finer = make_darcy(n_samples, solver_resolution=2 * self.solver_size - 1, **options)
            return {"sample_seconds": seconds / n_samples, "error": _error(finer, y)}

        return self.kept("truth", measure)

    def equal_size(self, error: float) -> int:
        """Return the coarsest of the solver's grids with an error at most as large; that of the truth if none is."""
        sizes = sorted(self.options.grids)
        return next((size for size in sizes if self.solved(size)["error"] <= error), self.solver_size)

    def solve_seconds(self, size: int) -> float:
        """Return the time of a solution; on the truth's grid, that of a training sample."""
        found = self.truth()["sample_seconds"] if size == self.solver_size else self.solved(size)["solve_seconds"]
        return float(found)

    def solver(self) -> None:
        """The solver's time by its error, and from how many predictions on a surrogate pays."""
        lines = []
        for size in sorted(self.options.grids):
            found = self.solved(size)
            lines.append([f"{size} x {size}", f"{found['error']:.4f}", f"{1e3 * found['solve_seconds']:.2f}"])
        truth, name = self.truth(), f"{self.solver_size} x {self.solver_size}, truth"
        lines.append([name, f"{truth['error']:.4f}", f"{1e3 * truth['sample_seconds']:.2f}"])
        self.report.table(
            "The solver's own time",
            ["grid of the solver", "relative L2 error", "ms a sample"],
            lines,
            f"The same solver on coarser grids, interpolated to {self.size} x {self.size} by cubic splines. It has the "
            "permeability at its own points, and solves one sample at a time to a residual of 1e-10. The error of the "
            "truth is its difference from solutions at half its spacing.",
        )
        lines, never = [], []
        for name in ("LaMO", "PODRegressor"):
            runs = self.runs(name)
            invested = self.options.train * self.truth()["sample_seconds"] + _mean(runs, "fit_seconds")
            equal = self.equal_size(_mean(runs, "error"))
            for size in dict.fromkeys([equal, self.solver_size]):
                line = [name, f"{_mean(runs, 'error'):.4f}", f"{invested:.0f}", f"{size} x {size}"]
                line.append(f"{1e3 * self.solve_seconds(size):.2f}")
                for way, key in (("one by one", "single_seconds"), ("in batches", "predict_seconds")):
                    number = break_even(invested, _mean(runs, key), self.solve_seconds(size))
                    line += [f"{1e3 * _mean(runs, key):.2f}", _count(number)]
                    if math.isinf(number):
                        never.append(f"{name} {way} against {size} x {size} never pays")
                lines.append(line)
        self.report.table(
            "From how many predictions on a surrogate pays",
            [
                "model",
                "its error",
                "s for samples and training",
                "solver on",
                "ms a solution",
                "ms a prediction, one by one",
                "pays from, one by one",
                "ms a prediction, in batches",
                "pays from, in batches",
            ],
            lines,
            "Against the coarsest grid of the solver above whose error is at most the surrogate's, and against the "
            "grid of the training samples. "
            + ("A prediction takes longer than a solution: " + "; ".join(never) if never else "It pays everywhere")
            + ".",
        )

    # ---------------------------------------------- spectra and integrals
    def compared(self) -> dict[str, list[dict[str, Any]]]:
        """Return the models, the solver at LaMO's error and on the models' grid, with their numbers for each seed."""
        equal = self.equal_size(_mean(self.runs("LaMO"), "error"))
        sizes = [size for size in dict.fromkeys([equal, self.size]) if size in self.options.grids]
        solvers = {f"solver on {size} x {size}": [self.solved(size)] for size in sizes}
        return {name: self.runs(name) for name in _MODELS} | solvers

    def spectra(self) -> None:
        """Errors by bands of the wavenumber."""
        edges = [0, *_bands(self.size)]
        bands = [f"{low} to {high}" for low, high in itertools.pairwise(edges)] + [f"{edges[-1]} and more"]
        lines = [
            [name, *(f"{value:.4f}" for value in np.mean([run["bands"] for run in runs], axis=0))]
            for name, runs in self.compared().items()
        ]
        self.report.table(
            "Spectra of the errors",
            ["cycles per side", *bands],
            lines,
            "Root mean square of the error over that of the truth, for the waves of a length of the wave vector (upper "
            "ends excluded): 1 is the error of a prediction that has none of them.",
        )

    def integrals(self) -> None:
        """Errors of integrals beside that of the field."""
        columns = ["error", "mean", "flux", "largest"]
        lines = [
            [name, *(f"{_mean(runs, column):.4f}" for column in columns)] for name, runs in self.compared().items()
        ]
        self.report.table(
            "Integrals",
            ["model", "field", "mean of u", "flux through x = 0", "largest u"],
            lines,
            "Mean relative errors. The flux takes one-sided differences of second order on the grid of the models, for "
            "the truth too.",
        )

    # ------------------------------------------------------ derivatives
    def derivatives(self) -> None:
        """Derivatives with respect to parameters of a smooth permeability."""
        names = {
            "LaMO": "LaMO, `gradient`",
            "LaMO alone": "LaMO alone, `gradient`",
            "PODRegressor": "PODRegressor, differences of predictions",
        }
        lines = []
        for name, words in names.items():
            limit = "" if name == "PODRegressor" else f", {self.options.seconds:g} s"
            found = self.kept(f"derivatives, {name}{limit}", partial(self.differentiated, name))
            lines.append(
                [
                    words,
                    *(f"{found[key]:.2e}" for key in ("error", "mean", "gradient")),
                    f"{found['cosine']:.6f}",
                    f"{found['least_cosine']:.6f}",
                    f"{1e3 * found['gradient_seconds']:.2f}",
                ]
            )
        lines.append(["solver, differences", *[""] * 5, f"{1e3 * found['solver_seconds']:.2f}"])
        self.report.table(
            "Derivatives",
            ["model", "field", "mean of u", "derivative", "mean cosine", "least cosine", "ms a derivative"],
            lines,
            "Derivative of the mean of u with respect to the four amplitudes of waves in the logarithm of the "
            f"permeability, drawn between -1 and 1, against central differences of the solver on {self.finer} x "
            f"{self.finer} points; models learn from a table of the amplitudes. Mean relative L2 errors.",
        )

    def differentiated(self, name: str) -> dict[str, Any]:
        """Fit a model to fields of a smooth permeability, and compare derivatives of the mean."""
        draws = np.random.default_rng(_TEST_SEED)
        X, X_test = (draws.uniform(-1, 1, (n, len(_WAVES))) for n in (self.options.train, self.options.test))
        y, y_test = self.smooth(X), self.smooth(X_test)
        model, _ = _fit(_MODELS[name](self.options.seconds, 0), X, y)
        predicted = np.asarray(model.predict(X_test), dtype=np.float64)
        true, solver_seconds = _timed(lambda: _differences(lambda rows: _means(self.smooth(rows)), X_test))
        if name == "PODRegressor":
            found, seconds = _timed(lambda: _differences(lambda rows: _means(model.predict(rows)), X_test))
        else:
            found, seconds = _timed(lambda: model.gradient(X_test, lambda field: field[..., 0].mean(dim=1)))
        cosines = (found * true).sum(axis=1) / np.linalg.norm(found, axis=1) / np.linalg.norm(true, axis=1)
        return {
            "error": _error(y_test, predicted),
            "mean": float(np.mean(np.abs(_means(predicted) / _means(y_test) - 1))),
            "gradient": _error(true[..., np.newaxis], found[..., np.newaxis]),
            "cosine": float(cosines.mean()),
            "least_cosine": float(cosines.min()),
            "gradient_seconds": seconds / len(X_test),
            "solver_seconds": solver_seconds / len(X_test),
        }

    def smooth(self, amplitudes: FloatArray) -> FloatArray:
        """Pressures for amplitudes (n, 4) of waves in the logarithm of the permeability, on the models' grid."""
        axis = np.linspace(0, 1, self.finer)
        waves = [np.outer(np.cos(np.pi * k * axis), np.cos(np.pi * m * axis)) for k, m in _WAVES]
        solved = [solve_darcy(np.exp(np.tensordot(row, waves, axes=1))) for row in amplitudes]
        return np.stack(solved)[:, ::2, ::2, np.newaxis]

    # ------------------------------------------------------ resolutions
    def resolutions(self) -> None:
        """Predictions at half the spacing, beside interpolation of what there is on the coarse grid."""
        lines = []
        for name in ("LaMO", "LaMO alone", "FNO"):
            runs = self.runs(name)
            errors = ("error", "finer_error", "finer_interpolated")
            lines.append([name, *(mean_and_spread([run[key] for run in runs]) for key in errors)])
            lines[-1].append(f"{1e3 * _mean(runs, 'finer_seconds'):.2f}")
        for size in sorted({self.size, self.finer} & set(self.options.grids)):
            found, is_coarse = self.solved(size), size == self.size
            error = f"{found['finer_error']:.4f}"
            lines.append(
                [
                    f"solver on {size} x {size}",
                    f"{found['error']:.4f}",
                    *(["", error] if is_coarse else [error, ""]),
                    f"{1e3 * found['solve_seconds']:.2f}",
                ]
            )
        self.report.table(
            f"Other resolutions: {self.finer} x {self.finer}",
            [
                "model",
                f"error at {self.size} x {self.size}",
                f"error at {self.finer} x {self.finer}",
                f"of cubic splines through its field at {self.size} x {self.size}",
                "ms a sample",
            ],
            lines,
            f"Models fitted at {self.size} x {self.size} see the permeability at {self.finer} x {self.finer} points, "
            "half the spacing; the bar beside is plain interpolation, which does not.",
        )

    # ------------------------------------------------------------ tuning
    def tuning(self) -> None:
        """Both LaMO and FNO with the best of the same settings."""
        lines, settings = [], list(itertools.product(_RATES, _WIDTHS))
        for name in ("LaMO", "FNO"):
            held_out = {setting: self.held_out(name, **dict(zip(_TUNED, setting, strict=True))) for setting in settings}
            best = min(held_out, key=lambda setting: held_out[setting])
            estimator, default = _MODELS[name](self.options.seconds, 0), self.runs(name)[0]
            is_default = best == tuple(getattr(estimator, key) for key in _TUNED)
            changed = {} if is_default else dict(zip(_TUNED, best, strict=True))
            tuned = self.fitted(name, 0, self.options.seconds, **changed)
            lines.append(
                [
                    name,
                    *(f"{error:.4f}" for error in held_out.values()),
                    "{:g}, {}".format(*best),
                    f"{tuned['error']:.4f}",
                    f"{default['error']:.4f}",
                ]
            )
        self.report.table(
            "Equal tuning",
            [
                "model",
                *("{:g}, {}".format(*setting) for setting in settings),
                "chosen",
                "its test error",
                "test error of the defaults",
            ],
            lines,
            f"Learning rate and width: errors on a held-out {_HELD_OUT:.0%} of the training samples after "
            f"{self.options.seconds / 2:g} s, and of the best setting, fitted to all for {self.options.seconds:g} s, "
            "on the test samples. One seed.",
        )

    def held_out(self, name: str, **changed: Any) -> float:
        """Return the error of a setting on training samples that it has not seen, after half of the time."""
        words = ", ".join(f"{key}={value}" for key, value in changed.items())

        def measure() -> dict[str, Any]:
            """Fit to the others."""
            X, y = self.train(0)
            n_fitted = len(X) - max(1, round(_HELD_OUT * len(X)))
            estimator = _MODELS[name](self.options.seconds / 2, 0, **changed)
            model, _ = _fit(estimator, X[:n_fitted], y[:n_fitted])
            return {"error": _error(y[n_fitted:], model.predict(X[n_fitted:]))}

        return float(self.kept(f"held out, {name}, {words}, {self.options.seconds / 2:g} s", measure)["error"])


# ---------------------------------------------------------------------- helpers
@lru_cache(maxsize=2)
def _drawn(n_samples: int, size: int, solver_size: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Permeabilities and pressures, kept since many fits share them."""
    X, y = make_darcy(n_samples, resolution=size, solver_resolution=solver_size, random_state=seed)
    return X, y


def _fit(estimator: Any, X: FloatArray, y: FloatArray) -> tuple[Any, float]:
    """Fit, and return the estimator with the time that it took."""
    fitted, seconds = _timed(lambda: estimator.fit(X, y))
    if getattr(fitted, "stopped_", None) == "interrupted":
        # A fit of its own keeps its best model; a comparison with one that was cut short says nothing.
        raise KeyboardInterrupt
    return fitted, seconds


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the time that it took."""
    start = time.perf_counter()
    found = call()
    return found, time.perf_counter() - start


def _error(truth: FloatArray, predicted: FloatArray) -> float:
    """Mean relative L2 error."""
    return float(relative_l2_error(truth, predicted))


def _mean(runs: list[dict[str, Any]], name: str) -> float:
    """Mean of a number over runs."""
    return float(np.mean([run[name] for run in runs]))


def _means(fields: FloatArray) -> FloatArray:
    """Mean of each field over its points, in double precision."""
    return np.asarray(fields, dtype=np.float64).mean(axis=(1, 2, 3))


def _differences(function: Callable[[FloatArray], FloatArray], rows: FloatArray) -> FloatArray:
    """Central differences of a function of rows (n, p) along each column."""
    steps = _STEP * np.eye(rows.shape[1])
    return np.stack([(function(rows + step) - function(rows - step)) / (2 * _STEP) for step in steps], axis=1)


def _count(number: float) -> str:
    """Write a number of predictions."""
    return "never" if math.isinf(number) else f"{math.ceil(number):,}"
