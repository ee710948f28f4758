"""Symmetries of points against their definition: x -> M x + t, v -> M v, t -> M t M^T, in float64 NumPy."""

import numpy as np
import pytest
import torch

from skop import FieldSet
from skop.data import FieldLoader, PointSymmetries, Scalers, ScalingOptions, Targets
from skop.exceptions import FieldDataError

CPU = {"device": torch.device("cpu"), "dtype": torch.float64}
RANDOM = np.random.default_rng(0)
PLATE = [1.0, 0.5]  # centre of [0, 2] x [0, 1]
GROUPS = {
    "flips": (["flip_x", "flip_y"], PLATE, {}, 4),
    "square": (["flip_x", "quarter_turn"], PLATE, {}, 8),
    "line": (["flip_x"], [3.0], {}, 2),
    "triangle": ([], PLATE, {"rotations": [(PLATE, 120)], "mirrors": [(PLATE, (0, -5.0))]}, 6),
    "mirrors at 45 degrees": ([], [0.0, 0.0], {"mirrors": [((2, 1), (1, 0)), ((2, 1), (1, 1))]}, 8),
    "cube": (["quarter_turn", "flip_z"], [1, 2, 3], {"rotations": [((1, 2, 3), (5.0, 0, 0), 90)]}, 48),
    "five-fold about a diagonal": ([], [0, 0, 0], {"rotations": [((1, 2, 3), (1, 1, 1), 72)]}, 5),
}


def declared(name, **parts):
    names, centre, further, _ = GROUPS[name]
    return PointSymmetries(names, centre, **further, **parts)


def pairs(symmetries):
    """Matrix and shift of every element, as x -> M x + t about the origin."""
    for number in range(symmetries.order):
        turn, shift = (part[0].numpy() for part in symmetries.element(number, 1))
        yield turn, shift + symmetries.centre - turn @ symmetries.centre


# ---------------------------------------------------------------- the group
def test_the_elements_are_a_group_of_isometries():
    for name in GROUPS:
        symmetries = declared(name)
        elements = [np.column_stack(pair) for pair in pairs(symmetries)]
        assert len(elements) == GROUPS[name][-1]
        np.testing.assert_array_equal(elements[0], np.eye(symmetries.n_dims, symmetries.n_dims + 1))
        table = np.array(elements).reshape(len(elements), -1)
        for first in elements:
            turn, shift = first[:, :-1], first[:, -1]
            np.testing.assert_allclose(turn @ turn.T, np.eye(symmetries.n_dims), atol=1e-12)
            for second in elements:
                product = np.column_stack([turn @ second[:, :-1], turn @ second[:, -1] + shift])
                assert (np.abs(table - product.ravel()).max(axis=1) < 1e-9).sum() == 1


def test_named_and_declared_symmetries_do_what_they_say():
    point = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
    for names, further, expected in (
        (["flip_x"], {}, [1.75, 0.75]),
        (["flip_y"], {}, [0.25, 0.25]),
        (["transpose"], {}, [1.25, -0.25]),
        (["quarter_turn"], {}, [0.75, -0.25]),
        ([], {"mirrors": [((0, 3), (0, 2))]}, [0.25, 5.25]),
        ([], {"mirrors": [((0, 0), (-1, 1))]}, [0.75, 0.25]),
        ([], {"rotations": [((0, 0), 90)]}, [-0.75, 0.25]),
    ):
        symmetries = PointSymmetries(names, PLATE, **further)
        moved = symmetries.move_points(point, *symmetries.element(1, 1), np.array([1]))
        np.testing.assert_allclose(moved.numpy(), [expected], atol=1e-14)
    turned = PointSymmetries([], [0, 0, 0], rotations=[((1, 1, 0), (0, 0, 2), 90)])
    moved = turned.move_points(torch.tensor([[2.0, 1, 5]]).double(), *turned.element(1, 1), np.array([1]))
    np.testing.assert_allclose(moved.numpy(), [[1, 2, 5]], atol=1e-14)


