"""AMO's mixer against loops over poles, directions and channels in complex128, and laws of its expansions.

Notation, as in the module: B samples, L tokens, I inner width, S directions, H sets of poles for each direction, K
poles of a set, C = I / H channels of a set; z_m = exp(2 pi i m / L) is the place of the m-th token of a path.
"""

from itertools import product
from math import prod

import numpy as np
import pytest
import torch
from scipy.special import erf

from skop.modules import TRANSFORMS, PrintedExpansions, TakenakaMalmquistMixer
from skop.modules._takenaka_malmquist import Poles
from skop.ops import takenaka_malmquist_basis

WIDTH = 6


def make(n_dims=1, **options):
    """A mixer in float64 with every weight random, so that none can be forgotten."""
    torch.manual_seed(0)
    sizes = {"n_poles": 3, "expand": 2, "d_state": 2, "kernel_size": 3}
    mixer = TakenakaMalmquistMixer(WIDTH, n_dims, **(sizes | options)).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, dtype=torch.float64)
    return mixer


def transparent(width, poles, *, mean=1.0, **options):
    """A mixer that is its expansion alone, of tokens plus 50: with fixed poles (S, K) and all weights 1.

    GELU is the identity at 50, where the signal and the gate are.
    """
    poles = torch.tensor([[(own.real, own.imag) for own in map(complex, row)] for row in poles], dtype=torch.float64)
    sizes = {"expand": 1, "d_state": 0, "kernel_size": 1, "adaptive_poles": False, "scan_directions": "forward"}
    mixer = TakenakaMalmquistMixer(width, n_poles=poles.shape[1], **(sizes | options)).double()
    with torch.no_grad():
        mixer.poles.places.copy_(poles)
        mixer.in_projection.weight.copy_(torch.cat([torch.eye(width), torch.zeros(width, width)]))
        mixer.in_projection.bias.fill_(50.0)
        mixer.out_projection.weight.copy_(torch.eye(width, dtype=torch.float64) / 50)
        mixer.out_projection.bias.zero_()
        mixer.weights.copy_(torch.tensor([1.0, 0.0])[:, None])
        mixer.direct.zero_()
        mixer.means.fill_(mean)
    return mixer


