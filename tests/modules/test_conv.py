"""Convolutions at full resolution: what they keep, what they see, and that they know no place."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.ndimage import correlate

from skop.modules import ConvHead, ConvStem, LocalConvolution

GRIDS = [(9,), (7, 8), (6, 5, 7)]


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inside(grid, margin=2):
    """Points far enough from the border that neither padding nor a roll reaches them."""
    return (slice(None), *(slice(margin, -margin) for _ in grid))


@pytest.mark.parametrize("grid", GRIDS)
def test_the_stem_keeps_its_channels_and_appends_features(grid):
    fields = random(2, *grid, 3)
    extended = ConvStem(len(grid), 3, 5).double()(fields)
    assert extended.shape == (2, *grid, 8)
    assert torch.equal(extended[..., :3], fields)


@pytest.mark.parametrize("grid", GRIDS)
def test_the_head_gives_its_channels(grid):
    head = ConvHead(len(grid), 3, 4, 2).double()
    assert head(random(2, *grid, 4), random(2, *grid, 3)).shape == (2, *grid, 2)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_a_lone_point_is_convolved_as_torch_does_it(n_dims):
    stem, fields = ConvStem(n_dims, 3, 5).double(), random(4, *(1,) * n_dims, 3).requires_grad_()
    convolution = stem.convolution
    expected = torch.nn.functional.gelu(convolution(fields.movedim(-1, 1)).movedim(1, -1))
    found = stem(fields)[..., 3:]
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-15)
    inputs = (fields, convolution.weight, convolution.bias)
    gradients = (torch.autograd.grad((part**2).sum(), inputs) for part in (found, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("grid", GRIDS)
def test_shifted_fields_give_shifted_features_inside(grid):
    axes, steps = tuple(range(1, len(grid) + 1)), (1,) * len(grid)
    fields, tokens = random(2, *grid, 3), random(2, *grid, 4, seed=1)
    stem, head = ConvStem(len(grid), 3, 5).double(), ConvHead(len(grid), 3, 4, 2).double()

    def roll(values):
        return torch.roll(values, steps, axes)

    for function, given in ((stem, (fields,)), (head, (tokens, fields))):
        moved = function(*(roll(values) for values in given))
        torch.testing.assert_close(moved[inside(grid)], roll(function(*given))[inside(grid)])


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("kind", ["stem", "head"])
def test_a_point_is_seen_by_its_neighbours_only(grid, kind):
    module = (ConvStem(len(grid), 1, 5) if kind == "stem" else ConvHead(len(grid), 1, 5, 2)).double()
    centre = tuple(size // 2 for size in grid)

    def run(fields):
        return module(fields) if kind == "stem" else module(torch.zeros(1, *grid, 5).double(), fields)

    fields = random(1, *grid, 1)
    changed = fields.clone()
    changed[(0, *centre)] += 1.0
    differs = (run(changed) != run(fields)).any(dim=-1)[0]
    expected = torch.zeros(grid, dtype=torch.bool)
    expected[tuple(slice(place - 1, place + 2) for place in centre)] = True
    assert torch.equal(differs, expected)


def test_the_head_reads_the_tokens_and_the_fields():
    head, tokens, fields = ConvHead(2, 3, 4, 1).double(), random(1, 5, 5, 4), random(1, 5, 5, 3)
    both = head(tokens, fields)
    assert not torch.allclose(head(torch.zeros_like(tokens), fields), both)
    assert not torch.allclose(head(tokens, torch.zeros_like(fields)), both)


def test_a_local_convolution_adds_the_correlation_of_each_channel():
    for grid, kernel_size in product(GRIDS, [3, 5]):
        module, points = LocalConvolution(len(grid), 2, kernel_size).double(), random(3, *grid, 2)
        found = module(points.flatten(1, -2), grid).detach().reshape(3, *grid, 2)
        weight, bias = (value.detach().numpy() for value in (module.convolution.weight, module.convolution.bias))
        for sample in range(3):
            for channel in range(2):
                own = points[sample, ..., channel].numpy()
                expected = own + correlate(own, weight[channel, 0], mode="constant") + bias[channel]
                np.testing.assert_allclose(found[sample, ..., channel], expected, rtol=1e-12, atol=1e-13)


def test_a_kernel_of_one_leaves_points_and_probes_as_they_are():
    module, points = LocalConvolution(2, 4, 1), random(2, 12, 4)
    assert not list(module.parameters())
    assert module(points, None) is points
    assert module.probe(points, points[:, :3], torch.zeros(2, 3, dtype=torch.long), None).equal(points[:, :3])


@pytest.mark.parametrize("grid", GRIDS)
def test_a_probe_is_what_a_point_would_be_in_its_place(grid):
    module, points = LocalConvolution(len(grid), 4, 3).double(), random(2, *grid, 4).flatten(1, -2)
    places = torch.tensor([[0, points.shape[1] // 2, 1], [3, 3, points.shape[1] - 1]])
    others = random(2, 3, 4, seed=1)
    found = module.probe(points, others, places, grid)
    for sample in range(2):
        for number, place in enumerate(places[sample]):
            replaced = points.clone()
            replaced[sample, place] = others[sample, number]
            expected = module(replaced, grid)[sample, place]
            torch.testing.assert_close(found[sample, number], expected, rtol=1e-12, atol=1e-13)


def test_a_local_convolution_says_what_it_needs():
    with pytest.raises(ValueError, match="kernel_size=4; expected an odd number"):
        LocalConvolution(2, 4, 4)
    for grid in (None, (3, 5)):
        with pytest.raises(ValueError, match="for 12 points; expected the shape of their grid"):
            LocalConvolution(2, 4, 3)(random(2, 12, 4).float(), grid)
