"""Bidirectional mixers of token sequences: the state-space models that LaMO applies to latent tokens.

Notation: B batch, L tokens, R heads, N states.
"""

import math

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules._feature_maps import note_mixing
from skop.modules._mixer import TokenMixer
from skop.modules._steps import initial_step_bias
from skop.ops import ssd_scan

__all__ = ["BidirectionalSSDMixer", "HydraMixer"]

_EPSILON = 1e-5


class HydraMixer(TokenMixer):
    """Mix a sequence by Hydra: a quasi-separable matrix from a forward and a backward scan.

    A linear layer gives a signal, a gate, and for each direction steps, input maps and output maps. A symmetric
    depthwise convolution is applied to the signal and the maps. A forward and a backward scan, each shifted by one
    token, make up the two triangles of the mixing matrix; the diagonal is a learned function of the signal. LaMO's
    public code uses this mixer for elasticity and airfoil.

    Parameters
    ----------
    width : int
        Size of a token.
    n_dims : int, default=1
        Number of axes of the token grid. The tokens of a grid are mixed as one sequence, in C order.
    d_state : int, default=64
        Number of states of each channel (paper: 64; public code for the airfoil: 1).
    expand : int, default=2
        Inner width as a multiple of `width`.
    n_heads : int or None, default=None
        Number of heads, a divisor of the inner width; None gives heads of about 64 channels. An even number of heads
        has two groups of input and output maps, an odd number has one.
    kernel_size : int, default=3
        Size of the convolution in tokens, odd.

    Raises
    ------
    ValueError
        If `n_heads` does not divide the inner width, or `kernel_size` is even.

    References
    ----------
    S. Hwang, A. Lahoti, R. Puduppully, T. Dao, A. Gu, "Hydra: Bidirectional State Space Models Through
    Generalized Matrix Mixers", NeurIPS 2024.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import HydraMixer
    >>> HydraMixer(16, d_state=4)(torch.zeros(1, 12, 16)).shape
    torch.Size([1, 12, 16])
    """

    #: Parameters excluded from weight decay by default: vectors, of which there is one for each direction, and states.
    no_weight_decay = ("step_bias", "log_decay", "direct", "initial_state")

    def __init__(
        self,
        width: int,
        n_dims: int = 1,
        *,
        d_state: int = 64,
        expand: int = 2,
        n_heads: int | None = None,
        kernel_size: int = 3,
    ) -> None:
        super().__init__()
        inner = expand * width
        heads = _checked_heads(n_heads, inner, 64)
        if kernel_size % 2 == 0:
            raise ValueError(f"kernel_size={kernel_size} is even and would shift the tokens; use an odd one.")
        groups = math.gcd(heads, 2)
        self.inner, self.n_heads, self.maps_shape = inner, heads, (2, 2, groups, d_state)
        n_maps = math.prod(self.maps_shape)
        self.in_projection = nn.Linear(width, 2 * inner + n_maps + 2 * heads, bias=False)
        convolved = inner + n_maps
        self.convolution = nn.Conv1d(convolved, convolved, kernel_size, padding=kernel_size // 2, groups=convolved)
        self.initial_state = nn.Parameter(torch.zeros(heads, inner // heads, d_state))
        self.step_bias = nn.Parameter(initial_step_bias(heads))
        self.log_decay = nn.Parameter(torch.zeros(heads))
        self.direct = nn.Parameter(torch.ones(heads))
        self.direct_projection = nn.Linear(inner, heads, bias=False)
        self.norm = nn.RMSNorm(inner, eps=_EPSILON)
        self.out_projection = nn.Linear(inner, width, bias=False)

    def mix(self, tokens: torch.Tensor, grid: GridShape | None) -> torch.Tensor:
        """Mix tokens ``(B, L, width)`` as a sequence."""
        sizes = [self.inner, self.convolution.in_channels, 2 * self.n_heads]
        gate, streams, raw_steps = self.in_projection(tokens).split(sizes, dim=-1)
        streams = nn.functional.silu(self.convolution(streams.mT).mT)
        signal, maps = streams.split([self.inner, self.convolution.in_channels - self.inner], dim=-1)
        steps, maps = raw_steps.unflatten(-1, (2, -1)), maps.unflatten(-1, self.maps_shape)
        diagonal = (self.direct_projection(signal) + self.direct).unsqueeze(-1)
        mixed = note_mixing(
            lambda heads: self._scan_both_ways(heads, steps, maps) + heads * diagonal,
            signal.unflatten(-1, (self.n_heads, -1)),
        )
        normed = self.norm(mixed.flatten(-2).to(self.norm.weight.dtype))
        return self.out_projection(normed * nn.functional.silu(gate))

    def _scan_both_ways(self, signal: torch.Tensor, raw_steps: torch.Tensor, maps: torch.Tensor) -> torch.Tensor:
        """Sum of a scan of ``(B, L, R, channels)`` over all earlier tokens and one over all later tokens."""
        # The float32 bias promotes half-precision values, so that steps are float32 under autocast.
        steps = nn.functional.softplus(raw_steps + self.step_bias).flatten(-2)
        maps_in, maps_out = maps.transpose(2, 3).unbind(2)
        groups = maps_in.shape[-2]
        mixed = ssd_scan(
            signal.repeat(1, 1, 2, 1),
            steps,
            -self.log_decay.exp().repeat(2),
            maps_in.flatten(2, 3),
            maps_out.flatten(2, 3),
            initial_state=self.initial_state.repeat(2, 1, 1).expand(signal.shape[0], -1, -1, -1),
            reverse=(False,) * groups + (True,) * groups,
        )
        before, after = mixed.chunk(2, dim=2)
        none = (0, 0, 0, 0)
        return nn.functional.pad(before[:, :-1], (*none, 1, 0)) + nn.functional.pad(after[:, 1:], (*none, 0, 1))


class BidirectionalSSDMixer(TokenMixer):
    """Mix a sequence by a bidirectional Mamba-2 block: the mean of a forward and a backward scan.

    The two directions share the projection of the tokens and the normalisation. Each has its own convolution, steps,
    decay rates and skip. LaMO's public code uses this mixer for plasticity and pipe.

    Parameters
    ----------
    width : int
        Size of a token.
    n_dims : int, default=1
        Number of axes of the token grid. The tokens of a grid are mixed as one sequence, in C order.
    d_state : int, default=64
        Number of states of each channel (paper: 64).
    expand : int, default=2
        Inner width as a multiple of `width` (paper: 2).
    n_heads : int or None, default=None
        Number of heads, a divisor of the inner width; None gives heads of about 32 channels.
    kernel_size : int, default=3
        Size of the causal convolution in tokens.

    Raises
    ------
    ValueError
        If `n_heads` does not divide the inner width.

    References
    ----------
    T. Dao and A. Gu, "Transformers are SSMs: generalized models and efficient algorithms through
    structured state space duality", ICML 2024, arXiv:2405.21060.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import BidirectionalSSDMixer
    >>> BidirectionalSSDMixer(16, d_state=4)(torch.zeros(1, 12, 16)).shape
    torch.Size([1, 12, 16])
    """

    #: Parameters excluded from weight decay by default: vectors, of which there is one for each direction.
    no_weight_decay = ("step_bias", "log_decay", "direct")

    def __init__(
        self,
        width: int,
        n_dims: int = 1,
        *,
        d_state: int = 64,
        expand: int = 2,
        n_heads: int | None = None,
        kernel_size: int = 3,
    ) -> None:
        super().__init__()
        inner = expand * width
        heads = _checked_heads(n_heads, inner, 32)
        self.inner, self.n_heads, self.d_state = inner, heads, d_state
        streams = inner + 2 * d_state
        self.in_projection = nn.Linear(width, inner + streams + heads, bias=False)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(streams, streams, kernel_size, padding=kernel_size - 1, groups=streams) for _ in range(2)
        )
        self.step_bias = nn.Parameter(initial_step_bias(heads).repeat(2, 1))
        self.log_decay = nn.Parameter(torch.empty(heads).uniform_(1, 16).log().repeat(2, 1))
        self.direct = nn.Parameter(torch.ones(2, heads))
        self.norm = nn.RMSNorm(inner, eps=_EPSILON)
        self.out_projection = nn.Linear(inner, width, bias=False)

    def mix(self, tokens: torch.Tensor, grid: GridShape | None) -> torch.Tensor:
        """Mix tokens ``(B, L, width)`` as a sequence."""
        inner, states = self.inner, self.d_state
        gate, streams, raw_steps = self.in_projection(tokens).split([inner, inner + 2 * states, self.n_heads], dim=-1)
        both = torch.stack([self._convolve(streams, 0), self._convolve(streams.flip(1), 1).flip(1)], dim=2)
        signal, maps_in, maps_out = nn.functional.silu(both).split([inner, states, states], dim=-1)
        # The float32 bias promotes half-precision values, so that steps are float32 under autocast.
        steps = nn.functional.softplus(raw_steps.unsqueeze(2) + self.step_bias)
        mixed = note_mixing(
            lambda heads: ssd_scan(
                heads,
                steps.flatten(2),
                -self.log_decay.exp().flatten(),
                maps_in,
                maps_out,
                self.direct.flatten(),
                reverse=(False, True),
            ),
            signal.unflatten(-1, (self.n_heads, -1)).flatten(2, 3),
        )
        mixed = mixed.unflatten(2, (2, self.n_heads)).flatten(3)
        gated = mixed * nn.functional.silu(gate).unsqueeze(2)
        normed = self.norm(gated.to(self.norm.weight.dtype))
        return self.out_projection(normed.mean(dim=2))

    def _convolve(self, streams: torch.Tensor, direction: int) -> torch.Tensor:
        """Causal convolution of ``(B, L, streams)``: over each token and the tokens before it."""
        return self.convolutions[direction](streams.mT).mT[:, : streams.shape[1]]


def _checked_heads(n_heads: int | None, inner: int, channels: int) -> int:
    """Return `n_heads`, or the number of heads of about `channels` channels each where it is None."""
    if n_heads is None:
        return next(heads for heads in range(max(inner // channels, 1), 0, -1) if inner % heads == 0)
    if inner % n_heads:
        raise ValueError(f"n_heads={n_heads} does not divide the inner width {inner} (expand x width).")
    return n_heads
