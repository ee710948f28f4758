"""Warnings about a run that fits none of the others."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from skop import (
    AutoRegressor,
    ConformalRegressor,
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    LawRegressor,
    MeanFieldRegressor,
    PODRegressor,
    TimeConditionedRegressor,
)


def plates(n_samples, seed=0):
    """Parameters of samples, and a field and two scalars of each, all smooth."""
    params, nodes = np.random.default_rng(seed).uniform(0.5, 1.5, (n_samples, 2)), np.linspace(0, 1, 20)
    field = params[:, :1] * np.sin(3 * nodes + params[:, 1:]) / (0.2 + params[:, 1:])
    return params, field[..., None], np.stack([params.sum(axis=1) ** 2, np.exp(params[:, 0])], axis=-1)


def odd_runs(X, y, model=None, **options):
    """Beginnings of the warnings about runs that fit none of the others."""
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        (PODRegressor() if model is None else model).fit(X, y, **options)
    return [text.split(" fits none")[0] for text in (str(item.message) for item in record) if " fits none" in text]


@pytest.mark.parametrize(("output", "factor"), [("field", 5.0), ("scalars", -1.0), ("one of two scalars", 5.0)])
def test_a_run_that_spoils_the_fit_is_named(output, factor, request):
    if output == "field":
        request.getfixturevalue("choice_repeated")
    X, field, scalars = plates(20)
    y = field if output == "field" else scalars
    assert odd_runs(X, y) == []
    y[7, ..., slice(None) if output != "one of two scalars" else 1] *= factor
    for unit in (1.0, 1e-9):
        assert odd_runs(X, unit * y) == ["sample 7 of the samples given to fit"]
    # Too few samples could not tell.
    assert odd_runs(X[:11], y[:11]) == []


def test_runs_that_spoil_the_fit_are_named_by_their_rows_also_among_weights_groups_and_copies():
    X, y, _ = plates(20)
    y[7] *= -1
    weight = np.linspace(1, 2, 20)
    weight[:3] = 0.0
    assert odd_runs(X, y, sample_weight=weight) == ["sample 7 of the samples given to fit"]
    copied = np.repeat(np.arange(20), 2)
    assert odd_runs(X[copied], y[copied]) == ["sample 14 of the samples given to fit"]
    X, y, _ = plates(48)
    y[[9, 10, 11]] *= -1
    assert odd_runs(X, y, groups=np.arange(48) // 3) == [
        "the group of sample 9 of the samples given to fit, with 3 samples,"
    ]


RIDGE = PODRegressor(regressor="ridge")
LAMO = LaMORegressor(width=8, depth=1, max_iter=1, base=RIDGE, random_state=0)
CHOICE = AutoRegressor(candidates=[("ridge", RIDGE), ("mean", MeanFieldRegressor())], max_time=None, random_state=0)


@pytest.mark.parametrize(
    "model",
    [
        LAMO,
        EnsembleRegressor(LAMO, n_members=2, random_state=0),
        CHOICE,
        ConformalRegressor(LAMO, coverage=0.8, random_state=0),
        # Each fold has another number for it, and only the fit to all samples names it.
        ConformalRegressor(RIDGE, coverage=0.8, method="cv+", cv=2, random_state=0),
        ConformalRegressor(CHOICE, coverage=0.8, random_state=0),
        LawRegressor(RIDGE, proportional_to=0),
    ],
    ids=["base", "ensemble", "choice", "band over a base", "folds of a band", "band over a choice", "law"],
)
def test_estimators_around_a_classical_model_name_a_run_that_spoils_it_once(model):
    X = np.random.default_rng(0).random((44, 2)) + 1
    y = X[:, :1] * [[1.0, 2.0, 4.0]]
    y[17] *= -1
    # The rows before it are in no fit, so that it is the fifteenth there.
    weight = np.ones(44)
    weight[:3] = 0.0
    assert odd_runs(X, y, clone(model), sample_weight=weight) == ["sample 17 of the samples given to fit"]
    y[17] *= -1
    assert odd_runs(X, y, clone(model), sample_weight=weight) == []


@pytest.mark.parametrize("inner", [RIDGE, LAMO], ids=["classical", "base"])
def test_a_trajectory_that_spoils_the_fit_has_its_own_number(inner):
    times, nodes = np.linspace(0, 1, 3), np.linspace(0, 1, 4)[:, np.newaxis]
    loads = np.random.default_rng(0).random((16, 1)) + 1
    frames = loads[:, :, np.newaxis] * (1 + nodes) * np.ones(3)
    frames[9] *= -1
    X, y = FieldSet(nodes, None, params=loads), FieldSet(nodes, frames)
    assert odd_runs(X, y, TimeConditionedRegressor(inner, times=times)) == ["sample 9 of the samples given to fit"]


def test_noise_and_a_corner_of_the_parameters_are_not_named():
    X, y, _ = plates(24)
    noise = np.random.default_rng(1).standard_normal((24, 1, 1))
    assert odd_runs(X, y * (1 + 0.3 * noise)) == []
    # Alone beyond a kink at the far end, a sample is expected to be predicted badly.
    X = np.random.default_rng(2).random((25, 2)) / 2
    X[0] = 1.0
    assert odd_runs(X, 1 + 10 * np.maximum(0, X[:, 0] - 0.8) + X[:, 1]) == []
