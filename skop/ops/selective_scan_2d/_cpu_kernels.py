"""What Numba compiles for `skop.ops.selective_scan_2d`: the lanes of a vector are neighbouring channels.

A work item is one sample and some blocks of 16 channels, in all directions one after the other, because they
share x and their outputs are added. A direction is a way to walk: from a first cell, one stride along the
first pass, which makes a line, and another from line to line. The grid is walked in tiles: a line, or a part
of it, or several where they are short. For each tile and block, steps and inputs are laid out in scratch
memory, and pairs of states run over the tile: the state of the first pass in registers, that of the second
in a line of memory. The forward pass keeps the states that enter strips of some lines from above, and those
that enter parts from before. The backward pass takes the strips from the last and the parts of each from the
last: it computes the states of the second pass anew, line by line, and then walks back through the tiles.
Every sum has an order that depends on shapes alone.

Parameters are packed as (direction, block, n, lane), with an even number of n. What a tile holds of pairs of
states is ordered as (pair, cell, 2), with lanes last where there are some.

Letters: g state of the first pass, h of the second, u = dt x, a = 2^(dt A) decay with A in base 2, y output, B and C
input and output maps, shares 1 - R of the own input, n state of a channel, t cell of a tile, i line, j cell of a line.
"""

from collections import namedtuple

from numba import float64, int64, njit

from skop.ops._cpu_memory import copy, even, fill, read, whole, write
from skop.ops._simd import (
    LANES,
    address,
    claim,
    computed,
    constant,
    exp2,
    load,
    maximum,
    nan_beyond,
    offset,
    pointer,
    prefetch,
    softplus,
    splat,
    store,
)

__all__: list[str] = []


#: Cells of a tile at most, such that what a pair of states needs fits into a first-level cache.
CELLS = 48
#: Cells between asking for memory and reading it.
LEAD = 8
#: Two vectors: those of a pair of states.
PAIR = 2 * LANES
#: Memory of a vector per cell, and of a pair. The gap keeps such rows from lying a multiple of 4096 bytes apart,
#: where the processor takes a read of one for a read of what was just written to another.
ROW = CELLS * LANES + 5 * LANES
PAIR_ROW = CELLS * PAIR + 5 * LANES

#: Places in the table of arguments: what threads share, sizes, then addresses, 0 for what is absent. GROUP: blocks that
#: are done together. LINE, LINES, STRIP: most cells of a line, most lines of a strip, most numbers of its states for a
#: block. KEPT: numbers of a sample in the checkpoints.
(
    NEXT, SLOT, ITEMS, SCRATCH, SCRATCH_BYTES,
    SAMPLES, CELLS_OF_SAMPLE, N_DIRECTIONS, CHANNELS, STATES, SPLITS, SPLIT_BLOCKS, GROUP, HAS_SOFTPLUS,
    LINE, LINES, STRIP, KEPT,
    DIRECTIONS, X, DT, A, FASTEST, SLOWEST, B, C, D, BIAS, SHARES, Y, CHECKPOINTS,
    GRAD_Y, GRAD_X, GRAD_DT, GRAD_A, GRAD_B, GRAD_C, GRAD_D, GRAD_BIAS, GRAD_SHARES,
    N_ARGUMENTS,
) = range(41)  # fmt: skip

#: Rows of each block in scratch memory, in units of ROW.
(STEP, OWN, INPUT, OUTPUT, GRAD_OUTPUT, GRAD_STEP, BLOCK_ROWS) = range(7)
GRAD_INPUT = OUTPUT

#: One direction for some blocks of channels. index: which; start: first cell, among those of all samples; ahead, down:
#: to the next cell of a line, and to the next line; length, height: cells of a line, lines; tile_length, tile_height:
#: of a tile; strip: lines of a strip; kept: where its checkpoints begin; first, last: blocks, without the last.
Walk = namedtuple("Walk", "index start ahead down length height tile_length tile_height strip kept first last")
#: Numbers of a walk in the table of directions: start to kept.
WALK_SIZE = 9

