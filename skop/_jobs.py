"""Number of workers of joblib."""

from __future__ import annotations

from numbers import Integral
from typing import Any

__all__ = ["workers_for"]

#: Largest number of workers that may be asked for, or left out of all processors.
_MOST = 4096


def workers_for(n_jobs: Any, n_tasks: int) -> int | None:
    """Check a number of workers, and return how many to ask joblib for: it starts all of them, with or without a task.

    Parameters
    ----------
    n_jobs : int or None
        Number of workers; -1 for all processors, -2 for all but one, ...
    n_tasks : int
        Number of tasks.

    Returns
    -------
    int or None
        Number of workers, at most one for each task; negative numbers and None as they are.

    Raises
    ------
    ValueError
        If `n_jobs` is no such number.

    Examples
    --------
    >>> from skop._jobs import workers_for
    >>> workers_for(8, 3), workers_for(-1, 3), workers_for(None, 3)
    (3, -1, None)
    """
    if n_jobs is None:
        return None
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or not 1 <= abs(int(n_jobs)) <= _MOST:
        raise ValueError(
            f"n_jobs is {n_jobs!r}; expected a number of workers from 1 to {_MOST}, -1 for all processors, or None for "
            "one after the other."
        )
    return int(n_jobs) if int(n_jobs) < 0 else min(int(n_jobs), max(n_tasks, 1))
