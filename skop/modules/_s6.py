"""MNO's token mixer: selective scans of a sequence in several directions, of one stream or across streams.

Notation: B samples, L tokens, K directions, E inner width, N states of a channel, r rank of the steps.
"""

import math
from collections.abc import Sequence

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules._feature_maps import note_mixing
from skop.modules._mixer import Probe, Stream, TokenMixer, grid_of_tokens
from skop.modules._packing import padding_of
from skop.modules._scan_directions import LINE_DIRECTIONS, direction_paths, direction_set
from skop.modules._steps import STEP_RANGE, initial_step_bias
from skop.ops import selective_scan

__all__ = ["S6Mixer"]


class S6Mixer(TokenMixer):
    """Mix tokens by selective scans, whose parameters a reference stream may have a say in (MNO, section III-D).

    A linear layer and SiLU give a signal and a gate; each direction projects the signal to its own steps, input and
    output maps and scans it; the sum of the directions is normalised, gated and projected back. There is no
    convolution. In the cross form, Definition 1, each reference passes the same first layer and a projection of its
    own to steps and maps, which are added with the ratio q (Eq. 12); what is scanned and gated is the tokens' own.

    Parameters
    ----------
    width : int
        Size of a token.
    n_dims : int, default=1
        Axes of the token grid.
    n_references : int, default=0
        Reference streams; 0 mixes one stream. References are aligned: as many tokens, at the same places.
    d_state : int, default=16
        States of a channel (public code: 16).
    expand : int or float, default=2
        Inner width as a multiple of `width` (public code: 2).
    dt_rank : int or None, default=None
        Rank of the projection to the steps; None is ceil(width / 16), as in the public code.
    scan_directions : {"forward", "bidirectional", "cross", "corners", "row_corners", "all"}, default="bidirectional"
        Set of directions, see `direction_set`. The paper scans the flattened grid and its reverse; the public code
        also has ``"cross"``, by rows and by columns, which needs the grid of the tokens.
    ratio : float or "learnable", default=1.0
        Weight q of a reference's steps and maps (public code: 1); ``"learnable"`` starts from 1, one for each
        reference.
    step_range : sequence of two floats, default=(0.001, 0.1)
        Range of the steps that the channels start from, drawn on a logarithmic scale, as in Mamba.

    Raises
    ------
    ValueError
        If there is no such set of directions, or `step_range` holds other than two positive numbers.

    References
    ----------
    C.-W. Cheng, J. Huang, Y. Zhang, G. Yang, C.-B. Schönlieb, A. I. Aviles-Rivero, "Mamba Neural Operator: Who Wins?
    Transformers vs. State-Space Models for PDEs", 2024, section III-D.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import S6Mixer, Stream
    >>> tokens = torch.zeros(1, 12, 16)
    >>> S6Mixer(16, d_state=4)(tokens).shape
    torch.Size([1, 12, 16])
    >>> S6Mixer(16, n_references=1)(tokens, references=[Stream(tokens)]).shape
    torch.Size([1, 12, 16])
    """

    takes_streams = True
    aligned = True
    packs = True
    #: Vectors, one for each direction: weight decay leaves them alone unless it is asked not to.
    no_weight_decay = ("step_bias", "log_decay", "direct")

    def __init__(
        self,
        width: int,
        n_dims: int = 1,
        *,
        n_references: int = 0,
        d_state: int = 16,
        expand: float = 2,
        dt_rank: int | None = None,
        scan_directions: str = "bidirectional",
        ratio: float | str = 1.0,
        step_range: Sequence[float] = STEP_RANGE,
    ) -> None:
        super().__init__()
        inner, rank = int(expand * width), math.ceil(width / 16) if dt_rank is None else dt_rank
        self.n_dims = 1 if scan_directions in LINE_DIRECTIONS else n_dims
        self.directions = direction_set(self.n_dims, scan_directions)
        count = len(self.directions)
        self.n_references, self.inner, self.d_state = n_references, inner, d_state
        self.in_projection = nn.Linear(width, 2 * inner, bias=False)
        maps = count * (rank + 2 * d_state)
        self.direction_projection = nn.Linear(inner, maps, bias=False)
        self.reference_projections = nn.ModuleList(nn.Linear(inner, maps, bias=False) for _ in range(n_references))
        self.ratio: nn.Parameter | tuple[float, ...]
        if ratio == "learnable":
            self.ratio = nn.Parameter(torch.ones(n_references))
        else:
            self.ratio = (float(ratio),) * n_references
        self.step_projection = nn.Parameter(torch.empty(count, inner, rank).uniform_(-(rank**-0.5), rank**-0.5))
        self.step_bias = nn.Parameter(initial_step_bias(count * inner, step_range).view(count, inner))
        self.log_decay = nn.Parameter(torch.arange(1, d_state + 1).log().repeat(count, inner, 1))
        self.direct = nn.Parameter(torch.ones(count, inner))
        self.norm = nn.LayerNorm(inner)
        self.out_projection = nn.Linear(inner, width, bias=False)

    def mix(
        self,
        tokens: torch.Tensor,
        grid: GridShape | None,
        coords: torch.Tensor | None = None,
        references: Sequence[Stream] = (),
        sizes: tuple[int, ...] | None = None,
    ) -> torch.Tensor:
        """Mix tokens ``(B, L, width)`` in C order on a grid, or as a line, or packed lines ``(1, T, width)``."""
        signal, gate = nn.functional.silu(self.in_projection(tokens)).chunk(2, dim=-1)
        padding = None if sizes is None else padding_of(sizes, tokens.device)
        others = [reference.tokens for reference in references]
        if padding is not None:
            # No layer up to the scan has a bias: zeros have neither input nor maps, and leave a state of 0 as it is.
            for reference in references:
                _expect_pairs(reference.sizes or (), sizes or ())
            signal, *others = (padding.fill(own) for own in (signal, *others))
        grid = tuple(signal.shape[1:2]) if self.n_dims == 1 else grid_of_tokens(signal, grid, self.n_dims)
        steps, maps_in, maps_out = self._maps(signal, others)
        mixed = note_mixing(
            lambda values: selective_scan(
                values,
                steps,
                -self.log_decay.exp(),
                maps_in,
                maps_out,
                self.direct,
                paths=direction_paths(grid, self.directions, tokens.device),
                dt_bias=self.step_bias,
                dt_softplus=True,
            ),
            signal,
        )
        return self._gated(mixed if padding is None else padding.take(mixed), gate)

    def probe(
        self,
        tokens: torch.Tensor,
        probe: Probe,
        coords: torch.Tensor | None = None,
        references: Sequence[Stream] = (),
    ) -> torch.Tensor:
        """Scan the tokens, and return the outputs of other tokens, each in the place of the token it stands for.

        The state that enters a token is obtained by one scan of a single state for each of the states.
        """
        if self.n_dims != 1:
            raise ValueError("selective scans along the axes of a grid have no place for other points; scan one line.")
        signal = nn.functional.silu(nn.functional.linear(tokens, self.in_projection.weight[: self.inner]))
        steps, maps_in, _ = self._maps(signal, [reference.tokens for reference in references])
        own, gate = nn.functional.silu(self.in_projection(probe.tokens)).chunk(2, dim=-1)
        own_steps, own_in, own_out = self._maps(own, probe.references)
        own_steps = nn.functional.softplus(own_steps + self.step_bias)
        mixed = own * (self.direct + own_steps * (own_in * own_out).sum(-1, keepdim=True)).sum(dim=2)
        places = probe.stands_for.unsqueeze(-1).expand(-1, -1, self.inner)
        reader = torch.ones_like(maps_in[:, :, :1, :1])
        for number, (direction,) in enumerate(self.directions):
            decay, backwards = -self.log_decay[number].exp(), direction < 0
            # The state that a token meets is the one after its neighbour, and 0 at the end of the line.
            edges = (0, 0, -1, 1) if backwards else (0, 0, 1, -1)
            for state in range(self.d_state):
                states = selective_scan(
                    signal,
                    steps[:, :, number],
                    decay[:, state : state + 1],
                    maps_in[:, :, number : number + 1, state : state + 1],
                    reader,
                    dt_bias=self.step_bias[number],
                    dt_softplus=True,
                    reverse=backwards,
                )
                met = nn.functional.pad(states, edges)
                kept = (own_steps[:, :, number] * decay[:, state]).exp() * own_out[:, :, number, state, None]
                mixed = mixed + kept * met.gather(1, places)
        return self._gated(mixed, gate)

    def _maps(
        self, signal: torch.Tensor, references: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Steps (B, L, K, E), input and output maps (B, L, K, N) of a signal and of aligned references."""
        joined = self.direction_projection(signal)
        # A graph cannot hold the entries of an empty ratio, as iteration over it would give.
        for number, (projection, tokens) in enumerate(zip(self.reference_projections, references, strict=True)):
            _expect_pairs(tokens.shape[1:2], signal.shape[1:2])
            own = nn.functional.silu(nn.functional.linear(tokens, self.in_projection.weight[: self.inner]))
            joined = joined + self.ratio[number] * projection(own)
        count, inner, rank = self.step_projection.shape
        states = count * self.d_state
        ranks, maps_in, maps_out = joined.split([count * rank, states, states], dim=-1)
        # One product for all directions leaves the steps in the order in which the scan reads them. With a row of the
        # matrix for each rank, the gradients take a fraction of the time that they take with a column for each.
        steps = (ranks @ torch.block_diag(*self.step_projection.mT)).unflatten(-1, (count, inner))
        return steps, *(maps.unflatten(-1, (count, self.d_state)) for maps in (maps_in, maps_out))

    def _gated(self, mixed: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        """The sum of the scans, normalised, gated and projected back."""
        return self.out_projection(self.norm(mixed.to(self.norm.weight.dtype)) * gate)


def _expect_pairs(given: Sequence[int], expected: Sequence[int]) -> None:
    """Raise ValueError unless references have as many tokens as the samples that read them."""
    for count, own in zip(given, expected, strict=True):
        if count != own:
            raise ValueError(
                f"a reference of {count} tokens was given for {own} tokens; selective scans across streams pair them "
                "one by one, so interpolate the reference to the places of the tokens."
            )
