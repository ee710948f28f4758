"""The SSD scan along several paths over the same tokens, by bringing the tokens of each path into a row.

Notation of the shapes: b batch, L length, K paths, H heads of a path, P channels of a head, N states.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from skop.ops.ssd_scan._naive import ssd_scan_naive
from skop.ops.ssd_scan._torch import ssd_scan_torch

__all__ = ["path_scan_naive", "path_scan_torch"]


def path_scan_naive(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
    paths: Tensor,
) -> tuple[Tensor, Tensor]:
    """Scan token by token along every path.

    Parameters
    ----------
    x : Tensor of shape (b, L, 1 or K, H, P)
        Inputs, shared by the paths or one for each.
    dt : Tensor of shape (b, L, K, H)
        Step sizes.
    A : Tensor of shape (K, H)
        Decay rates, negative.
    B, C : Tensor of shape (b, L, 1 or K, N)
        Input and output maps, shared by the heads of a path.
    D : Tensor of shape (K, H, 1 or P) or None
        Skip from input to output.
    initial_state : Tensor of shape (b, K, H, P, N) or None
        States before the first tokens; None means zero.
    paths : int32 Tensor of shape (K, L)
        Tokens in the order in which each path visits them.

    Returns
    -------
    y : Tensor of shape (b, L, 1 or K, H, P)
        Outputs in the order of the tokens; where the x is shared, their sum over the paths.
    final_state : Tensor of shape (b, K, H, P, N)
        States after the last tokens.

    Examples
    --------
    >>> import torch
    >>> from skop.ops.ssd_scan._along_paths import path_scan_naive
    >>> one, path = torch.ones(1, 3, 1, 1, 1), torch.tensor([[2, 1, 0]])
    >>> halving = torch.full((1, 1), 0.5).log()
    >>> path_scan_naive(one, one[..., 0], halving, one[..., 0], one[..., 0], None, None, path)[0].flatten()
    tensor([1.7500, 1.5000, 1.0000])
    """
    return _scan_gathered(ssd_scan_naive, x, dt, A, B, C, D, initial_state, paths)


def path_scan_torch(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
    paths: Tensor,
    chunk_size: int = 64,
) -> tuple[Tensor, Tensor]:
    """Scan in chunks along every path.

    Parameters
    ----------
    x, dt, A, B, C, D, initial_state, paths
        As in `path_scan_naive`.
    chunk_size : int, default 64
        Most tokens of a chunk.

    Returns
    -------
    y : Tensor of shape (b, L, 1 or K, H, P)
        Outputs in the order of the tokens; where the x is shared, their sum over the paths.
    final_state : Tensor of shape (b, K, H, P, N)
        States after the last tokens.

    Examples
    --------
    >>> import torch
    >>> from skop.ops.ssd_scan._along_paths import path_scan_torch
    >>> one, path = torch.ones(1, 3, 1, 1, 1), torch.tensor([[2, 1, 0]])
    >>> halving = torch.full((1, 1), 0.5).log()
    >>> path_scan_torch(one, one[..., 0], halving, one[..., 0], one[..., 0], None, None, path)[0].flatten()
    tensor([1.7500, 1.5000, 1.0000])
    """
    return _scan_gathered(
        partial(ssd_scan_torch, chunk_size=chunk_size, return_final_state=True),
        x,
        dt,
        A,
        B,
        C,
        D,
        initial_state,
        paths,
    )


def _scan_gathered(
    scan: Callable[..., tuple[Tensor, Tensor | None]],
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
    paths: Tensor,
) -> tuple[Tensor, Tensor]:
    """Bring each path's tokens into a row, scan all paths as groups of heads of one call, put them back."""
    n_paths, heads = A.shape
    each, order = torch.arange(n_paths, device=x.device), paths.long().T
    inputs, maps_in, maps_out = (
        values.expand(-1, -1, n_paths, *values.shape[3:])[:, order, each] for values in (x, B, C)
    )
    y, final_state = scan(
        inputs.flatten(2, 3),
        dt[:, order, each].flatten(2),
        A.flatten(),
        maps_in,
        maps_out,
        None if D is None else D.flatten(0, 1),
        None if initial_state is None else initial_state.flatten(1, 2),
        (False,) * n_paths,
    )
    assert final_state is not None
    y = y.unflatten(2, (n_paths, heads))[:, order.argsort(0), each]
    y = y.sum(2, keepdim=True) if x.shape[2] < n_paths else y
    return y, final_state.unflatten(1, (n_paths, heads))
