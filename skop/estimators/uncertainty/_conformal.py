"""ConformalRegressor: bands around the predictions of any estimator, with a coverage that is guaranteed.

Notation: n samples, P points, T points of all samples together, q output channels, s scalars, K models, N values.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from skop._sklearn_compat import HasMethods, Interval, StrOptions, final_regressor, fit_context
from skop._typing import FloatArray, IntArray
from skop.data import FieldSet, PointSymmetries, Predictions, TrainingData, are_among, is_mesh_series, split_series
from skop.estimators._field import FieldRegressor, restored_on_failure
from skop.estimators._parts import by_chunks
from skop.estimators._weights import check_weight, used_samples
from skop.estimators._wrapper import WrappingRegressor
from skop.estimators.classical._copies import groups_of_repeats
from skop.estimators.files._file_checks import Held, check_takes, checks, is_array
from skop.estimators.files._persistence import KNOWN
from skop.estimators.fitting._checkpoint import passed_on, require_seed
from skop.estimators.selection._search import Samples
from skop.estimators.temporal._frames import BaseFrameRegressor
from skop.estimators.uncertainty._calibration import Calibration, FittedModel
from skop.estimators.uncertainty._ensemble import EnsembleRegressor
from skop.estimators.uncertainty._scores import (
    KINDS,
    Pool,
    bounds_by_factors,
    bounds_of_folds,
    levels_of,
    node_counts,
    share_inside,
)
from skop.exceptions import FieldDataError, each_warning_once, warn
from skop.surrogate._predictions import combined, each_part
from skop.surrogate._profile import BETWEEN_VALUES, coarse_design

__all__ = ["ConformalRegressor"]

KNOWN["FrozenEstimator"] = FrozenEstimator

#: Attributes that scikit-learn stores of a table X.
_COLUMNS = ("n_features_in_", "feature_names_in_")


class ConformalRegressor(WrappingRegressor):
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
    lowest_scales_ : list
        Lowest scale of each channel (``"fields"``) and scalar (``"scalars"``) of each scale that was learned, a
        hundredth of the root mean square of the errors; None for other scales.
    points_ : ndarray of shape (P, d) or None
        Nodes that all samples of y shared, at which bands are calibrated; None without such.
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
    **What holds.** A score of a calibration sample is its error divided by the scale. For ``method="split"``, a
    simultaneous band, a scalar, and a field of one node, the factor is the k-th smallest score, k = ceil((n + 1)
    coverage), and the probability that a new sample is covered is k / (n + 1). Given the calibration samples, it varies
    as Beta(k, n + 1 - k): with n = 50 and ``coverage=0.9``, between 0.81 and 0.97 in 95 % of calibrations. A point-wise
    band covers a share of nodes of at least `coverage` on average over calibrations and new samples. It does not say
    that every node is covered with this probability.

    CV+ and jackknife+ use all samples, and have weaker guarantees: 1 - 2 alpha for jackknife+, and at least
    1 - 2 alpha - sqrt(2 / n) for CV+, in theory; about 1 - alpha is usual. For point-wise bands this is the average
    share of nodes.

    The coverage is an average over new samples: those far from the training samples are covered less often, others more
    often, unless the scale tells them apart. Outside the range of the fit nothing is guaranteed. For samples on points
    of their own a simultaneous band is for the points of a sample, and depends on how many there are; predicted
    elsewhere by `coords`, it is not calibrated for these points. Nor are bands of samples that share their nodes at
    other points, or from X on another grid; a warning says so.

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
    V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", 2005, for the split. R. Barber et al.,
    "Predictive inference with the jackknife+", Annals of Statistics 2021. J. Diquigiovanni et al., "Conformal
    prediction bands for multivariate functional data", JMVA 2022. The page on uncertainty of the user guide lists those
    for scales, groups and weights.

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
            By default, samples with the same inputs, or nearly, are a group, unless `cv` is a splitter or a list.
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
            read = self._read(X, y, params=params, sample_weight=sample_weight, groups=groups)
            data, weight, labels, used = used_samples(read, sample_weight, groups)
            self._check_steps(data.spec.is_table or data.spec.is_fieldset, data.spec)
            if words := coarse_design(data.inputs):
                warn(f"{words}. Bands hold for new samples with these values; {BETWEEN_VALUES}")
            if labels is None and (self.method != "cv+" or isinstance(self.cv, Integral)):
                labels = groups_of_repeats(data.inputs, nearly=True)
            given = data.inputs, data.targets, data.spec, weight, checkpoint_dir, labels, self._columns
            samples = Samples(*given, names=data.called)
            estimator = _at_times(self.estimator, getattr(self, "series_", {}))
            self.__dict__.update(Calibration(self, estimator, samples, used).run())
            self._store_data(data)
        return self

    def _read(self, X: Any, y: Any, *, params: Any = None, sample_weight: Any = None, **options: Any) -> TrainingData:
        """X and y of a fit; time series of meshes are read by the estimator, which predicts frames."""
        self.__dict__.pop("series_", None)
        reader = _reader_of_series(self.estimator, X, y, params)
        if reader is None:
            return super()._read(X, y, params=params, sample_weight=sample_weight, **options)
        found = reader._read(X, y, params=params, sample_weight=sample_weight, **options)
        if isinstance(self.estimator, FrozenEstimator):
            # This also compares the series with those of the fit.
            _frame_estimator(self.estimator.estimator)._read_scored(X, y, params, sample_weight)
        self.series_, self.mesh_, self.fit_record_ = reader.series_, None, reader.fit_record_
        self.__dict__.update({name: getattr(reader, name) for name in _COLUMNS if hasattr(reader, name)})
        return found

    def _moving(self) -> PointSymmetries | None:
        """Those of the estimator that predicts."""
        found: PointSymmetries | None = getattr(self.estimator_, "_moving", lambda: None)()
        return found

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
            ``"residuals"`` is interpolated to them; the coverage holds at nodes of the calibration alone.
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

        Warns
        -----
        SkopWarning
            If calibration samples share their nodes, and X or the prediction is on others.
        """
        check_is_fitted(self)
        writer, channels = self._writer(n_steps, times)

        def ask(inputs: FieldSet, points: Any) -> tuple[list[Predictions], FieldSet]:
            """Prediction and bounds of the frames that are asked for."""
            levels = self._levels(sample_weight, len(inputs))
            mean, places = self._asked(inputs, points)
            self._warn_of_other_points(inputs, places)
            found = [*mean, *self._bounds_at(inputs, points, levels)]
            if channels is not None:
                found = [each_part(lambda part: part[..., channels], each) for each in found]
            return found, places

        return self._answered(X, coords, params, ask, writer)

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
        shares: dict[str, list[FloatArray]] = {kind: [] for kind in KINDS}
        with each_warning_once():
            inputs, truth = self._read_scored(X, y, params, sample_weight)
            self._warn_if_outside(inputs, X)
            weight = check_weight(sample_weight, len(inputs))
            self._warn_of_other_points(inputs, inputs if truth.field is None else truth.field)
            is_elsewhere = truth.elsewhere or self.spec_.target_points != "inputs"
            for _, part in Samples(inputs, truth, self.spec_, None).pieces():
                field = part.targets.field
                bounds = self._bounds_at(part.inputs, field if is_elsewhere else None, None)
                for kind, true in zip(
                    KINDS, (None if field is None else field.values, part.targets.scalars), strict=True
                ):
                    if true is not None:
                        lower, upper = (getattr(bound, kind) for bound in bounds)
                        inside = (true >= lower) & (true <= upper)
                        shares[kind].append(share_inside(inside, node_counts(part.targets, kind), self.guarantee))
        means = [np.average(np.concatenate(found), axis=0, weights=weight) for found in shares.values() if found]
        return dict(zip(self.spec_.output_names, np.concatenate(means).tolist(), strict=True))

    # ------------------------------------------------------------------ frames, and time series of meshes
    def _predicts_frames(self) -> Any:
        """The fitted estimator of frames, with X and y in the form of this one; None if there is none."""
        fitted = _frame_estimator(final_regressor(getattr(self, "estimator_", None))[0])
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
            return None, None
        frames = self._predicts_frames()
        if frames is None:
            name = "n_steps" if times is None else "times"
            raise FieldDataError(f"{name} was given, but the estimator predicts no frames; leave it out.")
        part, numbers = frames._part_of_frames(n_steps, times)
        count = frames._n_components
        return part, np.add.outer(count * np.asarray(numbers), np.arange(count)).ravel()

    @property
    def _series_part(self) -> Any:
        """The estimator of frames, if the fit was on time series of meshes."""
        return self._predicts_frames() if hasattr(self, "series_") else None

    # ------------------------------------------------------------------ the band in numbers
    def _facts(self) -> dict[str, Any]:
        """Coverage and widths of the bands, for the model card; those of folds are for folds that agree."""
        widths = list[float]()
        for kind in KINDS:
            if self.quantiles_ is None:
                pools = zip(*(one[kind] for one in self.pools_), strict=True)
                factors = [_joined_quantile(tables, self.coverage_) for tables in pools]
            else:
                factors = self.quantiles_[kind]
            sizes: Any = [1.0] * len(factors)
            if kind == "fields" and self.scale_kind_ == "residuals":
                sizes = np.sqrt(np.mean(np.square(self.scales_), axis=(0, 1)))
            widths += [float(factor * size) for factor, size in zip(factors, sizes, strict=True)]
        is_relative = self.scale_kind_ in ("spread", "learned")
        bands = {"coverage": self.coverage_, "guarantee": self.guarantee, "method": self.method}
        bands |= {"calibrated_on": self.n_calibration_, "scale": self.scale_kind_}
        bands["half_width_over_scale" if is_relative else "half_width"] = dict(
            zip(self.spec_.output_names, widths, strict=True)
        )
        return super()._facts() | {"bands": bands}

    def _predict_with_spread(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, Predictions] | None:
        """Prediction and half the width of the band; what the estimator knows by itself if X does not set the width."""
        if self.quantiles_ is not None and self.scale_kind_ in ("residuals", "constant"):
            inner = self.estimator_
            return inner._predict_with_spread(inputs, coords) if isinstance(inner, FieldRegressor) else None
        lower, upper = self._bounds_at(inputs, coords, None)
        half = combined(lambda low, high: (high - low) / 2, lower, upper)
        return self._asked(inputs, coords)[0][0], half

    def _levels(self, sample_weight: Any, n_samples: int) -> FloatArray | None:
        """Mass of calibration samples up to which the scores of each new sample go; None for the same of all."""
        if sample_weight is None:
            return None
        if self.pools_ is None or not hasattr(self, "new_weight_"):
            raise FieldDataError(
                "this model was saved without the scores that sample_weight needs; fit it again, or leave it out."
            )
        return levels_of(sample_weight, n_samples, self.coverage_, self.new_mass_, self.new_weight_)

    def _warn_of_other_points(self, inputs: FieldSet, places: FieldSet) -> None:
        """Warn if fields are predicted elsewhere than at nodes that the calibration samples share, or from other X."""
        nodes, words = self.points_, ""
        if nodes is None:
            return
        are_inputs = bool(self.spec_.n_fields) and self.spec_.target_points == "inputs"
        if not are_among(places, nodes):
            words = f"fields are predicted here at {places.n_points.max()}, some of which are others"
        elif are_inputs and not ((inputs.n_points == len(nodes)).all() and are_among(inputs, nodes)):
            words = f"X has {inputs.n_points.max()} here, which are not the same"
        if words:
            warn(
                f"bands are calibrated on samples at {len(nodes)} points, but {words}: errors such as those of "
                "interpolation come in addition, which were not measured, so that the coverage may be far below "
                f"{self.coverage_:g}. Fit and calibrate on samples at the points of the prediction. Operators can stay "
                "as they are: ConformalRegressor(FrozenEstimator(model.estimator_)).fit(X, y) takes new samples alone."
            )

    def _bounds_at(self, inputs: FieldSet, coords: Any, levels: FloatArray | None) -> tuple[Predictions, Predictions]:
        """Lower and upper bounds, up to the same mass of the scores or to that of each sample."""
        # Files of earlier versions have no lowest scales.
        lowest = vars(self).get("lowest_scales_", [None] * len(self.scales_))
        models = zip(self.fold_estimators_ or [self.estimator_], self.scales_, lowest, strict=True)
        given = self.scale_kind_, self.points_, self._columns
        found = [FittedModel(*model, *given).mean_and_scale(inputs, coords, self.spec_) for model in models]
        pools = self.pools_ or [None]
        if self.quantiles_ is not None:
            return bounds_by_factors(*found[0], self.quantiles_, pools[0], levels)
        return bounds_of_folds(found, pools, self.coverage_, levels)


