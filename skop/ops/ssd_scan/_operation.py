"""The SSD scan as an operation with several implementations: its arguments, and its plain forms along paths.

Notation of the shapes: K paths, H heads of a path, P channels of a head, N states.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from skop.ops._dispatch import Operation, is_traced
from skop.ops.ssd_scan._naive import ssd_scan_naive
from skop.ops.ssd_scan._pairs import scan_all_pairs, scan_pairs
from skop.ops.ssd_scan._torch import ssd_scan_torch

__all__ = ["SSD_SCAN", "Arguments"]

#: Up to this many tokens plain torch forms all pairs at once along paths in opposite pairs: the pairs then cost
#: less than the gathers and the chunk loop that they replace.
_PAIRS_TOKENS = 128
#: The same along the sequence, where a scan in chunks has no gathers, but takes many more calls of torch.
_ROW_TOKENS = 32


class Arguments(NamedTuple):
    """Arguments of the SSD scan, as all implementations take them: along K paths, or K groups of heads.

    Implementations return y, of the shape of x, summed over the paths where they share x, and the final state, of the
    shape of `initial_state`. Tensors are in the precision of the computation, and x, B and C for kernels also in
    bfloat16.
    """

    x: Tensor  # (batch, length, 1 or K, H, P), shared by the paths or one for each
    dt: Tensor  # (batch, length, K, H), after the softplus
    A: Tensor  # (K, H), negative
    B: Tensor  # (batch, length, 1 or K, N), shared by the heads of a path
    C: Tensor  # (batch, length, 1 or K, N)
    D: Tensor | None  # (K, H, 1 or P)
    initial_state: Tensor | None  # (batch, K, H, P, N); None is zero
    paths: Tensor  # tokens in the order in which each path visits them, int32 (K, length)
    #: Which paths are the sequence itself, False, or its reverse, True, if all are and x is not shared; the plain
    #: forms then do without the paths.
    directions: tuple[bool, ...] | None = None
    in_opposite_pairs: bool = False  # whether each odd path is known to be the reverse of the path before it
    chunk_size: int = 64  # most tokens of a chunk of the form in plain torch
    needs_final_state: bool = True  # if not, the form in plain torch may return None for it

    @property
    def shares_x(self) -> bool:
        """Whether several paths share x, and their outputs are added."""
        return self.x.shape[2] < self.dt.shape[2]


def path_scan_naive(given: Arguments) -> tuple[Tensor, Tensor | None]:
    """Scan token by token."""
    return _paths(given, *ssd_scan_naive(*_heads(given)))


def path_scan_torch(given: Arguments) -> tuple[Tensor, Tensor | None]:
    """Scan in chunks; few tokens, along the sequence or along paths in opposite pairs, all pairs of tokens at once."""
    few = given.in_opposite_pairs and given.x.shape[1] <= _PAIRS_TOKENS
    if few and given.initial_state is None and not given.needs_final_state:
        signal = given.x.squeeze(2)
        y = scan_pairs(signal, *given[1:5], given.paths.long())
        return (y if given.D is None else y + signal * given.D.sum(0)).unsqueeze(2), None
    is_row = given.directions is not None and not given.needs_final_state and not is_traced()
    if is_row and given.x.shape[1] <= min(_ROW_TOKENS, given.chunk_size):
        y = scan_all_pairs(*given[:5], given.initial_state, given.directions or ())
        return (y if given.D is None else y + given.x * given.D), None
    with_state = given.directions is None or given.needs_final_state
    return _paths(given, *ssd_scan_torch(*_heads(given), chunk_size=given.chunk_size, return_final_state=with_state))


def _heads(given: Arguments) -> tuple[Any, ...]:
    """Arguments of a scan of groups of heads, each path's tokens brought into a row."""
    x, dt, A, B, C, D, start, *_ = given
    n_paths = len(A)
    if given.directions is None:
        each, order = torch.arange(n_paths, device=x.device), given.paths.long().T
        x, B, C = (values.expand(-1, -1, n_paths, *values.shape[3:])[:, order, each] for values in (x, B, C))
        dt = dt[:, order, each]
    skip, start = None if D is None else D.flatten(0, 1), None if start is None else start.flatten(1, 2)
    directions = given.directions or (False,) * n_paths
    return x.flatten(2, 3), dt.flatten(2), A.flatten(), B, C, skip, start, directions


def _paths(given: Arguments, y: Tensor, end: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Outputs and final states of groups of heads as those of the paths, the tokens put back."""
    n_paths, heads = given.A.shape
    y = y.unflatten(2, (n_paths, heads))
    if given.directions is None:
        y = y[:, given.paths.long().T.argsort(0), torch.arange(n_paths, device=y.device)]
        y = y.sum(2, keepdim=True) if given.shares_x else y
    return y, None if end is None else end.unflatten(1, (n_paths, heads))


def _example() -> Arguments:
    """A problem of two paths with everything in it, longer than a chunk of any kernel."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    length, paths, heads, channels, states = 150, 2, 2, 18, 5
    x, dt = normal(1, length, 1, heads, channels), normal(1, length, paths, heads)
    B, C = (normal(1, length, paths, states) for _ in range(2))
    skip, start = normal(paths, heads, channels), normal(1, paths, heads, channels, states)
    order = torch.stack([torch.randperm(length, generator=generator) for _ in range(paths)]).int()
    return Arguments(x, dt.exp(), -normal(paths, heads).exp(), B, C, skip, start, order)


SSD_SCAN = Operation(
    "ssd_scan",
    {"naive": path_scan_naive, "torch": path_scan_torch},
    n_tensors=7,
    example=_example,
    small=2**17,
    traceable="torch",
)
