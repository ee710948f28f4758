"""GeoMaNO's token mixer against Algorithm 1 in loops and float64, its start, its symmetries, and its precision.

Letters, as in the paper: E inner width, N states, K directions, r rank of the steps, A, B, C, D, R maps.
"""

import math
from itertools import product

import numpy as np
import pytest
import torch

import skop.modules._geometric_scan
from skop.modules import CORRECTION_PLACES, RECURRENCES, GeometricScanMixer

GELU = np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))))
SILU = np.vectorize(lambda x: x / (1 + math.exp(-x)))
VECTORS = {"step_bias", "log_decay", "direct", "convolution.bias", "norm.weight", "norm.bias"}


def make_mixer(width=4, n_dims=2, seed=0, **options):
    """A mixer in float64 with every weight random, so that none can be forgotten, and steps that are felt."""
    torch.manual_seed(seed)
    options = {"d_state": 3, "dt_rank": 2, "step_range": (0.2, 1.0)} | options
    mixer = GeometricScanMixer(width, n_dims, **options).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return mixer.eval()


def tokens_for(grid, batch=2, width=4):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, math.prod(grid), width, generator=generator, dtype=torch.float64)


# ---------------------------------------------------------------- Algorithm 1, literally
def traversals(grid, order="vmamba"):
    """Cells as each direction sees them: an array whose last axis is run through first and fastest."""
    cells = np.arange(math.prod(grid)).reshape(grid)
    if len(grid) == 1:
        ahead = [cells]
    elif len(grid) == 2:
        ahead = [cells, cells.T]
    else:
        ahead = [cells, cells.transpose(2, 0, 1), cells.transpose(1, 2, 0)]
    pairs = [(view, np.flip(view)) for view in ahead]
    if order == "paper":
        return [view for pair in pairs for view in pair]
    return [pair[0] for pair in pairs] + [pair[1] for pair in pairs]


def convolved(values, grid, kernel, bias):
    """Depthwise convolution of values (T, E) on a grid with zeros outside, point by point."""
    half = kernel.shape[-1] // 2
    padded = np.pad(values.reshape(*grid, -1), [(half, half)] * len(grid) + [(0, 0)])
    output = np.zeros((*grid, values.shape[1]))
    for cell in np.ndindex(*grid):
        window = padded[tuple(slice(place, place + 2 * half + 1) for place in cell)]
        output[cell] = (window * np.moveaxis(kernel[:, 0], 0, -1)).sum(axis=tuple(range(len(grid)))) + bias
    return output.reshape(values.shape)


