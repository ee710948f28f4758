"""The command ``skop demo``: generate data, train, compare, draw and save."""

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
from skop.estimators import LaMORegressor, PODRegressor, SymmetryOptions, TrainingOptions
from skop.inspection import FieldErrorDisplay, ModelResult, TrainingCurveDisplay, evaluate, write_report
from skop.metrics import relative_l2_error

__all__ = ["DemoOptions", "run_demo"]

_TEST_SAMPLES = 100
#: Factor by which the grid of the solver is finer than that of the data.
_REFINEMENT = 3
#: Number of POD components; more change the error of the linear surrogate by less than 1 % of its value.
_POD_MODES = 128


@dataclass(frozen=True)
class DemoOptions:
    """Options of ``skop demo``.

    Attributes
    ----------
    output : str
        Output folder, which is created if it does not exist.
    samples : int
        Number of training simulations; 100 more are for testing.
    resolution : int
        Number of points per side of the grid.
    epochs : int
        Number of epochs.
    max_time : float
        Time limit of the training in seconds.
    seed : int
        Seed of data and training.
    report : str or None
        File of a report on the comparison; None writes none.
    """

    output: str = "skop-demo"
    samples: int = 500
    resolution: int = 32
    epochs: int = 60
    max_time: float = 40.0
    seed: int = 0
    report: str | None = None


def run_demo(options: DemoOptions) -> dict[str, float]:
    """Generate data, train, compare, draw and save, with a report on standard output.

    Parameters
    ----------
    options : DemoOptions
        Options of the demo.

    Returns
    -------
    dict of str to float
        Relative L2 error of each model on the test samples.

    Raises
    ------
    OSError
        If the folder cannot be written to. This and the next error are raised before any computation.
    OptionalDependencyError
        If matplotlib is not installed.
    """
    folder = _open_folder(options.output)
    pyplot = import_optional("matplotlib.pyplot", purpose="draw the pictures of the demo")
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
    if options.report is not None:
        others = [
            ModelResult(name, evaluate(model, X[test], y[test]), seconds[name])
            for name, model in models.items()
            if model is not lamo
        ]
        write_report(
            options.report,
            lamo,
            X[test],
            y[test],
            train=(X[train], y[train]),
            comparison=others,
            model_path=folder / "model.skop",
            title="Darcy flow through porous squares",
        )
        _say(f"   {options.report}: report")
    _print_next_steps(folder, options)
    return errors


def _open_folder(name: str) -> Path:
    """Create the output folder, and check that files can be written to it."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(f"cannot write to {name!r}: {error.strerror}. Choose another folder with --output.") from error
    return folder


def _simulate(options: DemoOptions) -> tuple[FloatArray, FloatArray]:
    """Generate permeabilities and pressures of all samples."""
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
    """Points per side of the solver's grid, of which every third is kept."""
    return _REFINEMENT * (resolution - 1) + 1


def _fit_models(X: FloatArray, y: FloatArray, options: DemoOptions) -> tuple[dict[str, Any], dict[str, float]]:
    """Fit all models; return them with their training times."""
    models: dict[str, Any] = {
        "mean field": PODRegressor(regressor="mean"),
        "POD + ridge": PODRegressor(regressor="ridge", n_components=_POD_MODES),
        "POD + Gaussian process": PODRegressor(regressor="gaussian_process"),
        "LaMO": _lamo(options),
    }
    _say(f"2. Training on {len(X)} of them, at most {options.max_time:.0f} s")
    seconds = {}
    for name, model in models.items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            # The data have no noise, so the noise level of the Gaussian process ends at its lower bound; that is
            # correct.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        seconds[name] = time.perf_counter() - start
    return models, seconds


def _lamo(options: DemoOptions) -> LaMORegressor:
    """Return LaMO as it is by default, with the symmetries of the problem."""
    return LaMORegressor(
        # If the permeability is mirrored or transposed, so is the pressure.
        symmetries=SymmetryOptions(names=["flip_x", "transpose"], average_predictions=True),
        # Images of this many samples are too many for a base.
        base=None,
        max_iter=options.epochs,
        max_time=options.max_time,
        # A tenth is held out for the validation curve. The patience is so long that early stopping does not occur.
        early_stopping=True,
        training=TrainingOptions(n_iter_no_change=options.epochs),
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
    """Print which files were written, and code that loads and uses the model."""
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
    """Print and flush, so that the text appears before the progress bar on standard error."""
    print(text, file=sys.stdout, flush=True)
