"""Symmetries against their definition u'(x) = M u(M^-1 x), evaluated through coordinates and analytic fields."""

from itertools import permutations, product

import numpy as np
import pytest
import torch

from skop.data import GridSymmetries, unit_grid
from skop.data._symmetry import _move_grid
from skop.exceptions import FieldDataError

SQUARE = (5, 5)
GROUPS = [
    ([], (4, 6), 1),
    (["flip_x"], (7,), 2),
    (["flip_x"], (4, 6), 2),
    (["flip_x", "flip_y"], (4, 6), 4),
    (["transpose"], SQUARE, 2),
    (["quarter_turn"], SQUARE, 4),
    (["flip_x", "transpose"], SQUARE, 8),
    (["flip_x", "flip_y", "transpose", "quarter_turn"], SQUARE, 8),
    (["flip_x", "flip_y", "flip_z"], (2, 3, 4), 8),
    (["transpose", "flip_z"], (3, 3, 2), 4),
    (["quarter_turn", "flip_x", "flip_z"], (3, 3, 4), 16),
]


def centred(grid):
    """Coordinates with the centre of the grid at 0 and spacing 1."""
    return unit_grid(grid) * (np.array(grid) - 1) - (np.array(grid) - 1) / 2


def element_of(symmetries, number):
    """What `draw` returns for one element without shifts."""
    return torch.tensor([number]), symmetries._sources[[number]]


def moved_by(symmetries, number, values, vectors=()):
    """Fields (P, c) moved by one element."""
    return symmetries.apply(torch.from_numpy(values)[None], *element_of(symmetries, number), vectors)[0].numpy()


def scalar(x):
    """A field without any symmetry."""
    weights = np.array([0.7, -0.4, 1.1])[: x.shape[1]]
    return np.exp(0.3 * x @ weights) + (x @ weights[::-1]) ** 3 / 10 + x[:, 0]


def gradient(x):
    """Its derivatives, by central differences of the formula."""
    step = 1e-5
    units = np.eye(x.shape[1]) * step
    return np.stack([(scalar(x + unit) - scalar(x - unit)) / (2 * step) for unit in units], axis=1)


def test_elements_form_a_group_of_permutations():
    for names, grid, order in GROUPS:
        symmetries = GridSymmetries(names, grid)
        assert symmetries.order == order
        rows = [tuple(row) for row in symmetries._sources.tolist()]
        assert len(set(rows)) == order
        points = list(range(int(np.prod(grid))))
        assert all(sorted(row) == points for row in rows)
        assert tuple(points) in rows
        for first in rows:
            for second in rows:
                assert tuple(first[place] for place in second) in rows
        matrices = symmetries.matrices
        identities = np.broadcast_to(np.eye(len(grid)), matrices.shape)
        np.testing.assert_array_equal(matrices @ matrices.swapaxes(1, 2), identities)


def test_named_elements_do_what_their_names_say():
    values = np.arange(25.0).reshape(5, 5)
    expected = {
        "flip_x": values[::-1], "flip_y": values[:, ::-1], "transpose": values.T,
        # Axis 0 is x and axis 1 is y: a quarter turn takes the x axis to the y axis or back.
        "quarter_turn": np.rot90(values),
    }  # fmt: skip
    for name, result in expected.items():
        symmetries = GridSymmetries([name], SQUARE)
        images = [moved_by(symmetries, k, values.reshape(-1, 1)).reshape(5, 5) for k in range(symmetries.order)]
        assert any(np.array_equal(image, result) for image in images)
        assert any(np.array_equal(image, values) for image in images)
    turns = GridSymmetries(["quarter_turn"], SQUARE)
    assert all(np.linalg.det(matrix) == pytest.approx(1) for matrix in turns.matrices)


def test_fields_move_with_their_points():
    for names, grid, _order in GROUPS:
        symmetries = GridSymmetries(names, grid)
        x, dims = centred(grid), len(grid)
        values = np.column_stack([scalar(x), gradient(x), x[:, 0]])
        vector = list(range(1, dims + 1))
        for number, matrix in enumerate(symmetries.matrices):
            before = x @ matrix  # rows of M^-1 x, since M^-1 is the transpose of M
            moved = moved_by(symmetries, number, values, [vector])
            np.testing.assert_allclose(moved[:, 0], scalar(before), atol=1e-12)
            np.testing.assert_allclose(moved[:, vector], gradient(before) @ matrix.T, atol=1e-12)
            np.testing.assert_allclose(moved[:, -1], before[:, 0], atol=1e-12)


def test_any_signed_permutation_moves_a_cube_as_it_moves_points():
    grid = (3, 3, 3)
    x, index = centred(grid), np.arange(27).reshape(grid)
    for axes in permutations(range(3)):
        for signs in product((-1, 1), repeat=3):
            matrix = np.diag(signs) @ np.eye(3, dtype=int)[list(axes)]
            np.testing.assert_allclose(scalar(x)[_move_grid(index, matrix).ravel()], scalar(x @ matrix), atol=1e-12)


def transformed(matrix):
    """The scalar field u'(x) = u(M^-1 x)."""
    return lambda x: scalar(x @ matrix)


def test_gradient_of_the_moved_field_is_the_moved_gradient():
    for names, grid, _order in GROUPS:
        symmetries = GridSymmetries(names, grid)
        x, dims, step = centred(grid), len(grid), 1e-5
        for number, matrix in enumerate(symmetries.matrices):
            moved = moved_by(symmetries, number, gradient(x), [range(dims)])
            field = transformed(matrix)
            direct = [(field(x + step * unit) - field(x - step * unit)) / (2 * step) for unit in np.eye(dims)]
            np.testing.assert_allclose(moved, np.stack(direct, axis=1), atol=1e-7)


