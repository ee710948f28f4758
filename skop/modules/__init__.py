"""Building blocks of the networks."""

from skop.modules._blocks import FeedForward, PooledHead, PreNormBlock
from skop.modules._directions import CROSSINGS, DIRECTION_ORDERS, direction_paths, scan_directions
from skop.modules._geometric_scan import CORRECTION_PLACES, RECURRENCES, GeometricScanMixer, check_correction
from skop.modules._local import LocalHead, LocalStem
from skop.modules._patch import PatchEmbedding, PatchExpansion, token_grid
from skop.modules._position import CoordinatePosition, LearnedPosition
from skop.modules._scan_paths import SCANS, scan_paths
from skop.modules._sequence_ssd import BidirectionalSSDMixer, HydraMixer
from skop.modules._slices import LatentSlices, SliceBlock
from skop.modules._ssd import ACTIVATIONS, GridSSDMixer

__all__ = [
    "ACTIVATIONS",
    "CORRECTION_PLACES",
    "CROSSINGS",
    "DIRECTION_ORDERS",
    "RECURRENCES",
    "SCANS",
    "BidirectionalSSDMixer",
    "CoordinatePosition",
    "FeedForward",
    "GeometricScanMixer",
    "GridSSDMixer",
    "HydraMixer",
    "LatentSlices",
    "LearnedPosition",
    "LocalHead",
    "LocalStem",
    "PatchEmbedding",
    "PatchExpansion",
    "PooledHead",
    "PreNormBlock",
    "SliceBlock",
    "check_correction",
    "direction_paths",
    "scan_directions",
    "scan_paths",
    "token_grid",
]
