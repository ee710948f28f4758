"""Errors with few samples on two problems of de Hoop et al., beside the least errors that they published.

The published errors are the least over the widths of a network, on the authors' samples, with training on a GPU without
a limit of the time: M. V. de Hoop, D. Z. Huang, E. Qian, A. M. Stuart, "The cost-accuracy trade-off in operator
learning with neural networks", arXiv:2203.13181 (2022). The samples here are drawn by their description.
"""

from typing import Any

from benchmarks import _classical

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    _classical.add_options(
        commands.add_parser("cost-accuracy", help=__doc__.splitlines()[0]),
        "Cost against accuracy",
        rows=("forced-flow", "fibre"),
        models=("lamo", "amo", "pod", "fno"),
        test=625,
        seconds=[300.0],
        seeds=1,
        learning_curve=[156, 312, 625],
    )
