"""The scan over a grid against its definition, the law of its paths, and the symmetries of the grid."""

from itertools import product
from math import comb

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from skop.ops import selective_scan, selective_scan_2d

BACKENDS = ("torch", "numba")
#: The laws hold for each form; the kernel, which the tests of equality hold to the reference, is in the long rest.
LAWS = ("torch", pytest.param("numba", marks=pytest.mark.exhaustive))
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}
NAMES = ("x", "dt", "A", "B", "C", "D", "dt_bias", "R")
GRIDS = ("x", "dt", "B", "C")
CROSS = ((2, 1), (1, 2), (-2, -1), (-1, -2))
ALL = tuple((s * a, t * (3 - a)) for a, s, t in product((1, 2), (1, -1), (1, -1)))


def make(height, width, *, batch=2, count=1, channels=3, d_state=4, without=(), seed=0, dtype=torch.float64):
    """Random arguments of a scan with a softplus, by name; the floating ones are leaves that need gradients."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    values = {
        "x": normal(batch, height, width, channels),
        "dt": normal(batch, height, width, count, channels),
        "A": -0.1 - softplus(normal(count, channels, d_state)),
        "B": normal(batch, height, width, count, d_state),
        "C": normal(batch, height, width, count, d_state),
        "D": normal(count, channels),
        "dt_bias": normal(count, channels),
        "R": torch.rand(count, channels, d_state, generator=generator, dtype=torch.float64),
    }
    return {k: None if k in without else v.to(dtype).requires_grad_() for k, v in values.items()}


def some_mask(height, width):
    """Mask of two samples: a rectangle of another size in each, with single cells missing."""
    mask = torch.zeros(2, height, width, dtype=torch.bool)
    mask[0, : (height + 1) // 2] = True
    mask[1, :, width // 3 :] = True
    mask[:, ::3, 1::2] = False
    return mask


def numpy_scan(x, dt, A, B, C, D, dt_bias, R, directions, mask):
    """The definition, one number at a time."""
    x, dt, A, B, C, D, dt_bias, R = (v.detach().numpy() for v in (x, dt, A, B, C, D, dt_bias, R))
    batch, height, width = x.shape[:3]
    y = np.zeros_like(x)
    for b, k, c, n in np.ndindex(batch, *A.shape):
        first, second = ((abs(axis) - 1, 1 if axis > 0 else -1) for axis in directions[k])
        g, h = np.zeros((height, width)), np.zeros((height, width))
        rows, columns = range(height), range(width)
        signs = dict((first, second))
        for i, j in product(rows[:: signs[0]], columns[:: signs[1]]):
            real = mask[b, i, j]
            step = np.log(1 + np.exp(dt[b, i, j, k, c] + dt_bias[k, c])) if real else 0.0
            decay = np.exp(step * A[k, c, n])
            update = step * B[b, i, j, k, n] * x[b, i, j, c] if real else 0.0
            across, down = ((i - signs[0], j) if axis == 0 else (i, j - signs[1]) for axis in (first[0], second[0]))
            inside = [0 <= p[0] < height and 0 <= p[1] < width for p in (across, down)]
            g[i, j] = decay * (g[across] if inside[0] else 0.0) + update
            h[i, j] = decay * (h[down] if inside[1] else 0.0) + g[i, j]
            if real:
                y[b, i, j, c] += C[b, i, j, k, n] * (h[i, j] - R[k, c, n] * update)
    return torch.from_numpy(y + D.sum(0) * x * mask[..., None].numpy())


def gradients(values, y):
    """Gradients of all tensors for a random cotangent of the output."""
    cotangent = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    return torch.autograd.grad(y, [value for value in values.values() if value is not None], cotangent)


@pytest.mark.parametrize("backend", ["naive", *BACKENDS])
@pytest.mark.parametrize(("directions", "masked"), [(CROSS, False), (ALL, True)])
def test_definition_in_numpy(backend, directions, masked):
    values = make(4, 3, count=len(directions), channels=2, d_state=2)
    mask = some_mask(4, 3) if masked else torch.ones(2, 4, 3, dtype=torch.bool)
    options = {"directions": directions, "mask": mask}
    got = selective_scan_2d(**values, **options, dt_softplus=True, backend=backend)
    torch.testing.assert_close(got, numpy_scan(**values, **options), **TOLERANCE)


CASES = [
    # height, width, directions, without, masked, dt_softplus
    (1, 1, ((2, 1),), (), False, True),
    (1, 9, CROSS, ("R",), False, False),
    (9, 1, CROSS, ("D", "dt_bias"), True, True),
    (7, 5, ALL, (), True, False),
    (5, 12, CROSS, ("D", "R", "dt_bias"), False, True),
    (33, 20, ((-1, 2), (2, -1)), (), True, True),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("height", "width", "directions", "without", "masked", "dt_softplus"), CASES)
def test_equals_the_reference(backend, height, width, directions, without, masked, dt_softplus):
    values = make(height, width, count=len(directions), without=without)
    if not dt_softplus:
        values |= {"dt": softplus(values["dt"].detach()).requires_grad_(), "dt_bias": None}
    mask = some_mask(height, width) if masked else None
    options = {"directions": directions, "mask": mask, "dt_softplus": dt_softplus}
    fast, slow = (selective_scan_2d(**values, **options, backend=choice) for choice in (backend, "naive"))
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    torch.testing.assert_close(gradients(values, fast), gradients(values, slow), **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sizes", [{"channels": 1}, {"d_state": 1}, {"batch": 1}, {"channels": 37}, {"channels": 64}])
def test_other_sizes(backend, sizes):
    values = make(6, 5, **sizes)
    fast, slow = (selective_scan_2d(**values, dt_softplus=True, backend=choice) for choice in (backend, "naive"))
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    torch.testing.assert_close(gradients(values, fast), gradients(values, slow), **TOLERANCE)


def test_a_large_grid_is_cut_into_blocks():
    values = make(19, 41, batch=5, channels=200, d_state=4)
    fast, slow = (selective_scan_2d(**values, dt_softplus=True, backend=choice) for choice in ("torch", "naive"))
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    torch.testing.assert_close(gradients(values, fast), gradients(values, slow), **TOLERANCE)


@pytest.mark.parametrize("backend", ["naive", *BACKENDS])
def test_gradcheck_and_gradgradcheck(backend):
    values = make(2, 3, batch=1, count=2, channels=1, d_state=2)
    mask = torch.tensor([[[True, True, False], [True, True, True]]])

    def scan(*arguments):
        named = dict(zip(NAMES, arguments, strict=True))
        options = {"directions": ((2, 1), (-1, -2)), "mask": mask, "dt_softplus": True}
        return selective_scan_2d(**named, **options, backend=backend)

    assert torch.autograd.gradcheck(scan, tuple(values.values()))
    assert torch.autograd.gradgradcheck(scan, tuple(values.values()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_that_can_be_differentiated_again_are_the_same(backend):
    values = make(4, 5, count=4)
    y = selective_scan_2d(**values, directions=CROSS, dt_softplus=True, backend=backend)
    leaves = list(values.values())
    again, once = (torch.autograd.grad(y.sin().sum(), leaves, create_graph=graph) for graph in (True, False))
    torch.testing.assert_close(again, once, **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_of_only_one_argument(backend):
    for name in NAMES:
        values = {k: v.detach().requires_grad_(k == name) for k, v in make(4, 5).items()}
        fast, slow = (selective_scan_2d(**values, dt_softplus=True, backend=choice) for choice in (backend, "naive"))
        got, expected = (torch.autograd.grad(out.sin().sum(), values[name]) for out in (fast, slow))
        torch.testing.assert_close(got, expected, **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_one_path_leads_from_a_source_to_a_cell(backend):
    """A constant decay acts once for each step of the Manhattan distance, whatever ways there are."""
    height, width, decay, source = 5, 7, 0.8, (1, 2)
    x = torch.zeros(1, height, width, 1).double()
    x[0, source[0], source[1]] = 3.0
    step, b, c = 0.5, 2.0, -1.5
    one = torch.ones(1, height, width, 1, 1).double()
    rate = torch.full((1, 1, 1), decay, dtype=torch.float64).log() / step
    y = selective_scan_2d(x, step * one, rate, b * one, c * one, backend=backend)[0, ..., 0]
    for i, j in np.ndindex(height, width):
        down, right = i - source[0], j - source[1]
        expected = c * b * step * 3.0 * decay ** (down + right) if min(down, right) >= 0 else 0.0
        assert y[i, j].item() == pytest.approx(expected, rel=1e-12), (i, j)
    # Were all the monotone ways counted, the cell two down and two right would have six times as much.
    assert y[3, 4].item() == pytest.approx(c * b * step * 3.0 * decay**4, rel=1e-12)


def weights_of(cell, height, width, backend, *, decay=0.8, shares=None, directions=((2, 1),)):
    """What each source adds to the output of a cell, with constant coefficients, and dt' B = 3."""
    x = torch.zeros(1, height, width, 1, dtype=torch.float64, requires_grad=True)
    one = torch.ones(1, height, width, len(directions), 1, dtype=torch.float64)
    rates = torch.full((len(directions), 1, 1), decay, dtype=torch.float64).log()
    R = None if shares is None else torch.tensor(shares, dtype=torch.float64).view(-1, 1, 1)
    y = selective_scan_2d(x, one, rates, 3.0 * one, one, R=R, directions=directions, backend=backend)
    (weights,) = torch.autograd.grad(y[0, *cell, 0], x)
    return weights[0, ..., 0]


