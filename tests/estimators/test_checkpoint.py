"""Checkpoints of fits: one that ended early and is called again equals one that did not, whatever becomes of files."""

import functools
import importlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import meshio
import numpy as np
import pandas
import pytest
from sklearn import config_context
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skop
from skop import (
    AutoRegressor,
    ConformalRegressor,
    EnsembleRegressor,
    LaMORegressor,
    PODRegressor,
    RolloutRegressor,
    TrainingOptions,
)
from skop.data import FieldLoader, Scalers
from skop.estimators._field import fitted_attributes
from skop.estimators.fitting import _checkpoint
from skop.estimators.fitting._base_model import BaseModel
from skop.estimators.fitting._checkpoint import FitCheckpoints
from skop.estimators.fitting._comparison import Review
from skop.estimators.fitting._monitors import OverfittingMonitor
from skop.exceptions import ModelFileError, SkopWarning
from skop.modules import ResidualDropout
from skop.parts import Part
from skop.training import fingerprint

X = np.random.default_rng(0).normal(size=(16, 4, 4, 1))
Y = np.sin(X) + 0.3 * np.roll(X, 1, axis=1) ** 2


class Killed(BaseException):
    """Stand-in for what ends a process within a step."""


def small(**params):
    sizes = {"width": 8, "depth": 1, "max_iter": 4, "batch_size": 4, "base": None, "random_state": 0}
    return LaMORegressor(**(sizes | params))


def outcome(model):
    """Weights, loss curve and validation scores."""
    return fingerprint(model.module_), model.loss_curve_, model.validation_scores_, model.best_iter_, model.stopped_


def files(folder, pattern="*"):
    """Names of the files of all fits."""
    return sorted(path.name for path in Path(folder).rglob(pattern) if path.is_file())


@pytest.fixture(autouse=True)
def every_epoch(monkeypatch):
    """Write a checkpoint after each epoch, however long it took."""
    monkeypatch.setattr(FitCheckpoints, "pause", 0.0)
    monkeypatch.setattr(FitCheckpoints, "part", np.inf)


@pytest.fixture
def gathered(monkeypatch):
    """Act when this many batches have been gathered, over all fits, once."""
    gather, count, acts = FieldLoader.gather, [0], {}

    def watched(self, indices):
        count[0] += 1
        if count[0] in acts:
            acts.pop(count[0])()
        return gather(self, indices)

    monkeypatch.setattr(FieldLoader, "gather", watched)

    def at(n_batches, act):
        acts[n_batches + count[0]] = act

    at.count = count
    return at


def kill():
    """End a fit as a kill does: nothing is written any more."""
    raise Killed


def killed(model, gathered, folder, n_batches, y=Y):
    """Fit until this many batches have been gathered."""
    gathered(n_batches, kill)
    with pytest.raises(Killed):
        model.fit(X, y, checkpoint_dir=folder)


FITS = {
    "plain": {},
    "validated": {"early_stopping": True, "training": TrainingOptions(n_iter_no_change=2, validation_fraction=0.25)},
    "averaged and augmented": {"symmetries": ["flip_x"], "training": TrainingOptions(ema_decay=0.9, drop_path=0.3)},
    "over a base": {"base": "pod", "training": TrainingOptions(schedule="one_cycle")},
}


@functools.cache
def not_killed(name="plain"):
    """Outcome and predictions of a fit without checkpoints."""
    model = small(**FITS[name]).fit(X, Y)
    return outcome(model), model.predict(X)


@pytest.mark.parametrize("name", [name for name in FITS if name != "plain"])
def test_a_killed_fit_ends_as_one_that_was_not(name, tmp_path, gathered):
    expected, predicted = not_killed(name)
    killed(small(**FITS[name]), gathered, tmp_path, 9)
    (half_written,) = tmp_path.glob("*")
    (half_written / ".epoch-000002.checkpoint.abc").write_bytes(b"")
    assert files(tmp_path, "epoch*"), "nothing was kept, so that nothing is tested"
    found = small(**FITS[name]).fit(X, Y, checkpoint_dir=tmp_path)
    assert outcome(found) == expected
    np.testing.assert_array_equal(found.predict(X), predicted)
    assert files(tmp_path) == ["fit.json", "model.skop"]


