"""Steady flow of a gas without friction about a body, on a C-grid: finite volumes of second order, Newton's method.

The Euler equations for density rho, velocity (u, v) and pressure p are solved at the nodes of the grid. The volume of a
node is bounded by lines from the middles of its cells to the middles of their sides.

Notation: I + 1 and J + 1 nodes along and away from the body, N nodes without those that the two sides of the wake
share, E edges, states (rho, u, v, p) of shape (4, N), c speed of sound.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from skop._typing import FloatArray, IntArray
from skop.exceptions import FieldDataError

#: Norm of the residual, over all nodes and equations, of a flow that counts as steady. Published: 5e-7.
RESIDUAL = 1e-9
#: Rough meshes with strong shocks take up to a hundred.
MAX_STEPS = 150
#: Square of the differences below which the limiter does not act. 1e-6 needs twice as many steps: noise far from the
#: shocks, where the flow is nearly uniform, switches the limiter on and off.
SMOOTH_SQUARE = 1e-4
#: Speeds of the sound waves, and of the others, that are rounded off where they pass zero; parts of the fastest wave
#: and of c. The first keeps expansions free of shocks.
SOUND_ROUNDING, FLOW_ROUNDING = 0.1, 0.02


@dataclass(frozen=True)
class DualGrid:
    """Volumes about the nodes of a C-grid.

    `number` gives the node at each place of the grid, (I + 1, J + 1). A row of `edges`, (E, 4), has the node before the
    edge on its grid line, its two ends, and the node after it; `normals`, (E, 2), those of the face between its ends,
    towards the second, times length. `scales`, (E, 2), is the length of the edge over those before and after it.
    `wall` and `far` are nodes and outward normals at the border.
    """

    number: IntArray
    edges: IntArray
    normals: FloatArray
    scales: FloatArray
    wall: tuple[IntArray, FloatArray]
    far: tuple[IntArray, FloatArray]


def dual_grid(points: FloatArray, n_wake: int) -> DualGrid:
    """Volumes of a C-grid (I + 1, J + 1, 2), whose first and last `n_wake` cells along axis 0 adjoin in the wake."""
    number = _number_nodes(points.shape[:2], n_wake)
    cells = (points[1:, 1:] + points[:-1, 1:] + points[1:, :-1] + points[:-1, :-1]) / 4
    along, away = ((points[1:] + points[:-1]) / 2, (points[:, 1:] + points[:, :-1]) / 2)
    _check_areas(points, cells, along, away)
    # From cell to cell, and at the border from a side's middle to the cell.
    normals_along = _turn(np.diff(np.concatenate([along[:, :1], cells, along[:, -1:]], axis=1), axis=1))
    normals_away = -_turn(np.diff(np.concatenate([away[:1], cells, away[-1:]]), axis=0))
    edges_along = _lines(number)
    edges_away = _lines(number.T).transpose(1, 0, 2)
    # Lines across the wake go on at its other side.
    wake = np.arange(n_wake)
    edges_away[wake, 0, 0], edges_away[-1 - wake, 0, 0] = number[-1 - wake, 1], number[wake, 1]
    # An edge in the wake is listed once; its face is on both sides.
    normals_along[wake, 0] -= normals_along[-1 - wake, 0]
    is_listed = np.ones(edges_along.shape[:2], dtype=bool)
    is_listed[-1 - wake, 0] = False
    # The wake does not go on along one of the two sides of the body.
    edges_along[n_wake - 1, 0, 3] = -1
    edges = np.concatenate([edges_along[is_listed], edges_away.reshape(-1, 4)])
    normals = np.concatenate([normals_along[is_listed], normals_away.reshape(-1, 2)])
    places = np.empty((number.max() + 1, 2))
    places[number] = points
    edges, scales = _close_lines(edges, places)
    steps_along, steps_away = np.diff(points, axis=0), np.diff(points, axis=1)
    body = slice(n_wake, len(points) - n_wake)
    wall = _border(number[body, 0], _turn(np.diff(points[body, 0], axis=0)))
    sides = (
        _border(number[:, -1], -_turn(steps_along[:, -1])),
        _border(number[0], -_turn(steps_away[0])),
        _border(number[-1], _turn(steps_away[-1])),
    )
    nodes, outward = (np.concatenate(parts) for parts in zip(*sides, strict=True))
    return DualGrid(number, edges, normals, scales, wall, (nodes, outward))


def _number_nodes(shape: tuple[int, ...], n_wake: int) -> IntArray:
    """Node at each place of the grid; places of the wake share theirs."""
    place = np.arange(np.prod(shape)).reshape(shape)
    place[shape[0] - 1 - n_wake :, 0] = place[n_wake::-1, 0]
    return np.unique(place, return_inverse=True)[1].reshape(shape)


def _turn(steps: FloatArray) -> FloatArray:
    """Turn vectors (..., 2) by a right angle, counter-clockwise."""
    return np.stack([-steps[..., 1], steps[..., 0]], axis=-1)


def _check_areas(points: FloatArray, cells: FloatArray, along: FloatArray, away: FloatArray) -> None:
    """Raise FieldDataError if a cell, cut into its corners' parts, folds."""
    corners = (
        (points[:-1, :-1], along[:, :-1], away[:-1]),
        (points[1:, :-1], away[1:], along[:, :-1]),
        (points[1:, 1:], along[:, 1:], away[1:]),
        (points[:-1, 1:], away[:-1], along[:, 1:]),
    )
    for corner, before, after in corners:
        first, second = cells - corner, after - before
        # The two axes of a C-grid are left-handed.
        if not (first[..., 0] * second[..., 1] < first[..., 1] * second[..., 0]).all():
            raise FieldDataError("the mesh about the body folds. Displace it less.")


