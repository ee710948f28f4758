"""Latent slices against loops over points, heads and slices in float64, and their symmetries.

Notation, as in the module: P points, E width, H heads, D channels of a head, G slices.
"""

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from skop.modules import FeedForward, HydraMixer, LatentBlock, LatentPooling

WIDTH, HEADS, LATENTS = 8, 2, 5
DECODERS = ["encoder_weights", "own_softmax"]


def make_slices(**options):
    """Slices in float64 with every weight random, so that none can be forgotten."""
    torch.manual_seed(0)
    slices = LatentPooling(WIDTH, LATENTS, HEADS, **options).double()
    with torch.no_grad():
        for parameter in slices.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        slices.temperature.copy_(torch.tensor([0.4, 0.9]))
    return slices


def make_block(slices, **options):
    torch.manual_seed(1)
    mixer = HydraMixer(WIDTH, d_state=2, n_heads=2)
    block = LatentBlock(mixer, FeedForward(WIDTH, 12), slices, WIDTH, shared=True, **options).double().eval()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return block


def points_of(*shape):
    return torch.randn(*shape, WIDTH, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def pool(slices, points, **where):
    return slices.tokens(*slices.encode(points, **where)[1:])


def linear(layer, x):
    return layer.weight.detach().numpy() @ x + layer.bias.detach().numpy()


def softmax(x):
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def literal(slices, values, queries, normalize, decoder):
    """Tokens (G, E) and the points' mixtures (P, E) of one sample, from Eq. 9, 10, 14 and 15 head by head."""
    count, size = len(values), WIDTH // HEADS
    tokens, back = np.zeros((LATENTS, WIDTH)), np.zeros((count, WIDTH))
    temperature = slices.temperature.detach().numpy()
    for head in range(HEADS):
        own = slice(head * size, (head + 1) * size)
        weights = np.zeros((count, LATENTS))
        for n in range(count):
            weights[n] = softmax(linear(slices.scores, queries[n, own]) / temperature[head])  # Eq. 9
        for g in range(LATENTS):
            tokens[g, own] = sum(weights[n, g] * values[n, own] for n in range(count))  # Eq. 10
            if normalize:
                tokens[g, own] /= weights[:, g].sum() + 1e-5
        for n in range(count):
            if decoder == "own_softmax":  # Eq. 14
                keys = [linear(slices.keys, tokens[g, own]) for g in range(LATENTS)]
                weights[n] = softmax(np.array([key @ queries[n, own] / math.sqrt(size) for key in keys]))
            back[n, own] = sum(weights[n, g] * tokens[g, own] for g in range(LATENTS))  # Eq. 15
    return tokens, back


def test_tokens_and_mixtures_are_those_of_the_equations():
    for normalize, decoder in product([True, False], DECODERS):
        slices, points = make_slices(normalize=normalize, decoder=decoder), points_of(3, 7)
        assignment, sums, masses = slices.encode(points)
        tokens = slices.tokens(sums, masses)
        back = slices.decode(assignment, tokens)
        for index, sample in enumerate(points.numpy()):
            values, queries = (np.stack([linear(map, x) for x in sample]) for map in (slices.values, slices.queries))
            expected = literal(slices, values, queries, normalize, decoder)
            np.testing.assert_allclose(tokens[index].detach(), expected[0], rtol=1e-12)
            np.testing.assert_allclose(back[index].detach(), expected[1], rtol=1e-12)
        torch.testing.assert_close(slices.weigh(points), assignment)


@pytest.mark.parametrize("grid", [(6,), (4, 3), (2, 3, 4)])
def test_values_and_queries_of_a_mesh_are_convolutions_with_zeros_outside(grid):
    slices, points = make_slices(n_grid_axes=len(grid)), points_of(1, math.prod(grid))
    padded = np.pad(points[0].numpy().reshape(*grid, WIDTH), [(1, 1)] * len(grid) + [(0, 0)])

    def convolve(layer):
        kernel, result = layer.weight.detach().numpy(), []
        for place in np.ndindex(grid):
            window = padded[tuple(slice(i, i + 3) for i in place)]
            result.append(np.tensordot(kernel, np.moveaxis(window, -1, 0), kernel.ndim - 1))
        return np.array(result) + layer.bias.detach().numpy()

    expected, _ = literal(slices, convolve(slices.values), convolve(slices.queries), True, "encoder_weights")
    np.testing.assert_allclose(pool(slices, points, grid_shape=grid)[0].detach(), expected, rtol=1e-10, atol=1e-12)


def test_temperatures_of_a_mesh_stay_between_bounds():
    mesh, points = make_slices(n_grid_axes=1), points_of(1, 6)
    for extreme, bound in ((1e-3, 0.1), (50.0, 5.0)):
        nn.init.constant_(mesh.temperature, extreme)
        found = pool(mesh, points, grid_shape=(6,))
        nn.init.constant_(mesh.temperature, bound)
        torch.testing.assert_close(pool(mesh, points, grid_shape=(6,)), found)


def test_a_low_temperature_puts_every_point_in_one_slice():
    slices, points = make_slices(), points_of(1, 20)
    nn.init.constant_(slices.temperature, 1e-4)
    weights = slices.encode(points)[0]
    torch.testing.assert_close(weights.amax(-1), torch.ones_like(weights[..., 0]))
    nn.init.constant_(slices.temperature, 1e9)
    torch.testing.assert_close(slices.encode(points)[0], torch.full_like(weights, 1 / LATENTS))


# ---------------------------------------------------------------- centred heads
def make_centred(n_dims=2, **options):
    slices = make_slices(n_centred_heads=1, n_dims=n_dims, **options)
    nn.init.constant_(slices.log_sharpness, 0.3)
    return slices


def test_centred_heads_weigh_by_the_distance_to_their_centres_too():
    slices, plain, points, coords = make_centred(), make_slices(), points_of(2, 7), points_of(2, 7)[..., :2]
    plain.load_state_dict(slices.state_dict(), strict=False)
    features, nearness = plain.encode(points)[0].log(), np.zeros((2, 7, LATENTS))
    for place in np.ndindex(nearness.shape):
        offset = coords[place[:2]].numpy() - slices.centres[place[2]].detach().numpy()
        nearness[place] = -0.5 * (math.exp(0.3) * np.linalg.norm(offset)) ** 2
    found = slices.encode(points, coords=coords)[0]
    expected = (features[:, 0] + torch.from_numpy(nearness)).softmax(-1)
    torch.testing.assert_close(found[:, 0], expected)
    torch.testing.assert_close(found[:, 1], features[:, 1].exp())
    torch.testing.assert_close(slices.weigh(points, coords), found)
    packed = slices.encode(points.flatten(0, 1), (7, 7), coords=coords.flatten(0, 1))[0]
    torch.testing.assert_close(packed, torch.cat([*found], dim=-2))


def test_centres_start_spread_over_the_box_and_neighbours_in_the_sequence_are_near():
    for n_dims, count in [(1, 16), (2, 64), (3, 64), (5, 32)]:
        slices = LatentPooling(8, count, 2, n_centred_heads=2, n_dims=n_dims)
        centres = slices.centres.detach()
        assert ((centres >= 0) & (centres <= 1)).all()
        torch.testing.assert_close(slices.log_sharpness.exp(), torch.full((2,), count ** (1 / n_dims)))
        torch.testing.assert_close(centres.mean(0), torch.full((n_dims,), 0.5), rtol=0, atol=0.1)
        distances = torch.cdist(centres, centres)
        assert distances.fill_diagonal_(9.0).min() > 0.4 / count ** (1 / n_dims)
        steps = centres.diff(dim=0).norm(dim=-1)
        assert steps.mean() < 0.8 * distances.fill_diagonal_(0.0).sum() / (count * (count - 1))


def test_centred_tokens_keep_the_points_apart_where_features_alone_do_not():
    torch.manual_seed(0)
    values = torch.zeros(1, 32, 16)
    values[..., :3] = 0.1 * points_of(1, 32)[..., :3].float()
    coords = torch.linspace(0, 1, 32)[:, None]
    ranks = []
    for local in (0, 2):
        slices = LatentPooling(16, 16, 2, n_centred_heads=local, n_dims=1)
        jacobian = torch.autograd.functional.jacobian(lambda points, s=slices: pool(s, points, coords=coords), values)
        singular = torch.linalg.svdvals(jacobian.reshape(16 * 16, -1)[:, ::16])
        ranks.append((singular.square().sum() ** 2 / singular.pow(4).sum()).item())
    assert ranks[0] < 3
    assert ranks[1] > 5


# ---------------------------------------------------------------- order, packing, chunks
@pytest.mark.parametrize("decoder", DECODERS)
def test_the_order_of_points_does_not_matter(decoder):
    slices = make_slices(decoder=decoder)
    block, points = make_block(slices), points_of(2, 9)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3))
    moved, tokens = block(points[:, order])
    expected, same = block(points)
    torch.testing.assert_close(moved, expected[:, order])
    torch.testing.assert_close(tokens, same)


