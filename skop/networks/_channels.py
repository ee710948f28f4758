"""Input channels at the points: coordinates, fields, and global parameters repeated at every point.

Notation: B batch, P points, T points of all samples of a packed batch, d space dimensions, c channels, p global
parameters.
"""

import math

import torch

__all__ = ["add_waves", "count_samples", "distances_from_grid", "join_channels", "repeat_on_points"]


def count_samples(coords: torch.Tensor, fields: torch.Tensor | None, params: torch.Tensor | None) -> int:
    """Return the number of samples of a batch that is not packed.

    Parameters
    ----------
    coords : Tensor of shape (P, d) or (B, P, d)
        Coordinates of the points.
    fields : Tensor of shape (B, P, c) or None
        Fields.
    params : Tensor of shape (B, p) or None
        Global parameters of the samples.

    Returns
    -------
    int
        Number of samples B; 1 where only shared coordinates are given.

    Examples
    --------
    >>> import torch
    >>> from skop.networks._channels import count_samples
    >>> count_samples(torch.zeros(5, 2), None, torch.zeros(3, 1))
    3
    """
    own_coords = coords if coords.ndim == 3 else None
    return next((part.shape[0] for part in (fields, params, own_coords) if part is not None), 1)


def add_waves(coords: torch.Tensor, n_frequencies: int) -> torch.Tensor:
    """Append sines and cosines of pi, 2 pi, 4 pi, ... times the coordinates.

    Parameters
    ----------
    coords : Tensor of shape (..., d)
        Coordinates of the points.
    n_frequencies : int
        Number f of frequencies; with 0 there is nothing to append.

    Returns
    -------
    Tensor of shape (..., d (1 + 2 f))
        Coordinates, their sines and their cosines.

    Examples
    --------
    >>> import torch
    >>> from skop.networks._channels import add_waves
    >>> add_waves(torch.tensor([[1 / 6]]), 1)
    tensor([[0.1667, 0.5000, 0.8660]])
    """
    if n_frequencies == 0:
        return coords
    frequencies = math.pi * 2.0 ** torch.arange(n_frequencies, dtype=coords.dtype, device=coords.device)
    angles = (coords.unsqueeze(-1) * frequencies).flatten(-2)
    return torch.cat([coords, angles.sin(), angles.cos()], dim=-1)


def distances_from_grid(coords: torch.Tensor, size: int) -> torch.Tensor:
    """Return the distances of points from those of a regular grid in the unit box.

    Parameters
    ----------
    coords : Tensor of shape (..., d)
        Coordinates of the points.
    size : int
        Number r of points of the grid along each axis, the ends of the box included.

    Returns
    -------
    Tensor of shape (..., r ** d)
        Distances, with the points of the grid in C order.

    Examples
    --------
    >>> import torch
    >>> from skop.networks._channels import distances_from_grid
    >>> distances_from_grid(torch.tensor([[0.0, 1.0]]), 2)
    tensor([[1.0000, 0.0000, 1.4142, 1.0000]])
    """
    line = torch.linspace(0, 1, size, dtype=coords.dtype, device=coords.device)
    grid = torch.cartesian_prod(*[line] * coords.shape[-1]).reshape(-1, coords.shape[-1])
    return torch.linalg.vector_norm(coords.unsqueeze(-2) - grid, dim=-1)


def join_channels(
    coords: torch.Tensor,
    fields: torch.Tensor | None,
    params: torch.Tensor | None,
    sizes: tuple[int, ...] | None = None,
) -> torch.Tensor:
    """Concatenate coordinates, fields and repeated global parameters as the input channels of every point.

    Parameters
    ----------
    coords : Tensor of shape (P, d), (B, P, d) or (T, d)
        Coordinates of the points.
    fields : Tensor of shape (B, P, c) or (T, c), or None
        Input fields.
    params : Tensor of shape (B, p) or None
        Global parameters of the samples.
    sizes : tuple of int or None, default=None
        Number of points of each sample of a packed batch.

    Returns
    -------
    Tensor of shape (B, P, d + c + p) or (T, d + c + p)
        Input channels.

    Examples
    --------
    >>> import torch
    >>> from skop.networks._channels import join_channels
    >>> join_channels(torch.zeros(5, 2), torch.zeros(3, 5, 1), torch.zeros(3, 4)).shape
    torch.Size([3, 5, 7])
    """
    if sizes is None:
        coords = coords.expand(count_samples(coords, fields, params), *coords.shape[-2:])
    parts = [coords] if fields is None else [coords, fields]
    if params is not None:
        parts.append(repeat_on_points(params, coords.shape[-2], sizes))
    return torch.cat(parts, dim=-1)


def repeat_on_points(values: torch.Tensor, n_points: int, sizes: tuple[int, ...] | None) -> torch.Tensor:
    """Repeat values of the samples, (B, k), at each of their points: (B, P, k), or (T, k) in a packed batch.

    Parameters
    ----------
    values : Tensor of shape (B, k)
        One row for each sample.
    n_points : int
        Number of points of each sample, or of the whole packed batch.
    sizes : tuple of int or None
        Number of points of each sample of a packed batch.

    Returns
    -------
    Tensor of shape (B, P, k) or (T, k)
        Values at the points.

    Examples
    --------
    >>> import torch
    >>> from skop.networks._channels import repeat_on_points
    >>> repeat_on_points(torch.tensor([[1.0], [2.0]]), 3, (2, 1)).flatten()
    tensor([1., 1., 2.])
    """
    if sizes is None:
        return values[:, None].expand(-1, n_points, -1)
    counts = torch.tensor(sizes, device=values.device)
    return values.repeat_interleave(counts, dim=0, output_size=n_points)