def _lines(number: IntArray) -> IntArray:
    """Edges along axis 0 of a grid of nodes, with the nodes before and after them, -1 for none, (I, J + 1, 4)."""
    none = np.full_like(number[:1], -1)
    return np.stack(
        [np.concatenate([none, number[:-2]]), number[:-1], number[1:], np.concatenate([number[2:], none])], axis=-1
    )


def _close_lines(edges: IntArray, places: FloatArray) -> tuple[IntArray, FloatArray]:
    """Fill in the missing nodes of edges, and return their scales too."""
    edges = edges.copy()
    # A line that ends is taken as straight: what follows is the edge itself, run backwards.
    missing = edges[:, [0, 3]] < 0
    for column, other in ((0, 2), (3, 1)):
        edges[:, column] = np.where(edges[:, column] < 0, edges[:, other], edges[:, column])
    before, length, after = np.linalg.norm(np.diff(places[edges], axis=1), axis=-1).T
    scales = np.stack([length / before, length / after], axis=-1)
    return edges, np.where(missing, -1.0, scales)


def _border(nodes: IntArray, normals: FloatArray) -> tuple[IntArray, FloatArray]:
    """Halves of the sides between consecutive nodes, each with its node."""
    return np.concatenate([nodes[:-1], nodes[1:]]), np.concatenate([normals, normals]) / 2


