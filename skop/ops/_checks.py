"""Checks of arguments that the scans share, and their precision; an error names what came and what was expected."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import reduce as fold
from typing import Any

import torch
from torch import Tensor
from torch.amp.autocast_mode import is_autocast_available


def expect_shape(name: str, value: Tensor, axes: str, expected: tuple[int, ...]) -> None:
    """Raise an error unless a tensor has the expected shape.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : Tensor
        The argument.
    axes : str
        What the shape is called.
    expected : tuple of int
        The shape.

    Raises
    ------
    ValueError
        If the shape is another one.
    """
    if value.shape != expected:
        raise ValueError(f"{name} has shape {tuple(value.shape)}; expected {axes} = {expected}.")


def expect_axes(name: str, value: Tensor, axes: str) -> None:
    """Raise an error unless a tensor has some named axes, none of them empty.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : Tensor
        The argument.
    axes : str
        Names of the axes, separated by commas.

    Raises
    ------
    ValueError
        If the tensor has more or fewer axes, or an empty one.
    """
    if value.ndim != len(axes.split(",")) or 0 in value.shape:
        raise ValueError(f"{name} has shape {tuple(value.shape)}; expected ({axes}), none of them 0.")


def expect_floating(given: Mapping[str, Tensor | None]) -> None:
    """Raise an error unless all tensors are real floating-point numbers.

    Parameters
    ----------
    given : mapping of str to Tensor or None
        Arguments by name.

    Raises
    ------
    ValueError
        If one is not.
    """
    for name, value in given.items():
        if value is not None and not value.is_floating_point():
            raise ValueError(f"{name} has dtype {value.dtype}; expected a real floating-point dtype.")


def expect_mask(mask: Tensor | None, axes: str, expected: tuple[int, ...]) -> None:
    """Raise an error unless a mask, if there is one, has the expected shape and is boolean.

    Parameters
    ----------
    mask : Tensor or None
        The mask.
    axes : str
        What the shape is called.
    expected : tuple of int
        The shape.

    Raises
    ------
    ValueError
        If the shape or the dtype is another one.
    """
    if mask is None:
        return
    expect_shape("mask", mask, axes, expected)
    if mask.dtype != torch.bool:
        raise ValueError(f"mask has dtype {mask.dtype}; expected torch.bool, True at real tokens.")


def expect_one_device(given: Mapping[str, Tensor | None]) -> None:
    """Raise an error unless all tensors are where the first one is.

    Parameters
    ----------
    given : mapping of str to Tensor or None
        Arguments by name; the first is not None.

    Raises
    ------
    ValueError
        If one is elsewhere.
    """
    places = {name: value.device for name, value in given.items() if value is not None}
    first, device = next(iter(places.items()))
    for name, place in places.items():
        if place != device:
            raise ValueError(f"{name} is on {place}; expected {device}, where {first} is.")


def working_dtype(*values: Tensor | None) -> torch.dtype:
    """Choose the precision that some tensors are computed in: float32 at least.

    Parameters
    ----------
    *values : Tensor or None
        The tensors.

    Returns
    -------
    torch.dtype
        The widest of their dtypes and float32.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._checks import working_dtype
    >>> working_dtype(torch.ones(1, dtype=torch.bfloat16), None)
    torch.float32
    """
    return fold(torch.promote_types, (value.dtype for value in values if value is not None), torch.float32)


def narrow_dtype(dtype: torch.dtype, *values: Tensor) -> torch.dtype:
    """Choose the precision that x and the maps of a scan are read in.

    Parameters
    ----------
    dtype : torch.dtype
        Precision of the computation.
    *values : Tensor
        The tensors.

    Returns
    -------
    torch.dtype
        bfloat16 if all of them are and the computation is in float32, else the precision of that.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._checks import narrow_dtype
    >>> narrow_dtype(torch.float32, torch.ones(1, dtype=torch.bfloat16))
    torch.bfloat16
    """
    narrow = dtype == torch.float32 and all(value.dtype == torch.bfloat16 for value in values)
    return torch.bfloat16 if narrow else dtype


def autocast_off(device: torch.device) -> AbstractContextManager[Any]:
    """Switch autocast off on a device: a recurrence needs the precision of its arguments.

    Parameters
    ----------
    device : torch.device
        Where the scan runs.

    Returns
    -------
    context manager
        Inside it, autocast is off; nothing changes on devices without autocast.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._checks import autocast_off
    >>> one = torch.ones(1, 1)
    >>> with torch.autocast("cpu", torch.bfloat16), autocast_off(one.device):
    ...     (one @ one).dtype
    torch.float32
    """
    return torch.autocast(device.type, enabled=False) if is_autocast_available(device.type) else nullcontext()


def fill_masked(values: Tensor, mask: Tensor | None, filling: float = 0.0) -> Tensor:
    """Overwrite what stands where a mask is False.

    Parameters
    ----------
    values : Tensor of shape (*mask.shape, ...)
        Values.
    mask : bool Tensor or None
        True at what is kept; None keeps all.
    filling : float, default 0
        What is written.

    Returns
    -------
    Tensor
        A tensor of the shape of the values.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._checks import fill_masked
    >>> fill_masked(torch.ones(2, 2), torch.tensor([True, False]))
    tensor([[1., 1.],
            [0., 0.]])
    """
    if mask is None:
        return values
    return values.masked_fill(~mask.view(*mask.shape, *(1,) * (values.ndim - mask.ndim)), filling)
