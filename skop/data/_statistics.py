"""Statistics of samples, from the pass in which values are checked, and the boxes of their points.

Notation: n samples, P points of a sample, d space dimensions, c channels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skop._typing import FloatArray
from skop.data._fieldset import FieldSet, iterate_coords

__all__ = ["Extremes", "boxes", "digests_of"]


@dataclass(frozen=True, eq=False)
class Extremes:
    """Lowest and highest value, mean and root mean square (n, c) of each channel of each sample, over its points."""

    low: FloatArray
    high: FloatArray
    mean: FloatArray
    size: FloatArray
    #: Digests (n, 32) of the values of each sample, where samples of a fit are checked.
    digests: Any = None

    @classmethod
    def of(cls, values: FloatArray, fields: FieldSet, start: int = 0) -> Extremes:
        """Statistics of successive samples of a FieldSet from a number on, with values (m, P, c), or ragged (T, c)."""
        # With the points last, which NumPy reduces several times faster.
        values = np.ascontiguousarray(np.moveaxis(values, -2, -1))
        with np.errstate(over="ignore", invalid="ignore"):
            if fields.offsets is None:
                count: Any = values.shape[-1]
                low, high = values.min(axis=-1), values.max(axis=-1)
                total = values.sum(axis=-1, dtype=np.float64)
                squares = np.einsum("ncp,ncp->nc", values, values, dtype=np.float64, casting="same_kind")
            else:
                starts = fields.offsets[start:] - fields.offsets[start]
                starts = starts[starts < values.shape[-1]]
                count = np.diff([*starts, values.shape[-1]])[:, np.newaxis]
                low, high = (extreme.reduceat(values, starts, axis=-1).T for extreme in (np.minimum, np.maximum))
                wide = values.astype(np.float64)
                total, squares = (np.add.reduceat(part, starts, axis=-1).T for part in (wide, wide * wide))
            return cls(low.astype(np.float64), high.astype(np.float64), total / count, np.sqrt(squares / count))

    @classmethod
    def joined(cls, parts: Sequence[Extremes]) -> Extremes:
        """Join the statistics of successive samples."""
        held = [(part.low, part.high, part.mean, part.size) for part in parts]
        return cls(*map(np.concatenate, zip(*held, strict=True)))

    def __getitem__(self, rows: Any) -> Extremes:
        digests = None if self.digests is None else self.digests[rows]
        return Extremes(self.low[rows], self.high[rows], self.mean[rows], self.size[rows], digests)

    @property
    def are_finite(self) -> bool:
        """Whether all values are finite."""
        return bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())


def digests_of(numbers: FloatArray, fields: FieldSet, start: int = 0) -> Any:
    """SHA-256 digests (m, 32) of the values, or points, of successive samples of a FieldSet from a number on.

    Numbers count in double precision. Values are (m, P, c), or (T, c) where samples differ in their number of points.
    """
    samples: Any = numbers
    if fields.offsets is not None:
        starts = fields.offsets[start:] - fields.offsets[start]
        samples = np.split(numbers, starts[1:][starts[1:] < len(numbers)])
    found = [hashlib.sha256(np.ascontiguousarray(sample, dtype="<f8").data).digest() for sample in samples]
    return np.frombuffer(b"".join(found), dtype=np.uint8).reshape(-1, 32)


def boxes(fields: FieldSet) -> tuple[FloatArray, FloatArray]:
    """Lowest and highest coordinates of each sample, (n, d) each, or (1, d) for samples that share their points."""
    offsets = fields.offsets
    corners: list[tuple[FloatArray, ...]] = []
    for start, piece in iterate_coords(fields):
        coords = np.asarray(piece, dtype=np.float64)
        if offsets is None:
            coords = coords[np.newaxis] if fields.shared_coords else coords
            corners.append((coords.min(axis=1), coords.max(axis=1)))
        else:
            starts = offsets[start:-1] - offsets[start]
            starts = starts[starts < len(coords)]
            corners.append(tuple(extreme.reduceat(coords, starts, axis=0) for extreme in (np.minimum, np.maximum)))
    lower, upper = map(np.concatenate, zip(*corners, strict=True))
    return lower, upper
