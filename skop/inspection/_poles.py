"""Poles that mixers of rational filters choose for each sample, as numbers and in the unit disk.

Notation: n samples, B samples of a batch, S sets of poles in a layer (directions and heads), K poles of a set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from skop._optional import import_optional
from skop._typing import GridShape
from skop.inspection._analysis import noted, read_samples
from skop.inspection._display import Display

__all__ = ["PoleDisplay", "learned_poles"]

ComplexArray = npt.NDArray[np.complex128]

_N_BINS = 20


def learned_poles(estimator: Any, X: Any) -> list[ComplexArray]:
    """Return the poles that every layer of a network chooses for given samples.

    Parameters
    ----------
    estimator : OperatorRegressor
        Fitted `skop.AMORegressor`, or another estimator whose mixers state poles; it is not modified.
    X : as in `fit` of the estimator
        Samples.

    Returns
    -------
    list of ndarray of shape (n, S, K), complex
        Poles of each mixer, in the order in which they run: for each sample K poles in each of S sets, one set for
        each direction and head. Layers may differ in S and K.

    Raises
    ------
    FieldDataError
        If X is not of the form that the estimator was fitted on, or finer than the training grid so that several
        predictions are joined.
    ValueError
        If the estimator is of another class or not fitted, its mixers have no poles, or they state poles of another
        shape.

    See Also
    --------
    PoleDisplay : Plot of the poles in the unit disk.
    skop.modules.note_features : What mixers with poles have to call.

    Notes
    -----
    The network itself is evaluated, without averaging over symmetries. Where tokens are values on the circle, as by
    default, a pole near the circle with angle w gives a function that is concentrated on the tokens around w. Where
    they are filtered along their sequence (``transform="filter"``), the response to a pole a decays as abs(a)^m over
    m tokens, and a pole near the circle with angle w passes the frequencies around w with little damping.

    References
    ----------
    Z. Song and Z. Jiang, "Adaptive Mamba Neural Operators", 2025, Fig. 5 and 6.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import AMORegressor
    >>> from skop.parts import TakenakaMalmquist
    >>> from skop.inspection import learned_poles
    >>> X = np.random.default_rng(0).random((8, 6, 6, 1))
    >>> model = AMORegressor(width=8, depth=2, mixer=TakenakaMalmquist(n_poles=4), max_iter=1).fit(X, 2 * X)
    >>> poles = learned_poles(model, X)
    >>> [layer.shape for layer in poles], all((np.abs(layer) < 1).all() for layer in poles)
    ([(8, 2, 4), (8, 2, 4)], True)
    """
    inputs = read_samples(estimator, X)
    estimator.surrogate_.refine.require_grid(inputs)

    def poles(_: str, values: torch.Tensor, grid: GridShape | None, n_samples: int) -> ComplexArray:
        if values.ndim != 4 or len(values) != n_samples or values.shape[-1] != 2:
            raise ValueError(
                f"a layer noted poles of shape {tuple(values.shape)} for {n_samples} samples, expected "
                f"({n_samples}, sets, poles, 2), with the real and imaginary parts on the last axis."
            )
        real, imaginary = values.cpu().double().unbind(-1)
        return real.numpy() + 1j * imaginary.numpy()

    missing = (
        "the mixers of the {} have no poles; fit an AMORegressor, or call "
        'skop.modules.note_features("poles", ...) in a mixer of your own.'
    )
    parts = noted(estimator, inputs, ("poles",), poles, missing)
    return [np.concatenate(layer) for layer in zip(*parts, strict=True)]


class PoleDisplay(Display):
    """Plot of learned poles by layer: in the unit disk, or as a histogram of their distance from its centre.

    Parameters
    ----------
    poles : sequence of ndarray of shape (n, S, K), complex
        Result of `learned_poles`.
    name : str or None, default=None
        Name of the model, for the title of the figure.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of matplotlib Axes
        One panel for each layer.
    artists_ : list
        Contents of the panels: a collection of points, or the bars of a histogram.

    References
    ----------
    Z. Song and Z. Jiang, "Adaptive Mamba Neural Operators", 2025, Fig. 5 and 6.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.inspection import PoleDisplay
    >>> poles = 0.9 * np.exp(2j * np.pi * np.arange(8) / 8).reshape(1, 1, 8)
    >>> display = PoleDisplay([poles, 0.5 * poles]).plot()
    >>> [panel.get_title() for panel in display.axes_]
    ['layer 1', 'layer 2']
    """

    _kinds = ("disk", "radius")

    def __init__(self, poles: Sequence[ComplexArray], *, name: str | None = None) -> None:
        self.poles = poles
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        kind: str = "disk",
        name: str | None = None,
        ax: Any = None,
        cmap: str = "viridis",
    ) -> Self:
        """Compute and draw the poles of a fitted estimator.

        Parameters
        ----------
        estimator, X : as in `learned_poles`
            Estimator and samples.
        kind : as in `plot`
            Contents of the panels.
        name : str or None, default=None
            Name of the model, for the title of the figure.
        ax, cmap : as in `plot`
            Axes and colour map.

        Returns
        -------
        PoleDisplay
            The display, with the figure in `figure_`.

        Raises
        ------
        FieldDataError, ValueError, OptionalDependencyError
            Same errors as `learned_poles` and `plot`.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import AMORegressor
        >>> from skop.parts import TakenakaMalmquist
        >>> from skop.inspection import PoleDisplay
        >>> X = np.random.default_rng(0).random((8, 6, 6, 1))
        >>> model = AMORegressor(width=8, depth=2, mixer=TakenakaMalmquist(n_poles=4), max_iter=1).fit(X, 2 * X)
        >>> len(PoleDisplay.from_estimator(model, X, kind="radius").axes_)
        2
        """
        cls._check_kind(kind)
        return cls(learned_poles(estimator, X), name=name).plot(kind=kind, ax=ax, cmap=cmap)

    def plot(self, *, kind: str = "disk", ax: Any = None, cmap: str = "viridis") -> Self:
        """Draw the panels.

        Parameters
        ----------
        kind : {"disk", "radius"}, default="disk"
            Contents of the panels: the poles of all samples as points of the complex plane, with the unit circle; or
            the histogram of their absolute values.
        ax : matplotlib Axes, sequence of them, or None, default=None
            Axes of the panels, one for each layer; None opens a new figure.
        cmap : str, default="viridis"
            Colour map for the number of a pole in its set.

        Returns
        -------
        PoleDisplay
            The display itself.

        Raises
        ------
        ValueError
            If there is no such kind, `poles` are not those of layers, or `ax` has another number of axes than there are
            layers.
        OptionalDependencyError
            If matplotlib is not installed.
        """
        self._check_kind(kind)
        shapes = [np.shape(own) for own in self.poles]
        # An array of one layer would pass as a sequence of layers, one for each sample.
        if not shapes or any(len(shape) != 3 for shape in shapes):
            raise ValueError(
                f"poles has elements of the shapes {shapes[:3]}, expected a sequence with an array (samples, sets, "
                "poles) for each layer, as learned_poles returns; put a single array into a list."
            )
        self.axes_ = self._layer_panels(ax, len(shapes), self.name)
        draw = self._draw_disk if kind == "disk" else self._draw_radius
        self.artists_ = [draw(panel, np.asarray(own), cmap) for panel, own in zip(self.axes_, self.poles, strict=True)]
        return self

    def _draw_disk(self, panel: Any, poles: ComplexArray, cmap: str) -> Any:
        """Draw poles as points, coloured by their number in the set."""
        patches = import_optional("matplotlib.patches", purpose="draw figures")
        panel.add_patch(patches.Circle((0.0, 0.0), 1.0, fill=False, color="0.3", linewidth=0.8))
        for line in (panel.axhline, panel.axvline):
            line(0.0, color="0.85", linewidth=0.6, zorder=0)
        numbers = np.broadcast_to(np.arange(poles.shape[-1]), poles.shape).ravel()
        # Many poles on top of each other are told apart by how dark a spot is.
        alpha = float(np.clip(300 / max(poles.size, 1), 0.15, 1.0))
        drawn = panel.scatter(
            poles.real.ravel(), poles.imag.ravel(), c=numbers, cmap=cmap, s=10, alpha=alpha, lw=0, rasterized=True
        )
        largest = 1.08 * max(1.0, float(np.abs(poles).max(initial=0.0)))
        panel.set(xlim=(-largest, largest), ylim=(-largest, largest), xlabel="Re a", aspect="equal")
        if panel is self.axes_[0]:
            panel.set_ylabel("Im a")
        return drawn

    def _draw_radius(self, panel: Any, poles: ComplexArray, cmap: str) -> Any:
        """Draw the histogram of absolute values, as fractions of all poles."""
        radii = np.abs(poles).ravel()
        largest = max(1.0, float(radii.max(initial=0.0)))
        weights = np.full(len(radii), 1 / max(len(radii), 1))
        _, _, drawn = panel.hist(radii, np.linspace(0.0, largest, _N_BINS + 1), weights=weights)
        panel.set(xlim=(0.0, largest), xlabel="|a|")
        if panel is self.axes_[0]:
            panel.set_ylabel("fraction of poles")
        return drawn