def random(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---------------------------------------------------------------- the equations, written out
def numbers(tensor):
    return tensor.detach().numpy()


def linear(layer, x):
    return x @ numbers(layer.weight).T + (0 if layer.bias is None else numbers(layer.bias))


def gelu(x):
    return x * (1 + erf(x / np.sqrt(2))) / 2


def poles_of(module, tokens):
    """Complex poles (sets, K) of one sample (L, E)."""
    hidden = gelu(linear(module.network[0], tokens.mean(axis=0)))
    v = linear(module.network[2], hidden).reshape(module.shape) + numbers(module.places)
    v = v[..., 0] + 1j * v[..., 1]
    return module.max_radius * v / np.sqrt(1 + abs(v) ** 2)


def functions(poles, z, orthogonal):
    """Values B_k(z) (K, len(z)) of one set of poles: Eq. 6, or Eq. 5 where they are not orthogonal."""
    rows = []
    for k, a in enumerate(poles):
        row = np.sqrt(1 - abs(a) ** 2) / (1 - np.conj(a) * z)
        for b in poles[:k] if orthogonal else ():
            row = row * (z - b) / (1 - np.conj(b) * z)
        rows.append(row)
    return np.array(rows)


def circle(count):
    return np.exp(2j * np.pi * np.arange(count) / count)


def convolved(mixer, signal, grid):
    """Depthwise convolution of (L, I) with zeros outside, one token and one tap at a time."""
    size = mixer.kernel_size
    if size == 1:
        return signal
    image, found = signal.reshape(*grid, -1), np.zeros((*grid, signal.shape[1]))
    for place in np.ndindex(*grid):
        found[place] = numbers(mixer.kernel_bias)
        for tap in np.ndindex(*[size] * len(grid)):
            source = tuple(p + t - size // 2 for p, t in zip(place, tap, strict=True))
            if all(0 <= s < extent for s, extent in zip(source, grid, strict=True)):
                found[place] += numbers(mixer.kernel)[(slice(None), 0, *tap)] * image[source]
    return found.reshape(signal.shape)


def expanded(mixer, signal, sets, paths):
    """Eq. 11 and 12 with the factor 1 / L, weights for the coefficients, and real tokens."""
    count, inner = signal.shape
    channels, total = inner // mixer.n_heads, np.zeros_like(signal)
    weights = numbers(mixer.weights)
    for s, path in enumerate(paths):
        for h in range(mixer.n_heads):
            basis = functions(sets[s * mixer.n_heads + h], circle(count), mixer.orthogonal)
            own = slice(h * channels, (h + 1) * channels)
            for k, row in enumerate(basis):
                c = sum(signal[path[m], own] * np.conj(row[m]) for m in range(count)) / count
                weighed = (weights[h, s, k, 0] - 1j * weights[h, s, k, 1]) * c
                if mixer.rank:
                    rate = numbers(mixer.rates)[h, s, k]
                    weighed = weighed + linear(mixer.spread, (rate[0] - 1j * rate[1]) * linear(mixer.reduce, c))
                for m in range(count):
                    total[path[m], own] += 2 * (weighed * row[m]).real / len(paths)
    return total - numbers(mixer.means) * signal.mean(axis=0)


def filtered(mixer, signal, sets, paths):
    """Eq. 9: a causal filter along each path whose transfer function is the sum of the conjugate functions."""
    count, inner = signal.shape
    channels, total = inner // mixer.n_heads, np.zeros_like(signal)
    weights = numbers(mixer.weights)
    for s, path in enumerate(paths):
        for h in range(mixer.n_heads):
            # Taylor coefficients: a Fourier transform on so fine a circle that the poles' powers have died out.
            taylor = np.fft.fft(functions(sets[s * mixer.n_heads + h], circle(2048), mixer.orthogonal)) / 2048
            for c in range(channels):
                weight = weights[h, s, :, 0, c] + 1j * weights[h, s, :, 1, c]
                response = (weight[:, None] * taylor.conj()).sum(axis=0).real
                for m in range(count):
                    past = (response[j] * signal[path[m - j], h * channels + c] for j in range(m + 1))
                    total[path[m], h * channels + c] += sum(past) / len(paths)
    return total


def reference(mixer, tokens, grid, paths):
    """The mixer on one sample (L, E)."""
    sets = poles_of(mixer.poles, tokens)
    signal, gate = np.split(linear(mixer.in_projection, tokens), 2, axis=1)
    signal = gelu(convolved(mixer, signal, grid))
    mixed = (expanded if mixer.transform == "coefficients" else filtered)(mixer, signal, sets, paths)
    return linear(mixer.out_projection, (mixed + numbers(mixer.direct) * signal) * gelu(gate))


LINE = list(range(7))
ROWS, COLUMNS = [0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5]
CASES = {
    "there and back": (1, (7,), {}, [LINE, LINE[::-1]]),
    "forward": (1, (7,), {"scan_directions": "forward"}, [LINE]),
    "the paper's kernel of 4": (1, (7,), {"kernel_size": 4}, [LINE, LINE[::-1]]),
    "no convolution, no rank": (1, (7,), {"kernel_size": 1, "d_state": 0}, [LINE, LINE[::-1]]),
    "several sets": (1, (7,), {"n_pole_heads": 3}, [LINE, LINE[::-1]]),
    "plain kernels": (1, (7,), {"orthogonal": False}, [LINE, LINE[::-1]]),
    "a matrix crossed": (
        2, (2, 3), {"scan_directions": "cross", "n_pole_heads": 2}, [ROWS, COLUMNS, ROWS[::-1], COLUMNS[::-1]]
    ),
    "a cube": (3, (2, 1, 2), {"kernel_size": 2, "max_radius": 0.6}, [[0, 1, 2, 3], [3, 2, 1, 0]]),
}  # fmt: skip


def test_the_mixer_is_that_of_the_equations():
    for case, transform in product(CASES, TRANSFORMS):
        n_dims, grid, options, paths = CASES[case]
        mixer, tokens = make(n_dims, transform=transform, **options), random(2, prod(grid), WIDTH)
        expected = np.stack([reference(mixer, numbers(own), grid, paths) for own in tokens])
        np.testing.assert_allclose(numbers(mixer(tokens, grid)), expected, rtol=1e-9, atol=1e-11)


# ---------------------------------------------------------------- poles
def test_adaptive_poles_differ_between_samples_and_stay_within_the_radius():
    torch.manual_seed(0)
    poles = Poles(WIDTH, 2, 5, max_radius=0.9)
    found = poles(random(3, 4, WIDTH).float())
    assert found.shape == (3, 2, 5, 2)
    assert (found[0] - found[1]).norm(dim=-1).min() > 1e-5
    # A pole depends on the mean of the tokens alone.
    tokens = random(1, 4, WIDTH).float()
    torch.testing.assert_close(poles(tokens), poles(tokens.mean(dim=1, keepdim=True)))


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e12])
def test_poles_stay_within_the_radius_whatever_the_tokens(scale):
    torch.manual_seed(0)
    poles = Poles(WIDTH, 2, 5, max_radius=0.9)(scale * random(8, 4, WIDTH).float())
    sizes = poles.norm(dim=-1)
    assert sizes.max() <= 0.9 * (1 + 1e-6)
    if scale > 1:
        assert sizes.max() > 0.9 * (1 - 1e-4)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_huge_tokens_give_finite_outputs_and_gradients(transform):
    mixer = make(transform=transform).float()
    tokens = (1e4 * random(2, 9, WIDTH).float()).requires_grad_()
    mixer(tokens).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in mixer.parameters())
    assert tokens.grad.isfinite().all()


