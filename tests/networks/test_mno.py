"""MNO's hosts: published parameter counts, and the laws of networks on sequences of points."""

import math
from itertools import product

import pytest
import torch

from skop import MNORegressor
from skop.data import DataSpec, TargetForm, unit_grid
from skop.estimators.operators.presets.mno import CHANNELS
from skop.modules import sort_points
from skop.networks import GalerkinNetwork, GNOTNetwork, OFormerNetwork, SequenceNetwork
from skop.parts import Attention, GalerkinTransformer, Host, Hydra, Mamba, RotaryAttention

from .problems import MIXERS, MNO, changed, mno_mixer

NETWORKS = {"gnot": GNOTNetwork, "galerkin": GalerkinNetwork, "oformer": OFormerNetwork}
HOSTS = sorted(NETWORKS)
THREE = ["mamba", "linear", "softmax"]
ON_GRID = {
    "gnot": {"mixer__scan_directions": "cross"},
    "galerkin": {"host__decoder": "spectral"},
    "oformer": {"mixer__scan_directions": "cross"},
}


def make(host, mixer="mamba", n_dims=2, **changes):
    torch.manual_seed(0)
    data = {"n_dims": n_dims, "n_fields": 2, "n_params": 1, "n_outputs": 2, "n_scalars": 3, "width": 8, "depth": 2}
    keywords = data | MNO[host] | {"mixer": mno_mixer(host, mixer)}
    return NETWORKS[host](**changed(keywords, changes)).double().eval()


def random(*shape, seed=1):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sample(n_points=12, batch=2, n_dims=2):
    return random(batch, n_points, n_dims), random(batch, n_points, 2, seed=2), random(batch, 1, seed=3)


# ---------------------------------------------------------------- the published networks
PUBLISHED = {
    ("gnot", "mamba"): (1_287_173, 1_296_767, 1_306_554),
    ("gnot", "linear"): (890_885, 900_479, 910_266),
    ("galerkin", "mamba"): (4_854_177, 4_868_091, 4_882_390),
    ("galerkin", "linear"): (3_582_369, 3_596_283, 3_610_582),
    ("oformer", "mamba"): (1_626_465, 266_241, 266_946),
    ("oformer", "linear"): (2_556_321, 228_161, 228_866),
}


def test_published_networks_have_the_published_number_of_parameters():
    for host, mixer in PUBLISHED:
        for (data, (n_fields, n_outputs)), count in zip(CHANNELS.items(), PUBLISHED[host, mixer], strict=True):
            spec = DataSpec("grid", "fields", TargetForm("array"), 2, n_fields, 0, n_outputs, (16, 16))
            network = MNORegressor.from_preset(data, host=host, mixer=mixer)._build_network(spec, "grid")
            assert isinstance(network, NETWORKS[host])
            assert sum(parameter.numel() for parameter in network.parameters()) == count


@pytest.mark.parametrize("host", HOSTS)
def test_published_networks_can_be_built_with_softmax_attention(host):
    spec = DataSpec("grid", "fields", TargetForm("array"), 2, 1, 0, 1, (4, 4))
    network = MNORegressor.from_preset("darcy", host=host, mixer="softmax")._build_network(spec, "grid")
    assert network(torch.rand(16, 2), torch.rand(1, 16, 1), None, (4, 4)).field.shape == (1, 16, 1)


# ---------------------------------------------------------------- laws of all hosts and mixers


@pytest.mark.parametrize("host", HOSTS)
def test_the_order_of_points_matters_on_request_and_on_grids(host):
    (coords, fields, params), order = sample(), torch.arange(11, -1, -2).repeat_interleave(2) - torch.tensor([0, 1] * 6)
    order = order.flip(0).roll(3)
    given = make(host, host__point_order="given")
    changed = given(coords[:, order], fields[:, order], params).field
    assert not torch.allclose(changed, given(coords, fields, params).field[:, order], rtol=1e-6)
    network = make(host)
    on_grid = network(coords, fields, params, (4, 3)).field
    torch.testing.assert_close(on_grid, given(coords, fields, params).field)
    assert not torch.allclose(on_grid, network(coords, fields, params).field, rtol=1e-6)
    for curve in ("hilbert", "morton"):
        places = sort_points(coords, curve)
        inverse = places.argsort(-1).unsqueeze(-1).expand(-1, -1, 2)
        own = [values.gather(1, places.unsqueeze(-1).expand(-1, -1, 2)) for values in (coords, fields)]
        expected = given(*own, params).field.gather(1, inverse)
        torch.testing.assert_close(make(host, host__point_order=curve)(coords, fields, params).field, expected)


