"""Fit every estimator with valid values of many of its parameters at once, on tiny data of several kinds.

    python tests/estimators/fuzz_configurations.py [--cases 10000] [--seed 0] [--only NAME]

Every case must predict finite values, the same ones to the last bit from its file, and up to rounding from its graph
for other runtimes, and a clone must keep its parameters; or there is an error on purpose. What else happens is printed
with the parameters, which belong into `FAILED` when it is mended.
"""

import tempfile
import traceback
from collections import Counter
from numbers import Integral
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, Options

import skop
from skop import FieldSet
from skop.data import unit_grid
from skop.parts import Host, Mamba, Mixer, Part, Patches, PointTokens

if __package__:
    from .fuzz_parameters import estimators, is_on_purpose
    from .fuzzing import BAD, TooLong, limited, run_from_command_line, signals_caught
    from .test_export import require_parity
else:
    from fuzz_parameters import estimators, is_on_purpose
    from fuzzing import BAD, TooLong, limited, run_from_command_line, signals_caught
    from test_export import require_parity

#: What was wrong once: estimator, data and parameters.
FAILED = [
    ("Transolver", "points", {"geometry": "structured", "grid": "auto"}),
    ("MNO, oformer", "table", {"mixer": Mamba(ratio="learnable")}),
    ("AMO", "grid", {"patches": Patches(n_frequencies=0)}),
    ("GeoMaNO", "box", {"patches": Patches(size=np.int8(3))}),
    ("LaMO", "grid", {"input_fields": Patches(size=3)}),
    ("rollout", "grid", {"estimator__symmetries": skop.SymmetryOptions(names=("flip_x",), input_vectors=None)}),
]
#: Values of parameters whose constraint does not say them, and of those that must stay as they are; those of parts by
#: their own names or those in an estimator.
VALUES = {
    "symmetries__names": [(), ("flip_x",), ("flip_x", "flip_y"), ("transpose",), ("quarter_turn",)],
    "symmetries__mirrors": [()],
    "symmetries__rotations": [()],
    "symmetries__domain": [None],
    "grid": [None, "auto"],
    "correction": [None, "0001", "0011", "1111", "learnable"],
    "decay_range": [(0.05, 1.0), (0.5, 0.9)],
    "step_range": [(0.001, 0.1), (0.01, 0.5)],
    "rotary_scales": [64.0, 1.0],
    "training__one_cycle": [(0.3, 25.0, 1e4), (0.0, 1.0, 1.0)],
    "training__distributed": [False],
    "batch_size": ["auto", 1, 2, 5, 100],
    "learning_rate_init": [1e-4, 4e-3, 0.1],
    "max_iter": [1, 2],
    # Blocks are alike, and each takes PyTorch seconds of an export.
    "depth": [1, 2],
    "max_time": [None],
    "base": [None, "pod", "linear", "auto"],
    "device": ["cpu"],
    "random_state": [0],
    "verbose": [False],
    "regressor": ["auto", "ridge", "polynomial", "rbf", "gaussian_process", "mean", "akima"],
    "cv": [2],
    "n_jobs": [None],
}
#: Parts of which there are objects.
PARTS = [kind for kind in Part.known.values() if kind not in (Mixer, Host, PointTokens)]
#: Longest time of an export in seconds of the processor: PyTorch takes long for scans that are unrolled.
_EXPORT_SECONDS = 100
#: Parameters that are estimators, or that need data of their own.
LEFT_OUT = {"estimator", "candidates", "times", "input_fields", "target_fields", "cell_data", "warm_start"}


def problems():
    """X and y by kind: grids of odd shapes in one to three dimensions, points, samples of their own sizes, tables."""
    random = np.random.default_rng(0)

    def grid(*shape, channels=1):
        return random.normal(size=(7, *shape, channels))

    points = [random.random((size, 2)) for size in (9, 5, 12, 7, 1, 8, 6)]
    ragged = FieldSet(points, [random.normal(size=(len(place), 1)) for place in points])
    designs = random.random((7, 2))
    return {
        "grid": (grid(4, 5), grid(4, 5, channels=2)),
        "line": (grid(11, channels=2), grid(11)),
        "box": (grid(3, 4, 2), grid(3, 4, 2)),
        "row": (grid(1, 6), grid(1, 6)),
        "points": (FieldSet(points[2], random.normal(size=(7, 12, 1))), random.normal(size=(7, 12, 1))),
        "ragged": (ragged, ragged.with_values(2.0 * ragged.values)),
        "designs": (designs, FieldSet(unit_grid((4, 5)), random.normal(size=(7, 20, 1)), grid_shape=(4, 5))),
        "scalars of fields": (grid(5, 3), random.normal(size=(7, 2))),
        "table": (designs, designs.sum(axis=1)),
    }


def drawn(constraints, name, random):
    """A valid small value of a parameter; KeyError if its constraints say none."""
    known = VALUES.get(name, VALUES.get(name.rpartition("__")[2]))
    if known is not None:
        return known[random.integers(len(known))]
    chosen = [rule for rule in constraints if rule in (None, "boolean") or isinstance(rule, Options | Interval)]
    if not chosen:
        raise KeyError(name)
    rule = chosen[random.integers(len(chosen))]
    if rule is None:
        return None
    if isinstance(rule, str):
        return bool(random.integers(2))
    if isinstance(rule, Options):
        options = sorted(rule.options, key=str)
        return options[random.integers(len(options))]
    if rule.type is Integral:
        return int(min(rule.left + random.integers(7), rule.right or np.inf))
    low, high = (0.0 if rule.left is None else rule.left), (2.0 if rule.right is None else min(rule.right, 2.0))
    return float(low + (high - low) * random.uniform(0.01, 0.99))


