"""Exceptions and warnings of skop.

Every error about invalid arguments is a `ValueError`, as in scikit-learn. The subclasses allow a caller to distinguish
them.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

__all__ = [
    "DistributedError",
    "ExtrapolationWarning",
    "FieldDataError",
    "KernelWarning",
    "ModelFileError",
    "NonFinitePredictionError",
    "NoveltyWarning",
    "OptionalDependencyError",
    "ResamplingWarning",
    "ResolutionWarning",
    "SkopError",
    "SkopWarning",
    "TrainingDivergedError",
]

#: Packages whose stack frames are skipped in the search for the user's line that a warning refers to.
_PASSED_OVER = {"contextlib", "joblib", "sklearn", "skop", "torch"}
#: Warnings of the call that is running, where each is issued once.
_issued: ContextVar[set[tuple[str, type[Warning]]] | None] = ContextVar("issued", default=None)
#: List to which warnings are added in place of being issued.
_held: ContextVar[list[tuple[str, type[Warning]]] | None] = ContextVar("held", default=None)
#: The present list of filters; and the warnings that were shown under it, with the registry of their module, by its id.
_shown: tuple[Any, dict[int, tuple[Any, set[tuple[Any, ...]]]]] = (None, {})
#: Module of scikit-learn that calls the fits of a search or cross-validation.
_TASKS = "sklearn.utils.parallel"
#: What tells apart the warnings that a filter with this action shows, of text, class, file and line.
_PARTS = {"default": 4, "module": 3, "once": 2}


class SkopError(Exception):
    """Base class of every exception that skop raises on purpose."""


class FieldDataError(SkopError, ValueError):
    """Samples, coordinates or targets have an invalid shape, type or value."""


class NonFinitePredictionError(FieldDataError):
    """A prediction is NaN or infinite."""


class ModelFileError(SkopError, ValueError):
    """A model file is damaged, has another format, or contains an unknown class."""


class DistributedError(SkopError, RuntimeError):
    """Processes that train together cannot go on: one of them has failed or ended, or they have other data."""


class OptionalDependencyError(SkopError, ImportError):
    """A feature needs a package that is not installed; the message names that package."""


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


class NoveltyWarning(ExtrapolationWarning):
    """Samples lie far from the training samples, by the score of `novelty`."""


def warn(message: str, category: type[Warning] = SkopWarning) -> None:
    """Issue a warning that refers to the user's line of code.

    The stack frames of skop, and those of scikit-learn, joblib and torch between them, are skipped, so that the warning
    shows the line of the script that called `fit`, `cross_val_score` or `read_meshes`.

    A line that is run again, as in a loop, shows the same warning as often as the user's filters say, which is once by
    default. Python itself forgets what it has shown whenever a filter is changed for a moment, as scikit-learn does in
    every check of an array.

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
    held = _held.get()
    if held is not None:
        held.append((message, category))
        return
    frame, level, is_task = sys._getframe(1), 2, False
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _PASSED_OVER:
        is_task |= frame.f_globals.get("__name__") == _TASKS
        frame, level = frame.f_back, level + 1
    if not _was_shown(message, category, frame, is_task):
        warnings.warn(message, category, stacklevel=level)


def _was_shown(message: str, category: type[Warning], frame: FrameType, is_task: bool) -> bool:
    """Whether a filter that shows a warning once has shown this one, of a frame; it counts as shown from now on."""
    global _shown
    module = str(frame.f_globals.get("__name__"))
    action = next(
        (
            action
            for action, text, kind, place, line in warnings.filters
            if (text is None or text.match(message))
            and issubclass(category, kind)
            and (place is None or place.match(module))
            and line in (0, frame.f_lineno)
        ),
        getattr(warnings, "defaultaction", "default"),
    )
    if action not in _PARTS:
        return False
    # Within `warnings.catch_warnings` there is another list, and in another cell of a notebook another registry. Python
    # empties the registry itself when a filter changes. Each task of scikit-learn has a list like the caller's.
    if not is_task and _shown[0] is not warnings.filters:
        # What only tasks have shown so far, they showed under the filters of their caller.
        _shown = (warnings.filters, _shown[1] if _shown[0] is None else {})
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    _, known = _shown[1].setdefault(id(registry), (registry, set()))
    key = (message, category, frame.f_code.co_filename, frame.f_lineno)[: _PARTS[action]]
    if key in known:
        return True
    known.add(key)
    return False


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


@contextmanager
def held_warnings() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Keep the warnings of skop within the block in a list, in place of issuing them.

    A worker process has no line of the user's script to refer to; its caller issues them by `warn`. Python's own
    `warnings.catch_warnings` changes the filters of all threads.

    Yields
    ------
    list of (str, type of Warning)
        Text and class of each warning, as they come.

    Examples
    --------
    >>> from skop.exceptions import held_warnings, warn
    >>> with held_warnings() as held:
    ...     warn("the grid is coarse.")
    >>> held
    [('the grid is coarse.', <class 'skop.exceptions.SkopWarning'>)]
    """
    held: list[tuple[str, type[Warning]]] = []
    token = _held.set(held)
    try:
        yield held
    finally:
        _held.reset(token)
