"""MNORegressor: published configurations, hosts and mixers, warnings, and laws that not every estimator has."""

import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import skop
from skop import FieldSet, MNORegressor, RolloutRegressor
from skop.data import DataSpec, TargetForm, unit_grid
from skop.datasets import make_darcy
from skop.exceptions import SkopWarning
from skop.metrics import neg_relative_l2_scorer
from skop.parts import (
    GNOT,
    Attention,
    GalerkinTransformer,
    GeometricScan,
    GridSSD,
    Hydra,
    Mamba,
    Mamba2,
    OFormer,
    RotaryAttention,
    TakenakaMalmquist,
)
from skop.testing import parametrize_with_field_checks

HOSTS, THREE = {"gnot": GNOT, "galerkin": GalerkinTransformer, "oformer": OFormer}, ("mamba", "linear", "softmax")
ALL = list(product(HOSTS, THREE))
#: Every host and every mixer once; the other pairs are for the long run.
PAIRS = [
    pair if place % 4 == 0 else pytest.param(*pair, marks=pytest.mark.exhaustive) for place, pair in enumerate(ALL)
]
RANDOM = np.random.default_rng(0)
FIELDS = RANDOM.random((6, 5, 4, 1))
CLOUDS = [RANDOM.random((size, 2)) for size in (7, 12, 5, 9)]


def mixer_of(host, word):
    """A mixer that a preset names by a word."""
    if word == "mamba":
        return Mamba(d_state=2)
    return (RotaryAttention if host == "oformer" else Attention)(kind=word)


def small(host="gnot", mixer="mamba", **changes):
    sizes = {
        "width": 8,
        "depth": 1,
        "batch_size": 4,
        "max_iter": 1,
        "random_state": 0,
        "dtype": "float64",
        "base": None,
    }
    if host == "galerkin":
        sizes["host__decoder_width"] = 8
    part = mixer_of(host, mixer) if mixer in THREE else mixer
    return MNORegressor(host=HOSTS[host](), mixer=part, base=None).set_params(**(sizes | changes))


def ragged():
    """Fields on clouds, from fields on them."""
    inputs = [1.0 + cloud[:, :1] * cloud[:, 1:] for cloud in CLOUDS]
    return FieldSet(CLOUDS, inputs), FieldSet(CLOUDS, [2.0 + np.sin(3 * values) for values in inputs])


# ---------------------------------------------------------------- the public configurations
COUNTS = {
    ("gnot", "mamba"): (1_287_173, 1_296_767, 1_306_554),
    ("gnot", "linear"): (890_885, 900_479, 910_266),
    ("galerkin", "mamba"): (4_854_177, 4_868_091, 4_882_390),
    ("galerkin", "linear"): (3_582_369, 3_596_283, 3_610_582),
    ("oformer", "mamba"): (1_626_465, 266_241, 266_946),
    ("oformer", "linear"): (2_556_321, 228_161, 228_866),
}
CHANNELS = {"darcy": (1, 1), "shallow_water": (10, 91), "diffusion_reaction": (20, 182)}


def test_presets_fit_their_networks_without_a_warning(subtests):
    for host, mixer in ALL:
        with subtests.test(host=host, mixer=mixer):
            for number, (name, (n_fields, n_outputs)) in enumerate(CHANNELS.items()):
                model = MNORegressor.from_preset(name, host=host, mixer=mixer, max_iter=1, random_state=0)
                assert type(model.host) is HOSTS[host]
                assert type(model.mixer) is type(mixer_of(host, mixer))
                assert getattr(model.mixer, "kind", "mamba") == mixer
                spec = DataSpec("grid", "fields", TargetForm("array"), 2, n_fields, 0, n_outputs, (4, 4))
                with warnings.catch_warnings():
                    warnings.simplefilter("error", SkopWarning)
                    model._check_options(spec, model.geometry)
                built = model._build_network(spec, "grid")
                if mixer != "softmax":
                    assert sum(parameter.numel() for parameter in built.parameters()) == COUNTS[host, mixer][number]
            X, y = RANDOM.random((3, 4, 4, n_fields)), RANDOM.random((3, 4, 4, n_outputs))
            assert model.fit(X, y).predict(X).shape == y.shape


