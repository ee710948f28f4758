"""Make the runs: plates with an elliptic hole, each on a mesh of its own, under the loads of a table.

    python make_runs.py [number of runs] [points along a side]

writes `doe.csv`, a table with the loads of each run, and `runs/run_000.vtu` and so on with the von Mises stress and the
displacement at the points (mm, MPa). Plane stress, linear elasticity, quadratic triangles (scikit-fem).
"""

import csv
import logging
import sys
from pathlib import Path

import meshio
import numpy as np
from skfem import Basis, ElementTriP1, ElementTriP2, ElementVector, FacetBasis, LinearForm, MeshTri, condense, solve
from skfem.models.elasticity import linear_elasticity

logging.getLogger("skfem").setLevel(logging.WARNING)

HALF, YOUNG, POISSON = 100.0, 210e3, 0.3  # half the length of a side in mm, MPa, 1


def mesh_around_hole(long, short, angle, n_side, n_rings):
    """Triangles between an ellipse and the square around it, finer towards the ellipse."""
    side = np.linspace(-1, 1, n_side, endpoint=False)
    one = np.ones(n_side)
    sides = ((side, -one), (one, side), (-side, one), (-one, -side))
    border = HALF * np.concatenate([np.stack(pair, axis=1) for pair in sides])
    turn = np.arctan2(border[:, 1], border[:, 0]) - angle
    radius = 1 / np.hypot(np.cos(turn) / long, np.sin(turn) / short)
    hole = border / np.linalg.norm(border, axis=1)[:, None] * radius[:, None]
    share = np.linspace(0, 1, n_rings)[:, None, None] ** 1.8
    points = ((1 - share) * hole + share * border).reshape(-1, 2)
    ring, place = np.meshgrid(np.arange(n_rings - 1), np.arange(4 * n_side), indexing="ij")
    a, b = ring * 4 * n_side + place, ring * 4 * n_side + (place + 1) % (4 * n_side)
    c, d = a + 4 * n_side, b + 4 * n_side
    triangles = np.concatenate([np.stack([a, c, b], -1), np.stack([b, c, d], -1)]).reshape(-1, 3)
    return MeshTri(np.ascontiguousarray(points.T), np.ascontiguousarray(triangles.T))


def solve_plate(mesh, tension_x, tension_y):
    """Von Mises stress (P,) and displacement (P, 2) of a plate that is pulled at its four sides."""
    basis = Basis(mesh, ElementVector(ElementTriP2()), intorder=4)
    shear = YOUNG / (2 * (1 + POISSON))
    lame = YOUNG * POISSON / (1 - POISSON**2)  # of plane stress
    stiffness = linear_elasticity(lame, shear).assemble(basis)

    @LinearForm
    def traction(v, w):
        return w.n[0] * tension_x * v[0] + w.n[1] * tension_y * v[1]

    outside = mesh.facets_satisfying(lambda x: np.isclose(np.abs(x).max(axis=0), HALF), boundaries_only=True)
    load = traction.assemble(FacetBasis(mesh, basis.elem, facets=outside, intorder=4))
    # The loads are in balance: three constraints stop the plate from moving as a whole.
    corners = [np.argmin(np.linalg.norm(mesh.p.T - corner, axis=1)) for corner in ((-HALF, -HALF), (HALF, -HALF))]
    fixed = np.append(basis.nodal_dofs[:, corners[0]], basis.nodal_dofs[1, corners[1]])
    displacement = solve(*condense(stiffness, load, D=fixed))
    gradient = basis.interpolate(displacement).grad
    strain = (gradient + gradient.swapaxes(0, 1)) / 2
    stress = 2 * shear * strain
    for i in range(2):
        stress[i, i] += lame * (strain[0, 0] + strain[1, 1])
    at_points = basis.with_element(ElementTriP1())
    xx, yy, xy = (at_points.project(stress[i, j]) for i, j in ((0, 0), (1, 1), (0, 1)))
    return np.sqrt(xx**2 - xx * yy + yy**2 + 3 * xy**2), displacement[basis.nodal_dofs].T


def main(n_runs=40, n_side=10):
    """Write the table and the runs."""
    rng = np.random.default_rng(0)
    Path("runs").mkdir(exist_ok=True)
    rows = []
    for number in range(n_runs):
        long = rng.uniform(20, 45)
        short, angle = long * rng.uniform(0.4, 1), rng.uniform(0, np.pi)
        tension_x, tension_y = rng.uniform(20, 120, 2)
        mesh = mesh_around_hole(long, short, angle, n_side + number % 4, n_side + number % 3)
        mises, displacement = solve_plate(mesh, tension_x, tension_y)
        points = np.column_stack([mesh.p.T, np.zeros(mesh.p.shape[1])])
        fields = {"mises": mises, "displacement": np.column_stack([displacement, np.zeros(len(mises))])}
        meshio.Mesh(points, [("triangle", mesh.t.T)], point_data=fields).write(f"runs/run_{number:03}.vtu")
        rows.append([f"run_{number:03}.vtu", f"{tension_x:.3f}", f"{tension_y:.3f}"])
    with open("doe.csv", "w", newline="") as file:
        csv.writer(file).writerows([["file", "tension_x", "tension_y"], *rows])
    print(f"{n_runs} runs in runs/, their loads in doe.csv")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