def test_networks_that_convolve_neighbours_of_a_grid_answer_at_query_points():
    for host, mixer in product(HOSTS, THREE):
        network, grid = make(host, mixer, host__kernel_size=3), (4, 3)
        coords, (_, fields, params) = torch.from_numpy(unit_grid(grid)), sample()
        expected = network(coords, fields, params, grid).field
        other = random(3, 2, seed=5)
        places = torch.cat([coords[[7, 2]], other])
        found = network(coords, fields, params, grid, query_coords=places, query_fields=random(2, 5, 2)).field
        torch.testing.assert_close(found[:, :2], expected[:, [7, 2]])
        alone = network(coords, fields, params, grid, query_coords=other[2:], query_fields=random(2, 1, 2)).field
        torch.testing.assert_close(alone, found[:, 4:])
        assert network.needs_grid
        with pytest.raises(ValueError, match="grid"):
            network(coords, fields, params)
        expected.square().sum().backward()
        weights = [own for name, own in network.named_parameters() if name.endswith("convolution.weight")]
        assert len(weights) == 2
        assert all(weight.grad is not None and weight.grad.abs().min() > 0 for weight in weights)


@pytest.mark.parametrize("host", HOSTS)
def test_values_at_query_points_depend_on_where_they_are(host):
    network, (coords, fields, params) = make(host), sample()
    line = torch.linspace(0.2, 0.21, 3, dtype=torch.float64)[:, None].expand(3, 2)
    found = network(coords, fields, params, query_coords=line, query_fields=fields[:, :3]).field
    assert (found.diff(dim=1).abs() > 1e-8).all()
    assert (found.diff(dim=1).abs() < 0.1).all()


def test_networks_of_grids_take_grids_of_any_size():
    for host, n_dims in product(HOSTS, [1, 2, 3]):
        network = make(host, n_dims=n_dims, **ON_GRID[host])
        assert network.needs_grid
        for grid in ((5, 4, 3)[:n_dims], (2, 7, 3)[:n_dims]):
            coords = torch.from_numpy(unit_grid(grid))
            fields, params = random(2, math.prod(grid), 2), random(2, 1)
            outputs = network(coords, fields, params, grid)
            assert outputs.field.shape == (2, math.prod(grid), 2)
            torch.testing.assert_close(network(coords, fields[1:], params[1:], grid).field, outputs.field[1:])
        with pytest.raises(ValueError, match="query points, which it does not support"):
            network(coords, fields, params, grid, query_coords=coords, query_fields=fields)


# ---------------------------------------------------------------- parts of single hosts
def test_experts_are_weighted_by_position_alone():
    network, (coords, _, _) = make("gnot", host__n_experts=3), sample()
    block = network.blocks[0]
    weights = block.gate(coords).softmax(dim=-1)
    assert weights.shape == (2, 12, 3)
    points = random(2, 12, 8)
    found = block.first(points, weights)
    expected = sum(expert(points) * weights[..., number, None] for number, expert in enumerate(block.first.experts))
    torch.testing.assert_close(found, expected)
    with torch.no_grad():
        block.gate[4].bias[1] += 50.0
    torch.testing.assert_close(block.first(points, block.gate(coords).softmax(-1)), block.first.experts[1](points))
    with pytest.raises(ValueError, match=r"'n_experts' parameter of GNOT must be .* Got 0 instead"):
        make("gnot", host__n_experts=0)


def test_input_functions_have_branches_of_their_own():
    for (branches, count), mixer in product([("joint", 1), ("parts", 2), ("channels", 3)], THREE):
        network, (coords, fields, params) = make("gnot", mixer, host__branches=branches), sample()
        assert len(network.branches) == network.blocks[0].cross.n_references == count
        expected = network(coords, fields, params).field
        for number in range(count):
            with torch.no_grad():
                network.branches[number].last.bias[0] += 1.0
            changed = network(coords, fields, params).field
            assert not torch.allclose(changed, expected)
            expected = changed
        with pytest.raises(ValueError, match=r"'branches' parameter of GNOT must be .* Got 'all' instead"):
            make("gnot", host__branches="all")


