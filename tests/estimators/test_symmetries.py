"""Symmetries of point sets and meshes in estimators: equivariance, invariance of the training, refusals."""

import copy
import warnings

import meshio
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import skop
from skop import (
    AMORegressor,
    EnsembleRegressor,
    FieldSet,
    GeoMaNORegressor,
    LaMORegressor,
    MNORegressor,
    PODRegressor,
    RolloutRegressor,
    SymmetryOptions,
)
from skop.data import PointSymmetries, unit_grid
from skop.exceptions import FieldDataError, SkopWarning
from skop.modules import GridConvolution
from skop.parts import GNOT
from skop.surrogate._symmetries import axes_around

RANDOM = np.random.default_rng(0)
N = 4
CENTRE = np.array([1.0, 0.5])
FLIP = np.diag([-1.0, 1.0])
TURN = np.array([[-0.5, -np.sqrt(0.75)], [np.sqrt(0.75), -0.5]])  # by 120 degrees


def small(estimator=LaMORegressor, **params):
    settings = {"width": 8, "depth": 1, "batch_size": 4, "max_iter": 1, "random_state": 0, "dtype": "float64"}
    return estimator(**settings, base=None).set_params(**params)


def cloud(size, dims=2):
    return RANDOM.random((size, dims)) * [2.0, 1.0, 1.0][:dims]


def values(size, channels):
    return RANDOM.normal(size=(size, channels)) + np.arange(channels)


def moved(fields, turn, vectors=(), tensors=(), centre=CENTRE):
    """A FieldSet whose points, vectors and symmetric tensors of the plane are moved, in NumPy."""
    points = [(part - centre) @ turn.T + centre for part in fields.coords_list()]
    held = None if fields.values is None else [part.copy() for part in fields.to_list()]
    for part in held or []:
        for vector in vectors:
            part[:, vector] = part[:, vector] @ turn.T
        for xx, yy, xy in tensors:
            full = np.array([[part[:, xx], part[:, xy]], [part[:, xy], part[:, yy]]]).transpose(2, 0, 1)
            found = turn @ full @ turn.T
            part[:, xx], part[:, yy], part[:, xy] = found[:, 0, 0], found[:, 1, 1], found[:, 0, 1]
    if not fields.is_ragged:
        points, held = np.stack(points), None if held is None else np.stack(held)
    return FieldSet(points, held, params=fields.params, grid_shape=fields.grid_shape)


def bent_grid():
    """Curvilinear grids of 5 x 4 points, of each sample its own."""
    grid = unit_grid((5, 4)) * [2, 1]
    return np.stack([grid + 0.05 * np.sin(3 * grid[:, ::-1] + number) for number in range(N)])


def layout(name):
    if name == "ragged":
        sizes = (6, 9, 7, 8)
        points, fields = [cloud(size) for size in sizes], [values(size, 3) for size in sizes]
        return FieldSet(points, fields), FieldSet(points, [values(size, 5) for size in sizes])
    points = {"own": np.stack([cloud(8) for _ in range(N)]), "shared": cloud(8), "structured": bent_grid()}[name]
    size = points.shape[-2]
    grid = (5, 4) if name == "structured" else None
    make = lambda channels: FieldSet(points, np.stack([values(size, channels) for _ in range(N)]), grid_shape=grid)  # noqa: E731
    return make(3), make(5)


CHANNELS = {"input_vectors": [(1, 2)], "target_vectors": [(0, 3)], "target_tensors": [(1, 2, 4)]}
GROUP = {
    "names": ["flip_x"],
    "rotations": [((1.0, 0.5), 120.0)],
    "domain": [(0, 2), (0, 1)],
    "average_predictions": True,
}


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (LaMORegressor, "ragged"),
        (LaMORegressor, "structured"),
        (AMORegressor, "own"),
        (MNORegressor, "ragged"),
        pytest.param(MNORegressor, "shared", marks=pytest.mark.exhaustive),
    ],
)
def test_averaged_predictions_are_equivariant(estimator, name, recwarn):
    X, y = layout(name)
    model = small(estimator, symmetries=SymmetryOptions(**GROUP, **CHANNELS)).fit(X, y)
    before = model.predict(X)
    for turn in (FLIP, TURN, FLIP @ TURN):
        found = model.predict(moved(X, turn, [[1, 2]]))
        expected = moved(before, turn, [[0, 3]], [(1, 2, 4)])
        for own, other in zip(found.to_list(), expected.to_list(), strict=True):
            np.testing.assert_allclose(own, other, rtol=0, atol=1e-11)
    # The network alone does not have the symmetry: the test can fail. Its points are inside the box of moved points.
    model.set_params(symmetries__average_predictions=False)
    found = model.predict(moved(X, TURN, [[1, 2]])).to_list()
    expected = moved(model.predict(X), TURN, [[0, 3]], [(1, 2, 4)]).to_list()
    assert max(np.abs(own - other).max() for own, other in zip(found, expected, strict=True)) > 1e-4
    assert not recwarn.list


