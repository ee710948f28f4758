"""Packed samples in rows that are filled up, and back."""

import pytest
import torch

from skop.modules._packing import Padding, group_by_size, padding_of


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("sizes", [(3, 1, 4), (2, 2), (5,)])
def test_tokens_come_back_and_zeros_stand_behind_them(sizes):
    padding, packed = Padding(sizes, torch.device("cpu")), random(1, sum(sizes), 2, 3)
    rows = padding.fill(packed)
    assert rows.shape == (len(sizes), max(sizes), 2, 3)
    for row, own, size in zip(rows, packed[0].split(sizes), sizes, strict=True):
        assert torch.equal(row[:size], own)
        assert not row[size:].any()
    assert torch.equal(padding.take(rows + ~padding.is_token[:, :, None, None]), packed)
    assert padding.counts.tolist() == list(sizes)


@pytest.mark.parametrize("sizes", [(3, 1, 4), (2, 2)])
def test_first_and_second_derivatives(sizes):
    padding = Padding(sizes, torch.device("cpu"))
    for function, shape in ((padding.fill, (1, sum(sizes), 2)), (padding.take, (*padding.shape, 2))):
        values = random(*shape).requires_grad_()
        assert torch.autograd.gradcheck(lambda given, own=function: own(given).sin(), values)
        assert torch.autograd.gradgradcheck(lambda given, own=function: own(given).sin(), values)


def test_a_padding_first_used_in_inference_can_be_trained_with():
    sizes, packed = (3, 1, 5), random(1, 9, 2).requires_grad_()
    with torch.inference_mode():
        padding_of(sizes, torch.device("cpu")).fill(packed)
    padding = padding_of(sizes, torch.device("cpu"))
    padding.take(padding.fill(packed)).sum().backward()
    assert torch.equal(packed.grad, torch.ones_like(packed))


def test_groups_hold_every_sample_once_and_need_little_filling():
    generator = torch.Generator().manual_seed(0)
    for low, high, most in ((1, 3, 1), (100, 200, 4), (200, 500, 6), (1_000, 2_000, 16)):
        sizes = tuple(torch.randint(low, high, (16,), generator=generator).tolist())
        groups = group_by_size(sizes)
        assert sorted(number for group in groups for number in group) == list(range(16))
        assert len(groups) <= most
        for group in groups:
            own = [sizes[number] for number in group]
            assert len(own) * max(own) - sum(own) <= 512
            assert len(own) == 1 or max(own) <= 512


def test_large_samples_share_a_group_where_that_is_asked_for():
    sizes = (5_000, 20, 4_900, 20)
    assert group_by_size(sizes) == ((0,), (2,), (1, 3))
    assert group_by_size(sizes, 4_096, None) == ((0, 2), (1, 3))
