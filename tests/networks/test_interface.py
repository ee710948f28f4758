"""The contract of networks: what they take, say that they support, and return."""

import inspect
from functools import partial
from itertools import product

import pytest
import torch

from skop.data import Batch
from skop.modules import FeedForward, LatentBlock, LatentPooling
from skop.networks import (
    AMOPatchNetwork,
    AMOPointNetwork,
    DeepONetNetwork,
    FNONetwork,
    GalerkinNetwork,
    GeoMaNONetwork,
    GNOTNetwork,
    LaMOPatchNetwork,
    LaMOPointNetwork,
    OFormerNetwork,
    OperatorNetwork,
    Outputs,
    PatchNetwork,
    PointNetwork,
    TransolverNetwork,
    UNetNetwork,
)
from skop.parts import GalerkinTransformer, Hydra, Mamba, Patches

from .problems import MIXERS

HOSTS = [GNOTNetwork, GalerkinNetwork, OFormerNetwork]
SKELETONS = [PatchNetwork, PointNetwork]
PEERS = [TransolverNetwork, DeepONetNetwork, UNetNetwork, FNONetwork]
NETWORKS = [LaMOPatchNetwork, LaMOPointNetwork, GeoMaNONetwork, AMOPatchNetwork, AMOPointNetwork]
NETWORKS += [*SKELETONS, *HOSTS, *PEERS]
SIZES = {"n_dims": 2, "n_fields": 1, "n_params": 1, "n_outputs": 2, "n_scalars": 3, "width": 8}


HYDRA, PATCHES = Hydra(), Patches(size=2)


def on_patches(mixer=HYDRA, patches=PATCHES, **changes):
    own = {"grid_shape": (4, 3), "patches": patches, "depth": 1, "mlp_ratio": 2.0}
    return PatchNetwork(partial(mixer.build, 8, 2), **own, **(SIZES | changes))


def on_points(mixer=HYDRA, **changes):
    def make_blocks():
        yield LatentBlock(mixer.build(8), FeedForward(8, 8), LatentPooling(8, 3, 2), 8)

    return PointNetwork(make_blocks, **(SIZES | changes))


def test_every_network_takes_what_a_batch_gives():
    for kind in NETWORKS:
        expected = list(inspect.signature(OperatorNetwork.forward).parameters)
        assert list(inspect.signature(kind.forward).parameters) == expected
        batch = Batch(
            torch.zeros(6, 2), None, None, None, sizes=(2, 4), queries={"query_coords": None, "query_fields": None}
        )
        assert set(batch.inputs()) == set(expected) - {"self"}


def test_sizes_have_no_default_values():
    for kind in NETWORKS:
        optional = set()
        for base in kind.__mro__[: kind.__mro__.index(OperatorNetwork)]:
            parameters = inspect.signature(base).parameters.values()
            optional |= {own.name: own.default for own in parameters if own.default is not own.empty}.items()
        # A part that is left out (0, 0.0 and False are equal), or PyTorch's own choice.
        assert {value for _, value in optional} <= {None, 0, "default", "channels"}


def test_any_mixer_works_on_both_skeletons():
    for mixer, make in product(MIXERS, [on_patches, on_points]):
        torch.manual_seed(0)
        network = make(mixer).eval()
        inputs = (torch.rand(12, 2), torch.rand(2, 12, 1), torch.rand(2, 1), (4, 3))
        outputs = network(*inputs)
        assert isinstance(outputs, Outputs)
        assert outputs.field.shape == (2, 12, 2)
        assert outputs.scalars.shape == (2, 3)
        alone = network(inputs[0], inputs[1][:1], inputs[2][:1], (4, 3))
        torch.testing.assert_close(alone.field, outputs.field[:1])
        torch.testing.assert_close(alone.scalars, outputs.scalars[:1])


@pytest.mark.parametrize("make", [on_patches, on_points])
def test_what_a_network_does_not_give_is_none(make):
    inputs = (torch.rand(12, 2), torch.rand(2, 12, 1), torch.rand(2, 1), (4, 3))
    assert make(n_scalars=0)(*inputs).scalars is None
    assert make(n_outputs=0)(*inputs).field is None


