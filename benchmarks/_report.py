"""Tables of measurements, with the command, versions, machine and defaults that are needed to repeat them."""

import inspect
import json
import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch

import skop.estimators
from skop._typing import PathOrStr
from skop._version import __version__
from skop.estimators.files._old_parameters import renamed
from skop.estimators.fitting._objective import AUTOMATIC_LOSSES
from skop.networks import AMOPatchNetwork, GeoMaNONetwork, LaMOPatchNetwork, PatchNetwork

__all__ = ["Report", "defaults_of", "mean_and_spread", "mean_change", "read_report", "versions"]

#: Name of the record of defaults among the numbers of a file.
_DEFAULTS = "defaults"
#: Encoding of patches, and the networks that say what its default stands for.
_ENCODING = "patches__positional_encoding"
_PATCH_NETWORKS: dict[str, type[PatchNetwork]] = {
    "LaMORegressor": LaMOPatchNetwork,
    "GeoMaNORegressor": GeoMaNONetwork,
    "AMORegressor": AMOPatchNetwork,
}
#: Beginnings of names in records from before parts were parameters.
_GROUPS = ("architecture__", "training__")


def defaults_of(name: str) -> dict[str, Any]:
    """Default parameters of an estimator and of its parts, as JSON holds them.

    Parameters
    ----------
    name : str
        Class, and a preset after a blank: ``"LaMORegressor"``, ``"GeoMaNORegressor darcy"``.

    Returns
    -------
    dict
        Values by the names that `set_params` takes; that of a part is the name of its class.

    Examples
    --------
    >>> from benchmarks._report import defaults_of
    >>> defaults_of("LaMORegressor")["training__optimizer"]
    'muon'
    """
    kind, _, preset = name.partition(" ")
    estimator = getattr(skop.estimators, kind)
    found = estimator.from_preset(preset).get_params(deep=False) if preset else _signature(estimator)
    for option, usual in getattr(estimator, "_usual_parts", dict)().items():
        part = usual if found[option] is None else found[option]
        found[option] = type(part).__name__
        found |= {f"{option}__{inner}": value for inner, value in part.get_params(deep=False).items()}
    if found.get("loss") == "auto":
        found["loss"] = f"auto: {', '.join(AUTOMATIC_LOSSES)}"
    if found.get(_ENCODING) == "auto":
        found[_ENCODING] = _PATCH_NETWORKS[kind].automatic_encoding
    values: dict[str, Any] = json.loads(json.dumps(found, default=repr))
    return values


def _signature(kind: Any) -> dict[str, Any]:
    """Parameters of a constructor that have a default, with it."""
    parameters = inspect.signature(kind).parameters.values()
    return {part.name: part.default for part in parameters if part.default is not inspect.Parameter.empty}