TRAINING = {
    # Batch, epochs, rate, rise, first and last factors, weight decay, clipping.
    ("gnot", "darcy"): (8, 100, 1e-3, (0.2, 1e4, 1e4), 5e-6, 1000.0),
    ("gnot", "shallow_water"): (8, 100, 1e-3, (0.2, 1e4, 1e4), 5e-6, 1000.0),
    ("gnot", "diffusion_reaction"): (8, 100, 1e-3, (0.2, 1e4, 1e4), 5e-6, 1000.0),
    ("galerkin", "darcy"): (8, 100, 1e-3, (0.3, 1e4, 1e4), 0.0, 0.999),
    ("galerkin", "shallow_water"): (4, 100, 1e-3, (0.3, 1e4, 1e4), 0.0, 0.999),
    ("galerkin", "diffusion_reaction"): (4, 100, 1e-3, (0.3, 1e4, 1e4), 0.0, 0.999),
    ("oformer", "darcy"): (8, 178, 1e-4, (0.2, 1e2, 1e5), 0.0, None),
    ("oformer", "shallow_water"): (4, 445, 1e-4, (0.3, 1e4, 1e4), 0.0, None),
    ("oformer", "diffusion_reaction"): (4, 445, 1e-4, (0.3, 1e4, 1e4), 0.0, None),
}


def test_presets_train_as_the_public_scripts(subtests):
    for host, name in TRAINING:
        with subtests.test(host=host, name=name):
            for mixer in THREE:
                model = MNORegressor.from_preset(name, host=host, mixer=mixer)
                batch, epochs, rate, cycle, decay, clip = TRAINING[host, name]
                if (host, mixer) == ("gnot", "softmax"):
                    batch = 6 if name == "darcy" else 4
                assert (model.batch_size, model.max_iter, model.learning_rate_init) == (batch, epochs, rate)
                options = model.training
                assert (options.schedule, options.one_cycle, model.weight_decay) == ("one_cycle", cycle, decay)
                assert (options.max_grad_norm, options.beta_2, options.ema_decay) == (clip, 0.999, None)
                assert (model.loss, model.early_stopping, model.geometry) == ("mse", False, "grid")
                assert getattr(model.host, "n_steps", None) == (91 if host == "oformer" and name != "darcy" else None)
            # 200,000 steps of 8 of 9,000 samples, and 100,000 of 4 of 900.
            if host == "oformer":
                samples, steps = (9000, 200_000) if name == "darcy" else (900, 100_000)
                assert (epochs - 1) * samples / batch < steps <= epochs * samples / batch


def test_presets_name_what_there_is():
    for words, changes in (
        ("preset 'weather'; choose from .*'darcy'", {"name": "weather"}),
        ("host 'unet'; choose from .*'gnot'", {"name": "darcy", "host": "unet"}),
        ("mixer 's6'; choose from .*'mamba'", {"name": "darcy", "mixer": "s6"}),
    ):
        with pytest.raises(ValueError, match=words):
            MNORegressor.from_preset(**changes)
    changed = MNORegressor.from_preset("darcy", host="oformer", width=8, weight_decay=0.5)
    assert (changed.width, changed.weight_decay, changed.host.latent_width) == (8, 0.5, 256)


# ---------------------------------------------------------------- parameters
def test_every_host_takes_every_mixer_in_a_search():
    X, y = make_darcy(8, resolution=6, random_state=0)
    mixers = [Mamba(), Attention(), Attention(kind="softmax")]
    grid = {"host": [host() for host in HOSTS.values()], "mixer": mixers}
    model = MNORegressor(width=8, depth=1, max_iter=1, base=None, random_state=0)
    search = GridSearchCV(model, grid, cv=2, error_score="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("error", SkopWarning)
        warnings.filterwarnings("ignore", "the training loss")
        search.set_params(scoring=neg_relative_l2_scorer).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) == len(scores) == 9
    assert np.isfinite(scores).all()


CHANGED = {
    "mixer__d_state": 3, "mixer__expand": 1, "mixer__dt_rank": 2, "mixer__scan_directions": "forward",
    "mixer__step_range": (0.1, 0.2), "mixer__ratio": 0.5, "mixer__kind": "fourier", "mixer__n_heads": 2,
    "mixer__query_heads": 2, "mixer__rotary_scales": (3.0,), "mixer__query_rotary_scale": 5.0,
    "host__point_order": "morton", "host__kernel_size": 1, "host__n_frequencies": 2,
    "host__mlp_depth": 1, "host__n_experts": 2, "host__branches": "channels",
    "host__layer_norm": False, "host__decoder": "pointwise", "host__decoder_width": 5, "host__decoder_depth": 1,
    "host__n_modes": 2,
    "host__latent_width": 6, "host__residual": "normalized", "host__n_fourier": 4, "host__fourier_scale": 2.0,
    "host__n_steps": 2, "host__input_dropout": 0.1, "host__propagator_width": 4, "host__propagator_depth": 2,
    "mlp_ratio": 1.0, "dropout": 0.1,
}  # fmt: skip


