"""What Numba compiles for the gradients of `skop.ops.selective_scan_2d`; see `_cpu_kernels` for layout and letters."""

from math import log

from numba import int64, njit

from skop.ops._cpu_memory import add, copy, even, fill, put, read, whole, write, write_sums
from skop.ops._simd import (
    LANES,
    address,
    claim,
    computed,
    constant,
    exp2,
    load,
    offset,
    pointer,
    prefetch,
    sigmoid,
    splat,
    store,
    sum_lanes,
    widen,
)
from skop.ops.selective_scan_2d._cpu_kernels import (
    BIAS,
    CELLS,
    CELLS_OF_SAMPLE,
    CHANNELS,
    CHECKPOINTS,
    DT,
    GRAD_A,
    GRAD_B,
    GRAD_BIAS,
    GRAD_C,
    GRAD_D,
    GRAD_DT,
    GRAD_INPUT,
    GRAD_OUTPUT,
    GRAD_SHARES,
    GRAD_STEP,
    GRAD_X,
    GRAD_Y,
    GROUP,
    HAS_SOFTPLUS,
    INPUT,
    ITEMS,
    N_DIRECTIONS,
    NEXT,
    OWN,
    PAIR,
    ROW,
    SAMPLES,
    SHARES,
    SPLIT_BLOCKS,
    SPLITS,
    STATES,
    STEP,
    A,
    D,
    _advance,
    _blocks_of,
    _cell,
    _claim_scratch,
    _kept_above,
    _kept_before,
    _lanes,
    _later,
    _line,
    _packed,
    _parts,
    _read_maps,
    _read_tile,
    _rows,
    _side,
    _tile,
    _walk,
)

__all__: list[str] = []


_LN_2 = log(2)


@njit(forceinline=True)
def _read_grads(table, scratch, walk, tile, like_x, like):
    """Lay out the gradients of the outputs, and zeros for those of inputs and steps."""
    grad_y = pointer(table[GRAD_Y], like_x)
    for i in range(tile.lines):
        for j in range(tile.cells):
            row, t = _cell(walk, tile, i, j) * table[CHANNELS], i * tile.cells + j
            later = _later(walk, tile, i, j) * table[CHANNELS]
            for block in range(walk.first, walk.last):
                rows = offset(_rows(walk, scratch, block), t * LANES)
                prefetch(grad_y, later + block * LANES)
                value = read(grad_y, row + block * LANES, _lanes(table, block), scratch.spare_x)
                store(rows, GRAD_OUTPUT * ROW, value)
                store(rows, GRAD_INPUT * ROW, constant(like, 0))
                store(rows, GRAD_STEP * ROW, constant(like, 0))


@njit(forceinline=True)
def _recompute(scratch, rows, rates, maps_in, before, strip, stride, below, tile):
    """Run a pair of states of the first pass over a tile; keep decays and what is before each cell.

    What `_retreat` will read from afar is asked for.
    """
    decays, befores = scratch.decays, scratch.befores
    rate_0, rate_1 = load(rates, 0), load(rates, LANES)
    for i in range(tile.lines):
        g_0, g_1 = load(before, i * PAIR), load(before, i * PAIR + LANES)
        for j in range(tile.cells):
            t = i * tile.cells + j
            for place in (j * PAIR, j * PAIR + LANES):
                prefetch(strip, i * stride + place)
                prefetch(strip, (i + 1) * stride + place)
                prefetch(below, place)
            step, u = load(rows, STEP * ROW + t * LANES), load(rows, INPUT * ROW + t * LANES)
            a_0, a_1 = exp2(step * rate_0), exp2(step * rate_1)
            store(decays, t * PAIR, a_0)
            store(decays, t * PAIR + LANES, a_1)
            store(befores, t * PAIR, g_0)
            store(befores, t * PAIR + LANES, g_1)
            g_0 = a_0 * g_0 + u * splat(maps_in[2 * t])
            g_1 = a_1 * g_1 + u * splat(maps_in[2 * t + 1])


