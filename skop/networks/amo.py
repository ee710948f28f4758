"""AMO, the adaptive Mamba neural operator, on points by latent tokens, and on regular grids by patches.

Z. Song and Z. Jiang, "Adaptive Mamba Neural Operators", 2025, section 3.2. Latent tokens read the points by
cross-attention (Eq. 3), a network maps them to the space of the expansions (Eq. 4), blocks expand them in
Takenaka-Malmquist systems with adaptive poles (Eq. 5 to 12), and points read the result (Eq. 13). The equations as
printed cannot learn beyond the first block; what is done instead, and the printed form, are described in the
user guide.
"""

from collections.abc import Iterator
from functools import partial
from math import isqrt
from typing import Any

import torch
from torch import nn

from skop.modules import (
    LINE_DIRECTIONS,
    FeedForward,
    LatentAttentionBlock,
    LatentBlock,
    LatentTokens,
    PointBlock,
    PreNormBlock,
    PrintedExpansions,
    TakenakaMalmquistMixer,
    TokenMixer,
)
from skop.networks._patch_network import PatchNetwork
from skop.networks._point_network import PointNetwork

__all__ = ["AMOPatchNetwork", "AMOPointNetwork"]


class AMOPatchNetwork(PatchNetwork):
    """AMO's blocks on the patches of a regular grid in 1, 2 or 3 dimensions.

    Parameters
    ----------
    n_dims : int
        Number of space dimensions.
    width : int
        Size of a token.
    n_poles, expand, d_state, kernel_size, scan_directions, n_pole_heads, adaptive_poles, orthogonal, transform
        See `skop.modules.TakenakaMalmquistMixer`.
    max_radius : float
        Largest modulus of a pole, in (0, 1).
    **skeleton
        Keyword arguments of `skop.networks.PatchNetwork`.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import AMOPatchNetwork
    >>> network = AMOPatchNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, grid_shape=(8, 8), patch_size=2, width=16,
    ...     depth=1, mlp_ratio=2.0, n_poles=6, expand=2, d_state=4, kernel_size=3, scan_directions="cross",
    ...     n_pole_heads=1, adaptive_poles=True, orthogonal=True, transform="coefficients", max_radius=0.95,
    ... )
    >>> network(torch.zeros(64, 2), torch.zeros(3, 64, 1), None, (8, 8)).field.shape
    torch.Size([3, 64, 1])
    """

    def __init__(
        self,
        *,
        n_dims: int,
        width: int,
        n_poles: int,
        expand: int,
        d_state: int,
        kernel_size: int,
        scan_directions: str,
        n_pole_heads: int,
        adaptive_poles: bool,
        orthogonal: bool,
        transform: str,
        max_radius: float,
        **skeleton: Any,
    ) -> None:
        make_mixer = partial(
            TakenakaMalmquistMixer,
            width,
            n_dims,
            n_poles=n_poles,
            expand=expand,
            d_state=d_state,
            kernel_size=kernel_size,
            scan_directions=scan_directions,
            n_pole_heads=n_pole_heads,
            adaptive_poles=adaptive_poles,
            orthogonal=orthogonal,
            transform=transform,
            max_radius=max_radius,
        )
        super().__init__(make_mixer, n_dims=n_dims, width=width, **skeleton)


