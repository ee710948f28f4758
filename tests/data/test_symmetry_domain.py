"""Symmetries about a declared domain: points move with their fields, and everything can be undone."""

import numpy as np
import pytest
import torch

from skop import FieldSet, LaMORegressor
from skop.data import FieldLoader, GridSymmetries, Scalers, ScalingOptions, Targets
from skop.exceptions import FieldDataError

CPU = {"device": torch.device("cpu"), "dtype": torch.float64}
GROUPS = [
    (["flip_x"], (5,), ((0.0, 1.0),)),
    (["flip_x", "flip_y"], (4, 6), ((0.0, 1.0), (-1.0, 2.0))),
    (["flip_x", "transpose"], (5, 5), ((0.0, 1.0), (0.0, 1.0))),
    (["quarter_turn"], (4, 4), ((2.0, 4.0), (2.0, 4.0))),
    (["flip_z", "transpose"], (3, 3, 4), ((0.0, 1.0), (0.0, 1.0), (0.0, 3.0))),
]


def half_open(grid, domain):
    """Points that hold the lower edge of the domain and not the upper one: lower + i / n of the extent."""
    axes = [low + np.arange(size) / size * (high - low) for size, (low, high) in zip(grid, domain, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(grid))


def scalar(points):
    """A field without any symmetry."""
    weights = np.array([0.7, -0.4, 1.1])[: points.shape[-1]]
    return np.exp(0.3 * points @ weights) + (points @ weights[::-1]) ** 3 / 10 + points[..., 0]


def flow(points):
    """A vector field without any symmetry."""
    n_dims = points.shape[-1]
    return np.stack([scalar(points) * (axis + 1) + points[..., axis] ** 2 for axis in range(n_dims)], axis=-1)


def fields_on(points):
    """A scalar and a vector at points, channels last."""
    return np.concatenate([scalar(points)[..., None], flow(points)], axis=-1)


def undone(points, matrix, domain):
    """Where a point of the moved sample was before: M^-1 about the centre, in units of the domain."""
    low, high = np.array(domain).T
    return ((points - low) / (high - low) - 0.5) @ matrix * (high - low) + 0.5 * (high - low) + low


def declared(names, grid, domain):
    vector = [list(range(1, len(grid) + 1))]
    return GridSymmetries(names, grid, vector, vector, domain=domain)


def test_undo_brings_fields_and_vectors_back_exactly():
    for names, grid, domain in GROUPS:
        symmetries = declared(names, grid, domain)
        fields = torch.from_numpy(np.random.default_rng(0).normal(size=(3, int(np.prod(grid)), len(grid) + 1)))
        for number in range(symmetries.order):
            element = symmetries.element(number, 3)
            moved = symmetries.apply(fields, *element, symmetries.target_vectors)
            assert number == 0 or not torch.equal(moved, fields)
            assert torch.equal(symmetries.undo(moved, *element), fields)


def test_undo_takes_back_shifts_too():
    symmetries = GridSymmetries(["shift_x", "flip_y"], (4, 6), target_vectors=[(0, 1)])
    fields = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 24, 2)))
    drawn = symmetries.draw(20, torch.Generator().manual_seed(0))
    assert torch.equal(symmetries.undo(symmetries.apply(fields, *drawn, [(0, 1)]), *drawn), fields)


def test_moved_points_are_those_of_the_mirrored_grid_in_ascending_order():
    for names, grid, domain in GROUPS:
        symmetries = declared(names, grid, domain)
        coords = half_open(grid, domain)
        low, high = np.array(domain).T
        for number, matrix in enumerate(symmetries.matrices):
            moved = symmetries.move_points(torch.from_numpy(coords), symmetries.element(number, 1)[0])[0].numpy()
            mirrored = matrix.sum(axis=1) < 0
            expected = half_open(grid, domain)
            # A mirrored axis holds the upper edge and not the lower: x -> lower + upper - x, sorted again.
            expected[:, mirrored] += ((high - low) / grid)[mirrored]
            np.testing.assert_allclose(moved, expected, atol=1e-12)


def test_a_batch_is_the_transformed_field_at_the_transformed_points():
    for names, grid, domain in GROUPS:
        symmetries = declared(names, grid, domain)
        coords = half_open(grid, domain)
        values = fields_on(coords)[None].repeat(2, axis=0)
        inputs, targets = (
            FieldSet(coords, values, grid_shape=grid),
            Targets(FieldSet(coords, 3 * values, grid_shape=grid)),
        )
        scalers = Scalers.fit(inputs, targets, np.ones(2), ScalingOptions(inputs=None, targets=None))
        for number, matrix in enumerate(symmetries.matrices):
            loader = FieldLoader(inputs, scalers, targets=targets, symmetries=symmetries, element=number, **CPU)
            batch = loader.gather(np.arange(2))
            points = batch.coords.numpy() * scalers.coords.span_ + scalers.coords.lower_
            expected = fields_on(undone(points, matrix, domain))
            expected[..., 1:] = expected[..., 1:] @ matrix.T
            np.testing.assert_allclose(batch.fields.numpy(), expected, atol=1e-11)
            np.testing.assert_allclose(batch.target.numpy(), 3 * expected, atol=1e-11)


