"""Losses against formulas written in NumPy, exact differences, and laws of masks and weights."""

import ast
import copy
import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import skop.losses
from skop.exceptions import FieldDataError
from skop.losses import GradientRelativeL2Loss, MSELoss, RelativeL2Loss, SobolevLoss, get_loss
from skop.metrics import relative_l2_error

GRID = (5, 4)
ALL_LOSSES = [
    RelativeL2Loss(),
    GradientRelativeL2Loss(),
    GradientRelativeL2Loss(boundary="one_sided"),
    SobolevLoss(),
    MSELoss(),
]


def random_fields(n_samples=3, grid=GRID, n_channels=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (2, n_samples, int(np.prod(grid)), n_channels)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def darcy_loss_reference(prediction, target):
    """The published Darcy loss per sample, on arrays (B, H, W, c), written with explicit padding."""

    def relative(error, truth):
        return np.linalg.norm(error.reshape(len(error), -1), axis=1) / np.linalg.norm(
            truth.reshape(len(truth), -1), axis=1
        )

    def slopes(field):
        padded = np.pad(field, ((0, 0), (1, 1), (1, 1), (0, 0)))
        return (
            (padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]) / (2 / 85),
            (padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]) / (2 / 85),
        )

    loss = relative(prediction - target, target)
    ringless = np.zeros_like(prediction)
    ringless[:, 1:-1, 1:-1] = prediction[:, 1:-1, 1:-1]
    for predicted, true in zip(slopes(ringless), slopes(target), strict=True):
        loss = loss + 0.1 * relative(predicted - true, true)
    return loss


def test_gradient_loss_is_the_published_darcy_loss():
    prediction, target = random_fields(n_channels=1)
    on_grid = [field.reshape(-1, *GRID, 1).numpy() for field in (prediction, target)]
    expected = darcy_loss_reference(*on_grid)
    loss = GradientRelativeL2Loss(reduction="sum")(prediction, target, grid_shape=GRID)
    assert loss.item() == pytest.approx(expected.sum(), rel=1e-12)


@pytest.mark.parametrize("grid", [(7,), (4, 5), (3, 4, 5)])
def test_one_sided_gradient_loss_matches_numpy_gradient(grid):
    prediction, target = random_fields(grid=grid)
    expected = relative_l2_error(target, prediction, average="none")
    u, error = (field.numpy().reshape(-1, *grid, 2) for field in (target, prediction - target))
    for axis in range(1, len(grid) + 1):
        slopes = [np.gradient(field, axis=axis, edge_order=2).reshape(len(u), -1) for field in (error, u)]
        expected = expected + 0.3 * np.divide(*[np.linalg.norm(slope, axis=1) for slope in slopes])
    loss = GradientRelativeL2Loss(gradient_weight=0.3, boundary="one_sided")
    np.testing.assert_allclose(loss.per_sample(prediction, target, grid_shape=grid), expected, rtol=1e-12)


def test_gradient_loss_spares_the_prediction_ring_only_in_the_gradient_term():
    prediction, target = random_fields(n_channels=1)
    changed = prediction.clone()
    changed[:, 0] += 1.0  # a corner
    gradient_part = [
        GradientRelativeL2Loss()(field, target, grid_shape=GRID) - RelativeL2Loss()(field, target)
        for field in (prediction, changed)
    ]
    assert gradient_part[0].item() == pytest.approx(gradient_part[1].item(), rel=1e-12)
    assert RelativeL2Loss()(changed, target) != RelativeL2Loss()(prediction, target)


def test_losses_and_metrics_agree_on_the_same_data():
    prediction, target = random_fields()
    assert RelativeL2Loss()(prediction, target).item() == pytest.approx(relative_l2_error(target, prediction))
    expected = torch.nn.functional.mse_loss(prediction, target)
    assert MSELoss()(prediction, target).item() == pytest.approx(expected.item())


