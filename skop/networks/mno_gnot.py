"""GNOT, the general neural operator transformer, with attention or with MNO's selective scans in its place.

Z. Hao et al., "GNOT: A General Neural Operator Transformer for Operator Learning", ICML 2023; C.-W. Cheng et al.,
"Mamba Neural Operator: Who Wins? Transformers vs. State-Space Models for PDEs", 2024 (MNO). The trunk encodes the query
points and the parameters, a branch encodes each input function; in every block the query points read the branches,
then one another, and after each a mixture of experts, gated by position, maps every point.

The public code hands selective scans all input functions and reads the first; here all are read.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from skop.modules import LocalConvolution, ResidualDropout, Stream, TokenMixer, note_features
from skop.networks._sequence_network import Points, Queries, SequenceNetwork
from skop.parts import GNOT, Mixer

__all__ = ["GNOTNetwork"]


class GNOTNetwork(SequenceNetwork):
    """GNOT for points of 1 to 3 dimensions, with three kinds of mixers.

    Parameters
    ----------
    n_dims, n_fields, n_params, n_outputs
        See `skop.networks.SequenceNetwork`.
    host : GNOT
        Parameters of the host, without ``"auto"``. Fields come with their coordinates, and the trunk sees the global
        parameters in any case.
    mixer : Mixer
        Mixer of points with branches and with one another: `skop.parts.Mamba` (MNO) or `skop.parts.Attention` (GNOT).
        Others need a cross form. Scans along the axes of a grid need one.
    width : int
        Size of a token (public code: 96).
    depth : int
        Number of blocks (public code: 4).
    mlp_ratio : float
        Hidden size of experts and gates as a multiple of `width` (public code: 2).
    dropout : float, default=0.0
        Dropout of what the mixers give.
    **skeleton
        Further keywords of `skop.networks.SequenceNetwork`: `n_scalars`.

    Raises
    ------
    ValueError
        If a size does not fit, or a name is unknown.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import GNOTNetwork
    >>> from skop.parts import GNOT, Mamba
    >>> network = GNOTNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, width=16, depth=1, mlp_ratio=2.0,
    ...     host=GNOT(n_experts=2).on("points"), mixer=Mamba(d_state=4),
    ... )
    >>> network(torch.rand(50, 2), torch.zeros(3, 50, 1), None).field.shape
    torch.Size([3, 50, 1])
    """

    def __init__(
        self,
        *,
        n_dims: int,
        n_fields: int,
        n_params: int,
        n_outputs: int,
        host: GNOT,
        mixer: Mixer,
        width: int,
        depth: int,
        mlp_ratio: float,
        dropout: float = 0.0,
        **skeleton: Any,
    ) -> None:
        branches, mlp_depth, n_experts = host.branches, int(host.mlp_depth), int(host.n_experts)
        skeleton |= {"n_dims": n_dims, "n_fields": n_fields, "n_params": n_params, "n_outputs": n_outputs}
        super().__init__(width, mixer.needs_grid, host, **skeleton)
        groups = [1] * n_fields if branches == "channels" and n_fields else [n_fields]
        self.groups, self.params_apart = groups, n_params > 0 and branches != "joint"
        inputs = [self.n_positions + group for group in groups] + [n_params] * self.params_apart
        # Where there are no parameters a 0 stands for them, as in the public code.
        self.trunk = ResidualMLP(self.n_positions + max(n_params, 1), width, width, mlp_depth)
        self.branches = nn.ModuleList(ResidualMLP(channels, width, width, mlp_depth) for channels in inputs)
        axes, hidden = n_dims if mixer.needs_grid else 1, int(mlp_ratio * width)
        self.blocks = nn.ModuleList(
            _GNOTBlock(
                LocalConvolution(n_dims, width, int(host.kernel_size)),
                mixer.build(width, axes, linear="normalized_linear", n_references=len(inputs)),
                mixer.build(width, axes, linear="normalized_linear"),
                width,
                hidden,
                n_experts,
                n_dims,
                dropout,
            )
            for _ in range(depth)
        )
        #: Whether the mixers read references point by point.
        self.is_aligned = any(getattr(part, "aligned", False) for part in self.modules())
        self.head = ResidualMLP(width, width, n_outputs, mlp_depth) if n_outputs else None

    def transform(self, inputs: Points, queries: Queries | None) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Encode points and input functions, mix them, and map every point to outputs."""
        points, references = note_features("input", self._encode_points(inputs)), self._references(inputs)
        others, carried = None, []
        if queries is not None:
            others = self._encode_points(queries)
            carried = [queries.carry(reference.tokens) for reference in references if self.is_aligned]
        for block in self.blocks:
            points, others = block(points, references, inputs, others, carried, queries)
        return None if self.head is None else self.head(points if others is None else others), points

    def _encode_points(self, places: Points) -> torch.Tensor:
        """Encode coordinates and parameters."""
        zeros = places.coords.new_zeros(*places.coords.shape[:2], 1)
        params = zeros if places.params is None else places.spread(places.params)
        return self.trunk(torch.cat([places.positions(), params], dim=-1))

    def _references(self, inputs: Points) -> list[Stream]:
        """Encode the input functions; parameters are one token, or as many as points where mixers pair tokens."""
        positions = inputs.positions()
        parts = [positions] * len(self.groups)
        if inputs.fields is not None:
            fields = inputs.fields.split(self.groups, dim=-1)
            parts = [torch.cat([positions, own], dim=-1) for own in fields]
        references = [inputs.stream(branch(part)) for branch, part in zip(self.branches, parts, strict=False)]
        if self.params_apart and inputs.params is not None:
            own = self.branches[-1](inputs.params)
            if self.is_aligned:
                references.append(inputs.stream(inputs.spread(own)))
            elif inputs.sizes is None:
                references.append(Stream(own.unsqueeze(1)))
            else:
                references.append(Stream(own.unsqueeze(0), sizes=(1,) * len(own)))
        return references


