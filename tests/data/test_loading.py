"""Batches: scaled as the formulas say, the same from memory and from files, in the order asked for."""

import pickle
import warnings
from itertools import product

import h5py
import numpy as np
import pytest
import torch

from skop import FieldSet
from skop.data import FieldLoader, GridSymmetries, Scalers, ScalingOptions, Targets, unit_grid
from skop.exceptions import FieldDataError

N, GRID, CPU = 7, (4, 4), torch.device("cpu")
RANDOM = np.random.default_rng(0)
COORDS = unit_grid(GRID) * 3.0 + [1.0, -2.0]
FIELDS = RANDOM.normal(5.0, 2.0, (N, 16, 2))
TARGETS = RANDOM.normal(-1.0, 0.5, (N, 16, 3))
PARAMS = RANDOM.normal(100.0, 10.0, (N, 2))
WEIGHT = np.arange(1.0, N + 1)


def sets():
    return FieldSet(COORDS, FIELDS, params=PARAMS, grid_shape=GRID), Targets(FieldSet(COORDS, TARGETS, grid_shape=GRID))


def loader_of(inputs, targets=None, *, scalers=None, dtype=torch.float64, **options):
    if scalers is None:
        scalers = Scalers.fit(inputs, targets, np.ones(len(inputs)), ScalingOptions())
    return FieldLoader(inputs, scalers, targets=targets, device=CPU, dtype=dtype, **options)


def all_of(loader, size=3, order=None):
    """All batches of a loader joined: name -> array."""
    batches = list(loader.batches(size, order))
    names = ("fields", "params", "target", "scalars", "weight")
    return {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in names
            if getattr(batches[0], name) is not None}  # fmt: skip


def standard(values, axes):
    return (values - values.mean(axes)) / values.std(axes)


# ---------------------------------------------------------------------- contents
def test_tensors_are_scaled_as_the_formulas_say():
    loader = loader_of(*sets(), weight=WEIGHT)
    found = all_of(loader)
    np.testing.assert_allclose(found["fields"], standard(FIELDS, (0, 1)), rtol=1e-10)
    np.testing.assert_allclose(found["params"], standard(PARAMS, 0), rtol=1e-10)
    np.testing.assert_array_equal(found["target"], TARGETS)
    np.testing.assert_array_equal(found["weight"], WEIGHT)
    batch = loader.gather(np.array([2]))
    np.testing.assert_allclose(batch.coords, unit_grid(GRID), atol=1e-12)
    assert batch.grid_shape == GRID
    assert set(batch.inputs()) == {"coords", "fields", "params", "grid_shape"}


def test_scalers_weigh_samples():
    inputs, targets = sets()
    counts = np.array([0, 2, 1, 0, 3, 1, 1])
    rows = np.repeat(np.arange(N), counts)
    weighted = Scalers.fit(inputs, targets, counts.astype(float), ScalingOptions(targets="point"))
    repeated = Scalers.fit(inputs[rows], targets[rows], np.ones(len(rows)), ScalingOptions(targets="point"))
    for name in ("fields", "params", "target"):
        np.testing.assert_allclose(getattr(weighted, name).mean_, getattr(repeated, name).mean_, rtol=1e-12)
        np.testing.assert_allclose(getattr(weighted, name).scale_, getattr(repeated, name).scale_, rtol=1e-10)
    assert weighted.target.mean_.shape == (16, 3)


def test_statistics_of_pieces_are_those_of_the_whole(monkeypatch):
    inputs, targets = sets()
    whole = Scalers.fit(inputs, targets, WEIGHT, ScalingOptions())
    monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", 70)
    pieces = Scalers.fit(inputs, targets, WEIGHT, ScalingOptions())
    np.testing.assert_allclose(whole.fields.mean_, pieces.fields.mean_, rtol=1e-13)
    np.testing.assert_allclose(whole.target.scale_, pieces.target.scale_, rtol=1e-13)


def test_samples_of_different_size_count_alike():
    coords = [RANDOM.random((size, 2)) for size in (3, 30)]
    fields = FieldSet(coords, [np.zeros((3, 1)), np.full((30, 1), 4.0)])
    scalers = Scalers.fit(fields, Targets(fields), np.array([1.0, 3.0]), ScalingOptions())
    assert scalers.fields.mean_ == pytest.approx([3.0])
    assert scalers.fields.scale_ == pytest.approx([np.sqrt(3.0)])
    with pytest.raises(FieldDataError, match="same points in every sample"):
        Scalers.fit(fields, Targets(fields), np.ones(2), ScalingOptions(inputs="point"))


