"""Metrics against formulas written out in NumPy, their laws, and scikit-learn's searches."""

import ast
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer
from sklearn.metrics import root_mean_squared_error as sklearn_rmse
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skop.metrics
from skop import FieldSet, PODRegressor, metrics
from skop._sklearn_compat import final_regressor
from skop.data import unit_grid
from skop.exceptions import FieldDataError, SkopWarning
from skop.metrics import (
    channel_sizes,
    h1_error,
    max_error,
    mean_absolute_error,
    mean_pointwise_relative_error,
    neg_h1_scorer,
    neg_max_error_scorer,
    neg_mean_absolute_scorer,
    neg_relative_l2_scorer,
    neg_root_mean_squared_scorer,
    pdebench_nrmse,
    pdebench_rl2,
    pdebench_rmse,
    phase_error,
    relative_l2_error,
    relative_l2_score,
    root_mean_squared_error,
    spectral_error,
)

POINT_ERRORS = [
    relative_l2_error,
    root_mean_squared_error,
    mean_absolute_error,
    mean_pointwise_relative_error,
    max_error,
]
RELATIVE_ERRORS = [relative_l2_error, h1_error, pdebench_nrmse, pdebench_rl2]
GRID_ERRORS = [h1_error, spectral_error, phase_error]
ALL_ERRORS = [*POINT_ERRORS, *GRID_ERRORS, pdebench_rmse, pdebench_nrmse, pdebench_rl2]
SCORERS = {
    neg_relative_l2_scorer: relative_l2_error,
    neg_root_mean_squared_scorer: root_mean_squared_error,
    neg_mean_absolute_scorer: mean_absolute_error,
    neg_max_error_scorer: max_error,
    neg_h1_scorer: h1_error,
}


@pytest.fixture
def fields():
    """Two sets of fields on a grid: (n, 5, 4, 2)."""
    rng = np.random.default_rng(0)
    return rng.normal(1.0, 1.0, (6, 5, 4, 2)), rng.normal(1.0, 1.0, (6, 5, 4, 2))


class FieldBox:
    """A container with the part of FieldSet's interface that metrics use."""

    def __init__(self, values, grid_shape=None):
        self.values, self.grid_shape = values, grid_shape

    def __len__(self):
        return len(self.values)

    def to_list(self):
        return [np.reshape(value, (-1, value.shape[-1])) for value in self.values]


def test_point_errors_match_their_formulas(fields):
    u, v = fields
    e, axes = v - u, (1, 2, 3)
    norms = np.sqrt((e**2).sum(axes)) / np.sqrt((u**2).sum(axes))
    np.testing.assert_allclose(relative_l2_error(u, v, average="none"), norms)
    np.testing.assert_allclose(relative_l2_error(u, v), norms.mean())
    assert relative_l2_score(u, v) == pytest.approx(1 - norms.mean())
    assert root_mean_squared_error(u, v) == pytest.approx(np.sqrt((e**2).mean()))
    np.testing.assert_allclose(root_mean_squared_error(u, v, average="none"), np.sqrt((e**2).mean(axes)))
    assert mean_absolute_error(u, v) == pytest.approx(abs(e).mean())
    np.testing.assert_allclose(mean_absolute_error(u, v, average="none"), abs(e).mean(axes))
    assert mean_pointwise_relative_error(u, v) == pytest.approx((abs(e) / (abs(u) + 1e-9)).mean())
    assert max_error(u, v) == abs(e).max()
    np.testing.assert_allclose(max_error(u, v, average="none"), abs(e).max(axes))


def test_channel_average_equals_each_channel_alone(fields, subtests):
    for error in POINT_ERRORS:
        with subtests.test(error=error):
            u, v = fields
            per_channel = error(u, v, average="channel")
            np.testing.assert_allclose(per_channel, [error(u[..., [c]], v[..., [c]]) for c in range(2)])


def test_kinds_of_input_agree(fields, subtests):
    for error in POINT_ERRORS:
        with subtests.test(error=error):
            u, v = fields
            expected = error(u, v, average="none")
            boxed = [FieldBox(values) for values in fields]
            as_objects = np.empty(len(v), dtype=object)
            as_objects[:] = list(v)
            for true, predicted in [
                (list(u), list(v)),
                (tuple(u), as_objects),
                (u.reshape(6, 20, 2), v),
                (boxed[0], v),
                boxed,
                (u.tolist(), v),
            ]:
                np.testing.assert_allclose(error(true, predicted, average="none"), expected)
            single = u.astype(np.float32), v.astype(np.float32)
            assert error(*single, average="none").dtype == np.float64


def test_metrics_take_a_field_set():
    from skop.data import FieldSet, unit_grid

    rng = np.random.default_rng(1)
    u, v = rng.normal(size=(2, 3, 4, 5, 1))
    field_set = FieldSet(unit_grid((4, 5)), u.reshape(3, 20, 1), grid_shape=(4, 5))
    assert relative_l2_error(field_set, v) == pytest.approx(relative_l2_error(u, v))
    assert h1_error(field_set, v) == pytest.approx(h1_error(u, v))


def test_two_axes_are_one_channel_fields_or_scalars(fields):
    u, v = (field[:, 0, :, 0] for field in fields)
    assert relative_l2_error(u, v) == pytest.approx(relative_l2_error(u[..., None], v[..., None]))
    as_set = np.linalg.norm(v - u) / np.linalg.norm(u)
    assert relative_l2_error(u, v, kind="scalar") == pytest.approx(as_set)
    assert relative_l2_score(u, v, kind="scalar") == pytest.approx(1 - as_set)
    per_scalar = np.linalg.norm(v - u, axis=0) / np.linalg.norm(u, axis=0)
    np.testing.assert_allclose(relative_l2_error(u, v, kind="scalar", average="channel"), per_scalar)
    assert mean_absolute_error(u, v, kind="scalar", average="channel").shape == (4,)


