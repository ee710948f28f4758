"""LaMO's patch network: its parts in order, its symmetry; see `test_patch_network` for the rest."""

import numpy as np
import pytest
import torch

from .problems import coords_of, fields_on
from .problems import make_lamo as make_network


def count(network):
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("width", "heads", "grid", "n_fields", "parameters"),
    [(64, 4, (85, 85), 1, 1_145_986), (256, 16, (64, 64), 10, 10_061_314)],
)
def test_parameter_counts_are_those_of_the_public_code(width, heads, grid, n_fields, parameters):
    published = {"scan__d_state": 64, "patches__positional_encoding": "learned", "patches__pad_to_multiple": 8}
    network = make_network(grid, n_fields=n_fields, width=width, depth=8, scan__n_heads=heads, **published)
    assert count(network) == parameters


def test_parameter_count_from_the_formulas():
    width, inner, paths, heads, states, hidden = 8, 16, 4, 1, 2, 32
    mixer = width * 2 * inner + 9 * inner + inner + inner * paths * (heads + 2 * states)
    mixer += 2 * paths * heads + paths * inner + 2 * inner + inner * width
    block = 4 * width + mixer + width * hidden + hidden + hidden * width + width
    embedding = (3 * 4) * width + width + 2 * width
    head = 2 * width + width + width * 4
    table = 4 * width
    network = make_network((4, 4), depth=3, patches__positional_encoding="learned")
    assert count(network) == embedding + 3 * block + head + table + 2


def test_the_parts_follow_each_other_as_in_the_paper():
    grid = (5, 4)
    network = make_network(grid)
    coords, fields = coords_of(grid), fields_on(grid)
    image = torch.cat([coords.expand(2, -1, -1), fields], dim=-1).reshape(2, 5, 4, 3)
    tokens = network.embedding(image, (3, 2))
    corners = coords.reshape(5, 4, 2)[::2, ::2].reshape(6, 2)
    tokens = tokens + network.positional_encoding(corners)
    for block in network.blocks:
        tokens = block(tokens, (3, 2))
    expected = network.unembedding(tokens, (3, 2), grid).reshape(2, 20, 1)
    torch.testing.assert_close(network(coords, fields, None, grid).field, expected)


# ---------------------------------------------------------------- other grids
def test_tokens_of_padding_take_the_last_point_of_their_axis():
    network = make_network((4, 4), patches__pad_to_multiple=4)
    coords = coords_of((5, 4)).reshape(5, 4, 2)
    corners = network._corners(coords.reshape(20, 2), (5, 4), (4, 2), (0, 0)).reshape(4, 2, 2)
    np.testing.assert_array_equal(corners[:, 0, 0], coords[[0, 2, 4, 4], 0, 0])
    np.testing.assert_array_equal(corners[0, :, 1], coords[0, [0, 2], 1])


def test_transposing_the_problem_transposes_the_answer():
    # With one weight for all paths, no positions, and kernels and patches that do not know their axes.
    network = make_network((6, 4), scan__path_weights="shared", patches__positional_encoding=None, patches__size=1)
    with torch.no_grad():
        for block in network.blocks:
            block.mixer.convolution.weight.add_(block.mixer.convolution.weight.mT.clone())
        network.embedding.linear.weight[:, 0] = network.embedding.linear.weight[:, 1]
    fields = fields_on((6, 4))
    answer = network(coords_of((6, 4)), fields, None, (6, 4)).field.reshape(2, 6, 4)
    transposed = fields.reshape(2, 6, 4).mT.reshape(2, 24, 1)
    torch.testing.assert_close(network(coords_of((4, 6)), transposed, None, (4, 6)).field.reshape(2, 4, 6), answer.mT)
