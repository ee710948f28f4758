"""The scan over a three-dimensional grid: its definition, the law of its paths, and the scans that it contains."""

from importlib import import_module
from itertools import permutations, product
from math import factorial

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from skop.ops import _dispatch, record_backends, selective_scan, selective_scan_2d, selective_scan_3d
from skop.ops.selective_scan_3d import SELECTIVE_SCAN_3D

BACKENDS = ("naive", "torch")
#: The laws hold for both forms; the slow one, which the other is compared with, is in the long rest.
LAWS = ("torch", pytest.param("naive", marks=pytest.mark.exhaustive))
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}
NAMES = ("x", "dt", "A", "B", "C", "D", "dt_bias", "R")
GRIDS = ("x", "dt", "B", "C")
ALL = tuple(
    tuple(sign * axis for sign, axis in zip(signs, axes, strict=True))
    for axes, signs in product(permutations((1, 2, 3)), product((1, -1), repeat=3))
)
#: All orders of the axes, and each axis forwards and backwards in each place.
SOME = ((3, 2, 1), (-1, -2, -3), (2, -3, 1), (-2, 1, 3), (3, 1, -2), (1, 3, 2))


def make(*grid, batch=2, count=1, channels=3, d_state=4, without=(), seed=0, dtype=torch.float64):
    """Random arguments of a scan with a softplus, by name; the floating ones are leaves that need gradients."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    values = {
        "x": normal(batch, *grid, channels),
        "dt": normal(batch, *grid, count, channels),
        "A": -0.1 - softplus(normal(count, channels, d_state)),
        "B": normal(batch, *grid, count, d_state),
        "C": normal(batch, *grid, count, d_state),
        "D": normal(count, channels),
        "dt_bias": normal(count, channels),
        "R": torch.rand(count, channels, d_state, generator=generator, dtype=torch.float64),
    }
    return {k: None if k in without else v.to(dtype).requires_grad_() for k, v in values.items()}


def some_mask(*grid):
    """Mask of two samples: a box of another size in each, with single cells missing."""
    mask = torch.zeros(2, *grid, dtype=torch.bool)
    mask[0, : (grid[0] + 1) // 2] = True
    mask[1, :, :, grid[2] // 3 :] = True
    mask[:, ::3, 1::2, ::2] = False
    return mask


def gradients(values, y):
    """Gradients of all tensors for a random cotangent of the output."""
    cotangent = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    return torch.autograd.grad(y, [value for value in values.values() if value is not None], cotangent)


def steps_along(direction):
    """Unit steps of the three passes, in the order of the axes of the grid."""
    return [np.sign(axis) * np.eye(3, dtype=int)[abs(axis) - 1] for axis in direction]


def numpy_scan(x, dt, A, B, C, D, dt_bias, R, directions, mask):
    """The definition, one number at a time: every pass adds the neighbour's own pass to what the pass before gave."""
    x, dt, A, B, C, D, dt_bias, R = (v.detach().numpy() for v in (x, dt, A, B, C, D, dt_bias, R))
    grid, y = x.shape[1:-1], np.zeros_like(x)
    for b, k, c, n in np.ndindex(len(x), *A.shape):
        steps = steps_along(directions[k])
        passes = np.zeros((3, *(size + 2 for size in grid)))  # with a frame of zeros around the grid
        signs = {abs(axis): np.sign(axis) for axis in directions[k]}
        for cell in product(*(range(size)[:: signs[axis]] for axis, size in enumerate(grid, start=1))):
            place, real = np.add(cell, 1), mask[(b, *cell)]
            step = np.log(1 + np.exp(dt[(b, *cell, k, c)] + dt_bias[k, c])) if real else 0.0
            update = step * B[(b, *cell, k, n)] * x[(b, *cell, c)] if real else 0.0
            value = update
            for p in range(3):
                value = np.exp(step * A[k, c, n]) * passes[(p, *(place - steps[p]))] + value
                passes[(p, *place)] = value
            if real:
                y[(b, *cell, c)] += C[(b, *cell, k, n)] * (value - R[k, c, n] * update)
    return torch.from_numpy(y + D.sum(0) * x * mask[..., None].numpy())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("masked", [True, False])
