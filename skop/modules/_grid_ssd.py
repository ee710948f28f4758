"""LaMO's token mixer for grids: a gated SSD scan in several directions over the tokens.

Notation: B batch, L tokens, K paths (one for each direction).
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules._feature_maps import note_mixing
from skop.modules._mixer import TokenMixer, grid_of_tokens
from skop.modules._scan_directions import direction_paths, direction_set
from skop.modules._steps import log_range
from skop.modules._token_convolution import convolve_tokens, token_convolution
from skop.ops import ssd_scan

__all__ = ["ACTIVATIONS", "GridSSDMixer"]

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
}


class GridSSDMixer(TokenMixer):
    """Mix the tokens of a grid by scans in several directions (LaMO, Algorithm 1).

    A linear layer gives a signal and a gate. A depthwise convolution over the token grid and an activation are applied
    to the signal. For each path, the signal is projected to steps, input maps and output maps, and scanned. The sum
    over the paths is normalised, multiplied by the gate and projected back to `width`.

    Parameters
    ----------
    width : int
        Size of a token.
    n_dims : int
        Number of axes of the token grid, 1 to 3.
    d_state : int, default=64
        Number of states of each channel (paper: 64).
    expand : int, default=2
        Inner width as a multiple of `width` (paper: 2).
    n_heads : int or None, default=None
        Number of heads of each path; None gives ceil(width / 16), as in the public code.
    scan_directions : {"forward", "bidirectional", "cross", "corners", "row_corners", "all"}, default="cross"
        Set of directions, see `direction_set`; each direction is directly followed by its reverse.
    path_weights : {"own", "own_steps", "shared"}, default="own"
        Weights that each path has for itself. ``"own"``: projections, steps and decays (public code). ``"own_steps"``:
        steps and decays, while input and output maps are shared. ``"shared"``: none.
    kernel_size : int, default=3
        Size of the depthwise convolution along each axis, odd; 1 omits it.
    activation : {"gelu", "silu"}, default="gelu"
        Activation of signal and gate (public code: GELU; paper: SiLU).
    decay_range : sequence of two floats, default=(1.0, 1.0)
        Slowest and fastest initial decay rate of the heads, spread evenly on a logarithmic scale (public code: all 1).
        With small rates a head sees far along its path from the first training step on.

    Raises
    ------
    ValueError
        If `n_heads` does not divide the inner width, `kernel_size` is even, or `decay_range` is not a pair of positive
        rates.

    References
    ----------
    Tiwari et al., "Latent Mamba Operator for Partial Differential Equations", ICML 2025, Eq. 13,
    Eq. 16, Algorithm 1.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import GridSSDMixer
    >>> GridSSDMixer(16, 2, d_state=4)(torch.zeros(1, 12, 16), (4, 3)).shape
    torch.Size([1, 12, 16])
    """

    #: Parameters excluded from weight decay by default: vectors, of which there is one for each path.
    no_weight_decay = ("step_bias", "log_decay", "direct")

    def __init__(
        self,
        width: int,
        n_dims: int,
        *,
        d_state: int = 64,
        expand: int = 2,
        n_heads: int | None = None,
        scan_directions: str = "cross",
        path_weights: str = "own",
        kernel_size: int = 3,
        activation: str = "gelu",
        decay_range: Sequence[float] = (1.0, 1.0),
    ) -> None:
        super().__init__()
        inner = expand * width
        heads = math.ceil(width / 16) if n_heads is None else n_heads
        if inner % heads:
            raise ValueError(f"n_heads={heads} does not divide the inner width {inner} (expand x width).")
        self.directions = direction_set(n_dims, scan_directions, "paper")
        n_paths = len(self.directions)
        own = 1 if path_weights == "shared" else n_paths
        self.n_maps = n_paths if path_weights == "own" else 1
        self.n_dims, self.n_paths, self.n_heads, self.d_state = n_dims, n_paths, heads, d_state
        self.activation = ACTIVATIONS[activation]
        self.in_projection = nn.Linear(width, 2 * inner, bias=False)
        self.convolution = token_convolution(n_dims, inner, kernel_size)
        self.path_projection = nn.Linear(inner, own * heads + 2 * self.n_maps * d_state, bias=False)
        # As in the public code: the softplus of a bias in [0, 0.1) gives initial steps near 0.7.
        self.step_bias = nn.Parameter(0.1 * torch.rand(own, heads))
        slow, fast = log_range("decay_range", decay_range)
        self.log_decay = nn.Parameter(torch.linspace(slow, fast, heads).repeat(own, 1))
        self.direct = nn.Parameter(torch.ones(own, heads, inner // heads))
        self.norm = nn.LayerNorm(inner)
        self.out_projection = nn.Linear(inner, width, bias=False)

    def mix(self, tokens: torch.Tensor, grid: GridShape | None) -> torch.Tensor:
        """Mix tokens ``(B, L, width)`` in C order on a grid; None stands for a single line of tokens."""
        grid = grid_of_tokens(tokens, grid, self.n_dims)
        signal, gate = self.in_projection(tokens).chunk(2, dim=-1)
        signal = self.activation(convolve_tokens(self.convolution, signal, grid))
        batch, length, inner = signal.shape
        heads, states = self.n_heads, self.d_state
        n_steps, n_maps = self.step_bias.numel(), self.n_maps * states
        raw_step, maps_in, maps_out = self.path_projection(signal).split([n_steps, n_maps, n_maps], dim=-1)
        # The float32 bias promotes half-precision values, so that steps are float32 under autocast.
        step = nn.functional.softplus(raw_step.unflatten(-1, self.step_bias.shape) + self.step_bias)
        mixed = note_mixing(
            lambda channels: ssd_scan(
                channels,
                step.expand(-1, -1, self.n_paths, -1),
                -torch.exp(self.log_decay).expand(self.n_paths, -1),
                maps_in.unflatten(-1, (self.n_maps, states)),
                maps_out.unflatten(-1, (self.n_maps, states)),
                self.direct.expand(self.n_paths, -1, -1),
                paths=direction_paths(grid, self.directions, tokens.device),
            ),
            signal.view(batch, length, heads, inner // heads),
        )
        return self.out_projection(self.norm(mixed.reshape(batch, length, inner)) * self.activation(gate))
