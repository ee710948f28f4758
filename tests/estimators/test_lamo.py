"""LaMORegressor: its parameters reach the network, and the data it is made for."""

import numpy as np
import pytest
import torch

from skop import AMORegressor, FieldSet, LaMORegressor
from skop.data import DataSpec, TargetForm, unit_grid
from skop.exceptions import FieldDataError
from skop.networks import LaMOPatchNetwork
from skop.parts import Hydra, LatentTokens, Mamba, Mamba2

RANDOM = np.random.default_rng(0)


def small(**params):
    return LaMORegressor().set_params(
        **({"width": 8, "depth": 1, "batch_size": 4, "max_iter": 1, "random_state": 0} | params)
    )


def network(grid=(6, 4), n_params=0, n_outputs=1, n_scalars=0, geometry="grid", **params):
    spec = DataSpec("grid", "fields", TargetForm("array"), len(grid), 1, n_params, n_outputs, grid, n_scalars=n_scalars)
    return small(**params)._build_network(spec, geometry)


#: Another value of each parameter of the networks on grids and on points; a part of another class changes them too.
BLOCKS = {"width": 12, "depth": 3, "mlp_ratio": 1.0, "dropout": 0.5}
PATCHES = BLOCKS | {
    "patches": None, "patches__size": 3, "patches__conv_channels": 3, "patches__positional_encoding": None,
    "patches__n_frequencies": 2, "patches__lifting_width": 7, "patches__coordinate_channels": False,
    "patches__pad_to_multiple": 4, "patches__init": "normal", "scan": Mamba(), "scan__d_state": 3, "scan__expand": 3,
    "scan__n_heads": 2, "scan__scan_directions": "row_corners", "scan__path_weights": "shared",
    "scan__kernel_size": 1, "scan__activation": "silu", "scan__decay_range": (0.25, 2.0),
}  # fmt: skip
LATENTS = BLOCKS | {
    "latents": None, "latents__n_tokens": 5, "latents__n_heads": 2, "latents__n_centred_heads": 1,
    "latents__decoder": "own_softmax", "latents__n_frequencies": 2, "latents__position_network": True,
    "latents__parameter_embedding": "sinusoidal", "latents__weight_init": "trunc_normal", "latents__temperature": 2.0,
    "latents__normalize": False, "latents__shared": False, "mixer": Mamba2(), "mixer__d_state": 3, "mixer__expand": 3,
    "mixer__n_heads": 2,
}  # fmt: skip


def test_every_parameter_of_the_network_changes_what_it_computes(subtests):
    def outputs(geometry, **params):
        torch.manual_seed(0)
        built = network(n_params=2, geometry=geometry, **({"depth": 2} | params))
        return built(coords, fields, fields[:, :2, 0], (6, 4)).field

    coords, fields = torch.from_numpy(unit_grid((6, 4))).float(), torch.linspace(-1, 1, 72).view(3, 24, 1)
    for geometry, changed in {"grid": PATCHES, "structured": LATENTS, "points": LATENTS}.items():
        usual = outputs(geometry)
        for name, value in changed.items():
            with subtests.test(geometry, name=name):
                # None is the part with its defaults.
                is_usual = value is None and "__" not in name
                assert torch.equal(usual, outputs(geometry, **{name: value})) == is_usual


def test_every_parameter_of_the_network_was_changed():
    parts = ("patches", "scan", "latents", "mixer")
    names = {name for name in LaMORegressor().get_params() if name.partition("__")[0] in parts}
    assert set(PATCHES | LATENTS) == names | set(BLOCKS)


def test_a_function_of_the_coordinates_is_predicted_on_a_finer_grid():
    def fields(grid, phases):
        x, y = unit_grid(grid).reshape(*grid, 2).transpose(2, 0, 1)
        return np.stack([np.sin(2 * x + phase) + y for phase in phases])[..., None]

    phases = np.linspace(0, 1.5, 8)
    X, y = fields((8, 8), phases), 1 + fields((8, 8), phases) ** 2
    estimator = small(width=16, max_iter=40, learning_rate_init=1e-2).fit(X, y)
    fine = estimator.predict(fields((15, 15), phases))
    truth = 1 + fields((15, 15), phases) ** 2
    error = np.linalg.norm(fine - truth) / np.linalg.norm(truth)
    mean_error = np.linalg.norm(truth.mean() - truth) / np.linalg.norm(truth)
    assert error < 0.5 * mean_error


