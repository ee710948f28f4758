"""Stages of a surrogate: each passes samples on to the next one, and turns what comes back into its own predictions.

A stage calls the next one as often as it needs: once on a grid, several times for shifted samplings of a finer grid, or
once for each symmetry over which predictions are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch

from skop._typing import FloatArray, GridShape, IntArray
from skop.data import (
    DataSpec,
    FieldSet,
    GridResampler,
    GridSymmetries,
    PointSymmetries,
    Predictions,
    Scalers,
    query_points,
    unit_grid,
)
from skop.exceptions import FieldDataError, SkopWarning, warn
from skop.surrogate._domain import Domain
from skop.surrogate._predictions import averaged, combined, each_part, joined, on_grid_of, rows_of
from skop.surrogate._profile import ROUNDING
from skop.surrogate._refinement import (
    over_periods,
    predict_on_lines,
    predict_refined,
    refinement_factors,
    warn_of_multiples,
    warn_of_other_shape,
)
from skop.surrogate._symmetries import declared_symmetries, unseen_by_scalers

__all__ = ["PREDICT_POINTS", "Query", "Refine", "Resample", "Rest", "Sensors", "Stage", "Symmetrise", "in_units"]

#: Number of points that are read and predicted at once, to bound the memory.
PREDICT_POINTS = 2**17


@dataclass(frozen=True, eq=False)
class Query:
    """A request to a stage.

    Attributes
    ----------
    inputs : FieldSet
        Samples.
    places : FieldSet or None, default=None
        Points of the predictions, with the input fields there; None for those of the samples.
    base : callable or None, default=None
        Function of the indices of samples that gives the standardised predictions of the base; None asks the base.
    symmetries : GridSymmetries, PointSymmetries or None, default=None
        Symmetries of which one moves the samples, and the predictions back.
    element : int or None, default=None
        Number of this symmetry.
    """

    inputs: FieldSet
    places: FieldSet | None = None
    base: Callable[[IntArray], Predictions] | None = None
    symmetries: GridSymmetries | PointSymmetries | None = None
    element: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Options of a loader for these samples."""
        held = {"queries": self.places, "base": self.base, "symmetries": self.symmetries, "element": self.element}
        return {name: value for name, value in held.items() if value is not None}


#: Lines of a grid, and the number of the coordinate along each of its axes.
Lines = tuple[tuple[FloatArray, ...], tuple[int, ...]]
#: The stages after one, as one function.
Rest = Callable[[Query], Predictions]


class Stage(Protocol):
    """A stage of a surrogate."""

    def predict(self, query: Query, rest: Rest) -> Predictions:
        """Predict by what the next stage predicts for samples that this one makes of those of the query."""
        ...


@dataclass(frozen=True, eq=False)
class Resample:
    """Interpolate samples to a regular grid, and predictions back to their points.

    Attributes
    ----------
    resampler : GridResampler
        The grid.
    scalers : Scalers
        Scalers of the fit.
    base : BaseModel or None
        Base that stays on the points of the samples; the network then corrects it on the grid.
    is_base_alone : bool
        Whether the network has no share.
    frame : tuple of (slice, ndarray of bool, shape (q,)) or None, default=None
        Channels of the last frame among those of the samples, and the ones of which the network learns the change
        since this frame, which stays on their points too.
    """

    resampler: GridResampler
    scalers: Scalers
    base: Any
    is_base_alone: bool
    frame: tuple[slice, Any] | None = None

    def predict(self, query: Query, rest: Rest) -> Predictions:
        """Predict on the grid and interpolate the outputs, or the corrections to a base on points, to the places."""
        inputs, places = query.inputs, query.inputs if query.places is None else query.places
        if self.base is None:
            on_grid = self.resampler.to_grid(inputs)
            whole = rest(Query(on_grid))
            if self.frame is None:
                return self._to_points(whole, places)
            change = combined(np.subtract, whole, _frame_of(on_grid, self.frame))
            return combined(np.add, _frame_of(places, self.frame), self._to_points(change, places))
        found = self.base.predict(inputs)
        at_places = in_units(self.scalers, found if places is inputs else self.base.predict(inputs, places))
        if self.is_base_alone:
            return at_places
        base = on_grid_of(self.resampler, found, inputs)
        whole = rest(Query(self.resampler.to_grid(inputs), base=partial(rows_of, base)))
        correction = combined(np.subtract, whole, in_units(self.scalers, base))
        return combined(np.add, at_places, self._to_points(correction, places))

    def _to_points(self, found: Predictions, places: FieldSet) -> Predictions:
        """Fields on the grid, interpolated to points."""
        return found if found.fields is None else replace(found, fields=self.resampler.to_points(found.fields, places))


