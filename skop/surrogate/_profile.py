"""What the samples of a fit are like: one set of statistics, tolerances, and findings on what looks like a mistake.

A run in other units, a mesh in metres among meshes in millimetres, or two equal inputs with different targets can be
trained on, and cost accuracy in silence. A fit warns of such problems, and `skop.inspection.describe_data` lists them
with what is only unusual. The statistics are those of the pass in which the values are checked.

Rates of false alarms and misses are those of `tests/surrogate/test_profile.py`, over 20 kinds of numbers.

Notation: n samples, P points of a sample, d space dimensions, c channels, p global parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
from scipy.spatial import cKDTree

from skop._optional import import_optional
from skop._typing import FloatArray, IntArray
from skop.data import Extremes, FieldSet, TrainingData, boxes, iterate_coords, iterate_rows

__all__ = [
    "BETWEEN_VALUES",
    "Finding",
    "Profile",
    "coarse_design",
    "far_numbers",
    "in_order",
    "is_even_in_logarithms",
    "labels_of",
    "odd_sizes",
]

#: Number of samples from which one is compared with the others, and from which ranges and unusual samples say
#: something: with 5 to 9 samples, ranges of a design have false alarms in 11 to 19 % of predictions, not in 4 %.
ENOUGH, FEW = 5, 10
#: Numbers within this factor are of one size: logarithms tell no more of them, and a sample may be as much larger.
ONE_SIZE = 3.0
#: Ratio to the median, or to the smallest number, from which a size is that of another unit: 30 is below 1000 (mm and
#: m) and 101 (bar and kPa), and above what loads of one study differ by.
OTHER_UNIT = 30.0
#: Relative difference up to which numbers are equal but for rounding, of single precision and of text in files.
ROUNDING = 1e-6
#: Largest ratio of the largest number of a parameter to its range of which this rounding counts in the range; random
#: sums in which rows that differ by rounding are neighbours, and so many of these.
_OFFSET, _SUMS, _NEAREST = 10.0, 4, 4
#: Pairs of values of a single parameter that chance may make, up to which those that differ by rounding are the same.
_BY_CHANCE = 0.1
#: Relative difference of fields from which they contradict each other for inputs that differ by rounding.
_OTHER = 0.01
#: Largest number of samples that are read again, for a warning.
READ = 64
#: Largest number of things of one kind that a sentence names.
NAMED = 3
#: Distance of the logarithm of a size from the median in those of the quartiles, below and above, from which it is odd.
#: Loads are drawn down to zero more often than up to infinity.
_SPREADS = (16.0, 8.0)
#: Largest number of samples of zeros, or with the field of another one, that look like a mistake.
_RARE = 3
#: Distance of the smallest size from zero, in the largest between neighbours, from which a sample of zeros is odd.
#: Levels that begin at zero, and states that grow from it, are closer.
_GAP = 2.0
#: Distance of a number from the median, in interquartile ranges, from which it is a problem (false alarms in at most
#: 1 % of sets, and 10 % of the factors of 1000 missed) or unusual (1 %, and 25 %). The first is also the mean of a
#: target, in standard deviations, from which a relative error of 1 % hides all variation.
_FAR = {"problem": 100.0, "notice": 6.0}
#: Relative difference up to which a parameter is a result, which a table may hold with four digits.
_RESULT = 5e-4
#: Extremes of a field, which a value that is prescribed at a node can be.
_EXTREMES = {"low": "smallest value", "high": "largest value", "largest": "largest size"}
#: Samples are a factorial design if there are up to this many combinations of their values for each of them, or if a
#: parameter has three to five values, each in so many samples.
_COMBINATIONS, _VALUES, _EACH = 2, (3, 5), 8
#: What such a design does not tell.
BETWEEN_VALUES = (
    "errors between them are in no residual, and can be far larger. Unless there is nothing between, as between "
    "numbers of materials, add samples at random values."
)
#: Distance of a point from the centre, in those that most points keep, from which it is a reference point; and the part
#: that counts as most. Reference points are single ones at 10 to 1000 lengths of a part.
_LONE = (10.0, 0.95)


@dataclass(frozen=True)
class Finding:
    """Something about data that a user should look at.

    Attributes
    ----------
    level : {"problem", "notice"}
        Whether it spoils a fit or a prediction, or may be meant.
    text : str
        What was found, and what to do; empty where the numbers say it.
    samples : tuple of str or int, default=()
        Names or numbers of the samples that it is about; empty where it holds for all.
    what : str, default=""
        Name of the number, such as ``"parameter 'E'"`` or ``"longest side"``.
    value, lowest, highest : float, default=NaN
        The number, and the range of others.
    in_logarithms : bool, default=False
        Whether the number and the range are compared by their logarithms.
    """

    level: Literal["problem", "notice"]
    text: str
    samples: tuple[Any, ...] = ()
    what: str = ""
    value: float = np.nan
    lowest: float = np.nan
    highest: float = np.nan
    in_logarithms: bool = False

    @property
    def excess(self) -> float:
        """Distance to the range, as a multiple of its width; infinite if it has none."""
        lowest, highest, value = self.lowest, self.highest, self.value
        if self.in_logarithms:
            if np.sign(value) != np.sign(highest):
                # Zero, and numbers beyond it, are at no distance.
                return np.inf
            lowest, highest, value = np.log(np.abs([lowest, highest, value])).tolist()
            lowest, highest = min(lowest, highest), max(lowest, highest)
        distance, width = max(lowest - value, value - highest), highest - lowest
        return distance / width if width > 0 else np.inf

    def __str__(self) -> str:
        if self.text:
            return self.text
        lowest, highest, value = _distinct(self.lowest, self.highest, self.value)
        place = f" in {in_order(self.samples)}" if self.samples else ""
        seen = f"always {lowest}" if self.lowest == self.highest else f"{lowest} to {highest}"
        scale = ", in logarithms" if self.in_logarithms else ""
        beyond = "" if np.isinf(self.excess) else f" ({self.excess:.2g} times this range outside{scale})"
        # A relation of parameters has no range of its own: what the others imply takes its place.
        source = "by their relation in the fit" if " beside " in self.what else "in the fit"
        return f"{self.what} is {value}{place}, {source} {seen}{beyond}"


def _distinct(*numbers: float) -> list[str]:
    """Numbers in words, with as many digits as tell them apart."""
    for digits in range(3, 16):
        words = [f"{number:.{digits}g}" for number in numbers]
        if len(set(words)) == len(set(numbers)):
            break
    return words


def in_order(names: Sequence[Any]) -> str:
    """Names, or numbers of samples, in words; of many, only the first."""
    words = [f"sample {name}" if isinstance(name, int) else str(name) for name in names[:NAMED]]
    if len(names) > NAMED:
        words.append(f"{len(names) - NAMED} more")
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def table_of(found: Sequence[Finding], files: Sequence[str] | None) -> Any:
    """Findings on one sample each, or on all, as a DataFrame with a row each; files are those of the samples."""
    numbers = ("what", "value", "lowest", "highest", "excess")
    rows = [item.samples[0] if item.samples else None for item in found]
    columns = {"sample": rows} | {name: [getattr(item, name) for item in found] for name in numbers}
    table = import_optional("pandas", purpose="return a table").DataFrame(columns)
    if files is not None:
        table.insert(1, "file", [None if row is None else files[row] for row in rows])
    return table.astype({"sample": "Int64"})


def labels_of(kind: str, names: Sequence[Any] | None, count: int) -> list[str]:
    """Channels, parameters or scalars in words: by their names, or by numbers."""
    return [f"{kind} {name!r}" for name in (range(count) if names is None else names)]


# ---------------------------------------------------------------------- statistics
Role = Literal["input", "parameter", "target", "scalar"]


@dataclass(frozen=True, eq=False)
class Column:
    """Statistics (n,) of one channel of a field, parameter or scalar in each sample, and its number of values."""

    role: Role
    #: Name in a sentence, such as ``"channel 'u'"``, and alone.
    label: str
    name: str
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    size: FloatArray
    weight: FloatArray

    @property
    def source(self) -> str:
        """Whether it is of X or of y."""
        return "X" if self.role in ("input", "parameter") else "y"

    @property
    def largest(self) -> FloatArray:
        """Largest size in each sample."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @cached_property
    def summary(self) -> tuple[float, float, float, float]:
        """Smallest value, mean, largest value and standard deviation of all samples together."""
        low, high = float(self.low.min()), float(self.high.max())
        mean = float(np.average(self.mean, weights=self.weight))
        within = np.maximum(self.size**2 - self.mean**2, 0.0)
        variance = float(np.average(within + (self.mean - mean) ** 2, weights=self.weight))
        return low, mean, high, variance**0.5 if low < high else 0.0


