"""Time series of meshes: ParaView collections, XDMF series and folders of files; frames in the channels of a FieldSet.

Notation: n runs, T frames of a run, P points, d space dimensions, c channels of a frame.
"""

import json
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path, PurePath
from typing import Any
from xml.etree import ElementTree

import meshio
import numpy as np

from skop._files import write_in_one_step
from skop._typing import FloatArray, IntArray, PathOrStr
from skop.data._fieldset import FieldSet
from skop.data._mesh_files import (
    MESH_SETS,
    existing_file,
    find_sources,
    is_mesh_input,
    is_time_series,
    iterate_meshes,
    named_failures,
    natural_key,
    write_mesh,
)
from skop.data._meshes import MeshSamples, read_sources
from skop.data._pairing import check_order, order_of_rows
from skop.data._pyvista import find_time_steps, read_by_vtk
from skop.data._xdmf import XdmfSeries
from skop.data.forms.table import TABLE, Design, as_runs, split_params, split_runs
from skop.exceptions import FieldDataError, SkopWarning

__all__ = [
    "MeshRun",
    "MeshSeries",
    "find_runs",
    "is_mesh_series",
    "numbers_of_times",
    "order_of_series",
    "pair_series",
    "read_frames",
    "read_mesh_series",
    "read_templates",
    "series_files",
    "split_series",
]

_DECIMAL = r"\d+(?:\.\d+)?"
#: Last number in the stem of a file: "-0.5" in "t_-0.5", "1e-05" in "t_1e-05", as Python writes it; "3" in "run-3".
#: A minus, and an exponent without a sign as in "t_1e5", belong to numbers after "_" or "=" only.
_LAST_NUMBER = re.compile(rf"(?:(?<=[_=])-?{_DECIMAL}[eE]\d+|(?:(?<=[_=])-)?{_DECIMAL}(?:[eE][+-]\d+)?)(?=\D*$)")
#: "1.0003" in "case1.0003", where the dot need not be that of a decimal.
_PADDED = re.compile(r"(\d+)\.(0\d\d+)")
#: Largest motion of a point, as a fraction of the extent of the mesh, with which the mesh counts as fixed.
_FIXED = 1e-6


@dataclass(frozen=True, eq=False)
class MeshSeries:
    """Meshes of one run at several times.

    Attributes
    ----------
    meshes : list of meshio.Mesh
        Meshes in the order of time.
    times : ndarray of shape (T,)
        Time of each mesh.

    Examples
    --------
    >>> import meshio, numpy as np, tempfile
    >>> from skop.data import MeshSeries, read_mesh_series
    >>> meshes = [meshio.Mesh(np.eye(3), [("triangle", [[0, 1, 2]])], {"u": np.full(3, t)}) for t in (0.0, 0.5)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     MeshSeries(meshes, np.array([0.0, 0.5])).write(f"{folder}/run.pvd")
    ...     (series,) = read_mesh_series(f"{folder}/*.pvd")
    >>> series.times, series.meshes[1].point_data["u"]
    (array([0. , 0.5]), array([0.5, 0.5, 0.5]))
    """

    meshes: list[meshio.Mesh]
    times: FloatArray

    def __post_init__(self) -> None:
        times = numbers_of_times(self.times)
        if times.shape != (len(self.meshes),) or not len(times) or not (np.diff(times) > 0).all():
            raise FieldDataError(
                f"a series of {len(self.meshes)} meshes has times {times.tolist()}; expected one time for each mesh, "
                "in ascending order."
            )
        object.__setattr__(self, "times", times)

    def __len__(self) -> int:
        return len(self.meshes)

    def write(self, path: PathOrStr) -> None:
        """Write a ParaView collection, which ParaView plays: a .pvd file, and a folder of .vtu files beside it.

        Parameters
        ----------
        path : path-like
            File that ends in ``.pvd``. The files of ``run.pvd`` are ``run/run_0000.vtu`` and so on. Folders are created
            where they are missing, and existing files are replaced. Frames of such names that an existing collection
            lists, and the new one does not, are removed.

        Raises
        ------
        FieldDataError
            If the path has another ending.
        """
        target = Path(path)
        if target.suffix.lower() != ".pvd":
            raise FieldDataError(f"a series is written as a ParaView collection; {str(path)!r} does not end in .pvd.")
        folder = target.with_suffix("")
        folder.mkdir(parents=True, exist_ok=True)
        earlier, written = _own_frames(target), set[str]()
        root = ElementTree.Element("VTKFile", type="Collection", version="0.1", byte_order="LittleEndian")
        collection = ElementTree.SubElement(root, "Collection")
        for number, (mesh, time) in enumerate(zip(self.meshes, self.times.tolist(), strict=True)):
            name = f"{folder.name}_{number:04d}.vtu"
            write_mesh(mesh, folder / name)
            written.add(name)
            place = {"timestep": repr(time), "group": "", "part": "0", "file": f"{folder.name}/{name}"}
            ElementTree.SubElement(collection, "DataSet", place)
        ElementTree.indent(root)
        write_in_one_step(target, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))
        for name in earlier - written:
            (folder / name).unlink(missing_ok=True)


