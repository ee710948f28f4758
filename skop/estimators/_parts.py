"""Predictions by parts of the samples: in the workers of joblib, and by the chunks of dask arrays.

Notation: n samples.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from skop._jobs import workers_for
from skop._optional import import_optional
from skop.data import FieldSet, find_sources, form_of, is_mesh_series, split_params, write_mesh
from skop.exceptions import FieldDataError, held_warnings, warn

__all__ = ["by_chunks", "naming_frames", "predict_in_parts"]

#: Number of parts, and of samples of a part, if the caller does not say.
_MOST_PARTS, _FEWEST_SAMPLES = 64, 16

Method = TypeVar("Method", bound=Callable[..., Any])


# ---------------------------------------------------------------------- workers of joblib
def predict_in_parts(
    estimator: Any,
    X: Any,
    *,
    coords: Any = None,
    params: Any = None,
    method: str = "predict",
    part_size: int | None = None,
    n_jobs: int | None = None,
    output: Any = None,
    **options: Any,
) -> Any:
    """Predict parts of the samples in parallel by joblib, in processes or on a cluster, and join the results.

    A call of `predict` itself uses threads of one process. Workers read the files of their part, predict them, and
    write the results if `output` is given, so that neither inputs nor predictions of all samples are in one memory.

    Parameters
    ----------
    estimator : fitted estimator
        Estimator of skop, or a Pipeline that ends in one.
    X : as in the `predict` of the estimator
        Inputs, except time series of meshes and dask arrays.
    coords, params : as in the `predict` of the estimator, default=None
        Points at which fields are predicted, for all samples or for each, and global parameters.
    method : str, default="predict"
        Name of the method that is called, such as ``"predict_interval"``.
    part_size : int or None, default=None
        Number of samples of a part, at least 1. None makes at most 64 parts, of at least 16 samples. The numbers of
        jobs and workers do not change the parts, so that results are the same, bit for bit, with any.
    n_jobs : int or None, default=None
        Number of workers, -1 for all processors. None means one, unless a ``joblib.parallel_config`` sets another.
    output : path-like, list of path-like or None, default=None
        Folder for predicted meshes, which the workers write as ``.vtu`` files with the names of the inputs; or the file
        of each sample. Existing files are overwritten, those of X never.
    **options
        Further arguments of the method, such as ``return_std=True``.

    Returns
    -------
    ndarray, list, FieldSet, (coords, fields), list of meshes, (meshes, scalars), DataFrame, Series, or list of Path
        Predictions of all samples in their order, in the form of the method, such as a tuple of several; the written
        files if `output` is given.

    Raises
    ------
    FieldDataError
        If X is a time series of meshes or a dask array, numbers of samples differ, `output` does not fit or there are
        scalars beside the meshes for it, there is no such method, or a part cannot be predicted; a ValueError.
    ValueError
        If `part_size` or `n_jobs` is no such number.

    Warns
    -----
    SkopWarning
        If parts warn: the first warning of each class. Samples are counted from the first one of the part.

    See Also
    --------
    EnsembleRegressor : Fits in parallel by `n_jobs`.

    Examples
    --------
    >>> import numpy as np, skop
    >>> X = np.random.default_rng(0).random((40, 2))
    >>> model = skop.PODRegressor().fit(X, X.sum(axis=1))
    >>> skop.predict_in_parts(model, X, part_size=10, n_jobs=1).shape
    (40,)
    """
    check_is_fitted(estimator)
    if not callable(getattr(estimator, method, None)):
        raise FieldDataError(f"method is {method!r}, which is no method of {type(estimator).__name__}.")
    X, count, params = _as_samples(X, params, getattr(estimator, "_is_of_series", False))
    if part_size is None:
        part_size = max(_FEWEST_SAMPLES, -(-count // _MOST_PARTS))
    elif isinstance(part_size, bool) or not isinstance(part_size, int | np.integer) or part_size < 1:
        raise ValueError(f"part_size must be an integer of at least 1, or None, got {part_size!r}.")
    files = None if output is None else _output_files(X, count, output)
    given = {"coords": coords, "params": params} | options
    call = _Call(estimator, method, {name: value for name, value in given.items() if value is not None})
    parts, form = list(gen_batches(count, int(part_size))), form_of(X)
    results = Parallel(n_jobs=workers_for(n_jobs, len(parts)))(
        delayed(call.run)(
            form.cut(X, part), _arguments(call.options, part, count), None if files is None else files[part]
        )
        for part in parts
    )
    _warn_of_parts([(part, held) for part, (_, held) in zip(parts, results, strict=True)])
    found = [result for result, _ in results]
    if files is not None:
        return files
    if isinstance(found[0], tuple) and _returns_several(method, options):
        joined = [_joined(list(each)) for each in zip(*found, strict=True)]
        return found[0]._make(joined) if hasattr(found[0], "_make") else tuple(joined)
    return _joined(found)


class _Call:
    """A method of an estimator for parts of the samples; it is sent to workers.

    Parameters
    ----------
    estimator : fitted estimator
        Estimator.
    method : str
        Name of its method.
    options : dict
        Arguments for all samples.
    """

    def __init__(self, estimator: Any, method: str, options: dict[str, Any]) -> None:
        self.estimator, self.method, self.options = estimator, method, options

    def __getstate__(self) -> dict[str, Any]:
        # The arguments for all samples may be large, and a part has its own.
        return {"estimator": self.estimator, "method": self.method, "options": {}}

    def run(
        self, X: Any, options: dict[str, Any], files: Sequence[Path] | None
    ) -> tuple[Any, list[tuple[str, type[Warning]]]]:
        """Predict a part, and write it if there are files; return the result and the warnings."""
        with held_warnings() as held:
            found = getattr(self.estimator, self.method)(X, **options)
            if files is None:
                return found, held
            meshes = found[0] if _returns_several(self.method, options) else found
            if not isinstance(meshes, list) or not all(hasattr(mesh, "write") for mesh in meshes):
                raise FieldDataError(
                    f"output is given, but the predictions are no list of meshes: they came as {type(meshes).__name__};"
                    " leave output out."
                )
            for mesh, file in zip(meshes, files, strict=True):
                file.parent.mkdir(parents=True, exist_ok=True)
                write_mesh(mesh, file)
        return None, held


def _returns_several(method: str, options: dict[str, Any]) -> bool:
    """Whether a tuple is several predictions, and not one that is (coords, fields) or (meshes, scalars)."""
    return method != "predict" or bool(options.get("return_std"))


def _as_samples(X: Any, params: Any, is_of_series: bool) -> tuple[Any, int, Any]:
    """X in a form of which parts can be taken, the number of its samples, and parameters in their order."""
    if _is_dask_array(X):
        raise FieldDataError(
            "X is a dask array, of which predict returns a dask array, computed by chunks; call estimator.predict(X)."
        )
    if is_of_series or is_mesh_series(X):
        raise FieldDataError(
            "X is time series of meshes, which belong together in runs; call predict, on some of the runs at a time."
        )
    # Other labels in params than in X are an error.
    X, params = form_of(X).listed(X, None if params is None else split_params(X, params)[1])
    count = form_of(X).count(X)
    if not count:
        raise FieldDataError("X has no samples, or parts of other lengths; at least one is required.")
    return X, count, params


def _axes(values: Any) -> int:
    """Number of axes of an array; 0 for a list."""
    return int(getattr(values, "ndim", 0))


def _arguments(options: dict[str, Any], part: slice, count: int) -> dict[str, Any]:
    """Arguments of a part: of those that may hold one entry for each sample, the entries of the part."""
    found = dict(options)
    if "sample_weight" in options:
        weight = np.asarray(options["sample_weight"])
        if weight.shape != (count,):
            raise FieldDataError(
                f"sample_weight has shape {weight.shape}, but X has {count} samples; pass one number for each."
            )
        found["sample_weight"] = weight[part]
    if "coords" in options:
        found["coords"] = _coords_of(options["coords"], part, count)
    if "params" in options:
        design = options["params"]
        if len(design.values) != count:
            raise FieldDataError(
                f"params has {len(design.values)} rows, but X has {count} samples; pass one row for each sample."
            )
        found["params"] = replace(design, values=design.values[part])
    return found


def _coords_of(coords: Any, part: slice, count: int) -> Any:
    """Points of a part of the samples; one set for all of them stays as it is."""
    if form_of(coords).on_meshes:
        meshes = [mesh for _, mesh in find_sources(coords)]
        own, coords = len(meshes) > 1, meshes
    elif isinstance(coords, FieldSet):
        own = not coords.shared_coords
    elif isinstance(coords, list):
        own = bool(coords) and np.ndim(coords[0]) == 2
    else:
        own = np.ndim(coords) == 3
    if own and len(coords) != count:
        raise FieldDataError(f"coords has {len(coords)} entries, but X has {count} samples; pass one for each, or one.")
    return coords[part] if own else coords


def _output_files(X: Any, count: int, output: Any) -> list[Path]:
    """Files of the predictions, each in a place of its own, and in none of the inputs."""
    labels = form_of(X).files(X)
    if isinstance(output, str | os.PathLike):
        if labels is None:
            raise FieldDataError(
                "output is a folder, but X is no files that could name those of the predictions; pass a list with the "
                "file of each sample."
            )
        files = [Path(output) / f"{Path(label).stem}.vtu" for label in labels]
    else:
        files = [Path(file) for file in output]
    if len(files) != count:
        raise FieldDataError(f"output has {len(files)} files for {count} samples; pass one for each.")
    name, times = Counter(files).most_common(1)[0]
    if times > 1:
        raise FieldDataError(
            f"{times} predictions would be written to {str(name)!r}; pass a list with another file for each sample."
        )
    taken = {Path(label).resolve() for label in labels or ()} & {file.resolve() for file in files}
    if taken:
        raise FieldDataError(
            f"the prediction would overwrite its input {str(min(taken))!r}; name another folder as output."
        )
    return files


def _joined(parts: list[Any]) -> Any:
    """Join predictions of parts, which have one form."""
    first = parts[0]
    if isinstance(first, list):
        return [sample for part in parts for sample in part]
    if isinstance(first, tuple):
        # Points, or meshes, and what belongs to them; points that all samples share come once.
        places, values = (list(each) for each in zip(*parts, strict=True))
        return first[0] if _axes(first[0]) == 2 else _joined(places), _joined(values)
    if hasattr(first, "iloc"):
        return import_optional("pandas", purpose="join tables").concat(parts)
    if any(isinstance(part, list) for part in parts):
        # An array, of samples with as many points, beside samples that differ in theirs.
        return [sample for part in parts for sample in part]
    if isinstance(first, np.ndarray) and len({part.shape[1:] for part in parts}) > 1:
        return [sample for part in parts for sample in part]
    return np.concatenate(parts)


def _warn_of_parts(parts: list[tuple[slice, list[tuple[str, type[Warning]]]]]) -> None:
    """Issue the first warning of each class, and say how many there were."""
    first: dict[type[Warning], tuple[slice, str]] = {}
    counts: Counter[type[Warning]] = Counter()
    for part, held in parts:
        for message, category in held:
            first.setdefault(category, (part, message))
            counts[category] += 1
    for category, (part, message) in first.items():
        more = f" ({counts[category] - 1} more of this class in parts of X)" if counts[category] > 1 else ""
        where = f"in samples {part.start} to {part.stop - 1} of X, counted from the first of them: "
        warn(f"{where if len(parts) > 1 else ''}{message}{more}", category)


# ---------------------------------------------------------------------- frames
#: Estimators that predict frames, by the argument of theirs that says which.
_OF_FRAMES = {"times": "TimeConditionedRegressor", "n_steps": "RolloutRegressor"}


def naming_frames(method: Method) -> Method:
    """Let a method without the argument `times` or `n_steps` say which estimator has it.

    Parameters
    ----------
    method : function
        Method of an estimator.

    Returns
    -------
    function
        Method that raises a FieldDataError in place of a TypeError.
    """
    known = inspect.signature(method).parameters

    @wraps(method)
    def named(self: Any, *arguments: Any, **options: Any) -> Any:
        for key, outer in _OF_FRAMES.items():
            if key not in options or key in known:
                continue
            name, asked = type(self).__name__, method.__name__
            others = [other for other in _OF_FRAMES if other in known]
            remedy = f"put {outer} around it: {outer}({name}(...)), of which {key} is an argument"
            if name in _OF_FRAMES.values():
                remedy = f"pass {others[0]}" if others else f"leave {key} out"
            bands = getattr(self, "predict_interval", None) if asked == "predict" else None
            if bands is not None and key in inspect.signature(bands).parameters and self._n_components:
                # Around this one, the estimator of frames would lose the bands.
                remedy = f"call predict_interval(X, {key}=...), whose first result is the prediction"
            raise FieldDataError(f"{asked} of {name} got {key}, of which it knows nothing; {remedy}.")
        return method(self, *arguments, **options)

    return named  # type: ignore[return-value]


# ---------------------------------------------------------------------- chunks of dask arrays
def by_chunks(method: Method) -> Method:
    """Let a method that predicts return lazy dask arrays, computed by chunks, if X is a dask array.

    Parameters
    ----------
    method : function
        Method with the arguments X, `coords`, `params` and others.

    Returns
    -------
    function
        Method that takes dask arrays too.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def predict(self: Any, X: Any, *arguments: Any, **options: Any) -> Any:
        if not _is_dask_array(X):
            return method(self, X, *arguments, **options)
        check_is_fitted(self)
        given = dict(signature.bind(self, X, *arguments, **options).arguments)
        del given["self"], given["X"]
        return _lazily(self, method.__name__, X, {name: value for name, value in given.items() if value is not None})

    return naming_frames(predict)  # type: ignore[return-value]


