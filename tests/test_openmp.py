"""Torch's idle threads are told to sleep, unless the user has said something about them."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, sys
if "first" in sys.argv:
    import torch
seen = {}
class Watch:
    def find_spec(self, name, *rest):
        if name == "torch":
            seen.update({key: os.environ.get(key) for key in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")})
sys.meta_path.insert(0, Watch())
import skop
after = [os.environ.get(key) for key in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")]
print(json.dumps([seen, after, skop._openmp.import_torch()]))
"""
NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")


def run(*words, **variables):
    """What torch saw when it was imported, and what the process has afterwards."""
    environment = {name: value for name, value in os.environ.items() if name not in NAMES} | variables
    command = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def test_torch_is_imported_with_threads_that_sleep_and_the_variables_do_not_stay():
    seen, after, again = run()
    assert seen == {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
    assert after == [None, None]
    assert not again


@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.exhaustive) for name in NAMES[1:3])])
def test_a_users_setting_stays(name):
    seen, after, _ = run(**{name: "ACTIVE" if name == NAMES[0] else "7"})
    assert seen == dict(zip(NAMES[:2], after, strict=True))
    assert after == ["ACTIVE" if name == NAMES[0] else None, "7" if name == NAMES[1] else None]


def test_a_torch_that_is_there_already_is_left_alone():
    assert run("first")[:2] == [{}, [None, None]]
