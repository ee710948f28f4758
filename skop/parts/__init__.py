"""Parts of the operators, which are parameters themselves: what tokens are made of, mixers, and hosts of MNO.

A part is an object with parameters of its own, as in ``LaMORegressor(mixer=Hydra(d_state=32))``. Searches reach them by
names such as ``mixer__d_state``.
"""

import skop._threads  # noqa: F401 - before anything that imports torch
from skop._parameters import Choice, Part, Whole, param
from skop.parts._hosts import GNOT, GalerkinTransformer, Host, OFormer
from skop.parts._mixers import (
    Attention,
    GeometricScan,
    GridSSD,
    Hydra,
    LiteralExpansions,
    Mamba,
    Mamba2,
    Mixer,
    RotaryAttention,
    TakenakaMalmquist,
)
from skop.parts._tokens import LatentAttention, LatentTokens, Patches
from skop.parts._tokens import PointTokens as PointTokens

__all__ = [
    "GNOT",
    "Attention",
    "Choice",
    "GalerkinTransformer",
    "GeometricScan",
    "GridSSD",
    "Host",
    "Hydra",
    "LatentAttention",
    "LatentTokens",
    "LiteralExpansions",
    "Mamba",
    "Mamba2",
    "Mixer",
    "OFormer",
    "Part",
    "Patches",
    "RotaryAttention",
    "TakenakaMalmquist",
    "Whole",
    "param",
]