def test_draws_are_elements_and_all_are_drawn():
    symmetries = declared("triangle")
    turn, shift = symmetries.draw(300, torch.Generator().manual_seed(0))
    drawn = {np.column_stack(pair).round(9).tobytes() for pair in zip(turn.numpy(), shift.numpy(), strict=True)}
    assert len(drawn) == 6
    again = symmetries.draw(300, torch.Generator().manual_seed(0))
    assert torch.equal(again[0], turn)
    assert torch.equal(again[1], shift)


def test_any_angle_is_drawn_and_the_centre_stays():
    symmetries = PointSymmetries(["flip_x", "rotate"], PLATE)
    assert symmetries.order == 16
    turn, shift = symmetries.draw(500, torch.Generator().manual_seed(0))
    np.testing.assert_allclose((turn @ turn.mT).numpy(), np.tile(np.eye(2), (500, 1, 1)), atol=1e-12)
    assert len(set(turn[:, 0, 0].tolist())) == 500
    np.testing.assert_allclose(turn.mean(dim=0).numpy(), np.zeros((2, 2)), atol=0.1)
    assert 200 < (torch.linalg.det(turn) < 0).sum() < 300
    assert not shift.any()
    about = PointSymmetries([], [0, 0, 0], rotations=[((1, 2, 3), (1, 0, 1), None)])
    turn, shift = about.draw(20, torch.Generator().manual_seed(0))
    on_axis = torch.tensor([[2.0, 2.0, 4.0]], dtype=torch.float64).expand(20, 1, 3)
    moved = about.move_points(on_axis, turn, shift, np.ones(20, dtype=int))
    np.testing.assert_allclose(moved.numpy(), on_axis.numpy(), atol=1e-12)


def test_a_point_on_a_mirror_and_at_the_centre_of_any_angle_stays():
    symmetries = PointSymmetries([], [0, 0], mirrors=[((2, 0), (1, 0))], rotations=[((2, 1), None)])
    images = symmetries.images(np.array([[2.5, 1.0]]))
    np.testing.assert_allclose([images.min(axis=0), images.max(axis=0)], [[1.5, 0.5], [2.5, 1.5]], atol=1e-12)
    drawn = symmetries.draw(20, torch.Generator().manual_seed(0))
    assert len(set(torch.linalg.det(drawn[0]).round().tolist())) == 2
    fixed = torch.tensor([2.0, 1.0], dtype=torch.float64)
    np.testing.assert_allclose((drawn[0] @ fixed + drawn[1]).numpy(), fixed.expand(20, 2).numpy(), atol=1e-12)


# ---------------------------------------------------------------- vectors and tensors
LAYOUTS = {
    ("flips", (2, 0, 3)): [[2, 3], [3, 0]],
    ("triangle", (3, 2, 1, 0)): [[3, 2], [1, 0]],
    ("cube", (0, 1, 2, 3, 4, 5)): [[0, 3, 5], [3, 1, 4], [5, 4, 2]],
    # Channels in Voigt's order: xx, yy, zz, yz, xz, xy.
    ("five-fold about a diagonal", (0, 1, 2, 5, 3, 4)): [[0, 5, 4], [5, 1, 3], [4, 3, 2]],
    ("five-fold about a diagonal", tuple(range(9))): np.arange(9).reshape(3, 3),
}


def test_tensors_turn_on_both_sides_and_vectors_on_one():
    for name, channels in LAYOUTS:
        vector = [9, 11, 10][: 2 if len(channels) < 5 else 3]
        symmetries = declared(name, target_vectors=[vector], target_tensors=[channels])
        layout, values = np.array(LAYOUTS[name, channels]), RANDOM.normal(size=(2, 4, 12))
        for number, (turn, _) in enumerate(pairs(symmetries)):
            expected = values.copy()
            for place in np.ndindex(2, 4):
                expected[place][layout] = turn @ values[place][layout] @ turn.T
                expected[place][vector] = turn @ values[place][vector]
            drawn = symmetries.element(number, 2)[0]
            parts = (symmetries.target_vectors, symmetries.target_tensors)
            found = symmetries.apply(torch.from_numpy(values), drawn, *parts)
            np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
            # Packed samples of one and seven points.
            flat = symmetries.apply(torch.from_numpy(values.reshape(8, 12)), drawn, *parts, np.array([1, 7]))
            np.testing.assert_allclose(flat.numpy(), expected.reshape(8, 12), atol=1e-12)
            np.testing.assert_allclose(symmetries.apply(found, drawn.mT, *parts).numpy(), values, atol=1e-12)


