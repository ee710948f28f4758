"""Training ranges and extrapolation warnings.

`Domain` compares the points of a prediction with those of the fit. Another box or other grid lines cause a warning:
values may still be good if the problem does not depend on the position, which skop cannot know. A grid that is bent,
has exchanged axes or runs backwards is refused. The network identifies points by their index along the axes, so it
would assign values to wrong points: reorder the axes as in the fit, or interpolate to a straight grid. After a fit on
bent grids a grid is refused whose nodes lie where the fit had them only after its axes are exchanged or reversed.

`SeenRanges` compares global parameters and input fields with their ranges in the fit. New samples of the same kind
rarely exceed its tolerances, and data in wrong units do.

Notation: n samples, m sets of points, P points of a set, d space dimensions, c channels, p global parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import Any

import numpy as np

from skop._typing import FloatArray, GridShape
from skop.data import (
    NODES,
    Extremes,
    FieldSet,
    PointSymmetries,
    Predictions,
    Shapes,
    boxes,
    iterate_coords,
    iterate_rows,
    spread_out,
    unit_shape,
)
from skop.exceptions import ExtrapolationWarning, FieldDataError, ResolutionWarning, warn
from skop.surrogate._profile import (
    FEW,
    NAMED,
    ONE_SIZE,
    OTHER_UNIT,
    READ,
    ROUNDING,
    Finding,
    in_order,
    is_even_in_logarithms,
    labels_of,
)

__all__ = ["Domain", "SeenRanges", "warn_of_findings"]

#: Part of the range of a fit, or of a spacing of its grid, by which numbers may be outside, or off their line.
_MARGIN = 0.05
#: Parameters may be outside by this number divided by the number of samples n too, since few samples cover less of a
#: design: a new uniform number is further outside than 8 / n of the range with a probability of exp(-8) / n.
_OF_FEW = 8.0
#: Further part for a parameter whose distribution has tails, so that normal numbers are rarely outside; and the
#: kurtosis up to which it has none, and from which it has. Uniform numbers have 1.8, normal numbers 3. Of 100 samples,
#: one of twenty uniform designs is above 2.03, and one of a hundred normal ones below 2.22.
_TAILS, _KURTOSIS = 0.6, (2.0, 2.2)
#: Axes of a bent grid are exchanged or reversed if its nodes come this many times closer to those of the fit by this.
_CLOSER = 2.0
#: Part of the range of sizes of fields, in logarithms, by which a size may be outside. The whole range would miss two
#: thirds of the factors of 1000 in 100 samples in place of a quarter.
_SIZES = 0.5
#: Parameters follow from each other if a combination of them varies by less than this part of their deviations.
_FOLLOWS = 1e-3
#: Multiple of the range of y by which a prediction may be outside, unless the model is wrong.
_OUTPUTS = 10.0


@dataclass(frozen=True, eq=False)
class Domain:
    """The points of a fit."""

    #: Corners (d,) of their box.
    lower: FloatArray
    upper: FloatArray
    #: Coordinate along which each axis of a straight grid runs, and its values; None where the samples share none.
    axes: tuple[int, ...] | None = None
    lines: tuple[FloatArray, ...] | None = None
    #: The points (P, d) themselves, where predictions must be at these and in their order.
    points: FloatArray | None = None
    #: Corners (d,) of the box of target fields on points of their own, with a margin.
    reach: tuple[FloatArray, FloatArray] | None = None
    #: Where nodes of bent grids lie.
    shapes: Shapes | None = None

    @classmethod
    def from_fit(cls, inputs: FieldSet, geometry: str, *, is_tied: bool = False) -> Domain:
        """Describe the points of training samples, which the model is tied to if it has statistics of single points.

        The geometry is how the points are read; a bent ``"grid"`` has shapes in place of lines.
        """
        lower, upper = _box_of(inputs)
        grid = inputs.grid_shape
        if geometry == "points" or grid is None or inputs.is_ragged:
            is_tied = is_tied and geometry == "points" and inputs.shared_coords
            return cls(lower, upper, points=_as_sets(inputs)[0] if is_tied else None)
        if geometry == "grid" and len(grid) == inputs.n_dims and (inputs.shared_coords or len(inputs) == 1):
            points = _as_sets(inputs)
            axes = _main_coordinates(points, grid)
            lines, is_bent = _lines(points, grid, axes)
            if sorted(axes) == list(range(len(grid))) and not is_bent.any():
                return cls(lower, upper, axes, tuple([line[0] for line in lines]))
        points = _as_sets(inputs if inputs.shared_coords else spread_out(inputs))
        shapes = Shapes.from_fit([_lattice(sample, grid).reshape(-1, inputs.n_dims) for sample in points])
        return cls(lower, upper, shapes=shapes)

    def with_targets(self, targets: FieldSet) -> Domain:
        """Return the domain of a fit whose target fields are on points of their own, these and earlier ones."""
        lower, upper = _box_of(targets)
        slack = _MARGIN * (upper - lower)
        lower, upper = lower - slack, upper + slack
        if self.reach is not None:
            lower, upper = np.minimum(lower, self.reach[0]), np.maximum(upper, self.reach[1])
        return replace(self, reach=(lower, upper))

    def moved_by(self, symmetries: PointSymmetries, inputs: FieldSet) -> Domain:
        """Return the domain of a fit whose samples were moved: the boxes of all moved points."""
        moved, reach = np.concatenate([symmetries.images(part) for _, part in iterate_coords(inputs)]), self.reach
        # Moved samples have axes in other directions.
        if reach is not None:
            corners = symmetries.images(np.stack(reach))
            reach = (corners.min(axis=0), corners.max(axis=0))
        return replace(self, lower=moved.min(axis=0), upper=moved.max(axis=0), reach=reach, shapes=None)

    def check(self, inputs: FieldSet) -> bool:
        """Warn if the points of a prediction lie elsewhere than those of the fit, and tell it.

        Points on a grid that is bent, exchanges axes or runs backwards, and points to which a model is not tied, are an
        error.
        """
        words = ""
        if inputs.shared_coords or inputs.in_memory:
            words = self._words(_as_sets(inputs), inputs.grid_shape)
        else:
            for start, piece in iterate_coords(inputs):
                words = words or self._words(np.asarray(piece, dtype=np.float64), inputs.grid_shape, start)
        if words:
            warn(
                f"X {words}; values there are extrapolated. Check against known samples, or bring X to the points of "
                "the fit.",
                ResolutionWarning,
            )
        return bool(words)

    def _words(self, points: FloatArray, grid: GridShape | None, start: int = 0) -> str:
        """Difference between points (of samples from a number on) and the fit, in words; empty if there is none."""
        if self.points is not None:
            extent = self.upper - self.lower
            if points.shape[1:] != self.points.shape or (np.abs(points - self.points) > ROUNDING * extent).any():
                raise FieldDataError(
                    "X lies on other points than the fit, or on the same points in another order, but the scaling "
                    "'point' has statistics of each single point; bring X to the points of the fit, or fit with "
                    "scaling of whole channels."
                )
        if self.lines is not None and self.axes is not None and grid is not None:
            return self._differences(points, grid, self.axes, self.lines, start)
        if self.shapes is not None and grid is not None:
            for number, sample in enumerate(points):
                if change := _better_order(self.shapes, _lattice(sample, grid)):
                    raise FieldDataError(
                        f"the grid of sample {start + number} of X has its axes in another order or direction than "
                        f"the grids of the fit: its nodes lie far closer to those of the same index there with "
                        f"{change}; change coordinates and values alike."
                    )
        return self._outside(points)

    def _differences(
        self, points: FloatArray, grid: GridShape, axes: tuple[int, ...], lines: tuple[FloatArray, ...], start: int
    ) -> str:
        """Difference in box or lines between a grid and that of the fit, in words; empty if there is none."""
        own = _main_coordinates(points, grid)
        varies = [axis for axis, size in enumerate(grid) if size > 1 and len(lines[axis]) > 1]
        wrong = [axis for axis in varies if own[axis] != axes[axis]]
        if wrong and sorted(own) == list(range(len(grid))):
            raise FieldDataError(
                f"axis {wrong[0]} of the grid of X runs along coordinate {own[wrong[0]]}, but in the fit it ran along "
                f"coordinate {axes[wrong[0]]}; exchange the axes of the grid."
            )
        ours, is_bent = _lines(points, grid, axes)
        if wrong or is_bent.any():
            sample = start + (0 if wrong else int(np.argmax(is_bent)))
            raise FieldDataError(
                f"the grid of X is bent, first in sample {sample}, but the estimator was fitted on a straight one of "
                f"{_shape(len(line) for line in lines)} points and knows no other; interpolate X onto a straight grid, "
                "or fit samples on bent grids."
            )
        differs = False
        for axis in varies:
            found, line = ours[axis], lines[axis]
            if (np.sign(found[:, -1] - found[:, 0]) != np.sign(line[-1] - line[0])).any():
                raise FieldDataError(
                    f"coordinate {axes[axis]} runs backwards along axis {axis} of the grid of X, from "
                    f"{found[0, 0]:.3g} to {found[0, -1]:.3g}, but in the fit from {line[0]:.3g} to {line[-1]:.3g}; "
                    "reverse this axis."
                )
            places = np.linspace(0.0, len(line) - 1.0, grid[axis])
            expected = np.interp(places, np.arange(len(line)), line)
            spacing = np.abs(np.diff(line)).mean()
            # Grids without end points, such as periodic ones, end elsewhere when they are refined.
            slack = _MARGIN * spacing if grid[axis] == len(line) else max(spacing, np.abs(np.diff(found)).mean())
            differs |= bool((np.abs(found - expected) > slack).any())
        if not differs:
            return ""
        here, there = f"{_shape(grid)} points", f"{_shape(len(line) for line in lines)} points"
        box, fitted = _boxes(*_corners(points), self.lower, self.upper)
        if box == fitted:
            return f"lies on a grid of {here} in the box {fitted} of the fit, but its lines are at other places there"
        return f"lies on a grid of {here} in the box {box}, but the fit saw {there} in the box {fitted}"

    def _outside(self, points: FloatArray) -> str:
        """Box of points that leave the box of the fit, in words; empty if they are inside."""
        lower, upper = _corners(points)
        low, high = _limits_of_box(np.stack([self.lower, self.upper]))
        if (lower >= low).all() and (upper <= high).all():
            return ""
        box, fitted = _boxes(lower, upper, self.lower, self.upper)
        return f"has points in the box {box}, but those of the fit lie in {fitted}"


# ---------------------------------------------------------------------- ranges
@dataclass(frozen=True, eq=False)
class SeenRanges:
    """Ranges of the inputs of a fit, two rows each: the lowest and the highest."""

    n_samples: int
    #: Global parameters, or the features of a table, (2, p).
    params: FloatArray | None
    #: 1 for parameters whose distribution has tails, as measured data have, 0 for those of a design, or between, (p,).
    tailed: FloatArray | None
    #: Values of the input fields, and root mean squares of the fields of a sample, (2, c).
    values: FloatArray | None
    sizes: FloatArray | None
    #: Coordinates (2, d), and of a sample the longest side of the box and the mean distance of neighbours, (2, 1).
    coords: FloatArray
    sides: FloatArray
    spacing: FloatArray
    #: Times of the frames (2, 1), for estimators that predict at given times.
    times: FloatArray | None = None
    #: Medians of the parameters (p,), and 1 for those that are compared by logarithms, which are spread more evenly.
    medians: FloatArray | None = None
    in_logarithms: FloatArray | None = None
    #: Values of the target fields, and scalars, (2, q + s).
    outputs: FloatArray | None = None
    #: 1 for parameters whose lowest and highest values several samples share, as the levels of a design, (p,).
    in_levels: FloatArray | None = None
    #: Weights of the parameters, and a constant (r, p + 1): their products with parameters and 1 were zero in the fit,
    #: and are outside of it from 1 on.
    relations: FloatArray | None = None

    @classmethod
    def from_fit(
        cls, inputs: FieldSet, extremes: Extremes | None = None, targets: Extremes | None = None, scalars: Any = None
    ) -> SeenRanges:
        """Describe the inputs of a fit, by statistics of their fields too, and its target fields and scalars."""
        params = None if inputs.params is None else np.asarray(inputs.params, dtype=np.float64)
        spread: dict[str, Any] = {"tailed": None}
        if params is not None:
            in_logarithms = is_even_in_logarithms(params)
            scaled = np.where(in_logarithms, np.log(np.abs(np.where(params == 0, 1.0, params))), params)
            tailed = np.interp(_kurtosis(scaled), _KURTOSIS, (0.0, 1.0))
            spread = {"tailed": tailed, "in_logarithms": 1.0 * in_logarithms, "medians": np.median(params, axis=0)}
            # Repeated runs share all values, whatever their design.
            rows = np.unique(params, axis=0)
            at_ends = [np.sum(rows == end, axis=0) for end in _range(params)]
            spread["in_levels"] = 1.0 * ((np.min(at_ends, axis=0) > 1) & (np.ptp(params, axis=0) > 0))
            spread["relations"] = _relations(rows)
        outputs = [] if targets is None else [_values_of(targets)]
        outputs += [] if scalars is None else [_range(np.asarray(scalars, dtype=np.float64))]
        lower, upper = boxes(inputs)
        return cls(
            n_samples=len(inputs),
            params=None if params is None else _range(params),
            values=None if extremes is None else _values_of(extremes),
            sizes=None if extremes is None else _range(extremes.size),
            coords=np.stack([lower.min(axis=0), upper.max(axis=0)]),
            sides=_range((upper - lower).max(axis=1, keepdims=True)),
            spacing=_range(_mean_spacing(inputs, lower, upper)),
            outputs=np.concatenate(outputs, axis=1) if outputs else None,
            **spread,
        )

    def warn_of_outputs(self, found: Predictions, n_frames: int | None = None) -> bool:
        """Warn if a prediction is far outside the range of y in the fit, although X may be inside, and tell it.

        Outputs with another number of channels than in the fit are ignored, but other frames are compared with all
        frames of the fit. Frames in which a channel is constant up to rounding, beside the others, are ignored.
        """
        parts = [
            np.reshape(part, (-1, np.shape(part)[-1])) for part in (found.fields, found.scalars) if part is not None
        ]
        count = sum(part.shape[1] for part in parts)
        if self.outputs is None or self.n_samples < FEW:
            return False
        low, high = self.outputs
        size = count if n_frames is None else count // n_frames
        if count != len(low):
            if n_frames is None or len(low) % size:
                return False
            low, high = (
                np.tile(reduce(held.reshape(-1, size), axis=0), n_frames)
                for reduce, held in ((np.min, low), (np.max, high))
            )
        extremes = np.concatenate([_range(part) for part in parts if len(part)], axis=1)
        excess = np.maximum(low - extremes[0], extremes[1] - high)
        sizes = np.tile(np.maximum(np.abs(low), np.abs(high)).reshape(-1, size).max(axis=0), count // size)
        width = np.where(high - low > ROUNDING * sizes, high - low, np.inf)
        worst = int(np.argmax(excess / width))
        is_far = bool(excess[worst] > _OUTPUTS * width[worst])
        if is_far:
            n_channels = 0 if found.fields is None else np.shape(found.fields)[-1]
            what = f"channel {worst}" if worst < n_channels else f"scalar {worst - n_channels}"
            value = extremes[int(extremes[1, worst] - high[worst] == excess[worst]), worst]
            warn(
                f"a prediction of {what} is {value:.3g}, but y of the fit was {low[worst]:.3g} to {high[worst]:.3g} "
                f"({excess[worst] / width[worst]:.2g} times this range outside), although X is inside: the model is "
                "wrong there. Compare with other estimators, or with other samples; add samples there.",
                ExtrapolationWarning,
            )
        return is_far

    def warn_of_states(self, found: Predictions, n_frames: int) -> bool:
        """Warn if a rollout over more steps than the fit leaves the range of all frames of the fit, and tell it."""
        part = found.scalars if found.fields is None else found.fields
        if self.outputs is None or part is None or not np.size(part):
            return False
        size = np.shape(part)[-1] // n_frames
        frames = self.outputs.reshape(2, -1, size)
        n_steps = frames.shape[1]
        given = self.params if self.values is None else self.values
        if given is not None and given.shape[1] % size == 0:
            frames = np.concatenate([frames, given.reshape(2, -1, size)], axis=1)
        low, high = frames[0].min(axis=0), frames[1].max(axis=0)
        lowest, highest = _range(np.reshape(part, (-1, n_frames * size))).reshape(2, n_frames, size)
        # There are as many states as frames, which cover more of their range than runs do of a design.
        margin = (_MARGIN + _OF_FEW / (self.n_samples * frames.shape[1])) * (high - low)
        margin = np.maximum(margin, _rounding_of(np.stack([low, high])))
        # A larger wave than those of the fit is no warning if it does not grow.
        floor = np.minimum(low, lowest[:n_steps].min(axis=0)) - margin
        ceiling = np.maximum(high, highest[:n_steps].max(axis=0)) + margin
        outside = np.argwhere((lowest < floor) | (highest > ceiling))
        if not len(outside):
            return False
        step, channel = outside[0]
        value = (highest if highest[step, channel] > ceiling[channel] else lowest)[step, channel]
        warn(
            f"in step {step + 1} of {n_frames} the rollout leaves the states of the fit, whose trajectories have "
            f"{n_steps} steps: channel {channel} is {value:.3g}, but was {low[channel]:.3g} to {high[channel]:.3g} in "
            "all of their frames. The step is extrapolated from there on, and errors can grow without limit: predict "
            "fewer steps, or add trajectories that reach such states.",
            ExtrapolationWarning,
        )
        return True

    def joined(self, other: SeenRanges) -> SeenRanges:
        """Return the ranges of this fit and of a later one that went on from it."""
        parts: dict[str, Any] = {"n_samples": max(self.n_samples, other.n_samples)}
        for name in ("params", "values", "sizes", "coords", "sides", "spacing", "times", "outputs"):
            old, new = getattr(self, name), getattr(other, name)
            # A warm start refuses data of another kind elsewhere.
            if old is not None and new is not None and old.shape == new.shape:
                parts[name] = np.stack([np.minimum(old[0], new[0]), np.maximum(old[1], new[1])])
        if self.tailed is not None and other.tailed is not None and self.tailed.shape == other.tailed.shape:
            parts["tailed"] = np.maximum(self.tailed, other.tailed)
        if "params" in parts and self.in_logarithms is not None and other.in_logarithms is not None:
            # A later fit may have seen numbers without logarithms.
            parts["in_logarithms"] = self.in_logarithms * (np.prod(parts["params"], axis=0) > 0)
        if "params" in parts and self.in_levels is not None:
            parts["in_levels"] = self.in_levels * (parts["params"] == self.params).all(axis=0)
        # What holds in one fit alone does not hold in both.
        is_kept = "params" in parts and _holds_too(self.relations, other.relations, parts["params"])
        parts["relations"] = self.relations if is_kept else None
        return replace(self, **parts)

    def findings(
        self, inputs: FieldSet, *, names: Any = None, times: FloatArray | None = None, every: bool = True
    ) -> list[Finding]:
        """Find the numbers of a prediction that are outside of the ranges and their tolerances.

        Names are those of the global parameters, times those of the predicted frames. Without `every` the lowest and
        the highest of each kind but times are enough, and fields that are in a file are read in part only.
        """
        found: list[Finding] = []
        if self.params is not None and self.tailed is not None and inputs.params is not None:
            count = self.params.shape[1]
            labels = labels_of("parameter", names if names is not None and len(names) == count else None, count)
            numbers = np.asarray(inputs.params, dtype=np.float64)
            limits = self._limits_of_parameters(self.params, self.tailed)
            found += _beyond(numbers, numbers, self.params, limits, labels, every)
            if self.in_logarithms is not None:
                by_ratios = {label for label, is_one in zip(labels, self.in_logarithms, strict=True) if is_one}
                found = [replace(finding, in_logarithms=finding.what in by_ratios) for finding in found]
            if self.relations is not None:
                found += _off_relations(numbers, self.relations, self.params, labels, every)
        if self.values is not None and self.sizes is not None:
            found += self._findings_of_fields(inputs, self.values, self.sizes, every)
        if times is not None and self.times is not None:
            column = np.sort(times)[:, np.newaxis]
            # Other than parameters of a design, times of frames end where they end, however close to it another is.
            slack = min(ROUNDING * np.abs(self.times).max(), _MARGIN * np.ptp(self.times) or np.inf)
            limits = self.times + np.array([[-slack], [slack]])
            beyond = _beyond(column, column, self.times, limits, ["time"], every=True)
            # Times are those of all samples.
            found += [replace(finding, samples=()) for finding in beyond]
        return found + self._findings_of_points(inputs, every)

    def _limits_of_parameters(self, params: FloatArray, tailed: FloatArray) -> FloatArray:
        """Lowest and highest parameters ``(2, p)`` without a finding."""
        low, high = params
        in_logarithms = np.zeros(len(low), bool) if self.in_logarithms is None else self.in_logarithms > 0
        medians = (low + high) / 2 if self.medians is None else self.medians
        # The range of levels is known, however few samples there are.
        in_levels = np.zeros(len(low), bool) if self.in_levels is None else self.in_levels > 0
        part = np.where(in_levels, _MARGIN, tailed * _TAILS + max(_MARGIN, _OF_FEW / self.n_samples))
        # Twice the distance of an end from the median is the range of an even design, and the longer side is that of a
        # longer tail.
        lowest, highest = (end + 2 * part * (end - medians) for end in (low, high))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            ratios = [end * (end / medians) ** (2 * part) for end in (low, high)]
        lowest, highest = np.where(in_logarithms, ratios, [lowest, highest])
        slack = np.where(in_levels, _rounding_of(params), self._slack_of_few(params))
        lowest, highest = lowest - slack * (1 - in_logarithms), highest + slack * (1 - in_logarithms)
        # Numbers of one sign whose range ends well above zero are compared by their ratios too, since a difference says
        # little of a thickness in another unit.
        inner, outer = np.minimum(np.abs(low), np.abs(high)), np.maximum(np.abs(low), np.abs(high))
        ends_above = (low * high > 0) & (inner * self.n_samples > _OF_FEW * outer) & ~in_logarithms
        nearest = np.where(ends_above, np.sign(high) * inner / OTHER_UNIT, np.nan)
        lowest = np.where(high > 0, np.fmax(lowest, nearest), lowest)
        highest = np.where(high < 0, np.fmin(highest, nearest), highest)
        return np.stack([lowest, highest])

    def _slack_of_few(self, ranges: FloatArray) -> FloatArray:
        """Tolerance beyond ranges ``(2, k)``: that of rounding, and much more after a fit of few samples."""
        return ONE_SIZE * np.abs(ranges).max(axis=0) if self.n_samples < FEW else _rounding_of(ranges)

    def _findings_of_fields(
        self, inputs: FieldSet, values: FloatArray, sizes: FloatArray, every: bool
    ) -> list[Finding]:
        """Values and sizes of fields outside of the ranges."""
        rows = np.arange(len(inputs))
        if not every and not inputs.in_memory and len(rows) > READ:
            rows = np.unique(np.linspace(0, len(rows) - 1, READ).astype(int))
            inputs = inputs[rows]
        parts = [Extremes.of(piece, inputs, start) for start, piece in iterate_rows(inputs)]
        if not parts:
            return []
        extremes, labels = Extremes.joined(parts), labels_of("channel", inputs.channel_names, values.shape[1])
        # Values may be outside by their range.
        slack = np.ptp(values, axis=0) + self._slack_of_few(values)
        found = _beyond(extremes.low, extremes.high, values, values + slack * [[-1], [1]], labels, every)
        # One finding is enough for a field that is larger altogether.
        known = {(finding.samples, finding.what) for finding in found}
        for finding in _beyond(extremes.size, extremes.size, sizes, self._limits_of_sizes(sizes), labels, every):
            if (finding.samples, finding.what) not in known:
                found.append(replace(finding, what=f"size of {finding.what}"))
        return [replace(finding, samples=tuple(int(rows[row]) for row in finding.samples)) for finding in found]

    def _limits_of_sizes(self, sizes: FloatArray) -> FloatArray:
        """Smallest and largest sizes ``(2, c)`` without a finding."""
        low, high = sizes
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            factor = ONE_SIZE * (high / low) ** _SIZES
        factor *= ONE_SIZE if self.n_samples < FEW else 1.0
        # If the fit had a field of zeros, only the range of the values is checked.
        is_defined = np.isfinite(factor)
        factor = np.where(is_defined, factor, 1.0)
        return np.stack([np.where(is_defined, low / factor, 0.0), np.where(is_defined, high * factor, np.inf)])

    def _findings_of_points(self, inputs: FieldSet, every: bool) -> list[Finding]:
        """Coordinates, and scales of the points of samples, outside of the ranges."""
        lower, upper = boxes(inputs)
        labels = [f"coordinate {axis}" for axis in range(inputs.n_dims)]
        found = _beyond(lower, upper, self.coords, _limits_of_box(self.coords), labels, every)
        sides, spacing = (upper - lower).max(axis=1, keepdims=True), _mean_spacing(inputs, lower, upper)
        for numbers, ranges, label in ((sides, self.sides, "longest side"), (spacing, self.spacing, "spacing")):
            if ranges[0].item() > 0:
                limits = np.stack([ranges[0] / ONE_SIZE, ranges[1] * ONE_SIZE])
                found += _beyond(numbers, numbers, ranges, limits, [label], every)
        return [replace(finding, samples=()) for finding in found] if inputs.shared_coords else found


def warn_of_findings(found: list[Finding], files: Sequence[str] | None = None) -> None:
    """Warn once about all numbers outside of the ranges, with the furthest of each kind, by files if there are any."""
    worst: dict[Any, Finding] = {}
    for finding in found:
        # Each time that is asked for is one of its own.
        key = (finding.what, finding.value) if finding.what == "time" else finding.what
        if key not in worst or finding.excess > worst[key].excess:
            worst[key] = finding
    if not worst:
        return
    words = []
    for finding in sorted(worst.values(), key=lambda finding: -finding.excess):
        names = finding.samples if files is None else [f"sample {row} ({files[row]})" for row in finding.samples]
        words.append(str(replace(finding, samples=tuple(names))))
    words[NAMED:] = [f"and {len(words) - NAMED} more"] if len(words) > NAMED else []
    warn(
        f"X is outside of what the fit has seen: {'; '.join(words)}. Predictions there are extrapolated: check the "
        "units; check(X) of the estimator lists all that is outside.",
        ExtrapolationWarning,
    )


def _range(numbers: FloatArray) -> FloatArray:
    """Lowest and highest ``(2, k)`` of numbers ``(n, k)``."""
    return np.stack([numbers.min(axis=0), numbers.max(axis=0)])


def _values_of(extremes: Extremes) -> FloatArray:
    """Lowest and highest values ``(2, c)`` of all samples."""
    return np.stack([extremes.low.min(axis=0), extremes.high.max(axis=0)])


def _kurtosis(numbers: FloatArray) -> FloatArray:
    """Fourth moment over the squared variance of the columns of numbers ``(n, k)``; 0 for constants."""
    deviation = numbers - numbers.mean(axis=0)
    largest = np.abs(deviation).max(axis=0)
    # Divided by the largest, so that no power overflows.
    squares = (deviation / np.where(largest > 0, largest, 1.0)) ** 2
    variance = squares.mean(axis=0)
    return (squares**2).mean(axis=0) / np.where(variance > 0, variance**2, 1.0)


def _mean_spacing(inputs: FieldSet, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Mean distance of neighbouring points ``(m, 1)`` in boxes that they fill; sides without extent do not count."""
    counts = np.asarray(inputs.n_points, dtype=np.float64)[: len(lower)]
    sides = upper - lower
    n_dims = np.maximum((sides > 0).sum(axis=1), 1)
    volume = np.where(sides > 0, sides, 1.0).prod(axis=1)
    spacing = np.where((sides > 0).any(axis=1), (volume / counts) ** (1 / n_dims), 0.0)
    return spacing[:, np.newaxis]


