"""Option prices against an integral over payoffs, the Black-Scholes equation, finite differences and no-arbitrage."""

import warnings

import numpy as np
import pytest
from scipy.integrate import quad

from skop import FieldSet, PODRegressor
from skop.datasets import make_european_option
from skop.exceptions import FieldDataError

#: A call: r, sigma, q, K, T, is_call.
CALL = np.array([0.06, 0.3, 0.02, 100.0, 1.5, 1.0])
SIDES = [CALL, CALL - [0, 0, 0, 0, 0, 1]]
both = pytest.mark.parametrize("row", SIDES, ids=["call", "put"])


def surface(row, greeks=False, **options):
    """Channels of one option on its grid, (S, t, channels), in float64."""
    options = {"spot": (20.0, 200.0), "resolution": (37, 5)} | options
    _, y = make_european_option(params=[row], greeks=greeks, dtype=np.float64, **options)
    return y.to_grid()[0]


def price(row, **options):
    return surface(row, **options)[..., 0]


def expected_payoff(row, spot):
    """Discounted mean of the payoff over the lognormal distribution of the price at maturity."""
    rate, sigma, dividend, strike, maturity, is_call = row
    kink = (np.log(strike / spot) - (rate - dividend - sigma**2 / 2) * maturity) / (sigma * np.sqrt(maturity))

    def weighted(z):
        final = spot * np.exp((rate - dividend - sigma**2 / 2) * maturity + sigma * np.sqrt(maturity) * z)
        return abs(final - strike) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

    limits = (kink, kink + 40) if is_call else (kink - 40, kink)
    return np.exp(-rate * maturity) * quad(weighted, *limits, epsabs=1e-12, limit=200)[0]


