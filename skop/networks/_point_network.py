"""Base class of the networks on points, whose samples have any number of points in any order or on a structured mesh.

Notation: B samples, P points, T points of all samples of a packed batch, Q query points, d space dimensions,
c channels, p global parameters, q output channels, s scalars, E width.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules import FeedForward, PointBlock, PooledHead, note_features
from skop.networks._channels import (
    add_waves,
    count_samples,
    distances_from_grid,
    join_channels,
    repeat_on_points,
)
from skop.networks._interface import OperatorNetwork, Outputs

__all__ = ["PointNetwork"]

#: Number of points that are processed at once in inference without gradients.
_CHUNK_SIZE = 2**15
_EMBEDDINGS, _INITS = ("channels", "sinusoidal"), ("default", "trunc_normal")


class PointNetwork(OperatorNetwork):
    """Network on points: the points are lifted to features, updated in residual blocks, and mapped to outputs.

    The blocks exchange information between the points, see `skop.modules.PointBlock`. This class adds what all networks
    on points need: packed samples of different sizes, query points, which pass through the same blocks, and pooling for
    scalars. Without gradients, points are processed in chunks, so that a sample takes little more memory than its
    features. Sizes have no default values. Optional parts are omitted by default.

    Parameters
    ----------
    make_blocks : callable
        Function without arguments that returns all blocks, an iterable of `skop.modules.PointBlock`. It is called once,
        after the initial weights of the lifting were drawn and before those of the heads.
    n_dims : int
        Number of space dimensions; coordinates are always input channels.
    n_fields, n_params : int
        Number of input channels and of global parameters.
    n_outputs : int
        Number of output channels; 0 for no field.
    n_scalars : int
        Number of scalars, predicted from the mean of the points' features; 0 for none.
    width : int
        Size of a point's features.
    structured : bool, default=False
        Whether the points form a structured mesh of 1 to 3 axes in C order, of which the blocks make use. Packed
        samples and query points are then not supported.
    n_frequencies : int, default=0
        Number of frequencies pi, 2 pi, 4 pi, ... whose sines and cosines of the coordinates are further input channels.
    reference_size : int, default=0
        Number of points along each axis of a reference grid in the unit box, whose distances from a point are input
        channels instead of its coordinates and their waves; 0 keeps the coordinates.
    position_network : bool, default=False
        Whether the coordinates pass through a network of their own, to which a linear map of the other channels is
        added (AMO, Eq. 3); otherwise all channels pass through one network.
    parameter_embedding : {"channels", "sinusoidal"}, default="channels"
        Embedding of the global parameters: as input channels of every point, or as sines and cosines that pass through
        a small network and are added to the features of every point.
    weight_init : {"default", "trunc_normal"}, default="default"
        Initial distribution of the linear layers: PyTorch's default, or a truncated normal distribution of standard
        deviation 0.02 with biases of zero. Modules whose attribute `keeps_init` is true are not changed.

    Raises
    ------
    ValueError
        If a structured mesh has more than 3 axes, or an option has an unknown value.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import FeedForward, HydraMixer, LatentBlock, LatentPooling
    >>> from skop.networks import PointNetwork
    >>> def make_blocks():
    ...     yield LatentBlock(HydraMixer(16, d_state=4), FeedForward(16, 32), LatentPooling(16, 6, 2), 16)
    >>> network = PointNetwork(make_blocks, n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=2, width=16)
    >>> outputs = network(torch.zeros(12, 2), torch.zeros(12, 1), None, sizes=(5, 7))
    >>> outputs.field.shape, outputs.scalars.shape
    (torch.Size([12, 1]), torch.Size([2, 2]))
    """

    def __init__(
        self,
        make_blocks: Callable[[], Iterable[PointBlock]],
        /,
        *,
        n_dims: int,
        n_fields: int,
        n_params: int,
        n_outputs: int,
        n_scalars: int,
        width: int,
        structured: bool = False,
        n_frequencies: int = 0,
        reference_size: int = 0,
        position_network: bool = False,
        parameter_embedding: str = "channels",
        weight_init: str = "default",
    ) -> None:
        super().__init__()
        if structured and n_dims not in (1, 2, 3):
            raise ValueError(f"a structured mesh has {n_dims} axes; expected 1 to 3, or structured=False.")
        if parameter_embedding not in _EMBEDDINGS:
            raise ValueError(f"parameter_embedding is {parameter_embedding!r}; expected one of {_EMBEDDINGS}.")
        if weight_init not in _INITS:
            raise ValueError(f"weight_init is {weight_init!r}; expected one of {_INITS}.")
        self.needs_grid = self.structured = structured
        self.supports_packed = self.supports_queries = not structured
        self.n_frequencies, self.reference_size, self.chunk_size = n_frequencies, reference_size, _CHUNK_SIZE
        self.is_sinusoidal = n_params > 0 and parameter_embedding == "sinusoidal"
        positions = reference_size**n_dims if reference_size else n_dims * (1 + 2 * n_frequencies)
        channels = positions + n_fields + (0 if self.is_sinusoidal else n_params)
        self.lifting: nn.Module
        if position_network:
            self.lifting = _PositionLifting(positions, channels - positions, width)
        else:
            self.lifting = nn.Sequential(nn.Linear(channels, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        # Learned input that replaces the fields of a structured mesh without any. It is always created, as in LaMO's
        # public code.
        self.placeholder = nn.Parameter(torch.rand(width) / width)
        self.parameter_embedding = _SinusoidalEmbedding(n_params, width) if self.is_sinusoidal else None
        self.blocks = nn.ModuleList(make_blocks())
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, n_outputs)) if n_outputs else None
        self.scalar_head = PooledHead(width, n_scalars) if n_scalars else None
        if weight_init == "trunc_normal":
            _draw_small_weights(self)

    def forward(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        grid_shape: GridShape | None = None,
        sizes: tuple[int, ...] | None = None,
        query_coords: torch.Tensor | None = None,
        query_fields: torch.Tensor | None = None,
    ) -> Outputs:
        """Map samples on points to fields, scalars, or both, see `OperatorNetwork.forward`."""
        self.check_arguments(coords, fields, params, grid_shape, sizes, query_coords, query_fields)
        samples = 1 if sizes else count_samples(coords, fields, params)
        if not (torch.is_grad_enabled() or self.structured) and samples * coords.shape[-2] > self.chunk_size:
            return self._forward_in_chunks(coords, fields, params, sizes, query_coords, query_fields)
        points = note_features("input", self._features(coords, fields, params, sizes))
        others = None if query_coords is None else self._features(query_coords, query_fields, params, None)
        for block in self._blocks():
            points, latents = block(points, coords, sizes, grid_shape)
            if others is not None:
                others = block.decode(others, query_coords, latents)
        return Outputs(
            None if self.head is None else self.head(points if others is None else others),
            None if self.scalar_head is None else _pool(self.scalar_head, points, sizes),
        )

    def _blocks(self) -> Iterator[PointBlock]:
        """The blocks, with their type for the type checker."""
        return iter(self.blocks)  # type: ignore[arg-type]

    def _features(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        sizes: tuple[int, ...] | None,
    ) -> torch.Tensor:
        """Lift the points to the features (B, P, E) or (T, E) that enter the first block."""
        if self.reference_size:
            coords = distances_from_grid(coords, self.reference_size)
        else:
            coords = add_waves(coords, self.n_frequencies)
        points = self.lifting(join_channels(coords, fields, None if self.is_sinusoidal else params, sizes))
        if fields is None or not self.structured:
            points = points + self.placeholder
        if self.parameter_embedding is None:
            return points
        return points + repeat_on_points(self.parameter_embedding(params), points.shape[-2], sizes)

    def _forward_in_chunks(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        sizes: tuple[int, ...] | None,
        query_coords: torch.Tensor | None,
        query_fields: torch.Tensor | None,
    ) -> Outputs:
        """Compute the outputs of `forward` sample by sample, each in chunks of points."""
        count = count_samples(coords, fields, params) if sizes is None else len(sizes)
        samples = zip(
            _split(coords, count, sizes),
            _split(fields, count, sizes),
            [None] * count if params is None else params.split(1),
            _split(query_coords, count, None),
            _split(query_fields, count, None),
            strict=True,
        )
        found = [self._sample_in_chunks(*own) for own in samples]
        found_fields = [own.field for own in found if own.field is not None]
        found_scalars = [own.scalars for own in found if own.scalars is not None]
        field = None
        if found_fields:
            field = torch.cat(found_fields) if sizes is None else torch.cat(found_fields, dim=1).squeeze(0)
        return Outputs(field, torch.cat(found_scalars) if found_scalars else None)

    def _sample_in_chunks(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        query_coords: torch.Tensor | None,
        query_fields: torch.Tensor | None,
    ) -> Outputs:
        """Compute the outputs of one sample, given as a batch of size one."""
        size = self.chunk_size
        groups = [(self._features_in_chunks(coords, fields, params), coords)]
        if query_coords is not None:
            groups.append((self._features_in_chunks(query_coords, query_fields, params), query_coords))
        for block in self._blocks():
            block.update_in_place(groups, size)
        points, wanted = groups[0][0], groups[-1][0]
        field = scalars = None
        if self.head is not None:
            field = torch.cat([self.head(chunk) for chunk in wanted.split(size, dim=1)], dim=1)
        if self.scalar_head is not None:
            sums = [self.scalar_head.norm(chunk).sum(dim=1) for chunk in points.split(size, dim=1)]
            scalars = self.scalar_head.linear(torch.stack(sums).sum(dim=0) / points.shape[1])
        return Outputs(field, scalars)

    def _features_in_chunks(
        self, coords: torch.Tensor, fields: torch.Tensor | None, params: torch.Tensor | None
    ) -> torch.Tensor:
        """Lift the points of one sample in chunks."""
        points = coords.new_empty(1, coords.shape[1], self.placeholder.numel())
        for start in range(0, coords.shape[1], self.chunk_size):
            chunk = slice(start, start + self.chunk_size)
            own_fields = None if fields is None else fields[:, chunk]
            points[:, chunk] = self._features(coords[:, chunk], own_fields, params, None)
        return points


class _PositionLifting(nn.Module):
    """Lifting of points: a network of coordinates and a linear map of the other channels, added up (AMO, Eq. 3)."""

    def __init__(self, n_positions: int, n_inputs: int, width: int) -> None:
        super().__init__()
        self.n_positions = n_positions
        self.positions = FeedForward(n_positions, width, out=width)
        self.inputs = nn.Linear(n_inputs, width) if n_inputs else None

    def forward(self, channels: torch.Tensor) -> torch.Tensor:
        """Lift the channels of points, of which the coordinates are the first."""
        features = self.positions(channels[..., : self.n_positions])
        return features if self.inputs is None else features + self.inputs(channels[..., self.n_positions :])


class _SinusoidalEmbedding(nn.Module):
    """Features of a sample from sines and cosines of its global parameters, as diffusion models embed time."""

    frequencies: torch.Tensor

    def __init__(self, n_params: int, width: int) -> None:
        super().__init__()
        half = width // 2
        self.register_buffer("frequencies", 10_000.0 ** (-torch.arange(half) / half), persistent=False)
        self.fc1, self.fc2 = nn.Linear(2 * half * n_params, width), nn.Linear(width, width)

    def forward(self, params: torch.Tensor) -> torch.Tensor:
        """Embed global parameters ``(B, p)`` as ``(B, width)``."""
        angles = params.unsqueeze(-1) * self.frequencies.to(params.dtype)
        waves = torch.cat([angles.cos(), angles.sin()], dim=-1).flatten(1)
        return self.fc2(nn.functional.silu(self.fc1(waves)))


def _draw_small_weights(network: nn.Module) -> None:
    """Initialise linear layers as LaMO's public code does, except in modules whose `keeps_init` is true."""
    kept = {part for module in network.modules() if getattr(module, "keeps_init", False) for part in module.modules()}
    for module in network.modules():
        if isinstance(module, nn.Linear) and module not in kept:
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def _split(part: torch.Tensor | None, count: int, sizes: tuple[int, ...] | None) -> Sequence[Any]:
    """Split an argument of `forward` into `count` samples, each as a batch of size one."""
    if part is None:
        return [None] * count
    if sizes is not None:
        return [own.unsqueeze(0) for own in part.split(sizes)]
    return [part.unsqueeze(0)] * count if part.ndim == 2 else part.expand(count, -1, -1).split(1)


def _pool(head: PooledHead, points: torch.Tensor, sizes: tuple[int, ...] | None) -> torch.Tensor:
    """Predict the scalars of the samples, (B, s)."""
    return head(points) if sizes is None else torch.cat([head(own.unsqueeze(0)) for own in points.split(sizes)])
