"""LawRegressor: an estimator with known laws of its parameters, angles and proportions.

Notation: n samples, p global parameters, P points, T points of all samples together, q channels, s scalars.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from skop._sklearn_compat import HasMethods, Interval, SequenceOf, fit_context
from skop._typing import FloatArray
from skop.data import FieldSet, Predictions, Targets, TrainingData, is_mesh_series
from skop.estimators._field import FieldRegressor, restored_on_failure
from skop.estimators._parts import by_chunks
from skop.estimators._reading import checked_by_caller
from skop.estimators._weights import check_weight, labels_of_groups, weight_option
from skop.estimators._wrapper import WrappingRegressor
from skop.estimators.files._file_checks import Held, check_takes, checks
from skop.estimators.files._persistence import KNOWN
from skop.estimators.fitting._checkpoint import passed_on
from skop.estimators.selection._search import Samples
from skop.estimators.temporal._rollout import RolloutRegressor
from skop.exceptions import FieldDataError, each_warning_once
from skop.surrogate._predictions import combined

__all__ = ["LawRegressor"]


class LawRegressor(WrappingRegressor):
    """Fit an estimator with known laws of the global parameters: angles, and a parameter to which y is proportional.

    A model need not learn known laws, and obeys them also far from the samples. The estimator reads the sine and
    the cosine of a parameter with a period, such as an angle, so that both ends of a turn are the same. Targets that
    are proportional to a parameter, such as stresses to a load, are divided by it before the fit, and predictions are
    multiplied by it; the estimator does not read it.

    Parameters
    ----------
    estimator : estimator
        Regressor on fields or tables that takes global parameters, such as `PODRegressor`, `LaMORegressor`,
        `AutoRegressor` or `ConformalRegressor`.
    angles : sequence of str or int, default=()
        Parameters with a period, by the names of the columns of a table or by their numbers.
    period : float or sequence of float, default=360.0
        Period of all angles, or of each: 360 for degrees, ``2 * np.pi`` for radians, 24 for an hour of the day.
    proportional_to : str, int or None, default=None
        Name or number of the parameter to which all targets, minus `offset`, are proportional. It must not be zero in
        the fit.
    offset : float, default=0.0
        Value of the targets where the parameter `proportional_to` is zero, such as the temperature of the surroundings.

    Attributes
    ----------
    estimator_ : estimator
        Fitted estimator. It reads 1 in place of the parameter `proportional_to`, the sine in place of a parameter with
        a period, and the cosines after all parameters.
    laws_ : object
        Numbers of the parameters, periods, and starts of the turns.
    n_features_in_ : int
        Number of columns of a table X, or of channels of fields.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a DataFrame.
    spec_ : skop.data.DataSpec
        Form, sizes and channel names of X and y.
    mesh_ : meshio.Mesh or None
        Mesh that all samples of y shared, for the meshes of predictions, if y was meshes and X was not.

    See Also
    --------
    PODRegressor : Takes logarithms of parameters and targets by itself, which make power laws linear.
    SymmetryOptions : Known symmetries of operators.

    Notes
    -----
    `check`, `novelty` and warnings take an angle within the turn that has the largest gap of the training samples at
    its ends, so that 361 degrees are 1 degree. The parameter `proportional_to` is compared with its range in the fit
    like any other, since a number outside is often in another unit.

    Bands of a `ConformalRegressor` keep their coverage and are proportional to the parameter too, if it is the
    estimator; so are the standard deviations of ``predict(X, return_std=True)``.

    In searches, the name of a parameter of the estimator is, for example, ``estimator__width``.

    References
    ----------
    K. V. Mardia, P. E. Jupp, "Directional Statistics", 2000, for angles as points of the circle.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import LawRegressor, PODRegressor
    >>> X = np.random.default_rng(0).uniform([0, 1], [360, 5], (30, 2))  # a direction in degrees, and a load
    >>> y = X[:, 1] * (2 + np.cos(np.deg2rad(X[:, 0])))
    >>> model = LawRegressor(PODRegressor(), angles=[0], proportional_to=1).fit(X, y)
    >>> found = model.predict([[10, 2], [370, 2], [10, 4]])
    >>> bool(found[0] == found[1]), bool(abs(found[2] - 2 * found[0]) < 1e-12)
    (True, True)
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "predict"])],
        "angles": [SequenceOf(object)],
        "period": [Interval(Real, 0, None, closed="neither"), SequenceOf(Real)],
        "proportional_to": [str, Interval(Integral, 0, None, closed="left"), None],
        "offset": [Interval(Real, None, None, closed="neither")],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        angles: Any = (),
        period: Any = 360.0,
        proportional_to: Any = None,
        offset: float = 0.0,
    ) -> None:
        self.estimator = estimator
        self.angles = angles
        self.period = period
        self.proportional_to = proportional_to
        self.offset = offset

    # ------------------------------------------------------------------ fit
    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        params: Any = None,
        checkpoint_dir: Any = None,
    ) -> Self:
        """Fit the estimator on parameters and targets without what is known.

        Parameters
        ----------
        X, y : as in `LaMORegressor.fit`
            Inputs, with global parameters, and targets.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights of the samples, passed on to the estimator.
        groups : array-like of shape (n,) or None, default=None
            Labels of groups of samples, passed on to an estimator whose `fit` takes them.
        params : as in `LaMORegressor.fit`
            Global parameters beside fields or meshes.
        checkpoint_dir : path-like or None, default=None
            Folder for checkpoints, passed on to the estimator, see `LaMORegressor.fit`.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        FieldDataError
            If X or y cannot be used, a parameter does not exist, or the one to which y is proportional is zero in a
            sample; a ValueError.
        """
        kept = passed_on(checkpoint_dir, self.estimator)
        if is_mesh_series(X) or is_mesh_series(y):
            raise FieldDataError(
                "LawRegressor got time series of meshes, which TimeConditionedRegressor and RolloutRegressor read; put "
                "it into these, around the estimator of frames: TimeConditionedRegressor(LawRegressor(...))."
            )
        with restored_on_failure(self), each_warning_once():
            data = self._read(X, y, params=params, sample_weight=sample_weight, groups=groups)
            weight, labels = check_weight(sample_weight, len(data.inputs)), labels_of_groups(groups, len(data.inputs))
            weight_option(self.estimator, weight)
            self._check_steps(data.spec.is_table or data.spec.is_fieldset, data.spec)
            self.laws_ = self._declared(data)
            data = replace(data, inputs=self.laws_.within_a_turn(data.inputs))
            self._store_data(data, weight)
            parts = self.laws_.read_by_estimator(data.inputs), self.laws_.without_factor(data.targets, data.inputs)
            samples = Samples(
                *parts, data.spec, weight, kept.get("checkpoint_dir"), labels, self._columns,
                # Targets without their factor are no longer frames like those of the inputs.
                replace(self._training_plan, last_frame=None), data.called,
            )  # fmt: skip
            with checked_by_caller():
                self.estimator_ = samples.fit(self._next_estimator())
        return self

    def _declared(self, data: TrainingData) -> _Laws:
        """The laws of the parameters of a fit."""
        params = data.inputs.params
        angles = np.array([self._number_of(name, data) for name in self.angles], dtype=np.int64)
        periods = np.asarray(self.period, dtype=np.float64)
        if periods.ndim and len(periods) != len(angles):
            raise FieldDataError(
                f"period has {len(periods)} numbers for {len(angles)} angles; pass one number for all of them, or one "
                "for each."
            )
        periods = np.broadcast_to(periods, len(angles)).copy()
        if not (np.isfinite(periods) & (periods > 0)).all():
            raise FieldDataError(f"period is {self.period!r}, expected positive numbers.")
        factor = None if self.proportional_to is None else self._number_of(self.proportional_to, data)
        if factor is not None and isinstance(self.estimator, RolloutRegressor):
            raise FieldDataError(
                f"proportional_to={self.proportional_to!r} divides the frames of y, but not the frames of X, which a "
                "RolloutRegressor joins with them. Divide X and y by the parameter before the fit, and multiply "
                "predictions by it; or set proportional_to=None."
            )
        if factor is None and self.offset:
            raise FieldDataError(f"offset is {self.offset:g}, which has no effect without proportional_to; set both.")
        every = [*angles.tolist(), *([] if factor is None else [factor])]
        if len(set(every)) < len(every):
            raise FieldDataError(
                "a parameter is declared twice, in angles and proportional_to, or by name and by number; leave one out."
            )
        if factor is not None and not np.all(zero := np.asarray(params)[:, factor]):
            raise FieldDataError(
                f"parameter {self.proportional_to!r} is 0 in sample {int(np.argmin(np.abs(zero)))}, where targets that "
                "are proportional to it tell nothing; leave this sample out."
            )
        starts = [_start_of_turn(np.asarray(params)[:, k], period) for k, period in zip(angles, periods, strict=True)]
        return _Laws(angles, periods, np.array(starts, dtype=np.float64), factor, float(self.offset))

    def _number_of(self, name: Any, data: TrainingData) -> int:
        """Number of a parameter that is declared."""
        count = data.inputs.n_params
        names = [*getattr(self, "feature_names_in_", data.spec.param_names or ())]
        if name in names:
            return names.index(name)
        if isinstance(name, Integral) and not isinstance(name, bool) and 0 <= int(name) < count:
            return int(name)
        words = f"{name!r} is declared in {type(self).__name__}, but"
        if not count:
            raise FieldDataError(
                f"{words} X has no global parameters; pass a table X, a FieldSet with params, or params=... beside "
                "fields or meshes."
            )
        known = f"are {', '.join(map(repr, names))}."
        if not names:
            known = (
                f"have no names, and the numbers 0 to {count - 1}. Estimators around others pass no names on; declare "
                "it by its number."
            )
        raise FieldDataError(f"{words} is no parameter of X: these {known}")

    @property
    def _columns(self) -> list[str] | None:
        """Names of the parameters that the estimator reads; None without names."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else self.laws_.names(list(names))

    # ------------------------------------------------------------------ prediction
    @by_chunks
    def predict(self, X: Any, coords: Any = None, return_std: bool = False, *, params: Any = None) -> Any:
        """Predict by the estimator and the laws.

        Parameters
        ----------
        X : as in `fit`
            Inputs.
        coords : as in `LaMORegressor.predict`, or None, default=None
            Points at which fields are predicted; None gives the points of X, or those of y in the fit.
        return_std : bool, default=False
            Whether to return the standard deviation too, if the estimator has one.
        params : as in `fit`
            Global parameters beside fields or meshes.

        Returns
        -------
        mean : ndarray, list, FieldSet, (coords, fields), list of meshes, (meshes, scalars), DataFrame or Series
            Prediction, in the form of the y of the fit.
        spread : of the same form
            Standard deviation; only if `return_std` is True.

        Raises
        ------
        FieldDataError
            If X has another form than in the fit.
        """
        if not return_std:
            return super().predict(X, coords, params=params)
        return self._answered(X, coords, params, partial(self._asked, return_std=True))

    @available_if(lambda self: hasattr(self.estimator, "predict_interval"))
    @by_chunks
    def predict_interval(self, X: Any, coords: Any = None, *, params: Any = None, sample_weight: Any = None) -> Any:
        """Predict, with the lower and upper bounds of the band of a `ConformalRegressor`.

        Parameters
        ----------
        X, coords, params : as in `predict`
            Inputs, points and global parameters.
        sample_weight : as in `ConformalRegressor.predict_interval`
            Weight of each new sample.

        Returns
        -------
        mean : ndarray, list, FieldSet, (coords, fields), list of meshes, DataFrame or Series
            The prediction, in the form of the y of the fit.
        lower, upper : of the same form
            Bounds.

        Raises
        ------
        FieldDataError
            If X has another form than in the fit.
        """

        def ask(inputs: FieldSet, points: Any) -> tuple[list[Predictions], FieldSet]:
            """Ask for a band, of which a negative factor exchanges the bounds."""
            (mean, *ends), places = self._asked(inputs, points, "predict_interval", sample_weight=sample_weight)
            return [mean, combined(np.minimum, *ends), combined(np.maximum, *ends)], places

        return self._answered(X, coords, params, ask)

    def _read_inputs(self, X: Any, params: Any = None) -> tuple[FieldSet, list[Any] | None]:
        """Read the X of a prediction, with angles within a turn."""
        inputs, meshes = super()._read_inputs(X, params)
        return self.laws_.within_a_turn(inputs), meshes

    def _read_query(self, X: Any, coords: Any, params: Any) -> tuple[FieldSet, Any, list[Any] | None]:
        """Read X and `coords` of a prediction, with angles within a turn."""
        inputs, points, meshes = super()._read_query(X, coords, params)
        return self.laws_.within_a_turn(inputs), points, meshes

    def _read_scored(self, X: Any, y: Any, params: Any = None, sample_weight: Any = None) -> tuple[FieldSet, Targets]:
        """Read X and y of a score, with angles within a turn."""
        inputs, truth = super()._read_scored(X, y, params, sample_weight)
        return self.laws_.within_a_turn(inputs), truth

    def _asked(
        self, inputs: FieldSet, coords: Any, method: str = "predict", **options: Any
    ) -> tuple[list[Predictions], FieldSet]:
        """Results of a method of the estimator, with the factor of each sample, and their points."""
        seen = self.laws_.read_by_estimator(inputs)
        parts, places = super()._asked(seen, coords, method, **options)
        places, is_spread = inputs if places is seen else places, "return_std" in options
        return [
            self.laws_.with_factor(part, inputs, places, is_spread=is_spread and number == 1)
            for number, part in enumerate(parts)
        ], places

    def _predict_with_spread(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, Predictions] | None:
        """Prediction and the size of its error that the estimator expects; None if it knows none."""
        if not isinstance(self.estimator_, FieldRegressor):
            return None
        with checked_by_caller():
            found = self.estimator_._predict_with_spread(self.laws_.read_by_estimator(inputs), coords)
        if found is None:
            return None
        mean, spread = (
            self.laws_.with_factor(part, inputs, inputs if coords is None else coords, is_spread=number == 1)
            for number, part in enumerate(found)
        )
        return mean, spread


@dataclass(frozen=True, eq=False)
class _Laws:
    """Laws of the global parameters of a fit.

    Attributes
    ----------
    angles : ndarray of int, shape (k,)
        Numbers of the parameters with a period.
    periods, starts : ndarray of shape (k,)
        Their periods, and the least value within a turn.
    factor : int or None
        Number of the parameter to which targets are proportional.
    offset : float
        Value of the targets where it is zero.
    """

    angles: Any
    periods: FloatArray
    starts: FloatArray
    factor: int | None
    offset: float

    def names(self, names: list[str]) -> list[str]:
        """Names of the parameters that the estimator reads."""
        sines = {int(number): f"sine of {names[number]}" for number in self.angles}
        return [sines.get(number, name) for number, name in enumerate(names)] + [
            f"cosine of {names[number]}" for number in self.angles
        ]

    def within_a_turn(self, inputs: FieldSet) -> FieldSet:
        """Samples with the values of angles in one turn."""
        if not len(self.angles):
            return inputs
        params = np.array(inputs.params, dtype=np.float64)
        for number, period, start in zip(self.angles, self.periods, self.starts, strict=True):
            turned = np.mod(params[:, number], period)
            turned = np.where(turned < start, turned + period, turned)
            params[:, number] = np.where(turned >= start + period, turned - period, turned)
        return inputs.with_params(params)

    def read_by_estimator(self, inputs: FieldSet) -> FieldSet:
        """Samples as the estimator reads them."""
        if not len(self.angles) and self.factor is None:
            return inputs
        params = np.array(inputs.params, dtype=np.float64)
        turns = 2 * np.pi / self.periods * params[:, self.angles]
        params[:, self.angles] = np.sin(turns)
        if self.factor is not None:
            params[:, self.factor] = 1.0
        return inputs.with_params(np.concatenate([params, np.cos(turns)], axis=1))

    def without_factor(self, targets: Targets, inputs: FieldSet) -> Targets:
        """Targets over the factor of each sample."""
        if self.factor is None:
            return targets
        field, scalars, factor = targets.field, targets.scalars, self._factors(inputs)
        if field is not None:
            held = np.asarray(field.values)
            values = (held - self.offset) / _for_values(factor, field)
            # Fields in single precision stay there.
            field = field.with_values(values.astype(np.result_type(held.dtype, np.float32), copy=False))
        if scalars is not None:
            scalars = (np.asarray(scalars, dtype=np.float64) - self.offset) / factor[:, np.newaxis]
        return Targets(field, scalars, targets.elsewhere)

    def with_factor(self, found: Predictions, inputs: FieldSet, places: FieldSet, *, is_spread: bool) -> Predictions:
        """Predictions, or their standard deviations, in physical units."""
        if self.factor is None:
            return found
        factor, offset = self._factors(inputs), self.offset
        if is_spread:
            factor, offset = np.abs(factor), 0.0
        fields, scalars = found.fields, found.scalars
        if fields is not None:
            fields = fields * _for_values(factor, places) + offset
        return Predictions(fields, None if scalars is None else scalars * factor[:, np.newaxis] + offset)

    def _factors(self, inputs: FieldSet) -> FloatArray:
        """Factor of each sample."""
        return np.asarray(inputs.params, dtype=np.float64)[:, self.factor]


KNOWN[_Laws.__name__] = _Laws


def _for_values(factor: FloatArray, places: FieldSet) -> FloatArray:
    """Factors of samples (n,) in a shape that goes with their values, (n, P, q) or (T, q)."""
    return np.repeat(factor, places.n_points)[:, np.newaxis] if places.is_ragged else factor[:, np.newaxis, np.newaxis]


def _start_of_turn(angles: FloatArray, period: float) -> float:
    """Least value of the turn at whose ends the samples have their largest gap."""
    turned = np.sort(np.mod(angles, period))
    gaps = np.diff(np.append(turned, turned[0] + period))
    widest = int(gaps.argmax())
    middle = float(np.mod(turned[widest] + gaps[widest] / 2, period))
    return middle if middle < period / 2 else middle - period


# ---------------------------------------------------------------------- what a file must hold
@checks("LawRegressor")
def _check_law(held: Held) -> None:
    """Check what is fitted around another estimator from a file."""
    if "spec_" not in vars(held.value):
        return
    spec, laws = held.get("spec_"), held.part("laws_", "_Laws")
    check_takes(held, "estimator_", held.get("estimator_"), spec)
    numbers = [*laws.angles.tolist(), *([] if laws.factor is None else [laws.factor])]
    are_known = len(set(numbers)) == len(numbers) and all(0 <= number < spec.n_params for number in numbers)
    held.need(are_known, "laws_", f"laws of {spec.n_params} parameters")


@checks("_Laws")
def _check_laws(held: Held) -> None:
    """Check the laws from a file."""
    count = len(held.array("angles", None, whole=True))
    held.array("periods", count, positive=True)
    held.array("starts", count)
    if held.get("factor") is not None:
        held.whole("factor")
    held.number("offset")
