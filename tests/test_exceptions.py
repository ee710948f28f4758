"""Kinds of errors: code that guards scikit-learn's calls guards ours too."""

import pytest

from skop import exceptions


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("FieldDataError", ValueError),
        ("ModelFileError", ValueError),
        ("OptionalDependencyError", ImportError),
        ("TrainingDivergedError", ArithmeticError),
        ("ResolutionWarning", UserWarning),
        ("SkopWarning", UserWarning),
    ],
)
def test_each_is_what_a_caller_would_guard_against(name, base):
    assert issubclass(getattr(exceptions, name), base)


def test_every_error_is_a_skop_error_and_every_warning_a_skop_warning():
    for name in exceptions.__all__:
        kind = getattr(exceptions, name)
        assert issubclass(kind, exceptions.SkopWarning if name.endswith("Warning") else exceptions.SkopError)
