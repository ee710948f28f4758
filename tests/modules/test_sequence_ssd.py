"""The mixers of sequences against dense matrices, built in float64 from their definitions.

Letters: T tokens, R heads, N states.
"""

import math
from itertools import product

import numpy as np
import pytest
import torch

from skop.modules import BidirectionalSSDMixer, HydraMixer

MIXERS = [HydraMixer, BidirectionalSSDMixer]


def silu(x):
    return x / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def rms_norm(x, weight):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight


def make(mixer, width=8, **options):
    """A mixer in float64 with every weight random, so that none can be forgotten."""
    torch.manual_seed(0)
    module = mixer(width, **({"d_state": 3, "n_heads": 4} | options)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module.eval()


def tokens_of(length, width=8, batch=2):
    return torch.randn(batch, length, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def weights_of(module):
    return {name: value.detach().numpy() for name, value in module.state_dict().items()}


def convolve(x, kernel, bias, first):
    """Depthwise convolution of (T, channels), whose kernel starts at token t + first."""
    result = np.tile(bias, (len(x), 1))
    for t in range(len(x)):
        for k in range(kernel.shape[-1]):
            if 0 <= t + first + k < len(x):
                result[t] += kernel[:, 0, k] * x[t + first + k]
    return result


def semiseparable(steps, decay, map_in, map_out):
    """Dense matrix of one head's causal scan: C_i exp(sum of decays over j < k <= i) dt_j B_j below the diagonal."""
    length = len(steps)
    matrix = np.zeros((length, length))
    for i in range(length):
        for j in range(i + 1):
            matrix[i, j] = map_out[i] @ map_in[j] * math.exp(decay * steps[j + 1 : i + 1].sum()) * steps[j]
    return matrix


def literal_hydra(module, u):
    """One sample (T, width) by the quasi-separable matrix of every head."""
    weights, inner, heads = weights_of(module), module.inner, module.n_heads
    _, _, groups, states = module.maps_shape
    length, size = len(u), inner // heads
    projected = u @ weights["in_projection.weight"].T
    z, xbc, raw = np.split(projected, [inner, projected.shape[1] - 2 * heads], axis=1)
    kernel = weights["convolution.weight"]
    xbc = silu(convolve(xbc, kernel, weights["convolution.bias"], -(kernel.shape[-1] // 2)))
    x, maps = xbc[:, :inner], xbc[:, inner:].reshape(length, 2, 2, groups, states)
    y = np.zeros((length, inner))
    shift = np.eye(length, k=-1)
    for head in range(heads):
        group, columns = head // (heads // groups), slice(head * size, (head + 1) * size)
        decay = -math.exp(weights["log_decay"][head])
        matrix, start = np.zeros((length, length)), np.zeros((length, size))
        for direction in (0, 1):
            turn = slice(None, None, -1 if direction else 1)
            steps = softplus(raw[:, direction * heads + head] + weights["step_bias"][head])[turn]
            map_in, map_out = maps[turn, direction, 0, group], maps[turn, direction, 1, group]
            scan = shift @ semiseparable(steps, decay, map_in, map_out)
            initial = (np.exp(decay * steps.cumsum())[:, None] * map_out) @ weights["initial_state"][head].T
            matrix += scan[turn, turn]
            start += (shift @ initial)[turn]
        # The scans leave the diagonal free.
        assert not matrix.diagonal().any()
        matrix += np.diag(x @ weights["direct_projection.weight"][head] + weights["direct"][head])
        y[:, columns] = matrix @ x[:, columns] + start
    return (rms_norm(y, weights["norm.weight"]) * silu(z)) @ weights["out_projection.weight"].T


def literal_mamba(module, u):
    """One sample (T, width): Mamba-2 on the sequence and on its reverse, averaged."""
    weights, inner, heads, states = weights_of(module), module.inner, module.n_heads, module.d_state
    size = inner // heads
    projected = u @ weights["in_projection.weight"].T
    z, stream, raw = np.split(projected, [inner, 2 * inner + 2 * states], axis=1)
    mean = 0
    for direction in (0, 1):
        turn = slice(None, None, -1 if direction else 1)
        kernel, bias = (weights[f"convolutions.{direction}.{name}"] for name in ("weight", "bias"))
        xbc = silu(convolve(stream[turn], kernel, bias, 1 - kernel.shape[-1]))
        x, map_in, map_out = np.split(xbc, [inner, inner + states], axis=1)
        y = np.zeros_like(x)
        for head in range(heads):
            columns = slice(head * size, (head + 1) * size)
            steps = softplus(raw[turn, head] + weights["step_bias"][direction, head])
            matrix = semiseparable(steps, -math.exp(weights["log_decay"][direction, head]), map_in, map_out)
            matrix += weights["direct"][direction, head] * np.eye(len(u))
            y[:, columns] = matrix @ x[:, columns]
        mean = mean + 0.5 * rms_norm(y[turn] * silu(z), weights["norm.weight"])
    return mean @ weights["out_projection.weight"].T


LITERAL = {HydraMixer: literal_hydra, BidirectionalSSDMixer: literal_mamba}


def test_mixers_are_their_matrices():
    for mixer, length in product(MIXERS, [1, 2, 7, 70]):
        module, tokens = make(mixer), tokens_of(length)
        expected = np.stack([LITERAL[mixer](module, sample.numpy()) for sample in tokens])
        np.testing.assert_allclose(module(tokens).detach().numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", [{"n_heads": 1}, {"d_state": 1, "expand": 1, "n_heads": 2}, {"kernel_size": 5}])
def test_other_sizes_of_hydra_and_an_odd_number_of_heads(options):
    module, tokens = make(HydraMixer, **options), tokens_of(6)
    expected = np.stack([literal_hydra(module, sample.numpy()) for sample in tokens])
    np.testing.assert_allclose(module(tokens).detach().numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mixer", MIXERS)
def test_every_token_hears_every_token(mixer):
    module = make(mixer)
    jacobian = torch.autograd.functional.jacobian(lambda tokens: module(tokens).sum((0, 2)), tokens_of(6, batch=1))
    assert (jacobian.abs().sum(-1)[:, 0] > 1e-9).all()


def test_reversing_the_sequence_reverses_a_mamba_block_whose_directions_are_equal():
    module = make(BidirectionalSSDMixer)
    with torch.no_grad():
        module.convolutions[1].load_state_dict(module.convolutions[0].state_dict())
        for name in ("step_bias", "log_decay", "direct"):
            getattr(module, name)[1] = getattr(module, name)[0]
    tokens = tokens_of(9)
    torch.testing.assert_close(module(tokens.flip(1)), module(tokens).flip(1))


@pytest.mark.parametrize(
    ("mixer", "options", "published"),
    [
        (HydraMixer, {}, 185_612),
        (HydraMixer, {"d_state": 1, "expand": 1}, 51_750),
        (BidirectionalSSDMixer, {}, 119_088),
    ],
)
def test_parameter_counts_and_heads_of_the_public_code(mixer, options, published):
    module = mixer(128, **options)
    assert sum(parameter.numel() for parameter in module.parameters()) == published
    assert module.inner // module.n_heads == (64 if mixer is HydraMixer else 32)


@pytest.mark.parametrize("mixer", MIXERS)
def test_start_values(mixer):
    torch.manual_seed(0)
    module = mixer(128)
    steps = torch.nn.functional.softplus(module.step_bias)
    assert ((steps > 0.99e-3) & (steps < 0.101)).all()
    rates = module.log_decay.exp()
    if mixer is HydraMixer:
        assert (rates == 1).all()
        assert not module.initial_state.any()
    else:
        assert ((rates >= 1) & (rates <= 16)).all()
        assert torch.equal(rates[0], rates[1])
        assert torch.equal(steps[0], steps[1])
    assert (module.direct == 1).all()


def test_sizes_that_do_not_fit_are_refused():
    for mixer in MIXERS:
        with pytest.raises(ValueError, match="n_heads=3 does not divide the inner width 16"):
            mixer(8, n_heads=3)
    with pytest.raises(ValueError, match="kernel_size=4 is even"):
        HydraMixer(8, kernel_size=4)
    assert HydraMixer(100).n_heads == 2  # 200 channels: three heads of about 64 do not fit
