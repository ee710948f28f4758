"""A report is one file that needs nothing else, holds the numbers of the model, and shows text as text."""

import re
import warnings
from functools import partial
from html.parser import HTMLParser

import meshio
import numpy as np
import pytest

pytest.importorskip("matplotlib")

from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skop import (
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    LawRegressor,
    MeanFieldRegressor,
    PODRegressor,
    TimeConditionedRegressor,
    leaderboard,
)
from skop.exceptions import ExtrapolationWarning, OptionalDependencyError
from skop.inspection import compare_models, describe_data, evaluate, write_report
from skop.inspection._report_pictures import triangles_of
from skop.metrics import relative_l2_error

#: The classical model whose choice takes least.
pod = partial(PODRegressor, regressor="ridge")

RNG = np.random.default_rng(0)
VOID = {"meta", "link", "br", "img", "input", "hr"}
HOSTILE = "<script>alert('1')</script>&\"x\".vtu"


class Page(HTMLParser):
    """Parser that collects identifiers and links, and checks that elements are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.tags, self.text = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src", "xlink:href"):
                self.links.append(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def clouds(n_samples):
    """Fields with two channels on points of their own."""
    coords = [RNG.random((25 + number % 2, 2)) for number in range(n_samples)]
    X = FieldSet(coords, [points[:, :1] for points in coords])
    values = [np.column_stack([points.sum(axis=1), 5 + points[:, 0]]) for points in coords]
    return X, FieldSet(coords, values, channel_names=["stress", "<b>T</b>"])


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Model, test samples and the page of a report with all its parts."""
    folder = tmp_path_factory.mktemp("report")
    X, y = clouds(14)
    model = LaMORegressor(width=8, depth=1, max_iter=2, random_state=0).fit(X[:10], y[:10])
    model.save(folder / "a<b.skop")
    names = [HOSTILE, "run_1", "run_2", "run_3"]
    write_report(
        folder / "report.html", model, X[10:], y[10:], train=(X[:10], y[:10]), names=names,
        train_names=[f"train_{number}" for number in range(10)], model_path=folder / "a<b.skop", n_worst=1,
    )  # fmt: skip
    return model, X[10:], y[10:], names, (folder / "report.html").read_text(encoding="utf-8")


def test_the_page_is_whole_and_needs_nothing_outside(report):
    text = report[-1]
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert not page.open
    assert not {"script", "link", "iframe", "img"} & set(page.tags)
    assert len(page.ids) == len(set(page.ids)) > 20
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    # What refers to an identifier finds it, also after those of several pictures were made distinct.
    wanted = {link[1:] for link in page.links if link[0] == "#"} | set(re.findall(r"url\(#([^)]+)\)", text))
    assert wanted <= set(page.ids)
    assert "@import" not in text
    assert "url(http" not in text


def test_what_users_wrote_is_shown_as_text(report):
    text = report[-1]
    page = Page(text)
    assert "<script" not in text
    assert "<b>T</b>" not in text
    shown = "".join(page.text)
    for word in (HOSTILE, "<b>T</b>", "a<b.skop"):
        assert word in shown


def test_the_numbers_are_those_of_the_model(report):
    model, X, y, names, text = report
    shown = "".join(Page(text).text)
    assert f"{100 * (1 - model.score(X, y)):.3g} %" in shown
    sizes = np.sqrt(np.mean(np.concatenate(y.to_list()) ** 2, axis=0))
    errors = relative_l2_error(y, model.predict(X), average="none", units=sizes)
    order = [shown.index(f"{names[row]}{100 * errors[row]:.3g} %") for row in np.argsort(-errors)]
    assert order == sorted(order)
    for part in ("Data", "Split", "Errors", "Worst samples", "Training", "Comparison", "Cost", "Use the model"):
        assert f"<h2>{part}</h2>" in text
    assert "gradient boosting, point by point" in shown
    assert f"{sum(weight.numel() for weight in model.module_.parameters()):,} weights" in shown
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("n_dims", [1, pytest.param(3, marks=pytest.mark.exhaustive)])
def test_lines_and_points_in_space_are_drawn(n_dims, tmp_path):
    coords = RNG.random((12, n_dims))
    params = RNG.random((10, 2))
    y = FieldSet(coords, params[:, :1, None] * coords[:, :1])
    model = pod().fit(params, y)
    write_report(tmp_path / "report.html", model, params, y, n_worst=1, comparison=[])
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.tags.count("svg") >= 2


