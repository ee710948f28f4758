"""Memory of a thread that scans chunks of tokens, and what moves rows between it and tensors.

Rows in this memory are filled up with zeros to whole vectors, and chunks to 16 or 32 tokens. It begins with a
table of integers: the arguments of the kernel, then sizes and addresses of matrices. A pointer to it, typed as
what numbers are computed in, is all that functions need; one structure of many fields, handed from function to
function, would compile several times as long.

Letters of the shapes: P channels of a head, N states of a channel.
"""

from math import inf

from numba import float64, int32, int64, njit

from skop.ops._simd import LANES, address, claim, constant, load, offset, pointer, splat, store
from skop.ops._simd_tiles import LINE

__all__: list[str] = []


#: Tokens of a chunk, and chunks from one kept state to the next.
CHUNK = 32
KEPT = 2
#: A gap between matrices keeps them from lying a multiple of 4096 bytes apart, where the processor takes a read of
#: one for a read of what was just written to another.
GAP = 5 * LANES

#: Places in the table of arguments: what threads share, sizes, then addresses, 0 for what is absent.
(
    NEXT, SLOT, ITEMS, SCRATCH, SCRATCH_BYTES,
    SAMPLES, LENGTH, N_PATHS, SHARED, SHARED_MAPS, HEADS, CHANNELS, STATES, SPLITS, SPLIT_HEADS, HAS_SKIP,
    X, DT, A, B, C, D, START, PATHS, Y, FINAL, CHECKPOINTS,
    GRAD_Y, GRAD_FINAL, GRAD_X, GRAD_DT, GRAD_A, GRAD_B, GRAD_C, GRAD_D, GRAD_START,
    N_ARGUMENTS,
) = range(37)  # fmt: skip

#: More of the table. Sizes in whole vectors; the number of a head's states. SPARE: a vector. TOKENS: rows of the tokens
#: of the chunk among those of all samples, then of those to prefetch. ROWS: see below. ABOVE: -inf above the
#: diagonal of a block, else 0; BELOW: the same below it; UNDER: 1 below it, else 0. PARTIAL: sixteen vectors.
#: SUMS: of each head, gradients of A, one vector, and of D, in float64.
WIDE_CHANNELS, WIDE_STATES, SIZE, SPARE, TOKENS, ROWS, ABOVE, BELOW, UNDER, PARTIAL, SUMS = range(40, 51)
#: Matrices (tokens, P), and (P, tokens): x, x times its weight in the leaving state, outputs or gradients of u,
#: gradients of the outputs, these times the decay up to their token; x transposed, and what states give.
INPUTS, SCALED, OUT, GRAD, GRAD_SCALED, ACROSS, CROSSED = range(51, 58)
#: Matrices (tokens, N), and (N, tokens): B, C, what states give to the gradient of C, gradients of B and C; B or C.
MAPS_IN, MAPS_OUT, MAPPED, GRAD_IN, GRAD_OUT, MAPS_ACROSS = range(58, 64)
#: Matrices (tokens, tokens): of B and C, of the outputs by the inputs, of gradients by x; gradient of the first.
PRODUCTS, WEIGHTS, SHARES, GRAD_PRODUCTS = range(64, 68)
#: Matrices (P, N) of all heads of the item: entering states, those of the second chunk of a pair, and gradients.
HELD, LATER, GRADS = range(68, 71)
#: Queue of addresses of memory that products of matrices ask for; see `skop.ops._simd_tiles`.
QUEUE = 71
N_WORDS = 72
#: Words of the queue.
QUEUE_SIZE = 1024

#: Rows of a number per token: steps; logarithms of decays up to a token, in two parts; decays up to a token, from it to
#: the end, and these times the step; then sums of the backward pass.
(
    STEP, INTEGER, REST, RISE, FALL, FEED, WITHIN, COLUMN, DIRECT, ENTERED, BEFORE, AFTER, N_ROWS,
) = range(13)  # fmt: skip
#: Where the tokens of the chunk are, and those of the one to read next.
HERE, AHEAD = 0, CHUNK


@njit(forceinline=True)
def whole(count):
    """Round up to whole vectors."""
    return (count + LANES - 1) // LANES * LANES