@pytest.mark.parametrize("grid", [(7,), (4, 5), (3, 4, 5)])
def test_sobolev_loss_is_that_of_values_and_of_differences(grid):
    other, target = random_fields(grid=grid)
    prediction = target + 0.2 * other
    u, error = (field.numpy().reshape(-1, *grid, 2) for field in (target, prediction - target))
    sums = [
        sum(
            (((size - 1) * np.diff(field, axis=axis)) ** 2).reshape(len(u), -1).sum(axis=1)
            for axis, size in enumerate(grid, 1)
        )
        for field in (error, u)
    ]
    values = relative_l2_error(target, prediction, average="none")
    expected = values + 0.3 * (1 - values) ** 4 * np.sqrt(np.divide(*sums))
    loss = SobolevLoss(gradient_weight=0.3)
    np.testing.assert_allclose(loss.per_sample(prediction, target, grid_shape=grid), expected, rtol=1e-12)
    assert SobolevLoss(gradient_weight=0.0)(prediction, target, grid_shape=grid) == RelativeL2Loss()(prediction, target)


def test_slopes_count_as_far_as_values_are_learned():
    x = torch.linspace(0, 1, 9, dtype=torch.float64).reshape(1, -1, 1)
    for size in (0.0, 0.5, 0.99, 1.0, 3.0):
        # Values and slopes have the same relative error, of which the factor is a number for the gradient.
        factor = torch.tensor(1 + size, dtype=torch.float64, requires_grad=True)
        loss = SobolevLoss(gradient_weight=2.0)(factor * x, x, grid_shape=(9,))
        part = max(1 - size, 0) ** 4
        assert loss.item() == pytest.approx(size * (1 + 2 * part))
        loss.backward()
        assert factor.grad.item() == pytest.approx((1 + 2 * part) * (size > 0))


def test_the_sobolev_loss_of_a_shifted_field_is_that_of_its_deviation():
    generator = torch.Generator().manual_seed(0)
    target, error = torch.randn(2, 1, 6, 2, generator=generator, dtype=torch.float64)
    target = target - target.mean(dim=1, keepdim=True)
    for shift in (-3.0, 1e4):
        deviation = float(target.norm() / (target + shift).norm())
        found = SobolevLoss(deviation=deviation)(target + shift + 0.1 * error, target + shift, grid_shape=(6,))
        torch.testing.assert_close(
            found, SobolevLoss()(target + 0.1 * error, target, grid_shape=(6,)), rtol=1e-9, atol=0
        )
    for wrong in (0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="deviation is"):
            SobolevLoss(deviation=wrong)


def test_slopes_of_the_sobolev_loss_converge_with_second_order():
    def slope_error(n_points):
        x = torch.linspace(0, 1, n_points, dtype=torch.float64).reshape(1, -1, 1)
        # Error sin(3x) / 10 of the target sin(7x): the quotient of the norms of 3 cos(3x) / 10 and 7 cos(7x).
        target, prediction = torch.sin(7 * x), torch.sin(7 * x) + torch.sin(3 * x) / 10
        values = RelativeL2Loss()(prediction, target)
        slopes = (SobolevLoss()(prediction, target, grid_shape=(n_points,)) - values) / (1 - values) ** 4
        exact = 3 / 70 * np.sqrt((0.5 + np.sin(6) / 12) / (0.5 + np.sin(14) / 28))
        return abs(slopes.item() - exact)

    assert np.log2(slope_error(321) / slope_error(641)) == pytest.approx(2.0, abs=0.1)


def test_slopes_to_neighbours_are_those_of_a_grid():
    target, prediction = random_fields(grid=(9,))
    prediction = target + 0.2 * prediction
    for field in (target, prediction):
        field[:, -1] = field[:, 0]  # no slope where the line is closed to a ring
    places = torch.arange(9)[:, None]
    ring = torch.cat([places - 1, places + 1], dim=1) % 9
    on_grid = SobolevLoss().per_sample(prediction, target, grid_shape=(9,))
    torch.testing.assert_close(SobolevLoss().per_sample(prediction, target, neighbours=ring), on_grid)
    # Samples of several sizes are padded; a neighbour of the padding counts for nothing.
    padded = [torch.cat([field, torch.full_like(field[:, :4], torch.nan)], dim=1) for field in (prediction, target)]
    near = torch.nn.functional.pad(ring, (0, 0, 0, 4)).expand(len(target), -1, -1)
    mask = (torch.arange(13) < 9).expand(len(target), -1)
    torch.testing.assert_close(SobolevLoss().per_sample(*padded, mask=mask, neighbours=near), on_grid)


