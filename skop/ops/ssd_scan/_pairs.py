"""All pairs of tokens at once: the plain forms of `skop.ops.ssd_scan` for few tokens.

Notation of the shapes: b batch, l tokens, k paths, m pairs of opposite paths, h heads, p channels of a
head, n states. Notation of the maths as in the README: s sum of the log-decays up to a token,
W weight with which token j enters the output of token i.

Of paths in opposite pairs, a path and its reverse reach complementary pairs of tokens, so that both
fit into one matrix: entries below the diagonal (in the order of the path) come from the path, those
above from its reverse, and the diagonal from both. That halves the exponentials and products, which
are most of the time.
"""

from collections.abc import Sequence
from functools import partial
from math import e, inf, log, log2
from typing import Any

import torch
from torch import Tensor

from skop.ops._autograd import differentiable_gradients

__all__ = ["scan_all_pairs", "scan_pairs"]

# Powers of two: torch's exp slows down several times where it underflows, exp2 does not.
_LOG2_E = log2(e)
_LN_2 = log(2)


def scan_pairs(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, paths: Tensor) -> Tensor:
    """Scan along paths in opposite pairs, without the direct term: y (batch, length, heads, head_dim).

    The arguments have the shapes of `skop.ops.ssd_scan` with paths, in one precision; even rows of the paths are paths
    and each odd row is the reverse of the row before it.
    """
    if x.shape[1] == 1:
        return _scan_lone_token(x, dt, A, B, C)
    # Visiting order of each pair, and the place of each token in it.
    order = paths[::2]
    rank = torch.argsort(order, dim=1)
    steps = dt.permute(2, 3, 0, 1)  # k h b l
    logs = steps * (A[:, :, None, None] * _LOG2_E)
    forward = _cumulate(logs[::2], order, rank)
    # Along the reverse path the sum runs from the last token: total minus what lies before the token.
    ahead = _cumulate(logs[1::2], order, rank)
    backward = logs[1::2] - ahead
    sums = torch.stack([forward, backward], dim=1).permute(3, 0, 1, 2, 4)  # b m 2 h l
    # The step enters as one more power of two; the floor keeps the logarithm of a vanished step finite.
    sizes = torch.log2(steps.clamp_min(torch.finfo(steps.dtype).tiny))
    sources = sizes.unflatten(0, (-1, 2)).permute(3, 0, 1, 2, 4) - sums
    later = rank[:, :, None] < rank[:, None, :]  # m i j: token j comes after token i
    inner = C.permute(0, 2, 1, 3) @ B.permute(0, 2, 3, 1)  # b k i j
    maps = inner
    if inner.shape[1] > 1:
        pairs = inner.unflatten(1, (-1, 2))
        maps = torch.where(later, pairs[:, :, 1], pairs[:, :, 0])  # b m i j
    # The own token enters each path, but the matrix holds it once for each pair.
    reverse = slice(None) if inner.shape[1] == 1 else slice(1, None, 2)
    own = (C * B).sum(-1)[..., reverse, None] * dt[..., 1::2, :]  # b l m h
    y = _WeightedSum.apply(x.transpose(1, 2), sums, sources, maps, later)
    return y.transpose(1, 2) + own.sum(2)[..., None] * x


def scan_all_pairs(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, start: Tensor | None, directions: Sequence[bool]
) -> Tensor:
    """Scan groups of heads along the sequence or its reverse, without the direct term: y of the shape of x.

    The arguments are those of all implementations, with an x for each group, and a direction of each group: True for
    the reverse.
    """
    reach = torch.ones(x.shape[1], x.shape[1], dtype=dt.dtype, device=dt.device).tril()
    reach = torch.stack([reach.mT if is_reversed else reach for is_reversed in directions]).unsqueeze(1)  # k 1 i j
    steps = dt.permute(0, 2, 3, 1)  # b k h l
    sums = reach @ (steps * (A * _LOG2_E).unsqueeze(-1)).unsqueeze(-1)
    # The choice comes before the exponential, so that growth away from a token cannot overflow.
    decays = (sums - sums.mT).masked_fill(reach == 0, -inf).exp2()
    maps_out = C.transpose(1, 2)
    weights = decays * (maps_out @ B.permute(0, 2, 3, 1)).unsqueeze(2) * steps.unsqueeze(-2)
    y = weights @ x.permute(0, 2, 3, 1, 4)  # b k h l p
    if start is not None:
        y = y + (maps_out.unsqueeze(2) @ start.mT) * sums.exp2()
    return y.permute(0, 3, 1, 2, 4)


