"""The interface of a network: the arguments that an estimator passes to it, and the outputs that it returns.

Notation: B samples of a batch, P points of a sample, T points of all samples of a packed batch, Q query points,
d space dimensions, c input channels, p parameters, q output channels, s scalars.
"""

from math import prod
from typing import NamedTuple

import torch
from torch import nn

from skop._typing import GridShape
from skop.networks._channels import count_samples

__all__ = ["OperatorNetwork", "Outputs"]


class Outputs(NamedTuple):
    """Output of every network: a field, scalars, or both; the part that is not predicted is None.

    Parameters
    ----------
    field : Tensor of shape (B, P, q), or (B, Q, q) at query points, or (T, q) for packed samples, or None
        Predicted field.
    scalars : Tensor of shape (B, s) or None
        Predicted scalars of the samples.
    """

    field: torch.Tensor | None = None
    scalars: torch.Tensor | None = None


class OperatorNetwork(nn.Module):
    """Base class of the networks; `skop.networks.PatchNetwork` and `skop.networks.PointNetwork` implement it.

    The constructor takes keyword arguments. `n_dims`, `n_fields`, `n_params`, `n_outputs` and `n_scalars` state the
    numbers of dimensions, channels, global parameters and scalars of the data (0 where there are none), and
    `grid_shape` the training grid if the network needs one. Sizes such as the width have no default values here, only
    in the estimators. All inputs and outputs are scaled.

    Attributes
    ----------
    needs_grid : bool
        Whether `grid_shape` is required, with the points in C order on that grid. Otherwise it is ignored.
    supports_packed : bool
        Whether samples may differ in their number of points, given as `sizes`.
    supports_queries : bool
        Whether outputs can be computed at other points than those of the input.
    supports_params : bool
        Whether the network accepts global parameters.
    """

    needs_grid: bool = False
    supports_packed: bool = False
    supports_queries: bool = False
    supports_params: bool = True

    def __init__(self) -> None:
        super().__init__()

    def forward(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        grid_shape: GridShape | None = None,
        sizes: tuple[int, ...] | None = None,
        query_coords: torch.Tensor | None = None,
        query_fields: torch.Tensor | None = None,
    ) -> Outputs:
        """Map samples to fields, scalars, or both.

        Parameters
        ----------
        coords : Tensor of shape (P, d) shared by all samples, or (B, P, d), or (T, d) with `sizes`
            Coordinates of the points.
        fields : Tensor of shape (B, P, c), or (T, c) with `sizes`, or None
            Input fields; None if and only if the network was built with ``n_fields=0``.
        params : Tensor of shape (B, p) or None
            Global parameters; None if and only if the network was built with ``n_params=0``.
        grid_shape : tuple of int or None, default=None
            Number of points along each axis, if the points form a grid in C order; the product is P.
        sizes : tuple of int or None, default=None
            Number of points of each sample of a packed batch, in which one sample follows the other.
        query_coords : Tensor of shape (Q, d) or (B, Q, d), or None, default=None
            Coordinates of the points where outputs are wanted; None gives outputs at the points of the input.
        query_fields : Tensor of shape (B, Q, c) or None, default=None
            Input fields at the query points; required if `fields` are given.

        Returns
        -------
        Outputs
            Predicted field and scalars; None for ``n_outputs=0`` and ``n_scalars=0``.

        Raises
        ------
        ValueError
            If the arguments are inconsistent, or the network does not support them.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define forward.")

    def check_arguments(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        grid_shape: GridShape | None,
        sizes: tuple[int, ...] | None,
        query_coords: torch.Tensor | None,
        query_fields: torch.Tensor | None,
    ) -> None:
        """Raise ValueError if the arguments of `forward` are inconsistent or not supported."""
        name, count = type(self).__name__, coords.shape[-2]
        if sizes is not None and not isinstance(sizes, tuple):
            raise ValueError(f"sizes is a {type(sizes).__name__}; expected a tuple of the points of each sample.")
        if sizes is not None and not self.supports_packed:
            raise ValueError(f"{name} got packed samples, which it does not support; give samples of one size.")
        if query_coords is not None and not self.supports_queries:
            raise ValueError(f"{name} got query points, which it does not support; ask for the points of the input.")
        if params is not None and not self.supports_params:
            raise ValueError(f"{name} got global parameters, which it does not support; leave them out.")
        if self.needs_grid and (grid_shape is None or prod(grid_shape) != count):
            raise ValueError(f"{name} needs the grid of its points, but grid_shape is {grid_shape} for {count} points.")
        if sizes is not None and (query_coords is not None or sum(sizes) != count or min(sizes, default=0) < 1):
            raise ValueError(
                f"sizes of {len(sizes)} samples add up to {sum(sizes)} points of {count}; expected at least one "
                "point for each sample, all of them, and no query points."
            )
        if query_coords is not None and (fields is None) != (query_fields is None):
            raise ValueError("fields and query_fields belong together, but only one was given; pass both or neither.")
        # What has other axes would be read as other samples, or broadcast, without a word.
        batch = fields.unsqueeze(0) if fields is not None and fields.ndim == 2 else fields
        samples = count_samples(coords, batch, params) if sizes is None else len(sizes)
        own = (samples, count) if sizes is None else (count,)
        asked = None if query_coords is None else (samples, query_coords.shape[-2])
        for label, value, axes in (
            ("coords", coords, own),
            ("fields", fields, own),
            ("params", params, (samples,)),
            ("query_coords", query_coords, asked),
            ("query_fields", query_fields, asked),
        ):
            is_place = label.endswith("coords") and sizes is None
            if value is None or axes is None or (is_place and value.ndim == 2):  # shared by all samples
                continue
            # Exports compare sizes by their symbols, and tuples of other lengths would fix these.
            fits = value.ndim == len(axes) + 1 and value.shape[:-1] == axes
            if not fits and not (is_place and value.ndim == 3 and value.shape[:-1] == (1, *axes[1:])):
                raise ValueError(
                    f"{name} got {label} of shape {tuple(value.shape)}; expected {(*axes, value.shape[-1])}: it reads "
                    f"samples={samples}, points={count}."
                )