class TestPrice:
    @both
    def test_is_the_discounted_mean_of_the_payoff(self, row):
        actual = price(row, resolution=(7, 2))[:, 0]
        expected = [expected_payoff(row, spot) for spot in np.linspace(20, 200, 7)]
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-11)

    def test_textbook_example(self):
        # Hull, "Options, Futures, and Other Derivatives": S = 42, K = 40, r = 0.1, sigma = 0.2, T = 0.5.
        found = [price([0.1, 0.2, 0, 40, 0.5, is_call], spot=(0, 84), resolution=(3, 2))[1, 0] for is_call in (1, 0)]
        assert np.round(found, 2).tolist() == [4.76, 0.81]

    def test_put_call_parity(self):
        spot, tau = np.linspace(20, 200, 37)[:, None], 1.5 * np.linspace(1, 0, 5)
        forward = spot * np.exp(-0.02 * tau) - 100 * np.exp(-0.06 * tau)
        np.testing.assert_allclose(price(SIDES[0]) - price(SIDES[1]), forward, rtol=0, atol=1e-13 * 200)

    @both
    def test_obeys_the_black_scholes_equation(self, row):
        rate, sigma, dividend, _, maturity, _ = row
        residuals = []
        for number in (41, 81, 161):
            spot = np.linspace(20, 200, number)
            # Away from the kink: the first 3/4 of the time.
            V = price(row, resolution=(number, number))[:, : 3 * (number // 4) + 1]
            dS, dt = spot[1] - spot[0], maturity / (number - 1)
            S, middle = spot[1:-1, None], V[1:-1, 1:-1]
            V_t = (V[1:-1, 2:] - V[1:-1, :-2]) / (2 * dt)
            V_S = (V[2:, 1:-1] - V[:-2, 1:-1]) / (2 * dS)
            V_SS = (V[2:, 1:-1] - 2 * middle + V[:-2, 1:-1]) / dS**2
            residual = V_t + sigma**2 * S**2 / 2 * V_SS + (rate - dividend) * S * V_S - rate * middle
            # The same points on every grid, but for those beside the border.
            residuals.append(np.abs(residual).max())
        orders = np.log2(np.array(residuals[:-1]) / residuals[1:])
        assert ((orders > 1.8) & (orders < 2.2)).all(), orders
        assert residuals[-1] < 0.02

    @both
    def test_maturity_and_worthless_underlying(self, row):
        V = price(row, spot=(0.0, 200.0))
        sign = 2 * row[-1] - 1
        np.testing.assert_array_equal(V[:, -1], np.maximum(sign * (np.linspace(0, 200, 37) - 100), 0))
        expected = np.zeros(5) if sign > 0 else 100 * np.exp(-0.06 * 1.5 * np.linspace(1, 0, 5))
        np.testing.assert_allclose(V[0], expected, rtol=1e-15)

    @both
    def test_bounds_slope_and_curvature_without_arbitrage(self, row):
        spot, tau = np.linspace(0, 200, 81)[:, None], 1.5 * np.linspace(1, 0, 9)
        V = price(row, spot=(0.0, 200.0), resolution=(81, 9))
        sign, share, bond = 2 * row[-1] - 1, spot * np.exp(-0.02 * tau), 100 * np.exp(-0.06 * tau)
        assert (np.maximum(sign * (share - bond), 0) - 1e-12 <= V).all()
        assert (np.broadcast_to(share if sign > 0 else bond, V.shape) + 1e-12 >= V).all()
        slopes = np.diff(V, axis=0) / 2.5
        assert ((sign * slopes > -1e-13) & (sign * slopes < 1 + 1e-13)).all()
        assert (np.diff(slopes, axis=0) > -1e-12).all()
        assert (price(np.add(row, [0, 0.1, 0, 0, 0, 0]))[:, 0] > price(row)[:, 0]).all()

    @both
    def test_only_the_time_to_maturity_counts(self, row):
        half = surface(row * [1, 1, 1, 1, 0.5, 1], greeks=True)
        np.testing.assert_allclose(surface(row, greeks=True)[:, 2], half[:, 0], rtol=1e-13, atol=1e-13)


class TestGreeks:
    @both
    def test_are_the_derivatives_of_the_price(self, row):
        def moved(spot=0.0, **changes):
            names = ("rate", "volatility", "dividend", "strike", "maturity", "is_call")
            step = np.array([changes.get(name, 0.0) for name in names])
            return price(row + step, spot=(20 + spot, 200 + spot))[:, 0]

        V, delta, gamma, vega, theta, rho = np.moveaxis(surface(row, greeks=True)[:, 0], -1, 0)
        np.testing.assert_array_equal(V, moved())
        for actual, name, step, sign in (
            (delta, "spot", 1e-2, 1),
            (vega, "volatility", 1e-4, 1),
            (theta, "maturity", 1e-4, -1),
            (rho, "rate", 1e-4, 1),
        ):
            expected = sign * (moved(**{name: step}) - moved(**{name: -step})) / (2 * step)
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6 * max(1, np.abs(expected).max()))
        expected = (moved(spot=0.05) - 2 * moved() + moved(spot=-0.05)) / 0.05**2
        np.testing.assert_allclose(gamma, expected, rtol=0, atol=1e-7)
        assert gamma.max() > 0.008

    def test_come_after_the_price(self):
        X, y = make_european_option(2, resolution=4, random_state=0)
        again, more = make_european_option(2, resolution=4, greeks=True, random_state=0)
        assert more.channel_names == ("price", "delta", "gamma", "vega", "theta", "rho")
        np.testing.assert_array_equal(more.values[..., :1], y.values)
        np.testing.assert_array_equal(again, X)


class TestLimits:
    @both
    def test_vanishing_volatility(self, row):
        for sigma in [0.0, 1e-300, 1e-9]:
            row = row * [1, 0, 1, 1, 1, 1] + [0, sigma, 0, 0, 0, 0]
            spot, tau = np.linspace(0, 200, 41)[:, None], 1.5 * np.linspace(1, 0, 5)
            forward = spot * np.exp(-0.02 * tau) - 100 * np.exp(-0.06 * tau)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                V = surface(row, greeks=True, spot=(0.0, 200.0), resolution=(41, 5))
            sign = 2 * row[-1] - 1
            np.testing.assert_allclose(V[..., 0], np.maximum(sign * forward, 0), rtol=1e-14, atol=1e-7)
            in_the_money = np.broadcast_to(sign * forward > 0, V.shape[:2])
            at_the_money = np.broadcast_to(forward == 0, V.shape[:2])
            assert at_the_money.sum() == 1  # S = K at maturity
            expected = np.where(at_the_money, 0.5, in_the_money) * sign * np.exp(-0.02 * tau)
            np.testing.assert_allclose(V[..., 1], expected, atol=1e-15)
            np.testing.assert_array_equal(V[..., 2:4], 0)

    @both
    def test_vanishing_time(self, row):
        # The channels at maturity are those just before it, away from the kink.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            V = surface(row, greeks=True, spot=(0.0, 200.0), resolution=(41, 5))
            before = surface(row * [1, 1, 1, 1, 1e-10, 1], greeks=True, spot=(0.0, 200.0), resolution=(41, 5))
        away = np.arange(41) != 20
        np.testing.assert_allclose(V[away, -1], before[away, 0], rtol=0, atol=2e-7)
        sides = V[[19, 21], -1, 1]
        assert V[20, -1, 1] == sides.mean()
        assert np.isfinite(V).all()
        np.testing.assert_array_equal(V[20, -1, [0, 2, 3, 5]], 0)
        # Theta is q S or -r K where the option is exercised, and half of the sum between.
        assert V[20, -1, 4] == pytest.approx((0.02 - 0.06) * 100 / 2 * (2 * row[-1] - 1))

    def test_results_out_of_range(self):
        with pytest.raises(FieldDataError, match=r"Sample 1: a result is beyond the range of float64"):
            make_european_option(params=[CALL, CALL - [1e3, 0, 0, 0, 0, 0]], dtype=np.float64)


class TestMakeEuropeanOption:
    def test_shapes_types_and_coords(self):
        X, y = make_european_option(5, resolution=(8, 6), spot=(10, 80), random_state=0)
        assert isinstance(y, FieldSet)
        assert (X.shape, X.dtype, y.shape, y.dtype) == ((5, 6), np.float32, (5, 48, 1), np.float32)
        assert y.grid_shape == (8, 6)
        np.testing.assert_allclose(y.coords.reshape(8, 6, 2)[3, 2], [40, 0.4])
        assert make_european_option(2, resolution=3)[1].grid_shape == (3, 3)

    def test_draws(self):
        X, _ = make_european_option(400, resolution=2, call_probability=0.25, random_state=0, dtype=np.float64)
        low, high = np.array([(0, 0.1), (0.1, 0.6), (0, 0.05), (50, 150), (0.1, 2)]).T
        assert ((X[:, :5] >= low) & (X[:, :5] <= high)).all()
        assert (np.abs(X[:, :5].mean(axis=0) - (low + high) / 2) / (high - low) < 4 / np.sqrt(12 * 400)).all()
        assert set(X[:, 5]) == {0, 1}
        assert X[:, 5].mean() == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 400))
        for probability in (0, 1):
            assert set(make_european_option(20, resolution=2, call_probability=probability)[0][:, 5]) == {probability}
        fixed, _ = make_european_option(3, resolution=2, ranges={"strike": (80, 80)}, random_state=0)
        assert set(fixed[:, 3]) == {80}

    def test_own_parameters(self):
        X, y = make_european_option(4, resolution=5, random_state=3, dtype=np.float64)
        again, fields = make_european_option(99, params=X, resolution=5, random_state=0, dtype=np.float64)
        np.testing.assert_array_equal(again, X)
        np.testing.assert_array_equal(fields.values, y.values)

    def test_is_a_table_and_a_field_to_an_estimator(self):
        X, y = make_european_option(60, resolution=12, ranges={"strike": (95, 105)}, call_probability=1, random_state=0)
        model = PODRegressor().fit(X[:50], y[:50])
        prediction = model.predict(X[50:])
        assert isinstance(prediction, FieldSet)
        assert prediction.grid_shape == (12, 12)
        assert model.score(X[50:], y[50:]) > 0.95

    def test_wrong_params(self):
        for column, value, message in [
            (0, np.nan, "params must be finite"),
            (1, -0.1, "volatility must be at least 0, got -0.1"),
            (3, 0.0, "strike must be above 0, got 0"),
            (4, -1.0, "maturity must be above 0, got -1"),
            (5, 0.5, r"is_call must be 0 or 1, got \[0.5\]"),
        ]:
            row = CALL.copy()
            row[column] = value
            with pytest.raises(FieldDataError, match=message):
                make_european_option(params=[row], resolution=4)

    def test_wrong_number_of_params(self):
        with pytest.raises(FieldDataError, match=r"shape \(n, 6\) for rate, .*is_call, got \(1, 5\)"):
            make_european_option(params=[CALL[:5]])
