"""Parameters of estimators and of their parts: name, default, allowed values and text stand in one place.

A class that derives from `Parametrised` is a keyword-only dataclass. Each of its fields is a parameter, made by
`param`, from which constructor, checks and documentation follow. A `Part` is such a class by itself: an object that an
estimator takes as a parameter, whose own parameters searches reach by names such as ``mixer__d_state``.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator, clone

from skop._sklearn_compat import AllowedValues, HasMethods, Interval, SequenceOf, StrOptions

__all__ = ["Choice", "HasParts", "Parametrised", "Part", "Whole", "are_equal", "param"]

#: Width of the text of a parameter in a docstring.
_COLUMNS = 112
#: Words for constraints that scikit-learn states as texts.
_KINDS = {
    "boolean": "bool",
    "array-like": "array-like",
    "random_state": "int, RandomState instance",
    "verbose": "int",
}


class Choice(StrOptions):
    """One of several words, in the order in which the documentation lists them.

    Parameters
    ----------
    *words : str
        Allowed values.
    """

    def __init__(self, *words: str) -> None:
        super().__init__(set(words))
        self.words = words


class _OneOfParts(HasMethods):
    """Parts of some classes; a base class stands for the parts that derive from it.

    Parameters
    ----------
    *kinds : type
        Allowed classes.
    """

    def __init__(self, *kinds: type[Part]) -> None:
        # scikit-learn takes constraints of its own classes only.
        super().__init__(["get_params"])
        self.kinds = kinds

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether a value is such a part."""
        return isinstance(val, self.kinds)

    def __str__(self) -> str:
        names = []
        for kind in self.kinds:
            # A class that a user derived is not one of the choices that a message can name.
            own = [each for each in kind.__subclasses__() if each.__module__.startswith("skop.")] or [kind]
            # Public names are those of the package around a private module.
            names += [f"{each.__module__.partition('._')[0]}.{each.__name__}()" for each in own]
        return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def Whole(lowest: int, highest: int | None = None) -> Interval:
    """Return the constraint of a whole number, bounds included.

    Parameters
    ----------
    lowest : int
        Lowest number.
    highest : int or None, default=None
        Highest number; None is no bound.

    Returns
    -------
    Interval
        The constraint.

    Examples
    --------
    >>> from skop.parts import Whole
    >>> 0 in Whole(1), 7 in Whole(1, 7)
    (False, True)
    """
    return Interval(Integral, lowest, highest, closed="left" if highest is None else "both")


def param(
    *allowed: Any,
    default: Any,
    text: str,
    kind: str | None = None,
    part: Callable[[], Any] | None = None,
    acts_with: dict[str, tuple[Any, ...]] | None = None,
) -> Any:
    """Return the field of a parameter.

    Parameters
    ----------
    *allowed : constraint
        Values that are allowed, as scikit-learn states them; None too.
    default : object
        Default value.
    text : str
        Documentation: what the parameter is, its unit and range, and the value of the paper.
    kind : str or None, default=None
        Type in the documentation; None derives it from `allowed`.
    part : callable or None, default=None
        Function without arguments that returns what None stands for, if the parameter takes a `Part`.
    acts_with : dict or None, default=None
        Values of other parameters of the same part with which this one has an effect, by name; None where it always
        has one.

    Returns
    -------
    dataclasses.Field
        The field.
    """
    held = {"allowed": list(allowed), "text": text, "kind": kind, "part": part, "acts_with": acts_with or {}}
    return field(default=default, metadata=held)


# ---------------------------------------------------------------------- documentation
def _documented(cls: type) -> str:
    """Docstring of a class with the section of its parameters, its own first, and the attributes of its base class."""
    own = set(inspect.get_annotations(cls))
    listed = sorted(_fields(cls), key=lambda each: each.name not in own)
    entries = "\n".join(_entry(each) for each in listed)
    before, sections = _sections(inspect.cleandoc(cls.__doc__ or ""))
    above = next((base.__doc__ for base in cls.__mro__[1:] if hasattr(base, "_parameter_constraints")), None)
    inherited = _sections(inspect.cleandoc(above or ""))[1].get("Attributes")
    if inherited:
        sections = {"Attributes": inherited} | sections
        sections["Attributes"] += "" if sections["Attributes"] == inherited else f"\n{inherited}"
    parts = {"Parameters": entries} | sections if entries else sections
    return "\n\n".join([before, *(f"{head}\n{'-' * len(head)}\n{text}" for head, text in parts.items())]) + "\n"


