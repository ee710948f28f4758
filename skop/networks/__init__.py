"""The networks, one paper a file."""

from skop.networks.lamo import LaMOPatchNetwork

__all__ = ["LaMOPatchNetwork"]
