"""LaMO's network of points: its parts in order, packed, query and chunked points, meshes, precision, gradients."""

import copy
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from skop import LaMORegressor
from skop.data import DataSpec, TargetForm, unit_grid
from skop.networks import LaMOPointNetwork
from skop.parts import Mamba2

from .problems import LAMO_POINTS, MIXERS, changed

SIZES = (5, 1, 9)
HYDRA, MAMBA2 = LAMO_POINTS["mixer"], Mamba2(d_state=2, n_heads=2)


def make_network(*, n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, seed=0, dtype=torch.float64, **options):
    """A small network with every weight random, so that none can be forgotten."""
    torch.manual_seed(seed)
    data = {
        "n_dims": n_dims,
        "n_fields": n_fields,
        "n_params": n_params,
        "n_outputs": n_outputs,
        "n_scalars": n_scalars,
    }
    network = LaMOPointNetwork(**data, **changed(LAMO_POINTS, options)).to(dtype).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return network


def random(*shape, seed=1):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def count(network):
    return sum(parameter.numel() for parameter in network.parameters())


# ---------------------------------------------------------------- the paper's networks
PUBLISHED = {
    "elasticity": ((2, 0, 0, 1), 1_953_577),
    "plasticity": ((2, 1, 1, 4), 3_791_044),
    "airfoil": ((2, 0, 0, 1), 1_144_825),
    "pipe": ((2, 0, 0, 1), 4_020_545),
}


def published_network(name):
    model, (n_dims, *sizes) = LaMORegressor.from_preset(name), PUBLISHED[name][0]
    geometry, grid = ("points", None) if name == "elasticity" else ("structured", (9, 6))
    spec = DataSpec("fieldset", "fields", TargetForm("fieldset"), n_dims, *sizes, grid, geometry=geometry)
    torch.manual_seed(0)
    return model._build_network(spec, model._choose_geometry(spec))


def test_parameter_counts_are_those_of_the_public_code():
    for name in PUBLISHED:
        assert count(published_network(name)) == PUBLISHED[name][1]


@pytest.mark.parametrize("name", ["elasticity", "pipe"])
def test_start_values_are_those_of_the_public_code(name):
    network = published_network(name)
    shared = len(network.latents) == 1
    spared = set(network.latents.modules()) if shared else set()
    for module in network.modules():
        if isinstance(module, nn.Linear) and module not in spared and module.weight.numel() > 1000:
            assert abs(module.weight.std() - 0.02) < 0.002
            assert module.bias is None or not module.bias.any()
    scores = network.latents[0].scores.weight
    gram = scores.T @ scores
    assert torch.allclose(gram, torch.eye(16), atol=1e-5) == shared
    assert ((network.placeholder >= 0) & (network.placeholder <= 1 / 128)).all()


def test_larger_start_weights_are_those_of_pytorch():
    torch.manual_seed(0)
    data = {"n_dims": 2, "n_fields": 0, "n_params": 0, "n_outputs": 1, "n_scalars": 0, "width": 64}
    plain = LaMOPointNetwork(**changed(LAMO_POINTS, data | {"latents__weight_init": "default"}))
    assert abs(plain.blocks[0].mlp.fc1.weight.std() - 1 / (3 * 64) ** 0.5) < 0.005


def test_the_parts_follow_each_other_as_in_the_paper():
    network = make_network(n_scalars=2)
    coords, fields = random(7, 2), random(2, 7, 1)
    points = network.lifting(torch.cat([coords.expand(2, -1, -1), fields], dim=-1)) + network.placeholder
    slices = network.latents[0]
    for block in network.blocks:
        assignment, sums, masses = slices.encode(block.norm_mixer(points))
        tokens = block.mixer(slices.tokens(sums, masses))
        middle = points + block.out_projection(slices.decode(assignment, tokens))
        points = middle + block.mlp(block.norm_mlp(middle))
    field, scalars = network(coords, fields, None)
    torch.testing.assert_close(field, network.head(points))
    torch.testing.assert_close(scalars, network.scalar_head(points))