def numbers_of_times(times: Any) -> FloatArray:
    """Return times as an array of numbers; dates and durations, whose unit would be lost, and text are refused."""
    array = np.asarray(times)
    if array.dtype.kind not in "biuf":
        for item in array.ravel():
            if isinstance(item, date | timedelta | np.datetime64 | np.timedelta64 | str | bytes):
                raise FieldDataError(
                    f"times came as {type(item).__name__}, such as {item!r}; expected numbers, all in one unit. Pass "
                    "t / np.timedelta64(1, 's') for durations, (t - start) / np.timedelta64(1, 's') for dates, or "
                    "float(t) for text."
                )
    return np.asarray(array, dtype=np.float64)


def read_mesh_series(source: Any) -> list[MeshSeries]:
    """Read time series of meshes, with all their data.

    Parameters
    ----------
    source : str, Path, MeshSeries or list of these
        ParaView collections (``.pvd``), file series (``.vtu.series``, also of OpenFOAM), and XDMF or VTKHDF files with
        several time steps: each is a run. Other files are grouped by
        their folders and by their names without the last number, as in ``run_*/t_*.vtu``: each group is a run, whose
        files are sorted by the last number in the name, which is the time: 0.25 in ``t_0.25.vtu``, 1e-05 in
        ``t_1e-05.vtu``. Three or more digits after a dot count frames, as 3 in ``case1.0003.vtu``, if they start with
        0 and are equally many in all files, but not the same, and the number before the dot is not 0 in all.

    Returns
    -------
    list of MeshSeries
        One series for each run.

    Raises
    ------
    FieldDataError
        If there are no files, or a file cannot be read.
    OptionalDependencyError
        If the format of a file needs a package that is not installed.

    Examples
    --------
    >>> import meshio, numpy as np, os, tempfile
    >>> from skop.data import read_mesh_series
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for run in (1, 2):
    ...         os.mkdir(f"{folder}/run_{run}")
    ...         for step in (0, 10, 20):
    ...             mesh = meshio.Mesh(np.eye(3), [("triangle", [[0, 1, 2]])], {"u": np.full(3, 1.0 * step)})
    ...             mesh.write(f"{folder}/run_{run}/t_{step}.vtu")
    ...     series = read_mesh_series(f"{folder}/run_*/t_*.vtu")
    >>> len(series), series[0].times
    (2, array([ 0., 10., 20.]))
    """
    return [MeshSeries([mesh for _, mesh in iterate_meshes(run.frames)], run.times) for run in find_runs(source)]


# ---------------------------------------------------------------------- runs and their frames
@dataclass(frozen=True, eq=False)
class MeshRun:
    """Frames of one run that have not been read."""

    #: Name for messages.
    name: str
    #: Name of each frame, and its mesh, file, or a function that reads it.
    frames: list[tuple[str, Any]]
    #: Times (T,) of the frames.
    times: FloatArray
    #: File that lists the frames, their folder, or their common path in a folder of several runs; None in memory.
    path: str | None = None

    @property
    def label(self) -> str:
        """Name by which rows of tables are matched with the run."""
        return self.name if self.path is None else self.path


def is_mesh_series(source: Any) -> bool:
    """Tell whether a source is certainly a time series of meshes."""
    if _is_series(source) or (isinstance(source, list | tuple) and any(_is_series(item) for item in source)):
        return True
    if not is_mesh_input(source):
        return False
    try:
        paths = [item for _, item in find_sources(source) if isinstance(item, Path)]
    except FieldDataError:
        # The reader of meshes says what is wrong.
        return False
    if not paths:
        return False
    if is_time_series(paths[0]):
        return True
    groups = _groups(paths)
    return len({path.parent for path in paths}) > 1 and all(len(group) > 1 for group in groups.values())