@pytest.mark.parametrize("before_end", [2, 26], ids=["in the second half", "in the first half"])
def test_a_training_without_its_base_and_with_drop_path_goes_on(before_end, tmp_path, gathered, monkeypatch):
    monkeypatch.setattr(Review, "winner", lambda self, part, now: "network")
    monkeypatch.setattr(OverfittingMonitor, "overfits", lambda self, *_: (True, None))
    options = {"base": "pod", "max_iter": 8, "symmetries": ["flip_x"]}
    options["training"] = TrainingOptions(shift_patches=False)
    start = gathered.count[0]
    expected = small(**options).fit(X, Y)
    assert expected.base_ is None
    killed(small(**options), gathered, tmp_path, gathered.count[0] - start - before_end)
    assert files(tmp_path, "epoch*")
    found = small(**options).fit(X, Y, checkpoint_dir=tmp_path)
    assert outcome(found) == outcome(expected)
    assert {module.drop_path for module in found.module_.modules() if isinstance(module, ResidualDropout)} == {0.2}


@pytest.mark.parametrize(
    ("overfits", "before_end"),
    [(False, 2), (True, 2), *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in ((True, 30), (False, 30)))],
)
def test_a_training_with_samples_held_out_to_judge_it_goes_on(overfits, before_end, tmp_path, gathered, monkeypatch):
    monkeypatch.setattr(OverfittingMonitor, "overfits", lambda self, *_: (overfits and self.due == [], None))
    # Copies of samples would be one group, and none are held out of few groups.
    every = np.random.default_rng(1).normal(size=(112, 4, 4, 1))
    fields = np.sin(every)
    options = {"max_iter": 8, "symmetries": ["flip_x"], "batch_size": 16}
    start = gathered.count[0]
    expected = small(**options).fit(every, fields)
    assert expected.fit_record_["split"] == {"training": 101, "signs of overfitting": 11}
    gathered(gathered.count[0] - start - before_end, kill)
    with pytest.raises(Killed):
        small(**options).fit(every, fields, checkpoint_dir=tmp_path)
    assert files(tmp_path, "epoch*")
    found = small(**options).fit(every, fields, checkpoint_dir=tmp_path)
    assert outcome(found) == outcome(expected)


def test_checkpoints_do_not_change_a_fit_and_a_finished_one_is_loaded(tmp_path, gathered):
    expected, predicted = not_killed()
    assert outcome(small().fit(X, Y, checkpoint_dir=tmp_path)) == expected
    before = gathered.count[0]
    again = small().fit(X, Y, checkpoint_dir=str(tmp_path))
    assert gathered.count[0] == before
    assert outcome(again) == expected
    (model,) = tmp_path.rglob("model.skop")
    np.testing.assert_array_equal(skop.load(model).predict(X), predicted)
    # An estimator that was fitted to something else is then that of the loaded fit alone.
    other = small(max_iter=1).fit(X.reshape(16, 16), Y[:, 0, 0, 0]).set_params(max_iter=4)
    other.fit(X, Y, checkpoint_dir=tmp_path)
    assert (outcome(other), sorted(fitted_attributes(other))) == (expected, sorted(fitted_attributes(again)))


def test_resumed_fits_train_only_what_is_left(tmp_path, gathered):
    small(max_iter=1).fit(X, Y)
    epoch = gathered.count[0]
    killed(small(), gathered, tmp_path, 14)  # in the fourth epoch of four batches
    before = gathered.count[0]
    small().fit(X, Y, checkpoint_dir=tmp_path)
    assert gathered.count[0] - before == epoch


