"""Reading, checking and splitting NumPy files."""

from pathlib import Path

import numpy as np
import pytest

from skop.datasets._published_arrays import Selection, as_fields, check_same, read_npy
from skop.exceptions import FieldDataError

FILE = Path("samples.npy")


class TestSelection:
    def test_last_samples_are_for_testing(self):
        slices = Selection("all", 5, 3, False).slices(20, FILE)
        assert slices == {"train": slice(0, 5), "test": slice(17, 20)}
        assert Selection("all", 17, 3, False).slices(20, FILE)["train"] == slice(0, 17)

    def test_fixed_start_does_not_depend_on_the_training_samples(self):
        for n_train in (2, 10):
            assert Selection("test", n_train, 3, False, 10).slices(20, FILE) == {"test": slice(10, 13)}
        assert Selection("train", 4, 99, False, 10).slices(4, FILE) == {"train": slice(0, 4)}

    def test_too_few_samples(self):
        for selection, message in [
            (Selection("all", 18, 3, False), "from number 17 on are for testing; 18 for training.*Lower n_train"),
            (Selection("train", 18, 3, False), "Lower n_train"),
            (Selection("test", 1, 21, False), "holds 20 samples; 21 for testing were asked for. Lower n_test"),
            (Selection("all", 11, 3, False, 10), "from number 10 on are for testing; 11 for training"),
            (Selection("all", 10, 11, False, 10), "11 for testing from number 10 on were asked for"),
            (Selection("train", 21, 3, False, 30), "holds 20 samples.*21 for training were asked for"),
        ]:
            with pytest.raises(FieldDataError, match=rf"samples\.npy.*{message}"):
                selection.slices(20, FILE)


class TestReadNpy:
    def test_nothing_but_the_header_is_read(self, tmp_path):
        np.save(tmp_path / FILE, np.arange(6.0).reshape(2, 3))
        array = read_npy(tmp_path / FILE, 2)
        assert isinstance(array, np.memmap)
        np.testing.assert_array_equal(array, [[0, 1, 2], [3, 4, 5]])

    def test_truncated_file(self, tmp_path):
        for kept in [0.0, 0.01, 0.1, 0.5, 0.999]:
            np.save(tmp_path / FILE, np.ones((40, 40)))
            whole = (tmp_path / FILE).read_bytes()
            (tmp_path / FILE).write_bytes(whole[: int(kept * len(whole))])
            with pytest.raises(
                FieldDataError, match=r"samples\.npy .*bytes.*cannot be read as a NumPy file.*download it"
            ):
                read_npy(tmp_path / FILE, 2)

    def test_other_files(self, tmp_path):
        (tmp_path / FILE).write_text("<html>quota exceeded</html>" * 50)
        with pytest.raises(FieldDataError, match="cannot be read as a NumPy file"):
            read_npy(tmp_path / FILE, 2)
        np.save(tmp_path / FILE, np.array([{"pickled": 1}], dtype=object), allow_pickle=True)
        with pytest.raises(FieldDataError, match="cannot be read as a NumPy file"):
            read_npy(tmp_path / FILE, 1)
        with (tmp_path / FILE).open("wb") as stream:
            np.savez(stream, a=np.ones(3))
        with pytest.raises(FieldDataError, match="one array of real numbers, got an archive"):
            read_npy(tmp_path / FILE, 1)

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.ones((2, 3)), r"3 axes, got the shape \(2, 3\)"),
            (np.full((1, 1, 1), 1j), "real numbers, got complex128"),
        ],
    )
    def test_wrong_arrays(self, tmp_path, array, message):
        np.save(tmp_path / FILE, array)
        with pytest.raises(FieldDataError, match=message):
            read_npy(tmp_path / FILE, 3)


def test_as_fields():
    fields = as_fields(np.arange(6.0).reshape(2, 3).T, FILE)
    assert fields.dtype == np.float32
    assert fields.flags.c_contiguous
    with pytest.raises(FieldDataError, match=r"samples\.npy holds values that are not finite"):
        as_fields(np.array([1.0, np.inf]), FILE)


def test_check_same():
    check_same({"X": (3, 4), "Y": (3, 4)})
    with pytest.raises(FieldDataError, match=r"do not belong together.*X \(3, 4\), Q \(3, 5\)"):
        check_same({"X": (3, 4), "Q": (3, 5)})
