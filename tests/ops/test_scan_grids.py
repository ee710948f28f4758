"""Laws of scans over grids: the law of their paths, the symmetries of the grid, and the scans that they contain."""

from importlib import import_module
from itertools import permutations, product
from math import factorial

import numpy as np
import pytest
import torch
from scan_problems import FUNCTIONS, TOKENS, TOLERANCE, gradients, make, run, steps_along
from torch.nn.functional import softplus

from skop.ops import _dispatch, record_backends
from skop.ops.selective_scan_3d import SELECTIVE_SCAN_3D

CROSS = ((2, 1), (1, 2), (-2, -1), (-1, -2))
#: All orders of the axes, and each axis forwards and backwards in each place.
SOME = {"plane": CROSS, "space": ((3, 2, 1), (-1, -2, -3), (2, -3, 1), (-2, 1, 3), (3, 1, -2), (1, 3, 2))}
ALL = {
    scan: tuple(
        tuple(sign * axis for sign, axis in zip(signs, axes, strict=True))
        for axes in permutations(range(1, n_dims + 1))
        for signs in product((1, -1), repeat=n_dims)
    )
    for scan, n_dims in (("plane", 2), ("space", 3))
}
FORWARD = {"plane": (2, 1), "space": (3, 2, 1)}
FORMS = [("plane", "torch"), ("plane", "numba"), ("space", "torch")]
forms = pytest.mark.parametrize(("scan", "backend"), FORMS)


def weights_from(scan, source, grid, direction, decay, backend):
    """What a source of size 1 adds to all cells, with constant coefficients."""
    x, one = torch.zeros(1, *grid, 1).double(), torch.ones(1, *grid, 1, 1).double()
    x[(0, *source, 0)] = 1.0
    rate = torch.full((1, 1, 1), decay, dtype=torch.float64).log()
    return FUNCTIONS[scan](x, one, rate, one, one, directions=(direction,), backend=backend)[0, ..., 0]


@forms
def test_manhattan_distance_is_the_power_of_a_constant_decay(scan, backend):
    """Eq. 23 and 26 of GeoMaNO, in all directions: one path leads from a source to a cell, whatever ways there are."""
    grid, source, decay = ((5, 7), (1, 2), 0.7) if scan == "plane" else ((4, 3, 5), (1, 2, 2), 0.7)
    assert len(set(ALL[scan])) == {"plane": 8, "space": 48}[scan]
    for direction in ALL[scan]:
        weights = weights_from(scan, source, grid, direction, decay, backend)
        signs = {abs(axis): np.sign(axis) for axis in direction}
        for cell in np.ndindex(*grid):
            distance = [(p - q) * signs[axis] for axis, p, q in zip(range(1, 4), cell, source, strict=False)]
            expected = decay ** sum(distance) if min(distance) >= 0 else 0.0
            assert weights[cell].item() == pytest.approx(expected, rel=1e-12, abs=0), (direction, cell)


@forms
def test_it_is_not_the_one_pass_recurrence(scan, backend):
    """h = a (h_left + h_up + ...) + u counts all monotone ways: multinomial weights on top of the Manhattan law."""
    grid, decay = {"plane": (4, 5), "space": (3, 3, 4)}[scan], 0.6
    one_pass = np.zeros([size + 1 for size in grid])
    for cell in np.ndindex(*grid):
        place = np.add(cell, 1)
        neighbours = sum(one_pass[tuple(place - step)] for step in np.eye(len(grid), dtype=int))
        one_pass[tuple(place)] = decay * neighbours + (sum(cell) == 0)
    weights = weights_from(scan, (0,) * len(grid), grid, FORWARD[scan], decay, backend)
    for cell in np.ndindex(*grid):
        ways = factorial(sum(cell)) // np.prod([factorial(size) for size in cell])
        assert one_pass[tuple(np.add(cell, 1))] == pytest.approx(ways * weights[cell].item(), rel=1e-12)
    assert one_pass[tuple(grid)] > 30 * weights.flatten()[-1]


