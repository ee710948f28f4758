"""Symmetries of points that form no grid: the points of a sample are moved, and its fields with them.

A symmetry is an isometry x -> M (x - c) + c + t: a mirror plane, a rotation, and their products. Scalar channels stay
with their points. The components of vectors and tensors are turned by M.

Notation: M is the orthogonal matrix (d, d) of one symmetry, t its shift, c the centre; B samples of a batch, P points
of a sample, T points of all samples together.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import torch
from scipy.spatial import KDTree

from skop._typing import ArrayOrList, FloatArray, IntArray
from skop.data._symmetry import SAME_POINT, ChannelSymmetries, GridSymmetries, turned
from skop.exceptions import FieldDataError

__all__ = ["MappedSymmetries", "PointSymmetries"]

_AXES = "xyz"
#: Difference below which two isometries are the same; products of matrices differ by rounding.
_SAME_MAP = 1e-7
#: Largest number of combinations of declared symmetries; rotations by a whole number of degrees and a mirror have 720.
_MAX_ORDER = 720
#: Number of equally spaced angles that stand for all angles of a rotation in averaged predictions and in statistics.
_N_ANGLES = 8
#: The same in the box of the moved points, which it leaves by less than one percent.
_N_BOX_ANGLES = 24


class PointSymmetries(ChannelSymmetries):
    """Random symmetries of points that form no grid: the points are moved, and fields with them.

    Parameters
    ----------
    names : sequence of str
        Names of the symmetries about `centre`: ``"flip_x"``, ``"flip_y"``, ``"flip_z"``; ``"transpose"``,
        ``"quarter_turn"``, and ``"rotate"`` by any angle, all three of the first two coordinates.
    centre : array-like of shape (d,)
        Centre of the named symmetries.
    extent : float, default=1.0
        Size of the set of points, by which rounding of planes and centres is judged.
    mirrors : sequence of (point, normal), default=()
        Mirror planes (lines in 2-D) by one of their points and their normal, of any length.
    rotations : sequence of (point, angle) in 2-D, or (point, axis, angle) in 3-D, default=()
        Rotations about a point, or about an axis through it, by an angle in degrees; None is any angle.
    input_vectors, target_vectors, input_tensors, target_tensors, param_vectors, scalar_vectors : default=()
        Channels of vectors and tensors, as in `GridSymmetries`.

    Raises
    ------
    FieldDataError
        If a name is unknown, a plane, a rotation, a vector or a tensor does not fit the space, or all combinations of
        the symmetries are too many.

    Examples
    --------
    >>> from skop.data._point_symmetry import PointSymmetries
    >>> PointSymmetries(["flip_x"], [1.0, 0.5], rotations=[((1.0, 0.5), 120)]).order
    6
    """

    def __init__(
        self,
        names: Sequence[str],
        centre: ArrayOrList,
        *,
        extent: float = 1.0,
        mirrors: Iterable[Any] = (),
        rotations: Iterable[Any] = (),
        input_vectors: Iterable[Sequence[int]] = (),
        target_vectors: Iterable[Sequence[int]] = (),
        input_tensors: Iterable[Sequence[int]] = (),
        target_tensors: Iterable[Sequence[int]] = (),
        param_vectors: Iterable[Sequence[int]] = (),
        scalar_vectors: Iterable[Sequence[int]] = (),
    ) -> None:
        self.centre = np.asarray(centre, dtype=float)
        self.n_dims, self.extent = len(self.centre), extent
        self._generators: list[tuple[FloatArray, FloatArray]] = []
        #: Rotations by any angle: their infinitesimal turn K, and a point at rest relative to the centre.
        self._spins: list[tuple[FloatArray, FloatArray]] = []
        for name in names:
            self._declare(name)
        for mirror in mirrors:
            self._generators.append(self._reflection(mirror))
        for rotation in rotations:
            self._declare_rotation(rotation)
        self.turns, self.shifts = _affine_closure(self._generators, self.n_dims, extent)
        where = f"space with {self.n_dims} coordinates"
        self._declare_channels(
            self.n_dims,
            where,
            input_vectors=input_vectors,
            target_vectors=target_vectors,
            input_tensors=input_tensors,
            target_tensors=target_tensors,
            param_vectors=param_vectors,
            scalar_vectors=scalar_vectors,
        )

    # ------------------------------------------------------------------ declarations
    def _declare(self, name: str) -> None:
        """Add a named symmetry about the centre."""
        rest, identity = np.zeros(self.n_dims), np.eye(self.n_dims)
        known = {}
        for axis, letter in zip(range(self.n_dims), _AXES, strict=False):
            known[f"flip_{letter}"] = np.diag(np.where(np.arange(self.n_dims) == axis, -1.0, 1.0))
        if self.n_dims > 1:
            known["transpose"] = identity[[1, 0, *range(2, self.n_dims)]]
            known["quarter_turn"] = known["flip_x"] @ known["transpose"]
        if name in known:
            self._generators.append((known[name], rest))
        elif name == "rotate" and self.n_dims > 1:
            self._spins.append((_spin(None if self.n_dims == 2 else identity[2]), rest))
        else:
            known |= {"rotate": identity} if self.n_dims > 1 else {}
            shift = " Periodic shifts need points on a straight grid." if str(name).startswith("shift") else ""
            raise FieldDataError(
                f"symmetry {name!r} does not exist for points with {self.n_dims} coordinates; choose from "
                f"{[*known]}, or declare planes and rotations by SymmetryOptions(mirrors=..., rotations=...).{shift}"
            )

    def _reflection(self, mirror: Any) -> tuple[FloatArray, FloatArray]:
        """Return the matrix and the shift of a mirror plane."""
        form = f"(point, normal), each of {self.n_dims} numbers"
        if np.ndim(_first_of(mirror)) != 1 or len(mirror) != 2:
            raise FieldDataError(f"mirror {mirror!r} is no plane; expected {form}.")
        point, normal = (_numbers(part, self.n_dims, f"mirror {mirror!r}", form) for part in mirror)
        normal = _unit(normal, f"mirror {mirror!r}", "normal")
        turn = _snapped(np.eye(self.n_dims) - 2 * np.outer(normal, normal))
        return turn, 2 * normal * (normal @ (point - self.centre))

    def _declare_rotation(self, rotation: Any) -> None:
        """Add a rotation by a fixed angle or by any angle."""
        form = {2: "(point, angle)", 3: "(point, axis, angle)"}.get(self.n_dims)
        if form is None:
            raise FieldDataError(f"rotations need 2 or 3 coordinates, but the points have {self.n_dims}.")
        form += f" with a point of {self.n_dims} numbers, and the angle in degrees or None for any angle"
        what = f"rotation {rotation!r}"
        if np.ndim(_first_of(rotation)) != 1 or len(rotation) != self.n_dims:
            raise FieldDataError(f"{what} is none in {self.n_dims}-D; expected {form}.")
        rest = _numbers(rotation[0], self.n_dims, what, form) - self.centre
        axis = None
        if self.n_dims == 3:
            axis = _unit(_numbers(rotation[1], 3, what, form), what, "axis")
        if rotation[-1] is None:
            self._spins.append((_spin(axis), rest))
            return
        if not isinstance(rotation[-1], Real) or not np.isfinite(float(rotation[-1])):
            raise FieldDataError(f"{what} has no angle; expected {form}.")
        turn = _turn_by(_spin(axis), np.deg2rad(float(rotation[-1])))
        self._generators.append((turn, rest - turn @ rest))

    # ------------------------------------------------------------------ groups
    def _matrices_of(self, element: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Matrices of elements, which are given by these."""
        return element.to(values.device, values.dtype)

    @cached_property
    def _averaged(self) -> tuple[FloatArray, FloatArray]:
        """Matrices and shifts of the symmetries over which predictions are averaged."""
        if not self._spins:
            return self.turns, self.shifts
        steps = [_turn_by(spin, 2 * np.pi / _N_ANGLES) for spin, _ in self._spins]
        fixed = [(turn, rest - turn @ rest) for turn, (_, rest) in zip(steps, self._spins, strict=True)]
        return _affine_closure([*self._generators, *fixed], self.n_dims, self.extent)

    def _sampled(self, n_angles: int) -> tuple[FloatArray, FloatArray]:
        """Matrices and shifts of all symmetries, with equally spaced angles for rotations by any angle."""
        turns, shifts = self.turns, self.shifts
        for spin, rest in self._spins:
            steps = np.stack([_turn_by(spin, angle) for angle in np.arange(n_angles) * (2 * np.pi / n_angles)])
            own = rest - steps @ rest
            shifts = (np.einsum("kij,lj->kli", turns, own) + shifts[:, None]).reshape(-1, self.n_dims)
            turns = np.einsum("kij,ljm->klim", turns, steps).reshape(-1, self.n_dims, self.n_dims)
        return turns, shifts

    @property
    def has_any_angle(self) -> bool:
        """Whether rotations by any angle are among the symmetries."""
        return bool(self._spins)

    @property
    def dense(self) -> tuple[FloatArray, FloatArray]:
        """Matrices and shifts of all symmetries, the identity first, with up to 24 angles for any angle."""
        return self._sampled(_N_BOX_ANGLES if len(self._spins) < 2 else _N_ANGLES)

    @property
    def order(self) -> int:
        """Number of symmetries over which predictions are averaged; 8 angles stand for any angle."""
        return len(self._averaged[0])

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
            Matrix (n, d, d) and shift (n, d) of each sample's symmetry.
        """
        number = torch.randint(len(self.turns), (n_samples,), generator=generator).numpy()
        turn, shift = self.turns[number], self.shifts[number]
        for spin, rest in self._spins:
            angles = 2 * np.pi * torch.rand(n_samples, generator=generator, dtype=torch.float64).numpy()
            own = np.stack([_turn_by(spin, angle) for angle in angles])
            shift = np.einsum("nij,nj->ni", turn, rest - own @ rest) + shift
            turn = turn @ own
        return torch.from_numpy(turn.copy()), torch.from_numpy(shift.copy())

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
            Matrix (n, d, d) and shift (n, d) of each sample's symmetry.
        """
        turn, shift = (torch.from_numpy(part[number]) for part in self._averaged)
        return turn.expand(n_samples, -1, -1), shift.expand(n_samples, -1)

    # ------------------------------------------------------------------ transformations
    def move_points(
        self, points: torch.Tensor, turn: torch.Tensor, shift: torch.Tensor, sizes: IntArray
    ) -> torch.Tensor:
        """Move points by the symmetry of their sample.

        Parameters
        ----------
        points : Tensor of shape (P, d), (B, P, d) or (T, d)
            Coordinates in physical units: shared by all samples, of each sample, or of all samples in turn.
        turn, shift : Tensor
            Symmetry of each sample, from `draw` or `element`.
        sizes : ndarray of shape (B,)
            Number of points of each sample.

        Returns
        -------
        Tensor of shape (B, P, d) or (T, d)
            Moved coordinates.
        """
        turn, shift = (part.to(points.device, points.dtype) for part in (turn, shift))
        centre = torch.tensor(self.centre, dtype=points.dtype, device=points.device)
        if points.ndim == 2 and len(points) == sizes.sum():
            counts = torch.as_tensor(sizes, device=points.device)
            turn, shift = turn.repeat_interleave(counts, dim=0), shift.repeat_interleave(counts, dim=0)
            return torch.einsum("tij,tj->ti", turn, points - centre) + (centre + shift)
        # Shared points have no sample axis.
        placed = points.expand(len(turn), *points.shape[-2:]) - centre
        return torch.einsum("bij,bpj->bpi", turn, placed) + (centre + shift)[:, None]

    def apply(
        self,
        values: torch.Tensor,
        turn: torch.Tensor,
        vectors: Sequence[Sequence[int]],
        tensors: Sequence[Sequence[int]] = (),
        sizes: IntArray | None = None,
    ) -> torch.Tensor:
        """Turn the vectors and tensors of fields, whose points are moved by `move_points`.

        Parameters
        ----------
        values : Tensor of shape (B, P, c) or (T, c)
            Fields in physical units.
        turn : Tensor of shape (B, d, d)
            Matrix of each sample, from `draw` or `element`.
        vectors, tensors : sequence of sequence of int
            Channels that are components of a vector or a tensor.
        sizes : ndarray of shape (B,) or None, default=None
            Number of points of each sample, for fields (T, c).

        Returns
        -------
        Tensor of the shape of `values`
            Turned fields.
        """
        turn = self._matrices_of(turn, values)
        if values.ndim == 3:
            return turned(values, turn, vectors, tensors)
        if sizes is not None and len(turn) > 1:
            turn = turn.repeat_interleave(torch.as_tensor(sizes, device=values.device), dim=0)
            return turned(values[:, None], turn, vectors, tensors)[:, 0]
        return turned(values[None], turn[:1], vectors, tensors)[0]

    # ------------------------------------------------------------------ statistics of moved samples
    def images(self, points: FloatArray, mode: str | None = "box") -> FloatArray:
        """Return a few points whose box, or mean and spread, are those of all moved points.

        Parameters
        ----------
        points : ndarray of shape (..., d)
            Points in physical units.
        mode : {"box", "standard", None}, default="box"
            Quantity that is kept: the box (also for None), or the mean and standard deviation along each axis.

        Returns
        -------
        ndarray of shape (m, d)
            Points.
        """
        flat = np.asarray(points, dtype=float).reshape(-1, self.n_dims) - self.centre
        if mode == "standard":
            # Points at the mean plus and minus the scaled principal axes have the mean and covariance of all.
            mean = flat.mean(axis=0)
            spread, axes = np.linalg.eigh((flat - mean).T @ (flat - mean) / len(flat))
            steps = (axes * np.sqrt(self.n_dims * np.maximum(spread, 0.0))).T
            flat = np.concatenate([mean + steps, mean - steps])
            turns, shifts = self._sampled(_N_ANGLES)
            return (np.einsum("kij,pj->kpi", turns, flat) + shifts[:, None]).reshape(-1, self.n_dims) + self.centre
        corners = []
        for turn, shift in zip(*self.dense, strict=True):
            moved = flat @ turn.T + (self.centre + shift)
            corners += [moved.min(axis=0), moved.max(axis=0)]
        return np.stack(corners)

    def all_turned(
        self, values: FloatArray, vectors: Sequence[Sequence[int]], tensors: Sequence[Sequence[int]] = ()
    ) -> Iterable[FloatArray]:
        """Yield fields turned by each symmetry in turn, with 8 angles for any angle.

        Parameters
        ----------
        values : ndarray of shape (n, P, c)
            Fields in physical units.
        vectors, tensors : sequence of sequence of int
            Channels that are components of a vector or a tensor.

        Yields
        ------
        ndarray of shape (n, P, c)
            Turned fields.
        """
        held = torch.from_numpy(np.array(values, dtype=float))
        for turn in self._sampled(_N_ANGLES)[0]:
            yield turned(held, torch.from_numpy(turn).expand(len(held), -1, -1), vectors, tensors).numpy()


