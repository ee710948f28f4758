"""Reading X and y: every form that is promised, the form that comes back, and every kind of mistake."""

import json
import warnings
from dataclasses import FrozenInstanceError, replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from skop import FieldSet
from skop.data import DataSpec, Extremes, GridResampler, Predictions, TargetForm, read, read_inputs, restore, unit_grid
from skop.data._samples import _is_field
from skop.data.forms import form_of
from skop.data.forms.points import FIELDSET, PAIRS
from skop.exceptions import FieldDataError, SkopWarning

N = 5
GRIDS = {1: (7,), 2: (4, 3), 3: (2, 3, 4)}
RANDOM = np.random.default_rng(0)
GRID = GRIDS[2]
COORDS = unit_grid(GRID)
X = RANDOM.random((N, *GRID, 2))
Y = RANDOM.random((N, *GRID, 3))
TABLE = RANDOM.random((N, 4))
FLAT_X, FLAT_Y = X.reshape(N, 12, 2), Y.reshape(N, 12, 3)
PHYSICAL = COORDS * [2.0, 5.0] + 1.0


def round_trip(X, y):
    """Read X and y, and hand the targets back as if they were predictions."""
    data = read(X, y)
    coords = data.inputs.coords if data.spec.role == "parameters" else None
    inputs, meshes = read_inputs(X, data.spec, coords=coords)
    assert meshes is None
    np.testing.assert_array_equal(inputs.coords, data.inputs.coords)
    return data, restore(data.spec.target_form, as_predictions(data), inputs)


def as_predictions(data):
    """Targets as if they had been predicted."""
    field = data.targets.field
    return Predictions(None if field is None else field.values, data.targets.scalars)


def target_of(data):
    """Name of the form of y."""
    form = data.spec.target_form
    if not data.spec.n_outputs:
        return "vector" if form.squeezes_channel else "table"
    if form.container != "array":
        return form.container
    return ("grid" if form.has_grid_axes else "points") + ("_single" if form.squeezes_channel else "")


# ---------------------------------------------------------------------- X given as fields
def test_grid_arrays():
    for n_dims, channels, kind in product(GRIDS, [1, 2], [np.float64, np.float32]):
        grid = GRIDS[n_dims]
        fields = RANDOM.random((N, *grid, 2))
        targets = RANDOM.random((N, *grid, channels)).astype(kind)
        data, back = round_trip(fields, targets)
        assert (data.spec.input_form, data.spec.role, target_of(data)) == ("grid", "fields", "grid")
        assert (data.spec.n_dims, data.spec.n_fields, data.spec.n_outputs, data.spec.n_params) == (
            n_dims,
            2,
            channels,
            0,
        )
        assert data.spec.grid_shape == data.inputs.grid_shape == data.targets.field.grid_shape == grid
        np.testing.assert_array_equal(data.inputs.coords, unit_grid(grid))
        np.testing.assert_array_equal(data.inputs.to_grid(), fields)
        assert back.dtype == kind
        assert back.shape == targets.shape
        np.testing.assert_array_equal(back, targets)


def test_every_form_of_y_comes_back():
    for n_dims, x_form, y_form in product(
        GRIDS,
        ["grid", "tuple", "fieldset"],
        ["grid", "grid_single", "points", "points_single", "vector", "table", "fieldset", "tuple"],
    ):
        grid = GRIDS[n_dims]
        coords, size = unit_grid(grid), int(np.prod(grid))
        fields = RANDOM.random((N, *grid, 1))
        flat = fields.reshape(N, size, 1)
        inputs = {"grid": fields, "tuple": (coords, flat), "fieldset": FieldSet(coords, fields)}[x_form]
        values = RANDOM.random((N, size, 2))
        targets = {
            "grid": values.reshape(N, *grid, 2), "grid_single": values[..., 0].reshape(N, *grid), "points": values,
            "points_single": values[..., 0], "vector": values[:, 0, 0], "table": values[:, 0],
            "fieldset": FieldSet(coords, values, channel_names=["u", "v"]), "tuple": (coords, values),
        }[y_form]  # fmt: skip
        data, back = round_trip(inputs, targets)
        same = {"points": "grid", "points_single": "grid_single"} if n_dims == 1 else {}
        assert target_of(data) == same.get(y_form, y_form)
        is_scalar = y_form in ("vector", "table")
        assert (data.targets.field is None) == is_scalar
        outputs = 1 if y_form in ("grid_single", "points_single", "vector") else 2
        assert (data.spec.n_outputs, data.spec.n_scalars) == ((0, outputs) if is_scalar else (outputs, 0))
        if y_form == "fieldset":
            assert type(back) is FieldSet
            assert back.channel_names == ("u", "v")
            np.testing.assert_array_equal(back.coords, coords)
            np.testing.assert_array_equal(back.values, values)
        elif y_form == "tuple":
            assert type(back) is tuple
            np.testing.assert_array_equal(back[0], coords)
            np.testing.assert_array_equal(back[1], values)
        else:
            np.testing.assert_array_equal(back, targets)


