"""Scale fields to zero mean and unit spread, and back.

Statistics are taken over samples and points, as the published training scripts do; the spread of a
constant channel counts as 1 so that it maps to 0 and back to its constant.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from skop._typing import FloatArray

__all__ = ["BoxScaler", "FieldScaler"]

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

    def fit(self, chunks: Callable[[], Iterator[tuple[FloatArray, FloatArray]]]) -> "FieldScaler":
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

    def fit(self, coords: FloatArray) -> "BoxScaler":
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
