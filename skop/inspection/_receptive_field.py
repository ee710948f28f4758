"""Effective receptive field: mean absolute gradients of one output point by every input point, and their plot.

Notation: B samples of a batch, P points, d space dimensions, u units (channels or features).
"""

from __future__ import annotations

from itertools import combinations
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch

from skop._optional import import_optional
from skop._typing import FloatArray, GridShape, IntArray
from skop.data import FieldSet
from skop.exceptions import FieldDataError
from skop.inspection._analysis import each_batch, network_name, on_shared_points, read_samples
from skop.inspection._display import Display, draw_map, set_aspect

__all__ = ["ReceptiveFieldDisplay", "receptive_field"]

#: Tolerance for coordinates outside the grid, as a fraction of its extent.
_SLACK = 1e-6
#: Lower end of the logarithmic scale, as a fraction of the largest value.
_FLOOR = 1e-4


def receptive_field(estimator: Any, X: Any, *, point: Any = None, layer: int | None = None) -> FloatArray:
    """Return the effective receptive field of one point of the output.

    It is the mean of ``abs(d output(point) / d input(p))`` over samples, output channels and input channels, for every
    point p of the grid. Inputs and outputs are scaled, so that channels are comparable.

    Parameters
    ----------
    estimator : OperatorRegressor
        Operator, such as `skop.LaMORegressor`, that was fitted on fields on a grid; it is not modified.
    X : as in `fit` of the estimator
        Samples to average over, on one grid with the spacing of the training grid; a few dozen are enough.
    point : int, sequence of int, sequence of float, or None, default=None
        Output point. Integers are its indices along the axes of the grid; negative ones count from the end. Floats are
        coordinates, for which the nearest point is used. None is the middle of the grid.
    layer : int or None, default=None
        Index of a block, where -1 is the last. The features of the token of the point's patch after this block are
        differentiated instead of the output. This needs a network on patches, and one gradient for each feature.

    Returns
    -------
    ndarray of shape grid_shape
        Mean absolute gradient with respect to the input at each point of the grid.

    Raises
    ------
    FieldDataError
        If X has no fields, samples do not share a grid, the estimator predicts only scalars and `layer` is None, X is
        finer than the training grid so that several predictions are averaged, or the point does not exist.
    ValueError
        If the estimator is of another class or not fitted, or the layer does not exist.

    See Also
    --------
    ReceptiveFieldDisplay : Plot of a receptive field, with the share on the row and the column of the point.

    Notes
    -----
    The network itself is differentiated, without averaging over symmetries. Over a ``base`` it is the whole network,
    whatever its share of the prediction is, and the predictions of the base, which it may read, are constants.

    References
    ----------
    W. Luo, Y. Li, R. Urtasun and R. Zemel, "Understanding the effective receptive field in deep convolutional
    neural networks", NeurIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import GeoMaNORegressor
    >>> from skop.inspection import receptive_field
    >>> X = np.random.default_rng(0).random((8, 6, 4, 1))
    >>> model = GeoMaNORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, 2 * X)
    >>> receptive_field(model, X, point=(0, 3)).shape
    (6, 4)
    """
    return _measured(estimator, X, point, layer)[0]


def _measured(estimator: Any, X: Any, point: Any, layer: int | None) -> tuple[FloatArray, tuple[int, ...], FloatArray]:
    """Receptive field, the place of the point on the grid, and the coordinates (P, d) of the grid."""
    inputs = _read_grid(estimator, X, layer)
    coords, shape = _shared_points(inputs), inputs.grid_shape or ()
    index = _find_point(point, coords, shape)
    return _mean_gradient(estimator, inputs, index, shape, layer), index, coords


def _read_grid(estimator: Any, X: Any, layer: int | None) -> FieldSet:
    """Read samples for a receptive field."""
    inputs = read_samples(estimator, X, resample=False, on_grid_for="receptive field")
    if inputs.n_channels == 0:
        raise FieldDataError("X has no input fields, so there is nothing to differentiate by; pass X with fields.")
    if layer is None and not estimator.spec_.n_outputs:
        raise FieldDataError(
            f"the estimator predicts {estimator.spec_.n_scalars} scalars of a sample, which belong to no point; pass "
            "layer=-1 for the features of the point's token after the last block."
        )
    return inputs


