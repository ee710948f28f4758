"""What all tests of pictures share."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
