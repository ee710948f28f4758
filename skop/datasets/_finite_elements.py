"""Common parts of the finite-element solvers for solids and flows, based on scikit-fem.

Degree of freedom d p + i is component i of point p in d dimensions. Letters: e elements, q quadrature points of an
element, m points of an element.
"""

from typing import Any

import numpy as np
from scipy.sparse import coo_array, csc_array

from skop._optional import import_optional
from skop._typing import FloatArray, IntArray


def import_fem() -> Any:
    """Import scikit-fem."""
    return import_optional("skfem", purpose="solve equations by finite elements")


def displacement_dofs(basis: Any) -> IntArray:
    """Degrees of freedom of each element, (e, d m), from a basis of scalar functions."""
    points, n_dims = basis.element_dofs.T, basis.mesh.dim()
    return (n_dims * points[:, :, np.newaxis] + np.arange(n_dims)).reshape(len(points), -1)


def gradient_operator(basis: Any) -> FloatArray:
    """Matrices from the displacements of an element to their gradient, row by row, (e, q, d d, d m)."""
    slopes = np.stack([function[0].grad for function in basis.basis]).transpose(2, 3, 1, 0)
    n_elements, n_points, n_dims, n_nodes = slopes.shape
    operator = np.zeros((n_elements, n_points, n_dims, n_dims, n_nodes, n_dims))
    for component in range(n_dims):
        operator[:, :, component, :, :, component] = slopes
    return operator.reshape(n_elements, n_points, n_dims**2, n_dims * n_nodes)


def assemble_stiffness(operator: FloatArray, tangent: FloatArray, dofs: IntArray) -> csc_array:
    """Sum ``operator^T tangent operator`` over quadrature points and elements; `tangent` includes the weights."""
    flat = operator.reshape(len(dofs), -1, dofs.shape[1])
    entries = np.swapaxes(flat, 1, 2) @ (tangent @ operator).reshape(flat.shape)
    rows = np.broadcast_to(dofs[:, :, np.newaxis], entries.shape)
    columns = np.broadcast_to(dofs[:, np.newaxis, :], entries.shape)
    return coo_array((entries.ravel(), (rows.ravel(), columns.ravel()))).tocsc()


def mean_at_points(values: FloatArray, points: IntArray, weights: FloatArray) -> FloatArray:
    """Weighted mean over the elements around each point: from (e, m, c), points (e, m) and weights (e,) to (P, c)."""
    weights = np.broadcast_to(weights[:, np.newaxis], points.shape)
    flat, number = weights.ravel(), points.ravel()
    sums = [np.bincount(number, flat * component) for component in values.reshape(len(number), -1).T]
    return np.stack(sums, axis=-1) / np.bincount(number, flat)[:, np.newaxis]
