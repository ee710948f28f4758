"""Muon against the singular value decomposition, AdamW and PyTorch's own Muon, and the laws of its updates."""

from itertools import product

import numpy as np
import pytest
import torch

from skop import LaMORegressor, TrainingOptions
from skop.training._optimizer import Muon, make_optimizer, orthogonalized

RATE, DECAY = 1e-3, 0.1


OPTIONS = {"learning_rate": RATE, "weight_decay": DECAY, "decay_bias_and_norm": False, "beta_2": 0.99}


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def with_singular_values(values, rows, columns):
    left, _ = torch.linalg.qr(draw(rows, len(values)))
    right, _ = torch.linalg.qr(draw(columns, len(values), seed=1))
    return left, right, (left * values @ right.mT)[None]


def trained(weights, gradients, make):
    """Weights after one step for each set of gradients."""
    held = [torch.nn.Parameter(weight.clone()) for weight in weights]
    optimizer = make(held)
    for step in gradients:
        for weight, gradient in zip(held, step, strict=True):
            weight.grad = gradient.clone()
        optimizer.step()
    return [weight.detach() for weight in held]


def muon(held):
    return Muon([{"params": held, "weight_decay": DECAY}], None, lr=RATE)


# ---------------------------------------------------------------------- polar factor
@pytest.mark.parametrize("shape", [(16, 16), (16, 40), (40, 16)])
def test_singular_values_become_one_and_singular_vectors_stay(shape):
    values = torch.logspace(0, -2.5, min(shape), dtype=torch.float64)
    left, right, matrix = with_singular_values(values / values.norm(), *shape)
    found = left.mT @ orthogonalized(matrix)[0] @ right
    assert torch.diag(found).sub(1).abs().max() < 0.13
    assert (found - torch.diag(torch.diag(found))).abs().max() < 1e-11


def test_singular_values_of_a_thousandth_and_more_become_one():
    """The bounds of the minimax composition, 0.1236 each, and what the room for rounding takes below."""
    small = torch.logspace(-3, 0, 2001, dtype=torch.float64)
    matrices = torch.diag_embed(torch.stack([small, (1 - small**2).sqrt()], dim=1))
    found = torch.stack(orthogonalized(matrices))[:, 0, 0]
    assert found.max() < 1.124
    assert found.min() > 0.84
    assert (torch.diff(torch.sign(found - 1)) != 0).sum() > 20  # the error alternates, as that of a minimax polynomial


def test_low_precision_and_low_rank_do_not_diverge():
    for rank, dtype in product([1, 8], [torch.float32, torch.bfloat16]):
        matrix = (draw(4, 64, rank) @ draw(4, rank, 128, seed=1)).to(dtype)
        values = torch.linalg.svdvals(torch.stack(orthogonalized(matrix)).double())
        assert values[:, :rank].sub(1).abs().max() < 0.15
        assert values.max() < 1.15


def test_wide_matrices_are_made_orthogonal_as_square_ones():
    """A wide matrix is a square one times orthonormal rows, which stay; the computation of the two differs."""
    square, rows = draw(3, 16, 16), torch.linalg.qr(draw(40, 16, seed=1))[0].mT
    for wide, found in zip(orthogonalized(square @ rows), orthogonalized(square), strict=True):
        torch.testing.assert_close(wide, found @ rows, rtol=0, atol=1e-10)


def test_zeros_stay_zeros():
    for columns in (9, 16):
        assert not torch.stack(orthogonalized(torch.zeros(2, 8, columns))).any()


# ---------------------------------------------------------------------- updates
def test_step_is_the_polar_factor_of_nesterovs_momentum():
    weight, gradients = draw(12, 20), [draw(12, 20, seed=seed) for seed in (1, 2, 3)]
    found, before = (trained([weight], [[g] for g in gradients[:n]], muon)[0] for n in (3, 2))
    mean = sum(0.05 * 0.95 ** (2 - number) * gradient for number, gradient in enumerate(gradients))
    left, _, right = torch.linalg.svd(0.95 * mean + 0.05 * gradients[-1], full_matrices=False)
    step = (before * (1 - RATE * DECAY) - found) / (RATE * 0.4 * 20**0.5)
    assert torch.linalg.matrix_norm(step - left @ right, ord=2) < 0.13


