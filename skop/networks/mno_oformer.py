"""OFormer, the operator transformer, with attention or with MNO's selective scans in its place.

Z. Li, K. Meidani, A. B. Farimani, "Transformer for Partial Differential Equations' Operator Learning", TMLR 2023;
C.-W. Cheng et al., "Mamba Neural Operator: Who Wins? Transformers vs. State-Space Models for PDEs", 2024 (MNO). An
encoder mixes the points of the input; sines and cosines of the query points, with fixed random frequencies, read the
encoded points in one cross layer; every query point is then decoded by itself, or carried from step to step in time by
one small network.
"""

from numbers import Real
from typing import Any

import torch
from torch import nn

from skop.modules import LocalConvolution, ResidualDropout, TokenMixer, note_features
from skop.networks._sequence_network import Points, Queries, SequenceNetwork
from skop.parts import Attention, Mixer, OFormer, RotaryAttention

__all__ = ["OFormerNetwork"]


class OFormerNetwork(SequenceNetwork):
    """OFormer for points of 1 to 3 dimensions, with three kinds of mixers.

    Parameters
    ----------
    n_dims, n_fields, n_params, n_outputs
        See `skop.networks.SequenceNetwork`.
    host : OFormer
        Parameters of the host, without ``"auto"``.
    mixer : Mixer
        Mixer of the points, and of the query points with them: `skop.parts.Mamba` (MNO) or
        `skop.parts.RotaryAttention`, which has rotary positions, in the public code in the cross layer only if it is
        softmax attention. Others need a cross form. Scans along the axes of a grid need one.
    width : int
        Size of a token of the encoder (public code: 96 for Darcy, 64 for problems in time).
    depth : int
        Blocks of the encoder (public code: 6 and 2).
    mlp_ratio : float
        Hidden size of the feed-forward parts as a multiple of the size of their tokens (public code: 1).
    dropout : float, default=0.0
        Dropout in the feed-forward parts and after the attention of the encoder (public code: 0.03 for Darcy).
    **skeleton
        Further keywords of `skop.networks.SequenceNetwork`: `n_scalars`.

    Raises
    ------
    ValueError
        If a size does not fit, or a name is unknown.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import OFormerNetwork
    >>> from skop.parts import Mamba, OFormer
    >>> network = OFormerNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=6, n_scalars=0, width=16, depth=1, mlp_ratio=1.0,
    ...     host=OFormer(n_steps=3).on("points"), mixer=Mamba(d_state=4),
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
        host: OFormer,
        mixer: Mixer,
        width: int,
        depth: int,
        mlp_ratio: float,
        dropout: float = 0.0,
        **skeleton: Any,
    ) -> None:
        sizes = host.values()
        latent_width, n_steps = sizes["latent_width"] or width, sizes["n_steps"]
        attention = mixer if isinstance(mixer, RotaryAttention) else RotaryAttention()
        scales = attention.rotary_scales
        rotary_scales: tuple[float, ...] = (float(scales),) * depth if isinstance(scales, Real) else tuple(scales)
        if len(rotary_scales) != depth:
            raise ValueError(
                f"rotary_scales has {len(rotary_scales)} entries; expected one for each of {depth} blocks."
            )
        skeleton |= {"n_dims": n_dims, "n_fields": n_fields, "n_params": n_params, "n_outputs": n_outputs}
        super().__init__(latent_width, mixer.needs_grid, host, **skeleton)
        axes = n_dims if mixer.needs_grid else 1
        is_softmax = isinstance(mixer, Attention) and mixer.kind == "softmax"
        n_heads = int(mixer.n_heads or 1) if isinstance(mixer, Attention) else 1
        shared = {"bias": False, "norm": None if is_softmax else "layer", "norm_affine": False, "n_coords": n_dims}

        def make_mixer(size: int, heads: int, scale: float, **options: Any) -> TokenMixer:
            """A mixer whose heads are as wide as its tokens, with rotary positions and a small start."""
            kinds: dict[str, Any] = {"positions": "rotary", "init": "orthogonal", "diagonal": 1 / size}
            places: dict[str, Any] = {"rotary_scale": scale, "init_gain": 1 / size}
            if isinstance(mixer, Attention):
                places |= {"n_heads": heads, "head_width": size}
            return mixer.build(size, axes, **(shared | kinds | places | options))

        # The public code has neither positions nor a start of its own in the softmax attention of the encoder, and
        # starts only the queries of the linear one small.
        own: dict[str, Any] = {"positions": None, "init": None} if is_softmax else {"init_parts": ("query",)}
        own |= {"project_out": n_heads > 1, "dropout": dropout}
        across = {"diagonal": 0.0} if is_softmax else {}
        self.lifting = nn.Linear(self.n_positions + n_fields + n_params, width, bias=False)
        self.input_dropout = nn.Dropout(sizes["input_dropout"])
        self.blocks = nn.ModuleList(
            _OFormerBlock(
                LocalConvolution(n_dims, width, sizes["kernel_size"]),
                make_mixer(width, n_heads, scale, **own),
                _GatedMLP(width, int(mlp_ratio * width), dropout),
                width,
                host.residual == "normalized",
            )
            for scale in rotary_scales
        )
        self.to_latent = nn.Linear(width, latent_width, bias=False)
        self.encoding: _QueryEncoding | None = None
        if n_outputs:
            self.encoding = _QueryEncoding(n_dims, sizes["n_fourier"], latent_width, sizes["fourier_scale"])
            heads, scale = int(attention.query_heads), attention.query_rotary_scale
            self.cross = make_mixer(latent_width, heads, scale, n_references=1, **across)
            self.mlp = _GatedMLP(latent_width, int(mlp_ratio * latent_width), 0.0)
            self.decoder: _Decoder | _Propagator
            if n_steps is None:
                self.decoder = _Decoder(n_dims, latent_width, n_outputs)
            else:
                carried, layers = sizes["propagator_width"] or latent_width, sizes["propagator_depth"]
                self.decoder = _Propagator(n_dims, latent_width, carried, layers, n_steps, n_outputs)

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