@njit(forceinline=True)
def _retreat(scratch, local, rows, rates, shares, n, strip, stride, below, side, tile, is_first, is_corrected, zero):
    """Carry the gradients of a pair of states back over a tile, and give everything its share."""
    decays, befores, maps_in = scratch.decays, scratch.befores, offset(scratch.maps_in, n * CELLS)
    partial_in, partial_out, maps_out = scratch.partial_in, scratch.partial_out, offset(scratch.maps_out, n * CELLS)
    rate_0, rate_1 = load(rates, 0), load(rates, LANES)
    for i in range(tile.lines - 1, -1, -1):
        above, here = offset(strip, i * stride), offset(strip, (i + 1) * stride)
        after_0, after_1 = load(side, i * PAIR), load(side, i * PAIR + LANES)
        sum_0 = sum_1 = sum_share_0 = sum_share_1 = zero
        for j in range(tile.cells - 1, -1, -1):
            t = i * tile.cells + j
            step, u = load(rows, STEP * ROW + t * LANES), load(rows, INPUT * ROW + t * LANES)
            grad_y = load(rows, GRAD_OUTPUT * ROW + t * LANES)
            a_0, a_1 = load(decays, t * PAIR), load(decays, t * PAIR + LANES)
            seen_0, seen_1 = load(here, j * PAIR), load(here, j * PAIR + LANES)
            grad_seen_0, grad_seen_1 = grad_y * splat(maps_out[2 * t]), grad_y * splat(maps_out[2 * t + 1])
            grad_h_0, grad_h_1 = load(below, j * PAIR) + grad_seen_0, load(below, j * PAIR + LANES) + grad_seen_1
            grad_g_0, grad_g_1 = grad_h_0 + after_0, grad_h_1 + after_1
            grad_new_0, grad_new_1 = grad_g_0, grad_g_1
            if is_corrected:
                share_0, share_1 = load(shares, 0), load(shares, LANES)
                new_0, new_1 = u * splat(maps_in[2 * t]), u * splat(maps_in[2 * t + 1])
                seen_0 = a_0 * (load(befores, t * PAIR) + load(above, j * PAIR)) + share_0 * new_0
                seen_1 = a_1 * (load(befores, t * PAIR + LANES) + load(above, j * PAIR + LANES)) + share_1 * new_1
                grad_new_0 = load(below, j * PAIR) + after_0 + share_0 * grad_seen_0
                grad_new_1 = load(below, j * PAIR + LANES) + after_1 + share_1 * grad_seen_1
                sum_share_0, sum_share_1 = sum_share_0 + grad_seen_0 * new_0, sum_share_1 + grad_seen_1 * new_1
            put(partial_out, t * PAIR, seen_0 * grad_y, is_first)
            put(partial_out, t * PAIR + LANES, seen_1 * grad_y, is_first)
            put(partial_in, t * PAIR, grad_new_0 * u, is_first)
            put(partial_in, t * PAIR + LANES, grad_new_1 * u, is_first)
            grad_u = load(rows, GRAD_INPUT * ROW + t * LANES) + grad_new_0 * splat(maps_in[2 * t])
            store(rows, GRAD_INPUT * ROW + t * LANES, grad_u + grad_new_1 * splat(maps_in[2 * t + 1]))
            after_0, after_1, up_0, up_1 = a_0 * grad_g_0, a_1 * grad_g_1, a_0 * grad_h_0, a_1 * grad_h_1
            log_0 = after_0 * load(befores, t * PAIR) + up_0 * load(above, j * PAIR)
            log_1 = after_1 * load(befores, t * PAIR + LANES) + up_1 * load(above, j * PAIR + LANES)
            grad_step = load(rows, GRAD_STEP * ROW + t * LANES) + log_0 * rate_0
            store(rows, GRAD_STEP * ROW + t * LANES, grad_step + log_1 * rate_1)
            sum_0, sum_1 = sum_0 + log_0 * step, sum_1 + log_1 * step
            store(below, j * PAIR, up_0)
            store(below, j * PAIR + LANES, up_1)
        store(side, i * PAIR, after_0)
        store(side, i * PAIR + LANES, after_1)
        add(scratch.sums_a, local, widen(sum_0))
        add(scratch.sums_a, local + LANES, widen(sum_1))
        add(scratch.sums_shares, local, widen(sum_share_0))
        add(scratch.sums_shares, local + LANES, widen(sum_share_1))


@njit(forceinline=True)
def _sum_maps(scratch, n, count):
    """Sum the lanes of the gradients of B and C of a pair, each eight cells at a time."""
    for t in range(0, 2 * count, LANES):
        entering = sum_lanes(offset(scratch.partial_in, t * LANES))
        leaving = sum_lanes(offset(scratch.partial_out, t * LANES))
        store(scratch.grad_maps_in, n * CELLS + t, entering)
        store(scratch.grad_maps_out, n * CELLS + t, leaving)


