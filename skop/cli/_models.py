"""Estimators by their names on the command line, values of ``--set``, and files that are written."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

__all__ = ["NAMES", "check_report", "check_writable", "make_estimator", "parse_settings"]

#: Estimators by their short names.
NAMES = {
    "lamo": "LaMORegressor",
    "geomano": "GeoMaNORegressor",
    "mno": "MNORegressor",
    "amo": "AMORegressor",
    "pod": "PODRegressor",
    "transolver": "TransolverRegressor",
    "deeponet": "DeepONetRegressor",
    "unet": "UNetRegressor",
    "fno": "FNORegressor",
    "mean": "MeanFieldRegressor",
}


def make_estimator(name: str, settings: dict[str, Any], **options: Any) -> Any:
    """Create an estimator.

    Parameters
    ----------
    name : str
        Key of `NAMES`.
    settings : dict
        Parameters that the user set by their names; they win over `options`.
    **options
        Values of the options of the command; those that are None are left at the defaults of the estimator, and those
        that the estimator does not have are an error, except for `verbose` and `random_state`.

    Returns
    -------
    estimator
        Estimator that is not fitted.

    Raises
    ------
    click.UsageError
        If the estimator has no such parameter.
    """
    from skop import estimators

    estimator = getattr(estimators, NAMES[name])()
    known = set(estimator.get_params())
    words = {"max_iter": "epochs", "max_time": "max-time"}
    wanted = {}
    for key, value in options.items():
        if value is None or (key not in known and key in ("verbose", "random_state")):
            continue
        if key not in known:
            raise click.UsageError(f"--{words.get(key, key)} does not apply to --estimator {name}")
        wanted[key] = value
    try:
        return estimator.set_params(**(wanted | settings))
    except ValueError as error:
        raise click.UsageError(f"--set: {error}") from error


def parse_settings(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> dict[str, Any]:
    """Convert ``name=value`` to parameters; values are JSON, Python literals, or text."""
    settings = {}
    for item in values:
        name, equals, text = item.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{item!r} is not of the form name=value, such as width=32")
        settings[name.strip()] = _parse_value(text.strip())
    return settings


def _parse_value(text: str) -> Any:
    """Value of a text: JSON, a Python literal, or the text itself."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError):
            continue
    return text


def check_writable(path: Path, inputs: Sequence[Path], force: bool) -> Path:
    """Check before any work that a file may be written, and create its folder.

    Parameters
    ----------
    path : Path
        File to write.
    inputs : sequence of Path
        Files that are read, which are never overwritten.
    force : bool
        Whether an existing file may be replaced.

    Returns
    -------
    Path
        The same path.

    Raises
    ------
    click.UsageError
        If the file is one of the inputs, a folder, or exists and `force` is not set.
    """
    target = path.resolve()
    if any(target == item.resolve() for item in inputs):
        raise click.UsageError(f"{path} is an input file; choose another output by -o")
    if target.is_dir():
        raise click.UsageError(f"{path} is a folder; name a file")
    if target.exists() and not force:
        raise click.UsageError(f"{path} exists; choose another output by -o, or overwrite it by --force")
    target.parent.mkdir(parents=True, exist_ok=True)
    return path


def check_report(report: Path | None) -> None:
    """Check before any work that the pictures of a report can be drawn.

    Parameters
    ----------
    report : Path or None
        Report to write; None needs nothing.

    Raises
    ------
    OptionalDependencyError
        If matplotlib is not installed.
    """
    if report is not None:
        from skop._optional import import_optional

        import_optional("matplotlib", extra="plot", purpose="draw the pictures of the report")
