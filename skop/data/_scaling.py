"""Scaling (standardisation) of fields, coordinates, global parameters and scalars, and its options.

Statistics are computed over samples and points, as in the published training scripts. The standard deviation of a
constant channel is set to 1, so that it is scaled to 0, and back to its constant, which is also what a prediction of it
is, whatever the network gives. Targets can be replaced by their logarithms before they are standardised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch

from skop._parameters import Choice, Part, param
from skop._typing import FloatArray, IntArray
from skop.data._fieldset import FieldSet, iterate_coords, iterate_rows
from skop.data._point_symmetry import PointSymmetries
from skop.data._spec import Targets
from skop.exceptions import FieldDataError

__all__ = ["BoxScaler", "FieldScaler", "Scalers", "ScalingOptions", "check_positive"]

#: Relative standard deviation below which a channel counts as constant: a few rounding errors in float64.
_CONSTANT = 1e-12
#: Size of scaled values, or its inverse, from which they are unlike those for which a network was made.
_UNLIKE = 100.0
#: Scalers of `Scalers` by name, and what they scale.
_CHANNELS = {
    "fields": "channel {} of X",
    "params": "parameter {} of X",
    "target": "channel {} of y",
    "scalars": "scalar {} of y",
}
#: Number of values that are converted to double precision at once.
_CONVERTED = 2**17
#: Mean of a target in units of its standard deviation from which predictions are shifted back in double precision.
_FAR_FROM_ZERO = 1e3

#: Function that yields values (n, P, c), turned by all symmetries of a problem.
_Turn = Callable[[FloatArray], Iterable[FloatArray]]


class FieldScaler:
    """Scaling of fields to zero mean and unit standard deviation, fitted in pieces of bounded size.

    Parameters
    ----------
    mode : {"channel", "point", None}, default="channel"
        Statistics: one mean and standard deviation for each channel; for each channel at each point, with which the
        model can be used on one grid only; or no scaling.
    function : {"log", None}, default=None
        Function that is applied before the scaling, for positive values: the natural logarithm, or none.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (c,) or (P, c)
        Shift and factor: scaled = (value - mean_) / scale_, where value is the logarithm for ``function="log"``.
    spread_ : ndarray of shape (c,) or (P, c), or None
        Factor of the outputs of a network: `scale_`, and 0 for constants. None is `scale_`, for scalers that were saved
        before it was stored.
    offset_ : float
        Largest size of a mean in units of its standard deviation, constants left out: digits that are lost where
        values are not shifted in double precision.
    size_ : ndarray of shape (c,)
        Size of the values in physical units: their root mean square, by which relative losses divide.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from skop.data import FieldScaler
    >>> scaler = FieldScaler("channel").fit(lambda: iter([(np.array([[[1.0], [3.0]]]), np.ones(1))]))
    >>> scaler.transform(torch.tensor([[[3.0]]])).item()
    1.0
    """

    spread_: FloatArray | None = None

    def __init__(self, mode: str | None = "channel", function: str | None = None) -> None:
        self.mode = mode
        self.function = function

    def fit(self, chunks: Callable[[], Iterator[tuple[FloatArray, FloatArray]]]) -> FieldScaler:
        """Compute the statistics.

        Parameters
        ----------
        chunks : callable
            Function that returns an iterator over ``(values (n, P, c), sample_weight (n,))``. It is called twice: first
            for the mean, then for the standard deviation.

        Returns
        -------
        FieldScaler
            The fitted scaler.
        """
        inner: Any = np.asarray if self.function is None else np.log
        mean = self._average(chunks, inner)
        self.offset_, self.spread_ = 0.0, None
        if self.mode is None:
            self.mean_, self.scale_ = np.zeros_like(mean), np.ones_like(mean)
        else:

            def squares(values: FloatArray) -> FloatArray:
                """Squared deviations, in the memory of the deviations."""
                found: FloatArray = inner(values) - mean
                return np.square(found, out=found)

            deviation = np.sqrt(self._average(chunks, squares))
            constant = deviation <= _CONSTANT * np.maximum(np.abs(mean), np.finfo(float).tiny)
            self.mean_, self.scale_ = mean, np.where(constant, 1.0, deviation)
            self.spread_ = np.where(constant, 0.0, deviation)
            self.offset_ = float((np.abs(mean) / np.where(constant, np.inf, self.scale_)).max(initial=0.0))
        self.size_ = np.hypot(self.mean_, self.scale_).reshape(-1, self.mean_.shape[-1]).max(axis=0)
        if self.function is not None:
            # Squares relative to the mean logarithm neither overflow nor vanish for values of any unit.
            unit = np.exp(mean.reshape(-1, mean.shape[-1]).mean(axis=0))
            relative = self._average(chunks, lambda values: (values / unit) ** 2)
            self.size_ = unit * np.sqrt(relative.reshape(-1, mean.shape[-1]).max(axis=0))
        return self

    def deviations(self) -> tuple[FloatArray, FloatArray]:
        """Root mean squares (c,) of the deviations from the mean, 0 for constants, and of the values in physical units.

        Both are `size_` where no mean is taken off the values: without scaling, and for logarithms.
        """
        if self.mode is None or self.function is not None:
            return self.size_, self.size_
        spread = self.scale_ if self.spread_ is None else self.spread_
        # Divided by the size, because squares of very large or small values over- or underflow.
        spread, mean = ((part / self.size_).reshape(-1, len(self.size_)) for part in (spread, self.mean_))
        squares = np.square(spread).mean(axis=0)
        return self.size_ * np.sqrt(squares), self.size_ * np.sqrt(squares + np.square(mean).mean(axis=0))

    @property
    def needs_double(self) -> bool:
        """Whether single precision would lose the variation of values in physical units, or overflow."""
        return self.function is not None or self.offset_ >= _FAR_FROM_ZERO

    def _average(
        self,
        chunks: Callable[[], Iterator[tuple[FloatArray, FloatArray]]],
        function: Callable[[FloatArray], FloatArray],
    ) -> FloatArray:
        """Weighted mean of a function of the values over samples, and over points unless the mode is "point"."""
        total: Any = 0.0
        weight_sum = 0.0
        for values, weight in chunks():
            # A few samples at a time, so that little is held in double precision.
            step = max(1, _CONVERTED // max(1, values[0].size))
            per_sample = []
            for start in range(0, len(values), step):
                part = function(np.asarray(values[start : start + step], dtype=np.float64))
                per_sample.append(part if self.mode == "point" else part.mean(axis=1))
            total = total + np.tensordot(weight, np.concatenate(per_sample), axes=(0, 0))
            weight_sum += float(weight.sum())
        return np.asarray(total) / weight_sum

    def transform(self, values: torch.Tensor) -> torch.Tensor:
        """Scale values ``(B, P, c)``, and return a tensor of the same shape and type."""
        return self.standardize(self.compress(values))

    def inverse_transform(self, values: torch.Tensor) -> torch.Tensor:
        """Undo `transform` on values ``(B, P, c)``."""
        values = self.destandardize(values)
        return values if self.function is None else values.exp()

    def restore(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return outputs of a network ``(B, P, c)`` in physical units; constants are those of the fit."""
        values = self.destandardize_outputs(outputs)
        return values if self.function is None else values.exp()

    def compress(self, values: torch.Tensor) -> torch.Tensor:
        """Apply `function` to values ``(B, P, c)``, the first step of `transform`."""
        return values if self.function is None else values.log()

    def standardize(self, values: torch.Tensor) -> torch.Tensor:
        """Shift and scale values ``(B, P, c)`` to which `function` was applied, the second step of `transform`."""
        # The division takes the memory of the difference.
        return (values - self._tensor(self.mean_, values)).div_(self._tensor(self.scale_, values))

    def destandardize(self, values: torch.Tensor) -> torch.Tensor:
        """Undo `standardize` on values ``(B, P, c)``."""
        return values * self._tensor(self.scale_, values) + self._tensor(self.mean_, values)

    def destandardize_outputs(self, outputs: torch.Tensor) -> torch.Tensor:
        """Undo `standardize` on outputs of a network ``(B, P, c)``; constants are those of the fit."""
        spread = self.scale_ if self.spread_ is None else self.spread_
        return outputs * self._tensor(spread, outputs) + self._tensor(self.mean_, outputs)

    @staticmethod
    def _tensor(array: FloatArray, like: torch.Tensor) -> torch.Tensor:
        """Convert a statistic to the precision and device of a tensor."""
        # A copy, since arrays that workers share cannot be written, which tensors require.
        return torch.tensor(array, dtype=like.dtype, device=like.device)


