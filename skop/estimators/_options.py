"""Symmetries of a problem, as a part of the operators."""

from __future__ import annotations

from typing import Any

from skop._parameters import Choice, Part, param
from skop._sklearn_compat import AllowedValues, SequenceOf

__all__ = ["SymmetryOptions"]


class SymmetryOptions(Part):
    """Symmetries of the problem, for data augmentation and for averaged predictions.

    On a straight grid that all samples share, the points are mapped onto each other. On point sets, meshes and bent
    grids the points themselves are moved, and fields stay with their points.

    Examples
    --------
    >>> from skop import LaMORegressor, SymmetryOptions
    >>> LaMORegressor(symmetries=SymmetryOptions(names=("flip_x",), average_predictions=True)).symmetries.names
    ('flip_x',)
    """

    @property
    def are_declared(self) -> bool:
        """Whether there is any symmetry."""
        return bool(len(self.names) or len(self.mirrors) or len(self.rotations))

    names: Any = param(
        SequenceOf(str),
        default=(),
        text=(
            'Symmetries about the centre of the domain: ``"flip_x"``, ``"flip_y"``, ``"flip_z"`` mirror a coordinate; '
            '``"transpose"`` exchanges the first two; ``"quarter_turn"`` rotates them by 90 degrees, and ``"rotate"`` '
            'by any angle, not on grids; ``"shift_x"``, ``"shift_y"``, ``"shift_z"`` are periodic shifts, on grids '
            "only, where convolutions then wrap around. Training samples are transformed by random combinations of "
            "them."
        ),
    )
    domain: Any = param(
        "array-like",
        None,
        default=None,
        text=(
            "Lower and upper end of the domain along each axis, about whose centre the samples are mirrored and "
            "rotated; None takes the bounding box of the grid, or that of all training points."
        ),
    )
    periodic: bool | str = param(
        Choice("auto"),
        AllowedValues(bool, {False}),
        default="auto",
        text=(
            'Whether convolutions wrap around axes of a straight grid: ``"auto"`` around those over whose ends all '
            "fields of the fit go on as they do within, as in a periodic domain without its last point; False around "
            "none. They always wrap around axes of declared shifts."
        ),
    )
    mirrors: Any = param(
        SequenceOf(object),
        default=(),
        text=(
            "Further symmetries of points that form no straight grid: mirror planes, lines in 2-D, by one of their "
            "points and a normal of any length."
        ),
    )
    rotations: Any = param(
        SequenceOf(object),
        default=(),
        text=(
            "The same for rotations about a point in 2-D, or about the axis through a point in 3-D, by an angle in "
            "degrees. The angle None is any angle, drawn at random in training."
        ),
    )
    input_vectors: Any = param(
        SequenceOf(object),
        default=(),
        text=(
            "Channels that are the d components of a vector, one tuple for each vector. The components are mirrored "
            "and rotated too. A str is the name of a mesh field with all its components, or of a channel in a tuple. "
            "In a plane mesh a vector may have three components."
        ),
    )
    target_vectors: Any = param(
        SequenceOf(object),
        default=(),
        text=(
            "Channels that are the d components of a vector, one tuple for each vector. The components are mirrored "
            "and rotated too. A str is the name of a mesh field with all its components, or of a channel in a tuple. "
            "In a plane mesh a vector may have three components."
        ),
    )
    input_tensors: Any = param(
        SequenceOf(object),
        default=(),
        text=(
            "Channels that are the components of a tensor, one tuple for each tensor: (xx, yy, xy) in 2-D, (xx, yy, "
            "zz, xy, yz, xz) in 3-D, as VTK orders them, or all components by rows. Pass channels of another order, "
            "such as Voigt's, in this one. Shear strains must be components of the tensor, which are half of "
            "engineering strains."
        ),
    )
    target_tensors: Any = param(
        SequenceOf(object),
        default=(),
        text=(
            "Channels that are the components of a tensor, one tuple for each tensor: (xx, yy, xy) in 2-D, (xx, yy, "
            "zz, xy, yz, xz) in 3-D, as VTK orders them, or all components by rows. Pass channels of another order, "
            "such as Voigt's, in this one. Shear strains must be components of the tensor, which are half of "
            "engineering strains."
        ),
    )
    param_vectors: Any = param(
        SequenceOf(object),
        default=(),
        text=(
            "Global parameters that are the components of a vector, such as the direction of a load; a str is the "
            "name of a column of a DataFrame."
        ),
    )
    scalar_vectors: Any = param(
        SequenceOf(object),
        default=(),
        text="Scalar targets that are the components of a vector, such as drag and lift.",
    )
    average_predictions: bool = param(
        "boolean",
        default=False,
        text=(
            "Whether predictions are averaged over all symmetries except periodic shifts, which makes them exactly "
            "equivariant and multiplies their cost by the number of symmetries. For a rotation by any angle these are "
            "eight angles, multiples of 45 degrees."
        ),
    )
