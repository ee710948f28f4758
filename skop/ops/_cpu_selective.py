"""What the fused CPU kernels of the selective scans are given, along paths and over grids, and what comes back."""

from collections.abc import Sequence
from functools import partial
from math import e, log2
from typing import Any, NamedTuple

import torch
from torch import Tensor

from skop.ops import _cpu_selective_kernels as kernels
from skop.ops import _cpu_selective_words as words
from skop.ops._cpu_tools import by_channel, pack_states, run_parts, sum_in_place, unpack_states
from skop.ops._selective import Arguments
from skop.ops._simd import LANES

__all__ = ["SelectiveScan", "Walk"]

#: Work items to make at least, by splitting the channels: enough for the threads of a workstation to share.
#: More would cost time and memory, since each split has its own sums for the gradients of B and C; so each has two
#: blocks of channels at least.
_LEAST_ITEMS = 8
#: Blocks of channels of a work item at most along paths, and of those done together over grids: their scratch memory
#: fits into a second-level cache.
_MOST_BLOCKS, _GROUP = 8, 4


class Walk(NamedTuple):
    """How a path is walked: tokens of a line, lines; the same of a tile; lines of a strip, computed anew together."""

    length: int
    height: int
    tile_length: int
    tile_height: int
    strip: int

    def kept(self) -> int:
        """Count the states, for each channel and state, that enter strips from above and parts of lines from before."""
        parts = -(-self.length // self.tile_length)
        return (self.height - 1) // self.strip * self.length + self.height * (parts - 1)


class SelectiveScan:
    """One scan in the form that the kernels read.

    `paths` (K, tokens) takes the cells of a grid line after line; then a scan has a pass along the lines and one across
    them. x, B and C may be in bfloat16, which is computed in float32.
    """

    def __init__(self, given: Arguments, paths: Tensor, walks: Sequence[Walk], *, is_grid: bool) -> None:
        self.given = given
        dt, A, R = given.dt.flatten(1, -3), given.A, given.R
        samples, length, n_paths, channels = dt.shape
        blocks, states, shared = -(-channels // LANES), A.shape[-1], given.shares_x or is_grid
        x, B, C = (value.flatten(1, -3).to(dt.dtype).contiguous() for value in (given.x, given.B, given.C))
        self.x, self.dt, self.B = x, dt.contiguous(), B
        items = max(1, samples) * (1 if shared else n_paths)
        splits = -(-_LEAST_ITEMS // items)
        splits = splits if is_grid else max(splits, -(-blocks // _MOST_BLOCKS))
        split_blocks = -(-blocks // min(-(-blocks // 2), splits))
        self.splits = -(-blocks // split_blocks)
        group = min(_GROUP, split_blocks) if is_grid else split_blocks
        self.n_items = samples * (1 if shared else n_paths) * self.splits
        self.is_grid = is_grid
        self.sizes = channels, states
        rates = pack_states(A * log2(e))
        self.packed_shape = (samples, *rates.shape)
        numbers = rates[0].numel()
        places = [0]
        for walk in walks:
            places.append(places[-1] + walk.kept() * numbers)
        self.kept_shape = (samples, places[-1])
        table = torch.tensor([[*walk, place] for walk, place in zip(walks, places, strict=False)], device=dt.device)
        self.regions = words.region_sizes(
            states,
            group,
            dt.element_size(),
            max(walk.length for walk in walks) if is_grid else 0,
            max(walk.strip for walk in walks),
            max(walk.tile_length for walk in walks) if is_grid else 0,
        )
        self.values: dict[str, int | Tensor | None] = {
            "SAMPLES": samples, "LENGTH": length, "N_PATHS": n_paths, "SHARED": shared, "CHANNELS": channels,
            "STATES": states, "SPLITS": self.splits, "SPLIT_BLOCKS": split_blocks, "GROUP": group,
            "HAS_SOFTPLUS": given.softplus, "HAS_LINES": is_grid, "KEPT": places[-1], "WALKS": table,
            "PATHS": paths.contiguous(), "X": x, "DT": self.dt, "A": rates,
            "FASTEST": rates.amax(-2), "SLOWEST": rates.amin(-2),
            "B": B, "C": C, "D": by_channel(given.D, n_paths, channels, dt),
            "BIAS": by_channel(given.dt_bias, n_paths, channels, dt),
            "SHARES": None if R is None else pack_states(1 - R),
            "START": None if given.initial_state is None else pack_states(given.initial_state),
        }  # fmt: skip

    def forward(self, keep: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Scan: y, final state along paths, and the states that enter tiles if they are to be kept."""
        y = torch.empty_like(self.x)
        final = None if self.is_grid else self.dt.new_empty(self.packed_shape)
        kept = self.dt.new_empty(self.kept_shape) if keep else None
        line = kernels.advance_line if self.values["SHARES"] is None else kernels.advance_line_corrected
        parts = {
            "WALK": kernels.walk_forward, "READ": kernels.read_tile, "WRITE": kernels.write_outputs,
            "ADVANCE": kernels.advance_grid if self.is_grid else line,
        }  # fmt: skip
        self._run(parts, {}, {"Y": y, "FINAL": final, "CHECKPOINTS": kept})
        final = None if final is None else unpack_states(final, *self.sizes)
        return y.view(self.given.x.shape).to(self.given.x.dtype), final, kept

    def backward(self, checkpoints: Tensor, grad_y: Tensor, grad_final: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients of the tensors that are given, from what `forward` kept; None for what is None."""
        given = self.given
        samples, _, n_paths, channels = self.dt.shape
        new = partial(torch.empty, dtype=self.dt.dtype, device=self.dt.device)
        maps_shape = (self.splits, *self.B.shape)
        rows_shape = (samples, n_paths, -(-channels // LANES) * LANES)
        grads: dict[str, Any] = {
            "GRAD_X": torch.empty_like(self.x),
            "GRAD_DT": torch.empty_like(self.dt),
            "GRAD_A": new(self.packed_shape),
            "GRAD_B": new(maps_shape),
            "GRAD_C": new(maps_shape),
            "GRAD_D": new(rows_shape) if given.D is not None else None,
            "GRAD_BIAS": new(rows_shape) if given.dt_bias is not None else None,
            "GRAD_SHARES": new(self.packed_shape) if given.R is not None else None,
            "GRAD_START": new(self.packed_shape) if given.initial_state is not None else None,
        }
        parts = {
            "WALK": kernels.walk_backward, "READ": kernels.read_tile, "READ_GRADS": kernels.read_grads,
            "WRITE_GRADS": kernels.write_grads,
        }  # fmt: skip
        if self.is_grid:
            parts |= {"RETREAT": kernels.retreat_grid, "RERUN": kernels.rerun_grid}
        else:
            parts["RETREAT"] = kernels.retreat_line if self.values["SHARES"] is None else kernels.retreat_line_corrected
        more = {
            "CHECKPOINTS": checkpoints,
            "GRAD_Y": grad_y.flatten(1, -3).to(self.dt.dtype).contiguous(),
            "GRAD_FINAL": None if grad_final is None else pack_states(grad_final),
        }
        self._run(parts, more, grads)
        grad_x, grad_dt, grad_a, *grad_maps, grad_d, grad_bias, grad_shares, grad_start = grads.values()
        grad_b, grad_c = (sum_in_place(value).view(given.B.shape).to(given.B.dtype) for value in grad_maps)
        grad_d, grad_bias = (None if value is None else value.sum(0)[:, :channels] for value in (grad_d, grad_bias))
        grad_r = None if grad_shares is None else -unpack_states(grad_shares.sum(0), *self.sizes)
        grad_a = unpack_states(grad_a.sum(0), *self.sizes)
        grad_start = None if grad_start is None else unpack_states(grad_start, *self.sizes)
        grad_x = grad_x.view(given.x.shape).to(given.x.dtype)
        return grad_x, grad_dt.view(given.dt.shape), grad_a, grad_b, grad_c, grad_d, grad_bias, grad_r, grad_start

    def _run(self, parts: dict[str, Any], more: dict[str, Tensor | None], outputs: dict[str, Tensor | None]) -> None:
        """Run a kernel on the problem and what more it needs."""
        values = self.values | more
        run_parts(kernels.run, self.dt.dtype, words, values, outputs, parts, self.regions, n_items=self.n_items)
