"""``skop predict`` writes predictions beside the names of their inputs; ``skop score`` prints errors."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from skop._files import write_in_one_step
from skop.cli._data import (
    Choice,
    Samples,
    are_meshes,
    array_options,
    choice_of_model,
    expand,
    read_samples,
    short_names,
)
from skop.cli._fit import covered, print_coverage, print_errors
from skop.cli._models import check_outputs, check_report, identity, load_model

__all__ = ["predict", "score"]

#: Endings by which the name of an output is that of a file.
_FILES = (".vtu", ".vtk", ".vtp", ".pvd", ".xdmf", ".npz", ".npy", ".mat", ".csv", ".h5", ".hdf5", ".html", ".skop")


def _parse_times(_context: click.Context, _parameter: click.Parameter, text: str | None) -> list[float] | None:
    """Convert numbers between commas."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of numbers such as 0.1,0.5") from None


def _parse_jobs(_context: click.Context, _parameter: click.Parameter, count: int | None) -> int | None:
    """Refuse no jobs."""
    if count == 0:
        raise click.BadParameter("0 jobs predict nothing; expected 1 or more, or -1 for all processors")
    return count


_model_argument = click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
_data_argument = click.argument("data", nargs=-1, required=True, metavar="DATA...")
_force_option = click.option("--force", is_flag=True, help="Overwrite existing output files.")
_report_option = click.option("--report", type=click.Path(path_type=Path), metavar="FILE.html",
                              help="Report to write, one file that any browser shows.")  # fmt: skip


@click.command(
    short_help="Predict runs with a model, and write files.",
    epilog="""\b
Examples:
  skop predict model.skop 'new/*.vtu' --params new.csv -o out/
  skop predict model.skop new.npz -o predicted.npz
  skop predict model.skop table.csv -o predicted.csv""",
)
@_model_argument
@_data_argument
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True, metavar="FOLDER",
              help="Folder for files with the names of the inputs; for one .npz or .csv also a file.")  # fmt: skip
@array_options
@click.option("--steps", type=click.IntRange(min=1), metavar="N",
              help="Frames that a rollout predicts; default: as many as in the fit.")  # fmt: skip
@click.option("--times", metavar="T,T,...", callback=_parse_times,
              help="Times that a model of --time parameter predicts; default: those of the fit.")  # fmt: skip
@click.option("--jobs", type=int, metavar="N", callback=_parse_jobs,
              help="Processes that predict parts of the samples; -1 for all processors.")  # fmt: skip
@_report_option
@_force_option
def predict(
    model: Path, data: tuple[str, ...], output: Path, steps: int | None, times: list[float] | None,
    jobs: int | None, report: Path | None, force: bool, **choice: Any,
) -> None:  # fmt: skip
    """Predict DATA with a MODEL and write files.

    Meshes are written as .vtu, with their inputs and the prediction; where the input holds the true field, also with
    <field>_true and <field>_error. Time series are written as .pvd, arrays as .npz, tables as .csv. A model that was
    fitted with --coverage adds <field>_lower and <field>_upper.
    """
    files = expand(data)
    check_report(report)
    read: list[Path | str | None] = [*files, model, choice["params"]]
    estimator = load_model(model)
    chosen = _choice_for(estimator, model, files, choice)
    options = _series_options(estimator, steps, times)
    if chosen.time is not None:
        if jobs is not None:
            raise click.UsageError("--jobs does not apply to time series; predict the runs by several commands")
        from skop.cli._series import find_run_files, outputs_of_runs

        runs = find_run_files(files)
        read += [file for run in runs for file in run.frame_files]
        targets = outputs_of_runs(runs, output, force)
    else:
        spec = estimator.spec_
        targets = _outputs(files, output, is_field=bool(spec.n_outputs), has_scalars=bool(spec.n_scalars))
    check_outputs([*targets, report], read, force)
    samples = read_samples(data, chosen)
    where = str(targets[0]) if len(targets) == 1 else str(output)
    earlier = [identity(path) for path in targets]
    try:
        _write(estimator, samples, targets, jobs, options)
    except KeyboardInterrupt:
        count = sum(identity(path) != file for path, file in zip(targets, earlier, strict=True))
        if len(targets) > 1:
            click.echo(f"{where}: {count} of {len(targets)} files were written", err=True)
        raise
    click.echo(f"{where}: {len(samples)} prediction{'s' if len(samples) > 1 else ''}")
    if report is not None:
        _write_report(report, estimator, samples, model)