@pytest.mark.parametrize(("host", "mixer"), PAIRS)
def test_a_parameter_changes_the_fit_or_warns(host, mixer):
    X = y = np.concatenate([FIELDS, 1 + FIELDS**2], axis=-1)[:4]
    plain = small(host, mixer, max_iter=1).fit(X, y).predict(X)
    known = set(small(host, mixer).get_params())
    assert {name for name in known if name.startswith(("host__", "mixer__"))} <= set(CHANGED)
    for name in known & set(CHANGED):
        value = CHANGED[name]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SkopWarning)
            model = small(host, mixer, max_iter=1).set_params(**{name: value}).fit(X, y)
        said = [str(item.message) for item in caught if f"{name}={value!r} has no effect" in str(item.message)]
        assert bool(said) == np.array_equal(model.predict(X), plain), name


def test_parameters_of_the_propagator_act_with_steps():
    X, y = FIELDS, np.concatenate([-FIELDS, 1 + FIELDS**2], axis=-1)
    steps = {"host__n_steps": 2}
    plain = small("oformer", **steps).fit(X, y).predict(X)
    for name in ("host__propagator_width", "host__propagator_depth"):
        with warnings.catch_warnings():
            warnings.simplefilter("error", SkopWarning)
            model = small("oformer", **steps, **{name: CHANGED[name]}).fit(X, y)
        assert not np.array_equal(model.predict(X), plain)
    with pytest.raises(ValueError, match="2 output channels are no multiple of n_steps=3"):
        small("oformer", host__n_steps=3).fit(X, y)


def test_warnings_say_with_what_a_parameter_acts():
    for model, words in (
        (small("galerkin", mixer__ratio=0.5), "mixer__ratio=0.5 has no effect with host=GalerkinTransformer("),
        (small("galerkin", mixer__ratio=0.5), "it acts with host="),
        (small("galerkin", host__decoder="pointwise", host__n_modes=2),
         "it acts with host__decoder='auto' or 'spectral'"),
        (small("galerkin", geometry="points", host__n_modes=2),
         "host__n_modes=2 has no effect on points read as geometry 'points'; it acts on 'grid' or 'structured'"),
        (small("oformer", host__propagator_depth=2), "has no effect with host__n_steps=None; set a number of steps"),
        (small("oformer", "softmax", mixer__rotary_scales=2.0), "it acts with mixer__kind='linear' or 'galerkin'"),
        (small(host__branches="parts"), "it acts with global parameters in X"),
        (small(host__branches="channels"), "it acts with global parameters or several fields in X"),
        (small(host__point_order="given"), "host__point_order='given' has no effect on points read as geometry 'grid'"),
    ):  # fmt: skip
        with pytest.warns(SkopWarning) as caught:
            model.fit(FIELDS, FIELDS)
        assert any(words in str(item.message) for item in caught), words


@pytest.mark.exhaustive
def test_branches_change_the_fit_where_they_divide_the_inputs_and_warn_elsewhere():
    fields, params = FIELDS.reshape(6, 20, 1), RANDOM.random((6, 1))
    two = np.concatenate([fields, 1 + fields**2], axis=-1)
    for values, own, acting in (
        (fields, None, ()),
        (two, None, ("channels",)),
        (fields, params, ("parts", "channels")),
        (two, params, ("parts", "channels")),
    ):
        X = FieldSet(unit_grid((5, 4)), values, params=own, grid_shape=(5, 4))
        plain = small().fit(X, fields).predict(X)
        for branches in ("parts", "channels"):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", SkopWarning)
                model = small(host__branches=branches).fit(X, fields)
            said = any(f"host__branches={branches!r} has no effect" in str(item.message) for item in caught)
            assert said == np.array_equal(model.predict(X), plain) == (branches not in acting)


def test_any_mixer_goes_into_the_host_without_cross_layers(subtests):
    for mixer in [Attention, GeometricScan, GridSSD, Hydra, Mamba, Mamba2, TakenakaMalmquist]:
        with subtests.test(mixer=mixer):
            model = small("galerkin", mixer())
            assert np.isfinite(model.fit(FIELDS, FIELDS).predict(FIELDS)).all()
            X, y = ragged()
            assert np.isfinite(model.fit(X, y).predict(X).values).all()


@pytest.mark.parametrize("host", HOSTS)
def test_a_subclass_of_a_host_has_its_network(host):
    own = type("Own", (HOSTS[host],), {})
    models = [small(host).set_params(host=kind()) for kind in (HOSTS[host], own)]
    found = [model.fit(FIELDS, FIELDS).predict(FIELDS) for model in models]
    np.testing.assert_array_equal(*found)


