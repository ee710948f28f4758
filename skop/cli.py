"""The command line ``skop``: ``skop demo`` demonstrates the package, ``skop info`` prints versions and devices."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version

import skop._openmp  # noqa: F401 - before anything that imports torch

# isort: split
import numpy as np
import sklearn
import torch

from skop._demo import DemoOptions, run_demo
from skop._version import __version__
from skop.exceptions import SkopError

__all__ = ["main"]

#: Exit status of a command that failed; argparse uses the same for invalid options.
_FAILURE = 2
_INTERRUPTED = 130
_OPTIONAL_PACKAGES = ("matplotlib", "h5py", "triton", "mamba-ssm", "pandas")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the console script.

    Parameters
    ----------
    arguments : sequence of str or None, default=None
        Command-line arguments after ``skop``; None takes those of the process.

    Returns
    -------
    int
        Exit status: 0 for success, or 2 for a failure, whose reason is printed on standard error.

    Raises
    ------
    SystemExit
        With status 2 for invalid options, and 0 after ``--help`` and ``--version``.

    Examples
    --------
    >>> from skop.cli import main
    >>> main(["info"])
    skop ...
    """
    options = _make_parser().parse_args(arguments)
    try:
        options.run(options)
    except (SkopError, OSError) as error:
        # Join messages of several lines, so that they are recognised as one error.
        print(f"skop {options.command}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return _FAILURE
    except KeyboardInterrupt:
        print(f"skop {options.command}: interrupted", file=sys.stderr)
        return _INTERRUPTED
    return 0


def _make_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="skop", description="Fast surrogates of simulations, as scikit-learn estimators."
    )
    parser.add_argument("--version", action="version", version=f"skop {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{demo,info}")
    _add_demo(commands)
    info = commands.add_parser("info", help="print versions, device and threads, for bug reports")
    info.set_defaults(run=_info)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``skop demo`` with its options, whose defaults are those of `DemoOptions`."""
    defaults = DemoOptions()
    demo = commands.add_parser(
        "demo",
        help="simulate, train and compare, within three minutes on a laptop",
        description="Solve Darcy flow through random porous squares, train LaMO on the solutions, compare it with "
        "simpler models, and write pictures and the model to a folder.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--output", default=defaults.output, metavar="FOLDER", help="where to write")
    numbers: list[tuple[str, float, Callable[[str], float], str]] = [
        ("samples", 16, int, "simulations to train on"),
        ("resolution", 4, int, "points per side of the grid"),
        ("epochs", 1, int, "largest number of epochs"),
        ("max_time", 0.01, float, "time limit of the training in seconds"),
        ("seed", 0, int, "seed of data and training"),
    ]
    for name, minimum, kind, text in numbers:
        flag, default = f"--{name.replace('_', '-')}", getattr(defaults, name)
        demo.add_argument(flag, type=_at_least(minimum, kind), default=default, metavar="N", help=text)
    demo.set_defaults(run=_demo)


def _at_least(minimum: float, kind: Callable[[str], float]) -> Callable[[str], float]:
    """Make a type for argparse: a finite number with a lower bound."""

    def convert(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = np.nan
        if not minimum <= number < 2**31:
            name = "an integer" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"expected {name} of at least {minimum}, got {text!r}")
        return number

    return convert


def _demo(options: argparse.Namespace) -> None:
    """Run ``skop demo``."""
    run_demo(DemoOptions(**{field.name: getattr(options, field.name) for field in fields(DemoOptions)}))


def _info(_options: argparse.Namespace) -> None:
    """Run ``skop info``."""
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
        print(f"{name:<{width}}{value}")


def _version_of(package: str) -> str:
    """Return the version of an optional package, or that it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed (optional)"
