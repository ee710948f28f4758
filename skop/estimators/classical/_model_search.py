"""The choice of the models of PODRegressor: which outputs share one, and whether logarithms are taken.

Notation: n samples, p global parameters, P points, c channels, s scalars.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.base import clone

from skop._threads import one_thread
from skop._typing import FloatArray, IntArray
from skop.data import Predictions, Targets
from skop.estimators._weights import weight_option
from skop.estimators.classical._components import ROUNDING, TINY, Decomposition, between_ends, mean_of, variance_of
from skop.estimators.classical._kernel_selection import (
    Found,
    Selection,
    between_values,
    on_new_inputs,
    told_error,
)
from skop.estimators.classical._output_models import HARDLY_ABOVE_ZERO, OutputModel, Outputs, joined, part_of
from skop.estimators.classical._target_rows import TargetRows, physical, squares_of_outputs
from skop.exceptions import FieldDataError, warn

__all__ = ["REGRESSORS", "ModelSearch", "OutputSamples", "Units"]

#: Models with kernels, in the order in which they are tried.
REGRESSORS = ("mean", "ridge", "polynomial", "rbf", "gaussian_process", "akima")
#: Leave out components of large fields whose part of the error is below this.
_NEGLIGIBLE = 0.01
#: Take a model of its own for an output, or logarithms, if this lowers the error below this part.
_BETTER = 0.8
#: The same of logarithms, where the model without them is not better than the mean beyond chance.
_BETTER_THAN_NOISE = 0.3
#: Among models whose errors do not differ beyond chance, take logarithms where their errors are below this part.
_BETTER_IN_LOGARITHMS = 0.4
#: Try each output alone up to this number of outputs; more are first grouped by the regressor that suits them.
_FEW_OUTPUTS = 16
#: Half of the values of a parameter over decades lie in this part of its range, from the least value on.
_LOW = 0.25
#: Logarithms of parameters that are not over decades, or that have zeros, go on by their tangents from this part of
#: their range below the least one.
_BELOW = 0.1
#: They go on themselves where they predict the sample below all others with this part of the error of tangents, since
#: laws of powers are exact.
_EXACT = 1e-3
#: Part of the variance that components may leave out where no error decides about their number.
_SHARE = 1e-6
#: Shift and factor by which standardised channels and scalars become physical ones.
Units = tuple[FloatArray, FloatArray]


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
        Units of standardised outputs; None if they are physical ones.
    weight : ndarray of shape (n,) or None, default=None
        Weights of the samples, of mean 1; None if all are equal.
    """

    features: FloatArray
    params: FloatArray
    rounding: float
    targets: Targets
    groups: IntArray | None
    units: Units | None = None
    weight: FloatArray | None = None

    @property
    def is_between(self) -> Any:
        """Which samples count in leave-one-out errors."""
        if self.groups is not None:
            return np.ones(len(self.params), bool)
        return between_ends(np.concatenate([self.params, self.features], axis=1))

    def units_of(self, outputs: Outputs) -> Units:
        """Shift and factor by which standardised channels and scalars become physical ones, of some of the outputs."""
        origin, size = (0.0, 1.0) if self.units is None else self.units
        places = np.append(outputs[0], self.targets.n_outputs + outputs[1])
        every = (np.broadcast_to(held, self.targets.n_outputs + self.targets.n_scalars) for held in (origin, size))
        shift, factor = (held[places] for held in every)
        return shift, factor

    def points(self, model: OutputModel) -> FloatArray:
        """Inputs of the regressor of a model."""
        return np.concatenate([model.scaled(self.params), self.features], axis=1)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A model, its leave-one-out error, those of all regressors, and the part of its error that outputs could have.

    At new values of parameters whose values samples share, errors are `at_new` times as large. `residuals` are those of
    the model without each sample and others of the same inputs, where the samples that are left decide from where on
    logarithms go on by tangents; the error has these where none is near zero. `is_clear` is whether the model is better
    than the mean beyond chance.
    """

    samples: OutputSamples
    model: OutputModel
    error: float
    tried: dict[str, float]
    gains: FloatArray
    at_new: float
    residuals: FloatArray
    is_near_zero: bool
    is_clear: bool

    @one_thread()
    def left_out(self, residuals: FloatArray | None = None) -> Predictions:
        """Predictions of each sample without it, with errors times the factor for the search for length scales."""
        samples, model, factor = self.samples, self.model, self.model.handicap
        if residuals is not None:
            model = replace(model, regressor=replace(model.regressor, left_out=residuals))
        found = model.left_out(samples.targets, samples.points(model), samples.weight)
        if factor == 1:
            return found
        part = part_of(samples.targets, model.outputs)
        true: list[Any] = [None if part.field is None else part.field.values, part.scalars]
        pairs = zip((found.fields, found.scalars), true, strict=True)
        return Predictions(*(None if held is None else known + factor * (held - known) for held, known in pairs))

    def _counted(self) -> list[tuple[FloatArray, FloatArray]]:
        """Predictions of the samples that count without these, and the truth: of fields, and of scalars."""
        found, part = self.left_out(), part_of(self.samples.targets, self.model.outputs)
        rows, field = np.flatnonzero(self.samples.is_between), part.field
        pairs = ((found.fields, None if field is None else field.values), (found.scalars, part.scalars))
        # Squares of what half and single precision hold can be beyond them.
        return [(own[rows], np.asarray(true, np.float64)[rows]) for own, true in pairs if own is not None]

    def _squares_of(self, parts: Sequence[FloatArray]) -> FloatArray:
        """Sums of squares (k, outputs) of each of the samples that count."""
        weight = self.samples.weight
        return squares_of_outputs(parts, None if weight is None else weight[self.samples.is_between])

    @cached_property
    def squares(self) -> tuple[FloatArray, FloatArray]:
        """Sums of squares (k, outputs) of errors, and of the truth, of each of the samples that count."""
        pairs = self._counted()
        return self._squares_of([true - own for own, true in pairs]), self._squares_of([true for _, true in pairs])

    @property
    def errors(self) -> FloatArray:
        """Leave-one-out error of each of its outputs."""
        left, whole = (squares.sum(axis=0) for squares in self.squares)
        return np.asarray(np.sqrt(left / np.maximum(whole, TINY)))

    @cached_property
    def log_errors(self) -> FloatArray:
        """Size of the errors at new values of the logarithm of each of its scalars, which are positive."""
        origin, size = (held[len(self.model.outputs[0]) :] for held in self.samples.units_of(self.model.outputs))
        own, true = (held * size + origin for held in self._counted()[-1])
        # Nothing is predicted below the least value: of what is not positive no error is known.
        ratios = np.log(np.maximum(own, true.min(axis=0)) / true)
        return np.asarray(self.at_new * np.sqrt(self._squares_of([ratios]).sum(axis=0)))

    def is_as_good_as(self, other: _Trial) -> Any:
        """Which outputs are predicted as well as by another model, up to the standard error of the difference."""
        change = self.at_new**2 * self.squares[0] - other.at_new**2 * other.squares[0]
        if (groups := self.samples.groups) is not None:
            change = np.stack([np.bincount(groups, column) for column in change.T], axis=1)
        # The standard error of the sum of n numbers is the root of the sum of their squares, where their mean is small.
        return change.sum(axis=0) <= np.linalg.norm(change, axis=0)


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
    tunes_scales : bool, default=True
        Whether length scales are searched for.
    """

    def __init__(
        self,
        samples: OutputSamples,
        regressor: Any,
        n_components: int | float | None,
        param_transform: str | None,
        target_transform: str | None,
        *,
        tunes_scales: bool = True,
    ) -> None:
        self.samples, self.regressor, self.n_components = samples, regressor, n_components
        self.tunes_scales = tunes_scales
        params, is_auto = samples.params, isinstance(regressor, str) and regressor == "auto"
        least, largest = params.min(axis=0), params.max(axis=0)
        can_be = (least >= 0) & (largest > 0)
        # What is uniform may come nearer to 0, where nothing tells of its logarithm, and what spans decades may be 0 in
        # some samples. Other parameters over decades have no end there.
        smallest = np.where(params > 0, params, np.inf).min(axis=0)
        turns = can_be & ((least == 0) | ~_gathers_low(params))
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
        self._trials: dict[tuple[Any, ...], _Trial] = {}

    def run(self, like: Sequence[OutputModel] | None = None) -> tuple[list[OutputModel], float, dict[str, float]]:
        """Choose and fit the models.

        Parameters
        ----------
        like : sequence of OutputModel or None, default=None
            Models of other samples, whose outputs and logarithms are kept where these samples have such; None chooses.

        Returns
        -------
        models : list of OutputModel
            One for all outputs, or several.
        error : float
            Leave-one-out error, as `score` measures it.
        errors : dict of str to float
            The same of every regressor that was tried for all outputs, of logarithms, and of several models.
        """
        if like is not None and all(self._can_be_like(model) for model in like):
            trials = [self._like(model) for model in like]
            first = trials[0]
        else:
            first = self._trial(self.every, *self.variants[0])
            trials = self._apart(first)
        if trials == [first] and not first.is_near_zero:
            return [first.model], first.error, first.tried
        error = self._error_of(trials)
        errors = first.tried | {"apart" if len(trials) > 1 else "logarithms": error}
        return [trial.model for trial in trials], error, errors

    def least_error(self) -> float:
        """Return the leave-one-out error of one model of all outputs, for a quick comparison of inputs.

        Returns
        -------
        float
            The least of those with and without logarithms, as `score` measures it.
        """
        variants = [variant for variant in self.variants if self._is_allowed(self.every, variant)]
        return min(self._error_of([self._trial(self.every, *variant)]) for variant in variants)

    def _error_of(self, trials: Sequence[_Trial]) -> float:
        """Leave-one-out error of the models of all outputs together."""
        targets, samples = self.samples.targets, self.samples
        found = joined([trial.model for trial in trials], [trial.left_out(trial.residuals) for trial in trials])
        rows = TargetRows(targets, samples.weight, samples.groups, units=samples.units or (0.0, 1.0))
        return rows.error_of(targets, found, samples.is_between)

    def fit_given(self) -> OutputModel:
        """Fit a regressor of scikit-learn to all outputs.

        Returns
        -------
        OutputModel
            The model.
        """
        count, weight = self.n_components, self.samples.weight
        model, _, parts = self._begin(self.every, *self.variants[0], 1 - _SHARE if count is None else count)
        model.basis, coefficients = parts.basis(), parts.coefficients
        # Coefficients are divided by the size of the leading one, since penalties expect numbers of order 1.
        model.output_scale = np.sqrt(variance_of(coefficients, weight)).max() or 1.0
        scaled, options = coefficients / model.output_scale, weight_option(self.regressor, weight)
        model.regressor = clone(self.regressor).fit(self.samples.points(model), scaled, **options)
        return model

    def _begin(
        self, outputs: Outputs, reads: Any, learns: bool, n_components: int | float | None
    ) -> tuple[OutputModel, TargetRows, Decomposition]:
        """A model without its regressor, its outputs, and their components."""
        unknown = np.zeros(len(reads))
        model = OutputModel(*outputs, reads, learns, unknown, unknown, unknown, unknown, lowest=self.lowest)
        params, weight = model.logarithms(self.samples.params), self.samples.weight
        shift, spread = mean_of(params, weight), np.sqrt(variance_of(params, weight))
        rounding = self.samples.rounding * np.abs(shift)
        scale = np.where(spread > rounding, spread, np.where(rounding > 0, np.abs(shift), 1.0))
        model.shift, model.scale = shift, scale
        if self.samples.units is not None:
            model.origin, model.size = self.samples.units_of(outputs)
        targets = model.targets(self.samples.targets, weight, self.samples.groups)
        model.channel_unit, model.scalar_unit = targets.channel_unit, targets.scalar_unit
        if learns:
            model.bounds = targets.bounds()
        return model, targets, Decomposition(targets.rows, n_components, weight)

    def _is_allowed(self, outputs: Outputs, variant: tuple[Any, bool]) -> bool:
        """Whether outputs have logarithms that are worth a trial, if a variant learns these."""
        if not variant[1]:
            return True
        part = part_of(self.samples.targets, outputs)
        if self.samples.units is not None:
            part = physical(part, *self.samples.units_of(outputs))
        held = [None if part.field is None else part.field.values, part.scalars]
        return all(_spans(values) for values in held if values is not None)

    def _can_be_like(self, model: OutputModel) -> bool:
        """Whether the parameters and outputs of a model, and their logarithms, are those of the samples."""
        is_alike = len(model.reads_logarithms) == self.samples.params.shape[1]
        return is_alike and self._is_allowed(model.held, (model.reads_logarithms, model.learns_logarithms))

    def _like(self, model: OutputModel) -> _Trial:
        """A model of the outputs and logarithms of another."""
        trial = self._trial(model.held, model.reads_logarithms, model.learns_logarithms)
        return trial if model.among is None else replace(trial, model=trial.model.of_some(*model.outputs))

    def _apart(self, first: _Trial) -> list[_Trial]:
        """Models of the outputs of a trial: its own, or several where others are better for some of the outputs."""
        are_few = len(first.gains) <= _FEW_OUTPUTS
        parts, again = (self._one_by_one(first), self._variant) if are_few else (self._in_two(first), self._apart)
        if parts:
            return [trial for part in parts for trial in again(part)]
        return self._variant(first)

    def _one_by_one(self, first: _Trial) -> list[_Trial]:
        """Models of single outputs that are better alone, and one for all others, which makes none of these worse."""
        own, shared = first.model.outputs, first.errors
        if len(shared) == 1:
            return []
        alone = [self._trial(_subset(own, one), *self.variants[0]) for one in np.eye(len(shared), dtype=bool)]
        single = np.array([trial.errors[0] for trial in alone])
        wants = single < _BETTER * shared
        left = np.flatnonzero(~wants)
        if not wants.any():
            return []
        if len(left) > 1:
            rest = self._trial(_subset(own, ~wants), *self.variants[0])
            if not (_BETTER * rest.errors > shared[left]).any():
                return [*(alone[number] for number in np.flatnonzero(wants)), rest]
        # A search for some outputs can end elsewhere than that for all, which may suit those that have left it.
        wants = single <= shared
        parts = [alone[number] for number in np.flatnonzero(wants)]
        if not wants.all():
            parts.append(replace(first, model=first.model.of_some(*_subset(own, ~wants))))
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
            errors[chosen] = parts[-1].errors
        return parts if (_BETTER * errors <= first.errors).all() else []

    def _variant(self, first: _Trial) -> list[_Trial]:
        """The model of a trial, or others with logarithms where these are better for some of its outputs."""
        own = first.model.outputs
        variants = [self.variants[0], *(variant for variant in self.variants[1:] if self._is_allowed(own, variant))]
        trials = [first, *(self._trial(own, *variant) for variant in variants[1:])]
        found = np.stack([trial.at_new * trial.errors for trial in trials])
        found[0] *= _BETTER if first.is_clear else _BETTER_THAN_NOISE
        best = found.argmin(axis=0)
        # A few large numbers decide about errors of scalars, but not about those of their logarithms.
        learn = [number for number, (_, learns) in enumerate(variants) if learns]
        for place in range(len(own[0]), len(best) if learn else 0):
            usual = trials[best[place]]
            as_good = [trials[number] for number in learn if trials[number].is_as_good_as(usual)[place]]
            surest = min(as_good, key=lambda trial: trial.log_errors[place - len(own[0])], default=usual)
            if (surest.log_errors < _BETTER_IN_LOGARITHMS * usual.log_errors)[place - len(own[0])]:
                best[place] = trials.index(surest)
        if len(set(best)) == 1:
            return [trials[best[0]]]
        return [self._trial(_subset(own, best == number), *variants[number]) for number in np.unique(best)]

    def _trial(self, outputs: Outputs, reads: Any, learns: bool) -> _Trial:
        """Choose and fit a model with kernels for some of the outputs, once."""
        key = (*(held.tobytes() for held in (*outputs, reads)), learns)
        if key not in self._trials:
            self._trials[key] = self._trained(*self._begin(outputs, reads, learns, self.n_components))
        return self._trials[key]

    @one_thread()
    def _trained(self, model: OutputModel, targets: TargetRows, parts: Decomposition) -> _Trial:
        """Choose the kernel of a model, and fit it to the components of its outputs."""
        samples, cuts = self.samples, parts.is_large and self.n_components is None
        points = samples.points(model)
        weights, error, each = targets.measure(parts)
        options = len(model.shift), samples.groups, each, samples.weight
        selection = Selection(points, parts.coefficients, weights, error, *options)
        selection.tunes_scales = self.tunes_scales
        names: Collection[str] = dict.fromkeys(("mean", self.regressor))
        if self.regressor == "auto":
            # Where no input varies, the others have a slope by rounding.
            names = REGRESSORS if (np.ptp(points, axis=0) > ROUNDING).any() else ("mean",)
        screened = {name: trials[0][0] for name in names if (trials := selection.screen(name))}
        shares = np.sqrt(np.cumsum(parts.variances[::-1])[::-1] / max(parts.variances.sum(), TINY))
        if cuts:
            # Components that the mean would predict as well, compared with the error, are left out.
            share = 0.5 * _NEGLIGIBLE * selection.least_screened() / max(screened["mean"], TINY)
            count = max(int((shares > share).sum()), 1)
            selection.narrow(parts.coefficients[:, :count], *targets.measure(parts, count)[1:])
        if self.n_components is None and (count := selection.n_predictable()) < selection.targets.shape[1]:
            selection.narrow(parts.coefficients[:, :count], *targets.measure(parts, count)[1:], again=True)
        tried = self._found_by_name(selection, names)
        found = self._best(selection, tried)
        gains = selection.gains(found, tried.values())
        if "gaussian_process" in names:
            best, found = found, selection.likeliest(found)
            if found is not best and selection.is_clear:
                tried["gaussian_process"] = found
        most = max(int((shares * tried["mean"].error > _NEGLIGIBLE * found.error).sum()), 1) if cuts else None
        model.regressor = selection.fit(found, cut=self.n_components is None, most=most)
        residuals, is_near_zero = self._complete(model, parts, targets, selection, found)
        if self.regressor != "auto":
            gains = np.ones_like(gains)
        at_new = found.known / found.error if 0 < found.error < found.known < np.inf else 1.0
        # Copies of one sample show no error.
        told = (lambda _: np.inf) if model.is_of_one_sample else partial(told_error, selection)
        errors = {name: told(item) for name, item in tried.items()}
        return _Trial(samples, model, told(found), errors, gains, at_new, residuals, is_near_zero, selection.is_clear)

    def _found_by_name(self, selection: Selection, names: Collection[str]) -> dict[str, Found]:
        """The best kernel of each kind of regressor that the samples suffice for."""
        tried = {name: found for name in names if (found := selection.search(name)) is not None}
        for name, item in tried.items():
            known = min(other.error for other in tried.values() if other.system is not None)
            if item.system is None and (name == self.regressor or item.error < known):
                again = selection.search(name, thorough=True)
                tried[name] = item if again is None else again
        return tried

    def _best(self, selection: Selection, tried: dict[str, Found]) -> Found:
        """The best of what was tried, or the regressor that is asked for, which may be in vain."""
        if self.regressor == "auto":
            # Of exact models rounding says nothing, and the first goes on beyond the samples.
            least = ROUNDING * tried["mean"].error
            items = (item for item in tried.values() if item.system is not None)
            return min(items, key=lambda item: max(item.criterion, least))
        n_samples, n_inputs = selection.points.shape
        if self.regressor not in tried:
            needed = f"more samples than {n_samples}, or inputs that are a few global parameters"
            if self.regressor == "akima":
                needed = (
                    "six samples or more of different values of one global parameter, without groups; "
                    f"X has {n_samples} samples of {n_inputs} inputs"
                )
            raise FieldDataError(f"regressor={self.regressor!r} needs {needed}; use regressor='auto'.")
        found = tried[self.regressor]
        if self.regressor == "gaussian_process" and found.error > 0.999 * tried["mean"].error and n_samples > 1:
            warn(
                "the Gaussian process is no better than the mean of the training samples "
                f"(leave-one-out error {found.error:.3g}); the inputs tell nothing of the targets that these "
                "samples could show."
            )
        return found

    def _complete(
        self, model: OutputModel, parts: Decomposition, targets: TargetRows, selection: Selection, found: Found
    ) -> tuple[FloatArray, bool]:
        """Give a model with a regressor its basis and what tells its errors; return the residuals of `_Trial`."""
        left_out, penalties, weight = model.regressor.left_out, model.regressor.penalties, self.samples.weight
        known = left_out if selection.repeats is None else on_new_inputs(selection, found.system, penalties)
        model.lowest, residuals = self._near_zero(model, found.system, parts.coefficients, known, selection.repeats)
        model.basis = parts.basis(left_out.shape[1])
        components = model.basis.components_
        if model.learns_logarithms:
            unseen = parts.coefficients[:, : residuals.shape[1]] - residuals
            model.bounds = targets.bounds(model.basis.inverse_transform(unseen), _largest_of_plane(model))
        model.between = between_values(selection, found.system, model.regressor, components)
        held = parts.variances[: len(components)] @ components**2
        weighted = parts.centred if weight is None else weight[:, np.newaxis] * parts.centred
        whole = np.einsum("ij,ij->j", weighted, parts.centred) / len(parts.centred)
        model.rest_variance = np.where(whole - held > ROUNDING * whole, whole - held, 0.0)
        return residuals, residuals is not known

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
        least = params[:, ends] == params[:, ends].min(axis=0)
        for column in np.unique(least, axis=1).T:
            # Where several samples share the least value, they tell whether a law is exact, and nothing of errors.
            out, turns = np.isin(groups, groups[column]), self.lowest.copy()
            if out.all():
                continue
            turns[ends] = params[~out][:, ends].min(axis=0)
            # Zeros of other parameters are no such numbers, whose logarithms have to go on by tangents.
            is_low = out[:, np.newaxis] & (params < turns)[:, ends]
            is_below = is_low.any(axis=1)
            if not is_below.any():
                continue
            # A fit to a prediction without samples is the fit without them.
            known = targets - np.where(out[:, np.newaxis], left_out, 0.0)
            others = regressor.fit(known, system, regressor.penalties, regressor.groups, regressor.weight)
            points = samples.points(replace(model, lowest=turns))[is_below]
            residuals = targets[is_below] - others.predict(points)
            if np.linalg.norm(left_out[is_below]) < _EXACT * np.linalg.norm(residuals):
                lowest[ends[is_low.any(axis=0)]] = HARDLY_ABOVE_ZERO
            elif len(np.unique(groups[out])) == 1:
                found = found.copy()
                found[is_below] = residuals
        return lowest, found


def _largest_of_plane(model: OutputModel) -> FloatArray | None:
    """Largest rows (m,) that a model predicts in the ranges of its parameters; None if it is no plane over these."""
    points, (kernel, *others) = model.regressor.points, model.regressor.kernels
    if others or kernel.name != "none" or kernel.degree > 1 or points.shape[1] > len(model.shift):
        return None
    low, high = points.min(axis=0), points.max(axis=0)
    corners = np.concatenate([[low], low + np.diag(high - low)])
    first, *ends = model.basis.inverse_transform(model.regressor.predict(corners) * model.output_scale)
    return np.asarray(first + np.maximum(np.subtract(ends, first), 0.0).sum(axis=0))


def _subset(own: Outputs, chosen: Any) -> Outputs:
    """Chosen ones of channels and scalars, which are counted one after the other."""
    return own[0][chosen[: len(own[0])]], own[1][chosen[len(own[0]) :]]


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
