"""What networks make tokens of, as parts of operators: patches of grids, and latent tokens of points."""

from __future__ import annotations

from numbers import Real
from typing import Any

from torch import nn

from skop._parameters import Choice, Part, Whole, param
from skop._sklearn_compat import Interval
from skop._typing import GridShape
from skop.modules import LatentAttentionBlock, LatentPooling, automatic_patch_size, token_grid

__all__ = ["LatentAttention", "LatentTokens", "Patches", "PointTokens"]

#: Channels of the convolutions around patches that ``"auto"`` takes where there are few outputs.
_CONV_CHANNELS = 16


class Patches(Part):
    """Patches of a regular grid, which become tokens, and the layers between points and patches.

    Examples
    --------
    >>> from skop import LaMORegressor
    >>> from skop.parts import Patches
    >>> LaMORegressor(patches=Patches(size=4)).get_params()["patches__conv_channels"]
    'auto'
    """

    size: int | str = param(
        Choice("auto"),
        Whole(1, 16384),
        default="auto",
        text=(
            "Number of points of a patch along each axis (LaMO: 2; GeoMaNO: not stated). The number of tokens, and "
            'with it the cost, is inversely proportional to the number of points of a patch. ``"auto"`` is the '
            "smallest size of at least 2 that gives at most 64 tokens, so that a CPU can train in minutes. Smaller "
            "patches resolve more detail."
        ),
    )
    conv_channels: int | str = param(
        Choice("auto"),
        Whole(0, 16384),
        default="auto",
        text=(
            "Number of channels of two convolutions over neighbouring points: one before the patch embedding, and one "
            "after the unembedding, which also reads the input grid. They combine points across the edges of patches, "
            "and pass local detail of the input around the blocks; 0 omits both (papers). All outputs of a point pass "
            'through the second one, so that ``"auto"`` gives it as many channels as there are outputs, at least 16 '
            "and at most the width; the first one has 16."
        ),
    )
    positional_encoding: str | None = param(
        Choice("auto", "learned", "coordinates"),
        None,
        default="auto",
        text=(
            "Positional encoding of the tokens: a learned table, with which the model can be used on its training grid "
            "only (public code of LaMO; its paper mentions none); a function of the coordinates, at any resolution; or "
            'none, except for the coordinates among the input channels. ``"auto"`` is ``"coordinates"``, and none for '
            "GeoMaNO (its paper: none for Darcy, an encoding for Navier-Stokes)."
        ),
    )
    n_frequencies: int = param(
        Whole(0, 64),
        default=1,
        text=(
            "Number of frequencies pi, 2 pi, 4 pi, ... of the sines and cosines of the coordinates in the encoding "
            '``"coordinates"``.'
        ),
        acts_with={"positional_encoding": ("coordinates", "auto")},
    )
    lifting_width: int = param(
        Whole(0, 65536),
        default=0,
        text=(
            "Number of channels to which a feed-forward network lifts every point before the patch embedding "
            "(GeoMaNO's paper: the width); 0 omits it."
        ),
    )
    coordinate_channels: bool = param(
        "boolean", default=True, text="Whether coordinates are input channels beside fields and global parameters."
    )
    pad_to_multiple: int = param(
        Whole(1, 1024),
        default=1,
        text=(
            "Divisor of the number of points along each axis after padding, in addition to the size of a patch (public "
            "code of LaMO: 85 points are padded to 88)."
        ),
    )
    init: str = param(
        Choice("default", "normal"),
        default="default",
        text=(
            "Initial weights of patch embedding and unembedding: PyTorch's default, or N(0, 1) (public code of LaMO)."
        ),
    )

    def shape(self, grid_shape: GridShape) -> GridShape:
        """Return the number of points of a patch along each axis; along short axes patches are smaller."""
        size = automatic_patch_size(self.size, grid_shape)
        return tuple(min(size, points) for points in grid_shape)

    def token_grid(self, grid_shape: GridShape) -> GridShape:
        """Return the number of patches along each axis of a grid."""
        return token_grid(grid_shape, self.shape(grid_shape), int(self.pad_to_multiple))

    def convolutions(self, n_outputs: int, width: int) -> tuple[int, int]:
        """Return the number of channels of the convolution before the patches, and of the one after them."""
        if self.conv_channels == "auto":
            return _CONV_CHANNELS, max(_CONV_CHANNELS, min(n_outputs, width))
        return int(self.conv_channels), int(self.conv_channels)


