"""Building blocks of the networks: token mixers, residual blocks, patch embeddings, positional encodings and heads."""

import skop._openmp  # noqa: F401 - before anything that imports torch
from skop.modules._attention import (
    AttentionMixer,
    FourierAttention,
    GalerkinAttention,
    NormalizedLinearAttention,
    SoftmaxAttention,
)
from skop.modules._blocks import (
    FeedForward,
    PointBlock,
    PooledHead,
    PreNormBlock,
    ResidualDropout,
    set_drop_path,
)
from skop.modules._conv import ConvHead, ConvStem, LocalConvolution
from skop.modules._feature_maps import note_features, observe_features
from skop.modules._geometric_scan import CORRECTION_PLACES, RECURRENCES, GeometricScanMixer, check_correction
from skop.modules._grid_ssd import ACTIVATIONS, GridSSDMixer
from skop.modules._latent_attention import LatentAttentionBlock
from skop.modules._latent_tokens import LatentBlock, LatentTokens
from skop.modules._mixer import MIXERS, Probe, Stream, TokenMixer, build_mixer
from skop.modules._neighbours import Neighbours, find_neighbours
from skop.modules._patch import PatchEmbedding, PatchUnembedding, token_grid
from skop.modules._point_order import POINT_ORDERS, point_codes, sort_points
from skop.modules._positional_encoding import CoordinatePositionalEncoding, LearnedPositionalEncoding
from skop.modules._s6 import S6Mixer
from skop.modules._scan_directions import (
    DIRECTION_ORDERS,
    LINE_DIRECTIONS,
    SCAN_DIRECTIONS,
    direction_paths,
    direction_set,
)
from skop.modules._sequence_ssd import BidirectionalSSDMixer, HydraMixer
from skop.modules._spectral import SpectralConvolution
from skop.modules._takenaka_malmquist import TRANSFORMS, Poles, PrintedExpansions, TakenakaMalmquistMixer

__all__ = [
    "ACTIVATIONS",
    "CORRECTION_PLACES",
    "DIRECTION_ORDERS",
    "LINE_DIRECTIONS",
    "MIXERS",
    "POINT_ORDERS",
    "RECURRENCES",
    "SCAN_DIRECTIONS",
    "TRANSFORMS",
    "AttentionMixer",
    "BidirectionalSSDMixer",
    "ConvHead",
    "ConvStem",
    "CoordinatePositionalEncoding",
    "FeedForward",
    "FourierAttention",
    "GalerkinAttention",
    "GeometricScanMixer",
    "GridSSDMixer",
    "HydraMixer",
    "LatentAttentionBlock",
    "LatentBlock",
    "LatentTokens",
    "LearnedPositionalEncoding",
    "LocalConvolution",
    "Neighbours",
    "NormalizedLinearAttention",
    "PatchEmbedding",
    "PatchUnembedding",
    "PointBlock",
    "Poles",
    "PooledHead",
    "PreNormBlock",
    "PrintedExpansions",
    "Probe",
    "ResidualDropout",
    "S6Mixer",
    "SoftmaxAttention",
    "SpectralConvolution",
    "Stream",
    "TakenakaMalmquistMixer",
    "TokenMixer",
    "build_mixer",
    "check_correction",
    "direction_paths",
    "direction_set",
    "find_neighbours",
    "note_features",
    "observe_features",
    "point_codes",
    "set_drop_path",
    "sort_points",
    "token_grid",
]
