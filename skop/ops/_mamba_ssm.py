"""The kernels of the package mamba_ssm (Gu & Dao; Dao & Gu) in the shapes of our scans.

They scan each sequence from its first token to its last, so the tokens of a path are brought into a row and
put back. What a kernel lacks is added around it, or it is not used.

Notation of the shapes as in `Arguments` of `skop.ops._selective` and of `skop.ops.ssd_scan._operation`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from skop._optional import import_optional
from skop.ops._blocked import own_share
from skop.ops._paths import Permutation

__all__ = ["Adapter", "adapter"]

#: Tokens that the SSD kernel treats as one matrix: fewer than in our self-check, which so crosses a border.
_CHUNK_SIZE = 128
#: Most states of a channel that the S6 kernel takes.
_MOST_STATES = 256
_NO_LIMITS = (float("-inf"), float("inf"))


@dataclass(frozen=True)
class Adapter:
    """One kernel of mamba_ssm as an implementation of one of our operations."""

    scan: Callable[[Any], tuple[Tensor, Tensor]]  # y and the final state, with first derivatives
    not_taken: tuple[str, ...] = ()  # arguments that have to be None
    constant: tuple[int, ...] = ()  # places of the outputs that it gives no gradients of
    most_states: int | None = None  # None is any number

    def refusal(self, given: Any) -> str | None:
        """Why it cannot take the arguments of the operation, or None."""
        states = given.B.shape[-1]
        for name in self.not_taken:
            if getattr(given, name) is not None:
                return f"mamba_ssm's kernel takes no {name}"
        if self.most_states is not None and states > self.most_states:
            return f"mamba_ssm's kernel takes at most {self.most_states} states, and these are {states}"
        return None

    def reduced(self, given: Any) -> Any:
        """Leave out what it cannot take."""
        return given._replace(**dict.fromkeys(self.not_taken))


def adapter(operation: str) -> Adapter:
    """Return the adapter for an operation; raise an error if mamba_ssm is not installed, or has no such kernel."""
    load = partial(import_optional, purpose="run its kernels")
    if operation == "selective_scan":
        function = load("mamba_ssm.ops.selective_scan_interface").selective_scan_fn
        scan = partial(_selective_scan, function)
        return Adapter(scan, not_taken=("initial_state",), constant=(1,), most_states=_MOST_STATES)
    if operation == "ssd_scan":
        return Adapter(partial(_ssd_scan, load("mamba_ssm.ops.triton.ssd_combined").mamba_chunk_scan_combined))
    raise NotImplementedError(f"mamba_ssm has no {operation}")


def _selective_scan(function: Callable[..., Any], given: Any) -> tuple[Tensor, Tensor]:
    """Scan (b, K D, L), every path a group of channels with maps (b, K, N, L)."""
    x, dt, A, B, C, D, bias, R, _, paths, softplus = given
    n_paths, channels = A.shape[:2]
    order = _order(paths)
    # The kernel wants one precision for all that has tokens; the steps are not to be rounded.
    inputs, maps_in, maps_out = (values.to(dt.dtype) for values in (x, B, C))
    each = inputs.expand(-1, -1, n_paths, -1)
    u, step = (order.rows(values).permute(0, 2, 3, 1).flatten(1, 2) for values in (each, dt))
    b, c = (order.rows(values).permute(0, 2, 3, 1) for values in (maps_in, maps_out))
    skip, bias = (None if value is None else value.flatten() for value in (D, bias))
    y, end = function(u, step, A.flatten(0, 1), b, c, skip, None, bias, softplus, return_last_state=True)
    kept, y = y, order.tokens(y.unflatten(1, (n_paths, channels)).permute(0, 3, 1, 2))
    if R is not None:
        y = y - given.steps * inputs * own_share(maps_in, maps_out, R)
    y = y.sum(2, keepdim=True) if given.shares_x else y
    # The last state is a part of what the kernel keeps, too.
    return _apart(y.to(x.dtype), kept), end.detach().unflatten(1, (n_paths, channels)).clone()


def _ssd_scan(function: Callable[..., Any], given: Any) -> tuple[Tensor, Tensor]:
    """Scan (b, L, K H, P), every path a group of heads with maps (b, L, 1 or K, N)."""
    x, dt, A, B, C, D, initial_state, paths, *_ = given
    n_paths, heads = A.shape
    order = _order(paths)
    u = order.rows(x.expand(-1, -1, n_paths, -1, -1)).flatten(2, 3)
    b, c = (order.rows(values if order.in_step else values.expand(-1, -1, n_paths, -1)) for values in (B, C))
    skip = None if D is None else D.flatten() if D.shape[-1] == 1 else D.flatten(0, 1)
    y, end = function(
        u,
        order.rows(dt).flatten(2),
        A.flatten(),
        b,
        c,
        _CHUNK_SIZE,
        D=skip,
        initial_states=None if initial_state is None else initial_state.flatten(1, 2),
        dt_limit=_NO_LIMITS,
        return_final_states=True,
    )
    kept, y = y, order.tokens(y.unflatten(2, (n_paths, heads)))
    y = y.sum(2, keepdim=True) if given.shares_x else y
    return _apart(y, kept), end.unflatten(1, (n_paths, heads))


def _apart(y: Tensor, kept: Tensor) -> Tensor:
    """Outputs in memory of their own: a kernel may keep its y, and a caller may write to what it gets."""
    return y.clone(memory_format=torch.contiguous_format) if y.data_ptr() == kept.data_ptr() else y.contiguous()


@dataclass(frozen=True)
class _Order:
    """How the tokens of (b, L, K, ...) are brought into the order of the paths and back.

    Either all paths run in one of the two directions of the sequence, for which no table is needed, or
    tables (K, L) of tokens and of their places are.
    """

    backwards: bool
    tables: tuple[Tensor, Tensor] | None = None

    @property
    def in_step(self) -> bool:
        """Whether all paths visit the tokens in one order."""
        return self.tables is None

    def rows(self, values: Tensor) -> Tensor:
        """Bring the tokens of each path into a row."""
        if self.tables is None:
            return values.flip(1) if self.backwards else values
        return Permutation.apply(values, *self.tables)

    def tokens(self, rows: Tensor) -> Tensor:
        """Put rows back into the order of the tokens."""
        if self.tables is None:
            return self.rows(rows)
        return Permutation.apply(rows, *reversed(self.tables))


#: What was found out about tables of paths, which are kept and not written to, for as long as they live.
_known: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def _order(paths: Tensor) -> _Order:
    """Order of the paths; looking for a direction makes a GPU wait, and is done once for a tensor."""
    found: _Order | None = _known.get(paths)
    if found is not None:
        return found
    with torch.inference_mode(False):  # kept, and so to be used in training later
        table = paths.detach().long()
        tables = table, table.argsort(1)
        if paths.is_cuda and torch.cuda.is_current_stream_capturing():  # no looking while a graph is captured
            return _Order(False, tables)
        forwards = torch.arange(table.shape[1], device=table.device).expand_as(table)
        if torch.equal(table, forwards):
            found = _Order(backwards=False)
        elif torch.equal(table, forwards.flip(1)):
            found = _Order(backwards=True)
        else:
            found = _Order(False, tables)
    _known[paths] = found
    return found