def part_of(constraints, random):
    """A part that a parameter takes, with its defaults; None if it takes none."""
    kinds = tuple(kind for rule in constraints for kind in getattr(rule, "kinds", ()))
    able = [kind for kind in PARTS if issubclass(kind, kinds)]
    return able[random.integers(len(able))]() if able else None


def configured(estimator, random):
    """An estimator with drawn values of some of its parameters, and of its parts and inner estimator."""
    changed = clone(estimator)
    own = type(changed)._parameter_constraints
    constraints = {"": {name: rules for name, rules in own.items() if name not in LEFT_OUT}}
    for name, rules in sorted(own.items()):
        if (part := part_of(rules, random)) is not None:
            del constraints[""][name]
            if random.random() < 0.4:
                changed.set_params(**{name: part})
                constraints[f"{name}__"] = part._parameter_constraints
    inner = getattr(changed, "estimator", None)
    if inner is not None:
        changed.estimator = configured(inner, random)
    for prefix, known in constraints.items():
        for name in sorted(known):
            if random.random() < 0.7:
                continue
            try:
                value = drawn(known[name], prefix + name, random)
            except KeyError:
                continue
            changed.set_params(**{prefix + name: value})
    return changed


def numbers_of(predicted):
    """Values of a prediction as arrays."""
    parts = predicted if isinstance(predicted, tuple | list) else [predicted]
    return [np.asarray(getattr(part, "values", part), dtype=float) for part in parts]


def require_graph(fitted, X, path):
    """Export an operator that can be exported, and compare its graph with its predictions, in single precision."""
    # A graph is for one number of points.
    X, counts = (X[:1], (1,)) if getattr(X, "is_ragged", False) else (X, (len(X), 1))
    try:
        fitted.export(path, X)
    except Exception as error:
        if is_on_purpose(error) and "single precision does not explain" not in str(error):
            return "works without a graph"
        raise
    require_parity(fitted, X, path, counts, tolerance=1e-4)
    return f"works with {path.suffix}"


def outcome(estimator, X, y, ending=None):
    """What became of a case: a word, and what should not be; with an export if an ending of its file is given."""
    fitted = None
    try:
        with limited():
            before = repr(clone(estimator).get_params())
            fitted = clone(estimator).fit(X, y)
            first = numbers_of(fitted.predict(X))
            if not all(np.isfinite(part).all() for part in first):
                return "not finite", ""
            if repr(clone(fitted).get_params()) != before:
                return "raw: a clone has other parameters", ""
            with tempfile.TemporaryDirectory() as folder:
                fitted.save(Path(folder) / "model.skop")
                again = numbers_of(skop.load(Path(folder) / "model.skop").predict(X))
            if not all(np.array_equal(*pair) for pair in zip(first, again, strict=True)):
                return "raw: the file predicts otherwise", ""
        if ending is None or not hasattr(fitted, "export"):
            return "works", ""
        with limited(_EXPORT_SECONDS), tempfile.TemporaryDirectory() as folder:
            return require_graph(fitted, X, Path(folder) / f"model{ending}"), ""
    except TooLong:
        return "hang", traceback.format_exc()
    except Exception as error:
        # What was fitted can be predicted, saved and loaded.
        if fitted is None and is_on_purpose(error):
            return "clear", traceback.format_exc()
        return f"raw {type(error).__name__}", traceback.format_exc()


def data_of(label, kind):
    """X and y of a kind for an estimator; the frames of a rollout have the fields of X."""
    X, y = problems()[kind]
    return X, X if label == "rollout" else y


def run_case(label, number, *, exports=True):
    """Draw a case by its number and run it; its description, a word for what became of it, and what should not be."""
    random = np.random.default_rng([number, *label.encode()])
    estimator = configured(estimators()[label], random)
    kinds = ["grid", "line", "box"] if label in ("rollout", "times") else sorted(problems())
    kind = kinds[random.integers(len(kinds))]
    # To convert to ONNX takes several times as long as all the rest.
    ending = (".onnx" if random.integers(4) == 0 else ".pt2") if exports else None
    words = f"{label}, case {number}, {kind}{'' if ending is None else f', {ending}'}: {estimator}"
    return words, *outcome(estimator, *data_of(label, kind), ending)


def fuzz(count, seed, names=None, report=print, *, exports=True):
    """Run a number of cases, of one estimator after the other, and count what became of them."""
    labels = [label for label in estimators() if not names or label in names]
    counts = Counter()
    with signals_caught():
        for place in range(count):
            words, word, text = run_case(labels[place % len(labels)], seed + place // len(labels), exports=exports)
            counts[word] += 1
            if word.startswith(BAD):
                report(f"{words}: {word}\n{text}")
    return counts


if __name__ == "__main__":
    run_from_command_line(__doc__, fuzz)
