"""Predictions on other grids and in other boxes than those of the fit: one warning, or an error."""

import re
import warnings
from functools import partial

import numpy as np
import pytest

import skop
from skop import (
    EnsembleRegressor,
    FieldSet,
    GeoMaNORegressor,
    LaMORegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
)
from skop.data import unit_grid
from skop.exceptions import FieldDataError, ResolutionWarning
from skop.surrogate._domain import Domain

GRID = (6, 5)
POINTS = unit_grid(GRID)
RANDOM = np.random.default_rng(0)


def on(points, grid=GRID, n_samples=3, seed=0):
    """Random fields on a grid with these points, which samples share or have of their own."""
    size = int(np.prod(grid))
    return FieldSet(points, np.random.default_rng(seed).standard_normal((n_samples, size, 1)), grid_shape=grid)


def small(kind=LaMORegressor, **params):
    return kind().set_params(width=8, depth=1, batch_size=4, max_iter=1, random_state=0, **params)


def table(points, grid=GRID):
    return points.reshape(*grid, 2)


def said_of(call):
    """Messages of the ResolutionWarnings of a call; all of them must name this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(item.filename == __file__ for item in caught)
    return [str(item.message) for item in caught if item.category is ResolutionWarning]


@pytest.fixture(scope="module", params=[LaMORegressor, GeoMaNORegressor])
def model(request):
    return small(request.param).fit(on(POINTS), on(POINTS))


bent = POINTS + 0.2 * np.sin(np.pi * POINTS[:, ::-1])
REFUSED = {
    "bent": (on(bent), "bent, first in sample 0.*6 x 5 points"),
    "sheared": (on(POINTS @ [[1.0, 0.3], [0.0, 1.0]]), "bent"),
    "each sample bent by itself": (on(np.stack([POINTS, POINTS, bent])), "bent, first in sample 2"),
    "exchanged axes": (on(POINTS[:, ::-1]), "axis 0 .* along coordinate 1, .* fit it ran along coordinate 0"),
    "backwards": (
        on(np.abs(POINTS - [0.0, 1.0])),
        "coordinate 1 runs backwards along axis 1.* from 1 to 0.* from 0 to 1",
    ),
    "other units": (on(1e-3 * POINTS), "between two points of the fit"),
}
WARNED = {
    "shifted": (
        POINTS + np.array([0.0, 3.0]),
        r"6 x 5 points in the box \[0, 1\] x \[3, 4\].*6 x 5.*\[0, 1\] x \[0, 1\]",
    ),
    "scaled": (2 * POINTS, r"\[0, 2\] x \[0, 2\].*\[0, 1\] x \[0, 1\]"),
    "smaller": (0.5 * POINTS, r"\[0, 0\.5\] x \[0, 0\.5\]"),
    "graded": (POINTS**2, r"in the box \[0, 1\] x \[0, 1\] of the fit, but its lines"),
    "each sample shifted by itself": (np.stack([POINTS, POINTS, POINTS + 1]), r"\[0, 2\] x \[0, 2\]"),
}
SILENT = {
    "the same": on(POINTS),
    "rounded": on(POINTS.astype(np.float32)),
    "each sample with a copy": on(np.stack([POINTS] * 3)),
    "nearly the same": on(POINTS + 1e-3 * RANDOM.random(POINTS.shape)),
    "off the lines by 4 % of a spacing": on(POINTS + 8e-3 * RANDOM.random(POINTS.shape)),
    "finer": on(unit_grid((11, 9)), (11, 9)),
    "an array": RANDOM.standard_normal((3, *GRID, 1)),
}


@pytest.mark.filterwarnings("ignore::skop.exceptions.ResolutionWarning")
def test_grids_with_another_meaning_of_their_axes_are_refused(model, subtests):
    for name, (X, message) in REFUSED.items():
        with subtests.test(name), pytest.raises(FieldDataError, match=message):
            model.predict(X)


def test_other_grids_are_named_once(model, subtests):
    for name, (points, message) in WARNED.items():
        X = on(points)
        for method, arguments in (("predict", (X,)), ("score", (X, X)), ("predict", (X, X.coords[..., :3, :]))):
            with subtests.test(name, method=method):
                (said,) = said_of(partial(getattr(model, method), *arguments))
                assert re.search(message, said), said


def test_the_grid_of_the_fit_and_finer_ones_are_silent(model):
    assert not {name: said for name, X in SILENT.items() if (said := said_of(partial(model.predict, X)))}


@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_grids_without_end_points_may_be_refined(offset):
    """Periodic grids end one step early, and centres of cells begin half a step late."""

    def cells(n):
        axes = [(np.arange(size) + offset) / size for size in (6 * n, 5 * n)]
        return on(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2), (6 * n, 5 * n))

    model = small().fit(cells(1), cells(1))
    assert said_of(lambda: [model.predict(cells(count)) for count in (2, 3)]) == []


def test_axes_in_another_order_than_the_coordinates_are_as_good_if_the_fit_had_them():
    swapped = on(POINTS[:, ::-1] * [1.0, -2.0])
    model = small().fit(swapped, swapped)
    assert said_of(lambda: model.predict(swapped)) == []
    with pytest.raises(FieldDataError, match="axis 0 of the grid of X runs along coordinate 0"):
        model.predict(on(POINTS * [-2.0, 1.0]))


@pytest.mark.parametrize("params", [{"geometry": "points"}, {"geometry": "structured"}])
def test_networks_that_read_places_may_see_other_points_of_the_box(params):
    model = small(latents__n_heads=2, **params).fit(on(POINTS), on(POINTS))
    inside = on(np.clip(bent, 0, 1.0))
    assert said_of(lambda: model.predict(inside)) == []
    (said,) = said_of(lambda: model.predict(on(POINTS + np.array([0.0, 0.1]))))
    assert "[0, 1] x [0.1, 1.1]" in said
    assert "[0, 1] x [0, 1]" in said
    assert said_of(lambda: model.predict(on(POINTS * 1.04))) == []


def bent_grids(n_samples, seed, *, is_closed=False):
    """Nodes (n, 8, 16, 2) of channels with random walls, or of O-grids around ellipses."""
    amounts = np.random.default_rng(seed).random((2, n_samples, 1, 1))
    across, along = np.meshgrid(np.linspace(0, 1, 8), np.arange(16) / 16, indexing="ij")
    if is_closed:
        radius, angle = 0.3 + 0.2 * amounts[0] + across, 2 * np.pi * along
        return np.stack([radius * np.cos(angle), (0.6 + 0.4 * amounts[1]) * radius * np.sin(angle)], axis=-1)
    places = [across + 0.3 * amounts[0] * np.sin(3 * along), 2 * along + 0.3 * amounts[1] * across**2]
    return np.stack(places, axis=-1)


CHANGED = {
    "axis 0 reversed": lambda nodes: nodes[:, ::-1],
    "axis 1 reversed": lambda nodes: nodes[:, :, ::-1],
    "axis 0 reversed and axis 1 reversed": lambda nodes: nodes[:, ::-1, ::-1],
    r"the axes taken in the order \(1, 0\)": lambda nodes: nodes.swapaxes(1, 2),
}


@pytest.mark.parametrize("are_shared", [False, True])
@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("kind", [LaMORegressor, GeoMaNORegressor])
def test_axes_of_bent_grids_in_another_order_or_direction_are_refused(are_shared, is_closed, kind, tmp_path, subtests):
    def read(nodes):
        points = nodes.reshape(len(nodes), -1, 2)
        return on(points[0] if are_shared else points, nodes.shape[1:3], n_samples=len(nodes))

    X = bent_grids(12, 0, is_closed=is_closed)
    new = X[:3] if are_shared else bent_grids(3, 1, is_closed=is_closed)
    small(kind).fit(read(X), read(X)).save(tmp_path / "model.skop")
    model = skop.load(tmp_path / "model.skop")
    model.predict(read(new))
    model.domain_.check(read(new[:, ::2, ::2]))
    for change, changed in CHANGED.items():
        with subtests.test(change), pytest.raises(FieldDataError, match=f"sample 0 of X has its axes.* with {change};"):
            model.predict(read(changed(new)))


def test_bent_grids_of_both_directions_may_have_both():
    for is_closed in (False, True):
        nodes = bent_grids(24, 0, is_closed=is_closed)
        nodes[::3] = nodes[::3, :, ::-1]
        domain = Domain.from_fit(on(nodes.reshape(24, -1, 2), (8, 16), n_samples=24), "grid")
        new = bent_grids(6, 1, is_closed=is_closed)
        for other in (new, new[:, :, ::-1]):
            domain.check(on(other.reshape(6, -1, 2), (8, 16), n_samples=6))
        with pytest.raises(FieldDataError, match="axis 0 reversed"):
            domain.check(on(new[:, ::-1].reshape(6, -1, 2), (8, 16), n_samples=6))


def test_clouds_outside_the_box():
    points = [RANDOM.random((size, 2)) for size in (7, 9, 8)]
    targets = [point[:, :1] for point in points]
    model = small(latents__n_heads=2).fit(points, targets)
    assert said_of(lambda: model.predict(points[::-1])) == []
    assert len(said_of(lambda: model.predict([5e5 + point for point in points]))) == 1
    assert len(said_of(lambda: model.predict([5e5 + point for point in points], coords=[5e5 + p for p in points]))) == 1


def test_digits_suit_coordinates_far_from_the_origin():
    far = on(5e5 + POINTS)
    model = small().fit(far, far)
    assert said_of(lambda: model.predict(far)) == []
    (said,) = said_of(lambda: model.predict(on(5e5 + POINTS + [0.25, 0.0])))
    assert "[500000.25, 500001.25]" in said
    assert "[500000, 500001]" in said


@pytest.mark.parametrize("kind", [EnsembleRegressor, RolloutRegressor, TimeConditionedRegressor])
def test_members_and_steps_warn_once_together(kind):
    params = {"n_members": 2} if kind is EnsembleRegressor else {"window": 1} if kind is RolloutRegressor else {}
    X, y = on(POINTS), on(POINTS).with_values(np.ones((3, 30, 3)))
    model = kind(small(), **params).fit(X, y)
    moved = on(POINTS + 2)
    assert len(said_of(lambda: model.predict(moved))) == 1
    assert len(said_of(lambda: model.score(moved, moved.with_values(y.values)))) == 1


def test_a_gradient_warns_once():
    X = on(POINTS).with_params(np.arange(3.0)[:, None])
    model = small().fit(X, X.with_values(X.values))
    moved = on(POINTS + 2).with_params(np.arange(3.0)[:, None])
    assert len(said_of(lambda: model.gradient(moved, lambda field: field.sum(dim=(1, 2))))) == 1


def test_the_domain_is_in_model_files_and_a_warm_start_warns(tmp_path):
    model = small(warm_start=True).fit(on(POINTS), on(POINTS))
    model.save(tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop")
    moved = on(POINTS + 2)
    assert said_of(lambda: loaded.predict(moved)) == said_of(lambda: model.predict(moved))
    with pytest.raises(FieldDataError, match="bent"):
        loaded.predict(on(bent))
    assert len(said_of(lambda: loaded.fit(moved, moved))) == 1
    before = loaded.predict(on(POINTS)).values
    with pytest.raises(FieldDataError, match="backwards"):
        loaded.fit(on(-POINTS), on(-POINTS))
    np.testing.assert_array_equal(loaded.predict(on(POINTS)).values, before)


def test_a_grid_of_one_line():
    thin = unit_grid((6, 1))
    model = small().fit(on(thin, (6, 1)), on(thin, (6, 1)))
    assert said_of(lambda: model.predict(on(thin, (6, 1)))) == []
