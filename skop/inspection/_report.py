"""A report on data, errors and models as one HTML file, which needs nothing outside itself.

Every part of the page is a method of one class; all text that comes from the user goes through `html.escape`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from skop._files import require_writable, write_in_one_step
from skop._typing import FloatArray, PathOrStr
from skop._version import __version__
from skop.data import FieldSet, form_of, read_meshes
from skop.exceptions import FieldDataError
from skop.inspection._analysis import named
from skop.inspection._comparison import ModelResult, compare_models
from skop.inspection._description import DataDescription, describe_data
from skop.inspection._evaluation import Evaluation, evaluate
from skop.inspection._report_pictures import SvgPictures, triangles_of

__all__ = ["write_report"]

#: Number of rows of a table that are open; the others can be unfolded.
_OPEN_ROWS = 12
#: Number of channels and scalars of which pictures are drawn.
_MOST_PICTURES = 3
#: Number of samples from which a histogram of their errors says more than the table.
_ENOUGH_FOR_HISTOGRAM = 12

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
:root { --text: #1d2733; --soft: #5b6875; --line: #dde3ea; --back: #ffffff; --card: #f5f7fa; --mark: #2f7fc1;
  --bad: #b3402a; --code: #eef2f6; }
@media (prefers-color-scheme: dark) { :root { --text: #dfe6ee; --soft: #98a5b3; --line: #2f3945; --back: #12171d;
  --card: #1a2129; --mark: #5fa8e0; --bad: #ef8468; --code: #202933; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 66rem; color: var(--text); background: var(--back);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.75rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; overflow-wrap: anywhere; }
p { margin: .5rem 0; } .soft { color: var(--soft); } .bad { color: var(--bad); font-weight: 600; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: 1.5rem 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .8rem 1rem; }
.tile b { display: block; font-size: 1.45rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } td.n, th.n { text-align: right; }
td.name { max-width: 22rem; overflow: hidden; text-overflow: ellipsis; }
td.wide { white-space: normal; } tr.own td { font-weight: 650; }
td.bar { width: 32%; min-width: 6rem; padding-right: 0; }
td.bar i { display: block; height: .7rem; border-radius: .2rem; background: var(--mark); min-width: 2px; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(16rem, 1fr)); gap: 1rem; }
.pictures.single { max-width: 34rem; }
figure { margin: 0; break-inside: avoid; } figure svg { display: block; width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .85rem; }
ul { padding-left: 1.2rem; margin: .5rem 0; } li { margin: .25rem 0; overflow-wrap: anywhere; }
pre { background: var(--code); border-radius: .5rem; padding: .8rem 1rem; overflow-x: auto; font-size: .85rem; }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--mark); }
dl { display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: .3rem 1rem; margin: .5rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
@media (max-width: 30rem) { body { padding: 1.25rem .9rem 3rem; } td.bar, th.bar { display: none; }
  table { font-size: .8rem; } th, td { padding-right: .5rem; } td.name { white-space: normal; overflow-wrap: anywhere; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } .tiles { grid-template-columns: 1fr 1fr; } }
@media print { body { max-width: none; padding: 0; font-size: 11pt; } h2, h3 { break-after: avoid; }
  tr, .tile { break-inside: avoid; } }
</style>
</head>
<body>
<header>
<h1>$title</h1>
<p class="soft">$subtitle</p>
$tiles
</header>
<main>
$sections
</main>
<footer>Written by skop $version, $date. Errors are relative L2 errors, ||predicted − true|| / ||true||.</footer>
</body>
</html>
""")