class MappedSymmetries(GridSymmetries):
    """Symmetries that map points in any arrangement onto each other: values are exchanged, and no point is moved.

    Parameters
    ----------
    symmetries : PointSymmetries
        Symmetries; 8 angles stand for any angle.
    points : ndarray of shape (P, d)
        Points.

    Raises
    ------
    FieldDataError
        If a point is mapped to a place without a point.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data import MappedSymmetries, PointSymmetries
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> MappedSymmetries(PointSymmetries(["quarter_turn"], [0.5, 0.5]), square).order
    4
    """

    def __init__(self, symmetries: PointSymmetries, points: FloatArray) -> None:
        self.domain, self.shift_axes, self.grid_shape = None, [], (len(points),)
        self.points = np.asarray(points, dtype=float)
        self.matrices, shifts = symmetries._averaged
        for name in ("input", "target"):
            for kind in ("vectors", "tensors"):
                setattr(self, f"{name}_{kind}", getattr(symmetries, f"{name}_{kind}"))
        self.param_vectors, self.scalar_vectors = symmetries.param_vectors, symmetries.scalar_vectors
        centred, sources = self.points - symmetries.centre, []
        tree = KDTree(centred)
        for turn, shift in zip(self.matrices, shifts, strict=True):
            distance, place = tree.query(centred @ turn.T + shift)
            if distance.max(initial=0.0) > self._tolerance or len(np.unique(place)) < len(place):
                raise FieldDataError(
                    "the declared symmetries do not map the points of X onto each other; pass points that they map "
                    "onto each other, as in the fit, or set symmetries=None."
                )
            sources.append(torch.from_numpy(np.argsort(place)))
        self._sources = torch.stack(sources)

    @property
    def _tolerance(self) -> float:
        """Distance below which two points are the same."""
        return SAME_POINT * float(np.ptp(self.points, axis=0).max(initial=0.0))

    def check_points(self, coords: FloatArray) -> None:
        """Raise an error if points are not those that the symmetries map onto each other.

        Parameters
        ----------
        coords : ndarray of shape (P, d)
            Points.
        """
        if np.shape(coords) != self.points.shape or np.abs(coords - self.points).max(initial=0.0) > self._tolerance:
            raise FieldDataError(
                "the points of a sample are others than those that the declared symmetries map onto each other; pass "
                "samples on the points of the fit, or set symmetries=None."
            )


