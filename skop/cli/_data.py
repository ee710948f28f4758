"""DATA of a command: mesh files, one file of arrays, or a CSV table, read into samples that estimators take.

Notation: n samples, P points of a sample, d space dimensions, c channels, p parameters.
"""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    import numpy as np

    from skop.cli._series import Run
    from skop.data import DataSpec, MeshSamples

__all__ = [
    "Choice",
    "Samples",
    "are_meshes",
    "array_options",
    "choice_of_model",
    "expand",
    "field_options",
    "fields_in",
    "fields_of_run",
    "read_run_table",
    "read_samples",
    "time_options",
]

#: Number of names shown in a message.
_SHOWN = 3
#: Options that choose arrays and columns, for messages.
_CHOSEN_BY = {
    "x": "--x",
    "y": "--y",
    "coords": "--coords",
    "params": "--array-params",
    "points": "--coords ARRAY",
    "columns": "--input or --param",
}


# ---------------------------------------------------------------------- options
@dataclass(frozen=True)
class Choice:
    """What is to be read: the options of a command, or what a model was fitted on."""

    #: Fields (or columns of a table) that are predicted, that are inputs, and columns of `params` that are used.
    targets: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    #: CSV file with the parameters of each run.
    params: str | None = None
    #: Treatment of fields on cells.
    cell_data: str = "refuse"
    #: Names of arrays, and whether their last axis holds channels.
    x: str | None = None
    y: str | None = None
    coords: str | None = None
    array_params: str | None = None
    channels: str = "auto"
    #: Numbers of axes of X and y, with those of channels, in the fit of a model; empty where they are not known.
    n_axes: Mapping[str, int] = field(default_factory=dict)
    #: Coordinates of meshes that are used; None finds them.
    axes: tuple[int, ...] | None = None
    #: Whether data without targets are an error.
    needs_targets: bool = True
    #: Use of the time in time series of meshes: rollout, parameter, or None for a rollout of files with several steps.
    time: str | None = None
    #: Number of first frames that a rollout is given, and of those that are predicted; None for all.
    window: int = 1
    n_frames: int | None = None


def field_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which fields and columns of the data are inputs and targets."""
    return _with_options(
        command,
        click.option("--target", "targets", multiple=True, metavar="NAME", callback=_split_names,
                     help="Field of the meshes, or column of a table, to predict; several: repeat, or a,b."),
        click.option("--input", "inputs", multiple=True, metavar="NAME", callback=_split_names,
                     help="Field of the meshes, or column of the table, that is an input."),
        click.option("--param", "columns", multiple=True, metavar="COLUMN", callback=_split_names,
                     help="Column of the --params file to use; default: all columns of numbers."),
        click.option("--cell-data", type=click.Choice(_cell_data_choices()), default="refuse", show_default=True,
                     help="Fields that are stored on cells."),
    )  # fmt: skip


def array_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that every command on data has: the table of parameters, and the names of arrays."""
    return _with_options(
        command,
        click.option("--params", metavar="FILE.csv",
                     help="Parameters of each run. Rows belong to the file named or numbered in a column, else to "
                          "the files in natural order (run_2 before run_10)."),
        click.option("--x", metavar="ARRAY", help="Array of the file with the inputs, (n, ...)."),
        click.option("--y", metavar="ARRAY", help="Array with the targets, (n, ...)."),
        click.option("--coords", metavar="ARRAY", help="Array with the points, (P, d) or (n, P, d)."),
        click.option("--array-params", metavar="ARRAY", help="Array with parameters of each sample, (n, p)."),
        click.option("--channels", type=click.Choice(["auto", "last", "none"]), default="auto", show_default=True,
                     help="Last axis of arrays: channels, or none; auto: channels up to 16."),
    )  # fmt: skip


