"""A base model under an operator: a classical model with which the network is combined.

If the base is good, the network learns its residual: the prediction of the base is a further input, and the output of
the network is added to it. A base that interpolates has no residual on its own samples, so the training uses
predictions of samples that the base has not seen. If the base is rough, the network learns the whole map. In both cases
the share of the network is chosen on samples that neither has seen.

Everything here is in standardised units: those of the network's own outputs, to which the targets are scaled.

Notation: n samples, P points, B samples of a batch, Q query points, c input channels, q output channels, s scalars.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

import joblib
import numpy as np
import torch
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils import gen_batches

from skop._typing import FloatArray, GridShape, IntArray
from skop.data import FieldSet, Predictions, Scalers, Targets, TrainingData, interpolate_fields, query_points
from skop.estimators._field import FieldRegressor, fit_one_of_several
from skop.estimators._reading import checked_by_caller
from skop.estimators._weights import counts_as_weight, weight_option
from skop.estimators.classical._components import OF_USE, mean_of
from skop.estimators.classical._copies import groups_of_same_inputs, groups_on_same_points, linked, merged
from skop.estimators.classical._last_frame import LastFrame
from skop.estimators.classical._model_search import Units
from skop.estimators.classical._nodes import keep_their_distances
from skop.estimators.classical._odd_runs import warn_of_an_odd_run
from skop.estimators.classical._pod import PODRegressor, warn_of_new_values
from skop.estimators.files._file_checks import Held, checks
from skop.estimators.files._persistence import KNOWN
from skop.estimators.fitting._comparison import ROUNDING, is_better_than_mean, pairs
from skop.exceptions import FieldDataError, SkopWarning, warn
from skop.surrogate._images import Exchange
from skop.surrogate._predictions import rows_of

__all__ = [
    "BaseModel",
    "remainder_sizes",
    "shared_between_fits",
    "standardized",
]

#: Learn the residual of the base if its error is below this part of the variation, else the whole map: the residual of
#: a rough base is as hard to learn as the map.
_SMALL_REST = 0.02
#: Folds of the cross-validation of models without a closed form of leave-one-out.
_FOLDS = 5
#: Nodes do not correspond if their distances correlate with those of the fit by less than this.
_OTHERS = 0.25
#: Points that differ by less than this part of their extent are the same.
_SAME_POINTS = 1e-6
#: Numbers that are standardised at once.
_CACHED = 2**17
#: Points of the fit may lie outside the box of a sample by this number of its spacings.
_MARGIN = 2.0
#: Number of base models that are kept for further fits: one on grids, one on points.
_MOST_KEPT = 2
#: Base models of the last fits and their predictions of unseen samples, by hashes of the data; None outside of
#: `shared_between_fits`.
_KEPT: ContextVar[dict[str, Any] | None] = ContextVar("kept base model", default=None)


@contextmanager
def shared_between_fits() -> Iterator[None]:
    """Within this context, fit a base model that is given by name only once for successive fits to the same samples.

    Such models do not depend on random numbers, so the results equal those of separate fits.
    """
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


@dataclass(eq=False)
class BaseModel:
    """A fitted base model.

    Attributes
    ----------
    estimator : FieldRegressor
        Model of the standardised targets.
    error : float
        L2 error of its predictions for unseen samples, over all samples together, relative to their variation about
        the mean, times the factor for the search for length scales.
    points : ndarray of shape (P, d) or None
        Points of its inputs; None if samples have points of their own.
    grid_shape : tuple of int or None
        Number of these points along each axis, if they form a grid.
    target_points : ndarray of shape (Q, d) or None, default=None
        Points of its outputs, if these are others.
    target_grid : tuple of int or None, default=None
        Number of the points of its outputs along each axis, if they form a grid.
    leaves_rest : bool, default=True
        Whether the network learns the residual of the base; otherwise it learns the whole map.
    nodes : object or None, default=None
        Numbering of the nodes of samples with points of their own, if its only inputs are the global parameters.
    keeps_distances : bool, default=False
        Whether distances between nodes were alike in all samples of the fit with points of their own.
    is_useful : bool, default=True
        Whether it predicts one of the outputs of unseen samples better than their mean does, beyond chance.
    images : ndarray of shape (k, d, d) or None, default=None
        Matrices of the symmetries to whose images of the samples it was fitted, where predictions are averaged.
    exchange : Exchange or None, default=None
        Images over which its predictions are averaged; None in files, and in a fit.
    """

    estimator: FieldRegressor
    error: float
    points: FloatArray | None
    grid_shape: GridShape | None
    target_points: FloatArray | None = None
    target_grid: GridShape | None = None
    leaves_rest: bool = True
    nodes: Any = None
    keeps_distances: bool = False
    is_useful: bool = True
    images: FloatArray | None = None
    exchange: Exchange | None = None

    @classmethod
    def fit(
        cls,
        kind: Any,
        data: TrainingData,
        used: IntArray,
        units: Units | None = None,
        weight: FloatArray | None = None,
        n_frames: int = 1,
        groups: IntArray | None = None,
        last_frame: int | None = None,
    ) -> tuple[BaseModel, Predictions]:
        """Fit a base model, and predict samples as if each had not been in the fit.

        Parameters
        ----------
        kind : {"auto", "linear", "pod"} or FieldRegressor
            Model: chosen by leave-one-out errors, linear, chosen likewise, or a given one.
        data : TrainingData
            Samples, with standardised targets.
        used : ndarray of int
            Indices of the samples that are used.
        units : tuple of (ndarray of shape (q + s,)), or None, default=None
            Shift and factor by which the standardised targets become physical ones, whose logarithms a model may take;
            None if they are to have none.
        weight : ndarray of shape (n,) or None, default=None
            Weights of the samples.
        n_frames : int, default=1
            Number of successive samples that are the frames of one run.
        groups : ndarray of int, shape (n,), or None, default=None
            Numbers of the groups of samples that belong together otherwise.
        last_frame : int or None, default=None
            Number of the first channel of the last frame among the inputs, if samples are time steps; needs units.

        Returns
        -------
        model : BaseModel
            Model that was fitted to all used samples.
        unseen : Predictions
            Predictions of samples by models that were fitted without their runs or groups, and samples of the same
            inputs; zero for unused samples.
        """
        kept, further = _KEPT.get(), (units, weight, n_frames, groups, last_frame)
        if kept is None or not isinstance(kind, str) or not (data.inputs.in_memory and data.targets.in_memory):
            model, unseen = cls._fit(kind, data, used, *further)
            model.warn_of_new_values()
            return model, unseen
        key = joblib.hash((kind, used, data.inputs, data.targets, data.spec.network_spec, *further))
        if key not in kept:
            while len(kept) >= _MOST_KEPT:
                kept.pop(next(iter(kept)))
            kept[key] = cls._fit(kind, data, used, *further)
        model, unseen = kept[key]
        model.warn_of_new_values()
        # A warm start changes attributes of the base model.
        return replace(model), unseen

    @classmethod
    def _fit(
        cls,
        kind: Any,
        data: TrainingData,
        used: IntArray,
        units: Units | None,
        weight: FloatArray | None,
        n_frames: int,
        groups: IntArray | None,
        last_frame: int | None,
    ) -> tuple[BaseModel, Predictions]:
        """Fit a base model, and predict samples as if each had not been in the fit."""
        _refuse_others_than_estimators(kind)
        frame = None if last_frame is None or units is None else LastFrame(last_frame, *units)
        # Without units, standardised targets that happen to be positive have no logarithms.
        nothing = np.zeros(data.targets.n_outputs + data.targets.n_scalars)
        units = (nothing, nothing) if units is None else units
        whole = TrainingData(data.inputs[used], data.targets[used], data.spec.network_spec)
        # A copy of a left-out sample in the fit would make its prediction too good.
        own = None if weight is None else weight[used]
        chosen, group, counts, runs = merged(whole, own, has_runs=n_frames > 1 or groups is not None)
        called, first = data.called, used[np.unique(group, return_index=True)[1]]
        chosen = replace(chosen, names=tuple(called[row] for row in first))
        merged_weight = counts_as_weight(kind, own, counts)
        if groups is not None:
            runs = _runs_of(linked(group, np.unique(groups[used], return_inverse=True)[1]), group)
        elif n_frames > 1:
            runs = _runs_of(used // n_frames, group)
        # A sample on the points of others would tell nothing of new points.
        together = groups_on_same_points(chosen.inputs, runs)
        runs = runs if together is None else together
        with checked_by_caller():
            estimator, nodes, found = _fit_kind(kind, chosen, units, merged_weight, runs, frame)
        is_useful = is_better_than_mean(found, chosen.targets, merged_weight, runs)
        found = rows_of(found, group)
        error, seen = (_relative_error(found, whole.targets, own, by) for by in (_handicaps(estimator), None))
        shared = data.inputs.shared_coords
        model = cls(estimator, error, data.inputs.coords if shared else None, data.inputs.grid_shape, nodes=nodes)
        # What the network learns has no such factor.
        model.leaves_rest, model.is_useful = seen < _SMALL_REST and frame is None, is_useful
        model.keeps_distances = not shared and keep_their_distances(whole.inputs)
        if data.targets.elsewhere and data.targets.field is not None:
            model.target_points, model.target_grid = data.targets.field.coords, data.targets.field.grid_shape
        return model, _spread_to_all(found, used, len(data.inputs))

    def warn_of_new_values(self) -> None:
        """Warn where the error says little of new values of a parameter."""
        if isinstance(self.estimator, PODRegressor):
            warn_of_new_values(self.estimator)

    def predict(self, inputs: FieldSet, places: FieldSet | None = None) -> Predictions:
        """Predict at points of the samples.

        Parameters
        ----------
        inputs : FieldSet
            Samples.
        places : FieldSet or None, default=None
            Points of the predictions; None takes those of the samples.

        Returns
        -------
        Predictions
            Standardised outputs.
        """
        seen = self._on_own_points(inputs)
        try:
            with checked_by_caller():
                found = self._mean_of_images(seen)
        except FieldDataError as error:
            raise FieldDataError(
                f"the base of this estimator cannot predict X, since {error} Or fit with base=None."
            ) from error
        places = inputs if places is None else places
        if self.target_points is not None:
            return self.at(found, places)
        if found.fields is None or (places is inputs and self.has_own_points(inputs)):
            return found
        if (frame := self.last_frame) is not None:
            # The last frame is known on the points of the samples, which may be finer.
            found = replace(found, fields=found.fields - frame.of(seen, has_field=True))
        found = replace(found, fields=interpolate_fields(seen.with_values(found.fields), places))
        return found if frame is None else frame.added(found, inputs, places)

    @property
    def last_frame(self) -> LastFrame | None:
        """Last frame among the inputs, to which its changes are added; None if it learned frames."""
        found: LastFrame | None = getattr(self.estimator, "last_frame_", None)
        return found

    def _mean_of_images(self, seen: FieldSet) -> Predictions:
        """Predictions at the own points, averaged over the images of the samples if they have any."""
        if (exchange := self.exchange) is None:
            return self.estimator._predict_values(self._as_read(seen))

        def predict(number: int) -> list[torch.Tensor | None]:
            """Predictions of one image."""
            found = self.estimator._predict_values(self._as_read(exchange.inputs(number, seen)))
            return [None if part is None else torch.from_numpy(part) for part in (found.fields, found.scalars)]

        return Predictions(*(None if part is None else part.numpy() for part in exchange.mean(predict)))

    def predict_known(self, inputs: FieldSet, places: FieldSet | None = None) -> Predictions:
        """Predict like `predict`, with NaN for samples whose nodes do not correspond to those of the fit.

        Parameters
        ----------
        inputs, places
            Arguments of `predict`.

        Returns
        -------
        Predictions
            Standardised outputs.
        """
        known = self.knows(inputs)
        if known.all() and not inputs.is_ragged:
            return self.predict(inputs, places)
        parts: list[list[FloatArray]] = [[], []]
        n_outputs, n_scalars = self.estimator.spec_.n_outputs, self.estimator.spec_.n_scalars
        for number, coords in enumerate(inputs.coords_list()):
            one, at = inputs[[number]], None if places is None else places[[number]]
            if known[number]:
                values = None if one.values is None else np.asarray(one.values).reshape(1, len(coords), -1)
                found = self.predict(FieldSet(coords[np.newaxis], values, params=one.params), at)
            else:
                count = int((one if at is None else at).n_points[0])
                found = Predictions(np.full((1, count, n_outputs), np.nan), np.full((1, n_scalars), np.nan))
            parts[0].append(np.empty(0) if found.fields is None else found.fields.reshape(-1, n_outputs))
            parts[1].append(np.empty(0) if found.scalars is None else found.scalars)
        fields: Any = np.concatenate(parts[0]) if n_outputs else None
        if n_outputs and not (inputs if places is None else places).is_ragged:
            fields = fields.reshape(len(inputs), -1, n_outputs)
        if not known.all():
            warn(
                "the nodes of some samples do not correspond to those of the fit, so that the network alone predicts "
                f"them, without its base, a {type(self.estimator).__name__}. Errors there may be larger; if such "
                "samples are common, fit with base=None.",
                SkopWarning,
            )
        return Predictions(fields, np.concatenate(parts[1]) if n_scalars else None)

    def knows(self, inputs: FieldSet) -> Any:
        """Whether the nodes of each sample correspond to those of the fit, or need not, as an array ``(n,)``."""
        found, nodes = np.ones(len(inputs), dtype=bool), self._numbering
        if nodes is not None:
            for number, coords in enumerate(inputs.coords_list()):
                found[number] = coords.shape == nodes.first.shape and _is_numbered_alike(nodes, coords)
                found[number] = found[number] and nodes.covers(coords) and not self._are_others(coords)
        return found

    def _are_others(self, coords: FloatArray) -> bool:
        """Whether distances between the nodes (P, d) of a sample are unlike those of the fit, where they were alike.

        On meshes of some ten nodes, the test of neighbours does not apply.
        """
        nodes = self._numbering
        return self.keeps_distances and nodes is not None and _likeness(nodes.first, coords) < _OTHERS

    @property
    def _numbering(self) -> Any:
        """Numbering of the nodes, if these must correspond to those of the fit."""
        return None if self.points is not None else self.nodes or getattr(self.estimator, "numbering_", None)

    def predict_tensors(
        self, params: torch.Tensor, inputs: FieldSet
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Predict from global parameters, so that gradients flow to them.

        Parameters
        ----------
        params : Tensor of shape (n, p)
            Global parameters in physical units, in double precision.
        inputs : FieldSet
            The samples, whose fields are used.

        Returns
        -------
        tuple of (Tensor or None)
            Fields ``(n, P, q)`` at the points of the samples, and scalars ``(n, s)``.

        Raises
        ------
        FieldDataError
            If the base model is none whose derivatives are known, or the samples are on other points.
        """
        if not isinstance(self.estimator, PODRegressor):
            raise FieldDataError(
                f"gradient needs a base whose derivatives are known, and base is a {type(self.estimator).__name__}; "
                "fit with base='pod' or None."
            )
        is_on_grid = self.estimator.spec_.resampler is not None
        if self.target_points is not None or is_on_grid or not self.has_own_points(inputs):
            raise FieldDataError(
                "gradient does not go through the interpolation of a base; take X, and y of the fit, on the points of "
                "X of the fit, without a grid of the base, or fit with base=None."
            )
        seen, exchange = self._on_own_points(inputs).with_grid(self.grid_shape), self.exchange
        if exchange is None:
            return self._tensors(params, seen)
        return exchange.mean(lambda each: self._tensors(exchange.params(each, params), exchange.inputs(each, seen)))

    def _tensors(self, params: torch.Tensor, seen: FieldSet) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Fields and scalars of samples on the own points, differentiable with respect to the parameters."""
        rows = cast("PODRegressor", self.estimator)._predict_tensor(params, self._as_read(seen))
        n_outputs, n_scalars = self.estimator.spec_.n_outputs, self.estimator.spec_.n_scalars
        field = rows[:, : rows.shape[1] - n_scalars].reshape(len(rows), -1, n_outputs) if n_outputs else None
        return field, rows[:, rows.shape[1] - n_scalars :] if n_scalars else None

    def at(self, found: Predictions, places: FieldSet) -> Predictions:
        """Interpolate predictions on the points of the targets to others.

        Parameters
        ----------
        found : Predictions
            Predictions of n samples.
        places : FieldSet
            Points of n samples.

        Returns
        -------
        Predictions
            The same there.
        """
        if self.target_points is None or found.fields is None:
            return found
        fields = FieldSet(self.target_points, found.fields, grid_shape=self.target_grid)
        return replace(found, fields=interpolate_fields(fields, places))

    def _on_own_points(self, inputs: FieldSet) -> FieldSet:
        """Return the samples on the points of the base model, to which their fields are interpolated."""
        if self.has_own_points(inputs):
            if self.points is None and inputs.shared_coords:
                # The base reads the points of each sample, also where all have the same.
                coords = np.broadcast_to(inputs.coords, (len(inputs), *inputs.coords.shape))
                held: dict[str, Any] = {"params": inputs.params, "grid_shape": inputs.grid_shape}
                inputs = FieldSet(coords, inputs.values, **held)
            # Networks that read points pass samples without their grid.
            is_other = inputs.grid_shape is not None and self.grid_shape is not None
            return inputs if is_other or inputs.grid_shape == self.grid_shape else inputs.with_grid(self.grid_shape)
        if inputs.n_channels:
            return query_points(self.points, inputs, self._reach(inputs)).with_grid(self.grid_shape)
        params: Any = inputs.params
        return FieldSet(self.points, None, params=params, grid_shape=self.grid_shape)

    def _as_read(self, seen: FieldSet) -> FieldSet:
        """Return the samples as the model reads them: without their points where it takes the parameters alone."""
        if (nodes := self._numbering) is None:
            return seen
        if seen.is_ragged or seen.coords.shape[1:] != nodes.first.shape:
            counts = " or ".join(map(str, np.unique(seen.n_points)[:3]))
            raise FieldDataError(
                f"a {type(self.estimator).__name__} was fitted on samples of {len(nodes.first)} nodes that correspond, "
                f"and X has samples of {counts}; pass samples with the nodes of the fit."
            )
        others = [number for number, coords in enumerate(seen.coords_list()) if self._are_others(coords)]
        if others:
            raise FieldDataError(
                f"the nodes of the sample of index {others[0]} are numbered in another order than those of the fit, or "
                "are others: distances between them are unlike those of the fit; number them as in the fit."
            )
        if self.nodes is None:
            return seen
        nodes.check(seen.coords)
        return _at_nodes(seen, nodes.first)

    def _reach(self, inputs: FieldSet) -> tuple[FloatArray, FloatArray]:
        """Box of the own points, which may reach out of those of the samples by their spacing, as finer grids do."""
        points: Any = self.points
        box = points.min(axis=0), points.max(axis=0)
        corners = [(own.min(axis=0), own.max(axis=0), len(own)) for own in _point_sets(inputs)]
        for number, (lower, upper, count) in enumerate(corners):
            sizes = inputs.grid_shape or (count ** (1 / inputs.n_dims),) * inputs.n_dims
            spacing = (upper - lower) / np.maximum(np.asarray(sizes) - 1, 1)
            outside = np.maximum(lower - box[0], box[1] - upper)
            if (outside > _MARGIN * spacing).any():
                raise FieldDataError(
                    f"the points of {'X' if inputs.shared_coords else f'sample {number}'} run from {_words(lower)} to "
                    f"{_words(upper)}, and those of the fit from {_words(box[0])} to {_words(box[1])}, where the base "
                    "needs the input fields; pass fields on the whole domain of the fit, or fit with base=None."
                )
        return box

    def has_own_points(self, inputs: FieldSet) -> bool:
        """Whether the samples are on the points of the base model, or it reads those of each sample."""
        points = self.points
        if points is None:
            return True
        if not inputs.shared_coords or inputs.coords.shape != points.shape:
            return False
        return np.allclose(inputs.coords, points, rtol=0, atol=_SAME_POINTS * float(np.ptp(points)))


def _is_numbered_alike(nodes: Any, coords: FloatArray) -> bool:
    """Whether the nodes (P, d) of a sample are numbered as in the fit."""
    try:
        nodes.check(coords[np.newaxis])
    except FieldDataError:
        return False
    return True


KNOWN[BaseModel.__name__] = BaseModel


def _point_sets(inputs: FieldSet) -> list[FloatArray]:
    """Points of each sample; one set if all share them."""
    return [inputs.coords] if inputs.shared_coords else inputs.coords_list()


def _words(corner: FloatArray) -> str:
    """A corner to three digits."""
    return "(" + ", ".join(f"{number:.3g}" for number in corner) + ")"


def standardized(targets: Targets, scalers: Scalers) -> Targets:
    """Return targets in standardised units.

    Parameters
    ----------
    targets : Targets
        Targets in physical units.
    scalers : Scalers
        Scalers of a fit.

    Returns
    -------
    Targets
        Scaled fields and scalars.
    """
    field, scalars = targets.field, targets.scalars
    if field is not None and scalers.target is not None:
        values: Any = field.values
        field = field.with_values(_deviations(values, scalers.target))
    if scalars is not None and scalers.scalars is not None:
        scalars = _deviations(scalars, scalers.scalars)
    return Targets(field, scalars, targets.elsewhere)


def _deviations(values: Any, scaler: Any) -> FloatArray:
    """Values in standardised units, zero where they differ from the mean by rounding.

    A channel that does not vary would otherwise have the size of its rounding, by which relative errors divide.
    """
    found = np.empty(np.shape(values))
    mean = scaler.destandardize(torch.zeros((1, *found.shape[1:]), dtype=torch.float64))
    least = ROUNDING * mean.abs()
    # A part at a time stays in the cache.
    for rows in gen_batches(len(found), max(1, _CACHED // max(1, found[:1].size))):
        scaled = scaler.transform(torch.from_numpy(_as_doubles(values[rows])))
        is_rounding = (scaler.destandardize(scaled) - mean).abs_() <= least
        found[rows] = scaled.masked_fill_(is_rounding, 0.0).numpy()
    return found


def _as_doubles(values: Any) -> FloatArray:
    """Copy of an array in double precision."""
    return np.array(values, dtype=np.float64)


def remainder_sizes(
    unseen: Predictions, targets: Targets, rows: IntArray, weight: FloatArray | None = None
) -> tuple[FloatArray | None, FloatArray | None]:
    """Root mean square of the residual of a base model, for each channel and each scalar; 1 where it is zero.

    Parameters
    ----------
    unseen : Predictions
        Predictions for samples that the model has not seen.
    targets : Targets
        True values.
    rows : ndarray of int
        Indices of the samples that count.
    weight : ndarray of shape (n,) or None, default=None
        Weights of all samples.

    Returns
    -------
    tuple of (ndarray or None)
        Sizes ``(q,)`` of the channels and ``(s,)`` of the scalars.
    """
    sizes: list[FloatArray | None] = [None, None]
    for number, (found, true) in enumerate(pairs(unseen, targets)):
        if found is not None:
            left = (true[rows] - found[rows]).reshape(-1, true.shape[-1])
            own = None if weight is None else np.repeat(weight[rows], len(left) // len(rows))
            size = np.sqrt(mean_of(left**2, own))
            sizes[number] = np.where(size > 0, size, 1.0)
    return sizes[0], sizes[1]


def _relative_error(
    found: Predictions, targets: Targets, weight: FloatArray | None, factors: Sequence[FloatArray] | None = None
) -> float:
    """Error relative to the variation, with equal weight for all channels and scalars that vary.

    Factors are those of the errors of channels and of scalars.
    """
    parts = []
    for number, (own, true) in enumerate(pairs(found, targets)):
        if own is not None:
            left, true = (part.reshape(-1, true.shape[-1]) for part in (true - own, true))
            each = None if weight is None else np.repeat(weight, len(true) // len(weight))
            whole = _sum_of((true - mean_of(true, each)) ** 2, each)
            varies = whole > ROUNDING**2 * _sum_of(true**2, each)
            left = left if factors is None else factors[number] * left
            parts.append(_sum_of(left**2, each)[varies] / whole[varies])
    rest = np.concatenate(parts)
    # Where nothing varies, there is nothing to explain.
    return float(np.sqrt(np.mean(rest))) if len(rest) else 0.0


def _handicaps(estimator: Any) -> list[FloatArray]:
    """Factors of the left-out errors of channels and of scalars for the search for length scales, 1 without one."""
    found = [np.ones(count) for count in (estimator.spec_.n_outputs, estimator.spec_.n_scalars)]
    for model in estimator.models_ if isinstance(estimator, PODRegressor) else ():
        for factors, numbers in zip(found, model.outputs, strict=True):
            factors[numbers] = model.handicap
    return found


def _sum_of(rows: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Sum over rows times their weights."""
    return np.asarray(np.sum(rows, axis=0) if weight is None else weight @ rows)