def test_renumbering_the_slices_only_renumbers_the_tokens():
    slices, points = make_slices(), points_of(2, 9)
    assignment, sums, masses = slices.encode(points)
    tokens, order = slices.tokens(sums, masses), torch.tensor([3, 0, 4, 1, 2])
    back = slices.decode(assignment, tokens)
    with torch.no_grad():
        slices.scores.weight.copy_(slices.scores.weight[order].clone())
        slices.scores.bias.copy_(slices.scores.bias[order].clone())
    renumbered, sums, masses = slices.encode(points)
    torch.testing.assert_close(slices.tokens(sums, masses), tokens[:, order])
    torch.testing.assert_close(slices.decode(renumbered, tokens[:, order]), back)


@pytest.mark.parametrize("decoder", DECODERS)
def test_packed_samples_are_those_taken_one_by_one(decoder):
    slices, sizes = make_slices(decoder=decoder), (4, 1, 9)
    block = make_block(slices)
    points = points_of(sum(sizes))
    together, tokens = block(points, None, sizes)
    for own, found, token in zip(points.split(sizes), together.split(sizes), tokens, strict=True):
        alone, expected = block(own[None])
        torch.testing.assert_close(found, alone[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(token, expected[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("decoder", DECODERS)
def test_points_that_are_in_no_token_advance_as_if_they_were(decoder):
    slices = make_slices(decoder=decoder)
    block, points = make_block(slices), points_of(2, 9)
    expected, tokens = block(points)
    torch.testing.assert_close(block.decode(points[:, 2:5], None, tokens), expected[:, 2:5])


@torch.no_grad()
def test_chunks_give_what_the_whole_sample_gives():
    for decoder, chunk_size in product(DECODERS, [1, 4, 9, 100]):
        slices, points, others = make_slices(decoder=decoder), points_of(1, 9), points_of(1, 5)
        block = make_block(slices)
        expected, tokens = block(points)
        expected_others = block.decode(others, None, tokens)
        nowhere = torch.zeros(1, 9, 0), torch.zeros(1, 5, 0)
        block.update_in_place([(points, nowhere[0]), (others, nowhere[1])], chunk_size)
        exact = chunk_size >= 9
        torch.testing.assert_close(points, expected, rtol=0, atol=0 if exact else 1e-12)
        torch.testing.assert_close(others, expected_others, rtol=0, atol=0 if exact else 1e-12)


# ---------------------------------------------------------------- start values, gradients, refusals
def test_start_values():
    slices = LatentPooling(64, 32, 4, temperature=0.7)
    assert torch.equal(slices.temperature, torch.full((4,), 0.7))
    matrix = slices.scores.weight
    torch.testing.assert_close(matrix.T @ matrix, torch.eye(16), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{}, {"normalize": False}, {"decoder": "own_softmax"}, {"n_grid_axes": 2}, {"n_centred_heads": 1, "n_dims": 2}],
)
def test_gradients(options):
    slices = make_slices(**options)
    block = make_block(slices)
    model = nn.ModuleList([block, slices])
    names, values = zip(*model.named_parameters(), strict=True)
    where = {"grid_shape": (2, 3), "coords": points_of(6)[:, :2]}

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, points):
            return self.parts[0](points, **where)[0]

    def run(points, *parameters):
        weights = {f"parts.{name}": value for name, value in zip(names, parameters, strict=True)}
        return torch.func.functional_call(Both(), weights, (points,))

    points = points_of(1, 6).requires_grad_()
    assert torch.autograd.gradcheck(run, (points, *values), fast_mode=True)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="n_heads=3 does not divide width=8"):
        LatentPooling(8, n_heads=3)
    with pytest.raises(ValueError, match="decoder is 'linear'"):
        LatentPooling(8, decoder="linear")
    with pytest.raises(ValueError, match="n_centred_heads=3; expected 0 to n_heads=2"):
        LatentPooling(8, n_heads=2, n_centred_heads=3, n_dims=2)
    with pytest.raises(ValueError, match="n_centred_heads=1 needs the number of space dimensions"):
        LatentPooling(8, n_heads=2, n_centred_heads=1)
    with pytest.raises(ValueError, match="n_centred_heads > 0 needs the coordinates"):
        make_centred().encode(points_of(1, 6))
    with pytest.raises(ValueError, match="need a grid_shape"):
        make_slices(n_grid_axes=1).encode(points_of(1, 6))


def test_multiplied_maps_give_what_the_maps_give_one_by_one():
    for packed, centred in product([False, True], [0, 1]):
        slices = make_slices(n_centred_heads=centred, n_dims=2)
        block, points = make_block(slices), points_of(2, 6).requires_grad_()
        coords = torch.rand(2, 6, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        given = (points.flatten(0, 1), coords.flatten(0, 1), (5, 7)) if packed else (points, coords, None)
        found = {}
        for slices.multiplies_maps in (True, False):
            updated, latents = block(*given)
            loss = (updated * updated.detach().cos()).sum() + latents.square().sum()
            sources = [points, *slices.parameters(), *block.parameters()]
            grads = [grad for grad in torch.autograd.grad(loss, sources, allow_unused=True) if grad is not None]
            found[slices.multiplies_maps] = [updated, latents, *grads]
        assert len(found[True]) > 20
        torch.testing.assert_close(found[True], found[False], rtol=1e-10, atol=1e-10)


def test_maps_are_multiplied_only_where_that_adds_little_work():
    assert LatentPooling(64, 32, 4).multiplies_maps
    assert not LatentPooling(128, 64, 8).multiplies_maps
    assert not LatentPooling(64, 32, 4, n_grid_axes=2).multiplies_maps
    assert not LatentPooling(64, 32, 4, decoder="own_softmax").multiplies_maps