def find_runs(source: Any) -> list[MeshRun]:
    """List the runs of a source, without reading meshes."""
    if _is_series(source):
        source = [source]
    if isinstance(source, list | tuple) and source and all(_is_series(item) for item in source):
        return [
            MeshRun(
                f"series {i}", [(f"mesh {k} of series {i}", mesh) for k, mesh in enumerate(item.meshes)], item.times
            )
            for i, item in enumerate(source)
        ]
    found = find_sources(source)
    # Runs are in the order of their first files, so that rows of a table can be in the same order.
    paths = [item for _, item in found if isinstance(item, Path)]
    series = {path for path in paths if is_time_series(path)}
    groups = _groups([path for path in paths if path not in series])
    starts = {group[0][0]: key for key, group in groups.items()}
    shared = {folder for folder, count in Counter(folder for folder, _ in groups).items() if count > 1}
    runs: list[MeshRun] = []
    for name, item in found:
        if not isinstance(item, Path):
            runs.append(MeshRun(name, [(name, item)], np.zeros(1)))
        elif item in series:
            openers = {".xdmf": _open_xdmf, ".xmf": _open_xdmf, ".vtkhdf": _open_vtkhdf}
            runs.append(openers.get(item.suffix.lower(), _open_collection)(item))
        elif item in starts:
            folder, kind = starts.pop(item)
            runs.append(_open_group(groups[folder, kind], _path_of_group(folder, kind, folder in shared)))
    return runs


def _path_of_group(folder: str, kind: str, is_shared: bool) -> str:
    """Path that names a run of files: their folder, or the common start of their names if it holds several runs."""
    start = re.sub(r"[\W_]+$", "", PurePath(kind).stem)
    return str(PurePath(folder) / start) if is_shared and start else folder


# ---------------------------------------------------------------------- tables beside runs
def split_series(X: Any, y: Any, params: Any) -> tuple[Any, Any, Design | None]:
    """Return X and y without the columns of numbers beside those of files, and the global parameters."""
    runs, design = split_params(X, params)
    return runs, runs if y is X else as_runs(y), design


def pair_series(design: Design | None, source: Any, *, weighted: bool = False, fitting: bool = False) -> Design | None:
    """Bring rows of parameters into the order of runs, by the rule of mesh files."""
    if design is None or not is_mesh_input(source):
        return design
    return design.for_runs(source, [run.label for run in find_runs(source)], weighted=weighted, fitting=fitting)


def series_files(X: Any) -> list[str] | None:
    """Return the files or folders of runs."""
    runs, _ = split_runs(X)
    paths = [run.path for run in find_runs(runs)] if is_mesh_input(runs) else []
    files = [path for path in paths if path is not None]
    return files if files and len(files) == len(paths) else None


def order_of_series(X: Any, y: Any, runs: Sequence[MeshRun]) -> IntArray | None:
    """Return the order of the runs of y in which they belong to the samples of X."""
    if is_mesh_input(X):
        check_order([run.label for run in find_runs(X)], [run.label for run in runs])
        return None
    return order_of_rows(X, y, [run.label for run in runs]) if TABLE.matches(X) else None


def _is_series(item: Any) -> bool:
    """Tell whether an item is a series in memory."""
    return isinstance(item, MeshSeries)


def _groups(paths: Sequence[Path]) -> dict[tuple[str, str], list[tuple[Path, str]]]:
    """Group files, each with the number in its name that is its time, by their folders and the rest of their names."""
    kinds: dict[tuple[str, str], list[tuple[Path, str]]] = defaultdict(list)
    for path in paths:
        found = _LAST_NUMBER.search(path.stem)
        start, end = found.span() if found else (len(path.stem), len(path.stem))
        kinds[path.stem[:start], path.stem[end:] + path.suffix].append((path, path.stem[start:end]))
    groups: dict[tuple[str, str], list[tuple[Path, str]]] = defaultdict(list)
    for (start_of_name, end_of_name), files in kinds.items():
        counts = _count_frames([number for _, number in files])
        for path, number in files:
            base, time = number.split(".") if counts else ("", number)
            groups[str(path.parent), start_of_name + base + end_of_name].append((path, time))
    return groups


def _count_frames(numbers: Sequence[str]) -> bool:
    """Tell whether the digits after the dots of numbers in names count frames, and are no decimals."""
    found = [part for part in map(_PADDED.fullmatch, numbers) if part]
    counts = {part[2] for part in found}
    return (
        len(found) == len(numbers)
        and len(counts) > 1 == len({len(count) for count in counts})
        and any(int(part[1]) for part in found)
    )


