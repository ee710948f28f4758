"""Scalers against the plain formulas, and laws of weights."""

import pickle
from itertools import product

import numpy as np
import pytest
import torch
from sklearn.base import clone

from skop import FieldSet
from skop.data import BoxScaler, FieldScaler, Scalers, ScalingOptions, Targets
from skop.data._scaling import check_positive
from skop.exceptions import FieldDataError

N, P, C = 9, 5, 3
VALUES = np.random.default_rng(0).normal([1.0, -300.0, 1e-6], [2.0, 0.1, 1e-7], (N, P, C))


def chunked(values, weight=None, size=N):
    """Pieces of `size` samples, as `FieldScaler.fit` takes them."""
    weight = np.ones(len(values)) if weight is None else np.asarray(weight, dtype=float)
    starts = range(0, len(values), size)
    return lambda: iter([(values[start : start + size], weight[start : start + size]) for start in starts])


def fitted(values, weight=None, mode="channel", size=N):
    return FieldScaler(mode).fit(chunked(values, weight, size))


def test_statistics_are_the_plain_formulas():
    for (mode, axes), size in product([("channel", (0, 1)), ("point", 0)], [1, 4, N]):
        scaler = fitted(VALUES, mode=mode, size=size)
        assert scaler.mean_.shape == ((C,) if mode == "channel" else (P, C))
        np.testing.assert_allclose(scaler.mean_, VALUES.mean(axis=axes), rtol=1e-12)
        np.testing.assert_allclose(scaler.scale_, VALUES.std(axis=axes), rtol=1e-10)


@pytest.mark.parametrize("mode", ["channel", "point"])
def test_scaled_fields_have_no_mean_and_unit_spread(mode):
    scaler = fitted(VALUES, mode=mode)
    tensor = torch.from_numpy(VALUES)
    scaled = scaler.transform(tensor)
    axes = (0, 1) if mode == "channel" else 0
    np.testing.assert_allclose(scaled.mean(axes), 0, atol=1e-10)
    np.testing.assert_allclose(scaled.std(axes, correction=0), 1, rtol=1e-10)
    np.testing.assert_allclose(scaler.inverse_transform(scaled), VALUES, rtol=1e-12)


def test_no_scaling_changes_nothing():
    scaler = fitted(VALUES, mode=None)
    tensor = torch.from_numpy(VALUES)
    assert torch.equal(scaler.transform(tensor), tensor)
    assert torch.equal(scaler.inverse_transform(tensor), tensor)


def test_integer_weights_are_repetitions_and_zero_is_absence():
    for mode, size in product(["channel", "point"], [2, N]):
        counts = np.array([0, 1, 3, 0, 2, 1, 1, 0, 5])
        weighted = fitted(VALUES, counts, mode, size)
        repeated = fitted(np.repeat(VALUES, counts, axis=0), None, mode)
        np.testing.assert_allclose(weighted.mean_, repeated.mean_, rtol=1e-12)
        np.testing.assert_allclose(weighted.scale_, repeated.scale_, rtol=1e-10)
        present = fitted(VALUES[counts > 0], counts[counts > 0] * 7.5, mode)
        np.testing.assert_allclose(weighted.mean_, present.mean_, rtol=1e-12)
        np.testing.assert_allclose(weighted.scale_, present.scale_, rtol=1e-10)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e150])
def test_logarithms_are_scaled_and_sizes_are_those_of_the_values(size):
    values = size * np.exp(np.random.default_rng(0).normal([1.0, -5.0], [2.0, 0.1], (N, P, 2)))
    scaler = FieldScaler("channel", "log").fit(chunked(values, size=4))
    np.testing.assert_allclose(scaler.mean_, np.log(values).mean(axis=(0, 1)), rtol=1e-12)
    np.testing.assert_allclose(scaler.scale_, np.log(values).std(axis=(0, 1)), rtol=1e-10)
    np.testing.assert_allclose(scaler.size_ / size, np.sqrt(((values / size) ** 2).mean(axis=(0, 1))), rtol=1e-9)
    tensor = torch.from_numpy(values)
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(tensor)), values, rtol=1e-9)


def test_constant_channel_maps_to_zero_and_back():
    for constant, mode, kind in product(
        [0.0, 0.1, -7.0, 1e9 + 0.1, 1e-30], ["channel", "point"], [np.float32, np.float64]
    ):
        values = VALUES.astype(kind)
        values[..., 1] = constant
        scaler = fitted(values, mode=mode, size=4)
        scaled = scaler.transform(torch.from_numpy(values))
        assert np.all(scaler.scale_[..., 1] == 1)
        np.testing.assert_allclose(scaled[..., 1], 0, atol=1e-6 * abs(constant))
        np.testing.assert_allclose(scaler.inverse_transform(scaled)[..., 1], values[..., 1], rtol=1e-6)
        restored = scaler.restore(scaled + 1.0)
        for outputs in (restored, scaler.restore(scaled + 1e20)):  # whatever a network gives
            np.testing.assert_allclose(outputs[..., 1], values[..., 1], rtol=1e-6)
        assert torch.equal(restored[..., 0], scaler.inverse_transform(scaled + 1.0)[..., 0])
        assert scaler.inverse_transform(torch.zeros(1, P, C, dtype=torch.float64))[0, 0, 1] == pytest.approx(
            kind(constant)
        )


