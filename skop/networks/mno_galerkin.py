"""The Galerkin Transformer, with attention or with MNO's selective scans in its place.

S. Cao, "Choose a Transformer: Fourier or Galerkin", NeurIPS 2021; C.-W. Cheng et al., "Mamba Neural Operator: Who Wins?
Transformers vs. State-Space Models for PDEs", 2024 (MNO). Points are lifted, mixed in residual blocks without
normalisation, and mapped to outputs by convolutions over low frequencies of the grid, or point by point.

The public code copies one block, so that all start from the same weights, and drops half of the scores of its
attention in training and in tests; here every block draws its own weights, and nothing is dropped unless asked for.
"""

from typing import Any

import torch
from torch import nn

from skop.modules import LocalConvolution, ResidualDropout, SpectralConvolution, TokenMixer, note_features
from skop.networks._sequence_network import Points, Queries, SequenceNetwork
from skop.parts import Attention, GalerkinTransformer, Mixer

__all__ = ["GalerkinNetwork"]


class GalerkinNetwork(SequenceNetwork):
    """The Galerkin Transformer for grids and points of 1 to 3 dimensions, with three kinds of mixers.

    Parameters
    ----------
    n_dims, n_fields, n_params, n_outputs
        See `skop.networks.SequenceNetwork`.
    host : GalerkinTransformer
        Parameters of the host, without ``"auto"``.
    mixer : Mixer
        Mixer of the points: `skop.parts.Mamba` (MNO) or `skop.parts.Attention`. Coordinates are further channels of the
        heads of attention. Scans along the axes of a grid need one.
    width : int
        Size of a token (public code: 256).
    depth : int
        Number of blocks (public code: 6).
    mlp_ratio : float
        Hidden size of the feed-forward part as a multiple of `width` (public code: 1).
    dropout : float, default=0.0
        Dropout on both branches of a block.
    **skeleton
        Further keywords of `skop.networks.SequenceNetwork`: `n_scalars`.

    Raises
    ------
    ValueError
        If a size does not fit, or a name is unknown.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import GalerkinNetwork
    >>> from skop.parts import GalerkinTransformer, Mamba
    >>> network = GalerkinNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, width=16, depth=1, mlp_ratio=1.0,
    ...     host=GalerkinTransformer(decoder_width=8, n_modes=3).on("grid"), mixer=Mamba(d_state=4),
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
        host: GalerkinTransformer,
        mixer: Mixer,
        width: int,
        depth: int,
        mlp_ratio: float,
        dropout: float = 0.0,
        **skeleton: Any,
    ) -> None:
        is_spectral, sizes = host.decoder == "spectral", host.values()
        skeleton |= {"n_dims": n_dims, "n_fields": n_fields, "n_params": n_params, "n_outputs": n_outputs}
        super().__init__(width, is_spectral or mixer.needs_grid, host, **skeleton)
        eps = 1e-7 if isinstance(mixer, Attention) and mixer.kind == "softmax" else 1e-5
        place = {"norm": "layer", "norm_eps": eps, "positions": "concatenate", "n_coords": n_dims, "init": "xavier"}
        self.lifting = nn.Linear(self.n_positions + n_fields + n_params, width)
        self.blocks = nn.ModuleList(
            _GalerkinBlock(
                LocalConvolution(n_dims, width, sizes["kernel_size"]),
                mixer.build(width, n_dims if self.needs_grid else 1, **place),
                width,
                int(mlp_ratio * width),
                host.layer_norm,
                dropout,
            )
            for _ in range(depth)
        )
        self.decoder: _SpectralDecoder | _PointDecoder | None = None
        if n_outputs:
            kind = _SpectralDecoder if is_spectral else _PointDecoder
            modes = {"n_modes": sizes["n_modes"]} if is_spectral else {}
            self.decoder = kind(n_dims, width, sizes["decoder_width"], sizes["decoder_depth"], n_outputs, **modes)

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
