"""Reports of measurements: means with spreads, Markdown with the circumstances, JSON with all numbers."""

import json
import sys

import numpy as np

from benchmarks._report import Report, defaults_of, mean_and_spread, mean_change, read_report
from skop import GeoMaNORegressor, SymmetryOptions, TrainingOptions


def test_mean_and_spread():
    for values, words in [
        ([0.5], "0.5000"),
        ([1.0, 3.0], "2.0000 ± 1.4142"),
        ([2.0, 2.0, 2.0], "2.0000 ± 0.0000"),
        ([1e-5, 3e-5], "2.00e-05 ± 1.4e-05"),
    ]:
        assert mean_and_spread(values) == words


def test_a_mean_change_has_the_standard_error_of_its_mean():
    assert mean_change(np.log([1.1])) == "+10.0 %"
    # Changes of -10, 0 and 40 %: their standard deviation is 26.46 %, divided by the root of 3.
    assert mean_change(np.log([0.9, 1.0, 1.4])) == "+10.0 ± 15.3 %"


def test_a_report_is_written_as_markdown_and_json(tmp_path, capsys):
    path = tmp_path / "new" / "result.md"
    report = Report("A measurement", path)
    report.record("first", {"error": 0.25})
    report.table("Errors", ["model", "error"], [["first", "0.25"], ["second", "0.50"]])
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# A measurement\n")
    assert "## Errors\n\n| model | error |\n|---|---|\n| first | 0.25 |\n| second | 0.50 |\n" in text
    assert np.__version__ in text
    assert read_report(path) == ({"first": {"error": 0.25}}, {})
    printed = capsys.readouterr()
    assert "| first | 0.25 |" in printed.out
    assert "first" in printed.err


def test_what_was_measured_is_saved_before_the_end(tmp_path):
    report = Report("A measurement", tmp_path / "result.md")
    report.record("first", {"error": 0.25})
    assert read_report(tmp_path / "result.md")[0] == {"first": {"error": 0.25}}
    report.record("second", {"error": 0.5})
    assert list(read_report(tmp_path / "result.md")[0]) == ["first", "second"]


def test_defaults_are_those_of_the_estimator_and_of_its_parts():
    found, preset = defaults_of("GeoMaNORegressor"), defaults_of("GeoMaNORegressor darcy")
    default = GeoMaNORegressor()
    assert found["width"] == default.width
    assert (found["mixer"], found["mixer__d_state"], preset["mixer__d_state"]) == ("GeometricScan", 2, 16)
    assert found["training__optimizer"] == TrainingOptions().optimizer != preset["training__optimizer"]
    assert preset["mixer__direction_order"] == "paper"
    assert preset["symmetries__average_predictions"] == SymmetryOptions().average_predictions
    # All values are numbers and words, by the names that `set_params` takes.
    assert found.keys() == preset.keys() == default.get_params().keys()
    assert json.loads(json.dumps(preset)) == preset


def test_what_automatic_parameters_stand_for_is_recorded():
    assert defaults_of("LaMORegressor")["loss"] == "auto: sobolev, mse"
    kinds = ("LaMORegressor", "AMORegressor", "GeoMaNORegressor")
    assert [defaults_of(kind)["patches__positional_encoding"] for kind in kinds] == ["coordinates", "coordinates", None]


def test_parameters_of_earlier_records_have_the_names_of_today(tmp_path):
    old = {"max_iter": 100, "learning_rate_init": 4e-3, "patch_size": 4, "n_heads": None, "scaling__coords": "box"}
    old |= {"architecture__mixer": "mamba2", "architecture__n_latent_heads": 8, "training__weight_decay": 0.2}
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"defaults": {"LaMORegressor": old, "PODRegressor": {"n_components": 0.9}}}))
    found = read_report(path)[1]
    assert found["PODRegressor"] == {"n_components": 0.9}
    expected = {"max_iter": 100, "patches__size": 4, "mixer": "Mamba2", "mixer__n_heads": None, "latents__n_heads": 8}
    expected |= {"weight_decay": 0.2, "scaling__coords": "box"}
    assert expected.items() <= found["LaMORegressor"].items()
    assert found["LaMORegressor"].keys() <= defaults_of("LaMORegressor").keys()
    # Records of today stay as they are.
    path.write_text(json.dumps({"defaults": {"LaMORegressor": defaults_of("LaMORegressor")}}))
    assert read_report(path)[1]["LaMORegressor"] == defaults_of("LaMORegressor")


def test_defaults_of_a_report_are_those_that_its_oldest_numbers_were_measured_with(tmp_path):
    report = Report("A measurement", tmp_path / "result.md", ["PODRegressor"])
    report.record("first", {"error": 0.25})
    assert read_report(tmp_path / "result.md")[1] == {"PODRegressor": defaults_of("PODRegressor")}
    # A run of earlier defaults, and one that did not record any.
    content = json.loads((tmp_path / "result.json").read_text())
    content["defaults"]["PODRegressor"]["n_components"] = 0.99
    (tmp_path / "earlier.json").write_text(json.dumps(content))
    (tmp_path / "unknown.json").write_text(json.dumps({"second": {"error": 0.5}}))
    report.take_over(tmp_path / "earlier.md", lambda name: False)
    assert report.defaults == {"PODRegressor": defaults_of("PODRegressor")}
    report.take_over(tmp_path / "earlier.md")
    assert report.defaults["PODRegressor"]["n_components"] == 0.99
    report.take_over(tmp_path / "unknown.md")
    report.save()
    assert read_report(tmp_path / "result.md") == ({"first": {"error": 0.25}, "second": {"error": 0.5}}, None)


def test_without_a_path_it_only_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Report("A measurement", None).table("Errors", ["model"], [["first"]])
    assert "| first |" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_folders_of_ones_own_stay_out_of_the_command(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bench", "classical", "--data", "/home/someone/data/darcy.npz", "--seeds", "3"])
    words = Report.circumstances()
    assert "`python -m benchmarks classical --data darcy.npz --seeds 3`" in words
    assert "someone" not in words
