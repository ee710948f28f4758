"""Phases of waves: figures of known errors, and a row for every model."""

import numpy as np
import pytest

from benchmarks import _phase_error
from benchmarks.__main__ import main
from benchmarks._report import read_report
from skop.datasets import make_advection


def test_a_delay_is_an_error_of_the_phase_in_proportion_to_the_wavenumber():
    _, y = make_advection(3, resolution=512, spike_wavenumbers=(150, 150), random_state=0, dtype=np.float64)
    spike = _phase_error._figures(y, np.roll(y, 1, axis=1))
    # One point of 512 is 2 pi k / 512: in the mean over k = 1 to 20, 2 pi 10.5 / 512. A wave that is moved by an angle
    # differs from itself by the chord 2 sin(angle / 2).
    assert spike["phase, k = 1 to 20"] == pytest.approx(2 * np.pi * 10.5 / 512)
    assert spike["phase, k = 140 to 250"] == pytest.approx(2 * np.pi * 150 / 512)
    assert spike["error, k = 140 to 250"] == pytest.approx(2 * np.sin(np.pi * 150 / 512))
    assert list(spike["phase by wavenumber"]) == [*map(str, range(1, 21)), "150"]
    assert spike["phase by wavenumber"]["20"] == pytest.approx(2 * np.pi * 20 / 512, abs=1e-4)


def test_bands_are_kept_apart():
    X, y = make_advection(3, resolution=512, random_state=0, dtype=np.float64)
    smooth = y - make_advection(3, resolution=512, random_state=0, dtype=np.float64, spike_amplitude=0)[1]
    found = _phase_error._figures(y, y - 0.5 * smooth)  # half of the spike
    assert found["error, k = 1 to 20"] == pytest.approx(0, abs=1e-9)
    assert found["error, k = 140 to 250"] == pytest.approx(0.5)
    assert found["phase, k = 140 to 250"] == pytest.approx(0, abs=1e-9)
    assert found["relative L2"] < 0.1
    assert _phase_error._figures(y, X)["error, k = 1 to 20"] > 0.5


@pytest.mark.exhaustive
def test_every_model_has_a_row(tmp_path):
    output = tmp_path / "phases.md"
    words = ["--resolution", "512", "--train", "12", "--test", "4", "--budgets", "0.1", "--seeds", "2"]
    assert main(["phase-error", *words, "--output", str(output)]) == 0
    numbers = read_report(output)[0]
    trained = ["LaMO, 0.1 s", "AMO, 0.1 s"]
    assert list(numbers) == ["PODRegressor, seed 0", *(f"{n}, seed {s}" for n in trained for s in (0, 1))]
    rows = [line for line in output.read_text().splitlines() if line.startswith("| ")][1:]
    assert [row.strip("| ").split(" | ")[0] for row in rows] == ["PODRegressor", *trained]
