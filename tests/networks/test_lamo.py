"""LaMO's patch network: its parts in order, its channels, other grids, precision, gradients."""

import math

import numpy as np
import pytest
import torch

from skop.data import unit_grid
from skop.networks import LaMOPatchNetwork


def make_network(grid, *, n_fields=1, n_params=0, n_outputs=1, seed=0, dtype=torch.float64, **options):
    torch.manual_seed(seed)
    sizes = {"width": 8, "depth": 1, "d_state": 2, "position": "coordinates", "unit_normal_patches": False}
    return LaMOPatchNetwork(len(grid), n_fields, n_params, n_outputs, grid, **(sizes | options)).to(dtype).eval()


def coords_of(grid):
    return torch.from_numpy(unit_grid(grid))


def fields_on(grid, batch=2, channels=1):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, math.prod(grid), channels, generator=generator, dtype=torch.float64)


def count(network):
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("width", "heads", "grid", "n_fields", "published"),
    [(64, 4, (85, 85), 1, 1_145_986), (256, 16, (64, 64), 10, 10_061_314)],
)
def test_parameter_counts_are_those_of_the_public_code(width, heads, grid, n_fields, published):
    network = LaMOPatchNetwork(2, n_fields, 0, 1, grid, width=width, n_heads=heads, grid_multiple=8)
    assert count(network) == published


def test_parameter_count_from_the_formulas():
    width, inner, paths, heads, states, hidden = 8, 16, 4, 1, 2, 32
    mixer = width * 2 * inner + 9 * inner + inner + inner * paths * (heads + 2 * states)
    mixer += 2 * paths * heads + paths * inner + 2 * inner + inner * width
    block = 4 * width + mixer + width * hidden + hidden + hidden * width + width
    embedding = (3 * 4) * width + width + 2 * width
    head = 2 * width + width + width * 4
    table = 4 * width
    network = make_network((4, 4), depth=3, position="learned")
    assert count(network) == embedding + 3 * block + head + table + 2


def test_the_parts_follow_each_other_as_in_the_paper():
    grid = (5, 4)
    network = make_network(grid)
    coords, fields = coords_of(grid), fields_on(grid)
    image = torch.cat([coords.expand(2, -1, -1), fields], dim=-1).reshape(2, 5, 4, 3)
    tokens = network.embedding(image, (3, 2))
    corners = coords.reshape(5, 4, 2)[::2, ::2].reshape(6, 2)
    tokens = tokens + network.position(corners)
    for block in network.blocks:
        tokens = block(tokens, (3, 2))
    expected = network.head(tokens, (3, 2), grid).reshape(2, 20, 1)
    torch.testing.assert_close(network(coords, fields, None, grid), expected)


@pytest.mark.parametrize("grid", [(1,), (7,), (6, 5), (1, 4), (3, 4, 5), (1, 1, 1)])
@pytest.mark.parametrize("patch_size", [1, 2, 3])
@pytest.mark.parametrize("local_features", [0, 2])
def test_any_grid_and_patch_in_one_to_three_dimensions(grid, patch_size, local_features):
    network = make_network(grid, n_outputs=3, n_scalars=2, patch_size=patch_size, local_features=local_features)
    field, scalars = network(coords_of(grid), fields_on(grid), None, grid)
    assert field.shape == (2, math.prod(grid), 3)
    assert scalars.shape == (2, 1, 2)
    assert torch.isfinite(field).all()
    assert torch.isfinite(scalars).all()


def test_a_field_and_scalars_alone_are_those_of_both_together():
    grid = (5, 4)
    inputs = (coords_of(grid), fields_on(grid), None, grid)
    both = make_network(grid, n_outputs=3, n_scalars=2)
    for sizes, expected in zip(({"n_outputs": 3}, {"n_outputs": 0, "n_scalars": 2}), both(*inputs), strict=True):
        alone = make_network(grid, **sizes)
        alone.load_state_dict({name: both.state_dict()[name] for name in alone.state_dict()})
        torch.testing.assert_close(alone(*inputs), expected)


# ---------------------------------------------------------------- channels
def test_parameters_are_channels_repeated_on_every_point():
    grid = (4, 4)
    network = make_network(grid, n_fields=1, n_params=2)
    same = make_network(grid, n_fields=3)
    same.load_state_dict(network.state_dict())
    params = torch.tensor([[0.5, -1.0], [2.0, 0.1]], dtype=torch.float64)
    repeated = torch.cat([fields_on(grid), params[:, None].expand(-1, 16, -1)], dim=-1)
    expected = same(coords_of(grid), repeated, None, grid)
    torch.testing.assert_close(network(coords_of(grid), fields_on(grid), params, grid), expected)


def test_a_learned_vector_stands_in_for_missing_fields_only():
    grid = (4, 4)
    geometry = make_network(grid, n_fields=0)
    own = coords_of(grid).expand(3, -1, -1)
    before = geometry(own, None, None, grid)
    assert before.shape == (3, 16, 1)
    with torch.no_grad():
        geometry.placeholder.add_(1.0)
    assert (geometry(own, None, None, grid) - before).abs().max() > 1e-6

    with_fields = make_network(grid)
    before = with_fields(coords_of(grid), fields_on(grid), None, grid)
    with torch.no_grad():
        with_fields.placeholder.add_(1.0)
    assert torch.equal(with_fields(coords_of(grid), fields_on(grid), None, grid), before)


