"""Triton kernels of `skop.ops.selective_scan`.

A program works on one chunk of one block of channels along one path. Two kernels hold a tile of tokens by
channels and go through the states one after the other: nothing of the size of the states is kept but what
enters and leaves a chunk. The output kernel goes through the tokens instead, all states in registers,
because that is the least arithmetic and needs no scan across threads.

Notation: b batch, L length, K paths, D channels, N states. Maths: a = exp(dt A) decay of a token,
u = dt x, h state, kept = a h of the token before, what the decay leaves of the older tokens.
"""

import triton
import triton.language as tl

from skop.ops._triton_kernels import LOG2_E, scan_and_keep


@triton.jit
def _place(n_chunks, n_paths, n_channels, BLOCK_D: tl.constexpr):
    """Decode a program: channels, chunk, sequence, sample and path."""
    program = tl.program_id(0)
    n_blocks = tl.cdiv(n_channels, BLOCK_D)
    channel = (program % n_blocks) * BLOCK_D + tl.arange(0, BLOCK_D)
    chunk = (program // n_blocks) % n_chunks
    sequence = (program // (n_blocks * n_chunks)).to(tl.int64)
    return channel, chunk, sequence, sequence // n_paths, sequence % n_paths


@triton.jit
def chunk_states_kernel(
    values, maps, steps, A, paths, states, amounts, length, n_chunks, n_paths, value_paths, n_channels, n_states,
    CHUNK: tl.constexpr, BLOCK_D: tl.constexpr, BACKWARD: tl.constexpr,
):  # fmt: skip
    """What a chunk adds to the state that leaves it or, backward, to the gradient of the state that enters.

    Forward: sum_j decay(j to end) dt_j x_j B_j. Backward, with values g and maps C: sum_i decay(start to i) g_i C_i.
    """
    channel, chunk, sequence, batch, path = _place(n_chunks, n_paths, n_channels, BLOCK_D)
    real = channel < n_channels

    time = chunk * CHUNK + tl.arange(0, CHUNK)
    if not BACKWARD:
        # Last token first, so that the sums of the steps after each token are sums from the first row on.
        time = chunk * CHUNK + (CHUNK - 1 - tl.arange(0, CHUNK))
    exists = time < length
    there = exists[:, None] & real[None, :]
    token = batch * length + tl.load(paths + path * length + time, mask=exists, other=0)
    step = tl.load(steps + (token * n_paths + path)[:, None] * n_channels + channel[None, :], mask=there, other=0.0)
    row = (token * value_paths + path % value_paths)[:, None] * n_channels + channel[None, :]
    value = tl.load(values + row, mask=there, other=0.0).to(step.dtype)
    if BACKWARD:
        sums = tl.cumsum(step, 0)
    else:
        value *= step
        follows = (time + 1 < length) & (time + 1 < (chunk + 1) * CHUNK)
        following = batch * length + tl.load(paths + path * length + time + 1, mask=follows, other=0)
        row = (following * n_paths + path)[:, None] * n_channels + channel[None, :]
        sums = tl.cumsum(tl.load(steps + row, mask=follows[:, None] & real[None, :], other=0.0), 0)

    place = (sequence * n_chunks + chunk) * n_channels + channel
    tl.store(amounts + place, tl.sum(step, 0), mask=real)
    for n in range(n_states):
        rate = tl.load(A + (path * n_channels + channel) * n_states + n, mask=real, other=0.0) * LOG2_E
        factor = tl.load(maps + (token * n_paths + path) * n_states + n, mask=exists, other=0.0).to(step.dtype)
        added = tl.sum(tl.exp2(sums * rate[None, :]) * value * factor[:, None], 0)
        tl.store(states + place * n_states + n, added, mask=real)


@triton.jit
def output_kernel(
    x, steps, A, B, C, D, R, paths, entering, y, length, n_chunks, n_paths, x_paths, n_channels, n_states,
    CHUNK: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, HAS_D: tl.constexpr, HAS_R: tl.constexpr,
):  # fmt: skip
    """Outputs of a chunk, token by token, from the state that enters it."""
    channel, chunk, sequence, batch, path = _place(n_chunks, n_paths, n_channels, BLOCK_D)
    state = tl.arange(0, BLOCK_N)
    real, real_state = channel < n_channels, state < n_states

    # Channels are the last axis: each thread has one, with its states, and sums over states stay in the thread.
    corner = channel[None, :] * n_states + state[:, None]
    there = real[None, :] & real_state[:, None]
    parameters = path * n_channels * n_states + corner
    rate = tl.load(A + parameters, mask=there, other=0.0) * LOG2_E
    h = tl.load(entering + (sequence * n_chunks + chunk) * n_channels * n_states + corner, mask=there, other=0.0)
    skip = tl.zeros((BLOCK_D,), rate.dtype)
    if HAS_D:
        skip = tl.load(D + path * n_channels + channel, mask=real, other=0.0)
    seen = rate
    if HAS_R:
        seen = 1.0 - tl.load(R + parameters, mask=there, other=0.0)

    order = paths + path * length
    first = chunk * CHUNK
    following = tl.load(order + first)
    for time in range(first, tl.minimum(first + CHUNK, length)):
        token = batch * length + following
        following = tl.load(order + tl.minimum(time + 1, length - 1))
        row = token * n_paths + path
        step = tl.load(steps + row * n_channels + channel, mask=real, other=0.0)
        value = tl.load(x + (token * x_paths + path % x_paths) * n_channels + channel, mask=real, other=0.0)
        b = tl.load(B + row * n_states + state, mask=real_state, other=0.0).to(rate.dtype)
        c = tl.load(C + row * n_states + state, mask=real_state, other=0.0).to(rate.dtype)
        value = value.to(rate.dtype)
        update = (step * value)[None, :] * b[:, None]
        kept = tl.exp2(step[None, :] * rate) * h
        h = kept + update
        visible = h
        if HAS_R:
            visible = kept + seen * update
        result = tl.sum(visible * c[:, None], 0) + skip * value
        tl.store(y + row * n_channels + channel, result.to(y.dtype.element_ty), mask=real)


@triton.jit
def gradient_kernel(
    x, steps, A, B, C, D, R, paths, entering, leaving, grad_y, grad_x, grad_steps, grad_A, grad_B, grad_C, grad_D,
    grad_R, length, n_chunks, n_paths, x_paths, n_channels, n_states,
    CHUNK: tl.constexpr, BLOCK_D: tl.constexpr, HAS_D: tl.constexpr, HAS_R: tl.constexpr,
):  # fmt: skip
    """All gradients of a chunk, from the state that enters it and the gradient of the state that leaves it."""
    channel, chunk, sequence, batch, path = _place(n_chunks, n_paths, n_channels, BLOCK_D)
    n_blocks = tl.cdiv(n_channels, BLOCK_D)
    block = tl.program_id(0) % n_blocks
    real = channel < n_channels
    rows = tl.arange(0, CHUNK)
    time = chunk * CHUNK + rows
    exists = time < length
    there = exists[:, None] & real[None, :]
    first, last = (rows == 0)[:, None], (rows == CHUNK - 1)[:, None]

    order = paths + path * length
    token = batch * length + tl.load(order + time, mask=exists, other=0)
    row = token * n_paths + path
    own = row[:, None] * n_channels + channel[None, :]
    shared = (token * x_paths + path % x_paths)[:, None] * n_channels + channel[None, :]
    step = tl.load(steps + own, mask=there, other=0.0)
    value = tl.load(x + shared, mask=there, other=0.0).to(step.dtype)
    g = tl.load(grad_y + shared, mask=there, other=0.0).to(step.dtype)
    # A gradient takes the decay of the token after; what leaves the chunk has had it already.
    follows = (time + 1 < length) & (rows < CHUNK - 1)
    token = batch * length + tl.load(order + time + 1, mask=follows, other=0)
    after = (token * n_paths + path)[:, None] * n_channels + channel[None, :]
    next_step = tl.load(steps + after, mask=follows[:, None] & real[None, :], other=0.0)

    grad_u = tl.zeros((CHUNK, BLOCK_D), step.dtype)
    grad_log = tl.zeros((CHUNK, BLOCK_D), step.dtype)
    place = (sequence * n_chunks + chunk) * n_channels + channel
    for n in range(n_states):
        parameter = (path * n_channels + channel) * n_states + n
        rate = tl.load(A + parameter, mask=real, other=0.0)[None, :]
        b = tl.load(B + row * n_states + n, mask=exists, other=0.0).to(step.dtype)[:, None]
        c = tl.load(C + row * n_states + n, mask=exists, other=0.0).to(step.dtype)[:, None]
        h_in = tl.load(entering + place * n_states + n, mask=real, other=0.0)[None, :]
        h_out_grad = tl.load(leaving + place * n_states + n, mask=real, other=0.0)[None, :]

        decay = tl.exp2(step * (rate * LOG2_E))
        update = step * value * b
        _states, kept = scan_and_keep(decay, update, h_in, first, 0, False)
        read = g * c
        decay = tl.exp2(next_step * (rate * LOG2_E))
        h_grad, later = scan_and_keep(decay, read, h_out_grad, last, 0, True)

        passed = h_grad * kept
        grad_log += passed * rate
        tl.store(grad_A + place * n_states + n, tl.sum(passed * step, 0), mask=real)
        if HAS_R:
            share = tl.load(R + parameter, mask=real, other=0.0)[None, :]
            h_grad = (1.0 - share) * read + later
            tl.store(grad_R + place * n_states + n, -tl.sum(read * update, 0), mask=real)
            update *= 1.0 - share
        grad_u += h_grad * b
        part = (row * n_blocks + block) * n_states + n
        tl.store(grad_B + part, tl.sum(h_grad * step * value, 1), mask=exists)
        tl.store(grad_C + part, tl.sum(g * (kept + update), 1), mask=exists)

    dx = grad_u * step
    if HAS_D:
        dx += tl.load(D + path * n_channels + channel, mask=real, other=0.0)[None, :] * g
        tl.store(grad_D + place, tl.sum(g * value, 0), mask=real)
    tl.store(grad_x + own, dx.to(grad_x.dtype.element_ty), mask=there)
    tl.store(grad_steps + own, grad_log + grad_u * value, mask=there)