def _limits_of_box(ranges: FloatArray) -> FloatArray:
    """Corners of a box ``(2, k)`` with a margin; that of rounding where the box has no extent."""
    extent = np.ptp(ranges, axis=0)
    slack = _MARGIN * np.where(extent > 0, extent, extent.max())
    slack = np.maximum(slack, _rounding_of(ranges))
    return np.stack([ranges[0] - slack, ranges[1] + slack])


def _rounding_of(ranges: FloatArray) -> FloatArray:
    """Differences ``(k,)`` beyond ranges ``(2, k)`` that are rounding.

    Numbers that single precision holds may have come in it, and one number may have to others. In double precision a
    small range beside a large offset, such as seconds of a clock, is a range.
    """
    extent, size = np.ptp(ranges, axis=0), np.abs(ranges).max(axis=0)
    with np.errstate(over="ignore"):
        is_single = (ranges == ranges.astype(np.float32)).all(axis=0)
    slack = np.where(is_single | (extent == 0), ROUNDING, 16 * np.finfo(float).eps) * size
    return np.where(extent > 0, np.minimum(slack, extent), slack)


def _beyond(
    low: FloatArray, high: FloatArray, ranges: FloatArray, limits: FloatArray, labels: list[str], every: bool
) -> list[Finding]:
    """Findings of lowest and highest numbers ``(n, k)`` of samples that are outside of limits ``(2, k)``."""
    found = []
    for numbers, is_outside, furthest in ((low, low < limits[0], np.argmin), (high, high > limits[1], np.argmax)):
        if not every:
            mask = np.zeros_like(is_outside)
            mask[furthest(numbers, axis=0), np.arange(numbers.shape[1])] = True
            is_outside = is_outside & mask
        for row, column in np.argwhere(is_outside).tolist():
            value, (lowest, highest) = float(numbers[row, column]), ranges[:, column].tolist()
            found.append(Finding("problem", "", (row,), labels[column], value, lowest, highest))
    return sorted(found, key=lambda finding: finding.samples)


