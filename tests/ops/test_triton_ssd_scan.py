"""The Triton kernels of the SSD scan against the recurrence: in Triton's interpreter, and on a GPU where there is one.

Whether Triton interprets is settled when it is imported, so the interpreted tests run in a process of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn.functional import softplus

from skop.ops.ssd_scan._naive import ssd_scan_naive
from skop.ops.ssd_scan._operation import Arguments

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
NAMES = ("x", "dt", "A", "B", "C", "D", "initial_state")


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
    own_maps=False,
    heads=2,
    head_dim=3,
    d_state=5,
    skip="channel",
    start=True,
    dtype=torch.float64,
    device="cpu",
):
    """Random arguments of a scan, by name, and its paths: random permutations."""
    generator = torch.Generator().manual_seed(length)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    maps = (batch, length, paths if own_maps else 1, d_state)
    values = {
        "x": normal(batch, length, paths if own_x else 1, heads, head_dim),
        "dt": softplus(normal(batch, length, paths, heads) - 1),
        "A": -0.1 - softplus(normal(paths, heads)),
        "B": normal(*maps),
        "C": normal(*maps),
        "D": {"none": None, "head": normal(paths, heads, 1), "channel": normal(paths, heads, head_dim)}[skip],
        "initial_state": normal(batch, paths, heads, head_dim, d_state) if start else None,
    }
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    order = torch.stack([torch.randperm(length, generator=generator) for _ in range(paths)]).int().to(device)
    types = dict.fromkeys(NAMES, wide) | dict.fromkeys("xBC", dtype)
    return {k: None if v is None else v.to(device, types[k]) for k, v in values.items()}, order


def reference(values, order):
    """Path after path in float64, with the recurrence; y is summed where the paths share x."""
    ys, ends = [], []
    for k, path in enumerate(order.long()):
        x, B, C = (values[name][:, path, k if values[name].shape[2] > 1 else 0] for name in "xBC")
        D, start = (
            None if values[name] is None else values[name].select(axis, k)
            for name, axis in (("D", 0), ("initial_state", 1))
        )
        dt, A = values["dt"][:, path, k], values["A"][k]
        y, end = ssd_scan_naive(x, dt, A, B.unsqueeze(2), C.unsqueeze(2), D, start, (False,))
        ys.append(y[:, path.argsort()])
        ends.append(end)
    y = torch.stack(ys, dim=2)
    return (y.sum(2, keepdim=True) if values["x"].shape[2] < len(order) else y), torch.stack(ends, dim=1)


def run(values, order, with_final=True):
    """Outputs and gradients of the kernels, for random cotangents; and the cotangents."""
    from skop.ops.ssd_scan import _triton

    given = Arguments(**values, paths=order)
    y, end, checkpoints = _triton.forward(given, True)
    generator = torch.Generator().manual_seed(1)
    cotangents = [torch.randn(out.shape, generator=generator).to(out) for out in (y, end)]
    grads = _triton.backward(given, checkpoints, cotangents[0], cotangents[1] if with_final else None)
    return (y, end), grads, cotangents if with_final else cotangents[:1]


def errors(values, order, with_final=True):
    """Relative error of the outputs and of every gradient, against float64; dtypes and shapes must fit, too."""
    outputs, grads, cotangents = run(values, order, with_final)
    exact = {k: None if v is None else v.double().requires_grad_() for k, v in values.items()}
    expected = reference(exact, order)
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
        assert max(errors(values, order).values()) < 1e-12

    @pytest.mark.parametrize(
        ("length", "options"),
        [
            (1, {}),
            (5, {"skip": "none", "start": False, "batch": 2}),
            (63, {"skip": "head", "paths": 2}),
            (64, {"start": False, "head_dim": 1, "heads": 1, "d_state": 1}),
            (65, {"paths": 2, "own_x": True, "heads": 3}),
            (65, {"paths": 2, "own_maps": True, "skip": "head"}),
            (70, {"head_dim": 35, "heads": 1}),
            (70, {"d_state": 37, "heads": 1, "batch": 2}),
            (150, {"paths": 3, "own_x": True, "own_maps": True, "skip": "none"}),
            (150, {"batch": 2, "paths": 2}),
        ],
    )
    @pytest.mark.parametrize("with_final", [True, False])
    def test_equals_the_reference(self, length, options, with_final):
        values, order = make(length, **options)
        assert max(errors(values, order, with_final).values()) < 1e-12

    @pytest.mark.parametrize("decay", [0.0, 1e-3, 6.0, 50.0])
    def test_float32_error_does_not_depend_on_the_decay(self, decay):
        values, order = make(100, paths=2, dtype=torch.float32)
        values["dt"] = torch.full_like(values["dt"], decay)
        values["A"] = torch.full_like(values["A"], -1.0)
        found = errors(values, order)
        assert max(found.values()) < 2e-6, found

    def test_a_strong_step_among_weak_ones(self):
        values, order = make(100, dtype=torch.float32)
        values["dt"][:, 10::20] *= 200
        found = errors(values, order)
        assert max(found.values()) < 2e-6, found

    def test_steps_of_zero_pass_the_state(self):
        values, order = make(70, paths=2)
        values["dt"].zero_()
        (y, end), _, _ = run(values, order)
        assert torch.equal(end, values["initial_state"])
        read = torch.einsum("bkhpn,bln->blhp", values["initial_state"], values["C"][:, :, 0])
        torch.testing.assert_close(y[:, :, 0], read + values["D"].sum(0) * values["x"][:, :, 0])

    @pytest.mark.parametrize("name", NAMES)
    def test_nan_is_not_lost(self, name):
        values, order = make(70)
        last = order[0, -1]
        target = values[name] if name in ("A", "D", "initial_state") else values[name][:, last]
        target.view(-1)[-1] = torch.nan
        (y, end), _, _ = run(values, order)
        assert y[:, last].isnan().any()
        assert end.isnan().any() == (name not in ("C", "D"))

    def test_two_halves_are_the_whole(self):
        from skop.ops.ssd_scan import _triton

        values, _ = make(130)
        order = torch.arange(130, dtype=torch.int32)[None]
        y, end, _ = _triton.forward(Arguments(**values, paths=order), False)
        ys, state = [], values["initial_state"]
        for part in (slice(None, 75), slice(75, None)):
            cut = {k: v[:, part] if k in ("x", "dt", "B", "C") else v for k, v in values.items()}
            length = cut["x"].shape[1]
            given = Arguments(**(cut | {"initial_state": state}), paths=order[:, :length])
            one, state, _ = _triton.forward(given, False)
            ys.append(one)
        torch.testing.assert_close((torch.cat(ys, dim=1), state), (y, end))

    def test_bfloat16_is_computed_in_float32(self):
        values, order = make(70, paths=2, dtype=torch.bfloat16)
        found = errors(values, order)
        assert all(found[name] < 2e-6 for name in ("end", "dt", "A", "D", "initial_state")), found
        assert all(found[name] < 4e-3 for name in ("y", "x", "B", "C")), found

    def test_strided_arguments(self):
        values, order = make(70, paths=2)
        strided = {k: v.transpose(0, -1).contiguous().transpose(0, -1) for k, v in values.items()}
        strided["initial_state"] = values["initial_state"].repeat_interleave(2, dim=1)[:, ::2]
        outputs, grads, _ = run(strided, order.T.contiguous().T)
        expected, expected_grads, _ = run(values, order)
        torch.testing.assert_close((outputs, grads), (expected, expected_grads), rtol=0, atol=0)

    def test_without_checkpoints_nothing_is_kept(self):
        from skop.ops.ssd_scan import _triton

        values, order = make(70)
        y, end, checkpoints = _triton.forward(Arguments(**values, paths=order), False)
        assert checkpoints is None
        torch.testing.assert_close((y, end), run(values, order)[0], rtol=0, atol=0)

    def test_repeats_bit_by_bit(self):
        values, order = make(70, paths=2, dtype=torch.float32)
        first, second = run(values, order), run(values, order)
        torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available() or INTERPRETED, reason="needs a CUDA device")
class TestGPU:
    """Real sizes, compiled."""

    SIZES = {"batch": 4, "paths": 2, "heads": 4, "head_dim": 32, "d_state": 64, "device": "cuda"}

    @pytest.mark.parametrize(
        ("dtype", "narrow", "wide"),
        [
            (torch.float32, 1e-5, 1e-5),
            (torch.bfloat16, 4e-3, 2e-3),
            (torch.float64, 1e-12, 1e-12),
        ],
    )
    def test_equals_the_reference(self, dtype, narrow, wide):
        values, order = make(1936, dtype=dtype, **self.SIZES)
        found = errors(values, order)
        assert all(found[name] < (narrow if name in ("y", "x", "B", "C") else wide) for name in found), found

    @pytest.mark.parametrize(("head_dim", "d_state", "heads"), [(5, 3, 3), (64, 16, 2), (128, 128, 1), (33, 200, 2)])
    def test_other_shapes_of_the_state(self, head_dim, d_state, heads):
        sizes = self.SIZES | {"head_dim": head_dim, "d_state": d_state, "heads": heads, "batch": 2}
        values, order = make(777, dtype=torch.float32, own_x=True, own_maps=True, **sizes)
        found = errors(values, order)
        assert max(found.values()) < 1e-5, found

    @pytest.mark.parametrize("decay", [0.0, 1e-3, 6.0, 50.0])
    def test_error_does_not_depend_on_the_decay(self, decay):
        values, order = make(500, dtype=torch.float32, **self.SIZES)
        values["dt"] = torch.full_like(values["dt"], decay)
        values["A"] = torch.full_like(values["A"], -1.0)
        found = errors(values, order)
        assert max(found.values()) < 1e-5, found

    def test_repeats_bit_by_bit(self):
        values, order = make(65536, dtype=torch.float32, **(self.SIZES | {"batch": 1}))
        first, second = run(values, order), run(values, order)
        torch.testing.assert_close(first, second, rtol=0, atol=0)
