"""What Numba compiles for `skop.ops.ssd_scan`: chunks of tokens as products of small matrices.

A work item is one sample, one path (all paths, where they share x and their outputs are added), and some
heads. It walks along the path in chunks of 32 tokens, whose inputs, maps, decays and states lie in memory
that stays near the processor. Rows are read where the path says, so that a path costs no copy. The forward
pass keeps the states that enter every second chunk. Every sum has an order that depends on shapes alone.

Letters: h state, u = dt x, l sum of the base-2 logarithms of the decays from the start of the chunk up to a
token, e = 2^l, f = 2^(l_end - l), K = C Bᵀ, S_ij = 2^(l_i - l_j) for j before i or i itself; i, j, t tokens of a
chunk, n states, p channels of a head.
"""

from numba import float64, int64, njit

from skop.ops._simd import LANES, address, claim, computed, exp2, load, nan_beyond, offset, pointer, splat, store
from skop.ops._simd_tiles import ALL, LOWER, add_product, product, transpose, transpose_scaled
from skop.ops.ssd_scan._cpu_frame import (
    AHEAD,
    BELOW,
    CHANNELS,
    CHECKPOINTS,
    CHUNK,
    CROSSED,
    DT,
    FALL,
    FEED,
    FINAL,
    HAS_SKIP,
    HEADS,
    HELD,
    HERE,
    INPUTS,
    INTEGER,
    ITEMS,
    KEPT,
    LENGTH,
    MAPS_ACROSS,
    MAPS_IN,
    MAPS_OUT,
    N_PATHS,
    NEXT,
    OUT,
    PRODUCTS,
    REST,
    RISE,
    SCALED,
    SHARED_MAPS,
    SIZE,
    START,
    STATES,
    STEP,
    TOKENS,
    WEIGHTS,
    WIDE_CHANNELS,
    WIDE_STATES,
    A,
    B,
    C,
    X,
    Y,
    add_skip,
    ask_maps,
    ask_rows,
    ask_states,
    ask_steps,
    claim_frame,
    empty_queue,
    fill,
    kept_before,
    matrix,
    number,
    parts_of,
    queue_of,
    read_maps,
    read_rows,
    read_states,
    read_tokens,
    row_of,
    tensor,
    whole,
    write_rows,
    write_states,
)

__all__: list[str] = []


#: Logarithm of a decay that is 0 in any precision.
_LEAST = -4096.0
#: Adding and subtracting it rounds to an integer.
_ROUNDER = 1.5 * 2.0**52


@njit
def read_gates(frame, path, head, count, full):
    """Lay out steps and decays of a head, and return the decay over the chunk.

    Sums of logarithms are split into integers, which are exact, and rests, so that their differences are as precise
    where they are large as where they are small.
    """
    heads, n_paths, steps = number(frame, HEADS), number(frame, N_PATHS), tensor(frame, DT, frame)
    rate, tokens = tensor(frame, A, pointer(0, float64))[path * heads + head], tensor(frame, TOKENS, pointer(0, int64))
    step, integer, rest = row_of(frame, STEP), row_of(frame, INTEGER), row_of(frame, REST)
    rise, fall, feed = row_of(frame, RISE), row_of(frame, FALL), row_of(frame, FEED)
    total = 0.0
    for t in range(full):
        step[t] = steps[(tokens[t] * n_paths + path) * heads + head] if t < count else 0
        logarithm = step[t] * rate
        total += _LEAST if logarithm < _LEAST else logarithm  # NaN stays
        rounded = (total + _ROUNDER) - _ROUNDER
        integer[t], rest[t] = rounded, total - rounded
    last_integer, last_rest = splat(integer[full - 1]), splat(rest[full - 1])
    for t in range(0, full, LANES):
        up = load(integer, t) + load(rest, t)
        down = (last_integer - load(integer, t)) + (last_rest - load(rest, t))
        decay = nan_beyond(exp2(down), down)
        store(rise, t, nan_beyond(exp2(up), up))
        store(fall, t, decay)
        store(feed, t, decay * load(step, t))
    return rise[full - 1]


@njit
def advance(frame, target, states, decay, full):
    """Carry the states of a head over the chunk."""
    channels, row_size = number(frame, WIDE_CHANNELS), number(frame, WIDE_STATES)
    scaled, maps = matrix(frame, SCALED), matrix(frame, MAPS_IN)
    queue = queue_of(frame)
    add_product(
        target, row_size, decay, states, scaled, 1, channels, maps, row_size, channels, row_size, full, ALL, queue
    )


@njit
def _weigh(frame, full):
    """Weights of the inputs in the outputs, S K dt, with rows of inputs and lanes of outputs."""
    integer, rest, step = row_of(frame, INTEGER), row_of(frame, REST), row_of(frame, STEP)
    below, products, weights = matrix(frame, BELOW), matrix(frame, PRODUCTS), matrix(frame, WEIGHTS)
    for i in range(0, full, LANES):
        this_integer, this_rest = load(integer, i), load(rest, i)
        for j in range(i + LANES):
            exponent = (this_integer - splat(integer[j])) + (this_rest - splat(rest[j]))
            if j >= i:
                exponent = exponent + load(below, (j - i) * LANES)
            decay = nan_beyond(exp2(exponent), exponent)
            place = j * CHUNK + i
            store(weights, place, decay * (load(products, place) * splat(step[j])))


