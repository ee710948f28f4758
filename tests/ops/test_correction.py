"""The places of GeoMaNO's correction R: against the formulas written out, and where they must agree."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from skop.ops import CORRECTIONS, selective_scan, selective_scan_2d, selective_scan_3d

TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}
PATHS = torch.tensor([[3, 0, 5, 1, 4, 2], [0, 1, 2, 3, 4, 5]])
#: For each operation: the scan, its backends, and the axes of its tokens; two paths or directions each.
SCANS = {
    "path": (partial(selective_scan, paths=PATHS), ("naive", "torch", "numba"), (6,)),
    "2d": (partial(selective_scan_2d, directions=((2, 1), (-1, 2))), ("naive", "torch", "numba"), (3, 4)),
    "3d": (partial(selective_scan_3d, directions=((3, 2, 1), (-1, -3, 2))), ("naive", "torch"), (2, 3, 2)),
}
EACH = [(name, backend) for name, (_, backends, _) in SCANS.items() for backend in backends]
LITERAL = CORRECTIONS[1:]
#: All but the slow reference, with one correction each: both with each scan.
FAST = [
    ("path", "torch", "output"),
    ("path", "numba", "input"),
    ("2d", "torch", "input"),
    ("2d", "numba", "output"),
    ("3d", "torch", "output"),
]


def make(name, *, batch=2, channels=3, d_state=4, dtype=torch.float64, seed=0, without=()):
    """Random arguments of a scan with a softplus, by name; they are leaves that need gradients."""
    tokens, generator = SCANS[name][2], torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    values = {
        "x": normal(batch, *tokens, channels),
        "dt": normal(batch, *tokens, 2, channels),
        "A": -0.1 - softplus(normal(2, channels, d_state)),
        "B": normal(batch, *tokens, 2, d_state),
        "C": normal(batch, *tokens, 2, d_state),
        "D": normal(2, channels),
        "dt_bias": normal(2, channels),
        "R": torch.rand(2, channels, d_state, generator=generator, dtype=torch.float64),
    }
    return {k: None if k in without else v.to(dtype).requires_grad_() for k, v in values.items()}


def some_mask(name):
    """Mask of two samples with single tokens missing."""
    mask = torch.ones(2, *SCANS[name][2], dtype=torch.bool)
    mask.view(2, -1)[0, ::2] = False
    mask.view(2, -1)[1, 1] = False
    return mask


def gradients(values, y):
    """Gradients of all tensors for a random cotangent of the output."""
    cotangent = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    return torch.autograd.grad(y, [value for value in values.values() if value is not None], cotangent)


def printed(correction, x, dt, B, C, dt_bias, R):
    """What is taken off y as printed, one number at a time: R dt' B x, or C R x, summed over the states and paths."""
    x, dt, B, C, dt_bias, R = (v.detach().numpy() for v in (x, dt, B, C, dt_bias, R))
    taken = np.zeros_like(x)
    for *token, c in np.ndindex(*x.shape):
        for k, n in np.ndindex(R.shape[0], R.shape[2]):
            step = np.log(1 + np.exp(dt[(*token, k, c)] + dt_bias[k, c]))
            factor = step * B[(*token, k, n)] if correction == "output" else C[(*token, k, n)]
            taken[(*token, c)] += R[k, c, n] * factor * x[(*token, c)]
    return torch.from_numpy(taken)


@pytest.mark.parametrize(("name", "backend"), EACH)
@pytest.mark.parametrize("correction", LITERAL)
def test_printed_formulas(name, backend, correction):
    masked = (correction == "output") == (backend == "numba")
    values, scan = make(name), SCANS[name][0]
    mask = some_mask(name) if masked else None
    options = {"mask": mask, "dt_softplus": True}
    got = scan(**values, **options, correction=correction, backend=backend)
    taken = printed(correction, *(values[key] for key in ("x", "dt", "B", "C", "dt_bias", "R")))
    taken = taken if mask is None else taken * mask.unsqueeze(-1)
    expected = scan(**(values | {"R": None}), **options, backend="naive") - taken
    torch.testing.assert_close(got, expected, **TOLERANCE)


@pytest.mark.parametrize("backend", ["naive", "torch", "numba"])
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_printed_recurrence_of_a_sequence(backend, correction):
    """Eq. 9 and line 24 of Algorithm 2, written out; two groups of channels, one of them reversed."""
    generator, (length, channels, states) = torch.Generator().manual_seed(3), (5, 4, 2)
    x, dt, bias = (torch.randn(shape, generator=generator).double() for shape in [(length, 4), (length, 4), (4,)])
    B, C = (torch.randn(length, 2, states, generator=generator).double() for _ in range(2))
    A, R, start = (torch.rand(channels, states, generator=generator).double() for _ in range(3))
    expected, reverse = np.zeros((length, channels)), (False, True)
    for c in range(channels):
        group, h = c // 2, start[c].numpy()
        for t in range(length)[:: -1 if reverse[group] else 1]:
            step = np.log(1 + np.exp((dt[t, c] + bias[c]).item()))
            u, b, out = x[t, c].item(), B[t, group].numpy(), C[t, group].numpy()
            h = np.exp(-step * A[c].numpy()) * h + step * b * u
            terms = {"state": out * step * b * u, "output": step * b * u, "input": out * u}
            expected[t, c] = (out * h - R[c].numpy() * terms[correction]).sum()
    options = {"dt_bias": bias, "dt_softplus": True, "R": R, "correction": correction, "reverse": reverse}
    sequence = (value.unsqueeze(0) for value in (x, dt))
    y, end = selective_scan(
        *sequence, -A, B[None], C[None], **options, initial_state=start[None], return_final_state=True, backend=backend
    )
    torch.testing.assert_close(y[0], torch.from_numpy(expected), **TOLERANCE)
    plain = {"initial_state": start[None], "return_final_state": True, "reverse": reverse, "dt_softplus": True}
    _, same = selective_scan(x[None], dt[None], -A, B[None], C[None], dt_bias=bias, **plain, backend="naive")
    torch.testing.assert_close(end, same, **TOLERANCE)  # what y sees has no influence on the state


