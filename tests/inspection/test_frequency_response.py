"""Frequency responses against known spectra and the published formula, for every network, and without side effects."""

from functools import cache

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

from skop import (  # noqa: E402
    AMORegressor,
    EnsembleRegressor,
    FieldSet,
    GeoMaNORegressor,
    LaMORegressor,
    MNORegressor,
)
from skop.data import unit_grid  # noqa: E402
from skop.exceptions import FieldDataError  # noqa: E402
from skop.inspection import FrequencyResponseDisplay, frequency_response  # noqa: E402
from skop.inspection._frequency_response import FrequencyResponse  # noqa: E402
from skop.modules import note_features, observe_features  # noqa: E402
from skop.parts import GNOT, Attention, LatentAttention, LatentTokens, OFormer, Patches  # noqa: E402

SMALL = {"width": 8, "depth": 1, "max_iter": 1, "random_state": 0, "dtype": "float64"}
BLOCK = ("mixer", "mlp")


def samples(shape, n=4):
    return 3 + 2 * np.random.default_rng(0).standard_normal((n, *shape, 1))


def lamo(**parameters):
    return LaMORegressor().set_params(**SMALL | parameters)


def on_points(**parameters):
    return LaMORegressor(**SMALL | parameters, latents=LatentTokens(n_tokens=4, n_heads=2))


def amo(**parameters):
    return AMORegressor().set_params(**SMALL | {"depth": 2, "mixer__n_poles": 3} | parameters)


class Shows(torch.nn.Module):
    """A network whose layers hold given maps, (n, *grid, E), for a batch with the fields 0, 1, ... of its samples."""

    def __init__(self, *layers, grid=None):
        super().__init__()
        self.layers, self.grid = layers, grid

    def forward(self, coords, fields, params, grid_shape):
        number = fields[:, 0, 0].round().long().numpy()
        for layer in self.layers:
            tokens = torch.as_tensor(layer[number]).flatten(1, -2)
            assert note_features("mixer", tokens, self.grid) is tokens


def numbers(n, shape):
    """Fields that tell the samples apart, also after scaling, which is undone by hand."""
    return np.broadcast_to(np.arange(float(n)).reshape(n, *[1] * (len(shape) + 1)), (n, *shape, 1))


@cache
def fitted_on(shape):
    """A model of a grid, whose network the tests replace."""
    return lamo(patches__size=1, base=None).fit(numbers(2, shape), numbers(2, shape))


def response_of(*layers, grid=None):
    """The response of a network with these feature maps."""
    n, *shape, _ = layers[0].shape
    model = fitted_on(tuple(shape))
    scaler = model.scalers_.fields
    model.module_ = torch.nn.Sequential()
    shows = Shows(*layers, grid=grid)
    model.module_.forward = lambda coords, fields, params, grid_shape: shows(
        coords, scaler.inverse_transform(fields), params, grid_shape
    )
    return frequency_response(model, numbers(n, shape))


def published(maps):
    """The formula of Park and Kim's code for maps (n, h, h, E): bins 0, 1, ... below pi."""
    logs = np.log(np.abs(np.fft.fft2(maps, axes=(1, 2))) + 1e-6).mean(axis=(0, 3))
    half = len(logs) // 2
    diagonal = np.diag(np.roll(logs, (half, half), axis=(0, 1)))[half:]
    return diagonal - diagonal[0]