@forms
def test_one_path_leads_from_each_source_to_each_cell(scan, backend):
    """Along the first axis of the direction, then along the next, with decays of their own in every cell entered."""
    grid = {"plane": (4, 5), "space": (3, 4, 3)}[scan]
    for direction in SOME[scan][1::2] + (((-1, 2),) if scan == "plane" else ()):
        values, _ = make(scan, *grid, b=1, c=1, n=1, k=1, without=("R", "D", "dt_bias"))
        steps = softplus(values["dt"].detach())[0, ..., 0, 0].numpy()
        decays = np.exp(steps * values["A"].item())
        x, b, c = (values[name].detach().numpy().reshape(grid) for name in ("x", "B", "C"))
        expected = np.zeros(grid)
        for cell, source in product(np.ndindex(*grid), np.ndindex(*grid)):
            place, weight = np.array(source), steps[source] * b[source] * x[source] * c[cell]
            for step in steps_along(direction):
                for _ in range(np.dot(np.subtract(cell, place), step)):
                    place = place + step
                    weight = weight * decays[tuple(place)]
            expected[cell] += weight if tuple(place) == cell else 0.0
        (y,) = run(scan, values, backend, directions=(direction,))
        torch.testing.assert_close(y[0, ..., 0].detach(), torch.from_numpy(expected), **TOLERANCE)


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_own_cell_counts_once_for_each_direction_that_is_not_corrected(backend):
    """GeoMaNO, section 4.3: with four directions Bx is there four times, less what the correction takes off."""
    one = torch.ones(1, 3, 3, 4, 1, dtype=torch.float64)
    rates = torch.full((4, 1, 1), 0.8, dtype=torch.float64).log()
    for shares, times in ((None, 4), ((0, 0, 1, 1), 2)):
        x = torch.zeros(1, 3, 3, 1, dtype=torch.float64, requires_grad=True)
        R = None if shares is None else torch.tensor(shares, dtype=torch.float64).view(-1, 1, 1)
        y = FUNCTIONS["plane"](x, one, rates, 3.0 * one, one, R=R, directions=CROSS, backend=backend)
        (weights,) = torch.autograd.grad(y[0, 1, 1, 0], x)
        line, corner = 3.0 * 2 * 0.8, 3.0 * 2 * 0.8**2  # seen by two directions, whatever the correction
        expected = torch.tensor([[corner, line, 0], [line, 3.0 * times, line], [0, line, corner]], dtype=torch.float64)
        torch.testing.assert_close(weights[0, ..., 0], expected, **TOLERANCE)


@forms
def test_causality_and_the_share_of_the_own_cell(scan, backend):
    cell = {"plane": (2, 3), "space": (1, 1, 2)}[scan]
    values, _ = make(scan, *{"plane": (5, 6), "space": (4, 3, 5)}[scan], k=1, without=("D",))
    values["R"] = torch.ones_like(values["R"])
    changed = values["x"].detach().clone()
    changed[(slice(None), *cell)] += 1.0
    first, second = (run(scan, values | {"x": x}, backend)[0] for x in (values["x"], changed))
    influenced = ~torch.isclose(first, second, **TOLERANCE).all(dim=0).all(dim=-1)
    expected = torch.zeros_like(influenced)
    expected[tuple(slice(place, None) for place in cell)] = True
    expected[cell] = False
    torch.testing.assert_close(influenced, expected)


@forms
def test_directions_are_turns_of_the_grid(scan, backend):
    """The grid is flipped and its axes are exchanged, and back."""
    values, _ = make(scan, k=1, c=2, n=2)
    values, n_dims = {name: value.detach() for name, value in values.items()}, len(FORWARD[scan])
    for direction in ALL[scan]:
        axes, backwards = [abs(axis) for axis in direction[::-1]], [-axis for axis in direction if axis < 0]
        places = tuple(range(1, n_dims + 1))
        turned = {k: v.flip(backwards).movedim(axes, places) if k in TOKENS else v for k, v in values.items()}
        (expected,), (y,) = run(scan, turned, backend), run(scan, values, backend, directions=(direction,))
        torch.testing.assert_close(y, expected.movedim(places, axes).flip(backwards), **TOLERANCE)


@forms
def test_orders_of_the_axes_are_different_maps(scan, backend):
    n_dims = len(FORWARD[scan])
    values, _ = make(scan, *(3,) * n_dims, k=1)
    ys = [run(scan, values, backend, directions=(axes,))[0] for axes in permutations(range(1, n_dims + 1))]
    for i, j in product(range(len(ys)), repeat=2):
        last = (slice(None), *(-1,) * n_dims)
        assert i == j or not torch.isclose(ys[i][last], ys[j][last]).any()
        # A line has one way only.
        torch.testing.assert_close(ys[i].flatten(1, n_dims)[:, :3], ys[j].flatten(1, n_dims)[:, :3], **TOLERANCE)


@forms
def test_directions_are_the_sum_of_single_ones(scan, backend):
    values, _ = make(scan, k=len(SOME[scan]))
    (whole,) = run(scan, values, backend, directions=SOME[scan])
    total = torch.zeros_like(whole)
    for k, direction in enumerate(SOME[scan]):
        grids = {name: values[name][..., k : k + 1, :] for name in ("dt", "B", "C")}
        own = {name: values[name][k : k + 1] for name in ("A", "D", "dt_bias", "R")}
        total = total + run(scan, {"x": values["x"], **grids, **own}, backend, directions=(direction,))[0]
    torch.testing.assert_close(whole, total, **TOLERANCE)


