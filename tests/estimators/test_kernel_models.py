"""Kernel regressions with tails against refits, splines of SciPy and Gaussian processes of scikit-learn."""

from threading import Event, Thread

import numpy as np
import pytest
import torch
from scipy.interpolate import Akima1DInterpolator, CubicSpline, RBFInterpolator
from scipy.linalg import null_space
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern
from threadpoolctl import threadpool_info, threadpool_limits

from skop import PODRegressor
from skop._threads import one_thread
from skop.data import FieldSet, Targets
from skop.estimators.classical._components import Decomposition, between_ends
from skop.estimators.classical._kernel_models import AkimaSystem, Kernel, KernelModel, System
from skop.estimators.classical._kernel_selection import Selection, farthest_points
from skop.estimators.classical._length_scales import ScaleSearch
from skop.estimators.classical._output_models import OutputModel
from skop.estimators.classical._target_rows import TargetRows
from skop.surrogate._novelty import Group

KERNELS = {
    "mean": Kernel("none"),
    "plane": Kernel("none", 1),
    "cubics": Kernel("none", 3),
    "ridge": Kernel("none", linear=2.0),
    "squared exponential": Kernel("gaussian", 0, np.array([0.7, 1.5])),
    "Matern 3/2 with a plane": Kernel("matern32", 1, 1.3),
    "Matern 5/2 with a linear kernel": Kernel("matern52", 0, 0.9, linear=0.5),
    "distance": Kernel("linear_spline"),
    "thin plate": Kernel("thin_plate", 1),
    "cubic": Kernel("cubic", 1),
    "quintic": Kernel("quintic", 2),
    "septic": Kernel("septic", 3),
}


def samples(n=24, d=2, r=3, seed=0):
    generator = np.random.default_rng(seed)
    points = generator.uniform(-1, 1, (n, d))
    return points, np.stack([np.sin(2 * points.sum(axis=1) + k) + 0.1 * points[:, 0] ** k for k in range(r)], axis=1)


#: Numbers of the groups of 24 samples: one of one sample, several of two, one of five.
GROUPS = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 10, 10, 10])[::-1]


def fitted(kernel, points, targets, penalty, inducing=None, groups=None, weight=None):
    penalties = np.broadcast_to(penalty, targets.shape[1])
    return KernelModel.fit(targets, System(kernel, points, inducing, groups, weight), penalties, groups, weight)


def test_the_closed_form_of_leave_one_out_is_that_of_refits(subtests):
    for label, groups in {"samples": None, "groups": GROUPS}.items():
        for name in KERNELS:
            with subtests.test(label, name=name):
                points, targets = samples()
                penalties = np.array([1e-3, 1e-1, 2.0])
                model = fitted(KERNELS[name], points, targets, penalties, groups=groups)
                variances = model.left_out_variances()
                labels = np.arange(len(points)) if groups is None else groups
                for group in np.unique(labels):
                    out, others = labels == group, labels != group
                    refit = fitted(KERNELS[name], points[others], targets[others], penalties)
                    expected = targets[out] - refit.predict(points[out])
                    np.testing.assert_allclose(model.left_out[out], expected, rtol=1e-8, atol=1e-8)
                    # The variance of a training sample is that of a new one, apart from the size of the residuals.
                    known = refit.variances(points[out]) / refit.sizes
                    np.testing.assert_allclose(variances[out] / model.sizes, known, rtol=1e-6)


