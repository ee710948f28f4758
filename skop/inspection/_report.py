"""A report on data, errors and models as one HTML file, which needs nothing outside itself.

Every part is a function from numbers to a section; all text that comes from the user goes through `html.escape`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from skop._files import write_in_one_step
from skop._typing import FloatArray, PathOrStr
from skop._version import __version__
from skop.data import FieldSet, is_mesh_input, read_meshes
from skop.exceptions import FieldDataError
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
        both = train is not None and evaluation is not None
        comparison = compare_models({}, train, (X, y), names=names) if both and train is not None else []
    if description is None and (train is not None or X is not None):
        described, called = (train, train_names) if train is not None else ((X, y), names)
        description = describe_data(*described, names=called, parameter_names=parameter_names)
    sections = [
        _data_section(description),
        _split_section(train_names, None if evaluation is None else evaluation.names),
        _error_section(evaluation, pictures),
        _worst_section(evaluation, meshes, pictures, n_worst),
        _prediction_section(estimator, X, names, meshes, pictures, n_worst) if evaluation is None else "",
        _training_section(estimator, pictures),
        _comparison_section(estimator, evaluation, comparison),
        _cost_section(estimator, evaluation, model_path),
        _loading_section(estimator, model_path),
    ]
    page = _PAGE.substitute(
        title=escape(title or _title(estimator, model_path)),
        subtitle=escape(_subtitle(estimator, description)),
        tiles=_tiles(estimator, evaluation, description, comparison),
        sections="\n".join(section for section in sections if section),
        version=escape(__version__),
        date=datetime.now().strftime("%Y-%m-%d %H:%M"),
    )
    write_in_one_step(Path(path), page.encode())


def _opened(
    estimator: Any, X: Any, y: Any, names: Sequence[str] | None, meshes: Sequence[Any] | None
) -> tuple[Any, Any, Sequence[str] | None, Sequence[Any] | None]:
    """X and y, of which meshes were read, with their file names and cells."""
    runs = _files_in(X)
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


def _files_in(X: Any) -> Any:
    """Meshes or their files, also in a column of a table; None if X holds none."""
    if not hasattr(X, "columns"):
        return X if X is not None and is_mesh_input(X) else None
    columns = ([*X[name]] for name in X.columns)
    return next((column for column in columns if column and is_mesh_input(column)), None)


def _trained(estimator: Any) -> Any:
    """The estimator with the network: the wrapped one, where an estimator for time wraps another."""
    return getattr(estimator, "estimator_", estimator)


# ---------------------------------------------------------------------- head
def _title(estimator: Any, model_path: PathOrStr | None) -> str:
    """Title of a page."""
    if estimator is None:
        return "Data for a surrogate"
    return f"Surrogate {Path(model_path).name}" if model_path is not None else "Report on a surrogate"


def _subtitle(estimator: Any, description: DataDescription | None) -> str:
    """What the page is about, in one line."""
    parts = [] if estimator is None else [type(estimator).__name__]
    if description is not None:
        parts.append(description.form)
    return ", ".join(parts)


def _tiles(
    estimator: Any,
    evaluation: Evaluation | None,
    description: DataDescription | None,
    comparison: Sequence[ModelResult],
) -> str:
    """The most important numbers."""
    tiles = []
    if evaluation is not None:
        tiles.append((_percent(evaluation.mean_error), f"mean error, {len(evaluation)} test samples"))
        tiles.append((_percent(float(evaluation.errors.max())), "error of the worst sample"))
    usable = [result for result in comparison if result.evaluation is not None]
    if usable:
        best = min(usable, key=lambda result: result.error)
        tiles.append((_percent(best.error), f"best other model: {best.name}" if estimator is not None else best.name))
    trained = _trained(estimator)
    if hasattr(trained, "fit_seconds_"):
        tiles.append((_duration(trained.fit_seconds_), "training"))
    if evaluation is not None:
        tiles.append((_duration(evaluation.seconds / len(evaluation)), "prediction of a sample"))
    if estimator is None and description is not None:
        problems = sum(finding.level == "problem" for finding in description.findings)
        tiles += [(str(description.n_samples), "samples"), (str(description.n_points[1]), "points, median")]
        tiles += [(str(len(description.channels)), "channels and parameters"), (str(problems), "problems found")]
    body = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(text)}</span></div>' for value, text in tiles
    )
    return f'<div class="tiles">{body}</div>' if tiles else ""


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


def _section(name: str, body: str) -> str:
    """A part of the page with a heading."""
    return f"<section><h2>{escape(name)}</h2>\n{body}</section>"


def _table(head: Sequence[str], rows: Sequence[str]) -> str:
    """A table; names that start with # are of columns of numbers, with | of bars."""
    kinds = {"#": ' class="n"', "|": ' class="bar"'}
    cells = "".join(f"<th{kinds.get(name[:1], '')}>{escape(name.lstrip('#|'))}</th>" for name in head)
    return f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _folded(head: Sequence[str], rows: Sequence[str], what: str) -> str:
    """A table of which the first rows are open, and the others can be unfolded."""
    shown = _table(head, rows[:_OPEN_ROWS])
    if len(rows) <= _OPEN_ROWS:
        return shown
    more = _table(head, rows[_OPEN_ROWS:])
    return f"{shown}\n<details><summary>{len(rows) - _OPEN_ROWS} more {what}</summary>{more}</details>"


