"""Plot of input, truth, prediction and error of one sample.

Notation: n samples, P points of a sample, d space dimensions.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from skop._sklearn_compat import final_regressor
from skop._typing import FloatArray, GridShape, IntArray
from skop.data import FieldSet, Targets, read
from skop.estimators._field import FieldRegressor
from skop.exceptions import FieldDataError
from skop.inspection._analysis import take
from skop.inspection._display import Display, draw_map, set_aspect

__all__ = ["FieldErrorDisplay", "read_fields"]

_RANKS = ("worst", "median", "best")


class FieldErrorDisplay(Display):
    """Plot of input, truth, prediction and error of one sample.

    Fields in two dimensions are drawn as maps. Truth and prediction share one colour scale and one colour bar, and the
    error has a diverging scale centred at 0. For a grid in three dimensions the middle slice of the last axis is drawn.
    Fields in one dimension are drawn as curves, with truth and prediction in the same panel.

    Parameters
    ----------
    coords : ndarray of shape (P, d)
        Coordinates of the points, d from 1 to 3.
    true_values, predicted_values : ndarray of shape (P,)
        One channel of truth and prediction.
    input_values : ndarray of shape (P,) or None, default=None
        One channel of the input; None omits its panel.
    grid_shape : tuple of int or None, default=None
        Number of points along each axis if the points form a grid in C order; needed in three dimensions.
    sample : int or None, default=None
        Index of the sample, for the title.
    name : str or None, default=None
        Name of the channel, for the labels.

    Attributes
    ----------
    relative_error : float
        Relative L2 error of the prediction of this channel.
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of matplotlib Axes
        The panels from left to right.
    artists_ : list
        Contents of the panels: maps, or lists of lines.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data import unit_grid
    >>> from skop.inspection import FieldErrorDisplay
    >>> truth = np.arange(12.0)
    >>> display = FieldErrorDisplay(unit_grid((4, 3)), truth, 1.1 * truth, grid_shape=(4, 3)).plot()
    >>> len(display.axes_), round(display.relative_error, 3)
    (3, 0.1)
    """

    def __init__(
        self,
        coords: FloatArray,
        true_values: FloatArray,
        predicted_values: FloatArray,
        *,
        input_values: FloatArray | None = None,
        grid_shape: GridShape | None = None,
        sample: int | None = None,
        name: str | None = None,
    ) -> None:
        self.coords = coords
        self.true_values = true_values
        self.predicted_values = predicted_values
        self.input_values = input_values
        self.grid_shape = grid_shape
        self.sample = sample
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        sample: int | str = 0,
        channel: int = 0,
        input_channel: int = 0,
        ax: Any = None,
        cmap: str = "viridis",
        input_cmap: str = "cividis",
        error_cmap: str = "RdBu_r",
    ) -> Self:
        """Predict one sample and draw it.

        Parameters
        ----------
        estimator : estimator
            Estimator, Pipeline or search that was fitted on fields.
        X, y : as in `fit` of the estimator
            Inputs and true fields; y may be None if the meshes of X hold them.
        sample : int or {"worst", "median", "best"}, default=0
            Sample to draw: its index, or its rank by the relative L2 error of the channel. With an index only this
            sample is predicted.
        channel, input_channel : int, default=0
            Channels of y and of X to draw.
        ax, cmap, input_cmap, error_cmap : as in `plot`
            Axes and colour maps.

        Returns
        -------
        FieldErrorDisplay
            The display, with the figure in `figure_`.

        Raises
        ------
        FieldDataError
            If X or y is invalid, y is not a field, or the sample or channel does not exist.
        ValueError, OptionalDependencyError
            If there is no such rank; same errors as `plot`.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import LaMORegressor
        >>> from skop.inspection import FieldErrorDisplay
        >>> X = np.random.default_rng(0).random((8, 6, 6, 1))
        >>> estimator = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, 2 * X)
        >>> len(FieldErrorDisplay.from_estimator(estimator, X, 2 * X, sample="worst").axes_)
        4
        """
        display = cls._predicted(estimator, X, y, sample, channel, input_channel)
        return display.plot(ax=ax, cmap=cmap, input_cmap=input_cmap, error_cmap=error_cmap)

    @classmethod
    def from_predictions(
        cls,
        X: Any,
        y_true: Any,
        y_pred: Any,
        *,
        sample: int | str = 0,
        channel: int = 0,
        input_channel: int = 0,
        ax: Any = None,
        cmap: str = "viridis",
        input_cmap: str = "cividis",
        error_cmap: str = "RdBu_r",
    ) -> Self:
        """Draw one sample of given predictions.

        Parameters
        ----------
        X : as in `fit` of skop's estimators
            Inputs, which also contain the coordinates of the points.
        y_true, y_pred : as in `fit` of skop's estimators
            True and predicted fields of all samples of X.
        sample, channel, input_channel, ax, cmap, input_cmap, error_cmap : as in `from_estimator`
            Sample and channels to draw, axes and colour maps.

        Returns
        -------
        FieldErrorDisplay
            The display, with the figure in `figure_`.

        Raises
        ------
        FieldDataError, ValueError, OptionalDependencyError
            Same errors as `from_estimator`.

        Examples
        --------
        >>> import numpy as np
        >>> from skop.inspection import FieldErrorDisplay
        >>> X = np.random.default_rng(0).random((3, 6, 6, 1))
        >>> FieldErrorDisplay.from_predictions(X, X, X * [[[[1.0]]], [[[1.3]]], [[[1.2]]]], sample="worst").sample
        1
        """
        (inputs, truth), predicted = _read_pair(X, y_true), read_fields(X, y_pred)
        if isinstance(sample, str):
            sample = _rank_samples(truth, predicted, channel, sample)
        sample = _check_sample(sample, len(inputs))
        display = cls._of_sample(inputs, truth, sample, predicted[[sample]], channel, input_channel)
        return display.plot(ax=ax, cmap=cmap, input_cmap=input_cmap, error_cmap=error_cmap)

    @classmethod
    def _predicted(cls, estimator: Any, X: Any, y: Any, sample: int | str, channel: int, input_channel: int) -> Self:
        """Predict one sample, without drawing it."""
        regressor, final_X = final_regressor(estimator, X)
        spec = getattr(regressor, "spec_", None)
        takes_meshes = isinstance(regressor, FieldRegressor) and (spec is None or spec.kept_axes is not None)
        if takes_meshes:
            # Meshes are read with the fields that the estimator was fitted on.
            inputs, targets = regressor._read_scored(final_X, y)
            truth = _field_of(targets, regressor.spec_.n_scalars)
        else:
            inputs, truth = _read_pair(X, y)

        def predict(row: int | None) -> FieldSet:
            if not takes_meshes:
                asked = X if row is None else _take_sample(X, row, inputs.shared_coords)
                return read_fields(asked, estimator.predict(asked))
            asked = (inputs, targets) if row is None else (inputs[[row]], targets[[row]])
            predictions, places = regressor._predict_scored(*asked)
            return places.with_values(predictions.fields)

        if isinstance(sample, str):
            everything = predict(None)
            sample = _rank_samples(truth, everything, channel, sample)
            predicted = everything[[sample]]
        else:
            sample = _check_sample(sample, len(inputs))
            predicted = predict(sample)
        if takes_meshes and targets.elsewhere:
            # The panels show the points of y, where the inputs are not known.
            inputs = truth.with_values(np.empty((*np.asarray(truth.values).shape[:-1], 0)))
        return cls._of_sample(inputs, truth, sample, predicted, channel, input_channel)

    @classmethod
    def _of_sample(
        cls, inputs: FieldSet, truth: FieldSet, sample: int, predicted: FieldSet, channel: int, input_channel: int
    ) -> Self:
        """Select one sample of inputs and truth, and one channel."""
        inputs, names = inputs[[sample]], truth.channel_names
        return cls(
            inputs.coords.reshape(-1, inputs.n_dims),
            _channel_of(truth[[sample]], channel, "y"),
            _channel_of(predicted, channel, "the prediction"),
            input_values=None if inputs.n_channels == 0 else _channel_of(inputs, input_channel, "X"),
            grid_shape=inputs.grid_shape,
            sample=sample,
            name=None if names is None else names[channel],
        )

    @property
    def relative_error(self) -> float:
        """Relative L2 error of the prediction; infinite where the truth is zero and the prediction is not."""
        return float(_relative_errors([self.true_values], [self.predicted_values])[0])

    def plot(
        self,
        *,
        ax: Any = None,
        cmap: str = "viridis",
        input_cmap: str = "cividis",
        error_cmap: str = "RdBu_r",
    ) -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : sequence of matplotlib Axes or None, default=None
            Axes of the panels; None opens a new figure.
        cmap, input_cmap, error_cmap : str, default="viridis", "cividis", "RdBu_r"
            Colour maps of truth and prediction, of the input, and of the error.

        Returns
        -------
        FieldErrorDisplay
            The display itself.

        Raises
        ------
        ValueError
            If `ax` has another number of axes than there are panels.
        FieldDataError
            If points in three dimensions form no grid.
        OptionalDependencyError
            If matplotlib is not installed.
        """
        on_line = self.coords.shape[1] == 1
        titles = ["input"] if self.input_values is not None else []
        titles += ["truth and prediction"] if on_line else ["truth", "prediction"]
        titles.append(f"error (relative L2: {100 * self.relative_error:.3g} %)")
        if self.sample is not None:
            titles[0] = f"{titles[0]}, sample {self.sample}"
        # The layout "compressed" keeps maps of equal aspect close together; curves fill their panels anyway.
        layout, height = ("constrained", 3.0) if on_line else ("compressed", 3.1)
        listed = f": {', '.join(titles)}"
        self.axes_ = self._panels(ax, titles, size=(3.3, height), layout=layout, what=listed)
        self.artists_ = self._draw_lines() if on_line else self._draw_maps(input_cmap, cmap, error_cmap)
        return self

    def _draw_lines(self) -> list[Any]:
        """Draw fields in one dimension as curves."""
        order = np.argsort(self.coords[:, 0], kind="stable")
        x, truth, predicted = (part[order] for part in (self.coords[:, 0], self.true_values, self.predicted_values))
        *first, middle, last = self.axes_
        drawn = []
        if self.input_values is not None:
            drawn.append(first[0].plot(x, self.input_values[order], color="0.35"))
        curves = middle.plot(x, truth, color="C0", linewidth=2.5, alpha=0.6, label="truth")
        curves += middle.plot(x, predicted, "--", color="C3", label="prediction")
        middle.legend(frameon=False)
        drawn += [curves, last.plot(x, predicted - truth, color="C3")]
        last.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
        middle.set_ylabel(self.name or "")
        for panel in self.axes_:
            panel.set_xlabel("x")
            panel.ticklabel_format(axis="y", scilimits=(-2, 4), useMathText=True)
        return drawn

    def _draw_maps(self, input_cmap: str, cmap: str, error_cmap: str) -> list[Any]:
        """Draw fields in the plane, or the middle slice of a box, as coloured maps with colour bars."""
        picked, shape, place = self._plane()
        coords, truth, predicted = self.coords[picked], self.true_values[picked], self.predicted_values[picked]
        error = predicted - truth
        low, high = min(truth.min(), predicted.min()), max(truth.max(), predicted.max())
        # A colour scale needs two different ends, also for an error of zero everywhere.
        largest = float(np.abs(error).max()) or 1.0
        contents = [(truth, cmap, low, high), (predicted, cmap, low, high), (error, error_cmap, -largest, largest)]
        if self.input_values is not None:
            values = self.input_values[picked]
            contents.insert(0, (values, input_cmap, values.min(), values.max()))
        maps = [_map(panel, coords, shape, *content) for panel, content in zip(self.axes_, contents, strict=True)]
        *first, true_panel, predicted_panel, error_panel = self.axes_
        # Truth and prediction have one colour bar together.
        groups = [*([panel] for panel in first), [true_panel, predicted_panel], [error_panel]]
        for drawn, group in zip([*maps[:-2], maps[-1]], groups, strict=True):
            bar = self.figure_.colorbar(drawn, ax=group, label=(self.name or "") if len(group) > 1 else "")
            bar.formatter.set_powerlimits((-2, 4))
            bar.formatter.set_useMathText(True)
            # By default the power of ten extends to the left of the bar and pushes it away from its panel.
            bar.ax.yaxis.set_offset_position("left")
            bar.outline.set_linewidth(0.5)
        self.axes_[0].set_ylabel("y")
        for panel in self.axes_:
            panel.set_xlabel(f"x{place}")
            # Few ticks, so that the labels of neighbouring maps do not overlap.
            panel.locator_params(axis="x", nbins=3)
            panel.tick_params(left=panel is self.axes_[0], labelleft=panel is self.axes_[0])
            set_aspect(panel, coords)
        return maps

    def _plane(self) -> tuple[Any, GridShape | None, str]:
        """Points to draw, their grid, and a description of the slice."""
        coords, shape = self.coords, self.grid_shape
        everything = np.arange(len(coords))
        if coords.shape[1] == 2:
            return everything, shape if shape is not None and len(shape) == 2 else None, ""
        if shape is None or len(shape) != 3:
            raise FieldDataError(
                f"the {len(coords)} points in {coords.shape[1]}-D form no grid, so they have no middle slice to draw; "
                "resample them onto a grid, or write them to a file for a 3-D viewer."
            )
        picked = everything.reshape(shape)[:, :, shape[2] // 2].ravel()
        heights = coords[picked, 2]
        is_flat = np.ptp(heights) <= 1e-6 * max(float(np.ptp(coords[:, 2])), np.finfo(float).tiny)
        return picked, shape[:2], f"  (slice z = {heights[0]:.3g})" if is_flat else "  (middle slice)"


def _map(
    panel: Any, coords: FloatArray, shape: GridShape | None, values: FloatArray, cmap: str, low: float, high: float
) -> Any:
    """One map: coloured cells around the points of a grid, or coloured points."""
    options: dict[str, Any] = {"cmap": cmap, "vmin": low, "vmax": high}
    x, y = coords[:, 0], coords[:, 1]
    if shape is None or min(shape) < 2:
        return panel.scatter(x, y, c=values, s=max(1.0, 3000 / len(values)), rasterized=True, **options)
    return draw_map(panel, x.reshape(shape), y.reshape(shape), values.reshape(shape), **options)


def read_fields(X: Any, y: Any) -> FieldSet:
    """Read fields on the points of X, from which their grid is known."""
    return _read_pair(X, y)[1]


def _read_pair(X: Any, y: Any) -> tuple[FieldSet, FieldSet]:
    """Read inputs, and targets that are fields."""
    data = read(X, y)
    return data.inputs, _field_of(data.targets, data.spec.n_scalars)


def _field_of(targets: Targets, n_scalars: int) -> FieldSet:
    """Return the fields of targets, and raise an error where they are scalars."""
    if targets.field is None:
        raise FieldDataError(
            f"y holds {n_scalars} scalars per sample, expected fields on the points of X; draw scalars with "
            "sklearn.metrics.PredictionErrorDisplay."
        )
    return targets.field


def _check_sample(sample: int, n_samples: int) -> int:
    """Return the index of a sample, counted from the start."""
    if not -n_samples <= sample < n_samples:
        raise FieldDataError(
            f"sample is {sample}, but there are {n_samples} samples; choose from 0 to {n_samples - 1}."
        )
    return int(sample) % n_samples


def _take_sample(X: Any, sample: int, shared_coords: bool) -> Any:
    """Select one sample of X, in the form of X."""
    if isinstance(X, tuple):
        coords, fields = X
        return (coords if shared_coords else coords[[sample]]), fields[[sample]]
    return take(X, [sample])


def _rank_samples(truth: FieldSet, predicted: FieldSet, channel: int, rank: str) -> int:
    """Return the index of the sample of the given rank by its error."""
    if rank not in _RANKS:
        raise ValueError(f"sample is {rank!r}, expected a number or one of {_RANKS}.")
    true_fields = [_channel_of(field, channel, "y") for field in truth]
    errors = _relative_errors(true_fields, [_channel_of(field, channel, "the prediction") for field in predicted])
    order: IntArray = np.argsort(errors, kind="stable")
    return int(order[{"best": 0, "median": (len(order) - 1) // 2, "worst": -1}[rank]])


def _relative_errors(truth: list[FloatArray], predicted: list[FloatArray]) -> FloatArray:
    """Relative L2 error of each field; infinite if the truth is zero and the prediction is not."""
    pairs = list(zip(truth, predicted, strict=True))
    errors = np.array([np.linalg.norm(np.subtract(found, true, dtype=float)) for true, found in pairs])
    norms = np.array([np.linalg.norm(np.asarray(true, dtype=float)) for true, _ in pairs])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(errors == 0, 0.0, errors / norms)


def _channel_of(field: FieldSet, channel: int, what: str) -> FloatArray:
    """Select one channel of a FieldSet with a single sample, as (P,)."""
    values = field.to_list()[0]
    if not -values.shape[1] <= channel < values.shape[1]:
        raise FieldDataError(f"channel {channel} of {what} does not exist; it has {values.shape[1]} channels.")
    return values[:, channel]
