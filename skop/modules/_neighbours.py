"""Values at points, carried to other points from their nearest neighbours.

Notation: B samples, P points that have values, Q points that get them, d space dimensions, k neighbours, E channels.
"""

from typing import NamedTuple

import torch
from scipy.spatial import KDTree

__all__ = ["Neighbours", "find_neighbours"]


class Neighbours(NamedTuple):
    """Neighbours of points and their weights, which add up to one.

    Parameters
    ----------
    places : int64 Tensor of shape (B, Q, k)
        Numbers of the neighbours.
    weights : Tensor of shape (B, Q, k)
        Weights.
    """

    places: torch.Tensor
    weights: torch.Tensor

    def carry(self, values: torch.Tensor) -> torch.Tensor:
        """Return weighted means ``(B, Q, E)`` of the values ``(B, P, E)`` of the neighbours."""
        rows = torch.arange(len(self.places), device=values.device)[:, None, None]
        return (values[rows, self.places] * self.weights.unsqueeze(-1).to(values.dtype)).sum(dim=-2)


def find_neighbours(coords: torch.Tensor, targets: torch.Tensor) -> Neighbours:
    """Find the neighbours of points by whose values a field is interpolated there.

    The weights are the inverse squares of the distances, cut off where the last neighbour lies (the modified method
    of Shepard): they do not depend on the order of the points, vary continuously with the places, and are those of the
    point itself where the places coincide.

    Parameters
    ----------
    coords : Tensor of shape (B, P, d)
        Points that have values.
    targets : Tensor of shape (B, Q, d)
        Points that get values.

    Returns
    -------
    Neighbours
        For each target twice as many neighbours as a cell of a grid has corners, or all points if they are fewer.

    References
    ----------
    R. Franke, G. Nielson, "Smooth interpolation of large sets of scattered data", International Journal for Numerical
    Methods in Engineering 15, 1980.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import find_neighbours
    >>> points = torch.tensor([[[0.0], [1.0], [2.0], [3.0], [4.0]]])
    >>> find_neighbours(points, torch.tensor([[[2.0], [1.5]]])).carry(10.0 * points).flatten().tolist()
    [20.0, 15.0]
    """
    count = min(2 ** (coords.shape[-1] + 1), coords.shape[1])
    found = [_nearest(own, place, count) for own, place in zip(coords, targets, strict=True)]
    places = torch.stack(found).to(coords.device)
    rows = torch.arange(len(coords), device=coords.device)[:, None, None]
    distances = (coords[rows, places] - targets.unsqueeze(2)).norm(dim=-1)
    here = distances <= torch.finfo(distances.dtype).tiny
    meets = here.any(dim=-1, keepdim=True)
    distances = torch.where(meets, 1.0, distances)
    nearest, last = distances[..., :1], distances[..., -1:]
    cut = 1 / last
    # With all points at hand there is nothing to cut off; neighbours that lie equally far all count.
    cut = torch.zeros_like(cut) if count == coords.shape[1] else torch.where(nearest >= last * (1 - 1e-6), 0.0, cut)
    # In units of the smallest distance, so that no weight overflows close to a point.
    weights = ((1 / distances - cut).clamp_min(0) * nearest).square()
    weights = torch.where(meets, here.to(weights.dtype), weights)
    return Neighbours(places, weights / weights.sum(dim=-1, keepdim=True))


def _nearest(coords: torch.Tensor, targets: torch.Tensor, count: int) -> torch.Tensor:
    """Numbers (Q, k) of the points of one sample that lie nearest to each target, the nearest first."""
    points, places = (values.detach().cpu().double().numpy() for values in (coords, targets))
    return torch.from_numpy(KDTree(points).query(places, k=[*range(1, count + 1)])[1])
