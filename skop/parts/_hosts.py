"""Networks around the mixers of MNO, as parts: their parameters."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Self

from skop._parameters import Choice, Part, Whole, param
from skop._sklearn_compat import Interval
from skop.modules import POINT_ORDERS

__all__ = ["GNOT", "GalerkinTransformer", "Host", "OFormer"]


class Host(Part):
    """Base class of the hosts, whose tokens are the points themselves."""

    point_order: str = param(
        Choice(*POINT_ORDERS),
        default="hilbert",
        text=(
            "Order in which points that form no grid are scanned: along Hilbert's or Morton's curve, so that it does "
            "not matter how they are listed, or as they are listed."
        ),
    )
    kernel_size: int = param(
        Whole(1, 1025),
        default=3,
        text=(
            "Size of the convolutions along each axis by which every block combines the neighbouring points of a grid, "
            "odd; 1 omits them (public code). Without them a scan along the rows knows little of the points across."
        ),
    )
    n_frequencies: int | str = param(
        Choice("auto"),
        Whole(0, 64),
        default="auto",
        text=(
            "Number of frequencies pi, 2 pi, 4 pi, ... whose sines and cosines of the coordinates are input channels "
            '(public code: 0). ``"auto"`` is 0 on regular grids, where neighbours are known by `kernel_size`, and 4 '
            "elsewhere."
        ),
    )

    def on(self, geometry: str) -> Self:
        """Return a copy for points of a geometry: ``"grid"``, ``"structured"`` or ``"points"``, without ``"auto"``."""
        automatic = 0 if geometry == "grid" else 4
        return replace(
            self,
            n_frequencies=automatic if self.n_frequencies == "auto" else self.n_frequencies,
            kernel_size=1 if geometry == "points" else self.kernel_size,
        )


class GalerkinTransformer(Host):
    """The points read one another, and convolutions over low frequencies of a grid give the outputs.

    See Also
    --------
    skop.networks.GalerkinNetwork : The network.
    """

    layer_norm: bool = param(
        "boolean", default=True, text="Whether each part of a block is preceded by a normalisation (public code: no)."
    )
    decoder: str = param(
        Choice("auto", "spectral", "pointwise"),
        default="auto",
        text=(
            "Map to the outputs: convolutions over low frequencies of a grid (public code), or layers for every point "
            'by itself. ``"auto"`` takes convolutions where the points form a grid; predictions at other points are '
            "then interpolated."
        ),
    )
    decoder_width: int = param(
        Whole(1, 65536), default=32, text="Channels of the convolutions or layers (public code: 32)."
    )
    decoder_depth: int = param(Whole(0, 256), default=2, text="Number of convolutions or layers (public code: 2).")
    n_modes: int = param(
        Whole(1, 1024),
        default=4,
        text="Frequencies of the convolutions along each axis (public code: 12).",
        acts_with={"decoder": ("auto", "spectral")},
    )

    def on(self, geometry: str) -> Self:
        """Return a copy for points of a geometry, see `Host.on`."""
        automatic = "pointwise" if geometry == "points" else "spectral"
        return replace(super().on(geometry), decoder=automatic if self.decoder == "auto" else self.decoder)


class GNOT(Host):
    """In every block the points read the input functions, and then one another.

    See Also
    --------
    skop.networks.GNOTNetwork : The network.
    """

    mlp_depth: int = param(
        Whole(0, 256),
        default=2,
        text="Residual layers of the encoders and the head, beside their first and last layer (public code: 4).",
    )
    n_experts: int = param(
        Whole(1, 256),
        default=1,
        text="Experts of each mixture, weighted by a gate that depends on the position (MNO: 1; GNOT: 2 to 4).",
    )
    branches: str = param(
        Choice("joint", "parts", "channels"),
        default="joint",
        text=(
            "Input functions: the fields together (public code); fields and global parameters apart; or each field and "
            "the parameters apart. Parameters are inputs of every point in any case."
        ),
    )


class OFormer(Host):
    """An encoder of the input, one layer in which query points read it, and a decoder for every point by itself.

    See Also
    --------
    skop.networks.OFormerNetwork : The network.
    """

    latent_width: int | None = param(
        Whole(1, 65536),
        None,
        default=None,
        text="Size of a token of the cross layer; None is the width (public code: 256 for Darcy, 64 in time).",
    )
    residual: str = param(
        Choice("raw", "normalized"),
        default="raw",
        text=(
            "What a part of a block is added to: the points before their normalisation, or after (public code, but for "
            "softmax attention)."
        ),
    )
    n_fourier: int = param(
        Whole(1, 16384),
        default=32,
        text="Fixed random frequencies of the query points (public code: 128 for Darcy, 64 in time).",
    )
    fourier_scale: float = param(
        Interval(Real, 0, None, closed="neither"),
        default=1.0,
        text=(
            "Standard deviation of the frequencies, in periods over the unit box (public code: 0.5 for Darcy, 8 in "
            "time)."
        ),
    )
    n_steps: int | None = param(
        Whole(1, 4096),
        None,
        default=None,
        text=(
            "Steps in time that are the output channels, all channels of the first step first, carried on from step to "
            "step by one small network; None decodes all channels at once (public code: None for Darcy, 91 in time)."
        ),
    )
    propagator_width: int | None = param(
        Whole(2, 65536),
        None,
        default=None,
        text=(
            "Size of the tokens that are carried on in time, with `n_steps`; None is that of the cross layer (public "
            "code: 128)."
        ),
    )
    propagator_depth: int = param(
        Whole(1, 256), default=1, text="Layers of the network that carries them on, with `n_steps` (public code: 1)."
    )
    input_dropout: float = param(
        Interval(Real, 0, 1, closed="left"),
        default=0.0,
        text="Dropout of the lifted points, in [0, 1) (public code: 0.05 for Darcy).",
    )
