"""Numbers of extreme size, points without extent, and too many dimensions: finite predictions or a clear error."""

import contextlib
import warnings

import numpy as np
import pytest
import torch
from scipy import sparse

from skop import (
    EnsembleRegressor,
    GeoMaNORegressor,
    LaMORegressor,
    MeanFieldRegressor,
    PODRegressor,
    RolloutRegressor,
    ScalingOptions,
    UNetRegressor,
)
from skop.exceptions import FieldDataError, NonFinitePredictionError, TrainingDivergedError

SMALL = {"width": 8, "depth": 1, "batch_size": 4, "max_iter": 1, "random_state": 0, "base": None}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 6, 5, 1))
TABLE = RNG.normal(size=(12, 3))
COORDS, FIELDS = RNG.random((20, 2)), RNG.normal(size=(12, 20, 1))
OWN = RNG.random((12, 20, 2))


@pytest.fixture(autouse=True)
def _without_warnings():
    """A prediction far from the training, or one epoch, warns rightly; NumPy must not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        yield


def lamo(**options):
    return LaMORegressor(**SMALL | options)


def test_squares_must_be_numbers(subtests):
    """Beyond 1e150 predictions were infinite or NaN with a RuntimeWarning of NumPy, or linear algebra failed."""
    for estimator in [lamo(base="auto"), PODRegressor(), MeanFieldRegressor()]:
        for x_unit, y_unit, words in [
            (1e200, 1, r"Input X contains .* in sample \d+, channel 0, whose square is too large"),
            (1, 1e200, "Input y contains .* whose square is too large"),
            (1e-200, 1, "Input X contains numbers up to .* only, whose squares are too small"),
            (1, 1e-310, "Input y contains numbers up to .* only"),
        ]:
            case = subtests.test(estimator=estimator, x_unit=x_unit, y_unit=y_unit)
            with case, pytest.raises(FieldDataError, match=words):
                estimator.fit(X * x_unit, X * y_unit)


def test_predictions_do_not_depend_on_the_unit_of_x(subtests):
    """Within this range all of it works: powers of two change no digit."""
    # Beside a base, samples are held out by the bits of their inputs, which have another order in another unit.
    for estimator in [lamo(), PODRegressor(), MeanFieldRegressor()]:
        for unit in [1e-140, 1e140]:
            with subtests.test(estimator=estimator, unit=unit):
                unit = 2.0 ** np.round(np.log2(unit))
                expected = estimator.fit(X, X).predict(X)
                np.testing.assert_allclose(estimator.fit(X * unit, X).predict(X * unit), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("unit", [1e-40, 1e39])
def test_single_precision_is_not_asked_for_numbers_that_it_cannot_hold(unit):
    """The error was that of a training that diverged, which blamed the learning rate."""
    with pytest.raises(FieldDataError, match=r"y has the size .* single precision cannot hold"):
        lamo().fit(X, X * unit)
    assert np.isfinite(lamo(dtype="float64").fit(X, X * unit).predict(X)).all()


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**20])
def test_the_unit_of_y_does_not_matter_where_it_is_constant_at_an_edge(unit):
    """Points that do not vary were trained as if they varied by 1, whatever the unit of the others."""
    y = np.cumsum(X, axis=1)
    y[:, 0] = 1.0
    model = lamo(scaling=ScalingOptions(targets="point"), dtype="float64", max_iter=5)
    expected = unit * model.fit(X, y).predict(X)
    np.testing.assert_allclose(model.fit(X, unit * y).predict(X), expected, rtol=1e-6, atol=1e-6 * unit)


def test_largest_single_numbers_with_scaling_by_point():
    """Fields of plus and minus the largest float32, scaled at each point, gave NaN."""
    signs = np.sign(X).astype(np.float32) * np.finfo(np.float32).max
    with pytest.raises(FieldDataError, match="single precision cannot hold"):
        lamo(scaling=ScalingOptions(inputs="point", targets="point")).fit(signs, signs)


def test_fill_values_in_predictions(subtests):
    """A prediction refuses what a fit refuses; values up to there give a finite number or an error with the sample."""
    for size in [1e200, 1e300]:
        for estimator in [lamo(), PODRegressor(), MeanFieldRegressor()]:
            with subtests.test(size=size, estimator=estimator):
                fitted, changed = estimator.fit(X, X), X.copy()
                changed[3, 2, 1, 0] = size
                with pytest.raises(FieldDataError, match=r"in sample 3, channel 0, whose square"):
                    fitted.predict(changed)
                changed[3, 2, 1, 0] = 9.97e36
                with contextlib.suppress(NonFinitePredictionError):
                    assert np.isfinite(fitted.predict(changed)).all()


@pytest.mark.parametrize("estimator", [lamo(), PODRegressor(), MeanFieldRegressor()])
def test_tables_and_scalars(estimator):
    """Parameters and scalars have the same range as fields."""
    scalars = TABLE @ [1.0, 2.0, 3.0]
    for x_unit, y_unit in ((1e200, 1), (1, 1e200), (1e-200, 1), (1, 1e-200)):
        with pytest.raises(FieldDataError, match="double precision"):
            estimator.fit(TABLE * x_unit, scalars * y_unit)
    changed = TABLE.copy()
    changed[5, 1] = -1e200
    with pytest.raises(FieldDataError, match="contains -1e\\+200 in sample 5, parameter 1"):
        estimator.fit(TABLE, scalars).predict(changed)


@pytest.mark.parametrize(
    "estimator",
    [
        lamo(),
        GeoMaNORegressor(**SMALL, grid="auto"),
        UNetRegressor(max_iter=1, width=8, base=None, random_state=0, grid="auto"),
    ],
)
def test_coordinates(estimator):
    """Coordinates that are too large, or whose extent is too small, raised IndexError and ValueError from below."""
    for unit in (1e200, 1e-323, 1e-160):
        for coords in (COORDS, OWN):
            with pytest.raises(FieldDataError, match=r"in its coordinates"):
                estimator.fit((coords * unit, FIELDS), FIELDS)
    far = OWN.copy()
    far[2, 3, 1] = -1e300
    with pytest.raises(FieldDataError, match="in sample 2, point 3, coordinate 1, whose square"):
        estimator.fit((far, FIELDS), FIELDS)
    fitted = estimator.fit((COORDS, FIELDS), FIELDS)
    with pytest.raises(FieldDataError, match="contains -1e\\+300 in its coordinates"):
        fitted.predict((far, FIELDS))


def test_points_that_coincide_under_a_grid():
    """One sample without extent is interpolated by its nearest value; a box without extent has no grid."""
    same = OWN.copy()
    same[4] = 0.5
    estimator = GeoMaNORegressor(**SMALL, grid=(4, 4))
    fitted = estimator.fit((same, FIELDS), FIELDS)
    assert np.isfinite(fitted.predict((same, FIELDS))).all()
    with pytest.raises(FieldDataError, match="there is no box for a grid"):
        estimator.fit((np.full_like(OWN, 0.5), FIELDS), FIELDS)


@pytest.mark.parametrize("n_dims", [4, 7])
def test_grids_have_three_axes_at_most(n_dims):
    """Seven dimensions would be triangulated for hours, and gave a KeyError in four."""
    points = RNG.random((20, n_dims))
    with pytest.raises(FieldDataError, match=f"1, 2 or 3 dimensions, but X has {n_dims}"):
        GeoMaNORegressor(**SMALL, grid="auto").fit((points, FIELDS), FIELDS)


def test_predictions_beyond_the_precision_of_y_name_it():
    """X was blamed, although its model had predicted a finite number."""
    y = (6e4 * TABLE[:, :1] / np.abs(TABLE[:, :1]).max())[:, :, None].astype(np.float16)
    model = PODRegressor(regressor="ridge").fit(TABLE, np.concatenate([y, y], axis=1))
    with pytest.raises(
        NonFinitePredictionError, match=r"of -?\d\S+ in sample \d+ is too large .* float16; fit with y in"
    ):
        model.predict(2 * TABLE)


def test_sparse_targets_and_inputs():
    """Sparse arrays of SciPy and of torch are refused by name, also in time series."""
    series = RNG.normal(size=(6, 3, 4, 4, 1))
    rollout = RolloutRegressor(lamo())
    for y in (sparse.csr_array(np.ones((6, 4))), sparse.coo_array(np.ones((6, 4))), torch.eye(6).to_sparse()):
        with pytest.raises(FieldDataError, match=r"is a sparse"):
            rollout.fit(series[:, 0], y)
    for X_, y in ((torch.eye(12).to_sparse(), TABLE), (TABLE, torch.eye(12).to_sparse())):
        with pytest.raises(FieldDataError, match="is a sparse tensor"):
            lamo().fit(X_, y)


def test_tensors_with_gradients():
    """NumPy cannot take them; torch's error names neither X nor y."""
    for given in (TABLE, FIELDS):
        tensor = torch.tensor(given, requires_grad=True)
        for X_, y, name in ((tensor, TABLE[:, 0], "X"), (TABLE, tensor, "y")):
            with pytest.raises(FieldDataError, match=rf"{name} is a tensor that requires gradients.*{name}\.detach"):
                lamo().fit(X_, y)