def test_wrong_neighbours_are_refused(subtests):
    for neighbours, words in [
        (torch.zeros(8, 2, dtype=torch.int64), r"of shape \(8, 2\) and dtype torch.int64"),
        (torch.zeros(1, 9, 2, dtype=torch.int64), r"of shape \(1, 9, 2\)"),
        (torch.zeros(9, dtype=torch.int64), r"of shape \(9,\)"),
        (torch.zeros(9, 2), r"of shape \(9, 2\) and dtype torch.float32"),
        (torch.zeros(9, 2, dtype=torch.bool), r"of shape \(9, 2\) and dtype torch.bool"),
        (np.zeros((9, 2), dtype=np.int64), "of type ndarray"),
        (torch.full((9, 2), 9), "from 9 to 9"),
        (torch.arange(-1, 17).reshape(9, 2), "from -1 to 16"),
    ]:
        with subtests.test(neighbours=neighbours):
            target, prediction = random_fields(grid=(9,))
            expected = rf"neighbours are {words}.*expected a tensor \({len(target)}, 9, 'k'\) or \(9, 'k'\)"
            with pytest.raises(FieldDataError, match=expected):
                SobolevLoss()(prediction, target, neighbours=neighbours)


def test_slopes_of_a_constant_field_are_compared_with_its_values():
    target = torch.full((1, 6, 1), 2.0, dtype=torch.float64)
    error = torch.tensor([0.0, 0.0, 0.0, 0.2, 0.2, 0.2], dtype=torch.float64).reshape(1, 6, 1)
    # The single difference is 0.2 over a fifth of the box; the norm of the target is 2 sqrt(6).
    values = 0.2 * 3**0.5 / (2 * 6**0.5)
    expected = values + (1 - values) ** 4 * 5 * 0.2 / (2 * 6**0.5)
    assert SobolevLoss()(target + error, target, grid_shape=(6,)).item() == pytest.approx(expected)


def test_reductions_weights_and_repeated_samples(subtests):
    for loss in ALL_LOSSES:
        with subtests.test(loss=loss):
            prediction, target = random_fields()
            losses = loss.per_sample(prediction, target, grid_shape=GRID)
            summed = dataclasses.replace(loss, reduction="sum")
            weight = torch.tensor([1.0, 2.0, 0.0])
            assert loss(prediction, target, grid_shape=GRID).item() == pytest.approx(losses.mean().item())
            assert summed(prediction, target, grid_shape=GRID).item() == pytest.approx(losses.sum().item())
            weighted = summed(prediction, target, grid_shape=GRID, sample_weight=weight)
            assert weighted.item() == pytest.approx((losses[0] + 2 * losses[1]).item())
            repeated = torch.tensor([0, 1, 1])
            assert loss(prediction, target, grid_shape=GRID, sample_weight=weight).item() == pytest.approx(
                loss(prediction[repeated], target[repeated], grid_shape=GRID).item()
            )
            assert loss(prediction, target, grid_shape=GRID, sample_weight=0 * weight) == 0.0


@pytest.mark.parametrize("loss", [RelativeL2Loss(), MSELoss()], ids=repr)
def test_mask_equals_removing_points_even_if_padding_is_nan(loss):
    prediction, target = random_fields()
    mask = torch.ones(prediction.shape[:2], dtype=torch.bool)
    mask[:, -6:] = False
    expected = loss.per_sample(prediction[:, :-6], target[:, :-6])
    prediction[:, -6:], target[:, -6:] = float("nan"), float("inf")
    prediction.requires_grad_()
    losses = loss.per_sample(prediction, target, mask=mask)
    torch.testing.assert_close(losses, expected)
    losses.sum().backward()
    assert (prediction.grad[:, -6:] == 0).all()
    assert torch.isfinite(prediction.grad).all()


def test_masked_grid_points_have_no_influence(subtests):
    for loss in ALL_LOSSES:
        with subtests.test(loss=loss):
            prediction, target = random_fields()
            mask = torch.ones(prediction.shape[:2], dtype=torch.bool)
            mask[:, [2, 9, 19]] = False
            expected = loss.per_sample(prediction, target, mask=mask, grid_shape=GRID)
            prediction[:, [2, 9, 19]], target[:, [2, 9, 19]] = float("nan"), -1e30
            prediction.requires_grad_()
            losses = loss.per_sample(prediction, target, mask=mask, grid_shape=GRID)
            torch.testing.assert_close(losses, expected, rtol=0, atol=0)
            losses.sum().backward()
            assert (prediction.grad[~mask] == 0).all()
            assert torch.isfinite(prediction.grad).all()


