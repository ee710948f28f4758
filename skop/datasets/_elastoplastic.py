"""Thin elastic-plastic sheets struck by a rigid frictionless die: finite strain, plane stress, inertia.

The elastic strain is the logarithm of the elastic stretch (Hencky), the yield criterion that of von Mises in the
Kirchhoff stress, the flow associated, the hardening linear and isotropic. The sheet is thin, so the stress across it is
0, and no element locks, though plastic flow keeps the volume. Four-node quadrilaterals with 2 x 2 points and lumped
masses; the explicit central-difference method. Points that would enter the die are put on its surface along its normal.

Notation: u displacement, F deformation gradient in the plane, J = det F, Cp plastic right Cauchy-Green tensor in the
plane, b = F Cp^-1 F^T elastic left Cauchy-Green tensor, tau Kirchhoff stress, s and d sum and difference of its
principal values, alpha equivalent plastic strain, N quadrature points of all cells, P points.
Units: mm, N, s, so MPa and t / mm^3; forces are those of a sheet 1 mm thick.
"""

from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PPoly
from scipy.sparse import coo_array, csr_array, vstack

from skop._typing import FloatArray, IntArray
from skop.datasets._finite_elements import import_fem
from skop.exceptions import FieldDataError

#: Share of the time in which an elastic wave crosses the narrowest cell that a step may take.
COURANT_NUMBER = 0.7
#: A motion that takes more steps than this has run away.
MAX_STEPS = 1_000_000


@dataclass(frozen=True)
class Material:
    """Young's modulus, Poisson's ratio, yield stress, its slope over the plastic strain, and density."""

    young_modulus: float
    poisson_ratio: float
    yield_stress: float
    hardening: float
    density: float

    @property
    def moduli(self) -> tuple[float, float]:
        """What turns the sum and the difference of the principal strains into those of the stresses."""
        return self.young_modulus / (1 - self.poisson_ratio), self.young_modulus / (1 + self.poisson_ratio)

    @property
    def wave_speed(self) -> float:
        """Speed of the fastest waves in the plane of a thin sheet."""
        return float(np.sqrt(self.young_modulus / (1 - self.poisson_ratio**2) / self.density))


class Flow(NamedTuple):
    """Plastic state of the quadrature points: the 11, 12 and 22 components of Cp^-1, (3, N), and alpha, (N,)."""

    strain: FloatArray
    equivalent: FloatArray


@dataclass(frozen=True)
class State:
    """A sheet at one time: displacement (P, 2), velocity half a step before, plastic state, impulse from the die."""

    displacement: FloatArray
    velocity: FloatArray
    flow: Flow
    travel: float
    impulse: FloatArray
    last_step: float


