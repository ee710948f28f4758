"""GeoMaNO's token mixer for grids: selective scans in several directions, with a correction for counting tokens twice.

Notation: B batch, L tokens, K directions, E inner width, N states of a channel, r rank of the projection to the steps.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules._feature_maps import note_mixing
from skop.modules._grid_ssd import ACTIVATIONS
from skop.modules._mixer import TokenMixer, grid_of_tokens
from skop.modules._scan_directions import direction_paths, direction_set
from skop.modules._steps import STEP_RANGE, initial_step_bias, log_range
from skop.modules._token_convolution import convolve_tokens, token_convolution
from skop.ops import CORRECTIONS as CORRECTION_PLACES
from skop.ops import selective_scan, selective_scan_2d, selective_scan_3d

__all__ = ["CORRECTION_PLACES", "RECURRENCES", "GeometricScanMixer", "check_correction"]

#: Order in which the recurrence runs: along the flattened grid, or along one axis of the grid after the other.
RECURRENCES = ("sequence", "grid")

_GRID_SCANS: dict[int, Callable[..., torch.Tensor]] = {2: selective_scan_2d, 3: selective_scan_3d}


def check_correction(correction: str | None, n_directions: int) -> None:
    """Raise an error unless `correction` is valid for a number of directions.

    Parameters
    ----------
    correction : str or None
        ``"learnable"``, None, or one digit 0 or 1 for each direction.
    n_directions : int
        Number of scan directions.


    Raises
    ------
    ValueError
        If `correction` has another value.

    Examples
    --------
    >>> from skop.modules._geometric_scan import check_correction
    >>> check_correction("0011", 4)
    """
    if correction in (None, "learnable"):
        return
    if not isinstance(correction, str) or set(correction) - set("01") or len(correction) != n_directions:
        raise ValueError(
            f"correction is {correction!r}; expected None, 'learnable', or {n_directions} digits 0 or 1, one for each "
            f"direction, such as {'0' * (n_directions // 2) + '1' * (n_directions - n_directions // 2)!r}."
        )


class GeometricScanMixer(TokenMixer):
    """Mix the tokens of a grid by selective scans in several directions (GeoMaNO, Algorithm 1).

    A linear layer expands the tokens to the inner width. A depthwise convolution over the token grid and an activation
    give the signal. For each direction, the signal is projected to steps, input maps and output maps, and scanned. The
    sum over the directions is normalised, activated, multiplied by a gate and projected back to `width`. The gate is
    the activated output of the first linear layer. VMamba's block differs in two points, which are options here: the
    gate has its own projection (`separate_gate`), and the normalised sum is not activated (`activate_output`).

    In every direction the state at a cell contains the update from the cell's own token, so the sum over the directions
    counts it several times. The correction removes it in some directions, or by learned shares.

    Parameters
    ----------
    width : int
        Size of a token.
    n_dims : int
        Number of axes of the token grid, 1 to 3.
    d_state : int, default=16
        Number of states of a channel (paper: 16).
    expand : int, default=2
        Inner width as a multiple of `width`.
    dt_rank : int or None, default=None
        Rank of the projection to the steps; None gives ceil(width / 16), as in VMamba.
    recurrence : {"grid", "sequence"}, default="grid"
        Order of the recurrence. ``"grid"``: along one axis of the grid after the other, with
        `skop.ops.selective_scan_2d` or `skop.ops.selective_scan_3d` (paper: Darcy). ``"sequence"``: along the flattened
        grid, as in Mamba (paper: Navier-Stokes). The two are the same on a grid with one axis.
    scan_directions : {"forward", "bidirectional", "cross", "corners", "row_corners", "all"}, default="cross"
        Set of directions, see `direction_set` (paper: ``"cross"``).
    direction_order : {"vmamba", "paper"}, default="vmamba"
        Order of the directions, which assigns the digits of `correction` to directions, see `direction_set`;
        ``"paper"`` is the order in which GeoMaNO's section 4.2 numbers them.
    correction : str or None, default=None
        Correction of the sum over directions: None; ``"learnable"``, a share for each direction, channel and state, 0
        initially; or one digit for each direction, 1 where the own token is removed (paper: ``"0001"``, ``"0011"``,
        ``"0111"``).
    correction_at : {"state", "output", "input"}, default="state"
        Quantity that the correction is subtracted from. ``"state"``: the state before it is read, as the paper argues.
        ``"output"``: the output, as Eqs. 9 and 10 are printed. ``"input"``: the raw input is subtracted from the state,
        as Algorithm 2 is printed.
    kernel_size : int, default=3
        Size of the depthwise convolution along each axis, odd; 1 omits it.
    activation : {"silu", "gelu"}, default="silu"
        Activation after the convolution, of the normalised output and of the gate (sigma in the paper).
    separate_gate : bool, default=False
        Whether the gate has its own projection (VMamba) or shares that of the signal (paper).
    activate_output : bool, default=True
        Whether the normalised output is activated before it is multiplied by the gate (paper: yes; VMamba: no).
    step_range : sequence of two floats, default=(0.001, 0.1)
        Range of the initial steps of the channels, which are drawn evenly on a logarithmic scale, as in Mamba.
    decay_range : sequence of two floats or None, default=None
        Slowest and fastest initial decay rate of a channel's states, spread evenly on a logarithmic scale; None gives 1
        to `d_state`, as in Mamba. From one token to the next a state is multiplied by exp(-rate * step).

    Raises
    ------
    ValueError
        If `correction` does not fit the directions, `kernel_size` is even, `step_range` or `decay_range` is not a pair
        of positive numbers, or an option has an unknown value.

    References
    ----------
    X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for partial
    differential equations", 2025, Eqs. 9 and 10, Algorithm 1, Remark 4.2.

    Y. Liu et al., "VMamba: visual state space model", NeurIPS 2024, for the initial values.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import GeometricScanMixer
    >>> GeometricScanMixer(16, 2, d_state=4, correction="0011")(torch.zeros(1, 12, 16), (4, 3)).shape
    torch.Size([1, 12, 16])
    """

    correction: torch.Tensor | None

    def __init__(
        self,
        width: int,
        n_dims: int,
        *,
        d_state: int = 16,
        expand: int = 2,
        dt_rank: int | None = None,
        recurrence: str = "grid",
        scan_directions: str = "cross",
        direction_order: str = "vmamba",
        correction: str | None = None,
        correction_at: str = "state",
        kernel_size: int = 3,
        activation: str = "silu",
        separate_gate: bool = False,
        activate_output: bool = True,
        step_range: Sequence[float] = STEP_RANGE,
        decay_range: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        _check_choice("recurrence", recurrence, RECURRENCES)
        _check_choice("correction_at", correction_at, CORRECTION_PLACES)
        _check_choice("activation", activation, tuple(ACTIVATIONS))
        inner, rank = expand * width, math.ceil(width / 16) if dt_rank is None else dt_rank
        self.directions = direction_set(n_dims, scan_directions, direction_order)
        count = len(self.directions)
        check_correction(correction, count)
        self.scan_grid = _GRID_SCANS.get(n_dims) if recurrence == "grid" else None
        self.correction_at = correction_at
        self.activation = ACTIVATIONS[activation]
        self.n_dims, self.sizes = n_dims, (count, inner, d_state)
        self.separate_gate, self.activate_output = separate_gate, activate_output
        self.in_projection = nn.Linear(width, 2 * inner if separate_gate else inner, bias=False)
        self.convolution = token_convolution(n_dims, inner, kernel_size)
        self.direction_projection = nn.Linear(inner, count * (rank + 2 * d_state), bias=False)
        self.step_projection = nn.Parameter(torch.empty(count, inner, rank).uniform_(-(rank**-0.5), rank**-0.5))
        # Excluded from weight decay by default, like other vectors of parameters.
        self.step_bias = nn.Parameter(initial_step_bias(count * inner, step_range))
        self.log_decay = nn.Parameter(_log_rates(d_state, decay_range).repeat(count * inner))
        self.direct = nn.Parameter(torch.ones(count * inner))
        if correction == "learnable":
            self.correction = nn.Parameter(torch.zeros(count * inner * d_state))
        else:
            shares = None if correction is None else torch.tensor([float(digit) for digit in correction])
            fixed = None if shares is None else shares.repeat_interleave(inner * d_state)
            self.register_buffer("correction", fixed, persistent=False)
        self.norm = nn.LayerNorm(inner)
        self.out_projection = nn.Linear(inner, width, bias=False)

    def mix(self, tokens: torch.Tensor, grid: GridShape | None) -> torch.Tensor:
        """Mix tokens ``(B, L, width)`` in C order on a grid; None stands for a single line of tokens."""
        grid = grid_of_tokens(tokens, grid, self.n_dims)
        stream = self.in_projection(tokens)
        stream, gate = stream.chunk(2, dim=-1) if self.separate_gate else (stream, stream)
        mixed = self._scan(self.activation(convolve_tokens(self.convolution, stream, grid)), grid)
        mixed = self.norm(mixed)
        mixed = self.activation(mixed) if self.activate_output else mixed
        return self.out_projection(mixed * self.activation(gate))

    def _scan(self, signal: torch.Tensor, grid: GridShape) -> torch.Tensor:
        """Scan a signal (B, L, E) in all directions and add them up."""
        count, inner, states = self.sizes
        rank = self.step_projection.shape[-1]
        sizes = [count * rank, count * states, count * states]
        ranks, maps_in, maps_out = self.direction_projection(signal).split(sizes, dim=-1)
        # One product for all directions leaves the steps in the order in which the scan reads them. With a row of the
        # matrix for each rank, the gradients take a fraction of the time that they take with a column for each.
        steps = (ranks @ torch.block_diag(*self.step_projection.mT)).unflatten(-1, (count, inner))
        maps_in, maps_out = (maps.unflatten(-1, (count, states)) for maps in (maps_in, maps_out))
        decay, direct = -self.log_decay.exp().view(count, inner, states), self.direct.view(count, inner)
        options: dict[str, Any] = {
            "dt_bias": self.step_bias.view(count, inner),
            "dt_softplus": True,
            "R": None if self.correction is None else self.correction.view(count, inner, states),
            "correction": self.correction_at,
        }
        scan_grid = self.scan_grid
        if scan_grid is None:
            options["paths"] = direction_paths(grid, self.directions, signal.device)
            return note_mixing(
                lambda values: selective_scan(values, steps, decay, maps_in, maps_out, direct, **options), signal
            )
        dt, B, C = (values.unflatten(1, grid) for values in (steps, maps_in, maps_out))
        options["directions"] = self.directions
        return note_mixing(
            lambda values: scan_grid(values.unflatten(1, grid), dt, decay, B, C, direct, **options).flatten(1, -2),
            signal,
        )


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise an error unless a value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; expected one of {choices}.")


def _log_rates(d_state: int, decay_range: Sequence[float] | None) -> torch.Tensor:
    """Logarithms of the initial decay rates of a channel's states."""
    if decay_range is None:
        return torch.arange(1, d_state + 1).log()
    low, high = log_range("decay_range", decay_range)
    return torch.linspace(low, high, d_state)
