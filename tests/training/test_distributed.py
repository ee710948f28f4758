"""Several processes that train together: the results of one process, the same decisions, and no process that waits."""

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from skop._draws import BatchRows, draw_for_rows, part_of_draws
from skop.data import Batch
from skop.training import join_group
from skop.training._parts import split_batch
from tests.training import distributed_cases

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses signals of POSIX")

SCRIPT = Path(distributed_cases.__file__)
#: As in `distributed_cases`: cases whose fits end with the weights of a single process; the second list takes longer.
EQUAL = ["on_points", "over_a_base", "interrupted"]
MORE = [
    "on_grids",
    "one_sample_in_a_batch",
    "with_symmetries",
    "steps_of_trajectories",
    "at_other_points",
    "going_back_once",
    "of_another_operator",
]
ERRORS = {
    "diverging": ("TrainingDivergedError", "TrainingDivergedError"),
    "of_other_data": ("rank 1 has another X or y", "rank 1 has another X or y"),
    "of_other_parameters": ("another learning_rate_init and random_state", "another learning_rate_init"),
    "failing_on_one": (
        "DistributedError: rank 1 of 2 has failed: FieldDataError",
        "FieldDataError: Input X contains NaN",
    ),
    "failing_in_a_step": ("with base 10: 'x'. This process ends the fit too.", "ValueError: invalid literal for int()"),
    "at_other_places": ("different places", "different places"),
}


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def environment(**further):
    """Without what an outer launcher may have set."""
    held = {
        name: value for name, value in os.environ.items() if name not in {"RANK", "LOCAL_RANK", "SKOP_RANK_PROCESS"}
    }
    return held | {"PYTHONPATH": str(SCRIPT.parents[2]), "OMP_NUM_THREADS": "1"} | further


#: A process that imports what all ranks need but skop, becomes each of them in a fork, and prints how they have ended.
START = """
import json, os, runpy, sys
import scipy.stats, sklearn.model_selection, torch
n_ranks, path = int(sys.argv[1]), sys.argv[2]
ranks = []
for rank in range(n_ranks):
    if not (process := os.fork()):
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        sys.argv = sys.argv[2:]
        runpy.run_path(path, run_name="__main__")
        sys.exit()
    ranks.append(process)
print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in ranks]))
"""