class ResidualMLP(nn.Module):
    """A layer, some residual layers and a last one, with GELU between."""

    def __init__(self, channels: int, width: int, out: int, depth: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(channels, width), nn.Linear(width, out)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Map every point."""
        points = nn.functional.gelu(self.first(points))
        for layer in self.layers:
            points = points + nn.functional.gelu(layer(points))
        return self.last(points)


class _Experts(nn.Module):
    """Feed-forward networks, one for each expert, whose outputs are mixed by given weights."""

    def __init__(self, width: int, hidden: int, n_experts: int) -> None:
        super().__init__()
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)) for _ in range(n_experts)
        )

    def forward(self, points: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Mix what the experts give for points (B, P, E) by weights (B, P, experts)."""
        found = (expert(points) * weights[..., number : number + 1] for number, expert in enumerate(self.experts))
        return sum(found, start=torch.zeros_like(points))


class _GNOTBlock(nn.Module):
    """Cross mixing, experts, a convolution of neighbours, mixing and experts, each added to the points."""

    def __init__(
        self,
        local: LocalConvolution,
        cross: TokenMixer,
        mixer: TokenMixer,
        width: int,
        hidden: int,
        n_experts: int,
        n_dims: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.norm_cross, self.norm_mixer = nn.LayerNorm(width), nn.LayerNorm(width)
        self.norm_references = nn.ModuleList(nn.LayerNorm(width) for _ in range(cross.n_references))
        self.norm_first, self.norm_second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.local, self.cross, self.mixer = local, cross, mixer
        self.first, self.second = _Experts(width, hidden, n_experts), _Experts(width, hidden, n_experts)
        self.gate = nn.Sequential(
            nn.Linear(n_dims, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, n_experts)
        )
        self.dropout = ResidualDropout(dropout)

    def forward(
        self,
        points: torch.Tensor,
        references: Sequence[Stream],
        places: Points,
        others: torch.Tensor | None,
        carried: Sequence[torch.Tensor],
        queries: Queries | None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Update points (B, P, E) by references and by one another, and others (B, Q, E) by both in the same way."""
        norms = self.norm_references
        streams = [own._replace(tokens=norm(own.tokens)) for norm, own in zip(norms, references, strict=True)]
        asked = [norm(own) for norm, own in zip(norms, carried, strict=False)]
        rounds: tuple[tuple[Any, ...], ...] = (
            (self.norm_cross, self.cross, streams, asked, self.norm_first, self.first),
            (self.norm_mixer, self.mixer, [], [], self.norm_second, self.second),
        )
        weights = self._weights(places)
        for number, (norm, mixer, read, read_elsewhere, norm_experts, experts) in enumerate(rounds):
            if number > 0:  # Before the first round points know their coordinates only.
                if others is not None and queries is not None:
                    others = self.local.probe(points, others, queries.stands_for, places.grid)
                points = self.local(points, places.grid)
            normed = norm(points)
            mixed = mixer(normed, places.grid, places.sizes, places.coords, read)
            if others is not None and queries is not None:
                probe = queries.probe(norm(others), read_elsewhere)
                others = others + self.dropout(mixer.probe(normed, probe, places.coords, read), queries.sizes)
                others = others + norm_experts(experts(others, self._weights(queries)))
            points = note_features("mixer", points + self.dropout(mixed, places.sizes))
            points = note_features("mlp", points + norm_experts(experts(points, weights)))
        return points, others

    def _weights(self, places: Points) -> torch.Tensor:
        """Weights of the experts at each place."""
        return self.gate(places.coords).softmax(dim=-1)
