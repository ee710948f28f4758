"""Building blocks of the networks: token mixers, residual blocks, patch embeddings, positional encodings and heads.

`__all__` lists the names for users of skop; the other names are for the other packages of skop.
"""

import skop._threads  # noqa: F401 - before anything that imports torch
from skop.modules._attention import FourierAttention as FourierAttention
from skop.modules._attention import GalerkinAttention as GalerkinAttention
from skop.modules._attention import NormalizedLinearAttention as NormalizedLinearAttention
from skop.modules._attention import SoftmaxAttention as SoftmaxAttention
from skop.modules._blocks import FeedForward, PointBlock, ResidualDropout
from skop.modules._blocks import PooledHead as PooledHead
from skop.modules._blocks import PreNormBlock as PreNormBlock
from skop.modules._blocks import set_drop_path as set_drop_path
from skop.modules._conv import ConvHead as ConvHead
from skop.modules._conv import ConvStem as ConvStem
from skop.modules._conv import LocalConvolution as LocalConvolution
from skop.modules._feature_maps import note_features, note_mixing
from skop.modules._feature_maps import observe_features as observe_features
from skop.modules._geometric_scan import CORRECTION_PLACES as CORRECTION_PLACES
from skop.modules._geometric_scan import RECURRENCES as RECURRENCES
from skop.modules._geometric_scan import GeometricScanMixer as GeometricScanMixer
from skop.modules._grid_convolution import GridConvolution as GridConvolution
from skop.modules._grid_convolution import grid_convolution as grid_convolution
from skop.modules._grid_convolution import set_periodic as set_periodic
from skop.modules._grid_ssd import ACTIVATIONS as ACTIVATIONS
from skop.modules._grid_ssd import GridSSDMixer as GridSSDMixer
from skop.modules._latent_attention import LatentAttentionBlock as LatentAttentionBlock
from skop.modules._latent_tokens import LatentBlock
from skop.modules._latent_tokens import LatentPooling as LatentPooling
from skop.modules._mixer import Probe as Probe
from skop.modules._mixer import Stream, TokenMixer
from skop.modules._neighbours import Neighbours as Neighbours
from skop.modules._neighbours import find_neighbours as find_neighbours
from skop.modules._patch import PatchEmbedding as PatchEmbedding
from skop.modules._patch import PatchUnembedding as PatchUnembedding
from skop.modules._patch import automatic_patch_size as automatic_patch_size
from skop.modules._patch import token_grid as token_grid
from skop.modules._point_order import POINT_ORDERS as POINT_ORDERS
from skop.modules._point_order import sort_points as sort_points
from skop.modules._positional_encoding import CoordinatePositionalEncoding as CoordinatePositionalEncoding
from skop.modules._positional_encoding import LearnedPositionalEncoding as LearnedPositionalEncoding
from skop.modules._s6 import S6Mixer as S6Mixer
from skop.modules._scan_directions import DIRECTION_ORDERS as DIRECTION_ORDERS
from skop.modules._scan_directions import LINE_DIRECTIONS as LINE_DIRECTIONS
from skop.modules._scan_directions import SCAN_DIRECTIONS as SCAN_DIRECTIONS
from skop.modules._scan_directions import direction_paths as direction_paths
from skop.modules._scan_directions import direction_set
from skop.modules._sequence_ssd import BidirectionalSSDMixer as BidirectionalSSDMixer
from skop.modules._sequence_ssd import HydraMixer as HydraMixer
from skop.modules._spectral import SpectralConvolution as SpectralConvolution
from skop.modules._takenaka_malmquist import TRANSFORMS as TRANSFORMS
from skop.modules._takenaka_malmquist import PrintedExpansions as PrintedExpansions
from skop.modules._takenaka_malmquist import TakenakaMalmquistMixer as TakenakaMalmquistMixer

__all__ = [
    "FeedForward",
    "LatentBlock",
    "PointBlock",
    "ResidualDropout",
    "Stream",
    "TokenMixer",
    "direction_set",
    "note_features",
    "note_mixing",
]
