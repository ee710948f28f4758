"""Tables of parameters with scalars of different units, each of which is learned; kinds of tables and of columns."""

import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

import skop
from skop import AMORegressor, ConformalRegressor, GeoMaNORegressor, LaMORegressor, MNORegressor, PODRegressor
from skop.estimators import EnsembleRegressor
from skop.exceptions import FieldDataError
from skop.parts import GNOT, GalerkinTransformer, OFormer

N_TRAIN = 30


def beams(n_samples=40):
    """Young's modulus in Pa and thickness in m; stress in Pa and deflection in m of a cantilever beam."""
    generator = np.random.default_rng(0)
    modulus, thickness = generator.uniform(190e9, 220e9, n_samples), generator.uniform(0.006, 0.008, n_samples)
    inertia = 0.05 * thickness**3 / 12
    outputs = (1500.0 * thickness / 2 / inertia, 1500.0 / (3 * modulus * inertia))
    return np.column_stack([modulus, thickness]), np.column_stack(outputs)


def lamo(**changes):
    """A small network that learns the beams in a second."""
    return LaMORegressor(width=16, depth=1, max_iter=5, learning_rate_init=5e-3, random_state=0, **changes)


def geomano():
    """The same with the other operator."""
    return GeoMaNORegressor(width=16, depth=1, max_iter=5, learning_rate_init=5e-3, random_state=0)


def amo():
    """The same with adaptive poles."""
    return AMORegressor(width=16, depth=1, max_iter=5, learning_rate_init=1e-2, random_state=0)


def mno(host):
    """The same with MNO's hosts."""
    return MNORegressor(host=host, width=16, depth=1, max_iter=5, learning_rate_init=5e-3, random_state=0)


def test_as_many_outputs_as_parameters_are_scalars(subtests):
    for label, estimator in {
        # Others have a base that learns both outputs by itself.
        "lamo": lamo(base=None).set_params(max_iter=40, batch_size=8),
        "geomano": geomano(),
        "amo": amo(),
        "gnot": mno(GNOT()),
        "galerkin": mno(GalerkinTransformer()),
        "oformer": mno(OFormer()),
        "pod": PODRegressor(),
        "ensemble": EnsembleRegressor(lamo(), n_members=1),
    }.items():
        with subtests.test(label):
            X, y = beams()
            fitted = estimator.fit(X[:N_TRAIN], y[:N_TRAIN])
            scores = r2_score(y[N_TRAIN:], fitted.predict(X[N_TRAIN:]), multioutput="raw_values")
            assert (scores > 0.9).all(), scores
            assert fitted.spec_.role == "features"


def test_outputs_that_do_not_vary_are_constants(tmp_path):
    """Also after saving, and until a continued fit has other values of them."""
    X, y = beams(20)
    y = np.column_stack([y, np.full(20, 5.73)])
    fitted = lamo(base=None, warm_start=True).set_params(max_iter=2).fit(X, y)
    fitted.save(tmp_path / "model.skop")
    for model in (fitted, skop.load(tmp_path / "model.skop"), fitted.fit(X[:10], y[:10])):
        np.testing.assert_allclose(model.predict(X)[:, 2], 5.73, rtol=1e-15)
        assert np.ptp(model.predict(X)[:, :2], axis=0).min() > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        varied = fitted.fit(X, np.column_stack([y[:, :2], X[:, 1]])).predict(X)
    assert np.ptp(varied[:, 2]) > 0


class Variables(dict):
    """Arrays under names, as an xarray.Dataset is."""

    dtypes: ClassVar = {}
    to_dataframe = compute = None

    def __init__(self, *dims):
        self.dims = dims


class Plan:
    """A table that is not computed yet, as a LazyFrame of polars is."""

    dtypes = collect = None


class Parts:
    """A table of unknown length, as a DataFrame of dask is."""

    dtypes = iloc = compute = None
    ndim = 2

    @property
    def shape(self):
        raise TypeError("cannot be converted to a boolean value")


class Arrow:
    """A table of pyarrow, whose columns are arrays without names."""

    schema = to_pandas = None
    columns: ClassVar = [[1.0]]


#: name: (object, conversion)
CONTAINERS = {
    "a set of columns": (Variables("run"), "to_dataframe()"),
    "a set of fields": (Variables("run", "x", "y"), "to_dataarray().transpose(..., 'variable')"),
    "a plan": (Plan(), "collect()"),
    "parts": (Parts(), "compute()"),
    "a table of pyarrow": (Arrow(), "to_pandas()"),
}


def test_containers_are_refused_with_a_conversion(subtests):
    rows, numbers = beams(8)
    fields, model = rows[:, :, None], PODRegressor(regressor="ridge")
    of_table, of_fields = PODRegressor(regressor="ridge").fit(rows, numbers), lamo().fit(fields, fields)
    bands = ConformalRegressor(model, coverage=0.3).fit(rows, numbers)
    for name, (given, conversion) in CONTAINERS.items():
        calls = {
            "X": (
                lambda held=given: model.fit(held, numbers),
                lambda held=given: of_table.predict(held),
                lambda held=given: ConformalRegressor(model).fit(held, numbers),
            ),
            "y": (
                lambda held=given: model.fit(rows, held),
                lambda held=given: model.fit(fields, held),
                lambda held=given: of_table.score(rows, held),
            ),
            "params": (
                lambda held=given: model.fit(fields, fields, params=held),
                lambda held=given: of_fields.predict(fields, params=held),
            ),
            "sample_weight": (
                lambda held=given: model.fit(rows, numbers, sample_weight=held),
                lambda held=given: lamo().fit(fields, fields, sample_weight=held),
                lambda held=given: of_table.score(rows, numbers, sample_weight=held),
                lambda held=given: bands.predict_interval(rows, sample_weight=held),
            ),
        }
        for what, refused in calls.items():
            for number, call in enumerate(refused):
                with subtests.test(name, what=what, number=number):
                    with pytest.raises(FieldDataError) as caught:
                        call()
                    assert str(caught.value).startswith(f"{what} came as {type(given).__name__} of ")
                    assert str(caught.value).endswith(f"Pass {what}.{conversion}.")


def test_sparse_columns_beside_dense_ones_are_read():
    rows, numbers = beams(8)
    model, sparse = PODRegressor(regressor="ridge"), pd.DataFrame(rows).astype(pd.SparseDtype(float))
    mixed, fields = sparse.assign(dense=rows[:, 1]).set_axis([*"abc"], axis=1), rows[:, :, None]
    expected = model.fit(mixed.to_numpy(), numbers).predict(mixed.to_numpy())
    np.testing.assert_allclose(model.fit(mixed, numbers).predict(mixed), expected, rtol=1e-12)
    expected = model.fit(fields, rows).predict(fields)
    np.testing.assert_allclose(model.fit(fields, sparse).predict(fields), expected, rtol=1e-12)
