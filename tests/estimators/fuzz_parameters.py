"""Fit every estimator with wrong and extreme values of its parameters, one at a time.

    python tests/estimators/fuzz_parameters.py [--cases 10000] [--seed 0] [--only NAME]

Every case must work, with finite predictions, or give an error that is raised on purpose. What else happens is printed:
exceptions from below, predictions that are not finite, cases of more than some seconds or much memory.
"""

import traceback
from collections import Counter

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

import skop
from skop import FieldSet
from skop.data import unit_grid
from skop.exceptions import SkopError
from skop.parts import Hydra, Mamba, OFormer, Patches, TakenakaMalmquist

if __package__:
    from .fuzzing import BAD, TooLong, limited, most_memory, run_from_command_line, signals_caught
else:
    from fuzzing import BAD, TooLong, limited, most_memory, run_from_command_line, signals_caught

#: Memory that a case may take.
BYTES = 2**32
GRID = (4, 5)
SMALL = {"max_iter": 1, "random_state": 0}


def zero(*_, **__):
    """A loss that is no tensor."""
    return 0.0


class Strange:
    """An object of no use."""


def values():
    """Wrong and extreme values."""
    yield from (None, True, False, np.True_, 0, -1, 1, 2, 3, 5, 10**3, 10**6, 10**9, 10**12, 2**63, 10**30, -(10**12))
    yield from (0.0, -0.0, 0.5, 1.0, 1.5, -1.0, 1e-12, 1e-300, 5e-324, 1e6, 1e30, 1e300, np.nan, np.inf, -np.inf)
    yield from (np.int8(3), np.int64(2), np.uint64(4), np.float32(0.9), np.float16(0.5), np.float64(0.25), 1 + 1j)
    yield from ("", "x", "auto", "grid", "float16", "cuda", "mps", "meta", "cuda:7", "log", "é", "none", b"auto")
    yield from (
        [],
        (),
        {},
        set(),
        [0],
        (1,),
        (2, 2),
        (0.1, 0.5),
        (0.5, 0.1),
        (0, 0),
        [-1, 2],
        (np.nan, 1.0),
        (1e300, 1e308),
    )
    yield from (
        [None],
        ["x"],
        [[0, 1]],
        [[1]],
        (("a", "b"),),
        np.array([1.0, 2.0]),
        np.zeros((0,)),
        np.array(3),
        np.zeros((2, 2)),
    )
    yield from (
        ("flip_x",),
        ("flip_x", "quarter_turn"),
        ["flip_z"],
        "flip_x",
        [("flip_x", 0)],
        [(10**12, 2)],
        (10**6, 10**6),
    )
    yield from (Strange(), Strange, len, zero, slice(3), range(3), {"a": 1}, 3.0, 7, 64, "1", 1e3)
    yield from (Hydra(), Hydra, Patches(size=3))


def problems():
    """X and y: fields on a grid, points, designs with fields, and a table."""
    random = np.random.default_rng(0)
    grid = random.normal(size=(6, *GRID, 1))
    points = random.random((12, 2))
    designs = random.random((6, 2))
    yield grid, grid[..., 0]
    yield FieldSet(points, random.normal(size=(6, 12, 1))), FieldSet(points, random.normal(size=(6, 12, 1)))
    yield designs, FieldSet(unit_grid(GRID), random.normal(size=(6, 20, 1)), grid_shape=GRID)
    yield designs, designs.sum(axis=1)


