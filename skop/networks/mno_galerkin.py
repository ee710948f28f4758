"""The Galerkin Transformer, with attention or with MNO's selective scans in its place.

S. Cao, "Choose a Transformer: Fourier or Galerkin", NeurIPS 2021; C.-W. Cheng et al., "Mamba Neural Operator: Who Wins?
Transformers vs. State-Space Models for PDEs", 2024 (MNO). Points are lifted, mixed in residual blocks without
normalisation, and mapped to outputs by convolutions over low frequencies of the grid, or point by point.

The public code copies one block, so that all start from the same weights, and drops half of the scores of its
attention in training and in tests; here every block draws its own weights, and nothing is dropped unless asked for.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from skop.modules import (
    LINE_DIRECTIONS,
    LocalConvolution,
    ResidualDropout,
    SpectralConvolution,
    TokenMixer,
    build_mixer,
    note_features,
)
from skop.networks._sequence_network import Points, Queries, SequenceNetwork

__all__ = ["GalerkinNetwork"]

#: Mixers by the names of MNO's versions, and what the public code adds to variances there.
_MIXERS = {"mamba": "s6", "linear": "galerkin", "softmax": "softmax"}
_EPSILON = {"softmax": 1e-7}
_DECODERS = ("spectral", "pointwise")


class GalerkinNetwork(SequenceNetwork):
    """The Galerkin Transformer for grids and points of 1 to 3 dimensions, with three kinds of mixers.

    Parameters
    ----------
    n_dims, n_fields, n_params, n_outputs
        See `skop.networks.SequenceNetwork`.
    mixer : {"mamba", "linear", "softmax"} or another name in `skop.modules.MIXERS`
        Mixer of the points: `skop.modules.S6Mixer` (MNO), `skop.modules.GalerkinAttention` or
        `skop.modules.SoftmaxAttention`.
    width : int
        Size of a token (public code: 256).
    depth : int
        Number of blocks (public code: 6).
    mlp_ratio : float
        Hidden size of the feed-forward part as a multiple of `width` (public code: 1).
    layer_norm : bool
        Whether each part of a block is preceded by a normalisation (public code: no; deep networks without it are
        harder to train).
    decoder : {"spectral", "pointwise"}
        Map to the outputs: convolutions over low frequencies of a regular grid (public code), or layers for every
        point by itself, which need no grid.
    decoder_width, decoder_depth : int
        Channels and number of the convolutions or layers (public code: 32 and 2).
    n_modes : int
        Frequencies of the convolutions along each axis (public code: 12).
    n_heads
        Heads of attention, see `skop.modules.AttentionMixer` (public code: 4). Coordinates are further channels of
        every head.
    d_state, expand, dt_rank, scan_directions, step_range
        See `skop.modules.S6Mixer`. Scans along the axes of a grid need one.
    dropout : float, default=0.0
        Dropout on both branches of a block.
    **skeleton
        Further keywords of `skop.networks.SequenceNetwork`: `n_scalars`, `point_order`, `kernel_size` and
        `n_frequencies`.

    Raises
    ------
    ValueError
        If a size does not fit, or a name is unknown.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import GalerkinNetwork
    >>> network = GalerkinNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, mixer="mamba", width=16, depth=1, mlp_ratio=1.0,
    ...     layer_norm=False, decoder="spectral", decoder_width=8, decoder_depth=2, n_modes=3, n_heads=2, d_state=4,
    ...     expand=2, dt_rank=None, scan_directions="bidirectional", step_range=(1e-3, 0.1), point_order="hilbert",
    ...     kernel_size=1, n_frequencies=0,
    ... )
    >>> network(torch.rand(35, 2), torch.zeros(3, 35, 1), None, (7, 5)).field.shape
    torch.Size([3, 35, 1])
    """

    def __init__(
        self,
        *,
        n_dims: int,
        n_fields: int,
        n_params: int,
        n_outputs: int,
        mixer: str,
        width: int,
        depth: int,
        mlp_ratio: float,
        layer_norm: bool,
        decoder: str,
        decoder_width: int,
        decoder_depth: int,
        n_modes: int,
        n_heads: int | None,
        d_state: int,
        expand: float,
        dt_rank: int | None,
        scan_directions: str,
        step_range: Sequence[float],
        dropout: float = 0.0,
        **skeleton: Any,
    ) -> None:
        if decoder not in _DECODERS:
            raise ValueError(f"decoder is {decoder!r}; expected one of {_DECODERS}.")
        name = _MIXERS.get(mixer, mixer)
        along_axes = name == "s6" and scan_directions not in LINE_DIRECTIONS
        on_grid = decoder == "spectral" or along_axes
        skeleton |= {"n_dims": n_dims, "n_fields": n_fields, "n_params": n_params, "n_outputs": n_outputs}
        super().__init__(width, on_grid, **skeleton)
        options = {
            "n_heads": n_heads, "norm": "layer", "norm_eps": _EPSILON.get(name, 1e-5), "positions": "concatenate",
            "n_coords": n_dims, "init": "xavier", "d_state": d_state, "expand": expand, "dt_rank": dt_rank,
            "scan_directions": scan_directions, "step_range": step_range,
        }  # fmt: skip
        self.lifting = nn.Linear(self.n_positions + n_fields + n_params, width)
        self.blocks = nn.ModuleList(
            _GalerkinBlock(
                LocalConvolution(n_dims, width, skeleton["kernel_size"]),
                build_mixer(name, width, n_dims if self.needs_grid else 1, **options),
                width,
                int(mlp_ratio * width),
                layer_norm,
                dropout,
            )
            for _ in range(depth)
        )
        self.decoder: _SpectralDecoder | _PointDecoder | None = None
        if n_outputs:
            kind = _SpectralDecoder if decoder == "spectral" else _PointDecoder
            modes = {"n_modes": n_modes} if decoder == "spectral" else {}
            self.decoder = kind(n_dims, width, decoder_width, decoder_depth, n_outputs, **modes)

    def transform(self, inputs: Points, queries: Queries | None) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Lift and mix the points, carry them to the queries, and map them to outputs there."""
        points = note_features("input", self.lifting(inputs.channels()))
        for block in self.blocks:
            points = block(points, inputs)
        if self.decoder is None:
            return None, points
        carried = points if queries is None else queries.carry(points)
        places = inputs if queries is None else queries
        return self.decoder(torch.cat([carried, places.coords], dim=-1), places.grid), points


