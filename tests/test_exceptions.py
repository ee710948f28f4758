"""Kinds of errors: code that guards scikit-learn's calls guards ours too."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import skop
from skop import FieldSet, LaMORegressor, exceptions
from skop.data import unit_grid


def test_each_is_what_a_caller_would_guard_against(subtests):
    for name, base in [
        ("FieldDataError", ValueError),
        ("ModelFileError", ValueError),
        ("OptionalDependencyError", ImportError),
        ("TrainingDivergedError", ArithmeticError),
        ("ResolutionWarning", UserWarning),
        ("ExtrapolationWarning", UserWarning),
        ("NoveltyWarning", UserWarning),
        ("SkopWarning", UserWarning),
    ]:
        with subtests.test(name=name, base=base):
            assert issubclass(getattr(exceptions, name), base)


def test_every_error_is_a_skop_error_and_every_warning_a_skop_warning():
    for name in set(exceptions.__all__) - {"each_warning_once", "held_warnings", "warn"}:
        kind = getattr(exceptions, name)
        assert issubclass(kind, exceptions.SkopWarning if name.endswith("Warning") else exceptions.SkopError)


def test_each_travels_between_processes(subtests):
    """Text, class, cause and attributes of an error in a worker are those that its caller sees."""
    for name in sorted(set(exceptions.__all__) - {"each_warning_once", "held_warnings", "warn"}):
        with subtests.test(name):
            kind = getattr(exceptions, name)
            error = kind("sample 3 is wrong; mend it.")
            error.sample = 3
            copy = pickle.loads(pickle.dumps(error))
            assert type(copy) is kind
            assert str(copy) == "sample 3 is wrong; mend it."
            assert copy.args == error.args
            assert copy.sample == 3


def one_warning(call, *arguments, **options):
    """The only warning of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments, **options)
    (warning,) = [item for item in caught if issubclass(item.category, exceptions.SkopWarning)]
    return warning


def tiny():
    """An estimator that fits in a moment."""
    return LaMORegressor(width=8, depth=1, max_iter=1, base=None, random_state=0)


def test_a_warning_names_the_line_of_the_caller():
    points = list(np.random.default_rng(0).random((4, 6, 2)))
    fitting = one_warning(tiny().fit, points, np.arange(4.0))
    assert "list of arrays" in str(fitting.message)
    through_sklearn = one_warning(make_pipeline(tiny()).fit, points, np.arange(4.0))
    X = np.random.default_rng(0).random((4, 9, 9, 1))
    model = tiny().fit(X, X)
    coarse = FieldSet(unit_grid((5, 5)), X[:, ::2, ::2], grid_shape=(5, 5))
    predicting = one_warning(model.predict, coarse)
    scoring = one_warning(model.score, coarse, coarse)
    assert [item.filename for item in (fitting, through_sklearn, predicting, scoring)] == [__file__] * 4


def test_a_warning_inside_cross_validation_names_the_script():
    X = np.random.default_rng(0).random((6, 8, 8))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_val_score(tiny(), X, np.arange(6.0), cv=2)
    assert {item.filename for item in caught if item.category is exceptions.SkopWarning} == {__file__}


def test_the_fits_of_a_search_show_a_warning_once(monkeypatch):
    """Also with the last fit, of the best parameters, which is no task of the search."""
    monkeypatch.setattr(exceptions, "_shown", (None, {}))
    X = np.random.default_rng(0).random((6, 8, 8, 1))
    model = skop.LaMORegressor(width=8, depth=1, base=None, max_iter=1, random_state=0, verbose=False)
    model.set_params(latents__n_tokens=8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        GridSearchCV(model, {"max_iter": [1, 2]}, cv=2).fit(X, X)
    assert sum("latents=LatentTokens(n_tokens=8) has no effect" in str(item.message) for item in caught) == 1


def shown_by(action, calls):
    """Number of warnings that a filter shows of calls at one line, between which another package changes filters."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        for call in calls:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ResourceWarning)
            call()
    return len(caught)


def test_a_loop_shows_a_warning_as_often_as_the_users_filters_say():
    def say(text):
        return lambda: exceptions.warn(text)

    for action, expected in (("default", 2), ("once", 2), ("always", 3), ("ignore", 0)):
        for _ in range(2):
            assert shown_by(action, [say("this"), say("that"), say("this")]) == expected, action
    with pytest.raises(exceptions.SkopWarning):
        shown_by("error", [say("this")])


def test_a_new_registry_of_the_module_shows_it_again():
    """As IPython makes one for each cell that is run."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            globals().pop("__warningregistry__", None)
            for _ in range(2):
                exceptions.warn("said in a cell")
    assert len(caught) == 2


def test_a_warning_of_the_package_itself_still_comes():
    with pytest.warns(exceptions.SkopWarning, match="said here"):
        exceptions.warn("said here")
