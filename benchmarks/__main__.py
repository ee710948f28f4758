"""Command line of the benchmarks: ``python -m benchmarks NAME ...``."""

import argparse
import sys
from collections.abc import Sequence

from benchmarks import (
    _classical,
    _cost_accuracy,
    _cost_estimate,
    _darcy_solver,
    _distributed,
    _flow_solver,
    _function_maps,
    _kernel_ablation,
    _kernels,
    _kills,
    _novelty,
    _papers,
    _pdebench_solvers,
    _phase_error,
    _point_scaling,
    _query_positions,
    _rollout_or_all_at_once,
    _sets,
    _streaming,
    _suggest,
    _threads,
    _training_step,
    _trust,
)
from skop.exceptions import SkopError

__all__ = ["main", "make_parser"]

_MEASUREMENTS = (
    _papers,
    _classical,
    _cost_accuracy,
    _training_step,
    _cost_estimate,
    _threads,
    _streaming,
    _distributed,
    _rollout_or_all_at_once,
    _function_maps,
    _query_positions,
    _phase_error,
    _point_scaling,
    _kernel_ablation,
    _darcy_solver,
    _flow_solver,
    _pdebench_solvers,
    _sets,
    _kernels,
    _kills,
    _novelty,
    _suggest,
    _trust,
)


def make_parser() -> argparse.ArgumentParser:
    """Parser of the command line of all benchmarks.

    Returns
    -------
    argparse.ArgumentParser
        The parser; the function of a command is `run` of what it parses.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Benchmarks of skop, compared with other implementations."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for measurement in _MEASUREMENTS:
        measurement.add_command(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark.

    Parameters
    ----------
    arguments : sequence of str or None, default=None
        Command-line arguments; None takes those of the process.

    Returns
    -------
    int
        Exit status: 0 for success, 2 for invalid arguments or data.
    """
    options = make_parser().parse_args(arguments)
    try:
        options.run(options)
    except (SkopError, OSError) as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
