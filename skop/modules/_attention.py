"""Attention mixers: softmax, Galerkin-type, Fourier-type and normalised linear attention, each with a cross form.

Notation: B samples, L tokens that ask, M tokens that are read, E width, H heads, D channels of a head, d space
dimensions.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules._feature_maps import note_mixing
from skop.modules._mixer import Probe, Stream, TokenMixer
from skop.modules._packing import Padding, padding_of

__all__ = ["AttentionMixer", "FourierAttention", "GalerkinAttention", "NormalizedLinearAttention", "SoftmaxAttention"]

_CHOICES = {
    "positions": ("rotary", "concatenate", None),
    "norm": ("layer", "instance", None),
    "init": ("xavier", "orthogonal", None),
}
_PARTS = ("query", "key", "value")
#: Base of the frequencies of rotary positions, as in language models.
_ROTARY_BASE = 10_000.0


class AttentionMixer(TokenMixer):
    """Base of the attention mixers; a subclass defines `attend`, and names the parts that it normalises.

    Parameters
    ----------
    width : int
        Size of a token.
    n_dims : int, default=1
        Axes of the token grid. The tokens of a grid are read as a set.
    n_references : int, default=0
        Reference streams; 0 lets the tokens read one another. What is read from several is added.
    n_heads : int or None, default=None
        Heads; None gives heads of about 16 channels, as many as divide `width`.
    head_width : int or None, default=None
        Channels of a head; None is width / n_heads.
    bias : bool, default=True
        Whether the maps to queries, keys and values have biases.
    project_out : bool, default=True
        Whether a linear layer follows.
    norm : {"layer", "instance", None}, default=None
        Normalisation of the parts that the kind of attention normalises: over the channels of a token and head, over
        the tokens of a sample, or none.
    norm_affine : bool, default=True
        Whether the normalisation has weights and biases, for each head.
    norm_eps : float, default=1e-5
        Number added to variances.
    positions : {"rotary", "concatenate", None}, default=None
        Way in for the places of the tokens: queries and keys are turned by angles that grow with the coordinates, so
        that their products depend on differences of places; or coordinates become further channels of queries, keys
        and values; or they stay out.
    n_coords : int, default=0
        Coordinates of a token, where `positions` are read.
    rotary_scale : float, default=1.0
        Factor of the coordinates in the angles.
    init : {"xavier", "orthogonal", None}, default=None
        Distribution of the maps to queries, keys and values at the start, of small size, to which a multiple of the
        identity is added; biases are 0. None is PyTorch's.
    init_gain : float, default=0.01
        Size of the random part.
    diagonal : float, default=0.01
        Multiple of the identity.
    init_parts : sequence of {"query", "key", "value"}, default=("query", "key", "value")
        Maps that `init` is for.
    dropout : float, default=0.0
        Dropout of the output.

    Raises
    ------
    ValueError
        If `n_heads` does not divide `width`, an option has no such value, or two options do not fit each other.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import GalerkinAttention, Stream
    >>> cross = GalerkinAttention(16, n_references=1, n_heads=2, norm="layer", positions="rotary", n_coords=2)
    >>> places, reference = torch.rand(1, 12, 2), Stream(torch.rand(1, 7, 16), torch.rand(1, 7, 2))
    >>> cross(torch.rand(1, 12, 16), coords=places, references=[reference]).shape
    torch.Size([1, 12, 16])
    """

    takes_streams = True
    #: Parts that `norm` normalises.
    normed: tuple[str, ...] = ()

    def __init__(
        self,
        width: int,
        n_dims: int = 1,
        *,
        n_references: int = 0,
        n_heads: int | None = None,
        head_width: int | None = None,
        bias: bool = True,
        project_out: bool = True,
        norm: str | None = None,
        norm_affine: bool = True,
        norm_eps: float = 1e-5,
        positions: str | None = None,
        n_coords: int = 0,
        rotary_scale: float = 1.0,
        init: str | None = None,
        init_gain: float = 0.01,
        diagonal: float = 0.01,
        init_parts: Sequence[str] = _PARTS,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for name, value in (("positions", positions), ("norm", norm), ("init", init)):
            if value not in _CHOICES[name]:
                raise ValueError(f"{name} is {value!r}; expected one of {_CHOICES[name]}.")
        heads = _heads(width) if n_heads is None else n_heads
        if head_width is None and width % heads:
            raise ValueError(f"n_heads={heads} does not divide the width {width}; set one that does, or head_width.")
        channels = width // heads if head_width is None else head_width
        self.n_references, self.n_heads, self.head_width = n_references, heads, channels
        # A normalisation over the tokens of a sample takes them one by one.
        self.packs = norm != "instance"
        self.positions, self.n_coords, self.rotary_scale = positions, n_coords, rotary_scale
        inner = heads * channels
        read = max(n_references, 1)
        self.query = nn.Linear(width, inner, bias=bias)
        self.keys = nn.ModuleList(nn.Linear(width, inner, bias=bias) for _ in range(read))
        self.values = nn.ModuleList(nn.Linear(width, inner, bias=bias) for _ in range(read))
        if init is not None:
            maps: dict[str, list[Any]] = {"query": [self.query], "key": [*self.keys], "value": [*self.values]}
            for layer in (own for part in init_parts for own in maps[part]):
                _draw_diagonal(layer, heads, init, init_gain, diagonal)
        self.norms = nn.ModuleDict()
        if norm is not None:
            for part in self.normed:
                self.norms[part] = _HeadNorm(heads, channels, norm, norm_affine, norm_eps)
        joined = inner + heads * n_coords * (positions == "concatenate")
        if positions == "concatenate" and not project_out:
            raise ValueError("positions='concatenate' widens the tokens, so that project_out=False is not possible.")
        self.out_projection = nn.Linear(joined, width) if project_out else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, padding: Padding | None = None
    ) -> torch.Tensor:
        """Return what queries ``(B, H, L, D)`` read of keys and values ``(B, H, M, D)``.

        With `padding`, these are 0 where it has no tokens, and must have no influence there.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define attend(query, key, value, padding).")

    def mix(
        self,
        tokens: torch.Tensor,
        grid: GridShape | None,
        coords: torch.Tensor | None = None,
        references: Sequence[Stream] = (),
        sizes: tuple[int, ...] | None = None,
    ) -> torch.Tensor:
        """Mix tokens ``(B, L, width)``, or packed ones ``(1, T, width)``, at their places, which all count alike."""
        streams = references or [Stream(tokens, coords, sizes)]
        query = self._placed(self._heads_of(self.query(tokens), "query"), coords)
        read = self._own_part(query)
        for to_key, to_value, stream in zip(self.keys, self.values, streams, strict=True):
            key = self._placed(self._heads_of(to_key(stream.tokens), "key"), stream.coords)
            value = self._heads_of(to_value(stream.tokens), "value")
            if self.positions == "concatenate":
                value = self._placed(value, stream.coords)
            attend = partial(self._attend_within, query, key, sizes=sizes, read_sizes=stream.sizes)
            found = note_mixing(attend, value, axis=2)
            read = found if read is None else read + found
        return self.dropout(self.out_projection(read.transpose(1, 2).flatten(2)))  # type: ignore[union-attr]

    def probe(
        self,
        tokens: torch.Tensor,
        probe: Probe,
        coords: torch.Tensor | None = None,
        references: Sequence[Stream] = (),
    ) -> torch.Tensor:
        """Return what other tokens read of the same keys and values."""
        return self.mix(probe.tokens, None, probe.coords, references or [Stream(tokens, coords)])

    def _attend_within(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        sizes: tuple[int, ...] | None,
        read_sizes: tuple[int, ...] | None,
    ) -> torch.Tensor:
        """What queries (1, H, T, D) of packed samples read of the keys and values of their own sample."""
        if sizes is None or read_sizes is None:
            return self.attend(query, key, value)
        own, read = padding_of(sizes, query.device), padding_of(read_sizes, query.device)
        query = own.fill(query.transpose(1, 2)).transpose(1, 2)
        key, value = (read.fill(heads.transpose(1, 2)).transpose(1, 2) for heads in (key, value))
        return own.take(self.attend(query, key, value, read).transpose(1, 2)).transpose(1, 2)

    def _own_part(self, query: torch.Tensor) -> torch.Tensor | None:
        """What of the queries themselves is added to what they read; nothing by default."""
        return None

    def _heads_of(self, tokens: torch.Tensor, part: str) -> torch.Tensor:
        """Tokens (B, M, H D) by heads, (B, H, M, D), normalised where this part is."""
        heads = tokens.unflatten(-1, (self.n_heads, self.head_width)).transpose(1, 2)
        return self.norms[part](heads) if part in self.norms else heads

    def _placed(self, heads: torch.Tensor, coords: torch.Tensor | None) -> torch.Tensor:
        """Heads (B, H, M, D) with their places (B, M, d) worked in."""
        if self.positions is None:
            return heads
        if coords is None or coords.shape[-1] != self.n_coords:
            given = None if coords is None else coords.shape[-1]
            raise ValueError(
                f"{type(self).__name__} was built with positions={self.positions!r} of {self.n_coords} coordinates but "
                f"got {given}; give coords of the tokens and of the references."
            )
        if self.positions == "concatenate":
            return torch.cat([coords.unsqueeze(1).expand(-1, heads.shape[1], -1, -1), heads], dim=-1)
        return _rotate(heads, coords * self.rotary_scale)