def scratch_bytes(channels, states, heads):
    """Memory of a thread for so many heads, if all of it is float64."""
    wide_channels, wide_states = whole.py_func(channels), whole.py_func(states)
    by_channel, by_state = CHUNK * wide_channels + GAP, CHUNK * wide_states + GAP
    by_token, packed = CHUNK * CHUNK + GAP, heads * wide_channels * wide_states + GAP
    few = (
        N_WORDS + QUEUE_SIZE + LANES + 2 * CHUNK + N_ROWS * CHUNK + 4 * LANES * LANES + heads * (LANES + wide_channels)
    )
    return 8 * (few + 7 * by_channel + 6 * by_state + 4 * by_token + 3 * packed)


@njit(forceinline=True)
def number(frame, name):
    """An integer of the table."""
    return pointer(address(frame), int64)[name]


@njit(forceinline=True)
def matrix(frame, name):
    """A matrix in the memory of the thread."""
    return pointer(number(frame, name), frame)


@njit(forceinline=True)
def row_of(frame, name):
    """A row of numbers, one per token."""
    return offset(matrix(frame, ROWS), name * CHUNK)


@njit(forceinline=True)
def tensor(frame, name, like):
    """A tensor among the arguments."""
    return pointer(number(frame, name), like)


@njit(forceinline=True)
def queue_of(frame):
    """Queue of memory that products ask for: twice the place of the next entry, place of the last, entries."""
    return tensor(frame, QUEUE, pointer(0, int64))


@njit(forceinline=True)
def empty_queue(frame):
    """Begin with a queue of nothing; beyond its last entry, it asks for itself."""
    queue = queue_of(frame)
    queue[0], queue[1], queue[2] = 2 * 2, 2, address(queue)


@njit
def ask(frame, source, first, stride, count, begin, end):
    """Add rows of tokens, each of so many numbers, to the queue, unless that is full."""
    queue, tokens = queue_of(frame), tensor(frame, TOKENS, pointer(0, int64))
    width, place = address(offset(source, 1)) - address(source), queue[1]
    start = address(offset(source, first))
    for index in range(0, count * width, LINE):
        if place + end - begin < QUEUE_SIZE:
            for t in range(begin, end):
                queue[place + t - begin] = start + tokens[t] * (stride * width) + index
            place += end - begin
    queue[1], queue[place] = place, address(queue)


