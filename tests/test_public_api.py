"""Every public name exists, is documented, and its docstring agrees with its signature."""

import dataclasses
import importlib
import inspect
import pkgutil

import pytest
from numpydoc.docscrape import FunctionDoc, NumpyDocString

import skop

PACKAGES = sorted(
    {"skop"}
    | {
        f"skop.{module.name}"
        for module in pkgutil.iter_modules(skop.__path__)
        if not module.name.startswith("_") and module.name != "bench"
    }
)


def public_names():
    """Pairs of a public package and a name that it lists."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", []):
            yield package, name


def public_callables():
    """Every public function, class and public method, with its qualified name."""
    seen = set()
    for package, name in public_names():
        item = getattr(importlib.import_module(package), name)
        if not callable(item) or id(item) in seen or not getattr(item, "__module__", "").startswith("skop"):
            continue
        seen.add(id(item))
        if not inspect.isfunction(item) and not inspect.isclass(item):
            continue
        yield f"{package}.{name}", item
        if inspect.isclass(item):
            for attribute, member in vars(item).items():
                member = getattr(member, "__func__", member)
                if not attribute.startswith("_") and inspect.isfunction(member):
                    yield f"{package}.{name}.{attribute}", member


CALLABLES = dict(public_callables())


@pytest.mark.parametrize(("package", "name"), list(public_names()))
def test_listed_names_exist(package, name):
    assert hasattr(importlib.import_module(package), name)


@pytest.mark.parametrize("name", CALLABLES)
def test_public_names_are_documented(name):
    assert inspect.getdoc(CALLABLES[name]), f"{name} has no docstring"


def documented_parameters(item):
    """Names in the Parameters section of a docstring."""
    text = inspect.getdoc(item) or ""
    parsed = NumpyDocString(text) if inspect.isclass(item) else FunctionDoc(item, doc=text)
    # The fields of a dataclass are its parameters and its attributes at once; either section will do.
    sections = ["Parameters", "Attributes"] if dataclasses.is_dataclass(item) else ["Parameters"]
    return [part.strip().lstrip("*") for name in sections for row in parsed[name] for part in row.name.split(",")]


def is_exception(item):
    return inspect.isclass(item) and issubclass(item, BaseException)


@pytest.mark.parametrize("name", [name for name, item in CALLABLES.items() if not is_exception(item)])
def test_documented_parameters_match_the_signature(name):
    item = CALLABLES[name]
    documented = documented_parameters(item)
    accepted = [parameter for parameter in inspect.signature(item).parameters if parameter not in ("self", "cls")]
    if not documented:
        # Short methods may say all in one sentence; constructors and functions with options may not.
        is_method = name.count(".") > 2 or not accepted
        assert is_method or len(accepted) <= 1, f"{name} documents none of {accepted}"
        return
    assert [part for part in documented if part in accepted] == documented, f"{name} documents {documented}"
    if "..." not in documented and not any("See" in part for part in documented):
        assert set(accepted) == set(documented), f"{name}: {set(accepted) ^ set(documented)}"


@pytest.mark.parametrize("name", [name for name, item in CALLABLES.items() if hasattr(item, "get_params")])
def test_estimator_docstrings_state_the_true_defaults(name):
    text = inspect.getdoc(CALLABLES[name])
    rows = {part.strip(): row.type for row in NumpyDocString(text)["Parameters"] for part in row.name.split(",")}
    for parameter in inspect.signature(CALLABLES[name]).parameters.values():
        if parameter.default is inspect.Parameter.empty:
            continue
        assert f"default={parameter.default!r}".replace("'", '"') in rows[parameter.name].replace("'", '"'), parameter
