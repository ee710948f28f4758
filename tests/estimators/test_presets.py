"""Published configurations: every number against the paper's Table 6 and the authors' scripts."""

import inspect

import numpy as np
import pytest

from skop import FieldSet, LaMORegressor, TimeConditionedRegressor
from skop.data import DataSpec
from skop.estimators.presets import preset_parameters
from skop.losses import get_loss
from skop.networks import LaMOPatchNetwork, LaMOSliceNetwork

NAMES = ("darcy", "navier_stokes")
SLICE_NAMES = ("elasticity", "plasticity", "airfoil", "pipe")


def spec_of(grid, n_fields):
    return DataSpec("grid", "fields", "grid", len(grid), n_fields, 0, 1, grid, "float32")


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("name", "grid", "n_fields", "published"),
    [("darcy", (85, 85), 1, 1_145_986), ("navier_stokes", (64, 64), 10, 10_061_314)],
)
def test_parameter_counts_are_those_of_the_public_code(name, grid, n_fields, published):
    network = LaMORegressor.from_preset(name)._build_network(spec_of(grid, n_fields), "grid")
    assert count(network) == published


@pytest.mark.parametrize(
    ("name", "grid", "sizes", "published"),
    [
        ("elasticity", None, (0, 0, 1), 1_953_577),
        ("plasticity", (101, 31), (1, 1, 4), 3_791_044),
        ("airfoil", (221, 51), (0, 0, 1), 1_144_825),
        ("pipe", (129, 129), (0, 0, 1), 4_020_545),
    ],
)
def test_parameter_counts_of_slice_models_are_those_of_the_public_code(name, grid, sizes, published):
    model = LaMORegressor.from_preset(name)
    spec = DataSpec("fieldset", "fields", "grid", 2, *sizes, grid, "float32", layout="structured" if grid else "points")
    assert count(model._build_network(spec, model._choose_geometry(spec))) == published


def test_token_grids_are_those_of_the_public_code():
    darcy = LaMORegressor.from_preset("darcy")._build_network(spec_of((85, 85), 1), "grid")
    assert darcy._token_grid((85, 85)) == (44, 44)
    assert darcy.position.table.shape == (1936, 64)
    navier_stokes = LaMORegressor.from_preset("navier_stokes")._build_network(spec_of((64, 64), 10), "grid")
    assert navier_stokes.position.table.shape == (1024, 256)