def test_updates_agree_with_those_of_pytorch():
    """PyTorch's Muon with the polynomial that converges to the exact polar factor, in bfloat16."""
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    weights = [draw(16, 32, dtype=torch.float32), draw(24, 16, dtype=torch.float32)]
    gradients = [[draw(*weight.shape, seed=seed, dtype=torch.float32) for weight in weights] for seed in range(1, 4)]
    exact = {"ns_coefficients": (1.875, -1.25, 0.375), "ns_steps": 20, "adjust_lr_fn": "match_rms_adamw"}
    theirs = trained(weights, gradients, lambda held: torch.optim.Muon(held, lr=2 * RATE, weight_decay=0.0, **exact))
    ours = trained(weights, gradients, lambda held: Muon([{"params": held}], None, lr=RATE))
    for own, other, start in zip(ours, theirs, weights, strict=True):
        assert (own - other).norm() < 0.1 * (other - start).norm()


def test_matrices_of_one_shape_are_updated_as_one_by_one_and_transposed():
    weights = [draw(16, 24), draw(16, 24, seed=1), draw(24, 16, seed=2), draw(8, 8, seed=3)]
    gradients = [[draw(*weight.shape, seed=10 * step + n) for n, weight in enumerate(weights)] for step in (1, 2)]
    together = trained(weights, gradients, muon)
    for number, found in enumerate(together):
        (alone,) = trained([weights[number].mT], [[step[number].mT] for step in gradients], muon)
        torch.testing.assert_close(found, alone.mT, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("shape", "size"), [((16, 16), 1e-30), ((16, 64), 1.0), ((64, 32), 1e30)])
def test_size_of_a_step_depends_neither_on_the_gradient_nor_on_the_shape(shape, size):
    weight, gradient = (draw(*shape, seed=seed, dtype=torch.float32) for seed in (0, 1))
    (found,) = trained([weight], [[size * gradient]], lambda held: Muon([{"params": held}], None, lr=1))
    # The root mean square of a matrix with orthogonal rows is 1 / sqrt(longer side).
    assert (found - weight).square().mean().sqrt() == pytest.approx(0.4, rel=0.13)


def test_weights_without_a_gradient_stay():
    held = [torch.nn.Parameter(draw(8, 8)), torch.nn.Parameter(draw(8, 8, seed=1))]
    held[0].grad = draw(8, 8, seed=2)
    before = held[1].detach().clone()
    muon(held).step()
    assert torch.equal(held[1], before)


# ---------------------------------------------------------------------- what is a matrix
class Network(torch.nn.Module):
    no_weight_decay = ("positions",)

    def __init__(self):
        super().__init__()
        self.positions = torch.nn.Parameter(draw(16, 16))
        self.hidden = torch.nn.Linear(16, 32, dtype=torch.float64)
        self.convolution = torch.nn.Conv2d(16, 16, 3, dtype=torch.float64)
        self.head = torch.nn.Linear(32, 3, dtype=torch.float64)


def groups_of(network, name):
    names = {weight: name for name, weight in network.named_parameters()}
    optimizer = make_optimizer(network, name, **OPTIONS)
    return {
        (names[weight], "momentum" in group, group["weight_decay"])
        for group in optimizer.param_groups
        for weight in group["params"]
    }


def test_matrices_are_parameters_of_two_long_axes_that_are_no_positions():
    assert groups_of(Network(), "muon") == {
        ("positions", False, 0.0),
        ("hidden.weight", True, DECAY),
        ("hidden.bias", False, 0.0),
        ("convolution.weight", False, DECAY),
        ("convolution.bias", False, 0.0),
        ("head.weight", False, DECAY),
        ("head.bias", False, 0.0),
    }


