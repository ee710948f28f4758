"""What Numba compiles for the selective scans along paths and over grids: lanes of a vector are neighbouring channels.

A work item is one sample, one path (all paths, where they share x and their outputs are added), and some blocks of 16
channels. A path is a list of tokens that consists of lines: a scan along a path has one line, a scan over a grid those
of its first pass. It is walked in tiles: a line, or a part of it, or several where they are short. For each tile and
block, steps and inputs are laid out in scratch memory, and pairs of states run over the tile: the state of the first
pass in registers, that of the second in a line of memory. Rows are read where the path says, so that a path costs no
copy. The forward pass keeps the states that enter strips of some lines from the line above, and those that enter parts
of lines from the token before. The backward pass takes the strips from the last and the parts of each from the last: it
computes the states of the second pass anew, line by line, and then walks back through the tiles. Every sum has an order
that depends on shapes alone.

States, A and shares are packed as (path, block, n, lane), with an even number of n. What a tile holds of pairs of
states is ordered as (pair, token, 2), with lanes last where there are some.

Notation: g state of the first pass, h of the second (of a path: of the only one), u = dt x, a = 2^(dt A) decay with A
in base 2, y output, B and C input and output maps, n state of a channel, t token of a tile, i line, j token of a line.
Shares are 1 - R: of the own input, in y. (In the code, f is the workspace of the thread.)
"""

from math import log

from numba import int32

from skop.ops import _cpu_selective_words as w
from skop.ops._cpu_workspace import add, claim_workspace, copy, even, fill, next_item, put, read, whole, write
from skop.ops._simd import (
    LANES,
    call,
    constant,
    exp2,
    inlined,
    integers,
    load,
    matrix,
    maximum,
    nan_beyond,
    number,
    offset,
    outlined,
    pointer,
    prefetch,
    set_number,
    sigmoid,
    smaller,
    softplus,
    splat,
    store,
    sum_lanes,
    wide,
    widen,
)

__all__: list[str] = []

_LN_2 = log(2)


# Where things are.


@inlined
def packed_size(f, blocks):
    """Numbers in the packed states of some blocks."""
    return blocks * even(number(f, w.STATES)) * LANES


