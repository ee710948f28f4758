"""The SSD scan along several paths over the same tokens, summed.

Letters, as in Mamba-2 (Dao & Gu, arXiv:2405.21060): x input, dt step, A decay rate, B and C input and
output maps, D direct term. Shapes: b batch, l tokens, k paths, h heads, p channels of a head, n states.
"""

import torch

from skop.ops._checks import expect_axes, expect_floating, expect_one_device, narrow_dtype, working_dtype
from skop.ops._paths import check_paths
from skop.ops.ssd_path_scan._pairs import scan_pairs
from skop.ops.ssd_scan._operation import SSD_SCAN
from skop.ops.ssd_scan._torch import autocast_off

__all__ = ["ssd_path_scan"]

#: Up to this many tokens plain torch forms all pairs at once: the pairs then cost less than the gathers and
#: the chunk loop that they replace.
_PAIRS_TOKENS = 128


def ssd_path_scan(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None = None,
    *,
    paths: torch.Tensor,
    backend: str | None = None,
) -> torch.Tensor:
    r"""Scan the same tokens along several paths and add the outputs.

    Path k visits the tokens in the order ``paths[k]`` with its own step, decay, input and output
    maps; its recurrence is that of `ssd_scan`. This is the sum over directions in LaMO's Eq. 13.

    Parameters
    ----------
    x : Tensor of shape (batch, length, heads, head_dim)
        Inputs, shared by all paths.
    dt : Tensor of shape (batch, length, n_paths, heads)
        Positive steps.
    A : Tensor of shape (n_paths, heads)
        Negative decay rates.
    B, C : Tensor of shape (batch, length, n_paths, d_state) or (batch, length, 1, d_state)
        Input and output maps of each path, or of all, shared by the heads.
    D : Tensor of shape (n_paths, heads) or (n_paths, heads, head_dim), or None, default=None
        Direct term of each path.
    paths : Tensor of shape (n_paths, length), int64
        Each row a permutation of the tokens.
    backend : {None, "naive", "torch", "numba", "triton", "mamba_ssm", "pairs"}, default None
        As in `ssd_scan`; ``"pairs"`` forms all pairs of tokens, quadratic in length, in plain torch. It needs
        paths in opposite pairs, and takes the place of ``"torch"`` by itself for up to 128 tokens.

    Returns
    -------
    Tensor of shape (batch, length, heads, head_dim)
        Sum of the outputs of all paths, in the order of `x`.

    Raises
    ------
    ValueError
        If shapes do not agree.

    References
    ----------
    Tiwari et al., "Latent Mamba Operator for Partial Differential Equations", ICML 2025, Eq. 13 and
    Algorithm 1. Dao & Gu, "Transformers are SSMs", arXiv:2405.21060, for the form with all pairs.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import ssd_path_scan
    >>> x, dt = torch.ones(1, 4, 1, 1), torch.ones(1, 4, 2, 1)
    >>> maps, paths = torch.ones(1, 4, 2, 1), torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0]])
    >>> ssd_path_scan(x, dt, torch.zeros(2, 1), maps, maps, paths=paths).flatten().tolist()
    [5.0, 5.0, 5.0, 5.0]
    """
    _check_shapes(x, dt, A, B, C, D)
    checked = check_paths(paths, dt.shape[2], x.shape[1], x.device)
    if backend == "pairs" and not checked.in_opposite_pairs:
        raise ValueError("backend 'pairs' needs paths in opposite pairs: odd rows the reverse of the row before.")
    dtype = working_dtype(x, dt, A, B, C, D)
    narrow = narrow_dtype(dtype, x, B, C)
    name = "pairs" if backend == "pairs" else SSD_SCAN.choose(backend, x.device, narrow)
    if name == "torch" and backend is None and checked.in_opposite_pairs and x.shape[1] <= _PAIRS_TOKENS:
        name = "pairs"
    with autocast_off(x.device):
        if name == "pairs":
            return _scan_pairs(x, dt.to(dtype), A.to(dtype), B.to(dtype), C.to(dtype), D, paths)
        u, b, c = (value.to(narrow) for value in (x.unsqueeze(2), B, C))
        skip = None if D is None else D.to(dtype).reshape(*A.shape, -1)
        y, _ = SSD_SCAN.run(backend, u, dt.to(dtype), A.to(dtype), b, c, skip, None, checked.order)
    return y.squeeze(2).to(x.dtype)


def _check_shapes(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None,
) -> None:
    """Raise ValueError naming the first argument whose shape does not follow from x and dt."""
    expect_axes("x", x, "batch, length, heads, head_dim")
    expect_axes("B", B, "batch, length, n_paths or 1, d_state")
    given = {"x": x, "dt": dt, "A": A, "B": B, "C": C, "D": D}
    expect_axes("dt", dt, "batch, length, n_paths, heads")
    expect_floating(given)
    expect_one_device(given)
    n_paths = dt.shape[2]
    batch, length, heads, head_dim = x.shape
    states = B.shape[-1]
    expected: dict[str, tuple[torch.Tensor, list[tuple[int, ...]]]] = {
        "dt": (dt, [(batch, length, n_paths, heads)]),
        "A": (A, [(n_paths, heads)]),
        "B": (B, [(batch, length, n_paths, states), (batch, length, 1, states)]),
        "C": (C, [tuple(B.shape)]),
    }
    if D is not None:
        expected["D"] = (D, [(n_paths, heads), (n_paths, heads, head_dim)])
    for name, (tensor, shapes) in expected.items():
        if tuple(tensor.shape) not in shapes:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {' or '.join(map(str, shapes))}.")


def _scan_pairs(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None,
    paths: torch.Tensor,
) -> torch.Tensor:
    """All pairs, plus the direct term, rounded once."""
    signal = x.to(dt.dtype)
    y = scan_pairs(signal, dt, A, B, C, paths.to(x.device))
    if D is not None:
        direct = D.to(dt.dtype).sum(dim=0)
        y = y + signal * (direct if direct.ndim == 2 else direct[:, None])
    return y.to(x.dtype)
