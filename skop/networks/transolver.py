"""Transolver: attention among slices of the points, on points, structured meshes and regular grids.

H. Wu, H. Luo, H. Wang, J. Wang and M. Long, "Transolver: A Fast Transformer Solver for PDEs on General Geometries",
ICML 2024, section 3. Every block assigns the points to slices by learned weights (Eq. 1), takes the weighted means of
the slices as tokens (Eq. 2), lets the tokens attend to each other (Eq. 3), and gives every point the combination of
them with the same weights (Eq. 4). Slices are the latent tokens of `skop.modules.LatentPooling`.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules import FeedForward, LatentBlock, LatentPooling, PointBlock, TokenMixer, note_mixing
from skop.networks._point_network import PointNetwork

__all__ = ["TransolverNetwork"]


class TransolverNetwork(PointNetwork):
    """Transolver's network, for points in any order, structured meshes and grids.

    Parameters
    ----------
    n_dims : int
        Number of space dimensions.
    width, depth : int
        Size of the features and number of blocks.
    structured : bool
        Whether the points form a structured mesh or a grid of 1 to 3 axes in C order, on which values and weights are
        computed by convolutions over neighbouring points, and not point by point.
    n_slices, n_heads : int
        Number of slices, and of heads, a divisor of `width`.
    mlp_ratio : float
        Number of hidden units of the feed-forward networks, as a multiple of `width`.
    dropout : float, default=0.0
        Dropout probability in the blocks.
    **skeleton
        Keyword arguments of `skop.networks.PointNetwork`. The public code has ``weight_init="trunc_normal"``; its
        "unified position" is ``reference_size=8``.

    Raises
    ------
    ValueError
        If `n_heads` does not divide `width`.

    Notes
    -----
    The output at a point does not depend on the order of the points, unless they are a structured mesh.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import TransolverNetwork
    >>> network = TransolverNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, width=16, depth=1, structured=False, n_slices=4,
    ...     n_heads=2, mlp_ratio=1.0,
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
        structured: bool,
        n_slices: int,
        n_heads: int,
        mlp_ratio: float,
        dropout: float = 0.0,
        **skeleton: Any,
    ) -> None:
        if width % n_heads:
            raise ValueError(f"n_heads={n_heads} does not divide width={width}.")

        def make_blocks() -> Iterator[PointBlock]:
            """Yield the blocks."""
            for _ in range(depth):
                slices = LatentPooling(width, n_slices, n_heads, n_grid_axes=n_dims if structured else None)
                mlp = FeedForward(width, int(mlp_ratio * width))
                yield LatentBlock(_SliceAttention(width, n_heads, dropout), mlp, slices, width, dropout)

        super().__init__(make_blocks, n_dims=n_dims, width=width, structured=structured, **skeleton)


class _SliceAttention(TokenMixer):
    """Softmax attention among slices, with maps to queries, keys and values that all heads share."""

    def __init__(self, width: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads, self.dropout = n_heads, dropout
        channels = width // n_heads
        self.queries, self.keys, self.values = (nn.Linear(channels, channels, bias=False) for _ in range(3))

    def mix(self, tokens: torch.Tensor, grid: GridShape | None) -> torch.Tensor:
        """Let the slices (B, G, E) read each other, head by head."""
        heads = tokens.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        queries, keys, dropout = self.queries(heads), self.keys(heads), self.dropout if self.training else 0.0
        mixed = note_mixing(
            lambda values: nn.functional.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout),
            self.values(heads),
            axis=2,
        )
        return mixed.transpose(1, 2).flatten(2)
