"""LaMO, the latent Mamba operator, on points and structured meshes.

Tiwari, Dutta, Krishnan and Prathosh, "Latent Mamba Operator for Partial Differential Equations", ICML
2025, section 3. In every block the points are pooled into latent tokens by learned weights (Eq. 9 and
10), a bidirectional state-space model mixes the tokens, and the points take mixtures of them (Eq. 14
and 15).

Letters of the shapes: B batch, P points, T points of all samples of a packed batch, Q query points,
d space dimensions, c channels, p parameters, q outputs, s scalars, E width.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules import BidirectionalSSDMixer, FeedForward, HydraMixer, LatentSlices, PooledHead, SliceBlock
from skop.networks._channels import NetworkOutput, count_samples, join_channels, join_outputs, repeat_on_points

__all__ = ["LaMOSliceNetwork"]

_MIXERS: dict[str, Callable[..., nn.Module]] = {"hydra": HydraMixer, "mamba2": BidirectionalSSDMixer}

#: Points that inference without gradients works on at a time.
_CHUNK_SIZE = 2**15


class LaMOSliceNetwork(nn.Module):
    """LaMO's slice model for points in any order and for structured meshes.

    Parameters
    ----------
    n_dims : int
        Space dimensions; coordinates are always input channels.
    n_fields, n_params : int
        Input channels and global parameters.
    n_outputs : int
        Output channels; 0 for no field.
    n_scalars : int, default=0
        Scalars of a sample, from the mean of its points' features; 0 for none.
    structured : bool, default=False
        Whether the points are a structured mesh of 1 to 3 axes in C order, on which values and queries
        come from convolutions over neighbouring points.
    n_latents, n_slice_heads : int, default=64, 8
        Latent tokens, and heads with weights of their own.
    width, depth : int, default=128, 8
        Size of the features and number of blocks (paper).
    mixer : {"hydra", "mamba2"}, default="hydra"
        What mixes the tokens: `skop.modules.HydraMixer` (public code for elasticity and airfoil) or
        `skop.modules.BidirectionalSSDMixer` (plasticity and pipe).
    shared_projections : bool, default=True
        Whether all blocks share what gives the weights and values of the slices (paper, Table 7).
    d_state, expand, n_heads
        See the mixers.
    mlp_ratio : float, default=1.0
        Hidden size of the feed-forward part as a multiple of `width`.
    temperature, normalize_slices, decoder
        See `skop.modules.LatentSlices`, where the second is called `normalize`.
    parameter_embedding : {"channels", "sinusoidal"}, default="channels"
        How parameters come in: as channels of every point, or as sines and cosines of each, passed by a
        small network and added to the features of every point (public code, for time).
    n_frequencies : int, default=0
        Sines and cosines of each coordinate beside it: pi, 2 pi, 4 pi, ...; the paper has none.
    n_local_heads : int, default=0
        Slice heads whose slices also have centres in the unit box, where coordinates should lie; see
        `skop.modules.LatentSlices`. The paper has none.
    small_weights : bool, default=True
        Draw linear layers from N(0, 0.02), except for shared slices, as the public code; otherwise by
        PyTorch's default, which lets points differ more at the start.
    dropout : float, default=0.0
        In the blocks.

    Raises
    ------
    ValueError
        If a size does not fit, or a name is unknown.

    Notes
    -----
    The output at a point does not depend on the order of the points, unless they are a structured mesh.
    Without gradients, points are worked on in chunks: a sample needs its features and little more.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import LaMOSliceNetwork
    >>> network = LaMOSliceNetwork(2, 1, 0, 1, width=16, depth=1, n_latents=4, n_slice_heads=2, d_state=4)
    >>> network(torch.zeros(50, 2), torch.zeros(3, 50, 1), None).shape
    torch.Size([3, 50, 1])
    """

    def __init__(
        self,
        n_dims: int,
        n_fields: int,
        n_params: int,
        n_outputs: int,
        *,
        n_scalars: int = 0,
        structured: bool = False,
        n_latents: int = 64,
        n_slice_heads: int = 8,
        width: int = 128,
        depth: int = 8,
        mixer: str = "hydra",
        shared_projections: bool = True,
        d_state: int = 64,
        expand: int = 2,
        n_heads: int | None = None,
        mlp_ratio: float = 1.0,
        temperature: float = 0.5,
        normalize_slices: bool = True,
        decoder: str = "encoder_weights",
        parameter_embedding: str = "channels",
        n_frequencies: int = 0,
        n_local_heads: int = 0,
        small_weights: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _check_names(structured, n_dims, mixer, parameter_embedding)
        self.structured, self.n_frequencies, self.chunk_size = structured, n_frequencies, _CHUNK_SIZE
        self.is_sinusoidal = n_params > 0 and parameter_embedding == "sinusoidal"
        channels = n_dims * (1 + 2 * n_frequencies) + n_fields + (0 if self.is_sinusoidal else n_params)
        self.stem = nn.Sequential(nn.Linear(channels, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        # On a structured mesh it stands in for the field; the public code creates it in every case.
        self.placeholder = nn.Parameter(torch.rand(width) / width)
        self.embedding = _ParameterEmbedding(n_params, width) if self.is_sinusoidal else None
        options: dict[str, Any] = {"n_grid_axes": n_dims if structured else None, "temperature": temperature}
        options |= {"normalize": normalize_slices, "decoder": decoder, "n_local_heads": n_local_heads}
        self.slices = nn.ModuleList(
            LatentSlices(width, n_latents, n_slice_heads, n_dims=n_dims, **options)
            for _ in range(1 if shared_projections else depth)
        )
        self.blocks = nn.ModuleList(
            SliceBlock(
                _MIXERS[mixer](width, d_state=d_state, expand=expand, n_heads=n_heads),
                FeedForward(width, int(mlp_ratio * width), dropout),
                width,
                dropout,
            )
            for _ in range(depth)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, n_outputs)) if n_outputs else None
        self.scalar_head = PooledHead(width, n_scalars) if n_scalars else None
        if small_weights:
            _initialize(self, kept=self.slices if shared_projections else None)

    def forward(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        grid_shape: GridShape | None = None,
        sizes: tuple[int, ...] | None = None,
        query_coords: torch.Tensor | None = None,
        query_fields: torch.Tensor | None = None,
    ) -> NetworkOutput:
        """Map samples on points to fields, scalars, or both.

        Parameters
        ----------
        coords : Tensor of shape (P, d) or (B, P, d), or (T, d) with `sizes`
            Coordinates.
        fields : Tensor of shape (B, P, c), or (T, c) with `sizes`, or None
            Input fields.
        params : Tensor of shape (B, p) or None
            Global parameters.
        grid_shape : tuple of int or None, default=None
            Points along each axis of a structured mesh; not used otherwise.
        sizes : tuple of int or None, default=None
            Points of each sample, for samples of different sizes one after the other.
        query_coords : Tensor of shape (Q, d) or (B, Q, d), or None, default=None
            Where outputs are wanted, if not at the points of the input; not on structured meshes.
        query_fields : Tensor of shape (B, Q, c) or None, default=None
            Input fields there.

        Returns
        -------
        Tensor of shape (B, P, q), (B, Q, q) or (T, q), or of shape (B, 1, s), or a tuple of both
            Outputs: a field, the scalars of the samples, or both.

        Raises
        ------
        ValueError
            If the arguments do not fit each other.
        """
        self._check_inputs(coords, fields, grid_shape, sizes, query_coords, query_fields)
        samples = 1 if sizes else count_samples(coords, fields, params)
        if not (torch.is_grad_enabled() or self.structured) and samples * coords.shape[-2] > self.chunk_size:
            return self._forward_in_chunks(coords, fields, params, sizes, query_coords, query_fields)
        points = self._features(coords, fields, params, sizes)
        others = None if query_coords is None else self._features(query_coords, query_fields, params, None)
        for block, slices in self._layers():
            points, tokens = block(points, slices, sizes, grid_shape, coords)
            if others is not None:
                others = block.advance(others, tokens, slices, query_coords)
        return join_outputs(
            None if self.head is None else self.head(points if others is None else others),
            None if self.scalar_head is None else _pool(self.scalar_head, points, sizes),
        )

    def _layers(self) -> Iterator[tuple[SliceBlock, LatentSlices]]:
        """Blocks, each with its slices."""
        repeats = len(self.blocks) if len(self.slices) == 1 else 1
        return zip(self.blocks, [*self.slices] * repeats, strict=True)  # type: ignore[arg-type]

    def _features(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        sizes: tuple[int, ...] | None,
    ) -> torch.Tensor:
        """First features of the points, (B, P, E) or (T, E)."""
        coords = _add_waves(coords, self.n_frequencies)
        points = self.stem(join_channels(coords, fields, None if self.is_sinusoidal else params, sizes))
        if fields is None or not self.structured:
            points = points + self.placeholder
        if self.embedding is None:
            return points
        return points + repeat_on_points(self.embedding(params), points.shape[-2], sizes)

    def _check_inputs(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        grid_shape: GridShape | None,
        sizes: tuple[int, ...] | None,
        query_coords: torch.Tensor | None,
        query_fields: torch.Tensor | None,
    ) -> None:
        """Raise ValueError where arguments do not fit each other."""
        if self.structured and (sizes is not None or query_coords is not None):
            raise ValueError(
                "a network of structured meshes got packed samples or query points; give samples on one mesh, or "
                "build the network with structured=False."
            )
        if self.structured and (grid_shape is None or math.prod(grid_shape) != coords.shape[-2]):
            raise ValueError(f"grid_shape is {grid_shape} for a structured mesh of {coords.shape[-2]} points.")
        if sizes is not None and (query_coords is not None or sum(sizes) != len(coords) or min(sizes, default=0) < 1):
            raise ValueError(
                f"sizes of {len(sizes)} samples add up to {sum(sizes)} points of {len(coords)}; expected at least one "
                "point for each sample, all of them, and no query points."
            )
        if query_coords is not None and (fields is None) != (query_fields is None):
            raise ValueError("give fields at the query points exactly where the points of the input have them.")

    def _forward_in_chunks(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        sizes: tuple[int, ...] | None,
        query_coords: torch.Tensor | None,
        query_fields: torch.Tensor | None,
    ) -> NetworkOutput:
        """What `forward` gives, one sample after the other and each in chunks of points."""
        count = count_samples(coords, fields, params) if sizes is None else len(sizes)
        samples = zip(
            _split(coords, count, sizes),
            _split(fields, count, sizes),
            [None] * count if params is None else params.split(1),
            _split(query_coords, count, None),
            _split(query_fields, count, None),
            strict=True,
        )
        found_fields, found_scalars = zip(*(self._sample_in_chunks(*own) for own in samples), strict=True)
        field = None
        if self.head is not None:
            field = torch.cat(found_fields) if sizes is None else torch.cat(found_fields, dim=1).squeeze(0)
        return join_outputs(field, None if self.scalar_head is None else torch.cat(found_scalars))

    def _sample_in_chunks(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        query_coords: torch.Tensor | None,
        query_fields: torch.Tensor | None,
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Field and scalars of one sample, whose tensors all have a first axis of length one."""
        size = self.chunk_size
        groups = [(self._features_in_chunks(coords, fields, params), coords)]
        if query_coords is not None:
            groups.append((self._features_in_chunks(query_coords, query_fields, params), query_coords))
        for block, slices in self._layers():
            block.advance_in_place(groups, slices, size)
        points, wanted = groups[0][0], groups[-1][0]
        field = scalars = None
        if self.head is not None:
            field = torch.cat([self.head(chunk) for chunk in wanted.split(size, dim=1)], dim=1)
        if self.scalar_head is not None:
            sums = [self.scalar_head.norm(chunk).sum(dim=1, keepdim=True) for chunk in points.split(size, dim=1)]
            scalars = self.scalar_head.linear(torch.stack(sums).sum(dim=0) / points.shape[1])
        return field, scalars

    def _features_in_chunks(
        self, coords: torch.Tensor, fields: torch.Tensor | None, params: torch.Tensor | None
    ) -> torch.Tensor:
        """First features of one sample's points, which only the result holds all at once."""
        points = coords.new_empty(1, coords.shape[1], self.placeholder.numel())
        for start in range(0, coords.shape[1], self.chunk_size):
            chunk = slice(start, start + self.chunk_size)
            own_fields = None if fields is None else fields[:, chunk]
            points[:, chunk] = self._features(coords[:, chunk], own_fields, params, None)
        return points


