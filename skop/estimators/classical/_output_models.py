"""Models of the outputs of PODRegressor: which outputs share one, and whether logarithms are taken.

Notation: n samples, p global parameters, P points, c channels, s scalars.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import KFold, cross_val_predict

from skop._openmp import one_thread
from skop._typing import FloatArray, IntArray
from skop.data import Predictions, Targets
from skop.estimators._weights import weight_option
from skop.estimators.classical._components import Decomposition, mean_of, of_others, variance_of
from skop.estimators.classical._kernel_models import ROUNDING, TINY, KernelModel
from skop.estimators.classical._kernel_selection import (
    Selection,
    between_ends,
    between_values,
    on_new_inputs,
    told_error,
)
from skop.estimators.classical._target_rows import TargetRows, errors_of_outputs, physical
from skop.estimators.files._file_checks import Held, checks, is_array
from skop.estimators.files._persistence import KNOWN
from skop.exceptions import FieldDataError, warn

__all__ = [
    "REGRESSORS",
    "ModelSearch",
    "OutputModel",
    "OutputSamples",
    "joined",
    "logarithms_of",
]

#: Models with kernels, in the order in which they are tried.
REGRESSORS = ("mean", "ridge", "polynomial", "rbf", "gaussian_process", "akima")
#: Leave out components of large fields whose part of the error is below this.
_NEGLIGIBLE = 0.01
#: Take a model of its own for an output, or logarithms, if this lowers the error below this part.
_BETTER = 0.8
#: Try each output alone up to this number of outputs; more are first grouped by the regressor that suits them.
_FEW_OUTPUTS = 16
#: Half of the values of a parameter over decades lie in this part of its range, from the least value on.
_LOW = 0.25
#: Logarithms of parameters that can be 0 go on by their tangents from this part of their range below the least one. A
#: uniform parameter can if its least value is nearer to 0 than this number of mean spacings.
_BELOW, _SPACINGS = 0.1, 4.0
#: They go on themselves where they predict the sample below all others with this part of the error of tangents, since
#: laws of powers are exact.
_EXACT = 1e-3
#: Folds of the cross-validation of regressors without a closed form of leave-one-out.
_FOLDS = 5
#: Numbers of channels and of scalars.
Outputs = tuple[IntArray, IntArray]


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
        Values below which these logarithms go on by their tangents; 0 where they do not, None in files of earlier
        versions.
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

    def scaled(self, params: FloatArray) -> FloatArray:
        """Standardised global parameters (n, p), or logarithms of them."""
        wrong = (params <= 0) & self.reads_logarithms & (self.lowest is None or self.lowest == 0)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise FieldDataError(
                f"parameter {column} of X is {params[row, column]:.3g} in sample {row}, but all were positive in the "
                "fit, and PODRegressor reads the logarithm; pass positive numbers, or fit with param_transform=None."
            )
        return (_logarithms_of(params, self.reads_logarithms, self.turns) - self.shift) / self.scale

    @property
    def turns(self) -> FloatArray:
        """Values from which on logarithms go on by their tangents, which are hardly above 0 where they do not."""
        lowest = np.zeros(len(self.shift)) if self.lowest is None else self.lowest
        return np.where(self.reads_logarithms, np.maximum(lowest, np.finfo(float).tiny), 1.0)

    def targets(self, targets: Targets, weight: FloatArray | None = None, groups: IntArray | None = None) -> TargetRows:
        """The outputs that its components hold, as rows."""
        part = _part_of(targets, self.held)
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
        reads, lowest = (torch.as_tensor(held) for held in (self.reads_logarithms, self.turns))
        params = logarithms_of(params, reads, lowest)
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

    def left_out(
        self,
        targets: Targets,
        points: FloatArray,
        weight: FloatArray | None = None,
        groups: IntArray | None = None,
    ) -> Predictions:
        """Predict its outputs of each sample of the fit without the sample, or the group to which it belongs.

        Errors have the factor for the search for length scales.
        """
        rows, factor = self.targets(targets, weight).rows, 1.0
        coefficients = self.basis.transform(rows)
        if isinstance(self.regressor, KernelModel):
            left_out = self.regressor.left_out
            factor = max(kernel.handicap for kernel in self.regressor.kernels)
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
        mean = outside / max(len(rows) - 1, 1) if weight is None else (of_others(len(rows), weight) - 1) * outside
        found = self._restored(self.basis.inverse_transform(coefficients - left_out) - mean)
        part = _part_of(targets, self.outputs)
        true: list[Any] = [None if part.field is None else part.field.values, part.scalars]
        pairs = zip((found.fields, found.scalars), true, strict=True)
        return Predictions(*(None if held is None else known + factor * (held - known) for held, known in pairs))

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
            # The deviation of a logarithm is relative.
            logarithms = np.clip(self.basis.inverse_transform(model.predict(points)), *self.bounds) * self.units
            found = found * np.exp(logarithms) / self.spread_out(self.size)
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

    def _restored(self, rows: FloatArray) -> Predictions:
        """Outputs in physical units."""
        if self.bounds is None:
            return self._split(rows * self.units)
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


@dataclass(frozen=True, eq=False)
class OutputSamples:
    """Samples of a fit.

    Attributes
    ----------
    features : ndarray of shape (n, f)
        Features of their fields.
    params : ndarray of shape (n, p)
        Global parameters.
    rounding : float
        Relative size of the rounding of these.
    targets : Targets
        Outputs.
    groups : ndarray of int, shape (n,), or None
        Numbers of the groups that are left out as a whole.
    units : tuple of (ndarray of shape (c + s,)), or None, default=None
        Shift and factor by which standardised outputs become physical ones; None if they are these.
    weight : ndarray of shape (n,) or None, default=None
        Weights of the samples, of mean 1; None if all are equal.
    """

    features: FloatArray
    params: FloatArray
    rounding: float
    targets: Targets
    groups: IntArray | None
    units: tuple[FloatArray, FloatArray] | None = None
    weight: FloatArray | None = None

    @property
    def is_between(self) -> Any:
        """Which samples count in leave-one-out errors."""
        if self.groups is not None:
            return np.ones(len(self.params), bool)
        return between_ends(np.concatenate([self.params, self.features], axis=1))

    def points(self, model: OutputModel) -> FloatArray:
        """Inputs of the regressor of a model."""
        return np.concatenate([model.scaled(self.params), self.features], axis=1)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A model, its leave-one-out error, those of all regressors, and the part of its error that outputs could have.

    At new values of parameters whose values samples share, errors are `at_new` times as large. `residuals` are those of
    the model without each sample and others of the same inputs, where the samples that are left decide from where on
    logarithms go on by tangents; the error has these where none is near zero.
    """

    model: OutputModel
    error: float
    tried: dict[str, float]
    gains: FloatArray
    at_new: float
    residuals: FloatArray
    is_near_zero: bool

    @one_thread()
    def left_out(self, samples: OutputSamples, residuals: FloatArray | None = None) -> Predictions:
        """Predictions of each sample without it."""
        model = self.model
        if residuals is not None:
            model = replace(model, regressor=replace(model.regressor, left_out=residuals))
        return model.left_out(samples.targets, samples.points(model), samples.weight)

    def errors(self, samples: OutputSamples) -> FloatArray:
        """Leave-one-out error of each of its outputs."""
        part, rows = _part_of(samples.targets, self.model.outputs), np.flatnonzero(samples.is_between)
        found = self.left_out(samples)
        found = Predictions(*(None if held is None else held[rows] for held in (found.fields, found.scalars)))
        weight = None if samples.weight is None else samples.weight[rows]
        return errors_of_outputs(part[rows], found, weight)


