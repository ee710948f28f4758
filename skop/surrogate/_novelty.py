"""How far samples lie from those of a fit: features of inputs, distances to the training samples, and their quantiles.

Inputs of every kind become a row of numbers, in groups: global parameters; means of the fields in the cells of a fixed
lattice over the box of the fit, and moments of the points, which depend neither on the order of the points nor much on
their number; and means of the tokens of the network over the points. In each group the principal components of the
training samples are kept, and the size of the residual. Groups are scaled to one typical distance between
neighbouring training samples. The score is the mean Euclidean distance to the nearest training samples. Training
samples have scores of their own, each by components and neighbours that were found without it.

Notation: n samples, r raw features, k features, p global parameters, c channels, d space dimensions, m cells, E width
of a network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from skop._threads import one_thread
from skop._typing import FloatArray, IntArray
from skop.data import FieldSet, boxes, iterate_rows
from skop.exceptions import FieldDataError, NoveltyWarning, warn

__all__ = [
    *("Group", "Lattice", "Novelty", "Reference", "check_level", "count_seen", "features", "raw_features"),
    *("reference_of", "warn_of_novelty"),
]

#: Largest number of training samples that are kept, evenly spaced among all: 2000 with 130 features are 2 MB.
_KEPT = 2000
#: Points whose moments are added up at once; a bound of the memory.
_POINTS = 2**15
#: Largest number of values in cells of all of these, 2 MB, to bound the memory.
_NUMBERS = 2**18
#: Largest number of cells, and of components of one group of features, which bound the size of a file.
_CELLS, _COMPONENTS = 64, 32
#: Part of the variance of a group that its components hold; the size of the residual is one more feature.
_HELD = 0.99
#: Number of training samples over which a distance is averaged, so that one copy does not make it zero; and of parts in
#: which own scores are computed, and fewest samples that are kept. `docs/user_guide/novelty.md` has the errors found.
_NEIGHBOURS, _FOLDS = 5, 20
#: Distance from a training sample, in those of neighbouring ones, up to which the inputs are the same.
_SEEN = 1e-3
#: Largest feature, so that sums of squares stay finite.
_LARGEST = 1e100
#: Change that counts as one standard deviation where training samples do not differ: part of a number itself, of the
#: box and of the logarithm of the distance of points; and a moment of the points, which are at most 1.
_CONSTANT = {"params": 0.01, "fields": 0.01, "tokens": 0.01, "points": 0.05, "moments": 0.02}
#: Relative size of differences that are rounding: of values in double precision, of moments of points in files of
#: single precision, and of tokens after the layers of a network in single precision.
_ROUNDING = {"params": 1e-12, "fields": 1e-12, "points": 1e-8, "tokens": 1e-4}


class Novelty(NamedTuple):
    """Result of `FieldRegressor.novelty`: scores (n,), and their quantiles (n,) among those of the training."""

    score: FloatArray
    quantile: FloatArray


def features(estimator: Any, inputs: FieldSet) -> FloatArray:
    """Inputs (n) of a fitted estimator as points (n, k) of the space in which `FieldRegressor.novelty` measures.

    In each group of features, the distance between neighbouring training samples is typically 1.
    """
    return reference_of(estimator).features(inputs, estimator._tokens)


def count_seen(estimator: Any, inputs: FieldSet) -> int | None:
    """Number of samples whose inputs are among those of a fit; None where it has no features of these."""
    reference = getattr(estimator, "reference_", None)
    if reference is None:
        return None
    distances = KDTree(reference.points).query(features(estimator, inputs))[0]
    return int((distances < _SEEN).sum())


def reference_of(estimator: Any) -> Reference:
    """Return the training samples of an estimator as points of a space; an error if it holds none."""
    reference: Reference | None = estimator.reference_
    if reference is None:
        raise FieldDataError(
            "the model holds no features of its training samples to measure a distance from: it was saved by an "
            "earlier version of skop, or fitted within another estimator; fit again, or ask that estimator."
        )
    return reference


def check_level(level: Any) -> None:
    """Raise an error if a level is no quantile."""
    is_number = isinstance(level, int | float | np.integer | np.floating) and not isinstance(level, bool)
    if level is None or (is_number and 0 <= level < 1):
        return
    raise FieldDataError(f"level is {level!r}; expected a number from 0 up to but not including 1, or None.")


def warn_of_novelty(found: Novelty, level: float, own: FloatArray, files: list[str] | None) -> None:
    """Warn about samples whose quantile is above a level, if there are any."""
    beyond = int((found.quantile > level).sum())
    if not beyond:
        return
    furthest = int(np.argmax(found.score))
    name = "" if files is None else f" ({files[furthest]})"
    warn(
        f"{beyond} of {len(found.score)} samples of X lie further from the training samples than {100 * level:g} % of "
        f"these from each other, where {(1 - level) * len(found.score):.2g} would by chance. Sample {furthest}{name} "
        f"has the largest score, {found.score[furthest]:.3g}; those of the training samples are up to {own.max():.3g}. "
        "Predictions there may be extrapolated: check(X) of the estimator lists numbers outside of the ranges of the "
        "fit.",
        NoveltyWarning,
    )


@dataclass(frozen=True, eq=False)
class Lattice:
    """Cells of equal size over the box of the points of a fit: its corner and sides (d,), and their numbers (d,)."""

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

    def n_kept(self, inputs: FieldSet) -> int:
        """Number of training samples of which features are kept."""
        most = max(min(_KEPT, _NUMBERS // (self.size * max(inputs.n_channels, 1))), _FOLDS)
        return min(most, len(inputs))


def _of_points(inputs: FieldSet, lattice: Lattice) -> FloatArray:
    """Moments of the points, corners of the box and logarithm of the number of points, ``(n, m + 2 d + 1)``.

    Moments are means of products of cosines over the points, divided by their wave numbers: they change little where
    points move little, and differences of all together measure how far one set of points is from another.
    """
    lower, upper = ((corner - lattice.lower) / lattice.span for corner in boxes(inputs))
    sets = [inputs.coords] if inputs.shared_coords else inputs.coords_list()
    waves = [np.arange(count) for count in lattice.counts]
    numbers = np.sqrt(sum(part**2 for part in np.meshgrid(*waves, indexing="ij", sparse=True)))
    moments = np.empty((len(sets), lattice.size))
    for row, points in enumerate(sets):
        total = np.empty((0, lattice.size))
        for start in range(0, len(points), _POINTS):
            piece = np.asarray(points[start : start + _POINTS], dtype=np.float64)
            places = (piece - lattice.lower) / lattice.span
            product = np.ones((len(places), 1))
            for wave, place in zip(waves, places.T, strict=True):
                cosines = np.cos(np.pi * place[:, np.newaxis] * wave)
                product = (product[:, :, np.newaxis] * cosines[:, np.newaxis]).reshape(len(places), -1)
            # Added row by row, as without pieces.
            total = np.concatenate([total, product]).sum(axis=0, keepdims=True)
        moments[row] = total[0] / len(points) / np.maximum(numbers.reshape(-1), 1.0)
    n_axes = max(int((lattice.counts > 1).sum()), 1)
    spacing = np.log(np.asarray(inputs.n_points, dtype=np.float64))[: len(sets), np.newaxis] / n_axes
    rows = np.concatenate([moments, lower, upper, spacing], axis=1)
    return np.broadcast_to(rows, (len(inputs), rows.shape[1]))


def _of_fields(inputs: FieldSet, lattice: Lattice) -> FloatArray:
    """Means in cells, NaN without points, and the deviation from these, of each channel, ``(n, c, m + 1)``."""
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
        flat = values.reshape(-1, inputs.n_channels)
        owners = np.repeat(np.arange(stop - start), sizes)
        for channel in range(inputs.n_channels):
            column = flat[:, channel].astype(np.float64)
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
    """Features of one kind: standardised, and turned to the components along which training samples spread."""

    #: What they describe: "params", "fields", "points" or "tokens".
    kind: str
    #: Mean, and change that counts as one, (r,); and orthonormal components with the largest variances, (k - 1, r).
    mean: FloatArray
    unit: FloatArray
    components: FloatArray
    #: Typical distance of neighbouring training samples, which the features are divided by.
    size: float = 1.0

    @classmethod
    def fit(cls, kind: str, raw: FloatArray, n_blocks: int, rounding: float, size: float | None = None) -> Group:
        """Describe raw features (n, r) of training samples, in blocks of one unit each where they have such blocks."""
        # Cells without points, which are NaN, count as the mean.
        held = np.isfinite(raw)
        mean = np.where(held, raw, 0.0).sum(axis=0) / np.maximum(held.sum(axis=0), 1)
        centred = np.where(held, raw - mean, 0.0)
        unit = _units(kind, mean, centred, n_blocks, rounding)
        centred /= unit
        _, spreads, vectors = np.linalg.svd(centred, full_matrices=False)
        variances = spreads**2 / len(raw)
        total = float(variances.sum())
        count = 0
        # Where samples do not differ, or by rounding only, any change is one of the rest; in units of a number itself.
        least = rounding / _CONSTANT["fields"]
        if total > raw.shape[1] * least**2:
            count = min(int(np.searchsorted(np.cumsum(variances), _HELD * total)) + 1, _COMPONENTS, len(variances))
        found = cls(kind, mean, unit, vectors[:count].copy())
        if size is None:
            points, rows = found.features(raw, by_row=False), np.arange(len(raw))
            size = float(np.median(_to_nearest(points, points, rows))) if len(raw) > 1 else 0.0
        return cls(kind, mean, unit, found.components, size if size > least else 1.0)

    def features(self, raw: FloatArray, *, by_row: bool = True) -> FloatArray:
        """Components, and the size of the residual, ``(n, k)``.

        A product by rows costs more, and its rounding does not depend on the other samples.
        """
        centred = np.where(np.isfinite(raw), raw - self.mean, 0.0)
        with np.errstate(over="ignore"):
            centred = np.clip(centred / self.unit, -_LARGEST, _LARGEST)
        is_single = by_row and len(raw) > 0
        inside = np.stack([self.components @ row for row in centred]) if is_single else centred @ self.components.T
        rest = np.sqrt(np.maximum((centred**2).sum(axis=1) - (inside**2).sum(axis=1), 0.0))
        found = np.concatenate([inside, rest[:, np.newaxis]], axis=1)
        with np.errstate(over="ignore"):
            return np.clip(found / self.size, -_LARGEST, _LARGEST)


def _units(kind: str, mean: FloatArray, centred: FloatArray, n_blocks: int, rounding: float) -> FloatArray:
    """Changes that count as one in raw features of a kind ``(r,)``: standard deviations, where there are any."""
    spread = np.sqrt((centred**2).mean(axis=0))
    if kind == "points":
        unit = np.maximum(spread, _CONSTANT[kind])
        # The moments, which come first, have one unit together.
        unit[:n_blocks] = max(spread[:n_blocks].max(initial=0.0), _CONSTANT["moments"])
        return unit
    size = np.hypot(mean, spread)
    if kind == "fields":
        # One unit for the means of a channel in all cells, and one for the deviations from these, which are rounding
        # where they are small beside the means.
        spread, size = (part.reshape(n_blocks, -1) for part in (spread, size))
        means = np.sqrt((spread[:, :-1] ** 2).mean(axis=1, keepdims=True))
        spread = np.concatenate([np.broadcast_to(means, spread[:, :-1].shape), spread[:, -1:]], axis=1).reshape(-1)
        whole = np.sqrt((size[:, :-1] ** 2).mean(axis=1) + size[:, -1] ** 2)
        size = np.repeat(whole, len(mean) // n_blocks)
    return np.where(spread > rounding * size, spread, np.where(size > 0, _CONSTANT[kind] * size, 1.0))


def _rounding_of(kind: str, values: Any) -> float:
    """Relative size of differences between features of a kind that are rounding, if they are of these values."""
    dtype = np.dtype(np.float64 if values is None else values.dtype)
    return max(_ROUNDING[kind], 16 * float(np.finfo(dtype).eps)) if dtype.kind == "f" else _ROUNDING[kind]


def _to_nearest(points: FloatArray, others: FloatArray, own: IntArray | None = None) -> FloatArray:
    """Mean distances ``(n,)`` of points to the nearest of others, among which each may have a row of its own."""
    found = np.empty(len(points))
    count = min(_NEIGHBOURS, len(others) - (own is not None))
    step = max(1, 2**22 // len(others))
    for start in range(0, len(points), step):
        distances = cdist(points[start : start + step], others)
        if own is not None:
            distances[np.arange(len(distances)), own[start : start + step]] = np.inf
        found[start : start + step] = np.partition(distances, count - 1, axis=1)[:, :count].mean(axis=1)
    return found


@dataclass(frozen=True, eq=False)
class Reference:
    """Training samples of a fit as points of a space of features."""

    lattice: Lattice
    #: Groups of parameters, fields, points and tokens, in this order, as far as there are any.
    groups: list[Group]
    #: Features (n, k) of the training samples that are kept, and their scores (n,), each by a space without it.
    points: FloatArray
    own: FloatArray
    #: Whether samples are compared by their images under declared symmetries; files of earlier versions are not.
    has_images: bool = False

    @classmethod
    @one_thread()
    def from_fit(cls, inputs: FieldSet, tokens: Callable[[FieldSet], FloatArray | None]) -> Reference:
        """Describe training samples; a function returns the means (n, E) of the tokens of their network, or None."""
        lattice = Lattice.over(inputs)
        if (count := lattice.n_kept(inputs)) < len(inputs):
            inputs = inputs[np.unique(np.linspace(0, len(inputs) - 1, count).round().astype(int))]
        raw, n = raw_features(inputs, lattice, tokens), len(inputs)
        blocks = {"fields": inputs.n_channels, "points": lattice.size}
        values = {"fields": inputs, "params": inputs.params}
        options = {kind: (blocks.get(kind, 1), _rounding_of(kind, values.get(kind))) for kind in raw}
        groups = [Group.fit(kind, part, *options[kind]) for kind, part in raw.items()]
        points = np.concatenate([group.features(raw[group.kind]) for group in groups], axis=1)
        own = np.zeros(n)
        for fold in range(min(_FOLDS, n) if n > 2 else 0):
            held = np.arange(fold, n, _FOLDS)
            kept = np.delete(np.arange(n), held)
            without = [
                Group.fit(group.kind, raw[group.kind][kept], *options[group.kind], group.size) for group in groups
            ]
            seen = np.concatenate([group.features(raw[group.kind], by_row=False) for group in without], axis=1)
            own[held] = _to_nearest(seen[held], seen, held)
        return cls(lattice, groups, points, own, has_images=True)

    def features(self, inputs: FieldSet, tokens: Callable[[FieldSet], FloatArray | None]) -> FloatArray:
        """Features of samples, ``(n, k)``."""
        # Raw features of all samples may be larger than their fields.
        step = max(_NUMBERS // (self.lattice.size * max(inputs.n_channels, 1)), _FOLDS)
        parts = [self._features(inputs[start : start + step], tokens) for start in range(0, max(len(inputs), 1), step)]
        return np.concatenate(parts)

    def _features(self, inputs: FieldSet, tokens: Callable[[FieldSet], FloatArray | None]) -> FloatArray:
        """Features of a part of the samples."""
        raw = raw_features(inputs, self.lattice, tokens)
        for group in self.groups:
            if group.kind not in raw or raw[group.kind].shape[1:] != group.mean.shape:
                raise FieldDataError(
                    f"the features of the training samples have {len(group.mean)} numbers for {group.kind}, which the "
                    "model does not give for X, since it was changed after the fit; fit again."
                )
        return np.concatenate([group.features(raw[group.kind]) for group in self.groups], axis=1)

    def of_image(self, image: FieldSet, points: FloatArray) -> FloatArray:
        """Features of images of samples with features (n, k), whose tokens they keep."""
        found, column = points.copy(), 0
        for group in self.groups:
            columns = slice(column, column := column + len(group.components) + 1)
            raw: Any = None
            if group.kind == "params":
                raw = np.asarray(image.params, dtype=np.float64)
            elif group.kind == "fields":
                raw = _of_fields(image, self.lattice).reshape(len(image), -1)
            elif group.kind == "points":
                raw = _of_points(image, self.lattice)
            if raw is not None:
                found[:, columns] = group.features(raw)
        return found

    def at_points_of(self, points: FloatArray, moved: FloatArray) -> FloatArray:
        """Features (n, k) of samples that moved, with the points of others."""
        found, column = moved.copy(), 0
        for group in self.groups:
            columns = slice(column, column := column + len(group.components) + 1)
            if group.kind == "points":
                found[:, columns] = points[:, columns]
        return found

    def novelty(self, points: FloatArray) -> Novelty:
        """Scores and quantiles of samples with features (n, k)."""
        score = _to_nearest(points, self.points)
        return Novelty(score, np.searchsorted(np.sort(self.own), score) / len(self.own))


def raw_features(
    inputs: FieldSet, lattice: Lattice, tokens: Callable[[FieldSet], FloatArray | None]
) -> dict[str, FloatArray]:
    """Raw features of samples by their kind."""
    found: dict[str, FloatArray] = {}
    if inputs.params is not None:
        found["params"] = np.asarray(inputs.params, dtype=np.float64)
    if inputs.n_channels:
        found["fields"] = _of_fields(inputs, lattice).reshape(len(inputs), -1)
    found["points"] = np.array(_of_points(inputs, lattice))
    of_network = tokens(inputs)
    if of_network is not None:
        found["tokens"] = np.asarray(of_network, dtype=np.float64)
    return found
