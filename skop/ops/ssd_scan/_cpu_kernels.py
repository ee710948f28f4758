"""What Numba compiles for `skop.ops.ssd_scan`: chunks of tokens as products of small matrices.

A work item is one sample, one path (all paths, where they share x and their outputs are added), and some
heads. It walks along the path in chunks of 32 tokens, whose inputs, maps, decays and states lie in memory
that stays near the processor. Rows are read where the path says, so that a path costs no copy. The forward
pass keeps the states that enter every second chunk. Every sum has an order that depends on shapes alone.

Notation: h state, u = dt x, l sum of the base-2 logarithms of the decays from the start of the chunk up to a
token, e = 2^l, f = 2^(l_end - l), K = C Bᵀ, S_ij = 2^(l_i - l_j) for j before i or i itself; i, j, t tokens of a
chunk, n states, p channels of a head. (In the code, f is the workspace of the thread.)
"""

from skop.ops._simd import (
    LANES,
    address,
    call,
    exp2,
    inlined,
    integers,
    load,
    matrix,
    nan_beyond,
    number,
    offset,
    outlined,
    pointer,
    set_number,
    splat,
    store,
    wide,
)
from skop.ops._simd_tiles import ALL, LOWER
from skop.ops.ssd_scan import _cpu_rows as rows
from skop.ops.ssd_scan import _cpu_words as w

__all__: list[str] = []


#: Logarithm of a decay that is 0 in any precision.
_LEAST = -4096.0
#: Adding and subtracting it rounds to an integer.
_ROUNDER = 1.5 * 2.0**52


@outlined
def read_gates(f):
    """Lay out steps and decays of the head, and return the decay over the chunk.

    Sums of logarithms are split into integers, which are exact, and rests, so that their differences are as precise
    where they are large as where they are small.
    """
    heads, n_paths, path, head = number(f, w.HEADS), number(f, w.N_PATHS), number(f, w.PATH), number(f, w.HEAD)
    steps, tokens, full, count = matrix(f, w.DT), integers(f, w.TOKENS), number(f, w.FULL), number(f, w.COUNT)
    rate = wide(f, w.A)[path * heads + head]
    step, integer, rest = rows.row_of(f, w.STEP), rows.row_of(f, w.INTEGER), rows.row_of(f, w.REST)
    rise, fall, feed = rows.row_of(f, w.RISE), rows.row_of(f, w.FALL), rows.row_of(f, w.FEED)
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


@outlined
def advance(f, target, states, decay):
    """Carry the states of the head over the chunk."""
    channels, row_size, full = number(f, w.WIDE_CHANNELS), number(f, w.WIDE_STATES), number(f, w.FULL)
    scaled, maps = matrix(f, w.SCALED), matrix(f, w.MAPS_IN)
    rows.add_matmul(
        f, target, row_size, decay, states, scaled, 1, channels, maps, row_size, channels, row_size, full, ALL
    )


@inlined
def weigh(f):
    """Weights of the inputs in the outputs, S K dt, with rows of inputs and lanes of outputs."""
    integer, rest, step = rows.row_of(f, w.INTEGER), rows.row_of(f, w.REST), rows.row_of(f, w.STEP)
    below, products, weights = matrix(f, w.BELOW), matrix(f, w.PRODUCTS), matrix(f, w.WEIGHTS)
    for i in range(0, number(f, w.FULL), LANES):
        this_integer, this_rest = load(integer, i), load(rest, i)
        for j in range(i + LANES):
            exponent = (this_integer - splat(integer[j])) + (this_rest - splat(rest[j]))
            if j >= i:
                exponent = exponent + load(below, (j - i) * LANES)
            decay = nan_beyond(exp2(exponent), exponent)
            place = j * w.CHUNK + i
            store(weights, place, decay * (load(products, place) * splat(step[j])))


