"""Fits that several processes make together, and one makes alone: ``python distributed_cases.py FOLDER CASE ...``.

Each process writes what a case has returned, or the error that it has raised, to ``FOLDER/CASE-RANK.pkl``.
"""

import os
import pickle
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import GridSearchCV

from skop import (
    AutoRegressor,
    LaMORegressor,
    MNORegressor,
    PODRegressor,
    RolloutRegressor,
    SymmetryOptions,
    TrainingOptions,
)
from skop.data import FieldLoader, FieldSet
from skop.parts import GNOT
from skop.training import join_group

RANK = int(os.environ.get("RANK", "0"))
FIELDS = np.random.default_rng(0).normal(size=(13, 8, 8, 1))
SUMS = np.cumsum(FIELDS, axis=1) / 4


def small(**params):
    options = {"drop_path": 0.3, **params.pop("training", {})}
    defaults = {"width": 8, "depth": 1, "max_iter": 3, "batch_size": 5, "dtype": "float64", "base": None}
    return LaMORegressor(**{**defaults, "random_state": 0, **params, "training": TrainingOptions(**options)})


def found(model, X):
    """What must be the same on all ranks, and in a single process to rounding."""
    weights = [value.numpy() for value in model.module_.state_dict().values()]
    found = model.predict(X)
    found = found.values if isinstance(found, FieldSet) else found
    return {"loss": model.loss_curve_, "scores": model.validation_scores_, "weights": weights} | {
        "predicted": [np.asarray(part) for part in found],
        "ends": (model.stopped_, model.n_iter_, model.best_iter_),
    }


def on_grids(folder):
    """Weights of samples, a last batch of one sample, drop path, early stopping, and validation."""
    weight = np.linspace(0.2, 2, 13)
    model = small(early_stopping=True, max_iter=12, training={"n_iter_no_change": 2, "tol": 0.01, "drop_path": 0.2})
    return found(model.fit(FIELDS, SUMS, sample_weight=weight), FIELDS)


def ragged_points():
    rng = np.random.default_rng(1)
    coords = [rng.random((count, 2)) for count in (20, 31, 25, 40, 22, 35, 28)]
    return [(own, own[:, :1] ** 2) for own in coords], [own.sum(axis=1, keepdims=True) for own in coords]


def on_points(folder):
    """Samples of different size, of which points are drawn, and batches of three for two processes."""
    X, y = ragged_points()
    return found(small(batch_size=3, training={"subsample_points": 24}).fit(X, y), X)


def one_sample_in_a_batch(folder):
    X, y = ragged_points()
    return found(small(batch_size=1, max_iter=2, training={"loss_reduction": "sum"}).fit(X, y), X)


def with_symmetries(folder):
    model = small(symmetries=SymmetryOptions(names=["flip_x", "quarter_turn"]), training={"max_grad_norm": 0.01})
    return found(model.fit(FIELDS, SUMS), FIELDS)


def over_a_base(folder):
    """The base model, its reviews and the share of the network."""
    params = np.random.default_rng(2).random((30, 2))
    y = np.sin(3 * params @ np.random.default_rng(3).random((2, 20)))[..., None]
    model = small(base="pod", max_iter=8).fit(params, (np.linspace(0, 1, 20)[:, None], y))
    return found(model, params)


def steps_of_trajectories(folder):
    """Samples in groups, and noise on the inputs."""
    series = np.cumsum(np.random.default_rng(4).normal(size=(5, 8, 8, 6)), axis=-1) / 5
    model = RolloutRegressor(small(batch_size=2, max_iter=2), window=1, noise=0.1, random_state=0)
    return found(model.fit(series[..., :1], series[..., 1:]).estimator_, series[..., :1])


def at_other_points(folder):
    """Outputs at other points than the inputs."""
    coords = np.random.default_rng(5).random((13, 24, 2))
    X, places = FieldSet(coords, FIELDS.reshape(13, 64, 1)[:, :24]), np.random.default_rng(6).random((12, 2))
    y = FieldSet(places, FIELDS[:, 0, :1] + places[:, :1] ** 2)
    return found(small().fit(X, y), X)


def of_another_operator(folder):
    model = MNORegressor(host=GNOT(), width=8, depth=1, max_iter=2, batch_size=5, dtype="float64", base=None)
    return found(model.set_params(random_state=0).fit(FIELDS, SUMS), FIELDS)


def without_a_seed(folder):
    return found(small(random_state=None).fit(FIELDS, SUMS), FIELDS)


def for_some_time(folder):
    """The clock of rank 0 decides, though the other is slower."""
    gather = FieldLoader.gather

    def slow(self, indices):
        time.sleep(0.002 * RANK)
        return gather(self, indices)

    FieldLoader.gather = slow
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return found(small(max_time=0.5, max_iter=10_000).fit(FIELDS, SUMS), FIELDS)
    finally:
        FieldLoader.gather = gather


