"""Latent tokens: weighted means over the points of a sample, which form a sequence of fixed length.

Notation: B samples, P points, T points of all samples of a packed batch, E width, d space dimensions, H heads,
D = E / H channels of a head, G latent tokens. Points come as (B, P, E), or packed as (T, E) with the number of points
of each sample; tensors of the heads of points are then (B, H, P, ...) or (H, T, ...).
"""

import math

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules._blocks import PointBlock, ResidualDropout
from skop.modules._feature_maps import note_features
from skop.modules._grid_convolution import grid_convolution

__all__ = ["LatentBlock", "LatentPooling"]

_EPSILON = 1e-5
#: Times as many multiplications as by separate maps at most, where maps are multiplied first: one large product of
#: matrices takes less time than several small ones, and the points are read and written fewer times.
_MORE_WORK = 2.0
#: Bounds of the temperatures: on structured meshes as in the public code, and on points, where the public code has
#: none.
_MESH_TEMPERATURES, _TEMPERATURES = (0.1, 5.0), (1e-3, math.inf)

#: Number of points of each sample of a packed batch; None where all samples have the same number.
Sizes = tuple[int, ...] | None


class LatentPooling(nn.Module):
    """Encoder from points to latent tokens, and decoder back to points.

    In every head, each point has a weight for each latent token: a softmax over the tokens of a linear map of the
    point's features. A latent token is the weighted mean of the values of all points. In the decoder, a point receives
    the combination of the latent tokens with the same weights.

    Parameters
    ----------
    width : int
        Size of a point's features and of a latent token.
    n_latents : int, default=64
        Number of latent tokens of a sample (paper: 64).
    n_heads : int, default=8
        Number of heads, each with its own weights and ``width / n_heads`` channels (public code: 8).
    n_grid_axes : int or None, default=None
        Number of axes of a structured mesh, 1 to 3, where values and queries are computed by convolutions over
        neighbouring points; None, for points in any order, uses linear layers.
    temperature : float, default=0.5
        Initial temperature of each head's softmax. It is learned and stays positive; on structured meshes it stays
        between 0.1 and 5, as in the public code.
    normalize : bool, default=True
        Whether a latent token is divided by the sum of its weights, as in the public code. Otherwise it is the sum in
        Eq. 10, which grows with the number of points.
    decoder : {"encoder_weights", "own_softmax"}, default="encoder_weights"
        Weights of the decoder: those of the encoder (public code), or those of Eq. 14, a softmax of a linear map of the
        mixed tokens. In the paper this map has a row of weights for each point; here the row is computed from the
        point's features, so that it is defined for any number of points.
    n_centred_heads : int, default=0
        Number of heads whose latent tokens also have learned centres in space. The logits of these heads fall with the
        squared distance of a point from the centre, initially over about the spacing of the centres. The weights of the
        other heads depend on the features alone. They are nearly the same for all points initially, so that all tokens
        are nearly the same mean; centres make them differ. The paper has none.
    n_dims : int or None, default=None
        Number of space dimensions, needed for the centres, which are initially spread over the unit box.

    Raises
    ------
    ValueError
        If `n_heads` does not divide `width`, `decoder` is unknown, or there are more centred heads than heads, or
        centres without `n_dims`.

    References
    ----------
    Tiwari et al., "Latent Mamba Operator for Partial Differential Equations", ICML 2025, Eq. 9, 10,
    14 to 16. H. Wu et al., "Transolver: A Fast Transformer Solver for PDEs on General Geometries",
    ICML 2024, for the normalised weights.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import LatentPooling
    >>> latents = LatentPooling(16, n_latents=6, n_heads=2)
    >>> points = torch.zeros(3, 50, 16)
    >>> assignment, sums, masses = latents.encode(points)
    >>> tokens = latents.tokens(sums, masses)
    >>> tokens.shape, latents.decode(assignment, tokens).shape
    (torch.Size([3, 6, 16]), torch.Size([3, 50, 16]))
    """

    #: Places: decay would pull them to the origin, which is a corner of the box.
    no_weight_decay = ("centres",)

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
        n_centred_heads: int = 0,
        n_dims: int | None = None,
    ) -> None:
        super().__init__()
        if width % n_heads:
            raise ValueError(f"n_heads={n_heads} does not divide width={width}.")
        if decoder not in ("encoder_weights", "own_softmax"):
            raise ValueError(f"decoder is {decoder!r}; expected 'encoder_weights' or 'own_softmax'.")
        if not 0 <= n_centred_heads <= n_heads:
            raise ValueError(f"n_centred_heads={n_centred_heads}; expected 0 to n_heads={n_heads}.")
        if n_centred_heads and not n_dims:
            raise ValueError(f"n_centred_heads={n_centred_heads} needs the number of space dimensions; pass n_dims.")
        self.n_heads, self.normalize, self.is_structured = n_heads, normalize, n_grid_axes is not None
        # Maps of the same points that follow each other are multiplied first, if that adds little work: the points
        # then meet three matrices with a row for each latent token of each head.
        is_cheap = n_heads * n_latents <= _MORE_WORK * (width + n_latents)
        self.multiplies_maps = is_cheap and not self.is_structured and decoder == "encoder_weights"
        self.values, self.queries = _projection(width, n_grid_axes), _projection(width, n_grid_axes)
        self.scores = nn.Linear(width // n_heads, n_latents)
        nn.init.orthogonal_(self.scores.weight)
        self.temperature = nn.Parameter(torch.full((n_heads,), float(temperature)))
        self.keys = nn.Linear(width // n_heads, width // n_heads) if decoder == "own_softmax" else None
        self.centres = self.log_sharpness = None
        if n_centred_heads and n_dims:
            self.centres = nn.Parameter(spread_centres(n_latents, n_dims))
            self.log_sharpness = nn.Parameter(torch.full((n_centred_heads,), math.log(n_latents) / n_dims))

    def encode(
        self,
        points: torch.Tensor,
        sizes: Sizes = None,
        grid_shape: GridShape | None = None,
        coords: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute the weights of the points, and the sums that the latent tokens are made of.

        Parameters
        ----------
        points : Tensor of shape (B, P, E) or (T, E)
            Features of the points.
        sizes : tuple of int or None, default=None
            Number of points of each sample of a packed batch.
        grid_shape : tuple of int or None, default=None
            Number of points along each axis of a structured mesh.
        coords : Tensor of shape (P, d), (B, P, d) or (T, d), or None, default=None
            Coordinates of the points, needed for heads with centres.

        Returns
        -------
        assignment : Tensor of shape (B, H, P, G) or (H, T, G), or (..., D) with ``decoder="own_softmax"``
            Weights of the points, or their queries; an argument of `decode`.
        sums : Tensor of shape (B, H, G, D)
            Weighted sums of the values over the points.
        masses : Tensor of shape (B, H, G)
            Sums of the weights.
        """
        if self._multiplies_now(points):
            return self._encode_by_products(points, sizes, coords)
        assignment, weights = self._assignment(points, grid_shape, coords)
        values = self._heads(self.values, points, grid_shape)
        if sizes is None:
            return assignment, weights.mT @ values, weights.sum(-2)
        parts = weights.split(sizes, dim=-2)
        sums = [part.mT @ value for part, value in zip(parts, values.split(sizes, dim=-2), strict=True)]
        masses = [part.sum(-2) for part in parts]
        return assignment, torch.stack(sums), torch.stack(masses)

    def tokens(self, sums: torch.Tensor, masses: torch.Tensor) -> torch.Tensor:
        """Compute latent tokens ``(B, G, E)`` from the sums that `encode` returns."""
        tokens = sums / (masses.unsqueeze(-1) + _EPSILON) if self.normalize else sums
        return tokens.transpose(1, 2).flatten(2)

    def decode(
        self,
        assignment: torch.Tensor,
        tokens: torch.Tensor,
        sizes: Sizes = None,
        projection: nn.Linear | None = None,
    ) -> torch.Tensor:
        """Compute the features of points as combinations of latent tokens.

        Parameters
        ----------
        assignment : Tensor
            Result of `encode` or `weigh`.
        tokens : Tensor of shape (B, G, E)
            Latent tokens, after mixing.
        sizes : tuple of int or None, default=None
            Number of points of each sample of a packed batch.
        projection : Linear or None, default=None
            Layer that is applied to the combinations; None applies none.

        Returns
        -------
        Tensor of shape (B, P, E) or (T, E)
            Features of the points.
        """
        heads = tokens.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        if projection is not None and self._multiplies_now(tokens):
            # The layer is applied to the tokens of each head. The weights of a point add up to one in every head, so
            # that each head brings its part of the bias.
            rows = heads @ projection.weight.unflatten(1, (self.n_heads, -1)).permute(1, 2, 0)
            rows = rows if projection.bias is None else rows + projection.bias / self.n_heads
            weights, rows = assignment.transpose(-3, -2).flatten(-2), rows.flatten(1, 2)
            if sizes is None:
                return weights @ rows
            return torch.cat([own @ row for own, row in zip(weights.split(sizes), rows, strict=True)])
        if sizes is None:
            spread = self._mix(assignment, heads)
        else:
            samples = zip(assignment.split(sizes, dim=-2), heads, strict=True)
            spread = torch.cat([self._mix(part, sample) for part, sample in samples], dim=-2)
        mixed = spread.transpose(-3, -2).flatten(-2)
        return mixed if projection is None else projection(mixed)

    def weigh(
        self, points: torch.Tensor, coords: torch.Tensor | None = None, grid_shape: GridShape | None = None
    ) -> torch.Tensor:
        """Compute the assignment for `decode` of points ``(B, P, E)``, which need not be part of the latent tokens."""
        if self._multiplies_now(points):
            return self._weights(self._extended(points, coords)).transpose(-3, -2)
        return self._assignment(points, grid_shape, coords)[0]

    def _multiplies_now(self, tensor: torch.Tensor) -> bool:
        """Whether maps are multiplied: not under autocast, where rounded products would be less precise."""
        return self.multiplies_maps and not torch.is_autocast_enabled(tensor.device.type)

    def _extended(self, points: torch.Tensor, coords: torch.Tensor | None) -> torch.Tensor:
        """Points with further channels: one, and where there are centres their coordinates."""
        if self.centres is None:
            return nn.functional.pad(points, (0, 1), value=1.0)
        further = nn.functional.pad(_needed(coords), (1, 0), value=1.0)
        return torch.cat([points, further.expand(*points.shape[:-1], -1)], dim=-1)

    def _weights(self, extended: torch.Tensor) -> torch.Tensor:
        """Weights (..., P, H, G) of the points with further channels, from one matrix for all heads."""
        assert isinstance(self.queries, nn.Linear)
        queries = torch.cat([self.queries.weight, self.queries.bias.unsqueeze(1)], dim=1)
        maps = self.scores.weight @ queries.unflatten(0, (self.n_heads, -1))
        maps = maps + nn.functional.pad(self.scores.bias.unsqueeze(1), (self.queries.in_features, 0))
        maps = maps * self.temperature.clamp(*_TEMPERATURES).reciprocal()[:, None, None]
        if self.centres is not None:
            # Half the squared distance to each centre, without the term that is the same for all centres of a point.
            nearness = torch.cat([-self.centres.square().sum(-1, keepdim=True) / 2, self.centres], dim=-1)
            near = nn.functional.pad(nearness, (self.queries.in_features, 0)) * self._sharpness()[:, None, None]
            maps = nn.functional.pad(maps, (0, self.centres.shape[1])) + near
        return nn.functional.linear(extended, maps.flatten(0, 1)).unflatten(-1, maps.shape[:2]).softmax(-1)

    def _encode_by_products(
        self, points: torch.Tensor, sizes: Sizes, coords: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Results of `encode`: means of the points themselves, which are mapped to values afterwards."""
        assert isinstance(self.values, nn.Linear)
        extended = self._extended(points, coords)
        weights = self._weights(extended)
        rows = weights.flatten(-2)
        # In this order the gradient of the weights, the larger matrix, comes in their own layout.
        if sizes is None:
            read = (extended.mT @ rows).mT
        else:
            parts = zip(extended.split(sizes), rows.split(sizes), strict=True)
            read = torch.stack([sample.mT @ own for sample, own in parts]).mT
        read = read.unflatten(1, weights.shape[-2:])
        width = points.shape[-1]
        values = torch.cat([self.values.weight, self.values.bias.unsqueeze(1)], dim=1)
        sums = read[..., : width + 1] @ values.unflatten(0, (self.n_heads, -1)).mT
        return weights.transpose(-3, -2), sums, read[..., width]

    def _sharpness(self) -> torch.Tensor:
        """Factors (H,) of the squared distances from the centres; 0 for the heads without centres."""
        assert self.log_sharpness is not None
        others = self.n_heads - len(self.log_sharpness)
        return nn.functional.pad((2 * self.log_sharpness).exp(), (0, others))

    def _assignment(
        self, points: torch.Tensor, grid_shape: GridShape | None, coords: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Assignment for `decode`, and the weights over the latent tokens (..., H, P, G)."""
        queries = self._heads(self.queries, points, grid_shape)
        temperature = self.temperature.clamp(*(_MESH_TEMPERATURES if self.is_structured else _TEMPERATURES))
        logits = self.scores(queries) * temperature.reciprocal()[:, None, None]
        if self.centres is not None:
            # As in `_weights`, without the term that is the same for all centres of a point.
            nearness = _needed(coords) @ self.centres.mT - self.centres.square().sum(-1) / 2
            logits = torch.addcmul(logits, self._sharpness()[:, None, None], nearness.unsqueeze(-3))
        weights = logits.softmax(-1)
        return (weights if self.keys is None else queries), weights

    def _mix(self, assignment: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Combinations (..., H, P, D) of the latent tokens (..., H, G, D) of the same samples."""
        if self.keys is None:
            return assignment @ tokens
        logits = assignment @ self.keys(tokens).mT / math.sqrt(tokens.shape[-1])
        return logits.softmax(-1) @ tokens

    def _heads(self, projection: nn.Module, points: torch.Tensor, grid_shape: GridShape | None) -> torch.Tensor:
        """Project points (..., P, E) and cut them into heads (..., H, P, D)."""
        if self.is_structured:
            if grid_shape is None:
                raise ValueError("with n_grid_axes set the points need a grid_shape, but it is None; pass it.")
            points = projection(points.mT.unflatten(-1, grid_shape)).flatten(2).mT
        else:
            points = projection(points)
        return points.unflatten(-1, (self.n_heads, -1)).transpose(-3, -2)


class LatentBlock(PointBlock):
    """LaMO's residual block for points (Eq. 11 and 12): a mixer of latent tokens, then a feed-forward network.

    Parameters
    ----------
    mixer : TokenMixer
        Mixer of the latent tokens ``(B, G, E)``.
    mlp : Module
        Feed-forward network, applied to every point.
    latents : LatentPooling
        Encoder and decoder between points and latent tokens.
    width : int
        Size of a point's features.
    dropout : float, default=0.0
        Dropout probability at the end of both residual branches.
    shared : bool, default=False
        Whether `latents` is shared with other blocks. It is then not registered as a submodule of the block but by the
        network, so that its weights are listed only once.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import FeedForward, HydraMixer, LatentBlock, LatentPooling
    >>> block = LatentBlock(HydraMixer(16, d_state=4), FeedForward(16, 16), LatentPooling(16, 6, 2), 16)
    >>> block(torch.zeros(3, 50, 16))[0].shape
    torch.Size([3, 50, 16])
    """

    latents: LatentPooling

    def __init__(
        self,
        mixer: nn.Module,
        mlp: nn.Module,
        latents: LatentPooling,
        width: int,
        dropout: float = 0.0,
        *,
        shared: bool = False,
    ) -> None:
        super().__init__()
        self.norm_mixer, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixer, self.mlp = mixer, mlp
        self.out_projection = nn.Linear(width, width)
        self.dropout = ResidualDropout(dropout)
        if shared:
            object.__setattr__(self, "latents", latents)
        else:
            self.latents = latents

    def forward(
        self,
        points: torch.Tensor,
        coords: torch.Tensor | None = None,
        sizes: Sizes = None,
        grid_shape: GridShape | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Update all points, see `PointBlock.forward`; the weights are computed once for encoder and decoder."""
        assignment, sums, masses = self.latents.encode(self.norm_mixer(points), sizes, grid_shape, coords)
        tokens = self.mix((sums, masses))
        return self._update(points, self.latents.decode(assignment, tokens, sizes, self.out_projection), sizes), tokens

    def encode(
        self,
        points: torch.Tensor,
        coords: torch.Tensor | None,
        sizes: Sizes = None,
        grid_shape: GridShape | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Compute sums of the values ``(B, H, G, D)`` and of the weights ``(B, H, G)`` over the points."""
        return self.latents.encode(self.norm_mixer(points), sizes, grid_shape, coords)[1:]

    def mix(self, summary: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Compute latent tokens ``(B, G, E)`` from these sums, and mix them."""
        sums, masses = summary
        return self.mixer(self.latents.tokens(sums, masses))

    def decode(
        self,
        points: torch.Tensor,
        coords: torch.Tensor | None,
        latents: torch.Tensor,
        sizes: Sizes = None,
        grid_shape: GridShape | None = None,
    ) -> torch.Tensor:
        """Update points from latent tokens, which may come from other points."""
        assignment = self.latents.weigh(self.norm_mixer(points), coords, grid_shape)
        return self._update(points, self.latents.decode(assignment, latents, sizes, self.out_projection), sizes)

    def _update(self, points: torch.Tensor, mixed: torch.Tensor, sizes: Sizes) -> torch.Tensor:
        """Apply both residual branches, given the projected combinations of latent tokens at the points."""
        points = note_features("mixer", points + self.dropout(mixed, sizes))
        return note_features("mlp", points + self.dropout(self.mlp(self.norm_mlp(points)), sizes))


def _needed(coords: torch.Tensor | None) -> torch.Tensor:
    """Coordinates, which are there."""
    if coords is None:
        raise ValueError("n_centred_heads > 0 needs the coordinates of the points, but coords is None; pass them.")
    return coords


def _projection(width: int, n_grid_axes: int | None) -> nn.Module:
    """Linear layer, or a convolution over the neighbouring points of a structured mesh."""
    return nn.Linear(width, width) if n_grid_axes is None else grid_convolution(n_grid_axes, width, width)


def spread_centres(count: int, n_dims: int) -> torch.Tensor:
    """Evenly spread points of the unit box, (count, n_dims), ordered so that successive points are close."""
    # Low-discrepancy sequence: multiples of powers of the root of x^(d+1) = x + 1 (the golden ratio for d = 1).
    root = 2.0
    for _ in range(50):
        root = (1 + root) ** (1 / (n_dims + 1))
    steps = root ** -torch.arange(1, n_dims + 1).double()
    centres = (0.5 + torch.arange(1, count + 1)[:, None] * steps) % 1
    # Z-order curve: sort by the first binary digit of every coordinate, then by the second, and so on.
    digits = (centres[..., None] * 2.0 ** torch.arange(1, 60 // n_dims + 1)).long() % 2
    places = 2 ** torch.arange(digits[0].numel() - 1, -1, -1)
    order = (digits.mT.flatten(1) * places).sum(-1).argsort()
    return centres.index_select(0, order).to(torch.get_default_dtype())