def test_initial_poles_lie_apart_on_a_ring():
    torch.manual_seed(0)
    poles = Poles(64, 3, 16)(torch.zeros(1, 4, 64))[0]
    sizes = poles.norm(dim=-1)
    assert sizes.min() > 0.05
    assert 0.6 < sizes.max() < 0.95
    gaps = (poles[:, :, None] - poles[:, None]).norm(dim=-1) + torch.eye(16)
    assert gaps.min() > 0.05
    assert (poles[0] - poles[1]).norm(dim=-1).min() > 0.01


def test_static_poles_are_the_same_for_all_samples_and_saved_but_not_learned():
    torch.manual_seed(0)
    poles = Poles(WIDTH, 2, 5, adaptive=False, max_radius=0.5)
    found = poles(random(3, 4, WIDTH))
    assert found.shape == (3, 2, 5, 2)
    assert torch.equal(found[0], found[2])
    assert list(poles.parameters()) == []
    assert found.norm(dim=-1).max() < 0.5
    other = Poles(WIDTH, 2, 5, adaptive=False, max_radius=0.5)
    assert not torch.equal(other.places, poles.places)
    other.load_state_dict(poles.state_dict())
    assert torch.equal(other(random(1, 4, WIDTH)), found[:1])


def test_static_poles_are_drawn_evenly_from_the_disk():
    torch.manual_seed(0)
    sizes = Poles(2, 1, 20_000, adaptive=False, max_radius=0.8).places.norm(dim=-1)
    # A quarter of the disk lies within half its radius.
    assert (sizes < 0.4).float().mean() == pytest.approx(0.25, abs=0.01)
    assert sizes.max() == pytest.approx(0.8, abs=0.001)


def test_adaptive_poles_learn_and_their_places_do_not_decay():
    mixer = make(max_radius=0.8)
    mixer(random(2, 7, WIDTH)).square().sum().backward()
    for parameter in (mixer.poles.places, *mixer.poles.network.parameters()):
        assert parameter.grad.abs().max() > 1e-8
    assert mixer.poles.no_weight_decay == ("places",)


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_the_way_back_is_the_way_there_on_reversed_tokens(transform):
    options = {"kernel_size": 1, "transform": transform, "adaptive_poles": False, "d_state": 0}
    both, ahead = make(scan_directions="bidirectional", **options), make(scan_directions="forward", **options)
    with torch.no_grad():
        both.weights[:, 0] = 0
        state = both.state_dict()
        # Directions are averaged.
        ahead.load_state_dict(state | {"weights": state["weights"][:, 1:] / 2, "poles.places": both.poles.places[1:]})
    tokens = random(2, 7, WIDTH)
    torch.testing.assert_close(ahead(tokens.flip(1)).flip(1), both(tokens))


