"""Values in files: never the whole in memory, and the same model as from memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

zarr = pytest.importorskip("zarr")

SMALL = {"width": 8, "depth": 1, "max_iter": 2, "random_state": 0}
KINDS = ("memory map", "HDF5", "Zarr")


# ---------------------------------------------------------------------- less memory than data
@pytest.mark.skipif(sys.platform != "linux", reason="the limit counts what it should on Linux alone")
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param((144, 16, 768, 1, 0), id="108 MB in 36 MB"),
        pytest.param((1500, 32, 48, 4, 1), id="288 MB in 96 MB", marks=pytest.mark.exhaustive),
    ],
)
def test_a_set_three_times_larger_than_the_memory(tmp_path, sizes):
    script = Path(__file__).with_name("limited_memory.py")
    # A fixed threshold makes the allocator give arrays back to the system when they are freed.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, script, tmp_path, *map(str, sizes)], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["room"] * 3 <= found["size"]
    # The same limit refuses the inputs as a whole, of any kind of file.
    assert [found[kind]["refused"] for kind in KINDS] == [True] * 3
    assert found["memory map"]["numbers"] == found["HDF5"]["numbers"] == found["Zarr"]["numbers"]