# ---------------------------------------------------------------------- isometries
def _spin(axis: FloatArray | None) -> FloatArray:
    """Infinitesimal turn in the plane, or about a unit axis in space: K with exp(K a) the turn by the angle a."""
    if axis is None:
        return np.array([[0.0, -1.0], [1.0, 0.0]])
    x, y, z = axis
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def _turn_by(spin: FloatArray, angle: float) -> FloatArray:
    """Matrix of the turn by an angle, by Rodrigues' formula: I + sin(a) K + (1 - cos(a)) K^2."""
    return _snapped(np.eye(len(spin)) + np.sin(angle) * spin + (1 - np.cos(angle)) * spin @ spin)


def _snapped(matrix: FloatArray) -> FloatArray:
    """Replace entries that are whole numbers up to rounding, so that quarter turns are exact."""
    whole = np.round(matrix)
    return np.where(np.abs(matrix - whole) < 1e-14, whole, matrix) + 0.0


def _affine_closure(
    generators: Sequence[tuple[FloatArray, FloatArray]], n_dims: int, scale: float
) -> tuple[FloatArray, FloatArray]:
    """All products of isometries x -> M x + t, the identity first; an error if there are too many."""
    turns, shifts = np.eye(n_dims)[None], np.zeros((1, n_dims))
    fresh = 0
    while fresh < len(turns):
        for turn, shift in generators:
            new_turn, new_shift = _snapped(turn @ turns[fresh]), turn @ shifts[fresh] + shift
            apart = np.abs(turns - new_turn).max(axis=(1, 2)) + np.abs(shifts - new_shift).max(axis=1) / scale
            if apart.min() > _SAME_MAP:
                turns, shifts = np.concatenate([turns, new_turn[None]]), np.concatenate([shifts, new_shift[None]])
        if len(turns) > _MAX_ORDER:
            raise FieldDataError(
                f"the declared symmetries have more than {_MAX_ORDER} combinations. Mirror planes must meet in one "
                "point, at angles that divide 180 degrees, and rotations be about that point, by angles that divide "
                "360 degrees; parallel planes make a translation. Named symmetries are about the centre of domain, or "
                "of the box of all training points. Averaged predictions take one rotation by any angle."
            )
        fresh += 1
    return turns, shifts


def _first_of(parts: Any) -> Any:
    """First part of a declaration, or a number if it has none."""
    return parts[0] if isinstance(parts, list | tuple | np.ndarray) and len(parts) else 0.0


def _numbers(part: Any, n_dims: int, what: str, form: str) -> FloatArray:
    """Check a point or a direction, and return it as an array."""
    try:
        numbers = np.asarray(part, dtype=float)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.shape != (n_dims,) or not np.isfinite(numbers).all():
        raise FieldDataError(f"{what} has {part!r}; expected {form}.")
    return numbers


def _unit(direction: FloatArray, what: str, part: str) -> FloatArray:
    """Scale a direction to length one."""
    largest = np.abs(direction).max()
    if largest == 0:
        raise FieldDataError(f"{what} has a {part} of length zero; pass a direction, such as (1, 0).")
    return direction / largest / np.linalg.norm(direction / largest)
