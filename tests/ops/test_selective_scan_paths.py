"""The sum over scan paths: against its definition, single scans, and its laws."""

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from skop.ops import selective_scan

BACKENDS = ("torch", "numba")
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}
NAMES = ("x", "dt", "A", "B", "C", "D", "dt_bias", "R")


def make(length, *, batch=2, n_paths=3, channels=4, d_state=3, without=(), seed=0, dtype=torch.float64):
    """Random arguments of a scan with a softplus and the paths; the floating ones are leaves."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    values = {
        "x": normal(batch, length, channels),
        "dt": normal(batch, length, n_paths, channels),
        "A": -0.1 - softplus(normal(n_paths, channels, d_state)),
        "B": normal(batch, length, n_paths, d_state),
        "C": normal(batch, length, n_paths, d_state),
        "D": normal(n_paths, channels),
        "dt_bias": normal(n_paths, channels),
        "R": torch.rand(n_paths, channels, d_state, generator=generator, dtype=torch.float64),
    }
    paths = torch.stack([torch.randperm(length, generator=generator) for _ in range(n_paths)])
    return {k: None if k in without else v.to(dtype).requires_grad_() for k, v in values.items()}, paths


def numpy_scan(x, dt, A, B, C, D, dt_bias, R, paths, mask):
    """The definition, one number at a time."""
    x, dt, A, B, C, D, dt_bias, R = (v.detach().numpy() for v in (x, dt, A, B, C, D, dt_bias, R))
    y = np.zeros_like(x)
    for b, k, c, n in np.ndindex(len(x), *A.shape):
        state = 0.0
        for t in paths[k].tolist():
            if not mask[b, t]:
                continue
            step = np.log(1 + np.exp(dt[b, t, k, c] + dt_bias[k, c]))
            update = step * B[b, t, k, n] * x[b, t, c]
            state = np.exp(step * A[k, c, n]) * state + update
            y[b, t, c] += C[b, t, k, n] * (state - R[k, c, n] * update)
    return torch.from_numpy(y + D.sum(0) * x * mask[..., None].numpy())


def gradients(values, y):
    """Gradients of all tensors for a random cotangent of the output."""
    cotangent = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    return torch.autograd.grad(y, [value for value in values.values() if value is not None], cotangent)


def some_mask(length):
    """Mask of two samples with single tokens missing and a whole end."""
    mask = torch.ones(2, length, dtype=torch.bool)
    mask[0, length // 2 :] = False
    mask[1, ::3] = False
    return mask


@pytest.mark.parametrize("backend", ["naive", *BACKENDS])
def test_definition_in_numpy(backend):
    values, paths = make(9)
    mask = some_mask(9)
    got = selective_scan(**values, paths=paths, mask=mask, dt_softplus=True, backend=backend)
    torch.testing.assert_close(got, numpy_scan(**values, paths=paths, mask=mask), **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("length", "n_paths", "masked", "without", "dt_softplus"), [
    (1, 2, False, (), True),
    (33, 1, True, ("D",), False),
    (70, 4, True, ("dt_bias", "R"), True),
    (150, 2, False, (), False),
])  # fmt: skip
def test_equals_the_reference(backend, length, n_paths, masked, without, dt_softplus):
    values, paths = make(length, n_paths=n_paths, without=without)
    if not dt_softplus:
        values |= {"dt": softplus(values["dt"].detach()).requires_grad_(), "dt_bias": None}
    options = {"paths": paths, "mask": some_mask(length) if masked else None, "dt_softplus": dt_softplus}
    fast, slow = (selective_scan(**values, **options, backend=choice) for choice in (backend, "naive"))
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    torch.testing.assert_close(gradients(values, fast), gradients(values, slow), **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_equals_the_sum_of_single_scans(backend):
    values, paths = make(40)
    whole = selective_scan(**values, paths=paths, dt_softplus=True, backend=backend)
    total = torch.zeros_like(whole)
    for k, path in enumerate(paths):
        back = path.argsort()
        own = {name: values[name][k] for name in ("A", "D", "dt_bias", "R")}
        maps = {name: values[name][:, path, k].unsqueeze(2) for name in ("B", "C")}
        single = selective_scan(
            values["x"][:, path], values["dt"][:, path, k], **own, **maps, dt_softplus=True, backend="naive"
        )
        total = total + single[:, back]
    torch.testing.assert_close(whole, total, **TOLERANCE)


@pytest.mark.parametrize("backend", ["naive", *BACKENDS])
def test_states_are_carried_from_one_part_of_the_paths_to_the_next(backend):
    """Two scans, of the tokens that the paths visit first and of the others, are one."""
    values, _ = make(20, without=("D",))
    paths = torch.cat([torch.randperm(12) for _ in range(3)]).view(3, 12), torch.rand(3, 8).argsort(1)
    first, then = (
        {k: v[:, part] if k in ("x", "dt", "B", "C") else v for k, v in values.items()}
        for part in (slice(None, 12), slice(12, None))
    )
    options = {"dt_softplus": True, "backend": backend, "return_final_state": True}
    y, state = selective_scan(**first, paths=paths[0], **options)
    assert state.shape == (2, 3, 4, 3)
    z, last = selective_scan(**then, paths=paths[1], initial_state=state, **options)
    whole = selective_scan(**values, paths=torch.cat([paths[0], paths[1] + 12], dim=1), **options)
    torch.testing.assert_close((torch.cat([y, z], dim=1), last), whole, **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_relabelling_the_tokens_relabels_the_output(backend):
    values, paths = make(40)
    names = torch.randperm(40, generator=torch.Generator().manual_seed(5))
    moved = {k: v[:, names] if k in ("x", "dt", "B", "C") else v for k, v in values.items()}
    first = selective_scan(**values, paths=paths, dt_softplus=True, backend=backend)
    second = selective_scan(**moved, paths=names.argsort()[paths], dt_softplus=True, backend=backend)
    torch.testing.assert_close(second, first[:, names], **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_causality_along_each_path(backend):
    values, paths = make(12, n_paths=1, without=("D",))
    values["R"] = torch.ones_like(values["R"])
    changed = values["x"].detach().clone()
    changed[:, paths[0, 6]] += 1.0
    first, second = (
        selective_scan(**(values | {"x": x}), paths=paths, dt_softplus=True, backend=backend)
        for x in (values["x"], changed)
    )
    influenced = ~torch.isclose(first, second, **TOLERANCE).all(dim=(0, 2))
    assert sorted(influenced.nonzero().flatten().tolist()) == sorted(paths[0, 7:].tolist())


#: Rows, rows backwards, columns and columns backwards of the grid of 3 x 3 tokens in section 4.3 of GeoMaNO.
CROSS = torch.tensor(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8],
        [8, 7, 6, 5, 4, 3, 2, 1, 0],
        [0, 3, 6, 1, 4, 7, 2, 5, 8],
        [8, 5, 2, 7, 4, 1, 6, 3, 0],
    ]
)


def weights_of(token, paths, backend, *, decay=0.5, shares=None):
    """What each token of the grid adds to the output of one, with constant coefficients, and dt' B = 3."""
    x = torch.zeros(1, 9, 1, dtype=torch.float64, requires_grad=True)
    one = torch.ones(1, 9, len(paths), 1, dtype=torch.float64)
    rates = torch.full((len(paths), 1, 1), decay, dtype=torch.float64).log()
    R = None if shares is None else torch.tensor(shares, dtype=torch.float64).view(-1, 1, 1)
    y = selective_scan(x, one, rates, 3.0 * one, one, paths=paths, R=R, backend=backend)
    (weights,) = torch.autograd.grad(y[0, token, 0], x)
    return weights.flatten()


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_of_the_paper(backend):
    """GeoMaNO, Eqs. 24 and 25: the last state of a grid of 3 x 3 tokens in a row."""
    expected = 3.0 * 0.5 ** torch.arange(8, -1, -1).double()
    torch.testing.assert_close(weights_of(8, CROSS[:1], backend), expected, **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_four_paths_over_a_grid(backend):
    """GeoMaNO, section 4.3: the powers of A in the four states of the token in the middle, and their sum."""
    powers = [
        {0: 4, 1: 3, 2: 2, 3: 1, 4: 0},
        {8: 4, 7: 3, 6: 2, 5: 1, 4: 0},
        {0: 4, 3: 3, 6: 2, 1: 1, 4: 0},
        {8: 4, 5: 3, 2: 2, 7: 1, 4: 0},
    ]
    expected = torch.zeros(4, 9).double()
    for path, terms in enumerate(powers):
        for token, power in terms.items():
            expected[path, token] = 3.0 * 0.5**power
        torch.testing.assert_close(weights_of(4, CROSS[path : path + 1], backend), expected[path], **TOLERANCE)
    for shares, times in [(None, 4), ((0, 0, 0, 1), 3), ((0, 0, 1, 1), 2), ((0, 1, 1, 1), 1), ((1, 1, 1, 1), 0)]:
        expected[:, 4] = 3.0 * times / 4  # Bx_4 is there four times, less what the correction takes off
        torch.testing.assert_close(weights_of(4, CROSS, backend, shares=shares), expected.sum(0), **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_masked_tokens_hold_changes_nothing(backend):
    values, paths = make(20)
    mask = some_mask(20)
    spoiled = dict(values)
    for name in ("x", "dt", "B", "C"):
        hidden = ~mask.view(2, 20, *(1,) * (values[name].ndim - 2))
        spoiled[name] = values[name].detach().masked_fill(hidden, torch.nan).requires_grad_()
    options = {"paths": paths, "mask": mask, "dt_softplus": True, "backend": backend}
    y, expected = selective_scan(**spoiled, **options), selective_scan(**values, **options)
    torch.testing.assert_close(y, expected, **TOLERANCE)
    assert (y[~mask] == 0).all()
    torch.testing.assert_close(gradients(spoiled, y), gradients(values, expected), **TOLERANCE)


@pytest.mark.parametrize("backend", ["naive", *BACKENDS])
def test_gradcheck_and_gradgradcheck(backend):
    values, paths = make(3, batch=1, n_paths=2, channels=2, d_state=2)

    def scan(*arguments):
        named = dict(zip(NAMES, arguments, strict=True))
        return selective_scan(**named, paths=paths, dt_softplus=True, backend=backend)

    assert torch.autograd.gradcheck(scan, tuple(values.values()))
    assert torch.autograd.gradgradcheck(scan, tuple(values.values()))


@pytest.mark.parametrize(("backend", "dtype"), [
    ("torch", torch.bfloat16),
    ("numba", torch.float16),
    pytest.param("numba", torch.bfloat16, marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_low_precision_is_computed_in_float32(backend, dtype):
    values, paths = make(50, dtype=dtype)
    wide = {name: value.detach().float() for name, value in values.items()}
    y, y_wide = (selective_scan(**v, paths=paths, dt_softplus=True, backend=backend) for v in (values, wide))
    assert y.dtype == dtype
    torch.testing.assert_close(y, y_wide.to(dtype))
    for grad, value in zip(gradients(values, y), values.values(), strict=True):
        assert grad.dtype == dtype
        assert grad.shape == value.shape


@pytest.mark.parametrize("backend", BACKENDS)
def test_strided_arguments(backend):
    values, paths = make(30)
    strided = {k: v.detach().transpose(0, -1).contiguous().transpose(0, -1) for k, v in values.items()}
    y = selective_scan(**strided, paths=paths.T.contiguous().T, dt_softplus=True, backend=backend)
    expected = selective_scan(**values, paths=paths, dt_softplus=True, backend="naive")
    torch.testing.assert_close(y, expected.detach(), **TOLERANCE)


BAD = [
    ({"x": torch.ones(2, 3)}, r"x has shape \(2, 3\); expected \(batch, length, channels\)"),
    ({"dt": torch.ones(2, 5, 4)}, r"dt has shape \(2, 5, 4\); expected .* = \(2, 5, 3, 4\)"),
    ({"A": torch.ones(3, 4)}, r"A has shape \(3, 4\); expected .* = \(3, 4, 3\)"),
    ({"B": torch.ones(2, 6, 3, 3)}, r"B has shape .* = \(2, 5, 3, 3\)"),
    ({"C": torch.ones(2, 5, 2, 3)}, r"C has shape .* d_state\) = \(2, 5, 3, 3\)"),
    ({"D": torch.ones(4)}, r"D has shape \(4,\); expected \(n_paths, channels\) = \(3, 4\)"),
    ({"dt_bias": torch.ones(4)}, r"dt_bias has shape \(4,\)"),
    ({"R": torch.ones(3, 4)}, r"R has shape \(3, 4\); expected \(n_paths, channels, d_state\) = \(3, 4, 3\)"),
    ({"initial_state": torch.ones(2, 4, 3)}, r"initial_state has shape .* = \(2, 3, 4, 3\)"),
    ({"reverse": True}, "reverse is True; with paths expected False: add the reversed path"),
    ({"mask": torch.ones(2, 5)}, "mask has dtype torch.float32"),
    ({"paths": torch.zeros(3, 4, dtype=torch.int64)}, r"paths has shape \(3, 4\); expected .* = \(3, 5\)"),
    ({"paths": torch.zeros(3, 5)}, "paths has dtype torch.float32"),
    ({"paths": torch.arange(5).expand(3, 5) + 1}, "paths has values from 1 to 5; expected the positions 0 to 4"),
    ({"paths": torch.tensor([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [0, 1, 2, 3, 3]])}, r"twice in rows \[2\]"),
    ({"correction": "none"}, "correction is .none."),
    ({"backend": "fast"}, "backend is 'fast'"),
]


def test_errors_name_the_argument():
    values, paths = make(5)
    for change, message in BAD:
        with pytest.raises(ValueError, match=message):
            selective_scan(**(values | {"paths": paths} | change))
