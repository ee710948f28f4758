"""``skop describe`` says what data are, what is wrong with them, and what to start with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skop.cli._data import (
    Choice,
    Samples,
    are_meshes,
    array_options,
    expand,
    field_options,
    fields_in,
    fields_of_run,
    read_run_table,
    read_samples,
    time_options,
)
from skop.cli._models import check_outputs, check_report

if TYPE_CHECKING:
    from skop.inspection import DataDescription, Finding

__all__ = ["describe"]


@click.command(
    short_help="What data are, what is wrong with them, what to start with.",
    epilog="""\b
Examples:
  skop describe 'runs/*.vtu'
  skop describe 'runs/*.vtu' --target mises --params doe.csv --report data.html
  skop describe flow.npz --json""",
)
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@field_options
@time_options
@array_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE.html",
              help="Report to write, one file that any browser shows.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite existing output files.")
def describe(data: tuple[str, ...], as_json: bool, report: Path | None, force: bool, **choice: Any) -> None:
    """Say what DATA are, what is wrong with them, and what to start with.

    Files that cannot be read, and runs with NaN, other units, copies or points far away, are named. Without --target
    and --input, all fields on the points of meshes are looked at. Of time series, the numbers are those of all frames.
    """
    from skop.inspection import write_report

    files = expand(data)
    check_report(report)
    check_outputs([report], [*files, choice["params"]], force)
    description = _describe(files, Choice(**choice, needs_targets=False))
    click.echo(json.dumps(description.to_dict(), indent=2) if as_json else str(description))
    if report is not None:
        write_report(report, description=description)
        click.echo(f"{report}: report", err=True)


def _describe(files: list[Path], choice: Choice) -> DataDescription:
    """Describe what can be read."""
    from skop.cli._series import holds_series
    from skop.inspection import describe_data

    is_meshes = are_meshes(files)
    if is_meshes and holds_series(files, choice.time, says=not choice.targets):
        return _describe_series(files, choice)
    samples, unread = _read_what_can_be_read(files, choice)
    description = describe_data(samples.X, samples.y, names=samples.names, parameter_names=samples.parameter_names)
    return replace(description, findings=(*unread, *description.findings))


def _describe_series(files: list[Path], choice: Choice) -> DataDescription:
    """Describe time series."""
    from skop.cli._series import find_run_files
    from skop.inspection import describe_runs

    runs = find_run_files(files)
    fields = [*choice.inputs, *choice.targets]
    if not fields:
        on_points, on_cells = fields_of_run(runs[0])
        fields = on_points if choice.cell_data == "refuse" else [*on_points, *on_cells]
    params = read_run_table(runs, choice)[1]
    return describe_runs(
        [run.frames for run in runs],
        list(dict.fromkeys(fields)),
        names=[run.name for run in runs],
        cell_data=choice.cell_data,
        params=params,
        parameter_names=None if params is None else [str(name) for name in params.columns],
    )


def _read_what_can_be_read(files: list[Path], choice: Choice) -> tuple[Samples, list[Finding]]:
    """Samples of the files that can be read, and a finding for each of the others."""
    from skop.exceptions import FieldDataError
    from skop.inspection import Finding

    is_meshes = are_meshes(files)
    if is_meshes and not choice.targets and not choice.inputs:
        found = next((names for names in map(_fields_or_none, files) if names is not None), [])
        choice = replace(choice, inputs=tuple(found))
    elif choice.targets:
        choice = replace(choice, needs_targets=True)
    try:
        return read_samples([str(file) for file in files], choice), []
    except FieldDataError as error:
        if not is_meshes:
            raise
        whole, findings = [], []
        for file in files:
            try:
                read_samples([str(file)], replace(choice, params=None))
                whole.append(file)
            except FieldDataError as failure:
                findings.append(Finding("problem", f"{file.name}: {failure}", (file.name,)))
        if not whole or not findings:
            raise error
        return read_samples([str(file) for file in whole], choice), findings


def _fields_or_none(file: Path) -> list[str] | None:
    """Names of the fields on the points of a mesh file; None where it cannot be read."""
    from skop.exceptions import FieldDataError

    try:
        return fields_in(file)[0]
    except FieldDataError:
        return None
