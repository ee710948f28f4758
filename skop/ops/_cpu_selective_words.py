"""Words of the workspace of the selective scans; see `skop.ops._cpu_workspace` and `_cpu_selective_kernels`."""

from collections.abc import Mapping

from skop.ops._cpu_workspace import FREE, ITEMS, N_WORDS, NEXT, REGIONS, SCRATCH, SCRATCH_BYTES, SLOT, TABLE
from skop.ops._simd import LANES

__all__ = [
    "FREE", "ITEMS", "NEXT", "N_WORDS", "REGIONS", "SCRATCH", "SCRATCH_BYTES", "SLOT", "TABLE", "region_sizes",
]  # fmt: skip

#: Tokens of a tile at most, such that what a pair of states needs fits into a first-level cache.
TOKENS = 48
#: Tokens between asking for memory and reading it.
AHEAD = 8
#: Two vectors: those of a pair of states.
PAIR = 2 * LANES
#: Memory of a vector per token. The gap keeps such rows from lying a multiple of 4096 bytes apart, where the
#: processor takes a read of one for a read of what was just written to another.
ROW = TOKENS * LANES + 5 * LANES

#: Sizes. LENGTH: tokens of a sample. SPLIT_BLOCKS: blocks of channels of a work item. GROUP: blocks that are done
#: together. HAS_LINES: whether states are carried across the lines of a path, too. KEPT: numbers of a sample in the
#: checkpoints. WALKS: six integers for each path, LINE_LENGTH to KEPT_AT below. Then addresses of tensors, 0 for what
#: is absent, and of the parts of the kernel.
(
    SAMPLES, LENGTH, N_PATHS, SHARED, CHANNELS, STATES, SPLITS, SPLIT_BLOCKS, GROUP, HAS_SOFTPLUS, HAS_LINES, KEPT,
    WALKS, PATHS, X, DT, A, FASTEST, SLOWEST, B, C, D, BIAS, SHARES, START, Y, FINAL, CHECKPOINTS,
    GRAD_Y, GRAD_FINAL, GRAD_X, GRAD_DT, GRAD_A, GRAD_B, GRAD_C, GRAD_D, GRAD_BIAS, GRAD_SHARES, GRAD_START,
    WALK, READ, ADVANCE, RERUN, WRITE, READ_GRADS, RETREAT, WRITE_GRADS,
) = range(FREE, FREE + 47)  # fmt: skip

#: Where the thread is: sample, split and path, blocks from FIRST on without LAST; tokens of a line of the path, lines,
#: tokens of a line and lines of a tile, lines of a strip, place of the checkpoints (all but the first two from WALKS);
#: first line of the tile and first token of its lines, how many of each; place of the states that enter the tile from
#: before, for block 0, and the distance to the next block's.
(
    BATCH, SPLIT, PATH, FIRST, LAST, LINE_LENGTH, HEIGHT, TILE_LENGTH, TILE_HEIGHT, STRIP_HEIGHT, KEPT_AT,
    LINE, TOKEN, N_LINES, LINE_TOKENS, KEPT_TILE, KEPT_BLOCK,
) = range(FREE + 47, FREE + 64)  # fmt: skip

#: Scratch memory. WHERE: tokens of the tile among those of all samples, then those to ask for. ROWS: of each block, see
#: below. MAPS_*: rows of B and of C. GRAD_MAPS_*: (pair, t, 2). DECAYS, PASTS: of a pair of states, what is left of the
#: states before or these themselves, (t, 2). ZEROS: as many. LINES: states, or their gradients, that are carried from
#: line to line, (block, pair, token of the line, 2). SIDES: those carried from tile to tile, (block, pair, line, 2).
#: STRIP: states of the lines of a strip, below those that enter it, (block, line, pair, token, 2). PARTIAL_*: gradients
#: of the maps of a pair before their lanes are summed. SUMS_*: gradients of A, the shares, D and the bias, in float64.
(
    WHERE, ROWS, MAPS_IN, MAPS_OUT, GRAD_MAPS_IN, GRAD_MAPS_OUT, DECAYS, PASTS, ZEROS, PARTIAL_IN, PARTIAL_OUT,
    LINES, SIDES, STRIP, SUMS_A, SUMS_SHARES, SUMS_D, SUMS_BIAS,
) = range(FREE + 64, FREE + 82)  # fmt: skip
FIRST_REGION, N_ARGUMENTS = FREE + 64, FREE + 82

#: Rows of each block in scratch memory, in units of ROW.
(STEP, OWN, INPUT, OUTPUT, GRAD_OUTPUT, GRAD_STEP, BLOCK_ROWS) = range(7)
GRAD_INPUT = OUTPUT


def region_sizes(states: int, group: int, width: int, line: int, strip: int, strip_line: int) -> Mapping[str, int]:
    """Bytes of each region of scratch memory, by the names of their words; a number has `width` bytes.

    There are `group` blocks that are done together, and at most so many tokens of a line, lines of a strip, and tokens
    of a tile's line: 0 tokens where there is a single line.
    """
    pairs = states + states % 2
    packed, maps = group * pairs * LANES, TOKENS * (-(-states // LANES) * LANES)
    numbers = {
        "ROWS": group * BLOCK_ROWS * ROW, "MAPS_IN": maps, "MAPS_OUT": maps,
        "GRAD_MAPS_IN": TOKENS * pairs, "GRAD_MAPS_OUT": TOKENS * pairs,
        "DECAYS": TOKENS * PAIR, "PASTS": TOKENS * PAIR, "ZEROS": TOKENS * PAIR, "PARTIAL_IN": TOKENS * PAIR,
        "PARTIAL_OUT": TOKENS * PAIR, "LINES": packed * line, "SIDES": packed * strip,
        "STRIP": group * (strip + 1) * (pairs * strip_line * LANES + 5 * LANES) if strip_line else 0,
    }  # fmt: skip
    sums = {"SUMS_A": packed, "SUMS_SHARES": packed, "SUMS_D": group * LANES, "SUMS_BIAS": group * LANES}
    return (
        {"WHERE": 16 * TOKENS}
        | {name: width * size for name, size in numbers.items()}
        | {name: 8 * size for name, size in sums.items()}
    )
