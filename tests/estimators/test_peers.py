"""Models of others as estimators: their parameters, batches, points without a grid, programs; see also test_common."""

import numpy as np
import pytest
import torch

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
    with pytest.raises(SkopError, match=r"cannot convert this FNORegressor on geometry 'grid' to ONNX .*'\.pt2' file"):
        model.export(tmp_path / "model.onnx", fields)