@njit(forceinline=True)
def _write_grads(table, scratch, walk, tile, like_x, like):
    """Write gradients of x and of the steps; add up those of the skip and the bias."""
    dt, grad_x, grad_dt = pointer(table[DT], like), pointer(table[GRAD_X], like_x), pointer(table[GRAD_DT], like)
    skips, biases = pointer(table[D], like), pointer(table[BIAS], like)
    for i in range(tile.lines):
        for j in range(tile.cells):
            cell, t = _cell(walk, tile, i, j), i * tile.cells + j
            x_row = cell * table[CHANNELS]
            dt_row = (cell * table[N_DIRECTIONS] + walk.index) * table[CHANNELS]
            later = _later(walk, tile, i, j)
            later_x, later_dt = later * table[CHANNELS], (later * table[N_DIRECTIONS] + walk.index) * table[CHANNELS]
            for block in range(walk.first, walk.last):
                prefetch(grad_x, later_x + block * LANES)
                prefetch(grad_dt, later_dt + block * LANES)
                rows, lanes = offset(_rows(walk, scratch, block), t * LANES), _lanes(table, block)
                channel, local = walk.index * whole(table[CHANNELS]) + block * LANES, (block - walk.first) * LANES
                own, grad_y = load(rows, OWN * ROW), load(rows, GRAD_OUTPUT * ROW)
                grad_u, place = load(rows, GRAD_INPUT * ROW), x_row + block * LANES
                value = grad_u * load(rows, STEP * ROW) + load(skips, channel) * grad_y
                if walk.index > 0:
                    value = value + read(grad_x, place, lanes, scratch.spare_x)
                write(grad_x, place, value, lanes, scratch.spare_x)
                grad_step = load(rows, GRAD_STEP * ROW) * constant(like, _LN_2) + grad_u * own
                place = dt_row + block * LANES
                if table[HAS_SOFTPLUS]:
                    grad_step = grad_step * sigmoid(read(dt, place, lanes, scratch.spare) + load(biases, channel))
                write(grad_dt, place, grad_step, lanes, scratch.spare)
                add(scratch.sums_d, local, widen(grad_y * own))
                add(scratch.sums_bias, local, widen(grad_step))


@njit(forceinline=True)
def _write_grad_maps(table, scratch, walk, tile, split, like):
    """Write the gradients of B and C, or add them to those of earlier blocks of the item."""
    states, first = table[STATES], split * table[SAMPLES] * table[CELLS_OF_SAMPLE]
    grad_in, grad_out = pointer(table[GRAD_B], like), pointer(table[GRAD_C], like)
    is_first = walk.first == split * table[SPLIT_BLOCKS]
    for i in range(tile.lines):
        for j in range(tile.cells):
            cell, t = first + _cell(walk, tile, i, j), i * tile.cells + j
            row = (cell * table[N_DIRECTIONS] + walk.index) * states
            for n in range(states):
                place = n // 2 * 2 * CELLS + 2 * t + n % 2
                entering, leaving = scratch.grad_maps_in[place], scratch.grad_maps_out[place]
                grad_in[row + n] = entering if is_first else grad_in[row + n] + entering
                grad_out[row + n] = leaving if is_first else grad_out[row + n] + leaving


@njit(forceinline=True)
def _before(table, scratch, walk, tile, block, n, like):
    """Where the states of a pair lie that enter a tile from before."""
    if tile.cell == 0:
        return scratch.zeros
    place = _kept_before(table, walk, block, tile) + n * tile.lines * LANES
    return offset(pointer(table[CHECKPOINTS], like), place)


@njit(forceinline=True)
def _line_size(table, walk):
    """Numbers in the states of a line of a strip for a block, with the gap of `ROW`."""
    return walk.tile_length * even(table[STATES]) * LANES + 5 * LANES


@njit(forceinline=True)
def _strip(table, walk, scratch, tile, block, n):
    """States of a pair above the first line of a tile; those of its lines follow, at a distance of `_line_size`."""
    lines = (block - walk.first) * (walk.strip + 1) + tile.line % walk.strip
    return offset(scratch.strips, lines * _line_size(table, walk) + n * walk.tile_length * LANES)


@njit(forceinline=True)
def _enter_strip(table, scratch, walk, tile, like):
    """Lay out the states that enter a part of a strip, which begins with a tile, from above."""
    kept = pointer(table[CHECKPOINTS], like)
    for block in range(walk.first, walk.last):
        for n in range(0, table[STATES], 2):
            target = _strip(table, walk, scratch, tile, block, n)
            if tile.line > 0:
                place = _kept_above(table, walk, block, tile.line) + n * walk.length * LANES + tile.cell * PAIR
                copy(target, 0, kept, place, tile.cells * PAIR)
            else:
                fill(target, tile.cells * PAIR, constant(like, 0))