def test_one_scalar_per_sample(fields):
    u, v = (field[:, 0, 0, 0] for field in fields)
    assert relative_l2_error(u, v) == pytest.approx(np.linalg.norm(v - u) / np.linalg.norm(u))
    assert relative_l2_error(u, v[:, None]) == relative_l2_error(u.tolist(), list(v))
    weight = np.arange(6.0)
    assert root_mean_squared_error(u, v, sample_weight=weight) == pytest.approx(
        sklearn_rmse(u, v, sample_weight=weight)
    )
    repeated = np.repeat(np.arange(6), np.arange(6))
    assert relative_l2_error(u, v, sample_weight=weight) == pytest.approx(relative_l2_error(u[repeated], v[repeated]))
    with pytest.raises(ValueError, match="no meaning for scalars"):
        relative_l2_error(u, v, average="none")


def test_ragged_samples_count_the_same():
    rng = np.random.default_rng(2)
    u, v = ([rng.normal(size=(points, 2)) for points in (3, 50, 7)] for _ in range(2))
    errors = [np.linalg.norm(b - a) / np.linalg.norm(a) for a, b in zip(u, v, strict=True)]
    assert relative_l2_error(u, v) == pytest.approx(np.mean(errors))
    squares = [np.mean((b - a) ** 2) for a, b in zip(u, v, strict=True)]
    assert root_mean_squared_error(u, v) == pytest.approx(np.sqrt(np.mean(squares)))


def test_weights_equal_repetition_and_order_does_not_matter(fields, subtests):
    for error in ALL_ERRORS:
        with subtests.test(error=error):
            u, v = fields
            v[0] += 5.0  # the worst sample has no weight
            weight = np.array([0, 1, 2, 3, 0, 1])
            repeated = np.repeat(np.arange(6), weight)
            np.testing.assert_allclose(error(u, v, sample_weight=weight), error(u[repeated], v[repeated]))
            order = np.random.default_rng(3).permutation(6)
            np.testing.assert_allclose(error(u[order], v[order]), error(u, v))


def test_errors_vanish_only_for_the_truth_and_do_not_change_the_arrays(fields, subtests):
    for error in ALL_ERRORS:
        with subtests.test(error=error):
            u, v = fields
            copies = u.copy(), v.copy()
            assert np.all(error(u, u) == 0)
            assert np.sum(error(u, v)) > 0
            np.testing.assert_array_equal(fields, copies)


def test_order_of_points_does_not_matter(fields, subtests):
    for error in [*POINT_ERRORS, pdebench_rmse, pdebench_nrmse, pdebench_rl2]:
        with subtests.test(error=error):
            u, v = (field.reshape(6, 20, 2) for field in fields)
            order = np.random.default_rng(4).permutation(20)
            assert error(u[:, order], v[:, order]) == pytest.approx(error(u, v), rel=1e-12)


def test_units(fields, subtests):
    for error in ALL_ERRORS:
        with subtests.test(error=error):
            u, v = fields
            unitless = [*RELATIVE_ERRORS, mean_pointwise_relative_error, phase_error]
            expected = error(u, v) if error in unitless else 7 * error(u, v)
            np.testing.assert_allclose(error(-7 * u, -7 * v), expected, rtol=1e-6)
            if error in RELATIVE_ERRORS:
                assert error(u, 0 * u) == pytest.approx(1.0)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_sizes_whose_squares_double_precision_cannot_hold(fields, size, subtests):
    size = 2.0 ** round(np.log2(size))  # changes no digit
    constants = {mean_pointwise_relative_error, pdebench_nrmse}  # their divisors hold 1e-9
    for error in ALL_ERRORS:
        with subtests.test(error=error):
            unit = 1.0 if error in (*RELATIVE_ERRORS, phase_error) else size
            if error not in constants:
                np.testing.assert_array_equal(error(*(size * part for part in fields)), unit * error(*fields))
    u, v = fields
    # A sample alone, as a prediction that diverged.
    v[0] *= 1e200
    expected = np.linalg.norm(v[0] / 1e200) / np.linalg.norm(u[0]) * 1e200
    assert relative_l2_error(u, v, average="none")[0] == pytest.approx(expected)
    others = np.arange(6) > 0
    for error in (relative_l2_error, root_mean_squared_error, h1_error):
        assert error(u, v, sample_weight=others) == pytest.approx(error(u[1:], v[1:]))
    with subtests.test(of="scalars and channels"):
        u, v = fields[0][:, 0, 0], fields[0][:, 0, 1]
        for average in ("mean", "channel"):
            options = {"kind": "scalar", "average": average}
            np.testing.assert_array_equal(
                relative_l2_error(size * u, size * v, **options), relative_l2_error(u, v, **options)
            )
        scale = np.array([size, 1.0])
        np.testing.assert_array_equal(channel_sizes(scale * fields[0]), scale * channel_sizes(fields[0]))


def test_triangle_inequality(fields, subtests):
    for error in ALL_ERRORS:
        with subtests.test(error=error):
            u, v = fields
            w = np.random.default_rng(5).normal(size=u.shape)
            assert np.all(error(u, u + v + w) <= error(u, u + v) + error(u, u + w) + 1e-12)


