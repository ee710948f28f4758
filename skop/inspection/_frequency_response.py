"""Frequency response of feature maps: their Fourier transforms by depth, as numbers and as a plot.

Notation: B samples of a batch, L layers, F frequencies, d axes of a grid, E channels.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from skop._optional import import_optional
from skop._typing import FloatArray, GridShape
from skop.exceptions import FieldDataError
from skop.inspection._analysis import noted, read_samples
from skop.inspection._display import Display

__all__ = ["FrequencyResponse", "FrequencyResponseDisplay", "frequency_response"]

#: Added to amplitudes before their logarithm (public code of Park and Kim).
_EPSILON = 1e-6
#: Kinds of feature maps that are analysed; blocks may note others, such as poles or latent tokens.
_LAYERS = ("input", "mixer", "mlp")


class FrequencyResponse(NamedTuple):
    """Result of `frequency_response`."""

    depth: FloatArray
    layers: tuple[str, ...]
    frequencies: FloatArray
    log_amplitudes: FloatArray


def frequency_response(estimator: Any, X: Any) -> FrequencyResponse:
    """Return the log amplitudes of the Fourier transformed feature maps after every layer of a network.

    The feature maps are the tokens on their grid after each residual branch of each block: after the addition of what
    the mixer gives, and after that of the feed-forward part. Tokens of patches form a coarser grid than the points.
    Their logarithm is taken first, then the mean over samples and channels (Park and Kim, 2022). A layer that lowers
    the values at high frequencies smooths.

    Parameters
    ----------
    estimator : OperatorRegressor
        Fitted `skop.LaMORegressor`, `skop.GeoMaNORegressor`, `skop.AMORegressor`, `skop.MNORegressor`,
        `skop.TransolverRegressor` or another operator whose network notes its feature maps, and whose tokens, or
        points, form a grid; it is not modified.
    X : as in `fit` of the estimator
        Samples to average over; a few dozen are enough.

    Returns
    -------
    FrequencyResponse
        Named tuple of

        - ``depth``, ndarray of shape (L,): Depth of each layer, from 0 to 1 in equal steps.
        - ``layers``, tuple of str: Kind of each layer: ``"input"`` for the features that enter the first block, then
          ``"mixer"`` and ``"mlp"``.
        - ``frequencies``, ndarray of shape (F,): Frequencies along the half diagonal, from 0 to 1: fractions of the
          highest one that the token grid holds along each axis, which is pi per token for an even number of tokens and
          ``pi (1 - 1 / n)`` for an odd number n.
        - ``log_amplitudes``, ndarray of shape (L, F): Mean log amplitude of the feature maps after each layer, minus
          that at frequency 0.

    Raises
    ------
    FieldDataError
        If the points or tokens form no grid with more than one token, or X is finer than the training grid so that
        several predictions are joined.
    ValueError
        If the estimator is of another class or not fitted, or its network does not call `skop.modules.note_features`.

    See Also
    --------
    FrequencyResponseDisplay : Plot over the frequency or over the depth.
    skop.modules.note_features : What blocks of other networks have to call.

    Notes
    -----
    The half diagonal runs from the centre of the transform to its corner: the fraction f stands for the bin nearest to
    ``f * floor(n / 2)`` along every axis of n tokens. There are as many fractions as bins along the shortest axis with
    more than one token.

    Logarithms are natural, of the amplitude plus 1e-6, all in double precision. A constant map thus has about
    ``log(1e-6 / amplitude)`` everywhere but at the centre. White noise is flat up to ``log(2) / 2 = 0.35``: at
    frequency 0, and at 1 with even numbers of tokens, coefficients are real, and the mean logarithm of their amplitude
    is smaller by this.

    The public code of Park and Kim ends at the last bin before pi for even numbers of tokens, and labels it 1.0 pi;
    here pi is included. Feature maps are not periodic, so that jumps between opposite edges add to high frequencies.

    The network itself is evaluated, without averaging over symmetries. MNO's GNOT has two mixers and two feed-forward
    parts in a block; its OFormer ends with the layer in which the query points, here the points of the input, read
    the encoded points, and which starts from features of the coordinates.

    References
    ----------
    N. Park and S. Kim, "How Do Vision Transformers Work?", ICLR 2022, Fig. 2 and 8.

    C.-W. Cheng et al., "Mamba Neural Operator: Who Wins? Transformers vs. State-Space Models for PDEs", 2024,
    Fig. 6 and 7.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import MNORegressor
    >>> from skop.inspection import frequency_response
    >>> X = np.random.default_rng(0).random((8, 6, 6, 1))
    >>> model = MNORegressor(width=8, depth=2, max_iter=1, random_state=0).fit(X, 2 * X)
    >>> response = frequency_response(model, X)
    >>> response.layers
    ('input', 'mixer', 'mlp', 'mixer', 'mlp')
    >>> response.depth.tolist(), response.log_amplitudes.shape
    ([0.0, 0.25, 0.5, 0.75, 1.0], (5, 4))
    """
    inputs = read_samples(estimator, X, on_grid_for="frequency response")
    shape = inputs.grid_shape or ()

    def sums(kind: str, tokens: torch.Tensor, grid: GridShape | None, _: int) -> tuple[str, FloatArray]:
        return kind, _log_amplitudes(tokens, grid or shape).sum(axis=0)

    missing = (
        "the blocks of {} do not state their feature maps; call skop.modules.note_features after every residual branch."
    )
    parts = noted(estimator, inputs, _LAYERS, sums, missing)
    layers = tuple(kind for kind, _ in parts[0])
    means = np.sum([[values for _, values in part] for part in parts], axis=0) / len(inputs)
    steps, frequencies = (np.linspace(0.0, 1.0, count) for count in means.shape)
    return FrequencyResponse(steps, layers, frequencies, means - means[:, :1])


def _log_amplitudes(tokens: torch.Tensor, grid: GridShape) -> FloatArray:
    """Log amplitudes (B, F) of tokens (B, L, E) along the half diagonal, averaged over the channels."""
    if tokens.ndim != 3 or tokens.shape[1] != prod(grid):
        raise ValueError(
            f"a layer noted tokens of shape {tuple(tokens.shape)}, which form no grid {grid}; pass their grid to "
            "skop.modules.note_features."
        )
    halves = [size // 2 for size in grid]
    count = min((half for half in halves if half), default=0)
    if not count:
        raise FieldDataError(
            f"the tokens form the grid {grid}: a single token, such as that of a table of features, has no frequency "
            "but 0; pass fields on a finer grid."
        )
    steps = np.arange(count + 1)
    # The nearest integers to steps / count * half; halves are rounded up.
    bins = tuple(torch.as_tensor((2 * steps * half + count) // (2 * count)) for half in halves)
    maps = tokens.cpu().double().movedim(1, -1).unflatten(-1, grid)
    spectrum = torch.fft.rfftn(maps, dim=tuple(range(-len(grid), 0)))
    values = (spectrum[(..., *bins)].abs() + _EPSILON).log().mean(dim=1)
    return values.numpy()


class FrequencyResponseDisplay(Display):
    """Plot of the frequency response of feature maps, over the frequency or over the depth.

    Parameters
    ----------
    response : named tuple
        Result of `frequency_response`.
    name : str or None, default=None
        Name of the model, for the title or the legend.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes.
    lines_ : list of matplotlib Line2D
        A curve for each layer, or the curve over the depth.
    bands_ : list of matplotlib artists
        Grey bands behind the mixers; empty over the frequency.

    References
    ----------
    N. Park and S. Kim, "How Do Vision Transformers Work?", ICLR 2022, Fig. 2 and 8.

    C.-W. Cheng et al., "Mamba Neural Operator: Who Wins? Transformers vs. State-Space Models for PDEs", 2024,
    Fig. 6 and 7.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import MNORegressor
    >>> from skop.inspection import FrequencyResponseDisplay, frequency_response
    >>> X = np.random.default_rng(0).random((8, 6, 6, 1))
    >>> model = MNORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, 2 * X)
    >>> display = FrequencyResponseDisplay(frequency_response(model, X))
    >>> len(display.plot().lines_), len(display.plot(kind="depth").bands_)
    (3, 1)
    """

    _kinds = ("frequency", "depth")

    def __init__(self, response: FrequencyResponse, *, name: str | None = None) -> None:
        self.response = response
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        kind: str = "frequency",
        name: str | None = None,
        ax: Any = None,
        cmap: str = "plasma",
    ) -> Self:
        """Compute and draw the frequency response of a fitted estimator.

        Parameters
        ----------
        estimator, X : as in `frequency_response`
            Estimator and samples.
        kind : as in `plot`
            Horizontal axis.
        name : str or None, default=None
            Name of the model, for the title or the legend.
        ax, cmap : as in `plot`
            Axes and colour map.

        Returns
        -------
        FrequencyResponseDisplay
            The display, with the figure in `figure_`.

        Raises
        ------
        FieldDataError, ValueError, OptionalDependencyError
            Same errors as `frequency_response` and `plot`.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import LaMORegressor
        >>> from skop.inspection import FrequencyResponseDisplay
        >>> X = np.random.default_rng(0).random((8, 6, 6, 1))
        >>> model = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, 2 * X)
        >>> display = FrequencyResponseDisplay.from_estimator(model, X, kind="depth")
        >>> display.response.layers
        ('input', 'mixer', 'mlp')
        """
        cls._check_kind(kind)
        return cls(frequency_response(estimator, X), name=name).plot(kind=kind, ax=ax, cmap=cmap)

    def plot(self, *, kind: str = "frequency", ax: Any = None, cmap: str = "plasma") -> Self:
        """Draw the curves.

        Parameters
        ----------
        kind : {"frequency", "depth"}, default="frequency"
            Horizontal axis: the frequency, with a curve for each layer; or the depth, with the log amplitude at the
            highest frequency, relative to that at 0, and grey bands behind the mixers. Several models with the same
            layers can be drawn on the same axes over the depth.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None opens a new figure.
        cmap : str, default="plasma"
            Colour map for the depth of the curves over the frequency.

        Returns
        -------
        FrequencyResponseDisplay
            The display itself.

        Raises
        ------
        ValueError
            If there is no such kind.
        OptionalDependencyError
            If matplotlib is not installed.
        """
        self._check_kind(kind)
        (self.ax_,) = self._panels(ax, size=(4.8, 3.6))
        if kind == "frequency":
            self._draw_over_frequency(cmap)
        else:
            self._draw_over_depth()
        self.ax_.set(xlim=(0.0, 1.0), ylabel="Δ log amplitude")
        return self

    def _draw_over_frequency(self, cmap: str) -> None:
        """Draw a curve for each layer, coloured by its depth."""
        ax, response = self.ax_, self.response
        cm = import_optional("matplotlib.cm", purpose="draw figures")
        colors = cm.ScalarMappable(cmap=cmap)
        self.bands_: list[Any] = []
        self.lines_ = [
            ax.plot(response.frequencies, values, color=colors.cmap(depth), label=f"{depth:.2f}, {layer}")[0]
            for depth, layer, values in zip(response.depth, response.layers, response.log_amplitudes, strict=True)
        ]
        self.figure_.colorbar(colors, ax=ax, label="normalised depth")
        ax.xaxis.set_major_formatter("{x:.1f}π")
        ax.set(xlabel="frequency", title=self.name or "")

    def _draw_over_depth(self) -> None:
        """Draw the values at the highest frequency over the depth."""
        ax, response = self.ax_, self.response
        # Opaque, so that bands of several models on the same axes do not add up.
        self.bands_ = [
            ax.axvspan(response.depth[number - 1], response.depth[number], color="0.9", linewidth=0, zorder=0)
            for number, layer in enumerate(response.layers)
            if layer == "mixer" and number > 0
        ]
        self.lines_ = ax.plot(response.depth, response.log_amplitudes[:, -1], "o-", clip_on=False, label=self.name)
        ax.set_xlabel("normalised depth")
        if self.name is not None:
            ax.legend(frameon=False)