def test_what_is_missing_stays_missing():
    inputs, targets = FieldSet(COORDS, params=PARAMS), Targets(FieldSet(COORDS, TARGETS))
    batch = loader_of(inputs, targets).gather(np.array([1, 0]))
    assert batch.fields is None
    assert batch.weight is None
    assert len(batch) == 2
    own = np.stack([COORDS + i for i in range(N)])
    batch = loader_of(FieldSet(own), targets).gather(np.array([4, 1, 1]))
    assert batch.params is None
    assert len(batch) == 3
    box = (own - own.min((0, 1))) / np.ptp(own, axis=(0, 1))
    np.testing.assert_allclose(batch.coords, box[[4, 1, 1]], atol=1e-12)


def test_order_and_size_of_batches():
    for order, size in product([None, [3, 0, 6, 1], [2, 2, 5], [6, 5, 4, 3, 2, 1, 0]], [1, 3, 100]):
        loader = loader_of(*sets(), weight=WEIGHT)
        rows = np.arange(N) if order is None else np.array(order)
        found = all_of(loader, size, None if order is None else rows)
        np.testing.assert_array_equal(found["target"], TARGETS[rows])
        np.testing.assert_array_equal(found["weight"], WEIGHT[rows])
        sizes = [len(batch) for batch in loader.batches(size, None if order is None else rows)]
        assert sizes == [len(rows[start : start + size]) for start in range(0, len(rows), size)]


