"""What a classical model reads of samples: global parameters, numbers of regions, and components of the other fields.

Notation: n samples, P points, c channels, F values of fields, p global parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data import FieldSet
from skop.estimators.classical._common_grid import MOST_GRID_AXES
from skop.estimators.classical._components import Basis, Decomposition, variance_of
from skop.estimators.classical._target_rows import deviation, own_spreads, rounding_of, spreads
from skop.exceptions import FieldDataError

__all__ = ["NOTHING_OUTSIDE", "InputReader", "refuse_ragged", "regions_of"]

#: If components leave out less than this part of the square of a field, the remainder is rounding and no input.
NOTHING_OUTSIDE = 1e-12
#: Values of a channel that differ by less than this part of the largest one are one number, written at many points.
_SAME_VALUES = 1e-5
#: Relative differences of sums, and of fields, up to these are rounding.
_ROUNDING_OF_SUMS, _ROUNDING = 1e-12, 1e-13
#: Largest number of regions of a channel that are tried as parameters, and least number of points of one, on average.
_MOST_REGIONS, _POINTS_OF_REGION = 64, 4


@dataclass(frozen=True, eq=False)
class InputReader:
    """How samples become inputs of regressors; its attributes are those of `PODRegressor` of the same names.

    Principal components of the channels of regions would mix the numbers of these, so that no regressor could read them
    one by one, or take their logarithms: they are parameters.

    Attributes
    ----------
    regions_ : ndarray of int, shape (P, c)
        Numbers of the regions, see `regions_of`.
    input_unit_ : ndarray of shape (F,)
        Units of the values of the other fields, and of coordinates that differ between samples.
    input_basis_ : Basis or None
        Principal components of these; None without such fields.
    input_scale_ : float
        Size of the coefficients, by which they are divided.
    has_rest_ : bool
        Whether what the components do not hold is an input.
    reads_points_ : bool
        Whether the points of samples are inputs, since those of the fit differ.
    """

    regions_: IntArray
    input_unit_: FloatArray
    input_basis_: Basis | None
    input_scale_: float
    has_rest_: bool
    reads_points_: bool

    @classmethod
    def fit(
        cls,
        inputs: FieldSet,
        regions: IntArray,
        n_components: int | float | None,
        weight: FloatArray | None,
        *,
        reads_points: bool,
    ) -> tuple[InputReader, FloatArray, FloatArray]:
        """Find the units and components of samples; return what reads them, and their features and parameters."""
        reader = cls(regions, np.ones(0), None, 1.0, False, reads_points)
        coords, values, params = reader._parts(inputs)
        # The components of fields share one unit, by which they have together as much variance as the parameters.
        reader = replace(reader, input_unit_=_field_units(coords, values, weight))
        rows = _rows(len(inputs), coords, values)
        if not rows.shape[1]:
            return reader, rows, params
        held = Decomposition(rows / reader.input_unit_, n_components, weight)
        basis = held.basis()
        reader = replace(reader, input_basis_=basis, has_rest_=n_components is None and not basis.is_complete_)
        features = reader._features(rows, held.coefficients)
        size = float(np.sqrt(variance_of(features, weight).sum()))
        if size > _ROUNDING * float(np.linalg.norm(basis.mean_)):
            reader = replace(reader, input_scale_=size / np.sqrt(max(params.shape[1], 1)))
        return reader, features / reader.input_scale_, params

    @classmethod
    def of(cls, estimator: Any) -> InputReader:
        """What reads samples for a fitted `PODRegressor`."""
        return cls(**{part.name: getattr(estimator, part.name) for part in fields(cls)})

    @property
    def regions(self) -> list[IntArray]:
        """Numbers of the values (P * c) of each region."""
        return [np.flatnonzero(self.regions_ == number) for number in range(self.regions_.max(initial=-1) + 1)]

    @property
    def others(self) -> IntArray:
        """Numbers of the channels of no regions."""
        return np.flatnonzero((self.regions_ < 0).any(axis=0))

    def transform(self, inputs: FieldSet) -> tuple[FloatArray, FloatArray]:
        """Features (n, f) of the fields of samples, and parameters (n, p), the last of which are numbers of regions."""
        coords, values, params = self._parts(inputs)
        rows = _rows(len(inputs), coords, values)
        found, known = (rows.shape[1], params.shape[1]), (len(self.input_unit_), inputs.n_params + len(self.regions))
        if found != known:
            raise FieldDataError(
                f"X has {sum(found)} values per sample, but PODRegressor was fitted with {sum(known)}, and "
                "works on its training points only; interpolate X onto the training points."
            )
        return self._features(rows), params

    def _parts(self, inputs: FieldSet) -> tuple[Any, Any, FloatArray]:
        """Coordinates and values that differ between samples, or None, and parameters with the numbers of regions."""
        refuse_ragged(inputs)
        values, n = inputs.values, len(inputs)
        # A sample alone, and equal ones, share their points.
        coords = np.broadcast_to(inputs.coords, (n, *inputs.coords.shape[-2:])) if self.reads_points_ else None
        params = np.zeros((n, 0)) if inputs.params is None else np.asarray(inputs.params, dtype=np.float64)
        if values is None or not self.regions or self.regions_.shape != values.shape[1:]:
            return coords, values, params
        values = np.asarray(values)
        channels = np.setdiff1d(np.arange(values.shape[-1]), self.others)
        for channel in channels:
            labels = self.regions_[:, channel] - self.regions_[:, channel].min()
            if (wrong := _differing(values[..., channel], labels)).any():
                where = "" if not labels.any() else " of one region"
                raise FieldDataError(
                    f"channel {channel} of X differs between the points{where} of sample {np.flatnonzero(wrong)[0]}, "
                    "but held one number there in each sample of the fit, which the model reads as a parameter; pass "
                    "one number, or add samples in which it varies to the fit."
                )
        numbers = [values.reshape(n, -1)[:, own].mean(axis=1, dtype=np.float64) for own in self.regions]
        others = np.delete(values, channels, axis=-1) if len(self.others) else None
        return coords, others, np.concatenate([params, np.stack(numbers, axis=1)], axis=1)

    def _features(self, rows: FloatArray, coefficients: FloatArray | None = None) -> FloatArray:
        """Inputs of the regressors that are coefficients of the values of fields (n, F), which may be known."""
        if self.input_basis_ is None:
            return np.zeros((len(rows), 0))
        rows = rows / self.input_unit_
        coefficients = self.input_basis_.transform(rows) if coefficients is None else coefficients
        parts = [coefficients / self.input_scale_]
        if self.has_rest_:
            # Distances to the training samples count what their components do not hold.
            whole = ((rows - self.input_basis_.mean_) ** 2).sum(axis=1)
            outside = whole - (coefficients**2).sum(axis=1)
            outside = np.where(outside > NOTHING_OUTSIDE * whole, outside, 0.0)
            parts.append(np.sqrt(outside)[:, None] / self.input_scale_)
        return np.concatenate(parts, axis=1)


def refuse_ragged(inputs: FieldSet, model: str = "PODRegressor") -> None:
    """Refuse samples with different numbers of points."""
    if inputs.is_ragged:
        raise FieldDataError(
            f"{model} needs the same points in every sample, or grid='auto' and y on the points of X in up to "
            f"{MOST_GRID_AXES} dimensions; interpolate onto common points."
        )


def regions_of(inputs: FieldSet, most: int = _MOST_REGIONS) -> IntArray:
    """Return which values of input fields hold the same number in every sample, as those of a material in its region.

    Parameters
    ----------
    inputs : FieldSet
        n samples of P points and c channels.
    most : int, default=64
        Largest number of such regions of a channel; 1 finds channels that are constant in space.

    Returns
    -------
    ndarray of int, shape (P, c)
        Numbers of the regions, counted through all channels; -1 for channels that are none of regions, and for those
        that are the same in all samples.
    """
    if inputs.values is None or inputs.is_ragged:
        return np.zeros((0, 0), dtype=int)
    values = np.asarray(inputs.values).reshape(len(inputs), -1, inputs.n_channels)
    found, count = np.full(values.shape[1:], -1), 0
    for channel, own in enumerate(np.moveaxis(values, -1, 0)):
        labels = np.zeros(own.shape[1], dtype=int)
        if not np.ptp(own, axis=0).any():
            continue
        if _differing(own, labels).any():
            labels = _regions(own.T)
        n_regions = labels.max() + 1
        if n_regions > max(1, min(most, len(labels) // _POINTS_OF_REGION)) or _differing(own, labels).any():
            continue
        if n_regions > 1:
            # Regions that half of the different samples do not show, such as discs of other sizes, have other borders
            # in new samples.
            _, samples = np.unique(_regions(own), return_index=True)
            if any(_regions(own[half].T).max() + 1 < n_regions for half in (samples[::2], samples[1::2])):
                continue
        found[:, channel], count = labels + count, count + n_regions
    return found


def _regions(rows: FloatArray) -> IntArray:
    """Numbers of the groups of rows with the same numbers."""
    # The same rows have the same sums, whatever the factors.
    sums = rows.astype(np.float64) @ np.random.default_rng(0).uniform(1, 2, rows.shape[1])
    order = np.argsort(sums, kind="stable")
    labels = np.zeros(len(rows), dtype=int)
    labels[order] = np.append(0, np.cumsum(np.diff(sums[order]) > _ROUNDING_OF_SUMS * np.abs(sums).max()))
    return labels


def _differing(values: FloatArray, labels: IntArray) -> Any:
    """Which samples have several numbers in one region, in values of one channel (n, P)."""
    rows, starts = values, np.zeros(1, dtype=int)
    if labels.any():
        order = np.argsort(labels, kind="stable")
        rows, starts = values[:, order], np.searchsorted(labels[order], np.arange(labels.max() + 1))
    spread = np.maximum.reduceat(rows, starts, axis=1) - np.minimum.reduceat(rows, starts, axis=1)
    return spread.max(axis=1) > _SAME_VALUES * np.abs(values).max(axis=1)


def _rows(n_samples: int, *parts: Any) -> FloatArray:
    """All values of coordinates and fields (n, F), some of which may be None."""
    held = [np.asarray(part, dtype=np.float64).reshape(n_samples, -1) for part in parts if part is not None]
    return np.concatenate([np.zeros((n_samples, 0)), *held], axis=1)


def _field_units(coords: Any, values: Any, weight: FloatArray | None) -> FloatArray:
    """Units of the values of fields (F,): several channels are divided by their spreads, and so are coordinates."""
    found = []
    if coords is not None:
        spread = deviation(np.asarray(coords).reshape(len(coords), -1, 1), weight)
        found.append(np.full(coords[0].size, float(spread[0]) or 1.0))
    if values is not None:
        rounding, own = rounding_of(values), np.asarray(values, dtype=np.float64)
        of_channels = own_spreads if found and own.shape[-1] == 1 else spreads
        found.append(np.tile(of_channels(own, rounding, weight), own.shape[1]))
    return np.concatenate(found) if found else np.ones(0)
