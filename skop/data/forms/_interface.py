"""Form: what a kind of object that X or y can be has to say; all that is asked of X and y is asked here.

Notation: n samples, P points of a sample, T points of all samples together, q output channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skop._typing import FloatArray
from skop.data._checks import check_finite_coords, find_geometry
from skop.data._fieldset import FieldSet
from skop.data._spec import TargetForm

__all__ = ["Form", "as_samples"]


class Form:
    """A kind of object that X and y can be.

    The defaults are those of fields in memory. A new form is a subclass in a file of its own, and its name in
    `skop.data.forms.FORMS`: it defines `matches`, and either `fields` and `restore`, or `unpack`.
    """

    #: Name of the form of X in a `DataSpec`, and that of y in a `TargetForm`.
    name = container = ""
    #: Whether X is rows of numbers, and not fields; and whether it is meshes.
    is_table = on_meshes = False
    #: Whether samples are on the unit box, for want of coordinates.
    lacks_points = False
    #: Whether y of this form says on which points it is; and whether a y beside such an X may be a list of samples.
    carries_points = is_listed = False

    # ------------------------------------------------------------------ reading and restoring
    def matches(self, given: Any) -> bool:
        """Whether an argument has this form, or is meant to."""
        raise NotImplementedError

    def unpack(self, X: Any, inputs: Sequence[str], targets: Sequence[str], *, needs_targets: bool) -> tuple[Any, Any]:
        """X in another form, and the y that it holds too or None, by the names of both if there are any."""
        return X, None

    def unpack_targets(self, y: Any, targets: Sequence[str]) -> Any:
        """Return y in another form."""
        return y

    def fields(self, given: Any, what: str) -> FieldSet:
        """Convert an argument to fields; `what` is its name in messages."""
        raise NotImplementedError

    def warn_if_ambiguous(self, given: Any, what: str) -> None:
        """Warn in a fit if an argument may be meant otherwise."""

    def restore(self, target: TargetForm, values: FloatArray, points: FieldSet) -> Any:
        """Convert predictions ``(n, P, q)``, or ``(T, q)`` for ragged samples, to the form that y had."""
        raise NotImplementedError

    def checked_fields(self, given: Any, what: str) -> FieldSet:
        """Convert an argument to fields with finite coordinates, before points are compared with others."""
        fields = self.fields(given, what)
        check_finite_coords(fields, what)
        return fields

    def read(self, given: Any, what: str) -> tuple[FieldSet, str]:
        """Convert an argument to fields with finite coordinates, and tell how their points are arranged."""
        return find_geometry(self.checked_fields(given, what))

    # ------------------------------------------------------------------ samples as the caller has them
    def runs(self, X: Any) -> Any:
        """Meshes or their files, which may be a column of X; None if X is no meshes."""
        return None

    def labels(self, X: Any) -> Any:
        """Labels that X gives to its samples, such as an index or paths; None if there are none."""
        return X.index if hasattr(X, "iloc") else None

    def files(self, X: Any) -> list[str] | None:
        """File of each sample; None if X is no files."""
        return None

    def listed(self, X: Any, design: Any) -> tuple[Any, Any]:
        """X in a form of which parts can be cut, and the parameters beside it in the order of its samples."""
        return (X if hasattr(X, "__getitem__") and hasattr(X, "__len__") else np.asarray(X)), design

    def count(self, X: Any) -> int:
        """Number of samples of a listed X; 0 if it has none, or parts of several lengths."""
        shape = getattr(X, "shape", None)
        return len(X) if shape is None else int(shape[0]) if len(shape) else 0

    def cut(self, X: Any, rows: slice) -> Any:
        """Some samples of a listed X, in the same form."""
        return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def as_samples(values: FloatArray, points: FieldSet, *, squeezed: bool) -> list[FloatArray]:
    """Predictions of each sample, without their channel axis if `squeezed`."""
    samples = points.with_values(values).to_list()
    return [sample[:, 0] for sample in samples] if squeezed else samples
