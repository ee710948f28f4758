"""What Numba compiles for `skop.ops.selective_scan`: the lanes of a vector are neighbouring channels.

A work item is one sample, one path (all paths, where they share x and their outputs are added), and some
blocks of 16 channels. It walks along the path in chunks of tokens. For each chunk and block, the steps
and inputs are laid out in scratch memory, and pairs of states run over the chunk in registers. The
forward pass keeps the states that enter the chunks; the backward pass starts from them, computes the
states of a chunk anew, and walks back through it. Rows are read where the path says, so that a path
costs no copy. Every sum has an order that depends on shapes alone.

States, A and shares are packed as (path, block, n, lane), with an even number of n. Rows of B and C in scratch
memory are padded to whole vectors of n.

Letters: h state, u = dt x, a = 2^(dt A) decay with A in base 2, y output, g gradient of the state, B and C
input and output maps, n state of a channel, t token of a chunk. Shares are 1 - R: of the own input, in y.
"""

from collections import namedtuple

from numba import float64, int32, int64, njit

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

#: Tokens of a chunk.
CHUNK = 32
#: Tokens between asking for a row of memory and reading it.
AHEAD = 8
#: Memory of a vector per token. The gap keeps such rows from lying a multiple of 4096 bytes apart, where the
#: processor takes a read of one for a read of what was just written to another.
ROW = CHUNK * LANES + 5 * LANES

#: Places in the table of arguments: what threads share, sizes, then addresses, 0 for what is absent.
(
    NEXT, SLOT, ITEMS, SCRATCH, SCRATCH_BYTES,
    SAMPLES, LENGTH, N_PATHS, SHARED, CHANNELS, STATES, SPLITS, SPLIT_BLOCKS, HAS_SOFTPLUS,
    X, DT, A, FASTEST, SLOWEST, B, C, D, BIAS, SHARES, START, PATHS, Y, FINAL, CHECKPOINTS,
    GRAD_Y, GRAD_FINAL, GRAD_X, GRAD_DT, GRAD_A, GRAD_B, GRAD_C, GRAD_D, GRAD_BIAS, GRAD_SHARES, GRAD_START,
    N_ARGUMENTS,
) = range(41)  # fmt: skip

#: Rows of each block in scratch memory, in units of ROW, and rows of a pair of states that come before them.
(STEP, OWN, INPUT, OUTPUT, GRAD_OUTPUT, GRAD_STEP, BLOCK_ROWS) = range(7)
GRAD_INPUT = OUTPUT
PAIR_ROWS = 4


#: Scratch memory of a thread. spare, spare_x: a vector, in the precision of the states and of x. decays, lefts: of
#: a pair of states. rows: see above. maps_*: rows of B and of C. states, grads: packed, of the blocks of the item.
#: partial_*: gradients of the maps before their lanes are summed. sums_*: gradients of A, of 1 - R, of D and of the
#: bias, in float64.
_Scratch = namedtuple(
    "_Scratch",
    "spare spare_x decays lefts rows maps_in maps_out states grads partial_in partial_out"
    " sums_a sums_shares sums_d sums_bias",
)