def test_blocks_share_their_slices_or_have_their_own():
    shared, own = make_network(depth=3), make_network(depth=3, latents__shared=False)
    assert len({id(block.latents) for block in shared.blocks}) == len(shared.latents) == 1
    assert len({id(block.latents) for block in own.blocks}) == len(own.latents) == 3
    # They are listed once, as the network's, and a copy shares its own.
    assert [name for name in shared.state_dict() if "temperature" in name] == ["latents.0.temperature"]
    copied = copy.deepcopy(shared)
    assert all(block.latents is copied.latents[0] for block in copied.blocks)
    assert copied.latents[0] is not shared.latents[0]


# ---------------------------------------------------------------- inputs
def test_a_learned_vector_stands_in_for_the_field_of_a_mesh_and_is_always_there_for_points():
    coords, fields = random(6, 2), random(2, 6, 1)
    for structured, n_fields, used in ((False, 1, True), (False, 0, True), (True, 1, False), (True, 0, True)):
        network = make_network(structured=structured, n_fields=n_fields)
        inputs = (coords.expand(2, -1, -1), fields if n_fields else None, None, (2, 3))
        before = network(*inputs).field
        with torch.no_grad():
            network.placeholder[0] += 1
        assert torch.equal(network(*inputs).field, before) != used


def test_parameters_are_channels_repeated_on_every_point():
    network, same = make_network(n_params=2), make_network(n_fields=3)
    same.load_state_dict(network.state_dict())
    coords, fields, params = random(6, 2), random(3, 6, 1), random(3, 2)
    repeated = torch.cat([fields, params[:, None].expand(-1, 6, -1)], dim=-1)
    torch.testing.assert_close(network(coords, fields, params).field, same(coords, repeated, None).field)


def test_a_sinusoidal_parameter_is_a_vector_on_every_point():
    network, plain = make_network(n_params=1, latents__parameter_embedding="sinusoidal"), make_network()
    plain.load_state_dict(network.state_dict(), strict=False)
    coords, fields, time = random(6, 2), random(1, 6, 1), 0.3
    waves = [time / 10_000 ** (k / 4) for k in range(4)]
    waves = torch.tensor([*np.cos(waves), *np.sin(waves)], dtype=torch.float64)
    vector = network.parameter_embedding.fc2(nn.functional.silu(network.parameter_embedding.fc1(waves)))
    with torch.no_grad():
        plain.placeholder.add_(vector)
    found = network(coords, fields, torch.tensor([[time]], dtype=torch.float64)).field
    torch.testing.assert_close(found, plain(coords, fields, None).field)


def test_waves_of_the_coordinates_stand_beside_them():
    network, same = make_network(n_dims=1, latents__n_frequencies=2), make_network(n_dims=5)
    same.load_state_dict(network.state_dict())
    coords, fields = random(6, 1), random(1, 6, 1)
    angles = torch.pi * coords * torch.tensor([1.0, 2.0])
    waves = torch.cat([coords, angles.sin(), angles.cos()], dim=-1)
    torch.testing.assert_close(network(coords, fields, None).field, same(waves, fields, None).field)


# ---------------------------------------------------------------- order, packing, queries, chunks


def test_one_sample_in_one_chunk_is_exactly_the_plain_path():
    network = make_network(n_scalars=1)
    inputs = (random(1, 9, 2), random(1, 9, 1), None)
    expected = network(*inputs)
    with torch.no_grad():
        found = network._sample_in_chunks(*inputs, None, None)
    assert all(torch.equal(part, whole) for part, whole in zip(found, expected, strict=True))