def write_report(
    path: PathOrStr,
    estimator: Any = None,
    X: Any = None,
    y: Any = None,
    *,
    train: tuple[Any, Any] | None = None,
    names: Sequence[str] | None = None,
    train_names: Sequence[str] | None = None,
    parameter_names: Sequence[str] | None = None,
    meshes: Sequence[Any] | None = None,
    comparison: Sequence[ModelResult] | None = None,
    description: DataDescription | None = None,
    model_path: PathOrStr | None = None,
    title: str | None = None,
    n_worst: int = 3,
) -> None:
    """Write a report on data, errors and a model as one HTML file.

    The file needs no network connection and no other file. Its parts are: the data; the split, and errors by sample
    and channel with the worst samples drawn, if there are test samples; the training curve; the comparison with
    classical models, if there are training and test samples; the cost; and how to load the model.

    Parameters
    ----------
    path : path-like
        File to write.
    estimator : estimator or None, default=None
        Fitted estimator; None reports on the data alone.
    X, y : as in `fit`, default=None
        Test samples. Without y, predictions are drawn without errors. Without X, nothing is tested.
    train : tuple of (X, y) or None, default=None
        Samples that the estimator was trained on, to which classical models are fitted too.
    names, train_names : sequence of str or None, default=None
        Names of the samples; None takes the names of mesh files, or numbers.
    parameter_names : sequence of str or None, default=None
        Names of the global parameters; None takes those of the fit.
    meshes : sequence of meshio.Mesh or None, default=None
        Meshes of the test samples, whose cells are drawn; None takes those of X.
    comparison : sequence of ModelResult or None, default=None
        Results of `compare_models`; None fits the classical models, an empty sequence leaves the part out.
    description : DataDescription or None, default=None
        Result of `describe_data`; None computes it from the training samples, or from X and y.
    model_path : path-like or None, default=None
        File of the model, for the text on loading it.
    title : str or None, default=None
        Title of the page.
    n_worst : int, default=3
        Number of worst samples that are drawn; a sample of median error is drawn after them.

    Raises
    ------
    FieldDataError
        If samples cannot be read.
    OptionalDependencyError
        If matplotlib is not installed.
    OSError
        If `path` cannot be written, before any work.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from skop import PODRegressor
    >>> from skop.inspection import write_report
    >>> X = np.random.default_rng(0).random((12, 6, 6, 1))
    >>> model = PODRegressor().fit(X[:8], X[:8])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(f"{folder}/report.html", model, X[8:], X[8:], train=(X[:8], X[:8]), n_worst=1)
    """
    require_writable(path)
    pictures = SvgPictures()
    X, y, names, meshes = _opened(estimator, X, y, names, meshes)
    if train is not None:
        train_X, train_y, train_names, _ = _opened(estimator, *train, train_names, None)
        train = train_X, train_y
    if parameter_names is None:
        parameter_names = getattr(getattr(estimator, "spec_", None), "param_names", None)
    evaluation = None
    if estimator is not None and X is not None and y is not None:
        evaluation = evaluate(estimator, X, y, names=names)
    if comparison is None:
        comparison = []
        if train is not None and evaluation is not None:
            comparison = compare_models({}, train, (X, y), names=names)
    if description is None and (train is not None or X is not None):
        described, called = (train, train_names) if train is not None else ((X, y), names)
        description = describe_data(*described, names=called, parameter_names=parameter_names)
    report = _Report(
        estimator, X, names, meshes, train_names, evaluation, description, comparison, model_path, n_worst, pictures
    )
    write_in_one_step(Path(path), report.page(title).encode())


def _opened(
    estimator: Any, X: Any, y: Any, names: Sequence[str] | None, meshes: Sequence[Any] | None
) -> tuple[Any, Any, Sequence[str] | None, Sequence[Any] | None]:
    """X and y, of which meshes were read, with their file names and cells."""
    runs = form_of(X).runs(X)
    if runs is None:
        return X, y, names, meshes
    try:
        inputs, targets = estimator._read_scored(X, y)
        truth = targets.scalars if targets.field is None else targets.field.with_params(targets.scalars)
    except FieldDataError:
        if y is not None:
            raise
        # Meshes of a prediction need not hold the truth.
        (inputs, _), truth = estimator._read_inputs(X), None
    geometry = read_meshes(runs)
    called = names if names is not None else [Path(name).name for name in geometry.names]
    return inputs, truth, called, geometry.meshes


# ---------------------------------------------------------------------- pieces
def _percent(share: float) -> str:
    """A share in percent, with three digits."""
    return f"{100 * share:.3g} %" if np.isfinite(share) else "–"


