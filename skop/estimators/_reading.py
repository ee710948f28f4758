"""FieldReader: what every regressor on fields reads, and what it keeps of the samples of its fit."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skop._optional import import_optional
from skop._typing import FloatArray
from skop.data import (
    DataSpec,
    FieldSet,
    PointSymmetries,
    TrainingData,
    are_among,
    check_index,
    check_order_of_files,
    form_of,
    read,
    read_inputs,
    read_query,
    refuse_containers,
    series_files,
)
from skop.estimators._parts import naming_frames
from skop.estimators._weights import samples_with_weight
from skop.exceptions import FieldDataError, each_warning_once, held_warnings, warn
from skop.surrogate._domain import SeenRanges, warn_of_findings
from skop.surrogate._images import novelty_of_images, with_images
from skop.surrogate._novelty import Lattice, Novelty, Reference, check_level, reference_of, warn_of_novelty
from skop.surrogate._profile import Finding, Profile, table_of

__all__ = ["FieldReader", "checked_by_caller", "is_named_by_caller", "n_referenced", "named_by_caller"]

#: Whether an estimator of skop has called this one, and has looked at the data itself.
_is_checked: ContextVar[bool] = ContextVar("is_checked", default=False)
#: What the caller calls the samples of a fit; empty where another fit is to name them, and None without a caller.
_names: ContextVar[tuple[str, ...] | None] = ContextVar("names", default=None)


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


@contextmanager
def named_by_caller(names: tuple[str, ...] | None) -> Iterator[None]:
    """Let fits within the block call their samples as the caller does, who passes a part of the user's samples.

    Parameters
    ----------
    names : tuple of str or None
        Name of each sample; empty where another fit, as that to all samples, is to name what is odd; None has no names.

    Yields
    ------
    None
        The block runs.
    """
    token = _names.set(() if is_named_by_caller() else names)
    try:
        yield
    finally:
        _names.reset(token)


def is_named_by_caller() -> bool:
    """Whether another fit names what is odd about the samples of this one."""
    return _names.get() == ()


def n_referenced(inputs: FieldSet) -> int:
    """Number of samples of a fit of which features are stored for their novelty."""
    return 0 if _is_checked.get() else Lattice.over(inputs).n_kept(inputs)


class FieldReader(BaseEstimator):
    """Base class that reads X and y, and tells what of new samples is unlike those of the fit."""

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

    # ------------------------------------------------------------------ reading
    def _read(
        self, X: Any, y: Any, *, params: Any = None, sample_weight: Any = None, groups: Any = None, reset: bool = True
    ) -> TrainingData:
        """X and y of a fit; without `reset` the columns of a table must be those of the earlier one."""
        refuse_containers(sample_weight, "sample_weight")
        check_index(sample_weight, "sample_weight", X=X, params=params, y=y)
        check_index(groups, "groups", X=X, params=params, y=y)
        options = {
            "params": params,
            "weighted": sample_weight is not None or groups is not None,
            "reset": reset,
            **self._mesh_options,
        }
        data = read(X, y, estimator=self, other_points=self._takes_other_points, **options).with_own_points()
        check_order_of_files(X, data.names, sample_weight, "sample_weight")
        check_order_of_files(X, data.names, groups, "groups")
        names = _names.get()
        if data.names is None and names is not None and len(names) == len(data.inputs):
            data = replace(data, names=names)
        self.mesh_, used = data.mesh, samples_with_weight(data, sample_weight)
        counts = used.inputs.n_points
        self.fit_record_ = {"samples": len(used.inputs), "points": [int(counts.min()), int(counts.max())]}
        if not _is_checked.get():
            # Estimators that are fitted within another one see parts of the same samples.
            self.fit_record_["checksum"] = used.checksum
            with each_warning_once():
                columns = getattr(self, "feature_names_in_", None)
                for finding in self._problems(used, columns, has_groups=groups is not None):
                    warn(str(finding))
        return data

    def _problems(
        self, data: TrainingData, columns: Sequence[str] | None, *, has_groups: bool, frame_size: int | None = None
    ) -> list[Finding]:
        """What a fit warns of in its samples; y may be frames of a number of channels each."""
        return Profile(data, columns, has_groups=has_groups, frame_size=frame_size).problems()

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
            # Predicted meshes refer to the cells of this one, which a caller may change.
            held = None if coords is not None or of_series else copy.deepcopy(getattr(self, "mesh_", None))
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
        if (symmetries := self._moving()) is not None:
            seen = with_images(seen, symmetries, used.inputs, used.targets)
        self.ranges_ = seen if earlier is None else earlier.joined(seen)

    def _store_reference(self, inputs: FieldSet, weight: FloatArray | None) -> None:
        """Store features of the inputs with positive weight, unless another estimator, which has them, calls."""
        used = inputs if weight is None else inputs[np.flatnonzero(weight)]
        self.reference_ = None
        # What is odd about the samples has been said by the fit.
        with held_warnings():
            self.reference_ = None if _is_checked.get() else Reference.from_fit(used, self._tokens)

    def _moving(self) -> PointSymmetries | None:
        """Declared symmetries, whose images of samples the fit has seen too; None without any."""
        return None

    def _tokens(self, inputs: FieldSet) -> FloatArray | None:
        """Means ``(n, E)`` over the points of the last tokens of the network; None without a network."""
        return None

    @naming_frames
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
            found = novelty_of_images(self, inputs, self._moving())
            if level is not None:
                warn_of_novelty(found, level, reference.own, self._files(X, len(inputs)))
        return found

    @naming_frames
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
            and ``highest`` in the fit; and ``excess``, the distance to this range as a multiple of its width, both in
            logarithms for parameters that are compared by these. Of parameters that followed from each other in the
            fit (``"parameter 'b' beside parameter 'a'"``), the range is what the others imply.

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

    def _warn_of_spread(self, inputs: FieldSet, places: FieldSet) -> None:
        """Warn if fields are predicted elsewhere than at the points of X, or of y in the fit, with their deviations."""
        if _is_checked.get() or not self.spec_.n_outputs or self.spec_.target_points == "own":
            return
        nodes: Any = inputs if self.spec_.target_points == "inputs" else self.coords_
        if not are_among(places, nodes):
            count = inputs.n_points.max() if nodes is inputs else len(nodes)
            warn(
                f"standard deviations are those at {count} points, but fields are predicted here at "
                f"{places.n_points.max()}, some of which are others: errors of the interpolation come in addition, "
                "which are not in them, so that they may be far too small there. Fit to fields at the points of the "
                "prediction, or compare with known fields there."
            )
