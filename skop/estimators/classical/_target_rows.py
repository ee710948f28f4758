"""Targets as rows of numbers, in units in which all outputs have the same weight, and errors as `score` measures them.

Notation: n samples, P points, c channels, s scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data import Predictions, Targets
from skop.estimators.classical._components import ROUNDING, TINY, Decomposition, mean_of, of_others, variance_of
from skop.metrics import channel_sizes

__all__ = ["TargetRows", "deviation", "own_spreads", "physical", "rounding_of", "spreads", "squares_of_outputs"]


class TargetRows:
    """Targets as one row per sample, with scalars last, and their errors as `score` measures them.

    Errors of logarithms are absolute, since they are relative ones of the targets. Those of the samples of a group,
    such as the frames of a run, are relative to the root mean square of their norms: one frame may be as good as zero.
    Of standardised targets, those of an operator's base, errors are relative to physical ones, into which the shift and
    the factor of each output turn them; a factor of 0 stands for those that are not known. Those of changes are
    relative to what has changed.
    """

    def __init__(
        self,
        targets: Targets,
        weight: FloatArray | None = None,
        groups: IntArray | None = None,
        *,
        is_log: bool = False,
        units: tuple[Any, Any] = (0.0, 1.0),
    ) -> None:
        self.weight = weight
        n_channels = targets.n_outputs
        origin, size = (np.broadcast_to(held, n_channels + targets.n_scalars) for held in units)
        size = np.where(size > 0, size, 1.0)
        self.channel_unit: FloatArray = np.ones(0)
        self.scalar_unit: FloatArray = np.ones(0)
        #: Units over the sizes by which a score divides.
        self.field_ratio: FloatArray = np.ones(0)
        self.scalar_ratio: FloatArray = np.ones(0)
        self.norms: FloatArray | None = None
        since = Predictions(None) if targets.since is None else targets.since
        parts: list[FloatArray] = []
        if targets.field is not None:
            known = origin[:n_channels], size[:n_channels], since.fields
            parts.append(self._rows_of_field(targets.field.values, groups, *known, is_log=is_log))
        if targets.scalars is not None:
            # Each scalar has as much weight as the whole field, so that the components represent both.
            whole = (np.sqrt(variance_of(parts[0], weight).sum()) or 1.0) if parts else None
            known = origin[n_channels:], size[n_channels:], since.scalars
            parts.append(self._rows_of_scalars(targets.scalars, whole, *known, is_log=is_log))
        self.products: FloatArray | None = None
        self.rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _rows_of_field(
        self,
        field: Any,
        groups: IntArray | None,
        origin: FloatArray,
        size: FloatArray,
        since: FloatArray | None,
        *,
        is_log: bool,
    ) -> FloatArray:
        """Rows of fields, and what their errors are relative to."""
        values, weight = np.asarray(field, dtype=np.float64), self.weight
        values = np.log(values) if is_log else values
        self.channel_unit = spreads(values, rounding_of(field), weight)
        true = (values if since is None else values + since) * size
        true += origin
        sizes = np.ones(values.shape[-1]) if is_log else _sizes(true, weight, size)
        rows = (values / self.channel_unit).reshape(len(values), -1)
        self.field_ratio = np.tile(self.channel_unit * size / sizes, values.shape[1])
        true /= sizes
        norms = np.linalg.norm(true.reshape(len(values), -1), axis=1)
        usual = np.sqrt(mean_of(norms**2, weight)) or 1.0
        if groups is not None:
            own = np.ones(len(norms)) if weight is None else weight
            norms = np.sqrt(np.bincount(groups, own * norms**2) / np.bincount(groups, own))[groups]
        # A frame that is zero up to rounding, such as sin(pi), is as good as zero.
        self.norms = np.where(norms > rounding_of(field) * usual, norms, usual)
        if is_log:
            self.norms = np.full(len(rows), rows.shape[1] ** 0.5)
        return rows

    def _rows_of_scalars(
        self,
        numbers: Any,
        whole: float | None,
        origin: FloatArray,
        size: FloatArray,
        since: FloatArray | None,
        *,
        is_log: bool,
    ) -> FloatArray:
        """Rows of scalars, beside fields of a size if there are any, and what their errors are relative to."""
        scalars, weight, rounding = np.asarray(numbers, dtype=np.float64), self.weight, rounding_of(numbers)
        scalars = np.log(scalars) if is_log else scalars
        self.scalar_unit = spreads(scalars[:, None], rounding, weight)
        if whole is not None:
            self.scalar_unit = own_spreads(scalars[:, None], rounding, weight) / whole
        true = (scalars if since is None else scalars + since) * size + origin
        sizes = np.ones(scalars.shape[1]) if is_log else _sizes(true[:, None], weight, size)
        self.scalar_ratio = self.scalar_unit * size / sizes
        self.squares = ((np.ones_like(scalars) if is_log else true / sizes) ** 2).sum(axis=1)
        return np.asarray(scalars / self.scalar_unit)

    def measure(self, parts: Decomposition, kept: int | None = None) -> tuple[FloatArray, Any, Any]:
        """Weights of the samples, and the errors of residuals of the leading coefficients of those that are kept.

        One is that of all outputs, the other that of each channel and scalar; of residuals (..., n, k), such as those
        with each of several penalties.
        """
        norms, size, n = self.norms, len(self.field_ratio), len(self.rows)
        is_plain = len(self.channel_unit) == 1 and not len(self.scalar_ratio)
        if kept is None:
            self.products = None if is_plain or not size else parts.products(self.field_ratio)
        products = self.products if self.products is None else self.products[:kept, :kept]
        coefficients = parts.coefficients[:, :kept]
        numbers = parts.columns(slice(size, None)) * self.scalar_ratio
        # What the components do not hold is predicted by the mean of the other samples.
        whole = ((parts.centred[:, :size] * self.field_ratio) ** 2).sum(axis=1)
        inside = coefficients if products is None else coefficients @ products
        outside = whole - (inside * coefficients).sum(axis=1)
        outside = np.where(outside > 1e-12 * whole, outside, 0.0) * np.ravel(of_others(n, self.weight)) ** 2

        def error(residuals: FloatArray, samples: IntArray) -> FloatArray:
            residuals, is_finite = _finite(residuals)
            count, errors = residuals.shape[-1], []
            weight = None if self.weight is None else self.weight[samples]
            if norms is not None:
                weighted = residuals if products is None else residuals @ products[:count, :count]
                squares = np.maximum((weighted * residuals).sum(axis=-1), 0.0) + outside[samples]
                errors.append(mean_of(np.sqrt(squares) / norms[samples], weight, axis=-1))
            if numbers.shape[1]:
                left, true = (residuals @ numbers[:count]) ** 2, self.squares[samples]
                if weight is not None:
                    left, true = weight[:, np.newaxis] * left, weight * true
                errors.append(np.sqrt(_flat(left).sum(axis=-1) / (float(true.sum()) or 1.0)))
            return np.where(is_finite, np.mean(errors, axis=0), np.inf)

        weights = np.full(n, 1.0 / n) if norms is None else 1.0 / (n * norms)
        weights = weights if self.weight is None else self.weight * weights
        return weights, error, self._measure_each(parts, numbers, kept)

    def _measure_each(self, parts: Decomposition, numbers: FloatArray, kept: int | None) -> Any:
        """Errors of each channel and scalar, as `measure` gives them; None for one output."""
        size = len(self.field_ratio)
        n_channels = len(self.channel_unit) if size else 0
        if n_channels + numbers.shape[1] < 2:
            return None
        grams = [own @ own.T for own in (parts.columns(slice(k, size, n_channels), kept) for k in range(n_channels))]

        def each(residuals: FloatArray) -> FloatArray:
            residuals, is_finite = _finite(residuals)
            count = residuals.shape[-1]
            squares = [np.vecdot(_flat(residuals @ gram[:count, :count]), _flat(residuals)) for gram in grams]
            squares += [*np.moveaxis(np.square(residuals @ numbers[:count]).sum(axis=-2), -1, 0)]
            found = np.sqrt(np.maximum(np.stack(squares, axis=-1), 0.0))
            return np.where(is_finite[..., np.newaxis], found, np.inf)

        return each

    def bounds(self, unseen: FloatArray | None = None, largest: FloatArray | None = None) -> FloatArray:
        """Least and largest logarithm (2, m) of each of m values that may be predicted, with the rows of logarithms.

        The exponential of what grows beyond the range in the fit has no bound, and few samples rarely show where it
        grows. As much above the range as it spans is predicted, but, with predictions (n, m) of unseen samples, of a
        value with an error e relative to its size no more than 1 + 1 / e times the largest: exact laws go on. A
        plane, which does not overshoot, goes on up to its largest rows (m,) in the ranges of the inputs. Below the
        range they all do, down to the least number of full precision, since what is small has a small error.
        """
        low, high = self.rows.min(axis=0), self.rows.max(axis=0)
        above = high - low
        n_points = len(self.field_ratio) // max(len(self.channel_unit), 1)
        unit = np.append(np.tile(self.channel_unit, n_points), self.scalar_unit)
        if unseen is not None:
            true = np.exp((self.rows - high) * unit)
            with np.errstate(over="ignore"):
                wrong = np.exp((np.minimum(unseen, high + above) - high) * unit) - true
                error = np.sqrt(mean_of(wrong**2, self.weight) / mean_of(true**2, self.weight))
            supported = np.log1p(1.0 / np.maximum(error, TINY)) / unit
            if largest is not None:
                supported = np.maximum(supported, largest - high)
            above = np.minimum(above, supported)
        return np.stack([np.minimum(low, np.log(TINY) / unit), high + above])

    def error_of(self, targets: Targets, found: Predictions, chosen: Any) -> float:
        """Error of predictions of all samples, as that of the residuals of those that are chosen."""
        errors: list[float] = []
        weight = None if self.weight is None else self.weight[chosen]
        if found.fields is not None and targets.field is not None:
            left = (np.asarray(targets.field.values, dtype=np.float64) - found.fields) / self.channel_unit
            rows = left.reshape(len(left), -1) * self.field_ratio
            errors.append(float(mean_of((np.linalg.norm(rows, axis=1) / self.norms)[chosen], weight)))
        if found.scalars is not None:
            left = (np.asarray(targets.scalars, dtype=np.float64) - found.scalars) / self.scalar_unit
            left, true = (left * self.scalar_ratio)[chosen], self.squares[chosen]
            if weight is not None:
                left, true = np.sqrt(weight)[:, np.newaxis] * left, weight * true
            errors.append(float(np.linalg.norm(left)) / (float(np.sqrt(true.sum())) or 1.0))
        return float(np.mean(errors))


def _finite(residuals: FloatArray) -> tuple[FloatArray, Any]:
    """Residuals (..., n, k) with zeros in place of those that are not all finite, and which (...) are."""
    is_finite: Any = np.isfinite(residuals).all(axis=(-2, -1))
    if not is_finite.all():
        residuals = np.where(is_finite[..., np.newaxis, np.newaxis], residuals, 0.0)
    return residuals, is_finite


def _flat(rows: FloatArray) -> FloatArray:
    """Rows (..., n, k) as one row (..., n * k)."""
    return rows.reshape(*rows.shape[:-2], -1)


def squares_of_outputs(parts: Sequence[FloatArray], weight: FloatArray | None) -> FloatArray:
    """Weighted sums of squares (n, c + s) over the points of each sample, of channels (n, P, c) and scalars (n, s)."""
    found = np.concatenate(
        [np.square(part).reshape(len(part), -1, part.shape[-1]).sum(axis=1) for part in parts], axis=1
    )
    return found if weight is None else weight[:, np.newaxis] * found


def physical(targets: Targets, origin: Any, size: Any) -> Targets:
    """Standardised targets in physical units."""
    field, scalars = targets.field, targets.scalars
    count = 0 if field is None else field.n_channels
    every = (np.broadcast_to(held, targets.n_outputs + targets.n_scalars) for held in (origin, size))
    (shift, shift_of_scalars), (factor, factor_of_scalars) = ((held[:count], held[count:]) for held in every)
    if field is not None:
        field = field.with_values(np.asarray(field.values, dtype=np.float64) * factor + shift)
    if scalars is not None:
        scalars = scalars * factor_of_scalars + shift_of_scalars
    return Targets(field, scalars, targets.elsewhere)


def rounding_of(values: Any) -> float:
    """Relative size of differences that are rounding, in numbers of some precision; in double precision without any."""
    kind = np.dtype(getattr(values, "dtype", np.float64))
    return max(ROUNDING, 2 * float(np.finfo(kind).eps)) if kind.kind == "f" else ROUNDING


def spreads(values: FloatArray, rounding: float, weight: FloatArray | None = None) -> FloatArray:
    """Units in which each of several channels (n, P, c) has the same weight; one for a single channel."""
    return np.ones(1) if values.shape[-1] == 1 else own_spreads(values, rounding, weight)


def own_spreads(values: FloatArray, rounding: float, weight: FloatArray | None = None) -> FloatArray:
    """Standard deviations of channels (n, P, c); the largest value of one that is constant up to rounding, or 1.

    In this unit the rounding stays as small, and predictions are the constant.
    """
    spread, size = deviation(values, weight), np.abs(values).max(axis=(0, 1), initial=0.0)
    return np.where(spread > rounding * size, spread, np.where(size > 0, size, 1.0))


def deviation(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Standard deviation over all samples and points (n, P, c)."""
    if weight is None:
        return np.asarray(values.std(axis=(0, 1)))
    centred = values - mean_of(values, weight).mean(axis=0)
    return np.asarray(np.sqrt(mean_of(centred**2, weight).mean(axis=0)))


def _sizes(values: FloatArray, weight: FloatArray | None, units: FloatArray) -> FloatArray:
    """Sizes of several channels by which a score divides; the unit of a single channel."""
    if values.shape[-1] == 1 or not values.any():
        return units
    return channel_sizes(values, kind="field", sample_weight=weight)