def _joined_quantile(tables: Sequence[FloatArray], coverage: float) -> float:
    """Lowest score of all folds together up to which the mass is the coverage."""
    joined = Pool()
    for scores, masses in tables:
        joined.add(scores, np.diff(masses, prepend=0.0))
    return joined.quantile(coverage)


def _frame_estimator(estimator: Any) -> Any:
    """Estimator of frames: the given one, or the members of an ensemble; None if it is another one."""
    if isinstance(estimator, EnsembleRegressor):
        estimator = getattr(estimator, "estimators_", [estimator.estimator])[0]
    return estimator if isinstance(estimator, BaseFrameRegressor) else None


def _reader_of_series(estimator: Any, X: Any, y: Any, params: Any) -> Any:
    """Unfitted copy of the estimator of frames, if X or y is time series of meshes; None otherwise."""
    is_frozen = isinstance(estimator, FrozenEstimator)
    inner = estimator.estimator if is_frozen else estimator
    if is_frozen:
        check_is_fitted(inner)
    frames = _frame_estimator(inner)
    runs, targets, _ = split_series(X, y, params)
    if frames is None or not frames._takes_series(runs, targets):
        if is_mesh_series(runs) or is_mesh_series(targets):
            raise FieldDataError(
                f"{type(inner).__name__} takes no time series of meshes; put it in a RolloutRegressor or "
                "TimeConditionedRegressor, or pass frames as channels of fields."
            )
        return None
    reader = copy.copy(frames) if is_frozen else clone(frames)
    if is_frozen and hasattr(frames, "window_"):
        # Runs may have more frames than the fitted estimator predicts.
        reader.n_steps = frames.n_frames_
    return reader


def _at_times(estimator: Any, series: dict[str, Any]) -> Any:
    """The estimator, which gets the times of time series of meshes, since it is fitted on their frames."""
    times = series.get("times")
    if times is None or isinstance(estimator, FrozenEstimator):
        return estimator
    estimator = clone(estimator)
    frames: Any = _frame_estimator(estimator)
    if frames.times is None:
        frames.set_params(times=times)
    return estimator


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
    if "lowest_scales_" in vars(held.value):
        lowest = held.get("lowest_scales_")
        are_known = isinstance(lowest, list) and len(lowest) == len(scales)
        are_known = are_known and all(one is None or _has_parts(one, counts, _is_size) for one in lowest)
        held.need(are_known, "lowest_scales_", "one for each of scales_, of all outputs")
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


def _is_size(part: Any) -> bool:
    """Whether this is a finite number that is not negative."""
    return isinstance(part, float) and 0 <= part < np.inf


def _is_score_table(part: Any) -> bool:
    """Whether this is a table of finite scores and the masses up to each."""
    return isinstance(part, np.ndarray) and part.ndim == 2 and len(part) == 2 and bool(np.isfinite(part).all())
