"""What Numba compiles for the gradients of `skop.ops.ssd_scan`; see `_cpu_kernels` for layout and letters.

The gradient of the logarithm of a token's decay is the sum, over everything that passes the token, of its
share in the result: of pairs of an input before it and an output not before it in the chunk, of the entering
state in the outputs from it on, of the inputs before it in the leaving state, and of the entering in the
leaving state. Nothing is subtracted: where decays are strong, the sum is far smaller than others here.
"""

from math import log

from skop.ops._simd import (
    LANES,
    address,
    call,
    constant,
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
    sum_lanes,
    wide,
    widen,
)
from skop.ops._simd_tiles import ALL, LOWER, UPPER
from skop.ops.ssd_scan import _cpu_kernels as kernels
from skop.ops.ssd_scan import _cpu_rows as rows
from skop.ops.ssd_scan import _cpu_words as w

__all__: list[str] = []

_LN_2 = log(2)


@inlined
def add_skip_gradient(f, sums, full):
    """Gradient of the skip."""
    row_size, inputs, grad = number(f, w.WIDE_CHANNELS), matrix(f, w.INPUTS), matrix(f, w.GRAD)
    for p in range(0, row_size, LANES):
        total = constant(f, 0)
        for t in range(full):
            total = total + load(inputs, t * row_size + p) * load(grad, t * row_size + p)
        store(sums, LANES + p, load(sums, LANES + p) + widen(total))


@inlined
def weigh_back(f, full):
    """Weights S K, with rows of outputs; gradients of K; sums over pairs of an input and a later output.

    From the last output back, each input's sum over its outputs runs on. At each token, those of the inputs before it
    are what passes the token.
    """
    integer, rest, step = rows.row_of(f, w.INTEGER), rows.row_of(f, w.REST), rows.row_of(f, w.STEP)
    column = rows.row_of(f, w.COLUMN)
    above, lower, partial = matrix(f, w.ABOVE), matrix(f, w.UNDER), matrix(f, w.PARTIAL)
    products, shares = matrix(f, w.PRODUCTS), matrix(f, w.SHARES)
    weights, grad_products = matrix(f, w.WEIGHTS), matrix(f, w.GRAD_PRODUCTS)
    rows.fill(column, w.CHUNK, 0)
    for i in range(full - LANES, -1, -LANES):
        rows.fill(partial, LANES * LANES, 0)
        for j in range(0, i + LANES, LANES):
            that_integer, that_rest, that_step = load(integer, j), load(rest, j), load(step, j)
            running = load(column, j)
            for r in range(LANES - 1, -1, -1):
                place = (i + r) * w.CHUNK + j
                exponent = (splat(integer[i + r]) - that_integer) + (splat(rest[i + r]) - that_rest)
                if j == i:
                    exponent = exponent + load(above, r * LANES)
                decay = nan_beyond(exp2(exponent), exponent)
                share, weight = decay * load(shares, place), decay * load(products, place)
                store(weights, place, weight)
                store(grad_products, place, load(grad_products, place) + share * that_step)
                pair = weight * load(shares, place)
                running = running + pair
                passing = running * load(lower, r * LANES) if j == i else running
                store(partial, r * LANES, load(partial, r * LANES) + passing * that_step)
            store(column, j, running)
        store(rows.row_of(f, w.WITHIN), i, sum_lanes(partial))


@inlined
def add_entered(f, full):
    """Add what the entering state gives to the gradient of w.C; the share of that state in each output."""
    row_size, entered, partial = number(f, w.WIDE_STATES), rows.row_of(f, w.ENTERED), matrix(f, w.PARTIAL)
    mapped, maps_out, grad_out = matrix(f, w.MAPPED), matrix(f, w.MAPS_OUT), matrix(f, w.GRAD_OUT)
    for first in range(0, full, LANES):
        for r in range(LANES):
            total = constant(f, 0)
            for n in range(0, row_size, LANES):
                place = (first + r) * row_size + n
                value = load(mapped, place)
                total = total + value * load(maps_out, place)
                store(grad_out, place, load(grad_out, place) + value)
            store(partial, r * LANES, total)
        store(entered, first, sum_lanes(partial))


