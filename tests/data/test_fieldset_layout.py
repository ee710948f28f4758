"""Which axes of what came are samples, points and a grid, and what fits no layout."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy import sparse

from skop import FieldSet
from skop.data import unit_grid
from skop.exceptions import FieldDataError

N, P, D, C = 6, 12, 2, 3
X, V = np.zeros((P, D)), np.zeros((N, P, C))


def test_a_grid_is_inferred_from_either_array():
    for n_samples, own_coords, gridded in product([1, 3, 4], [False, True], ["both", "coords", "values"]):
        grid = (4, 5)
        coords = unit_grid(grid).reshape(*grid, 2)
        if own_coords:
            coords = coords + np.arange(n_samples)[:, None, None, None]
        values = np.random.default_rng(0).random((n_samples, *grid, 1))
        flat_coords = coords.reshape(*coords.shape[:-3], 20, 2)
        flat_values = values.reshape(n_samples, 20, 1)
        fields = FieldSet(
            flat_coords if gridded == "values" else coords, flat_values if gridded == "coords" else values
        )
        assert fields.grid_shape == grid
        assert fields.shared_coords != own_coords
        np.testing.assert_array_equal(fields.coords, flat_coords)
        np.testing.assert_array_equal(fields.values, flat_values)
        np.testing.assert_array_equal(fields.to_grid(), values)


def test_points_of_a_single_sample_are_no_grid_of_one_row():
    coords = np.random.default_rng(0).random((1, 10, 2))
    fields = FieldSet(coords, np.zeros((1, 10, 1)))
    assert fields.grid_shape is None
    assert not fields.shared_coords
    assert fields.coords.shape == (1, 10, 2)


def test_a_single_sample_on_a_grid_of_one_row_shares_its_points():
    fields = FieldSet(unit_grid((1, 5)).reshape(1, 5, 2), np.zeros((1, 1, 5, 1)))
    assert fields.grid_shape == (1, 5)
    assert fields.shared_coords


def test_as_many_samples_as_points_are_told_apart():
    coords = np.random.default_rng(0).random((4, 4, 2))
    fields = FieldSet(coords, np.zeros((4, 4, 1)))
    assert not fields.shared_coords
    assert fields.grid_shape is None
    fields = FieldSet(coords, np.zeros((4, 16, 1)))
    assert fields.shared_coords
    assert fields.grid_shape == (4, 4)


def test_coordinates_that_may_be_a_grid_or_samples_are_refused():
    coords = unit_grid((5, 4)).reshape(5, 4, 2)
    with pytest.raises(FieldDataError, match="pass grid_shape"):
        FieldSet(coords, params=np.zeros((5, 1)))
    assert FieldSet(coords, params=np.zeros((5, 1)), grid_shape=(5, 4)).shape == (5, 20, 0)
    assert FieldSet(coords, params=np.zeros((7, 1))).grid_shape == (5, 4)
    cloud = np.random.default_rng(0).random((5, 4, 2))
    assert FieldSet(cloud, params=np.zeros((5, 1))).shape == (5, 4, 0)


def test_numbers_keep_their_type():
    for kind in [np.float16, np.float32, np.int32, np.uint8, ">f8"]:
        values = np.ones((2, P, 1)).astype(kind)
        assert FieldSet(X, values).values.dtype == np.dtype(kind)


def test_booleans_become_floats():
    fields = FieldSet(X, np.ones((2, P, 1), bool), params=np.ones((2, 1), bool))
    assert fields.values.dtype == np.float64
    assert fields.params.dtype == np.float64


WRONG = {
    "points_differ": ((X[:-1], V), {}, "do not fit"),
    "samples_differ": ((np.zeros((N - 1, P, D)), V), {}, "do not fit"),
    "values_without_channels": ((X, V[..., 0]), {}, r"values\[..., None\]"),
    "coords_one_axis": ((np.zeros(P), V), {}, "add an axis"),
    "coords_without_dimensions": ((X[:, :0], V), {}, "0 dimensions"),
    "coords_of_each_without_dimensions": ((np.zeros((N, P, 0)), V), {}, "0 dimensions"),
    "ragged_without_dimensions": (([X[:, :0], X[:2, :0]],), {}, "0 dimensions"),
    "params_count": ((X, V), {"params": np.zeros((N + 1, 1))}, "7 rows"),
    "params_one_axis": ((X, V), {"params": np.zeros(N)}, "add an axis"),
    "params_scalar": ((X, V), {"params": 3.0}, "n_params"),
    "params_text": ((X,), {"params": np.array([["a"]])}, "dtype <U1"),
    "params_complex": ((X,), {"params": np.ones((2, 1)) * 1j}, "complex"),
    "params_sparse": ((X,), {"params": sparse.eye_array(3)}, "sparse"),
    "names_count": ((X, V), {"channel_names": ["u"]}, "1 names for 3"),
    "grid_points": ((X, V), {"grid_shape": (3, 5)}, "15 points"),
    "grid_negative": ((X, V), {"grid_shape": (-3, -4)}, "grid_shape"),
    "grid_exchanged": ((np.zeros((3, 4, D)), V), {"grid_shape": (4, 3)}, "grid axes"),
    "ragged_grid": (([X, X[:2]],), {"grid_shape": (3, 4)}, "leave out grid_shape"),
    "ragged_count": (([X, X[:2]], [X]), {}, "2 samples, values has 1"),
    "ragged_points": (([X, X[:2]], [X, X[:3]]), {}, r"sample 1 .* expected \(2, 2\)"),
    "ragged_channels": (([X, X[:2]], [X, X[:2, :1]]), {}, r"sample 1 .* expected \(2, 2\)"),
    "ragged_dimensions": (([X, X[:2, :1]],), {}, "sample 1"),
    "ragged_values_number": (([X, X[:2]], 1.0), {}, "one array for each sample"),
    "ragged_text": (([X, X[:2]], [X.astype(str), X[:2].astype(str)]), {}, "dtype <U"),
    "ragged_complex": (([X + 0j, X[:2]],), {}, "complex"),
    "ragged_params": (([X, X[:2]],), {"params": np.zeros((3, 1))}, "3 rows"),
    "ragged_values_shared_coords": ((X, [V[0], V[0, :2]]), {}, "not a rectangular array"),
    "nothing_counts_samples": ((X,), {}, "give their number"),
    "empty_list": (([], []), {}, "add an axis"),
    "complex": ((X, V + 0j), {}, "real and imaginary"),
    "text": ((X, V.astype(str)), {}, "dtype <U"),
    "object": ((np.array([X, X[:2]], dtype=object), V), {}, "list of arrays"),
    "dates": ((X, V.astype("M8[s]")), {}, r"holds times \(dtype datetime64.*pass numbers"),
    "sparse": ((sparse.eye_array(P), V), {}, "toarray"),
    "masked": ((X, np.ma.masked_array(V, V == 0)), {}, "216 masked"),
    "gradients": ((X, torch.zeros(N, P, C, requires_grad=True)), {}, "detach"),
}


def test_what_does_not_fit_is_named():
    for case in WRONG:
        arguments, options, message = WRONG[case]
        with pytest.raises(FieldDataError, match=message):
            FieldSet(*arguments, **options)


def test_masked_array_without_masked_entries_is_an_array():
    fields = FieldSet(X, np.ma.masked_array(V, False))
    assert type(fields.values) is np.ndarray