@click.command(
    short_help="Errors of a model, run by run.",
    epilog="""\b
Examples:
  skop score model.skop 'test/*.vtu' --params doe.csv
  skop score model.skop test.npz --json""",
)
@_model_argument
@_data_argument
@array_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the mean error, and errors by channel and sample.")
@_report_option
@_force_option
def score(model: Path, data: tuple[str, ...], as_json: bool, report: Path | None, force: bool, **choice: Any) -> None:
    """Compare the predictions of a MODEL with the truth in DATA, run by run.

    The error is the mean relative L2 error, ||predicted - true|| / ||true||, with equal weight of all channels. Of a
    model fitted with --coverage, it also says how much of the truth is inside the bands.
    """
    from skop.inspection import evaluate

    files = expand(data)
    check_report(report)
    check_outputs([report], [*files, model, choice["params"]], force)
    estimator = load_model(model)
    wanted = _choice_for(estimator, model, files, choice)
    samples = read_samples(data, wanted)
    if hasattr(estimator, "series_"):
        # Frames are scored as channels, which hold no times.
        (estimator._series_part or estimator)._check_times_of([run.frames for run in samples.runs])
    if samples.y is None and wanted.time is None:
        # Says which sample has no truth.
        samples = read_samples(data, replace(wanted, needs_targets=True))
    if samples.y is None:
        names = ", ".join(wanted.targets) or "an array of targets (--y)"
        count = wanted.window + (wanted.n_frames or 0) if wanted.time == "rollout" else 0
        if short := [run for run in samples.runs if len(run.frames.times) < count]:
            names += f" in {count} frames, but {short[0].name} has {len(short[0].frames.times)}"
        raise click.UsageError(f"DATA does not hold the truth in every sample; expected {names}")
    evaluation = evaluate(estimator, samples.X, samples.y, names=samples.names)
    shares = covered(estimator, samples)
    if as_json:
        found = evaluation.to_dict() | ({} if shares is None else {"coverage": shares})
        click.echo(json.dumps(found, indent=2))
    else:
        print_errors(evaluation, "test")
        print_coverage(shares, estimator)
    if report is not None:
        _write_report(report, estimator, samples, model)


def _choice_for(estimator: Any, model: Path, files: list[Path], choice: dict[str, Any]) -> Choice:
    """What is read for a model, which takes no time series if it was not fitted on such."""
    from skop.cli._series import holds_series

    chosen, spec = choice_of_model(estimator, **choice), estimator.spec_
    if chosen.time is None and holds_series(files, None, says=False):
        kind, needed = ("single meshes", "files of single meshes") if spec.on_meshes else ("arrays", "a file of arrays")
        if spec.is_table:
            kind, needed = "a table", "a table"
        raise click.UsageError(
            f"{model.name} was fitted on {kind}, and {files[0]} is a time series of meshes; pass {needed}, or a model "
            "that was fitted on time series"
        )
    return chosen


def _series_options(estimator: Any, steps: int | None, times: list[float] | None) -> dict[str, Any]:
    """Arguments of a prediction in time."""
    is_series = hasattr(estimator, "series_")
    # A band has the frames of its estimator.
    frames = getattr(estimator, "estimator_", None) if hasattr(estimator, "predict_interval") else estimator
    if steps is not None and not (is_series and hasattr(frames, "window_")):
        raise click.UsageError("--steps applies to models of --time rollout")
    if times is not None and not (is_series and hasattr(frames, "times_")):
        raise click.UsageError("--times applies to models of --time parameter")
    given = {"n_steps": steps, "times": times}
    return {name: value for name, value in given.items() if value is not None}


def _write_report(report: Path, estimator: Any, samples: Samples, model: Path) -> None:
    """Write the report of samples that a model has not been trained on."""
    from skop.inspection import write_report

    write_report(
        report,
        estimator,
        samples.X,
        samples.y,
        names=samples.names,
        parameter_names=samples.parameter_names,
        meshes=samples.cells,
        model_path=model,
    )
    click.echo(f"{report}: report", err=True)


# ---------------------------------------------------------------------- files
def _outputs(files: list[Path], output: Path, *, is_field: bool, has_scalars: bool) -> list[Path]:
    """Files to write, one for each input, or for all arrays, rows or scalars of meshes; these come last."""
    ending = ".vtu" if are_meshes(files) else ".csv" if files[0].suffix.lower() == ".csv" else ".npz"
    if ending == ".vtu" and not is_field:
        return [output if output.suffix.lower() == ".csv" and not output.is_dir() else output / "predictions.csv"]
    if output.suffix.lower() in _FILES and output.suffix.lower() != ending and not output.is_dir():
        raise click.UsageError(f"predictions of {files[0].name} are written as {ending}; name a folder, or such a file")
    table = ending == ".vtu" and has_scalars
    if output.suffix.lower() == ending and not output.is_dir():
        if len(files) > 1:
            raise click.UsageError(f"-o {output} is one file for {len(files)} inputs; name a folder")
        return [output, output.with_suffix(".csv")] if table else [output]
    names = [f"{Path(name).stem}{ending}" for name in short_names(files)]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise click.UsageError(f"several inputs would be written to {min(repeated)}; give files distinct names")
    return [output / name for name in [*names, *(["predictions.csv"] if table else [])]]