def test_a_filter_reads_the_tokens_before_only_and_coefficients_read_all():
    tokens = random(1, 7, WIDTH)
    changed = tokens.clone()
    changed[:, 4] += 1
    for transform, first in (("filter", 4), ("coefficients", 0)):
        mixer = make(
            transform=transform, kernel_size=1, adaptive_poles=False, scan_directions="forward", max_radius=0.5
        )
        moved = (mixer(changed) - mixer(tokens)).abs().amax(dim=(0, 2)) > 1e-9
        assert moved.tolist() == [place >= first for place in range(7)]


def test_the_expansion_is_linear_in_the_signal():
    mixer = transparent(2, [[0.3 + 0.2j, -0.5j, 0.7]])
    first, second = random(1, 20, 2), random(1, 20, 2, seed=2)
    nothing = mixer(0 * first)
    combined = mixer(2 * first - 3 * second) - nothing
    torch.testing.assert_close(combined, 2 * (mixer(first) - nothing) - 3 * (mixer(second) - nothing))


def test_poles_at_the_origin_keep_the_low_frequencies():
    for directions, count in product([1, 2], [16, 17]):
        mixer = transparent(3, [[0] * 5] * directions, scan_directions=("forward", "bidirectional")[directions - 1])
        tokens = random(2, count, 3)
        spectrum = torch.fft.rfft(tokens, dim=1)
        spectrum[:, 5:] = 0
        smooth = torch.fft.irfft(spectrum, count, dim=1)
        torch.testing.assert_close(mixer(tokens), smooth + 50)
        torch.testing.assert_close(mixer(smooth), smooth + 50)


def test_a_signal_of_two_poles_is_found_again_by_these_and_by_no_others():
    # A sum of two Poisson kernels: sharp peaks of which Fourier series need many terms.
    z = torch.from_numpy(circle(256))
    poles = [0.85 * np.exp(0.4j), 0.7 * np.exp(-2j)]
    peaks = sum(size / (1 - np.conj(a) * z) for a, size in zip(poles, (1.0, -2.0), strict=True)).real[None, :, None]
    torch.testing.assert_close(transparent(1, [[0, *poles]])(peaks), peaks + 50)
    for others in ([0, 0, 0], [0, 0.85, 0.7]):
        error = (transparent(1, [others])(peaks) - 50 - peaks).norm() / peaks.norm()
        assert error > 0.3


def test_an_expansion_of_an_expansion_is_itself_where_functions_are_orthogonal():
    poles, tokens = [[0, 0.5, 0.4 + 0.3j, -0.6j]], random(1, 128, 2)
    once = transparent(2, poles)(tokens) - 50
    torch.testing.assert_close(transparent(2, poles)(once) - 50, once)
    # No projection gives more than it got.
    assert once.norm() < tokens.norm()
    plain = transparent(2, poles, orthogonal=False)
    once = plain(tokens) - plain(0 * tokens)
    assert not torch.allclose(plain(once) - plain(0 * tokens), once, rtol=0.1)


# ---------------------------------------------------------------- the equations as printed
def printed(module, tokens):
    """Eq. 12 and 13 for one sample (L, E), with the real part of each expansion: also the parts of the blocks."""
    count = len(tokens)
    hidden = linear(module.enter.fc1, tokens)
    z = linear(module.enter.fc2, gelu(hidden))
    parts = []
    for number, poles in enumerate(module.poles):
        own = poles_of(poles, z)[0] if poles.network is not None else numbers(poles.places)[0] @ [1, 1j]
        row = functions(own, circle(count), module.orthogonal)[-1]
        c = np.array([sum(z[n, e] * np.conj(row[n]) for n in range(count)) for e in range(z.shape[1])])
        part = np.array([[(c[e] * row[n]).real for e in range(z.shape[1])] for n in range(count)])
        parts.append(part)
        z = part if number == 0 else z + part
    return parts


def make_printed(**options):
    torch.manual_seed(0)
    module = PrintedExpansions(WIDTH, depth=2, **options).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, dtype=torch.float64)
    return module