@inlined
def packed(f, row, block):
    """Where a block begins in packed states whose leading axes are counted by `row`."""
    return packed_size(f, row * (whole(number(f, w.CHANNELS)) // LANES) + block)


@inlined
def rows_of(f, block):
    """Rows of a block."""
    return offset(matrix(f, w.ROWS), (block - number(f, w.FIRST)) * (w.BLOCK_ROWS * w.ROW))


@inlined
def lanes_of(f, block):
    """Channels of a block."""
    return smaller(LANES, number(f, w.CHANNELS) - block * LANES)


@inlined
def row_of_x(f, token):
    """Where the row of x of a token begins."""
    row = token if number(f, w.SHARED) else token * number(f, w.N_PATHS) + number(f, w.PATH)
    return row * number(f, w.CHANNELS)


@inlined
def row_of_dt(f, token):
    """Where the row of dt of a token begins."""
    return (token * number(f, w.N_PATHS) + number(f, w.PATH)) * number(f, w.CHANNELS)


@inlined
def parts(f):
    """Tiles from the first token of a line to the last."""
    return (number(f, w.LINE_LENGTH) + number(f, w.TILE_LENGTH) - 1) // number(f, w.TILE_LENGTH)


@inlined
def line_of(f, block):
    """What is carried from line to line for a block."""
    return offset(matrix(f, w.LINES), packed_size(f, (block - number(f, w.FIRST)) * number(f, w.LINE_LENGTH)))


@inlined
def side_of(f, block):
    """What is carried from tile to tile of a strip for a block."""
    return offset(matrix(f, w.SIDES), packed_size(f, (block - number(f, w.FIRST)) * number(f, w.STRIP_HEIGHT)))


@inlined
def kept_above(f, block, line):
    """Where the states are kept that enter a strip from above, which begins with a line that is not the first."""
    vectors = (line // number(f, w.STRIP_HEIGHT) - 1) * number(f, w.LINE_LENGTH)
    return number(f, w.KEPT_AT) + block * number(f, w.KEPT_BLOCK) + packed_size(f, vectors)


@inlined
def kept_before(f, block):
    """Where the states are kept that enter the tile from before, which does not begin a line."""
    return number(f, w.KEPT_TILE) + block * number(f, w.KEPT_BLOCK)


@inlined
def strip_line(f):
    """Numbers in the states of a line of a strip for a block, with the gap of `w.ROW`."""
    return packed_size(f, number(f, w.TILE_LENGTH)) + 5 * LANES


@inlined
def strip_of(f, block, n):
    """States of a pair above the first line of the tile; those of its lines follow, at a distance of `strip_line`."""
    height = number(f, w.STRIP_HEIGHT)
    lines = (block - number(f, w.FIRST)) * (height + 1) + number(f, w.LINE) % height
    return offset(matrix(f, w.STRIP), lines * strip_line(f) + n * number(f, w.TILE_LENGTH) * LANES)


@inlined
def before(f, block, n):
    """Where the states of a pair lie that enter the tile from before."""
    if number(f, w.TOKEN) > 0:
        return offset(matrix(f, w.CHECKPOINTS), kept_before(f, block) + n * number(f, w.N_LINES) * LANES)
    if number(f, w.START):
        row = number(f, w.BATCH) * number(f, w.N_PATHS) + number(f, w.PATH)
        return offset(matrix(f, w.START), packed(f, row, block) + n * LANES)
    return matrix(f, w.ZEROS)


@inlined
def tokens_of_tile(f):
    """Tokens of the tile."""
    return number(f, w.N_LINES) * number(f, w.LINE_TOKENS)


# Rows of tensors.


@inlined
def find_tokens(f):
    """Look up the tokens of the tile, and those that follow some tokens later."""
    length, tokens = number(f, w.LENGTH), integers(f, w.WHERE)
    order = offset(pointer(number(f, w.PATHS), int32), number(f, w.PATH) * length)
    first = number(f, w.BATCH) * length
    for i in range(number(f, w.N_LINES)):
        place = (number(f, w.LINE) + i) * number(f, w.LINE_LENGTH) + number(f, w.TOKEN)
        for j in range(number(f, w.LINE_TOKENS)):
            t = i * number(f, w.LINE_TOKENS) + j
            tokens[t] = first + order[place + j]
            tokens[w.TOKENS + t] = first + order[smaller(place + j + w.AHEAD, length - 1)]


@inlined
def read_maps(f):
    """Lay out rows of B and C."""
    states, row_size, tokens = number(f, w.STATES), whole(number(f, w.STATES)), integers(f, w.WHERE)
    b, c, maps_in, maps_out = matrix(f, w.B), matrix(f, w.C), matrix(f, w.MAPS_IN), matrix(f, w.MAPS_OUT)
    n_paths, path = number(f, w.N_PATHS), number(f, w.PATH)
    for t in range(tokens_of_tile(f)):
        row = (tokens[t] * n_paths + path) * states
        for n in range(0, states, LANES):
            lanes = smaller(LANES, states - n)
            store(maps_in, t * row_size + n, read(b, row + n, lanes))
            store(maps_out, t * row_size + n, read(c, row + n, lanes))


@outlined
def read_tile(f):
    """Lay out the maps of a tile, steps, x, inputs, and the outputs of the skip."""
    find_tokens(f)
    read_maps(f)
    x, dt, tokens = matrix(f, w.X), matrix(f, w.DT), integers(f, w.WHERE)
    skips, biases, has_softplus = matrix(f, w.D), matrix(f, w.BIAS), number(f, w.HAS_SOFTPLUS)
    fastest, slowest = matrix(f, w.FASTEST), matrix(f, w.SLOWEST)
    first_channel = number(f, w.PATH) * whole(number(f, w.CHANNELS))
    for t in range(tokens_of_tile(f)):
        x_row, dt_row = row_of_x(f, tokens[t]), row_of_dt(f, tokens[t])
        later_x, later_dt = row_of_x(f, tokens[w.TOKENS + t]), row_of_dt(f, tokens[w.TOKENS + t])
        for block in range(number(f, w.FIRST), number(f, w.LAST)):
            channel, lanes = block * LANES, lanes_of(f, block)
            prefetch(x, later_x + channel)
            prefetch(dt, later_dt + channel)
            place = first_channel + channel
            raw = read(dt, dt_row + channel, lanes) + load(biases, place)
            step = softplus(raw) if has_softplus else raw
            # Rates and steps should decay. Where they would grow beyond all numbers, the result says so.
            step = nan_beyond(step, maximum(step * load(fastest, place), step * load(slowest, place)))
            own, rows = read(x, x_row + channel, lanes), offset(rows_of(f, block), t * LANES)
            store(rows, w.STEP * w.ROW, step)
            store(rows, w.OWN * w.ROW, own)
            store(rows, w.INPUT * w.ROW, step * own)
            store(rows, w.OUTPUT * w.ROW, load(skips, place) * own)


@outlined
def write_outputs(f):
    """Write the outputs to their tokens; those of shared inputs are added to what earlier paths gave."""
    y, tokens, is_more = matrix(f, w.Y), integers(f, w.WHERE), number(f, w.SHARED) != 0 and number(f, w.PATH) > 0
    for t in range(tokens_of_tile(f)):
        row = row_of_x(f, tokens[t])
        for block in range(number(f, w.FIRST), number(f, w.LAST)):
            lanes, place = lanes_of(f, block), row + block * LANES
            value = load(rows_of(f, block), w.OUTPUT * w.ROW + t * LANES)
            if is_more:
                value = value + read(y, place, lanes)
            write(y, place, value, lanes)


@outlined
def read_grads(f):
    """Lay out the gradients of the outputs, and zeros for those of inputs and steps."""
    grad_y, tokens = matrix(f, w.GRAD_Y), integers(f, w.WHERE)
    for t in range(tokens_of_tile(f)):
        row, later = row_of_x(f, tokens[t]), row_of_x(f, tokens[w.TOKENS + t])
        for block in range(number(f, w.FIRST), number(f, w.LAST)):
            prefetch(grad_y, later + block * LANES)
            rows = offset(rows_of(f, block), t * LANES)
            store(rows, w.GRAD_OUTPUT * w.ROW, read(grad_y, row + block * LANES, lanes_of(f, block)))
            store(rows, w.GRAD_INPUT * w.ROW, constant(f, 0))
            store(rows, w.GRAD_STEP * w.ROW, constant(f, 0))


@outlined
def write_grads(f):
    """Write gradients of x, of the steps and of the maps; add up those of the skip and the bias."""
    dt, grad_x, grad_dt, tokens = matrix(f, w.DT), matrix(f, w.GRAD_X), matrix(f, w.GRAD_DT), integers(f, w.WHERE)
    skips, biases, has_softplus = matrix(f, w.D), matrix(f, w.BIAS), number(f, w.HAS_SOFTPLUS)
    sums_d, sums_bias, is_more = wide(f, w.SUMS_D), wide(f, w.SUMS_BIAS), number(f, w.PATH) > 0
    first_channel = number(f, w.PATH) * whole(number(f, w.CHANNELS))
    for t in range(tokens_of_tile(f)):
        x_row, dt_row = row_of_x(f, tokens[t]), row_of_dt(f, tokens[t])
        later_x, later_dt = row_of_x(f, tokens[w.TOKENS + t]), row_of_dt(f, tokens[w.TOKENS + t])
        for block in range(number(f, w.FIRST), number(f, w.LAST)):
            prefetch(grad_x, later_x + block * LANES)
            prefetch(grad_dt, later_dt + block * LANES)
            rows, lanes = offset(rows_of(f, block), t * LANES), lanes_of(f, block)
            channel, local = first_channel + block * LANES, (block - number(f, w.FIRST)) * LANES
            own, grad_y = load(rows, w.OWN * w.ROW), load(rows, w.GRAD_OUTPUT * w.ROW)
            grad_u, place = load(rows, w.GRAD_INPUT * w.ROW), x_row + block * LANES
            value = grad_u * load(rows, w.STEP * w.ROW) + load(skips, channel) * grad_y
            if number(f, w.SHARED) != 0 and is_more:
                value = value + read(grad_x, place, lanes)
            write(grad_x, place, value, lanes)
            grad_step = load(rows, w.GRAD_STEP * w.ROW) * constant(f, _LN_2) + grad_u * own
            place = dt_row + block * LANES
            if has_softplus:
                grad_step = grad_step * sigmoid(read(dt, place, lanes) + load(biases, channel))
            write(grad_dt, place, grad_step, lanes)
            add(sums_d, local, widen(grad_y * own))
            add(sums_bias, local, widen(grad_step))
    write_grad_maps(f, matrix(f, w.GRAD_MAPS_IN), matrix(f, w.GRAD_B))
    write_grad_maps(f, matrix(f, w.GRAD_MAPS_OUT), matrix(f, w.GRAD_C))


@inlined
def write_grad_maps(f, source, target):
    """Write the gradients of B or C, or add them to those of earlier blocks of the item."""
    states, n_paths, tokens = number(f, w.STATES), number(f, w.N_PATHS), integers(f, w.WHERE)
    first = number(f, w.SPLIT) * number(f, w.SAMPLES) * number(f, w.LENGTH)
    is_first = number(f, w.FIRST) == number(f, w.SPLIT) * number(f, w.SPLIT_BLOCKS)
    for t in range(tokens_of_tile(f)):
        row = ((first + tokens[t]) * n_paths + number(f, w.PATH)) * states
        for n in range(states):
            value = source[(n & -2) * w.TOKENS + 2 * t + (n & 1)]
            target[row + n] = value if is_first else target[row + n] + value


# States of a tile.


@inlined
def advance(f, is_grid, has_outputs, is_corrected):
    """Run the states over the tile; with outputs, add what they give, and move the sides on."""
    row_size, n_lines, n_tokens = whole(number(f, w.STATES)), number(f, w.N_LINES), number(f, w.LINE_TOKENS)
    all_in, all_out = matrix(f, w.MAPS_IN), matrix(f, w.MAPS_OUT)
    for block in range(number(f, w.FIRST), number(f, w.LAST)):
        rows, place = rows_of(f, block), packed(f, number(f, w.PATH), block)
        for n in range(0, number(f, w.STATES), 2):
            rates, shares = offset(matrix(f, w.A), place + n * LANES), offset(matrix(f, w.SHARES), place + n * LANES)
            rate_0, rate_1 = load(rates, 0), load(rates, LANES)
            maps_in, maps_out = offset(all_in, n), offset(all_out, n)
            if has_outputs:
                side = offset(side_of(f, block), n * number(f, w.STRIP_HEIGHT) * LANES)
                line = offset(line_of(f, block), n * number(f, w.LINE_LENGTH) * LANES + number(f, w.TOKEN) * w.PAIR)
                stride = 0
            else:
                side, line, stride = before(f, block, n), strip_of(f, block, n), strip_line(f)
            for i in range(n_lines):
                g_0, g_1 = load(side, i * w.PAIR), load(side, i * w.PAIR + LANES)
                above, here = offset(line, i * stride), offset(line, (i + 1) * stride)
                for j in range(n_tokens):
                    t = i * n_tokens + j
                    step, u = load(rows, w.STEP * w.ROW + t * LANES), load(rows, w.INPUT * w.ROW + t * LANES)
                    a_0, a_1 = exp2(step * rate_0), exp2(step * rate_1)
                    new_0, new_1 = u * splat(maps_in[t * row_size]), u * splat(maps_in[t * row_size + 1])
                    if is_grid:
                        past_0 = a_0 * (g_0 + load(above, j * w.PAIR))
                        past_1 = a_1 * (g_1 + load(above, j * w.PAIR + LANES))
                        g_0, g_1 = a_0 * g_0 + new_0, a_1 * g_1 + new_1
                        seen_0, seen_1 = past_0 + new_0, past_1 + new_1
                        store(here, j * w.PAIR, seen_0)
                        store(here, j * w.PAIR + LANES, seen_1)
                    else:
                        past_0, past_1 = a_0 * g_0, a_1 * g_1
                        g_0, g_1 = past_0 + new_0, past_1 + new_1
                        seen_0, seen_1 = g_0, g_1
                    if has_outputs:
                        if is_corrected:  # taken off the state, a large input would leave errors of a small one
                            seen_0, seen_1 = past_0 + load(shares, 0) * new_0, past_1 + load(shares, LANES) * new_1
                        y = load(rows, w.OUTPUT * w.ROW + t * LANES) + seen_0 * splat(maps_out[t * row_size])
                        store(rows, w.OUTPUT * w.ROW + t * LANES, y + seen_1 * splat(maps_out[t * row_size + 1]))
                if has_outputs:
                    store(side, i * w.PAIR, g_0)
                    store(side, i * w.PAIR + LANES, g_1)


@outlined
def advance_line(f):
    """Scan along a path."""
    advance(f, False, True, False)


@outlined
def advance_line_corrected(f):
    """Scan along a path with a correction."""
    advance(f, False, True, True)


@outlined
def advance_grid(f):
    """Scan over a grid."""
    advance(f, True, True, number(f, w.SHARES) != 0)


@outlined
def rerun_grid(f):
    """Compute the states of the lines of a tile of a grid anew."""
    advance(f, True, False, False)


@inlined
def sum_maps(f, n):
    """Sum the lanes of the gradients of B and C of a pair, each eight tokens at a time."""
    grads_in = offset(matrix(f, w.GRAD_MAPS_IN), n * w.TOKENS)
    grads_out = offset(matrix(f, w.GRAD_MAPS_OUT), n * w.TOKENS)
    for t in range(0, 2 * tokens_of_tile(f), LANES):
        store(grads_in, t, sum_lanes(offset(matrix(f, w.PARTIAL_IN), t * LANES)))
        store(grads_out, t, sum_lanes(offset(matrix(f, w.PARTIAL_OUT), t * LANES)))


@inlined
def rerun_line_pair(f, block, n, is_corrected):
    """Run a pair of states over a tile of a path; keep decays and what they leave; gradients of the output maps."""
    row_size, is_first = whole(number(f, w.STATES)), block == number(f, w.FIRST)
    rows, place, side = rows_of(f, block), packed(f, number(f, w.PATH), block) + n * LANES, before(f, block, n)
    rates, shares = offset(matrix(f, w.A), place), offset(matrix(f, w.SHARES), place)
    decays, pasts, partial = matrix(f, w.DECAYS), matrix(f, w.PASTS), matrix(f, w.PARTIAL_OUT)
    maps_in = offset(matrix(f, w.MAPS_IN), n)
    rate_0, rate_1, h_0, h_1 = load(rates, 0), load(rates, LANES), load(side, 0), load(side, LANES)
    for t in range(number(f, w.LINE_TOKENS)):
        step, u = load(rows, w.STEP * w.ROW + t * LANES), load(rows, w.INPUT * w.ROW + t * LANES)
        grad_y = load(rows, w.GRAD_OUTPUT * w.ROW + t * LANES)
        a_0, a_1 = exp2(step * rate_0), exp2(step * rate_1)
        left_0, left_1 = a_0 * h_0, a_1 * h_1
        store(decays, t * w.PAIR, a_0)
        store(decays, t * w.PAIR + LANES, a_1)
        store(pasts, t * w.PAIR, left_0)
        store(pasts, t * w.PAIR + LANES, left_1)
        new_0, new_1 = u * splat(maps_in[t * row_size]), u * splat(maps_in[t * row_size + 1])
        h_0, h_1 = left_0 + new_0, left_1 + new_1
        seen_0, seen_1 = h_0, h_1
        if is_corrected:
            seen_0, seen_1 = left_0 + load(shares, 0) * new_0, left_1 + load(shares, LANES) * new_1
        put(partial, t * w.PAIR, seen_0 * grad_y, is_first)
        put(partial, t * w.PAIR + LANES, seen_1 * grad_y, is_first)


@inlined
def retreat_line_pair(f, block, n, is_corrected):
    """Carry the gradients of a pair of states back over a tile of a path, and give everything its share."""
    row_size, is_first, zero = whole(number(f, w.STATES)), block == number(f, w.FIRST), constant(f, 0)
    rows, place = rows_of(f, block), packed(f, number(f, w.PATH), block) + n * LANES
    rates, shares = offset(matrix(f, w.A), place), offset(matrix(f, w.SHARES), place)
    decays, pasts, partial = matrix(f, w.DECAYS), matrix(f, w.PASTS), matrix(f, w.PARTIAL_IN)
    maps_in, maps_out = offset(matrix(f, w.MAPS_IN), n), offset(matrix(f, w.MAPS_OUT), n)
    side, local = offset(side_of(f, block), n * LANES), packed_size(f, block - number(f, w.FIRST)) + n * LANES
    rate_0, rate_1, g_0, g_1 = load(rates, 0), load(rates, LANES), load(side, 0), load(side, LANES)
    sum_0 = sum_1 = share_0 = share_1 = zero
    for t in range(number(f, w.LINE_TOKENS) - 1, -1, -1):
        step, u = load(rows, w.STEP * w.ROW + t * LANES), load(rows, w.INPUT * w.ROW + t * LANES)
        grad_y, row, pair = load(rows, w.GRAD_OUTPUT * w.ROW + t * LANES), t * row_size, t * w.PAIR
        in_0, in_1 = splat(maps_in[row]), splat(maps_in[row + 1])
        seen_0, seen_1 = grad_y * splat(maps_out[row]), grad_y * splat(maps_out[row + 1])
        new_0, new_1 = g_0 + seen_0, g_1 + seen_1
        grad_0, grad_1 = new_0 * load(pasts, pair), new_1 * load(pasts, pair + LANES)
        after_0, after_1 = new_0 * load(decays, pair), new_1 * load(decays, pair + LANES)
        if is_corrected:
            new_0, new_1 = g_0 + load(shares, 0) * seen_0, g_1 + load(shares, LANES) * seen_1
            share_0, share_1 = share_0 + seen_0 * (u * in_0), share_1 + seen_1 * (u * in_1)
        g_0, g_1 = after_0, after_1
        put(partial, pair, new_0 * u, is_first)
        put(partial, pair + LANES, new_1 * u, is_first)
        add(rows, w.GRAD_INPUT * w.ROW + t * LANES, new_0 * in_0 + new_1 * in_1)
        add(rows, w.GRAD_STEP * w.ROW + t * LANES, grad_0 * rate_0 + grad_1 * rate_1)
        sum_0, sum_1 = sum_0 + grad_0 * step, sum_1 + grad_1 * step
    store(side, 0, g_0)
    store(side, LANES, g_1)
    add(wide(f, w.SUMS_A), local, widen(sum_0))
    add(wide(f, w.SUMS_A), local + LANES, widen(sum_1))
    if is_corrected:
        add(wide(f, w.SUMS_SHARES), local, widen(share_0))
        add(wide(f, w.SUMS_SHARES), local + LANES, widen(share_1))


@inlined
def retreat_over_line(f, is_corrected):
    """Gradients of a tile of a path, from those of the tokens after it."""
    for n in range(0, number(f, w.STATES), 2):
        for block in range(number(f, w.FIRST), number(f, w.LAST)):
            rerun_line_pair(f, block, n, is_corrected)
            retreat_line_pair(f, block, n, is_corrected)
        sum_maps(f, n)


@outlined
def retreat_line(f):
    """Gradients of a tile of a path."""
    retreat_over_line(f, False)


@outlined
def retreat_line_corrected(f):
    """Gradients of a tile of a path with a correction."""
    retreat_over_line(f, True)


@inlined
def rerun_grid_pair(f, block, n, line, below):
    """Run a pair of states of the first pass over a tile; keep decays and what is before each token.

    What `retreat_grid_pair` will read from afar is asked for.
    """
    row_size, n_lines, n_tokens = whole(number(f, w.STATES)), number(f, w.N_LINES), number(f, w.LINE_TOKENS)
    rows, place, side = rows_of(f, block), packed(f, number(f, w.PATH), block) + n * LANES, before(f, block, n)
    decays, pasts, rates, stride = matrix(f, w.DECAYS), matrix(f, w.PASTS), offset(matrix(f, w.A), place), strip_line(f)
    rate_0, rate_1, maps_in = load(rates, 0), load(rates, LANES), offset(matrix(f, w.MAPS_IN), n)
    for i in range(n_lines):
        g_0, g_1 = load(side, i * w.PAIR), load(side, i * w.PAIR + LANES)
        for j in range(n_tokens):
            t = i * n_tokens + j
            for near in (j * w.PAIR, j * w.PAIR + LANES):
                prefetch(line, i * stride + near)
                prefetch(line, (i + 1) * stride + near)
                prefetch(below, near)
            step, u = load(rows, w.STEP * w.ROW + t * LANES), load(rows, w.INPUT * w.ROW + t * LANES)
            a_0, a_1 = exp2(step * rate_0), exp2(step * rate_1)
            store(decays, t * w.PAIR, a_0)
            store(decays, t * w.PAIR + LANES, a_1)
            store(pasts, t * w.PAIR, g_0)
            store(pasts, t * w.PAIR + LANES, g_1)
            g_0 = a_0 * g_0 + u * splat(maps_in[t * row_size])
            g_1 = a_1 * g_1 + u * splat(maps_in[t * row_size + 1])


@inlined
def retreat_grid_pair(f, block, n, line, below, is_corrected):
    """Carry the gradients of a pair of states back over a tile, and give everything its share."""
    row_size, is_first, zero = whole(number(f, w.STATES)), block == number(f, w.FIRST), constant(f, 0)
    n_tokens, stride, height = number(f, w.LINE_TOKENS), strip_line(f), number(f, w.STRIP_HEIGHT)
    rows, place = rows_of(f, block), packed(f, number(f, w.PATH), block) + n * LANES
    rates, shares = offset(matrix(f, w.A), place), offset(matrix(f, w.SHARES), place)
    decays, pasts = matrix(f, w.DECAYS), matrix(f, w.PASTS)
    partial_in, partial_out = matrix(f, w.PARTIAL_IN), matrix(f, w.PARTIAL_OUT)
    maps_in, maps_out = offset(matrix(f, w.MAPS_IN), n), offset(matrix(f, w.MAPS_OUT), n)
    side = offset(side_of(f, block), n * height * LANES + number(f, w.LINE) % height * w.PAIR)
    local = packed_size(f, block - number(f, w.FIRST)) + n * LANES
    rate_0, rate_1 = load(rates, 0), load(rates, LANES)
    for i in range(number(f, w.N_LINES) - 1, -1, -1):
        above, here = offset(line, i * stride), offset(line, (i + 1) * stride)
        after_0, after_1 = load(side, i * w.PAIR), load(side, i * w.PAIR + LANES)
        sum_0 = sum_1 = sum_share_0 = sum_share_1 = zero
        for j in range(n_tokens - 1, -1, -1):
            t = i * n_tokens + j
            row, pair, near = t * row_size, t * w.PAIR, j * w.PAIR
            step, u = load(rows, w.STEP * w.ROW + t * LANES), load(rows, w.INPUT * w.ROW + t * LANES)
            grad_y = load(rows, w.GRAD_OUTPUT * w.ROW + t * LANES)
            a_0, a_1 = load(decays, pair), load(decays, pair + LANES)
            seen_0, seen_1 = load(here, near), load(here, near + LANES)
            grad_seen_0, grad_seen_1 = grad_y * splat(maps_out[row]), grad_y * splat(maps_out[row + 1])
            grad_h_0, grad_h_1 = load(below, near) + grad_seen_0, load(below, near + LANES) + grad_seen_1
            grad_g_0, grad_g_1 = grad_h_0 + after_0, grad_h_1 + after_1
            grad_new_0, grad_new_1 = grad_g_0, grad_g_1
            if is_corrected:
                share_0, share_1 = load(shares, 0), load(shares, LANES)
                new_0, new_1 = u * splat(maps_in[row]), u * splat(maps_in[row + 1])
                seen_0 = a_0 * (load(pasts, pair) + load(above, near)) + share_0 * new_0
                seen_1 = a_1 * (load(pasts, pair + LANES) + load(above, near + LANES)) + share_1 * new_1
                grad_new_0 = load(below, near) + after_0 + share_0 * grad_seen_0
                grad_new_1 = load(below, near + LANES) + after_1 + share_1 * grad_seen_1
                sum_share_0, sum_share_1 = sum_share_0 + grad_seen_0 * new_0, sum_share_1 + grad_seen_1 * new_1
            put(partial_out, pair, seen_0 * grad_y, is_first)
            put(partial_out, pair + LANES, seen_1 * grad_y, is_first)
            put(partial_in, pair, grad_new_0 * u, is_first)
            put(partial_in, pair + LANES, grad_new_1 * u, is_first)
            grad_u = load(rows, w.GRAD_INPUT * w.ROW + t * LANES) + grad_new_0 * splat(maps_in[row])
            store(rows, w.GRAD_INPUT * w.ROW + t * LANES, grad_u + grad_new_1 * splat(maps_in[row + 1]))
            after_0, after_1, up_0, up_1 = a_0 * grad_g_0, a_1 * grad_g_1, a_0 * grad_h_0, a_1 * grad_h_1
            log_0 = after_0 * load(pasts, pair) + up_0 * load(above, near)
            log_1 = after_1 * load(pasts, pair + LANES) + up_1 * load(above, near + LANES)
            grad_step = load(rows, w.GRAD_STEP * w.ROW + t * LANES) + log_0 * rate_0
            store(rows, w.GRAD_STEP * w.ROW + t * LANES, grad_step + log_1 * rate_1)
            sum_0, sum_1 = sum_0 + log_0 * step, sum_1 + log_1 * step
            store(below, near, up_0)
            store(below, near + LANES, up_1)
        store(side, i * w.PAIR, after_0)
        store(side, i * w.PAIR + LANES, after_1)
        add(wide(f, w.SUMS_A), local, widen(sum_0))
        add(wide(f, w.SUMS_A), local + LANES, widen(sum_1))
        if is_corrected:
            add(wide(f, w.SUMS_SHARES), local, widen(sum_share_0))
            add(wide(f, w.SUMS_SHARES), local + LANES, widen(sum_share_1))


@outlined
def retreat_grid(f):
    """Gradients of a tile of a grid, from those of the line below and the tokens after."""
    is_corrected = number(f, w.SHARES) != 0
    for n in range(0, number(f, w.STATES), 2):
        for block in range(number(f, w.FIRST), number(f, w.LAST)):
            line, place = strip_of(f, block, n), n * number(f, w.LINE_LENGTH) * LANES + number(f, w.TOKEN) * w.PAIR
            below = offset(line_of(f, block), place)
            rerun_grid_pair(f, block, n, line, below)
            retreat_grid_pair(f, block, n, line, below, is_corrected)
        sum_maps(f, n)


# The walk.


@inlined
def enter_tile(f, line, part):
    """Go to the tile that begins with a line, in a part of it."""
    height, length, token = number(f, w.HEIGHT), number(f, w.LINE_LENGTH), part * number(f, w.TILE_LENGTH)
    n_lines, later_parts = smaller(number(f, w.TILE_HEIGHT), height - line), parts(f) - 1
    set_number(f, w.LINE, line)
    set_number(f, w.TOKEN, token)
    set_number(f, w.N_LINES, n_lines)
    set_number(f, w.LINE_TOKENS, smaller(number(f, w.TILE_LENGTH), length - token))
    # Of a block, first those that enter strips from above are kept, then those that enter parts of lines from before.
    above = (height - 1) // number(f, w.STRIP_HEIGHT) * length
    set_number(f, w.KEPT_BLOCK, packed_size(f, above + height * later_parts))
    place = packed_size(f, above + line * later_parts + (part - 1) * n_lines)
    set_number(f, w.KEPT_TILE, number(f, w.KEPT_AT) + place)


@inlined
def packed_row(f):
    """Where the blocks of the item begin in packed states of samples and paths."""
    return packed(f, number(f, w.BATCH) * number(f, w.N_PATHS) + number(f, w.PATH), number(f, w.FIRST))


@inlined
def begin_sides(f, size, name):
    """Set the sides to the states, or gradients of states, that a tensor holds, or to 0 where there is none."""
    if number(f, name):
        copy(matrix(f, w.SIDES), 0, matrix(f, name), packed_row(f), size)
    else:
        fill(matrix(f, w.SIDES), size * number(f, w.STRIP_HEIGHT), 0)


@inlined
def keep(f):
    """Keep the states that enter a tile from before, or the strip that it begins from above."""
    kept, states, height = matrix(f, w.CHECKPOINTS), even(number(f, w.STATES)), number(f, w.STRIP_HEIGHT)
    line, length = number(f, w.LINE), number(f, w.LINE_LENGTH)
    for block in range(number(f, w.FIRST), number(f, w.LAST)):
        if number(f, w.TOKEN) > 0:
            size = number(f, w.N_LINES) * w.PAIR
            for n in range(0, states, 2):
                copy(kept, kept_before(f, block) + n // 2 * size, side_of(f, block), n * height * LANES, size)
        elif line > 0 and line % height == 0:
            copy(kept, kept_above(f, block, line), line_of(f, block), 0, states * length * LANES)


@outlined
def walk_forward(f):
    """Scan one sample along one path in some blocks of channels."""
    size = packed_size(f, number(f, w.LAST) - number(f, w.FIRST))
    if number(f, w.HAS_LINES):
        fill(matrix(f, w.LINES), size * number(f, w.LINE_LENGTH), 0)
    for line in range(0, number(f, w.HEIGHT), number(f, w.TILE_HEIGHT)):
        begin_sides(f, size, w.START)
        for part in range(parts(f)):
            enter_tile(f, line, part)
            if number(f, w.CHECKPOINTS):
                keep(f)
            call(f, w.READ)
            call(f, w.ADVANCE)
            call(f, w.WRITE)
    if number(f, w.FINAL):
        copy(matrix(f, w.FINAL), packed_row(f), matrix(f, w.SIDES), 0, size)


@inlined
def enter_strip(f):
    """Lay out the states that enter a part of a strip, which begins with the tile, from above."""
    kept, size, length = matrix(f, w.CHECKPOINTS), number(f, w.LINE_TOKENS) * w.PAIR, number(f, w.LINE_LENGTH)
    for block in range(number(f, w.FIRST), number(f, w.LAST)):
        for n in range(0, number(f, w.STATES), 2):
            target = strip_of(f, block, n)
            if number(f, w.LINE) > 0:
                place = kept_above(f, block, number(f, w.LINE)) + n * length * LANES + number(f, w.TOKEN) * w.PAIR
                copy(target, 0, kept, place, size)
            else:
                fill(target, size, 0)


@inlined
def write_sums(f, name, place, sums, count):
    """Write what was added up in float64 to a tensor, if there is one."""
    target = matrix(f, name)
    if number(f, name):
        for index in range(count):
            target[place + index] = sums[index]


@outlined
def walk_backward(f):
    """Gradients of one sample along one path in some blocks of channels, strip by strip from the last.

    The parts of a strip are taken from the last, first down to compute states, where there are several lines, then up.
    """
    first, height, strip = number(f, w.FIRST), number(f, w.HEIGHT), number(f, w.STRIP_HEIGHT)
    blocks, size = number(f, w.LAST) - first, packed_size(f, number(f, w.LAST) - first)
    fill(wide(f, w.SUMS_A), size, 0)
    fill(wide(f, w.SUMS_SHARES), size, 0)
    fill(wide(f, w.SUMS_D), blocks * LANES, 0)
    fill(wide(f, w.SUMS_BIAS), blocks * LANES, 0)
    fill(matrix(f, w.ZEROS), number(f, w.TILE_HEIGHT) * w.PAIR, 0)
    if number(f, w.HAS_LINES):
        fill(matrix(f, w.LINES), size * number(f, w.LINE_LENGTH), 0)
    for begin in range((height - 1) // strip * strip, -1, -strip):
        begin_sides(f, size, w.GRAD_FINAL)
        end = smaller(begin + strip, height)
        last = begin + (end - 1 - begin) // number(f, w.TILE_HEIGHT) * number(f, w.TILE_HEIGHT)
        for part in range(parts(f) - 1, -1, -1):
            if number(f, w.HAS_LINES):
                enter_tile(f, begin, part)
                enter_strip(f)
                for line in range(begin, end, number(f, w.TILE_HEIGHT)):
                    enter_tile(f, line, part)
                    call(f, w.READ)
                    call(f, w.RERUN)
            for line in range(last, begin - 1, -number(f, w.TILE_HEIGHT)):
                enter_tile(f, line, part)
                call(f, w.READ)
                call(f, w.READ_GRADS)
                call(f, w.RETREAT)
                call(f, w.WRITE_GRADS)
    if number(f, w.GRAD_START):
        copy(matrix(f, w.GRAD_START), packed_row(f), matrix(f, w.SIDES), 0, size)
    row = number(f, w.BATCH) * number(f, w.N_PATHS) + number(f, w.PATH)
    channel = row * whole(number(f, w.CHANNELS)) + first * LANES
    write_sums(f, w.GRAD_A, packed_row(f), wide(f, w.SUMS_A), size)
    write_sums(f, w.GRAD_SHARES, packed_row(f), wide(f, w.SUMS_SHARES), size)
    write_sums(f, w.GRAD_D, channel, wide(f, w.SUMS_D), blocks * LANES)
    write_sums(f, w.GRAD_BIAS, channel, wide(f, w.SUMS_BIAS), blocks * LANES)


@outlined
def run(table):
    """Take work items until there are none left; the argument is the table of arguments."""
    f = claim_workspace(table)
    shared, n_paths, splits = number(f, w.SHARED), number(f, w.N_PATHS), number(f, w.SPLITS)
    groups, split_blocks = 1 if shared else n_paths, number(f, w.SPLIT_BLOCKS)
    item = next_item(f)
    while item < number(f, w.ITEMS):
        split, rest = item % splits, item // splits
        set_number(f, w.SPLIT, split)
        set_number(f, w.BATCH, rest // groups)
        first, last = split * split_blocks, smaller((split + 1) * split_blocks, whole(number(f, w.CHANNELS)) // LANES)
        for path in range(rest % groups, n_paths if shared else rest % groups + 1):
            set_number(f, w.PATH, path)
            walk = offset(integers(f, w.WALKS), 6 * path)
            for place in range(6):
                set_number(f, w.LINE_LENGTH + place, walk[place])
            set_number(f, w.KEPT_AT, walk[5] + rest // groups * number(f, w.KEPT))
            for block in range(first, last, number(f, w.GROUP)):
                set_number(f, w.FIRST, block)
                set_number(f, w.LAST, smaller(block + number(f, w.GROUP), last))
                call(f, w.WALK)
        item = next_item(f)