def test_wrong_parameters_are_named():
    X, y = ragged()
    for model, data, words in (
        (small(mixer=Hydra()), (FIELDS, FIELDS), "Hydra mixes one stream of tokens, and cross layers need two"),
        (small(mixer=RotaryAttention()), (FIELDS, FIELDS), "is for the host OFormer; use Attention"),
        (small("galerkin", mixer=RotaryAttention()), (FIELDS, FIELDS), "is for the host OFormer; use Attention"),
        (small(mixer="softmax", mixer__n_heads=3), (FIELDS, FIELDS), "n_heads=3 does not divide the width 8"),
        (small("galerkin", host__decoder="spectral"), (X, y), "host__decoder='spectral' needs points on a grid"),
        (small(mixer__scan_directions="cross"), (X, y), "mixer__scan_directions='cross' needs points on a grid"),
        (small("oformer", "linear", mixer__rotary_scales=(1.0, 2.0)), (FIELDS, FIELDS),
         "rotary_scales has 2 entries"),
        (small(training__one_cycle=(0.3, 25.0)), (FIELDS, FIELDS), "a sequence of 3 numbers"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            model.fit(*data)


# ---------------------------------------------------------------- points
@pytest.mark.parametrize(("host", "mixer"), PAIRS)
def test_samples_of_any_points_are_predicted_there_and_elsewhere(host, mixer):
    X, y = ragged()
    fitted = small(host, mixer).fit(X, y)
    expected = fitted.predict(X).to_list()
    for found, values in zip(fitted.predict(X, coords=CLOUDS).to_list(), expected, strict=True):
        np.testing.assert_allclose(found, values, rtol=1e-8)
    places = np.array([[0.4, 0.5], [0.61, 0.33]])
    together = fitted.predict(X, coords=places)
    alone = fitted.predict(X[[2]], coords=places[:1])
    np.testing.assert_allclose(together.to_list()[2][:1], alone.to_list()[0], rtol=1e-10)
    moved = fitted.predict(X, coords=places + 0.01)
    assert not np.isclose(together.values, moved.values, rtol=1e-7).any()


@pytest.mark.parametrize("host", HOSTS)
def test_query_points_on_grids(host):
    """The network itself answers where it can; the spectral decoder needs its grid, and its values are interpolated."""
    fitted = small(host).fit(FIELDS, FIELDS)
    assert fitted.module_.supports_queries == (host != "galerkin")
    grid = unit_grid((5, 4))
    expected = fitted.predict(FIELDS).reshape(6, 20, 1)
    np.testing.assert_allclose(fitted.predict(FIELDS, coords=grid), expected, rtol=1e-6)
    diagonal = np.clip(grid + 0.05, 0, 1)
    found = fitted.predict(FIELDS, coords=diagonal)
    assert np.isfinite(found).all()
    moving = (diagonal != grid).all(axis=1)
    assert not np.isclose(found[:, moving], expected[:, moving], rtol=1e-9).any()
    fine = RANDOM.random((2, 9, 7, 1))
    refined = fitted.predict(fine, coords=unit_grid((9, 7)))
    np.testing.assert_allclose(refined.reshape(fine.shape), fitted.predict(fine), rtol=1e-6)
    with pytest.raises(ValueError, match="form no regular grid"):
        fitted.predict((RANDOM.random((20, 2)), FIELDS.reshape(6, 20, 1)), coords=[[0.5, 0.5]])


def test_averages_over_symmetries_are_interpolated():
    symmetries = {"symmetries": ["flip_x"], "symmetries__average_predictions": True}
    fitted = small().set_params(symmetries=["flip_x"]).set_params(**symmetries).fit(FIELDS, FIELDS)
    found = fitted.predict(FIELDS, coords=unit_grid((5, 4))).reshape(FIELDS.shape)
    np.testing.assert_allclose(found, fitted.predict(FIELDS), rtol=1e-6)


@pytest.mark.parametrize("host", HOSTS)
def test_a_grid_that_is_read_as_points_is_a_cloud(host):
    coords = unit_grid((5, 4))
    values, order = FIELDS.reshape(6, 20, 1), np.random.default_rng(1).permutation(20)
    fitted = small(host, geometry="points").fit(FIELDS, FIELDS)
    cloud = small(host).fit(FieldSet(coords[order], values[:, order]), FieldSet(coords[order], values[:, order]))
    assert cloud.geometry_ == "points"
    expected = fitted.predict(FIELDS).reshape(6, 20, 1)
    np.testing.assert_allclose(cloud.predict(FieldSet(coords, values)).values, expected, rtol=1e-6)
    assert not np.allclose(small(host).fit(FIELDS, FIELDS).predict(FIELDS).reshape(6, 20, 1), expected, rtol=1e-6)


@pytest.mark.parametrize("host", HOSTS)
def test_the_order_of_points_matters_on_request(host):
    X, y = ragged()
    reverse = FieldSet([cloud[::-1] for cloud in CLOUDS], [values[::-1] for values in X.to_list()])
    for point_order, same in (("hilbert", True), ("morton", True), ("given", False)):
        fitted = small(host, host__point_order=point_order, mixer__scan_directions="forward").fit(X, y)
        found = np.concatenate([values[::-1] for values in fitted.predict(reverse).to_list()])
        assert np.allclose(found, fitted.predict(X).values, rtol=1e-9) == same


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("n_dims", [1, 2, pytest.param(3, marks=pytest.mark.exhaustive)])
def test_grids_bent_grids_and_clouds_with_parameters_and_scalars(host, n_dims, tmp_path):
    shape = (4, 3, 2)[:n_dims]
    count, generator = int(np.prod(shape)), np.random.default_rng(n_dims)
    coords, params = unit_grid(shape), generator.random((4, 2))
    values, scalars = generator.random((4, count, 2)), generator.random((4, 3))
    places = {
        "grid": (coords, shape),
        "structured": (coords + 0.05 * np.sin(3 * coords[:, ::-1]) * generator.random((4, 1, 1)), shape),
        "points": (generator.random((4, count, n_dims)), None),
    }
    for geometry, (points, grid_shape) in places.items():
        X = FieldSet(points, values, params=params, grid_shape=grid_shape)
        y = FieldSet(points, values[..., :1], params=scalars, grid_shape=grid_shape)
        fitted = small(host, max_iter=1).fit(X, y)
        assert fitted.geometry_ == geometry
        found = fitted.predict(X)
        assert found.shape == (4, count, 1)
        assert found.params.shape == (4, 3)
        other = fitted.predict(X.with_params(params[::-1]))
        assert not np.array_equal(other.values, found.values)
        fitted.save(tmp_path / "model.skop")
        loaded = skop.load(tmp_path / "model.skop")
        assert loaded.get_params().keys() == fitted.get_params().keys()
        np.testing.assert_array_equal(loaded.predict(X).values, found.values)


# ---------------------------------------------------------------- time
@pytest.mark.exhaustive
@pytest.mark.parametrize("host", HOSTS)
def test_frames_are_predicted_all_at_once_or_step_by_step(host):
    """The frames of a field that grows by a tenth each step; their mean scores 0.82."""
    generator = np.random.default_rng(0)
    first = 1 + generator.random((12, 4, 4, 1))
    frames = first * 1.1 ** np.arange(6)
    X, y = frames[..., :2], frames[..., 2:]
    at_once = small(host, max_iter=20, width=16).fit(X, y)
    assert at_once.predict(X).shape == y.shape
    assert at_once.score(X, y) > 0.85
    rollout = RolloutRegressor(small(host, batch_size="auto", max_iter=20, width=16), window=2).fit(X, y)
    assert rollout.predict(X).shape == y.shape
    assert rollout.score(X, y) > 0.85


@pytest.mark.exhaustive
def test_steps_of_the_propagator_learn():
    first = 1 + np.random.default_rng(0).random((12, 4, 4, 1))
    frames = first * 1.1 ** np.arange(6)
    model = small("oformer", max_iter=60, width=16, host__n_steps=4)
    assert model.fit(frames[..., :2], frames[..., 2:]).score(frames[..., :2], frames[..., 2:]) > 0.8


# ---------------------------------------------------------------- laws
@pytest.mark.exhaustive
@parametrize_with_field_checks(
    [small(*pair, dtype="auto") for pair in (("gnot", "linear"), ("galerkin", "softmax"), ("oformer", "linear"))],
    n_dims=[2],
    any_grid=True,
    point_sets=True,
)
def test_laws_of_field_data_with_attention(estimator, check):
    """Every host and every attention once; the laws of networks go through all pairs."""
    check(estimator)


def test_neighbours_of_grids_are_convolved_and_other_points_get_waves():
    for geometry, kernel_size, n_frequencies in (("grid", 3, 0), ("points", 1, 4)):
        module = small("galerkin").set_params(geometry=geometry).fit(FIELDS, FIELDS).module_
        assert module.n_frequencies == n_frequencies
        assert module.needs_grid == (kernel_size > 1)
        assert any("convolution" in name for name, _ in module.blocks.named_parameters()) == (kernel_size > 1)
