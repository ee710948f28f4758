"""What fit and predict refuse, with which words, and the odd things that must work."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.model_selection import KFold, cross_val_score, train_test_split
from sklearn.utils._param_validation import InvalidParameterError

from skop import (
    AutoRegressor,
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    MeanFieldRegressor,
    PODRegressor,
    TrainingOptions,
)
from skop.data import check_index, unit_grid
from skop.data.forms.table import split_params
from skop.exceptions import FieldDataError, SkopWarning
from skop.inspection import describe_data
from skop.parts import GridSSD
from skop.testing._samples import state_of

GRID = (6, 4)
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(5, *GRID, 2)), RANDOM.normal(size=(5, *GRID, 1))
TABLE, SCALARS = RANDOM.normal(size=(5, 3)), RANDOM.normal(size=5)
COORDS = unit_grid(GRID)
FLAT = X.reshape(5, 24, 2)
DAYS = pd.date_range("2026-01-01", periods=5)
SPARSE = pd.DataFrame(TABLE, columns=["L", "r", "E"]).astype(pd.SparseDtype(float))


def small(**params):
    return LaMORegressor().set_params(
        **({"width": 8, "depth": 1, "batch_size": 4, "max_iter": 1, "base": None, "random_state": 0} | params)
    )


def with_value(array, place, value):
    changed = np.array(array, dtype=float)
    changed[place] = value
    return changed


def frame(table):
    """A table with names of rows and columns."""
    return pd.DataFrame(table, [f"run_{row}" for row in range(len(table))], ["L", "r", "E"])


def short(array):
    """A tensor of a type that NumPy lacks."""
    return torch.tensor(array, dtype=torch.bfloat16)


def ragged(n_channels=1):
    sizes = (4, 6)
    return FieldSet([np.zeros((size, 2)) for size in sizes], [np.zeros((size, n_channels)) for size in sizes])


#: Small latent tokens, for points.
LATENTS = {"latents__n_tokens": 4, "latents__n_heads": 2, "max_iter": 1}
#: Numbers of points of ragged samples.
SIZES = (12, 7, 1, 20, 9, 12)


def samples(sizes=SIZES, n_channels=2):
    generator = np.random.default_rng(0)
    points = [generator.random((size, 2)) for size in sizes]
    fields = [generator.normal(size=(size, n_channels)) for size in sizes]
    return points, fields, [1 + field[:, :1] for field in fields]


def replaced(items, place, item):
    return [*items[:place], item, *items[place + 1 :]]


def poisoned(items, place, value=np.nan):
    array = items[place].copy()
    array.flat[-1] = value
    return replaced(items, place, array)


def zipped(points, fields):
    return list(zip(points, fields, strict=True))


POINTS, FIELDS, TARGETS = samples()
PAIRS = list(zip(POINTS, FIELDS, strict=True))
SINGLE = [target[:, 0] for target in TARGETS]
TWO = [np.zeros((12, 2)), np.zeros((12, 2))]

# name: (X, y, parameters of the estimator, arguments of fit, words of the message)
REFUSED_BY_FIT = {
    "six axes": (np.zeros((2, 2, 2, 2, 2, 1)), np.zeros(2), {}, {}, ["(2, 2, 2, 2, 2, 1)", "1 to 3 grid axes"]),
    "no sample": (X[:0], Y[:0], {}, {}, ["(0, 6, 4, 2)", "0 samples"]),
    "empty FieldSet": (FieldSet(COORDS, FLAT)[:0], SCALARS[:0], {}, {}, ["X", "0 samples"]),
    "no channel": (X[..., :0], Y, {}, {}, ["(5, 6, 4, 0)", "length 0"]),
    "no point": (X[:, :0], Y[:, :0], {}, {}, ["length 0"]),
    "other number of samples": (X, Y[:4], {}, {}, ["X has 5 samples", "y has 4"]),
    "other number of scalars": (X, SCALARS[:3], {}, {}, ["X has 5 samples", "y has 3"]),
    "y on another grid": (X, Y[:, :5], {}, {}, ["y has shape (5, 5, 4, 1)", "(n, 6, 4, channels)"]),
    "y as FieldSet on other points": (X, FieldSet(COORDS[:9], Y.reshape(5, 24, 1)[:, :9]), {}, {}, ["9 points", "24"]),
    "y without values": (X, FieldSet(COORDS, params=TABLE), {}, {}, ["y", "without values"]),
    "no y": (X, None, {}, {}, ["requires y"]),
    "NaN in X": (with_value(X, (3, 1, 2, 1), np.nan), Y, {}, {}, ["X", "NaN", "sample 3", "channel 1"]),
    "infinity in X": (with_value(X, (2, 0, 0, 0), -np.inf), Y, {}, {}, ["X", "infinity", "sample 2", "channel 0"]),
    "NaN in y": (X, with_value(Y, (4, 0, 0, 0), np.nan), {}, {}, ["y", "NaN", "sample 4", "channel 0"]),
    "NaN in scalars": (X, with_value(SCALARS, 1, np.nan), {}, {}, ["y", "NaN", "sample 1"]),
    "NaN in coordinates": (
        (with_value(COORDS, (7, 1), np.nan), FLAT),
        Y.reshape(5, 24, 1),
        {},
        {},
        ["NaN", "coordinates", "point 7, coordinate 1"],
    ),
    "NaN in parameters": (
        FieldSet(COORDS, FLAT, params=with_value(TABLE, (2, 1), np.nan), grid_shape=GRID),
        Y,
        {},
        {},
        ["NaN", "params", "sample 2, parameter 1"],
    ),
    "NaN in a table": (with_value(TABLE, (0, 2), np.nan), SCALARS, {}, {}, ["X", "NaN", "sample 0, parameter 2;"]),
    "infinity in a DataFrame": (
        frame(with_value(TABLE, (3, 1), np.inf)),
        Y,
        {},
        {},
        ["X", "infinity", "sample 3 (run_3), parameter 'r'"],
    ),
    "dates in a table": (frame(TABLE).assign(r=DAYS), SCALARS, {}, {}, ["column 'r' of X", "2026-01-01", "Timedelta"]),
    "decimal commas in y": (TABLE, pd.Series(["0,5"] * 5, name="peak"), {}, {}, ["column 'peak' of y", "decimal=','"]),
    "a dict": ({"r": SCALARS}, SCALARS, {}, {}, ["X is a dict", "pandas.DataFrame(X)"]),
    "NaN in a Series": (
        TABLE,
        frame(with_value(TABLE, (3, 1), np.nan))["r"],
        {},
        {},
        ["y", "sample 3 (run_3), scalar"],
    ),
    "a list of dicts": ([{"r": 1.0}] * 5, SCALARS, {}, {}, ["X is a list of dict", "pandas.DataFrame(X)"]),
    "dicts beside fields": (X, [{"r": 1.0}] * 5, {}, {}, ["y is a list of dict", "pandas.DataFrame(y)"]),
    "sparse columns": (SPARSE, SCALARS, {}, {}, ["X has sparse columns", "X.sparse.to_dense()"]),
    "sparse columns of zeros": (
        frame(TABLE).astype(pd.SparseDtype(float, 0)),
        SCALARS,
        {},
        {},
        ["X.sparse.to_dense()"],
    ),
    "sparse columns of y": (TABLE, SPARSE, {}, {}, ["y has sparse columns", "y.sparse.to_dense()"]),
    "a complex table": (TABLE + 1j, SCALARS, {}, {}, ["X: Complex data not supported (dtype complex128)", "columns"]),
    "complex scalars": (TABLE, SCALARS + 1j, {}, {}, ["y: Complex data not supported (dtype complex128)", "columns"]),
    "short floats": (short(X), Y, {}, {}, ["X is a tensor of torch.bfloat16", "X.float()"]),
    "a table of short floats": (short(TABLE), SCALARS, {}, {}, ["X is a tensor of torch.bfloat16"]),
    "complex fields": (X + 1j, Y, {}, {}, ["X", "complex", "two channels"]),
    "complex target": (X, Y + 1j, {}, {}, ["y", "complex"]),
    "fields of times": (X.astype("datetime64[s]"), Y, {}, {}, ["X holds times (dtype datetime64[s])", "timedelta64(1"]),
    "text": (X.astype(str), Y, {}, {}, ["X", "dtype", "numbers"]),
    "objects": (X.astype(object), Y, {}, {}, ["X", "object"]),
    "sparse table": (sparse.csr_array(TABLE), SCALARS, {}, {}, ["dense"]),
    "sparse target": (X, sparse.csr_array(Y.reshape(5, -1)), {}, {}, ["y", "sparse", "toarray"]),
    "ragged list": ([X[0], X[1][:5]], Y[:2], {}, {}, ["(6, 4, 2)", "(5, 4, 2)"]),
    "ragged FieldSet as a grid": (ragged(), np.zeros(2), {"geometry": "grid"}, {}, ["geometry='grid'", "form no grid"]),
    "points as a grid": ((RANDOM.random((24, 2)), FLAT), FLAT, {"geometry": "structured"}, {}, ["regular grid"]),
    "tuple of three": ((COORDS, FLAT, FLAT), Y, {}, {}, ["3 items", "(coords, fields)"]),
    "parameters with meshes that differ": (
        TABLE,
        FieldSet(np.stack([COORDS + i for i in range(5)]), FLAT),
        {},
        {},
        ["global parameters", "share"],
    ),
    "weights all zero": (X, Y, {}, {"sample_weight": np.zeros(5)}, ["weight", "zero"]),
    "negative weight": (X, Y, {}, {"sample_weight": np.array([1, 1, -1, 1, 1])}, ["Negative", "sample_weight"]),
    "NaN weight": (X, Y, {}, {"sample_weight": with_value(np.ones(5), 0, np.nan)}, ["sample_weight", "NaN"]),
    "too few weights": (X, Y, {}, {"sample_weight": np.ones(4)}, ["sample_weight", "(4,)"]),
    "validation of one sample": (
        X[:1],
        Y[:1],
        {"early_stopping": True},
        {},
        ["1 of 1 samples", "none is left to train"],
    ),
    "validation of one weighted sample": (
        X,
        Y,
        {"early_stopping": True},
        {"sample_weight": np.array([0, 1, 0, 0, 0])},
        ["1 of 1 samples", "none is left to train on"],
    ),
    "validation of all samples": (
        X,
        Y,
        {"early_stopping": True, "training": TrainingOptions(validation_fraction=0.9)},
        {},
        ["5 of 5 samples", "training__validation_fraction"],
    ),
    "loss without keywords": (
        X,
        Y,
        {"loss": lambda found, true: found.sum()},
        {},
        ["loss(prediction", "unexp"],
    ),
    "exchange of unlike axes": (X, Y, {"symmetries": ["transpose"]}, {}, ["'transpose'", "(6, 4)", "flip_x"]),
    "symmetry of a missing axis": (X, Y, {"symmetries": ["flip_z"]}, {}, ["'flip_z'", "(6, 4)"]),
    "vector of three in 2-D": (
        X,
        Y,
        {"symmetries": ["flip_x"], "symmetries__input_vectors": [(0, 1, 1)]},
        {},
        ["3 components"],
    ),
    "negative width": (X, Y, {"width": -1}, {}, ["'width'", "-1"]),
    "no epoch": (X, Y, {"max_iter": 0}, {}, ["'max_iter'"]),
    "unknown loss": (X, Y, {"loss": "huber"}, {}, ["'loss'", "huber"]),
    "unknown scan": (X, Y, {"scan__scan_directions": "spiral"}, {}, ["'scan_directions'", "spiral"]),
    "unknown schedule": (X, Y, {"training__schedule": "linear"}, {}, ["'schedule'", "linear"]),
    "unknown scaler": (X, Y, {"scaling__inputs": "robust"}, {}, ["'inputs'", "robust"]),
    "fraction of validation too large": (X, Y, {"training__validation_fraction": 1.5}, {}, ["'validation_fraction'"]),
    "heads that do not divide": (X, Y, {"scan__n_heads": 3}, {}, ["n_heads=3", "16"]),
    "unknown device": (X, Y, {"device": "abacus"}, {}, ["'abacus'", "'cpu'"]),
}


#: Ragged samples: (X, y, parameters of the estimator, words of the message).
RAGGED_REFUSED_BY_FIT = {
    "no points": (
        zipped(replaced(POINTS, 1, np.zeros((0, 2))), replaced(FIELDS, 1, np.zeros((0, 2)))),
        replaced(TARGETS, 1, np.zeros((0, 1))),
        {},
        ["sample 1", "no points"],
    ),
    "no points, no fields": (
        replaced(POINTS, 2, np.zeros((0, 2))),
        replaced(TARGETS, 2, np.zeros((0, 1))),
        {},
        ["sample 2", "no points"],
    ),
    "NaN in fields": (zipped(POINTS, poisoned(FIELDS, 3)), TARGETS, {}, ["X", "NaN", "sample 3", "channel 1"]),
    "NaN in points": (zipped(poisoned(POINTS, 3), FIELDS), TARGETS, {}, ["X", "NaN", "coordinates", "sample 3"]),
    "NaN in points alone": (poisoned(POINTS, 4), TARGETS, {}, ["X", "NaN", "coordinates", "sample 4"]),
    "infinity in y": (PAIRS, poisoned(TARGETS, 5, np.inf), {}, ["y", "infinity", "sample 5", "channel 0"]),
    "NaN in params": (
        FieldSet(POINTS, FIELDS, params=poisoned(list(np.ones((6, 2))), 2)),
        TARGETS,
        {},
        ["X", "NaN", "params", "sample 2, parameter 1"],
    ),
    "NaN in scalars": (PAIRS, [0, 1, np.nan, 3, 4, 5], {}, ["y", "NaN", "sample 2"]),
    "no channels": (zipped(POINTS, [item[:, :0] for item in FIELDS]), TARGETS, {}, ["X", "channels"]),
    "y of no channels": (PAIRS, [item[:, :0] for item in TARGETS], {}, ["y", "channels"]),
    "other channels": (zipped(POINTS, replaced(FIELDS, 2, np.zeros((1, 3)))), TARGETS, {}, ["sample 2", "(1, 3)"]),
    "other dimensions": (zipped(replaced(POINTS, 2, np.zeros((1, 3))), FIELDS), TARGETS, {}, ["sample 2", "(1, 3)"]),
    "other dimensions of points alone": (replaced(POINTS, 2, np.zeros((1, 3))), TARGETS, {}, ["sample 2", "(1, 3)"]),
    "one y too long": (PAIRS, replaced(TARGETS, 4, np.zeros((10, 1))), {}, ["y of sample 4", "(10, 1)", "9 points"]),
    "one y too long, single": (PAIRS, replaced(SINGLE, 4, np.zeros(10)), {}, ["y of sample 4", "(10,)", "9 points"]),
    "one y of other channels": (PAIRS, replaced(TARGETS, 4, np.zeros((9, 2))), {}, ["y of sample 4", "(9, 2)"]),
    "y with and without channels": (PAIRS, replaced(TARGETS, 4, np.zeros(9)), {}, ["y of sample 4", "(9,)"]),
    "one field too long": (
        zipped(POINTS, replaced(FIELDS, 4, np.zeros((10, 2)))),
        TARGETS,
        {},
        ["sample 4", "(10, 2)"],
    ),
    "one y too few": (PAIRS, TARGETS[:5], {}, ["X has 6 samples", "y has 5"]),
    "one scalar too few": (PAIRS, np.arange(5.0), {}, ["X has 6 samples", "y has 5"]),
    "tuples and arrays": (replaced(PAIRS, 3, POINTS[3]), TARGETS, {}, ["sample 3", "tuple"]),
    "arrays and tuples": (replaced(POINTS, 3, PAIRS[3]), TARGETS, {}, ["tuple"]),
    "fields for some": (replaced(PAIRS, 3, (POINTS[3], None)), TARGETS, {}, ["sample 3", "no fields"]),
    "triples": ([(*pair, 0) for pair in PAIRS], TARGETS, {}, ["tuple", "coords, fields"]),
    "vectors as points": ([item[:, 0] for item in POINTS], SINGLE, {}, []),
    "vectors in pairs": ([(place[:, 0], field[:, 0]) for place, field in PAIRS], TARGETS, {}, []),
    "vectors as fields": ([(place, field[:, 0]) for place, field in PAIRS], TARGETS, {}, ["sample 0", "(12,)"]),
    "a vector among the points": (replaced(POINTS, 3, np.zeros(20)), TARGETS, {}, ["shape"]),
    "None among the points": (replaced(POINTS, 3, None), TARGETS, {}, []),
    "grids among pairs": ([(place, field[None]) for place, field in PAIRS], TARGETS, {}, ["sample 0", "(1, 12, 2)"]),
    "text": ([item.astype(str) for item in POINTS], TARGETS, {}, ["sample 0", "numbers"]),
    "text in y": (PAIRS, [item.astype(str) for item in TARGETS], {}, ["y of sample 0", "numbers"]),
    "complex fields": (zipped(POINTS, [field + 1j for field in FIELDS]), TARGETS, {}, ["sample 0", "complex"]),
    "array of fields as y": (PAIRS, np.zeros((6, 12, 1)), {}, ["(6, 12, 1)", "list of arrays"]),
    "grid as y": (PAIRS, np.zeros((6, 4, 3, 1)), {}, ["(6, 4, 3, 1)", "list of arrays"]),
    "no y": (PAIRS, None, {}, ["requires y"]),
    "y on other points": (PAIRS, zipped(replaced(POINTS, 3, POINTS[3][::-1]), TARGETS), {}, ["other points", "order"]),
    "y on other numbers of points": (PAIRS, zipped(POINTS[::-1], TARGETS[::-1]), {}, ["same points"]),
    "y of points alone": (PAIRS, [(item, None) for item in POINTS], {}, ["y", "without values"]),
    "fields of one size, other points": (
        zipped(TWO, [np.zeros((12, 2)), np.zeros((11, 2))]),
        TARGETS[:2],
        {},
        ["sample 1", "(11, 2)"],
    ),
    "a grid": (PAIRS, TARGETS, {"geometry": "grid"}, ["geometry='grid'", "grid"]),
    "a bent grid": (PAIRS, TARGETS, {"geometry": "structured"}, ["geometry='structured'"]),
    "a grid of shared points": (
        (POINTS[0], np.ones((3, 12, 1))),
        np.ones((3, 12, 1)),
        {"geometry": "grid"},
        ["geometry='grid'"],
    ),
    "draws of a grid": (
        np.ones((3, 4, 4, 1)),
        np.ones((3, 4, 4, 1)),
        {"training__subsample_points": 3},
        ["training__subsample_points=3", "points"],
    ),
    "draws of no points": (PAIRS, TARGETS, {"training__subsample_points": 0}, ["subsample_points"]),
    "a scale of each point": (PAIRS, TARGETS, {"scaling__inputs": "point"}, ["'point'", "'channel'"]),
    "symmetries": (PAIRS, TARGETS, {"symmetries": ["x"]}, ["symmetry 'x'", "'flip_x'"]),
    "derivatives": (PAIRS, TARGETS, {"loss": "relative_l2_gradient"}, ["grid"]),
    "a table with ragged y": (np.ones((6, 2)), TARGETS, {}, []),
    "params with ragged pairs": (np.ones((6, 2)), zipped(POINTS, TARGETS), {}, ["share", "FieldSet with params"]),
    "an array with ragged y": (np.ones((6, 5, 5, 1)), TARGETS, {}, []),
    "sets of lists": ([PAIRS[:2], PAIRS[2:4]], TARGETS[:2], {}, []),
    "FieldSets in a list": ([FieldSet(POINTS, FIELDS)] * 2, TARGETS[:2], {}, ["np.concatenate"]),
}
REFUSED_BY_FIT |= {
    f"ragged: {name}": (X, y, LATENTS | params, {}, words)
    for name, (X, y, params, words) in RAGGED_REFUSED_BY_FIT.items()
}


def test_fit_refuses(subtests):
    for name, (inputs, targets, params, arguments, words) in REFUSED_BY_FIT.items():
        with subtests.test(name):
            estimator = small(**params)
            with pytest.raises((ValueError, TypeError)) as caught:
                estimator.fit(inputs, targets, **arguments)
            where = str(caught.traceback[-1].path)
            assert "torch" not in where
            assert "skop" in where or "sklearn" in where
            # scikit-learn itself answers a sparse table with a TypeError, as its users expect.
            assert isinstance(caught.value, ValueError) or name == "sparse table"
            for word in words:
                assert word in str(caught.value)


#: What a fitted estimator needs: (parameters, X, y).
FITS = {
    "fields": ({}, X, Y),
    "table": ({}, TABLE, SCALARS),
    "parameters": ({}, TABLE, Y),
    "learned position": ({"patches__positional_encoding": "learned", "refinement": "native"}, X, Y),
    "scaler of points": ({"scaling__inputs": "point", "refinement": "native"}, X, Y),
    "target scaler of points": ({"scaling__targets": "point", "refinement": "native"}, X, Y),
    "ragged": (LATENTS, PAIRS, TARGETS),
}


@pytest.fixture(scope="module")
def fitted():
    """A function that gives an estimator of FITS, which is fitted at its first use."""

    @cache
    def fit(name):
        params, inputs, targets = FITS[name]
        return small(**({"max_iter": 1} | params)).fit(inputs, targets)

    return fit


# name: (estimator, X, words of the message)
REFUSED_BY_PREDICT = {
    "fewer channels": ("fields", X[..., :1], ["X has 1 channels", "2"]),
    "more channels": ("fields", np.concatenate([X, X], axis=-1), ["X has 4 channels", "2"]),
    "a line for a plane": ("fields", X[:, 0], ["X has 1 space dimensions", "2"]),
    "a box for a plane": ("fields", X[..., None, :], ["X has 3 space dimensions", "2"]),
    "parameters that the fit lacked": ("fields", FieldSet(COORDS, FLAT, params=TABLE), ["X has 3 parameters", "0"]),
    "a table for fields": ("fields", TABLE, ["2-D table", "fields"]),
    "fields for a table": ("table", X, ["fields", "2-D table", "(5, 6, 4, 2)"]),
    "fields for parameters": ("parameters", X, ["fields", "2-D table"]),
    "more features": ("table", np.hstack([TABLE, TABLE]), ["6 features", "3 features"]),
    "fewer parameters": ("parameters", TABLE[:, :2], ["2 features", "3 features"]),
    "no sample": ("fields", X[:0], ["0 samples"]),
    "no row": ("table", TABLE[:0], ["0 sample"]),
    "NaN": ("fields", with_value(X, (1, 0, 0, 1), np.nan), ["NaN", "sample 1", "channel 1"]),
    "a dict": ("table", {"r": SCALARS}, ["X is a dict", "pandas.DataFrame(X)"]),
    "NaN in a table": ("table", with_value(TABLE, (4, 1), np.nan), ["NaN", "sample 4, parameter 1;"]),
    "infinity": ("fields", with_value(X, (0, 5, 3, 0), np.inf), ["infinity", "sample 0", "channel 0"]),
    "text": ("fields", X.astype(str), ["dtype", "numbers"]),
    "objects": ("fields", X.astype(object), ["object"]),
    "complex": ("fields", X + 1j, ["complex"]),
    "ragged list": ("fields", [X[0], X[1][:5]], ["(6, 4, 2)", "(5, 4, 2)"]),
    "ragged FieldSet": ("fields", ragged(2), ["grid"]),
    "points without a grid": ("fields", (RANDOM.random((24, 2)), FLAT), ["grid"]),
    "tuple of one": ("fields", (COORDS,), ["1 items", "(coords, fields)"]),
    "another grid with a learned position": (
        "learned position",
        np.zeros((2, 4, 4, 2)),
        ["positional_encoding='learned'", "fitted for 6 tokens", "cannot serve 4"],
    ),
    "another grid with scales of points": (
        "scaler of points",
        np.zeros((2, 4, 4, 2)),
        ["24 points", "X has 16", "'channel'"],
    ),
    "another grid with target scales of points": (
        "target scaler of points",
        np.zeros((2, 4, 4, 2)),
        ["24 points", "X has 16", "'channel'"],
    ),
}


#: Of a model of ragged samples: (X, words of the message).
RAGGED_REFUSED_BY_PREDICT = {
    "other channels": (zipped(POINTS, [field[:, :1] for field in FIELDS]), ["1 channels", "2"]),
    "no channels": (POINTS, ["0 channels", "2"]),
    "other dimensions": (zipped([np.zeros((size, 3)) for size in SIZES], FIELDS), ["3 space dimensions", "2"]),
    "parameters": (FieldSet(POINTS, FIELDS, params=np.ones((6, 1))), ["1 parameters", "0"]),
    "NaN": (zipped(POINTS, poisoned(FIELDS, 3)), ["X", "NaN", "sample 3"]),
    "no points": (zipped(replaced(POINTS, 1, np.zeros((0, 2))), replaced(FIELDS, 1, np.zeros((0, 2)))), ["sample 1"]),
    "no samples": ([], []),
    "no samples of a set": (FieldSet(POINTS, FIELDS)[:0], ["0 samples"]),
    "a table": (np.ones((3, 2)), ["table"]),
    "tuples and arrays": (replaced(PAIRS, 3, POINTS[3]), ["sample 3"]),
    "one pair alone": (PAIRS[0], []),
    "text": ("runs/*.vtu", ["meshes"]),
    "None": (None, []),
}
REFUSED_BY_PREDICT |= {
    f"ragged: {name}": ("ragged", X, words) for name, (X, words) in RAGGED_REFUSED_BY_PREDICT.items()
}


def test_predict_refuses_and_changes_nothing(fitted, subtests):
    for name, (key, inputs, words) in REFUSED_BY_PREDICT.items():
        with subtests.test(name):
            estimator = fitted(key)
            before = state_of(estimator)
            with pytest.raises(ValueError, match=r"\w") as caught:
                estimator.predict(inputs)
            for word in words:
                assert word in str(caught.value)
            assert state_of(estimator) == before


def test_tables_in_another_order_are_refused():
    """By their indexes, as pairing by position would mix up the rows; indexes that say nothing are not compared."""
    table, model = frame(TABLE), PODRegressor(regressor="ridge")
    moved = pd.Series(SCALARS, table.index)[::-1]
    for y in (moved, moved.to_frame()):
        for refused in (lambda y=y: model.fit(table, y), lambda y=y: model.fit(table, y.to_numpy()).score(table, y)):
            with pytest.raises(FieldDataError, match=r"row 0 is run_0 .* X and run_4 .*y\.loc\[X.index\].*y\.to_numpy"):
                refused()
    with pytest.raises(FieldDataError, match=r"sample_weight\.loc\[X.index\]"):
        small().fit(table, SCALARS, sample_weight=moved.abs())
    with pytest.raises(FieldDataError, match=r"groups\.loc\[X.index\]"):
        model.fit(table, SCALARS, groups=moved)
    repeated = table.set_index(pd.Index([*"aabbc"]))
    for X, y in ((table, moved.loc[table.index]), (table, moved.reset_index()[0]), (repeated, repeated["r"])):
        np.testing.assert_array_equal(model.fit(X, y).predict(X), model.fit(X, y.to_numpy()).predict(X))
    # Names that are shifted belong to others.
    shifted = pd.Series(SCALARS, [*table.index[1:], "run_9"])
    with pytest.raises(FieldDataError, match=r"row 0 is run_0 .* X and run_1 in that of y: .* at different rows"):
        model.fit(table, shifted)
    split = train_test_split(table, moved.loc[table.index], random_state=0)
    assert model.fit(split[0], split[2]).score(split[1], split[3]) <= 1
    assert cross_val_score(model, table, moved.loc[table.index], cv=KFold(2, shuffle=True)).shape == (2,)


#: Labels of six rows: numbers, dates of working days, floats, and those of several levels, also with names.
LABELS = {
    "numbers": pd.Index([1, 2, 3, 5, 8, 13]),
    "dates": pd.bdate_range("2024-01-04", periods=6),
    "floats": pd.Index(np.arange(6) / 10),
    "levels": pd.MultiIndex.from_product([[0, 1], [0, 1, 2]]),
    "named levels": pd.MultiIndex.from_product([["a", "b"], [0, 1, 2]]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_rows_that_lost_others_are_refused(kind):
    """X.dropna() and y.dropna() lose one run each: as many rows are left, and not the same ones."""
    X, y = (
        table.set_axis(LABELS[kind]) for table in (pd.DataFrame(np.arange(12.0).reshape(6, 2)), pd.Series(range(6)))
    )
    ours, theirs, fields = X.drop(X.index[1]), y.drop(y.index[4]), np.zeros((5, 4, 1))

    def told(words):
        # Numbers may be a default of pandas in one of both, of which only a part is left.
        return (
            pytest.warns(SkopWarning, match=words) if kind == "numbers" else pytest.raises(FieldDataError, match=words)
        )

    words = r"row 1 is .* in the index of {} and .* in that of {}: .* at different rows\. Take the labels of both"
    for table, other in ((ours, theirs), (theirs, ours), (X[:5].sample(5, random_state=0), y[1:])):
        with told(r"row \d is .* at different rows\. Take the labels of both"):
            check_index(other, "y", X=table)
    for calls, names in (
        (lambda: PODRegressor(regressor="ridge").fit(ours, theirs), ("X", "y")),
        (lambda: PODRegressor(regressor="ridge").fit(fields, theirs, params=ours), ("params", "y")),
        (lambda: MeanFieldRegressor().fit(fields, theirs, sample_weight=ours[0] + 1), ("y", "sample_weight")),
        (lambda: MeanFieldRegressor().fit(ours, theirs.to_numpy()).score(ours, theirs), ("X", "y")),
    ):
        with told(words.format(*names)):
            calls()
    # Rows by labels of both, other labels, and those that only count rows are taken.
    rows = ours.index.intersection(theirs.index)
    check_index(theirs.loc[rows], "y", X=ours.loc[rows])
    check_index(theirs.set_axis(range(100, 105)), "y", X=ours)
    check_index(theirs, "y", X=ours.reset_index(drop=True))
    check_index(theirs, "y", X=["run_0.vtu"] * 5, params=ours)


@pytest.mark.parametrize("kind", LABELS)
def test_rows_that_are_shifted_are_warned_about(kind):
    """To predict the next step they are on purpose, also in the folds of a cross-validation; else ends were lost."""
    X = pd.DataFrame(np.arange(12.0).reshape(6, 2)).set_axis(LABELS[kind])
    has_next = np.arange(6) % 3 < 2 if isinstance(X.index, pd.MultiIndex) else np.arange(6) < 5
    now, after = X[has_next], X[np.roll(has_next, 1)]
    rows = np.random.default_rng(0).permutation(len(now))
    for ours, theirs, side in ((now, after, "after"), (after, now, "before")):
        for kept in (slice(None), rows):
            with pytest.warns(SkopWarning, match=rf"all labels in the index of y lie .*{side} those of X\. Rows are"):
                check_index(theirs.iloc[kept], "y", X=ours.iloc[kept])
        check_index(theirs.to_numpy(), "y", X=ours)


def test_an_index_that_counts_rows_tells_nothing_beside_numbers_of_runs():
    """Slices of it do: the first rows were left out of one, and the last of the other."""
    X, y = pd.DataFrame(TABLE), pd.Series(SCALARS)
    for numbers in ([1, 2, 3, 4, 5], [0, 2, 3, 4, 7], [9, 4, 1, 0, 5]):
        check_index(y.set_axis(numbers), "y", X=X)
        check_index(y, "y", X=X.set_axis(numbers))
    with pytest.warns(SkopWarning, match="of y lie 1 before those of X"):
        check_index(y.iloc[:-1], "y", X=X.iloc[1:])
    with pytest.raises(FieldDataError, match="in different order"):
        check_index(y, "y", X=X.set_axis([1, 0, 2, 3, 4]))
    # Every second row of a table, beside what was computed of these.
    check_index(y.iloc[:3].reset_index(drop=True), "y", X=X.iloc[::2])
    # A label that is missing in both is the same.
    for labels in (pd.Index(["a", "b", "c", "d", None]), pd.DatetimeIndex([*DAYS[:4], pd.NaT])):
        check_index(y.set_axis(labels), "y", X=X.set_axis(labels))
        with pytest.raises(FieldDataError, match=r"row 0 is .* in different order"):
            check_index(y.set_axis(labels[[1, 0, 2, 3, 4]]), "y", X=X.set_axis(labels))


def test_repeated_labels_in_another_order_are_refused(subtests):
    """They cannot be matched by label; an index that only counts the rows tells nothing."""
    model, days = PODRegressor(regressor="ridge"), [DAYS[0], DAYS[0], DAYS[1], DAYS[1], DAYS[2]]
    words = r"row 0 is .* in different order\. Labels that repeat cannot be matched: sort X and {0} .* {0}\.to_numpy"
    for labels in ([*"aabbc"], [0, 0, 3, 3, 9], days):
        table, moved = pd.DataFrame(TABLE, labels), pd.Series(SCALARS, labels[::-1])
        refused = {
            "y": lambda X=table, y=moved: model.fit(X, y),
            "groups": lambda X=table, y=moved: model.fit(X, SCALARS, groups=y),
            "params": lambda X=table, y=moved: split_params(X, y),
        }
        for what, call in refused.items():
            with subtests.test(what, labels=labels), pytest.raises(FieldDataError, match=words.format(what)):
                call()
        with pytest.raises(FieldDataError, match="at different rows"):
            model.fit(table, moved.set_axis([*labels[1:], labels[-1]]))
        assert model.fit(table, SCALARS).score(table, pd.Series(SCALARS, labels)) <= 1
        assert model.score(table, pd.Series(SCALARS)) <= 1


def test_columns_whose_names_are_no_text_keep_their_order():
    """scikit-learn compares text alone, and takes columns with other labels by their order."""
    for labels in ([3, 1, 7], [0.1, 0.2, 0.3], pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")])):
        X, y = pd.DataFrame(TABLE, columns=labels), pd.DataFrame(TABLE[::-1] ** 2, columns=labels)
        model = PODRegressor(regressor="ridge").fit(X, y)
        assert isinstance(model.predict(X), np.ndarray)
        with pytest.raises(ValueError, match="order"):
            model.predict(X.iloc[:, ::-1])
        with pytest.raises(FieldDataError, match="bring them into this order"):
            model.score(X, y.iloc[:, ::-1])
        points = FieldSet(unit_grid((4,)), np.ones((5, 4, 1)))
        designs = PODRegressor(regressor="ridge").fit(points, y, params=X)
        with pytest.raises(FieldDataError, match="another order"):
            designs.predict(points, params=X.iloc[:, ::-1])


def test_complex_columns_are_refused():
    table = pd.DataFrame({"gain": TABLE[:, 0] + 1j, "is_on": TABLE[:, 1] > 0, "load": TABLE[:, 2]})
    for X, y in ((table, SCALARS), (TABLE, table)):
        with pytest.raises(FieldDataError, match=r"column 'gain' of [Xy] holds .*imaginary parts, or magnitude"):
            PODRegressor().fit(X, y)


def test_odd_items_of_lists_and_objects_are_named(fitted, subtests):
    """NumPy says only that float() cannot take them."""
    row, missing = [1.0, 2.0, 3.0], np.array([[1.0, 2.0, pd.NA], [4.0, 5.0, 6.0]], dtype=object)
    complex_number, here = ["Complex data not supported", "imaginary parts"], ["holds <NA> in row", "Fill in"]
    for name, call, words in (
        ("complex X", lambda: small().fit([row, [1.0, 2.0, 1j]], [1, 2]), ["X:", *complex_number]),
        ("complex y", lambda: small().fit([row, row], [1j, 2]), ["y:", *complex_number]),
        ("complex y of columns", lambda: small().fit([row, row], [[1j, 2], [3, 4]]), ["y:", *complex_number]),
        ("complex X of a prediction", lambda: fitted("table").predict([[1.0, 2.0, 1j]]), ["X:", *complex_number]),
        ("missing in X", lambda: small().fit(missing, [1, 2]), ["column 2 of X", *here]),
        ("missing in a list", lambda: small().fit(missing.tolist(), [1, 2]), ["column 2 of X", *here]),
        ("missing in y", lambda: small().fit([row, row], missing[0, 1:]), ["y holds <NA> in row 1", *here]),
        ("missing in what is described", lambda: describe_data(missing), ["column 2 of X", *here]),
        ("missing in a table", lambda: describe_data(pd.DataFrame(missing)), ["column 2 of X", *here]),
    ):
        with subtests.test(name):
            with pytest.raises(FieldDataError) as caught:
                call()
            assert [word for word in words if word not in str(caught.value)] == []


def test_errors_about_data_are_of_one_class(fitted):
    with pytest.raises(FieldDataError):
        small().fit(X, Y[:4])
    with pytest.raises(FieldDataError):
        fitted("fields").predict(X[..., :1])


def test_a_warm_start_with_data_of_another_kind_is_refused_and_keeps_the_model():
    estimator = small(warm_start=True).fit(X, Y)
    expected = estimator.predict(X)
    for inputs, targets in ((X[..., :1], Y), (X, SCALARS), (X[:, :5], Y[:, :5]), (TABLE, SCALARS)):
        with pytest.raises(FieldDataError, match="warm_start"):
            estimator.fit(inputs, targets)
    np.testing.assert_array_equal(estimator.predict(X), expected)


def test_an_unknown_preset_names_those_that_exist():
    with pytest.raises(ValueError, match=r"'weather'.*'darcy', 'elasticity', 'navier_stokes'"):
        LaMORegressor.from_preset("weather")


# name: (X, y) that must work, with the shape of y coming back
ACCEPTED = {
    "integers": ((10 * X).astype(int), Y),
    "booleans": (X > 0, Y > 0),
    "small unsigned integers": ((X > 0).astype(np.uint8), Y),
    "half precision": (X.astype(np.float16), Y),
    "nested lists": (X.tolist(), Y.tolist()),
    "list of arrays of one shape": (list(X), list(Y)),
    "not contiguous": (X[:, ::-1], Y[:, ::-1]),
    "Fortran order": (np.asfortranarray(X), np.asfortranarray(Y)),
    "constant inputs": (np.ones_like(X), Y),
    "constant targets": (X, np.full_like(Y, -4.0)),
    "zero targets": (X, np.zeros_like(Y)),
    "zero scalars": (X, np.zeros(5)),
    "one sample": (X[:1], Y[:1]),
    "one point": (X[:, :1, :1], Y[:, :1, :1]),
    "one point, scalars": (X[:, :1, :1], SCALARS),
    "one row and one column of a table": (TABLE[:1, :1], SCALARS[:1]),
    "tiny numbers": (1e-30 * X, 1e-30 * Y),
    "huge numbers": (1e30 * X, 1e30 * Y),
    "big offset": (1e6 + X, 1e3 + Y),
}


def test_odd_data_works(subtests):
    for name, (inputs, targets) in ACCEPTED.items():
        with subtests.test(name):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                # Equal inputs and an offset are said to be odd.
                warnings.filterwarnings("ignore", "X is the same|the mean of y", SkopWarning)
                predicted = small().fit(inputs, targets).predict(inputs)
            assert predicted.shape == np.shape(targets)
            assert np.isfinite(predicted).all()


def test_the_unit_of_the_fields_does_not_matter(subtests):
    for loss in ["mse", "relative_l2", "relative_l2_gradient", "sobolev"]:
        model = small(loss=loss, dtype="float32")
        expected = model.fit(X, Y).predict(X)
        for scale in [1e-25, 1e25]:
            with subtests.test(scale=scale, loss=loss):
                other = model.fit(scale * X, scale * Y).predict(scale * X)
                np.testing.assert_allclose(other / scale, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shape", [(8, 8), (24, 18), (10, 16)])
def test_images_without_channel_axis_are_pointed_out(shape):
    images, frames = RANDOM.normal(size=(4, *shape)), RANDOM.normal(size=(4, 40, 10))
    with pytest.warns(SkopWarning, match=r"grid of {} points with {} channels\..*add a channel axis".format(*shape)):
        small().fit(images, images)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small().fit(frames, frames)


# ---------------------------------------------------------------- parameters
def test_wrong_and_extreme_parameters_are_named(subtests):
    for params in [
        {"width": True},
        {"latents__n_tokens": np.True_},
        {"width": 10**12},
        {"depth": 10**9},
        {"scan__d_state": 2**63},
        {"mlp_ratio": 1e300},
        {"training__beta_2": 0},
        {"training__one_cycle": np.array(3)},
        {"scan__decay_range": ("a", "b")},
        {"symmetries": [[1]]},
        {"symmetries__mirrors": np.array(3)},
    ]:
        with subtests.test(params=params):
            X = np.ones((3, 4, 4, 1))
            estimator = LaMORegressor(width=8, depth=1, max_iter=1).set_params(**params)
            name = next(iter(params)).rpartition("__")[2] if "mirrors" not in str(params) else "mirrors"
            with pytest.raises(InvalidParameterError, match=f"The '{name}' parameter of"):
                estimator.fit(X, X)


def test_networks_beyond_the_memory_of_the_machine_are_refused_before_they_are_built():
    X, params = np.ones((3, 4, 4, 1)), {"width": 60000, "mlp_ratio": 1000.0}
    with pytest.raises(ValueError, match=r"cannot be trained here.*smaller width"):
        LaMORegressor(max_iter=1, base=None).set_params(**params).fit(X, X)


@pytest.mark.parametrize("kind", [EnsembleRegressor, AutoRegressor])
def test_no_jobs_are_named(kind):
    estimator = kind(LaMORegressor()) if kind is EnsembleRegressor else kind()
    with pytest.raises(InvalidParameterError, match="n_jobs"):
        estimator.set_params(n_jobs=0).fit(np.ones((3, 4, 4, 1)), np.ones((3, 4, 4, 1)))


def test_numbers_of_numpy_count_as_those_of_python():
    X = np.random.default_rng(0).normal(size=(5, 4, 4, 1))
    common = {"depth": 1, "max_iter": 1, "random_state": 0, "base": None}
    usual, short = (
        LaMORegressor(
            width=width, batch_size=size, scan=GridSSD(n_heads=heads), training=TrainingOptions(beta_2=beta), **common
        )
        for width, size, heads, beta in [(64, 2, 2, 0.5), (np.int8(64), np.int8(2), np.uint64(2), np.float32(0.5))]
    )
    np.testing.assert_array_equal(short.fit(X, X).predict(X), usual.fit(X, X).predict(X))


def test_folds_that_are_none_are_named(subtests):
    for cv in [[None], [(0, 1)], [([0.5], [1])], [([], [1])], []]:
        with subtests.test(cv=cv):
            X = np.random.default_rng(0).normal(size=(4, 2))
            with pytest.raises(FieldDataError, match="list of folds"):
                AutoRegressor(candidates=[("mean", MeanFieldRegressor())], cv=cv).fit(X, X[:, 0])


# ---------------------------------------------------------------- ragged samples
#: y, and words of the message.
REFUSED_BY_SCORE = {
    "no y": (None, ["y"]),
    "too few": (TARGETS[:5], ["5"]),
    "one too long": (replaced(TARGETS, 4, np.ones((10, 1))), ["sample 4"]),
    "NaN": (poisoned(TARGETS, 3), ["sample 3", "NaN"]),
    "other channels": ([np.ones((size, 2)) for size in SIZES], ["2"]),
    "scalars": (np.ones(6), []),
    "an array of fields": (np.ones((6, 12, 1)), ["(6, 12, 1)"]),
}


def test_score_refuses(fitted, subtests):
    for name, (y, words) in REFUSED_BY_SCORE.items():
        for method in ["score", "score_channels"]:
            with subtests.test(name, method=method):
                with pytest.raises(ValueError, match=r"\w") as error:
                    getattr(fitted("ragged"), method)(PAIRS, y)
                for word in words:
                    assert word in str(error.value)


def test_truth_on_other_points_is_no_truth():
    """A truth whose points come in another order would be compared point by point with the wrong values."""
    model = small(**LATENTS).fit(PAIRS, FieldSet(POINTS, TARGETS))
    truth = FieldSet([item[::-1] for item in POINTS], [item[::-1] for item in TARGETS])
    with pytest.raises(FieldDataError, match="points"):
        model.score(PAIRS, truth)


def test_scalars_of_another_shape_are_no_truth():
    """A transposed table has as many numbers, but other ones."""
    y = np.arange(12.0).reshape(6, 2)
    model = small(**LATENTS).fit(PAIRS, y)
    for wrong in (y.T, y.ravel(), y[:, :1], y[:5]):
        with pytest.raises(ValueError, match=r"y"):
            model.score(PAIRS, wrong)


def test_grid_model_wants_a_grid():
    X = np.ones((3, 4, 4, 1))
    model = small(**LATENTS, patches__size=2).fit(X, X)
    with pytest.raises(FieldDataError, match="no regular grid"):
        model.predict([(place, field[:, :1]) for place, field in PAIRS])


# ---------------------------------------------------------------------- odd but legal
def test_repeated_points_and_single_points():
    points = [np.zeros((5, 2)), np.ones((1, 2)), np.repeat(POINTS[0], 2, axis=0)]
    prediction = small(**LATENTS).fit(points, [np.ones((len(item), 1)) for item in points]).predict(points)
    assert all(np.isfinite(item).all() for item in prediction)
    # Equal points without fields are equal inputs. Matrix products may round rows in different ways.
    np.testing.assert_allclose(prediction[0], np.broadcast_to(prediction[0][:1], (5, 1)), atol=2e-6)
    np.testing.assert_allclose(prediction[2][::2], prediction[2][1::2], atol=2e-6)


def test_all_samples_of_one_point():
    points = [np.array([[0.1 * i, 0.3]]) for i in range(5)]
    fields = [np.array([[1.0 + i]]) for i in range(5)]
    model = small(**LATENTS).fit([(place, None) for place in points], fields)
    prediction = model.predict([(place, None) for place in points])
    assert [np.shape(item) for item in prediction] == [(1, 1)] * 5


@pytest.mark.parametrize("n_dims", [1, 3])
def test_a_single_sample(n_dims):
    points = [np.random.default_rng(0).random((9, n_dims))]
    prediction = small(**LATENTS).fit(points, [points[0][:, :1]]).predict(points)
    assert isinstance(prediction, list)
    assert prediction[0].shape == (9, 1)


def test_other_number_types():
    """Integers, half precision, foreign byte orders, booleans, read-only and strided arrays."""
    expected = small(**LATENTS).fit(PAIRS, TARGETS).predict(PAIRS)
    for change in (lambda x: x.astype(">f8"), np.asfortranarray, lambda x: np.repeat(x, 2, axis=0)[::2]):
        pairs = [(change(place), change(field)) for place, field in PAIRS]
        for item in pairs[0]:
            item.flags.writeable = False
        found = small(**LATENTS).fit(pairs, [change(item) for item in TARGETS]).predict(pairs)
        for left, right in zip(found, expected, strict=True):
            np.testing.assert_array_equal(left, right)
    for dtype in (np.float16, np.float32, int, bool):
        pairs = [(place.astype(np.float32), (10 * field).astype(dtype)) for place, field in PAIRS]
        assert np.isfinite(
            small(**LATENTS).fit(pairs, [item.astype(dtype) for item in TARGETS]).predict(pairs)[0]
        ).all()


def test_large_offsets_of_coordinates():
    """Points in map coordinates: metres, far from the origin."""
    far = [1e3 * item + [4.5e5, 5.6e6] for item in POINTS]
    near = [1e3 * item for item in POINTS]
    expected = small(**LATENTS).fit(near, TARGETS).predict(near)
    for left, right in zip(small(**LATENTS).fit(far, TARGETS).predict(far), expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4)


def test_grid_read_as_points():
    """A grid may be read as points, and then predicts any points."""
    grid = unit_grid((5, 4))
    values = np.random.default_rng(0).random((4, 20, 1))
    model = small(**LATENTS, geometry="points").fit(FieldSet(grid, values, grid_shape=(5, 4)), 1 + values)
    assert model.geometry_ == "points"
    assert model.predict([(place, field[:, :1]) for place, field in PAIRS])[3].shape == (20, 1)