def _relations(params: FloatArray) -> FloatArray | None:
    """Linear relations (r, p + 1) that all parameters (n, p) of a fit fulfil; None without any."""
    varied = np.flatnonzero(np.ptp(params, axis=0) > ROUNDING * np.abs(params).max(axis=0, initial=0.0))
    # Few rows have relations by chance.
    if len(varied) < 2 or len(params) <= 2 * len(varied):
        return None
    mean, deviation = params[:, varied].mean(axis=0), params[:, varied].std(axis=0)
    _, sizes, directions = np.linalg.svd((params[:, varied] - mean) / deviation, full_matrices=False)
    held = directions[sizes < _FOLLOWS * len(params) ** 0.5]
    if not len(held):
        return None
    found = np.zeros((len(held), params.shape[1] + 1))
    found[:, varied] = held / (_MARGIN * deviation)
    found[:, -1] = -found[:, varied] @ mean
    return found


def _holds_too(own: FloatArray | None, other: FloatArray | None, ranges: FloatArray) -> bool:
    """Whether relations (r, p + 1) follow from those of another fit, with parameters in these ranges (2, p)."""
    if own is None or other is None:
        return False
    low, width = ranges[0], np.ptp(ranges, axis=0)
    parts = [np.column_stack([held[:, :-1] * width, held[:, -1] + held[:, :-1] @ low]) for held in (own, other)]
    ours, theirs = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts)
    left = ours.T - theirs.T @ np.linalg.lstsq(theirs.T, ours.T)[0]
    return bool(np.abs(left).max() < _MARGIN)


