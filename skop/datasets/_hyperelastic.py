"""Thin hyperelastic sheets under dead loads: incompressible Mooney-Rivlin rubber in plane stress.

The sheet is thin, so the stress across it is 0 and the stretch across it is 1 / J, which keeps the volume. No
pressure is left to be found, and no element locks. Nine-node quadrilaterals, Newton's method with load steps.

Notation: F deformation gradient in the plane (2 x 2), J = det F, c = F : F, P first Piola-Kirchhoff stress,
A = dP / dF, e elements, q quadrature points of an element, C1 and C2 the two moduli.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from skop._typing import FloatArray, IntArray
from skop.datasets._finite_elements import (
    assemble_stiffness,
    displacement_dofs,
    gradient_operator,
    import_fem,
    mean_at_points,
)
from skop.exceptions import FieldDataError

#: Largest force that may be left at a free node, relative to the largest nodal load ...
RELATIVE_TOLERANCE = 1e-9
#: ... plus this times the moduli, about what rounding leaves.
ROUNDING = 1e-14
MAX_ITERATIONS = 12
#: A load is cut into at most this many steps.
MAX_STEPS = 256

#: d(cof F) / dF for F = (F11, F12, F21, F22).
_COFACTOR_SLOPE = np.array([[0, 0, 0, 1], [0, 0, -1, 0], [0, -1, 0, 0], [1, 0, 0, 0]], dtype=np.float64)


def stress_and_tangent(gradient: FloatArray, moduli: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
    """Return P and A for W = C1 (I1 - 3) + C2 (I2 - 3), from F as (..., 4) in the order 11, 12, 21, 22.

    With the stretch 1 / J across the sheet, I1 = c + 1 / J^2 and I2 = J^2 + c / J^2.
    """
    first, second = moduli
    cofactor = gradient[..., ::-1] * [1, -1, -1, 1]
    jacobian = _determinant(gradient)[..., np.newaxis]
    squares = np.sum(gradient**2, axis=-1, keepdims=True)
    along_gradient = 2 * (first + second / jacobian**2)
    along_cofactor = 2 * second * jacobian - 2 * (first + second * squares) / jacobian**3
    stress = along_gradient * gradient + along_cofactor * cofactor

    mixed = gradient[..., :, np.newaxis] * cofactor[..., np.newaxis, :]
    bend = 2 * second + 6 * (first + second * squares) / jacobian**4
    tangent = along_gradient[..., np.newaxis] * np.eye(4) + along_cofactor[..., np.newaxis] * _COFACTOR_SLOPE
    tangent -= (4 * second / jacobian**3)[..., np.newaxis] * (mixed + np.swapaxes(mixed, -1, -2))
    tangent += bend[..., np.newaxis] * cofactor[..., :, np.newaxis] * cofactor[..., np.newaxis, :]
    return stress, tangent


def cauchy_stress(gradient: FloatArray, moduli: tuple[float, float]) -> FloatArray:
    """Return the true stress (..., 2, 2), which is P F^T, since the volume does not change."""
    stress, _ = stress_and_tangent(gradient, moduli)
    shape = (*gradient.shape[:-1], 2, 2)
    return stress.reshape(shape) @ np.swapaxes(gradient.reshape(shape), -1, -2)


def von_mises(stress: FloatArray) -> FloatArray:
    """Return the von Mises stress of plane stresses (..., 2, 2)."""
    xx, yy, xy = stress[..., 0, 0], stress[..., 1, 1], stress[..., 0, 1]
    return np.sqrt(xx**2 - xx * yy + yy**2 + 3 * xy**2)


class Sheet:
    """A sheet of nine-node quadrilaterals; degree of freedom 2 p + i is component i of point p.

    Parameters
    ----------
    mesh : skfem.MeshQuad2
        Points and cells of the sheet at rest.
    moduli : tuple of two floats
        C1 and C2, Pa.
    """

    def __init__(self, mesh: Any, moduli: tuple[float, float]) -> None:
        self.mesh = mesh
        self.moduli = moduli
        basis = self._basis(order=5)
        orientation = basis.mapping.detDF(basis.X)
        if not ((orientation > 0).all() or (orientation < 0).all()):
            raise FieldDataError("the mesh folds over itself; increase n_points.")
        self._dofs = displacement_dofs(basis)
        self._operator = gradient_operator(basis)
        self._weights = basis.dx[:, :, np.newaxis]

    def _basis(self, order: int) -> Any:
        """Shape functions at quadrature points that are exact up to `order`."""
        skfem = import_fem()
        return skfem.Basis(self.mesh, skfem.ElementQuad2(), intorder=order)

    def solve(self, is_fixed: npt.NDArray[np.bool_], load: FloatArray) -> FloatArray:
        """Find the displacement, (2 P,), that is 0 where fixed and balances the nodal forces elsewhere."""
        displacement: FloatArray = np.zeros(len(load))
        done, step = 0.0, 1.0
        while done < 1:
            target = min(1.0, done + step)
            trial = self._newton(displacement, is_fixed, target * load)
            if trial is not None:
                displacement, done = trial, target
            elif step * MAX_STEPS > 1:
                step /= 2
            else:
                raise FieldDataError(f"no equilibrium was found beyond {done:.1%} of the load; lower the traction.")
        return displacement

    def _newton(self, start: FloatArray, is_fixed: npt.NDArray[np.bool_], load: FloatArray) -> FloatArray | None:
        """Newton's method from a start; None if it does not converge or the sheet turns inside out."""
        displacement, free = start.copy(), np.flatnonzero(~is_fixed)
        tolerance = RELATIVE_TOLERANCE * np.abs(load).max() + ROUNDING * sum(self.moduli)
        for _ in range(MAX_ITERATIONS):
            gradient = self._deformation_gradient(self._operator, displacement)
            if not (_determinant(gradient) > 0).all():
                return None
            forces, stiffness = self._linearise(gradient)
            residual = (load - forces)[free]
            if np.abs(residual).max() <= tolerance:
                return displacement
            matrix = stiffness[free][:, free]
            factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
            displacement[free] += factors.solve(residual)
        return None

    def _deformation_gradient(self, operator: FloatArray, displacement: FloatArray) -> FloatArray:
        """F at the quadrature points, (e, q, 4)."""
        local = displacement[self._dofs][:, np.newaxis, :, np.newaxis]
        return (operator @ local)[..., 0] + [1, 0, 0, 1]

    def _linearise(self, gradient: FloatArray) -> tuple[FloatArray, csc_array]:
        """Internal nodal forces (2 P,) and their derivative."""
        stress, tangent = stress_and_tangent(gradient, self.moduli)
        weighted = (self._weights * stress).reshape(len(stress), 1, -1)
        forces = weighted @ self._operator.reshape(len(stress), -1, self._dofs.shape[1])
        summed = np.bincount(self._dofs.ravel(), forces.ravel()).astype(np.float64)
        return summed, assemble_stiffness(self._operator, self._weights[..., np.newaxis] * tangent, self._dofs)

    def reaction(self, displacement: FloatArray) -> FloatArray:
        """Forces that hold the sheet in a displacement, (2 P,)."""
        return self._linearise(self._deformation_gradient(self._operator, displacement))[0]

    def nodal_stress(self, displacement: FloatArray) -> FloatArray:
        """True stress at the points, (P, 2, 2): from the 2 x 2 Gauss points of each cell, then the mean over cells.

        At those four points the stress of this element is most exact; a bilinear function carries it to the nine
        nodes.
        """
        basis = self._basis(order=3)
        gradient = self._deformation_gradient(gradient_operator(basis), displacement)
        stress = cauchy_stress(gradient, self.moduli).reshape(*gradient.shape[:2], 4)
        at_nodes = _extrapolation(basis.X, basis.elem.doflocs) @ stress
        return mean_at_points(at_nodes, basis.element_dofs.T, np.ones(len(at_nodes))).reshape(-1, 2, 2)


def edge_load(mesh: Any, edges: IntArray, traction: tuple[float, float]) -> FloatArray:
    """Nodal forces, (2 P,), of a uniform traction (N per m^2 at rest) on some edges of a MeshQuad2."""
    skfem = import_fem()
    basis = skfem.FacetBasis(mesh, skfem.ElementQuad2(), facets=edges, intorder=4)
    lengths = skfem.LinearForm(lambda v, _: v).assemble(basis)
    return np.outer(lengths, traction).ravel()


def _determinant(gradient: FloatArray) -> FloatArray:
    """J of F given as (..., 4)."""
    return gradient[..., 0] * gradient[..., 3] - gradient[..., 1] * gradient[..., 2]


def _extrapolation(points: FloatArray, nodes: FloatArray) -> FloatArray:
    """Matrix of the bilinear function through four values: from `points` (2, 4) to `nodes` (m, 2)."""

    def terms(x: FloatArray, y: FloatArray) -> FloatArray:
        return np.stack([np.ones_like(x), x, y, x * y], axis=-1)

    return terms(*nodes.T) @ np.linalg.inv(terms(*points))
