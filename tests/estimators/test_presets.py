"""Published configurations: every number against the paper's Table 6 and the authors' scripts."""

import warnings

import numpy as np
import pytest

from skop import AMORegressor, FieldSet, GeoMaNORegressor, LaMORegressor, MNORegressor, TimeConditionedRegressor
from skop.data import DataSpec, TargetForm
from skop.losses import get_loss
from skop.parts import GridSSD, Hydra, Mamba2

NAMES = ("darcy", "navier_stokes")
SLICE_NAMES = ("elasticity", "plasticity", "airfoil", "pipe")


def spec_of(grid, n_fields, n_params=0):
    return DataSpec("grid", "fields", TargetForm("array"), len(grid), n_fields, n_params, 1, grid)


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("name", "grid", "n_fields", "published"),
    [("darcy", (85, 85), 1, 1_145_986), ("navier_stokes", (64, 64), 10, 10_061_314)],
)
def test_parameter_counts_are_those_of_the_public_code(name, grid, n_fields, published):
    network = LaMORegressor.from_preset(name)._build_network(spec_of(grid, n_fields), "grid")
    assert count(network) == published


def test_parameter_counts_of_slice_models_are_those_of_the_public_code(subtests):
    for name, grid, sizes, published in [
        ("elasticity", None, (0, 0, 1), 1_953_577),
        ("plasticity", (101, 31), (1, 1, 4), 3_791_044),
        ("airfoil", (221, 51), (0, 0, 1), 1_144_825),
        ("pipe", (129, 129), (0, 0, 1), 4_020_545),
    ]:
        with subtests.test(name=name, grid=grid):
            model = LaMORegressor.from_preset(name)
            geometry = "structured" if grid else "points"
            spec = DataSpec("fieldset", "fields", TargetForm("fieldset"), 2, *sizes, grid, geometry=geometry)
            assert count(model._build_network(spec, model._choose_geometry(spec))) == published


def test_token_grids_are_those_of_the_public_code():
    darcy = LaMORegressor.from_preset("darcy")._build_network(spec_of((85, 85), 1), "grid")
    assert darcy._token_grid((85, 85)) == (44, 44)
    assert darcy.positional_encoding.table.shape == (1936, 64)
    navier_stokes = LaMORegressor.from_preset("navier_stokes")._build_network(spec_of((64, 64), 10), "grid")
    assert navier_stokes.positional_encoding.table.shape == (1024, 256)


# Settings of the authors' scripts: those of the training, and every parameter of the network.
SHARED = {
    "depth": 8,
    "dropout": 0.0,
    "weight_decay": 1e-5,
    "training__max_grad_norm": 0.1,
    "training__schedule": "one_cycle",
    "max_iter": 500,
    "training__loss_reduction": "sum",
}
GRIDS = SHARED | {
    "geometry": "grid",
    "mlp_ratio": 4,
    "learning_rate_init": 5e-4,
    "patches__size": 2,
    "patches__conv_channels": 0,
    "patches__positional_encoding": "learned",
    "patches__lifting_width": 0,
    "patches__coordinate_channels": True,
    "patches__pad_to_multiple": 8,
    "patches__init": "normal",
    "scan__d_state": 64,
    "scan__expand": 2,
    "scan__scan_directions": "cross",
    "scan__path_weights": "own",
    "scan__kernel_size": 3,
    "scan__activation": "gelu",
    "scan__decay_range": (1.0, 1.0),
}
POINTS = SHARED | {
    "width": 128,
    "mlp_ratio": 1,
    "learning_rate_init": 1e-3,
    "loss": "relative_l2",
    "latents__n_tokens": 64,
    "latents__n_heads": 8,
    "latents__n_centred_heads": 0,
    "latents__decoder": "encoder_weights",
    "latents__n_frequencies": 0,
    "latents__position_network": False,
    "latents__parameter_embedding": "channels",
    "latents__weight_init": "trunc_normal",
    "latents__temperature": 0.5,
    "latents__normalize": True,
    "mixer__d_state": 64,
    "mixer__expand": 2,
}
PUBLISHED = {
    "darcy": GRIDS
    | {
        "width": 64,
        "scan__n_heads": 4,
        "batch_size": 4,
        "loss": "relative_l2_gradient",
        "scaling__targets": "channel",
    },
    "navier_stokes": GRIDS
    | {
        "width": 256,
        "scan__n_heads": 16,
        "batch_size": 2,
        "weight_decay": 0.05,
        "training__max_grad_norm": None,
        "loss": "relative_l2",
        "scaling__targets": None,
    },
    "elasticity": POINTS
    | {
        "geometry": "points",
        "mixer__n_heads": 4,
        "latents__shared": True,
        "batch_size": 1,
        "training__schedule": "cosine",
        "training__schedule_interval": "epoch",
        "training__warmup_fraction": 0.0,
        "scaling__inputs": None,
        "scaling__targets": "channel",
        "scaling__coords": None,
    },
    "plasticity": POINTS
    | {
        "geometry": "structured",
        # The time is its global parameter; the others have none.
        "latents__parameter_embedding": "sinusoidal",
        "mixer__n_heads": 8,
        "latents__shared": False,
        "batch_size": 8,
        "scaling__inputs": "channel",
        "scaling__targets": None,
        "scaling__params": None,
    },
    "airfoil": POINTS
    | {
        "geometry": "structured",
        "mixer__n_heads": 2,
        "mixer__d_state": 1,
        "mixer__expand": 1,
        "latents__shared": True,
        "batch_size": 4,
        "scaling__targets": None,
        "scaling__coords": None,
    },
    "pipe": POINTS
    | {
        "geometry": "structured",
        "mlp_ratio": 2,
        "mixer__n_heads": 8,
        "latents__shared": False,
        "batch_size": 8,
        "scaling__targets": "channel",
        "scaling__coords": "standard",
    },
}
MIXERS = {"elasticity": Hydra, "plasticity": Mamba2, "airfoil": Hydra, "pipe": Mamba2}


