"""Progress on terminals, and where there is none: quiet if asked to be, and seldom enough for a log."""

import io
import sys
import types
from itertools import product

import pytest

from skop.training import ProgressLine, in_words, is_watched
from skop.training._progress import _LINE_PAUSE


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_who_watches_a_terminal_or_a_notebook_sees_what_is_written(monkeypatch):
    assert is_watched(Terminal())
    assert not is_watched(io.StringIO())
    assert not is_watched(None)  # as standard error under pythonw
    shell = type("Shell", (), {"__module__": "ipykernel.zmqshell"})()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert is_watched(io.StringIO())


class Clock:
    """A clock that is moved by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def written(stream, verbose):
    clock = Clock()
    line = ProgressLine("fit", verbose, stream, clock=clock)
    clock.now += 1
    line.update(0.0, "loss 2")
    clock.now += 2
    line.update(0.5, "loss 1")
    clock.now += 2
    line.update(1.0, "loss 0.5")
    line.close()
    return stream.getvalue()


def test_a_silent_fit_is_silent_everywhere():
    for verbose, stream in product([0, False], [io.StringIO, Terminal]):
        assert written(stream(), verbose) == ""


@pytest.mark.parametrize("verbose", [1, True])
def test_a_terminal_gets_one_line_that_is_rewritten(verbose):
    text = written(Terminal(), verbose)
    assert text.count("\n") == 1
    assert text.endswith("\n")
    frames = text.strip("\n").split("\r")[1:]
    assert len(frames) == 3
    # Every frame clears what is left of the one before.
    assert all(frame.startswith("\x1b[2K") for frame in frames)
    assert "[" + 24 * "." + "]   0% loss 2" in frames[0]
    # The time until the first update, in which kernels are compiled, says nothing of the rest.
    assert frames[1].endswith("[" + 12 * "#" + 12 * "." + "]  50% loss 1  3 s, 2 s left")
    assert frames[2].endswith("[" + 24 * "#" + "] 100% loss 0.5  5 s, 0 s left")


@pytest.mark.parametrize(("columns", "bar"), [(30, 6), (44, 6), (54, 8), (200, 24)])
def test_a_bar_stays_on_one_line(monkeypatch, columns, bar):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream, clock = Terminal(), Clock()
    ProgressLine("LaMORegressor", 1, stream, clock=clock).update(0.0, "loss 0.1")
    frame = stream.getvalue().removeprefix("\r\x1b[2K")
    assert len(frame) < columns
    assert frame.startswith("LaMORegressor [" + "." * bar + "]")
    assert frame.endswith("0 s left") == (columns > 44)


def test_a_bar_is_not_drawn_anew_at_every_step():
    clock, stream = Clock(), Terminal()
    line = ProgressLine("fit", 1, stream, clock=clock)
    for step in range(1, 81):
        clock.now += 0.0625
        line.update(step / 200, ends_epoch=False)
    # Not before 0.2 s are over: at every fourth step.
    assert stream.getvalue().count("\r") == 20


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_line_for_each_epoch_goes_anywhere(stream):
    stream = stream()
    lines = written(stream, 2).splitlines()
    assert [line.partition("  loss")[0].split("  ")[0] for line in lines] == ["fit", "fit", "fit 100% loss 0.5"]
    assert lines[1] == "fit  50% loss 1  3 s, 2 s left"
    line = ProgressLine("fit", 2, stream)
    line.update(0.1, ends_epoch=False)
    assert stream.getvalue().count("\n") == 3


@pytest.mark.parametrize("verbose", [1, True])
def test_a_log_gets_a_line_every_few_seconds_and_one_at_the_end(verbose):
    clock, stream = Clock(), io.StringIO()
    line = ProgressLine("fit", verbose, stream, clock=clock)
    for epoch in range(1, 41):
        clock.now += 1.0
        line.update(epoch / 80, f"epoch {epoch}")
    line.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 40 / _LINE_PAUSE + 1
    assert lines[0] == "fit   6% epoch 5  5 s, 1 min 15 s left"
    # It stopped early, and says so by the part.
    assert lines[-1] == "fit  50% epoch 40  done in 40 s"


def test_a_fit_that_is_short_or_fails_says_little():
    assert written(io.StringIO(), 1) == "fit 100% loss 0.5  5 s, 0 s left\nfit 100% loss 0.5  done in 5 s\n"
    stream = io.StringIO()
    line = ProgressLine("fit", 1, stream)
    line.update(0.1)
    line.close(failed=True)
    assert stream.getvalue() == ""
    terminal = Terminal()
    ProgressLine("fit", 1, terminal).close(failed=True)
    assert terminal.getvalue() == ""


def shell_of(module):
    """Stands in for IPython with a running shell whose class is of this module."""
    shell = type("Shell", (), {"__module__": module})()
    return types.SimpleNamespace(get_ipython=lambda: shell)


@pytest.mark.parametrize(
    ("ipython", "is_terminal"),
    [
        (None, True),
        (types.SimpleNamespace(get_ipython=lambda: None), True),
        (shell_of("IPython.terminal.interactiveshell"), True),
        (shell_of("ipykernel.zmqshell"), False),
        (shell_of("google.colab._shell"), False),
    ],
)
def test_a_notebook_that_says_it_were_a_terminal_gets_lines(monkeypatch, ipython, is_terminal):
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setenv("TERM", "xterm")
    line = ProgressLine("fit", 1, Terminal())
    assert (line.rewrites, line.now_and_then) == (is_terminal, not is_terminal)


def test_a_terminal_that_cannot_rewrite_and_a_stream_that_says_nothing_get_lines(monkeypatch):
    bare = types.SimpleNamespace(write=print, flush=print)
    assert ProgressLine("fit", 1, bare).now_and_then
    monkeypatch.setenv("TERM", "dumb")
    assert ProgressLine("fit", 1, Terminal()).now_and_then


def test_without_standard_error_nothing_is_shown(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    line = ProgressLine("fit", 2)
    line.update(0.5)
    line.close()
    assert not line.shows


def test_standard_error_is_the_default(capsys):
    ProgressLine("fit", 2, clock=Clock()).update(0.5)
    assert capsys.readouterr().err == "fit  50%   0 s, 0 s left\n"


def test_durations_in_words():
    for seconds, words in [
        (0, "0 s"),
        (0.0124, "12.4 ms"),
        (2, "2 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (7380, "2 h 3 min"),
    ]:
        assert in_words(seconds) == words
