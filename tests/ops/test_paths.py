"""Paths that are checked once, and tables of directions."""

import gc

import numpy as np
import pytest
import torch

from skop.ops import _paths, selective_scan
from skop.ops._paths import check_paths, directions_of_groups, path_table

CPU = torch.device("cpu")
CROSS = [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [3, 1, 2, 0]]


@pytest.fixture
def looks(monkeypatch):
    """Grows by one with each look at the numbers of a tensor of paths."""
    seen, original = [], _paths._expect_permutations
    monkeypatch.setattr(_paths, "_expect_permutations", lambda *given: seen.append(None) or original(*given))
    return seen


def check(paths):
    """Check paths as a scan on a CPU does."""
    return check_paths(paths, *paths.shape, CPU)


def test_paths_become_int32_and_a_copy():
    for dtype in [torch.int32, torch.int64]:
        paths = torch.tensor(CROSS, dtype=dtype)
        order = check(paths).order
        assert order.dtype == torch.int32
        assert order.tolist() == CROSS
        assert order.data_ptr() != paths.data_ptr()


def test_opposite_pairs():
    for rows, expected in [
        (CROSS, True),
        (CROSS[:2], True),
        (CROSS[:3], False),
        ([*CROSS[:2], CROSS[2], CROSS[2]], False),
        ([CROSS[0], CROSS[2], CROSS[1], CROSS[3]], False),
        ([[0]], False),
        ([[0], [0]], True),
    ]:
        assert check(torch.tensor(rows)).in_opposite_pairs is expected


def test_a_tensor_is_looked_at_once(looks):
    paths = torch.tensor(CROSS)
    first = check(paths)
    assert check(paths) is first
    assert len(looks) == 1
    check(paths.clone())
    assert len(looks) == 2


def test_a_tensor_that_was_written_to_is_looked_at_again(looks):
    paths = torch.tensor(CROSS)
    check(paths)
    paths[0] = torch.tensor([1, 0, 2, 3])
    changed = check(paths)
    assert len(looks) == 2
    assert changed.order[0].tolist() == [1, 0, 2, 3]
    assert not changed.in_opposite_pairs
    assert check(paths) is changed
    paths[0, 0] = 0
    with pytest.raises(ValueError, match=r"visits some tokens twice in rows \[0\]"):
        check(paths)
    with pytest.raises(ValueError, match="visits some tokens twice"):
        check(paths)
    paths[0, 0] = 1
    assert check(paths).order[0].tolist() == [1, 0, 2, 3]


def test_writing_through_a_view_counts(looks):
    paths = torch.tensor(CROSS)
    check(paths)
    paths[1:].copy_(paths[1:].roll(1, 0))
    assert check(paths).order.tolist() == [CROSS[0], CROSS[3], CROSS[1], CROSS[2]]


def test_writing_through_numpy_counts():
    rows = np.array(CROSS)
    paths = torch.from_numpy(rows)
    check(paths)
    rows[:] = rows[::-1].copy()
    assert check(paths).order.tolist() == CROSS[::-1]


def test_results_do_not_change_with_the_tensor_afterwards():
    paths = torch.tensor(CROSS)
    checked = check(paths)
    paths.zero_()
    assert checked.order.tolist() == CROSS


def test_what_is_known_goes_with_the_tensor():
    paths = torch.tensor(CROSS)
    before = len(_paths._known)
    check(paths)
    assert len(_paths._known) == before + 1
    del paths
    gc.collect()
    assert len(_paths._known) == before
    for length in range(1, 200):  # new tensors take the places of old ones
        rows = torch.randperm(length)[None]
        assert torch.equal(check(rows).order, rows.int())


def test_inference_tensors_are_looked_at_each_time_and_serve_training():
    with torch.inference_mode():
        paths = torch.tensor(CROSS)
        x, maps = torch.rand(1, 4, 2), torch.rand(1, 4, 4, 2)
        first = check(paths)
        paths[0] = torch.tensor([1, 0, 2, 3])  # which leaves no trace that could be asked for
        assert check(paths).order[0].tolist() == [1, 0, 2, 3]
    assert first.order.tolist() == CROSS
    assert not check(paths).order.is_inference()
    leaf = torch.ones(1, 4, 4, 2, requires_grad=True)
    y = selective_scan(x.clone(), leaf, -torch.ones(4, 2, 2), maps.clone(), maps.clone(), paths=paths)
    assert torch.autograd.grad(y.sum(), leaf)[0].isfinite().all()


def test_a_first_look_under_inference_mode_serves_training(looks):
    paths = torch.tensor(CROSS)
    with torch.inference_mode():
        checked = check(paths)
    assert not checked.order.is_inference()
    assert check(paths) is checked
    assert len(looks) == 1


def test_what_is_no_permutation_is_refused():
    for rows, message in [
        ([[0.0, 1.0]], r"paths has dtype torch.float32; expected torch.int64"),
        ([[True, False]], r"paths has dtype torch.bool; expected torch.int64"),
        ([[0, -1]], r"paths has values from -1 to 0; expected the positions 0 to 1"),
        ([[0, 2]], r"paths has values from 0 to 2; expected the positions 0 to 1"),
        ([[0, 1], [1, 1], [0, 0]], r"paths visits some tokens twice in rows \[1, 2\]; expected a permutation"),
    ]:
        with pytest.raises(ValueError, match=message):
            check(torch.tensor(rows))


def test_other_shapes_are_refused():
    for shape in [(4,), (), (2, 3), (1, 4), (4, 4, 1)]:
        with pytest.raises(ValueError, match=r"paths has shape .*; expected \(n_paths, length\) = \(4, 4\)"):
            check_paths(torch.zeros(shape, dtype=torch.int64), 4, 4, CPU)


def test_a_known_tensor_is_still_held_to_the_shape():
    paths = torch.tensor(CROSS)
    check(paths)
    with pytest.raises(ValueError, match="paths has shape"):
        check_paths(paths, 4, 5, CPU)


def test_another_device_gets_its_copy(looks):
    paths = torch.tensor(CROSS)
    check(paths)
    assert check_paths(paths, 4, 4, torch.device("meta")).order.device.type == "meta"
    assert check(paths).order.device == CPU
    assert len(looks) == 1


def test_directions():
    assert directions_of_groups(False, 2) == (False, False)
    assert directions_of_groups(True, 1) == (True,)
    assert directions_of_groups([True, False], 2) == (True, False)
    assert directions_of_groups((False,), 1) == (False,)
    for reverse in [(True,), (True, False, True), (), (1, 0), ("a", "b")]:
        with pytest.raises(ValueError, match=r"reverse is .*; expected a bool, or one for each of the 2 groups"):
            directions_of_groups(reverse, 2)


def test_tables_are_kept_and_serve_training_after_inference():
    path_table.cache_clear()
    with torch.inference_mode():
        table = path_table(5, (False, True), CPU)
    assert not table.is_inference()
    assert table.dtype == torch.int32
    assert table.tolist() == [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]]
    assert path_table(5, (False, True), CPU) is table
