"""Steady flow of an incompressible fluid in the plane: the Navier-Stokes equations by Taylor-Hood elements.

On nine-node quadrilaterals the velocity is quadratic and the pressure bilinear (Q2-Q1). The weak form, for all test
functions w and q that are 0 where the velocity is fixed,

    (nu grad u, grad w) + t (u . grad u, w) - (p, div w) = (load, w),    (q, div u) = 0,

leaves ``nu du/dn - p n = 0`` where nothing is fixed and no load acts: a free outlet. Newton's method starts from the
Stokes flow (share of inertia t = 0) and goes to t = 1, in smaller steps of t where it does not converge.

Notation: nu kinematic viscosity, D matrix of ``-(q, div u)``, e elements, k quadrature points of an element.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import block_array, coo_array, csc_array
from scipy.sparse.linalg import splu

from skop._typing import FloatArray, IntArray
from skop.datasets._finite_elements import assemble_stiffness, displacement_dofs, gradient_operator, import_fem
from skop.exceptions import FieldDataError

#: Newton's method ends after a step below this share of the speed. The next one would be about its square.
RELATIVE_TOLERANCE = 1e-9
#: A step longer than this many times the fastest Stokes flow means that Newton's method diverges.
LARGEST_STEP = 10.0
MAX_ITERATIONS = 14
#: Inertia is added in at most this many steps.
MAX_STEPS = 64
#: A diagonal entry is the pivot if it has at least this share of its column's largest entry. The order of elimination
#: is that of a symmetric pattern: always taking the largest entry fills the factors seven times more (65 x 65 points).
PIVOT_THRESHOLD = 0.1


class SteadyFlow:
    """Flow on a mesh; degree of freedom 2 i + c is component c of the velocity at point i.

    Parameters
    ----------
    mesh : skfem.MeshQuad2
        Points and cells. Pressures belong to the corners of the cells, in the order of the mesh's points.
    viscosity : float
        Kinematic viscosity nu.
    """

    def __init__(self, mesh: Any, viscosity: float) -> None:
        skfem = import_fem()
        self.viscosity = viscosity
        # Four points each way are exact for all terms, since quadrilaterals with parallel sides have a constant area.
        basis = skfem.Basis(mesh, skfem.ElementQuad2(), intorder=7)
        pressures = skfem.Basis(mesh, skfem.ElementQuad1(), intorder=7)
        self._dofs = displacement_dofs(basis)
        gradients = gradient_operator(basis)
        # Rows of the operator: the gradient (du/dx, du/dy, dv/dx, dv/dy), then the velocity (u, v).
        self._operator = np.concatenate([gradients, _value_operator(basis)], axis=2)
        self._weights = basis.dx[:, :, np.newaxis]
        self._divergence = _divergence(gradients, self._weights, self._dofs, pressures)

    def solve(self, velocity: FloatArray, is_fixed: npt.NDArray[np.bool_], load: FloatArray) -> tuple[FloatArray, ...]:
        """Find velocity (2 P,) and pressure (corners,), from the velocity where fixed and loads elsewhere."""
        n_velocities, n_pressures = len(velocity), self._divergence.shape[0]
        free = np.flatnonzero(np.append(~is_fixed, np.ones(n_pressures, dtype=bool)))
        state: FloatArray = np.append(velocity, np.zeros(n_pressures))
        state[free] += self._newton_step(state, free, load, 0.0)
        limit = LARGEST_STEP * np.abs(state[:n_velocities]).max()
        done, step = 0.0, 1.0
        while done < 1:
            target = min(1.0, done + step)
            trial = self._newton(state, free, load, target, limit)
            if trial is not None:
                state, done = trial, target
            elif step * MAX_STEPS > 1:
                step /= 2
            else:
                raise FieldDataError(
                    f"no steady flow was found beyond {done:.1%} of the inertia; raise viscosity or n_points."
                )
        return state[:n_velocities], state[n_velocities:]

    def _newton(
        self, start: FloatArray, free: IntArray, load: FloatArray, inertia: float, limit: float
    ) -> FloatArray | None:
        """Newton's method from a start; None if it does not converge."""
        state = start.copy()
        n_velocities, n_free = len(load), np.count_nonzero(free < len(load))
        for _ in range(MAX_ITERATIONS):
            change = self._newton_step(state, free, load, inertia)
            state[free] += change
            size = np.abs(change[:n_free]).max()
            if size <= RELATIVE_TOLERANCE * np.abs(state[:n_velocities]).max():
                return state
            if not size <= limit:
                return None
        return None

    def _newton_step(self, state: FloatArray, free: IntArray, load: FloatArray, inertia: float) -> FloatArray:
        """Change of the free unknowns that solves the equations linearised about a state."""
        velocity, pressure = np.split(state, [len(load)])
        forces, jacobian = self._linearise(velocity, inertia)
        forces += self._divergence.T @ pressure
        residual = np.append(load - forces, -(self._divergence @ velocity))
        matrix = block_array([[jacobian, self._divergence.T], [self._divergence, None]]).tocsc()[free][:, free]
        factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=PIVOT_THRESHOLD)
        return factors.solve(residual[free])

    def _linearise(self, velocity: FloatArray, inertia: float) -> tuple[FloatArray, csc_array]:
        """Nodal forces (2 P,) of viscosity and inertia, and their derivative."""
        local = velocity[self._dofs][:, np.newaxis, :, np.newaxis]
        gradient, speed = np.split((self._operator @ local)[..., 0], [4], axis=-1)
        slopes = gradient.reshape(*gradient.shape[:-1], 2, 2)
        convection = (slopes @ speed[..., np.newaxis])[..., 0]
        fluxes = self._weights * np.concatenate([self.viscosity * gradient, inertia * convection], axis=-1)
        forces = fluxes.reshape(len(fluxes), 1, -1) @ self._operator.reshape(len(fluxes), -1, self._dofs.shape[1])

        tangent = np.zeros((*gradient.shape[:-1], 6, 6))
        tangent[..., :4, :4] = self.viscosity * np.eye(4)
        tangent[..., 4, 0:2] = tangent[..., 5, 2:4] = inertia * speed
        tangent[..., 4:, 4:] = inertia * slopes
        tangent *= self._weights[..., np.newaxis]
        summed = np.bincount(self._dofs.ravel(), forces.ravel()).astype(np.float64)
        return summed, assemble_stiffness(self._operator, tangent, self._dofs)