class SoftmaxAttention(AttentionMixer):
    """Softmax attention, whose time grows with the square of the number of tokens; `norm` is for queries and keys.

    Parameters
    ----------
    width, n_dims, n_references, n_heads, head_width, bias, project_out, norm, norm_affine, norm_eps, positions, \
    n_coords, rotary_scale, init, init_gain, diagonal, init_parts, dropout
        See `AttentionMixer`.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import SoftmaxAttention
    >>> SoftmaxAttention(16, n_heads=2)(torch.zeros(1, 12, 16)).shape
    torch.Size([1, 12, 16])
    """

    normed = ("query", "key")

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, padding: Padding | None = None
    ) -> torch.Tensor:
        """Return the means of the values, weighted by the softmax of the scaled products."""
        mask = None if padding is None else padding.is_token[:, None, None]
        return nn.functional.scaled_dot_product_attention(query, key, value, mask)


class GalerkinAttention(AttentionMixer):
    """Galerkin-type attention: queries times the mean product of keys and values; `norm` is for these two.

    Time and memory are linear in the number of tokens.

    Parameters
    ----------
    width, n_dims, n_references, n_heads, head_width, bias, project_out, norm, norm_affine, norm_eps, positions, \
    n_coords, rotary_scale, init, init_gain, diagonal, init_parts, dropout
        See `AttentionMixer`.

    References
    ----------
    S. Cao, "Choose a Transformer: Fourier or Galerkin", NeurIPS 2021, with layer normalisation and a diagonal start.

    Z. Li, K. Meidani, A. B. Farimani, "Transformer for Partial Differential Equations' Operator Learning", TMLR 2023,
    with rotary positions; its public code normalises the channels of a token, which is ``norm="layer"``.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import GalerkinAttention
    >>> GalerkinAttention(16, n_heads=2, norm="layer", init="xavier")(torch.zeros(1, 12, 16)).shape
    torch.Size([1, 12, 16])
    """

    normed = ("key", "value")

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, padding: Padding | None = None
    ) -> torch.Tensor:
        """Return queries times the mean of the products of keys and values."""
        return query @ (key.mT @ value / _count(key, padding))


