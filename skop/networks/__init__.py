"""Networks of the operators, one paper a file, behind one contract and two skeletons."""

from skop.networks._interface import OperatorNetwork, Outputs
from skop.networks._patch_network import PatchNetwork
from skop.networks._point_network import PointNetwork
from skop.networks.geomano import GeoMaNONetwork
from skop.networks.lamo import LaMOPatchNetwork, LaMOPointNetwork

__all__ = [
    "GeoMaNONetwork",
    "LaMOPatchNetwork",
    "LaMOPointNetwork",
    "OperatorNetwork",
    "Outputs",
    "PatchNetwork",
    "PointNetwork",
]