def _write(estimator: Any, samples: Samples, targets: list[Path], jobs: int | None, options: dict[str, Any]) -> None:
    """Predict samples, and write the predictions."""
    if samples.time is not None:
        click.echo(samples.describe(), err=True)
        predicted = _predicted(estimator, samples.paths, None, params=samples.parameters, **options)[0]
        for series, path in zip(predicted, targets, strict=True):
            series.write(path)
    elif samples.meshes is not None:
        _write_meshes(estimator, samples, targets, jobs)
    elif samples.is_table:
        _write_table(estimator, samples, targets[0], jobs)
    else:
        _write_arrays(estimator, samples, targets[0], jobs)


def _predicted(estimator: Any, X: Any, jobs: int | None, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Predictions of all samples, and the ends of bands by name; in processes if a number of these is given."""
    has_bands = hasattr(estimator, "predict_interval")
    method = "predict_interval" if has_bands else "predict"
    if jobs is None:
        found = getattr(estimator, method)(X, **options)
    else:
        from skop.estimators import predict_in_parts

        found = predict_in_parts(estimator, X, n_jobs=jobs, method=method, **options)
    return (found[0], {"lower": found[1], "upper": found[2]}) if has_bands else (found, {})


def _write_meshes(estimator: Any, samples: Samples, targets: list[Path], jobs: int | None) -> None:
    """Write one mesh for each run, with its data, truth and error; scalars of runs go to one table."""
    has_scalars = bool(estimator.spec_.n_scalars)
    if jobs is not None and not has_scalars:
        from skop.estimators import predict_in_parts

        method = "predict_interval" if hasattr(estimator, "predict_interval") else "predict"
        options: dict[str, Any] = {"n_jobs": jobs, "method": method, "output": targets}
        predict_in_parts(estimator, samples.paths, params=samples.parameters, **options)
        return
    predicted, ends = _predicted(estimator, samples.paths, jobs, params=samples.parameters)
    if estimator.spec_.n_outputs:
        from skop.data import write_mesh

        meshes, predicted = predicted if has_scalars else (predicted, None)
        ends = {end: part[1] for end, part in ends.items()} if has_scalars else {}
        for mesh, path in zip(meshes, targets, strict=False):
            write_mesh(mesh, path)
    if not has_scalars:
        return
    table = _with_ends(estimator, _scalar_table(estimator, predicted), ends)
    table.insert(0, "file", list(samples.names))
    _write_csv(table, targets[-1])


def _scalar_table(estimator: Any, predicted: Any) -> Any:
    """Predicted scalars with the names of their columns."""
    import numpy as np

    from skop._optional import import_optional

    pandas = import_optional("pandas", purpose="write CSV files")
    values = np.asarray(predicted).reshape(len(predicted), -1)
    names = estimator.spec_.target_form.scalar_names
    return pandas.DataFrame(values, columns=names or [f"scalar_{number}" for number in range(values.shape[1])])


def _with_ends(estimator: Any, table: Any, ends: dict[str, Any]) -> Any:
    """Scalars with the ends of their bands in further columns."""
    parts = [_scalar_table(estimator, values).add_suffix(f"_{end}") for end, values in ends.items()]
    return table.join(parts) if parts else table


def _write_csv(table: Any, path: Path) -> None:
    """Write a table, in one step."""
    write_in_one_step(path, table.to_csv(index=False).encode())


def _write_table(estimator: Any, samples: Samples, path: Path, jobs: int | None) -> None:
    """Write the columns of the inputs, the predictions, and the truth and errors where they are known."""
    found, ends = _predicted(estimator, samples.X, jobs)
    predicted = _scalar_table(estimator, found)
    table = samples.X.reset_index(drop=True).join(_with_ends(estimator, predicted, ends))
    for name in samples.target_names:
        table[f"{name}_true"] = samples.table[name].to_numpy()
        table[f"{name}_error"] = predicted[name] - table[f"{name}_true"]
    _write_csv(table, path)


def _write_arrays(estimator: Any, samples: Samples, path: Path, jobs: int | None) -> None:
    """Write the predictions as the array y, with the points if there are any."""
    import numpy as np

    predicted, ends = _predicted(estimator, samples.X, jobs)
    arrays = {"y": predicted}
    if isinstance(predicted, tuple):
        arrays = {"coords": predicted[0], "y": predicted[1]}
    elif hasattr(predicted, "coords"):
        arrays = {"coords": predicted.coords, "y": predicted.values}
    for end, found in ends.items():
        arrays[f"y_{end}"] = found[1] if isinstance(found, tuple) else getattr(found, "values", found)
    write_in_one_step(path, lambda beside: np.savez(beside, **arrays))
