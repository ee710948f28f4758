"""Join FieldSets along their sample axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skop._typing import FloatArray
from skop.exceptions import FieldDataError

if TYPE_CHECKING:
    from skop.data._fieldset import FieldSet

__all__ = ["concatenate"]


def concatenate(parts: Sequence[FieldSet]) -> FieldSet:
    """Join FieldSets along the sample axis.

    Parameters
    ----------
    parts : sequence of FieldSet
        All ragged or all on the same number of points, with the same channels and parameters.

    Returns
    -------
    FieldSet
        The joined samples, in memory.

    Raises
    ------
    FieldDataError
        If there is nothing to join, or the parts differ in points, dimensions, channels, names, parameters or grid.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import FieldSet
    >>> a = FieldSet(np.zeros((4, 1)), np.ones((3, 4, 1)))
    >>> len(np.concatenate([a, a[:1]]))
    4
    """
    parts = list(parts)
    _check_joinable(parts)
    first = parts[0]
    params = None if first.params is None else np.concatenate([part.params for part in parts])
    values = None if first.values is None else np.concatenate([part.values for part in parts])
    shared = all(part.shared_coords and np.array_equal(part.coords, first.coords) for part in parts)
    coords = first.coords if shared else np.concatenate([_own_coords(part) for part in parts])
    offsets = None
    if first.is_ragged:
        offsets = np.concatenate([[0], np.cumsum(np.concatenate([part.n_points for part in parts]))])
    return first._replace(_coords=coords, _values=values, _params=params, _offsets=offsets, _shared=shared, _rows=None)


def _check_joinable(parts: Sequence[Any]) -> None:
    """Raise unless all parts hold the same kind of samples."""
    strangers = [type(part).__name__ for part in parts if not hasattr(part, "shared_coords")]
    if strangers or not parts:
        came = f"a {strangers[0]} among the parts" if strangers else "nothing"
        raise FieldDataError(f"only FieldSets can be joined to FieldSets, got {came}.")
    for what in ("is_ragged", "n_dims", "n_channels", "n_params", "grid_shape", "channel_names"):
        found = [getattr(part, what) for part in parts]
        if any(item != found[0] for item in found):
            raise FieldDataError(f"cannot join FieldSets whose {what} differ: {found}.")
    if any(part.shape[1:] != parts[0].shape[1:] for part in parts):
        raise FieldDataError(f"cannot join FieldSets of shapes {[part.shape for part in parts]}.")


def _own_coords(part: FieldSet) -> FloatArray:
    """Coordinates with a sample axis, also when they are shared."""
    return np.broadcast_to(part.coords, (len(part), *part.coords.shape)) if part.shared_coords else part.coords
