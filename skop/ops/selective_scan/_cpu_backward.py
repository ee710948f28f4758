"""What Numba compiles for the gradients of `skop.ops.selective_scan`; see `_cpu_kernels` for layout and letters."""

from math import log

from numba import int64, njit

from skop.ops._cpu_memory import add, copy, fill, put, read, whole, write, write_sums
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
    sigmoid,
    splat,
    store,
    sum_lanes,
    widen,
)
from skop.ops.selective_scan._cpu_kernels import (
    BIAS,
    CHANNELS,
    CHECKPOINTS,
    CHUNK,
    DT,
    GRAD_A,
    GRAD_B,
    GRAD_BIAS,
    GRAD_C,
    GRAD_D,
    GRAD_DT,
    GRAD_FINAL,
    GRAD_INPUT,
    GRAD_OUTPUT,
    GRAD_SHARES,
    GRAD_START,
    GRAD_STEP,
    GRAD_X,
    GRAD_Y,
    HAS_SOFTPLUS,
    INPUT,
    ITEMS,
    LENGTH,
    N_PATHS,
    NEXT,
    OWN,
    ROW,
    SAMPLES,
    SHARED,
    SHARES,
    SPLIT_BLOCKS,
    SPLITS,
    STATES,
    STEP,
    A,
    D,
    _claim_scratch,
    _dt_row,
    _lanes,
    _packed,
    _packed_size,
    _paths_of,
    _read_chunk,
    _read_maps,
    _rows,
    _token,
    _x_row,
)

__all__: list[str] = []

_LN_2 = log(2)


@njit(forceinline=True)
def _read_grads(table, scratch, batch, path, first, last, begin, count, like_x, like):
    """Lay out the gradients of the outputs, and zeros for those of inputs and steps."""
    grad_y = pointer(table[GRAD_Y], like_x)
    for t in range(count):
        row = _x_row(table, _token(table, batch, path, begin + t), path)
        for block in range(first, last):
            rows = offset(_rows(scratch, block - first), t * LANES)
            store(rows, GRAD_OUTPUT * ROW, read(grad_y, row + block * LANES, _lanes(table, block), scratch.spare_x))
            store(rows, GRAD_INPUT * ROW, constant(like, 0))
            store(rows, GRAD_STEP * ROW, constant(like, 0))


@njit(forceinline=True)
def _recompute(scratch, rows, rates, shares, states, n, row_size, count, is_first, is_corrected):
    """Run a pair of states over a chunk; keep decays and what they leave; gradients of the output maps."""
    decays, lefts, partial = scratch.decays, scratch.lefts, scratch.partial_out
    rate_0, rate_1 = load(rates, n * LANES), load(rates, (n + 1) * LANES)
    h_0, h_1 = load(states, n * LANES), load(states, (n + 1) * LANES)
    for t in range(count):
        step, u = load(rows, STEP * ROW + t * LANES), load(rows, INPUT * ROW + t * LANES)
        grad_y, place, pair = load(rows, GRAD_OUTPUT * ROW + t * LANES), t * row_size + n, 2 * t * LANES
        a_0, a_1 = exp2(step * rate_0), exp2(step * rate_1)
        left_0, left_1 = a_0 * h_0, a_1 * h_1
        store(decays, pair, a_0)
        store(decays, pair + LANES, a_1)
        store(lefts, pair, left_0)
        store(lefts, pair + LANES, left_1)
        new_0, new_1 = u * splat(scratch.maps_in[place]), u * splat(scratch.maps_in[place + 1])
        h_0, h_1 = left_0 + new_0, left_1 + new_1
        seen_0, seen_1 = h_0, h_1
        if is_corrected:
            seen_0, seen_1 = left_0 + load(shares, n * LANES) * new_0, left_1 + load(shares, (n + 1) * LANES) * new_1
        put(partial, place * LANES, seen_0 * grad_y, is_first)
        put(partial, (place + 1) * LANES, seen_1 * grad_y, is_first)