def _is_dask_array(X: Any) -> bool:
    """Tell whether X is a dask array, without importing dask."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(X, module.Array)


def _lazily(estimator: Any, method: str, X: Any, options: dict[str, Any]) -> Any:
    """Dask arrays of the results of a method, with the chunks of X along the samples."""
    dask = import_optional("dask", purpose="predict dask arrays")
    array = import_optional("dask.array", purpose="predict dask arrays")
    if X.ndim < 2:
        raise FieldDataError(f"X is a dask array of shape {X.shape}; expected samples along the first of several axes.")
    X = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    sizes = X.chunks[0]
    count = sum(sizes)
    if "params" in options:
        options = options | {"params": split_params(None, options["params"])[1]}
    if {"params", "coords", "sample_weight"} & set(options) and count != count:  # NaN
        raise FieldDataError(
            "X is a dask array of unknown chunk sizes, so that params, coords or sample_weight cannot be matched with "
            "its samples; call X.compute_chunk_sizes()."
        )
    ends = np.cumsum(sizes)
    parts = [
        slice(int(end - size), int(end)) if end == end else slice(None) for size, end in zip(sizes, ends, strict=True)
    ]
    arguments = [_arguments(options, part, count) for part in parts]
    # The kinds and shapes of the results are those of a single sample, which also finds what does not fit the model.
    with held_warnings():
        sample = np.zeros((1, *X.shape[1:]), dtype=X.dtype)
        example = getattr(estimator, method)(sample, **_arguments(options, slice(0, 1), count))
    kinds = example if isinstance(example, tuple) else (example,)
    if not all(isinstance(kind, np.ndarray) for kind in kinds):
        raise FieldDataError(
            f"X is a dask array, but predictions come as {type(kinds[0]).__name__}, as the y of the fit did, and not "
            "as arrays; fit with y as an array, or pass X.compute()."
        )
    # A copy, so that another fit before the results are computed does not change them.
    model = dask.delayed(deepcopy(estimator), traverse=False)
    predict = dask.delayed(_predict_chunk, pure=False)
    results: list[list[Any]] = [[] for _ in kinds]
    for block, size, given in zip(X.to_delayed().ravel(), sizes, arguments, strict=True):
        found = predict(model, method, block, dask.delayed(given, traverse=False), tuple(kind[:0] for kind in kinds))
        for number, kind in enumerate(kinds):
            results[number].append(array.from_delayed(found[number], (size, *kind.shape[1:]), kind.dtype))
    joined = tuple(array.concatenate(blocks, allow_unknown_chunksizes=True) for blocks in results)
    return joined if isinstance(example, tuple) else joined[0]


def _predict_chunk(model: Any, method: str, block: Any, options: dict[str, Any], empty: tuple[Any, ...]) -> Any:
    """Results of a chunk, in a tuple."""
    if not len(block):
        return empty
    found = getattr(model, method)(block, **options)
    return found if isinstance(found, tuple) else (found,)
