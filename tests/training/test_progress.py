"""The progress line: quiet where nobody watches."""

import io

import pytest

from skop.training import ProgressLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


def written(stream, verbose):
    line = ProgressLine("fit", verbose, stream)
    line.update(0.0, "loss 2")
    line.update(0.5, "loss 1")
    line.update(1.0, "loss 0.5")
    line.close()
    return stream.getvalue()


@pytest.mark.parametrize("verbose", [0, 1, False, True])
def test_nothing_is_written_to_a_log_unless_asked_for(verbose):
    assert written(io.StringIO(), verbose) == ""


@pytest.mark.parametrize("verbose", [0, False])
def test_a_silent_fit_is_silent_on_a_terminal_too(verbose):
    assert written(Terminal(), verbose) == ""


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
    assert "[" + 12 * "#" + 12 * "." + "]  50% loss 1" in frames[1]
    assert "[" + 24 * "#" + "] 100% loss 0.5" in frames[2]
    assert frames[2].endswith("0 s left")


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_lines_of_their_own_go_anywhere(stream):
    assert written(stream(), 2).splitlines() == ["fit   0% loss 2", "fit  50% loss 1", "fit 100% loss 0.5"]


def test_standard_error_is_the_default(capsys):
    ProgressLine("fit", 2).update(0.5)
    assert capsys.readouterr().err == "fit  50% \n"
