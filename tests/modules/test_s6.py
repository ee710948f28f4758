"""MNO's mixer against the recurrence written out, of one stream and across streams, and its probes."""

from itertools import product

import pytest
import torch
from torch.nn.functional import layer_norm, silu, softplus

from skop.modules import Probe, S6Mixer, Stream

WIDTH, STATES = 6, 3


def make(n_dims=1, **options):
    torch.manual_seed(0)
    mixer = S6Mixer(WIDTH, n_dims, d_state=STATES, dt_rank=2, step_range=(0.1, 1.0), **options).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, dtype=torch.float64)
    return mixer


def random(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def reference(mixer, tokens, orders, others=(), ratios=()):
    """The block for one sample (L, E), token by token; each order lists the tokens as a direction visits them."""
    inner, (count, _, rank) = mixer.inner, mixer.step_projection.shape
    signal, gate = silu(mixer.in_projection(tokens)).split(inner, dim=-1)
    joined = mixer.direction_projection(signal)
    for ratio, projection, other in zip(ratios, mixer.reference_projections, others, strict=True):
        joined = joined + ratio * projection(silu(mixer.in_projection(other))[:, :inner])
    ranks, maps_in, maps_out = joined.split([count * rank, count * STATES, count * STATES], dim=-1)
    total = torch.zeros_like(signal)
    for number, order in enumerate(orders):
        own = slice(number * STATES, (number + 1) * STATES)
        state = torch.zeros(inner, STATES, dtype=torch.float64)
        for place in order:
            low = ranks[place, number * rank : (number + 1) * rank]
            step = softplus(mixer.step_projection[number] @ low + mixer.step_bias[number])
            decay = torch.exp(-step[:, None] * mixer.log_decay[number].exp())
            state = decay * state + torch.outer(step * signal[place], maps_in[place, own])
            total[place] = total[place] + state @ maps_out[place, own] + mixer.direct[number] * signal[place]
    return mixer.out_projection(layer_norm(total, (inner,), mixer.norm.weight, mixer.norm.bias) * gate)


def test_a_line_is_scanned_there_and_back():
    for directions, grid in product(["bidirectional", "forward"], [None, (7,)]):
        mixer, tokens = make(scan_directions=directions), random(2, 7, WIDTH)
        orders = [range(7), range(6, -1, -1)][: len(mixer.directions)]
        expected = torch.stack([reference(mixer, own, orders) for own in tokens])
        torch.testing.assert_close(mixer(tokens, grid), expected)


def test_a_line_does_not_ask_for_the_grid_that_it_is_made_of():
    mixer, tokens = make(2), random(2, 6, WIDTH)
    torch.testing.assert_close(mixer(tokens, (2, 3)), mixer(tokens))


def test_four_directions_cross_a_grid_by_rows_and_by_columns():
    mixer, tokens = make(2, scan_directions="cross"), random(1, 6, WIDTH)
    rows, columns = [0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5]
    expected = reference(mixer, tokens[0], [rows, columns, rows[::-1], columns[::-1]])
    torch.testing.assert_close(mixer(tokens, (2, 3))[0], expected)
    with pytest.raises(ValueError, match="built for n_dims=2"):
        mixer(tokens)


@pytest.mark.parametrize("ratio", [1.0, 0.3, 0.0])
def test_references_have_a_say_in_steps_and_maps(ratio):
    mixer, tokens, first, second = make(n_references=2, ratio=ratio), *(random(5, WIDTH, seed=n) for n in range(3))
    found = mixer(tokens[None], references=[Stream(first[None]), Stream(second[None])])[0]
    orders = [range(5), range(4, -1, -1)]
    torch.testing.assert_close(found, reference(mixer, tokens, orders, [first, second], [ratio, ratio]))


def test_a_learnable_ratio_starts_from_one_for_each_reference():
    mixer, tokens = make(n_references=2, ratio="learnable"), random(1, 5, WIDTH)
    assert torch.equal(S6Mixer(WIDTH, n_references=2, ratio="learnable").ratio, torch.ones(2))
    streams = [Stream(random(1, 5, WIDTH, seed=seed)) for seed in (2, 3)]
    mixer(tokens, references=streams).square().sum().backward()
    assert (mixer.ratio.grad.abs() > 1e-6).all()
    expected = reference(
        mixer, tokens[0], [range(5), range(4, -1, -1)], [own.tokens[0] for own in streams], mixer.ratio
    )
    torch.testing.assert_close(mixer(tokens, references=streams)[0], expected)


def test_references_of_another_length_are_refused():
    with pytest.raises(ValueError, match="a reference of 4 tokens was given for 5 tokens"):
        make(n_references=1)(random(1, 5, WIDTH), references=[Stream(random(1, 4, WIDTH))])


@pytest.mark.parametrize("directions", ["bidirectional", "forward"])
def test_a_probe_is_what_the_token_in_whose_place_it_stands_would_become(directions):
    mixer, tokens = make(n_references=1, scan_directions=directions), random(2, 6, WIDTH)
    other = random(2, 6, WIDTH, seed=2)
    asked, asked_reference = random(2, 4, WIDTH, seed=3), random(2, 4, WIDTH, seed=4)
    places = torch.tensor([[0, 5, 2, 2], [3, 0, 1, 5]])
    probe = Probe(asked, None, places, [asked_reference])
    found = mixer.probe(tokens, probe, None, [Stream(other)])
    for sample, row in enumerate(places.tolist()):
        for number, place in enumerate(row):
            changed, changed_reference = tokens[sample].clone(), other[sample].clone()
            changed[place], changed_reference[place] = asked[sample, number], asked_reference[sample, number]
            expected = mixer(changed[None], references=[Stream(changed_reference[None])])[0, place]
            torch.testing.assert_close(found[sample, number], expected)


def test_scans_along_the_axes_of_a_grid_cannot_be_probed():
    with pytest.raises(ValueError, match="have no place for other points"):
        make(2, scan_directions="cross").probe(random(1, 6, WIDTH), None)


def test_the_start_values_are_mambas():
    torch.manual_seed(0)
    mixer = S6Mixer(32, d_state=4)
    steps = softplus(mixer.step_bias)
    assert mixer.step_projection.shape == (2, 64, 2)
    assert mixer.step_projection.abs().max() <= 2**-0.5
    assert steps.min() > 0.00099
    assert steps.max() < 0.101
    torch.testing.assert_close(mixer.log_decay.exp()[1, 63], torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert (mixer.direct == 1).all()
