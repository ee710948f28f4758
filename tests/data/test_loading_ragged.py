"""Batches of ragged samples: packing, order, random parts, and scalers, against computations by hand."""

from itertools import product

import numpy as np
import pytest
import torch

from skop import FieldSet
from skop.data import FieldLoader, Scalers, ScalingOptions, Targets, unit_grid
from skop.data._loading import batch_rows, draw_rows, is_uniform
from skop.exceptions import FieldDataError
from skop.training._parts import split_batch

SIZES = (5, 1, 9, 5)
WEIGHT = np.array([1.0, 0.5, 2.0, 1.0])


def parts(sizes=SIZES, seed=0):
    generator = np.random.default_rng(seed)
    return [10 * generator.random((size, 2)) for size in sizes], [generator.normal(3, 2, (size, 2)) for size in sizes]


def sets(sizes=SIZES, scalars=False):
    """Inputs and targets with values that tell which point they belong to."""
    points, fields = parts(sizes)
    params = np.arange(2.0 * len(sizes)).reshape(-1, 2)
    targets = [place.sum(axis=1, keepdims=True) for place in points]
    inputs = (
        FieldSet(points, fields, params=params)
        if len(set(sizes)) > 1
        else FieldSet(np.stack(points), np.stack(fields), params=params)
    )
    shaped = inputs.with_values(np.concatenate(targets) if inputs.is_ragged else np.stack(targets))
    return inputs, Targets(shaped, params[:, :1] * 100 if scalars else None)


def scalers_of(inputs, targets, /, **options):
    return Scalers.fit(inputs, targets, np.ones(len(inputs)), ScalingOptions(**options))


def loader_of(inputs, targets, **options):
    scalers = options.pop("scalers", None) or scalers_of(inputs, targets, coords=None, inputs=None, params=None)
    options = {"device": torch.device("cpu"), "dtype": torch.float64} | options
    return FieldLoader(inputs, scalers, targets=targets, **options)


# ---------------------------------------------------------------------- packing
def test_packed_samples_are_those_asked_for():
    for sort_points, indices in product([False, True], [[0, 1, 2], [2, 1], [3, 0], [1], [2, 2, 0], [0, 3]]):
        inputs, targets = sets(scalars=True)
        batch = loader_of(inputs, targets, sort_points=sort_points, weight=WEIGHT).gather(np.array(indices))
        sizes = [SIZES[i] for i in indices]
        uniform = len(set(sizes)) == 1
        assert batch.sizes == (None if uniform else tuple(sizes))
        assert len(batch) == len(indices)
        if uniform:
            assert batch.coords.shape == (len(indices), sizes[0], 2)
            assert batch.target.shape == (len(indices), sizes[0], 1)
        held = [
            torch.split(part.reshape(-1, part.shape[-1]), sizes) for part in (batch.coords, batch.fields, batch.target)
        ]
        for row, i in enumerate(indices):
            order = np.lexsort(inputs[i].coords.T[::-1]) if sort_points else slice(None)
            np.testing.assert_array_equal(held[0][row], inputs[i].coords[order])
            np.testing.assert_array_equal(held[1][row], inputs[i].values[order])
            np.testing.assert_array_equal(held[2][row], targets.field[i].values[order])
        np.testing.assert_array_equal(batch.params, inputs.params[indices])
        np.testing.assert_array_equal(batch.scalars, targets.scalars[indices])
        np.testing.assert_array_equal(batch.weight, WEIGHT[indices])


@pytest.mark.parametrize("sort_points", [False, True])
def test_neighbours_are_the_nearest_points_of_the_sample(sort_points):
    inputs, targets = sets()
    batch = loader_of(inputs, targets, sort_points=sort_points, neighbours=True).gather(np.array([2, 1, 0]))
    for near, points in zip(batch.neighbours, batch.coords.split(batch.sizes), strict=True):
        count = min(4, len(points) - 1)
        nearest = torch.cdist(points, points).argsort(dim=1)[:, 1 : count + 1]
        np.testing.assert_array_equal(near[: len(points), :count], nearest)
        # Too few points, and padding, have themselves and the first point.
        np.testing.assert_array_equal(near[: len(points), count:], np.arange(len(points))[:, None].repeat(4 - count, 1))
        assert not near[len(points) :].any()