def _open_group(group: list[tuple[Path, str]], label: str) -> MeshRun:
    """Frames in one folder, with the last number in the name of a file as its time."""
    paths = [path for path, _ in group]
    times = [float(number) for _, number in group if number]
    order = sorted(range(len(paths)), key=lambda i: natural_key(str(paths[i])))
    if len(set(times)) == len(paths):
        order = sorted(order, key=lambda i: times[i])
    else:
        times = [float(order.index(i)) for i in range(len(paths))]
    ordered = [paths[i] for i in order]
    name = f"{ordered[0]} to {ordered[-1].name}" if len(ordered) > 1 else str(ordered[0])
    return MeshRun(name, [(str(path), path) for path in ordered], np.array([times[i] for i in order]), label)


def _open_collection(path: Path) -> MeshRun:
    """Frames of a ParaView collection or file series."""
    entries, _ = named_failures(path, lambda: _listed_files(path))
    if not entries or not np.isfinite([time for time, _ in entries]).all():
        raise FieldDataError(f"cannot read {path}: it lists no data sets with a timestep; write it again.")
    if len({time for time, _ in entries}) < len(entries):
        raise FieldDataError(
            f"cannot read {path}: it lists several parts of a time step; write the parts of each as one file, such as "
            ".pvtu or .vtm."
        )
    files = [(time, existing_file(path.parent / name)) for time, name in sorted(entries)]
    frames: list[tuple[str, Any]] = [(str(file), file) for _, file in files]
    return MeshRun(str(path), frames, np.array([time for time, _ in files]), str(path))


def _listed_files(path: Path) -> list[tuple[float, str]]:
    """Times and names of the files that a collection (XML) or a file series (JSON) lists."""
    if path.suffix.lower() == ".series":
        return [(float(item["time"]), str(item["name"])) for item in json.loads(path.read_text())["files"]]
    sets = ElementTree.parse(path).getroot().iter("DataSet")
    return [(float(item.get("timestep", "nan")), item.get("file", "")) for item in sets]


def _own_frames(path: Path) -> set[str]:
    """Names of the frames that an existing collection lists under the names that `MeshSeries.write` gives them."""
    try:
        listed = [name for _, name in _listed_files(path)]
    except (OSError, ValueError, ElementTree.ParseError):
        return set()
    pattern = re.compile(rf"{re.escape(path.stem)}/({re.escape(path.stem)}_\d{{4,}}\.vtu)")
    return {found[1] for found in map(pattern.fullmatch, listed) if found}


def _open_xdmf(path: Path) -> MeshRun:
    """Frames of an XDMF file with several time steps."""
    reader, _ = named_failures(path, lambda: _XdmfSeries(path))
    return _open_steps(path, reader.times, reader.read)


def _open_vtkhdf(path: Path) -> MeshRun:
    """Frames of a VTKHDF file with several time steps."""
    return _open_steps(path, find_time_steps(path), lambda step: read_by_vtk(path, step))


def _open_steps(path: Path, times: list[float], read: Callable[[int], meshio.Mesh]) -> MeshRun:
    """Frames of a file that holds all time steps."""

    def frame(step: int) -> tuple[str, Callable[[], meshio.Mesh]]:
        """Name of a step, and the function that reads it."""
        return f"{path}, step {step}", lambda: named_failures(path, lambda: read(step))[0]

    time, count = Counter(times).most_common(1)[0] if times else (0.0, 0)
    if count > 1 or not np.isfinite(times).all():
        wrong = f"time {time:g} in {count} of its steps" if count > 1 else "a step whose time is no number"
        raise FieldDataError(
            f"cannot read {path}: it has {wrong}; expected another time for each step. Leave out steps that were "
            "written twice, as by a restart, or number the steps."
        )
    order = np.argsort(times, kind="stable")
    return MeshRun(str(path), [frame(int(step)) for step in order], np.array(times)[order], str(path))


