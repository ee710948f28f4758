"""Optional packages: found, absent, or broken inside."""

import sys

import pytest

from skop._optional import import_optional
from skop.exceptions import OptionalDependencyError


def test_an_installed_module_comes_back():
    assert import_optional("json.decoder", purpose="read").__name__ == "json.decoder"


def test_an_absent_package_is_named():
    with pytest.raises(
        OptionalDependencyError, match=r"nowhere_to_be_found.*draw pictures.*pip install nowhere_to_be_found$"
    ) as caught:
        import_optional("nowhere_to_be_found.inner", purpose="draw pictures")
    assert isinstance(caught.value, ImportError)


@pytest.mark.parametrize(("module", "package"), [("skfem", "scikit-fem"), ("neuralop.models", "neuraloperator")])
def test_a_package_that_is_not_called_like_its_module_is_named(module, package, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(OptionalDependencyError, match=f"pip install {package}$"):
        import_optional(module, purpose="draw")


def test_an_error_inside_a_package_is_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import nowhere_to_be_found")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_package", raising=False)
    with pytest.raises(ModuleNotFoundError) as caught:
        import_optional("broken_package", purpose="draw")
    assert not isinstance(caught.value, OptionalDependencyError)
    assert caught.value.name == "nowhere_to_be_found"