@pytest.mark.parametrize("sort_points", [False, True])
def test_a_part_of_a_batch_is_the_batch_of_its_samples(sort_points):
    loader = loader_of(*sets(scalars=True), sort_points=sort_points, neighbours=True, weight=WEIGHT)
    found = [part for part, _, _ in split_batch(loader.gather(np.arange(4)), 2, "mean")]
    for part, rows in zip(found, ([0, 1], [2, 3]), strict=True):
        for name, held in vars(loader.gather(np.array(rows))).items():
            np.testing.assert_array_equal(getattr(part, name), held, err_msg=name)


def test_order_leads_back_to_the_caller():
    inputs, targets = sets()
    batch = loader_of(inputs, targets, sort_points=True).gather(np.array([2, 0]))
    unsorted = np.empty((14, 2))
    unsorted[batch.order] = batch.coords
    np.testing.assert_array_equal(unsorted, np.concatenate([inputs[2].coords, inputs[0].coords]))


def test_selected_rows_of_a_set():
    """Loaders see the samples of a selection, repeated ones too."""
    inputs, targets = sets()
    rows = [3, 2, 2, 1]
    batch = loader_of(inputs[rows], targets[rows], sort_points=True).gather(np.array([1, 3]))
    assert batch.sizes == (9, 1)
    np.testing.assert_array_equal(batch.target[:, 0], batch.coords.sum(dim=1))


@pytest.mark.parametrize("sizes", [SIZES, (6, 6, 6)])
def test_files_are_read_as_memory_is(tmp_path, sizes):
    inputs, targets = sets(sizes)
    file = np.memmap(tmp_path / "values", dtype=float, mode="w+", shape=inputs.values.shape)
    file[:] = inputs.values
    lazy = inputs.with_values(file).with_params(inputs.params)
    assert not lazy.in_memory
    for sort_points in (False, True):
        pair = [loader_of(held, targets, sort_points=sort_points).gather(np.array([2, 0])) for held in (inputs, lazy)]
        for name in ("coords", "fields", "params", "target"):
            np.testing.assert_array_equal(*(getattr(batch, name) for batch in pair))
        assert pair[0].sizes == pair[1].sizes


def test_batches_of_bounded_size():
    inputs, targets = sets((5, 1, 9, 5, 30, 2))
    loader = loader_of(inputs, targets)
    found = [(indices.tolist(), len(batch.coords.reshape(-1, 2))) for indices, batch in loader.bounded_batches(15)]
    assert found == [([0, 1, 2], 15), ([3], 5), ([4], 30), ([5], 2)]
    assert [indices.tolist() for indices, _ in loader.bounded_batches(0)] == [[i] for i in range(6)]
    assert [len(indices) for indices, _ in loader.bounded_batches(10**9)] == [6]


def test_scalar_targets_of_ragged_samples():
    inputs, _ = sets()
    scalar = Targets(scalars=np.arange(8.0).reshape(4, 2))
    for options in ({}, {"subsample_points": 3, "generator": torch.Generator().manual_seed(0)}):
        batch = loader_of(inputs, scalar, sort_points=True, **options).gather(np.array([2, 0]))
        np.testing.assert_array_equal(batch.scalars, scalar.scalars[[2, 0]])


# ---------------------------------------------------------------------- random parts
@pytest.mark.parametrize("sizes", [(50, 3, 20), (30, 30, 30)])
def test_drawn_points_are_a_random_part(sizes):
    inputs, targets = sets(sizes)
    loader = loader_of(
        inputs, targets, subsample_points=10, generator=torch.Generator().manual_seed(0), sort_points=True
    )
    drawn, expected = [], [min(10, size) for size in sizes]
    for _ in range(30):
        batch = loader.gather(np.arange(3))
        assert batch.sizes == (None if len(set(expected)) == 1 else tuple(expected))
        np.testing.assert_allclose(batch.target.reshape(-1), batch.coords.reshape(-1, 2).sum(dim=1))
        held = torch.split(batch.coords.reshape(-1, 2), expected)
        for i, rows in enumerate(held):
            ours = {tuple(row) for row in rows.tolist()}
            assert len(ours) == expected[i]
            assert ours <= {tuple(row) for row in inputs[i].coords.reshape(-1, 2).tolist()}
        drawn.append(held[0])
    assert len({rows.numpy().tobytes() for rows in drawn}) == 30
    # In 30 draws of 10 of 50 points each is left out with probability 0.8**30 = 0.1 %.
    assert len({tuple(row) for rows in drawn for row in rows.tolist()}) >= min(sizes[0], 50) - 1


