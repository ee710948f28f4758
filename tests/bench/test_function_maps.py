"""The measurement on maps of functions: the maps are what they are called, and our slices learn one of them."""

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks._function_maps import make_map
from benchmarks._report import read_report


def test_reversed():
    u, v = make_map("reversed", 3, 16, 0)
    assert u.shape == v.shape == (3, 16, 1)
    np.testing.assert_array_equal(u[:, ::-1], v)


@pytest.mark.parametrize(("kind", "order"), [("antiderivative", 2), ("integral", 2)])
def test_integrals_converge_with_the_order_of_the_trapezoidal_rule(kind, order):
    coarse, middle, fine = (make_map(kind, 2, 2**level + 1, 1)[1][:, :: 2 ** (level - 4)] for level in (4, 5, 10))
    errors = [np.abs(part - fine).max() for part in (coarse, middle)]
    assert errors[0] / errors[1] == pytest.approx(2**order, rel=0.2)


def test_antiderivative_of_a_cosine():
    u, v = make_map("antiderivative", 4, 2001, 2)
    x = np.linspace(0, 1, 2001)
    weights = np.linalg.lstsq(np.cos(np.pi * np.arange(6)[:, None] * x).T, u[..., 0].T, rcond=None)[0]
    primitives = np.stack([x, *(np.sin(np.pi * k * x) / (np.pi * k) for k in range(1, 6))])
    np.testing.assert_allclose(v[..., 0], weights.T @ primitives, atol=1e-5)


@pytest.mark.exhaustive
def test_our_slices_learn_where_the_published_ones_stall(tmp_path):
    output = tmp_path / "maps.md"
    words = ["--points", "16", "--train", "128", "--test", "32", "--epochs", "6", "--maps", "reversed"]
    assert main(["function-maps", *words, "--output", str(output)]) == 0
    published, ours, _ = np.asarray(read_report(output)[0]["16 points"]["errors"])[:, 0, 0]
    assert ours < 0.5 * published