def test_definition_in_numpy(backend, masked):
    values = make(3, 2, 4, count=len(SOME), channels=2, d_state=2)
    mask = some_mask(3, 2, 4) if masked else torch.ones(2, 3, 2, 4, dtype=torch.bool)
    options = {"directions": SOME, "mask": mask}
    got = selective_scan_3d(**values, **options, dt_softplus=True, backend=backend)
    torch.testing.assert_close(got, numpy_scan(**values, **options), **TOLERANCE)


CASES = [
    # grid, directions, without, masked, dt_softplus
    ((1, 1, 1), ((3, 2, 1),), (), False, True),
    ((1, 7, 1), SOME, ("R",), False, False),
    ((4, 1, 5), SOME, ("D", "dt_bias"), True, True),
    ((5, 4, 3), SOME, (), True, True),
    ((17, 3, 4), ((3, 2, 1), (1, 2, 3)), ("D", "R", "dt_bias"), False, False),
]


@pytest.mark.parametrize(("grid", "directions", "without", "masked", "dt_softplus"), CASES)
def test_blocks_equal_the_reference(grid, directions, without, masked, dt_softplus):
    values = make(*grid, count=len(directions), without=without)
    if not dt_softplus:
        values |= {"dt": softplus(values["dt"].detach()).requires_grad_(), "dt_bias": None}
    mask = some_mask(*grid) if masked else None
    options = {"directions": directions, "mask": mask, "dt_softplus": dt_softplus}
    fast, slow = (selective_scan_3d(**values, **options, backend=choice) for choice in ("torch", "naive"))
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    torch.testing.assert_close(gradients(values, fast), gradients(values, slow), **TOLERANCE)


def test_plain_forms_agree_on_the_example():
    arguments = SELECTIVE_SCAN_3D.example()
    slow, fast = (SELECTIVE_SCAN_3D.plain[name](arguments)[0] for name in ("naive", "torch"))
    torch.testing.assert_close(fast, slow, **TOLERANCE)


@pytest.mark.parametrize("largest", [0, 8])
def test_a_large_grid_is_cut_into_blocks_and_channels(monkeypatch, largest):
    monkeypatch.setattr(import_module("skop.ops.selective_scan_2d._torch"), "_LARGEST", largest)
    values = make(19, 9, 11, batch=3, channels=50)
    fast, slow = (selective_scan_3d(**values, dt_softplus=True, backend=choice) for choice in ("torch", "naive"))
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    torch.testing.assert_close(gradients(values, fast), gradients(values, slow), **TOLERANCE)


@pytest.mark.parametrize("largest", [0, 8])
def test_only_the_states_before_blocks_of_planes_are_kept(monkeypatch, largest):
    monkeypatch.setattr(import_module("skop.ops.selective_scan_2d._torch"), "_LARGEST", largest)
    values, kept = make(32, 12, 12, batch=1, channels=32, d_state=16, without=("R", "D"), dtype=torch.float32), {}
    with torch.autograd.graph.saved_tensors_hooks(lambda v: kept.setdefault(v.data_ptr(), v), lambda v: v):
        selective_scan_3d(**values, dt_softplus=True, backend="torch")
    states = 32 * 12 * 12 * 32 * 16
    assert max(value.numel() for value in kept.values()) < 0.2 * states
    assert sum(value.numel() for value in kept.values()) < 0.6 * states


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradcheck_and_gradgradcheck(backend):
    values = make(2, 2, 2, batch=1, count=2, channels=1, d_state=2)
    mask = torch.ones(1, 2, 2, 2, dtype=torch.bool)
    mask[0, 1, 0, 1] = False

    def scan(*arguments):
        named = dict(zip(NAMES, arguments, strict=True))
        options = {"directions": ((3, 2, 1), (2, -1, -3)), "mask": mask, "dt_softplus": True}
        return selective_scan_3d(**named, **options, backend=backend)

    assert torch.autograd.gradcheck(scan, tuple(values.values()))
    assert torch.autograd.gradgradcheck(scan, tuple(values.values()))


def test_gradients_that_can_be_differentiated_again_are_the_same():
    values = make(3, 4, 2, count=2)
    y = selective_scan_3d(**values, directions=SOME[2:4], dt_softplus=True, backend="torch")
    leaves = list(values.values())
    again, once = (torch.autograd.grad(y.sin().sum(), leaves, create_graph=graph) for graph in (True, False))
    torch.testing.assert_close(again, once, **TOLERANCE)


