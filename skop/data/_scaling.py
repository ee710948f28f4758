"""Scale fields, coordinates and numbers to zero mean and unit standard deviation and back, and the options for it.

Statistics are taken over samples and points, as the published training scripts do; the standard deviation of a constant
channel counts as 1 so that it maps to 0 and back to its constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator

from skop._sklearn_compat import StrOptions
from skop._typing import FloatArray
from skop.data._fieldset import FieldSet, iterate_rows
from skop.data._reading import Targets
from skop.exceptions import FieldDataError

__all__ = ["BoxScaler", "FieldScaler", "Scalers", "ScalingOptions"]

#: Relative spread under which a channel counts as constant: a few float64 roundings of its size.
_CONSTANT = 1e-12


class FieldScaler:
    """Affine scaling of fields, fitted in one streamed pass.

    Parameters
    ----------
    mode : {"channel", "point", None}, default="channel"
        One mean and standard deviation for each channel, for each point and channel (which ties the
        model to one grid), or no scaling.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (c,) or (P, c)
        Shift and factor: scaled = (value - mean_) / scale_.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from skop.data import FieldScaler
    >>> scaler = FieldScaler("channel").fit(lambda: iter([(np.array([[[1.0], [3.0]]]), np.ones(1))]))
    >>> scaler.transform(torch.tensor([[[3.0]]])).item()
    1.0
    """

    def __init__(self, mode: str | None = "channel") -> None:
        self.mode = mode

    def fit(self, chunks: Callable[[], Iterator[tuple[FloatArray, FloatArray]]]) -> FieldScaler:
        """Take the statistics.

        Parameters
        ----------
        chunks : callable
            Returns an iterator over ``(values (n, P, c), sample_weight (n,))``; called twice, since
            the spread is taken about the mean for accuracy.

        Returns
        -------
        FieldScaler
            Itself.
        """
        mean = self._average(chunks, lambda values: values)
        if self.mode is None:
            self.mean_, self.scale_ = np.zeros_like(mean), np.ones_like(mean)
            return self
        deviation = np.sqrt(self._average(chunks, lambda values: (values - mean) ** 2))
        constant = deviation <= _CONSTANT * np.maximum(np.abs(mean), np.finfo(float).tiny)
        self.mean_, self.scale_ = mean, np.where(constant, 1.0, deviation)
        return self

    def _average(
        self,
        chunks: Callable[[], Iterator[tuple[FloatArray, FloatArray]]],
        function: Callable[[FloatArray], FloatArray],
    ) -> FloatArray:
        """Weighted mean of a function of the values over samples, and over points unless per point."""
        total: Any = 0.0
        weight_sum = 0.0
        for values, weight in chunks():
            per_sample = function(np.asarray(values, dtype=np.float64))
            if self.mode != "point":
                per_sample = per_sample.mean(axis=1)
            total = total + np.tensordot(weight, per_sample, axes=(0, 0))
            weight_sum += float(weight.sum())
        return np.asarray(total) / weight_sum

    def transform(self, values: torch.Tensor) -> torch.Tensor:
        """Scale values ``(B, P, c)``; returns a tensor of the same shape and type."""
        return (values - self._tensor(self.mean_, values)) / self._tensor(self.scale_, values)

    def inverse_transform(self, values: torch.Tensor) -> torch.Tensor:
        """Undo `transform` on values ``(B, P, c)``."""
        return values * self._tensor(self.scale_, values) + self._tensor(self.mean_, values)

    @staticmethod
    def _tensor(array: FloatArray, like: torch.Tensor) -> torch.Tensor:
        """Give a statistic the precision and device of the values it meets."""
        return torch.as_tensor(array, dtype=like.dtype, device=like.device)


class BoxScaler:
    """Map coordinates so that the training points fill the unit box, or have zero mean and unit spread.

    An axis without extent keeps its scale and is only shifted.

    Parameters
    ----------
    mode : {"box", "standard", None}, default="box"
        Bounding box to unit box; zero mean and unit spread along each axis; or coordinates as they are.

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
        """Take the statistics of points ``(..., d)``; returns itself."""
        points = np.asarray(coords, dtype=np.float64).reshape(-1, np.shape(coords)[-1])
        if self.mode == "standard":
            self.lower_, span = points.mean(axis=0), points.std(axis=0)
        else:
            self.lower_ = points.min(axis=0)
            span = points.max(axis=0) - self.lower_
        self.span_ = np.where(span > _CONSTANT * np.abs(points).max(axis=0), span, 1.0)
        if self.mode is None:
            self.lower_, self.span_ = np.zeros_like(self.lower_), np.ones_like(self.span_)
        return self

    def transform(self, coords: torch.Tensor) -> torch.Tensor:
        """Scale coordinates ``(..., d)``; returns a tensor of the same shape and type."""
        lower = torch.as_tensor(self.lower_, dtype=coords.dtype, device=coords.device)
        span = torch.as_tensor(self.span_, dtype=coords.dtype, device=coords.device)
        return (coords - lower) / span


