"""Epochs as seen by scikit-learn's callbacks and by the progress line."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone

from skop import EnsembleRegressor, LaMORegressor, RolloutRegressor
from skop.data import FieldLoader
from skop.estimators.fitting._callbacks import EpochCallbacks
from skop.metrics import neg_relative_l2_scorer
from skop.training import History

sklearn_callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(8, 6, 4, 2))
Y = 2 + X[..., :1]


def small(**params):
    return LaMORegressor().set_params(**({"width": 8, "depth": 1, "max_iter": 3, "random_state": 0} | params))


class Recorder:
    """Notes every call; asks to stop after some epochs."""

    def __init__(self, stop_after=None):
        self.calls, self.fitted, self.losses, self.stop_after = [], [], [], stop_after

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.calls.append(f"end {context.task_name}")
        if context.task_name == "epoch":
            self.fitted.append(fitted_estimator)
        return self.stop_after is not None and len(self.fitted) >= self.stop_after


def test_calls_come_in_order_and_once_for_each_epoch():
    recorder = Recorder()
    small(max_iter=2).set_callbacks(recorder).fit(X, Y)
    epoch = ["begin epoch", "end epoch"]
    assert recorder.calls == ["setup", "begin fit", *epoch, *epoch, "end fit", "teardown"]


def test_a_true_return_stops_the_fit():
    recorder = Recorder(stop_after=2)
    estimator = small(max_iter=50).set_callbacks(recorder).fit(X, Y)
    assert estimator.stopped_ == "callback"
    assert estimator.n_iter_ == 2
    expected = small(max_iter=50).set_callbacks(Recorder(stop_after=2)).fit(X, Y).predict(X)
    np.testing.assert_array_equal(estimator.predict(X), expected)


def test_callbacks_see_an_estimator_that_predicts_as_if_the_fit_had_stopped():
    recorder = Recorder()
    estimator = small(max_iter=3, training__ema_decay=None).set_callbacks(recorder).fit(X, Y)
    np.testing.assert_array_equal(recorder.fitted[-1].predict(X), estimator.predict(X))
    assert not np.array_equal(recorder.fitted[0].predict(X), estimator.predict(X))
    assert not any(fitted.module_.training for fitted in recorder.fitted)


def test_callbacks_do_not_disturb_the_training():
    watched = small(max_iter=2).set_callbacks(Recorder()).fit(X, Y)
    np.testing.assert_array_equal(watched.predict(X), small(max_iter=2).fit(X, Y).predict(X))


@pytest.mark.parametrize(("verbose", "callbacks", "calls"), [(0, [], 0), (2, [], 2), (0, [Recorder()], 2)])
def test_epochs_are_told_to_those_who_watch(monkeypatch, verbose, callbacks, calls):
    told, tell = [], EpochCallbacks.told
    monkeypatch.setattr(EpochCallbacks, "told", lambda *given: told.append(1) or tell(*given))
    small(verbose=verbose, max_iter=2).set_callbacks(*callbacks).fit(X, Y)
    assert len(told) == calls


def test_scoring_monitor_logs_the_score_of_every_epoch():
    monitor = sklearn_callback.ScoringMonitor(scoring=neg_relative_l2_scorer)
    estimator = small(max_iter=3, training__ema_decay=None).set_callbacks(monitor).fit(X, Y)
    scores = [row["score"] for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert len(scores) == 3
    np.testing.assert_allclose(scores[-1], estimator.score(X, Y) - 1, rtol=1e-6)


def test_scoring_monitor_weights_the_samples():
    monitor = sklearn_callback.ScoringMonitor(scoring=neg_relative_l2_scorer)
    weight = np.arange(8.0)
    estimator = small(training__ema_decay=None).set_callbacks(monitor).fit(X, Y, sample_weight=weight)
    scores = [row["score"] for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    np.testing.assert_allclose(scores[-1], estimator.score(X, Y, sample_weight=weight) - 1, rtol=1e-6)


def test_callbacks_see_averaged_weights_where_those_will_be_kept():
    recorder = Recorder(stop_after=3)
    estimator = small(max_iter=50, training__ema_decay=0.9).set_callbacks(recorder).fit(X, Y)
    np.testing.assert_array_equal(recorder.fitted[-1].predict(X), estimator.predict(X))


def test_progress_bar_runs():
    pytest.importorskip("rich")
    estimator = small(max_iter=2).set_callbacks(sklearn_callback.ProgressBar()).fit(X, Y)
    assert estimator.n_iter_ == 2


def test_a_fit_that_fails_tears_the_callbacks_down():
    recorder = Recorder()

    def loss(prediction, target, **options):
        raise RuntimeError("broken loss")

    estimator = small(loss=loss).set_callbacks(recorder)
    with pytest.raises(RuntimeError, match="broken loss"):
        estimator.fit(X, Y)
    assert recorder.calls == ["setup", "begin fit", "teardown"]
    assert not hasattr(estimator, "_callback_fit_ctx")


def test_a_fitted_estimator_keeps_no_context_and_pickles():
    estimator = small(max_iter=1).set_callbacks(Recorder()).fit(X, Y)
    assert not [name for name in vars(estimator) if "context" in name or name.endswith("_ctx")]
    restored = pickle.loads(pickle.dumps(clone(estimator).fit(X, Y)))
    np.testing.assert_array_equal(restored.predict(X), estimator.predict(X))


def test_verbosity_where_nobody_watches(capfd, subtests):
    for verbose, lines in [("auto", 0), (False, 0), (1, 1), (2, 2)]:
        with subtests.test(verbose=verbose):
            small(verbose=verbose, max_iter=2).fit(X, Y)
            printed = capfd.readouterr()
            assert printed.out == ""
            assert printed.err.count("\n") == lines
            if lines > 1:
                assert "LaMORegressor  50% epoch 1  loss " in printed.err
            if lines:
                assert "LaMORegressor 100% epoch 2  loss " in printed.err


def test_validation_is_part_of_the_line(capfd):
    small(verbose=2, max_iter=2, early_stopping=True).fit(X, Y)
    assert capfd.readouterr().err.count("validation") == 2


# ---------------------------------------------------------------- the line about a long fit
@pytest.fixture
def seconds_of_batches(monkeypatch):
    """Let every batch take a number of seconds, and the first one more, while a person watches."""

    def install(seconds, first=0.0):
        gather, now = FieldLoader.gather, [0.0, first]

        def slow(self, indices):
            now[0] += seconds + now[1]
            now[1] = 0.0
            return gather(self, indices)

        monkeypatch.setattr(FieldLoader, "gather", slow)
        monkeypatch.setattr("skop.estimators.fitting._callbacks.time.perf_counter", lambda: now[0])
        monkeypatch.setattr("skop.estimators.fitting._callbacks.is_watched", lambda stream: True)

    return install


def long(**params):
    """Two batches in each of 40 epochs; a callback ends the fit after four of them."""
    return small(**({"batch_size": 4, "max_iter": 40} | params)).set_callbacks(Recorder(stop_after=4))


def test_a_long_fit_says_once_how_long_it_will_take(seconds_of_batches, capfd):
    seconds_of_batches(2.0, first=15.0)
    model = long().fit(X, Y)
    (line,) = capfd.readouterr().err.splitlines()
    # 80 batches of 2 s, and 15 s in which kernels are compiled.
    assert "LaMORegressor: 40 epochs will take about 2 min 55 s (4 s each)" in line
    assert "max_time=60" in line
    assert "patches__size" not in line  # patches of a grid of 6 x 4 cannot be larger
    quiet = long(verbose=False).fit(X, Y)
    assert capfd.readouterr().err == ""
    np.testing.assert_array_equal(model.predict(X), quiet.predict(X))


def test_what_would_shorten_a_long_fit_is_what_its_network_has(seconds_of_batches, capfd):
    seconds_of_batches(2.0)
    fields = RANDOM.normal(size=(8, 16, 16, 1))
    long(patches__size=2).fit(fields, fields)
    assert "patches__size=4" in capfd.readouterr().err
    points = RANDOM.random((8, 210, 2))
    long(early_stopping=True).fit((points, points), points[..., 0])
    printed = capfd.readouterr().err
    assert "training__subsample_points=52" in printed
    assert "up to about" in printed


def test_a_fit_that_is_short_or_told_to_be_silent_says_nothing(seconds_of_batches, capfd, subtests):
    for params in [{"verbose": 0}, {"verbose": False}, {"max_time": 400.0}, {"max_iter": 25}]:
        with subtests.test(params=params):
            seconds_of_batches(1.0)
            long(**params).fit(X, Y)
            assert capfd.readouterr().err == ""


def test_a_long_fit_that_nobody_watches_says_nothing(seconds_of_batches, monkeypatch, capfd):
    seconds_of_batches(2.0)
    monkeypatch.undo()  # a test writes to a file
    long().fit(X, Y)
    assert capfd.readouterr().err == ""


def ensemble(n_members=3, **params):
    return EnsembleRegressor(small(batch_size=4, **params), n_members=n_members, random_state=0)


def test_the_first_member_says_how_long_it_will_take(seconds_of_batches, capfd):
    seconds_of_batches(14.0)
    model = ensemble(n_members=2, max_iter=4).fit(X, Y)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("LaMORegressor: 4 epochs will take about 1 min 52 s (28 s each)")
    assert [member.verbose for member in model.estimators_] == ["auto"] * 2
    ensemble(n_members=2, max_iter=4, verbose=False).fit(X, Y)
    assert capfd.readouterr().err == ""


def test_of_rollouts_in_threads_the_first_member_tells(seconds_of_batches, capfd):
    seconds_of_batches(15.0)
    wrapped = RolloutRegressor(small(max_iter=4, batch_size=4), window=2)
    with parallel_config(backend="threading"):
        EnsembleRegressor(wrapped, n_members=2, n_jobs=2).fit(X, X[..., :1])
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("LaMORegressor: 4 epochs will take about ")


def test_without_support_in_scikit_learn_only_the_progress_line_is_left():
    class Bare:
        verbose = 0

    with EpochCallbacks(Bare()) as callbacks:
        assert callbacks.told(SimpleNamespace(history=History(loss_curve=[1.0]), progress=0.5)) is False
