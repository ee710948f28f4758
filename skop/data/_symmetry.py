"""Data augmentation by symmetries: random transformations of training samples on a grid.

A symmetry is a signed permutation of the axes about the centre of the grid (reflections, exchanges, rotations), or a
periodic shift. Scalar channels move with their points. The components of vectors and tensors are also transformed, so
that the velocity in a mirrored flow points in the mirrored direction.

Notation: M is the signed permutation matrix (d, d) of one symmetry; s is the shape of the grid.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch

from skop._typing import ArrayOrList, FloatArray, GridShape
from skop.exceptions import FieldDataError

__all__ = ["ChannelSymmetries", "GridSymmetries", "check_domain", "layout_of", "turned"]

_AXES = "xyz"
#: Tolerance, as a fraction of the extent, for points that a symmetry maps onto each other; it allows float32
#: coordinates.
SAME_POINT = 1e-5


class ChannelSymmetries:
    """Base of the symmetries: the channels that turn, and how those of global parameters and scalars do.

    A subclass says by `_matrices_of` how the elements turn that its `draw` and `element` return.
    """

    input_vectors: list[list[int]]
    target_vectors: list[list[int]]
    input_tensors: list[list[int]]
    target_tensors: list[list[int]]
    param_vectors: list[list[int]]
    scalar_vectors: list[list[int]]

    def _declare_channels(self, n_dims: int, where: str, **parts: Iterable[Sequence[int]]) -> None:
        """Check and store the channels of vectors and tensors, by the names of the attributes."""
        for name, channels in parts.items():
            check = check_tensors if name.endswith("tensors") else check_vectors
            setattr(self, name, check(channels, n_dims, where))

    def _matrices_of(self, element: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Matrices (B, d, d) of drawn elements, in the precision and on the device of values."""
        raise NotImplementedError

    def turn_numbers(
        self,
        numbers: torch.Tensor,
        element: torch.Tensor,
        place: torch.Tensor,
        vectors: Sequence[Sequence[int]],
        *,
        back: bool = False,
    ) -> torch.Tensor:
        """Turn the vectors among global parameters or scalars ``(B, p)``.

        Parameters
        ----------
        numbers : Tensor of shape (B, p)
            Numbers of each sample in physical units.
        element, place : Tensor
            Symmetry of each sample, from `draw` or `element`.
        vectors : sequence of sequence of int
            Columns that are components of a vector.
        back : bool, default=False
            Whether to undo the symmetry.

        Returns
        -------
        Tensor of shape (B, p)
            Turned numbers.
        """
        turn = self._matrices_of(element, numbers)
        return turned(numbers[:, None], turn.mT if back else turn, vectors)[:, 0]


