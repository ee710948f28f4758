"""Exceptions and warnings of skop.

Every error about what a caller passed is a `ValueError`, so code that already guards
scikit-learn calls guards these too; the subclasses let a caller tell the kinds apart.
"""

import sys
import warnings

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
    "warn",
]

#: Packages whose frames are passed over in the search for the line that a warning is about.
_PASSED_OVER = {"contextlib", "joblib", "sklearn", "skop", "torch"}


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


def warn(message: str, category: type[Warning] = SkopWarning) -> None:
    """Issue a warning that points at the caller's own line.

    Frames of skop, and of scikit-learn, joblib and torch between them, are passed over, so that the warning
    names the line of the script that called `fit`, `cross_val_score` or `read_meshes`.

    Parameters
    ----------
    message : str
        Text of the warning.
    category : type of Warning, default=SkopWarning
        Class of the warning.

    Examples
    --------
    >>> import warnings
    >>> from skop.exceptions import warn
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("the grid is coarse.")
    >>> str(caught[0].message)
    'the grid is coarse.'
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