@njit
def _forward_head(frame, x, y, states, path, head, count, full):
    """Outputs of a head in a chunk, and the state that leaves it."""
    queue = queue_of(frame)
    channels, row_size = number(frame, WIDE_CHANNELS), number(frame, WIDE_STATES)
    inputs, out, crossed = matrix(frame, INPUTS), matrix(frame, OUT), matrix(frame, CROSSED)
    decay = read_gates(frame, path, head, count, full)
    read_rows(frame, x, inputs, matrix(frame, SCALED), row_of(frame, FEED), path, head, count, full)
    _weigh(frame, full)
    product(crossed, CHUNK, states, row_size, 1, matrix(frame, MAPS_ACROSS), CHUNK, channels, full, row_size, queue)
    transpose_scaled(out, channels, crossed, CHUNK, channels, full, row_of(frame, RISE))
    add_product(
        out, channels, 1, out, matrix(frame, WEIGHTS), 1, CHUNK, inputs, channels, full, channels, full, LOWER, queue
    )
    advance(frame, states, states, decay, full)
    if number(frame, HAS_SKIP):
        add_skip(frame, inputs, path, head, full)
    write_rows(frame, y, path, head, count)


@njit
def _forward_maps(frame, like_x, batch, path, begin, count, full):
    """Tokens of a chunk, and products of their maps, with rows of inputs and lanes of outputs."""
    row_size = number(frame, WIDE_STATES)
    maps_in, maps_out, across = matrix(frame, MAPS_IN), matrix(frame, MAPS_OUT), matrix(frame, MAPS_ACROSS)
    read_tokens(frame, batch, path, begin, count, CHUNK)
    read_maps(frame, tensor(frame, B, like_x), maps_in, path, count, full)
    read_maps(frame, tensor(frame, C, like_x), maps_out, path, count, full)
    transpose(across, CHUNK, maps_out, row_size, full, row_size)
    for j in range(0, full, LANES):
        block, rows = offset(matrix(frame, PRODUCTS), j * CHUNK + j), offset(maps_in, j * row_size)
        there = offset(across, j)
        product(block, CHUNK, rows, row_size, 1, there, CHUNK, LANES, full - j, row_size, queue_of(frame))


@njit
def _ask_ahead(frame, like_x, path, head, first, last):
    """Ask for what a head writes, and for its share of what the next chunk reads."""
    empty_queue(frame)
    ask_rows(frame, tensor(frame, Y, like_x), path, head, HERE)
    ask_rows(frame, tensor(frame, X, like_x), path, head, AHEAD)
    ask_maps(frame, tensor(frame, B, like_x), path, number(frame, SHARED_MAPS), AHEAD, head - first, last - first)
    ask_maps(frame, tensor(frame, C, like_x), path, number(frame, SHARED_MAPS), AHEAD, head - first, last - first)
    if head == first:
        ask_steps(frame, tensor(frame, DT, frame), path, first, last, AHEAD)


@njit
def _forward_path(frame, like_x, batch, path, first, last):
    """Scan one sample along one path in some heads."""
    length, heads, size = number(frame, LENGTH), number(frame, HEADS), number(frame, SIZE)
    numbers, row = number(frame, CHANNELS) * number(frame, STATES), batch * number(frame, N_PATHS) + path
    held, x, y = matrix(frame, HELD), tensor(frame, X, like_x), tensor(frame, Y, like_x)
    start, kept = tensor(frame, START, frame), tensor(frame, CHECKPOINTS, frame)
    fill(held, (last - first) * size, 0)
    if number(frame, START):
        for head in range(first, last):
            read_states(frame, offset(held, (head - first) * size), offset(start, (row * heads + head) * numbers))
    for begin in range(0, length, CHUNK):
        count = min(CHUNK, length - begin)
        _forward_maps(frame, like_x, batch, path, begin, count, whole(count))
        place = kept_before(frame, batch, path, begin // (KEPT * CHUNK))
        for head in range(first, last):
            states = offset(held, (head - first) * size)
            if number(frame, CHECKPOINTS) and begin % (KEPT * CHUNK) == 0:
                write_states(frame, offset(kept, (place + head) * numbers), states)
            _ask_ahead(frame, like_x, path, head, first, last)
            if number(frame, CHECKPOINTS) and begin % (KEPT * CHUNK) != 0:
                ask_states(frame, offset(kept, (place + heads + head) * numbers))
            _forward_head(frame, x, y, states, path, head, count, whole(count))
    for head in range(first, last):
        final = offset(tensor(frame, FINAL, frame), (row * heads + head) * numbers)
        write_states(frame, final, offset(held, (head - first) * size))


@njit(forceinline=True)
def forward(like_x):
    """Take work items of the forward pass until there are none left.

    The argument is the table, typed as a pointer to numbers such as x holds.
    """
    table = pointer(address(like_x), int64)
    frame = claim_frame(table, computed(like_x))
    item = claim(offset(table, NEXT))
    while item < number(frame, ITEMS):
        batch, path, end, first, last = parts_of(frame, item)
        for each in range(path, end):
            _forward_path(frame, like_x, batch, each, first, last)
        item = claim(offset(table, NEXT))