@pytest.mark.parametrize("name", SCANS)
def test_the_three_places_differ_and_the_state_is_the_default(name):
    values, scan = make(name), SCANS[name][0]
    ys = {correction: scan(**values, dt_softplus=True, correction=correction) for correction in CORRECTIONS}
    torch.testing.assert_close(scan(**values, dt_softplus=True), ys["state"], rtol=0, atol=0)
    assert not torch.isclose(ys["state"], ys["output"]).any()
    assert not torch.isclose(ys["state"], ys["input"]).any()
    assert not torch.isclose(ys["output"], ys["input"]).any()


@pytest.mark.parametrize(("name", "backend", "correction"), FAST)
def test_places_agree_where_what_is_left_out_is_one(name, backend, correction):
    """Eqs. 9 and 10 leave out C, Algorithm 2 leaves out dt' B."""
    values, scan, unit = make(name, without=("dt_bias",)), SCANS[name][0], {"output": "C", "input": "B"}[correction]
    values[unit] = torch.ones_like(values[unit])
    values["dt"] = torch.ones_like(values["dt"]) if unit == "B" else values["dt"].detach().exp()
    first, second = (scan(**values, correction=place, backend=backend) for place in (correction, "state"))
    torch.testing.assert_close(first, second, **TOLERANCE)


@pytest.mark.parametrize("dt_softplus", [True, False])
@pytest.mark.parametrize(("name", "backend", "correction"), FAST)
def test_what_masked_tokens_hold_changes_nothing(name, backend, correction, dt_softplus):
    values, mask, scan = make(name), some_mask(name), SCANS[name][0]
    spoiled = dict(values)
    for key in ("x", "dt", "B", "C"):
        hidden = ~mask.view(*mask.shape, *(1,) * (values[key].ndim - mask.ndim))
        spoiled[key] = values[key].detach().masked_fill(hidden, torch.nan).requires_grad_()
    options = {"mask": mask, "dt_softplus": dt_softplus, "correction": correction, "backend": backend}
    y, expected = scan(**spoiled, **options), scan(**values, **options)
    torch.testing.assert_close(y, expected, **TOLERANCE)
    assert (y[~mask] == 0).all()
    torch.testing.assert_close(gradients(spoiled, y), gradients(values, expected), **TOLERANCE)


@pytest.mark.parametrize(("name", "backend", "correction"), FAST)
def test_gradients(name, backend, correction):
    """Against finite differences, by way of a few numbers that each argument is scaled and moved by."""
    values = {key: value.detach() for key, value in make(name, batch=1, channels=2, d_state=2).items()}
    moves = make(name, batch=1, channels=2, d_state=2, seed=1)

    def scan(*shifts):
        moved = {key: values[key] + shift * moves[key].detach() for key, shift in zip(values, shifts, strict=True)}
        return SCANS[name][0](**moved, dt_softplus=True, correction=correction, backend=backend)

    shifts = tuple(torch.zeros((), dtype=torch.float64, requires_grad=True) for _ in values)
    assert torch.autograd.gradcheck(scan, shifts)
    assert torch.autograd.gradgradcheck(scan, shifts)


@pytest.mark.parametrize(("name", "correction"), [("path", "output"), ("2d", "input"), ("3d", "output")])
def test_without_r_there_is_no_correction(name, correction):
    values, scan = make(name, without=("R",)), SCANS[name][0]
    first, second = (scan(**values, dt_softplus=True, correction=place) for place in (correction, "state"))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize(("name", "backend", "correction"), FAST)
def test_bfloat16_is_computed_in_float32(name, backend, correction):
    values, scan = make(name, dtype=torch.bfloat16), SCANS[name][0]
    wide = {key: value.detach().float() for key, value in values.items()}
    options = {"dt_softplus": True, "correction": correction, "backend": backend}
    y, exact = scan(**values, **options), scan(**wide, **options)
    torch.testing.assert_close(y, exact.to(torch.bfloat16), rtol=0, atol=0)
    for grad, value in zip(gradients(values, y), values.values(), strict=True):
        assert grad.dtype == value.dtype
        assert grad.shape == value.shape


@pytest.mark.parametrize(("name", "correction"), [("path", "input"), ("2d", "output"), ("3d", "input")])
def test_autocast_has_no_influence(name, correction):
    values, scan = make(name, dtype=torch.float32), SCANS[name][0]
    expected = scan(**values, dt_softplus=True, correction=correction)
    grads = gradients(values, expected)
    with torch.autocast("cpu", torch.bfloat16):
        y = scan(**values, dt_softplus=True, correction=correction)
        inside = gradients(values, y)
    torch.testing.assert_close((y, *inside), (expected, *grads), rtol=0, atol=0)


@pytest.mark.parametrize(("name", "without"), [("path", ()), ("2d", ("R",)), ("3d", ())])
def test_other_words_are_refused(name, without):
    with pytest.raises(ValueError, match=r"correction is 'State'; expected one of \('state', 'output', 'input'\)"):
        SCANS[name][0](**make(name, without=without), correction="State")
