"""Residual block, feed-forward part and pooled head against their formulas."""

import pytest
import torch
from torch import nn

from skop.modules import FeedForward, PooledHead, PreNormBlock

TOKENS = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))


class ReverseTokens(nn.Module):
    """A mixer with a known answer."""

    def forward(self, tokens, token_grid):
        assert token_grid == (2, 3)
        return tokens.flip(1)


def test_block_is_equations_11_and_12():
    torch.manual_seed(0)
    block = PreNormBlock(ReverseTokens(), 8, 16)
    middle = TOKENS + block.norm_mixer(TOKENS).flip(1)
    expected = middle + block.feed(block.norm_feed(middle))
    torch.testing.assert_close(block(TOKENS, (2, 3)), expected)


def test_feed_forward_is_two_linear_maps_with_an_exact_gelu():
    feed = FeedForward(8, 16)
    hidden = TOKENS @ feed.expand.weight.T + feed.expand.bias
    gelu = hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
    torch.testing.assert_close(feed(TOKENS), gelu @ feed.contract.weight.T + feed.contract.bias)


def test_tokens_are_fed_forward_one_by_one():
    feed = FeedForward(8, 16)
    order = torch.tensor([5, 0, 3, 1, 4, 2])
    torch.testing.assert_close(feed(TOKENS[:, order]), feed(TOKENS)[:, order])


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_acts_in_training_only(dropout):
    torch.manual_seed(0)
    block = PreNormBlock(ReverseTokens(), 8, 16, dropout)
    trained = [block(TOKENS, (2, 3)) for _ in range(2)]
    assert torch.equal(*trained) == (dropout == 0)
    block.eval()
    assert torch.equal(block(TOKENS, (2, 3)), block(TOKENS, (2, 3)))


def test_pooled_head_is_the_mean_of_normed_tokens_in_any_order_and_number():
    head = PooledHead(8, 3)
    expected = head.linear(torch.nn.functional.layer_norm(TOKENS, (8,)).mean(1))
    torch.testing.assert_close(head(TOKENS), expected[:, None])
    torch.testing.assert_close(head(TOKENS.flip(1)), head(TOKENS))
    torch.testing.assert_close(head(TOKENS.repeat(1, 3, 1)), head(TOKENS))