class BoxScaler:
    """Scaling of coordinates to the unit box, or to zero mean and unit standard deviation.

    An axis without extent is shifted but not scaled.

    Parameters
    ----------
    mode : {"box", "standard", None}, default="box"
        Scaling: bounding box of the training points to the unit box; zero mean and unit standard deviation along each
        axis; or none.

    Attributes
    ----------
    lower_, span_ : ndarray of shape (d,)
        Shift and factor: scaled = (x - lower_) / span_.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from skop.data import BoxScaler
    >>> scaler = BoxScaler().fit(np.array([[0.0, 5.0], [2.0, 5.0]]))
    >>> scaler.transform(torch.tensor([[1.0, 5.0]])).tolist()
    [[0.5, 0.0]]
    """

    def __init__(self, mode: str | None = "box") -> None:
        self.mode = mode

    def fit(self, coords: FloatArray) -> BoxScaler:
        """Compute the statistics of points ``(..., d)``, and return the fitted scaler."""
        return self.fit_pieces(lambda: [coords])

    def fit_pieces(self, pieces: Callable[[], Iterable[FloatArray]]) -> BoxScaler:
        """Compute the statistics of points that come in pieces.

        Parameters
        ----------
        pieces : callable
            Function that returns an iterable of points ``(..., d)``; it is called up to three times.

        Returns
        -------
        BoxScaler
            The fitted scaler.
        """

        def tables() -> Iterator[FloatArray]:
            """Points in double precision, one in a row."""
            for piece in pieces():
                yield np.asarray(piece, dtype=np.float64).reshape(-1, np.shape(piece)[-1])

        corners = [np.stack([points.min(axis=0), points.max(axis=0)]) for points in tables()]
        low, high = np.min(corners, axis=(0, 1)), np.max(corners, axis=(0, 1))
        if self.mode == "standard":
            count = sum(map(len, tables()))
            self.lower_ = sum((points.sum(axis=0) for points in tables()), np.zeros(len(low))) / count
            squares = (((points - self.lower_) ** 2).sum(axis=0) for points in tables())
            span = np.sqrt(sum(squares, np.zeros(len(low))) / count)
        else:
            self.lower_, span = low, high - low
        self.span_ = np.where(span > _CONSTANT * np.maximum(np.abs(low), np.abs(high)), span, 1.0)
        if self.mode is None:
            self.lower_, self.span_ = np.zeros_like(self.lower_), np.ones_like(self.span_)
        return self

    def transform(self, coords: torch.Tensor) -> torch.Tensor:
        """Scale coordinates ``(..., d)``, and return a tensor of the same shape and type."""
        # Copies, since arrays that workers share cannot be written, which tensors require.
        lower = torch.tensor(self.lower_, dtype=coords.dtype, device=coords.device)
        span = torch.tensor(self.span_, dtype=coords.dtype, device=coords.device)
        return (coords - lower) / span


