"""GeoMaNORegressor: its parameters reach the network, the data it is made for, and the life of an estimator."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from skop import FieldSet, GeoMaNORegressor
from skop.data import DataSpec, TargetForm, unit_grid
from skop.exceptions import FieldDataError, SkopWarning

RANDOM = np.random.default_rng(0)
LINE = unit_grid((6, 4))
BENT = np.stack([LINE[:, 0], LINE[:, 1] + 0.2 * np.sin(3 * LINE[:, 0])], axis=1).reshape(6, 4, 2)
CLOUD = RANDOM.random((24, 2))
RAGGED = [RANDOM.random((size, 2)) for size in (5, 7, 6)]
VALUES = [RANDOM.normal(size=(size, 1)) for size in (5, 7, 6)]
FIELD = RANDOM.normal(size=(3, 24, 1))
SURFACE = np.concatenate([BENT, BENT[..., :1] ** 2], axis=-1)


def small(**params):
    sizes = {"width": 8, "depth": 1, "patches__conv_channels": 4, "batch_size": 4, "max_iter": 1, "random_state": 0}
    return GeoMaNORegressor().set_params(**(sizes | params))


def spec_of(grid, n_fields=1, **changes):
    spec = DataSpec("grid", "fields", TargetForm("array"), len(grid), n_fields, 0, 1, grid)
    return replace(spec, **changes)


def network(grid=(6, 4), n_outputs=1, n_scalars=0, **params):
    spec = spec_of(grid, n_outputs=n_outputs, n_scalars=n_scalars)
    return small(**params)._build_network(spec, "grid")


# ---------------------------------------------------------------- parameters
#: Another value of each parameter of the network, and of what it acts with.
CHANGED = {
    "width": 12, "depth": 2, "mlp_ratio": 1.0, "dropout": 0.5, "patches__size": 3, "patches__conv_channels": 3,
    "patches__positional_encoding": "coordinates", "patches__n_frequencies": 2, "patches__lifting_width": 7,
    "patches__coordinate_channels": False, "patches__pad_to_multiple": 4, "patches__init": "normal",
    "mixer__d_state": 3, "mixer__recurrence": "grid", "mixer__correction": "0011", "mixer__correction_at": "input",
    "mixer__expand": 3, "mixer__dt_rank": 2, "mixer__scan_directions": "all", "mixer__direction_order": "vmamba",
    "mixer__kernel_size": 1, "mixer__activation": "silu", "mixer__separate_gate": False,
    "mixer__activate_output": True, "mixer__step_range": (0.25, 0.5), "mixer__decay_range": None,
}  # fmt: skip
ACT_WITH = {
    "patches__n_frequencies": {"patches__positional_encoding": "coordinates"},
    # A learned correction starts from none.
    "mixer__correction_at": {"mixer__correction": "0011"},
}


def test_every_parameter_of_the_network_changes_what_it_computes(subtests):
    def outputs(**params):
        torch.manual_seed(0)
        return network(**params)(coords, fields, None, (6, 4)).field

    coords, fields = torch.from_numpy(LINE).float(), torch.from_numpy(FIELD).float()
    for name, value in CHANGED.items():
        others = ACT_WITH.get(name, {})
        with subtests.test(name):
            assert not torch.equal(outputs(**others), outputs(**others, **{name: value}))


def test_every_parameter_of_the_network_was_changed():
    parts = [name for name in small().get_params() if name.startswith(("patches__", "mixer__"))]
    assert set(CHANGED) == {"width", "depth", "mlp_ratio", "dropout", *parts}


def test_frequencies_without_a_positional_encoding_warn():
    X = RANDOM.normal(size=(3, 6, 4, 1))
    words = "patches__n_frequencies=3 has no effect with patches__positional_encoding='auto'; it acts with "
    with pytest.warns(SkopWarning, match=words + "patches__positional_encoding='coordinates'"):
        small(patches__n_frequencies=3, max_iter=1).fit(X, X)


def test_settings_that_do_not_fit_are_named_and_leave_an_earlier_fit(subtests):
    X = RANDOM.normal(size=(4, 6, 4, 1))
    fitted = small(max_iter=1).fit(X, X)
    before = fitted.predict(X)
    for params, message in [
        ({"mixer__correction": "011"}, r"correction is '011'.*4 digits"),
        ({"mixer__correction": "00110011"}, r"correction is '00110011'.*4 digits"),
        ({"mixer__correction": "0011", "mixer__scan_directions": "all"}, r"correction is '0011'.*8 digits"),
        ({"mixer__correction": 3}, r"'correction' parameter of GeometricScan"),
        ({"mixer__correction_at": "skip"}, r"'correction_at' parameter"),
        ({"mixer__recurrence": "2d"}, r"'recurrence' parameter"),
        ({"mixer__scan_directions": "spiral"}, r"'scan_directions' parameter"),
        ({"mixer__direction_order": "any"}, r"'direction_order' parameter"),
        ({"mixer__activation": "relu"}, r"'activation' parameter"),
        ({"mixer__kernel_size": 2}, r"kernel_size=2; expected an odd"),
        ({"mixer__step_range": (0.1,)}, r"a sequence of 2 numbers. Got \(0.1,\)"),
        ({"mixer__step_range": (0.0, 0.1)}, r"step_range is \(0.0, 0.1\)"),
        ({"patches__lifting_width": -1}, r"'lifting_width' parameter"),
        ({"mixer__dt_rank": 0}, r"'dt_rank' parameter"),
    ]:
        with subtests.test(params=params):
            estimator = copy.deepcopy(fitted)
            with pytest.raises(ValueError, match=message):
                estimator.set_params(**params).fit(X, X)
            np.testing.assert_array_equal(estimator.predict(X), before)


# ---------------------------------------------------------------- data
@pytest.mark.exhaustive
def test_a_local_law_is_learned_without_coordinates():
    X = RANDOM.normal(size=(12, 6, 6, 1))
    y = X + 0.5 * np.roll(X, 1, axis=1)
    y[:, 0] = X[:, 0]
    published = {
        "patches__coordinate_channels": False,
        "patches__positional_encoding": None,
        "patches__lifting_width": 8,
        "patches__size": 2,
        "mixer__correction": "0011",
    }
    estimator = small(width=16, max_iter=30, learning_rate_init=1e-2, **published).fit(X, y)
    assert estimator.loss_curve_[-1] < 0.6 * estimator.loss_curve_[0]


def test_a_function_of_the_coordinates_is_predicted_on_a_finer_grid():
    def fields(grid, phases):
        x, y = unit_grid(grid).reshape(*grid, 2).transpose(2, 0, 1)
        return np.stack([np.sin(2 * x + phase) + y for phase in phases])[..., None]

    phases = np.linspace(0, 1.5, 8)
    X, y = fields((8, 8), phases), 1 + fields((8, 8), phases) ** 2
    estimator = small(width=16, max_iter=40, learning_rate_init=1e-2).fit(X, y)
    fine = estimator.predict(fields((15, 13), phases))
    truth = 1 + fields((15, 13), phases) ** 2
    error = np.linalg.norm(fine - truth) / np.linalg.norm(truth)
    mean_error = np.linalg.norm(truth.mean() - truth) / np.linalg.norm(truth)
    assert error < 0.5 * mean_error


def test_straight_and_bent_grids_are_taken():
    y = RANDOM.normal(size=(3, 24, 1))
    for coords, geometry in (
        (LINE, "grid"),
        (BENT, "structured"),
        (np.stack([BENT, BENT + 1, 2 * BENT]), "structured"),
    ):
        fields = FieldSet(coords, y)
        estimator = small().fit(fields, y)
        assert estimator.geometry_ == geometry
        predicted = np.asarray(estimator.predict(fields))
        assert predicted.shape == (3, 24, 1)
        assert np.isfinite(predicted).all()


def test_a_bent_grid_is_seen_through_its_coordinates():
    y = RANDOM.normal(size=(3, 24, 1))
    estimator = small().fit(FieldSet(BENT, y), y)
    moved = np.asarray(estimator.predict(FieldSet(BENT + 0.1 * BENT**2, y)))
    assert np.abs(moved - np.asarray(estimator.predict(FieldSet(BENT, y)))).max() > 0


def test_points_that_form_no_grid_are_refused_with_what_takes_them(subtests):
    for label, (X, y) in {
        "cloud": (FieldSet(CLOUD, FIELD), FIELD),
        "tuple": ((CLOUD, FIELD), FIELD),
        "own clouds": (FieldSet(np.stack([CLOUD] * 3), FIELD), FIELD),
        "ragged": (list(zip(RAGGED, VALUES, strict=True)), VALUES),
        "ragged points": (RAGGED, VALUES),
        "ragged to scalars": (RAGGED, [1.0, 2.0, 3.0]),
        "surface": (FieldSet(SURFACE, FIELD), FIELD),
    }.items():
        words = r"GeoMaNORegressor scans regular grids.*LaMORegressor"
        with subtests.test(label), pytest.raises(FieldDataError, match=words):
            small().fit(X, y)


@pytest.mark.parametrize(
    "X", [list(zip(RAGGED, VALUES, strict=True)), FieldSet(CLOUD, FIELD), RAGGED], ids=["ragged", "cloud", "points"]
)
def test_a_fit_on_a_grid_refuses_points_that_form_none(X):
    inputs = RANDOM.normal(size=(4, 6, 4, 1))
    estimator = small(max_iter=1).fit(inputs, inputs)
    with pytest.raises(FieldDataError):
        estimator.predict(X)


def test_tables_and_parameters():
    table, fields = RANDOM.normal(size=(8, 3)), RANDOM.normal(size=(8, 5, 4, 1))
    assert small().fit(table, table[:, 0]).predict(table).shape == (8,)
    assert small().fit(table, table[:, :2]).predict(table).shape == (8, 2)
    assert small().fit(table, fields).predict(table).shape == fields.shape
    both = FieldSet(LINE, RANDOM.normal(size=(3, 24, 1)), params=RANDOM.normal(size=(3, 2)), grid_shape=(6, 4))
    estimator = small().fit(both, RANDOM.normal(size=(3, 24, 1)))
    other = FieldSet(LINE, both.values, params=both.params[::-1], grid_shape=(6, 4))
    assert np.abs(np.asarray(estimator.predict(other)) - np.asarray(estimator.predict(both))).max() > 0


def test_scalars_alone_and_beside_a_field():
    alone, beside = network(n_outputs=0, n_scalars=2), network(n_scalars=2)
    X = (torch.zeros(24, 2), torch.zeros(3, 24, 1), None, (6, 4))
    assert alone(*X).field is None
    assert alone(*X).scalars.shape == (3, 2)
    assert [part.shape for part in beside(*X)] == [(3, 24, 1), (3, 2)]
    fields, scalars = RANDOM.normal(size=(6, 6, 4, 1)), RANDOM.normal(size=(6, 2))
    assert small().fit(fields, scalars).predict(fields).shape == (6, 2)
    own = FieldSet(LINE, fields.reshape(6, 24, 1), grid_shape=(6, 4))
    predicted = small().fit(own, own.with_params(scalars)).predict(own)
    assert predicted.params.shape == (6, 2)
    assert predicted.values.shape == (6, 24, 1)


# ---------------------------------------------------------------- tokens and symmetries
@pytest.mark.filterwarnings("ignore::skop.exceptions.ResolutionWarning")
def test_learned_positions_tie_the_model_to_its_tokens():
    X = RANDOM.normal(size=(4, 6, 4, 1))
    estimator = small(patches__positional_encoding="learned", patches__size=2, max_iter=1).fit(X, X)
    other = RANDOM.normal(size=(2, 8, 10, 1))
    assert estimator.predict(other).shape == other.shape
    with pytest.raises(ValueError, match=r"for 6 tokens and cannot serve \d+.*positional_encoding='coordinates'"):
        estimator.set_params(refinement="native").predict(other)


def test_symmetries_move_the_samples_of_a_square():
    X = RANDOM.normal(size=(4, 6, 6, 1))
    estimator = small(symmetries=("flip_x", "transpose"), symmetries__average_predictions=True, max_iter=1).fit(X, X)
    turned = estimator.predict(X.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(turned, estimator.predict(X), rtol=1e-4, atol=1e-5)