# ---------------------------------------------------------------------- where the numbers live
def test_files_give_exactly_what_memory_gives(tmp_path):
    for kind, dtype in product(["map", "hdf5", "chunked"], [torch.float32, torch.float64]):
        stored = {}
        with h5py.File(tmp_path / "f.h5", "w") as file:
            for name, array in (("x", FIELDS), ("y", TARGETS)):
                if kind == "map":
                    np.save(tmp_path / f"{name}.npy", array)
                    stored[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
                else:
                    stored[name] = file.create_dataset(
                        name, data=array, chunks=(2, 16, 1) if kind == "chunked" else None
                    )
            inputs = FieldSet(COORDS, stored["x"], params=PARAMS, grid_shape=GRID)
            targets = Targets(FieldSet(COORDS, stored["y"], grid_shape=GRID))
            rows = np.array([5, 1, 6, 1, 0])
            memory = sets()
            for a, b in ((slice(None), np.arange(N)), ([0, 2, 3, 5], np.array([0, 2, 3, 5]))):
                order = rows % len(b)
                lazy = all_of(loader_of(inputs[a], targets[a], dtype=dtype), 2, order)
                held = all_of(loader_of(memory[0][b], memory[1][b], dtype=dtype), 2, order)
                assert lazy.keys() == held.keys() == {"fields", "params", "target"}
                for name in lazy:
                    assert lazy[name].dtype == held[name].dtype
                    np.testing.assert_array_equal(lazy[name], held[name])


def test_symmetries_are_the_same_from_memory_and_from_files(tmp_path):
    np.save(tmp_path / "x.npy", FIELDS)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    symmetries = GridSymmetries(["flip_x", "transpose"], GRID, [(0, 1)])
    found = [
        all_of(loader_of(FieldSet(COORDS, values), sets()[1], symmetries=symmetries,
                         generator=torch.Generator().manual_seed(3)))
        for values in (FIELDS, mapped)
    ]  # fmt: skip
    for name in found[0]:
        np.testing.assert_array_equal(found[0][name], found[1][name])


def test_read_only_arrays_raise_no_warning_and_are_copied():
    arrays = [array.copy() for array in (COORDS, FIELDS, TARGETS, PARAMS)]
    for array in arrays:
        array.flags.writeable = False
    coords, fields, targets, params = arrays
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inputs = FieldSet(coords, fields, params=params)
        loader = loader_of(inputs, Targets(FieldSet(coords, targets)), weight=WEIGHT)
        batch = loader.gather(np.arange(N))
    for tensor in (batch.coords, batch.fields, batch.params, batch.target, batch.weight):
        tensor.add_(1)
    np.testing.assert_array_equal(fields, FIELDS)
    np.testing.assert_array_equal(targets, TARGETS)


def test_every_kind_of_number_becomes_a_tensor():
    for kind in [">f8", ">f4", "<f2", np.longdouble, np.int16, ">i4", np.uint8, np.uint16, bool]:
        values = np.round(FIELDS).clip(0).astype(kind)
        loader = loader_of(FieldSet(COORDS, values), Targets(FieldSet(COORDS, values)), dtype=torch.float32)
        np.testing.assert_array_equal(loader.gather(np.arange(N)).target, values.astype(np.float32))


def test_scalers_survive_a_pickle():
    inputs, targets = sets()
    scalers = Scalers.fit(inputs, targets, WEIGHT, ScalingOptions(inputs="point"))
    again = pickle.loads(pickle.dumps(scalers))
    np.testing.assert_array_equal(
        all_of(loader_of(inputs, scalers=again))["fields"], all_of(loader_of(inputs, scalers=scalers))["fields"]
    )


# ---------------------------------------------------------------------- symmetries and mistakes
def test_input_and_target_of_a_sample_move_together():
    labels = np.arange(16.0)[:, None] + 100 * np.arange(N)[:, None, None]
    inputs = FieldSet(COORDS, labels, grid_shape=GRID)
    targets = Targets(FieldSet(COORDS, np.concatenate([labels, -labels], axis=-1), grid_shape=GRID))
    symmetries = GridSymmetries(["flip_x", "transpose", "shift_y"], GRID)
    scalers = Scalers.fit(inputs, targets, np.ones(N), ScalingOptions(inputs=None, targets=None))
    generator = torch.Generator().manual_seed(0)
    loader = loader_of(inputs, targets, scalers=scalers, symmetries=symmetries, generator=generator)
    found = all_of(loader, 4, np.arange(N)[::-1].copy())
    np.testing.assert_array_equal(found["target"][..., 0], found["fields"][..., 0])
    np.testing.assert_array_equal(found["target"][..., 1], -found["fields"][..., 0])
    np.testing.assert_array_equal(found["fields"].min((1, 2)), 100 * np.arange(N)[::-1])
    assert len({tuple(row) for row in (found["fields"][..., 0] % 100).tolist()}) > 3
    assert not np.array_equal(all_of(loader)["fields"], all_of(loader)["fields"])


def test_vectors_turn_before_they_are_scaled():
    symmetries = GridSymmetries(["flip_x"], GRID, [(0, 1)], [(1, 2)])
    loader = loader_of(*sets(), symmetries=symmetries, generator=torch.Generator().manual_seed(0))
    batch = loader.gather(np.arange(N))
    fields = loader.scalers.fields.inverse_transform(batch.fields).numpy().reshape(N, *GRID, 2)
    target = batch.target.numpy().reshape(N, *GRID, 3)
    flipped = 0
    for i in range(N):
        same = np.allclose(fields[i], FIELDS[i].reshape(*GRID, 2))
        sign = np.array([1.0, 1.0]) if same else np.array([-1.0, 1.0])
        step = 1 if same else -1
        np.testing.assert_allclose(fields[i], FIELDS[i].reshape(*GRID, 2)[::step] * sign)
        np.testing.assert_allclose(target[i], TARGETS[i].reshape(*GRID, 3)[::step] * [1.0, *sign])
        flipped += not same
    assert 0 < flipped < N


def test_scalar_targets_stay_while_fields_move():
    targets = Targets(scalars=np.arange(2.0 * N).reshape(N, 2))
    symmetries = GridSymmetries(["transpose"], GRID)
    loader = loader_of(sets()[0], targets, symmetries=symmetries, generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(all_of(loader)["scalars"], targets.scalars)


def test_symmetries_that_do_not_fit_are_refused():
    inputs, targets = sets()
    with pytest.raises(FieldDataError, match="not there"):
        loader_of(inputs, targets, symmetries=GridSymmetries(["flip_x"], GRID, [(1, 2)]))
    with pytest.raises(FieldDataError, match="not there"):
        loader_of(inputs, targets, symmetries=GridSymmetries(["flip_x"], GRID, (), [(1, 3)]))
    stretched = FieldSet(COORDS * [1.0, 2.0], FIELDS)
    with pytest.raises(FieldDataError, match="onto each other"):
        loader_of(stretched, targets, symmetries=GridSymmetries(["transpose"], GRID))


@pytest.mark.parametrize("what", ["input", "target"])
def test_scales_for_each_point_tie_to_the_grid(what):
    inputs, targets = sets()
    modes = ("point", "channel") if what == "input" else ("channel", "point")
    scalers = Scalers.fit(inputs, targets, WEIGHT, ScalingOptions(inputs=modes[0], targets=modes[1]))
    assert len(list(loader_of(inputs, scalers=scalers).batches(2))) == 4
    other = FieldSet(unit_grid((5, 5)), np.zeros((2, 25, 2)), params=PARAMS[:2])
    with pytest.raises(FieldDataError, match=f"one {what} scale for each of 16 points"):
        loader_of(other, scalers=scalers)
    scalar = Scalers.fit(inputs, Targets(scalars=PARAMS), WEIGHT, ScalingOptions(targets="point"))
    assert loader_of(other, scalers=scalar).gather(np.array([0])).fields.shape == (1, 25, 2)
