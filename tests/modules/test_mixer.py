"""One signature of all token mixers: parts, sequences, grids, packed sequences."""

import math
from dataclasses import replace
from itertools import product

import pytest
import torch

from skop import parts
from skop.modules import GalerkinAttention, GeometricScanMixer, GridSSDMixer, Stream, TokenMixer
from skop.parts import (
    Attention,
    GeometricScan,
    GridSSD,
    Hydra,
    Mamba,
    Mixer,
    Part,
    RotaryAttention,
    TakenakaMalmquist,
)

#: Mixers that can read other streams too.
CROSSING = [Mamba(), *(Attention(kind=kind) for kind in Attention.kind_of_attention)]
#: A mixer of each class that fits any network, and of each kind of attention.
MIXERS = [
    kind()
    for kind in vars(parts).values()
    if isinstance(kind, type) and issubclass(kind, Mixer) and kind not in (Mixer, RotaryAttention)
] + CROSSING[1:]


#: Settings of theirs that take other ways through the code.
SETTINGS = [
    GridSSD(path_weights="shared"),
    GridSSD(path_weights="own"),
    *(GeometricScan(recurrence=way, correction="learnable") for way in ("sequence", "grid")),
    *(GeometricScan(correction="learnable", correction_at=place) for place in ("output", "input")),
    *(TakenakaMalmquist(transform=way, max_radius=0.7) for way in ("coefficients", "filter")),
]


def make_mixer(part, n_dims=1, width=8, **place):
    torch.manual_seed(0)
    return part.build(width, n_dims, **place).double().eval()


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_a_mixer_of_ones_own_is_a_module_with_a_part_that_builds_it():
    class Turn(TokenMixer):
        def __init__(self, width, n_dims=1, *, shift=0):
            super().__init__()
            self.shift = shift

        def mix(self, tokens, grid):
            return tokens.flip(1).roll(self.shift, 1)

    class TurnForATest(Mixer):
        shift: int = parts.param(parts.Whole(0), default=1, text="Number of places.")
        module = Turn

    class MisnamedForATest(TurnForATest):
        shft: int = parts.param(parts.Whole(0), default=1, text="Number of places.")

    class NothingForATest(Mixer):
        pass

    class AnyForATest(MisnamedForATest):
        module = staticmethod(lambda width, n_dims, **options: options)

    try:
        assert Part.known["TurnForATest"] is TurnForATest
        tokens = random(1, 5, 8)
        assert TurnForATest(shift=2).build(8)(tokens, sizes=(3, 2))[0, 0].equal(tokens[0, 1])
        with pytest.raises(ValueError, match="'shift' parameter of TurnForATest must be"):
            TurnForATest(shift=-1).build(8)
        # A parameter that nothing reads would be searched in vain.
        with pytest.raises(ValueError, match="MisnamedForATest has the parameter 'shft', but its module Turn takes no"):
            MisnamedForATest().build(8)
        with pytest.raises(ValueError, match="NothingForATest states no module; add module"):
            NothingForATest().build(8)
        assert AnyForATest(shft=3).build(8) == {"shift": 1, "shft": 3}
    finally:
        for name in ("TurnForATest", "MisnamedForATest", "NothingForATest", "AnyForATest"):
            del Part.known[name]


def test_packed_sequences_are_what_they_are_alone():
    for part in MIXERS + SETTINGS[-2:]:
        mixer, tokens, sizes = make_mixer(part), random(1, 12, 8), (5, 1, 6)
        expected = torch.cat([mixer(own) for own in tokens.split(sizes, dim=1)], dim=1)
        torch.testing.assert_close(mixer(tokens, sizes=sizes), expected, rtol=1e-12, atol=1e-12)
        assert not torch.allclose(mixer(tokens), expected)


