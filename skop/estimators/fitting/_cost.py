"""What a fit will cost, and what would make it cheaper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from skop.data import FieldSet
from skop.exceptions import FieldDataError, each_warning_once
from skop.modules import automatic_patch_size
from skop.training import EpochCost, in_words, naming_memory

__all__ = ["CostEstimate", "MeasuresCost", "cheaper_settings", "require_measurable"]

#: Do not suggest fewer points in a step for samples with fewer points than this.
_FEW_POINTS = 100
#: Mention a setting if it saves at least this part of the time.
_WORTHWHILE = 0.1
#: Time limit in seconds that is suggested for longer fits.
_LIMIT = 60.0


@dataclass(frozen=True)
class CostEstimate:
    """Result of `MeasuresCost.estimate_cost`; ``print`` shows it in words."""

    seconds_per_epoch: float
    n_epochs: int
    total_seconds: float
    memory: int
    savings: Mapping[str, float] = field(hash=False)

    @classmethod
    def of_epochs(
        cls,
        cost: EpochCost,
        max_iter: int,
        max_time: float | None,
        epochs: Mapping[str, float],
        *,
        before: float = 0.0,
    ) -> Self:
        """Estimate the cost of a fit from that of an epoch.

        Parameters
        ----------
        cost : EpochCost
            Measured cost of an epoch.
        max_iter : int
            Largest number of epochs.
        max_time : float or None
            Time limit in seconds.
        epochs : mapping of str to float
            Seconds of an epoch with other settings.
        before : float, default=0.0
            Seconds of the fit of a base model, which count in the time limit up to half of it.

        Returns
        -------
        CostEstimate
            The estimate.
        """
        given = float("inf") if max_time is None else max_time
        limit = max(given - before, given / 2)
        total = before + min(max_iter * cost.seconds, limit)
        n_epochs = max_iter if max_iter * cost.seconds <= limit else max(1, round(limit / cost.seconds))
        savings = {words: before + min(max_iter * seconds, limit) for words, seconds in epochs.items()}
        if total > _LIMIT:
            savings[f"max_time={_LIMIT:g}"] = max(_LIMIT, before + _LIMIT / 2)
        worthwhile = {words: seconds for words, seconds in savings.items() if seconds <= (1 - _WORTHWHILE) * total}
        return cls(cost.seconds, n_epochs, total, cost.memory, worthwhile)

    def times(self, n_rounds: int, n_together: int = 1) -> Self:
        """Cost of several such fits.

        Parameters
        ----------
        n_rounds : int
            Number of fits one after the other.
        n_together : int, default=1
            Number of fits at the same time, each as fast as a single one.

        Returns
        -------
        CostEstimate
            The epochs and the time of all rounds, and the memory of the fits at the same time.
        """
        savings = {words: n_rounds * seconds for words, seconds in self.savings.items()}
        return replace(
            self,
            n_epochs=n_rounds * self.n_epochs,
            total_seconds=n_rounds * self.total_seconds,
            memory=n_together * self.memory,
            savings=savings,
        )

    def __str__(self) -> str:
        words = f"{self.n_epochs} epoch{'s' * (self.n_epochs > 1)} of about {in_words(self.seconds_per_epoch)}, "
        words += f"{in_words(self.total_seconds)} in all; about {_in_bytes(self.memory)} of memory"
        for setting, seconds in self.savings.items():
            words += f"\n  {setting} would take {in_words(seconds)}"
            if setting.startswith("max_time="):
                n_epochs = max(1, round(self.n_epochs * seconds / self.total_seconds))
                words += f", in which there is time for {n_epochs} epoch{'s' * (n_epochs > 1)}"
        return words


class MeasuresCost:
    """Part of the estimators that can say what a fit will cost; a subclass defines `_estimate_cost`."""

    def estimate_cost(self, X: Any, y: Any = None, sample_weight: Any = None, *, params: Any = None) -> CostEstimate:
        """Estimate how long a fit will take and how much memory it will need, by a few steps of its training.

        The data are read and the network is built as in a fit, and some batches from the smallest to the largest are
        timed, after a step in which kernels are compiled. Where other parameters make a step cheaper, such as
        `training__subsample_points` or a larger `patches__size`, steps with these are timed too. The estimator stays as
        it is.

        Parameters
        ----------
        X, y, sample_weight, params : as in `fit`
            Training data.

        Returns
        -------
        CostEstimate
            Time, memory and possible savings, which ``print`` shows in words; with the attributes

            - ``seconds_per_epoch``, float: Duration of an epoch, validation included.
            - ``n_epochs``, int: Number of epochs, `max_iter` or those for which `max_time` leaves time; early stopping
              can end a fit before. Of an ensemble, those of all members together, where members that are fitted at the
              same time count once.
            - ``total_seconds``, float: Duration of all epochs and of the fit of a base model, at most `max_time` but
              for a base that takes more than half of it. Reading the data and compiling kernels come in addition.
            - ``memory``, int: Approximate peak memory of the training in bytes, without the process and X and y
              themselves: samples as tensors, the state of the training, and what the largest batch leaves for the
              backward pass.
            - ``savings``, dict of str to float: Seconds in total if one parameter were set otherwise, by words such as
              ``"patches__size=8"``; measured, and only those that save a tenth or more.

        Raises
        ------
        FieldDataError
            If X or y cannot be used, or the estimator wraps one that is none of skop's operators; a ValueError.
        MemoryError
            If a step runs out of memory; the message says what to set.

        Notes
        -----
        A fit reads the data and compiles kernels in addition. It can end early by `early_stopping`, and over a base
        where the network is of no use. Other programs on the machine slow both the estimate and the fit down. For an
        ensemble it is the time of all members, as many at once as `n_jobs` says if each then has cores of its own; one
        member is measured.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import LaMORegressor
        >>> X = np.random.default_rng(0).random((50, 3))
        >>> cost = LaMORegressor(width=16, depth=1, max_iter=50).estimate_cost(X, X[:, 0])
        >>> print(cost)
        50 epochs of about ..., ... in all; about ... MB of memory
        """
        self._validate_params()  # type: ignore[attr-defined]
        advice = "Set a smaller batch_size, width or depth, or training__subsample_points for point clouds"
        with each_warning_once(), naming_memory("a step of the training", advice):
            return self._estimate_cost(X, y, sample_weight, params=params)

    def _estimate_cost(self, X: Any, y: Any, sample_weight: Any, *, params: Any = None) -> CostEstimate:
        """Measure some steps of a fit with valid parameters."""
        raise NotImplementedError


def require_measurable(estimator: Any) -> None:
    """Raise an error if an estimator inside another one cannot say what its fit will cost.

    Parameters
    ----------
    estimator : estimator
        Estimator that is wrapped.

    Raises
    ------
    FieldDataError
        If it has no `estimate_cost`.
    """
    if not hasattr(estimator, "estimate_cost"):
        raise FieldDataError(
            f"estimate_cost measures the training of skop's operators, and estimator is a {type(estimator).__name__}; "
            "time a fit of it on a few samples."
        )


def cheaper_settings(estimator: Any, inputs: FieldSet) -> dict[str, Any]:
    """Return parameters with other values, each of which makes a training step cheaper on its own.

    Parameters
    ----------
    estimator : OperatorRegressor
        Estimator whose data are read and whose network is built.
    inputs : FieldSet
        Training samples as the network sees them.

    Returns
    -------
    dict of str to int
        A quarter of the points in a step, for networks on points; twice the size of the patches, for networks on
        patches of a grid.
    """
    grid_shape = estimator.spec_.network_spec.grid_shape
    if estimator._draws_points and estimator.geometry_ == "points":
        scaling, drawn = estimator._options("scaling"), estimator._options("training").subsample_points
        n_points = float(min(inputs.n_points.mean(), drawn or float("inf")))
        possible = estimator.spec_.target_points == "inputs" and "point" not in (scaling.inputs, scaling.targets)
        return {"training__subsample_points": _rounded(n_points / 4)} if possible and n_points >= _FEW_POINTS else {}
    if "patches" in estimator._usual_parts() and estimator.geometry_ == "grid" and grid_shape is not None:
        larger = 2 * automatic_patch_size(estimator._options("patches").size, grid_shape)
        return {"patches__size": larger} if 2 * larger <= min(grid_shape) else {}
    return {}


def _rounded(number: float) -> int:
    """Round to two digits."""
    return int(float(f"{number:.2g}"))


def _in_bytes(count: int) -> str:
    """Write a number of bytes in megabytes or gigabytes."""
    if count >= 1e9:
        return f"{count / 1e9:.2g} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e7 else f"{max(count / 1e6, 0.1):.1f} MB"
