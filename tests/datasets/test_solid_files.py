"""Loaders of elasticity and plasticity, on small files of the published layout."""

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from skop.datasets import load_elasticity, load_plasticity
from skop.exceptions import FieldDataError

XY, SIGMA, PLASTICITY = "Random_UnitCell_XY_10.npy", "Random_UnitCell_sigma_10.npy", "plas_N987_T20.mat"


class TestElasticity:
    rng = np.random.default_rng(0)
    coords, stress = rng.random((12, 2, 20)), rng.random((12, 20))
    counts = {"n_train": 8, "n_test": 3}

    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "Meshes").mkdir()
        np.save(tmp_path / "Meshes" / XY, self.coords)
        np.save(tmp_path / "Meshes" / SIGMA, self.stress)
        return tmp_path

    def test_published_split(self, folder):
        data = load_elasticity(folder, **self.counts)
        assert data.X_train.coords.shape == (8, 12, 2)
        assert (data.X_train.n_channels, data.X_train.grid_shape) == (0, None)
        assert data.X_train.coords.dtype == data.y_test.dtype == np.float32
        np.testing.assert_allclose(data.X_train.coords[7, 4], self.coords[4, :, 7], rtol=1e-6)
        np.testing.assert_allclose(data.X_test.coords[0, 4], self.coords[4, :, 17], rtol=1e-6)
        np.testing.assert_allclose(data.y_train[2, :, 0], self.stress[:, 2], rtol=1e-6)
        np.testing.assert_allclose(data.y_test[2, :, 0], self.stress[:, 19], rtol=1e-6)
        assert data.filenames == [str(folder / "Meshes" / name) for name in (XY, SIGMA)]
        assert "2207.05209" in data.DESCR

    def test_defaults_are_the_papers(self, tmp_path):
        number = np.arange(2000.0)
        np.save(tmp_path / XY, np.broadcast_to(number, (3, 2, 2000)))
        np.save(tmp_path / SIGMA, np.broadcast_to(number, (3, 2000)))
        data = load_elasticity(tmp_path)
        numbers = data.X_train.coords[:, 0, 0]
        assert (numbers[0], numbers[-1], len(numbers)) == (0, 999, 1000)
        assert (data.y_test[0, 0, 0], data.y_test[-1, 0, 0], len(data.y_test)) == (1800, 1999, 200)

    def test_one_subset(self, folder):
        data = load_elasticity(folder, **self.counts)
        files = [folder / "Meshes" / name for name in (XY, SIGMA)]
        X, y = load_elasticity(files, subset="test", return_X_y=True, **self.counts)
        np.testing.assert_array_equal(X.coords, data.X_test.coords)
        np.testing.assert_array_equal(y, data.y_test)
        assert "X_test" not in load_elasticity(folder, subset="train", **self.counts)

    def test_missing_file(self, folder):
        (folder / "Meshes" / SIGMA).unlink()
        with pytest.raises(FileNotFoundError, match=rf"{SIGMA}.*drive\.google\.com.*make_elasticity"):
            load_elasticity(folder)

    def test_files_that_do_not_fit(self, folder):
        np.save(folder / "Meshes" / SIGMA, self.stress[:, :-1])
        with pytest.raises(FieldDataError, match=r"do not belong together.*XY \(20, 12\), sigma \(19, 12\)"):
            load_elasticity(folder, **self.counts)
        np.save(folder / "Meshes" / XY, np.ones((12, 3, 20)))
        with pytest.raises(FieldDataError, match=r"\(points, 2, samples\), got the shape \(12, 3, 20\)"):
            load_elasticity(folder, **self.counts)

    def test_too_few_samples(self, folder):
        with pytest.raises(FieldDataError, match="holds 20 samples; 200 for testing were asked for"):
            load_elasticity(folder)