class ScalingOptions(Part):
    """Options for the scaling (standardisation) of the inputs and targets of the network.

    Statistics are computed from the training samples. In searches the name of an option is, for example,
    ``scaling__inputs``.

    Notes
    -----
    With ``"log"`` predictions that are interpolated, to a finer grid or to other points, are interpolated as
    logarithms, except for fits with ``grid=...``.

    Examples
    --------
    >>> from sklearn.base import clone
    >>> from skop import ScalingOptions
    >>> clone(ScalingOptions(inputs=None)).get_params()
    {'coords': 'box', 'inputs': None, 'params': 'channel', 'target_transform': None, 'targets': 'channel'}

    Stresses that a load scales by powers of ten:

    >>> import numpy as np
    >>> from skop import LaMORegressor
    >>> load = np.random.default_rng(0).random((24, 1))
    >>> stress = 10.0 ** (6 * load) * [1.0, 2.0, 3.0, 4.0]
    >>> model = LaMORegressor(
    ...     width=8, depth=1, max_iter=5, random_state=0, scaling=ScalingOptions(target_transform="log")
    ... ).fit(load, stress[..., None])
    >>> bool(model.predict(load).min() > 0)
    True
    """

    coords: str | None = param(
        Choice("box", "standard"),
        None,
        default="box",
        text=(
            "Scaling of the coordinates: bounding box of the training points to the unit box; zero mean and unit "
            "standard deviation along each axis; or none."
        ),
    )
    inputs: str | None = param(
        Choice("channel", "point"),
        None,
        default="channel",
        text=(
            "Scaling of the input fields: zero mean and unit standard deviation of each channel; the same at each "
            "point, with which the model can be used on one grid only; or none."
        ),
    )
    params: str | None = param(
        Choice("channel"),
        None,
        default="channel",
        text="Scaling of the global parameters: zero mean and unit standard deviation of each, or none.",
    )
    targets: str | None = param(
        Choice("channel", "point"),
        None,
        default="channel",
        text=(
            "Scaling of the output fields, as for `inputs`, and of scalars if they are the only output. Scalars in "
            "addition to a field are always scaled to zero mean and unit standard deviation."
        ),
    )
    target_transform: str | None = param(
        Choice("log"),
        None,
        default=None,
        text=(
            'Function of the output fields and scalars that the network learns. ``"log"``: their natural logarithm, '
            "for positive values over several orders of magnitude, such as stresses near a notch or concentrations; "
            "predictions are its exponential, and are positive. Zeros and negative values in y raise an error. "
            "Relative losses, scores and validation errors remain in physical units; the squared error is that of the "
            "scaled logarithms. None: the values themselves."
        ),
    )


