"""The base in a fit: its model, its predictions of samples that it has not seen, and comparisons with the network.

In time steps it is the last frame, from which the network learns the change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from sklearn.utils import gen_batches

from skop._typing import FloatArray, IntArray
from skop.data import FieldLoader, FieldSet, Predictions, Scalers, Targets, TrainingData
from skop.data._fieldset import piece_length
from skop.estimators.classical._components import MOST_EXACT
from skop.estimators.classical._copies import groups_of_same_inputs, linked
from skop.estimators.classical._nodes import keep_their_distances, nodes_correspond, renumbered_sample
from skop.estimators.classical._pod import PODRegressor
from skop.estimators.fitting._base_model import BaseModel, remainder_sizes, standardized
from skop.estimators.fitting._comparison import Comparison, is_better_than_mean, pairs
from skop.exceptions import FieldDataError, held_warnings, warn
from skop.surrogate._correction import CorrectionNetwork, IncrementNetwork
from skop.surrogate._images import Exchange, exchange_of
from skop.surrogate._predictions import on_grid_of, rows_of
from skop.training import History, TrainingPlan, in_words

if TYPE_CHECKING:
    from skop.estimators.fitting._session import FitSession

__all__ = ["SessionBase", "why_no_base"]

#: ``base="auto"`` reads data in files, and takes windows of time steps, of up to this number of bytes in double
#: precision for a classical model.
_BASE_BYTES = 2**28
_TOO_LARGE = (
    f"X and y, which are in files or windows of time steps, hold more than {_BASE_BYTES >> 20} MiB in double precision"
)
#: Most images of samples to which a base is fitted, where predictions are averaged over symmetries.
_MOST_IMAGES = 1_000
_TOO_MANY_IMAGES = (
    "predictions are averaged over symmetries, and a classical model would be fitted to all images of the samples, "
    f"which are more than {_MOST_IMAGES} or {_BASE_BYTES >> 18} MiB in double precision"
)
_NO_IMAGES = (
    "predictions are averaged over symmetries, and a classical model can be only where all samples share points that "
    "these map onto each other, and y is on the points of X"
)
_OTHER_NODES = "the nodes of samples with points of their own do not correspond"
#: Fewest samples for a base model.
_LEAST_SAMPLES = 10
_TOO_FEW = f"it needs at least {_LEAST_SAMPLES}"
#: A base that is averaged over symmetries is named if it has so many times the error of one without them.
_WORSE = 2.0
#: Frames are learned, and not the change since the last one, if this is larger than this part of their spread.
_LARGE_CHANGE = 0.25
#: A base interpolates if its error on seen samples is below this part of its error on unseen ones.
_SEEN = 0.5


class SessionBase:
    """The base in a fit of an operator.

    Parameters
    ----------
    session : FitSession
        Fit.

    Attributes
    ----------
    unseen : Predictions or None
        Standardised predictions of the base for all samples, each by a fit without it; None without a base.
    change : ndarray of shape (q,)
        Root mean square of the change of each channel since the last frame, in units of its spread.
    """

    def __init__(self, session: FitSession) -> None:
        self.session = session
        self.unseen: Predictions | None = None
        self.change: FloatArray = np.zeros(0)

    def fit(self, scalers: Scalers) -> None:
        """Fit the base to all samples, if there is to be one.

        The classical models need no grid, and on the points of the samples before any resampling they lose nothing.
        Logarithms of interpolated values are not interpolated logarithms, so that these need one place.
        """
        session, model, whole = self.session, self.session.estimator, self.session.whole
        resampler, is_classical = session.data.spec.resampler, isinstance(model.base, (str, PODRegressor))
        averages = model._symmetries is not None and model._symmetries.average_predictions
        needs_grid = not is_classical or averages or scalers.per_point or scalers.learns_logarithms
        if resampler is not None and (needs_grid or not whole.inputs.shared_coords):
            resampler, whole = None, session.data
        earlier: BaseModel | None = model.base_
        model.base_, model._base_seconds, self.unseen = None, 0.0, None
        if model.base is None or (model._continues and earlier is None):
            return
        reason = model._why_no_base(whole, session.used, session.plan, session.groups)
        if session.plan.feeds_back and _units_of(scalers) is None:
            reason = reason or "logarithms are learned, or points are scaled apart, and not changes since a last frame"
        if reason:
            self._refuse(reason, whole)
            return

        def fit() -> tuple[BaseModel, Predictions]:
            """Fit it to the samples, in memory."""
            inputs, targets = whole.inputs, whole.targets
            if not (inputs.in_memory and targets.in_memory):
                inputs, targets = inputs.read(slice(None)), targets.read(slice(None))
            samples = replace(whole, inputs=inputs, targets=targets)
            base, unseen = self._fit_kind(model.base, samples, scalers)
            if model.base == "auto" and not (base.is_useful or model._continues):
                # Held-out samples hold a network over the mean back too, where it would learn noise by heart.
                # Components, of which it needs none, would keep the samples.
                mean = PODRegressor(regressor="mean", n_components=1)
                with held_warnings():
                    base, unseen = self._fit_kind(mean, samples, scalers)
            return base, unseen if resampler is None else on_grid_of(resampler, unseen, inputs)

        base, unseen, model._base_seconds = session.kept.base_model(fit)
        _warn_if_late(model.max_time, model._base_seconds)
        model.base_, self.unseen = base, unseen
        if model._continues:
            network = cast("CorrectionNetwork", model.module_)
            base.leaves_rest = network.learns_rest
            network.use_whole()

    def use_frame(self, scalers: Scalers) -> None:
        """Set the frame since which the network learns changes, if a plan names one and some are small."""
        model, first = self.session.estimator, self.session.plan.last_frame
        if model._continues:
            if first is None and model.last_frame_ is not None:
                raise ValueError(
                    "warm_start=True goes on with the network of the last fit, which learned the change since the last "
                    "frame; set increments=True in RolloutRegressor, or warm_start=False to fit anew."
                )
            return
        if scalers.per_point or scalers.learns_logarithms:
            first = None
        if first is not None:
            self.change = _change_since(first, self.session.data, self.session.used, scalers)
        model.last_frame_ = first if (self.change <= _LARGE_CHANGE).any() else None

    def set_units(self, network: torch.nn.Module, scalers: Scalers, train: IntArray) -> None:
        """Set the units of a network over a base or a frame by the samples of the training."""
        data, weight = self.session.data, self.session.weight
        if isinstance(network, CorrectionNetwork) and self.unseen is not None:
            network.set_sizes(*remainder_sizes(self.unseen, standardized(data.targets, scalers), train, weight))
            network = network.network
        if isinstance(network, IncrementNetwork):
            is_field, frame = data.targets.field is not None, network.frame
            given: Any = scalers.fields if is_field else scalers.params
            wanted: Any = scalers.target if is_field else scalers.scalars
            shift, is_small = (given.mean_[frame] - wanted.mean_) / wanted.scale_, self.change <= _LARGE_CHANGE
            # Between the size of changes, which would be learned slowly, and that of frames, which has too few digits.
            # What never changes stays as it is.
            sizes = np.where(is_small, np.sqrt(self.change), 1.0)
            network.set_units(np.where(is_small, given.scale_[frame] / wanted.scale_, 0.0), is_small * shift, sizes)

    def _fit_kind(self, kind: Any, data: TrainingData, scalers: Scalers) -> tuple[BaseModel, Predictions]:
        """Fit a kind of base to samples, or to their images, and predict each by a fit without it."""
        session, model, units = self.session, self.session.estimator, _units_of(scalers)
        if model._symmetries is not None and model._symmetries.average_predictions:
            spec = data.spec.network_spec
            held = model._symmetries, spec, data.inputs.coords, model._columns(data.spec), scalers
            found = _fit_to_images(kind, session, data, cast("Exchange", exchange_of(*held)), units)
            with held_warnings():
                _, alone = self._fit_to_samples(kind, data, scalers)
            _warn_if_averages_are_worse(found[1], alone, standardized(data.targets, scalers), session)
            return found
        return self._fit_to_samples(kind, data, scalers)

    def _fit_to_samples(self, kind: Any, data: TrainingData, scalers: Scalers) -> tuple[BaseModel, Predictions]:
        """Fit a kind of base to the samples as they are."""
        session, samples = self.session, replace(data, targets=standardized(data.targets, scalers))
        units = _units_of(scalers)
        options = units, session.weight, session.n_frames, session.groups, session.plan.last_frame
        return BaseModel.fit(kind, samples, session.used, *options)

    def _refuse(self, reason: str, data: TrainingData) -> None:
        """Raise or warn where the samples cannot have the base that is asked for."""
        model = self.session.estimator
        if model._continues:
            raise FieldDataError(
                f"warm_start goes on with a network over a base, which cannot be fitted since {reason}; the "
                "earlier fit is kept. Pass other samples, such as these together with those of the earlier fit, or "
                "set warm_start=False to fit anew, with base=None if fits that go on are to have none."
            )
        if model.base != "auto":
            raise FieldDataError(f"base={model.base!r} cannot be used, since {reason}; set base=None.")
        if reason in (_NO_IMAGES, _TOO_MANY_IMAGES):
            warn(
                f"there is no base model, since {reason}. Compare with SymmetryOptions(average_predictions=False), "
                "where the base may predict far better than averages do; or set base=None to say so."
            )
        # Of few groups there can be many samples.
        if _TOO_FEW in reason and self.session.groups is None:
            warn(
                f"there is no base model, since {reason}. Compare with PODRegressor() in its place, which is often far "
                "better after so few; or set base=None to say so."
            )
        if reason == _TOO_LARGE:
            warn(
                f"there is no base model, since {reason}, and a classical model would need them there at once. "
                "Set base=None to say so, or base='pod' if they fit into memory."
            )
        coords = data.inputs.coords if reason == _OTHER_NODES else None
        if coords is not None and (number := renumbered_sample(coords[0], coords)) is not None:
            warn(
                f"there is no base model, since {reason}: {data.called[number]} has the points of {data.called[0]} in "
                "another order. Sort the points and values of all samples alike, by the numbers of the mesher or by "
                "numpy.lexsort(coords.T), with which errors are often far smaller; or set base=None to say so."
            )

    def options(self, rows: IntArray) -> dict[str, Any]:
        """Return the options of a loader for the predictions of a base that has not seen these samples."""
        data, base = self.session.data, self.session.estimator.base_
        if self.unseen is None or base is None:
            return {}
        part = rows_of(self.unseen, rows)
        at_inputs = base.at(part, data.inputs[rows])
        options: dict[str, Any] = {"base": lambda indices: rows_of(at_inputs, indices)}
        if data.targets.elsewhere and data.targets.field is not None:
            options["query_base"] = lambda indices: rows_of(part, indices)
        return options

    def compared(self, unseen: Predictions, held: IntArray) -> Comparison:
        """Compare the network with the base on samples that neither has seen; the same for all processes."""

        def compare() -> Comparison:
            """Compare them."""
            session, model, n_frames = self.session, self.session.estimator, self.session.n_frames
            targets = session.data.targets[held]
            found = _as_targets(model.surrogate_.predict_batches(session.held_loader(held)), targets)
            norms, first = _norms_of_runs(targets, n_frames), held[::n_frames]
            weight = np.ones(len(norms)) if session.weight is None else session.weight[first]
            corrected, truth = (standardized(part, model.scalers_) for part in (found, targets))
            groups = None if session.groups is None else np.unique(session.groups[first], return_inverse=True)[1]
            return Comparison.of(rows_of(unseen, held), corrected, truth, weight, norms, n_frames, groups)

        return self.session.group.once(compare)

    def interpolates_line(self) -> bool:
        """Whether samples differ by one number alone, and the base is far better on those that it has seen."""
        session, model, inputs = self.session, self.session.estimator, self.session.data.inputs
        unseen, held = self.unseen, session.held
        is_line = inputs.n_channels == 0 and inputs.shared_coords and model.spec_.n_params == 1
        if not is_line or unseen is None or held is None or model.base_ is None:
            return False
        targets = session.data.targets[held]
        known = _as_targets(model.base_.predict(inputs[held], session.target_places(inputs[held], targets)), targets)
        truth = standardized(targets, model.scalers_)
        norms = _norms_of_runs(targets)
        compared = Comparison.of(rows_of(unseen, held), known, truth, np.ones(len(norms)), norms)
        return bool(compared.ratio.max() < _SEEN)

    def drop(self) -> FieldLoader:
        """Go on without the base; return the samples of the training from now on."""
        # The network stays in its CorrectionNetwork until the training has ended.
        self.session.estimator.base_, self.unseen = None, None
        return self.session.training_loader(self.session.trained_on)

    def choose_share(self, history: History) -> None:
        """Choose how much of the network is used, by samples that it has not seen; none where a review ended the fit.

        Where a review has dropped the base, the network becomes that of a fit without one.
        """
        model, held = self.session.estimator, self.session.held
        network = model.module_
        if isinstance(network, CorrectionNetwork) and model.base_ is None:
            model.module_ = network.network
        elif isinstance(network, CorrectionNetwork) and history.stopped == "base":
            network.use_base()
        elif isinstance(network, CorrectionNetwork) and self.unseen is not None and held is not None:
            compared = self.compared(self.unseen, held)
            network.set_shares(compared.field, compared.scalars)


def why_no_base(
    model: Any, data: TrainingData, used: IntArray, plan: TrainingPlan, groups: IntArray | None = None
) -> str:
    """Say why samples cannot have a base under an operator; nothing if they can.

    Parameters
    ----------
    model : OperatorRegressor
        Operator.
    data : TrainingData
        Samples.
    used : ndarray of int
        Indices of those with positive weight.
    plan : TrainingPlan
        Changes to the training loop.
    groups : ndarray of int, shape (n,), or None, default=None
        Numbers of the groups of samples that belong together.

    Returns
    -------
    str
        Reason, or nothing.
    """
    is_auto, n_used = model.base == "auto", len(used) // (plan.n_steps or 1)
    called = "runs" if plan.n_steps else "samples"
    # Each is asked only if those before it do not apply: the last ones read all coordinates.
    reasons: dict[str, Callable[[], bool]] = {
        "frames are learned, and not changes since the last one": lambda: plan.feeds_back and plan.last_frame is None,
        "samples are steps of a training with noise, or through several steps": lambda: plan.forward is not None,
        "y is on points of each sample's own": lambda: data.spec.target_points == "own",
        "samples differ in their number of points": lambda: data.inputs.is_ragged,
        f"there are {n_used} {called}, and {_TOO_FEW}": lambda: n_used < _LEAST_SAMPLES,
        _TOO_LARGE: lambda: is_auto and _is_too_large(data, is_held=not plan.feeds_back),
        _OTHER_NODES: lambda: not nodes_correspond(data.inputs),
        "distances between nodes of samples with points of their own differ too much for nodes that correspond": (
            lambda: is_auto and not keep_their_distances(data.inputs)
        ),
    }
    if reason := next((reason for reason, applies in reasons.items() if applies()), ""):
        return reason
    # Those that are nearly the same are held out together too, and some have to be left to train on.
    first = used[:: plan.n_steps or 1]
    numbers = groups_of_same_inputs(data.inputs[first], nearly=True)
    count = numbers.max() + 1
    if count < _LEAST_SAMPLES:
        return f"{count} of the {n_used} {called} have different inputs, and {_TOO_FEW} with different inputs"
    count = count if groups is None else linked(numbers, np.unique(groups[first], return_inverse=True)[1]).max() + 1
    what = f"the samples are of {count} different groups, and {_TOO_FEW}"
    return what if count < _LEAST_SAMPLES else _why_no_images(model, data)


def _why_no_images(model: Any, data: TrainingData) -> str:
    """Say why a base cannot be averaged over the declared symmetries; nothing if it can, or none are to be."""
    if model._symmetries is None or not model._symmetries.average_predictions:
        return ""
    inputs, spec, found = data.inputs, data.spec.network_spec, None
    if inputs.shared_coords and not data.targets.elsewhere:
        found = exchange_of(model._symmetries, spec, inputs.coords, model._columns(data.spec), None)
    if found is None:
        return _NO_IMAGES
    is_too_large = found.order * len(inputs) > _MOST_IMAGES or found.order * _bytes_of(data) > 4 * _BASE_BYTES
    return _TOO_MANY_IMAGES if is_too_large else ""


def _fit_to_images(
    kind: Any, session: FitSession, data: TrainingData, exchange: Exchange, units: Any
) -> tuple[BaseModel, Predictions]:
    """Fit a base to all images of the samples; its predictions of unseen samples are averaged over their images."""
    n_samples, images, runs = len(data.inputs), range(exchange.order), session.groups
    runs = np.arange(n_samples) // session.n_frames if runs is None else runs
    parts = [standardized(exchange.targets(number, data.targets), exchange.scalers) for number in images]
    fields = [part.field for part in parts if part.field is not None]
    scalars = [part.scalars for part in parts if part.scalars is not None]
    whole = replace(
        data,
        inputs=FieldSet.concatenate([exchange.inputs(number, data.inputs) for number in images]),
        targets=Targets(FieldSet.concatenate(fields) if fields else None, np.concatenate(scalars) if scalars else None),
        names=data.called * exchange.order,
    )
    used = np.concatenate([session.used + number * n_samples for number in images])
    weight = None if session.weight is None else np.tile(session.weight, len(images))
    # All images of a sample are left out together.
    groups, first = np.tile(runs, len(images)), session.plan.last_frame
    base, found = BaseModel.fit(kind, whole, used, units, weight, groups=groups, last_frame=first)
    base.images = exchange.symmetries.matrices

    def unseen(number: int) -> list[torch.Tensor | None]:
        """Predictions of one image of each sample."""
        part = rows_of(found, slice(number * n_samples, (number + 1) * n_samples))
        return [None if held is None else torch.from_numpy(held) for held in (part.fields, part.scalars)]

    return base, Predictions(*(None if part is None else part.numpy() for part in exchange.mean(unseen)))


def _warn_if_averages_are_worse(
    averaged: Predictions, alone: Predictions, targets: Targets, session: FitSession
) -> None:
    """Warn if a base predicts unseen samples far worse as a mean over their images than without images."""
    rows, weight, runs = session.used, session.weight, None
    if session.n_frames > 1 or session.groups is not None:
        labels = np.arange(len(targets)) // session.n_frames if session.groups is None else session.groups
        runs = np.unique(labels[rows], return_inverse=True)[1]
    truth, found = targets[rows], [rows_of(part, rows) for part in (alone, averaged)]
    own, mean = (
        sum(float(np.square(guess - true).sum()) for guess, true in pairs(part, truth) if guess is not None)
        for part in found
    )
    weight = None if weight is None else weight[rows]
    if mean > _WORSE**2 * own and is_better_than_mean(found[0], truth, weight, runs, found[1]):
        factor = "many" if own == 0 else f"{(mean / own) ** 0.5:.3g}"
        warn(
            f"averaged over the declared symmetries, the base has {factor} times the error on unseen samples that it "
            "has without them. Either the samples contradict the symmetries: leave out those that the problem does "
            "not have, and declare everything with a direction. Or one model of all images needs more samples: "
            "compare with SymmetryOptions(average_predictions=False)."
        )


def _warn_if_late(max_time: float | None, seconds: float) -> None:
    """Warn if a base took longer than a time limit leaves it: the network has half of the time at least."""
    over = 0.0 if max_time is None else seconds - max_time / 2
    if max_time is not None and over > 1:
        warn(
            f"the fit takes {in_words(over)} more than max_time leaves it, {in_words(max_time)}: its base took "
            f"{in_words(seconds)}, which is never cut short, and the network has half of that. Raise max_time, or set "
            "base=PODRegressor(regressor='ridge') or base=None."
        )


def _norms_of_runs(targets: Targets, n_frames: int = 1) -> FloatArray:
    """Norm of the fields of each run, where each channel counts alike; 1 for scalars alone."""
    n_runs = len(targets) // n_frames
    if targets.field is None:
        return np.ones(n_runs)
    values = np.asarray(targets.field.values, dtype=np.float64)
    size = np.mean(values**2 / np.maximum(np.mean(values**2, axis=(0, 1)), np.finfo(float).tiny), axis=(1, 2))
    size = size.reshape(n_runs, n_frames).mean(axis=1)
    # A sample of nearly nothing would outweigh all others.
    return np.sqrt(np.maximum(size, 1e-3))


def _as_targets(found: Predictions, like: Targets) -> Targets:
    """Predictions on the points of targets, as these."""
    return Targets(None if like.field is None else like.field.with_values(found.fields), found.scalars, like.elsewhere)


def _is_too_large(data: TrainingData, *, is_held: bool) -> bool:
    """Whether samples are too large for a base model that was not asked for, unless arrays of the user's hold them."""
    if is_held and data.inputs.in_memory and data.targets.in_memory:
        return False
    # Of many windows with few points, most memory is that of kernels between them.
    kernels = 0 if is_held else 8 * len(data.inputs) * min(len(data.inputs), MOST_EXACT)
    return max(_bytes_of(data), kernels) > _BASE_BYTES


