"""Position codes."""

import math

import numpy as np
import pytest
import torch

from skop.modules import CoordinatePositionalEncoding, LearnedPositionalEncoding


def test_the_learned_table_is_zero_at_the_start_and_learns():
    position = LearnedPositionalEncoding(6, 4)
    assert position.table.abs().sum() == 0
    position(torch.zeros(6, 2)).sum().backward()
    assert torch.equal(position.table.grad, torch.ones(6, 4))


@pytest.mark.parametrize("n_tokens", [5, 7])
def test_the_learned_table_serves_its_grid_only(n_tokens):
    with pytest.raises(
        ValueError, match=rf"fitted for 6 tokens and cannot serve {n_tokens}.*positional_encoding='coordinates'"
    ):
        LearnedPositionalEncoding(6, 4)(torch.zeros(n_tokens, 2))


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_coordinate_code_is_a_network_of_sines_and_cosines(n_dims):
    torch.manual_seed(0)
    position = CoordinatePositionalEncoding(n_dims, 8, n_frequencies=3).double()
    centres = torch.rand(5, n_dims, dtype=torch.float64)
    x = centres.numpy()
    angles = np.concatenate([x[:, [axis]] * math.pi * 2.0 ** np.arange(3) for axis in range(n_dims)], axis=1)
    features = torch.from_numpy(np.concatenate([x, np.sin(angles), np.cos(angles)], axis=1))
    expected = position.out(torch.nn.functional.gelu(position.hidden(features)))
    torch.testing.assert_close(position(centres), expected, rtol=1e-6, atol=1e-6)


def test_coordinate_code_depends_on_the_place_only():
    position = CoordinatePositionalEncoding(2, 8)
    centres = torch.rand(6, 2, generator=torch.Generator().manual_seed(0))
    codes = position(centres)
    torch.testing.assert_close(position(centres[[3, 1]]), codes[[3, 1]])
    torch.testing.assert_close(position(centres.expand(4, 6, 2))[2], codes)


def test_frequencies_are_no_weights_and_not_in_the_state():
    position = CoordinatePositionalEncoding(2, 8)
    assert "frequencies" not in position.state_dict()
    assert len(list(position.parameters())) == 4
