"""``skop describe`` says what data are and what is wrong with them, and what a model is: its card."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
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

#: Width of a line of a model card, of the names of its parts, and the number of ranges of one kind that it lists.
_WIDTH, _NAMES, _SHOWN = 100, 11, 6


@click.command(
    short_help="What data are, and what is wrong with them; or what a model is.",
    epilog="""\b
Examples:
  skop describe 'runs/*.vtu'
  skop describe 'runs/*.vtu' --target mises --params doe.csv --report data.html
  skop describe flow.npz --json
  skop describe model.skop""",
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

    Of a model file, such as model.skop, the card is shown: what it was fitted on, its errors and bands, and versions.
    """
    from skop.inspection import write_report

    files = expand(data)
    if any(file.suffix == ".skop" for file in files):
        if len(files) > 1 or report is not None or Choice(**choice) != Choice():
            raise click.UsageError("a model file is described alone, and with no other option than --json")
        click.echo(_card_of(files[0], as_json))
        return
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


# ---------------------------------------------------------------------- models
def _card_of(path: Path, as_json: bool) -> str:
    """The card of a model file, as JSON or in words."""
    from skop.estimators.files._persistence import read_card
    from skop.exceptions import ModelFileError

    card = read_card(path)
    if as_json:
        return json.dumps(card, indent=2)
    try:
        lines = [*_wrapped(f"{path.name}: ", card["estimator"], "  "), *_lines_of(card)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path} has a card with missing or wrong values ({error}); save it again.") from error
    # Names in a file from elsewhere may hold codes that control a terminal.
    return "\n".join("".join(sign if sign.isprintable() else "?" for sign in line) for line in lines)


def _wrapped(start: str, text: str, indent: str) -> list[str]:
    """Lines of a text that starts and goes on after these."""
    return textwrap.wrap(text, _WIDTH, initial_indent=start, subsequent_indent=indent)


def _lines_of(card: dict[str, Any], level: int = 0, checksum: str | None = None) -> Iterator[str]:
    """Lines of a card; those of models that it holds are indented, and do not repeat the data of this checksum."""
    indent = "  " * level
    for name, text in _rows_of(card, checksum, is_inner=level > 0):
        yield from _wrapped(f"{indent}{name:<{_NAMES}}", text, f"{indent}{'':<{_NAMES}}")
    held = card.get("holds", [])
    for inner in held[:1]:
        yield from _wrapped(f"{indent}holds ", inner["estimator"], f"{indent}  ")
        yield from _lines_of(inner, level + 1, card.get("data", {}).get("checksum"))
    if len(held) > 1:
        yield f"{indent}and {len(held) - 1} more like it, which --json shows"


def _rows_of(card: dict[str, Any], checksum: str | None, *, is_inner: bool) -> Iterator[tuple[str, str]]:
    """Names and texts of the parts of a card."""
    fit, data, network = (card.get(name, {}) for name in ("fit", "data", "network"))
    if "note" in card:
        yield "note", card["note"]
    if "date" in fit:
        date = fit["date"].replace("T", " ").replace("+00:00", " UTC")
        count = f", on {data['samples']} samples" if is_inner and "samples" in data else ""
        yield "fitted", f"{date}, in {fit['seconds']:.3g} s{count}"
    if "versions" in card:
        versions = sorted(card["versions"].items(), key=lambda item: item[0] != "skop")
        yield "versions", ", ".join(f"{name} {version}" for name, version in versions)
    if data and (not is_inner or data.get("checksum", checksum) != checksum):
        yield from _rows_of_data(data)
    if "split" in fit:
        counts = sorted(fit["split"].items(), key=lambda item: -item[1])
        yield "split", ", ".join(f"{count} samples for {what}" for what, count in counts)
    if network:
        yield (
            "network",
            (
                f"{network['weights']:,} weights in {network['precision']} on geometry {network['geometry']!r}; "
                f"{network['epochs']} epochs, ended by {network['ended_by']}, weights of epoch {network['kept_epoch']}"
            ),
        )
    if "shares_over_base" in network:
        shares = ", ".join(f"{name}: {share:.3g}" for name, share in network["shares_over_base"].items())
        yield "share", f"of the network over its base, from 0 (base alone) to 1; {shares}"
    yield from _rows_of_errors(card)


def _rows_of_errors(card: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and texts of the errors of a model and of its bands."""
    for name, error in card.get("errors", {}).items():
        parts = sorted(error.items(), key=lambda item: item[1]) if isinstance(error, dict) else [("", error)]
        yield "error", f"{name}: " + ", ".join(f"{word} {100 * part:.3g} %".strip() for word, part in parts)
    if "bands" in card:
        bands = card["bands"]
        yield (
            "bands",
            (
                f"hold {100 * bands['coverage']:.3g} %, {bands['guarantee']}, by {bands['method']} on "
                f"{bands['calibrated_on']} samples or groups, scale {bands['scale']}"
            ),
        )
        for key, words in {"half_width": "", "half_width_over_scale": " times the scale"}.items():
            if key in bands:
                yield "width", _some([f"{name}: -+{half:.3g}{words}" for name, half in bands[key].items()])


def _rows_of_data(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and texts of what is known of the samples of a fit."""
    low, high = data.get("points", (1, 1))
    words = f"{data['samples']} samples" if "samples" in data else "samples"
    if high > 1:
        words += f" of {low if low == high else f'{low} to {high}'} points"
    if data["grid"] is not None and len(data["grid"]) == data["dimensions"] and max(data["grid"]) > 1:
        words += f" on a grid of {' x '.join(map(str, data['grid']))}"
    if high > 1 and "coordinates" in data:
        box = ", ".join(f"{start:.4g} to {end:.4g}" for start, end in data["coordinates"])
        words += f" in {data['dimensions']}-D ({box})"
    yield "data", f"{words}; X came as {data['form']!r}"
    if "checksum" in data:
        yield "checksum", f"{data['checksum']} (SHA-256 of X and y)"
    for role in ("input", "parameter", "target"):
        columns = [column for column in data["columns"] if column["role"] == role]
        if columns:
            yield f"{role}s", _some([_range_in_words(column) for column in columns])


def _range_in_words(column: dict[str, Any]) -> str:
    """Name and range of a channel, parameter or scalar."""
    if "range" not in column:
        return str(column["name"])
    # A zero has no sign here.
    low, high = (limit + 0.0 for limit in column["range"])
    return f"{column['name']}: {low:.4g} to {high:.4g}"


def _some(texts: list[str]) -> str:
    """The first of many texts."""
    return ", ".join(texts[:_SHOWN] + ([f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []))
