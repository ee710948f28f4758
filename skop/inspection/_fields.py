"""Plot of input, truth, prediction and error of one sample.

Notation: n samples, P points of a sample, d space dimensions.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from skop._optional import import_optional
from skop._sklearn_compat import final_regressor
from skop._typing import FloatArray, GridShape, IntArray
from skop.data import FieldSet, TrainingData, read
from skop.estimators._field import FieldRegressor
from skop.exceptions import FieldDataError
from skop.inspection._panels import draw_lines, draw_maps, panel_titles

__all__ = ["FieldErrorDisplay", "read_fields"]

_RANKS = ("worst", "median", "best")
_NO_FIELD = (
    "y holds {} scalars per sample, expected fields on the points of X; draw scalars with "
    "sklearn.metrics.PredictionErrorDisplay."
)


class FieldErrorDisplay:
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
        ax : sequence of matplotlib Axes or None, default=None
            Axes of the panels; None opens a new figure.
        cmap, input_cmap, error_cmap : str, default="viridis", "cividis", "RdBu_r"
            Colour maps of truth and prediction, of the input, and of the error.

        Returns
        -------
        FieldErrorDisplay
            The display, with the figure in `figure_`.

        Raises
        ------
        FieldDataError
            If X or y is invalid, y is not a field, or the sample or channel does not exist.
        OptionalDependencyError
            If matplotlib is not installed.

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
        sample : int or {"worst", "median", "best"}, default=0
            Sample to draw: its index, or its rank by the relative L2 error of the channel.
        channel, input_channel : int, default=0
            Channels of y and of X to draw.
        ax : sequence of matplotlib Axes or None, default=None
            Axes of the panels; None opens a new figure.
        cmap, input_cmap, error_cmap : str, default="viridis", "cividis", "RdBu_r"
            Colour maps of truth and prediction, of the input, and of the error.

        Returns
        -------
        FieldErrorDisplay
            The display, with the figure in `figure_`.

        Raises
        ------
        FieldDataError
            If the fields are invalid, or the sample or channel does not exist.
        OptionalDependencyError
            If matplotlib is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from skop.inspection import FieldErrorDisplay
        >>> X = np.random.default_rng(0).random((3, 6, 6, 1))
        >>> FieldErrorDisplay.from_predictions(X, X, X * [[[[1.0]]], [[[1.3]]], [[[1.2]]]], sample="worst").sample
        1
        """
        data, predicted = _read_pair(X, y_true), read_fields(X, y_pred)
        if isinstance(sample, str):
            sample = _rank_samples(_fields_of(data), predicted, channel, sample)
        sample = _check_sample(sample, len(data.inputs))
        display = cls._from_fields(data, sample, predicted, sample, channel, input_channel)
        return display.plot(ax=ax, cmap=cmap, input_cmap=input_cmap, error_cmap=error_cmap)

    @classmethod
    def _predicted(cls, estimator: Any, X: Any, y: Any, sample: int | str, channel: int, input_channel: int) -> Self:
        """Predict one sample, without drawing it."""
        regressor, inputs = final_regressor(estimator, X)
        spec = getattr(regressor, "spec_", None)
        if isinstance(regressor, FieldRegressor) and (spec is None or spec.kept_axes is not None):
            return cls._of_meshes(regressor, inputs, y, sample, channel, input_channel)
        data = _read_pair(X, y)
        if isinstance(sample, str):
            predicted = read_fields(X, estimator.predict(X))
            sample = _rank_samples(_fields_of(data), predicted, channel, sample)
            row = sample
        else:
            sample, row = _check_sample(sample, len(data.inputs)), 0
            one = _take_sample(X, sample, data.inputs.shared_coords)
            predicted = read_fields(one, estimator.predict(one))
        return cls._from_fields(data, sample, predicted, row, channel, input_channel)

    @classmethod
    def _of_meshes(
        cls, regressor: FieldRegressor, X: Any, y: Any, sample: int | str, channel: int, input_channel: int
    ) -> Self:
        """Predict one sample of meshes, with the fields that the estimator was fitted on."""
        inputs, truth = regressor._read_scored(X, y)
        if truth.field is None:
            raise FieldDataError(_NO_FIELD.format(regressor.spec_.n_scalars))
        if isinstance(sample, str):
            predictions, places = regressor._predict_scored(inputs, truth)
            predicted = places.with_values(predictions.fields)
            sample = row = _rank_samples(truth.field, predicted, channel, sample)
        else:
            sample, row = _check_sample(sample, len(inputs)), 0
            predictions, places = regressor._predict_scored(inputs[[sample]], truth[[sample]])
            predicted = places.with_values(predictions.fields)
        if truth.elsewhere:
            # The panels show the points of y, where the inputs are not known.
            inputs = truth.field.with_values(np.empty((*np.asarray(truth.field.values).shape[:-1], 0)))
        return cls._from_fields(
            TrainingData(inputs, truth, regressor.spec_), sample, predicted, row, channel, input_channel
        )

    @classmethod
    def _from_fields(
        cls, data: TrainingData, sample: int, predicted: FieldSet, row: int, channel: int, input_channel: int
    ) -> Self:
        """Select one sample and one channel."""
        fields = _fields_of(data)
        inputs, truth = data.inputs[[sample]], fields[[sample]]
        names = fields.channel_names
        return cls(
            inputs.coords.reshape(-1, inputs.n_dims),
            _channel_of(truth, channel, "y"),
            _channel_of(predicted[[row]], channel, "the prediction"),
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
        pyplot = import_optional("matplotlib.pyplot", purpose="draw fields")
        on_line = self.coords.shape[1] == 1
        titles = panel_titles(self.input_values is not None, on_line, self.relative_error, self.sample)
        if ax is None:
            # The layout "compressed" keeps maps of equal aspect close together; curves fill their panels anyway.
            layout, height = ("constrained", 3.0) if on_line else ("compressed", 3.1)
            _, ax = pyplot.subplots(1, len(titles), figsize=(3.3 * len(titles), height), layout=layout, squeeze=False)
        self.axes_ = np.asarray(ax, dtype=object).reshape(-1)
        if len(self.axes_) != len(titles):
            raise ValueError(f"ax has {len(self.axes_)} axes, expected {len(titles)}: {', '.join(titles)}.")
        self.figure_ = self.axes_[0].figure
        if on_line:
            self.artists_ = draw_lines(self, self.axes_)
        else:
            self.artists_ = draw_maps(self, self.axes_, (input_cmap, cmap, error_cmap))
        for panel, title in zip(self.axes_, titles, strict=True):
            panel.set_title(title, fontsize="medium")
        return self


def read_fields(X: Any, y: Any) -> FieldSet:
    """Read fields on the points of X, from which their grid is known.

    Parameters
    ----------
    X, y : as in `fit` of skop's estimators
        Inputs and fields.

    Returns
    -------
    FieldSet
        The fields of y.

    Raises
    ------
    FieldDataError
        If X or y is invalid, or y is not a field.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.inspection._fields import read_fields
    >>> read_fields(np.zeros((2, 7, 1)), np.ones((2, 7, 3))).grid_shape
    (7,)
    """
    return _fields_of(_read_pair(X, y))


def _read_pair(X: Any, y: Any) -> TrainingData:
    """Read X and y, and raise an error if y is not a field."""
    data = read(X, y)
    if data.targets.field is None:
        raise FieldDataError(_NO_FIELD.format(data.spec.n_scalars))
    return data


def _fields_of(data: TrainingData) -> FieldSet:
    """Return the target fields."""
    if data.targets.field is None:
        raise ValueError("the targets have no field to draw; pass fields as y.")
    return data.targets.field


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
    if hasattr(X, "iloc"):
        return X.iloc[[sample]]
    return [X[sample]] if isinstance(X, list) else X[[sample]]


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
