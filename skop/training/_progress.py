"""Progress of a training: a bar on terminals, and lines of text in notebooks, log files and continuous integration."""

import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

__all__ = ["ProgressLine", "in_words", "is_watched"]

_BAR_WIDTH, _SHORT_BAR = 24, 6
#: Seconds between two pictures of the bar within an epoch, and between two lines where there is no terminal.
_PAUSE, _LINE_PAUSE = 0.2, 5.0


def in_words(seconds: float) -> str:
    """Write a duration in the units in which one would say it.

    Parameters
    ----------
    seconds : float
        Duration.

    Returns
    -------
    str
        Such as ``"8 s"``, ``"2 min 5 s"`` or ``"1 h 20 min"``; below 10 s with two digits.

    Examples
    --------
    >>> from skop.training import in_words
    >>> in_words(0.0124), in_words(8.06), in_words(125), in_words(4800)
    ('12.4 ms', '8.1 s', '2 min 5 s', '1 h 20 min')
    """
    if 0 < seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 10:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, left = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{hours} h {left} min" if left else f"{hours} h"


class ProgressLine:
    """Progress of a training with its elapsed and remaining time.

    Parameters
    ----------
    title : str
        Text before the progress.
    verbose : bool or int
        Amount of output. 0: none. 1: a bar on a terminal; elsewhere (Jupyter, log files, continuous integration) a line
        every five seconds, and one at the end. 2: a line for every epoch.
    stream : file or None, default=None
        File to write to; None means standard error.
    clock : callable, default=time.perf_counter
        Function that returns the time in seconds.

    Examples
    --------
    >>> import sys
    >>> from skop.training import ProgressLine
    >>> line = ProgressLine("fit", 2, sys.stdout, clock=iter([0.0, 30.0]).__next__)
    >>> line.update(0.25, "loss 0.1")
    fit  25% loss 0.1  30 s, 1 min 30 s left
    """

    def __init__(
        self,
        title: str,
        verbose: bool | int,
        stream: TextIO | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.title, self.stream, self.clock = title, sys.stderr if stream is None else stream, clock
        # Under pythonw there is no standard error.
        wanted = 0 if self.stream is None else int(verbose)
        self.rewrites = wanted == 1 and _is_terminal(self.stream)
        self.every_epoch = wanted >= 2
        self.now_and_then = wanted == 1 and not self.rewrites
        self.start = self.written = clock()
        #: Time and part of the first update, which follows the first step, in which kernels are compiled.
        self.first: tuple[float, float] | None = None
        self.last: tuple[float, str] | None = None

    @property
    def shows(self) -> bool:
        """Whether anything is written."""
        return self.rewrites or self.every_epoch or self.now_and_then

    @property
    def shows_steps(self) -> bool:
        """Whether anything is written within an epoch."""
        return self.rewrites or self.now_and_then

    def update(self, part: float, text: str = "", *, ends_epoch: bool = True) -> None:
        """Show the progress, if it is time to.

        Parameters
        ----------
        part : float
            Completed fraction, from 0 to 1.
        text : str, default=""
            Short text, such as the loss.
        ends_epoch : bool, default=True
            Whether an epoch has ended.
        """
        if not self.shows:
            return
        now = self.clock()
        self.first, self.last = self.first or (now, part), (part, text)
        pause = now - self.written
        if self.rewrites and (ends_epoch or pause >= _PAUSE):
            self._write(f"\r\x1b[2K{self._picture(part, f'{text}  {self._times(now, part)}')}", now)
        elif (self.every_epoch and ends_epoch) or (self.now_and_then and pause >= _LINE_PAUSE):
            self._write(f"{self.title} {part:4.0%} {text}  {self._times(now, part)}\n", now)

    def close(self, *, failed: bool = False) -> None:
        """Finish the bar, so that further output starts on a new line, or write the last line.

        Parameters
        ----------
        failed : bool, default=False
            Whether the training ended in an error.
        """
        if self.rewrites and self.last is not None:
            self._write("\n", self.written)
        elif self.now_and_then and self.last is not None and not failed:
            part, text = self.last
            now = self.clock()
            self._write(f"{self.title} {part:4.0%} {text}  done in {in_words(now - self.start)}\n", now)

    def _picture(self, part: float, words: str) -> str:
        """Bar and words on one line of the terminal: a line that is broken could not be cleared."""
        columns = shutil.get_terminal_size().columns - 1
        width = max(_SHORT_BAR, min(_BAR_WIDTH, columns - len(f"{self.title} [] {part:4.0%} {words}")))
        full = round(part * width)
        return f"{self.title} [{'#' * full}{'.' * (width - full)}] {part:4.0%} {words}"[:columns]

    def _times(self, now: float, part: float) -> str:
        """Elapsed and remaining time, in words."""
        elapsed = now - self.start
        began, done = self.first or (self.start, 0.0)
        # The first update is all there is to go by at the start.
        began, done = (began, done) if part > done and now > began else (self.start, 0.0)
        left = (now - began) * (1 - part) / (part - done) if part > done else 0.0
        return f"{in_words(round(elapsed))}, {in_words(round(left))} left"

    def _write(self, text: str, now: float) -> None:
        """Write to the stream at once."""
        self.stream.write(text)
        self.stream.flush()
        self.written = now


def _is_terminal(stream: TextIO) -> bool:
    """Whether a line that was written to a stream can be written anew."""
    isatty = getattr(stream, "isatty", None)
    return isatty is not None and bool(isatty()) and os.environ.get("TERM") != "dumb" and not _is_in_notebook()


def is_watched(stream: TextIO | None) -> bool:
    """Whether a person sees at once what is written to a stream: on a terminal or in a notebook, not in a log file."""
    isatty = getattr(stream, "isatty", None)
    return stream is not None and ((isatty is not None and bool(isatty())) or _is_in_notebook())


def _is_in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, some of which say that they were terminals."""
    # Where IPython runs the code it has been imported.
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and not type(shell).__module__.startswith("IPython.terminal")
