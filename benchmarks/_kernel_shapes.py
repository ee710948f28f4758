"""Problem sizes of the benchmark, and lower bounds of their times on a given machine (roofline model).

A bound is the larger of two times: that of the arithmetic, at the machine's rate of vector operations, and that of
reading every input and writing every output once, at the machine's rate of copying memory. A vector operation is a
fused multiply-add, a product or a sum; all cost the same. For each state and token a scan needs at least

=====================  =========================================  ==========================================
scan                   forward                                    backward
=====================  =========================================  ==========================================
selective_scan,        15: the decay 12 (exp2 by a polynomial),   22: the states again 14, the cotangent of
selective_path_scan    input, state, output                       the state 2, gradients of A, B, C, x, dt 6
selective_scan_2d      16: the same with two states               26: the same with two of each
ssd_scan,              2: state, output                           6: three scans more, for the gradients of
ssd_path_scan                                                     x, of B and of C
=====================  =========================================  ==========================================

Operations that are needed once for each token are not counted. A GPU has an instruction for exp2, so its bound is not
tight.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from skop.modules import direction_paths, direction_set

__all__ = ["CASES", "OPERATIONS", "Case", "Problem", "Rates", "bound", "function_name", "make_problem", "scaling_case"]

#: Vector operations for each state and token, forward and backward.
OPERATIONS = {
    "selective_scan": (15, 22),
    "selective_path_scan": (15, 22),
    "selective_scan_2d": (16, 26),
    "ssd_scan": (2, 6),
    "ssd_path_scan": (2, 6),
}
_DIRECTIONS = ((2, 1), (1, 2), (-2, -1), (-1, -2))


def function_name(op: str) -> str:
    """Return the name of the function that runs a scan.

    Parameters
    ----------
    op : str
        Scan.

    Returns
    -------
    str
        Name in `skop.ops`.

    Examples
    --------
    >>> from benchmarks._kernel_shapes import function_name
    >>> function_name("ssd_path_scan")
    'ssd_scan'
    """
    return op.replace("_path_", "_")


@dataclass(frozen=True)
class Case:
    """Sizes of a problem.

    Parameters
    ----------
    op : str
        Name of the scan: that of the function in `skop.ops`, with ``_path_`` if it runs along paths.
    name : str
        Name of the problem.
    batch : int
        Number of samples.
    grid : pair of int
        Number of rows and columns of tokens; one column for a sequence.
    channels : int
        Number of channels, or of channels of a head.
    states : int
        Number of states of a channel.
    heads : int, default 0
        Number of heads of the state-space-dual scans.
    paths : int, default 1
        Number of paths or directions; for `ssd_scan`, of groups of heads.
    extras : tuple of str, default ()
        Optional arguments that are used: ``"R"``, ``"initial_state"``, ``"reverse"``.
    """

    op: str
    name: str
    batch: int
    grid: tuple[int, int]
    channels: int
    states: int
    heads: int = 0
    paths: int = 1
    extras: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """Tokens of a sample."""
        return prod(self.grid)

    @property
    def shared(self) -> int:
        """Paths that share one x: 1 where every path has its own."""
        return self.paths if self.op not in ("selective_scan", "ssd_scan") else 1

    @property
    def n_states(self) -> int:
        """States of all tokens and paths together."""
        return self.batch * self.length * self.shared * max(self.heads, 1) * self.channels * self.states

    def small(self) -> "Case":
        """Return the same kind of problem at sizes that cost nothing."""
        grid = (40, 1) if self.grid[1] == 1 else (6, 7)
        heads = self.heads and 2 * self.paths
        return replace(self, batch=2, grid=grid, channels=4, states=3, heads=heads)

    def words(self) -> str:
        """Sizes in words."""
        tokens = f"{self.length:,} tokens" if self.grid[1] == 1 else f"{self.grid[0]} x {self.grid[1]} tokens"
        channels = f"{self.heads} heads of {self.channels} channels" if self.heads else f"{self.channels} channels"
        kind = "groups" if self.op == "ssd_scan" else "directions" if self.op.endswith("2d") else "paths"
        parts = [f"batch {self.batch}", tokens, channels, f"{self.states} states"]
        parts += [f"{self.paths} {kind}"] * (self.paths > 1) + [f"with {', '.join(self.extras)}"] * bool(self.extras)
        return ", ".join(parts)


CASES = (
    Case("selective_scan", "main", 16, (1936, 1), 128, 16),
    Case("selective_scan", "share", 16, (1936, 1), 128, 16, extras=("R",)),
    Case("selective_scan", "wide", 2, (4096, 1), 512, 16),
    Case("selective_scan", "short", 16, (256, 1), 128, 16),
    Case("selective_scan", "long", 1, (65536, 1), 64, 16),
    Case("selective_path_scan", "main", 4, (44, 44), 128, 16, paths=4),
    Case("selective_scan_2d", "main", 4, (44, 44), 128, 16, paths=4),
    Case("selective_scan_2d", "share", 4, (44, 44), 128, 16, paths=4, extras=("R",)),
    Case("ssd_scan", "main", 4, (1936, 1), 32, 64, heads=16, paths=4),
    Case("ssd_scan", "short", 16, (256, 1), 32, 64, heads=16),
    Case("ssd_scan", "long", 1, (65536, 1), 64, 64, heads=4),
    # One layer of LaMO's published networks for elasticity and for Darcy flow.
    Case("ssd_scan", "elasticity", 1, (64, 1), 64, 64, heads=8, paths=4, extras=("initial_state", "reverse")),
    Case("ssd_path_scan", "main", 4, (44, 44), 32, 64, heads=4, paths=4),
)


def scaling_case(op: str, length: int) -> Case:
    """Return the problem whose time is followed over the length.

    Parameters
    ----------
    op : {"selective_scan", "ssd_scan"}
        Scan.
    length : int
        Number of tokens.

    Returns
    -------
    Case
        One sequence.

    Examples
    --------
    >>> from benchmarks._kernel_shapes import scaling_case
    >>> scaling_case("ssd_scan", 4096).words()
    'batch 1, 4,096 tokens, 4 heads of 64 channels, 64 states'
    """
    channels, states, heads = (64, 64, 4) if op == "ssd_scan" else (64, 16, 0)
    return Case(op, f"length {length}", 1, (length, 1), channels, states, heads)


class Problem(NamedTuple):
    """Arguments of a scan.

    Parameters
    ----------
    tensors : mapping of str to Tensor
        Arguments with gradients.
    settings : mapping of str to object
        Other arguments.
    cotangent : Tensor
        Gradient of the output.
    """

    tensors: Mapping[str, Tensor]
    settings: Mapping[str, Any]
    cotangent: Tensor


def make_problem(case: Case, device: str, dtype: torch.dtype) -> Problem:
    """Draw a problem; the same numbers for every device and, rounded, for every precision.

    Parameters
    ----------
    case : Case
        Sizes.
    device : str
        Device of the tensors.
    dtype : torch.dtype
        Precision of x and of the input and output maps; the others are held in float32 at least.

    Returns
    -------
    Problem
        Arguments, with the steps and decays that Mamba's layers start from.
    """
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    tokens = (case.batch, *case.grid) if case.op == "selective_scan_2d" else (case.batch, case.length)
    own = (case.paths,) if case.shared > 1 else ()
    drawn = _make_ssd(case, normal, tokens, own) if case.heads else _make_s6(case, normal, tokens, own)
    wide = torch.promote_types(dtype, torch.float32)
    tensors = {
        name: value.to(device, dtype if name in ("x", "B", "C") else wide).contiguous() for name, value in drawn.items()
    }
    cotangent = normal(*drawn["x"].shape).to(device, dtype)
    return Problem(tensors, _settings(case, device), cotangent)


def _make_s6(case: Case, normal: Any, tokens: tuple[int, ...], own: tuple[int, ...]) -> dict[str, Tensor]:
    """Tensors of a scan with its own decay for every channel and state."""
    step = torch.exp(torch.linspace(-6.9, -2.3, case.channels))
    tensors = {
        "x": normal(*tokens, case.channels),
        "dt": normal(*tokens, *own, case.channels),
        "A": -torch.arange(1.0, 1 + case.states).expand(*own, case.channels, case.states),
        "B": normal(*tokens, case.paths, case.states),
        "C": normal(*tokens, case.paths, case.states),
        "D": normal(*own, case.channels),
        "dt_bias": step.expm1().log().expand(*own, case.channels),
    }
    if "R" in case.extras:
        tensors["R"] = torch.sigmoid(normal(*own, case.channels, case.states))
    return tensors


def _make_ssd(case: Case, normal: Any, tokens: tuple[int, ...], own: tuple[int, ...]) -> dict[str, Tensor]:
    """Tensors of a scan with one decay for a head."""
    tensors = {
        "x": normal(*tokens, case.heads, case.channels),
        "dt": torch.exp(normal(*tokens, *own, case.heads) - 4.6),
        "A": -torch.linspace(1, 16, case.heads).expand(*own, case.heads),
        "B": normal(*tokens, case.paths, case.states),
        "C": normal(*tokens, case.paths, case.states),
        "D": normal(*own, case.heads),
    }
    if "initial_state" in case.extras:
        tensors["initial_state"] = normal(case.batch, case.heads, case.channels, case.states)
    return tensors


def _settings(case: Case, device: str) -> dict[str, Any]:
    """Arguments without gradients."""
    settings: dict[str, Any] = {} if case.heads else {"dt_softplus": True}
    if case.op.endswith("path_scan"):
        settings["paths"] = direction_paths(case.grid, direction_set(len(case.grid), "cross", "paper")).to(device)
    if case.op == "selective_scan_2d":
        settings["directions"] = _DIRECTIONS
    if "reverse" in case.extras:
        settings["reverse"] = tuple(2 * group >= case.paths for group in range(case.paths))
    return settings


class Rates(NamedTuple):
    """Rates of the machine, per second.

    Parameters
    ----------
    operations : float
        Number of fused multiply-adds of single numbers.
    copied : float
        Number of bytes read and written by a copy, both counted.
    """

    operations: float
    copied: float


def bound(case: Case, dtype: torch.dtype, rates: Rates) -> tuple[float, float]:
    """Least time of the forward and of the backward pass.

    Parameters
    ----------
    case : Case
        Sizes.
    dtype : torch.dtype
        Precision of x.
    rates : Rates
        The machine's.

    Returns
    -------
    pair of float
        Seconds.

    Examples
    --------
    >>> import torch
    >>> from benchmarks._kernel_shapes import Rates, bound, scaling_case
    >>> bound(scaling_case("selective_scan", 1000), torch.float32, Rates(operations=1e9, copied=1e9))
    (0.01536, 0.022528)
    """
    narrow, wide = dtype.itemsize, max(dtype.itemsize, 4)
    numbers = max(case.heads, 1) * case.channels + 2 * case.paths * case.states
    steps = case.shared * (case.heads or case.channels)
    inputs = case.batch * case.length * (narrow * numbers + wide * steps)
    outputs = case.batch * case.length * narrow * max(case.heads, 1) * case.channels
    forward, backward = OPERATIONS[case.op]
    return (
        max(forward * case.n_states / rates.operations, (inputs + outputs) / rates.copied),
        max(backward * case.n_states / rates.operations, (2 * inputs + outputs) / rates.copied),
    )