def return_mapping(
    mean: FloatArray, shear: FloatArray, equivalent: FloatArray, material: Material
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return s, d and the new alpha at the sum and the difference of the principal trial strains.

    In plane stress ``s = s_trial / (1 + g k_s / 3)`` and ``d = d_trial / (1 + g k_d)``, and the flow g is the root of
    ``s^2 / 4 + 3 d^2 / 4 = (yield stress + hardening alpha)^2``, with ``alpha`` raised by 2 / 3 g times its left root.
    """
    k_s, k_d = material.moduli
    s, d = k_s * mean, k_d * shear
    limit = material.yield_stress + material.hardening * equivalent
    yields = np.flatnonzero(s**2 / 4 + 3 * d**2 / 4 > limit**2)
    if not len(yields):
        return s, d, equivalent
    s_trial, d_trial, limit = s[yields], d[yields], limit[yields]
    hardening, flow = 2 / 3 * material.hardening, np.zeros_like(limit)
    # With q the left root, 1 / q is nearly linear in the flow: Newton's method on it takes a few steps from anywhere.
    for _ in range(50):
        a, b = 1 + flow * k_s / 3, 1 + flow * k_d
        s_part, d_part = (s_trial / a) ** 2 / 4, 3 * (d_trial / b) ** 2 / 4
        q = np.sqrt(s_part + d_part)
        fall = (s_part * k_s / (3 * a) + d_part * k_d / b) / q**3
        change = ((1 - hardening * flow) / limit - 1 / q) / (hardening / limit + fall)
        flow += change
        # The error falls quadratically: after so small a change it is that of rounding.
        if not (np.abs(change) > 1e-8 * flow).any():
            break
    s[yields], d[yields] = s_trial / (1 + flow * k_s / 3), d_trial / (1 + flow * k_d)
    equivalent = equivalent.copy()
    equivalent[yields] += 2 / 3 * flow * np.sqrt(s[yields] ** 2 / 4 + 3 * d[yields] ** 2 / 4)
    return s, d, equivalent


def nominal_stress(gradient: FloatArray, flow: Flow, material: Material) -> tuple[FloatArray, Flow]:
    """Return the first Piola-Kirchhoff stress (4, N), in the order of F, and the plastic state after it.

    F comes as (4, N) in the order 11, 21, 12, 22.
    """
    f11, f21, f12, f22 = gradient
    jacobian = f11 * f22 - f12 * f21
    if not (jacobian > 0).all():
        raise FieldDataError("a cell turns inside out")
    c11, c12, c22 = flow.strain
    g11, g12, g21, g22 = f11 * c11 + f12 * c12, f11 * c12 + f12 * c22, f21 * c11 + f22 * c12, f21 * c12 + f22 * c22
    b11, b12, b22 = g11 * f11 + g12 * f12, g11 * f21 + g12 * f22, g21 * f21 + g22 * f22
    half, lean = (b11 + b22) / 2, (b11 - b22) / 2
    radius = np.sqrt(lean * lean + b12 * b12)
    ratio = radius / half
    mean, shear = np.log(half) + np.log1p(-(ratio**2)) / 2, np.arctanh(ratio)
    s, d, equivalent = return_mapping(mean, shear, flow.equivalent, material)
    # cos and sin of twice the angle of the first principal axis; where all axes are principal, d is 0.
    radius[radius == 0] = 1
    cosine, sine = lean / radius, b12 / radius
    t11, t12, t22 = (s + d * cosine) / 2, d * sine / 2, (s - d * cosine) / 2
    stress = np.stack([t11 * f22 - t12 * f12, t12 * f22 - t22 * f12, t12 * f11 - t11 * f21, t22 * f11 - t12 * f21])
    stress /= jacobian

    yields = np.flatnonzero(equivalent > flow.equivalent)
    if len(yields):
        k_s, k_d = material.moduli
        size = np.exp(s[yields] / k_s) / jacobian[yields] ** 2
        same, turned = size * np.cosh(d[yields] / k_d), size * np.sinh(d[yields] / k_d)
        e11, e12, e22 = same + turned * cosine[yields], turned * sine[yields], same - turned * cosine[yields]
        f11, f21, f12, f22 = gradient[:, yields]
        strain = flow.strain.copy()
        strain[:, yields] = [
            f22**2 * e11 - 2 * f22 * f12 * e12 + f12**2 * e22,
            (f11 * f22 + f12 * f21) * e12 - f22 * f21 * e11 - f12 * f11 * e22,
            f21**2 * e11 - 2 * f21 * f11 * e12 + f11**2 * e22,
        ]
        flow = Flow(strain, equivalent)
    return stress, flow


class Sheet:
    """A sheet of four-node quadrilaterals under a die.

    Parameters
    ----------
    mesh : skfem.MeshQuad
        Points and cells of the sheet at rest.
    material : Material
        Constants of the material.
    is_fixed : ndarray of shape (P, 2), bool
        Components of the displacement that stay 0.
    top : ndarray of int
        Points that may touch the die.
    height : PPoly
        Height of the die's lower face above x, at travel 0.
    """

    def __init__(
        self, mesh: Any, material: Material, is_fixed: npt.NDArray[np.bool_], top: IntArray, height: PPoly
    ) -> None:
        skfem = import_fem()
        basis = skfem.Basis(mesh, skfem.ElementQuad1(), intorder=3)
        self._points: FloatArray = mesh.p.T
        self._material, self._is_free, self._top = material, ~is_fixed, top
        self._height, self._incline = height, height.derivative()
        self.weights: FloatArray = basis.dx.ravel()
        #: From values at the points to their slopes along x, then y, at the quadrature points.
        self._slopes = vstack(
            [_at_quadrature(basis, [function[0].grad[axis] for function in basis.basis]) for axis in (0, 1)], "csr"
        )
        self._gather = csr_array(self._slopes.T)
        corners = mesh.p[:, mesh.t]
        sides = np.sqrt(((np.roll(corners, -1, axis=1) - corners) ** 2).sum(axis=0))
        #: Narrowest cell: its area over its longest side.
        self._width = float((basis.dx.sum(axis=1) / sides.max(axis=0)).min())
        values = _at_quadrature(basis, [np.asarray(function[0]) for function in basis.basis])
        self.mass: FloatArray = material.density * (values.T @ self.weights)

    def rest(self) -> State:
        """Return the sheet at the moment when the die begins to move."""
        still = np.zeros_like(self._points)
        identity = np.outer([1.0, 0.0, 1.0], np.ones_like(self.weights))
        return State(still, still, Flow(identity, np.zeros_like(self.weights)), 0.0, np.zeros(2), 0.0)

    def advance(self, state: State, speed: float, interval: float) -> State:
        """Move the die down at a speed for some time.

        Raises FieldDataError if a cell turns inside out, or the motion would take too many steps.
        """
        displacement, velocity, flow = state.displacement, state.velocity, state.flow
        travel, impulse, left, last = state.travel, state.impulse.copy(), interval, state.last_step
        for _ in range(MAX_STEPS):
            gradient = self.gradient(displacement)
            stress, flow = nominal_stress(gradient, flow, self._material)
            n_left = ceil(left * self._material.wave_speed / (COURANT_NUMBER * self._width * _least_stretch(gradient)))
            step = left / n_left
            push = self.forces(stress)
            # Velocities live between the times of the displacements.
            velocity = (velocity - (step + last) / 2 * push / self.mass[:, np.newaxis]) * self._is_free
            displacement, travel = displacement + step * velocity, travel + step * speed
            lift = self._put_outside(displacement, travel)
            displacement[self._top] += lift
            velocity[self._top] += lift / step
            impulse += self.mass[self._top] @ lift / step
            left, last = left - step, step
            if n_left == 1:
                return State(displacement, velocity, flow, travel, impulse, step)
        raise FieldDataError(f"the motion took more than {MAX_STEPS:,} steps")

    def gradient(self, displacement: FloatArray) -> FloatArray:
        """Return F at the quadrature points, (4, N), in the order 11, 21, 12, 22."""
        slopes = (self._slopes @ displacement).reshape(2, -1, 2).transpose(0, 2, 1).reshape(4, -1)
        return slopes + np.array([[1.0], [0.0], [0.0], [1.0]])

    def forces(self, stress: FloatArray) -> FloatArray:
        """Return the forces (P, 2) that hold a first Piola-Kirchhoff stress (4, N)."""
        weighted = (self.weights * stress).reshape(2, 2, -1)
        return self._gather @ weighted.transpose(0, 2, 1).reshape(-1, 2)

    def _put_outside(self, displacement: FloatArray, travel: float) -> FloatArray:
        """What brings the points of the top that are inside the die to its surface, along its normal."""
        x, y = (self._points[self._top] + displacement[self._top]).T
        depth = np.maximum(y - self._height(x) + travel, 0)
        incline = self._incline(x)
        return (depth / (1 + incline**2) * np.stack([incline, -np.ones_like(x)])).T


def _least_stretch(gradient: FloatArray) -> float:
    """Smallest principal stretch of some F (4, N)."""
    f11, f21, f12, f22 = gradient
    first, second = f11 * f11 + f21 * f21, f12 * f12 + f22 * f22
    mixed, half = f11 * f12 + f21 * f22, (first + second) / 2
    # The smaller eigenvalue of F^T F is det^2 over the larger one, without cancellation.
    larger = half + np.sqrt((half - second) ** 2 + mixed * mixed)
    return float((np.abs(f11 * f22 - f12 * f21) / np.sqrt(larger)).min())


def _at_quadrature(basis: Any, parts: list[FloatArray]) -> csr_array:
    """Matrix from values at the points to sums of parts of the shape functions at the quadrature points, (N, P)."""
    n_cells, n_inside = basis.dx.shape
    rows = np.arange(n_cells * n_inside).reshape(n_cells, n_inside)
    values = [np.broadcast_to(part, rows.shape).ravel() for part in parts]
    columns = [np.repeat(numbers, n_inside) for numbers in basis.element_dofs]
    places = np.tile(rows.ravel(), len(values)), np.concatenate(columns)
    return coo_array((np.concatenate(values), places), shape=(rows.size, basis.N)).tocsr()