@dataclass(frozen=True, eq=False)
class Refine:
    """Predict on other grids than that of the fit, by samplings at the spacing of the fit, or on its grid by splines.

    Attributes
    ----------
    method : {"average", "interpolate", "native"}
        As in `skop.LaMORegressor`.
    geometry : {"grid", "structured", "points"}
        Arrangement of the points in the fit.
    spacing : tuple of float or None
        Spacing of the grid of the fit, if it was on one that is straight.
    grid_shape : tuple of int or None
        Number of points along each axis in the fit.
    domain : Domain
        Points of the fit.
    scalers : Scalers
        Scalers of the fit.
    base : BaseModel or None
        Base, which has its own way to finer grids: the network's corrections are refined.
    is_base_alone : bool
        Whether the network has no share.
    periodic : tuple of int, default=()
        Axes of the grid around which declared shifts move samples, or the fields of the fit go on. A grid is one period
        along these.
    is_of_arrays : bool, default=False
        Whether the fit was on arrays, which tell no coordinates.
    frame : tuple of (slice, ndarray of bool, shape (q,)) or None, default=None
        Channels of the last frame among those of the samples, and the ones of which the network learns the change
        since this frame: changes are refined.
    """

    method: str
    geometry: str
    spacing: tuple[float, ...] | None
    grid_shape: GridShape | None
    domain: Domain
    scalers: Scalers
    base: Any
    is_base_alone: bool
    periodic: tuple[int, ...] = ()
    is_of_arrays: bool = False
    frame: tuple[slice, Any] | None = None

    def predict(self, query: Query, rest: Rest) -> Predictions:
        """Predict for samples on grids of any spacing."""
        if query.base is not None:  # corrections on the grid of the fit
            return rest(query)
        self.require_grid(query.inputs)
        inputs = query.inputs
        if self.is_of_arrays and self.grid_shape and _is_of_array(inputs):
            warn_of_multiples(inputs.grid_shape or (), self.grid_shape, self.periodic)
        if self.is_direct(inputs) or (self.is_base_alone and not self._goes_around(inputs)):
            return rest(replace(query, inputs=self.over_periods(inputs)[0]))
        step = max(1, PREDICT_POINTS // int(inputs.n_points.max()))
        parts = [self._refined(inputs.read(slice(i, i + step)), rest) for i in range(0, len(inputs), step)]
        return each_part(np.exp, joined(parts)) if self.scalers.learns_logarithms else joined(parts)

    def _refined(self, inputs: FieldSet, rest: Rest) -> Predictions:
        """Predict for samples on another grid; logarithms where these are learnt."""
        average = self.method == "average" and not self.is_base_alone
        found = self.on_grid_of_fit(inputs, lambda part: self._smooth(part, rest), average=average)
        if self.frame is not None:
            return combined(np.add, found, _frame_of(inputs, self.frame))
        if self.base is None:
            return found
        if not self._goes_around(inputs):
            return combined(np.add, found, self._smooth_base(inputs))
        return combined(np.add, found, self.on_grid_of_fit(inputs, self._smooth_base, average=False))

    def _smooth(self, inputs: FieldSet, rest: Rest) -> Predictions:
        """Predict what splines can interpolate: logarithms where these are learnt; corrections of a base; changes."""
        found = rest(Query(inputs))
        if self.frame is not None:
            return combined(np.subtract, found, _frame_of(inputs, self.frame))
        found = each_part(np.log, found) if self.scalers.learns_logarithms else found
        return found if self.base is None else combined(np.subtract, found, self._smooth_base(inputs))

    def _smooth_base(self, inputs: FieldSet) -> Predictions:
        """Predictions of the base in physical units, or logarithms of these."""
        return in_units(self.scalers, self.base.predict(inputs))

    def require_grid(self, inputs: FieldSet) -> None:
        """Raise FieldDataError if the fit was on a grid, and these samples have none."""
        if self.geometry != "points" and inputs.grid_shape is None:
            raise FieldDataError(
                "the points of X form no regular grid in C order, but the estimator was fitted on one; sort the points "
                "of a grid by numpy.lexsort(coords.T[::-1]), or resample the fields onto a grid."
            )

    def factors(self, inputs: FieldSet) -> GridShape:
        """Return how many times finer than in the fit the grid is along each axis; warn of points elsewhere."""
        return self._plan(inputs)[0]

    def is_direct(self, inputs: FieldSet) -> bool:
        """Whether the network reads these samples as they are; warn of points elsewhere."""
        factors, lines = self._plan(inputs)
        return max(factors) == 1 and lines is None

    def on_grid_of_fit(self, inputs: FieldSet, predict: Callable[[FieldSet], Predictions], *, average: bool) -> Any:
        """Predict by samples on the grid of the fit, or at its spacing; as they are where these are."""
        factors, lines = self._plan(inputs)
        inputs, periods = self.over_periods(inputs)
        if lines is not None:
            return predict_on_lines(inputs, *lines, predict, periods=periods)
        if max(factors) == 1:
            return predict(inputs)
        return predict_refined(inputs, factors, predict, average=average, periods=periods)

    def _goes_around(self, inputs: FieldSet) -> bool:
        """Whether samples are one period along an axis, where they have another number of points than the fit."""
        sizes = zip(inputs.grid_shape or (), self.grid_shape or (), self.over_periods(inputs[:1])[1], strict=False)
        return any(period and size != fitted for size, fitted, period in sizes)

    def over_periods(self, inputs: FieldSet) -> tuple[FieldSet, tuple[float, ...]]:
        """Samples on one period along axes around which they go, and the periods, 0 along other axes."""
        lines, axes = self.domain.lines, self.domain.axes
        around = [axis for axis in self.periodic if axes is not None and axis < len(axes) and axes[axis] == axis]
        if not around or lines is None or inputs.grid_shape is None or not inputs.shared_coords:
            return inputs, ()
        return over_periods(inputs, lines, around, may_move=self.is_of_arrays and _is_of_array(inputs))

    def _plan(self, inputs: FieldSet) -> tuple[GridShape, Lines | None]:
        """Factors; and the lines of the grid of the fit, and their coordinates, where no whole steps lead to it."""
        periods: tuple[float, ...] = ()
        if inputs.shared_coords:
            inputs, periods = self.over_periods(inputs[:1])
        is_elsewhere, grid = self.domain.check(inputs), inputs.grid_shape
        usable = self.spacing is not None and self.geometry == "grid" and inputs.shared_coords
        if self.spacing is None or not usable or grid is None:
            there = self.grid_shape
            if self.geometry != "points" and grid is not None and there is not None and not is_elsewhere:
                warn_of_other_shape(grid, there)
            return (1,), None
        is_native, lines, axes = self.method == "native", self.domain.lines, self.domain.axes
        has_lines = lines is not None and not (is_native or is_elsewhere)
        options = {"native": is_native, "quiet": is_elsewhere, "may_be_finer": has_lines}
        factors = refinement_factors(inputs, self.spacing, **options)
        if not has_lines or lines is None or axes is None:
            return factors, None
        steps = [(-(-size // factor), len(line)) for size, factor, line in zip(grid, factors, lines, strict=True)]
        for axis, period in enumerate(periods):
            # Parts of a period that no whole steps divide are no grid around it; of cells, no centre is one of the fit.
            first = np.reshape(inputs.coords, (-1, len(grid)))[0, axis]
            is_off = grid[axis] % factors[axis] > 0 or abs(first - lines[axis][0]) > ROUNDING * abs(period)
            if period and factors[axis] > 1 and is_off:
                steps[axis] = (grid[axis], len(lines[axis]))
        differ = [pair for pair in steps if pair[0] != pair[1]]
        return factors, (lines, axes) if differ and min(map(min, differ)) > 1 else None


@dataclass(frozen=True, eq=False)
class Sensors:
    """Bring input fields to sensors, the only points where a network reads them; it predicts anywhere.

    Attributes
    ----------
    points : ndarray of shape (P, d) or None
        Sensors; None for a network that reads no fields.
    grid_shape : tuple of int or None
        Number of sensors along each axis, if they form a grid.
    """

    points: FloatArray | None
    grid_shape: GridShape | None

    def predict(self, query: Query, rest: Rest) -> Predictions:
        """Predict at the points of the samples by their fields at the sensors."""
        return rest(self.query(query))

    def query(self, query: Query) -> Query:
        """Return the query for samples at the sensors, with predictions at the same places."""
        held = self.at(query.inputs)
        if held is query.inputs:
            return query
        return replace(query, inputs=held, places=query.inputs if query.places is None else query.places)

    def at(self, inputs: FieldSet) -> FieldSet:
        """Return the samples with their fields at the sensors, interpolated where they are elsewhere."""
        if self.points is None or (inputs.shared_coords and np.array_equal(inputs.coords, self.points)):
            return inputs
        try:
            return query_points(self.points, inputs).with_grid(self.grid_shape)
        except FieldDataError as error:
            raise FieldDataError(
                f"the input fields of X cannot be interpolated to the sensors of the fit: {error}"
            ) from error


@dataclass(frozen=True, eq=False)
class Symmetrise:
    """Declared symmetries: they move samples in a training, and average predictions if this is set.

    Attributes
    ----------
    options : SymmetryOptions
        Declared symmetries.
    spec : DataSpec
        Form, sizes and channel names of the data.
    domain : Domain
        Points of the fit.
    scalers : Scalers
        Scalers of the fit.
    centre : ndarray of shape (d,) or None
        Centre about which the fit has moved points; None where it has mapped those of a grid onto each other.
    columns : sequence of str or None
        Names of the global parameters.
    base : BaseModel or None
        Base, which is averaged over the same symmetries.
    is_base_alone : bool
        Whether the network has no share.
    """

    options: Any
    spec: DataSpec
    domain: Domain
    scalers: Scalers
    centre: FloatArray | None
    columns: Sequence[str] | None
    base: Any
    is_base_alone: bool

    def predict(self, query: Query, rest: Rest) -> Predictions:
        """Predict once, or once for each symmetry, and average."""
        found = [rest(moved) for moved in self.queries(query)]
        return found[0] if len(found) == 1 else averaged(found)

    def queries(self, query: Query) -> Iterator[Query]:
        """Yield the queries whose predictions are averaged: one for each symmetry if this is set, otherwise one."""
        # Symmetries that map the points of a grid onto each other do not map other points.
        if not self.options.average_predictions or (query.places is not None and not self.moves_points):
            yield query
            return
        if self.base is not None and self.base.exchange is None:
            raise FieldDataError(
                "predictions over a base cannot be averaged over symmetries that the fit of the base did not average "
                "over; fit anew, or set SymmetryOptions(average_predictions=False)."
            )
        if self.is_base_alone:
            yield query
            return
        symmetries = self.of(query.inputs)
        if isinstance(symmetries, PointSymmetries) and self.centre is None:
            self.warn_of_unseen(symmetries, query.inputs)
        yield from self.images(query)

    def images(self, query: Query) -> Iterator[Query]:
        """Yield a query for each symmetry."""
        if self.base is not None and self.base.exchange is not None and query.places is None:
            # Each image would ask for the same predictions.
            query = replace(query, base=partial(rows_of, self.base.predict(query.inputs)))
        symmetries = self.of(query.inputs)
        for number in range(symmetries.order):
            yield replace(query, symmetries=symmetries, element=number)

    @property
    def moves_points(self) -> bool:
        """Whether points are moved, as in the fit; those of a later declaration are where no grid is."""
        return self.centre is not None or self.spec.network_spec.geometry == "points"

    @property
    def averages_on_grid(self) -> bool:
        """Whether predictions are averaged over symmetries that map the points of a grid onto each other."""
        return bool(self.options.average_predictions) and not self.moves_points

    def of(self, inputs: FieldSet) -> GridSymmetries | PointSymmetries:
        """Return the symmetries for samples of the kind of the fit."""
        centre = self.centre
        if centre is None and self.moves_points:
            centre = (self.domain.lower + self.domain.upper) / 2
        extent = float(np.max(self.domain.upper - self.domain.lower))
        points = inputs.coords if inputs.shared_coords else next(iter(inputs.read(slice(1)).coords_list()), None)
        return declared_symmetries(self.options, self.spec, inputs.grid_shape, centre, extent, self.columns, points)

    def warn_of_unseen(self, symmetries: PointSymmetries, inputs: FieldSet) -> None:
        """Warn about symmetries which the first fit did not have, and which its scaling does not suit."""
        box = self.domain.lower, self.domain.upper
        if unseen := unseen_by_scalers(symmetries, self.scalers, inputs.coords, *box):
            warn(
                "samples are moved by symmetries that the first fit did not have, and its scaling does not suit them: "
                f"{' and '.join(unseen)}. Declare the symmetries in the first fit, or fit anew by warm_start=False.",
                SkopWarning,
            )


def _is_of_array(inputs: FieldSet) -> bool:
    """Whether samples have the points that arrays are given."""
    grid = inputs.grid_shape
    return grid is not None and inputs.shared_coords and np.array_equal(inputs.coords, unit_grid(grid))


def _frame_of(samples: FieldSet, frame: tuple[slice, Any]) -> Predictions:
    """Channels of samples as predictions."""
    channels, is_change = frame
    return Predictions(np.where(is_change, np.asarray(samples.values)[..., channels], 0))


def in_units(scalers: Scalers, found: Predictions) -> Predictions:
    """Standardised predictions in physical units, or logarithms of these."""
    return Predictions(
        *(
            None if part is None or scaler is None else scaler.destandardize(torch.from_numpy(part)).numpy()
            for part, scaler in zip((found.fields, found.scalars), (scalers.target, scalers.scalars), strict=True)
        )
    )
