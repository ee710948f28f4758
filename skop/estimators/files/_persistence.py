"""Save fitted estimators to one file without pickle, and load them without executing anything from the file.

Pipelines of scikit-learn that end in an estimator of skop are saved too, with transformers whose state is numbers and
names.

All arrays become tensors, and classes, parameters and fitted attributes a JSON header. Objects can be nested: an
ensemble contains its members, a rollout its estimator. Only classes in a fixed list of allowed classes can be loaded,
and their constructors are not called.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from inspect import getattr_static, signature
from typing import Any

import meshio
import numpy as np
import sklearn
import torch
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor, kernels
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from skop import losses
from skop._files import require_writable
from skop._parameters import Part
from skop._sklearn_compat import last_step
from skop._typing import PathOrStr
from skop._version import __version__
from skop.data import MESH_SETS, BoxScaler, DataSpec, FieldScaler, GridResampler, Scalers, Shapes, TargetForm
from skop.estimators.files._card import card_of
from skop.estimators.files._container import digest, read_container, write_container
from skop.estimators.files._file_checks import check_loaded, check_mesh
from skop.estimators.files._old_parameters import renamed
from skop.exceptions import ModelFileError, SkopWarning, warn
from skop.modules import set_periodic
from skop.surrogate._building import NetworkTooLargeError, bounded_building
from skop.surrogate._domain import Domain, SeenRanges
from skop.surrogate._novelty import Group, Lattice, Reference
from skop.training._runtime import converted, isolated_randomness, pick_device

__all__ = [
    "KNOWN",
    "digest_of",
    "load",
    "load_estimator",
    "read_card",
    "read_state",
    "save",
    "save_estimator",
    "write_state",
]

#: Transformers of scikit-learn whose state is numbers and names. ColumnTransformer passes columns on by a
#: FunctionTransformer without a function; functions of other packages than NumPy are refused.
_TRANSFORMERS = (
    *(ColumnTransformer, FunctionTransformer, MaxAbsScaler, MinMaxScaler, PCA, PolynomialFeatures, RobustScaler),
    StandardScaler,
)

#: Classes that a file may contain besides the estimators and option objects of skop, by name. Modules that this one
#: cannot import add theirs.
KNOWN: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(BoxScaler, DataSpec, Domain, FieldScaler, GridResampler, Scalers, SeenRanges, TargetForm),
        *(Group, Lattice, Reference, Shapes),
        *(losses.GradientRelativeL2Loss, losses.MSELoss, losses.RelativeL2Loss, losses.SobolevLoss),
        *_TRANSFORMERS,
        *(Pipeline, DummyRegressor, GaussianProcessRegressor, KernelRidge, LinearRegression, Ridge, RidgeCV),
        *(kernels.ConstantKernel, kernels.Matern, kernels.Product, kernels.RBF, kernels.Sum, kernels.WhiteKernel),
    )
}
#: Estimators of skop by name; each is registered when its class is defined.
ESTIMATORS: dict[str, type] = {}
#: Message about an object whose parameters changed after the fit so that it could not be loaded again.
_SET_AFTER_FIT = "{} has parameters with which it cannot be fitted, and could not be loaded again ({}); set others."
#: Fitted attributes that an operator needs to predict.
_NEEDED = ("coords_", "domain_", "dtype_", "geometry_", "network_parameters_", "scalers_", "spacing_", "spec_")
#: Deepest nesting of values in a header.
_DEEPEST = 100
#: Largest numbers of values in tables beside the weights of a network, and of modules without weights.
_BESIDE_NUMBERS, _BESIDE_MODULES = 2**22, 1000
#: Keys in the header that mark values of types that JSON does not have.
_TAGS = frozenset(
    {"array", "columns", "complex", "device", "dict", "mesh", "module", "object", "slice", "strings", "tensor"}
    | {"tuple", "ufunc"}
)
#: Functions of NumPy that a file may name: elementwise functions of one argument.
_UFUNCS = {
    name: held for name, held in vars(np).items() if isinstance(held, np.ufunc) and (held.nin, held.nout) == (1, 1)
}


def register(kind: type) -> None:
    """Let models of an estimator be saved and loaded by the name of its class."""
    known = ESTIMATORS.get(kind.__name__)
    if known is not None and known.__module__.startswith("skop.") and known.__module__ != kind.__module__:
        warn(f"{kind.__name__} is the name of an estimator of skop; models of this class cannot be saved. Rename it.")
        return
    ESTIMATORS[kind.__name__] = kind


def save(estimator: Any, path: PathOrStr) -> None:
    """Save a fitted estimator of skop, or a scikit-learn Pipeline that ends in one, to one file without pickle.

    Its header holds a model card: the samples of the fit with their checksum, errors, bands and versions, which
    ``skop describe`` shows.

    Parameters
    ----------
    estimator : estimator of skop or Pipeline
        Fitted estimator. The other steps of a Pipeline can be StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler,
        PolynomialFeatures, PCA, FunctionTransformer with a function of NumPy such as ``np.log``, and ColumnTransformer
        or Pipeline of these.
    path : path-like
        File to write. An existing file is replaced only when the new one is complete.

    Raises
    ------
    ModelFileError
        If the estimator is of another kind, has a step or a parameter that cannot be saved, such as a function, was
        changed after the fit, or has a network with drawn tensors that are no buffers.
    OSError
        If no file can be written there: its folder does not exist or takes no files, the path is a folder, or the disk
        is full. An earlier file stays as it is.

    See Also
    --------
    load : Load the file.

    Examples
    --------
    >>> import tempfile, numpy as np, skop
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> X, y = np.random.default_rng(0).random((8, 3)), np.arange(8.0)
    >>> estimator = skop.LaMORegressor(width=8, depth=1, max_iter=1, random_state=0)
    >>> model = make_pipeline(PolynomialFeatures(2), estimator).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     skop.save(model, f"{folder}/model.skop")
    ...     loaded = skop.load(f"{folder}/model.skop")
    >>> bool((loaded.predict(X) == model.predict(X)).all())
    True
    """
    if not _is_ours(estimator):
        last = f", which ends in {last_step(estimator)!r}" if isinstance(estimator, Pipeline) else ""
        raise ModelFileError(
            f"a model file holds an estimator of skop, or a Pipeline that ends in one, but this is a "
            f"{type(estimator).__name__}{last}; of a search pass best_estimator_, and save others by joblib.dump."
        )
    save_estimator(estimator, path)


def _is_ours(estimator: Any) -> bool:
    """Whether an estimator is one of skop, or a Pipeline that ends in one."""
    return isinstance(last_step(estimator), tuple(ESTIMATORS.values()))


def save_estimator(estimator: Any, path: PathOrStr, key: str | None = None) -> None:
    """Write a fitted estimator to a file; an existing file is replaced only when the new one is complete.

    Parameters
    ----------
    estimator : estimator of skop or Pipeline
        Fitted estimator.
    path : path-like
        File to write.
    key : str or None, default=None
        As in `write_state`.

    Raises
    ------
    ModelFileError
        If a parameter cannot be saved, or was changed after the fit so that the weights do not match it.
    OSError
        If `path` cannot be written, see `require_writable`.
    """
    require_writable(path)
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        raise
    except Exception as error:
        # The estimator in it was replaced after the fit; the error of its parameters names the reason.
        reason = error
        try:
            _check_parameters(estimator)
        except Exception as wrong:
            reason = wrong
        raise ModelFileError(_SET_AFTER_FIT.format(type(estimator).__name__, reason)) from error
    write_state(estimator, path, key)


def write_state(value: Any, path: PathOrStr, key: str | None = None) -> None:
    """Write an object to a file of the format of model files; an existing file is replaced in one step.

    Parameters
    ----------
    value : object
        Estimator, or nested dicts, lists and tuples of numbers, strings, arrays, tensors and known objects.
    path : path-like
        File to write.
    key : str or None, default=None
        Text without which the file is not read again; None writes none.

    Raises
    ------
    ModelFileError
        If a part is of another kind.
    """
    tensors: dict[str, torch.Tensor] = {}
    header = {"estimator": _encode(value, "", tensors)} | ({} if key is None else {"key": key})
    if _is_ours(value):
        header["card"] = card_of(value)
    write_container(path, header, tensors)


def read_state(path: PathOrStr, key: str | None = None) -> Any:
    """Read what `write_state` wrote.

    Parameters
    ----------
    path : path-like
        File to read.
    key : str or None, default=None
        Key that the file must have; None reads files with any key and without.

    Returns
    -------
    object
        The object; tensors are on the CPU, and modules are dicts of their weights.

    Raises
    ------
    ModelFileError
        If the file is damaged or of another kind, or has another key.
    FileNotFoundError
        If there is no such file.
    """
    header, tensors = read_container(path, key)
    with _named_failures(f"{path} does not fit this skop {__version__}"):
        return _decode(header["estimator"], tensors)


def digest_of(value: Any) -> str:
    """Checksum of what `write_state` would write.

    Parameters
    ----------
    value : object
        Object of the kinds that `write_state` takes.

    Returns
    -------
    str
        Hexadecimal SHA-256.
    """
    tensors: dict[str, torch.Tensor] = {}
    return digest(json.dumps(_encode(value, "", tensors), sort_keys=True), tensors)


def load(path: PathOrStr) -> Any:
    """Load an estimator that ``est.save(path)`` or `save` wrote.

    Nothing in the file is executed. It contains numbers and names, and only classes of skop and a few of scikit-learn
    can be loaded. A model that was fitted on a GPU can be loaded on a machine without one.

    Parameters
    ----------
    path : path-like
        Model file.

    Returns
    -------
    estimator
        Fitted estimator, whose predictions are those of the saved estimator.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, was written by an incompatible version, or holds values, names
        and sizes that do not go together.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import tempfile, numpy as np, skop
    >>> X, y = np.random.default_rng(0).random((8, 3)), np.arange(8.0)
    >>> estimator = skop.LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     estimator.save(f"{folder}/model.skop")
    ...     loaded = skop.load(f"{folder}/model.skop")
    >>> bool((loaded.predict(X) == estimator.predict(X)).all())
    True
    """
    return load_estimator(path)


def load_estimator(path: PathOrStr, key: str | None = None) -> Any:
    """Read what `save_estimator` wrote, as `load` does.

    Parameters
    ----------
    path : path-like
        Model file.
    key : str or None, default=None
        As in `read_state`.

    Returns
    -------
    estimator
        Fitted estimator.

    Raises
    ------
    ModelFileError, FileNotFoundError
        As in `load` and `read_state`.
    """
    header, tensors = read_container(path, key)
    written = header["versions"]["skop"]
    by = "this version, perhaps in another state" if written == __version__ else f"skop {written}"
    with _named_failures(f"{path} does not fit this skop {__version__} (it was written by {by})"):
        holds_scikit_learn = _holds_scikit_learn(header["estimator"])
        estimator = _decode(header["estimator"], tensors)
        is_ours = _is_ours(estimator)
        if is_ours:
            check_is_fitted(last_step(estimator))
    if not is_ours:
        raise ModelFileError(f"{path} holds a {type(estimator).__name__} and no estimator of skop.")
    theirs = header["versions"]["scikit-learn"]
    if theirs != sklearn.__version__ and holds_scikit_learn:
        warn(
            f"{path} holds objects of scikit-learn {theirs}, and {sklearn.__version__} is installed; compare a "
            "prediction with one made when it was saved.",
            SkopWarning,
        )
    return estimator


def read_card(path: PathOrStr) -> dict[str, Any]:
    """Read the model card of a file; one without a card, of an earlier version, is loaded and described.

    Parameters
    ----------
    path : path-like
        Model file.

    Returns
    -------
    dict
        Card as by `card_of`, with the ``versions`` of the packages that wrote the file, and a ``note`` if it has none.

    Raises
    ------
    ModelFileError, FileNotFoundError
        As in `load`.
    """
    header, _ = read_container(path)
    card, versions = header.get("card"), {"versions": header["versions"]}
    if card is None:
        note = "the file has no card, since an earlier version wrote it; this is what the model in it tells"
        return card_of(load_estimator(path)) | versions | {"note": note}
    if not isinstance(card, dict):
        raise ModelFileError(f"{path} has a card that is no table of values; save it again.")
    return card | versions


# ---------------------------------------------------------------------- objects to JSON and tensors
def _encode(value: Any, place: str, tensors: dict[str, torch.Tensor]) -> Any:
    """Convert a value to JSON types; arrays are added to `tensors` under the name of their place."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return _encode_array(value, place, tensors)
    if isinstance(value, list):
        return [_encode(item, _below(place, number), tensors) for number, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"tuple": [_encode(item, _below(place, number), tensors) for number, item in enumerate(value)]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _encode(item, _below(place, key), tensors) for key, item in value.items()}}
    if isinstance(value, slice):
        return {"slice": [_encode(part, place, tensors) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, np.ufunc) and _UFUNCS.get(value.__name__) is value:
        return {"ufunc": value.__name__}
    if isinstance(value, torch.Tensor):
        tensors[place] = _as_real(value.detach()).cpu().contiguous()
        return {"complex" if value.is_complex() else "tensor": place}
    if isinstance(value, meshio.Mesh):
        parts = {"points": value.points, "cells": [[block.type, _as_rows(block.data)] for block in value.cells]}
        sets = {name: dict(held) for name in MESH_SETS if (held := getattr(value, name))}
        return {"mesh": _encode(parts | {"info": value.info} | sets, place, tensors)}
    if isinstance(value, torch.nn.Module):
        weights = value.state_dict()
        tensors.update({f"{place}.{name}": _as_real(weight).cpu().contiguous() for name, weight in weights.items()})
        return {"module": place}
    if isinstance(value, np.random.RandomState | np.random.Generator):
        # A RandomState instance was advanced by the fit, so keeping it would not make the fit repeatable.
        return None
    return _encode_object(value, place, tensors)


def _encode_object(value: Any, place: str, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Convert an object of a known class, whose parameters a loaded one could have, to its name and attributes."""
    name = type(value).__name__
    known = _find_class(name)
    # Compare by name: a class that was defined twice, as in a notebook cell that ran again, is still the same class.
    if known is None or (known.__module__, known.__qualname__) != (type(value).__module__, type(value).__qualname__):
        advice = "use a value of a built-in type, such as the name of a loss"
        if callable(value):
            advice += ", or in a FunctionTransformer a function of NumPy for single numbers, such as np.log"
        if isinstance(value, BaseEstimator) and hasattr(value, "transform"):
            names = [kind.__name__ for kind in _TRANSFORMERS if kind is not FunctionTransformer]
            advice = f"of scikit-learn's transformers it takes {', '.join(names)}"
        raise ModelFileError(
            f"{place or 'estimator'}={value!r} cannot be written to a model file; {advice}, or save the estimator by "
            "joblib.dump."
        )
    try:
        _check_parameters(value)
        if isinstance(value, BaseEstimator) and name in ESTIMATORS:
            _check_still_fits(value)
    except ModelFileError:
        raise
    except Exception as error:
        raise ModelFileError(_SET_AFTER_FIT.format(place or name, error)) from error
    return {"object": name, "state": {key: _encode(*item, tensors) for key, item in _state(value, place)}}


def _as_real(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as files hold it: complex numbers as real and imaginary parts along a last axis."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _as_rows(cells: Any) -> Any:
    """Cells of one type: an array of signed integers, or lists of faces for polyhedra."""
    if isinstance(cells, np.ndarray):
        return cells.astype(np.int64) if cells.dtype.kind == "u" else cells
    return [_as_rows(item) for item in cells] if isinstance(cells, list | tuple) else cells


def _below(place: str, name: str | int) -> str:
    """Name of the place of a part of an object."""
    return f"{place}.{name}" if place else str(name)


def _state(value: Any, place: str) -> Iterator[tuple[str, tuple[Any, str]]]:
    """Attributes of an object that are saved, by name, with their places."""
    names = list(vars(value))
    if isinstance(value, BaseEstimator) and type(value).__name__ in ESTIMATORS:
        parameters = value.get_params(deep=False)
        names = [name for name in names if name in parameters or (name.endswith("_") and not name.startswith("_"))]
    for name in names:
        yield name, (getattr(value, name), _below(place, name))


def _encode_array(value: np.ndarray, place: str, tensors: dict[str, torch.Tensor]) -> Any:
    """Store an array of numbers as a tensor, and an array of strings or other objects as a list."""
    if value.dtype.kind == "O" and not all(isinstance(item, str) for item in value.flat):
        return _encode(value.tolist(), place, tensors)
    if value.dtype.kind in "OUS":
        return {"strings": [str(item) for item in value.ravel()]}
    # The memory order is preserved, because the rounding of matrix products depends on it.
    value = value.astype(value.dtype.newbyteorder("="), copy=False)
    by_columns = value.ndim == 2 and value.flags.f_contiguous and not value.flags.c_contiguous
    try:
        tensors[place] = torch.tensor(np.ascontiguousarray(value.T if by_columns else value))
    except TypeError as error:
        raise ModelFileError(f"{place} is an array of {value.dtype}, which a model file cannot hold.") from error
    return {"columns" if by_columns else "array": place}


def _check_still_fits(estimator: Any) -> None:
    """Raise an error if the parameters were changed so that they describe another network than the fitted one."""
    if not hasattr(estimator, "module_"):
        return
    changed = estimator._changed_since_fit()
    if changed:
        raise ModelFileError(
            f"parameters of the network were changed after the fit ({', '.join(changed)}), so the loaded estimator "
            "would predict something else; fit again, or set them back, before saving."
        )
    _check_weights(estimator)
    held = _unregistered(estimator.module_)
    for seed in range(2 if held else 0):  # of two seeds one is not that of the fit
        anew = _unregistered(_described_network(estimator, seed))
        for name in sorted(held.keys() & anew.keys()):
            own, other = held[name].to(anew[name].dtype), anew[name]
            if own.shape == other.shape and not torch.allclose(own, other, equal_nan=True):
                raise ModelFileError(
                    f"{name} of module_ is not in its state_dict and would be another tensor in the loaded estimator; "
                    "register what you draw as a buffer, by register_buffer, and fit again before saving."
                )


def _check_weights(estimator: Any) -> None:
    """Raise an error about weights with which a file could not be loaded again."""
    described, fitted = _described_network(estimator).state_dict(), estimator.module_.state_dict()
    if {name: held.shape for name, held in described.items()} != {name: held.shape for name, held in fitted.items()}:
        raise ModelFileError(
            "parameters of the network were changed after the fit, so the file could not be loaded again; fit again, "
            "or set them back, before saving."
        )
    for name, held in fitted.items():
        if held.dtype != described[name].dtype:
            raise ModelFileError(
                f"{name} of module_ was changed after the fit, from {described[name].dtype} to {held.dtype}, and the "
                "file could not be loaded again; set its precision back before saving, or fit with another dtype."
            )
    if name := _not_finite(described, fitted):
        raise ModelFileError(
            f"{name} of module_ is not finite, so no file of it could be loaded; fit again to save it."
        )


def _not_finite(described: dict[str, torch.Tensor], held: dict[str, torch.Tensor]) -> str:
    """Name of the first tensor with numbers that are not finite where they are in a network built anew, or nothing."""
    for name, fresh in described.items():
        is_usual = ~torch.isfinite(_as_real(fresh))
        if not bool((torch.isfinite(_as_real(held[name]).cpu()) | is_usual).all()):
            return name
    return ""


def _unregistered(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Tensors of a network that are not among its weights, and so not in a file, by name."""
    found: dict[str, torch.Tensor] = {}
    for place, module in network.named_modules():
        beside = {name: module.get_buffer(name) for name in module._non_persistent_buffers_set}
        for name, held in (vars(module) | beside).items():
            parts = enumerate(held) if isinstance(held, list | tuple) else [("", held)]
            tensors = [(f"{_below(place, name)}{n}", part) for n, part in parts if isinstance(part, torch.Tensor)]
            found |= {full: part.detach().cpu() for full, part in tensors}
    return found


def _described_network(estimator: Any, seed: int = 0) -> torch.nn.Module:
    """The network that parameters and data describe, made without disturbing anyone's random numbers."""
    with isolated_randomness(np.random.RandomState(seed), torch.device("cpu"), False):
        network: torch.nn.Module = estimator._new_network(estimator.spec_.network_spec, estimator.geometry_)
    # Models of versions in which no convolution wrapped around have no such attribute.
    set_periodic(network, getattr(estimator, "periodic_axes_", ()))
    return converted(network, None, getattr(torch, estimator.dtype_))


# ---------------------------------------------------------------------- JSON and tensors to objects
def _decode(value: Any, tensors: dict[str, torch.Tensor], level: int = 0) -> Any:
    """Convert a value back from JSON types, and take its arrays out of `tensors`."""
    if level > _DEEPEST:
        raise ModelFileError(f"the file holds values in more than {_DEEPEST} levels; fit and save again.")
    if isinstance(value, list):
        return [_decode(item, tensors, level + 1) for item in value]
    if not isinstance(value, dict):
        return value
    tag, content = _tagged(value)
    if tag in ("array", "columns"):
        array = _taken(content, tensors).numpy()
        return array if tag == "array" else array.T
    if tag in ("tensor", "complex"):
        tensor = _taken(content, tensors)
        return tensor if tag == "tensor" else torch.view_as_complex(tensor)
    if tag == "strings":
        return np.array([str(item) for item in content], dtype=object)
    if tag == "tuple":
        return tuple(_decode(item, tensors, level + 1) for item in content)
    if tag == "slice":
        return slice(*content)
    if tag == "dict":
        return {key: _decode(item, tensors, level + 1) for key, item in content.items()}
    if tag == "device":
        return torch.device(content)
    if tag == "ufunc":
        if content not in _UFUNCS:
            raise ModelFileError(f"the file holds {content[:80]!r}, which is no function of NumPy; fit and save again.")
        return _UFUNCS[content]
    if tag == "mesh":
        parts = _decode(content, tensors, level + 1)
        sets = {name: parts.get(name, {}) for name in MESH_SETS}
        check_mesh(parts["points"], parts["cells"], parts["info"], **sets)
        blocks = [tuple(block) for block in parts["cells"]]
        return meshio.Mesh(parts["points"], blocks, info=parts["info"], **sets)
    if tag == "module":
        prefix = f"{content}."
        names = [name for name in tensors if name.startswith(prefix)]
        return {name.removeprefix(prefix): tensors.pop(name) for name in names}
    return _decode_object(content, value["state"], tensors, level)


def _tagged(value: dict[str, Any]) -> tuple[str, Any]:
    """Return the type of a value that JSON does not have, and its content, which is checked."""
    tags = _TAGS & set(value)
    if len(tags) != 1:
        raise ModelFileError(f"the file holds a value of unknown type with {sorted(value)[:5]}; fit and save again.")
    (tag,) = tags
    expected = {"strings": list, "tuple": list, "slice": list, "dict": dict, "mesh": dict}.get(tag, str)
    if not isinstance(value[tag], expected):
        raise ModelFileError(f"the file holds no {tag} where there must be one; fit and save again.")
    return tag, value[tag]


def _taken(name: str, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """Take a tensor out of those of the file: each belongs to one place."""
    if name not in tensors:
        raise ModelFileError(f"the array {name[:80]!r} is missing in the file, or used twice; fit and save again.")
    return tensors.pop(name)


def _decode_object(name: str, state: Any, tensors: dict[str, torch.Tensor], level: int) -> Any:
    """Create an object of a known class without calling its constructor."""
    kind = _find_class(name)
    if kind is None:
        raise ModelFileError(
            f"the file holds a {name[:80]!r}, which this skop {__version__} does not know; known estimators are "
            f"{sorted(ESTIMATORS)}. Define or import its class first, or use the version of skop that wrote the file."
        )
    if not isinstance(state, dict):
        raise ModelFileError(f"the file holds a {name} without attributes; fit and save again.")
    value: Any = object.__new__(kind)
    hidden = sorted(key for key in state if _is_code(kind, key))
    if hidden:
        raise ModelFileError(f"the file holds {', '.join(hidden)[:80]} of {name}, which is code; fit and save again.")
    state = renamed(name, state)
    vars(value).update({key: _decode(item, tensors, level + 1) for key, item in state.items()})
    if kind.__module__.startswith("sklearn."):
        # Another version may have further parameters.
        usual = {
            name: part.default for name, part in signature(kind).parameters.items() if part.default is not part.empty
        }
        vars(value).update({name: default for name, default in usual.items() if name not in state})
    else:
        _complete(value)
    _check_parameters(value)
    check_loaded(value)
    # A FrozenEstimator has the attributes of the estimator in it.
    if "module_" in vars(value):
        _restore_module(value)
    return value


def _is_code(kind: type, name: str) -> bool:
    """Whether an attribute of a class is a method, a property or one of Python's own, which no file may replace."""
    held = getattr_static(kind, name, None)
    return name.startswith("__") or callable(held) or hasattr(type(held), "__get__") or hasattr(type(held), "__set__")


def _check_parameters(value: Any) -> None:
    """Raise an error if a parameter is one that the constructor and `fit` would refuse."""
    if type(value).__module__.startswith("skop.losses"):
        type(value)(**vars(value))
    # Estimators that are parameters themselves are checked when they are fitted.
    is_fitted = any(name.endswith("_") for name in vars(value))
    if isinstance(value, BaseEstimator) and (is_fitted or isinstance(value, Part | Pipeline)):
        value._validate_params()


def _complete(value: Any) -> None:
    """Set parts that are younger than the file to their defaults; raise an error about other missing or unknown ones.

    The default of a new part, and the behaviour without a new fitted attribute, must therefore be those of before.
    """
    kind, held = type(value), vars(value)
    if is_dataclass(kind):
        usual = {
            field.name: field.default if field.default_factory is MISSING else field.default_factory()
            for field in fields(kind)
        }
    else:
        made_by = signature(kind).parameters.values()
        usual = {part.name: MISSING if part.default is part.empty else part.default for part in made_by}
    if hasattr(kind, "_upgrade"):
        kind._upgrade(held)
    unknown = sorted(name for name in held if name not in usual and not name.endswith("_"))
    if unknown:
        raise ModelFileError(
            f"the file holds {kind.__name__} with {', '.join(unknown)}, which it does not have here; use the version "
            "of skop that wrote the file, or a later one."
        )
    missing = [name for name, default in usual.items() if name not in held and default is MISSING]
    if missing:
        raise ModelFileError(f"{', '.join(missing)} of {kind.__name__} is missing in the file; fit and save again.")
    held.update({name: default for name, default in usual.items() if name not in held})


def _restore_module(estimator: Any) -> None:
    """Build the network and load the weights."""
    missing = [name for name in _NEEDED if name not in vars(estimator)]
    if missing:
        raise ModelFileError(
            f"{', '.join(missing)} of {type(estimator).__name__} is missing in the file; fit and save again."
        )
    if not isinstance(estimator.network_parameters_, dict):
        raise ModelFileError("network_parameters_ in the file is no dictionary; fit and save again.")
    # Parameters that are younger than the file have their defaults, with which the network was made.
    estimator.network_parameters_ = estimator._network_parameters() | estimator.network_parameters_
    weights = estimator.module_
    if not isinstance(weights, dict) or not all(isinstance(held, torch.Tensor) for held in weights.values()):
        raise ModelFileError("the file holds no weights of the network; fit and save again.")
    whole = sum(held.numel() for held in weights.values())
    # Weights can be registered again, as shared ones; tables that are no weights are computed anew.
    bounds = {"weights": 2 * whole + _BESIDE_MODULES, "tables": 8 * whole + _BESIDE_NUMBERS}
    with _too_large_for_the_file(), bounded_building(**bounds, modules=20 * len(weights) + _BESIDE_MODULES):
        described = _described_network(estimator).state_dict()
        sizes = {name: ((real := _as_real(held)).dtype, real.shape) for name, held in described.items()}
    _compare_sizes(sizes, {name: (held.dtype, held.shape) for name, held in weights.items()})
    module = _described_network(estimator)
    fresh = module.state_dict()
    if name := _not_finite(fresh, weights):
        raise ModelFileError(f"the file's weights do not fit the network: {name} is not finite; fit and save again.")
    weights = {
        name: torch.view_as_complex(held) if fresh[name].is_complex() else held for name, held in weights.items()
    }
    module.load_state_dict(weights)
    changed = estimator._changed_since_fit()
    if changed:
        raise ModelFileError(
            f"parameters of the network differ between the file and the fit ({', '.join(changed)}); fit and save again."
        )
    try:
        estimator.device_ = pick_device(estimator.device)
    except ValueError:
        # A model fitted on a GPU must be usable where there is none.
        estimator.device_ = torch.device("cpu")
    estimator.module_ = module.to(estimator.device_).eval()


@contextmanager
def _too_large_for_the_file() -> Iterator[None]:
    """Turn the error about a network that is larger than its weights in the file into one about the file."""
    try:
        yield
    except NetworkTooLargeError as error:
        raise ModelFileError(
            f"the file's weights do not fit the network that it describes: {error}; fit and save again."
        ) from error


def _compare_sizes(described: dict[str, Any], found: dict[str, Any]) -> None:
    """Raise an error if the weights in a file are not those of the network that it describes."""
    for name in sorted(described.keys() | found.keys()):
        expected, held = (
            "none" if part is None else f"{part[0]} {tuple(part[1])}" for part in (described.get(name), found.get(name))
        )
        if expected != held:
            raise ModelFileError(
                f"the file's weights do not fit the network that it describes: {name} is {held}, and must be "
                f"{expected}; fit and save again."
            )


def _find_class(name: str) -> type | None:
    """Return the allowed class of this name, or None."""
    return KNOWN.get(name) or ESTIMATORS.get(name) or Part.known.get(name)


def _holds_scikit_learn(value: Any) -> bool:
    """Whether a header holds objects of scikit-learn."""
    if isinstance(value, dict):
        name = value.get("object", "")
        kind = KNOWN.get(name) if isinstance(name, str) else None
        return (kind is not None and kind.__module__.startswith("sklearn.")) or any(
            _holds_scikit_learn(item) for item in value.values()
        )
    return isinstance(value, list) and any(_holds_scikit_learn(item) for item in value)


@contextmanager
def _named_failures(words: str) -> Iterator[None]:
    """Turn every failure to read a file into an error that names the file."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{words}: {error}") from error
    except Exception as error:
        raise ModelFileError(
            f"{words}: an attribute of the fitted estimator is missing or invalid ({type(error).__name__}: {error})."
        ) from error
