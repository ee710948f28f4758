"""FNO, the Fourier neural operator of the library neuraloperator, under the interface of our networks.

Z. Li, N. Kovachki, K. Azizzadenesheli, B. Liu, K. Bhattacharya, A. Stuart and A. Anandkumar, "Fourier Neural Operator
for Parametric Partial Differential Equations", ICLR 2021. J. Kossaifi et al., "A Library for Learning Neural
Operators", 2024.

Notation: B batch, P points, c input channels.
"""

from typing import Any

import torch
from torch import nn

from skop._optional import import_optional
from skop._typing import GridShape
from skop.networks._channels import join_channels
from skop.networks._interface import OperatorNetwork, Outputs

__all__ = ["FNONetwork"]


class FNONetwork(OperatorNetwork):
    """FNO of the library neuraloperator for grids in 1 to 3 dimensions.

    Coordinates, fields and global parameters, which are constant over the grid, are the input channels. Options that
    are not listed have the default values of the library. Its convolutions are computed in the precision of the inputs,
    and differ from the library's on grids with an odd number of points along an axis other than the last: there the
    library moves all frequencies of such an axis by one. Here a frequency keeps its place and its weights on any grid.

    Parameters
    ----------
    n_dims : int
        Number of space dimensions, 1 to 3.
    n_fields, n_params : int
        Number of input channels and of global parameters.
    n_outputs, n_scalars : int
        Number of output channels, and of scalars, which are means of further output channels over the grid.
    width : int
        Number of channels of the Fourier layers.
    depth : int
        Number of Fourier layers.
    n_modes : int
        Number of frequencies that are kept along each axis, both signs together; grids with fewer points have fewer.
    domain_padding : float, default=0.0
        Share of the size of the grid by which it is extended with zeros, for fields that are not periodic.
    library_shifts : bool, default=False
        Whether frequencies of axes of odd size are moved as in the library, for weights that were trained with it.

    Raises
    ------
    OptionalDependencyError
        If neuraloperator is not installed.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import FNONetwork
    >>> sizes = {"n_dims": 2, "n_fields": 1, "n_params": 0, "n_outputs": 1, "n_scalars": 0}
    >>> network = FNONetwork(width=8, depth=2, n_modes=4, **sizes)  # doctest: +SKIP
    >>> network(torch.zeros(35, 2), torch.zeros(3, 35, 1), None, grid_shape=(7, 5)).field.shape  # doctest: +SKIP
    torch.Size([3, 35, 1])
    """

    needs_grid = True

    def __init__(
        self,
        *,
        n_dims: int,
        n_fields: int,
        n_params: int,
        n_outputs: int,
        n_scalars: int,
        width: int,
        depth: int,
        n_modes: int,
        domain_padding: float = 0.0,
        library_shifts: bool = False,
    ) -> None:
        super().__init__()
        if n_dims not in (1, 2, 3):
            raise ValueError(f"n_dims={n_dims}; expected grids in 1, 2 or 3 dimensions.")
        models = import_optional("neuralop.models", purpose="build Fourier neural operators")
        self.sizes = n_outputs, n_scalars
        self.fno = models.FNO(
            n_modes=(n_modes,) * n_dims,
            in_channels=n_dims + n_fields + n_params,
            out_channels=n_outputs + n_scalars,
            hidden_channels=width,
            n_layers=depth,
            positional_embedding=None,
            domain_padding=domain_padding or None,
        )
        # Those of the library hold products in single precision, and a cache that can fix the batch of an export.
        convolutions = self.fno.fno_blocks.convs
        for number, convolution in enumerate(convolutions):
            convolutions[number] = _SpectralConvolution(convolution, library_shifts)

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
        """Map samples on a grid to fields, scalars, or both, see `OperatorNetwork.forward`."""
        self.check_arguments(coords, fields, params, grid_shape, sizes, query_coords, query_fields)
        grid = join_channels(coords, fields, params).mT.unflatten(-1, tuple(grid_shape or ()))
        field, scalars = self.fno(grid).flatten(2).mT.split(self.sizes, dim=-1)
        return Outputs(field if self.sizes[0] else None, scalars.mean(dim=1) if self.sizes[1] else None)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the weights alone, without the settings that the library adds."""
        found = super().state_dict(*args, **kwargs)
        found.pop("_metadata", None)
        return found


class _SpectralConvolution(nn.Module):
    """Convolution of the library, with its weights, in the precision of its input, and equal on all sizes of grids."""

    def __init__(self, convolution: Any, library_shifts: bool) -> None:
        super().__init__()
        self.weight = _ComplexWeights(convolution.weight.to_tensor().detach())
        self.bias = convolution.bias
        self.library_shifts = library_shifts

    def transform(self, values: torch.Tensor, output_shape: GridShape | None = None) -> torch.Tensor:
        """Return values beside the convolution, whose grid stays the same."""
        return values

    def forward(self, values: torch.Tensor, output_shape: GridShape | None = None) -> torch.Tensor:
        """Multiply the low frequencies of values (B, width, *grid) by the weights, and add the bias."""
        axes = tuple(range(2, values.ndim))
        spectrum = _moved(torch.fft.fftshift, torch.fft.rfftn(values, dim=axes, norm="forward"))
        weight = self.weight[...]
        rows, frequencies = [slice(None)] * 2, [slice(None)] * 2
        for axis in axes:
            size, modes = spectrum.shape[axis], weight.shape[axis]
            count, is_half = min(size, modes), axis == axes[-1]
            # Frequencies of both signs have 0 at the middle of their axis, and those of the last axis at its start.
            row = (modes - count) // 2 if self.library_shifts else modes // 2 - count // 2
            for places, first in ((rows, row), (frequencies, size // 2 - count // 2)):
                places.append(slice(count) if is_half else slice(first, first + count))
        products = torch.einsum("bi...,io...->bo...", spectrum[tuple(frequencies)], weight[tuple(rows)])
        found = spectrum.new_zeros(values.shape[0], weight.shape[1], *spectrum.shape[2:])
        found[tuple(frequencies)] = products
        # On an axis of odd size fftshift, with which the library goes back, is not its own inverse.
        found = _moved(torch.fft.fftshift if self.library_shifts else torch.fft.ifftshift, found)
        return torch.fft.irfftn(found, s=values.shape[2:], dim=axes, norm="forward") + self.bias


def _moved(shift: Any, spectrum: torch.Tensor) -> torch.Tensor:
    """Apply a shift by half an axis to all axes of a spectrum (B, width, *grid) but the last."""
    axes = tuple(range(2, spectrum.ndim - 1))
    return shift(spectrum, dim=axes) if axes else spectrum


class _ComplexWeights(nn.Module):
    """Complex weights, stored as real and imaginary parts, so that they can be converted, saved and averaged."""

    def __init__(self, weights: torch.Tensor) -> None:
        super().__init__()
        self.parts = nn.Parameter(torch.view_as_real(weights).clone())

    def __getitem__(self, place: Any) -> torch.Tensor:
        return torch.view_as_complex(self.parts)[place]