class _ParameterEmbedding(nn.Module):
    """Features of a sample from sines and cosines of its parameters, as diffusion models embed time."""

    frequencies: torch.Tensor

    def __init__(self, n_params: int, width: int) -> None:
        super().__init__()
        half = width // 2
        self.register_buffer("frequencies", 10_000.0 ** (-torch.arange(half) / half), persistent=False)
        self.hidden, self.out = nn.Linear(2 * half * n_params, width), nn.Linear(width, width)

    def forward(self, params: torch.Tensor) -> torch.Tensor:
        """Embed parameters ``(B, p)`` as ``(B, width)``."""
        angles = params.unsqueeze(-1) * self.frequencies.to(params.dtype)
        waves = torch.cat([angles.cos(), angles.sin()], dim=-1).flatten(1)
        return self.out(nn.functional.silu(self.hidden(waves)))


def _check_names(structured: bool, n_dims: int, mixer: str, parameter_embedding: str) -> None:
    """Raise ValueError for what the network cannot be built of."""
    if structured and n_dims not in (1, 2, 3):
        raise ValueError(f"a structured mesh has {n_dims} axes; expected 1 to 3, or structured=False.")
    if mixer not in _MIXERS:
        raise ValueError(f"mixer is {mixer!r}; expected one of {tuple(_MIXERS)}.")
    if parameter_embedding not in ("channels", "sinusoidal"):
        raise ValueError(f"parameter_embedding is {parameter_embedding!r}; expected 'channels' or 'sinusoidal'.")


