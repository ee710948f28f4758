"""AMO, the adaptive Mamba neural operator, on points by latent tokens, and on regular grids by patches.

Z. Song and Z. Jiang, "Adaptive Mamba Neural Operators", 2025, section 3.2. Latent tokens read the points by
cross-attention (Eq. 3), a network maps them to the space of the expansions (Eq. 4), blocks expand them in
Takenaka-Malmquist systems with adaptive poles (Eq. 5 to 12), and points read the result (Eq. 13). The equations as
printed cannot learn beyond the first block; what is done instead, and the printed form, are described in the
user guide.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import isqrt, prod
from typing import Any

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules import (
    LINE_DIRECTIONS,
    FeedForward,
    LatentBlock,
    PointBlock,
    PreNormBlock,
    PrintedExpansions,
    TokenMixer,
)
from skop.networks._patch_network import PatchNetwork
from skop.networks._point_network import PointNetwork
from skop.parts import LatentAttention, LatentTokens, LiteralExpansions, Patches, TakenakaMalmquist

__all__ = ["AMOPatchNetwork", "AMOPointNetwork"]


class AMOPatchNetwork(PatchNetwork):
    """AMO's blocks on the patches of a regular grid in 1, 2 or 3 dimensions.

    Parameters
    ----------
    n_dims : int
        Number of space dimensions.
    grid_shape : tuple of int
        Shape of the training grid.
    width : int
        Size of a token.
    patches : Patches
        Patches of the grid.
    mixer : TakenakaMalmquist
        Expansions of the tokens, with at most as many poles as there are patches.
    **skeleton
        Keyword arguments of `skop.networks.PatchNetwork`.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import AMOPatchNetwork
    >>> from skop.parts import Patches, TakenakaMalmquist
    >>> network = AMOPatchNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, grid_shape=(8, 8), width=16, depth=1,
    ...     mlp_ratio=2.0, patches=Patches(size=2), mixer=TakenakaMalmquist(n_poles=6, scan_directions="cross"),
    ... )
    >>> network(torch.zeros(64, 2), torch.zeros(3, 64, 1), None, (8, 8)).field.shape
    torch.Size([3, 64, 1])
    """

    def __init__(
        self,
        *,
        n_dims: int,
        grid_shape: GridShape,
        width: int,
        patches: Patches,
        mixer: TakenakaMalmquist,
        **skeleton: Any,
    ) -> None:
        mixer = replace(mixer, n_poles=min(mixer.n_poles, prod(patches.token_grid(grid_shape))))
        make_mixer = partial(mixer.build, width, n_dims)
        super().__init__(make_mixer, n_dims=n_dims, grid_shape=grid_shape, width=width, patches=patches, **skeleton)


class AMOPointNetwork(PointNetwork):
    """AMO's network with latent tokens, for points in any order.

    Parameters
    ----------
    n_dims : int
        Number of space dimensions.
    width, depth : int
        Size of a token and number of blocks.
    mlp_ratio : float
        Number of hidden units of the feed-forward networks, as a multiple of `width`.
    latents : LatentTokens or LatentAttention
        Exchange of points and latent tokens: in each block by weighted pooling (as LaMO), or once before and once after
        all blocks, by attention (paper).
    mixer : TakenakaMalmquist or LiteralExpansions
        Expansions of the latent tokens. With directions along more than one axis, these are arranged as rows of a grid.
        The paper's equations as printed need `LatentAttention`.
    structured : bool, default=False
        Whether the points form a structured mesh, of which weighted pooling makes use by convolutions.
    dropout : float, default=0.0
        Dropout probability in the blocks.
    **skeleton
        Keyword arguments of `skop.networks.PointNetwork`.

    Raises
    ------
    ValueError
        If `LiteralExpansions` come with `LatentTokens`.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import AMOPointNetwork
    >>> from skop.parts import LatentAttention, TakenakaMalmquist
    >>> network = AMOPointNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, width=16, depth=1, mlp_ratio=2.0,
    ...     latents=LatentAttention(n_tokens=8), mixer=TakenakaMalmquist(n_poles=4),
    ... )
    >>> network(torch.zeros(50, 2), torch.zeros(3, 50, 1), None).field.shape
    torch.Size([3, 50, 1])
    """

    def __init__(
        self,
        *,
        n_dims: int,
        width: int,
        depth: int,
        mlp_ratio: float,
        latents: LatentTokens | LatentAttention,
        mixer: TakenakaMalmquist | LiteralExpansions,
        structured: bool = False,
        dropout: float = 0.0,
        **skeleton: Any,
    ) -> None:
        if isinstance(latents, LatentTokens) and isinstance(mixer, LiteralExpansions):
            raise ValueError("LiteralExpansions need latent tokens that read the points once; set LatentAttention too.")
        hidden, n_tokens = int(mlp_ratio * width), int(latents.n_tokens)
        grid: tuple[int, ...] = (n_tokens,)
        if isinstance(mixer, TakenakaMalmquist) and mixer.scan_directions not in LINE_DIRECTIONS:
            rows = next(count for count in range(isqrt(n_tokens), 0, -1) if n_tokens % count == 0)
            grid = (rows, n_tokens // rows)

        def make_blocks() -> Iterator[PointBlock]:
            """Yield one block for points that read once, in which all others are, or one after the other."""
            if isinstance(latents, LatentAttention):
                inner: nn.Module
                if isinstance(mixer, LiteralExpansions):
                    inner = PrintedExpansions(width, depth, **mixer.values())
                else:
                    mixers = (mixer.build(width, len(grid)) for _ in range(depth))
                    blocks = [PreNormBlock(own, width, hidden, dropout, are_latents=True) for own in mixers]
                    inner = _Stack(width, blocks, grid, latents.aggregation)
                yield latents.build(inner, width, n_dims, hidden, dropout)
            elif isinstance(mixer, TakenakaMalmquist):
                shared = [latents.build(width, n_dims, structured) for _ in range(1 if latents.shared else depth)]
                self.latents = shared[0] if latents.shared else nn.ModuleList(shared)
                for number in range(depth):
                    mlp, read = FeedForward(width, hidden, dropout), shared[0 if latents.shared else number]
                    own_mixer = _OnGrid(mixer.build(width, len(grid)), grid)
                    yield LatentBlock(own_mixer, mlp, read, width, dropout, shared=True)

        super().__init__(
            make_blocks,
            n_dims=n_dims,
            width=width,
            structured=structured and isinstance(latents, LatentTokens),
            **latents.inputs(),
            **skeleton,
        )


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
