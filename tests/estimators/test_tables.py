"""Tables of parameters with scalars of different units: every output is learned, whatever the numbers of columns."""

import warnings

import numpy as np
from sklearn.metrics import r2_score

import skop
from skop import AMORegressor, GeoMaNORegressor, LaMORegressor, MNORegressor, PODRegressor
from skop.estimators import EnsembleRegressor
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
