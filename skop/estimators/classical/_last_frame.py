"""The last frame among the inputs of time steps, since which a classical model learns the change.

Notation: n samples, P points, T points of packed samples, c input channels, p global parameters, q output channels,
s scalars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from skop._typing import FloatArray
from skop.data import FieldSet, Predictions, Targets, interpolate_fields
from skop.estimators.classical._target_rows import rounding_of
from skop.estimators.files._file_checks import Held, check_loaded, checks
from skop.estimators.files._persistence import KNOWN
from skop.training import TrainingPlan

__all__ = ["LastFrame", "check_last_frame"]


@dataclass(frozen=True, eq=False)
class LastFrame:
    """Where the last frame is: among the input fields if the targets are fields, and the global parameters if not.

    Attributes
    ----------
    first : int
        Number of the first channel of the frame, or of its first parameter.
    shift, factor : ndarray of shape (q + s,)
        Shift and factor by which targets become frames, which differ from them by their units.
    """

    first: int
    shift: FloatArray
    factor: FloatArray

    @classmethod
    def of_plan(cls, plan: TrainingPlan, targets: Targets) -> LastFrame | None:
        """Return that of a plan, of targets which are frames, in their own units; None if the plan has none."""
        first, count = plan.last_frame, targets.n_outputs + targets.n_scalars
        return None if first is None else cls(first, np.zeros(count), np.ones(count))

    def of(self, inputs: FieldSet, *, has_field: bool) -> FloatArray:
        """Return the last frames of samples in units of the targets: (n, P, q), (T, q), or (n, s) of scalars."""
        given: Any = inputs.values if has_field else inputs.params
        frame = np.asarray(given[..., self._channels], dtype=np.float64)
        return np.asarray((frame - self.shift) / self.factor)

    @property
    def _channels(self) -> slice:
        """Places of the channels of the frame."""
        return slice(self.first, self.first + len(self.factor))

    def among(self, values: torch.Tensor) -> torch.Tensor:
        """Return the frame in units of the targets, from all channels of a tensor (..., c)."""
        shift, factor = (torch.as_tensor(held, dtype=values.dtype) for held in (self.shift, self.factor))
        return (values[..., self._channels] - shift) / factor

    def changes(self, inputs: FieldSet, targets: Targets) -> Targets:
        """Return the changes since the last frame, zero where they are rounding of a frame.

        Errors are relative to frames without a shift.
        """
        last = self.of(inputs, has_field=targets.field is not None)
        since = last + self.shift / self.factor
        # Standardised targets have double precision, whatever that of the frames is.
        given = rounding_of(inputs.params if targets.field is None else inputs.values)
        true: Any = targets.scalars if targets.field is None else targets.field.values
        values = np.asarray(true, dtype=np.float64) - last
        values = np.where(np.abs(values) > max(given, rounding_of(true)) * np.abs(since), values, 0.0)
        if targets.field is None:
            return Targets(None, values, since=Predictions(None, since))
        return Targets(targets.field.with_values(values), None, targets.elsewhere, Predictions(since))

    def added(self, changes: Predictions, inputs: FieldSet, places: FieldSet | None = None) -> Predictions:
        """Add changes to the last frames of samples, which are interpolated to places that are other points."""
        last = self.of(inputs, has_field=changes.fields is not None)
        if changes.fields is None:
            return Predictions(None, last + np.asarray(changes.scalars))
        if places is not None and places is not inputs:
            last = interpolate_fields(inputs.with_values(last), places)
        return Predictions(last + changes.fields)


KNOWN[LastFrame.__name__] = LastFrame


# ---------------------------------------------------------------------- what a file must hold
@checks("LastFrame")
def _check_last_frame(held: Held) -> None:
    """Check where the last frame is, from a file."""
    held.whole("first")
    held.array("shift", None)
    held.array("factor", len(held.get("shift")), positive=True)


def check_last_frame(held: Held, frame: LastFrame, n_given: int, count: int) -> None:
    """Check that a last frame of `count` channels is among the given ones of an estimator from a file."""
    check_loaded(frame)
    is_frame = len(frame.factor) == count and frame.first + count <= n_given
    held.need(is_frame, "last_frame_", "the first channel of a frame in X, and units of its channels")
