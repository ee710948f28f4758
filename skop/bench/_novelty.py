"""Novelty of samples beside their true errors on shifted test sets, and beside three other signs of a large error.

Every problem has training samples and several test sets: one like the training samples, and others that are shifted.
For each model and each number that a user can compute without the truth, the table states Spearman's rank correlation
with the relative L2 error of the samples, over all test sets together:

- the score of ``novelty``;
- the distance to the nearest training sample: in standardised global parameters, or where there are none between means
  of the fields, or of the points, of the samples in cells, each standardised by itself;
- the width of the band of `ConformalRegressor`, whose scale an estimator of the same kind learns from the errors;
- the standard deviation of an ensemble of three members, or that of the Gaussian processes of `PODRegressor`.

Widths and deviations are divided by the size of the prediction.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skop._typing import FloatArray
from skop.bench._problems import make_burgers
from skop.data import FieldSet
from skop.datasets import make_darcy, make_elasticity, make_european_option, make_joukowski, make_moving_hole
from skop.estimators import LaMORegressor

__all__ = ["add_command"]

#: Signs of a large error, in the order of the columns.
_SIGNS = ("novelty", "nearest sample", "conformal width", "spread")


@dataclass
class Shifted:
    """Training samples, and test sets by name, of which the first is like these."""

    X: Any
    y: Any
    tests: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    #: Whether nodes of samples correspond, as `PODRegressor` needs it.
    has_nodes: bool = True


def _option(n_train: int, n_test: int, seed: int) -> Shifted:
    """Prices of options: volatility, strike and maturity beyond the range."""
    near = {"volatility": (0.2, 0.4), "strike": (80.0, 120.0), "maturity": (0.5, 1.2)}
    options: dict[str, Any] = {"resolution": 16, "call_probability": 1.0}
    tests = {
        "like the training": make_european_option(n_test, ranges=near, random_state=seed + 1, **options),
        "parameters of the full ranges": make_european_option(2 * n_test, random_state=seed + 2, **options),
    }
    return Shifted(*make_european_option(n_train, ranges=near, random_state=seed, **options), tests)


def _airfoils(n_train: int, n_test: int, seed: int) -> Shifted:
    """Pressures on aerofoils: thicker, thinner and more cambered ones at larger angles."""
    near = {"angle": (0.0, 6.0), "thickness": (0.1, 0.14), "camber": (0.01, 0.03)}

    def make(count: int, seed: int, **options: Any) -> tuple[FieldSet, FieldSet]:
        table, y = make_joukowski(count, geometry="varied", random_state=seed, **options)
        return FieldSet(y.coords, params=table), y.with_values(np.asarray(y.values)[..., :1])

    tests = {
        "like the training": make(n_test, seed + 1, ranges=near),
        "other shapes and angles": make(2 * n_test, seed + 2),
    }
    return Shifted(*make(n_train, seed, ranges=near), tests)


def _elasticity(n_train: int, n_test: int, seed: int) -> Shifted:
    """Stresses around voids: larger and more irregular voids; the data need scikit-fem."""
    options: dict[str, Any] = {"n_points": (48, 9), "shuffle_points": True}
    near = {"radius_range": (0.2, 0.3)}
    tests = {
        "like the training": make_elasticity(n_test, random_state=seed + 1, **near, **options),
        "larger voids": make_elasticity(n_test, random_state=seed + 2, radius_range=(0.3, 0.45), **options),
        "smaller voids": make_elasticity(n_test, random_state=seed + 3, radius_range=(0.1, 0.2), **options),
    }
    return Shifted(*make_elasticity(n_train, random_state=seed, **near, **options), tests, has_nodes=False)


def _holes(n_train: int, n_test: int, seed: int) -> Shifted:
    """Fields around a hole, given by the scattered points alone: coarser and finer sets of points."""

    def make(count: int, seed: int, n_points: tuple[int, int]) -> tuple[FieldSet, FieldSet]:
        _, y = make_moving_hole(count, nodes="scattered", n_points=n_points, random_state=seed)
        return FieldSet(y.coords), y

    sizes = {"like the training": (48, 9), "half the points": (34, 6), "a sixth": (20, 4), "twice the points": (68, 13)}
    tests = {name: make(n_test, seed + 1 + i, size) for i, (name, size) in enumerate(sizes.items())}
    return Shifted(*make(n_train, seed, (48, 9)), tests, has_nodes=False)


def _darcy(n_train: int, n_test: int, seed: int) -> Shifted:
    """Pressures for permeabilities: longer and shorter waves, and another contrast."""
    options: dict[str, Any] = {"resolution": 24}
    tests = {
        "like the training": make_darcy(n_test, random_state=seed + 1, **options),
        "longer waves": make_darcy(n_test, tau=1.0, alpha=3.0, random_state=seed + 2, **options),
        "shorter waves": make_darcy(n_test, tau=8.0, random_state=seed + 3, **options),
        "higher contrast": make_darcy(n_test, values=(3.0, 24.0), random_state=seed + 4, **options),
    }
    return Shifted(*make_darcy(n_train, random_state=seed, **options), tests)


def _burgers(n_train: int, n_test: int, seed: int) -> Shifted:
    """Later states of functions: coarser grids, and more waves."""

    def make(count: int, n_points: int, seed: int, n_waves: int = 3) -> tuple[FieldSet, FieldSet]:
        grid = (np.arange(n_points) / n_points)[:, np.newaxis]
        X, y = make_burgers(count, n_points, seed, n_waves=n_waves)
        return FieldSet(grid, X), FieldSet(grid, y)

    tests = {
        "like the training": make(n_test, 64, seed + 1),
        "half the points": make(n_test, 32, seed + 2),
        "more waves": make(n_test, 64, seed + 3, n_waves=8),
    }
    return Shifted(*make(n_train, 64, seed), tests, has_nodes=False)


#: Problems by the words of the command line, with their number of training samples.
PROBLEMS: dict[str, tuple[Callable[[int, int, int], Shifted], int]] = {
    "option": (_option, 200),
    "airfoils": (_airfoils, 100),
    "elasticity": (_elasticity, 120),
    "holes": (_holes, 80),
    "darcy": (_darcy, 200),
    "burgers": (_burgers, 200),
}


def make_lamo(epochs: int) -> LaMORegressor:
    """Return the network of the measurement."""
    return LaMORegressor(width=16, depth=2, max_iter=epochs, base=None, random_state=0, verbose=False)


def sample_errors(true: Any, found: Any) -> FloatArray:
    """Relative L2 errors of samples."""
    pairs = zip(arrays_of(true), arrays_of(found), strict=True)
    return np.array([np.linalg.norm(b - a) / np.linalg.norm(a) for a, b in pairs])


def arrays_of(fields: Any) -> list[FloatArray]:
    """Values of each sample."""
    return fields.to_list() if isinstance(fields, FieldSet) else [np.asarray(values) for values in fields]


def sizes_of(parts: Any, means: Any) -> FloatArray:
    """Norms of widths or deviations over those of predictions."""
    pairs = zip(arrays_of(parts), arrays_of(means), strict=True)
    return np.array([np.linalg.norm(part) / np.linalg.norm(mean) for part, mean in pairs])
