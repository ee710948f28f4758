"""GeoMaNO's published configurations: every number against the tables of the paper and what it builds on."""

import inspect

import numpy as np
import pytest
from torch import nn

from skop import GeoMaNORegressor, LaMORegressor
from skop.data import DataSpec
from skop.estimators.presets import preset_parameters
from skop.losses import get_loss
from skop.networks import GeoMaNONetwork

RANDOM = np.random.default_rng(0)

# Tables 4 and 5, and the best rows of Table 3.
PUBLISHED = {
    "darcy": {
        "depth": 8, "d_state": 16, "width": 64, "batch_size": 4, "learning_rate_init": 3e-4, "max_iter": 500,
        "schedule": "one_cycle", "loss": "relative_l2_gradient", "recurrence": "grid", "position": None,
        "correction": "0011", "crossing": "cross",
    },
    "navier_stokes": {
        "depth": 8, "d_state": 16, "width": 256, "batch_size": 2, "learning_rate_init": 3e-4, "max_iter": 500,
        "schedule": "one_cycle", "loss": "relative_l2", "recurrence": "sequence", "position": "learned",
        "correction": "learnable", "crossing": "cross",
    },
}  # fmt: skip
#: What the paper does not state and the code that it builds on does.
AS_IN_LAMO = (
    "patch_size", "expand", "mlp_ratio", "kernel_size", "local_features", "dropout", "weight_decay", "decay_vectors",
    "clip_norm", "loss_reduction", "schedule_interval", "beta_2", "weight_averaging", "early_stopping", "coord_scaler",
    "input_scaler", "target_scaler", "loss",
)  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_are_the_tables_of_the_paper(name):
    parameters = GeoMaNORegressor.from_preset(name).get_params()
    assert {key: parameters[key] for key in PUBLISHED[name]} == PUBLISHED[name]
    assert parameters["correction_place"] == "state"
    # Line 10 of Algorithm 1.
    assert parameters["activate_output"] is True
    assert parameters["own_gate"] is False
    assert parameters["symmetries"] is None


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_the_paper_leaves_open_is_as_in_the_code_that_it_builds_on(name):
    found, expected = GeoMaNORegressor.from_preset(name).get_params(), LaMORegressor.from_preset(name).get_params()
    assert {key: found[key] for key in AS_IN_LAMO} == {key: expected[key] for key in AS_IN_LAMO}
    # VMamba's activation, rank and steps.
    assert (found["activation"], found["dt_rank"], tuple(found["step_range"])) == ("silu", None, (0.001, 0.1))


def test_the_loss_of_darcy_adds_a_tenth_of_the_gradient():
    parameters = GeoMaNORegressor.from_preset("darcy").get_params()
    assert get_loss(parameters["loss"], reduction=parameters["loss_reduction"]).gradient_weight == 0.1


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_name_every_parameter_of_the_network_and_only_existing_ones(name):
    parameters = preset_parameters("geomano", name)
    known = set(inspect.signature(GeoMaNORegressor).parameters)
    assert set(parameters) <= known
    # Defaults may change; a preset must not change with them.
    network_parameters = known & set(inspect.signature(GeoMaNONetwork).parameters)
    assert network_parameters - set(parameters) == {"n_frequencies"}  # which only a network of coordinates has
    GeoMaNORegressor(**parameters)._validate_params()


@pytest.mark.parametrize(
    ("name", "grid", "n_fields", "tokens"),
    [("darcy", (85, 85), 1, (43, 43)), ("navier_stokes", (64, 64), 10, (32, 32))],
)
def test_networks_of_the_presets(name, grid, n_fields, tokens):
    spec = DataSpec("grid", "fields", "grid", 2, n_fields, 0, 1, grid, "float32")
    built = GeoMaNORegressor.from_preset(name)._build_network(spec, "grid")
    assert built._token_grid(grid) == tokens
    mixer, width = built.blocks[0].mixer, PUBLISHED[name]["width"]
    assert len(built.blocks) == 8
    assert built.lift.expand.weight.shape == (width, 2 + n_fields)
    assert built.lift.contract.out_features == width
    assert mixer.sizes == (4, 2 * width, 16)
    assert mixer.step_projection.shape == (4, 2 * width, width // 16)
    assert mixer.directions == ((2, 1), (1, 2), (-2, -1), (-1, -2))
    assert (mixer.scan_grid is None) == (name == "navier_stokes")
    assert isinstance(mixer.correction, nn.Parameter) == (name == "navier_stokes")
    if name == "darcy":
        # The reversed rows and the reversed columns, in VMamba's order.
        assert mixer.correction.view(4, -1).unique(dim=1).flatten().tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(("name", "channels"), [("darcy", 1), ("navier_stokes", 3)])
def test_presets_fit_data_of_their_benchmark(name, channels):
    X, y = RANDOM.normal(size=(5, 7, 6, channels)), RANDOM.normal(size=(5, 7, 6, 1))
    model = GeoMaNORegressor.from_preset(name, width=16, depth=1, d_state=2, lift=8, max_iter=1, random_state=0)
    assert model.fit(X, y).predict(X).shape == y.shape


def test_changes_win_and_copies_are_independent():
    assert GeoMaNORegressor.from_preset("darcy", max_iter=3, width=16).get_params()["max_iter"] == 3
    preset_parameters("geomano", "darcy")["width"] = 1
    assert preset_parameters("geomano", "darcy")["width"] == 64
    with pytest.raises(TypeError, match="colour"):
        GeoMaNORegressor.from_preset("darcy", colour=3)
    with pytest.raises(ValueError, match=r"no preset 'weather' for geomano; choose from \['darcy', 'navier_stokes'\]"):
        GeoMaNORegressor.from_preset("weather")