@njit
def ask_states(frame, source):
    """Add the states of a head in a tensor to the queue."""
    queue, start = queue_of(frame), address(source)
    count = number(frame, CHANNELS) * number(frame, STATES) * (address(offset(source, 1)) - start)
    place = queue[1]
    size = min((count + LINE - 1) // LINE, QUEUE_SIZE - 1 - place)
    for index in range(size):
        queue[place + index] = start + LINE * index
    queue[1], queue[place + size] = place + size, address(queue)


@njit
def claim_frame(table, like):
    """Lay out the memory of the calling thread."""
    start = table[SCRATCH] + claim(offset(table, SLOT)) * table[SCRATCH_BYTES]
    words, width = pointer(start, int64), address(offset(like, 1)) - address(like)
    for name in range(N_ARGUMENTS):
        words[name] = table[name]
    heads, channels, states = table[SPLIT_HEADS], whole(table[CHANNELS]), whole(table[STATES])
    words[WIDE_CHANNELS], words[WIDE_STATES], words[SIZE] = channels, states, channels * states
    words[SUMS] = start + 8 * N_WORDS
    words[SPARE] = words[SUMS] + 8 * heads * (LANES + channels)
    words[TOKENS] = words[SPARE] + 8 * LANES
    words[ROWS] = words[TOKENS] + 8 * 2 * CHUNK
    words[QUEUE] = words[ROWS] + width * N_ROWS * CHUNK
    place = words[QUEUE] + 8 * QUEUE_SIZE
    for name in range(ABOVE, PARTIAL + 1):
        words[name] = place
        place += width * LANES * LANES
    for name in range(INPUTS, HELD + 3):
        words[name] = place
        if name <= CROSSED:
            size = CHUNK * channels
        elif name <= MAPS_ACROSS:
            size = CHUNK * states
        else:
            size = CHUNK * CHUNK if name <= GRAD_PRODUCTS else heads * channels * states
        place += width * (size + GAP)
    frame = pointer(start, like)
    empty_queue(frame)
    above, below, lower = matrix(frame, ABOVE), matrix(frame, BELOW), matrix(frame, UNDER)
    for i in range(LANES):
        for j in range(LANES):
            above[i * LANES + j] = -inf if j > i else 0
            below[i * LANES + j] = -inf if j < i else 0
            lower[i * LANES + j] = 1 if j < i else 0
    return frame


@njit
def fill(target, count, value):
    """Set whole vectors of memory to one value."""
    for index in range(0, count, LANES):
        store(target, index, constant(target, value))


@njit(forceinline=True)
def read_row(target, source, count, spare):
    """Copy a row of numbers; the rest of its last vector becomes 0."""
    end = count // LANES * LANES
    for index in range(0, end, LANES):
        store(target, index, load(source, index))
    if end < count:
        store(spare, 0, constant(spare, 0))
        for index in range(end, count):
            spare[index - end] = source[index]
        store(target, end, load(spare, 0))


@njit(forceinline=True)
def write_row(target, source, count, is_more, spare):
    """Copy a row of whole vectors to where there is room for so many numbers, or add it to these."""
    end = count // LANES * LANES
    for index in range(0, end, LANES):
        value = load(source, index)
        store(target, index, value + load(target, index) if is_more else value)
    if end < count:
        store(spare, 0, load(source, end))
        if is_more:
            store(spare, 0, constant(spare, 0))
            for index in range(end, count):
                spare[index - end] = target[index]
            store(spare, 0, load(source, end) + load(spare, 0))
        for index in range(end, count):
            target[index] = spare[index - end]


@njit
def read_states(frame, target, source):
    """Copy the states of a head from a tensor; the rest is 0."""
    channels, states, row_size = number(frame, CHANNELS), number(frame, STATES), number(frame, WIDE_STATES)
    spare = matrix(frame, SPARE)
    for p in range(channels):
        read_row(offset(target, p * row_size), offset(source, p * states), states, spare)
    fill(offset(target, channels * row_size), (number(frame, WIDE_CHANNELS) - channels) * row_size, 0)


@njit
def write_states(frame, target, source):
    """Copy the states of a head into a tensor."""
    states, row_size, spare = number(frame, STATES), number(frame, WIDE_STATES), matrix(frame, SPARE)
    for p in range(number(frame, CHANNELS)):
        write_row(offset(target, p * states), offset(source, p * row_size), states, False, spare)


@njit(forceinline=True)
def kept_before(frame, batch, path, pair):
    """Number of kept states of heads before those that enter a pair of chunks."""
    pairs = (number(frame, LENGTH) + KEPT * CHUNK - 1) // (KEPT * CHUNK)
    return ((batch * number(frame, N_PATHS) + path) * pairs + pair) * number(frame, HEADS)


@njit
def read_tokens(frame, batch, path, begin, count, ahead):
    """Look up the tokens of a chunk, and those of the chunk so far ahead of it."""
    length, tokens = number(frame, LENGTH), tensor(frame, TOKENS, pointer(0, int64))
    first, order = batch * length, offset(tensor(frame, PATHS, pointer(0, int32)), path * length)
    for t in range(CHUNK):
        tokens[t] = first + order[begin + min(t, count - 1)]
        tokens[CHUNK + t] = first + order[min(max(begin + t + ahead, 0), length - 1)]


@njit(forceinline=True)
def rows_of_x(frame, path, head):
    """Numbers from one token's row of x to the next one's, and the first row of a head."""
    size, head_size = number(frame, HEADS) * number(frame, CHANNELS), number(frame, CHANNELS)
    if number(frame, SHARED):
        return size, head * head_size
    return size * number(frame, N_PATHS), path * size + head * head_size


@njit(forceinline=True)
def rows_of_maps(frame, path, shared):
    """Numbers from one token's row of B or C to the next one's, and the first row of a path."""
    states = number(frame, STATES)
    return (states, 0) if shared else (states * number(frame, N_PATHS), path * states)


@njit
def read_maps(frame, maps, target, path, count, full):
    """Lay out rows of B or C along the path."""
    states, row_size = number(frame, STATES), number(frame, WIDE_STATES)
    stride, first = rows_of_maps(frame, path, number(frame, SHARED_MAPS))
    tokens, spare = tensor(frame, TOKENS, pointer(0, int64)), tensor(frame, SPARE, maps)
    for t in range(count):
        read_row(offset(target, t * row_size), offset(maps, first + tokens[t] * stride), states, spare)
    fill(offset(target, count * row_size), (full - count) * row_size, 0)


@njit
def read_rows(frame, source, target, scaled, factors, path, head, count, full):
    """Lay out rows of x or of a tensor of its shape, and these times a factor for each token."""
    channels, row_size = number(frame, CHANNELS), number(frame, WIDE_CHANNELS)
    stride, first = rows_of_x(frame, path, head)
    tokens, spare = tensor(frame, TOKENS, pointer(0, int64)), tensor(frame, SPARE, source)
    for t in range(count):
        row, here, factor = offset(target, t * row_size), offset(source, first + tokens[t] * stride), splat(factors[t])
        if channels == row_size:
            for p in range(0, row_size, LANES):
                value = load(here, p)
                store(row, p, value)
                store(scaled, t * row_size + p, value * factor)
        else:
            read_row(row, here, channels, spare)
            for p in range(0, row_size, LANES):
                store(scaled, t * row_size + p, load(row, p) * factor)
    fill(offset(target, count * row_size), (full - count) * row_size, 0)
    fill(offset(scaled, count * row_size), (full - count) * row_size, 0)


@njit(forceinline=True)
def ask_rows(frame, source, path, head, which):
    """Ask for rows that will be read or written soon: of this chunk, or of the one ahead."""
    stride, first = rows_of_x(frame, path, head)
    ask(frame, source, first, stride, number(frame, CHANNELS), which, which + CHUNK)


@njit(forceinline=True)
def ask_maps(frame, source, path, shared, which, local, heads):
    """Ask for a head's share of rows of B or C, or of their gradients."""
    stride, first = rows_of_maps(frame, path, shared)
    begin, end = which + local * CHUNK // heads, which + (local + 1) * CHUNK // heads
    ask(frame, source, first, stride, number(frame, STATES), begin, end)


@njit(forceinline=True)
def ask_steps(frame, source, path, first, last, which):
    """Ask for steps, or their gradients, of some heads."""
    heads, n_paths = number(frame, HEADS), number(frame, N_PATHS)
    ask(frame, source, path * heads + first, n_paths * heads, last - first, which, which + CHUNK)


@njit
def write_rows(frame, target, path, head, count):
    """Write outputs to their tokens; those of shared inputs are added to what earlier paths gave."""
    channels, row_size = number(frame, CHANNELS), number(frame, WIDE_CHANNELS)
    is_more = number(frame, SHARED) != 0 and path > 0
    stride, first = rows_of_x(frame, path, head)
    tokens, spare, out = tensor(frame, TOKENS, pointer(0, int64)), tensor(frame, SPARE, target), matrix(frame, OUT)
    for t in range(count):
        row = offset(target, first + tokens[t] * stride)
        write_row(row, offset(out, t * row_size), channels, is_more, spare)


@njit
def add_skip(frame, source, path, head, full):
    """Add rows times the skip to the outputs, or to what is their like in the backward pass."""
    row_size, out = number(frame, WIDE_CHANNELS), matrix(frame, OUT)
    skips = offset(tensor(frame, D, frame), (path * number(frame, HEADS) + head) * row_size)
    for p in range(0, row_size, LANES):
        skip = load(skips, p)
        for t in range(full):
            store(out, t * row_size + p, load(out, t * row_size + p) + skip * load(source, t * row_size + p))


@njit
def parts_of(frame, item):
    """Sample, first path, path after the last, first head, head after the last of a work item."""
    splits, n_paths, split_heads = number(frame, SPLITS), number(frame, N_PATHS), number(frame, SPLIT_HEADS)
    split, rest = item % splits, item // splits
    groups = 1 if number(frame, SHARED) else n_paths
    batch, path, first = rest // groups, rest % groups, split * split_heads
    end = n_paths if number(frame, SHARED) else path + 1
    return batch, path, end, first, min(first + split_heads, number(frame, HEADS))


@njit(forceinline=True)
def sums_of(frame, local):
    """Sums of a head of the item."""
    sums = tensor(frame, SUMS, pointer(0, float64))
    return offset(sums, local * (LANES + number(frame, WIDE_CHANNELS)))
