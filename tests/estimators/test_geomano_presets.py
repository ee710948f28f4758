"""GeoMaNO's published configurations: every number against the tables of the paper and what it builds on."""

import numpy as np
import pytest
from torch import nn

from skop import GeoMaNORegressor
from skop.data import DataSpec, TargetForm
from skop.losses import get_loss

RANDOM = np.random.default_rng(0)

# Tables 4 and 5, and the best rows of Table 3.
PUBLISHED = {
    "darcy": {
        "depth": 8,
        "mixer__d_state": 16,
        "width": 64,
        "batch_size": 4,
        "learning_rate_init": 3e-4,
        "max_iter": 500,
        "training__schedule": "one_cycle",
        "loss": "relative_l2_gradient",
        "mixer__recurrence": "grid",
        "patches__positional_encoding": None,
        "mixer__correction": "0011",
        "mixer__scan_directions": "cross",
    },
    "navier_stokes": {
        "depth": 8,
        "mixer__d_state": 16,
        "width": 256,
        "batch_size": 2,
        "learning_rate_init": 3e-4,
        "max_iter": 500,
        "training__schedule": "one_cycle",
        "loss": "relative_l2",
        "mixer__recurrence": "sequence",
        "patches__positional_encoding": "learned",
        "mixer__correction": "learnable",
        "mixer__scan_directions": "cross",
    },
}
#: Parameters of the network that no table states: as VMamba and 2DMamba have them, or our choice.
UNSTATED = {
    "mlp_ratio": 4,
    "dropout": 0.0,
    "patches__size": 2,
    "patches__conv_channels": 0,
    "patches__coordinate_channels": True,
    "patches__pad_to_multiple": 1,
    "patches__init": "default",
    "mixer__correction_at": "state",
    "mixer__direction_order": "paper",
    "mixer__expand": 2,
    "mixer__dt_rank": None,
    "mixer__kernel_size": 3,
    "mixer__activation": "silu",
    # Line 10 of Algorithm 1.
    "mixer__activate_output": True,
    "mixer__separate_gate": False,
    "mixer__step_range": (1e-3, 0.1),
    "mixer__decay_range": None,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_are_the_tables_of_the_paper(name):
    parameters, stated = GeoMaNORegressor.from_preset(name).get_params(), PUBLISHED[name] | UNSTATED
    assert {key: parameters[key] for key in stated} == stated
    assert parameters["symmetries__periodic"] is False


@pytest.mark.parametrize(("name", "max_grad_norm"), [("darcy", 0.1), ("navier_stokes", None)])
def test_what_the_paper_leaves_open_is_as_in_the_code_that_it_refers_to(name, max_grad_norm):
    found = GeoMaNORegressor.from_preset(name)
    # Transolver's scripts of both benchmarks.
    assert (found.weight_decay, found.training.max_grad_norm) == (1e-5, max_grad_norm)
    assert (found.training.loss_reduction, found.training.decay_bias_and_norm) == ("sum", True)
    assert (found.training.beta_2, found.training.ema_decay, found.early_stopping) == (0.999, None, False)


def test_the_loss_of_darcy_adds_a_tenth_of_the_gradient():
    model = GeoMaNORegressor.from_preset("darcy")
    assert get_loss(model.loss, reduction=model.training.loss_reduction).gradient_weight == 0.1


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_parameter_of_the_network_of_a_preset_is_stated_above(name):
    # Defaults may change; a preset must not change with them.
    model = GeoMaNORegressor.from_preset(name)
    parts = {key for key in model.get_params() if key.startswith(("patches__", "mixer__"))}
    # A network of coordinates only has frequencies, and the points are lifted to the width of the tokens.
    assert parts - set(PUBLISHED[name] | UNSTATED) == {"patches__n_frequencies", "patches__lifting_width"}
    assert model.patches.lifting_width == model.width
    model._validate_params()


@pytest.mark.parametrize(
    ("name", "grid", "n_fields", "tokens"),
    [("darcy", (85, 85), 1, (43, 43)), ("navier_stokes", (64, 64), 10, (32, 32))],
)
def test_networks_of_the_presets(name, grid, n_fields, tokens):
    spec = DataSpec("grid", "fields", TargetForm("array"), 2, n_fields, 0, 1, grid)
    built = GeoMaNORegressor.from_preset(name)._build_network(spec, "grid")
    assert built._token_grid(grid) == tokens
    mixer, width = built.blocks[0].mixer, PUBLISHED[name]["width"]
    assert len(built.blocks) == 8
    assert built.lifting.fc1.weight.shape == (width, 2 + n_fields)
    assert built.lifting.fc2.out_features == width
    assert mixer.sizes == (4, 2 * width, 16)
    assert mixer.step_projection.shape == (4, 2 * width, width // 16)
    # Rows, reversed rows, columns, reversed columns: the order of sections 4.2 and 4.3.
    assert mixer.directions == ((2, 1), (-2, -1), (1, 2), (-1, -2))
    assert (mixer.scan_grid is None) == (name == "navier_stokes")
    assert isinstance(mixer.correction, nn.Parameter) == (name == "navier_stokes")
    if name == "darcy":
        # The scans along the columns (Remark 4.2).
        assert mixer.correction.view(4, -1).unique(dim=1).flatten().tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(("name", "channels"), [("darcy", 1), ("navier_stokes", 3)])
def test_presets_fit_data_of_their_benchmark(name, channels):
    X, y = RANDOM.normal(size=(5, 7, 6, channels)), RANDOM.normal(size=(5, 7, 6, 1))
    model = GeoMaNORegressor.from_preset(
        name, width=16, depth=1, mixer__d_state=2, patches__lifting_width=8, max_iter=1, random_state=0
    )
    assert model.fit(X, y).predict(X).shape == y.shape
