"""What the generators of trajectories have in common: frames, coordinates and coarsening."""

import numpy as np
import pytest

from skop.datasets import make_diffusion_reaction, make_shallow_water

SMALL = {"n_samples": 3, "resolution": 16, "n_input": 2, "n_output": 3, "random_state": 0}
#: Each with half the side of its square and its number of channels a frame.
GENERATORS = [(make_shallow_water, 2.5, 1), (make_diffusion_reaction, 1.0, 2)]


@pytest.fixture(params=GENERATORS, ids=lambda parts: parts[0].__name__)
def generator(request):
    return request.param


def test_shapes_types_and_coords(generator):
    make, half_width, n_components = generator
    (coords, X), y = make(**SMALL, return_coords=True)
    assert X.shape == (3, 16, 16, 2 * n_components)
    assert y.shape == (3, 16, 16, 3 * n_components)
    assert X.dtype == y.dtype == coords.dtype == np.float32
    np.testing.assert_allclose(coords[5, 10], [-half_width * 5 / 16, half_width * 5 / 16])
    assert make(**SMALL, dtype=np.float64)[1].dtype == np.float64


def test_coarsening(generator):
    make, half_width, _ = generator
    options = SMALL | {"dtype": np.float64}
    fine, _ = make(**options | {"resolution": 48})
    (points, subsample), _ = make(**options, solver_resolution=48, return_coords=True)
    (means, average), _ = make(**options, solver_resolution=48, coarsening="average", return_coords=True)
    np.testing.assert_array_equal(subsample, fine[:, ::3, ::3])
    np.testing.assert_allclose(average[:, 1, 2], fine[:, 3:6, 6:9].mean(axis=(1, 2)), atol=1e-15)
    np.testing.assert_allclose(points[0, 1], [half_width * (1 / 48 - 1), half_width * (7 / 48 - 1)])
    np.testing.assert_allclose(means[0, 1], [half_width * (1 / 16 - 1), half_width * (3 / 16 - 1)])
