"""GeoMaNO's correction in the example of section 4.3: how often the sum of the directions holds the own token.

Letters, as in the paper: A, B, C, R maps.
"""

import math
from itertools import product

import numpy as np
import pytest
import torch

from skop.modules import RECURRENCES, GeometricScanMixer, direction_set
from skop.modules._geometric_scan import check_correction

#: silu(ONE) = 1.
ONE = 1.2784645427610738


def constant_mixer(correction, readers=(1, 1, 1, 1), decay=0.5, map_in=1.0, step=1.0, **options):
    """A mixer whose channel 0 is 1 everywhere, which makes B, C and steps constant; channel 1 is the signal."""
    mixer = GeometricScanMixer(2, 2, d_state=1, expand=1, correction=correction, **options).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.zero_()
        mixer.in_projection.weight.copy_(torch.eye(2))
        mixer.convolution.weight[1, 0, 1, 1] = 1
        mixer.convolution.bias[0] = ONE
        mixer.direction_projection.weight[4:8, 0] = map_in
        mixer.direction_projection.weight[8:12, 0] = torch.tensor(readers, dtype=torch.float64)
        mixer.step_bias.fill_(math.log(math.expm1(step)))
        mixer.log_decay.fill_(math.log(-math.log(decay) / step))
    return mixer


def responses(mixer, grid=(3, 3)):
    """What each cell of the sum of the directions (row) holds of each cell of the signal (column)."""
    size, seen = math.prod(grid), []
    mixer.norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][..., 1]))
    tokens = torch.zeros(size, size, 2, dtype=torch.float64)
    tokens[range(size), range(size), 1] = ONE
    mixer(tokens, grid)
    return seen[0].detach().numpy().T


def test_hidden_states_of_the_four_directions_are_those_of_section_4_3():
    a = 0.5
    printed = [
        [a**4, a**3, a**2, a, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, a, a**2, a**3, a**4],
        [a**4, a, 0, a**3, 1, 0, a**2, 0, 0],
        [0, 0, a**2, 0, 1, a**3, 0, a, a**4],
    ]
    for k, expected in enumerate(printed):
        readers = [int(k == other) for other in range(4)]
        mixer = constant_mixer(None, readers, recurrence="sequence", direction_order="paper")
        np.testing.assert_allclose(responses(mixer)[4], expected, atol=1e-12)
    together = responses(constant_mixer(None, recurrence="sequence"))[4]
    np.testing.assert_allclose(together, np.sum(printed, axis=0), atol=1e-12)


@pytest.mark.parametrize(
    ("recurrence", "powers"), [("sequence", [8, 7, 6, 5, 4, 3, 2, 1, 0]), ("grid", [4, 3, 2, 3, 2, 1, 2, 1, 0])]
)
def test_the_last_state_forgets_by_the_distances_of_appendix_c(recurrence, powers):
    mixer = constant_mixer(None, (1, 0, 0, 0), decay=0.7, recurrence=recurrence)
    np.testing.assert_allclose(responses(mixer)[8], 0.7 ** np.array(powers), atol=1e-12)


def test_digits_say_how_often_the_own_token_is_counted_and_touch_nothing_else():
    for recurrence, order, grid in product(RECURRENCES, ["vmamba", "paper"], [(3, 3), (2, 5)]):
        options = {"recurrence": recurrence, "direction_order": order}
        plain = responses(constant_mixer(None, **options), grid)
        np.testing.assert_allclose(np.diag(plain), 4, atol=1e-12)
        for digits, count in (("0000", 4), ("0001", 3), ("0011", 2), ("0111", 1), ("1111", 0)):
            corrected = responses(constant_mixer(digits, **options), grid)
            np.testing.assert_allclose(np.diag(corrected), count, atol=1e-12)
            np.testing.assert_allclose(plain - corrected, (4 - count) * np.eye(math.prod(grid)), atol=1e-12)