@inlined
def share_of_inputs(f, full):
    """What each input, at a step of size 1, contributes by way of the leaving state."""
    across, crossed, fall = matrix(f, w.ACROSS), matrix(f, w.CROSSED), rows.row_of(f, w.FALL)
    channels, direct = number(f, w.WIDE_CHANNELS), rows.row_of(f, w.DIRECT)
    for t in range(0, full, LANES):
        total = constant(f, 0)
        for p in range(channels):
            total = total + load(across, p * w.CHUNK + t) * load(crossed, p * w.CHUNK + t)
        store(direct, t, total * load(fall, t))


@inlined
def state_product(f, states, grads):
    """Product of the entering state with the gradient of the leaving one."""
    zero, spare, size = constant(f, 0), matrix(f, w.SPARE), number(f, w.SIZE)
    a, b, c, d = zero, zero, zero, zero  # a sum waits for its last term
    for i in range(0, size, 4 * LANES):
        a = a + load(states, i) * load(grads, i)
        b = b + load(states, i + LANES) * load(grads, i + LANES)
        c = c + load(states, i + 2 * LANES) * load(grads, i + 2 * LANES)
        d = d + load(states, i + 3 * LANES) * load(grads, i + 3 * LANES)
    store(spare, 0, (a + b) + (c + d))
    result = 0.0
    for lane in range(LANES):
        result += spare[lane]
    return result


@inlined
def write_steps(f, sums, full, passed):
    """Write the gradients of the steps, and add to that of the rate."""
    heads, n_paths, path, head = number(f, w.HEADS), number(f, w.N_PATHS), number(f, w.PATH), number(f, w.HEAD)
    rate, tokens, count = wide(f, w.A)[path * heads + head] * _LN_2, integers(f, w.TOKENS), number(f, w.COUNT)
    step, direct, grad_dt = rows.row_of(f, w.STEP), rows.row_of(f, w.DIRECT), matrix(f, w.GRAD_DT)
    before, after, within = rows.row_of(f, w.BEFORE), rows.row_of(f, w.AFTER), rows.row_of(f, w.WITHIN)
    column, entered = rows.row_of(f, w.COLUMN), rows.row_of(f, w.ENTERED)
    total, rest = 0.0, passed
    for t in range(full):
        before[t] = total
        total += step[t] * direct[t]
    for t in range(full - 1, -1, -1):
        rest += entered[t] if t < count else 0
        after[t] = rest
    for t in range(0, full, LANES):
        grad_log = load(after, t) + load(within, t) + load(before, t)
        store(sums, 0, load(sums, 0) + widen(load(step, t) * grad_log))
        store(after, t, constant(f, rate) * grad_log + load(column, t) + load(direct, t))
    for t in range(count):
        grad_dt[(tokens[t] * n_paths + path) * heads + head] = after[t]


@inlined
def scale_rows(f, full):
    """Turn gradients of u into those of x."""
    step, out, row_size = rows.row_of(f, w.STEP), matrix(f, w.OUT), number(f, w.WIDE_CHANNELS)
    for t in range(full):
        weight = splat(step[t])
        for p in range(0, row_size, LANES):
            store(out, t * row_size + p, weight * load(out, t * row_size + p))


@inlined
def read_head(f, sums, full):
    """Lay out inputs and gradients of the outputs of the head; return the decay over the chunk."""
    inputs, grad, across = matrix(f, w.INPUTS), matrix(f, w.GRAD), matrix(f, w.ACROSS)
    channels = number(f, w.WIDE_CHANNELS)
    decay = kernels.read_gates(f)
    rows.read_rows(f, matrix(f, w.X), inputs, matrix(f, w.SCALED), rows.row_of(f, w.FEED))
    rows.read_rows(f, matrix(f, w.GRAD_Y), grad, matrix(f, w.GRAD_SCALED), rows.row_of(f, w.RISE))
    if number(f, w.HAS_SKIP):
        add_skip_gradient(f, sums, full)
    rows.turn(f, across, w.CHUNK, inputs, channels, full, channels, pointer(0, f))
    for i in range(0, full, LANES):
        block, left = offset(matrix(f, w.SHARES), i * w.CHUNK), offset(grad, i * channels)
        rows.matmul(f, block, w.CHUNK, left, channels, 1, across, w.CHUNK, LANES, i + LANES, channels)
    weigh_back(f, full)
    return decay