class AMOPointNetwork(PointNetwork):
    """AMO's network with latent tokens, for points in any order.

    Parameters
    ----------
    n_dims, n_fields, n_params : int
        Numbers of space dimensions, of input channels, and of global parameters.
    width, depth : int
        Size of a token and number of blocks.
    n_latents, n_latent_heads, n_centred_heads : int
        Number of latent tokens, of heads of the attention between points and latent tokens, and of heads whose latent
        tokens have centres in the unit box, where the coordinates should lie; see `skop.modules.LatentAttentionBlock`.
    decoder : {"encoder_weights", "own_softmax"}
        Logits by which points read the latent tokens, see `skop.modules.LatentAttentionBlock`.
    mlp_ratio : float
        Number of hidden units of the feed-forward networks, as a multiple of `width`.
    n_poles, expand, d_state, kernel_size, scan_directions, n_pole_heads, adaptive_poles, orthogonal, transform
        See `skop.modules.TakenakaMalmquistMixer`. With directions along more than one axis, the latent tokens are
        arranged as rows of a grid.
    max_radius : float
        Largest modulus of a pole, in (0, 1).
    latents : {"each_block", "once"}
        Exchange of points and latent tokens: in each block by weighted pooling, with the same weights in all of them
        (as LaMO), or once before and once after all blocks, by attention (paper).
    aggregation : {"last", "sum"}
        What the points read: the tokens after the last block, or the sum of those before the first and after each
        block; with ``latents="once"``.
    position_network : bool, default=False
        Whether the coordinates pass through a network of their own, to which a linear map of the other channels is
        added (Eq. 3); otherwise all channels pass through one network.
    structured : bool, default=False
        Whether the points form a structured mesh, of which weighted pooling makes use by convolutions.
    dropout : float, default=0.0
        Dropout probability in the blocks.
    **skeleton
        Keyword arguments of `skop.networks.PointNetwork`.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import AMOPointNetwork
    >>> network = AMOPointNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, width=16, depth=1, n_latents=8,
    ...     n_latent_heads=2, n_centred_heads=1, decoder="own_softmax", mlp_ratio=2.0, n_poles=4, expand=2, d_state=4,
    ...     kernel_size=4, scan_directions="bidirectional", n_pole_heads=1, adaptive_poles=True, orthogonal=True,
    ...     transform="coefficients", max_radius=0.95, latents="once", aggregation="last",
    ... )
    >>> network(torch.zeros(50, 2), torch.zeros(3, 50, 1), None).field.shape
    torch.Size([3, 50, 1])
    """

    def __init__(
        self,
        *,
        n_dims: int,
        n_fields: int,
        n_params: int,
        width: int,
        depth: int,
        n_latents: int,
        n_latent_heads: int,
        n_centred_heads: int,
        decoder: str,
        mlp_ratio: float,
        n_poles: int,
        expand: int,
        d_state: int,
        kernel_size: int,
        scan_directions: str,
        n_pole_heads: int,
        adaptive_poles: bool,
        orthogonal: bool,
        transform: str,
        max_radius: float,
        aggregation: str,
        latents: str,
        position_network: bool = False,
        structured: bool = False,
        dropout: float = 0.0,
        **skeleton: Any,
    ) -> None:
        if latents not in ("each_block", "once"):
            raise ValueError(f"latents is {latents!r}; expected 'each_block' or 'once'.")
        if transform == "literal" and latents != "once":
            raise ValueError("transform='literal' needs latents='once'; set both, or another transform.")
        hidden = int(mlp_ratio * width)
        grid: tuple[int, ...] = (n_latents,)
        if scan_directions not in LINE_DIRECTIONS:
            rows = next(count for count in range(isqrt(n_latents), 0, -1) if n_latents % count == 0)
            grid = (rows, n_latents // rows)
        make_mixer = partial(
            TakenakaMalmquistMixer,
            width,
            len(grid),
            n_poles=n_poles,
            expand=expand,
            d_state=d_state,
            kernel_size=kernel_size,
            scan_directions=scan_directions,
            n_pole_heads=n_pole_heads,
            adaptive_poles=adaptive_poles,
            orthogonal=orthogonal,
            transform=transform,
            max_radius=max_radius,
        )

        def make_block() -> Iterator[PointBlock]:
            """Yield one block, in which all others are: points and latent tokens meet once before and once after."""
            inner: nn.Module
            if transform == "literal":
                inner = PrintedExpansions(
                    width, depth, adaptive_poles=adaptive_poles, orthogonal=orthogonal, max_radius=max_radius
                )
            else:
                blocks = [PreNormBlock(make_mixer(), width, hidden, dropout, are_latents=True) for _ in range(depth)]
                inner = _Stack(width, blocks, grid, aggregation)
            yield LatentAttentionBlock(
                inner,
                width,
                n_latents,
                n_latent_heads,
                hidden,
                dropout,
                decoder=decoder,
                n_centred_heads=n_centred_heads,
                n_dims=n_dims,
            )

        def make_blocks() -> Iterator[PointBlock]:
            """Yield the blocks, between which the points are updated; all share the weights of points and tokens."""
            self.latents = LatentTokens(
                width,
                n_latents,
                n_latent_heads,
                n_grid_axes=n_dims if structured else None,
                decoder=decoder,
                n_centred_heads=n_centred_heads,
                n_dims=n_dims,
            )
            for _ in range(depth):
                mlp = FeedForward(width, hidden, dropout)
                yield LatentBlock(_OnGrid(make_mixer(), grid), mlp, self.latents, width, dropout, shared=True)

        make = make_blocks if latents == "each_block" else make_block
        structured = structured and latents == "each_block"
        super().__init__(
            make, n_dims=n_dims, n_fields=n_fields, n_params=n_params, width=width, structured=structured, **skeleton
        )
        if position_network:
            positions = n_dims * (1 + 2 * self.n_frequencies)
            self.lifting = _PositionLifting(positions, n_fields + n_params, width)


class _PositionLifting(nn.Module):
    """Lifting of points: a network of their coordinates and a linear map of their other channels, added up (Eq. 3)."""

    def __init__(self, n_positions: int, n_inputs: int, width: int) -> None:
        super().__init__()
        self.n_positions = n_positions
        self.positions = FeedForward(n_positions, width, out=width)
        self.inputs = nn.Linear(n_inputs, width) if n_inputs else None

    def forward(self, channels: torch.Tensor) -> torch.Tensor:
        """Lift the channels of points, of which the coordinates are the first."""
        features = self.positions(channels[..., : self.n_positions])
        return features if self.inputs is None else features + self.inputs(channels[..., self.n_positions :])


class _OnGrid(nn.Module):
    """Mixer of latent tokens that are arranged as a grid."""

    def __init__(self, mixer: TokenMixer, grid: tuple[int, ...]) -> None:
        super().__init__()
        self.mixer, self.grid = mixer, grid

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Mix latent tokens ``(B, G, E)``."""
        return self.mixer(tokens, self.grid)


class _Stack(nn.Module):
    """Map of the latent tokens to the space of the expansions (Eq. 4), and the blocks."""

    def __init__(self, width: int, blocks: list[PreNormBlock], grid: tuple[int, ...], aggregation: str) -> None:
        super().__init__()
        if aggregation not in ("last", "sum"):
            raise ValueError(f"aggregation is {aggregation!r}; expected 'last' or 'sum'.")
        self.enter, self.blocks = FeedForward(width, width), nn.ModuleList(blocks)
        self.grid, self.adds = grid, aggregation == "sum"

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Transform latent tokens ``(B, G, E)``."""
        tokens = total = self.enter(tokens)
        for block in self.blocks:
            tokens = block(tokens, self.grid)
            total = total + tokens
        return total if self.adds else tokens
