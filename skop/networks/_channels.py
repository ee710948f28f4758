"""Channels of the points of every network: coordinates, fields and repeated parameters.

Notation: B batch, P points, T points of all samples of a packed batch, d space
dimensions, c channels, p parameters.
"""

import torch

__all__ = ["count_samples", "join_channels", "repeat_on_points"]


def count_samples(coords: torch.Tensor, fields: torch.Tensor | None, params: torch.Tensor | None) -> int:
    """Return how many samples a batch holds that is not packed.

    Parameters
    ----------
    coords : Tensor of shape (P, d) or (B, P, d)
        Coordinates.
    fields : Tensor of shape (B, P, c) or None
        Fields.
    params : Tensor of shape (B, p) or None
        Parameters.

    Returns
    -------
    int
        B; 1 where only shared coordinates are given.

    Examples
    --------
    >>> import torch
    >>> from skop.networks._channels import count_samples
    >>> count_samples(torch.zeros(5, 2), None, torch.zeros(3, 1))
    3
    """
    own_coords = coords if coords.ndim == 3 else None
    return next((len(part) for part in (fields, params, own_coords) if part is not None), 1)


def join_channels(
    coords: torch.Tensor,
    fields: torch.Tensor | None,
    params: torch.Tensor | None,
    sizes: tuple[int, ...] | None = None,
) -> torch.Tensor:
    """Join coordinates, fields and repeated parameters as the channels of every point.

    Parameters
    ----------
    coords : Tensor of shape (P, d), (B, P, d) or (T, d)
        Coordinates.
    fields : Tensor of shape (B, P, c) or (T, c), or None
        Fields.
    params : Tensor of shape (B, p) or None
        Parameters.
    sizes : tuple of int or None, default=None
        Points of each sample of a packed batch.

    Returns
    -------
    Tensor of shape (B, P, d + c + p) or (T, d + c + p)
        Channels.

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
    """Repeat what samples have, (B, k), on their points: (B, P, k), or (T, k) in a packed batch.

    Parameters
    ----------
    values : Tensor of shape (B, k)
        One row for each sample.
    n_points : int
        Points of each sample, or of a packed batch.
    sizes : tuple of int or None
        Points of each sample of a packed batch.

    Returns
    -------
    Tensor of shape (B, P, k) or (T, k)
        Rows of the points.

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
