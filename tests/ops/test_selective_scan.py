"""The selective scan against its definition, its laws, and independent constructions."""

import numpy as np
import pytest
import torch
from torch.nn.functional import pad, softplus

from skop.ops import selective_scan, ssd_scan
from skop.ops._paths import path_table
from skop.ops._selective import Arguments
from skop.ops.selective_scan._naive import selective_scan_naive
from skop.ops.selective_scan._torch import selective_scan_torch

BACKENDS = ("torch", "numba")
#: The laws hold for each form; the kernel, which the tests of equality hold to the reference, is in the long rest.
LAWS = ("torch", pytest.param("numba", marks=pytest.mark.exhaustive))
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}
NAMES = ("x", "dt", "A", "B", "C", "D", "dt_bias", "R", "initial_state")
SEQUENCES = ("x", "dt", "B", "C")


def make(length, *, batch=2, channels=4, groups=2, d_state=5, without=(), seed=0, dtype=torch.float64):
    """Random arguments of a scan with a softplus, by name; the floating ones are leaves that need gradients."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    values = {
        "x": normal(batch, length, channels),
        "dt": normal(batch, length, channels),
        "A": -0.1 - softplus(normal(channels, d_state)),
        "B": normal(batch, length, groups, d_state),
        "C": normal(batch, length, groups, d_state),
        "D": normal(channels),
        "dt_bias": normal(channels),
        "R": torch.rand(channels, d_state, generator=generator, dtype=torch.float64),
        "initial_state": normal(batch, channels, d_state),
    }
    return {k: None if k in without else v.to(dtype).requires_grad_() for k, v in values.items()}


def holes(length, batch=2):
    """Mask with padding at the end of one sample, at the start of another, and holes inside."""
    mask = torch.ones(batch, length, dtype=torch.bool)
    mask[0, length - length // 3 :] = False
    mask[-1, : length // 5] = False
    mask[:, 1::4] = False
    return mask


def numpy_scan(x, dt, A, B, C, D, dt_bias, R, initial_state, *, mask, reverse, dt_softplus):
    """The definition, one number at a time."""
    given = (x, dt, A, B, C, D, dt_bias, R, initial_state)
    x, dt, A, B, C, D, dt_bias, R, initial_state = (None if v is None else v.detach().numpy() for v in given)
    batch, length, channels = x.shape
    groups, states = B.shape[2:]
    directions = [reverse] * groups if isinstance(reverse, bool) else reverse
    y, final = np.zeros_like(x), np.zeros((batch, channels, states))
    for b, c in np.ndindex(batch, channels):
        g = c // (channels // groups)
        for n in range(states):
            state = 0.0 if initial_state is None else initial_state[b, c, n]
            for t in range(length)[:: -1 if directions[g] else 1]:
                if not mask[b, t]:
                    continue
                step = dt[b, t, c] + (0.0 if dt_bias is None else dt_bias[c])
                step = np.log(1 + np.exp(step)) if dt_softplus else step
                update = step * B[b, t, g, n] * x[b, t, c]
                state = np.exp(step * A[c, n]) * state + update
                y[b, t, c] += C[b, t, g, n] * (state - (0.0 if R is None else R[c, n]) * update)
            final[b, c, n] = state
    if D is not None:
        y += D * x * mask[..., None].numpy()
    return torch.from_numpy(y), torch.from_numpy(final)


def gradients(values, outputs, seed=1):
    """Gradients of all tensors for random cotangents of the outputs."""
    generator = torch.Generator().manual_seed(seed)
    cotangents = [torch.randn(out.shape, generator=generator, dtype=out.dtype) for out in outputs]
    leaves = [value for value in values.values() if value is not None]
    return torch.autograd.grad(outputs, leaves, cotangents)


@pytest.mark.parametrize("backend", ["naive", *BACKENDS])
@pytest.mark.parametrize(("without", "reverse", "dt_softplus"), [
    ((), False, True),
    (("D", "R"), (True, False), False),
    (("dt_bias",), True, True),
])  # fmt: skip
def test_definition_in_numpy(backend, without, reverse, dt_softplus):
    values = make(13, without=without)
    if not dt_softplus:
        values["dt"] = softplus(values["dt"])
    options = {"mask": holes(13), "reverse": reverse, "dt_softplus": dt_softplus}
    got = selective_scan(**values, **options, return_final_state=True, backend=backend)
    torch.testing.assert_close(got, numpy_scan(**values, **options), **TOLERANCE)


CASES = [
    # length, groups, without, masked, reverse, dt_softplus
    (1, 2, (), False, True, True),
    (2, 1, ("D", "R", "dt_bias", "initial_state"), False, (True,), False),
    (17, 4, ("initial_state",), True, True, True),
    (64, 4, ("R",), True, (True, False, False, True), False),
    (65, 2, ("D",), False, (False, True), True),
    (130, 1, ("dt_bias", "R"), True, True, False),
    (300, 2, ("initial_state",), False, False, True),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("length", "groups", "without", "masked", "reverse", "dt_softplus"), CASES)
def test_equals_the_reference(backend, length, groups, without, masked, reverse, dt_softplus):
    values = make(length, groups=groups, without=without)
    if not dt_softplus:
        values |= {"dt": softplus(values["dt"].detach()).requires_grad_(), "dt_bias": None}
    options = {"mask": holes(length) if masked else None, "reverse": reverse, "dt_softplus": dt_softplus}
    fast = selective_scan(**values, **options, return_final_state=True, backend=backend)
    slow = selective_scan(**values, **options, return_final_state=True, backend="naive")
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    torch.testing.assert_close(gradients(values, fast), gradients(values, slow), **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "sizes",
    [{"channels": 1, "groups": 1}, {"d_state": 1}, {"batch": 1}, {"channels": 37, "groups": 1}, {"channels": 130}],
)
def test_other_sizes(backend, sizes):
    values = make(21, **sizes)
    fast = selective_scan(**values, dt_softplus=True, return_final_state=True, backend=backend)
    slow = selective_scan(**values, dt_softplus=True, return_final_state=True, backend="naive")
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    torch.testing.assert_close(gradients(values, fast), gradients(values, slow), **TOLERANCE)


def test_many_rows_are_cut_into_blocks():
    values = make(40, batch=9, channels=640, groups=2, d_state=16, without=("initial_state",))
    fast = selective_scan(**values, dt_softplus=True, return_final_state=True, backend="torch")
    slow = selective_scan(**values, dt_softplus=True, return_final_state=True, backend="naive")
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    torch.testing.assert_close(gradients(values, fast), gradients(values, slow), **TOLERANCE)


@pytest.mark.parametrize("shared", [True, False])
def test_core_along_any_paths_with_shared_or_own_inputs(shared):
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    paths = torch.stack([torch.randperm(30, generator=generator) for _ in range(3)]).int()
    values = {
        "x": normal(2, 30, 1 if shared else 3, 4),
        "dt": normal(2, 30, 3, 4),
        "A": normal(3, 4, 5),
        "B": normal(2, 30, 3, 5),
        "C": normal(2, 30, 3, 5),
        "D": normal(3, 4),
        "dt_bias": normal(3, 4),
        "R": normal(3, 4, 5),
        "initial_state": normal(2, 3, 4, 5),
    }
    given = Arguments(**values, order=paths, softplus=True)
    fast, slow = (scan(given) for scan in (selective_scan_torch, selective_scan_naive))
    assert fast[0].shape == values["x"].shape
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    torch.testing.assert_close(gradients(values, fast), gradients(values, slow), **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("part", [0, 1])
def test_gradients_of_only_one_output(backend, part):
    values = make(20)
    fast, slow = (
        selective_scan(**values, dt_softplus=True, return_final_state=True, backend=choice)[part]
        for choice in (backend, "naive")
    )
    leaves = [v for k, v in values.items() if part == 0 or k not in ("C", "D", "R")]
    weights = torch.randn(fast.shape, dtype=fast.dtype, generator=torch.Generator().manual_seed(3))
    got, expected = (torch.autograd.grad((out * weights).sum(), leaves) for out in (fast, slow))
    torch.testing.assert_close(got, expected, **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_of_only_one_argument(backend):
    for name in NAMES:
        values = {k: v.detach().requires_grad_(k == name) for k, v in make(12).items()}
        fast, slow = (selective_scan(**values, dt_softplus=True, backend=choice) for choice in (backend, "naive"))
        got, expected = (torch.autograd.grad(out.sin().sum(), values[name]) for out in (fast, slow))
        torch.testing.assert_close(got, expected, **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_backward_leaves_the_cotangent_and_what_it_kept_alone(backend):
    values = make(12)
    y = selective_scan(**values, dt_softplus=True, backend=backend)
    cotangent = torch.randn_like(y)
    before = cotangent.clone()
    leaves = list(values.values())
    first = torch.autograd.grad(y, leaves, cotangent, retain_graph=True)
    second = torch.autograd.grad(y, leaves, cotangent)
    torch.testing.assert_close(cotangent, before, rtol=0, atol=0)
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize("backend", ["naive", *BACKENDS])
@pytest.mark.parametrize("reverse", [False, (True, False)])
def test_gradcheck_and_gradgradcheck(backend, reverse):
    values = make(4, batch=1, channels=2, d_state=2)
    mask = torch.tensor([[True, False, True, True]])

    def scan(*arguments):
        named = dict(zip(NAMES, arguments, strict=True))
        options = {"mask": mask, "reverse": reverse, "dt_softplus": True, "return_final_state": True}
        return selective_scan(**named, **options, backend=backend)

    assert torch.autograd.gradcheck(scan, tuple(values.values()))
    assert torch.autograd.gradgradcheck(scan, tuple(values.values()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivative_where_arguments_depend_on_each_other(backend):
    def penalty(choice):
        base = make(9)["x"]
        rates = -torch.ones(4, 2).double()
        maps = base.unflatten(2, (2, 2))
        y = selective_scan(base, base.sin(), rates, maps, maps.cos(), dt_softplus=True, backend=choice)
        (slope,) = torch.autograd.grad(y.square().sum(), base, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), base)[0]

    torch.testing.assert_close(penalty(backend), penalty("naive"), **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_linear_in_x_and_the_initial_state(backend):
    a, b = make(40, seed=0), make(40, seed=1)
    shared = {name: a[name] for name in NAMES if name not in ("x", "initial_state")}
    shared |= {"dt_softplus": True, "backend": backend}
    mixed = [2 * a[name] - b[name] for name in ("x", "initial_state")]
    whole = selective_scan(mixed[0], initial_state=mixed[1], **shared)
    parts = [selective_scan(v["x"], initial_state=v["initial_state"], **shared) for v in (a, b)]
    torch.testing.assert_close(whole, 2 * parts[0] - parts[1], **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
@pytest.mark.parametrize("token", [0, 16, 39])
def test_causality(backend, token):
    values, other = make(40), make(40, seed=7)
    fixed = {name: values[name] for name in NAMES if name not in SEQUENCES}
    changed = {k: torch.cat([values[k][:, :token], other[k][:, token:]], dim=1) for k in SEQUENCES}
    first, second = (
        selective_scan(**(values | change), dt_softplus=True, backend=backend) for change in ({}, changed | fixed)
    )
    torch.testing.assert_close(first[:, :token], second[:, :token], **TOLERANCE)
    assert not torch.isclose(first[:, token:], second[:, token:]).any()


@pytest.mark.parametrize("backend", LAWS)
def test_with_r_of_one_a_token_sees_only_those_before_it(backend):
    values = make(20, without=("D",))
    values["R"] = torch.ones_like(values["R"])
    changed = values["x"].detach().clone()
    changed[:, 11] += 3.0
    first, second = (
        selective_scan(**(values | {"x": x}), dt_softplus=True, backend=backend) for x in (values["x"], changed)
    )
    torch.testing.assert_close(first[:, :12], second[:, :12], **TOLERANCE)
    assert not torch.isclose(first[:, 12:], second[:, 12:]).any()
    values["D"] = torch.full((4,), 2.0).double()
    third = selective_scan(**(values | {"x": changed}), dt_softplus=True, backend=backend)
    torch.testing.assert_close(third - second, 2.0 * changed, **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_y_is_linear_in_r(backend):
    values = make(20)

    def scan(share):
        return selective_scan(**(values | {"R": share}), dt_softplus=True, backend=backend)

    ones, share = torch.ones_like(values["R"]), 0.3
    expected = (1 - share) * scan(None) + share * scan(ones)
    torch.testing.assert_close(scan(share * ones), expected, **TOLERANCE)
    torch.testing.assert_close(scan(0 * ones), scan(None), **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
@pytest.mark.parametrize("length", [200])
def test_reversal(backend, length):
    values = make(length)
    flipped = {k: v.flip(1) if k in SEQUENCES else v for k, v in values.items()}
    options = {"dt_softplus": True, "return_final_state": True, "backend": backend}
    y, state = selective_scan(**values, **options, reverse=True)
    y_flipped, state_flipped = selective_scan(**flipped, **options)
    torch.testing.assert_close((y, state), (y_flipped.flip(1), state_flipped), **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("cut", "reverse"), [(1, True), (64, False)])
def test_concatenation(backend, cut, reverse):
    values = make(200)
    fixed = {name: values[name] for name in ("A", "D", "dt_bias", "R")}
    fixed |= {"reverse": reverse, "dt_softplus": True, "return_final_state": True, "backend": backend}
    sequences = {name: values[name] for name in SEQUENCES}
    y, end = selective_scan(**sequences, **fixed, initial_state=values["initial_state"])
    parts = [slice(None, cut), slice(cut, None)][:: -1 if reverse else 1]
    state, ys = values["initial_state"], []
    for part in parts:
        one, state = selective_scan(**{k: v[:, part] for k, v in sequences.items()}, **fixed, initial_state=state)
        ys.append(one)
    torch.testing.assert_close((torch.cat(ys[:: -1 if reverse else 1], dim=1), state), (y, end), **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_impulse_response_of_constant_coefficients(backend):
    length, step = 150, 0.25
    rates, b, c = (torch.tensor([v]).double() for v in ([-0.125, -1.0], [2.0, -1.0], [0.5, 3.0]))
    x = torch.zeros(1, length, 1).double()
    x[:, 0] = 1.0
    maps = [values.expand(1, length, 1, 2) for values in (b, c)]
    y = selective_scan(x, torch.full_like(x, step), rates, *maps, backend=backend)
    elapsed = torch.arange(length).double()[:, None] * step
    expected = (c * b * step * torch.exp(elapsed * rates)).sum(-1)
    torch.testing.assert_close(y.flatten(), expected, **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_equals_the_ssd_scan_where_the_states_share_their_decay(backend):
    values = make(50, groups=1, without=("dt_bias", "R"))
    step, rates = softplus(values["dt"]), values["A"][:, :1]
    y, state = selective_scan(
        **(values | {"dt": step, "A": rates.expand(-1, 5)}), return_final_state=True, backend=backend
    )
    fast, end = ssd_scan(
        values["x"].unsqueeze(-1),
        step,
        rates.squeeze(-1),
        values["B"],
        values["C"],
        values["D"],
        initial_state=values["initial_state"].unsqueeze(2),
        return_final_state=True,
    )
    torch.testing.assert_close((y, state), (fast.squeeze(-1), end.squeeze(2)), **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("reverse", "dt_softplus"), [(False, True), ((False, True), False)])
def test_padding_changes_nothing_whatever_it_holds(backend, reverse, dt_softplus):
    values = make(50)
    if not dt_softplus:
        values |= {"dt": values["dt"].detach().exp().requires_grad_(), "dt_bias": None}
    padded = dict(values)
    for name in SEQUENCES:
        padded[name] = pad(values[name], (0, 0) * (values[name].ndim - 2) + (3, 20), value=torch.nan)
    mask = pad(torch.ones(2, 50, dtype=torch.bool), (3, 20))
    options = {"reverse": reverse, "dt_softplus": dt_softplus, "return_final_state": True, "backend": backend}
    expected = selective_scan(**values, **options)
    y, state = selective_scan(**padded, mask=mask, **options)
    torch.testing.assert_close((y[:, 3:53], state), expected, **TOLERANCE)
    assert (y[~mask] == 0).all()
    got = gradients(values, (y[:, 3:53], state))
    torch.testing.assert_close(got, gradients(values, expected), **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_a_fully_masked_sample_keeps_its_state(backend):
    values = make(10)
    mask = torch.tensor([[True], [False]]).expand(2, 10)
    y, state = selective_scan(**values, mask=mask, dt_softplus=True, return_final_state=True, backend=backend)
    torch.testing.assert_close(state[1], values["initial_state"][1], rtol=0, atol=0)
    assert (y[1] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_strided_arguments(backend):
    values = make(70)
    strided = {k: v.detach().transpose(0, -1).contiguous().transpose(0, -1) for k, v in values.items()}
    y = selective_scan(**strided, dt_softplus=True, backend=backend)
    torch.testing.assert_close(y, selective_scan(**values, dt_softplus=True, backend="naive").detach(), **TOLERANCE)
    shared = values["x"][:, :1].detach().expand(-1, 70, -1)
    y, expected = (
        selective_scan(**(values | {"x": shared}), dt_softplus=True, backend=choice) for choice in (backend, "naive")
    )
    torch.testing.assert_close(y, expected, **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_float32_error_on_a_long_sequence(backend):
    values = make(4096, batch=1, dtype=torch.float32)
    exact = {name: value.detach().double().requires_grad_() for name, value in values.items()}
    y = selective_scan(**values, dt_softplus=True, backend=backend)
    reference = selective_scan(**exact, dt_softplus=True, backend="torch")
    cotangent = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
    got = torch.autograd.grad(y, list(values.values()), cotangent)
    expected = torch.autograd.grad(reference, list(exact.values()), cotangent.double())
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
    options = {"dt_softplus": True, "return_final_state": True, "backend": backend}
    (y, state), (y_wide, state_wide) = (selective_scan(**v, **options) for v in (values, wide))
    assert y.dtype == dtype
    assert state.dtype == torch.float32
    torch.testing.assert_close(y, y_wide.to(dtype))
    torch.testing.assert_close(state, state_wide, rtol=1e-5, atol=1e-5)
    for grad, value in zip(gradients(values, [y]), values.values(), strict=True):
        assert grad.dtype == dtype
        assert grad.shape == value.shape


@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast_has_no_influence(backend):
    values = make(70, dtype=torch.float32)
    options = {"dt_softplus": True, "backend": backend}
    expected = selective_scan(**values, **options)
    grads = torch.autograd.grad(expected.sum(), list(values.values()))
    with torch.autocast("cpu", torch.bfloat16):
        y = selective_scan(**values, **options)
        inside = torch.autograd.grad(y.sum(), list(values.values()))
    torch.testing.assert_close((y, *inside), (expected, *grads), rtol=0, atol=0)


def test_a_first_call_under_inference_mode_bars_nothing():
    values = make(77)
    path_table.cache_clear()
    with torch.inference_mode():
        inside = selective_scan(**values, dt_softplus=True)
    assert not path_table(77, (False, False), torch.device("cpu")).is_inference()
    y = selective_scan(**values, dt_softplus=True)
    torch.testing.assert_close(inside.clone(), y, rtol=0, atol=0)
    assert all(grad.isfinite().all() for grad in gradients(values, [y]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("length", [40, 200])
def test_strong_decay_neither_overflows_nor_loses_the_own_token(backend, length):
    values = make(length, dtype=torch.float32, without=("D", "R", "dt_bias", "initial_state"))
    values["dt"] = torch.full_like(values["dt"], 50.0).requires_grad_()
    values["A"] = torch.full_like(values["A"], -1.0).requires_grad_()
    y = selective_scan(**values, backend=backend)
    own = torch.einsum("blgn,blgn->blg", values["B"], values["C"]).repeat_interleave(2, dim=2)
    torch.testing.assert_close(y, 50.0 * own * values["x"], rtol=1e-5, atol=1e-3)
    assert all(grad.isfinite().all() for grad in gradients(values, [y]))


@pytest.mark.parametrize("backend", LAWS)
def test_weak_decay_adds_up_the_inputs(backend):
    length = 300
    x = torch.ones(1, length, 1)
    maps = x.unsqueeze(-1)
    y = selective_scan(x, 1e-3 * x, torch.tensor([[-1e-6]]), maps, maps, backend=backend)
    torch.testing.assert_close(y.flatten(), torch.arange(1, length + 1) * 1e-3, rtol=1e-5, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_is_not_lost(backend):
    for name in NAMES:
        values = {k: v.detach().clone() for k, v in make(100).items()}
        values[name].view(-1)[-1] = torch.nan
        y, state = selective_scan(**values, dt_softplus=True, return_final_state=True, backend=backend)
        assert y[-1, -1].isnan().any()
        if name not in ("C", "D", "R"):
            assert state[-1].isnan().any()


BAD = [
    ({"x": torch.ones(2, 3, 4, 1)}, r"x has shape \(2, 3, 4, 1\); expected \(batch, length, channels\)"),
    ({"x": torch.ones(2, 0, 4)}, "none of them 0"),
    ({"dt": torch.ones(2, 5)}, r"dt has shape \(2, 5\); expected \(batch, length, channels\) = \(2, 5, 4\)"),
    ({"A": torch.ones(4)}, r"A has shape \(4,\); expected \(channels, d_state\) = \(4, 5\)"),
    ({"B": torch.ones(2, 5, 10)}, r"B has shape .* expected \(batch, length, groups, d_state\)"),
    ({"B": torch.ones(2, 6, 2, 5)}, r"B has shape .* = \(2, 5, 2, 5\)"),
    ({"B": torch.ones(2, 5, 3, 5)}, "x has 4 channels and B has 3 groups"),
    ({"C": torch.ones(2, 5, 2, 4)}, r"C has shape .* d_state\) = \(2, 5, 2, 5\)"),
    ({"D": torch.ones(3)}, r"D has shape \(3,\); expected \(channels,\) = \(4,\)"),
    ({"dt_bias": torch.ones(3)}, r"dt_bias has shape \(3,\); expected \(channels,\) = \(4,\)"),
    ({"R": torch.ones(4)}, r"R has shape \(4,\); expected \(channels, d_state\) = \(4, 5\)"),
    ({"initial_state": torch.ones(2, 5, 4)}, r"initial_state has shape .* = \(2, 4, 5\)"),
    ({"mask": torch.ones(2, 4, dtype=torch.bool)}, r"mask has shape \(2, 4\)"),
    ({"mask": torch.ones(2, 5)}, "mask has dtype torch.float32; expected torch.bool"),
    ({"dt": torch.ones(2, 5, 4, dtype=torch.int64)}, "dt has dtype torch.int64"),
    ({"R": torch.ones(4, 5, dtype=torch.complex64)}, "R has dtype torch.complex64"),
    ({"A": torch.ones(4, 5, device="meta")}, "A is on meta; expected cpu, where x is"),
    ({"reverse": (True,)}, "reverse is .* one for each of the 2 groups"),
    ({"reverse": (1, 0)}, "reverse is"),
    ({"backend": "fast"}, "backend is 'fast'; expected None or one of"),
]


def test_errors_name_the_argument():
    for change, message in BAD:
        with pytest.raises(ValueError, match=message):
            selective_scan(**(make(5) | change))