class Euler:
    """Steady flow on a grid, given the flow far away, (4,), and the ratio of the heat capacities."""

    def __init__(self, grid: DualGrid, stream: FloatArray, gamma: float) -> None:
        self.grid, self.stream, self.gamma = grid, stream, gamma
        self.n_nodes = int(grid.number.max()) + 1
        before, start, end, after = grid.edges.T
        nodes = np.arange(self.n_nodes)
        columns = [before, start, end, after] * 2 + [grid.wall[0], grid.far[0], nodes]
        rows = [start] * 4 + [end] * 4 + [grid.wall[0], grid.far[0], nodes]
        # Place of each block of the derivative, column after column.
        keys, self._place = np.unique(
            np.concatenate(columns) * self.n_nodes + np.concatenate(rows), return_inverse=True
        )
        self._rows = keys % self.n_nodes
        self._starts = np.searchsorted(keys, np.arange(self.n_nodes + 1) * self.n_nodes)

    @np.errstate(invalid="ignore", over="ignore", divide="ignore")
    def solve(self, state: FloatArray | None = None, residual: float = RESIDUAL) -> FloatArray:
        """Find the steady flow, (4, N), from a first guess on, by default the flow far away.

        Steps of the implicit Euler method with the exact derivative, longer and longer: in the end Newton's method.
        """
        if state is None:
            state = np.repeat(self.stream[:, np.newaxis], self.n_nodes, axis=1)
        change, blocks = self.residual(state), self._derivative(state)
        norm, courant = float(np.linalg.norm(change)), 10.0
        for _ in range(MAX_STEPS):
            if norm <= residual:
                return state
            step = self._step(state, change, blocks, courant)
            # Density and pressure change by a fifth at most.
            share = min(1.0, 0.2 / np.abs(step[[0, 3]] / state[[0, 3]]).max())
            new = state + share * step
            new_change = self.residual(new)
            new_norm = float(np.linalg.norm(new_change))
            if share < 0.1 or not new_norm < 2 * norm:
                courant /= 4
                continue
            if share == 1:
                courant = min(1e9, courant * min(10.0, 2 * max(1.0, norm / new_norm)))
            state, change, norm = new, new_change, new_norm
            blocks = self._derivative(state)
        raise FieldDataError(
            f"no steady flow was found: after {MAX_STEPS} steps the residual is {norm:.1g}, not {residual:g}. Reduce "
            "the Mach number, the angle or the displacements."
        )

    def residual(self, state: FloatArray) -> FloatArray:
        """Mass, momentum and energy that leave the volume of each node per unit of time, (4, N)."""
        _, start, end, _ = self.grid.edges.T
        left, right, _ = self._faces(state)
        faces = self._roe(left, right, self.grid.normals.T)
        wall, far = self._wall_flux(state[:, self.grid.wall[0]]), self._far_flux(state[:, self.grid.far[0]])
        nodes = np.concatenate([start, end, self.grid.wall[0], self.grid.far[0]])
        rows = np.concatenate([faces, -faces, wall, far], axis=1)
        return np.stack([np.bincount(nodes, row, self.n_nodes) for row in rows])

    def _faces(self, state: FloatArray) -> tuple[FloatArray, FloatArray, tuple[FloatArray, ...]]:
        """States on both sides of each face, (4, E), and derivatives of their limited differences."""
        before, start, end, after = (state[:, nodes] for nodes in self.grid.edges.T)
        scale_before, scale_after = self.grid.scales.T
        across = end - start
        rise, by_before, by_across = _limit((start - before) * scale_before, across)
        fall, by_after, by_across_too = _limit((after - end) * scale_after, across)
        return start + rise, end - fall, (by_before * scale_before, by_across, by_after * scale_after, by_across_too)

    def _derivative(self, state: FloatArray) -> list[FloatArray]:
        """Blocks of the derivative of the residual, (4, 4, number) each, in the order of their places."""
        left, right, (by_before, rise, by_after, fall) = self._faces(state)
        normals = self.grid.normals.T
        by_left = _differentiate(lambda states: self._roe(states, right, normals), left)
        by_right = _differentiate(lambda states: self._roe(left, states, normals), right)
        blocks = [
            -by_left * by_before,
            by_left * (1 + by_before - rise) + by_right * fall,
            by_left * rise + by_right * (1 + by_after - fall),
            -by_right * by_after,
        ]
        wall = _differentiate(self._wall_flux, state[:, self.grid.wall[0]])
        far = _differentiate(self._far_flux, state[:, self.grid.far[0]])
        return [*blocks, *(-block for block in blocks), wall, far]

    def _step(self, state: FloatArray, change: FloatArray, blocks: list[FloatArray], courant: float) -> FloatArray:
        """Change of the state in a step of which each node's length is `courant` crossings of its volume by waves."""
        _, start, end, _ = self.grid.edges.T
        speed = np.hypot(state[1], state[2]) + np.sqrt(self.gamma * state[3] / state[0])
        length = np.hypot(*self.grid.normals.T)
        rate = sum(np.bincount(nodes, length * speed[nodes], self.n_nodes) for nodes in (start, end))
        inertia = _differentiate(self._conserved, state) * (rate / courant)
        flat = np.concatenate([block.reshape(16, -1) for block in (*blocks, inertia)], axis=1)
        summed = np.stack([np.bincount(self._place, row, len(self._rows)) for row in flat], axis=-1)
        transposed = summed.reshape(-1, 4, 4).transpose(0, 2, 1)
        size = 4 * self.n_nodes
        matrix = sparse.bsr_array((transposed, self._rows, self._starts), shape=(size, size)).tocsr().T
        # Diagonal blocks dominate, so that pivots may stay where the order of least fill puts them.
        factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.01, options={"SymmetricMode": True})
        return factors.solve(-change.T.ravel()).reshape(-1, 4).T

    def _conserved(self, state: FloatArray) -> FloatArray:
        """Mass, momentum and energy of a unit of volume, (4, number)."""
        density, u, v, pressure = state
        energy = pressure / (self.gamma - 1) + density * (u**2 + v**2) / 2
        return np.stack([density, density * u, density * v, energy])

    def _flux(self, state: FloatArray, normals: FloatArray) -> FloatArray:
        """Mass, momentum and energy that pass faces in a uniform flow, (4, number)."""
        _, u, v, pressure = state
        through = u * normals[0] + v * normals[1]
        flux = self._conserved(state) * through
        return flux + pressure * np.stack([np.zeros_like(through), *normals, through])

    def _wall_flux(self, state: FloatArray) -> FloatArray:
        """Flux through a wall, where only the pressure acts, (4, number)."""
        none = np.zeros_like(state[3])
        return state[3] * np.stack([none, *self.grid.wall[1].T, none])

    def _far_flux(self, state: FloatArray) -> FloatArray:
        """Flux through the outer border: each wave brings the state from where it comes, (4, number)."""
        stream = np.broadcast_to(self.stream[:, np.newaxis], state.shape)
        return self._roe(state, stream, self.grid.far[1].T)

    def _roe(self, left: FloatArray, right: FloatArray, normals: FloatArray) -> FloatArray:
        """Roe's flux through faces, (4, number)."""
        gamma, length = self.gamma, np.hypot(*normals)
        nx, ny = normals / length
        root_left, root_right = np.sqrt(left[0]), np.sqrt(right[0])
        share = root_left / (root_left + root_right)
        density = root_left * root_right
        u, v, enthalpy = (
            share * first + (1 - share) * second
            for first, second in zip(
                (*left[1:3], self.enthalpy(left)), (*right[1:3], self.enthalpy(right)), strict=True
            )
        )
        kinetic = (u**2 + v**2) / 2
        c = np.sqrt((gamma - 1) * (enthalpy - kinetic))
        through = u * nx + v * ny
        d_density, d_u, d_v, d_pressure = right - left
        d_through = d_u * nx + d_v * ny
        fastest = SOUND_ROUNDING * (np.abs(through) + c)
        back = _round_off(through - c, fastest) * (d_pressure - density * c * d_through) / (2 * c**2)
        forth = _round_off(through + c, fastest) * (d_pressure + density * c * d_through) / (2 * c**2)
        carried = _round_off(through, FLOW_ROUNDING * c)
        entropy, shear = carried * (d_density - d_pressure / c**2), carried * density
        shear_u, shear_v = shear * (d_u - d_through * nx), shear * (d_v - d_through * ny)
        mass = back + entropy + forth
        waves = [
            mass,
            mass * u + (forth - back) * c * nx + shear_u,
            mass * v + (forth - back) * c * ny + shear_v,
            (back + forth) * enthalpy + (forth - back) * c * through + entropy * kinetic + u * shear_u + v * shear_v,
        ]
        return (self._flux(left, normals) + self._flux(right, normals) - length * np.stack(waves)) / 2

    def enthalpy(self, state: FloatArray) -> FloatArray:
        """Total enthalpy of a unit of mass."""
        return self.gamma / (self.gamma - 1) * state[3] / state[0] + (state[1] ** 2 + state[2] ** 2) / 2


