"""One view on everything that a metric accepts: pairs of fields, sample by sample.

Notation: n samples, P points of a sample, c channels, q scalars of a sample.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from skop.exceptions import FieldDataError

__all__ = [
    "ROUNDING",
    "FieldPairs",
    "FloatArray",
    "GridShape",
    "Kind",
    "average_samples",
    "check_average",
    "check_weights",
    "divide_norms",
    "norm_of_set",
    "pair_fields",
    "root_of_squares",
    "sizes_of",
    "unmasked",
]

# Not taken from skop._typing, which imports torch: scoring arrays should not need it.
FloatArray = npt.NDArray[np.float64]
GridShape = tuple[int, ...]
Kind = Literal["field", "scalar"]
#: Differences between the steps of an even grid, as a fraction of a step: rounding of single precision, and more.
_EVEN = 1e-2
#: Part of a size up to which others are zero but for rounding, as sin(pi) is.
ROUNDING = 1e-13
#: Sum of squares from which on those that are lost, below 1e-308, are no part of its digits.
_LEAST_SQUARE = 1e-250


@dataclass(frozen=True)
class FieldPairs:
    """True and predicted fields; iterating gives pairs of float64 arrays (P, c).

    Samples are converted and checked one at a time, so a large memory-mapped array is never copied
    as a whole.

    Parameters
    ----------
    true, predicted : sequence of array-like
        One array per sample, or an array with the sample axis first.
    scalar : bool
        Whether a sample is a row of scalars, (1, q), instead of a field.
    grid_shape, predicted_grid : tuple of int or None
        Grids that the containers of the true and of the predicted fields state for all samples.
    coords : ndarray of shape (P, d) or (n, P, d), or None
        Coordinates that the container of the true fields holds in one array.
    """

    true: Sequence[Any] | npt.NDArray[Any]
    predicted: Sequence[Any] | npt.NDArray[Any]
    scalar: bool
    grid_shape: GridShape | None = None
    predicted_grid: GridShape | None = None
    coords: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.true)

    @property
    def rounding(self) -> float:
        """Part of the norm of the set up to which that of a true sample is rounding, in the precision of the fields."""
        held = self.true[0] if isinstance(self.true, list) else self.true
        kind = np.dtype(getattr(held, "dtype", np.float64))
        return max(ROUNDING, 2 * float(np.finfo(kind).eps)) if kind.kind == "f" else ROUNDING

    def __iter__(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        for index, (true, predicted) in enumerate(zip(self.true, self.predicted, strict=True)):
            grids = self.grid_shape or _axes_of(true), self.predicted_grid or _axes_of(predicted)
            if None not in grids and grids[0] != grids[1]:
                raise FieldDataError(
                    f"sample {index}: y_true is on a grid {grids[0]} and y_pred on a grid {grids[1]}, expected the "
                    "same; exchange the axes of one if they are in another order, or interpolate to one grid."
                )
            pair = self._points(true, index, "y_true"), self._points(predicted, index, "y_pred")
            if pair[0].shape != pair[1].shape:
                raise FieldDataError(
                    f"sample {index}: y_true has (points, channels) {pair[0].shape} and y_pred "
                    f"{pair[1].shape}, expected the same. A one-channel grid needs its channel axis: "
                    "(n, *grid, 1)."
                )
            yield pair

    def _points(self, sample: Any, index: int, name: str) -> FloatArray:
        """One sample as finite float64 (P, c), or (1, q) for scalars."""
        array = np.asarray(unmasked(sample, f"sample {index} of {name}"))
        if array.dtype.kind not in "biuf":
            raise FieldDataError(
                f"sample {index} of {name} has dtype {array.dtype}, expected real numbers. "
                "Samples with different numbers of points go into a list of arrays (points, channels)."
            )
        array = np.atleast_1d(array.astype(np.float64, copy=False))
        if self.scalar:
            array = array.reshape(1, -1)
        array = array[:, None] if array.ndim == 1 else array.reshape(-1, array.shape[-1])
        if array.size == 0:
            raise FieldDataError(f"sample {index} of {name} is empty, expected at least one value.")
        if not np.isfinite(array).all():
            raise FieldDataError(f"sample {index} of {name} holds NaN or infinite values, expected finite ones.")
        return array

    def grid(self, index: int, grid_shape: GridShape | None) -> GridShape:
        """Grid of a sample: the one asked for, the container's, or the sample's own axes."""
        shape = np.shape(self.true[index])
        found = grid_shape or self.grid_shape or _axes_of(self.true[index])
        n_points = prod(shape[:-1]) if len(shape) > 1 else prod(shape)
        if self.scalar or found is None:
            raise FieldDataError(
                f"sample {index} of y_true has shape {shape}, which does not tell its grid. Pass arrays "
                "(n, *grid, channels) with two or three grid axes, or grid_shape (for one axis: (points,))."
            )
        if grid_shape is not None:
            self._check_axes(index, found)
        if prod(found) != n_points:
            raise FieldDataError(
                f"grid_shape is {found}, but sample {index} of y_true has {n_points} points, expected {prod(found)}; "
                "pass the points along each axis of its grid."
            )
        return tuple(found)

    def _check_axes(self, index: int, grid_shape: GridShape) -> None:
        """Raise where a sample, or its container, shows another grid than the one asked for."""
        for name, stated, samples in (
            ("y_true", self.grid_shape, self.true),
            ("y_pred", self.predicted_grid, self.predicted),
        ):
            axes = stated or _axes_of(samples[index])
            # Axes with a single point do not change the order of the points.
            if axes is not None and [size for size in axes if size != 1] != [size for size in grid_shape if size != 1]:
                raise FieldDataError(
                    f"grid_shape is {grid_shape}, but sample {index} of {name} is on a grid {axes}; leave out "
                    "grid_shape."
                )

    def even_grid(self, index: int, grid_shape: GridShape | None) -> GridShape:
        """Grid of a sample, as `grid` gives it; coordinates with uneven steps raise a FieldDataError."""
        found = self.grid(index, grid_shape)
        is_shared = self.coords is not None and (self.coords.ndim == 2 or self.coords.shape[:-1] == found)
        if self.coords is None or (is_shared and index > 0):
            return found
        coords = self.coords if is_shared else self.coords[index]
        points = coords.reshape(*found, -1)
        slack = _EVEN * np.ptp(coords.reshape(-1, points.shape[-1]), axis=0).max() / max(found)
        steps = [np.diff(points, axis=axis) for axis in range(len(found))]
        if any(step.size and np.ptp(step.reshape(-1, step.shape[-1]), axis=0).max() > slack for step in steps):
            named, advice = "their grid", ""
            if grid_shape is not None:
                named, advice = "grid_shape", "Check the order of the axes in grid_shape. "
            raise FieldDataError(
                f"the points of y_true, sample {index}, have uneven steps along the axes of {named} {found}, and "
                f"this metric takes an even grid. {advice}Interpolate both to one, or pass the fields without their "
                "coordinates to count in steps of the grid."
            )
        return found


def _axes_of(sample: Any) -> GridShape | None:
    """Lengths of the grid axes of a sample (*grid, c); None for points and scalars."""
    shape = np.shape(sample)
    return tuple(shape[:-1]) if len(shape) > 2 else None


def _grid_of(y: Any) -> GridShape | None:
    """Grid that a container of fields states for all samples."""
    grid_shape = getattr(y, "grid_shape", None)
    return None if grid_shape is None else tuple(grid_shape)


def pair_fields(y_true: Any, y_pred: Any, kind: Kind | None = None) -> FieldPairs:
    """Pair two sets of samples and check their lengths; values are checked while iterating.

    Parameters
    ----------
    y_true, y_pred : array-like, list of array-like, (coords, fields), list of them, or object with `to_list`
        1-D: one scalar per sample, in which case the other is scalars too. 2-D: see `kind`. More axes:
        (n, *points_or_grid, c).
    kind : {"field", "scalar"}, optional
        Whether the rows of a 2-D y are one-channel fields (the default) or scalars of the sample.

    Returns
    -------
    FieldPairs
        The pairs.

    Raises
    ------
    FieldDataError
        If there are no samples, the numbers of samples differ, or `kind` does not fit.
    """
    if kind not in (None, "field", "scalar"):
        raise ValueError(f"kind is {kind!r}, expected 'field', 'scalar' or None.")
    true, predicted = _samples(y_true, "y_true"), _samples(y_pred, "y_pred")
    if len(true) == 0 or len(true) != len(predicted):
        raise FieldDataError(
            f"y_true has {len(true)} samples and y_pred {len(predicted)}, expected the same number, at least one."
        )
    coords = _coords_of(y_true)
    _check_same_places(y_true, y_pred, coords)
    _check_same_labels(y_true, y_pred)
    n_axes = np.ndim(true[0]) + 1
    numbers = [name for name, part in (("y_true", true), ("y_pred", predicted)) if _is_of_numbers(part)]
    if n_axes > 2 and kind == "scalar":
        raise FieldDataError(f"kind is 'scalar', which does not fit a y_true with {n_axes} axes.")
    if numbers and kind == "field":
        raise FieldDataError(
            f"kind is 'field', but {numbers[0]} is 1-D and holds one scalar per sample; leave kind out."
        )
    # One number for each sample has no norm of its own, whichever of the two it is.
    scalar = bool(numbers) or kind == "scalar"
    return FieldPairs(true, predicted, scalar, _grid_of(y_true), _grid_of(y_pred), coords)


def _is_of_numbers(samples: Any) -> bool:
    """Whether an array or a list holds one number for each sample; other sequences read fields as they are asked."""
    return isinstance(samples, np.ndarray | list | tuple) and np.ndim(samples[0]) == 0


def _check_same_places(y_true: Any, y_pred: Any, coords: FloatArray | None) -> None:
    """Raise where two containers of fields say that their channels or points are not the same."""
    true_names, names = (getattr(y, "channel_names", None) for y in (y_true, y_pred))
    if true_names is not None and names is not None and tuple(true_names) != tuple(names):
        raise FieldDataError(
            f"the channels of y_true are {list(true_names)} and those of y_pred {list(names)}; bring them into one "
            "order, or rename them."
        )
    others = None if coords is None else _coords_of(y_pred)
    if coords is None or others is None or coords.shape != others.shape or not coords.size:
        return
    slack = 1e-6 * np.ptp(coords.reshape(-1, coords.shape[-1]), axis=0)
    if (np.abs(coords - others) > slack).any():
        raise FieldDataError(
            "y_true lies on other points than y_pred, or on the same points in another order; bring both into one."
        )


def _check_same_labels(y_true: Any, y_pred: Any) -> None:
    """Raise where two tables have the same labels of columns or rows in another order, since arrays have none."""
    for axis in ("columns", "index"):
        true, predicted = (
            list(getattr(y, axis)) if hasattr(y, "iloc") and hasattr(y, axis) else [] for y in (y_true, y_pred)
        )
        if true != predicted and len(true) == len(predicted) and set(true) == set(predicted):
            place = next(place for place, pair in enumerate(zip(true, predicted, strict=True)) if pair[0] != pair[1])
            keep = "[list(y_true.columns)]" if axis == "columns" else ".loc[y_true.index]"
            raise FieldDataError(
                f"label {place} of the {axis} is {true[place]} in y_true and {predicted[place]} in y_pred: both hold "
                f"the same labels in different order. Pass y_pred{keep}, or y_pred.to_numpy() if its {axis} are in the "
                "order of y_true."
            )


def _coords_of(y: Any) -> FloatArray | None:
    """Coordinates of a container that holds them in one array."""
    is_pair = isinstance(y, tuple) and len(y) == 2 and not isinstance(y[1], list) and np.ndim(y[1]) > 2
    coords = y[0] if is_pair else getattr(y, "coords", None)
    array = None if coords is None or isinstance(coords, list) else np.asarray(coords)
    return None if array is None or array.dtype.kind not in "iuf" else array.astype(np.float64)


def unmasked(array: Any, name: str) -> Any:
    """Return an array; masked entries, which NumPy would take for numbers, raise a FieldDataError."""
    if np.ma.is_masked(array):
        raise FieldDataError(
            f"{name} has {int(np.ma.count_masked(array))} masked entries; fill them or leave out the samples."
        )
    return array


def _samples(y: Any, name: str) -> Sequence[Any] | npt.NDArray[Any]:
    """Take y apart into samples without copying arrays."""
    if hasattr(y, "to_list"):
        y = y.to_list()
    if isinstance(y, tuple) and len(y) == 2 and (isinstance(y[1], list) or np.ndim(y[1]) > 2):
        # Coordinates and fields, as estimators take and give them; the coordinates are no part of an error.
        y = y[1]
    if isinstance(y, list) and y and isinstance(y[0], tuple):
        y = [pair[1] for pair in y]
    if isinstance(y, Sequence) and not isinstance(y, str | bytes):
        return y
    array = np.asarray(unmasked(y, name))
    if array.ndim == 0:
        raise FieldDataError(f"{name} is {y!r}, expected an array with the sample axis first, or a list of arrays.")
    return array


def check_weights(sample_weight: Any, n_samples: int) -> FloatArray:
    """Weights (n,) as float64; ones by default."""
    if sample_weight is None:
        return np.ones(n_samples)
    weight = np.asarray(unmasked(sample_weight, "sample_weight"), dtype=np.float64)
    if weight.shape != (n_samples,):
        raise FieldDataError(f"sample_weight has shape {weight.shape}, expected ({n_samples},).")
    if not np.isfinite(weight).all() or (weight < 0).any() or weight.sum() == 0:
        raise FieldDataError("sample_weight holds negative, infinite or only zero weights, expected some > 0.")
    return weight


def check_average(average: str, allowed: Sequence[str]) -> None:
    """Refuse an unknown way to average."""
    if average not in allowed:
        raise ValueError(f"average is {average!r}, expected one of {list(allowed)}.")


def average_samples(values: FloatArray, weight: FloatArray, average: str) -> float | FloatArray:
    """Weighted mean over the samples, or the values themselves for average='none'."""
    if average == "none":
        return values
    mean = np.average(values, axis=0, weights=weight)
    return mean if average == "channel" else float(mean)


def root_of_squares(reduce: Callable[..., Any], values: FloatArray, axis: int | None = None) -> FloatArray:
    """Root of the sum or mean (`reduce`) of squares, also where double precision cannot hold the squares."""
    with np.errstate(over="ignore"):
        total = reduce(np.square(values), axis=axis)
    if ((total > _LEAST_SQUARE) & (total < np.inf)).all():
        return np.asarray(np.sqrt(total))
    largest = np.maximum(
        values.max(axis=axis, keepdims=True, initial=0.0), -values.min(axis=axis, keepdims=True, initial=0.0)
    )
    # Powers of two, so that no digit changes.
    exponent = np.frexp(largest)[1]
    squares = np.square(np.ldexp(values, -exponent))
    return np.ldexp(np.sqrt(reduce(squares, axis=axis)), exponent.squeeze(axis))


def sizes_of(roots: FloatArray) -> FloatArray:
    """Sizes of channels from their root mean squares, (c,); a channel of zeros has that of the largest, or 1."""
    return np.where(roots > 0, roots, roots.max() if roots.any() else 1.0)


def norm_of_set(norms: FloatArray, weight: FloatArray) -> FloatArray:
    """Root of the mean of the squared norms of the samples, shape () or (c,)."""
    counted = weight > 0
    return root_of_squares(partial(np.average, weights=weight[counted]), norms[counted], axis=0)


def divide_norms(
    error: FloatArray,
    true: FloatArray,
    weight: FloatArray,
    what: str,
    set_norm: float | FloatArray | None = None,
    rounding: float = ROUNDING,
) -> FloatArray:
    """Quotient of norms; where a true norm is zero up to rounding, the norm of the set takes its place.

    Parameters
    ----------
    error, true : ndarray of shape (n,) or (n, c)
        Norms of the errors and of the true fields.
    weight : ndarray of shape (n,)
        Weights of the samples; those without weight are not looked at.
    what : str
        Name of what the first axis counts, for the message.
    set_norm : float, ndarray of shape (c,) or None, default=None
        What takes the place of a true norm that is zero beside it; None leaves 0/0 = 0 and refuses the rest.
    rounding : float, default=1e-13
        Part of `set_norm` up to which a true norm is zero.

    Returns
    -------
    ndarray of the shape of `error`
        Relative errors.

    Raises
    ------
    FieldDataError
        If a true norm and the norm of the set are 0 and the error is not.
    """
    if set_norm is not None:
        true = np.where(true > rounding * np.asarray(set_norm), true, set_norm)
    undefined = (true == 0) & (error > 0) & (weight > 0).reshape(-1, *[1] * (error.ndim - 1))
    if undefined.any():
        position = np.argwhere(undefined)[0]
        channel = f", channel {position[1]}" if len(position) > 1 else ""
        raise FieldDataError(
            f"{what} {position[0]}{channel} of y_true is zero everywhere and its prediction is not; the whole set "
            "is zero there, so nothing tells the size that errors are relative to. Use root_mean_squared_error."
        )
    return np.divide(error, true, out=np.zeros_like(error), where=true > 0)