class FourierAttention(AttentionMixer):
    """Fourier-type attention: the mean of the values, weighted by scaled products; `norm` is for queries and keys.

    Without a softmax the products of keys and values can be taken first, so that time and memory are linear in the
    number of tokens.

    Parameters
    ----------
    width, n_dims, n_references, n_heads, head_width, bias, project_out, norm, norm_affine, norm_eps, positions, \
    n_coords, rotary_scale, init, init_gain, diagonal, init_parts, dropout
        See `AttentionMixer`.

    References
    ----------
    S. Cao, "Choose a Transformer: Fourier or Galerkin", NeurIPS 2021.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import FourierAttention
    >>> FourierAttention(16, n_heads=2, norm="layer", init="xavier")(torch.zeros(1, 12, 16)).shape
    torch.Size([1, 12, 16])
    """

    normed = ("query", "key")

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, padding: Padding | None = None
    ) -> torch.Tensor:
        """Return queries times the mean of the products of keys and values, over the root of the channels."""
        return query @ (key.mT @ value / (_count(key, padding) * query.shape[-1] ** 0.5))


class NormalizedLinearAttention(AttentionMixer):
    """GNOT's linear attention: softmax of queries and of keys over the channels, weights that add up to one.

    The softmaxed queries are added to what they read.

    Parameters
    ----------
    width, n_dims, n_references, n_heads, dropout
        See `AttentionMixer`.

    References
    ----------
    Z. Hao et al., "GNOT: A General Neural Operator Transformer for Operator Learning", ICML 2023.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import NormalizedLinearAttention
    >>> NormalizedLinearAttention(16, n_heads=2)(torch.zeros(1, 12, 16)).shape
    torch.Size([1, 12, 16])
    """

    def __init__(
        self, width: int, n_dims: int = 1, *, n_references: int = 0, n_heads: int | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__(width, n_dims, n_references=n_references, n_heads=n_heads, dropout=dropout)

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, padding: Padding | None = None
    ) -> torch.Tensor:
        """Return the means of the values, weighted by products of softmaxed queries and keys."""
        query, key = query.softmax(dim=-1), key.softmax(dim=-1)
        if padding is not None:
            key = key * padding.is_token[:, None, :, None]
        total = (query * key.sum(dim=-2, keepdim=True)).sum(dim=-1, keepdim=True)
        return query @ (key.mT @ value) / total

    def _own_part(self, query: torch.Tensor) -> torch.Tensor:
        """The softmaxed queries."""
        return query.softmax(dim=-1)


