"""What Numba compiles for the gradients of `skop.ops.ssd_scan`; see `_cpu_kernels` for layout and letters.

The gradient of the logarithm of a token's decay is the sum, over everything that passes the token, of its
share in the result: of pairs of an input before it and an output not before it in the chunk, of the entering
state in the outputs from it on, of the inputs before it in the leaving state, and of the entering in the
leaving state. Nothing is subtracted: where decays are strong, the sum is far smaller than others here.
"""

from numba import float64, int64, njit

from skop.ops._simd import LANES, address, claim, computed, load, offset, pointer, store
from skop.ops._simd_tiles import ALL, LOWER, UPPER, add_product, product, transpose, transpose_scaled
from skop.ops.ssd_scan._cpu_frame import (
    ACROSS,
    AHEAD,
    CHANNELS,
    CHECKPOINTS,
    CHUNK,
    CROSSED,
    DT,
    FALL,
    FEED,
    GRAD,
    GRAD_A,
    GRAD_B,
    GRAD_C,
    GRAD_D,
    GRAD_DT,
    GRAD_FINAL,
    GRAD_IN,
    GRAD_OUT,
    GRAD_PRODUCTS,
    GRAD_SCALED,
    GRAD_START,
    GRAD_X,
    GRAD_Y,
    GRADS,
    HAS_SKIP,
    HEADS,
    HELD,
    HERE,
    INPUTS,
    ITEMS,
    KEPT,
    LATER,
    LENGTH,
    MAPPED,
    MAPS_ACROSS,
    MAPS_IN,
    MAPS_OUT,
    N_PATHS,
    NEXT,
    OUT,
    PRODUCTS,
    RISE,
    SAMPLES,
    SCALED,
    SHARED,
    SHARED_MAPS,
    SHARES,
    SIZE,
    SPARE,
    SPLITS,
    STATES,
    TOKENS,
    WEIGHTS,
    WIDE_CHANNELS,
    WIDE_STATES,
    B,
    C,
    X,
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
    rows_of_maps,
    sums_of,
    tensor,
    whole,
    write_row,
    write_rows,
    write_states,
)
from skop.ops.ssd_scan._cpu_kernels import advance, read_gates
from skop.ops.ssd_scan._cpu_shares import (
    add_entered,
    add_skip_gradient,
    scale_rows,
    share_of_inputs,
    state_product,
    weigh_back,
    write_steps,
)

__all__: list[str] = []


@njit
def _read_head(frame, like_x, sums, path, head, count, full):
    """Lay out inputs and gradients of the outputs of a head; return the decay over the chunk."""
    inputs, grad, grad_y = matrix(frame, INPUTS), matrix(frame, GRAD), tensor(frame, GRAD_Y, like_x)
    x, channels, across = tensor(frame, X, like_x), number(frame, WIDE_CHANNELS), matrix(frame, ACROSS)
    decay = read_gates(frame, path, head, count, full)
    read_rows(frame, x, inputs, matrix(frame, SCALED), row_of(frame, FEED), path, head, count, full)
    read_rows(frame, grad_y, grad, matrix(frame, GRAD_SCALED), row_of(frame, RISE), path, head, count, full)
    if number(frame, HAS_SKIP):
        add_skip_gradient(frame, sums, full)
    transpose(across, CHUNK, inputs, channels, full, channels)
    for i in range(0, full, LANES):
        block, rows = offset(matrix(frame, SHARES), i * CHUNK), offset(grad, i * channels)
        product(block, CHUNK, rows, channels, 1, across, CHUNK, LANES, i + LANES, channels, queue_of(frame))
    weigh_back(frame, full)
    return decay