@pytest.mark.parametrize("recurrence", RECURRENCES)
def test_every_digit_belongs_to_one_direction(recurrence):
    for digits in map("".join, product("01", repeat=4)):
        own = np.diag(responses(constant_mixer(digits, (1, 2, 4, 8), recurrence=recurrence)))
        expected = sum(2**k for k, digit in enumerate(digits) if digit == "0")
        np.testing.assert_allclose(own, expected, atol=1e-12)


def test_digits_follow_the_order_of_the_directions():
    for (order, digits, turned), recurrence in product(
        [("vmamba", "0011", [2, 3]), ("paper", "0011", [2, 3]), ("vmamba", "0100", [1])], RECURRENCES
    ):
        # Rows, columns, reversed rows, reversed columns; or each followed by its reverse. The cell to the right of the
        # middle sees the middle first on rows, the cell below on columns, and so on.
        next_cells = {"vmamba": [5, 7, 3, 1], "paper": [5, 3, 7, 1]}[order]
        for k, next_cell in enumerate(next_cells):
            readers = [int(k == other) for other in range(4)]
            mixer = constant_mixer(digits, readers, recurrence=recurrence, direction_order=order, decay=0.01)
            from_middle = responses(mixer)[:, 4]
            assert from_middle[4] == pytest.approx(int(k not in turned), abs=1e-12)
            assert from_middle[next_cell] == pytest.approx(0.01)
            others = [cell for cell in (1, 3, 5, 7) if cell != next_cell]
            assert np.sort(from_middle[others])[:2] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("recurrence", RECURRENCES)
def test_everything_corrected_leaves_no_own_token(recurrence):
    # Strictly causal in every direction: with constant maps nothing of a cell is left in its own output.
    own = np.diag(responses(constant_mixer("1111", (1.5, -2.0, 0.3, 1.0), decay=0.8, recurrence=recurrence)))
    np.testing.assert_allclose(own, 0, atol=1e-12)


def test_what_each_place_leaves_of_the_own_token():
    for digits, (place, own), recurrence in product(
        ["0000", "0001", "0011", "0111", "1111"],
        [
            # With C = 5, B = 3, steps of 2: C (h - R dt B x), C h - R dt B x, C (h - R x).
            ("state", lambda n: 30 * (4 - n)),
            ("output", lambda n: 30 * 4 - 6 * n),
            ("input", lambda n: 30 * 4 - 5 * n),
        ],
        RECURRENCES,
    ):
        mixer = constant_mixer(digits, (5,) * 4, map_in=3.0, step=2.0, recurrence=recurrence, correction_at=place)
        found = np.diag(responses(mixer))
        np.testing.assert_allclose(found, own(digits.count("1")), atol=1e-10)


@pytest.mark.parametrize("recurrence", RECURRENCES)
def test_a_learned_share_takes_off_its_part(recurrence):
    mixer = constant_mixer("learnable", (1, 2, 4, 8), recurrence=recurrence)
    with torch.no_grad():
        mixer.correction.view(4, 2)[:, 1] = torch.tensor([0.5, 0.25, -1.0, 1.0])
        mixer.correction.view(4, 2)[:, 0] = 9.0  # of the other channel
    np.testing.assert_allclose(np.diag(responses(mixer)), 0.5 + 2 * 0.75 + 4 * 2 + 0, atol=1e-12)


def test_corrections_have_a_digit_for_every_direction():
    for scan_directions, n_dims in product(["cross", "corners", "all"], [1, 2, 3]):
        count = len(direction_set(n_dims, scan_directions))
        for correction in (None, "learnable", "0" * count, "1" * count):
            check_correction(correction, count)
            GeometricScanMixer(2, n_dims, d_state=1, scan_directions=scan_directions, correction=correction)
        for correction in ("0" * (count - 1), "1" * (count + 1), "0" * (count - 1) + "2"):
            with pytest.raises(ValueError, match=f"{count} digits"):
                check_correction(correction, count)