# ---------------------------------------------------------------------- fits
def _refuse_others_than_estimators(kind: Any) -> None:
    """Refuse what is neither a name of a base model nor an estimator of skop."""
    if isinstance(kind, type):
        raise FieldDataError(f"base is the class {kind.__name__}, but an estimator is needed: {kind.__name__}().")
    if not isinstance(kind, (str, FieldRegressor)):
        raise FieldDataError(
            f"base is a {type(kind).__name__}, which is no estimator of skop; use "
            f"base=PODRegressor(regressor={type(kind).__name__}(...)), another estimator of skop, or base='auto'."
        )


def _classical(kind: str) -> Any:
    """Return the classical model of a name, not fitted."""
    return PODRegressor(regressor="ridge") if kind == "linear" else PODRegressor()


def _runs_of(runs: IntArray, group: IntArray) -> IntArray:
    """Numbers of the runs of merged samples, to which those of `group` belong."""
    found = np.empty(group.max() + 1, dtype=int)
    found[group] = runs
    return np.asarray(np.unique(found, return_inverse=True)[1])


def _fit_kind(
    kind: Any,
    data: TrainingData,
    units: Units,
    weight: FloatArray | None,
    runs: IntArray | None,
    frame: LastFrame | None,
) -> tuple[Any, Any, Predictions]:
    """Fit a kind of base; return it, the numbering of nodes that it does not read, and unseen predictions."""
    estimator, nodes = _classical(kind) if isinstance(kind, str) else clone(kind), None
    if isinstance(estimator, PODRegressor) and estimator.grid == "auto":
        # Only samples with corresponding nodes have a base.
        estimator.set_params(grid=None)
    # Within the fit of an operator, scikit-learn skips the parameter checks of inner estimators.
    for part in () if isinstance(kind, str) else (estimator, *estimator.get_params().values()):
        if isinstance(part, FieldRegressor):
            part._validate_params()
    found = _fit_and_predict_unseen(estimator, data, units, weight, runs, frame)
    if isinstance(kind, str) and (by_params := _by_params_alone(data)) is not None:
        other = _classical(kind)
        again = _fit_and_predict_unseen(other, by_params, units, weight, runs)
        errors = [_relative_error(part, data.targets, weight) for part in (again, found)]
        if OF_USE * errors[0] <= errors[1]:
            found, nodes, estimator, data = again, estimator.numbering_, other, by_params
    if isinstance(estimator, PODRegressor):
        warn_of_an_odd_run(estimator, data, runs, weight, units, frame)
    return estimator, nodes, found


