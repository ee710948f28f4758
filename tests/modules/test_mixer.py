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
def test_packed_sequences_are_mixed_one_by_one(name):
    mixer, tokens, sizes = make_mixer(name), random(1, 12, 8), (5, 1, 6)
    expected = torch.cat([mixer(own) for own in tokens.split(sizes, dim=1)], dim=1)
    assert torch.equal(mixer(tokens, sizes=sizes), expected)
    assert not torch.allclose(mixer(tokens), expected)


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