def test_what_a_network_says_that_it_supports_is_what_it_takes():
    points, patches = on_points(), on_patches()
    mesh = on_points(structured=True, n_dims=2)
    assert [network.needs_grid for network in (points, patches, mesh)] == [False, True, True]
    assert [network.supports_packed for network in (points, patches, mesh)] == [True, False, False]
    coords, fields, params = torch.rand(6, 2), torch.rand(6, 1), torch.rand(2, 1)
    assert points(coords, fields, params, sizes=(2, 4)).field.shape == (6, 2)
    queries = {"query_coords": torch.rand(4, 2), "query_fields": torch.rand(1, 4, 1)}
    assert points(coords, fields[None], params[:1], **queries).field.shape == (1, 4, 2)
    for network in (patches, mesh):
        with pytest.raises(ValueError, match="packed samples, which it does not support"):
            network(coords, fields, params, (3, 2), sizes=(2, 4))
        with pytest.raises(ValueError, match="query points, which it does not support"):
            network(coords, fields[None], params[:1], (3, 2), **queries)
        with pytest.raises(ValueError, match="needs the grid of its points"):
            network(coords, fields[None], params[:1])


def test_what_would_be_read_as_other_samples_is_refused():
    """Points with one sample's fields, without its axis, were as many samples to a network on sequences."""
    sizes = {name: SIZES[name] for name in ("n_dims", "n_fields", "n_params", "n_outputs", "n_scalars")}
    host = GalerkinTransformer(decoder="pointwise", decoder_width=4, kernel_size=1, n_frequencies=0)
    sequences = GalerkinNetwork(host=host, mixer=Mamba(d_state=2), width=8, depth=1, mlp_ratio=1.0, **sizes)
    coords, fields, params = torch.rand(6, 2), torch.rand(3, 6, 1), torch.rand(3, 1)
    queries = {"query_coords": torch.rand(4, 2), "query_fields": torch.rand(3, 4, 1)}
    for network, (given, message) in product(
        (sequences, on_points()),
        [
            ({"fields": fields[0]}, r"fields of shape \(6, 1\); expected \(1, 6, 1\)"),
            ({"fields": fields[:, :5]}, r"fields of shape \(3, 5, 1\); expected \(3, 6, 1\)"),
            ({"coords": coords.expand(2, -1, -1)}, r"coords of shape \(2, 6, 2\); expected \(3, 6, 2\)"),
            ({"params": params[:2]}, r"params of shape \(2, 1\); expected \(3, 1\)"),
            (queries | {"query_fields": torch.rand(3, 5, 1)}, r"query_fields of shape \(3, 5, 1\); expected"),
            (queries | {"query_coords": torch.rand(2, 4, 2)}, r"query_coords of shape \(2, 4, 2\); expected"),
            ({"coords": coords[None], "fields": fields[:1], "params": params[:1], "sizes": (6,)}, "coords of shape"),
            ({"fields": fields[0], "params": params[:2], "sizes": [2, 4]}, "sizes is a list; expected a tuple"),
        ],
    ):
        with pytest.raises(ValueError, match=message):
            network(**({"coords": coords, "fields": fields, "params": params} | given))


def test_parameters_may_be_unsupported():
    network = on_points(n_params=0)
    network.supports_params = False
    with pytest.raises(ValueError, match="global parameters, which it does not support"):
        network(torch.rand(6, 2), torch.rand(1, 6, 1), torch.rand(1, 1))


def test_the_base_has_no_forward_of_its_own():
    with pytest.raises(NotImplementedError, match="OperatorNetwork has to define forward"):
        OperatorNetwork()(torch.zeros(1, 1), None, None)


def test_a_network_with_blocks_that_keep_their_start_values():
    torch.manual_seed(0)

    def make_blocks():
        for kept in (True, False):
            latents = LatentPooling(8, 64, 2)
            latents.keeps_init = kept
            yield LatentBlock(HYDRA.build(8), FeedForward(8, 8), latents, 8)

    first, second = PointNetwork(make_blocks, weight_init="trunc_normal", **SIZES).blocks
    for block, kept in ((first, True), (second, False)):
        weight = block.latents.scores.weight
        assert torch.allclose(weight.T @ weight, torch.eye(4), atol=1e-5) == kept
        assert block.mlp.fc1.weight.abs().max() < 0.1


def test_names_that_do_not_exist_are_refused():
    for changes in ({"weight_init": "normal"}, {"parameter_embedding": "table"}):
        (name,) = changes
        with pytest.raises(ValueError, match=f"{name} is '{changes[name]}'"):
            on_points(**changes)
    with pytest.raises(ValueError, match=r"'init' parameter of Patches must be .* Got 'uniform' instead"):
        on_patches(patches=Patches(init="uniform"))
