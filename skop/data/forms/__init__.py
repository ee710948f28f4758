"""The forms in which X and y come, each in a file: it matches an argument, reads it, and restores predictions.

All code behind them works on FieldSets, and asks the form of an argument what it would have to ask the argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skop.data.forms._interface import Form
from skop.data.forms.arrays import GRID
from skop.data.forms.files import FILES
from skop.data.forms.meshes import MESHES
from skop.data.forms.points import FIELDSET, LIST, PAIRS, TUPLE
from skop.data.forms.table import TABLE, refuse_containers

__all__ = ["FORMS", "Form", "as_list", "form_named", "form_of"]

#: All forms. The first that matches reads; the last takes everything.
FORMS: tuple[Form, ...] = (FIELDSET, FILES, MESHES, TABLE, TUPLE, PAIRS, LIST, GRID)
_NAMED = {name: form for form in FORMS for name in (form.name, form.container)}


def form_of(given: Any, what: str = "X") -> Form:
    """Return the form of an argument, X or y; `what` is its name in messages."""
    refuse_containers(given, what)
    samples = as_list(given)
    for form in FORMS:
        if form.matches(samples):
            break
    return form


def form_named(name: str) -> Form:
    """Return the form that a `DataSpec` or a `TargetForm` names."""
    return _NAMED[name]


def as_list(samples: Any) -> Any:
    """Convert an object array of samples, which scikit-learn makes from a list, back to a list."""
    if isinstance(samples, np.ndarray) and samples.dtype == object and samples.ndim == 1:
        return list(samples) if len(samples) and isinstance(samples[0], np.ndarray | tuple) else samples
    return samples
