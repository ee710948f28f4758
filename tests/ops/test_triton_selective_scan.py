"""The Triton kernels of the selective scan against the recurrence: in Triton's interpreter, and on a GPU if any.

Whether Triton interprets is settled when it is imported, so the interpreted tests run in a process of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from skop.ops._selective import Arguments
from skop.ops.selective_scan._naive import selective_scan_naive

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
NAMES = ("x", "dt", "A", "B", "C", "D", "dt_bias", "R", "initial_state")
OPTIONAL = NAMES[5:]


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
    length,
    *,
    batch=1,
    paths=1,
    own_x=False,
    channels=3,
    d_state=2,
    given=OPTIONAL,
    dtype=torch.float64,
    device="cpu",
):
    """Random arguments of a scan, by name, and its paths: random permutations. Steps are meant for a softplus."""
    generator = torch.Generator().manual_seed(length)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    values = {
        "x": normal(batch, length, paths if own_x else 1, channels),
        "dt": normal(batch, length, paths, channels) - 1,
        "A": -0.1 - normal(paths, channels, d_state).abs(),
        "B": normal(batch, length, paths, d_state),
        "C": normal(batch, length, paths, d_state),
        "D": normal(paths, channels),
        "dt_bias": normal(paths, channels),
        "R": normal(paths, channels, d_state),
        "initial_state": normal(batch, paths, channels, d_state),
    }
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    types = dict.fromkeys(NAMES, wide) | dict.fromkeys("xBC", dtype)
    values = {k: v.to(device, types[k]) if k not in OPTIONAL or k in given else None for k, v in values.items()}
    order = torch.stack([torch.randperm(length, generator=generator) for _ in range(paths)])
    return values, order.int().to(device)


def run(values, order, softplus=True, with_final=True):
    """Outputs and gradients of the kernels, for random cotangents; and the cotangents."""
    from skop.ops.selective_scan import _triton

    given = Arguments(**values, order=order, softplus=softplus)
    y, end, checkpoints = _triton.forward(given, True)
    generator = torch.Generator().manual_seed(1)
    cotangents = [torch.randn(out.shape, generator=generator).to(out) for out in (y, end)]
    grads = _triton.backward(given, checkpoints, cotangents[0], cotangents[1] if with_final else None)
    return (y, end), grads, cotangents if with_final else cotangents[:1]


def errors(values, order, softplus=True, with_final=True):
    """Relative error of the outputs and of every gradient, against float64; dtypes and shapes must fit, too."""
    outputs, grads, cotangents = run(values, order, softplus, with_final)
    exact = {k: None if v is None else v.double().requires_grad_() for k, v in values.items()}
    expected = selective_scan_naive(Arguments(**exact, order=order, softplus=softplus))
    leaves = [leaf for leaf in exact.values() if leaf is not None]
    expected_grads = torch.autograd.grad(expected[: len(cotangents)], leaves, [c.double() for c in cotangents])
    found = dict(zip(("y", "end"), zip(outputs, expected, strict=True), strict=True))
    remaining = iter(expected_grads)
    for name, grad in zip(NAMES, grads, strict=True):
        assert (grad is None) == (values[name] is None)
        if grad is not None:
            assert grad.dtype == values[name].dtype
            assert grad.shape == values[name].shape
            found[name] = grad, next(remaining)
    assert outputs[0].dtype == values["x"].dtype
    return {name: relative(*pair) for name, pair in found.items()}


def relative(value, expected):
    """Relative error in the mean square; of nothing expected, the value itself."""
    return ((value.double() - expected).norm() / expected.norm().clamp_min(1e-300)).item()


class TestInterpreted:
    """Tiny scans, one number after the other."""

    __test__ = INTERPRETED

    def test_quick(self):
        values, order = make(5, batch=2, paths=2)
        assert max(errors(values, order, True).values()) < 1e-12

    @pytest.mark.parametrize(
        ("length", "softplus", "options"),
        [
            (1, True, {}),
            (5, False, {"given": (), "batch": 2}),
            (31, True, {"given": ("D",), "paths": 2}),
            (32, False, {"given": ("R", "initial_state"), "channels": 1, "d_state": 1}),
            (33, True, {"paths": 2, "own_x": True}),
            (33, False, {"channels": 33, "d_state": 1, "given": ("dt_bias", "R")}),
            (40, True, {"d_state": 5, "batch": 2}),
            (70, True, {"paths": 3, "given": ("D", "R")}),
            (70, False, {"paths": 2, "own_x": True, "given": ("dt_bias", "initial_state")}),
        ],
    )
    def test_equals_the_reference(self, length, softplus, options):
        values, order = make(length, **options)
        if not softplus:
            values["dt"] = values["dt"].abs()
        assert max(errors(values, order, softplus, with_final=length != 33).values()) < 1e-12

    @pytest.mark.parametrize("decay", [0.0, 1e-3, 6.0, 50.0])
    def test_float32_error_does_not_depend_on_the_decay(self, decay):
        values, order = make(70, given=("D", "initial_state"), dtype=torch.float32)
        values["dt"] = torch.full_like(values["dt"], decay)
        values["A"] = torch.full_like(values["A"], -1.0)
        found = errors(values, order, softplus=False)
        assert max(found.values()) < 2e-6, found

    @pytest.mark.parametrize("decay", [1.0, 6.0, 12.0])
    def test_what_is_left_without_the_own_token_keeps_its_digits(self, decay):
        values, order = make(40, given=("R",), dtype=torch.float32)
        values["dt"] = torch.full_like(values["dt"], decay)
        values["A"] = torch.full_like(values["A"], -1.0)
        values["R"] = torch.ones_like(values["R"])
        found = errors(values, order, softplus=False, with_final=False)
        assert max(found.values()) < 2e-6, found

    def test_a_strong_step_among_weak_ones(self):
        values, order = make(70, dtype=torch.float32)
        values["dt"] = values["dt"].abs()
        values["dt"][:, 10::20] *= 200
        found = errors(values, order, softplus=False)
        assert max(found.values()) < 2e-6, found

    def test_steps_of_zero_pass_the_state(self):
        values, order = make(40, paths=2, given=("D", "R", "initial_state"))
        values["dt"].zero_()
        (y, end), _, _ = run(values, order, softplus=False)
        assert torch.equal(end, values["initial_state"])
        read = torch.einsum("bkdn,blkn->bld", values["initial_state"], values["C"])
        torch.testing.assert_close(y[:, :, 0], read + values["D"].sum(0) * values["x"][:, :, 0])

    @pytest.mark.parametrize("name", NAMES)
    def test_nan_is_not_lost(self, name):
        values, order = make(40)
        last = order[0, -1]
        target = values[name][:, last] if name in ("x", "dt", "B", "C") else values[name]
        target.view(-1)[-1] = torch.nan
        (y, end), _, _ = run(values, order)
        assert y[:, last].isnan().any()
        assert end.isnan().any() == (name not in ("C", "D", "R"))

    @pytest.mark.parametrize("name", ["x", "dt", "B", "C"])
    def test_nan_does_not_reach_earlier_tokens(self, name):
        values, order = make(70)
        values[name][:, order[0, 40]] = torch.nan
        (y, _), _, _ = run(values, order)
        assert y[:, order[0, :40]].isfinite().all()

    def test_two_halves_are_the_whole(self):
        from skop.ops.selective_scan import _triton

        values, _ = make(80)
        order = torch.arange(80, dtype=torch.int32)[None]
        y, end, _ = _triton.forward(Arguments(*values.values(), order, True), False)
        ys, state = [], values["initial_state"]
        for part in (slice(None, 45), slice(45, None)):
            cut = {k: v[:, part] if k in ("x", "dt", "B", "C") else v for k, v in values.items()}
            cut["initial_state"] = state
            given = Arguments(*cut.values(), order[:, : cut["x"].shape[1]], True)
            one, state, _ = _triton.forward(given, False)
            ys.append(one)
        torch.testing.assert_close((torch.cat(ys, dim=1), state), (y, end))

    def test_bfloat16_is_computed_in_float32(self):
        values, order = make(40, paths=2, dtype=torch.bfloat16)
        found = errors(values, order)
        narrow = ("y", "x", "B", "C")
        assert all(found[name] < (4e-3 if name in narrow else 2e-6) for name in found), found

    def test_strided_arguments(self):
        values, order = make(40, paths=2)
        strided = {k: v.transpose(0, -1).contiguous().transpose(0, -1) for k, v in values.items()}
        strided["initial_state"] = values["initial_state"].repeat_interleave(2, dim=1)[:, ::2]
        outputs, grads, _ = run(strided, order.T.contiguous().T)
        expected, expected_grads, _ = run(values, order)
        torch.testing.assert_close((outputs, grads), (expected, expected_grads))

    def test_without_checkpoints_nothing_is_kept(self):
        from skop.ops.selective_scan import _triton

        values, order = make(40)
        y, end, checkpoints = _triton.forward(Arguments(*values.values(), order, True), False)
        assert checkpoints is None
        torch.testing.assert_close((y, end), run(values, order)[0], rtol=0, atol=0)

    def test_repeats_bit_by_bit(self):
        values, order = make(40, paths=2, dtype=torch.float32)
        first, second = run(values, order), run(values, order)
        torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available() or INTERPRETED, reason="needs a CUDA device")
class TestGPU:
    """Real sizes, compiled."""

    SIZES = {"batch": 4, "paths": 2, "channels": 64, "d_state": 16, "device": "cuda"}

    @pytest.mark.parametrize(
        ("dtype", "narrow", "wide"),
        [(torch.float32, 1e-5, 1e-5), (torch.bfloat16, 4e-3, 1e-5), (torch.float64, 1e-12, 1e-12)],
    )
    def test_equals_the_reference(self, dtype, narrow, wide):
        values, order = make(1936, dtype=dtype, **self.SIZES)
        found = errors(values, order)
        assert all(found[name] < (narrow if name in ("y", "x", "B", "C") else wide) for name in found), found

    @pytest.mark.parametrize(("channels", "d_state"), [(5, 3), (33, 1), (64, 64), (512, 16), (1, 200)])
    def test_other_shapes_of_the_state(self, channels, d_state):
        sizes = self.SIZES | {"channels": channels, "d_state": d_state, "batch": 1}
        values, order = make(500, dtype=torch.float32, own_x=True, **sizes)
        found = errors(values, order)
        assert max(found.values()) < 1e-5, found

    @pytest.mark.parametrize("decay", [0.0, 1e-3, 6.0, 50.0])
    def test_error_does_not_depend_on_the_decay(self, decay):
        values, order = make(500, dtype=torch.float32, given=("D", "initial_state"), **self.SIZES)
        values["dt"] = torch.full_like(values["dt"], decay)
        values["A"] = torch.full_like(values["A"], -1.0)
        found = errors(values, order, softplus=False)
        assert max(found.values()) < 1e-5, found

    def test_repeats_bit_by_bit(self):
        values, order = make(65536, dtype=torch.float32, **(self.SIZES | {"batch": 1}))
        first, second = run(values, order), run(values, order)
        torch.testing.assert_close(first, second, rtol=0, atol=0)
