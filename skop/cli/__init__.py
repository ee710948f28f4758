"""The command line ``skop``: from folders of runs to models, predictions, errors and reports.

This file holds the console script: its commands, and what becomes of errors, warnings and interrupts. Modules of
commands import torch and scikit-learn inside their functions, so that ``skop --help`` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from types import FrameType
from typing import Any, NoReturn

import click

from skop._version import __version__
from skop.cli._describe import describe
from skop.cli._fit import compare, fit
from skop.cli._info import demo, info
from skop.cli._predict import predict, score
from skop.cli._sets import data
from skop.exceptions import SkopError, each_warning_once

__all__ = ["main"]

#: Exit status of a command that failed or was used wrongly, and of one that the user interrupted.
_FAILURE = 2
_INTERRUPTED = 130


class _Commands(click.Group):
    """Group of commands that turns errors of data and files into one line and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands in the order of their use."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        # A command lists its files before it reads them, and so twice.
        with warnings.catch_warnings(), each_warning_once(), _noted_interrupts() as interrupts:
            warnings.showwarning = _show_warning
            ctx.obj = interrupts
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                _end_as_interrupted(ctx)
            except (click.exceptions.Exit, click.ClickException, click.Abort):
                raise
            except BrokenPipeError:
                # Whoever read the output, such as head, has enough of it.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                ctx.exit(_FAILURE)
            except Exception as error:
                if interrupts and not isinstance(error, OSError):
                    _end_as_interrupted(ctx)
                if not isinstance(error, SkopError | OSError | ValueError):
                    raise
                from skop.data.forms.files import ChoiceError

                name = f"skop {ctx.invoked_subcommand}"
                hint = f". See: {name} --help" if isinstance(error, ChoiceError) else ""
                _say_error(name, str(error).rstrip(".") + hint if hint else str(error))
                ctx.exit(_FAILURE)


def _end_as_interrupted(ctx: click.Context) -> NoReturn:
    """Say that the user interrupted the command, and end it."""
    click.echo(f"skop {ctx.invoked_subcommand}: interrupted", err=True)
    ctx.exit(_INTERRUPTED)


class _Interrupts(list[int]):
    """Interrupts of the user so far, and whether they wait: raised in C++ code that a package loads, they abort it."""

    wait = False


@contextmanager
def _noted_interrupts() -> Iterator[_Interrupts]:
    """List the interrupts of the user: packages that are being imported lose some, or make errors of their own."""
    noted = _Interrupts()
    usual_hook = sys.unraisablehook

    def report(lost: sys.UnraisableHookArgs) -> None:
        # An interrupt in a callback of Python's own is lost there: it is in the list, and no defect to show.
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            usual_hook(lost)

    def interrupt(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        if not noted.wait:
            signal.default_int_handler(number, frame)

    usual = signal.default_int_handler
    is_main = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is usual
    # The processes of torchrun have a handler of their own, by which all end at the same step.
    is_main &= "WORLD_SIZE" not in os.environ
    if is_main:
        signal.signal(signal.SIGINT, interrupt)
        sys.unraisablehook = report
    try:
        yield noted
    finally:
        if is_main:
            signal.signal(signal.SIGINT, usual)
            sys.unraisablehook = usual_hook


@click.group(
    cls=_Commands,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: skop describe 'runs/*.vtu'. Each command explains its options: skop fit --help.",
)
@click.version_option(__version__, prog_name="skop", message="%(prog)s %(version)s")
def _skop() -> None:
    """Fast surrogates of simulations: from a folder of runs to a model with known error.

    DATA of a command are mesh files (a list, or a quoted pattern such as 'runs/*.vtu'), one file of arrays (.npz, .npy,
    .mat, .h5), or one .csv table.
    """


def _loads_first(run: Callable[..., None]) -> Callable[..., None]:
    """Make a command load the packages first, and end then if the user has interrupted meanwhile."""

    @wraps(run)
    def loaded(**options: Any) -> None:
        interrupts = click.get_current_context().obj
        interrupts.wait = True
        try:
            import skop.estimators  # noqa: F401
        finally:
            interrupts.wait = False
        if interrupts:
            raise KeyboardInterrupt
        run(**options)

    return loaded


for _command in (fit, predict, score, compare, describe, demo):
    assert _command.callback is not None
    _command.callback = _loads_first(_command.callback)
    _skop.add_command(_command)
_skop.add_command(data)
_skop.add_command(info)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the console script.

    Parameters
    ----------
    arguments : sequence of str or None, default=None
        Command-line arguments after ``skop``; None takes those of the process, and ends the process at once if the user
        interrupted while threads of packages compute.

    Returns
    -------
    int
        Exit status: 0 for success; 2 for wrong options, data that cannot be used or files that cannot be read or
        written, with the reason in one line on standard error; 130 if the user interrupted.

    Examples
    --------
    >>> from skop.cli import main
    >>> main(["info"])
    skop ...
    """
    try:
        result = _skop.main(None if arguments is None else list(arguments), prog_name="skop", standalone_mode=False)
    except click.UsageError as error:
        name = "skop" if error.ctx is None else error.ctx.command_path
        _say_error(name, f"{error.format_message().rstrip('.')}. See: {name} --help")
        return _FAILURE
    except click.ClickException as error:
        _say_error("skop", error.format_message())
        return _FAILURE
    except click.Abort:
        return _INTERRUPTED
    status = result if isinstance(result, int) else 0
    if status == _INTERRUPTED and arguments is None:
        _leave_running_threads()
    return status


def _leave_running_threads() -> None:
    """End the process if a thread of a package, such as joblib's, still computes after an interrupt."""
    # Compiled code of C++ that comes back while the interpreter shuts down aborts the process. Files are closed by now.
    if any(thread.daemon for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(_INTERRUPTED)


def _say_error(command: str, message: str) -> None:
    """Print an error as one line, also if its message has several."""
    click.echo(f"{command}: error: {' '.join(message.split())}", err=True)


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Print a warning as one line, without a line of code that the user of a command has not written."""
    print(f"skop: warning: {' '.join(str(message).split())}", file=sys.stderr if file is None else file)
