"""``skop data make`` writes the data sets of the papers at full size."""

from __future__ import annotations

import io
import sys
import textwrap
import time
from pathlib import Path

import click

from skop.cli._models import require_output

__all__ = ["SETS", "data"]

#: Names of the sets; those of `skop.datasets`, which are listed without importing it.
SETS = (
    "advection", "airfoil", "brusselator", "darcy", "diffusion_reaction", "elasticity", "european_option",
    "fractal_darcy", "navier_stokes", "pdebench_darcy", "pipe", "plasticity", "shallow_water",
)  # fmt: skip


@click.group(short_help="Make data sets of the papers.", no_args_is_help=False)
def data() -> None:
    """Data sets of the papers: make them."""


@data.command(
    epilog=f"""\b
Sets:
  {textwrap.fill(", ".join(SETS), 90, subsequent_indent="  ")}

\b
Examples:
  skop data make darcy --full --jobs -1 -o darcy
  skop data make pipe --samples 20 -o pipe
  skop fit darcy/train.h5 -o darcy.skop
  skop score darcy.skop darcy/test.h5"""
)
@click.argument("name", type=click.Choice(SETS), metavar="NAME")
@click.option("--output", "-o", type=click.Path(path_type=Path, file_okay=False), required=True, metavar="FOLDER",
              help="Folder for train.h5 and test.h5.")  # fmt: skip
@click.option("--full", is_flag=True, help="As many samples as the paper has.")
@click.option("--samples", type=click.IntRange(min=1), metavar="N",
              help="Largest number of samples in each file, in place of that of the paper.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Seed of the samples.")
@click.option("--jobs", "--n-jobs", type=int, metavar="N",
              help="Samples that are made at once, in threads; -1: as many as processors.")  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="No progress on standard error.")
def make(
    name: str, output: Path, full: bool, samples: int | None, seed: int, jobs: int | None, quiet: bool
) -> None:  # fmt: skip
    """Make the data set NAME with the paper's equations, resolution and split.

    train.h5 and test.h5 hold the arrays that the other commands look for. Samples are written one by one: a command
    that was killed goes on where it stopped, and the first samples are the same for any --samples and --jobs.
    """
    if not full and samples is None:
        raise click.UsageError("say --full for as many samples as the paper has, or --samples N")
    from skop.datasets._full_size import FULL_SIZE, parts_of_set

    files = parts_of_set(FULL_SIZE[name], output, samples, seed)
    for file in files:
        if not file.path.exists():
            require_output(file.path)
    for file in files:
        start, present = time.perf_counter(), None
        shown = io.StringIO() if quiet else sys.stderr
        with click.progressbar(length=file.count, label=str(file.path), file=shown) as bar:
            for made in file.write(jobs):
                present = made if present is None else present
                bar.update(made - bar.pos)
        new, seconds = file.count - (present or 0), time.perf_counter() - start
        rate = f", {seconds / new:.2g} s for each of {new} new ones" if new else ", all made before"
        click.echo(f"{file.path}: {file.count} samples, {file.path.stat().st_size / 1e6:,.1f} MB{rate}")