def scratch_bytes(states, blocks):
    """Memory of a thread for blocks of so many channels' states, if all of it is float64."""
    maps = CHUNK * (-(-states // LANES) * LANES) + 5 * LANES
    packed = blocks * (states + states % 2) * LANES
    rows = (PAIR_ROWS + blocks * BLOCK_ROWS) * ROW
    return 8 * (2 * LANES + rows + 2 * maps + 2 * LANES * maps + 4 * packed + 2 * blocks * LANES)


@njit(forceinline=True)
def _claim_scratch(table, like_x, like):
    """Lay out the scratch memory of the calling thread."""
    slot = claim(offset(table, SLOT))
    start = table[SCRATCH] + slot * table[SCRATCH_BYTES]
    states, blocks = table[STATES], table[SPLIT_BLOCKS]
    maps, packed = CHUNK * whole(states) + 5 * LANES, blocks * even(states) * LANES
    sums = pointer(start, float64)
    rest = pointer(start + 8 * (2 * packed + 2 * blocks * LANES + 2 * LANES), like)
    maps_in = offset(rest, (PAIR_ROWS + blocks * BLOCK_ROWS) * ROW)
    states_start = offset(maps_in, 2 * maps)
    partial = offset(states_start, 2 * packed)
    spare_start = start + 8 * (2 * packed + 2 * blocks * LANES)
    return _Scratch(
        pointer(spare_start, like),
        pointer(spare_start, like_x),
        rest,
        offset(rest, PAIR_ROWS // 2 * ROW),
        offset(rest, PAIR_ROWS * ROW),
        maps_in,
        offset(maps_in, maps),
        states_start,
        offset(states_start, packed),
        partial,
        offset(partial, maps * LANES),
        sums,
        offset(sums, packed),
        offset(sums, 2 * packed),
        offset(sums, 2 * packed + blocks * LANES),
    )


@njit(forceinline=True)
def _packed_size(table, blocks):
    """Numbers in the packed states of some blocks."""
    return blocks * even(table[STATES]) * LANES


@njit(forceinline=True)
def _packed(table, row, block):
    """Where a block begins in packed states whose leading axes are counted by `row`."""
    return _packed_size(table, row * (whole(table[CHANNELS]) // LANES) + block)


@njit(forceinline=True)
def _token(table, batch, path, position):
    """Row of the token that a path visits at a position, among the tokens of all samples."""
    order = pointer(table[PATHS], int32)
    return batch * table[LENGTH] + order[path * table[LENGTH] + position]


@njit(forceinline=True)
def _x_row(table, token, path):
    """Where the row of x of a token begins."""
    return (token if table[SHARED] else token * table[N_PATHS] + path) * table[CHANNELS]


@njit(forceinline=True)
def _lanes(table, block):
    """Channels of a block."""
    return min(LANES, table[CHANNELS] - block * LANES)


@njit(forceinline=True)
def _read_maps(table, scratch, batch, path, begin, count, like_x):
    """Lay out rows of B and C along the path."""
    states, row_size = table[STATES], whole(table[STATES])
    maps_in, maps_out = pointer(table[B], like_x), pointer(table[C], like_x)
    for t in range(count):
        row = (_token(table, batch, path, begin + t) * table[N_PATHS] + path) * states
        for n in range(0, states, LANES):
            lanes = min(LANES, states - n)
            store(scratch.maps_in, t * row_size + n, read(maps_in, row + n, lanes, scratch.spare_x))
            store(scratch.maps_out, t * row_size + n, read(maps_out, row + n, lanes, scratch.spare_x))


@njit(forceinline=True)
def _rows(scratch, local):
    """Rows of a block, counted from the first of the item."""
    return offset(scratch.rows, local * BLOCK_ROWS * ROW)


@njit(forceinline=True)
def _dt_row(table, token, path):
    """Where the row of dt of a token begins."""
    return (token * table[N_PATHS] + path) * table[CHANNELS]


@njit(forceinline=True)
def _read_chunk(table, scratch, batch, path, first, last, begin, count, like_x, like):
    """Lay out steps, x, inputs, and the outputs of the skip."""
    x, dt = pointer(table[X], like_x), pointer(table[DT], like)
    skips, biases = pointer(table[D], like), pointer(table[BIAS], like)
    fastest, slowest = pointer(table[FASTEST], like), pointer(table[SLOWEST], like)
    for t in range(count):
        token = _token(table, batch, path, begin + t)
        x_row, dt_row = _x_row(table, token, path), _dt_row(table, token, path)
        later = _token(table, batch, path, min(begin + t + AHEAD, table[LENGTH] - 1))
        later_x, later_dt = _x_row(table, later, path), _dt_row(table, later, path)
        for block in range(first, last):
            prefetch(x, later_x + block * LANES)
            prefetch(dt, later_dt + block * LANES)
            channel, lanes = block * LANES, _lanes(table, block)
            place = path * whole(table[CHANNELS]) + channel
            raw = read(dt, dt_row + channel, lanes, scratch.spare) + load(biases, place)
            step = softplus(raw) if table[HAS_SOFTPLUS] else raw
            # Rates and steps should decay. Where they would grow beyond all numbers, the result says so.
            step = nan_beyond(step, maximum(step * load(fastest, place), step * load(slowest, place)))
            own = read(x, x_row + channel, lanes, scratch.spare_x)
            rows = offset(_rows(scratch, block - first), t * LANES)
            store(rows, STEP * ROW, step)
            store(rows, OWN * ROW, own)
            store(rows, INPUT * ROW, step * own)
            store(rows, OUTPUT * ROW, load(skips, place) * own)


@njit(forceinline=True)
def _advance(scratch, rows, rates, shares, states, n, row_size, count, is_corrected):
    """Run a pair of states of a block over a chunk, and add what they give to the outputs."""
    rate_0, rate_1 = load(rates, n * LANES), load(rates, (n + 1) * LANES)
    h_0, h_1 = load(states, n * LANES), load(states, (n + 1) * LANES)
    for t in range(count):
        step, u = load(rows, STEP * ROW + t * LANES), load(rows, INPUT * ROW + t * LANES)
        place = t * row_size + n
        left_0, left_1 = exp2(step * rate_0) * h_0, exp2(step * rate_1) * h_1
        new_0, new_1 = u * splat(scratch.maps_in[place]), u * splat(scratch.maps_in[place + 1])
        h_0, h_1 = left_0 + new_0, left_1 + new_1
        seen_0, seen_1 = h_0, h_1
        if is_corrected:  # taken off the state afterwards, a large input would leave rounding errors of a small state
            seen_0, seen_1 = left_0 + load(shares, n * LANES) * new_0, left_1 + load(shares, (n + 1) * LANES) * new_1
        y = load(rows, OUTPUT * ROW + t * LANES) + seen_0 * splat(scratch.maps_out[place])
        store(rows, OUTPUT * ROW + t * LANES, y + seen_1 * splat(scratch.maps_out[place + 1]))
    store(states, n * LANES, h_0)
    store(states, (n + 1) * LANES, h_1)


@njit(forceinline=True)
def _write_outputs(table, scratch, batch, path, first, last, begin, count, like_x):
    """Write the outputs to their tokens; those of shared inputs are added to what earlier paths gave."""
    y = pointer(table[Y], like_x)
    for t in range(count):
        row = _x_row(table, _token(table, batch, path, begin + t), path)
        for block in range(first, last):
            lanes, place = _lanes(table, block), row + block * LANES
            value = load(_rows(scratch, block - first), OUTPUT * ROW + t * LANES)
            if table[SHARED] and path > 0:
                value = value + read(y, place, lanes, scratch.spare_x)
            write(y, place, value, lanes, scratch.spare_x)


@njit(forceinline=True)
def _forward_path(table, scratch, batch, path, first, last, like_x, like):
    """Scan one sample along one path in some blocks of channels."""
    size, row = _packed_size(table, last - first), batch * table[N_PATHS] + path
    if table[START]:
        copy(scratch.states, 0, pointer(table[START], like), _packed(table, row, first), size)
    else:
        fill(scratch.states, size, constant(like, 0))
    chunks = (table[LENGTH] + CHUNK - 1) // CHUNK
    for chunk in range(chunks):
        begin = chunk * CHUNK
        count = min(CHUNK, table[LENGTH] - begin)
        if table[CHECKPOINTS]:
            kept = pointer(table[CHECKPOINTS], like)
            copy(kept, _packed(table, row * chunks + chunk, first), scratch.states, 0, size)
        _read_maps(table, scratch, batch, path, begin, count, like_x)
        _read_chunk(table, scratch, batch, path, first, last, begin, count, like_x, like)
        for block in range(first, last):
            rows, place = _rows(scratch, block - first), _packed(table, path, block)
            rates, shares = offset(pointer(table[A], like), place), offset(pointer(table[SHARES], like), place)
            states = offset(scratch.states, _packed_size(table, block - first))
            for n in range(0, table[STATES], 2):
                if table[SHARES]:  # two copies of the loop, so that it pays for a correction only where there is one
                    _advance(scratch, rows, rates, shares, states, n, whole(table[STATES]), count, True)
                else:
                    _advance(scratch, rows, rates, shares, states, n, whole(table[STATES]), count, False)
        _write_outputs(table, scratch, batch, path, first, last, begin, count, like_x)
    if table[FINAL]:
        copy(pointer(table[FINAL], like), _packed(table, row, first), scratch.states, 0, size)


@njit(forceinline=True)
def _paths_of(table, item):
    """Sample, first path, path after the last, first block, block after the last of a work item."""
    split, rest = item % table[SPLITS], item // table[SPLITS]
    groups = 1 if table[SHARED] else table[N_PATHS]
    batch, path = rest // groups, rest % groups
    first = split * table[SPLIT_BLOCKS]
    last = min(first + table[SPLIT_BLOCKS], whole(table[CHANNELS]) // LANES)
    return batch, path, (table[N_PATHS] if table[SHARED] else path + 1), first, last


@njit(forceinline=True)
def forward(like_x):
    """Take work items of the forward pass until there are none left.

    The argument is the table, typed as a pointer to numbers such as x holds.
    """
    table, like = pointer(address(like_x), int64), computed(like_x)
    scratch = _claim_scratch(table, like_x, like)
    item = claim(offset(table, NEXT))
    while item < table[ITEMS]:
        batch, path, end, first, last = _paths_of(table, item)
        for each in range(path, end):
            _forward_path(table, scratch, batch, each, first, last, like_x, like)
        item = claim(offset(table, NEXT))
