"""The SSD scan against its definition, its laws, and independent constructions."""

import numpy as np
import pytest
import torch
from torch.nn.functional import pad, softplus

from skop.ops import ssd_scan

TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}
NAMES = ("x", "dt", "A", "B", "C", "D", "initial_state")


@pytest.fixture(params=["torch", "numba"])
def each_backend(request, monkeypatch):
    """What runs where a test names no backend."""
    monkeypatch.setenv("SKOP_BACKEND", request.param)


each_backend_in_turn = pytest.mark.usefixtures("each_backend")


@pytest.fixture(autouse=True)
def _default_backend(monkeypatch):
    """Plain torch, where a test does not ask for each backend: the kernel has tests of its own."""
    monkeypatch.setenv("SKOP_BACKEND", "torch")


def make(
    length,
    *,
    batch=2,
    heads=4,
    head_dim=3,
    groups=2,
    d_state=5,
    skip="channel",
    start=True,
    seed=0,
    dtype=torch.float64,
):
    """Random arguments of a scan, by name; the floating ones are leaves that need gradients."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    values = {
        "x": normal(batch, length, heads, head_dim),
        "dt": softplus(normal(batch, length, heads)),
        "A": -0.1 - softplus(normal(heads)),
        "B": normal(batch, length, groups, d_state),
        "C": normal(batch, length, groups, d_state),
        "D": {"none": None, "head": normal(heads), "channel": normal(heads, head_dim)}[skip],
        "initial_state": normal(batch, heads, head_dim, d_state) if start else None,
    }
    return {k: None if v is None else v.to(dtype).requires_grad_() for k, v in values.items()}


def holes(length, batch=2):
    """Mask with padding at the end of one sample, at the start of another, and holes inside."""
    mask = torch.ones(batch, length, dtype=torch.bool)
    mask[0, length - length // 3 :] = False
    mask[-1, : length // 5] = False
    mask[:, 1::4] = False
    return mask


def numpy_scan(x, dt, A, B, C, D=None, *, initial_state=None, mask=None, reverse=False):
    """The definition, one number at a time."""
    x, dt, A, B, C = (value.detach().numpy() for value in (x, dt, A, B, C))
    batch, length, heads, head_dim = x.shape
    groups = B.shape[2]
    directions = [reverse] * groups if isinstance(reverse, bool) else reverse
    y = np.zeros_like(x)
    final = np.zeros((batch, heads, head_dim, B.shape[3]))
    for b in range(batch):
        for h in range(heads):
            g = h // (heads // groups)
            state = final[b, h] if initial_state is None else initial_state.detach().numpy()[b, h]
            for t in range(length)[:: -1 if directions[g] else 1]:
                if mask is not None and not mask[b, t]:
                    continue
                step = dt[b, t, h]
                state = np.exp(step * A[h]) * state + step * np.outer(x[b, t, h], B[b, t, g])
                y[b, t, h] = state @ C[b, t, g]
                if D is not None:
                    y[b, t, h] += D.detach().numpy()[h] * x[b, t, h]
            final[b, h] = state
    return torch.from_numpy(y), torch.from_numpy(final)


def gradients(values, outputs, seed=1):
    """Gradients of all tensors for random cotangents of the outputs."""
    generator = torch.Generator().manual_seed(seed)
    cotangents = [torch.randn(out.shape, generator=generator, dtype=out.dtype) for out in outputs]
    leaves = [value for value in values.values() if value is not None]
    return torch.autograd.grad(outputs, leaves, cotangents)


CASES = [
    # length, groups, skip, start, masked, reverse, chunk_size
    (1, 2, "channel", True, False, True, 64),
    (2, 1, "none", False, False, (True,), 1),
    (63, 4, "head", False, True, True, 64),
    (64, 2, "channel", False, False, False, 64),
    (64, 4, "channel", True, True, (True, False, False, True), 7),
    (65, 2, "head", True, False, (False, True), 64),
    (130, 1, "channel", True, True, True, 64),
    (130, 2, "none", False, True, (True, False), 7),
    (130, 4, "channel", True, False, (False, False, True, False), 64),
]


@each_backend_in_turn
@pytest.mark.parametrize(("length", "groups", "skip", "start", "masked", "reverse", "chunk_size"), CASES)
def test_equals_the_reference(length, groups, skip, start, masked, reverse, chunk_size):
    values = make(length, groups=groups, skip=skip, start=start)
    options = {"mask": holes(length) if masked else None, "reverse": reverse, "return_final_state": True}
    fast = ssd_scan(**values, **options, chunk_size=chunk_size)
    slow = ssd_scan(**values, **options, backend="naive")
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    torch.testing.assert_close(gradients(values, fast), gradients(values, slow), **TOLERANCE)


@each_backend_in_turn
@pytest.mark.parametrize("part", [0, 1])
def test_gradients_of_only_one_output(part):
    values = make(20)
    fast = ssd_scan(**values, return_final_state=True, chunk_size=8)[part]
    slow = ssd_scan(**values, return_final_state=True, backend="naive")[part]
    values = {k: v for k, v in values.items() if part == 0 or k not in ("C", "D")}
    leaves = list(values.values())
    weights = torch.randn(fast.shape, dtype=fast.dtype, generator=torch.Generator().manual_seed(3))
    got, expected = (torch.autograd.grad((out * weights).sum(), leaves) for out in (fast, slow))
    torch.testing.assert_close(got, expected, **TOLERANCE)


@pytest.mark.parametrize(("sizes", "chunk_size"), [
    ({"heads": 1, "groups": 1}, 1),
    ({"head_dim": 1}, 6),
    ({"d_state": 1}, 64),
    ({"batch": 1}, 6),
])  # fmt: skip
def test_sizes_of_one(sizes, chunk_size):
    values = make(12, **sizes)
    fast = ssd_scan(**values, chunk_size=chunk_size, return_final_state=True)
    slow = ssd_scan(**values, backend="naive", return_final_state=True)
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    torch.testing.assert_close(gradients(values, fast), gradients(values, slow), **TOLERANCE)


@each_backend_in_turn
def test_backward_leaves_the_cotangent_and_what_it_kept_alone():
    values = make(12, heads=1, groups=1, start=False)
    y = ssd_scan(**values)
    cotangent = torch.randn_like(y)
    before = cotangent.clone()
    leaves = [value for value in values.values() if value is not None]
    first = torch.autograd.grad(y, leaves, cotangent, retain_graph=True)
    second = torch.autograd.grad(y, leaves, cotangent)
    torch.testing.assert_close(cotangent, before, rtol=0, atol=0)
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize("backend", ["torch", "naive", "numba"])
@pytest.mark.parametrize(("skip", "reverse"), [("head", False), ("channel", [True, False])])
def test_definition_in_numpy(backend, skip, reverse):
    values = make(23, skip=skip)
    mask = holes(23)
    expected = numpy_scan(**values, mask=mask, reverse=reverse)
    options = {"mask": mask, "reverse": reverse, "chunk_size": 8, "return_final_state": True}
    got = ssd_scan(**values, **options, backend=backend)
    torch.testing.assert_close(got, expected, **TOLERANCE)


@pytest.mark.parametrize("backend", ["torch", "naive"])
@pytest.mark.parametrize("reverse", [False, (True, False)])
def test_gradcheck_and_gradgradcheck(backend, reverse):
    values = make(5, batch=1, heads=2, head_dim=2, d_state=2)
    mask = torch.tensor([[True, True, False, True, True]])

    def scan(*arguments):
        named = dict(zip(NAMES, arguments, strict=True))
        options = {"mask": mask, "reverse": reverse, "chunk_size": 2, "return_final_state": True}
        return ssd_scan(**named, **options, backend=backend)

    assert torch.autograd.gradcheck(scan, tuple(values.values()))
    assert torch.autograd.gradgradcheck(scan, tuple(values.values()))


@each_backend_in_turn
def test_second_derivative_where_arguments_depend_on_each_other():
    def penalty(backend):
        base = make(9, start=False)["x"]
        dt, rates = softplus(base.sum(-1)), -torch.ones(4).double()
        maps = base[:, :, :2], base[:, :, 2:].sin()
        y = ssd_scan(base, dt, rates, *maps, backend=backend, chunk_size=4)
        (slope,) = torch.autograd.grad(y.square().sum(), base, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), base)[0]

    torch.testing.assert_close(penalty(None), penalty("naive"), **TOLERANCE)


def test_linear_in_x_and_the_initial_state():
    a, b = make(40, seed=0), make(40, seed=1)
    shared = {name: a[name] for name in ("dt", "A", "B", "C", "D")}
    whole = ssd_scan(2 * a["x"] - b["x"], initial_state=2 * a["initial_state"] - b["initial_state"], **shared)
    parts = [ssd_scan(v["x"], initial_state=v["initial_state"], **shared) for v in (a, b)]
    torch.testing.assert_close(whole, 2 * parts[0] - parts[1], **TOLERANCE)


@pytest.mark.parametrize("token", [0, 16, 39])
def test_causality(token):
    values = make(40)
    other = make(40, seed=7)
    for name in ("x", "dt", "B", "C"):
        other[name] = torch.cat([values[name][:, :token], other[name][:, token:]], dim=1)
    other |= {name: values[name] for name in ("A", "D", "initial_state")}
    y, changed = ssd_scan(**values, chunk_size=16), ssd_scan(**other, chunk_size=16)
    torch.testing.assert_close(y[:, :token], changed[:, :token], **TOLERANCE)
    assert not torch.isclose(y[:, token:], changed[:, token:]).any()


@each_backend_in_turn
@pytest.mark.parametrize("length", [64, 130])
def test_reversal(length):
    values = make(length)
    flipped = {k: v.flip(1) if k in ("x", "dt", "B", "C") else v for k, v in values.items()}
    y, state = ssd_scan(**values, reverse=True, return_final_state=True)
    y_flipped, state_flipped = ssd_scan(**flipped, return_final_state=True)
    torch.testing.assert_close((y, state), (y_flipped.flip(1), state_flipped), **TOLERANCE)


@each_backend_in_turn
@pytest.mark.parametrize(("cut", "reverse"), [(1, True), (64, False)])
def test_concatenation(cut, reverse):
    values = make(100)
    sequences = {name: values[name] for name in ("x", "dt", "B", "C")}
    fixed = {"A": values["A"], "D": values["D"], "reverse": reverse, "return_final_state": True}
    y, end = ssd_scan(**sequences, **fixed, initial_state=values["initial_state"])
    parts = [slice(None, cut), slice(cut, None)][:: -1 if reverse else 1]
    state, ys = values["initial_state"], []
    for part in parts:
        one, state = ssd_scan(**{k: v[:, part] for k, v in sequences.items()}, **fixed, initial_state=state)
        ys.append(one)
    torch.testing.assert_close((torch.cat(ys[:: -1 if reverse else 1], dim=1), state), (y, end), **TOLERANCE)


def test_impulse_response_of_constant_coefficients():
    length, step, rate = 150, 0.25, -0.125
    shape = (1, length, 1, 2)
    b, c = torch.tensor([2.0, -1.0]).double(), torch.tensor([0.5, 3.0]).double()
    x = torch.zeros(1, length, 1, 1).double()
    x[:, 0] = 1.0
    steps, rates = torch.full_like(x[..., 0], step), torch.full((1,), rate).double()
    y = ssd_scan(x, steps, rates, b.expand(shape), c.expand(shape))
    expected = (c @ b) * step * torch.exp(torch.arange(length).double() * step * rate)
    torch.testing.assert_close(y.flatten(), expected, **TOLERANCE)


def test_dense_matrix():
    """The whole map from x to y, decays as products of the steps between, without any cumulative sum."""
    length = 33
    values = make(length, batch=1, heads=2, groups=1, skip="none", start=False)
    decays = torch.exp(values["dt"] * values["A"])[0]
    dense = torch.zeros(2, length, length).double()
    for i in range(length):
        for j in range(i + 1):
            weight = decays[j + 1 : i + 1].prod(dim=0) * values["dt"][0, j]
            dense[:, i, j] = weight * (values["C"][0, i, 0] @ values["B"][0, j, 0])
    expected = torch.einsum("hij,jhp->ihp", dense, values["x"][0])
    torch.testing.assert_close(ssd_scan(**values, chunk_size=16)[0], expected, **TOLERANCE)


@each_backend_in_turn
@pytest.mark.parametrize("reverse", [False, (False, True)])
def test_padding_changes_nothing_whatever_it_holds(reverse):
    values = make(50)
    padded = dict(values)
    for name in ("x", "dt", "B", "C"):
        sizes = (0, 0) * (values[name].ndim - 2) + (3, 20)
        padded[name] = pad(values[name], sizes, value=torch.nan)
    mask = pad(torch.ones(2, 50, dtype=torch.bool), (3, 20))
    expected = ssd_scan(**values, reverse=reverse, return_final_state=True)
    y, state = ssd_scan(**padded, mask=mask, reverse=reverse, return_final_state=True)
    torch.testing.assert_close((y[:, 3:53], state), expected, **TOLERANCE)
    assert (y[~mask] == 0).all()
    got = gradients(values, (y[:, 3:53], state))
    torch.testing.assert_close(got, gradients(values, expected), **TOLERANCE)


@each_backend_in_turn
def test_a_fully_masked_sample_keeps_its_state():
    values = make(10)
    mask = torch.tensor([[True], [False]]).expand(2, 10)
    y, state = ssd_scan(**values, mask=mask, return_final_state=True)
    torch.testing.assert_close(state[1], values["initial_state"][1])
    assert (y[1] == 0).all()


@each_backend_in_turn
@pytest.mark.parametrize("skip", ["none", "channel"])
def test_strided_arguments(skip):
    values = make(70, skip=skip)
    strided = {
        k: None if v is None else v.detach().transpose(0, -1).contiguous().transpose(0, -1) for k, v in values.items()
    }
    torch.testing.assert_close(ssd_scan(**strided), ssd_scan(**values).detach(), **TOLERANCE)
    assert ssd_scan(**strided).is_contiguous()


@each_backend_in_turn
def test_float32_error_on_a_long_sequence():
    values = make(4096, batch=1, dtype=torch.float32)
    exact = {name: value.detach().double().requires_grad_() for name, value in values.items()}
    y, reference = ssd_scan(**values), ssd_scan(**exact)
    cotangent = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
    got = torch.autograd.grad(ssd_scan(**values), list(values.values()), cotangent)
    expected = torch.autograd.grad(ssd_scan(**exact), list(exact.values()), cotangent.double())
    pairs = [(y, reference), *zip(got, expected, strict=True)]
    errors = [((a.double() - b).norm() / b.norm()).item() for a, b in pairs]
    assert max(errors) < 1e-5, errors


@pytest.mark.parametrize(("backend", "dtype"), [
    ("torch", torch.bfloat16),
    ("numba", torch.float16),
    pytest.param("numba", torch.bfloat16, marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_low_precision_is_computed_in_float32(backend, dtype):
    values = make(200, dtype=dtype)
    wide = {name: value.detach().float().requires_grad_() for name, value in values.items()}
    (y, state), (y_wide, state_wide) = (ssd_scan(**v, return_final_state=True, backend=backend) for v in (values, wide))
    assert y.dtype == dtype
    assert state.dtype == torch.float32
    torch.testing.assert_close((y, state), (y_wide.to(dtype), state_wide), rtol=0, atol=0)
    for grad, value in zip(gradients(values, [y]), values.values(), strict=True):
        assert grad.dtype == dtype
        assert grad.shape == value.shape


@each_backend_in_turn
def test_autocast_has_no_influence():
    values = make(70, dtype=torch.float32)
    expected = ssd_scan(**values)
    grads = torch.autograd.grad(expected.sum(), list(values.values()))
    with torch.autocast("cpu", torch.bfloat16):
        y = ssd_scan(**values)
        inside = torch.autograd.grad(y.sum(), list(values.values()))
    torch.testing.assert_close((y, *inside), (expected, *grads), rtol=0, atol=0)


@each_backend_in_turn
@pytest.mark.parametrize("length", [40, 200])
def test_strong_decay_neither_overflows_nor_loses_the_own_token(length):
    values = make(length, dtype=torch.float32, start=False, skip="none")
    values["dt"] = torch.full_like(values["dt"], 50.0).requires_grad_()
    values["A"] = torch.full_like(values["A"], -1.0).requires_grad_()
    y = ssd_scan(**values)
    own = torch.einsum("blgn,blgn->blg", values["B"], values["C"]).repeat_interleave(2, dim=2)
    torch.testing.assert_close(y, 50.0 * own.unsqueeze(-1) * values["x"], rtol=1e-5, atol=1e-3)
    assert all(grad.isfinite().all() for grad in gradients(values, [y]))


@each_backend_in_turn
def test_weak_decay_adds_up_the_inputs():
    length = 300
    x = torch.ones(1, length, 1, 1)
    y = ssd_scan(x, torch.full((1, length, 1), 1e-3), torch.tensor([-1e-6]), x, x)
    expected = torch.arange(1, length + 1) * 1e-3
    torch.testing.assert_close(y.flatten(), expected, rtol=1e-5, atol=0)


@each_backend_in_turn
def test_nan_is_not_lost():
    for name in NAMES:
        values = {k: v.detach().clone() for k, v in make(100).items()}
        values[name].view(-1)[-1] = torch.nan
        y, state = ssd_scan(**values, return_final_state=True)
        assert y[-1, -1].isnan().any()
        if name not in ("C", "D"):
            assert state[-1].isnan().any()


BAD = [
    ({"x": torch.ones(2, 3, 4)}, r"x has shape \(2, 3, 4\); expected \(batch, length, heads, head_dim\)"),
    ({"x": torch.ones(2, 0, 4, 3)}, "none of them 0"),
    ({"dt": torch.ones(2, 5)}, r"dt has shape \(2, 5\); expected .* = \(2, 5, 4\)"),
    ({"A": torch.ones(3)}, r"A has shape \(3,\); expected \(heads,\) = \(4,\)"),
    ({"B": torch.ones(2, 5, 10)}, r"B has shape .* expected \(batch, length, groups, d_state\)"),
    ({"B": torch.ones(2, 6, 2, 5)}, r"B has shape .* = \(2, 5, 2, 5\)"),
    ({"B": torch.ones(2, 5, 3, 5)}, "x has 4 heads and B has 3 groups"),
    ({"C": torch.ones(2, 5, 2, 4)}, r"C has shape .* d_state\) = \(2, 5, 2, 5\)"),
    ({"D": torch.ones(3)}, r"D has shape \(3,\); expected \(heads,\) or \(heads, head_dim\)"),
    ({"initial_state": torch.ones(2, 4, 5, 3)}, r"initial_state has shape .* = \(2, 4, 3, 5\)"),
    ({"mask": torch.ones(2, 4, dtype=torch.bool)}, r"mask has shape \(2, 4\)"),
    ({"mask": torch.ones(2, 5)}, "mask has dtype torch.float32; expected torch.bool"),
    ({"dt": torch.ones(2, 5, 4, dtype=torch.int64)}, "dt has dtype torch.int64"),
    ({"reverse": (True,)}, "reverse is .* one for each of the 2 groups"),
    ({"reverse": (1, 0)}, "reverse is"),
    ({"chunk_size": 0}, "chunk_size is 0; expected an integer of at least 1"),
    ({"backend": "fast"}, "backend is 'fast'; expected None or one of"),
]


def test_errors_name_the_argument():
    for change, message in BAD:
        with pytest.raises(ValueError, match=message):
            ssd_scan(**(make(5) | change))
