"""Optimisers of a training: Muon for the matrices of a network with AdamW for all other weights, or AdamW for all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from inspect import unwrap
from typing import Any

import torch
from torch import nn

__all__ = ["OPTIMIZERS", "Muon", "make_optimizer", "orthogonalized"]

OPTIMIZERS = ("muon", "adamw")

#: Least number of rows and of columns of a matrix for Muon.
_LEAST_SIDE = 8
#: Root mean square of the elements of an update by AdamW, which that of a matrix has too (arXiv:2502.16982), times the
#: factor by which matrices take larger steps. Two was chosen among 1, 2 and 4 in trials that no page has yet.
_UPDATE_SIZE = 0.2 * 2.0
_MOMENTUM, _BETA_1 = 0.95, 0.9
#: Factor by which singular values are kept from the upper ends of the intervals of the polynomials below, beyond which
#: these grow without bound, and to which rounding to bfloat16 may bring them.
_ROOM = 1.01
#: Coefficients of x, x^3 and x^5 in polynomials whose composition takes singular values from [0.001, 1] closest to 1.
#: Each is the best one for the interval that the one before leaves (arXiv:2505.16932).
_POLYNOMIALS = (
    *(
        (a / _ROOM, b / _ROOM, c / _ROOM)
        for a, b, c in (
            (8.28721201814563, -23.595886519098837, 17.300387312530933),
            (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
            (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
            (3.3184196573706015, -2.488488024314874, 0.51004894012372),
        )
    ),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
)


def make_optimizer(
    network: nn.Module,
    name: str,
    *,
    learning_rate: float,
    weight_decay: float = 0.0,
    decay_bias_and_norm: bool = True,
    beta_2: float = 0.999,
) -> torch.optim.Optimizer:
    """Make the optimiser of all parameters of a network.

    Matrices are the parameters of two axes, both of 8 or more, that no module lists in `no_weight_decay`, such as
    positions and decay rates. A fused projection is one matrix. Convolutions, arrays of more axes, complex arrays and
    vectors are none.

    Parameters
    ----------
    network : Module
        Network.
    name : {"muon", "adamw"}
        `Muon` for matrices with AdamW for all other parameters, or AdamW for all.
    learning_rate : float
        Learning rate of both.
    weight_decay : float, default=0.0
        Decoupled weight decay.
    decay_bias_and_norm : bool, default=True
        Whether weight decay also applies to parameters of one axis, and to those in `no_weight_decay`.
    beta_2 : float, default=0.999
        Decay of AdamW's running mean of squared gradients.

    Returns
    -------
    Optimizer
        Optimiser whose groups have ``"lr"``, and a momentum as ``"betas"`` or ``"momentum"``.

    Examples
    --------
    >>> import torch
    >>> from skop.training._optimizer import make_optimizer
    >>> optimizer = make_optimizer(torch.nn.Linear(16, 8), "muon", learning_rate=1e-3)
    >>> [[tuple(weight.shape) for weight in group["params"]] for group in optimizer.param_groups]
    [[(8, 16)], [(8,)]]
    """
    spared = {getattr(module, name) for module in network.modules() for name in getattr(module, "no_weight_decay", ())}
    found: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for weight in network.parameters():
        decays = decay_bias_and_norm or (weight.ndim > 1 and weight not in spared)
        is_matrix = weight.ndim == 2 and min(weight.shape) >= _LEAST_SIDE and weight not in spared
        is_matrix = is_matrix and not weight.is_complex()
        found.setdefault((name == "muon" and is_matrix, decays), []).append(weight)
    groups: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for (is_for_muon, decays), weights in found.items():
        groups[is_for_muon].append({"params": weights, "weight_decay": weight_decay if decays else 0.0})
    others = None
    if groups[False]:
        others = AdamW(groups[False], lr=learning_rate, betas=(_BETA_1, beta_2), fused=True)
    return Muon(groups[True], others, lr=learning_rate) if groups[True] or others is None else others


class _Uncompiled(torch.optim.Optimizer):
    """Optimiser that does not import PyTorch's compiler, which takes longer than a small fit."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters."""
        # PyTorch wraps the method in one that tells the compiler to leave it alone.
        unwrap(torch.optim.Optimizer.add_param_group)(self, param_group)