@outlined
def forward_head(f):
    """Outputs of a head in a chunk, and the state that leaves it."""
    channels, row_size, full = number(f, w.WIDE_CHANNELS), number(f, w.WIDE_STATES), number(f, w.FULL)
    inputs, out, crossed, states = matrix(f, w.INPUTS), matrix(f, w.OUT), matrix(f, w.CROSSED), matrix(f, w.STATE)
    across, weights = matrix(f, w.MAPS_ACROSS), matrix(f, w.WEIGHTS)
    decay = read_gates(f)
    rows.read_rows(f, matrix(f, w.X), inputs, matrix(f, w.SCALED), rows.row_of(f, w.FEED))
    weigh(f)
    rows.matmul(f, crossed, w.CHUNK, states, row_size, 1, across, w.CHUNK, channels, full, row_size)
    rows.turn(f, out, channels, crossed, w.CHUNK, channels, full, rows.row_of(f, w.RISE))
    rows.add_matmul(f, out, channels, 1, out, weights, 1, w.CHUNK, inputs, channels, full, channels, full, LOWER)
    advance(f, states, states, decay)
    if number(f, w.HAS_SKIP):
        rows.add_skip(f, inputs)
    rows.write_rows(f, matrix(f, w.Y))


@outlined
def forward_maps(f):
    """Tokens of a chunk, and products of their maps, with rows of inputs and lanes of outputs."""
    row_size, full = number(f, w.WIDE_STATES), number(f, w.FULL)
    maps_in, maps_out, across = matrix(f, w.MAPS_IN), matrix(f, w.MAPS_OUT), matrix(f, w.MAPS_ACROSS)
    rows.read_chunk(f)
    rows.read_maps(f, matrix(f, w.C), maps_out)
    rows.turn(f, across, w.CHUNK, maps_out, row_size, full, row_size, pointer(0, f))
    for j in range(0, full, LANES):
        block, left = offset(matrix(f, w.PRODUCTS), j * w.CHUNK + j), offset(maps_in, j * row_size)
        rows.matmul(f, block, w.CHUNK, left, row_size, 1, offset(across, j), w.CHUNK, LANES, full - j, row_size)


@outlined
def ask_forward(f):
    """Ask for what a head writes, and for its share of what the next chunk reads."""
    shared = number(f, w.SHARED_MAPS) != 0
    rows.empty_queue(f)
    rows.ask_rows(f, matrix(f, w.Y), w.HERE)
    rows.ask_rows(f, matrix(f, w.X), w.AHEAD)
    rows.ask_maps(f, matrix(f, w.B), shared, w.AHEAD)
    rows.ask_maps(f, matrix(f, w.C), shared, w.AHEAD)
    if number(f, w.HEAD) == number(f, w.FIRST):
        rows.ask_steps(f, matrix(f, w.DT), w.AHEAD)


@outlined
def walk_forward(f):
    """Scan one sample along one path in some heads."""
    length, heads, size = number(f, w.LENGTH), number(f, w.HEADS), number(f, w.SIZE)
    numbers = number(f, w.CHANNELS) * number(f, w.STATES)
    first, last, held = number(f, w.FIRST), number(f, w.LAST), matrix(f, w.HELD)
    row = (number(f, w.BATCH) * number(f, w.N_PATHS) + number(f, w.PATH)) * heads
    rows.fill(held, (last - first) * size, 0)
    if number(f, w.START):
        for head in range(first, last):
            source = offset(matrix(f, w.START), (row + head) * numbers)
            rows.read_states(f, offset(held, (head - first) * size), source)
    for begin in range(0, length, w.CHUNK):
        rows.enter_chunk(f, begin, w.CHUNK)
        call(f, w.CHUNK_MAPS)
        place = rows.kept_before(f, begin // (w.KEPT * w.CHUNK))
        for head in range(first, last):
            states = offset(held, (head - first) * size)
            set_number(f, w.HEAD, head)
            set_number(f, w.STATE, address(states))
            if number(f, w.CHECKPOINTS) and begin % (w.KEPT * w.CHUNK) == 0:
                rows.write_states(f, offset(matrix(f, w.CHECKPOINTS), (place + head) * numbers), states)
            call(f, w.AHEAD_PART)
            if number(f, w.CHECKPOINTS) and begin % (w.KEPT * w.CHUNK) != 0:
                rows.ask_states(f, offset(matrix(f, w.CHECKPOINTS), (place + heads + head) * numbers))
            call(f, w.HEAD_PART)
    for head in range(first, last):
        rows.write_states(f, offset(matrix(f, w.FINAL), (row + head) * numbers), offset(held, (head - first) * size))