def test_a_pseudo_scalar_is_an_antisymmetric_tensor():
    symmetries = PointSymmetries(["flip_x"], PLATE, input_tensors=[(0, 1, 2, 3)])
    spin = torch.tensor([[[0.0, -2.0, 2.0, 0.0]]], dtype=torch.float64)
    found = symmetries.apply(spin, symmetries.element(1, 1)[0], [], symmetries.input_tensors)
    np.testing.assert_array_equal(found.numpy(), -spin.numpy())


# ---------------------------------------------------------------- loaders and statistics
def samples(ragged):
    sizes = [3, 5, 4] if ragged else [4, 4, 4]
    points = [RANDOM.random((size, 2)) * [2, 1] + [0.1, 0] for size in sizes]
    fields = [RANDOM.normal(size=(size, 3)) + np.array([5, 0, 1]) for size in sizes]
    as_set = (lambda parts: parts) if ragged else np.stack
    params = RANDOM.normal(size=(3, 3)) + np.array([0, 7, 0])
    inputs = FieldSet(as_set(points), as_set(fields), params=params)
    return inputs, Targets(FieldSet(as_set(points), as_set([2 * held for held in fields])), RANDOM.random((3, 2)))


def all_images(inputs, targets, symmetries):
    """Every sample moved by every element, in NumPy."""
    points, fields, truths, params, scalars = [], [], [], [], []
    for turn, shift in pairs(symmetries):
        for number in range(len(inputs)):
            points.append(inputs.coords_list()[number] @ turn.T + shift)
            for held, moved in ((inputs, fields), (targets.field, truths)):
                values = held.to_list()[number].copy()
                values[:, [0, 2]] = values[:, [0, 2]] @ turn.T
                moved.append(values)
            own = inputs.params[number].copy()
            own[1:] = turn @ own[1:]
            params.append(own)
            scalars.append(turn @ targets.scalars[number])
    return FieldSet(points, fields, params=np.array(params)), Targets(FieldSet(points, truths), np.array(scalars))


PARTS = {
    "input_vectors": [(0, 2)],
    "target_vectors": [(0, 2)],
    "param_vectors": [(1, 2)],
    "scalar_vectors": [(0, 1)],
}