def run(folder, *cases, n_ranks=2, launched=True):
    """Start the processes, wait for them, and return their exit statuses."""
    folder.mkdir(exist_ok=True)
    together = {"WORLD_SIZE": str(n_ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    together = together if launched else {"WORLD_SIZE": str(n_ranks)}
    command = [sys.executable, "-W", "ignore", "-c", START, str(n_ranks), str(SCRIPT), str(folder), *cases]
    # A fused kernel takes seconds to be loaded in each process.
    together["SKOP_BACKEND"] = "torch"
    started = subprocess.Popen(
        command, env=environment(**together), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        return json.loads(started.communicate(timeout=240)[0].splitlines()[-1])
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()


def result(folder, case, rank):
    return pickle.loads((folder / f"{case}-{rank}.pkl").read_bytes())


def alone(case, folder):
    return getattr(distributed_cases, case)(folder)


def assert_equal(result, expected, *, tolerance=1e-8):
    assert "error" not in result, result["error"]
    assert result["ends"] == expected["ends"]
    for name in ("loss", "scores", "weights", "predicted"):
        assert len(result[name]) == len(expected[name])
        for own, other in zip(result[name], expected[name], strict=True):
            np.testing.assert_allclose(own, other, rtol=0, atol=tolerance, err_msg=name)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Results of two processes, the second of which is killed in the end."""
    folder = tmp_path_factory.mktemp("two")
    statuses = run(folder, *EQUAL, "for_some_time", *ERRORS, "killed")
    assert statuses == [0, -signal.SIGKILL]
    return folder


@pytest.fixture(scope="module")
def more(tmp_path_factory):
    """Further results of two processes."""
    folder = tmp_path_factory.mktemp("more")
    assert run(folder, *MORE, "without_a_seed", "each_by_itself", "chosen_by_the_clock") == [0, 0]
    return folder


def assert_as_one(folder, case):
    """Both processes have the results of one to rounding, and the same bits."""
    expected, found = alone(case, folder), [result(folder, case, rank) for rank in range(2)]
    assert_equal(found[0], expected)
    assert_equal(found[1], found[0], tolerance=0)


@pytest.mark.parametrize("case", EQUAL)
def test_two_processes_have_the_weights_of_one(two, case):
    assert_as_one(two, case)


def test_the_clock_of_one_process_decides(two):
    first, second = (result(two, "for_some_time", rank) for rank in range(2))
    assert_equal(first, second, tolerance=0)


def test_an_error_is_clear_on_each_process(two):
    for case in ERRORS:
        for rank, words in enumerate(ERRORS[case]):
            assert words in result(two, case, rank)["error"]


def test_a_process_that_is_killed_ends_the_others(two):
    assert "DistributedError: rank 0 of 2 cannot reach the other processes" in result(two, "killed", 0)["error"]
    assert not (two / "killed-1.pkl").exists()


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", MORE)
def test_two_processes_have_the_weights_of_one_in_other_fits(more, case):
    assert_as_one(more, case)


@pytest.mark.exhaustive
def test_processes_go_back_together(more):
    assert [result(more, "going_back_once", rank)["warned"] for rank in range(2)] == [1, 1]


@pytest.mark.exhaustive
def test_processes_without_a_seed_take_that_of_one(more):
    first, second = (result(more, "without_a_seed", rank) for rank in range(2))
    assert_equal(first, second, tolerance=0)


@pytest.mark.exhaustive
def test_processes_have_the_models_of_one_search(more):
    first, second = (result(more, "chosen_by_the_clock", rank) for rank in range(2))
    assert np.array_equal(first["predicted"], second["predicted"])
    assert first["seconds of fits"] == second["seconds of fits"]


@pytest.mark.exhaustive
def test_processes_fit_by_themselves_if_asked(more):
    curves = [result(more, "each_by_itself", rank)["curve"] for rank in range(2)]
    assert curves[0] != curves[1]


@pytest.mark.exhaustive
def test_three_processes_have_the_weights_of_one(tmp_path):
    cases = ["on_grids", "on_points", "one_sample_in_a_batch"]
    assert run(tmp_path, *cases, n_ranks=3) == [0, 0, 0]
    for case in cases:
        for rank in range(3):
            assert_equal(result(tmp_path, case, rank), alone(case, tmp_path))


@pytest.mark.exhaustive
def test_two_processes_go_on_from_a_checkpoint(tmp_path):
    expected = alone("with_checkpoints", tmp_path)
    folder = tmp_path / "two"
    # SIGTERM of one process ends both, whether or not the other was still there to take it as well.
    assert all(status == -signal.SIGTERM for status in run(folder, "terminated"))
    (fit,) = (folder / "kept").iterdir()
    assert [path.name for path in fit.glob("epoch-*")] == ["epoch-000003.checkpoint"]
    assert run(folder, "with_checkpoints") == [0, 0]
    for rank in range(2):
        assert_equal(result(folder, "with_checkpoints", rank), expected)
    assert [path.name for path in fit.glob("*.skop")] == ["model.skop"]
    # The fit has ended, so that it is loaded, here by one process.
    assert_equal(alone("with_checkpoints", folder), expected)


@pytest.mark.exhaustive
def test_torchrun_needs_no_change_to_a_script_and_workers_fit_alone(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    cases = ["on_grids", "searched", "searched_in_sequence"]
    subprocess.run([*command, str(SCRIPT), str(tmp_path), *cases], env=environment(), check=True, timeout=240)
    for case in cases:
        expected = alone(case, tmp_path)
        for rank in range(2):
            assert_equal(result(tmp_path, case, rank), expected)
            np.testing.assert_allclose(result(tmp_path, case, rank)["scores"], expected["scores"], atol=1e-8)


@pytest.mark.exhaustive
def test_a_process_group_of_the_user_is_used_and_kept(tmp_path):
    assert run(tmp_path, "with_a_group_of_the_user", launched=False) == [0, 0]
    expected = distributed_cases.found(
        distributed_cases.small().fit(distributed_cases.FIELDS, distributed_cases.SUMS), distributed_cases.FIELDS
    )
    for rank in range(2):
        assert_equal(result(tmp_path, "with_a_group_of_the_user", rank), expected)


def test_a_single_process_joins_no_group(monkeypatch):
    assert join_group().size == 1
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    # The process that was launched has another number: this one is a worker of it.
    monkeypatch.setenv("SKOP_RANK_PROCESS", "1")
    assert join_group().size == 1
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("n_parts", [1, 2])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_parts_of_a_batch_add_up_to_the_whole(n_ranks, n_parts, reduction):
    torch.manual_seed(0)
    sizes, weight = (2, 5, 3), torch.tensor([0.5, 2.0, 1.5])
    packed = torch.rand(10, 2)
    batch = Batch(packed, packed[:, :1], None, None, target=packed, sizes=sizes, weight=weight)
    sums = torch.stack([part.sum() for part in packed.split(sizes)])

    def loss(part):
        own = torch.stack([held.sum() for held in part.target.split(part.sizes)])
        total = (own * part.weight).sum()
        return total / part.weight.sum() if reduction == "mean" else total

    found = sum(
        share * loss(part)
        for rank in range(n_ranks)
        for part, share, _ in split_batch(batch, n_parts, reduction, rank=rank, n_ranks=n_ranks)
    )
    expected = (sums * weight).sum() / (weight.sum() if reduction == "mean" else 1)
    torch.testing.assert_close(found, expected)


def test_numbers_of_a_part_are_rows_of_those_of_the_whole():
    generator = torch.Generator().manual_seed(0)
    whole = torch.rand(9, 2, generator=generator)
    samples, points = BatchRows(slice(1, 3), 4), BatchRows(slice(2, 7), 9)
    with part_of_draws(samples, points):
        again = torch.Generator().manual_seed(0)
        drawn = draw_for_rows(lambda count: torch.rand(count, 2, generator=again), 5)
        assert draw_for_rows(torch.arange, 2).tolist() == [1, 2]
        assert draw_for_rows(torch.arange, 8).tolist() == list(range(8))
    assert torch.equal(drawn, whole[2:7])
