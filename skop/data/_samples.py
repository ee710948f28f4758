"""Samples: X and y in all their forms, read once into FieldSets; predictions in the form of y.

`read` converts X and y of a fit to `TrainingData`. `read_inputs`, `read_query` and `read_scored` read X and y of a
prediction or a score, and check them against the `DataSpec` of the fit. All other code works on the resulting FieldSets
and `Targets` without further checks. `restore` converts predictions to the form that y had.

Notation: n samples, P points of a sample, T points of all samples together, d space dimensions, q output channels, p
global parameters, s scalars.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from skop._typing import FloatArray
from skop.data._checks import (
    check_extent,
    check_finite,
    check_names,
    check_not_empty,
    describe,
    find_geometry,
    refuse_length,
)
from skop.data._fieldset import FieldSet, iterate_coords, with_own_points
from skop.data._mesh_predictions import restore_unused_rows
from skop.data._pairing import check_index
from skop.data._spec import DataSpec, Predictions, TargetForm, Targets
from skop.data._statistics import Extremes, digests_of
from skop.data._storage import refuse_mask, refuse_repeated_names
from skop.data._targets import (
    check_targets,
    field_targets,
    match_target,
    may_lie_elsewhere,
    read_target_fields,
    warn_if_outside,
)
from skop.data.forms import Form, as_list, form_named, form_of
from skop.data.forms.meshes import MeshReading, field_names, in_plane, on_meshes, open_inputs, open_points
from skop.data.forms.table import (
    Design,
    as_runs,
    check_table,
    column_names,
    form_of_scalars,
    named_scalars,
    read_design,
    read_scalars,
    refuse_params,
    refuse_sparse,
    refuse_strangers,
    split_params,
    table_inputs,
    with_params,
)
from skop.exceptions import FieldDataError, NonFinitePredictionError

__all__ = ["TrainingData", "read", "read_inputs", "read_query", "read_scored", "restore"]

#: How scikit-learn converts tables; gaps are named later, by sample and column.
_NUMBERS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": False}


@dataclass(frozen=True)
class TrainingData:
    """X and y of a fit, converted to a common form."""

    #: Coordinates, fields and global parameters; a table of features becomes the global parameters of a single point.
    inputs: FieldSet
    #: Target fields on the same points or on others, scalars, or both.
    targets: Targets
    #: Form and sizes of the data.
    spec: DataSpec
    #: Statistics of the values of each sample; None without fields.
    input_extremes: Extremes | None = None
    target_extremes: Extremes | None = None
    #: Files of the meshes, or ``"mesh 0"`` and so on, or names that a caller has for the samples; None without any.
    names: tuple[str, ...] | None = None
    #: Mesh without data that all samples of the target field share, if y was meshes and X was not.
    mesh: Any = None

    def with_own_points(self) -> TrainingData:
        """Return the same with copies of the mesh and of shared points, which the caller may move in place later."""
        field = self.targets.field
        targets = self.targets if field is None else replace(self.targets, field=with_own_points(field))
        return replace(self, inputs=with_own_points(self.inputs), targets=targets, mesh=copy.deepcopy(self.mesh))

    @property
    def called(self) -> tuple[str, ...]:
        """What messages call the samples: their names, or their numbers from 0 on."""
        return self.names or tuple(f"sample {number}" for number in range(len(self.inputs)))

    @property
    def checksum(self) -> str:
        """SHA-256 of the numbers of X and y in double precision, whatever form they came in.

        It depends on the order of samples, points and channels. Samples that share their points have these all the
        same. Values were read when they were checked, and are not read again.
        """
        total, field = hashlib.sha256(), self.targets.field
        parts = {"X": (self.inputs, self.input_extremes), "y": (field, self.target_extremes)}
        for name, (fields, extremes) in parts.items():
            if fields is not None and (name == "X" or self.targets.elsewhere):
                for start, piece in iterate_coords(fields):
                    shared = fields.shared_coords
                    found = digests_of(piece[np.newaxis] if shared else piece, fields, start)
                    total.update(np.repeat(found, len(fields) if shared else 1, axis=0).tobytes())
            if extremes is not None:
                total.update(f"{name} {extremes.low.shape}".encode() + extremes.digests.tobytes())
        for name, numbers in {"params": self.inputs.params, "scalars": self.targets.scalars}.items():
            if numbers is not None:
                total.update(f"{name} {np.shape(numbers)}".encode() + np.asarray(numbers, dtype="<f8").tobytes())
        return total.hexdigest()


# ---------------------------------------------------------------------- reading
def read(
    X: Any,
    y: Any = None,
    *,
    estimator: Any = None,
    reset: bool = True,
    input_fields: Sequence[str] | None = None,
    target_fields: Sequence[str] | None = None,
    cell_data: str = "refuse",
    other_points: bool = False,
    params: Any = None,
    weighted: bool = False,
) -> TrainingData:
    """Read X and y of a fit."""
    arguments, wanted = (as_list(X), as_list(y)), field_names(target_fields)
    named: Sequence[str] = field_names(input_fields)
    forms = form_of(arguments[0]), form_of(arguments[1], "y")
    given, y, inputs_held = _unpacked(*arguments, *forms, named, wanted)
    named = named if inputs_held is None else inputs_held
    held = MeshReading(named, wanted, cell_data, weighted)
    X, y, design = held.open_training(given, y, params)
    check_index(y, "y", X=given, params=params)
    refuse_repeated_names([*getattr(y, "columns", ())], "y has {} columns")
    source, kind = map(_form_of_opened, (X, y), arguments, forms)
    if kind.is_table:
        refuse_strangers(y, "y")
    if source.is_table:
        refuse_params(design)
        inputs, (targets, form), role, geometry = _read_table(X, y, kind, estimator, reset)
    else:
        inputs, (targets, form), geometry = _read_samples(X, y, source, kind, design, other_points)
        role = "fields"
    refuse_length(inputs, targets)
    param_names = column_names(X) if design is None else design.names
    labels = (source.labels(X), kind.labels(y)) if held.names is None else (held.names, held.names)
    input_extremes = check_finite(inputs, "X", fitting=True, labels=labels[0], param_names=param_names)
    target_extremes = check_targets(targets, labels[1], form.scalar_names, fitting=True)
    check_extent(inputs, "X")
    places = targets.field if targets.elsewhere else None
    if places is not None:
        check_extent(places, "y")
        warn_if_outside(places, inputs)
    if held.components is not None:
        form = replace(form, container="meshes", components=held.components)
    if held.scalars is not None:
        kept = ("squeezes_channel", "scalar_names", "has_text")
        form = replace(form, **{name: getattr(held.scalars, name) for name in kept})
    spec = DataSpec(
        input_form=held.input_form or source.name,
        role=role,
        target_form=form,
        n_dims=inputs.n_dims,
        n_fields=inputs.n_channels,
        n_params=inputs.n_params,
        n_outputs=targets.n_outputs,
        grid_shape=inputs.grid_shape,
        n_scalars=targets.n_scalars,
        geometry=geometry,
        kept_axes=held.axes,
        channel_names=inputs.channel_names,
        input_fields=tuple(named) or None if held.input_form or inputs_held is not None else None,
        target_points="inputs" if places is None else "shared" if places.shared_coords else "own",
        target_grid=places.grid_shape if places is not None and places.shared_coords else None,
        cell_data=None if held.axes is None else cell_data,
        param_names=None if design is None else design.names,
    )
    mesh = held.mesh if role == "parameters" or spec.target_points == "shared" else None
    return TrainingData(inputs, targets, spec, input_extremes, target_extremes, held.names, mesh)


def _unpacked(
    X: Any, y: Any, source: Form, kind: Form, inputs: Sequence[str], targets: Sequence[str]
) -> tuple[Any, Any, Sequence[str] | None]:
    """X and y out of the file that holds both, or a file each, and the names of its inputs; None if X is no file."""
    is_own = y is None or y is X
    found, held = source.unpack(X, inputs, targets, needs_targets=is_own)
    y = y if is_own else kind.unpack_targets(y, targets)
    return (X, y, None) if found is X else (found, held if is_own else y, column_names(found) or inputs)


def _form_of_opened(opened: Any, given: Any, form: Form) -> Form:
    """Form of an argument when the files and meshes in it have been opened."""
    return form if opened is given else form_of(opened)


def _read_samples(
    X: Any, y: Any, source: Form, kind: Form, design: Design | None, other_points: bool
) -> tuple[FieldSet, tuple[Targets, TargetForm], str]:
    """Read an X of fields or points, with the y of a fit; return inputs, targets with their form, and the geometry."""
    if y is None:
        raise FieldDataError("fitting requires y to be passed, but the target y is None.")
    fields, geometry = source.read(X, "X")
    inputs = with_params(fields, design)
    check_not_empty(inputs, "X")
    source.warn_if_ambiguous(X, "X")
    elsewhere = may_lie_elsewhere(source, y) if other_points else None
    targets, form = match_target(y, kind, inputs, listed=source.is_listed, elsewhere=elsewhere)
    return inputs, (targets, form if targets.field is not None else form_of_scalars(y, form)), geometry


def read_inputs(
    X: Any,
    spec: DataSpec,
    *,
    coords: FloatArray | None = None,
    estimator: Any = None,
    cell_data: str = "refuse",
    params: Any = None,
    keep_data: bool = False,
) -> tuple[FieldSet, list[Any] | None]:
    """Read the X of a prediction, and check it against the fit."""
    given = as_list(X)
    source = form_of(given)
    X, _ = source.unpack(given, spec.input_fields or (), (), needs_targets=False)
    X, design, meshes = open_inputs(X, params, spec, cell_data, keep_data=keep_data)
    return _read_inputs(X, _form_of_opened(X, given, source), spec, coords, estimator, design), meshes


def read_query(
    X: Any,
    coords: Any,
    spec: DataSpec,
    *,
    fitted_coords: FloatArray | None = None,
    estimator: Any = None,
    cell_data: str = "refuse",
    params: Any = None,
    keep_data: bool = False,
) -> tuple[FieldSet, Any, list[Any] | None]:
    """Read the X of a prediction and the points at which fields are predicted."""
    options: dict[str, Any] = {"coords": fitted_coords, "estimator": estimator, "cell_data": cell_data}
    coords = as_runs(coords, "coords")
    if coords is None or not form_of(coords, "coords").on_meshes:
        inputs, meshes = read_inputs(X, spec, params=params, keep_data=keep_data, **options)
        return inputs, in_plane(coords, spec), meshes if coords is None else None
    X, _ = form_of(X).unpack(X, spec.input_fields or (), (), needs_targets=False)
    X, design = split_params(X, params)
    if form_named(spec.input_form).on_meshes and form_of(X).is_table:
        refuse_params(design)
        inputs, meshes = read_inputs(coords, spec, params=read_design(X, "X"), keep_data=keep_data, **options)
        return inputs, None, meshes
    inputs, _ = read_inputs(X, spec, params=design, **options)
    return inputs, *open_points(coords, X, inputs, spec, cell_data, keep_data=keep_data)


def _told_of_other_kind(X: Any, source: Form, spec: DataSpec) -> str:
    """Words for a table X of an estimator that was fitted on fields, or the other way round."""
    known = form_named(spec.input_form)
    came = "a 2-D table" if source.is_table else f"fields ({describe(X)})"
    expected, remedy = "a 2-D table" if known.is_table else "fields", "pass the same kind"
    if source.is_table and known.on_meshes and spec.n_params:
        expected = "meshes with parameters"
        remedy = "pass the meshes too: predict(X, coords=meshes), or predict(meshes, params=X)"
    elif source.is_table and spec.n_params:
        parameters = f"{spec.n_params} parameter{'s' * (spec.n_params > 1)}"
        expected = f"{'fields' if spec.n_fields else 'points'} with {parameters}"
        remedy = f"pass these too: FieldSet(coords, {'fields, ' if spec.n_fields else ''}params=X)"
    return f"X is {came}, but the estimator was fitted on {expected}; {remedy}."


def _read_inputs(
    X: Any, source: Form, spec: DataSpec, coords: FloatArray | None, estimator: Any, design: Design | None = None
) -> FieldSet:
    """X of a prediction, of which meshes have been read."""
    if isinstance(X, list) and not X:
        raise FieldDataError("X has 0 samples; at least one is required.")
    if source.is_table != form_named(spec.input_form).is_table:
        raise FieldDataError(_told_of_other_kind(X, source, spec))
    if source.is_table:
        refuse_params(design)
        X = check_table(X)
        table = np.asarray(X)
        if estimator is not None:
            table = validate_data(estimator, X, reset=False, dtype=np.float64, ensure_all_finite=False)
        inputs = table_inputs(table, coords, spec.grid_shape)
    else:
        inputs = with_params(source.read(X, "X")[0], design)
    if spec.n_params and not inputs.n_params:
        names = "" if spec.param_names is None else f" ({', '.join(spec.param_names)})"
        raise FieldDataError(
            f"X has 0 parameters, but the estimator was fitted with {spec.n_params}{names}; pass params=..., with one "
            "row for each sample."
        )
    if design is not None:
        design.check_names(spec.param_names)
    for what, count, fitted in (
        ("channels", inputs.n_channels, spec.n_fields),
        ("parameters", inputs.n_params, spec.n_params),
        ("space dimensions", inputs.n_dims, spec.n_dims),
    ):
        if count != fitted:
            raise FieldDataError(f"X has {count} {what}, but the estimator was fitted with {fitted}; {describe(X)}.")
    check_names(inputs.channel_names, spec.channel_names, "X")
    check_not_empty(inputs, "X")
    check_finite(inputs, "X", labels=source.labels(X), param_names=spec.param_names or column_names(X))
    return inputs


def read_scored(
    X: Any,
    y: Any,
    spec: DataSpec,
    *,
    coords: FloatArray | None = None,
    estimator: Any = None,
    target_fields: Sequence[str] | None = None,
    cell_data: str = "refuse",
    other_points: bool = False,
    params: Any = None,
    weighted: bool = False,
) -> tuple[FieldSet, Targets]:
    """Read X and y of a score, and check them against the fit; meshes that hold both are read once."""
    known = spec.target_form.components
    names = field_names(target_fields) if known is None else [name for name, _ in known]
    arguments = as_list(X), as_list(y)
    forms = form_of(arguments[0]), form_of(arguments[1], "y")
    given, y, _ = _unpacked(*arguments, *forms, spec.input_fields or (), names)
    held = MeshReading(spec.input_fields or (), names, cell_data, weighted, axes=spec.kept_axes, components=known)
    X, y, design = held.open_scored(given, y, params, spec)
    check_index(y, "y", X=given, params=params)
    source, kind = map(_form_of_opened, (X, y), arguments, forms)
    if kind.is_table:
        refuse_strangers(y, "y")
    inputs = _read_inputs(X, source, spec, coords, estimator, design)
    return inputs, _read_truth(y, kind, inputs, spec, may_lie_elsewhere(source, y) if other_points else None)


def _read_truth(y: Any, kind: Form, inputs: FieldSet, spec: DataSpec, elsewhere: bool | None) -> Targets:
    """The y of a score, of which meshes have been read, in the order of points of the inputs."""
    if y is None:
        raise FieldDataError("scoring requires the truth y, but it is None.")
    if not spec.n_outputs:
        refuse_mask(y, "y")
        check_names(column_names(y), spec.target_form.scalar_names, "y")
        scalars, expected = np.asarray(y), (len(inputs), spec.n_scalars)
        if scalars.dtype.kind in "OSTU":
            # As fit reads them: numbers as text, and types of pandas that have a value for missing numbers.
            scalars = check_array(y, dtype=np.float64, ensure_2d=False, ensure_all_finite=False, input_name="y")
        if scalars.shape != expected and (scalars.shape != expected[:1] or spec.n_scalars > 1):
            raise FieldDataError(f"y has shape {scalars.shape}; expected {expected}, one row for each sample.")
        targets = Targets(scalars=scalars.reshape(expected))
        # A band does not hold NaN, which must not count as an error of the model.
        check_targets(targets, names=spec.target_form.scalar_names)
        return targets
    if spec.target_points != "inputs" and not kind.carries_points:
        raise FieldDataError(
            f"y is a {type(y).__name__} without points, but the estimator was fitted on fields on other points than "
            "those of X; pass y as a FieldSet on its points."
        )
    targets, _ = match_target(y, kind, inputs, listed=form_named(spec.input_form).is_listed, elsewhere=elsewhere)
    if targets.n_outputs != spec.n_outputs:
        came = "scalars" if targets.field is None else f"{targets.n_outputs} channels"
        raise FieldDataError(
            f"y has {came}, but the prediction that it is compared with is a field of {spec.n_outputs} channels."
        )
    if targets.n_scalars != spec.n_scalars and spec.n_scalars:
        remedy = "a FieldSet with the scalars as its params"
        if spec.target_form.components is not None:
            remedy = "the scalars as y beside meshes X that hold the fields"
        raise FieldDataError(
            f"the estimator predicts a field and {spec.n_scalars} scalars, but y has {targets.n_scalars} scalars; "
            f"pass {remedy}."
        )
    if targets.field is not None:
        check_names(targets.field.channel_names, spec.target_form.channel_names, "y")
    check_targets(targets)
    return targets if spec.n_scalars else replace(targets, scalars=None)


# ---------------------------------------------------------------------- tables
def _read_table(
    X: Any, y: Any, kind: Form, estimator: Any, reset: bool
) -> tuple[FieldSet, tuple[Targets, TargetForm], str, str]:
    """Read a 2-D X: global parameters if y is a field, features if y is scalars."""
    X, is_field, table = check_table(X), _is_field(y, kind), y
    refuse_mask(y, "y")
    refuse_sparse(y, "y")
    X = _from_objects(X, "X") if estimator is None else validate_data(estimator, X, reset=reset, **_NUMBERS)
    if y is None:
        raise FieldDataError("fitting requires y to be passed, but the target y is None.")
    if not is_field:
        y = _from_objects(y, "y") if estimator is None else check_array(y, ensure_2d=False, input_name="y", **_NUMBERS)
        inputs = table_inputs(X, None, (1,))
        check_not_empty(inputs, "X")
        targets, form = read_scalars(np.asarray(y))
        return inputs, (targets, form_of_scalars(table, form)), "features", "grid"
    fields, geometry = find_geometry(read_target_fields(y, kind))
    if not fields.shared_coords:
        raise FieldDataError(
            "X holds global parameters, so all samples of y must share their coordinates; for meshes that differ "
            "pass X as a FieldSet with params."
        )
    inputs = table_inputs(X, fields.coords, fields.grid_shape)
    check_not_empty(inputs, "X")
    return inputs, field_targets(fields, kind), "parameters", geometry


def _from_objects(table: Any, name: str) -> Any:
    """Convert a table without an estimator: columns of several types become objects, which are read as fits do."""
    array = np.asarray(table)
    # Sparse matrices are objects without axes, and refused later.
    is_object = array.dtype == object and array.ndim > 0
    return check_array(table, ensure_2d=False, input_name=name, **_NUMBERS) if is_object else array


def _is_field(y: Any, kind: Form) -> bool:
    """Whether y is fields, so that a 2-D X holds global parameters."""
    if y is None or kind.carries_points:
        return y is not None
    if isinstance(y, list) and len({np.shape(item) for item in y if hasattr(item, "shape")}) > 1:
        return True
    # np.ndim would fail on array-likes that implement only __array__.
    return (y.ndim if hasattr(y, "ndim") else np.asarray(y).ndim) > 2


# ---------------------------------------------------------------------- predictions
def restore(
    target: TargetForm, predictions: Predictions, points: FieldSet, meshes: Any = None, labels: Any = None
) -> Any:
    """Convert predictions to the form that y had."""
    with np.errstate(over="ignore"):
        # The precision of y can be too low for a prediction that is finite.
        fields, scalars = [
            None if part is None else part.astype(target.dtype, copy=False)
            for part in (predictions.fields, predictions.scalars)
        ]
    for part, exact in ((fields, predictions.fields), (scalars, predictions.scalars)):
        if part is not None and exact is not None and not np.isfinite(part).all():
            value = exact[~np.isfinite(part)][0]
            if np.isfinite(value):
                raise NonFinitePredictionError(
                    f"the prediction of {value:.3g} in {_where(part, points)} is too large for the precision of y in "
                    f"the fit, {target.dtype}; fit with y in double precision, y.astype(float), or check X."
                )
            raise NonFinitePredictionError(
                f"the prediction is not finite in {_where(part, points)}: X holds numbers too large for the "
                "precision of the fit or far from those of the training. Check its units and fill values."
            )
    if fields is None:
        if scalars is None:
            raise ValueError("predictions hold neither fields nor scalars.")
        return named_scalars(target, scalars, labels)
    # A caller may move the points of a prediction in place, and those of the model or of X must stay.
    result = form_named(target.container).restore(target, fields, with_own_points(points))
    if not isinstance(result, FieldSet):
        return result if meshes is None else restore_unused_rows(result, meshes)
    if meshes is not None and target.components is not None:
        return on_meshes(target, result, scalars, meshes, labels)
    return result if scalars is None else result.with_params(scalars)


def _where(values: FloatArray, points: FieldSet) -> str:
    """The sample of the first value that is not finite, in words."""
    row = int(np.argwhere(~np.isfinite(values))[0][0])
    if points.offsets is not None and len(values) != len(points):
        row = int(np.searchsorted(points.offsets, row, side="right")) - 1
    return f"sample {row}"
