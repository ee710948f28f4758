"""Device, precision and randomness of a fit."""

import os
import platform
import random
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
import torch

import skop
from skop import LaMORegressor
from skop.estimators.fitting._callbacks import EpochCallbacks
from skop.training import _runtime
from skop.training._runtime import give_way, isolated_randomness, pick_device, pick_dtype, thread_limit

CPU = torch.device("cpu")


def test_named_devices():
    assert pick_device("cpu") == CPU
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ValueError, match="'abacus' is unknown to torch; use 'auto', 'cpu' or 'cuda'"):
        pick_device("abacus")


def test_auto_takes_cuda_where_there_is_one_and_cuda_without_one_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device("auto").type == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto") == CPU
    with pytest.raises(ValueError, match=r"'cuda:0' was asked for.*no CUDA device.*device='auto'"):
        pick_device("cuda:0")


@pytest.mark.parametrize("role", ["fields", "features", "parameters"])
def test_precision_follows_the_name_and_otherwise_the_role(role):
    assert pick_dtype("float32", role) == "float32"
    assert pick_dtype("float64", role) == "float64"
    assert pick_dtype("auto", role) == ("float64" if role == "features" else "float32")


def test_randomness_inside_follows_the_generator_and_outside_is_untouched():
    def draw():
        return torch.rand(3).tolist()

    torch.manual_seed(7)
    before = draw()
    inside = []
    for _ in range(2):
        rng = np.random.RandomState(0)
        for _ in range(2):
            with isolated_randomness(rng, CPU, False):
                inside.append(draw())
    assert inside[:2] == inside[2:]
    assert inside[0] != inside[1]
    torch.manual_seed(7)
    assert draw() == before
    state = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), isolated_randomness(np.random.RandomState(0), CPU, False):
        torch.rand(1).item() / 0
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("before", [(False, False), (True, False), (True, True)])
def test_deterministic_algorithms_hold_within_the_block_only(before):
    enabled, warn_only = before
    torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
    try:
        with isolated_randomness(np.random.RandomState(0), CPU, True):
            assert torch.are_deterministic_algorithms_enabled()
            assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.are_deterministic_algorithms_enabled() is enabled
        assert torch.is_deterministic_algorithms_warn_only_enabled() is warn_only
    finally:
        torch.use_deterministic_algorithms(False)


# ---------------------------------------------------------------- threads
@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_threads_follow_the_size_up_to_the_users_number(four_threads):
    for n_points, expected in [(1, 1), (2**14 - 1, 1), (2**14, 2), (3 * 2**13, 3), (2**20, 4)]:
        with thread_limit(n_points, 64) as n_threads:
            assert n_threads == torch.get_num_threads() == expected
        assert torch.get_num_threads() == 4


def test_a_users_single_thread_stays_single(four_threads):
    torch.set_num_threads(1)
    with thread_limit(2**20, 64):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 1


def test_limits_nest_and_end_with_errors(four_threads):
    def fails():
        with thread_limit(1, 1):
            with thread_limit(2**20, 64):
                assert torch.get_num_threads() == 4
            assert torch.get_num_threads() == 1
            raise RuntimeError("within")

    with pytest.raises(RuntimeError, match="within"):
        fails()
    assert torch.get_num_threads() == 4