def test_two_checkpoints_are_kept_and_the_older_one_helps_where_the_newer_is_damaged(tmp_path, gathered):
    expected, _ = not_killed()
    killed(small(), gathered, tmp_path, 14)
    assert files(tmp_path, "epoch*") == ["epoch-000002.checkpoint", "epoch-000003.checkpoint"]
    (newer,) = tmp_path.rglob("epoch-000003*")
    content = bytearray(newer.read_bytes())
    content[len(content) // 2] ^= 1
    newer.write_bytes(content)
    before = gathered.count[0]
    remedy = "remove it: the fit then takes an earlier one, or starts anew"
    with pytest.raises(ModelFileError, match=remedy):
        skop.load(newer)
    with pytest.warns(SkopWarning, match=rf"epoch-000003\.checkpoint is damaged.*; {remedy}"):
        found = small().fit(X, Y, checkpoint_dir=tmp_path)
    assert outcome(found) == expected
    # Two epochs are left; one more batch is read for the features of novelty.
    assert gathered.count[0] - before == 2 * 4 + 1


def test_files_of_other_fits_and_places_are_not_taken(tmp_path, gathered):
    """Whole files that were copied, and states without a part, are left for the older state beside them."""
    expected, _ = not_killed()
    small(random_state=1).fit(X, Y, checkpoint_dir=tmp_path / "other")
    killed(small(), gathered, tmp_path / "own", 14)
    (folder,) = (tmp_path / "own").iterdir()
    (model,) = (tmp_path / "other").rglob("model.skop")
    shutil.copy(model, folder)
    shutil.copy(folder / "epoch-000002.checkpoint", folder / "epoch-000003.checkpoint")
    shutil.copy(folder / "start.checkpoint", folder / "epoch-000004.checkpoint")
    (folder / "epoch-000009.checkpoint").mkdir()
    state = _checkpoint.read_state(folder / "epoch-000002.checkpoint")
    state["further"].pop("backends")
    _checkpoint._write(folder / "epoch-000005.checkpoint", state)
    with pytest.warns(SkopWarning, match="another place"), pytest.warns(SkopWarning, match="other parts"):
        found = small().fit(X, Y, checkpoint_dir=tmp_path / "own")
    assert outcome(found) == expected
    assert files(folder, "*.checkpoint") == []


def test_fits_on_other_cells_or_columns_are_other_fits(tmp_path):
    """A model predicts on the mesh of its y, and takes the columns of its X."""
    table, points = np.random.default_rng(0).random((6, 2)), np.random.default_rng(1).random((9, 2))
    values = np.random.default_rng(2).random((6, 9))
    for cells in ([("triangle", np.arange(9).reshape(3, 3))], [("quad", [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 7, 8]])]):
        mesh = meshio.Mesh(points, cells)
        model = small(max_iter=1).fit(table, (mesh, values), checkpoint_dir=tmp_path)
        assert [block.type for block in model.predict(table)[0].cells] == [cells[0][0]]
    for columns in (["a", "b"], ["b", "a"]):
        frame = pandas.DataFrame(table, columns=columns)
        model = small(max_iter=1).fit(frame, values[:, 0], checkpoint_dir=tmp_path)
        assert model.feature_names_in_.tolist() == columns
    assert not hasattr(small(max_iter=1).fit(table, values[:, 0], checkpoint_dir=tmp_path), "feature_names_in_")


def test_a_fit_without_a_whole_checkpoint_starts_anew(tmp_path, gathered):
    params = FITS["over a base"]
    expected, _ = not_killed("over a base")
    killed(small(**params), gathered, tmp_path, 9)
    for path in tmp_path.rglob("*.checkpoint"):
        path.write_bytes(path.read_bytes()[:-7])
    with pytest.warns(SkopWarning, match="start.checkpoint") as said, pytest.warns(SkopWarning, match="epoch-"):
        found = small(**params).fit(X, Y, checkpoint_dir=tmp_path)
    assert not any("save" in str(warning.message) for warning in said)
    assert outcome(found) == expected


def test_scalers_and_base_are_not_fitted_again(tmp_path, gathered, monkeypatch):
    killed(small(base="pod"), gathered, tmp_path, 9)

    def refuse(*args, **options):
        raise AssertionError("fitted again")

    monkeypatch.setattr(Scalers, "fit", refuse)
    monkeypatch.setattr(BaseModel, "fit", refuse)
    small(base="pod").fit(X, Y, checkpoint_dir=tmp_path)


