"""What the selective scans share: their arguments, what comes before the recurrence, the places of the correction R.

Notation: x input, dt step, A decay rate, B input map, C output map, D skip, R share of the own token's
input that y does not see.

GeoMaNO prints its correction at three places: at the state, at the output, at the input. All three are
linear in R, and what is taken off y needs no state, so the kernels know the first one only.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from skop.ops._arguments import autocast_off, fill_masked, in_working_precision
from skop.ops._blocked import own_share
from skop.ops._dispatch import Operation

__all__ = ["CORRECTIONS", "Arguments", "Direction", "axes", "example", "scan"]

#: Names that `correction` arguments take.
CORRECTIONS = ("state", "output", "input")
#: Signed axis of each pass in turn, counted from 1 over the axes of a grid, minus backwards.
Direction = tuple[int, ...]
#: Arguments that have gradients.
N_TENSORS = 9


class Arguments(NamedTuple):
    """Arguments of a selective scan, as all implementations take them: along K paths, or over a grid in K directions.

    (...) is the length, or the axes of the grid. Implementations return y, of the shape of x, summed over the paths
    where they share x, and the final state, of the shape of `initial_state`, or None over a grid. Tensors are in the
    precision of the computation, and x, B and C for kernels also in bfloat16.
    """

    x: Tensor  # (batch, ..., 1 or K, D), shared by the paths or one for each
    dt: Tensor  # (batch, ..., K, D), before the softplus if there is one
    A: Tensor  # (K, D, N), negative
    B: Tensor  # (batch, ..., K, N)
    C: Tensor  # (batch, ..., K, N)
    D: Tensor | None  # (K, D)
    dt_bias: Tensor | None  # (K, D)
    R: Tensor | None  # (K, D, N)
    initial_state: Tensor | None  # (batch, K, D, N); None is zero, and all there is over a grid
    order: Any  # tokens as each path visits them, int32 (K, length), or the K directions over the grid
    softplus: bool  # whether the steps are softplus(dt + dt_bias)

    @property
    def steps(self) -> Tensor:
        """Steps: the bias is added, then the softplus is taken."""
        biased = self.dt if self.dt_bias is None else self.dt + self.dt_bias
        return functional.softplus(biased) if self.softplus else biased

    @property
    def shares_x(self) -> bool:
        """Whether several paths share x, and their outputs are added."""
        return self.x.shape[-2] < self.dt.shape[-2]


@cache
def axes(tokens: str, paths: str | None) -> dict[str, str]:
    """Name the axes of the arguments of a public function; without paths, the channels have groups."""
    each = f"{paths}, " if paths else ""
    maps, weights = f"batch, {tokens}, {paths or 'groups'}, d_state", f"{each}channels"
    return {
        "x": f"batch, {tokens}, channels", "B": maps, "C": maps, "dt": f"batch, {tokens}, {weights}",
        "A": f"{weights}, d_state", "D": weights, "dt_bias": weights, "R": f"{weights}, d_state",
        "initial_state": f"batch, {weights}, d_state", "mask": f"batch, {tokens}",
    }  # fmt: skip


def scan(
    operation: Operation, backend: str | None, given: Arguments, correction: str, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Scan with arguments in any precision, and with the correction at any place; y has the dtype of x."""
    with autocast_off(given.x.device):
        core, rest = split_correction(prepare(given, mask), correction)
        y, final_state = operation.run(backend, core)
        return (y if rest is None else y - rest).to(given.x.dtype), final_state


def prepare(given: Arguments, mask: Tensor | None) -> Arguments:
    """Bring the arguments to one precision, x, B and C to bfloat16 if all are, and make masked tokens neutral.

    The bias is left only if a softplus follows.
    """
    given = in_working_precision(given)
    if not given.softplus:
        given = given._replace(dt=given.steps, dt_bias=None)
    return fill_masked(given, mask, float("-inf") if given.softplus else 0.0)  # softplus(-inf) is exactly 0


def split_correction(given: Arguments, correction: str) -> tuple[Arguments, Tensor | None]:
    """Split off the corrections at the output and at the input, which are added outside the scan.

    R is a share of C dt' B x ("state"), which the scans take off themselves, of dt' B x ("output") or of C x
    ("input"). The second result is to be taken off y.
    """
    if correction not in CORRECTIONS:
        raise ValueError(f"correction is {correction!r}; expected one of {CORRECTIONS}.")
    if given.R is None or correction == "state":
        return given, None
    x, maps_in, maps_out = (values.to(given.dt.dtype) for values in (given.x, given.B, given.C))
    one = given.R.new_ones(())
    if correction == "output":
        weights = own_share(maps_in, one, given.R) * given.steps
    else:
        weights = own_share(maps_out, one, given.R)
    rest = x * (weights.sum(-2, keepdim=True) if given.shares_x else weights)
    return given._replace(x=x, B=maps_in, C=maps_out, R=None), rest


def example(*tokens: int, directions: tuple[Direction, ...] | None = None) -> Arguments:
    """Make the problem of a self-check: two paths, by default random ones, with everything in it, in float64."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    channels, states = 18, 3
    x, dt, rates = normal(1, *tokens, 1, channels), normal(1, *tokens, 2, channels), normal(2, channels, states)
    B, C = (normal(1, *tokens, 2, states) for _ in range(2))
    D, bias, R = normal(2, channels), normal(2, channels), normal(2, channels, states)
    start = None if directions else normal(1, 2, channels, states)
    order = directions or torch.stack([torch.randperm(*tokens, generator=generator) for _ in range(2)]).int()
    return Arguments(x, dt, -rates.exp(), B, C, D, bias, R, start, order, softplus=True)
