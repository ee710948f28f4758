"""Networks: one paper a file."""

from skop.networks.lamo import LaMOPatchNetwork
from skop.networks.lamo_slices import LaMOSliceNetwork

__all__ = ["LaMOPatchNetwork", "LaMOSliceNetwork"]