def literal(mixer, tokens, grid, views, recurrence, correction, place, activation, separate_gate, activate_output):
    """One sample (T, width), direction by direction and cell by cell."""
    weights = {name: value.detach().numpy() for name, value in mixer.state_dict().items()}
    count, inner, rank = weights["step_projection"].shape
    states = weights["log_decay"].size // (count * inner)
    matrix = weights["direction_projection.weight"]
    rank_rows, in_rows, out_rows = np.split(matrix, [count * rank, count * (rank + states)])
    if correction == "learnable":
        shares = weights["correction"].reshape(count, inner, states)
    else:
        shares = np.array([int(digit) for digit in correction or "0" * count])[:, None, None] * np.ones((inner, states))

    stream = tokens @ weights["in_projection.weight"].T  # line 1
    stream, gate = np.split(stream, 2, axis=1) if separate_gate else (stream, stream)
    signal = stream
    if "convolution.weight" in weights:
        signal = convolved(signal, grid, weights["convolution.weight"], weights["convolution.bias"])
    signal = activation(signal)  # line 2
    total = np.zeros_like(signal)
    for k, view in enumerate(views):  # lines 3 to 9
        raw = signal @ rank_rows[k * rank : (k + 1) * rank].T @ weights["step_projection"][k].T
        steps = np.log1p(np.exp(raw + weights["step_bias"].reshape(count, inner)[k]))
        maps_in = signal @ in_rows[k * states : (k + 1) * states].T
        maps_out = signal @ out_rows[k * states : (k + 1) * states].T
        rates = -np.exp(weights["log_decay"].reshape(count, inner, states)[k])
        decays = np.exp(steps[:, :, None] * rates)
        updates = steps[:, :, None] * maps_in[:, None, :] * signal[:, :, None]
        cells = view if recurrence == "grid" else view.ravel()
        hidden = updates[cells]
        for axis in reversed(range(cells.ndim)):  # Eq. 9, or the passes of Eq. 10
            for here in np.ndindex(*cells.shape):
                if here[axis] > 0:
                    before = (*here[:axis], here[axis] - 1, *here[axis + 1 :])
                    hidden[here] += decays[cells[here]] * hidden[before]
        for here in np.ndindex(*cells.shape):
            token = cells[here]
            read = maps_out[token][None, :]
            if place == "state":
                y = (read * (hidden[here] - shares[k] * updates[token])).sum(axis=1)
            elif place == "output":
                y = (read * hidden[here] - shares[k] * updates[token]).sum(axis=1)
            else:
                y = (read * (hidden[here] - shares[k] * signal[token][:, None])).sum(axis=1)
            total[token] += y + weights["direct"].reshape(count, inner)[k] * signal[token]
    centred = total - total.mean(axis=1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    normed = normed * weights["norm.weight"] + weights["norm.bias"]
    normed = activation(normed) if activate_output else normed
    return (normed * activation(gate)) @ weights["out_projection.weight"].T  # lines 10, 11


def check_against_literal(grid, views=None, seed=0, recurrence="grid", activation="silu", **options):
    mixer = make_mixer(n_dims=len(grid), seed=seed, recurrence=recurrence, activation=activation, **options)
    tokens = tokens_for(grid)
    views = traversals(grid, options.get("direction_order", "vmamba")) if views is None else views
    rest = (options.get("correction"), options.get("correction_at", "state"))
    rest += ({"silu": SILU, "gelu": GELU}[activation], options.get("separate_gate", False))
    rest += (options.get("activate_output", True),)
    expected = np.stack([literal(mixer, sample, grid, views, recurrence, *rest) for sample in tokens.numpy()])
    np.testing.assert_allclose(mixer(tokens, grid).detach(), expected, rtol=1e-9, atol=1e-11)


CORRECTIONS = [None, "0001", "0011", "0111", "learnable"]


def test_the_mixer_is_algorithm_1():
    for recurrence, correction, direction_order in product(RECURRENCES, CORRECTIONS, ["vmamba", "paper"]):
        check_against_literal((3, 4), recurrence=recurrence, correction=correction, direction_order=direction_order)


def test_the_three_places_of_the_correction():
    for recurrence, correction, place in product(RECURRENCES, ["0011", "learnable"], CORRECTION_PLACES):
        check_against_literal((3, 4), recurrence=recurrence, correction=correction, correction_at=place)


@pytest.mark.parametrize("recurrence", RECURRENCES)
@pytest.mark.parametrize(
    "grid",
    [
        *((1,), (7,), (1, 1), (5, 2), (1, 4), (3, 1), (2, 3, 2), (1, 2, 4)),
        pytest.param((9, 16), marks=pytest.mark.exhaustive),
    ],
)
def test_any_grid_in_one_to_three_dimensions(recurrence, grid):
    check_against_literal(grid, recurrence=recurrence, correction="learnable")


@pytest.mark.parametrize("place", CORRECTION_PLACES)
def test_fixed_corrections_of_a_line_and_a_box(place):
    check_against_literal((6,), correction="01", correction_at=place)
    check_against_literal((2, 3, 2), correction="000111", correction_at=place)


@pytest.mark.parametrize("recurrence", RECURRENCES)
def test_directions_from_every_corner(recurrence):
    cells = np.arange(12).reshape(3, 4)
    ahead = [cells, cells[:, ::-1].T]
    views = ahead + [np.flip(view) for view in ahead]
    check_against_literal((3, 4), views, recurrence=recurrence, scan_directions="corners", correction="0101")
    views = [cells, cells.T, cells[:, ::-1], cells[:, ::-1].T]
    views += [np.flip(view) for view in views]
    check_against_literal((3, 4), views, recurrence=recurrence, scan_directions="all", correction="00010111")


def test_the_gate_and_the_output_of_the_paper_and_of_vmamba():
    for recurrence, separate_gate, activate_output in product(RECURRENCES, [False, True], [False, True]):
        options = {
            "separate_gate": separate_gate,
            "activate_output": activate_output,
            "correction": "learnable",
        }
        check_against_literal((3, 4), recurrence=recurrence, **options)
        check_against_literal((5,), recurrence=recurrence, activation="gelu", kernel_size=1, **options)


def test_other_sizes():
    for options in [
        {"activation": "gelu"},
        {"kernel_size": 1},
        {"kernel_size": 5},
        {"dt_rank": 1},
        {"d_state": 1},
        {"expand": 1},
        {"expand": 3},
    ]:
        check_against_literal((3, 4), correction="0011", **options)


# ---------------------------------------------------------------- the start
def test_the_rank_of_the_steps_is_that_of_vmamba():
    for width, rank in [(8, 1), (16, 1), (17, 2), (64, 4), (256, 16)]:
        assert GeometricScanMixer(width, 1, d_state=1).step_projection.shape == (2, 2 * width, rank)


def test_initial_values_are_those_of_vmamba():
    torch.manual_seed(0)
    mixer = GeometricScanMixer(64, 2)
    expected = torch.arange(1.0, 17).expand(4, 128, 16)
    torch.testing.assert_close(mixer.log_decay.exp().view(4, 128, 16), expected)
    assert torch.equal(mixer.direct, torch.ones(4 * 128))
    steps = torch.nn.functional.softplus(mixer.step_bias)
    assert 1e-3 * 0.999 < steps.min() < 2e-3
    assert 0.05 < steps.max() < 0.1 * 1.001
    assert abs(steps.log().mean() - math.log(1e-2)) < 0.3
    bound = 4**-0.5
    assert 0.95 * bound < mixer.step_projection.abs().max() <= bound
    assert mixer.step_projection.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert mixer.in_projection.bias is mixer.direction_projection.bias is mixer.out_projection.bias is None
    assert mixer.in_projection.weight.shape == (128, 64)
    assert mixer.direction_projection.weight.shape == (4 * (4 + 2 * 16), 128)


def test_decay_range_spreads_the_states_evenly_on_a_logarithmic_scale():
    mixer = GeometricScanMixer(4, 2, d_state=4, decay_range=(0.01, 10.0))
    rates = mixer.log_decay.exp().detach().view(-1, 4)
    np.testing.assert_allclose(rates, np.tile([0.01, 0.1, 1.0, 10.0], (4 * 8, 1)), rtol=1e-5)
    with pytest.raises(ValueError, match=r"decay_range is \(0.0, 1.0\)"):
        GeometricScanMixer(4, 2, decay_range=(0.0, 1.0))


def test_a_range_of_steps_is_kept_to():
    steps = torch.nn.functional.softplus(GeometricScanMixer(32, 3, step_range=(0.3, 0.7)).step_bias)
    assert 0.299 < steps.min() < 0.35
    assert 0.65 < steps.max() < 0.701


def test_a_learned_correction_starts_as_none_bit_for_bit():
    for recurrence, place in product(RECURRENCES, CORRECTION_PLACES):
        mixers = []
        for correction in (None, "learnable"):
            torch.manual_seed(3)
            options = {"correction": correction, "recurrence": recurrence, "correction_at": place}
            mixers.append(GeometricScanMixer(16, 2, d_state=4, **options))
        assert not mixers[1].correction.any()
        tokens = torch.randn(2, 12, 16, generator=torch.Generator().manual_seed(0))
        assert torch.equal(mixers[0](tokens, (4, 3)), mixers[1](tokens, (4, 3)))


def test_number_of_weights():
    width, inner, count, states, rank = 8, 16, 4, 3, 1
    maps = 2 * width * inner + 9 * inner + inner + inner * count * (rank + 2 * states) + count * inner * rank
    expected = maps + count * inner * (states + 2) + 2 * inner
    numbers = {}
    for correction in CORRECTIONS:
        mixer = GeometricScanMixer(width, 2, d_state=states, correction=correction)
        numbers[correction] = sum(parameter.numel() for parameter in mixer.parameters())
    assert numbers.pop("learnable") == expected + count * inner * states
    assert set(numbers.values()) == {expected}
    gated = GeometricScanMixer(width, 2, d_state=states, separate_gate=True, activate_output=False)
    assert sum(parameter.numel() for parameter in gated.parameters()) == expected + width * inner


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_weight_decay_finds_matrices_and_leaves_rates_skips_steps_and_shares(n_dims):
    # The trainer decays what has more than one axis.
    mixer = GeometricScanMixer(8, n_dims, d_state=3, correction="learnable")
    vectors = {name for name, parameter in mixer.named_parameters() if parameter.ndim == 1}
    assert vectors == VECTORS | {"correction"}
    matrices = {name for name, parameter in mixer.named_parameters() if parameter.ndim > 1}
    assert matrices == {"step_projection", "convolution.weight"} | {
        f"{name}_projection.weight" for name in ("in", "direction", "out")
    }


# ---------------------------------------------------------------- symmetries
def moved(direction, swap, turned):
    """A direction on a grid whose axes are swapped and then some of them turned round."""
    axes = [(3 - abs(axis)) * (1 if axis > 0 else -1) if swap else axis for axis in direction]
    return tuple(-axis if abs(axis) in turned else axis for axis in axes)


def with_moved_directions(mixer, swap, turned):
    """The mixer with the weights of every direction at the place of the moved one, and the kernel moved."""
    count, (_, inner, rank) = len(mixer.directions), mixer.step_projection.shape
    source = [None] * count
    for number, direction in enumerate(mixer.directions):
        source[mixer.directions.index(moved(direction, swap, turned))] = number
    weights = {name: value.clone() for name, value in mixer.state_dict().items()}
    states = weights["log_decay"].numel() // (count * inner)
    for name in ("step_projection", "step_bias", "log_decay", "direct", "correction"):
        weights[name] = weights[name].view(count, -1)[source].view(weights[name].shape)
    parts = weights["direction_projection.weight"].split([count * rank, count * states, count * states])
    parts = [part.view(count, -1, inner)[source].flatten(0, 1) for part in parts]
    weights["direction_projection.weight"] = torch.cat(parts)
    kernel = weights["convolution.weight"]
    kernel = kernel.mT if swap else kernel
    weights["convolution.weight"] = kernel.flip([axis + 1 for axis in turned])
    other = make_mixer(scan_directions="all" if count == 8 else "cross", correction="learnable", seed=9)
    other.directions, other.scan_grid = mixer.directions, mixer.scan_grid
    other.load_state_dict(weights)
    return other


@pytest.mark.parametrize("recurrence", RECURRENCES)
@pytest.mark.parametrize(
    ("scan_directions", "swap", "turned"),
    [("cross", True, ()), ("cross", False, (1, 2)), ("cross", True, (1, 2)), ("corners", False, (1, 2)),
     ("all", True, ()), ("all", False, (1,)), ("all", False, (2,)), ("all", True, (2,))],
)  # fmt: skip
def test_moving_the_grid_and_the_weights_of_the_directions_moves_the_output(recurrence, scan_directions, swap, turned):
    mixer = make_mixer(recurrence=recurrence, scan_directions=scan_directions, correction="learnable")
    other = with_moved_directions(mixer, swap, turned)

    def move(values):
        values = values.unflatten(1, (3, 4))
        return (values.transpose(1, 2) if swap else values).flip(turned).flatten(1, 2)

    tokens = tokens_for((3, 4))
    grid = (4, 3) if swap else (3, 4)
    torch.testing.assert_close(other(move(tokens), grid), move(mixer(tokens, (3, 4))))
    if turned or swap:
        assert not torch.allclose(mixer(move(tokens), grid), move(mixer(tokens, (3, 4))), rtol=1e-3)


def test_cells_that_a_cell_sees():
    for scan_directions, recurrence, everything in [
        ("cross", "grid", False),
        ("corners", "grid", True),
        ("all", "grid", True),
        ("cross", "sequence", True),
    ]:
        mixer = make_mixer(scan_directions=scan_directions, recurrence=recurrence, kernel_size=1)
        tokens = tokens_for((3, 4), batch=1).requires_grad_()
        output = mixer(tokens, (3, 4))
        cells = list(np.ndindex(3, 4))
        for number, (i, j) in enumerate(cells):
            (gradient,) = torch.autograd.grad(output[0, number].sum(), tokens, retain_graph=True)
            seen = (gradient[0].abs().amax(-1) > 0).tolist()
            # The cross-scan along the axes sees what lies before or after on both axes.
            assert seen == [everything or (i - a) * (j - b) >= 0 for a, b in cells]


@pytest.mark.parametrize("correction", [None, "01", "learnable"])
def test_on_one_axis_both_recurrences_are_the_same(correction):
    tokens = tokens_for((7,))
    outputs = [make_mixer(n_dims=1, recurrence=name, correction=correction)(tokens, (7,)) for name in RECURRENCES]
    assert torch.equal(*outputs)


@pytest.mark.parametrize("grid", [(1, 6), (6, 1), (1, 6, 1)])
def test_on_a_grid_of_one_line_both_recurrences_are_the_same(grid):
    tokens = tokens_for(grid)
    outputs = [make_mixer(n_dims=len(grid), recurrence=name)(tokens, grid) for name in RECURRENCES]
    torch.testing.assert_close(*outputs)


# ---------------------------------------------------------------- precision, gradients, storage


@pytest.mark.parametrize(("recurrence", "name"), [("grid", "selective_scan_2d"), ("sequence", "selective_scan")])
def test_parameters_of_the_recurrence_stay_in_float32_under_autocast(recurrence, name, monkeypatch):
    module, seen = skop.modules._geometric_scan, []
    scan = getattr(module, name)

    def spy(x, dt, A, B, C, D, **options):
        seen.extend(value.dtype for value in (A, D, options["dt_bias"], options["R"]))
        return scan(x, dt, A, B, C, D, **options)

    monkeypatch.setattr(module, name, spy)
    monkeypatch.setattr(module, "_GRID_SCANS", {2: spy})
    torch.manual_seed(0)
    mixer = GeometricScanMixer(16, 2, d_state=4, recurrence=recurrence, correction="0011")
    tokens = torch.randn(1, 12, 16, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        low = mixer(tokens, (4, 3))
    assert seen == [torch.float32] * 4
    assert low.dtype == torch.bfloat16
    full = mixer(tokens, (4, 3))
    assert (low.float() - full).abs().max() < 0.03 * full.abs().max()


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_every_weight_is_used(n_dims):
    grid = (3, 2, 2)[:n_dims]
    for recurrence in RECURRENCES:
        mixer = make_mixer(n_dims=n_dims, recurrence=recurrence, correction="learnable")
        mixer(tokens_for(grid), grid).square().sum().backward()
        for name, parameter in mixer.named_parameters():
            assert parameter.grad is not None, name
            # Each direction has its part.
            parts = parameter.grad.reshape(2 * n_dims, -1) if name in {"correction", "direct", "log_decay"} else [0]
            assert parameter.grad.any(), name
            assert all(part.any() for part in parts if isinstance(part, torch.Tensor)), name


def test_weights_come_back():
    for correction in CORRECTIONS:
        mixer, other = (make_mixer(seed=seed, correction=correction) for seed in (0, 1))
        tokens = tokens_for((3, 4))
        assert not torch.allclose(other(tokens, (3, 4)), mixer(tokens, (3, 4)))
        other.load_state_dict(mixer.state_dict())
        assert torch.equal(other(tokens, (3, 4)), mixer(tokens, (3, 4)))
        # Fixed digits are a setting and no weight.
        assert ("correction" in mixer.state_dict()) == (correction == "learnable")


def test_fixed_digits_follow_the_precision_and_have_no_gradient():
    mixer = make_mixer(correction="0011")
    assert mixer.correction.dtype == torch.float64
    assert not mixer.correction.requires_grad
    assert mixer.correction.view(4, -1).unique(dim=1).flatten().tolist() == [0, 0, 1, 1]


# ---------------------------------------------------------------- errors
def test_settings_that_do_not_fit_are_named():
    for options, message in [
        ({"correction": "001"}, r"correction is '001'.*4 digits 0 or 1.*'0011'"),
        ({"correction": "0021"}, r"correction is '0021'.*4 digits"),
        ({"correction": ""}, r"correction is ''.*4 digits"),
        ({"correction": "none"}, r"correction is 'none'.*None, 'learnable'"),
        ({"correction": 11}, r"correction is 11.*digits"),
        ({"correction": "0011", "scan_directions": "all"}, r"correction is '0011'.*8 digits.*'00001111'"),
        ({"correction_at": "skip"}, r"correction_at is 'skip'.*'state', 'output', 'input'"),
        ({"recurrence": "2d"}, r"recurrence is '2d'.*'sequence', 'grid'"),
        ({"scan_directions": "diagonal"}, r"scan_directions is 'diagonal'.*'corners'"),
        ({"direction_order": "any"}, r"order is 'any'.*'paper'"),
        ({"kernel_size": 4}, r"kernel_size=4; expected an odd"),
        ({"activation": "relu"}, r"activation is 'relu'.*'gelu', 'silu'"),
        ({"step_range": (0.0, 0.1)}, r"step_range is \(0.0, 0.1\)"),
        ({"step_range": (0.1,)}, r"step_range is \(0.1,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            GeometricScanMixer(8, 2, **options)