def test_a_weight_is_a_number_of_copies(subtests):
    """A sample of weight 3 is three samples, of which none is left when it is left out."""
    for label, groups in {"samples": None, "groups": GROUPS}.items():
        for kind, inducing in {"whole": None, "inducing": np.arange(0, 24, 2)}.items():
            for name in KERNELS:
                with subtests.test(label, kind=kind, name=name):
                    points, targets = samples()
                    penalties, weight = np.array([1e-3, 1e-1, 2.0]), np.random.default_rng(1).integers(1, 4, 24)
                    copies = np.repeat(np.arange(24), weight)
                    first = None if inducing is None else np.searchsorted(copies, inducing)
                    options = [(KERNELS[name], points, targets), (KERNELS[name], points[copies], targets[copies])]
                    labels = np.arange(24) if groups is None else groups
                    weighted = fitted(*options[0], penalties, inducing, groups, weight)
                    repeated = fitted(*options[1], penalties, first, labels[copies])
                    new = samples(seed=1)[0]
                    close = {"rtol": 1e-6, "atol": 1e-8}
                    np.testing.assert_allclose(weighted.predict(new), repeated.predict(new), **close)
                    found, expected = (model.variances(new) / model.sizes for model in (weighted, repeated))
                    np.testing.assert_allclose(found, expected, **close)
                    np.testing.assert_allclose(weighted.left_out[copies], repeated.left_out, **close)
                    # The noise of a mean of copies is smaller than that of one of them.
                    found, expected = (model.left_out_variances() / model.sizes for model in (weighted, repeated))
                    noise = penalties * (1 - 1 / weight[copies][:, None])
                    np.testing.assert_allclose(found[copies] + noise, expected, **close)


def test_residuals_and_errors_with_several_penalties_are_those_with_each_alone(subtests):
    """To the last digit: which model is chosen does not depend on how many penalties are tried at once."""
    points, coefficients = samples()
    weight = np.random.default_rng(1).random(24) + 0.5
    systems = {"akima": AkimaSystem(Kernel("akima", 1), points[:, :1])}
    for label, options in {"": (), "groups": (None, GROUPS), "weights": (None, None, weight)}.items():
        systems |= {f"{name} {label}": System(kernel, points, *options) for name, kernel in KERNELS.items()}
    for name, system in systems.items():
        with subtests.test(name):
            projected, penalties = system.project(coefficients), system.penalties[::3]
            expected = [system.left_out(projected, penalties[[k]])[1] for k in range(len(penalties))]
            np.testing.assert_array_equal(system.left_out_by(projected, penalties), expected)
    field, residuals = np.random.default_rng(2).random((24, 7, 2)), np.random.default_rng(3).random((4, 24, 3))
    residuals[1, 2, 0], residuals[3, 5, 1] = np.inf, np.nan
    numbers = coefficients[:, :2]
    for scalars, is_log in ((None, False), (numbers, False), (np.exp(numbers), True)):
        for own in (None, weight):
            with subtests.test("errors", with_scalars=scalars is not None, is_log=is_log, weighted=own is not None):
                rows = TargetRows(Targets(FieldSet(np.arange(7.0)[:, None], field + 1), scalars), own, is_log=is_log)
                _, error, each = rows.measure(Decomposition(rows.rows, None, own))
                found, some = error(residuals[:, ::2], np.arange(0, 24, 2)), each(residuals)
                np.testing.assert_array_equal(found, [error(part[::2], np.arange(0, 24, 2)) for part in residuals])
                np.testing.assert_array_equal(some, [each(part) for part in residuals])
                np.testing.assert_array_equal(np.isfinite(found), [True, False, True, True])
                np.testing.assert_array_equal(np.isfinite(some).all(axis=1), [True, False, True, False])


def test_what_a_group_alone_tells_has_no_residual():
    """Without the group there is no slope, with either of its samples there is one."""
    points = np.array([[0.0], [0.0], [0.0], [1.0], [1.0]])
    groups = np.array([0, 1, 2, 3, 3])
    found = []
    for labels in (None, groups):
        system = System(Kernel("none", 1), points, groups=labels)
        found.append(np.isinf(system.left_out(system.project(points), np.ones(1))[1][:, 0]))
    assert not found[0].any()
    np.testing.assert_array_equal(found[1], [False, False, False, True, True])


def test_the_saddle_point_system_is_solved(subtests):
    for name in KERNELS:
        with subtests.test(name):
            points, targets = samples()
            kernel, penalty = KERNELS[name], 0.05
            new = samples(seed=1)[0]
            matrix, tail = kernel.matrix(points, points) + penalty * np.eye(len(points)), kernel.tail(points)
            zeros = np.zeros((tail.shape[1], tail.shape[1]))
            system = np.block([[matrix, tail], [tail.T, zeros]])
            solution = np.linalg.solve(system, np.concatenate([targets, np.zeros((tail.shape[1], targets.shape[1]))]))
            expected = np.concatenate([kernel.matrix(new, points), kernel.tail(new)], axis=1) @ solution
            model = fitted(kernel, points, targets, penalty)
            np.testing.assert_allclose(model.predict(new), expected, rtol=1e-8, atol=1e-8)
            given = torch.tensor(new, requires_grad=True)
            found = model.predict(given)
            np.testing.assert_allclose(found.detach(), expected, rtol=1e-8, atol=1e-8)
            step, (slope,) = 1e-5, torch.autograd.grad(found.sum(), given)
            moved = [model.predict(new + sign * step * np.eye(2)[0]).sum(axis=1) for sign in (1, -1)]
            np.testing.assert_allclose(slope[:, 0], (moved[0] - moved[1]) / (2 * step), rtol=1e-5, atol=1e-6)


