"""OFormer, the operator transformer, with attention or with MNO's selective scans in its place.

Z. Li, K. Meidani, A. B. Farimani, "Transformer for Partial Differential Equations' Operator Learning", TMLR 2023;
C.-W. Cheng et al., "Mamba Neural Operator: Who Wins? Transformers vs. State-Space Models for PDEs", 2024 (MNO). An
encoder mixes the points of the input; sines and cosines of the query points, with fixed random frequencies, read the
encoded points in one cross layer; every query point is then decoded by itself, or carried from step to step in time by
one small network.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from skop.modules import LINE_DIRECTIONS, LocalConvolution, ResidualDropout, TokenMixer, build_mixer, note_features
from skop.networks._sequence_network import Points, Queries, SequenceNetwork

__all__ = ["OFormerNetwork"]

#: Mixers by the names of MNO's versions; other names are those of `skop.modules.MIXERS`.
_MIXERS = {"mamba": "s6", "linear": "galerkin", "softmax": "softmax"}
_RESIDUALS = ("normalized", "raw")


class OFormerNetwork(SequenceNetwork):
    """OFormer for points of 1 to 3 dimensions, with three kinds of mixers.

    Parameters
    ----------
    n_dims, n_fields, n_params, n_outputs
        See `skop.networks.SequenceNetwork`.
    mixer : {"mamba", "linear", "softmax"} or another name in `skop.modules.MIXERS`
        Mixer of the points, and of the query points with them: `skop.modules.S6Mixer` (MNO),
        `skop.modules.GalerkinAttention` with rotary positions or `skop.modules.SoftmaxAttention`, with rotary
        positions in the cross layer, as in the public code. Others need a cross form.
    width : int
        Size of a token of the encoder (public code: 96 for Darcy, 64 for problems in time).
    depth : int
        Blocks of the encoder (public code: 6 and 2).
    latent_width : int
        Size of a token of the cross layer (public code: 256 and 64).
    mlp_ratio : float
        Hidden size of the feed-forward parts as a multiple of the size of their tokens (public code: 1).
    residual : {"normalized", "raw"}
        What a part of an encoder block is added to: the points after their normalisation (OFormer and MNO), or before
        (public code with softmax attention).
    n_fourier : int
        Random frequencies of the query points (public code: 128 and 64), drawn once and not trained.
    fourier_scale : float
        Standard deviation of the frequencies (public code: 0.5 for Darcy, 8 in time).
    n_steps : int or None
        Steps in time that are the output channels, ``n_outputs / n_steps`` channels each, carried on by one network;
        None decodes all channels at once (public code: None for Darcy, 91 in time).
    propagator_width, propagator_depth : int
        Size of the tokens that are carried on, and layers of the network (public code: 128 and 1); without an effect
        where `n_steps` is None.
    n_heads, query_heads : int
        Heads of attention in the encoder and in the cross layer, each as wide as a token (public code: 4 and 4 for
        Darcy, 1 and 4 in time).
    rotary_scales : sequence of float
        Factors of the coordinates in the rotary positions of each encoder block (public code: 4096, 1024, 64, ... for
        Darcy, 2048, 64 in time).
    query_rotary_scale : float
        Factor of the coordinates in those of the cross layer (public code: 1024).
    d_state, expand, dt_rank, scan_directions, step_range, ratio
        See `skop.modules.S6Mixer`. Scans along the axes of a grid need one.
    dropout : float, default=0.0
        Dropout in the feed-forward parts and after the attention of the encoder (public code: 0.03 for Darcy).
    input_dropout : float, default=0.0
        Dropout of the lifted points (public code: 0.05 for Darcy).
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
    >>> from skop.networks import OFormerNetwork
    >>> network = OFormerNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=6, n_scalars=0, mixer="mamba", width=16, depth=1,
    ...     latent_width=16, mlp_ratio=1.0, residual="normalized", n_fourier=8, fourier_scale=1.0, n_steps=3,
    ...     propagator_width=16, propagator_depth=1, n_heads=1, query_heads=2, rotary_scales=(16.0,),
    ...     query_rotary_scale=16.0, d_state=4, expand=2, dt_rank=None, scan_directions="bidirectional",
    ...     step_range=(1e-3, 0.1), ratio=1.0, point_order="hilbert", kernel_size=1, n_frequencies=0,
    ... )
    >>> queries = {"query_coords": torch.rand(9, 2), "query_fields": torch.zeros(3, 9, 1)}
    >>> network(torch.rand(50, 2), torch.zeros(3, 50, 1), None, **queries).field.shape
    torch.Size([3, 9, 6])
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
        latent_width: int,
        mlp_ratio: float,
        residual: str,
        n_fourier: int,
        fourier_scale: float,
        n_steps: int | None,
        propagator_width: int,
        propagator_depth: int,
        n_heads: int,
        query_heads: int,
        rotary_scales: Sequence[float],
        query_rotary_scale: float,
        d_state: int,
        expand: float,
        dt_rank: int | None,
        scan_directions: str,
        step_range: Sequence[float],
        ratio: float | str,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        **skeleton: Any,
    ) -> None:
        if residual not in _RESIDUALS:
            raise ValueError(f"residual is {residual!r}; expected one of {_RESIDUALS}.")
        if len(rotary_scales) != depth:
            raise ValueError(
                f"rotary_scales has {len(rotary_scales)} entries; expected one for each of {depth} blocks."
            )
        name = _MIXERS.get(mixer, mixer)
        on_grid = name == "s6" and scan_directions not in LINE_DIRECTIONS
        skeleton |= {"n_dims": n_dims, "n_fields": n_fields, "n_params": n_params, "n_outputs": n_outputs}
        super().__init__(latent_width, on_grid, **skeleton)
        axes = n_dims if on_grid else 1
        shared = {
            "bias": False, "norm": None if name == "softmax" else "layer", "norm_affine": False, "n_coords": n_dims,
            "d_state": d_state, "expand": expand, "dt_rank": dt_rank, "scan_directions": scan_directions,
            "step_range": step_range, "ratio": ratio,
        }  # fmt: skip

        def make_mixer(size: int, heads: int, scale: float, **options: Any) -> TokenMixer:
            """A mixer whose heads are as wide as its tokens, with rotary positions and a small start."""
            kinds: dict[str, Any] = {"positions": "rotary", "init": "orthogonal", "diagonal": 1 / size}
            places = {"n_heads": heads, "head_width": size, "rotary_scale": scale, "init_gain": 1 / size}
            return build_mixer(name, size, axes, **(shared | kinds | places | options))

        # The public code has neither positions nor a start of its own in the softmax attention of the encoder, and
        # starts only the queries of the linear one small.
        own: dict[str, Any] = {"positions": None, "init": None} if name == "softmax" else {"init_parts": ("query",)}
        own |= {"project_out": n_heads > 1, "dropout": dropout}
        across = {"diagonal": 0.0} if name == "softmax" else {}
        self.lifting = nn.Linear(self.n_positions + n_fields + n_params, width, bias=False)
        self.input_dropout = nn.Dropout(input_dropout)
        self.blocks = nn.ModuleList(
            _OFormerBlock(
                LocalConvolution(n_dims, width, skeleton["kernel_size"]),
                make_mixer(width, n_heads, scale, **own),
                _GatedMLP(width, int(mlp_ratio * width), dropout),
                width,
                residual == "normalized",
            )
            for scale in rotary_scales
        )
        self.to_latent = nn.Linear(width, latent_width, bias=False)
        self.encoding: _QueryEncoding | None = None
        if n_outputs:
            self.encoding = _QueryEncoding(n_dims, n_fourier, latent_width, fourier_scale)
            self.cross = make_mixer(latent_width, query_heads, query_rotary_scale, n_references=1, **across)
            self.mlp = _GatedMLP(latent_width, int(mlp_ratio * latent_width), 0.0)
            self.decoder: _Decoder | _Propagator
            if n_steps is None:
                self.decoder = _Decoder(n_dims, latent_width, n_outputs)
            else:
                self.decoder = _Propagator(n_dims, latent_width, propagator_width, propagator_depth, n_steps, n_outputs)

    def transform(self, inputs: Points, queries: Queries | None) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Encode the points of the input, let the query points read them, and decode these."""
        points = note_features("input", self.input_dropout(self.lifting(inputs.channels())))
        for block in self.blocks:
            points = block(points, inputs)
        latents = self.to_latent(points)
        if self.encoding is None:
            return None, latents
        reference, places = inputs.stream(latents), self.encoding(inputs.coords)
        if queries is None:
            mixed = self.cross(places, inputs.grid, inputs.sizes, inputs.coords, [reference])
        else:
            wanted = self.encoding(queries.coords)
            asked = queries.probe(wanted, [queries.carry(latents)] if self.cross.aligned else [])
            mixed, places = self.cross.probe(places, asked, inputs.coords, [reference]), wanted
        places = note_features("mixer", places + mixed)
        places = note_features("mlp", places + self.mlp(places))
        return self.decoder(places, (inputs if queries is None else queries).coords), latents


class _GatedMLP(nn.Module):
    """Two linear layers, half of whose hidden units gate the other half by their GELU."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 2 * hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Map every point."""
        gate, values = self.fc1(points).chunk(2, dim=-1)
        return self.dropout(self.fc2(self.dropout(nn.functional.gelu(gate) * values)))


