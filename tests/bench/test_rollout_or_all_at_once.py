"""Frames all at once, by a latent propagator and by a rollout: the forms and the errors over predicted frames."""

import argparse

import numpy as np
import pytest

from benchmarks import _rollout_or_all_at_once as frames
from benchmarks.__main__ import main
from benchmarks._report import read_report
from skop.parts import GNOT, GalerkinTransformer


def test_errors_by_hand():
    truth = np.array([[[3.0, 4.0, 1.0, 2.0]]])  # one sample, one point, two frames of two components
    found = frames._errors(truth + np.array([[[0.0, 5.0, 1.0, 0.0]]]), truth, 2)
    assert found["relative L2"] == pytest.approx(np.sqrt(26 / 30))
    assert found["by frame"] == pytest.approx([1.0, np.sqrt(1 / 5)])
    assert found["RMSE"] == pytest.approx(6 / 4)
    assert found["nRMSE"] == pytest.approx((0 + 5 / 4 + 1 + 0) / 4)
    assert found["deflated nRMSE"] == pytest.approx(found["nRMSE"] * 2 / 4)


def test_models_are_the_defaults_in_each_form():
    options = argparse.Namespace(frames=7, known=4, budget=2.0)
    direct = frames._model("all at once", "gnot", 3, options).get_params()
    assert {"mixer": None, "max_time": 2.0, "random_state": 3, "width": 32}.items() <= direct.items()
    assert isinstance(direct["host"], GNOT)
    assert frames._model("all at once", "oformer", 3, options).host.n_steps is None
    assert frames._model("latent propagator", "oformer", 3, options).host.n_steps == 7
    for form, learns_changes in (("rollout of changes", True), ("rollout of frames", False)):
        stepped = frames._model(form, "galerkin", 3, options)
        assert (stepped.window, stepped.increments) == (4, learns_changes)
        assert isinstance(stepped.estimator.host, GalerkinTransformer)


def test_fits_that_diverged_are_counted_and_left_out():
    run = {"relative L2": 0.5, "nRMSE": 0.25, "deflated nRMSE": 0.125, "by frame": [0.1, 0.2, 0.3, 0.4], "epochs": 6}
    lost = {"diverged": "not finite"}
    assert frames._row("rollout", "gnot", [run, lost]) == [
        *("rollout (1 of 2 diverged)", "gnot", "0.5000", "0.2500", "0.1250"),
        *("0.1000", "0.3000", "0.4000", "6"),
    ]
    assert frames._row("rollout", "gnot", [lost])[:3] == ["rollout (1 of 1 diverged)", "gnot", ""]


@pytest.mark.exhaustive
def test_every_form_is_measured(tmp_path):
    output = tmp_path / "frames.md"
    words = ["--train", "4", "--test", "2", "--resolution", "8", "--known", "3", "--frames", "5", "--budget", "0.3"]
    assert main(["rollout-or-all-at-once", *words, "--seeds", "1", "--output", str(output)]) == 0
    numbers = read_report(output)[0]
    assert len(numbers) == 3 + 10
    assert all(len(found["by frame"]) == 5 for found in numbers.values() if "diverged" not in found)
    rows = [line.split(" | ") for line in output.read_text().splitlines() if line.startswith("| ")]
    assert rows[0][4:8] == ["nRMSE with 3 copied frames", "frame 1", "frame 3", "frame 5"]
    assert [row[1] for row in rows[4:]] == [*frames.HOSTS, "oformer", *frames.HOSTS, *frames.HOSTS]
