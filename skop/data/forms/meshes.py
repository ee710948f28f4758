"""Meshes of X and y, with tables, fields or values on a mesh beside them: their conversion to FieldSets.

The functions named ``open_*`` replace meshes among the arguments of a fit, a prediction or a score by FieldSets, so
that `skop.data._samples` reads all forms alike.

Notation: n samples, P points of a mesh, c channels.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skop._typing import FloatArray
from skop.data._checks import ROUNDING, SAME_POINT, check_names, refuse_length
from skop.data._fieldset import FieldSet
from skop.data._mesh_cells import count_places
from skop.data._mesh_files import find_sources, is_mesh_input, is_on_mesh, is_path
from skop.data._mesh_predictions import attach_predictions, drop_unused_rows, kept_sets
from skop.data._meshes import MeshSamples, read_meshes
from skop.data._pairing import Labels, check_order, index_labels, name_runs, order_of_rows, pair_rows
from skop.data._spec import DataSpec, TargetForm
from skop.data._storage import as_storage, read_rows, refuse_repeated_names, reshape_rows
from skop.data.forms.points import FieldSets
from skop.data.forms.table import (
    TABLE,
    Design,
    as_runs,
    column_names,
    form_of_scalars,
    has_runs,
    named_scalars,
    read_design,
    read_scalars,
    refuse_params,
    split_params,
    split_runs,
)
from skop.exceptions import FieldDataError, warn

__all__ = [
    "MESHES",
    "MeshReading",
    "beside",
    "field_names",
    "in_plane",
    "on_meshes",
    "open_inputs",
    "open_points",
]

#: Number of coordinates of the points of a mesh, in formats such as VTK's also of a plane mesh.
_MESH_DIMS = 3


class _Meshes(FieldSets):
    """Meshes of meshio or pyvista, paths, patterns, and tables with a column of these; predicted as FieldSets first."""

    name = container = "meshes"
    on_meshes = True

    def matches(self, given: Any) -> bool:
        """Whether an argument is meshes, paths, or a table with a column of them."""
        return is_mesh_input(given) or has_runs(given)

    def runs(self, X: Any) -> Any:
        """Meshes or their files."""
        return split_runs(X)[0]

    def labels(self, X: Any) -> Any:
        """Index of a table, or the paths of files."""
        if hasattr(X, "iloc"):
            return X.index
        if is_path(X):
            return [name for name, _ in find_sources(X)]
        is_list = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim == 1)
        return [os.fspath(item) for item in X] if is_list and all(is_path(item) for item in X) else None

    def files(self, X: Any) -> list[str] | None:
        """Path of each sample."""
        return self.labels(self.runs(X))

    def listed(self, X: Any, design: Any) -> tuple[Any, Any]:
        """List of meshes or paths, with parameters in their order; a table with a column of them is cut by its rows."""
        if not is_mesh_input(X):
            return X, design
        sources = find_sources(X)
        design = None if design is None else design.for_runs(X, [name for name, _ in sources])
        return [source for _, source in sources], design


MESHES = _Meshes()


def on_meshes(target: TargetForm, fields: FieldSet, scalars: Any, meshes: Sequence[Any], labels: Any) -> Any:
    """Predicted fields on meshes, with scalars beside them if there are any."""
    found = attach_predictions(meshes, fields, dict(target.components or ()))
    return beside(target, found, scalars, labels)


def beside(target: TargetForm, meshes: Any, scalars: FloatArray | None, labels: Any = None) -> Any:
    """Return meshes as they are, or with scalars ``(n, s)`` beside them in the form that these had in y."""
    return meshes if scalars is None else (meshes, named_scalars(target, scalars.astype(target.dtype), labels))


@dataclass
class MeshReading:
    """How meshes of a call are read, and what is kept of them."""

    #: Names of the input fields, of which none means geometry alone, and of the target fields.
    inputs: Sequence[str]
    targets: Sequence[str]
    #: Treatment of fields on cells.
    cell_data: str | None = "refuse"
    #: Whether samples have weights or groups, whose order would be in doubt if rows of tables change theirs.
    weighted: bool = False
    #: Indices of the mesh coordinates that are used.
    axes: tuple[int, ...] | None = None
    #: Names of the target fields and their numbers of channels, if y was meshes.
    components: tuple[tuple[str, int], ...] | None = None
    #: ``"meshes"`` if inputs are on meshes.
    input_form: str | None = None
    #: Mesh that all samples of y share, if X was not meshes.
    mesh: Any = None
    #: Names of the meshes, in the order of the samples.
    names: tuple[str, ...] | None = None
    #: Form of y, if it was scalars beside target fields in the meshes of X.
    scalars: TargetForm | None = None

    # ------------------------------------------------------------------ fit
    def open_training(self, X: Any, y: Any, params: Any) -> tuple[Any, Any, Design | None]:
        """X and y of a fit with FieldSets in place of meshes, and global parameters in the order of the samples."""
        is_own, y = y is X, _as_targets(y)
        X, design = split_params(X, params)
        if is_mesh_input(X):
            return self._read_meshes(X, None if is_own else y, design)
        return self._read_mesh_targets(X, y, design) if _holds_meshes(y) else (X, y, design)

    def _read_meshes(self, X: Any, y: Any, design: Design | None) -> tuple[FieldSet, Any, Design | None]:
        """Read inputs on meshes, with targets on the same meshes, on others, or beside them."""
        wanted = self._named() if y is None else self.targets if _is_numbers(y) else ()
        samples = self._open(X, [*self.inputs, *wanted])
        self.input_form, self.axes, self.names = MESHES.name, samples.axes, samples.names
        if design is not None:
            design = design.for_runs(X, samples.names, weighted=self.weighted, fitting=True)
        if y is None:
            targets = self._named_targets(samples)
        elif _holds_meshes(y):
            targets = self._targets_of_runs(y, samples)
        else:
            targets = drop_unused_rows(_in_run_order(y, X, samples, self.weighted), samples.meshes)
            if wanted and _are_scalars(targets, samples):
                targets, self.scalars = _with_scalars(self._named_targets(samples), targets)
        return samples.select(self.inputs), targets, design

    def _read_mesh_targets(self, X: Any, y: Any, design: Design | None) -> tuple[Any, FieldSet, Design | None]:
        """Read targets on meshes beside an X that is none; a table becomes parameters of the runs if meshes differ."""
        if not TABLE.matches(X):
            return X, self._open_targets(y, ()).fields, design
        refuse_params(design)
        targets = self._open_targets(y, self.inputs)
        if targets.geometry is not None and len(targets.fields) == 1 != len(X):
            raise FieldDataError(
                f"y is one mesh, {targets.names[0]}, but X has {len(X)} rows. For the fields of {len(X)} runs on this "
                "mesh pass y=(mesh, values), with values of shape (n, points) or (n, points, channels) and one row for "
                "each row of X; or pass one mesh for each row, as a list or a pattern."
            )
        targets = targets.in_row_order(X, y)
        self.names = None if targets.geometry is None else targets.names
        if targets.geometry is None or (targets.fields.shared_coords and not self.inputs):
            return X, targets.fields, None
        self.input_form, self.mesh = MESHES.name, None
        return targets.geometry, targets.fields, read_design(X, "X")

    # ------------------------------------------------------------------ score
    def open_scored(self, X: Any, y: Any, params: Any, spec: DataSpec) -> tuple[Any, Any, Design | None]:
        """X and y of a score as in `open_training`; meshes that hold both are read once."""
        is_own, given = y is X, _as_targets(y)
        X, design = split_params(X, params)
        y = None if is_own and is_mesh_input(X) else given
        if spec.on_meshes and not is_mesh_input(X) and TABLE.matches(X) and _holds_meshes(y):
            # The meshes of y are those on which the prediction is asked for.
            refuse_params(design)
            X, y, design = y, None, read_design(X, "X")
        if not is_mesh_input(X):
            if not _holds_meshes(y):
                return X, y, design
            opened = self._open_targets(y, ())
            return X, (opened.in_row_order(X, given) if spec.is_table else opened).fields, design
        has_both = self.components is not None and spec.n_scalars > 0 and _is_numbers(y)
        wanted = self._named() if y is None or has_both else []
        samples = _open_as_fitted(X, spec, dict.fromkeys([*self.inputs, *wanted]), self.cell_data)
        design = None if design is None else design.for_runs(X, samples.names, weighted=self.weighted)
        if y is None:
            y = samples.select(wanted)
        elif _holds_meshes(y):
            y = self._targets_of_runs(y, samples)
        else:
            y = _in_run_order(y, X, samples, self.weighted)
            if has_both:
                check_names(column_names(y), spec.target_form.scalar_names, "y")
                y, _ = _with_scalars(samples.select(wanted), y)
            else:
                y = drop_unused_rows(y, samples.meshes) if spec.n_outputs else y
        return samples.select(self.inputs), y, design

    # ------------------------------------------------------------------ targets
    def _open(self, meshes: Any, names: Iterable[str]) -> MeshSamples:
        """Read meshes with the given fields."""
        wanted = list(dict.fromkeys(names))
        return read_meshes(meshes, wanted, cell_data=self.cell_data or "refuse", axes=self.axes)  # type: ignore[arg-type]

    def _named(self) -> Sequence[str]:
        """Return the names of the target fields of meshes, or raise an error if they are missing."""
        if not self.targets:
            raise FieldDataError(
                "the targets are fields of meshes, but target_fields does not name them; set target_fields=['...'] "
                "to names in their point_data."
            )
        return self.targets

    def _named_targets(self, samples: MeshSamples) -> FieldSet:
        """Select the target fields of meshes."""
        wanted = self._named()
        self.components = tuple((name, samples.components[name]) for name in wanted)
        return samples.select(wanted)

    def _targets_of_runs(self, y: Any, samples: MeshSamples) -> FieldSet:
        """Read targets on other meshes than the inputs, whose files may have other names but no other order."""
        if is_on_mesh(y):
            raise FieldDataError("y is (mesh, values), but X is meshes; pass the values alone, as a list of arrays.")
        targets = self._open(y, self._named())
        check_order(samples.names, targets.names)
        return self._named_targets(targets)

    def _open_targets(self, y: Any, inputs: Sequence[str]) -> _MeshTargets:
        """Read targets from meshes, which may hold inputs too, or from values on one mesh."""
        if is_on_mesh(y):
            return self._values_on_mesh(y)
        samples = self._open(y, [*inputs, *self._named()])
        self.axes = samples.axes
        fields = self._named_targets(samples)
        self.mesh = _common_mesh(samples) if fields.shared_coords else None
        return _MeshTargets(fields, samples.names, samples.select(inputs))

    def _values_on_mesh(self, y: tuple[Any, Any]) -> _MeshTargets:
        """Read ``(mesh, values)``; a field has the name ``"prediction"`` where `targets` gives none."""
        kind = "cells" if self.cell_data == "cells" else "points"
        samples = read_meshes(y[0], None, cell_data="cells" if kind == "cells" else "refuse", axes=self.axes)
        if len(samples.meshes) != 1:
            raise FieldDataError(
                f"y is (mesh, values) with {len(samples.meshes)} meshes; expected one, on which all values are. For "
                "runs with meshes of their own pass these as y, with the fields in their point data."
            )
        values, used = as_storage(y[1], "values of y"), samples.used_points[0]
        coords, count = samples.fields.coords_list()[0], count_places(samples.meshes[0])
        if values.ndim not in (2, 3) or values.shape[1] not in (count, len(coords)) or 0 in values.shape[2:]:
            asked = f", which cell_data={self.cell_data!r} asks for" if kind == "cells" else ""
            raise FieldDataError(
                f"y is ({samples.names[0]}, values) with values of shape {tuple(values.shape)}; expected (n, {count}) "
                f"or (n, {count}, channels), since the mesh has {count} {kind}{asked}."
            )
        if used is not None and values.shape[1] == count:
            values = read_rows(values, slice(None))[:, used]
        n_channels = int(values.shape[2]) if values.ndim > 2 else 1
        names = self.targets or ["prediction"]
        if self.components is None or sum(count for _, count in self.components) != n_channels:
            if len(names) not in (1, n_channels):
                raise FieldDataError(
                    f"target_fields names {len(names)} fields, {names}, but the values of y have {n_channels} "
                    "channels; name one field, or each channel."
                )
            self.components = ((names[0], n_channels),) if len(names) == 1 else tuple((name, 1) for name in names)
        channels = [name if count == 1 else f"{name}_{k}" for name, count in self.components for k in range(count)]
        self.axes, self.mesh = samples.axes, _common_mesh(samples)
        fields = FieldSet(coords, reshape_rows(values, (len(coords), n_channels)), channel_names=channels)
        return _MeshTargets(fields, samples.names)


@dataclass(frozen=True)
class _MeshTargets:
    """Targets on meshes beside an X that is none."""

    #: Targets.
    fields: FieldSet
    #: Names of the meshes; a single one for ``(mesh, values)``.
    names: tuple[str, ...]
    #: Input fields on the same meshes, or their points alone; None for ``(mesh, values)``.
    geometry: FieldSet | None = None

    def in_row_order(self, X: Any, y: Any) -> _MeshTargets:
        """Return the targets in the order of the rows of a table; its index may name the files."""
        if self.geometry is None:
            return self
        order = order_of_rows(X, y, self.names)
        if order is None:
            return self
        return _MeshTargets(self.fields[order], tuple(self.names[i] for i in order), self.geometry[order])


# ---------------------------------------------------------------------- prediction
def open_inputs(
    X: Any, params: Any, spec: DataSpec, cell_data: str, *, keep_data: bool
) -> tuple[Any, Design | None, list[Any] | None]:
    """Open the meshes in the X of a prediction."""
    X, design = split_params(X, params)
    if not is_mesh_input(X):
        return X, design, None
    samples = _open_as_fitted(X, spec, spec.input_fields, cell_data, keep_data=keep_data)
    if design is None:
        return samples.fields, None, samples.meshes
    # The rows of a table X are samples. Those of params may be all runs of a design, of which one is asked for.
    is_shared = len(samples.meshes) == 1 and (not is_path(X) or samples.names == (str(X),))
    if design.what == "X" and is_shared:
        count = len(design.values)
        meshes = _repeated(samples, X, count, spec.input_fields)
        return samples.fields[np.zeros(count, dtype=int)], design, meshes
    if design.what != "X":
        return samples.fields, design.for_runs(X, samples.names), samples.meshes
    order = design.order_of(X, samples.names)
    if order is None:
        return samples.fields, design, samples.meshes
    return samples.fields[order], design, [samples.meshes[i] for i in order]


def open_points(
    coords: Any, X: Any, inputs: FieldSet, spec: DataSpec, cell_data: str, *, keep_data: bool
) -> tuple[Any, list[Any]]:
    """Open the meshes at whose points fields are predicted."""
    read_as = _cells_as_fitted(spec, cell_data)
    samples = _open_meshes(coords, None, read_as, spec.kept_axes, keep_data)
    if samples.fields.n_dims != inputs.n_dims and spec.kept_axes is None:
        # Of a line along an axis all other coordinates are constant.
        samples = _open_meshes(coords, None, read_as, tuple(range(inputs.n_dims)), keep_data)
    if len(samples.meshes) not in (1, len(inputs)):
        raise FieldDataError(
            f"coords holds {len(samples.meshes)} meshes, but X has {len(inputs)} samples; pass one mesh for all "
            "samples, or one for each."
        )
    if len(samples.meshes) == 1:
        return samples.fields.coords_list()[0], _repeated(samples, coords, len(inputs))
    if is_mesh_input(X):
        check_order(MESHES.files(X) or (), samples.names, "coords")
    order = order_of_rows(X, coords, samples.names) if TABLE.matches(X) else None
    if order is None:
        return samples.fields, samples.meshes
    return samples.fields[order], [samples.meshes[i] for i in order]


def _repeated(samples: MeshSamples, given: Any, count: int, inputs: Iterable[str] | None = None) -> list[Any]:
    """The only mesh, for each sample: without results of its own run, unless it came in a list for one sample."""
    (mesh,) = samples.meshes
    is_run = count == 1 and (isinstance(given, list | tuple) or (is_path(given) and samples.names != (str(given),)))
    for data in () if is_run else (mesh.point_data, mesh.cell_data):
        for name in data.keys() - set(inputs or ()):
            # It would pass for the truth of a sample.
            del data[name]
    return [mesh] * count


def in_plane(coords: Any, spec: DataSpec) -> Any:
    """Points without the coordinates that were constant in the meshes of the fit, if they come with three."""
    if spec.kept_axes is None or len(spec.kept_axes) == _MESH_DIMS or coords is None:
        return coords
    given = coords
    if isinstance(coords, FieldSet):
        given = coords.coords if coords.shared_coords else coords.coords_list()
    is_list = isinstance(given, list) and bool(given) and np.ndim(given[0]) > 1
    arrays = [np.asarray(item) for item in given] if is_list else [np.asarray(given)]
    if any(item.ndim < 2 or item.shape[-1] != _MESH_DIMS or item.dtype.kind not in "fiu" for item in arrays):
        return coords
    points = np.concatenate([item.reshape(-1, _MESH_DIMS) for item in arrays]).astype(float)
    slack = SAME_POINT * np.ptp(points, axis=0).max(initial=0) + ROUNDING * np.abs(points).max(axis=0, initial=0)
    for axis in set(range(_MESH_DIMS)) - set(spec.kept_axes):
        if np.ptp(points[:, axis]) > slack[axis]:
            raise FieldDataError(
                f"coordinate {axis} of coords runs from {points[:, axis].min():g} to {points[:, axis].max():g}, but it "
                f"was constant in the meshes of the fit; pass points of one plane, or only the coordinates "
                f"{spec.kept_axes}."
            )
    kept = [item[..., spec.kept_axes] for item in arrays]
    return kept if is_list else kept[0]


def _open_as_fitted(
    meshes: Any, spec: DataSpec, names: Any, cell_data: str | None, keep_data: bool = False
) -> MeshSamples:
    """Meshes of a prediction, with the coordinates that the fit has kept."""
    if not spec.on_meshes:
        raise FieldDataError(
            f"X is meshes, but the estimator was fitted on X as {spec.input_form!r}; pass the same "
            "kind, or read the meshes by skop.data.read_meshes."
        )
    return _open_meshes(meshes, names, _cells_as_fitted(spec, cell_data), spec.kept_axes, keep_data)


def _cells_as_fitted(spec: DataSpec, cell_data: str | None) -> str:
    """Treatment of fields on cells: a fit on cells is one on other points than a fit on points."""
    return (spec.cell_data if "cells" in (spec.cell_data, cell_data) else cell_data) or "refuse"


# ---------------------------------------------------------------------- opening
def _open_meshes(
    meshes: Any, names: Any, cell_data: Any, axes: tuple[int, ...] | None, keep_data: bool = False
) -> MeshSamples:
    """Read meshes with the given fields."""
    wanted = None if names is None else list(names)
    return read_meshes(meshes, wanted, cell_data=cell_data, axes=axes, keep_data=keep_data)


def field_names(fields: str | Sequence[str] | None) -> list[str]:
    """Names of the input fields of meshes; none of them means geometry alone."""
    return [fields] if isinstance(fields, str) else [] if fields is None else [*fields]


def _is_numbers(y: Any) -> bool:
    """Whether y is a table of numbers: scalars of samples, or values on their points."""
    return y is not None and TABLE.matches(y) and not _holds_meshes(y)


def _are_scalars(y: Any, samples: MeshSamples) -> bool:
    """Whether a table of numbers holds scalars of samples, and not values on their points."""
    sizes = [np.size(row) for row in y] if isinstance(y, list) else [math.prod(np.shape(y)[1:])] * len(y)
    return set(sizes) == {1} or sizes != samples.fields.n_points.tolist()


def _with_scalars(fields: FieldSet, y: Any) -> tuple[FieldSet, TargetForm]:
    """Add the scalars of a table y to the target fields of the same meshes; also return the form of the table."""
    refuse_repeated_names([*getattr(y, "columns", ())], "y has {} columns")
    targets, form = read_scalars(y)
    refuse_length(fields, targets)
    return fields.with_params(targets.scalars), form_of_scalars(y, form)


def _in_run_order(y: Any, X: Any, samples: MeshSamples, weighted: bool) -> Any:
    """Return a DataFrame or Series y in the order of files, by its index."""
    if not is_path(X) and not (isinstance(X, list | tuple | np.ndarray) and is_path(X[0])):
        return y
    labels = index_labels(y.index) if hasattr(y, "iloc") else Labels()
    if not is_path(X) and not name_runs(labels, samples.names):
        # A list is in the order of y, unless the index says otherwise.
        return y
    if hasattr(y, "iloc"):
        rows = pair_rows(labels, len(y), X, samples.names, what="y", weighted=weighted, needs_all=True)
        y = y if rows is None else y.iloc[rows]
    if labels == Labels() and list(samples.names) != sorted(samples.names):
        pairs = zip(samples.names, sorted(samples.names), strict=True)
        place, (here, there) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
        warn(
            f"the rows of y were taken in the natural order of the files, in which {here} is sample {place}; in the "
            f"order of the alphabet, as sorted(...) gives it, it would be {there}. Check the order of y, or pass the "
            "files as a list in its order."
        )
    return y


def _common_mesh(samples: MeshSamples) -> Any:
    """Mesh of samples that share their points, without data; without cells and named sets too if these differ."""
    first = samples.meshes[0]
    same = all(mesh.cells is first.cells or _nested(mesh.cells) == _nested(first.cells) for mesh in samples.meshes)
    if not same:
        warn("the meshes of y share their points, but not their cells; predicted meshes are points without cells.")
        return type(first)(first.points, [], info=first.info)
    return type(first)(first.points, first.cells, info=first.info, **kept_sets(first))


def _nested(cells: Any) -> Any:
    """Cells as lists, which can be compared."""
    if hasattr(cells, "type"):
        return [cells.type, _nested(cells.data)]
    return [_nested(item) for item in cells] if isinstance(cells, list | tuple) else np.asarray(cells).tolist()


def _as_targets(y: Any) -> Any:
    """Convert a column of mesh files to a list; ``(mesh, values)`` is kept."""
    return y if isinstance(y, tuple) else as_runs(y)


def _holds_meshes(y: Any) -> bool:
    """Whether y is meshes, or ``(mesh, values)``."""
    return not isinstance(y, np.ndarray | FieldSet) and is_mesh_input(y)
