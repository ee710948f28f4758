"""GeoMaNO's network: the parts of the paper in their order, its channels; `test_patch_network` has the rest."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from skop import GeoMaNORegressor
from skop.data import DataSpec, TargetForm
from skop.modules import CoordinatePositionalEncoding, GeometricScanMixer, LearnedPositionalEncoding
from skop.parts import GeometricScan

from .problems import coords_of, fields_on
from .problems import make_geomano as make_network


def count(network):
    return sum(parameter.numel() for parameter in network.parameters())


# ---------------------------------------------------------------- the parts
def test_the_parts_follow_each_other_as_in_the_paper():
    grid = (5, 4)
    network = make_network(
        grid, depth=2, patches__positional_encoding="coordinates", mixer__correction="0011", mlp_ratio=1.5
    )
    coords, fields = coords_of(grid), fields_on(grid)
    # Encoder, section 4.1: a feed-forward network lifts every point, then patches of 2 x 2 are embedded and normalised.
    points = torch.cat([coords.expand(2, -1, -1), fields], dim=-1)
    lifted = network.lifting.fc2(nn.functional.gelu(network.lifting.fc1(points))).reshape(2, 5, 4, 5)
    padded = torch.zeros(2, 6, 4, 5, dtype=torch.float64)
    padded[:, :5] = lifted
    patches = [padded[:, i : i + 2, j : j + 2].reshape(2, -1) for i in (0, 2, 4) for j in (0, 2)]
    tokens = network.embedding.norm(network.embedding.linear(torch.stack(patches, dim=1)))
    tokens = tokens + network.positional_encoding(coords.reshape(5, 4, 2)[::2, ::2].reshape(6, 2))
    # Eq. 8, layer by layer: norms come first, both branches are added.
    for block in network.blocks:
        tokens = tokens + block.mixer(block.norm_mixer(tokens), (3, 2))
        hidden = nn.functional.gelu(block.mlp.fc1(block.norm_mlp(tokens)))
        tokens = tokens + block.mlp.fc2(hidden)
    # The decoder is the inverse: tokens to the points of their patches, the padding cut off.
    head = network.unembedding
    blocks = head.linear(head.norm(tokens) + head.shift).reshape(2, 3, 2, 2, 2)
    expected = blocks.permute(0, 1, 3, 2, 4).reshape(2, 6, 4)[:, :5].reshape(2, 20, 1)
    torch.testing.assert_close(network(coords, fields, None, grid).field, expected)


def test_mixers_are_those_of_the_settings():
    options = {
        "d_state": 3, "expand": 3, "dt_rank": 4, "recurrence": "sequence", "scan_directions": "corners",
        "direction_order": "paper", "correction": "0110", "correction_at": "output", "kernel_size": 5,
        "activation": "gelu", "separate_gate": True, "activate_output": False, "step_range": (0.3, 0.4),
    }  # fmt: skip
    torch.manual_seed(5)
    network = make_network((6, 4), depth=3, mixer=GeometricScan(**options))
    assert len(network.blocks) == 3
    for block in network.blocks:
        same = GeometricScanMixer(6, 2, **options).double()
        same.load_state_dict(block.mixer.state_dict())
        tokens = fields_on((3, 2), channels=6)
        torch.testing.assert_close(block.mixer(tokens, (3, 2)), same(tokens, (3, 2)))
        steps = nn.functional.softplus(block.mixer.step_bias)
        assert steps.min() > 0.299
        assert steps.max() < 0.401


def test_parameter_count_from_the_formulas():
    for (correction, shares), (encoding, table) in product(
        [(None, 0), ("0011", 0), ("learnable", 1)], [(None, 0), ("learned", 1)]
    ):
        width, inner, directions, states, rank, hidden, lift = 6, 12, 4, 2, 1, 24, 5
        mixer = 2 * width * inner + 9 * inner + inner + inner * directions * (rank + 2 * states)
        mixer += directions * inner * (rank + 1 + states + 1 + shares * states) + 2 * inner
        block = 4 * width + mixer + width * hidden + hidden + hidden * width + width
        encoder = 3 * lift + lift + lift * lift + lift + 4 * lift * width + width + 2 * width
        head = 2 * width + width + width * 4
        network = make_network((4, 4), depth=3, mixer__correction=correction, patches__positional_encoding=encoding)
        assert count(network) == encoder + 3 * block + head + table * 4 * width + 2


def test_sizes_of_the_paper_for_darcy():
    spec = DataSpec("grid", "fields", TargetForm("array"), 2, 1, 0, 1, (85, 85))
    network = GeoMaNORegressor.from_preset("darcy")._build_network(spec, "grid")
    assert len(network.blocks) == 8
    assert network.embedding.linear.weight.shape == (64, 4 * 64)
    mixer = network.blocks[0].mixer
    assert mixer.log_decay.numel() == 4 * 128 * 16
    assert network.positional_encoding is None
    assert network.conv_stem is network.conv_head is None
    assert network._token_grid((85, 85)) == (43, 43)


def test_without_a_lift_patches_take_the_channels():
    network = make_network((4, 4), patches__lifting_width=0, n_fields=3)
    assert network.lifting is None
    assert network.embedding.linear.in_features == 4 * (3 + 2)


# ---------------------------------------------------------------- channels and positions
def test_fields_alone_are_the_channels_where_coordinates_are_not_asked_for():
    # Footnote 4: the input encodes the coefficients and the right-hand side.
    grid = (4, 4)
    network = make_network(grid, n_fields=2, n_params=1, patches__coordinate_channels=False)
    assert network.lifting.fc1.in_features == 3
    fields, params = fields_on(grid, channels=2), torch.tensor([[0.5], [-1.0]], dtype=torch.float64)
    first = network(coords_of(grid), fields, params, grid).field
    assert torch.equal(network(coords_of(grid) * 3 + 1, fields, params, grid).field, first)
    for changed in ((fields + 1, params), (fields, params + 1)):
        assert not torch.allclose(network(coords_of(grid), *changed, grid).field, first, rtol=1e-3)
    with_coords = make_network(grid, n_fields=2, n_params=1)
    moved = with_coords(coords_of(grid) * 3 + 1, fields, params, grid).field
    assert not torch.allclose(moved, with_coords(coords_of(grid), fields, params, grid).field, rtol=1e-3)


def test_coordinates_stay_where_there_is_nothing_else():
    network = make_network((4, 4), n_fields=0, patches__coordinate_channels=False)
    own = torch.stack([coords_of((4, 4)) * scale for scale in (1.0, 2.0)])
    output = network(own, None, None, (4, 4)).field
    assert output.shape == (2, 16, 1)
    assert (output[0] - output[1]).abs().max() > 1e-6


def test_parameters_alone_without_coordinates_are_known_everywhere():
    network = make_network(
        (4, 4), n_fields=0, n_params=2, patches__coordinate_channels=False, patches__positional_encoding="coordinates"
    )
    assert network.lifting.fc1.in_features == 2
    output = network(coords_of((4, 4)), None, torch.eye(2, dtype=torch.float64), (4, 4)).field
    assert output.shape == (2, 16, 1)
    assert (output[0] - output[1]).abs().max() > 1e-6


@pytest.mark.parametrize(
    ("positional_encoding", "kind"),
    [("learned", LearnedPositionalEncoding), ("coordinates", CoordinatePositionalEncoding), (None, type(None))],
)
def test_position_codes(positional_encoding, kind):
    network = make_network((8, 6), patches__positional_encoding=positional_encoding, patches__n_frequencies=3)
    assert isinstance(network.positional_encoding, kind)
    if positional_encoding == "coordinates":
        assert len(network.positional_encoding.frequencies) == 3
    if positional_encoding == "learned":
        assert network.positional_encoding.table.shape == (12, 6)


# ---------------------------------------------------------------- other grids
def test_points_of_padding_are_zeros_beyond_the_high_end():
    # The last of 5 rows shares its patches with padding: after an embedding that adds up the points of a patch the
    # padding adds nothing.
    network = make_network((5, 4), patches__lifting_width=0, patches__coordinate_channels=False)
    with torch.no_grad():
        network.embedding.linear.weight.fill_(1.0)
        network.embedding.linear.bias.zero_()
    seen = []
    network.embedding.norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][..., 0]))
    fields = fields_on((5, 4), batch=1)
    network(coords_of((5, 4)), fields, None, (5, 4))
    field = fields.reshape(5, 4).numpy()
    expected = [field[i : i + 2, j : j + 2].sum() for i in (0, 2, 4) for j in (0, 2)]
    np.testing.assert_allclose(seen[0][0].detach(), expected, atol=1e-12)


def test_transposing_the_problem_transposes_the_answer():
    # With one weight for rows and columns, no positions, and kernels and patches that do not know their axes.
    network = make_network((6, 4), patches__size=1, patches__coordinate_channels=False, mixer__correction="0011")
    for block in network.blocks:
        mixer = block.mixer
        with torch.no_grad():
            mixer.convolution.weight.add_(mixer.convolution.weight.mT.clone())
            for part in mixer.direction_projection.weight.split([4, 8, 8]):
                rows = part.view(4, -1, part.shape[-1])
                rows[1::2] = rows[::2]
            for parameter in (mixer.step_projection, mixer.step_bias, mixer.log_decay, mixer.direct):
                by_direction = parameter.view(4, -1)
                by_direction[1::2] = by_direction[::2]
    fields = fields_on((6, 4))
    answer = network(coords_of((6, 4)), fields, None, (6, 4)).field.reshape(2, 6, 4)
    transposed = fields.reshape(2, 6, 4).mT.reshape(2, 24, 1)
    torch.testing.assert_close(network(coords_of((4, 6)), transposed, None, (4, 6)).field.reshape(2, 4, 6), answer.mT)


# ---------------------------------------------------------------- precision and gradients
def test_a_correction_that_does_not_fit_the_dimension_is_refused():
    with pytest.raises(ValueError, match=r"correction is '0011'.*2 digits"):
        make_network((8,), mixer__correction="0011")