def test_random_draws_of_a_loader_give_each_sample_its_own_points():
    names, grid, domain = GROUPS[2]
    symmetries = GridSymmetries(names, grid, domain=domain)
    coords = half_open(grid, domain)
    inputs = FieldSet(coords, np.zeros((60, 25, 1)), grid_shape=grid)
    scalers = Scalers.fit(inputs, Targets(inputs), np.ones(60), ScalingOptions(inputs=None, targets=None))
    generator = torch.Generator().manual_seed(0)
    loader = FieldLoader(inputs, scalers, targets=Targets(inputs), symmetries=symmetries, generator=generator, **CPU)
    points = loader.gather(np.arange(60)).coords
    assert points.shape == (60, 25, 2)
    assert len({sample.numpy().round(9).tobytes() for sample in points}) == 4  # each axis mirrored or not


def test_a_periodic_shift_moves_fields_along_a_grid_that_stays():
    grid, domain = (6,), ((0.0, 1.0),)
    symmetries = GridSymmetries(["shift_x"], grid, domain=domain)
    coords = half_open(grid, domain)
    moved = symmetries.move_points(torch.from_numpy(coords), symmetries.draw(30, torch.Generator().manual_seed(0))[0])
    for sample in moved.numpy():
        np.testing.assert_allclose(sample, coords, atol=1e-12)


def test_impossible_domains_are_refused():
    for domain in [((0, 1),), ((0, 1), (1, 1)), ((0, 1), (2, 1)), (0, 1), ((0, 1), (0, np.nan))]:
        with pytest.raises(FieldDataError, match=r"domain is .*2 pairs \(lower, upper\)"):
            GridSymmetries(["flip_x"], (4, 4), domain=domain)


def test_points_do_not_move_without_a_domain():
    symmetries = GridSymmetries(["flip_x"], (3,))
    with pytest.raises(FieldDataError, match="about a domain"):
        symmetries.move_points(torch.zeros(3, 1), symmetries.element(1, 1)[0])


def test_a_domain_needs_points_that_all_samples_share():
    names, grid, domain = GROUPS[0]
    own = FieldSet(np.stack([half_open(grid, domain)] * 2), np.zeros((2, 5, 1)), grid_shape=grid)
    scalers = Scalers.fit(own, Targets(own), np.ones(2), ScalingOptions(inputs=None, targets=None))
    with pytest.raises(FieldDataError, match="all samples share"):
        FieldLoader(own, scalers, symmetries=GridSymmetries(names, grid, domain=domain), **CPU)


# ---------------------------------------------------------------- the estimator
def moved_set(fields, symmetries, number, vectors):
    """A FieldSet moved by one element: its points and its values."""
    element = symmetries.element(number, len(fields))
    coords = symmetries.move_points(torch.from_numpy(fields.coords), element[0])[0].numpy()
    values = symmetries.apply(torch.from_numpy(fields.values), *element, vectors).numpy()
    return FieldSet(coords, values, grid_shape=fields.grid_shape)


def fitted(X, y, **params):
    settings = {"width": 8, "depth": 1, "max_iter": 2, "random_state": 0}
    return LaMORegressor(dtype="float64").set_params(**(settings | params)).fit(X, y)


def test_averaged_predictions_are_equivariant():
    grid, domain = (6, 6), ((0.0, 1.0), (0.0, 1.0))
    names, vectors = ["flip_x", "transpose"], [[1, 2]]
    generator = np.random.default_rng(0)
    coords = half_open(grid, domain)
    X = FieldSet(coords, generator.normal(size=(6, 36, 3)), grid_shape=grid)
    y = FieldSet(coords, generator.normal(size=(6, 36, 3)), grid_shape=grid)
    params = {
        "symmetries": names,
        "symmetries__domain": domain,
        "symmetries__input_vectors": vectors,
        "symmetries__target_vectors": vectors,
    }
    symmetries = GridSymmetries(names, grid, vectors, vectors, domain)
    estimator = fitted(X, y, **params, symmetries__average_predictions=True)
    plain = fitted(X, y, **params)
    for number in range(symmetries.order):
        image = moved_set(X, symmetries, number, vectors)
        expected = moved_set(estimator.predict(X), symmetries, number, vectors).values
        np.testing.assert_allclose(estimator.predict(image).values, expected, rtol=0, atol=1e-12)
    # The network alone does not have the symmetry: the test can fail.
    expected = moved_set(plain.predict(X), symmetries, number, vectors).values
    assert np.abs(plain.predict(image).values - expected).max() > 1e-4


def test_averaged_scalars_are_invariant():
    grid, domain = (4, 6), ((0.0, 1.0), (0.0, 2.0))
    generator = np.random.default_rng(0)
    X = FieldSet(half_open(grid, domain), generator.normal(size=(6, 24, 1)), grid_shape=grid)
    names = ["flip_x", "flip_y"]
    estimator = fitted(
        X, np.arange(6.0), symmetries=names, symmetries__domain=domain, symmetries__average_predictions=True
    )
    symmetries = GridSymmetries(names, grid, domain=domain)
    for number in range(4):
        np.testing.assert_allclose(
            estimator.predict(moved_set(X, symmetries, number, [])), estimator.predict(X), rtol=0, atol=1e-12
        )