def test_adamw_has_all_weights():
    assert {(matrix, decay) for _, matrix, decay in groups_of(Network(), "adamw")} == {
        (False, DECAY),
        (False, 0.0),
    }
    assert isinstance(make_optimizer(Network(), "adamw", **OPTIONS), torch.optim.AdamW)


@pytest.mark.parametrize("decays", [True, False])
def test_other_weights_are_updated_as_by_adamw_alone(decays):
    found, expected = (Network() for _ in range(2))
    expected.load_state_dict(found.state_dict())
    both = [
        make_optimizer(network, name, **OPTIONS | {"decay_bias_and_norm": decays})
        for network, name in ((found, "muon"), (expected, "adamw"))
    ]
    for step in range(3):
        for network in (found, expected):
            for number, weight in enumerate(network.parameters()):
                weight.grad = draw(*weight.shape, seed=100 * step + number)
        for optimizer in both:
            optimizer.step()
    for name, weight in found.named_parameters():
        assert torch.equal(weight, expected.get_parameter(name)) == (name != "hidden.weight")


@pytest.mark.parametrize("name", ["muon", "adamw"])
def test_complex_weights_take_the_steps_of_their_parts(name):
    parts = torch.nn.ParameterList([draw(8, 8, 2)])
    whole = torch.nn.ParameterList([torch.view_as_complex(parts[0].detach().clone())])
    for network, given in ((parts, lambda gradient: gradient), (whole, torch.view_as_complex)):
        optimizer = make_optimizer(network, name, **OPTIONS)
        for step in (1, 2):
            network[0].grad = given(draw(8, 8, 2, seed=step))
            optimizer.step()
    assert torch.equal(torch.view_as_real(whole[0]), parts[0])


def test_adamw_takes_pytorchs_steps():
    weights = [draw(8, 3), draw(5)]
    gradients = [[draw(*weight.shape, seed=10 * step + n) for n, weight in enumerate(weights)] for step in (1, 2, 3)]
    found = []
    for kind in (type(make_optimizer(Network(), "adamw", **OPTIONS)), torch.optim.AdamW):
        held = [torch.nn.Parameter(weight.clone()) for weight in weights]
        optimizer = kind(
            [{"params": held[:1], "weight_decay": DECAY}, {"params": held[1:]}], RATE, (0.8, 0.95), fused=True
        )
        for step, given in enumerate(gradients):
            held[0].grad, held[1].grad = given[0].clone(), given[1].clone() if step else None
            optimizer.step()
        found.append(held)
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


# ---------------------------------------------------------------------- in a fit
def test_fit_by_muon_learns_more_in_as_many_epochs():
    rng = np.random.default_rng(0)
    X = 0.2 * rng.normal(size=(64, 24, 1)).cumsum(axis=1).astype(np.float32)
    y = np.sin(X).cumsum(axis=1)
    errors = {}
    for name in ("muon", "adamw"):
        # Regularisation, which begins by chance with either, would be compared too.
        training = TrainingOptions(optimizer=name, shift_patches=False, drop_path=0.0)
        model = LaMORegressor(base=None, width=16, depth=2, batch_size=12, max_iter=16, random_state=0)
        errors[name] = 1 - model.set_params(training=training).fit(X[:48], y[:48]).score(X[48:], y[48:])
    assert errors["muon"] < errors["adamw"]


def test_warm_start_with_another_optimizer_begins_with_its_own_moments():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(16, 16, 1)).astype(np.float32)
    model = LaMORegressor(base=None, width=16, depth=1, max_iter=2, warm_start=True, random_state=0).fit(X, X)
    model.set_params(training__optimizer="adamw").fit(X, X)
    model.set_params(training__optimizer="muon").fit(X, X)
    assert np.isfinite(model.loss_curve_).all()