@njit(forceinline=True)
def _rerun_tile(table, scratch, walk, tile, like_x, like):
    """Compute the states of the lines of a tile."""
    _read_maps(table, scratch, walk, tile, like_x)
    _read_tile(table, scratch, walk, tile, like_x, like)
    for block in range(walk.first, walk.last):
        rows, place = _rows(walk, scratch, block), _packed(table, walk.index, block)
        for n in range(0, table[STATES], 2):
            _advance(
                rows,
                offset(pointer(table[A], like), place + n * LANES),
                scratch.zeros,
                offset(scratch.maps_in, n * CELLS),
                scratch.maps_out,
                _strip(table, walk, scratch, tile, block, n),
                _line_size(table, walk),
                _before(table, scratch, walk, tile, block, n, like),
                tile,
                False,
                False,
            )


@njit(forceinline=True)
def _backward_tile(table, scratch, walk, tile, like_x, like):
    """Gradients of one tile, from the line below and the cells after, which lie in scratch memory."""
    _read_maps(table, scratch, walk, tile, like_x)
    _read_tile(table, scratch, walk, tile, like_x, like)
    _read_grads(table, scratch, walk, tile, like_x, like)
    for n in range(0, table[STATES], 2):
        for block in range(walk.first, walk.last):
            rows, is_first, is_corrected = _rows(walk, scratch, block), block == walk.first, table[SHARES] != 0
            place = _packed(table, walk.index, block) + n * LANES
            local = _packed(table, 0, block - walk.first) + n * LANES
            rates, shares = offset(pointer(table[A], like), place), offset(pointer(table[SHARES], like), place)
            strip, stride = _strip(table, walk, scratch, tile, block, n), _line_size(table, walk)
            below = offset(_line(table, walk, scratch, block), n * walk.length * LANES + tile.cell * PAIR)
            side = offset(_side(table, walk, scratch, block), n * walk.strip * LANES + tile.line % walk.strip * PAIR)
            before, zero = _before(table, scratch, walk, tile, block, n, like), constant(like, 0)
            _recompute(scratch, rows, rates, offset(scratch.maps_in, n * CELLS), before, strip, stride, below, tile)
            _retreat(
                scratch, local, rows, rates, shares, n, strip, stride, below, side, tile, is_first, is_corrected, zero
            )  # fmt: skip
        _sum_maps(scratch, n, tile.lines * tile.cells)
    _write_grads(table, scratch, walk, tile, like_x, like)


@njit(forceinline=True)
def _backward_strip(table, scratch, walk, begin, split, like_x, like):
    """Gradients of the lines of a strip: part by part, first down to compute states, then up again."""
    end = min(begin + walk.strip, walk.height)
    last = begin + (end - 1 - begin) // walk.tile_height * walk.tile_height
    for part in range(_parts(walk) - 1, -1, -1):
        _enter_strip(table, scratch, walk, _tile(walk, begin, part), like)
        for line in range(begin, end, walk.tile_height):
            _rerun_tile(table, scratch, walk, _tile(walk, line, part), like_x, like)
        for line in range(last, begin - 1, -walk.tile_height):
            tile = _tile(walk, line, part)
            _backward_tile(table, scratch, walk, tile, like_x, like)
            _write_grad_maps(table, scratch, walk, tile, split, like)


@njit(forceinline=True)
def _backward_walk(table, scratch, split, batch, walk, like_x, like):
    """Gradients of one sample in one direction in some blocks of channels."""
    blocks, packed = walk.last - walk.first, (walk.last - walk.first) * even(table[STATES]) * LANES
    fill(scratch.sums_a, packed, widen(constant(like, 0)))
    fill(scratch.sums_shares, packed, widen(constant(like, 0)))
    fill(scratch.sums_d, 2 * table[GROUP] * LANES, widen(constant(like, 0)))
    fill(scratch.lines, packed * walk.length, constant(like, 0))
    fill(scratch.zeros, walk.tile_height * PAIR, constant(like, 0))
    for begin in range((walk.height - 1) // walk.strip * walk.strip, -1, -walk.strip):
        fill(scratch.sides, packed * walk.strip, constant(like, 0))
        _backward_strip(table, scratch, walk, begin, split, like_x, like)
    row = batch * table[N_DIRECTIONS] + walk.index
    place, channel = _packed(table, row, walk.first), row * whole(table[CHANNELS]) + walk.first * LANES
    write_sums(table, GRAD_A, place, scratch.sums_a, packed, like)
    write_sums(table, GRAD_SHARES, place, scratch.sums_shares, packed, like)
    write_sums(table, GRAD_D, channel, scratch.sums_d, blocks * LANES, like)
    write_sums(table, GRAD_BIAS, channel, scratch.sums_bias, blocks * LANES, like)


@njit(forceinline=True)
def backward(like_x):
    """Take work items of the backward pass until there are none left.

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
                _backward_walk(table, scratch, item % table[SPLITS], batch, walk, like_x, like)
        item = claim(offset(table, NEXT))
