"""AMO's networks: their parts in order, packed, query and chunked points, kinds of inputs and outputs, gradients."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch.nn.functional import gelu

from skop import AMORegressor
from skop.data import DataSpec, TargetForm
from skop.networks import AMOPointNetwork
from skop.parts import LatentTokens, LiteralExpansions

from .problems import AMO_GRID, AMO_POINTS, changed, coords_of, fields_on, make_amo

SIZES = (5, 1, 9)
ONCE = AMO_POINTS["latents"]
EACH_BLOCK = LatentTokens(n_tokens=6, n_heads=2, n_centred_heads=0, n_frequencies=0)
#: The forms of the network, of which each has code of its own.
FORMS = {
    "once": {},
    "once, own softmax, centres": {"latents__decoder": "own_softmax", "latents__n_centred_heads": 1},
    "sum": {"latents__aggregation": "sum"},
    "filter": {"mixer__transform": "filter", "mixer__scan_directions": "cross"},
    "literal": {"mixer": LiteralExpansions(max_radius=0.9)},
    "each block": {"latents": EACH_BLOCK, "latents__n_centred_heads": 1},
    "positions": {"latents__position_network": True, "latents__n_frequencies": 1},
}


def make_network(*, n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, dtype=torch.float64, **options):
    """A small network with every weight random, so that none can be forgotten."""
    torch.manual_seed(0)
    data = {"n_dims": n_dims, "n_fields": n_fields, "n_params": n_params}
    data |= {"n_outputs": n_outputs, "n_scalars": n_scalars}
    network = AMOPointNetwork(**data, **changed(AMO_POINTS, options)).to(dtype).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return network


def random(*shape, seed=1):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---------------------------------------------------------------- the parts in order
def read_and_transform(network, points, coords, aggregation):
    """Latent tokens and points after the one block of a network that reads them once, part by part."""
    (block,) = network.blocks
    _, masses, sums = block.encode(points, coords)
    tokens = block.gather((sums / masses[..., None]).transpose(1, 2).flatten(2))
    tokens = tokens + block.latent_mlp(tokens)  # Eq. 3
    tokens = block.transform.enter(tokens)  # Eq. 4
    found = [tokens]
    for inner in block.transform.blocks:
        tokens = tokens + inner.mixer(inner.norm_mixer(tokens))
        tokens = tokens + inner.mlp(inner.norm_mlp(tokens))
        found.append(tokens)
    latents = block.norm_latents(sum(found) if aggregation == "sum" else tokens)
    return block.decode(points, coords, latents), latents


def test_latent_tokens_read_the_points_once_and_all_blocks_transform_them():
    for aggregation, decoder in product(["last", "sum"], ["encoder_weights", "own_softmax"]):
        network = make_network(latents__decoder=decoder, latents__aggregation=aggregation, depth=3, n_scalars=2)
        coords, fields = random(2, 7, 2), random(2, 7, 1)
        assert len(network.blocks) == 1
        assert len(network.blocks[0].transform.blocks) == 3
        points = network.lifting(torch.cat([coords, fields], dim=-1)) + network.placeholder
        points, latents = read_and_transform(network, points, coords, aggregation)
        assert latents.shape == (2, 6, 8)
        field, scalars = network(coords, fields, None)
        torch.testing.assert_close(field, network.head(points))
        torch.testing.assert_close(scalars, network.scalar_head(points))


def test_points_and_latent_tokens_may_meet_in_each_block():
    network = make_network(latents=EACH_BLOCK, depth=3, latents__n_centred_heads=1)
    coords, fields = random(2, 7, 2), random(2, 7, 1)
    points = network.lifting(torch.cat([coords, fields], dim=-1)) + network.placeholder
    slices = network.latents
    assert len(network.blocks) == 3
    for block in network.blocks:
        assignment, sums, masses = slices.encode(block.norm_mixer(points), coords=coords)
        tokens = block.mixer(slices.tokens(sums, masses))
        points = points + block.out_projection(slices.decode(assignment, tokens))
        points = points + block.mlp(block.norm_mlp(points))
    torch.testing.assert_close(network(coords, fields, None).field, network.head(points))
    assert slices.log_sharpness.shape == (1,)
    assert slices.keys is None
    # Weights of points and tokens are the same in all blocks, and listed once.
    assert [name for name in network.state_dict() if name.endswith("temperature")] == ["latents.temperature"]


@pytest.mark.parametrize("latents", [ONCE, EACH_BLOCK], ids=["once", "each_block"])
def test_latent_tokens_stand_in_rows_where_directions_cross(latents):
    # 6 tokens are 2 rows of 3: a mixer with two axes takes no other grid.
    network = make_network(latents=latents, mixer__scan_directions="cross")
    inputs = random(2, 7, 2), random(2, 7, 1), None
    transform = network.blocks[0].transform if latents is ONCE else network.blocks[0].mixer
    assert transform.grid == (2, 3)
    assert len((transform.blocks[0] if latents is ONCE else transform).mixer.directions) == 4
    expected = network(*inputs).field
    transform.grid = (3, 2)
    assert not torch.allclose(network(*inputs).field, expected)


def test_dropout_acts_on_points_and_on_latent_tokens():
    points, tokens = random(1, 7, 8), random(1, 6, 8)
    once, each = (make_network(dropout=0.5, latents=latents).train() for latents in (ONCE, EACH_BLOCK))
    for change in (
        lambda: once.blocks[0](points, random(1, 7, 2))[0],
        lambda: once.blocks[0].transform.blocks[1](tokens, (6,)),
        lambda: each.blocks[1](points, random(1, 7, 2))[0],
    ):
        assert not torch.equal(change(), change())


def test_a_prime_number_of_tokens_is_one_row():
    assert make_network(mixer__scan_directions="corners", latents__n_tokens=7).blocks[0].transform.grid == (1, 7)


def test_coordinates_may_have_a_network_of_their_own():
    for n_frequencies, (n_fields, n_params) in product([0, 2], [(1, 2), (0, 0)]):
        options = {"n_fields": n_fields, "n_params": n_params, "latents__n_frequencies": n_frequencies}
        network = make_network(latents__position_network=True, **options)
        coords, fields, params = random(3, 7, 2), random(3, 7, 1), random(3, 2)
        angles = coords[..., None] * torch.pi * 2.0 ** torch.arange(n_frequencies)
        places = torch.cat([coords, angles.sin().flatten(-2), angles.cos().flatten(-2)], dim=-1)
        layers = network.lifting.positions
        points = layers.fc2(gelu(layers.fc1(places))) + network.placeholder
        if n_fields:
            others = torch.cat([fields, params[:, None].expand(-1, 7, -1)], dim=-1)
            points = points + others @ network.lifting.inputs.weight.T + network.lifting.inputs.bias
        points, _ = network.blocks[0](points, coords)
        found = network(coords, fields if n_fields else None, params if n_params else None)
        torch.testing.assert_close(found.field, network.head(points))


# ---------------------------------------------------------------- order, packing, queries, chunks


# ---------------------------------------------------------------- inputs and outputs


def test_meshes_in_one_to_three_dimensions():
    for grid, latents in product([(6,), (4, 3), (2, 3, 2)], [ONCE, EACH_BLOCK]):
        network = make_network(n_dims=len(grid), structured=True, latents=latents)
        assert network.needs_grid == (latents is EACH_BLOCK)
        coords, fields = coords_of(grid), fields_on(grid)
        found = network(coords, fields, None, grid).field
        assert found.shape == (2, len(coords), 1)
        # Only where points and tokens meet in each block do convolutions know the neighbours on the mesh.
        order = torch.randperm(len(coords), generator=torch.Generator().manual_seed(0))
        moved = network(coords[order], fields[:, order], None, grid).field
        assert torch.allclose(moved, found[:, order]) == (latents is ONCE)


# ---------------------------------------------------------------- precision and gradients


# ---------------------------------------------------------------- grids
def test_blocks_of_a_grid_have_mixers_of_their_own():
    network = make_amo((8, 6), depth=3, mixer__transform="filter", mixer__scan_directions="corners")
    mixers = [block.mixer for block in network.blocks]
    assert len({id(mixer) for mixer in mixers}) == 3
    assert all(mixer.transform == "filter" and len(mixer.directions) == 4 for mixer in mixers)


def test_a_coarse_and_a_fine_grid_share_their_coefficients():
    mixer = replace(AMO_GRID["mixer"], kernel_size=1, scan_directions="forward")
    # The factor 1 / L makes coefficients means over the tokens: of a constant field, they do not grow with the tokens.
    network = make_amo((8, 8), patches__positional_encoding=None, mixer=mixer, n_fields=0)
    found = []
    for grid in ((8, 8), (16, 16)):
        coords = torch.full((grid[0] * grid[1], 2), 0.5, dtype=torch.float64)
        found.append(network(coords, None, None, grid).field.mean())
    torch.testing.assert_close(found[0], found[1], rtol=1e-2, atol=1e-3)


# ---------------------------------------------------------------- the published network
def published(name, *sizes, geometry="grid", grid=(64, 64), **changes):
    model = AMORegressor.from_preset(name, **changes)
    spec = DataSpec("fieldset", "fields", TargetForm("fieldset"), *sizes, grid, geometry=geometry)
    torch.manual_seed(0)
    return model._build_network(spec, model._choose_geometry(spec))


def test_the_network_of_option_prices_has_the_published_number_of_parameters():
    # "1.21 M parameters": r, sigma, q, K, T and the kind of option at each point of a 64 x 64 grid, and one price.
    network = published("european_option", 2, 0, 6, 1)
    assert isinstance(network, AMOPointNetwork)
    count = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
    assert count == pytest.approx(1.21e6, rel=0.01)


def test_all_presets_read_grids_and_meshes_as_points():
    for name, sizes, geometry in (
        ("darcy", (2, 1, 0, 1), "grid"),
        ("airfoil", (2, 0, 0, 1), "structured"),
        ("elasticity", (2, 0, 0, 1), "points"),
    ):
        network = published(name, *sizes, geometry=geometry, grid=None if geometry == "points" else (9, 6))
        assert isinstance(network, AMOPointNetwork)
        assert not network.needs_grid


# ---------------------------------------------------------------- refusals
def test_names_and_sizes_that_do_not_exist_are_refused():
    for options, message in [
        ({"mixer": LiteralExpansions(), "latents": EACH_BLOCK}, "LiteralExpansions need .*; set LatentAttention too"),
        ({"latents__aggregation": "mean"}, "aggregation is 'mean'; expected 'last' or 'sum'"),
        ({"latents__decoder": "none"}, "decoder is 'none'"),
        ({"latents": EACH_BLOCK, "latents__decoder": "none"}, "decoder is 'none'"),
        ({"mixer__transform": "both"}, "'transform' parameter of TakenakaMalmquist must be .* Got 'both' instead"),
        ({"latents__n_heads": 3}, "n_heads=3 does not divide width=8"),
        ({"mixer__n_pole_heads": 3}, "n_pole_heads=3 does not divide the inner width 16"),
    ]:
        with pytest.raises(ValueError, match=message):
            make_network(**options)