@pytest.mark.parametrize("host", ["gnot", "oformer"])
def test_the_ratio_of_references_can_be_learned(host):
    network, inputs = make(host, mixer__ratio="learnable"), sample()
    network(*inputs).field.square().sum().backward()
    ratios = [parameter for name, parameter in network.named_parameters() if name.endswith("cross.ratio")]
    assert ratios
    assert all((ratio == 1).all() and (ratio.grad != 0).all() for ratio in ratios)
    torch.testing.assert_close(network(*inputs).field, make(host)(*inputs).field)


def test_steps_in_time_are_carried_on_by_one_network():
    steps = make("oformer", host__n_steps=3, n_outputs=6)
    assert steps(*sample()).field.shape == (2, 12, 6)
    longer = make("oformer", host__n_steps=5, n_outputs=10)
    longer.load_state_dict(steps.state_dict())
    torch.testing.assert_close(longer(*sample()).field[..., :6], steps(*sample()).field)
    with pytest.raises(ValueError, match="7 output channels are no multiple of n_steps=3"):
        make("oformer", host__n_steps=3, n_outputs=7)


def test_parameters_that_a_network_was_not_built_for_are_refused():
    """A trunk without parameters has a channel of zeros, into which one more would go."""
    for host in HOSTS:
        coords, fields, params = sample()
        with pytest.raises(ValueError, match="got 1 global parameters; expected n_params=0"):
            make(host, "mamba", n_params=0)(coords, fields, params[:, :1])


def test_options_of_the_hosts_are_checked():
    for host, changes, message in (
        ("oformer", {"host__residual": "both"}, "'residual' parameter of OFormer .* Got 'both' instead"),
        ("oformer", {"mixer": RotaryAttention(rotary_scales=(1.0,))}, "rotary_scales has 1 entries; .* of 2 blocks"),
        ("galerkin", {"host__decoder": "fourier"}, "'decoder' parameter of GalerkinTransformer .* Got 'fourier'"),
        ("gnot", {"host__point_order": "peano"}, "'point_order' parameter of GNOT .* Got 'peano' instead"),
        ("gnot", {"n_dims": 4}, "n_dims=4; expected points in 1, 2 or 3 dimensions"),
        ("gnot", {"mixer": Hydra()}, "Hydra mixes one stream of tokens, and cross layers need two"),
        ("galerkin", {"mixer": Attention(kind="none")}, "'kind' parameter of Attention .* Got 'none' instead"),
    ):
        with pytest.raises(ValueError, match=message):
            make(host, **changes)
    sizes = {"n_dims": 1, "n_fields": 0, "n_params": 0, "n_outputs": 1, "n_scalars": 0}
    for host in (Host(), GalerkinTransformer(n_frequencies=0)):
        with pytest.raises(ValueError, match=r"has (n_frequencies|decoder)='auto'.*such as host\.on\('grid'\)"):
            SequenceNetwork(4, False, host, **sizes)
    network = SequenceNetwork(4, False, Host(point_order="given").on("points"), **sizes)
    with pytest.raises(NotImplementedError, match="SequenceNetwork has to define transform"):
        network(torch.zeros(3, 1), None, None)


def test_the_host_without_cross_layers_takes_any_mixer():
    for mixer, (changes, grid) in product(
        MIXERS, (({"host__decoder": "pointwise"}, None), ({"host__decoder": "spectral"}, (4, 3)))
    ):
        network, inputs = make("galerkin", mixer, **changes), sample()
        found = network(*inputs, grid)
        assert found.field.shape == (2, 12, 2)
        alone = network(*(part[:1] for part in inputs), grid)
        torch.testing.assert_close(alone.field, found.field[:1])


def test_hosts_with_cross_layers_take_mixers_with_a_cross_form():
    for host, mixer in product(
        ["gnot", "oformer"], [Mamba(), *(Attention(kind=kind) for kind in Attention.kind_of_attention)]
    ):
        network, (coords, fields, params) = make(host, mixer), sample()
        expected = network(coords, fields, params).field
        queries = {"query_coords": coords[:, :4], "query_fields": fields[:, :4]}
        torch.testing.assert_close(network(coords, fields, params, **queries).field, expected[:, :4])