@pytest.mark.parametrize("options", [{}, {"orthogonal": False, "max_radius": 0.7}, {"adaptive_poles": False}])
def test_the_printed_form_is_that_of_the_printed_equations(options):
    module, tokens = make_printed(**options), random(2, 9, WIDTH)
    # Block i has i poles, and there is one block more than the depth says.
    assert [poles.shape for poles in module.poles] == [(1, 1, 2), (1, 2, 2), (1, 3, 2)]
    expected = np.stack([sum(printed(module, numbers(own))) for own in tokens])
    np.testing.assert_allclose(numbers(module(tokens)), expected, rtol=1e-9, atol=1e-11)


def test_the_first_printed_block_forgets_all_but_one_coefficient():
    # Whatever follows: tokens that differ by what block 1 does not see give the same result.
    module, tokens = make_printed(adaptive_poles=False), random(1, 16, WIDTH)
    module.enter = torch.nn.Identity()
    basis = takenaka_malmquist_basis(module.poles[0].places[0], 16)[0]
    unseen = random(1, 16, WIDTH, seed=5)
    unseen = unseen - torch.linalg.pinv(basis) @ (basis @ unseen)
    assert unseen.norm() > 5
    torch.testing.assert_close(module(tokens + unseen), module(tokens))
    assert not torch.allclose(module(tokens + 1), module(tokens), rtol=1e-3)


@pytest.mark.parametrize("first", [0.0, 0.4])
def test_with_shared_poles_the_second_function_finds_nothing_in_what_the_first_leaves(first):
    # z_2 = c_1 B_1 is orthogonal to B_2, whose first pole is that of B_1: c_2 = 0, and nothing more is learned.
    places = torch.tensor([[first, 0.0], [0.3, -0.4], [-0.5, 0.1]], dtype=torch.float64)
    left = functions(numbers(places) @ [1, 1j], circle(64), True)
    c_2 = (left[1:].conj() * left[0]).sum(axis=1) / 64
    assert abs(c_2).max() < 1e-9
    assert abs((functions([0.3 - 0.4j, -0.5], circle(64), True)[1].conj() * left[0]).sum() / 64) > 0.1
    # In real numbers the conjugate of B_1 remains, of which B_2 sees B_1(0) B_2(0), which the pole 0 makes 0.
    module = make_printed(adaptive_poles=False)
    for number, poles in enumerate(module.poles):
        poles.places.copy_(places[None, : number + 1])
    parts = printed(module, numbers(random(64, WIDTH)))
    ratio = np.linalg.norm(parts[1]) / np.linalg.norm(parts[0])
    zero = left[0].mean() * left[1].mean()
    assert (ratio < 1e-9) == (first == 0) == (abs(zero) < 1e-9)


# ---------------------------------------------------------------- filter and errors
def test_weights_of_half_precision_give_nearly_the_same():
    """Functions are computed in single precision, in which weights of half precision could not meet them."""
    tokens = torch.randn(2, 9, WIDTH, dtype=torch.float64)
    mixers = [*(make(transform=transform) for transform in TRANSFORMS), PrintedExpansions(WIDTH, depth=2).double()]
    for mixer, dtype in product(mixers, [torch.bfloat16, torch.float16]):
        expected = mixer.to(torch.float64)(tokens)
        found = mixer.to(dtype)(tokens.to(dtype))
        assert found.dtype == dtype
        assert (found.double() - expected).norm() < 0.05 * expected.norm()


def test_a_filter_has_no_rank():
    names = {name for name, _ in TakenakaMalmquistMixer(4, transform="filter").named_parameters()}
    assert not names & {"means", "rates", "reduce.weight", "spread.weight"}


def test_wrong_options_are_named():
    for options, message in [
        ({"transform": "literal"}, r"transform is 'literal'; expected one of \('coefficients', 'filter'\)"),
        ({"n_pole_heads": 5}, "n_pole_heads=5 does not divide the inner width 12"),
        ({"max_radius": 1.0}, "max_radius=1.0; expected a number between 0 and 1"),
        ({"max_radius": 0.0}, "max_radius=0.0"),
        ({"scan_directions": "spiral"}, "scan_directions is 'spiral'"),
    ]:
        with pytest.raises(ValueError, match=message):
            make(**options)


def test_a_grid_of_another_number_of_axes_is_refused():
    with pytest.raises(ValueError, match="built for n_dims=2"):
        make(2)(random(1, 6, WIDTH))