def test_threads_of_python_do_not_take_a_limit_for_the_users_number(four_threads):
    inside, leave, seen = threading.Event(), threading.Event(), []

    def first():
        with thread_limit(1, 1):
            inside.set()
            leave.wait()

    def second():
        inside.wait()
        with thread_limit(2**20, 64) as n_threads:
            seen.append(n_threads)
        seen.append(torch.get_num_threads())
        leave.set()

    running = [threading.Thread(target=part) for part in (first, second)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    late = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    late.start()
    late.join()
    assert seen == [4, 4, 4]


def in_new_thread(function, *arguments):
    """What a function gives in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


def test_limits_leave_other_threads_alone(four_threads):
    inside, leave = threading.Event(), threading.Event()

    def limited():
        with thread_limit(1, 1) as n_threads:
            inside.set()
            leave.wait()
        return n_threads, torch.get_num_threads()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(limited)
        inside.wait()
        assert in_new_thread(torch.get_num_threads) == 4
        torch.set_num_threads(3)
        leave.set()
        assert running.result() == (1, 4)
    assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == 3


def test_a_number_that_is_set_within_a_limit_stays(four_threads):
    with thread_limit(1, 1):
        torch.set_num_threads(3)
    assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == 3


def test_a_fit_and_a_prediction_use_threads_by_size(four_threads):
    X = np.random.default_rng(0).normal(size=(6, 16, 16, 1))
    model = LaMORegressor(width=8, depth=1, max_iter=1, warm_start=True, random_state=0).fit(X, X)
    seen = []
    model.module_.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    model.fit(X, X)
    model.predict(X)
    assert set(seen) == {1}
    assert torch.get_num_threads() == 4


# ---------------------------------------------------------------- fits in several threads
X = np.random.default_rng(0).normal(size=(6, 6, 5, 2))


def dropping(seed, **params):
    model = LaMORegressor(width=8, depth=1, max_iter=4, batch_size=2, dropout=0.2, random_state=seed, **params)
    return model.fit(X, X[..., :1])


def test_predictions_are_those_of_evaluation_and_leave_the_modes_of_all_modules():
    model = dropping(0)
    expected, mixed = model.predict(X), list(model.module_.modules())[1:]
    for module in mixed:
        module.training = True
    np.testing.assert_array_equal(model.predict(X), expected)
    assert [module for module in model.module_.modules() if module.training] == mixed


def test_a_network_of_another_precision_is_named():
    model = dropping(0)
    expected = model.predict(X)
    model.module_.double()
    with pytest.raises(ValueError, match=r"is torch\.float64, but the fit was in torch\.float32; .*float\(\)"):
        model.predict(X)
    model.module_.float()
    np.testing.assert_array_equal(model.predict(X), expected)


def test_fits_in_threads_are_those_one_after_the_other(tmp_path):
    expected = [dropping(seed).predict(X) for seed in range(4)]
    state = torch.get_rng_state()

    def fit_and_load(seed):
        model = dropping(seed)
        model.save(tmp_path / f"{seed}.skop")
        return skop.load(tmp_path / f"{seed}.skop").predict(X)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fit_and_load, range(4)))
    np.testing.assert_array_equal(found, expected)
    assert torch.equal(torch.get_rng_state(), state)


def test_blocks_in_threads_take_turns_in_the_order_in_which_they_came():
    order, state = [], torch.get_rng_state()
    started = [threading.Event() for _ in range(3)]

    def run(number):
        started[number].set()
        with isolated_randomness(np.random.RandomState(number), CPU, number == 1):
            for _ in range(2):
                order.append((number, torch.rand(1).item(), torch.are_deterministic_algorithms_enabled()))
                with give_way():
                    assert not torch.are_deterministic_algorithms_enabled()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    with isolated_randomness(np.random.RandomState(9), CPU, False):
        for thread, event in zip(threads, started, strict=True):
            thread.start()
            event.wait()
            while len(_runtime._turns.waiting) < threads.index(thread) + 1:
                pass
        with isolated_randomness(np.random.RandomState(8), CPU, False), give_way():
            assert not order
        with give_way():
            for thread in threads:
                thread.join()
    assert [number for number, *_ in order] == [0, 1, 2, 0, 1, 2]
    assert [flag for *_, flag in order] == [False, True, False] * 2
    for number in range(3):
        generator = torch.Generator().manual_seed(int(np.random.RandomState(number).randint(2**31)))
        expected = [torch.rand(1, generator=generator).item() for _ in range(2)]
        assert [drawn for owner, drawn, _ in order if owner == number] == expected
    assert torch.equal(torch.get_rng_state(), state)


def test_what_is_drawn_while_giving_way_is_the_users():
    torch.manual_seed(7)
    expected = torch.rand(2).tolist()
    torch.manual_seed(7)
    with isolated_randomness(np.random.RandomState(0), CPU, False):
        first = torch.rand(1).item()
        with give_way():
            drawn = torch.rand(1).item()
        second = torch.rand(1).item()
    assert [drawn, torch.rand(1).item()] == expected
    with isolated_randomness(np.random.RandomState(0), CPU, False):
        assert torch.rand(2).tolist() == pytest.approx([first, second], abs=0)


def test_a_callback_may_wait_for_fits_in_other_threads():
    found = []

    def report(history, progress):
        found.append(in_new_thread(lambda: dropping(1).predict(X)))
        return False

    callbacks = EpochCallbacks(dropping(0))
    callbacks._end_epoch = report
    with isolated_randomness(np.random.RandomState(0), CPU, False):
        callbacks.told(SimpleNamespace(history=None, progress=0.5))
    np.testing.assert_array_equal(found[0], dropping(1).predict(X))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_the_turns_of_its_parent():
    held, leave = threading.Event(), threading.Event()

    def hold():
        with isolated_randomness(np.random.RandomState(0), CPU, False):
            held.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        with isolated_randomness(np.random.RandomState(0), CPU, False):
            os._exit(0)
    leave.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_computes_where_its_parent_had_several_threads(four_threads):
    torch.set_num_threads(2)
    large = np.random.default_rng(0).normal(size=(2, 48, 48, 1))
    model = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(large, large)
    expected = model.predict(large)
    torch.randn(1024, 1024).sin()  # starts torch's threads
    with thread_limit(2**20, 64):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            torch.randn(1024, 1024).sin()
            with thread_limit(2**20, 64) as n_threads:
                found = model.predict(large)
            os._exit(0 if np.array_equal(found, expected) and n_threads == torch.get_num_threads() == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.get_num_threads() == 2


STATE = {
    "NumPy": lambda: str(np.random.get_state()),  # noqa: NPY002
    "Python": lambda: str(random.getstate()),
    "torch": lambda: torch.get_rng_state().tolist(),
    "threads": torch.get_num_threads,
    "threads of a new thread": lambda: in_new_thread(torch.get_num_threads),
    "threads between operations": torch.get_num_interop_threads,
    "precision": torch.get_default_dtype,
    "deterministic": torch.are_deterministic_algorithms_enabled,
    "gradients": torch.is_grad_enabled,
    "NumPy's errors": np.geterr,
    "warnings": lambda: list(warnings.filters),
    "environment": lambda: dict(os.environ),
    "streams": lambda: (id(sys.stdout), id(sys.stderr)),
    "signals": lambda: [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
}


def test_global_state_is_as_it_was_after_every_call(tmp_path):
    def state():
        return {name: read() for name, read in STATE.items()}

    def unchanged(call):
        before = state()
        result = call()
        assert state() == before
        return result

    training = skop.TrainingOptions(deterministic=True)
    model = unchanged(lambda: dropping(0, training=training))
    unchanged(lambda: model.predict(X))
    unchanged(lambda: model.score(X, X[..., :1]))
    unchanged(lambda: model.save(tmp_path / "model.skop"))
    unchanged(lambda: skop.load(tmp_path / "model.skop"))

    def fail():
        with pytest.raises(ValueError, match=r"finite|NaN"):
            model.fit(X, np.full_like(X, np.nan))

    unchanged(fail)


def test_global_seeds_and_torchs_number_of_threads_do_not_matter():
    """Of threads, for small problems, which are computed with one."""
    before, expected = torch.get_num_threads(), dropping(3).predict(X)
    try:
        for seed in (1, 2):
            torch.set_num_threads(seed)
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
            np.testing.assert_array_equal(dropping(3).predict(X), expected)
    finally:
        torch.set_num_threads(before)


def test_predictions_from_many_threads_are_those_of_one():
    models = [dropping(0), dropping(1)]
    expected = [model.predict(X) for model in models]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: models[number % 2].predict(X), range(16)))
    for number, values in enumerate(found):
        np.testing.assert_array_equal(values, expected[number % 2])


@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_ensembles_are_the_same_in_workers_of_every_kind(backend):
    def predict(n_jobs):
        member = LaMORegressor(width=8, depth=1, max_iter=2, dropout=0.2)
        return skop.EnsembleRegressor(member, n_members=3, n_jobs=n_jobs, random_state=0).fit(X, X).predict(X)

    expected = predict(1)
    with joblib.parallel_config(backend=backend):
        np.testing.assert_array_equal(predict(2), expected)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have rules of their own")
def test_pages_that_a_step_frees_are_kept_for_the_next():
    program = """
import os, resource, torch
from skop.training._memory import keep_freed_memory
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    [torch.ones(2**20) for _ in range(4)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
if child := os.fork():
    os.waitpid(child, 0)
    keep_freed_memory()
print(sum([faults() for _ in range(6)][3:]))
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    run = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    without, kept = map(int, run.stdout.split())
    if without * os.sysconf("SC_PAGE_SIZE") < 2**22:
        pytest.skip("this allocator keeps them by itself")
    assert kept <= 0.1 * without
