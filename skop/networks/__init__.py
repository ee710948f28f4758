"""Networks of the operators: their common interface, and base classes for grids, points and sequences.

`__all__` lists the names for users of skop; the other names are for the other packages of skop.
"""

import skop._threads  # noqa: F401 - before anything that imports torch
from skop.networks._interface import OperatorNetwork, Outputs
from skop.networks._patch_network import PatchNetwork
from skop.networks._patch_network import shift_patches as shift_patches
from skop.networks._point_network import PointNetwork
from skop.networks._sequence_network import SequenceNetwork
from skop.networks.amo import AMOPatchNetwork as AMOPatchNetwork
from skop.networks.amo import AMOPointNetwork as AMOPointNetwork
from skop.networks.deeponet import DeepONetNetwork as DeepONetNetwork
from skop.networks.fno import FNONetwork as FNONetwork
from skop.networks.geomano import GeoMaNONetwork as GeoMaNONetwork
from skop.networks.lamo import LaMOPatchNetwork as LaMOPatchNetwork
from skop.networks.lamo import LaMOPointNetwork as LaMOPointNetwork
from skop.networks.mno_galerkin import GalerkinNetwork as GalerkinNetwork
from skop.networks.mno_gnot import GNOTNetwork as GNOTNetwork
from skop.networks.mno_oformer import OFormerNetwork as OFormerNetwork
from skop.networks.transolver import TransolverNetwork as TransolverNetwork
from skop.networks.unet import UNetNetwork as UNetNetwork

__all__ = [
    "OperatorNetwork",
    "Outputs",
    "PatchNetwork",
    "PointNetwork",
    "SequenceNetwork",
]