def test_fields_are_drawn_with_their_points():
    inputs, targets = sets((40, 30))
    loader = loader_of(inputs, targets, subsample_points=8, generator=torch.Generator().manual_seed(0))
    batch = loader.gather(np.array([1, 0]))
    known = {tuple(point): tuple(values) for point, values in zip(inputs.coords, inputs.values, strict=True)}
    for point, values in zip(batch.coords.reshape(-1, 2).tolist(), batch.fields.reshape(-1, 2).tolist(), strict=True):
        assert known[tuple(point)] == tuple(values)


def test_shared_points_are_drawn_for_each_sample():
    points = np.random.default_rng(0).random((30, 2))
    values = np.broadcast_to(points.sum(axis=1)[:, None], (4, 30, 1))
    held = FieldSet(points, values)
    for count in (1, 4):
        loader = loader_of(
            held, Targets(held), subsample_points=6, generator=torch.Generator().manual_seed(0), sort_points=True
        )
        batch = loader.gather(np.arange(count))
        assert batch.coords.shape == (count, 6, 2)
        np.testing.assert_allclose(batch.fields[..., 0], batch.coords.sum(dim=-1))
        np.testing.assert_allclose(batch.target[..., 0], batch.coords.sum(dim=-1))
    assert len({rows.numpy().tobytes() for rows in batch.coords}) == 4


def test_no_more_points_than_there_are():
    inputs, targets = sets()
    whole = loader_of(inputs, targets).gather(np.arange(4))
    drawn = loader_of(inputs, targets, subsample_points=9, generator=torch.Generator()).gather(np.arange(4))
    np.testing.assert_array_equal(drawn.coords, whole.coords)
    assert drawn.sizes == whole.sizes


def test_grid_is_gone_with_the_points_left_out():
    held = FieldSet(unit_grid((4, 4)), np.ones((2, 16, 1)), grid_shape=(4, 4))
    batch = loader_of(held, Targets(held), subsample_points=6, generator=torch.Generator()).gather(np.arange(2))
    assert batch.grid_shape is None


# ---------------------------------------------------------------------- scalers
def test_statistics_of_ragged_samples():
    """Each sample counts by its weight, whatever its number of points; coordinates count by points."""
    inputs, targets = sets(scalars=True)
    scalers = Scalers.fit(inputs, targets, WEIGHT, ScalingOptions(coords="standard"))
    means = np.stack([values.mean(axis=0) for values in inputs.to_list()])
    mean = np.average(means, axis=0, weights=WEIGHT)
    squares = np.stack([((values - mean) ** 2).mean(axis=0) for values in inputs.to_list()])
    np.testing.assert_allclose(scalers.fields.mean_, mean, rtol=1e-12)
    np.testing.assert_allclose(scalers.fields.scale_, np.sqrt(np.average(squares, axis=0, weights=WEIGHT)), rtol=1e-12)
    np.testing.assert_allclose(scalers.coords.lower_, inputs.coords.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scalers.coords.span_, inputs.coords.std(axis=0), rtol=1e-12)
    for scaler, numbers in ((scalers.params, inputs.params), (scalers.scalars, targets.scalars)):
        mean = np.average(numbers, axis=0, weights=WEIGHT)
        np.testing.assert_allclose(scaler.mean_, mean, rtol=1e-12)
        spread = np.sqrt(np.average((numbers - mean) ** 2, axis=0, weights=WEIGHT))
        np.testing.assert_allclose(scaler.scale_, spread, rtol=1e-12)


