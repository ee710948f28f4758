"""LaMO, the latent Mamba operator, on regular grids, and on points and structured meshes.

Tiwari, Dutta, Krishnan and Prathosh, "Latent Mamba Operator for Partial Differential Equations", ICML
2025, section 3. On a regular grid, patches of 2 x 2 points become tokens (Remark 3.1), residual blocks mix the
tokens by scans in several directions (Eq. 11 to 13), and every token is expanded back to the points of its patch.
On other points, every block pools the points into latent tokens with learned weights (Eq. 9 and 10), a bidirectional
state-space model mixes the latent tokens, and every point receives a weighted combination of them (Eq. 14 and 15).
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from torch import nn

from skop.modules import FeedForward, GridSSDMixer, LatentBlock, LatentTokens, PointBlock, build_mixer
from skop.networks._patch_network import PatchNetwork
from skop.networks._point_network import PointNetwork

__all__ = ["LaMOPatchNetwork", "LaMOPointNetwork"]


class LaMOPatchNetwork(PatchNetwork):
    """LaMO's patch model for regular grids in 1, 2 or 3 dimensions.

    Parameters
    ----------
    n_dims : int
        Number of space dimensions.
    width : int
        Size of a token.
    d_state, expand, n_heads, scan_directions, path_weights, kernel_size, activation, decay_range
        See `skop.modules.GridSSDMixer`.
    **skeleton
        Keyword arguments of `skop.networks.PatchNetwork`.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import LaMOPatchNetwork
    >>> network = LaMOPatchNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, grid_shape=(8, 8), patch_size=2, width=16,
    ...     depth=1, mlp_ratio=2.0, d_state=4, expand=2, n_heads=None, scan_directions="cross",
    ...     path_weights="own_steps", kernel_size=3, activation="gelu", decay_range=(0.05, 1.0),
    ... )
    >>> network(torch.zeros(64, 2), torch.zeros(3, 64, 1), None, (8, 8)).field.shape
    torch.Size([3, 64, 1])
    """

    def __init__(
        self,
        *,
        n_dims: int,
        width: int,
        d_state: int,
        expand: int,
        n_heads: int | None,
        scan_directions: str,
        path_weights: str,
        kernel_size: int,
        activation: str,
        decay_range: Sequence[float],
        **skeleton: Any,
    ) -> None:
        make_mixer = partial(
            GridSSDMixer,
            width,
            n_dims,
            d_state=d_state,
            expand=expand,
            n_heads=n_heads,
            scan_directions=scan_directions,
            path_weights=path_weights,
            kernel_size=kernel_size,
            activation=activation,
            decay_range=decay_range,
        )
        super().__init__(make_mixer, n_dims=n_dims, width=width, **skeleton)


class LaMOPointNetwork(PointNetwork):
    """LaMO's network with latent tokens, for points in any order and for structured meshes.

    Parameters
    ----------
    n_dims : int
        Number of space dimensions.
    width, depth : int
        Size of the features and number of blocks.
    structured : bool
        Whether the points form a structured mesh of 1 to 3 axes in C order, on which values and queries are computed by
        convolutions over neighbouring points.
    n_latents, n_latent_heads, n_centred_heads : int
        Number of latent tokens, of heads, and of heads whose latent tokens also have centres in the unit box, where the
        coordinates should lie; see `skop.modules.LatentTokens`. The paper has no centres.
    temperature, normalize_latents, decoder
        See `skop.modules.LatentTokens`, where the second is called `normalize`.
    shared_projections : bool
        Whether all blocks share the projections that give the weights and values of the latent tokens (paper, Table 7).
    mixer : {"hydra", "mamba2"} or another name in `skop.modules.MIXERS`
        Mixer of the latent tokens: `skop.modules.HydraMixer` (public code for elasticity and airfoil) or
        `skop.modules.BidirectionalSSDMixer` (plasticity and pipe).
    d_state, expand, n_heads
        See the mixers.
    mlp_ratio : float
        Number of hidden units of the feed-forward networks, as a multiple of `width`.
    dropout : float, default=0.0
        Dropout probability in the blocks.
    **skeleton
        Keyword arguments of `skop.networks.PointNetwork`. As in the public code, ``weight_init="trunc_normal"`` does
        not change shared projections.

    Raises
    ------
    ValueError
        If a size is not divisible as required, or a name is unknown.

    Notes
    -----
    The output at a point does not depend on the order of the points, unless they are a structured mesh.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import LaMOPointNetwork
    >>> network = LaMOPointNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, width=16, depth=1, structured=False,
    ...     n_latents=4, n_latent_heads=2, n_centred_heads=1, temperature=0.5, normalize_latents=True,
    ...     decoder="encoder_weights", shared_projections=True, mixer="hydra", d_state=4, expand=2, n_heads=None,
    ...     mlp_ratio=2.0,
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
        n_latents: int,
        n_latent_heads: int,
        n_centred_heads: int,
        temperature: float,
        normalize_latents: bool,
        decoder: str,
        shared_projections: bool,
        mixer: str,
        d_state: int,
        expand: int,
        n_heads: int | None,
        mlp_ratio: float,
        dropout: float = 0.0,
        **skeleton: Any,
    ) -> None:
        make_latents = partial(
            LatentTokens,
            width,
            n_latents,
            n_latent_heads,
            n_dims=n_dims,
            n_grid_axes=n_dims if structured else None,
            temperature=temperature,
            normalize=normalize_latents,
            decoder=decoder,
            n_centred_heads=n_centred_heads,
        )

        def make_blocks() -> Iterator[PointBlock]:
            """Yield the blocks; shared latent tokens are created before them and registered once, by the network."""
            own = [make_latents() for _ in range(1 if shared_projections else depth)]
            self.latents = nn.ModuleList(own)
            self.latents.keeps_init = shared_projections  # type: ignore[assignment]
            for number in range(depth):
                token_mixer = build_mixer(mixer, width, d_state=d_state, expand=expand, n_heads=n_heads)
                mlp = FeedForward(width, int(mlp_ratio * width), dropout)
                latents = own[0 if shared_projections else number]
                yield LatentBlock(token_mixer, mlp, latents, width, dropout, shared=True)

        super().__init__(make_blocks, n_dims=n_dims, width=width, structured=structured, **skeleton)
