"""Common parts of the generators: checks of arguments, a seed for each sample, and samples made in threads."""

from collections.abc import Callable, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from sklearn.utils import check_random_state

from skop._jobs import workers_for
from skop._typing import FloatArray
from skop.exceptions import FieldDataError

RandomState = int | np.random.RandomState | np.random.Generator | None
Draw = TypeVar("Draw")
Sample = TypeVar("Sample")


def _check_integer(name: str, value: Any, minimum: int) -> None:
    """Raise unless `value` is an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}.")


def _check_real(name: str, value: Any, above: float = -np.inf) -> None:
    """Raise unless `value` is a finite number greater than `above`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value) or value <= above:
        limit = f" above {above:g}" if isfinite(above) else ""
        raise ValueError(f"{name} must be a finite number{limit}, got {value!r}.")


def _check_pair(name: str, value: Any) -> None:
    """Raise unless `value` is a sequence of two."""
    if not isinstance(value, Sequence) or len(value) != 2:
        raise ValueError(f"{name} must be two numbers, got {value!r}.")


def _check_least(name: str, value: Any) -> None:
    """Raise unless `value` is a finite number of at least 0."""
    _check_real(name, value)
    if value < 0:
        raise ValueError(f"{name} must be at least 0, got {value!r}.")


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}.")


def _check_dtype(dtype: npt.DTypeLike) -> None:
    """Raise unless `dtype` is float32 or float64."""
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float32 or float64, got {np.dtype(dtype).name}.")


def _check_rows(params: npt.ArrayLike, n_columns: int, meaning: str = "") -> FloatArray:
    """Return parameters of the caller as floats, (n, n_columns); raise FieldDataError if they are not."""
    rows = np.asarray(params, dtype=np.float64)
    if rows.ndim != 2 or len(rows) == 0 or rows.shape[1] != n_columns:
        raise FieldDataError(f"params must have the shape (n, {n_columns}){meaning}, got {rows.shape}.")
    if not np.isfinite(rows).all():
        raise FieldDataError("params must be finite.")
    return rows


def _seed_sequence(random_state: RandomState | np.random.SeedSequence) -> np.random.SeedSequence:
    """Turn any accepted `random_state` into the root from which each sample's seed is spawned."""
    if isinstance(random_state, np.random.SeedSequence):
        # A root that has spawned k seeds goes on with sample k.
        return random_state
    if isinstance(random_state, Integral):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state!r}.")
        return np.random.SeedSequence(int(random_state))
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**32, size=4).tolist())
    legacy = check_random_state(random_state)
    return np.random.SeedSequence(legacy.randint(2**32, size=4, dtype=np.uint64).tolist())


def make_samples(
    make: Callable[[Draw], Sample], draws: Sequence[Draw], n_jobs: int | None, verbose: int
) -> list[Sample]:
    """Call a function with what was drawn for each sample, which may be its seed; errors name the sample.

    Threads are efficient because what takes time releases the interpreter lock, and no data are copied.
    """

    def make_one(index: int, draw: Draw) -> Sample:
        """Make one sample."""
        try:
            return make(draw)
        except FieldDataError as error:
            raise FieldDataError(f"Sample {index}: {error}") from error

    tasks = (delayed(make_one)(index, draw) for index, draw in enumerate(draws))
    return Parallel(n_jobs=workers_for(n_jobs, len(draws)), prefer="threads", verbose=verbose)(tasks)