def test_coordinates_with_grid_axes():
    for fields in (X, FLAT_X):
        data, back = round_trip((PHYSICAL.reshape(*GRID, 2), fields), Y)
        assert data.spec.grid_shape == GRID
        np.testing.assert_array_equal(data.inputs.coords, PHYSICAL)
        np.testing.assert_array_equal(data.inputs.values, FLAT_X)
        np.testing.assert_array_equal(back, Y)
    data, back = round_trip((PHYSICAL.reshape(*GRID, 2), X), (PHYSICAL.reshape(*GRID, 2), Y))
    np.testing.assert_array_equal(back[1], FLAT_Y)


def test_flat_points_in_c_order_are_a_grid():
    assert read((PHYSICAL, FLAT_X), FLAT_Y).spec.grid_shape == GRID
    assert read((PHYSICAL[:, :1] * 0 + np.arange(12.0)[:, None], FLAT_X), FLAT_Y).spec.grid_shape == (12,)


def test_points_in_another_order_stay_in_it():
    order = RANDOM.permutation(12)
    data, back = round_trip((COORDS[order], FLAT_X[:, order]), FLAT_Y[:, order])
    assert data.spec.grid_shape is None
    assert target_of(data) == "grid"
    np.testing.assert_array_equal(data.inputs.coords, COORDS[order])
    np.testing.assert_array_equal(back, FLAT_Y[:, order])
    # A grid array has another order than these points: nothing can tell which value goes where.
    with pytest.raises(FieldDataError, match="does not fit"):
        read((COORDS[order], FLAT_X[:, order]), Y)


def test_y_on_other_points_than_x_is_refused():
    for form, what in product(["tuple", "fieldset"], ["order", "place", "dimension", "count", "own"]):
        order = RANDOM.permutation(12)
        coords = {"order": COORDS[order], "place": COORDS * 2, "dimension": np.pad(COORDS, ((0, 0), (0, 1))),
                  "count": COORDS[:6], "own": np.stack([COORDS, *[COORDS + 0.1] * (N - 1)])}[what]  # fmt: skip
        values = FLAT_Y[:, : coords.shape[-2]]
        y = (coords, values) if form == "tuple" else FieldSet(coords, values)
        for inputs in (X, (COORDS, FLAT_X), FieldSet(COORDS, FLAT_X)):
            with pytest.raises(FieldDataError, match=r"same points|other points"):
                read(inputs, y)


def test_own_coordinates_that_agree_are_accepted():
    own = np.stack([COORDS + i for i in range(N)])
    data, back = round_trip((own, FLAT_X), FieldSet(own, FLAT_Y))
    assert not data.inputs.shared_coords
    np.testing.assert_array_equal(back.coords, own)
    assert read((np.stack([COORDS] * N), FLAT_X), (COORDS + 1e-12, FLAT_Y)).spec.n_outputs == 3


def test_geometry_and_parameters_as_fieldsets():
    own = np.stack([COORDS + i for i in range(N)])
    data, back = round_trip((own, None), FLAT_Y)
    assert (data.spec.n_fields, data.spec.n_params) == (0, 0)
    np.testing.assert_array_equal(back, FLAT_Y)
    data, back = round_trip(FieldSet(COORDS, params=TABLE), FieldSet(COORDS, FLAT_Y))
    assert (data.spec.n_fields, data.spec.n_params, data.spec.grid_shape) == (0, 4, GRID)
    assert back.params is None
    assert back.shape == (N, 12, 3)


