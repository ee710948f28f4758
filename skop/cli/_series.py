"""Time series of meshes as DATA of a command: runs of several frames, their inputs and the frames to predict.

Notation: n runs, T frames of a run, P points, c channels of a frame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from skop.data import FieldSet, MeshSamples, find_runs, is_mesh_series, read_frames
from skop.exceptions import FieldDataError

if TYPE_CHECKING:
    from skop.data import MeshRun

__all__ = ["Run", "find_run_files", "holds_series", "outputs_of_runs", "places_of", "read_run_frames"]

#: Endings of files that may hold several time steps.
_ENDINGS = (".pvd", ".series", ".xdmf", ".xmf", ".vtkhdf")


@dataclass(frozen=True)
class Run:
    """One run of a command."""

    #: Name for tables and for the file of its prediction: that of its file, or of the folder of its frames.
    name: str
    #: The file that holds all frames, or the files of the frames.
    sources: tuple[str, ...]
    #: Frames with their times.
    frames: MeshRun

    @property
    def stem(self) -> str:
        """Name without the ending of a file."""
        return Path(self.name).stem if len(self.sources) == 1 else self.name

    @property
    def frame_files(self) -> list[Path]:
        """Files of the frames; none for a file that holds them all."""
        return [item for _, item in self.frames.frames if isinstance(item, Path)]


def holds_series(files: Sequence[Path], time: str | None, *, says: bool) -> bool:
    """Tell whether mesh files are time series."""
    series = [file for file in files if file.suffix.lower() in _ENDINGS and is_mesh_series([str(file)])]
    if series and len(series) < len(files):
        other = next(file for file in files if file not in series)
        raise click.UsageError(f"{series[0]} is a time series and {other} is not; pass one kind")
    if says and not series and time is None and is_mesh_series([str(file) for file in files]):
        click.echo(
            f"{len(files)} files in several folders, each taken for a sample of its own; if a folder holds the frames "
            "of one run, say so by --time rollout or --time parameter",
            err=True,
        )
    return bool(series) or time is not None


def find_run_files(files: Sequence[Path]) -> list[Run]:
    """List the runs that files belong to."""
    given = {str(file) for file in files}
    runs = []
    sources: tuple[str, ...]
    for found in find_runs([str(file) for file in files]):
        if found.name in given:
            name, sources = Path(found.name).name, (found.name,)
        else:
            sources = tuple(label for label, _ in found.frames)
            name = Path(sources[0]).absolute().parent.name
        runs.append(Run(name, sources, found))
    for rename in (_with_folder, _with_all_folders):
        counts = Counter(run.stem.lower() for run in runs)
        runs = [replace(run, name=rename(run)) if counts[run.stem.lower()] > 1 else run for run in runs]
    return runs


def _with_folder(run: Run) -> str:
    """Name of a run with that of its folder, or with that of its first frame."""
    first = Path(run.sources[0])
    return f"{first.absolute().parent.name}_{first.name if len(run.sources) == 1 else first.stem}"


def _with_all_folders(run: Run) -> str:
    """Name of a run with all folders of its path."""
    first = Path(run.sources[0])
    return "_".join((first if len(run.sources) == 1 else first.with_suffix("")).absolute().parts[1:])


def places_of(runs: Sequence[Run]) -> list[Path]:
    """Return the path that stands for each run in tables: its file, or the folder of its frames."""
    firsts = [Path(run.sources[0]) for run in runs]
    counts = Counter(path.parent for path in firsts)
    return [
        path.parent if len(run.sources) > 1 and counts[path.parent] == 1 else path
        for run, path in zip(runs, firsts, strict=True)
    ]


def outputs_of_runs(runs: Sequence[Run], output: Path, force: bool) -> list[Path]:
    """Collections to write, whose frames overwrite neither inputs nor, in silence, earlier results."""
    if output.suffix.lower() == ".pvd" and not output.is_dir():
        if len(runs) > 1:
            raise click.UsageError(f"-o {output} is one file for {len(runs)} runs; name a folder")
        targets = [output]
    else:
        targets = [output / f"{run.stem}.pvd" for run in runs]
    if len({str(target).lower() for target in targets}) < len(runs):
        raise click.UsageError(f"several runs would be written to one file in {output}; give the runs distinct names")
    read = {file.resolve().parent for run in runs for file in run.frame_files}
    for target in targets:
        folder = target.with_suffix("")
        if folder.resolve() in read:
            raise click.UsageError(f"frames would be written to {folder}, which holds inputs; choose another -o")
        if not folder.is_dir() and folder.exists():
            raise click.UsageError(f"frames would be written to {folder}, which is a file; choose another -o")
        if folder.is_dir() and any(folder.iterdir()) and not force:
            raise click.UsageError(
                f"frames would be written to {folder}, which holds files; choose another -o, or overwrite by --force"
            )
    return targets


def read_run_frames(
    runs: Sequence[Run], time: str, fields: tuple[Sequence[str], Sequence[str]], *,
    window: int, n_frames: int | None, cell_data: str, axes: tuple[int, ...] | None, needs_targets: bool,
) -> tuple[FieldSet, FieldSet | None, MeshSamples]:  # fmt: skip
    """Read inputs and targets of runs."""
    inputs, targets = fields
    found = [run.frames for run in runs]
    options: dict[str, Any] = {"cell_data": cell_data, "axes": axes}
    if time == "rollout":
        wanted = None if n_frames is None else window + n_frames
        if not needs_targets and (wanted is None or min(len(run.frames) for run in found) < wanted):
            wanted = window
        frames, samples = read_frames(found, targets, n_frames=wanted, **options)
        count = sum(samples.components.values())
        total = frames.n_channels // count
        if total <= window and needs_targets:
            raise FieldDataError(
                f"{found[0].name} has {total} frames, and the first {window} are inputs; pass more frames, or a "
                "smaller --window."
            )
        names = _names_of_frames(samples, found, total)
        X = _channels(frames, slice(0, window * count), names)
        y = _channels(frames, slice(window * count, None), names) if total > window else None
    else:
        X, samples = read_frames(found, inputs, n_frames=1, **options)
        y = None
        try:
            frames, all_samples = read_frames(found, targets, n_frames=n_frames, **options)
            total = frames.n_channels // sum(all_samples.components.values())
            y = _channels(frames, slice(None), _names_of_frames(all_samples, found, total))
        except FieldDataError:
            if needs_targets:
                raise
        return X, y, samples
    return X, y, replace(samples, meshes=samples.meshes[::total])


def _names_of_frames(samples: MeshSamples, runs: Sequence[MeshRun], count: int) -> list[str]:
    """Names of the channels of frames: those of the fields, with the time if it is the same in all runs."""
    from skop.estimators.temporal._time_conditioned import are_same_times

    names: Any = samples.fields.channel_names
    times = [run.times[:count] for run in runs]
    same = all(len(item) == count and are_same_times(item, times[0]) for item in times)
    words = [f"t = {time:.10g}" for time in times[0]] if same else [f"frame {number}" for number in range(count)]
    return [f"{name}, {word}" for word in words for name in names]


def _channels(frames: FieldSet, channels: slice, names: Sequence[str]) -> FieldSet:
    """Some channels of all samples, with their names."""
    return frames.with_values(np.asarray(frames.values)[..., channels], tuple(names[channels]))