class _GalerkinBlock(nn.Module):
    """A convolution of neighbours, mixing and a feed-forward part, each added to the points."""

    def __init__(
        self, local: nn.Module, mixer: TokenMixer, width: int, hidden: int, layer_norm: bool, dropout: float
    ) -> None:
        super().__init__()
        self.local, self.mixer = local, mixer
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))
        self.norm_mixer, self.norm_mlp = (nn.LayerNorm(width) if layer_norm else nn.Identity() for _ in range(2))
        self.dropout = ResidualDropout(dropout)

    def forward(self, points: torch.Tensor, places: Points) -> torch.Tensor:
        """Update points (B, P, E) by one another."""
        points = self.local(points, places.grid)
        mixed = self.mixer(self.norm_mixer(points), places.grid, places.sizes, places.coords)
        points = note_features("mixer", points + self.dropout(mixed, places.sizes))
        return note_features("mlp", points + self.dropout(self.mlp(self.norm_mlp(points)), places.sizes))


class _SpectralDecoder(nn.Module):
    """Convolutions over the low frequencies of a grid, and two layers for every point."""

    def __init__(self, n_dims: int, width: int, channels: int, depth: int, n_outputs: int, *, n_modes: int) -> None:
        super().__init__()
        self.first = nn.Linear(width + n_dims, channels)
        self.layers = nn.ModuleList(SpectralConvolution(n_dims, channels, channels, n_modes) for _ in range(depth))
        hidden = 2 * n_dims * channels
        self.last = nn.Sequential(nn.Linear(channels, hidden), nn.SiLU(), nn.Linear(hidden, n_outputs))

    def forward(self, points: torch.Tensor, grid: tuple[int, ...]) -> torch.Tensor:
        """Map points (B, P, E + d) of a grid to outputs (B, P, q)."""
        values = self.first(points).unflatten(1, grid)
        for layer in self.layers:
            values = layer(values)
        return self.last(values.flatten(1, -2))


class _PointDecoder(nn.Module):
    """Layers for every point by itself."""

    def __init__(self, n_dims: int, width: int, channels: int, depth: int, n_outputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(width + n_dims, channels)
        self.layers = nn.ModuleList(nn.Linear(channels, channels) for _ in range(depth))
        self.last = nn.Linear(channels, n_outputs)

    def forward(self, points: torch.Tensor, grid: tuple[int, ...] | None) -> torch.Tensor:
        """Map points (B, P, E + d) to outputs (B, P, q)."""
        values = self.first(points)
        for layer in self.layers:
            values = nn.functional.silu(layer(values))
        return self.last(values)
