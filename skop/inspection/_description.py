"""Description of data before a fit: what they are, what is wrong with them, and what to start with.

Notation: n samples, P points of a sample, d space dimensions, c channels, p parameters.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data import (
    FieldSet,
    MeshRun,
    TrainingData,
    find_runs,
    is_mesh_series,
    odd_sizes,
    read,
    read_frames,
    result_among_parameters,
)
from skop.exceptions import FieldDataError
from skop.inspection._analysis import named, take
from skop.surrogate._domain import is_even_in_logarithms

__all__ = ["ChannelSummary", "DataDescription", "Finding", "describe_data", "describe_runs"]

#: Distance from the median, in robust standard deviations, above which a sample counts as far from the others; and the
#: number of samples from which this is looked at.
_FAR, _ENOUGH = 8.0, 8
#: Mean in units of the standard deviation above which an offset hides the variation.
_OFFSET = 1e2
#: Extent of an axis relative to the largest one below which it looks like rounding noise.
_NOISE = 1e-6
#: Distance of a point from the centre of its sample, in units of the distance that most of the points keep, above which
#: it looks like a reference point; and the fraction that counts as most.
_LONE_POINT, _MOST = 10.0, 0.95
#: Number of samples below which an error estimate is rough.
_FEW = 50
#: Number of points from which training on a part of them is advised, and that part.
_MANY_POINTS, _PART = 4000, 2000
#: Differences of the steps in time, relative to the smallest, from which frames are not equally far apart.
_EQUAL_STEPS = 0.01
#: Number of names shown in a line.
_SHOWN = 5


@dataclass(frozen=True)
class ChannelSummary:
    """Statistics of a channel, parameter or scalar over all samples and points.

    Attributes
    ----------
    role : {"input", "parameter", "target", "scalar", "field"}
        Use of the channel; ``"field"`` where no targets were named.
    name : str
        Name of the channel, or its number.
    minimum, mean, maximum, deviation : float
        Smallest value, mean, largest value and standard deviation.
    """

    role: str
    name: str
    minimum: float
    mean: float
    maximum: float
    deviation: float


@dataclass(frozen=True)
class Finding:
    """Something that a user should look at before a fit.

    Attributes
    ----------
    level : {"problem", "notice"}
        Whether it spoils a fit, or may be meant.
    text : str
        What was found, and what to do.
    samples : tuple of str, default=()
        Names of the samples that it is about.
    """

    level: Literal["problem", "notice"]
    text: str
    samples: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.samples:
            return self.text
        more = f" and {len(self.samples) - _SHOWN} more" if len(self.samples) > _SHOWN else ""
        return f"{self.text}: {', '.join(self.samples[:_SHOWN])}{more}"


@dataclass(frozen=True)
class DataDescription:
    """What `describe_data` has found; ``print`` shows it as text.

    Attributes
    ----------
    form : str
        Kind of the data in words.
    n_samples : int
        Number of samples that were looked at; those with NaN are left out.
    n_points : tuple of (int, int, int)
        Smallest, median and largest number of points of a sample.
    box : tuple of (float, float)
        Smallest and largest coordinate along each axis, over all samples; empty for tables.
    channels : tuple of ChannelSummary
        Statistics of inputs, parameters, targets and scalars.
    findings : tuple of Finding
        Problems first.
    advice : dict of str to str
        What to start with, by the name of a parameter or a subject.
    """

    form: str
    n_samples: int
    n_points: tuple[int, int, int]
    box: tuple[tuple[float, float], ...]
    channels: tuple[ChannelSummary, ...]
    findings: tuple[Finding, ...] = ()
    advice: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the description as JSON types.

        Returns
        -------
        dict
            The attributes, with lists in place of tuples.
        """
        return {key: _as_json(value) for key, value in asdict(self).items()}

    def __str__(self) -> str:
        lines = [self.form]
        if self.box:
            lines.append(f"coordinates: {self._extents()}")
        width = max([4, *(len(channel.name) for channel in self.channels)])
        lines += ["", f"{'':<10} {'name':<{width}} {'min':>11} {'mean':>11} {'max':>11} {'std':>11}"]
        for item in self.channels:
            numbers = (item.minimum, item.mean, item.maximum, item.deviation)
            lines.append(f"{item.role:<10} {item.name:<{width}} " + " ".join(f"{number:>11.4g}" for number in numbers))
        lines += ["", "What to look at" if self.findings else "Nothing looks wrong."]
        lines += [f"  {finding.level}: {finding}" for finding in self.findings]
        lines += ["", "What to start with"]
        lines += [f"  {subject}: {text}" for subject, text in self.advice.items()]
        return "\n".join(lines)

    def _extents(self) -> str:
        """Smallest and largest coordinates in words."""
        return ", ".join(f"{axis} {low:.4g} to {high:.4g}" for axis, (low, high) in zip("xyz", self.box, strict=False))


