"""Estimators by their names on the command line, values of ``--set``, and files that are written."""

from __future__ import annotations

import ast
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from skop._files import require_writable

__all__ = [
    "CLASSICAL",
    "NAMES",
    "check_outputs",
    "check_report",
    "identity",
    "load_model",
    "make_estimator",
    "parse_settings",
    "require_output",
    "save_model",
]

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
    "auto": "AutoRegressor",
}
#: Those that are not trained step by step, and have no limits of a training.
CLASSICAL = ("pod", "mean")


def make_estimator(
    name: str, settings: dict[str, Any], *, time: str | None = None, window: int = 1, **options: Any
) -> Any:
    """Create an estimator."""
    from skop import estimators

    for key, option in {"target_fields": "--target", "input_fields": "--input", "cell_data": "--cell-data"}.items():
        if key in settings:
            raise click.UsageError(f"--set {key} does not apply: {option} says it")
    if time is not None:
        return _make_series_estimator(name, settings, time, window, **options)
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


def _make_series_estimator(name: str, settings: dict[str, Any], time: str, window: int, **options: Any) -> Any:
    """Create an estimator for time series; settings are those of the wrapper, if it has them, or of the wrapped."""
    from skop import estimators

    taken = {"window": "--window says it", "n_steps": "all frames of DATA are learned", "times": "DATA hold them"}
    for key in settings:
        if key in taken:
            raise click.UsageError(f"--set {key} does not apply: {taken[key]}")
    own = ("unroll", "noise", "increments") if time == "rollout" else ("grouping",)
    inner = make_estimator(name, {key: value for key, value in settings.items() if key not in own}, **options)
    outer = {key: value for key, value in settings.items() if key in own}
    seed = inner.get_params().get("random_state")
    if time == "rollout":
        return estimators.RolloutRegressor(inner, window=window, random_state=seed, **outer)
    return estimators.TimeConditionedRegressor(inner, random_state=seed, **outer)


def load_model(path: Path) -> Any:
    """Load a model that the commands can use."""
    from skop.estimators import load

    model = load(path)
    if not hasattr(model, "spec_"):
        raise click.UsageError(
            f"{path} holds a {type(model).__name__}, which the commands cannot use; load it in Python by skop.load"
        )
    return model


def parse_settings(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> dict[str, Any]:
    """Convert ``name=value`` to parameters; values are JSON, Python literals, or text."""
    settings = {}
    for item in values:
        name, equals, text = item.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{item!r} is not of the form name=value, such as width=32")
        try:
            settings[name.strip()] = _parse_value(text.strip())
        except (RecursionError, MemoryError):
            raise click.BadParameter(f"the value of {name.strip()!r} is nested too deeply") from None
    return settings


def _parse_value(text: str) -> Any:
    """Value of a text: JSON, a Python literal, or the text itself."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError):
            continue
    return text


def identity(path: Path) -> tuple[int, int] | str:
    """What all paths to one file have in common, also links of either kind; a file that is written has another one."""
    try:
        found = path.stat()
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def _check_writable(path: Path, given: Sequence[Path], force: bool) -> None:
    """Check before any work that a file, one of those given, may be written, and create its folder."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise click.UsageError(f"{path} is a folder; name a file")
    if target.exists() and not force:
        count = sum(other.exists() for other in given)
        also = f", and so do {count - 1} more of the {len(given)} outputs" if count > 1 else ""
        it = "them" if also else "it"
        raise click.UsageError(f"{path} exists{also}; choose another output by -o, or overwrite {it} by --force")
    require_output(path)


def require_output(path: Path) -> None:
    """Create the folder of a file, and check before any work that the file may be written."""
    try:
        with suppress(FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
        require_writable(path)
        if path.exists():
            with path.open("ab"):
                pass
    except OSError as error:
        # Those of skop are sentences, those of the system a few words.
        words = f"cannot write {path}: {error.strerror}; choose another output" if error.errno else str(error)
        raise click.UsageError(words) from error


def check_outputs(paths: Sequence[Path | None], inputs: Sequence[Path | str | None], force: bool) -> None:
    """Check before any work that files may be written, and that none is an input or another of them."""
    given = [path for path in paths if path is not None]
    # Each file is asked once: pairs of thousands would take longer than their predictions.
    read, written = {identity(Path(item)) for item in inputs if item is not None}, set()
    for path in given:
        if (file := identity(path)) in written:
            raise click.UsageError(f"{path} would be written twice; choose another --report")
        if file in read:
            raise click.UsageError(f"{path} is an input file; choose another output by -o")
        written.add(file)
        _check_writable(path, given, force)


def save_model(model: Any, path: Path) -> Path:
    """Save a model; if the file cannot be written any more, to the folder for temporary files."""
    try:
        model.save(path)
    except OSError as error:
        other = Path(tempfile.mkdtemp(prefix="skop-")) / path.name
        model.save(other)
        click.echo(
            f"skop fit: cannot write {path} ({error.strerror or error}); the model was saved to {other}", err=True
        )
        return other
    return path


def check_report(report: Path | None) -> None:
    """Check before any work that the pictures of a report can be drawn."""
    if report is not None:
        from skop._optional import import_optional

        import_optional("matplotlib", purpose="draw the pictures of the report")
