"""suggest: the simulations that are worth running next, among candidate inputs.

Notation: n candidates, m training samples, k features, P points, T points of all samples together, q outputs.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.spatial import KDTree
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from skop._typing import FloatArray, IntArray
from skop.data import FieldSet
from skop.estimators._field import FieldRegressor
from skop.estimators._reading import checked_by_caller
from skop.estimators.uncertainty._scores import starts_of
from skop.exceptions import FieldDataError, NonFinitePredictionError, each_warning_once
from skop.surrogate._novelty import features

__all__ = ["select", "suggest"]

#: Samples are the same up to this distance, in typical distances of neighbours, for each unit of the size of the
#: features: some features are roots of differences, or come from networks in single precision.
_SAME = 1e-5
#: Relative to the root mean square over all predictions, count smaller predictions as having this size.
_SMALLEST = 0.1
#: Number of values that are predicted at a time.
_VALUES_AT_A_TIME = 2**22


def suggest(
    estimator: FieldRegressor, candidates: Any, n: int, *, params: Any = None, return_scores: bool = False
) -> Any:
    """Choose the simulations that are worth running next.

    The runs of the result are far from the training samples, far from each other, and uncertain where the estimator
    knows its uncertainty: the standard deviation of `EnsembleRegressor`, of `PODRegressor` with a regressor of skop and
    of `AutoRegressor`, or the width of the band of `ConformalRegressor` where it depends on X. For all other estimators
    distances decide alone.

    Parameters
    ----------
    estimator : FieldRegressor
        Fitted estimator of skop.
    candidates : as the X of `predict`
        Inputs of the runs that could be simulated: a table, fields, point sets or meshes, N samples.
    n : int
        Number of runs to choose, between 1 and N.
    params : as in `predict`, default=None
        Global parameters of the candidates beside fields or meshes.
    return_scores : bool, default=False
        Whether to return the scores too.

    Returns
    -------
    indices : ndarray of int, shape (n,)
        Indices of the candidates, in the order in which they were chosen.
    scores : ndarray of shape (n,)
        What each was chosen for: its uncertainty relative to the size of the prediction, times the part of its distance
        from the training samples that the choices before it left. Where the estimator has no uncertainty, the distance
        itself, in units of a typical one between neighbouring training samples. 0 for a run that is there already.
        Scores may rise within a batch. Only if `return_scores` is True.

    Raises
    ------
    FieldDataError
        If the estimator is none of skop, or holds no features of its training samples; if candidates have another form
        than in the fit, or are not finite; or if `n` is not between 1 and N. A ValueError.
    NonFinitePredictionError
        If the prediction for a candidate or its uncertainty is not finite; a FieldDataError.

    See Also
    --------
    EnsembleRegressor : Gives an operator an uncertainty.

    Notes
    -----
    The rule is LCMD (largest cluster, maximum distance; Holzmüller et al.), with distances in the space of features of
    `LaMORegressor.novelty`, weighted by the uncertainty. Training samples and choices are centres, and each candidate
    belongs to the nearest one, at a distance d. Its error is expected to be ``e = s d / d_0``, where s is its
    uncertainty and d_0 its distance from the training samples alone, since a run nearby makes it smaller. In the
    cluster with the largest sum of ``e**2`` the candidate with the largest e is chosen, and becomes a centre. So a
    batch holds no neighbours, and regions with many candidates count more than single ones far away. The product of a
    distance between inputs and an uncertainty of outputs is that of Wu et al., where d is not divided by d_0: an
    uncertainty that grows with the distance from the training samples would count it twice.

    The uncertainty s is the root mean square over the points, relative to that of the prediction, as errors are in
    `score`, and several outputs count alike. Where the estimator has none, or it is zero for all candidates, e is d.

    The result depends on no random number. Of equal candidates the first is chosen; candidates that equal training
    samples or each other come last. It needs predictions for all candidates, and a time proportional to their number
    times `n` beside these.

    Of more than 2,000 training samples, 2,000 that are evenly spaced among them count. The calibration samples of a
    `ConformalRegressor` count as simulated.

    References
    ----------
    D. Holzmüller, V. Zaverkin, J. Kästner, I. Steinwart, "A framework and benchmark for deep batch active learning for
    regression", JMLR 24 (2023). D. Wu, C.-T. Lin, J. Huang, "Active learning for regression using greedy sampling",
    Information Sciences 474 (2019).

    Examples
    --------
    >>> import numpy as np, skop
    >>> X = np.array([[0.0], [0.1], [0.2], [1.0]])
    >>> model = skop.PODRegressor().fit(X, np.sin(5 * X[:, 0]))
    >>> candidates = np.array([[0.1], [0.15], [0.6], [0.59], [0.9]])
    >>> skop.suggest(model, candidates, 2)
    array([2, 4])
    """
    if not isinstance(estimator, FieldRegressor):
        raise FieldDataError(
            f"suggest needs a fitted estimator of skop, but estimator is a {type(estimator).__name__}; of a search "
            "pass best_estimator_, of a pipeline its last step, with candidates as this takes them."
        )
    check_is_fitted(estimator)
    with each_warning_once(), checked_by_caller():
        inputs, _ = estimator._read_inputs(candidates, params)
        if isinstance(n, bool) or not isinstance(n, Integral) or not 1 <= n <= len(inputs):
            raise FieldDataError(
                f"n={n!r}, expected an integer from 1 to {len(inputs)}, the number of candidates; pass more candidates "
                "or a smaller n."
            )
        points, distances, nearest = _space(estimator, inputs)
        with np.errstate(over="ignore", invalid="ignore"):
            uncertainties = _uncertainties(estimator, inputs)
    chosen, scores = select(points, distances, nearest, uncertainties, int(n))
    return (chosen, scores) if return_scores else chosen


def select(
    points: FloatArray, distances: FloatArray, nearest: IntArray, uncertainties: FloatArray | None, n: int
) -> tuple[IntArray, FloatArray]:
    """Choose points one by one: the largest expected error in the cluster with the largest sum of their squares.

    Parameters
    ----------
    points : ndarray of shape (N, k)
        Candidates.
    distances : ndarray of shape (N,)
        Distance of each to the nearest centre that is there already.
    nearest : ndarray of int, shape (N,)
        Number of this centre.
    uncertainties : ndarray of shape (N,) or None
        Expected error of each candidate before a choice; None to take the distances.
    n : int
        Number of points to choose.

    Returns
    -------
    chosen : ndarray of int, shape (n,)
        Rows of `points`, in the order of the choice.
    scores : ndarray of shape (n,)
        Expected error of each when it was chosen.
    """
    same = _SAME * (1 + np.linalg.norm(points, axis=1))
    distances, cluster = np.where(distances > same, distances, 0.0), np.array(nearest)
    weights: FloatArray = np.ones(len(points))
    if uncertainties is not None and uncertainties.any():
        weights = np.divide(uncertainties, distances, out=np.zeros_like(distances), where=distances > 0)
    is_left, first = np.ones(len(points), dtype=bool), int(cluster.max()) + 1
    chosen, scores = np.empty(n, dtype=np.intp), np.empty(n)
    for number in range(n):
        errors = np.where(is_left, weights * distances, 0.0)
        if not errors.any():
            # Candidates that are certain but new come before those that are there already.
            errors = np.where(is_left, distances, 0.0)
        # Squares of the numbers themselves could overflow.
        shares = errors / (errors.max() or 1.0)
        in_largest = cluster == np.bincount(cluster, shares**2).argmax() if shares.any() else True
        best = int(np.where(is_left & in_largest, shares, -1.0).argmax())
        chosen[number], scores[number] = best, weights[best] * distances[best]
        is_left[best] = False
        apart = np.linalg.norm(points - points[best], axis=1)
        apart = np.where(apart > same, apart, 0.0)
        cluster = np.where(apart < distances, first + number, cluster)
        distances = np.minimum(distances, apart)
    return chosen, scores


def _space(estimator: Any, inputs: FieldSet) -> tuple[FloatArray, FloatArray, IntArray]:
    """Features of candidates, and the distance and the number of the nearest training sample of each."""
    # A fitted estimator that was only calibrated has training samples of its own.
    spaces = [estimator]
    if isinstance(getattr(estimator, "estimator", None), FrozenEstimator):
        inner = estimator.estimator_
        spaces += [inner] if getattr(inner, "reference_", None) is not None else []
    found = [features(space, inputs) for space in spaces]
    near = [KDTree(space.reference_.points).query(rows) for space, rows in zip(spaces, found, strict=True)]
    distances, nearest = near[0]
    for further, numbers in near[1:]:
        nearest = np.where(further < distances, numbers + nearest.max() + 1, nearest)
        distances = np.minimum(distances, further)
    return found[0], distances, nearest


def _uncertainties(estimator: FieldRegressor, inputs: FieldSet) -> FloatArray | None:
    """Uncertainty of the prediction of each sample, relative to its size; None if the estimator knows none."""
    spec = estimator.spec_
    per_sample = max(inputs.n_points) * max(spec.n_outputs, 1)
    step = max(int(_VALUES_AT_A_TIME // per_sample), 1)
    parts: list[list[tuple[FloatArray, FloatArray]]] = [[], []]
    for start in range(0, len(inputs), step):
        some = inputs[start : start + step]
        found = estimator._predict_with_spread(some, some if spec.target_points == "own" else None)
        if found is None:
            return None
        for held, kind in zip(parts, ("fields", "scalars"), strict=True):
            pair = [getattr(one, kind) for one in found]
            if pair[0] is not None:
                held.append((_mean_squares(pair[0], some, kind), _mean_squares(pair[1], some, kind)))
    ratios = []
    for held, is_field in zip(parts, (True, False), strict=True):
        if not held:
            continue
        means, spreads = (np.concatenate(side) for side in zip(*held, strict=True))
        is_finite = np.isfinite(means).all(axis=1) & np.isfinite(spreads).all(axis=1)
        if not is_finite.all():
            raise NonFinitePredictionError(
                f"the prediction for candidate {int(np.argmin(is_finite))}, its uncertainty or their squares are not "
                "finite: the candidate holds numbers too large for the precision of the fit or far from those of the "
                "training. Check its units and fill values."
            )
        sizes = means.mean(axis=0)
        # Several outputs count alike, whatever their units; one that is predicted to be zero has that of its spread.
        sizes = np.where(sizes > 0, sizes, spreads.mean(axis=0))
        sizes = np.where(sizes > 0, sizes, 1.0)
        ratio = (spreads / sizes).mean(axis=1)
        if is_field:
            ratio /= np.maximum((means / sizes).mean(axis=1), _SMALLEST**2)
        ratios.append(ratio)
    return np.sqrt(np.mean(ratios, axis=0))


def _mean_squares(values: FloatArray, inputs: FieldSet, kind: str) -> FloatArray:
    """Mean squares over the points of each sample, (n, q), of fields (n, P, q) or (T, q), or of scalars (n, q)."""
    squares = np.asarray(values, dtype=np.float64) ** 2
    if kind == "scalars":
        return squares
    if squares.ndim == 3:
        return squares.mean(axis=1)
    counts = np.asarray(inputs.n_points)
    return np.add.reduceat(squares, starts_of(counts), axis=0) / counts[:, np.newaxis]
