"""What is known of X and y after a fit: their sizes and forms, which the data of a prediction must match.

Notation: n samples, P points of a sample, T points of all samples together, q output channels, s scalars.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from skop._typing import FloatArray, GridShape
from skop.data._fieldset import FieldSet
from skop.data._resampling import GridResampler
from skop.exceptions import FieldDataError

__all__ = [
    "DataSpec",
    "Predictions",
    "TargetForm",
    "Targets",
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
    """Outputs of samples: a field, scalars, or both."""

    #: Target fields on the points of the inputs.
    field: FieldSet | None = None
    #: Target scalars (n, s) of each sample.
    scalars: FloatArray | None = None
    #: Whether the field is on points of its own, instead of those of the inputs.
    elsewhere: bool = False
    #: Values since which the targets are the change, of which with it relative errors are; None for plain targets.
    since: Predictions | None = None

    def __post_init__(self) -> None:
        held = [part for part in (self.field, self.scalars) if part is not None]
        if not held or (len(held) > 1 and len(held[0]) != len(held[1])):
            sizes = sorted(map(len, held))
            raise FieldDataError(f"targets need a field, scalars, or both of equal length; got lengths {sizes}.")

    def __len__(self) -> int:
        return len(self.scalars) if self.field is None else len(self.field)  # type: ignore[arg-type]

    def __getitem__(self, rows: Any) -> Targets:
        return Targets(
            None if self.field is None else self.field[rows],
            None if self.scalars is None else self.scalars[rows],
            self.elsewhere,
            None if self.since is None else self.since[rows],
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
    """Predictions of an estimator in physical units, in the caller's order of samples and points."""

    #: Predicted fields (n, P, q), or (T, q) for ragged samples with T points together.
    fields: FloatArray | None
    #: Predicted scalars (n, s).
    scalars: FloatArray | None = None

    def __getitem__(self, rows: Any) -> Predictions:
        return Predictions(*(None if part is None else part[rows] for part in (self.fields, self.scalars)))


@dataclass(frozen=True)
class TargetForm:
    """Form of y, to which `skop.data.restore` converts predictions."""

    #: Kind of object that y was, `container` of a form; for scalars ``"array"``.
    container: str
    #: Data type of predictions.
    dtype: str = "float64"
    #: Whether y had no channel axis, or no axis for its single scalar.
    squeezes_channel: bool = False
    #: Whether an array has one axis for each space dimension, instead of one axis for all points.
    has_grid_axes: bool = False
    #: Names of the output channels.
    channel_names: tuple[str, ...] | None = None
    #: Names of the output fields of a mesh and their numbers of channels; None if y was not meshes.
    components: tuple[tuple[str, int], ...] | None = None
    #: Names of the scalars as text, if y was a DataFrame with names for its columns or a Series with a name.
    scalar_names: tuple[str, ...] | None = field(default=None, compare=False)
    #: Whether these names are text in y too; tables are predicted as arrays otherwise.
    has_text: bool = field(default=True, compare=False)

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
        Fields of meshes, or arrays or columns of a file, that are the inputs; None when X was neither, or the geometry
        of meshes alone.
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
    def is_table(self) -> bool:
        """Whether X came as a table."""
        return self.input_form == "table"

    @property
    def is_fieldset(self) -> bool:
        """Whether X came as a FieldSet."""
        return self.input_form == "fieldset"

    @property
    def on_meshes(self) -> bool:
        """Whether X came as meshes."""
        return self.input_form == "meshes"

    @property
    def has_features(self) -> bool:
        """Whether X is features from which scalars are predicted."""
        return self.role == "features"

    @property
    def has_parameters_alone(self) -> bool:
        """Whether X is global parameters from which a field is predicted, and no fields."""
        return self.role == "parameters"

    @property
    def has_fields(self) -> bool:
        """Whether X is fields, or points."""
        return self.role == "fields"

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

    @property
    def output_names(self) -> list[str]:
        """Names of the output channels and scalars, each of which occurs once."""
        form, unique = self.target_form, list[str]()
        for prefix, named, count in (
            ("channel", form.channel_names, self.n_outputs),
            ("scalar", form.scalar_names, self.n_scalars),
        ):
            names = [*named] if named else [f"{prefix} {number}" for number in range(count)]
            for number, name in enumerate(names if count else ()):
                # Components of one field of a mesh may have the name of another.
                is_unique = names.count(name) == 1 and name not in unique
                unique.append(name if is_unique else f"{name} ({prefix} {number})")
        return unique

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
