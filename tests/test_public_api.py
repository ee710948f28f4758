"""Every public name exists, is documented, and its docstring agrees with its signature."""

import dataclasses
import importlib
import inspect
import pkgutil

import pytest
from numpydoc.docscrape import FunctionDoc, NumpyDocString
from sklearn.base import BaseEstimator

import skop

PACKAGES = sorted(
    {"skop"}
    | {f"skop.{module.name}" for module in pkgutil.iter_modules(skop.__path__) if not module.name.startswith("_")}
)


def public_names():
    """Pairs of a public package and a name that it lists."""
    for package in PACKAGES:
        for name in getattr(importlib.import_module(package), "__all__", []):
            yield importlib.import_module(package), name


def public_callables():
    """Every public function, class and public method, with its qualified name."""
    seen = set()
    for package, name in public_names():
        item = getattr(package, name)
        if not callable(item) or id(item) in seen or not getattr(item, "__module__", "").startswith("skop"):
            continue
        seen.add(id(item))
        if not inspect.isfunction(item) and not inspect.isclass(item):
            continue
        yield f"{package.__name__}.{name}", item
        if inspect.isclass(item):
            for attribute, member in vars(item).items():
                member = getattr(member, "__func__", member)
                if not attribute.startswith("_") and inspect.isfunction(member):
                    yield f"{package.__name__}.{name}.{attribute}", member


@pytest.fixture(scope="module")
def callables():
    found = dict(public_callables())
    assert len(found) > 100
    return found


def is_constructor_of_parameters(item):
    """Whether an item is an estimator or a part, whose fields are searched by name."""
    return inspect.isclass(item) and issubclass(item, BaseEstimator)


def documented(item):
    """Names in the Parameters section of a docstring, each with what is said of its type and default."""
    text = inspect.getdoc(item) or ""
    parsed = NumpyDocString(text) if inspect.isclass(item) else FunctionDoc(item, doc=text)
    # The fields of a plain dataclass are its parameters and its attributes at once; either section will do.
    both = dataclasses.is_dataclass(item) and not is_constructor_of_parameters(item)
    sections = ["Parameters", "Attributes"] if both else ["Parameters"]
    rows = [(part.strip().lstrip("*"), row.type) for name in sections for row in parsed[name]
            for part in row.name.split(",")]  # fmt: skip
    assert len(dict(rows)) == len(rows), f"{item} documents a parameter twice"
    return dict(rows)


def accepted(item):
    """Parameters of the signature by name."""
    return {key: value for key, value in inspect.signature(item).parameters.items() if key not in ("self", "cls")}


def test_listed_names_exist():
    assert not [f"{package.__name__}.{name}" for package, name in public_names() if not hasattr(package, name)]


def test_public_names_are_documented(callables):
    assert not [name for name, item in callables.items() if not inspect.getdoc(item)]


def disagreement(name, item):
    """What the Parameters section and the signature say differently, or None."""
    found, taken = documented(item), accepted(item)
    if not found:
        # Short methods may say all in one sentence; constructors and functions with options may not.
        is_method = name.count(".") > 2 or not taken
        return None if is_method or len(taken) <= 1 else f"{name} documents none of {list(taken)}"
    if is_constructor_of_parameters(item):
        # Fields that a base class has come first in the signature, and last in the docstring.
        return f"{name}: {set(taken) ^ set(found)}" if set(taken) != set(found) else None
    if [part for part in found if part in taken] != list(found):
        return f"{name} documents {list(found)}"
    refers = "..." in found or any("See" in part for part in found)
    return f"{name}: {set(taken) ^ set(found)}" if not refers and set(taken) != set(found) else None


def test_documented_parameters_match_the_signature(callables):
    items = {
        name: item
        for name, item in callables.items()
        if not (inspect.isclass(item) and issubclass(item, BaseException))
    }
    found = [disagreement(name, item) for name, item in items.items()]
    assert not [words for words in found if words]


def wrong_defaults(item):
    """Parameters whose documented default is not that of the signature."""
    types = documented(item)
    for key, parameter in accepted(item).items():
        if parameter.default is not inspect.Parameter.empty:
            stated = f"default={parameter.default!r}".replace("'", '"')
            if stated not in types.get(key, "").replace("'", '"'):
                yield f"{item.__name__}.{key}: {stated}, documented as {types.get(key)!r}"


def test_estimators_and_parts_state_the_true_defaults(callables):
    items = [item for item in callables.values() if is_constructor_of_parameters(item)]
    parts = {"TrainingOptions", "ScalingOptions", "SymmetryOptions", "Patches", "GridSSD", "OFormer"}
    assert parts <= {item.__name__ for item in items}
    assert not [words for item in items for words in wrong_defaults(item)]


def test_parameters_that_are_read_can_be_set_again(callables):
    """Also those that are listed of a part that is None, which then stays None."""
    kinds = [item for item in callables.values() if is_constructor_of_parameters(item)]
    kinds = [item for item in kinds if all(own.default is not own.empty for own in accepted(item).values())]
    assert len(kinds) > 25
    for kind in kinds:
        found = kind().get_params()
        after = kind().set_params(**found).get_params()
        assert list(after) == list(found)
        assert not [name for name, value in after.items() if (value is None) != (found[name] is None)], kind
    with pytest.raises(ValueError, match="Invalid parameter 'tolerance'"):
        skop.LaMORegressor().set_params(training=None, training__tolerance=None)


def example(first, second=2, third="x"):
    """Do nothing.

    Parameters
    ----------
    first : int
        Nothing.
    third : str, default="y"
        Nothing.
    """


def test_the_rules_can_fail():
    assert disagreement("skop.example", example) == "skop.example: {'second'}"
    assert [words.partition(":")[0] for words in wrong_defaults(example)] == ["example.second", "example.third"]