def test_scalars_predictions_without_truth_and_data_alone(tmp_path):
    table = RNG.random((16, 2))
    model = pod().fit(table, table.sum(axis=1))
    write_report(tmp_path / "scalars.html", model, table, table.sum(axis=1))
    assert "<h2>Predicted over true</h2>" in (tmp_path / "scalars.html").read_text(encoding="utf-8")
    X, y = table, FieldSet(RNG.random((12, 2)), RNG.random((16, 12, 1)))
    write_report(tmp_path / "new.html", pod().fit(X, y), X, n_worst=1)
    text = (tmp_path / "new.html").read_text(encoding="utf-8")
    assert "<h2>Predictions</h2>" in text
    assert "<h2>Errors</h2>" not in text
    write_report(tmp_path / "data.html", description=describe_data(X, y))
    text = (tmp_path / "data.html").read_text(encoding="utf-8")
    assert "<h2>Data</h2>" in text
    assert "<h2>Cost</h2>" not in text


def test_meshes_with_scalars_beside_their_fields_are_tested(tmp_path):
    points = RNG.random((12, 3))
    meshes = [meshio.Mesh(points, [], {"u": RNG.random(12)}) for _ in range(8)]
    model = MeanFieldRegressor(target_fields=["u"]).fit(meshes, np.arange(8.0))
    write_report(tmp_path / "report.html", model, meshes, np.arange(8.0), n_worst=1)
    assert "<h2>Errors</h2>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_path_that_cannot_be_written_is_named_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("skop.inspection._report.evaluate", lambda *_, **__: pytest.fail("predicted for nothing"))
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_report(tmp_path / "none" / "report.html", pod(), np.zeros((2, 3)), np.zeros(2))


def test_missing_matplotlib_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(OptionalDependencyError, match="pip install matplotlib"):
        write_report(tmp_path / "report.html", X=RNG.random((9, 2)), y=RNG.random(9))
    assert not (tmp_path / "report.html").exists()


def test_evaluation_agrees_with_the_score():
    X = RNG.random((20, 3))
    y = np.column_stack([X.sum(axis=1), 100 * X[:, 0] ** 2])
    model = pod().fit(X[:15], y[:15])
    found = evaluate(model, X[15:], y[15:])
    assert found.mean_error == pytest.approx(1 - model.score(X[15:], y[15:]))
    channels = model.score_channels(X[15:], y[15:])
    for name, error in found.to_dict()["channels"].items():
        assert error == pytest.approx(1 - channels[name])
    assert sorted(found.ranking) == list(range(5))
    X, y = clouds(9)
    model = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, y)
    channels, found = model.score_channels(X, y), evaluate(model, X, y).to_dict()
    assert found["error"] == pytest.approx(1 - model.score(X, y))
    assert found["channels"] == pytest.approx({name: 1 - score for name, score in channels.items()})
    assert [*found["samples"]] == sorted(found["samples"], key=found["samples"].get, reverse=True)


