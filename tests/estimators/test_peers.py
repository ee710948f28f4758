"""Models of others as estimators: their parameters, batches, points without a grid, programs; see also test_common."""

import numpy as np
import pytest
import torch

import skop
from skop import (
    DeepONetRegressor,
    FieldSet,
    FNORegressor,
    SymmetryOptions,
    TrainingOptions,
    TransolverRegressor,
    UNetRegressor,
)
from skop.estimators.fitting._objective import trainer_config
from skop.exceptions import FieldDataError, SkopError
from skop.training import DIRECT_TRAINING

RANDOM = np.random.default_rng(0)
FIELDS = RANDOM.random((6, 6, 6, 1))
CLOUDS = [RANDOM.random((count, 2)) for count in (9, 14, 11)]


def transolver(**changes):
    return TransolverRegressor(**({"width": 8, "depth": 1, "n_slices": 4, "max_iter": 1, "random_state": 0} | changes))


def unet(**changes):
    return UNetRegressor(**({"width": 4, "depth": 1, "max_iter": 1, "random_state": 0} | changes))


def on_clouds():
    fields = FieldSet(CLOUDS, [1.0 + cloud[:, :1] for cloud in CLOUDS])
    return fields, fields


def test_parameters_can_be_overlooked(subtests):
    for kind in [TransolverRegressor, DeepONetRegressor, UNetRegressor, FNORegressor]:
        with subtests.test(kind=kind):
            assert len(kind().get_params(deep=False)) <= 30


def test_transolver_takes_small_batches_on_grids():
    model, other = (transolver(batch_size=size).fit(FIELDS[:2], FIELDS[:2]) for size in ("auto", 7))
    for size, expected in ((16, 16), (32, 4), (85, 1)):
        samples = FieldSet(np.zeros((size**2, 2)), np.zeros((200, size**2, 0)))
        assert trainer_config(model, samples, DIRECT_TRAINING).batch_size == expected
        assert trainer_config(other, samples, DIRECT_TRAINING).batch_size == 7


def test_transolver_needs_scaled_coordinates_for_distances_from_a_reference_grid():
    with pytest.raises(ValueError, match="reference_size=4 needs coordinates that are scaled to the unit box"):
        transolver(reference_size=4).set_params(scaling__coords=None).fit(FIELDS, FIELDS)
    model = transolver(reference_size=4).fit(FIELDS, FIELDS)
    # 16 distances and a field.
    assert model.module_.lifting[0].in_features == 17


def test_transolver_takes_clouds_in_part_and_is_asked_at_other_points():
    X, y = on_clouds()
    model = transolver(training=TrainingOptions(subsample_points=5), max_iter=2).fit(X, y)
    places = [0.5 * (cloud.min(axis=0) + cloud.max(axis=0))[None] for cloud in CLOUDS]
    assert model.predict(X, coords=places).values.shape == (3, 1, 1)


@pytest.mark.parametrize("kind", [UNetRegressor, FNORegressor])
def test_points_without_a_grid_are_refused_and_resampled(kind):
    X, y = on_clouds()
    with pytest.raises(FieldDataError, match=f"{kind.__name__} .* regular grids, but the 2-D points of X form no grid"):
        kind(max_iter=1).fit(X, y)
    if kind is FNORegressor:
        pytest.importorskip("neuralop")
    with pytest.warns(match="interpolation from the points to the grid"):
        model = kind(width=4, max_iter=1, grid=(4, 4)).fit(X, y)
    assert model.predict(X).to_list()[1].shape == (14, 1)


