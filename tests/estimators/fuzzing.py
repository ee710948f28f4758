"""What the two fuzzers share: bounds of time and memory of a case, and the command line."""

import argparse
import resource
import signal
import warnings
from contextlib import contextmanager

import numpy as np

#: Longest time of a case, in seconds of the processor (twenty times as many of the clock).
SECONDS = 10
#: Memory that a process may take at all when it is run by the command line.
_BYTES = 12 * 2**30
#: First words of outcomes that must not be.
BAD = ("raw", "hang", "not finite", "memory")


class TooLong(BaseException):
    """A case took too long."""


def _stop(*_):
    raise TooLong


@contextmanager
def signals_caught():
    """Context of all cases, in which the signals of `limited` raise `TooLong`."""
    kinds = signal.SIGALRM, signal.SIGPROF
    earlier = [signal.signal(kind, _stop) for kind in kinds]
    try:
        yield
    finally:
        for kind, handler in zip(kinds, earlier, strict=True):
            signal.signal(kind, handler)


@contextmanager
def limited(seconds=SECONDS):
    """Context of one case, which ends with `TooLong` after some time; it gives no warnings."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(20 * seconds)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)


def most_memory():
    """Largest memory that this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_from_command_line(description, fuzz):
    """Run the cases that the command line asks for by ``fuzz(cases, seed, names, report)``, and print the counts."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--short", action="store_true", help="print the last lines of tracebacks only")
    options = parser.parse_args()

    def report(text):
        if options.short:
            lines = text.strip().splitlines()
            text = lines[0] + "".join(f"\n    {line.strip()}" for line in lines[-4:] if line not in lines[:1])
        print(text, flush=True)

    # What asks for more memory than this fails alone.
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    for word, count in fuzz(options.cases, options.seed, options.only, report).most_common():
        print(f"{count:7d} {word}")