@njit
def _write_head(frame, grad_x, grads, path, head, count, full):
    """Gradients of the inputs of a head."""
    queue = queue_of(frame)
    channels, row_size, out = number(frame, WIDE_CHANNELS), number(frame, WIDE_STATES), matrix(frame, OUT)
    crossed, grad, weights = matrix(frame, CROSSED), matrix(frame, GRAD), matrix(frame, WEIGHTS)
    product(crossed, CHUNK, grads, row_size, 1, matrix(frame, MAPS_ACROSS), CHUNK, channels, full, row_size, queue)
    share_of_inputs(frame, full)
    transpose_scaled(out, channels, crossed, CHUNK, channels, full, row_of(frame, FALL))
    add_product(out, channels, 1, out, weights, 1, CHUNK, grad, channels, full, channels, full, UPPER, queue)
    scale_rows(frame, full)
    if number(frame, HAS_SKIP):
        add_skip(frame, grad, path, head, full)
    write_rows(frame, grad_x, path, head, count)


@njit
def _backward_head(frame, like_x, states, grads, sums, path, head, count, full):
    """Gradients of a head in a chunk, from the state that enters it and the gradient of that which leaves it."""
    queue = queue_of(frame)
    channels, row_size = number(frame, WIDE_CHANNELS), number(frame, WIDE_STATES)
    scaled, grad_scaled = matrix(frame, SCALED), matrix(frame, GRAD_SCALED)
    grad_in, maps_out = matrix(frame, GRAD_IN), matrix(frame, MAPS_OUT)
    decay = _read_head(frame, like_x, sums, path, head, count, full)
    product(
        matrix(frame, MAPPED), row_size, grad_scaled, channels, 1, states, row_size, full, row_size, channels, queue
    )
    add_entered(frame, full)
    _write_head(frame, tensor(frame, GRAD_X, like_x), grads, path, head, count, full)
    passed = decay * state_product(frame, states, grads)
    write_steps(frame, tensor(frame, GRAD_DT, frame), sums, path, head, count, full, passed)
    add_product(
        grad_in, row_size, 1, grad_in, scaled, channels, 1, grads, row_size, full, row_size, channels, ALL, queue
    )
    add_product(
        grads,
        row_size,
        decay,
        grads,
        grad_scaled,
        1,
        channels,
        maps_out,
        row_size,
        channels,
        row_size,
        full,
        ALL,
        queue,
    )


@njit
def first_map(frame, name, split, together):
    """First gradient of B or C of the split."""
    size = number(frame, SAMPLES) * number(frame, LENGTH) * number(frame, STATES)
    if not together:
        size *= number(frame, N_PATHS)
    return offset(tensor(frame, name, frame), split * size)


@njit
def _write_maps(frame, source, target, path, count):
    """Write gradients of B or C; those of maps and x that all paths share are added to what earlier paths gave."""
    states, row_size, spare = number(frame, STATES), number(frame, WIDE_STATES), matrix(frame, SPARE)
    together = number(frame, SHARED) != 0 and number(frame, SHARED_MAPS) != 0
    stride, first = rows_of_maps(frame, path, together)
    tokens = tensor(frame, TOKENS, pointer(0, int64))
    for t in range(count):
        row = offset(target, first + tokens[t] * stride)
        write_row(row, offset(source, t * row_size), states, together and path > 0, spare)


@njit
def _backward_maps(frame, like_x, batch, path, begin, count, full, ahead):
    """Tokens of a chunk, products of their maps, with rows of outputs and lanes of inputs, and sums of 0."""
    row_size = number(frame, WIDE_STATES)
    maps_in, maps_out, across = matrix(frame, MAPS_IN), matrix(frame, MAPS_OUT), matrix(frame, MAPS_ACROSS)
    read_tokens(frame, batch, path, begin, count, ahead)
    read_maps(frame, tensor(frame, B, like_x), maps_in, path, count, full)
    read_maps(frame, tensor(frame, C, like_x), maps_out, path, count, full)
    transpose(across, CHUNK, maps_in, row_size, full, row_size)
    for i in range(0, full, LANES):
        block, rows = offset(matrix(frame, PRODUCTS), i * CHUNK), offset(maps_out, i * row_size)
        product(block, CHUNK, rows, row_size, 1, across, CHUNK, LANES, i + LANES, row_size, queue_of(frame))
    fill(matrix(frame, GRAD_IN), full * row_size, 0)
    fill(matrix(frame, GRAD_OUT), full * row_size, 0)
    fill(matrix(frame, GRAD_PRODUCTS), CHUNK * CHUNK, 0)