@dataclass
class Scalers:
    """All scalers of one fit.

    Attributes
    ----------
    coords : BoxScaler
        Scaler of the coordinates.
    fields, params : FieldScaler or None
        Scalers of the input fields and of the global parameters; None if there are none.
    target : FieldScaler or None
        Scaler of the output field; None if there is none.
    scalars : FieldScaler or None
        Scaler of the output scalars; None if there are none.
    """

    coords: BoxScaler
    fields: FieldScaler | None
    params: FieldScaler | None
    target: FieldScaler | None
    scalars: FieldScaler | None = None

    @property
    def per_point(self) -> bool:
        """Whether fields are scaled separately at each point, so that the order of the points must not change."""
        return 2 in [scaler.mean_.ndim for scaler in (self.fields, self.target) if scaler is not None]

    @classmethod
    def fit(
        cls,
        inputs: FieldSet,
        targets: Targets,
        weight: FloatArray,
        options: ScalingOptions,
        symmetries: PointSymmetries | None = None,
    ) -> Scalers:
        """Compute all statistics from the training samples.

        Parameters
        ----------
        inputs : FieldSet
            Inputs of the training samples.
        targets : Targets
            Targets of the training samples; if they are on points of their own, coordinates are scaled by these too.
        weight : ndarray of shape (n,)
            Sample weights.
        options : ScalingOptions
            Options of the scaling.
        symmetries : PointSymmetries or None, default=None
            Symmetries by which the samples will be moved. Statistics are then those of all moved samples.

        Returns
        -------
        Scalers
            Fitted scalers.

        Raises
        ------
        InvalidParameterError
            If an option has an unknown value; a ValueError of scikit-learn.
        """
        options._validate_params()
        # The network sees both, and points outside the box of the inputs would have coordinates of any size.
        sources = [inputs, *([targets.field] if targets.elsewhere and targets.field is not None else [])]

        def points() -> Iterator[FloatArray]:
            """Yield the coordinates in pieces, or those whose box, or mean and spread, are those of all moved ones."""
            held = chain.from_iterable(map(iterate_coords, sources))
            if symmetries is not None and options.coords == "standard":
                whole = np.concatenate([piece.reshape(-1, inputs.n_dims) for _, piece in held])
                yield symmetries.images(whole, options.coords)
            for _, piece in held:
                yield piece if symmetries is None else symmetries.images(piece, options.coords)

        turn: dict[str, _Turn | None] = dict.fromkeys(("fields", "params", "target", "scalars"))
        if symmetries is not None:
            turn = {
                "fields": _turn_of(symmetries, symmetries.input_vectors, symmetries.input_tensors),
                "params": _turn_of(symmetries, symmetries.param_vectors),
                "target": _turn_of(symmetries, symmetries.target_vectors, symmetries.target_tensors),
                "scalars": _turn_of(symmetries, symmetries.scalar_vectors),
            }
        scalars = None if targets.field is None and options.targets is None else "channel"
        return cls(
            coords=BoxScaler(options.coords).fit_pieces(points),
            fields=_fit_fields(inputs, weight, options.inputs, turn["fields"]) if inputs.n_channels else None,
            params=_fit_numbers(inputs.params, weight, options.params, turn["params"]),
            target=None
            if targets.field is None
            else _fit_fields(targets.field, weight, options.targets, turn["target"], options.target_transform),
            scalars=_fit_numbers(targets.scalars, weight, scalars, turn["scalars"], options.target_transform),
        )

    def unsuitable_for(self, later: Scalers) -> list[str]:
        """Describe channels of other data which these scalers would leave far from the size of one.

        Parameters
        ----------
        later : Scalers
            Scalers of the other data, fitted with the same options.

        Returns
        -------
        list of str
            Channels, by numbers, with the sizes that their values would have.
        """
        found = []
        for name, what in _CHANNELS.items():
            mine, other = getattr(self, name), getattr(later, name)
            if mine is None or other is None or mine.mode is None:
                continue
            # A scale of one is that of values that do not vary.
            spread = np.where(other.scale_ == 1.0, 0.0, other.scale_) / mine.scale_
            sizes = np.hypot(spread, (other.mean_ - mine.mean_) / mine.scale_).reshape(-1, mine.mean_.shape[-1])
            sizes = np.sqrt((sizes**2).mean(axis=0))
            was_constant = (mine.scale_ == 1.0).reshape(-1, len(sizes)).all(axis=0)
            varies = (spread > 0).reshape(-1, len(sizes)).any(axis=0)
            for channel, size in enumerate(sizes):
                if size > _UNLIKE or (was_constant[channel] and varies[channel] and size < 1 / _UNLIKE):
                    found.append(f"{what.format(channel)} ({size:.1e})")
        return found

    def continued(self, later: Scalers) -> Scalers:
        """Return scalers for a fit that goes on with other data, whose constants are those of both.

        Parameters
        ----------
        later : Scalers
            Scalers of the other data, fitted with the same options.

        Returns
        -------
        Scalers
            These scalers. Targets that vary in the other data, or have another constant there, are no constants.
        """
        return replace(self, target=_varied(self.target, later.target), scalars=_varied(self.scalars, later.scalars))

    @property
    def learns_logarithms(self) -> bool:
        """Whether the network learns the logarithms of the targets."""
        return "log" in [scaler.function for scaler in (self.target, self.scalars) if scaler is not None]