class PointTokens(Part):
    """Base class of the latent tokens of points, by which a network summarises a sample."""

    n_tokens: int = param(Whole(1, 65536), default=32, text="Number of latent tokens of a sample (papers: 64).")
    n_heads: int = param(
        Whole(1, 1024),
        default=4,
        text=(
            "Number of heads of the map from points to latent tokens, a divisor of the width (public code of LaMO: 8; "
            "AMO: not stated)."
        ),
    )
    n_centred_heads: int = param(
        Whole(0, 1024),
        default=2,
        text=(
            "Number of these heads whose latent tokens also have centres in space (papers: none). Without centres, "
            "all latent tokens are initially nearly the same mean of all points, and training starts slowly for "
            'operators in which every output depends on every input. Needs ``scaling__coords="box"``.'
        ),
    )
    decoder: str = param(
        Choice("encoder_weights", "own_softmax"),
        default="encoder_weights",
        text=(
            "Weights by which points read the latent tokens: those by which these read the points (public code of "
            "LaMO), or those of a second softmax (LaMO, Eq. 14 and 15; AMO)."
        ),
    )
    n_frequencies: int = param(
        Whole(0, 64),
        default=4,
        text=(
            "Number of frequencies pi, 2 pi, 4 pi, ... whose sines and cosines of the coordinates are input channels "
            "of the points (public code of LaMO: 0)."
        ),
    )
    position_network: bool = param(
        "boolean",
        default=False,
        text=(
            "Whether the coordinates pass through a network of their own, to which a linear map of the other inputs is "
            "added (AMO, Eq. 3); otherwise all inputs of a point pass through one network."
        ),
    )
    parameter_embedding: str = param(
        Choice("channels", "sinusoidal"),
        default="channels",
        text=(
            "Embedding of global parameters: as further input channels, or as sines and cosines that pass through a "
            "small network and are added to the features of every point (public code of LaMO, for the time of "
            "plasticity)."
        ),
    )
    weight_init: str = param(
        Choice("default", "trunc_normal"),
        default="default",
        text=(
            "Initial weights: PyTorch's default, or a truncated normal distribution of standard deviation 0.02 (public "
            "code of LaMO)."
        ),
    )

    def inputs(self) -> dict[str, Any]:
        """Return the keyword arguments of `skop.networks.PointNetwork` that say what the points bring along."""
        names = ("n_frequencies", "position_network", "parameter_embedding", "weight_init")
        values = self.values()
        return {name: values[name] for name in names}


class LatentTokens(PointTokens):
    """Latent tokens that exchange information with the points in every block, by weighted pooling (LaMO).

    See Also
    --------
    skop.modules.LatentPooling : The module.

    Examples
    --------
    >>> from skop import LaMORegressor
    >>> from skop.parts import LatentTokens, Mamba2
    >>> LaMORegressor(latents=LatentTokens(n_tokens=64), mixer=Mamba2(d_state=8)).get_params()["latents__n_tokens"]
    64
    """

    temperature: float = param(
        Interval(Real, 0, None, closed="neither"),
        default=0.5,
        text=(
            "Initial temperature of the softmax over latent tokens, which is learned for each head (public code of "
            "LaMO: 0.5)."
        ),
    )
    normalize: bool = param(
        "boolean",
        default=True,
        text=(
            "Whether each latent token is divided by the sum of its weights, as in the public code of LaMO but not in "
            "its Eq. 10."
        ),
    )
    shared: bool = param(
        "boolean",
        default=True,
        text=(
            "Whether all blocks use the same weights for mapping points to latent tokens (LaMO, Table 7: elasticity, "
            "airfoil)."
        ),
    )

    def build(self, width: int, n_dims: int, structured: bool) -> LatentPooling:
        """Return the module, with fresh weights, for tokens of a size and points of a number of dimensions."""
        return LatentPooling(
            width,
            int(self.n_tokens),
            int(self.n_heads),
            n_grid_axes=n_dims if structured else None,
            temperature=self.temperature,
            normalize=self.normalize,
            decoder=self.decoder,
            n_centred_heads=int(self.n_centred_heads),
            n_dims=n_dims,
        )


class LatentAttention(PointTokens):
    """Latent tokens that read the points once, before all blocks, and are read once, after them, by attention (AMO).

    The points cost two attentions, however many blocks there are: with up to three blocks, `LatentTokens` are as cheap.
    """

    aggregation: str = param(
        Choice("last", "sum"),
        default="last",
        text=(
            "What the points read: the latent tokens after the last block, or the sum of those before the first and "
            "after each block."
        ),
    )

    def build(self, transform: nn.Module, width: int, n_dims: int, hidden: int, dropout: float) -> LatentAttentionBlock:
        """Return the block around a map of latent tokens, with fresh weights, for points of a number of dimensions."""
        return LatentAttentionBlock(
            transform,
            width,
            int(self.n_tokens),
            int(self.n_heads),
            hidden,
            dropout,
            decoder=self.decoder,
            n_centred_heads=int(self.n_centred_heads),
            n_dims=n_dims,
        )
