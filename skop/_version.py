"""The version of skop; in a file of its own so that every part of the package can ask for it."""

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