@inlined
def write_head(f, grads, full):
    """Gradients of the inputs of the head."""
    channels, row_size, out = number(f, w.WIDE_CHANNELS), number(f, w.WIDE_STATES), matrix(f, w.OUT)
    crossed, grad, weights = matrix(f, w.CROSSED), matrix(f, w.GRAD), matrix(f, w.WEIGHTS)
    across = matrix(f, w.MAPS_ACROSS)
    rows.matmul(f, crossed, w.CHUNK, grads, row_size, 1, across, w.CHUNK, channels, full, row_size)
    share_of_inputs(f, full)
    rows.turn(f, out, channels, crossed, w.CHUNK, channels, full, rows.row_of(f, w.FALL))
    rows.add_matmul(f, out, channels, 1, out, weights, 1, w.CHUNK, grad, channels, full, channels, full, UPPER)
    scale_rows(f, full)
    if number(f, w.HAS_SKIP):
        rows.add_skip(f, grad)
    rows.write_rows(f, matrix(f, w.GRAD_X))


@outlined
def backward_head(f):
    """Gradients of a head in a chunk, from the state that enters it and the gradient of that which leaves it."""
    channels, row_size, full = number(f, w.WIDE_CHANNELS), number(f, w.WIDE_STATES), number(f, w.FULL)
    scaled, grad_scaled, mapped = matrix(f, w.SCALED), matrix(f, w.GRAD_SCALED), matrix(f, w.MAPPED)
    grad_in, maps_out = matrix(f, w.GRAD_IN), matrix(f, w.MAPS_OUT)
    states, grads, sums = matrix(f, w.STATE), matrix(f, w.GRAD_STATE), rows.sums_of(f)
    decay = read_head(f, sums, full)
    rows.matmul(f, mapped, row_size, grad_scaled, channels, 1, states, row_size, full, row_size, channels)
    add_entered(f, full)
    write_head(f, grads, full)
    write_steps(f, sums, full, decay * state_product(f, states, grads))
    rows.add_matmul(
        f, grad_in, row_size, 1, grad_in, scaled, channels, 1, grads, row_size, full, row_size, channels, ALL
    )
    rows.add_matmul(
        f, grads, row_size, decay, grads, grad_scaled, 1, channels, maps_out, row_size, channels, row_size, full, ALL
    )


@inlined
def are_together(f):
    """Whether all paths share x and maps, so that gradients of the maps are added to those of earlier paths."""
    return number(f, w.SHARED) != 0 and number(f, w.SHARED_MAPS) != 0


@inlined
def first_map(f, name):
    """First gradient of B or C of the split."""
    size = number(f, w.SAMPLES) * number(f, w.LENGTH) * number(f, w.STATES)
    if not are_together(f):
        size *= number(f, w.N_PATHS)
    return offset(matrix(f, name), number(f, w.SPLIT) * size)


@outlined
def write_maps(f, source, target):
    """Write gradients of B or C; those of maps and x that all paths share are added to what earlier paths gave."""
    states, row_size, tokens = number(f, w.STATES), number(f, w.WIDE_STATES), integers(f, w.TOKENS)
    stride, first = rows.rows_of_maps(f, are_together(f))
    is_more = are_together(f) and number(f, w.PATH) > 0
    for t in range(number(f, w.COUNT)):
        rows.write_row(offset(target, first + tokens[t] * stride), offset(source, t * row_size), states, is_more)