class ModelSearch:
    """Search for the models with kernels that have the smallest leave-one-out errors.

    Parameters
    ----------
    samples : OutputSamples
        Samples of the fit.
    regressor : str or regressor
        Parameter of `PODRegressor`.
    n_components : int, float or None
        Number of components of the outputs, or the part of the variance that they explain; None chooses.
    param_transform, target_transform : {"auto", "log"} or None
        Parameters of `PODRegressor`.
    """

    def __init__(
        self,
        samples: OutputSamples,
        regressor: Any,
        n_components: int | float | None,
        param_transform: str | None,
        target_transform: str | None,
    ) -> None:
        self.samples, self.regressor, self.n_components = samples, regressor, n_components
        params, is_auto = samples.params, isinstance(regressor, str) and regressor == "auto"
        least, largest = params.min(axis=0), params.max(axis=0)
        can_be = (least >= 0) & (largest > 0)
        # What is uniform down to 0 has no least logarithm, and what spans decades may be 0 in some samples. A law of
        # powers of other numbers goes on below them.
        smallest = np.where(params > 0, params, np.inf).min(axis=0)
        is_uniform = ~_gathers_low(params) & (smallest * len(params) < _SPACINGS * (largest - least))
        turns = can_be & ((least == 0) | is_uniform)
        smallest, most = (np.where(turns, held, 1.0) for held in (smallest, largest))
        self.lowest = np.where(turns, _turn_of(smallest, most), 0.0)
        reads, learns = [np.zeros(len(least), bool)], [False]
        if param_transform == "log":
            reads = [can_be]
        elif param_transform == "auto" and is_auto:
            gathers = can_be & (largest > least) & _gathers_low(params)
            # A parameter over decades and a uniform one beside it ask for different ones.
            masks = np.unique([gathers | ((least > 0) & (largest > least)), gathers], axis=0)
            reads += [mask for mask in masks if mask.any()]
        if target_transform == "log":
            _require_positive(samples.targets if samples.units is None else physical(samples.targets, *samples.units))
            learns = [True]
        elif target_transform == "auto" and is_auto:
            learns = [False, True]
        #: What models may read and learn: parameters whose logarithms are taken, and whether those of outputs are.
        self.variants: list[tuple[Any, bool]] = [(read, learnt) for learnt in learns for read in reads]
        self.every: Outputs = np.arange(samples.targets.n_outputs), np.arange(samples.targets.n_scalars)

    def run(self) -> tuple[list[OutputModel], float, dict[str, float]]:
        """Choose and fit the models.

        Returns
        -------
        models : list of OutputModel
            One for all outputs, or several.
        error : float
            Leave-one-out error, as `score` measures it.
        errors : dict of str to float
            The same of every regressor that was tried for all outputs, of logarithms, and of several models.
        """
        first = self._trial(self.every, *self.variants[0])
        trials = self._apart(first)
        if trials == [first] and not first.is_near_zero:
            return [first.model], first.error, first.tried
        models, targets = [trial.model for trial in trials], self.samples.targets
        found = joined(models, [trial.left_out(self.samples, trial.residuals) for trial in trials])
        is_between = self.samples.is_between
        rows = TargetRows(targets, self.samples.weight, self.samples.groups, units=self.samples.units or (0.0, 1.0))
        error = rows.error_of(targets, found, is_between)
        return models, error, first.tried | {"apart" if len(trials) > 1 else "logarithms": error}

    def begin(self, n_components: int | float | None) -> tuple[OutputModel, Decomposition]:
        """Make a model of all outputs without its regressor.

        Parameters
        ----------
        n_components : int, float or None
            Number of components.

        Returns
        -------
        model : OutputModel
            The model.
        parts : Decomposition
            Components of the outputs.
        """
        return self._begin(self.every, *self.variants[0], n_components)

    def _begin(
        self, outputs: Outputs, reads: Any, learns: bool, n_components: int | float | None
    ) -> tuple[OutputModel, Decomposition]:
        """A model without its regressor, and the components of its outputs."""
        unknown = np.zeros(len(reads))
        model = OutputModel(*outputs, reads, learns, unknown, unknown, unknown, unknown, lowest=self.lowest)
        params, weight = _logarithms_of(self.samples.params, reads, model.turns), self.samples.weight
        shift, spread = mean_of(params, weight), np.sqrt(variance_of(params, weight))
        rounding = self.samples.rounding * np.abs(shift)
        scale = np.where(spread > rounding, spread, np.where(rounding > 0, np.abs(shift), 1.0))
        model.shift, model.scale = shift, scale
        if self.samples.units is not None:
            places = np.append(outputs[0], len(self.every[0]) + outputs[1])
            model.origin, model.size = (held[places] for held in self.samples.units)
        targets = model.targets(self.samples.targets, weight)
        model.channel_unit, model.scalar_unit = targets.channel_unit, targets.scalar_unit
        if learns:
            model.bounds = targets.bounds()
        return model, Decomposition(targets.rows, n_components, weight)

    def _is_allowed(self, outputs: Outputs, variant: tuple[Any, bool]) -> bool:
        """Whether outputs have logarithms that are worth a trial, if a variant learns these."""
        if not variant[1]:
            return True
        part = _part_of(self.samples.targets, outputs)
        if self.samples.units is not None:
            places = np.append(outputs[0], len(self.every[0]) + outputs[1])
            part = physical(part, *(held[places] for held in self.samples.units))
        held = [None if part.field is None else part.field.values, part.scalars]
        return all(_spans(values) for values in held if values is not None)

    def _apart(self, first: _Trial) -> list[_Trial]:
        """Models of the outputs of a trial: its own, or several where others are better for some of the outputs."""
        are_few = len(first.gains) <= _FEW_OUTPUTS
        parts, again = (self._one_by_one(first), self._variant) if are_few else (self._in_two(first), self._apart)
        if parts:
            return [trial for part in parts for trial in again(part)]
        return self._variant(first)

    def _one_by_one(self, first: _Trial) -> list[_Trial]:
        """Models of single outputs that are better alone, and one for all others, which makes none of these worse."""
        own, shared = first.model.outputs, first.errors(self.samples)
        if len(shared) == 1:
            return []
        alone = [self._trial(_subset(own, one), *self.variants[0]) for one in np.eye(len(shared), dtype=bool)]
        wants = np.array([trial.errors(self.samples)[0] for trial in alone]) < _BETTER * shared
        left = np.flatnonzero(~wants)
        if not wants.any():
            return []
        parts = [alone[number] for number in np.flatnonzero(wants)]
        if len(left):
            rest = alone[left[0]] if len(left) == 1 else self._trial(_subset(own, ~wants), *self.variants[0])
            if (_BETTER * rest.errors(self.samples) > shared[left]).any():
                # A search for some outputs can end elsewhere than that for all.
                rest = replace(first, model=first.model.of_some(*_subset(own, ~wants)))
            parts.append(rest)
        return parts

    def _in_two(self, first: _Trial) -> list[_Trial]:
        """One model for the outputs that another regressor suits better, and one for the others, or nothing."""
        own, wants = first.model.outputs, first.gains < _BETTER
        if wants.all():
            # Those that gain most do not share one of the models that were tried with all others.
            wants = first.gains <= np.sort(first.gains)[(len(wants) - 1) // 2]
        if not wants.any() or wants.all():
            return []
        parts, errors = [], np.empty(len(wants))
        for chosen in (wants, ~wants):
            parts.append(self._trial(_subset(own, chosen), *self.variants[0]))
            errors[chosen] = parts[-1].errors(self.samples)
        return parts if (_BETTER * errors <= first.errors(self.samples)).all() else []

    def _variant(self, first: _Trial) -> list[_Trial]:
        """The model of a trial, or others with logarithms where these are better for some of its outputs."""
        own = first.model.outputs
        variants = [self.variants[0], *(variant for variant in self.variants[1:] if self._is_allowed(own, variant))]
        trials = [first, *(self._trial(own, *variant) for variant in variants[1:])]
        found = np.stack([trial.at_new * trial.errors(self.samples) for trial in trials])
        found[0] *= _BETTER
        best = found.argmin(axis=0)
        if len(set(best)) == 1:
            return [trials[best[0]]]
        return [self._trial(_subset(own, best == number), *variants[number]) for number in np.unique(best)]

    def _trial(self, outputs: Outputs, reads: Any, learns: bool) -> _Trial:
        """Choose and fit a model with kernels for some of the outputs."""
        return self._trained(*self._begin(outputs, reads, learns, self.n_components))

    @one_thread()
    def _trained(self, model: OutputModel, parts: Decomposition) -> _Trial:
        """Choose the kernel of a model, and fit it to the components of its outputs."""
        samples, is_auto = self.samples, self.n_components is None
        points, targets = samples.points(model), model.targets(samples.targets, samples.weight, samples.groups)
        weights, error, each = targets.measure(parts)
        options = len(model.shift), samples.groups, each, samples.weight
        selection = Selection(points, parts.coefficients, weights, error, *options)
        names: Collection[str] = dict.fromkeys(("mean", self.regressor))
        if self.regressor == "auto":
            # Where no input varies, the others have a slope by rounding.
            names = REGRESSORS if (np.ptp(points, axis=0) > ROUNDING).any() else ("mean",)
        screened = {name: trials[0][0] for name in names if (trials := selection.screen(name))}
        shares = np.sqrt(np.cumsum(parts.variances[::-1])[::-1] / max(parts.variances.sum(), TINY))
        if parts.is_large and is_auto:
            # Components that the mean would predict as well, compared with the error, are left out.
            share = 0.5 * _NEGLIGIBLE * selection.least_screened() / max(screened["mean"], TINY)
            count = max(int((shares > share).sum()), 1)
            selection.narrow(parts.coefficients[:, :count], *targets.measure(parts, count)[1:])
        tried = {name: found for name in names if (found := selection.search(name)) is not None}
        for name, item in tried.items():
            known = min(other.error for other in tried.values() if other.system is not None)
            if item.system is None and (name == self.regressor or item.error < known):
                again = selection.search(name, thorough=True)
                tried[name] = item if again is None else again
        if self.regressor not in ("auto", *tried):
            needed = f"more samples than {len(points)}, or inputs that are a few global parameters"
            if self.regressor == "akima":
                needed = (
                    "six samples or more of different values of one global parameter, without groups; "
                    f"X has {len(points)} samples of {points.shape[1]} inputs"
                )
            raise FieldDataError(f"regressor={self.regressor!r} needs {needed}; use regressor='auto'.")
        if self.regressor == "auto":
            found = min((item for item in tried.values() if item.system is not None), key=lambda item: item.criterion)
        else:
            found = tried[self.regressor]
            if self.regressor == "gaussian_process" and found.error > 0.999 * tried["mean"].error and len(points) > 1:
                warn(
                    "the Gaussian process is no better than the mean of the training samples "
                    f"(leave-one-out error {found.error:.3g}); the inputs tell nothing of the targets that these "
                    "samples could show."
                )
        gains = selection.gains(found, tried.values())
        if "gaussian_process" in names:
            found = selection.likeliest(found)
        most = None
        if parts.is_large and is_auto:
            most = max(int((shares * tried["mean"].error > _NEGLIGIBLE * found.error).sum()), 1)
        model.regressor = selection.fit(found, cut=is_auto, most=most)
        left_out, penalties = model.regressor.left_out, model.regressor.penalties
        left_out = left_out if selection.repeats is None else on_new_inputs(selection, found.system, penalties)
        model.lowest, residuals = self._near_zero(model, found.system, parts.coefficients, left_out, selection.repeats)
        model.basis = parts.basis(model.regressor.left_out.shape[1])
        components = model.basis.components_
        if model.learns_logarithms:
            unseen = parts.coefficients[:, : residuals.shape[1]] - residuals
            model.bounds = targets.bounds(model.basis.inverse_transform(unseen))
        model.between = between_values(selection, found.system, model.regressor, components)
        held = parts.variances[: len(components)] @ components**2
        weighted = parts.centred if samples.weight is None else samples.weight[:, np.newaxis] * parts.centred
        whole = np.einsum("ij,ij->j", weighted, parts.centred) / len(points)
        model.rest_variance = np.where(whole - held > ROUNDING * whole, whole - held, 0.0)
        if self.regressor != "auto":
            gains = np.ones_like(gains)
        at_new = found.criterion / found.error if 0 < found.error < found.criterion < np.inf else 1.0
        errors = {name: told_error(selection, item) for name, item in tried.items()}
        return _Trial(model, told_error(selection, found), errors, gains, at_new, residuals, residuals is not left_out)

    def _near_zero(
        self, model: OutputModel, system: Any, coefficients: FloatArray, left_out: FloatArray, repeats: IntArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Values from which on logarithms go on by tangents, and residuals where the samples that are left decide them.

        The least sample of a parameter lies below the others, as some new ones lie below it.
        """
        samples, regressor, params = self.samples, model.regressor, self.samples.params
        lowest, found, targets = self.lowest.copy(), left_out, coefficients[:, : left_out.shape[1]]
        groups = next(held for held in (samples.groups, repeats, np.arange(len(params))) if held is not None)
        ends = np.flatnonzero(model.reads_logarithms & (lowest > 0) & (params.min(axis=0) > 0))
        for row in np.unique(params[:, ends].argmin(axis=0)):
            out, turns = groups == groups[row], self.lowest.copy()
            if out.all():
                continue
            turns[ends] = _turn_of(params[~out][:, ends].min(axis=0), params[:, ends].max(axis=0))
            is_low = out[:, np.newaxis] & (params < turns)
            is_below = is_low.any(axis=1)
            if not is_below.any():
                continue
            # A fit to a prediction without samples is the fit without them.
            known = targets - np.where(out[:, np.newaxis], left_out, 0.0)
            others = regressor.fit(known, system, regressor.penalties, regressor.groups, regressor.weight)
            points = samples.points(replace(model, lowest=turns))[is_below]
            residuals = targets[is_below] - others.predict(points)
            if np.linalg.norm(left_out[is_below]) < _EXACT * np.linalg.norm(residuals):
                lowest[is_low.any(axis=0)] *= ROUNDING
                continue
            found = found.copy()
            found[is_below] = residuals
        return lowest, found


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
    found: list[Any] = [None, None]
    for number, (name, of) in enumerate((("fields", "channels"), ("scalars", "scalars"))):
        held = [getattr(part, name) for part in parts if getattr(part, name) is not None]
        if held:
            order = np.argsort(np.concatenate([getattr(model, of) for model in models]))
            found[number] = np.concatenate(held, axis=-1)[..., order]
    return Predictions(*found)


def _part_of(targets: Targets, outputs: Outputs) -> Targets:
    """Some channels and scalars of targets."""
    channels, scalars = outputs
    field, numbers = targets.field, targets.scalars
    if field is not None and len(channels) < field.n_channels:
        field = field.with_values(np.asarray(field.values)[..., channels]) if len(channels) else None
    if numbers is not None and len(scalars) < numbers.shape[1]:
        numbers = numbers[:, scalars] if len(scalars) else None
    return Targets(field, numbers, targets.elsewhere and field is not None)


def _subset(own: Outputs, chosen: Any) -> Outputs:
    """Chosen ones of channels and scalars, which are counted one after the other."""
    return own[0][chosen[: len(own[0])]], own[1][chosen[len(own[0]) :]]


def _logarithms_of(params: FloatArray, reads: Any, lowest: Any) -> FloatArray:
    """Global parameters (n, p), with logarithms of some, which go on by their tangents below the lowest values."""
    if not np.any(reads):
        return params
    found = np.log(np.maximum(params, lowest)) + np.minimum(params - lowest, 0.0) / lowest
    return np.where(reads, found, params)


def logarithms_of(params: torch.Tensor, reads: torch.Tensor, lowest: torch.Tensor) -> torch.Tensor:
    """The same for tensors; where nothing is read as a logarithm, no gradient is infinite."""
    # At the lowest values themselves both halves of the derivative add up to one.
    below = torch.minimum(params - lowest, torch.zeros_like(params))
    return torch.where(reads, torch.maximum(params, lowest).log() + below / lowest, params)


def _turn_of(smallest: Any, largest: Any) -> Any:
    """Values of parameters from which on logarithms go on by their tangents near 0."""
    return np.maximum(smallest * (smallest / largest) ** _BELOW, np.finfo(float).tiny)


def _gathers_low(params: FloatArray) -> Any:
    """Tell which parameters have half of their values in the lowest part of their range, as those over decades have."""
    least, largest = params.min(axis=0), params.max(axis=0)
    return np.median(params, axis=0) < least + _LOW * (largest - least)


def _spans(values: Any) -> bool:
    """Whether numbers are positive and differ."""
    return 0 < float(np.min(values)) < float(np.max(values))


def _require_positive(targets: Targets) -> None:
    """Refuse targets without logarithms."""
    held = {"y": None if targets.field is None else targets.field.values, "the scalars of y": targets.scalars}
    for name, values in held.items():
        if values is not None and not np.min(values) > 0:
            raise FieldDataError(
                f"target_transform='log' needs positive values, but the smallest of {name} is {np.min(values):.3g}; "
                "set target_transform=None."
            )


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
