"""Change model files on purpose, with a checksum that fits again, and see what `skop.load` and `predict` make of them.

    python tests/estimators/fuzz_model_files.py [--cases 10000] [--seed 0] [--only NAME]

Every case must give the same predictions, other ones that are finite, or an error of skop. What else happens is
printed: exceptions from below, predictions that are not finite, cases of more than some seconds or much memory.
"""

import copy
import json
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save as save_tensors
from sklearn.utils._param_validation import InvalidParameterError

import skop
from skop.estimators.files._container import digest, read_container
from skop.exceptions import SkopError

if __package__:
    from .fuzzing import BAD, TooLong, limited, most_memory, run_from_command_line, signals_caught
    from .make_model_files import FOLDER, inputs_of, values_of
else:
    from fuzzing import BAD, TooLong, limited, most_memory, run_from_command_line, signals_caught
    from make_model_files import FOLDER, inputs_of, values_of

#: Memory that a case may take.
BYTES = 2**28
NUMBERS = (
    0,
    -1,
    1,
    2,
    3,
    7,
    10**3,
    10**6,
    10**12,
    10**30,
    0.0,
    -1.0,
    0.5,
    1e-300,
    1e30,
    1e300,
    np.nan,
    np.inf,
    -np.inf,
)
WORDS = (
    "",
    "x",
    "auto",
    "grid",
    "points",
    "float16",
    "float64",
    "a10000000",
    "M8[s]",
    "mps",
    "meta",
    "cuda:99",
    "\0",
    "é" * 300,
)
OBJECTS = ("DataSpec", "LaMORegressor", "PODRegressor", "Ridge", "Kernel", "FieldScaler", "Hydra", "dict")
TYPES = (torch.int8, torch.bool, torch.float16, torch.float32, torch.float64, torch.int64, torch.complex64)
NAMES = ("fit", "predict", "__class__", "__dict__", "_build_network", "module_", "spec_", "more_", "more", "_more_")


