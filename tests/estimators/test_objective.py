"""The training objective against the formulas of the losses, in physical and in scaled units."""

import numpy as np
import pytest
import torch

from skop.data import Batch, BoxScaler, FieldScaler, Scalers
from skop.estimators.fitting._objective import Objective
from skop.losses import MSELoss, RelativeL2Loss
from skop.networks import Outputs


@pytest.fixture
def fields():
    rng = np.random.default_rng(0)
    return 5.0 + np.array([1.0, 1e3]) * rng.standard_normal((4, 6, 2))


def make(fields, loss, **changes):
    scaler = FieldScaler(changes.pop("mode", "channel")).fit(lambda: iter([(fields, np.ones(len(fields)))]))
    scalers = Scalers(BoxScaler(), None, None, scaler)
    objective = Objective(loss, "mean", scalers, **({"spacing": None} | changes))
    return lambda field, batch: objective(Outputs(field), batch), scaler


def batch_of(fields, weight=None):
    target = torch.from_numpy(fields)
    return Batch(torch.zeros(6, 1), None, None, (6,), target, None if weight is None else torch.tensor(weight))


def test_relative_losses_see_physical_units(fields):
    objective, scaler = make(fields, "relative_l2")
    outputs = torch.from_numpy(np.random.default_rng(1).standard_normal(fields.shape))
    physical = outputs.numpy() * scaler.scale_ + scaler.mean_
    expected = np.mean([np.linalg.norm(p - t) / np.linalg.norm(t) for p, t in zip(physical, fields, strict=True)])
    assert float(objective(outputs, batch_of(fields))) == pytest.approx(expected, rel=1e-12)


def test_squared_errors_see_scaled_targets(fields):
    objective, scaler = make(fields, "mse")
    expected = np.mean(((fields - scaler.mean_) / scaler.scale_) ** 2)
    assert float(objective(torch.zeros(fields.shape, dtype=torch.float64), batch_of(fields))) == pytest.approx(expected)


def test_weights_reach_the_loss(fields):
    objective, _ = make(fields, RelativeL2Loss())
    outputs = torch.zeros(fields.shape, dtype=torch.float64)
    single = [float(objective(outputs[i : i + 1], batch_of(fields[i : i + 1]))) for i in range(4)]
    weighted = float(objective(outputs, batch_of(fields, [1.0, 0.0, 2.0, 1.0])))
    assert weighted == pytest.approx((single[0] + 2 * single[2] + single[3]) / 4)


@pytest.mark.parametrize("unit", [1e-25, 1e-10, 1e25])
def test_the_unit_of_the_fields_does_not_matter_in_single_precision(fields, unit):
    outputs = torch.from_numpy(np.random.default_rng(1).standard_normal(fields.shape)).float()
    reference, _ = make(fields, "relative_l2")
    objective, _ = make(unit * fields, "relative_l2")
    scaled = batch_of(unit * fields)
    scaled.target = scaled.target.float()
    assert float(objective(outputs, scaled)) == pytest.approx(float(reference(outputs, batch_of(fields))), rel=1e-4)


def test_a_callers_own_loss_gets_true_physical_units(fields):
    seen = {}

    def loss(prediction, target, **options):
        seen.update(target=target, **options)
        return (prediction - target).sum()

    objective, _ = make(fields, loss, spacing=(0.2,))
    objective(torch.zeros(fields.shape, dtype=torch.float64), batch_of(fields))
    np.testing.assert_array_equal(seen["target"], fields)
    assert seen["grid_shape"] == (6,)
    assert seen["spacing"] == (0.2,)


def test_scalars_form_no_grid(fields):
    seen = {}

    def loss(prediction, target, **options):
        seen.update(target=target, **options)
        return prediction.sum()

    table = fields[:, 0]
    scaler = FieldScaler().fit(lambda: iter([(table[:, None], np.ones(len(table)))]))
    objective = Objective(loss, "mean", Scalers(BoxScaler(), None, None, None, scaler), spacing=(0.2,))
    batch = Batch(torch.zeros(6, 1), None, None, (6,), scalars=torch.from_numpy(table))
    objective(Outputs(scalars=torch.zeros(table.shape, dtype=torch.float64)), batch)
    np.testing.assert_array_equal(seen["target"], table[:, None])
    assert seen["grid_shape"] is None
    assert seen["spacing"] is None
    squared = Objective("mse", "mean", objective.scalers, spacing=None)
    expected = np.mean(((table - scaler.mean_) / scaler.scale_) ** 2)
    assert float(squared(Outputs(scalars=torch.zeros(4, 2, dtype=torch.float64)), batch)) == pytest.approx(expected)