def _off_relations(
    params: FloatArray, relations: FloatArray, ranges: FloatArray, labels: list[str], every: bool
) -> list[Finding]:
    """Findings of parameters (n, p) that do not follow from the others as in the fit, by relations (r, p + 1)."""
    found = []
    for *weights, constant in relations:
        own = np.asarray(weights)
        parts = np.abs(own) * np.ptp(ranges, axis=0)
        column = int(np.argmax(parts))
        others = [labels[k] for k in np.flatnonzero(parts > _MARGIN * parts[column]) if k != column]
        off, slack = (params @ own + constant) / own[column], 1 / abs(own[column])
        rows = np.flatnonzero(np.abs(off) > slack)
        for row in rows if every else rows[np.argsort(-np.abs(off[rows]))[:1]]:
            value = float(params[row, column])
            expected = value - float(off[row])
            what = f"{labels[column]} beside {in_order(others)}"
            found.append(Finding("problem", "", (int(row),), what, value, expected - slack, expected + slack))
    return found


# ---------------------------------------------------------------------- boxes and grids
def _box_of(inputs: FieldSet) -> tuple[FloatArray, FloatArray]:
    """Corners ``(d,)`` of the box of the points of all samples."""
    lower, upper = boxes(inputs)
    return lower.min(axis=0), upper.max(axis=0)