def read_report(path: PathOrStr) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Read the JSON file of a report.

    Parameters
    ----------
    path : path-like
        Either of its two files.

    Returns
    -------
    numbers : dict
        Numbers behind each row.
    defaults : dict or None
        Default parameters that the rows were measured with, by the names of `defaults_of`, also if they had others
        when the file was written; None in a file without.
    """
    numbers = json.loads(Path(path).with_suffix(".json").read_text(encoding="utf-8"))
    defaults = numbers.pop(_DEFAULTS, None)
    if defaults is None:
        return numbers, None
    return numbers, {name: _renamed_defaults(name, earlier) for name, earlier in defaults.items()}


def _renamed_defaults(name: str, earlier: dict[str, Any]) -> dict[str, Any]:
    """Recorded defaults by the names of today, which the parameters in old model files get too."""
    state: dict[str, Any] = {key: value for key, value in earlier.items() if not key.startswith(_GROUPS)}
    for group in _GROUPS:
        held = {key.removeprefix(group): value for key, value in earlier.items() if key.startswith(group)}
        state |= {group.removesuffix("__"): {"state": held}} if held else {}
    state_now = renamed(name.partition(" ")[0], state)
    if state_now == state:
        return earlier
    found = {"scaling": "ScalingOptions", "symmetries": "SymmetryOptions"}
    for key, value in state_now.items():
        if isinstance(value, dict) and "object" in value:
            found[key] = value["object"]
            found |= {f"{key}__{inner}": held for inner, held in value["state"].items()}
        else:
            found[key] = value
    return found


def versions() -> dict[str, str]:
    """Return the versions of what numbers depend on.

    Returns
    -------
    dict of str
        By the names of packages.
    """
    found = {"skop": __version__, "torch": torch.__version__, "scikit-learn": sklearn.__version__}
    return found | {"numpy": np.__version__, "Python": platform.python_version()}


def mean_and_spread(values: Sequence[float]) -> str:
    """Write a mean with its standard deviation over repetitions.

    Parameters
    ----------
    values : sequence of float
        One number for each repetition.

    Returns
    -------
    str
        Such as ``"0.0712 ± 0.0009"``, or ``"7.12e-05 ± 9.0e-07"`` for small numbers; without a spread for a single
        value.

    Examples
    --------
    >>> from benchmarks._report import mean_and_spread
    >>> mean_and_spread([0.07, 0.08])
    '0.0750 ± 0.0071'
    """
    is_small = 0 < abs(np.mean(values)) < 1e-4
    spread = f" ± {np.std(values, ddof=1):{'.1e' if is_small else '.4f'}}" if len(values) > 1 else ""
    return f"{np.mean(values):{'.2e' if is_small else '.4f'}}{spread}"


def mean_change(logarithms: Any) -> str:
    """Write the mean of relative changes with its standard error.

    Parameters
    ----------
    logarithms : array-like of shape (n,)
        Logarithm of the quotient of two numbers, one for each repetition.

    Returns
    -------
    str
        Such as ``"+12.3 ± 2.1 %"``; without a standard error for a single value.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks._report import mean_change
    >>> mean_change(np.log([0.9, 0.8]))
    '-15.0 ± 5.0 %'
    """
    changes = 100 * np.expm1(logarithms)
    error = f" ± {np.std(changes, ddof=1) / np.sqrt(len(changes)):.1f}" if len(changes) > 1 else ""
    return f"{np.mean(changes):+.1f}{error} %"


class Report:
    """Rows of a measurement, printed as they come and written as Markdown and JSON.

    Parameters
    ----------
    title : str
        Heading.
    path : path-like or None
        Markdown file to write, with a JSON file of all numbers beside it; None only prints.
    models : iterable of str, default=()
        Estimators whose defaults the numbers depend on, by the names of `defaults_of`. The JSON file records the
        defaults.
    """

    def __init__(self, title: str, path: PathOrStr | None, models: Iterable[str] = ()) -> None:
        self.title, self.path = title, None if path is None else Path(path)
        self.parts: list[str] = []
        self.numbers: dict[str, Any] = {}
        self.defaults: dict[str, Any] | None = {name: defaults_of(name) for name in dict.fromkeys(models)}

    def table(self, heading: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
        """Add a table, with a paragraph before it, and save what there is so far."""
        lines = [
            f"## {heading}",
            "",
            *([note, ""] if note else []),
            "| " + " | ".join(columns) + " |",
            "|" + "---|" * len(columns),
        ]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
        self.parts.append("\n".join(lines) + "\n")
        print(self.parts[-1], flush=True)
        self.save()

    def record(self, name: str, numbers: Mapping[str, Any]) -> None:
        """Keep the numbers behind a row."""
        self.numbers[name] = dict(numbers)
        print(f"{name}: {json.dumps(numbers)}", file=sys.stderr, flush=True)
        self.save()

    def resume(self) -> None:
        """Take over the numbers of an earlier run from the JSON file, if there is one."""
        if self.path is not None and self.path.with_suffix(".json").exists():
            self.take_over(self.path)

    def take_over(self, path: PathOrStr, keep: Callable[[str], bool] = lambda name: True) -> None:
        """Take over those numbers of another run whose name passes, and the defaults that they were measured with."""
        numbers, defaults = read_report(path)
        kept = {name: row for name, row in numbers.items() if keep(name)}
        self.numbers |= kept
        # Numbers of other defaults, or of unknown ones, are not today's.
        if kept:
            self.defaults = None if self.defaults is None or defaults is None else self.defaults | defaults

    def save(self) -> None:
        """Write both files; each is replaced as a whole, so that a cut run leaves no half of one."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        words = f"# {self.title}\n\n{self.circumstances()}\n\n"
        texts = {self.path: words + "\n".join(self.parts)}
        record = {} if self.defaults is None else {_DEFAULTS: self.defaults}
        texts[self.path.with_suffix(".json")] = json.dumps(self.numbers | record, indent=1) + "\n"
        for path, text in texts.items():
            part = path.with_name(f"{path.name}.part")
            part.write_text(text, encoding="utf-8")
            part.replace(path)

    @staticmethod
    def circumstances() -> str:
        """Command, versions, machine and date."""
        words = (Path(word).name if os.sep in word else word for word in sys.argv[1:])
        stated = ", ".join(f"{name} {version}" for name, version in versions().items())
        machine = f"{platform.machine()}, {os.cpu_count()} cores"
        return f"`python -m benchmarks {shlex.join(words)}`\n\n{stated}; {machine}; {datetime.now(UTC):%Y-%m-%d}."
