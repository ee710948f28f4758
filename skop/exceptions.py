"""Exceptions and warnings of skop.

Every error about invalid arguments is a `ValueError`, as in scikit-learn. The subclasses allow a caller to distinguish
them.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = [
    "ExtrapolationWarning",
    "FieldDataError",
    "KernelWarning",
    "ModelFileError",
    "NonFinitePredictionError",
    "OptionalDependencyError",
    "ResamplingWarning",
    "ResolutionWarning",
    "SkopError",
    "SkopWarning",
    "TrainingDivergedError",
    "each_warning_once",
    "warn",
]

#: Packages whose stack frames are skipped in the search for the user's line that a warning refers to.
_PASSED_OVER = {"contextlib", "joblib", "sklearn", "skop", "torch"}
#: Warnings of the call that is running, where each is issued once.
_issued: ContextVar[set[tuple[str, type[Warning]]] | None] = ContextVar("issued", default=None)


class SkopError(Exception):
    """Base class of every exception that skop raises on purpose."""


class FieldDataError(SkopError, ValueError):
    """Samples, coordinates or targets have an invalid shape, type or value."""


class NonFinitePredictionError(FieldDataError):
    """A prediction is NaN or infinite."""


class ModelFileError(SkopError, ValueError):
    """A model file is damaged, has another format, or contains an unknown class."""


class OptionalDependencyError(SkopError, ImportError):
    """A feature needs a package that is not installed; the message names the extra."""


class TrainingDivergedError(SkopError, ArithmeticError):
    """The loss is not finite, even after returning to earlier weights with a lower learning rate."""


class SkopWarning(UserWarning):
    """Base class of the warnings that skop issues."""


class KernelWarning(SkopWarning):
    """A fused kernel cannot be used, and a slower implementation is used instead."""


class ResamplingWarning(SkopWarning):
    """Resampling from points to a grid and back has a large error, or points lie outside the box of the grid."""


class ResolutionWarning(SkopWarning):
    """A prediction is on another grid than the training, or outside the box of the training points."""


class ExtrapolationWarning(SkopWarning):
    """A prediction is for parameters, fields, points or times outside of those of the fit."""


def warn(message: str, category: type[Warning] = SkopWarning) -> None:
    """Issue a warning that refers to the user's line of code.

    The stack frames of skop, and those of scikit-learn, joblib and torch between them, are skipped, so that the warning
    shows the line of the script that called `fit`, `cross_val_score` or `read_meshes`.

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
    issued = _issued.get()
    if issued is not None:
        if (message, category) in issued:
            return
        issued.add((message, category))
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Issue each warning of skop once within the block, whatever the user's filters show.

    A prediction of many steps, or by many members, would say the same of its data in each of them.

    Yields
    ------
    None
        The block runs; a block within it is part of it.

    Examples
    --------
    >>> import warnings
    >>> from skop.exceptions import each_warning_once, warn
    >>> with warnings.catch_warnings(record=True) as caught, each_warning_once():
    ...     warnings.simplefilter("always")
    ...     warn("the grid is coarse.")
    ...     warn("the grid is coarse.")
    >>> len(caught)
    1
    """
    token = _issued.set(set()) if _issued.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _issued.reset(token)
