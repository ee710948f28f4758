"""The contract of a network: what an estimator calls it with, and what it gets back.

Notation: B samples of a batch, P points of a sample, T points of all samples of a packed batch, Q query points,
d space dimensions, c input channels, p parameters, q output channels, s scalars.
"""

from inspect import Parameter, signature
from math import prod
from typing import NamedTuple

import torch
from torch import nn

from skop._typing import GridShape

__all__ = ["OperatorNetwork", "Outputs"]


class Outputs(NamedTuple):
    """What every network returns; what it does not give is None.

    Parameters
    ----------
    field : Tensor of shape (B, P, q), or (B, Q, q) at query points, or (T, q) for packed samples, or None
        Output field.
    scalars : Tensor of shape (B, s) or None
        Scalars of the samples.
    """

    field: torch.Tensor | None = None
    scalars: torch.Tensor | None = None


class OperatorNetwork(nn.Module):
    """Base of the networks; `skop.networks.PatchNetwork` and `skop.networks.PointNetwork` implement it.

    The constructor takes keywords, of which `n_dims`, `n_fields`, `n_params`, `n_outputs` and `n_scalars` say what the
    data hold (0 for what they lack), and `grid_shape` the training grid where the network needs one. It has no default
    values for sizes: these are the estimator's. All inputs are scaled, and outputs are in scaled units too.

    Attributes
    ----------
    needs_grid : bool
        Whether `grid_shape` has to be given, and points lie on that grid in C order. Otherwise it is ignored.
    supports_packed : bool
        Whether samples may differ in their number of points, which `sizes` states.
    supports_queries : bool
        Whether outputs may be asked for at other points than those of the input.
    supports_params, supports_scalars : bool
        Whether the network reads global parameters, and gives scalars of the samples.
    """

    needs_grid: bool = False
    supports_packed: bool = False
    supports_queries: bool = False
    supports_params: bool = True
    supports_scalars: bool = True

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
            Coordinates.
        fields : Tensor of shape (B, P, c), or (T, c) with `sizes`, or None
            Input fields; None exactly where the network was built with ``n_fields=0``.
        params : Tensor of shape (B, p) or None
            Global parameters; None exactly where the network was built with ``n_params=0``.
        grid_shape : tuple of int or None, default=None
            Points along each axis, where the points form a grid in C order; their product is P.
        sizes : tuple of int or None, default=None
            Points of each sample of a packed batch, in which samples follow each other.
        query_coords : Tensor of shape (Q, d) or (B, Q, d), or None, default=None
            Coordinates of the points where outputs are wanted, if not at the points of the input.
        query_fields : Tensor of shape (B, Q, c) or None, default=None
            Input fields there, exactly where `fields` are given.

        Returns
        -------
        Outputs
            The field and the scalars; None for ``n_outputs=0`` and ``n_scalars=0``.

        Raises
        ------
        ValueError
            If the arguments do not fit each other, or the network does not support them.
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
        """Raise ValueError where arguments of `forward` do not fit each other or the network."""
        name, count = type(self).__name__, coords.shape[-2]
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
            raise ValueError("give fields at the query points exactly where the points of the input have them.")

    @classmethod
    def keywords(cls) -> frozenset[str]:
        """Return the names of the keywords that the constructor takes, with those that go on to the skeleton.

        Returns
        -------
        frozenset of str
            Names.

        Examples
        --------
        >>> from skop.networks import GeoMaNONetwork
        >>> {"width", "correction", "dropout"} <= GeoMaNONetwork.keywords()
        True
        """
        classes = [base for base in cls.__mro__ if "__init__" in vars(base) and issubclass(base, OperatorNetwork)]
        parameters = [parameter for base in classes for parameter in signature(base).parameters.values()]
        return frozenset(parameter.name for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY)
