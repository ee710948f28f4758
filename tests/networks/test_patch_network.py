"""The skeleton of the patch networks, with each of their mixers: channels, heads, positions, precision, gradients."""

import math
from functools import partial

import pytest
import torch

from .problems import coords_of, fields_on, make_geomano, make_lamo

MAKERS = {
    "LaMO": make_lamo,
    "GeoMaNO, sequence": partial(make_geomano, recurrence="sequence", correction="learnable"),
    "GeoMaNO, grid": partial(make_geomano, recurrence="grid", correction="learnable"),
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def make_network(request):
    """Makes one of the networks for a grid."""
    return request.param


@pytest.mark.parametrize("grid", [(1,), (7,), (6, 5), (1, 4), (3, 4, 5), (1, 1, 1)])
@pytest.mark.parametrize(("patch_size", "local_features"), [(1, 0), (2, 0), (2, 2), (3, 2)])
def test_any_grid_and_patch_in_one_to_three_dimensions(make_network, grid, patch_size, local_features):
    network = make_network(grid, n_outputs=3, n_scalars=2, patch_size=patch_size, local_features=local_features)
    field, scalars = network(coords_of(grid), fields_on(grid), None, grid)
    assert field.shape == (2, math.prod(grid), 3)
    assert scalars.shape == (2, 1, 2)
    assert torch.isfinite(field).all()
    assert torch.isfinite(scalars).all()


def test_a_field_and_scalars_alone_are_those_of_both_together(make_network):
    grid = (5, 4)
    inputs = (coords_of(grid), fields_on(grid), None, grid)
    both = make_network(grid, n_outputs=3, n_scalars=2)
    for sizes, expected in zip(({"n_outputs": 3}, {"n_outputs": 0, "n_scalars": 2}), both(*inputs), strict=True):
        alone = make_network(grid, **sizes)
        alone.load_state_dict({name: both.state_dict()[name] for name in alone.state_dict()})
        torch.testing.assert_close(alone(*inputs), expected)


# ---------------------------------------------------------------- channels
def test_parameters_are_channels_repeated_on_every_point(make_network):
    grid = (4, 4)
    network = make_network(grid, n_fields=1, n_params=2)
    same = make_network(grid, n_fields=3)
    same.load_state_dict(network.state_dict())
    params = torch.tensor([[0.5, -1.0], [2.0, 0.1]], dtype=torch.float64)
    repeated = torch.cat([fields_on(grid), params[:, None].expand(-1, 16, -1)], dim=-1)
    expected = same(coords_of(grid), repeated, None, grid)
    torch.testing.assert_close(network(coords_of(grid), fields_on(grid), params, grid), expected)


def test_a_learned_vector_stands_in_for_missing_fields_only(make_network):
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


def test_shared_and_repeated_coordinates_are_the_same(make_network):
    grid = (5, 3)
    network = make_network(grid)
    shared = network(coords_of(grid), fields_on(grid), None, grid)
    own = network(coords_of(grid).expand(2, -1, -1), fields_on(grid), None, grid)
    torch.testing.assert_close(own, shared)


def test_samples_do_not_mix(make_network):
    grid = (5, 3)
    network = make_network(grid)
    fields = fields_on(grid, batch=3)
    together = network(coords_of(grid), fields, None, grid)
    torch.testing.assert_close(network(coords_of(grid), fields[1:2], None, grid), together[1:2])


# ---------------------------------------------------------------- positions and other grids
def test_an_unknown_position_code_is_refused(make_network):
    with pytest.raises(ValueError, match=r"position is 'table'; expected 'learned', 'coordinates' or None"):
        make_network((4, 4), position="table")


@pytest.mark.parametrize("position", ["learned", "coordinates"])
def test_a_position_code_is_added_to_the_tokens(make_network, position):
    grid = (4, 4)
    network, bare = make_network(grid, position=position), make_network(grid, position=None)
    bare.load_state_dict({name: network.state_dict()[name] for name in bare.state_dict()})
    inputs = (coords_of(grid), fields_on(grid), None, grid)
    with torch.no_grad():
        for parameter in network.position.parameters():
            parameter.zero_()
        assert torch.equal(network(*inputs), bare(*inputs))
        for parameter in network.position.parameters():
            parameter.normal_()
        assert not torch.allclose(network(*inputs), bare(*inputs), rtol=1e-3)


@pytest.mark.parametrize("position", ["coordinates", None])
@pytest.mark.parametrize("grid", [(5, 4), (16, 12), (9, 3), (2, 2)])
def test_another_grid_works_unless_positions_were_learned(make_network, position, grid):
    network = make_network((8, 6), position=position)
    output = network(coords_of(grid), fields_on(grid), None, grid)
    assert output.shape == (2, math.prod(grid), 1)
    assert torch.isfinite(output).all()


def test_learned_positions_belong_to_a_token_count(make_network):
    network = make_network((8, 6), position="learned")
    with pytest.raises(ValueError, match="fitted for 12 tokens and cannot serve 16"):
        network(coords_of((8, 8)), fields_on((8, 8)), None, (8, 8))


# ---------------------------------------------------------------- precision and gradients
def test_single_precision_agrees_with_double(make_network):
    grid = (8, 8)
    double = make_network(grid, depth=2)
    single = make_network(grid, depth=2, dtype=torch.float32)
    single.load_state_dict(double.state_dict())
    expected = double(coords_of(grid), fields_on(grid), None, grid)
    output = single(coords_of(grid).float(), fields_on(grid).float(), None, grid)
    assert (output - expected).abs().max() < 1e-5 * expected.abs().max()


def test_autocast_stays_near_full_precision(make_network):
    grid = (8, 8)
    network = make_network(grid, dtype=torch.float32)
    inputs = (coords_of(grid).float(), fields_on(grid).float(), None, grid)
    with torch.autocast("cpu", torch.bfloat16):
        low = network(*inputs)
    full = network(*inputs)
    assert (low.float() - full).abs().max() < 0.05 * full.abs().max()


@pytest.mark.parametrize("grid", [(5,), (3, 4), (2, 3, 2)])
def test_gradients_of_inputs_and_weights(make_network, grid):
    network = make_network(grid, width=4, n_params=1, position="coordinates")
    names, values = zip(*(item for item in network.named_parameters() if item[0] != "placeholder"), strict=True)
    fields = fields_on(grid, batch=1).requires_grad_()
    coords = coords_of(grid).requires_grad_()
    params = torch.tensor([[0.3]], dtype=torch.float64, requires_grad=True)

    def run(coords, fields, params, *parameters):
        weights = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(network, weights, (coords, fields, params, grid))

    assert torch.autograd.gradcheck(run, (coords, fields, params, *values), fast_mode=True)


@pytest.mark.parametrize(
    "options", [{"n_outputs": 0, "n_scalars": 1}, {"position": "learned"}, {"local_features": 2}], ids=str
)
def test_every_weight_is_used(make_network, options):
    network = make_network((4, 4), n_params=1, depth=2, **options)
    params = torch.ones(2, 1, dtype=torch.float64)
    network(coords_of((4, 4)), fields_on((4, 4)), params, (4, 4)).square().sum().backward()
    unused = [name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert unused == ["placeholder"]
