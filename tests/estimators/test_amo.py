"""AMORegressor: the published configuration, warnings, choices of the network, time, searches, files."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import skop
from skop import AMORegressor, FieldSet, RolloutRegressor, TimeConditionedRegressor
from skop.data import DataSpec, TargetForm, unit_grid
from skop.datasets import make_darcy, make_european_option
from skop.exceptions import SkopWarning
from skop.losses import get_loss
from skop.metrics import relative_l2_error
from skop.parts import LatentAttention, LatentTokens, LiteralExpansions
from skop.testing import parametrize_with_field_checks

RANDOM = np.random.default_rng(0)
FIELDS = RANDOM.random((6, 5, 4, 1))
CLOUDS = [RANDOM.random((size, 2)) for size in (7, 12, 5, 9)]


def small(**changes):
    sizes = {
        "width": 8,
        "depth": 1,
        "mixer__n_poles": 3,
        "batch_size": 4,
        "max_iter": 1,
        "random_state": 0,
        "dtype": "float64",
        "base": None,
    }
    # What has no effect would warn, and what does not belong would be refused.
    if changes.get("geometry") == "points":
        sizes |= {"latents__n_tokens": 6, "latents__n_heads": 2, "latents__n_centred_heads": 1}
    if isinstance(changes.get("mixer"), LiteralExpansions):
        del sizes["mixer__n_poles"]
    return AMORegressor().set_params(**clone(sizes | changes, safe=False))


def on_points(**changes):
    return small(geometry="points", **changes)


def ragged():
    """Fields on clouds, from fields on them."""
    inputs = [1.0 + cloud[:, :1] * cloud[:, 1:] for cloud in CLOUDS]
    return FieldSet(CLOUDS, inputs), FieldSet(CLOUDS, [2.0 + np.sin(3 * values) for values in inputs])


# ---------------------------------------------------------------- the published configuration
PRESETS = ("darcy", "navier_stokes", "elasticity", "plasticity", "airfoil", "pipe", "european_option")
#: Section 5, "implementation details"; 4 blocks of 128 channels, of which the paper calls the first "latent width".
PAPER = {
    "max_iter": 500,
    "batch_size": 16,
    "learning_rate_init": 2e-4,
    "training__schedule": "cosine",
    "training__warmup_fraction": 0.1,
    "training__schedule_interval": "step",
    "weight_decay": 1e-5,
    "training__max_grad_norm": 0.5,
    "width": 128,
    "depth": 4,
    "latents__n_tokens": 64,
    "loss": "relative_l2",
    "mixer__n_poles": 32,
    "mixer__d_state": 16,
    "mixer__kernel_size": 4,
    "mixer__expand": 2,
    "mixer__adaptive_poles": True,
    "mixer__orthogonal": True,
    # Eq. 3: queries that attend to the points, keys and values from a position network and a linear map.
    "latents__position_network": True,
    "latents__decoder": "own_softmax",
    "latents__n_centred_heads": 0,
}
#: Parameters of the network that the paper leaves open.
OPEN = {
    "geometry": "points",
    "mlp_ratio": 2,
    "dropout": 0.0,
    "latents__n_heads": 4,
    "latents__aggregation": "last",
    "latents__n_frequencies": 0,
    "latents__parameter_embedding": "channels",
    "latents__weight_init": "default",
    "mixer__transform": "coefficients",
    "mixer__scan_directions": "bidirectional",
    "mixer__n_pole_heads": 1,
    "mixer__max_radius": 0.95,
}


def test_every_number_of_the_paper_is_in_the_preset(subtests):
    for name in PRESETS:
        with subtests.test(name):
            parameters = AMORegressor.from_preset(name).get_params()
            assert {key: parameters[key] for key in PAPER} == PAPER
            # The points are read once, before all blocks.
            assert isinstance(parameters["latents"], LatentAttention)
            # What is reported is the model of the last epoch, without averaging, early stopping or augmentation.
            assert parameters["early_stopping"] is False
            assert parameters["training__ema_decay"] is None
            assert parameters["symmetries__periodic"] is False
            assert parameters["training__subsample_points"] is None


def test_every_parameter_of_the_network_of_a_preset_is_stated_above():
    # Defaults may change; a preset must not change with them.
    assert set(PRESETS) == set(AMORegressor._presets)
    for name in PRESETS:
        parameters = AMORegressor.from_preset(name).get_params()
        assert {key: parameters[key] for key in OPEN} == OPEN
        assert {key for key in parameters if key.startswith(("latents__", "mixer__"))} <= set(PAPER | OPEN)


def test_presets_are_valid_and_warn_of_nothing(subtests):
    for name in PRESETS:
        with subtests.test(name):
            model = AMORegressor.from_preset(name)
            model._validate_params()
            spec = DataSpec("grid", "fields", TargetForm("array"), 2, 1, 0, 1, (8, 8))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model._check_options(spec, model.geometry)
            get_loss(model.loss, reduction=model.training.loss_reduction)


TINY = {
    "width": 8,
    "depth": 1,
    "latents__n_tokens": 6,
    "mixer__n_poles": 3,
    "batch_size": 4,
    "max_iter": 1,
    "random_state": 0,
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_fit_data_of_the_layout_of_their_benchmark(name):
    generator = np.random.default_rng(0)
    model = AMORegressor.from_preset(name, latents__n_heads=2, **TINY)
    mesh = FieldSet(generator.normal(size=(3, 6, 4, 2)))
    X, y = {
        "darcy": lambda: make_darcy(3, resolution=6, random_state=0),
        "navier_stokes": lambda: (generator.normal(size=(3, 4, 4, 10)), generator.normal(size=(3, 4, 4, 10))),
        "elasticity": lambda: (FieldSet(generator.normal(size=(3, 24, 2))), generator.normal(size=(3, 24, 1))),
        "plasticity": lambda: (generator.normal(size=(3, 6, 4, 1)), generator.normal(size=(3, 6, 4, 3 * 4))),
        "airfoil": lambda: (mesh, generator.normal(size=(3, 6, 4, 1))),
        "pipe": lambda: (mesh, generator.normal(size=(3, 6, 4, 1))),
        "european_option": lambda: make_european_option(3, resolution=5, random_state=0),
    }[name]()
    if name == "navier_stokes":
        model = RolloutRegressor(model, window=10)
    if name == "plasticity":
        model = TimeConditionedRegressor(model, times=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SkopWarning)
        # One epoch of three samples learns nothing.
        warnings.filterwarnings("ignore", "the training loss")
        fitted = model.fit(X, y)
    predicted = fitted.predict(X)
    assert predicted.shape == y.shape
    assert np.isfinite(np.asarray(getattr(predicted, "values", predicted))).all()
    assert getattr(fitted, "estimator_", fitted).geometry_ == "points"


def test_changes_win_and_presets_name_what_there_is():
    changed = AMORegressor.from_preset("darcy", max_iter=3, mixer__orthogonal=False)
    assert (changed.max_iter, changed.mixer.orthogonal, changed.mixer.kernel_size) == (3, False, 4)
    assert AMORegressor.from_preset("darcy").mixer.orthogonal
    with pytest.raises(ValueError, match=r"AMORegressor has no preset 'weather'; choose from \['airfoil', 'darcy', "):
        AMORegressor.from_preset("weather")


# ---------------------------------------------------------------- parameters
#: Another value of each parameter of the network.
CHANGED = {
    "mlp_ratio": 1.0, "dropout": 0.1, "patches__size": 1, "patches__conv_channels": 2,
    "patches__positional_encoding": "learned", "patches__n_frequencies": 2, "patches__lifting_width": 3,
    "patches__coordinate_channels": False, "patches__pad_to_multiple": 4, "patches__init": "normal",
    "latents__n_tokens": 4, "latents__n_heads": 1, "latents__n_centred_heads": 0, "latents__decoder": "own_softmax",
    "latents__n_frequencies": 2, "latents__position_network": True, "latents__parameter_embedding": "sinusoidal",
    "latents__weight_init": "trunc_normal", "latents__temperature": 2.0, "latents__normalize": False,
    "latents__shared": False, "latents__aggregation": "sum", "mixer__n_poles": 2, "mixer__transform": "filter",
    "mixer__d_state": 3, "mixer__expand": 1, "mixer__kernel_size": 2, "mixer__scan_directions": "cross",
    "mixer__n_pole_heads": 2, "mixer__adaptive_poles": False, "mixer__orthogonal": False, "mixer__max_radius": 0.5,
}  # fmt: skip
ONCE = LatentAttention(n_tokens=6, n_heads=2, n_centred_heads=1)
LITERAL = {"geometry": "points", "latents": ONCE, "mixer": LiteralExpansions()}
SETTINGS = {
    "a grid": {"geometry": "grid"},
    "a grid, filter, no positions": {
        "geometry": "grid", "mixer__transform": "filter", "patches__positional_encoding": None,
    },
    "points, each block": {"geometry": "points"},
    "points, once, filter": {"geometry": "points", "latents": ONCE, "mixer__transform": "filter"},
    "points, literal": LITERAL,
}  # fmt: skip


@pytest.mark.parametrize(
    "setting",
    [name if name == "a grid" else pytest.param(name, marks=pytest.mark.exhaustive) for name in SETTINGS],
)
def test_a_parameter_changes_the_fit_or_warns(setting):
    own = SETTINGS[setting] | {"max_iter": 1, "depth": 2}
    X = FieldSet(unit_grid((5, 4)), FIELDS.reshape(6, 20, 1), params=FIELDS[:, :2, 0, 0], grid_shape=(5, 4))[:4]
    plain = small(**own).fit(X, X).predict(X).values
    parts = {name for name in small(**own).get_params() if name.startswith(("patches__", "latents__", "mixer__"))}
    for name in sorted({"mlp_ratio", "dropout", *parts} - set(own)):
        value, part = CHANGED[name], name.partition("__")[0]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SkopWarning)
            model = small(**own).set_params(**{name: value}).fit(X, X)
        words = (f"{name}={value!r} has no effect", f"{part}={getattr(model, part)!r} has no effect")
        said = [item for item in caught if str(item.message).startswith(words)]
        assert len(said) <= 1
        assert bool(said) == np.array_equal(model.predict(X).values, plain), name


def test_every_parameter_of_a_part_is_one_that_is_changed():
    kinds = (AMORegressor(), AMORegressor(latents=LatentAttention()))
    names = {name for model in kinds for name in model.get_params() if "__" in name}
    assert (
        {name for name in names if name.startswith(("patches", "latents", "mixer"))}
        <= set(CHANGED)
        <= names
        | {
            "mlp_ratio",
            "dropout",
        }
    )


def test_warnings_say_with_what_a_parameter_acts():
    for model, words in (
        (small(latents=LatentTokens(decoder="own_softmax")), "latents=LatentTokens(decoder='own_softmax') has no "
         "effect on points read as geometry 'grid'; it acts on points or structured"),
        (on_points(patches__size=3), "patches=Patches(size=3) has no effect on points read as geometry 'points'; it "
         "acts on grid"),
        (small(mixer__transform="filter", mixer__d_state=3), "mixer__d_state=3 has no effect with "
         "mixer__transform='filter'; it acts with mixer__transform='coefficients'."),
        (small(**LITERAL, latents__aggregation="sum"), "latents__aggregation='sum' has no effect with "
         "mixer=LiteralExpansions(); it acts with"),
        (small(patches__positional_encoding=None, patches__n_frequencies=3), "patches__n_frequencies=3 has no effect "
         "with patches__positional_encoding=None; it acts with patches__positional_encoding='coordinates' or 'auto'."),
    ):  # fmt: skip
        with pytest.warns(SkopWarning) as caught:
            model.set_params(max_iter=1).fit(FIELDS[:2], FIELDS[:2])
        assert any(words in str(item.message) for item in caught), words


@pytest.mark.parametrize(
    ("name", "part"),
    [("mixer__kernel_size", LITERAL), ("latents__aggregation", {}), ("latents__temperature", {"latents": ONCE})],
)
def test_a_parameter_of_another_part_cannot_be_set(name, part):
    with pytest.raises(ValueError, match=f"Invalid parameter '{name.partition('__')[2]}' for estimator "):
        small(**part).set_params(**{name: CHANGED[name]})


def test_more_poles_than_patches_are_cut_with_a_warning():
    fields = np.random.default_rng(0).random((2, 6, 6, 1))
    model = small(patches__size=2, mixer__n_poles=10, max_iter=1)
    with pytest.warns(
        SkopWarning, match=r"mixer__n_poles=10 is more than the 9 patches of the grid \(6, 6\), .* 9 poles"
    ):
        model.fit(fields, fields)
    assert model.module_.blocks[0].mixer.n_poles == 9
    with warnings.catch_warnings():
        warnings.simplefilter("error", SkopWarning)
        model.set_params(mixer__n_poles=9).fit(fields, fields)
        # The default number, and the single token of tables, say nothing.
        AMORegressor(width=8, depth=1, max_iter=1, base=None).fit(fields, fields)
        small(mixer__n_poles=10, max_iter=1).fit(fields.reshape(12, 6), np.arange(12.0))


@pytest.mark.parametrize(
    ("changes", "latents"),
    [({"geometry": "grid"}, LatentAttention()), ({}, LatentTokens()), ({"geometry": "points"}, LatentTokens())],
)
def test_the_printed_equations_need_points_that_are_read_once(changes, latents):
    model = small(mixer=LiteralExpansions(), latents=latents, **changes)
    words = (
        rf"mixer=LiteralExpansions\(...\) needs .* read as geometry '{changes.get('geometry', 'grid')}' with "
        rf"latents={type(latents).__name__}\(.*\); set geometry='points' and latents=LatentAttention\(\)"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkopWarning)
        with pytest.raises(ValueError, match=words):
            model.fit(FIELDS, FIELDS)
    assert not hasattr(model, "module_")


def test_wrong_parameters_are_named():
    for changes, words in (
        ({"mixer__n_pole_heads": 5}, "n_pole_heads=5 does not divide the inner width 16"),
        ({"latents__n_heads": 3}, "n_heads=3 does not divide width=8"),
        ({"latents__n_centred_heads": 3}, "n_centred_heads=3; expected 0 to n_heads=2"),
        ({"scaling__coords": None}, "latents__n_centred_heads=1 needs coordinates that are scaled to the unit"),
        ({"mixer__max_radius": 1.0}, "max_radius"),
        ({"mixer__transform": "both"}, "transform"),
        ({"mixer__n_poles": 0}, "n_poles"),
    ):
        with pytest.raises(ValueError, match=words):
            on_points(**changes).fit(FIELDS, FIELDS)


# ---------------------------------------------------------------- points
FORMS = {
    "each block": {},
    "once": {"latents": LatentAttention(aggregation="sum")},
    "literal": {"latents": LatentAttention(), "mixer": LiteralExpansions()},
}


@pytest.mark.parametrize("form", FORMS)
def test_samples_of_any_points_are_predicted_there_and_elsewhere(form):
    X, y = ragged()
    fitted = on_points(**FORMS[form]).fit(X, y)
    expected = fitted.predict(X).to_list()
    for found, values in zip(fitted.predict(X, coords=CLOUDS).to_list(), expected, strict=True):
        np.testing.assert_allclose(found, values, rtol=1e-8)
    places = np.array([[0.4, 0.5], [0.61, 0.33]])
    together = fitted.predict(X, coords=places)
    alone = fitted.predict(X[[2]], coords=places[:1])
    np.testing.assert_allclose(together.to_list()[2][:1], alone.to_list()[0], rtol=1e-10)
    order = [np.arange(len(cloud))[::-1] for cloud in CLOUDS]
    turned = FieldSet(
        [cloud[own] for cloud, own in zip(CLOUDS, order, strict=True)],
        [values[own] for values, own in zip(X.to_list(), order, strict=True)],
    )
    for found, values, own in zip(fitted.predict(turned).to_list(), expected, order, strict=True):
        np.testing.assert_allclose(found, values[own], rtol=1e-8)


@pytest.mark.parametrize(
    ("latents", "n_dims"),
    [
        (LatentTokens(), 1),
        (LatentAttention(), 2),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in ((LatentTokens(), 2), (LatentTokens(), 3), (LatentAttention(), 3))
        ),
    ],
)
def test_grids_bent_grids_and_clouds_with_parameters_and_scalars(latents, n_dims, tmp_path):
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
        changes = {} if geometry == "grid" else {"latents": latents}
        fitted = small(max_iter=1).set_params(**changes).fit(X, y)
        assert fitted.geometry_ == geometry
        found = fitted.predict(X)
        assert found.shape == (4, count, 1)
        assert found.params.shape == (4, 3)
        other = fitted.predict(X.with_params(params[::-1]))
        assert not np.array_equal(other.values, found.values)
        fitted.save(tmp_path / "model.skop")
        loaded = skop.load(tmp_path / "model.skop")
        np.testing.assert_array_equal(loaded.predict(X).values, found.values)


# ---------------------------------------------------------------- files
def test_fixed_poles_are_drawn_from_the_seed():
    model = small(mixer__adaptive_poles=False, max_iter=1)
    first, again, other = (clone(model).set_params(random_state=seed).fit(FIELDS, FIELDS) for seed in (0, 0, 1))
    places = [fitted.module_.blocks[0].mixer.poles.places.numpy() for fitted in (first, again, other)]
    np.testing.assert_array_equal(places[0], places[1])
    assert not np.isclose(places[0], places[2]).any()


# ---------------------------------------------------------------- time
# ---------------------------------------------------------------- laws
@pytest.mark.exhaustive
@parametrize_with_field_checks(
    [
        on_points(
            dtype="auto", mixer__transform="filter",
            latents=LatentAttention(decoder="own_softmax", position_network=True),
        )
    ],
    n_dims=[2],
    any_grid=True,
    point_sets=True,
)  # fmt: skip
def test_laws_of_field_data_with_the_other_choices(estimator, check):
    check(estimator)


# ---------------------------------------------------------------- training
LEARNED = {
    "grid": {"geometry": "grid"},
    "filter": {"geometry": "grid", "mixer__transform": "filter"},
    "each block": {"geometry": "points"},
    "once": {"geometry": "points", "latents": LatentAttention()},
}


@pytest.mark.parametrize(
    "form", [name if name == "grid" else pytest.param(name, marks=pytest.mark.exhaustive) for name in LEARNED]
)
def test_a_few_samples_are_learned_by_heart(form):
    X, y = make_darcy(8, resolution=6, random_state=0)
    sizes = {"width": 16, "depth": 1, "max_iter": 80}
    if form not in ("grid", "filter"):
        # Tokens that read weighted means of the points need longer for what a patch knows from the start.
        sizes = {"width": 24, "depth": 2, "max_iter": 150, "latents__n_tokens": 16}
    model = small(**LEARNED[form]).set_params(
        **sizes, batch_size=8, learning_rate_init=1e-2, dtype="float32", training__ema_decay=None
    )
    error = relative_l2_error(y, model.fit(X, y).predict(X))
    mean = relative_l2_error(y, np.broadcast_to(y.mean(0), y.shape))
    assert mean > 0.1
    assert error < 0.25 * mean