def test_ragged_fieldsets():
    sizes = [3, 5, 2]
    coords = [RANDOM.random((size, 2)) for size in sizes]
    fields = FieldSet(coords, [points[:, :1] for points in coords])
    data = read(fields, FieldSet(coords, [points * 2 for points in coords]))
    assert data.spec.grid_shape is None
    assert target_of(read(fields, np.arange(3.0))) == "vector"
    assert target_of(read((coords, [points[:, :1] for points in coords]), np.eye(3))) == "table"
    with pytest.raises(FieldDataError, match="differ in their points"):
        read(fields, np.zeros((3, 3, 1)))
    other = [RANDOM.random((size, 2)) for size in (3, 4, 2)]
    with pytest.raises(FieldDataError, match="same points"):
        read(fields, FieldSet(other, other))
    moved = [points + 1 for points in coords]
    with pytest.raises(FieldDataError, match="other points"):
        read(fields, FieldSet(moved, moved))
    with pytest.raises(FieldDataError, match="same points"):
        read(fields, FieldSet(COORDS, FLAT_Y[:3]))


def test_selected_fieldsets_are_read_as_selected():
    order = [3, 0, 4]
    data = read(FieldSet(COORDS, FLAT_X)[order], FieldSet(COORDS, FLAT_Y)[order])
    np.testing.assert_array_equal(data.inputs.values, FLAT_X[order])
    np.testing.assert_array_equal(data.targets.field.values, FLAT_Y[order])


# ---------------------------------------------------------------------- X given as a table
def test_table_of_features():
    for y, form, outputs in ((TABLE[:, 0], "vector", 1), (TABLE[:, :2], "table", 2), (TABLE[:, :1], "table", 1)):
        data, back = round_trip(TABLE, y)
        assert (data.spec.input_form, data.spec.role, target_of(data)) == ("table", "features", form)
        assert (data.spec.n_params, data.spec.n_fields) == (4, 0)
        assert (data.spec.n_outputs, data.spec.n_scalars) == (0, outputs)
        np.testing.assert_array_equal(data.inputs.params, TABLE)
        np.testing.assert_array_equal(back, y)
    assert round_trip(TABLE[:, :1], TABLE[:, :1])[0].spec.role == "features"


def test_tables_of_one_shape_are_scalars_and_functions_have_a_channel_axis():
    y = RANDOM.random((N, 4))
    data, back = round_trip(TABLE, y)
    assert (data.spec.role, data.spec.n_params, data.spec.n_scalars) == ("features", 4, 4)
    np.testing.assert_array_equal(back, y)
    for targets in (y, y[..., None]):
        data, back = round_trip(TABLE[..., None], targets)
        assert (data.spec.role, data.spec.grid_shape, data.spec.n_fields) == ("fields", (4,), 1)
        np.testing.assert_array_equal(data.inputs.coords[:, 0], [0, 1 / 3, 2 / 3, 1])
        np.testing.assert_array_equal(data.inputs.values[..., 0], TABLE)
        np.testing.assert_array_equal(back, targets)


@pytest.mark.parametrize(
    "y",
    [Y, (PHYSICAL, FLAT_Y), FieldSet(PHYSICAL, FLAT_Y), Y.astype(np.float32)],
    ids=["grid", "tuple", "fieldset", "single"],
)
def test_table_of_parameters(y):
    data, back = round_trip(TABLE, y)
    assert (data.spec.role, data.spec.n_params, data.spec.n_fields, data.spec.grid_shape) == ("parameters", 4, 0, GRID)
    np.testing.assert_array_equal(data.inputs.params, TABLE)
    assert data.inputs.shape == (N, 12, 0)
    if isinstance(y, np.ndarray):
        assert back.dtype == y.dtype
        np.testing.assert_array_equal(back, y)
        return
    np.testing.assert_array_equal(data.inputs.coords, PHYSICAL)
    assert type(back) is type(y)
    np.testing.assert_array_equal(back.coords if isinstance(back, FieldSet) else back[0], PHYSICAL)


def test_parameters_need_shared_points():
    own = np.stack([COORDS + i for i in range(N)])
    with pytest.raises(FieldDataError, match="share their coordinates"):
        read(TABLE, (own, FLAT_Y))
    with pytest.raises(FieldDataError, match="share their coordinates"):
        read(np.eye(2), FieldSet([COORDS, COORDS[:2]], [COORDS, COORDS[:2]]))


