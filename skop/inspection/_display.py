"""What the displays share: axes for their panels, and the geometry of maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skop._optional import import_optional
from skop._typing import FloatArray

__all__ = ["Display", "draw_map", "set_aspect"]

#: Ratio of length to width above which a map fills its panel instead of having equal units on both axes.
_LONGEST_ASPECT = 4.0


#: Largest number of layers side by side.
_COLUMNS = 4


class Display:
    """Base of the displays, which opens or checks the axes of the panels."""

    #: Kinds of plots, of a display that has several.
    _kinds: tuple[str, ...] = ()
    figure_: Any

    def _panels(
        self,
        ax: Any,
        titles: Sequence[str] = ("",),
        *,
        size: tuple[float, float],
        columns: int | None = None,
        layout: str = "constrained",
        what: str = "",
    ) -> Any:
        """Return an array of axes with titles, those passed or new ones of this size in inches, and set `figure_`."""
        pyplot = import_optional("matplotlib.pyplot", purpose="draw figures")
        n_panels = len(titles)
        if ax is None:
            columns = min(n_panels, columns or n_panels)
            rows = -(-n_panels // columns)
            whole = (size[0] * columns, size[1] * rows)
            _, ax = pyplot.subplots(rows, columns, figsize=whole, layout=layout, squeeze=False)
            for spare in ax.flat[n_panels:]:
                spare.remove()
            ax = ax.flat[:n_panels]
        axes = np.asarray(ax, dtype=object).reshape(-1)
        if len(axes) != n_panels:
            raise ValueError(f"ax has {len(axes)} axes, expected {n_panels}{what}.")
        for panel, title in zip(axes, titles, strict=True):
            if title:
                panel.set_title(title, fontsize="medium")
        self.figure_ = axes[0].figure
        return axes

    def _layer_panels(self, ax: Any, n_layers: int, name: str | None) -> Any:
        """Return an array of axes, one for each layer, in a figure with the name of the model."""
        titles = [f"layer {number}" for number in range(1, n_layers + 1)]
        axes = self._panels(ax, titles, size=(2.7, 2.8), columns=_COLUMNS, what=", one for each layer")
        if name is not None:
            self.figure_.suptitle(name)
        return axes

    @classmethod
    def _check_kind(cls, kind: str) -> None:
        """Raise ValueError if there is no plot of this kind."""
        if kind not in cls._kinds:
            raise ValueError(f"kind is {kind!r}; expected one of {cls._kinds}.")


def draw_map(panel: Any, x: FloatArray, y: FloatArray, values: FloatArray, **options: Any) -> Any:
    """Draw values at the points of a grid, all of shape (m, n), as coloured cells around them."""
    # Both coordinates are given for every corner, so either axis of the grid can be x.
    return panel.pcolormesh(_corners(x), _corners(y), values, rasterized=True, **options)


def _corners(centres: FloatArray) -> FloatArray:
    """One coordinate (m + 1, n + 1) of the corners of the cells around grid points (m, n), also those of the border."""
    for axis in (0, 1):
        lines = np.moveaxis(centres, axis, 0)
        beyond = np.concatenate([2 * lines[:1] - lines[1:2], lines, 2 * lines[-1:] - lines[-2:-1]])
        centres = np.moveaxis((beyond[:-1] + beyond[1:]) / 2, 0, axis)
    return centres


def set_aspect(panel: Any, coords: FloatArray) -> None:
    """Give both axes of a map of points (P, 2) equal units, unless it is long and thin."""
    width, height = np.ptp(coords[:, 0]), np.ptp(coords[:, 1])
    is_long = max(width, height) > _LONGEST_ASPECT * min(width, height)
    panel.set_aspect("auto" if is_long else "equal")