@pytest.mark.exhaustive
@pytest.mark.parametrize("estimator", [LaMORegressor, AMORegressor, MNORegressor])
def test_bodies_in_space_turn_about_an_axis(estimator):
    points = [cloud(size, 3) for size in (6, 9, 7, 8)]
    X = FieldSet(points, [values(len(part), 3) for part in points])
    y = FieldSet(points, [values(len(part), 9) for part in points])
    place, axis = np.array([1.0, 0.5, 0.2]), np.array([1.0, 2.0, 2.0]) / 3
    options = SymmetryOptions(
        rotations=[(place, 3 * axis, 90)], mirrors=[(place, axis)], average_predictions=True,
        input_vectors=[(0, 1, 2)], target_vectors=[(6, 7, 8)], target_tensors=[(0, 1, 2, 3, 4, 5)],
    )  # fmt: skip
    model = small(estimator, symmetries=options).fit(X, y)
    # A quarter turn and a mirror image: K v is the cross product with the axis.
    spin = np.cross(np.eye(3), axis)
    turn = (np.eye(3) + spin + spin @ spin) @ (np.eye(3) - 2 * np.outer(axis, axis))
    image = FieldSet([(part - place) @ turn.T + place for part in points], [part @ turn.T for part in X.to_list()])
    for own, other in zip(model.predict(image).to_list(), model.predict(X).to_list(), strict=True):
        full = turn @ other[:, [[0, 3, 5], [3, 1, 4], [5, 4, 2]]] @ turn.T
        expected = np.column_stack([full[:, [0, 1, 2, 0, 1, 0], [0, 1, 2, 1, 2, 2]], other[:, 6:] @ turn.T])
        np.testing.assert_allclose(own, expected, rtol=0, atol=1e-11)
        assert np.abs(expected - other).max() > 1e-3


def test_a_mirrored_load_gives_the_mirrored_field():
    half = cloud(6)
    points = np.concatenate([half, (half - CENTRE) @ FLIP + CENTRE])  # the plate mirrors these onto each other
    loads = RANDOM.normal(size=(6, 3)) + np.array([0, 5, 0])
    table = pd.DataFrame(loads, columns=["size", "fx", "fy"])
    y = FieldSet(points, RANDOM.normal(size=(6, 12, 3)), params=RANDOM.normal(size=(6, 3)))
    parts = {"param_vectors": [("fx", "fy")], "target_vectors": [(0, 2)], "scalar_vectors": [(2, 0)]}
    model = small(symmetries=SymmetryOptions(**GROUP, **parts)).fit(table, y)
    before, found = model.predict(table), model.predict(table.assign(fx=-table["fx"]))
    fields = np.roll(before.values, 6, axis=1) * [-1, 1, 1]
    np.testing.assert_allclose(found.values, fields, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.params, before.params * [1, 1, -1], rtol=0, atol=1e-11)
    assert np.abs(found.values - before.values).max() > 1e-3


def test_a_gradient_goes_through_turned_parameters():
    points, loads = cloud(8), RANDOM.normal(size=(5, 2))
    symmetries = SymmetryOptions(**GROUP, param_vectors=[(0, 1)], target_vectors=[(0, 1)])
    model = small(symmetries=symmetries).fit(loads, FieldSet(points, RANDOM.normal(size=(5, 8, 2))))
    found = model.gradient(loads, lambda field: field[:, 3, 0])
    steps = 1e-5 * np.eye(2)
    expected = [
        (model.predict(loads + step).values[:, 3, 0] - model.predict(loads - step).values[:, 3, 0]) / 2e-5
        for step in steps
    ]
    np.testing.assert_allclose(found, np.stack(expected, axis=1), rtol=1e-5, atol=1e-8)


def test_scalars_of_moved_samples():
    X, _ = layout("own")
    y = RANDOM.normal(size=(N, 3))
    model = small(symmetries=SymmetryOptions(**GROUP, input_vectors=[(1, 2)], scalar_vectors=[(0, 2)])).fit(X, y)
    expected = model.predict(X)
    expected[:, [0, 2]] = expected[:, [0, 2]] @ TURN.T
    np.testing.assert_allclose(model.predict(moved(X, TURN, [[1, 2]])), expected, rtol=0, atol=1e-11)


# ---------------------------------------------------------------- training
def test_a_mirrored_data_set_trains_the_same_model(monkeypatch):
    X, y = layout("ragged")
    options = SymmetryOptions(**GROUP | {"average_predictions": False}, **CHANNELS)
    model = small(max_iter=2, symmetries=options).fit(X, y)
    draw = PointSymmetries.draw

    def mirrored_draw(self, n_samples, generator):
        # A mirrored sample, mirrored back and moved as before, is the sample moved as before.
        turn, shift = draw(self, n_samples, generator)
        return turn @ torch.from_numpy(FLIP), shift

    monkeypatch.setattr(PointSymmetries, "draw", mirrored_draw)
    pair = moved(X, FLIP, [[1, 2]]), moved(y, FLIP, [[0, 3]], [(1, 2, 4)])
    other = small(max_iter=2, symmetries=options).fit(*pair)
    np.testing.assert_allclose(other.loss_curve_, model.loss_curve_, rtol=1e-9)
    for own, expected in zip(other.predict(X).to_list(), model.predict(X).to_list(), strict=True):
        np.testing.assert_allclose(own, expected, rtol=0, atol=1e-9)