def test_data_frames():
    frame = pd.DataFrame(TABLE, columns=list("abcd"))
    np.testing.assert_array_equal(read(frame, Y).inputs.params, TABLE)
    assert target_of(read(frame, pd.Series(TABLE[:, 0]))) == "vector"
    assert target_of(read(X, pd.DataFrame(TABLE[:, :2]))) == "table"
    np.testing.assert_array_equal(read(X, pd.Series(TABLE[:, 0])).targets.scalars[:, 0], TABLE[:, 0])


def test_tables_are_told_from_fields():
    for item, table in [
        (TABLE, True),
        (TABLE[:, 0], True),
        (TABLE.tolist(), True),
        ([1.0, 2.0], True),
        ([], True),
        (pd.DataFrame(TABLE), True),
        (X, False),
        (X.tolist(), False),
        (list(X), False),
        ((COORDS, FLAT_X), False),
        (FieldSet(COORDS, FLAT_X), False),
        ([(COORDS, COORDS)], False),
        ([[1.0], [1.0, 2.0]], True),
        (sparse.eye_array(3), True),
    ]:
        assert form_of(item).is_table is table


def test_targets_that_bring_points():
    for y, carries in [
        (None, False),
        (TABLE, False),
        (TABLE[:, 0].tolist(), False),
        (Y, True),
        (list(Y), True),
        ((COORDS, FLAT_Y), True),
        (FieldSet(COORDS, FLAT_Y), True),
    ]:
        assert _is_field(y, form_of(y)) is carries


# ---------------------------------------------------------------------- predictions
def test_prediction_on_a_finer_grid_has_its_shape():
    spec = read(X, Y).spec
    finer = read_inputs(np.zeros((2, 8, 6, 2)), spec)[0]
    assert restore(spec.target_form, Predictions(np.zeros((2, 48, 3))), finer).shape == (2, 8, 6, 3)
    spec = read(X, Y[..., 0]).spec
    assert restore(spec.target_form, Predictions(np.zeros((2, 48, 1))), finer).shape == (2, 8, 6)


def test_predict_refuses_what_fit_did_not_see():
    for inputs, message in [
        (TABLE, "fitted on fields"),
        (X[..., :1], "1 channels.*fitted with 2"),
        (np.zeros((N, 4, 2)), "1 space dimensions.*fitted with 2"),
        (X[:0], "0 samples"),
        (FieldSet(COORDS, FLAT_X, params=TABLE), "4 parameters.*fitted with 0"),
        (np.where(X[3, 1, 1, 1] != X, X, np.nan), "sample 3, channel 1"),
        (FieldSet(COORDS, FLAT_X)[:0], "0 samples"),
    ]:
        with pytest.raises(FieldDataError, match=message):
            read_inputs(inputs, read(X, Y).spec)


def test_table_estimator_refuses_fields():
    with pytest.raises(FieldDataError, match="fitted on a 2-D table"):
        read_inputs(X, read(TABLE, TABLE[:, 0]).spec)
    with pytest.raises(FieldDataError, match=r"3 parameters.*fitted with 4"):
        read_inputs(TABLE[:, :3], read(TABLE, TABLE[:, 0]).spec)


# ---------------------------------------------------------------------- small and plain data
def test_single_samples_points_and_constants():
    assert read(X[:1], Y[:1]).inputs.shape == (1, 12, 2)
    data, back = round_trip(np.ones((3, 1, 2)), np.ones((3, 1, 1)))
    assert (data.spec.grid_shape, target_of(data), back.shape) == ((1,), "grid", (3, 1, 1))
    assert target_of(read(np.ones((3, 1, 1, 2)), np.arange(3.0))) == "vector"
    assert read(np.ones_like(X), np.zeros_like(Y)).spec.n_outputs == 3


@pytest.mark.parametrize("kind", [np.int32, np.uint8, bool])
def test_integers_and_booleans_are_predicted_as_floats(kind):
    data, back = round_trip((X > 0.5).astype(kind), (Y > 0.5).astype(kind))
    assert data.spec.target_form.dtype == "float64"
    np.testing.assert_array_equal(back, Y > 0.5)
    assert back.dtype == np.float64