class _OFormerBlock(nn.Module):
    """Mixing and a gated feed-forward part, each after a normalisation."""

    def __init__(self, local: nn.Module, mixer: TokenMixer, mlp: nn.Module, width: int, adds_normalized: bool) -> None:
        super().__init__()
        self.norm_mixer, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.local, self.mixer, self.mlp, self.adds_normalized = local, mixer, mlp, adds_normalized
        # Mixer and feed-forward part have the dropout of single values inside.
        self.dropout = ResidualDropout()

    def forward(self, points: torch.Tensor, places: Points) -> torch.Tensor:
        """Update points (B, P, E) by one another."""
        points = self.local(points, places.grid)
        normed = self.norm_mixer(points)
        mixed = self.dropout(self.mixer(normed, places.grid, places.sizes, places.coords), places.sizes)
        points = note_features("mixer", mixed + (normed if self.adds_normalized else points))
        normed = self.norm_mlp(points)
        mapped = self.dropout(self.mlp(normed), places.sizes)
        return note_features("mlp", mapped + (normed if self.adds_normalized else points))


class _QueryEncoding(nn.Module):
    """Features of places: sines and cosines of random frequencies, and two layers."""

    frequencies: torch.Tensor

    def __init__(self, n_dims: int, n_fourier: int, width: int, scale: float) -> None:
        super().__init__()
        self.register_buffer("frequencies", scale * torch.randn(n_dims, n_fourier))
        self.fc1 = nn.Linear(2 * n_fourier, 2 * n_fourier, bias=False)
        self.fc2 = nn.Linear(2 * n_fourier, width, bias=False)

    def forward(self, coords: torch.Tensor) -> torch.Tensor:
        """Map places (B, Q, d) to features (B, Q, E)."""
        angles = 2 * torch.pi * (coords @ self.frequencies)
        return self.fc2(nn.functional.gelu(self.fc1(torch.cat([angles.sin(), angles.cos()], dim=-1))))