def test_zero_truth(fields):
    u, v = fields
    u[2] = 0
    others = np.delete(np.arange(len(u)), 2)
    for error in (relative_l2_error, h1_error):
        expected = error(u[others], v[others], average="none")
        np.testing.assert_allclose(error(u, v, average="none")[others], expected)
        assert error(u, v, sample_weight=[1, 1, 0, 1, 1, 1]) == pytest.approx(expected.mean())
    norms = np.linalg.norm(u.reshape(len(u), -1), axis=1)
    size = np.sqrt(np.mean(norms**2))
    assert relative_l2_error(u, v, average="none")[2] == pytest.approx(np.linalg.norm(v[2]) / size)
    assert relative_l2_error(u, v, average="none", set_norm=3.0)[2] == pytest.approx(np.linalg.norm(v[2]) / 3)
    assert pdebench_rl2(u, v) == pytest.approx(relative_l2_error(u, v))
    # Zero up to rounding, as sin(pi) is, counts as zero, in each precision.
    for dtype, rounding in ((np.float64, 1e-16), (np.float32, 1e-8)):
        rounded = u + np.where(np.arange(len(u)) == 2, rounding, 0.0).reshape(-1, *[1] * (u.ndim - 1))
        for samples in (rounded.astype(dtype), list(rounded.astype(dtype))):
            found = relative_l2_error(samples, v, average="none")[2]
            assert found == pytest.approx(np.linalg.norm(v[2]) / size, rel=1e-5)
    # A weight of zero takes a sample out of the size of the set too.
    weights = np.array([1.0, 1, 1, 1, 1, 0])
    alone = relative_l2_error(u[:-1], v[:-1], average="none")[2]
    assert relative_l2_error(u, v, sample_weight=weights, average="none")[2] == pytest.approx(alone)
    v[2] = 0
    assert relative_l2_error(u, v, average="none")[2] == 0
    u[3, ..., 1] = 0
    channel = np.sqrt(np.mean(np.square(u[..., 1]).reshape(len(u), -1).sum(axis=1)))
    errors = [np.linalg.norm(b - a) / (np.linalg.norm(a) or channel) for a, b in zip(u[..., 1], v[..., 1], strict=True)]
    assert relative_l2_error(u, v, average="channel")[1] == pytest.approx(np.mean(errors))
    with pytest.raises(FieldDataError, match="sample 0"):
        relative_l2_error(0 * u, v + 1)
    with pytest.raises(FieldDataError, match="scalar"):
        relative_l2_error(np.zeros(3), np.ones(3))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_mean_that_samples_near_zero_make_is_named(weighted):
    rng = np.random.default_rng(0)
    u = rng.normal(size=(50, 30, 1))
    noise = 0.05 * rng.normal(size=u.shape)
    weight = rng.uniform(0.5, 2.0, size=50) if weighted else None
    u[:2] *= 1e-3
    # The whole set without the two, by the same function.
    without = 1 - relative_l2_score(u[2:], (u + noise)[2:], sample_weight=None if weight is None else weight[2:])
    with pytest.warns(SkopWarning, match=rf"and {without:.3g} without the 2 of 50 samples"):
        relative_l2_score(u, u + noise, sample_weight=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Errors as small as the samples, or small at all, samples without weight, and decades tell nothing wrong.
        relative_l2_score(u, 1.05 * u, sample_weight=weight)
        relative_l2_score(u, u + 1e-6 * noise, sample_weight=weight)
        relative_l2_score(u, u + noise, sample_weight=np.r_[0.0, 0.0, np.ones(48)])
        decades = np.logspace(0, 3, 50)[:, None, None] * rng.normal(size=u.shape)
        relative_l2_score(decades, 1.05 * decades)
        # Fits judge candidates by the plain metric.
        relative_l2_error(u, u + noise)


@pytest.mark.parametrize("kind", ["field", "scalar"])
def test_channels_in_their_own_units_count_alike(fields, kind):
    u, v = (part if kind == "field" else part.reshape(len(part), -1, 2)[:, 0] for part in fields)
    scale = np.array([1e7, 1e-3])
    sizes = channel_sizes(u, kind=kind)
    np.testing.assert_allclose(sizes, np.sqrt(np.square(u).reshape(-1, 2).mean(axis=0)))
    np.testing.assert_allclose(channel_sizes(scale * u, kind=kind), scale * sizes)
    expected = relative_l2_error(u / sizes, v / sizes, kind=kind)
    assert relative_l2_error(scale * u, scale * v, kind=kind, units=scale * sizes) == pytest.approx(expected)
    hidden = v.copy()
    hidden[..., 1] = 0
    assert relative_l2_error(scale * u, scale * hidden, kind=kind, units=scale * sizes) > 0.5
    weight = np.arange(len(u))
    repeated = channel_sizes(np.repeat(u, weight, axis=0), kind=kind)
    np.testing.assert_allclose(channel_sizes(u, sample_weight=weight, kind=kind), repeated)
    assert relative_l2_score(u, v, kind=kind, units=sizes) == 1 - relative_l2_error(u, v, kind=kind, units=sizes)


def test_sizes_of_zero_channels_and_of_frames():
    u = np.array([[[3.0, 0.0], [4.0, 0.0]]])
    np.testing.assert_allclose(channel_sizes(u), [np.sqrt(12.5)] * 2)
    np.testing.assert_array_equal(channel_sizes(0 * u), [1, 1])
    frames = np.random.default_rng(0).normal(size=(3, 5, 6)) * [1, 100, 2, 200, 3, 300]
    components = np.sqrt(np.square(frames.reshape(-1, 2)).mean(axis=0))
    np.testing.assert_allclose(channel_sizes(frames, n_components=2), np.tile(components, 3))
    with pytest.raises(FieldDataError, match="frames of 4"):
        channel_sizes(frames, n_components=4)
    for units, message in (([1.0, 0.0], "positive"), ([1.0], "1 numbers for 2 channels")):
        with pytest.raises(ValueError, match=message):
            relative_l2_error(u, u, units=units)


def test_pdebench_errors_match_their_formulas():
    rng = np.random.default_rng(6)
    u, v = rng.normal(size=(2, 3, 5, 4, 7, 2))  # (n, x, y, t, c)
    space = (1, 2)
    roots = np.sqrt(((v - u) ** 2).mean(space))
    assert pdebench_rmse(u, v, time_axis=-2) == pytest.approx(roots.mean())
    assert pdebench_nrmse(u, v, time_axis=3) == pytest.approx((roots / (np.sqrt((u**2).mean(space)) + 1e-9)).mean())
    norms = [np.linalg.norm(b - a) / np.linalg.norm(a) for a, b in zip(u, v, strict=True)]
    assert pdebench_rl2(u, v, time_axis=-2) == pytest.approx(np.mean(norms))
    moved = np.moveaxis(u, 3, 1), np.moveaxis(v, 3, 1)
    for error in (pdebench_rmse, pdebench_nrmse, pdebench_rl2):
        assert error(*moved, time_axis=1) == pytest.approx(error(u, v, time_axis=-2))
    for axis in (0, 4, -1, 5, -6):
        with pytest.raises(FieldDataError, match="time_axis"):
            pdebench_rmse(u, v, time_axis=axis)


def test_nrmse_is_the_relative_error_for_one_frame_and_channel(fields):
    u, v = (field[..., :1] for field in fields)
    assert pdebench_nrmse(u, v) == pytest.approx(relative_l2_error(u, v), rel=1e-6)
    assert pdebench_rl2(u, v) == relative_l2_error(u, v)


def test_published_darcy_figures_are_the_pointwise_ones(fields):
    # A metric for (n, space, t, c) that is handed (n, points, 1) as (n, c=points, space=1).
    u, v = (field[..., 0].reshape(6, 1, 20) for field in fields)
    assert pdebench_rmse(u, v) == pytest.approx(mean_absolute_error(u, v))
    assert pdebench_nrmse(u, v) == pytest.approx(mean_pointwise_relative_error(u, v))


def test_copied_frames_deflate_the_rmse():
    rng = np.random.default_rng(7)
    u, v = rng.normal(size=(2, 2, 8, 101, 1))
    copied = np.concatenate([u[:, :, :10], v[:, :, 10:]], axis=2)
    predicted_only = pdebench_rmse(u[:, :, 10:], v[:, :, 10:], time_axis=-2)
    assert pdebench_rmse(u, copied, time_axis=-2) == pytest.approx(predicted_only * 91 / 101)
    for error in (pdebench_rmse, pdebench_nrmse):
        deflated = error(u[:, :, 10:], v[:, :, 10:], time_axis=-2, n_copied_frames=10)
        assert deflated == pytest.approx(error(u, copied, time_axis=-2))
    with pytest.raises(FieldDataError, match="n_copied_frames is -1"):
        pdebench_rmse(u, v, time_axis=-2, n_copied_frames=-1)


def test_h1_error_is_exact_for_quadratic_fields():
    x, y = np.meshgrid(np.linspace(0, 1, 6), np.linspace(0, 3, 4), indexing="ij")
    u, e = 1 + x - 2 * x**2 + y**2, 0.1 * (x + 3 * y)
    truth = np.sum(u**2 + 0.5 * ((1 - 4 * x) ** 2 + (2 * y) ** 2))
    error = np.sum(e**2 + 0.5 * (0.1**2 + 0.3**2))
    arrays = u[None, ..., None], (u + e)[None, ..., None]
    value = h1_error(*arrays, spacing=(1 / 5, 1.0), gradient_weight=0.5)
    assert value == pytest.approx(np.sqrt(error / truth))


@pytest.mark.parametrize("n_axes", [1, 2, 3])
def test_h1_error_converges_with_second_order_to_the_integral(n_axes):
    def h1(n_points):
        x = np.linspace(0, 1, n_points).reshape(-1, *[1] * (n_axes - 1))
        shape = (n_points, *[3] * (n_axes - 1))
        u, e = (np.broadcast_to(field, shape)[None, ..., None] for field in (np.exp(x), np.sin(2 * x)))
        return h1_error(u, u + e, grid_shape=shape)

    values = [h1(n_points) for n_points in (4001, 41, 81)]
    # Means over points converge to integrals with first order, slopes with second.
    exact = np.sqrt((2.5 + 1.5 * np.sin(4) / 4) / (np.exp(2) - 1))
    assert values[0] == pytest.approx(exact, rel=2e-3)
    assert abs(values[2] - exact) < 0.6 * abs(values[1] - exact)


def test_h1_slopes_converge_with_second_order():
    def slope_error(n_points):
        x = np.linspace(0, 1, n_points)
        u, e = np.exp(x), np.sin(3 * x)
        expected = np.sqrt(np.sum(e**2 + 9 * np.cos(3 * x) ** 2) / np.sum(2 * u**2))
        return abs(h1_error(u[None], (u + e)[None], grid_shape=(n_points,)) - expected)

    assert np.log2(slope_error(321) / slope_error(641)) == pytest.approx(2.0, abs=0.1)


def test_h1_without_slopes_is_the_relative_l2_error(fields):
    assert h1_error(*fields, gradient_weight=0.0) == pytest.approx(relative_l2_error(*fields))


def test_spectral_bands_add_up_to_the_mean_squared_error(subtests):
    for grid in [(31,), (32,), (8, 9), (6, 4, 5)]:
        with subtests.test(grid=grid):
            u, v = np.random.default_rng(8).normal(size=(2, 3, *grid, 2))
            weight = [1.0, 0.0, 2.5]
            total = root_mean_squared_error(u, v, sample_weight=weight)
            bands = spectral_error(u, v, sample_weight=weight, grid_shape=grid, bands=(1, 2.5, 3))
            assert bands.shape == (4,)
            assert np.sum(bands**2) == pytest.approx(total**2)
            per_sample = spectral_error(u, v, grid_shape=grid, average="none")
            total = root_mean_squared_error(u, v, average="none")
            np.testing.assert_allclose(np.sqrt((per_sample**2).sum(axis=1)), total)


def test_a_plane_wave_falls_into_its_band(subtests):
    for wave, band in [((0, 0), 0), ((0, 3), 0), ((4, 0), 1), ((0, 11), 1), ((3, 3), 1), ((12, 0), 2), ((9, 8), 2)]:
        with subtests.test(wave=wave, band=band):
            x, y = np.meshgrid(np.arange(49) / 49, np.arange(30) / 30, indexing="ij")
            error = np.cos(2 * np.pi * (wave[0] * x + wave[1] * y))[None, ..., None]
            expected = np.zeros(3)
            expected[band] = np.sqrt(np.mean(error**2))
            np.testing.assert_allclose(spectral_error(0 * error, error), expected, atol=1e-12)


def waves(amplitudes, shift=0.0, n=16):
    """A sum of cosines with phases of their own, moved by a fraction of the box: (1, n, 1)."""
    x, numbers = np.arange(n) / n - shift, np.arange(len(amplitudes))
    return (amplitudes * np.cos(2 * np.pi * numbers * x[:, None] + numbers**2)).sum(axis=1)[None, :, None]


def test_a_moved_field_has_the_phase_error_of_its_waves(subtests):
    for shift in [0.03, -0.4, 1.0]:
        for n in [16, 17]:
            with subtests.test(shift=shift, n=n):
                amplitudes = np.array([1.0, 3, 0.2, 1, 1e-3, 1, 2, 0.7])
                found = phase_error(waves(amplitudes, n=n), 0.3 * waves(amplitudes, shift, n), grid_shape=(n,))
                angles = 2 * np.pi * shift * np.arange(8) % (2 * np.pi)
                np.testing.assert_allclose(found[:8], np.minimum(angles, 2 * np.pi - angles), atol=1e-9)
                assert np.isnan(found[8:]).all()


@pytest.mark.parametrize("shift", [(0.1, 0.0), (0.05, -0.02)])
def test_moved_fields_on_planes_have_the_mean_over_the_wave_vectors(shift):
    shape, half = (9, 12), 4
    k = np.meshgrid(np.fft.fftfreq(9, 1 / 9), np.fft.fftfreq(12, 1 / 12), indexing="ij")
    rng = np.random.default_rng(0)
    modes = np.fft.fft2(rng.standard_normal((3, 2, *shape)))
    modes[..., 6] = 0  # real modes cannot be moved by less than a point
    fields = np.moveaxis(np.fft.ifft2(modes).real, 1, -1)
    turn = np.exp(-2j * np.pi * (k[0] * shift[0] + k[1] * shift[1]))
    moved = np.moveaxis(np.fft.ifft2(modes * turn).real, 1, -1)
    angles = np.abs(np.angle(turn))
    shells = np.rint(np.hypot(*k))
    expected = [angles[(shells == number) & (np.abs(k[1]) < 6)].mean() for number in range(half + 1)]
    np.testing.assert_allclose(phase_error(fields, moved), expected, atol=1e-9)


def test_the_phase_error_is_an_angle_that_forgets_sizes():
    rng = np.random.default_rng(1)
    u, v = rng.standard_normal((2, 4, 6, 5, 7, 2))
    found = phase_error(u, v)
    assert found.shape == (3,)
    assert ((found > 0) & (found < np.pi)).all()
    np.testing.assert_allclose(phase_error(u, 3.7 * u), 0, atol=1e-7)
    np.testing.assert_allclose(phase_error(u, -1e-3 * u), np.pi, atol=1e-7)
    np.testing.assert_allclose(phase_error(v, u), found)
    # A unit for each channel, from the smallest to the largest numbers.
    np.testing.assert_allclose(phase_error(u * [1e-200, 1e200], v * [1e-200, 1e200]), found)
    each = phase_error(u, v, average="none")
    np.testing.assert_allclose(each.mean(axis=0), found)
    np.testing.assert_allclose(phase_error(u, v, sample_weight=[0, 1, 3, 0]), (each[1] + 3 * each[2]) / 4)
    # Phases that are drawn at random.
    u, v = rng.standard_normal((2, 3000, 9, 1))
    np.testing.assert_allclose(phase_error(u, v, grid_shape=(9,)), np.pi / 2, atol=0.1)


def test_waves_that_the_prediction_lacks_count_as_random_phases():
    true, smooth = waves(np.array([1.0, 2, 0.5, 0.5])), waves(np.array([1.0, 2]))
    expected = [0, 0, np.pi / 2, np.pi / 2, *[np.nan] * 5]
    np.testing.assert_allclose(phase_error(true, smooth, grid_shape=(16,)), expected, atol=1e-12)
    np.testing.assert_allclose(phase_error(true, 0 * true, grid_shape=(16,)), [np.pi / 2] * 4 + [np.nan] * 5)
    # Waves that only the prediction has are no part of the phases.
    np.testing.assert_allclose(phase_error(smooth, true, grid_shape=(16,))[:3], [0, 0, np.nan], atol=1e-12)
    assert np.isnan(phase_error(0 * true, true, grid_shape=(16,))).all()


def test_the_threshold_is_relative_to_the_largest_amplitude_of_a_sample_and_channel():
    low, high = waves(np.array([0, 1.0, 0.1])), 1e-3 * waves(np.array([0, 0.1, 1.0]))
    u = np.concatenate([low, high])
    each = phase_error(u, u, grid_shape=(16,), threshold=0.11, average="none")
    assert (~np.isnan(each[:, 1:3])).tolist() == [[True, False], [False, True]]
    channels = np.concatenate([low, high], axis=-1)
    assert np.flatnonzero(~np.isnan(phase_error(channels, channels, grid_shape=(16,), threshold=0.11))).tolist() == [
        1,
        2,
    ]
    # A sample without the wave takes no part in its mean.
    moved = np.concatenate([waves(np.array([0, 1.0, 0.1]), 0.1), 0 * high])
    found = phase_error(u, moved, grid_shape=(16,), threshold=0.11)
    np.testing.assert_allclose(found[1:3], [0.2 * np.pi, np.pi / 2])
    for threshold in (-0.1, 1.0, np.nan):
        with pytest.raises(ValueError, match="threshold is"):
            phase_error(u, u, grid_shape=(16,), threshold=threshold)


def test_phases_of_grids_of_several_sizes_have_no_mean():
    u = [np.ones((9, 6, 1)), np.ones((4, 6, 1))]
    with pytest.raises(FieldDataError, match="hold from 3 to 4 wave numbers"):
        phase_error(u, u)


def test_grid_metrics_never_guess_a_grid(fields):
    u, v = (field.reshape(6, 20, 2) for field in fields)
    for error in GRID_ERRORS:
        expected = error(*fields)
        np.testing.assert_allclose(error(u, v, grid_shape=(5, 4)), expected)
        np.testing.assert_allclose(error(list(fields[0]), v), expected)
        np.testing.assert_allclose(error(FieldBox(u, grid_shape=(5, 4)), v), expected)
        with pytest.raises(FieldDataError, match="does not tell its grid"):
            error(u, v)
        with pytest.raises(FieldDataError, match="20 points"):
            error(u, v, grid_shape=(4, 4))
        with pytest.raises(FieldDataError, match="does not tell its grid"):
            error(np.ones(3), np.ones(3))
    with pytest.raises(FieldDataError, match="at least 3"):
        h1_error(u, v, grid_shape=(10, 2))


def test_a_grid_shape_other_than_that_of_the_fields_is_refused(fields, subtests):
    u, v = fields  # on a grid (5, 4)
    coords = unit_grid((5, 4))
    points = [field.reshape(6, 20, 2) for field in fields]
    known = FieldSet(coords, points[0], grid_shape=(5, 4))
    for error in GRID_ERRORS:
        with subtests.test(error=error):
            for wrong in ((4, 5), (20,), (3, 4)):
                named = rf"grid_shape is {re.escape(str(wrong))}, but sample 0 of y_{{}} is on a grid \(5, 4\)"
                for true in (u, list(u), known):
                    with pytest.raises(FieldDataError, match=named.format("true")):
                        error(true, v, grid_shape=wrong)
                with pytest.raises(FieldDataError, match=named.format("pred")):
                    error(points[0], v, grid_shape=wrong)
            with pytest.raises(FieldDataError, match=r"axes of grid_shape \(4, 5\).*Check the order"):
                error(FieldSet(coords.reshape(20, 2), points[0]), points[1], grid_shape=(4, 5))
            for same in (u, known, points[0]):
                np.testing.assert_array_equal(error(same, v, grid_shape=[5, 4]), error(u, v))
            # An axis with a single point leaves the points in their order.
            line = [field[:, :, :1] for field in fields]
            flat = [field[:, :, 0] for field in line]
            np.testing.assert_array_equal(error(*line, grid_shape=(5,)), error(*flat, grid_shape=(5,)))


def test_spacing_needs_a_number_for_each_axis(fields):
    with pytest.raises(FieldDataError, match="2 positive"):
        h1_error(*fields, spacing=(1.0,))


def test_unusable_fields_are_named(subtests):
    for true, predicted, message in [
        (np.ones((3, 4, 1)), np.ones((2, 4, 1)), "3 samples and y_pred 2"),
        ([], [], "0 samples"),
        (np.ones((3, 4, 1)), np.ones((3, 5, 1)), r"sample 0: .*\(4, 1\).*\(5, 1\)"),
        (np.ones((3, 4, 4)), np.ones((3, 4, 4, 1)), "needs its channel axis"),
        (np.full((3, 4, 1), np.nan), np.ones((3, 4, 1)), "sample 0 of y_true holds NaN"),
        (np.ones((3, 4, 1)), np.full((3, 4, 1), np.inf), "sample 0 of y_pred holds NaN"),
        (np.ones((3, 4, 1)), np.full((3, 4, 1), 1j), "dtype complex128"),
        (np.array(["a", "b"]), np.ones(2), "expected real numbers"),
        (np.ones((3, 0, 1)), np.ones((3, 0, 1)), "empty"),
        (np.float64(1.0), np.ones(2), "sample axis first"),
    ]:
        with subtests.test(true=true, predicted=predicted):
            for error in POINT_ERRORS:
                with pytest.raises(FieldDataError, match=message):
                    error(true, predicted)


def test_wrong_arguments_are_named(fields):
    for weight, message in [
        (np.ones(5), r"expected \(6,\)"),
        (np.zeros(6), "only zero"),
        (-np.ones(6), "negative"),
    ]:
        for error in ALL_ERRORS:
            with pytest.raises(FieldDataError, match=message):
                error(*fields, sample_weight=weight)
    for error in [*POINT_ERRORS, *GRID_ERRORS]:
        with pytest.raises(ValueError, match="average is 'median'"):
            error(*fields, average="median")
    with pytest.raises(ValueError, match="kind is 'table'"):
        relative_l2_error(*fields, kind="table")
    with pytest.raises(FieldDataError, match="kind is 'scalar'"):
        relative_l2_error(*fields, kind="scalar")
    with pytest.raises(ValueError, match="bands"):
        spectral_error(*fields, bands=(12, 4))
    with pytest.raises(FieldDataError, match="number"):
        relative_l2_error([np.ones((2, 1)), np.ones((2, 3))], [np.ones((2, 1)), np.ones((2, 3))], average="channel")
    for error in (pdebench_rmse, pdebench_nrmse, pdebench_rl2):
        with pytest.raises(FieldDataError, match="at least 3 axes"):
            error(np.ones((2, 4)), np.ones((2, 4)))
        with pytest.raises(FieldDataError, match="expected the same"):
            error(*fields[:1], fields[1][:1])
        with pytest.raises(FieldDataError, match="NaN"):
            error(fields[0], np.full_like(fields[1], np.nan))


class LinearFields(RegressorMixin, BaseEstimator):
    """Ridge regression from a table to fields, returning the kind of y that it was fitted on."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, X, y):
        self.as_list_ = isinstance(y, list)
        stacked = np.stack(y)
        self.shape_ = stacked.shape[1:]
        self.ridge_ = Ridge(alpha=self.alpha).fit(X, stacked.reshape(len(stacked), -1))
        return self

    def predict(self, X):
        fields = self.ridge_.predict(X).reshape(-1, *self.shape_)
        return list(fields) if self.as_list_ else fields


def test_scorers_in_cross_validation_and_search(subtests):
    for as_list in [False, True]:
        for scorer in SCORERS:
            with subtests.test(as_list=as_list, scorer=scorer):
                rng = np.random.default_rng(9)
                X = rng.normal(size=(24, 3))
                y = np.einsum("np,phwc->nhwc", X, rng.normal(size=(3, 4, 5, 2))) + 1.0
                y = list(y) if as_list else y
                splits = KFold(3)
                scores = cross_validate(LinearFields(), X, y, scoring=scorer, cv=splits, error_score="raise")[
                    "test_score"
                ]
                expected = []
                for train, test in splits.split(X):
                    model = LinearFields().fit(X[train], np.stack(y)[train])
                    expected.append(-SCORERS[scorer](np.stack(y)[test], model.predict(X[test])))
                np.testing.assert_allclose(scores, expected)
                search = GridSearchCV(LinearFields(), {"alpha": [1e3, 1e-6]}, scoring=scorer, cv=splits).fit(X, y)
                assert search.best_params_ == {"alpha": 1e-6}
                assert search.best_score_ == pytest.approx(0.0, abs=1e-5)


def test_scorers_pickle_clone_and_take_weights(subtests):
    for scorer in SCORERS:
        with subtests.test(scorer=scorer):
            rng = np.random.default_rng(10)
            X, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 4, 5, 1))
            model = LinearFields().fit(X, y)
            weight = np.array([1, 0, 0, 2, 1, 0, 3, 1])
            expected = -SCORERS[scorer](y, model.predict(X), sample_weight=weight)
            for copy in (scorer, pickle.loads(pickle.dumps(scorer)), clone(scorer, safe=False)):
                assert copy(model, X, y, sample_weight=weight) == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["y (n,)", "y (n, 1)", "table", "list", "field"])
def test_the_relative_scorer_is_the_physical_score_minus_one(kind, subtests):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (24, 3))
    # Scalars of two sizes, some near zero: as one-channel fields they would have another error.
    table = np.stack([X[:, 0] + X[:, 1] ** 2, 50 * np.sin(3 * X[:, 2])], axis=1) + 0.1 * rng.normal(size=(24, 2))
    field = table[:, None] * rng.normal(size=(6, 2))
    y = {"y (n,)": table[:, 0], "y (n, 1)": table[:, :1], "table": table, "list": table.tolist(), "field": field}[kind]
    train, test = slice(16), slice(16, None)
    model = PODRegressor(regressor="ridge")
    pipeline = make_pipeline(StandardScaler(), model)
    search = GridSearchCV(
        pipeline, {"podregressor__regressor": ["mean", "ridge"]}, scoring=neg_relative_l2_scorer, cv=2
    )
    for estimator in (model, pipeline, search, make_pipeline(StandardScaler(), search)):
        with subtests.test(estimator=estimator):
            fitted = clone(estimator).fit(X[train], y[train])
            final, inputs = final_regressor(fitted, X[test])
            weight = np.arange(8.0)
            for options in ({}, {"sample_weight": weight}):
                expected = final.score_physical(inputs, y[test], **options) - 1
                assert neg_relative_l2_scorer(fitted, X[test], y[test], **options) == pytest.approx(expected, rel=1e-12)
    y = np.asarray(y)
    # scikit-learn transforms no fields.
    if kind != "field":
        around = (pipeline, TransformedTargetRegressor(pipeline))
        errors = [neg_relative_l2_scorer(clone(one).fit(X[train], y[train]), X[test], y[test]) for one in around]
        assert errors[0] == pytest.approx(errors[1], rel=1e-12)
    scoring = {"relative": neg_relative_l2_scorer, "root": neg_root_mean_squared_scorer}
    for scorers, name in ((neg_relative_l2_scorer, "test_score"), (scoring, "test_relative")):
        splits = KFold(2)
        found = cross_validate(model, X, y, scoring=scorers, cv=splits, error_score="raise")[name]
        fits = [(clone(model).fit(X[part], y[part]), rest) for part, rest in splits.split(X)]
        expected = [fitted.score_physical(X[rest], y[rest]) - 1 for fitted, rest in fits]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_kind_that_a_user_gives_a_scorer_counts():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2, 12, 3))
    model = PODRegressor(regressor="ridge").fit(X, y)
    errors = {kind: relative_l2_error(y, model.predict(X), kind=kind) for kind in ("field", "scalar")}
    assert errors["field"] != pytest.approx(errors["scalar"], rel=1e-3)
    assert neg_relative_l2_scorer(model, X, y) == -errors["scalar"]
    stated = clone(neg_relative_l2_scorer, safe=False)
    stated._kwargs = {"kind": "field"}
    assert stated(model, X, y) == -errors["field"]
    with config_context(enable_metadata_routing=True):
        assert neg_relative_l2_scorer(model, X, y, kind="field") == -errors["field"]
    for scorer in set(SCORERS) - {neg_relative_l2_scorer, neg_h1_scorer}:
        assert scorer(model, X, y) == -SCORERS[scorer](y, model.predict(X))


def test_make_scorer_passes_settings_on():
    X, y = np.eye(3), np.random.default_rng(11).normal(size=(3, 16, 1))
    model = LinearFields().fit(X, y)
    scorer = make_scorer(h1_error, greater_is_better=False, grid_shape=(16,))
    assert scorer(model, X, y) == pytest.approx(-h1_error(y, model.predict(X), grid_shape=(4 * 4,)))


def test_public_names_exist_and_torch_is_not_imported():
    assert all(hasattr(metrics, name) for name in metrics.__all__)
    for file in Path(skop.metrics.__file__).parent.glob("*.py"):
        names = []
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names.append(node.module or "")
        # skop._typing imports torch for its tensor names.
        assert not any(name.split(".")[0] == "torch" or name == "skop._typing" for name in names), file


def test_fields_that_say_that_their_points_differ_are_refused():
    generator = np.random.default_rng(0)
    points, fields, order = generator.random((7, 2)), generator.normal(size=(3, 7, 1)), generator.permutation(7)
    same, moved = FieldSet(points, fields), FieldSet(points[order], fields[:, order])
    ragged = FieldSet([points, points[:5]], [fields[0], fields[1, :5]])
    turned = FieldSet([points[::-1], points[:5]], [fields[0], fields[1, :5]])
    for true, found in ((same, moved), (ragged, turned), ((points, fields), (points[order], fields))):
        with pytest.raises(FieldDataError, match="y_true lies on other points than y_pred"):
            relative_l2_error(true, found)
    rounded = FieldSet(points.astype(np.float32), fields)
    assert relative_l2_error(same, rounded) == relative_l2_error(same, fields) == 0
    assert relative_l2_error(FieldSet(np.stack([points] * 3), fields), same) == 0


def test_tables_with_their_labels_in_another_order_are_refused():
    pandas = pytest.importorskip("pandas")
    true = pandas.DataFrame(np.random.default_rng(0).random((5, 2)), columns=["drag", "lift"], index=list("abcde"))
    with pytest.raises(FieldDataError, match=r"label 0 of the columns is drag in y_true and lift in y_pred"):
        relative_l2_error(true, true[["lift", "drag"]], kind="scalar")
    for true_part, part in ((true, true[::-1]), (true["drag"], true["drag"][::-1])):
        with pytest.raises(FieldDataError, match=r"label 0 of the index is a in y_true and e in y_pred.*loc\[y_true"):
            relative_l2_error(true_part, part, kind="scalar")
    numbered = true.reset_index(drop=True)
    assert relative_l2_error(true, numbered, kind="scalar") == relative_l2_error(true, true.to_numpy()) == 0


@pytest.mark.parametrize("metric", GRID_ERRORS)
def test_grids_with_uneven_steps_are_refused(metric):
    generator = np.random.default_rng(0)
    x, values = np.linspace(0, 1, 5), generator.random((3, 5, 5, 1))
    even = np.stack(np.meshgrid(3 + 2 * x, x, indexing="ij"), -1)
    uneven = np.stack(np.meshgrid(x**2, x, indexing="ij"), -1)
    bent = even + 0.1 * np.sin(even[..., ::-1])
    turned = np.float32(even @ [[0.6, 0.8], [-0.8, 0.6]])
    for coords in (even, turned, np.stack([even] * 3)):
        np.testing.assert_array_equal(metric(FieldSet(coords, values), 1.1 * values), metric(values, 1.1 * values))
    for coords in (uneven, bent, np.stack([even, uneven, even])):
        with pytest.raises(FieldDataError, match=r"y_true, sample [01], have uneven steps along the axes"):
            metric(FieldSet(coords, values), values)
    assert h1_error(FieldSet(uneven, values), values, spacing=(1, 1)) == 0


@pytest.mark.parametrize(
    "metric", [relative_l2_error, root_mean_squared_error, h1_error, pdebench_rmse, pdebench_nrmse, pdebench_rl2]
)
def test_grids_of_different_shape_are_refused(metric):
    u = np.random.default_rng(0).normal(size=(4, 6, 7, 1))
    turned = u.transpose(0, 2, 1, 3)
    for true in (u, FieldSet(unit_grid((6, 7)), u)):
        with pytest.raises(FieldDataError, match=r"6, 7.*7, 6"):
            metric(true, turned)
        assert metric(true, u.reshape(4, 42, 1)) == 0


@pytest.mark.parametrize("metric", [pdebench_rmse, pdebench_nrmse, pdebench_rl2])
def test_pdebench_metrics_take_what_the_others_take(metric):
    u, v = np.random.default_rng(0).normal(size=(2, 4, 6, 7, 2))
    fields = FieldSet(unit_grid((6, 7)), u)
    assert metric(fields, v) == metric(u, v) == metric(list(u), v.reshape(4, 42, 2))
    for wrong in (u + 0j, u.astype(str)):
        with pytest.raises(FieldDataError, match=r"y_true has dtype .*expected real numbers"):
            metric(wrong, v)
    with pytest.raises(FieldDataError, match="y_pred has samples of different shapes"):
        metric(u, [part[: 3 + place] for place, part in enumerate(v)])
