"""What Numba compiles to move rows between tensors and the workspace of `skop.ops.ssd_scan`, and to call products."""

from math import inf

from numba import int32

from skop.ops._cpu_workspace import claim_workspace, fill, next_item, whole
from skop.ops._simd import (
    LANES,
    address,
    call,
    inlined,
    integers,
    larger,
    load,
    load_first,
    matrix,
    number,
    offset,
    outlined,
    pointer,
    set_number,
    smaller,
    splat,
    store,
    store_first,
    wide,
)
from skop.ops._simd_tiles import ALL, LINE, product, transpose
from skop.ops.ssd_scan import _cpu_words as w

__all__: list[str] = []


@inlined
def row_of(f, name):
    """A row of numbers, one per token."""
    return offset(matrix(f, w.ROWS), name * w.CHUNK)


@inlined
def sums_of(f):
    """Sums of the head."""
    local = number(f, w.HEAD) - number(f, w.FIRST)
    return offset(wide(f, w.SUMS), local * (LANES + number(f, w.WIDE_CHANNELS)))


# Products of matrices: parts of their own, whose arguments are words.


@inlined
def add_matmul(
    f, target, target_row, scale, source, left, left_row, left_step, right, right_row, rows, columns, terms, which
):
    """Compute target = scale source + left right; see `skop.ops._simd_tiles.product`."""
    matrix(f, w.SPARE)[0] = scale
    set_number(f, w.TARGET, address(target))
    set_number(f, w.TARGET_ROW, target_row)
    set_number(f, w.SOURCE, address(source))
    set_number(f, w.LEFT, address(left))
    set_number(f, w.LEFT_ROW, left_row)
    set_number(f, w.LEFT_STEP, left_step)
    set_number(f, w.RIGHT, address(right))
    set_number(f, w.RIGHT_ROW, right_row)
    set_number(f, w.N_ROWS, rows)
    set_number(f, w.N_COLUMNS, columns)
    set_number(f, w.N_TERMS, terms)
    set_number(f, w.WHICH, which)
    call(f, w.PRODUCT)


@inlined
def matmul(f, target, target_row, left, left_row, left_step, right, right_row, rows, columns, terms):
    """Compute target = left right."""
    add_matmul(
        f, target, target_row, 0, pointer(0, f), left, left_row, left_step, right, right_row, rows, columns, terms, ALL
    )


@inlined
def turn(f, target, target_row, source, source_row, rows, columns, factors):
    """Transpose a matrix, and multiply each row of the result by a factor; see `skop.ops._simd_tiles.transpose`."""
    set_number(f, w.TARGET, address(target))
    set_number(f, w.TARGET_ROW, target_row)
    set_number(f, w.LEFT, address(source))
    set_number(f, w.LEFT_ROW, source_row)
    set_number(f, w.RIGHT, address(factors))
    set_number(f, w.N_ROWS, rows)
    set_number(f, w.N_COLUMNS, columns)
    call(f, w.TRANSPOSE)


@outlined
def product_part(f):
    """Product of matrices."""
    product(
        matrix(f, w.TARGET), number(f, w.TARGET_ROW), matrix(f, w.SPARE)[0], matrix(f, w.SOURCE), matrix(f, w.LEFT),
        number(f, w.LEFT_ROW), number(f, w.LEFT_STEP), matrix(f, w.RIGHT), number(f, w.RIGHT_ROW),
        number(f, w.N_ROWS), number(f, w.N_COLUMNS), number(f, w.N_TERMS), number(f, w.WHICH), integers(f, w.QUEUE),
    )  # fmt: skip


@outlined
def transpose_part(f):
    """Transposed matrix."""
    transpose(
        matrix(f, w.TARGET), number(f, w.TARGET_ROW), matrix(f, w.LEFT), number(f, w.LEFT_ROW), number(f, w.N_ROWS),
        number(f, w.N_COLUMNS), matrix(f, w.RIGHT),
    )  # fmt: skip


# Memory that will be needed soon.


@inlined
def empty_queue(f):
    """Begin with a queue of nothing; beyond its last entry, it asks for itself."""
    queue = integers(f, w.QUEUE)
    queue[0], queue[1], queue[2] = 2 * 2, 2, address(queue)


@inlined
def ask(f, source, first, stride, count, begin, end):
    """Add rows of tokens, each of so many numbers, to the queue, unless that is full."""
    set_number(f, w.SOURCE, address(offset(source, first)))
    set_number(f, w.TARGET_ROW, stride)
    set_number(f, w.N_COLUMNS, count)
    set_number(f, w.LEFT_ROW, begin)
    set_number(f, w.RIGHT_ROW, end)
    call(f, w.ASK)


