"""``skop fit`` trains a model and saves it; ``skop compare`` trains several and prints their errors."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skop.cli._data import Choice, Samples, array_options, expand, field_options, read_samples, time_options
from skop.cli._models import CLASSICAL, NAMES, check_outputs, check_report, make_estimator, parse_settings, save_model

if TYPE_CHECKING:
    import numpy as np

    from skop.inspection import Evaluation, ModelResult

__all__ = ["compare", "fit"]

#: Exit status after Ctrl-C, also where the best model so far was saved.
_INTERRUPTED = 130
#: Exit status if a model could not be fitted, or not be saved where it was to be.
_FAILURE = 2
#: Number of runs shown with their errors.
_SHOWN_RUNS = 5
#: Number of channels shown with their errors.
_SHOWN_CHANNELS = 16

_data_argument = click.argument("data", nargs=-1, required=True, metavar="DATA...")
_set_option = click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", callback=parse_settings,
    help="Any parameter of the estimator, such as width=32 or mixer__d_state=32; repeat for several.",
)  # fmt: skip
_seed_option = click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True,
                            help="Seed of the split and of the training.")  # fmt: skip
_group_option = click.option(
    "--group",
    metavar="COLUMN",
    help="Column of --params, or of the table, whose equal values belong together: they stay on one side of the split, "
    "and the fit leaves them out as a whole.",
)
_report_option = click.option("--report", type=click.Path(path_type=Path), metavar="FILE.html",
                              help="Report to write, one file that any browser shows.")  # fmt: skip
_force_option = click.option("--force", is_flag=True, help="Overwrite existing output files.")
_quiet_option = click.option("--quiet", "-q", is_flag=True, help="No progress on standard error.")


@click.command(
    short_help="Train a model on runs and save it.",
    epilog="""\b
