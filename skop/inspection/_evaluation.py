"""Errors of an estimator by sample and by channel, with the fields that they come from.

Notation: n samples, P points of a sample, c channels and scalars.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from skop._sklearn_compat import final_regressor
from skop._typing import FloatArray, IntArray
from skop.data import FieldSet, Predictions, TrainingData, read
from skop.estimators._wrapper import frame_size
from skop.exceptions import FieldDataError, each_warning_once
from skop.inspection._analysis import named
from skop.metrics import channel_sizes, relative_l2_error
from skop.surrogate._novelty import count_seen

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True, repr=False)
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
    mean_error: float
    mean_field_error: float | None = None
    n_seen: int | None = None
    n_scalars: int = 0
    n_components: int | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        seen = f", {self.n_seen} of the fit" if self.n_seen else ""
        mean = "" if self.mean_field_error is None else f", of their mean field {self.mean_field_error:.4g}"
        return f"<Evaluation of {len(self)} samples{seen}: relative L2 error {self.mean_error:.4g}{mean}>"

    @property
    def ranking(self) -> IntArray:
        """Indices of the samples, the worst first."""
        return np.argsort(-self.errors, kind="stable")

    def to_dict(self) -> dict[str, Any]:
        """Return the errors as JSON types.

        Returns
        -------
        dict
            Mean error, that of the mean field, errors by channel, and errors by sample, the worst first; and the number
            of samples that were in the fit.
        """
        n_fields = len(self.channels) - self.n_scalars
        by_channel = np.sqrt(np.mean(np.square(self.channel_errors), axis=0))
        by_channel[:n_fields] = self.channel_errors[:, :n_fields].mean(axis=0)
        return {
            "error": _number(self.mean_error),
            "mean_field_error": self.mean_field_error,
            "samples_of_the_fit": self.n_seen,
            "channels": {name: _number(error) for name, error in zip(self.channels, by_channel, strict=True)},
            "samples": {self.names[row]: _number(self.errors[row]) for row in self.ranking},
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
        - ``channels``, tuple of str: Names of the channels, followed by those of the scalars.
        - ``errors``, ndarray of shape (n,): Relative L2 error of each sample, with equal weight of the channels. For
          scalars, the error is relative to the root mean square over all samples. For a field and scalars it is the
          mean of both.
        - ``channel_errors``, ndarray of shape (n, c): The same for each channel. Of a channel that is zero in all
          samples NaN, and None in ``to_dict()``, unless it is predicted as zero. Frames of zeros are compared with the
          root mean square of all frames.
        - ``truth``, ``predicted``, list of ndarray of shape (P, c): Fields of each sample; for scalars alone ``P = 1``.
        - ``points``, FieldSet or None: Points of the fields, with cells if all samples share them; None for scalars.
        - ``seconds``, float: Duration of the prediction of all samples.
        - ``mean_field_error``, float or None: Error of the mean of the true fields or scalars of these samples, in the
          unit of `mean_error`, which a model must undercut to be of use: a field with a large mean has a small relative
          error whatever predicts it. None for fewer than three samples.
        - ``n_seen``, int or None: Number of samples whose inputs are among those of the fit; None where the model does
          not know these. Of fits on more than some thousand samples, every k-th one is known.
        - ``n_scalars``, int: Number of the last channels that are scalars.
        - ``n_components``, int or None: Number of channels of a frame, where channels are frames in time, else None.
        - ``mean_error``, float: Mean error over the samples; for scalars the norms run over all samples, as in `score`.
        - ``ranking``, ndarray of shape (n,): Indices of the samples, the worst first.

    Raises
    ------
    FieldDataError
        If X or y do not fit the estimator, or the number of names is not that of the samples.
    """
    regressor, _ = final_regressor(estimator)
    is_own, start = hasattr(regressor, "spec_") and hasattr(regressor, "_mesh_options"), time.perf_counter()
    own_X = final_regressor(estimator, X)[1] if is_own else X
    transformed = time.perf_counter()
    data, found, seconds = _predicted_by_own(regressor, own_X, y) if is_own else _predicted_by_any(estimator, X, y)
    targets, form, fields = data.targets, data.spec.target_form, data.targets.field
    size = frame_size(regressor) if is_own else None
    channels: list[str] = []
    parts: list[_Part] = []
    if fields is not None:
        channels += form.channel_names or fields.channel_names or named(None, fields.n_channels, "channel")
        parts.append(_Part.of("field", fields.to_list(), fields.with_values(found.fields).to_list(), fields, size))
    if targets.scalars is not None:
        channels += form.scalar_names or named(None, targets.n_scalars, "scalar")
        truth, predicted = (
            list(np.asarray(rows, dtype=float)[:, np.newaxis]) for rows in (targets.scalars, found.scalars)
        )
        parts.append(_Part.of("scalar", truth, predicted, None, size))
    means = [part.mean_field_error for part in parts if part.mean_field_error is not None]
    return Evaluation(
        named(names, len(targets)),
        tuple(channels),
        np.mean(_known([part.errors for part in parts]), axis=0),
        np.concatenate([part.channel_errors for part in parts], axis=1),
        parts[0].truth,
        parts[0].predicted,
        fields,
        seconds + transformed - start,
        float(np.mean(_known([part.mean_error for part in parts]))),
        float(np.mean(means)) if means else None,
        count_seen(regressor, data.inputs) if is_own else None,
        targets.n_scalars,
        size,
    )