def _scan_lone_token(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """The same for one token, as tables have: every path starts and ends at it."""
    # A has no influence, but a gradient: zero, for which optimisers still decay a weight.
    steps = dt + 0 * A
    inner = (C * B).sum(-1)  # b l k
    weights = inner * steps.sum(2) if inner.shape[2] == 1 else (inner[..., None] * steps).sum(2)  # b l h
    return weights[..., None] * x


def _cumulate(logs: Tensor, order: Tensor, rank: Tensor) -> Tensor:
    """Sum log-decays (m, h, b, l) along the order of each pair, tokens staying where they are."""
    index = order[:, None, None].expand_as(logs)
    place = rank[:, None, None].expand_as(logs)
    return torch.gather(torch.cumsum(torch.gather(logs, 3, index), dim=3), 3, place)


class _WeightedSum(torch.autograd.Function):
    """y_i = sum_j W_ij x_j with W = sum over pairs of 2^(sum_i + source_j) * maps_ij.

    Written out because plain autograd would keep and pass over four times as many (l, l) matrices.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, sums: Tensor, sources: Tensor, maps: Tensor, later: Tensor) -> Tensor:
        """Arguments: x (b, h, l, p), sums and sources (b, m, 2, h, l), maps (b, m or 1, l, l), later (m, l, l)."""
        decays = _decays(sums, sources, later)
        if maps.shape[1] == 1:
            weights = decays.sum(1).mul_(maps)
        else:
            weights = decays[:, 0] * maps[:, 0, None]
            for pair in range(1, maps.shape[1]):
                weights.addcmul_(decays[:, pair], maps[:, pair, None])
        ctx.save_for_backward(x, sums, sources, maps, later, decays, weights)
        return weights @ x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of all floating arguments."""
        x, sums, sources, maps, later, decays, weights = ctx.saved_tensors
        if torch.is_grad_enabled():  # only where a second derivative will be asked for
            plain = partial(_weighted_sum, later=later)
            return (*differentiable_gradients(plain, (x, sums, sources, maps), (grad,)), None)
        product = (grad @ x.mT)[:, None] * decays  # b m h i j
        grad_maps = product.sum(2)
        if maps.shape[1] == 1:
            grad_maps = grad_maps.sum(1, keepdim=True)
        product.mul_(maps[:, :, None])
        reverse = product * later[:, None]
        product.sub_(reverse)
        both = (product, reverse)
        grad_sums = torch.stack([part.sum(-1) for part in both], dim=2).mul_(_LN_2)
        grad_sources = torch.stack([part.sum(-2) for part in both], dim=2).mul_(_LN_2)
        return weights.mT @ grad, grad_sums, grad_sources, grad_maps, None


def _decays(sums: Tensor, sources: Tensor, later: Tensor) -> Tensor:
    """Decay of each pair of tokens times the step of the source, (b, m, h, i, j)."""
    exponents = sums[..., :, None] + sources[..., None, :]
    # The choice comes before the exponential, so that the other direction's growth cannot overflow.
    return torch.where(later[:, None], exponents[:, :, 1], exponents[:, :, 0]).exp2()


def _weighted_sum(x: Tensor, sums: Tensor, sources: Tensor, maps: Tensor, later: Tensor) -> Tensor:
    """The same sum by plain autograd."""
    return (_decays(sums, sources, later) * maps[:, :, None]).sum(1) @ x