class _Decoder(nn.Module):
    """Layers for every query point by itself, which see its coordinates."""

    def __init__(self, n_dims: int, width: int, n_outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width + n_dims, width, bias=False),
            nn.GELU(),
            nn.Linear(width, width // 2, bias=False),
            nn.GELU(),
            nn.Linear(width // 2, n_outputs),
        )

    def forward(self, points: torch.Tensor, coords: torch.Tensor) -> torch.Tensor:
        """Map points (B, Q, E) to outputs (B, Q, q)."""
        return self.layers(torch.cat([points, coords], dim=-1))


class _Propagator(nn.Module):
    """One network that carries every query point from step to step, and a head for every step."""

    def __init__(self, n_dims: int, width: int, hidden: int, depth: int, n_steps: int, n_outputs: int) -> None:
        super().__init__()
        if n_outputs % n_steps:
            raise ValueError(f"{n_outputs} output channels are no multiple of n_steps={n_steps}.")
        self.n_steps, half = n_steps, hidden // 2
        self.expand = nn.Linear(width, hidden)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(depth))
        self.steps = nn.ModuleList(
            nn.Sequential(
                nn.Linear(hidden + n_dims, hidden, bias=False),
                nn.GELU(),
                nn.Linear(hidden, hidden, bias=False),
                nn.GELU(),
                nn.Linear(hidden, hidden, bias=False),
            )
            for _ in range(depth)
        )
        self.head = nn.Sequential(
            nn.LayerNorm(hidden),
            nn.Linear(hidden, half, bias=False),
            nn.GELU(),
            nn.Linear(half, half, bias=False),
            nn.GELU(),
            nn.Linear(half, n_outputs // n_steps),
        )

    def forward(self, points: torch.Tensor, coords: torch.Tensor) -> torch.Tensor:
        """Map points (B, Q, E) to the channels of all steps (B, Q, q), the first step first."""
        points, found = self.expand(points), []
        for _ in range(self.n_steps):
            for norm, step in zip(self.norms, self.steps, strict=True):
                points = points + step(torch.cat([norm(points), coords], dim=-1))
            found.append(self.head(points))
        return torch.cat(found, dim=-1)