def test_scalars_beside_a_field_add_their_squared_error(fields):
    weight = np.ones(len(fields))
    scalers = [
        FieldScaler().fit(lambda: iter([(fields, weight)])),
        FieldScaler().fit(lambda: iter([(fields[:, :1], weight)])),
    ]
    objective = Objective("mse", "mean", Scalers(BoxScaler(), None, None, *scalers), spacing=None, scalar_weight=3.0)
    target, scalars = torch.from_numpy(fields), torch.from_numpy(fields[:, 0])
    batch = Batch(torch.zeros(6, 1), None, None, (6,), target, scalars=scalars)
    zeros = Outputs(torch.zeros_like(target), torch.zeros_like(scalars))
    expected = [
        np.mean(scaler.transform(part).numpy() ** 2) for scaler, part in zip(scalers, (target, scalars), strict=True)
    ]
    assert float(objective(zeros, batch)) == pytest.approx(expected[0] + 3 * expected[1])
    with pytest.raises(ValueError, match="scalars"):
        objective(zeros, Batch(torch.zeros(6, 1), None, None, (6,), target))


def test_a_batch_without_targets_is_refused(fields):
    objective, _ = make(fields, MSELoss())
    with pytest.raises(ValueError, match="targets"):
        objective(torch.zeros(4, 6, 2), Batch(torch.zeros(6, 1), None, None, (6,)))


def test_balanced_channels_do_not_depend_on_their_units(fields):
    outputs = torch.from_numpy(np.random.default_rng(1).standard_normal(fields.shape))
    units = np.array([1e-6, 1e6])
    losses = [
        float(make(unit * fields, "relative_l2", balanced=True)[0](outputs, batch_of(unit * fields)))
        for unit in (1.0, units)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    in_physical_units = make(units * fields, "relative_l2")[0](outputs, batch_of(units * fields))
    assert float(in_physical_units) != pytest.approx(losses[0], rel=1e-3)


@pytest.mark.parametrize("mode", ["channel", "point"])
def test_the_default_loss_does_not_depend_on_the_zero_of_the_units(fields, mode):
    """Kelvin and Celsius, absolute and gauge pressure: for samples of equal size about the mean the same number."""
    outputs = torch.from_numpy(np.random.default_rng(1).standard_normal(fields.shape))
    outputs = outputs * torch.tensor([1.0, 0.3]) + torch.tensor([0.0, 0.5])
    centred = fields - fields.mean(axis=1, keepdims=True)
    centred = centred / np.sqrt(np.square(centred).mean(axis=1, keepdims=True))
    centred = np.concatenate([centred, -centred])
    outputs = torch.cat([outputs, outputs])
    for balanced, shift in ((False, 1e3), (True, np.array([0.0, 1e3])), (True, np.array([-20.0, 0.0]))):
        objectives = [make(part, "sobolev", balanced=balanced, mode=mode)[0] for part in (centred, centred + shift)]
        losses = [
            float(objective(outputs, batch_of(part)))
            for objective, part in zip(objectives, (centred, centred + shift), strict=True)
        ]
        assert losses[1] == pytest.approx(losses[0], rel=1e-6)


def test_packed_samples_count_as_samples_side_by_side(fields):
    objective, _ = make(fields, "relative_l2")
    outputs = torch.from_numpy(np.random.default_rng(1).standard_normal(fields.shape))
    sizes = (6, 2, 5, 1)
    flat = [torch.cat([part[i, :size] for i, size in enumerate(sizes)]) for part in (outputs, torch.from_numpy(fields))]
    packed = Batch(torch.zeros(14, 1), None, None, None, flat[1], sizes=sizes)
    alone = [
        float(objective(outputs[i : i + 1, :size], batch_of(fields[i : i + 1, :size]))) for i, size in enumerate(sizes)
    ]
    assert float(objective(flat[0], packed)) == pytest.approx(np.mean(alone), rel=1e-12)


def test_sorted_points_of_a_grid_have_their_neighbours_of_the_grid(fields):
    objective, _ = make(fields, "sobolev")
    outputs, batch = torch.from_numpy(np.random.default_rng(1).standard_normal(fields.shape)), batch_of(fields)
    expected = float(objective(outputs, batch))
    order = np.array([3, 0, 5, 1, 4, 2])
    batch.target = batch.target[:, order]
    batch.order = np.concatenate([order + 6 * sample for sample in range(len(fields))])
    assert float(objective(outputs[:, order], batch)) == pytest.approx(expected, rel=1e-12)
