"""FieldRegressor: base class of all regressors on fields, which predicts in the form of y, scores and saves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import prod
from typing import Any, Literal, Self, TypeVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skop._sklearn_compat import last_step
from skop._typing import FloatArray, PathOrStr
from skop.data import (
    FieldSet,
    Predictions,
    Targets,
    attach_beside,
    beside,
    check_index,
    form_of,
    interpolate_fields,
    query_points,
    read_scored,
    refuse_containers,
    restore,
)
from skop.estimators._parts import by_chunks
from skop.estimators._reading import FieldReader
from skop.estimators._streams import StreamedSamples, scores_of_channels
from skop.estimators.files._file_checks import Held, checks, is_array
from skop.estimators.files._persistence import register, save_estimator
from skop.exceptions import FieldDataError, each_warning_once
from skop.metrics import channel_sizes, relative_l2_score
from skop.surrogate._domain import SeenRanges
from skop.training import DIRECT_TRAINING, TrainingPlan, weights_dropped

__all__ = ["FieldRegressor", "fit_one_of_several", "fitted_attributes", "restored_on_failure", "times_since"]

#: Predictions at points, or at those of y in the fit for None, with a spread or two bounds or alone; and the points.
Ask = Callable[[FieldSet, Any], tuple[list[Predictions], FieldSet]]
T = TypeVar("T")


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


def fit_one_of_several(fit: Callable[[], T]) -> T:
    """Return what a fit returns, or raise an interrupt that has ended its training: it ends the caller's other fits."""
    with weights_dropped():
        model = fit()
    if _was_interrupted(model):
        raise KeyboardInterrupt("training was interrupted")
    return model


def _was_interrupted(model: Any) -> bool:
    """Whether an interrupt has ended a training of a fitted model, or of a part of it."""
    model = last_step(model)
    parts = [getattr(model, "estimator_", None), *getattr(model, "estimators_", ())]
    return getattr(model, "stopped_", None) == "interrupted" or any(
        _was_interrupted(part) for part in parts if part is not None
    )


class FieldRegressor(RegressorMixin, FieldReader):
    """Base class of all regressors on fields and tables.

    A subclass defines `fit`, which reads X and y by `_read` and calls `_store_spec` to set `spec_` and `coords_`, and
    `_predict_values`.
    """

    #: Changes to the training of operators in the present fit, by an estimator around this one.
    _training_plan = DIRECT_TRAINING

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register(cls)

    def _facts(self) -> dict[str, Any]:
        """What the model card shows of this kind of model, by subject: JSON values, and models that it holds."""
        return {}

    def _fit_by_plan(self, X: Any, y: Any, plan: TrainingPlan, **options: Any) -> Self:
        """Fit as `fit` does, with changes to the training of the operators in it."""
        self._training_plan = plan
        try:
            found: Self = self.fit(X, y, **options)
        finally:
            del self._training_plan
        return found

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
            if len(others) == 1:
                self._warn_of_spread(inputs, places)
            if writer is None and not is_told and self.ranges_ is not None:
                self._warn_of_outputs(mean, self.ranges_)
            labels = None if self.spec_.target_form.scalar_names is None else form_of(X).labels(X)
            own = self if writer is None else writer
            result = own._restore(mean, places, meshes, labels)
            return (result, *own._restore_beside(result, others, places, meshes, labels)) if others else result

    def _warn_of_outputs(self, found: Predictions, ranges: SeenRanges) -> bool:
        """Warn if a prediction is far outside of the range of y in the fit, and tell it."""
        return ranges.warn_of_outputs(found, getattr(self, "n_frames_", None))

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
        refuse_containers(sample_weight, "sample_weight")
        check_index(sample_weight, "sample_weight", X=X, params=params, y=y)
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
        OSError
            If no file can be written there: its folder does not exist or takes no files, the path is a folder, or the
            disk is full. An earlier file stays as it is.
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
