"""Orders in which scans visit the tokens: paths, and directions of groups of channels or heads."""

import weakref
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from skop.ops._arguments import expect_shape

__all__ = ["CheckedPaths", "Permutation", "check_paths", "directions_of_groups", "path_table"]


class CheckedPaths(NamedTuple):
    """Paths that are known to be good, (n_paths, length) in int32, and whether each odd one reverses the one before."""

    order: Tensor
    in_opposite_pairs: bool


#: What was found out about a tensor of paths, with its version and values then, for as long as the tensor lives.
_known: dict[int, tuple[weakref.ref[Tensor], int, Tensor, CheckedPaths]] = {}


def check_paths(paths: Tensor, n_paths: int, length: int, device: torch.device) -> CheckedPaths:
    """Check that each path visits every token once; else raise ValueError.

    A tensor that was checked before, and has not been written to since, is not looked at again: networks
    use the same paths in every step, and looking makes a GPU wait.
    """
    if not isinstance(paths, Tensor):
        raise ValueError(
            f"paths is of type {type(paths).__name__}; expected an int64 Tensor of shape (n_paths, length)."
        )
    expect_shape("paths", paths, "(n_paths, length)", (n_paths, length))
    version = -1 if paths.is_inference() else paths._version
    checked = _recall(paths, version)
    if checked is None:
        _expect_permutations(paths, length)
        with torch.inference_mode(False):  # kept, and so to be used in training later
            opposite = n_paths % 2 == 0 and torch.equal(paths[::2].flip(1), paths[1::2])
            values = paths.detach().clone()
            checked = CheckedPaths(values.to(device, torch.int32), opposite)
        if version >= 0:  # tensors made in inference mode do not count how often they are written to
            key = id(paths)
            _known[key] = (weakref.ref(paths, lambda _: _known.pop(key, None)), version, values, checked)
    return checked if checked.order.device == device else checked._replace(order=checked.order.to(device))


def _recall(paths: Tensor, version: int) -> CheckedPaths | None:
    """What is known of a tensor that has not been written to since."""
    reference, known_version, values, checked = _known.get(id(paths), (None, None, None, None))
    if reference is None or values is None or reference() is not paths or known_version != version:
        return None
    # Writes through NumPy are not counted; on a CPU, looking is cheap.
    return checked if paths.is_cuda or torch.equal(paths, values) else None


def _expect_permutations(paths: Tensor, length: int) -> None:
    """Raise ValueError unless each row holds every token once."""
    if paths.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"paths has dtype {paths.dtype}; expected torch.int64, positions of tokens.")
    low, high = (limit.item() for limit in paths.aminmax())
    if low < 0 or high >= length:
        raise ValueError(f"paths has values from {low} to {high}; expected the positions 0 to {length - 1}.")
    visited = torch.zeros(paths.shape, dtype=torch.bool, device=paths.device).scatter_(1, paths.long(), True)
    if not visited.all():
        missed = (~visited).any(1).nonzero().flatten().tolist()
        raise ValueError(f"paths visits some tokens twice in rows {missed}; expected a permutation in each row.")


def directions_of_groups(reverse: bool | Sequence[bool], groups: int) -> tuple[bool, ...]:
    """Return the direction of each group; True is from the last token to the first."""
    directions = (reverse,) * groups if isinstance(reverse, bool) else tuple(reverse)
    if len(directions) != groups or not all(isinstance(direction, bool) for direction in directions):
        raise ValueError(f"reverse is {reverse!r}; expected a bool, or one for each of the {groups} groups.")
    return directions


@lru_cache(maxsize=64)
def path_table(length: int, reverse: tuple[bool, ...], device: torch.device) -> Tensor:
    """Return the order in which each group visits the tokens, (groups, length); it is kept, and not written to."""
    with torch.inference_mode(False):  # else a first call under inference mode would bar gradients for ever
        forwards = torch.arange(length, dtype=torch.int32, device=device)
        return torch.stack([forwards.flip(0) if backwards else forwards for backwards in reverse])


class Permutation(torch.autograd.Function):
    """Take (b, L, K, ...) in the order of a table (K, L); its gradient takes the inverse, without any scattering."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, order: Tensor, back: Tensor) -> Tensor:
        """Take the tokens of all paths at once."""
        ctx.save_for_backward(order, back)
        n_paths = len(order)
        rows = order.T * n_paths + torch.arange(n_paths, device=order.device)
        return values.flatten(1, 2).index_select(1, rows.flatten()).view(values.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Take the gradient in the inverse order."""
        order, back = ctx.saved_tensors
        return Permutation.apply(grad, back, order), None, None
