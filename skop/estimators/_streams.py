"""Fields in files, of which a score reads and predicts a few samples at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data import FieldSet, Predictions, Targets, piece_length
from skop.metrics import relative_l2_error

__all__ = ["StreamedSamples", "samples_at_once", "scores_of_channels"]


def samples_at_once(inputs: FieldSet, targets: Targets) -> int:
    """Return how many samples are read and predicted at once where they are in files."""
    parts = [inputs] if targets.field is None else [inputs, targets.field]
    return min(piece_length(part, max(part.n_channels, part.n_dims)) for part in parts)


class _SampleSequence(Sequence[FloatArray]):
    """Values of samples one after the other, of which a few are in memory at a time.

    Parameters
    ----------
    count : int
        Number of samples.
    step : int
        Number of samples that are in memory at once.
    values_of : callable
        Function of a slice of samples that returns a list of their values.
    """

    def __init__(self, count: int, step: int, values_of: Callable[[slice], list[FloatArray]]) -> None:
        self._count, self._step, self._values_of = count, step, values_of

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        row = range(self._count)[index]
        return self._values_of(slice(row, row + 1))[0]

    def __iter__(self) -> Iterator[FloatArray]:
        for start in range(0, self._count, self._step):
            yield from self._values_of(slice(start, start + self._step))

    def of_channels(self, channels: IntArray) -> _SampleSequence:
        """Some channels of the same samples."""
        return _SampleSequence(
            self._count, self._step, lambda rows: [values[..., channels] for values in self._values_of(rows)]
        )


@dataclass(frozen=True)
class StreamedSamples:
    """True and predicted fields of a score, read and predicted a few samples at a time.

    Attributes
    ----------
    inputs : FieldSet
        Inputs.
    truth : Targets
        True fields.
    predict : callable
        Function of inputs and truth that returns predictions and their points.
    """

    inputs: FieldSet
    truth: Targets
    predict: Callable[[FieldSet, Targets], tuple[Predictions, FieldSet]]

    def parts(self) -> list[tuple[Literal["field", "scalar"], Any, Any]]:
        """Truth and prediction of the fields, and of the scalars if there are any."""
        fields: list[Any] = [("field", self._true(), self._predicted())]
        return fields if self.truth.scalars is None else [*fields, ("scalar", self.truth.scalars, self._scalars())]

    def _true(self) -> _SampleSequence:
        """True fields."""
        return self._sequence(lambda rows: cast("FieldSet", self.truth.field)[rows].to_list())

    def _predicted(self) -> _SampleSequence:
        """Predicted fields."""

        def values_of(rows: slice) -> list[FloatArray]:
            """Predictions of some samples."""
            found, places = self.predict(self.inputs[rows], self.truth[rows])
            return places.with_values(found.fields).to_list()

        return self._sequence(values_of)

    def _scalars(self) -> FloatArray:
        """Predicted scalars, which are few, by predictions of their own."""
        rows = (slice(start, start + self._step) for start in range(0, len(self.truth), self._step))
        return np.concatenate(
            [np.asarray(self.predict(self.inputs[part], self.truth[part])[0].scalars) for part in rows]
        )

    @property
    def _step(self) -> int:
        """Number of samples that are read and predicted at once."""
        return samples_at_once(self.inputs, self.truth)

    def _sequence(self, values_of: Callable[[slice], list[FloatArray]]) -> _SampleSequence:
        """Values of all samples."""
        return _SampleSequence(len(self.truth), self._step, values_of)


def _of_channels(samples: Any, channels: IntArray) -> Any:
    """Some channels, or scalars, of samples."""
    if isinstance(samples, _SampleSequence):
        return samples.of_channels(channels)
    return [np.asarray(item)[..., channels] for item in samples]


def scores_of_channels(
    kind: Literal["field", "scalar"], true: Any, found: Any, count: int, sample_weight: Any
) -> list[float]:
    """Score of each channel, or scalar; NaN where it is zero in all samples, and has no relative error."""
    is_defined: Any = np.zeros(count, dtype=bool)
    for item in true:
        is_defined |= np.asarray(item).reshape(-1, count).any(axis=0)
    scores = np.full(count, np.nan)
    if is_defined.any():
        # One pass for all channels, since samples in files are read and predicted in it.
        parts = [_of_channels(samples, np.flatnonzero(is_defined)) for samples in (true, found)]
        errors = relative_l2_error(*parts, sample_weight=sample_weight, kind=kind, average="channel")
        scores[is_defined] = 1 - np.asarray(errors)
    return scores.tolist()