def _bytes_of(data: TrainingData) -> int:
    """Size of fields and points in double precision."""
    count = 0
    for part in (data.inputs, data.targets.field):
        if part is not None:
            width = part.n_channels + (0 if part.shared_coords else part.n_dims)
            count += int(part.n_points.sum()) * width
    return 8 * count


def _change_since(first: int, data: TrainingData, rows: IntArray, scalers: Scalers) -> FloatArray:
    """Root mean square (q,) of the change since the frame that begins with a channel, in units of the spread."""
    is_field, count = data.targets.field is not None, 0
    scaler: Any = scalers.target if is_field else scalers.scalars
    spread = scaler.deviations()[0]
    total = np.zeros(len(spread))
    for some in gen_batches(len(rows), piece_length(data.inputs, data.inputs.n_channels)):
        inputs, targets = data.inputs[rows[some]], data.targets[rows[some]]
        last: Any = inputs.values if is_field else inputs.params
        true: Any = targets.scalars if targets.field is None else targets.field.values
        change = np.asarray(true, dtype=np.float64) - np.asarray(last)[..., first : first + len(spread)]
        # Constants do not change.
        change = np.divide(change, spread, out=np.zeros_like(change), where=spread > 0).reshape(-1, len(spread))
        total, count = total + np.square(change).sum(axis=0), count + len(change)
    return np.asarray(np.sqrt(total / max(count, 1)))


def _units_of(scalers: Scalers) -> tuple[FloatArray, FloatArray] | None:
    """Shift and factor by which standardised outputs become physical ones; None where these differ between points."""
    held = [scaler for scaler in (scalers.target, scalers.scalars) if scaler is not None]
    if scalers.learns_logarithms or scalers.per_point:
        return None
    shifts, factors = ([getattr(scaler, name) for scaler in held] for name in ("mean_", "scale_"))
    return np.concatenate(shifts), np.concatenate(factors)