SOFTMAX, GALERKIN, FOURIER, NORMALIZED = CROSSING[1:]
#: Mixers that take packed samples in one call, some with options that samples must not share.
PACKING = [
    *((mixer, {}) for mixer in (Mamba(), Mamba(scan_directions="forward"), SOFTMAX, GALERKIN, FOURIER, NORMALIZED)),
    *((mixer, {"norm": "layer", "positions": "rotary", "n_coords": 2}) for mixer in (SOFTMAX, GALERKIN, FOURIER)),
    (GALERKIN, {"norm": "layer", "positions": "concatenate", "n_coords": 2}),
    (GALERKIN, {"norm": "instance"}),
]


@pytest.mark.parametrize(("part", "place"), PACKING, ids=str)
@pytest.mark.parametrize(("n_references", "sizes"), [(0, (5, 1, 6)), (1, (4, 4)), (1, (3, 400, 2, 200))], ids=str)
def test_packed_sequences_and_their_gradients_do_not_depend_on_one_another(part, place, n_references, sizes):
    mixer = make_mixer(part, n_references=n_references, **place)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, dtype=torch.float64)
    count = sum(sizes)
    tokens, places, others, weights = random(1, count, 8), random(1, count, 2), random(1, count, 8), random(1, count, 8)
    values = [tokens.requires_grad_(), others.flip(2).requires_grad_()]

    def mixed(values, places, sizes):
        return mixer(values[0], None, sizes, places, [Stream(values[1], places, sizes)] * n_references)

    def results(found):
        sources = [*values[: 1 + n_references], *mixer.parameters()]
        return [found, *torch.autograd.grad((found * weights.sin()).sum(), sources)]

    parts = zip(*(value.split(sizes, dim=1) for value in (*values, places)), strict=True)
    alone = torch.cat([mixed(own, place, None) for *own, place in parts], dim=1)
    for found, expected in zip(results(mixed(values, places, sizes)), results(alone), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    scales = torch.ones(count, 1, dtype=torch.float64)
    scales[: sum(sizes[:-1])] = 1e3
    beside = mixed([value * scales for value in values], places, sizes)[:, -sizes[-1] :]
    torch.testing.assert_close(beside, alone[:, -sizes[-1] :], rtol=1e-12, atol=1e-12)


def test_samples_of_similar_sizes_share_a_call():
    calls = []

    class Counts(GalerkinAttention):
        def mix(self, tokens, grid, coords=None, references=(), sizes=None):
            calls.append((sizes, references[0].sizes))
            return super().mix(tokens, grid, coords, references, sizes)

    sizes = (3, 500, 2, 510, 600)
    stream = Stream(random(1, 5, 8), None, (1,) * 5)
    mixer = Counts(8, n_references=1).double()
    mixer(random(1, sum(sizes), 8), sizes=sizes, references=[stream])
    assert calls == [(None, None), ((500, 510), (1, 1)), ((3, 2), (1, 1))]


def test_every_mixer_takes_the_tokens_of_a_grid_and_samples_do_not_mix():
    for part, grid in product(MIXERS + SETTINGS, [(12,), (4, 3), (2, 3, 2), (1,)]):
        mixer, tokens = make_mixer(part, len(grid)), random(2, math.prod(grid), 8)
        mixed = mixer(tokens, grid)
        assert mixed.shape == tokens.shape
        assert mixed.isfinite().all()
        torch.testing.assert_close(mixer(tokens[1:], grid=grid), mixed[1:])
        if len(grid) == 1:
            assert torch.equal(mixer(tokens), mixed)


def test_single_precision_and_autocast_stay_near_double():
    for part in MIXERS + SETTINGS:
        double, single, tokens = make_mixer(part, 2), make_mixer(part, 2).float(), random(2, 30, 8)
        expected, found = double(tokens, (6, 5)), single(tokens.float(), (6, 5))
        assert found.dtype == torch.float32
        assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
        with torch.autocast("cpu", torch.bfloat16):
            low = single(tokens.float(), (6, 5))
        assert (low - expected).abs().max() < 0.05 * expected.abs().max()


def test_gradients():
    """Against finite differences, of the tokens and of every weight; each of these is used."""
    for part in MIXERS + SETTINGS:
        small = {name: 2 for name in ("d_state", "n_poles") if name in part.values()}
        mixer = make_mixer(replace(part, **small), 2, 4)
        tokens = random(1, 6, 4).requires_grad_()
        names, values = zip(*mixer.named_parameters(), strict=True)

        def run(tokens, *parameters, mixer=mixer, names=names):
            return torch.func.functional_call(mixer, dict(zip(names, parameters, strict=True)), (tokens, (2, 3)))

        assert torch.autograd.gradcheck(run, (tokens, *values), fast_mode=True)
        mixer(tokens, (2, 3)).square().sum().backward()
        assert all(value.grad is not None for value in values)


@pytest.mark.parametrize("kind", [GridSSDMixer, GeometricScanMixer])
def test_a_grid_that_does_not_fit_is_refused(kind):
    mixer = kind(8, 2, d_state=2)
    for grid in (None, (12,), (4, 4)):
        with pytest.raises(ValueError, match=r"for 12 tokens, but the mixer was built for n_dims=2"):
            mixer(torch.zeros(1, 12, 8), grid)


def test_grids_have_no_packed_sequences_and_a_mixer_defines_mix():
    with pytest.raises(ValueError, match="packed sequences have no grid"):
        make_mixer(Hydra())(random(1, 12, 8), (4, 3), (5, 7))
    with pytest.raises(NotImplementedError, match="TokenMixer has to define mix"):
        TokenMixer()(random(1, 2, 8))


@pytest.mark.parametrize("wrong", [lambda tokens: tokens[:, :1, :1], lambda tokens: tokens.mT, lambda tokens: None])
def test_another_shape_than_that_of_the_tokens_is_refused(wrong):
    class Wrong(TokenMixer):
        def mix(self, tokens, grid):
            return wrong(tokens)

    with pytest.raises(ValueError, match=r"Wrong\.mix returned .*, expected \(2, 9, 8\)\."):
        Wrong()(random(2, 9, 8), (3, 3))
    with pytest.raises(ValueError, match=r"Wrong\.mix returned .*, expected \(1, 5, 8\)\."):
        Wrong()(random(1, 9, 8), sizes=(5, 4))


def test_packed_references_go_with_their_samples():
    for part in CROSSING:
        mixer, sizes = make_mixer(part, n_references=2), (5, 1, 6)
        tokens, first, second = random(1, 12, 8), random(1, 12, 8).flip(1), random(1, 12, 8).flip(2)
        streams = [Stream(first, None, sizes), Stream(second, None, sizes)]
        parts = [part.split(sizes, dim=1) for part in (tokens, first, second)]
        expected = [mixer(own, references=[Stream(one), Stream(two)]) for own, one, two in zip(*parts, strict=True)]
        torch.testing.assert_close(mixer(tokens, sizes=sizes, references=streams), torch.cat(expected, dim=1))


def test_the_number_of_references_is_that_of_the_construction():
    for part in CROSSING:
        with pytest.raises(ValueError, match="got 0 references, but was built with n_references=1"):
            make_mixer(part, n_references=1)(random(1, 4, 8))
        with pytest.raises(ValueError, match="got 1 references, but was built with n_references=0"):
            make_mixer(part)(random(1, 4, 8), references=[Stream(random(1, 4, 8))])


def test_a_mixer_is_built_with_what_it_takes_of_its_place():
    assert Hydra(d_state=3, n_heads=4).build(16, norm="layer").n_heads == 4
    with pytest.raises(ValueError, match=r"'kind' parameter of Attention .* Got 'none' instead"):
        Attention(kind="none").build(16)
    with pytest.raises(ValueError, match="Hydra mixes one stream of tokens, and cross layers need two; use Mamba or"):
        Hydra().build(16, n_references=1)
    with pytest.raises(NotImplementedError, match="HydraMixer has to define probe"):
        make_mixer(Hydra()).probe(random(1, 2, 8), None)
