"""Learned poles are those that the mixers use, for every sample and layer, and their pictures show them."""

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

from skop import AMORegressor, EnsembleRegressor, LaMORegressor, OperatorRegressor  # noqa: E402
from skop.exceptions import FieldDataError  # noqa: E402
from skop.inspection import PoleDisplay, frequency_response, learned_poles  # noqa: E402
from skop.modules import FeedForward, LatentBlock, LatentPooling, TokenMixer, note_features  # noqa: E402
from skop.modules._takenaka_malmquist import Poles  # noqa: E402
from skop.networks import PatchNetwork, PointNetwork  # noqa: E402
from skop.parts import Patches, TakenakaMalmquist  # noqa: E402

WIDTH = 8
PATCHES = Patches(size=1, conv_channels=0, positional_encoding=None)


class PoleMixer(TokenMixer):
    """Gives every token the mean token, and states two sets of poles that depend on it."""

    notes = True

    def __init__(self, n_poles):
        super().__init__()
        self.places = torch.nn.Linear(WIDTH, 2 * n_poles * 2)
        self.mapping, self.dropout = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Dropout(0.5)

    def mix(self, tokens, grid):
        mean = self.dropout(tokens.mean(dim=1))
        if self.notes:
            note_features("poles", self.shaped(mean))
        return self.mapping(mean).unsqueeze(1).expand_as(tokens)

    def shaped(self, mean):
        return 0.7 * torch.tanh(self.places(mean)).reshape(len(mean), 2, -1, 2)


class PoleRegressor(OperatorRegressor):
    """Two blocks with three and four poles."""

    def _build_network(self, spec, geometry):
        sizes = self._keywords(spec) | {"width": WIDTH}
        n_poles = iter((3, 4))
        if geometry != "grid":
            return PointNetwork(partial(self._blocks, n_poles), n_frequencies=1, **sizes)
        sizes |= {"grid_shape": spec.grid_shape or (), "depth": 2, "mlp_ratio": 1.0}
        return PatchNetwork(lambda: PoleMixer(next(n_poles)), patches=PATCHES, **sizes)

    def _blocks(self, n_poles):
        for number in n_poles:
            yield LatentBlock(PoleMixer(number), FeedForward(WIDTH, WIDTH), LatentPooling(WIDTH, 5, n_heads=2), WIDTH)


def samples(shape=(4, 5), n=6):
    return np.random.default_rng(0).standard_normal((n, *shape, 1))


def fitted(X, y=None):
    return PoleRegressor(max_iter=1, random_state=0, dtype="float64").fit(X, X if y is None else y)


@pytest.fixture(scope="module")
def model():
    return fitted(samples())


def seen_by_hooks(model, X):
    """Poles from what enters every mixer while it predicts."""
    mixers = [module for module in model.module_.modules() if isinstance(module, PoleMixer)]
    entered = {id(mixer): [] for mixer in mixers}
    hooks = [mixer.register_forward_pre_hook(lambda own, given: entered[id(own)].append(given[0])) for mixer in mixers]
    model.predict(X)
    for hook in hooks:
        hook.remove()
    with torch.no_grad():
        pairs = [mixer.shaped(torch.cat(entered[id(mixer)]).mean(dim=1)).numpy() for mixer in mixers]
    return [pair[..., 0] + 1j * pair[..., 1] for pair in pairs]


# ---------------------------------------------------------------------- numbers
def test_poles_are_those_of_the_mixers_in_order(model):
    X = samples()
    poles = learned_poles(model, X)
    assert [layer.shape for layer in poles] == [(6, 2, 3), (6, 2, 4)]
    for layer, expected in zip(poles, seen_by_hooks(model, X), strict=True):
        assert layer.dtype == np.complex128
        np.testing.assert_allclose(layer, expected, rtol=1e-12)
        # They differ between samples, sets and poles.
        assert len(np.unique(layer)) == layer.size