@pytest.mark.parametrize("backend", LAWS)
def test_numbers_of_the_paper(backend):
    """GeoMaNO, Eq. 26: the last state of a 3 x 3 grid."""
    powers = torch.tensor([[4, 3, 2], [3, 2, 1], [2, 1, 0]])
    torch.testing.assert_close(weights_of((2, 2), 3, 3, backend), 3.0 * 0.8 ** powers.double(), **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_it_is_not_the_one_pass_recurrence(backend):
    """h = a (h_left + h_up) + u counts all monotone ways: binomial weights on top of the Manhattan law."""
    height, width, decay = 4, 5, 0.8
    one_pass = np.zeros((height + 1, width + 1))
    for i, j in np.ndindex(height, width):
        one_pass[i + 1, j + 1] = decay * (one_pass[i + 1, j] + one_pass[i, j + 1]) + 3.0 * (i == j == 0)
    ways = np.array([[comb(i + j, i) for j in range(width)] for i in range(height)])
    weights = weights_of((height - 1, width - 1), height, width, backend).flip(0, 1).numpy()
    np.testing.assert_allclose(one_pass[1:, 1:], ways * weights, rtol=1e-12)
    assert one_pass[4, 5] == pytest.approx(35 * weights[3, 4])


@pytest.mark.parametrize("backend", LAWS)
@pytest.mark.parametrize(("shares", "times"), [(None, 4), ((0, 0, 1, 1), 2)])
def test_own_cell_counts_once_for_each_direction_that_is_not_corrected(backend, shares, times):
    """GeoMaNO, section 4.3: with four directions Bx is there four times, less what the correction takes off."""
    weights = weights_of((1, 1), 3, 3, backend, shares=shares, directions=CROSS)
    line, corner = 3.0 * 2 * 0.8, 3.0 * 2 * 0.8**2  # seen by two directions, whatever the correction
    expected = torch.tensor([[corner, line, 0], [line, 3.0 * times, line], [0, line, corner]], dtype=torch.float64)
    torch.testing.assert_close(weights, expected, **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
@pytest.mark.parametrize("direction", [(2, 1), (-1, 2), (-2, -1)])
def test_path_runs_along_the_first_axis_from_the_source_then_along_the_second(backend, direction):
    """Closed form with decays of their own in every cell: the product over the cells entered on the way."""
    height, width = 4, 5
    values = make(height, width, batch=1, channels=1, d_state=1, without=("R", "D", "dt_bias"))
    steps = softplus(values["dt"])[0, ..., 0, 0]
    decays = torch.exp(steps * values["A"].flatten())
    y = selective_scan_2d(**values, directions=(direction,), dt_softplus=True, backend=backend)[0, ..., 0]
    signs = {abs(axis): 1 if axis > 0 else -1 for axis in direction}
    expected = torch.zeros(height, width).double()
    for (i, j), (p, q) in product(np.ndindex(height, width), np.ndindex(height, width)):
        rows, columns = (i - p) * signs[1], (j - q) * signs[2]
        if rows < 0 or columns < 0:
            continue
        weight = steps[p, q] * values["B"][0, p, q, 0, 0] * values["x"][0, p, q, 0] * values["C"][0, i, j, 0, 0]
        corner = (p, j) if abs(direction[0]) == 2 else (i, q)
        for r in range(1, rows + 1):
            weight = weight * decays[p + r * signs[1], corner[1]]
        for r in range(1, columns + 1):
            weight = weight * decays[corner[0], q + r * signs[2]]
        expected[i, j] += weight
    torch.testing.assert_close(y, expected, **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_causality_and_the_share_of_the_own_cell(backend):
    values = make(5, 6, without=("D",))
    values["R"] = torch.ones_like(values["R"])
    changed = values["x"].detach().clone()
    changed[:, 2, 3] += 1.0
    first, second = (
        selective_scan_2d(**(values | {"x": x}), dt_softplus=True, backend=backend) for x in (values["x"], changed)
    )
    influenced = ~torch.isclose(first, second, **TOLERANCE).all(dim=0).all(dim=-1)
    expected = torch.zeros(5, 6, dtype=torch.bool)
    expected[2:, 3:] = True
    expected[2, 3] = False
    torch.testing.assert_close(influenced, expected)


@pytest.mark.parametrize("backend", LAWS)
def test_y_is_linear_in_r_and_in_x(backend):
    values, other = make(4, 5), make(4, 5, seed=1)

    def scan(**change):
        return selective_scan_2d(**(values | change), dt_softplus=True, backend=backend)

    ones = torch.ones_like(values["R"])
    torch.testing.assert_close(scan(R=0.3 * ones), 0.7 * scan(R=None) + 0.3 * scan(R=ones), **TOLERANCE)
    mixed = scan(x=2 * values["x"] - other["x"])
    torch.testing.assert_close(mixed, 2 * scan() - scan(x=other["x"]), **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
@pytest.mark.parametrize("direction", [(1, 2), (-2, 1), (2, -1), (-1, -2)])
def test_directions_are_turns_of_the_grid(backend, direction):
    values = make(4, 6)
    y = selective_scan_2d(**values, directions=(direction,), dt_softplus=True, backend=backend)
    backwards = [axis for axis in (1, 2) if -axis in direction]
    transposed = abs(direction[0]) == 1

    def turn(grid):
        grid = grid.flip(backwards)
        return grid.transpose(1, 2) if transposed else grid

    turned = {k: turn(v) if k in GRIDS else v for k, v in values.items()}
    z = selective_scan_2d(**turned, dt_softplus=True, backend=backend)
    z = z.transpose(1, 2) if transposed else z
    torch.testing.assert_close(y, z.flip(backwards), **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_the_transposed_direction_is_another_map(backend):
    values = make(4, 6)
    first, second = (
        selective_scan_2d(**values, directions=(d,), dt_softplus=True, backend=backend) for d in ((2, 1), (1, 2))
    )
    assert not torch.isclose(first[:, 1:, 1:], second[:, 1:, 1:]).any()
    torch.testing.assert_close(first[:, 0], second[:, 0], **TOLERANCE)  # one row has one way only
    torch.testing.assert_close(first[:, :, 0], second[:, :, 0], **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_equals_the_sum_of_single_directions(backend):
    values = make(5, 4, count=4)
    whole = selective_scan_2d(**values, directions=CROSS, dt_softplus=True, backend=backend)
    total = torch.zeros_like(whole)
    for k, direction in enumerate(CROSS):
        grids = {name: values[name][:, :, :, k : k + 1] for name in ("dt", "B", "C")}
        own = {name: values[name][k : k + 1] for name in ("A", "D", "dt_bias", "R")}
        total = total + selective_scan_2d(
            values["x"], **grids, **own, directions=(direction,), dt_softplus=True, backend=backend
        )
    torch.testing.assert_close(whole, total, **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
@pytest.mark.parametrize(("axis", "direction"), [(1, (2, 1)), (1, (2, -1)), (2, (-1, 2)), (2, (-2, -1))])
def test_one_row_or_one_column_is_a_sequence(backend, axis, direction):
    sizes = [1, 1]
    sizes[axis - 1] = 13
    values = make(*sizes)
    line = {k: v.flatten(1, 2) if k in GRIDS else v[0] for k, v in values.items()}
    line["dt"] = line["dt"].squeeze(2)
    y = selective_scan_2d(**values, directions=(direction,), dt_softplus=True, backend=backend)
    expected = selective_scan(**line, reverse=-axis in direction, dt_softplus=True, backend="naive")
    torch.testing.assert_close(y.flatten(1, 2), expected, **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dt_softplus", [True, False])
def test_padding_changes_nothing_whatever_it_holds(backend, dt_softplus):
    """A frame of masked cells around the grid, as where grids of several sizes share a batch."""
    values = make(5, 6, count=4)
    if not dt_softplus:
        values |= {"dt": values["dt"].detach().exp().requires_grad_(), "dt_bias": None}
    padded, mask = dict(values), torch.zeros(2, 9, 8, dtype=torch.bool)
    mask[:, 1:6, 2:8] = True
    for name in GRIDS:
        padded[name] = torch.full((2, 9, 8, *values[name].shape[3:]), torch.nan).double()
        padded[name][:, 1:6, 2:8] = values[name]
    options = {"directions": CROSS, "dt_softplus": dt_softplus, "backend": backend}
    expected = selective_scan_2d(**values, **options)
    y = selective_scan_2d(**padded, **options, mask=mask)
    torch.testing.assert_close(y[:, 1:6, 2:8], expected, **TOLERANCE)
    assert (y[~mask] == 0).all()
    torch.testing.assert_close(gradients(values, y[:, 1:6, 2:8]), gradients(values, expected), **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_strided_arguments(backend):
    values = make(5, 6, count=2)
    strided = {k: v.detach().transpose(0, -1).contiguous().transpose(0, -1) for k, v in values.items()}
    options = {"directions": CROSS[:2], "dt_softplus": True}
    y = selective_scan_2d(**strided, **options, backend=backend)
    torch.testing.assert_close(y, selective_scan_2d(**values, **options, backend="naive").detach(), **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_float32_error(backend):
    values = make(40, 44, batch=1, count=2, dtype=torch.float32)
    exact = {name: value.detach().double().requires_grad_() for name, value in values.items()}
    options = {"directions": CROSS[:2], "dt_softplus": True}
    y, reference = (
        selective_scan_2d(**v, **options, backend=choice) for v, choice in ((values, backend), (exact, "torch"))
    )
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
    values = make(6, 7, count=4, dtype=dtype)
    wide = {name: value.detach().float() for name, value in values.items()}
    options = {"directions": CROSS, "dt_softplus": True, "backend": backend}
    y, y_wide = selective_scan_2d(**values, **options), selective_scan_2d(**wide, **options)
    assert y.dtype == dtype
    torch.testing.assert_close(y, y_wide.to(dtype))
    for grad, value in zip(gradients(values, y), values.values(), strict=True):
        assert grad.dtype == dtype
        assert grad.shape == value.shape


@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast_has_no_influence(backend):
    values = make(6, 7, dtype=torch.float32)
    expected = selective_scan_2d(**values, dt_softplus=True, backend=backend)
    grads = torch.autograd.grad(expected.sum(), list(values.values()))
    with torch.autocast("cpu", torch.bfloat16):
        y = selective_scan_2d(**values, dt_softplus=True, backend=backend)
        inside = torch.autograd.grad(y.sum(), list(values.values()))
    torch.testing.assert_close((y, *inside), (expected, *grads), rtol=0, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_strong_decay_neither_overflows_nor_loses_the_own_cell(backend):
    values = make(12, 15, dtype=torch.float32, without=("D", "R", "dt_bias"))
    values["dt"] = torch.full_like(values["dt"], 50.0).requires_grad_()
    values["A"] = torch.full_like(values["A"], -1.0).requires_grad_()
    y = selective_scan_2d(**values, backend=backend)
    own = torch.einsum("bhwkn,bhwkn->bhw", values["B"], values["C"])
    torch.testing.assert_close(y, 50.0 * own.unsqueeze(-1) * values["x"], rtol=1e-5, atol=1e-3)
    assert all(grad.isfinite().all() for grad in gradients(values, y))


@pytest.mark.parametrize("backend", LAWS)
def test_weak_decay_adds_up_the_quadrant(backend):
    one = torch.ones(1, 9, 11, 1, 1)
    y = selective_scan_2d(one[..., 0], 1e-3 * one, torch.tensor([[[-1e-6]]]), one, one, backend=backend)
    expected = torch.arange(1, 10)[:, None] * torch.arange(1, 12) * 1e-3
    torch.testing.assert_close(y[0, ..., 0], expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_is_not_lost(backend):
    for name in NAMES:
        values = {k: v.detach().clone() for k, v in make(5, 6).items()}
        values[name].view(-1)[-1] = torch.nan
        y = selective_scan_2d(**values, dt_softplus=True, backend=backend)
        assert y[-1, -1, -1].isnan().any()


BAD = [
    ({"x": torch.ones(2, 3, 4)}, r"x has shape \(2, 3, 4\); expected \(batch, height, width, channels\)"),
    ({"x": torch.ones(2, 0, 5, 3)}, "none of them 0"),
    ({"dt": torch.ones(2, 4, 5, 3)}, r"dt has shape \(2, 4, 5, 3\); expected .* = \(2, 4, 5, 2, 3\)"),
    ({"A": torch.ones(3, 4)}, r"A has shape \(3, 4\); expected .* = \(2, 3, 4\)"),
    ({"B": torch.ones(2, 5, 4, 2, 4)}, r"B has shape .* = \(2, 4, 5, 2, 4\)"),
    ({"C": torch.ones(2, 4, 5, 2, 3)}, r"C has shape .* d_state\) = \(2, 4, 5, 2, 4\)"),
    ({"D": torch.ones(3)}, r"D has shape \(3,\); expected \(n_directions, channels\) = \(2, 3\)"),
    ({"dt_bias": torch.ones(3)}, r"dt_bias has shape \(3,\)"),
    ({"R": torch.ones(2, 3)}, r"R has shape \(2, 3\); expected \(n_directions, channels, d_state\) = \(2, 3, 4\)"),
    ({"mask": torch.ones(2, 5, 4, dtype=torch.bool)}, r"mask has shape \(2, 5, 4\); expected .* = \(2, 4, 5\)"),
    ({"mask": torch.ones(2, 4, 5)}, "mask has dtype torch.float32"),
    ({"x": torch.ones(2, 4, 5, 3, dtype=torch.int64)}, "x has dtype torch.int64"),
    ({"directions": ((2, 1),)}, "directions has 1 entries; expected 2"),
    ({"directions": (2, 1)}, "directions has 2; expected pairs of the axes 1 and 2"),
    ({"directions": ((2, 1), (2, -2))}, r"directions has \(2, -2\)"),
    ({"directions": ((2, 1), (0, 1))}, r"directions has \(0, 1\)"),
    ({"directions": ((2, 1), (2, 1, 3))}, r"directions has \(2, 1, 3\)"),
    ({"directions": ("21", "12")}, "directions has .21."),
    ({"correction": "none"}, "correction is .none."),
    ({"backend": "fast"}, "backend is 'fast'"),
]


def test_errors_name_the_argument():
    for change, message in BAD:
        with pytest.raises(ValueError, match=message):
            selective_scan_2d(**(make(4, 5, count=2) | {"directions": ((2, 1), (1, 2))} | change))