def test_settings_are_those_of_the_scripts(subtests):
    for name in NAMES + SLICE_NAMES:
        with subtests.test(name):
            parameters = LaMORegressor.from_preset(name).get_params()
            assert {key: parameters[key] for key in PUBLISHED[name]} == PUBLISHED[name]
            assert type(parameters["scan" if name in NAMES else "mixer"]) is MIXERS.get(name, GridSSD)
            # The reported model is that of the last epoch, without averaging, early stopping or augmentation.
            assert parameters["early_stopping"] is False
            assert parameters["training__ema_decay"] is None
            assert parameters["training__decay_bias_and_norm"] is True
            assert parameters["symmetries__periodic"] is False
    for kind, name in ((MNORegressor, "darcy"), (AMORegressor, "pipe"), (GeoMaNORegressor, "navier_stokes")):
        assert kind.from_preset(name).symmetries.periodic is False


@pytest.mark.parametrize("name", NAMES)
def test_heads_have_32_channels(name):
    parameters = LaMORegressor.from_preset(name).get_params()
    assert parameters["scan__expand"] * parameters["width"] / parameters["scan__n_heads"] == 32


def test_every_parameter_of_the_network_is_compared_with_the_scripts(subtests):
    for name in NAMES + SLICE_NAMES:
        with subtests.test(name):
            # Defaults may change; a preset must not change with them.
            parts = ("patches__", "scan__") if name in NAMES else ("latents__", "mixer__")
            parameters = {key for key in LaMORegressor.from_preset(name).get_params() if key.startswith(parts)}
            parameters |= {"width", "depth", "mlp_ratio", "dropout"}
            unnamed = parameters - set(PUBLISHED[name])
            assert unnamed == (
                {"patches__n_frequencies"} if name in NAMES else set()
            )  # a learned position table has none


def test_presets_are_valid_and_warn_of_nothing(subtests):
    for name in NAMES + SLICE_NAMES:
        with subtests.test(name):
            model = LaMORegressor.from_preset(name)
            model._validate_params()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model._check_options(spec_of((85, 85), 1, int(name == "plasticity")), model.geometry)
            get_loss(model.loss, reduction=model.training.loss_reduction)


@pytest.mark.parametrize("name", SLICE_NAMES)
def test_presets_fit_data_of_the_layout_of_their_benchmark(name):
    generator = np.random.default_rng(0)
    small = {"width": 16, "depth": 1, "latents__n_tokens": 4, "latents__n_heads": 2, "mixer__n_heads": 1, "max_iter": 1}
    model = LaMORegressor.from_preset(name, random_state=0, **small)
    if name == "plasticity":
        profile, frames = generator.normal(size=(9, 6, 4, 1)), generator.normal(size=(9, 6, 4, 3 * 4))
        fitted = TimeConditionedRegressor(model, times=3).fit(profile, frames)
        assert fitted.predict(profile).shape == (9, 6, 4, 12)
        assert fitted.estimator_.geometry_ == "structured"
        return
    shape = (9, 24, 2) if name == "elasticity" else (9, 6, 4, 2)
    X, y = FieldSet(generator.normal(size=shape)), generator.normal(size=(*shape[:-1], 1))
    fitted = model.fit(X, y)
    assert fitted.predict(X).shape == y.shape
    assert fitted.geometry_ == ("points" if name == "elasticity" else "structured")


def test_changes_win_and_presets_do_not_change():
    changed = LaMORegressor.from_preset("darcy", max_iter=3, width=16, weight_decay=0.5, scan__n_heads=2)
    assert (changed.max_iter, changed.width, changed.weight_decay) == (3, 16, 0.5)
    assert (changed.scan.n_heads, changed.scan.d_state) == (2, 64)
    assert changed.training.ema_decay is None
    assert LaMORegressor.from_preset("darcy").weight_decay == 1e-5
    assert LaMORegressor.from_preset("darcy").scan.n_heads == 4
    with pytest.raises(ValueError, match="colour"):
        LaMORegressor.from_preset("darcy", colour=3)
    with pytest.raises(ValueError, match=r"LaMORegressor has no preset 'weather'; choose from \['airfoil', 'darcy', "):
        LaMORegressor.from_preset("weather")
