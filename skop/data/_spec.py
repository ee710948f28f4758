"""What was read: inputs, targets and their form, which the data of a prediction must match.

Notation: n samples, P points of a sample, T points of all samples together, q output channels, s scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from skop._optional import import_optional
from skop._typing import FloatArray, GridShape
from skop.data._fieldset import FieldSet
from skop.data._mesh_predictions import attach_predictions, restore_unused_rows
from skop.data._resampling import GridResampler
from skop.data._statistics import Extremes
from skop.exceptions import FieldDataError, NonFinitePredictionError, OptionalDependencyError

__all__ = [
    "DataSpec",
    "Predictions",
    "TargetForm",
    "Targets",
    "TrainingData",
]

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
        ndarray, list, FieldSet, tuple, list of meshio.Mesh, (meshes, scalars), DataFrame or Series
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
        return self.beside(attach_predictions(meshes, result, dict(self.components)), scalars, labels)

    def beside(self, meshes: Any, scalars: FloatArray | None, labels: Any = None) -> Any:
        """Return meshes as they are, or with scalars beside them in the form that these had in y.

        Parameters
        ----------
        meshes : list of meshio.Mesh
            Meshes with predicted fields.
        scalars : ndarray of shape (n, s) or None
            Scalars of the same samples, if there are any.
        labels : as in `restore`
            Labels of the samples.

        Returns
        -------
        list of meshio.Mesh, or (meshes, scalars)
            The meshes; with scalars a tuple of both.
        """
        return meshes if scalars is None else (meshes, self._named_scalars(scalars.astype(self.dtype), labels))

    def _named_scalars(self, scalars: FloatArray, labels: Any) -> Any:
        """Convert scalars ``(n, s)`` to the form of y."""
        if self.scalar_names is not None and labels is not None:
            # Without labels an index would be made up, and pandas would align other data with it.
            try:
                pandas = import_optional("pandas", purpose="name the columns of a prediction")
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
        names = self.channel_names
        return replace(
            self,
            geometry="grid",
            grid_shape=self.resampler.grid_shape,
            n_fields=self.n_fields + self.resampler.distance,
            channel_names=(*names, "distance") if names is not None and self.resampler.distance else names,
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