def _sections(text: str) -> tuple[str, dict[str, str]]:
    """Text before the first section of a docstring, and the sections by their headings."""
    lines = text.split("\n")
    heads = [i for i in range(len(lines) - 1) if lines[i] and set(lines[i + 1]) == {"-"}]
    ends = [*heads[1:], len(lines)][: len(heads)]
    found = {lines[head]: "\n".join(lines[head + 2 : end]).strip("\n") for head, end in zip(heads, ends, strict=True)}
    return "\n".join(lines[: heads[0]] if heads else lines).rstrip(), found


def _entry(each: Any) -> str:
    """Entry of a parameter in the section of parameters."""
    kind = each.metadata["kind"] or _kind(each.metadata["allowed"])
    default = f'"{each.default}"' if isinstance(each.default, str) else repr(each.default)
    text = textwrap.fill(each.metadata["text"], _COLUMNS, break_long_words=False, break_on_hyphens=False)
    return f"{each.name} : {kind}, default={default}\n{textwrap.indent(text, '    ')}"


def _kind(allowed: list[Any]) -> str:
    """Words for the types of a parameter, from what is allowed."""
    words = [_word(item, len(allowed) == 1) for item in allowed]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _word(item: Any, is_alone: bool) -> str:
    """Words for one constraint."""
    if isinstance(item, Choice):
        names = ", ".join(f'"{word}"' for word in item.words)
        return names if len(item.words) == 1 and not is_alone else f"{{{names}}}"
    if isinstance(item, AllowedValues):
        return " or ".join(map(repr, item.options))
    if isinstance(item, Interval):
        return "int" if item.type is Integral else "float"
    if isinstance(item, SequenceOf):
        words: dict[type, str] = {Real: "float", Integral: "int", object: "tuple"}
        kind = words.get(item.kind, item.kind.__name__)
        return f"sequence of {kind}" if item.length is None else f"sequence of {item.length} {kind}s"
    if isinstance(item, HasMethods):
        return "estimator"
    if item is callable:
        return "callable"
    if isinstance(item, type):
        return item.__name__
    return "None" if item is None else _KINDS[item]


def _constraints(allowed: list[Any]) -> list[Any]:
    """What is allowed, with the classes of parts as one constraint, the first."""
    kinds = [item for item in allowed if isinstance(item, type) and issubclass(item, Part)]
    return [_OneOfParts(*kinds), *(item for item in allowed if item not in kinds)] if kinds else allowed


def _fields(cls: Any) -> tuple[Any, ...]:
    """Parameters of a class or an object of it."""
    return fields(cls)