def _varied(scaler: FieldScaler | None, later: FieldScaler | None) -> FieldScaler | None:
    """Copy of a scaler of targets, with the constants that a scaler of other data has too."""
    if scaler is None or later is None or scaler.spread_ is None or later.spread_ is None:
        return scaler
    is_same = (later.spread_ == 0) & np.isclose(later.mean_, scaler.mean_, rtol=_CONSTANT, atol=0.0)
    varied = copy(scaler)
    varied.spread_ = np.where(is_same, scaler.spread_, scaler.scale_)
    return varied


def _turn_of(symmetries: PointSymmetries, vectors: list[list[int]], tensors: Sequence[list[int]] = ()) -> _Turn | None:
    """Return the function that yields values turned by all symmetries; None where there is nothing to turn."""
    if not vectors and not tensors:
        return None
    return lambda values: symmetries.all_turned(values, vectors, tensors)


def check_positive(targets: Targets, usable: IntArray | None = None) -> None:
    """Raise an error if targets whose logarithms are to be learnt are zero or negative.

    Parameters
    ----------
    targets : Targets
        Targets of all samples.
    usable : ndarray of int or None, default=None
        Indices of the samples that are used; None for all.

    Raises
    ------
    FieldDataError
        If a used value is not positive; the message names the first sample, its channel and the value.
    """
    samples = np.arange(len(targets)) if usable is None else usable
    if targets.scalars is not None:
        _refuse_not_positive(np.asarray(targets.scalars)[samples][:, np.newaxis], samples, "scalar")
    if targets.field is None:
        return
    if targets.field.is_ragged:
        for sample, values in enumerate(_each(targets.field)):
            if usable is None or sample in usable:
                _refuse_not_positive(values[np.newaxis], np.array([sample]), "channel")
        return
    for start, values in iterate_rows(targets.field):
        kept = samples[(samples >= start) & (samples < start + len(values))]
        _refuse_not_positive(values[kept - start], kept, "channel")