#: One tile: its first line and cell, and how many of each.
Tile = namedtuple("Tile", "line cell lines cells")

#: Scratch memory of a thread. spare, spare_x: a vector, in the precision of the states and of x. rows: see above.
#: maps_*: B and C, (pair, t, 2). decays, befores: of a pair of states, and the state before, (t, 2).
#: zeros: as many. lines: packed states, or their gradients, for a line of the grid, (block, pair, j, 2). sides: for one
#: end of each line of a strip, (block, pair, i, 2). strips: states of a strip, below those that enter it, (block, i,
#: pair, j, 2). partial_*: gradients of the maps of a pair before their lanes are summed. grad_maps_*: after.
#: sums_*: gradients of A, the shares, D and the bias, in float64.
_Scratch = namedtuple(
    "_Scratch",
    "spare spare_x rows maps_in maps_out grad_maps_in grad_maps_out decays befores zeros"
    " partial_in partial_out lines sides strips sums_a sums_shares sums_d sums_bias",
)


@njit(forceinline=True)
def _sizes(states, group, line, lines, strip):
    """Numbers in scratch memory: of each map, of packed states, sums, lines, sides, strips."""
    pairs = states + states % 2
    packed = group * pairs * LANES
    maps, sums = CELLS * pairs + 5 * LANES, 2 * packed + 2 * group * LANES
    return maps, packed, sums, packed * line + 5 * LANES, packed * lines + 5 * LANES, group * strip


def scratch_bytes(states, group, line, lines, strip):
    """Memory of a thread, if all of it is float64."""
    maps, _, sums, line_size, side_size, strip_size = _sizes.py_func(states, group, line, lines, strip)
    rows = group * BLOCK_ROWS * ROW + 5 * PAIR_ROW
    return 8 * (sums + PAIR + rows + 4 * maps + line_size + side_size + strip_size)


@njit(forceinline=True)
def _claim_scratch(table, like_x, like):
    """Lay out the scratch memory of the calling thread."""
    slot, group = claim(offset(table, SLOT)), table[GROUP]
    start = table[SCRATCH] + slot * table[SCRATCH_BYTES]
    sizes = _sizes(table[STATES], group, table[LINE], table[LINES], table[STRIP])
    maps, packed, count, line_size, side_size, _ = sizes
    sums, spare = pointer(start, float64), start + 8 * count
    rows = pointer(spare + 8 * PAIR, like)
    maps_in = offset(rows, group * BLOCK_ROWS * ROW)
    pairs = offset(maps_in, 4 * maps)
    lines = offset(pairs, 5 * PAIR_ROW)
    ends = offset(sums, 2 * packed)
    return _Scratch(
        pointer(spare, like), pointer(spare, like_x), rows,
        maps_in, offset(maps_in, maps), offset(maps_in, 2 * maps), offset(maps_in, 3 * maps),
        pairs, offset(pairs, PAIR_ROW), offset(pairs, 2 * PAIR_ROW), offset(pairs, 3 * PAIR_ROW),
        offset(pairs, 4 * PAIR_ROW), lines, offset(lines, line_size), offset(lines, line_size + side_size),
        sums, offset(sums, packed), ends, offset(ends, group * LANES),
    )  # fmt: skip


@njit(forceinline=True)
def _walk(table, batch, index, first, last):
    """One direction for some blocks."""
    numbers = offset(pointer(table[DIRECTIONS], int64), index * WALK_SIZE)
    start, kept = numbers[0] + batch * table[CELLS_OF_SAMPLE], numbers[8] + batch * table[KEPT]
    shape = numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], numbers[7]
    return Walk(index, start, *shape, kept, first, last)


@njit(forceinline=True)
def _tile(walk, line, part):
    """The tile that begins with a line, in a part of it."""
    cell = part * walk.tile_length
    return Tile(line, cell, min(walk.tile_height, walk.height - line), min(walk.tile_length, walk.length - cell))


