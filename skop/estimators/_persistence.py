"""Save a fitted estimator to one file without pickle, and load it without running anything it holds.

The file is in safetensors format: weights and statistics as tensors, and one JSON header with the
class, parameters, kinds of data, history, versions and a checksum of everything.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import sklearn
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from skop import losses
from skop._typing import PathOrStr
from skop.data import BoxScaler, DataSpec, FieldScaler, ResampledSpec, Scalers
from skop.estimators._runtime import pick_device
from skop.exceptions import ModelFileError
from skop.losses import TrainingLoss

__all__ = ["read_model_file", "restore_estimator", "save_estimator"]

#: Raised when the layout changes; files of earlier formats stay readable.
_FORMAT = 1
_HISTORY = (
    "loss_curve_",
    "validation_scores_",
    "n_iter_",
    "best_iter_",
    "stopped_",
    "fit_seconds_",
    "backend_",
    "geometry_",
)


def save_estimator(estimator: Any, path: PathOrStr) -> None:
    """Write a fitted estimator to a file, replacing it in one step when complete.

    Parameters
    ----------
    estimator : BaseOperatorRegressor
        Fitted.
    path : path-like
        File to write.

    Raises
    ------
    ModelFileError
        If a parameter cannot be written as JSON, or was changed after the fit so that the weights no
        longer fit.
    """
    _check_still_fits(estimator)
    tensors = {f"module.{name}": tensor.cpu().contiguous() for name, tensor in estimator.module_.state_dict().items()}
    scalers = estimator.scalers_
    for name, scaler in vars(scalers).items():
        for statistic, array in vars(scaler).items() if scaler is not None else ():
            if isinstance(array, np.ndarray):
                tensors[f"scalers.{name}.{statistic}"] = torch.tensor(array)
    if estimator.coords_ is not None:
        tensors["coords"] = torch.tensor(np.ascontiguousarray(estimator.coords_))
    header = {
        "format": _FORMAT,
        "class": type(estimator).__name__,
        "params": {name: _encode(name, value) for name, value in estimator.get_params(deep=False).items()},
        "spec": estimator.spec_.to_dict(),
        "spacing": estimator.spacing_,
        "dtype": estimator.dtype_,
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": [str(name) for name in getattr(estimator, "feature_names_in_", [])],
        "scaler_modes": {name: scaler.mode for name, scaler in vars(scalers).items() if scaler is not None},
        "history": {name: getattr(estimator, name) for name in _HISTORY},
        "versions": {"skop": _version(), "torch": torch.__version__, "scikit-learn": sklearn.__version__},
    }
    text = json.dumps(header, sort_keys=True)
    metadata = {"skop": text, "sha256": _digest(text, tensors)}
    _write_in_one_step(Path(path), save_tensors(tensors, metadata))


def _check_still_fits(estimator: Any) -> None:
    """Raise if the parameters now describe another network than the one that was fitted."""
    with torch.random.fork_rng(devices=[]):
        described = estimator._build_network(estimator.spec_, estimator.geometry_).state_dict()
    fitted = estimator.module_.state_dict()
    if {name: held.shape for name, held in described.items()} != {name: held.shape for name, held in fitted.items()}:
        raise ModelFileError(
            "parameters of the network were changed after the fit, so the file could not be loaded again; fit again, "
            "or set them back, before saving."
        )


def _version() -> str:
    """The version of skop, asked for late because the package imports this module."""
    from skop import __version__

    return __version__


def _encode(name: str, value: Any) -> Any:
    """A parameter as JSON types."""
    # A loss of someone's own would not be found again, even if it is called like one of ours.
    if isinstance(value, TrainingLoss) and getattr(losses, type(value).__name__, None) is type(value):
        return {"loss": type(value).__name__, "params": asdict(cast(Any, value))}
    if isinstance(value, np.random.RandomState | np.random.Generator):
        # Its state has moved on with the fit; there is nothing that could be repeated with it.
        return None
    try:
        return json.loads(json.dumps(value, default=_plain))
    except TypeError as error:
        raise ModelFileError(
            f"parameter {name}={value!r} cannot be written to a model file; use a named loss or one of skop.losses, or "
            "joblib.dump for an estimator with Python objects."
        ) from error


def _plain(value: Any) -> Any:
    """Numbers of NumPy as JSON types."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON type")


