"""Description of data before a fit: what they are, what is wrong with them, and what to start with.

Notation: n samples, P points of a sample, d space dimensions, c channels, p parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from skop._typing import IntArray
from skop.data import FieldSet, MeshRun, TrainingData, find_runs, is_mesh_series, read, read_frames
from skop.exceptions import FieldDataError
from skop.inspection._analysis import named, on_shared_points, take
from skop.surrogate._profile import ROUNDING, Finding, Profile, in_order

__all__ = ["ChannelSummary", "DataDescription", "Finding", "describe_data", "describe_runs"]

#: Number of samples below which an error of a fifth of them is rough: ten numbers have a mean to about a third of their
#: spread.
_ROUGH = 50
#: Number of points of a sample that a training step takes, where there are at least twice as many.
_PART = 2000


@dataclass(frozen=True)
class ChannelSummary:
    """Statistics of a channel, parameter or scalar over all samples and points; a field where no targets were named."""

    role: str
    name: str
    minimum: float
    mean: float
    maximum: float
    deviation: float


@dataclass(frozen=True)
class DataDescription:
    """Result of `describe_data`; ``print`` shows it as text."""

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
        The description, which ``print`` shows as text and ``to_dict()`` returns as JSON types, with the attributes

        - ``form``, str: Kind of the data in words.
        - ``n_samples``, int: Number of samples that were looked at; those with NaN are left out.
        - ``n_points``, tuple of (int, int, int): Smallest, median and largest number of points of a sample.
        - ``box``, tuple of (float, float): Smallest and largest coordinate along each axis, over all samples; empty for
          tables.
        - ``channels``, tuple of ChannelSummary: Statistics of inputs, parameters, targets and scalars.
        - ``findings``, tuple of Finding: Problems first: each has a `level`, ``"problem"`` or ``"notice"``, a `text`,
          and the names of the `samples`; one about a number also `what` it is, and its `value` beside the `lowest` and
          `highest` of the others.
        - ``advice``, dict of str to str: What to start with, by the name of a parameter or a subject.

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
    >>> print(describe_data(X, X**2).findings[0])  # doctest: +ELLIPSIS
    X of sample 7 is of another size than that of the other samples: its channel 0 (root ...
    """
    parameter_names = options.pop("parameter_names", None)
    if y is None and is_mesh_series(X):
        return _describe_series(X, names, parameter_names, **options)
    if parameter_names is None:
        parameter_names = getattr(X, "columns", None)
    X, y, labels, findings = _without_gaps(X, y, names)
    data = read(X, np.zeros(len(X))) if y is None and not options.get("target_fields") else read(X, y, **options)
    has_targets = y is not None or bool(options.get("target_fields"))
    return _described(data, labels, parameter_names, findings, has_targets=has_targets)