@njit(forceinline=True)
def _parts(walk):
    """Tiles from the first cell of a line to the last."""
    return (walk.length + walk.tile_length - 1) // walk.tile_length


@njit(forceinline=True)
def _kept_above(table, walk, block, line):
    """Where the states are kept that enter a strip from above, which begins with a line that is not the first."""
    down = (walk.height - 1) // walk.strip * walk.length
    vectors = block * (down + walk.height * (_parts(walk) - 1)) + (line // walk.strip - 1) * walk.length
    return walk.kept + vectors * even(table[STATES]) * LANES


@njit(forceinline=True)
def _kept_before(table, walk, block, tile):
    """Where the states are kept that enter a tile from before, which does not begin a line."""
    down = (walk.height - 1) // walk.strip * walk.length
    vectors = tile.line * (_parts(walk) - 1) + (tile.cell // walk.tile_length - 1) * tile.lines
    return _kept_above(table, walk, block, walk.strip) + (down + vectors) * even(table[STATES]) * LANES


@njit(forceinline=True)
def _cell(walk, tile, i, j):
    """Number of a cell of a tile among the cells of all samples."""
    return walk.start + (tile.line + i) * walk.down + (tile.cell + j) * walk.ahead


@njit(forceinline=True)
def _later(walk, tile, i, j):
    """Number of the cell that is read some cells later: far enough to ask for it, and near enough to still be there."""
    return _cell(walk, tile, i, min(j + LEAD, tile.cells - 1))


@njit(forceinline=True)
def _packed(table, row, block):
    """Where a block begins in packed parameters whose leading axes are counted by `row`."""
    return (row * (whole(table[CHANNELS]) // LANES) + block) * even(table[STATES]) * LANES


@njit(forceinline=True)
def _lanes(table, block):
    """Channels of a block."""
    return min(LANES, table[CHANNELS] - block * LANES)


@njit(forceinline=True)
def _rows(walk, scratch, block):
    """Rows of a block."""
    return offset(scratch.rows, (block - walk.first) * BLOCK_ROWS * ROW)


@njit(forceinline=True)
def _line(table, walk, scratch, block):
    """What is carried from line to line for a block: of a pair, (j, 2)."""
    return offset(scratch.lines, (block - walk.first) * even(table[STATES]) * walk.length * LANES)


@njit(forceinline=True)
def _side(table, walk, scratch, block):
    """What is carried from tile to tile of a strip for a block: of a pair, (i, 2)."""
    return offset(scratch.sides, (block - walk.first) * even(table[STATES]) * walk.strip * LANES)


@njit(forceinline=True)
def _read_maps(table, scratch, walk, tile, like_x):
    """Lay out B and C."""
    states = table[STATES]
    maps_in, maps_out = pointer(table[B], like_x), pointer(table[C], like_x)
    vector_in, vector_out = scratch.spare, offset(scratch.spare, LANES)
    for i in range(tile.lines):
        for j in range(tile.cells):
            t, row = i * tile.cells + j, (_cell(walk, tile, i, j) * table[N_DIRECTIONS] + walk.index) * states
            for begin in range(0, states, LANES):
                lanes = min(LANES, states - begin)
                entering = read(maps_in, row + begin, lanes, scratch.spare_x)
                leaving = read(maps_out, row + begin, lanes, scratch.spare_x)
                store(vector_in, 0, entering)
                store(vector_out, 0, leaving)
                for lane in range(0, lanes, 2):
                    place = ((begin + lane) * CELLS) + 2 * t
                    scratch.maps_in[place] = vector_in[lane]
                    scratch.maps_in[place + 1] = vector_in[lane + 1]
                    scratch.maps_out[place] = vector_out[lane]
                    scratch.maps_out[place + 1] = vector_out[lane + 1]


@njit(forceinline=True)
def _read_tile(table, scratch, walk, tile, like_x, like):
    """Lay out steps, x, inputs, and the outputs of the skip."""
    x, dt = pointer(table[X], like_x), pointer(table[DT], like)
    skips, biases = pointer(table[D], like), pointer(table[BIAS], like)
    fastest, slowest = pointer(table[FASTEST], like), pointer(table[SLOWEST], like)
    for i in range(tile.lines):
        for j in range(tile.cells):
            cell, t = _cell(walk, tile, i, j), i * tile.cells + j
            x_row = cell * table[CHANNELS]
            dt_row = (cell * table[N_DIRECTIONS] + walk.index) * table[CHANNELS]
            later = _later(walk, tile, i, j)
            later_x, later_dt = later * table[CHANNELS], (later * table[N_DIRECTIONS] + walk.index) * table[CHANNELS]
            for block in range(walk.first, walk.last):
                prefetch(x, later_x + block * LANES)
                prefetch(dt, later_dt + block * LANES)
                channel, lanes = block * LANES, _lanes(table, block)
                place = walk.index * whole(table[CHANNELS]) + channel
                raw = read(dt, dt_row + channel, lanes, scratch.spare) + load(biases, place)
                step = softplus(raw) if table[HAS_SOFTPLUS] else raw
                # Rates and steps should decay. Where they would grow beyond all numbers, the result says so.
                step = nan_beyond(step, maximum(step * load(fastest, place), step * load(slowest, place)))
                own = read(x, x_row + channel, lanes, scratch.spare_x)
                rows = offset(_rows(walk, scratch, block), t * LANES)
                store(rows, STEP * ROW, step)
                store(rows, OWN * ROW, own)
                store(rows, INPUT * ROW, step * own)
                store(rows, OUTPUT * ROW, load(skips, place) * own)


@njit(forceinline=True)
def _advance(rows, rates, shares, maps_in, maps_out, line, stride, side, tile, has_outputs, is_corrected):
    """Run a pair of states of a block over a tile; with outputs, add what they give, and move the side on."""
    rate_0, rate_1 = load(rates, 0), load(rates, LANES)
    for i in range(tile.lines):
        g_0, g_1 = load(side, i * PAIR), load(side, i * PAIR + LANES)
        above, here = offset(line, i * stride), offset(line, (i + 1) * stride)
        for j in range(tile.cells):
            t = i * tile.cells + j
            step, u = load(rows, STEP * ROW + t * LANES), load(rows, INPUT * ROW + t * LANES)
            a_0, a_1 = exp2(step * rate_0), exp2(step * rate_1)
            new_0, new_1 = u * splat(maps_in[2 * t]), u * splat(maps_in[2 * t + 1])
            past_0 = a_0 * (g_0 + load(above, j * PAIR))
            past_1 = a_1 * (g_1 + load(above, j * PAIR + LANES))
            g_0, g_1 = a_0 * g_0 + new_0, a_1 * g_1 + new_1
            seen_0, seen_1 = past_0 + new_0, past_1 + new_1
            store(here, j * PAIR, seen_0)
            store(here, j * PAIR + LANES, seen_1)
            if has_outputs:
                if is_corrected:  # taken off the state, a large input would leave rounding errors of a small one
                    seen_0, seen_1 = past_0 + load(shares, 0) * new_0, past_1 + load(shares, LANES) * new_1
                y = load(rows, OUTPUT * ROW + t * LANES) + seen_0 * splat(maps_out[2 * t])
                store(rows, OUTPUT * ROW + t * LANES, y + seen_1 * splat(maps_out[2 * t + 1]))
        if has_outputs:
            store(side, i * PAIR, g_0)
            store(side, i * PAIR + LANES, g_1)


@njit(forceinline=True)
def _write_outputs(table, scratch, walk, tile, like_x):
    """Write the outputs to their cells, or add them to what earlier directions gave."""
    y = pointer(table[Y], like_x)
    for i in range(tile.lines):
        for j in range(tile.cells):
            row = _cell(walk, tile, i, j) * table[CHANNELS]
            for block in range(walk.first, walk.last):
                lanes, place = _lanes(table, block), row + block * LANES
                value = load(_rows(walk, scratch, block), OUTPUT * ROW + (i * tile.cells + j) * LANES)
                if walk.index > 0:
                    value = value + read(y, place, lanes, scratch.spare_x)
                write(y, place, value, lanes, scratch.spare_x)


@njit(forceinline=True)
def _forward_tile(table, scratch, walk, tile, like_x, like):
    """Scan one tile, from the line above and the cells before, which lie in scratch memory."""
    _read_maps(table, scratch, walk, tile, like_x)
    _read_tile(table, scratch, walk, tile, like_x, like)
    for block in range(walk.first, walk.last):
        rows, place = _rows(walk, scratch, block), _packed(table, walk.index, block)
        line, side = _line(table, walk, scratch, block), _side(table, walk, scratch, block)
        for n in range(0, table[STATES], 2):
            _advance(
                rows,
                offset(pointer(table[A], like), place + n * LANES),
                offset(pointer(table[SHARES], like), place + n * LANES),
                offset(scratch.maps_in, n * CELLS),
                offset(scratch.maps_out, n * CELLS),
                offset(line, n * walk.length * LANES + tile.cell * PAIR),
                0,
                offset(side, n * walk.strip * LANES),
                tile,
                True,
                table[SHARES] != 0,
            )
    _write_outputs(table, scratch, walk, tile, like_x)


@njit(forceinline=True)
def _keep(table, scratch, walk, tile, like):
    """Keep the states that enter a tile which begins a strip, or from before."""
    kept, states = pointer(table[CHECKPOINTS], like), even(table[STATES])
    for block in range(walk.first, walk.last):
        if tile.cell > 0:
            place, side = _kept_before(table, walk, block, tile), _side(table, walk, scratch, block)
            for n in range(0, states, 2):
                target = place + n * tile.lines * LANES
                copy(kept, target, side, n * walk.strip * LANES, tile.lines * PAIR)
        elif tile.line > 0 and tile.line % walk.strip == 0:
            place, size = _kept_above(table, walk, block, tile.line), states * walk.length * LANES
            copy(kept, place, _line(table, walk, scratch, block), 0, size)


@njit(forceinline=True)
def _forward_walk(table, scratch, walk, like_x, like):
    """Scan one sample in one direction in some blocks of channels."""
    packed = (walk.last - walk.first) * even(table[STATES]) * LANES
    fill(scratch.lines, packed * walk.length, constant(like, 0))
    for line in range(0, walk.height, walk.tile_height):
        fill(scratch.sides, packed * walk.strip, constant(like, 0))
        for part in range(_parts(walk)):
            tile = _tile(walk, line, part)
            if table[CHECKPOINTS]:
                _keep(table, scratch, walk, tile, like)
            _forward_tile(table, scratch, walk, tile, like_x, like)


@njit(forceinline=True)
def _blocks_of(table, item):
    """Sample, first block, block after the last of a work item."""
    split, batch = item % table[SPLITS], item // table[SPLITS]
    first = split * table[SPLIT_BLOCKS]
    return batch, first, min(first + table[SPLIT_BLOCKS], whole(table[CHANNELS]) // LANES)


@njit(forceinline=True)
def forward(like_x):
    """Take work items of the forward pass until there are none left.

    The argument is the table, typed as a pointer to numbers such as x holds.
    """
    table, like = pointer(address(like_x), int64), computed(like_x)
    scratch = _claim_scratch(table, like_x, like)
    item = claim(offset(table, NEXT))
    while item < table[ITEMS]:
        batch, first, last = _blocks_of(table, item)
        for index in range(table[N_DIRECTIONS]):
            for block in range(first, last, table[GROUP]):
                walk = _walk(table, batch, index, block, min(block + table[GROUP], last))
                _forward_walk(table, scratch, walk, like_x, like)
        item = claim(offset(table, NEXT))
