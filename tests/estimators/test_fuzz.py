"""Wrong model files and wrong parameters, drawn at random: nothing but predictions and errors on purpose."""

import json

import numpy as np
import pytest

import skop

pytest.importorskip("resource", reason="bounds of time and memory")

from . import fuzz_configurations, fuzz_model_files, fuzz_parameters, fuzzing


def bad(counts):
    """What must not be, of the counts of outcomes."""
    return {word: count for word, count in counts.items() if word.startswith(fuzzing.BAD)}


def _parts(content):
    """Header and checksum of a model file."""
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size])["__metadata__"]


FILES = ["lamo", "geomano", "lamo_base", "pipeline", "pod_of_scikit_learn", "rollout"]


@pytest.mark.parametrize(
    ("cases", "names"),
    [(60, FILES), pytest.param(500, None, marks=pytest.mark.exhaustive)],
    ids=["some", "many"],
)
def test_model_files_that_were_changed_on_purpose(cases, names, tmp_path):
    reports = []
    counts = fuzz_model_files.fuzz(cases, 11, tmp_path, names, reports.append)
    assert not bad(counts), "\n".join(reports)
    assert sum(counts.values()) == cases
    # The changes are of all kinds: most are refused, some are of no consequence.
    assert counts["refused in load"] > cases / 2
    assert counts["the same"] > 0


def test_the_fuzzer_sees_what_must_not_be(tmp_path, monkeypatch):
    """Without the checks of sizes wrong files end in exceptions from below."""
    monkeypatch.setattr("skop.estimators.files._persistence.check_loaded", lambda value: None)
    counts = fuzz_model_files.fuzz(60, 11, tmp_path, ["pod_ridge"], lambda text: None)
    assert bad(counts)


@pytest.mark.parametrize(
    ("cases", "names"),
    [(50, ["LaMO", "POD", "U-Net", "rollout", "DeepONet"]), pytest.param(400, None, marks=pytest.mark.exhaustive)],
    ids=["some", "many"],
)
def test_wrong_and_extreme_parameters(cases, names):
    reports = []
    counts = fuzz_parameters.fuzz(cases, 3, names, reports.append)
    assert not bad(counts), "\n".join(reports)
    assert counts["clear"] > cases / 2
    assert counts["works"] > 0


@pytest.mark.parametrize("cases", [28, pytest.param(280, marks=pytest.mark.exhaustive)], ids=["some", "many"])
def test_valid_values_of_many_parameters_at_once(cases):
    reports = []
    counts = fuzz_configurations.fuzz(cases, 5, None, reports.append, exports=False)
    assert not bad(counts), "\n".join(reports)
    assert counts["works"] > cases / 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["LaMO", "GeoMaNO", "MNO", "MNO, oformer", "AMO", "DeepONet", "Transolver", "U-Net"])
def test_exports_of_valid_configurations(name):
    reports = []
    counts = fuzz_configurations.fuzz(8, 9000, [name], reports.append)
    assert not bad(counts), "\n".join(reports)
    assert counts["works with .pt2"] + counts["works with .onnx"] > 0


def test_configurations_that_failed_once(subtests):
    for case in range(len(fuzz_configurations.FAILED)):
        with subtests.test(case=case):
            label, kind, params = fuzz_configurations.FAILED[case]
            estimator = fuzz_parameters.estimators()[label].set_params(**params)
            with fuzzing.signals_caught():
                word, text = fuzz_configurations.outcome(estimator, *fuzz_configurations.data_of(label, kind), ".pt2")
            assert word.startswith(("works", "clear")), text


def test_a_file_that_predicts_otherwise_is_seen(monkeypatch):
    load = skop.load
    monkeypatch.setattr("skop.load", lambda path: load(path).set_params(regressor="mean").fit(X, y))
    X, y = fuzz_configurations.data_of("POD", "grid")
    with fuzzing.signals_caught():
        found = fuzz_configurations.outcome(skop.PODRegressor(), X, y)[0]
    assert found.startswith(fuzzing.BAD)


def test_changed_files_are_whole_and_repeat():
    """The changes are in what the file says, and not in its bytes."""
    path = fuzz_model_files.FOLDER / "pod_ridge.skop"
    content, again = (fuzz_model_files.changed_file(path, np.random.default_rng(0)) for _ in range(2))
    assert _parts(content) == _parts(again)
    assert set(_parts(content)) == {"skop", "sha256"}
