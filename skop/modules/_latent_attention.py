"""Latent tokens by cross-attention: a sample's points are read once, and once the points read the latent tokens.

Notation: B samples, P points, T points of all samples of a packed batch, L points of the longest sample, E width,
d space dimensions, H heads, D = E / H channels of a head, G latent tokens.
"""

import math

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules._blocks import FeedForward, PointBlock, ResidualDropout
from skop.modules._feature_maps import note_features
from skop.modules._latent_tokens import spread_centres
from skop.modules._packing import group_by_size, padding_of

__all__ = ["LatentAttentionBlock"]

#: Number of points of each sample of a packed batch; None where all samples have the same number.
Sizes = tuple[int, ...] | None
#: Filled-up points of a group of packed samples at most, which cost about as much as another call.
_FILLING = 2**12


class LatentAttentionBlock(PointBlock):
    """Latent tokens that read all points by attention, are transformed, and are read by the points (AMO, Eq. 3).

    Learned queries, one for each latent token, attend to the points; a feed-forward network is added, and a module
    transforms the tokens. Then every point attends to the latent tokens, and a second feed-forward network is added.
    A network of this one block costs as much for the points, however many layers the module has.

    Parameters
    ----------
    transform : Module
        Map of latent tokens ``(B, G, E)`` to as many.
    width : int
        Size of a point's features and of a latent token.
    n_latents : int
        Number of latent tokens (AMO: 64).
    n_heads : int
        Number of heads, a divisor of `width`.
    hidden : int
        Number of hidden units of the feed-forward networks.
    dropout : float, default=0.0
        Dropout probability at the end of the residual branches.
    decoder : {"encoder_weights", "own_softmax"}, default="encoder_weights"
        Logits by which points read the latent tokens: those by which these read the points (as in the latent neural
        operator), or those of a second attention (AMO).
    n_centred_heads : int, default=0
        Number of heads whose latent tokens have learned centres in space. Their logits fall with the squared distance
        of a point from the centre, initially over about the spacing of the centres; those of the other heads depend on
        the features alone, and are nearly the same for all tokens initially. The paper has none.
    n_dims : int or None, default=None
        Number of space dimensions, needed for the centres, which are initially spread over the unit box.

    Raises
    ------
    ValueError
        If `n_heads` does not divide `width`, or there are more centred heads than heads, or centres without `n_dims`.

    References
    ----------
    Z. Song and Z. Jiang, "Adaptive Mamba Neural Operators", 2025, Eq. 3. T. Wang and C. Wang, "Latent Neural Operator
    for Solving Forward and Inverse PDE Problems", NeurIPS 2024.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import LatentAttentionBlock
    >>> block = LatentAttentionBlock(torch.nn.Identity(), 16, n_latents=6, n_heads=2, hidden=32)
    >>> points, latents = block(torch.zeros(3, 50, 16))
    >>> points.shape, latents.shape
    (torch.Size([3, 50, 16]), torch.Size([3, 6, 16]))
    """

    #: Places: decay would pull them to the origin, which is a corner of the box.
    no_weight_decay = ("queries", "centres", "log_sharpness")

    def __init__(
        self,
        transform: nn.Module,
        width: int,
        n_latents: int,
        n_heads: int,
        hidden: int,
        dropout: float = 0.0,
        *,
        decoder: str = "encoder_weights",
        n_centred_heads: int = 0,
        n_dims: int | None = None,
    ) -> None:
        super().__init__()
        if width % n_heads:
            raise ValueError(f"n_heads={n_heads} does not divide width={width}.")
        if not 0 <= n_centred_heads <= n_heads:
            raise ValueError(f"n_centred_heads={n_centred_heads}; expected 0 to n_heads={n_heads}.")
        if n_centred_heads and not n_dims:
            raise ValueError(f"n_centred_heads={n_centred_heads} needs the number of space dimensions; pass n_dims.")
        if decoder not in ("encoder_weights", "own_softmax"):
            raise ValueError(f"decoder is {decoder!r}; expected 'encoder_weights' or 'own_softmax'.")
        self.n_heads = n_heads
        self.norm_points, self.norm_latents, self.norm_mlp = (nn.LayerNorm(width) for _ in range(3))
        self.queries = nn.Parameter(torch.randn(n_latents, width))
        self.keys, self.values, self.gather = (nn.Linear(width, width) for _ in range(3))
        self.latent_mlp, self.transform = FeedForward(width, hidden), transform
        self.give, self.spread = nn.Linear(width, width), nn.Linear(width, width)
        self.ask = self.offer = None
        if decoder == "own_softmax":
            self.ask, self.offer = nn.Linear(width, width), nn.Linear(width, width)
        self.mlp, self.dropout = FeedForward(width, hidden, dropout), ResidualDropout(dropout)
        self.centres = self.log_sharpness = None
        if n_centred_heads and n_dims:
            self.centres = nn.Parameter(spread_centres(n_latents, n_dims))
            self.log_sharpness = nn.Parameter(
                torch.full((1 if self.ask is None else 2, n_centred_heads), math.log(n_latents) / n_dims)
            )

    def forward(
        self,
        points: torch.Tensor,
        coords: torch.Tensor | None = None,
        sizes: Sizes = None,
        grid_shape: GridShape | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Update all points, see `PointBlock.forward`; packed samples of similar sizes together."""
        groups = group_by_size(sizes or (), _FILLING, None)
        if sizes is None or len(groups) == 1:
            return self._forward_together(points, coords, sizes, grid_shape)
        samples: list[torch.Tensor] = list(points.split(sizes))
        places = None if coords is None else coords.split(sizes)
        latents = samples.copy()
        for group in groups:
            own = tuple(sizes[number] for number in group)
            found, tokens = self._forward_together(
                torch.cat([samples[number] for number in group]),
                None if places is None else torch.cat([places[number] for number in group]),
                own,
                grid_shape,
            )
            for number, sample, token in zip(group, found.split(own), tokens.split(1), strict=True):
                samples[number], latents[number] = sample, token
        return torch.cat(samples), torch.cat(latents)

    def _forward_together(
        self, points: torch.Tensor, coords: torch.Tensor | None, sizes: Sizes, grid_shape: GridShape | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Update all points at once; they are normalised once, and logits that serve twice are computed once."""
        normed = self.norm_points(points)
        logits = self._logits(self.queries, self._rows(self.keys(normed), sizes), coords, sizes, 0)
        latents = self.mix(self._summary(normed, logits, sizes))
        if self.ask is not None and self.offer is not None:
            logits = self._logits(self.offer(latents), self._rows(self.ask(normed), sizes), coords, sizes, 1)
        return self._update(points, logits, latents, sizes), latents

    def encode(
        self,
        points: torch.Tensor,
        coords: torch.Tensor | None,
        sizes: Sizes = None,
        grid_shape: GridShape | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Attend to the points.

        Returns
        -------
        highest, masses : Tensor of shape (B, H, G)
            Highest logit of each latent token, and sum of the exponentials of all logits less the highest.
        sums : Tensor of shape (B, H, G, D)
            Values, weighted by these exponentials.
        """
        normed = self.norm_points(points)
        logits = self._logits(self.queries, self._rows(self.keys(normed), sizes), coords, sizes, 0)
        return self._summary(normed, logits, sizes)

    def merge(self, first: tuple[torch.Tensor, ...], second: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Combine the sums of two parts of the same samples, whose highest logits differ."""
        highest = torch.maximum(first[0], second[0])
        factors = [(own[0] - highest).exp() for own in (first, second)]
        masses = sum(own[1] * factor for own, factor in zip((first, second), factors, strict=True))
        sums = sum(own[2] * factor.unsqueeze(-1) for own, factor in zip((first, second), factors, strict=True))
        return highest, masses, sums  # type: ignore[return-value]

    def mix(self, summary: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Compute latent tokens ``(B, G, E)`` from the sums, and transform them."""
        _, masses, sums = summary
        tokens = self.gather((sums / masses.unsqueeze(-1)).transpose(1, 2).flatten(2))
        tokens = self.transform(tokens + self.latent_mlp(tokens))
        return self.norm_latents(tokens)

    def decode(
        self,
        points: torch.Tensor,
        coords: torch.Tensor | None,
        latents: torch.Tensor,
        sizes: Sizes = None,
        grid_shape: GridShape | None = None,
    ) -> torch.Tensor:
        """Let points, which need not be those of the summary, attend to the latent tokens of their samples."""
        normed = self.norm_points(points)
        if self.ask is None or self.offer is None:
            logits = self._logits(self.queries, self._rows(self.keys(normed), sizes), coords, sizes, 0)
        else:
            logits = self._logits(self.offer(latents), self._rows(self.ask(normed), sizes), coords, sizes, 1)
        return self._update(points, logits, latents, sizes)

    def _update(self, points: torch.Tensor, logits: torch.Tensor, latents: torch.Tensor, sizes: Sizes) -> torch.Tensor:
        """Add to the points what they read by logits (B, H, G, P), and what they make of it."""
        read = logits.softmax(dim=-2).mT @ self._heads(self.give(latents))
        read = read.transpose(1, 2).flatten(2)
        if sizes is not None:
            read = padding_of(sizes, points.device).take(read).squeeze(0)
        points = note_features("mixer", points + self.dropout(self.spread(read), sizes))
        return note_features("mlp", points + self.dropout(self.mlp(self.norm_mlp(points)), sizes))

    def _summary(self, normed: torch.Tensor, logits: torch.Tensor, sizes: Sizes) -> tuple[torch.Tensor, ...]:
        """Sums of `encode` from the normalised points and logits (B, H, G, P)."""
        if sizes is not None:
            is_point = padding_of(sizes, normed.device).is_token
            logits = logits.masked_fill(~is_point[:, None, None], -math.inf)
        highest = logits.amax(dim=-1).detach()
        weights = (logits - highest.unsqueeze(-1)).exp()
        return highest, weights.sum(dim=-1), weights @ self._heads(self._rows(self.values(normed), sizes))

    def _logits(
        self, queries: torch.Tensor, keys: torch.Tensor, coords: torch.Tensor | None, sizes: Sizes, number: int
    ) -> torch.Tensor:
        """Logits (B, H, G, P) of latent tokens and points; those of centred heads fall with the squared distance."""
        logits = self._heads(queries) @ self._heads(keys).mT * (queries.shape[-1] / self.n_heads) ** -0.5
        if self.centres is None or self.log_sharpness is None:
            return logits
        if coords is None:
            raise ValueError("n_centred_heads > 0 needs the coordinates of the points, but coords is None; pass them.")
        offsets = self.centres.unsqueeze(1) - self._rows(coords, sizes).unsqueeze(-3)
        centred = self.log_sharpness.shape[1]
        factors = (2 * self.log_sharpness[min(number, len(self.log_sharpness) - 1)]).exp()[:, None, None] / 2
        near = logits[:, :centred] - offsets.square().sum(dim=-1).unsqueeze(-3) * factors
        return torch.cat([near, logits[:, centred:]], dim=1)

    @staticmethod
    def _rows(tokens: torch.Tensor, sizes: Sizes) -> torch.Tensor:
        """Bring packed points (T, ...) into rows (B, L, ...), with zeros behind the shorter samples."""
        return tokens if sizes is None else padding_of(sizes, tokens.device).fill(tokens.unsqueeze(0))

    def _heads(self, tokens: torch.Tensor) -> torch.Tensor:
        """Split tokens (..., L, E) into heads (..., H, L, D)."""
        return tokens.unflatten(-1, (self.n_heads, -1)).transpose(-3, -2)