@dataclass(kw_only=True, eq=False, repr=False)
class ScalingOptions(BaseEstimator):
    """Scaling of each part of the data before the network sees it.

    Statistics come from the training samples. Searches reach the options by their names, as in
    ``scaling__inputs`` for an estimator with a parameter `scaling`.

    Parameters
    ----------
    coords : {"box", "standard", None}, default="box"
        Coordinates: bounding box of the training points to the unit box, zero mean and unit standard deviation
        along each axis, or as they are.
    inputs : {"channel", "point", None}, default="channel"
        Input fields: zero mean and unit standard deviation of each channel, of each channel at each point (which
        ties the model to one grid), or as they are.
    params : {"channel", None}, default="channel"
        Global parameters: zero mean and unit standard deviation of each, or as they are.
    targets : {"channel", "point", None}, default="channel"
        Output fields, as `inputs`, and scalars where they are the only output. Scalars beside a field always have
        zero mean and unit standard deviation.

    Examples
    --------
    >>> from sklearn.base import clone
    >>> from skop.data import ScalingOptions
    >>> clone(ScalingOptions(inputs=None)).get_params()
    {'coords': 'box', 'inputs': None, 'params': 'channel', 'targets': 'channel'}
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "coords": [StrOptions({"box", "standard"}), None],
        "inputs": [StrOptions({"channel", "point"}), None],
        "params": [StrOptions({"channel"}), None],
        "targets": [StrOptions({"channel", "point"}), None],
    }

    coords: str | None = "box"
    inputs: str | None = "channel"
    params: str | None = "channel"
    targets: str | None = "channel"


@dataclass
class Scalers:
    """The scalers of one fit.

    Attributes
    ----------
    coords : BoxScaler
        Of the coordinates.
    fields, params : FieldScaler or None
        Of input fields and global parameters, where there are any.
    target : FieldScaler or None
        Of the output field, where there is one.
    scalars : FieldScaler or None
        Of the output scalars, where there are any.
    """

    coords: BoxScaler
    fields: FieldScaler | None
    params: FieldScaler | None
    target: FieldScaler | None
    scalars: FieldScaler | None = None

    @property
    def per_point(self) -> bool:
        """Whether fields are scaled by statistics of single points, which ties them to their order."""
        return any(scaler is not None and scaler.mean_.ndim == 2 for scaler in (self.fields, self.target))

    @classmethod
    def fit(cls, inputs: FieldSet, targets: Targets, weight: FloatArray, options: ScalingOptions) -> Scalers:
        """Take all statistics on training samples.

        Parameters
        ----------
        inputs : FieldSet
            Inputs of the training part.
        targets : Targets
            Their targets.
        weight : ndarray of shape (n,)
            Sample weights.
        options : ScalingOptions
            Kinds of scaling.

        Returns
        -------
        Scalers
            Fitted.

        Raises
        ------
        InvalidParameterError
            If an option has an unknown value; a ValueError of scikit-learn.
        """
        options._validate_params()
        return cls(
            coords=BoxScaler(options.coords).fit(inputs.coords),
            fields=_fit_fields(inputs, weight, options.inputs) if inputs.n_channels else None,
            params=_fit_numbers(inputs.params, weight, options.params),
            target=None if targets.field is None else _fit_fields(targets.field, weight, options.targets),
            scalars=_fit_numbers(
                targets.scalars, weight, None if targets.field is None and options.targets is None else "channel"
            ),
        )


def _fit_numbers(numbers: FloatArray | None, weight: FloatArray, mode: str | None) -> FieldScaler | None:
    """Fit a scaler of global numbers ``(n, p)``, where there are any."""
    return None if numbers is None else FieldScaler(mode).fit(lambda: iter([(numbers[:, None], weight)]))


def _fit_fields(fields: FieldSet, weight: FloatArray, mode: str | None) -> FieldScaler:
    """Fit a field scaler in pieces of bounded size."""
    if mode == "point" and fields.is_ragged:
        raise FieldDataError(
            "the scaler 'point' needs the same points in every sample, but their numbers differ; use 'channel'."
        )

    def chunks() -> Iterator[tuple[FloatArray, FloatArray]]:
        """Values and weights of the samples, a part at a time."""
        if fields.is_ragged:
            yield from ((values[None], weight[i : i + 1]) for i, values in enumerate(_each(fields)))
            return
        for start, values in iterate_rows(fields):
            yield values, weight[start : start + len(values)]

    return FieldScaler(mode).fit(chunks)


def _each(fields: FieldSet) -> Iterator[FloatArray]:
    """Values of one sample after the other."""
    return (values for sample in fields if (values := sample.values) is not None)