# Settings of the authors' training scripts.
PUBLISHED = {
    "darcy": {
        "width": 64, "depth": 8, "mlp_ratio": 4, "n_heads": 4, "d_state": 64, "expand": 2, "learning_rate_init": 5e-4,
        "weight_decay": 1e-5, "batch_size": 4, "clip_norm": 0.1, "schedule": "one_cycle", "max_iter": 500,
        "loss_reduction": "sum", "loss": "relative_l2_gradient", "target_scaler": "channel",
    },
    "elasticity": {
        "width": 128, "depth": 8, "mlp_ratio": 1, "n_heads": 4, "d_state": 64, "expand": 2, "learning_rate_init": 1e-3,
        "weight_decay": 1e-5, "batch_size": 1, "clip_norm": 0.1, "schedule": "cosine", "schedule_interval": "epoch",
        "warmup_fraction": 0.0, "max_iter": 500, "loss_reduction": "sum", "loss": "relative_l2", "input_scaler": None,
        "target_scaler": "channel", "coord_scaler": None, "mixer": "hydra", "shared_projections": True,
        "geometry": "points",
    },
    "plasticity": {
        "width": 128, "depth": 8, "mlp_ratio": 1, "n_heads": 8, "d_state": 64, "expand": 2, "learning_rate_init": 1e-3,
        "weight_decay": 1e-5, "batch_size": 8, "clip_norm": 0.1, "schedule": "one_cycle", "max_iter": 500,
        "loss_reduction": "sum", "loss": "relative_l2", "input_scaler": "channel", "target_scaler": None,
        "param_scaler": None, "mixer": "mamba2", "shared_projections": False, "geometry": "structured",
        "parameter_embedding": "sinusoidal",
    },
    "airfoil": {
        "width": 128, "depth": 8, "mlp_ratio": 1, "n_heads": 2, "d_state": 1, "expand": 1, "learning_rate_init": 1e-3,
        "weight_decay": 1e-5, "batch_size": 4, "clip_norm": 0.1, "schedule": "one_cycle", "max_iter": 500,
        "loss_reduction": "sum", "loss": "relative_l2", "target_scaler": None, "coord_scaler": None, "mixer": "hydra",
        "shared_projections": True, "geometry": "structured",
    },
    "pipe": {
        "width": 128, "depth": 8, "mlp_ratio": 2, "n_heads": 8, "d_state": 64, "expand": 2, "learning_rate_init": 1e-3,
        "weight_decay": 1e-5, "batch_size": 8, "clip_norm": 0.1, "schedule": "one_cycle", "max_iter": 500,
        "loss_reduction": "sum", "loss": "relative_l2", "target_scaler": "channel", "coord_scaler": "standard",
        "mixer": "mamba2", "shared_projections": False, "geometry": "structured",
    },
    "navier_stokes": {
        "width": 256, "depth": 8, "mlp_ratio": 4, "n_heads": 16, "d_state": 64, "expand": 2, "learning_rate_init": 5e-4,
        "weight_decay": 0.05, "batch_size": 2, "clip_norm": None, "schedule": "one_cycle", "max_iter": 500,
        "loss_reduction": "sum", "loss": "relative_l2", "target_scaler": None,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES + SLICE_NAMES)
def test_settings_are_those_of_the_scripts(name):
    parameters = LaMORegressor.from_preset(name).get_params()
    assert {key: parameters[key] for key in PUBLISHED[name]} == PUBLISHED[name]
    # The reported model is that of the last epoch, without averaging, early stopping or augmentation.
    assert parameters["early_stopping"] is False
    assert parameters["weight_averaging"] is None
    assert parameters["decay_vectors"] is True
    assert name in SLICE_NAMES or tuple(parameters["decay_range"]) == (1.0, 1.0)
    assert parameters["symmetries"] is None


@pytest.mark.parametrize("name", NAMES)
def test_heads_have_32_channels(name):
    parameters = preset_parameters("lamo", name)
    assert parameters["expand"] * parameters["width"] / parameters["n_heads"] == 32


@pytest.mark.parametrize("name", NAMES)
def test_presets_name_every_parameter_of_the_network_and_only_existing_ones(name):
    parameters = preset_parameters("lamo", name)
    known = set(inspect.signature(LaMORegressor).parameters)
    assert set(parameters) <= known
    # Defaults may change; a preset must not change with them.
    network = known & set(inspect.signature(LaMOPatchNetwork).parameters)
    assert network - set(parameters) == {"n_frequencies"}  # which a learned position table does not have
    LaMORegressor(**parameters)._validate_params()
    get_loss(parameters["loss"], reduction=parameters["loss_reduction"])


@pytest.mark.parametrize("name", SLICE_NAMES)
def test_presets_of_slice_models_name_every_parameter_of_the_network_and_only_existing_ones(name):
    parameters = preset_parameters("lamo", name)
    known = set(inspect.signature(LaMORegressor).parameters)
    assert set(parameters) <= known
    assert known & set(inspect.signature(LaMOSliceNetwork).parameters) <= set(parameters)
    LaMORegressor(**parameters)._validate_params()


@pytest.mark.parametrize("name", SLICE_NAMES)
def test_presets_fit_data_of_the_layout_of_their_benchmark(name):
    generator = np.random.default_rng(0)
    small = {"width": 16, "depth": 1, "n_latents": 4, "n_slice_heads": 2, "n_heads": 1, "d_state": 4, "max_iter": 1}
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


def test_changes_win_and_copies_are_independent():
    assert LaMORegressor.from_preset("darcy", max_iter=3, width=16).get_params()["max_iter"] == 3
    preset_parameters("lamo", "darcy")["width"] = 1
    assert preset_parameters("lamo", "darcy")["width"] == 64
    with pytest.raises(TypeError, match="colour"):
        LaMORegressor.from_preset("darcy", colour=3)
    with pytest.raises(ValueError, match=r"no preset 'weather' for lamo; choose from \['airfoil', 'darcy', "):
        preset_parameters("lamo", "weather")