def _fit_on(
    estimator: Any,
    data: TrainingData,
    units: Any = None,
    weight: Any = None,
    runs: IntArray | None = None,
    frame: LastFrame | None = None,
) -> None:
    """Fit an estimator to samples that have been read."""
    if isinstance(estimator, PODRegressor):
        estimator._fit(data, runs, units, weight, frame)
        return
    X: Any = data.inputs.params if data.spec.has_features else data.inputs
    fit_one_of_several(lambda: estimator.fit(X, _as_y(data.targets), **weight_option(estimator, weight)))


def _at_nodes(inputs: FieldSet, nodes: FloatArray) -> FieldSet:
    """Global parameters of samples with points of their own, on points that all share."""
    params: Any = inputs.params
    return FieldSet(nodes, None, params=params)


def _by_params_alone(data: TrainingData) -> TrainingData | None:
    """Samples with points of their own without these; None if their parameters do not tell them apart."""
    inputs = data.inputs
    if inputs.shared_coords or inputs.n_channels or inputs.params is None:
        return None
    found = _at_nodes(inputs, _as_doubles(inputs.coords[0]))
    if groups_of_same_inputs(found).max() + 1 < len(inputs):
        return None
    return replace(data, inputs=found, spec=replace(data.spec, grid_shape=None))