def _limit(outer: FloatArray, inner: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Difference from a node to the middle of an edge, from those before and along the edge, and its derivatives.

    Van Albada's limiter in the form of Anderson, Thomas and van Leer, with the weights of third order.
    """
    square = outer**2 + inner**2 + SMOOTH_SQUARE
    limit = (2 * outer * inner + SMOOTH_SQUARE) / square
    by_outer, by_inner = 2 * (inner - limit * outer) / square, 2 * (outer - limit * inner) / square
    low, high = 1 - limit / 3, 1 + limit / 3
    mean = low * outer + high * inner
    by_limit = mean + limit * (inner - outer) / 3
    return limit * mean / 4, (by_outer * by_limit + limit * low) / 4, (by_inner * by_limit + limit * high) / 4


def _round_off(speed: FloatArray, width: FloatArray) -> FloatArray:
    """Size of a speed, made smooth where it is below `width` (Harten)."""
    size = np.abs(speed)
    return np.where(size < width, (size**2 / width + width) / 2, size)


def _differentiate(function: Callable[[FloatArray], Any], states: FloatArray) -> FloatArray:
    """Derivative of a function of states, (4, number), by differences, (4, 4, number)."""
    value = function(states)
    columns = []
    for index in range(4):
        shifted = states.copy()
        shifted[index] += 1e-7 * (1 + np.abs(states[index]))
        columns.append((function(shifted) - value) / (shifted[index] - states[index]))
    return np.stack(columns, axis=1)