def _as_json(value: Any) -> Any:
    """Convert tuples to lists, and numbers that JSON does not have to None."""
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_as_json(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def describe_data(X: Any, y: Any = None, *, names: Sequence[str] | None = None, **options: Any) -> DataDescription:
    """Look at data before a fit: what they are, what is wrong with them, and what to start with.

    All values are read. Samples with NaN or infinity are named and left out of the rest.

    Parameters
    ----------
    X : as in `LaMORegressor.fit`
        Inputs. Or time series of meshes, as `skop.data.read_mesh_series` reads them, whose fields are looked at in all
        frames of a run together.
    y : as in `LaMORegressor.fit`, default=None
        Targets. None describes the inputs alone, or meshes that hold both.
    names : sequence of str or None, default=None
        Names of the samples for the findings, such as their files; None numbers them.
    **options
        ``input_fields``, ``target_fields`` and ``cell_data`` of meshes, and ``parameter_names``: names of the columns
        of a table or of the parameters of a FieldSet.

    Returns
    -------
    DataDescription
        The description, which prints as text.

    Raises
    ------
    FieldDataError
        If the data cannot be read at all.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.inspection import describe_data
    >>> X = np.random.default_rng(0).random((60, 8, 8, 1))
    >>> X[7] *= 1000
    >>> print(describe_data(X, X**2).findings[0])
    input 'channel 0' of these samples is 1e+03 times the usual size; look at their units: sample 7
    """
    parameter_names = options.pop("parameter_names", None)
    if y is None and is_mesh_series(X):
        return _describe_series(X, names, parameter_names, **options)
    if parameter_names is None:
        parameter_names = getattr(X, "columns", None)
    X, y, labels, findings = _without_gaps(X, y, names)
    data = _read_without_targets(X) if y is None and not options.get("target_fields") else read(X, y, **options)
    has_targets = y is not None or bool(options.get("target_fields"))
    parts = _parts(data, parameter_names, "input" if has_targets else "field")
    findings += _findings(data, parts, named(labels, len(data.inputs)))
    counts = np.sort(data.inputs.n_points)
    return _described(data, parts, findings, counts, _advice(data, counts, has_targets=has_targets))


def _described(
    data: TrainingData, parts: list[_Part], findings: list[Finding], counts: IntArray, advice: dict[str, str]
) -> DataDescription:
    """Build a description."""
    low, high = _boxes(data.inputs).swapaxes(0, 1)
    extents = zip(low.min(axis=0).tolist(), high.max(axis=0).tolist(), strict=True)
    return DataDescription(
        form=_form(data, counts),
        n_samples=len(data.inputs),
        n_points=(int(counts[0]), int(np.median(counts)), int(counts[-1])),
        box=() if data.spec.has_features else tuple(extents),
        channels=tuple(ChannelSummary(part.role, part.name, *part.summary) for part in parts),
        findings=tuple(sorted(findings, key=lambda finding: finding.level != "problem")),
        advice=advice,
    )


# ---------------------------------------------------------------------- time series
def describe_runs(
    runs: Sequence[MeshRun],
    fields: Sequence[str],
    *,
    names: Sequence[str],
    cell_data: str = "refuse",
    params: Any = None,
    parameter_names: Sequence[str] | None = None,
) -> DataDescription:
    """Describe time series of meshes as `describe_data` does; runs that cannot be read are named and left out."""
    n_frames = min(len(run.frames) for run in runs)
    kept, findings = list(range(len(runs))), list[Finding]()
    try:
        frames, samples = read_frames(runs, fields, n_frames=n_frames, cell_data=cell_data)
    except FieldDataError as error:
        failures = [_failure_of(run, fields, n_frames, cell_data) for run in runs]
        kept = [row for row, failure in enumerate(failures) if failure is None]
        findings += [Finding("problem", text, (names[row],)) for row, text in enumerate(failures) if text is not None]
        if not kept or not findings:
            raise error
        frames, samples = read_frames([runs[row] for row in kept], fields, n_frames=n_frames, cell_data=cell_data)
    X = _frames_as_points(frames, n_frames, samples.fields.channel_names)
    X = X if params is None else X.with_params(np.asarray(params, dtype=float)[kept])
    X, _, labels, gaps = _without_gaps(X, None, [names[row] for row in kept])
    data = _read_without_targets(X)
    parts = _parts(data, parameter_names, "field")
    findings += [*gaps, *_findings(data, parts, labels or ()), *_findings_on_times(runs)]
    counts = np.sort(data.inputs.n_points) // n_frames
    advice = _advice(data, counts, has_targets=True)
    advice["estimator"] = (
        "RolloutRegressor(LaMORegressor(...)) where runs evolve by themselves (skop fit --time rollout); "
        "TimeConditionedRegressor where inputs determine them (--time parameter)"
    )
    # The batch size of a rollout counts runs, not frames.
    advice.pop("batch_size", None)
    found = _described(data, parts, findings, counts, advice)
    times = runs[0].times[:n_frames]
    span = f"{n_frames} frame{'s' if n_frames > 1 else ''}, times {times[0]:g} to {times[-1]:g}"
    form = found.form.replace(" samples ", f" runs of {span}, ", 1)
    return replace(found, form=form)


def _describe_series(
    X: Any,
    names: Sequence[str] | None,
    parameter_names: Sequence[str] | None,
    *,
    input_fields: str | Sequence[str] | None = None,
    target_fields: str | Sequence[str] | None = None,
    **options: Any,
) -> DataDescription:
    """Describe time series of meshes that are not opened yet."""
    runs = find_runs(X)
    groups = ([held] if isinstance(held, str) else held or () for held in (input_fields, target_fields))
    fields = list(dict.fromkeys(name for group in groups for name in group))
    if not fields:
        raise FieldDataError("time series of meshes need names of fields; pass target_fields=['...'].")
    labels = [run.name for run in runs] if names is None else names
    return describe_runs(
        runs, fields, names=named(labels, len(runs), "run"), parameter_names=parameter_names, **options
    )


def _failure_of(run: MeshRun, fields: Sequence[str], n_frames: int, cell_data: str) -> str | None:
    """Reason why a run cannot be read; None if it can."""
    try:
        read_frames([run], fields, n_frames=n_frames, cell_data=cell_data)
    except FieldDataError as error:
        return str(error).rstrip(".")
    return None


def _frames_as_points(frames: FieldSet, n_frames: int, names: Sequence[str] | None) -> FieldSet:
    """Frames as further points at the same places, (T P, c), so that statistics are those of all times of a run."""
    values: Any = [
        sample.reshape(len(sample), n_frames, -1).swapaxes(0, 1).reshape(len(sample) * n_frames, -1)
        for sample in frames.to_list()
    ]
    points: Any = [np.tile(item, (n_frames, 1)) for item in _distinct_points(frames)]
    if not frames.is_ragged:
        values, points = np.stack(values), points[0] if frames.shared_coords else np.stack(points)
    return FieldSet(points, values, channel_names=names)


def _findings_on_times(runs: Sequence[MeshRun]) -> list[Finding]:
    """Findings on the number of frames and their times."""
    found = []
    counts = [len(run.times) for run in runs]
    if min(counts) < max(counts):
        text = f"runs have {min(counts)} to {max(counts)} frames; a fit needs as many in all, and only the first "
        found.append(Finding("problem", f"{text}{min(counts)} were looked at"))
    steps = np.concatenate([np.diff(run.times) for run in runs])
    if len(steps) and steps.max() > (1 + _EQUAL_STEPS) * steps.min():
        text = f"frames are {steps.min():g} to {steps.max():g} apart in time; a rollout learns one step, whatever its "
        found.append(Finding("notice", f"{text}length: use equal steps, or TimeConditionedRegressor"))
    first, count = runs[0].times, min(counts)
    slack = 1e-6 * float(np.ptp(first))
    if any(np.abs(run.times[:count] - first[:count]).max() > slack for run in runs):
        found.append(Finding("notice", "times differ between runs, and TimeConditionedRegressor needs the same"))
    return found


# ---------------------------------------------------------------------- reading
@dataclass(frozen=True)
class _Part:
    """Values of one channel: an array for each sample."""

    role: str
    name: str
    values: list[FloatArray]

    @property
    def is_single(self) -> bool:
        """Whether a sample has one number."""
        return self.role in ("parameter", "scalar")

    @property
    def sizes(self) -> FloatArray:
        """Root mean square of each sample, (n,)."""
        return np.array([np.sqrt(np.mean(np.square(item, dtype=float))) if item.size else 0.0 for item in self.values])

    @cached_property
    def summary(self) -> tuple[float, float, float, float]:
        """Smallest value, mean, largest value and standard deviation of all samples together."""
        flat = np.concatenate([np.ravel(item) for item in self.values]).astype(float)
        return float(flat.min()), float(flat.mean()), float(flat.max()), float(flat.std())


def _without_gaps(X: Any, y: Any, names: Sequence[str] | None) -> tuple[Any, Any, Sequence[str] | None, list[Finding]]:
    """Leave out samples with NaN or infinity, and report them."""
    if isinstance(X, tuple) and len(X) == 2:
        X = FieldSet(*X)
    masks = [mask for mask in (_finite_samples(X), _finite_samples(y)) if mask is not None]
    if not masks or len({len(mask) for mask in masks}) > 1 or np.all(masks):
        return X, y, names, []
    is_whole = np.all(masks, axis=0)
    keep, lost = np.flatnonzero(is_whole), np.flatnonzero(~is_whole)
    if not len(keep):
        raise FieldDataError(
            f"every one of the {len(lost)} samples holds NaN or infinity; there is nothing to describe."
        )
    labels = named(names, len(is_whole))
    called = tuple(labels[row] for row in lost)
    finding = Finding("problem", "NaN or infinity in these samples; repair them or leave them out", called)
    return take(X, keep), None if y is None else take(y, keep), [labels[row] for row in keep], [finding]


def _finite_samples(value: Any) -> Any:
    """Whether each sample is finite, (n,); None where this cannot be told without reading files."""
    if isinstance(value, FieldSet):
        items: list[list[Any]] = [value.coords_list()]
        items += [value.to_list()] if value.n_channels else []
        items += [] if value.params is None else [list(value.params)]
        return np.array([all(np.isfinite(part).all() for part in sample) for sample in zip(*items, strict=True)])
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.ndim:
        return np.isfinite(value).reshape(len(value), -1).all(axis=1)
    return None


def _read_without_targets(X: Any) -> TrainingData:
    """Read inputs alone, beside a target that says nothing."""
    return read(X, np.zeros(len(X)))


def _are_on_shared_points(inputs: FieldSet) -> bool:
    """Whether all samples are on the same points, which meshes without fields repeat for each sample."""
    coords = inputs.coords
    return inputs.shared_coords or (not inputs.is_ragged and bool((coords == coords[:1]).all()))


def _boxes(inputs: FieldSet) -> FloatArray:
    """Smallest and largest coordinates of each sample, (n, 2, d); of shared points only once, (1, 2, d)."""
    return np.array([[points.min(axis=0), points.max(axis=0)] for points in _distinct_points(inputs)])


def _distinct_points(inputs: FieldSet) -> list[FloatArray]:
    """Points of each sample, (P, d); shared points only once."""
    return [inputs.coords] if inputs.shared_coords else inputs.coords_list()


def _parts(data: TrainingData, parameter_names: Sequence[str] | None, role: str) -> list[_Part]:
    """Channels of inputs and targets, parameters and scalars."""
    parts = []
    inputs, targets = data.inputs, data.targets
    if inputs.n_channels:
        parts += _channels(role, inputs)
    if inputs.params is not None:
        fits = parameter_names is not None and len(parameter_names) == inputs.n_params
        parts += _columns("parameter", inputs.params, parameter_names if fits else None)
    if targets.field is not None:
        parts += _channels("target", targets.field)
    if targets.scalars is not None and np.any(targets.scalars):
        parts += _columns("scalar", np.asarray(targets.scalars), data.spec.target_form.scalar_names)
    return parts


def _channels(role: str, fields: FieldSet) -> list[_Part]:
    """Channels of fields."""
    names, samples = named(fields.channel_names, fields.n_channels, "channel"), fields.to_list()
    return [_Part(role, name, [sample[:, c] for sample in samples]) for c, name in enumerate(names)]


def _columns(role: str, table: FloatArray, names: Sequence[Any] | None) -> list[_Part]:
    """Columns of a table with a row for each sample, (n, p)."""
    labels = named(names, table.shape[1], role)
    return [_Part(role, str(name), list(column[:, None])) for name, column in zip(labels, table.T, strict=True)]


def _form(data: TrainingData, counts: IntArray) -> str:
    """What the data are, in words."""
    spec = data.spec
    runs = f"{len(data.inputs)} samples"
    if spec.has_features:
        return f"{runs} of {spec.n_params} columns"
    where = f"in {spec.n_dims}-D"
    if spec.grid_shape is not None:
        places = f"on a grid of {' x '.join(map(str, spec.grid_shape))} points {where}"
    elif _are_on_shared_points(data.inputs):
        places = f"on {counts[0]} shared points {where}"
    else:
        span = f"{counts[0]} to {counts[-1]}" if counts[0] != counts[-1] else f"{counts[0]}"
        places = f"on points of their own, {span} {where}"
    return f"{runs} {places}"


# ---------------------------------------------------------------------- findings
def far_samples(features: FloatArray) -> IntArray:
    """Samples whose features (n, k) are far from the others, by standard deviations estimated from the quartiles."""
    if len(features) < _ENOUGH:
        return np.zeros(0, dtype=int)
    low, middle, high = np.quantile(features, [0.25, 0.5, 0.75], axis=0)
    spread = (high - low) / 1.349
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.where(spread > 0, np.abs(features - middle) / spread, 0.0)
    return np.flatnonzero((distance > _FAR).any(axis=1))


def _repeated_samples(parts: Sequence[Sequence[FloatArray]]) -> list[IntArray]:
    """Groups of samples that are equal in all parts, which hold an array for each sample."""
    groups = defaultdict(list)
    for row, arrays in enumerate(zip(*parts, strict=True)):
        digest = hashlib.blake2b()
        for array in arrays:
            digest.update(repr(array.shape).encode())
            digest.update(np.ascontiguousarray(array, dtype=float).tobytes())
        groups[digest.digest()].append(row)
    return [np.array(rows) for rows in groups.values() if len(rows) > 1]


def _findings(data: TrainingData, parts: list[_Part], labels: Sequence[str]) -> list[Finding]:
    """All findings on samples that are finite."""
    found: list[Finding] = []

    def add(level: Literal["problem", "notice"], text: str, rows: Any = ()) -> None:
        found.append(Finding(level, text, tuple(labels[row] for row in rows)))

    for part in parts:
        sizes = part.sizes
        rows = odd_sizes(sizes)
        if part.is_single:
            # A number may well be close to zero.
            rows = rows[sizes[rows] > np.median(sizes)]
        if len(rows):
            add("problem", f"{part.role} {part.name!r} of these samples is {_ratio(sizes, rows)} the usual size; "
                f"look at {'its' if part.is_single else 'their'} units", rows)  # fmt: skip
        low, mean, high, deviation = part.summary
        if low == high:
            add("notice", f"{part.role} {part.name!r} is {low:.4g} everywhere; leave it out")
        elif part.role in ("target", "scalar") and abs(mean) > _OFFSET * deviation:
            add("problem", f"{part.role} {part.name!r} varies by {deviation:.3g} around {mean:.4g}: relative errors "
                "will look small whatever is learned; subtract the mean first")  # fmt: skip
    reported = {name for finding in found for name in finding.samples}
    if not data.spec.has_features:
        _findings_on_points(data.inputs, add)
    if (result := result_among_parameters(data)) is not None:
        name = [part.name for part in parts if part.role == "parameter"][result[0]]
        add("problem", f"parameter {name!r} equals {result[1]} in every sample: it is a result, not known "
            "before a run; leave it out")  # fmt: skip
    for part in parts:
        means = np.array([[item.mean()] for item in part.values], dtype=float)
        far = [row for row in far_samples(means) if labels[row] not in reported]
        # Of numbers that are even in logarithms, many are far from the others by their differences.
        if far and is_even_in_logarithms(means)[0]:
            far = [row for row in far_samples(np.log(np.abs(means))) if labels[row] not in reported]
        if far:
            what = "" if part.is_single else "the mean of "
            add("notice", f"{what}{part.role} {part.name!r} of these samples is far from the others; check it", far)
    _findings_on_repeats(data, parts, labels, add)
    if len(data.inputs) < _FEW:
        add("notice", f"{len(data.inputs)} samples are few: the error on a handful of held-out ones is a rough "
            "estimate; use cross-validation, and compare with classical models")  # fmt: skip
    return found


def _ratio(sizes: FloatArray, rows: IntArray) -> str:
    """Size of the first of some samples in units of the median, in words."""
    return f"{sizes[rows[0]] / np.median(sizes):.2g} times"


def _findings_on_points(inputs: FieldSet, add: Any) -> None:
    """Findings on coordinates: other units, rounding noise, lone points."""
    boxes = _boxes(inputs)
    extents = boxes[:, 1] - boxes[:, 0]
    rows = odd_sizes(extents.max(axis=1))
    if len(rows):
        add("problem", f"these samples have {_ratio(extents.max(axis=1), rows)} the usual length; look at the units "
            "of their coordinates", rows)  # fmt: skip
    largest = extents.max()
    for axis, extent in zip("xyz", extents.max(axis=0), strict=False):
        if 0 < extent < _NOISE * largest:
            add("problem", f"the coordinate {axis} varies by {extent:.1g} only, as by rounding; set it to a constant, "
                "so that it is dropped")  # fmt: skip
    lone = []
    for row, points in enumerate(_distinct_points(inputs)):
        radius = np.linalg.norm(points - np.median(points, axis=0), axis=1)
        if len(radius) > _ENOUGH and radius.max() > _LONE_POINT * np.quantile(radius, _MOST, method="lower"):
            lone.append(row)
    if lone:
        add("problem", "these samples have points far from all others, as reference points are; remove them, since "
            "they enlarge the box to which coordinates are scaled", lone)  # fmt: skip


def _findings_on_repeats(data: TrainingData, parts: list[_Part], labels: Sequence[str], add: Any) -> None:
    """Findings on samples that occur several times."""
    inputs = [part.values for part in parts if part.role in ("input", "field", "parameter")]
    if not data.inputs.shared_coords and not data.spec.has_features:
        inputs.append(data.inputs.coords_list())
    outputs = [part.values for part in parts if part.role in ("target", "scalar")]
    if not inputs:
        return
    for rows in _repeated_samples(inputs):
        differ = outputs and not any(len(group) == len(rows) for group in _repeated_samples(
            [[values[row] for row in rows] for values in outputs]
        ))  # fmt: skip
        if differ:
            add("problem", "these samples have the same inputs but different targets; an input is missing", rows)
        else:
            add("notice", "these samples are copies; keep them on one side of a split, or leave them out", rows)


# ---------------------------------------------------------------------- advice
def _advice(data: TrainingData, counts: IntArray, *, has_targets: bool) -> dict[str, str]:
    """What to start with."""
    spec, n_samples, median = data.spec, len(data.inputs), int(np.median(counts))
    advice = {}
    if not has_targets:
        advice["targets"] = "none were named, so that only the inputs were looked at"
    if spec.has_features:
        advice["estimator"] = (
            "a Gaussian process, PODRegressor(regressor='gaussian_process'), or trees of scikit-learn; neural "
            "operators have no advantage on plain tables"
        )
    elif spec.n_fields == 0 and _are_on_shared_points(data.inputs):
        advice["estimator"] = (
            "PODRegressor first, which takes seconds; then LaMORegressor, where fields move or jump with the parameters"
        )
    else:
        advice["estimator"] = "LaMORegressor; compare with classical models (skop compare)"
    if not spec.has_features:
        points = 2**17 if spec.geometry == "grid" else 2**12
        batch = max(1, min(16, points // max(median, 1), n_samples // 8))
        advice["batch_size"] = f"'auto', which takes {batch} here"
        if spec.geometry == "points" and median > _MANY_POINTS:
            advice["training__subsample_points"] = (
                f"{_PART}: a training step then costs about {median / _PART:.0f} times less than with all points"
            )
        elif spec.geometry == "points":
            advice["training__subsample_points"] = "None: all points of a sample are few enough"
    if n_samples < _FEW:
        advice["samples"] = f"{n_samples} is a start; errors usually still fall a lot up to a few hundred"
    else:
        advice["samples"] = f"{n_samples}; hold out a fifth for the test (--test-fraction 0.2)"
    return advice