@pytest.mark.parametrize("mode", ["channel", "point"])
def test_deviations_are_those_from_the_means_that_are_taken_off(mode):
    values = np.random.default_rng(0).normal([5.0, 0.0, -3.0], [1e-3, 1e150, 0.0], (N, P, 3))
    deviations, sizes = fitted(values, mode=mode).deviations()
    mean = values.mean(axis=0 if mode == "point" else (0, 1))
    unit = np.array([1.0, 1e150, 1.0])
    expected = [np.sqrt(np.square(part / unit).mean(axis=(0, 1))) for part in (values - mean, values)]
    np.testing.assert_allclose(deviations / unit, expected[0], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(sizes / unit, expected[1], rtol=1e-9)
    scaler = fitted(values, mode=None)
    assert all(part is scaler.size_ for part in scaler.deviations())


def test_small_spread_on_a_large_mean_is_no_constant():
    values = 1e5 + 1e-3 * np.random.default_rng(0).normal(size=(20, P, 1))
    np.testing.assert_allclose(fitted(values).scale_, values.std(), rtol=1e-6)


def test_one_sample_is_enough():
    scaler = fitted(VALUES[:1], mode="point")
    np.testing.assert_array_equal(scaler.scale_, np.ones((P, C)))
    np.testing.assert_array_equal(scaler.transform(torch.from_numpy(VALUES[:1])), np.zeros((1, P, C)))


def test_integers_are_averaged_as_floats():
    values = np.array([[[200], [250]], [[255], [251]]], np.uint8)
    scaler = fitted(values)
    assert scaler.mean_[0] == 239.0
    assert scaler.scale_[0] == pytest.approx(np.std([200, 250, 255, 251]))


def test_precision_follows_the_tensor():
    scaler, box = fitted(VALUES), BoxScaler().fit(VALUES)
    for kind in (torch.float32, torch.float64):
        tensor = torch.zeros(2, P, C, dtype=kind)
        for result in (scaler.transform(tensor), scaler.inverse_transform(tensor), box.transform(tensor)):
            assert result.dtype == kind


@pytest.mark.parametrize("shape", [(12, 2), (3, 4, 2)])
def test_box_becomes_the_unit_box(shape):
    coords = np.random.default_rng(0).normal([5.0, -1.0], [3.0, 0.1], shape)
    scaler = BoxScaler().fit(coords)
    scaled = scaler.transform(torch.from_numpy(coords)).reshape(-1, 2).numpy()
    np.testing.assert_allclose(scaled.min(0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.max(0), 1, atol=1e-12)
    flat = coords.reshape(-1, 2)
    np.testing.assert_allclose(scaled, (flat - flat.min(0)) / np.ptp(flat, axis=0), atol=1e-12)


def test_axis_without_extent_is_only_shifted():
    scaler = BoxScaler().fit(np.array([[0, 7], [4, 7]]))
    assert scaler.transform(torch.tensor([[1.0, 9.0]])).tolist() == [[0.25, 2.0]]


def test_scaling_options_are_an_estimator_of_scikit_learn():
    options = ScalingOptions(inputs="point", params=None)
    assert clone(options).get_params() == {
        "coords": "box",
        "inputs": "point",
        "params": None,
        "target_transform": None,
        "targets": "channel",
    }
    assert options.set_params(targets=None) is options
    assert options.targets is None
    assert repr(options) == "ScalingOptions(inputs='point', params=None, targets=None)"
    assert pickle.loads(pickle.dumps(options)).get_params() == options.get_params()
    with pytest.raises(TypeError, match="positional"):
        ScalingOptions("box")


def test_unknown_scalings_are_named():
    fields = FieldSet(np.zeros((5, 1)), VALUES)
    with pytest.raises(ValueError, match=r"'inputs'.*'pixel'"):
        Scalers.fit(fields, Targets(fields), np.ones(N), ScalingOptions(inputs="pixel"))


@pytest.mark.parametrize("size", [1, 10**6])
def test_targets_without_a_logarithm_are_named_in_every_sample_that_is_used(monkeypatch, size):
    """Also in the first sample of each piece in which they are read."""
    monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", size)
    for sample in (0, 4, N - 1):
        values = np.abs(VALUES)
        values[sample, 2, 1] = 0.0
        targets = Targets(FieldSet(np.zeros((P, 1)), values))
        for usable in (None, np.array([0, 4, N - 1])):
            with pytest.raises(FieldDataError, match=f"y is 0 in sample {sample}, channel 1"):
                check_positive(targets, usable)
        check_positive(targets, np.array([other for other in range(N) if other != sample]))