class GridSymmetries(ChannelSymmetries):
    """Random symmetries of fields on one regular grid.

    Parameters
    ----------
    names : sequence of str
        Names of the symmetries: ``"flip_x"``, ``"flip_y"``, ``"flip_z"`` (mirror an axis), ``"transpose"`` (exchange
        the first two axes), ``"quarter_turn"`` (rotate the first two axes by 90 degrees), ``"shift_x"``, ``"shift_y"``,
        ``"shift_z"`` (any periodic shift along an axis). All combinations of them are drawn with equal probability.
    grid_shape : tuple of int
        Number of points along each axis.
    input_vectors, target_vectors : sequence of sequence of int, default=()
        Channels that are the d components of a vector, one tuple for each vector.
    domain : array-like of shape (d, 2) or None, default=None
        Lower and upper end of the domain along each axis. Reflections and rotations are about its centre and transform
        the coordinates too, so the grid itself need not be symmetric: if it contains one edge of the domain but not the
        other, the mirrored grid contains the other edge. None takes the bounding box of the grid, whose points are then
        mapped onto each other.
    input_tensors, target_tensors : sequence of sequence of int, default=()
        Channels that are the components of a tensor, one tuple for each tensor: xx, yy, xy in 2-D and xx, yy, zz, xy,
        yz, xz in 3-D, or all components by rows.
    param_vectors, scalar_vectors : sequence of sequence of int, default=()
        Global parameters, and scalar targets, that are the d components of a vector, one tuple for each vector.

    Raises
    ------
    FieldDataError
        If a name is unknown, refers to an axis that the grid does not have, or exchanges axes of different length; or
        if a vector does not have one component for each axis, or a tensor not as many as there are.

    Examples
    --------
    >>> from skop.data import GridSymmetries
    >>> GridSymmetries(["flip_x", "transpose"], (8, 8)).order
    8
    """

    def __init__(
        self,
        names: Sequence[str],
        grid_shape: GridShape,
        input_vectors: Iterable[Sequence[int]] = (),
        target_vectors: Iterable[Sequence[int]] = (),
        domain: ArrayOrList | None = None,
        *,
        input_tensors: Iterable[Sequence[int]] = (),
        target_tensors: Iterable[Sequence[int]] = (),
        param_vectors: Iterable[Sequence[int]] = (),
        scalar_vectors: Iterable[Sequence[int]] = (),
    ) -> None:
        self.domain = None if domain is None else check_domain(domain, len(grid_shape))
        self.grid_shape = tuple(grid_shape)
        known = self._generators()
        unknown = [name for name in names if name not in known and name not in self._shifts()]
        if unknown:
            raise FieldDataError(
                f"symmetry {unknown[0]!r} does not exist on a grid {self.grid_shape}; choose from "
                f"{[*known, *self._shifts()]} (axes that are exchanged need the same number of points)."
            )
        self.shift_axes = [self._shifts().index(name) for name in names if name in self._shifts()]
        self.matrices = _closure([known[name] for name in names if name in known], len(self.grid_shape))
        self._check_extents()
        where, n_dims = f"a grid with {len(self.grid_shape)} axes", len(self.grid_shape)
        self._declare_channels(
            n_dims,
            where,
            input_vectors=input_vectors,
            target_vectors=target_vectors,
            input_tensors=input_tensors,
            target_tensors=target_tensors,
            param_vectors=param_vectors,
            scalar_vectors=scalar_vectors,
        )
        index = np.arange(np.prod(self.grid_shape)).reshape(self.grid_shape)
        self._sources = torch.from_numpy(np.stack([_move_grid(index, matrix).ravel() for matrix in self.matrices]))

    def _matrices_of(self, element: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Matrices of elements, which are given by number."""
        return torch.tensor(self.matrices, dtype=values.dtype)[element].to(values.device)

    @property
    def order(self) -> int:
        """Number of different transformations, periodic shifts not included."""
        return len(self.matrices)

    def _shifts(self) -> list[str]:
        """Names of the shifts that are possible on the grid."""
        return [f"shift_{_AXES[axis]}" for axis in range(len(self.grid_shape))]

    def _check_extents(self) -> None:
        """Raise an error if axes are exchanged along which the domain has different extents."""
        if self.domain is None:
            return
        extents = np.ptp(self.domain, axis=1)
        exchanged = extents[np.abs(self.matrices).argmax(axis=2)]
        if np.abs(exchanged - extents).max() > SAME_POINT * extents.max():
            raise FieldDataError(
                f"the symmetries exchange axes along which domain has the extents {extents.tolist()}; transpose and "
                "quarter_turn need a domain as long as wide. Leave them out, or correct domain."
            )

    def _generators(self) -> dict[str, np.ndarray]:
        """Matrices of the named symmetries that are possible on the grid."""
        n_dims = len(self.grid_shape)
        identity = np.eye(n_dims, dtype=int)
        generators = {}
        for axis in range(n_dims):
            flip = identity.copy()
            flip[axis, axis] = -1
            generators[f"flip_{_AXES[axis]}"] = flip
        if n_dims > 1 and self.grid_shape[0] == self.grid_shape[1]:
            transpose = identity[[1, 0, *range(2, n_dims)]]
            generators["transpose"] = transpose
            generators["quarter_turn"] = generators["flip_x"] @ transpose
        return generators

    def check_points(self, coords: FloatArray) -> None:
        """Raise an error if the symmetries do not map the points onto each other.

        Parameters
        ----------
        coords : ndarray of shape (P, d)
            Coordinates of the grid points in C order.

        Raises
        ------
        FieldDataError
            If a reflection, exchange or rotation maps a point to a place without a point, or the spacing along a
            shifted axis is not uniform.
        """
        coords = np.asarray(coords, dtype=float)
        extent = np.ptp(coords, axis=0)
        centred = coords - coords.min(axis=0) - extent / 2
        tolerance = SAME_POINT * extent.max(initial=0.0)
        moved = np.einsum("kij,kpj->kpi", self.matrices, centred[self._sources.numpy()])
        if coords.shape[1] != len(self.grid_shape) or np.any(np.abs(moved - centred) > tolerance):
            raise FieldDataError(
                "the declared symmetries do not map the points of X onto each other: axis i of the grid must run along "
                "coordinate i, spaced symmetrically, and exchanged axes must have the same extent. Set symmetries=None."
            )
        for axis in self.shift_axes:
            steps = np.diff(coords.reshape(*self.grid_shape, -1), axis=axis)
            if steps.size and np.ptp(steps.reshape(-1, coords.shape[1]), axis=0).max() > tolerance:
                raise FieldDataError(f"shift_{_AXES[axis]} needs evenly spaced points along its axis.")

    def check_period(self, fields: Iterable[Any]) -> None:
        """Raise an error if the last point along a shifted axis repeats the first, which a period does not.

        Parameters
        ----------
        fields : iterable of ndarray of shape (n, P, c)
            Values of some samples.

        Raises
        ------
        FieldDataError
            If all fields have the same values at the first and the last point of the axis, and others next to them.
        """
        grids = [np.asarray(values).reshape(-1, *self.grid_shape, np.shape(values)[-1]) for values in fields]
        for axis in self.shift_axes:
            first, second, last = (
                [grid.take(place, axis + 1) for grid in grids] for place in (0, min(1, self.grid_shape[axis] - 1), -1)
            )
            if _are_close(first, last) and not _are_close(first, second):
                raise FieldDataError(
                    f"shift_{_AXES[axis]} moves samples around a period, but the last point along its axis repeats the "
                    "values of the first, and would be there twice; leave the last point out of X and y."
                )

    def move_points(self, coords: torch.Tensor, element: torch.Tensor) -> torch.Tensor:
        """Transform the coordinates of each sample about the centre of the domain.

        Parameters
        ----------
        coords : Tensor of shape (P, d)
            Coordinates of the grid points in physical units.
        element : Tensor of shape (B,)
            Index of the symmetry of each sample, from `draw`.

        Returns
        -------
        Tensor of shape (B, P, d)
            Transformed coordinates, in the same order along the axes of the grid.

        Raises
        ------
        FieldDataError
            If no domain was given.
        """
        if self.domain is None:
            raise FieldDataError("points can be moved only about a domain; pass domain when declaring the symmetries.")
        lower, upper = torch.as_tensor(self.domain.T.copy(), dtype=coords.dtype, device=coords.device)
        turn = torch.tensor(self.matrices, dtype=coords.dtype, device=coords.device)[element.to(coords.device)]
        place = (coords - lower) / (upper - lower) - 0.5
        # A periodic shift moves the values, but not the points.
        moved = self._sources[element].to(coords.device)
        return (torch.einsum("bij,bpj->bpi", turn, place[moved]) + 0.5) * (upper - lower) + lower

    def element(self, number: int, n_samples: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return one symmetry for all samples, in the form that `draw` returns.

        Parameters
        ----------
        number : int
            Index of the symmetry, from 0 (the identity) to `order` - 1.
        n_samples : int
            Number of samples.

        Returns
        -------
        tuple of Tensor
            Index of the symmetry of each sample (n,), and for each point the index of the point whose value it receives
            (n, P).
        """
        return torch.full((n_samples,), number), self._sources[number].expand(n_samples, -1)

    def undo(self, values: torch.Tensor, element: torch.Tensor, sources: torch.Tensor) -> torch.Tensor:
        """Undo `apply` for target fields ``(B, P, c)``.

        Parameters
        ----------
        values : Tensor of shape (B, P, c)
            Transformed fields.
        element, sources : Tensor
            Symmetry of each sample, from `draw` or `element`.

        Returns
        -------
        Tensor of shape (B, P, c)
            Fields at the original points.
        """
        back = torch.argsort(sources, dim=1).to(values.device)
        fields = torch.gather(values, 1, back[..., None].expand_as(values)).clone()
        return turned(fields, self._matrices_of(element, values).mT, self.target_vectors, self.target_tensors)

    def draw(self, n_samples: int, generator: torch.Generator | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw one symmetry for each sample.

        Parameters
        ----------
        n_samples : int
            Number of samples.
        generator : torch.Generator or None
            Random number generator on the CPU; None takes the global generator of PyTorch.

        Returns
        -------
        tuple of Tensor
            Index of the symmetry of each sample (n,), and for each point the index of the point whose value it receives
            (n, P).
        """
        element = torch.randint(self.order, (n_samples,), generator=generator)
        sources = self._sources[element]
        if self.shift_axes:
            sizes = [self.grid_shape[axis] for axis in self.shift_axes]
            shifts = [torch.randint(size, (n_samples,), generator=generator) for size in sizes]
            sources = torch.stack(
                [
                    self._roll(row, amounts)
                    for row, amounts in zip(sources, torch.stack(shifts, 1).tolist(), strict=True)
                ]
            )
        return element, sources

    def _roll(self, sources: torch.Tensor, amounts: Sequence[int]) -> torch.Tensor:
        """Shift the sources of one sample periodically."""
        return torch.roll(sources.view(self.grid_shape), tuple(amounts), dims=tuple(self.shift_axes)).reshape(-1)

    def apply(
        self,
        values: torch.Tensor,
        element: torch.Tensor,
        sources: torch.Tensor,
        vectors: Sequence[Sequence[int]],
        tensors: Sequence[Sequence[int]] = (),
    ) -> torch.Tensor:
        """Transform fields ``(B, P, c)`` by the drawn symmetries, including the components of vectors and tensors.

        Parameters
        ----------
        values : Tensor of shape (B, P, c)
            Fields in physical units.
        element, sources : Tensor
            Symmetry of each sample, from `draw`.
        vectors : sequence of sequence of int
            Channels that are components of a vector.
        tensors : sequence of sequence of int, default=()
            Channels that are components of a tensor.

        Returns
        -------
        Tensor of shape (B, P, c)
            Transformed fields.
        """
        moved = torch.gather(values, 1, sources.to(values.device)[..., None].expand_as(values))
        return turned(moved, self._matrices_of(element, values), vectors, tensors)


def _are_close(arrays: Iterable[Any], others: Iterable[Any]) -> bool:
    """Whether values are the same up to rounding."""
    pairs = zip(arrays, others, strict=True)
    return all(
        np.abs(own - other).max(initial=0.0) <= SAME_POINT * np.abs(own).max(initial=0.0) for own, other in pairs
    )


# ---------------------------------------------------------------------- vectors and tensors
def turned(
    values: torch.Tensor,
    turn: torch.Tensor,
    vectors: Sequence[Sequence[int]],
    tensors: Sequence[Sequence[int]] = (),
) -> torch.Tensor:
    """Turn vectors (v -> M v) and tensors (t -> M t M^T) of fields ``(B, P, c)`` by matrices ``(B, d, d)``."""
    if not vectors and not tensors:
        return values
    values = values.clone()
    for vector in vectors:
        values[..., list(vector)] = torch.einsum("bij,bpj->bpi", turn, values[..., list(vector)])
    for tensor in tensors:
        layout = np.array(layout_of(tensor, turn.shape[-1]))
        found = torch.einsum("bij,bpjk,blk->bpil", turn, values[..., torch.from_numpy(layout)], turn)
        channels, first = np.unique(layout, return_index=True)
        values[..., channels.tolist()] = found.flatten(-2)[..., first.tolist()]
    return values


def layout_of(tensor: Sequence[int], n_dims: int) -> list[list[int]]:
    """Channels of a tensor as a matrix (d, d); a symmetric one repeats those off the diagonal."""
    channel = list(tensor)
    if len(channel) == n_dims**2:
        return [channel[row * n_dims : (row + 1) * n_dims] for row in range(n_dims)]
    # The order of VTK: the diagonal, then xy in the plane; xy, yz and xz in space.
    if n_dims == 2:
        xx, yy, xy = channel
        return [[xx, xy], [xy, yy]]
    xx, yy, zz, xy, yz, xz = channel
    return [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]


def check_vectors(vectors: Iterable[Sequence[int]], n_dims: int, where: str) -> list[list[int]]:
    """Return the vectors as lists, and check that each has one component for each axis."""
    checked = [list(vector) for vector in vectors]
    for vector in checked:
        if len(vector) != n_dims:
            raise FieldDataError(
                f"vector {vector} has {len(vector)} components; {where} needs {n_dims}, one for each. A component "
                "across the plane of the points is a scalar; leave it out."
            )
        _check_channels("vector", vector)
    return checked


def check_tensors(tensors: Iterable[Sequence[int]], n_dims: int, where: str) -> list[list[int]]:
    """Return the tensors as lists, and check that each has as many components as one has."""
    counts = (n_dims * (n_dims + 1) // 2, n_dims**2)
    order = {2: ": xx, yy, xy, or all by rows", 3: ": xx, yy, zz, xy, yz, xz, or all by rows"}.get(n_dims, "")
    checked = [list(tensor) for tensor in tensors]
    for tensor in checked:
        if len(tensor) not in counts:
            raise FieldDataError(
                f"tensor {tensor} has {len(tensor)} components; {where} needs {counts[0]} or {counts[1]}{order}."
            )
        _check_channels("tensor", tensor)
    return checked


def _check_channels(what: str, channels: list[int]) -> None:
    """Check that channels are different numbers from 0."""
    if min(channels) < 0 or len(set(channels)) < len(channels):
        raise FieldDataError(f"{what} {channels} must name different channels, counted from 0.")


# ---------------------------------------------------------------------- grids
def check_domain(domain: ArrayOrList, n_dims: int) -> FloatArray:
    """Check the domain, and return it as an array."""
    ends = np.asarray(domain, dtype=float)
    if ends.shape != (n_dims, 2) or not np.all(ends[:, 0] < ends[:, 1]):
        raise FieldDataError(
            f"domain is {domain!r}; expected {n_dims} pairs (lower, upper) with lower < upper, one for each axis."
        )
    return ends


def _closure(generators: Sequence[np.ndarray], n_dims: int) -> np.ndarray:
    """Return all products of the generators, which are a finite group of signed permutations."""
    elements = {np.eye(n_dims, dtype=int).tobytes(): np.eye(n_dims, dtype=int)}
    while True:
        products = [left @ right for left, right in product(list(elements.values()), generators)]
        new = {item.tobytes(): item for item in products if item.tobytes() not in elements}
        if not new:
            return np.stack(list(elements.values()))
        elements |= new


def _move_grid(index: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return the array whose entry at a point is the entry that `matrix` moves there."""
    # Row i of M states which axis becomes axis i, and whether it is reversed.
    axes = np.abs(matrix).argmax(axis=1)
    moved = index.transpose(axes)
    backwards = tuple(axis for axis in range(len(axes)) if matrix[axis, axes[axis]] < 0)
    return np.flip(moved, axis=backwards)
