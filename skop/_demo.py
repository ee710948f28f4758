"""What ``skop demo`` does: simulate, train, compare, draw, save."""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from skop._optional import import_optional
from skop._typing import FloatArray
from skop._version import __version__
from skop.datasets import make_darcy
from skop.estimators import LaMORegressor, PODRegressor, SymmetryOptions
from skop.inspection import FieldErrorDisplay, TrainingCurveDisplay
from skop.metrics import relative_l2_error

__all__ = ["DemoOptions", "run_demo"]

_TEST_SAMPLES = 100
#: The equation is solved on a grid this many times finer than the fields that are kept.
_REFINEMENT = 3
#: More modes than these change the error of the linear surrogate by less than 1 % of itself.
_POD_MODES = 128


@dataclass(frozen=True)
class DemoOptions:
    """Options of ``skop demo``.

    Attributes
    ----------
    output : str
        Folder to write to; made if it is not there.
    samples : int
        Simulations to train on; 100 more are for testing.
    resolution : int
        Points a side of the grid.
    epochs : int
        Passes over the training samples.
    max_time : float
        Seconds after which training ends at the latest.
    seed : int
        Seed of data and training.
    """

    output: str = "skop-demo"
    samples: int = 500
    resolution: int = 32
    epochs: int = 60
    max_time: float = 120.0
    seed: int = 0


def run_demo(options: DemoOptions) -> dict[str, float]:
    """Simulate, train, compare, draw and save, and say so on standard output.

    Parameters
    ----------
    options : DemoOptions
        Sizes, time and folder.

    Returns
    -------
    dict of str to float
        Relative L2 error of each model on the test samples.

    Raises
    ------
    OSError
        If the folder cannot be written to; this and the next are found before any work is done.
    OptionalDependencyError
        If matplotlib is not installed.
    """
    folder = _open_folder(options.output)
    pyplot = import_optional("matplotlib.pyplot", extra="plot", purpose="draw the pictures of the demo")
    pyplot.switch_backend("agg")  # The pictures go to files; there may be no screen.
    X, y = _simulate(options)
    train, test = slice(None, options.samples), slice(options.samples, None)
    models, seconds = _fit_models(X[train], y[train], options)
    errors = {name: float(relative_l2_error(y[test], model.predict(X[test]))) for name, model in models.items()}
    _print_table(errors, seconds)
    lamo = models["LaMO"]
    fields = FieldErrorDisplay.from_estimator(lamo, X[test], y[test], sample="median")
    fields.figure_.suptitle("Pressure predicted from permeability: the test sample with the median error")
    fields.figure_.savefig(folder / "fields.png", dpi=150, bbox_inches="tight")
    TrainingCurveDisplay.from_estimator(lamo).figure_.savefig(folder / "learning_curve.png", dpi=150)
    pyplot.close("all")
    lamo.save(folder / "model.skop")
    _print_next_steps(folder, options)
    return errors


def _open_folder(name: str) -> Path:
    """Make the output folder and see that files can be written there."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(f"cannot write to {name!r}: {error.strerror}. Choose another folder with --output.") from error
    return folder


def _simulate(options: DemoOptions) -> tuple[FloatArray, FloatArray]:
    """Permeabilities and pressures of all samples."""
    total, solver = options.samples + _TEST_SAMPLES, _solver_resolution(options.resolution)
    grids = f"{solver} x {solver} points, kept on {options.resolution} x {options.resolution}"
    _say(f"skop {__version__}: learn to predict the pressure of Darcy flow from the permeability")
    _say(f"1. Solving -div(a grad u) = 1 for {total} random porous squares ({grids})")
    start = time.perf_counter()
    X, y = make_darcy(
        total, resolution=options.resolution, solver_resolution=solver, random_state=options.seed, n_jobs=-1
    )
    _say(f"   {time.perf_counter() - start:.0f} s")
    return X, y


def _solver_resolution(resolution: int) -> int:
    """Points a side of the solver's grid, of which every third is kept."""
    return _REFINEMENT * (resolution - 1) + 1


def _fit_models(X: FloatArray, y: FloatArray, options: DemoOptions) -> tuple[dict[str, Any], dict[str, float]]:
    """Fit all models; returns them with their seconds."""
    models: dict[str, Any] = {
        "mean field": PODRegressor(regressor="mean"),
        "POD + ridge": PODRegressor(n_components=_POD_MODES),
        "POD + Gaussian process": PODRegressor(regressor="gaussian_process"),
        "LaMO": _lamo(options),
    }
    _say(f"2. Training on {len(X)} of them, at most {options.max_time:.0f} s")
    seconds = {}
    for name, model in models.items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            # Samples without noise drive the noise of the Gaussian process to its lower bound, as they should.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        seconds[name] = time.perf_counter() - start
    return models, seconds


def _lamo(options: DemoOptions) -> LaMORegressor:
    """Return LaMO in a size that a laptop trains within two minutes."""
    return LaMORegressor(
        width=32,
        depth=3,
        patch_size=4,
        batch_size=8,
        learning_rate_init=3e-3,
        # Mirroring or transposing a square with its permeability does the same to the pressure.
        symmetries=SymmetryOptions(names=["flip_x", "transpose"], average_predictions=True),
        max_iter=options.epochs,
        max_time=options.max_time,
        # A tenth is held out for the learning curve; the patience is too long to stop for it.
        early_stopping=True,
        n_iter_no_change=options.epochs,
        random_state=options.seed,
        verbose=1,
    )


def _print_table(errors: dict[str, float], seconds: dict[str, float]) -> None:
    """Print errors and times of the models."""
    _say(f"3. Error on {_TEST_SAMPLES} squares that no model has seen\n")
    _say(f"   {'model':<24}{'relative L2 error':>18}{'training':>12}")
    for name, error in errors.items():
        _say(f"   {name:<24}{f'{100 * error:.2f} %':>18}{f'{seconds[name]:.1f} s':>12}")


def _print_next_steps(folder: Path, options: DemoOptions) -> None:
    """Say what was written, and print the lines that load and use the model."""
    names = ("fields.png", "learning_curve.png", "model.skop")
    _say("\n4. Wrote " + ", ".join(str(folder / name) for name in names))
    _say("   Use the model in Python:\n")
    resolution, solver = options.resolution, _solver_resolution(options.resolution)
    lines = (
        "import skop",
        "from skop.datasets import make_darcy",
        "",
        f"model = skop.load({str(folder / 'model.skop')!r})",
        f"X, y = make_darcy(10, resolution={resolution}, solver_resolution={solver}, random_state={options.seed + 1})",
        "pressure = model.predict(X)",
        'print(f"relative L2 error {1 - model.score(X, y):.2%}")',
    )
    for line in lines:
        _say(f"       {line}".rstrip())


def _say(text: str) -> None:
    """Print at once, so that it stands before the progress line of standard error."""
    print(text, file=sys.stdout, flush=True)
