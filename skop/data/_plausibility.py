"""What the values of samples are like, and warnings about samples that look like mistakes.

A run in other units, a mesh in metres among meshes in millimetres, or two equal inputs with different targets can be
trained on, and cost accuracy in silence. The checks here look for them in statistics of each sample, which are computed
while the values are read for the check that they are finite.

Notation: n samples, P points of a sample, d space dimensions, c channels, p global parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data._fieldset import FieldSet
from skop.data._samples import TrainingData
from skop.data._spec import Targets
from skop.data._statistics import boxes
from skop.exceptions import warn

__all__ = ["odd_sizes", "result_among_parameters", "warn_of_odd_data"]

#: Number of samples from which their sizes are compared.
_ENOUGH = 5
#: Ratio of a size to the median from which it is named, and the same in distances between the median and a quartile of
#: the logarithms, upwards and downwards. Loads are drawn down to zero more often than up to infinity.
_RATIO, _ABOVE, _BELOW = 30.0, 8.0, 16.0
#: Distance of a number from the median, in interquartile ranges, from which it is named.
_FAR = 100.0
#: Mean of a target in units of its standard deviation from which a relative error says little.
_OFFSET = 100.0
#: Relative standard deviation below which a target counts as constant.
_CONSTANT = 1e-7
#: Extent of a coordinate of meshes, as a fraction of the largest extent, that is taken for noise.
_NOISE = 1e-6
#: Relative difference of targets of equal inputs above which they differ, and the largest number of comparisons.
_SAME, _COMPARISONS = 1e-6, 50
#: Relative difference up to which a parameter is a result, which a table may hold with few digits.
_RESULT = 1e-4


# ---------------------------------------------------------------------- warnings of a fit
def warn_of_odd_data(data: TrainingData, columns: Sequence[str] | None = None) -> None:
    """Warn about samples of a fit that look like mistakes; each warning names samples, or files of meshes.

    Tables of features are measured data, with all kinds of outliers, and only columns that equal a target, the offset
    of the targets, and single repetitions that differ by more than the targets vary, are looked at.

    Parameters
    ----------
    data : TrainingData
        Samples of the fit, which have been checked.
    columns : sequence of str or None, default=None
        Names of the columns of a table of features.

    Warns
    -----
    SkopWarning
        If the field of a sample, or its points, are of another size than those of the others; points of plane meshes
        have noise in a coordinate; numbers are far from the others; a global parameter is a result of the targets;
        equal inputs have different targets; or the variation of the targets is small against their mean.
    """
    inputs, targets, who = data.inputs, data.targets, _Names(data.names)
    if data.spec.role != "features":
        for fields, extremes, name in (
            (inputs, data.input_extremes, "X"),
            (targets.field, data.target_extremes, "y"),
        ):
            if fields is not None and extremes is not None:
                _warn_of_sizes(extremes.size, fields.channel_names, name, who)
        if not inputs.shared_coords:
            _warn_of_scale(inputs, who)
        if data.spec.kept_axes is not None:
            _warn_of_noise(inputs, data.spec.kept_axes, who)
        _warn_of_numbers(inputs.params, "global parameter", "X", who)
        _warn_of_numbers(targets.scalars, "scalar", "y", who)
    _warn_of_results(data, columns)
    _warn_of_contradictions(data, who)
    _warn_of_offset(data)


class _Names:
    """Samples in words: files of meshes, or numbers."""

    def __init__(self, names: Sequence[str] | None) -> None:
        self._names = names

    def __call__(self, rows: IntArray) -> str:
        """Name one or several samples; of many, only the first."""
        words = [f"sample {row}" if self._names is None else self._names[row] for row in rows[:3]]
        if len(rows) > 3:
            words.append(f"{len(rows) - 3} more")
        return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def odd_sizes(sizes: FloatArray) -> IntArray:
    """Find samples that are of another size than the others, as in other units.

    Parameters
    ----------
    sizes : ndarray of shape (n,)
        Sizes, at least 0; those that are 0 are not compared.

    Returns
    -------
    ndarray of int
        Indices of these samples, the furthest from the median first; none if most sizes are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data import odd_sizes
    >>> odd_sizes(np.array([1.0, 2.0, 1000.0, 0.0, 1.5, 1.2])).tolist()
    [2]
    """
    positive = sizes > 0
    if positive.sum() < max(_ENOUGH, len(sizes) / 2):
        return np.zeros(0, dtype=int)
    logs = np.log(sizes[positive])
    quarter, middle, three_quarters = np.quantile(logs, [0.25, 0.5, 0.75])
    distance = logs - middle
    limit = np.where(distance > 0, _ABOVE * (three_quarters - middle), _BELOW * (middle - quarter))
    rows = np.flatnonzero(np.abs(distance) > np.maximum(np.log(_RATIO), limit))
    rows = rows[np.argsort(-np.abs(distance[rows]), kind="stable")]
    return np.flatnonzero(positive)[rows]


def _warn_of_sizes(sizes: FloatArray, names: Sequence[str] | None, what: str, who: _Names) -> None:
    """Warn about samples whose field is of another size ``(n, c)`` than those of the others."""
    found = []
    for channel in range(sizes.shape[1]):
        if len(rows := odd_sizes(sizes[:, channel])):
            middle, own = float(np.median(sizes[:, channel])), float(sizes[rows[0], channel])
            field = f"channel {channel}" if names is None else f"{names[channel]!r}"
            found.append((rows, f"{field} is {own / middle:.2g} times the median ({own:.3g}, median {middle:.3g})"))
    if not found:
        return
    more = f", and so are {len(found) - 1} more channels" if len(found) > 1 else ""
    warn(
        f"{what} of {who(found[0][0])} is of another size than that of the other samples: its {found[0][1]} in root "
        f"mean square{more}. Check the units, or leave it out."
    )


def _warn_of_scale(inputs: FieldSet, who: _Names) -> None:
    """Warn about samples whose box is of another size than those of the others."""
    lower, upper = boxes(inputs)
    sides = (upper - lower).max(axis=1)
    rows = odd_sizes(sides)
    if len(rows):
        warn(
            f"the points of {who(rows)} have another scale than those of the other samples: the longest side of their "
            f"box is {sides[rows[0]]:.3g}, the median {np.median(sides):.3g}. Check the units of the coordinates, such "
            "as metres among millimetres."
        )


def _warn_of_noise(inputs: FieldSet, axes: tuple[int, ...], who: _Names) -> None:
    """Warn about a coordinate of meshes that varies so little that it is taken for noise."""
    lower, upper = boxes(inputs)
    extent = upper.max(axis=0) - lower.min(axis=0)
    flat = np.flatnonzero((extent > 0) & (extent < _NOISE * extent.max()))
    if not len(flat):
        return
    own = (upper - lower)[:, flat[0]]
    place = f", most in {who(np.array([np.argmax(own)]))}" if len(own) > 1 and own.any() else ""
    warn(
        f"coordinate {axes[flat[0]]} of the meshes varies by {extent[flat[0]]:.1e} only{place}, while they are "
        f"{extent.max():.3g} large: this looks like rounding of plane meshes, which are read as {len(axes)}-D. Set the "
        "coordinate to one value in all meshes, so that it is left out."
    )


def _warn_of_numbers(numbers: FloatArray | None, kind: str, what: str, who: _Names) -> None:
    """Warn about global parameters or scalars ``(n, p)`` that are far from the others."""
    if numbers is None or len(numbers) < _ENOUGH:
        return
    quarter, middle, three_quarters = np.quantile(np.asarray(numbers, dtype=np.float64), [0.25, 0.5, 0.75], axis=0)
    distance, spread = np.abs(numbers - middle), three_quarters - quarter
    for column in np.flatnonzero(spread > 0):
        rows = np.flatnonzero(distance[:, column] > _FAR * spread[column])
        if len(rows):
            rows = rows[np.argsort(-distance[rows, column], kind="stable")]
            warn(
                f"{kind} {column} of {what} is {numbers[rows[0], column]:.3g} in {who(rows)}, but {quarter[column]:.3g}"
                f" to {three_quarters[column]:.3g} in half of the samples. Check its units, or leave the sample out."
            )
            return


def result_among_parameters(data: TrainingData) -> tuple[int, str] | None:
    """Find a global parameter that is an extreme, the mean or the size of a target, and known only after a run.

    Parameters
    ----------
    data : TrainingData
        X and y of a fit.

    Returns
    -------
    tuple of (int, str) or None
        Number of the parameter, and the result in words; None if there is none.
    """
    params, targets = data.inputs.params, data.targets
    if params is None or len(params) < _ENOUGH:
        return None
    results: dict[str, FloatArray] = {}
    if data.target_extremes is not None and targets.field is not None:
        names = targets.field.channel_names or range(targets.field.n_channels)
        for what in ("low", "high", "mean", "size"):
            word = {"low": "smallest value", "high": "largest value", "mean": "mean", "size": "root mean square"}[what]
            columns = np.asarray(getattr(data.target_extremes, what))
            results |= {
                f"the {word} of channel {name!r}": column for name, column in zip(names, columns.T, strict=True)
            }
    if targets.scalars is not None:
        results |= {f"scalar {number}": column for number, column in enumerate(np.asarray(targets.scalars).T)}
    for number, column in enumerate(np.asarray(params, dtype=np.float64).T):
        # Few different numbers, such as 0 and 1, can be the same by chance.
        if len(np.unique(column)) < _ENOUGH:
            continue
        for what, result in results.items():
            if np.allclose(column, result, rtol=_RESULT, atol=0):
                return number, what
    return None


def _warn_of_results(data: TrainingData, columns: Sequence[str] | None) -> None:
    """Warn about a global parameter, or a column of a table of features, that is a result."""
    if (found := result_among_parameters(data)) is not None:
        number, is_table = found[0], data.spec.role == "features"
        names, kind = (columns, "column") if is_table else (data.spec.param_names, "global parameter")
        warn(
            f"{kind} {number if names is None else repr(names[number])} of X equals {found[1]} of y in every "
            "sample: it is a result, which is not known before a run, so that errors of held-out samples say nothing "
            "of new ones. Leave it out of X; or out of y, if it is known, as an initial value is."
        )


def _warn_of_offset(data: TrainingData) -> None:
    """Warn if the mean of a target hides its variation, so that a relative error says little."""
    kinds: list[tuple[str, FloatArray, FloatArray]] = []
    extremes, scalars = data.target_extremes, data.targets.scalars
    names = None if data.targets.field is None else data.targets.field.channel_names
    if extremes is not None:
        weight = np.asarray(data.targets.field.n_points, dtype=np.float64)  # type: ignore[union-attr]
        mean = np.average(extremes.mean, axis=0, weights=weight)
        within = np.maximum(extremes.size**2 - extremes.mean**2, 0.0)
        variance: FloatArray = np.average(within + (extremes.mean - mean) ** 2, axis=0, weights=weight)
        kinds.append(("channel", mean, variance))
    if scalars is not None and len(scalars) >= _ENOUGH:
        numbers: FloatArray = np.asarray(scalars, dtype=np.float64)
        kinds.append(("scalar", numbers.mean(axis=0), numbers.var(axis=0)))
    for kind, mean, variance in kinds:
        size, deviation = np.abs(mean), np.sqrt(variance)
        is_hidden = (size > _OFFSET * deviation) & (deviation > _CONSTANT * size)
        if is_hidden.any():
            column = int(np.argmax(is_hidden))
            name = f"{names[column]!r}" if kind == "channel" and names is not None else f"{kind} {column}"
            warn(
                f"the mean of y ({name}) is {size[column] / deviation[column]:.1e} times its standard deviation: score "
                "is relative to y with its mean, and close to 1 even where the variation is lost. Subtract the mean "
                "from y, or judge by skop.metrics.root_mean_squared_error against the standard deviation of "
                f"{deviation[column]:.3g}."
            )
            return


# ---------------------------------------------------------------------- equal inputs
def _warn_of_contradictions(data: TrainingData, who: _Names) -> None:
    """Warn about equal inputs that have different targets."""
    inputs, targets = data.inputs, data.targets
    first: dict[bytes, int] = {}
    pairs = []
    for row, key in enumerate(_fingerprints(data)):
        earlier = first.setdefault(key, row)
        if earlier != row:
            pairs.append((earlier, row))
    found = []
    is_table = data.spec.role == "features"
    # Where every second measurement or more is repeated, it is to show how much these differ.
    if is_table and 4 * len(pairs) >= len(inputs):
        return
    least = 1.0 if is_table else _SAME
    for pair in pairs[:_COMPARISONS]:
        difference = _scatter(targets, *pair) if is_table else _difference(targets, *pair)
        if difference > least and _are_equal(inputs, *pair):
            found.append((_difference(targets, *pair), pair))
    if found:
        difference, pair = max(found)
        count = f"{len(found)} pairs of samples have" if len(found) > 1 else "two samples have"
        more = " at least" if len(pairs) > _COMPARISONS and len(found) > 1 else ""
        warn(
            f"X is the same in {who(np.array(pair))}, but y differs by {100 * difference:.2g} %:{more} {count} equal "
            "inputs and different targets, of which a model can only predict one. Pass what differs between the runs "
            "as a further input, or leave one of them out."
        )


def _fingerprints(data: TrainingData) -> list[bytes]:
    """Statistics of the inputs of each sample as bytes, which are equal for equal inputs."""
    inputs, extremes = data.inputs, data.input_extremes
    parts: list[Any] = [] if extremes is None else [extremes.low, extremes.high, extremes.mean, extremes.size]
    if inputs.params is not None:
        parts.append(inputs.params)
    if not inputs.shared_coords:
        parts += [*boxes(inputs), np.asarray(inputs.n_points)[:, np.newaxis]]
    if not parts:
        return [b""] * len(inputs)
    table = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts], axis=1)
    return [row.tobytes() for row in np.ascontiguousarray(table)]


def _are_equal(inputs: FieldSet, row: int, other: int) -> bool:
    """Whether two samples have equal points and fields; their parameters are equal already."""
    a, b = inputs[row : row + 1], inputs[other : other + 1]
    if not inputs.shared_coords and not np.array_equal(a.coords, b.coords):
        return False
    return a.values is None or np.array_equal(a.values, np.asarray(b.values))


def _scatter(targets: Targets, row: int, other: int) -> float:
    """Largest difference of scalars of two samples in units of their standard deviation over all samples."""
    if targets.scalars is None:
        return 0.0
    numbers = np.asarray(targets.scalars, dtype=np.float64)
    spread = numbers.std(axis=0)
    return float((np.abs(numbers[row] - numbers[other]) / np.where(spread > 0, spread, np.inf)).max())


def _difference(targets: Targets, row: int, other: int) -> float:
    """Relative difference of the targets of two samples; infinite where their numbers of points differ."""
    a, b = targets[row : row + 1], targets[other : other + 1]
    found = 0.0
    for part, second in (
        (a.scalars, b.scalars),
        (None if a.field is None else a.field.values, None if b.field is None else b.field.values),
    ):
        if part is None or second is None:
            continue
        if part.shape != second.shape:
            return np.inf
        one, two = np.asarray(part, dtype=np.float64), np.asarray(second, dtype=np.float64)
        size = max(float(np.linalg.norm(one)), float(np.linalg.norm(two)))
        found = max(found, float(np.linalg.norm(one - two)) / size if size else 0.0)
    return found