class _HeadNorm(nn.Module):
    """Normalisation of heads (B, H, M, D), over their channels or over the tokens."""

    def __init__(self, n_heads: int, channels: int, kind: str, affine: bool, eps: float) -> None:
        super().__init__()
        self.axis, self.eps = -1 if kind == "layer" else -2, eps
        self.weight = nn.Parameter(torch.ones(n_heads, channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(n_heads, channels)) if affine else None

    #: Scales and shifts, one for each head: weight decay leaves them alone unless it is asked not to.
    @property
    def no_weight_decay(self) -> tuple[str, ...]:
        """Names of the scales and shifts."""
        return () if self.weight is None else ("weight", "bias")

    def forward(self, heads: torch.Tensor) -> torch.Tensor:
        """Normalise heads."""
        centred = heads - heads.mean(dim=self.axis, keepdim=True)
        normed = centred * (centred.square().mean(dim=self.axis, keepdim=True) + self.eps).rsqrt()
        if self.weight is None or self.bias is None:
            return normed
        return normed * self.weight.unsqueeze(-2) + self.bias.unsqueeze(-2)


def _count(key: torch.Tensor, padding: Padding | None) -> int | torch.Tensor:
    """Number of keys (B, H, M, D), in the samples of a padding (B, 1, 1, 1)."""
    return key.shape[-2] if padding is None else padding.counts[:, None, None, None].to(key.dtype)


def _heads(width: int) -> int:
    """As many heads as give each about 16 channels."""
    return next(heads for heads in range(max(width // 16, 1), 0, -1) if width % heads == 0)


def _rotate(heads: torch.Tensor, coords: torch.Tensor) -> torch.Tensor:
    """Turn channels of heads (B, H, M, D) in pairs, by angles that grow with the coordinates (B, M, d)."""
    # Each coordinate has an equal part of the channels, of which the first half is paired with the second; channels
    # that are left over are not turned.
    n_dims, channels = coords.shape[-1], heads.shape[-1]
    half = channels // (2 * n_dims)
    steps = torch.arange(half, dtype=coords.dtype, device=coords.device) / max(half, 1)
    angles = (coords.unsqueeze(-1) * _ROTARY_BASE**-steps).unsqueeze(1)  # (B, 1, M, d, half)
    turned, rest = heads.split([2 * n_dims * half, channels - 2 * n_dims * half], dim=-1)
    first, second = turned.unflatten(-1, (n_dims, 2, half)).unbind(-2)
    cosine, sine = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
    pairs = torch.stack([first * cosine - second * sine, second * cosine + first * sine], dim=-2)
    return torch.cat([pairs.flatten(-3), rest], dim=-1)


def _draw_diagonal(layer: nn.Linear, n_heads: int, init: str, gain: float, diagonal: float) -> None:
    """Draw a map to heads as small random numbers plus a multiple of the identity."""
    with torch.no_grad():
        if init == "xavier":
            nn.init.xavier_uniform_(layer.weight, gain)
            layer.weight.diagonal().add_(diagonal)
        else:
            for own in layer.weight.view(n_heads, -1, layer.in_features):
                nn.init.orthogonal_(own, gain)
                own.diagonal().add_(diagonal)
        if layer.bias is not None:
            layer.bias.zero_()
