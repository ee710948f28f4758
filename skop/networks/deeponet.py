"""DeepONet: a field as the product of coefficients of the sample and functions of the coordinates.

L. Lu, P. Jin, G. Pang, Z. Zhang and G. E. Karniadakis, "Learning nonlinear operators via DeepONet based on the
universal approximation theorem of operators", Nature Machine Intelligence 3, 2021: the unstacked form with a bias. A
branch network maps the input function at fixed sensors to coefficients, a trunk network maps coordinates to as many
basis functions, and the output is the sum of their products.

Notation: B samples, P points, T points of all samples of a packed batch, q output channels, p basis functions.
"""

from itertools import pairwise

import torch
from torch import nn

from skop._typing import GridShape
from skop.networks._channels import add_waves, repeat_on_points
from skop.networks._interface import OperatorNetwork, Outputs

__all__ = ["DeepONetNetwork"]


class DeepONetNetwork(OperatorNetwork):
    """DeepONet with one set of basis functions for each output channel, which can be asked at any point.

    Parameters
    ----------
    n_dims, n_fields, n_params, n_outputs, n_scalars : int
        Numbers of space dimensions, input channels, global parameters, output channels and scalars. Scalars are further
        outputs of the branch network.
    n_sensors : int
        Number of points at which the input fields are given, the same ones in every call; without effect where
        ``n_fields=0``.
    width : int
        Number of units of a hidden layer.
    branch_depth, trunk_depth : int
        Number of hidden layers of the two networks.
    n_basis : int
        Number of basis functions of an output channel.
    n_frequencies : int, default=0
        Number of frequencies pi, 2 pi, 4 pi, ... whose sines and cosines of the coordinates are further inputs of the
        trunk network.

    Raises
    ------
    ValueError
        If there are neither fields nor global parameters for the branch network.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import DeepONetNetwork
    >>> network = DeepONetNetwork(
    ...     n_dims=1, n_fields=1, n_params=0, n_outputs=2, n_scalars=0, n_sensors=20, width=16, branch_depth=2,
    ...     trunk_depth=2, n_basis=8,
    ... )
    >>> sensors, functions = torch.rand(20, 1), torch.rand(3, 20, 1)
    >>> elsewhere = {"query_coords": torch.rand(50, 1), "query_fields": torch.rand(3, 50, 1)}
    >>> network(sensors, functions, None, **elsewhere).field.shape
    torch.Size([3, 50, 2])
    """

    supports_queries = True

    def __init__(
        self,
        *,
        n_dims: int,
        n_fields: int,
        n_params: int,
        n_outputs: int,
        n_scalars: int,
        n_sensors: int,
        width: int,
        branch_depth: int,
        trunk_depth: int,
        n_basis: int,
        n_frequencies: int = 0,
    ) -> None:
        super().__init__()
        if not n_fields and not n_params:
            raise ValueError("n_fields=0 and n_params=0 leave the branch network without input; give one of them.")
        self.n_sensors, self.n_frequencies = n_sensors if n_fields else 0, n_frequencies
        self.n_outputs, self.n_scalars, self.n_basis = n_outputs, n_scalars, n_basis
        self.supports_packed = not n_fields
        coefficients = n_outputs * n_basis
        self.branch = _layers([self.n_sensors * n_fields + n_params, *[width] * branch_depth, coefficients + n_scalars])
        self.trunk = self.bias = None
        if n_outputs:
            positions = n_dims * (1 + 2 * n_frequencies)
            self.trunk = nn.Sequential(_layers([positions, *[width] * trunk_depth, coefficients]), nn.GELU())
            self.bias = nn.Parameter(torch.zeros(n_outputs))

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
        """Map functions at the sensors to fields, scalars, or both, see `OperatorNetwork.forward`."""
        self.check_arguments(coords, fields, params, grid_shape, sizes, query_coords, query_fields)
        if fields is not None and fields.shape[-2] != self.n_sensors:
            raise ValueError(
                f"DeepONetNetwork got input fields at {fields.shape[-2]} points, but was built for {self.n_sensors} "
                "sensors; interpolate the fields to these."
            )
        read = [part for part in (None if fields is None else fields.flatten(1), params) if part is not None]
        found = self.branch(torch.cat(read, dim=-1))
        coefficients, scalars = found.split([self.n_outputs * self.n_basis, self.n_scalars], dim=-1)
        return Outputs(
            self._field(coefficients, coords if query_coords is None else query_coords, sizes),
            scalars if self.n_scalars else None,
        )

    def _field(
        self, coefficients: torch.Tensor, places: torch.Tensor, sizes: tuple[int, ...] | None
    ) -> torch.Tensor | None:
        """Sums of basis functions at the places with the coefficients (B, q p) of the samples."""
        if self.trunk is None or self.bias is None:
            return None
        shape = (self.n_outputs, self.n_basis)
        basis = self.trunk(add_waves(places, self.n_frequencies))
        if sizes is not None:
            products = basis * repeat_on_points(coefficients, places.shape[-2], sizes)
            return products.unflatten(-1, shape).sum(dim=-1) + self.bias
        weights = coefficients.unflatten(-1, shape).transpose(0, 1)  # (q, B, p)
        # Shared places have one set of functions for all samples, (q, P, p); others have their own, (q, B, P, p).
        functions = basis.unflatten(-1, shape).movedim(-2, 0)
        if places.ndim == 2:
            return (weights @ functions.mT).movedim(0, -1) + self.bias
        return (functions @ weights.unsqueeze(-1)).squeeze(-1).movedim(0, -1) + self.bias


def _layers(sizes: list[int]) -> nn.Sequential:
    """Linear layers of these sizes with activations between them."""
    parts: list[nn.Module] = []
    for inner, outer in pairwise(sizes):
        parts += [nn.Linear(inner, outer), nn.GELU()]
    return nn.Sequential(*parts[:-1])
