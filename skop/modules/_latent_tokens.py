"""Latent tokens: soft groups of points, each of which is one token of a sequence.

Notation: B samples, P points, T points of all samples of a packed batch, E width, d space dimensions, H heads,
D = E / H channels of a head, G latent tokens. Points come as (B, P, E), or packed as (T, E) with the number of points
of each sample; tensors of the heads of points are then (B, H, P, ...) or (H, T, ...).
"""

import math

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules._blocks import PointBlock

__all__ = ["LatentBlock", "LatentTokens"]

_CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_EPSILON = 1e-5
#: Bounds of the temperatures on structured meshes, as in the public code, and elsewhere, where it has none.
_MESH_TEMPERATURES, _TEMPERATURES = (0.1, 5.0), (1e-3, math.inf)

#: Points of each sample of a packed batch; None where all samples have as many.
Sizes = tuple[int, ...] | None


class LatentTokens(nn.Module):
    """Encoder and decoder between points and latent tokens.

    Every head gives each point weights over the latent tokens, a softmax of a linear map of the point's
    features; a token is the mean of the points' values by these weights, and on the way back a point
    takes the mixture of the tokens by them.

    Parameters
    ----------
    width : int
        Size of a point's features and of a token.
    n_latents : int, default=64
        Latent tokens of a sample (paper: 64).
    n_heads : int, default=8
        Heads, each with its own weights on ``width / n_heads`` channels (public code: 8).
    n_grid_axes : int or None, default=None
        Axes of a structured mesh, 1 to 3, whose values and queries come from convolutions over
        neighbouring points; None, for points in any order, uses linear layers.
    temperature : float, default=0.5
        Divisor of the logits of each head at the start; it is learned, and kept positive, on structured
        meshes between 0.1 and 5, as in the public code.
    normalize : bool, default=True
        Whether a token is divided by the sum of its weights, as in the public code; otherwise it is the sum
        of Eq. 10, which grows with the number of points.
    decoder : {"encoder_weights", "own_softmax"}, default="encoder_weights"
        Weights of the way back: the encoder's (public code), or those of Eq. 14, a softmax of a linear
        map of the mixed tokens. That map has a row for each point; here the row is the point's query, so
        that it is defined for any points.
    n_centred_heads : int, default=0
        Heads whose tokens also have centres: their logits fall with the square of the distance, over
        about the spacing of the centres at the start. Weights that follow the features alone are nearly
        the same for all points at first, so that all tokens hold about the same mean and what tells the
        points apart is lost; tokens with centres keep it. The paper has none.
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
    ICML 2024, for the normalised weights.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import LatentTokens
    >>> latents = LatentTokens(16, n_latents=6, n_heads=2)
    >>> points = torch.zeros(3, 50, 16)
    >>> assignment, sums, masses = latents.encode(points)
    >>> tokens = latents.tokens(sums, masses)
    >>> tokens.shape, latents.decode(assignment, tokens).shape
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
        n_centred_heads: int = 0,
        n_dims: int | None = None,
    ) -> None:
        super().__init__()
        if width % n_heads:
            raise ValueError(f"n_latent_heads={n_heads} does not divide width={width}.")
        if decoder not in ("encoder_weights", "own_softmax"):
            raise ValueError(f"decoder is {decoder!r}; expected 'encoder_weights' or 'own_softmax'.")
        if not 0 <= n_centred_heads <= n_heads:
            raise ValueError(f"n_centred_heads={n_centred_heads}; expected 0 to n_latent_heads={n_heads}.")
        self.n_heads, self.normalize, self.is_structured = n_heads, normalize, n_grid_axes is not None
        self.values, self.queries = _projection(width, n_grid_axes), _projection(width, n_grid_axes)
        self.scores = nn.Linear(width // n_heads, n_latents)
        nn.init.orthogonal_(self.scores.weight)
        self.temperature = nn.Parameter(torch.full((n_heads,), float(temperature)))
        self.keys = nn.Linear(width // n_heads, width // n_heads) if decoder == "own_softmax" else None
        self.centres = self.log_sharpness = None
        if n_centred_heads and n_dims:
            self.centres = nn.Parameter(_spread_centres(n_latents, n_dims))
            self.log_sharpness = nn.Parameter(torch.full((n_centred_heads,), math.log(n_latents) / n_dims))

    def encode(
        self,
        points: torch.Tensor,
        sizes: Sizes = None,
        grid_shape: GridShape | None = None,
        coords: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Assign points to latent tokens and sum up each of them.

        Parameters
        ----------
        points : Tensor of shape (B, P, E) or (T, E)
            Features.
        sizes : tuple of int or None, default=None
            Points of each packed sample.
        grid_shape : tuple of int or None, default=None
            Points along each axis of a structured mesh.
        coords : Tensor of shape (P, d), (B, P, d) or (T, d), or None, default=None
            Coordinates, for centred heads.

        Returns
        -------
        assignment : Tensor of shape (B, H, P, G) or (H, T, G), or (..., D) with an own softmax
            Weights of the points, or their queries, which `decode` needs.
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
        """Return the tokens ``(B, G, E)`` of what `encode` summed up."""
        tokens = sums / (masses.unsqueeze(-1) + _EPSILON) if self.normalize else sums
        return tokens.transpose(1, 2).flatten(2)

    def decode(self, assignment: torch.Tensor, tokens: torch.Tensor, sizes: Sizes = None) -> torch.Tensor:
        """Give every point its mixture of tokens.

        Parameters
        ----------
        assignment : Tensor
            From `encode` or `weigh`.
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

    def weigh(
        self, points: torch.Tensor, coords: torch.Tensor | None = None, grid_shape: GridShape | None = None
    ) -> torch.Tensor:
        """Return the assignment that `decode` needs of points ``(B, P, E)``, also of points that are in no token."""
        return self._assignment(points, grid_shape, coords)[0]

    def _assignment(
        self, points: torch.Tensor, grid_shape: GridShape | None, coords: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Assignment that `decode` needs, and the weights over the latent tokens (..., H, P, G)."""
        queries = self._heads(self.queries, points, grid_shape)
        temperature = self.temperature.clamp(*(_MESH_TEMPERATURES if self.is_structured else _TEMPERATURES))
        logits = self.scores(queries) * temperature.reciprocal()[:, None, None]
        if self.centres is not None and self.log_sharpness is not None:
            if coords is None:
                raise ValueError("latent tokens with centred heads need the coordinates of the points.")
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
                raise ValueError("the latent tokens of a structured mesh need its grid_shape.")
            points = projection(points.mT.unflatten(-1, grid_shape)).flatten(2).mT
        else:
            points = projection(points)
        return points.unflatten(-1, (self.n_heads, -1)).transpose(-3, -2)


class LatentBlock(PointBlock):
    """LaMO's Eq. 11 and 12 with latent tokens: pool points, mix the tokens, spread them, feed forward.

    Parameters
    ----------
    mixer : TokenMixer
        Mixer of the latent tokens ``(B, G, E)``.
    mlp : Module
        Feed-forward part, which acts on every point.
    latents : LatentTokens
        Encoder and decoder between points and latent tokens.
    width : int
        Size of a point's features.
    dropout : float, default=0.0
        Dropout on both branches.
    shared : bool, default=False
        Whether `latents` belongs to the network, which other blocks may use too. It is then no submodule of the
        block: the network registers it, so that its weights are listed once.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import FeedForward, HydraMixer, LatentBlock, LatentTokens
    >>> block = LatentBlock(HydraMixer(16, d_state=4), FeedForward(16, 16), LatentTokens(16, 6, 2), 16)
    >>> block(torch.zeros(3, 50, 16))[0].shape
    torch.Size([3, 50, 16])
    """

    latents: LatentTokens

    def __init__(
        self,
        mixer: nn.Module,
        mlp: nn.Module,
        latents: LatentTokens,
        width: int,
        dropout: float = 0.0,
        *,
        shared: bool = False,
    ) -> None:
        super().__init__()
        self.norm_mixer, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixer, self.mlp = mixer, mlp
        self.out_projection = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
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
        """Update points by their own latent tokens, see `PointBlock.forward`; the weights serve both ways."""
        assignment, sums, masses = self.latents.encode(self.norm_mixer(points), sizes, grid_shape, coords)
        tokens = self.mix((sums, masses))
        return self._update(points, self.latents.decode(assignment, tokens, sizes)), tokens

    def encode(
        self,
        points: torch.Tensor,
        coords: torch.Tensor | None,
        sizes: Sizes = None,
        grid_shape: GridShape | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Return sums of the values ``(B, H, G, D)`` and of the weights ``(B, H, G)`` over the points."""
        return self.latents.encode(self.norm_mixer(points), sizes, grid_shape, coords)[1:]

    def mix(self, summary: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Return the mixed tokens ``(B, G, E)`` of such sums."""
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
        """Update points by tokens that they need not be part of."""
        assignment = self.latents.weigh(self.norm_mixer(points), coords, grid_shape)
        return self._update(points, self.latents.decode(assignment, latents, sizes))

    def _update(self, points: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """Both residual branches, from the points' mixtures of tokens."""
        points = points + self.dropout(self.out_projection(mixed))
        return points + self.dropout(self.mlp(self.norm_mlp(points)))


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