def estimators():
    """Small estimators by name; parts are reached through them."""
    lamo = skop.LaMORegressor(width=8, depth=1, **SMALL)
    return {
        "LaMO": lamo,
        "GeoMaNO": skop.GeoMaNORegressor(width=8, depth=1, **SMALL),
        "MNO": skop.MNORegressor(width=8, depth=1, mixer=Mamba(d_state=2), **SMALL),
        "MNO, oformer": skop.MNORegressor(width=8, depth=1, host=OFormer(), mixer=Mamba(d_state=2), **SMALL),
        "AMO": skop.AMORegressor(width=8, depth=1, mixer=TakenakaMalmquist(n_poles=2), **SMALL),
        "DeepONet": skop.DeepONetRegressor(width=8, n_basis=3, **SMALL),
        "Transolver": skop.TransolverRegressor(width=8, depth=1, n_heads=2, n_slices=3, **SMALL),
        "U-Net": skop.UNetRegressor(width=4, depth=1, **SMALL),
        "POD": skop.PODRegressor(),
        "mean": skop.MeanFieldRegressor(),
        "ensemble": skop.EnsembleRegressor(skop.PODRegressor(), n_members=1).set_params(estimator=lamo),
        "rollout": skop.RolloutRegressor(lamo, window=1),
        "times": skop.TimeConditionedRegressor(lamo, times=[1.0]),
        "law": skop.LawRegressor(skop.PODRegressor()),
        "auto": skop.AutoRegressor(
            candidates=[("POD", skop.PODRegressor()), ("LaMO", lamo)], max_time=0.1, random_state=0
        ),
    }


def names_of(estimator):
    """Names of the parameters of an estimator and of its parts, without those of estimators in it."""
    own = estimator.get_params(deep=False)
    inner = tuple(f"{name}__" for name, value in own.items() if hasattr(value, "fit"))
    return [name for name in estimator.get_params() if not name.startswith(inner)]


def is_on_purpose(error):
    """Whether an error is one of skop's or of a check of parameters, or was raised by a line of skop that says why."""
    if isinstance(error, SkopError | InvalidParameterError):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = "/skop/" in last.filename or "/sklearn/" in last.filename
    return is_ours and isinstance(error, ValueError | TypeError) and (last.line or "").startswith("raise ")


def outcome(estimator, name, value, X, y):
    """What became of a value: a word, and the traceback of what should not be."""
    try:
        with limited():
            changed = clone(estimator)
            changed.set_params(**{name: value})
            if name in ("max_iter", "training__n_iter_no_change") and hasattr(changed, "max_time"):
                changed.set_params(max_time=0.2)
            if name == "max_time" and isinstance(changed, skop.AutoRegressor):
                changed.set_params(candidates=[("mean", skop.MeanFieldRegressor())])
            found = changed.fit(X, y).predict(X)
        found = getattr(found, "values", found)
        is_finite = np.isfinite(np.asarray(found, dtype=float)).all()
        return ("works" if is_finite else "not finite"), ""
    except TooLong:
        return "hang", traceback.format_exc()
    except Exception as error:
        if is_on_purpose(error):
            return "clear", traceback.format_exc()
        return f"raw {type(error).__name__}", traceback.format_exc()


def all_cases(names=None):
    """Name of an estimator, estimator, parameter and value of every case."""
    return [
        (label, estimator, name, value)
        for label, estimator in estimators().items()
        if not names or label in names
        for name in names_of(estimator)
        for value in values()
        # A function of the user's may raise what it likes.
        if not (name == "loss" and callable(value) and value is not zero)
    ]


def fuzz(count, seed, names=None, report=print):
    """Try a number of values, and count what became of them; what should not be is reported."""
    cases = all_cases(names)
    chosen = np.random.default_rng(seed).permutation(len(cases))[:count]
    data, counts = list(problems()), Counter()
    with signals_caught():
        for label, estimator in estimators().items():
            # Otherwise every value would be refused.
            word, text = outcome(
                estimator, names_of(estimator)[0], estimator.get_params()[names_of(estimator)[0]], *data[0]
            )
            if word != "works":
                report(f"{label} as it is: {word}\n{text}")
                counts["raw"] += 1
        for number in chosen:
            label, estimator, name, value = cases[number]
            X, y = data[number % len(data) if label != "rollout" else 0]
            before = most_memory()
            word, text = outcome(estimator, name, value, X, y)
            if most_memory() - before > BYTES:
                word = "memory"
            counts[word] += 1
            if word.startswith(BAD):
                report(f"{label}: {name}={value!r}, problem {number % len(data)}: {word}\n{text}")
    return counts


if __name__ == "__main__":
    run_from_command_line(__doc__, fuzz)
