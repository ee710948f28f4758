"""A progress line that stays quiet where nobody watches."""

import sys
import time
from typing import TextIO

__all__ = ["ProgressLine"]

_BAR_WIDTH = 24


class ProgressLine:
    """One line on a terminal, rewritten as training goes on.

    Parameters
    ----------
    title : str
        What is going on.
    verbose : bool or int
        0: silent. 1: a line that is rewritten, on terminals only. 2: a line of its own for every
        epoch, also in logs and notebooks.
    stream : file or None, default=None
        Where to write; None means standard error.

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

    def update(self, part: float, text: str = "") -> None:
        """Show how far the work is, as a part of 1, and a few words."""
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
        """Leave the line as it stands."""
        if self.rewrites:
            self.stream.write("\n")
            self.stream.flush()