Examples:
  skop fit 'runs/*.vtu' --target mises --params doe.csv -o model.skop
  skop fit runs/*.vtu --input load --target mises,u --test-fraction 0.2 --report report.html -o model.skop
  skop fit flow.npz --x a --y u --max-time 600 --set width=32 -o model.skop
  skop fit table.csv --input load,radius --target peak_stress -o model.skop
  skop fit 'runs/*.pvd' --target temperature -o model.skop
  skop fit table.csv --target peak_stress --estimator auto --max-time 120 -o model.skop
  skop fit 'runs/*.vtu' --target mises --params doe.csv --coverage 0.9 -o model.skop""",
)
@_data_argument
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True, metavar="FILE.skop", help="Model file.")
@field_options
@time_options
@array_options
@click.option("--estimator", type=click.Choice(list(NAMES)), default="lamo", show_default=True, help="Kind of model.")
@_set_option
@click.option("--max-time", type=click.FloatRange(min=0.01), metavar="SECONDS",
              help="Time limit of the training; of --estimator auto: of the whole choice, 600 by default.")  # fmt: skip
@click.option("--epochs", type=click.IntRange(min=1), metavar="N", help="Largest number of epochs.")
@click.option("--test-fraction", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="F",
              help="Fraction of the runs to hold out of the training; their errors are printed.")  # fmt: skip
@click.option("--coverage", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="F",
              help="Coverage of bands around the predictions, such as 0.9; a quarter of the runs calibrates "
              "them.")  # fmt: skip
@click.option("--guarantee", type=click.Choice(["pointwise", "simultaneous"]),
              help="Meaning of --coverage: part of the nodes of a run (pointwise, the default), or of whole "
              "fields.")  # fmt: skip
@_group_option
@_seed_option
@click.option("--checkpoint-dir", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
              help="Folder for checkpoints; the same command goes on there if it was killed.")  # fmt: skip
@_report_option
@_force_option
@_quiet_option
@click.pass_context
def fit(
    context: click.Context, data: tuple[str, ...], output: Path, estimator: str, settings: dict[str, Any],
    max_time: float | None, epochs: int | None, test_fraction: float | None, coverage: float | None,
    guarantee: str | None, group: str | None, seed: int,
    checkpoint_dir: Path | None, report: Path | None, force: bool, quiet: bool, **choice: Any,
) -> None:  # fmt: skip
    """Train a model on DATA and save it.

    DATA are mesh files (a list, or a quoted pattern), time series of meshes, one file of arrays (.npz, .mat, .h5), or
    one .csv table. --estimator auto compares classical models and operators, and keeps the best. With --coverage,
    `skop predict` also writes the lower and upper bounds of each field. Ctrl-C ends the training early, and the exit
    status is 130: the best model so far is saved, except with --coverage and in the search of --estimator auto.
    """
    from skop.estimators import ConformalRegressor

    if guarantee is not None and coverage is None:
        raise click.UsageError("--guarantee needs --coverage")
    files = expand(data)
    check_outputs([output, report], [*files, choice["params"]], force)
    check_report(report)
    samples = read_samples(data, Choice(**choice))
    model = make_estimator(
        estimator, settings, time=samples.time, window=samples.window, cell_data=_cell_data_of(samples, choice),
        max_iter=epochs, max_time=max_time, random_state=seed, verbose=0 if quiet else 1,
    )  # fmt: skip
    if coverage is not None:
        model = ConformalRegressor(model, coverage=coverage, guarantee=guarantee or "pointwise", random_state=seed)
    own_group = _group_of_fit(model, group, estimator, is_split=test_fraction is not None)
    _say_if_input(samples, group, choice)
    train, test = _split(samples, test_fraction, group, seed)
    split = "" if test is None else f"; {len(train)} to train on, {len(test)} held out"
    (_silent if quiet else _say)(samples.describe() + split)
    start = time.perf_counter()
    fit_samples(model, train, _groups_of(train, own_group, is_split=test is not None), checkpoint_dir)
    seconds = time.perf_counter() - start
    *_, trained = parts = _parts_of(model)
    was_interrupted, saved = getattr(trained, "stopped_", None) == "interrupted", save_model(model, output)
    is_elsewhere, output = saved != output, saved
    if was_interrupted:
        click.echo(f"interrupted: saved the best model so far, of epoch {trained.best_iter_}, to {output}", err=True)
    what = " of ".join(type(part).__name__ for part in parts)
    click.echo(f"{output}: {what}, {_outcome(parts)}{seconds:.1f} s")
    if coverage is not None:
        unit = "runs" if group is None else "groups"
        click.echo(f"bands of {coverage:g} {model.guarantee}, calibrated with {model.n_calibration_} {unit}")
    if test is not None:
        _print_held_out(model, test)
    if report is not None:
        _report_fit(report, model, train, test, output)
        click.echo(f"{report}: report")
    if was_interrupted or is_elsewhere:
        context.exit(_INTERRUPTED if was_interrupted else _FAILURE)


def _print_held_out(model: Any, test: Any) -> None:
    """Print the errors of samples that were held out, and which part of their values lies in a band."""
    from skop.inspection import evaluate

    print_errors(evaluate(model, test.X, test.y, names=test.names), "held-out")
    print_coverage(covered(model, test), model)


def _parts_of(model: Any) -> list[Any]:
    """A fitted estimator, and those within it that were fitted."""
    parts = [model]
    while hasattr(parts[-1], "estimator_"):
        parts.append(parts[-1].estimator_)
    return parts


def _say(text: str) -> None:
    """Print a line of progress on standard error."""
    click.echo(text, err=True)


def _silent(_text: str) -> None:
    """Print nothing."""


def _cell_data_of(samples: Samples, choice: dict[str, Any]) -> str | None:
    """Value of the parameter `cell_data` of an estimator; None where there are no meshes."""
    return None if samples.meshes is None else choice["cell_data"]


def _outcome(parts: list[Any]) -> str:
    """Error of a fitted model beside that of the mean where it is known, or its base and its number of epochs."""
    model = parts[-1]
    errors = getattr(model, "leave_one_out_errors_", None)
    if errors:
        is_change = getattr(model, "last_frame_", None) is not None
        mean = f"; that of the mean{' change' * is_change} {_percent(errors['mean'])}" if "mean" in errors else ""
        # In a rollout the estimator is given true frames, and errors of further steps grow.
        step = " of one step" if any(hasattr(part, "window_") for part in parts) else ""
        return f"leave-one-out error{step} {_percent(model.leave_one_out_error_)}{_chosen(model)}{mean}, "
    count, base = getattr(model, "n_iter_", None), getattr(model, "base_", None)
    if base is not None:
        # The base is fitted to standardised targets, so that its errors are others.
        return f"over {type(base.estimator).__name__}{_chosen(base.estimator)}, {count} epochs ({model.stopped_}), "
    return "" if count is None else f"{count} epoch{'s' if count > 1 else ''} ({model.stopped_}), "


def _chosen(model: Any) -> str:
    """Regressor of a fitted classical model, in brackets; nothing where it has no choice of one."""
    errors = getattr(model, "leave_one_out_errors_", {})
    return "".join(f" ({name})" for name, error in errors.items() if error == model.leave_one_out_error_)


def fit_samples(model: Any, samples: Samples, groups: Any = None, checkpoint_dir: Path | None = None) -> None:
    """Fit an estimator on samples, such that the model also takes the files themselves."""
    from sklearn.utils.validation import has_fit_parameter

    from skop.data import is_mesh_series, read_mesh_series
    from skop.estimators import ConformalRegressor
    from skop.estimators._reading import named_by_caller

    kept: dict[str, Any] = {} if checkpoint_dir is None else {"checkpoint_dir": checkpoint_dir}
    # A band takes checkpoints and the names of the fields from the estimator that it is around.
    named = model.estimator if isinstance(model, ConformalRegressor) else model
    if kept and not has_fit_parameter(named, "checkpoint_dir"):
        raise click.UsageError(f"--checkpoint-dir: a {type(named).__name__} writes no checkpoints; leave it out.")
    options = kept if groups is None else {"groups": groups, **kept}
    if samples.meshes is None:
        with named_by_caller(samples.called):
            model.fit(samples.X, samples.y, **options)
        return
    has_scalars = hasattr(samples.y, "iloc")
    if samples.time is not None:
        names = [*samples.meshes.components] if samples.time == "parameter" else []
        named.set_params(estimator__input_fields=names or None, estimator__target_fields=[*samples.target_names])
        # Files in a single folder would be single meshes to an estimator, which cannot tell that they are frames.
        is_certain = is_mesh_series(samples.paths)
        runs = samples.paths if is_certain else read_mesh_series(samples.paths)
        model.fit(runs, params=samples.parameters, **options)
        return
    names = [name for name in samples.meshes.components if has_scalars or name not in samples.target_names]
    named.set_params(input_fields=names or None)
    if not has_scalars:
        named.set_params(target_fields=[*samples.target_names])
    model.fit(samples.paths, samples.y if has_scalars else None, params=samples.parameters, **options)


def _split(samples: Samples, fraction: float | None, group: str | None, seed: int) -> tuple[Samples, Samples | None]:
    """Split for training and test, whole groups if there are any."""
    if fraction is None:
        return samples, None
    train, test = split_rows(samples, fraction, group, seed)
    return samples.take(train), samples.take(test)


def split_rows(
    samples: Samples, fraction: float, group: str | None, seed: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Rows to train on and rows that are held out, in ascending order."""
    import numpy as np

    found = _labels_of(samples, group)
    labels = np.arange(len(samples)) if found is None else found
    distinct = np.unique(labels)
    count = max(1, round(fraction * len(distinct)))
    if count >= len(distinct):
        raise click.UsageError(
            f"--test-fraction {fraction} of {len(distinct)} {'samples' if group is None else 'groups'} leaves none to "
            "train on"
        )
    held_out = np.random.default_rng(seed).permutation(distinct)[:count]
    is_test = np.isin(labels, held_out)
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _group_of_fit(model: Any, group: str | None, estimator: str, *, is_split: bool) -> str | None:
    """Column of groups if the fit of a model has a use of them, and not the split alone."""
    from skop.estimators._weights import takes_groups

    if group is None or takes_groups(model):
        return group
    if is_split:
        return None
    raise click.UsageError(
        f"--group: a fit by --estimator {estimator} has no use of groups; add --test-fraction, whose split keeps them "
        "together, or leave --group out"
    )


def _say_if_input(samples: Samples, group: str | None, choice: dict[str, Any]) -> None:
    """Say that numbers of groups are an input, where nobody chose them as one."""
    option = "--input" if samples.is_table else "--param"
    chosen = choice["inputs" if samples.is_table else "columns"]
    if group in (samples.parameter_names or ()) and group not in chosen:
        click.echo(f"--group {group}: its numbers are an input of the model, too (see {option})", err=True)


def _groups_of(samples: Samples, group: str | None, *, is_split: bool) -> np.ndarray[Any, Any] | None:
    """Number of the group of each sample of a fit, of which there are several; None without groups."""
    labels = _labels_of(samples, group)
    if labels is None or labels.min() < labels.max():
        return labels
    words = f"--group {group}: the {len(samples)} runs to train on are one group, and it takes two to leave one out"
    if not is_split:
        raise click.UsageError(f"{words}; leave --group out")
    _say(f"{words}: the fit judges models by single runs")
    return None


def _labels_of(samples: Samples, group: str | None) -> np.ndarray[Any, Any] | None:
    """Number of the group of each sample, by a column of its table; None without groups."""
    import numpy as np

    if group is None:
        return None
    if samples.table is None or group not in samples.table.columns:
        names = [] if samples.table is None else list(samples.table.columns)
        raise click.UsageError(f"--group {group!r} is no column of the table of parameters; there are: {names}")
    column = samples.table[group]
    if (missing := np.flatnonzero(column.isna())).size:
        raise click.UsageError(
            f"--group {group}: {missing.size} of {len(column)} samples have no value, {samples.names[missing[0]]} the "
            "first; fill in one for each"
        )
    # Numbers and texts in one column are told apart by what is written.
    values = column.to_numpy()
    labels: np.ndarray[Any, Any] = np.unique(
        values.astype(str) if values.dtype == object else values, return_inverse=True
    )[1]
    return labels


def _percent(error: float) -> str:
    """An error in percent, also one that two decimals would show as 0, or a dash where there is none."""
    if error != error:
        return "-"
    return f"{error:.2%}" if error >= 1e-3 or not error else f"{100 * error:.2g}%"


def print_errors(evaluation: Evaluation, what: str) -> None:
    """Print errors on standard output: mean, by channel, and of the worst samples."""
    import numpy as np

    total = len(evaluation)
    mean = evaluation.mean_field_error
    compared = "" if mean is None else f"; their mean field has {_percent(mean)}"
    click.echo(
        f"relative L2 error of {total} {what} sample{'s' if total > 1 else ''}: {_percent(evaluation.mean_error)} "
        f"(median {_percent(float(np.median(evaluation.errors)))}, worst {_percent(evaluation.errors.max())}){compared}"
    )
    if evaluation.n_seen:
        click.echo(f"{evaluation.n_seen} of them were in the fit: their errors say nothing of new samples")
    by_channel = [*evaluation.to_dict()["channels"].items()]
    shown = _shown_channels([error for _, error in by_channel], evaluation.n_components)
    rows = [("channel", *by_channel[number]) for number in shown] if len(by_channel) > 1 else []
    worst = [("worst", evaluation.names[row], evaluation.errors[row]) for row in evaluation.ranking[:_SHOWN_RUNS]]
    width = max(len(name) for _, name, _ in rows + worst)
    for kind, name, error in rows:
        words = "zero in the truth" if error is None else f"{_percent(error):>9}"
        click.echo(f"  {kind:<8} {name:<{width}} {words}")
    if len(shown) < len(by_channel):
        click.echo(f"  and {len(by_channel) - len(shown)} more channels: skop score --json has all")
    for kind, name, error in worst:
        click.echo(f"  {kind:<8} {name:<{width}} {_percent(error):>9}")


def _shown_channels(errors: list[float | None], n_components: int | None) -> list[int]:
    """Numbers of the channels whose errors are printed: of many frames in time some, of other channels the worst."""
    import numpy as np

    if len(errors) <= _SHOWN_CHANNELS:
        return [*range(len(errors))]
    if n_components is None:
        sizes = [np.inf if error is None else error for error in errors]
        return sorted(np.argsort(sizes, kind="stable")[-_SHOWN_CHANNELS:].tolist())
    # The last frame is among them, and each has all of its channels.
    n_frames = len(errors) // n_components
    frames = np.unique(np.linspace(0, n_frames - 1, max(_SHOWN_CHANNELS // n_components, 2)).round().astype(int))
    return [int(frame) * n_components + k for frame in frames for k in range(n_components)]


def covered(model: Any, samples: Samples) -> dict[str, float] | None:
    """Return how much of the truth is inside the bands of a model."""
    return model.score_coverage(samples.X, samples.y) if hasattr(model, "score_coverage") else None


def print_coverage(shares: dict[str, float] | None, model: Any) -> None:
    """Print how much of the truth is inside the bands, on standard output."""
    if shares is None:
        return
    unit = "samples, at all nodes," if model.guarantee == "simultaneous" else "nodes"
    unit = unit if model.spec_.n_outputs else "samples"
    low, high = min(shares.values()), max(shares.values())
    found = f"{low:.1%}" if len(shares) == 1 else f"{low:.1%} to {high:.1%}, by channel,"
    click.echo(f"inside the bands of {model.coverage_:g}: {found} of the {unit}")


def _report_fit(report: Path, model: Any, train: Samples, test: Samples | None, output: Path) -> None:
    """Write the report of a fit."""
    from skop.inspection import write_report

    held_out: dict[str, Any] = (
        {} if test is None else {"X": test.X, "y": test.y, "names": test.names, "meshes": test.cells}
    )
    write_report(
        report,
        model,
        **held_out,
        parameter_names=train.parameter_names,
        train=(train.X, train.y),
        train_names=train.names,
        model_path=output,
    )


@click.command(
    short_help="Errors and times of several models on the same runs.",
    epilog="""\b
Examples:
  skop compare 'runs/*.vtu' --target mises --params doe.csv --max-time 60
  skop compare table.csv --target peak_stress --estimator lamo --estimator amo""",
)
@_data_argument
@field_options
@time_options
@array_options
@click.option("--estimator", "estimators", type=click.Choice(list(NAMES)), multiple=True, default=("lamo",),
              show_default=True, help="Model to compare with the classical ones; repeat for several.")  # fmt: skip
@_set_option
@click.option("--max-time", type=click.FloatRange(min=0.01), default=60.0, show_default=True, metavar="SECONDS",
              help="Time limit of the training of each neural operator.")  # fmt: skip
@click.option("--epochs", type=click.IntRange(min=1), metavar="N", help="Largest number of epochs.")
@click.option("--test-fraction", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.2,
              show_default=True, metavar="F", help="Fraction of the runs to hold out.")  # fmt: skip
@_group_option
@_seed_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_report_option
@_force_option
@_quiet_option
@click.pass_context
def compare(
    context: click.Context, data: tuple[str, ...], estimators: tuple[str, ...], settings: dict[str, Any],
    max_time: float, epochs: int | None, test_fraction: float, group: str | None, seed: int, as_json: bool,
    report: Path | None, force: bool, quiet: bool, **choice: Any,
) -> None:  # fmt: skip
    """Train models on DATA and compare their errors with those of classical models.

    Classical models take seconds: the mean, and POD, which chooses its regression; where runs differ in their number of
    points, also gradient boosting point by point. Ctrl-C ends the comparison: the models that are finished are printed,
    and the exit status is 130. If a model fails, the others are printed, and it is 2.
    """
    from skop.estimators._reading import named_by_caller
    from skop.inspection import compare_models

    files = expand(data)
    check_report(report)
    check_outputs([report], [*files, choice["params"]], force)
    samples = read_samples(data, Choice(**choice))
    _say_if_input(samples, group, choice)
    train_rows, test_rows = split_rows(samples, test_fraction, group, seed)
    train, test = samples.take(train_rows), samples.take(test_rows)
    (_silent if quiet else _say)(f"{samples.describe()}; {len(train)} to train on, {len(test)} held out")
    models = {}
    for name in estimators:
        limits = (None, None) if name in CLASSICAL else (epochs, max_time)
        models[NAMES[name].removesuffix("Regressor")] = make_estimator(
            name, settings, time=samples.time, window=samples.window,
            max_iter=limits[0], max_time=limits[1], random_state=seed, verbose=0 if quiet else 1,
        )  # fmt: skip
    labels = _groups_of(train, group, is_split=True)
    with named_by_caller(train.called):
        results = compare_models(models, (train.X, train.y), (test.X, test.y), names=test.names, groups=labels)
    if as_json:
        rows = [
            {"model": result.name, "error": None if result.evaluation is None else result.error,
             "fit_seconds": result.fit_seconds, "note": result.note}
            for result in results
        ]  # fmt: skip
        click.echo(json.dumps(rows, indent=2))
    else:
        _print_results(results, len(test))
    named = [result for result in results if result.name in models and math.isfinite(result.error)]
    if report is not None and named:
        _report_comparison(report, results, named, train, test)
        click.echo(f"{report}: report", err=True)
    if any(result.note.startswith("interrupted") for result in results):
        context.exit(_INTERRUPTED)
    if any(result.note.startswith("failed") for result in results):
        context.exit(_FAILURE)


def _print_results(results: list[ModelResult], n_test: int) -> None:
    """Print a table of the models."""
    width = max(len(result.name) for result in results)
    click.echo(f"{'model':<{width}} {'error':>9} {'fit':>9} {'a sample':>11}   relative L2, {n_test} held-out samples")
    for result in results:
        if result.evaluation is None:
            click.echo(f"{result.name:<{width}} {'-':>9} {'-':>9} {'-':>11}   {result.note}")
            continue
        times = f"{result.fit_seconds:>7.1f} s {1000 * result.predict_seconds:>8.3g} ms"
        click.echo(f"{result.name:<{width}} {_percent(result.error):>9} {times}")


def _report_comparison(
    report: Path, results: list[ModelResult], named: list[ModelResult], train: Samples, test: Samples
) -> None:
    """Write the report on the best of the finished models that the user named."""
    from skop.inspection import write_report

    best = min(named, key=lambda one: one.error)
    write_report(
        report,
        best.model,
        test.X,
        test.y,
        train=(train.X, train.y),
        names=test.names,
        train_names=train.names,
        parameter_names=train.parameter_names,
        meshes=test.cells,
        comparison=[result for result in results if result is not best],
        title=f"Comparison of {len(results)} models",
    )