def time_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for time series of meshes."""
    return _with_options(
        command,
        click.option("--time", type=click.Choice(["rollout", "parameter"]),
                     help="DATA are time series, also folders of frames such as 'run_*/t_*.vtu': predict frame after "
                          "frame, or each from inputs and its time. Default for .pvd: rollout."),
        click.option("--window", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
                     help="First frames of a run that a rollout is given."),
    )  # fmt: skip


def _cell_data_choices() -> list[str]:
    """Values of the parameter `cell_data` of the estimators."""
    return ["refuse", "to_points", "cells"]


def _with_options(command: Callable[..., Any], *options: Callable[..., Any]) -> Callable[..., Any]:
    """Apply decorators such that the options are listed in their order."""
    for option in reversed(options):
        command = option(command)
    return command


def _split_names(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Split names at commas."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def choice_of_model(model: Any, **options: Any) -> Choice:
    """What a fitted model needs to be read for a prediction or a score."""
    if hasattr(model, "series_"):
        return _choice_of_series(model, **options)
    form, names = model.spec_.target_form, getattr(model, "_mesh_options", {})
    if model.spec_.has_features:
        inputs = tuple(getattr(model, "feature_names_in_", ()))
    else:
        inputs = tuple(model.spec_.input_fields or names.get("input_fields") or ())
    fields = [name for name, _ in form.components or ()] or list(names.get("target_fields") or ())
    return Choice(
        targets=tuple(form.scalar_names or fields),
        inputs=inputs,
        columns=tuple(model.spec_.param_names or ()),
        cell_data=names.get("cell_data", "refuse"),
        axes=model.spec_.kept_axes,
        n_axes=_axes_of_arrays(model.spec_),
        needs_targets=False,
        **options,
    )


def _axes_of_arrays(spec: DataSpec) -> dict[str, int]:
    """Numbers of axes of the arrays of a fit, as far as those of channels may be left out in a file."""
    if spec.is_table:
        return {"x": 2} | ({"y": spec.n_dims + 2} if spec.target_form.has_grid_axes else {})
    return {"x": spec.n_dims + 2} if spec.input_form == "grid" else {}


def _choice_of_series(model: Any, **options: Any) -> Choice:
    """What a model of time series of meshes needs to be read."""
    frames: Any = model.estimator_ if hasattr(model, "predict_interval") else model
    series, window = model.series_, getattr(frames, "window_", None)
    return Choice(
        targets=tuple(series["target_fields"]),
        inputs=tuple(series["input_fields"]) if window is None else (),
        columns=tuple(model.spec_.param_names or ()),
        cell_data=series["cell_data"],
        axes=tuple(series["axes"]),
        needs_targets=False,
        time="parameter" if window is None else "rollout",
        window=window or 1,
        n_frames=frames.n_frames_,
        **options,
    )


# ---------------------------------------------------------------------- samples
@dataclass(frozen=True)
class Samples:
    """Samples of a command."""

    #: Inputs and targets in forms that estimators take; y is None where the data hold no targets.
    X: Any
    y: Any
    #: Name of each sample: its file, or its number from 0 on.
    names: tuple[str, ...]
    #: Files that were read.
    files: tuple[Path, ...]
    #: Parameters of each run of meshes (DataFrame), one row a sample.
    params: Any = None
    #: The meshes, to which predictions are attached.
    meshes: MeshSamples | None = None
    #: All columns of the table, or of the file of parameters (DataFrame), one row a sample.
    table: Any = None
    #: Fields of meshes, or columns, that are targets; in a table without some of these, those that it holds.
    target_names: tuple[str, ...] = ()
    #: Rows of `meshes` that are samples; None for all.
    rows: Any = None
    #: Runs of time series, the use of their time, and the number of first frames that a rollout is given.
    runs: tuple[Run, ...] = ()
    time: str | None = None
    window: int = 1

    def __len__(self) -> int:
        return len(self.names)

    def take(self, rows: np.ndarray[Any, Any]) -> Samples:
        """Return the samples at these rows."""
        return replace(
            self,
            **{name: _rows_of(getattr(self, name), rows) for name in ("X", "y", "params", "table")},
            names=tuple(self.names[row] for row in rows),
            files=self.files if self.meshes is None else tuple(self.files[row] for row in rows),
            runs=tuple(self.runs[row] for row in rows) if self.runs else (),
            rows=rows if self.rows is None else self.rows[rows],
        )

    @property
    def is_table(self) -> bool:
        """Whether all was read from one table."""
        return self.meshes is None and self.table is not None

    @property
    def parameter_names(self) -> list[str] | None:
        """Names of the columns of parameters or features; None without names."""
        columns = getattr(self.X if self.is_table else self.params, "columns", None)
        return None if columns is None else [str(name) for name in columns]

    @property
    def called(self) -> tuple[str, ...]:
        """What warnings of a fit to some of the samples of a file call these, by their numbers in it."""
        is_part_of_file = self.meshes is None
        return tuple(f"{name} of {self.files[0].name}" for name in self.names) if is_part_of_file else self.names

    @property
    def paths(self) -> list[str]:
        """Paths of the files, as estimators take them."""
        if self.runs:
            return [source for run in self.runs for source in run.sources]
        return [str(file) for file in self.files]

    @property
    def parameters(self) -> Any:
        """Parameters of each run in the order of the files, as estimators take them; None without any."""
        # Without the numbers of the rows in their file, which estimators would match with those in the names of files.
        return None if self.params is None else self.params.reset_index(drop=True)

    @property
    def cells(self) -> list[Any] | None:
        """Meshes of the samples, for drawing; None without any."""
        if self.meshes is None:
            return None
        rows = range(len(self)) if self.rows is None else self.rows
        return [self.meshes.meshes[row] for row in rows]

    def describe(self) -> str:
        """Say in one line what was read."""
        if self.runs:
            return self._describe_series()
        if self.meshes is not None:
            inputs = f"{self.X.n_channels} input channels" if self.X.n_channels else "geometry"
            parameters = "" if self.params is None else f", parameters {', '.join(map(str, self.params.columns))}"
            target = f", targets: {', '.join(self.target_names)}" if self.target_names else ""
            return f"{len(self)} meshes, inputs: {inputs}{parameters}{target}"
        parts = [f"{word} {_shape_of(value)}" for word, value in (("X", self.X), ("y", self.y)) if value is not None]
        return f"{len(self)} samples of {self.files[0]}, counted from 0: {', '.join(parts)}"

    def _describe_series(self) -> str:
        """Say in one line what time series were read."""
        frames, target = self.runs[0].frames, ", ".join(self.target_names)
        parameters = "" if self.params is None else f", parameters {', '.join(map(str, self.params.columns))}"
        count = len(frames.times)
        if any(len(run.frames.times) != count for run in self.runs):
            times = "of several lengths"
        else:
            times = f"of {count} frames, times {frames.times[0]:g} to {frames.times[-1]:g} in {self.runs[0].name}"
        if self.time == "rollout":
            given = "frame 0 is given" if self.window == 1 else f"frames 0 to {self.window - 1} are given"
            how = f"{given}, {target} in the others predicted step by step"
        else:
            how = f"{target} at each time predicted from the inputs and the time"
        return f"{len(self)} run{'s' if len(self) > 1 else ''} {times}{parameters}; {how}"


def _rows_of(value: Any, rows: Any) -> Any:
    """Rows of an array, a FieldSet, a DataFrame or None."""
    from skop.data import form_of

    return None if value is None else form_of(value).cut(value, rows)


def _shape_of(value: Any) -> str:
    """Size of a container in words."""
    return repr(value) if hasattr(value, "coords") else str(tuple(value.shape))


def read_samples(data: Sequence[str], choice: Choice) -> Samples:
    """Read the DATA of a command."""
    _refuse_targets_as_inputs(choice)
    files = expand(data)
    special = next((file.suffix.lower() for file in files if not are_meshes([file])), None)
    if special is None:
        from skop.cli._series import holds_series

        is_series = holds_series(files, choice.time, says=choice.needs_targets)
        return _read_series(files, choice) if is_series else _read_meshes(files, choice)
    if choice.time is not None:
        raise click.UsageError(f"time series of meshes were expected, not {files[0].suffix} files")
    if len(files) > 1:
        words = f"DATA holds {len(files)} files with a {special} file; pass it alone"
        if special == ".csv" and choice.params is None and any(are_meshes([file]) for file in files):
            table = next(file for file in files if file.suffix.lower() == ".csv")
            words += f", or as the parameters of the meshes by --params {table}"
        raise click.UsageError(words)
    return (_read_table if special == ".csv" else _read_arrays)(files[0], choice)


def are_meshes(files: Sequence[Path]) -> bool:
    """Whether files are meshes, and not arrays or a table."""
    from skop.data import form_of

    return form_of(files[0]).on_meshes


def _refuse_targets_as_inputs(choice: Choice) -> None:
    """Raise an error if a model would be given what it is to predict."""
    # Columns and fields of a model in use are those of its fit.
    if choice.needs_targets and choice.time is None:
        for option, names in (("--input", choice.inputs), ("--param", choice.columns)):
            if both := [name for name in names if name in choice.targets]:
                raise click.UsageError(f"{both[0]!r} is both {option} and --target, so that a model would only copy it")
        if choice.x is not None and choice.x == choice.y:
            raise click.UsageError(f"{choice.x!r} is both --x and --y, so that a model would only copy it")


def expand(data: Sequence[str]) -> list[Path]:
    """Files that paths and patterns name, in natural order, so that run_2 comes before run_10."""
    from skop.data._file_guards import matches_of
    from skop.data._mesh_files import natural_key

    found: dict[str, None] = {}
    for item in data:
        path = os.path.expanduser(item)
        if os.path.isdir(path):
            raise click.UsageError(f"{item!r} is a folder; name its files, such as {os.path.join(item, '*.vtu')!r}")
        if os.path.exists(path):
            found[path] = None
            continue
        matches = matches_of(path)
        if not matches:
            what = "no file matches" if glob.has_magic(path) else "there is no file"
            raise click.UsageError(f"{what} {item!r}{_option_of(item) or _near(Path(path))}")
        found |= dict.fromkeys(matches)
    # One file by two names, such as a.vtu and ./a.vtu, would be a sample to train on and one to test on.
    distinct = {os.path.abspath(name): name for name in reversed(found)}
    return [Path(name) for name in sorted(distinct.values(), key=natural_key)]


def short_names(files: Sequence[Path]) -> tuple[str, ...]:
    """Names of files without their folders, or with the last folder if only folders differ."""
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        names = [f"{file.parent.name}_{file.name}" for file in files]
    return tuple(names) if len(set(names)) == len(names) else tuple(map(str, files))


def _option_of(item: str) -> str:
    """How to give a name, which is no path, to an option that takes one value each time; empty if none was given."""
    context = click.get_current_context(silent=True)
    if context is None or glob.has_magic(item) or (Path(item).suffix and "=" not in item) or Path(item).name != item:
        return ""
    given = [
        f"{option.opts[0]} {item}"
        for option in context.command.params
        if isinstance(option, click.Option) and option.multiple and ("=" in item) == ("=" in (option.metavar or ""))
        if context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
    ]
    return f"; an option takes one value: to give it another, write {' or '.join(given)}" if given else ""


def _near(path: Path) -> str:
    """Names in the folder of a path that are like it."""
    if not path.parent.is_dir():
        return f"; the folder {str(path.parent)!r} does not exist"
    names = sorted(item.name for item in path.parent.iterdir() if item.is_file())
    like = difflib.get_close_matches(path.name, names, n=_SHOWN, cutoff=0.4) or names[:_SHOWN]
    return f"; {str(path.parent)!r} holds {', '.join(like)}" if like else f"; {str(path.parent)!r} holds no files"


# ---------------------------------------------------------------------- meshes
def _read_meshes(files: list[Path], choice: Choice) -> Samples:
    """Read mesh files, and the parameters of each."""
    from skop.exceptions import FieldDataError

    (table, named), params = _table_of_params(files, choice), None
    scalars = [] if table is None else [name for name in choice.targets if name in table.columns]
    if scalars and len(scalars) < len(choice.targets):
        raise click.UsageError(
            f"--target names columns of {choice.params} ({', '.join(scalars)}) and fields of the meshes; take one kind"
        )
    if table is not None:
        params = _params_in(table, choice, short_names(files), leave_out=[*scalars, *named])
    targets = () if scalars else choice.targets
    if choice.needs_targets and not choice.targets:
        raise click.UsageError(
            f"--target is missing; the fields of {files[0]} are: {_listed(chain(*fields_in(files[0])))}"
        )
    try:
        samples = _open_meshes(files, choice, targets)
    except FieldDataError:
        if choice.needs_targets:
            raise
        # Meshes of a prediction need not hold the truth.
        samples, targets = _open_meshes(files, choice, ()), ()
    X = samples.select(choice.inputs)
    if params is not None:
        X = X.with_params(params.to_numpy(float))
    y = table[scalars] if table is not None and scalars else samples.select(targets) if targets else None
    return Samples(X, y, short_names(files), tuple(files), params, samples, table, tuple(scalars or targets))


def _read_series(files: list[Path], choice: Choice) -> Samples:
    """Read time series of meshes, and the parameters of each run."""
    from skop.cli._series import find_run_files, places_of, read_run_frames

    runs, time = find_run_files(files), choice.time or "rollout"
    if time == "rollout" and choice.inputs:
        raise click.UsageError(
            "--input does not apply to a rollout, whose inputs are the first frames of --target; "
            "--time parameter takes input fields from the first frame"
        )
    if choice.needs_targets and not choice.targets:
        names = [*chain(*fields_of_run(runs[0]))]
        raise click.UsageError(f"--target is missing; the fields of {runs[0].name} are: {_listed(names)}")
    table, params = read_run_table(runs, choice)
    X, y, samples = read_run_frames(
        runs, time, (choice.inputs, choice.targets), window=choice.window, n_frames=choice.n_frames,
        cell_data=choice.cell_data, axes=choice.axes, needs_targets=choice.needs_targets,
    )  # fmt: skip
    if params is not None:
        X = X.with_params(params.to_numpy(float))
    return Samples(
        X, y, tuple(run.name for run in runs), tuple(places_of(runs)), params, samples,
        table, choice.targets, runs=tuple(runs), time=time, window=choice.window,
    )  # fmt: skip


def read_run_table(runs: Sequence[Run], choice: Choice) -> tuple[Any, Any]:
    """Read the table of parameters of runs."""
    from skop.cli._series import places_of

    table, named = _table_of_params(places_of(runs), choice)
    return table, None if table is None else _params_in(table, choice, [run.name for run in runs], leave_out=named)


def fields_of_run(run: Run) -> tuple[list[str], list[str]]:
    """Names of the fields on the points, and on the cells, of a time series."""
    from skop.data import read_mesh_series

    (series, *_) = read_mesh_series(list(run.sources))
    return [*series.meshes[0].point_data], [*series.meshes[0].cell_data]


def _open_meshes(files: list[Path], choice: Choice, targets: Iterable[str]) -> MeshSamples:
    """Read the fields that are inputs and targets."""
    from skop.data import read_meshes

    names = list(dict.fromkeys([*choice.inputs, *targets]))
    return read_meshes(files, names, cell_data=choice.cell_data, axes=choice.axes)  # type: ignore[arg-type]


def fields_in(file: Path) -> tuple[list[str], list[str]]:
    """Names of the fields on the points, and on the cells, of a mesh file."""
    from skop.data._mesh_files import iterate_meshes

    (_, mesh) = next(iterate_meshes([(str(file), file)]))
    return [*mesh.point_data], [*mesh.cell_data]


def _table_of_params(files: list[Path], choice: Choice) -> tuple[Any, list[str]]:
    """Table of the parameters, with a row for each file, or None; and the columns that name the files."""
    if choice.params is None:
        if choice.columns:
            raise click.UsageError(f"parameters are needed ({', '.join(choice.columns)}); pass their table by --params")
        return None, []
    from skop.data.forms.files import read_csv

    path = Path(choice.params)
    if not path.is_file():
        raise click.UsageError(f"there is no file {choice.params!r}{_near(path)}")
    table, column = _rows_for_files(read_csv(path), files, choice)
    return table, [] if column is None else [column]


def _params_in(table: Any, choice: Choice, names: Sequence[str], leave_out: Sequence[str] = ()) -> Any:
    """Columns of a table that are parameters."""
    from skop.data.forms.files import counting_columns, numbers_of

    counting = counting_columns(table)
    for name in [] if choice.columns else counting:
        click.echo(f"{choice.params}: {name!r} only counts the rows, and is no parameter (see --param)", err=True)
    return numbers_of(
        table, choice.columns, choice.params, [*leave_out, *counting], names, chosen_by=_CHOSEN_BY["columns"]
    )


def _listed(names: Iterable[str]) -> str:
    """Names between commas."""
    return ", ".join(names) or "none"


def _rows_for_files(table: Any, files: list[Path], choice: Choice) -> tuple[Any, str | None]:
    """Rows of a table in the order of the files, by a column with their names, which is returned too, or otherwise."""
    from skop.data import Labels, pair_rows
    from skop.data.forms.files import unit_of

    names, source = [str(file) for file in files], str(choice.params)
    folders = {file.absolute().parent for file in files}
    parts = {part for file in files for part in (file.name, file.stem)}
    # A folder is the name of a run where it holds one file.
    parts |= {folder.name for folder in folders if len(folders) == len(files) > 1}
    strange = []
    for column in table.columns:
        if table[column].dtype.kind in "fiub":
            continue
        # Tables come from other systems too, where paths have backslashes.
        written = tuple(PureWindowsPath(str(value)).as_posix() for value in table[column])
        # A column of text that names no file is something else, such as a material.
        if not parts & {Path(name).name for name in written}:
            if len(set(written)) == len(written) > 1 and unit_of(table[column]) is None:
                strange.append(column)
            continue
        rows = pair_rows(Labels(written, place=f"column {column!r}"), len(table), names, names, what=source)
        if rows is None:
            return table, column
        if unused := len(table) - len(rows):
            click.echo(f"{source}: {unused} rows name files that are not among DATA; they are not used", err=True)
        return table.iloc[rows].reset_index(drop=True), column
    if strange:
        raise click.UsageError(
            f"column {strange[0]!r} of {source} has another text in each row, such as {table[strange[0]][0]!r}, but "
            f"names none of the files. Write their names there, such as {files[0].name}, or remove the column if the "
            "rows are in the order of the files."
        )
    numbered = _numbered_rows(table, names, choice)
    if numbered is not None:
        return numbered
    if len(table) != len(files):
        raise click.UsageError(
            f"{source} has {len(table)} rows and no column with names of the {len(files)} files; add such a column, "
            f"with values such as {files[0].name}"
        )
    click.echo(f"{source}: no column names files, so row 0 belongs to {files[0].name} and so on", err=True)
    return table, None


def _numbered_rows(table: Any, names: Sequence[str], choice: Choice) -> Any:
    """Rows of a table in the order of the files, by a column with their numbers, and what `_matched` leaves out."""
    import numpy as np

    from skop.data._pairing import counts_rows, is_index, rows_by_number

    # Tables that were joined hold 3.0 for run 3.
    columns = {name: table[name].to_numpy() for name in table.columns if table[name].dtype.kind in "iuf"}
    numbers = {name: column for name, column in columns.items() if (column % 1 == 0).all()}
    # Columns that were chosen are parameters, whose numbers may be consecutive by chance.
    counting = [name for name, column in numbers.items() if column.dtype.kind in "iu" and counts_rows(column)]
    in_order = [name for name in counting if (numbers[name][1:] > numbers[name][:-1]).all()]
    passed_over = {name for name in in_order if is_index(table, name)} | {*choice.targets}
    passed_over |= {name for name in {*choice.columns} & {*numbers} if np.ptp(numbers[name]) < len(table)}
    taken = {name: held for name, held in numbers.items() if name not in passed_over}
    needs_all = len(table) <= len(names)
    orders = {name: rows_by_number(held.tolist(), names, needs_all=needs_all) for name, held in taken.items()}
    found = {name: rows for name, rows in orders.items() if rows is not None}
    shuffled = [name for name in counting if name not in {*passed_over, *in_order}]
    if len({tuple(rows) for rows in found.values()}) > 1:
        raise click.UsageError(
            f"columns {', '.join(map(repr, found))} of {choice.params} all hold the numbers in the names of the files, "
            "in different orders; keep the one that numbers the files, or name the parameters by --param"
        )
    if found:
        column = next(iter(found))
        return _matched(table, column, found[column], choice, counts=column in counting)
    if shuffled and len(table) == len(names):
        raise click.UsageError(
            f"column {shuffled[0]!r} of {choice.params} numbers the runs ({_listed(map(str, numbers[shuffled[0]][:3]))}"
            f", ...) in another order than the files, whose names hold no such numbers. Name the files in a column, "
            f"sort the table, or name the parameters by --param if {shuffled[0]!r} is one"
        )
    return None


def _matched(table: Any, column: str, rows: Any, choice: Choice, *, counts: bool) -> tuple[Any, str | None]:
    """Rows of a table that files belong to by a column, and this column if it only counts rows, some without a file."""
    kept = sorted(table[column].iloc[rows])
    counts |= table[column].dtype.kind in "iu" and kept == [kept[0] + step for step in range(len(kept))]
    also = "" if choice.columns or counts else ", and are a parameter too (see --param)"
    click.echo(
        f"{choice.params}: the numbers in column {column!r} are matched with those in the names of the files{also}",
        err=True,
    )
    unused = table[column].drop(rows)
    if len(unused):
        words = [f"{number:.0f}" for number in unused[:_SHOWN]] + ["..."] * (len(unused) > _SHOWN)
        what = "rows have no file and are" if len(unused) > 1 else "row has no file and is"
        click.echo(f"{choice.params}: {len(unused)} {what} not used: {_listed(words)}", err=True)
    # With gaps, the numbers would be a parameter.
    return table.iloc[rows].reset_index(drop=True), column if counts and len(unused) else None


# ---------------------------------------------------------------------- arrays and tables
def _read_table(path: Path, choice: Choice) -> Samples:
    """Read a table of features and scalars."""
    from skop.data.forms.files import numbers_of, read_csv

    _refuse_options(choice, ("params", "x", "y", "coords", "array_params"), ".csv")
    table = read_csv(path)
    if choice.needs_targets and not choice.targets:
        raise click.UsageError(f"--target is missing; the columns of {path} are: {_listed(table.columns)}")
    known = choice.targets
    if not choice.needs_targets:
        # Rows to predict need not hold the truth, or only that of some targets.
        found = [name for name in choice.targets if name in table.columns]
        known = tuple(name for name in found if table[name].dtype.kind in "fiub" and table[name].notna().all())
    y = numbers_of(table, known, str(path)) if known and known == choice.targets else None
    X = numbers_of(table, choice.inputs, str(path), leave_out=choice.targets, chosen_by=_CHOSEN_BY["columns"])
    return Samples(X, y, _numbers(len(table)), (path,), table=table, target_names=known)


def _read_arrays(path: Path, choice: Choice) -> Samples:
    """Read the arrays of a file."""
    from skop.data.forms.files import read_arrays

    _refuse_options(choice, ("params", "targets", "inputs", "columns"), path.suffix, from_user=choice.needs_targets)
    names = {"x": choice.x, "y": choice.y, "coords": choice.coords, "params": choice.array_params}
    X, y = read_arrays(
        path, names, choice.channels, n_axes=choice.n_axes, needs_targets=choice.needs_targets, chosen_by=_CHOSEN_BY,
        say=lambda text: click.echo(text, err=True),
    )  # fmt: skip
    return Samples(X, y, _numbers(len(X)), (path,))


def _numbers(count: int) -> tuple[str, ...]:
    """Names of samples of one file, counted from 0 as in messages of the estimators."""
    return tuple(f"sample {row}" for row in range(count))


def _refuse_options(choice: Choice, names: Sequence[str], ending: str, from_user: bool = True) -> None:
    """Raise an error for options that have no meaning for a kind of file."""
    words = {"targets": "target", "inputs": "input", "columns": "param"}
    given = [words.get(name, name).replace("_", "-") for name in names if getattr(choice, name)]
    if given and from_user:
        raise click.UsageError(f"--{given[0]} does not apply to {ending} files")
