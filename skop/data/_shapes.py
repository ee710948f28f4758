"""Shapes of samples whose nodes correspond, by which another numbering of the nodes is told.

A turned or mirrored numbering keeps neighbours and distances, but puts each node where no sample of a fit has it. A
shape is the places of chosen nodes without their mean and size, so that samples may be moved and magnified.

Notation: n samples, P points, m chosen nodes, d dimensions, r modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from skop._typing import FloatArray

__all__ = ["NODES", "Shapes", "spread_out", "unit_shape"]

#: Number of nodes of a shape, about, and largest number of samples that are kept.
NODES, _SAMPLES = 128, 32
#: Shapes within the ranges of a fit along its modes, extended by the first part of each range, and by the second of the
#: largest, are of its kind.
_MARGIN, _OF_LARGEST = 1.0, 0.25
#: Modes of a fit: their largest number, and their least part of the first.
_MODES, _LEAST = 16, 1e-3
#: Shapes are of another kind if they lie this many times further from the modes than those of the fit from modes of
#: others; and the least such distance, as a part of the size of a shape.
_FURTHER, _LEAST_SPREAD = 5.0, 1e-2


def unit_shape(points: FloatArray) -> FloatArray:
    """Points (P, d) in double precision without their mean, at a root mean square distance of 1 from it."""
    shape = np.asarray(points, dtype=np.float64)
    shape = shape - shape.mean(axis=0)
    largest = np.abs(shape).max(initial=0.0)
    shape = shape / (largest if largest > 0 else 1.0)
    size = np.sqrt((shape**2).sum(axis=1).mean())
    return np.asarray(shape / (size if size > 0 else 1.0))


def spread_out(samples: Any) -> Any:
    """Samples of a fit whose shapes are kept."""
    return samples[np.unique(np.linspace(0, len(samples) - 1, _SAMPLES).astype(int))]


@dataclass(frozen=True, eq=False)
class Shapes:
    """Shapes of the samples of a fit.

    Attributes
    ----------
    nodes : ndarray of shape (n, m, d)
        Places of nodes of the same number in samples of the fit.
    centre : ndarray of shape (m * d,)
        Their mean.
    modes : ndarray of shape (r, m * d)
        Directions in which they vary most.
    limits : ndarray of shape (2, r)
        Range along each mode, with a margin.
    spread : float
        Largest distance of the shape of a sample from those within the limits of other samples.
    """

    nodes: FloatArray
    centre: FloatArray
    modes: FloatArray
    limits: FloatArray
    spread: float

    @classmethod
    def from_fit(cls, shapes: Sequence[FloatArray]) -> Shapes:
        """Describe n shapes (m, d)."""
        nodes = np.stack(shapes)
        whole = cls(nodes, *_varied(nodes), 0.0)
        halves, spread = (nodes[::2], nodes[1::2]), _LEAST_SPREAD
        for half, others in (halves, halves[::-1]) if len(nodes) > 1 else ():
            seen = cls(half, *_varied(half), 0.0)
            spread = max(spread, *map(seen._distance_from_modes, others))
        return cls(nodes, whole.centre, whole.modes, whole.limits, spread)

    def are_left_by(self, shape: FloatArray) -> bool:
        """Tell whether a shape (m, d) is of another kind than those of the fit, or far beyond them."""
        return self._distance_from_modes(shape) > _FURTHER * self.spread

    def distance(self, shape: FloatArray) -> float:
        """Largest distance of a node of a shape (m, d) from that of its number in the sample that is next to it."""
        return float(np.linalg.norm(self.nodes - shape, axis=-1).max(axis=1).min())

    def distance_in_any_order(self, shape: FloatArray) -> float:
        """Largest distance of a node in the sample that is next to a shape (P, d) from the nearest node of this."""
        found, _ = KDTree(shape).query(self.nodes.reshape(-1, self.nodes.shape[-1]))
        return float(np.reshape(found, self.nodes.shape[:2]).max(axis=1).min())

    def _distance_from_modes(self, shape: FloatArray) -> float:
        """Root mean square distance of the nodes of a shape (m, d) from the nearest shape within the limits."""
        apart = shape.ravel() - self.centre
        left = apart - np.clip(self.modes @ apart, *self.limits) @ self.modes
        return float(np.linalg.norm(left) / np.sqrt(len(shape)))


def _varied(nodes: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Centre, modes and limits of shapes (n, m, d)."""
    rows = nodes.reshape(len(nodes), -1)
    centre = rows.mean(axis=0)
    _, sizes, modes = np.linalg.svd(rows - centre, full_matrices=False)
    modes = modes[:_MODES][sizes[:_MODES] > _LEAST * max(sizes[0], np.finfo(float).eps)]
    along = (rows - centre) @ modes.T
    ranges = np.ptp(along, axis=0)
    # A body that is turned further than in the fit goes far along modes in which it has hardly moved.
    slack = np.maximum(_MARGIN * ranges, _OF_LARGEST * ranges.max(initial=0.0))
    return centre, modes, np.stack([along.min(axis=0) - slack, along.max(axis=0) + slack])