def test_square_arrays_without_channels_warn():
    with pytest.warns(SkopWarning, match=r"X\[..., None\]"):
        read(np.zeros((3, 8, 8)), np.zeros(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(np.zeros((3, 8, 8, 1)), np.zeros((3, 8, 8)))


# ---------------------------------------------------------------------- mistakes
SCALARS = TABLE[:, 0]
MISTAKES = {
    "y_none": (X, None, "target y is None"),
    "counts": (X, Y[:-1], "5 samples and y has 4"),
    "counts_scalars": (X, SCALARS[:-1], "5 samples and y has 4"),
    "counts_fieldset": (X, FieldSet(COORDS, FLAT_Y[:-1]), "5 samples and y has 4"),
    "counts_table": (TABLE, Y[:-1], "5 samples and y has 4"),
    "counts_function": (TABLE, TABLE[:-1], "5 samples and y has 4"),
    "grid": (X, Y[:, :-1], "does not fit the points"),
    "grid_exchanged": (X, Y.swapaxes(1, 2), "does not fit the points"),
    "too_many_axes": (np.zeros((2,) * 6), np.zeros(2), "1 to 3 grid axes"),
    "no_samples": (X[:0], Y[:0], "0 samples"),
    "no_samples_fieldset": (FieldSet(COORDS, FLAT_X)[:0], np.zeros(0), "0 samples"),
    "no_points": ((np.zeros((0, 2)), np.zeros((3, 0, 1))), np.zeros(3), "no points"),
    "no_points_ragged": (FieldSet([COORDS, COORDS[:0]]), np.zeros(2), "sample 1 of X has no points"),
    "no_channels": (X, Y[..., :0], "no empty axis"),
    "no_scalars": (X, TABLE[:, :0], "no empty axis"),
    "no_scalars_table": (TABLE, TABLE[:, :0], "n_scalars"),
    "number": (X, 5.0, r"shape \(\)"),
    "y_without_values": (FieldSet(COORDS, params=TABLE), FieldSet(COORDS, params=TABLE), "without values"),
    "y_tuple_without_values": ((np.stack([COORDS] * N), FLAT_X), (np.stack([COORDS] * N), None), "without values"),
    "tuple_of_three": ((COORDS, FLAT_X, FLAT_X), Y, "3 items"),
    "tuple_shared_without_fields": ((COORDS, None), Y, "give their number"),
    "tuple_misfit": ((COORDS[:-1], FLAT_X), Y, "do not fit"),
    "list_of_fieldsets": ([FieldSet(COORDS, FLAT_X)], SCALARS[:1], "np.concatenate"),
    "mixed_list": ([(COORDS, COORDS), COORDS], SCALARS[:2], "sample 1 of X is not a tuple"),
    "list_of_shapes": ([X[0], X[1, :2]], SCALARS[:2], "different shapes"),
    "y_list_of_shapes": (X, [Y[0], Y[1, :2]], "rectangular"),
    "complex": (X + 1j, Y, "X: complex"),
    "complex_y": (X, Y + 1j, "y: complex"),
    "complex_table": (TABLE + 1j, Y, "complex"),
    "text": (X.astype(str), Y, "X has dtype <U"),
    "text_y": (X, np.array(list("abcde")), "of y holds 'a' in row 0"),
    "object": (X.astype(object), Y, "X has dtype object"),
    "dates": (X, Y.astype("M8[s]"), r"y holds times \(dtype datetime64.*pass numbers"),
    "sparse": ((COORDS, FLAT_X), sparse.eye_array(N), "y is a sparse"),
    "sparse_table": (sparse.eye_array(N), Y, "dtype object|sparse"),
    "masked": (np.ma.masked_array(X, X > 0.5), Y, "masked"),
    "masked_y": (X, np.ma.masked_array(Y, Y > 0.5), "masked"),
    "frame_of_text": (pd.DataFrame({"a": list("vwxyz")}), Y, "column 'a' of X holds 'v'"),
    "nothing": (None, Y, "X is None"),
    "dictionary": ({"a": 1}, Y, "X is a dict; expected a table"),
    "records": (
        pd.DataFrame({"a": SCALARS}).to_records(),
        Y,
        r"X is a structured array; .* Pass pandas.DataFrame\(X\)",
    ),
}


def test_mistakes_are_named():
    for case in MISTAKES:
        inputs, targets, message = MISTAKES[case]
        with pytest.raises(FieldDataError, match=message):
            read(inputs, targets)


def test_geometries_of_points():
    grid = unit_grid((5, 3)).reshape(5, 3, 2)
    sheared = grid + 0.1 * grid[..., ::-1] * [1, 0]
    cases = {
        "grid": [grid, grid[::-1], grid[..., ::-1], np.swapaxes(grid, 0, 1).copy()],
        "structured": [sheared, np.swapaxes(grid, 0, 1).reshape(5, 3, 2), np.stack([grid] * 2)],
        "points": [RANDOM.random((15, 2))],
    }
    for geometry, places in cases.items():
        for coords in places:
            points = coords.shape[1:-1] if coords.ndim == 4 else coords.shape[:-1]
            fields = FieldSet(coords, np.ones((2, *points, 1)))
            assert read(fields, fields).spec.geometry == geometry


# ---------------------------------------------------------------------- forms by their shapes, and the way back
def ragged(sizes=(5, 1, 7)):
    """Points of each sample, and fields of two channels."""
    generator = np.random.default_rng(0)
    points = [generator.random((size, 2)) for size in sizes]
    return points, [generator.random((size, 2)) for size in sizes]


def pairs(points, fields):
    """A list of (coords, fields)."""
    return list(zip(points, fields, strict=True))


def test_predictions_of_other_sizes_come_as_lists_where_y_was_an_array():
    generator = np.random.default_rng(0)
    data = read(FieldSet(generator.random((6, 2)), generator.random((3, 6, 1))), generator.random((3, 6)))
    points, fields = ragged()
    flat = np.concatenate(fields)[:, :1]
    found = restore(data.spec.target_form, Predictions(flat), FieldSet(points, fields))
    assert [item.shape for item in found] == [(5,), (1,), (7,)]


def test_lists_of_one_shape_are_read_as_points_with_a_warning():
    points, fields = ragged((6, 6, 6))
    with pytest.warns(SkopWarning, match="2-D points"):
        data = read(points, fields)
    assert (data.spec.n_fields, data.spec.n_dims, data.spec.geometry) == (0, 2, "points")


def test_sizes_and_scalars_are_counted():
    points, fields = ragged()
    y = FieldSet(points, fields, params=np.ones((3, 4)))
    spec = read(FieldSet(points, fields, params=np.ones((3, 2))), y).spec
    assert (spec.n_fields, spec.n_params, spec.n_outputs, spec.n_scalars) == (2, 2, 2, 4)
    spec = read(points, np.ones((3, 4))).spec
    assert (spec.n_outputs, spec.n_scalars) == (0, 4)


def test_kinds_are_told_apart():
    points, fields = ragged()
    held = np.empty(3, dtype=object)
    held[:] = points
    for item, name in (
        (held, "list"),
        (points, "list"),
        (pairs(points, fields), "pairs"),
        ([(points[0], None)], "pairs"),
        ([[1.0, 2.0]], "table"),
        ([np.zeros(3)], "table"),
        ([], "table"),
        ([np.zeros((4, 4, 1))], "grid"),
        (FieldSet(points, fields), "fieldset"),
    ):
        assert form_of(item).name == name
    assert _is_field(FieldSet(points, fields), FIELDSET)
    assert _is_field(pairs(points, fields), PAIRS)
    assert not _is_field(None, form_of(None))
    assert not _is_field(np.zeros(3), form_of(np.zeros(3)))


def test_predictions_without_content_are_refused():
    points, _ = ragged()
    with pytest.raises(ValueError, match="neither"):
        restore(read(points, np.ones(3)).spec.target_form, Predictions(None), FieldSet(points))


def test_points_of_y_must_be_those_of_x():
    points, fields = ragged()
    moved = [item + 0.1 for item in points]
    for y in (FieldSet(moved, fields), pairs(moved, fields), (moved, fields)):
        with pytest.raises(FieldDataError, match=r"point|coord"):
            read(points, y)


# ---------------------------------------------------------------------- values that are no numbers
def spoiled(array, place, value):
    array = np.array(array)
    array[place] = value
    return array


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_located(value):
    with pytest.raises(FieldDataError, match=r"X .*sample 3, channel 1"):
        read(spoiled(X, (3, 0, 2, 1), value), Y)
    with pytest.raises(FieldDataError, match=r"y .*sample 4, channel 2"):
        read(X, spoiled(Y, (4, 3, 1, 2), value))
    with pytest.raises(FieldDataError, match=r"y .*sample 2, scalar 0"):
        read(TABLE, spoiled(SCALARS, 2, value))
    with pytest.raises(FieldDataError, match=r"X .*sample 1, parameter 3"):
        read(spoiled(TABLE, (1, 3), value), Y)
    with pytest.raises(FieldDataError, match=r"X .*coordinates.*point 7, coordinate 1"):
        read((spoiled(COORDS, (7, 1), value), FLAT_X), FLAT_Y)


def test_bad_value_of_a_ragged_sample_is_located(monkeypatch):
    sizes = [3, 5, 2, 4]
    coords = [RANDOM.random((size, 2)) for size in sizes]
    fields = [points.copy() for points in coords]
    fields[2][0, 1] = np.nan
    for chunk in (1, 10**6):
        monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", chunk)
        with pytest.raises(FieldDataError, match="sample 2, channel 1"):
            read(FieldSet(coords, fields), np.zeros(4))


def test_bad_value_of_a_memory_map_is_found_by_streaming(tmp_path, monkeypatch):
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(40, 6, 5, 2))
    mapped[:] = 0.5
    mapped[33, 5, 4, 1] = np.inf
    mapped.flush()
    monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", 60 * 4)
    sizes = []
    of = Extremes.of
    monkeypatch.setattr(Extremes, "of", lambda values, *rest: sizes.append(np.size(values)) or of(values, *rest))
    with pytest.raises(FieldDataError, match="sample 33, channel 1"):
        read(np.load(tmp_path / "x.npy", mmap_mode="r"), np.zeros(40))
    assert 0 < max(sizes) <= 60 * 4


def test_bad_coordinates_are_named_before_points_are_compared():
    bad = FieldSet(np.stack([COORDS, spoiled(COORDS, (7, 1), np.nan)]), FLAT_Y[:2])
    with pytest.raises(FieldDataError, match=r"X .*coordinates, first in sample 1, point 7, coordinate 1"):
        read(bad, bad)
    good = FieldSet(np.stack([COORDS, COORDS]), FLAT_X[:2])
    with pytest.raises(FieldDataError, match=r"y .*coordinates, first in sample 1, point 7, coordinate 1"):
        read(good, bad)
    ragged = FieldSet([COORDS[:5], spoiled(COORDS[:9], (2, 0), np.inf)])
    with pytest.raises(FieldDataError, match=r"X .*coordinates, first in sample 1, point 2, coordinate 0"):
        read(ragged, np.zeros(2))


def test_a_bad_value_of_a_named_channel_is_named():
    with pytest.raises(FieldDataError, match=r"X .*sample 3, channel 'v'"):
        read(FieldSet(COORDS, spoiled(FLAT_X, (3, 2, 1), np.nan), channel_names=["u", "v"]), FLAT_Y)


# ---------------------------------------------------------------------- what a saved estimator remembers
FORM = TargetForm("meshes", "float32", channel_names=("u", "v"), components=(("u", 1), ("v", 1)))
CONTENT = {
    "input_form": "grid", "role": "fields", "target_form": FORM, "n_dims": 2, "n_fields": 3, "n_params": 1,
    "n_outputs": 1, "grid_shape": (8, 4), "n_scalars": 0, "geometry": "grid", "kept_axes": (0, 2),
    "resampler": GridResampler((0.0, 0.0), (1.0, 2.0), (4, 5)),
}  # fmt: skip


def test_json_gives_an_equal_spec():
    for changes in [
        {},
        {"grid_shape": None},
        {"kept_axes": None, "resampler": None},
        {"target_form": TargetForm("array")},
    ]:
        spec = DataSpec(**(CONTENT | changes))
        again = DataSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
        assert again == spec
        assert hash(again) == hash(spec)
        assert again.grid_shape == (CONTENT | changes)["grid_shape"]


def test_every_attribute_counts():
    spec = DataSpec(**CONTENT)
    for name in CONTENT:
        assert DataSpec(**(CONTENT | {name: "other"})) != spec
    for name in ("container", "dtype", "squeezes_channel", "has_grid_axes", "channel_names", "components"):
        assert replace(FORM, **{name: "other"}) != FORM
    with pytest.raises(FrozenInstanceError):
        spec.n_dims = 3


def test_the_network_sees_the_data_or_the_grid():
    spec = DataSpec(**CONTENT | {"geometry": "points", "grid_shape": None})
    seen = spec.network_spec
    assert (seen.geometry, seen.grid_shape, seen.n_fields, seen.resampler) == ("grid", (4, 5), 3, None)
    assert seen.network_spec is seen
    with_distance = replace(spec, resampler=replace(spec.resampler, distance=True))
    assert with_distance.network_spec.n_fields == 4