def _columns(
    role: Role, kind: str, extremes: Extremes | None, names: Sequence[Any] | None, counts: Any
) -> list[Column]:
    """Statistics of channels, or of columns of numbers, of which a sample has so many values."""
    if extremes is None:
        return []
    parts = zip(extremes.low.T, extremes.high.T, extremes.mean.T, extremes.size.T, strict=True)
    labels = labels_of(kind, names, extremes.low.shape[1])
    return [
        Column(role, label, str(name), *part, weight=np.asarray(counts, dtype=np.float64))
        for label, name, part in zip(labels, labels if names is None else names, parts, strict=True)
    ]


def _of_numbers(numbers: Any) -> Extremes | None:
    """Statistics of numbers (n, p), one value each."""
    if numbers is None:
        return None
    table: FloatArray = np.asarray(numbers, dtype=np.float64)
    return Extremes(table, table, table, np.abs(table))


def is_even_in_logarithms(numbers: FloatArray) -> Any:
    """Whether the logarithms of columns (n, k) are spread more evenly about the middle of their range than the numbers.

    The mean of an even design is in the middle. Where a range is short, both are nearly so, and the numbers are taken;
    also where they have both signs, or are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.surrogate._profile import is_even_in_logarithms
    >>> is_even_in_logarithms(np.stack([np.linspace(1, 100, 9), np.geomspace(1, 100, 9)], axis=1)).tolist()
    [False, True]
    """
    of_one_sign = numbers.min(axis=0) * numbers.max(axis=0) > 0
    sizes = np.abs(np.where(of_one_sign, numbers, 1.0))
    spans = sizes.max(axis=0) > ONE_SIZE * sizes.min(axis=0)
    off = []
    for values in (numbers, np.log(sizes)):
        width = np.ptp(values, axis=0)
        middle = 0.5 * (values.min(axis=0) + values.max(axis=0))
        off.append(np.abs(values.mean(axis=0) - middle) / np.where(width > 0, width, 1.0))
    return of_one_sign & spans & (2 * off[1] < off[0])


