"""Residual block, feed-forward part and pooled head against their formulas."""

import pytest
import torch
from torch import nn

from skop.modules import (
    FeedForward,
    LatentBlock,
    LatentPooling,
    PointBlock,
    PooledHead,
    PreNormBlock,
    ResidualDropout,
    TokenMixer,
    set_drop_path,
)

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
    expected = middle + block.mlp(block.norm_mlp(middle))
    torch.testing.assert_close(block(TOKENS, (2, 3)), expected)


def test_feed_forward_is_two_linear_maps_with_an_exact_gelu():
    feed = FeedForward(8, 16)
    hidden = TOKENS @ feed.fc1.weight.T + feed.fc1.bias
    gelu = hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
    torch.testing.assert_close(feed(TOKENS), gelu @ feed.fc2.weight.T + feed.fc2.bias)


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


@pytest.mark.parametrize(
    ("shape", "sizes"), [((400, 3, 2), None), ((1000, 2), (2, 3) * 200), ((1, 1000, 2), (2, 3) * 200)]
)
def test_drop_path_leaves_out_or_enlarges_the_whole_branch_of_a_sample(shape, sizes):
    torch.manual_seed(0)
    branch = ResidualDropout()
    assert set_drop_path(branch, 0.25) == 1
    dropped = branch(torch.ones(shape), sizes).reshape(-1, 2)
    samples = dropped.split([3] * 400 if sizes is None else sizes)
    assert all(torch.equal(sample, sample[:1, :1].expand_as(sample)) for sample in samples)
    kept = torch.stack([sample[0, 0] for sample in samples])
    assert set(kept.tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    # 400 draws: four standard deviations of the mean are 0.116.
    assert abs(kept.mean().item() - 1) < 0.116


def test_drop_path_acts_in_training_only_and_draws_nothing_at_a_rate_of_zero():
    branch, random_state = ResidualDropout(), torch.get_rng_state()
    assert torch.equal(branch(TOKENS), TOKENS)
    set_drop_path(branch, 0.9)
    assert torch.equal(branch.eval()(TOKENS), TOKENS)
    assert torch.equal(torch.get_rng_state(), random_state)


def test_pooled_head_is_the_mean_of_normed_tokens_in_any_order_and_number():
    head = PooledHead(8, 3)
    expected = head.linear(torch.nn.functional.layer_norm(TOKENS, (8,)).mean(1))
    torch.testing.assert_close(head(TOKENS), expected)
    torch.testing.assert_close(head(TOKENS.flip(1)), head(TOKENS))
    torch.testing.assert_close(head(TOKENS.repeat(1, 3, 1)), head(TOKENS))


# ---------------------------------------------------------------- blocks of points
class SoftmaxPool(PointBlock):
    """A block whose summary is a softmax over all points, which parts of a sample can not simply add up."""

    def encode(self, points, coords, sizes=None, grid_shape=None):
        samples = points.unbind() if sizes is None else points.split(sizes)
        top = torch.stack([own.amax(0) for own in samples])
        rows = [(own - peak).exp() for own, peak in zip(samples, top, strict=True)]
        sums = [(weights * own).sum(0) for weights, own in zip(rows, samples, strict=True)]
        return top, torch.stack([weights.sum(0) for weights in rows]), torch.stack(sums)

    def merge(self, first, second):
        top = torch.maximum(first[0], second[0])
        scales = [(part[0] - top).exp() for part in (first, second)]
        return top, *(first[i] * scales[0] + second[i] * scales[1] for i in (1, 2))

    def mix(self, summary):
        return (summary[2] / summary[1])[:, None]

    def decode(self, points, coords, latents, sizes=None, grid_shape=None):
        latents = latents if sizes is None else latents[:, 0].repeat_interleave(torch.tensor(sizes), 0)
        return points + latents.tanh()


@pytest.mark.parametrize("chunk_size", [1, 3, 9])
@torch.no_grad()
def test_a_block_with_its_own_summary_is_packed_queried_and_cut_into_chunks(chunk_size):
    block, points, sizes = SoftmaxPool(), TOKENS.double().reshape(12, 8), (9, 3)
    moved, latents = block(points, None, sizes)
    for number, (own, found) in enumerate(zip(points.split(sizes), moved.split(sizes), strict=True)):
        expected = own + ((own.softmax(0) * own).sum(0)).tanh()
        torch.testing.assert_close(found, expected)
        alone, others = own[None].clone(), own[None, :2].clone()
        torch.testing.assert_close(block.decode(others, None, latents[number : number + 1])[0], expected[:2])
        nowhere = torch.zeros(1, len(own), 0)
        block.update_in_place([(alone, nowhere), (others, nowhere[:, :2])], chunk_size)
        torch.testing.assert_close(alone[0], expected)
        torch.testing.assert_close(others[0], expected[:2])


def test_shared_latent_tokens_are_no_weights_of_the_block():
    latents = LatentPooling(8, 3, 2)
    own, shared = (LatentBlock(TokenMixer(), FeedForward(8, 8), latents, 8, shared=shared) for shared in (False, True))
    assert {name for name in own.state_dict() if name.startswith("latents.")}
    assert not {name for name in shared.state_dict() if name.startswith("latents.")}
    assert shared.latents is own.latents is latents


@pytest.mark.parametrize("method", ["encode", "mix", "decode"])
def test_an_unfinished_block_says_what_it_lacks(method):
    arguments = {"encode": (TOKENS, None), "mix": ((),), "decode": (TOKENS, None, TOKENS)}[method]
    with pytest.raises(NotImplementedError, match=f"PointBlock has to define {method}"):
        getattr(PointBlock(), method)(*arguments)