# ---------------------------------------------------------------------- classes
@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(param,))
class Parametrised:
    """Base class that makes a subclass a dataclass of parameters, and documents them."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        plain = [each.name for each in _fields(cls) if "allowed" not in each.metadata]
        if plain:
            raise TypeError(
                f"{cls.__name__}.{plain[0]} is a field without documentation and checks; write it as "
                f"skop.parts.param(..., default=..., text=...), or as a ClassVar if it is no parameter."
            )
        cls._parameter_constraints = {each.name: _constraints(each.metadata["allowed"]) for each in _fields(cls)}
        # Under `python -OO` there are no docstrings.
        if cls.__doc__ is not None:
            cls.__doc__ = _documented(cls)


class Part(Parametrised, BaseEstimator):
    """Base class of the parts of estimators, which registers them by name for model files."""

    known: ClassVar[dict[str, type[Part]]] = {}
    #: Parameters that act with certain values of others only, with their defaults and these values.
    _conditional: ClassVar[tuple[tuple[str, Any, dict[str, tuple[Any, ...]]], ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Part.known[cls.__name__] = cls
        cls._conditional = tuple(
            (each.name, each.default, each.metadata["acts_with"]) for each in _fields(cls) if each.metadata["acts_with"]
        )

    def values(self) -> dict[str, Any]:
        """Return the parameters by name, with numbers of NumPy as those of Python, whose products do not overflow."""
        found = dict(vars(self))
        for name, value in vars(self).items():
            if isinstance(value, np.generic):
                found[name] = value.item()
        return found

    def idle(self) -> Iterable[tuple[str, dict[str, tuple[Any, ...]]]]:
        """Yield parameters that were changed and have no effect, with the values of others that they act with."""
        for name, default, acts_with in self._conditional:
            unmet = {
                other: able
                for other, able in acts_with.items()
                if not any(are_equal(getattr(self, other), value) for value in able)
            }
            if unmet and not are_equal(getattr(self, name), default):
                yield name, unmet


class HasParts(Parametrised):
    """Base class of estimators with parts as parameters; None stands for the usual part."""

    @classmethod
    @cache
    def _usual_parts(cls) -> dict[str, Part]:
        """Parts that None stands for, by the names of the parameters. Nobody may change them."""
        return {each.name: each.metadata["part"]() for each in _fields(cls) if each.metadata["part"]}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of the parts, those of parts that are None too.

        Returns
        -------
        dict
            Parameters by name.
        """
        found: dict[str, Any] = super().get_params(deep)  # type: ignore[misc]
        for name, part in self._usual_parts().items() if deep else ():
            if found[name] is None:
                found |= {f"{name}__{inner}": value for inner, value in part.get_params(deep=False).items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including those of parts.

        Parameters
        ----------
        **params
            Parameters by name. ``training__ema_decay`` belongs to the part ``training``, which is created if it is
            None.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        ValueError
            If there is no such parameter, or it belongs to an estimator where none is.
        """
        for key in params:
            outer, _, inner = key.partition("__")
            if not inner or outer in self._usual_parts() or not hasattr(type(self), outer):
                continue
            held = params.get(outer, getattr(self, outer))
            if not hasattr(held, "set_params"):
                raise ValueError(
                    f"{key} is a parameter of an estimator, but {outer} is {held!r}; pass an estimator as {outer} "
                    "first."
                )
        for name, usual in self._usual_parts().items():
            nested = {key for key in params if key.startswith(f"{name}__")}
            if not nested:
                continue
            given = params.get(name, getattr(self, name))
            listed = {f"{name}__{own}": value for own, value in usual.get_params(deep=False).items()}
            are_listed = all(key in listed and are_equal(params[key], listed[key]) for key in nested)
            if name in params and given is None and are_listed:
                # What `get_params` lists of a part that is None: it stays None.
                params = {key: value for key, value in params.items() if key not in nested}
            else:
                params = {**params, name: clone(usual) if given is None else self._as_part(name, given)}
        found: Self = super().set_params(**params)  # type: ignore[misc]
        return found

    def _options(self, name: str) -> Any:
        """Return the part that is a parameter; the usual one, which nobody may change, if the parameter is None."""
        given = getattr(self, name)
        return self._usual_parts()[name] if given is None else self._as_part(name, given)

    @classmethod
    def _as_part(cls, name: str, given: Any) -> Any:
        """Return the value of a parameter as a part; a sequence is the first parameter of its only kind."""
        allowed = cls._parameter_constraints[name]
        parts: _OneOfParts = next(each for each in allowed if isinstance(each, _OneOfParts))
        if parts.is_satisfied_by(given):
            return given
        if any(isinstance(other, SequenceOf) for other in allowed):
            kind = parts.kinds[0]
            return kind(**{_fields(kind)[0].name: given})
        raise ValueError(f"{name} is {given!r}; expected {parts}, or None for the default.")

    @classmethod
    def _with_own_parts(cls, parameters: dict[str, Any]) -> Self:
        """An estimator with copies of the parts among the parameters."""
        return cls(**{name: clone(value) if isinstance(value, Part) else value for name, value in parameters.items()})

    def _check_parts(self) -> None:
        """Raise an error if a parameter of a part is invalid."""
        for name in self._usual_parts():
            if getattr(self, name) is not None:
                self._options(name)._validate_params()

    def _flat_parameters(self) -> dict[str, Any]:
        """Parameters by name, with the class and the parameters of each part in its place."""
        found = {}
        for name, value in self.get_params(deep=False).items():
            if name not in self._usual_parts():
                found[name] = value
                continue
            part = self._options(name)
            found[name] = type(part).__name__
            for inner, held in part.values().items():
                found[f"{name}__{inner}"] = held
        return found

    def _changed(self, names: Iterable[str]) -> dict[str, Any]:
        """Return those of the named parameters, such as ``"host__kernel_size"``, that differ from the defaults."""
        changed = {}
        for name in names:
            outer, _, inner = name.partition("__")
            holder = self._options(outer) if inner else self
            value, default = getattr(holder, inner or outer), getattr(type(holder), inner or outer)
            if default is None and value is not None:
                default = self._usual_parts().get(name)
            if not are_equal(value, default):
                changed[name] = value
        return changed


def are_equal(value: Any, other: Any) -> bool:
    """Whether two values of a parameter are the same."""
    if isinstance(value, BaseEstimator) and type(value) is type(other):
        mine, theirs = (part.get_params(deep=False) for part in (value, other))
        return all(are_equal(held, theirs[name]) for name, held in mine.items())
    return value is other or bool(np.array_equal(value, other))