def periodic_divergence(flow, grid):
    """Central differences of a vector field on a periodic grid with spacing 1."""
    parts = [flow[:, axis].reshape(grid) for axis in range(len(grid))]
    return sum(np.roll(part, -1, axis) - np.roll(part, 1, axis) for axis, part in enumerate(parts))


def test_divergence_free_flow_stays_divergence_free():
    grid = (6, 6)
    stream = np.random.default_rng(0).normal(size=grid)
    flow = [np.roll(stream, -1, 1) - np.roll(stream, 1, 1), np.roll(stream, 1, 0) - np.roll(stream, -1, 0)]
    values = np.stack(flow, axis=-1).reshape(36, 2)
    assert np.abs(periodic_divergence(values, grid)).max() < 1e-12
    symmetries = GridSymmetries(["flip_x", "quarter_turn", "shift_x", "shift_y"], grid)
    element, sources = symmetries.draw(50, torch.Generator().manual_seed(0))
    batch = torch.from_numpy(values).expand(50, -1, -1)
    for flow in symmetries.apply(batch, element, sources, [[0, 1]]).numpy():
        assert np.abs(periodic_divergence(flow, grid)).max() < 1e-12
    # Without turning the components this would not hold: the test can fail.
    unturned = symmetries.apply(batch, element, sources, []).numpy()
    assert max(np.abs(periodic_divergence(flow, grid)).max() for flow in unturned) > 0.1


@pytest.mark.parametrize(("names", "axes"), [(["shift_x"], [0]), (["shift_y"], [1]), (["shift_z", "shift_x"], [2, 0])])
def test_shifts_are_rolls(names, axes):
    grid = (3, 4, 2)
    symmetries = GridSymmetries(names, grid)
    values = torch.arange(24.0, dtype=torch.float64)[None, :, None].expand(200, -1, -1)
    element, sources = symmetries.draw(200, torch.Generator().manual_seed(0))
    moved = symmetries.apply(values, element, sources, [])[..., 0].reshape(200, *grid)
    field = np.arange(24.0).reshape(grid)
    amounts = np.array(np.meshgrid(*[range(grid[axis]) for axis in axes])).reshape(len(axes), -1).T
    rolled = {np.roll(field, tuple(amount), tuple(axes)).tobytes() for amount in amounts}
    assert len(rolled) == len(amounts)
    assert {image.numpy().tobytes() for image in moved} == rolled


def test_every_element_is_drawn_equally_often():
    symmetries = GridSymmetries(["flip_x", "transpose"], SQUARE)
    element, sources = symmetries.draw(8000, torch.Generator().manual_seed(0))
    counts = np.bincount(element, minlength=8)
    assert counts.min() > 900
    assert counts.max() < 1100
    assert torch.equal(sources, symmetries._sources[element])


def test_draws_follow_the_generator():
    symmetries = GridSymmetries(["flip_x", "shift_y"], (4, 6))
    first, same, other = (symmetries.draw(20, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first[0], same[0])
    assert torch.equal(first[1], same[1])
    assert not torch.equal(first[1], other[1])


def test_fields_that_came_are_left_alone():
    symmetries = GridSymmetries(["flip_x"], (4, 6), [(0, 1)])
    values = torch.randn(3, 24, 2)
    kept = values.clone()
    symmetries.apply(values, *symmetries.draw(3, torch.Generator().manual_seed(0)), [[0, 1]])
    assert torch.equal(values, kept)


def test_impossible_symmetries_are_refused():
    for names, grid, vectors, message in [
        (["mirror"], SQUARE, (), "'mirror' does not exist"),
        (["flip_y"], (5,), (), "'flip_y' does not exist"),
        (["shift_z"], SQUARE, (), "'shift_z' does not exist"),
        (["transpose"], (4, 6), (), "'transpose' does not exist"),
        (["quarter_turn"], (4, 6), (), "same number of points"),
        (["transpose"], (4,), (), "does not exist"),
        ("flip_x", SQUARE, (), "does not exist"),
        (["flip_x"], SQUARE, [(0,)], "1 components"),
        (["flip_x"], SQUARE, [(0, 1, 2)], "3 components"),
        (["flip_x"], SQUARE, [(0, 0)], "different channels"),
        (["flip_x"], SQUARE, [(-1, 0)], "counted from 0"),
    ]:
        with pytest.raises(FieldDataError, match=message):
            GridSymmetries(names, grid, vectors)
        if vectors:
            with pytest.raises(FieldDataError, match=message):
                GridSymmetries(names, grid, (), vectors)


def test_points_must_have_the_symmetry():
    uneven = np.stack(np.meshgrid([0.0, 0.1, 1.0], [0.0, 0.5, 1.0], indexing="ij"), -1).reshape(-1, 2)
    for names, coords in (
        (["flip_x"], uneven),
        (["shift_x"], uneven),
        (["transpose"], uneven),
        (["quarter_turn"], unit_grid((3, 3)) * [1.0, 2.0]),
        (["flip_x"], unit_grid((3, 3))[:, ::-1]),
        (["flip_x"], np.random.default_rng(0).random((9, 2))),
    ):
        with pytest.raises(FieldDataError, match=r"onto each other|evenly spaced"):
            GridSymmetries(names, (3, 3)).check_points(coords)
    GridSymmetries(["flip_y", "shift_y"], (3, 3)).check_points(uneven)
    single_precision = (unit_grid((3, 3)) * 7 + 3).astype(np.float32)
    GridSymmetries(["flip_x", "transpose", "shift_x"], (3, 3)).check_points(single_precision)
    GridSymmetries(["flip_x", "flip_y"], (3, 4)).check_points(unit_grid((3, 4)) * [1.0, 2.0])
    GridSymmetries(["flip_x"], (1,)).check_points(np.zeros((1, 1)))