def test_a_training_that_diverges_in_its_last_step_is_an_error():
    """The loss is that before the step; the fit succeeded, and every prediction was an error that blamed X."""
    for estimator in (lamo(learning_rate_init=1e30), GeoMaNORegressor(**SMALL, learning_rate_init=1e30)):
        with pytest.raises(TrainingDivergedError, match=r"Lower learning_rate_init \(now 1e\+30\)"):
            estimator.fit(TABLE, TABLE[:, 0])
        assert not hasattr(estimator, "module_")


@pytest.mark.parametrize("weight", [1e300, 1e39, 1e-300])
def test_sizes_of_sample_weights(weight):
    """Large ones were a training that diverged; with small ones nothing was learned, without a word."""
    with pytest.raises(FieldDataError, match="largest sample weight is"):
        lamo().fit(X, X, sample_weight=np.full(12, weight))


def test_mistakes_that_had_internal_errors():
    """A loss without a gradient, two columns of one name, and an ensemble of an estimator that is not of skop."""
    from pandas import DataFrame
    from sklearn.linear_model import Ridge

    with pytest.raises(TypeError, match="loss gives float; expected a tensor"):
        lamo(loss=lambda prediction, target, **options: 1.0).fit(X, X)
    with pytest.raises(TypeError, match="loss gives a tensor without a gradient"):
        lamo(loss=lambda prediction, target, **options: (prediction - target).detach().sum()).fit(X, X)
    with pytest.raises(
        ValueError, match=r"loss=MSELoss\(\) cannot be called as loss\(prediction, target, sample_weight"
    ):
        lamo(loss=torch.nn.MSELoss()).fit(X, X)
    for kind in (LaMORegressor, GeoMaNORegressor):
        with pytest.raises(
            ValueError, match=r"mlp_ratio=0\.1 with width=8 gives .* without hidden units; set .* 1 / 8 or more"
        ):
            kind(width=8, mlp_ratio=0.1).fit(X, X)
    with pytest.raises(FieldDataError, match="2 columns with the name 'a'"):
        lamo().fit(DataFrame(TABLE, columns=["a", "b", "a"]), TABLE)
    with pytest.raises(FieldDataError, match="y has 2 columns with the name 's'"):
        lamo().fit(TABLE, DataFrame(TABLE[:, :2], columns=["s", "s"]))
    with pytest.raises(FieldDataError, match="params has 2 columns with the name 'a'"):
        lamo().fit(X, X, params=DataFrame(TABLE[:, :2], columns=["a", "a"]))
    with pytest.raises(FieldDataError, match=r"estimator is a Ridge"):
        EnsembleRegressor(Ridge()).fit(TABLE, TABLE)