# ---------------------------------------------------------------------- known spectra
@pytest.mark.parametrize("size", [8, 9])
def test_it_is_the_formula_of_the_public_code(size):
    maps = [np.random.default_rng(seed).standard_normal((3, size, size, 2)).cumsum(axis=1) for seed in (0, 1)]
    response = response_of(*maps)
    for found, own in zip(response.log_amplitudes, maps, strict=True):
        expected = published(own)
        np.testing.assert_allclose(found[: len(expected)], expected, rtol=1e-12, atol=1e-12)
    # Even grids also hold pi itself, which the formula leaves out.
    assert len(response.frequencies) == len(expected) + (size % 2 == 0)
    np.testing.assert_allclose(response.frequencies, np.linspace(0, 1, size // 2 + 1))


def test_white_noise_is_flat_up_to_its_real_coefficients():
    noise = np.random.default_rng(0).standard_normal((400, 8, 8, 16))
    expected = [0, *[np.log(2) / 2] * 3, 0]
    np.testing.assert_allclose(response_of(noise).log_amplitudes[0], expected, atol=0.06)


def test_a_wave_has_its_peak_at_its_frequency(subtests):
    for shape in [(16,), (12, 12), (8, 8, 8)]:
        for wave in [1, 2, 3]:
            with subtests.test(shape=shape, wave=wave):
                place = sum(np.meshgrid(*(np.arange(size) / size for size in shape), indexing="ij"))
                maps = 1e-3 + np.cos(2 * np.pi * wave * place)[None, ..., None]
                values = response_of(maps).log_amplitudes[0]
                assert values.argmax() == wave
                # Half the amplitude of the wave, over the mean; elsewhere nothing but the epsilon.
                count = np.prod(shape)
                assert values[wave] == pytest.approx(np.log(count / 2 + 1e-6) - np.log(1e-3 * count + 1e-6))
                others = np.delete(values, [0, wave])
                np.testing.assert_allclose(others, np.log(1e-6) - np.log(1e-3 * count + 1e-6), atol=1e-5)


def test_a_blur_lowers_the_response_by_its_transfer_function():
    rng, width = np.random.default_rng(0), 0.8
    noise = 1e3 * (1 + rng.standard_normal((3, 10, 10, 2)))
    shifts = np.arange(-4, 5)
    weights = np.exp(-(shifts**2) / (2 * width**2))
    blurred = noise
    for axis in (1, 2):
        blurred = sum(weight * np.roll(blurred, shift, axis) for shift, weight in zip(shifts, weights, strict=True))
    before, after = response_of(noise, blurred).log_amplitudes
    # The real, even kernel along one axis at 2 pi k / n, twice for both axes.
    gains = (weights * np.cos(2 * np.pi * np.arange(6)[:, None] * shifts / 10)).sum(axis=1)
    np.testing.assert_allclose(after - before, 2 * np.log(np.abs(gains) / gains[0]), atol=1e-7)


def test_the_diagonal_of_other_grids_takes_the_nearest_bins():
    maps = np.random.default_rng(0).standard_normal((2, 8, 12, 3))
    logs = np.log(np.abs(np.fft.fft2(maps, axes=(1, 2))) + 1e-6).mean(axis=(0, 3))
    picked = logs[[0, 1, 2, 3, 4], [0, 2, 3, 5, 6]]
    np.testing.assert_allclose(response_of(maps).log_amplitudes[0], picked - picked[0], rtol=1e-12)
    # An axis with a single token takes no part.
    plane = response_of(maps.reshape(2, 8, 1, 12, 3)).log_amplitudes
    np.testing.assert_allclose(plane[0], picked - picked[0], rtol=1e-12)


def test_layers_may_state_a_grid_of_their_own():
    maps = np.random.default_rng(0).standard_normal((2, 6, 6, 3))
    np.testing.assert_array_equal(
        response_of(maps.reshape(2, 4, 9, 3), grid=(6, 6)).log_amplitudes, response_of(maps).log_amplitudes
    )


def test_constants_and_zeros_are_finite():
    flat, nothing = np.full((2, 6, 6, 2), 5.0), np.zeros((2, 6, 6, 2))
    constant, zero = response_of(flat, nothing).log_amplitudes
    np.testing.assert_allclose(constant[1:], np.log(1e-6) - np.log(180 + 1e-6), atol=1e-6)
    np.testing.assert_array_equal(zero, 0)


def test_it_is_the_mean_over_samples_in_any_batches(monkeypatch):
    X = samples((6, 8))
    for model in (lamo(), MNORegressor(host=GNOT(), **SMALL)):
        model.fit(X, X)
        whole = frequency_response(model, X).log_amplitudes
        each = [frequency_response(model, X[[number]]).log_amplitudes for number in range(4)]
        np.testing.assert_allclose(np.mean(each, axis=0), whole, rtol=1e-9, atol=1e-9)
        with monkeypatch.context() as patch:
            patch.setattr("skop.inspection._analysis._POINTS", 100)
            np.testing.assert_allclose(frequency_response(model, X).log_amplitudes, whole, rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------------- every network
ESTIMATORS = {
    "lamo": (lamo(depth=2, patches__size=2), 2 * BLOCK),
    "geomano": (GeoMaNORegressor(**SMALL | {"depth": 2}, patches=Patches(size=2)), 2 * BLOCK),
    "structured": (on_points(depth=2, geometry="structured"), 2 * BLOCK),
    "amo": (amo(patches__size=2), 2 * BLOCK),
    "amo on a mesh": (amo(geometry="structured", latents=LatentTokens(n_tokens=4)), 2 * BLOCK),
    "galerkin": (MNORegressor(**SMALL | {"depth": 2}), 2 * BLOCK),
    # A block reads the input functions, then mixes, each followed by experts.
    "gnot": (MNORegressor(host=GNOT(), mixer=Attention(), **SMALL), 2 * BLOCK),
    # The last layer is that across streams.
    "oformer": (MNORegressor(host=OFormer(), mixer=Attention(kind="softmax"), **SMALL), 2 * BLOCK),
}


def test_every_network_has_one_and_stays_as_it_was(subtests):
    for name, (estimator, layers) in ESTIMATORS.items():
        with subtests.test(name):
            X = samples((8, 6))
            model = estimator.fit(X, X**2)
            model.module_.train()
            before = model.predict(X)
            weights = {key: held.clone() for key, held in model.module_.state_dict().items()}
            names, random = set(vars(model)), torch.get_rng_state()
            response = frequency_response(model, X)
            assert response.layers == ("input", *layers)
            np.testing.assert_allclose(response.depth, [0, 0.25, 0.5, 0.75, 1])
            n_frequencies = 2 if hasattr(model.module_, "patch_shape") else 4
            assert response.log_amplitudes.shape == (5, n_frequencies)
            assert np.isfinite(response.log_amplitudes).all()
            assert len(np.unique(response.log_amplitudes[:, -1])) == 5
            np.testing.assert_array_equal(model.predict(X), before)
            assert all(torch.equal(held, weights[key]) for key, held in model.module_.state_dict().items())
            assert all(module.training for module in model.module_.modules())
            assert set(vars(model)) == names
            assert torch.equal(torch.get_rng_state(), random)


def feed_forward_parts(block):
    """Modules of a block that get the points as they are after a mixer, in the order in which they run."""
    if hasattr(block, "cross"):
        return [block.first, block.second]
    return [block.norm_mlp]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_feature_maps_are_what_the_next_part_of_a_network_gets(name):
    estimator, _ = ESTIMATORS[name]
    X = samples((8, 6))
    model = estimator.fit(X, X**2)
    entered, left, mixed, noted = [], [], [], []
    hooks = []
    for block in model.module_.blocks:
        hooks.append(block.register_forward_pre_hook(lambda _, given: entered.append(given[0])))
        hooks.append(block.register_forward_hook(lambda *call: left.append(call[2])))
        for part in feed_forward_parts(block):
            hooks.append(part.register_forward_pre_hook(lambda _, given: mixed.append(given[0])))
    with observe_features(lambda kind, tokens, grid: noted.append((kind, tokens))):
        model.predict(X[:1])
    for hook in hooks:
        hook.remove()
    noted = [layer for layer in noted if layer[0] != "mixed"]
    if name == "oformer":
        noted = noted[:3]  # without the layer across streams
    assert noted[0][1] is entered[0]
    assert noted[-1][1] is (left[-1][0] if isinstance(left[-1], tuple) else left[-1])
    seen = [tokens for kind, tokens in noted if kind == "mixer"]
    assert len(seen) == len(mixed)
    assert all(one is other for one, other in zip(seen, mixed, strict=True))


def test_a_mixer_of_zeros_leaves_the_response_alone_and_a_mean_ends_it():
    class Scaled(torch.nn.Module):
        """Replaces the normalised tokens by a multiple of their mean."""

        def __init__(self, scale):
            super().__init__()
            self.scale = scale

        def forward(self, tokens, grid):
            return self.scale * tokens.mean(dim=1, keepdim=True).expand_as(tokens)

    X = samples((8, 8))
    model = lamo(patches__size=1).fit(X, X)
    falls = []
    for scale in (0.0, 1e3):
        model.module_.blocks[0].mixer = Scaled(scale)
        entered, mixed, _ = frequency_response(model, X).log_amplitudes
        falls.append(mixed - entered)
    np.testing.assert_array_equal(falls[0], 0)
    # Only the centre grows, by one amount for all frequencies.
    assert (falls[1][1:] < -1).all()
    np.testing.assert_allclose(falls[1][1:], falls[1][1], rtol=1e-6)


@pytest.mark.parametrize("shape", [(9,), (4, 3, 6)])
def test_grids_of_other_dimensions(shape):
    X = samples(shape)
    for model in (lamo(patches__size=1), MNORegressor(**SMALL)):
        response = frequency_response(model.fit(X, X), X)
        assert response.log_amplitudes.shape == (3, min(size // 2 for size in shape) + 1)


def test_geometry_parameters_and_scalars_have_feature_maps_too():
    X = samples((6, 6))
    assert frequency_response(lamo().fit(X, X.mean(axis=(1, 2))), X).layers == ("input", *BLOCK)
    inputs = FieldSet(unit_grid((6, 6)), params=np.arange(8.0).reshape(4, 2), grid_shape=(6, 6))
    assert frequency_response(lamo().fit(inputs, X.reshape(4, -1, 1)), inputs).log_amplitudes.shape == (3, 2)


def test_points_are_resampled_as_for_a_prediction():
    rng = np.random.default_rng(0)
    coords, values = rng.random((40, 2)), rng.random((4, 40, 1))
    model = GeoMaNORegressor(**SMALL, patches=Patches(size=1), grid=(6, 6)).fit((coords, values), values)
    assert frequency_response(model, (coords, values)).log_amplitudes.shape == (3, 4)


def test_latent_tokens_that_meet_the_points_once_are_one_block_of_them():
    X = samples((8, 6))
    model = amo(geometry="structured", latents=LatentAttention(n_tokens=4)).fit(X, X**2)
    assert frequency_response(model, X).layers == ("input", *BLOCK)


# ---------------------------------------------------------------------- errors
def test_a_fit_comes_first():
    with pytest.raises(NotFittedError, match="LaMORegressor"):
        frequency_response(lamo(), samples((4, 4)))


def test_estimators_around_others_are_refused():
    with pytest.raises(ValueError, match="estimator is a EnsembleRegressor, expected a LaMORegressor"):
        frequency_response(EnsembleRegressor(lamo()), samples((4, 4)))


def test_points_without_a_grid_are_refused():
    rng = np.random.default_rng(0)
    coords, values = rng.random((30, 2)), rng.random((4, 30, 1))
    with pytest.raises(FieldDataError, match=r"points that form no 2-D grid.*lexsort.*grid='auto'"):
        frequency_response(on_points().fit((coords, values), values), (coords, values))
    X = samples((5, 6))
    with pytest.raises(FieldDataError, match=r"takes its points in any order.*geometry='auto'"):
        frequency_response(MNORegressor(**SMALL, geometry="points").fit(X, X), X)
    with pytest.raises(FieldDataError, match="X lies on points that form no 2-D grid"):
        frequency_response(MNORegressor(**SMALL).fit(X, X), FieldSet(coords, values))


def test_tables_are_refused():
    X = np.random.default_rng(0).random((20, 3))
    with pytest.raises(FieldDataError, match="a single token, such as that of a table of features"):
        frequency_response(lamo().fit(X, X.sum(axis=1)), X)


def test_finer_grids_are_refused():
    X = samples((5, 5))
    with pytest.raises(FieldDataError, match="predict interpolates predictions at the spacing"):
        frequency_response(lamo().fit(X, X), samples((9, 9)))


def test_networks_that_state_nothing_or_no_grid_are_named():
    X = samples((4, 4))
    model = lamo().fit(X, X)
    model.module_ = torch.nn.Identity()
    model.module_.forward = lambda **arguments: None
    with pytest.raises(ValueError, match="the blocks of Identity do not state their feature maps"):
        frequency_response(model, X)
    model.module_.forward = lambda fields, **arguments: note_features("mlp", fields[:, :7])
    with pytest.raises(ValueError, match=r"tokens of shape \(4, 7, 1\), which form no grid \(4, 4\); pass their grid"):
        frequency_response(model, X)


def test_an_observer_is_gone_after_an_error():
    noted = []
    with pytest.raises(RuntimeError, match="stop"), observe_features(lambda *layer: noted.append(layer)):
        raise RuntimeError("stop")
    note_features("mlp", torch.zeros(1, 2, 3))
    assert not noted


# ---------------------------------------------------------------------- pictures
def a_response(layers=("input", "mixer", "mlp", "mixer", "mlp")):
    steps, frequencies = np.linspace(0, 1, len(layers)), np.linspace(0, 1, 4)
    return FrequencyResponse(steps, layers, frequencies, -np.outer(1 + steps, frequencies))


def test_one_curve_for_each_layer_over_the_frequency():
    response = a_response()
    display = FrequencyResponseDisplay(response, name="a model").plot()
    assert len(display.lines_) == 5
    assert display.bands_ == []
    for line, values in zip(display.lines_, response.log_amplitudes, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), response.frequencies)
        np.testing.assert_array_equal(line.get_ydata(), values)
    assert len({line.get_color() for line in display.lines_}) == 5
    assert display.ax_.get_title() == "a model"
    display.figure_.canvas.draw()
    assert display.ax_.get_xticklabels()[-1].get_text() == "1.0π"
    assert [axes.get_ylabel() for axes in display.figure_.axes[1:]] == ["normalised depth"]


def test_grey_bands_are_the_mixers_over_the_depth():
    response = a_response()
    first = FrequencyResponseDisplay(response, name="first").plot(kind="depth")
    (line,) = first.lines_
    np.testing.assert_array_equal(line.get_xdata(), response.depth)
    np.testing.assert_array_equal(line.get_ydata(), response.log_amplitudes[:, -1])
    spans = [(band.get_x(), band.get_x() + band.get_width()) for band in first.bands_]
    np.testing.assert_allclose(spans, [(0, 0.25), (0.5, 0.75)])
    second = FrequencyResponseDisplay(response, name="second").plot(kind="depth", ax=first.ax_)
    assert second.figure_ is first.figure_
    labels = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert labels == ["first", "second"]
    assert FrequencyResponseDisplay(response).plot(kind="depth").ax_.get_legend() is None


def test_from_estimator_draws_the_same_numbers():
    X = samples((6, 6))
    model = lamo().fit(X, X)
    display = FrequencyResponseDisplay.from_estimator(model, X, kind="depth", name="LaMO")
    np.testing.assert_array_equal(display.response.log_amplitudes, frequency_response(model, X).log_amplitudes)
    assert display.ax_.get_xlabel() == "normalised depth"
    _, axes = pyplot.subplots()
    assert FrequencyResponseDisplay.from_estimator(model, X, ax=axes).ax_ is axes


def test_unknown_kinds_are_named():
    with pytest.raises(ValueError, match="kind is 'time'; expected one of"):
        FrequencyResponseDisplay(a_response()).plot(kind="time")
    with pytest.raises(ValueError, match="kind is 'time'"):
        FrequencyResponseDisplay.from_estimator(None, None, kind="time")