@pytest.mark.parametrize(("scan", "backend"), [*FORMS, ("space", "naive")])
def test_one_line_is_a_sequence(scan, backend):
    n_dims = len(FORWARD[scan])
    for axis, direction in product(range(1, n_dims + 1), (SOME[scan][0], tuple(-other for other in FORWARD[scan]))):
        values, _ = make(scan, *(13 if other == axis else 1 for other in range(1, n_dims + 1)), k=1)
        line = {k: v.flatten(1, n_dims) if k in TOKENS else v[0] for k, v in values.items()}
        line["dt"] = line["dt"].squeeze(2)
        (y,) = run(scan, values, backend, directions=(direction,))
        expected, _ = run("sequence", line, "naive", reverse=-axis in direction)
        torch.testing.assert_close(y.flatten(1, n_dims), expected, **TOLERANCE)


@pytest.mark.parametrize(
    ("backend", "direction"), [("torch", (-1, -2, -3)), ("torch", (-2, 1, 3)), ("naive", (3, 1, -2))]
)
def test_one_plane_is_the_scan_of_a_plane(backend, direction):
    for axis in (1, 2, 3):
        values, _ = make("space", *(1 if other == axis else 3 + other for other in (1, 2, 3)), k=1)
        plane = {k: v.squeeze(axis) if k in TOKENS else v for k, v in values.items()}
        passes = tuple(
            int(np.sign(other)) * (abs(other) - (abs(other) > axis)) for other in direction if abs(other) != axis
        )
        (y,) = run("space", values, backend, directions=(direction,))
        (expected,) = run("plane", plane, "naive", directions=(passes,))
        torch.testing.assert_close(y.squeeze(axis), expected, **TOLERANCE)
        torch.testing.assert_close(gradients(values, [y]), gradients(values, [expected.unsqueeze(axis)]), **TOLERANCE)


@forms
def test_padding_changes_nothing_whatever_it_holds(scan, backend):
    """A frame of masked cells around the grid, as where grids of several sizes share a batch."""
    values, order = make(scan)
    grid = values["x"].shape[1:-1]
    inside = (slice(None), *(slice(1, 1 + size) for size in grid))
    mask, padded = torch.zeros(2, *(size + 3 for size in grid), dtype=torch.bool), dict(values)
    mask[inside] = True
    for name in TOKENS:
        padded[name] = torch.full((*mask.shape, *values[name].shape[mask.ndim :]), torch.nan).double()
        padded[name][inside] = values[name]
    (expected,), (y,) = run(scan, values, backend, **order), run(scan, padded, backend, **order, mask=mask)
    torch.testing.assert_close(y[inside], expected, **TOLERANCE)
    assert (y[~mask] == 0).all()
    torch.testing.assert_close(gradients(values, [y[inside]]), gradients(values, [expected]), **TOLERANCE)


# -- Three dimensions in plain torch ---------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [0, 8])
def test_large_grids_are_cut_into_blocks_and_channels(monkeypatch, largest):
    """And only the states before blocks of planes are kept."""
    monkeypatch.setattr(import_module("skop.ops.selective_scan_2d._torch"), "_LARGEST", largest)
    values, order = make("space", 19, 9, 11, b=3, c=50, k=1)
    (fast,), (slow,) = (run("space", values, choice, **order) for choice in ("torch", "naive"))
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    torch.testing.assert_close(gradients(values, [fast]), gradients(values, [slow]), **TOLERANCE)
    values, order = make("space", 32, 12, 12, b=1, c=32, n=16, k=1, without=("R", "D"), dtype=torch.float32)
    kept = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda v: kept.setdefault(v.data_ptr(), v), lambda v: v):
        run("space", values, "torch", **order)
    states = 32 * 12 * 12 * 32 * 16
    assert max(value.numel() for value in kept.values()) < 0.2 * states
    assert sum(value.numel() for value in kept.values()) < 0.6 * states


def test_plain_forms_agree_on_the_example():
    arguments = SELECTIVE_SCAN_3D.example()
    slow, fast = (SELECTIVE_SCAN_3D.plain[name](arguments)[0] for name in ("naive", "torch"))
    torch.testing.assert_close(fast, slow, **TOLERANCE)


@pytest.mark.filterwarnings("error")
def test_plain_torch_runs_by_default_and_without_a_warning():
    _dispatch._warn_once.cache_clear()  # what was said before is not said again
    values, order = make("space", 2, 2, 2)
    with record_backends() as used:
        run("space", values, None, **order)
    assert used == {"torch"}


@pytest.mark.parametrize("name", ["numba", "triton"])
def test_kernels_that_there_are_not_are_refused(monkeypatch, name):
    values, order = make("space", 2, 2, 2)
    message = f"is '{name}', but selective_scan_3d cannot run so: it has no {name} kernels"
    with pytest.raises(ValueError, match=f"backend {message}"):
        run("space", values, name, **order)
    monkeypatch.setenv("SKOP_BACKEND", name)
    with pytest.raises(ValueError, match=f"SKOP_BACKEND {message}"):
        run("space", values, None, **order)
