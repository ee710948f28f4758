"""Exceptions and warnings of skop.

Every error about what a caller passed is a `ValueError`, so code that already guards
scikit-learn calls guards these too; the subclasses let a caller tell the kinds apart.
"""

__all__ = [
    "FieldDataError",
    "KernelWarning",
    "ModelFileError",
    "OptionalDependencyError",
    "ResamplingWarning",
    "ResolutionWarning",
    "SkopError",
    "SkopWarning",
    "TrainingDivergedError",
]


class SkopError(Exception):
    """Base class of every exception that skop raises on purpose."""


class FieldDataError(SkopError, ValueError):
    """Samples, coordinates or targets have a shape, kind or value that cannot be used."""


class ModelFileError(SkopError, ValueError):
    """A saved model is damaged, of another format, or names something unknown."""


class OptionalDependencyError(SkopError, ImportError):
    """A feature needs a package that is not installed; the message names the extra."""


class TrainingDivergedError(SkopError, ArithmeticError):
    """The loss stayed non-finite after the rate had been lowered and the weights rolled back."""


class SkopWarning(UserWarning):
    """Base class of the warnings that skop issues."""


class KernelWarning(SkopWarning):
    """A fused kernel cannot be used, and a slower implementation runs in its place."""


class ResamplingWarning(SkopWarning):
    """Fields lose much on their way from points to a grid and back, or points lie outside its box."""


class ResolutionWarning(SkopWarning):
    """A prediction is asked for on a grid far from those seen in training."""