def _shared_points(inputs: FieldSet) -> FloatArray:
    """Return the points (P, d) of the grid that all samples share."""
    if not on_shared_points(inputs):
        raise FieldDataError(
            "the samples of X have different grids, over which a receptive field cannot be averaged; pass samples of "
            "one grid, such as X[[0]]."
        )
    return inputs.coords if inputs.shared_coords else inputs.coords[0]


def _find_point(point: Any, coords: FloatArray, shape: GridShape) -> tuple[int, ...]:
    """Return the indices of a point along the axes of the grid."""
    if point is None:
        return tuple(size // 2 for size in shape)
    place = np.atleast_1d(np.asarray(point))
    if place.shape != (len(shape),) or place.dtype.kind not in "iuf":
        raise FieldDataError(
            f"point is {point!r}, expected {len(shape)} integers (its place on the grid) or coordinates."
        )
    if place.dtype.kind != "f":
        if any(not -size <= number < size for number, size in zip(place, shape, strict=True)):
            raise FieldDataError(f"point {point!r} is not on the grid {shape}; indices run from 0 along each axis.")
        return tuple(int(number) % size for number, size in zip(place, shape, strict=True))
    low, high = coords.min(axis=0), coords.max(axis=0)
    slack = _SLACK * (high - low)
    if not ((low - slack <= place) & (place <= high + slack)).all():
        raise FieldDataError(f"point {point!r} lies outside the grid, which runs from {low} to {high}.")
    nearest = int(((coords - place) ** 2).sum(axis=1).argmin())
    return tuple(int(number) for number in np.unravel_index(nearest, shape))


def _mean_gradient(
    estimator: Any, inputs: FieldSet, index: tuple[int, ...], shape: GridShape, layer: int | None
) -> FloatArray:
    """Mean absolute gradient over samples, units and channels, on the grid."""
    network, row = estimator.module_, int(np.ravel_multi_index(index, shape))
    block = None if layer is None else _check_layer(network, layer)

    def summed(batch: Any, n_samples: int) -> tuple[FloatArray, int]:
        batch.fields = batch.fields.detach().requires_grad_()
        arguments, total = batch.inputs(), np.zeros(shape)
        units = _token_at(network, arguments, index, block) if block else _forward(network, arguments).field[:, row]
        for number in range(units.shape[1]):
            # Samples of a batch are independent, so the gradient of their sum contains the gradient of each.
            kept = number + 1 < units.shape[1]
            (gradient,) = torch.autograd.grad(units[:, number].sum(), batch.fields, retain_graph=kept)
            total += gradient.abs().sum(dim=(0, 2)).cpu().double().numpy().reshape(shape)
        return total, units.shape[1] * n_samples * batch.fields.shape[2]

    sums, counts = zip(*each_batch(estimator, inputs, summed, gradients=True), strict=True)
    return np.sum(sums, axis=0) / sum(counts)


def _check_layer(network: torch.nn.Module, layer: int) -> torch.nn.Module:
    """Return a block of a network on patches."""
    blocks: Any = getattr(network, "blocks", ())
    if not hasattr(network, "patch_shape"):
        raise ValueError(
            f"layer is {layer}, but the {network_name(network)} has no token for each patch; set layer=None, or fit "
            "on a straight grid."
        )
    if not isinstance(layer, Integral) or not -len(blocks) <= layer < len(blocks):
        raise ValueError(f"layer is {layer!r}, but the network has {len(blocks)} blocks, from 0 to {len(blocks) - 1}.")
    return blocks[layer]


def _forward(network: torch.nn.Module, arguments: dict[str, Any]) -> Any:
    """Run the network with constant weights, so that only gradients of the inputs are computed."""
    parameters = {name: held.detach() for name, held in network.named_parameters()}
    return torch.func.functional_call(network, parameters, (), arguments)


def _token_at(
    network: torch.nn.Module, arguments: dict[str, Any], index: tuple[int, ...], block: torch.nn.Module
) -> torch.Tensor:
    """Features (B, u) after a block of the token whose patch contains a point."""
    seen: list[Any] = []
    handle = block.register_forward_hook(lambda _, received, tokens: seen.append((tokens, received[1])))
    try:
        _forward(network, arguments)
    finally:
        handle.remove()
    ((tokens, counts),) = seen
    patch_shape: Any = network.patch_shape
    place = [number // patch for number, patch in zip(index, patch_shape, strict=True)]
    return tokens[:, int(np.ravel_multi_index(place, counts))]


class ReceptiveFieldDisplay(Display):
    """Plot of the effective receptive field of one point.

    It is drawn as a curve in one dimension, as a map in two, and as the planes through the point in three.

    Parameters
    ----------
    field : ndarray of shape grid_shape
        Result of `receptive_field`.
    point : tuple of int
        Output point, as its index along each axis of the grid.
    coords : ndarray of shape (P, d)
        Coordinates of the grid points in C order, d from 1 to 3.
    patch_shape : tuple of int or None, default=None
        Number of points of a patch along each axis, which is the width of rows and columns for the shares. None is one
        point.
    layer : int or None, default=None
        Block whose features were differentiated, for the title; None is the output.

    Attributes
    ----------
    own_share : float
        Fraction of the field on the patch of the point.
    cross_share : float
        Fraction of the field on the rows and columns of patches through the point, including its own patch.
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of matplotlib Axes
        The panels from left to right: three in a box, otherwise one.
    artists_ : list
        Contents of the panels: maps, or a list of lines.

    References
    ----------
    X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for partial
    differential equations", 2025, section E: scans along rows and columns leave a cross in the field.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data import unit_grid
    >>> from skop.inspection import ReceptiveFieldDisplay
    >>> display = ReceptiveFieldDisplay(np.ones((4, 5)), (1, 2), unit_grid((4, 5))).plot(log_scale=False)
    >>> display.own_share, display.cross_share
    (0.05, 0.4)
    """

    def __init__(
        self,
        field: FloatArray,
        point: tuple[int, ...],
        coords: FloatArray,
        *,
        patch_shape: GridShape | None = None,
        layer: int | None = None,
    ) -> None:
        self.field = field
        self.point = point
        self.coords = coords
        self.patch_shape = patch_shape
        self.layer = layer

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        point: Any = None,
        layer: int | None = None,
        ax: Any = None,
        log_scale: bool = True,
        cmap: str = "viridis",
    ) -> Self:
        """Compute and draw the receptive field of a fitted estimator.

        Parameters
        ----------
        estimator, X, point, layer : as in `receptive_field`
            Estimator, samples, output point and layer.
        ax, log_scale, cmap : as in `plot`
            Axes, scale and colour map.

        Returns
        -------
        ReceptiveFieldDisplay
            The display, with the figure in `figure_`.

        Raises
        ------
        FieldDataError, ValueError, OptionalDependencyError
            Same errors as `receptive_field` and `plot`.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import LaMORegressor
        >>> from skop.inspection import ReceptiveFieldDisplay
        >>> X = np.random.default_rng(0).random((8, 6, 6, 1))
        >>> model = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, 2 * X)
        >>> display = ReceptiveFieldDisplay.from_estimator(model, X, point=(0.4, 0.6))
        >>> display.point, display.own_share < display.cross_share <= 1
        ((2, 3), True)
        """
        measured = _measured(estimator, X, point, layer)
        network = estimator.module_
        number = None if layer is None else layer % len(network.blocks)
        display = cls(*measured, patch_shape=getattr(network, "patch_shape", None), layer=number)
        return display.plot(ax=ax, log_scale=log_scale, cmap=cmap)

    @property
    def own_share(self) -> float:
        """Fraction of the field on the patch of the point; NaN if the field is zero."""
        return self._share(0)

    @property
    def cross_share(self) -> float:
        """Fraction of the field on the rows and columns of patches through the point; NaN if the field is zero."""
        return self._share(1)

    def _share(self, n_axes: int) -> float:
        """Fraction of the field on patches that differ from the point's patch along at most `n_axes` axes."""
        sizes, patches = self.field.shape, self.patch_shape or (1,) * self.field.ndim
        apart: IntArray = np.zeros(sizes, dtype=int)
        for axis, (size, patch, place) in enumerate(zip(sizes, patches, self.point, strict=True)):
            beside = np.arange(size) // patch != place // patch
            apart += beside.reshape(-1, *(1,) * (self.field.ndim - 1 - axis))
        total = float(self.field.sum())
        return float(self.field[apart <= n_axes].sum()) / total if total > 0 else float("nan")

    def plot(self, *, ax: Any = None, log_scale: bool = True, cmap: str = "viridis") -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : matplotlib Axes, sequence of them, or None, default=None
            Axes of the panels; None opens a new figure.
        log_scale : bool, default=True
            Whether the colour scale is logarithmic. It ends at 1e-4 of the largest value; smaller values look the same.
        cmap : str, default="viridis"
            Colour map.

        Returns
        -------
        ReceptiveFieldDisplay
            The display itself.

        Raises
        ------
        ValueError
            If `ax` has another number of axes than there are panels.
        OptionalDependencyError
            If matplotlib is not installed.
        """
        # Axes with a single point are not drawn.
        drawn = [axis for axis, size in enumerate(self.field.shape) if size > 1]
        planes = list(combinations(drawn, 2))
        n_panels = max(len(planes), 1)
        # The colour bar takes as much of a figure of any width.
        titles = [self._title()] + [""] * (n_panels - 1)
        self.axes_ = self._panels(ax, titles, size=(3.6 + 0.6 / n_panels, 3.4), what=", one for each panel")
        if planes:
            self._draw_maps(planes, log_scale, cmap)
        else:
            self._draw_line(drawn[0] if drawn else 0, log_scale)
        return self

    def _title(self) -> str:
        """Title: the contents, and the share of the cross."""
        what = "receptive field" if self.layer is None else f"receptive field, block {self.layer}"
        shown = self.field.ndim > 1 and self.field.any()
        return f"{what} ({100 * self.cross_share:.3g} % on the cross)" if shown else what

    def _section(self, *axes: int) -> tuple[list[str], FloatArray, FloatArray]:
        """Names and values of the coordinates, and the field, on a line or plane through the point."""
        picked = tuple(slice(None) if axis in axes else place for axis, place in enumerate(self.point))
        points = self.coords.reshape(*self.field.shape, -1)[picked]
        # Any coordinate may run along any axis of the grid.
        extents = np.ptp(points.reshape(-1, points.shape[-1]), axis=0)
        kept = sorted(np.argsort(-extents, kind="stable")[: len(axes)])
        return ["xyz"[number] for number in kept], points[..., kept], self.field[picked]

    def _draw_line(self, axis: int, log_scale: bool) -> None:
        """Draw the field on a line as a curve."""
        (name,), points, values = self._section(axis)
        panel, largest = self.axes_[0], float(values.max())
        self.artists_ = [panel.plot(points[:, 0], values)]
        panel.axvline(points[self.point[axis], 0], color="0.6", linewidth=0.8, zorder=0)
        panel.set(xlabel=name, ylabel="mean |gradient|")
        if log_scale and largest > 0:
            panel.set(yscale="log", ylim=(_FLOOR * largest, 2 * largest))

    def _draw_maps(self, planes: list[tuple[int, int]], log_scale: bool, cmap: str) -> None:
        """Draw the field on planes as coloured maps with one colour bar."""
        colors = import_optional("matplotlib.colors", purpose="draw figures")
        # A colour scale needs two different ends, also for a field of zeros.
        largest = float(self.field.max()) or 1.0
        norm = colors.LogNorm(_FLOOR * largest, largest, clip=True) if log_scale else colors.Normalize(0.0, largest)
        self.artists_ = []
        for panel, plane in zip(self.axes_, planes, strict=True):
            names, points, values = self._section(*plane)
            self.artists_.append(draw_map(panel, points[..., 0], points[..., 1], values, norm=norm, cmap=cmap))
            place = points[tuple(self.point[axis] for axis in plane)]
            # A black marker with a white edge is visible on every colour.
            panel.plot(*place, "+", color="white", markersize=9, markeredgewidth=2.5)
            panel.plot(*place, "+", color="black", markersize=8, markeredgewidth=1.0)
            panel.set(xlabel=names[0], ylabel=names[1])
            set_aspect(panel, points.reshape(-1, 2))
        self.figure_.colorbar(self.artists_[-1], ax=list(self.axes_), label="mean |gradient|")
