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
        How X came: ``"table"`` (2-D), ``"grid"`` (regular grid array), ``"fieldset"`` or ``"tuple"``.
    role : str
        What a table means: ``"features"``, ``"parameters"`` or ``"function"``; ``"fields"`` otherwise.
    target_form : str
        How y came and predictions go: ``"vector"``, ``"table"``, ``"grid"``, ``"grid_single"``
        (no channel axis), ``"points"``, ``"points_single"``, ``"fieldset"`` or ``"tuple"``.
    n_dims, n_fields, n_params, n_outputs : int
        Space dimensions, input channels, global parameters, output channels or scalars.
    grid_shape : tuple of int or None
        Points along each axis in training; None when the points form no grid.
    target_dtype : str
        Type in which predictions are returned.
    channel_names : tuple of str or None
        Names of the output channels.
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

    @property
    def scalar_output(self) -> bool:
        """Whether a sample's output is a few numbers and not a field."""
        return self.target_form in ("vector", "table")

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "DataSpec":
        """Build from what `to_dict` gave, after a trip through JSON."""
        tuples = {name: tuple(content[name]) for name in ("grid_shape", "channel_names") if content[name] is not None}
        return cls(**(content | tuples))