def test_gradients_at_training_points_are_finite():
    points, targets = samples()
    for kernel in KERNELS.values():
        given = torch.tensor(points, requires_grad=True)
        (slope,) = torch.autograd.grad(fitted(kernel, points, targets, 1e-3).predict(given).sum(), given)
        assert torch.isfinite(slope).all()


def test_the_cubic_of_one_input_is_the_natural_spline():
    points = np.sort(np.random.default_rng(0).uniform(0, 4, 15))
    targets, new = np.sin(points), np.linspace(points[0], points[-1], 50)
    found = fitted(Kernel("cubic", 1), points[:, None], targets[:, None], 0.0).predict(new[:, None])[:, 0]
    np.testing.assert_allclose(found, CubicSpline(points, targets, bc_type="natural")(new), rtol=1e-9, atol=1e-9)


def test_akima_is_that_of_scipy_and_left_out_samples_are_those_of_refits(monkeypatch):
    # Four samples at once: 6 neighbours of 3 values each.
    monkeypatch.setattr("skop.estimators.classical._akima._AT_ONCE", 72)
    points = np.random.default_rng(0).uniform(0, 4, (15, 1))
    targets, order = np.abs(points - [1.3, 2.1, 7.0]), np.argsort(points[:, 0])
    new = np.linspace(*points[order[[0, -1]], 0], 50)

    def interpolated(points, targets):
        return KernelModel.fit(targets, AkimaSystem(Kernel("akima", 1), points), np.zeros(targets.shape[1]))

    expected = Akima1DInterpolator(points[order, 0], targets[order, 0])(new)
    found = interpolated(points, targets[:, :1]).predict(new[:, None])[:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-8)
    model = interpolated(points, targets)
    for sample in range(15):
        others = np.arange(15) != sample
        refit, place = interpolated(points[others], targets[others]), points[[sample]]
        np.testing.assert_allclose(targets[sample] - model.left_out[sample], refit.predict(place)[0], atol=1e-12)
        known = refit.variances(place)[0] / refit.sizes
        np.testing.assert_allclose(model.left_out_variances()[sample] / model.sizes, known, rtol=1e-10)
    # Residuals have the size of their deviations.
    np.testing.assert_allclose((model.left_out**2 / model.left_out_variances()).mean(axis=0), 1)


@pytest.mark.parametrize(("ours", "theirs"), [("thin_plate", "thin_plate_spline"), ("quintic", "quintic")])
def test_polyharmonic_kernels_interpolate_as_those_of_scipy(ours, theirs):
    points, targets = samples()
    kernel = Kernel(ours, 2)
    expected = RBFInterpolator(points, targets, kernel=theirs, degree=2)(samples(seed=1)[0])
    np.testing.assert_allclose(fitted(kernel, points, targets, 0.0).predict(samples(seed=1)[0]), expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("ours", "theirs"), [("gaussian", RBF([0.7, 1.5])), ("matern52", Matern([0.7, 1.5], nu=2.5))], ids=str
)
def test_gaussian_processes_are_those_of_scikit_learn(ours, theirs):
    points, targets = samples()
    # Deviations from a constant trend with weights that sum to zero are those of a process with a wide prior for it.
    process = GaussianProcessRegressor(theirs + 1e6 * RBF(1e6, "fixed"), alpha=1e-2, optimizer=None)
    new = samples(seed=1)[0]
    mean, deviation = process.fit(points, targets[:, 0]).predict(new, return_std=True)
    model = fitted(Kernel(ours, 0, np.array([0.7, 1.5])), points, targets[:, :1], 1e-2)
    np.testing.assert_allclose(model.predict(new)[:, 0], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.variances(new)[:, 0] / model.sizes[0], deviation**2 + 1e-2, rtol=1e-4)


