"""Reading of X and y in all their forms: validation, conversion to FieldSets, and conversion back to the form of y.

`read` converts X and y of a fit to `TrainingData`. `read_inputs` and `read_scored` read X and y of a prediction or a
score, and check them against the `DataSpec` of the fit. All other code works on the resulting FieldSets and `Targets`
without further checks.

Notation: n samples, P points of a sample, d space dimensions, c channels, q output channels, p global parameters,
s scalars.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import PurePath
from typing import Any

import numpy as np
from scipy.spatial import KDTree
from sklearn.utils.validation import check_array, validate_data

from skop._optional import import_optional
from skop._typing import FloatArray, GridShape, IntArray
from skop.data._designs import Design, Labels, as_runs, index_labels, pair_rows, read_design, split_runs
from skop.data._fieldset import FieldSet, iterate_rows
from skop.data._grid import find_grid, unit_grid
from skop.data._mesh_files import is_mesh_input
from skop.data._mesh_predictions import attach_predictions, drop_unused_rows, restore_unused_rows
from skop.data._meshes import MeshSamples, read_meshes
from skop.data._plausibility import Extremes
from skop.data._resampling import GridResampler
from skop.data._storage import as_storage, is_lazy, read_rows, refuse_mask, reshape_rows
from skop.exceptions import FieldDataError, NonFinitePredictionError, OptionalDependencyError, warn

__all__ = [
    "DataSpec",
    "Predictions",
    "TargetForm",
    "Targets",
    "TrainingData",
    "read",
    "read_inputs",
    "read_query",
    "read_scored",
]

#: Largest difference between coordinates that count as equal, as a fraction of the extent of their axis.
_SAME_POINT = 1e-6
#: What is said of targets on other points where only the form of X or y forbids them.
_MAY_LIE_ELSEWHERE = " If X and y are FieldSets, or meshes, y may be on points of its own."
#: Length of the first axis of a grid up to which it may hold channels; the others are twice as long at least then.
_FEW_CHANNELS = 4
#: Number of coordinates of the points of a mesh, in formats such as VTK's also of a plane mesh.
_MESH_DIMS = 3
#: Largest distance of points that are taken for copies of each other, as a fraction of the mean spacing; and as a
#: fraction of the coordinates, a few rounding errors in single precision.
_COPY, _ROUNDING = 1e-2, 2.0**-21


# ---------------------------------------------------------------------- results of reading
@dataclass(frozen=True)
class Targets:
    """Outputs of samples: a field, scalars, or both.

    Attributes
    ----------
    field : FieldSet or None, default=None
        Target fields on the points of the inputs.
    scalars : ndarray of shape (n, s) or None, default=None
        Target scalars of each sample.
    elsewhere : bool, default=False
        Whether the field is on points of its own, instead of those of the inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data import Targets
    >>> targets = Targets(scalars=np.zeros((5, 2)))
    >>> len(targets), targets[1:3].scalars.shape, targets.n_outputs, targets.n_scalars
    (5, (2, 2), 0, 2)
    """

    field: FieldSet | None = None
    scalars: FloatArray | None = None
    elsewhere: bool = False

    def __post_init__(self) -> None:
        sizes = {len(part) for part in (self.field, self.scalars) if part is not None}
        if len(sizes) != 1:
            raise FieldDataError(
                f"targets need a field, scalars, or both of equal length; got lengths {sorted(sizes)}."
            )

    def __len__(self) -> int:
        return len(self.scalars) if self.field is None else len(self.field)  # type: ignore[arg-type]

    def __getitem__(self, rows: Any) -> Targets:
        return Targets(
            None if self.field is None else self.field[rows],
            None if self.scalars is None else self.scalars[rows],
            self.elsewhere,
        )

    def read(self, rows: Any) -> Targets:
        """Return the samples at `rows` with their fields in memory."""
        part = self[rows]
        return part if part.field is None else replace(part, field=part.field.read(slice(None)))

    @property
    def in_memory(self) -> bool:
        """Whether the field, if there is one, is a plain array in memory."""
        return self.field is None or self.field.in_memory

    @property
    def n_outputs(self) -> int:
        """Number q of channels of the field; 0 without one."""
        return 0 if self.field is None else self.field.n_channels

    @property
    def n_scalars(self) -> int:
        """Number s of scalars of a sample."""
        return 0 if self.scalars is None else int(self.scalars.shape[1])


@dataclass(frozen=True)
class Predictions:
    """Predictions of an estimator in physical units, in the caller's order of samples and points.

    Attributes
    ----------
    fields : ndarray of shape (n, P, q), or (T, q) for ragged samples with T points together, or None
        Predicted fields.
    scalars : ndarray of shape (n, s) or None
        Predicted scalars.
    """

    fields: FloatArray | None
    scalars: FloatArray | None = None


@dataclass(frozen=True)
class TargetForm:
    """Form of y, and the conversion of predictions to it.

    Attributes
    ----------
    container : {"array", "list", "pairs", "tuple", "fieldset", "meshes"}
        Kind of object that y was; for scalars ``"array"``.
    dtype : str, default="float64"
        Data type of predictions.
    squeezes_channel : bool, default=False
        Whether y had no channel axis, or no axis for its single scalar.
    has_grid_axes : bool, default=False
        Whether an array has one axis for each space dimension, instead of one axis for all points.
    channel_names : tuple of str or None, default=None
        Names of the output channels.
    components : tuple of (str, int) or None, default=None
        Names of the output fields of a mesh and their numbers of channels; None if y was not meshes.
    scalar_names : tuple of str or None, default=None
        Names of the scalars, if y was a DataFrame with names for its columns or a Series with a name.
    """

    container: str
    dtype: str = "float64"
    squeezes_channel: bool = False
    has_grid_axes: bool = False
    channel_names: tuple[str, ...] | None = None
    components: tuple[tuple[str, int], ...] | None = None
    scalar_names: tuple[str, ...] | None = field(default=None, compare=False)

    def restore(
        self, predictions: Predictions, points: FieldSet, meshes: Sequence[Any] | None = None, labels: Any = None
    ) -> Any:
        """Convert predictions to the form that y had.

        Parameters
        ----------
        predictions : Predictions
            Predictions in physical units.
        points : FieldSet
            Points of the predictions.
        meshes : sequence of meshio.Mesh or None, default=None
            Meshes with these points, if there are any.
        labels : index of a DataFrame, list of str or None, default=None
            Labels of the samples, for scalars with names.

        Returns
        -------
        ndarray, list, FieldSet, tuple, list of meshio.Mesh, DataFrame or Series
            Predictions in the form of y, with three exceptions: a FieldSet if y was meshes and there are none, a list
            if y was an array and samples have different numbers of points, and an array for scalars of samples without
            labels, or where pandas is not installed.

        Raises
        ------
        NonFinitePredictionError
            If a value is not finite.
        """
        with np.errstate(over="ignore"):
            # The precision of y can be too low for a prediction that is finite.
            fields, scalars = (
                None if part is None else part.astype(self.dtype, copy=False)
                for part in (predictions.fields, predictions.scalars)
            )
        for part in (fields, scalars):
            if part is not None and not np.isfinite(part).all():
                raise NonFinitePredictionError(
                    f"the prediction is not finite in {_where(part, points)}: X holds numbers too large for the "
                    "precision of the fit or far from those of the training. Check its units and fill values."
                )
        if fields is None:
            if scalars is None:
                raise ValueError("predictions hold neither fields nor scalars.")
            return self._named_scalars(scalars, labels)
        result = self._fields(fields, scalars, points)
        if meshes is None:
            return result
        if self.components is None or not isinstance(result, FieldSet):
            return restore_unused_rows(result, meshes)
        return attach_predictions(meshes, result, dict(self.components))

    def _named_scalars(self, scalars: FloatArray, labels: Any) -> Any:
        """Convert scalars ``(n, s)`` to the form of y."""
        if self.scalar_names is not None and labels is not None:
            # Without labels an index would be made up, and pandas would align other data with it.
            try:
                pandas = import_optional("pandas", extra="data", purpose="name the columns of a prediction")
            except OptionalDependencyError:
                pass
            else:
                frame = pandas.DataFrame(scalars, index=labels, columns=list(self.scalar_names))
                return frame.iloc[:, 0] if self.squeezes_channel else frame
        return scalars[:, 0] if self.squeezes_channel else scalars

    def _fields(self, values: FloatArray, scalars: FloatArray | None, points: FieldSet) -> Any:
        """Convert values ``(n, P, q)`` or ``(T, q)`` to the container of y."""
        if self.container == "tuple":
            if points.is_ragged:
                return points.coords_list(), points.with_values(values).to_list()
            return points.coords, values
        if self.container in ("fieldset", "meshes"):
            fields = points.with_values(values, self.channel_names)
            return fields if scalars is None else fields.with_params(scalars)
        if self.container == "array" and not points.is_ragged:
            n_samples, n_points, n_channels = values.shape
            axes = (points.grid_shape or (n_points,)) if self.has_grid_axes else (n_points,)
            return values.reshape(n_samples, *axes, *(() if self.squeezes_channel else (n_channels,)))
        samples = points.with_values(values).to_list()
        if self.container == "pairs":
            return list(zip(points.coords_list(), samples, strict=True))
        return [sample[:, 0] for sample in samples] if self.squeezes_channel else samples

    def of_frames(self) -> TargetForm:
        """Return the form for another number of channels, without names."""
        return replace(self, squeezes_channel=False, channel_names=None, scalar_names=None)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> TargetForm:
        """Build from the attributes as JSON gives them back."""
        names, parts, scalars = (content.get(name) for name in ("channel_names", "components", "scalar_names"))
        return cls(
            **content
            | {
                "channel_names": None if names is None else tuple(names),
                "components": None if parts is None else tuple((name, count) for name, count in parts),
                "scalar_names": None if scalars is None else tuple(scalars),
            }
        )


def _where(values: FloatArray, points: FieldSet) -> str:
    """The sample of the first value that is not finite, in words."""
    row = int(np.argwhere(~np.isfinite(values))[0][0])
    if points.offsets is not None and len(values) != len(points):
        row = int(np.searchsorted(points.offsets, row, side="right")) - 1
    return f"sample {row}"


@dataclass(frozen=True)
class DataSpec:
    """Form, sizes and channel names of X and y in a fit, which the data of a prediction must match.

    Attributes
    ----------
    input_form : {"table", "grid", "fieldset", "tuple", "list", "pairs", "meshes"}
        Form of X: a 2-D table, an array on a regular grid, a FieldSet, ``(coords, fields)``, a list of points or of
        ``(coords, fields)``, or meshes.
    role : {"features", "parameters", "fields"}
        Meaning of X: features from which scalars are predicted, global parameters of a field, or fields.
    target_form : TargetForm
        Form of y and of predictions.
    n_dims, n_fields, n_params, n_outputs : int
        Numbers of space dimensions, input channels, global parameters, and channels of the output field (0 without
        one).
    grid_shape : tuple of int or None
        Number of points along each axis in training; None if the points form no grid.
    n_scalars : int, default=0
        Number of output scalars of a sample, alone or in addition to a field.
    geometry : {"grid", "structured", "points"}, default="grid"
        Arrangement of the points: a rectilinear grid that all samples share, a grid that is curvilinear or differs
        between samples, or no grid.
    kept_axes : tuple of int or None, default=None
        Indices of the mesh coordinates that are used; None if neither X nor y was meshes.
    resampler : GridResampler or None, default=None
        Grid to which samples are interpolated for the network; None without resampling.
    channel_names : tuple of str or None, default=None
        Names of the input channels.
    input_fields : tuple of str or None, default=None
        Fields of meshes that are the inputs; None when X was no mesh, or its geometry alone.
    target_points : {"inputs", "shared", "own"}, default="inputs"
        Points of the target field: those of the inputs, others that all samples share, or others of each sample.
    target_grid : tuple of int or None, default=None
        Number of points along each axis, if shared points of the target field are others and form a grid.
    cell_data : {"refuse", "to_points", "cells"} or None, default=None
        Treatment of fields on the cells of meshes; None if X was not meshes.
    param_names : tuple of str or None, default=None
        Names of the global parameters, if they came as a table with names.
    """

    input_form: str
    role: str
    target_form: TargetForm
    n_dims: int
    n_fields: int
    n_params: int
    n_outputs: int
    grid_shape: GridShape | None
    n_scalars: int = 0
    geometry: str = "grid"
    kept_axes: tuple[int, ...] | None = None
    resampler: GridResampler | None = None
    channel_names: tuple[str, ...] | None = None
    input_fields: tuple[str, ...] | None = None
    target_points: str = "inputs"
    target_grid: GridShape | None = None
    cell_data: str | None = None
    param_names: tuple[str, ...] | None = None

    @property
    def network_spec(self) -> DataSpec:
        """Spec of the data as the network sees them, that is, after resampling to a grid if there is any."""
        if self.resampler is None:
            return self
        return replace(
            self,
            geometry="grid",
            grid_shape=self.resampler.grid_shape,
            n_fields=self.n_fields + self.resampler.distance,
            resampler=None,
        )

    def differences(self, other: DataSpec) -> str:
        """Say in words in what other data differ.

        Parameters
        ----------
        other : DataSpec
            Spec of the other data.

        Returns
        -------
        str
            Differences, such as ``"the grid was 16 x 16 and is 8 x 8"``; empty if there are none.
        """
        changed = [name for name in _SPEC_WORDS if getattr(self, name) != getattr(other, name)]
        texts = [f"{_SPEC_WORDS[name]} was {_in_words(self, name)} and is {_in_words(other, name)}" for name in changed]
        mine, theirs = (vars(spec.target_form) for spec in (self, other))
        texts += [
            f"{words} was {mine[name]!r} and is {theirs[name]!r}"
            for name, words in _FORM_WORDS.items()
            if mine[name] != theirs[name]
        ]
        more = f", and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        return "; ".join(texts[:_SHOWN]) + more

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> DataSpec:
        """Build the object from the result of `to_dict`, read from JSON."""
        parts: dict[str, Any] = {
            name: tuple(content[name])
            for name in ("grid_shape", "kept_axes", "channel_names", "input_fields", "target_grid", "param_names")
            if content.get(name) is not None
        }
        parts["target_form"] = TargetForm.from_dict(content["target_form"])
        if content.get("resampler") is not None:
            parts["resampler"] = GridResampler.from_dict(content["resampler"])
        return cls(**(content | parts))


#: Number of differences of data that a message lists.
_SHOWN = 4
#: What the attributes of a DataSpec are called in messages.
_SPEC_WORDS = {
    "input_form": "the form of X",
    "role": "the meaning of X",
    "geometry": "the arrangement of the points",
    "grid_shape": "the grid",
    "n_dims": "the number of space dimensions",
    "n_fields": "the number of channels of X",
    "channel_names": "the list of channels of X",
    "n_params": "the number of parameters",
    "param_names": "the list of parameters",
    "n_outputs": "the number of channels of y",
    "n_scalars": "the number of scalars of y",
    "kept_axes": "the choice of coordinates",
    "cell_data": "cell_data",
    "input_fields": "input_fields",
    "target_points": "the place of the points of y",
    "target_grid": "the grid of y",
    "resampler": "the grid of the resampling",
}
#: The same for a TargetForm.
_FORM_WORDS = {
    "container": "the kind of y",
    "dtype": "the data type of y",
    "squeezes_channel": "y without a channel axis",
    "has_grid_axes": "y with the axes of a grid",
    "channel_names": "the list of channels of y",
    "components": "the list of fields of y",
}


def _in_words(spec: DataSpec, name: str) -> str:
    """Value of an attribute in words."""
    value = getattr(spec, name)
    if isinstance(value, GridResampler):
        value = value.grid_shape
    if value is None:
        return "none"
    if name in ("grid_shape", "target_grid", "resampler"):
        return " x ".join(map(str, value))
    return repr(value)


@dataclass(frozen=True)
class TrainingData:
    """X and y of a fit, converted to a common form.

    Attributes
    ----------
    inputs : FieldSet
        Coordinates, fields and global parameters; a table of features becomes the global parameters of a single point.
    targets : Targets
        Target fields on the same points or on others, scalars, or both.
    spec : DataSpec
        Form and sizes of the data.
    input_extremes, target_extremes : Extremes or None, default=None
        Statistics of the values of each sample; None without fields.
    names : tuple of str or None, default=None
        Files of the meshes, or ``"mesh 0"`` and so on; None if X was not meshes.
    mesh : meshio.Mesh or None, default=None
        Mesh without data that all samples of the target field share, if y was meshes and X was not.
    """

    inputs: FieldSet
    targets: Targets
    spec: DataSpec
    input_extremes: Extremes | None = None
    target_extremes: Extremes | None = None
    names: tuple[str, ...] | None = None
    mesh: Any = None


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
    """Read X and y of a fit.

    Parameters
    ----------
    X : array (n, p) or (n, *grid, c), FieldSet, (coords, fields), list of points or of (coords, fields), or meshes
        Inputs. A table with a column of mesh files holds meshes, and global parameters in its other columns.
    y : ndarray, FieldSet, (coords, fields), list of arrays or of (coords, fields), meshes, or None, default=None
        Targets; None is for meshes that contain the targets. ``(mesh, values)`` is an array of values on one mesh.
    estimator : estimator or None, default=None
        Estimator that is being fitted, for which scikit-learn checks tables and sets `n_features_in_` and
        `feature_names_in_`. None omits these checks.
    reset : bool, default=True
        Whether the columns of a table may be any, instead of those of the estimator's earlier fit.
    input_fields, target_fields : sequence of str or None, default=None
        Names of the mesh fields that are inputs and targets.
    cell_data : {"refuse", "to_points", "cells"}, default="refuse"
        Treatment of fields on cells, see `read_meshes`.
    other_points : bool, default=False
        Whether y, as a FieldSet or as meshes, may be on other points than an X with coordinates. Points of X that are
        listed in another order, or that differ by rounding, are an error in any case.
    params : table of shape (n, p) or None, default=None
        Global parameters in addition to fields or meshes, see `skop.data._designs.read_design`.
    weighted : bool, default=False
        Whether samples have weights. It is then an error if rows of a table are in another order than the files.

    Returns
    -------
    TrainingData
        Inputs and targets; if the points form a grid in C order, it is stored with them.

    Raises
    ------
    FieldDataError
        If shapes, numbers of samples, types or values are not valid.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data import read
    >>> data = read(np.zeros((5, 8, 8, 2)), np.zeros((5, 8, 8)))
    >>> data.spec.grid_shape, data.spec.n_fields, data.targets.n_outputs
    ((8, 8), 2, 1)
    """
    is_own, y = y is X, _as_targets(y)
    X, design = _split_params(X, params)
    held = _Held()
    if is_mesh_input(X):
        y = None if is_own else y
        held.input_form = "meshes"
        X, y, design = _read_meshes(X, y, design, held, input_fields, target_fields, cell_data, weighted)
    elif _holds_meshes(y):
        X, y, design = _read_mesh_targets(X, y, design, held, input_fields, target_fields, cell_data)
    names = held.names
    X, y = _as_list(X), _as_list(y)
    if _is_table(X):
        _refuse_params(design)
        inputs, (targets, form), role, geometry = _read_table(X, y, estimator, reset)
        input_form = "table"
    else:
        if y is None:
            raise FieldDataError("fitting requires y to be passed, but the target y is None.")
        inputs, geometry = _find_geometry(_with_params(_fields_as_set(X, "X"), design))
        _check_not_empty(inputs, "X")
        if _is_point_sets(X):
            _warn_if_ambiguous(X, "X")
        input_form, role = held.input_form or _form_of(X), "fields"
        listed = _form_of(X) in ("list", "pairs")
        elsewhere = _may_lie_elsewhere(X, y) if other_points else None
        targets, form = _match_target(y, inputs, listed=listed, elsewhere=elsewhere)
        form = replace(form, scalar_names=_scalar_names(y) if targets.field is None else None)
    if len(inputs) != len(targets):
        raise FieldDataError(
            f"X has {len(inputs)} samples and y has {len(targets)}: inconsistent numbers of samples; one y per sample."
        )
    input_extremes, target_extremes = _check_finite(inputs, "X"), _check_targets(targets, names)
    places = targets.field if targets.elsewhere else None
    if places is not None:
        _warn_if_outside(places, inputs)
    if held.components is not None:
        form = replace(form, container="meshes", components=held.components)
    spec = DataSpec(
        input_form=input_form,
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
        input_fields=tuple(_field_names(input_fields)) or None if input_form == "meshes" else None,
        target_points="inputs" if places is None else "shared" if places.shared_coords else "own",
        target_grid=places.grid_shape if places is not None and places.shared_coords else None,
        cell_data=None if held.axes is None else cell_data,
        param_names=None if design is None else design.names,
    )
    mesh = held.mesh if role == "parameters" or spec.target_points == "shared" else None
    return TrainingData(inputs, targets, spec, input_extremes, target_extremes, names, mesh)


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
    """Read the X of a prediction, and check it against the fit.

    Parameters
    ----------
    X : as in `read`
        Inputs.
    spec : DataSpec
        Form and sizes of the data of the fit.
    coords : ndarray of shape (P, d) or None, default=None
        Coordinates of the output field; needed if X is a table of global parameters.
    estimator, cell_data : as in `read`
        Estimator, and treatment of fields on the cells of meshes. The fields of the fit are read.
    params : table of shape (n, p) or None, default=None
        Global parameters in addition to X.
    keep_data : bool, default=False
        Whether the meshes keep their data, for predictions that become meshes.

    Returns
    -------
    inputs : FieldSet
        Inputs in the same form as in the fit.
    meshes : list of meshio.Mesh or None
        Meshes to which predictions are attached, if X is meshes.

    Raises
    ------
    FieldDataError
        If X has another form, or other channels or dimensions than in the fit.
    """
    X, design = _split_params(X, params)
    meshes = None
    if is_mesh_input(X):
        samples = _open_as_fitted(X, spec, spec.input_fields, cell_data, keep_data=keep_data)
        inputs, meshes = samples.fields, samples.meshes
        if design is not None:
            count = len(design.values)
            # The rows of a table X are samples. Those of params may be all runs of a design, of which one is asked for.
            if design.what == "X" and len(meshes) == 1 and (not _is_text(X) or samples.names == (str(X),)):
                inputs, meshes = inputs[np.zeros(count, dtype=int)], meshes * count
            else:
                design = design.for_runs(X, samples.names)
        X = inputs
    return _read_inputs(X, spec, coords, estimator, design), meshes


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
    """Read the X of a prediction and the points at which fields are predicted.

    Parameters
    ----------
    X : as in `read_inputs`
        Inputs; or a table of global parameters, if the runs of the fit had meshes of their own and `coords` is meshes.
    coords : FieldSet, array-like, list of arrays, meshes, paths, a pattern, or None
        Points; meshes are as many as the samples, or one for all. None is for the points of X.
    spec : DataSpec
        Form and sizes of the data of the fit.
    fitted_coords : ndarray of shape (P, d) or None, default=None
        Coordinates of the output field in the fit, `coords` of `read_inputs`.
    estimator, cell_data, params : as in `read_inputs`
        Estimator, treatment of fields on the cells of meshes, and global parameters.
    keep_data : bool, default=False
        Whether the meshes keep their data.

    Returns
    -------
    inputs : FieldSet
        Inputs in the same form as in the fit.
    points : FieldSet, array-like, list of arrays or None
        Points, with the coordinates that the fit has used; None for those of the inputs.
    meshes : list of meshio.Mesh or None
        Meshes with these points, one for each sample, if X or `coords` is meshes.

    Raises
    ------
    FieldDataError
        If X or `coords` does not match the fit, or there are other numbers of meshes than samples.
    """
    options: dict[str, Any] = {"coords": fitted_coords, "estimator": estimator, "cell_data": cell_data}
    read_as = _cells_as_fitted(spec, cell_data)
    coords = as_runs(coords, "coords")
    if coords is None or not is_mesh_input(coords):
        inputs, meshes = read_inputs(X, spec, params=params, keep_data=keep_data, **options)
        return inputs, _in_plane(coords, spec), meshes if coords is None else None
    X, design = _split_params(X, params)
    if spec.input_form == "meshes" and not is_mesh_input(X) and _is_table(X):
        _refuse_params(design)
        inputs, meshes = read_inputs(coords, spec, params=read_design(X, "X"), keep_data=keep_data, **options)
        return inputs, None, meshes
    inputs, _ = read_inputs(X, spec, params=design, **options)
    samples = _open_meshes(coords, None, read_as, spec.kept_axes, keep_data)
    if samples.fields.n_dims != inputs.n_dims and spec.kept_axes is None:
        # Of a line along an axis all other coordinates are constant.
        samples = _open_meshes(coords, None, read_as, tuple(range(inputs.n_dims)), keep_data)
    if len(samples.meshes) not in (1, len(inputs)):
        raise FieldDataError(
            f"coords holds {len(samples.meshes)} meshes, but X has {len(inputs)} samples; pass one mesh for all "
            "samples, or one for each."
        )
    if len(samples.meshes) == 1:
        return inputs, samples.fields.coords_list()[0], samples.meshes * len(inputs)
    return inputs, samples.fields, samples.meshes


def _in_plane(coords: Any, spec: DataSpec) -> Any:
    """Points without the coordinates that were constant in the meshes of the fit, if they come with three."""
    if spec.kept_axes is None or len(spec.kept_axes) == _MESH_DIMS or coords is None:
        return coords
    given = coords
    if isinstance(coords, FieldSet):
        given = coords.coords if coords.shared_coords else coords.coords_list()
    is_list = isinstance(given, list) and bool(given) and np.ndim(given[0]) > 1
    arrays = [np.asarray(item) for item in given] if is_list else [np.asarray(given)]
    if any(item.ndim < 2 or item.shape[-1] != _MESH_DIMS or item.dtype.kind not in "fiu" for item in arrays):
        return coords
    points = np.concatenate([item.reshape(-1, _MESH_DIMS) for item in arrays]).astype(float)
    slack = _SAME_POINT * np.ptp(points, axis=0).max(initial=0) + _ROUNDING * np.abs(points).max(axis=0, initial=0)
    for axis in set(range(_MESH_DIMS)) - set(spec.kept_axes):
        if np.ptp(points[:, axis]) > slack[axis]:
            raise FieldDataError(
                f"coordinate {axis} of coords runs from {points[:, axis].min():g} to {points[:, axis].max():g}, but it "
                f"was constant in the meshes of the fit; pass points of one plane, or only the coordinates "
                f"{spec.kept_axes}."
            )
    kept = [item[..., spec.kept_axes] for item in arrays]
    return kept if is_list else kept[0]


def _open_as_fitted(
    meshes: Any, spec: DataSpec, names: Any, cell_data: str | None, keep_data: bool = False
) -> MeshSamples:
    """Meshes of a prediction, with the coordinates that the fit has kept."""
    if spec.input_form != "meshes":
        raise FieldDataError(
            f"X is meshes, but the estimator was fitted on X as {spec.input_form!r}; pass the same "
            "kind, or read the meshes by skop.data.read_meshes."
        )
    return _open_meshes(meshes, names, _cells_as_fitted(spec, cell_data), spec.kept_axes, keep_data)


def _cells_as_fitted(spec: DataSpec, cell_data: str | None) -> str:
    """Treatment of fields on cells: a fit on cells is one on other points than a fit on points."""
    return (spec.cell_data if "cells" in (spec.cell_data, cell_data) else cell_data) or "refuse"


def _read_inputs(
    X: Any, spec: DataSpec, coords: FloatArray | None, estimator: Any, design: Design | None = None
) -> FieldSet:
    """X of a prediction, of which meshes have been read."""
    X = _as_list(X)
    if isinstance(X, list) and not X:
        raise FieldDataError("X has 0 samples; at least one is required.")
    is_table = _is_table(X)
    if is_table != (spec.input_form == "table"):
        came = "a 2-D table" if is_table else f"fields ({_describe(X)})"
        expected = "a 2-D table" if spec.input_form == "table" else "fields"
        remedy = "pass the same kind"
        if is_table and spec.input_form == "meshes" and spec.n_params:
            expected = "meshes with parameters"
            remedy = "pass the meshes too: predict(X, coords=meshes), or predict(meshes, params=X)"
        raise FieldDataError(f"X is {came}, but the estimator was fitted on {expected}; {remedy}.")
    if is_table:
        _refuse_params(design)
        refuse_mask(X, "X")
        table = np.asarray(X) if estimator is None else validate_data(estimator, X, reset=False, dtype=np.float64)
        inputs = _table_inputs(table, coords, spec.grid_shape)
    else:
        inputs, _ = _find_geometry(_with_params(_fields_as_set(X, "X"), design))
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
            raise FieldDataError(f"X has {count} {what}, but the estimator was fitted with {fitted}; {_describe(X)}.")
    _check_names(inputs.channel_names, spec.channel_names, "X")
    _check_not_empty(inputs, "X")
    _check_finite(inputs, "X")
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
    """Read X and y of a score, and check them against the fit; meshes that hold both are read once.

    Parameters
    ----------
    X : as in `read_inputs`
        Inputs.
    y : as in `read`
        True fields on the points of X, scalars, or both; None if the meshes of X hold the true fields as well.
    spec : DataSpec
        Form and sizes of the data of the fit.
    coords : ndarray of shape (P, d) or None, default=None
        Coordinates as in `read_inputs`.
    estimator, cell_data : as in `read`
        Estimator, and treatment of fields on the cells of meshes.
    target_fields : sequence of str or None, default=None
        Names of the true fields of meshes, if y of the fit was not meshes; otherwise they are those of the fit.
    other_points : bool, default=False
        Whether y may be on other points than X, as in `read`.
    params : table of shape (n, p) or None, default=None
        Global parameters in addition to X.
    weighted : bool, default=False
        Whether samples have weights, as in `read`.

    Returns
    -------
    inputs : FieldSet
        Inputs in the form of the fit.
    truth : Targets
        True targets, in the order of the points of the inputs, or on points of their own.

    Raises
    ------
    FieldDataError
        If X has another form than in the fit, or y is on other points or has other channels or scalars.
    """
    fitted = spec.target_form.components
    names = target_fields if fitted is None else [name for name, _ in fitted]
    is_own, given = y is X, _as_targets(y)
    X, design = _split_params(X, params)
    y = None if is_own and is_mesh_input(X) else given
    if spec.input_form == "meshes" and not is_mesh_input(X) and _is_table(X) and _holds_meshes(y):
        # The meshes of y are those on which the prediction is asked for.
        _refuse_params(design)
        X, y, design = y, None, read_design(X, "X")
    if not is_mesh_input(X):
        inputs = _read_inputs(X, spec, coords, estimator, design)
        if _holds_meshes(y):
            held = _Held(axes=spec.kept_axes, components=fitted)
            y = _open_targets(y, held, names, (), cell_data)
            y = (y.in_row_order(X, given) if spec.input_form == "table" else y).fields
    elif y is None:
        names = _named(names)
        samples = _open_as_fitted(X, spec, dict.fromkeys([*(spec.input_fields or ()), *names]), cell_data)
        design = None if design is None else design.for_runs(X, samples.names, weighted=weighted)
        inputs = _read_inputs(samples.select(spec.input_fields), spec, coords, estimator, design)
        y = samples.select(names)
    else:
        samples = _open_as_fitted(X, spec, spec.input_fields, cell_data)
        design = None if design is None else design.for_runs(X, samples.names, weighted=weighted)
        inputs = _read_inputs(samples.fields, spec, coords, estimator, design)
        if _holds_meshes(y):
            y = _targets_of_runs(X, y, samples, _Held(axes=spec.kept_axes), names, cell_data)
        else:
            y = _in_run_order(y, X, samples, weighted)
            y = drop_unused_rows(y, samples.meshes) if spec.n_outputs else y
    elsewhere = _may_lie_elsewhere(X, y) if other_points else None
    return inputs, _read_truth(y, inputs, spec, elsewhere)


def _read_truth(y: Any, inputs: FieldSet, spec: DataSpec, elsewhere: bool | None) -> Targets:
    """The y of a score, of which meshes have been read, in the order of points of the inputs."""
    if y is None:
        raise FieldDataError("scoring requires the truth y, but it is None.")
    if not spec.n_outputs:
        refuse_mask(y, "y")
        _check_names(_column_names(y), spec.target_form.scalar_names, "y")
        scalars, expected = np.asarray(y), (len(inputs), spec.n_scalars)
        if scalars.dtype == object:
            # As fit reads them: columns of pandas with types that have a value for missing numbers.
            scalars = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        if scalars.shape != expected and (scalars.shape != expected[:1] or spec.n_scalars > 1):
            raise FieldDataError(f"y has shape {scalars.shape}; expected {expected}, one row for each sample.")
        return Targets(scalars=scalars.reshape(expected))
    y = _as_list(y)
    if spec.target_points != "inputs" and not (isinstance(y, FieldSet | tuple) or _is_pairs(y)):
        raise FieldDataError(
            f"y is a {type(y).__name__} without points, but the estimator was fitted on fields on other points than "
            "those of X; pass y as a FieldSet on its points."
        )
    targets, _ = _match_target(y, inputs, listed=spec.input_form in ("list", "pairs"), elsewhere=elsewhere)
    if targets.n_outputs != spec.n_outputs:
        came = "scalars" if targets.field is None else f"{targets.n_outputs} channels"
        raise FieldDataError(f"y has {came}, but the estimator was fitted on fields of {spec.n_outputs} channels.")
    if targets.n_scalars != spec.n_scalars and spec.n_scalars:
        raise FieldDataError(
            f"the estimator predicts a field and {spec.n_scalars} scalars, but y has {targets.n_scalars} scalars; "
            "pass a FieldSet with the scalars as its params."
        )
    if targets.field is not None:
        _check_names(targets.field.channel_names, spec.target_form.channel_names, "y")
    _check_targets(targets)
    return targets if spec.n_scalars else replace(targets, scalars=None)


# ---------------------------------------------------------------------- detection of the form of X and y
def _as_list(samples: Any) -> Any:
    """Convert an object array of samples, which scikit-learn makes from a list, back to a list."""
    if isinstance(samples, np.ndarray) and samples.dtype == object and samples.ndim == 1:
        return list(samples) if len(samples) and isinstance(samples[0], np.ndarray | tuple) else samples
    return samples


def _is_pairs(samples: Any) -> bool:
    """Whether samples are a list of ``(coords, fields)``, in which fields can be None."""
    return isinstance(samples, list) and bool(samples) and isinstance(samples[0], tuple)


def _is_point_sets(samples: Any) -> bool:
    """Whether samples are a list of arrays ``(P_i, k)``; nested lists of numbers and grids are not."""
    return isinstance(samples, list) and bool(samples) and all(getattr(item, "ndim", 0) == 2 for item in samples)


def _is_table(X: Any) -> bool:
    """Whether X is a 2-D table, or something invalid for which scikit-learn raises the error."""
    if isinstance(X, FieldSet | tuple) or is_lazy(X):
        return False
    if isinstance(X, list):
        return not X or _axes_of(X[0]) < 2
    return getattr(X, "ndim", 2) <= 2


def _axes_of(sample: Any) -> int:
    """Number of axes of one item of a list; a tuple of (coords, fields) counts as a field."""
    if isinstance(sample, FieldSet) or (isinstance(sample, tuple) and any(_axes_of(part) > 1 for part in sample)):
        return 2
    try:
        return int(sample.ndim) if hasattr(sample, "ndim") else np.ndim(sample)
    except ValueError:
        # For rows of different lengths, scikit-learn raises an error that explains the problem.
        return 1


def _carries_points(y: Any) -> bool:
    """Whether y contains points, so that a 2-D X contains global parameters."""
    if y is None or isinstance(y, FieldSet | tuple) or _is_pairs(y):
        return y is not None
    if isinstance(y, list) and len({np.shape(item) for item in y if hasattr(item, "shape")}) > 1:
        return True
    # np.ndim would fail on array-likes that implement only __array__.
    return (y.ndim if hasattr(y, "ndim") else np.asarray(y).ndim) > 2


def _form_of(samples: Any) -> str:
    """Return the name of the form in which fields were passed."""
    if isinstance(samples, FieldSet):
        return "fieldset"
    if isinstance(samples, tuple):
        return "tuple"
    return "pairs" if _is_pairs(samples) else "list" if _is_point_sets(samples) else "grid"


def _describe(X: Any) -> str:
    """Describe an argument for error messages."""
    return f"it came as {type(X).__name__}" + (f" of shape {tuple(X.shape)}" if hasattr(X, "shape") else "")


# ---------------------------------------------------------------------- meshes
def _named(target_fields: Sequence[str] | None) -> list[str]:
    """Return the names of the target fields of meshes, or raise an error if they are missing."""
    if target_fields is None:
        raise FieldDataError(
            "the targets are fields of meshes, but target_fields does not name them; set target_fields=['...'] "
            "to names in their point_data."
        )
    return list(target_fields)


def _field_names(fields: str | Sequence[str] | None) -> list[str]:
    """Names of the input fields of meshes; none of them means geometry alone."""
    return [fields] if isinstance(fields, str) else [*(fields or ())]


def _open_meshes(
    meshes: Any, names: Any, cell_data: Any, axes: tuple[int, ...] | None, keep_data: bool = False
) -> MeshSamples:
    """Read meshes with the given fields."""
    wanted = None if names is None else list(names)
    return read_meshes(meshes, wanted, cell_data=cell_data, axes=axes, keep_data=keep_data)


@dataclass
class _Held:
    """What a fit keeps of the meshes of X and y.

    Attributes
    ----------
    axes : tuple of int or None, default=None
        Indices of the mesh coordinates that are used.
    components : tuple of (str, int) or None, default=None
        Names of the target fields and their numbers of channels, if y was meshes.
    input_form : str or None, default=None
        ``"meshes"`` if inputs are on meshes.
    mesh : meshio.Mesh or None, default=None
        Mesh that all samples of y share, if X was not meshes.
    names : tuple of str or None, default=None
        Names of the meshes, in the order of the samples.
    """

    axes: tuple[int, ...] | None = None
    components: tuple[tuple[str, int], ...] | None = None
    input_form: str | None = None
    mesh: Any = None
    names: tuple[str, ...] | None = None


def _is_text(source: Any) -> bool:
    """Whether meshes came as a path or a pattern."""
    return isinstance(source, str | PathLike)


def _as_targets(y: Any) -> Any:
    """Convert a column of mesh files to a list; ``(mesh, values)`` is kept."""
    return y if isinstance(y, tuple) else as_runs(y)


def _is_on_mesh(y: Any) -> bool:
    """Whether y is ``(mesh, values)``."""
    return isinstance(y, tuple) and len(y) == 2 and is_mesh_input([y[0]]) and not is_mesh_input([y[1]])


def _holds_meshes(y: Any) -> bool:
    """Whether y is meshes, or ``(mesh, values)``."""
    return not isinstance(y, np.ndarray | FieldSet) and is_mesh_input(y)


def _split_params(X: Any, params: Any) -> tuple[Any, Design | None]:
    """Return X without its columns of numbers, if it has a column of mesh files, and the global parameters."""
    if _is_on_mesh(X):
        raise FieldDataError(
            "X is (mesh, values), which is a form of y; pass the mesh with the values in its point data, or a FieldSet."
        )
    given, (X, design) = X, split_runs(X)
    if params is None:
        return X, design
    if design is not None:
        raise FieldDataError(
            "X has columns of parameters beside that of mesh files, and params is given too; pass one."
        )
    design = read_design(params)
    labels = [list(part.index) for part in (given, params) if hasattr(part, "iloc")]
    is_moved = len(labels) > 1 and labels[0] != labels[1] and Counter(labels[0]) == Counter(labels[1])
    if is_moved and design.labels.place == Labels.place:
        raise FieldDataError(
            "X and params have the same labels in their index, in different order; pass params.loc[X.index]."
        )
    return X, design


def _with_params(fields: FieldSet, design: Design | None) -> FieldSet:
    """Add the parameters of a table to fields."""
    if design is None:
        return fields
    if fields.n_params:
        raise FieldDataError(f"X is a FieldSet with {fields.n_params} params, and params is given too; pass one.")
    if len(design.values) != len(fields):
        raise FieldDataError(
            f"{design.what} has {len(design.values)} rows, but X has {len(fields)} samples; pass one row for each."
        )
    return fields.with_params(design.values)


def _refuse_params(design: Design | None) -> None:
    """Raise an error if there are parameters beside a table."""
    if design is not None:
        raise FieldDataError("X is a table of parameters, and params is given too; add its columns to X.")


def _read_meshes(
    X: Any,
    y: Any,
    design: Design | None,
    held: _Held,
    input_fields: Sequence[str] | None,
    target_fields: Sequence[str] | None,
    cell_data: str,
    weighted: bool,
) -> tuple[FieldSet, Any, Design | None]:
    """Read inputs on meshes, with targets on the same meshes, on others, or beside them."""
    names = dict.fromkeys([*(input_fields or ()), *(_named(target_fields) if y is None else ())])
    samples = _open_meshes(X, names, cell_data, None)
    held.axes, held.names = samples.axes, samples.names
    if design is not None:
        design = design.for_runs(X, samples.names, weighted=weighted, fitting=True)
    if y is None:
        targets = _named_targets(samples, target_fields, held)
    elif _holds_meshes(y):
        targets = _targets_of_runs(X, y, samples, held, target_fields, cell_data)
    else:
        targets = drop_unused_rows(_in_run_order(y, X, samples, weighted), samples.meshes)
    return samples.select(input_fields), targets, design


def _named_targets(samples: MeshSamples, target_fields: Sequence[str] | None, held: _Held) -> FieldSet:
    """Select the target fields of meshes."""
    wanted = _named(target_fields)
    held.components = tuple((name, samples.components[name]) for name in wanted)
    return samples.select(wanted)


def _targets_of_runs(
    X: Any, y: Any, samples: MeshSamples, held: _Held, target_fields: Sequence[str] | None, cell_data: str
) -> FieldSet:
    """Read targets on other meshes than the inputs, whose files may have other names but no other order."""
    if _is_on_mesh(y):
        raise FieldDataError("y is (mesh, values), but X is meshes; pass the values alone, as a list of arrays.")
    targets = _open_meshes(y, _named(target_fields), cell_data or "refuse", held.axes)
    stems = [[PurePath(name).stem for name in part.names] for part in (samples, targets)]
    is_same_set = Counter(stems[0]) == Counter(stems[1]) and len(set(stems[0])) == len(stems[0])
    if is_same_set and stems[0] != stems[1]:
        place = next(i for i, pair in enumerate(zip(*stems, strict=True)) if pair[0] != pair[1])
        raise FieldDataError(
            f"sample {place} is {samples.names[place]} in X and {targets.names[place]} in y: both hold the same runs "
            "in different order; bring them into one order."
        )
    return _named_targets(targets, target_fields, held)


def _in_run_order(y: Any, X: Any, samples: MeshSamples, weighted: bool) -> Any:
    """Return a DataFrame or Series y in the order of the files of a pattern, by its index."""
    if not hasattr(y, "iloc") or not _is_text(X):
        return y
    labels = index_labels(y.index)
    rows = pair_rows(labels, len(y), X, samples.names, what="y", weighted=weighted, needs_all=True)
    return y if rows is None else y.iloc[rows]


@dataclass(frozen=True)
class _MeshTargets:
    """Targets on meshes beside an X that is none.

    Attributes
    ----------
    fields : FieldSet
        Targets.
    names : tuple of str
        Names of the meshes; a single one for ``(mesh, values)``.
    geometry : FieldSet or None
        Input fields on the same meshes, or their points alone; None for ``(mesh, values)``.
    """

    fields: FieldSet
    names: tuple[str, ...]
    geometry: FieldSet | None = None

    def in_row_order(self, X: Any, y: Any) -> _MeshTargets:
        """Return the targets in the order of the rows of a table; its index may name the files."""
        if self.geometry is None:
            return self
        labels = index_labels(X.index) if hasattr(X, "iloc") else Labels()
        rows = pair_rows(labels, len(X), y, self.names, what="X", says_pairs=True, needs_all=True)
        if rows is None:
            return self
        order = np.argsort(rows)
        return _MeshTargets(self.fields[order], tuple(self.names[i] for i in order), self.geometry[order])


def _read_mesh_targets(
    X: Any,
    y: Any,
    design: Design | None,
    held: _Held,
    input_fields: Sequence[str] | None,
    target_fields: Sequence[str] | None,
    cell_data: str,
) -> tuple[Any, FieldSet, Design | None]:
    """Read targets on meshes beside an X that is none; a table becomes parameters of the runs if meshes differ."""
    if not _is_table(X):
        return X, _open_targets(y, held, target_fields, (), cell_data).fields, design
    _refuse_params(design)
    targets = _open_targets(y, held, target_fields, _field_names(input_fields), cell_data)
    if targets.geometry is not None and len(targets.fields) == 1 != len(X):
        raise FieldDataError(
            f"y is one mesh, {targets.names[0]}, but X has {len(X)} rows. For the fields of {len(X)} runs on this mesh "
            "pass y=(mesh, values), with values of shape (n, points) or (n, points, channels) and one row for each row "
            "of X; or pass one mesh for each row, as a list or a pattern."
        )
    targets = targets.in_row_order(X, y)
    held.names = None if targets.geometry is None else targets.names
    if targets.geometry is None or (targets.fields.shared_coords and not _field_names(input_fields)):
        return X, targets.fields, None
    held.input_form, held.mesh = "meshes", None
    return targets.geometry, targets.fields, read_design(X, "X")


def _open_targets(
    y: Any, held: _Held, target_fields: Sequence[str] | None, input_fields: Sequence[str], cell_data: str
) -> _MeshTargets:
    """Read targets from meshes, or from values on one mesh."""
    if _is_on_mesh(y):
        return _values_on_mesh(y, held, target_fields)
    names = dict.fromkeys([*input_fields, *_named(target_fields)])
    samples = _open_meshes(y, names, cell_data, held.axes)
    held.axes = samples.axes
    fields = _named_targets(samples, target_fields, held)
    held.mesh = _common_mesh(samples) if fields.shared_coords else None
    return _MeshTargets(fields, samples.names, samples.select(input_fields))


def _values_on_mesh(y: tuple[Any, Any], held: _Held, target_fields: Sequence[str] | None) -> _MeshTargets:
    """Read ``(mesh, values)``; a field has the name ``"prediction"`` where `target_fields` gives none."""
    samples = _open_meshes(y[0], None, "refuse", held.axes)
    if len(samples.meshes) != 1:
        raise FieldDataError(
            f"y is (mesh, values) with {len(samples.meshes)} meshes; expected one, on which all values are. For runs "
            "with meshes of their own pass these as y, with the fields in their point data."
        )
    values, used = as_storage(y[1], "values of y"), samples.used_points[0]
    coords, n_points = samples.fields.coords_list()[0], len(samples.meshes[0].points)
    if values.ndim not in (2, 3) or values.shape[1] not in (n_points, len(coords)) or 0 in values.shape[2:]:
        raise FieldDataError(
            f"y is ({samples.names[0]}, values) with values of shape {tuple(values.shape)}; expected (n, {n_points}) "
            f"or (n, {n_points}, channels), since the mesh has {n_points} points."
        )
    if used is not None and values.shape[1] == n_points:
        values = read_rows(values, slice(None))[:, used]
    n_channels = int(values.shape[2]) if values.ndim > 2 else 1
    names = _field_names(target_fields) or ["prediction"]
    if held.components is None or sum(count for _, count in held.components) != n_channels:
        if len(names) not in (1, n_channels):
            raise FieldDataError(
                f"target_fields names {len(names)} fields, {names}, but the values of y have {n_channels} channels; "
                "name one field, or each channel."
            )
        held.components = ((names[0], n_channels),) if len(names) == 1 else tuple((name, 1) for name in names)
    channels = [name if count == 1 else f"{name}_{k}" for name, count in held.components for k in range(count)]
    held.axes, held.mesh = samples.axes, _common_mesh(samples)
    fields = FieldSet(coords, reshape_rows(values, (len(coords), n_channels)), channel_names=channels)
    return _MeshTargets(fields, samples.names)


def _common_mesh(samples: MeshSamples) -> Any:
    """Mesh of samples that share their points, without data; without cells too if these differ."""
    first = samples.meshes[0]
    same = all(mesh.cells is first.cells or _nested(mesh.cells) == _nested(first.cells) for mesh in samples.meshes)
    if not same:
        warn("the meshes of y share their points, but not their cells; predicted meshes are points without cells.")
    return type(first)(first.points, first.cells if same else [], info=first.info)


def _nested(cells: Any) -> Any:
    """Cells as lists, which can be compared."""
    if hasattr(cells, "type"):
        return [cells.type, _nested(cells.data)]
    return [_nested(item) for item in cells] if isinstance(cells, list | tuple) else np.asarray(cells).tolist()


# ---------------------------------------------------------------------- tables
def _read_table(X: Any, y: Any, estimator: Any, reset: bool) -> tuple[FieldSet, tuple[Targets, TargetForm], str, str]:
    """Read a 2-D X: global parameters if y is a field, features if y is scalars."""
    refuse_mask(X, "X")
    refuse_mask(y, "y")
    is_field, names = _carries_points(y), _scalar_names(y)
    if estimator is None:
        X = np.asarray(X)
    elif is_field:
        X = validate_data(estimator, X, reset=reset, dtype=np.float64)
    else:
        X, y = validate_data(estimator, X, y, reset=reset, multi_output=True, y_numeric=True, dtype=np.float64)
    if y is None:
        raise FieldDataError("fitting requires y to be passed, but the target y is None.")
    if not is_field:
        inputs = _table_inputs(X, None, (1,))
        _check_not_empty(inputs, "X")
        targets, form = _read_scalars(np.asarray(y))
        return inputs, (targets, replace(form, scalar_names=names)), "features", "grid"
    fields, geometry = _find_geometry(_target_fields(y))
    if not fields.shared_coords:
        raise FieldDataError(
            "X holds global parameters, so all samples of y must share their coordinates; for meshes that differ "
            "pass X as a FieldSet with params."
        )
    inputs = _table_inputs(X, fields.coords, fields.grid_shape)
    _check_not_empty(inputs, "X")
    return inputs, _field_targets(fields, y), "parameters", geometry


def _column_names(y: Any) -> tuple[str, ...] | None:
    """Names of the columns of a DataFrame; None where they are numbers or there are none."""
    names = [*getattr(y, "columns", ())]
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def _scalar_names(y: Any) -> tuple[str, ...] | None:
    """Names of the columns of a DataFrame, or the name of a Series; None if they are no text."""
    if hasattr(y, "iloc") and y.ndim == 1:
        return (y.name,) if isinstance(y.name, str) else None
    return _column_names(y)


def _table_inputs(X: FloatArray, coords: FloatArray | None, grid_shape: GridShape | None) -> FieldSet:
    """Convert a table to global parameters of samples on given points, or on a single point."""
    return FieldSet(np.zeros((1, 1)) if coords is None else coords, params=X, grid_shape=grid_shape)


# ---------------------------------------------------------------------- fields
def _fields_as_set(X: Any, name: str) -> FieldSet:
    """Convert fields of any form to a FieldSet with finite coordinates."""
    fields = _as_fieldset(X, name)
    _check_finite_coords(fields, name)
    return fields


def _as_fieldset(X: Any, name: str) -> FieldSet:
    """Convert fields of any form to a FieldSet."""
    if isinstance(X, FieldSet):
        return X
    if isinstance(X, tuple):
        if len(X) != 2:
            raise FieldDataError(f"{name} is a tuple of {len(X)} items; expected (coords, fields).")
        return FieldSet(X[0], X[1])
    if _is_pairs(X):
        return _join_pairs(X, name)
    return _join_samples(X, None) if _is_point_sets(X) else _grid_array(X, name)


def _join_pairs(samples: list[Any], name: str) -> FieldSet:
    """Convert a list of (coords, fields), in which fields can be None, to a FieldSet."""
    for i, sample in enumerate(samples):
        if not isinstance(sample, tuple) or len(sample) != 2:
            raise FieldDataError(
                f"sample {i} of {name} is not a tuple (coords, fields) like the first one; pass tuples for all samples."
            )
    coords, values = [pair[0] for pair in samples], [pair[1] for pair in samples]
    missing = [i for i, value in enumerate(values) if value is None]
    if missing and len(missing) < len(samples):
        raise FieldDataError(f"sample {missing[0]} of {name} has no fields, others have; pass fields for all or none.")
    return _join_samples(coords, None if missing else values)


def _join_samples(coords: list[Any], values: list[Any] | None) -> FieldSet:
    """Build a FieldSet of points ``(P_i, d)`` and fields ``(P_i, c)``; shared points are stored once."""
    points = [np.asarray(as_storage(item, f"coords of sample {i}")) for i, item in enumerate(coords)]
    if values is not None:
        values = [np.asarray(as_storage(item, f"fields of sample {i}")) for i, item in enumerate(values)]
    if len({item.shape for item in points}) > 1:
        return FieldSet(points, values)
    if values is None:
        return FieldSet(np.stack(points))
    wrong = next((i for i, item in enumerate(values) if item.shape != values[0].shape), None)
    if wrong is not None:
        raise FieldDataError(
            f"fields of sample {wrong} have shape {values[wrong].shape}; expected {values[0].shape}, as sample 0."
        )
    is_shared = all(np.array_equal(item, points[0]) for item in points[1:])
    return FieldSet(points[0] if is_shared else np.stack(points), np.stack(values))


def _warn_if_ambiguous(samples: list[Any], name: str) -> None:
    """Warn about a list of arrays of equal shape, which has another meaning than the stacked array."""
    if len(samples) > 1 and len({item.shape for item in samples}) == 1:
        n_points, width = samples[0].shape
        warn(
            f"{name} is a list of arrays of shape {(n_points, width)}, read as the {width}-D points of a sample each. "
            f"For {width} channels on a 1-D grid pass one array: np.stack({name})."
        )


def _grid_array(X: Any, name: str) -> FieldSet:
    """Convert an array (n, *grid, c) to fields on the unit box."""
    if isinstance(X, list) and any(isinstance(item, FieldSet | tuple) for item in X):
        raise FieldDataError(
            f"{name} is a list of {type(X[0]).__name__}; join FieldSets by np.concatenate(list), and pass tuples "
            "(coords, fields) for all samples or none."
        )
    if isinstance(X, list) and len({np.shape(item) for item in X}) > 1:
        raise FieldDataError(
            f"{name} is a list of {len(X)} arrays of different shapes, for example {np.shape(X[0])} and "
            f"{next(np.shape(item) for item in X if np.shape(item) != np.shape(X[0]))}; a regular grid needs one "
            "shape; pass samples with different points as pairs (coords, fields) or arrays (points, dimensions)."
        )
    array = as_storage(X, name)
    if not 3 <= array.ndim <= 5:
        raise FieldDataError(
            f"{name} has shape {tuple(array.shape)}; expected (n_samples, *grid, channels) with 1 to 3 grid axes."
        )
    grid = tuple(int(size) for size in array.shape[1:-1])
    if len(grid) == 1 and grid[0] == array.shape[-1] > 3:
        warn(
            f"{name} of shape {tuple(array.shape)} is read as a 1-D grid of {grid[0]} points with {grid[0]} channels. "
            f"For one channel on a {grid[0]}x{grid[0]} grid, add a channel axis: {name}[..., None]."
        )
    if len(grid) > 1 and grid[0] <= _FEW_CHANNELS and min(*grid[1:], array.shape[-1]) >= 2 * _FEW_CHANNELS:
        shape = "x".join(map(str, grid))
        warn(
            f"{name} of shape {tuple(array.shape)} is read as a {shape} grid with {array.shape[-1]} channels. If its "
            f"channels come first, pass np.moveaxis({name}, 1, -1)."
        )
    if 0 in array.shape:
        what = f"{name} has 0 samples (shape {tuple(array.shape)}); at least one is required"
        if array.shape[0]:
            what = f"{name} has shape {tuple(array.shape)}, in which an axis has length 0; expected points and channels"
        raise FieldDataError(f"{what}.")
    return FieldSet(unit_grid(grid), array, grid_shape=grid)


def _find_geometry(fields: FieldSet) -> tuple[FieldSet, str]:
    """Set grid_shape if shared points form a grid in C order, and return the geometry."""
    if fields.grid_shape is None:
        found = find_grid(fields.coords) if fields.shared_coords else None
        if found is None or not np.array_equal(found[1], np.arange(len(found[1]))):
            return fields, "points"
        fields = fields.with_grid(found[0])
        return fields, "grid" if _runs_straight(fields) else "structured"
    if len(fields.grid_shape) != fields.n_dims:
        return fields, "points"
    straight = fields.shared_coords and _runs_straight(fields) and find_grid(fields.coords) is not None
    return fields, "grid" if straight else "structured"


def _runs_straight(fields: FieldSet) -> bool:
    """Whether the grid is rectilinear: each coordinate changes along one axis only; axes may be in any order."""
    shape = fields.grid_shape or ()
    coords = np.asarray(fields.coords, dtype=float)
    points = coords.reshape(*shape, fields.n_dims)
    slack = _SAME_POINT * np.ptp(coords, axis=0) if len(coords) else 0.0
    changes = np.array(
        [(np.ptp(points, axis=axis) > slack).any(axis=tuple(range(len(shape) - 1))) for axis in range(len(shape))]
    )
    return bool((changes.sum(axis=0) <= 1).all() and (changes.sum(axis=1) <= 1).all())


# ---------------------------------------------------------------------- targets
def _field_targets(fields: FieldSet, y: Any) -> tuple[Targets, TargetForm]:
    """Return the targets from a FieldSet that was read from y, and the form of y."""
    dtype = fields.dtype if fields.dtype.kind == "f" else np.dtype(float)
    kind = _form_of(y) if isinstance(y, FieldSet | tuple) or _is_pairs(y) else "array"
    form = TargetForm(kind, dtype.name, has_grid_axes=kind == "array", channel_names=fields.channel_names)
    return Targets(fields.with_params(None), fields.params), form


def _target_fields(y: Any) -> FieldSet:
    """Read a y that contains points, or an array on a grid."""
    if not isinstance(y, FieldSet | tuple) and not _is_pairs(y):
        return _grid_array(y, "y")
    fields = _fields_as_set(y, "y")
    if fields.n_channels == 0:
        raise FieldDataError(f"y is a {type(y).__name__} without values; pass the target fields as its values.")
    return fields


def _match_target(y: Any, inputs: FieldSet, *, listed: bool, elsewhere: bool | None) -> tuple[Targets, TargetForm]:
    """Read a y on the points of X, or scalars. X may be a list of samples.

    `elsewhere` is whether y may be on other points; None if it may not for other reasons than its form and that of X.
    """
    if isinstance(y, FieldSet | tuple) or _is_pairs(y):
        fields = _target_fields(y)
        if elsewhere and _lies_elsewhere(fields, inputs):
            _check_pairing(fields, inputs)
            targets, form = _field_targets(_find_geometry(fields)[0], y)
            return replace(targets, elsewhere=True), form
        _check_same_points(fields, inputs, _MAY_LIE_ELSEWHERE if elsewhere is False else "")
        if fields.is_ragged != inputs.is_ragged and len(fields) == len(inputs):
            values = np.concatenate(fields.to_list())
            whole = values if inputs.is_ragged else values.reshape(*inputs.shape[:2], -1)
            fields = inputs.with_values(whole, fields.channel_names).with_params(fields.params)
        elif fields.grid_shape is None and inputs.grid_shape is not None:
            fields = fields.with_grid(inputs.grid_shape)
        return _field_targets(fields, y)
    if isinstance(y, list) and y and (listed or inputs.is_ragged or not inputs.shared_coords) and np.ndim(y[0]) > 0:
        return _listed_target(y, inputs)
    array = as_storage(y, "y")
    if len(array.shape) <= 2 and inputs.is_ragged:
        return _read_scalars(array)
    if inputs.is_ragged or 0 in array.shape:
        expected = (
            "a list of arrays, since the samples of X differ in their points" if inputs.is_ragged else "no empty axis"
        )
        raise FieldDataError(f"y has shape {tuple(array.shape)}; expected {expected}.")
    per_sample, points = tuple(array.shape[1:]), (int(inputs.n_points[0]),)
    grid = inputs.grid_shape or points
    for has_grid_axes, base in ((True, grid), (False, points)):
        if per_sample[:-1] == base:
            return _on_points(inputs, array, has_grid_axes=has_grid_axes, squeezes_channel=False)
        if per_sample == base and per_sample != (1,):
            return _on_points(inputs, array, has_grid_axes=has_grid_axes, squeezes_channel=True)
    if len(array.shape) <= 2:
        return _read_scalars(array)
    raise FieldDataError(
        f"y has shape {tuple(array.shape)}, which does not fit the points of X: expected (n, "
        f"{', '.join(map(str, grid))}, channels) for fields on the same grid, or (n,) or (n, q) for scalars."
    )


def _listed_target(y: list[Any], inputs: FieldSet) -> tuple[Targets, TargetForm]:
    """Read a list of arrays, one for each sample, on the points of X."""
    arrays = [np.asarray(as_storage(item, f"y of sample {i}")) for i, item in enumerate(y)]
    if len(arrays) != len(inputs):
        raise FieldDataError(
            f"X has {len(inputs)} samples and y has {len(arrays)}: inconsistent numbers of samples; one y per sample."
        )
    single = arrays[0].ndim == 1
    if single and len({len(item) for item in arrays}) == 1 and len(arrays[0]) != inputs.n_points[0]:
        return _read_scalars(np.stack(arrays))
    for i, (item, n_points) in enumerate(zip(arrays, inputs.n_points, strict=True)):
        expected = (n_points,) if single else (n_points, arrays[0].shape[-1])
        if item.shape != expected:
            raise FieldDataError(f"y of sample {i} has shape {item.shape}; X has {n_points} points there: {expected}.")
    values = np.concatenate([item[:, None] if single else item for item in arrays])
    whole = values if inputs.is_ragged else values.reshape(len(arrays), int(inputs.n_points[0]), -1)
    targets, form = _field_targets(inputs.with_values(whole), y)
    return targets, replace(form, container="list", has_grid_axes=False, squeezes_channel=single)


def _on_points(
    inputs: FieldSet, array: Any, *, has_grid_axes: bool, squeezes_channel: bool
) -> tuple[Targets, TargetForm]:
    """Build target fields on the points of the inputs."""
    n_points = int(inputs.n_points[0])
    values = reshape_rows(array, (n_points, 1 if squeezes_channel else int(array.shape[-1])))
    coords = inputs.coords if inputs.shared_coords else np.zeros((n_points, inputs.n_dims))
    targets, form = _field_targets(FieldSet(coords, values, grid_shape=inputs.grid_shape), array)
    return targets, replace(form, has_grid_axes=has_grid_axes, squeezes_channel=squeezes_channel)


def _read_scalars(y: Any) -> tuple[Targets, TargetForm]:
    """Scalars alone."""
    y = as_storage(y, "y")
    y = read_rows(y, slice(None)) if is_lazy(y) else y
    if y.ndim not in (1, 2) or 0 in y.shape[1:]:
        raise FieldDataError(f"y has shape {y.shape}; expected (n_samples,) or (n_samples, n_scalars).")
    return Targets(scalars=y.reshape(len(y), -1)), TargetForm("array", squeezes_channel=y.ndim == 1)


# ---------------------------------------------------------------------- checks
def _check_targets(targets: Targets, files: Sequence[str] | None = None) -> Extremes | None:
    """Raise an error if targets are empty or not finite; return statistics of the field. Files are those of meshes."""
    extremes = None
    if targets.field is not None:
        _check_not_empty(targets.field, "y")
        extremes = _check_finite(targets.field, "y")
    if targets.scalars is not None and not np.isfinite(targets.scalars).all():
        sample, scalar = np.argwhere(~np.isfinite(targets.scalars))[0].tolist()
        file = "" if files is None or sample >= len(files) else f" ({files[sample]})"
        raise FieldDataError(
            f"Input y contains NaN or infinity, first in sample {sample}{file}, scalar {scalar}; remove the sample or "
            "repair the value."
        )
    if len(targets) == 0:
        raise FieldDataError("y has 0 samples; at least one is required.")
    return extremes


def _check_names(names: Sequence[str] | None, fitted: Sequence[str] | None, what: str) -> None:
    """Raise an error if the channels have other names than in the fit, or the same names in another order."""
    if names is None or fitted is None or tuple(names) == tuple(fitted):
        return
    remedy = "bring them into this order" if set(names) == set(fitted) else "pass these, or rename channels that are"
    raise FieldDataError(
        f"the channels of {what} are {list(names)}, but those of the fit were {list(fitted)}; {remedy}."
    )


def _check_not_empty(fields: FieldSet, name: str) -> None:
    """Raise an error if there are no samples, or a sample has no points."""
    if len(fields) == 0:
        raise FieldDataError(f"{name} has 0 samples; at least one is required.")
    if fields.n_channels == 0 and fields.values is not None:
        raise FieldDataError(f"{name} has fields without channels; pass None for points alone.")
    empty: IntArray = np.flatnonzero(fields.n_points == 0)
    if len(empty):
        raise FieldDataError(f"sample {empty[0]} of {name} has no points; remove it.")


def _check_finite(fields: FieldSet, name: str) -> Extremes | None:
    """Raise an error if a value or parameter is NaN or infinite; return statistics of the values.

    Values are read in pieces, and once.
    """
    parts = []
    for start, values in iterate_rows(fields):
        parts.append(Extremes.of(values, fields, start))
        if not parts[-1].are_finite:
            sample, channel = _place_of_first(values, start, fields)
            named = channel if fields.channel_names is None else repr(fields.channel_names[channel])
            raise FieldDataError(
                f"Input {name} contains NaN or infinity, first in sample {sample}, channel {named}; remove the "
                "sample or repair the value."
            )
    if fields.params is not None and not np.isfinite(fields.params).all():
        sample, column = np.argwhere(~np.isfinite(fields.params))[0].tolist()
        raise FieldDataError(
            f"Input {name} contains NaN or infinity in its params, first in sample {sample}, parameter {column}; "
            "remove the sample or repair the value."
        )
    return Extremes.joined(parts) if parts else None


def _check_finite_coords(fields: FieldSet, name: str) -> None:
    """Raise an error if a coordinate is NaN or infinite, before points are compared with others."""
    is_finite = np.isfinite(fields.coords)
    if is_finite.all():
        return
    *places, axis = np.argwhere(~is_finite)[0].tolist()
    if fields.offsets is not None:
        sample = int(np.searchsorted(fields.offsets, places[0], side="right")) - 1
        places = [sample, places[0] - int(fields.offsets[sample])]
    kinds = ("sample", "point")[-len(places) :]
    words = ", ".join(f"{kind} {place}" for kind, place in zip(kinds, places, strict=True))
    raise FieldDataError(
        f"Input {name} contains NaN or infinity in its coordinates, first in {words}, coordinate {axis}; leave this "
        "point out, or repair it."
    )


def _place_of_first(values: FloatArray, start: int, fields: FieldSet) -> tuple[int, int]:
    """Return the sample and the channel of the first value that is not finite."""
    place = np.argwhere(~np.isfinite(values))[0]
    offsets = fields[start:].offsets
    if offsets is not None:
        return start + int(np.searchsorted(offsets, place[0], side="right")) - 1, int(place[-1])
    return start + int(place[0]), int(place[-1])


def _may_lie_elsewhere(X: Any, y: Any) -> bool:
    """Whether y is a FieldSet, as meshes are by now, and X has coordinates.

    An array lies on the unit box for want of coordinates: to take y at its word would shift one against the other.
    """
    return isinstance(y, FieldSet) and (is_mesh_input(X) or _form_of(_as_list(X)) != "grid")


def _check_same_points(fields: FieldSet, inputs: FieldSet, remedy: str) -> None:
    """Raise an error if targets are on other points than inputs, or on the same points in another order.

    A difference in the number of samples is not checked here, because it has its own message.
    """
    if len(fields) != len(inputs) or len(fields) == 0:
        return
    if not np.array_equal(fields.n_points, inputs.n_points):
        raise FieldDataError(
            f"y has {_points_of(fields)} points per sample, X has {_points_of(inputs)}; pass both on the same points."
            f"{remedy}"
        )
    if not _are_same_points(fields, inputs):
        raise FieldDataError(
            "y lies on other points than X, or on the same points in another order; sort both in the same way. An "
            "array (n, *grid, c) is on a grid of the unit box: pass (coords, fields) for other coordinates."
            f"{remedy}"
        )


def _are_same_points(fields: FieldSet, inputs: FieldSet) -> bool:
    """Whether two sets of as many samples are on the same points in the same order, up to rounding."""
    if fields.n_dims != inputs.n_dims or not np.array_equal(fields.n_points, inputs.n_points):
        return False
    theirs, ours = fields.coords, inputs.coords
    if fields.is_ragged != inputs.is_ragged:
        # A selection from ragged samples stays ragged, even if all samples have the same number of points.
        theirs, ours = (np.concatenate(part.coords_list()) for part in (fields, inputs))
    extent = np.ptp(np.asarray(ours, dtype=float).reshape(-1, inputs.n_dims), axis=0)
    return bool(np.all(np.abs(theirs - ours) <= _SAME_POINT * extent))


def _lies_elsewhere(fields: FieldSet, inputs: FieldSet) -> bool:
    """Whether targets are on points of their own, which are no copy of those of the inputs in any sample.

    Copies in another order, or rounded more than `_are_same_points` allows, are mistakes and no points of their own.
    """
    if len(fields) != len(inputs) or len(fields) == 0 or fields.n_dims != inputs.n_dims:
        return False
    if (fields.n_points == 0).any() or (inputs.n_points == 0).any() or _are_same_points(fields, inputs):
        return False
    return not any(_is_poor_copy(theirs, ours) for theirs, ours in _pairs_of_points(fields, inputs))


def _pairs_of_points(fields: FieldSet, inputs: FieldSet) -> list[tuple[FloatArray, FloatArray]]:
    """Points of the targets and of the inputs of each sample, or once if all samples share both."""
    if fields.shared_coords and inputs.shared_coords:
        parts = [fields.coords], [inputs.coords]
    else:
        parts = fields.coords_list(), inputs.coords_list()
    return [(np.asarray(a, dtype=float), np.asarray(b, dtype=float)) for a, b in zip(*parts, strict=True)]


def _is_poor_copy(theirs: FloatArray, ours: FloatArray) -> bool:
    """Whether points are those of the inputs in another order, or rounded too much to count as the same."""
    if theirs.shape != ours.shape or not (np.isfinite(theirs).all() and np.isfinite(ours).all()):
        return False
    extent = np.ptp(ours, axis=0)
    if np.all(np.abs(theirs - ours) <= _SAME_POINT * extent):
        return False
    spacing = extent.max() / len(ours) ** (1 / ours.shape[1])
    slack = max(_COPY * spacing, _ROUNDING * float(np.abs(ours).max()))
    # A few points tell most sets apart.
    searches = ((ours, theirs[:16]), (ours, theirs), (theirs, ours))
    return all(bool((KDTree(held).query(asked)[0] <= slack).all()) for held, asked in searches)


def _check_pairing(fields: FieldSet, inputs: FieldSet) -> None:
    """Raise an error if targets are on the points of the inputs, but samples are in another order; warn if some are."""
    if fields.shared_coords or inputs.shared_coords:
        return
    theirs, ours = (
        [np.asarray(points, dtype=np.float32).tobytes() for points in part.coords_list()] for part in (fields, inputs)
    )
    places = dict(zip(ours, range(len(ours)), strict=True))
    moved = [i for i, points in enumerate(theirs) if points != ours[i] and points in places]
    if not moved:
        return
    words = f"y of sample {moved[0]} is on the points that X has in sample {places[theirs[moved[0]]]}"
    if Counter(theirs) == Counter(ours):
        raise FieldDataError(f"{words}, and all of y is on points of X; bring the samples of both into one order.")
    warn(f"{words}; check that the samples of X and y are in the same order.")


def _warn_if_outside(fields: FieldSet, inputs: FieldSet) -> None:
    """Warn if targets are further outside the box of the points of X than neighbouring points are apart."""
    for number, (theirs, ours) in enumerate(_pairs_of_points(fields, inputs)):
        lower, upper = ours.min(axis=0), ours.max(axis=0)
        along = min(inputs.grid_shape) if inputs.grid_shape else len(ours) ** (1 / ours.shape[1])
        slack = (upper - lower) / max(along - 1, 1)
        low, high = theirs.min(axis=0), theirs.max(axis=0)
        if (low < lower - slack).any() or (high > upper + slack).any():
            warn(
                f"y has points in the box {_box(low, high)}, but those of X are in {_box(lower, upper)}, first in "
                f"sample {number}. Input fields outside the box of X are those of its nearest points; if the units of "
                "the coordinates differ, bring both to the same."
            )
            return


def _box(lower: FloatArray, upper: FloatArray) -> str:
    """A box in words."""
    return " x ".join(f"[{low:.4g}, {high:.4g}]" for low, high in zip(lower, upper, strict=True))


def _points_of(fields: FieldSet) -> str:
    """Describe the numbers of points per sample."""
    counts = fields.n_points
    return f"{counts.min()} to {counts.max()}" if counts.min() < counts.max() else str(counts[0])
