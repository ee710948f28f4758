"""The version of skop, in a separate file so that every module can import it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