class AdamW(_Uncompiled, torch.optim.AdamW):
    """PyTorch's fused AdamW, called without the preparations for its other forms."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            for weight in weights:
                if not self.state[weight]:
                    self.state[weight] = {
                        "step": torch.zeros((), dtype=torch.float32, device=weight.device),
                        "exp_avg": torch.zeros_like(weight),
                        "exp_avg_sq": torch.zeros_like(weight),
                    }
            if not weights:
                continue
            states = [self.state[weight] for weight in weights]
            steps, means, squares = ([state[name] for state in states] for name in ("step", "exp_avg", "exp_avg_sq"))
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(
                _as_real(weights),
                _as_real([weight.grad for weight in weights if weight.grad is not None]),
                _as_real(means),
                _as_real(squares),
                [],
                steps,
                amsgrad=False,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )


def _as_real(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same tensors, with real and imaginary parts of complex ones along a last axis, as PyTorch's AdamW has it."""
    return [torch.view_as_real(held) if held.is_complex() else held for held in tensors]


class Muon(_Uncompiled):
    """Momentum whose matrices are made orthogonal, and another optimiser for the weights that are no matrices.

    The step of a matrix is Nesterov's momentum with all singular values set to 1, see `orthogonalized`. It is scaled to
    the size of AdamW's steps, so that one learning rate suits both. PyTorch's own Muon (from 2.9) computes in bfloat16,
    one matrix after another; here matrices of one shape are one batch, in the precision of the weights, and in bfloat16
    on a GPU.

    Parameters
    ----------
    groups : list of dict
        Groups of parameters of two axes, with their ``"weight_decay"``.
    others : Optimizer or None
        Optimiser of the other weights. Its groups and states become those of this one as well.
    lr : float
        Learning rate.
    momentum : float, default=0.95
        Decay of the running mean of the gradients.

    References
    ----------
    K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024).
    J. Liu et al., "Muon is scalable for LLM training", arXiv:2502.16982.

    Examples
    --------
    >>> import torch
    >>> from skop.training._optimizer import Muon
    >>> weight = torch.nn.Parameter(torch.zeros(8, 8))
    >>> optimizer = Muon([{"params": [weight]}], None, lr=0.01)
    >>> weight.sum().backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        others: torch.optim.Optimizer | None,
        *,
        lr: float,
        momentum: float = _MOMENTUM,
    ) -> None:
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": 0.0})
        self._matrices, self._others = list(self.param_groups), others
        if others is not None:
            others.state = self.state
            self.param_groups += others.param_groups

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient.

        Parameters
        ----------
        closure : None
            Not used.
        """
        for group in self._matrices:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                steps = self._steps(weights, group["momentum"])
                torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(weights, steps, alpha=-group["lr"] * _UPDATE_SIZE)
        if self._others is not None:
            self._others.step()

    def _steps(self, weights: list[torch.Tensor], momentum: float) -> list[torch.Tensor]:
        """Steps against which matrices move, with elements of root mean square 1."""
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["momentum"] = torch.zeros_like(weight)
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        means = [self.state[weight]["momentum"] for weight in weights]
        torch._foreach_lerp_(means, gradients, 1 - momentum)
        # Nesterov's momentum is the mean after one more step with the same gradient.
        steps = list(torch._foreach_lerp(means, gradients, 1 - momentum))
        found = orthogonalized(steps)
        torch._foreach_mul_(found, [max(step.shape) ** 0.5 for step in steps])
        return found


