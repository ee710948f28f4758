"""FieldRegressor: base class of all regressors on fields, which reads X and y, restores the form of y, and scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import prod
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skop._optional import import_optional
from skop._sklearn_compat import last_step
from skop._typing import FloatArray, PathOrStr
from skop.data import (
    DataSpec,
    FieldSet,
    Predictions,
    Targets,
    TrainingData,
    attach_beside,
    beside,
    check_index,
    form_of,
    interpolate_fields,
    query_points,
    read,
    read_inputs,
    read_query,
    read_scored,
    restore,
    series_files,
)
from skop.estimators._parts import by_chunks
from skop.estimators._streams import StreamedSamples, scores_of_channels
from skop.estimators._weights import samples_with_weight
from skop.estimators.files._file_checks import Held, checks, is_array
from skop.estimators.files._persistence import register, save_estimator
from skop.exceptions import FieldDataError, each_warning_once, held_warnings, warn
from skop.metrics import channel_sizes, relative_l2_score
from skop.surrogate._domain import SeenRanges, warn_of_findings
from skop.surrogate._novelty import Lattice, Novelty, Reference, check_level, features, reference_of, warn_of_novelty
from skop.surrogate._profile import Finding, Profile, table_of

__all__ = [
    *("FieldRegressor", "checked_by_caller", "end_if_interrupted", "fitted_attributes"),
    *("n_referenced", "restored_on_failure", "times_since"),
]

#: Predictions at points, or at those of y in the fit for None, with a spread or two bounds or alone; and the points.
Ask = Callable[[FieldSet, Any], tuple[list[Predictions], FieldSet]]
#: Whether an estimator of skop has called this one, and has looked at the data itself.
_is_checked: ContextVar[bool] = ContextVar("is_checked", default=False)


@contextmanager
def checked_by_caller() -> Iterator[None]:
    """Let estimators that are called within the block not warn of odd data or of data outside of what they have seen.

    An estimator that wraps another one knows the user's samples, of which the other one sees parts and predictions.

    Yields
    ------
    None
        The block runs.
    """
    token = _is_checked.set(True)
    try:
        yield
    finally:
        _is_checked.reset(token)


def n_referenced(inputs: FieldSet) -> int:
    """Number of samples of a fit of which features are stored for their novelty."""
    return 0 if _is_checked.get() else Lattice.over(inputs).n_kept(inputs)


@contextmanager
def restored_on_failure(estimator: Any) -> Iterator[None]:
    """Note when and how long an estimator was fitted; where the block fails, give it the earlier fit, or none, back.

    Parameters
    ----------
    estimator : estimator
        Its attributes that end in ``_`` are those of a fit.

    Yields
    ------
    None
        The block runs.
    """
    before, start = fitted_attributes(estimator), time.perf_counter()
    try:
        yield
    except BaseException:
        # What callbacks hold must stay for them to be torn down.
        for name in fitted_attributes(estimator):
            delattr(estimator, name)
        estimator.__dict__.update(before)
        raise
    # A fit that had ended was taken from its checkpoints with its times.
    estimator.fit_record_ = times_since(start) | (estimator.fit_record_ or {})


def times_since(start: float) -> dict[str, Any]:
    """Date and seconds of a fit that began at a time of `time.perf_counter`, for its record."""
    seconds = time.perf_counter() - start
    date = datetime.now(UTC) - timedelta(seconds=seconds)
    return {"date": date.isoformat(timespec="seconds"), "seconds": seconds}


def fitted_attributes(estimator: Any) -> dict[str, Any]:
    """Return what a fit has set, by name.

    Parameters
    ----------
    estimator : estimator
        Estimator, fitted or not.

    Returns
    -------
    dict
        Its attributes that end in ``_``.
    """
    return {name: value for name, value in vars(estimator).items() if name.endswith("_") and name[0] != "_"}


def end_if_interrupted(model: Any) -> None:
    """Raise an interrupt that has ended a training of a model, since it is to end the other fits of the caller too."""
    if _was_interrupted(model):
        raise KeyboardInterrupt("training was interrupted")


def _was_interrupted(model: Any) -> bool:
    """Whether an interrupt has ended a training of a fitted model, or of a part of it."""
    model = last_step(model)
    parts = [getattr(model, "estimator_", None), *getattr(model, "estimators_", ())]
    return getattr(model, "stopped_", None) == "interrupted" or any(
        _was_interrupted(part) for part in parts if part is not None
    )


class FieldRegressor(RegressorMixin, BaseEstimator):
    """Base class of all regressors on fields and tables.

    A subclass defines `fit`, which reads X and y by `_read` and calls `_store_spec` to set `spec_` and `coords_`, and
    `_predict_values`.
    """

    spec_: DataSpec
    coords_: FloatArray | None
    mesh_: Any
    #: What the fit has seen; None for models that were saved before it was stored, or wrap other regressors.
    ranges_: SeenRanges | None = None
    #: Features of the training samples; None for models that were saved before it was stored, or wrap other regressors.
    reference_: Reference | None = None
    #: Samples of the fit, their checksum and split, its date and seconds, as the model card shows them; None for models
    #: that were saved before it was stored.
    fit_record_: dict[str, Any] | None = None
    #: Whether y may be on other points than X in a fit and in a score.
    _takes_other_points: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register(cls)

    # ------------------------------------------------------------------ reading
    def _read(
        self, X: Any, y: Any, *, params: Any = None, sample_weight: Any = None, groups: Any = None, reset: bool = True
    ) -> TrainingData:
        """X and y of a fit; without `reset` the columns of a table must be those of the earlier one."""
        check_index(X, sample_weight, "sample_weight")
        check_index(X, groups, "groups")
        options = {"params": params, "weighted": sample_weight is not None, "reset": reset, **self._mesh_options}
        data = read(X, y, estimator=self, other_points=self._takes_other_points, **options)
        self.mesh_, used = data.mesh, samples_with_weight(data, sample_weight)
        counts = used.inputs.n_points
        self.fit_record_ = {"samples": len(used.inputs), "points": [int(counts.min()), int(counts.max())]}
        if not _is_checked.get():
            # Estimators that are fitted within another one see parts of the same samples.
            self.fit_record_["checksum"] = used.checksum
            with each_warning_once():
                columns = getattr(self, "feature_names_in_", None)
                for finding in Profile(used, columns).problems():
                    warn(str(finding))
        return data

    @property
    def _mesh_options(self) -> dict[str, Any]:
        """Return the parameters for reading meshes, from this estimator or the one that it wraps."""
        if hasattr(self, "input_fields"):
            return {name: getattr(self, name) for name in ("input_fields", "target_fields", "cell_data")}
        return getattr(getattr(self, "estimator", None), "_mesh_options", {})

    def _store_spec(self, inputs: FieldSet, spec: DataSpec) -> None:
        """Store the form and sizes of the data."""
        self.spec_ = spec
        if not spec.is_table:
            # For a table scikit-learn has set both attributes. Names of an earlier fit on a table are removed.
            self.n_features_in_ = max(spec.n_fields, 1)
            self.__dict__.pop("feature_names_in_", None)
        self.coords_ = inputs.coords if spec.has_parameters_alone else None

    def _read_inputs(self, X: Any, params: Any = None) -> tuple[FieldSet, list[Any] | None]:
        """Read the X of a prediction; also return its meshes if it came as meshes."""
        check_is_fitted(self)
        cell_data = self._mesh_options.get("cell_data", "refuse")
        keep_data = self.spec_.target_form.components is not None
        options: dict[str, Any] = {"coords": self.coords_, "cell_data": cell_data, "keep_data": keep_data}
        return read_inputs(X, self.spec_, estimator=self, params=params, **options)

    def _read_query(self, X: Any, coords: Any, params: Any) -> tuple[FieldSet, Any, list[Any] | None]:
        """Read X and `coords` of a prediction; also return the meshes for its result, if there are any."""
        of_series = self._is_of_series
        if coords is None or of_series:
            inputs, meshes = self._read_inputs(X, params)
            held = None if coords is not None or of_series else getattr(self, "mesh_", None)
            is_elsewhere = coords is not None or self.spec_.target_points != "inputs"
            if is_elsewhere or (self.spec_.has_parameters_alone and not of_series):
                meshes = None if held is None else [held] * len(inputs)
            return inputs, coords, meshes
        check_is_fitted(self)
        options: dict[str, Any] = {"cell_data": self._mesh_options.get("cell_data", "refuse"), "params": params}
        options |= {"keep_data": self.spec_.target_form.components is not None, "fitted_coords": self.coords_}
        return read_query(X, coords, self.spec_, estimator=self, **options)

    @property
    def _is_of_series(self) -> bool:
        """Whether the fit, or that of the members, was on time series of meshes."""
        return any(hasattr(part, "series_") for part in (self, *getattr(self, "estimators_", ())[:1]))

    # ------------------------------------------------------------------ what the fit has seen
    def _store_data(self, data: TrainingData, weight: FloatArray | None = None) -> None:
        """Store form, sizes, points and ranges of the samples of a fit."""
        self._store_spec(data.inputs, data.spec)
        self._store_seen(data, weight)
        if data.spec.target_points == "shared" and data.targets.field is not None:
            self.coords_ = data.targets.field.coords

    def _store_seen(
        self, data: TrainingData, weight: FloatArray | None = None, earlier: SeenRanges | None = None
    ) -> None:
        """Store the ranges of the samples of a fit, joined with those of an earlier one, and features of the inputs."""
        self._store_ranges(data, weight, earlier)
        self._store_reference(data.inputs, weight)

    def _store_ranges(self, data: TrainingData, weight: FloatArray | None, earlier: SeenRanges | None) -> None:
        """Store the ranges of the samples with positive weight, joined with those of an earlier fit."""
        used = samples_with_weight(data, weight)
        seen = SeenRanges.from_fit(used.inputs, used.input_extremes, used.target_extremes, used.targets.scalars)
        self.ranges_ = seen if earlier is None else earlier.joined(seen)

    def _store_reference(self, inputs: FieldSet, weight: FloatArray | None) -> None:
        """Store features of the inputs with positive weight, unless another estimator, which has them, calls."""
        used = inputs if weight is None else inputs[np.flatnonzero(weight)]
        # What is odd about the samples has been said by the fit.
        with held_warnings():
            self.reference_ = None if _is_checked.get() else Reference.from_fit(used, self._tokens)

    def _tokens(self, inputs: FieldSet) -> FloatArray | None:
        """Means ``(n, E)`` over the points of the last tokens of the network; None without a network."""
        return None

    def novelty(self, X: Any, *, params: Any = None, level: float | None = 0.99) -> Novelty:
        """Measure how far samples lie from the training samples.

        The score needs no truth. It is the mean distance to the nearest five training samples, in a space of features:
        global parameters; input fields, averaged in cells; the places of the points; and the tokens of the network,
        averaged over the points. It depends neither on the order of the points nor on the units of X.

        Parameters
        ----------
        X : as in `predict`
            Inputs of a prediction.
        params : as in `predict`
            Global parameters beside fields or meshes.
        level : float or None, default=0.99
            Quantile, from 0 up to but not including 1, above which a `NoveltyWarning` is issued; None issues none. Of
            samples like those of the training, ``1 - level`` lie above it by chance.

        Returns
        -------
        Novelty
            Named tuple of two arrays of shape (n,): ``score``, and ``quantile``, the part of the training samples whose
            own scores, each computed without it, are lower: 1 is further than any.

        Raises
        ------
        FieldDataError
            If X has another form than in the fit, or the model holds no features of its training samples, since it was
            saved by an earlier version, or fitted within another estimator.

        See Also
        --------
        check : Numbers of X that are outside of their ranges in the fit.

        Notes
        -----
        At most 2000 training samples, evenly spaced among all, are compared with. Components of the features of each
        kind that hold 99 % of their variance, and the size of the rest, are kept; each kind is divided by the median
        distance of neighbouring training samples, so that all count alike.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import PODRegressor
        >>> X = np.random.default_rng(0).random((50, 2))
        >>> model = PODRegressor().fit(X, X.sum(axis=1))
        >>> score, quantile = model.novelty([[0.5, 0.5], [0.5, 3.0]], level=None)
        >>> bool(score[1] > 10 * score[0]), float(quantile[1])
        (True, 1.0)
        """
        check_is_fitted(self)
        check_level(level)
        reference = reference_of(self)
        with each_warning_once():
            inputs, _ = self._read_inputs(X, params)
            found = reference.novelty(features(self, inputs))
            if level is not None:
                warn_of_novelty(found, level, reference.own, self._files(X, len(inputs)))
        return found

    def check(self, X: Any, *, params: Any = None) -> Any:
        """List what in X is outside of what the fit has seen.

        `predict` and `score` warn of the same, by an `ExtrapolationWarning` for values and a `ResolutionWarning` for
        points.

        Parameters
        ----------
        X : as in `predict`
            Inputs of a prediction.
        params : as in `predict`
            Global parameters beside fields or meshes.

        Returns
        -------
        pandas.DataFrame
            One row for each number that is outside of its range in the fit by more than new samples of the same kind
            usually are; empty if there are none. Columns: ``sample``, its index, or ``<NA>`` if it holds for all
            samples; ``file``, that of the sample, only if X is files; ``what``, such as ``"parameter 'E'"``,
            ``"channel 0"``, ``"size of channel 0"`` (root mean square over the points), ``"coordinate 1"``,
            ``"longest side"`` of the box of a sample, ``"spacing"`` of its points or ``"time"``; ``value``; ``lowest``
            and ``highest`` in the fit; and ``excess``, the distance to this range as a multiple of its width.

        Raises
        ------
        FieldDataError
            If X has another form than in the fit, or the ranges of the fit are not known, since the model was saved by
            an earlier version.
        OptionalDependencyError
            If pandas is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import PODRegressor
        >>> X = np.random.default_rng(0).random((50, 2))
        >>> model = PODRegressor().fit(X, X.sum(axis=1))
        >>> model.check([[0.5, 0.5], [0.5, 30.0]])[["sample", "what", "value"]]
           sample         what  value
        0       1  parameter 1   30.0
        """
        import_optional("pandas", purpose="return a table")
        with each_warning_once():
            inputs, _ = self._read_inputs(X, params)
        if self.ranges_ is None:
            raise FieldDataError(
                "the ranges of the fit are not known: the model was saved by an earlier version of skop, or its "
                "estimator is none of skop; fit again."
            )
        return table_of(self._findings(inputs, every=True), self._files(X, len(inputs)))

    def _findings(self, inputs: FieldSet, *, every: bool) -> list[Finding]:
        """What is outside of what the fit has seen: all of it, or the furthest numbers."""
        if self.ranges_ is None:
            return []
        names, times = getattr(self, "feature_names_in_", self.spec_.param_names), getattr(self, "times_", None)
        return self.ranges_.findings(inputs, names=names, times=times, every=every)

    def _files(self, X: Any, count: int) -> list[str] | None:
        """Files of samples, or of the runs of time series; None if X is no files."""
        files = series_files(X) if self._is_of_series else form_of(X).files(X)
        return files if files is not None and len(files) == count else None

    def _warn_if_outside(self, inputs: FieldSet, X: Any = None) -> bool:
        """Warn if inputs are outside of what the fit has seen, and tell it; X, as it was passed, may name files."""
        if _is_checked.get():
            return True
        found = self._findings(inputs, every=False)
        # Points outside of the box, and grids, have a warning of their own.
        is_told = self.spec_.geometry != "points" or any(finding.what.startswith("coordinate") for finding in found)
        of_points = ("coordinate", "longest side", "spacing")
        found = [finding for finding in found if not (is_told and finding.what.startswith(of_points))]
        warn_of_findings(found, self._files(X, len(inputs)) if found else None)
        return bool(found)

    def _facts(self) -> dict[str, Any]:
        """What the model card shows of this kind of model, by subject: JSON values, and models that it holds."""
        return {}

    # ------------------------------------------------------------------ prediction
    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Predict in physical units on the points of the inputs."""
        raise NotImplementedError

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Predict at other points by interpolation between those of the inputs; return the outputs and the points."""
        places = query_points(coords, inputs)
        predictions = self._predict_values(inputs)
        fields = inputs.with_values(predictions.fields)
        return replace(predictions, fields=interpolate_fields(fields, places)), places

    def _predict_with_spread(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, Predictions] | None:
        """Predict where asked, with the size of the error that is expected there; None if the estimator knows none."""
        return None

    def _predict_where_asked(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Predict at points, or at those of y in the fit if none are given; return the outputs and these points."""
        if coords is not None:
            return self._predict_at(inputs, coords)
        if self.spec_.target_points == "inputs":
            return self._predict_values(inputs), inputs
        if self.spec_.target_points == "own":
            raise FieldDataError(
                "y of the fit was on points of each sample's own, other than those of X, so that X does not tell where "
                "to predict; pass these points as coords=..., or coords=X for those of X."
            )
        predictions, places = self._predict_at(inputs, self.coords_)
        return predictions, places.with_grid(self.spec_.target_grid)

    @by_chunks
    def predict(self, X: Any, coords: Any = None, *, params: Any = None) -> Any:
        """Predict fields or scalars.

        Parameters
        ----------
        X : as in `fit`
            Inputs in the form that the estimator was fitted on. Grids may have another number of points, unless the
            model has a learned positional encoding or scales each point separately.
        coords : FieldSet, array-like (Q, d) or (n, Q, d), list of arrays (Q_i, d), meshes, or None, default=None
            Points at which fields are predicted, inside the bounding box of each sample or of the points of y in the
            fit. Meshes come as objects, paths or a pattern, one for all samples or one for each. After a fit on plane
            meshes points may have all three coordinates. None gives the points of X; after a fit with y on other points
            that all samples share, those points. If X is a table, but the runs of the fit had meshes of their own,
            `coords` must be meshes.
        params : DataFrame, dict of columns, array-like of shape (n, p) or None, default=None
            Global parameters beside fields or meshes, as in `fit`.

        Returns
        -------
        ndarray, list, FieldSet, (coords, fields), list of meshes, (meshes, scalars), DataFrame or Series
            Predictions in the form of the y of the fit. If y was meshes, the result is meshes wherever it is on the
            points of meshes, those of X, of `coords`, or the one that all runs of the fit shared; otherwise a FieldSet.
            Scalars of a y with column names come back as a DataFrame, or a Series, if samples have labels: the index of
            X, or its files. Fields of meshes and scalars beside them come back as a tuple of the meshes and the
            scalars, or as one FieldSet with the scalars as its `params`.

        Raises
        ------
        FieldDataError
            If X has another form, other channels, parameters or dimensions than in the fit, or a point lies outside the
            box. If y of the fit was on points of each sample's own, other than those of X, and `coords` is not given.
        """

        def ask(inputs: FieldSet, points: Any) -> tuple[list[Predictions], FieldSet]:
            """Predict alone."""
            found, places = self._predict_where_asked(inputs, points)
            return [found], places

        return self._answered(X, coords, params, ask)

    def _answered(self, X: Any, coords: Any, params: Any, ask: Ask, writer: Any = None) -> Any:
        """Read X, ask for predictions, with a spread or two bounds or alone, and convert them to the form of y.

        Another estimator may be the writer that converts them.
        """
        with each_warning_once():
            inputs, points, meshes = self._read_query(X, coords, params)
            if points is not None and not self.spec_.n_outputs:
                raise FieldDataError("coords was given, but the estimator predicts scalars, not fields; leave it out.")
            is_told = self._warn_if_outside(inputs, X)
            (mean, *others), places = ask(inputs, points)
            if writer is None and not is_told and self.ranges_ is not None:
                self.ranges_.warn_of_outputs(mean)
            labels = None if self.spec_.target_form.scalar_names is None else form_of(X).labels(X)
            own = self if writer is None else writer
            result = own._restore(mean, places, meshes, labels)
            return (result, *own._restore_beside(result, others, places, meshes, labels)) if others else result

    def _restore(self, predictions: Predictions, places: FieldSet, meshes: list[Any] | None, labels: Any = None) -> Any:
        """Convert predictions to the form of y, on meshes if these are given."""
        return restore(self.spec_.target_form, predictions, places, meshes, labels)

    def _restore_beside(
        self, mean: Any, others: Sequence[Predictions], places: FieldSet, meshes: list[Any] | None, labels: Any = None
    ) -> list[Any]:
        """Convert a spread, or two bounds, to the form of y; on meshes, also add them to those of the mean."""
        form = self.spec_.target_form
        if meshes is None or form.components is None:
            return [restore(form, part, places, meshes, labels) for part in others]
        shown, fields = mean if others[0].scalars is None else mean[0], [restore(form, part, places) for part in others]
        found = attach_beside(shown, fields, dict(form.components))
        return [beside(form, part, other.scalars, labels) for part, other in zip(found, others, strict=True)]

    # ------------------------------------------------------------------ scoring
    def score(self, X: Any, y: Any = None, sample_weight: Any = None, *, params: Any = None) -> float:
        """Return 1 minus the mean relative L2 error, with equal weight for all output channels.

        Parameters
        ----------
        X, y : as in `fit`
            Test inputs and true targets. The prediction for a y on other points than X is ``predict(X, coords=y)``.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights of the samples.
        params : as in `predict`
            Global parameters beside fields or meshes.

        Returns
        -------
        float
            Score: 1 for perfect predictions, 0 for predictions of zero. For scalars the norm is taken over all samples.
            For a field and scalars it is the mean of the two scores.

        Notes
        -----
        Several output channels or scalars are first divided by their root mean square in y
        (`skop.metrics.channel_sizes`), so that a channel with large values, such as stress in Pa, does not dominate one
        with small values, such as displacement in m. `score_physical` does not divide. For a sample that is zero
        everywhere, the error is divided by the root mean square of the norms of all samples.
        """
        return self._mean_score(X, y, sample_weight, params, balanced=True)

    def score_physical(self, X: Any, y: Any = None, sample_weight: Any = None, *, params: Any = None) -> float:
        """Return 1 minus the mean relative L2 error in the units of y, as reported in papers.

        Parameters
        ----------
        X, y, sample_weight, params : as in `score`
            Test inputs, true targets, weights and global parameters.

        Returns
        -------
        float
            Score in which channels with large values dominate; equal to `score` for a single channel.
        """
        return self._mean_score(X, y, sample_weight, params, balanced=False)

    @property
    def _n_components(self) -> int | None:
        """Number of channels of a frame, for estimators whose channels are frames in time; None otherwise."""
        return None

    def _score_units(self, kind: Literal["field", "scalar"], true: Any, sample_weight: Any) -> FloatArray | None:
        """Sizes by which several channels are divided; None for a single channel."""
        count = self.spec_.n_outputs if kind == "field" else self.spec_.n_scalars
        if 1 in (count, self._n_components):
            return None
        return channel_sizes(true, sample_weight=sample_weight, kind=kind, n_components=self._n_components)

    def _mean_score(self, X: Any, y: Any, sample_weight: Any, params: Any, *, balanced: bool) -> float:
        """Mean of the scores of the field and of the scalars."""
        scores = []
        with each_warning_once():
            for kind, true, found in self._scored_parts(X, y, params, sample_weight, streamed=True):
                units = self._score_units(kind, true, sample_weight) if balanced else None
                scores.append(relative_l2_score(true, found, sample_weight=sample_weight, kind=kind, units=units))
        return float(np.mean(scores))

    def score_channels(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, params: Any = None
    ) -> dict[str, float]:
        """Return the score of each output channel and scalar separately.

        Parameters
        ----------
        X, y, sample_weight, params : as in `score`
            Test inputs, true targets, weights and global parameters.

        Returns
        -------
        dict of str to float
            Scores (1 minus the mean relative L2 error) by name; without names ``"channel 0"``, ``"scalar 0"``, ...; of
            channels with one name as ``"u (channel 0)"``, ... NaN for a channel that is zero in all samples, where the
            relative error is not defined.
        """
        scores: list[float] = []
        for kind, true, found in self._scored_parts(X, y, params, sample_weight, streamed=True):
            count = self.spec_.n_outputs if kind == "field" else self.spec_.n_scalars
            scores += scores_of_channels(kind, true, found, count, sample_weight)
        return dict(zip(self.spec_.output_names, scores, strict=True))

    def _scored_parts(
        self, X: Any, y: Any, params: Any = None, sample_weight: Any = None, *, streamed: bool = False
    ) -> list[tuple[Literal["field", "scalar"], Any, Any]]:
        """Truth and prediction of the fields, and of the scalars, where there are any.

        With `streamed`, fields in files are read and predicted a few samples at a time when they are iterated over.
        """
        with each_warning_once():
            inputs, truth = self._read_scored(X, y, params, sample_weight)
            self._warn_if_outside(inputs, X)
            if streamed and truth.field is not None and not (inputs.in_memory and truth.in_memory):
                return StreamedSamples(inputs, truth, self._predict_scored).parts()
            predictions, places = self._predict_scored(inputs, truth)
        parts: list[Any] = []
        if truth.field is not None:
            parts.append(("field", truth.field.to_list(), places.with_values(predictions.fields).to_list()))
        if truth.scalars is not None:
            parts.append(("scalar", truth.scalars, np.asarray(predictions.scalars)))
        return parts

    def _read_scored(self, X: Any, y: Any, params: Any = None, sample_weight: Any = None) -> tuple[FieldSet, Targets]:
        """Read X and y of a score."""
        check_is_fitted(self)
        check_index(X, sample_weight, "sample_weight")
        options = {name: value for name, value in self._mesh_options.items() if name != "input_fields"}
        options |= {"coords": self.coords_, "estimator": self, "other_points": self._takes_other_points}
        options |= {"params": params, "weighted": sample_weight is not None}
        return read_scored(X, y, self.spec_, **options)

    def _predict_scored(self, inputs: FieldSet, truth: Targets) -> tuple[Predictions, FieldSet]:
        """Predict at the points of the truth; return the outputs and these points."""
        if truth.elsewhere or self.spec_.target_points != "inputs":
            return self._predict_at(inputs, truth.field)
        return self._predict_values(inputs), inputs

    # ------------------------------------------------------------------ files
    def save(self, path: PathOrStr) -> None:
        """Save the fitted estimator to one file, without pickle; `skop.load` reads it.

        Parameters
        ----------
        path : path-like
            File to write. An existing file is replaced only when the new one is complete.

        Raises
        ------
        ModelFileError
            If a parameter cannot be saved, such as a custom loss function or a regressor that skop does not know, or if
            parameters of the network were changed after the fit.
        FileNotFoundError
            If the folder of `path` does not exist.
        """
        save_estimator(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.target_tags.multi_output = True
        return tags


# ---------------------------------------------------------------------- what a file must hold
@checks("FieldRegressor")
def _check_field_regressor(held: Held) -> None:
    """What every regressor on fields has."""
    if "spec_" not in vars(held.value):
        # An estimator that is a parameter of another one is not fitted.
        if any(name.endswith("_") for name in vars(held.value)):
            held.get("spec_")
        return
    spec = held.part("spec_", "DataSpec")
    coords = held.get("coords_")
    held.need(
        coords is None or is_array(coords, (None, spec.n_dims)),
        "coords_",
        f"points in {spec.n_dims} dimensions, or None",
    )
    held.need(
        coords is not None or not (spec.has_parameters_alone or spec.target_points == "shared"),
        "coords_",
        "the points of y",
    )
    if spec.has_parameters_alone and spec.target_points == "inputs":
        shape = spec.grid_shape
        held.need(shape is None or prod(shape) == len(coords), "coords_", "the points of the grid of y")
    mesh = getattr(held.value, "mesh_", None)
    if mesh is not None:
        held.part("mesh_", "Mesh")
        held.need(coords is None or len(mesh.points) >= len(coords), "mesh_", "a mesh with the points of y")
    if hasattr(held.value, "n_features_in_"):
        # A base model has read its samples from the operator, and counts no columns.
        count = held.whole("n_features_in_")
        held.need(not spec.is_table or count == spec.n_params, "n_features_in_", f"{spec.n_params}")
    if hasattr(held.value, "feature_names_in_"):
        held.words("feature_names_in_", spec.n_params)
    record = held.get("fit_record_")
    held.need(record is None or isinstance(record, dict), "fit_record_", "a dictionary or None")
    ranges = held.part("ranges_", "SeenRanges", optional=True)
    if ranges is not None:
        _check_ranges_of(held, ranges, spec)
    reference = held.part("reference_", "Reference", optional=True)
    if reference is not None:
        _check_reference_of(held, reference, spec)


def _check_ranges_of(held: Held, ranges: Any, spec: Any) -> None:
    """Whether ranges are those of the inputs of a spec."""
    # A time that an estimator around this one appends to the parameters is in its ranges too.
    sizes = {"params": spec.n_params, "values": spec.n_fields}
    for name, count in sizes.items():
        found = getattr(ranges, name)
        held.need(found is None or found.shape[1] == count, "ranges_", f"ranges of {count} {name}")
    held.need(ranges.coords.shape[1] == spec.n_dims, "ranges_", f"ranges of {spec.n_dims} coordinates")


def _check_reference_of(held: Held, reference: Any, spec: Any) -> None:
    """Whether features of training samples are those of the inputs of a spec."""
    n_cells, n_dims = prod(reference.lattice.counts.tolist()), len(reference.lattice.lower)
    held.need(n_dims == spec.n_dims, "reference_", f"features of points in {spec.n_dims} dimensions")
    sizes = {"params": spec.n_params, "fields": spec.n_fields * (n_cells + 1), "points": n_cells + 2 * n_dims + 1}
    found = {group.kind: len(group.mean) for group in reference.groups}
    expected = {kind: size for kind, size in sizes.items() if size}
    held.need(
        expected == {kind: size for kind, size in found.items() if kind != "tokens"},
        "reference_",
        f"features of {spec.n_params} parameters and {spec.n_fields} channels",
    )
