"""What the data of a fit looked like: everything that a prediction must match or give back."""

from dataclasses import asdict, dataclass
from typing import Any

from skop._typing import GridShape

__all__ = ["DataSpec"]


@dataclass(frozen=True)
class DataSpec:
    """Kinds and sizes of X and y, as found by a fit.

    Attributes
    ----------
    input_form : str
        How X came: ``"table"`` (2-D), ``"grid"`` (regular grid array), ``"fieldset"``, ``"tuple"``,
        ``"list"`` (point sets), ``"pairs"`` (list of (coords, fields)) or ``"meshes"``.
    role : str
        What a table means: ``"features"``, ``"parameters"`` or ``"function"``; ``"fields"`` otherwise.
    target_form : str
        How y came and predictions go: ``"vector"``, ``"table"``, ``"grid"``, ``"grid_single"``
        (no channel axis), ``"points"``, ``"points_single"``, ``"list"``, ``"list_single"``, ``"pairs"``,
        ``"fieldset"``, ``"tuple"`` or ``"meshes"``.
    n_dims, n_fields, n_params, n_outputs : int
        Space dimensions, input channels, global parameters, channels of the output field.
    grid_shape : tuple of int or None
        Points along each axis in training; None when the points form no grid.
    target_dtype : str
        Type in which predictions are returned.
    channel_names : tuple of str or None
        Names of the output channels.
    n_scalars : int, default=0
        Output scalars of a sample, alone or beside the field.
    layout : {"grid", "structured", "points"}, default="grid"
        Whether the points form one rectilinear grid, a grid that is bent or each sample's own, or none.
    kept_axes : tuple of int or None, default=None
        Coordinates of a mesh that were kept; None when X was no mesh.
    components : tuple of (str, int) or None, default=None
        Output fields of a mesh and their numbers of channels; None when y was no mesh.
    """

    input_form: str
    role: str
    target_form: str
    n_dims: int
    n_fields: int
    n_params: int
    n_outputs: int
    grid_shape: GridShape | None
    target_dtype: str
    channel_names: tuple[str, ...] | None = None
    n_scalars: int = 0
    layout: str = "grid"
    kept_axes: tuple[int, ...] | None = None
    components: tuple[tuple[str, int], ...] | None = None

    @property
    def scalar_output(self) -> bool:
        """Whether a sample's output is a few numbers and no field."""
        return self.n_outputs == 0

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "DataSpec":
        """Build from what `to_dict` gave, after a trip through JSON."""
        names = ("grid_shape", "channel_names", "kept_axes")
        tuples: dict[str, Any] = {name: tuple(content[name]) for name in names if content.get(name) is not None}
        if content.get("components") is not None:
            tuples["components"] = tuple((name, count) for name, count in content["components"])
        return cls(**(content | tuples))