def _as_sets(inputs: FieldSet) -> FloatArray:
    """Points ``(m, P, d)``: one set for all samples, or one of each; those of ragged samples are one set."""
    points = np.asarray(inputs.coords, dtype=np.float64)
    return points if points.ndim == 3 else points[np.newaxis]


def _corners(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lowest and highest coordinates ``(d,)`` of points ``(m, P, d)``."""
    return points.min(axis=(0, 1)), points.max(axis=(0, 1))


def _main_coordinates(points: FloatArray, grid: GridShape) -> tuple[int, ...]:
    """Coordinate that changes most along each axis, in units of its extent; axes of one point take what is left."""
    table = points.reshape(len(points), *grid, -1)
    extent = np.ptp(points, axis=(0, 1))
    changes = [
        np.ptp(table, axis=axis + 1).reshape(-1, points.shape[-1]).max(axis=0) / np.where(extent > 0, extent, 1.0)
        for axis in range(len(grid))
    ]
    found = [int(np.argmax(change)) if grid[axis] > 1 else -1 for axis, change in enumerate(changes)]
    left = sorted(set(range(len(grid))) - set(found))
    return tuple([coordinate if coordinate >= 0 else left.pop(0) for coordinate in found])


def _lines(points: FloatArray, grid: GridShape, axes: tuple[int, ...]) -> tuple[list[FloatArray], Any]:
    """Values ``(m, P_i)`` of the coordinate of each axis along it, and whether each set ``(m,)`` is bent.

    The values are those from the first point of the grid. A coordinate must change along its own axis alone.
    """
    table = points.reshape(len(points), *grid, -1)
    lines, is_bent = [], np.zeros(len(points), dtype=bool)
    for axis, coordinate in enumerate(axes):
        values = np.moveaxis(table[..., coordinate], axis + 1, 1).reshape(len(points), grid[axis], -1)
        line = values[:, :, 0]
        off = np.abs(values - values[:, :, :1]).reshape(len(points), -1).max(axis=1)
        spacing = np.abs(np.diff(line, axis=1)).mean(axis=1) if grid[axis] > 1 else np.inf
        is_bent |= off > _MARGIN * spacing
        lines.append(line)
    return lines, is_bent


def _lattice(points: FloatArray, grid: GridShape) -> FloatArray:
    """Shape of points (P, d) on a grid, at nodes spread along its axes, as many along each."""
    count = round(NODES ** (1 / len(grid)))
    chosen = np.ix_(*[np.rint(np.linspace(0, size - 1, count)).astype(int) for size in grid])
    nodes = np.reshape(points, (*grid, -1))[chosen]
    return unit_shape(nodes.reshape(-1, nodes.shape[-1])).reshape(nodes.shape)


def _better_order(shapes: Shapes, lattice: FloatArray) -> str:
    """Change of the axes of a lattice by which its nodes come close to those of the fit, in words; empty if none."""
    n_axes, own = lattice.ndim - 1, lattice.reshape(-1, lattice.shape[-1])
    if own.shape != shapes.nodes.shape[1:] or not shapes.are_left_by(own):
        return ""
    found = {}
    for order, is_reversed in product(permutations(range(n_axes)), product((False, True), repeat=n_axes)):
        reverse = tuple(np.flatnonzero(is_reversed))
        other = np.flip(lattice.transpose(*order, n_axes), tuple(order.index(axis) for axis in reverse))
        found[order, reverse] = shapes.distance(other.reshape(own.shape))
    order, reverse = min(found, key=lambda change: found[change])
    if _CLOSER * found[order, reverse] >= shapes.distance(own):
        return ""
    words = [f"axis {axis} reversed" for axis in reverse]
    return " and ".join(words + ([f"the axes taken in the order {order}"] if order != tuple(range(n_axes)) else []))


def _shape(sizes: Any) -> str:
    """Points along the axes in words."""
    return " x ".join(map(str, sizes))


def _boxes(*corners: FloatArray) -> list[str]:
    """Boxes in words, from their lowest and highest corners in turn, to the same digits."""
    extents = corners[-1] - corners[-2]
    largest = np.abs(corners).max(axis=0)
    # Three digits of the last box; coordinates far from the origin need more than small ones.
    ratio = largest / np.where(extents > 0, extents, np.maximum(largest, 1.0))
    digits = np.minimum(3 + np.ceil(np.log10(np.maximum(ratio, 1.0))), 15).astype(int)
    words = [[f"{number:.{count}g}" for number, count in zip(corner, digits, strict=True)] for corner in corners]
    return [
        " x ".join(f"[{low}, {high}]" for low, high in zip(lower, upper, strict=True))
        for lower, upper in zip(words[::2], words[1::2], strict=True)
    ]
