"""Building blocks of the networks."""

from skop.modules._blocks import FeedForward, PointBlock, PooledHead, PreNormBlock
from skop.modules._conv import ConvHead, ConvStem
from skop.modules._geometric_scan import CORRECTION_PLACES, RECURRENCES, GeometricScanMixer, check_correction
from skop.modules._grid_ssd import ACTIVATIONS, GridSSDMixer
from skop.modules._latent_tokens import LatentBlock, LatentTokens
from skop.modules._mixer import MIXERS, TokenMixer
from skop.modules._patch import PatchEmbedding, PatchUnembedding, token_grid
from skop.modules._positional_encoding import CoordinatePositionalEncoding, LearnedPositionalEncoding
from skop.modules._scan_directions import DIRECTION_ORDERS, SCAN_DIRECTIONS, direction_paths, direction_set
from skop.modules._sequence_ssd import BidirectionalSSDMixer, HydraMixer

__all__ = [
    "ACTIVATIONS",
    "CORRECTION_PLACES",
    "DIRECTION_ORDERS",
    "MIXERS",
    "RECURRENCES",
    "SCAN_DIRECTIONS",
    "BidirectionalSSDMixer",
    "ConvHead",
    "ConvStem",
    "CoordinatePositionalEncoding",
    "FeedForward",
    "GeometricScanMixer",
    "GridSSDMixer",
    "HydraMixer",
    "LatentBlock",
    "LatentTokens",
    "LearnedPositionalEncoding",
    "PatchEmbedding",
    "PatchUnembedding",
    "PointBlock",
    "PooledHead",
    "PreNormBlock",
    "TokenMixer",
    "check_correction",
    "direction_paths",
    "direction_set",
    "token_grid",
]
