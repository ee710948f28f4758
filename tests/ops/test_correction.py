"""The places of GeoMaNO's correction R: against the formulas written out, and where they must agree."""

import numpy as np
import pytest
import torch
from scan_problems import TOKENS, TOLERANCE, gradients, holes, make, run

from skop.ops import CORRECTIONS, selective_scan

FORMS = [("paths", "torch"), ("paths", "numba"), ("plane", "torch"), ("plane", "numba"), ("space", "torch")]
forms = pytest.mark.parametrize(("scan", "backend"), FORMS)
LITERAL = CORRECTIONS[1:]


def small(scan, **options):
    """A problem of few tokens, without an initial state."""
    tokens = {"paths": (6,), "space": (2, 3, 2)}.get(scan, (3, 4))
    return make(scan, *tokens, k=2, without=("initial_state", *options.pop("without", ())), **options)


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


@pytest.mark.parametrize(("scan", "backend"), [*FORMS, ("paths", "naive"), ("plane", "naive"), ("space", "naive")])
def test_printed_formulas(scan, backend):
    for correction, masked in zip(LITERAL, (True, False), strict=True):
        values, order = small(scan)
        mask = holes(*values["x"].shape[1:-1]) if masked else None
        got = run(scan, values, backend, mask=mask, correction=correction, **order)
        taken = printed(correction, *(values[key] for key in ("x", "dt", "B", "C", "dt_bias", "R")))
        taken = taken if mask is None else taken * mask.unsqueeze(-1)
        y, *rest = run(scan, values | {"R": None}, "naive", mask=mask, **order)
        torch.testing.assert_close(got, (y - taken, *rest), **TOLERANCE)


@pytest.mark.parametrize("backend", ["naive", "torch", "numba"])
def test_printed_recurrence_of_a_sequence(backend):
    """Eq. 9 and line 24 of Algorithm 2, written out; two groups of channels, one of them reversed."""
    generator, (length, channels, states) = torch.Generator().manual_seed(3), (5, 4, 2)
    x, dt, bias = (torch.randn(shape, generator=generator).double() for shape in [(length, 4), (length, 4), (4,)])
    B, C = (torch.randn(length, 2, states, generator=generator).double() for _ in range(2))
    A, R, start = (torch.rand(channels, states, generator=generator).double() for _ in range(3))
    reverse = (False, True)
    options = {"dt_bias": bias, "dt_softplus": True, "reverse": reverse}
    options |= {"initial_state": start[None], "return_final_state": True}
    given = x[None], dt[None], -A, B[None], C[None]
    _, same = selective_scan(*given, **options, backend="naive")
    for correction in CORRECTIONS:
        expected = np.zeros((length, channels))
        for c in range(channels):
            group, h = c // 2, start[c].numpy()
            for t in range(length)[:: -1 if reverse[group] else 1]:
                step = np.log(1 + np.exp((dt[t, c] + bias[c]).item()))
                u, b, out = x[t, c].item(), B[t, group].numpy(), C[t, group].numpy()
                h = np.exp(-step * A[c].numpy()) * h + step * b * u
                terms = {"state": out * step * b * u, "output": step * b * u, "input": out * u}
                expected[t, c] = (out * h - R[c].numpy() * terms[correction]).sum()
        y, end = selective_scan(*given, **options, R=R, correction=correction, backend=backend)
        torch.testing.assert_close(y[0], torch.from_numpy(expected), **TOLERANCE)
        torch.testing.assert_close(end, same, **TOLERANCE)  # what y sees has no influence on the state


@forms
def test_places_differ_and_agree_where_what_is_left_out_is_one(scan, backend):
    """Eqs. 9 and 10 leave out C, Algorithm 2 leaves out dt' B; the state is the default; without R all are the same."""
    values, order = small(scan)
    ys = {correction: run(scan, values, backend, correction=correction, **order)[0] for correction in CORRECTIONS}
    torch.testing.assert_close(run(scan, values, backend, **order)[0], ys["state"], rtol=0, atol=0)
    for first, second in (("state", "output"), ("state", "input"), ("output", "input")):
        assert not torch.isclose(ys[first], ys[second]).any()
    for correction, unit in (("output", "C"), ("input", "B")):
        values, order = small(scan, without=("dt_bias",))
        values[unit] = torch.ones_like(values[unit])
        values["dt"] = torch.ones_like(values["dt"]) if unit == "B" else values["dt"].detach().exp()
        options = {"dt_softplus": False, **order}
        first, second = (run(scan, values, backend, correction=c, **options) for c in (correction, "state"))
        torch.testing.assert_close(first, second, **TOLERANCE)
        first, second = (
            run(scan, values | {"R": None}, backend, correction=c, **options) for c in (correction, "state")
        )
        torch.testing.assert_close(first, second, rtol=0, atol=0)


@forms
def test_what_masked_tokens_hold_changes_nothing(scan, backend):
    for correction in LITERAL:
        values, order = small(scan)
        mask, spoiled = holes(*values["x"].shape[1:-1]), dict(values)
        for key in TOKENS:
            hidden = ~mask.view(*mask.shape, *(1,) * (values[key].ndim - mask.ndim))
            spoiled[key] = values[key].detach().masked_fill(hidden, torch.nan).requires_grad_()
        options = {"mask": mask, "correction": correction, **order}
        for softplus in (True, False):
            given = [v if softplus else v | {"dt": v["dt"].detach().exp().requires_grad_()} for v in (spoiled, values)]
            found, expected = (run(scan, v, backend, **options, dt_softplus=softplus) for v in given)
            torch.testing.assert_close(found, expected, **TOLERANCE)
            assert (found[0][~mask] == 0).all()
            torch.testing.assert_close(gradients(given[0], found), gradients(given[1], expected), **TOLERANCE)


@forms
def test_gradients(scan, backend):
    """Against finite differences, by way of a few numbers that each argument is scaled and moved by."""
    (values, order), (moves, _) = (small(scan, b=1, c=2, n=2, seed=seed) for seed in (0, 1))
    values = {key: value for key, value in values.items() if value is not None}
    for correction in LITERAL:

        def function(*shifts, correction=correction):
            moved = {k: values[k].detach() + s * moves[k].detach() for k, s in zip(values, shifts, strict=True)}
            return run(scan, moved, backend, correction=correction, **order)

        shifts = tuple(torch.zeros((), dtype=torch.float64, requires_grad=True) for _ in values)
        assert torch.autograd.gradcheck(function, shifts)
        assert torch.autograd.gradgradcheck(function, shifts, fast_mode=True)


@forms
def test_low_precision_is_computed_in_float32(scan, backend):
    for correction in LITERAL:
        values, order = small(scan, dtype=torch.bfloat16)
        wide = {key: None if value is None else value.detach().float() for key, value in values.items()}
        (y, *_), (exact, *_) = (run(scan, v, backend, correction=correction, **order) for v in (values, wide))
        torch.testing.assert_close(y, exact.to(torch.bfloat16), rtol=0, atol=0)
        held = [value for value in values.values() if value is not None]
        for grad, value in zip(gradients(values, [y]), held, strict=True):
            assert (grad.dtype, grad.shape) == (value.dtype, value.shape)
        leaves = {key: None if value is None else value.requires_grad_() for key, value in wide.items()}
        expected = run(scan, leaves, backend, correction=correction, **order)
        with torch.autocast("cpu", torch.bfloat16):  # which has no influence
            found = run(scan, leaves, backend, correction=correction, **order)
            grads = gradients(leaves, found)
        torch.testing.assert_close((*found, *grads), (*expected, *gradients(leaves, expected)), rtol=0, atol=0)