def test_full_mask_changes_nothing_and_empty_mask_gives_zero(subtests):
    for loss in ALL_LOSSES:
        with subtests.test(loss=loss):
            prediction, target = random_fields()
            mask = torch.ones(prediction.shape[:2], dtype=torch.bool)
            unmasked = loss.per_sample(prediction, target, grid_shape=GRID)
            torch.testing.assert_close(loss.per_sample(prediction, target, mask=mask, grid_shape=GRID), unmasked)
            assert (loss.per_sample(prediction, target, mask=~mask, grid_shape=GRID) == 0).all()


def test_slopes_next_to_masked_points_are_left_out():
    target = (1 + torch.arange(8, dtype=torch.float64)).reshape(1, 8, 1)
    mask = torch.ones(1, 8, dtype=torch.bool)
    mask[0, 3] = False
    expected = 7**0.5 / target[mask].norm().item()  # an offset has no slopes, but at the masked point
    for loss in (SobolevLoss(), GradientRelativeL2Loss(boundary="one_sided")):
        value = loss(target + 1, target, mask=mask, grid_shape=(8,))
        assert value.item() == pytest.approx(expected, rel=1e-12)


def test_zero_boundary_leaves_out_slopes_next_to_masked_points():
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2, 8))
    mask = np.arange(8) != 3
    padded, ringless = np.pad(u, 1), np.pad(v[1:-1], 2)
    kept = [0, 1, 5, 6, 7]  # the border uses the known zero outside
    true, predicted = ((field[2:] - field[:-2])[kept] for field in (padded, ringless))
    slope_part = np.linalg.norm(predicted - true) / np.linalg.norm(true)
    value_part = np.linalg.norm((v - u)[mask]) / np.linalg.norm(u[mask])
    tensors = (torch.from_numpy(array).reshape(1, 8, 1) for array in (v, u))
    loss = GradientRelativeL2Loss()(*tensors, mask=torch.from_numpy(mask)[None], grid_shape=(8,))
    assert loss.item() == pytest.approx(value_part + 0.1 * slope_part)


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=repr)
def test_gradcheck(loss):
    prediction, target = random_fields(n_samples=2)
    mask = torch.ones(prediction.shape[:2], dtype=torch.bool)
    mask[0, 7] = False
    weight = torch.tensor([0.3, 2.0], dtype=torch.float64)

    def evaluate(field):
        return loss(field, target, mask=mask, sample_weight=weight, grid_shape=GRID)

    assert torch.autograd.gradcheck(evaluate, prediction.requires_grad_())


def test_perfect_prediction_and_zero_target_stay_finite(subtests):
    for loss in ALL_LOSSES:
        for dtype in [torch.float32, torch.bfloat16, torch.float16]:
            with subtests.test(loss=loss, dtype=dtype):
                target = random_fields()[1].to(dtype)
                for truth, prediction in [(target, target.clone()), (0 * target, 0 * target), (0 * target, target)]:
                    prediction = prediction.detach().requires_grad_()
                    value = loss(prediction, truth, grid_shape=GRID)
                    value.backward()
                    assert torch.isfinite(value)
                    assert value.dtype == torch.float32
                    if dtype == torch.float32:
                        assert torch.isfinite(prediction.grad).all()
                    if prediction.equal(truth) and not isinstance(loss, GradientRelativeL2Loss):
                        assert value == 0.0
                        assert (prediction.grad == 0).all()


@pytest.mark.parametrize("loss", [RelativeL2Loss(), GradientRelativeL2Loss(), SobolevLoss()], ids=repr)
def test_relative_losses_do_not_depend_on_the_unit(loss):
    prediction, target = random_fields()
    torch.testing.assert_close(
        loss(1e4 * prediction, 1e4 * target, grid_shape=GRID), loss(prediction, target, grid_shape=GRID)
    )


