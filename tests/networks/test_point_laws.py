"""Laws of all networks on points in any order: packed, query and chunked points, outputs, precision, gradients."""

from itertools import product

import pytest
import torch

from skop.networks import (
    AMOPointNetwork,
    GalerkinNetwork,
    GNOTNetwork,
    LaMOPointNetwork,
    OFormerNetwork,
    TransolverNetwork,
)
from skop.parts import LatentTokens, LiteralExpansions, Mamba2

from .problems import AMO_POINTS, LAMO_POINTS, MNO, changed, mno_mixer

SAMPLES = (5, 1, 9)
EACH_BLOCK = LatentTokens(n_tokens=6, n_heads=2, n_centred_heads=1, n_frequencies=0)
TRANSOLVER = {"width": 4, "depth": 2, "n_slices": 3, "n_heads": 2, "mlp_ratio": 1.0, "structured": False}
HOSTS = {"gnot": GNOTNetwork, "galerkin": GalerkinNetwork, "oformer": OFormerNetwork}
#: Networks with what makes each of them: forms of which each has code of its own.
NETWORKS = {
    "LaMO": (LaMOPointNetwork, LAMO_POINTS, {}),
    "LaMO, Mamba2": (LaMOPointNetwork, LAMO_POINTS, {"mixer": Mamba2(d_state=2, n_heads=2)}),
    "LaMO, centres": (LaMOPointNetwork, LAMO_POINTS, {"latents__n_centred_heads": 1}),
    "LaMO, sinusoidal": (LaMOPointNetwork, LAMO_POINTS, {"latents__parameter_embedding": "sinusoidal"}),
    "LaMO, own softmax": (LaMOPointNetwork, LAMO_POINTS, {"latents__decoder": "own_softmax"}),
    "LaMO, own slices": (LaMOPointNetwork, LAMO_POINTS, {"latents__shared": False, "latents__n_centred_heads": 2}),
    "AMO": (AMOPointNetwork, AMO_POINTS, {}),
    "AMO, own softmax, centres": (
        AMOPointNetwork, AMO_POINTS, {"latents__decoder": "own_softmax", "latents__n_centred_heads": 1},
    ),
    "AMO, sum": (AMOPointNetwork, AMO_POINTS, {"latents__aggregation": "sum"}),
    "AMO, filter": (AMOPointNetwork, AMO_POINTS, {"mixer__transform": "filter", "mixer__scan_directions": "cross"}),
    "AMO, literal": (AMOPointNetwork, AMO_POINTS, {"mixer": LiteralExpansions(max_radius=0.9)}),
    "AMO, each block": (AMOPointNetwork, AMO_POINTS, {"latents": EACH_BLOCK}),
    "AMO, positions": (
        AMOPointNetwork, AMO_POINTS, {"latents__position_network": True, "latents__n_frequencies": 1},
    ),
    **{
        f"{host}, {mixer}": (HOSTS[host], MNO[host] | {"width": 8, "depth": 2, "mixer": mno_mixer(host, mixer)}, {})
        for host, mixer in product(HOSTS, ["mamba", "linear", "softmax"])
    },
    "Transolver": (TransolverNetwork, TRANSOLVER, {}),
}  # fmt: skip


#: Each in the plane, and one of each kind on lines and in space.
IN_DIMENSIONS = [(name, 2) for name in NETWORKS]
IN_DIMENSIONS += product(["LaMO", "AMO", "gnot, mamba", "galerkin, linear", "oformer, softmax", "Transolver"], [1, 3])


def make(name, *, n_dims=2, n_fields=1, n_params=1, n_outputs=2, n_scalars=3, dtype=torch.float64, **options):
    """A small network with every weight random, so that none can be forgotten."""
    torch.manual_seed(0)
    kind, keywords, changes = NETWORKS[name]
    data = {"n_dims": n_dims, "n_fields": n_fields, "n_params": n_params}
    data |= {"n_outputs": n_outputs, "n_scalars": n_scalars}
    network = kind(**data, **changed(keywords, changes | options)).to(dtype).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return network


def random(*shape, seed=1):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inputs(n_points=9, batch=2, n_dims=2):
    return random(batch, n_points, n_dims), random(batch, n_points, 1, seed=2), random(batch, 1, seed=3)


def test_the_order_of_points_does_not_matter_nor_whether_coordinates_are_shared():
    for name, n_dims in IN_DIMENSIONS:
        network, (coords, fields, params) = make(name, n_dims=n_dims), inputs(n_dims=n_dims)
        field, scalars = network(coords, fields, params)
        order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
        moved, same = network(coords[:, order], fields[:, order], params)
        torch.testing.assert_close(moved, field[:, order])
        torch.testing.assert_close(same, scalars)
        shared, repeated = (network(own, fields, params) for own in (coords[0], coords[:1].expand(2, -1, -1)))
        torch.testing.assert_close(shared, repeated)


def test_packed_samples_are_those_taken_one_by_one():
    for name, (dtype, bound) in product(NETWORKS, [(torch.float64, 1e-11), (torch.float32, 1e-5)]):
        network = make(name, dtype=dtype)
        coords, fields = random(sum(SAMPLES), 2).to(dtype), random(sum(SAMPLES), 1, seed=2).to(dtype)
        params = random(len(SAMPLES), 1, seed=3).to(dtype)
        field, scalars = network(coords, fields, params, sizes=SAMPLES)
        parts = zip(coords.split(SAMPLES), fields.split(SAMPLES), params, strict=True)
        alone = [network(own[None], values[None], row[None]) for own, values, row in parts]
        expected = torch.cat([own.field[0] for own in alone]), torch.cat([own.scalars for own in alone])
        for found, true in zip((field, scalars), expected, strict=True):
            assert (found - true).abs().max() <= bound * true.abs().max()