def diverging(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small(learning_rate_init=1e300, training={"max_grad_norm": None}).fit(FIELDS, SUMS)


def going_back_once(folder):
    """A gradient that overflows on the part of one rank in one step: all ranks go back, and on with half the rate."""
    gather, calls = FieldLoader.gather, []

    def spoilt(self, indices):
        batch = gather(self, indices)
        if self.targets is not None and batch.target is not None and len(indices) == 5:
            calls.append(indices)
            if len(calls) == 4:
                batch.target = batch.target.clone()
                batch.target[-1] = torch.inf  # in the part of the last rank
        return batch

    FieldLoader.gather = spoilt
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = found(small(max_iter=4).fit(FIELDS, SUMS), FIELDS)
        return result | {"warned": sum("back to the last good epoch" in str(item.message) for item in caught)}
    finally:
        FieldLoader.gather = gather


def of_other_data(folder):
    small().fit(FIELDS + RANK, SUMS)


def of_other_parameters(folder):
    small(learning_rate_init=0.001 * (1 + RANK), random_state=RANK).fit(FIELDS, SUMS)


def failing_on_one(folder):
    fields = FIELDS.copy()
    fields[0] = np.nan if RANK == 1 else 0.0
    small().fit(fields, SUMS)


def failing_in_a_step(folder):
    gather = FieldLoader.gather
    at_step(4, lambda: int("x"))
    try:
        small().fit(FIELDS, SUMS)
    finally:
        FieldLoader.gather = gather


def each_by_itself(folder):
    model = small(training={"distributed": False}, random_state=RANK).fit(FIELDS[RANK:], SUMS[RANK:])
    return {"curve": model.loss_curve_}


def at_other_places(folder):
    if RANK == 0:
        join_group().once(lambda: 0)
    else:
        small().fit(FIELDS, SUMS)


def at_step(number, action):
    """Let something happen on the last rank when it gathers a batch of the training."""
    gather, calls = FieldLoader.gather, []

    def counted(self, indices):
        calls.append(indices)
        if len(calls) == number and int(os.environ.get("WORLD_SIZE", "1")) == RANK + 1:
            action()
        return gather(self, indices)

    FieldLoader.gather = counted


def interrupted(folder):
    """An interrupt of one process ends the training of all of them, after the same step."""
    gather = FieldLoader.gather
    at_step(8, lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return found(small(max_iter=50).fit(FIELDS, SUMS), FIELDS)
    finally:
        FieldLoader.gather = gather


def killed(folder):
    """The last process is killed; the others end with an error."""
    at_step(8, lambda: os.kill(os.getpid(), signal.SIGKILL))
    small(max_iter=10_000).fit(FIELDS, SUMS)


def with_checkpoints(folder):
    """One process fits to the end, and saves the model."""
    model = small(max_iter=6).fit(FIELDS, SUMS, checkpoint_dir=folder / "kept")
    model.save(folder / "model.skop")
    return found(model, FIELDS)


def terminated(folder):
    """SIGTERM of one process: all of them end by it, and one writes a checkpoint."""
    at_step(11, lambda: os.kill(os.getpid(), signal.SIGTERM))
    small(max_iter=6).fit(FIELDS, SUMS, checkpoint_dir=folder / "kept")


def searched(folder):
    """Candidates in worker processes, which inherit the environment and fit alone, and the last fit together."""
    search = GridSearchCV(small(max_iter=2), {"width": [4, 8]}, cv=2, n_jobs=2).fit(FIELDS, SUMS)
    return found(search.best_estimator_, FIELDS) | {"scores": search.cv_results_["mean_test_score"]}


def searched_in_sequence(folder):
    search = GridSearchCV(small(max_iter=2), {"width": [4, 8]}, cv=2).fit(FIELDS, SUMS)
    return found(search.best_estimator_, FIELDS) | {"scores": search.cv_results_["mean_test_score"]}


def chosen_by_the_clock(folder):
    """A search by the clock of one process, whose result all of them have."""
    params = np.random.default_rng(2).random((20, 3))
    candidates = [("mean", PODRegressor(regressor="mean")), ("ridge", PODRegressor(regressor="ridge"))]
    model = AutoRegressor(candidates=candidates, max_time=2 + RANK, random_state=0).fit(params, params.sum(axis=1))
    return {"predicted": model.predict(params), "seconds of fits": [row["fit_seconds"] for row in model.results_]}


def with_a_group_of_the_user(folder):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=RANK, world_size=2)
    result = found(small().fit(FIELDS, SUMS), FIELDS)
    torch.distributed.destroy_process_group()
    return result


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for case in sys.argv[2:]:
        start = time.perf_counter()
        try:
            result = globals()[case](folder)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        result["seconds"] = time.perf_counter() - start
        (folder / f"{case}-{RANK}.pkl").write_bytes(pickle.dumps(result))