def _described(
    data: TrainingData,
    names: Sequence[str] | None,
    parameter_names: Sequence[Any] | None,
    findings: list[Finding],
    *,
    has_targets: bool,
    n_frames: int = 1,
) -> DataDescription:
    """Describe samples that were read, beside earlier findings; of each, so many frames are points."""
    spec, count = data.spec, len(data.inputs)
    if parameter_names is not None and len(parameter_names) == spec.n_params:
        spec = replace(spec, param_names=tuple(map(str, parameter_names)))
    profile = Profile(replace(data, spec=spec), spec.param_names, named(names, count))
    findings = [*findings, *profile.findings()]
    if count < _ROUGH:
        text = (
            f"{count} samples are few: the error on a handful of held-out ones is a rough estimate; use "
            "cross-validation, and compare with classical models."
        )
        findings.append(Finding("notice", text))
    counts = np.sort(data.inputs.n_points) // n_frames
    (low, high), words = profile.boxes, {} if has_targets else {"input": "field"}
    return DataDescription(
        form=_form(data, counts),
        n_samples=count,
        n_points=(int(counts[0]), int(np.median(counts)), int(counts[-1])),
        box=() if profile.is_table else tuple(zip(low.min(axis=0).tolist(), high.max(axis=0).tolist(), strict=True)),
        channels=tuple(
            ChannelSummary(words.get(column.role, column.role), column.name, *column.summary)
            for column in profile.columns
            if has_targets or column.source == "X"
        ),
        findings=tuple(sorted(findings, key=lambda finding: finding.level != "problem")),
        advice=_advice(data, counts, has_targets=has_targets),
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
    except FieldDataError:
        failures = [_failure_of(run, fields, n_frames, cell_data) for run in runs]
        kept = [row for row, failure in enumerate(failures) if failure is None]
        findings += [
            Finding("problem", f"{names[row]}: {text}", (names[row],))
            for row, text in enumerate(failures)
            if text is not None
        ]
        if not kept or not findings:
            raise
        frames, samples = read_frames([runs[row] for row in kept], fields, n_frames=n_frames, cell_data=cell_data)
    X = _frames_as_points(frames, n_frames, samples.fields.channel_names)
    X = X if params is None else X.with_params(np.asarray(params, dtype=float)[kept])
    X, _, labels, gaps = _without_gaps(X, None, [names[row] for row in kept])
    findings += [*gaps, *_findings_on_times(runs)]
    found = _described(
        read(X, np.zeros(len(X))), labels, parameter_names, findings, has_targets=False, n_frames=n_frames
    )
    advice = found.advice | {
        "estimator": (
            "RolloutRegressor(LaMORegressor(...)) where runs evolve by themselves (skop fit --time rollout); "
            "TimeConditionedRegressor where inputs determine them (--time parameter)"
        )
    }
    # Fields are targets too.
    advice.pop("targets")
    times = runs[0].times[:n_frames]
    span = f"{n_frames} frame{'s' if n_frames > 1 else ''}, times {times[0]:g} to {times[-1]:g}"
    form = found.form.replace(" samples ", f" runs of {span}, ", 1)
    return replace(found, form=form, advice=advice)


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
    places = [frames.coords] if frames.shared_coords else frames.coords_list()
    points: Any = [np.tile(item, (n_frames, 1)) for item in places]
    if not frames.is_ragged:
        values, points = np.stack(values), points[0] if frames.shared_coords else np.stack(points)
    return FieldSet(points, values, channel_names=names)


def _findings_on_times(runs: Sequence[MeshRun]) -> list[Finding]:
    """Findings on the number of frames and their times."""
    found = []
    counts = [len(run.times) for run in runs]
    if min(counts) < max(counts):
        text = (
            f"runs have {min(counts)} to {max(counts)} frames; a fit needs as many in all, and only the first "
            f"{min(counts)} were looked at"
        )
        found.append(Finding("problem", text))
    steps = np.concatenate([np.diff(run.times) for run in runs])
    # Times in files have few digits.
    if len(steps) and steps.max() > 1.05 * steps.min():
        text = (
            f"frames are {steps.min():g} to {steps.max():g} apart in time; a rollout learns one step, whatever its "
            "length: use equal steps, or TimeConditionedRegressor"
        )
        found.append(Finding("notice", text))
    first, count = runs[0].times, min(counts)
    slack = ROUNDING * float(np.ptp(first))
    if any(np.abs(run.times[:count] - first[:count]).max() > slack for run in runs):
        found.append(Finding("notice", "times differ between runs, and TimeConditionedRegressor needs the same"))
    return found


# ---------------------------------------------------------------------- reading
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
    finding = Finding("problem", f"NaN or infinity in {in_order(called)}: repair this, or leave it out.", called)
    return take(X, keep), None if y is None else take(y, keep), [labels[row] for row in keep], [finding]


def _finite_samples(value: Any) -> Any:
    """Whether each sample is finite, (n,); None where this cannot be told without reading files."""
    if isinstance(value, FieldSet):
        items: list[list[Any]] = [value.coords_list()]
        items += [value.to_list()] if value.n_channels else []
        items += [] if value.params is None else [list(value.params)]
        return np.array([all(np.isfinite(part).all() for part in sample) for sample in zip(*items, strict=True)])
    if hasattr(value, "iloc") or (isinstance(value, np.ndarray) and value.dtype.kind == "O"):
        try:
            # As a fit reads columns of different types, and numbers that may be missing.
            value = check_array(value, dtype=np.float64, ensure_all_finite=False, ensure_2d=False, allow_nd=True)
        except (TypeError, ValueError):
            return None
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.ndim:
        return np.isfinite(value).reshape(len(value), -1).all(axis=1)
    return None


def _form(data: TrainingData, counts: IntArray) -> str:
    """What the data are, in words."""
    spec = data.spec
    runs = f"{len(data.inputs)} samples"
    if spec.has_features:
        return f"{runs} of {spec.n_params} columns"
    where = f"in {spec.n_dims}-D"
    if spec.grid_shape is not None:
        places = f"on a grid of {' x '.join(map(str, spec.grid_shape))} points {where}"
    elif on_shared_points(data.inputs):
        places = f"on {counts[0]} shared points {where}"
    else:
        span = f"{counts[0]} to {counts[-1]}" if counts[0] != counts[-1] else f"{counts[0]}"
        places = f"on points of their own, {span} {where}"
    return f"{runs} {places}"


# ---------------------------------------------------------------------- advice
def _advice(data: TrainingData, counts: IntArray, *, has_targets: bool) -> dict[str, str]:
    """What to start with."""
    spec, n_samples, median = data.spec, len(data.inputs), int(np.median(counts))
    advice = {}
    if not has_targets:
        advice["targets"] = "none were named, so that only the inputs were looked at"
    if spec.has_features:
        advice["estimator"] = (
            "PODRegressor, which chooses among linear models, kernels and Gaussian processes and takes logarithms "
            "where they help, or trees of scikit-learn; neural operators have no advantage on plain tables"
        )
    elif spec.n_fields == 0 and on_shared_points(data.inputs):
        advice["estimator"] = (
            "PODRegressor first, which takes seconds; then LaMORegressor, where fields move or jump with the parameters"
        )
    else:
        advice["estimator"] = "LaMORegressor; compare with classical models (skop compare)"
    if not spec.has_features and spec.geometry == "points":
        advice["training__subsample_points"] = "None: all points of a sample are few enough"
        if median > 2 * _PART:
            ratio = median / _PART
            advice["training__subsample_points"] = (
                f"{_PART}: a training step then costs about {ratio:.0f} times less than with all points"
            )
    if n_samples < _ROUGH:
        advice["samples"] = f"{n_samples} is a start; errors usually still fall a lot up to a few hundred"
    else:
        advice["samples"] = f"{n_samples}; hold out a fifth for the test (--test-fraction 0.2)"
    return advice