def test_poles_belong_to_their_samples_in_any_batches(model, monkeypatch):
    X = samples()
    whole = learned_poles(model, X)
    monkeypatch.setattr("skop.inspection._analysis._POINTS", 45)
    for layer, turned in zip(whole, learned_poles(model, X[::-1]), strict=True):
        np.testing.assert_allclose(layer[::-1], turned, rtol=1e-12)


def test_samples_of_different_sizes_have_poles_too():
    rng = np.random.default_rng(0)
    X = [(rng.random((size, 2)), rng.standard_normal((size, 1))) for size in (9, 12, 9, 7)]
    model = fitted(X, [fields for _, fields in X])
    poles = learned_poles(model, X)
    assert [layer.shape for layer in poles] == [(4, 2, 3), (4, 2, 4)]
    for layer, alone in zip(poles, learned_poles(model, X[1:2]), strict=True):
        np.testing.assert_allclose(layer[1:2], alone, rtol=1e-10)


def test_packed_samples_that_a_mixer_takes_apart_keep_their_layers():
    rng = np.random.default_rng(0)
    X = [(rng.random((size, 2)), rng.standard_normal((size, 1))) for size in (9, 12, 7)]
    model = fitted(X, [fields for _, fields in X])
    mixers = [PoleMixer(n_poles).double().eval() for n_poles in (3, 4)]
    model.module_ = torch.nn.ModuleList(mixers)

    def forward(fields, sizes=None, **arguments):
        for mixer in mixers:
            mixer(fields.expand(-1, -1, WIDTH), sizes=sizes)

    model.module_.forward = forward
    poles = learned_poles(model, X)
    assert [layer.shape for layer in poles] == [(3, 2, 3), (3, 2, 4)]
    for mixer, layer in zip(mixers, poles, strict=True):
        scaled = [model.scalers_.fields.transform(torch.as_tensor(fields)) for _, fields in X]
        means = torch.stack([values.mean(dim=0).expand(WIDTH) for values in scaled])
        expected = mixer.shaped(means).detach().numpy()
        np.testing.assert_allclose(layer, expected[..., 0] + 1j * expected[..., 1], rtol=1e-9)


@pytest.mark.parametrize("on_points", [False, True])
def test_poles_of_amo_are_those_of_its_blocks(on_points):
    rng = np.random.default_rng(0)
    X = y = samples()
    if on_points:
        X = [(rng.random((size, 2)), rng.standard_normal((size, 1))) for size in (9, 12, 9, 7)]
        y = [fields for _, fields in X]
    poles = TakenakaMalmquist(n_poles=3, n_pole_heads=2, max_radius=0.3)
    model = AMORegressor(width=8, depth=2, max_iter=1, random_state=0, mixer=poles)
    model.set_params(**({"latents__n_tokens": 6} if on_points else {"patches__size": 2})).fit(X, y)
    found = learned_poles(model, X)
    assert [layer.shape for layer in found] == [(len(X), 4, 3)] * 2
    seen = []
    hooks = [
        module.register_forward_hook(lambda *call: seen.append(call[2].numpy()))
        for module in model.module_.modules()
        if isinstance(module, Poles)
    ]
    model.predict(X[:1])
    for hook in hooks:
        hook.remove()
    assert len(seen) == 2
    for layer, poles in zip(found, seen, strict=True):
        np.testing.assert_allclose(layer[:1], poles[..., 0] + 1j * poles[..., 1], atol=1e-5)
        assert 0.1 < np.abs(layer).max() < 0.3


def test_the_estimator_stays_as_it_was(model):
    X = samples()
    before = learned_poles(model, X)
    model.module_.train()
    names, random = set(vars(model)), torch.get_rng_state()
    for layer, expected in zip(learned_poles(model, X), before, strict=True):
        np.testing.assert_array_equal(layer, expected)
    assert all(module.training for module in model.module_.modules())
    assert set(vars(model)) == names
    assert torch.equal(torch.get_rng_state(), random)


def test_frequency_responses_do_not_see_poles(model, monkeypatch):
    X = samples()
    found = frequency_response(model, X)
    assert found.layers == ("input", "mixer", "mlp", "mixer", "mlp")
    monkeypatch.setattr(PoleMixer, "notes", False)
    np.testing.assert_array_equal(found.log_amplitudes, frequency_response(model, X).log_amplitudes)


