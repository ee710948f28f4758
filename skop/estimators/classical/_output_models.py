"""Models of the outputs of PODRegressor: components of some outputs, and a regression on the inputs.

Notation: n samples, p global parameters, P points, c channels, s scalars.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import KFold, cross_val_predict

from skop._typing import FloatArray, IntArray
from skop.data import Predictions, Targets
from skop.estimators._weights import weight_option
from skop.estimators.classical._components import ROUNDING, TINY, both_ends, of_others
from skop.estimators.classical._kernel_models import KernelModel
from skop.estimators.classical._target_rows import TargetRows, physical
from skop.estimators.files._file_checks import Held, checks, is_array, is_one_of, tried
from skop.estimators.files._persistence import KNOWN
from skop.exceptions import FieldDataError

__all__ = [
    "HARDLY_ABOVE_ZERO",
    "NotPositiveError",
    "OutputModel",
    "Outputs",
    "check_outputs_of",
    "joined",
    "joined_tensors",
    "logarithms_of",
    "order_of",
    "part_of",
]

#: Folds of the cross-validation of regressors without a closed form of leave-one-out.
_FOLDS = 5
#: Why there is no standard deviation after a fit to one sample.
_ONE_SAMPLE = (
    "the fit had one sample, or copies of one, which shows no error, so that no standard deviation is known; fit to "
    "two samples that differ, or more, or predict with return_std=False."
)
#: Number of which 0 has the logarithm, nearly.
HARDLY_ABOVE_ZERO = np.finfo(float).tiny
#: Numbers of channels and of scalars.
Outputs = tuple[IntArray, IntArray]


class NotPositiveError(FieldDataError):
    """A parameter whose logarithm is read is not positive; estimators around this one know if the last is the time."""

    def __init__(self, message: str, *, is_last: bool) -> None:
        super().__init__(message)
        self.is_last = is_last


@dataclass(eq=False)
class OutputModel:
    """Principal components of some outputs, and a regression of their coefficients on the inputs.

    Attributes
    ----------
    channels, scalars : ndarray of int
        Numbers of the channels and of the scalars that it predicts.
    reads_logarithms : ndarray of bool, shape (p,)
        Global parameters whose logarithms it reads.
    lowest : ndarray of shape (p,), or None
        Values below which these logarithms go on by their tangents; 0 where they do not, and `HARDLY_ABOVE_ZERO` where
        0 itself is read; None in files of earlier versions.
    learns_logarithms : bool
        Whether it predicts logarithms of the outputs.
    shift, scale : ndarray of shape (p,)
        Mean and standard deviation of the parameters, or of their logarithms, since they have different units.
    channel_unit, scalar_unit : ndarray of shape (c,) and (s,)
        Units of the outputs, or of their logarithms, in which all have the same weight.
    basis : object
        Principal components of the outputs, as rows of ``components_``, with ``mean_`` and ``n_components_``.
    regressor : object
        Fitted regressor between the coefficients.
    output_scale : float
        Size of the coefficients that it predicts.
    rest_variance : ndarray or None
        Variance of the outputs outside of the components; None with a regressor of scikit-learn.
    origin, size : ndarray of shape (c + s,)
        Shift and factor by which its outputs become those whose logarithms are taken: of standardised targets, the
        physical ones.
    bounds : ndarray of shape (2, P * c + s) or None
        Least and largest logarithm of each value that is predicted (`TargetRows.bounds`), if these are learned.
    among : tuple of (ndarray of int) or None
        Numbers of the channels and scalars that its components hold, where it predicts some of these; None if all.
    between : sequence of tuple of (int, ndarray of shape (l,), ndarray of shape (P * c + s,))
        Parameters whose values samples share, these values as it reads them, and the mean squares by which those of the
        errors are larger half-way between two of these.
    """

    channels: IntArray
    scalars: IntArray
    reads_logarithms: Any
    learns_logarithms: bool
    shift: FloatArray
    scale: FloatArray
    channel_unit: FloatArray
    scalar_unit: FloatArray
    basis: Any = None
    regressor: Any = None
    output_scale: float = 1.0
    rest_variance: FloatArray | None = None
    origin: Any = 0.0
    size: Any = 1.0
    bounds: FloatArray | None = None
    among: Outputs | None = None
    lowest: FloatArray | None = None
    between: Sequence[Any] = ()

    @classmethod
    def from_earlier(cls, held: dict[str, Any]) -> OutputModel:
        """Take the model of all outputs out of the attributes of `PODRegressor` in files of earlier versions."""
        n_params, spec = len(held["shift_"]), held["spec_"]
        names = ("shift", "scale", "channel_unit", "scalar_unit", "regressor", "output_scale")
        parts = {name: held.pop(f"{name}_") for name in names}
        parts |= {"basis": held.pop("output_basis_"), "rest_variance": held.pop("rest_variance_", None)}
        return cls(np.arange(spec.n_outputs), np.arange(spec.n_scalars), np.zeros(n_params, bool), False, **parts)

    @property
    def outputs(self) -> Outputs:
        """Numbers of its channels and scalars."""
        return self.channels, self.scalars

    @property
    def held(self) -> Outputs:
        """Numbers of the channels and scalars that its components hold."""
        return self.outputs if self.among is None else self.among

    def of_some(self, channels: IntArray, scalars: IntArray) -> OutputModel:
        """The same model, which predicts some of its channels and scalars."""
        return replace(self, channels=channels, scalars=scalars, among=self.held)

    def at_new_values(self) -> Iterator[tuple[int, FloatArray, float]]:
        """Parameters whose values samples share, the values, and how many times as large errors at others are."""
        model = self.regressor
        if not isinstance(model, KernelModel) or model.groups is not None or self.rest_variance is None:
            return
        known = (self.handicap * model.left_out) ** 2
        for place, values, squares in self.between:
            factor = np.sqrt(1 + squares.sum() / max(known.sum(axis=1).mean() + self.rest_variance.sum(), TINY))
            yield place, self._physical(place, values), float(factor)

    def bends(self) -> Iterator[tuple[int, float, float]]:
        """Parameters of three shared values, and how far predictions between these are from a line.

        In units of the errors that are known, and of the deviation of the outputs. With groups no errors are compared.
        """
        model = self.regressor
        if not isinstance(model, KernelModel) or model.groups is not None or self.rest_variance is None:
            return
        rest = self.rest_variance.sum()
        known = ((self.handicap * model.left_out) ** 2).sum(axis=1).mean() + rest
        varied = model.predict(model.points).var(axis=0).sum() + rest
        n_varied = np.count_nonzero(np.ptp(model.points, axis=0))
        for place, values, _ in self.between:
            own = self._physical(place, values)
            # Three whole numbers beside parameters of many values may be those of categories.
            is_counted = len(self.between) < n_varied and np.allclose(own, np.round(own), rtol=1e-9, atol=1e-9)
            if len(values) != 3 or is_counted:
                continue
            lower, higher = both_ends(model.points, place, values)
            ends = model.predict(lower) + model.predict(higher)
            square = ((model.predict(0.5 * (lower + higher)) - 0.5 * ends) ** 2).sum(axis=1).mean()
            yield place, float(np.sqrt(square / max(known, TINY))), float(np.sqrt(square / max(varied, TINY)))

    def _physical(self, place: int, values: FloatArray) -> FloatArray:
        """Values of a parameter as they were before it was scaled."""
        own = values * self.scale[place] + self.shift[place]
        return np.asarray(np.exp(own) if self.reads_logarithms[place] else own)

    def logarithms(self, params: FloatArray) -> FloatArray:
        """Global parameters (n, p), with logarithms of those that it reads so, which go on by tangents near 0."""
        if not self.reads_logarithms.any():
            return params
        turns = self.turns
        found = np.log(np.maximum(params, turns)) + np.minimum(params - turns, 0.0) / turns
        return np.where(self.reads_logarithms, found, params)

    def scaled(self, params: FloatArray) -> FloatArray:
        """Standardised global parameters (n, p), or logarithms of them."""
        wrong = params < self.least
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise NotPositiveError(
                f"parameter {column} of X is {params[row, column]:.3g} in sample {row}, but all were positive in the "
                "fit, and PODRegressor reads the logarithm; pass positive numbers, or fit with param_transform=None.",
                is_last=bool(column == params.shape[1] - 1),
            )
        return (self.logarithms(params) - self.shift) / self.scale

    @property
    def turns(self) -> FloatArray:
        """Values from which on logarithms go on by their tangents, which are hardly above 0 where they do not."""
        lowest = np.zeros(len(self.shift)) if self.lowest is None else self.lowest
        return np.where(self.reads_logarithms, np.maximum(lowest, HARDLY_ABOVE_ZERO), 1.0)

    @property
    def least(self) -> FloatArray:
        """Values below which parameters are refused: those that have neither logarithm nor tangent."""
        reads_zero = self.lowest is not None and self.lowest > 0
        bound = np.where(reads_zero, 0.0, HARDLY_ABOVE_ZERO)
        return np.where(self.reads_logarithms & (self.turns <= HARDLY_ABOVE_ZERO), bound, -np.inf)

    def targets(self, targets: Targets, weight: FloatArray | None = None, groups: IntArray | None = None) -> TargetRows:
        """The outputs that its components hold, as rows."""
        part = part_of(targets, self.held)
        if not self.learns_logarithms:
            return TargetRows(part, weight, groups, units=(self.origin, self.size))
        return TargetRows(physical(part, self.origin, self.size), weight, is_log=True)

    def predict(self, points: FloatArray) -> Predictions:
        """Predict its outputs from the inputs of the regressor."""
        found = np.asarray(self.regressor.predict(points)).reshape(len(points), -1) * self.output_scale
        return self._restored(self.basis.inverse_transform(found))

    def predict_tensor(self, params: torch.Tensor, features: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Predict fields (n, P, c) and scalars (n, s) so that gradients flow to global parameters (n, p)."""
        if not isinstance(self.regressor, KernelModel):
            raise FieldDataError(
                f"gradients are known for the regressors of skop only, and regressor is a "
                f"{type(self.regressor).__name__}; use regressor='auto'."
            )
        params = logarithms_of(params, *map(torch.as_tensor, (self.reads_logarithms, self.turns, self.least)))
        points = (params - torch.as_tensor(self.shift)) / torch.as_tensor(self.scale)
        points = points if features is None else torch.cat([points, features], dim=1)
        found = self.regressor.predict(points) @ torch.as_tensor(self.basis.components_)
        found, units = found + torch.as_tensor(self.basis.mean_), torch.as_tensor(self.units)
        if self.bounds is None:
            found = found * units
        else:
            origin, size = (torch.as_tensor(self.spread_out(held)) for held in (self.origin, self.size))
            found = ((found.clamp(*torch.as_tensor(self.bounds)) * units).exp() - origin) / size
        field = found[:, : self._n_values].unflatten(1, (-1, max(len(self.held[0]), 1)))
        channels, scalars = self._places
        return field[..., channels], found[:, self._n_values :][:, scalars]

    @property
    def handicap(self) -> float:
        """Factor by which the search for length scales has made its leave-one-out errors too small."""
        regressor = self.regressor
        return max(kernel.handicap for kernel in regressor.kernels) if isinstance(regressor, KernelModel) else 1.0

    def left_out(
        self,
        targets: Targets,
        points: FloatArray,
        weight: FloatArray | None = None,
        groups: IntArray | None = None,
    ) -> Predictions:
        """Predict its outputs of each sample of the fit without the sample, or the group to which it belongs."""
        rows = self._rows(targets)
        coefficients = self.basis.transform(rows)
        if isinstance(self.regressor, KernelModel):
            left_out = self.regressor.left_out
        else:
            numbers = np.arange(len(rows)) if groups is None else groups
            held = np.arange(numbers.max() + 1)
            parts = KFold(min(_FOLDS, len(held)), shuffle=True, random_state=0).split(held)
            folds = [np.isin(numbers, out) for _, out in parts]
            scaled = coefficients / self.output_scale
            found = cross_val_predict(
                self.regressor,
                points,
                scaled,
                cv=[(np.flatnonzero(~fold), np.flatnonzero(fold)) for fold in folds],
                params=weight_option(self.regressor, weight),
            )
            left_out = coefficients - found.reshape(coefficients.shape) * self.output_scale
        # What the components do not hold is predicted by its mean.
        outside = rows - self.basis.inverse_transform(coefficients)
        outside *= 1.0 / max(len(rows) - 1, 1) if weight is None else of_others(len(rows), weight) - 1
        found = self.basis.inverse_transform(coefficients - left_out)
        found -= outside
        return self._restored(found)

    @property
    def is_of_one_sample(self) -> bool:
        """Whether all samples of the fit are copies of one, so that nothing is known of errors."""
        model = self.regressor
        return isinstance(model, KernelModel) and not (np.ptp(model.points, axis=0).any() or model.left_out.any())

    def going_on(self) -> OutputModel:
        """The same model, whose logarithms go on where it takes tangents below all samples: as likely as these."""
        if self.lowest is None or not isinstance(self.regressor, KernelModel):
            return self
        least = self.regressor.points[:, : len(self.shift)].min(axis=0) * self.scale + self.shift
        # Zeros in the fit tell how it goes on.
        is_open = self.reads_logarithms & (self.lowest > 0) & (least >= np.log(self.turns))
        return replace(self, lowest=np.where(is_open, self.lowest * ROUNDING, self.lowest)) if is_open.any() else self

    def spread(self, points: FloatArray, others: FloatArray) -> Predictions:
        """Standard deviations of the errors at points, which are also those of the model whose logarithms go on."""
        model = self.regressor
        if not isinstance(model, KernelModel) or self.rest_variance is None:
            raise FieldDataError(
                f"a spread is known for the regressors of skop only, and regressor is a {type(model).__name__}; use "
                "regressor='auto', or an EnsembleRegressor."
            )
        if self.is_of_one_sample:
            raise FieldDataError(_ONE_SAMPLE)
        trained, components = model.left_out_variances(), self.basis.components_
        # Residuals of components are correlated, by which the variance of a point differs from the sum of theirs.
        sizes = np.sqrt(trained.mean(axis=0))
        standard = model.left_out / np.sqrt(np.maximum(trained, TINY))
        together = (((standard * sizes) @ components) ** 2).mean(axis=0)
        apart = sizes**2 @ components**2
        factor = np.divide(together, apart, out=np.ones_like(apart), where=apart > 0)
        n = len(standard)
        variances = factor * (np.maximum(model.variances(points), 0.0) @ components**2)
        # The error of a line between two values is a parabola.
        for place, values, squares in self.between:
            ends = np.clip(np.searchsorted(values, points[:, place]), 1, len(values) - 1)
            low, high = values[ends - 1], values[ends]
            part = (points[:, place] - low) / (high - low)
            variances = variances + (4 * part * (1 - part))[:, np.newaxis] ** 2 * squares
        found = np.sqrt(variances + self.rest_variance * (n + 1) / max(n - 1, 1)) * self.units
        if self.bounds is not None:
            logarithms = self.basis.inverse_transform(model.predict(points))
            held = np.clip(logarithms, *self.bounds)
            # The deviation of a logarithm is relative, and what the bounds cut off is a part of it.
            found = np.hypot(found, (logarithms - held) * self.units)
            found = found * np.exp(held * self.units) / self.spread_out(self.size)
        spread = self._split(found)
        if np.array_equal(points, others):
            return spread
        found, further = vars(self.predict(points)), vars(self.predict(others))
        held = vars(spread).items()
        return Predictions(**{k: None if v is None else np.hypot(v, further[k] - found[k]) for k, v in held})

    @property
    def _n_values(self) -> int:
        """Number of values of the fields that its components hold."""
        return len(self.basis.mean_) - len(self.held[1])

    @property
    def _places(self) -> tuple[IntArray, IntArray]:
        """Places of its channels and scalars among those that its components hold."""
        channels, scalars = (
            np.flatnonzero(np.isin(held, own)) for held, own in zip(self.held, self.outputs, strict=True)
        )
        return channels, scalars

    @property
    def units(self) -> FloatArray:
        """Unit of each value and scalar."""
        return self.spread_out(np.append(self.channel_unit, self.scalar_unit))

    def spread_out(self, values: Any) -> FloatArray:
        """Numbers of its channels and scalars, for each value of a field and each scalar."""
        n_channels, n_scalars = map(len, self.held)
        every = np.broadcast_to(values, n_channels + n_scalars)
        return np.append(np.tile(every[:n_channels], self._n_values // max(n_channels, 1)), every[n_channels:])

    def _rows(self, targets: Targets) -> FloatArray:
        """Rows of the outputs of a fit that its components hold."""
        part, parts = part_of(targets, self.held), []
        if self.learns_logarithms:
            part = physical(part, self.origin, self.size)
        held = [None if part.field is None else part.field.values, part.scalars]
        for values, unit in zip(held, (self.channel_unit, self.scalar_unit), strict=True):
            if values is not None:
                rows = np.asarray(values, dtype=np.float64)
                rows = (np.log(rows) if self.learns_logarithms else rows) / unit
                parts.append(rows.reshape(len(rows), -1))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _restored(self, rows: FloatArray) -> Predictions:
        """Outputs in physical units, in the memory of rows of their own."""
        if self.bounds is None:
            rows *= self.units
            return self._split(rows)
        values = np.exp(np.clip(rows, *self.bounds) * self.units)
        return self._split((values - self.spread_out(self.origin)) / self.spread_out(self.size))

    def _split(self, rows: FloatArray) -> Predictions:
        """Fields and scalars of rows."""
        channels, places = self._places
        scalars = rows[:, self._n_values :][:, places] if len(places) else None
        if not len(channels):
            return Predictions(None, scalars)
        fields = rows[:, : self._n_values].reshape(len(rows), -1, len(self.held[0]))
        return Predictions(fields if self.among is None else fields[..., channels], scalars)


KNOWN[OutputModel.__name__] = OutputModel


def joined(models: Sequence[OutputModel], parts: Sequence[Predictions]) -> Predictions:
    """Put outputs of several models into the order of y.

    Parameters
    ----------
    models : sequence of OutputModel
        Models.
    parts : sequence of Predictions
        Predictions of each.

    Returns
    -------
    Predictions
        All of them.
    """
    if len(models) == 1:
        return parts[0]
    found: list[Any] = [None, None]
    for number, (name, of) in enumerate((("fields", "channels"), ("scalars", "scalars"))):
        held = [getattr(part, name) for part in parts if getattr(part, name) is not None]
        if held:
            found[number] = np.concatenate(held, axis=-1)[..., order_of(models, of)]
    return Predictions(*found)


def joined_tensors(models: Sequence[OutputModel], params: torch.Tensor, features: torch.Tensor | None) -> torch.Tensor:
    """Predict all outputs from global parameters so that gradients flow to them, as one row for each sample."""
    parts, held = [model.predict_tensor(params, features) for model in models], []
    for place, name in enumerate(("channels", "scalars")):
        # Models without channels know no number of points.
        own = [part[place] for part, model in zip(parts, models, strict=True) if len(getattr(model, name))]
        if own:
            held.append(torch.cat(own, dim=-1)[..., order_of(models, name)].flatten(1))
    return torch.cat(held, dim=1)


def order_of(models: Sequence[OutputModel], name: str) -> IntArray:
    """Places of the ``"channels"`` or ``"scalars"`` of y among those of all models, one after the other."""
    return np.argsort(np.concatenate([getattr(model, name) for model in models]))


def part_of(targets: Targets, outputs: Outputs) -> Targets:
    """Some channels and scalars of targets."""
    channels, scalars = outputs
    field, numbers, since = targets.field, targets.scalars, targets.since
    if field is not None and len(channels) < field.n_channels:
        field = field.with_values(np.asarray(field.values)[..., channels]) if len(channels) else None
    if numbers is not None and len(scalars) < numbers.shape[1]:
        numbers = numbers[:, scalars] if len(scalars) else None
    if since is not None:
        pairs = ((since.fields, channels), (since.scalars, scalars))
        since = Predictions(*(None if held is None else held[..., own] for held, own in pairs))
    return Targets(field, numbers, targets.elsewhere and field is not None, since)


def logarithms_of(params: torch.Tensor, reads: torch.Tensor, lowest: torch.Tensor, least: torch.Tensor) -> torch.Tensor:
    """The same as `OutputModel.logarithms` for tensors; where nothing is read as one, no gradient is infinite.

    What `OutputModel.scaled` refuses becomes NaN.
    """
    # At the lowest values themselves both halves of the derivative add up to one.
    below = torch.minimum(params - lowest, torch.zeros_like(params))
    found = torch.maximum(params, lowest).log() + below / lowest
    found = torch.where(params < least, torch.nan, found)
    return torch.where(reads, found, params)


# ---------------------------------------------------------------------- what a file must hold
@checks("OutputModel")
def _check_output_model(held: Held) -> None:
    """Check a model of some outputs from a file."""
    n_params = len(held.array("shift", None))
    held.array("scale", n_params, positive=True)
    reads = held.get("reads_logarithms")
    is_mask = isinstance(reads, np.ndarray) and reads.dtype == bool and reads.shape == (n_params,)
    held.need(is_mask, "reads_logarithms", f"an array of {n_params} truth values")
    held.array("lowest", n_params, optional=True)
    held.flag("learns_logarithms")
    own = [held.array(name, None, whole=True) for name in ("channels", "scalars")]
    among = held.get("among")
    are_numbers = isinstance(among, tuple) and len(among) == 2 and all(is_array(a, (None,), whole=True) for a in among)
    is_part = are_numbers and all(
        set(few.tolist()) <= set(every.tolist()) for few, every in zip(own, among, strict=True)
    )
    held.need(among is None or is_part, "among", "the numbers of channels and scalars of its components")
    n_channels, n_scalars = map(len, own if among is None else among)
    held.array("channel_unit", n_channels, positive=True)
    held.array("scalar_unit", n_scalars, positive=True)
    held.number("output_scale", positive=True)
    basis = held.part("basis", "Basis")
    held.array("rest_variance", len(basis.mean_), finite=False, optional=True)
    bounds = held.array("bounds", 2, len(basis.mean_), optional=True)
    _check_between(held, n_params, len(basis.mean_))
    held.need((bounds is not None) == held.get("learns_logarithms"), "bounds", "the range of logarithms")


def _check_between(held: Held, n_params: int, n_values: int) -> None:
    """Check the errors between shared values of parameters from a file."""
    parts = held.get("between")
    held.need(isinstance(parts, list | tuple), "between", "a list")
    for part in parts:
        is_known = isinstance(part, tuple) and len(part) == 3 and part[0] in range(n_params)
        is_known = is_known and is_array(part[1], (None,)) and is_array(part[2], (n_values,))
        is_sorted = is_known and len(part[1]) > 1 and bool((np.diff(part[1]) > 0).all())
        held.need(is_sorted, "between", "parameters, their sorted values, and squares of errors")


def check_outputs_of(held: Held, model: Any, places: int, n_params: int, n_features: int) -> None:
    """Check that a model of some outputs fits the inputs and the points of its estimator.

    Parameters
    ----------
    held : Held
        Estimator from a file.
    model : OutputModel
        One of its models.
    places : int
        Number of points of its outputs.
    n_params, n_features : int
        Numbers of global parameters, with those of regions, and of features of the input fields.

    Raises
    ------
    ModelFileError
        If it does not.
    """
    n_inputs, n_targets, size = n_params + n_features, len(model.basis.components_), len(model.basis.mean_)
    held.need(len(model.shift) == n_params, "models_", f"models of {n_params} parameters")
    n_channels, n_scalars = map(len, model.held)
    held.need(size == places * n_channels + n_scalars, "models_", f"components of {places} points")
    regressor = model.regressor
    if is_one_of(regressor, "KernelModel"):
        held.need(
            regressor.points.shape[1] == n_inputs and len(regressor.penalties) == n_targets,
            "models_",
            f"a model of {n_targets} targets of {n_inputs} inputs",
        )
        held.need(model.rest_variance is not None, "models_", "the variance outside of the components")
        return
    held.need(hasattr(regressor, "predict"), "models_", "a fitted regressor")
    found = tried(held, "models_", regressor.predict, n_inputs)
    held.need(found.shape[1] == n_targets, "models_", f"one with {n_targets} targets of {n_inputs}")