@njit
def _ask_ahead(frame, like_x, split, path, head, first, last):
    """Ask for what a head writes, and for its share of what the chunk ahead reads."""
    together = number(frame, SHARED) != 0 and number(frame, SHARED_MAPS) != 0
    local, heads = head - first, last - first
    empty_queue(frame)
    ask_rows(frame, tensor(frame, GRAD_X, like_x), path, head, HERE)
    ask_maps(frame, first_map(frame, GRAD_B, split, together), path, together, HERE, local, heads)
    ask_maps(frame, first_map(frame, GRAD_C, split, together), path, together, HERE, local, heads)
    ask_rows(frame, tensor(frame, X, like_x), path, head, AHEAD)
    ask_rows(frame, tensor(frame, GRAD_Y, like_x), path, head, AHEAD)
    ask_maps(frame, tensor(frame, B, like_x), path, number(frame, SHARED_MAPS), AHEAD, local, heads)
    ask_maps(frame, tensor(frame, C, like_x), path, number(frame, SHARED_MAPS), AHEAD, local, heads)
    if head == first:
        ask_steps(frame, tensor(frame, DT, frame), path, first, last, AHEAD)
        ask_steps(frame, tensor(frame, GRAD_DT, frame), path, first, last, HERE)


@njit
def _backward_chunk(frame, like_x, held, split, batch, path, first, last, begin, ahead):
    """Gradients of one chunk in the heads of the item, whose entering states are held in memory."""
    queue = queue_of(frame)
    count, row_size, size = min(CHUNK, number(frame, LENGTH) - begin), number(frame, WIDE_STATES), number(frame, SIZE)
    full, all_grads = whole(count), matrix(frame, GRADS)
    numbers, kept = number(frame, CHANNELS) * number(frame, STATES), tensor(frame, CHECKPOINTS, frame)
    earlier = kept_before(frame, batch, path, begin // (KEPT * CHUNK)) - number(frame, HEADS)
    _backward_maps(frame, like_x, batch, path, begin, count, full, ahead)
    for head in range(first, last):
        states, grads = offset(held, (head - first) * size), offset(all_grads, (head - first) * size)
        _ask_ahead(frame, like_x, split, path, head, first, last)
        if begin > 0 and begin % (KEPT * CHUNK) == 0:
            ask_states(frame, offset(kept, (earlier + head) * numbers))
        _backward_head(frame, like_x, states, grads, sums_of(frame, head - first), path, head, count, full)
    maps_in, maps_out, both = matrix(frame, MAPS_IN), matrix(frame, MAPS_OUT), matrix(frame, GRAD_PRODUCTS)
    grad_in, grad_out = matrix(frame, GRAD_IN), matrix(frame, GRAD_OUT)
    together = number(frame, SHARED) != 0 and number(frame, SHARED_MAPS) != 0
    add_product(grad_out, row_size, 1, grad_out, both, CHUNK, 1, maps_in, row_size, full, row_size, full, LOWER, queue)
    add_product(grad_in, row_size, 1, grad_in, both, 1, CHUNK, maps_out, row_size, full, row_size, full, UPPER, queue)
    _write_maps(frame, grad_in, first_map(frame, GRAD_B, split, together), path, count)
    _write_maps(frame, grad_out, first_map(frame, GRAD_C, split, together), path, count)


@njit
def _advance_all(frame, like_x, batch, path, first, last, begin):
    """Compute the states that leave a whole chunk from those that enter it."""
    size, x, grad_y = number(frame, SIZE), tensor(frame, X, like_x), tensor(frame, GRAD_Y, like_x)
    held, all_later = matrix(frame, HELD), matrix(frame, LATER)
    inputs, scaled, feed = matrix(frame, INPUTS), matrix(frame, SCALED), row_of(frame, FEED)
    read_tokens(frame, batch, path, begin, CHUNK, CHUNK)
    read_maps(frame, tensor(frame, B, like_x), matrix(frame, MAPS_IN), path, CHUNK, CHUNK)
    for head in range(first, last):
        states, later = offset(held, (head - first) * size), offset(all_later, (head - first) * size)
        decay = read_gates(frame, path, head, CHUNK, CHUNK)
        read_rows(frame, x, inputs, scaled, feed, path, head, CHUNK, CHUNK)
        empty_queue(frame)
        ask_rows(frame, grad_y, path, head, AHEAD)
        ask_rows(frame, x, path, head, AHEAD)
        advance(frame, later, states, decay, CHUNK)


@njit
def _begin(frame, row, first, last):
    """Gradients of the final states, and sums of 0."""
    size, numbers, grads = number(frame, SIZE), number(frame, CHANNELS) * number(frame, STATES), matrix(frame, GRADS)
    final = tensor(frame, GRAD_FINAL, frame)
    fill(grads, (last - first) * size, 0)
    if number(frame, GRAD_FINAL):
        for head in range(first, last):
            read_states(frame, offset(grads, (head - first) * size), offset(final, (row + head) * numbers))
    fill(sums_of(frame, 0), (last - first) * (LANES + number(frame, WIDE_CHANNELS)), 0)


@njit
def _end(frame, row, first, last):
    """Write the gradients of the initial states, and what was added up over the length."""
    size, numbers, grads = number(frame, SIZE), number(frame, CHANNELS) * number(frame, STATES), matrix(frame, GRADS)
    rates, skips = tensor(frame, GRAD_A, pointer(0, float64)), tensor(frame, GRAD_D, pointer(0, float64))
    channels, start = number(frame, WIDE_CHANNELS), tensor(frame, GRAD_START, frame)
    for head in range(first, last):
        sums = sums_of(frame, head - first)
        rates[row + head] = 0
        for lane in range(LANES):
            rates[row + head] += sums[lane]
        if number(frame, GRAD_START):
            write_states(frame, offset(start, (row + head) * numbers), offset(grads, (head - first) * size))
        if number(frame, GRAD_D):
            for p in range(0, channels, LANES):
                store(skips, (row + head) * channels + p, load(sums, LANES + p))


@njit
def _backward_path(frame, like_x, split, batch, path, first, last):
    """Gradients of one sample along one path in some heads."""
    length, heads, size = number(frame, LENGTH), number(frame, HEADS), number(frame, SIZE)
    row, numbers = batch * number(frame, N_PATHS) + path, number(frame, CHANNELS) * number(frame, STATES)
    kept, pairs = tensor(frame, CHECKPOINTS, frame), (length + KEPT * CHUNK - 1) // (KEPT * CHUNK)
    held, later = matrix(frame, HELD), matrix(frame, LATER)
    _begin(frame, row * heads, first, last)
    for pair in range(pairs - 1, -1, -1):
        begin = pair * KEPT * CHUNK
        for head in range(first, last):
            place = kept_before(frame, batch, path, pair) + head
            read_states(frame, offset(held, (head - first) * size), offset(kept, place * numbers))
        if begin + CHUNK < length:
            _advance_all(frame, like_x, batch, path, first, last, begin)
            _backward_chunk(frame, like_x, later, split, batch, path, first, last, begin + CHUNK, -CHUNK)
        _backward_chunk(frame, like_x, held, split, batch, path, first, last, begin, -KEPT * CHUNK)
    _end(frame, row * heads, first, last)


@njit(forceinline=True)
def backward(like_x):
    """Take work items of the backward pass until there are none left.

    The argument is the table, typed as a pointer to numbers such as x holds.
    """
    table = pointer(address(like_x), int64)
    frame = claim_frame(table, computed(like_x))
    item = claim(offset(table, NEXT))
    while item < number(frame, ITEMS):
        batch, path, end, first, last = parts_of(frame, item)
        for each in range(path, end):
            _backward_path(frame, like_x, item % number(frame, SPLITS), batch, each, first, last)
        item = claim(offset(table, NEXT))
