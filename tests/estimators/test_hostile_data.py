"""Random hostile data for fit and predict of every estimator: finite predictions, or an error that says why."""

import signal
import traceback
import warnings

import numpy as np
import pytest

from skop import (
    AMORegressor,
    DeepONetRegressor,
    EnsembleRegressor,
    GeoMaNORegressor,
    LaMORegressor,
    MeanFieldRegressor,
    MNORegressor,
    PODRegressor,
    RolloutRegressor,
    ScalingOptions,
    TimeConditionedRegressor,
    TransolverRegressor,
    UNetRegressor,
)
from skop.exceptions import SkopError

SMALL = {"width": 8, "depth": 1, "batch_size": 4, "max_iter": 1, "random_state": 0, "base": None}
FLAT = {"width": 8, "batch_size": 4, "max_iter": 1, "random_state": 0}
N_SAMPLES = 12
ESTIMATORS = {
    "lamo": lambda: LaMORegressor(**SMALL),
    "lamo over a base": lambda: LaMORegressor(**SMALL | {"base": "auto"}),
    "lamo by point": lambda: LaMORegressor(**SMALL, scaling=ScalingOptions(inputs="point", targets="point")),
    "lamo of logarithms": lambda: LaMORegressor(**SMALL, scaling=ScalingOptions(target_transform="log")),
    "geomano": lambda: GeoMaNORegressor(**SMALL),
    "geomano resampled": lambda: GeoMaNORegressor(**SMALL, grid="auto"),
    "mno": lambda: MNORegressor(**SMALL),
    "amo": lambda: AMORegressor(**SMALL),
    "transolver": lambda: TransolverRegressor(**SMALL),
    "deeponet": lambda: DeepONetRegressor(**FLAT),
    "unet": lambda: UNetRegressor(**FLAT),
    "mean": lambda: MeanFieldRegressor(),
    "pod": lambda: PODRegressor(),
    "ensemble": lambda: EnsembleRegressor(LaMORegressor(**SMALL), n_members=2),
    "rollout": lambda: RolloutRegressor(LaMORegressor(**SMALL), window=1),
    "time": lambda: TimeConditionedRegressor(LaMORegressor(**SMALL)),
    "rollout of pod": lambda: RolloutRegressor(PODRegressor(), window=1),
}
NUMBERS = [
    *(np.nan, np.inf, -np.inf, 0.0, 1e20, 1e30, 9.97e36, float(np.finfo(np.float32).max), 1e39, 1e100, 1e149, 1e151),
    *(1e200, 1.7e308, -1e300, 1e-20, 1e-38, 1e-45, 1e-100, 1e-160, 1e-200, 5e-324),
]


def whole(kind, rng):
    """X and y of a kind of data that can be used."""
    if kind == "table":
        X = rng.normal(size=(N_SAMPLES, 3))
        return X, X @ rng.normal(size=(3, 2))
    if kind == "parameters":
        return rng.normal(size=(N_SAMPLES, 3)), rng.normal(size=(N_SAMPLES, 4, 3, 1))
    if kind == "points":
        return (rng.random((9, 2)), rng.normal(size=(N_SAMPLES, 9, 1))), rng.normal(size=(N_SAMPLES, 9, 1))
    if kind == "own points":
        return (rng.random((N_SAMPLES, 9, 2)), rng.normal(size=(N_SAMPLES, 9, 1))), rng.normal(size=(N_SAMPLES, 9, 1))
    if kind == "ragged":
        points = [rng.random((size, 2)) for size in rng.integers(4, 9, N_SAMPLES)]
        return [(part, rng.normal(size=(len(part), 1))) for part in points], [part[:, :1] for part in points]
    X = rng.normal(size=(N_SAMPLES, 4, 3, 1))
    return X, np.concatenate([X, 2 * X, 3 * X], axis=-1) if kind == "series" else X + 1


KINDS = ["table", "parameters", "points", "own points", "ragged", "series", "grid"]


def spoiled(data, rng):
    """The same data with something wrong, or at least odd."""
    if isinstance(data, tuple | list):
        place = rng.integers(len(data))
        return type(data)(spoiled(part, rng) if i == place else part for i, part in enumerate(data))
    array, number = np.array(data, dtype=float), NUMBERS[rng.integers(len(NUMBERS))]
    place = tuple(rng.integers(size) for size in array.shape)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            lambda: np.where(
                np.arange(array.size).reshape(array.shape) == np.ravel_multi_index(place, array.shape), number, array
            ),
            lambda: array * number,
            lambda: array + number,
            lambda: np.full_like(array, number),
            lambda: np.where(np.arange(len(array)).reshape(-1, *[1] * (array.ndim - 1)) == 1, number, array),
            lambda: np.where(np.arange(array.shape[-1]) == 0, number, array),
            lambda: np.sign(array) * np.finfo(np.float32).max,
            lambda: array[: rng.integers(3)],
            lambda: array[..., :0],
            lambda: array[0],
            lambda: array[..., None],
            lambda: np.concatenate([array, array], axis=-1),
            lambda: np.repeat(array[:1], len(array), axis=0),
            lambda: np.ma.masked_array(array, array > 0),
            lambda: array.astype(np.float16),
            lambda: array.astype(np.int64) * 2**62,
            lambda: array.astype(object),
            lambda: array.astype(str),
            lambda: array * 1j,
            lambda: np.round(array),
        ][rng.integers(20)]()


def is_finite(found):
    """Whether predictions of any form are finite."""
    if isinstance(found, list | tuple):
        return all(map(is_finite, found))
    values = getattr(found, "values", found)
    return bool(np.isfinite(np.asarray(values, dtype=float)).all())


def is_clear(error):
    """Whether an error is one of skop, or of scikit-learn's checks of arguments."""
    if isinstance(error, SkopError):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    checks = "/sklearn/utils/" in last or "/skop/" in last
    return isinstance(error, ValueError | TypeError) and checks


class Late(BaseException):
    """A call took too long."""


def late(number, frame):
    raise Late


def outcome(call):
    """Result of a call in words: "works", "refused", or what is wrong with it."""
    signal.alarm(30)
    try:
        return "works" if is_finite(call()) else "not finite"
    except Late:
        return "hangs"
    except Exception as error:
        return "refused" if is_clear(error) else repr(error)
    finally:
        signal.alarm(0)


def tried(name, kind, rng):
    """Outcomes of a fit of spoiled data, and of a prediction of such data after a fit of whole data."""
    X, y = whole(kind, rng)
    which = rng.integers(3)
    bad_X, bad_y = (spoiled(X, rng) if which != 1 else X), (spoiled(y, rng) if which != 0 else y)
    yield "fit", outcome(lambda: ESTIMATORS[name]().fit(bad_X, bad_y).predict(bad_X))
    estimator = ESTIMATORS[name]()
    if outcome(lambda: estimator.fit(X, y).predict(X)) == "works":
        unseen = spoiled(X, rng)
        yield "predict", outcome(lambda: estimator.predict(unseen))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_cases", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_data(kind, n_cases):
    """Each case is the same in every run."""
    before = signal.signal(signal.SIGALRM, late)
    rng = np.random.default_rng([n_cases, KINDS.index(kind)])
    names = rng.permutation([*ESTIMATORS])[: 5 * n_cases].tolist()
    try:
        found = [(name, *pair) for name in names for _ in range(n_cases) for pair in tried(name, kind, rng)]
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not [case for case in found if case[2] not in ("works", "refused")]
    assert "refused" in {case[2] for case in found}
    # The data are hostile, but not all of them.
    assert n_cases == 1 or "works" in {case[2] for case in found}
