"""``skop describe`` says what data are, what is wrong with them, and what to start with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skop.cli._data import Choice, Samples, array_options, expand, field_options, fields_in, read_samples
from skop.cli._models import check_report, check_writable

if TYPE_CHECKING:
    from skop.inspection import Finding

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
@array_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE.html",
              help="Report to write, one file that any browser shows.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite existing output files.")
def describe(data: tuple[str, ...], as_json: bool, report: Path | None, force: bool, **choice: Any) -> None:
    """Say what DATA are, what is wrong with them, and what to start with.

    Files that cannot be read, and runs with NaN, other units, copies or points far away, are named. Without --target
    and --input, all fields on the points of meshes are looked at.
    """
    from skop.inspection import describe_data, write_report

    files = expand(data)
    check_report(report)
    if report is not None:
        check_writable(report, files, force)
    samples, unread = _read_what_can_be_read(files, Choice(**choice, needs_targets=False))
    description = describe_data(samples.X, samples.y, names=samples.names, parameter_names=samples.parameter_names)
    description = replace(description, findings=(*unread, *description.findings))
    click.echo(json.dumps(description.to_dict(), indent=2) if as_json else str(description))
    if report is not None:
        write_report(report, description=description)
        click.echo(f"{report}: report", err=True)


def _read_what_can_be_read(files: list[Path], choice: Choice) -> tuple[Samples, list[Finding]]:
    """Samples of the files that can be read, and a finding for each of the others."""
    from skop.exceptions import FieldDataError
    from skop.inspection import Finding

    is_meshes = files[0].suffix.lower() not in (".npz", ".mat", ".csv")
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
                findings.append(Finding("problem", str(failure).rstrip("."), (file.name,)))
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
