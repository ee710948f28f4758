"""What the fused CPU kernels of the selective scans are given, along paths and over grids, and what comes back.

Notation of the shapes: b batch, L tokens of a sample, K paths, D channels of a path, N states of a channel, S splits
of the channels between work items.
"""

from collections.abc import Sequence
from functools import partial
from math import e, log2
from typing import Any, NamedTuple

import torch
from torch import Tensor

from skop.ops import _cpu_selective_kernels as kernels
from skop.ops import _cpu_selective_words as words
from skop.ops._cpu_tools import by_channel, pack_states, run_parts, sum_in_place, unpack_states
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
    """How a path is walked.

    Attributes
    ----------
    length, height : int
        Tokens of a line, lines.
    tile_length, tile_height : int
        Tokens of a line and lines of a tile.
    strip : int
        Lines of a strip, whose states are computed anew together.
    """

    length: int
    height: int
    tile_length: int
    tile_height: int
    strip: int

    def kept(self) -> int:
        """States of a channel and state that the forward pass keeps.

        Returns
        -------
        int
            Those that enter strips from above, and parts of lines from before.
        """
        parts = -(-self.length // self.tile_length)
        return (self.height - 1) // self.strip * self.length + self.height * (parts - 1)


class SelectiveScan:
    """One scan in the form that the kernels read.

    Parameters
    ----------
    x : Tensor of shape (b, L, 1 or K, D)
        Inputs, in float32, float64 or bfloat16, which is computed in float32.
    dt, A, B, C, D, dt_bias, R, initial_state, softplus
        As in `skop.ops.selective_scan._naive.selective_scan_naive`; B and C in the dtype of x, the others in float32
        (float64 if x is).
    paths : int32 Tensor of shape (K, L)
        Each row a permutation of the tokens, line after line.
    walks : sequence of Walk
        How each path is walked.
    is_grid : bool
        Whether the lines of a path are those of a scan over a grid, which has a pass along them and one across them.
    """

    def __init__(
        self,
        x: Tensor,
        dt: Tensor,
        A: Tensor,
        B: Tensor,
        C: Tensor,
        D: Tensor | None,
        dt_bias: Tensor | None,
        R: Tensor | None,
        initial_state: Tensor | None,
        paths: Tensor,
        walks: Sequence[Walk],
        softplus: bool,
        is_grid: bool,
    ) -> None:
        samples, length, n_paths, channels = dt.shape
        blocks, states, shared = -(-channels // LANES), A.shape[-1], x.shape[2] < n_paths or is_grid
        self.x, self.dt, self.B = (value.to(dt.dtype).contiguous() for value in (x, dt, B))
        items = max(1, samples) * (1 if shared else n_paths)
        splits = -(-_LEAST_ITEMS // items)
        splits = splits if is_grid else max(splits, -(-blocks // _MOST_BLOCKS))
        split_blocks = -(-blocks // min(-(-blocks // 2), splits))
        self.splits = -(-blocks // split_blocks)
        group = min(_GROUP, split_blocks) if is_grid else split_blocks
        self.n_items = samples * (1 if shared else n_paths) * self.splits
        self.is_grid = is_grid
        self.has = {"D": D is not None, "dt_bias": dt_bias is not None, "R": R is not None}
        self.has["initial_state"] = initial_state is not None
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
            "HAS_SOFTPLUS": softplus, "HAS_LINES": is_grid, "KEPT": places[-1], "WALKS": table,
            "PATHS": paths.contiguous(), "X": self.x, "DT": self.dt, "A": rates,
            "FASTEST": rates.amax(-2), "SLOWEST": rates.amin(-2),
            "B": self.B, "C": C.to(dt.dtype).contiguous(),
            "D": by_channel(D, n_paths, channels, dt), "BIAS": by_channel(dt_bias, n_paths, channels, dt),
            "SHARES": None if R is None else pack_states(1 - R),
            "START": None if initial_state is None else pack_states(initial_state),
        }  # fmt: skip

    def forward(self, *, keep: bool) -> tuple[Tensor, Any, Tensor | None]:
        """Scan.

        Parameters
        ----------
        keep : bool
            Whether to return the checkpoints.

        Returns
        -------
        y : Tensor of the shape of x
            Outputs, in the precision of dt; summed over the paths where they share x.
        final_state : Tensor of shape (b, K, D, N) or None
            States after the last tokens; None over a grid.
        checkpoints : Tensor or None
            States that enter tiles, for `backward`.
        """
        y = torch.empty_like(self.x)
        final = None if self.is_grid else self.dt.new_empty(self.packed_shape)
        kept = self.dt.new_empty(self.kept_shape) if keep else None
        line = kernels.advance_line if self.values["SHARES"] is None else kernels.advance_line_corrected
        parts = {
            "WALK": kernels.walk_forward, "READ": kernels.read_tile, "WRITE": kernels.write_outputs,
            "ADVANCE": kernels.advance_grid if self.is_grid else line,
        }  # fmt: skip
        self._run(parts, {}, {"Y": y, "FINAL": final, "CHECKPOINTS": kept})
        return y, None if final is None else unpack_states(final, *self.sizes), kept

    def backward(self, checkpoints: Tensor, grad_y: Tensor, grad_final: Tensor | None) -> tuple[Any, ...]:
        """Gradients.

        Parameters
        ----------
        checkpoints : Tensor
            From `forward`.
        grad_y : Tensor of the shape of x
            Gradient of the outputs.
        grad_final : Tensor of shape (b, K, D, N) or None
            Gradient of the final states; None where they have no influence.

        Returns
        -------
        tuple of Tensor or None
            Gradients of x, dt, A, B, C, D, dt_bias, R and initial_state; None for what was None.
        """
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
            "GRAD_D": new(rows_shape) if self.has["D"] else None,
            "GRAD_BIAS": new(rows_shape) if self.has["dt_bias"] else None,
            "GRAD_SHARES": new(self.packed_shape) if self.has["R"] else None,
            "GRAD_START": new(self.packed_shape) if self.has["initial_state"] else None,
        }
        parts = {
            "WALK": kernels.walk_backward, "READ": kernels.read_tile, "READ_GRADS": kernels.read_grads,
            "WRITE_GRADS": kernels.write_grads,
        }  # fmt: skip
        if self.is_grid:
            parts |= {"RETREAT": kernels.retreat_grid, "RERUN": kernels.rerun_grid}
        else:
            parts["RETREAT"] = kernels.retreat_line if self.values["SHARES"] is None else kernels.retreat_line_corrected
        given = {
            "CHECKPOINTS": checkpoints,
            "GRAD_Y": grad_y.to(self.dt.dtype).contiguous(),
            "GRAD_FINAL": None if grad_final is None else pack_states(grad_final),
        }
        self._run(parts, given, grads)
        grad_x, grad_dt, grad_a, *grad_maps, grad_d, grad_bias, grad_shares, grad_start = grads.values()
        grad_b, grad_c = (sum_in_place(value) for value in grad_maps)
        grad_d, grad_bias = (None if value is None else value.sum(0)[:, :channels] for value in (grad_d, grad_bias))
        grad_r = None if grad_shares is None else -unpack_states(grad_shares.sum(0), *self.sizes)
        grad_a = unpack_states(grad_a.sum(0), *self.sizes)
        grad_start = None if grad_start is None else unpack_states(grad_start, *self.sizes)
        return grad_x, grad_dt, grad_a, grad_b, grad_c, grad_d, grad_bias, grad_r, grad_start

    def _run(self, parts: dict[str, Any], more: dict[str, Tensor | None], outputs: dict[str, Tensor | None]) -> None:
        """Run a kernel on the problem and what more it needs."""
        values = self.values | more
        run_parts(kernels.run, self.dt.dtype, words, values, outputs, parts, self.regions, n_items=self.n_items)