def _refuse_not_positive(values: FloatArray, samples: IntArray, what: str) -> None:
    """Raise an error for the first value of samples ``(n, P, c)`` that is not positive."""
    wrong = ~(values > 0)
    if not wrong.any():
        return
    row, point, channel = np.argwhere(wrong)[0].tolist()
    raise FieldDataError(
        f"target_transform='log' needs positive values, but y is {values[row, point, channel]:g} in sample "
        f"{samples[row]}, {what} {channel}; set target_transform=None, add a small positive constant to y, or fit "
        "channels that can be zero or negative in an estimator of their own."
    )


def _fit_numbers(
    numbers: FloatArray | None, weight: FloatArray, mode: str | None, turn: _Turn | None, function: str | None = None
) -> FieldScaler | None:
    """Fit a scaler of global parameters or scalars ``(n, p)``; None if there are none."""
    if numbers is None:
        return None
    values = numbers[:, None]
    return FieldScaler(mode, function).fit(
        lambda: ((held, weight) for held in ([values] if turn is None else turn(values)))
    )


def _fit_fields(
    fields: FieldSet, weight: FloatArray, mode: str | None, turn: _Turn | None, function: str | None = None
) -> FieldScaler:
    """Fit a field scaler in pieces of bounded size."""
    if mode == "point" and fields.is_ragged:
        raise FieldDataError(
            "the scaler 'point' needs the same points in every sample, but their numbers differ; use 'channel'."
        )

    def chunks() -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield values and weights of the samples, turned by all symmetries, in pieces."""
        for start, piece in enumerate(_each(fields)) if fields.is_ragged else iterate_rows(fields):
            values = piece[np.newaxis] if fields.is_ragged else piece
            for held in [values] if turn is None else turn(values):
                yield held, weight[start : start + len(values)]

    return FieldScaler(mode, function).fit(chunks)


def _each(fields: FieldSet) -> Iterator[FloatArray]:
    """Yield the values of one sample after the other."""
    return (values for sample in fields if (values := sample.values) is not None)