def _value_operator(basis: Any) -> FloatArray:
    """Matrices from the nodal vectors of an element to the vector at its quadrature points, (e, k, 2, 2 m)."""
    values = _shape_functions(basis)
    operator = np.zeros((*values.shape[:2], 2, values.shape[2], 2))
    for component in range(2):
        operator[:, :, component, :, component] = values
    return operator.reshape(*values.shape[:2], 2, -1)


def _shape_functions(basis: Any) -> FloatArray:
    """Shape functions at the quadrature points, (e, k, m)."""
    values = np.stack([np.broadcast_to(np.asarray(function[0]), basis.dx.shape) for function in basis.basis])
    return np.moveaxis(values, 0, -1)


def _divergence(gradients: FloatArray, weights: FloatArray, dofs: IntArray, pressures: Any) -> csc_array:
    """Matrix D from velocities to the corners of the cells."""
    weighted = weights * (gradients[:, :, 0] + gradients[:, :, 3])
    entries = -np.swapaxes(_shape_functions(pressures), 1, 2) @ weighted
    rows = np.broadcast_to(pressures.element_dofs.T[:, :, np.newaxis], entries.shape)
    columns = np.broadcast_to(dofs[:, np.newaxis, :], entries.shape)
    return coo_array((entries.ravel(), (rows.ravel(), columns.ravel()))).tocsc()
