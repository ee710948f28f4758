"""ConformalRegressor: bands around the predictions of any estimator, with a coverage that is guaranteed.

Notation: n samples, P points, T points of all samples together, q output channels, s scalars, K models, N values.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skop._jobs import workers_for
from skop._sklearn_compat import HasMethods, Interval, StrOptions, fit_context, last_step
from skop._typing import FloatArray, IntArray
from skop.data import (
    DataSpec,
    FieldSet,
    Predictions,
    TargetForm,
    Targets,
    TrainingData,
    interpolate_fields,
    is_mesh_series,
    refuse_mask,
    split_series,
)
from skop.estimators._field import (
    FieldRegressor,
    check_weight,
    checked_by_caller,
    labels_of_groups,
    restored_on_failure,
    samples_with_weight,
)
from skop.estimators._parts import by_chunks
from skop.estimators.files._file_checks import Held, check_takes, checks, is_array
from skop.estimators.files._persistence import KNOWN
from skop.estimators.fitting._checkpoint import passed_on, require_seed
from skop.estimators.selection._search import Samples, as_input, as_predictions, make_folds
from skop.estimators.temporal._frames import BaseFrameRegressor
from skop.estimators.uncertainty._ensemble import EnsembleRegressor
from skop.exceptions import FieldDataError, each_warning_once

__all__ = ["ConformalRegressor"]

KNOWN["FrozenEstimator"] = FrozenEstimator

#: Part of the held-out samples that estimate a scale; the others calibrate.
_SCALE_SHARE = 1 / 3
#: In the scale of a node, the mean over all nodes counts as this number of samples.
_PRIOR = 4.0
#: Lowest scale of a node, as a part of the root mean square of the scale over the nodes of its sample.
_LOWEST = 1e-2
#: A scale counts as zero if an error exceeds this multiple of it.
_HUGE = 1e100
#: Keep this number of scores of each model for CV+, and round the others up to these.
_KEPT_SCORES = 1000
#: Join close scores of a channel above this number if they come in many parts; close scores differ in this number of
#: low bits, that is, by 6e-5.
_MOST_SCORES, _JOINED_BITS = 2**18, 38
#: Number of bisections for a bound of CV+, which is then too wide by at most 1e-10 of the band.
_BISECTIONS = 34
#: Differences of probabilities up to this are rounding.
_ROUNDING = 1e-9
#: Attributes that scikit-learn stores of a table X.
_COLUMNS = ("n_features_in_", "feature_names_in_")
#: Kinds of outputs.
_KINDS = ("fields", "scalars")


class ConformalRegressor(MetaEstimatorMixin, FieldRegressor):
    """Put bands around the predictions of an estimator that hold the truth with a given probability.

    Conformal prediction compares predictions of samples that were held out of the fit with the truth. The band is as
    wide as these errors demand. Its coverage holds for any estimator, good or bad, and for any number of calibration
    samples, if new samples are exchangeable with these: drawn from the same distribution, and not chosen by the result.

    Parameters
    ----------
    estimator : estimator
        Estimator to put a band around: any one of skop, or for plain tables any regressor of scikit-learn. A Pipeline
        that ends in one of them gets tables of numbers, or FieldSets, as they came. A fitted estimator within
        `sklearn.frozen.FrozenEstimator` is not fitted again; X and y of `fit` then only calibrate, and must not have
        been in its fit.
    coverage : float, default=0.9
        Probability 1 - alpha with which a band holds the truth, between 0 and 1.
    guarantee : {"pointwise", "simultaneous"}, default="pointwise"
        Meaning of the coverage of a field. ``"pointwise"``: the share of the nodes of a sample at which the truth is in
        the band is at least `coverage` on average over samples. ``"simultaneous"``: the truth is in the band at all
        nodes of a sample together, with this probability. Both hold for each channel and for each scalar by itself.
    method : {"split", "cv+", "jackknife+"}, default="split"
        Source of the calibration errors. ``"split"``: samples held out of one fit. ``"cv+"``: all samples, each
        predicted by the fit without its fold. ``"jackknife+"``: the same with one sample (or group) in each fold.
    scale : {"auto", "residuals", "spread", "constant"} or estimator, default="auto"
        Relative width of the band at each node. ``"residuals"``: root mean square of errors at the node, for samples
        that share their nodes. ``"spread"``: standard deviation by ``predict(X, return_std=True)`` of the estimator,
        such as `EnsembleRegressor`. ``"constant"``: the same width everywhere. An estimator: it learns the size of the
        errors as a function of X. ``"auto"``: ``"residuals"`` where samples share their nodes, else ``"constant"``.
    calibration_size : float, default=0.25
        Part of the samples (or groups) that ``method="split"`` holds out, between 0 and 1. A third of this part is kept
        for the scale alone if it is estimated from errors (``"residuals"`` or an estimator), with every method. With a
        fitted estimator all samples are held out.
    cv : int, splitter or list of (train, valid), default=5
        Number of folds of ``method="cv+"``, a splitter of scikit-learn, or the rows of each fold. Each sample is held
        out once.
    n_jobs : int or None, default=None
        Number of folds that are fitted at a time, each in a separate process; None means one after the other.
    random_state : int, RandomState instance or None, default=None
        Seed of the choice of held-out samples and folds, and of estimators without a seed of their own.

    Attributes
    ----------
    estimator_ : estimator
        Fitted estimator of `predict`: on the samples that were not held out, or for CV+ and jackknife+ on all but those
        of the scale.
    fold_estimators_ : list of estimators
        Estimators fitted without each fold, for CV+ and jackknife+; empty for ``method="split"``.
    n_calibration_ : int
        Number of samples, or of groups, whose errors set the width of the band.
    quantiles_ : dict of str to ndarray, or None
        Factors by which the scales are multiplied, for each channel (``"fields"``) and scalar (``"scalars"``), for
        ``method="split"``.
    coverage_ : float
        Coverage that the band was calibrated for.
    scale_kind_ : {"residuals", "spread", "constant", "learned"}
        Scale that was chosen.
    scales_ : list
        Scale that belongs to `estimator_`, or to each of `fold_estimators_`: a fitted estimator, the values at
        `points_`, or None.
    points_ : ndarray of shape (P, d) or None
        Nodes of the scale of ``"residuals"``.
    n_features_in_ : int
        Number of columns of a table X, or of channels of fields.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a DataFrame.
    spec_ : skop.data.DataSpec
        Form, sizes and channel names of X and y.
    series_ : dict
        Names of the fields and their treatment, where the fit was on time series of meshes.
    mesh_ : meshio.Mesh or None
        Mesh that all samples of y shared, for the meshes of predictions, if y was meshes and X was not.

    See Also
    --------
    EnsembleRegressor : A spread that is not calibrated by itself.

    Notes
    -----
    **What holds.** A score of a calibration sample is its error divided by the scale: the largest one over its nodes
    (simultaneous), or that of each node, where each of P nodes counts 1/P (point-wise). Each of n samples has the mass
    1/(n + 1), and a new one the same at infinity. The factor of ``method="split"`` is the quantile of this distribution
    at `coverage`. For a simultaneous band, a scalar, and a field of one node, it is the k-th smallest score,
    k = ceil((n + 1) coverage). The probability that a new sample is covered is k / (n + 1). Given the calibration
    samples, it varies as Beta(k, n + 1 - k): with n = 50 and ``coverage=0.9``, between 0.81 and 0.97 in 95 % of
    calibrations. A point-wise band covers a share of nodes of at least `coverage` on average over calibrations and new
    samples. It does not say that every node is covered with this probability.

    CV+ and jackknife+ use all samples, and have weaker guarantees: 1 - 2 alpha for jackknife+, and at least
    1 - 2 alpha - sqrt(2 / n) for CV+, in theory; about 1 - alpha is usual. For point-wise bands this is the average
    share of nodes.

    The coverage is an average over new samples: those far from the training samples are covered less often, others more
    often, unless the scale tells them apart. Outside the range of the fit nothing is guaranteed. For samples on points
    of their own a simultaneous band is for the points of a sample, and depends on how many there are; predicted
    elsewhere by `coords`, it is not calibrated for these points.

    For time series, as in `RolloutRegressor` and `TimeConditionedRegressor`, each channel of each step has a factor of
    its own, so that bands widen as the errors do. Time series of meshes count by runs, also in `groups` and weights. A
    band for q channels together, with probability 1 - alpha, has ``coverage = 1 - alpha / q``.

    With `groups`, samples of one group are held out together, and a group counts as one sample: the guarantee is then
    for a sample of a new group. With `sample_weight`, calibration samples count by their weights, which are the ratios
    of the density of new samples to theirs. By the definition a new sample counts by its own weight, which
    ``predict_interval(X, sample_weight=...)`` takes. Without it, a new sample counts as the largest weight of the
    calibration, which makes the band too wide rather than too narrow where no new sample has a larger one. The weights
    of `fit` are passed on to the estimator if its `fit` takes them.

    References
    ----------
    V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", 2005. J. Lei, M. G'Sell, A. Rinaldo, R.
    Tibshirani, L. Wasserman, "Distribution-free predictive inference for regression", JASA 2018, for the split and
    scales. R. Barber, E. Candes, A. Ramdas, R. Tibshirani, "Predictive inference with the jackknife+", Annals of
    Statistics 2021. J. Diquigiovanni, M. Fontana, S. Vantini, "Conformal prediction bands for multivariate functional
    data", JMVA 2022, for simultaneous bands. Y. Lee, R. Barber, R. Willett, "Distribution-free inference with
    hierarchical data", 2023, for nodes and groups. R. Tibshirani, R. Barber, E. Candes, A. Ramdas, "Conformal
    prediction under covariate shift", NeurIPS 2019, for weights.

    Examples
    --------
    >>> from skop import ConformalRegressor, PODRegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(60, resolution=8, random_state=0)
    >>> model = ConformalRegressor(PODRegressor(regressor="ridge"), calibration_size=0.4, random_state=0)
    >>> mean, lower, upper = model.fit(X[:50], y[:50]).predict_interval(X[50:])
    >>> lower.shape, bool((lower < mean).all()), model.n_calibration_
    ((10, 8, 8, 1), True, 13)
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "predict"])],
        "coverage": [Interval(Real, 0, 1, closed="neither")],
        "guarantee": [StrOptions({"pointwise", "simultaneous"})],
        "method": [StrOptions({"split", "cv+", "jackknife+"})],
        "scale": [StrOptions({"auto", "residuals", "spread", "constant"}), HasMethods(["fit", "predict"])],
        "calibration_size": [Interval(Real, 0, 1, closed="neither")],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split", "get_n_splits"]), "array-like"],
        "n_jobs": [Interval(Integral, 1, 4096, closed="both"), Interval(Integral, -4096, -1, closed="both"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        coverage: float = 0.9,
        guarantee: str = "pointwise",
        method: str = "split",
        scale: Any = "auto",
        calibration_size: float = 0.25,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.guarantee = guarantee
        self.method = method
        self.scale = scale
        self.calibration_size = calibration_size
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

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
        """Fit the estimator, unless it is a fitted one, and calibrate the band.

        Parameters
        ----------
        X, y : as in `LaMORegressor.fit`
            Inputs and targets.
        sample_weight : array-like of shape (n,) or None, default=None
            Weight of each sample in the calibration, and in the fit if the estimator takes weights. Samples of weight 0
            are not used.
        groups : array-like of shape (n,) or None, default=None
            Labels of groups of samples, such as runs of one geometry, which are held out together and count as one.
        params : as in `LaMORegressor.fit`
            Global parameters of the runs beside fields or meshes.
        checkpoint_dir : path-like or None, default=None
            Folder for checkpoints, passed on to all fits, see `LaMORegressor.fit`. It needs an integer as
            `random_state`.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        FieldDataError
            If X or y cannot be used, there are too few calibration samples for the coverage, or the scale is none that
            the estimator or the samples have; a ValueError.
        """
        if passed_on(checkpoint_dir, self.estimator):
            require_seed(self)
        with restored_on_failure(self), each_warning_once():
            data, used = self._read(X, y, params=params, sample_weight=sample_weight, groups=groups), None
            weight = check_weight(sample_weight, len(data.inputs))
            labels = labels_of_groups(groups, len(data.inputs))
            if weight is not None:
                data, used = samples_with_weight(data, weight), np.flatnonzero(weight)
                weight, labels = weight[used], None if labels is None else labels[used]
            self._check_steps(data.spec.input_form in ("table", "fieldset"), data.spec)
            columns = getattr(self, "feature_names_in_", None)
            samples = Samples(data.inputs, data.targets, data.spec, weight, checkpoint_dir, labels, columns)
            self._fit(samples, labels, np.arange(len(samples)) if used is None else used)
            self._store_spec(data.inputs, data.spec)
            self._store_seen(data)
            if data.spec.target_points == "shared" and data.targets.field is not None:
                self.coords_ = data.targets.field.coords
        return self

    def _read(self, X: Any, y: Any, *, params: Any = None, sample_weight: Any = None, **options: Any) -> TrainingData:
        """X and y of a fit; time series of meshes are read by the estimator, which predicts frames."""
        self.__dict__.pop("series_", None)
        inner = self.estimator
        if isinstance(inner, FrozenEstimator):
            inner = inner.estimator
            check_is_fitted(inner)
        frames = _frame_estimator(inner)
        runs, targets, _ = split_series(X, y, params)
        if frames is None or not frames._takes_series(runs, targets):
            if is_mesh_series(runs) or is_mesh_series(targets):
                raise FieldDataError(
                    f"{type(inner).__name__} takes no time series of meshes; put it in a RolloutRegressor or "
                    "TimeConditionedRegressor, or pass frames as channels of fields."
                )
            return super()._read(X, y, params=params, sample_weight=sample_weight, **options)
        reader = copy.copy(frames) if isinstance(self.estimator, FrozenEstimator) else clone(frames)
        if isinstance(self.estimator, FrozenEstimator) and hasattr(frames, "window_"):
            # Runs may have more frames than the fitted estimator predicts.
            reader.n_steps = frames.n_frames_
        found = reader._read(X, y, params=params, sample_weight=sample_weight, **options)
        if isinstance(self.estimator, FrozenEstimator):
            # This also compares the series with those of the fit.
            frames._read_scored(X, y, params, sample_weight)
        self.series_, self.mesh_ = reader.series_, None
        for name in _COLUMNS:
            if hasattr(reader, name):
                setattr(self, name, getattr(reader, name))
        return found

    def _fit(self, samples: Samples, groups: Any, rows: IntArray) -> None:
        """Fit and calibrate on samples, which are these rows of X."""
        is_frozen, scale = isinstance(self.estimator, FrozenEstimator), self._kind_of_scale(samples)
        if is_frozen and self.method != "split":
            raise FieldDataError(
                f"method={self.method!r} fits the estimator on folds, but it is a FrozenEstimator; set method='split', "
                "or pass the estimator itself."
            )
        rng = check_random_state(self.random_state)
        calibrated, scaled, train = self._parts(len(samples), groups, scale, rng)
        inner = None if groups is None else groups[calibrated]
        mass, rest, heaviest = _masses(
            len(calibrated), None if samples.weight is None else samples.weight[calibrated], inner
        )
        count = len(calibrated) if inner is None else len(np.unique(inner))
        self._check_size(count, rest, "samples" if groups is None else "groups")
        folds = [(train, calibrated)]
        if self.method != "split":
            splitter = LeaveOneOut() if inner is None else LeaveOneGroupOut()
            cv = splitter if self.method == "jackknife+" else self.cv
            made = make_folds(cv, len(calibrated), inner, rng, rows[calibrated])
            if np.sort(np.concatenate([held for _, held in made])).tolist() != list(range(len(calibrated))):
                raise FieldDataError(f"cv={self.cv!r} must hold out each sample once; use KFold or GroupKFold.")
            if any(np.isin(held, part).any() for part, held in made):
                raise FieldDataError(
                    f"cv={self.cv!r} has folds that train on samples which they hold out, so that errors are not those "
                    "of unseen samples and bands would be too narrow; use KFold or GroupKFold."
                )
            folds = [(calibrated[part], calibrated[held]) for part, held in made]
        member = _Member(self._on_frames(), scale, is_frozen)
        members = [member.seeded(rng) for _ in folds]
        final = member.seeded(rng)
        by_row = np.empty(len(samples))
        by_row[calibrated] = mass
        found = Parallel(n_jobs=workers_for(self.n_jobs, len(folds)))(
            delayed(_fit_member)(one, samples[part], samples[scaled], samples[held], by_row[held], self.guarantee)
            for one, (part, held) in zip(members, folds, strict=True)
        )
        self.fold_estimators_, self.scales_ = [], [one[1] for one in found]
        pools = [one[2] for one in found]
        self.points_ = None
        if scale == "residuals" and samples.targets.field is not None:
            self.points_ = np.asarray(samples.targets.field.coords)
        self.n_calibration_, self.coverage_, self.new_weight_ = count, float(self.coverage), heaviest
        self.new_mass_ = rest
        self.scale_kind_ = scale if isinstance(scale, str) else "learned"
        self.quantiles_: dict[str, FloatArray] | None = None
        self.pools_: list[dict[str, list[FloatArray]]] | None = [
            {kind: [pool.table() for pool in one[kind]] for kind in _KINDS} for one in pools
        ]
        if self.method == "split":
            self.estimator_ = found[0][0]
            self.quantiles_ = {
                kind: np.array([pool.quantile(self.coverage) for pool in pools[0][kind]]) for kind in _KINDS
            }
            return
        self.fold_estimators_ = [one[0] for one in found]
        with checked_by_caller():
            self.estimator_ = _fitted(final.estimator, samples[calibrated])

    def _on_frames(self) -> Any:
        """The estimator, which gets the times of time series of meshes, since it is fitted on their frames."""
        times = getattr(self, "series_", {}).get("times")
        if times is None or isinstance(self.estimator, FrozenEstimator):
            return self.estimator
        estimator = clone(self.estimator)
        frames: Any = _frame_estimator(estimator)
        if frames.times is None:
            frames.set_params(times=times)
        return estimator

    def _kind_of_scale(self, samples: Samples) -> Any:
        """The scale that is meant, or the estimator that learns it."""
        field = samples.targets.field
        nodes_are_shared = field is None or field.shared_coords
        if not isinstance(self.scale, str):
            return self.scale
        if self.scale == "residuals" and not nodes_are_shared:
            raise FieldDataError(
                "scale='residuals' needs nodes that all samples of y share, but these have points of their own; set "
                "scale='spread', 'constant', or an estimator that learns the size of the errors."
            )
        # Without a field, one width for each scalar is what the quantile gives.
        if self.scale in ("auto", "residuals"):
            return "residuals" if field is not None and nodes_are_shared else "constant"
        inner = last_step(self.estimator.estimator if isinstance(self.estimator, FrozenEstimator) else self.estimator)
        if self.scale == "spread" and "return_std" not in inspect.signature(inner.predict).parameters:
            raise FieldDataError(
                f"scale='spread' needs an estimator whose predict has return_std, which {type(inner).__name__} has "
                "not; put it in an EnsembleRegressor, or set another scale."
            )
        return self.scale

    def _parts(
        self, n_samples: int, groups: Any, scale: Any, rng: np.random.RandomState
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Samples that calibrate, that the scale is estimated from, and that the estimator alone is fitted on."""
        unit = np.arange(n_samples) if groups is None else np.unique(groups, return_inverse=True)[1].ravel()
        order = rng.permutation(unit.max() + 1)
        is_estimated = scale == "residuals" or not isinstance(scale, str)
        n_held = int(np.ceil(self.calibration_size * len(order)))
        if isinstance(self.estimator, FrozenEstimator):
            n_held = len(order)
        n_scaled = int(np.ceil(_SCALE_SHARE * n_held)) if is_estimated else 0
        end = n_held if self.method == "split" else len(order)
        parts = order[n_scaled:end], order[:n_scaled], order[end:]
        calibrated, scaled, train = (np.flatnonzero(np.isin(unit, part)) for part in parts)
        needs_others = self.method == "split" and not isinstance(self.estimator, FrozenEstimator)
        if not len(calibrated) or (needs_others and not len(train)):
            what = "samples" if groups is None else "groups"
            raise FieldDataError(
                f"{len(order)} {what} are too few to fit, and to hold out calibration_size={self.calibration_size:g} "
                "of them; pass more."
            )
        return calibrated, scaled, train

    def _check_size(self, count: int, rest: float, what: str) -> None:
        """Raise an error if the calibration samples are too few for the coverage."""
        if rest <= 1 - self.coverage + _ROUNDING:
            return
        needed = int(np.ceil(self.coverage / (1 - self.coverage) - _ROUNDING))
        if count >= needed:
            raise FieldDataError(
                f"coverage={self.coverage:g} is too high for these sample weights: a new sample with the largest of "
                f"them has {rest:.3g} of the weight of all {count} calibration {what} and itself, and more than "
                f"{1 - self.coverage:.3g} needs an infinite band. Pass more samples, or limit the weights."
            )
        raise FieldDataError(
            f"coverage={self.coverage:g} needs at least {needed} calibration {what}, but there are {count}: with fewer "
            "only an infinite band has this coverage. Pass more samples, lower the coverage, or, of a "
            "ConformalRegressor, raise calibration_size or set method='cv+'."
        )

    # ------------------------------------------------------------------ prediction
    @by_chunks
    def predict_interval(
        self,
        X: Any,
        coords: Any = None,
        *,
        params: Any = None,
        sample_weight: Any = None,
        n_steps: int | None = None,
        times: Any = None,
    ) -> Any:
        """Predict, with the lower and upper bounds of the band.

        Parameters
        ----------
        X : as in `fit`
            Inputs.
        coords : as in `LaMORegressor.predict`, or None, default=None
            Points at which fields are predicted; None gives the points of X, or those of y in the fit. The scale of
            ``"residuals"`` is interpolated to them.
        params : as in `fit`
            Global parameters beside fields or meshes.
        sample_weight : array-like of shape (n,) or None, default=None
            Weight of each new sample, at least 0, in the unit of the weights of `fit`: the ratio of the density of new
            samples to that of the calibration samples, where they are. None counts each as the heaviest calibration
            sample or group, or as 1 if `fit` had no weights.
        n_steps : int or None, default=None
            Number of steps of a `RolloutRegressor`, up to those of the fit; None gives all of them.
        times : array-like of shape (n_times,) or None, default=None
            Times of a `TimeConditionedRegressor`, among those of the fit; None gives all of them.

        Returns
        -------
        mean : ndarray, list, FieldSet, (coords, fields), list of meshes or MeshSeries, DataFrame or Series
            The prediction, as by `predict`, in the form of the y of the fit.
        lower, upper : of the same form
            Bounds. Meshes of the bounds hold the fields ``<field>_lower`` and ``<field>_upper``, which are written into
            those of the prediction too.

        Raises
        ------
        FieldDataError
            If X has another form than in the fit, a weight is so large that only an infinite band has the coverage, or
            steps or times were not calibrated.
        """
        with each_warning_once():
            inputs, points, meshes = self._read_query(X, coords, params)
            self._warn_if_outside(inputs, X)
            levels = self._levels(sample_weight, len(inputs))
            writer, frames = self._writer(n_steps, times)
            mean, places = self._mean_at(inputs, points)
            mean, *bounds = (_frames_of(part, frames) for part in (mean, *self._bounds_at(inputs, points, levels)))
            labels = self._labels(X)
            result = writer._restore(mean, places, meshes, labels)
            return result, *writer._restore_bounds(result, bounds, places, meshes, labels)

    def score_coverage(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, params: Any = None
    ) -> dict[str, float]:
        """Return how much of the truth is inside the band, for each output channel and scalar separately.

        On samples that neither the fit nor the calibration has seen, it should be near `coverage`. With `count`
        calibration samples and ``guarantee="simultaneous"``, its expectation lies between `coverage` and
        ``coverage + 1 / (count + 1)``.

        Parameters
        ----------
        X, y, params : as in `score`
            Test inputs, true targets and global parameters.
        sample_weight : array-like of shape (n,) or None, default=None
            Weight of each sample in the mean. The bands are those of `predict_interval` without weights.

        Returns
        -------
        dict of str to float
            With ``guarantee="pointwise"`` the mean over the samples of the share of nodes that are inside, with
            ``"simultaneous"`` the share of samples that are inside at all nodes, by the names of `score_channels`. For
            scalars both are the share of samples.

        Raises
        ------
        FieldDataError
            If X or y do not fit the estimator.

        Examples
        --------
        >>> import numpy as np, skop
        >>> rng = np.random.default_rng(0)
        >>> X = rng.random((1400, 2))
        >>> y = X.sum(axis=1) + 0.1 * rng.standard_normal(1400)
        >>> band = skop.ConformalRegressor(skop.PODRegressor(), coverage=0.8, random_state=0).fit(X[:400], y[:400])
        >>> bool(0.7 < band.score_coverage(X[400:], y[400:])["scalar 0"] < 0.9)
        True
        """
        shares: dict[str, list[FloatArray]] = {kind: [] for kind in _KINDS}
        with each_warning_once():
            inputs, truth = self._read_scored(X, y, params, sample_weight)
            self._warn_if_outside(inputs, X)
            weight = check_weight(sample_weight, len(inputs))
            for _, part in Samples(inputs, truth, self.spec_, None).pieces():
                field = part.targets.field
                is_elsewhere = truth.elsewhere or self.spec_.target_points != "inputs"
                bounds: Any = self._bounds_at(part.inputs, field if is_elsewhere else None, None)
                lower, upper = bounds
                if field is not None:
                    inside = (field.values >= lower.fields) & (field.values <= upper.fields)
                    shares["fields"].append(_share_inside(inside, np.asarray(field.n_points), self.guarantee))
                if (scalars := part.targets.scalars) is not None:
                    shares["scalars"].append(((scalars >= lower.scalars) & (scalars <= upper.scalars)).astype(float))
        means = [np.average(np.concatenate(found), axis=0, weights=weight) for found in shares.values() if found]
        return dict(zip(self._output_names(), np.concatenate(means).tolist(), strict=True))

    # ------------------------------------------------------------------ frames, and time series of meshes
    def _predicts_frames(self) -> Any:
        """The fitted estimator of frames, with X and y in the form of this one; None if there is none."""
        fitted = _frame_estimator(getattr(self, "estimator_", None))
        if fitted is None:
            return None
        frames = copy.copy(fitted)
        frames.__dict__.pop("series_", None)
        for name in ("spec_", "coords_", "mesh_", "series_", *_COLUMNS):
            if hasattr(self, name):
                setattr(frames, name, getattr(self, name))
        return frames

    def _writer(self, n_steps: Any, times: Any) -> tuple[Any, IntArray | None]:
        """What puts predictions into their form, and the channels of the frames that are asked for; None for all."""
        if n_steps is None and times is None:
            return self, None
        frames = self._predicts_frames()
        if frames is None:
            name = "n_steps" if times is None else "times"
            raise FieldDataError(f"{name} was given, but the estimator predicts no frames; leave it out.")
        part, numbers = frames._part_of_frames(n_steps, times)
        count = frames._n_components
        return part, np.add.outer(count * np.asarray(numbers), np.arange(count)).ravel()

    def _read_inputs(self, X: Any, params: Any = None) -> tuple[FieldSet, list[Any] | None]:
        """Read the X of a prediction; also return its meshes, or its runs if it is time series of them."""
        check_is_fitted(self)
        reader: Any = self._predicts_frames() if hasattr(self, "series_") else super()
        return reader._read_inputs(X, params)

    def _read_scored(self, X: Any, y: Any, params: Any = None, sample_weight: Any = None) -> tuple[FieldSet, Targets]:
        """Read the X and y of a score."""
        check_is_fitted(self)
        reader: Any = self._predicts_frames() if hasattr(self, "series_") else super()
        return reader._read_scored(X, y, params, sample_weight)

    def _restore(self, predictions: Predictions, places: FieldSet, meshes: list[Any] | None, labels: Any = None) -> Any:
        """Convert predictions to the form of y."""
        writer: Any = self._predicts_frames() if hasattr(self, "series_") else super()
        return writer._restore(predictions, places, meshes, labels)

    def _restore_bounds(
        self, mean: Any, bounds: Sequence[Predictions], places: FieldSet, meshes: list[Any] | None, labels: Any = None
    ) -> list[Any]:
        """Convert lower and upper bounds to the form of y."""
        writer: Any = self._predicts_frames() if hasattr(self, "series_") else super()
        return writer._restore_bounds(mean, bounds, places, meshes, labels)

    # ------------------------------------------------------------------ the band in numbers

    def _predict_with_spread(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, Predictions] | None:
        """Prediction and half the width of the band; what the estimator knows by itself if X does not set the width."""
        if self.quantiles_ is not None and self.scale_kind_ in ("residuals", "constant"):
            inner = self.estimator_
            return inner._predict_with_spread(inputs, coords) if isinstance(inner, FieldRegressor) else None
        lower, upper = self._bounds_at(inputs, coords, None)
        halves = [
            None if (low := getattr(lower, kind)) is None else (getattr(upper, kind) - low) / 2 for kind in _KINDS
        ]
        return self._mean_at(inputs, coords)[0], Predictions(*halves)

    def _levels(self, sample_weight: Any, n_samples: int) -> FloatArray | None:
        """Mass of calibration samples up to which the scores of each new sample go; None for the same of all."""
        if sample_weight is None:
            return None
        if self.pools_ is None or not hasattr(self, "new_weight_"):
            raise FieldDataError(
                "this model was saved without the scores that sample_weight needs; fit it again, or leave it out."
            )
        refuse_mask(sample_weight, "sample_weight")
        weight = np.asarray(sample_weight, dtype=np.float64)
        if weight.shape != (n_samples,) or not np.isfinite(weight).all() or (weight < 0).any():
            raise FieldDataError(
                f"sample_weight of shape {weight.shape} was given for {n_samples} samples; expected one finite number "
                "of at least 0 for each of them."
            )
        held = 1 - self.new_mass_
        with np.errstate(over="ignore"):
            levels: FloatArray = self.coverage_ * (held + weight / self.new_weight_ * self.new_mass_)
        worst = int(np.argmax(levels))
        if levels[worst] > held + _ROUNDING:
            largest = (1 / self.coverage_ - 1) * held * self.new_weight_ / self.new_mass_
            raise FieldDataError(
                f"sample_weight[{worst}] is {weight[worst]:.3g}, but with coverage={self.coverage_:g} and these "
                f"calibration samples a weight above {largest:.3g} needs an infinite band. Calibrate with more samples "
                "like it, or lower the coverage."
            )
        return levels

    def _bounds_at(self, inputs: FieldSet, coords: Any, levels: FloatArray | None) -> tuple[Predictions, Predictions]:
        """Lower and upper bounds, up to the same mass of the scores or to that of each sample."""
        found = [
            _mean_and_scale(self._as_fitted(model, scale), inputs, coords, self.spec_)
            for model, scale in zip(self.fold_estimators_ or [self.estimator_], self.scales_, strict=True)
        ]
        ends: list[dict[str, Any]] = [{}, {}]
        for kind in _KINDS:
            means, widths = ([getattr(part[side], kind) for part in found] for side in (0, 1))
            if means[0] is None:
                ends[0][kind] = ends[1][kind] = None
                continue
            level: Any = self.coverage_ if levels is None else _for_rows(levels, means[0], kind, found[0][2])
            if self.quantiles_ is not None:
                factors = self.quantiles_[kind]
                if levels is not None:
                    pools = (self.pools_ or [])[0][kind]
                    factors = np.stack([_factors(table, level) for table in pools], axis=-1)
                half = factors * widths[0]
                ends[0][kind], ends[1][kind] = means[0] - half, means[0] + half
                continue
            tables = [one[kind] for one in self.pools_ or ()]
            ends[0][kind] = -_upper_bounds([-mean for mean in means], widths, tables, level)
            ends[1][kind] = _upper_bounds(means, widths, tables, level)
        return Predictions(**ends[0]), Predictions(**ends[1])

    def _as_fitted(self, model: Any, scale: Any) -> _Fitted:
        """A fitted estimator with its scale."""
        return _Fitted(model, scale, self.scale_kind_, self.points_, getattr(self, "feature_names_in_", None))

    def _mean_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Prediction and its points."""
        found = _predicted(self._as_fitted(self.estimator_, None), inputs, coords, self.spec_)
        is_here = coords is None and self.spec_.target_points == "inputs"
        return as_predictions(found, len(inputs)), inputs if is_here or not isinstance(found, FieldSet) else found

    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Prediction of the estimator in physical units."""
        return self._mean_at(inputs, None)[0]

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Prediction of the estimator at other points."""
        if not self.spec_.n_outputs:
            raise FieldDataError("coords was given, but the estimator predicts scalars, not fields; leave it out.")
        return self._mean_at(inputs, coords)

    @property
    def _takes_other_points(self) -> bool:  # type: ignore[override]
        """Whether y may be on other points than X."""
        return bool(getattr(self.estimator, "_takes_other_points", False))

    @property
    def _n_components(self) -> int | None:
        """Number of channels of a frame if the estimator predicts frames; None otherwise."""
        return getattr(getattr(self, "estimator_", None), "_n_components", None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        # X is read here first.
        tags.input_tags.sparse = False
        return tags


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
class _Fitted:
    """A fitted estimator and its scale: an array at points, an estimator, or None; names of the columns of a table."""

    estimator: Any
    scale: Any
    name: str
    points: FloatArray | None
    columns: Any


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
    if not isinstance(model, FieldRegressor) or model.spec_.role == "features":
        return model
    new: Any = copy.copy(model)
    names = model.spec_.target_form.channel_names
    is_field = model.spec_.n_outputs > 0
    form = TargetForm("fieldset" if is_field else "array", channel_names=names)
    new.spec_, new.mesh_ = replace(model.spec_, target_form=form), None
    if not (is_step and model.spec_.role == "parameters"):
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
    return samples.fit(estimator)


def _fit_member(
    member: _Member, train: Samples, scaled: Samples, held: Samples, mass: FloatArray, guarantee: str
) -> tuple[Any, Any, dict[str, list[_Pool]]]:
    """Fit an estimator and its scale; also return the scores of held-out samples of these masses."""
    with checked_by_caller():
        model = member.estimator if member.is_frozen else _fitted(member.estimator, train)
        scale, name = None, member.scale
        if not isinstance(name, str):
            targets = _as_targets(_all_errors(scaled, model), scaled.targets)
            scale, name = _fitted(member.scale, replace(scaled, targets=targets)), "learned"
        elif name == "residuals":
            scale = _node_scale(scaled, model)
        field = held.targets.field
        points = None if field is None or name != "residuals" else field.coords
        fitted = _Fitted(model, scale, name, points, held.columns)
        return model, scale, _scores(fitted, held, mass, guarantee)


def _scores(fitted: _Fitted, held: Samples, mass: FloatArray, guarantee: str) -> dict[str, list[_Pool]]:
    """Scores of each channel and scalar of held-out samples, with masses; samples in files are read by pieces."""
    pools: dict[str, list[_Pool]] = {kind: [] for kind in _KINDS}
    for rows, part in held.pieces():
        field = part.targets.field
        mean, widths, _ = _mean_and_scale(fitted, part.inputs, field if part.targets.elsewhere else None, part.spec)
        errors = _errors(part, mean)
        for kind, values in ((kind, getattr(errors, kind)) for kind in _KINDS):
            if values is None:
                continue
            with np.errstate(over="ignore"):
                ratio = values / getattr(widths, kind)
            if ratio.max() > _HUGE:
                is_spread = fitted.name == "spread"
                raise FieldDataError(
                    f"the scale by {'the spread' if is_spread else type(fitted.scale).__name__} is zero in a whole "
                    "sample, where there are errors; for an EnsembleRegressor, set n_members to 2 or more, and "
                    "base=None in its estimator. Or set scale='residuals' or 'constant'."
                )
            ratio, own = ratio.reshape(-1, ratio.shape[-1]), mass[rows]
            sizes = np.asarray(field.n_points) if kind == "fields" and field is not None else np.ones(len(part), int)
            if guarantee == "simultaneous":
                starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
                ratio = np.asarray(np.maximum.reduceat(ratio, starts, axis=0))
            else:
                own = np.repeat(own / sizes, sizes)
            pools[kind] = pools[kind] or [_Pool() for _ in range(ratio.shape[-1])]
            for pool, column in zip(pools[kind], ratio.T, strict=True):
                pool.add(column, own)
    return pools


def _frame_estimator(estimator: Any) -> Any:
    """Estimator of frames: the given one, or the members of an ensemble; None if it is another one."""
    if isinstance(estimator, EnsembleRegressor):
        estimator = getattr(estimator, "estimators_", [estimator.estimator])[0]
    return estimator if isinstance(estimator, BaseFrameRegressor) else None


def _frames_of(predictions: Predictions, channels: IntArray | None) -> Predictions:
    """Some channels or scalars of predictions."""
    if channels is None:
        return predictions
    parts = (getattr(predictions, kind) for kind in _KINDS)
    return Predictions(*(None if part is None else part[..., channels] for part in parts))


def _errors(samples: Samples, found: Predictions) -> Predictions:
    """Absolute errors of predictions of samples."""
    field, scalars = samples.targets.field, samples.targets.scalars
    return Predictions(
        None if field is None else np.abs(np.asarray(field.values, np.float64) - np.asarray(found.fields)),
        None if scalars is None else np.abs(np.asarray(scalars, np.float64) - np.asarray(found.scalars)),
    )


def _share_inside(inside: NDArray[np.bool_], sizes: IntArray, guarantee: str) -> FloatArray:
    """Share of the nodes of each sample at which a condition holds, or whether it holds at all of them, ``(n, q)``."""
    nodes = inside.reshape(-1, inside.shape[-1]).astype(float)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    if guarantee == "simultaneous":
        return np.asarray(np.minimum.reduceat(nodes, starts, axis=0))
    return np.asarray(np.add.reduceat(nodes, starts, axis=0) / sizes[:, None])


def _all_errors(samples: Samples, model: Any) -> Predictions:
    """Absolute errors of a model at all samples."""
    parts = [_errors(part, part.predicted_by(model)) for _, part in samples.pieces()]
    joined = [[getattr(part, kind) for part in parts] for kind in _KINDS]
    return Predictions(*(None if held[0] is None else np.concatenate(held) for held in joined))


def _as_targets(errors: Predictions, targets: Targets) -> Targets:
    """Errors as targets of an estimator, at the points of the targets that they are errors of."""
    field = None
    if targets.field is not None and errors.fields is not None:
        field = targets.field.with_values(errors.fields)
    return Targets(field, errors.scalars, targets.elsewhere)


def _node_scale(samples: Samples, model: Any) -> FloatArray:
    """Root mean square of the errors of a model at each node, drawn towards that of all nodes, ``(P, q)``."""
    total: Any = 0.0
    for _, part in samples.pieces():
        total = total + (np.asarray(_errors(part, part.predicted_by(model)).fields) ** 2).sum(axis=0)
    everywhere = total.mean(axis=0) / len(samples)
    scale = np.sqrt((total + _PRIOR * everywhere) / (len(samples) + _PRIOR))
    return np.where(everywhere > 0, scale, 1.0)


def _predicted(fitted: _Fitted, inputs: FieldSet, coords: Any, spec: DataSpec, **options: Any) -> Any:
    """Prediction of a model, as it comes."""
    if coords is not None:
        options["coords"] = coords
    X = as_input(fitted.estimator, inputs, spec, fitted.columns)
    with checked_by_caller():
        return fitted.estimator.predict(X, **options)


def _mean_and_scale(
    fitted: _Fitted, inputs: FieldSet, coords: Any, spec: DataSpec
) -> tuple[Predictions, Predictions, FieldSet]:
    """Prediction of a model, its scale, and the points of both."""
    spread = None
    if fitted.name == "spread":
        found, spread = _predicted(fitted, inputs, coords, spec, return_std=True)
    else:
        found = _predicted(fitted, inputs, coords, spec)
        if fitted.name == "learned":
            spread = _predicted(replace(fitted, estimator=fitted.scale), inputs, coords, spec)
    mean = as_predictions(found, len(inputs))
    places = found if isinstance(found, FieldSet) else inputs
    if spread is not None:
        sizes = as_predictions(spread, len(inputs))
        fields = None if sizes.fields is None else _raised(sizes.fields, places)
        scalars = None if sizes.scalars is None else np.maximum(sizes.scalars, np.finfo(np.float64).tiny)
        return mean, Predictions(fields, scalars), places
    fields = None if mean.fields is None else np.ones_like(mean.fields)
    if fields is not None and fitted.scale is not None:
        fields = _scale_at(fitted.scale, fitted.points, places)
    return mean, Predictions(fields, None if mean.scalars is None else np.ones_like(mean.scalars)), places


def _raised(sizes: FloatArray, places: FieldSet) -> FloatArray:
    """Sizes (n, P, q) or (T, q), raised where they are much lower than those of other nodes of the sample."""
    flat = np.maximum(sizes.reshape(-1, sizes.shape[-1]), 0.0)
    counts = np.asarray(places.n_points)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    squares = np.add.reduceat(flat**2, starts, axis=0) / counts[:, None]
    lowest = np.maximum(_LOWEST * np.sqrt(squares), np.finfo(np.float64).tiny)
    return np.maximum(flat, np.repeat(lowest, counts, axis=0)).reshape(sizes.shape)


def _scale_at(scale: FloatArray, points: FloatArray | None, places: FieldSet) -> FloatArray:
    """Scale (P, q) of nodes at the points of samples, (n, P, q) or (T, q)."""
    coords = np.asarray(places.coords)
    if places.shared_coords and points is not None and np.array_equal(coords, points):
        return np.broadcast_to(scale, (len(places), *scale.shape))
    at_nodes = FieldSet(np.asarray(points), np.broadcast_to(scale, (len(places), *scale.shape)).copy())
    # Curves through positive numbers can be lower than all of these.
    return np.asarray(np.maximum(interpolate_fields(at_nodes, places), scale.min(axis=0)))


# ---------------------------------------------------------------------- quantiles
def _masses(n_samples: int, weight: FloatArray | None, groups: Any) -> tuple[FloatArray, float, float]:
    """Probability of each calibration sample, of a new one that counts as the heaviest, and the weight of that one."""
    weights: FloatArray = np.ones(n_samples) if weight is None else weight
    unit = np.arange(n_samples) if groups is None else np.unique(groups, return_inverse=True)[1].ravel()
    sums, counts = np.bincount(unit, weights), np.bincount(unit)
    of_units = sums / counts
    total = of_units.sum() + of_units.max()
    return weights / counts[unit] / total, float(of_units.max() / total), float(of_units.max())


class _Pool:
    """Scores of one channel, or scalar, with their masses.

    Where scores come in many parts, as from files, close ones are joined: to the largest of them, with the mass of all.
    Then the mass up to each score that is left is still exact, and a quantile is the true one or slightly larger.
    """

    def __init__(self) -> None:
        self.scores = self.mass = np.empty(0)
        self.counts = np.empty(0, dtype=np.int64)
        self._limit = _MOST_SCORES

    def add(self, scores: FloatArray, mass: FloatArray) -> None:
        """Add scores, at least 0; those of all samples at once are kept as they are."""
        is_first = not len(self.scores)
        self.scores, self.mass = np.concatenate([self.scores, scores]), np.concatenate([self.mass, mass])
        self.counts = np.concatenate([self.counts, np.ones(len(scores), dtype=np.int64)])
        if is_first or len(self.scores) <= self._limit:
            return
        order = np.argsort(self.scores, kind="stable")
        # Numbers of at least 0 are in the order of their bits.
        leading = np.ascontiguousarray(self.scores[order]).view(np.int64) >> _JOINED_BITS
        starts = np.flatnonzero(np.diff(leading, prepend=-1))
        self.scores = self.scores[order][np.append(starts[1:], len(order)) - 1]
        self.mass, self.counts = (np.add.reduceat(part[order], starts) for part in (self.mass, self.counts))
        self._limit = max(_MOST_SCORES, 2 * len(self.scores))

    def quantile(self, coverage: float) -> float:
        """Lowest score up to which the mass is the coverage."""
        order = np.argsort(self.scores, kind="stable")
        place = int(np.searchsorted(np.cumsum(self.mass[order]), coverage - _ROUNDING))
        return float(self.scores[order[min(place, len(order) - 1)]])

    def table(self) -> FloatArray:
        """Sorted scores and the masses up to each, (2, m), at most `_KEPT_SCORES` scores; others are rounded up."""
        order = np.argsort(self.scores, kind="stable")
        counts = np.cumsum(self.counts[order])
        ends = np.linspace(0, counts[-1], min(counts[-1], _KEPT_SCORES) + 1).round().astype(int)[1:]
        places = np.unique(np.searchsorted(counts, ends))
        return np.stack([self.scores[order], np.cumsum(self.mass[order])])[:, places]


def _for_rows(levels: FloatArray, values: FloatArray, kind: str, places: FieldSet) -> FloatArray:
    """Numbers of samples (n,) in a shape that goes with one channel of values (n, P, q), (T, q) or scalars (n, s)."""
    if kind == "scalars":
        return levels
    return levels[:, None] if values.ndim > 2 else np.repeat(levels, places.n_points)


def _factors(table: FloatArray, levels: FloatArray) -> FloatArray:
    """Lowest scores of a `_Pool.table` up to which the mass is each of the levels."""
    place = np.searchsorted(table[1], levels - _ROUNDING)
    return np.asarray(table[0, np.minimum(place, table.shape[1] - 1)])


def _upper_bounds(
    means: list[FloatArray], widths: list[FloatArray], pools: list[list[FloatArray]], coverage: Any
) -> FloatArray:
    """Lowest numbers up to which mean + score * scale of all models and scores have the mass of the coverage.

    The coverage is one number, or an array that goes with one channel of the means.
    """
    bounds = np.empty_like(means[0])
    for channel in range(bounds.shape[-1]):
        parts = [(mean[..., channel], width[..., channel]) for mean, width in zip(means, widths, strict=True)]
        tables = [pool[channel] for pool in pools]
        upper = np.max([m + w * table[0, -1] for (m, w), table in zip(parts, tables, strict=True)], axis=0)
        lower = np.min([m for m, _ in parts], axis=0)
        for _ in range(_BISECTIONS):
            middle = lower + (upper - lower) / 2
            mass = np.zeros_like(middle)
            for (m, w), table in zip(parts, tables, strict=True):
                up_to = np.concatenate([[0.0], table[1]])
                mass += up_to[np.searchsorted(table[0], (middle - m) / w, side="right")]
            is_enough = mass >= coverage - _ROUNDING
            upper, lower = np.where(is_enough, middle, upper), np.where(is_enough, lower, middle)
        bounds[..., channel] = upper
    return bounds


# ---------------------------------------------------------------------- what a file must hold
@checks("ConformalRegressor")
def _check_conformal(held: Held) -> None:
    """Check what bands are made of from a file."""
    if "spec_" not in vars(held.value):
        return
    spec, folds = held.get("spec_"), held.get("fold_estimators_")
    held.need(isinstance(folds, list), "fold_estimators_", "a list of fitted estimators")
    for name, member in [("estimator_", held.get("estimator_")), *(("fold_estimators_", fold) for fold in folds)]:
        check_takes(held, name, member, spec)
    held.need(0 < held.number("coverage_") < 1, "coverage_", "a number between 0 and 1")
    held.whole("n_calibration_", 1)
    kind = held.word("scale_kind_", ("residuals", "spread", "constant", "learned"))
    points, scales = held.array("points_", None, spec.n_dims, optional=True), held.get("scales_")
    held.need(isinstance(scales, list) and len(scales) == max(1, len(folds)), "scales_", "one for each estimator")
    for scale in scales:
        is_learned = kind == "learned" and scale is not None
        if is_learned:
            check_takes(held, "scales_", scale, spec)
        is_size = kind == "residuals" and is_array(scale, (None, spec.n_outputs), positive=True)
        held.need(is_learned or is_size or scale is None, "scales_", f"those of {kind!r}")
        held.need(not is_size or (points is not None and len(points) == len(scale)), "points_", "the nodes of scales_")
    counts = {"fields": spec.n_outputs, "scalars": spec.n_scalars}
    if not folds:
        held.need(_has_parts(held.get("quantiles_"), counts, _is_factor), "quantiles_", "factors of all outputs")
    pools = held.get("pools_")
    # Files of earlier versions have no pools.
    if folds or pools is not None:
        are_known = isinstance(pools, list) and len(pools) == max(1, len(folds))
        are_known = are_known and all(_has_parts(one, counts, _is_score_table) for one in pools)
        held.need(are_known, "pools_", "scores of all outputs, for each fold")
    if "new_weight_" in vars(held.value):
        held.need(0 < held.number("new_weight_") < np.inf, "new_weight_", "a positive number")
        held.need(0 < held.number("new_mass_") < 1, "new_mass_", "a number between 0 and 1")


def _has_parts(found: Any, counts: dict[str, int], is_right: Callable[[Any], bool]) -> bool:
    """Whether there is one right part for each channel and scalar."""
    return (
        isinstance(found, dict)
        and found.keys() == counts.keys()
        and all(len(found[kind]) == count and all(map(is_right, found[kind])) for kind, count in counts.items())
    )


def _is_factor(part: Any) -> bool:
    """Whether this is a finite number."""
    return isinstance(part, float) and isfinite(part)


def _is_score_table(part: Any) -> bool:
    """Whether this is a table of finite scores and the masses up to each."""
    return isinstance(part, np.ndarray) and part.ndim == 2 and len(part) == 2 and bool(np.isfinite(part).all())
