"""GeoMaNO's published configurations: every number against the tables of the paper and what it builds on."""

import numpy as np
import pytest
from torch import nn

from skop import GeoMaNOArchitecture, GeoMaNORegressor
from skop.data import DataSpec, TargetForm
from skop.losses import get_loss

RANDOM = np.random.default_rng(0)

# Tables 4 and 5, and the best rows of Table 3.
PUBLISHED = {
    "darcy": {
        "depth": 8,
        "d_state": 16,
        "width": 64,
        "batch_size": 4,
        "learning_rate_init": 3e-4,
        "max_iter": 500,
        "training__schedule": "one_cycle",
        "loss": "relative_l2_gradient",
        "recurrence": "grid",
        "architecture__positional_encoding": None,
        "correction": "0011",
        "architecture__scan_directions": "cross",
    },
    "navier_stokes": {
        "depth": 8,
        "d_state": 16,
        "width": 256,
        "batch_size": 2,
        "learning_rate_init": 3e-4,
        "max_iter": 500,
        "training__schedule": "one_cycle",
        "loss": "relative_l2",
        "recurrence": "sequence",
        "architecture__positional_encoding": "learned",
        "correction": "learnable",
        "architecture__scan_directions": "cross",
    },
}
#: What the paper does not state and the code that it builds on does.
AS_IN_LAMO = (
    "patch_size",
    "architecture__expand",
    "architecture__mlp_ratio",
    "architecture__kernel_size",
    "architecture__conv_channels",
    "dropout",
    "training__weight_decay",
    "training__decay_bias_and_norm",
    "training__max_grad_norm",
    "training__loss_reduction",
    "training__schedule_interval",
    "training__beta_2",
    "training__ema_decay",
    "early_stopping",
    "scaling__coords",
    "scaling__inputs",
    "scaling__targets",
    "loss",
)


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_are_the_tables_of_the_paper(name):
    parameters = GeoMaNORegressor.from_preset(name).get_params()
    assert {key: parameters[key] for key in PUBLISHED[name]} == PUBLISHED[name]
    assert parameters["architecture__correction_at"] == "state"
    # Line 10 of Algorithm 1.
    assert parameters["architecture__activate_output"] is True
    assert parameters["architecture__separate_gate"] is False
    assert parameters["symmetries"] is None


@pytest.mark.parametrize(("name", "max_grad_norm"), [("darcy", 0.1), ("navier_stokes", None)])
def test_what_the_paper_leaves_open_is_as_in_the_code_that_it_refers_to(name, max_grad_norm):
    found = GeoMaNORegressor.from_preset(name)
    # Transolver's scripts of both benchmarks.
    assert (found.training.weight_decay, found.training.max_grad_norm) == (1e-5, max_grad_norm)
    assert (found.training.loss_reduction, found.training.decay_bias_and_norm) == ("sum", True)
    assert (found.training.beta_2, found.training.ema_decay, found.early_stopping) == (0.999, None, False)
    # VMamba's activation, rank and steps.
    parts = found.architecture
    assert (parts.activation, parts.dt_rank, tuple(parts.step_range)) == ("silu", None, (0.001, 0.1))


def test_the_loss_of_darcy_adds_a_tenth_of_the_gradient():
    model = GeoMaNORegressor.from_preset("darcy")
    assert get_loss(model.loss, reduction=model.training.loss_reduction).gradient_weight == 0.1


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_name_every_parameter_of_the_network(name):
    # Defaults may change; a preset must not change with them.
    preset = GeoMaNORegressor._presets[name]
    unnamed = set(GeoMaNOArchitecture().get_params()) - set(preset["architecture"])
    assert unnamed == {"n_frequencies"}  # which only a network of coordinates has
    assert {"width", "depth", "patch_size", "d_state", "recurrence", "correction", "dropout"} <= set(preset)
    GeoMaNORegressor.from_preset(name)._validate_params()


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
        name, width=16, depth=1, d_state=2, architecture__lifting_width=8, max_iter=1, random_state=0
    )
    assert model.fit(X, y).predict(X).shape == y.shape
