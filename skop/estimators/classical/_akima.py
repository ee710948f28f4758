"""Akima's interpolation over one input.

H. Akima, "A new method of interpolation and smooth curve fitting based on local procedures", J. ACM 17 (1970), with
norms over all values in place of the size of one, so that it does not depend on their axes.

Notation: n knots, r values at each, q points of a prediction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from skop._typing import FloatArray
from skop.estimators.classical._components import TINY

__all__ = ["cubics", "residuals_without_each", "slopes_at"]

#: Changes up to this part of the slopes are rounding; number of neighbours on either side that decide about a value.
_FLAT, _NEIGHBOURS = 1e-9, 3
#: Numbers of values of neighbours that are held at once.
_AT_ONCE = 2**20


def cubics(points: Any, knots: Any) -> Any:
    """Cubics (q, 2n) at points (q, 1) for values at sorted knots (n,) or (q, n), and for slopes; lines beyond these."""
    xp: Any = torch if isinstance(points, torch.Tensor) else np
    apart, gaps = points - knots, knots[..., 1:] - knots[..., :-1]
    # Beyond the ends, the next knot is infinitely far.
    far = xp.full_like(knots[..., :1], np.inf)
    part = xp.where(apart < 0, -apart / xp.concatenate([far, gaps], -1), apart / xp.concatenate([gaps, far], -1))
    part = xp.clip(part, 0.0, 1.0)
    return xp.concatenate([(1 - part) ** 2 * (1 + 2 * part), (1 - part) ** 2 * apart], 1)


def slopes_at(knots: FloatArray, values: FloatArray) -> FloatArray:
    """Slopes (..., n, r) at sorted knots (..., n) of values (..., n, r), of which all have the same weights."""
    inner = np.diff(values, axis=-2) / np.diff(knots)[..., np.newaxis]
    # Two more intervals at either end, of slopes that go on changing as those next to them.
    first, last = inner[..., :1, :], inner[..., -1:, :]
    before, after = first - inner[..., 1:2, :], last - inner[..., -2:-1, :]
    slopes = np.concatenate([first + 2 * before, first + before, inner, last + after, last + 2 * after], axis=-2)
    sizes = np.linalg.norm(slopes, axis=-1)
    # Where the slopes on either side are the same but for rounding, both weights are.
    changes = np.linalg.norm(np.diff(slopes, axis=-2), axis=-1)
    least = _FLAT * (sizes[..., 1:-2] + sizes[..., 2:-1]) + TINY
    left, right = changes[..., 2:] + least, changes[..., :-2] + least
    share = (left / (left + right))[..., np.newaxis]
    return np.asarray(share * slopes[..., 1:-2, :] + (1 - share) * slopes[..., 2:-1, :])


def residuals_without_each(knots: FloatArray, values: FloatArray) -> FloatArray:
    """Values (n, r) at sorted knots (n,) minus those of interpolations without the knot of each."""
    n, n_values = values.shape
    count, found = min(2 * _NEIGHBOURS, n - 1), np.empty_like(values)
    for start in range(0, n, step := max(1, _AT_ONCE // (count * n_values))):
        places = np.arange(start, min(start + step, n))[:, np.newaxis]
        # As many neighbours at the ends as elsewhere, of which the farther ones count for nothing.
        near = np.clip(places - count // 2, 0, n - 1 - count) + np.arange(count)
        near += near >= places
        both = np.concatenate([values[near], slopes_at(knots[near], values[near])], axis=1)
        found[places[:, 0]] = values[places[:, 0]] - (cubics(knots[places], knots[near])[:, np.newaxis] @ both)[:, 0]
    return found
