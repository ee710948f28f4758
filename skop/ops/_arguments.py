"""What the scans do with their arguments before they run: checks, precision, masked tokens, groups as paths.

The arguments of a scan are one NamedTuple (`skop.ops._selective.Arguments`, `skop.ops.ssd_scan._operation.Arguments`),
whose fields have the names of the public functions. Errors name what came and what was expected.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from functools import reduce as fold
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.amp.autocast_mode import is_autocast_available

__all__ = ["NARROW", "autocast_off", "by_group", "cast", "check", "expect_shape", "fill_masked", "in_working_precision"]

#: What kernels also read and write in bfloat16.
NARROW = ("x", "B", "C")
#: Axis of the channels or heads in what has one, where the tokens have one axis.
_GROUPED = {"x": 2, "dt": 2, "A": 0, "D": 0, "dt_bias": 0, "R": 0, "initial_state": 1}

Given = TypeVar("Given", bound=NamedTuple)


def check(given: NamedTuple, mask: Tensor | None, axes: Mapping[str, str]) -> None:
    """Raise ValueError where shapes, dtypes or devices of arguments, or of the mask, do not fit together.

    `axes` names the axes of each argument, separated by commas, alternatives by bars. The size of an axis is that of
    the first argument that has it, and "n or 1" is that of "n" or 1; the channels or heads are a multiple of the
    groups.
    """
    values = dict(zip(given._fields, given, strict=True)) | {"mask": mask}
    tensors: dict[str, Tensor] = {name: values[name] for name in axes if values[name] is not None}
    sizes: dict[str, int] = {}
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} is {type(value).__name__}; expected a tensor: torch.as_tensor({name}).")
        _expect_axes(name, value, _split(axes[name]), sizes)
        if sizes.get("groups", 1) > 1:
            _expect_groups(sizes)
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"mask has dtype {mask.dtype}; expected torch.bool, True at real tokens.")
    for name, value in tensors.items():
        if name != "mask" and not value.is_floating_point():
            raise ValueError(f"{name} has dtype {value.dtype}; expected a real floating-point dtype.")
    device = tensors["x"].device
    for name, value in tensors.items():
        if value.device != device:
            raise ValueError(f"{name} is on {value.device}; expected {device}, where x is.")


@cache
def _split(axes: str) -> dict[int, tuple[str, ...]]:
    """Names of the axes of each alternative, by their number."""
    return {len(names): names for names in (tuple(alternative.split(", ")) for alternative in axes.split(" | "))}


def _expect_axes(name: str, value: Tensor, alternatives: dict[int, tuple[str, ...]], sizes: dict[str, int]) -> None:
    """Raise ValueError unless a tensor has named axes of known sizes; note the sizes that were not known."""
    names = alternatives.get(value.ndim, ())
    known, wrong = dict(sizes), not names
    for axis, size in zip(names, value.shape, strict=False):
        if sizes.setdefault(axis, size) != size or size == 0:
            wrong = True
        elif axis.endswith(" or 1") and size not in (1, sizes[axis.removesuffix(" or 1")]):
            wrong = True
            known[axis] = sizes[axis.removesuffix(" or 1")]
    if wrong:
        expected = tuple(known.get(axis, sizes.get(axis, 0)) for axis in names or next(iter(alternatives.values())))
        words = " or ".join(f"({', '.join(each)}{',' if len(each) == 1 else ''})" for each in alternatives.values())
        words += f" = {expected}" if 0 not in expected and len(alternatives) == 1 else ", none of them 0"
        raise ValueError(f"{name} has shape {tuple(value.shape)}; expected {words}.")


def _expect_groups(sizes: dict[str, int]) -> None:
    """Raise ValueError unless the channels or heads are a multiple of the groups."""
    axis, groups = "heads" if "heads" in sizes else "channels", sizes["groups"]
    if sizes[axis] % groups:
        raise ValueError(f"x has {sizes[axis]} {axis} and B has {groups} groups; expected a multiple of the groups.")


def expect_shape(name: str, value: Tensor, axes: str, expected: tuple[int, ...]) -> None:
    """Raise ValueError unless a tensor has the expected shape, which is called `axes`."""
    if value.shape != expected:
        raise ValueError(f"{name} has shape {tuple(value.shape)}; expected {axes} = {expected}.")


def cast(given: Given, dtype: torch.dtype, narrow: torch.dtype | None = None) -> Given:
    """Bring x, B and C to one precision, and everything else to another, by default the same."""
    kinds = dict.fromkeys(NARROW, narrow or dtype)
    changed = {}
    for name, value in zip(given._fields, given, strict=True):
        kind = kinds.get(name, dtype)
        if isinstance(value, Tensor) and value.is_floating_point() and value.dtype != kind:
            changed[name] = value.to(kind)
    return given._replace(**changed) if changed else given


def in_working_precision(given: Given) -> Given:
    """Bring the arguments to the widest of their precisions and float32; x, B and C stay in bfloat16 if all are."""
    kinds = {name: value.dtype for name, value in zip(given._fields, given, strict=True) if isinstance(value, Tensor)}
    floating = {kind for kind in kinds.values() if kind.is_floating_point}
    dtype = fold(torch.promote_types, floating, torch.float32)
    narrow = dtype == torch.float32 and {kinds[name] for name in NARROW} == {torch.bfloat16}
    return cast(given, dtype, torch.bfloat16 if narrow else None)


def fill_masked(given: Given, mask: Tensor | None, step: float = 0.0) -> Given:
    """Make the tokens where a mask is False neutral: x, B and C are 0 there, and dt is `step`."""
    if mask is None:
        return given
    values, gaps = given._asdict(), {**dict.fromkeys(NARROW, 0.0), "dt": step}

    def filled(value: Tensor, gap: float) -> Tensor:
        return value.masked_fill(~mask.view(*mask.shape, *(1,) * (value.ndim - mask.ndim)), gap)

    return given._replace(**{name: filled(values[name], gap) for name, gap in gaps.items()})


def by_group(given: Given) -> Given:
    """Give the channels or heads of each group an axis, so that a group is a path with an x of its own."""
    values = {name: value for name, value in zip(given._fields, given, strict=True) if value is not None}
    groups = values["B"].shape[2]
    parts = {name: (value, _GROUPED[name]) for name, value in values.items() if name in _GROUPED}
    if groups == 1:
        return given._replace(**{name: value.unsqueeze(axis) for name, (value, axis) in parts.items()})
    return given._replace(**{name: value.unflatten(axis, (groups, -1)) for name, (value, axis) in parts.items()})


def autocast_off(device: torch.device) -> AbstractContextManager[Any]:
    """Switch autocast off where it is on: a recurrence needs the precision of its arguments."""
    is_on = is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if is_on else nullcontext()