def _digest(text: str, tensors: dict[str, torch.Tensor]) -> str:
    """Checksum of the header and of every tensor with its name, type and shape."""
    total = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def _write_in_one_step(path: Path, content: bytes) -> None:
    """Write beside the target, flush to disk, and rename: a crash leaves the old file or the new one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; give this one the mode that a plain open would have.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_model_file(path: PathOrStr) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Read and check a model file.

    Parameters
    ----------
    path : path-like
        File that `save_estimator` wrote.

    Returns
    -------
    tuple of (dict, dict of Tensor)
        Header and tensors.

    Raises
    ------
    ModelFileError
        If the file is no model file, damaged, or of a later format.
    FileNotFoundError
        If there is no such file.
    """
    content = Path(path).read_bytes()
    try:
        tensors = load_tensors(content)
        size = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + size])["__metadata__"]
        text, expected = metadata["skop"], metadata["sha256"]
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelFileError(
            f"{path} is no skop model file or is damaged ({type(error).__name__}: {error}); save it again with "
            "est.save(path)."
        ) from error
    if _digest(text, tensors) != expected:
        raise ModelFileError(f"{path} is damaged: its checksum does not match its content; take a fresh copy.")
    header = json.loads(text)
    if header["format"] > _FORMAT:
        raise ModelFileError(
            f"{path} has format {header['format']}, written by skop {header['versions']['skop']}; this skop "
            f"{_version()} reads up to format {_FORMAT}. Upgrade skop."
        )
    return header, tensors


def restore_estimator(
    header: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    estimators: Mapping[str, type],
    known_losses: Mapping[str, Callable[..., Any]],
) -> Any:
    """Build the fitted estimator of a model file.

    Parameters
    ----------
    header, tensors
        As `read_model_file` gives them.
    estimators, known_losses : dict
        Classes that a file may name; nothing else is ever looked up.

    Returns
    -------
    BaseOperatorRegressor
        Fitted, on the CPU unless its `device` parameter finds another.

    Raises
    ------
    ModelFileError
        If the file names an unknown class or parameter, or its weights do not fit the network.
    """
    if header["class"] not in estimators:
        raise ModelFileError(
            f"the file holds a {header['class']!r}, which this skop {_version()} does not know (file of skop "
            f"{header['versions']['skop']}); known are {sorted(estimators)}."
        )
    try:
        estimator = estimators[header["class"]](
            **{name: _decode(value, known_losses) for name, value in header["params"].items()}
        )
    except (TypeError, KeyError) as error:
        raise ModelFileError(
            f"the file's parameters do not fit this version of {header['class']} ({error}); it was written by skop "
            f"{header['versions']['skop']}."
        ) from error
    try:
        _restore_data(estimator, header, tensors)
    except (AttributeError, KeyError, TypeError) as error:
        raise ModelFileError(f"the file lacks what a fitted {header['class']} needs ({error!r}).") from error
    _restore_module(estimator, tensors)
    return estimator


def _restore_data(estimator: Any, header: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    """Set what the estimator knows of the data and of its training."""
    kind = ResampledSpec if "resampler" in header["spec"] else DataSpec
    estimator.spec_ = kind.from_dict(header["spec"])
    estimator.spacing_ = None if header["spacing"] is None else tuple(header["spacing"])
    estimator.dtype_, estimator.n_features_in_ = header["dtype"], header["n_features_in"]
    if header["feature_names_in"]:
        estimator.feature_names_in_ = np.asarray(header["feature_names_in"], dtype=object)
    for name, value in header["history"].items():
        setattr(estimator, name, value)
    estimator.coords_ = tensors["coords"].numpy() if "coords" in tensors else None
    estimator.scalers_ = _restore_scalers(header["scaler_modes"], tensors)


def _decode(value: Any, known_losses: Mapping[str, Callable[..., Any]]) -> Any:
    """A parameter from its JSON form."""
    if isinstance(value, dict) and set(value) == {"loss", "params"}:
        return known_losses[value["loss"]](**value["params"])
    return value


def _restore_scalers(modes: dict[str, str | None], tensors: dict[str, torch.Tensor]) -> Scalers:
    """The scalers from their statistics."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for key, tensor in tensors.items():
        if key.startswith("scalers."):
            _, name, statistic = key.split(".")
            found.setdefault(name, {})[statistic] = tensor.numpy()
    scalers: dict[str, Any] = {"coords": BoxScaler(), "fields": None, "params": None, "target": None}
    for name, statistics in found.items():
        scaler: Any = BoxScaler(modes[name]) if name == "coords" else FieldScaler(modes[name])
        vars(scaler).update(statistics)
        scalers[name] = scaler
    if scalers["target"] is None:
        raise KeyError("scalers.target")
    return Scalers(**scalers)


def _restore_module(estimator: Any, tensors: dict[str, torch.Tensor]) -> None:
    """Build the network without disturbing anyone's random numbers, and put the weights in."""
    with torch.random.fork_rng(devices=[]):
        network = estimator._build_network(estimator.spec_, estimator.geometry_)
        module = network.to(getattr(torch, estimator.dtype_))
    weights = {name.removeprefix("module."): tensor for name, tensor in tensors.items() if name.startswith("module.")}
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise ModelFileError(f"the file's weights do not fit the network that it describes: {error}") from error
    try:
        estimator.device_ = pick_device(estimator.device)
    except ValueError:
        # A model fitted on a GPU must be usable where there is none.
        estimator.device_ = torch.device("cpu")
    estimator.module_ = module.to(estimator.device_).eval()
