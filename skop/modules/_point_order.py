"""Orders of points along space-filling curves, which turn point clouds and meshes into sequences.

Neighbours on a curve are neighbours in space, and many neighbours in space are close on the curve: a scan along it sees
the surroundings of a point first. The order follows from the coordinates alone, not from how the points are listed.

Notation: B samples, P points of a sample, T points of all samples of a packed batch, d space dimensions, b bits of a
coordinate.
"""

import torch

__all__ = ["POINT_ORDERS", "point_codes", "sort_points"]

#: Names of the orders.
POINT_ORDERS = ("hilbert", "morton", "given")
#: Bits of all coordinates together, which an int64 holds.
_BITS = 62


def sort_points(coords: torch.Tensor, order: str = "hilbert", sizes: tuple[int, ...] | None = None) -> torch.Tensor:
    """Return the order in which a curve visits points.

    Points of one cell of the curve, which is much smaller than the distance of points, are sorted by their coordinates.

    Parameters
    ----------
    coords : Tensor of shape (P, d), (B, P, d), or (T, d) with `sizes`
        Coordinates, d from 1 to 3.
    order : {"hilbert", "morton", "given"}, default="hilbert"
        Curve; ``"given"`` keeps the order of the caller. Hilbert's curve steps between neighbouring cells; Morton's,
        which takes the bits of the coordinates in turn, jumps.
    sizes : tuple of int or None, default=None
        Points of each sample of a packed batch, at least 1; the samples stay one after the other.

    Returns
    -------
    Tensor of shape (P,), (B, P) or (T,), int64
        Numbers of the points in the order of the curve.

    Raises
    ------
    ValueError
        If there is no such order, or there are other than 1 to 3 dimensions.

    References
    ----------
    J. Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707, 2004.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import sort_points
    >>> sort_points(torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])).tolist()
    [0, 3, 2, 1]
    """
    if order == "given":
        return torch.arange(coords.shape[-2], device=coords.device).expand(coords.shape[:-1])
    coords = coords.detach()
    places = torch.arange(coords.shape[-2], device=coords.device).expand(coords.shape[:-1])
    # A stable sort for each key, the first key last, is a sort by all of them.
    keys = [*coords.flip(-1).unbind(-1), point_codes(coords, order, sizes)]
    if sizes is not None:
        keys.append(_numbers(sizes, coords.device))
    for key in keys:
        places = places.gather(-1, key.gather(-1, places).argsort(dim=-1, stable=True))
    return places


def point_codes(coords: torch.Tensor, order: str = "hilbert", sizes: tuple[int, ...] | None = None) -> torch.Tensor:
    """Return the place of each point on a space-filling curve through the box of its sample.

    Parameters
    ----------
    coords : Tensor of shape (P, d), (B, P, d), or (T, d) with `sizes`
        Coordinates, d from 1 to 3.
    order : {"hilbert", "morton"}, default="hilbert"
        Curve.
    sizes : tuple of int or None, default=None
        Points of each sample of a packed batch, at least 1.

    Returns
    -------
    Tensor of shape (P,), (B, P) or (T,), int64
        Numbers of the cells that hold the points, counted along the curve.

    Raises
    ------
    ValueError
        If there is no such curve, or there are other than 1 to 3 dimensions.

    Examples
    --------
    >>> import torch
    >>> from skop.modules._point_order import point_codes
    >>> point_codes(torch.tensor([[0.0], [0.5], [1.0]])).diff().sign().tolist()
    [1, 1]
    """
    n_dims = coords.shape[-1]
    if order not in POINT_ORDERS[:-1]:
        raise ValueError(f"point_order is {order!r}; expected one of {POINT_ORDERS}.")
    if n_dims not in (1, 2, 3):
        raise ValueError(f"points of {n_dims} dimensions have no place on a curve; expected 1 to 3.")
    bits = min(_BITS // n_dims, 31)
    cells = _cells(coords, bits, sizes)
    axes = list(cells.unbind(-1))
    if order == "hilbert":
        axes = _hilbert_transpose(axes, bits)
    code = torch.zeros_like(axes[0])
    for bit in range(bits - 1, -1, -1):
        for axis in axes:
            code = (code << 1) | ((axis >> bit) & 1)
    return code


def _cells(coords: torch.Tensor, bits: int, sizes: tuple[int, ...] | None) -> torch.Tensor:
    """Whole coordinates of 0 to 2^b - 1 in the smallest cube around the points of each sample."""
    if sizes is None:
        low, high = coords.amin(dim=-2, keepdim=True), coords.amax(dim=-2, keepdim=True)
    else:
        numbers, parts = _numbers(sizes, coords.device), coords.split(sizes)
        low, high = torch.stack([own.amin(dim=0) for own in parts]), torch.stack([own.amax(dim=0) for own in parts])
        low, high = low[numbers], high[numbers]
    extent = (high - low).amax(dim=-1, keepdim=True)
    unit = ((coords - low) / torch.where(extent > 0, extent, 1.0)).double()
    return (unit * 2**bits).long().clamp_(max=2**bits - 1)


def _numbers(sizes: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Number of the sample that each point of a packed batch belongs to, (T,)."""
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)).to(device)


def _hilbert_transpose(axes: list[torch.Tensor], bits: int) -> list[torch.Tensor]:
    """Turn whole coordinates into the bits of their place on Hilbert's curve, spread over as many numbers."""
    axes, first = list(axes), 0
    for bit in range(bits - 1, 0, -1):
        mask = (1 << bit) - 1
        for number in range(len(axes)):
            is_set = ((axes[number] >> bit) & 1).bool()
            # Where the bit is set the lower bits of the first axis are inverted, elsewhere exchanged.
            swapped = torch.where(is_set, 0, (axes[first] ^ axes[number]) & mask)
            axes[first] = axes[first] ^ torch.where(is_set, mask, swapped)
            if number != first:
                axes[number] = axes[number] ^ swapped
    for number in range(1, len(axes)):
        axes[number] = axes[number] ^ axes[number - 1]
    turn = torch.zeros_like(axes[0])
    for bit in range(bits - 1, 0, -1):
        turn = turn ^ torch.where(((axes[-1] >> bit) & 1).bool(), (1 << bit) - 1, 0)
    return [axis ^ turn for axis in axes]
