"""Device, precision and randomness of a fit."""

import numpy as np
import pytest
import torch

from skop.estimators._runtime import isolated_randomness, pick_device, pick_dtype

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


@pytest.mark.parametrize("role", ["fields", "features", "parameters", "function"])
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
