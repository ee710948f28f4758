"""A progress bar on terminals, or a line of text for each epoch."""

import sys
import time
from typing import TextIO

__all__ = ["ProgressLine"]

_BAR_WIDTH = 24


class ProgressLine:
    """Progress bar on one line of a terminal.

    Parameters
    ----------
    title : str
        Text before the bar.
    verbose : bool or int
        Amount of output. 0: none. 1: a bar, on terminals only. 2: a separate line for every epoch, also in logs and
        notebooks.
    stream : file or None, default=None
        File to write to; None means standard error.

    Examples
    --------
    >>> import sys
    >>> from skop.training import ProgressLine
    >>> ProgressLine("fit", 2, sys.stdout).update(0.5, "loss 0.1")
    fit  50% loss 0.1
    """

    def __init__(self, title: str, verbose: bool | int, stream: TextIO | None = None) -> None:
        self.title, self.stream = title, sys.stderr if stream is None else stream
        self.rewrites = verbose == 1 and self.stream.isatty()
        self.lines = int(verbose) >= 2
        self.start = time.perf_counter()

    @property
    def shows(self) -> bool:
        """Whether anything is written."""
        return self.rewrites or self.lines

    def update(self, part: float, text: str = "") -> None:
        """Show the completed fraction, from 0 to 1, and a short text."""
        if self.lines:
            print(f"{self.title} {part:4.0%} {text}", file=self.stream)
        elif self.rewrites:
            full = round(part * _BAR_WIDTH)
            elapsed = time.perf_counter() - self.start
            left = elapsed / part - elapsed if part > 0 else 0.0
            bar = "#" * full + "." * (_BAR_WIDTH - full)
            self.stream.write(f"\r\x1b[2K{self.title} [{bar}] {part:4.0%} {text}  {elapsed:.0f} s, {left:.0f} s left")
            self.stream.flush()

    def close(self) -> None:
        """Finish the line, so that further output starts on a new one."""
        if self.rewrites:
            self.stream.write("\n")
            self.stream.flush()
