"""Calibration of conformal bands: which samples are held out, the fits without them, and the scales of their errors.

Notation: n samples, P points, T points of all samples together, q output channels, s scalars.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from skop._jobs import workers_for
from skop._sklearn_compat import final_regressor, last_step
from skop._typing import FloatArray, IntArray
from skop.data import DataSpec, FieldSet, Predictions, TargetForm, Targets, interpolate_fields
from skop.estimators._field import FieldRegressor
from skop.estimators._reading import checked_by_caller
from skop.estimators._wrapper import as_input, asked
from skop.estimators.selection._search import Samples, make_folds, told_by_fold
from skop.estimators.uncertainty._ensemble import EnsembleRegressor
from skop.estimators.uncertainty._scores import KINDS, Pool, check_size, masses, node_counts, starts_of, units_of
from skop.exceptions import FieldDataError, warn
from skop.surrogate._novelty import count_seen
from skop.surrogate._predictions import combined, each_part, joined

__all__ = ["Calibration", "FittedModel"]

#: Part of the held-out samples that estimate a scale; the others calibrate.
_SCALE_SHARE = 1 / 3
#: In the scale of a node, the mean over all nodes counts as this number of samples.
_PRIOR = 4.0
#: Lowest scale of a node, as a part of the root mean square of the scale over the nodes of its sample; and lowest of a
#: learned scale, as a part of that of the errors that it was learned from.
_LOWEST = 1e-2
#: A scale counts as zero if an error exceeds this multiple of it.
_HUGE = 1e100


@dataclass(frozen=True)
class Calibration:
    """What sets the width of a band.

    Attributes
    ----------
    band : ConformalRegressor
        Its parameters are read.
    estimator : estimator
        Estimator to fit, or a `FrozenEstimator`.
    samples : Samples
        Samples, with weights and groups where there are such.
    rows : ndarray of int
        Rows of X that these are, by which the user may have listed folds.
    """

    band: Any
    estimator: Any
    samples: Samples
    rows: IntArray

    def run(self) -> dict[str, Any]:
        """Fit and calibrate, and return the attributes of the fitted band by name."""
        band, samples, groups, scale = self.band, self.samples, self.samples.groups, self._kind_of_scale()
        if self.is_frozen and band.method != "split":
            raise FieldDataError(
                f"method={band.method!r} fits the estimator on folds, but it is a FrozenEstimator; set method='split', "
                "or pass the estimator itself."
            )
        rng = check_random_state(band.random_state)
        calibrated, scaled, train = self._parts(scale, rng)
        own = samples[calibrated]
        mass, rest, heaviest = masses(len(calibrated), own.weight, own.groups)
        count = len(calibrated) if groups is None else len(np.unique(own.groups))
        check_size(band.coverage, count, rest, "samples" if groups is None else "groups")
        folds = [(train, calibrated)] if band.method == "split" else self._folds(calibrated, own.groups, rng)
        member = _Member(self.estimator, scale, self.is_frozen)
        members = [member.seeded(rng) for _ in folds]
        if band.method != "split" and scale != "spread":
            for one in members:
                told_by_fold(one.estimator)
        final = member.seeded(rng)
        by_row = np.empty(len(samples))
        by_row[calibrated] = mass
        # The final fit to all samples of the folds names those that are odd.
        parts = samples if band.method == "split" else replace(samples, names=())
        found = Parallel(n_jobs=workers_for(band.n_jobs, len(folds)))(
            delayed(_fit_member)(one, parts[part], samples[scaled], samples[held], by_row[held], band.guarantee)
            for one, (part, held) in zip(members, folds, strict=True)
        )
        fitted, pools = [one for one, _ in found], [own for _, own in found]
        models, scales = [one.estimator for one in fitted], [one.scale for one in fitted]
        field = samples.targets.field
        attributes: dict[str, Any] = {
            "fold_estimators_": [] if band.method == "split" else models,
            "scales_": scales,
            "lowest_scales_": [one.lowest for one in fitted],
            "points_": np.asarray(field.coords) if field is not None and field.shared_coords else None,
            "n_calibration_": count,
            "coverage_": float(band.coverage),
            "new_weight_": heaviest,
            "new_mass_": rest,
            "scale_kind_": scale if isinstance(scale, str) else "learned",
            "quantiles_": None,
            "pools_": [{kind: [pool.table() for pool in one[kind]] for kind in KINDS} for one in pools],
        }
        if self.is_frozen and (seen := _count_seen(self.estimator.estimator, samples)):
            warn(
                f"{seen} of the {len(samples)} samples were in the fit of {type(self.estimator.estimator).__name__}, "
                "whose errors there are smaller than those of new samples, so that bands are too narrow; calibrate a "
                "FrozenEstimator on samples of no fit."
            )
        if band.method == "split":
            factors = {kind: np.array([pool.quantile(band.coverage) for pool in pools[0][kind]]) for kind in KINDS}
            return attributes | {"estimator_": models[0], "quantiles_": factors}
        with checked_by_caller():
            return attributes | {"estimator_": _fitted(final.estimator, own)}

    @property
    def is_frozen(self) -> bool:
        """Whether the estimator is fitted and stays so."""
        return isinstance(self.estimator, FrozenEstimator)

    def _folds(self, calibrated: IntArray, groups: Any, rng: np.random.RandomState) -> list[tuple[IntArray, IntArray]]:
        """Samples that the fit of each fold is made from, and those that it predicts."""
        cv = self.band.cv
        if self.band.method == "jackknife+":
            cv = LeaveOneOut() if groups is None else LeaveOneGroupOut()
        made = make_folds(cv, len(calibrated), groups, rng, self.rows[calibrated])
        if np.sort(np.concatenate([held for _, held in made])).tolist() != list(range(len(calibrated))):
            raise FieldDataError(f"cv={self.band.cv!r} must hold out each sample once; use KFold or GroupKFold.")
        if any(np.isin(held, part).any() for part, held in made):
            raise FieldDataError(
                f"cv={self.band.cv!r} has folds that train on samples which they hold out, so that errors are not "
                "those of unseen samples and bands would be too narrow; use KFold or GroupKFold."
            )
        return [(calibrated[part], calibrated[held]) for part, held in made]

    def _kind_of_scale(self) -> Any:
        """The scale that is meant, or the estimator that learns it."""
        field, scale = self.samples.targets.field, self.band.scale
        nodes_are_shared = field is None or field.shared_coords
        if not isinstance(scale, str):
            return scale
        if scale == "residuals" and not nodes_are_shared:
            raise FieldDataError(
                "scale='residuals' needs nodes that all samples of y share, but these have points of their own; set "
                "scale='spread', 'constant', or an estimator that learns the size of the errors."
            )
        # Without a field, one width for each scalar is what the quantile gives.
        if scale in ("auto", "residuals"):
            return "residuals" if field is not None and nodes_are_shared else "constant"
        inner = last_step(self.estimator.estimator if self.is_frozen else self.estimator)
        if scale == "spread" and "return_std" not in inspect.signature(inner.predict).parameters:
            raise FieldDataError(
                f"scale='spread' needs an estimator whose predict has return_std, which {type(inner).__name__} has "
                "not; put it in an EnsembleRegressor, or set another scale."
            )
        return scale

    def _parts(self, scale: Any, rng: np.random.RandomState) -> tuple[IntArray, IntArray, IntArray]:
        """Samples that calibrate, that the scale is estimated from, and that the estimator alone is fitted on."""
        band, groups, n_samples = self.band, self.samples.groups, len(self.samples)
        unit = units_of(n_samples, groups)
        order = rng.permutation(unit.max() + 1)
        is_estimated = scale == "residuals" or not isinstance(scale, str)
        n_held = int(np.ceil(band.calibration_size * len(order)))
        if self.is_frozen:
            n_held = len(order)
        n_scaled = int(np.ceil(_SCALE_SHARE * n_held)) if is_estimated else 0
        end = n_held if band.method == "split" else len(order)
        parts = order[n_scaled:end], order[:n_scaled], order[end:]
        calibrated, scaled, train = (np.flatnonzero(np.isin(unit, part)) for part in parts)
        needs_others = band.method == "split" and not self.is_frozen
        if not len(calibrated) or (needs_others and not len(train)):
            what = "samples" if groups is None else "groups"
            raise FieldDataError(
                f"{len(order)} {what} are too few to fit, and to hold out calibration_size={band.calibration_size:g} "
                "of them; pass more."
            )
        return calibrated, scaled, train


# ---------------------------------------------------------------------- models and their scales
@dataclass(frozen=True)
class _Member:
    """An estimator to fit, or a fitted one, and the scale that goes with it."""

    estimator: Any
    scale: Any
    is_frozen: bool

    def seeded(self, rng: np.random.RandomState) -> _Member:
        """Return a copy to fit, with a seed where it has none."""
        seed = int(rng.randint(np.iinfo(np.int32).max))
        estimator = _on_field_sets(self.estimator.estimator) if self.is_frozen else _seeded(self.estimator, seed)
        scale = self.scale if isinstance(self.scale, str) else _seeded(self.scale, seed)
        return _Member(estimator, scale, self.is_frozen)


@dataclass(frozen=True)
class FittedModel:
    """A fitted estimator and its scale: an array at points, an estimator, or None; names of the columns of a table.

    A learned scale has a lowest one of each channel (``"fields"``) and scalar (``"scalars"``), or None in older files.
    """

    estimator: Any
    scale: Any
    lowest: dict[str, FloatArray] | None
    name: str
    points: FloatArray | None
    columns: Any

    def mean_and_scale(
        self, inputs: FieldSet, coords: Any, spec: DataSpec
    ) -> tuple[Predictions, Predictions, FieldSet]:
        """Prediction, its scale, and the points of both."""
        options: dict[str, Any] = {"return_std": True} if self.name == "spread" else {}
        (mean, *sizes), places = asked(self.estimator, inputs, coords, spec, self.columns, **options)
        if self.name == "learned":
            sizes, _ = asked(self.scale, inputs, coords, spec, self.columns)
        if sizes:
            fields, scalars = sizes[0].fields, sizes[0].scalars
            fields = None if fields is None else _raised(fields, places)
            scalars = None if scalars is None else np.maximum(scalars, np.finfo(np.float64).tiny)
            found = Predictions(fields, scalars)
            if self.lowest is not None:
                found = combined(np.maximum, found, Predictions(**self.lowest))
            return mean, found, places
        widths = each_part(np.ones_like, mean)
        if widths.fields is not None and self.scale is not None:
            widths = replace(widths, fields=_scale_at(self.scale, self.points, places))
        return mean, widths, places


def _count_seen(model: Any, samples: Samples) -> int | None:
    """Number of samples whose inputs a fitted model, or the last one in it, has seen; None if it cannot tell."""
    given = as_input(model, samples.inputs, samples.spec, samples.columns)
    regressor, X = final_regressor(model, given)
    if X is given or not isinstance(regressor, FieldRegressor):
        return count_seen(regressor, samples.inputs)
    return count_seen(regressor, regressor._read_inputs(X)[0])


def _seeded(estimator: Any, seed: int) -> Any:
    """Copy an estimator, with a seed where it has none."""
    new = clone(estimator)
    params = new.get_params()
    missing = [name for name in params if name.rpartition("__")[2] == "random_state" and params[name] is None]
    return new.set_params(**dict.fromkeys(missing, seed)) if missing else new


def _on_field_sets(model: Any, *, is_step: bool = False) -> Any:
    """Copy a fitted estimator of skop, so that it takes and gives FieldSets whatever it was fitted on.

    The last step of a Pipeline still takes the tables that the other steps give. A search is its best estimator.
    """
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, Pipeline):
        name, last = model.steps[-1]
        return copy.copy(model).set_params(steps=[*model.steps[:-1], (name, _on_field_sets(last, is_step=True))])
    if not isinstance(model, FieldRegressor) or model.spec_.has_features:
        return model
    new: Any = copy.copy(model)
    names = model.spec_.target_form.channel_names
    is_field = model.spec_.n_outputs > 0
    form = TargetForm("fieldset" if is_field else "array", channel_names=names)
    new.spec_, new.mesh_ = replace(model.spec_, target_form=form), None
    if not (is_step and model.spec_.has_parameters_alone):
        # Parameters on the points of the fit are a FieldSet with these points.
        new.spec_ = replace(new.spec_, input_form="fieldset", role="fields")
        if model.spec_.target_points == "inputs":
            new.coords_ = None
    if isinstance(model, EnsembleRegressor):
        new.estimators_ = [_on_field_sets(member, is_step=is_step) for member in model.estimators_]
    return new


def _fitted(estimator: Any, samples: Samples) -> Any:
    """Fit an estimator, with weights if it takes them."""
    if not has_fit_parameter(estimator, "sample_weight"):
        samples = replace(samples, weight=None)
    return samples.fit_one_of_several(estimator)


def _fit_member(
    member: _Member, train: Samples, scaled: Samples, held: Samples, mass: FloatArray, guarantee: str
) -> tuple[FittedModel, dict[str, list[Pool]]]:
    """Fit an estimator and its scale; also return the scores of held-out samples of these masses."""
    with checked_by_caller():
        model = member.estimator if member.is_frozen else _fitted(member.estimator, train)
        scale, lowest, name = None, None, member.scale
        if not isinstance(name, str):
            errors, field = _all_errors(scaled, model), scaled.targets.field
            sizes = None if field is None else field.with_values(errors.fields)
            targets = Targets(sizes, errors.scalars, scaled.targets.elsewhere)
            scale, name = _fitted(member.scale, replace(scaled, targets=targets, names=())), "learned"
            lowest = _lowest_of(errors)
        elif name == "residuals":
            scale = _node_scale(scaled, model)
        field = held.targets.field
        points = None if field is None or name != "residuals" else field.coords
        fitted = FittedModel(model, scale, lowest, name, points, held.columns)
        return fitted, _scores(fitted, held, mass, guarantee)


def _scores(fitted: FittedModel, held: Samples, mass: FloatArray, guarantee: str) -> dict[str, list[Pool]]:
    """Scores of each channel and scalar of held-out samples, with masses; samples in files are read by pieces."""
    pools: dict[str, list[Pool]] = {kind: [] for kind in KINDS}
    for rows, part in held.pieces():
        places = part.targets.field if part.targets.elsewhere else None
        mean, widths, _ = fitted.mean_and_scale(part.inputs, places, part.spec)
        with np.errstate(over="ignore"):
            ratios = combined(np.divide, _errors(part, mean), widths)
        for kind in KINDS:
            if (ratio := getattr(ratios, kind)) is None:
                continue
            if ratio.max() > _HUGE:
                is_spread = fitted.name == "spread"
                raise FieldDataError(
                    f"the scale by {'the spread' if is_spread else type(fitted.scale).__name__} is zero in a whole "
                    "sample, where there are errors; for an EnsembleRegressor, set n_members to 2 or more, and "
                    "base=None in its estimator. Or set scale='residuals' or 'constant'."
                )
            ratio, own = ratio.reshape(-1, ratio.shape[-1]), mass[rows]
            counts = node_counts(part.targets, kind)
            if guarantee == "simultaneous":
                ratio = np.asarray(np.maximum.reduceat(ratio, starts_of(counts), axis=0))
            else:
                own = np.repeat(own / counts, counts)
            pools[kind] = pools[kind] or [Pool() for _ in range(ratio.shape[-1])]
            for pool, column in zip(pools[kind], ratio.T, strict=True):
                pool.add(column, own)
    return pools


def _errors(samples: Samples, found: Predictions) -> Predictions:
    """Absolute errors of predictions of samples."""
    field, scalars = samples.targets.field, samples.targets.scalars
    return Predictions(
        None if field is None else np.abs(np.asarray(field.values, np.float64) - np.asarray(found.fields)),
        None if scalars is None else np.abs(np.asarray(scalars, np.float64) - np.asarray(found.scalars)),
    )


def _all_errors(samples: Samples, model: Any) -> Predictions:
    """Absolute errors of a model at all samples."""
    return joined([_errors(part, part.predicted_by(model)) for _, part in samples.pieces()])


def _node_scale(samples: Samples, model: Any) -> FloatArray:
    """Root mean square of the errors of a model at each node, drawn towards that of all nodes, ``(P, q)``."""
    total: Any = 0.0
    for _, part in samples.pieces():
        total = total + (np.asarray(_errors(part, part.predicted_by(model)).fields) ** 2).sum(axis=0)
    everywhere = total.mean(axis=0) / len(samples)
    scale = np.sqrt((total + _PRIOR * everywhere) / (len(samples) + _PRIOR))
    return np.where(everywhere > 0, scale, 1.0)


def _lowest_of(errors: Predictions) -> dict[str, FloatArray]:
    """Lowest scale of each channel and scalar that is learned from errors."""
    parts = [np.ones((1, 0)) if part is None else np.asarray(part) for part in (errors.fields, errors.scalars)]
    sizes = [np.sqrt(np.square(part).mean(axis=tuple(range(part.ndim - 1)))) for part in parts]
    return {kind: _LOWEST * size for kind, size in zip(KINDS, sizes, strict=True)}


def _raised(sizes: FloatArray, places: FieldSet) -> FloatArray:
    """Sizes (n, P, q) or (T, q), raised where they are much lower than those of other nodes of the sample."""
    flat = np.maximum(sizes.reshape(-1, sizes.shape[-1]), 0.0)
    counts = np.asarray(places.n_points)
    squares = np.add.reduceat(flat**2, starts_of(counts), axis=0) / counts[:, None]
    lowest = np.maximum(_LOWEST * np.sqrt(squares), np.finfo(np.float64).tiny)
    return np.maximum(flat, np.repeat(lowest, counts, axis=0)).reshape(sizes.shape)


def _scale_at(scale: FloatArray, points: FloatArray | None, places: FieldSet) -> FloatArray:
    """Scale (P, q) of nodes at the points of samples, (n, P, q) or (T, q)."""
    if places.shared_coords:
        # Without an interpolation for each sample.
        found = interpolate_fields(FieldSet(np.asarray(points), scale[None]), places[:1])
        return np.broadcast_to(found, (len(places), *found.shape[1:]))
    copies = np.broadcast_to(scale, (len(places), *scale.shape))
    return interpolate_fields(FieldSet(np.asarray(points), copies), places)
