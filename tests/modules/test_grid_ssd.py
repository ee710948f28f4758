"""LaMO's token mixer against a literal re-implementation in float64, and its symmetries.

Letters, as in the paper: E width, d = expand x E, R heads, N states, H x W tokens.
"""

import math
from itertools import product

import numpy as np
import pytest
import torch

import skop.modules._grid_ssd
from skop.modules import GridSSDMixer, direction_paths

GELU = np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))))
SILU = np.vectorize(lambda x: x / (1 + math.exp(-x)))


def make_mixer(width=6, n_dims=2, seed=0, **options):
    """A mixer in float64 with every weight random, so that none can be forgotten."""
    torch.manual_seed(seed)
    mixer = GridSSDMixer(width, n_dims, **({"d_state": 3, "n_heads": 2} | options)).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return mixer.eval()


def tokens_for(mixer, grid, batch=2, width=6):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, math.prod(grid), width, generator=generator, dtype=torch.float64)


def literal(mixer, u, height, width, activation, path_weights):
    """One sample (H x W, E) of the 2-D block, loop by loop, as the public code's formulas read."""
    weights = {name: value.detach().numpy() for name, value in mixer.state_dict().items()}
    d, heads = weights["norm.weight"].size, mixer.n_heads
    states, head_dim = mixer.d_state, d // heads

    # Input projection to x and z; z passes the activation.
    projected = u @ weights["in_projection.weight"].T
    x, z = projected[:, :d], activation(projected[:, d:])

    # Depthwise 3 x 3 convolution with bias and zero padding on the token grid, then the activation.
    kernel, bias = weights["convolution.weight"][:, 0], weights["convolution.bias"]
    grid = np.zeros((height + 2, width + 2, d))
    grid[1:-1, 1:-1] = x.reshape(height, width, d)
    convolved = np.zeros((height, width, d))
    for i in range(height):
        for j in range(width):
            for channel in range(d):
                convolved[i, j, channel] = (grid[i : i + 3, j : j + 3, channel] * kernel[channel]).sum() + bias[channel]
    x = activation(convolved).reshape(-1, d)

    # Row-major, its reverse, column-major, its reverse.
    rows = np.arange(height * width)
    columns = rows.reshape(height, width).T.ravel()
    total = np.zeros((height * width, d))
    matrix = weights["path_projection.weight"]
    n_steps = weights["step_bias"].shape[0]
    n_maps = 1 if path_weights != "own" else 4
    step_rows, in_rows = np.split(matrix[: n_steps * heads + n_maps * states], [n_steps * heads])
    out_rows = matrix[n_steps * heads + n_maps * states :]
    for k, path in enumerate([rows, rows[::-1], columns, columns[::-1]]):
        own, maps = (k if n_steps > 1 else 0), (k if n_maps > 1 else 0)
        decay = -np.exp(weights["log_decay"][own])
        state = np.zeros((heads, head_dim, states))
        for token in path:
            raw = step_rows[own * heads : (own + 1) * heads] @ x[token] + weights["step_bias"][own]
            step = np.log1p(np.exp(raw))
            map_in = in_rows[maps * states : (maps + 1) * states] @ x[token]
            map_out = out_rows[maps * states : (maps + 1) * states] @ x[token]
            signal = x[token].reshape(heads, head_dim)
            for head in range(heads):
                state[head] = np.exp(step[head] * decay[head]) * state[head]
                state[head] += step[head] * np.outer(signal[head], map_in)
                y = state[head] @ map_out + weights["direct"][own, head] * signal[head]
                total[token, head * head_dim : (head + 1) * head_dim] += y

    # The sum is normalised, gated and projected back.
    centred = total - total.mean(axis=1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    normed = normed * weights["norm.weight"] + weights["norm.bias"]
    return (normed * z) @ weights["out_projection.weight"].T


def test_mixer_is_the_published_block():
    for path_weights, activation in product(["own", "own_steps", "shared"], ["gelu", "silu"]):
        mixer = make_mixer(activation=activation, path_weights=path_weights)
        tokens = tokens_for(mixer, (3, 4))
        expected = np.stack(
            [
                literal(mixer, sample, 3, 4, {"gelu": GELU, "silu": SILU}[activation], path_weights)
                for sample in tokens.numpy()
            ]
        )
        np.testing.assert_allclose(mixer(tokens, (3, 4)).detach(), expected, rtol=1e-9, atol=1e-11)


def test_long_grids_take_another_implementation_and_agree(monkeypatch):
    mixer = make_mixer()
    tokens = tokens_for(mixer, (9, 16))
    expected = literal(mixer, tokens[0].numpy(), 9, 16, GELU, "own")
    np.testing.assert_allclose(mixer(tokens, (9, 16))[0].detach(), expected, rtol=1e-9, atol=1e-11)


# ---------------------------------------------------------------- sizes and the start
def test_sizes_and_start_of_the_public_code():
    torch.manual_seed(0)
    mixer = GridSSDMixer(64, 2)
    assert (mixer.n_heads, mixer.d_state, mixer.n_paths) == (4, 64, 4)
    assert GridSSDMixer(256, 2, d_state=4).n_heads == 16
    assert mixer.in_projection.bias is mixer.path_projection.bias is mixer.out_projection.bias is None
    assert mixer.convolution.bias is not None
    assert mixer.path_projection.weight.shape == (4 * (4 + 2 * 64), 128)
    assert torch.equal(mixer.direct, torch.ones(4, 4, 32))
    assert torch.equal(mixer.log_decay, torch.zeros(4, 4))
    assert mixer.step_bias.min() >= 0
    assert mixer.step_bias.max() < 0.1


def test_decay_range_spreads_the_heads_evenly_on_a_logarithmic_scale():
    mixer = GridSSDMixer(16, 1, d_state=2, n_heads=4, decay_range=(0.01, 10.0))
    for path in mixer.log_decay.exp():
        np.testing.assert_allclose(path.detach(), [0.01, 0.1, 1.0, 10.0], rtol=1e-5)


def test_what_paths_share():
    own, steps, shared = (GridSSDMixer(16, 2, d_state=4, path_weights=name) for name in ("own", "own_steps", "shared"))
    assert [len(mixer.step_bias) for mixer in (own, steps, shared)] == [4, 4, 1]
    assert [len(mixer.path_projection.weight) for mixer in (own, steps, shared)] == [4 * (1 + 8), 4 + 8, 1 + 8]


def test_heads_must_divide_the_inner_width():
    with pytest.raises(ValueError, match=r"n_heads=5.*inner width 32"):
        GridSSDMixer(16, 2, n_heads=5)


def test_any_odd_kernel_in_any_dimension():
    for n_dims, kernel_size in product([1, 2, 3], [1, 3, 5]):
        mixer = make_mixer(n_dims=n_dims, kernel_size=kernel_size)
        grid = (4, 3, 2)[:n_dims]
        assert mixer(tokens_for(mixer, grid), grid).shape == (2, math.prod(grid), 6)
        assert (mixer.convolution is None) == (kernel_size == 1)


@pytest.mark.parametrize("kernel_size", [2, 4])
def test_an_even_kernel_is_refused(kernel_size):
    with pytest.raises(ValueError, match=f"kernel_size={kernel_size}"):
        make_mixer(kernel_size=kernel_size)


# ---------------------------------------------------------------- symmetries
def on_grid(tokens, grid):
    return tokens.reshape(len(tokens), *grid, -1)


@pytest.mark.parametrize(("scan", "axes"), [("cross", (1, 2)), ("bidirectional", (1, 2)), ("row_corners", (2,))])
def test_turning_the_grid_round_turns_the_output_round(scan, axes):
    mixer = make_mixer(scan_directions=scan, path_weights="shared", kernel_size=1)
    tokens = tokens_for(mixer, (3, 4))
    turned = on_grid(tokens, (3, 4)).flip(axes).reshape(tokens.shape)
    expected = on_grid(mixer(tokens, (3, 4)), (3, 4)).flip(axes).reshape(tokens.shape)
    torch.testing.assert_close(mixer(turned, (3, 4)), expected)


def test_transposing_the_grid_transposes_the_output():
    mixer = make_mixer(path_weights="shared")
    with torch.no_grad():
        mixer.convolution.weight.add_(mixer.convolution.weight.mT.clone())
    tokens = tokens_for(mixer, (3, 4))
    transposed = on_grid(tokens, (3, 4)).transpose(1, 2).reshape(tokens.shape)
    expected = on_grid(mixer(tokens, (3, 4)), (3, 4)).transpose(1, 2).reshape(tokens.shape)
    torch.testing.assert_close(mixer(transposed, (4, 3)), expected)


def test_one_direction_is_causal_and_two_are_not():
    for scan, causal in (("forward", True), ("bidirectional", False)):
        mixer = make_mixer(n_dims=1, scan_directions=scan, kernel_size=1)
        tokens = tokens_for(mixer, (8,))
        changed = tokens.clone()
        changed[:, 5] += 1
        moved = (mixer(changed, (8,)) - mixer(tokens, (8,))).abs().amax(dim=(0, 2)) > 1e-12
        assert bool(moved[:5].any()) != causal
        assert moved[5:].all()


def test_every_token_reaches_every_token():
    mixer = make_mixer()
    tokens = tokens_for(mixer, (3, 4), batch=1).requires_grad_()
    output = mixer(tokens, (3, 4))
    for token in range(12):
        (gradient,) = torch.autograd.grad(output[0, token].sum(), tokens, retain_graph=True)
        assert (gradient.abs().amax(-1) > 0).all()


# ---------------------------------------------------------------- precision and gradients
def test_recurrences_stay_in_float32_under_autocast(monkeypatch):
    mixer, seen = GridSSDMixer(16, 2, d_state=4), {}
    scan = skop.modules._grid_ssd.ssd_scan

    def spy(x, dt, A, B, C, D, *, paths):
        seen.update(dt=dt.dtype, A=A.dtype, D=D.dtype)
        return scan(x, dt, A, B, C, D, paths=paths)

    monkeypatch.setattr(skop.modules._grid_ssd, "ssd_scan", spy)
    tokens = torch.randn(1, 12, 16, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        low = mixer(tokens, (4, 3))
    assert set(seen.values()) == {torch.float32}
    assert low.dtype == torch.bfloat16
    full = mixer(tokens, (4, 3))
    assert (low.float() - full).abs().max() < 0.03 * full.abs().max()


@pytest.mark.parametrize("length", [100, 2000])
def test_long_sums_are_not_lost_under_autocast(length):
    # Without decay the state counts its tokens; bfloat16 would stop counting at 256.
    ones = torch.ones(1, length, 1, 1)
    with torch.autocast("cpu", torch.bfloat16):
        total = skop.modules._grid_ssd.ssd_scan(
            ones.bfloat16(),
            ones.expand(-1, -1, 2, -1),
            torch.zeros(2, 1),
            ones.bfloat16().expand(-1, -1, 2, -1),
            ones.bfloat16().expand(-1, -1, 2, -1),
            paths=direction_paths((length,), ((1,), (-1,))),
        )
    np.testing.assert_allclose(total.float().flatten(), length + 1, rtol=0.005)