@outlined
def ask_part(f):
    """Add rows to the queue."""
    queue, tokens, limit = integers(f, w.QUEUE), integers(f, w.TOKENS), number(f, w.QUEUE_END)
    begin, end, start, place = number(f, w.LEFT_ROW), number(f, w.RIGHT_ROW), number(f, w.SOURCE), queue[1]
    width = address(offset(f, 1)) - address(f)
    stride, size = number(f, w.TARGET_ROW) * width, number(f, w.N_COLUMNS) * width
    for index in range(0, size, LINE):
        if place + end - begin < limit:
            for t in range(begin, end):
                queue[place + t - begin] = start + tokens[t] * stride + index
            place += end - begin
    queue[1], queue[place] = place, address(queue)


@outlined
def ask_states(f, source):
    """Add the states of a head in a tensor to the queue."""
    queue, start = integers(f, w.QUEUE), address(source)
    count = number(f, w.CHANNELS) * number(f, w.STATES) * (address(offset(source, 1)) - start)
    place = queue[1]
    size = larger(0, smaller((count + LINE - 1) // LINE, number(f, w.QUEUE_END) - 1 - place))
    for index in range(size):
        queue[place + index] = start + LINE * index
    queue[1], queue[place + size] = place + size, address(queue)


@inlined
def ask_rows(f, source, which):
    """Ask for rows of the head that will be read or written soon: of this chunk, or of the one ahead."""
    stride, first = rows_of_x(f)
    ask(f, source, first, stride, number(f, w.CHANNELS), which, which + w.CHUNK)


@inlined
def ask_maps(f, source, shared, which):
    """Ask for a head's share of rows of B or C, or of their gradients."""
    stride, first = rows_of_maps(f, shared)
    local, heads = number(f, w.HEAD) - number(f, w.FIRST), number(f, w.LAST) - number(f, w.FIRST)
    begin, end = which + local * w.CHUNK // heads, which + (local + 1) * w.CHUNK // heads
    ask(f, source, first, stride, number(f, w.STATES), begin, end)


@inlined
def ask_steps(f, source, which):
    """Ask for steps, or their gradients, of the heads of the item."""
    heads, n_paths, first = number(f, w.HEADS), number(f, w.N_PATHS), number(f, w.FIRST)
    ask(
        f, source, number(f, w.PATH) * heads + first, n_paths * heads, number(f, w.LAST) - first, which, which + w.CHUNK
    )


# Rows.


@inlined
def read_row(target, source, count):
    """Copy a row of numbers; the rest of its last vector becomes 0."""
    end = count // LANES * LANES
    for index in range(0, end, LANES):
        store(target, index, load(source, index))
    if end < count:
        store(target, end, load_first(source, end, count - end))


@inlined
def write_row(target, source, count, is_more):
    """Copy a row of whole vectors to where there is room for so many numbers, or add it to these."""
    end = count // LANES * LANES
    for index in range(0, end, LANES):
        value = load(source, index)
        store(target, index, value + load(target, index) if is_more else value)
    if end < count:
        value = load(source, end)
        if is_more:
            value = value + load_first(target, end, count - end)
        store_first(target, end, value, count - end)


@outlined
def read_states(f, target, source):
    """Copy the states of a head from a tensor; the rest is 0."""
    channels, states, row_size = number(f, w.CHANNELS), number(f, w.STATES), number(f, w.WIDE_STATES)
    for p in range(channels):
        read_row(offset(target, p * row_size), offset(source, p * states), states)
    fill(offset(target, channels * row_size), (number(f, w.WIDE_CHANNELS) - channels) * row_size, 0)


@outlined
def write_states(f, target, source):
    """Copy the states of a head into a tensor."""
    states, row_size = number(f, w.STATES), number(f, w.WIDE_STATES)
    for p in range(number(f, w.CHANNELS)):
        write_row(offset(target, p * states), offset(source, p * row_size), states, False)


@inlined
def kept_before(f, pair):
    """Number of kept states of heads before those that enter a pair of chunks."""
    pairs = (number(f, w.LENGTH) + w.KEPT * w.CHUNK - 1) // (w.KEPT * w.CHUNK)
    return ((number(f, w.BATCH) * number(f, w.N_PATHS) + number(f, w.PATH)) * pairs + pair) * number(f, w.HEADS)


@inlined
def rows_of_x(f):
    """Numbers from one token's row of x to the next one's, and the first row of the head."""
    size, first = number(f, w.HEADS) * number(f, w.CHANNELS), number(f, w.HEAD) * number(f, w.CHANNELS)
    if number(f, w.SHARED):
        return size, first
    return size * number(f, w.N_PATHS), number(f, w.PATH) * size + first


@inlined
def rows_of_maps(f, shared):
    """Numbers from one token's row of B or C to the next one's, and the first row of the path."""
    states = number(f, w.STATES)
    return (states, 0) if shared else (states * number(f, w.N_PATHS), number(f, w.PATH) * states)


@outlined
def read_maps(f, maps, target):
    """Lay out rows of B or C along the path."""
    states, row_size, count = number(f, w.STATES), number(f, w.WIDE_STATES), number(f, w.COUNT)
    stride, first = rows_of_maps(f, number(f, w.SHARED_MAPS) != 0)
    tokens = integers(f, w.TOKENS)
    for t in range(count):
        read_row(offset(target, t * row_size), offset(maps, first + tokens[t] * stride), states)
    fill(offset(target, count * row_size), (number(f, w.FULL) - count) * row_size, 0)


@inlined
def read_chunk(f):
    """Look up the tokens of the chunk, and those of the chunk ahead, and lay out rows of B and C."""
    length, tokens, begin = number(f, w.LENGTH), integers(f, w.TOKENS), number(f, w.BEGIN)
    first, order = number(f, w.BATCH) * length, offset(pointer(number(f, w.PATHS), int32), number(f, w.PATH) * length)
    for t in range(w.CHUNK):
        tokens[t] = first + order[begin + smaller(t, number(f, w.COUNT) - 1)]
        tokens[w.CHUNK + t] = first + order[smaller(larger(begin + t + number(f, w.DISTANCE), 0), length - 1)]
    read_maps(f, matrix(f, w.B), matrix(f, w.MAPS_IN))


@outlined
def read_rows(f, source, target, scaled, factors):
    """Lay out rows of x or of a tensor of its shape, and these times a factor for each token."""
    channels, row_size, count = number(f, w.CHANNELS), number(f, w.WIDE_CHANNELS), number(f, w.COUNT)
    stride, first = rows_of_x(f)
    tokens, full = integers(f, w.TOKENS), number(f, w.FULL)
    for t in range(count):
        row, here, factor = offset(target, t * row_size), offset(source, first + tokens[t] * stride), splat(factors[t])
        if channels == row_size:
            for p in range(0, row_size, LANES):
                value = load(here, p)
                store(row, p, value)
                store(scaled, t * row_size + p, value * factor)
        else:
            read_row(row, here, channels)
            for p in range(0, row_size, LANES):
                store(scaled, t * row_size + p, load(row, p) * factor)
    fill(offset(target, count * row_size), (full - count) * row_size, 0)
    fill(offset(scaled, count * row_size), (full - count) * row_size, 0)


@outlined
def write_rows(f, target):
    """Write outputs to their tokens; those of shared inputs are added to what earlier paths gave."""
    channels, row_size = number(f, w.CHANNELS), number(f, w.WIDE_CHANNELS)
    is_more = number(f, w.SHARED) != 0 and number(f, w.PATH) > 0
    stride, first = rows_of_x(f)
    tokens, out = integers(f, w.TOKENS), matrix(f, w.OUT)
    for t in range(number(f, w.COUNT)):
        write_row(offset(target, first + tokens[t] * stride), offset(out, t * row_size), channels, is_more)


@outlined
def add_skip(f, source):
    """Add rows times the skip to the outputs, or to what is their like in the backward pass."""
    row_size, out = number(f, w.WIDE_CHANNELS), matrix(f, w.OUT)
    skips = offset(matrix(f, w.D), (number(f, w.PATH) * number(f, w.HEADS) + number(f, w.HEAD)) * row_size)
    for p in range(0, row_size, LANES):
        skip = load(skips, p)
        for t in range(number(f, w.FULL)):
            store(out, t * row_size + p, load(out, t * row_size + p) + skip * load(source, t * row_size + p))


@inlined
def enter_chunk(f, begin, distance):
    """Go to the chunk that begins with a token; the one read next is at a distance."""
    count = smaller(w.CHUNK, number(f, w.LENGTH) - begin)
    set_number(f, w.BEGIN, begin)
    set_number(f, w.COUNT, count)
    set_number(f, w.FULL, whole(count))
    set_number(f, w.DISTANCE, distance)


@outlined
def run(table):
    """Take work items until there are none left; the argument is the table of arguments."""
    f = claim_workspace(table)
    empty_queue(f)
    above, below, lower = matrix(f, w.ABOVE), matrix(f, w.BELOW), matrix(f, w.UNDER)
    for i in range(LANES):
        for j in range(LANES):
            above[i * LANES + j] = -inf if j > i else 0
            below[i * LANES + j] = -inf if j < i else 0
            lower[i * LANES + j] = 1 if j < i else 0
    splits, n_paths, heads = number(f, w.SPLITS), number(f, w.N_PATHS), number(f, w.SPLIT_HEADS)
    shared = number(f, w.SHARED) != 0
    groups = 1 if shared else n_paths
    item = next_item(f)
    while item < number(f, w.ITEMS):
        split, rest = item % splits, item // splits
        set_number(f, w.SPLIT, split)
        set_number(f, w.BATCH, rest // groups)
        set_number(f, w.FIRST, split * heads)
        set_number(f, w.LAST, smaller(split * heads + heads, number(f, w.HEADS)))
        for path in range(rest % groups, n_paths if shared else rest % groups + 1):
            set_number(f, w.PATH, path)
            call(f, w.WALK)
        item = next_item(f)