@pytest.mark.parametrize("make", [transolver, unet])
def test_averages_over_symmetries_are_symmetric(make):
    model = make(symmetries=SymmetryOptions(names=["transpose"], average_predictions=True)).fit(FIELDS, FIELDS)
    turned = FIELDS.transpose(0, 2, 1, 3)
    np.testing.assert_allclose(model.predict(turned), model.predict(FIELDS).transpose(0, 2, 1, 3), rtol=1e-4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("make", [transolver, unet])
def test_programs_predict_as_the_estimator_does(make, tmp_path):
    model = make().fit(FIELDS, FIELDS)
    model.export(tmp_path / "model.pt2", FIELDS)
    (field,) = torch.export.load(tmp_path / "model.pt2").module()(torch.tensor(FIELDS, dtype=torch.float32))
    np.testing.assert_allclose(field.numpy(), model.predict(FIELDS), atol=1e-5)


def test_a_program_of_fno_takes_any_number_of_samples(tmp_path):
    pytest.importorskip("neuralop")
    # A grid of no other test, since the library keeps paths of earlier sizes.
    fields = RANDOM.random((5, 7, 9, 1))
    model = FNORegressor(width=4, depth=1, max_iter=1, base=None, random_state=0).fit(fields, fields)
    model.export(tmp_path / "model.pt2", fields)
    (field,) = torch.export.load(tmp_path / "model.pt2").module()(torch.tensor(fields, dtype=torch.float32))
    np.testing.assert_allclose(field.numpy(), model.predict(fields), atol=1e-5)
    pytest.importorskip("onnxscript")
    with pytest.raises(SkopError, match=r"FNORegressor exports to '\.pt2' files only, .* another operator"):
        model.export(tmp_path / "model.onnx", fields)


def test_fno_predicts_on_odd_and_even_grids():
    pytest.importorskip("neuralop")

    def samples(size):
        x, y = np.meshgrid(*[np.linspace(0, 1, size)] * 2, indexing="ij")
        return np.stack([np.sin(3 * x * phase + 2 * y) for phase in np.linspace(0.5, 1.5, 12)])[..., None]

    for size in (10, 11):
        # Otherwise X would be brought to the grid of the fit.
        params = {"width": 8, "depth": 2, "n_modes": 6, "max_iter": 40, "base": None, "refinement": "native"}
        model = FNORegressor(**params, random_state=0).fit(samples(size), samples(size) ** 2)
        same, other = (1 - model.score(samples(count), samples(count) ** 2) for count in (size, 21 - size))
        assert other < 1.5 * same


@pytest.mark.parametrize(("fitted_on", "moved"), [((7, 6), True), ((6, 7), False)])
def test_files_of_fno_of_earlier_versions_keep_the_frequencies_that_were_learned(fitted_on, moved, tmp_path):
    pytest.importorskip("neuralop")
    model = FNORegressor(width=4, depth=1, max_iter=1, base=None, refinement="native", random_state=0)
    model.fit(*[RANDOM.random((4, *fitted_on, 1))] * 2)
    odd = RANDOM.random((2, 7, 7, 1))
    model.save(tmp_path / "now.skop")
    usual = model.predict(odd)
    np.testing.assert_array_equal(skop.load(tmp_path / "now.skop").predict(odd), usual)
    for convolution in model.module_.fno.fno_blocks.convs:
        convolution.library_shifts = moved
    expected = model.predict(odd)
    assert np.array_equal(expected, usual) != moved
    # Files had no such attribute. One that is saved again, and a warm start, go on as the fit was.
    del model.library_shifts_
    for _ in range(2):
        model.save(tmp_path / "older.skop")
        model = skop.load(tmp_path / "older.skop")
        np.testing.assert_array_equal(model.predict(odd), expected)
    fields = RANDOM.random((4, *fitted_on, 1))
    assert model.set_params(warm_start=True).fit(fields, fields).library_shifts_ == moved
    assert not model.set_params(warm_start=False).fit(fields, fields).library_shifts_


def test_a_graph_of_deeponet_is_for_the_sensors(tmp_path):
    model = DeepONetRegressor(width=8, n_basis=4, max_iter=1, random_state=0).fit(FIELDS, FIELDS)
    places = FieldSet(RANDOM.random((36, 2)), FIELDS.reshape(6, 36, 1))
    for X, count in ((RANDOM.random((2, 9, 7, 1)), 63), (places, 36)):
        with pytest.raises(FieldDataError, match=f"X are at {count} points, .* the 36 sensors of .*; pass X on"):
            model.export(tmp_path / "model.pt2", X)
    model.export(tmp_path / "model.pt2", FIELDS)
