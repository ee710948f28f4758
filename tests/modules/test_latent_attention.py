"""Attention between points and latent tokens against loops over points, heads and tokens, and its symmetries.

Notation, as in the module: P points, E width, H heads, D channels of a head, G latent tokens.
"""

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import erf
from torch import nn

from skop.modules import FeedForward, LatentAttentionBlock, _latent_attention
from skop.modules._latent_tokens import spread_centres

WIDTH, HEADS, LATENTS, DIMS = 8, 2, 5, 3
DECODERS = ["encoder_weights", "own_softmax"]
VARIANTS = [(decoder, n_centred) for decoder in DECODERS for n_centred in (0, 1, 2)]


def make(decoder="encoder_weights", n_centred_heads=0, **options):
    """A block in float64 with every weight random, so that none can be forgotten."""
    torch.manual_seed(0)
    block = LatentAttentionBlock(
        FeedForward(WIDTH, 7), WIDTH, LATENTS, HEADS, 12, decoder=decoder, n_centred_heads=n_centred_heads,
        n_dims=DIMS, **options,
    ).double().eval()  # fmt: skip
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return block


def random(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sample(count, batch=2, seed=2):
    return random(batch, count, WIDTH, seed=seed), random(batch, count, DIMS, seed=seed + 10)


# ---------------------------------------------------------------- the equations, written out
def numbers(tensor):
    return tensor.detach().numpy()


def linear(layer, x):
    return x @ numbers(layer.weight).T + numbers(layer.bias)


def normed(layer, x):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + layer.eps)
    return x * numbers(layer.weight) + numbers(layer.bias)


def feed_forward(network, x):
    hidden = linear(network.fc1, x)
    return linear(network.fc2, hidden * (1 + erf(hidden / math.sqrt(2))) / 2)