def test_losses_in_physical_units_are_those_without_a_unit(subtests):
    for loss in ALL_LOSSES:
        with subtests.test(loss=loss):
            prediction, target = random_fields()
            values = [loss(factor * prediction, factor * target, grid_shape=GRID).item() for factor in (1.0, 10.0)]
            assert loss.physical_units == (values[0] == pytest.approx(values[1]))


def test_relative_losses_of_values_are_relative_to_given_norms():
    prediction, target = random_fields()
    norm, error = torch.tensor([2.0, 5.0, 0.1]), torch.linalg.norm((prediction - target).flatten(1), dim=1)
    for loss in (RelativeL2Loss(), SobolevLoss(gradient_weight=0), GradientRelativeL2Loss(gradient_weight=0)):
        found = loss.per_sample(prediction, target, grid_shape=GRID, norm=norm)
        torch.testing.assert_close(found, error / norm)
    # Slopes are compared with the values where these are larger, as those of a frame that is nearly nothing.
    still = torch.zeros_like(target)
    slopes = SobolevLoss().per_sample(still + 1e-3 * prediction, still, grid_shape=GRID, norm=norm)
    assert (slopes < 1.0).all()


def test_scalars_per_sample_work():
    prediction, target = random_fields(grid=(1,), n_channels=3)
    expected = torch.linalg.norm(prediction - target, dim=2) / torch.linalg.norm(target, dim=2)
    assert RelativeL2Loss()(prediction, target).item() == pytest.approx(expected.mean().item())


def test_get_loss_by_name_object_and_error():
    names = ["relative_l2", "relative_l2_gradient", "sobolev", "mse"]
    classes = [RelativeL2Loss, GradientRelativeL2Loss, SobolevLoss, MSELoss]
    assert [type(get_loss(name)) for name in names] == classes
    assert get_loss("sobolev", gradient_weight=0.5) == SobolevLoss(gradient_weight=0.5)
    own = torch.nn.functional.mse_loss
    assert get_loss(own) is own
    with pytest.raises(ValueError, match=r"mse.*relative_l2.*relative_l2_gradient.*sobolev"):
        get_loss("l2")
    for wrong in (RelativeL2Loss, None, 3):
        with pytest.raises(ValueError, match="expected one of"):
            get_loss(wrong)
    with pytest.raises(ValueError, match="reduction"):
        get_loss(own, reduction="sum")


def test_losses_are_values(subtests):
    for loss in ALL_LOSSES:
        with subtests.test(loss=loss):
            assert pickle.loads(pickle.dumps(loss)) == loss
            assert copy.deepcopy(loss) == loss
            assert eval(repr(loss), vars(skop.losses)) == loss
            with pytest.raises(TypeError):
                type(loss)("sum")


def test_wrong_arguments_are_named(subtests):
    for arguments, message in [
        ({"target": torch.zeros(3, 20, 1)}, r"target \(3, 20, 1\)"),
        ({"mask": torch.ones(3, 20)}, "torch.bool"),
        ({"mask": torch.ones(3, 19, dtype=torch.bool)}, "mask has shape"),
        ({"sample_weight": torch.ones(2)}, r"expected \(3,\)"),
        ({"norm": torch.ones(3, 1)}, r"norm has shape \(3, 1\), expected \(3,\)"),
        ({"grid_shape": None}, "grid_shape is None"),
        ({"grid_shape": (4, 4)}, "20 points"),
        ({"grid_shape": (10, 2)}, "at least 3"),
    ]:
        with subtests.test(arguments=arguments):
            prediction, target = random_fields()
            arguments = {"target": target, "grid_shape": GRID, **arguments}
            with pytest.raises(FieldDataError, match=message):
                GradientRelativeL2Loss()(prediction, **arguments)


def test_wrong_parameters_are_named():
    for make in (RelativeL2Loss, GradientRelativeL2Loss, SobolevLoss, MSELoss):
        with pytest.raises(ValueError, match="reduction is 'none'"):
            make(reduction="none")
    with pytest.raises(ValueError, match="gradient_weight"):
        SobolevLoss(gradient_weight=-1.0)
    with pytest.raises(ValueError, match="boundary is 'periodic'"):
        GradientRelativeL2Loss(boundary="periodic")


def test_losses_do_not_import_scikit_learn():
    for file in Path(skop.losses.__file__).parent.glob("*.py"):
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        assert not any(name.startswith("sklearn") for name in names), file