@outlined
def backward_maps(f):
    """Tokens of a chunk, products of their maps, with rows of outputs and lanes of inputs, and sums of 0."""
    row_size, full = number(f, w.WIDE_STATES), number(f, w.FULL)
    maps_in, maps_out, across = matrix(f, w.MAPS_IN), matrix(f, w.MAPS_OUT), matrix(f, w.MAPS_ACROSS)
    rows.read_chunk(f)
    rows.read_maps(f, matrix(f, w.C), maps_out)
    rows.turn(f, across, w.CHUNK, maps_in, row_size, full, row_size, pointer(0, f))
    for i in range(0, full, LANES):
        block, left = offset(matrix(f, w.PRODUCTS), i * w.CHUNK), offset(maps_out, i * row_size)
        rows.matmul(f, block, w.CHUNK, left, row_size, 1, across, w.CHUNK, LANES, i + LANES, row_size)
    rows.fill(matrix(f, w.GRAD_IN), full * row_size, 0)
    rows.fill(matrix(f, w.GRAD_OUT), full * row_size, 0)
    rows.fill(matrix(f, w.GRAD_PRODUCTS), w.CHUNK * w.CHUNK, 0)


@outlined
def ask_backward(f):
    """Ask for what a head writes, and for its share of what the chunk ahead reads."""
    shared, together = number(f, w.SHARED_MAPS) != 0, are_together(f)
    rows.empty_queue(f)
    rows.ask_rows(f, matrix(f, w.GRAD_X), w.HERE)
    rows.ask_maps(f, first_map(f, w.GRAD_B), together, w.HERE)
    rows.ask_maps(f, first_map(f, w.GRAD_C), together, w.HERE)
    rows.ask_rows(f, matrix(f, w.X), w.AHEAD)
    rows.ask_rows(f, matrix(f, w.GRAD_Y), w.AHEAD)
    rows.ask_maps(f, matrix(f, w.B), shared, w.AHEAD)
    rows.ask_maps(f, matrix(f, w.C), shared, w.AHEAD)
    if number(f, w.HEAD) == number(f, w.FIRST):
        rows.ask_steps(f, matrix(f, w.DT), w.AHEAD)
        rows.ask_steps(f, matrix(f, w.GRAD_DT), w.HERE)


@outlined
def end_chunk(f):
    """Gradients of the maps of a chunk."""
    row_size, full, both = number(f, w.WIDE_STATES), number(f, w.FULL), matrix(f, w.GRAD_PRODUCTS)
    maps_in, maps_out, chunk = matrix(f, w.MAPS_IN), matrix(f, w.MAPS_OUT), w.CHUNK
    grad_in, grad_out = matrix(f, w.GRAD_IN), matrix(f, w.GRAD_OUT)
    rows.add_matmul(
        f, grad_out, row_size, 1, grad_out, both, chunk, 1, maps_in, row_size, full, row_size, full, LOWER
    )  # fmt: skip
    rows.add_matmul(
        f, grad_in, row_size, 1, grad_in, both, 1, chunk, maps_out, row_size, full, row_size, full, UPPER
    )  # fmt: skip
    write_maps(f, grad_in, first_map(f, w.GRAD_B))
    write_maps(f, grad_out, first_map(f, w.GRAD_C))


@outlined
def advance_all(f):
    """Compute the states that leave a whole chunk from those that enter it, of all heads."""
    size, first = number(f, w.SIZE), number(f, w.FIRST)
    rows.read_chunk(f)
    for head in range(first, number(f, w.LAST)):
        set_number(f, w.HEAD, head)
        place = (head - first) * size
        decay = kernels.read_gates(f)
        rows.read_rows(f, matrix(f, w.X), matrix(f, w.INPUTS), matrix(f, w.SCALED), rows.row_of(f, w.FEED))
        rows.empty_queue(f)
        rows.ask_rows(f, matrix(f, w.GRAD_Y), w.AHEAD)
        rows.ask_rows(f, matrix(f, w.X), w.AHEAD)
        kernels.advance(f, offset(matrix(f, w.LATER), place), offset(matrix(f, w.HELD), place), decay)


