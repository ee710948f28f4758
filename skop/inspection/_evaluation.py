"""Errors of an estimator by sample and by channel, with the fields that they come from.

Notation: n samples, P points of a sample, c channels or scalars.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data import FieldSet, TrainingData, read
from skop.inspection._analysis import named
from skop.metrics import channel_sizes, relative_l2_error
from skop.surrogate._novelty import count_seen

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True)
class Evaluation:
    """Result of `evaluate`: predictions of samples beside their truth, and the errors."""

    names: tuple[str, ...]
    channels: tuple[str, ...]
    errors: FloatArray
    channel_errors: FloatArray
    truth: list[FloatArray]
    predicted: list[FloatArray]
    points: FieldSet | None
    seconds: float
    mean_field_error: float | None = None
    n_seen: int | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def ranking(self) -> IntArray:
        """Indices of the samples, the worst first."""
        return np.argsort(-self.errors, kind="stable")

    @property
    def mean_error(self) -> float:
        """Mean error over the samples; for scalars the norms run over all samples, as in `score`."""
        return _mean(self.errors, "scalar" if self.points is None else "field")

    def to_dict(self) -> dict[str, Any]:
        """Return the errors as JSON types.

        Returns
        -------
        dict
            Mean error, that of the mean field, errors by channel, and errors by sample, the worst first; and the number
            of samples that were in the fit.
        """
        by_channel = np.sqrt(np.mean(np.square(self.channel_errors), axis=0))
        if self.points is not None:
            by_channel = self.channel_errors.mean(axis=0)
        return {
            "error": self.mean_error,
            "mean_field_error": self.mean_field_error,
            "samples_of_the_fit": self.n_seen,
            "channels": {name: float(error) for name, error in zip(self.channels, by_channel, strict=True)},
            "samples": {self.names[row]: float(self.errors[row]) for row in self.ranking},
            "seconds": self.seconds,
        }


def evaluate(estimator: Any, X: Any, y: Any = None, *, names: Sequence[str] | None = None) -> Evaluation:
    """Predict samples and compare with the truth.

    Parameters
    ----------
    estimator : estimator
        Fitted estimator; of skop, or a Pipeline or search around one.
    X, y : as in `fit`
        Inputs and true targets.
    names : sequence of str or None, default=None
        Names of the samples; None numbers them.

    Returns
    -------
    Evaluation
        Predictions and errors; ``to_dict()`` returns the errors as JSON types. It has the attributes

        - ``names``, tuple of str: Name of each sample, such as its file.
        - ``channels``, tuple of str: Names of the channels, or of the scalars.
        - ``errors``, ndarray of shape (n,): Relative L2 error of each sample, with equal weight of the channels. For
          scalars, the error is relative to the root mean square over all samples.
        - ``channel_errors``, ndarray of shape (n, c): The same for each channel.
        - ``truth``, ``predicted``, list of ndarray of shape (P, c): Fields of each sample; for scalars ``P = 1``.
        - ``points``, FieldSet or None: Points of the fields, with cells if all samples share them; None for scalars.
        - ``seconds``, float: Duration of the prediction of all samples.
        - ``mean_field_error``, float or None: Error of the mean of the true fields or scalars of these samples, in the
          unit of `mean_error`, which a model must undercut to be of use: a field with a large mean has a small relative
          error whatever predicts it. None for fewer than three samples.
        - ``n_seen``, int or None: Number of samples whose inputs are among those of the fit; None where the model does
          not know these. Of fits on more than some thousand samples, every k-th one is known.
        - ``mean_error``, float: Mean error over the samples; for scalars the norms run over all samples, as in `score`.
        - ``ranking``, ndarray of shape (n,): Indices of the samples, the worst first.

    Raises
    ------
    FieldDataError
        If X or y do not fit the estimator, or the number of names is not that of the samples.
    """
    is_own = hasattr(estimator, "spec_") and hasattr(estimator, "_mesh_options")
    data, predicted, seconds = _predicted_by_own(estimator, X, y) if is_own else _predicted_by_any(estimator, X, y)
    targets, form = data.targets, data.spec.target_form
    labels = named(names, len(targets))
    fields, truth = targets.field, _listed(targets.field, targets.scalars)
    kind = "scalar" if fields is None else "field"
    if fields is not None:
        channels = form.channel_names or fields.channel_names or named(None, fields.n_channels, "channel")
    else:
        channels = form.scalar_names or named(None, targets.n_scalars, "scalar")
    channel_errors = np.stack([_errors_of(truth, predicted, [c], kind) for c in range(len(channels))], axis=1)
    # A channel of zeros has no relative error, and no part in the mean.
    errors, sizes = channel_errors[:, 0], np.ones(len(channels))
    # Frames in time of one field share its unit, as in the score of the estimator.
    n_components = getattr(estimator, "_n_components", None) if is_own else None
    if len(channels) > 1:
        whole = truth if kind == "field" else np.concatenate(truth)
        sizes = channel_sizes(whole, kind=kind, n_components=n_components)  # type: ignore[arg-type]
        errors = _errors_of([t / sizes for t in truth], [p / sizes for p in predicted], slice(None), kind)
    mean = None
    if len(truth) > 2:
        means = [held / sizes for held in _means_of(truth, fields)]
        mean = _mean(_errors_of([t / sizes for t in truth], means, slice(None), kind), kind)
    n_seen = count_seen(estimator, data.inputs) if is_own else None
    return Evaluation(labels, tuple(channels), errors, channel_errors, truth, predicted, fields, seconds, mean, n_seen)


def _mean(errors: FloatArray, kind: str) -> float:
    """Error of all samples by those of each."""
    return float(np.mean(errors)) if kind == "field" else float(np.sqrt(np.mean(np.square(errors))))


def _means_of(truth: list[FloatArray], fields: FieldSet | None) -> list[FloatArray]:
    """Mean field of samples on the same points, or mean of each channel over all points, for each sample."""
    if fields is None or fields.shared_coords:
        return [np.mean(truth, axis=0)] * len(truth)
    mean = np.concatenate(truth).mean(axis=0)
    return [np.broadcast_to(mean, item.shape) for item in truth]


def _errors_of(truth: Sequence[Any], predicted: Sequence[Any], channels: Any, kind: str) -> FloatArray:
    """Relative L2 error of each sample for some channels; zero where the channel is zero in all samples."""
    parts = [[np.asarray(item, dtype=float)[..., channels] for item in samples] for samples in (truth, predicted)]
    if not any(item.any() for item in parts[0]):
        return np.zeros(len(truth))
    if kind == "field":
        return np.asarray(relative_l2_error(parts[0], parts[1], average="none", kind="field"))
    true, found = (np.stack(part)[:, 0] for part in parts)
    return np.linalg.norm(found - true, axis=1) / np.sqrt(np.mean(np.sum(true**2, axis=1)))


def _predicted_by_own(estimator: Any, X: Any, y: Any) -> tuple[TrainingData, list[FloatArray], float]:
    """Truth and prediction of an estimator of skop, which takes all forms of X that it was fitted on."""
    inputs, targets = estimator._read_scored(X, y)
    start = time.perf_counter()
    found, points = estimator._predict_scored(inputs, targets)
    seconds = time.perf_counter() - start
    field = None if found.fields is None else points.with_values(found.fields)
    return TrainingData(inputs, targets, estimator.spec_), _listed(field, found.scalars), seconds


def _predicted_by_any(estimator: Any, X: Any, y: Any) -> tuple[TrainingData, list[FloatArray], float]:
    """Truth and prediction of an estimator that is known by `predict` alone."""
    data = read(X, y)
    start = time.perf_counter()
    found = estimator.predict(X)
    seconds = time.perf_counter() - start
    predicted = read(X, found).targets
    return data, _listed(predicted.field, predicted.scalars), seconds


def _listed(field: FieldSet | None, scalars: Any) -> list[FloatArray]:
    """Fields of each sample, (P, c); scalars as one point."""
    return list(np.asarray(scalars, dtype=float)[:, None]) if field is None else field.to_list()
