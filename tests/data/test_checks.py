"""Values that are no numbers are found, wherever they are, and named."""

import numpy as np
import pytest

from skop import FieldSet
from skop.data import read, unit_grid
from skop.exceptions import FieldDataError

RANDOM = np.random.default_rng(0)
GRID = (4, 3)
COORDS = unit_grid(GRID)
X, Y, TABLE = RANDOM.random((5, *GRID, 2)), RANDOM.random((5, *GRID, 3)), RANDOM.random((5, 4))
FLAT_X, FLAT_Y, SCALARS = X.reshape(5, 12, 2), Y.reshape(5, 12, 3), TABLE[:, 0]


def spoiled(array, place, value):
    array = np.array(array)
    array[place] = value
    return array


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_located(value):
    with pytest.raises(FieldDataError, match=r"X .*sample 3, channel 1"):
        read(spoiled(X, (3, 0, 2, 1), value), Y)
    with pytest.raises(FieldDataError, match=r"y .*sample 4, channel 2"):
        read(X, spoiled(Y, (4, 3, 1, 2), value))
    with pytest.raises(FieldDataError, match=r"y .*sample 2, scalar 0"):
        read(TABLE, spoiled(SCALARS, 2, value))
    with pytest.raises(FieldDataError, match=r"X .*params.*\[1, 3\]"):
        read(spoiled(TABLE, (1, 3), value), Y)
    with pytest.raises(FieldDataError, match=r"X .*coords.*\[7, 1\]"):
        read((spoiled(COORDS, (7, 1), value), FLAT_X), FLAT_Y)


def test_bad_value_of_a_ragged_sample_is_located(monkeypatch):
    sizes = [3, 5, 2, 4]
    coords = [RANDOM.random((size, 2)) for size in sizes]
    fields = [points.copy() for points in coords]
    fields[2][0, 1] = np.nan
    for chunk in (1, 10**6):
        monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", chunk)
        with pytest.raises(FieldDataError, match="sample 2, channel 1"):
            read(FieldSet(coords, fields), np.zeros(4))


def test_bad_value_of_a_memory_map_is_found_by_streaming(tmp_path, monkeypatch):
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(40, 6, 5, 2))
    mapped[:] = 0.5
    mapped[33, 5, 4, 1] = np.inf
    mapped.flush()
    monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", 60 * 4)
    sizes = []
    isfinite = np.isfinite
    monkeypatch.setattr(np, "isfinite", lambda values: sizes.append(np.size(values)) or isfinite(values))
    with pytest.raises(FieldDataError, match="sample 33, channel 1"):
        read(np.load(tmp_path / "x.npy", mmap_mode="r"), np.zeros(40))
    assert max(sizes) <= 60 * 4
