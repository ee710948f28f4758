"""The kernels of the package mamba_ssm (Gu & Dao; Dao & Gu) in the shapes of our scans.

They scan each sequence from its first token to its last, so the tokens of a path are brought into a row and
put back. What a kernel lacks is added around it, or it is not used.

Notation of the shapes: b batch, L length, K paths, D channels of a path (S6), H heads of a path, P channels
of a head (SSD), N states. Notation of the maths as in `skop.ops.selective_scan` and `skop.ops.ssd_scan`.
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
from skop.ops._selective import step_sizes

__all__ = ["Adapter", "adapter"]

#: Tokens that the SSD kernel treats as one matrix: fewer than in our self-check, which so crosses a border.
_CHUNK_SIZE = 128
#: Most states of a channel that the S6 kernel takes.
_MOST_STATES = 256
_NO_LIMITS = (float("-inf"), float("inf"))


@dataclass(frozen=True)
class Adapter:
    """One kernel of mamba_ssm as an implementation of one of our operations.

    Parameters
    ----------
    scan : callable
        Takes the arguments of the operation and returns y and the final state, with first derivatives.
    not_taken : tuple of (int, str), default ()
        Places of the arguments that have to be None, and their names.
    constant : tuple of int, default ()
        Places of the outputs that it gives no gradients of.
    most_states : int or None, default None
        Most states that it takes; None is any number.
    """

    scan: Callable[..., tuple[Tensor, Tensor]]
    not_taken: tuple[tuple[int, str], ...] = ()
    constant: tuple[int, ...] = ()
    most_states: int | None = None

    def refusal(self, *arguments: Any) -> str | None:
        """Why it cannot take some arguments, or None.

        Parameters
        ----------
        *arguments
            Arguments of the operation.

        Returns
        -------
        str or None
            The reason.
        """
        given = [name for place, name in self.not_taken if arguments[place] is not None]
        states = arguments[3].shape[-1]
        if given:
            return f"mamba_ssm's kernel takes no {given[0]}"
        if self.most_states is not None and states > self.most_states:
            return f"mamba_ssm's kernel takes at most {self.most_states} states, and these are {states}"
        return None

    def reduced(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Leave out what it cannot take.

        Parameters
        ----------
        arguments : tuple
            Arguments of the operation.

        Returns
        -------
        tuple
            The same with None in those places.
        """
        places = [place for place, _ in self.not_taken]
        return tuple(None if place in places else value for place, value in enumerate(arguments))


def adapter(operation: str) -> Adapter:
    """Return the adapter for an operation.

    Parameters
    ----------
    operation : str
        Name of the operation.

    Returns
    -------
    Adapter
        The adapter.

    Raises
    ------
    OptionalDependencyError
        If mamba_ssm is not installed.
    NotImplementedError
        If it has no such kernel.
    """
    load = partial(import_optional, extra="cuda", purpose="run its kernels")
    if operation == "selective_scan":
        function = load("mamba_ssm.ops.selective_scan_interface").selective_scan_fn
        scan = partial(_selective_scan, function)
        return Adapter(scan, not_taken=((8, "initial_state"),), constant=(1,), most_states=_MOST_STATES)
    if operation == "ssd_scan":
        return Adapter(partial(_ssd_scan, load("mamba_ssm.ops.triton.ssd_combined").mamba_chunk_scan_combined))
    raise NotImplementedError(f"mamba_ssm has no {operation}")


def _selective_scan(
    function: Callable[..., Any],
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    initial_state: None,
    paths: Tensor,
    softplus: bool,
) -> tuple[Tensor, Tensor]:
    """Scan (b, K D, L), every path a group of channels with maps (b, K, N, L)."""
    n_paths, channels = A.shape[:2]
    order = _order(paths)
    # The kernel wants one precision for all that has tokens; the steps are not to be rounded.
    inputs, maps_in, maps_out = (values.to(dt.dtype) for values in (x, B, C))
    each = inputs.expand(-1, -1, n_paths, -1)
    u, step = (order.rows(values).permute(0, 2, 3, 1).flatten(1, 2) for values in (each, dt))
    b, c = (order.rows(values).permute(0, 2, 3, 1) for values in (maps_in, maps_out))
    skip, bias = (None if value is None else value.flatten() for value in (D, dt_bias))
    y, end = function(u, step, A.flatten(0, 1), b, c, skip, None, bias, softplus, return_last_state=True)
    kept, y = y, order.tokens(y.unflatten(1, (n_paths, channels)).permute(0, 3, 1, 2))
    if R is not None:
        y = y - step_sizes(dt, dt_bias, softplus) * inputs * own_share(maps_in, maps_out, R)
    y = y.sum(2, keepdim=True) if x.shape[2] < n_paths else y
    # The last state is a part of what the kernel keeps, too.
    return _apart(y.to(x.dtype), kept), end.detach().unflatten(1, (n_paths, channels)).clone()


def _ssd_scan(
    function: Callable[..., Any],
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
    paths: Tensor,
) -> tuple[Tensor, Tensor]:
    """Scan (b, L, K H, P), every path a group of heads with maps (b, L, 1 or K, N)."""
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
    y = y.sum(2, keepdim=True) if x.shape[2] < n_paths else y
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
        return _Permutation.apply(values, *self.tables)

    def tokens(self, rows: Tensor) -> Tensor:
        """Put rows back into the order of the tokens."""
        if self.tables is None:
            return self.rows(rows)
        return _Permutation.apply(rows, *reversed(self.tables))


class _Permutation(torch.autograd.Function):
    """Take (b, L, K, ...) in the order of a table (K, L); its gradient takes the inverse, without any scattering."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, table: Tensor, inverse: Tensor) -> Tensor:
        """Take the tokens of all paths at once."""
        ctx.save_for_backward(table, inverse)
        n_paths = len(table)
        places = table.T * n_paths + torch.arange(n_paths, device=table.device)
        return values.flatten(1, 2).index_select(1, places.flatten()).view(values.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Take the gradient in the inverse order."""
        table, inverse = ctx.saved_tensors
        return _Permutation.apply(grad, inverse, table), None, None


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