def _as_y(targets: Targets) -> Any:
    """Targets as the y of a fit: a FieldSet with scalars as its params, or scalars alone."""
    return targets.scalars if targets.field is None else targets.field.with_params(targets.scalars)


def _likeness(first: FloatArray, coords: FloatArray) -> float:
    """Correlation of the distances between nodes (P, d) of two samples; 1 where there are too few of them."""
    if len(first) < 4:
        return 1.0
    nodes = np.unique(np.linspace(0, len(first) - 1, 64).astype(int))
    one, other = (part - part.mean() for part in (pdist(_as_doubles(held)[nodes]) for held in (first, coords)))
    size = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / size if size > 0 else 1.0


def _fit_and_predict_unseen(
    estimator: Any,
    data: TrainingData,
    units: Units | None,
    weight: FloatArray | None,
    runs: IntArray | None,
    frame: LastFrame | None = None,
) -> Predictions:
    """Fit an estimator, and predict each sample by a model that was fitted without it, and without its run."""
    _fit_on(estimator, data, units, weight, runs, frame)
    if isinstance(estimator, PODRegressor):
        return estimator._leave_one_out(data, weight, runs)
    numbers = np.arange(len(data.inputs)) if runs is None else runs
    n_samples = int(numbers.max()) + 1
    if n_samples < 2:
        raise FieldDataError("a base model needs at least 2 samples, got 1; set base=None.")
    parts: list[tuple[IntArray, Predictions]] = []
    for _, out in KFold(min(_FOLDS, n_samples), shuffle=True, random_state=0).split(np.arange(n_samples)):
        is_held = np.isin(numbers, out)
        seen, held = np.flatnonzero(~is_held), np.flatnonzero(is_held)
        model = clone(estimator)
        part = None if weight is None else weight[seen]
        _fit_on(model, TrainingData(data.inputs[seen], data.targets[seen], data.spec), weight=part)
        parts.append((held, model._predict_values(data.inputs[held])))
    order = np.argsort(np.concatenate([held for held, _ in parts]))
    columns = [[getattr(found, name) for _, found in parts] for name in ("fields", "scalars")]
    return Predictions(*(None if held[0] is None else np.concatenate(held)[order] for held in columns))


def _spread_to_all(found: Predictions, used: IntArray, n_samples: int) -> Predictions:
    """Predictions of all samples, zero for unused ones."""
    parts = []
    for held in (found.fields, found.scalars):
        whole = None
        if held is not None:
            whole = np.zeros((n_samples, *held.shape[1:]))
            whole[used] = held
        parts.append(whole)
    return Predictions(*parts)


# ---------------------------------------------------------------------- what a file must hold
@checks("BaseModel")
def _check_base_model(held: Held) -> None:
    """Check a base from a file."""
    held.part("estimator", "FieldRegressor")
    held.need("spec_" in vars(held.get("estimator")), "estimator", "a fitted estimator")
    held.number("error", finite=False)
    held.flag("leaves_rest")
    held.need(held.get("exchange") is None, "exchange", "None")
    held.part("nodes", "Numbering", optional=True)
    n_dims = held.get("estimator").spec_.n_dims
    held.array("images", None, n_dims, n_dims, optional=True)
    for points, grid in (("points", "grid_shape"), ("target_points", "target_grid")):
        own = held.array(points, None, n_dims, optional=True)
        shape = held.shape(grid)
        held.need(own is None or shape is None or prod(shape) == len(own), points, "the points of the grid")
