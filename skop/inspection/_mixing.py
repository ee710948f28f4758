"""How much the tokens of a network take up of each other, and how alike they become.

Notation: n samples, L layers, T tokens that take up, S tokens that are taken up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from skop._typing import FloatArray, GridShape
from skop.exceptions import FieldDataError
from skop.inspection._analysis import noted, read_samples
from skop.inspection._display import Display

__all__ = ["MixingDisplay", "mixing_matrices", "token_similarity"]


def mixing_matrices(estimator: Any, X: Any) -> list[FloatArray]:
    """Return how much each token takes up of each other one, in every layer of a network.

    A mixer chooses its maps from the tokens: a selective scan its steps, input and output maps, attention its queries
    and keys. For these maps, what a token takes up is linear in the values of all tokens, so that a scan has a matrix
    as attention has: its hidden attention. LaMO's paper compares those of LaMO and Transolver.

    Parameters
    ----------
    estimator : OperatorRegressor
        Fitted estimator with a token mixer, such as `skop.LaMORegressor` or `skop.TransolverRegressor`; it is not
        modified.
    X : as in `fit` of the estimator
        Samples to average over, of as many tokens each; a dozen are enough.

    Returns
    -------
    list of ndarray of shape (T, S)
        Mean absolute weight with which token t takes up the value of token s, over channels, heads, directions and
        samples, for each mixer in the order in which they run, and each stream of tokens that it reads. T and S differ
        where these are not its own. Rows of softmax attention add up to 1, others need not.

    Raises
    ------
    FieldDataError
        If X is not of the form that the estimator was fitted on, or finer than the training grid so that several
        predictions are joined, or its samples have different numbers of tokens.
    ValueError
        If the estimator is of another class or not fitted, or its layers have no such matrices.

    See Also
    --------
    MixingDisplay : Plot of the matrices, and of the similarity of tokens.
    token_similarity : Mean cosine between the tokens of a layer.
    skop.modules.note_mixing : What a mixer of your own has to call.

    Notes
    -----
    The network itself is evaluated, without averaging over symmetries. Convolutions before the mixing, and gates and
    layers after it, are not part of a matrix; skips within it are. Where a mixing leads from channels to other ones, as
    in `skop.parts.TakenakaMalmquist` with `d_state`, the weight of a channel is the sum over the channels that it takes
    up. Each layer is evaluated once for each token, which takes long, and much memory, for thousands of tokens.

    References
    ----------
    Tiwari et al., "Latent Mamba Operator for Partial Differential Equations", ICML 2025, Fig. 9 and 10.

    A. Ali, I. Zimerman and L. Wolf, "The Hidden Attention of Mamba Models", 2024, arXiv:2403.01590.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import LaMORegressor
    >>> from skop.inspection import mixing_matrices
    >>> from skop.parts import Patches
    >>> X = np.random.default_rng(0).random((8, 6, 6, 1))
    >>> model = LaMORegressor(width=8, depth=2, patches=Patches(size=2), max_iter=1, random_state=0).fit(X, 2 * X)
    >>> [matrix.shape for matrix in mixing_matrices(model, X)]
    [(9, 9), (9, 9)]
    """
    missing = (
        "the layers of the {} have no matrices of tokens; use an operator with a token mixer, or call "
        "skop.modules.note_mixing in a mixer of your own."
    )
    return [np.asarray(mean) for mean in _means(estimator, X, "matrix", _sums, missing, matrices=True)]


def token_similarity(estimator: Any, X: Any) -> FloatArray:
    """Return how alike the tokens of a sample are after each mixer of a network: the mean cosine between two of them.

    Where it nears 1, tokens have become one and the same (over-smoothing). LaMO's paper finds less of it in LaMO than
    in Transolver.

    Parameters
    ----------
    estimator : OperatorRegressor
        Fitted estimator with a token mixer; it is not modified.
    X : as in `fit` of the estimator
        Samples to average over; a dozen are enough.

    Returns
    -------
    ndarray of shape (L,)
        Mean cosine, in [-1, 1], between what a mixer returns for two different tokens of a sample, for each mixer in
        the order in which they run.

    Raises
    ------
    FieldDataError
        If X is not of the form that the estimator was fitted on, or finer than the training grid so that several
        predictions are joined, or a sample has a single token.
    ValueError
        If the estimator is of another class or not fitted, or has no token mixers.

    See Also
    --------
    MixingDisplay : Plot of the similarity by layer, and of the matrices of the mixers.

    References
    ----------
    Tiwari et al., "Latent Mamba Operator for Partial Differential Equations", ICML 2025, Fig. 11.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import LaMORegressor
    >>> from skop.inspection import token_similarity
    >>> X = np.random.default_rng(0).random((8, 6, 6, 1))
    >>> model = LaMORegressor(width=8, depth=2, max_iter=1, random_state=0).fit(X, 2 * X)
    >>> token_similarity(model, X).shape
    (2,)
    """
    missing = (
        "the {} has no token mixers; use an operator that has, or make your own mixer a subclass of "
        "skop.modules.TokenMixer."
    )
    return np.array([float(mean) for mean in _means(estimator, X, "mixed", _cosines, missing)])


def _means(estimator: Any, X: Any, kind: str, measure: Any, missing: str, *, matrices: bool = False) -> list[Any]:
    """Mean over samples of what a function gives for what each layer notes of a kind."""
    inputs = read_samples(estimator, X)
    estimator.surrogate_.refine.require_grid(inputs)
    parts = noted(
        estimator,
        inputs,
        (kind,),
        lambda _, values, grid, n_samples: measure(values, grid, n_samples),
        missing,
        matrices=matrices,
    )
    shapes = {tuple(np.shape(found) for found in part) for part in parts}
    if len(shapes) > 1:
        raise FieldDataError(
            "the samples of X have different numbers of tokens, whose matrices have no mean; pass one of them, such as "
            "X[:1]."
        )
    return [sum(layer) / len(inputs) for layer in zip(*parts, strict=True)]


def _sums(values: torch.Tensor, grid: GridShape | None, n_samples: int) -> FloatArray:
    """Sum of the matrices (B, T, S) over samples."""
    found: FloatArray = values.double().sum(dim=0).cpu().numpy()
    return found


def _cosines(values: torch.Tensor, grid: GridShape | None, n_samples: int) -> float:
    """Sum over samples of the mean cosine between two different tokens of (B, T, E)."""
    count = values.shape[1]
    if count < 2:
        raise FieldDataError(
            "a sample of X is a single token, which is like no other; use smaller patches, or more latent tokens."
        )
    # The square of the sum of unit vectors has the cosine of each pair twice, and that of each token with itself.
    squares = nn.functional.normalize(values.double(), dim=-1).sum(dim=1).square().sum(dim=-1)
    return float(((squares - count) / (count * (count - 1))).sum())


class MixingDisplay(Display):
    """Plot of how much tokens take up of each other by layer, or of how alike they become.

    Parameters
    ----------
    matrices : sequence of ndarray of shape (T, S), or None, default=None
        Result of `mixing_matrices`; None if it is not drawn.
    similarity : ndarray of shape (L,), or None, default=None
        Result of `token_similarity`; None if it is not drawn.
    name : str or None, default=None
        Name of the model, for the title of the figure or the legend.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of matplotlib Axes
        One panel for each layer, or a single one for the similarity.
    artists_ : list
        Contents of the panels: images, or a line.

    References
    ----------
    Tiwari et al., "Latent Mamba Operator for Partial Differential Equations", ICML 2025, Fig. 9 to 11.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.inspection import MixingDisplay
    >>> display = MixingDisplay([np.eye(4), np.full((4, 4), 0.25)]).plot()
    >>> [panel.get_title() for panel in display.axes_]
    ['layer 1', 'layer 2']
    """

    _kinds = ("matrices", "similarity")

    def __init__(
        self,
        matrices: Sequence[FloatArray] | None = None,
        similarity: FloatArray | None = None,
        *,
        name: str | None = None,
    ) -> None:
        self.matrices = matrices
        self.similarity = similarity
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        kind: str = "matrices",
        name: str | None = None,
        ax: Any = None,
        cmap: str = "viridis",
    ) -> Self:
        """Compute and draw the matrices of a fitted estimator, or the similarity of its tokens.

        Parameters
        ----------
        estimator, X : as in `mixing_matrices`
            Estimator and samples.
        kind : as in `plot`
            Contents of the panels.
        name : str or None, default=None
            Name of the model, for the title of the figure or the legend.
        ax, cmap : as in `plot`
            Axes and colour map.

        Returns
        -------
        MixingDisplay
            The display, with the figure in `figure_`.

        Raises
        ------
        FieldDataError, ValueError, OptionalDependencyError
            Same errors as `mixing_matrices`, `token_similarity` and `plot`.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import LaMORegressor
        >>> from skop.inspection import MixingDisplay
        >>> from skop.parts import Patches
        >>> X = np.random.default_rng(0).random((8, 6, 6, 1))
        >>> model = LaMORegressor(width=8, depth=2, patches=Patches(size=2), max_iter=1).fit(X, 2 * X)
        >>> len(MixingDisplay.from_estimator(model, X).axes_)
        2
        """
        cls._check_kind(kind)
        display = cls(name=name)
        if kind == "matrices":
            display.matrices = mixing_matrices(estimator, X)
        else:
            display.similarity = token_similarity(estimator, X)
        return display.plot(kind=kind, ax=ax, cmap=cmap)

    def plot(self, *, kind: str = "matrices", ax: Any = None, cmap: str = "viridis") -> Self:
        """Draw the panels.

        Parameters
        ----------
        kind : {"matrices", "similarity"}, default="matrices"
            A picture of the matrix of each layer, with the tokens that take up from top to bottom, in colours up to the
            largest weight of another token (that of its own value, which skips pass on, is often far larger); or the
            mean cosine between tokens by layer, as a line. Lines of several models can share `ax`.
        ax : matplotlib Axes, sequence of them, or None, default=None
            Axes of the panels, one for each layer, or a single one for the similarity; None opens a new figure.
        cmap : str, default="viridis"
            Colour map of the matrices.

        Returns
        -------
        MixingDisplay
            The display itself.

        Raises
        ------
        ValueError
            If there is no such kind, `matrices` or `similarity` are not those of layers, or `ax` has another number of
            axes.
        OptionalDependencyError
            If matplotlib is not installed.
        """
        self._check_kind(kind)
        if kind == "similarity":
            return self._plot_similarity(ax, np.asarray(self.similarity, dtype=float))
        matrices = [np.asarray(own) for own in (() if self.matrices is None else self.matrices)]
        shapes = [own.shape for own in matrices]
        if not shapes or any(len(shape) != 2 for shape in shapes):
            raise ValueError(
                f"matrices has elements of the shapes {shapes[:3]}, expected a sequence with an array (tokens, tokens) "
                "for each layer, as mixing_matrices returns; put a single array into a list."
            )
        self.axes_ = self._layer_panels(ax, len(shapes), self.name)
        self.artists_ = [
            panel.imshow(own, cmap=cmap, vmin=0.0, vmax=_largest_of_others(own), interpolation="nearest")
            for panel, own in zip(self.axes_, matrices, strict=True)
        ]
        for panel in self.axes_:
            panel.set(xlabel="token that is read")
            panel.locator_params(integer=True)
        self.axes_[0].set_ylabel("token that reads")
        return self

    def _plot_similarity(self, ax: Any, similarity: FloatArray) -> Self:
        """Draw the mean cosine between tokens by layer."""
        if similarity.ndim != 1:
            raise ValueError(
                f"similarity has the shape {similarity.shape}, expected a number for each layer, as token_similarity "
                "returns."
            )
        self.axes_ = self._panels(ax, size=(4.2, 3.0))
        panel, layers = self.axes_[0], np.arange(1, len(similarity) + 1)
        (line,) = panel.plot(layers, similarity, marker="o", label=self.name)
        panel.set(xlabel="layer", ylabel="mean cosine between tokens", xticks=layers, ylim=(None, 1.05))
        if self.name is not None:
            panel.legend()
        self.artists_ = [line]
        return self


def _largest_of_others(matrix: FloatArray) -> float | None:
    """Largest weight of another token than its own; None, for the largest of all, where there is none."""
    others = np.asarray(matrix)
    if others.shape[0] == others.shape[1]:
        others = others[~np.eye(len(others), dtype=bool)]
    return float(others.max(initial=0.0)) or None