class _XdmfSeries:
    """Meshes of an XDMF file with several time steps, which are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with XdmfSeries(path) as reader:
            self.times = [float(grid.find("Time").attrib["Value"]) for grid in reader.collection]
            self._points, self._cells = reader.read_points_cells()

    def read(self, k: int) -> meshio.Mesh:
        """Read one step. Steps that hold points of their own, as FEniCS writes them, keep these."""
        with XdmfSeries(self._path) as reader:
            reader.cells = self._cells
            _, point_data, cell_data = reader.read_data(k)
            own = reader.collection[k].find("Geometry/DataItem")
            points = self._points if own is None else reader._read_data_item(own)
        points = self._points if np.array_equal(points, self._points) else points
        return meshio.Mesh(points, self._cells, point_data, cell_data)


def read_templates(
    run: MeshRun, numbers: Sequence[int | None], *, cell_data: str, inputs: Sequence[str]
) -> list[meshio.Mesh]:
    """Read meshes to which predictions of a run are attached."""
    known = sorted({number for number in numbers if number is not None} | {0})
    with warnings.catch_warnings():
        # The inputs of the run have been read, with a warning for what is wrong with its mesh.
        warnings.simplefilter("ignore", SkopWarning)
        read = read_sources([run.frames[number] for number in known], None, cell_data=cell_data, keep_data=True)
    meshes = dict(zip(known, read.meshes, strict=True))
    sets = {name: getattr(meshes[0], name) for name in MESH_SETS}
    bare = meshio.Mesh(meshes[0].points, meshes[0].cells, info=meshes[0].info, **sets)
    for kind in ("point_data", "cell_data"):
        held = getattr(meshes[0], kind)
        getattr(bare, kind).update({name: held[name] for name in inputs if name in held})
    return [bare if number is None else meshes[number] for number in numbers]


# ---------------------------------------------------------------------- frames as channels
def read_frames(
    runs: Sequence[MeshRun],
    fields: str | Sequence[str] | None,
    *,
    n_frames: int | None = None,
    cell_data: str = "refuse",
    axes: Sequence[int] | None = None,
) -> tuple[FieldSet, MeshSamples]:
    """Read the frames of runs as the channels of one sample each."""
    counts = [len(run.frames) for run in runs]
    if n_frames is None:
        n_frames = counts[0] if fields else 1
        if fields and len(set(counts)) > 1:
            short, long = int(np.argmin(counts)), int(np.argmax(counts))
            raise FieldDataError(
                f"{runs[short].name} has {counts[short]} frames and {runs[long].name} has {counts[long]}; cut all runs "
                "to the same number of frames."
            )
    for run, count in zip(runs, counts, strict=True):
        if count < n_frames:
            raise FieldDataError(f"{run.name} has {count} frames, but {n_frames} are needed; pass more frames.")
    sources = [frame for run in runs for frame in run.frames[:n_frames]]
    samples = read_sources(sources, fields, cell_data=cell_data, axes=axes)
    _check_fixed(samples, runs, n_frames)
    return _as_channels(samples.fields, n_frames), samples


def _check_fixed(samples: MeshSamples, runs: Sequence[MeshRun], n_frames: int) -> None:
    """Raise an error if the points of a run move or their number changes."""
    if samples.fields.shared_coords or n_frames == 1:
        return
    points = samples.fields.coords_list()
    for number, run in enumerate(runs):
        first = points[number * n_frames]
        for k in range(1, n_frames):
            other = points[number * n_frames + k]
            slack = _FIXED * float(np.max(np.ptp(first, axis=0)))
            if other.shape != first.shape or np.max(np.abs(other - first)) > slack:
                came = f"{len(other)} points instead of {len(first)}" if len(other) != len(first) else "other points"
                raise FieldDataError(
                    f"the mesh of {run.name} changes in time: {run.frames[k][0]} has {came}. A run needs one mesh that "
                    "is fixed in time; keep the mesh of its first frame, and store its motion as a field of "
                    "displacements."
                )


def _as_channels(frames: FieldSet, n_frames: int) -> FieldSet:
    """Join each `n_frames` samples to one, with the frames as channels."""
    if frames.values is None:
        return frames
    if n_frames == 1:
        return frames.with_values(frames.values)
    if frames.is_ragged:
        values = frames.to_list()
        joined: Any = [
            np.concatenate(values[start : start + n_frames], axis=-1) for start in range(0, len(values), n_frames)
        ]
        return FieldSet(frames.coords_list()[::n_frames], joined, cells=frames.cells)
    flat = np.asarray(frames.values)
    n_samples, n_points, n_channels = len(flat) // n_frames, *flat.shape[1:]
    stacked = flat.reshape(n_samples, n_frames, n_points, n_channels).transpose(0, 2, 1, 3)
    coords = frames.coords if frames.shared_coords else frames.coords[::n_frames]
    return FieldSet(coords, stacked.reshape(n_samples, n_points, n_frames * n_channels), cells=frames.cells)