def softmax(x):
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def logit(block, query, key, head, token, place, number):
    """The logit of one latent token and one point in one head."""
    own = slice(head * WIDTH // HEADS, (head + 1) * WIDTH // HEADS)
    found = query[own] @ key[own] / math.sqrt(WIDTH / HEADS)
    if block.centres is not None and head < block.log_sharpness.shape[1]:
        sharpness = np.exp(numbers(block.log_sharpness)[number, head])
        found -= (sharpness * np.linalg.norm(numbers(block.centres)[token] - place)) ** 2 / 2
    return found


def encoded(block, points, coords):
    """Latent tokens (G, E) of one sample, before they are transformed: attention of the queries, and a residual MLP."""
    x, queries = normed(block.norm_points, points), numbers(block.queries)
    keys, values = linear(block.keys, x), linear(block.values, x)
    tokens, size = np.zeros((LATENTS, WIDTH)), WIDTH // HEADS
    for head in range(HEADS):
        own = slice(head * size, (head + 1) * size)
        for g in range(LATENTS):
            weights = softmax(np.array([
                logit(block, queries[g], key, head, g, place, 0) for key, place in zip(keys, coords, strict=True)
            ]))  # fmt: skip
            tokens[g, own] = sum(w * v[own] for w, v in zip(weights, values, strict=True))
    tokens = linear(block.gather, tokens)
    return tokens + feed_forward(block.latent_mlp, tokens)


def decoded(block, points, coords, latents):
    """Points (P, E) that attended to latent tokens (G, E), and passed their own network."""
    x, size, given = normed(block.norm_points, points), WIDTH // HEADS, linear(block.give, latents)
    if block.ask is None:
        asked, offered, number = linear(block.keys, x), numbers(block.queries), 0
    else:
        asked, offered, number = linear(block.ask, x), linear(block.offer, latents), 1
    read = np.zeros_like(points)
    for head in range(HEADS):
        own = slice(head * size, (head + 1) * size)
        for n, (key, place) in enumerate(zip(asked, coords, strict=True)):
            weights = softmax(np.array([logit(block, offered[g], key, head, g, place, number) for g in range(LATENTS)]))
            read[n, own] = sum(w * row[own] for w, row in zip(weights, given, strict=True))
    points = points + linear(block.spread, read)
    return points + feed_forward(block.mlp, normed(block.norm_mlp, points))


def test_the_block_is_that_of_the_equations():
    for decoder, n_centred in VARIANTS:
        block, (points, coords) = make(decoder, n_centred), sample(6)
        found, latents = block(points, coords)
        for own, place, new, tokens in zip(points, coords, found, latents, strict=True):
            expected = encoded(block, numbers(own), numbers(place))
            expected = normed(block.norm_latents, feed_forward(block.transform, expected))
            np.testing.assert_allclose(numbers(tokens), expected, rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(
                numbers(new), decoded(block, numbers(own), numbers(place), expected), rtol=1e-9, atol=1e-11
            )


def test_other_points_read_the_same_latent_tokens():
    for decoder, n_centred in VARIANTS:
        block, (points, coords), (others, places) = make(decoder, n_centred), sample(6), sample(4, seed=5)
        latents = block.mix(block.encode(points, coords))
        found = block.decode(others, places, latents)
        for number in range(len(points)):
            expected = decoded(block, numbers(others[number]), numbers(places[number]), numbers(latents[number]))
            np.testing.assert_allclose(numbers(found[number]), expected, rtol=1e-9, atol=1e-11)
        # A point of the sample that asks again gets what it got.
        torch.testing.assert_close(block.decode(points, coords, latents), block(points, coords)[0])


# ---------------------------------------------------------------- parts of a sample, packed samples, order
def test_summaries_of_chunks_make_that_of_the_whole():
    for decoder, n_centred in VARIANTS:
        block, (points, coords) = make(decoder, n_centred), sample(9)
        # Parts whose highest logits differ by much, in either order.
        points[:, :4] *= 30
        whole = block.mix(block.encode(points, coords))
        parts = [
            block.encode(p, c) for p, c in zip(points.split((4, 3, 2), 1), coords.split((4, 3, 2), 1), strict=True)
        ]
        for first, second, third in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
            merged = block.merge(block.merge(parts[first], parts[second]), parts[third])
            torch.testing.assert_close(block.mix(merged), whole)


def test_an_update_in_chunks_is_that_of_all_points():
    for decoder, chunk in product(DECODERS, [1, 4, 100]):
        block, (points, coords), (others, places) = make(decoder, 1), sample(9, batch=1), sample(5, batch=1, seed=6)
        expected, latents = block(points, coords)
        asked = block.decode(others, places, latents)
        with torch.no_grad():
            block.update_in_place([(points, coords), (others, places)], chunk)
        torch.testing.assert_close(points, expected)
        torch.testing.assert_close(others, asked)


def test_packed_samples_are_updated_one_by_one():
    for decoder, n_centred in VARIANTS:
        sizes = (3, 1, 6)
        block, (points, coords) = make(decoder, n_centred), sample(sum(sizes), batch=1)
        found, latents = block(points[0], coords[0], sizes)
        singles = [block(p, c) for p, c in zip(points.split(sizes, 1), coords.split(sizes, 1), strict=True)]
        torch.testing.assert_close(found, torch.cat([single[0][0] for single in singles]))
        torch.testing.assert_close(latents, torch.cat([single[1] for single in singles]))
        found.square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in block.parameters())


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_large_packed_sample_does_not_fill_up_small_ones(decoder, monkeypatch):
    sizes = (2, 90, 1, 3, 2, 60, 1, 2)
    block, (points, coords) = make(decoder, 1), sample(sum(sizes), batch=1)
    expected, tokens = block(points[0], coords[0], sizes)  # few rows: all at once
    rows, split = [], block._heads
    monkeypatch.setattr(_latent_attention, "_FILLING", 90)
    monkeypatch.setattr(block, "_heads", lambda own: rows.append(own.shape[:-1].numel()) or split(own))
    found, latents = block(points[0], coords[0], sizes)
    assert 90 <= max(rows) <= 2 * sum(sizes) < len(sizes) * max(sizes)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(latents, tokens)


def test_coordinates_may_be_shared_by_the_samples():
    block, (points, coords) = make(n_centred_heads=1), sample(6)
    shared = coords[:1].expand(2, -1, -1)
    torch.testing.assert_close(block(points, coords[0])[0], block(points, shared)[0])


def test_the_order_of_points_does_not_matter_and_doubled_points_count_as_one():
    for decoder, n_centred in VARIANTS:
        block, (points, coords), order = make(decoder, n_centred), sample(7), torch.randperm(7)
        found, latents = block(points, coords)
        moved, same = block(points[:, order], coords[:, order])
        torch.testing.assert_close(moved, found[:, order])
        torch.testing.assert_close(same, latents)
        # A softmax over points is a mean: twice the points are the same field.
        torch.testing.assert_close(block(points.repeat(1, 2, 1), coords.repeat(1, 2, 1))[1], latents)


def test_latent_tokens_of_learned_queries_differ_and_centres_are_spread_over_the_box():
    torch.manual_seed(0)
    block = LatentAttentionBlock(nn.Identity(), WIDTH, 16, HEADS, 12, n_centred_heads=1, n_dims=2)
    centres = block.centres.detach()
    assert torch.equal(centres, spread_centres(16, 2))
    assert ((centres >= 0) & (centres <= 1)).all()
    # Logits fall by one half at the spacing of the centres, 1 / 4 for 16 in the plane.
    assert block.log_sharpness.detach().exp().numpy() == pytest.approx(4)
    assert set(block.no_weight_decay) == {"queries", "centres", "log_sharpness"}
    assert LatentAttentionBlock(nn.Identity(), WIDTH, 16, HEADS, 12, n_dims=2).centres is None
    alone = LatentAttentionBlock(nn.Identity(), WIDTH, 16, HEADS, 12)
    latents = alone(torch.randn(1, 30, WIDTH))[1][0]
    gaps = (latents[:, None] - latents).norm(dim=-1) + torch.eye(16)
    assert gaps.min() > 1e-4


# ---------------------------------------------------------------- numbers
@pytest.mark.parametrize("decoder", DECODERS)
def test_very_large_logits_do_not_overflow(decoder):
    block = make(decoder).float()
    points, coords = (part.float().requires_grad_() for part in sample(9))
    with torch.no_grad():
        block.queries.mul_(1e6)
    found, latents = block(points, coords)
    assert found.isfinite().all()
    found.square().sum().backward()
    assert points.grad.isfinite().all()
    # Tokens read the one point whose logit is the highest.
    with torch.no_grad():
        logits = block._logits(block.queries, block.keys(block.norm_points(points)), coords, None, 0)
        assert logits.abs().max() > 1e5
        values = block._heads(block.values(block.norm_points(points)))
        chosen = values.gather(2, logits.argmax(-1)[..., None].expand(-1, -1, -1, WIDTH // HEADS))
        tokens = block.gather(chosen.transpose(1, 2).flatten(2))
        expected = block.norm_latents(block.transform(tokens + block.latent_mlp(tokens)))
    torch.testing.assert_close(latents, expected, rtol=1e-4, atol=1e-4)
    far = [block.encode(*part) for part in zip(points.split(3, 1), coords.split(3, 1), strict=True)]
    torch.testing.assert_close(
        block.mix(block.merge(block.merge(far[0], far[1]), far[2])), latents, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(("decoder", "n_centred"), [("encoder_weights", 1), ("own_softmax", 2)])
def test_gradients_are_those_of_finite_differences(decoder, n_centred):
    torch.manual_seed(0)
    block = LatentAttentionBlock(
        nn.Identity(), 4, 2, 2, 3, decoder=decoder, n_centred_heads=n_centred, n_dims=1
    ).double()
    names = [name for name, _ in block.named_parameters()]
    values = [parameter.detach().clone().requires_grad_() for parameter in block.parameters()]

    def run(points, coords, *parameters):
        return torch.func.functional_call(block, dict(zip(names, parameters, strict=True)), (points, coords))[0]

    inputs = random(1, 3, 4).requires_grad_(), random(1, 3, 1).requires_grad_()
    assert torch.autograd.gradcheck(run, (*inputs, *values), fast_mode=True)


def test_dropout_acts_in_training_only():
    block, (points, coords) = make(dropout=0.5), sample(6)
    expected = block(points, coords)[0]
    block.train()
    assert not torch.equal(block(points, coords)[0], block(points, coords)[0])
    block.eval()
    assert torch.equal(block(points, coords)[0], expected)


def test_wrong_options_are_named():
    for options, message in [
        ({"n_heads": 3}, "n_heads=3 does not divide width=8"),
        ({"n_centred_heads": 3}, "n_centred_heads=3; expected 0 to n_heads=2"),
        ({"n_centred_heads": -1}, "n_centred_heads=-1"),
        ({"n_centred_heads": 1, "n_dims": None}, "n_centred_heads=1 needs the number of space dimensions"),
        ({"decoder": "none"}, "decoder is 'none'; expected 'encoder_weights' or 'own_softmax'"),
    ]:
        with pytest.raises(ValueError, match=message):
            LatentAttentionBlock(
                nn.Identity(), WIDTH, LATENTS, **({"n_heads": HEADS, "hidden": 12, "n_dims": 2} | options)
            )


@pytest.mark.parametrize("decoder", DECODERS)
def test_centres_need_coordinates(decoder):
    block, (points, _) = make(decoder, 1), sample(6)
    with pytest.raises(ValueError, match="coords is None"):
        block(points)