def test_a_channel_of_zeros_has_no_relative_error_and_a_frame_of_zeros_that_of_all_frames():
    X = RNG.random((30, 2))
    points = np.linspace(0, 1, 5)[:, None]
    y = FieldSet(points, X[:, :1, None] * np.array([0.0, 1.0, 2.0]) * (1 + points))
    # A rise that the model predicts at the start too, where there is none.
    biased = FieldSet(points, y.values + 0.1)
    model = TimeConditionedRegressor(PODRegressor(regressor="ridge"), times=3).fit(X, biased)
    found = evaluate(model, X, y)
    risen = model.predict(X).values[..., 0]
    expected = np.sqrt(np.mean(np.square(risen), axis=1) / np.mean(np.square(y.values)))
    np.testing.assert_allclose(found.channel_errors[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(found.channel_errors[:, 0].mean(), model.error_by_time(X, y)[0], rtol=1e-6)
    # Channels of other kinds have other units.
    plain = PODRegressor(regressor="ridge").fit(X, biased)
    assert np.isnan(evaluate(plain, X, y).channel_errors[:, 0]).all()
    assert evaluate(plain, X, y).to_dict()["channels"]["channel 0"] is None
    exact = PODRegressor(regressor="ridge").fit(X, y)
    assert evaluate(exact, X, y).to_dict()["channels"]["channel 0"] == pytest.approx(0, abs=1e-9)


def test_a_report_of_a_truth_of_zeros_is_written(tmp_path):
    X = RNG.random((30, 2))
    model = PODRegressor(regressor="ridge").fit(X, np.column_stack([X, 1 + X[:, 0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = evaluate(model, X, np.zeros((30, 3)))
        write_report(tmp_path / "report.html", model, X, np.zeros((30, 3)))
    assert np.isnan(found.mean_error)
    assert found.to_dict()["error"] is None


def test_errors_outside_of_the_fit_come_with_the_warning_of_a_score():
    X = RNG.random((30, 2))
    model = pod().fit(X, X.sum(axis=1))
    with pytest.warns(ExtrapolationWarning, match="parameter 1 is"):
        evaluate(model, X * [1, 1000], X.sum(axis=1))


def test_scalars_beside_a_field_have_their_errors_too():
    points, X, noise = np.linspace(0, 1, 8)[:, None], RNG.random((40, 2)), RNG.standard_normal((40, 1))
    y = FieldSet(points, np.sin(X[:, :1] + points[:, 0])[..., None], params=noise)
    train, test = (X[:30], y[:30]), (X[30:], y[30:])
    model = PODRegressor().fit(*train)
    found, channels = evaluate(model, *test), model.score_channels(*test)
    assert found.mean_error == pytest.approx(1 - model.score(*test))
    assert found.to_dict()["channels"] == pytest.approx({name: 1 - score for name, score in channels.items()})
    # The field is predicted well, and the scalar is noise.
    assert found.mean_error > 0.2 > 100 * found.channel_errors[:, 0].max()
    for result in compare_models({"model": PODRegressor()}, train, test)[1:]:
        assert result.error == pytest.approx(found.mean_error)


def test_frames_have_one_unit_by_whatever_model_they_are_predicted(subtests):
    """The first frames are noise alone, and would decide if each frame had a unit of its own."""
    x, times, X = np.linspace(0, 1, 8)[:, None], np.linspace(0, 1, 5), RNG.random((30, 2))
    y = times**3 * (1 + X[:, :1, None]) * np.sin(2 * x) + 0.01 * RNG.standard_normal((30, 8, 5))
    train, test = (X[:20], y[:20]), (X[20:], y[20:])
    alone = TimeConditionedRegressor(PODRegressor(regressor="ridge"), times=5)
    search = GridSearchCV(alone, {"estimator__regressor": ["ridge"]}, cv=2)
    network = TimeConditionedRegressor(LaMORegressor(width=8, depth=1, max_iter=1, base=None), times=5)
    models = {
        "alone": alone,
        "search": search,
        "pipeline": make_pipeline(FunctionTransformer(), alone),
        "law": LawRegressor(search),
        "ensemble": make_pipeline(FunctionTransformer(), EnsembleRegressor(network, n_members=1)),
    }
    results = compare_models(models, train, test)
    for result in results[2:]:
        with subtests.test(result.name):
            norms = [np.linalg.norm(part, axis=(1, 2)) for part in (result.model.predict(X[20:]) - y[20:], y[20:])]
            assert result.error == pytest.approx(np.mean(norms[0] / norms[1]))
            assert result.error == pytest.approx(evaluate(result.model, *test).mean_error)
            assert result.error == pytest.approx(1 - result.model.score(*test))
    norms = np.linalg.norm(y[20:] - y[:20].mean(axis=0), axis=(1, 2)) / np.linalg.norm(y[20:], axis=(1, 2))
    assert results[0].error == pytest.approx(norms.mean())
    rows = leaderboard(*train, candidates=[("mean", MeanFieldRegressor()), ("alone", alone)], max_time=None, cv=2)
    assert rows.set_index("candidate")["error"]["mean"] < 1


def test_comparison_has_the_error_of_the_mean_and_says_what_cannot_be_used():
    X = RNG.random((30, 4, 4, 1))
    y = X + 1
    results = {result.name: result for result in compare_models({}, (X[:20], y[:20]), (X[20:], y[20:]))}
    mean = np.broadcast_to(y[:20].mean(axis=0), y[20:].shape)
    assert results["mean"].error == pytest.approx(relative_l2_error(y[20:], mean))
    assert results["POD"].error < 0.2 * results["mean"].error
    X, y = clouds(20)
    results = {result.name: result for result in compare_models({}, (X[:15], y[:15]), (X[15:], y[15:]))}
    assert results["POD"].error < 0.5 * results["mean value"].error
    # The field is a function of the coordinates, which a regression point by point sees.
    assert results["gradient boosting, point by point"].error < 0.5 * results["mean value"].error


def test_classical_models_use_the_parameters_and_say_why_they_are_left_out(monkeypatch):
    X, _ = clouds(24)
    loads = RNG.random((24, 1))
    X = X.with_params(loads)
    y = FieldSet(
        X.coords_list(), [np.full((count, 1), 1 + load) for count, load in zip(X.n_points, loads[:, 0], strict=True)]
    )
    results = {result.name: result for result in compare_models({}, (X[:18], y[:18]), (X[18:], y[18:]))}
    assert results["gradient boosting, point by point"].error < 0.5 * results["mean value"].error
    results = compare_models({}, (X[:18], loads[:18, 0]), (X[18:], loads[18:, 0]))
    assert "needs fields as targets" in results[0].note
    data = RNG.random((12, 3, 3, 1))
    parts = (data[:8], data[:8]), (data[8:], data[8:])
    assert [result.note for result in compare_models({}, *parts)] == ["", ""]
    monkeypatch.setattr("skop.inspection._comparison._MOST_NUMBERS", 71)
    assert all("7e+01 numbers are too many" in result.note for result in compare_models({}, *parts))


def test_an_interrupt_keeps_what_is_finished():
    class Interrupted(PODRegressor):
        def fit(self, X, y):
            raise KeyboardInterrupt

    X = RNG.random((12, 3, 3, 1))
    models = {"done": pod(), "cut": Interrupted(), "later": pod()}
    results = compare_models(models, (X[:8], X[:8]), (X[8:], X[8:]))
    assert [result.name for result in results] == ["mean", "POD", "done", "cut", "later"]
    assert all(np.isfinite(result.error) for result in results[:3])
    assert [result.evaluation for result in results[3:]] == [None, None]
    assert results[3].note.startswith("interrupted after")
    assert results[4].note == "not fitted, since the comparison was interrupted"


@pytest.mark.parametrize("models", [[("POD", pod())], {"POD": "pod"}, {"first": pod(), "second": 3}])
def test_models_that_are_none_are_named_before_others_are_fitted(monkeypatch, models):
    monkeypatch.setattr(PODRegressor, "fit", lambda *_: pytest.fail("a model was fitted"))
    samples = RNG.random((8, 2)), RNG.random(8)
    with pytest.raises(ValueError, match="expected a mapping of names to estimators"):
        compare_models(models, samples, samples)


def test_a_channel_of_zeros_has_no_error_and_no_part_in_the_mean():
    X = RNG.random((10, 4))
    y = FieldSet(RNG.random((6, 2)), np.stack([X @ RNG.random((4, 6)), np.zeros((10, 6))], axis=-1))
    model = pod(n_components=2).fit(X[:7], y[:7])
    found = evaluate(model, X[7:], y[7:])
    assert found.to_dict()["channels"]["channel 1"] == 0
    np.testing.assert_allclose(found.errors, found.channel_errors[:, 0])


@pytest.mark.parametrize("form", ["fields", "scalars"])
def test_errors_stand_beside_those_of_the_mean_and_samples_of_the_fit_are_counted(form):
    X = np.random.default_rng(0).random((40, 3))
    y = 300 + np.sin(X.sum(axis=1))[:, None] * np.array([[1.0, 2.0]])
    y = y if form == "scalars" else FieldSet(np.array([[0.0], [1.0]]), y[..., None])
    model = pod().fit(X[:30], y[:30])
    for rows, n_seen in ((slice(30, None), 0), (slice(25, None), 5)):
        found = evaluate(model, X[rows], y[rows])
        mean = MeanFieldRegressor().fit(X[rows], y[rows])
        assert found.mean_field_error == pytest.approx(1 - mean.score(X[rows], y[rows]), rel=1e-6)
        assert found.n_seen == found.to_dict()["samples_of_the_fit"] == n_seen
        # A line, and not all fields.
        assert len(repr(found)) < 120
        assert f"{len(found)} samples" in repr(found)
    assert evaluate(model, X[:2], y[:2]).mean_field_error is None


def test_cells_of_a_plane_mesh_are_drawn_as_triangles():
    quad = np.array([[0, 1, 2, 3]])
    assert triangles_of([("quad", quad)], 4).tolist() == [[0, 1, 2], [0, 2, 3]]
    assert triangles_of([("triangle6", np.arange(6)[None])], 6).tolist() == [[0, 1, 2]]
    # Cells of other points, and none at all.
    assert triangles_of([("quad", quad)], 3) is None
    assert triangles_of(None, 4) is None
