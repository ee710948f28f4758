"""What the generators of trajectories have in common: frames, coordinates, coarsening, seeds, threads and reports."""

from itertools import pairwise

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


def test_neither_jobs_nor_the_number_of_samples_change_a_sample_but_seeds_do(generator):
    make, _, _ = generator
    X, y = make(**SMALL)
    for changes in ({"n_jobs": 2}, {"n_samples": 2}):
        other_X, other_y = make(**SMALL | changes)
        np.testing.assert_array_equal(other_X, X[: len(other_X)])
        np.testing.assert_array_equal(other_y, y[: len(other_y)])
    state = np.random.default_rng(3)
    draws = [y, *(make(**SMALL | {"random_state": seed})[1] for seed in (1, state, state))]
    assert not any(np.array_equal(first, other) for first, other in pairwise(draws))
    assert not np.array_equal(y[0], y[1])


def test_verbose_reports(generator, capsys):
    make, _, _ = generator
    for verbose in (0, 1):
        make(**SMALL, verbose=verbose)
        captured = capsys.readouterr()
        assert ("Parallel" in captured.out + captured.err) == bool(captured.out + captured.err) == bool(verbose)


def test_argument_errors(generator):
    for options, message in [
        ({"n_samples": 0}, "n_samples must be an integer of at least 1, got 0"),
        ({"n_input": 0}, "n_input must be an integer of at least 1"),
        ({"n_output": 1.5}, "n_output must be an integer"),
        ({"resolution": 3}, "resolution must be an integer of at least 4, got 3"),
        ({"solver_resolution": 7}, "solver_resolution must be an integer of at least 16, got 7"),
        ({"solver_resolution": 20}, "multiple of resolution, got 20 for resolution 16. Take 32"),
        ({"frame_interval": 0}, "frame_interval must be a finite number above 0"),
        ({"coarsening": "mean"}, "coarsening must be one of .*'subsample', 'average'.*got 'mean'"),
        ({"dtype": int}, "dtype must be float32 or float64, got int64"),
        ({"random_state": -1}, "random_state must not be negative"),
    ]:
        make, _, _ = generator
        with pytest.raises(ValueError, match=message):
            make(**SMALL | options)