def test_statistics_are_those_of_all_moved_samples():
    for ragged in [False, True]:
        for coords in ["box", "standard"]:
            inputs, targets = samples(ragged)
            symmetries = declared("triangle", **PARTS)
            found = Scalers.fit(inputs, targets, np.ones(3), ScalingOptions(coords=coords), symmetries)
            moved = all_images(inputs, targets, symmetries)
            expected = Scalers.fit(*moved, np.ones(18), ScalingOptions(coords=coords))
            for name in ("fields", "target", "params", "scalars"):
                own, other = getattr(found, name), getattr(expected, name)
                np.testing.assert_allclose([own.mean_, own.scale_], [other.mean_, other.scale_], rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(found.coords.lower_, expected.coords.lower_, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(found.coords.span_, expected.coords.span_, rtol=1e-10)


def test_the_box_of_any_angle_holds_every_draw():
    inputs, targets = samples(True)
    symmetries = PointSymmetries(["rotate"], [0.0, 3.0])
    scaler = Scalers.fit(inputs, targets, np.ones(3), ScalingOptions(), symmetries).coords
    loader_scalers = Scalers.fit(inputs, targets, np.ones(3), ScalingOptions(), symmetries)
    generator = torch.Generator().manual_seed(0)
    loader = FieldLoader(inputs, loader_scalers, symmetries=symmetries, generator=generator, **CPU)
    found = torch.cat([loader.gather(np.arange(3)).coords for _ in range(50)])
    assert found.min() > -0.01
    assert found.max() < 1.01
    radius = np.linalg.norm(inputs.coords - [0.0, 3.0], axis=1).max()
    np.testing.assert_allclose(scaler.span_, [2 * radius, 2 * radius], rtol=0.01)


@pytest.mark.parametrize("ragged", [False, True], ids=["uniform", "ragged"])
def test_batches_are_the_moved_samples(ragged):
    inputs, targets = samples(ragged)
    symmetries = declared("triangle", **PARTS)
    scalers = Scalers.fit(inputs, targets, np.ones(3), ScalingOptions(), symmetries)
    moved = all_images(inputs, targets, symmetries)
    plain = FieldLoader(*moved[:1], scalers, targets=moved[1], **CPU)
    for number in range(symmetries.order):
        loader = FieldLoader(inputs, scalers, targets=targets, symmetries=symmetries, element=number, **CPU)
        found, expected = loader.gather(np.arange(3)), plain.gather(3 * number + np.arange(3))
        for name in ("coords", "fields", "params", "target", "scalars"):
            own, other = getattr(found, name), getattr(expected, name)
            np.testing.assert_allclose(own.numpy(), other.numpy(), atol=1e-12, err_msg=name)
        back = loader.undo(found.target, found.scalars)
        start = FieldLoader(inputs, scalers, targets=targets, **CPU).gather(np.arange(3))
        np.testing.assert_allclose(back[0].numpy(), start.target.numpy(), atol=1e-12)
        np.testing.assert_allclose(back[1].numpy(), start.scalars.numpy(), atol=1e-12)


# ---------------------------------------------------------------- mistakes
WRONG = {
    "unknown name": (["mirror"], {}, "'mirror' does not exist for points with 2 coordinates.*flip_y.*mirrors="),
    "axis that is not there": (["flip_z"], {}, "'flip_z' does not exist"),
    "periodic shift": (["shift_x"], {}, "straight grid"),
    "zero normal": ([], {"mirrors": [((0, 0), (0, 0))]}, "normal of length zero"),
    "plane in space": ([], {"mirrors": [((0, 0, 0), (1, 0, 0))]}, "each of 2 numbers"),
    "normal alone": ([], {"mirrors": [(1, 0)]}, "is no plane"),
    "NaN in a plane": ([], {"mirrors": [((0, np.nan), (1, 0))]}, "expected"),
    "rotation of space": ([], {"rotations": [((0, 0), (0, 0, 1), 90)]}, "none in 2-D"),
    "angle in words": ([], {"rotations": [((0, 0), "right")]}, "angle in degrees or None"),
    "parallel planes": ([], {"mirrors": [((0, 0), (1, 0)), ((1, 0), (1, 0))]}, "parallel planes"),
    "odd angle": ([], {"rotations": [((0, 0), 100.1)]}, "divide 360"),
    "short vector": ([], {"input_vectors": [(0,)]}, "1 components; space with 2 coordinates needs 2"),
    "vector of space": ([], {"target_vectors": [(0, 1, 2)]}, "across the plane"),
    "tensor of space": ([], {"target_tensors": [(0, 1, 2, 3, 4, 5)]}, "6 components.*3 or 4: xx, yy, xy"),
    "channel twice": ([], {"input_tensors": [(0, 1, 1)]}, "different channels"),
}


def test_wrong_declarations_say_what_to_do():
    for name in WRONG:
        names, further, message = WRONG[name]
        with pytest.raises(FieldDataError, match=message):
            PointSymmetries(names, [1.0, 0.5], **further)


def test_two_rotations_by_any_angle_are_drawn_but_not_averaged():
    rotations = [((0, 0, 0), axis, None) for axis in ((0, 0, 1), (1, 0, 0))]
    symmetries = PointSymmetries([], [0, 0, 0], rotations=rotations)
    assert symmetries.draw(3, None)[0].shape == (3, 3, 3)
    with pytest.raises(FieldDataError, match="one rotation by any angle"):
        _ = symmetries.order


def test_rounding_of_a_plane_is_no_translation():
    planes = [((1.0 + 1e-12, 0), (1, 0))]
    assert PointSymmetries(["flip_x"], PLATE, mirrors=planes).order == 2