def _duration(seconds: float) -> str:
    """A duration in a readable unit."""
    if not np.isfinite(seconds):
        return "–"
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.3g} min"


def _table(
    head: Sequence[str], rows: Sequence[Sequence[Any]], what: str, *, n_open: int = _OPEN_ROWS, own: int | None = None
) -> str:
    """A table whose rows after the first ones can be unfolded, with one row of the own model.

    Columns that start with # hold numbers, with @ names, with | lengths of bars; a row that ends early ends in a note.
    """
    kinds = [{"#": "n", "@": "name", "|": "bar"}.get(name[:1]) for name in head]
    names = "".join(_cell("th", kind, escape(name.lstrip("#@|"))) for kind, name in zip(kinds, head, strict=True))
    lines = []
    for number, row in enumerate(rows):
        cells = [
            _cell("td", kind, _bar(cell) if kind == "bar" else escape(cell))
            for kind, cell in zip(kinds, row, strict=False)
        ]
        if len(row) < len(head):
            cells[-1] = f'<td class="wide soft" colspan="{len(head) - len(row) + 1}">{escape(row[-1])}</td>'
        start = '<tr class="own">' if number == own else "<tr>"
        lines.append(f"{start}{''.join(cells)}</tr>")
    shown, folded = (
        f'<div class="scroll"><table><thead><tr>{names}</tr></thead><tbody>{"".join(part)}</tbody></table></div>'
        for part in (lines[:n_open], lines[n_open:])
    )
    if len(lines) <= n_open:
        return shown
    return f"{shown}\n<details><summary>{len(lines) - n_open} more {what}</summary>{folded}</details>"


def _cell(tag: str, kind: str | None, content: str) -> str:
    """A cell of a table."""
    return f"<{tag}>{content}</{tag}>" if kind is None else f'<{tag} class="{kind}">{content}</{tag}>'


def _bar(share: float) -> str:
    """A bar of a share of the width."""
    width = 0.0 if not np.isfinite(share) else min(100.0, 100 * share)
    return f'<i style="width:{width:.1f}%"></i>'


def _pictures(drawn: Sequence[str]) -> str:
    """Pictures side by side."""
    kind = "pictures single" if len(drawn) == 1 else "pictures"
    return f'<div class="{kind}">{"".join(drawn)}</div>'


