"""Triton kernels of `skop.ops.ssd_scan`: chunks of tokens as small dense matrices.

The algebra is in the README of this folder. A program works on one chunk of one block of channels of
one head, along one path. The tokens of a chunk are held in reverse order, last token first: what has
to be summed in the backward pass then are sums from the first row on, and sums of steps after a token
are exact to the last digit, where differences of sums from the start would not be.

Notation: b batch, k path, h head, p channel of the head, n state, q tokens of a chunk.
i is the token that receives, j the token that sends; rows of a matrix are i, columns j.
"""

import triton
import triton.language as tl

from skop.ops._triton_kernels import LOG2_E


@triton.jit
def _place(program, n_chunks, n_paths, n_heads, n_channels, BLOCK_P: tl.constexpr):
    """Decode a program: block of channels, head, chunk, sequence, sample and path."""
    n_blocks = tl.cdiv(n_channels, BLOCK_P)
    block = program % n_blocks
    head = (program // n_blocks) % n_heads
    chunk = (program // (n_blocks * n_heads)) % n_chunks
    sequence = (program // (n_blocks * n_heads * n_chunks)).to(tl.int64)
    return block, head, chunk, sequence, sequence // n_paths, sequence % n_paths


@triton.jit
def _tokens(dt, paths, batch, path, head, chunk, length, n_paths, n_heads, CHUNK: tl.constexpr):
    """Tokens of a chunk, which of them exist, their steps, the sums of the steps after each, and of all."""
    time = chunk * CHUNK + (CHUNK - 1 - tl.arange(0, CHUNK))
    exists = time < length
    # A token after the last one of the chunk has no step.
    follows = (time + 1 < length) & (time + 1 < (chunk + 1) * CHUNK)
    row = paths + path * length
    token = batch * length + tl.load(row + time, mask=exists, other=0)
    following = batch * length + tl.load(row + time + 1, mask=follows, other=0)
    steps = tl.load(dt + (token * n_paths + path) * n_heads + head, mask=exists, other=0.0)
    after = tl.load(dt + (following * n_paths + path) * n_heads + head, mask=follows, other=0.0)
    # In float64 because decays between neighbours are powers of differences of these sums.
    sums = tl.cumsum(after.to(tl.float64), 0)
    return token, exists, steps, sums, tl.sum(steps.to(tl.float64), 0)


@triton.jit
def _decays(sums, rate, CHUNK: tl.constexpr):
    """Decay from each token j to the token i, itself or a later one; 0 elsewhere."""
    logs = sums * rate
    high = logs.to(rate.dtype)
    low = (logs - high.to(tl.float64)).to(rate.dtype)
    # The difference of the high parts is rounded only once: as exact as in float64, without its cost.
    gaps = (high[None, :] - high[:, None]) + (low[None, :] - low[:, None])
    rows = tl.arange(0, CHUNK)
    reached = rows[None, :] >= rows[:, None]
    # Barred before the power is taken: across the diagonal it would overflow.
    return tl.exp2(tl.where(reached, gaps, float("-inf")))


@triton.jit
def chunk_states_kernel(
    values, maps, dt, A, paths, states, amounts, length, n_chunks, n_paths, value_paths, map_paths, n_heads,
    n_channels, n_states,
    CHUNK: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr, BACKWARD: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What a chunk adds to the state that leaves it or, backward, to the gradient of the state that enters.

    Forward: sum_j decay(j to end) dt_j x_j B_j. Backward, with values g and maps C: sum_i decay(start to i) g_i C_i.
    """
    program = tl.program_id(0)
    n_state_blocks = tl.cdiv(n_states, BLOCK_N)
    state = (program % n_state_blocks) * BLOCK_N + tl.arange(0, BLOCK_N)
    program = program // n_state_blocks
    block, head, chunk, sequence, batch, path = _place(program, n_chunks, n_paths, n_heads, n_channels, BLOCK_P)
    channel = block * BLOCK_P + tl.arange(0, BLOCK_P)

    token, exists, steps, after, total = _tokens(dt, paths, batch, path, head, chunk, length, n_paths, n_heads, CHUNK)
    rate = tl.load(A + path * n_heads + head) * LOG2_E
    sums = after
    if BACKWARD:
        sums = total - after
    weights = tl.exp2((sums * rate).to(rate.dtype))
    if not BACKWARD:
        weights *= steps

    rows = (token * value_paths + path % value_paths) * n_heads + head
    there = exists[:, None] & (channel < n_channels)[None, :]
    v = tl.load(values + rows[:, None] * n_channels + channel[None, :], mask=there, other=0.0).to(rate.dtype)
    rows = token * map_paths + path % map_paths
    there = exists[:, None] & (state < n_states)[None, :]
    m = tl.load(maps + rows[:, None] * n_states + state[None, :], mask=there, other=0.0).to(rate.dtype)

    added = tl.dot(tl.trans(v), m * weights[:, None], input_precision=PRECISION, out_dtype=rate.dtype)
    place = (sequence * n_chunks + chunk) * n_heads + head
    there = (channel < n_channels)[:, None] & (state < n_states)[None, :]
    tl.store(states + (place * n_channels + channel[:, None]) * n_states + state[None, :], added, mask=there)
    # The blocks of a head write the same number.
    tl.store(amounts + place, total.to(rate.dtype))


@triton.jit
def output_kernel(
    x, dt, A, B, C, D, paths, entering, y, length, n_chunks, n_paths, x_paths, y_paths, map_paths, n_heads, n_channels,
    n_states, skip_channels,
    HAS_SKIP: tl.constexpr, CHUNK: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Outputs of a chunk, from the state that enters it."""
    program = tl.program_id(0)
    block, head, chunk, sequence, batch, path = _place(program, n_chunks, n_paths, n_heads, n_channels, BLOCK_P)

    token, exists, steps, after, total = _tokens(dt, paths, batch, path, head, chunk, length, n_paths, n_heads, CHUNK)
    rate = tl.load(A + path * n_heads + head) * LOG2_E
    channel = block * BLOCK_P + tl.arange(0, BLOCK_P)
    real_channel = channel < n_channels
    maps = (token * map_paths + path % map_paths)[:, None] * n_states
    corner = (((sequence * n_chunks + chunk) * n_heads + head) * n_channels + channel)[:, None] * n_states
    weights = tl.zeros((CHUNK, CHUNK), rate.dtype)
    result = tl.zeros((CHUNK, BLOCK_P), rate.dtype)
    for first in range(0, n_states, BLOCK_N):
        state = (first + tl.arange(0, BLOCK_N))[None, :]
        there = exists[:, None] & (state < n_states)
        b = tl.load(B + maps + state, mask=there, other=0.0).to(rate.dtype)
        c = tl.load(C + maps + state, mask=there, other=0.0).to(rate.dtype)
        weights += tl.dot(c, tl.trans(b), input_precision=PRECISION, out_dtype=rate.dtype)
        h = tl.load(entering + corner + state, mask=real_channel[:, None] & (state < n_states), other=0.0)
        result += tl.dot(c, tl.trans(h), input_precision=PRECISION, out_dtype=rate.dtype)
    result *= tl.exp2(((total - after) * rate).to(rate.dtype))[:, None]
    weights *= _decays(after, rate, CHUNK) * steps[None, :]
    there = exists[:, None] & real_channel[None, :]
    rows = ((token * x_paths + path % x_paths) * n_heads + head) * n_channels
    u = tl.load(x + rows[:, None] + channel[None, :], mask=there, other=0.0).to(rate.dtype)
    result += tl.dot(weights, u, input_precision=PRECISION, out_dtype=rate.dtype)
    if HAS_SKIP:
        skip = D + (path * n_heads + head) * skip_channels + channel % skip_channels
        result += tl.load(skip, mask=real_channel, other=0.0)[None, :] * u
    rows = ((token * y_paths + path % y_paths) * n_heads + head) * n_channels
    tl.store(y + rows[:, None] + channel[None, :], result.to(y.dtype.element_ty), mask=there)


@triton.jit
def input_gradient_kernel(
    x, dt, A, B, C, D, paths, entering, leaving, grad_y, grad_x, grad_dt, grad_A, grad_D, length, n_chunks, n_paths,
    x_paths, grad_paths, map_paths, n_heads, n_channels, n_states, skip_channels,
    HAS_SKIP: tl.constexpr, CHUNK: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of x, dt, A and D in a chunk, from the entering state and the gradient of the leaving one."""
    program = tl.program_id(0)
    block, head, chunk, sequence, batch, path = _place(program, n_chunks, n_paths, n_heads, n_channels, BLOCK_P)

    token, exists, steps, after, total = _tokens(dt, paths, batch, path, head, chunk, length, n_paths, n_heads, CHUNK)
    decay_rate = tl.load(A + path * n_heads + head)
    rate = decay_rate * LOG2_E
    rows = tl.arange(0, CHUNK)
    channel = block * BLOCK_P + tl.arange(0, BLOCK_P)
    real_channel = channel < n_channels
    there = exists[:, None] & real_channel[None, :]
    offset = ((token * x_paths + path % x_paths) * n_heads + head)[:, None] * n_channels + channel[None, :]
    g = tl.load(grad_y + offset, mask=there, other=0.0).to(rate.dtype)

    maps = (token * map_paths + path % map_paths)[:, None] * n_states
    place = (sequence * n_chunks + chunk) * n_heads + head
    corner = (place * n_channels + channel)[:, None] * n_states
    weights = tl.zeros((CHUNK, CHUNK), rate.dtype)
    later = tl.zeros((CHUNK, BLOCK_P), rate.dtype)
    received = tl.zeros((CHUNK,), rate.dtype)
    passed = tl.zeros((BLOCK_P,), rate.dtype)
    for first in range(0, n_states, BLOCK_N):
        state = (first + tl.arange(0, BLOCK_N))[None, :]
        mapped = exists[:, None] & (state < n_states)
        cornered = real_channel[:, None] & (state < n_states)
        b = tl.load(B + maps + state, mask=mapped, other=0.0).to(rate.dtype)
        h_grad = tl.load(leaving + corner + state, mask=cornered, other=0.0)
        later += tl.dot(b, tl.trans(h_grad), input_precision=PRECISION, out_dtype=rate.dtype)
        c = tl.load(C + maps + state, mask=mapped, other=0.0).to(rate.dtype)
        weights += tl.dot(c, tl.trans(b), input_precision=PRECISION, out_dtype=rate.dtype)
        h = tl.load(entering + corner + state, mask=cornered, other=0.0)
        passed += tl.sum(h * h_grad, 1)
        received += tl.sum(c * tl.dot(g, h, input_precision=PRECISION, out_dtype=rate.dtype), 1)
    later *= tl.exp2((after * rate).to(rate.dtype))[:, None]
    received *= tl.exp2(((total - after) * rate).to(rate.dtype))
    weights *= _decays(after, rate, CHUNK)
    grad_u = later + tl.dot(tl.trans(weights), g, input_precision=PRECISION, out_dtype=rate.dtype)

    # Gradient of the log-decay of token t: all that passes it. That is the pairs with j before t and i not before t,
    # what j sends on, what i has from the entering state, and what passes the whole chunk. Nothing is subtracted:
    # a difference of sums over all pairs would lose every digit where decays are strong.
    u = tl.load(x + offset, mask=there, other=0.0).to(rate.dtype)
    sent = steps * tl.sum(u * later, 1)
    before = rows[None, :] > rows[:, None]
    pairs = weights * tl.dot(g, tl.trans(u), input_precision=PRECISION, out_dtype=rate.dtype) * steps[None, :]
    pairs = tl.cumsum(tl.where(before, pairs, 0.0), 0)
    slope = tl.sum(tl.where(before, pairs + sent[None, :], received[None, :]), 1)
    slope += tl.exp2((total * rate).to(rate.dtype)) * tl.sum(passed, 0)

    dx = grad_u * steps[:, None]
    if HAS_SKIP:
        skip = D + (path * n_heads + head) * skip_channels + channel % skip_channels
        dx += tl.load(skip, mask=real_channel, other=0.0)[None, :] * g
        tl.store(grad_D + place * n_channels + channel, tl.sum(g * u, 0), mask=real_channel)
    offset = ((token * grad_paths + path % grad_paths) * n_heads + head)[:, None] * n_channels + channel[None, :]
    tl.store(grad_x + offset, dx.to(grad_x.dtype.element_ty), mask=there)
    n_blocks = tl.cdiv(n_channels, BLOCK_P)
    parts = ((token * n_paths + path) * n_heads + head) * n_blocks + block
    tl.store(grad_dt + parts, decay_rate * slope + tl.sum(grad_u * u, 1), mask=exists)
    tl.store(grad_A + place * n_blocks + block, tl.sum(steps * slope, 0))


@triton.jit
def map_gradient_kernel(
    x, dt, A, B, C, paths, entering, leaving, grad_y, grad_B, grad_C, length, n_chunks, n_paths, x_paths, map_paths,
    n_heads, n_channels, n_states, n_splits,
    CHUNK: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of B and C in a chunk, summed over every n_splits-th block of channels of the heads."""
    program = tl.program_id(0)
    n_blocks, n_state_blocks = tl.cdiv(n_channels, BLOCK_P), tl.cdiv(n_states, BLOCK_N)
    state = (program % n_state_blocks) * BLOCK_N + tl.arange(0, BLOCK_N)
    program = program // n_state_blocks
    split = program % n_splits
    chunk = (program // n_splits) % n_chunks
    sequence = (program // (n_splits * n_chunks)).to(tl.int64)
    batch, path = sequence // n_paths, sequence % n_paths
    real_state = state < n_states
    time = chunk * CHUNK + (CHUNK - 1 - tl.arange(0, CHUNK))
    exists = time < length
    token = batch * length + tl.load(paths + path * length + time, mask=exists, other=0)
    offset = (token * map_paths + path % map_paths)[:, None] * n_states + state[None, :]
    mapped = exists[:, None] & real_state[None, :]
    part_b = tl.zeros((CHUNK, BLOCK_N), entering.dtype.element_ty)
    part_c = tl.zeros((CHUNK, BLOCK_N), entering.dtype.element_ty)
    for part in range(split, n_blocks * n_heads, n_splits):
        head = part // n_blocks
        token, exists, steps, after, total = _tokens(
            dt, paths, batch, path, head, chunk, length, n_paths, n_heads, CHUNK
        )
        rate = tl.load(A + path * n_heads + head) * LOG2_E
        channel = (part % n_blocks) * BLOCK_P + tl.arange(0, BLOCK_P)
        real_channel = channel < n_channels
        there = exists[:, None] & real_channel[None, :]
        place = ((token * x_paths + path % x_paths) * n_heads + head)[:, None] * n_channels + channel[None, :]
        u = tl.load(x + place, mask=there, other=0.0).to(rate.dtype) * steps[:, None]
        g = tl.load(grad_y + place, mask=there, other=0.0).to(rate.dtype)
        outer = tl.dot(g, tl.trans(u), input_precision=PRECISION, out_dtype=rate.dtype)
        outer *= _decays(after, rate, CHUNK)
        # The maps are read anew in each turn: kept, they would push the products out of the registers.
        b = tl.load(B + offset, mask=mapped, other=0.0).to(rate.dtype)
        part_c += tl.dot(outer, b, input_precision=PRECISION, out_dtype=rate.dtype)
        c = tl.load(C + offset, mask=mapped, other=0.0).to(rate.dtype)
        part_b += tl.dot(tl.trans(outer), c, input_precision=PRECISION, out_dtype=rate.dtype)

        place = (((sequence * n_chunks + chunk) * n_heads + head) * n_channels + channel)[:, None]
        corner = place * n_states + state[None, :]
        cornered = real_channel[:, None] & real_state[None, :]
        h = tl.load(entering + corner, mask=cornered, other=0.0)
        g *= tl.exp2(((total - after) * rate).to(rate.dtype))[:, None]
        part_c += tl.dot(g, h, input_precision=PRECISION, out_dtype=rate.dtype)
        h_grad = tl.load(leaving + corner, mask=cornered, other=0.0)
        u *= tl.exp2((after * rate).to(rate.dtype))[:, None]
        part_b += tl.dot(u, h_grad, input_precision=PRECISION, out_dtype=rate.dtype)
    offset = ((token * n_paths + path) * n_splits + split)[:, None] * n_states + state[None, :]
    tl.store(grad_B + offset, part_b, mask=mapped)
    tl.store(grad_C + offset, part_c, mask=mapped)
