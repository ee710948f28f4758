"""How far samples lie from those of a fit: features of inputs, distances to the training samples, and their quantiles.

Inputs of every kind become a row of numbers: global parameters; means of the fields, and shares of the points, in the
cells of a fixed lattice over the box of the fit, which depend neither on the order of the points nor, up to the error of
a mean, on their number; and means of the tokens of a network over the points.

Notation: n samples, r raw features, k features, p global parameters, c channels, d space dimensions, m cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data import FieldSet, boxes, iterate_rows
from skop.exceptions import FieldDataError

__all__ = ["Reference", "features"]

#: Largest number of training samples that are kept, evenly spaced among all.
_KEPT = 2000
#: Largest number of cells, and of components of one group of features.
_CELLS, _COMPONENTS = 64, 32
#: Part of the variance of a group that its components hold; what is left is one more feature, its size.
_HELD = 0.99
#: Change that counts as one standard deviation where training samples do not differ: part of the number itself, part of
#: the box and of the share of a cell, and of the logarithm of the distance of points.
_CONSTANT = 0.01
_ROUNDING = 1e-6
_OF_POINTS = 0.05


def features(estimator: Any, inputs: FieldSet) -> FloatArray:
    """Return inputs as points of the space in which `FieldRegressor.novelty` measures distances.

    Parameters
    ----------
    estimator : FieldRegressor
        Fitted estimator.
    inputs : FieldSet
        n samples, as `FieldRegressor._read_inputs` returns them.

    Returns
    -------
    ndarray of shape (n, k), float64
        Features. Their Euclidean distance counts each group of features by the number of directions in which the
        training samples spread in it, with a variance of about one in each.

    Raises
    ------
    FieldDataError
        If the model holds no training samples, since it was saved by an earlier version.
    """
    reference: Reference | None = estimator.reference_
    if reference is None:
        raise FieldDataError(
            "the model holds no features of its training samples, so that there is nothing to measure a distance to: "
            "it was saved by an earlier version of skop, or fitted by another estimator; fit again, or ask that one."
        )
    return reference.features(inputs)


@dataclass(frozen=True, eq=False)
class Lattice:
    """Cells of equal size over the box of the points of a fit.

    Attributes
    ----------
    lower, span : ndarray of shape (d,)
        Corner and sides of the box.
    counts : ndarray of int, shape (d,)
        Number of cells along each axis.
    """

    lower: FloatArray
    span: FloatArray
    counts: IntArray

    @classmethod
    def over(cls, inputs: FieldSet) -> Lattice:
        """Lay cells over the box of samples, with at least two points along each side of a cell on average."""
        lower, upper = boxes(inputs)
        low, span = lower.min(axis=0), upper.max(axis=0) - lower.min(axis=0)
        extended = span > 0
        n_axes = max(int(extended.sum()), 1)
        side = min(_CELLS ** (1 / n_axes), float(np.median(inputs.n_points)) ** (1 / n_axes) / 2)
        # The root of a cube may be rounded down below the whole number.
        counts = np.where(extended, max(int(side + 1e-9), 1), 1)
        return cls(low, np.where(extended, span, 1.0), counts)

    def cells_of(self, coords: FloatArray) -> IntArray:
        """Numbers of the cells of points (..., d); those outside of the box belong to the cells at its faces."""
        places = np.floor((np.asarray(coords, dtype=np.float64) - self.lower) / self.span * self.counts)
        places = np.clip(places, 0, self.counts - 1).astype(np.int64)
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), tuple(self.counts)))

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(np.prod(self.counts))


def _of_points(inputs: FieldSet, lattice: Lattice) -> FloatArray:
    """Shares of points in cells, corners of the box and logarithm of the number of points, ``(n, m + 2 d + 1)``."""
    n, size = len(inputs), lattice.size
    lower, upper = ((corner - lattice.lower) / lattice.span for corner in boxes(inputs))
    n_points = np.asarray(inputs.n_points, dtype=np.float64)
    n_sets = len(lower)
    if inputs.shared_coords:
        shares = np.bincount(lattice.cells_of(inputs.coords), minlength=size)[np.newaxis]
    else:
        cells = lattice.cells_of(inputs.coords).reshape(-1) + np.repeat(np.arange(n), inputs.n_points) * size
        shares = np.bincount(cells, minlength=n * size).reshape(n, size)
    n_axes = max(int((lattice.span > 0).sum()), 1)
    rows = [shares / n_points[:n_sets, np.newaxis] * size, lower, upper, np.log(n_points)[:n_sets, np.newaxis] / n_axes]
    return np.broadcast_to(np.concatenate(rows, axis=1), (n, size + 2 * inputs.n_dims + 1))


def _of_fields(inputs: FieldSet, lattice: Lattice) -> FloatArray:
    """Means in cells, and the deviation from these, of each channel, ``(n, c, m + 1)``; NaN for cells without points."""
    found = np.empty((len(inputs), inputs.n_channels, lattice.size + 1))
    for start, values in iterate_rows(inputs):
        stop = start + (len(values) if not inputs.is_ragged else _samples_in(inputs, start, len(values)))
        sizes = np.asarray(inputs.n_points)[start:stop]
        cells = lattice.cells_of(inputs.coords if inputs.shared_coords else inputs[start:stop].coords).reshape(-1)
        if inputs.shared_coords:
            cells = np.tile(cells, stop - start)
        cells = cells + np.repeat(np.arange(stop - start), sizes) * lattice.size
        n_cells = (stop - start) * lattice.size
        counts = np.bincount(cells, minlength=n_cells)
        flat = np.asarray(values, dtype=np.float64).reshape(-1, inputs.n_channels)
        owners = np.repeat(np.arange(stop - start), sizes)
        for channel, column in enumerate(flat.T):
            with np.errstate(invalid="ignore", divide="ignore"):
                means = np.bincount(cells, column, minlength=n_cells) / counts
            squares = np.bincount(owners, (column - means[cells]) ** 2, minlength=stop - start) / sizes
            found[start:stop, channel, :-1] = means.reshape(stop - start, lattice.size)
            found[start:stop, channel, -1] = np.sqrt(squares)
    return found


def _samples_in(inputs: FieldSet, start: int, n_rows: int) -> int:
    """Number of ragged samples from one on that have this number of points together."""
    return int(np.searchsorted(np.cumsum(np.asarray(inputs.n_points)[start:]), n_rows) + 1)


@dataclass(frozen=True, eq=False)
class Group:
    """Features of one kind: standardised, and turned to the components along which training samples spread.

    Attributes
    ----------
    mean, unit : ndarray of shape (r,)
        Mean, and change that counts as one.
    components : ndarray of shape (k - 1, r)
        Orthonormal components with the largest variances.
    scale : float
        Factor by which the features of this group count.
    """

    mean: FloatArray
    unit: FloatArray
    components: FloatArray
    scale: float

    @classmethod
    def fit(cls, raw: FloatArray, unit: FloatArray) -> Group:
        """Describe raw features (n, r) of training samples in units (r,)."""
        # Cells without points, which are NaN, count as the mean.
        held = np.isfinite(raw)
        mean = np.where(held, raw, 0.0).sum(axis=0) / np.maximum(held.sum(axis=0), 1)
        centred = np.nan_to_num((raw - mean) / unit, nan=0.0)
        covariance = centred.T @ centred / len(raw)
        variances, vectors = np.linalg.eigh(covariance)
        variances, vectors = np.maximum(variances[::-1], 0.0), vectors[:, ::-1]
        total = float(variances.sum())
        # Where samples do not differ, or by rounding only, any change is one of the rest.
        if total <= raw.shape[1] * _ROUNDING**2:
            return cls(mean, unit, np.zeros((0, raw.shape[1])), 1.0)
        count = min(int(np.searchsorted(np.cumsum(variances), _HELD * total)) + 1, _COMPONENTS)
        spread = total**2 / float((variances**2).sum())
        return cls(mean, unit, np.ascontiguousarray(vectors[:, :count].T), float(np.sqrt(spread / total)))

    def features(self, raw: FloatArray) -> FloatArray:
        """Components, and the size of what they leave over, ``(n, k)``."""
        centred = np.nan_to_num((raw - self.mean) / self.unit, nan=0.0)
        inside = centred @ self.components.T
        rest = np.sqrt(np.maximum((centred**2).sum(axis=1) - (inside**2).sum(axis=1), 0.0))
        return np.concatenate([inside, rest[:, np.newaxis]], axis=1) * self.scale


def _unit_of(raw: FloatArray) -> FloatArray:
    """Standard deviations of columns; a part of the number itself where it is constant, up to rounding."""
    size, spread = np.abs(raw).max(axis=0), raw.std(axis=0)
    return np.where(spread > _ROUNDING * size, spread, np.where(size > 0, _CONSTANT * size, 1.0))


@dataclass(frozen=True, eq=False)
class Reference:
    """Training samples of a fit as points of a space of features.

    Attributes
    ----------
    lattice : Lattice or None
        Cells over the box of the fit; None if the samples are rows of a table.
    groups : list of Group
        Groups of features: of parameters, fields and points, in this order, as far as there are any.
    points : ndarray of shape (n, k)
        Features of the training samples that are kept.
    """

    lattice: Lattice | None
    groups: list[Group]
    points: FloatArray

    @classmethod
    def from_fit(cls, inputs: FieldSet) -> Reference:
        """Describe training samples."""
        rows = np.arange(len(inputs))
        if len(rows) > _KEPT:
            rows = np.unique(np.linspace(0, len(rows) - 1, _KEPT).round().astype(int))
            inputs = inputs.read(rows)
        lower, upper = boxes(inputs)
        lattice = Lattice.over(inputs) if (upper > lower).any() else None
        groups = []
        for kind, raw in _raw(inputs, lattice).items():
            if kind == "params":
                unit = _unit_of(raw)
            elif kind == "fields":
                # One unit for the means of a channel, and one for the deviations from these.
                unit = np.concatenate(
                    [
                        np.full(part.shape[1], _unit_of(part[~np.isnan(part)].reshape(-1, 1))[0])
                        for channel in np.split(raw, inputs.n_channels, axis=1)
                        for part in (channel[:, :-1], channel[:, -1:])
                    ]
                )
            else:
                unit = np.maximum(raw.std(axis=0), _OF_POINTS)
            groups.append(Group.fit(raw, unit))
        found = cls(lattice, groups, np.zeros((0, 0)))
        return cls(lattice, groups, found.features(inputs))

    def features(self, inputs: FieldSet) -> FloatArray:
        """Features of samples, ``(n, k)``."""
        parts = zip(self.groups, _raw(inputs, self.lattice).values(), strict=True)
        return np.concatenate([group.features(raw) for group, raw in parts], axis=1)


def _raw(inputs: FieldSet, lattice: Lattice | None) -> dict[str, FloatArray]:
    """Raw features of samples by their kind."""
    found: dict[str, FloatArray] = {}
    if inputs.params is not None:
        found["params"] = np.asarray(inputs.params, dtype=np.float64)
    if inputs.n_channels:
        cells = lattice or Lattice(np.zeros(inputs.n_dims), np.ones(inputs.n_dims), np.ones(inputs.n_dims, int))
        found["fields"] = _of_fields(inputs, cells).reshape(len(inputs), -1)
    if lattice is not None:
        found["points"] = np.array(_of_points(inputs, lattice))
    return found