# ---------------------------------------------------------------------- errors
def test_what_has_no_poles_is_named(model):
    X = samples()
    lamo = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0)
    with pytest.raises(NotFittedError):
        learned_poles(lamo, X)
    with pytest.raises(ValueError, match="mixers of the LaMOPatchNetwork have no poles; fit an AMORegressor"):
        learned_poles(lamo.fit(X, X), X)
    with pytest.raises(ValueError, match="estimator is a EnsembleRegressor"):
        learned_poles(EnsembleRegressor(lamo), X)
    with pytest.raises(FieldDataError, match="predict interpolates predictions at the spacing"):
        learned_poles(model, samples((7, 9)))
    points = np.random.default_rng(0).random((20, 2)), samples((20,))
    with pytest.raises(FieldDataError, match="form no regular grid"):
        learned_poles(model, points)


def test_poles_of_another_shape_are_named(model, monkeypatch):
    monkeypatch.setattr(PoleMixer, "shaped", lambda own, mean: mean)
    with pytest.raises(ValueError, match=r"poles of shape \(6, 8\) for 6 samples, expected \(6, sets, poles, 2\)"):
        learned_poles(model, samples())


# ---------------------------------------------------------------------- pictures
def test_every_pole_is_a_point_of_the_disk_of_its_layer(model):
    X = samples()
    display = PoleDisplay.from_estimator(model, X, name="a model")
    assert [panel.get_title() for panel in display.axes_] == ["layer 1", "layer 2"]
    assert display.figure_.get_suptitle() == "a model"
    for panel, drawn, poles in zip(display.axes_, display.artists_, learned_poles(model, X), strict=True):
        points = np.asarray(drawn.get_offsets())
        np.testing.assert_allclose(points[:, 0] + 1j * points[:, 1], poles.ravel())
        # The colour is the number of the pole.
        np.testing.assert_array_equal(np.asarray(drawn.get_array()).reshape(poles.shape)[0, 1], range(poles.shape[2]))
        (circle,) = panel.patches
        assert (circle.center, circle.radius) == ((0, 0), 1)
        assert panel.get_xlim()[1] > 1
        assert panel.get_aspect() == 1


def test_the_histogram_counts_every_pole_once():
    poles = np.array([0.02, 0.51j, -0.52, 0.98]).reshape(2, 1, 2)
    display = PoleDisplay([poles]).plot(kind="radius")
    bars = {round(bar.get_x(), 9): bar.get_height() for bar in display.artists_[0]}
    assert len(bars) == 20
    assert {left: height for left, height in bars.items() if height} == {0.0: 0.25, 0.5: 0.5, 0.95: 0.25}
    assert display.axes_[0].get_xlabel() == "|a|"


def test_many_layers_take_several_rows_and_given_axes_must_fit():
    poles = [np.full((1, 1, 2), 0.1 + 0.2j)] * 5
    display = PoleDisplay(poles).plot()
    assert len(display.axes_) == len(display.figure_.axes) == 5
    _, axes = pyplot.subplots(1, 5)
    assert list(PoleDisplay(poles).plot(ax=axes).axes_) == list(axes)
    with pytest.raises(ValueError, match="ax has 2 axes, expected 5"):
        PoleDisplay(poles).plot(ax=axes[:2])
    with pytest.raises(ValueError, match="kind is 'plane'; expected one of"):
        PoleDisplay(poles).plot(kind="plane")


@pytest.mark.parametrize("poles", [[], np.zeros((7, 2, 3), complex), [np.zeros((1, 1, 3)), np.zeros(3)]])
def test_poles_that_are_not_those_of_layers_are_refused(poles):
    with pytest.raises(ValueError, match=r"expected a sequence with an array \(samples, sets, poles\) for each layer"):
        PoleDisplay(poles).plot()


def test_poles_outside_the_disk_are_inside_the_panel():
    display = PoleDisplay([np.array([[[3j, 0.5]]])]).plot()
    assert display.axes_[0].get_ylim()[1] > 3
