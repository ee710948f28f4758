"""The skeleton of the patch networks, with each of their mixers: channels, heads, positions, precision, gradients."""

import math
from functools import partial
from itertools import product

import pytest
import torch

from skop.networks import shift_patches

from .problems import coords_of, fields_on, make_amo, make_geomano, make_lamo

MAKERS = {
    "AMO": make_amo,
    "LaMO": make_lamo,
    "GeoMaNO, sequence": partial(make_geomano, mixer__recurrence="sequence", mixer__correction="learnable"),
    "GeoMaNO, grid": partial(make_geomano, mixer__recurrence="grid", mixer__correction="learnable"),
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def make_network(request):
    """Makes one of the networks for a grid."""
    return request.param


def test_any_grid_and_patch_in_one_to_three_dimensions(make_network):
    for grid, (size, conv_channels) in product(
        [(1,), (7,), (6, 5), (1, 4), (3, 4, 5), (1, 1, 1)], [(1, 0), (2, 0), (2, 2), (3, 2)]
    ):
        network = make_network(grid, n_outputs=3, n_scalars=2, patches__size=size, patches__conv_channels=conv_channels)
        field, scalars = network(coords_of(grid), fields_on(grid), None, grid)
        assert field.shape == (2, math.prod(grid), 3)
        assert scalars.shape == (2, 2)
        assert torch.isfinite(field).all()
        assert torch.isfinite(scalars).all()


def test_a_field_and_scalars_alone_are_those_of_both_together(make_network):
    grid = (5, 4)
    inputs = (coords_of(grid), fields_on(grid), None, grid)
    both = make_network(grid, n_outputs=3, n_scalars=2)
    for part, sizes in (("field", {"n_outputs": 3}), ("scalars", {"n_outputs": 0, "n_scalars": 2})):
        alone = make_network(grid, **sizes)
        alone.load_state_dict({name: both.state_dict()[name] for name in alone.state_dict()})
        outputs = alone(*inputs)
        torch.testing.assert_close(getattr(outputs, part), getattr(both(*inputs), part))
        assert sum(held is None for held in outputs) == 1


# ---------------------------------------------------------------- channels
def test_many_outputs_are_independent_of_each_other(make_network):
    """Frames of a transient are outputs: the last convolution is no bottleneck that mixes them from a few fields."""
    grid = (12, 12)
    for n_outputs, options in product((24, 42), ({"patches__conv_channels": "auto"}, {"patches__conv_channels": 0})):
        network = make_network(grid, n_outputs=n_outputs, width=42, **options)
        values = network(coords_of(grid), fields_on(grid), None, grid).field.flatten(0, 1)
        assert torch.linalg.matrix_rank(values - values.mean(0), rtol=1e-9) == n_outputs


def test_parameters_are_channels_repeated_on_every_point(make_network):
    grid = (4, 4)
    network = make_network(grid, n_fields=1, n_params=2)
    same = make_network(grid, n_fields=3)
    same.load_state_dict(network.state_dict())
    params = torch.tensor([[0.5, -1.0], [2.0, 0.1]], dtype=torch.float64)
    repeated = torch.cat([fields_on(grid), params[:, None].expand(-1, 16, -1)], dim=-1)
    expected = same(coords_of(grid), repeated, None, grid).field
    torch.testing.assert_close(network(coords_of(grid), fields_on(grid), params, grid).field, expected)


def test_a_learned_vector_stands_in_for_missing_fields_only(make_network):
    grid = (4, 4)
    geometry = make_network(grid, n_fields=0)
    own = coords_of(grid).expand(3, -1, -1)
    before = geometry(own, None, None, grid).field
    assert before.shape == (3, 16, 1)
    with torch.no_grad():
        geometry.placeholder.add_(1.0)
    assert (geometry(own, None, None, grid).field - before).abs().max() > 1e-6

    with_fields = make_network(grid)
    before = with_fields(coords_of(grid), fields_on(grid), None, grid).field
    with torch.no_grad():
        with_fields.placeholder.add_(1.0)
    assert torch.equal(with_fields(coords_of(grid), fields_on(grid), None, grid).field, before)


def test_shared_and_repeated_coordinates_are_the_same(make_network):
    grid = (5, 3)
    network = make_network(grid)
    shared = network(coords_of(grid), fields_on(grid), None, grid).field
    own = network(coords_of(grid).expand(2, -1, -1), fields_on(grid), None, grid).field
    torch.testing.assert_close(own, shared)


def test_samples_do_not_mix(make_network):
    grid = (5, 3)
    network = make_network(grid)
    fields = fields_on(grid, batch=3)
    together = network(coords_of(grid), fields, None, grid).field
    torch.testing.assert_close(network(coords_of(grid), fields[1:2], None, grid).field, together[1:2])


# ---------------------------------------------------------------- positions and other grids
def test_an_unknown_position_code_is_refused(make_network):
    with pytest.raises(ValueError, match=r"'positional_encoding' parameter of Patches must be .* Got 'table'"):
        make_network((4, 4), patches__positional_encoding="table")


def test_a_position_code_is_added_to_the_tokens(make_network):
    for positional_encoding in ["learned", "coordinates"]:
        grid = (4, 4)
        network, bare = (
            make_network(grid, patches__positional_encoding=positional_encoding),
            make_network(grid, patches__positional_encoding=None),
        )
        bare.load_state_dict({name: network.state_dict()[name] for name in bare.state_dict()})
        inputs = (coords_of(grid), fields_on(grid), None, grid)
        with torch.no_grad():
            for parameter in network.positional_encoding.parameters():
                parameter.zero_()
            assert torch.equal(network(*inputs).field, bare(*inputs).field)
            for parameter in network.positional_encoding.parameters():
                parameter.normal_()
            assert not torch.allclose(network(*inputs).field, bare(*inputs).field, rtol=1e-3)


def test_another_grid_works_unless_positions_were_learned(make_network):
    for positional_encoding, grid in product(["coordinates", None], [(5, 4), (16, 12), (9, 3), (2, 2)]):
        network = make_network((8, 6), patches__positional_encoding=positional_encoding)
        output = network(coords_of(grid), fields_on(grid), None, grid).field
        assert output.shape == (2, math.prod(grid), 1)
        assert torch.isfinite(output).all()


def test_learned_positions_belong_to_a_token_count(make_network):
    network = make_network((8, 6), patches__positional_encoding="learned")
    with pytest.raises(ValueError, match="fitted for 12 tokens and cannot serve 16"):
        network(coords_of((8, 8)), fields_on((8, 8)), None, (8, 8))


# ---------------------------------------------------------------- precision and gradients
def test_single_precision_agrees_with_double(make_network):
    grid = (8, 8)
    double = make_network(grid, depth=2)
    single = make_network(grid, depth=2, dtype=torch.float32)
    single.load_state_dict(double.state_dict())
    expected = double(coords_of(grid), fields_on(grid), None, grid).field
    output = single(coords_of(grid).float(), fields_on(grid).float(), None, grid).field
    assert (output - expected).abs().max() < 1e-5 * expected.abs().max()


def test_autocast_stays_near_full_precision(make_network):
    grid = (8, 8)
    network = make_network(grid, dtype=torch.float32)
    inputs = (coords_of(grid).float(), fields_on(grid).float(), None, grid)
    with torch.autocast("cpu", torch.bfloat16):
        low = network(*inputs).field
    full = network(*inputs).field
    assert (low.float() - full).abs().max() < 0.05 * full.abs().max()


@pytest.mark.parametrize("grid", [(5,), (3, 4), (2, 3, 2)])
def test_gradients_of_inputs_and_weights(make_network, grid):
    network = make_network(grid, width=4, n_params=1, patches__positional_encoding="coordinates")
    names, values = zip(*(item for item in network.named_parameters() if item[0] != "placeholder"), strict=True)
    fields = fields_on(grid, batch=1).requires_grad_()
    coords = coords_of(grid).requires_grad_()
    params = torch.tensor([[0.3]], dtype=torch.float64, requires_grad=True)

    def run(coords, fields, params, *parameters):
        weights = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(network, weights, (coords, fields, params, grid)).field

    assert torch.autograd.gradcheck(run, (coords, fields, params, *values), fast_mode=True)


def test_every_weight_is_used(make_network):
    for options in [
        {"n_outputs": 0, "n_scalars": 1},
        {"patches__positional_encoding": "learned"},
        {"patches__conv_channels": 2},
    ]:
        network = make_network((4, 4), n_params=1, depth=2, **options)
        params = torch.ones(2, 1, dtype=torch.float64)
        outputs = network(coords_of((4, 4)), fields_on((4, 4)), params, (4, 4))
        next(part for part in outputs if part is not None).square().sum().backward()
        unused = [name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()]
        assert unused == ["placeholder"]


# ---------------------------------------------------------------- the contract
def test_what_a_patch_network_does_not_support_is_refused(make_network):
    network, coords, fields = make_network((3, 2)), coords_of((3, 2)), fields_on((3, 2))
    assert network.needs_grid
    assert not network.supports_packed
    assert not network.supports_queries
    with pytest.raises(ValueError, match=r"got packed samples, which it does not support"):
        network(coords, fields[0], None, (3, 2), sizes=(2, 4))
    with pytest.raises(ValueError, match=r"got query points, which it does not support"):
        network(coords, fields, None, (3, 2), query_coords=coords, query_fields=fields)
    for grid in (None, (2, 2)):
        with pytest.raises(ValueError, match=r"needs the grid of its points, but grid_shape is .* for 6 points"):
            network(coords, fields, None, grid)


# ---------------------------------------------------------------------- shifted patches
@pytest.mark.parametrize(("grid", "size"), [((6,), 3), ((5, 4), 2), ((3, 4, 2), 2)])
def test_shifted_patches_are_those_of_a_grid_with_zeros_before_it(make_network, grid, size, monkeypatch):
    """The offset 1 along each axis. Tokens have no positions, so that inputs of zeros are all that a point adds."""
    # A lifting makes other numbers of zeros, before which patches are padded.
    plain = {} if make_network in (make_amo, make_lamo) else {"patches__lifting_width": 0}
    network = make_network(grid, patches__size=size, patches__positional_encoding=None, **plain).train()
    assert shift_patches(network, True) == 1
    monkeypatch.setattr(torch, "randint", lambda high, size: torch.ones(size, dtype=torch.int64))
    coords, fields = coords_of(grid), fields_on(grid)
    shifted = network(coords, fields, None, grid).field
    before = [0, 0, *(1, 0) * len(grid)]
    larger = [
        torch.nn.functional.pad(part.unflatten(-2, grid), before).flatten(-1 - len(grid), -2)
        for part in (coords, fields)
    ]
    expected = network.eval()(*larger, None, tuple(size + 1 for size in grid)).field
    expected = expected.unflatten(1, [size + 1 for size in grid])[(slice(None), *[slice(1, None)] * len(grid))]
    torch.testing.assert_close(shifted, expected.flatten(1, -2))


def test_shifted_patches_have_the_positions_of_their_first_points_on_the_grid(monkeypatch):
    network = make_lamo((5,), patches__size=2).train()
    shift_patches(network, True)
    monkeypatch.setattr(torch, "randint", lambda high, size: torch.ones(size, dtype=torch.int64))
    positions = []
    network.positional_encoding.register_forward_pre_hook(lambda module, inputs: positions.append(inputs[0]))
    coords = coords_of((5,))
    network(coords, fields_on((5,)), None, (5,))
    torch.testing.assert_close(positions[0].reshape(-1), coords.reshape(-1)[[0, 1, 3]])


def test_patches_begin_at_every_point_in_training_and_with_the_grid_otherwise():
    torch.manual_seed(0)
    network = make_lamo((6, 4), patches__size=3).train()
    assert (network._draw_offset(), torch.initial_seed()) == ((0, 0), 0)
    random_state = torch.get_rng_state()
    shift_patches(network, True)
    assert network.eval()._draw_offset() == (0, 0)
    assert torch.equal(torch.get_rng_state(), random_state)
    drawn = [network.train()._draw_offset() for _ in range(900)]
    counts = [drawn.count((row, column)) for row in range(3) for column in range(3)]
    # 100 in the mean each: 50 is five standard deviations from it.
    assert sum(counts) == 900
    assert max(abs(count - 100) for count in counts) < 50


@pytest.mark.parametrize("changes", [{"patches__size": 1}, {"patches__positional_encoding": "learned"}])
def test_patches_of_one_point_and_a_fixed_number_of_tokens_stay(changes):
    assert shift_patches(make_lamo((6, 4), **changes), True) == 0