@njit(forceinline=True)
def _retreat(scratch, rows, rates, shares, place, n, row_size, count, is_first, is_corrected, zero):
    """Carry the gradients of a pair of states back over a chunk, and give everything its share."""
    decays, lefts, partial = scratch.decays, scratch.lefts, scratch.partial_in
    rate_0, rate_1 = load(rates, n * LANES), load(rates, (n + 1) * LANES)
    g_0, g_1 = load(scratch.grads, place), load(scratch.grads, place + LANES)
    sum_0 = sum_1 = share_0 = share_1 = zero
    for t in range(count - 1, -1, -1):
        step, u = load(rows, STEP * ROW + t * LANES), load(rows, INPUT * ROW + t * LANES)
        grad_y, row, pair = load(rows, GRAD_OUTPUT * ROW + t * LANES), t * row_size + n, 2 * t * LANES
        in_0, in_1 = splat(scratch.maps_in[row]), splat(scratch.maps_in[row + 1])
        seen_0, seen_1 = grad_y * splat(scratch.maps_out[row]), grad_y * splat(scratch.maps_out[row + 1])
        new_0, new_1 = g_0 + seen_0, g_1 + seen_1
        grad_0, grad_1 = new_0 * load(lefts, pair), new_1 * load(lefts, pair + LANES)
        after_0, after_1 = new_0 * load(decays, pair), new_1 * load(decays, pair + LANES)
        if is_corrected:
            new_0, new_1 = g_0 + load(shares, n * LANES) * seen_0, g_1 + load(shares, (n + 1) * LANES) * seen_1
            share_0, share_1 = share_0 + seen_0 * (u * in_0), share_1 + seen_1 * (u * in_1)
        g_0, g_1 = after_0, after_1
        put(partial, row * LANES, new_0 * u, is_first)
        put(partial, (row + 1) * LANES, new_1 * u, is_first)
        add(rows, GRAD_INPUT * ROW + t * LANES, new_0 * in_0 + new_1 * in_1)
        add(rows, GRAD_STEP * ROW + t * LANES, grad_0 * rate_0 + grad_1 * rate_1)
        sum_0, sum_1 = sum_0 + grad_0 * step, sum_1 + grad_1 * step
    store(scratch.grads, place, g_0)
    store(scratch.grads, place + LANES, g_1)
    add(scratch.sums_a, place, widen(sum_0))
    add(scratch.sums_a, place + LANES, widen(sum_1))
    if is_corrected:
        add(scratch.sums_shares, place, widen(share_0))
        add(scratch.sums_shares, place + LANES, widen(share_1))


@njit(forceinline=True)
def _run_pair(scratch, rows, rates, shares, local, n, row_size, count, is_first, is_corrected, like):
    """Run a pair of states forth and back over a chunk."""
    states, place, zero = offset(scratch.states, local), local + n * LANES, constant(like, 0)
    _recompute(scratch, rows, rates, shares, states, n, row_size, count, is_first, is_corrected)
    _retreat(scratch, rows, rates, shares, place, n, row_size, count, is_first, is_corrected, zero)


@njit(forceinline=True)
def _write_grads(table, scratch, batch, path, first, last, begin, count, like_x, like):
    """Write gradients of x and of the steps; add up those of the skip and the bias."""
    dt, grad_x, grad_dt = pointer(table[DT], like), pointer(table[GRAD_X], like_x), pointer(table[GRAD_DT], like)
    skips, biases = pointer(table[D], like), pointer(table[BIAS], like)
    for t in range(count):
        token = _token(table, batch, path, begin + t)
        x_row, dt_row = _x_row(table, token, path), _dt_row(table, token, path)
        for block in range(first, last):
            rows, lanes = offset(_rows(scratch, block - first), t * LANES), _lanes(table, block)
            channel, local = path * whole(table[CHANNELS]) + block * LANES, (block - first) * LANES
            own, grad_y, grad_u = load(rows, OWN * ROW), load(rows, GRAD_OUTPUT * ROW), load(rows, GRAD_INPUT * ROW)
            value, place = grad_u * load(rows, STEP * ROW) + load(skips, channel) * grad_y, x_row + block * LANES
            if table[SHARED] and path > 0:
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
def _write_grad_maps(table, scratch, first_row, batch, path, begin, count, like):
    """Sum the lanes of the gradients of B and C and write them, for the blocks of this item."""
    states, row_size = table[STATES], whole(table[STATES])
    grad_in, grad_out = pointer(table[GRAD_B], like), pointer(table[GRAD_C], like)
    for t in range(count):
        row = (first_row + _token(table, batch, path, begin + t)) * table[N_PATHS] + path
        for n in range(0, states, LANES):
            place, lanes = t * row_size + n, min(LANES, states - n)
            entering = sum_lanes(offset(scratch.partial_in, place * LANES))
            leaving = sum_lanes(offset(scratch.partial_out, place * LANES))
            write(grad_in, row * states + n, entering, lanes, scratch.spare)
            write(grad_out, row * states + n, leaving, lanes, scratch.spare)


