"""The measurement on the small Darcy set, on a made-up file of its form."""

import numpy as np
import pytest

from benchmarks import _small_darcy
from benchmarks.__main__ import main
from benchmarks._report import read_report
from skop import FieldSet
from skop.exceptions import FieldDataError


def write_data(path, *, without=()):
    """A file of the published form, smaller: 14 samples at 8 x 8, and 4 of them at 16 x 16 too."""
    generator = np.random.default_rng(0)
    phases = generator.uniform(0, 3, size=(18, 1, 1))

    def fields(size, rows):
        x = np.arange(size) / size
        a = (np.sin(6 * x[:, None] + phases[rows]) * np.cos(4 * x + phases[rows]) > 0).astype(np.float32)
        u = 1 + np.sin(2 * x[:, None] + phases[rows]) * x
        return a, u.astype(np.float32)

    arrays = {}
    for name, size, rows in (("train16", 8, slice(0, 14)), ("test16", 8, slice(14, 18)), ("test32", 16, slice(14, 18))):
        arrays[f"{name}_a"], arrays[f"{name}_u"] = fields(size, rows)
    np.savez(path, **{key: array for key, array in arrays.items() if key not in without})
    return arrays


def test_the_file_is_read_as_six_sets_on_the_half_open_unit_square(tmp_path):
    arrays = write_data(tmp_path / "data.npz")
    sets = _small_darcy.read_small_darcy(tmp_path / "data.npz")
    assert set(sets) == set(arrays)
    for key, array in arrays.items():
        size = array.shape[-1]
        assert sets[key].grid_shape == (size, size)
        np.testing.assert_array_equal(sets[key].values[..., 0], array.reshape(len(array), -1))
        coords = sets[key].coords.reshape(size, size, 2)
        np.testing.assert_allclose(coords[:, 0, 0], np.arange(size) / size)
        np.testing.assert_allclose(coords[0, :, 1], np.arange(size) / size)


def test_missing_arrays_are_named(tmp_path, capsys):
    path = tmp_path / "data.npz"
    write_data(path, without=["test32_u", "test16_a"])
    with pytest.raises(FieldDataError, match=r"data.npz lacks \['test16_a', 'test32_u'\]"):
        _small_darcy.read_small_darcy(path)
    assert main(["small-darcy", str(path)]) == 2
    assert "lacks" in capsys.readouterr().err


def test_a_missing_file_is_an_error_of_the_command(tmp_path, capsys):
    assert main(["small-darcy", str(tmp_path / "none.npz")]) == 2
    assert "none.npz" in capsys.readouterr().err


def test_doubling_is_exact_for_cubics():
    def cubic(size):
        x = np.arange(size) / size
        return (1 + x[:, None] ** 3 - 2 * x[:, None]) * (x**3 - x**2 + 0.5)

    axis = np.arange(6) / 6
    coords = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    coarse = FieldSet(coords, np.stack([cubic(6), 2 * cubic(6)])[..., None])
    expected = np.stack([cubic(12), 2 * cubic(12)]).reshape(2, -1, 1)
    np.testing.assert_allclose(_small_darcy._double(coarse), expected, rtol=1e-10, atol=1e-12)


def numbers_in(content):
    """All numbers at any depth."""
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        return [number for item in content for number in numbers_in(item)]
    return [content] if isinstance(content, int | float) else []


@pytest.mark.exhaustive
def test_a_whole_run_writes_its_tables(tmp_path, capsys):
    write_data(tmp_path / "data.npz")
    output = tmp_path / "result.md"
    options = ["--budgets", "0.5", "--curve-budget", "0.5", "--seeds", "1", "--sizes", "8", "--folds", "2"]
    options += ["--models", "classical", "lamo", "geomano", "mno", "amo", "--host", "oformer", "--mixer", "linear"]
    options += ["--output", str(output)]
    assert main(["small-darcy", str(tmp_path / "data.npz"), *options]) == 0
    text = output.read_text(encoding="utf-8")
    numbers = read_report(output)[0]
    for word in ("POD + ridge", "LaMO", "GeoMaNO", "MNO oformer linear", "| AMO, 0.5 s |", "2-fold", "| 8 |"):
        assert word in text
    assert numbers
    assert np.isfinite(numbers_in(numbers)).all()
    assert "LaMO" in capsys.readouterr().out
