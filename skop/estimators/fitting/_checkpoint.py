"""Checkpoints of a fit: the same call resumes a killed fit from its last checkpoint.

Below the folder of the user, each fit has a folder of its own. Its name is the class and a checksum of everything that
determines the result: parameters, code of the user's own parts, data, an earlier fit that it continues, and versions.
So a search or an ensemble can give the same folder to all of its fits. The folder holds

- ``fit.json``: a description of the fit, to be read by people;
- ``start.checkpoint``: parts that are fitted before the training, such as the scalers and the base model;
- ``epoch-000012.checkpoint``: the states of the training after its last epochs, two of them;
- ``model.skop``: the model, when the fit has ended; the checkpoints are then removed.

All but the first have the format of model files, with a checksum, and are replaced in one step. Each holds its own name
and that of its folder, so that a file that was copied from another folder is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import sklearn
import torch
from sklearn.utils.validation import has_fit_parameter

from skop._files import write_in_one_step
from skop._version import __version__
from skop.data import Predictions, TrainingData
from skop.estimators._field import fitted_attributes
from skop.estimators.files._persistence import (
    digest_of,
    load_estimator,
    read_state,
    save_estimator,
    write_state,
)
from skop.estimators.fitting._base_model import BaseModel
from skop.estimators.fitting._fingerprint import (
    described,
    described_earlier,
    described_plan,
    digest_of_data,
    sources_of,
)
from skop.exceptions import ModelFileError, warn
from skop.training import EarlierTraining, Group, History, Trainer, TrainingEnd, TrainingPlan

__all__ = [
    "FitCheckpoints",
    "checkpoint_folder",
    "computed_once",
    "passed_on",
    "require_seed",
]

#: Number of states of a training that are kept.
_KEPT = 2
#: Parameters on which the result of a fit does not depend.
_WITHOUT_EFFECT = ("n_jobs", "verbose")
#: Temporary files of `write_in_one_step`.
_TEMPORARY = (".*.checkpoint.*", ".fit.json.*", ".model.skop.*")
_START, _MODEL, _END = "start.checkpoint", "model.skop", "end.checkpoint"

T = TypeVar("T")


def checkpoint_folder(checkpoint_dir: Any) -> Path | None:
    """Check the argument `checkpoint_dir` of a fit.

    Parameters
    ----------
    checkpoint_dir : path-like or None
        Argument as it came.

    Returns
    -------
    Path or None
        Folder of the checkpoints.

    Raises
    ------
    ValueError
        If it is no path.
    """
    if checkpoint_dir is None:
        return None
    if not isinstance(checkpoint_dir, str | os.PathLike) or checkpoint_dir == "":
        raise ValueError(
            f"checkpoint_dir is {checkpoint_dir!r}; expected the path of a folder. scikit-learn indexes a fit "
            "argument of length n_samples like the samples, also a string: pass pathlib.Path(...)."
        )
    return Path(checkpoint_dir)


def require_seed(estimator: Any, *, or_none: bool = False) -> None:
    """Raise if an estimator that is fitted with checkpoints does not draw the same random numbers in each fit.

    Parameters
    ----------
    estimator : estimator
        Its `random_state` must be an integer.
    or_none : bool, default=False
        Whether it may also be None.

    Raises
    ------
    ValueError
        If it is something else.
    """
    seed = getattr(estimator, "random_state", None)
    if not isinstance(seed, Integral) and not (or_none and seed is None):
        raise ValueError(
            f"checkpoint_dir needs random_state to be an integer, so that a fit that is called again is the same fit; "
            f"{type(estimator).__name__} has random_state={seed!r}. Set random_state=0, or checkpoint_dir=None."
        )


def passed_on(checkpoint_dir: Any, estimator: Any) -> dict[str, Any]:
    """Return the keyword by which an estimator that is wrapped by another one gets the folder for its checkpoints.

    Parameters
    ----------
    checkpoint_dir : path-like or None
        Folder that the user has named.
    estimator : estimator
        Estimator that will be fitted.

    Returns
    -------
    dict
        Keyword of its `fit`; empty without a folder.

    Raises
    ------
    ValueError
        If `checkpoint_dir` is no path, or the `fit` of the estimator takes none.
    """
    if checkpoint_folder(checkpoint_dir) is None:
        return {}
    if not has_fit_parameter(estimator, "checkpoint_dir"):
        raise ValueError(
            f"checkpoint_dir is {str(checkpoint_dir)!r}, but the fit of {type(estimator).__name__} writes no "
            "checkpoints; operators of skop do. Set checkpoint_dir=None."
        )
    return {"checkpoint_dir": checkpoint_dir}


class FitCheckpoints:
    """Checkpoints of one fit of an operator.

    Parameters
    ----------
    folder : Path or None
        Folder of this fit; None keeps nothing.
    group : Group or None, default=None
        Processes that fit together, of which the first reads and writes; None is a single one.
    """

    #: Least number of seconds between two checkpoints, and largest part of the time that they may take.
    pause: ClassVar[float] = 30.0
    part: ClassVar[float] = 0.01

    def __init__(self, folder: Path | None = None, group: Group | None = None) -> None:
        self.folder, self.group = folder, group or Group()
        self.is_called_off = False
        #: What was fitted before the training, and whether it is not in the file yet.
        self.start: dict[str, Any] = {}
        self.is_new = False
        #: State of the training beside that of the trainer.
        self.further: Callable[[], dict[str, Any]] = dict
        self.last, self.cost = time.perf_counter(), 0.0
        self.is_warned = False
        self.previous: Any = None

    @property
    def is_on(self) -> bool:
        """Whether anything is kept."""
        return self.folder is not None

    @classmethod
    def of(
        cls,
        checkpoint_dir: Any,
        estimator: Any,
        data: TrainingData,
        weight: Any,
        groups: Any,
        plan: TrainingPlan,
        group: Group | None = None,
    ) -> Self:
        """Open the folder of a fit, or make it.

        Parameters
        ----------
        checkpoint_dir : path-like or None
            Folder that the user has named.
        estimator : OperatorRegressor
            Estimator that is being fitted.
        data : TrainingData
            Its samples, as they were read.
        weight : array-like or None
            Weights of the samples.
        groups : ndarray of shape (n,) or None
            Labels of groups of samples.
        plan : TrainingPlan
            Changes to the training loop.
        group : Group or None, default=None
            Processes that fit together.

        Returns
        -------
        FitCheckpoints
            Checkpoints of this fit.

        Raises
        ------
        ValueError
            If `checkpoint_dir` is no path, `random_state` is no integer, or a parameter is a function.
        OSError
            If the folder cannot be written.
        """
        group = group or Group()
        if checkpoint_folder(checkpoint_dir) is None:
            return cls(None, group)

        def opened() -> tuple[Path, dict[str, Any]]:
            """The folder, and what was fitted before the training."""
            params = estimator.get_params(deep=False)
            further = {"plan": described_plan(plan), "earlier": described_earlier(estimator), "groups": groups}
            folder = _open_folder(checkpoint_dir, estimator, params, data, weight, further)
            return folder, _read(folder / _START) or {}

        folder, start = group.once(opened)
        found = cls(folder, group)
        found.start = start
        return found

    # ------------------------------------------------------------------ before and after the training
    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return what an earlier run of this fit has computed, or compute it.

        Parameters
        ----------
        name : str
            Name under which it is kept.
        compute : callable
            Function without arguments.

        Returns
        -------
        object
            Its result.
        """
        if self.folder is None:
            return self.group.once(compute)
        if name not in self.start:
            self.start[name], self.is_new = self.group.once(compute), True
        value: T = self.start[name]
        return value

    def base_model(self, fit: Callable[[], tuple[BaseModel, Predictions]]) -> tuple[BaseModel, Predictions, float]:
        """Return a base model, its predictions for unseen samples, and the seconds that its fit has taken."""

        def parts() -> dict[str, Any]:
            """What is kept of it."""
            start = time.perf_counter()
            model, unseen = fit()
            # The caller changes attributes of the model.
            return {
                "model": replace(model),
                "unseen": vars(unseen),
                "seconds": time.perf_counter() - start,
            }

        held = self.once("base", parts)
        return replace(held["model"]), Predictions(**held["unseen"]), held["seconds"]

    def model(self, estimator: Any) -> dict[str, Any] | None:
        """Return the fitted attributes of a fit that has ended, None if it has not.

        Parameters
        ----------
        estimator : OperatorRegressor
            Estimator that is being fitted.

        Returns
        -------
        dict or None
            Attributes by name.
        """
        if self.folder is None:
            return None
        found, end = self.group.once(lambda: self._ended(estimator.warm_start))
        if found is None:
            return None
        fitted = fitted_attributes(found)
        return fitted if end is None else fitted | {"_earlier": _as_earlier(end)}

    def _ended(self, is_continued: bool) -> tuple[Any, Any]:
        """Read the model of a fit that has ended, and what a warm start continues; None if it has not."""
        assert self.folder is not None
        if not (self.folder / _MODEL).exists():
            return None, None
        end = _read(self.folder / _END) if is_continued else None
        if is_continued and end is None:
            return None, None
        return _read(self.folder / _MODEL, load_estimator), end

    def finish(self, estimator: Any, history: History) -> None:
        """Keep the model of a fit that has ended, and remove the checkpoints; those of an interrupted fit stay.

        Parameters
        ----------
        estimator : OperatorRegressor
            Fitted estimator.
        history : History
            Record of its training.
        """
        if self.folder is None or history.stopped == "interrupted" or not self.group.is_main:
            return
        earlier = vars(estimator).get("_earlier")
        if estimator.warm_start and not self._write(_END, None if earlier is None else asdict(earlier)):
            return
        if self._write(_MODEL, estimator, save_estimator):
            for path in [self.folder / _START, *self._states()]:
                path.unlink(missing_ok=True)

    # ------------------------------------------------------------------ the training
    def resume(self, trainer: Trainer) -> dict[str, Any]:
        """Load the newest state that is whole into a trainer.

        Parameters
        ----------
        trainer : Trainer
            Trainer that has not run.

        Returns
        -------
        dict
            What `further` had returned for this state; empty if the training starts anew.
        """
        if self.folder is None:
            return {}
        if self.is_new and self.group.is_main:
            self._write(_START, self.start)
        self.start = {}
        self.last = time.perf_counter()
        state = self.group.once(lambda: self._newest(trainer))
        if state is None:
            return {}
        trainer.load_state_dict(state["trainer"])
        further: dict[str, Any] = state["further"]
        return further

    def _newest(self, trainer: Trainer) -> dict[str, Any] | None:
        """Read the newest state that is whole and of a network with these weights; None if there is none."""
        for path in reversed(self._states()):
            state: dict[str, Any] | None = _read(path)
            if state is None:
                continue
            if _has_parts(state, {"trainer": trainer.state_dict(), "further": self.further()}):
                return state
            warn(f"the checkpoint {path} holds another network or other parts, and is not used.")
        return None

    def after_epoch(self, state: Callable[[], dict[str, Any]]) -> None:
        """Write a checkpoint, if it is time to.

        Parameters
        ----------
        state : callable
            Function that returns the state of the trainer.
        """
        if self.group.is_main and time.perf_counter() - self.last >= max(self.pause, self.cost / self.part):
            self.keep(state())

    def keep(self, state: dict[str, Any]) -> None:
        """Write a checkpoint.

        Parameters
        ----------
        state : dict
            State of the trainer.
        """
        if not self.group.is_main:
            return
        start = time.perf_counter()
        whole = {"trainer": state, "further": self.further()}
        if self._write(f"epoch-{len(state['history']['loss_curve']):06d}.checkpoint", whole):
            for path in self._states()[:-_KEPT]:
                path.unlink(missing_ok=True)
        self.last = time.perf_counter()
        self.cost = self.last - start

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Context in which SIGTERM ends the training with a checkpoint, and then the process.

        Python takes signals in its main thread only; fits in other threads are not told.
        """
        is_main = threading.current_thread() is threading.main_thread()
        self.previous = signal.getsignal(signal.SIGTERM) if self.folder is not None and is_main else None
        # Handlers that were not installed from Python cannot be put back, and ignored signals stay so.
        if self.previous in (None, signal.SIG_IGN):
            yield
            return
        signal.signal(signal.SIGTERM, self._call_off)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, self.previous)
            if self.is_called_off:
                signal.raise_signal(signal.SIGTERM)

    def _call_off(self, *arguments: Any) -> None:
        """Note that the process is to end."""
        self.is_called_off = True

    def leave(self) -> None:
        """Take the signal as it would have been taken without checkpoints; the training goes on if this returns."""
        self.is_called_off = False
        signal.signal(signal.SIGTERM, self.previous)
        signal.raise_signal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, self._call_off)

    # ------------------------------------------------------------------ files
    def _states(self) -> list[Path]:
        """Files of the states of the training, the oldest first."""
        found = [] if self.folder is None else self.folder.glob("epoch-*.checkpoint")
        return sorted(path for path in found if path.is_file())

    def _write(self, name: str, value: Any, write: Callable[[Any, Path, str], None] = write_state) -> bool:
        """Write a file; return whether that was possible, with a warning the first time that it was not."""
        assert self.folder is not None
        is_written = _write(self.folder / name, value, write, silent=self.is_warned)
        self.is_warned |= not is_written
        return is_written


def computed_once(
    checkpoint_dir: Any, estimator: Any, data: TrainingData, further: dict[str, Any], compute: Callable[[], T]
) -> T:
    """Return what an earlier call of the same fit has computed before its training, or compute and keep it."""
    if checkpoint_folder(checkpoint_dir) is None:
        return compute()
    params = {name: described(value) for name, value in estimator.get_params(deep=False).items()}
    path = _open_folder(checkpoint_dir, estimator, params, data, None, further) / _START
    found: T | None = _read(path)
    if found is None:
        found = compute()
        _write(path, found)
    return found


def _open_folder(
    checkpoint_dir: Any, estimator: Any, params: dict[str, Any], data: TrainingData, weight: Any, further: Any
) -> Path:
    """Make the folder of a fit, whose name has a checksum of all that its result depends on."""
    require_seed(estimator)
    kind = type(estimator)
    versions = {"skop": __version__, "torch": str(torch.__version__), "scikit-learn": sklearn.__version__}
    versions["numpy"] = np.__version__
    known = {name: value for name, value in params.items() if name not in _WITHOUT_EFFECT}
    columns = getattr(estimator, "feature_names_in_", None)
    known = {"parameters": known, "further": further, "versions": versions, "columns": columns}
    # Without code of the user, checkpoints are those of earlier versions.
    known |= {"sources": found} if (found := sources_of(estimator)) else {}
    try:
        key = digest_of({**known, "class": f"{kind.__module__}.{kind.__qualname__}"})
        key = hashlib.sha256(f"{key} {digest_of_data(data, weight)}".encode()).hexdigest()
    except ModelFileError as error:
        raise ValueError(f"checkpoint_dir needs parameters that can be written to a file, but {error}") from error
    folder = Path(checkpoint_dir) / f"{kind.__name__}-{key[:20]}"
    shown = {"estimator": repr(estimator), "samples": len(data.inputs), "versions": versions}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part in _TEMPORARY:
            # A kill in the course of writing leaves a file that was not renamed yet.
            for path in folder.glob(part):
                path.unlink(missing_ok=True)
        write_in_one_step(folder / "fit.json", json.dumps(shown, indent=2).encode())
    except OSError as error:
        raise OSError(
            error.errno,
            f"checkpoint_dir={str(checkpoint_dir)!r} cannot be written ({error.strerror}); pass a folder in which "
            "files can be made, or checkpoint_dir=None",
        ) from error
    return folder


def _has_parts(found: Any, wanted: Any) -> bool:
    """Whether nested dicts have all entries of others, with tensors of the same shapes."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and _has_parts(found[name], part) for name, part in wanted.items()
        )
    return not isinstance(wanted, torch.Tensor) or getattr(found, "shape", None) == wanted.shape


