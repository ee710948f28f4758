"""AMO's mixer: tokens are expanded in Takenaka-Malmquist systems, whose poles are computed from the tokens.

Notation: B samples, L tokens, E width, I inner width, S directions, H sets of poles for each direction, K poles of a
set, C = I / H channels of a set, R rank.
"""

from functools import partial
from typing import Any

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules._blocks import FeedForward
from skop.modules._feature_maps import note_features, note_mixing
from skop.modules._mixer import TokenMixer, grid_of_tokens
from skop.modules._scan_directions import direction_paths, direction_set
from skop.ops import takenaka_malmquist_basis, takenaka_malmquist_responses

__all__ = ["TRANSFORMS", "Poles", "PrintedExpansions", "TakenakaMalmquistMixer"]

#: What the mixer does with a system of functions.
TRANSFORMS = ("coefficients", "filter")
_CONVOLUTIONS = {1: nn.functional.conv1d, 2: nn.functional.conv2d, 3: nn.functional.conv3d}
#: Where poles start: distances from the origin, as shares of the largest.
_INITIAL_RADII = (0.1, 0.8)
_GOLDEN_ANGLE = 2.399963229728653


class Poles(nn.Module):
    """Poles in the unit disk: functions of the mean token of a sample, or fixed random ones.

    A pole is ``max_radius * v / sqrt(1 + |v|^2)`` with v any number of the complex plane. Adaptive poles start at
    places spread over a ring, to which a small network adds what it reads from the mean token.

    Parameters
    ----------
    width : int
        Size of a token.
    n_sets : int
        Number of sets.
    n_poles : int
        Poles of each set.
    adaptive : bool, default=True
        Whether poles depend on the sample. Fixed ones are drawn evenly from the disk (paper, Table 4: static).
    max_radius : float, default=0.95
        Largest distance from the origin, in (0, 1).

    Raises
    ------
    ValueError
        If `max_radius` is not in (0, 1).

    Examples
    --------
    >>> import torch
    >>> from skop.modules._takenaka_malmquist import Poles
    >>> poles = Poles(16, n_sets=2, n_poles=5)(torch.rand(3, 12, 16))
    >>> poles.shape, bool((poles.norm(dim=-1) < 0.95).all())
    (torch.Size([3, 2, 5, 2]), True)
    """

    places: torch.Tensor

    #: Decay would pull places to the origin.
    no_weight_decay = ("places",)

    def __init__(
        self, width: int, n_sets: int, n_poles: int, *, adaptive: bool = True, max_radius: float = 0.95
    ) -> None:
        super().__init__()
        if not 0 < max_radius < 1:
            raise ValueError(f"max_radius={max_radius}; expected a number between 0 and 1.")
        self.max_radius, self.shape = max_radius, (n_sets, n_poles, 2)
        self.network = None
        if not adaptive:
            radii, angles = torch.rand(n_sets, n_poles).sqrt(), 2 * torch.pi * torch.rand(n_sets, n_poles)
            self.register_buffer("places", max_radius * _on_the_plane(radii, angles))
            return
        counts = torch.arange(n_poles)
        radii = _INITIAL_RADII[0] + (_INITIAL_RADII[1] - _INITIAL_RADII[0]) * (counts + 0.5) / n_poles
        angles = _GOLDEN_ANGLE * counts + 2 * torch.pi * torch.rand(n_sets, 1)
        self.places = nn.Parameter(_on_the_plane(radii, angles) / (1 - radii**2).sqrt().unsqueeze(-1))
        hidden = max(width // 2, 1)
        last = nn.Linear(hidden, n_sets * n_poles * 2)
        nn.init.normal_(last.weight, std=0.1 * hidden**-0.5)
        nn.init.zeros_(last.bias)
        self.network = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), last)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Compute the poles ``(B, n_sets, n_poles, 2)`` of samples of tokens ``(B, L, width)``."""
        if self.network is None:
            return self.places.expand(tokens.shape[0], *self.shape)
        places = self.places + self.network(tokens.mean(dim=1)).unflatten(-1, self.shape)
        return self.max_radius * places * (1 + places.square().sum(dim=-1, keepdim=True)).rsqrt()


class TakenakaMalmquistMixer(TokenMixer):
    """Gated expansion of the tokens in Takenaka-Malmquist systems with adaptive poles (AMO, Eq. 6 to 12).

    The tokens are the values of a signal at points of the unit circle. For each direction, poles are computed from
    the mean token, their functions are evaluated at these points, the coefficients of the signal are multiplied by
    learned weights, and the functions are added up again (Eq. 11 and 12). Around this are the parts that the paper
    lists without their places: a depthwise convolution, an inner width, and a gate, as in Mamba.

    Parameters
    ----------
    width : int
        Size of a token.
    n_dims : int, default=1
        Axes of the token grid, 1 to 3.
    n_poles : int, default=32
        Poles of a set (paper: 32). More than half of the number of tokens give nothing new: a real signal has that many
        independent frequencies.
    expand : int, default=2
        Inner width as a multiple of `width` (paper: 2).
    d_state : int, default=16
        Rank of the map between the channels of each coefficient (the paper's "state size" of 16); 0 leaves every
        channel by itself.
    kernel_size : int, default=4
        Size of the depthwise convolution along each axis (paper: 4); 1 omits it.
    scan_directions : {"forward", "bidirectional", "cross", "row_corners", "corners", "all"}, default="bidirectional"
        Directions, each with poles of its own, see `skop.modules.direction_set`.
    n_pole_heads : int, default=1
        Sets of poles in each direction; each is for its share of the channels.
    adaptive_poles : bool, default=True
        Whether poles depend on the sample, see `Poles`.
    orthogonal : bool, default=True
        Whether the functions are orthogonal (Eq. 6), or plain normalised kernels (Eq. 5).
    transform : {"coefficients", "filter"}, default="coefficients"
        Coefficients of the tokens on the circle (Eq. 11), or a filter along the tokens whose transfer function is
        learned from the conjugate functions (Eq. 9).
    max_radius : float, default=0.95
        Largest modulus of a pole, in (0, 1).

    Raises
    ------
    ValueError
        If `transform` is unknown, or the inner width is no multiple of `n_pole_heads`.

    References
    ----------
    Z. Song and Z. Jiang, "Adaptive Mamba Neural Operators", 2025, section 3.2.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import TakenakaMalmquistMixer
    >>> mixer = TakenakaMalmquistMixer(16, 2, n_poles=6, scan_directions="cross", kernel_size=3)
    >>> mixer(torch.rand(3, 20, 16), grid=(5, 4)).shape
    torch.Size([3, 20, 16])
    """

    def __init__(
        self,
        width: int,
        n_dims: int = 1,
        *,
        n_poles: int = 32,
        expand: int = 2,
        d_state: int = 16,
        kernel_size: int = 4,
        scan_directions: str = "bidirectional",
        n_pole_heads: int = 1,
        adaptive_poles: bool = True,
        orthogonal: bool = True,
        transform: str = "coefficients",
        max_radius: float = 0.95,
    ) -> None:
        super().__init__()
        inner = expand * width
        if transform not in TRANSFORMS:
            raise ValueError(f"transform is {transform!r}; expected one of {TRANSFORMS}.")
        if inner % n_pole_heads:
            raise ValueError(f"n_pole_heads={n_pole_heads} does not divide the inner width {inner}.")
        self.directions = direction_set(n_dims, scan_directions)
        self.n_dims, self.n_heads, self.n_poles, self.kernel_size = n_dims, n_pole_heads, n_poles, kernel_size
        self.orthogonal, self.transform = orthogonal, transform
        n_sets, channels = len(self.directions) * n_pole_heads, inner // n_pole_heads
        self.in_projection, self.out_projection = nn.Linear(width, 2 * inner), nn.Linear(inner, width)
        self.kernel = self.kernel_bias = None
        if kernel_size > 1:
            bound = kernel_size ** (-n_dims / 2)
            self.kernel = nn.Parameter(torch.empty(inner, 1, *[kernel_size] * n_dims).uniform_(-bound, bound))
            self.kernel_bias = nn.Parameter(torch.zeros(inner))
        self.poles = Poles(width, n_sets, n_poles, adaptive=adaptive_poles, max_radius=max_radius)
        # Expansions start near the projection onto the functions, and filters near the mean of their responses.
        weights = 0.1 * torch.randn(n_pole_heads, len(self.directions), n_poles, 2, channels)
        weights[..., 0, :] += 1
        self.weights = nn.Parameter(weights if transform == "coefficients" else weights / n_poles)
        self.direct = nn.Parameter(torch.ones(inner))
        self.rank = d_state if transform == "coefficients" else 0
        if transform == "coefficients":
            self.means = nn.Parameter(torch.ones(inner))
        if self.rank:
            self.reduce = nn.Linear(channels, d_state, bias=False)
            self.spread = nn.Linear(d_state, channels, bias=False)
            self.rates = nn.Parameter(torch.randn(n_pole_heads, len(self.directions), n_poles, 2, d_state))

    def mix(self, tokens: torch.Tensor, grid: GridShape | None) -> torch.Tensor:
        """Mix tokens ``(B, L, width)``."""
        grid = grid_of_tokens(tokens, grid, self.n_dims)
        poles = note_features("poles", self.poles(tokens))
        signal, gate = self.in_projection(tokens).chunk(2, dim=-1)
        signal = nn.functional.gelu(self._convolve(signal, grid))
        transform = self._expand if self.transform == "coefficients" else self._filter
        paths = direction_paths(grid, self.directions, tokens.device)
        mixed = note_mixing(lambda values: transform(values, poles, paths) + self.direct * values, signal)
        # Spectra are in single precision at least, also where the weights are not.
        return self.out_projection((mixed * nn.functional.gelu(gate)).to(self.out_projection.weight.dtype))

    def _convolve(self, signal: torch.Tensor, grid: GridShape) -> torch.Tensor:
        """Convolve every channel with the neighbouring tokens on the grid, with zeros outside."""
        if self.kernel is None or self.kernel_bias is None:
            return signal
        size = self.kernel_size
        if signal.shape[1] == 1:
            # As in tables: only the middle of the kernel meets a token, which is much faster than a convolution.
            middle: Any = (slice(None), 0, *(size // 2,) * self.n_dims)
            return torch.addcmul(self.kernel_bias, signal, self.kernel[middle])
        image = signal.transpose(1, 2).unflatten(-1, grid)
        image = nn.functional.pad(image, [size // 2, (size - 1) // 2] * self.n_dims)
        convolve = _CONVOLUTIONS[self.n_dims]
        image = convolve(image, self.kernel, self.kernel_bias, groups=len(self.kernel))
        return image.flatten(2).transpose(1, 2)

    def _expand(self, signal: torch.Tensor, poles: torch.Tensor, paths: torch.Tensor) -> torch.Tensor:
        """Weigh the coefficients of the signal (B, L, I) and add up the functions: 2 Re(sum w c B) less the mean."""
        count = signal.shape[1]
        sets = poles.unflatten(1, (len(paths), self.n_heads)).transpose(1, 2)
        # Functions of the places along each path, at the tokens in their order.
        basis = takenaka_malmquist_basis(sets, count, orthogonal=self.orthogonal, places=paths.argsort(dim=-1))
        basis = basis.flatten(2, 4)
        heads = signal.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        # The conjugates of the coefficients, since rows of the basis are real and imaginary parts. Their factor 1 / L,
        # and the mean over directions of twice the real parts, are those of the weights, which are fewer.
        coefficients = (basis.to(heads.dtype) @ heads).unflatten(2, (len(paths), self.n_poles, 2))
        factor = 2 / (count * len(paths))
        weighed = _multiply(coefficients, factor * self.weights)
        if self.rank:
            weighed = weighed + self.spread(_multiply(self.reduce(coefficients), factor * self.rates))
        mixed = (basis.to(weighed.dtype).mT @ weighed.flatten(2, 4)).transpose(1, 2).flatten(2)
        return mixed - self.means * signal.mean(dim=1, keepdim=True)

    def _filter(self, signal: torch.Tensor, poles: torch.Tensor, paths: torch.Tensor) -> torch.Tensor:
        """Filter the signal (B, L, I) along each path by the sum of the weighted responses."""
        count = signal.shape[1]
        sets = poles.unflatten(1, (len(paths), self.n_heads)).transpose(1, 2)
        responses = takenaka_malmquist_responses(sets, count, orthogonal=self.orthogonal)
        kernels = responses.flatten(3, 4).mT @ self.weights.flatten(2, 3).to(responses.dtype)
        values = signal.to(kernels.dtype)
        mixed = torch.zeros_like(values)
        for number, path in enumerate(paths):
            kernel = kernels[:, :, number].transpose(1, 2).flatten(2)
            spectrum = torch.fft.rfft(kernel, 2 * count, dim=1) * torch.fft.rfft(values[:, path], 2 * count, dim=1)
            along = torch.fft.irfft(spectrum, 2 * count, dim=1)[:, :count]
            mixed = mixed + along[:, path.argsort()]
        return mixed / len(paths)


class PrintedExpansions(nn.Module):
    """AMO's blocks as the paper prints them (Eq. 12 and 13): in each, one function is expanded, in real numbers.

    Block i computes i poles, and only the coefficient of function i, without a factor for the number of tokens. The
    first block discards its input, and one block more than `depth` is added to the result. Without the factor, the
    tokens grow with their number from block to block.

    Parameters
    ----------
    width : int
        Size of a token.
    depth : int
        Number of blocks.
    adaptive_poles : bool, default=True
        Whether poles depend on the sample, see `Poles`.
    orthogonal : bool, default=True
        Whether the functions are orthogonal (Eq. 6), or plain normalised kernels (Eq. 5).
    max_radius : float, default=0.95
        Largest modulus of a pole, in (0, 1).

    Examples
    --------
    >>> import torch
    >>> from skop.modules import PrintedExpansions
    >>> PrintedExpansions(16, depth=2)(torch.rand(3, 12, 16)).shape
    torch.Size([3, 12, 16])
    """

    def __init__(
        self,
        width: int,
        depth: int,
        *,
        adaptive_poles: bool = True,
        orthogonal: bool = True,
        max_radius: float = 0.95,
    ) -> None:
        super().__init__()
        self.enter, self.orthogonal = FeedForward(width, width), orthogonal
        self.poles = nn.ModuleList(
            Poles(width, 1, number, adaptive=adaptive_poles, max_radius=max_radius) for number in range(1, depth + 2)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Transform latent tokens ``(B, G, E)``."""
        tokens = self.enter(tokens)
        total = torch.zeros_like(tokens)
        for number, predict in enumerate(self.poles):
            poles = note_features("poles", predict(tokens))
            basis = takenaka_malmquist_basis(poles[:, 0], tokens.shape[1], orthogonal=self.orthogonal)[:, -1]
            part = note_mixing(partial(_projected, basis), tokens)
            total = total + part
            tokens = part if number == 0 else tokens + part
        return total


def _on_the_plane(radii: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Cartesian coordinates (..., 2) of places with these polar ones."""
    places = torch.empty(*angles.shape, 2)
    places[..., 0], places[..., 1] = radii * angles.cos(), radii * angles.sin()
    return places


def _projected(basis: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Sum of the functions (B, M, L) with the coefficients of values (B, L, E) for them."""
    return basis.to(values.dtype).mT @ (basis.to(values.dtype) @ values)


def _multiply(coefficients: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Multiply complex numbers (..., 2, C) and weights whose last axis but one holds real and imaginary parts."""
    real, imaginary = coefficients.unbind(-2)
    weight, turn = weights.unbind(-2)
    parts = (real * weight).addcmul(imaginary, turn, value=-1), (real * turn).addcmul(imaginary, weight)
    return torch.stack(parts, dim=-2)