def test_query_points_get_the_values_at_points_and_do_not_see_each_other():
    for name, n_dims in IN_DIMENSIONS:
        network, (coords, fields, params) = make(name, n_dims=n_dims), inputs(n_dims=n_dims)
        expected, other = network(coords, fields, params), random(2, 5, n_dims, seed=5)
        places = torch.cat([coords[:, [7, 2]], other], dim=1)
        asked = torch.cat([fields[:, [7, 2]], random(2, 5, 1)], dim=1)
        found = network(coords, fields, params, query_coords=places, query_fields=asked)
        torch.testing.assert_close(found.field[:, :2], expected.field[:, [7, 2]])
        torch.testing.assert_close(found.scalars, expected.scalars)
        alone = network(coords, fields, params, query_coords=other[:, 3:4], query_fields=asked[:, 5:6])
        torch.testing.assert_close(alone.field, found.field[:, 5:6])
        shared = network(coords, fields, params, query_coords=other[0], query_fields=asked[:, 2:])
        torch.testing.assert_close(shared.field[:1], found.field[:1, 2:])


def test_chunks_without_gradients_give_what_the_whole_gives():
    for name, case in product(NETWORKS, ["packed", "shared", "own", "queries"]):
        network = make(name)
        if not hasattr(network, "chunk_size"):
            continue
        coords, fields, params = inputs(batch=3)
        arguments = {"coords": coords[0] if case == "shared" else coords, "fields": fields, "params": params}
        if case == "packed":
            arguments |= {"coords": random(sum(SAMPLES), 2), "fields": random(sum(SAMPLES), 1), "sizes": SAMPLES}
        if case == "queries":
            arguments |= {"query_coords": random(6, 2), "query_fields": random(3, 6, 1)}
        expected = network(**arguments)
        network.chunk_size = 4  # the last chunk of 9 points has one
        with torch.no_grad():
            torch.testing.assert_close(network(**arguments), expected, rtol=1e-9, atol=1e-9)


def test_outputs_are_fields_scalars_or_both_of_fields_parameters_or_places_alone():
    for name, (n_dims, n_outputs, n_scalars) in product(NETWORKS, [(1, 2, 0), (2, 0, 3), (3, 2, 3)]):
        sizes = {"n_dims": n_dims, "n_outputs": n_outputs, "n_scalars": n_scalars}
        # Fields on shared points, packed ones, other parameters on the same points, and other points.
        coords, params = random(6, n_dims), random(2, 1)
        given = {
            "fields": ({}, {"coords": coords, "fields": random(2, 6, 1), "params": params}),
            "packed": ({}, {"coords": coords, "fields": random(6, 1), "params": params, "sizes": (2, 4)}),
            "params": ({"n_fields": 0}, {"coords": coords, "fields": None, "params": params}),
            "places": (
                {"n_fields": 0, "n_params": 0}, {"coords": random(2, 6, n_dims), "fields": None, "params": None},
            ),
        }  # fmt: skip
        for case, (data, arguments) in given.items():
            if case == "places" and "sinusoidal" in name:
                continue  # which is of a parameter
            found = make(name, **sizes, **data)(**arguments)
            rows = (6,) if case == "packed" else (2, 6)
            assert (None if found.field is None else found.field.shape) == ((*rows, n_outputs) if n_outputs else None)
            assert (None if found.scalars is None else found.scalars.shape) == ((2, n_scalars) if n_scalars else None)
            if case != "packed":
                outputs = torch.cat([part.flatten(1) for part in found if part is not None], dim=1)
                # A reference acts on scans through steps and maps alone, which is little.
                assert (outputs[0] - outputs[1]).abs().max() > 1e-10


def test_single_precision_agrees_with_double_and_autocast_stays_near():
    for name in NETWORKS:
        double, single = make(name), make(name, dtype=torch.float32)
        single.load_state_dict(double.state_dict())
        coords, fields, params = inputs(30)
        expected = double(coords, fields, params).field
        found = single(coords.float(), fields.float(), params.float()).field
        assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
        with torch.autocast("cpu", torch.bfloat16):
            low = single(coords.float(), fields.float(), params.float()).field
        assert (low.float() - found).abs().max() < 0.1 * found.abs().max()


def test_every_weight_is_used():
    for name, sizes in product(NETWORKS, ({}, {"n_outputs": 0}, {"n_scalars": 0})):
        network, (coords, fields, params) = make(name, **sizes).train(), inputs()
        sum(part.square().sum() for part in network(coords, fields, params) if part is not None).backward()
        assert all(weight.grad is not None for weight in network.parameters())
        # A softmax over the one token that the parameter is passes nothing to its keys.
        missed = [key for key, weight in network.named_parameters() if not weight.grad.any() and "keys" not in key]
        assert missed == [], name


FAST = ["LaMO", "LaMO, centres", "AMO, own softmax, centres", "AMO, literal", "gnot, mamba", "oformer, linear"]


SLOW = [name for name in NETWORKS if name.startswith("AMO") and name not in FAST]


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in SLOW)])
def test_gradients_of_inputs_and_weights(name):
    network, sizes = make(name, width=4, depth=2 if "oformer" in name else 1, n_scalars=0), None
    if "centres" in name:  # packed samples take a path of their own to logits and to centres
        sizes = (2, 4)
    names, values = zip(*network.named_parameters(), strict=True)
    shape = (6,) if sizes else (2, 6)
    given = random(*shape, 2), random(*shape, 1), random(2, 1)

    def run(coords, fields, params, *parameters):
        weights = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(network, weights, (coords, fields, params, None, sizes)).field

    assert torch.autograd.gradcheck(run, (*(part.requires_grad_() for part in given), *values), fast_mode=True)
