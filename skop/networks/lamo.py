"""LaMO, the latent Mamba operator, on regular grids, and on points and structured meshes.

Tiwari, Dutta, Krishnan and Prathosh, "Latent Mamba Operator for Partial Differential Equations", ICML
2025, section 3. On a regular grid, patches of 2 x 2 points become tokens (Remark 3.1), residual blocks mix the
tokens by scans in several directions (Eq. 11 to 13), and every token is expanded back to the points of its patch.
On other points, every block pools the points into latent tokens with learned weights (Eq. 9 and 10), a bidirectional
state-space model mixes the latent tokens, and every point receives a weighted combination of them (Eq. 14 and 15).
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import nn

from skop.modules import FeedForward, LatentBlock, PointBlock
from skop.networks._patch_network import PatchNetwork
from skop.networks._point_network import PointNetwork
from skop.parts import LatentTokens, Mixer

__all__ = ["LaMOPatchNetwork", "LaMOPointNetwork"]


class LaMOPatchNetwork(PatchNetwork):
    """LaMO's patch model for regular grids in 1, 2 or 3 dimensions.

    Parameters
    ----------
    n_dims : int
        Number of space dimensions.
    width : int
        Size of a token.
    scan : Mixer
        Mixer of the tokens, such as `skop.parts.GridSSD`.
    **skeleton
        Keyword arguments of `skop.networks.PatchNetwork`.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import LaMOPatchNetwork
    >>> from skop.parts import GridSSD, Patches
    >>> network = LaMOPatchNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, grid_shape=(8, 8), width=16, depth=1,
    ...     mlp_ratio=2.0, patches=Patches(size=2), scan=GridSSD(d_state=4),
    ... )
    >>> network(torch.zeros(64, 2), torch.zeros(3, 64, 1), None, (8, 8)).field.shape
    torch.Size([3, 64, 1])
    """

    def __init__(self, *, n_dims: int, width: int, scan: Mixer, **skeleton: Any) -> None:
        super().__init__(partial(scan.build, width, n_dims), n_dims=n_dims, width=width, **skeleton)


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
    latents : LatentTokens
        Latent tokens, and the inputs of the points. As in the public code, ``weight_init="trunc_normal"`` does not
        change projections that all blocks share. The paper has no centres.
    mixer : Mixer
        Mixer of the latent tokens: `skop.parts.Hydra` (public code for elasticity and airfoil) or `skop.parts.Mamba2`
        (plasticity and pipe).
    mlp_ratio : float
        Number of hidden units of the feed-forward networks, as a multiple of `width`.
    dropout : float, default=0.0
        Dropout probability in the blocks.
    **skeleton
        Keyword arguments of `skop.networks.PointNetwork`.

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
    >>> from skop.parts import Hydra, LatentTokens
    >>> network = LaMOPointNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, width=16, depth=1, structured=False,
    ...     mlp_ratio=2.0, latents=LatentTokens(n_tokens=4), mixer=Hydra(d_state=4),
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
        latents: LatentTokens,
        mixer: Mixer,
        mlp_ratio: float,
        dropout: float = 0.0,
        **skeleton: Any,
    ) -> None:
        make_latents = partial(latents.build, width, n_dims, structured)

        def make_blocks() -> Iterator[PointBlock]:
            """Yield the blocks; shared latent tokens are created before them and registered once, by the network."""
            own = [make_latents() for _ in range(1 if latents.shared else depth)]
            self.latents = nn.ModuleList(own)
            self.latents.keeps_init = latents.shared  # type: ignore[assignment]
            for number in range(depth):
                token_mixer = mixer.build(width)
                mlp = FeedForward(width, int(mlp_ratio * width), dropout)
                yield LatentBlock(token_mixer, mlp, own[0 if latents.shared else number], width, dropout, shared=True)

        super().__init__(make_blocks, n_dims=n_dims, width=width, structured=structured, **latents.inputs(), **skeleton)
