"""Patches: counts, layout, padding, and the way back."""

from itertools import product
from math import prod

import numpy as np
import torch

from skop.modules import PatchEmbedding, PatchUnembedding, token_grid

CASES = [
    ((7,), (2,)), ((6,), (3,)), ((1,), (1,)), ((5,), (7,)),
    ((4, 6), (2, 2)), ((5, 4), (2, 3)), ((1, 5), (1, 2)), ((85, 85), (2, 2)),
    ((3, 4, 5), (2, 2, 2)), ((2, 2, 2), (1, 1, 1)), ((5, 1, 3), (2, 1, 3)),
]  # fmt: skip


def identity_pair(patch, channels):
    """Embedding and expansion whose linear maps are the identity, without norms and shifts."""
    width = channels * prod(patch)
    embedding = PatchEmbedding(channels, width, patch).double()
    expansion = PatchUnembedding(width, channels, patch).double()
    embedding.norm = expansion.norm = torch.nn.Identity()
    with torch.no_grad():
        embedding.linear.weight.copy_(torch.eye(width))
        embedding.linear.bias.zero_()
        expansion.linear.weight.copy_(torch.eye(width))
    return embedding, expansion


def test_expansion_undoes_embedding():
    for grid, patch in CASES:
        fields = torch.randn(2, *grid, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        embedding, expansion = identity_pair(patch, 3)
        counts = token_grid(grid, patch)
        assert torch.equal(expansion(embedding(fields, counts), counts, grid), fields)


def test_tokens_hold_their_patch_with_zeros_at_the_high_ends():
    for grid, patch in CASES:
        fields = np.random.default_rng(0).normal(size=(2, *grid, 3))
        embedding, _ = identity_pair(patch, 3)
        counts = token_grid(grid, patch)
        tokens = embedding(torch.from_numpy(fields), counts).detach().numpy()
        padded = np.zeros((2, *(count * size for count, size in zip(counts, patch, strict=True)), 3))
        padded[(slice(None), *(slice(size) for size in grid))] = fields
        for number, place in enumerate(np.ndindex(*counts)):
            block = tuple(slice(i * size, (i + 1) * size) for i, size in zip(place, patch, strict=True))
            np.testing.assert_array_equal(tokens[:, number], padded[(slice(None), *block)].reshape(2, -1))


def test_more_tokens_than_needed_are_all_padding():
    embedding, expansion = identity_pair((2, 2), 1)
    fields = torch.ones(1, 3, 3, 1, dtype=torch.float64)
    tokens = embedding(fields, (4, 3)).reshape(4, 3, 4)
    assert tokens[2:].abs().sum() == tokens[:, 2:].abs().sum() == 0
    assert torch.equal(expansion(tokens.reshape(1, 12, 4), (4, 3), (3, 3)), fields)


def test_token_counts():
    for grid, patch, multiple, expected in [
        ((85, 85), (2, 2), 8, (44, 44)),  # 85 points padded to 88, as the public code does
        ((64, 64), (2, 2), 8, (32, 32)),
        ((85,), (2,), 1, (43,)),
        ((9,), (3,), 4, (4,)),  # to 12, the least common multiple
        ((5, 20), (2, 2), 8, (3, 12)),  # an axis shorter than the multiple is padded to the patch alone
        ((1, 1, 1), (1, 1, 1), 1, (1, 1, 1)),
    ]:
        assert token_grid(grid, patch, multiple) == expected


def test_token_counts_cover_the_grid_and_no_patch_too_many():
    for size, patch in product(range(1, 40), range(1, 6)):
        (count,) = token_grid((size,), (patch,))
        assert count * patch >= size > (count - 1) * patch


def test_embedding_and_expansion_are_the_published_formulas():
    generator = torch.Generator().manual_seed(0)
    embedding, expansion = PatchEmbedding(2, 6, (2, 2)).double(), PatchUnembedding(6, 1, (2, 2)).double()
    with torch.no_grad():
        expansion.shift.copy_(torch.randn(6, generator=generator))
    grid = torch.randn(1, 2, 2, 2, generator=generator, dtype=torch.float64)

    def normed(values):
        return (values - values.mean()) / (values.var(unbiased=False) + 1e-5).sqrt()

    token = embedding(grid, (1, 1))
    by_hand = normed(grid.reshape(-1) @ embedding.linear.weight.T + embedding.linear.bias)
    torch.testing.assert_close(token[0, 0], by_hand)
    # The shift comes after the norm and before the linear map, which has no bias.
    torch.testing.assert_close(
        expansion(token, (1, 1), (2, 2)).flatten(), expansion.linear.weight @ (normed(by_hand) + expansion.shift)
    )


def test_published_start_is_unit_normal_and_ours_is_not():
    torch.manual_seed(0)
    for init in ("normal", "default"):
        embedding = PatchEmbedding(16, 64, (2, 2), init=init)
        expansion = PatchUnembedding(64, 16, (2, 2), init=init)
        spreads = [embedding.linear.weight.std(), expansion.linear.weight.std()]
        assert all((0.9 < spread < 1.1) == (init == "normal") for spread in spreads)
        assert bool(expansion.shift.abs().sum() > 0) == (init == "normal")