@njit(forceinline=True)
def _backward_chunk(table, scratch, batch, path, first, last, begin, count, like_x, like):
    """Gradients of one chunk, for all blocks of the item; its entering states lie in scratch memory."""
    _read_maps(table, scratch, batch, path, begin, count, like_x)
    _read_chunk(table, scratch, batch, path, first, last, begin, count, like_x, like)
    _read_grads(table, scratch, batch, path, first, last, begin, count, like_x, like)
    for block in range(first, last):
        rows, place = _rows(scratch, block - first), _packed(table, path, block)
        rates, shares = offset(pointer(table[A], like), place), offset(pointer(table[SHARES], like), place)
        local = _packed_size(table, block - first)
        for n in range(0, table[STATES], 2):
            if table[SHARES]:
                _run_pair(
                    scratch, rows, rates, shares, local, n, whole(table[STATES]), count, block == first, True, like
                )
            else:
                _run_pair(
                    scratch, rows, rates, shares, local, n, whole(table[STATES]), count, block == first, False, like
                )
    _write_grads(table, scratch, batch, path, first, last, begin, count, like_x, like)


@njit(forceinline=True)
def _backward_path(table, scratch, split, batch, path, first, last, like_x, like):
    """Gradients of one sample along one path in some blocks of channels."""
    blocks, row = last - first, batch * table[N_PATHS] + path
    size, place = _packed_size(table, blocks), _packed(table, row, first)
    if table[GRAD_FINAL]:
        copy(scratch.grads, 0, pointer(table[GRAD_FINAL], like), place, size)
    else:
        fill(scratch.grads, size, constant(like, 0))
    fill(scratch.sums_a, size, widen(constant(like, 0)))
    fill(scratch.sums_shares, size, widen(constant(like, 0)))
    fill(scratch.sums_d, 2 * table[SPLIT_BLOCKS] * LANES, widen(constant(like, 0)))
    chunks = (table[LENGTH] + CHUNK - 1) // CHUNK
    first_row = split * table[SAMPLES] * table[LENGTH]
    for chunk in range(chunks - 1, -1, -1):
        begin = chunk * CHUNK
        count = min(CHUNK, table[LENGTH] - begin)
        kept = _packed(table, row * chunks + chunk, first)
        copy(scratch.states, 0, pointer(table[CHECKPOINTS], like), kept, size)
        _backward_chunk(table, scratch, batch, path, first, last, begin, count, like_x, like)
        _write_grad_maps(table, scratch, first_row, batch, path, begin, count, like)
    if table[GRAD_START]:
        copy(pointer(table[GRAD_START], like), place, scratch.grads, 0, size)
    write_sums(table, GRAD_A, place, scratch.sums_a, size, like)
    write_sums(table, GRAD_SHARES, place, scratch.sums_shares, size, like)
    channel = row * whole(table[CHANNELS]) + first * LANES
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
        batch, path, end, first, last = _paths_of(table, item)
        for each in range(path, end):
            _backward_path(table, scratch, item % table[SPLITS], batch, each, first, last, like_x, like)
        item = claim(offset(table, NEXT))