@inlined
def backward_chunk(f, held, begin, distance):
    """Gradients of one chunk in the heads of the item, whose entering states are held in memory."""
    size, first, kept = number(f, w.SIZE), number(f, w.FIRST), matrix(f, w.CHECKPOINTS)
    numbers = number(f, w.CHANNELS) * number(f, w.STATES)
    rows.enter_chunk(f, begin, distance)
    earlier = rows.kept_before(f, begin // (w.KEPT * w.CHUNK)) - number(f, w.HEADS)
    call(f, w.CHUNK_MAPS)
    for head in range(first, number(f, w.LAST)):
        set_number(f, w.HEAD, head)
        set_number(f, w.STATE, address(offset(held, (head - first) * size)))
        set_number(f, w.GRAD_STATE, address(offset(matrix(f, w.GRADS), (head - first) * size)))
        call(f, w.AHEAD_PART)
        if begin > 0 and begin % (w.KEPT * w.CHUNK) == 0:
            rows.ask_states(f, offset(kept, (earlier + head) * numbers))
        call(f, w.HEAD_PART)
    call(f, w.END_CHUNK)


@inlined
def begin_path(f, row):
    """Gradients of the final states, and sums of 0."""
    size, numbers, grads = number(f, w.SIZE), number(f, w.CHANNELS) * number(f, w.STATES), matrix(f, w.GRADS)
    first, last = number(f, w.FIRST), number(f, w.LAST)
    rows.fill(grads, (last - first) * size, 0)
    if number(f, w.GRAD_FINAL):
        for head in range(first, last):
            source = offset(matrix(f, w.GRAD_FINAL), (row + head) * numbers)
            rows.read_states(f, offset(grads, (head - first) * size), source)
    rows.fill(wide(f, w.SUMS), (last - first) * (LANES + number(f, w.WIDE_CHANNELS)), 0)


@inlined
def end_path(f, row):
    """Write the gradients of the initial states, and what was added up over the length."""
    size, numbers, grads = number(f, w.SIZE), number(f, w.CHANNELS) * number(f, w.STATES), matrix(f, w.GRADS)
    rates, skips, channels = wide(f, w.GRAD_A), wide(f, w.GRAD_D), number(f, w.WIDE_CHANNELS)
    for head in range(number(f, w.FIRST), number(f, w.LAST)):
        set_number(f, w.HEAD, head)
        sums, place = rows.sums_of(f), (head - number(f, w.FIRST)) * size
        rates[row + head] = 0
        for lane in range(LANES):
            rates[row + head] += sums[lane]
        if number(f, w.GRAD_START):
            rows.write_states(f, offset(matrix(f, w.GRAD_START), (row + head) * numbers), offset(grads, place))
        if number(f, w.GRAD_D):
            for p in range(0, channels, LANES):
                store(skips, (row + head) * channels + p, load(sums, LANES + p))


@outlined
def walk_backward(f):
    """Gradients of one sample along one path in some heads."""
    length, heads, size = number(f, w.LENGTH), number(f, w.HEADS), number(f, w.SIZE)
    row = number(f, w.BATCH) * number(f, w.N_PATHS) + number(f, w.PATH)
    numbers = number(f, w.CHANNELS) * number(f, w.STATES)
    first, kept, two = number(f, w.FIRST), matrix(f, w.CHECKPOINTS), w.KEPT * w.CHUNK
    begin_path(f, row * heads)
    for pair in range((length + two - 1) // two - 1, -1, -1):
        begin, n_chunks = pair * two, 2 if pair * two + w.CHUNK < length else 1
        for head in range(first, number(f, w.LAST)):
            target = offset(matrix(f, w.HELD), (head - first) * size)
            rows.read_states(f, target, offset(kept, (rows.kept_before(f, pair) + head) * numbers))
        if n_chunks == 2:
            rows.enter_chunk(f, begin, w.CHUNK)
            call(f, w.ADVANCE)
        for chunk in range(n_chunks - 1, -1, -1):
            held, distance = (matrix(f, w.LATER), -w.CHUNK) if chunk else (matrix(f, w.HELD), -two)
            backward_chunk(f, held, begin + chunk * w.CHUNK, distance)
    end_path(f, row * heads)