def _row(cells: Sequence[str], own: bool = False) -> str:
    """A row of a table; the marks of cells are those of the head."""
    kinds = {"#": ' class="n"', "@": ' class="name"', "~": ' class="wide"'}
    shown = []
    for cell in cells:
        kind = kinds.get(cell[:1])
        shown.append(cell if cell.startswith("<td") else f"<td{kind or ''}>{escape(cell[1:] if kind else cell)}</td>")
    return f"<tr{' class=own' if own else ''}>{''.join(shown)}</tr>".replace("class=own", 'class="own"')


def _bar(share: float) -> str:
    """A cell with a bar."""
    width = 0.0 if not np.isfinite(share) else min(100.0, 100 * share)
    return f'<td class="bar"><i style="width:{width:.1f}%"></i></td>'


def _figure(svg: str, caption: str) -> str:
    """A picture with its caption."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


# ---------------------------------------------------------------------- parts
def _data_section(description: DataDescription | None) -> str:
    """What the data are, what is wrong with them, what to start with."""
    if description is None:
        return ""
    parts = [f"<p>{escape(description.form)}.</p>"]
    if description.box:
        axes = [f"{axis} {low:.4g} to {high:.4g}" for axis, (low, high) in zip("xyz", description.box, strict=False)]
        parts.append(f'<p class="soft">Coordinates: {escape(", ".join(axes))}</p>')
    rows = [
        _row([item.role, f"@{item.name}", *(f"#{getattr(item, key):.4g}" for key in
              ("minimum", "mean", "maximum", "deviation"))])
        for item in description.channels
    ]  # fmt: skip
    parts.append(_folded(["role", "name", "#min", "#mean", "#max", "#std"], rows, "rows"))
    if description.findings:
        items = []
        for finding in description.findings:
            word = f'<span class="bad">{finding.level}</span>' if finding.level == "problem" else finding.level
            items.append(f"<li>{word}: {escape(str(finding))}</li>")
        parts.append(f"<h3>What to look at</h3><ul>{''.join(items)}</ul>")
    return _section("Data", "\n".join(parts))


def _split_section(train: Sequence[str] | None, test: Sequence[str] | None) -> str:
    """Which samples were used for what."""
    if not train or not test:
        return ""
    lists = "".join(
        f"<details><summary>{len(group)} samples {word}</summary><p>{escape(', '.join(group))}</p></details>"
        for word, group in (("to train on", train), ("held out", test))
    )
    return _section("Split", f"<p>The error is that of the held-out samples.</p>{lists}")


def _error_section(evaluation: Evaluation | None, pictures: SvgPictures) -> str:
    """Errors by channel and by sample."""
    if evaluation is None:
        return ""
    parts = []
    if len(evaluation.channels) > 1:
        by_channel = evaluation.to_dict()["channels"]
        largest = max(by_channel.values()) or 1.0
        rows = [_row([f"@{name}", f"#{_percent(error)}", _bar(error / largest)]) for name, error in by_channel.items()]
        parts.append("<h3>By channel</h3>" + _folded(["channel", "#error", "|"], rows, "channels"))
    if len(evaluation) >= _ENOUGH_FOR_HISTOGRAM:
        drawn = pictures.histogram(evaluation.errors, "Number of samples by their error")
        parts.append(f'<div class="pictures single">{_figure(drawn, "Errors of the test samples")}</div>')
    largest = float(evaluation.errors.max()) or 1.0
    head = ["sample", "#error", "#max, true", "#max, predicted", "|"]
    rows = []
    for row in evaluation.ranking:
        true, found = evaluation.truth[row][:, 0], evaluation.predicted[row][:, 0]
        cells = [f"@{evaluation.names[row]}", f"#{_percent(float(evaluation.errors[row]))}"]
        cells += [f"#{true.max():.4g}", f"#{found.max():.4g}", _bar(float(evaluation.errors[row]) / largest)]
        rows.append(_row(cells))
    parts.append("<h3>By sample, the worst first</h3>" + _folded(head, rows, "samples"))
    if len(evaluation.channels) > 1:
        parts.append(f'<p class="soft">Maxima are those of {escape(evaluation.channels[0])}.</p>')
    return _section("Errors", "\n".join(parts))


def _worst_section(
    evaluation: Evaluation | None, meshes: Sequence[Any] | None, pictures: SvgPictures, n_worst: int
) -> str:
    """Pictures of the worst samples, and of one of median error."""
    if evaluation is None:
        return ""
    if evaluation.points is None:
        truth, predicted = np.concatenate(evaluation.truth), np.concatenate(evaluation.predicted)
        drawn = [
            _figure(pictures.parity(truth[:, c], predicted[:, c], name), name)
            for c, name in enumerate(evaluation.channels[:_MOST_PICTURES])
        ]
        kind = "pictures single" if len(drawn) == 1 else "pictures"
        return _section("Predicted over true", f'<div class="{kind}">{"".join(drawn)}</div>')
    ranking = evaluation.ranking
    chosen = list(dict.fromkeys([*ranking[:n_worst], ranking[len(ranking) // 2]]))
    parts = []
    for row in chosen:
        rank = int(np.flatnonzero(ranking == row)[0])
        what = "worst" if rank == 0 else f"rank {rank + 1} of {len(ranking)}"
        heading = f"{evaluation.names[row]}: {_percent(float(evaluation.errors[row]))} ({what})"
        # The channel that is most wrong in this sample says most.
        channel = int(np.argmax(evaluation.channel_errors[row]))
        fields = [part[row][:, channel] for part in (evaluation.truth, evaluation.predicted)]
        panels = _field_panels(
            evaluation.points[[row]], fields, meshes, int(row), evaluation.channels[channel], pictures
        )
        parts.append(f'<h3>{escape(heading)}</h3><div class="pictures">{panels}</div>')
    return _section("Worst samples", "\n".join(parts))


def _field_panels(
    points: FieldSet,
    fields: Sequence[FloatArray],
    meshes: Sequence[Any] | None,
    row: int,
    name: str,
    pictures: SvgPictures,
) -> str:
    """Truth, prediction and error of a channel of one sample; or the prediction alone."""
    coords, grid = points.coords_list()[0], points.grid_shape
    words = ["truth", "prediction"] if len(fields) > 1 else ["prediction"]
    if points.n_dims == 1:
        order = np.argsort(coords[:, 0], kind="stable")
        curves = [(word, coords[order, 0], field[order]) for word, field in zip(words, fields, strict=True)]
        drawn = [_figure(pictures.lines(curves, ("x", name), f"{name}: {', '.join(words)}"), " and ".join(words))]
        if len(fields) > 1:
            error = [("error", coords[order, 0], (fields[1] - fields[0])[order])]
            drawn.append(_figure(pictures.lines(error, ("x", f"error of {name}"), f"Error of {name}"), "error"))
        return "".join(drawn)
    if points.n_dims == 3 and grid is not None and len(grid) == 3:
        middle = np.arange(len(coords)).reshape(grid)[:, :, grid[2] // 2].ravel()
        coords, fields, grid = coords[middle][:, :2], [field[middle] for field in fields], grid[:2]
    cells = points.cells
    if cells is None and meshes is not None:
        cells = [(block.type, block.data) for block in meshes[row].cells if isinstance(block.data, np.ndarray)]
        cells = cells if len(meshes[row].points) == len(coords) else None
    options: dict[str, Any] = {"triangles": triangles_of(cells, len(coords)), "grid_shape": grid}
    limits = (float(min(field.min() for field in fields)), float(max(field.max() for field in fields)))
    drawn = [
        _figure(
            pictures.field(coords, field, limits=limits, diverges=False, title=f"{name}: {word}", **options),
            f"{name}: {word}",
        )
        for word, field in zip(words, fields, strict=True)
    ]
    if len(fields) > 1:
        difference = fields[1] - fields[0]
        largest = float(np.abs(difference).max()) or 1.0
        svg = pictures.field(
            coords, difference, limits=(-largest, largest), diverges=True, title=f"{name}: error", **options
        )
        drawn.append(_figure(svg, f"{name}: error, predicted − true"))
    return "".join(drawn)


def _prediction_section(
    estimator: Any,
    X: Any,
    names: Sequence[str] | None,
    meshes: Sequence[Any] | None,
    pictures: SvgPictures,
    n_drawn: int,
) -> str:
    """Predictions without truth."""
    if estimator is None or X is None:
        return ""
    predicted = estimator.predict(X)
    if not isinstance(predicted, FieldSet):
        return ""
    channels = predicted.channel_names or [f"channel {number}" for number in range(predicted.n_channels)]
    parts = []
    for row in range(min(n_drawn, len(predicted))):
        one = predicted[[row]]
        drawn = "".join(
            _field_panels(one, [one.to_list()[0][:, c]], meshes, row, name, pictures)
            for c, name in enumerate(channels[:_MOST_PICTURES])
        )
        called = f"sample {row}" if names is None else names[row]
        parts.append(f'<h3>{escape(called)}</h3><div class="pictures">{drawn}</div>')
    return _section("Predictions", "\n".join(parts))


def _training_section(estimator: Any, pictures: SvgPictures) -> str:
    """Loss and validation error over the epochs."""
    estimator = _trained(estimator)
    if not getattr(estimator, "loss_curve_", None):
        return ""
    text = (
        f"{estimator.n_iter_} epochs, ended by {estimator.stopped_}; weights of epoch {estimator.best_iter_} were kept"
    )
    drawn = _figure(pictures.training_curve(estimator), text)
    return _section("Training", f'<div class="pictures single">{drawn}</div>')


def _comparison_section(estimator: Any, evaluation: Evaluation | None, comparison: Sequence[ModelResult]) -> str:
    """Errors and times of the models."""
    if not comparison:
        return ""
    results = list(comparison)
    if estimator is not None and evaluation is not None:
        fit_seconds = getattr(_trained(estimator), "fit_seconds_", np.nan)
        results.append(ModelResult(type(estimator).__name__, evaluation, fit_seconds))
    errors = [result.error for result in results if np.isfinite(result.error)]
    largest = max(errors, default=1.0) or 1.0
    rows = []
    for number, result in enumerate(results):
        if result.evaluation is None:
            rows.append(f'<tr><td class="name">{escape(result.name)}</td>'
                        f'<td class="wide soft" colspan="4">{escape(result.note)}</td></tr>')  # fmt: skip
            continue
        cells = [f"@{result.name}", f"#{_percent(result.error)}", f"#{_duration(result.fit_seconds)}"]
        cells += [f"#{_duration(result.predict_seconds)}", _bar(result.error / largest)]
        is_own = estimator is not None and number == len(results) - 1
        rows.append(_row(cells, own=is_own))
    return _section("Comparison", _table(["model", "#mean error", "#fit", "#a sample", "|"], rows))


def _cost_section(estimator: Any, evaluation: Evaluation | None, model_path: PathOrStr | None) -> str:
    """Time, size and memory."""
    if estimator is None:
        return ""
    rows = []
    trained = _trained(estimator)
    if hasattr(trained, "fit_seconds_"):
        per_epoch = trained.fit_seconds_ / max(trained.n_iter_, 1)
        rows.append(("training", f"{_duration(trained.fit_seconds_)}, {_duration(per_epoch)} an epoch"))
    if evaluation is not None:
        each = _duration(evaluation.seconds / len(evaluation))
        rows.append(("prediction", f"{each} a sample, {_duration(evaluation.seconds)} for {len(evaluation)}"))
    if hasattr(trained, "module_"):
        weights = sum(weight.numel() for weight in trained.module_.parameters())
        where = f"{trained.dtype_}, on {trained.device_}, scans by {trained.backend_}"
        rows.append(("network", f"{weights:,} weights, {where}"))
    if model_path is not None and Path(model_path).is_file():
        rows.append(("model file", f"{Path(model_path).stat().st_size / 1e6:.3g} MB"))
    memory = _peak_memory()
    if memory is not None:
        rows.append(("memory", f"{memory / 1e9:.2g} GB, the most that this process has held"))
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in rows)
    settings = f"<details><summary>Parameters</summary><pre><code>{escape(repr(estimator))}</code></pre></details>"
    return _section("Cost", f"<dl>{items}</dl>{settings}")


def _peak_memory() -> float | None:
    """Largest memory of this process in bytes; None on systems without the module `resource`, such as Windows."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _loading_section(estimator: Any, model_path: PathOrStr | None) -> str:
    """How to use the model."""
    if estimator is None or model_path is None:
        return ""
    name = str(model_path)
    spec = estimator.spec_
    is_series = hasattr(estimator, "series_")
    takes_files = spec.input_form == "meshes" or is_series
    files = "new/*.pvd" if is_series else "new/*.vtu"
    inputs = f"'{files}'" if takes_files else "new.csv" if spec.role == "features" else "new.npz"
    if takes_files and spec.n_params:
        inputs += " --params new.csv"
    new = f'"{files}"' if takes_files else "X_new"
    if takes_files and spec.n_params:
        new += ", params=table"
    python = f"import skop\n\nmodel = skop.load({name!r})\npredicted = model.predict({new})"
    shell = f"skop predict {_quoted(name)} {inputs} -o predicted/"
    blocks = "".join(
        f"<h3>{word}</h3><pre><code>{escape(code)}</code></pre>"
        for word, code in (("In Python", python), ("In a shell", shell))
    )
    return _section("Use the model", blocks)


def _quoted(name: str) -> str:
    """A file name as a word of a shell."""
    import shlex

    return shlex.quote(name)
