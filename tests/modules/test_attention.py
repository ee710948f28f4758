"""Attention mixers against their formulas, with positions, normalisations and start values."""

import math
from itertools import product

import pytest
import torch
from torch import nn

from skop.modules import (
    FourierAttention,
    GalerkinAttention,
    NormalizedLinearAttention,
    Probe,
    SoftmaxAttention,
    Stream,
)

WIDTH, HEADS, DEPTH = 8, 2, 4
KINDS = [SoftmaxAttention, GalerkinAttention, FourierAttention, NormalizedLinearAttention]


def make(kind, **options):
    torch.manual_seed(0)
    return kind(WIDTH, **({"n_heads": HEADS} | options)).double()


def random(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def heads(tokens):
    return tokens.split(DEPTH, dim=-1)


def weights(kind, query, key):
    """Weights (L, M) by which one head reads its values."""
    products = query @ key.T
    if kind is SoftmaxAttention:
        return (products / math.sqrt(DEPTH)).softmax(dim=-1)
    if kind is FourierAttention:
        return products / (len(key) * math.sqrt(DEPTH))
    if kind is GalerkinAttention:
        return products / len(key)
    products = query.softmax(dim=-1) @ key.softmax(dim=-1).T
    return products / products.sum(dim=-1, keepdim=True)


def literal(mixer, tokens, streams):
    """What one sample (L, E) reads of streams (M, E), head by head, with all weights in a matrix."""
    found = []
    for number, query in enumerate(heads(mixer.query(tokens))):
        own = query.softmax(dim=-1) if type(mixer) is NormalizedLinearAttention else torch.zeros_like(query)
        for keys, values, stream in zip(mixer.keys, mixer.values, streams, strict=True):
            key, value = heads(keys(stream))[number], heads(values(stream))[number]
            own = own + weights(type(mixer), query, key) @ value
        found.append(own)
    return mixer.out_projection(torch.cat(found, dim=-1))


def test_tokens_read_one_another_by_the_formula():
    for kind in KINDS:
        mixer, tokens = make(kind), random(3, 7, WIDTH)
        torch.testing.assert_close(mixer(tokens), torch.stack([literal(mixer, own, [own]) for own in tokens]))


def test_tokens_read_references_of_other_lengths():
    for kind in KINDS:
        mixer, tokens, first, second = make(kind, n_references=2), random(7, WIDTH), random(5, WIDTH), random(1, WIDTH)
        found = mixer(tokens[None], references=[Stream(first[None]), Stream(second[None])])[0]
        torch.testing.assert_close(found, literal(mixer, tokens, [first, second]))


def test_a_token_reads_the_same_whoever_reads_beside_it():
    for kind in KINDS:
        mixer, tokens = make(kind), random(2, 7, WIDTH)
        probe = Probe(tokens[:, [3, 1]], None, torch.tensor([[3, 1], [3, 1]]))
        torch.testing.assert_close(mixer.probe(tokens, probe), mixer(tokens)[:, [3, 1]])
        order = torch.tensor([4, 0, 6, 1, 3, 2, 5])
        torch.testing.assert_close(mixer(tokens[:, order]), mixer(tokens)[:, order])


def test_normalisations_are_those_of_pytorch():
    """Over the channels of a token and head, or over the tokens of a sample, for the parts of each kind."""
    for kind, norm in product(KINDS[:3], ["layer", "instance"]):
        mixer = make(kind, norm=norm)
        for part in kind.normed:
            own = mixer.norms[part]
            nn.init.normal_(own.weight)
            nn.init.normal_(own.bias)
            values = random(3, HEADS, 7, DEPTH)
            for head in range(HEADS):
                module = nn.LayerNorm(DEPTH) if norm == "layer" else nn.InstanceNorm1d(DEPTH, affine=True)
                module = module.double()
                module.load_state_dict({"weight": own.weight[head], "bias": own.bias[head]})
                one = values[:, head]
                expected = module(one) if norm == "layer" else module(one.mT).mT
                torch.testing.assert_close(own(values)[:, head], expected)
        unlike = {"query", "key", "value"} - set(kind.normed)
        assert set(mixer.norms) == set(kind.normed) == {"query", "key", "value"} - unlike
        tokens = random(1, 7, WIDTH)
        assert not torch.allclose(mixer(tokens), literal(mixer, tokens[0], [tokens[0]])[None])


def test_rotary_positions_count_by_their_differences():
    for kind, n_dims in product(KINDS[:3], [1, 2, 3]):
        mixer = make(kind, n_references=1, positions="rotary", n_coords=n_dims, head_width=2 * WIDTH, rotary_scale=5.0)
        tokens, stream = random(1, 6, WIDTH), random(1, 4, WIDTH, seed=2)
        places, others = random(1, 6, n_dims, seed=3), random(1, 4, n_dims, seed=4)
        found = mixer(tokens, coords=places, references=[Stream(stream, others)])
        moved = mixer(tokens, coords=places + 0.3, references=[Stream(stream, others + 0.3)])
        torch.testing.assert_close(moved, found)
        for axis in range(n_dims):
            shift = torch.zeros(n_dims, dtype=torch.float64)
            shift[axis] = 0.3
            assert not torch.allclose(mixer(tokens, coords=places + shift, references=[Stream(stream, others)]), found)


def test_rotary_positions_turn_pairs_of_channels():
    mixer = make(GalerkinAttention, positions="rotary", n_coords=1, n_heads=2, rotary_scale=2.0)
    values, places = random(1, 2, 5, 4), random(1, 5, 1)
    turned = mixer._placed(values, places)
    for pair, frequency in ((0, 1.0), (1, 0.01)):
        angle = 2.0 * frequency * places[0, :, 0]
        first, second = values[0, :, :, pair], values[0, :, :, pair + 2]
        torch.testing.assert_close(turned[0, :, :, pair], first * angle.cos() - second * angle.sin())
        torch.testing.assert_close(turned[0, :, :, pair + 2], second * angle.cos() + first * angle.sin())


def test_concatenated_positions_are_channels_of_every_head():
    mixer = make(GalerkinAttention, positions="concatenate", n_coords=2)
    tokens, places = random(5, WIDTH), random(5, 2)
    found = []
    parts = (heads(map_(tokens)) for map_ in (mixer.query, mixer.keys[0], mixer.values[0]))
    for query, key, value in zip(*parts, strict=True):
        query, key, value = (torch.cat([places, part], dim=-1) for part in (query, key, value))
        found.append(query @ key.T @ value / 5)
    expected = mixer.out_projection(torch.cat(found, dim=-1))
    torch.testing.assert_close(mixer(tokens[None], coords=places[None])[0], expected)


def test_places_have_to_be_given_where_they_are_read():
    mixer = make(SoftmaxAttention, positions="rotary", n_coords=2)
    for coords in (None, random(1, 5, 3)):
        with pytest.raises(ValueError, match="built with positions='rotary' of 2 coordinates"):
            mixer(random(1, 5, WIDTH), coords=coords)


@pytest.mark.parametrize("init", ["xavier", "orthogonal"])
def test_maps_start_near_a_multiple_of_the_identity(init):
    mixer = make(GalerkinAttention, n_heads=1, init=init, init_gain=1e-3, diagonal=0.5, init_parts=("key", "value"))
    for layer in (mixer.keys[0], mixer.values[0]):
        rest = layer.weight - 0.5 * torch.eye(WIDTH, dtype=torch.float64)
        assert 0 < rest.abs().max() < 2e-3
        assert (layer.bias == 0).all()
        if init == "orthogonal":
            torch.testing.assert_close(rest @ rest.T, 1e-6 * torch.eye(WIDTH, dtype=torch.float64), atol=1e-9, rtol=0)
    assert (mixer.query.weight - 0.5 * torch.eye(WIDTH, dtype=torch.float64)).abs().max() > 0.1


def test_options_that_do_not_fit_are_refused():
    for changes, message in (
        ({"n_heads": 3}, "n_heads=3 does not divide the width 8"),
        ({"norm": "batch"}, "norm is 'batch'"),
        ({"positions": "learned"}, "positions is 'learned'"),
        ({"init": "normal"}, "init is 'normal'"),
        ({"positions": "concatenate", "n_coords": 1, "project_out": False}, "project_out=False is not possible"),
    ):
        with pytest.raises(ValueError, match=message):
            SoftmaxAttention(8, **changes)
    assert SoftmaxAttention(48).n_heads == 3
