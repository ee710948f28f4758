"""Equal fits in processes that were started apart, and a process that is as it was after every call."""

import ctypes
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

import skop
from skop.parts import Patches

from .make_model_files import cases

#: Settings of processes: hash seed, seed of the global generators, threads, and whether a large fit is made.
PROCESSES = [("1", 1, 1, False), ("22", 2, 2, True)]


def seeded_cases():
    """Name, estimator, X and y of all estimators, each with one random state."""
    for name, model, X, y in cases(np.random.default_rng(0)):
        if "random_state" in model.get_params(deep=False):
            model.set_params(random_state=0)
        yield name, model, X, y


def digest_of(*values):
    """Checksum of predictions of any form."""
    found = hashlib.sha256()
    for value in values:
        parts = value.point_data.values() if hasattr(value, "point_data") else [value]
        for part in value.to_list() if isinstance(value, skop.FieldSet) else parts:
            found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()


def digest_of_fit(model, X, y):
    """Checksum of the predictions of a fitted model; those of meshes are in a list."""
    found = model.fit(X, y).predict(X)
    return digest_of(*found) if isinstance(found, list | tuple) else digest_of(found)


def large_digest():
    """Checksum of a fit whose layers have enough numbers for several threads."""
    X = np.random.default_rng(1).normal(size=(2, 128, 128, 1))
    model = skop.LaMORegressor(width=64, depth=1, patches=Patches(size=2), max_iter=1, batch_size=2, random_state=0)
    seen = set()
    model.fit(X, X)
    model.module_.register_forward_pre_hook(lambda *_: seen.add(torch.get_num_threads()))
    return digest_of(model.predict(X)), sorted(seen)


def print_digests(seed, threads, is_large):
    """Print the checksums of all fits, from a process whose generators have other seeds."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    found = {name: digest_of_fit(model, X, y) for name, model, X, y in seeded_cases()}
    print(json.dumps([found, *(large_digest() if is_large else (None, None))]))


@pytest.mark.exhaustive
def test_fits_in_processes_that_were_started_apart_are_equal():
    """Bit for bit, with one and two threads of torch, hash seeds and seeds of the global generators of their own."""
    running = []
    # The last bits of classical models depend on the threads of BLAS on some processors.
    blas_threads = next(str(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas")
    for hash_seed, seed, threads, is_large in PROCESSES:
        code = f"from estimators.test_determinism import print_digests; print_digests({seed}, {threads}, {is_large})"
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": str(threads)}
        environment["OPENBLAS_NUM_THREADS"] = blas_threads
        running.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                stdout=subprocess.PIPE,
                env=environment,
                cwd=Path(__file__).parents[1],
                text=True,
            )
        )
    printed = [process.communicate(timeout=250)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    (first, *_), (second, large, threads) = (json.loads(text) for text in printed)
    assert len(first) > 20
    assert [name for name in first if first[name] != second[name]] == []
    # So are those of this process, in a thread of its own.
    with ThreadPoolExecutor(1) as pool:
        here = {name: pool.submit(digest_of_fit, model, X, y).result() for name, model, X, y in seeded_cases()}
    assert [name for name in first if first[name] != here[name]] == []
    usual = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert [large, threads] == [*large_digest()]
    finally:
        torch.set_num_threads(usual)
    assert threads == [2]


# ---------------------------------------------------------------------- what belongs to the process
def in_new_thread(function):
    """What a function gives in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def environment_of_the_process():
    """Variables as libraries in C see them, those of the allocator among them."""
    if os.name != "posix":
        return dict(os.environ)
    entries, found = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ"), []
    while entries[len(found)] is not None:
        found.append(entries[len(found)])
    return sorted(found)


#: What a call may not change, by name.
STATE = {
    "NumPy's generator": lambda: str(np.random.get_state()),  # noqa: NPY002
    "NumPy's errors": np.geterr,
    "NumPy's printing": np.get_printoptions,
    "Python's generator": lambda: str(random.getstate()),
    "torch's generator": lambda: torch.get_rng_state().tolist(),
    "threads": torch.get_num_threads,
    "threads of a new thread": lambda: in_new_thread(torch.get_num_threads),
    "threads between operations": torch.get_num_interop_threads,
    "threads of Python": lambda: sorted(thread.name for thread in threading.enumerate()),
    "precision": torch.get_default_dtype,
    "device": torch.get_default_device,
    "precision of products": torch.get_float32_matmul_precision,
    "libraries": lambda: torch.backends.mkldnn.enabled,
    "memory that is filled": lambda: torch.utils.deterministic.fill_uninitialized_memory,
    "denormals": lambda: float(torch.tensor([1e-40]) * 1) > 0,
    "deterministic": torch.are_deterministic_algorithms_enabled,
    "gradients": lambda: (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")),
    "anomalies": torch.is_anomaly_enabled,
    "warnings": lambda: list(warnings.filters),
    "environment": lambda: (dict(os.environ), environment_of_the_process()),
    "streams": lambda: (id(sys.stdout), id(sys.stderr)),
    "recursion": sys.getrecursionlimit,
    "folder": os.getcwd,
    "signals": lambda: [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
}
#: Estimators of every kind that a run without the long tests looks at.
FEW = ("mno", "pod", "lamo_base", "ensemble", "rollout", "conformal")


def state():
    return {name: read() for name, read in STATE.items()}


def require_unchanged(before, call, what):
    found = state()
    changed = [name for name in before if found[name] != before[name]]
    assert not changed, f"{what}: {call} changed {changed}"


@pytest.mark.parametrize("names", [FEW, pytest.param(None, marks=pytest.mark.exhaustive)], ids=["few", "all"])
@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
def test_the_process_is_as_it_was_after_every_call(names, monkeypatch):
    last = skop.LaMORegressor(
        width=8, depth=1, max_iter=2, random_state=0, training=skop.TrainingOptions(deterministic=True)
    )
    grids = np.zeros((4, 6, 5, 1)), np.ones((4, 6, 5, 1))
    before = None
    for name, model, X, y in seeded_cases():
        if names is not None and name not in names:
            continue
        if before is None:
            # What the first use of a library sets for good is not a call's.
            model.fit(X, y).predict(X)
            last.fit(*grids)
            before = state()
        require_unchanged(before, "fit", (model.fit(X, y), name)[1])
        require_unchanged(before, "predict", (model.predict(X), name)[1])
        require_unchanged(before, "score", (model.score(X, y), name)[1])
        require_unchanged(before, "get_params", (model.get_params(), name)[1])
        for call in (lambda: model.fit(X, None), lambda: model.predict("no such file.vtu")):  # noqa: B023
            with pytest.raises(ValueError, match=r"y|match|exist|file"):
                call()
            require_unchanged(before, "a call that raises", name)
    for error in (MemoryError, KeyboardInterrupt):

        def fail(*_, error=error, **__):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(torch.nn.Module, "__call__", fail)
            with pytest.raises(error):
                last.fit(*grids)
        require_unchanged(before, "a fit that fails within a step", "LaMORegressor")


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
def test_predictions_from_many_threads_are_those_of_one_for_all_estimators():
    fitted = [(name, model.fit(X, y), X) for name, model, X, y in seeded_cases()]

    def predicted(entry):
        found = entry[1].predict(entry[2])
        return digest_of(*found) if isinstance(found, list | tuple) else digest_of(found)

    expected = [predicted(entry) for entry in fitted]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(predicted, fitted * 3))
    assert [
        fitted[number % len(fitted)][0] for number, one in enumerate(found) if one != expected[number % len(fitted)]
    ] == []
