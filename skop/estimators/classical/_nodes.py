"""How the nodes of samples with points of their own are numbered, and whether they correspond.

Notation: n samples, P points, d dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import pdist

from skop._typing import FloatArray, IntArray
from skop.data import NODES, FieldSet, Shapes, spread_out, unit_shape
from skop.estimators.classical._components import ROUNDING
from skop.estimators.files._file_checks import Held, checks
from skop.estimators.files._persistence import KNOWN
from skop.exceptions import FieldDataError, warn

__all__ = ["Numbering", "keep_their_distances", "nodes_correspond", "renumbered_sample"]

#: Nodes correspond if the mean correlation of their distances exceeds this.
_ALIKE = 0.5
#: Neighbours of a node, and the multiple of their distance beyond which they are torn apart in another sample.
_NEIGHBOURS, _TORN = 8, 4.0
#: Nodes have other numbers if the nearest ones of any number lie this many times closer to those of the fit.
_CLOSER = 3.0
#: Largest part of nodes that may be torn off, and number of points below which this is not tested.
_MOST_TORN, _FEWEST_POINTS = 0.1, 24


def nodes_correspond(inputs: FieldSet) -> bool:
    """Tell whether the nodes of samples are the same or correspond, so that PODRegressor can relate them.

    Parameters
    ----------
    inputs : FieldSet
        Samples with the same number of points.

    Returns
    -------
    bool
        False if some samples have their points numbered in another order.
    """
    if inputs.shared_coords:
        return True
    try:
        return Numbering.from_fit(inputs.coords).is_known
    except FieldDataError:
        return False


def keep_their_distances(inputs: FieldSet) -> bool:
    """Tell whether distances between nodes are alike in all samples, as those of nodes that correspond.

    Parameters
    ----------
    inputs : FieldSet
        n samples with the same number of points.

    Returns
    -------
    bool
        Whether distances between nodes of the other samples correlate with those of the first. Between points drawn at
        random for each sample they do not.
    """
    if inputs.shared_coords or inputs.n_points[0] < 3:
        return True
    nodes, rows = (np.unique(np.linspace(0, n - 1, 64).astype(int)) for n in (inputs.n_points[0], len(inputs)))
    distances = np.stack([pdist(np.asarray(inputs.coords[row], dtype=np.float64)[nodes]) for row in rows])
    distances -= distances.mean(axis=1, keepdims=True)
    sizes = np.linalg.norm(distances, axis=1)
    products = distances[1:] @ distances[0]
    found = np.divide(products, sizes[1:] * sizes[0], out=np.zeros(len(products)), where=sizes[1:] * sizes[0] > 0)
    return bool(found.mean() > _ALIKE)


def renumbered_sample(first: FloatArray, coords: FloatArray) -> int | None:
    """Find a sample that has the points of the first one in another order.

    Parameters
    ----------
    first : ndarray of shape (P, d)
        Points of the first sample.
    coords : ndarray of shape (n, P, d)
        Points of n samples.

    Returns
    -------
    int or None
        Index of the first such sample; None if there is none.
    """
    first = np.asarray(first, dtype=np.float64)
    tolerance, ordered = _tolerance_of(first), np.sort(first, axis=0)
    for number, sample in enumerate(coords):
        is_same = np.abs(sample - first).max() <= tolerance
        if is_same or np.abs(np.sort(sample, axis=0) - ordered).max() > tolerance:
            continue
        if KDTree(first).query(sample)[0].max() <= tolerance:
            return number
    return None


@dataclass(frozen=True, eq=False)
class Numbering:
    """How the nodes of samples with points of their own are numbered.

    Attributes
    ----------
    first : ndarray of shape (P, d)
        Points of the first training sample.
    nearest : ndarray of int, shape (P,)
        Nearest node of each one.
    reach : ndarray of shape (P,)
        Distances up to which both remain neighbours in another sample of the same size.
    is_known : bool
        Whether the nodes of all training samples correspond.
    is_fixed : bool, default=False
        Whether all training samples have the points of the first, so that nothing is known of others; files of earlier
        versions do not say it.
    shapes : Shapes or None, default=None
        Where nodes of each number lie in the training samples, if this is known.
    """

    first: FloatArray
    nearest: IntArray
    reach: FloatArray
    is_known: bool
    is_fixed: bool = False
    shapes: Shapes | None = None

    @classmethod
    def from_fit(cls, coords: FloatArray) -> Numbering:
        """Describe the nodes of training samples (n, P, d)."""
        first = np.array(coords[0], dtype=np.float64)
        distances, near = KDTree(first).query(first, min(_NEIGHBOURS + 1, len(first)))
        distances, near = distances.reshape(len(first), -1), near.reshape(len(first), -1)
        # Points that coincide are listed in any order.
        nearest = np.where(near[:, 0] == np.arange(len(first)), near[:, min(1, near.shape[1] - 1)], near[:, 0])
        found = cls(first, nearest, _TORN * distances[:, -1], True)
        found._refuse_same_points(coords)
        is_known, is_fixed = not (found._torn(coords) > _MOST_TORN).any(), not any(map(found._is_other, coords))
        shapes = None
        if is_known and not is_fixed:
            chosen = _chosen(len(first))
            shapes = Shapes.from_fit([unit_shape(sample)[chosen] for sample in spread_out(coords)])
        return replace(found, is_known=is_known, is_fixed=is_fixed, shapes=shapes)

    def warn_of_other_nodes(self, coords: FloatArray, *, has_grid: bool = False) -> None:
        """Warn if the nodes of training samples (n, P, d) do not correspond; on a grid only if most of them do."""
        if self.is_known:
            return
        torn = np.flatnonzero(self._torn(coords) > _MOST_TORN)
        if has_grid and 2 * len(torn) > len(coords):
            return
        outcome = (
            "PODRegressor takes points of the same number for the same node, so that its predictions will be poor; "
            "number the points alike, set grid='auto', or use an operator for points, such as LaMORegressor."
        )
        if has_grid:
            outcome = "All samples are therefore interpolated to a common grid; number the points alike to avoid it."
        warn(
            f"the points of {len(torn)} of {len(coords)} samples, such as that of index {torn[0]}, are numbered in "
            f"another order than those of the first: nodes that are neighbours there lie far apart here. {outcome}"
        )

    def check(self, coords: FloatArray) -> None:
        """Refuse samples (n, P, d), or points (P, d) of all, numbered in another order than in the fit, or unknown."""
        coords = coords[np.newaxis] if coords.ndim == 2 else coords
        if coords.shape[1:] != self.first.shape:
            raise FieldDataError(
                f"X has samples of {coords.shape[1]} points in {coords.shape[2]} dimensions, and the fit had "
                f"{len(self.first)} in {self.first.shape[1]}. PODRegressor takes points of the same number for the "
                "same node; pass samples on meshes like those of the fit, and the other points as coords=, or fit with "
                "grid=(...), a regular grid to which all samples are interpolated."
            )
        self._refuse_same_points(coords)
        if others := [number for number, sample in enumerate(coords) if not self.covers(sample)]:
            raise FieldDataError(
                f"the sample of index {others[0]} has other points than those that all samples of the fit share, so "
                "that PODRegressor knows nothing about them; interpolate the sample onto the points of the fit, or fit "
                "with samples whose points vary."
            )
        if not self.is_known:
            return
        torn = np.flatnonzero(self._torn(coords) > _MOST_TORN)
        if len(torn):
            raise FieldDataError(
                f"the points of the sample of index {torn[0]} are numbered in another order than those of the fit: "
                "nodes that were neighbours lie far apart. PODRegressor takes points of the same number for the same "
                "node; number the points as in the fit, or use an operator for points, such as LaMORegressor."
            )
        if others := [number for number, sample in enumerate(coords) if self._is_renumbered(sample)]:
            raise FieldDataError(
                f"the points of the sample of index {others[0]} are numbered in another order than those of the fit: "
                "nodes lie where the fit had nodes of other numbers, as in a turned or mirrored mesh. PODRegressor "
                "takes points of the same number for the same node; number the points as in the fit, or use an "
                "operator for points, such as LaMORegressor."
            )

    def covers(self, sample: FloatArray) -> bool:
        """Tell whether the points (P, d) of a sample are those of the fit, or may be others."""
        return not (self.is_fixed and self._is_other(sample))

    def _is_renumbered(self, sample: FloatArray) -> bool:
        """Whether the points (P, d) of a sample lie near nodes of the fit of other numbers, and far from their own."""
        if self.shapes is None:
            return False
        shape = unit_shape(sample)
        own = shape[_chosen(len(shape))]
        if not self.shapes.are_left_by(own):
            return False
        return _CLOSER * self.shapes.distance_in_any_order(shape) < self.shapes.distance(own)

    def _is_other(self, sample: FloatArray) -> bool:
        """Whether the points (P, d) of a sample differ from the first ones by more than rounding."""
        return bool(np.abs(np.asarray(sample, dtype=np.float64) - self.first).max() > _tolerance_of(self.first))

    def _torn(self, coords: FloatArray) -> FloatArray:
        """Part of the nodes of each sample that lie far from the node that was next to them."""
        if len(self.first) < _FEWEST_POINTS:
            return np.zeros(len(coords))
        size = np.linalg.norm(np.ptp(self.first, axis=0))
        found = np.empty(len(coords))
        for number, sample in enumerate(np.asarray(coords, dtype=np.float64)):
            stretch = np.linalg.norm(np.ptp(sample, axis=0)) / size if size > 0 else 1.0
            apart = np.linalg.norm(sample - sample[self.nearest], axis=1)
            found[number] = (apart > self.reach * max(stretch, ROUNDING)).mean()
        return found

    def _refuse_same_points(self, coords: FloatArray) -> None:
        """Refuse a sample with the points of the first training sample in another order."""
        number = renumbered_sample(self.first, coords)
        if number is not None:
            raise FieldDataError(
                f"the sample of index {number} has the same points as the first sample of the fit, but numbered in "
                "another order. PODRegressor takes points of the same number for the same node; sort the points and "
                "values of all samples alike, for instance by np.lexsort(coords.T)."
            )


def _tolerance_of(first: FloatArray) -> float:
    """Distance up to which points are the same as those (P, d) of a sample."""
    return 1e-6 * float(np.ptp(first, axis=0).max(initial=0.0))


def _chosen(count: int) -> IntArray:
    """Numbers of the nodes of a shape among those of a sample."""
    return np.unique(np.linspace(0, count - 1, NODES).astype(int))


# Files of earlier versions have the second name.
KNOWN.update(dict.fromkeys((Numbering.__name__, "_Numbering"), Numbering))


# ---------------------------------------------------------------------- what a file must hold
@checks("Numbering")
def _check_numbering(held: Held) -> None:
    """Check the numbering of nodes from a file."""
    first = held.array("first", None, None)
    nearest = held.array("nearest", len(first), whole=True)
    held.need(bool(((nearest >= 0) & (nearest < len(first))).all()), "nearest", "numbers of nodes")
    held.array("reach", len(first))
    held.flag("is_known")
    held.flag("is_fixed")
    shapes = held.part("shapes", "Shapes", optional=True)
    expected = (len(_chosen(len(first))), first.shape[1])
    held.need(shapes is None or shapes.nodes.shape[1:] == expected, "shapes", "the nodes of shapes of these points")