def nodes_of(value, path=()):
    """Places of all values in JSON."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from nodes_of(item, (*path, key))


def at(value, path):
    """Value at a place."""
    for key in path:
        value = value[key]
    return value


def deep(random):
    """A value of many levels."""
    levels = int(random.choice([50, 300, 100_000]))
    return json.loads("[" * levels + "]" * levels) if levels < 1e5 else "DEEP"


def other_value(header, tensors, random, value):
    """Something else in the place of a value."""
    kind = random.integers(9)
    if kind == 0:
        return NUMBERS[random.integers(len(NUMBERS))]
    if kind == 1:
        return WORDS[random.integers(len(WORDS))]
    if kind == 2:
        return (None, True, False, [], {}, [None], [[]], {"tuple": []}, {"dict": {}})[random.integers(9)]
    if kind == 3:
        return {"object": OBJECTS[random.integers(len(OBJECTS))], "state": {}}
    if kind == 4:
        name = list(tensors)[random.integers(len(tensors))] if tensors and random.random() < 0.7 else "nowhere"
        return {("array", "columns", "module")[random.integers(3)]: name}
    if kind == 5:
        return deep(random)
    if kind == 6 and isinstance(value, int | float) and not isinstance(value, bool):
        return [value + 1, value - 1, 2 * value, -value, float(value), str(value), 1000 * value][random.integers(7)]
    if kind == 7:
        return {("tuple", "list", "slice", "strings", "device", "mesh")[random.integers(6)]: value}
    places = list(nodes_of(header))
    return copy.deepcopy(at(header, places[random.integers(len(places))]))


def change_header(header, tensors, random):
    """Change one value, name or list of the header."""
    places = list(nodes_of(header))[1:]
    if random.random() < 0.25:
        # What is not deep is rare, and matters most.
        places = sorted(places, key=len)[: max(1, len(places) // 4)]
    path = places[random.integers(len(places))]
    holder, key = at(header, path[:-1]), path[-1]
    kind = random.integers(10)
    if kind < 6:
        holder[key] = other_value(header, tensors, random, holder[key])
    elif kind == 6:
        del holder[key]
    elif kind == 7:
        other = places[random.integers(len(places))]
        place = at(header, other[:-1])
        holder[key], place[other[-1]] = copy.deepcopy(place[other[-1]]), copy.deepcopy(holder[key])
    elif isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif kind == 8:
        holder[NAMES[random.integers(len(NAMES))]] = copy.deepcopy(holder[key])
    else:
        holder[NAMES[random.integers(len(NAMES))]] = holder.pop(key)


def change_tensors(tensors, random):
    """Change one tensor."""
    names = list(tensors)
    name = names[random.integers(len(names))]
    tensor, kind = tensors[name], random.integers(12)
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[f"{name}.more"] = tensors.pop(name) if random.random() < 0.5 else tensor.clone()
    elif kind == 2:
        tensors[name] = tensor.to(TYPES[random.integers(len(TYPES))])
    elif kind == 3 and tensor.ndim > 1:
        tensors[name] = tensor.transpose(0, 1).contiguous()
    elif kind == 4:
        tensors[name] = tensor.reshape(-1).clone()
    elif kind == 5:
        tensors[name] = tensor[..., :-1].contiguous() if tensor.ndim else tensor.reshape(1)
    elif kind == 6:
        tensors[name] = torch.cat([tensor, tensor]) if tensor.ndim else tensor.repeat(2)
    elif kind == 7:
        tensors[name] = tensor[:0].contiguous() if tensor.ndim else tensor.new_empty(0)
    elif kind == 8:
        tensors[name] = tensor.clone()[None].contiguous()
    elif kind == 9:
        tensors[name] = tensors[names[random.integers(len(names))]].clone()
    else:
        value = float(random.choice([np.nan, np.inf, -np.inf, 1e38, -1e30, 0.0, -1.0, 1e-300]))
        if tensor.is_floating_point():
            changed = tensor.clone().reshape(-1)
            if len(changed):
                changed[random.integers(len(changed)) if random.random() < 0.5 else slice(None)] = value
            tensors[name] = changed.reshape(tensor.shape)
        elif tensor.dtype == torch.int64:
            changed = tensor.clone().reshape(-1)
            if len(changed):
                changed[random.integers(len(changed))] = int(random.choice([-1, -(10**9), 10**9, 0, 7]))
            tensors[name] = changed.reshape(tensor.shape)


def changed_file(path, random):
    """Bytes of a model file after one to three changes, with a checksum that fits; and what was changed."""
    header, tensors = read_container(path)
    # Loading does not read the card.
    header.pop("card", None)
    tensors = {name: tensors[name] for name in sorted(tensors)}
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        if tensors and random.random() < 0.3:
            change_tensors(tensors, random)
        else:
            change_header(header, tensors, random)
    text = json.dumps(header, sort_keys=True).replace('"DEEP"', "[" * 100_000 + "]" * 100_000)
    return save_tensors(tensors, {"skop": text, "sha256": digest(text, tensors)})


def is_said_by_skop(error):
    """Whether an error was raised on purpose: one of skop's, or of the check of parameters."""
    return isinstance(error, SkopError | InvalidParameterError)


def outcome(path, content, X, expected):
    """What became of a changed file: a word, and the traceback of what should not be."""
    path.write_bytes(content)
    phase = "load"
    try:
        with limited():
            loaded = skop.load(path)
            phase = "predict"
            found = values_of(loaded.predict(X))
            repr(loaded)
        if not all(
            np.isfinite(np.asarray(part, dtype=float)).all()
            for part in (found if isinstance(found, list | tuple) else [found])
        ):
            return "not finite", ""
        same = np.shape(found) == expected.shape and np.array_equal(found, expected)
        return ("the same" if same else "other predictions"), ""
    except TooLong:
        return f"hang in {phase}", traceback.format_exc()
    except Exception as error:
        if is_said_by_skop(error):
            return f"refused in {phase}", ""
        return f"raw {type(error).__name__} in {phase}", traceback.format_exc()


def fuzz(cases, seed, folder, names=None, report=print):
    """Try a number of changed files, and count what became of them; what should not be is reported."""
    files = sorted(FOLDER.rglob("*.skop"))
    models = []
    for file in files:
        if names and file.stem not in names:
            continue
        estimator = skop.load(file)
        X = inputs_of(file, estimator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models.append((file, X, values_of(estimator.predict(X))))
    counts = Counter()
    with signals_caught():
        for number in range(cases):
            file, X, expected = models[number % len(models)]
            random = np.random.default_rng([seed, number])
            content = changed_file(file, random)
            before = most_memory()
            word, text = outcome(Path(folder) / "changed.skop", content, X, expected)
            if most_memory() - before > BYTES:
                word = "memory"
            counts[word] += 1
            if word.startswith(BAD):
                report(f"case {number} of seed {seed}, {file.stem}: {word}\n{text}")
    return counts


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        run_from_command_line(__doc__, lambda cases, seed, names, report: fuzz(cases, seed, place, names, report))
