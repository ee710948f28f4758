"""A receptive field is the mean absolute gradient: known networks, differences of predictions, and no side effects."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

from skop import EnsembleRegressor, FieldSet, GeoMaNORegressor, LaMORegressor  # noqa: E402
from skop.data import unit_grid  # noqa: E402
from skop.exceptions import FieldDataError  # noqa: E402
from skop.inspection import ReceptiveFieldDisplay, learned_poles, receptive_field  # noqa: E402
from skop.networks import Outputs  # noqa: E402
from skop.parts import LatentTokens  # noqa: E402

SHAPES = {1: (9,), 2: (7, 6), 3: (5, 4, 6)}
SMALL = {"width": 8, "depth": 2, "max_iter": 1, "random_state": 0, "dtype": "float64"}
ON_GRID = {"patches__size": 2, "patches__conv_channels": 0}


def samples(shape, channels=1, n=6):
    return 3 + 2 * np.random.default_rng(0).standard_normal((n, *shape, channels))


def geomano(**parameters):
    return GeoMaNORegressor().set_params(**SMALL | ON_GRID | parameters)


def lamo(**parameters):
    return LaMORegressor().set_params(**SMALL | ON_GRID | parameters)


def fit(estimator, shape, channels=1, targets=1):
    X, y = samples(shape, channels), samples(shape, targets)[..., ::-1] ** 2
    return estimator.fit(X, y), X


class NoMixing(torch.nn.Module):
    """A mixer that lets no token see another."""

    def forward(self, tokens, counts):
        return torch.zeros_like(tokens)


class Stencil(torch.nn.Module):
    """The network field(p) = sum over shifts of weight * input(p + shift), the kernel centred, zero outside."""

    def __init__(self, kernel):
        super().__init__()
        self.kernel = torch.nn.Parameter(torch.as_tensor(kernel, dtype=torch.float64)[None, None])

    def forward(self, coords, fields, params, grid_shape):
        convolve = {1: torch.nn.functional.conv1d, 2: torch.nn.functional.conv2d, 3: torch.nn.functional.conv3d}
        grid = fields.unflatten(1, grid_shape).movedim(-1, 1)
        return Outputs(convolve[len(grid_shape)](grid, self.kernel, padding="same").movedim(1, -1).flatten(1, -2))


def patch_of(shape, point, patch=2):
    """True on the patch that holds a point."""
    marks = [np.arange(size) // patch == place // patch for size, place in zip(shape, point, strict=True)]
    return np.all(np.meshgrid(*marks, indexing="ij"), axis=0)


# ---------------------------------------------------------------------- known fields
@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_a_convolution_has_its_kernel_as_its_field(n_dims):
    shape = SHAPES[n_dims]
    model, X = fit(lamo(), shape)
    kernel = np.random.default_rng(1).standard_normal((3,) * n_dims)
    model.module_ = Stencil(kernel)
    point = tuple(size // 2 for size in shape)
    expected = np.zeros(shape)
    expected[tuple(slice(place - 1, place + 2) for place in point)] = np.abs(kernel)
    np.testing.assert_allclose(receptive_field(model, X), expected, atol=1e-14)


def test_at_the_edge_the_kernel_is_cut():
    model, X = fit(lamo(), SHAPES[2])
    kernel = np.arange(1.0, 10.0).reshape(3, 3)
    model.module_ = Stencil(kernel)
    expected = np.zeros(SHAPES[2])
    expected[:2, -2:] = kernel[1:, :2]
    np.testing.assert_allclose(receptive_field(model, X, point=(0, 5)), expected)
    np.testing.assert_allclose(receptive_field(model, X, point=(0, -1)), expected)


def test_the_field_of_a_linear_map_is_its_matrix_and_adds_up_over_all_points():
    model, X = fit(lamo(), SHAPES[1])
    kernel = np.array([0.5, -1.0, 2.0])
    model.module_ = Stencil(kernel)
    rows = np.array([receptive_field(model, X, point=place) for place in range(9)])
    # An input in the middle is seen by three outputs; those at the ends by two.
    np.testing.assert_allclose(rows.sum(axis=0), [1.5, *[3.5] * 7, 3.0])
    np.testing.assert_allclose(rows, sum(abs(weight) * np.eye(9, k=shift - 1) for shift, weight in enumerate(kernel)))


def test_fields_of_nonnegative_maps_add_and_scale():
    model, X = fit(lamo(), SHAPES[2])
    first, second = np.random.default_rng(2).random((2, 3, 5))
    fields = []
    for kernel in (first, second, first + 3 * second):
        model.module_ = Stencil(kernel)
        fields.append(receptive_field(model, X, point=(2, 3)))
    np.testing.assert_allclose(fields[0] + 3 * fields[1], fields[2])


def test_without_mixing_only_the_own_patch_counts(subtests):
    for make in [geomano, lamo]:
        for n_dims in [1, 2, 3]:
            with subtests.test(make=make, n_dims=n_dims):
                shape = SHAPES[n_dims]
                model, X = fit(make(), shape)
                point = tuple(size // 2 for size in shape)
                own = patch_of(shape, point)
                for layer in [None, -1]:
                    assert (receptive_field(model, X, layer=layer)[~own] > 0).any()
                for block in model.module_.blocks:
                    block.mixer = NoMixing()
                for layer in [None, -1]:
                    field = receptive_field(model, X, point=point, layer=layer)
                    assert (field[own] > 0).all()
                    assert (field[~own] == 0).all()


def test_all_points_of_a_patch_share_its_token():
    model, X = fit(geomano(), SHAPES[2])
    first = receptive_field(model, X, point=(2, 2), layer=0)
    np.testing.assert_array_equal(first, receptive_field(model, X, point=(3, 3), layer=0))
    assert not np.allclose(first, receptive_field(model, X, point=(4, 2), layer=0))


def test_later_blocks_see_at_least_as_far():
    model, X = fit(lamo(), SHAPES[2])
    model.module_.blocks[0].mixer = NoMixing()
    own = patch_of(SHAPES[2], (3, 3))
    assert (receptive_field(model, X, layer=0)[~own] == 0).all()
    assert (receptive_field(model, X, layer=1)[~own] > 0).any()
    np.testing.assert_array_equal(receptive_field(model, X, layer=1), receptive_field(model, X, layer=-1))


# ---------------------------------------------------------------------- against differences
def test_differences_of_predictions_agree(subtests):
    for make in [geomano, lamo]:
        for n_dims in [1, 2, 3]:
            with subtests.test(make=make, n_dims=n_dims):
                shape = SHAPES[n_dims]
                model, X = fit(make(patches__conv_channels=2), shape, channels=2, targets=2)
                point = tuple(size // 3 for size in shape)
                field, step = receptive_field(model, X, point=point), 1e-5
                # Units of the scalers: a difference in physical units, times input scale, over target scale.
                inputs, targets = model.scalers_.fields.scale_, model.scalers_.target.scale_
                for place in [point, (0,) * n_dims, tuple(size - 1 for size in shape)]:
                    slopes = []
                    for channel in range(2):
                        moved = np.zeros((*shape, 2))
                        moved[place][channel] = step
                        change = model.predict(X + moved) - model.predict(X - moved)
                        slopes.append(np.abs(change[(slice(None), *point)]) / (2 * step) * inputs[channel] / targets)
                    assert field[place] == pytest.approx(np.mean(slopes), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("kind", ["bent", "points"])
def test_grids_that_the_network_reads_as_points_have_fields_too(kind):
    shape = (5, 4)
    coords, values = unit_grid(shape), samples(shape).reshape(6, -1, 1)
    if kind == "bent":
        coords = coords + 0.1 * np.sin(3 * coords[:, ::-1])
    X = FieldSet(coords, values, grid_shape=shape)
    model = LaMORegressor(
        **SMALL | {"depth": 1},
        geometry="points" if kind == "points" else "auto",
        latents=LatentTokens(n_tokens=4, n_heads=2),
    ).fit(X, values)
    field, step = receptive_field(model, X, point=(1, 2)), 1e-5
    for place in (6, 0, 19):
        moved = np.zeros((20, 1))
        moved[place] = step
        up, down = (model.predict(X.with_values(values + sign * moved)) for sign in (1, -1))
        slope = np.abs(np.asarray(up) - np.asarray(down)).reshape(6, 20)[:, 6].mean() / (2 * step)
        expected = slope * float(model.scalers_.fields.scale_[0] / model.scalers_.target.scale_[0])
        assert field.ravel()[place] == pytest.approx(expected, rel=1e-4, abs=1e-10)


def test_it_is_the_mean_over_samples(monkeypatch):
    model, X = fit(geomano(), SHAPES[2])
    each = [receptive_field(model, X[[number]]) for number in range(6)]
    np.testing.assert_allclose(receptive_field(model, X), np.mean(each, axis=0))
    monkeypatch.setattr("skop.inspection._analysis._POINTS", 100)
    np.testing.assert_allclose(receptive_field(model, X), np.mean(each, axis=0))


def test_every_form_of_the_data_gives_the_same_field():
    shape = (5, 4)
    X, y = samples(shape), samples(shape) ** 2
    flat = X.reshape(6, -1, 1)
    repeated = np.repeat(unit_grid(shape)[None], 6, axis=0)
    model = lamo().fit(X, y)
    expected = receptive_field(model, X)
    for form in (FieldSet(unit_grid(shape), flat, grid_shape=shape), FieldSet(repeated, flat, grid_shape=shape)):
        np.testing.assert_allclose(receptive_field(model, form), expected)


def test_functions_lie_on_a_line():
    X = samples((8,))
    model = lamo().fit(X, X**2)
    assert receptive_field(model, X, point=0.5).shape == (8,)


def test_scalars_beside_a_field_are_left_out():
    shape = (5, 4)
    coords, values = unit_grid(shape), samples(shape).reshape(6, -1, 1)
    X = FieldSet(coords, values, grid_shape=shape)
    y = FieldSet(coords, values**2, grid_shape=shape, params=values.mean(axis=1))
    model = lamo().fit(X, y)
    field, step = receptive_field(model, X, point=(2, 2)), 1e-5
    moved = np.zeros((20, 1))
    moved[10] = step
    up, down = (model.predict(X.with_values(values + sign * moved)).values for sign in (1, -1))
    slope = np.abs(up - down)[:, 10].mean() / (2 * step)
    expected = slope * float(model.scalers_.fields.scale_[0] / model.scalers_.target.scale_[0])
    assert field[2, 2] == pytest.approx(expected, rel=1e-4)


# ---------------------------------------------------------------------- the point
def test_coordinates_find_the_nearest_point_and_the_middle_is_the_default():
    shape = (5, 7)
    coords = [10.0, -2.0] + unit_grid(shape) * [4.0, 1.0]
    values = samples(shape).reshape(6, -1, 1)
    X = FieldSet(coords, values, grid_shape=shape)
    model = lamo().fit(X, values**2)
    place = ReceptiveFieldDisplay.from_estimator(model, X, point=(12.9, -1.4)).point
    assert place == (3, 4)
    for point, same in (((12.9, -1.4), (3, 4)), (np.array([14.0, -1.0]), (4, 6)), ((-5, -1), (0, 6)), (None, (2, 3))):
        np.testing.assert_array_equal(
            receptive_field(model, X, point=point), receptive_field(model, X, point=np.array(same))
        )


def test_wrong_points_are_named(subtests):
    model, X = fit(lamo(depth=1), SHAPES[2])
    for point, message in [
        ((0, 6), r"point \(0, 6\) is not on the grid \(7, 6\)"),
        ((-8, 0), "is not on the grid"),
        (3, "point is 3, expected 2 integers"),
        ((1, 2, 3), "expected 2 integers"),
        ("middle", "point is 'middle', expected 2 integers"),
        ((True, False), "expected 2 integers"),
        ((0.5, 1.2), "lies outside the grid"),
        ((0.5, np.nan), "lies outside the grid"),
    ]:
        with subtests.test(point=point), pytest.raises(FieldDataError, match=message):
            receptive_field(model, X, point=point)


# ---------------------------------------------------------------------- no side effects
def test_the_estimator_stays_as_it_was(subtests):
    for make in [geomano, lamo]:
        for layer in [None, 0]:
            with subtests.test(make=make, layer=layer):
                model, X = fit(make(dropout=0.5), SHAPES[2])
                network = model.module_
                network.zero_grad(set_to_none=True)
                next(network.parameters()).requires_grad_(False)
                before, weights = model.predict(X), {name: held.clone() for name, held in network.state_dict().items()}
                flags = [held.requires_grad for held in network.parameters()]
                names, random = set(vars(model)), torch.get_rng_state()
                receptive_field(model, X, layer=layer)
                np.testing.assert_array_equal(model.predict(X), before)
                assert all(torch.equal(held, weights[name]) for name, held in network.state_dict().items())
                assert [held.requires_grad for held in network.parameters()] == flags
                assert all(held.grad is None for held in network.parameters())
                assert not any(module.training or module._forward_hooks for module in network.modules())
                assert set(vars(model)) == names
                assert torch.equal(torch.get_rng_state(), random)


def test_dropout_is_off_and_its_mode_is_kept():
    model, X = fit(lamo(dropout=0.5), SHAPES[2])
    expected = receptive_field(model, X)
    model.module_.blocks[1].train()
    np.testing.assert_array_equal(receptive_field(model, X), expected)
    assert [block.training for block in model.module_.blocks] == [False, True]


def test_a_failing_network_leaves_no_hook_and_no_mode():
    model, X = fit(geomano(), SHAPES[2])
    model.module_.train()
    model.module_.unembedding = None
    model.module_.blocks[1].mixer = torch.nn.Linear(3, 3).double()
    with pytest.raises(TypeError):
        receptive_field(model, X, layer=0)
    assert all(module.training for module in model.module_.modules())
    assert not any(module._forward_hooks for module in model.module_.modules())


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_callers_may_have_switched_gradients_off(guard):
    model, X = fit(geomano(), SHAPES[2])
    expected = receptive_field(model, X)
    with guard():
        np.testing.assert_array_equal(receptive_field(model, X), expected)


# ---------------------------------------------------------------------- errors
def test_a_fit_comes_first():
    with pytest.raises(NotFittedError, match="GeoMaNORegressor"):
        receptive_field(geomano(), samples((4, 4)))


def test_estimators_around_others_are_refused():
    X = samples((4, 4))
    pipeline = make_pipeline(FunctionTransformer(np.sin), lamo(depth=1)).fit(X, X)
    for estimator in (pipeline, EnsembleRegressor(lamo(depth=1))):
        with pytest.raises(ValueError, match=f"estimator is a {type(estimator).__name__}, expected a LaMORegressor"):
            receptive_field(estimator, X)
    assert receptive_field(pipeline[-1], np.sin(X)).shape == (4, 4)


def test_scalars_lie_at_no_point_but_tokens_do():
    X = samples((6, 6))
    model = geomano().fit(X, X.mean(axis=(1, 2)))
    with pytest.raises(FieldDataError, match="1 scalars of a sample, which belong to no point; pass layer=-1"):
        receptive_field(model, X)
    assert receptive_field(model, X, layer=-1).shape == (6, 6)


def test_inputs_without_fields_are_refused():
    coords, y = unit_grid((4, 4)), samples((4, 4)).reshape(6, -1, 1)
    X = FieldSet(coords, params=np.arange(12.0).reshape(6, 2), grid_shape=(4, 4))
    with pytest.raises(FieldDataError, match="X has no input fields"):
        receptive_field(lamo(depth=1).fit(X, y), X)


def test_point_sets_are_refused():
    rng = np.random.default_rng(0)
    coords, values = rng.random((30, 2)), rng.random((6, 30, 1))
    model = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0, latents=LatentTokens(n_tokens=4, n_heads=2))
    with pytest.raises(FieldDataError, match="X lies on points that form no 2-D grid"):
        receptive_field(model.fit((coords, values), values), (coords, values))
    on_grid = FieldSet(unit_grid((5, 6)), values, grid_shape=(5, 6))
    with pytest.raises(FieldDataError, match=r"the estimator takes its points in any order.*2-D grid"):
        receptive_field(model, on_grid)


def test_grids_of_each_sample_its_own_are_refused():
    coords = np.stack([unit_grid((4, 5)) * scale for scale in (1.0, 2.0, 3.0)])
    values = samples((4, 5), n=3).reshape(3, -1, 1)
    X = FieldSet(coords, values, grid_shape=(4, 5))
    model = LaMORegressor(
        width=8, depth=1, max_iter=1, random_state=0, latents=LatentTokens(n_tokens=4, n_heads=2)
    ).fit(X, values)
    with pytest.raises(FieldDataError, match="the samples of X have different grids"):
        receptive_field(model, X)
    assert receptive_field(model, X[[1]], point=(1.9, 0.1)).shape == (4, 5)


def test_finer_grids_are_refused_unless_the_network_sees_them():
    model, _ = fit(geomano(depth=1), (5, 5))
    fine = samples((9, 9))
    with pytest.raises(FieldDataError, match="predict interpolates predictions at the spacing"):
        receptive_field(model, fine)
    native = model.set_params(refinement="native")
    with pytest.warns(UserWarning, match="grid spacing"):
        assert receptive_field(native, fine).shape == (9, 9)


@pytest.mark.parametrize("layer", [2, -3, 0.5])
def test_wrong_layers_are_named(layer):
    model, X = fit(geomano(), SHAPES[2])
    with pytest.raises(ValueError, match=f"layer is {layer}, but the network has 2 blocks, from 0 to 1"):
        receptive_field(model, X, layer=layer)


def test_networks_of_points_have_no_token_of_a_point():
    X = samples((4, 4))
    model = LaMORegressor(
        width=8,
        depth=1,
        max_iter=1,
        geometry="structured",
        random_state=0,
        latents=LatentTokens(n_tokens=4, n_heads=2),
    ).fit(X, X)
    with pytest.raises(ValueError, match="layer is 0, but the LaMOPointNetwork has no token for each patch"):
        receptive_field(model, X, layer=0)


# ---------------------------------------------------------------------- shares and pictures
def test_shares_are_parts_of_the_field():
    field = np.arange(35.0).reshape(5, 7)
    display = ReceptiveFieldDisplay(field, (2, 5), unit_grid((5, 7)))
    assert display.own_share == pytest.approx(field[2, 5] / field.sum())
    assert display.cross_share == pytest.approx((field[2].sum() + field[:, 5].sum() - field[2, 5]) / field.sum())
    wide = ReceptiveFieldDisplay(field, (2, 5), unit_grid((5, 7)), patch_shape=(2, 3))
    rows, columns, own = field[2:4].sum(), field[:, 3:6].sum(), field[2:4, 3:6].sum()
    assert wide.own_share == pytest.approx(own / field.sum())
    assert wide.cross_share == pytest.approx((rows + columns - own) / field.sum())


def test_shares_in_a_box_a_line_and_of_nothing():
    box = ReceptiveFieldDisplay(np.ones((3, 4, 5)), (1, 1, 1), unit_grid((3, 4, 5)))
    assert box.cross_share == pytest.approx((3 + 4 + 5 - 2) / 60)
    line = ReceptiveFieldDisplay(np.ones(8), (3,), unit_grid((8,)), patch_shape=(2,))
    assert (line.own_share, line.cross_share) == (0.25, 1.0)
    nothing = ReceptiveFieldDisplay(np.zeros((3, 3)), (1, 1), unit_grid((3, 3))).plot()
    assert np.isnan(nothing.cross_share)
    nothing.figure_.canvas.draw()


def test_a_map_shows_every_value_at_its_point():
    model, X = fit(geomano(), SHAPES[2])
    display = ReceptiveFieldDisplay.from_estimator(model, X, point=(5, 1), log_scale=False, layer=-1)
    (mesh,) = display.artists_
    np.testing.assert_array_equal(display.field, receptive_field(model, X, point=(5, 1), layer=1))
    corners = np.asarray(mesh.get_coordinates())
    centres = (corners[:-1, :-1] + corners[1:, :-1] + corners[:-1, 1:] + corners[1:, 1:]) / 4
    np.testing.assert_allclose(centres.reshape(-1, 2), unit_grid(SHAPES[2]), atol=1e-12)
    np.testing.assert_array_equal(np.asarray(mesh.get_array()).reshape(SHAPES[2]), display.field)
    assert mesh.get_clim() == (0.0, display.field.max())
    assert (display.patch_shape, display.point) == ((2, 2), (5, 1))
    assert display.axes_[0].lines[0].get_xydata().tolist() == [[pytest.approx(5 / 6), pytest.approx(1 / 5)]]
    title = display.axes_[0].get_title()
    assert "block 1" in title
    assert f"{100 * display.cross_share:.3g} %" in title


def test_the_logarithmic_scale_ends_at_a_part_of_the_largest_value():
    field = np.array([[0.0, 1e-9], [0.5, 2.0]])
    display = ReceptiveFieldDisplay(field, (1, 1), unit_grid((2, 2))).plot(cmap="gray")
    display.figure_.canvas.draw()
    assert display.artists_[0].get_clim() == pytest.approx((2e-4, 2.0))
    colours = display.artists_[0].get_facecolor()[:, 0]
    assert colours[0] == colours[1] == 0
    assert 0 < colours[2] < colours[3] == 1


def test_a_line_is_a_curve():
    model, X = fit(lamo(), SHAPES[1])
    display = ReceptiveFieldDisplay.from_estimator(model, X, point=2)
    ((line,),) = display.artists_
    np.testing.assert_allclose(line.get_xdata(), np.linspace(0, 1, 9))
    np.testing.assert_array_equal(line.get_ydata(), display.field)
    assert display.axes_[0].get_yscale() == "log"
    assert display.plot(log_scale=False).axes_[0].get_yscale() == "linear"


def test_a_box_shows_the_planes_through_the_point():
    shape, point = SHAPES[3], (1, 2, 4)
    field = np.random.default_rng(0).random(shape)
    display = ReceptiveFieldDisplay(field, point, unit_grid(shape)).plot()
    planes = [field[:, :, 4], field[:, 2, :], field[1, :, :]]
    for artist, plane in zip(display.artists_, planes, strict=True):
        np.testing.assert_array_equal(np.asarray(artist.get_array()).reshape(plane.shape), plane)
        assert artist.get_clim() == display.artists_[0].get_clim()
    labels = [(panel.get_xlabel(), panel.get_ylabel()) for panel in display.axes_]
    assert labels == [("x", "y"), ("x", "z"), ("y", "z")]


def test_axes_of_the_grid_may_run_along_any_coordinate():
    coords = unit_grid((4, 3, 5))[:, [2, 0, 1]] * [1.0, 2.0, 4.0]
    field = np.random.default_rng(0).random((4, 3, 5))
    display = ReceptiveFieldDisplay(field, (0, 1, 2), coords).plot()
    # The first two axes of this grid run along y and z, at x = 0.5.
    assert (display.axes_[0].get_xlabel(), display.axes_[0].get_ylabel()) == ("y", "z")
    corners = np.asarray(display.artists_[0].get_coordinates())
    centres = (corners[:-1, :-1] + corners[1:, 1:]) / 2
    np.testing.assert_allclose(centres.reshape(-1, 2), unit_grid((4, 3)) * [2.0, 4.0], atol=1e-12)


def test_axes_with_one_point_are_not_drawn():
    assert len(ReceptiveFieldDisplay(np.ones((1, 4, 5)), (0, 1, 1), unit_grid((1, 4, 5))).plot().axes_) == 1
    display = ReceptiveFieldDisplay(np.ones((1, 4)), (0, 2), unit_grid((1, 4))).plot()
    assert display.artists_[0][0].get_xdata().tolist() == np.linspace(0, 1, 4).tolist()
    assert display.axes_[0].get_xlabel() == "y"


def test_bent_grids_keep_their_shape():
    radius, angle = np.meshgrid([1.0, 2.0, 3.0], np.linspace(0, 1, 6), indexing="ij")
    coords = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).reshape(-1, 2)
    display = ReceptiveFieldDisplay(np.ones((3, 6)), (1, 2), coords).plot()
    corners = np.asarray(display.artists_[0].get_coordinates())
    centres = (corners[:-1, :-1] + corners[1:, :-1] + corners[:-1, 1:] + corners[1:, 1:]) / 4
    np.testing.assert_allclose(np.linalg.norm(centres[1, 1:-1], axis=-1), 2.0, rtol=0.02)


def test_draws_into_given_axes():
    figure, axes = pyplot.subplots(1, 2)
    display = ReceptiveFieldDisplay(np.ones((3, 3)), (1, 1), unit_grid((3, 3)))
    assert display.plot(ax=axes[0]).axes_.tolist() == [axes[0]]
    assert display.figure_ is figure
    assert pyplot.get_fignums() == [figure.number]
    with pytest.raises(ValueError, match="ax has 2 axes, expected 1"):
        display.plot(ax=axes)


@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
def test_over_a_base_the_whole_network_is_differentiated():
    X = samples((4, 4), n=12)
    model = lamo(base="linear", depth=1).fit(X, 2 * X)
    model.module_.set_shares(np.ones(1), None)
    expected = receptive_field(model, X)
    model.module_.set_shares(np.zeros(1), None)
    assert expected.max() > 0
    np.testing.assert_array_equal(receptive_field(model, X), expected)
    with pytest.raises(ValueError, match="mixers of the LaMOPatchNetwork have no poles"):
        learned_poles(model, X)