def test_other_data_parameters_or_weights_are_other_fits(tmp_path):
    small(max_iter=1).fit(X, Y, checkpoint_dir=tmp_path)
    small(max_iter=1, verbose=False).fit(X, Y, checkpoint_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    moved = X.copy()
    moved[0, 0, 0, 0] += 1e-9
    small(max_iter=1).fit(moved, Y, checkpoint_dir=tmp_path)
    small(max_iter=1).fit(X, Y[::-1], checkpoint_dir=tmp_path)
    small(max_iter=1, learning_rate_init=0.001).fit(X, Y, checkpoint_dir=tmp_path)
    small(max_iter=1).fit(X, Y, np.arange(16), checkpoint_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 5


#: A mixer of one's own, whose computation is in a function of its file.
OWN_MIXER = """
from functools import lru_cache, partial
from skop.modules import TokenMixer
from skop.parts import Mixer

def mixed(tokens, part):
    return SCALE(tokens.flip(1)) * size() + part

@lru_cache
def size():
    return 3.0

def added(tokens, number):
    return tokens * 0.5

ADDED = partial(added, number=1)
SQUARE = lambda tokens: tokens**2
SCALE = lambda tokens: tokens / 4

class Turn(TokenMixer):
    def __init__(self, width, n_dims=1):
        super().__init__()

    def mix(self, tokens, grid):
        return mixed(SQUARE(tokens), ADDED(tokens))

class TurnForCheckpoints(Mixer):
    module = Turn
"""


def test_other_code_of_ones_own_is_another_fit(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    changes = [("", ""), ("class Turn(", "print\nclass Turn("), ("return mixed", "return 2 * mixed"), ("flip", "roll")]
    # Decorated and partial functions, and those without a name.
    changes += [("3.0", "4.0"), ("0.5", "0.7"), ("**2", "**3"), ("/ 4", "/ 5")]
    try:
        for (old, new), count in zip(changes, (1, 1, 2, 3, 4, 5, 6, 7), strict=True):
            (tmp_path / "mixer_for_checkpoints.py").write_text(OWN_MIXER.replace(old, new, 1))
            sys.modules.pop("mixer_for_checkpoints", None)
            mixer = importlib.import_module("mixer_for_checkpoints").TurnForCheckpoints()
            small(max_iter=1, mixer=mixer, geometry="structured").fit(X, Y, checkpoint_dir=tmp_path / "fits")
            assert len(list((tmp_path / "fits").iterdir())) == count
    finally:
        sys.modules.pop("mixer_for_checkpoints", None)
        Part.known.pop("TurnForCheckpoints", None)


def test_other_groups_are_other_fits_and_any_labels_of_the_same_are_not(tmp_path):
    days = np.datetime64("2026-01-01") + np.arange(16) // 2
    for groups, count in ((days, 1), (np.arange(16) // 2, 1), (np.arange(16) // 4, 2), (None, 3)):
        small(max_iter=1).fit(X, Y, groups=groups, checkpoint_dir=tmp_path)
        assert len(list(tmp_path.iterdir())) == count


def test_a_warm_start_goes_on_from_a_fit_that_was_loaded(tmp_path, gathered):
    def long(folder=None):
        model = small(warm_start=True, max_iter=2, training=TrainingOptions(ema_decay=0.9)).fit(
            X, Y, checkpoint_dir=folder
        )
        return model.set_params(max_iter=4)

    expected = outcome(long().fit(X, Y))
    killed(long(tmp_path), gathered, tmp_path, 10)
    found = long(tmp_path)
    before = gathered.count[0]
    found.fit(X, Y, checkpoint_dir=tmp_path)
    assert outcome(found) == expected
    assert gathered.count[0] - before < 16


def test_an_interrupted_fit_can_be_finished_later(tmp_path, gathered, monkeypatch):
    expected, _ = not_killed()
    monkeypatch.setattr(FitCheckpoints, "pause", 1e9)

    def interrupt():
        raise KeyboardInterrupt

    gathered(11, interrupt)
    with pytest.warns(SkopWarning, match="interrupted"):
        model = small().fit(X, Y, checkpoint_dir=tmp_path)
    assert (model.n_iter_, files(tmp_path, "epoch*")) == (2, ["epoch-000002.checkpoint"])
    assert outcome(small().fit(X, Y, checkpoint_dir=tmp_path)) == expected


def test_a_time_limit_counts_what_was_spent_before(tmp_path, gathered):
    params = {"max_iter": 10**6, "max_time": 1000.0}
    killed(small(**params), gathered, tmp_path, 30)
    path = max(tmp_path.rglob("epoch*"))
    state = _checkpoint.read_state(path)
    state["trainer"]["elapsed"] = 1000.0
    _checkpoint._write(path, state)
    n_epochs = len(state["trainer"]["history"]["loss_curve"])
    model = small(**params).fit(X, Y, checkpoint_dir=tmp_path)
    assert (model.stopped_, model.n_iter_) == ("max_time", n_epochs + 1)
    assert model.fit_seconds_ >= 1000


# ---------------------------------------------------------------------- folders and files
def test_a_folder_that_cannot_be_written_is_refused_before_the_training(tmp_path, gathered):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"checkpoint_dir='.*file' cannot be written \(.*\); pass a folder"):
        small().fit(X, Y, checkpoint_dir=tmp_path / "file")
    assert gathered.count[0] == 0


def test_a_full_disk_does_not_break_a_fit(tmp_path, monkeypatch):
    expected, _ = not_killed()

    def full(value, path, key):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FitCheckpoints._write, "__defaults__", (full,))
    monkeypatch.setattr(_checkpoint, "save_estimator", full)
    with pytest.warns(SkopWarning, match="No space left") as caught:
        found = small().fit(X, Y, checkpoint_dir=tmp_path)
    assert len([held for held in caught if "No space" in str(held.message)]) == 1
    assert outcome(found) == expected


def test_what_cannot_be_resumed_is_refused(tmp_path, subtests):
    for params, folder, words in [
        ({"random_state": None}, "folder", "random_state to be an integer.*LaMORegressor has random_state=None"),
        ({"loss": lambda outputs, batch: outputs.field.sum()}, "folder", "parameters that can be written to a file"),
        ({}, ["f", "o"], r"expected the path of a folder.*pathlib\.Path"),
        ({}, "", r"checkpoint_dir is ''; expected the path of a folder"),
    ]:
        with subtests.test(params=params, folder=folder), pytest.raises(ValueError, match=words):
            small(**params).fit(X, Y, checkpoint_dir=tmp_path / folder if folder == "folder" else folder)


# ---------------------------------------------------------------------- signals
def test_sigterm_writes_a_checkpoint_and_ends_the_process_by_the_signal(tmp_path, gathered, monkeypatch):
    expected, _ = not_killed()
    monkeypatch.setattr(FitCheckpoints, "pause", 1e9)

    class Ended(BaseException):
        """The process has ended."""

    def end(*arguments):
        raise Ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        gathered(11, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(Ended):
            small().fit(X, Y, checkpoint_dir=tmp_path)
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)
    assert files(tmp_path, "epoch*") == ["epoch-000002.checkpoint"]
    assert outcome(small().fit(X, Y, checkpoint_dir=tmp_path)) == expected


def test_a_fit_goes_on_where_the_process_does(tmp_path, gathered):
    expected, _ = not_killed("averaged and augmented")
    taken = []
    before = signal.signal(signal.SIGTERM, lambda *arguments: taken.append(files(tmp_path, "epoch*")))
    try:
        gathered(11, lambda: os.kill(os.getpid(), signal.SIGTERM))
        found = small(**FITS["averaged and augmented"]).fit(X, Y, checkpoint_dir=tmp_path)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert taken == [["epoch-000001.checkpoint", "epoch-000002.checkpoint"]]
    assert outcome(found) == expected


# ---------------------------------------------------------------------- estimators around it
def test_a_search_and_a_pipeline_pass_the_folder_on(tmp_path, gathered):
    search = GridSearchCV(small(max_iter=1), {"learning_rate_init": [0.001, 0.01]}, cv=2)
    expected = search.fit(X, Y, checkpoint_dir=tmp_path)
    expected = outcome(expected.best_estimator_)
    assert len(list(tmp_path.iterdir())) == 5
    trained = gathered.count[0]
    again = search.fit(X, Y, checkpoint_dir=tmp_path)
    # Predictions gather batches too; none is for training.
    assert gathered.count[0] - trained < trained / 2
    assert outcome(again.best_estimator_) == expected
    make_pipeline(small(max_iter=1)).fit(X, Y, lamoregressor__checkpoint_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 6


def test_metadata_routing_knows_the_folder(tmp_path):
    with config_context(enable_metadata_routing=True):
        requesting = small(max_iter=1).set_fit_request(checkpoint_dir=True)
        GridSearchCV(requesting, {"width": [8]}, cv=2).fit(X, Y, checkpoint_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_an_ensemble_goes_on_with_the_member_that_was_killed(tmp_path, gathered):
    def ensemble():
        return EnsembleRegressor(small(max_iter=2), n_members=2, random_state=0)

    expected = ensemble().fit(X, Y)
    killed(ensemble(), gathered, tmp_path, 13)
    assert files(tmp_path, "model*") == ["model.skop"]
    found = ensemble().fit(X, Y, checkpoint_dir=tmp_path)
    assert [outcome(held) for held in found.estimators_] == [outcome(held) for held in expected.estimators_]
    with pytest.raises(ValueError, match="EnsembleRegressor has random_state=None"):
        EnsembleRegressor(small()).fit(X, Y, checkpoint_dir=tmp_path)


def test_a_band_goes_on_with_the_fold_that_was_killed(tmp_path, gathered):
    def band(**params):
        options = {"coverage": 0.6, "method": "cv+", "cv": 2, "random_state": 0}
        return ConformalRegressor(small(max_iter=2), **(options | params))

    expected = band().fit(X, Y)
    killed(band(), gathered, tmp_path, 7)  # each fold has two batches, in two epochs
    assert files(tmp_path, "model*") == ["model.skop"]
    found = band().fit(X, Y, checkpoint_dir=tmp_path)
    for one, other in zip(found.predict_interval(X), expected.predict_interval(X), strict=True):
        np.testing.assert_array_equal(one, other)
    # Two folds and all samples; the scale and the scores are computed from these.
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(ValueError, match="ConformalRegressor has random_state=None"):
        band(random_state=None).fit(X, Y, checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match="the fit of PODRegressor writes no checkpoints"):
        ConformalRegressor(PODRegressor(), random_state=0).fit(X, Y, checkpoint_dir=tmp_path)


def test_rollouts_of_other_noise_are_other_fits(tmp_path, gathered):
    frames = np.concatenate([np.roll(X, 1, axis=1), np.roll(X, 2, axis=1)], axis=-1)

    def rollout(**params):
        return RolloutRegressor(small(max_iter=3), window=1, **params)

    expected = rollout(noise=0.1).fit(X, frames)
    killed(rollout(noise=0.1), gathered, tmp_path, 9, frames)
    rollout(noise=0.2).fit(X, frames, checkpoint_dir=tmp_path)
    found = rollout(noise=0.1).fit(X, frames, checkpoint_dir=tmp_path)
    assert outcome(found.estimator_) == outcome(expected.estimator_)
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(ValueError, match="the fit of PODRegressor writes no checkpoints"):
        RolloutRegressor(PODRegressor(), window=1).fit(X, frames, checkpoint_dir=tmp_path)


def test_a_choice_goes_on_with_the_fit_that_was_killed(tmp_path, gathered):
    def auto():
        candidates = [("pod", PODRegressor()), ("a", small(max_iter=2)), ("b", small(max_iter=2, width=16))]
        return AutoRegressor(candidates=candidates, max_time=None, cv=2, random_state=0)

    def errors(model):
        return [(row["candidate"], row["error"], row["status"]) for row in model.results_]

    expected, whole = auto().fit(X, Y), gathered.count[0]
    # In the third fit of the search, and in the final one: what had ended is not done again.
    for steps in (17, whole - 3):
        killed(auto(), gathered, tmp_path / str(steps), steps)
        before = gathered.count[0]
        found = auto().fit(X, Y, checkpoint_dir=tmp_path / str(steps))
        assert gathered.count[0] - before <= whole - steps + 5
        assert errors(found) == errors(expected)
        np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_a_final_fit_within_a_budget_goes_on(tmp_path, gathered):
    """The operator is not tried in the search, and its training goes on with the time limit that it had."""

    def auto():
        candidates = [("pod", PODRegressor(regressor="mean")), ("a", small(max_iter=4, base="pod"))]
        return AutoRegressor(candidates=candidates, max_time=1000, cv=2, random_state=0, verbose=False)

    auto().fit(X, Y)
    whole = gathered.count[0]
    killed(auto(), gathered, tmp_path, 18)
    assert files(tmp_path, "epoch*"), "nothing was kept, so that nothing is tested"
    names = sorted(path.name.partition("-")[0] for path in tmp_path.iterdir())
    assert names == ["AutoRegressor", "LaMORegressor"]
    before = gathered.count[0]
    found = auto().fit(X, Y, checkpoint_dir=tmp_path)
    assert gathered.count[0] - before <= whole - 8
    assert sorted(path.name.partition("-")[0] for path in tmp_path.iterdir()) == names
    assert found.estimator_.n_iter_ == 4


# ---------------------------------------------------------------------- kills
def run_kills(*options):
    """Kill fits in processes of their own by the benchmark, which compares their results."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "SKOP_BACKEND": "torch"}
    command = [sys.executable, "-m", "benchmarks", "kills", *options]
    checkout = Path(__file__).parents[2]
    ended = subprocess.run(command, env=environment, cwd=checkout, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts of processes take seconds here")
def test_real_kills():
    run_kills("--cases", "1", "--fits", "validated, averaged, augmented")


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts of processes take seconds here")
def test_real_kills_of_several_fits():
    fits = ["plain", "validated, averaged, augmented", "over a base", "points, some of them drawn", "AMO"]
    run_kills("--cases", "10", "--seed", "1", "--fits", *fits)