def test_kriging_variances_are_those_of_the_saddle_point_system():
    points, targets = samples()
    for kernel in KERNELS.values():
        tail = kernel.tail(points)
        matrix = kernel.matrix(points, points) + 0.05 * np.eye(len(points))
        system = np.block([[matrix, tail], [tail.T, np.zeros((tail.shape[1], tail.shape[1]))]])
        new = samples(seed=1)[0]
        rows = np.concatenate([kernel.matrix(new, points), kernel.tail(new)], axis=1)
        own = np.array([kernel.matrix(point[None], point[None])[0, 0] for point in new])
        expected = own + 0.05 - (rows * np.linalg.solve(system, rows.T).T).sum(axis=1)
        model = fitted(kernel, points, targets[:, :1], 0.05)
        np.testing.assert_allclose(model.variances(new)[:, 0] / model.sizes[0], expected, rtol=1e-6, atol=1e-8)


def test_leave_one_out_errors_have_the_rounding_of_the_kernel_in_them():
    """With long length scales, coefficients can be so large that the rounding of the kernel changes predictions."""
    for groups in (None, np.arange(24) // 2):
        for seed in range(5):
            generator = np.random.default_rng(seed)
            points, targets = generator.random((24, 2)), generator.normal(size=(24, 1))
            system, changes = System(Kernel("gaussian", 0, np.array([1800.0, 1e6])), points, groups=groups), []
            for penalty in system.penalties[:8]:
                model = KernelModel.fit(targets, system, np.array([penalty]), groups)
                change = model.predict(points + 1e-8 * generator.normal(size=(24, 2))) - model.predict(points)
                changes.append(np.linalg.norm(change))
                assert changes[-1] < 2 * np.linalg.norm(model.left_out)
            assert max(changes) > np.linalg.norm(targets)


def test_length_scales_lower_the_error_and_find_what_does_not_matter():
    generator = np.random.default_rng(0)
    points = generator.uniform(-1, 1, (60, 3))
    targets = np.sin(4 * points[:, :1])
    error = lambda residuals, samples: np.sqrt((residuals**2).mean(axis=(-2, -1)))  # noqa: E731
    selection = Selection(points, targets, np.full(60, 1 / 60), error, 3)
    found = selection.search("gaussian_process")
    scales = found.system.kernel.scales
    assert min(scales[1:]) > 10 * scales[0]
    isotropic = min(
        error(fitted(Kernel("gaussian", 0, scale), points, targets, 1e-8).left_out, None) for scale in (0.3, 0.6, 1.2)
    )
    assert found.error < 0.1 * isotropic


@pytest.mark.parametrize("weight", [None, np.linspace(0.2, 1.8, 30)], ids=["equal", "weighted"])
@pytest.mark.parametrize("groups", [None, np.arange(30) // 4], ids=["samples", "groups"])
def test_the_gradient_of_the_leave_one_out_error_is_that_of_differences(monkeypatch, groups, weight):
    points, targets = samples(30)
    caught = []

    def spy(objective, start, **_):
        start = start + 0.1
        error, gradient = objective(start)
        steps = 1e-5 * np.eye(len(start))
        caught.append((gradient, [(objective(start + s)[0] - objective(start - s)[0]) / 2e-5 for s in steps], error))
        return type("Result", (), {"x": start})

    monkeypatch.setattr("skop.estimators.classical._length_scales.minimize", spy)
    weights = np.linspace(0.5, 1, 30) / 30
    selection = Selection(points, targets, weights, lambda residuals, samples: 0.0, 0, groups, None, weight)
    for name in ("gaussian", "matern52", "matern32"):
        kernel = Kernel(name, 0, 0.8, linear=0.3)
        selection._scale_search(kernel, np.arange(30)).run(1e-3)
        # The error is that of the closed form, compared with that of the start.
        errors = []
        for logs in np.log([0.8, 0.8, 1e-3, 0.3]) + np.array([[0.0], [0.1]]):
            scaled = Kernel(name, 0, np.exp(logs[:2]), linear=float(np.exp(logs[3])))
            left_out = fitted(scaled, points, targets, np.exp(logs[2]), groups=groups, weight=weight).left_out
            errors.append(weights @ np.linalg.norm(left_out, axis=1))
            if groups is None:
                # The likelihood, of what no constant explains, with the best size of the kernel.
                root = np.ones((30, 1)) if weight is None else np.sqrt(weight)[:, np.newaxis]
                inside = null_space(root.T)
                system = inside.T @ (root * scaled.matrix(points, points) * root.T) @ inside
                held, system = inside.T @ (root * targets), system + np.exp(logs[2]) * np.eye(29)
                other = np.sqrt(np.vdot(held, np.linalg.solve(system, held)) * np.linalg.det(system) ** (1 / 29))
                errors[-1] = np.sqrt(errors[-1] * other)
        assert caught[-1][2] == pytest.approx(np.log(errors[1] / errors[0]), rel=1e-7)
    for found, expected, _ in caught:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("groups", [None, np.arange(30) // 5], ids=["samples", "groups"])
def test_where_values_are_shared_the_gradient_is_that_of_differences_too(monkeypatch, groups):
    """The criterion holds the errors without all samples of a value of each parameter."""
    axes = np.meshgrid(np.linspace(-1, 1, 6), np.linspace(-1, 1, 5), indexing="ij")
    points, caught = np.stack(axes, axis=-1).reshape(-1, 2), []
    targets = np.stack([np.sin(2 * points[:, 0] * points[:, 1]), np.exp(points[:, 0])], axis=1)

    def spy(objective, start, **_):
        start = start + 0.1
        steps = 1e-5 * np.eye(len(start))
        caught.append(
            (objective(start)[1], [(objective(start + s)[0] - objective(start - s)[0]) / 2e-5 for s in steps])
        )
        return type("Result", (), {"x": start})

    monkeypatch.setattr("skop.estimators.classical._length_scales.minimize", spy)
    error = lambda residuals, samples: np.linalg.norm(residuals, axis=(-2, -1))  # noqa: E731
    for n_params in (2, 0):
        selection = Selection(points, targets, np.full(30, 1 / 30), error, n_params, groups)
        selection._scale_search(Kernel("matern52", 0, 0.8, linear=0.3), np.arange(30)).run(1e-3)
    for found, expected in caught:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    # Global parameters have levels, and modes of fields have none.
    assert np.abs(np.subtract(caught[0][0], caught[1][0])).max() > 0.01


def test_parameters_of_a_run_share_the_samples_that_are_left_out():
    """Each has an error of its own, without its ends, and the criterion is that of separate ones."""
    rng = np.random.default_rng(0)
    runs = rng.normal(size=(6, 2))[np.repeat(np.arange(6), 5)]
    points = np.column_stack([runs, np.tile(np.linspace(0, 1, 5), 6)])
    targets = np.stack([np.sin(2 * points.sum(axis=1)), np.exp(points[:, 0] * points[:, 2])], axis=1)
    error = lambda residuals, samples: np.linalg.norm(residuals, axis=(-2, -1))  # noqa: E731
    selection = Selection(points, targets, np.full(30, 1 / 30), error, 3)
    shared = selection._values_within(np.arange(30))
    assert [len(inner) for _, inner in shared] == [2, 1]
    for parts, inner in shared:
        for rows in inner:
            own = [part[np.isin(part[:, 0], rows)] for part in parts]
            assert sorted(np.concatenate([part.ravel() for part in own])) == rows.tolist()
    for rows, column in zip([rows for _, inner in shared for rows in inner], points.T, strict=True):
        expected = (column > column.min()) & (column < column.max())
        assert rows.tolist() == np.flatnonzero(expected).tolist()
    weights = [np.where(np.isin(np.arange(30), rows), 1 / 30, 0.0) for rows in shared[0][1]]
    one, apart = [([], [np.full(30, 1 / 30)])], shared[0][0]
    logs = np.log([0.5, 0.7, 0.9, 1e-3, 0.3])
    options = Kernel("matern52", 0, 0.8, linear=0.3), points, targets
    together = ScaleSearch(*options, [*one, (apart, weights)], 3).objective(logs)
    each = ScaleSearch(*options, [*one, *((apart, [held]) for held in weights)], 3).objective(logs)
    np.testing.assert_allclose(together[0], each[0], rtol=1e-12)
    np.testing.assert_allclose(together[1], each[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [6, 50])
def test_components_of_weighted_rows_are_those_of_copies(monkeypatch, size):
    generator = np.random.default_rng(0)
    rows, copies = generator.normal(size=(12, size)), np.repeat(np.arange(12), generator.integers(1, 4, 12))
    weight = np.bincount(copies) / np.bincount(copies).mean()
    expected = Decomposition(rows[copies], None)
    factors = generator.random(size)
    for large, most in ((1e9, 2000), (0, 2000), (0, 10)):
        monkeypatch.setattr("skop.estimators.classical._components._LARGE", large)
        monkeypatch.setattr("skop.estimators.classical._components.MOST_EXACT", most)
        found = Decomposition(rows, None, weight)
        np.testing.assert_allclose(found.mean, expected.mean)
        np.testing.assert_allclose(found.variances, expected.variances)
        sign = np.sign((found.coefficients[copies] * expected.coefficients).sum(axis=0))
        np.testing.assert_allclose(found.coefficients[copies] * sign, expected.coefficients, atol=1e-8)
        basis = found.basis()
        np.testing.assert_allclose(basis.components_ * sign[:, None], expected.basis().components_, atol=1e-8)
        np.testing.assert_allclose(
            found.products(factors) * np.outer(sign, sign), expected.products(factors), atol=1e-8
        )


def test_components_of_many_points_are_those_of_a_decomposition(monkeypatch):
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(12, 4)) @ generator.normal(size=(4, 50)) + generator.normal(size=50)
    exact = Decomposition(rows, None)
    monkeypatch.setattr("skop.estimators.classical._components._LARGE", 0)
    found = Decomposition(rows, None)
    assert len(exact.variances) == len(found.variances) == 4
    # Directions in which no sample differs are no components, however many are asked for.
    assert len(Decomposition(rows, 10**6).variances) == 4
    factors = generator.random(50)
    sign = np.sign((exact.coefficients * found.coefficients).sum(axis=0))
    np.testing.assert_allclose(found.coefficients * sign, exact.coefficients, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.products(factors) * np.outer(sign, sign), exact.products(factors), atol=1e-8)
    for parts in (exact, found):
        basis = parts.basis()
        np.testing.assert_allclose(basis.transform(rows), parts.coefficients, atol=1e-8)
        np.testing.assert_allclose(basis.inverse_transform(parts.coefficients), rows, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(basis.components_ @ basis.components_.T, np.eye(4), atol=1e-8)


def test_of_a_kernel_that_some_samples_tell_against_the_error_alone_is_computed(monkeypatch):
    monkeypatch.setattr("skop.estimators.classical._kernel_selection._SCREENED", 30)
    points = np.random.default_rng(0).normal(size=(60, 4))
    targets = points @ np.random.default_rng(1).normal(size=(4, 3))
    error = lambda residuals, samples: np.sqrt((residuals**2).mean(axis=(-2, -1)))  # noqa: E731
    selection = Selection(points, targets, np.full(60, 1 / 60), error, 0)
    selection.screen("ridge")
    found = selection.search("rbf")
    assert found.system is None
    exact = fitted(Kernel("linear_spline"), points, targets, found.penalties[0])
    np.testing.assert_allclose(found.error, error(exact.left_out, None), rtol=1e-8)
    assert selection.search("rbf", thorough=True).system is not None
    assert selection.search("ridge").error < 1e-6 * found.error


def test_orthogonal_inputs_are_the_eigenvectors_of_the_linear_kernel():
    values = np.random.default_rng(0).normal(size=(12, 40))
    rows = Decomposition(values, None).coefficients
    turned = rows @ np.linalg.qr(np.random.default_rng(1).normal(size=(rows.shape[1], rows.shape[1])))[0]
    targets = np.sin(values[:, :3])
    short, full = (fitted(Kernel("none", linear=1.0), points, targets, 0.3) for points in (rows, turned))
    np.testing.assert_allclose(short.left_out, full.left_out, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(short.predict(rows), full.predict(turned), rtol=1e-8, atol=1e-10)


def test_with_all_samples_as_inducing_ones_the_model_is_exact(subtests):
    for name in [name for name, kernel in KERNELS.items() if kernel.name != "none" or kernel.linear]:
        with subtests.test(name):
            points, targets = samples()
            penalties, new = np.array([1e-3, 1e-1, 2.0]), 2 * samples(seed=1)[0]
            exact = fitted(KERNELS[name], points, targets, penalties)
            found = fitted(KERNELS[name], points, targets, penalties, np.arange(len(points)))
            pairs = [(model.predict(new), model.variances(new), model.left_out_variances()) for model in (exact, found)]
            for expected, value in [
                *zip(*pairs, strict=True),
                (exact.left_out, found.left_out),
                (exact.sizes, found.sizes),
            ]:
                np.testing.assert_allclose(value, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


def test_inducing_samples_give_ridge_regression_in_their_kernels(subtests):
    for name in ["ridge", "Matern 3/2 with a plane", "Matern 5/2 with a linear kernel", "thin plate"]:
        with subtests.test(name):
            points, targets = samples(30)
            kernel, inducing, penalty = KERNELS[name], np.arange(0, 30, 3), 0.05
            model = fitted(kernel, points, targets, penalty, inducing)
            assert model.weights[0].shape == (10, 3)
            # Kernels that the tail of the inducing samples cannot tell apart, with the norm of their space as penalty.
            own = kernel.tail(points[inducing])
            complement = np.linalg.svd(own)[0][:, own.shape[1] :]
            rows = np.concatenate([kernel.matrix(points, points[inducing]) @ complement, kernel.tail(points)], axis=1)
            norm = np.zeros((rows.shape[1], rows.shape[1]))
            size = complement.shape[1]
            norm[:size, :size] = complement.T @ kernel.matrix(points[inducing], points[inducing]) @ complement
            left_out = model.left_out_variances() / model.sizes
            for sample in range(30):
                others = np.arange(30) != sample
                inverse = np.linalg.pinv(rows[others].T @ rows[others] + penalty * norm, rcond=1e-13)
                expected = targets[sample] - rows[sample] @ inverse @ rows[others].T @ targets[others]
                np.testing.assert_allclose(model.left_out[sample], expected, rtol=1e-7, atol=1e-8)
                # A sample that is inducing has no variance beside that of the ridge regression.
                if sample in inducing:
                    variance = penalty * (1 + rows[sample] @ inverse @ rows[sample])
                    np.testing.assert_allclose(left_out[sample], variance, rtol=1e-6)


def test_far_from_inducing_samples_the_variance_is_that_of_the_process():
    points, targets = samples(60)
    far, kernel = np.array([[0.0, 0.0], [4.0, 0.0], [40.0, 0.0]]), Kernel("gaussian", 0, 0.5)
    some = fitted(kernel, points, targets, 1e-2, farthest_points(points, 20))
    near, away, alone = (some.variances(far) / some.sizes)[:, 0]
    exact = fitted(kernel, points, targets, 1e-2)
    expected = (exact.variances(far) / exact.sizes)[:, 0]
    assert 0.5 * expected[0] < near < 0.1 < away
    np.testing.assert_allclose([away, alone], expected[1:], rtol=0.2)


def test_ends_of_one_input_do_not_count_where_two_samples_are_left():
    for line, expected in (
        ([3.0, 0.0, 1.0, 2.0], [False, False, True, True]),
        ([1.0, 0.0, 2.0], [True] * 3),
        ([0.0, 0.0, 1.0, 1.0, 1.0], [True] * 5),
    ):
        assert between_ends(np.array(line)[:, None]).tolist() == expected
    assert between_ends(np.eye(4)).all()


def test_inducing_samples_are_spread_and_do_not_depend_on_the_order():
    line = np.linspace(0, 8, 9)[:, None]
    assert farthest_points(line, 5).tolist() == [0, 2, 4, 6, 8]
    points, order = samples(40)[0], np.random.default_rng(1).permutation(40)
    np.testing.assert_array_equal(np.sort(order[farthest_points(points[order], 12)]), farthest_points(points, 12))


def test_many_samples_are_never_compared_with_all_others(monkeypatch):
    monkeypatch.setattr("skop.estimators.classical._components.MOST_EXACT", 50)
    for name, value in (("MOST_EXACT", 50), ("_INDUCING", 25), ("_SCREENED", 20)):
        monkeypatch.setattr(f"skop.estimators.classical._kernel_selection.{name}", value)
    sizes, matrix = [], Kernel.matrix
    monkeypatch.setattr(Kernel, "matrix", lambda self, a, b: sizes.append((len(a), len(b))) or matrix(self, a, b))
    points = np.random.default_rng(0).uniform(-1, 1, (80, 2))
    targets = np.stack([np.sin(3 * points[:, 0]), np.cos(points.sum(axis=1))], axis=1)
    error = lambda residuals, samples: np.sqrt((residuals**2).mean(axis=(-2, -1)))  # noqa: E731
    selection = Selection(points, targets, np.full(80, 1 / 80), error, 2)
    found = {name: selection.search(name) for name in ("gaussian_process", "ridge", "rbf")}
    assert found["gaussian_process"].error < 2e-3 < found["ridge"].error
    # Of a kernel that some samples tell against the error alone is computed, with fewer inducing ones.
    assert found["rbf"].system is None
    assert found["gaussian_process"].error < found["rbf"].error < found["ridge"].error
    model = selection.fit(found["gaussian_process"], cut=False)
    model.variances(points), model.left_out_variances()
    assert max(min(size) for size in sizes) == 25


def test_components_of_many_samples_are_those_of_a_decomposition(monkeypatch):
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(50, 4)) @ generator.normal(size=(4, 12)) + generator.normal(size=12)
    exact = Decomposition(rows, None)
    for module in ("_components", "_kernel_selection"):
        monkeypatch.setattr(f"skop.estimators.classical.{module}.MOST_EXACT", 40)
    found = Decomposition(rows, None)
    assert found.is_large
    np.testing.assert_allclose(found.variances, exact.variances, rtol=1e-8)
    basis, expected = found.basis(), exact.basis()
    np.testing.assert_allclose(
        basis.components_.T @ basis.components_, expected.components_.T @ expected.components_, atol=1e-8
    )
    np.testing.assert_allclose(basis.transform(rows), found.coefficients, atol=1e-10)


def threads_of_products():
    """Numbers of threads of the libraries in which NumPy and SciPy multiply matrices."""
    return {held["num_threads"] for held in threadpool_info() if held["user_api"] == "blas"}


def test_small_systems_are_computed_in_one_thread(monkeypatch):
    """By a search, the features of novelty and predictions: several threads would wait for each other."""
    seen = {}

    def watch(owner, name):
        method = getattr(owner, name)

        def noted(*given, **options):
            seen[name] = threads_of_products()
            return method(*given, **options)

        monkeypatch.setattr(owner, name, noted)

    for owner, name in ((Selection, "search"), (Group, "features"), (OutputModel, "predict"), (OutputModel, "spread")):
        watch(owner, name)
    points, targets = samples()
    with threadpool_limits(2, user_api="blas"):
        usual = threads_of_products()
        PODRegressor().fit(points, targets).predict(points, return_std=True)
        assert seen == {name: {1} for name in ("search", "features", "predict", "spread")}
        assert threads_of_products() == usual
        # Blocks of several threads of a program end in any order.
        one, other = one_thread(), one_thread()
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert threads_of_products() == {1}
        with pytest.raises(ZeroDivisionError), one_thread():
            raise ZeroDivisionError
        assert threads_of_products() == {1}
        other.__exit__(None, None, None)
        assert threads_of_products() == usual


def test_the_last_of_blocks_in_several_threads_gives_the_threads_back():
    """A thread that does not end keeps no control of the number, which is that of the process."""
    begun, ended, seen = Event(), Event(), []

    def work():
        with one_thread():
            begun.set()
            assert ended.wait(60)
        seen.append(threads_of_products())
        with one_thread():
            seen.append(threads_of_products())

    with threadpool_limits(2, user_api="blas"):
        usual = threads_of_products()
        worker = Thread(target=work)
        with one_thread():
            worker.start()
            assert begun.wait(60)
        assert threads_of_products() == {1}
        ended.set()
        worker.join()
        assert seen == [usual, {1}]
        assert threads_of_products() == usual