def odd_sizes(sizes: FloatArray) -> IntArray:
    """Samples of another size (n,) than the others, as in other units, the furthest first; none if most sizes are 0."""
    positive = sizes > 0
    if positive.sum() < max(ENOUGH, len(sizes) / 2):
        return np.zeros(0, dtype=int)
    logs = np.log(sizes[positive])
    quarter, middle, three_quarters = np.quantile(logs, [0.25, 0.5, 0.75])
    distance = logs - middle
    limit = np.where(distance > 0, _SPREADS[1] * (three_quarters - middle), _SPREADS[0] * (middle - quarter))
    rows = np.flatnonzero(np.abs(distance) > np.maximum(np.log(OTHER_UNIT), limit))
    rows = rows[np.argsort(-np.abs(distance[rows]), kind="stable")]
    zeros, usual = np.flatnonzero(~positive), np.sort(np.delete(sizes[positive], rows))
    is_rare = len(sizes) >= FEW and len(zeros) <= min(_RARE, max(1, len(sizes) // 20))
    # Loads of zero are usual where there are several, or others come near them.
    if not is_rare or usual[0] <= _GAP * np.diff(usual).max():
        zeros = zeros[:0]
    return np.concatenate([zeros, np.flatnonzero(positive)[rows]])


def far_numbers(numbers: FloatArray, level: Literal["problem", "notice"]) -> IntArray:
    """Samples whose numbers (n,) are far from the others, the furthest first."""
    if len(numbers) < (ENOUGH if level == "problem" else FEW):
        return np.zeros(0, dtype=int)
    if level == "notice" and is_even_in_logarithms(numbers[:, np.newaxis])[0]:
        # Of numbers that are even in logarithms, many are far from the others by their differences.
        numbers = np.log(np.abs(numbers))
    quarter, middle, three_quarters = np.quantile(numbers, [0.25, 0.5, 0.75])
    distance, spread = np.abs(numbers - middle), three_quarters - quarter
    rows = np.flatnonzero((spread > 0) & (distance > _FAR[level] * spread))
    return rows[np.argsort(-distance[rows], kind="stable")]


def _relative_difference(one: Any, two: Any) -> float:
    """Norm of the difference of two arrays, relative to that of the larger; infinite where their shapes differ."""
    one, two = (np.asarray(part, dtype=np.float64) for part in (one, two))
    if one.shape != two.shape:
        return np.inf
    size = max(float(np.linalg.norm(one)), float(np.linalg.norm(two)))
    return float(np.linalg.norm(one - two)) / size if size else 0.0


def _first_alike(rows: FloatArray) -> IntArray:
    """Number of the first row (n, m) that each row is the same as up to rounding; its own where there is none."""
    seen: dict[bytes, int] = {}
    first = np.array([seen.setdefault(row.tobytes(), number) for number, row in enumerate(rows)])
    own, low, high = np.fromiter(seen.values(), dtype=int), rows.min(axis=0), rows.max(axis=0)
    with np.errstate(over="ignore"):
        size, largest = high - low, np.maximum(-low, high)
    varies = (size > ROUNDING * largest) & (size > np.finfo(np.float64).tiny / ROUNDING**2) & np.isfinite(size)
    least = ROUNDING * np.where(varies, np.clip(largest, size, _OFFSET * size), np.inf)
    # Values of a single parameter are this near by chance where there are many.
    if not varies.any() or (varies.sum() == 1 and len(own) ** 2 * (least / size)[varies].sum() > _BY_CHANCE):
        return first
    # Small values of a parameter over decades differ by their logarithms.
    decades = varies & (low > 0)
    span = np.log(high[decades]) - np.log(low[decades])
    least_logarithm = ROUNDING * np.clip(1.0, span, _OFFSET * span)
    # Rows that are not the same differ by far more, also in random sums.
    weights = np.random.default_rng(0).standard_normal((rows.shape[1], _SUMS))
    sums, most = rows[own] @ (weights / least[:, np.newaxis]), np.abs(weights).sum(axis=0)
    for others in cKDTree(sums).query(sums, min(_NEAREST, len(own)))[1].T:
        # Most rows are the nearest to themselves, and need no copy.
        close = np.flatnonzero(others != np.arange(len(own)))
        close = close[(np.abs(sums[others[close]] - sums[close]) <= most).all(axis=1)]
        one, two = rows[own[close]], rows[own[others[close]]]
        near = (np.abs(one - two) <= least).all(axis=1)
        near &= (np.abs(np.log(one[:, decades]) - np.log(two[:, decades])) <= least_logarithm).all(axis=1)
        close = close[near]
        first[own[close]] = np.minimum(first[own[close]], first[own[others[close]]])
    return first[first]


def _has_one_set_of_points(inputs: FieldSet) -> bool:
    """Whether samples share their points, or have copies of one set, as files of one mesh do."""
    if inputs.shared_coords or inputs.is_ragged:
        return inputs.shared_coords
    first = inputs[:1].coords[0]
    return all((piece.reshape(-1, *first.shape) == first).all() for _, piece in iterate_coords(inputs))


def coarse_design(inputs: FieldSet) -> str:
    """Tell in words that samples share a few values of parameters, so that none shows errors between these."""
    if inputs.params is None or inputs.n_channels or not _has_one_set_of_points(inputs):
        return ""
    counts = {number: len(np.unique(column)) for number, column in enumerate(np.asarray(inputs.params).T)}
    counts = {number: count for number, count in counts.items() if count > 1}
    if len(counts) > 1 and np.prod(list(counts.values()), dtype=float) <= _COMBINATIONS * len(inputs):
        return f"samples are a factorial design of {' x '.join(map(str, counts.values()))} values of the parameters"
    few = [n for n, count in counts.items() if _VALUES[0] <= count <= min(_VALUES[1], len(inputs) // _EACH)]
    return f"samples share {counts[few[0]]} values of parameter {few[0]}" if few else ""


# ---------------------------------------------------------------------- findings
class Profile:
    """Statistics of the samples of a fit, and findings on them; names of the columns of a table, and of samples."""

    def __init__(
        self,
        data: TrainingData,
        columns: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        *,
        has_groups: bool = False,
        frame_size: int | None = None,
    ) -> None:
        self.data, self.inputs, self.has_groups, self.frame_size = data, data.inputs, has_groups, frame_size
        self.is_table = data.spec.has_features
        self.param_names = columns if self.is_table else data.spec.param_names
        self.names = names or data.names or range(len(data.inputs))

    @cached_property
    def boxes(self) -> tuple[FloatArray, FloatArray]:
        """Lowest and highest coordinates of each sample."""
        return boxes(self.inputs)

    @cached_property
    def columns(self) -> list[Column]:
        """Statistics of the input channels, parameters, target channels and scalars, in this order."""
        data, field, ones = self.data, self.data.targets.field, np.ones(len(self.inputs))
        kind, scalars = "column" if self.is_table else "parameter", data.spec.target_form.scalar_names
        return [
            *_columns("input", "channel", data.input_extremes, self.inputs.channel_names, self.inputs.n_points),
            *_columns("parameter", kind, _of_numbers(self.inputs.params), self.param_names, ones),
            *(
                []
                if field is None
                else _columns("target", "channel", data.target_extremes, field.channel_names, field.n_points)
            ),
            *_columns("scalar", "scalar", _of_numbers(data.targets.scalars), scalars, ones),
        ]

    @cached_property
    def of(self) -> dict[Role, list[Column]]:
        """Statistics of what has a role."""
        found: dict[Role, list[Column]] = {"input": [], "parameter": [], "target": [], "scalar": []}
        for column in self.columns:
            found[column.role].append(column)
        return found

    def problems(self) -> list[Finding]:
        """What a fit warns of.

        Tables of features are measured data, with all kinds of outliers, and only columns that equal a target, the
        offset of the targets, single repetitions that differ by more than the targets vary, and the design, are looked
        at.
        """
        found: list[Finding] = []
        if not self.is_table:
            found += [*self._other_units(), *self._noise(), *self._far_numbers()]
        found += [finding for finding in self._results if finding.level == "problem"][:1]
        found += [*self._known_fields(), *self._contradictions(), *self._repeated_fields()]
        return [*found, *self._offsets(), *self._designs()]

    def findings(self) -> list[Finding]:
        """Problems, and what may be meant."""
        found = self.problems() + ([] if self.is_table else self._lone_points())
        found += [finding for finding in self._results if finding.level == "notice"]
        words = coarse_design(self.inputs)
        if words and not any(BETWEEN_VALUES in finding.text for finding in found):
            found.append(Finding("notice", f"{words}: errors that a fit tells hold for these values; {BETWEEN_VALUES}"))
        known = {name for finding in found for name in finding.samples}
        for column in self.columns:
            low, mean, high, _ = column.summary
            if low == high:
                if len(column.mean) > 1 and (column.source == "X" or high):
                    text = f"{column.label} of {column.source} is {mean:.4g} everywhere; leave it out."
                    found.append(Finding("notice", text, (), column.label, mean, low, high))
                continue
            rows = [row for row in far_numbers(column.mean, "notice") if self.names[row] not in known]
            if rows:
                what = column.label if column.role in ("parameter", "scalar") else f"the mean of {column.label}"
                found.append(self._among("notice", what, column, rows, "Check it."))
        return found + self._copies()

    def _among(self, level: Literal["problem", "notice"], what: str, column: Column, rows: Any, advice: str) -> Finding:
        """A number that is far from those of half of the samples."""
        samples, value = tuple(self.names[row] for row in rows), float(column.mean[rows[0]])
        low, high = np.quantile(column.mean, [0.25, 0.75])
        text = (
            f"{what} of {column.source} is {value:.3g} in {in_order(samples)}, but {low:.3g} to {high:.3g} in half of "
            f"the samples. {advice}"
        )
        return Finding(level, text, samples, what, value, float(low), float(high))

    def _other_units(self) -> Iterator[Finding]:
        """Samples whose field, or box, is of another size than those of the others."""
        sides = np.subtract(*self.boxes[::-1]).max(axis=1)
        sizes = {
            "X": [(f"{column.label} (root mean square)", column.size) for column in self.of["input"]],
            "y": self._sizes_of_targets(),
            "the box": [] if self.inputs.shared_coords else [("longest side", sides)],
        }
        for source, parts in sizes.items():
            found = [(what, size, rows) for what, size in parts if len(rows := self._odd(size, source))]
            if found:
                what, size, rows = found[0]
                middle, own = float(np.median(size)), float(size[rows[0]])
                samples = tuple(self.names[row] for row in rows)
                more = f", and so are {len(found) - 1} more channels" if len(found) > 1 else ""
                advice = "the units, as of metres among millimetres" if own else "that its run was finished and written"
                text = (
                    f"{source} of {in_order(samples)} is of another size than that of the other samples: its {what} is "
                    f"{own / middle:.2g} times the median ({own:.3g}, median {middle:.3g}){more}. Check {advice}, or "
                    "leave it out."
                )
                yield Finding("problem", text, samples, what, own, middle, middle)

    def _sizes_of_targets(self) -> list[tuple[str, FloatArray]]:
        """Sizes of the target channels, of all frames together: in one of these a run may pass through zero."""
        columns, size = self.of["target"], self.frame_size
        if size is None or len(columns) <= size:
            return [(f"{column.label} (root mean square)", column.size) for column in columns]
        frames = [(columns[k].label, [column.size for column in columns[k::size]]) for k in range(size)]
        return [
            (f"{label} (root mean square of all frames)", np.sqrt(np.mean(np.square(sizes), axis=0)))
            for label, sizes in frames
        ]

    def _odd(self, sizes: FloatArray, source: str) -> IntArray:
        """Samples of another size; results of zeros are none where a parameter or a field of X is 0 beside others."""
        rows = odd_sizes(sizes)
        zeros = rows[sizes[rows] == 0]
        if source != "y" or not len(zeros):
            return rows
        parts = [] if self.inputs.params is None else [np.abs(self.inputs.params)]
        causes = np.column_stack([*parts, *(column.size for column in self.of["input"])])
        causes = causes[:, (causes == 0).mean(axis=0) < 0.5] if causes.size else causes
        unloaded = zeros[(causes[zeros] == 0).any(axis=1)]
        return rows[~np.isin(rows, unloaded)]

    def _noise(self) -> Iterator[Finding]:
        """A coordinate that varies so little that it is rounding."""
        lower, upper = self.boxes
        extent, axes = upper.max(axis=0) - lower.min(axis=0), self.data.spec.kept_axes or range(self.inputs.n_dims)
        for axis in np.flatnonzero((extent > 0) & (extent < ROUNDING * extent.max()))[:1]:
            depths = (upper - lower)[:, axis]
            most = (self.names[int(np.argmax(depths))],) if len(depths) > 1 and depths.any() else ()
            text = (
                f"coordinate {axes[axis]} of the points varies by {extent[axis]:.1e} only"
                f"{f', most in {in_order(most)}' if most else ''}, while they are {extent.max():.3g} large: this looks "
                f"like rounding of plane meshes, which are read as {len(axes)}-D. Set the coordinate to one value in "
                "all samples, so that it is left out of meshes."
            )
            yield Finding("problem", text, most)

    def _far_numbers(self) -> Iterator[Finding]:
        """Global parameters and scalars that are far from the others; of each, the first."""
        for columns in (self.of["parameter"], self.of["scalar"]):
            for column in columns:
                if len(rows := far_numbers(column.mean, "problem")):
                    advice = "Check its units, or leave the sample out."
                    yield self._among("problem", column.label, column, rows, advice)
                    break

    @cached_property
    def _results(self) -> list[Finding]:
        """Parameters that equal a number of a target, known only after a run; or that may be prescribed at a node."""
        results = [
            (f"the {word} of {column.label}", getattr(column, what), (channel, what))
            for channel, column in enumerate(self.of["target"])
            for what, word in (_EXTREMES | {"mean": "mean", "size": "root mean square"}).items()
        ]
        results += [(column.label, column.mean, (0, "mean")) for column in self.of["scalar"]]
        found = list[Finding]()
        # Few different numbers, such as 0 and 1, can be the same by chance.
        for column in (column for column in self.of["parameter"] if len(np.unique(column.mean)) >= ENOUGH):
            equal = [
                (what, self._node_of_extreme(*place))
                for what, result, place in results
                if np.allclose(column.mean, result, rtol=_RESULT, atol=0)
            ]
            if not equal:
                continue
            what, node = min(equal, key=lambda pair: pair[1] is not None)
            advice = (
                ": it is a result, which is not known before a run, so that errors of held-out samples say nothing of "
                "new ones, or the prediction of one, as in the later stage of a stack. Leave a result out of X; or out "
                "of y, if it is known, as an initial value is. Keep a prediction."
            )
            if node is not None:
                advice = (
                    f", which is at point {node} in all of them. Is it prescribed there, as the temperature of a wall "
                    "is? Then keep it. Or is it a result, which is not known before a run? Then leave it out of X."
                )
            text = f"{column.label} of X equals {what} of y in every sample{advice}"
            found.append(Finding("problem" if node is None else "notice", text, (), column.label))
        return found

    def _node_of_extreme(self, channel: int, what: str) -> int | None:
        """First node at which a channel has an extreme in all samples, which share their points; None without one."""
        field = self.data.targets.field
        if what not in _EXTREMES or field is None or not _has_one_set_of_points(field):
            return None
        column = self.of["target"][channel]
        extreme, slack = getattr(column, what)[:, np.newaxis], ROUNDING * column.largest[:, np.newaxis]
        stays = np.ones(field.n_points[0], dtype=bool)
        for start, piece in iterate_rows(field):
            values, rows = np.asarray(piece[..., channel], dtype=np.float64), slice(start, start + len(piece))
            values = np.abs(values) if what == "largest" else values
            stays &= (np.abs(values - extreme[rows]) <= slack[rows]).all(axis=0)
            if not stays.any():
                return None
        return int(np.argmax(stays))

    def _known_fields(self) -> Iterator[Finding]:
        """An input channel that is a target channel, which nobody needs to predict, or knows only after a run."""
        inputs, field, targets = self.inputs, self.data.targets.field, self.of["target"]
        if field is None or self.data.targets.elsewhere:
            return
        rows = np.unique(np.linspace(0, len(inputs) - 1, ENOUGH, dtype=int))
        means = np.stack([target.mean for target in targets], axis=1)
        for i, given in enumerate(self.of["input"]):
            alike = np.isclose(given.mean[:, np.newaxis], means, rtol=_RESULT, atol=0).all(axis=0)
            # Few different numbers can be the same by chance, and fields that move have the same mean.
            for j in np.flatnonzero(alike) if len(np.unique(given.mean)) >= ENOUGH else ():
                pairs = zip(*(part[rows].to_list() for part in (inputs, field)), strict=True)
                if all(np.array_equal(ours[..., i], theirs[..., j]) for ours, theirs in pairs):
                    text = (
                        f"{given.label} of X equals {targets[j].label} of y in every sample, so that errors say "
                        "little. Leave it out of X if it is known only after a run, and out of y if it is known "
                        "before, as an initial value is."
                    )
                    yield Finding("problem", text, (), given.label)
                    break

    def _designs(self) -> Iterator[Finding]:
        """Designs whose errors say little of new samples: one parameter at a time, two values, rows of a run."""
        params, inputs = self.inputs.params, self.inputs
        if params is None or inputs.n_channels or len(params) < FEW or not _has_one_set_of_points(inputs):
            return
        levels = [np.unique(column, return_inverse=True)[1] for column in np.asarray(params).T]
        varied = [number for number, held in enumerate(levels) if held.max() > 0]
        numbers = np.stack([levels[number] for number in varied], axis=1) if varied else np.zeros((len(params), 0), int)
        usual = [np.bincount(held).argmax() for held in numbers.T]
        # A category in columns of zeros and ones has one of these at a time, too.
        if (numbers.max(axis=0, initial=0) > 1).sum() > 1 and ((numbers != usual).sum(axis=1) <= 1).all():
            text = (
                "one parameter at a time differs from those of a middle sample, so that nothing tells how parameters "
                "act together: errors of these samples say nothing of new ones, in which several differ. Add samples "
                "at random values of all parameters."
            )
            yield Finding("problem", text)
        # Flags and categories in columns of zeros and ones have nothing between these.
        if len(varied) > 1 and numbers.max() == 1 and not np.isin(np.asarray(params)[:, varied], (0, 1)).all():
            text = (
                f"all {len(varied)} parameters that vary have two values each, so that no sample tells how results "
                f"change between these: {BETWEEN_VALUES}"
            )
            yield Finding("problem", text)
        # Parameters of a run change together: the first rows with their values are the same.
        pairs = [np.unique(held, return_index=True, return_inverse=True)[1:] for held in numbers.T]
        first = [places[held].tobytes() for places, held in pairs]
        for rows in dict.fromkeys(first):
            together = [k for k, own in enumerate(first) if own == rows]
            count = len(pairs[together[0]][0])
            # Rows that are the same in all parameters are left out together anyway.
            if 1 < len(together) < len(varied) and FEW <= count <= len(params) // 3 and not self.has_groups:
                labels = [column.label for column in self.of["parameter"]]
                text = (
                    f"rows are {count} groups with the same {in_order([labels[varied[k]] for k in together])}, such "
                    "as those of a run at several times: errors and bands are those of new rows of these groups, and "
                    "say nothing of new groups. Pass groups= to fit (--group) where it takes groups. Rows of a run at "
                    "several times can also be one row of TimeConditionedRegressor."
                )
                yield Finding("problem", text)

    def _offsets(self) -> Iterator[Finding]:
        """A mean of a target that hides its variation, so that a relative error says little."""
        for column in self.of["target"] + self.of["scalar"]:
            _, mean, _, deviation = column.summary
            size, is_enough = abs(mean), column.role == "target" or len(column.mean) >= ENOUGH
            if is_enough and size > _FAR["problem"] * deviation and deviation > ROUNDING * size:
                text = (
                    f"the mean of y ({column.label}) is {size / deviation:.1e} times its standard deviation: score is "
                    "relative to y with its mean, and close to 1 even where the variation is lost. Subtract the mean "
                    "from y, or judge by skop.metrics.root_mean_squared_error against the standard deviation of "
                    f"{deviation:.3g}."
                )
                yield Finding("problem", text, (), column.label, mean)
                return

    def _lone_points(self) -> list[Finding]:
        """Samples with points far from all others."""
        lone = []
        for row, points in enumerate([self.inputs.coords] if self.inputs.shared_coords else self.inputs.coords_list()):
            radius = np.linalg.norm(points - np.median(points, axis=0), axis=1)
            if len(radius) >= FEW and radius.max() > _LONE[0] * np.quantile(radius, _LONE[1], method="lower"):
                lone.append(self.names[row])
        if not lone:
            return []
        place = "that all samples share" if self.inputs.shared_coords else f"of {in_order(lone)}"
        text = (
            f"some of the points {place} are far from all others, as reference points are. Remove them, since they "
            "enlarge the box to which coordinates are scaled."
        )
        return [Finding("problem", text, () if self.inputs.shared_coords else tuple(lone))]

    # ------------------------------------------------------------------ equal inputs
    @cached_property
    def _repeats(self) -> tuple[int, list[tuple[float, bool, int, int]]]:
        """Number of pairs that seem to have equal inputs; of the first that have, how y differs, and if by too much."""
        extremes, inputs = self.data.input_extremes, self.inputs
        parts: list[Any] = [] if extremes is None else [extremes.low, extremes.high, extremes.mean, extremes.size]
        parts += [] if inputs.params is None else [inputs.params]
        parts += [] if inputs.shared_coords else [*self.boxes, np.asarray(inputs.n_points)[:, np.newaxis]]
        rows = np.concatenate([np.zeros((len(inputs), 1)), *parts], axis=1, dtype=np.float64)
        pairs = [(int(first), row) for row, first in enumerate(_first_alike(rows)) if first != row]
        # Where every second measurement or more is repeated, it is to show how much these differ.
        may_differ, found = self.is_table and 4 * len(pairs) >= len(inputs), []
        for pair in (pair for pair in pairs[:READ] if not self._differ(*pair)):
            difference, least = self._difference(*pair), ROUNDING if self._are_equal(*pair) else _OTHER
            is_other = self._scatters(*pair) if self.is_table else difference > least
            found.append((difference, is_other and not may_differ, *pair))
        return len(pairs), found

    def _are_equal(self, row: int, other: int) -> bool:
        """Whether two samples have equal points, fields and parameters, to the last digit."""
        a, b = self.inputs[row : row + 1], self.inputs[other : other + 1]
        if a.params is not None and not np.array_equal(a.params, np.asarray(b.params)):
            return False
        if not self.inputs.shared_coords and not np.array_equal(a.coords, b.coords):
            return False
        return a.values is None or np.array_equal(a.values, np.asarray(b.values))

    def _contradictions(self) -> list[Finding]:
        """Equal inputs with different targets."""
        n_pairs, found = self._repeats
        found = [repeat for repeat in found if repeat[1]]
        if not found:
            return []
        difference, _, *pair = max(found)
        count = f"{len(found)} pairs of samples have" if len(found) > 1 else "two samples have"
        more = " at least" if n_pairs > READ and len(found) > 1 else ""
        rounding = "" if self._are_equal(*pair) else " up to rounding"
        text = (
            f"X is the same{rounding} in {in_order([self.names[row] for row in pair])}, but y differs by "
            f"{100 * difference:.2g} %:{more} {count} equal inputs and different targets, of which a model can only "
            "predict one. Pass what differs between the runs as a further input, or leave one of them out."
        )
        rows = dict.fromkeys([*pair, *(row for _, _, *others in found for row in others)])
        return [Finding("problem", text, tuple(self.names[row] for row in rows))]

    def _repeated_fields(self) -> Iterator[Finding]:
        """Equal fields of y for different inputs, as of a result that was copied."""
        extremes, field = self.data.target_extremes, self.data.targets.field
        if extremes is None or field is None:
            return
        first: dict[bytes, int] = {}
        pairs = [(first.setdefault(digest.tobytes(), row), row) for row, digest in enumerate(extremes.digests)]
        pairs = [pair for pair in pairs if pair[0] != pair[1]][:READ]
        # Fields of few different numbers, such as 0 and 1, can be the same by chance.
        varied = (pair for pair in pairs if len(np.unique(np.asarray(field[pair[1] : pair[1] + 1].values))) >= ENOUGH)
        found = [pair for pair in varied if self._differ(*pair)]
        # Where many results are equal, X has no effect on these; results of neighbours are where they saturate.
        if len(found) <= min(_RARE, len(self.inputs) / 4) and not all(self._are_neighbours(*pair) for pair in found):
            samples = tuple(self.names[row] for row in dict.fromkeys(row for pair in found for row in pair))
            more = f", and in {len(found) - 1} more" if len(found) > 1 else ""
            text = (
                f"y is the same to the last digit in {in_order(samples[:2])}{more}, but X differs, as if a result was "
                "copied, or a run wrote the state of another. Check these runs, or leave them out, unless what differs "
                "in X has no effect on y."
            )
            yield Finding("problem", text, samples)

    def _differ(self, row: int, other: int) -> bool:
        """Whether the inputs of two samples differ by more than rounding."""
        params, (a, b) = self.inputs.params, (self.inputs[place : place + 1] for place in (row, other))
        if params is not None and (np.abs(params[row] - params[other]) > ROUNDING * np.abs(params).max(axis=0)).any():
            return True
        pairs: list[Any] = [] if self.inputs.shared_coords else [(a.coords, b.coords)]
        pairs += [] if a.values is None or b.values is None else [(a.values, b.values)]
        return any(_relative_difference(one, two) > ROUNDING for one, two in pairs)

    def _are_neighbours(self, row: int, other: int) -> bool:
        """Whether parameters of two samples are nearer to each other than those of most."""
        params = self.inputs.params
        if params is None or self.inputs.n_channels or len(params) < FEW:
            return False
        size = params.std(axis=0)
        scaled = params[:, size > 0] / size[size > 0]
        distance = np.linalg.norm(scaled - scaled[row], axis=1)
        return int((distance < distance[other]).sum()) <= len(params) / 4

    def _copies(self) -> list[Finding]:
        """Samples with equal inputs, and targets that do not contradict: one finding of all groups of such samples."""
        groups: dict[int, list[int]] = {}
        pairs = [pair for _, is_other, *pair in self._repeats[1] if not is_other]
        for row, other in pairs:
            groups.setdefault(row, [row]).append(other)
        if not groups:
            return []
        labels = [tuple(self.names[row] for row in rows) for rows in groups.values()]
        words, kept = in_order(labels[0]), "these"
        if len(labels) > 1:
            least = "at least " if self._repeats[0] > READ else ""
            shown = [in_order(names) for names in labels[:NAMED]]
            shown += [f"and {len(labels) - NAMED} more"] if len(labels) > NAMED else []
            words, kept = f"each of {least}{len(labels)} groups of samples ({'; '.join(shown)})", "each group"
        rounding = "" if all(self._are_equal(*pair) for pair in pairs) else " up to rounding"
        text = f"X is the same{rounding} in {words}: keep {kept} on one side of a split, or leave copies out."
        return [Finding("notice", text, tuple(chain(*labels)))]

    def _scatters(self, row: int, other: int) -> bool:
        """Whether scalars of two samples differ by more than their standard deviation over all samples."""
        return any(0 < column.summary[3] < abs(column.mean[row] - column.mean[other]) for column in self.of["scalar"])

    def _difference(self, row: int, other: int) -> float:
        """Relative difference of the targets of two samples; infinite where their numbers of points differ."""
        a, b = (self.data.targets[place : place + 1] for place in (row, other))
        pairs: list[Any] = [] if a.scalars is None else [(a.scalars, b.scalars)]
        pairs += [] if a.field is None or b.field is None else [(a.field.values, b.field.values)]
        return max((_relative_difference(one, two) for one, two in pairs), default=0.0)
