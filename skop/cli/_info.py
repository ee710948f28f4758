"""``skop demo`` demonstrates the package, ``skop info`` prints versions and devices."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from skop._version import __version__
from skop.cli._models import check_outputs

__all__ = ["demo", "info"]

_OPTIONAL_PACKAGES = ("matplotlib", "h5py", "zarr", "triton", "mamba-ssm", "pandas")


@click.command(context_settings={"show_default": True})
@click.option("--output", default="skop-demo", metavar="FOLDER", help="Folder to write to.")
@click.option("--samples", type=click.IntRange(min=16), default=500, help="Simulations to train on.")
@click.option("--resolution", type=click.IntRange(min=4), default=32, help="Points per side of the grid.")
@click.option("--epochs", type=click.IntRange(min=1), default=60, help="Largest number of epochs.")
@click.option("--max-time", type=click.FloatRange(min=0.01), default=40.0, help="Time limit of the training, seconds.")
@click.option("--seed", type=click.IntRange(min=0, max=2**31 - 1), default=0, help="Seed of data and training.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE.html", show_default=False,
              help="Report to write, one file that any browser shows.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite an existing report.")
def demo(
    output: str,
    samples: int,
    resolution: int,
    epochs: int,
    max_time: float,
    seed: int,
    report: Path | None,
    force: bool,
) -> None:
    """Simulate, train and compare, within three minutes on a laptop.

    Solve Darcy flow through random porous squares, train LaMO on the solutions, compare it with simpler models, and
    write pictures and the model to a folder.
    """
    from skop._demo import DemoOptions, run_demo

    check_outputs([report], [], force)
    run_demo(DemoOptions(output, samples, resolution, epochs, max_time, seed, None if report is None else str(report)))


@click.command()
def info() -> None:
    """Print versions, device and threads, for bug reports."""
    import skop._threads  # noqa: F401 - before torch

    # isort: split
    import numpy as np
    import sklearn
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu (torch sees no CUDA device)"
    rows = {
        "skop": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
        "numpy": np.__version__,
        "device": device,
        "threads": f"{torch.get_num_threads()} of torch, {os.cpu_count()} processors",
        **{name: _version_of(name) for name in _OPTIONAL_PACKAGES},
    }
    width = max(map(len, rows)) + 2
    for name, value in rows.items():
        click.echo(f"{name:<{width}}{value}")


def _version_of(package: str) -> str:
    """Return the version of an optional package, or that it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed (optional)"