# ---------------------------------------------------------------------- parts
@dataclass
class _Report:
    """What a page is about; a part that has nothing to show is an empty text."""

    estimator: Any
    X: Any
    names: Sequence[str] | None
    meshes: Sequence[Any] | None
    train_names: Sequence[str] | None
    evaluation: Evaluation | None
    description: DataDescription | None
    comparison: Sequence[ModelResult]
    model_path: PathOrStr | None
    n_worst: int
    pictures: SvgPictures

    def __post_init__(self) -> None:
        #: The estimator with the network: the wrapped one, where an estimator for time wraps another.
        self.trained = getattr(self.estimator, "estimator_", self.estimator)

    def page(self, title: str | None) -> str:
        """The whole page."""
        usual = "Data for a surrogate" if self.estimator is None else "Report on a surrogate"
        if self.estimator is not None and self.model_path is not None:
            usual = f"Surrogate {Path(self.model_path).name}"
        about = [] if self.estimator is None else [type(self.estimator).__name__]
        about += [] if self.description is None else [self.description.form]
        sections = {
            "Data": self._data(),
            "Split": self._split(),
            "Errors": self._errors(),
            "Predicted over true": self._scalars(),
            "Worst samples": self._worst(),
            "Predictions": self._predictions(),
            "Training": self._training(),
            "Comparison": self._comparison(),
            "Cost": self._cost(),
            "Use the model": self._loading(),
        }
        return _PAGE.substitute(
            title=escape(title or usual),
            subtitle=escape(", ".join(about)),
            tiles=self._tiles(),
            sections="\n".join(
                f"<section><h2>{name}</h2>\n{body}</section>" for name, body in sections.items() if body
            ),
            version=escape(__version__),
            date=datetime.now().strftime("%Y-%m-%d %H:%M"),
        )

    def _tiles(self) -> str:
        """The most important numbers."""
        tiles, evaluation, description = [], self.evaluation, self.description
        if evaluation is not None:
            tiles.append((_percent(evaluation.mean_error), f"mean error, {len(evaluation)} test samples"))
            tiles.append((_percent(float(evaluation.errors.max())), "error of the worst sample"))
        usable = [result for result in self.comparison if result.evaluation is not None]
        if usable:
            best = min(usable, key=lambda result: result.error)
            words = best.name if self.estimator is None else f"best other model: {best.name}"
            tiles.append((_percent(best.error), words))
        if hasattr(self.trained, "fit_seconds_"):
            tiles.append((_duration(self.trained.fit_seconds_), "training"))
        if evaluation is not None:
            tiles.append((_duration(evaluation.seconds / len(evaluation)), "prediction of a sample"))
        if self.estimator is None and description is not None:
            problems = sum(finding.level == "problem" for finding in description.findings)
            tiles += [(str(description.n_samples), "samples"), (str(description.n_points[1]), "points, median")]
            tiles += [(str(len(description.channels)), "channels and parameters"), (str(problems), "problems found")]
        body = "".join(f'<div class="tile"><b>{escape(value)}</b><span>{escape(text)}</span></div>'
                       for value, text in tiles)  # fmt: skip
        return f'<div class="tiles">{body}</div>' if tiles else ""

    def _data(self) -> str:
        """What the data are, what is wrong with them, what to start with."""
        found = self.description
        if found is None:
            return ""
        parts = [f"<p>{escape(found.form)}.</p>"]
        if found.box:
            parts.append(f'<p class="soft">Coordinates: {escape(found._extents())}</p>')
        rows = [
            [item.role, item.name]
            + [f"{number:.4g}" for number in (item.minimum, item.mean, item.maximum, item.deviation)]
            for item in found.channels
        ]
        parts.append(_table(["role", "@name", "#min", "#mean", "#max", "#std"], rows, "rows"))
        if found.findings:
            words = {"problem": '<span class="bad">problem</span>', "notice": "notice"}
            items = "".join(f"<li>{words[item.level]}: {escape(str(item))}</li>" for item in found.findings)
            parts.append(f"<h3>What to look at</h3><ul>{items}</ul>")
        return "\n".join(parts)

    def _split(self) -> str:
        """Which samples were used for what."""
        if not self.train_names or self.evaluation is None:
            return ""
        lists = "".join(
            f"<details><summary>{len(group)} samples {word}</summary><p>{escape(', '.join(group))}</p></details>"
            for word, group in (("to train on", self.train_names), ("held out", self.evaluation.names))
        )
        return f"<p>The error is that of the held-out samples.</p>{lists}"

    def _errors(self) -> str:
        """Errors by channel and by sample."""
        found = self.evaluation
        if found is None:
            return ""
        parts, has_channels = [], len(found.channels) > 1
        if has_channels:
            # A channel of zeros has no relative error, and no bar.
            named = found.to_dict()["channels"].items()
            by_channel = {name: np.nan if error is None else error for name, error in named}
            largest = np.nanmax([0.0, *by_channel.values()]) or 1.0
            rows = [[name, _percent(error), np.nan_to_num(error / largest)] for name, error in by_channel.items()]
            parts.append("<h3>By channel</h3>" + _table(["@channel", "#error", "|"], rows, "channels"))
        if np.isfinite(found.errors).sum() >= _ENOUGH_FOR_HISTOGRAM:
            parts.append(_pictures([self.pictures.histogram(found.errors[np.isfinite(found.errors)])]))
        largest = np.nanmax([0.0, *found.errors]) or 1.0
        rows = []
        for row in found.ranking:
            maxima = [f"{fields[row][:, 0].max():.4g}" for fields in (found.truth, found.predicted)]
            error = float(found.errors[row])
            rows.append([found.names[row], _percent(error), *maxima, np.nan_to_num(error / largest)])
        head = ["@sample", "#error", "#max, true", "#max, predicted", "|"]
        parts.append("<h3>By sample, the worst first</h3>" + _table(head, rows, "samples"))
        if has_channels:
            parts.append(f'<p class="soft">Maxima are those of {escape(found.channels[0])}.</p>')
        return "\n".join(parts)

    def _scalars(self) -> str:
        """Pictures of predicted over true scalars."""
        found = self.evaluation
        if found is None or found.points is not None:
            return ""
        truth, predicted = np.concatenate(found.truth), np.concatenate(found.predicted)
        drawn = [self.pictures.parity(truth[:, c], predicted[:, c], name)
                 for c, name in enumerate(found.channels[:_MOST_PICTURES])]  # fmt: skip
        return _pictures(drawn)

    def _worst(self) -> str:
        """Pictures of the worst samples, and of one of median error."""
        found = self.evaluation
        if found is None or found.points is None:
            return ""
        parts, ranking = [], found.ranking.tolist()
        for row in dict.fromkeys([*ranking[: self.n_worst], ranking[len(ranking) // 2]]):
            rank = ranking.index(row)
            what = "worst" if rank == 0 else f"rank {rank + 1} of {len(ranking)}"
            heading = f"{found.names[row]}: {_percent(float(found.errors[row]))} ({what})"
            # The channel that is most wrong in this sample says most.
            channel = int(np.argmax(found.channel_errors[row, : found.truth[row].shape[-1]]))
            fields = {"truth": found.truth[row][:, channel], "prediction": found.predicted[row][:, channel]}
            drawn = self._field_panels(found.points[[row]], fields, row, found.channels[channel])
            parts.append(f"<h3>{escape(heading)}</h3>{_pictures(drawn)}")
        return "\n".join(parts)

    def _predictions(self) -> str:
        """Pictures of predictions without truth."""
        if self.evaluation is not None or self.estimator is None or self.X is None:
            return ""
        predicted = self.estimator.predict(self.X)
        if not isinstance(predicted, FieldSet):
            return ""
        parts = []
        channels = named(predicted.channel_names, predicted.n_channels, "channel")[:_MOST_PICTURES]
        for row in range(min(self.n_worst, len(predicted))):
            one = predicted[[row]]
            values = one.to_list()[0]
            drawn = [
                panel
                for c, name in enumerate(channels)
                for panel in self._field_panels(one, {"prediction": values[:, c]}, row, name)
            ]
            called = f"sample {row}" if self.names is None else self.names[row]
            parts.append(f"<h3>{escape(called)}</h3>{_pictures(drawn)}")
        return "\n".join(parts)

    def _field_panels(self, points: FieldSet, fields: dict[str, FloatArray], row: int, name: str) -> list[str]:
        """Pictures of a channel of one sample: the fields by their names, and their difference if there are two."""
        coords, grid = points.coords_list()[0], points.grid_shape
        error: dict[str, FloatArray] = {}
        if len(fields) > 1:
            error["error"] = fields["prediction"] - fields["truth"]
        if points.n_dims == 1:
            order = np.argsort(coords[:, 0], kind="stable")
            panels = []
            for label, part in ((name, fields), (f"error of {name}", error)):
                curves = {word: field[order] for word, field in part.items()}
                title = f"{name}: {', '.join(part)}"
                panels += [self.pictures.lines(coords[order, 0], curves, label, title)] if part else []
            return panels
        cells: Any = points.cells
        drawn: Any = slice(None)
        if points.n_dims == 3 and grid is not None and len(grid) == 3:
            # The middle slice.
            drawn = np.arange(len(coords)).reshape(grid)[:, :, grid[2] // 2].ravel()
            coords, grid = coords[drawn][:, :2], grid[:2]
        if cells is None and self.meshes is not None and len(self.meshes[row].points) == len(coords):
            blocks = self.meshes[row].cells
            cells = [(block.type, block.data) for block in blocks if isinstance(block.data, np.ndarray)]
        triangles = triangles_of(cells, len(coords))
        ends = [end(field[drawn]) for field in fields.values() for end in (np.min, np.max)]
        panels = []
        for word, field in (fields | error).items():
            largest = float(np.abs(field[drawn]).max()) or 1.0
            limits = (-largest, largest) if word == "error" else (float(min(ends)), float(max(ends)))
            options: dict[str, Any] = {"triangles": triangles, "grid_shape": grid, "limits": limits}
            panels.append(self.pictures.field(coords, field[drawn], name=name, word=word, **options))
        return panels

    def _training(self) -> str:
        """Loss and validation error over the epochs."""
        own = self.trained
        if not getattr(own, "loss_curve_", None):
            return ""
        text = f"{own.n_iter_} epochs, ended by {own.stopped_}; weights of epoch {own.best_iter_} were kept"
        return _pictures([self.pictures.training_curve(own, text)])

    def _comparison(self) -> str:
        """Errors and times of the models."""
        results, own = list(self.comparison), None
        if results and self.estimator is not None and self.evaluation is not None:
            own, seconds = len(results), getattr(self.trained, "fit_seconds_", np.nan)
            results.append(ModelResult(type(self.estimator).__name__, self.evaluation, seconds))
        largest = max((result.error for result in results if np.isfinite(result.error)), default=1.0) or 1.0
        rows: list[list[Any]] = []
        for result in results:
            times = [_duration(result.fit_seconds), _duration(result.predict_seconds)]
            numbers = [_percent(result.error), *times, result.error / largest]
            rows.append([result.name, *([result.note] if result.evaluation is None else numbers)])
        head = ["@model", "#mean error", "#fit", "#a sample", "|"]
        return _table(head, rows, "models", n_open=len(rows), own=own) if rows else ""

    def _cost(self) -> str:
        """Time, size and memory."""
        if self.estimator is None:
            return ""
        rows, trained, evaluation = {}, self.trained, self.evaluation
        if hasattr(trained, "fit_seconds_"):
            per_epoch = trained.fit_seconds_ / max(trained.n_iter_, 1)
            rows["training"] = f"{_duration(trained.fit_seconds_)}, {_duration(per_epoch)} an epoch"
        if evaluation is not None:
            each = _duration(evaluation.seconds / len(evaluation))
            rows["prediction"] = f"{each} a sample, {_duration(evaluation.seconds)} for {len(evaluation)}"
        if hasattr(trained, "module_"):
            weights = sum(weight.numel() for weight in trained.module_.parameters())
            where = f"{trained.dtype_}, on {trained.device_}, scans by {trained.backend_}"
            rows["network"] = f"{weights:,} weights, {where}"
        if self.model_path is not None and Path(self.model_path).is_file():
            rows["model file"] = f"{Path(self.model_path).stat().st_size / 1e6:.3g} MB"
        memory = _peak_memory()
        if memory is not None:
            rows["memory"] = f"{memory / 1e9:.2g} GB, the most that this process has held"
        items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in rows.items())
        code = escape(repr(self.estimator))
        return f"<dl>{items}</dl><details><summary>Parameters</summary><pre><code>{code}</code></pre></details>"

    def _loading(self) -> str:
        """How to use the model."""
        if self.estimator is None or self.model_path is None:
            return ""
        name, spec = str(self.model_path), self.estimator.spec_
        is_series = hasattr(self.estimator, "series_")
        if spec.on_meshes or is_series:
            files = "new/*.pvd" if is_series else "new/*.vtu"
            inputs, new = f"'{files}'", f'"{files}"'
            if spec.n_params:
                inputs, new = f"{inputs} --params new.csv", f"{new}, params=table"
        else:
            inputs, new = "new.csv" if spec.has_features else "new.npz", "X_new"
        codes = {
            "In Python": f"import skop\n\nmodel = skop.load({name!r})\npredicted = model.predict({new})",
            "In a shell": f"skop predict {shlex.quote(name)} {inputs} -o predicted/",
        }
        return "".join(f"<h3>{word}</h3><pre><code>{escape(code)}</code></pre>" for word, code in codes.items())


def _peak_memory() -> float | None:
    """Largest memory of this process in bytes; None on systems without the module `resource`, such as Windows."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