def test_gradient_of_only_one_argument():
    for name in NAMES:
        values = {k: v.detach().requires_grad_(k == name) for k, v in make(3, 4, 2).items()}
        fast, slow = (selective_scan_3d(**values, dt_softplus=True, backend=choice) for choice in ("torch", "naive"))
        got, expected = (torch.autograd.grad(out.sin().sum(), values[name]) for out in (fast, slow))
        torch.testing.assert_close(got, expected, **TOLERANCE)


def weights_from(source, grid, direction, decay, backend):
    """Weights of a source of size 1 at all cells, with constant coefficients."""
    x, one = torch.zeros(1, *grid, 1).double(), torch.ones(1, *grid, 1, 1).double()
    x[(0, *source, 0)] = 1.0
    rate = torch.full((1, 1, 1), decay, dtype=torch.float64).log()
    return selective_scan_3d(x, one, rate, one, one, directions=(direction,), backend=backend)[0, ..., 0]


@pytest.mark.parametrize("backend", LAWS)
def test_manhattan_distance_is_the_power_of_a_constant_decay(backend):
    """Eq. 23 of GeoMaNO with one axis more, in all 48 directions."""
    grid, source, decay = (4, 3, 5), (1, 2, 2), 0.7
    assert len(set(ALL)) == 48
    for direction in ALL:
        weights = weights_from(source, grid, direction, decay, backend)
        signs = {abs(axis): np.sign(axis) for axis in direction}
        for cell in np.ndindex(*grid):
            distance = [(p - q) * signs[axis] for axis, p, q in zip((1, 2, 3), cell, source, strict=True)]
            expected = decay ** sum(distance) if min(distance) >= 0 else 0.0
            assert weights[cell].item() == pytest.approx(expected, rel=1e-12, abs=0), (direction, cell)


@pytest.mark.parametrize("backend", LAWS)
def test_it_is_not_the_one_pass_recurrence(backend):
    """h = a (h_left + h_up + h_front) + u counts all monotone ways: multinomial weights."""
    grid, decay = (3, 3, 4), 0.6
    one_pass = np.zeros([size + 1 for size in grid])
    for i, j, k in np.ndindex(*grid):
        neighbours = one_pass[i, j + 1, k + 1] + one_pass[i + 1, j, k + 1] + one_pass[i + 1, j + 1, k]
        one_pass[i + 1, j + 1, k + 1] = decay * neighbours + (i == j == k == 0)
    weights = weights_from((0, 0, 0), grid, (3, 2, 1), decay, backend)
    for cell in np.ndindex(*grid):
        ways = factorial(sum(cell)) // np.prod([factorial(size) for size in cell])
        assert one_pass[tuple(np.add(cell, 1))] == pytest.approx(ways * weights[cell].item(), rel=1e-12)
    assert one_pass[3, 3, 4] == pytest.approx(210 * weights[2, 2, 3].item())


