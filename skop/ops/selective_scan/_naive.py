"""The recurrence of `skop.ops.selective_scan`, one token after the other.

Slow, but the definition itself: every other implementation is tested against it.

Notation of the shapes: b batch, L length, K paths, D channels of a path, N states of a channel.
Notation of the maths: x input, dt step, A decay rate, B input map, C output map, D skip, R share of
the own token's input that y does not see, y output.
"""

import torch
from torch import Tensor

from skop.ops._selective import step_sizes


def selective_scan_naive(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    initial_state: Tensor | None,
    paths: Tensor,
    softplus: bool,
) -> tuple[Tensor, Tensor]:
    """Scan token by token along every path, in the precision of the arguments.

    Parameters
    ----------
    x : Tensor of shape (b, L, 1 or K, D)
        Inputs, shared by the paths or one for each.
    dt : Tensor of shape (b, L, K, D)
        Step sizes, before the softplus if there is one.
    A : Tensor of shape (K, D, N)
        Decay rates, negative.
    B, C : Tensor of shape (b, L, K, N)
        Input and output maps.
    D : Tensor of shape (K, D) or None
        Skip from input to output.
    dt_bias : Tensor of shape (K, D) or None
        Added to dt before the softplus.
    R : Tensor of shape (K, D, N) or None
        Share of the own token's input that is taken off the state before y is read; None means zero.
    initial_state : Tensor of shape (b, K, D, N) or None
        States before the first tokens of the paths; None means zero.
    paths : int32 Tensor of shape (K, L)
        Tokens in the order in which each path visits them, a permutation in each row.
    softplus : bool
        Whether the steps are softplus(dt + dt_bias).

    Returns
    -------
    y : Tensor of shape (b, L, 1 or K, D)
        Outputs in the order of the tokens; where the x is shared, their sum over the paths.
    final_state : Tensor of shape (b, K, D, N)
        States after the last tokens of the paths.

    Examples
    --------
    >>> import torch
    >>> from skop.ops.selective_scan._naive import selective_scan_naive
    >>> one, path = torch.ones(1, 3, 1, 1), torch.tensor([[2, 1, 0]])
    >>> halving = torch.full((1, 1, 1), 0.5).log()
    >>> y, state = selective_scan_naive(one, one, halving, one, one, None, None, None, None, path, False)
    >>> y.flatten(), state.flatten()
    (tensor([1.7500, 1.5000, 1.0000]), tensor([1.7500]))
    """
    n_paths = len(paths)
    each, order = torch.arange(n_paths, device=x.device), paths.long().T
    steps = step_sizes(dt, dt_bias, softplus)[:, order, each]
    inputs, maps_in, maps_out = (values.expand(-1, -1, n_paths, -1)[:, order, each] for values in (x, B, C))
    state = x.new_zeros(()) if initial_state is None else initial_state
    outputs = []
    for u, step, b, c in zip(*(values.unbind(1) for values in (inputs, steps, maps_in, maps_out)), strict=True):
        update = (step * u).unsqueeze(-1) * b.unsqueeze(-2)
        state = torch.exp(step.unsqueeze(-1) * A) * state + update
        seen = state if R is None else state - R * update
        outputs.append((seen * c.unsqueeze(-2)).sum(-1))
    y = torch.stack(outputs, dim=1)
    if D is not None:
        y = y + D * inputs
    y = y[:, order.argsort(0), each]
    return (y.sum(2, keepdim=True) if x.shape[2] < n_paths else y), state