def _key(path: Path) -> str:
    """Text that binds a file to its folder, whose name says all that a fit depends on, and to its own name."""
    return f"{path.parent.name}/{path.name}"


def _read(path: Path, read: Callable[[Path, str], Any] = read_state) -> Any:
    """Read a file; None with a warning if it is damaged or was written elsewhere, and None if there is none."""
    try:
        return read(path, _key(path))
    except FileNotFoundError:
        return None
    except (ModelFileError, OSError) as error:
        warn(f"a checkpoint cannot be used, and an older one or none is taken instead: {error}")
        return None


def _write(
    path: Path, value: Any, write: Callable[[Any, Path, str], None] = write_state, *, silent: bool = False
) -> bool:
    """Write a file; return whether that was possible, with a warning if it was not."""
    try:
        write(value, path, _key(path))
    except (ModelFileError, OSError) as error:
        if not silent:
            warn(
                f"a checkpoint could not be written to {path.parent} ({error}); the fit goes on without it. If it is "
                "killed, it starts again from the last checkpoint that was written.",
            )
        return False
    return True


def _as_earlier(state: dict[str, Any]) -> EarlierTraining:
    """What a warm start continues, from what was written of it."""
    end = state["end"]
    return EarlierTraining(**state | {"end": None if end is None else TrainingEnd(**end)})
