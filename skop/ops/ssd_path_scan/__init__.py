"""The SSD scan along several paths over the same tokens, summed.

Letters, as in Mamba-2 (Dao & Gu, arXiv:2405.21060): x input, dt step, A decay rate, B and C input and
output maps, D direct term. Shapes: b batch, l tokens, k paths, h heads, p channels of a head, n states.
"""

import torch

from skop.ops.ssd_path_scan._pairs import scan_pairs
from skop.ops.ssd_scan import ssd_scan

__all__ = ["ssd_path_scan"]

#: Up to this many tokens all pairs are formed at once: the pairs then cost less than the gathers and
#: the chunk loop that they replace.
_PAIRS_TOKENS = 128

_BACKENDS = (None, "pairs", "torch", "naive")


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
    backend : {"pairs", "torch", "naive"} or None, default=None
        ``"pairs"`` forms all pairs of tokens, quadratic in length and fastest for short sequences;
        the others gather the tokens along each path and call `ssd_scan`, linear in length. None
        takes ``"pairs"`` for up to 128 tokens.

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
    _check_shapes(x, dt, A, B, C, D, paths)
    if backend not in _BACKENDS:
        raise ValueError(f"backend is {backend!r}; expected one of {_BACKENDS}.")
    opposite = len(paths) % 2 == 0 and torch.equal(paths[::2].flip(1), paths[1::2])
    if backend == "pairs" and not opposite:
        raise ValueError("backend 'pairs' needs paths in opposite pairs: odd rows the reverse of the row before.")
    if backend == "pairs" or (backend is None and opposite and x.shape[1] <= _PAIRS_TOKENS):
        return _in_full_precision(x, dt, A, B, C, D, paths)
    return _scan_gathered(x, dt, A, B, C, D, paths, backend)


def _check_shapes(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None,
    paths: torch.Tensor,
) -> None:
    """Raise ValueError naming the first argument whose shape does not follow from x and paths."""
    if x.ndim != 4:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected (batch, length, heads, head_dim).")
    batch, length, heads, head_dim = x.shape
    n_paths = len(paths)
    states = B.shape[-1]
    expected: dict[str, tuple[torch.Tensor, list[tuple[int, ...]]]] = {
        "dt": (dt, [(batch, length, n_paths, heads)]),
        "A": (A, [(n_paths, heads)]),
        "B": (B, [(batch, length, n_paths, states), (batch, length, 1, states)]),
        "C": (C, [tuple(B.shape)]),
        "paths": (paths, [(n_paths, length)]),
    }
    if D is not None:
        expected["D"] = (D, [(n_paths, heads), (n_paths, heads, head_dim)])
    for name, (tensor, shapes) in expected.items():
        if tuple(tensor.shape) not in shapes:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {' or '.join(map(str, shapes))}.")


def _scan_gathered(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None,
    paths: torch.Tensor,
    backend: str | None,
) -> torch.Tensor:
    """Bring each path's tokens into a row, scan all paths as groups of heads of one call, put them back."""
    batch, length, heads, head_dim = x.shape
    n_paths = len(paths)
    each = torch.arange(n_paths, device=x.device)
    order, back = paths.T, torch.argsort(paths, dim=1).T
    # The outputs of the paths are added in full precision and rounded once.
    along = x.to(torch.promote_types(x.dtype, torch.float32))[:, order].reshape(
        batch, length, n_paths * heads, head_dim
    )
    B, C = (maps.expand(-1, -1, n_paths, -1) for maps in (B, C))
    y = ssd_scan(
        along,
        dt[:, order, each].reshape(batch, length, n_paths * heads),
        A.reshape(-1),
        B[:, order, each],
        C[:, order, each],
        None if D is None else D.reshape(n_paths * heads, *D.shape[2:]),
        backend=backend,
    )
    return y.view(batch, length, n_paths, heads, head_dim)[:, back, each].sum(dim=2).to(x.dtype)


def _in_full_precision(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None,
    paths: torch.Tensor,
) -> torch.Tensor:
    """All pairs in float32 at least, also under autocast, plus the direct term."""
    kind = torch.promote_types(x.dtype, torch.float32)
    signal = x.to(kind)
    with torch.autocast(x.device.type, enabled=False):
        y = scan_pairs(signal, dt.to(kind), A.to(kind), B.to(kind), C.to(kind), paths)
    if D is not None:
        direct = D.to(kind).sum(dim=0)
        y = y + signal * (direct if direct.ndim == 2 else direct[:, None])
    return y.to(x.dtype)
