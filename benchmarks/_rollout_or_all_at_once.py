"""Ten frames of a diffusion-reaction and those that follow: all at once, a latent propagator, or a rollout.

MNO's published networks predict all frames at once, as channels, or carry the latent tokens of OFormer on from frame to
frame (`skop.parts.OFormer` with ``n_steps``); `skop.RolloutRegressor` learns one step and applies it again and again,
by the change since the last frame or, as published, by the next frame.
All have the same training time, and default parameters. Errors are taken over predicted frames only; the published
tables count the known frames as free of error, which makes an error smaller by the part of frames that is predicted,
and that figure has a column of its own. Data come from `skop.datasets.make_diffusion_reaction`.
"""

import argparse
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

from benchmarks._models import HOSTS, until_time
from benchmarks._report import Report, mean_and_spread
from skop._typing import FloatArray
from skop.datasets import make_diffusion_reaction
from skop.estimators import MNORegressor, PODRegressor, RolloutRegressor
from skop.exceptions import NonFinitePredictionError, TrainingDivergedError
from skop.metrics import pdebench_nrmse, pdebench_rmse, relative_l2_error

__all__ = ["add_command"]

#: Components of a frame: the activator and the inhibitor.
_N_COMPONENTS = 2
_ALL_AT_ONCE, _PROPAGATOR, _ROLLOUTS = "all at once", "latent propagator", ("rollout of changes", "rollout of frames")
Data = tuple[FloatArray, FloatArray]


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("rollout-or-all-at-once", help=__doc__.splitlines()[0])
    parser.add_argument("--train", type=int, default=100, help="training trajectories (paper: 900)")
    parser.add_argument("--test", type=int, default=50, help="test trajectories (paper: 100)")
    parser.add_argument("--data-seed", type=int, default=0, help="of the first frames")
    parser.add_argument("--resolution", type=int, default=32, help="cells per side that are learned on (paper: 128)")
    parser.add_argument("--solver-resolution", type=int, help="cells per side of the solver; as many by default")
    parser.add_argument("--known", type=int, default=10, help="frames that are given (paper: 10)")
    parser.add_argument("--frames", type=int, default=30, help="frames that are predicted (paper: 91)")
    parser.add_argument("--hosts", nargs="+", choices=HOSTS, default=HOSTS)
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of training")
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
    X, y = make_diffusion_reaction(
        options.train + options.test,
        resolution=options.resolution,
        solver_resolution=options.solver_resolution,
        n_input=options.known,
        n_output=options.frames,
        random_state=options.data_seed,
        n_jobs=-1,
    )
    train, test = (X[: options.train], y[: options.train]), (X[options.train :], y[options.train :])
    report = Report(
        "Frames of a diffusion-reaction: rollout or all at once",
        options.output,
        ["MNORegressor", "PODRegressor", "RolloutRegressor"],
    )
    rows = _simple_rows(report, train, test, options.known)
    forms = [(_ALL_AT_ONCE, host) for host in options.hosts]
    forms += [(_PROPAGATOR, "oformer")] * ("oformer" in options.hosts)
    forms += [(form, host) for form in _ROLLOUTS for host in options.hosts]
    tasks = [(form, host, seed) for seed in range(options.seeds) for form, host in forms]
    threads = max(1, torch.get_num_threads() // options.jobs)
    results = Parallel(n_jobs=options.jobs, return_as="generator")(
        delayed(_fit)(_model(form, host, seed, options), train, test, options.known, threads)
        for form, host, seed in tasks
    )
    fits: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (form, host, seed), numbers in zip(tasks, results, strict=True):
        report.record(f"{form}, {host}, {options.budget:g} s, seed {seed}", numbers)
        fits.setdefault((form, host), []).append(numbers)
    rows += [_row(*names, found) for names, found in fits.items()]
    first, middle, last = _shown_frames(options.frames)
    columns = ["form", "host", "relative L2", "nRMSE", f"nRMSE with {options.known} copied frames"]
    columns += [f"frame {1 + first}", f"frame {1 + middle}", f"frame {1 + last}", "epochs"]
    sizes = f"{options.train} training and {options.test} test trajectories of {X.shape[1]} x {X.shape[2]}"
    title = f"Errors of {options.frames} predicted frames after {options.budget:g} s of training; {sizes}"
    report.table(title, columns, rows)


def _simple_rows(report: Report, train: Data, test: Data, n_known: int) -> list[list[str]]:
    """Rows of the last known frame, of the mean of the training trajectories, and of POD with ridge regression."""
    n_frames = test[1].shape[-1] // _N_COMPONENTS
    found = {"the last frame again": np.tile(test[0][..., -_N_COMPONENTS:], n_frames)}
    for name, kind in (("the mean trajectory", "mean"), ("POD + ridge, all at once", "ridge")):
        found[name] = PODRegressor(regressor=kind, n_components=0.99).fit(*train).predict(test[0])
    rows = []
    for name, predicted in found.items():
        numbers = _errors(predicted, test[1], n_known)
        report.record(name, numbers)
        rows.append(_row(name, "", [numbers]))
    return rows


def _model(form: str, host: str, seed: int, options: argparse.Namespace) -> Any:
    """The model of a row: scans in a host with default parameters, in one of the forms in time."""
    model = MNORegressor(host=HOSTS[host](), base=None, random_state=seed, **until_time(options.budget))
    if form == _PROPAGATOR:
        model.set_params(host__n_steps=options.frames)
    if form not in _ROLLOUTS:
        return model
    return RolloutRegressor(model, window=options.known, increments=form == _ROLLOUTS[0])


def _fit(model: Any, train: Data, test: Data, n_known: int, threads: int) -> dict[str, Any]:
    """Fit one model and take its errors; the work of one process."""
    torch.set_num_threads(threads)
    try:
        model.fit(*train)
        found = _errors(model.predict(test[0]), test[1], n_known)
    except (TrainingDivergedError, NonFinitePredictionError) as error:
        return {"diverged": str(error)}
    network = getattr(model, "estimator_", model)
    return found | {"epochs": network.n_iter_, "seconds": network.fit_seconds_, "threads": threads}


def _errors(predicted: FloatArray, truth: FloatArray, n_known: int) -> dict[str, Any]:
    """Errors of all predicted frames, and the relative L2 error of each."""
    found, true = (part.reshape(*part.shape[:-1], -1, _N_COMPONENTS) for part in (predicted, truth))
    frames = range(true.shape[-2])
    return {
        "relative L2": float(relative_l2_error(truth, predicted)),
        "RMSE": pdebench_rmse(true, found, time_axis=-2),
        "nRMSE": pdebench_nrmse(true, found, time_axis=-2),
        "deflated nRMSE": pdebench_nrmse(true, found, time_axis=-2, n_copied_frames=n_known),
        "by frame": [float(relative_l2_error(true[..., frame, :], found[..., frame, :])) for frame in frames],
    }


def _row(form: str, host: str, fits: list[dict[str, Any]]) -> list[str]:
    """Errors with their spread over the fits that did not diverge, those of three frames, and mean number of epochs."""
    runs = [run for run in fits if "diverged" not in run]
    if len(runs) < len(fits):
        form += f" ({len(fits) - len(runs)} of {len(fits)} diverged)"
    if not runs:
        return [form, host, *[""] * 7]
    errors = [mean_and_spread([run[name] for run in runs]) for name in ("relative L2", "nRMSE", "deflated nRMSE")]
    by_frame = np.mean([run["by frame"] for run in runs], axis=0)
    shown = [f"{by_frame[frame]:.4f}" for frame in _shown_frames(len(by_frame))]
    epochs = f"{np.mean([run['epochs'] for run in runs]):.0f}" if "epochs" in runs[0] else ""
    return [form, host, *errors, *shown, epochs]


def _shown_frames(n_frames: int) -> tuple[int, int, int]:
    """First, middle and last frame."""
    return 0, n_frames // 2, n_frames - 1
