"""Checksums of all that a fit depends on: for its checkpoints, and for processes that fit together."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from dataclasses import fields
from types import CodeType, FunctionType
from typing import Any

import joblib
import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit

from skop._version import __version__
from skop.data import TrainingData
from skop.estimators.files._persistence import digest_of
from skop.training import TrainingPlan, fingerprint

__all__ = ["described", "described_earlier", "described_fit", "described_plan", "digest_of_data", "sources_of"]

#: Parameters that may differ between processes that fit together.
_OF_A_PROCESS = ("device", "n_jobs", "verbose")
#: Packages whose code the versions stand for, or that have none.
_KNOWN_BY_VERSION = ("builtins", "numpy", "skop", "sklearn", "torch")


def described_fit(
    estimator: Any, data: TrainingData, weight: Any, groups: Any, plan: TrainingPlan, checkpoint_dir: Any
) -> dict[str, str]:
    """Return checksums of all that processes which fit together must have in common.

    Parameters
    ----------
    estimator : OperatorRegressor
        Estimator that is being fitted.
    data : TrainingData
        Its samples, as they were read.
    weight : array-like or None
        Weights of the samples.
    groups : ndarray of shape (n,) or None
        Labels of groups of samples.
    plan : TrainingPlan
        Changes to the training loop.
    checkpoint_dir : path-like or None
        Folder that the user has named.

    Returns
    -------
    dict
        Checksums by the name of the part.
    """
    params = {name: value for name, value in estimator.get_params().items() if name not in _OF_A_PROCESS}
    found = {"class": type(estimator).__qualname__} | {name: _checksum(value) for name, value in params.items()}
    found |= {"X or y": digest_of_data(data, None)}
    found |= {"sample_weight": _checksum(None if weight is None else np.asarray(weight)), "groups": _checksum(groups)}
    found |= {
        "training plan": _checksum(described_plan(plan)),
        "earlier fit": _checksum(described_earlier(estimator)),
    }
    found |= {"checkpoint_dir": str(checkpoint_dir)}
    return found | {"version of skop": __version__, "version of torch": str(torch.__version__)}


def _checksum(value: Any) -> str:
    """Checksum of a parameter; the name of a function that cannot be pickled."""
    try:
        return str(joblib.hash(value))
    except (pickle.PicklingError, AttributeError, TypeError):
        return getattr(value, "__qualname__", type(value).__qualname__)


def described_plan(plan: TrainingPlan) -> dict[str, Any]:
    """A training plan in numbers and names."""
    forward: Any = plan.forward
    parts = {} if forward is None else {part.name: getattr(forward, part.name) for part in fields(forward)}
    parts.pop("model", None)
    # Checkpoints of plans without such a frame are those of earlier versions.
    frame = {} if plan.last_frame is None else {"last_frame": plan.last_frame}
    return {"forward": parts, "groups": [plan.group_size, plan.grouping], "n_steps": plan.n_steps} | frame


def described_earlier(estimator: Any) -> Any:
    """What a fit continues, in numbers."""
    if not estimator._continues:
        return None
    earlier = vars(estimator).get("_earlier")
    has_end = earlier is not None and earlier.end is not None
    return [fingerprint(estimator.module_), estimator.n_iter_, has_end]


def digest_of_data(data: TrainingData, weight: Any) -> str:
    """Checksum of the samples of a fit, with their form, precision and weights, on which its result depends too."""
    described = {"numbers": data.checksum, "elsewhere": data.targets.elsewhere, "spec": data.spec}
    # Predictions are given the cells of the mesh of y.
    described["mesh"] = data.mesh
    described["weight"] = None if weight is None else np.asarray(weight)
    held = [part[:1] for part in (data.inputs, data.targets.field) if part is not None]
    arrays = [array for part in held for array in (part.coords, part.values, part.params)]
    described["kinds"] = [str(np.asarray(array).dtype) for array in (*arrays, data.targets.scalars)]
    described["layouts"] = [[part.shared_coords, part.is_ragged] for part in held]
    return digest_of(described)


def described(value: Any) -> Any:
    """Parameters of a search in numbers and names; those of candidates and splitters of other packages too."""
    if isinstance(value, BaseEstimator):
        parts = {name: described(part) for name, part in value.get_params(deep=False).items()}
        return {"class": f"{type(value).__module__}.{type(value).__qualname__}", "parameters": parts}
    if isinstance(value, list | tuple):
        return [described(part) for part in value]
    return repr(value) if isinstance(value, BaseCrossValidator | BaseShuffleSplit) else value


def sources_of(estimator: Any) -> dict[str, str]:
    """Sources of the classes of an estimator and of its parts that are not of skop, and of what these use, by name."""
    found: dict[str, str] = {}
    waiting: list[Any] = list(_classes_of(estimator))
    seen: set[Any] = set()
    while waiting:
        value = waiting.pop()
        name = f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', None)}"
        is_new = isinstance(value, type | FunctionType) and value not in seen
        if is_new and name.partition(".")[0] not in _KNOWN_BY_VERSION:
            seen.add(value)
            # Several functions without a name have the same one.
            found[name] = found.get(name, "") + _source(value)
            waiting += _used_by(value)
    return {name: text for name, text in found.items() if text}


def _classes_of(value: Any) -> Iterator[type]:
    """Classes of a parameter and of all within it."""
    yield type(value)
    parts = value.get_params(deep=False) if isinstance(value, BaseEstimator) else value
    parts = parts.values() if isinstance(parts, dict) else parts
    for part in parts if isinstance(parts, list | tuple | type({}.values())) else ():
        yield from _classes_of(part)


def _used_by(value: type | FunctionType) -> list[Any]:
    """What a class derives from and holds, and what a class or a function names of its own file."""
    held = [value, *vars(value).values()]
    held += [within for part in held for within in _within(part)]
    named = [
        part.__globals__.get(name) for part in held if isinstance(part, FunctionType) for name in _names(part.__code__)
    ]
    named += [within for part in named for within in (*_within(part), type(part))]
    own = [part for part in named if getattr(part, "__module__", None) == value.__module__]
    return [*held[1:], *own, *getattr(value, "__mro__", ())[1:]]


def _within(part: Any) -> list[Any]:
    """Functions in a decorated or partial one, in a property, or in a static or class method."""
    return [held for name in ("__func__", "fget", "func", "__wrapped__") if (held := getattr(part, name, None))]


def _names(code: CodeType) -> list[str]:
    """Names that a function and those within it look up."""
    within = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return [*code.co_names, *within]


def _source(value: Any) -> str:
    """Source of a class or a function; that of the methods of a class that is in no file; none where there is none."""
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        methods = vars(value).values() if isinstance(value, type) else ()
        return "".join(_source(held) for held in methods if isinstance(held, FunctionType))