@dataclass(frozen=True)
class _Part:
    """Errors of the fields, or of the scalars."""

    truth: list[FloatArray]
    predicted: list[FloatArray]
    channel_errors: FloatArray
    errors: FloatArray
    mean_error: float
    mean_field_error: float | None

    @classmethod
    def of(
        cls,
        kind: Literal["field", "scalar"],
        truth: list[FloatArray],
        predicted: list[FloatArray],
        fields: FieldSet | None,
        size: int | None,
    ) -> _Part:
        """Compare samples (P, c), of which channels may be frames in time of `size` channels that share their units."""
        count = truth[0].shape[-1]
        whole: Any = truth if kind == "field" else np.concatenate(truth)
        sizes = channel_sizes(whole, kind=kind, n_components=size) if count > 1 else np.ones(count)
        # Frames share their unit, so that the others tell how large an error is in frames of zeros.
        units = np.full(count, np.nan) if size is None else sizes
        parts = [_errors_of(truth, predicted, [c], kind, units[c]) for c in range(count)]
        channel_errors = np.stack(parts, axis=1)
        errors = channel_errors[:, 0]
        if count > 1:
            errors = _errors_of([t / sizes for t in truth], [p / sizes for p in predicted], slice(None), kind)
        mean = None
        if len(truth) > 2:
            means = [held / sizes for held in _means_of(truth, fields)]
            mean = _mean(_errors_of([t / sizes for t in truth], means, slice(None), kind), kind)
        return cls(truth, predicted, channel_errors, errors, _mean(errors, kind), mean)


def _known(errors: Sequence[Any]) -> Sequence[Any]:
    """Errors of fields and of scalars without those that are all zero in the truth, unless nothing else is there."""
    return [part for part in errors if not np.isnan(part).all()] or errors


def _number(error: float) -> float | None:
    """An error as JSON has it: without NaN."""
    return None if np.isnan(error) else float(error)


def in_frames(evaluation: Evaluation, size: int) -> Evaluation:
    """The same errors, where channels are frames in time of so many channels, as another model has them."""
    kind: Literal["field", "scalar"] = "scalar" if evaluation.points is None else "field"
    part = _Part.of(kind, evaluation.truth, evaluation.predicted, evaluation.points, size)
    return replace(evaluation, errors=part.errors, mean_error=part.mean_error, mean_field_error=part.mean_field_error)


def _mean(errors: FloatArray, kind: str) -> float:
    """Error of all samples by those of each."""
    return float(np.mean(errors)) if kind == "field" else float(np.sqrt(np.mean(np.square(errors))))


def _means_of(truth: list[FloatArray], fields: FieldSet | None) -> list[FloatArray]:
    """Mean field of samples on the same points, or mean of each channel over all points, for each sample."""
    if fields is None or fields.shared_coords:
        return [np.mean(truth, axis=0)] * len(truth)
    mean = np.concatenate(truth).mean(axis=0)
    return [np.broadcast_to(mean, item.shape) for item in truth]


def _errors_of(
    truth: Sequence[Any], predicted: Sequence[Any], channels: Any, kind: str, unit: float = np.nan
) -> FloatArray:
    """Relative L2 error of each sample for some channels; where these are zero in all samples, relative to a unit."""
    parts = [[np.asarray(item, dtype=float)[..., channels] for item in samples] for samples in (truth, predicted)]
    if not any(item.any() for item in parts[0]):
        # Of a prediction of zeros there is no error, in whatever unit.
        return np.array([np.sqrt(np.mean(item**2)) / unit if item.any() else 0.0 for item in parts[1]])
    if kind == "field":
        return np.asarray(relative_l2_error(parts[0], parts[1], average="none", kind="field"))
    true, found = (np.stack(part)[:, 0] for part in parts)
    return np.linalg.norm(found - true, axis=1) / np.sqrt(np.mean(np.sum(true**2, axis=1)))


def _predicted_by_own(estimator: Any, X: Any, y: Any) -> tuple[TrainingData, Predictions, float]:
    """Truth and prediction of an estimator of skop, which takes all forms of X that it was fitted on."""
    with each_warning_once():
        inputs, targets = estimator._read_scored(X, y)
        estimator._warn_if_outside(inputs, X)
    start = time.perf_counter()
    found, _ = estimator._predict_scored(inputs, targets)
    return TrainingData(inputs, targets, estimator.spec_), found, time.perf_counter() - start


def _predicted_by_any(estimator: Any, X: Any, y: Any) -> tuple[TrainingData, Predictions, float]:
    """Truth and prediction of an estimator that is known by `predict` alone."""
    data = read(X, y)
    start = time.perf_counter()
    found = estimator.predict(X)
    seconds = time.perf_counter() - start
    targets = read(X, found).targets
    if (targets.scalars is None) != (data.targets.scalars is None):
        held = "holds" if targets.scalars is None else "does not hold"
        raise FieldDataError(
            f"y {held} scalars beside what {type(estimator).__name__} predicts; pass the y of its fit."
        )
    return data, Predictions(None if targets.field is None else targets.field.values, targets.scalars), seconds