@pytest.mark.parametrize("backend", LAWS)
@pytest.mark.parametrize("direction", SOME[1:5:2])
def test_one_path_leads_from_each_source_to_each_cell(backend, direction):
    """Closed form with decays of their own in every cell: the product over the cells entered on the way."""
    grid = (3, 4, 3)
    values = make(*grid, batch=1, channels=1, d_state=1, without=("R", "D", "dt_bias"))
    steps = softplus(values["dt"].detach())[0, ..., 0, 0].numpy()
    decays = np.exp(steps * values["A"].item())
    x, b, c = (values[name].detach().numpy().reshape(grid) for name in ("x", "B", "C"))
    expected = np.zeros(grid)
    for cell, source in product(np.ndindex(*grid), np.ndindex(*grid)):
        place, weight = np.array(source), steps[source] * b[source] * x[source] * c[cell]
        for step in steps_along(direction):
            count = np.dot(np.subtract(cell, place), step)
            for _ in range(count):
                place = place + step
                weight = weight * decays[tuple(place)]
        expected[cell] += weight if tuple(place) == cell else 0.0
    y = selective_scan_3d(**values, directions=(direction,), dt_softplus=True, backend=backend)
    torch.testing.assert_close(y[0, ..., 0].detach(), torch.from_numpy(expected), **TOLERANCE)


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize(("backend", "direction"), [("torch", SOME[1]), ("torch", SOME[3]), ("naive", SOME[4])])
def test_one_plane_is_the_scan_of_a_plane(backend, axis, direction):
    grid = [4, 5, 3]
    grid[axis - 1] = 1
    values = make(*grid)
    plane = {k: v.squeeze(axis) if k in GRIDS else v for k, v in values.items()}
    passes = tuple(
        int(np.sign(other)) * (abs(other) - (abs(other) > axis)) for other in direction if abs(other) != axis
    )
    y = selective_scan_3d(**values, directions=(direction,), dt_softplus=True, backend=backend)
    expected = selective_scan_2d(**plane, directions=(passes,), dt_softplus=True, backend="naive")
    torch.testing.assert_close(y.squeeze(axis), expected, **TOLERANCE)
    torch.testing.assert_close(gradients(values, y), gradients(values, expected.unsqueeze(axis)), **TOLERANCE)


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize(("backend", "direction"), [("naive", (3, 2, 1)), ("torch", (-2, -3, -1))])
def test_a_line_is_a_sequence(backend, axis, direction):
    grid = [1, 1, 1]
    grid[axis - 1] = 13
    values = make(*grid)
    line = {k: v.flatten(1, 3) if k in GRIDS else v[0] for k, v in values.items()}
    line["dt"] = line["dt"].squeeze(2)
    y = selective_scan_3d(**values, directions=(direction,), dt_softplus=True, backend=backend)
    expected = selective_scan(**line, reverse=-axis in direction, dt_softplus=True, backend="naive")
    torch.testing.assert_close(y.flatten(1, 3), expected, **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_directions_are_turns_of_the_grid(backend):
    """All 48: the grid is flipped and its axes are exchanged, and back."""
    values = {k: v.detach() for k, v in make(3, 4, 2, channels=2, d_state=2).items()}
    for direction in ALL:
        axes, backwards = [abs(axis) for axis in direction[::-1]], [-axis for axis in direction if axis < 0]
        turned = {k: v.flip(backwards).movedim(axes, (1, 2, 3)) if k in GRIDS else v for k, v in values.items()}
        expected = selective_scan_3d(**turned, dt_softplus=True, backend=backend)
        y = selective_scan_3d(**values, directions=(direction,), dt_softplus=True, backend=backend)
        torch.testing.assert_close(y, expected.movedim((1, 2, 3), axes).flip(backwards), **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_orders_of_the_axes_are_six_maps(backend):
    values = {k: v.detach() for k, v in make(3, 3, 3).items()}
    ys = [
        selective_scan_3d(**values, directions=(axes,), dt_softplus=True, backend=backend)[:, -1, -1, -1]
        for axes in permutations((1, 2, 3))
    ]
    for i, j in product(range(6), repeat=2):
        assert i == j or not torch.isclose(ys[i], ys[j]).any()


@pytest.mark.parametrize("backend", LAWS)
def test_equals_the_sum_of_single_directions(backend):
    values = make(3, 4, 2, count=len(SOME))
    whole = selective_scan_3d(**values, directions=SOME, dt_softplus=True, backend=backend)
    total = torch.zeros_like(whole)
    for k, direction in enumerate(SOME):
        grids = {name: values[name][..., k : k + 1, :] for name in ("dt", "B", "C")}
        own = {name: values[name][k : k + 1] for name in ("A", "D", "dt_bias", "R")}
        options = {"directions": (direction,), "dt_softplus": True, "backend": backend}
        total = total + selective_scan_3d(values["x"], **grids, **own, **options)
    torch.testing.assert_close(whole, total, **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
def test_strict_causality_where_the_own_cell_is_taken_off(backend):
    values = make(4, 3, 5, without=("D",))
    values["R"] = torch.ones_like(values["R"])
    changed = values["x"].detach().clone()
    changed[:, 1, 1, 2] += 1.0
    first, second = (
        selective_scan_3d(**(values | {"x": x}), dt_softplus=True, backend=backend) for x in (values["x"], changed)
    )
    influenced = ~torch.isclose(first, second, **TOLERANCE).all(dim=0).all(dim=-1)
    expected = torch.zeros(4, 3, 5, dtype=torch.bool)
    expected[1:, 1:, 2:] = True
    expected[1, 1, 2] = False
    torch.testing.assert_close(influenced, expected)


@pytest.mark.parametrize("backend", LAWS)
def test_y_is_linear_in_r_and_in_x(backend):
    values, other = make(3, 4, 2), make(3, 4, 2, seed=1)

    def scan(**change):
        return selective_scan_3d(**(values | change), dt_softplus=True, backend=backend)

    ones = torch.ones_like(values["R"])
    torch.testing.assert_close(scan(R=0.3 * ones), 0.7 * scan(R=None) + 0.3 * scan(R=ones), **TOLERANCE)
    mixed = scan(x=2 * values["x"] - other["x"])
    torch.testing.assert_close(mixed, 2 * scan() - scan(x=other["x"]), **TOLERANCE)


@pytest.mark.parametrize("backend", LAWS)
@pytest.mark.parametrize("dt_softplus", [True, False])
def test_padding_changes_nothing_whatever_it_holds(backend, dt_softplus):
    values = make(3, 4, 2, count=len(SOME))
    if not dt_softplus:
        values |= {"dt": values["dt"].detach().exp().requires_grad_(), "dt_bias": None}
    inside, mask = (slice(None), slice(1, 4), slice(2, 6), slice(0, 2)), torch.zeros(2, 5, 6, 3, dtype=torch.bool)
    mask[inside] = True
    padded = dict(values)
    for name in GRIDS:
        padded[name] = torch.full((2, 5, 6, 3, *values[name].shape[4:]), torch.nan).double()
        padded[name][inside] = values[name]
    options = {"directions": SOME, "dt_softplus": dt_softplus, "backend": backend}
    expected = selective_scan_3d(**values, **options)
    y = selective_scan_3d(**padded, **options, mask=mask)
    torch.testing.assert_close(y[inside], expected, **TOLERANCE)
    assert (y[~mask] == 0).all()
    torch.testing.assert_close(gradients(values, y[inside]), gradients(values, expected), **TOLERANCE)


def test_strided_arguments():
    values = make(3, 4, 5, count=2)
    strided = {k: v.detach().transpose(0, -1).contiguous().transpose(0, -1) for k, v in values.items()}
    options = {"directions": SOME[2:4], "dt_softplus": True}
    y = selective_scan_3d(**strided, **options, backend="torch")
    torch.testing.assert_close(y, selective_scan_3d(**values, **options, backend="naive").detach(), **TOLERANCE)


def test_float32_error():
    values = make(16, 14, 12, batch=1, count=2, dtype=torch.float32)
    exact = {name: value.detach().double().requires_grad_() for name, value in values.items()}
    y, reference = (selective_scan_3d(**v, directions=SOME[2:4], dt_softplus=True) for v in (values, exact))
    cotangent = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
    got = torch.autograd.grad(y, list(values.values()), cotangent)
    expected = torch.autograd.grad(reference, list(exact.values()), cotangent.double())
    pairs = [(y, reference), *zip(got, expected, strict=True)]
    errors = [((a.double() - b).norm() / b.norm()).item() for a, b in pairs]
    assert max(errors) < 1e-5, errors


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_computed_in_float32(dtype):
    values = make(3, 4, 5, count=2, dtype=dtype)
    wide = {name: value.detach().float() for name, value in values.items()}
    y, y_wide = (selective_scan_3d(**v, directions=SOME[:2], dt_softplus=True) for v in (values, wide))
    assert y.dtype == dtype
    torch.testing.assert_close(y, y_wide.to(dtype))
    for grad, value in zip(gradients(values, y), values.values(), strict=True):
        assert grad.dtype == dtype
        assert grad.shape == value.shape


def test_autocast_has_no_influence():
    values = make(3, 4, 5, dtype=torch.float32)
    expected = selective_scan_3d(**values, dt_softplus=True)
    grads = torch.autograd.grad(expected.sum(), list(values.values()))
    with torch.autocast("cpu", torch.bfloat16):
        y = selective_scan_3d(**values, dt_softplus=True)
        inside = torch.autograd.grad(y.sum(), list(values.values()))
    torch.testing.assert_close((y, *inside), (expected, *grads), rtol=0, atol=0)


def test_nan_is_not_lost():
    for name in NAMES:
        values = {k: v.detach().clone() for k, v in make(3, 4, 2).items()}
        values[name].view(-1)[-1] = torch.nan
        assert selective_scan_3d(**values, dt_softplus=True)[-1, -1, -1, -1].isnan().any()


@pytest.mark.filterwarnings("error")
def test_plain_torch_runs_by_default_and_without_a_warning():
    _dispatch._warn_once.cache_clear()  # what was said before is not said again
    with record_backends() as used:
        selective_scan_3d(**make(2, 2, 2))
    assert used == {"torch"}


@pytest.mark.parametrize("name", ["numba", "triton"])
def test_kernels_that_there_are_not_are_refused(monkeypatch, name):
    message = f"is '{name}', but selective_scan_3d cannot run so: it has no {name} kernels"
    with pytest.raises(ValueError, match=f"backend {message}"):
        selective_scan_3d(**make(2, 2, 2), backend=name)
    monkeypatch.setenv("SKOP_BACKEND", name)
    with pytest.raises(ValueError, match=f"SKOP_BACKEND {message}"):
        selective_scan_3d(**make(2, 2, 2))


BAD = [
    ({"x": torch.ones(2, 3, 4, 5)}, r"x has shape .*; expected \(batch, depth, height, width, channels\)"),
    ({"x": torch.ones(2, 0, 4, 5, 3)}, "none of them 0"),
    (
        {"dt": torch.ones(2, 3, 4, 5, 3)},
        r"dt has shape .* \(batch, depth, height, width, n_.*\) = \(2, 3, 4, 5, 2, 3\)",
    ),
    ({"A": torch.ones(3, 4)}, r"A has shape \(3, 4\); expected .* = \(2, 3, 4\)"),
    ({"B": torch.ones(2, 4, 3, 5, 2, 4)}, r"B has shape .* = \(2, 3, 4, 5, 2, 4\)"),
    (
        {"B": torch.ones(2, 3, 4, 5, 4)},
        r"B has shape .*; expected \(batch, depth, height, width, n_directions, d_state",
    ),
    ({"C": torch.ones(2, 3, 4, 5, 2, 3)}, r"C has shape .* d_state\) = \(2, 3, 4, 5, 2, 4\)"),
    ({"D": torch.ones(3)}, r"D has shape \(3,\); expected \(n_directions, channels\) = \(2, 3\)"),
    ({"dt_bias": torch.ones(3)}, r"dt_bias has shape \(3,\)"),
    ({"R": torch.ones(2, 3)}, r"R has shape \(2, 3\); expected \(n_directions, channels, d_state\) = \(2, 3, 4\)"),
    ({"mask": torch.ones(2, 4, 3, 5, dtype=torch.bool)}, r"mask has shape .* = \(2, 3, 4, 5\)"),
    ({"mask": torch.ones(2, 3, 4, 5)}, "mask has dtype torch.float32"),
    ({"x": torch.ones(2, 3, 4, 5, 3, dtype=torch.int64)}, "x has dtype torch.int64"),
    ({"directions": ((3, 2, 1),)}, "directions has 1 entries; expected 2"),
    ({"directions": (3, 2, 1)}, "directions has 3; expected triples of the axes 1, 2 and 3"),
    ({"directions": ((3, 2, 1), (2, 1))}, r"directions has \(2, 1\); expected triples"),
    ({"directions": ((3, 2, 1), (2, -2, 1))}, r"directions has \(2, -2, 1\)"),
    ({"directions": ((3, 2, 1), (0, 1, 2))}, r"directions has \(0, 1, 2\)"),
    ({"directions": ((3, 2, 1), (1.0, 2.0, 3.0))}, r"directions has \(1.0, 2.0, 3.0\)"),
    ({"directions": ("321", "123")}, "directions has '321'"),
    ({"correction": "states"}, "correction is 'states'"),
    ({"backend": "fast"}, "backend is 'fast'"),
]


def test_errors_name_the_argument():
    for change, message in BAD:
        with pytest.raises(ValueError, match=message):
            selective_scan_3d(**(make(3, 4, 5, count=2) | {"directions": ((3, 2, 1), (1, 2, 3))} | change))