def test_modes_of_coordinates_and_parameters():
    inputs, targets = sets()
    box = scalers_of(inputs, targets)
    np.testing.assert_array_equal(box.coords.lower_, inputs.coords.min(axis=0))
    np.testing.assert_array_equal(box.coords.span_, np.ptp(inputs.coords, axis=0))
    bare = scalers_of(inputs, targets, coords=None, inputs=None, params=None, targets=None)
    for scaler in (bare.fields, bare.params, bare.target):
        assert not scaler.mean_.any()
        assert (scaler.scale_ == 1).all()
    batch = loader_of(inputs, targets, scalers=box).gather(np.arange(4))
    assert batch.coords.min() == 0
    assert batch.coords.max() == 1
    np.testing.assert_allclose(batch.params.mean(dim=0), 0, atol=1e-12)
    np.testing.assert_allclose((batch.params**2).mean(dim=0), 1, rtol=1e-12)


def test_an_axis_without_extent_is_only_shifted():
    points, fields = parts()
    for item in points:
        item[:, 1] = 7.0
    inputs = FieldSet(points, fields)
    for mode in ("box", "standard"):
        scaler = scalers_of(inputs, Targets(inputs), coords=mode).coords
        assert scaler.span_[1] == 1
        np.testing.assert_array_equal(scaler.transform(torch.as_tensor(inputs.coords))[:, 1], 0.0)


def test_rounding_is_no_extent():
    """The mean of equal numbers is not exactly their value, and their spread is not exactly zero."""
    for mode, value in product(["box", "standard"], [0.1, 1e3 / 3]):
        points = np.full((1000, 2), value)
        points[:, 0] = np.linspace(0, 1, 1000)
        held = FieldSet(points, np.ones((1, 1000, 1)))
        scaler = scalers_of(held, Targets(held), coords=mode).coords
        scaled = scaler.transform(torch.as_tensor(points))
        assert abs(scaled[:, 1]).max() < 1e-9
        assert abs(scaler.transform(torch.tensor([[0.5, value * (1 + 1e-6)]]))[0, 1]) < 1e-3


def test_scale_for_each_point_needs_the_same_points():
    inputs, targets = sets()
    with pytest.raises(FieldDataError, match="'point'"):
        scalers_of(inputs, targets, inputs="point")
    with pytest.raises(FieldDataError, match="'point'"):
        scalers_of(inputs, targets, targets="point")
    uniform = sets((5, 5, 5))
    scalers = scalers_of(*uniform, inputs="point")
    with pytest.raises(FieldDataError, match="scaler 'point'"):
        loader_of(inputs, targets, scalers=scalers)


# ---------------------------------------------------------------------- rows of points
ROWS = np.array([5, 1, 9, 3])


def test_rows_of_a_batch_are_those_of_its_samples():
    offsets = np.concatenate([[0], np.cumsum(ROWS)])
    assert batch_rows(offsets, np.array([3, 1, 3])).tolist() == [15, 16, 17, 5, 15, 16, 17]
    assert batch_rows(offsets, np.array([], dtype=int)).tolist() == []


def test_drawn_rows_belong_to_their_samples_and_small_ones_are_whole():
    rows, drawn = draw_rows(ROWS, 4, torch.Generator().manual_seed(0))
    assert drawn == (4, 1, 4, 3)
    parts = np.split(rows, np.cumsum(drawn)[:-1])
    starts = np.cumsum(ROWS) - ROWS
    for part, start, size in zip(parts, starts, ROWS, strict=True):
        assert ((part >= start) & (part < start + size)).all()
        assert (np.diff(part) > 0).all()


def test_draws_repeat_with_the_generator_and_reach_all_points_alike():
    first, second = (draw_rows(ROWS, 4, torch.Generator().manual_seed(3))[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    generator = torch.Generator().manual_seed(0)
    counts = np.zeros(10)
    for _ in range(2000):
        counts[draw_rows(np.array([10]), 3, generator)[0]] += 1
    # Three of ten, with a spread of about 20 in 2000 draws.
    np.testing.assert_allclose(counts, 600, atol=100)


def test_uniform_sizes():
    for sizes, expected in [((3, 3), True), ((3, 4), False), ((1,), True), ((), True)]:
        assert is_uniform(sizes) is expected
