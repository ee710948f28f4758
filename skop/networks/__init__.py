"""Networks of the operators, one paper a file."""

from skop.networks.geomano import GeoMaNONetwork
from skop.networks.lamo import LaMOPatchNetwork
from skop.networks.lamo_slices import LaMOSliceNetwork

__all__ = ["GeoMaNONetwork", "LaMOPatchNetwork", "LaMOSliceNetwork"]
