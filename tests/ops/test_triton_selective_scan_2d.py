"""The Triton kernels of the 2-D scan against the recurrence: in Triton's interpreter, and on a GPU where there is one.

Whether Triton interprets is settled when it is imported, so the interpreted tests run in a process of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from skop.ops._selective import Arguments
from skop.ops.selective_scan_2d._naive import selective_scan_2d_naive

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
NAMES = ("x", "dt", "A", "B", "C", "D", "dt_bias", "R")
OPTIONAL = NAMES[5:]
ALL_DIRECTIONS = tuple((a * first, b * (3 - first)) for first in (1, 2) for a in (1, -1) for b in (1, -1))


@pytest.mark.exhaustive
def test_in_the_interpreter():
    pytest.importorskip("triton")
    if INTERPRETED:
        return
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-m", "not gpu", __file__]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    root = Path(__file__).parents[2]
    result = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]


def make(
    height,
    width,
    *,
    batch=1,
    directions=1,
    channels=1,
    d_state=1,
    given=OPTIONAL,
    dtype=torch.float64,
    device="cpu",
):
    """Random arguments of a scan, by name. Steps are meant for a softplus."""
    generator = torch.Generator().manual_seed(height * width)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    values = {
        "x": normal(batch, height, width, 1, channels),
        "dt": normal(batch, height, width, directions, channels) - 1,
        "A": -0.1 - normal(directions, channels, d_state).abs(),
        "B": normal(batch, height, width, directions, d_state),
        "C": normal(batch, height, width, directions, d_state),
        "D": normal(directions, channels),
        "dt_bias": normal(directions, channels),
        "R": normal(directions, channels, d_state),
    }
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    types = dict.fromkeys(NAMES, wide) | dict.fromkeys("xBC", dtype)
    return {k: v.to(device, types[k]) if k not in OPTIONAL or k in given else None for k, v in values.items()}


def run(values, directions, softplus=True):
    """Outputs and gradients of the kernels, for a random cotangent; and the cotangent."""
    from skop.ops.selective_scan_2d import _triton

    given = Arguments(**values, initial_state=None, order=directions, softplus=softplus)
    y, _, checkpoints = _triton.forward(given, True)
    cotangent = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y)
    *grads, grad_start = _triton.backward(given, checkpoints, cotangent, None)
    assert grad_start is None
    return y, grads, cotangent


def errors(values, directions, softplus=True):
    """Relative error of the outputs and of every gradient, against float64; dtypes and shapes must fit, too."""
    y, grads, cotangent = run(values, directions, softplus)
    exact = {k: None if v is None else v.double().requires_grad_() for k, v in values.items()}
    expected, _ = selective_scan_2d_naive(Arguments(*exact.values(), None, directions, softplus))
    leaves = [leaf for leaf in exact.values() if leaf is not None]
    remaining = iter(torch.autograd.grad(expected, leaves, cotangent.double()))
    found = {"y": relative(y, expected)}
    for name, grad in zip(NAMES, grads, strict=True):
        assert (grad is None) == (values[name] is None)
        if grad is not None:
            assert grad.dtype == values[name].dtype
            assert grad.shape == values[name].shape
            found[name] = relative(grad, next(remaining))
    assert y.dtype == values["x"].dtype
    return found


def relative(value, expected):
    """Relative error in the mean square; of nothing expected, the value itself."""
    return ((value.double() - expected).norm() / expected.norm().clamp_min(1e-300)).item()


class TestInterpreted:
    """Tiny grids, one number after the other."""

    __test__ = INTERPRETED

    @pytest.fixture(autouse=True)
    def _small_tiles(self, monkeypatch):
        """Several tiles in a tiny grid."""
        from skop.ops.selective_scan_2d import _triton

        monkeypatch.setattr(_triton, "_TILE", 4)

    def test_quick(self):
        assert max(errors(make(5, 3), ((2, -1),)).values()) < 1e-12

    @pytest.mark.parametrize("direction", ALL_DIRECTIONS)
    def test_each_direction(self, direction):
        assert max(errors(make(5, 6), (direction,)).values()) < 1e-12

    @pytest.mark.parametrize(
        ("height", "width", "softplus", "options"),
        [
            (1, 1, True, {}),
            (1, 10, False, {"given": ("R",)}),
            (10, 1, True, {"given": ("D",)}),
            (4, 8, False, {"given": (), "batch": 2}),
            (3, 3, True, {"channels": 17, "given": ("dt_bias",)}),
            (6, 5, False, {"d_state": 2, "given": ("D", "R")}),
            (5, 3, True, {"channels": 3, "d_state": 2, "given": ("D", "dt_bias")}),
        ],
    )
    def test_other_shapes_and_options(self, height, width, softplus, options):
        values = make(height, width, directions=2, **options)
        if not softplus:
            values["dt"] = values["dt"].abs()
        assert max(errors(values, ((2, 1), (-1, -2)), softplus).values()) < 1e-12

    def test_four_directions_and_other_tiles(self, monkeypatch):
        from skop.ops.selective_scan_2d import _triton

        values = make(3, 5, directions=4)
        directions = ((2, 1), (1, 2), (-2, -1), (-1, -2))
        assert max(errors(values, directions).values()) < 1e-12
        small = run(values, directions)
        monkeypatch.setattr(_triton, "_TILE", 8)
        torch.testing.assert_close(run(values, directions), small)

    @pytest.mark.parametrize("decay", [0.0, 1e-3, 6.0, 50.0])
    def test_float32_error_does_not_depend_on_the_decay(self, decay):
        values = make(5, 4, given=("D",), dtype=torch.float32)
        values["dt"] = torch.full_like(values["dt"], decay)
        values["A"] = torch.full_like(values["A"], -1.0)
        found = errors(values, ((2, 1),), softplus=False)
        assert max(found.values()) < 2e-6, found

    @pytest.mark.parametrize("decay", [1.0, 6.0, 12.0])
    def test_what_is_left_without_the_own_cell_keeps_its_digits(self, decay):
        values = make(5, 4, given=("R",), dtype=torch.float32)
        values["dt"] = torch.full_like(values["dt"], decay)
        values["A"] = torch.full_like(values["A"], -1.0)
        values["R"] = torch.ones_like(values["R"])
        found = errors(values, ((-1, 2),), softplus=False)
        assert max(found.values()) < 2e-6, found

    def test_steps_of_zero_keep_nothing_out(self):
        values = make(5, 4, given=("D",))
        values["dt"].zero_()
        y, _, _ = run(values, ((2, 1),), softplus=False)
        torch.testing.assert_close(y, values["D"][0] * values["x"])

    @pytest.mark.parametrize("name", NAMES)
    def test_nan_is_not_lost(self, name):
        values = make(5, 3)
        target = values[name][:, 2, 1] if name in ("x", "dt", "B", "C") else values[name]
        target.view(-1)[-1] = torch.nan
        y, _, _ = run(values, ((2, 1),))
        assert y[:, 2, 1].isnan().any()
        if name in ("x", "dt", "B"):
            assert y[:, 4, 2].isnan().any()

    def test_bfloat16_is_computed_in_float32(self):
        values = make(3, 6, directions=2, dtype=torch.bfloat16)
        found = errors(values, ((2, 1), (-1, -2)))
        assert all(found[name] < (4e-3 if name in ("y", "x", "B", "C") else 2e-6) for name in found), found

    def test_strided_arguments(self):
        values = make(3, 5, channels=2)
        strided = {k: v.transpose(0, -1).contiguous().transpose(0, -1) for k, v in values.items()}
        torch.testing.assert_close(run(strided, ((2, 1),)), run(values, ((2, 1),)))

    def test_without_checkpoints_nothing_is_kept(self):
        from skop.ops.selective_scan_2d import _triton

        values = make(3, 5)
        y, _, checkpoints = _triton.forward(Arguments(*values.values(), None, ((2, 1),), True), False)
        assert checkpoints is None
        torch.testing.assert_close(y, run(values, ((2, 1),))[0], rtol=0, atol=0)

    def test_repeats_bit_by_bit(self):
        values = make(3, 5, directions=2, dtype=torch.float32)
        first, second = (run(values, ((2, 1), (1, 2))) for _ in range(2))
        torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available() or INTERPRETED, reason="needs a CUDA device")
class TestGPU:
    """Real sizes, compiled."""

    SIZES = {"directions": 4, "channels": 64, "d_state": 16, "device": "cuda"}
    DIRECTIONS = ((2, 1), (1, 2), (-2, -1), (-1, -2))

    @pytest.mark.parametrize(
        ("dtype", "narrow", "wide"),
        [(torch.float32, 1e-5, 1e-5), (torch.bfloat16, 4e-3, 1e-5), (torch.float64, 1e-12, 1e-12)],
    )
    def test_equals_the_reference(self, dtype, narrow, wide):
        values = make(44, 44, batch=4, dtype=dtype, **self.SIZES)
        found = errors(values, self.DIRECTIONS)
        assert all(found[name] < (narrow if name in ("y", "x", "B", "C") else wide) for name in found), found

    @pytest.mark.parametrize(
        ("height", "width", "channels", "d_state"), [(100, 33, 5, 3), (1, 70, 33, 1), (70, 9, 1, 40)]
    )
    def test_other_shapes(self, height, width, channels, d_state):
        values = make(
            height, width, directions=8, channels=channels, d_state=d_state, device="cuda", dtype=torch.float32
        )
        found = errors(values, ALL_DIRECTIONS)
        assert max(found.values()) < 1e-5, found

    @pytest.mark.parametrize("decay", [0.0, 1e-3, 6.0, 50.0])
    def test_error_does_not_depend_on_the_decay(self, decay):
        values = make(40, 50, given=("D",), dtype=torch.float32, **self.SIZES)
        values["dt"] = torch.full_like(values["dt"], decay)
        values["A"] = torch.full_like(values["A"], -1.0)
        found = errors(values, self.DIRECTIONS, softplus=False)
        assert max(found.values()) < 1e-5, found

    def test_repeats_bit_by_bit(self):
        values = make(256, 256, dtype=torch.float32, **self.SIZES)
        first, second = (run(values, self.DIRECTIONS) for _ in range(2))
        torch.testing.assert_close(first, second, rtol=0, atol=0)