def test_fits_are_repeatable_and_change_with_any_angle():
    X, y = layout("ragged")
    options = SymmetryOptions(names=["rotate", "flip_x"], **CHANNELS)
    first, again, plain = (small(symmetries=held).fit(X, y) for held in (options, options, None))
    assert first.loss_curve_ == again.loss_curve_
    assert first.loss_curve_ != plain.loss_curve_
    model = first.set_params(symmetries__average_predictions=True)
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    centre = model.symmetry_centre_
    np.testing.assert_allclose(centre, (X.coords.min(axis=0) + X.coords.max(axis=0)) / 2)
    expected = moved(model.predict(X), turn, [[0, 3]], [(1, 2, 4)], centre).to_list()
    for own, other in zip(model.predict(moved(X, turn, [[1, 2]], centre=centre)).to_list(), expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-11)


def test_without_symmetries_nothing_changes():
    X, y = layout("ragged")
    plain, empty = (small(symmetries=held).fit(X, y) for held in (None, SymmetryOptions(**CHANNELS)))
    assert plain.loss_curve_ == empty.loss_curve_
    np.testing.assert_array_equal(plain.scalers_.coords.span_, empty.scalers_.coords.span_)


def test_it_goes_with_drawn_points_early_stopping_warm_starts_and_files(tmp_path):
    X, y = layout("ragged")
    options = SymmetryOptions(**GROUP, **CHANNELS)
    params = {"symmetries": options, "training__subsample_points": 5, "early_stopping": True, "warm_start": True}
    model = small(**params, max_iter=2).fit(X, y)
    assert len(model.validation_scores_) == 2
    assert len(model.fit(X, y).validation_scores_) == 4
    model.save(tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop")
    for own, other in zip(loaded.predict(X).to_list(), model.predict(X).to_list(), strict=True):
        np.testing.assert_array_equal(own, other)
    assert clone(loaded).symmetries.get_params() == options.get_params()


@pytest.mark.exhaustive
def test_ensembles_of_moved_samples():
    X, y = layout("own")
    model = EnsembleRegressor(small(symmetries=SymmetryOptions(**GROUP, **CHANNELS)), n_members=2, random_state=0)
    found = model.fit(X, y).predict(moved(X, FLIP, [[1, 2]])).values
    np.testing.assert_allclose(found, moved(model.predict(X), FLIP, [[0, 3]], [(1, 2, 4)]).values, atol=1e-11)


UNSEEN = {
    "points": ({"names": ["rotate"]}, "points lie up to 0.[0-9]+ times the extent"),
    "vectors": (
        {"names": ["flip_x"], "input_vectors": [(1, 2)]},
        "^samples are moved.* suit them: input_vectors.*first",
    ),
    "targets": ({"names": ["flip_x"], "target_vectors": [(4, 0)]}, "target_vectors"),
    "tensors": ({"names": ["quarter_turn"], "target_tensors": [(4, 0, 1)]}, "target_tensors"),
}


@pytest.fixture(scope="module")
def fitted_without_symmetries():
    """Samples, and an estimator that goes on from a fit without symmetries, which warned of nothing."""
    X, y = (part.with_values(part.values + 20 * np.arange(part.n_channels)) for part in layout("own"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return X, y, small(warm_start=True).fit(X, y)


def test_symmetries_that_the_first_fit_did_not_have_are_named_where_its_scaling_does_not_suit_them(
    fitted_without_symmetries, recwarn, subtests
):
    for name, (options, words) in UNSEEN.items():
        with subtests.test(name):
            X, y, model = fitted_without_symmetries
            declared = SymmetryOptions(**options)
            with pytest.warns(SkopWarning, match=words):
                copy.deepcopy(model).set_params(symmetries=declared).fit(X, y)
            # Declared in the first fit, they are no surprise.
            recwarn.clear()
            small(warm_start=True, symmetries=declared).fit(X, y).fit(X, y)
            assert not recwarn.list


def test_averages_over_symmetries_that_the_fit_did_not_have_are_named():
    X, y = layout("shared")
    model = small().fit(X, y).set_params(symmetries=SymmetryOptions(names=["rotate"], average_predictions=True))
    with pytest.warns(SkopWarning, match="points lie up to .*Declare the symmetries in the first fit"):
        model.predict(X)


def test_a_mirror_can_be_declared_later_on_bent_grids_too(recwarn):
    X, y = layout("structured")
    X = X.with_values(X.values[..., :1])
    model = small(warm_start=True).fit(X, y)
    model.set_params(symmetries=SymmetryOptions(names=["flip_x"], average_predictions=True)).fit(X, y)
    centre = (X.coords.min(axis=(0, 1)) + X.coords.max(axis=(0, 1))) / 2
    np.testing.assert_allclose(model.symmetry_centre_, centre)
    found = model.predict(moved(X, FLIP, centre=centre))
    np.testing.assert_allclose(found.values, model.predict(X).values, rtol=0, atol=1e-11)
    # Without any, the centre stays for what comes later.
    model.set_params(symmetries=None).fit(X, y)
    np.testing.assert_allclose(model.symmetry_centre_, centre)
    assert not recwarn.list


# ---------------------------------------------------------------- other points
@pytest.mark.parametrize("name", ["shared", pytest.param("ragged", marks=pytest.mark.exhaustive)])
def test_targets_and_predictions_on_other_points(name):
    X, _ = layout(name)
    places = [np.clip(cloud(5), [0.5, 0.3], [1.5, 0.7]) for _ in range(N)]
    y = FieldSet(places, [values(5, 5) for _ in places])
    model = small(MNORegressor, symmetries=SymmetryOptions(**GROUP, **CHANNELS)).fit(X, y)
    before = model.predict(X, coords=y)
    found = model.predict(moved(X, FLIP, [[1, 2]]), coords=moved(y, FLIP))
    expected = moved(before, FLIP, [[0, 3]], [(1, 2, 4)])
    for own, other in zip(found.to_list(), expected.to_list(), strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-11)


# ---------------------------------------------------------------- meshes
def meshes(moves=None):
    """Triangulated plates in z = 2 with a displacement of three components and a stress of six, in VTK's order."""
    random = np.random.default_rng(5)
    found = []
    for _ in range(N):
        points = np.column_stack([random.random((8, 2)) * [2, 1], np.full(8, 2.0)])
        load, shift = random.normal(size=(2, 8, 3))
        stress = random.normal(size=(8, 3, 3))
        stress = stress + stress.transpose(0, 2, 1)
        if moves is not None:
            centre = np.array([*CENTRE, 0.0])
            points = (points - centre) @ moves.T + centre
            load, shift, stress = load @ moves.T, shift @ moves.T, moves @ stress @ moves.T
        columns = stress[:, [0, 1, 2, 0, 1, 0], [0, 1, 2, 1, 2, 2]]
        data = {"load": load, "stress": columns, "displacement": shift}
        found.append(meshio.Mesh(points, [("triangle", [[0, 1, 2], [3, 4, 5], [5, 6, 7]])], point_data=data))
    return found


def test_fields_of_plane_meshes_by_name(recwarn):
    parts = {"input_vectors": ["load"], "target_vectors": ["displacement"], "target_tensors": ["stress"]}
    model = small(
        input_fields=["load"],
        target_fields=["stress", "displacement"],
        symmetries=SymmetryOptions(**GROUP, **parts),
    ).fit(meshes())
    space = np.eye(3)
    space[:2, :2] = TURN
    for own, other in zip(model.predict(meshes(space)), model.predict(meshes()), strict=True):
        np.testing.assert_allclose(
            own.point_data["displacement"], other.point_data["displacement"] @ space.T, atol=1e-11
        )
        full = other.point_data["stress"][:, [[0, 3, 5], [3, 1, 4], [5, 4, 2]]]
        expected = (space @ full @ space.T)[:, [0, 1, 2, 0, 1, 0], [0, 1, 2, 1, 2, 2]]
        np.testing.assert_allclose(own.point_data["stress"], expected, atol=1e-11)
    assert not recwarn.list


# ---------------------------------------------------------------- grids
def test_tensors_and_loads_turn_on_grids_too():
    grid, loads = (5, 5), RANDOM.normal(size=(6, 2))
    fields = RANDOM.normal(size=(6, 5, 5, 3))
    symmetries = SymmetryOptions(
        names=["flip_x", "transpose"], average_predictions=True, input_tensors=[(0, 1, 2)], target_tensors=[(0, 1, 2)],
        param_vectors=[(0, 1)],
    )  # fmt: skip
    X = FieldSet(unit_grid(grid), fields.reshape(6, 25, 3), params=loads, grid_shape=grid)
    model = small(symmetries=symmetries).fit(X, fields)
    before = model.predict(X)
    for turn, move in (
        (FLIP, lambda array: array[:, ::-1]),
        (np.array([[0.0, 1], [1, 0]]), lambda array: array.transpose(0, 2, 1, 3)),
    ):
        turned = [
            moved(FieldSet(unit_grid(grid), move(held).reshape(6, 25, 3)), turn, tensors=[(0, 1, 2)]).values
            for held in (fields, before)
        ]
        image = FieldSet(unit_grid(grid), turned[0], params=loads @ turn.T, grid_shape=grid)
        np.testing.assert_allclose(model.predict(image).reshape(6, 25, 3), turned[1], rtol=0, atol=1e-11)


@pytest.mark.parametrize("estimator", [LaMORegressor, MNORegressor])
def test_predictions_at_points_of_a_grid_that_is_read_as_points_are_averaged_too(estimator):
    X = FieldSet(unit_grid((4, 3)), RANDOM.normal(size=(N, 12, 2)), grid_shape=(4, 3))
    options = SymmetryOptions(names=["flip_x"], average_predictions=True, input_vectors=[(0, 1)])
    model = small(estimator, geometry="points", symmetries=options).fit(X, X)
    chosen = [7, 2, 5]
    found = model.predict(X, coords=X.coords[chosen])
    np.testing.assert_allclose(found.values, model.predict(X).values[:, chosen], rtol=0, atol=1e-12)


def test_averages_on_a_grid_whose_targets_are_elsewhere_are_refused():
    X = FieldSet(unit_grid((4, 3)), RANDOM.normal(size=(N, 12, 2)), grid_shape=(4, 3))
    y = FieldSet(RANDOM.random((5, 2)), RANDOM.normal(size=(N, 5, 1)))
    model = small(MNORegressor, host=GNOT()).fit(X, y)
    model.set_params(symmetries=SymmetryOptions(names=["flip_x"], average_predictions=True))
    with pytest.raises(FieldDataError, match=r"cannot be averaged.*average_predictions=False"):
        model.predict(X)


# ---------------------------------------------------------------- mistakes
def test_axes_of_different_extent_are_not_exchanged():
    X = FieldSet(unit_grid((4, 4)) * [2, 1], RANDOM.normal(size=(N, 16, 2)), grid_shape=(4, 4))
    for domain in (None, [(0, 2), (0, 1)]):
        model = small(symmetries=SymmetryOptions(names=["flip_x", "transpose"], domain=domain))
        with pytest.raises(FieldDataError, match="exchange"):
            model.fit(X, X)
        model.set_params(symmetries__names=["flip_x", "flip_y"]).fit(X, X)


def test_loads_beside_fields_are_named_by_their_columns():
    X, y = layout("own")
    loads = pd.DataFrame(RANDOM.normal(size=(N, 3)) + np.array([0, 5, 0]), columns=["size", "fx", "fy"])
    by_name, by_number = (
        small(symmetries=SymmetryOptions(**GROUP, param_vectors=[pair])).fit(X, y, params=loads)
        for pair in (("fx", "fy"), (1, 2))
    )
    np.testing.assert_array_equal(by_name.predict(X, params=loads).values, by_number.predict(X, params=loads).values)


@pytest.mark.parametrize("kind", [LaMORegressor, GeoMaNORegressor, AMORegressor, MNORegressor, skop.UNetRegressor])
def test_convolutions_wrap_around_where_shifts_are_declared(kind, tmp_path):
    def axes_of(model):
        return {part.periodic for part in model.module_.modules() if isinstance(part, GridConvolution)}

    X = RANDOM.normal(size=(8, 6, 5, 1))
    y = X + np.roll(X, 1, axis=2)
    model = small(kind, symmetries=["shift_y", "flip_x"], warm_start=True).fit(X, y)
    assert axes_of(model) == {(1,)}
    expected = model.predict(X)
    model.save(tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop")
    assert axes_of(loaded) == {(1,)}
    np.testing.assert_array_equal(loaded.predict(X), expected)
    # They are a part of the network, which a continued fit keeps; and models of earlier versions have none.
    assert axes_of(model.set_params(symmetries=None).fit(X, y)) == {(1,)}
    del loaded.periodic_axes_
    loaded.save(tmp_path / "older.skop")
    assert axes_of(skop.load(tmp_path / "older.skop")) == axes_of(small(kind).fit(X, y)) == {()}
    # A network on points has no grid.
    if kind is LaMORegressor:
        points = small(kind, geometry="points", symmetries=["shift_y"]).fit(X, y)
        assert points.periodic_axes_ == ()


def fourier(size, n_samples=12):
    """Random fields with the period 1 at points of one period, without its end."""
    rng, wave = np.random.default_rng(3), 2 * np.pi * np.outer(np.arange(1, 5), np.arange(size) / size)
    return rng.normal(size=(n_samples, 4)) @ np.cos(wave) + rng.normal(size=(n_samples, 4)) @ np.sin(wave)


def rough(n_samples, size):
    """Random fields whose spectrum falls with the wavenumber, to the shortest waves of a grid of one period."""
    spectrum = np.fft.rfft(RANDOM.normal(size=(n_samples, size))) / (3 + np.arange(size // 2 + 1))
    return np.fft.irfft(spectrum, size)


GOING_ON = {
    "periodic": lambda waves, t: waves(48),
    "periodic and rough": lambda waves, t: rough(12, 48),
    "periodic with noise": lambda waves, t: waves(48) + 0.1 * RANDOM.normal(size=(12, 48)),
    "period with its end": lambda waves, t: np.pad(waves(48), ((0, 0), (0, 1)), mode="wrap"),
    "part of a period": lambda waves, t: waves(64)[:, :48],
    "values of walls": lambda waves, t: waves(4)[:, :3] @ np.sin(np.pi * np.outer(np.arange(1, 4), t)),
    "walls with noise": lambda waves, t: (
        np.outer(1 + waves(12)[:, 0] / 9, t - t**2) + 0.01 * RANDOM.normal(size=(12, 48))
    ),
    "rough period with its end": lambda waves, t: np.pad(rough(12, 48), ((0, 0), (0, 1)), mode="wrap"),
    "part of a rough period": lambda waves, t: rough(12, 192)[:, :48],
    "noise": lambda waves, t: RANDOM.normal(size=(12, 48)),
    "straight lines": lambda waves, t: waves(12)[:, :1] * t,
    "slopes of walls": lambda waves, t: waves(4)[:, :3] @ np.cos(np.pi * np.outer(np.arange(1, 4), t)),
    "nothing at the ends": lambda waves, t: np.exp(-(((t - 0.5 - waves(9)[:, :1] / 90) / 0.1) ** 2)),
    "constant": lambda waves, t: np.repeat(waves(4)[:, :1], 48, axis=1),
}


@pytest.mark.parametrize("name", GOING_ON)
def test_axes_around_which_fields_go_on_are_found(name):
    """A whole period of something that changes at its ends as elsewhere; along an axis, and the one beside it."""
    lines = GOING_ON[name](fourier, np.linspace(0, 1, 48))
    periodic, found = fourier(16)[:, None, :], lines[:, :, None]
    expected = (0, 1) if name.startswith("periodic") else (1,)
    grid = (lines.shape[1], 16)
    both, one, other = (
        FieldSet(unit_grid(grid), np.broadcast_to(part, (12, *grid)).reshape(12, -1, 1), grid_shape=grid)
        for part in (found + periodic, found, periodic)
    )
    rows = np.arange(12)
    # Every channel has to go on; those that do not change along an axis tell nothing of it.
    assert axes_around([both], rows) == axes_around([other, one], rows) == axes_around([both, other], rows) == expected
    assert axes_around([other], rows) == (1,)
    assert axes_around([FieldSet(unit_grid((4,)), np.ones((3, 4, 0)), grid_shape=(4,))], rows[:3]) == ()


def test_convolutions_wrap_and_arrays_are_periods_where_the_samples_go_on(tmp_path):
    X = fourier(16)[..., None]
    options = {"max_iter": 1, "base": None, "random_state": 0}
    model = small(**options).fit(X, X**2)
    assert model.periodic_axes_ == (0,)
    # The network is that of declared shifts, but for samples that are shifted in training.
    shifted = small(**options, symmetries=["shift_x"]).fit(X, X**2)
    shifted.module_.load_state_dict(model.module_.state_dict())
    shifted.scalers_ = model.scalers_
    fine = fourier(32)[..., None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(model.predict(fine), shifted.predict(fine))
    model.save(tmp_path / "model.skop")
    np.testing.assert_array_equal(skop.load(tmp_path / "model.skop").predict(fine), model.predict(fine))
    # Shifts that are declared later make arrays periods too, whatever the network does.
    later = small(**options, symmetries=skop.SymmetryOptions(periodic=False), warm_start=True).fit(X, X**2)
    later.set_params(symmetries=["shift_x"]).fit(X, X**2)
    assert (later.periodic_axes_, later.surrogate_.periodic) == ((), (0,))
    for other in (
        small(**options, symmetries=skop.SymmetryOptions(periodic=False)),
        small(**options, geometry="points"),
    ):
        assert other.fit(X, X**2).periodic_axes_ == ()
    assert small(**options).fit(X, X + np.linspace(0, 9, 16)[:, None]).periodic_axes_ == ()
    assert small(**options).fit(X, X.mean(axis=(1, 2))).periodic_axes_ == (0,)
    assert LaMORegressor.from_preset("darcy").symmetries.periodic is False


@pytest.mark.parametrize("axis", [0, 1])
def test_a_repeated_last_point_is_refused_in_periodic_shifts(axis):
    waves = np.sin(2 * np.pi * (np.linspace(0, 1, 7)[:, None] + RANDOM.random((N, 1, 5))))[..., None]
    waves = waves if axis == 0 else waves.swapaxes(1, 2)
    model = small(symmetries=[f"shift_{'xy'[axis]}"])
    with pytest.raises(FieldDataError, match=f"shift_{'xy'[axis]} moves.*leave the last point out"):
        model.fit(waves, 2 * waves)
    model.fit(*[np.delete(waves, -1, axis=axis + 1)] * 2)
    # Along the other axis nothing repeats; constant fields have any period.
    small(symmetries=[f"shift_{'yx'[axis]}"]).fit(waves, waves)
    small(symmetries=["shift_x", "shift_y"]).fit(RANDOM.normal(size=(N, 2)), np.ones((N, 6, 5, 1)))


@pytest.mark.parametrize("shape", [(N, 2, 9, 8), (N, 1, 8, 8, 8)])
def test_channels_that_come_first_are_named(shape):
    fields = RANDOM.normal(size=shape)
    with pytest.warns(SkopWarning, match=r"with 8 channels.*np.moveaxis\(X, 1, -1\)"):
        PODRegressor().fit(fields, fields[:, 0, 0, 0])


def test_vectors_of_a_rollout_are_declared_in_each_frame_of_the_window():
    X = RANDOM.normal(size=(N, 5, 4, 10))
    parts = {"names": ["flip_x"], "target_vectors": [(0, 1)], "target_tensors": [[2, 3, 4]]}
    step = small(symmetries=SymmetryOptions(**parts, input_vectors=[(0, 1)], input_tensors=[(2, 3, 4), (7, 8, 9)]))
    with pytest.raises(FieldDataError, match=r"declare input_vectors=\[\(0, 1\), \(5, 6\)\]"):
        RolloutRegressor(step, window=2).fit(X, X[..., :5])
    step.set_params(symmetries__input_vectors=[(5, 6), (0, 1)])
    RolloutRegressor(step, window=2).fit(X, X[..., :5])


WRONG = {
    "periodic shift": ({"names": ["shift_x"]}, "straight grid"),
    "missing channel": ({"names": ["flip_x"], "input_vectors": [(1, 3)]}, "input_vectors names channel 3.*0 to 2"),
    "missing scalar": ({"names": ["flip_x"], "scalar_vectors": [(0, 1)]}, "scalar targets, of which there are none"),
    "name without names": ({"names": ["flip_x"], "target_vectors": ["u"]}, "y has no names; give the numbers"),
    "channel of two": ({"names": ["flip_x"], "input_vectors": [(0, 1), (1, 2)]}, "channel 1 of X, which another"),
    "no tuple": ({"names": ["flip_x"], "target_vectors": [1]}, "expected a tuple of channels"),
    "wrong domain": ({"names": ["flip_x"], "domain": [(0, 1)]}, "2 pairs"),
    "domain in other units": ({"names": ["flip_x"], "domain": [(0, 0.02), (0, 0.01)]}, "in the units of the points"),
    "domain elsewhere": ({"names": ["flip_x"], "domain": [(0, 2), (1, 2)]}, "points of X lie in the box"),
    "zero normal": ({"mirrors": [((0, 0), (0, 0))]}, "length zero"),
    "too many": (
        {"names": ["rotate"], "rotations": [((0, 0), 90)], "average_predictions": True}, "more than 720 combinations"
    ),
}  # fmt: skip


def test_wrong_declarations_are_refused_before_training(subtests):
    for name, (options, message) in WRONG.items():
        with subtests.test(name):
            X, y = layout("own")
            model = small(symmetries=SymmetryOptions(**options))
            with pytest.raises(FieldDataError, match=message):
                model.fit(X, y)
            assert not hasattr(model, "module_")


def test_fields_that_look_like_vectors_are_named_if_they_are_not_declared():
    names = {"input_fields": ["load"], "target_fields": ["displacement", "stress"]}
    options = SymmetryOptions(names=["flip_x"], input_vectors=["load"], target_tensors=["stress"])
    with pytest.warns(SkopWarning, match=r"components of displacement are left.*target_vectors"):
        small(symmetries=options, **names).fit(meshes())


def test_unknown_names_list_those_of_the_mesh():
    model = small(target_fields=["stress"], symmetries=SymmetryOptions(names=["flip_x"], target_tensors=["strain"]))
    with pytest.raises(FieldDataError, match=r"names 'strain', but y has \['stress_0'"):
        model.fit(meshes())


@pytest.mark.filterwarnings("ignore:interpolation from the points")
def test_planes_on_grids_are_refused_unless_they_are_read_as_points():
    fields = RANDOM.normal(size=(4, 5, 4, 1))
    options = SymmetryOptions(mirrors=[((0.5, 0.5), (1, 1))])
    points = cloud(12)
    smooth = FieldSet(points, np.repeat(points[None, :, :1], 4, axis=0))
    for model, X in (
        (small(symmetries=options), fields),
        (small(GeoMaNORegressor, grid=(4, 4), symmetries=options), smooth),
    ):
        with pytest.raises(FieldDataError, match="on the points of a grid"):
            model.fit(X, X)
    model = small(symmetries=options, geometry="points", symmetries__average_predictions=True).fit(fields, fields)
    assert np.isfinite(model.predict(fields)).all()


def test_straight_grids_of_each_sample_are_mirrored_in_place():
    straight = unit_grid((5, 4)) + np.arange(N)[:, None, None]
    X = FieldSet(straight, RANDOM.normal(size=(N, 20, 1)), grid_shape=(5, 4))
    for geometry in ("grid", "structured"):
        options = SymmetryOptions(names=["flip_x"], average_predictions=True)
        model = small(symmetries=options, geometry=geometry).fit(X, X)
        assert model.symmetry_centre_ is None
        mirrored = X.with_values(X.values.reshape(N, 5, 4, 1)[:, ::-1].reshape(N, 20, 1))
        expected = model.predict(X).values.reshape(N, 5, 4, 1)[:, ::-1].reshape(N, 20, 1)
        np.testing.assert_allclose(model.predict(mirrored).values, expected, rtol=0, atol=1e-12)
        bent = FieldSet(bent_grid(), X.values, grid_shape=(5, 4))
        with pytest.raises(FieldDataError, match="onto each other"):
            model.predict(bent)


@pytest.mark.parametrize("average", [True, False])
def test_images_of_training_samples_are_known(average, recwarn):
    rng = np.random.default_rng(3)
    half = rng.random((10, 2))
    points = np.concatenate([half, half * [-1, 1] + [2, 0]])
    loads = np.column_stack([rng.uniform(0.9, 1, 40), rng.uniform(1, 2, 40)])
    X = FieldSet(points, points * loads[:, None], params=loads)
    y = FieldSet(points, np.cos(points) * loads[:, None])
    channels = {"input_vectors": [(0, 1)], "target_vectors": [(0, 1)], "param_vectors": [(0, 1)]}
    symmetries = SymmetryOptions(names=["flip_x"], domain=[(0, 2), (0, 1)], average_predictions=average, **channels)
    model, plain = (small(symmetries=held, base=None).fit(X, y) for held in (symmetries, None))
    image = moved(X[:10], FLIP, [[0, 1]]).with_params(loads[:10] * [-1, 1])
    model.predict(image)
    assert len(model.check(image)) == 0
    assert not recwarn.list
    np.testing.assert_allclose(model.novelty(image), model.novelty(X[:10]), atol=1e-9)
    stayed = FieldSet(points, np.roll(X.values[:10], 10, axis=1) * [-1, 1], params=image.params)
    np.testing.assert_allclose(model.novelty(stayed), model.novelty(X[:10]), atol=1e-9)
    # Loads in another direction are new, and without declared symmetries mirrored ones are too.
    with pytest.warns(skop.exceptions.ExtrapolationWarning):
        model.predict(X[:10].with_params(loads[:10] * [1, -1]))
    assert "parameter 0" in set(plain.check(image)["what"])
    assert (plain.novelty(image, level=None).quantile == 1).all()


def test_ranges_are_those_of_all_turned_fields():
    rng = np.random.default_rng(4)
    fields = rng.uniform(0.5, 1, (30, 12, 2)) * [10, 1]
    X = FieldSet(cloud(12), fields)
    symmetries = SymmetryOptions(names=["rotate"], input_vectors=[(0, 1)], target_vectors=[(0, 1)])
    ranges = small(symmetries=symmetries, base=None).fit(X, FieldSet(X.coords, fields)).ranges_
    largest = np.linalg.norm(fields, axis=-1).max()
    np.testing.assert_allclose(ranges.values, [[-largest] * 2, [largest] * 2], rtol=0.01)
    np.testing.assert_allclose(ranges.outputs, ranges.values)
    assert ranges.sizes[0, 0] < 1.5
    assert ranges.sizes[1, 1] > 7


@pytest.mark.parametrize("estimator", [LaMORegressor, GeoMaNORegressor])
def test_planes_that_map_bent_grids_onto_themselves_exchange_values(estimator):
    radius, angle = np.meshgrid(np.linspace(1, 2, 6), np.linspace(0, 1, 7), indexing="ij")
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    fields = RANDOM.normal(size=(12, 6, 7, 1))
    X, normal = FieldSet(points, fields), (-np.sin(0.5), np.cos(0.5))
    options = {"mirrors": [((0, 0), normal)], "average_predictions": True}
    model = small(estimator, symmetries=SymmetryOptions(**options), base=None).fit(X, X)
    found, mirrored = (
        np.reshape(model.predict(FieldSet(points, part)).values, fields.shape) for part in (fields, fields[:, :, ::-1])
    )
    np.testing.assert_allclose(mirrored, found[:, :, ::-1], atol=1e-12)
    with pytest.raises(FieldDataError, match="do not map the points of X onto each other"):
        model.predict(FieldSet(points + np.array([0, 0.1]), fields))
    with pytest.raises(FieldDataError, match="the points of a sample are others than those"):
        model.predict(FieldSet(np.stack([points, 1.1 * points]), fields[:2]))
    # Without averages there is no need of images there, and such samples are far from those of the fit.
    model = small(estimator, symmetries=SymmetryOptions(mirrors=options["mirrors"]), base=None).fit(X, X)
    for other in (points * [1.05, 1], np.stack([points, 1.1 * points])):
        part = FieldSet(other, fields[: len(other) if other.ndim == 4 else 12])
        assert np.isfinite(model.predict(part).values).all()
        assert np.isfinite(model.novelty(part).score).all()
