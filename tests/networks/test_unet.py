"""U-Net's network: the number of its parts, sizes that do not divide, padding, reach, and normalisation."""

import pytest
import torch

from skop.networks import UNetNetwork

from .problems import coords_of, fields_on


def make_network(grid, **changes):
    torch.manual_seed(0)
    sizes = {
        "n_dims": len(grid), "n_fields": 1, "n_params": 0, "n_outputs": 2, "n_scalars": 0, "width": 2, "depth": 2,
        "n_groups": 1, "kernel_size": 3,
    }  # fmt: skip
    return UNetNetwork(**(sizes | changes)).double().eval()


def test_grids_of_any_size_are_padded_by_their_last_points():
    for grid in [(9,), (1,), (7, 5), (8, 4), (3, 2, 5)]:
        network, fields = make_network(grid), fields_on(grid)
        found = network(coords_of(grid), fields, None, grid).field
        assert found.shape == (2, fields.shape[1], 2)
        # What lies behind the end is the last point: a grid that is continued so gives the same.
        whole = tuple(-(-size // 4) * 4 for size in grid)
        places = [torch.arange(size).clamp_max(own - 1) for size, own in zip(whole, grid, strict=True)]
        inside = torch.meshgrid(*places, indexing="ij")
        continued = [values.unflatten(-2, grid)[..., *inside, :].flatten(-1 - len(grid), -2) for values in
                     (coords_of(grid), fields)]  # fmt: skip
        other = network(*continued, None, whole).field.unflatten(1, whole)
        torch.testing.assert_close(found.unflatten(1, grid), other[(slice(None), *(slice(size) for size in grid))])


def test_coarse_grids_are_halves_and_connected_to_fine_ones():
    network, grid = make_network((16, 16), depth=2), (16, 16)
    shapes = []
    for encoder in network.encoders:
        encoder.register_forward_hook(lambda *parts: shapes.append(tuple(parts[-1].shape[1:])))
    reads = []
    for decoder in network.decoders:
        decoder.register_forward_hook(lambda module, given, found: reads.append(tuple(given[0].shape[1:])))
    network(coords_of(grid), fields_on(grid), None, grid)
    assert shapes == [(2, 16, 16), (4, 8, 8), (8, 4, 4)]
    assert reads == [(8, 8, 8), (4, 16, 16)]


def test_the_coarsest_grid_carries_what_is_far():
    grid = (32,)
    fields = fields_on(grid, batch=1)
    moved = fields.clone()
    moved[:, -1] += 1.0
    for depth, reach in ((0, 4), (2, 32)):
        network = make_network(grid, depth=depth)
        for module in network.modules():
            # Statistics of the whole grid would carry everything everywhere.
            if isinstance(module, torch.nn.GroupNorm):
                module.forward = lambda values: values
        difference = (network(coords_of(grid), moved, None, grid).field -
                      network(coords_of(grid), fields, None, grid).field)  # fmt: skip
        changed = difference.abs().amax(dim=(0, 2)) > 0
        assert changed.any()
        assert changed[: 32 - reach].any() == (depth == 2 and reach < 32)
        assert changed[16:28].any() == (depth == 2)


def test_scalars_come_from_the_coarsest_grid_alone_where_there_is_no_field():
    grid = (6, 5)
    network = make_network(grid, n_outputs=0, n_scalars=3, n_params=1)
    outputs = network(coords_of(grid), fields_on(grid), torch.rand(2, 1).double(), grid)
    assert outputs.field is None
    assert outputs.scalars.shape == (2, 3)
    assert not hasattr(network, "decoders")


def test_the_size_of_the_input_is_not_lost_in_the_normalisation():
    grid = (8, 8)
    network, fields = make_network(grid), fields_on(grid)
    one, two = (network(coords_of(grid), scale * fields, None, grid).field for scale in (1e4, 2e4))
    # Behind a normalisation without a way around it both would be the same.
    assert ((two - one).flatten(1).norm(dim=1) > 0.5 * one.flatten(1).norm(dim=1)).all()


def test_what_it_cannot_be_is_refused():
    with pytest.raises(ValueError, match="kernel_size=2; expected an odd number"):
        make_network((4, 4), kernel_size=2)
    with pytest.raises(ValueError, match="n_dims=4; expected 1, 2 or 3 axes"):
        make_network((2, 2, 2, 2))