class TestPlasticity:
    rng = np.random.default_rng(1)
    arrays = {"input": rng.random((10, 7)), "output": rng.random((10, 7, 3, 5, 4))}
    counts = {"n_train": 6, "n_test": 2}

    @pytest.fixture
    def folder(self, tmp_path):
        savemat(tmp_path / PLASTICITY, self.arrays)
        return tmp_path

    def test_published_split(self, folder):
        data = load_plasticity(folder, **self.counts)
        assert (data.X_train.grid_shape, data.X_train.shape) == ((7, 3), (6, 21, 1))
        assert data.y_test.shape == (2, 7, 3, 20)
        assert data.X_train.dtype == data.y_train.dtype == data.coords.dtype == np.float32
        for across in range(3):
            np.testing.assert_allclose(data.X_test.to_grid()[:, :, across, 0], self.arrays["input"][8:], rtol=1e-6)
        # Channel 4 t + k is quantity k at time t.
        np.testing.assert_allclose(data.y_train[..., 4 * 3 + 2], self.arrays["output"][:6, :, :, 3, 2], rtol=1e-6)
        np.testing.assert_allclose(data.times, np.linspace(0, 1, 5), rtol=1e-6)

    def test_defaults_are_the_papers(self, tmp_path):
        number = np.arange(987.0)
        output = np.broadcast_to(number[:, None, None, None, None], (987, 2, 1, 1, 4))
        savemat(tmp_path / PLASTICITY, {"input": np.stack([number, number], axis=1), "output": output})
        data = load_plasticity(tmp_path)
        assert (data.X_train.values[-1, 0, 0], len(data.X_train)) == (899, 900)
        assert (data.y_test[0, 0, 0, 0], data.y_test[-1, 0, 0, 0], len(data.y_test)) == (907, 986, 80)

    def test_positions_fit_the_values(self, folder):
        data = load_plasticity(folder, **self.counts)
        np.testing.assert_allclose(data.coords[4, 1], [4 / 6, 1 / 2], rtol=1e-6)
        for X in (data.X_train, data.X_test):
            assert X.shared_coords
            np.testing.assert_array_equal(X.coords, data.coords.reshape(-1, 2))

    def test_published_positions(self, folder):
        flat = load_plasticity(folder, published_coords=True, **self.counts).X_train.coords
        # Value i of the flattened field sits at (i div 3, i mod 3), and was given (i mod 7, i div 7).
        for index in (0, 1, 8, 20):
            np.testing.assert_allclose(flat[index], [index % 7 / 6, index // 7 / 2], rtol=1e-6)

    def test_matlab_7_3(self, folder):
        expected = load_plasticity(folder / PLASTICITY, subset="test", return_X_y=True, **self.counts)
        with h5py.File(folder / PLASTICITY, "w") as file:
            for name, array in self.arrays.items():
                file[name] = array.T
        actual = load_plasticity(folder, subset="test", return_X_y=True, **self.counts)
        np.testing.assert_array_equal(actual[0].values, expected[0].values)
        np.testing.assert_array_equal(actual[1], expected[1])

    def test_missing_or_damaged_file(self, folder):
        whole = (folder / PLASTICITY).read_bytes()
        (folder / PLASTICITY).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(FieldDataError, match=rf"{PLASTICITY}.*cannot be read as a MATLAB file"):
            load_plasticity(folder, **self.counts)
        (folder / PLASTICITY).unlink()
        with pytest.raises(FileNotFoundError, match=rf"{PLASTICITY}.*drive\.google\.com"):
            load_plasticity(folder)

    def test_wrong_arrays(self, folder):
        for change, message in [
            (
                {"input": np.ones((10, 7, 2))},
                r"'input' must hold real numbers on 2 axes, got float64 of shape \(10, 7, 2\)",
            ),
            ({"output": np.ones((10, 7, 3, 5))}, "'output' must hold real numbers on 5 axes"),
            ({"output": np.full((10, 7, 3, 5, 4), 1j)}, "'output' must hold real numbers on 5 axes, got complex128"),
            ({"input": np.ones((10, 6))}, r"do not belong together.*input \(10, 6\), output \(10, 7\)"),
            ({"output": np.full((10, 7, 3, 5, 4), np.nan)}, "holds values that are not finite"),
        ]:
            savemat(folder / PLASTICITY, self.arrays | change)
            with pytest.raises(FieldDataError, match=message):
                load_plasticity(folder, **self.counts)