def orthogonalized(matrices: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Set all singular values of matrices to about 1, but for zeros.

    Five steps of a Newton-Schulz iteration with the polynomials of Polar Express: singular values of a thousandth of
    the Frobenius norm or more become 0.84 to 1.13.

    Parameters
    ----------
    matrices : sequence of Tensor of shape (m, n)
        Matrices, of one shape or several.

    Returns
    -------
    list of Tensor of shape (m, n)
        Near ``U V^T`` for the singular value decompositions ``U S V^T``; computed in bfloat16 on a GPU.

    References
    ----------
    N. Amsel, D. Persson, C. Musco, R. M. Gower, "The Polar Express", arXiv:2505.16932.

    Examples
    --------
    >>> import torch
    >>> from skop.training._optimizer import orthogonalized
    >>> orthogonalized([torch.diag(torch.tensor([3.0, 2.0]))])[0].round()
    tensor([[1., 0.],
            [0., 1.]])
    """
    # Matrices of one shape, or its transpose, are one batch.
    wide = [matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT for matrix in matrices]
    numbers: dict[torch.Size, list[int]] = {}
    for number, matrix in enumerate(wide):
        numbers.setdefault(matrix.shape, []).append(number)
    batches = {shape: torch.stack([wide[number] for number in batch]) for shape, batch in numbers.items()}
    if any(matrix.is_cuda or matrix.dtype == torch.bfloat16 for matrix in matrices):
        found = {shape: _by_products(batch.to(torch.bfloat16)).to(batch.dtype) for shape, batch in batches.items()}
    else:
        found = {}
        for rows in {shape[0] for shape in batches}:
            alike = {shape: batch for shape, batch in batches.items() if shape[0] == rows}
            found.update(zip(alike, _by_gram_matrices(list(alike.values())), strict=True))
    parts = {number: part for shape, batch in numbers.items() for number, part in zip(batch, found[shape], strict=True)}
    return [
        parts[number] if parts[number].shape == matrix.shape else parts[number].mT
        for number, matrix in enumerate(matrices)
    ]


def _by_products(batch: torch.Tensor) -> torch.Tensor:
    """Polar factors of a batch of shape (b, m, n), by products of the matrices themselves."""
    found = batch / _largest(batch)
    found = found / (_ROOM * torch.linalg.matrix_norm(found, keepdim=True)).clamp_min(torch.finfo(found.dtype).tiny)
    for a, b, c in _POLYNOMIALS:
        gram = found @ found.mT
        found = torch.baddbmm(found, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), found, beta=a)
    return found


def _by_gram_matrices(batches: list[torch.Tensor]) -> list[torch.Tensor]:
    """Polar factors of batches of as many rows, by the same polynomials of all their Gram matrices as one batch."""
    # It takes fewer operations, above all where matrices are wide. The eigenvalues are squares of the singular values,
    # some of which bfloat16 would lose.
    batches = [batch / _largest(batch) for batch in batches]
    gram = torch.cat([batch @ batch.mT for batch in batches])
    squared_norm = gram.diagonal(dim1=1, dim2=2).sum(1)[:, None, None].clamp_min(torch.finfo(gram.dtype).tiny)
    gram = gram / (_ROOM**2 * squared_norm)
    factors: list[torch.Tensor] = []
    for a, b, c in _POLYNOMIALS:
        if factors:
            gram = factors[-1] @ gram @ factors[-1]
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal(dim1=1, dim2=2).add_(a)
        factors.append(factor)
    product = reduce(torch.matmul, factors) / (_ROOM * squared_norm.sqrt())
    parts = product.split([len(batch) for batch in batches])
    return [part @ batch for part, batch in zip(parts, batches, strict=True)]


def _largest(batch: torch.Tensor) -> torch.Tensor:
    """Largest element of each matrix, by which the squares of its norm neither overflow nor vanish."""
    return batch.abs().amax(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(batch.dtype).tiny)
