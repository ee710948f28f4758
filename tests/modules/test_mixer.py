"""One signature of all token mixers: names, sequences, grids, packed sequences."""

import pytest
import torch

from skop.modules import MIXERS, GeometricScanMixer, GridSSDMixer, Stream, TokenMixer, build_mixer

OPTIONS = {"d_state": 2, "expand": 2}


def make_mixer(name, n_dims=1):
    torch.manual_seed(0)
    return build_mixer(name, 8, n_dims, **OPTIONS).double().eval()


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_a_named_subclass_is_registered_and_others_are_not():
    class Reverse(TokenMixer, name="reverse_for_a_test"):
        def mix(self, tokens, grid):
            return tokens.flip(1)

    class Nameless(Reverse):
        pass

    try:
        assert MIXERS["reverse_for_a_test"] is Reverse
        assert Nameless not in MIXERS.values()
        assert Nameless()(random(1, 5, 2), sizes=(3, 2))[0, 0].equal(random(1, 5, 2)[0, 2])
    finally:
        del MIXERS["reverse_for_a_test"]


@pytest.mark.parametrize("name", MIXERS)
def test_packed_sequences_are_what_they_are_alone(name):
    mixer, tokens, sizes = make_mixer(name), random(1, 12, 8), (5, 1, 6)
    expected = torch.cat([mixer(own) for own in tokens.split(sizes, dim=1)], dim=1)
    torch.testing.assert_close(mixer(tokens, sizes=sizes), expected, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(mixer(tokens), expected)


#: Mixers that take packed samples in one call, some with options that samples must not share.
PACKING = [
    ("s6", {}),
    ("s6", {"scan_directions": "forward"}),
    *((name, {}) for name in ("softmax", "galerkin", "fourier", "normalized_linear")),
    *((name, {"norm": "layer", "positions": "rotary", "n_coords": 2}) for name in ("softmax", "galerkin", "fourier")),
    ("galerkin", {"norm": "layer", "positions": "concatenate", "n_coords": 2}),
    ("galerkin", {"norm": "instance"}),
]


@pytest.mark.parametrize(("name", "options"), PACKING)
@pytest.mark.parametrize("n_references", [0, 1])
@pytest.mark.parametrize("sizes", [(5, 1, 6), (4, 4), (3, 400, 2, 200)], ids=str)
def test_packed_sequences_and_their_gradients_do_not_depend_on_one_another(name, options, n_references, sizes):
    torch.manual_seed(0)
    mixer = build_mixer(name, 8, n_references=n_references, **(OPTIONS | options)).double()
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

    class Counts(MIXERS["galerkin"]):
        def mix(self, tokens, grid, coords=None, references=(), sizes=None):
            calls.append((sizes, references[0].sizes))
            return super().mix(tokens, grid, coords, references, sizes)

    sizes = (3, 500, 2, 510, 600)
    stream = Stream(random(1, 5, 8), None, (1,) * 5)
    mixer = Counts(8, n_references=1).double()
    mixer(random(1, sum(sizes), 8), sizes=sizes, references=[stream])
    assert calls == [(None, None), ((500, 510), (1, 1)), ((3, 2), (1, 1))]


@pytest.mark.parametrize("name", MIXERS)
@pytest.mark.parametrize("grid", [(12,), (4, 3), (2, 3, 2)])
def test_every_mixer_takes_the_tokens_of_a_grid(name, grid):
    mixer, tokens = make_mixer(name, len(grid)), random(2, 12, 8)
    mixed = mixer(tokens, grid)
    assert mixed.shape == tokens.shape
    torch.testing.assert_close(mixer(tokens[1:], grid=grid), mixed[1:])
    if len(grid) == 1:
        assert torch.equal(mixer(tokens), mixed)


@pytest.mark.parametrize("kind", [GridSSDMixer, GeometricScanMixer])
def test_a_grid_that_does_not_fit_is_refused(kind):
    mixer = kind(8, 2, d_state=2)
    for grid in (None, (12,), (4, 4)):
        with pytest.raises(ValueError, match=r"for 12 tokens, but the mixer was built for n_dims=2"):
            mixer(torch.zeros(1, 12, 8), grid)


def test_grids_have_no_packed_sequences_and_a_mixer_defines_mix():
    with pytest.raises(ValueError, match="packed sequences have no grid"):
        make_mixer("hydra")(random(1, 12, 8), (4, 3), (5, 7))
    with pytest.raises(NotImplementedError, match="TokenMixer has to define mix"):
        TokenMixer()(random(1, 2, 8))


CROSSING = ["s6", "softmax", "galerkin", "fourier", "normalized_linear"]


def make_cross(name, n_references=1):
    torch.manual_seed(0)
    return build_mixer(name, 8, n_references=n_references, **OPTIONS).double().eval()


@pytest.mark.parametrize("name", CROSSING)
def test_packed_references_go_with_their_samples(name):
    mixer, sizes = make_cross(name, 2), (5, 1, 6)
    tokens, first, second = random(1, 12, 8), random(1, 12, 8).flip(1), random(1, 12, 8).flip(2)
    streams = [Stream(first, None, sizes), Stream(second, None, sizes)]
    parts = [part.split(sizes, dim=1) for part in (tokens, first, second)]
    expected = [mixer(own, references=[Stream(one), Stream(two)]) for own, one, two in zip(*parts, strict=True)]
    torch.testing.assert_close(mixer(tokens, sizes=sizes, references=streams), torch.cat(expected, dim=1))


@pytest.mark.parametrize("name", CROSSING)
def test_the_number_of_references_is_that_of_the_construction(name):
    with pytest.raises(ValueError, match="got 0 references, but was built with n_references=1"):
        make_cross(name)(random(1, 4, 8))
    with pytest.raises(ValueError, match="got 1 references, but was built with n_references=0"):
        make_mixer(name)(random(1, 4, 8), references=[Stream(random(1, 4, 8))])


def test_a_mixer_is_built_with_the_options_that_it_knows():
    assert build_mixer("hydra", 16, d_state=3, n_heads=4, norm="layer").n_heads == 4
    with pytest.raises(ValueError, match="mixer is 'attention'; expected one of"):
        build_mixer("attention", 16)
    with pytest.raises(ValueError, match="'hydra' mixes one stream, and cross layers need two; use one of"):
        build_mixer("hydra", 16, n_references=1)
    with pytest.raises(NotImplementedError, match="HydraMixer has to define probe"):
        make_mixer("hydra").probe(random(1, 2, 8), None)