def _initialize(network: nn.Module, kept: nn.Module | None) -> None:
    """Draw linear layers as the public code does, except for slices that all blocks share."""
    spared = set() if kept is None else set(kept.modules())
    for module in network.modules():
        if isinstance(module, nn.Linear) and module not in spared:
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def _add_waves(coords: torch.Tensor, n_frequencies: int) -> torch.Tensor:
    """Coordinates (..., d) with sines and cosines of each beside them."""
    if n_frequencies == 0:
        return coords
    frequencies = math.pi * 2.0 ** torch.arange(n_frequencies, dtype=coords.dtype, device=coords.device)
    angles = (coords.unsqueeze(-1) * frequencies).flatten(-2)
    return torch.cat([coords, angles.sin(), angles.cos()], dim=-1)


def _split(part: torch.Tensor | None, count: int, sizes: tuple[int, ...] | None) -> Sequence[Any]:
    """What each of so many samples has of an argument of `forward`, with a first axis of length one."""
    if part is None:
        return [None] * count
    if sizes is not None:
        return [own.unsqueeze(0) for own in part.split(sizes)]
    return [part.unsqueeze(0)] * count if part.ndim == 2 else part.expand(count, -1, -1).split(1)


def _pool(head: PooledHead, points: torch.Tensor, sizes: tuple[int, ...] | None) -> torch.Tensor:
    """Scalars of the samples, (B, 1, s)."""
    return head(points) if sizes is None else torch.cat([head(own.unsqueeze(0)) for own in points.split(sizes)])