def test_chunks_bound_the_memory_of_a_sample():
    network = make_network(n_fields=0)
    network.chunk_size, largest = 10, 0

    def watch(module, inputs, output):
        nonlocal largest
        largest = max(largest, *(part.numel() // 8 for part in (*inputs, output) if isinstance(part, torch.Tensor)))

    for module in network.modules():
        if isinstance(module, nn.Linear | nn.LayerNorm):
            module.register_forward_hook(watch)
    with torch.no_grad():
        network(random(500, 2), None, None)
    assert 10 <= largest <= 2 * 10


# ---------------------------------------------------------------- meshes
def test_meshes_in_one_to_three_dimensions():
    for grid, mixer in product([(6,), (4, 3), (2, 3, 2)], MIXERS):
        network = make_network(n_dims=len(grid), structured=True, mixer=mixer, n_scalars=1)
        coords = torch.from_numpy(unit_grid(grid))
        field, scalars = network(coords, random(2, len(coords), 1), None, grid)
        assert field.shape == (2, len(coords), 1)
        assert scalars.shape == (2, 1)


def test_neighbours_matter_on_a_mesh_only():
    coords, fields = random(1, 12, 2), random(1, 12, 1)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    for structured in (False, True):
        network = make_network(structured=structured)
        moved = network(coords[:, order], fields[:, order], None, (4, 3)).field
        same = torch.allclose(moved, network(coords, fields, None, (4, 3)).field[:, order])
        assert same != structured


# ---------------------------------------------------------------- precision and gradients


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mixer": MAMBA2},
        {"structured": True},
        {"sizes": (2, 4)},
        {"latents__n_centred_heads": 2},
    ],
)
def test_gradients_of_inputs_and_weights(options):
    sizes = options.pop("sizes", None)
    network = make_network(width=4, depth=1, n_params=1, **options)
    unused = {"placeholder"} if network.structured else set()
    names, values = zip(*(item for item in network.named_parameters() if item[0] not in unused), strict=True)
    shape = (6,) if sizes else (2, 6)
    coords, fields = random(*shape, 2).requires_grad_(), random(*shape, 1).requires_grad_()
    params = random(2, 1).requires_grad_()

    def run(coords, fields, params, *parameters):
        weights = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(network, weights, (coords, fields, params, (2, 3), sizes)).field

    assert torch.autograd.gradcheck(run, (coords, fields, params, *values), fast_mode=True)


# ---------------------------------------------------------------- refusals
def test_arguments_that_do_not_fit_are_refused():
    points, mesh = make_network(), make_network(structured=True)
    coords, fields = random(6, 2), random(1, 6, 1)
    with pytest.raises(ValueError, match="packed samples, which it does not support"):
        mesh(coords, fields[0], None, (2, 3), sizes=(2, 4))
    with pytest.raises(ValueError, match="query points, which it does not support"):
        mesh(coords, fields, None, (2, 3), query_coords=coords, query_fields=fields)
    with pytest.raises(ValueError, match="needs the grid of its points, but grid_shape is None for 6 points"):
        mesh(coords, fields, None)
    with pytest.raises(ValueError, match="grid_shape is \\(2, 2\\)"):
        mesh(coords, fields, None, (2, 2))
    with pytest.raises(ValueError, match="add up to 5 points of 6"):
        points(coords, fields[0], None, sizes=(2, 3))
    with pytest.raises(ValueError, match="at least one point for each sample"):
        points(coords, fields[0], None, sizes=(6, 0))
    with pytest.raises(ValueError, match="no query points"):
        points(coords, fields[0], None, sizes=(2, 4), query_coords=coords)
    with pytest.raises(ValueError, match="fields and query_fields belong together"):
        points(coords, fields, None, query_coords=coords)


def test_names_and_sizes_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="parameter_embedding is 'table'"):
        make_network(latents__parameter_embedding="table")
    with pytest.raises(ValueError, match="n_centred_heads=3"):
        make_network(latents__n_centred_heads=3)
    with pytest.raises(ValueError, match="a structured mesh has 4 axes"):
        make_network(n_dims=4, structured=True)
