"""Latent slices: soft groups of points, each of which is one token of a latent sequence.

Letters of the shapes: B samples, P points, T points of all samples of a packed batch, E width,
d space dimensions, H slice heads, D = E / H channels of a head, G slices. Points come as (B, P, E), or packed as (T, E)
with the number of points of each sample; what belongs to the heads of points is then (B, H, P, ...)
or (H, T, ...).
"""

import math
from collections.abc import Sequence
from itertools import chain

import torch
from torch import nn

from skop._typing import GridShape

__all__ = ["LatentSlices", "SliceBlock"]

_CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_EPSILON = 1e-5
#: Bounds of the temperatures on structured meshes, as in the public code, and elsewhere, where it has none.
_MESH_TEMPERATURES, _TEMPERATURES = (0.1, 5.0), (1e-3, math.inf)

#: Features and coordinates of the same points.
PointGroup = tuple[torch.Tensor, torch.Tensor]
#: Points of each sample of a packed batch; None where all samples have as many.
Sizes = tuple[int, ...] | None


class LatentSlices(nn.Module):
    """Encoder and decoder between points and latent tokens.

    Every head gives each point weights over the slices, a softmax of a linear map of the point's
    features; a token is the mean of the points' values by these weights, and on the way back a point
    takes the mixture of the tokens by them.

    Parameters
    ----------
    width : int
        Size of a point's features and of a token.
    n_latents : int, default=64
        Slices, the tokens of a sample (paper: 64).
    n_heads : int, default=8
        Heads, each with its own weights on ``width / n_heads`` channels (public code: 8).
    n_grid_axes : int or None, default=None
        Axes of a structured mesh, 1 to 3, whose values and queries come from convolutions over
        neighbouring points; None, for points in any order, uses linear layers.
    temperature : float, default=0.5
        What each head divides its logits by at the start; it is learned, and kept positive, on structured
        meshes between 0.1 and 5, as in the public code.
    normalize : bool, default=True
        Divide a token by the sum of its weights, as the public code; otherwise it is the sum of
        Eq. 10, which grows with the number of points.
    decoder : {"encoder_weights", "own_softmax"}, default="encoder_weights"
        Weights of the way back: the encoder's (public code), or those of Eq. 14, a softmax of a linear
        map of the mixed tokens. That map has a row for each point; here the row is the point's query, so
        that it is defined for any points.
    n_local_heads : int, default=0
        Heads whose slices also have centres: their logits fall with the square of the distance, over
        about the spacing of the centres at the start. Weights that follow the features alone are nearly
        the same for all points at first, so that all tokens hold about the same mean and what tells the
        points apart is lost; local slices keep it. The paper has none.
    n_dims : int or None, default=None
        Space dimensions of the centres, which start spread over the unit box.

    Raises
    ------
    ValueError
        If `n_heads` does not divide `width`, or `decoder` has no such name.

    References
    ----------
    Tiwari et al., "Latent Mamba Operator for Partial Differential Equations", ICML 2025, Eq. 9, 10,
    14 to 16. H. Wu et al., "Transolver: A Fast Transformer Solver for PDEs on General Geometries",
    ICML 2024, for the normalised slices.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import LatentSlices
    >>> slices = LatentSlices(16, n_latents=6, n_heads=2)
    >>> points = torch.zeros(3, 50, 16)
    >>> assignment, sums, masses = slices.assign(points)
    >>> tokens = slices.tokens(sums, masses)
    >>> tokens.shape, slices.spread(assignment, tokens).shape
    (torch.Size([3, 6, 16]), torch.Size([3, 50, 16]))
    """

    def __init__(
        self,
        width: int,
        n_latents: int = 64,
        n_heads: int = 8,
        *,
        n_grid_axes: int | None = None,
        temperature: float = 0.5,
        normalize: bool = True,
        decoder: str = "encoder_weights",
        n_local_heads: int = 0,
        n_dims: int | None = None,
    ) -> None:
        super().__init__()
        if width % n_heads:
            raise ValueError(f"n_slice_heads={n_heads} does not divide width={width}.")
        if decoder not in ("encoder_weights", "own_softmax"):
            raise ValueError(f"decoder is {decoder!r}; expected 'encoder_weights' or 'own_softmax'.")
        if not 0 <= n_local_heads <= n_heads:
            raise ValueError(f"n_local_heads={n_local_heads}; expected 0 to n_slice_heads={n_heads}.")
        self.n_heads, self.normalize, self.is_structured = n_heads, normalize, n_grid_axes is not None
        self.values, self.queries = _projection(width, n_grid_axes), _projection(width, n_grid_axes)
        self.scores = nn.Linear(width // n_heads, n_latents)
        nn.init.orthogonal_(self.scores.weight)
        self.temperature = nn.Parameter(torch.full((n_heads,), float(temperature)))
        self.keys = nn.Linear(width // n_heads, width // n_heads) if decoder == "own_softmax" else None
        self.centres = self.log_sharpness = None
        if n_local_heads and n_dims:
            self.centres = nn.Parameter(_spread_centres(n_latents, n_dims))
            self.log_sharpness = nn.Parameter(torch.full((n_local_heads,), math.log(n_latents) / n_dims))

    def assign(
        self,
        points: torch.Tensor,
        sizes: Sizes = None,
        grid_shape: GridShape | None = None,
        coords: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Assign points to slices and sum up each slice.

        Parameters
        ----------
        points : Tensor of shape (B, P, E) or (T, E)
            Features.
        sizes : tuple of int or None, default=None
            Points of each packed sample.
        grid_shape : tuple of int or None, default=None
            Points along each axis of a structured mesh.
        coords : Tensor of shape (P, d), (B, P, d) or (T, d), or None, default=None
            Coordinates, for local heads.

        Returns
        -------
        assignment : Tensor of shape (B, H, P, G) or (H, T, G), or (..., D) with an own softmax
            What `spread` needs to know of the points.
        sums : Tensor of shape (B, H, G, D)
            Weighted sums of the values over the points.
        masses : Tensor of shape (B, H, G)
            Sums of the weights.
        """
        assignment, weights = self._assignment(points, grid_shape, coords)
        values = self._heads(self.values, points, grid_shape)
        if sizes is None:
            return assignment, weights.mT @ values, weights.sum(-2)
        parts = weights.split(sizes, dim=-2)
        sums = [part.mT @ value for part, value in zip(parts, values.split(sizes, dim=-2), strict=True)]
        masses = [part.sum(-2) for part in parts]
        return assignment, torch.stack(sums), torch.stack(masses)

    def tokens(self, sums: torch.Tensor, masses: torch.Tensor) -> torch.Tensor:
        """Return the tokens ``(B, G, E)`` of what `assign` summed up."""
        tokens = sums / (masses.unsqueeze(-1) + _EPSILON) if self.normalize else sums
        return tokens.transpose(1, 2).flatten(2)

    def spread(self, assignment: torch.Tensor, tokens: torch.Tensor, sizes: Sizes = None) -> torch.Tensor:
        """Give every point its mixture of tokens.

        Parameters
        ----------
        assignment : Tensor
            From `assign` or `locate`.
        tokens : Tensor of shape (B, G, E)
            Mixed tokens.
        sizes : tuple of int or None, default=None
            Points of each packed sample.

        Returns
        -------
        Tensor of shape (B, P, E) or (T, E)
            Features.
        """
        heads = tokens.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        if sizes is None:
            spread = self._mix(assignment, heads)
        else:
            samples = zip(assignment.split(sizes, dim=-2), heads, strict=True)
            spread = torch.cat([self._mix(part, sample) for part, sample in samples], dim=-2)
        return spread.transpose(-3, -2).flatten(-2)

    def locate(self, points: torch.Tensor, coords: torch.Tensor | None = None) -> torch.Tensor:
        """Return what `spread` needs to know of points ``(B, P, E)`` that are in no token."""
        return self._assignment(points, None, coords)[0]

    def _assignment(
        self, points: torch.Tensor, grid_shape: GridShape | None, coords: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What `spread` needs, and the weights over the slices (..., H, P, G)."""
        queries = self._heads(self.queries, points, grid_shape)
        temperature = self.temperature.clamp(*(_MESH_TEMPERATURES if self.is_structured else _TEMPERATURES))
        logits = self.scores(queries) * temperature.reciprocal()[:, None, None]
        if self.centres is not None and self.log_sharpness is not None:
            if coords is None:
                raise ValueError("slices with local heads need the coordinates of the points.")
            # Half the squared distance to a centre, less what is the same for all centres of a point.
            nearness = coords @ self.centres.mT - self.centres.square().sum(-1) / 2
            others = self.n_heads - len(self.log_sharpness)
            sharpness = nn.functional.pad((2 * self.log_sharpness).exp(), (0, others))
            logits = torch.addcmul(logits, sharpness[:, None, None], nearness.unsqueeze(-3))
        weights = logits.softmax(-1)
        return (weights if self.keys is None else queries), weights

    def _mix(self, assignment: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Mixtures (..., H, P, D) of the tokens (..., H, G, D) of the same samples."""
        if self.keys is None:
            return assignment @ tokens
        logits = assignment @ self.keys(tokens).mT / math.sqrt(tokens.shape[-1])
        return logits.softmax(-1) @ tokens

    def _heads(self, projection: nn.Module, points: torch.Tensor, grid_shape: GridShape | None) -> torch.Tensor:
        """Project points (..., P, E) and cut them into heads (..., H, P, D)."""
        if self.is_structured:
            if grid_shape is None:
                raise ValueError("the slices of a structured mesh need its grid_shape.")
            points = projection(points.mT.unflatten(-1, grid_shape)).flatten(2).mT
        else:
            points = projection(points)
        return points.unflatten(-1, (self.n_heads, -1)).transpose(-3, -2)


class SliceBlock(nn.Module):
    """LaMO's Eq. 11 and 12 with latent slices: pool points, mix the tokens, spread them, feed forward.

    The slices are an argument of the calls, so that blocks can share them.

    Parameters
    ----------
    mixer : Module
        Mixes a sequence of tokens ``(B, G, E)``.
    feed : Module
        Acts on every point.
    width : int
        Size of a point's features.
    dropout : float, default=0.0
        On both branches.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import FeedForward, HydraMixer, LatentSlices, SliceBlock
    >>> block = SliceBlock(HydraMixer(16, d_state=4), FeedForward(16, 16), 16)
    >>> block(torch.zeros(3, 50, 16), LatentSlices(16, n_latents=6, n_heads=2))[0].shape
    torch.Size([3, 50, 16])
    """

    def __init__(self, mixer: nn.Module, feed: nn.Module, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm_mixer, self.norm_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixer, self.feed = mixer, feed
        self.out_projection = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        points: torch.Tensor,
        slices: LatentSlices,
        sizes: Sizes = None,
        grid_shape: GridShape | None = None,
        coords: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Advance the points.

        Parameters
        ----------
        points : Tensor of shape (B, P, E) or (T, E)
            Features.
        slices : LatentSlices
            Encoder and decoder.
        sizes : tuple of int or None, default=None
            Points of each packed sample.
        grid_shape : tuple of int or None, default=None
            Points along each axis of a structured mesh.
        coords : Tensor of shape (P, d), (B, P, d) or (T, d), or None, default=None
            Coordinates, for local heads.

        Returns
        -------
        points : Tensor of the same shape
            New features.
        tokens : Tensor of shape (B, G, E)
            Mixed tokens, for `advance`.
        """
        assignment, sums, masses = slices.assign(self.norm_mixer(points), sizes, grid_shape, coords)
        tokens = self.mixer(slices.tokens(sums, masses))
        return self._update(points, slices.spread(assignment, tokens, sizes)), tokens

    def advance(
        self, points: torch.Tensor, tokens: torch.Tensor, slices: LatentSlices, coords: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Advance points ``(B, P, E)`` by tokens that they need not be part of."""
        return self._update(points, slices.spread(slices.locate(self.norm_mixer(points), coords), tokens))

    def advance_in_place(self, groups: Sequence[PointGroup], slices: LatentSlices, chunk_size: int) -> None:
        """Advance one sample in its own memory, a chunk of points at a time; for use without gradients.

        Parameters
        ----------
        groups : sequence of pairs of Tensors
            Features ``(1, P, E)``, overwritten, and coordinates ``(1, P, d)``: first of the points that
            are pooled into the tokens, then of any that are not.
        slices : LatentSlices
            Encoder and decoder; not of a structured mesh.
        chunk_size : int
            Most points at a time.
        """
        chunks = [
            list(zip(points.split(chunk_size, dim=1), coords.split(chunk_size, dim=1), strict=True))
            for points, coords in groups
        ]
        parts = (slices.assign(self.norm_mixer(points), coords=coords)[1:] for points, coords in chunks[0])
        sums, masses = next(parts)
        for more_sums, more_masses in parts:
            sums, masses = sums + more_sums, masses + more_masses
        tokens = self.mixer(slices.tokens(sums, masses))
        for points, coords in chain(*chunks):
            points.copy_(self.advance(points, tokens, slices, coords))

    def _update(self, points: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """Both residual branches, from what the tokens tell the points."""
        points = points + self.dropout(self.out_projection(mixed))
        return points + self.dropout(self.feed(self.norm_feed(points)))


def _projection(width: int, n_grid_axes: int | None) -> nn.Module:
    """A linear layer, or a convolution over the neighbours of a structured mesh."""
    return nn.Linear(width, width) if n_grid_axes is None else _CONVOLUTIONS[n_grid_axes](width, width, 3, padding=1)


def _spread_centres(count: int, n_dims: int) -> torch.Tensor:
    """Evenly spread points of the unit box, (count, n_dims), along a path that stays near where it is."""
    # Additive recurrence by powers of the root of x^(d+1) = x + 1: the golden ratio in one dimension.
    root = 2.0
    for _ in range(50):
        root = (1 + root) ** (1 / (n_dims + 1))
    steps = root ** -torch.arange(1, n_dims + 1, dtype=torch.float64)
    centres = (0.5 + torch.arange(1, count + 1)[:, None] * steps) % 1
    # Z-order: compare the first binary digit of every coordinate, then the second, and so on.
    digits = (centres[..., None] * 2.0 ** torch.arange(1, 60 // n_dims + 1)).long() % 2
    places = 2 ** torch.arange(digits[0].numel() - 1, -1, -1)
    order = (digits.mT.flatten(1) * places).sum(-1).argsort()
    return centres[order].to(torch.get_default_dtype())