def test_the_geometry_is_that_of_the_points():
    line, cloud = unit_grid((6, 4)), RANDOM.random((24, 2))
    bent = np.stack([line[:, 0], line[:, 1] + 0.2 * np.sin(3 * line[:, 0])], axis=1).reshape(6, 4, 2)
    y = RANDOM.normal(size=(3, 24))
    for coords, geometry in (
        (line, "grid"),
        (bent, "structured"),
        (np.stack([bent] * 3), "structured"),
        (cloud, "points"),
    ):
        fields = FieldSet(coords, y[..., None])
        # Patches read all grids, but for those of which latent tokens are asked for.
        for kind, part in ((LaMORegressor, "latents"), (LaMORegressor, "mixer"), (AMORegressor, "latents")):
            model = kind(width=8, depth=1, max_iter=1, base=None)
            assert model.fit(fields, y).geometry_ == ("points" if geometry == "points" else "grid")
            model.set_params(**{part: {"latents": LatentTokens(n_tokens=4), "mixer": Hydra()}[part]})
            if geometry != "grid":
                assert model.fit(fields, y).geometry_ == geometry
        assert small(geometry="points").fit(fields, y).geometry_ == "points"
        if geometry == "structured":
            assert small(geometry="structured").fit(fields, y).geometry_ == "structured"


@pytest.mark.parametrize("geometry", ["grid", "structured"])
def test_points_that_form_no_grid_are_refused_with_advice(geometry):
    coords = RANDOM.random((24, 2))
    with pytest.raises(FieldDataError, match=r"regular grid in C order.*2-D points.*geometry='auto'"):
        small(geometry=geometry).fit((coords, RANDOM.normal(size=(3, 24, 1))), RANDOM.normal(size=(3, 24)))


def test_dropout_acts_in_training_only():
    X = RANDOM.normal(size=(6, 6, 4, 1))
    estimator = small(dropout=0.5, max_iter=1, batch_size=6)
    assert estimator.fit(X, X).loss_curve_ != small(max_iter=1, batch_size=6).fit(X, X).loss_curve_
    np.testing.assert_array_equal(estimator.predict(X), estimator.predict(X))


def test_geometry_alone_and_parameters_beside_fields_are_inputs():
    grid, box = (6, 4), unit_grid((6, 4))
    own = FieldSet(np.stack([box * scale for scale in (1.0, 1.5, 2.0)]), grid_shape=grid)
    targets = own.coords.sum(axis=-1, keepdims=True)
    predicted = small().fit(own, targets).predict(own)
    assert predicted.shape == targets.shape
    params = RANDOM.normal(size=(3, 2))
    both = FieldSet(box, RANDOM.normal(size=(3, 24, 1)), params=params, grid_shape=grid)
    estimator = small().fit(both, targets)
    other = FieldSet(box, both.values, params=params[::-1], grid_shape=grid)
    assert np.abs(estimator.predict(other) - estimator.predict(both)).max() > 0


def test_the_seed_decides_the_first_weights():
    def weights(seed):
        X = np.zeros((4, 6, 4, 1))
        estimator = small(random_state=seed, learning_rate_init=1e-300).fit(X, X)
        return torch.cat([parameter.flatten() for parameter in estimator.module_.parameters()])

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))


def test_points_go_through_a_grid_on_request():
    points = RANDOM.random((60, 2))
    X = np.sin(points @ RANDOM.normal(size=(2, 8))).T[..., None]
    model = small(grid=(8, 8)).fit((points, X), X + 1)
    assert (model.geometry_, model.spec_.geometry, model.spec_.network_spec.grid_shape) == ("grid", "points", (8, 8))
    assert isinstance(model.module_, LaMOPatchNetwork)
    assert 0 < model.resampling_error_ < 0.2
    assert model.predict((points, X)).shape == X.shape
    assert model.predict((points, X), coords=points[:5]).shape == (8, 5, 1)
    assert small().fit((points, X), X).resampling_error_ is None
    with pytest.raises(FieldDataError, match="resample the fields onto one by grid='auto'"):
        small(geometry="grid").fit((points, X), X)