def test_shared_and_repeated_coordinates_are_the_same():
    grid = (5, 3)
    network = make_network(grid)
    shared = network(coords_of(grid), fields_on(grid), None, grid)
    own = network(coords_of(grid).expand(2, -1, -1), fields_on(grid), None, grid)
    torch.testing.assert_close(own, shared)


def test_samples_do_not_mix():
    grid = (5, 3)
    network = make_network(grid)
    fields = fields_on(grid, batch=3)
    together = network(coords_of(grid), fields, None, grid)
    torch.testing.assert_close(network(coords_of(grid), fields[1:2], None, grid), together[1:2])


# ---------------------------------------------------------------- other grids
@pytest.mark.parametrize("position", ["coordinates", None])
@pytest.mark.parametrize("grid", [(5, 4), (16, 12), (9, 3), (2, 2)])
def test_another_grid_works_unless_positions_were_learned(position, grid):
    network = make_network((8, 6), position=position)
    output = network(coords_of(grid), fields_on(grid), None, grid)
    assert output.shape == (2, math.prod(grid), 1)
    assert torch.isfinite(output).all()


def test_learned_positions_belong_to_a_token_count():
    network = make_network((8, 6), position="learned")
    with pytest.raises(ValueError, match="fitted for 12 tokens and cannot serve 16"):
        network(coords_of((8, 8)), fields_on((8, 8)), None, (8, 8))


def test_tokens_of_padding_take_the_last_point_of_their_axis():
    network = make_network((4, 4), grid_multiple=4)
    coords = coords_of((5, 4)).reshape(5, 4, 2)
    corners = network._corners(coords.reshape(20, 2), (5, 4), (4, 2)).reshape(4, 2, 2)
    np.testing.assert_array_equal(corners[:, 0, 0], coords[[0, 2, 4, 4], 0, 0])
    np.testing.assert_array_equal(corners[0, :, 1], coords[0, [0, 2], 1])


def test_transposing_the_problem_transposes_the_answer():
    # With one weight for all paths, no positions, and kernels and patches that do not know their axes.
    network = make_network((6, 4), path_weights="shared", position=None, patch_size=1)
    with torch.no_grad():
        for block in network.blocks:
            block.mixer.convolution.weight.add_(block.mixer.convolution.weight.mT.clone())
        network.embedding.linear.weight[:, 0] = network.embedding.linear.weight[:, 1]
    fields = fields_on((6, 4))
    answer = network(coords_of((6, 4)), fields, None, (6, 4)).reshape(2, 6, 4)
    transposed = fields.reshape(2, 6, 4).mT.reshape(2, 24, 1)
    torch.testing.assert_close(network(coords_of((4, 6)), transposed, None, (4, 6)).reshape(2, 4, 6), answer.mT)


# ---------------------------------------------------------------- precision and gradients
def test_single_precision_agrees_with_double():
    grid = (8, 8)
    double = make_network(grid, depth=2)
    single = make_network(grid, depth=2, dtype=torch.float32)
    single.load_state_dict(double.state_dict())
    expected = double(coords_of(grid), fields_on(grid), None, grid)
    output = single(coords_of(grid).float(), fields_on(grid).float(), None, grid)
    assert (output - expected).abs().max() < 1e-5 * expected.abs().max()


def test_autocast_stays_near_full_precision():
    grid = (8, 8)
    network = make_network(grid, dtype=torch.float32)
    inputs = (coords_of(grid).float(), fields_on(grid).float(), None, grid)
    with torch.autocast("cpu", torch.bfloat16):
        low = network(*inputs)
    full = network(*inputs)
    assert (low.float() - full).abs().max() < 0.05 * full.abs().max()


@pytest.mark.parametrize("grid", [(5,), (3, 4), (2, 3, 2)])
def test_gradients_of_inputs_and_weights(grid):
    network = make_network(grid, width=4, n_heads=2, n_params=1)
    names, values = zip(*(item for item in network.named_parameters() if item[0] != "placeholder"), strict=True)
    fields = fields_on(grid, batch=1).requires_grad_()
    coords = coords_of(grid).requires_grad_()
    params = torch.tensor([[0.3]], dtype=torch.float64, requires_grad=True)

    def run(coords, fields, params, *parameters):
        weights = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(network, weights, (coords, fields, params, grid))

    assert torch.autograd.gradcheck(run, (coords, fields, params, *values), fast_mode=True)


def test_every_weight_is_used():
    for options in ({"n_outputs": 0, "n_scalars": 1}, {"position": "learned"}, {"path_weights": "shared"}):
        network = make_network((4, 4), n_params=1, depth=2, **options)
        params = torch.ones(2, 1, dtype=torch.float64)
        network(coords_of((4, 4)), fields_on((4, 4)), params, (4, 4)).square().sum().backward()
        unused = [name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()]
        assert unused == ["placeholder"]
