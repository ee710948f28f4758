"""The flow solver against Kovasznay's flow, uniform streams, and the derivative of its own forces."""

import numpy as np
import pytest
import skfem

from skop.datasets import _steady_flow as steady_flow
from skop.datasets._steady_flow import SteadyFlow
from skop.exceptions import FieldDataError

VISCOSITY = 0.025
#: Rate of decay of Kovasznay's flow (Proc. Camb. Phil. Soc. 44, 1948), whose vortices lie at unit distance along y.
RATE = 1 / (2 * VISCOSITY) - np.sqrt(1 / (4 * VISCOSITY**2) + 4 * np.pi**2)


def bent_mesh(n_cells):
    """Unit square of nine-node cells, sheared upwards along a curve."""
    mesh = skfem.MeshQuad2.from_mesh(skfem.MeshQuad.init_tensor(*[np.linspace(0, 1, n_cells + 1)] * 2))
    x, y = mesh.doflocs
    return skfem.MeshQuad2(np.stack([x, y + 0.3 * np.sin(2 * x)]), mesh.t)


def kovasznay(x, y):
    """Horizontal and vertical velocity, pressure, and derivatives of the velocity along x."""
    decay, angle = np.exp(RATE * x), 2 * np.pi * y
    u, v = 1 - decay * np.cos(angle), RATE / (2 * np.pi) * decay * np.sin(angle)
    return u, v, -(decay**2) / 2, RATE * (u - 1), RATE * v


def solve_kovasznay(n_cells):
    """Mesh, velocity and pressure, with Kovasznay's velocity on three sides and its stress on the right."""
    mesh = bent_mesh(n_cells)
    x, y = mesh.doflocs
    border = mesh.facets_satisfying(lambda x: x[0] < 1 - 1e-9, boundaries_only=True)
    basis = skfem.Basis(mesh, skfem.ElementQuad2())
    is_fixed = np.zeros(len(x), dtype=bool)
    is_fixed[basis.get_dofs(border).flatten()] = True
    start = np.where(is_fixed, kovasznay(x, y)[:2], 0).T
    outlet = skfem.FacetBasis(
        mesh,
        skfem.ElementQuad2(),
        facets=mesh.facets_satisfying(lambda x: x[0] > 1 - 1e-9, boundaries_only=True),
        intorder=8,
    )
    load = np.zeros((len(x), 2))
    for component in range(2):

        def stress(w, geometry, component=component):
            fields = kovasznay(*geometry.x)
            return (VISCOSITY * fields[3 + component] - (component == 0) * fields[2]) * w

        load[:, component] = skfem.LinearForm(stress).assemble(outlet)
    flow = SteadyFlow(mesh, VISCOSITY)
    return mesh, *flow.solve(start.ravel(), np.repeat(is_fixed, 2), load.ravel())


def l2_error(mesh, element, values, exact):
    basis = skfem.Basis(mesh, element, intorder=8)
    interpolated = basis.interpolate(values)
    return np.sqrt(((interpolated - exact(*basis.global_coordinates())) ** 2 * basis.dx).sum())


def test_orders_of_convergence():
    errors = []
    for n_cells in (6, 12, 24):
        mesh, velocity, pressure = solve_kovasznay(n_cells)
        u, v = velocity.reshape(-1, 2).T
        quadratic, bilinear = skfem.ElementQuad2(), skfem.ElementQuad1()
        fields = [(quadratic, u), (quadratic, v), (bilinear, pressure)]
        errors.append(
            [
                l2_error(mesh, element, values, lambda x, y, k=k: kovasznay(x, y)[k])
                for k, (element, values) in enumerate(fields)
            ]
        )
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (orders[-1] > [2.8, 2.8, 1.9]).all(), orders
    assert (np.array(errors[-1]) < [2e-4, 1e-4, 2e-3]).all(), errors


def test_a_uniform_stream_stays():
    mesh = bent_mesh(4)
    x, _ = mesh.doflocs
    border = skfem.Basis(mesh, skfem.ElementQuad2()).get_dofs(
        mesh.facets_satisfying(lambda x: x[0] < 1 - 1e-9, boundaries_only=True)
    )
    is_fixed = np.zeros(len(x), dtype=bool)
    is_fixed[border.flatten()] = True
    stream = np.array([1.3, -0.4])
    start = np.where(is_fixed[:, np.newaxis], stream, 0)
    velocity, pressure = SteadyFlow(mesh, 0.01).solve(start.ravel(), np.repeat(is_fixed, 2), np.zeros(start.size))
    np.testing.assert_allclose(velocity.reshape(-1, 2), np.broadcast_to(stream, start.shape), atol=1e-9)
    np.testing.assert_allclose(pressure, 0, atol=1e-9)


def test_derivative_of_the_forces():
    # The forces are of second degree in the velocity, so that central differences are exact.
    mesh = bent_mesh(2)
    flow = SteadyFlow(mesh, 0.3)
    state, change = np.random.default_rng(0).standard_normal((2, 2 * mesh.doflocs.shape[1]))
    up, down = (flow._linearise(state + sign * change, 0.7)[0] for sign in (1, -1))
    np.testing.assert_allclose((up - down) / 2, flow._linearise(state, 0.7)[1] @ change, atol=1e-12)


def test_small_steps_of_inertia_lead_to_the_same_flow(monkeypatch):
    _, velocity, pressure = solve_kovasznay(6)
    targets = []
    newton = SteadyFlow._newton

    def record(self, start, free, load, inertia, limit):
        targets.append(inertia)
        return newton(self, start, free, load, inertia, limit)

    monkeypatch.setattr(SteadyFlow, "_newton", record)
    monkeypatch.setattr(steady_flow, "MAX_ITERATIONS", 4)
    _, again, pressure_again = solve_kovasznay(6)
    assert targets[0] == targets[-1] == 1
    assert min(targets) < 1
    np.testing.assert_allclose(again, velocity, atol=1e-8)
    np.testing.assert_allclose(pressure_again, pressure, atol=1e-8)


def test_a_flow_that_is_not_found(monkeypatch):
    monkeypatch.setattr(steady_flow, "LARGEST_STEP", 1e-9)
    with pytest.raises(
        FieldDataError, match=r"no steady flow was found beyond 0.0% of the inertia; raise viscosity or n_points"
    ):
        solve_kovasznay(2)
