"""Triton kernels of `skop.ops.selective_scan_2d`.

A program works on one square tile of the grid, for one block of channels and one direction; the states are
gone through one after the other. A direction has two passes. In its own coordinates a cell is (p, q), p
counted along the first pass and q along the second, each from where the pass starts:

    g[p, q] = a[p, q] g[p - 1, q] + u[p, q]        first pass
    h[p, q] = a[p, q] h[p, q - 1] + g[p, q]        second pass

with a = exp(dt A) and u = dt x B. The gradients obey the same two recurrences, walked from the end with the
passes exchanged, except that a cell takes the decay of the cell walked before it, not its own. So the two
kernels for what leaves a tile serve both ways; only `BACKWARD` tells which decay counts.

Tiles are (p, q, channel), channels side by side in memory. First edges are states of the first pass that enter
a tile, one for each q; second edges those of the second pass, one for each p. A table holds for every
direction its number, its first cell, and how far the next cell along p and q is.
"""

import triton
import triton.language as tl

from skop.ops._triton_kernels import LOG2_E, recur, scan_and_keep


@triton.jit
def _place(table, cells, n_channels, members, tiles_p, tiles_q, BLOCK_D: tl.constexpr):
    """Decode a program: tile, sequence, direction, first cell, distances of the next cells, channels."""
    program = tl.program_id(0)
    n_blocks = tl.cdiv(n_channels, BLOCK_D)
    channel = (program % n_blocks) * BLOCK_D + tl.arange(0, BLOCK_D)
    program = program // n_blocks
    tile_p, tile_q = program % tiles_p, (program // tiles_p) % tiles_q
    sequence = (program // (tiles_p * tiles_q)).to(tl.int64)
    row = table + (sequence % members) * 4
    direction = tl.load(row)
    origin = (sequence // members) * cells + tl.load(row + 1)
    return tile_p, tile_q, sequence, direction, origin, tl.load(row + 2), tl.load(row + 3), channel


@triton.jit
def _steps(steps, cell, exists, n_directions, direction, channel, n_channels):
    """Steps of cells (p, q): (p, q, channel), 0 where there is no cell."""
    there = exists[:, :, None] & (channel < n_channels)[None, None, :]
    offset = (cell * n_directions + direction)[:, :, None] * n_channels + channel[None, None, :]
    return tl.load(steps + offset, mask=there, other=0.0)


@triton.jit
def _values(values, cell, exists, channel, n_channels):
    """Inputs or gradients of cells (p, q): (p, q, channel), 0 where there is no cell."""
    there = exists[:, :, None] & (channel < n_channels)[None, None, :]
    return tl.load(values + cell[:, :, None] * n_channels + channel[None, None, :], mask=there, other=0.0)


@triton.jit
def first_ends_kernel(
    values, maps, steps, A, table, edges, amounts, second_amounts, n_p, n_q, members, n_directions, n_channels,
    n_states,
    TILE: tl.constexpr, BLOCK_D: tl.constexpr, BACKWARD: tl.constexpr,
):  # fmt: skip
    """What a tile adds to the states of the first pass that leave it, and its sums of steps for both passes."""
    tiles_p, tiles_q = tl.cdiv(n_p, TILE), tl.cdiv(n_q, TILE)
    tile_p, tile_q, sequence, direction, origin, stride_p, stride_q, channel = _place(
        table, n_p * n_q, n_channels, members, tiles_p, tiles_q, BLOCK_D
    )
    # Backward, the tiles are those of the forward pass, so the incomplete ones come first.
    shift_p, shift_q = 0, 0
    if BACKWARD:
        shift_p, shift_q = tiles_p * TILE - n_p, tiles_q * TILE - n_q
    # Last cell first, so that the sums of the steps after each cell are sums from the first row on.
    p = tile_p * TILE + (TILE - 1 - tl.arange(0, TILE)) - shift_p
    q = tile_q * TILE + tl.arange(0, TILE) - shift_q
    here_p, here_q = (p >= 0) & (p < n_p), (q >= 0) & (q < n_q)
    exists = here_p[:, None] & here_q[None, :]
    cell = origin + p[:, None] * stride_p + q[None, :] * stride_q
    step = _steps(steps, cell, exists, n_directions, direction, channel, n_channels)
    value = _values(values, cell, exists, channel, n_channels).to(step.dtype)
    if BACKWARD:
        sums = tl.cumsum(step, 0)
    else:
        value *= step
        follows = (p + 1 < n_p) & (p + 1 < (tile_p + 1) * TILE)
        after = follows[:, None] & here_q[None, :]
        sums = tl.cumsum(_steps(steps, cell + stride_p, after, n_directions, direction, channel, n_channels), 0)

    real = channel < n_channels
    there = here_q[:, None] & real[None, :]
    place = ((sequence * n_q + q) * tiles_p + tile_p)[:, None] * n_channels + channel[None, :]
    tl.store(amounts + place, tl.sum(step, 0), mask=there)
    second = ((sequence * n_p + p) * tiles_q + tile_q)[:, None] * n_channels + channel[None, :]
    tl.store(second_amounts + second, tl.sum(step, 1), mask=here_p[:, None] & real[None, :])
    for n in range(n_states):
        rate = tl.load(A + (direction * n_channels + channel) * n_states + n, mask=real, other=0.0) * LOG2_E
        offset = (cell * n_directions + direction) * n_states + n
        factor = tl.load(maps + offset, mask=exists, other=0.0).to(step.dtype)
        added = tl.sum(tl.exp2(sums * rate[None, None, :]) * value * factor[:, :, None], 0)
        tl.store(edges + place * n_states + n, added, mask=there)


@triton.jit
def second_ends_kernel(
    values, maps, steps, A, table, first_edges, edges, n_p, n_q, members, n_directions, n_channels, n_states,
    TILE: tl.constexpr, BLOCK_D: tl.constexpr, BACKWARD: tl.constexpr,
):  # fmt: skip
    """What a tile adds to the states of the second pass that leave it."""
    tiles_p, tiles_q = tl.cdiv(n_p, TILE), tl.cdiv(n_q, TILE)
    tile_p, tile_q, sequence, direction, origin, stride_p, stride_q, channel = _place(
        table, n_p * n_q, n_channels, members, tiles_p, tiles_q, BLOCK_D
    )
    shift_p, shift_q = 0, 0
    if BACKWARD:
        shift_p, shift_q = tiles_p * TILE - n_p, tiles_q * TILE - n_q
    rows = tl.arange(0, TILE)
    start = (rows == 0)[:, None, None]
    p = tile_p * TILE + rows - shift_p
    # The sums of the steps after each cell are those of the second pass here: last cell first along q.
    q = tile_q * TILE + (TILE - 1 - rows) - shift_q
    here_p, here_q = (p >= 0) & (p < n_p), (q >= 0) & (q < n_q)
    exists = here_p[:, None] & here_q[None, :]
    cell = origin + p[:, None] * stride_p + q[None, :] * stride_q
    step = _steps(steps, cell, exists, n_directions, direction, channel, n_channels)
    value = _values(values, cell, exists, channel, n_channels).to(step.dtype)
    if BACKWARD:
        sums = tl.cumsum(step, 1)
        # The decay is that of the cell walked before; what enters the tile has had it already.
        leads = (p > 0) & here_p & (rows > 0)
        step = _steps(
            steps, cell - stride_p, leads[:, None] & here_q[None, :], n_directions, direction, channel, n_channels
        )
    else:
        value *= step
        follows = (q + 1 < n_q) & (q + 1 < (tile_q + 1) * TILE)
        after = here_p[:, None] & follows[None, :]
        sums = tl.cumsum(_steps(steps, cell + stride_q, after, n_directions, direction, channel, n_channels), 1)

    real = channel < n_channels
    entering = ((sequence * n_q + q) * tiles_p + tile_p)[:, None] * n_channels + channel[None, :]
    leaving = ((sequence * n_p + p) * tiles_q + tile_q)[:, None] * n_channels + channel[None, :]
    enters, leaves = here_q[:, None] & real[None, :], here_p[:, None] & real[None, :]
    for n in range(n_states):
        rate = tl.load(A + (direction * n_channels + channel) * n_states + n, mask=real, other=0.0) * LOG2_E
        rate = rate[None, None, :]
        offset = (cell * n_directions + direction) * n_states + n
        factor = tl.load(maps + offset, mask=exists, other=0.0).to(step.dtype)
        edge = tl.load(first_edges + entering * n_states + n, mask=enters, other=0.0)
        decay = tl.exp2(step * rate)
        inputs = value * factor[:, :, None] + tl.where(start, decay * edge[None, :, :], 0.0)
        _product, states = tl.associative_scan((decay, inputs), 0, recur)
        added = tl.sum(tl.exp2(sums * rate) * states, 1)
        tl.store(edges + leaving * n_states + n, added, mask=leaves)


@triton.jit
def output_kernel(
    x, steps, A, B, C, D, R, table, first_edges, second_edges, y, n_p, n_q, members, n_directions, n_channels,
    n_states,
    TILE: tl.constexpr, BLOCK_D: tl.constexpr, HAS_D: tl.constexpr, HAS_R: tl.constexpr,
):  # fmt: skip
    """Outputs of a tile, from the states of both passes that enter it."""
    tiles_p, tiles_q = tl.cdiv(n_p, TILE), tl.cdiv(n_q, TILE)
    tile_p, tile_q, sequence, direction, origin, stride_p, stride_q, channel = _place(
        table, n_p * n_q, n_channels, members, tiles_p, tiles_q, BLOCK_D
    )
    rows = tl.arange(0, TILE)
    p, q = tile_p * TILE + rows, tile_q * TILE + rows
    start_p, start_q = (rows == 0)[:, None, None], (rows == 0)[None, :, None]
    here_p, here_q, real = p < n_p, q < n_q, channel < n_channels
    exists = here_p[:, None] & here_q[None, :]
    cell = origin + p[:, None] * stride_p + q[None, :] * stride_q
    step = _steps(steps, cell, exists, n_directions, direction, channel, n_channels)
    value = _values(x, cell, exists, channel, n_channels).to(step.dtype)
    result = tl.zeros_like(value)
    if HAS_D:
        result += tl.load(D + direction * n_channels + channel, mask=real, other=0.0)[None, None, :] * value

    first = ((sequence * n_q + q) * tiles_p + tile_p)[:, None] * n_channels + channel[None, :]
    second = ((sequence * n_p + p) * tiles_q + tile_q)[:, None] * n_channels + channel[None, :]
    maps = cell * n_directions + direction
    for n in range(n_states):
        parameter = (direction * n_channels + channel) * n_states + n
        rate = tl.load(A + parameter, mask=real, other=0.0)[None, None, :] * LOG2_E
        decay = tl.exp2(step * rate)
        update = step * value * tl.load(B + maps * n_states + n, mask=exists, other=0.0).to(step.dtype)[:, :, None]
        edge = tl.load(first_edges + first * n_states + n, mask=here_q[:, None] & real[None, :], other=0.0)
        states, kept = scan_and_keep(decay, update, edge[None, :, :], start_p, 0, False)
        edge = tl.load(second_edges + second * n_states + n, mask=here_p[:, None] & real[None, :], other=0.0)
        _states, older = scan_and_keep(decay, states, edge[:, None, :], start_q, 1, False)
        if HAS_R:
            update *= 1.0 - tl.load(R + parameter, mask=real, other=0.0)[None, None, :]
        c = tl.load(C + maps * n_states + n, mask=exists, other=0.0).to(step.dtype)[:, :, None]
        result += c * (older + kept + update)
    offset = maps[:, :, None] * n_channels + channel[None, None, :]
    tl.store(y + offset, result.to(y.dtype.element_ty), mask=exists[:, :, None] & real[None, None, :])


@triton.jit
def gradient_kernel(
    x, steps, A, B, C, D, R, table, first_edges, second_edges, grad_first, grad_second, grad_y, grad_x, grad_steps,
    grad_A, grad_B, grad_C, grad_R, n_p, n_q, members, n_directions, n_channels, n_states,
    TILE: tl.constexpr, BLOCK_D: tl.constexpr, HAS_D: tl.constexpr, HAS_R: tl.constexpr,
):  # fmt: skip
    """All gradients of a tile but D's, from what enters it in both passes and the gradients of what leaves it."""
    tiles_p, tiles_q = tl.cdiv(n_p, TILE), tl.cdiv(n_q, TILE)
    tile_p, tile_q, sequence, direction, origin, stride_p, stride_q, channel = _place(
        table, n_p * n_q, n_channels, members, tiles_p, tiles_q, BLOCK_D
    )
    rows = tl.arange(0, TILE)
    p, q = tile_p * TILE + rows, tile_q * TILE + rows
    start_p, start_q = (rows == 0)[:, None, None], (rows == 0)[None, :, None]
    stop_p, stop_q = (rows == TILE - 1)[:, None, None], (rows == TILE - 1)[None, :, None]
    here_p, here_q, real = p < n_p, q < n_q, channel < n_channels
    exists = here_p[:, None] & here_q[None, :]
    cell = origin + p[:, None] * stride_p + q[None, :] * stride_q
    step = _steps(steps, cell, exists, n_directions, direction, channel, n_channels)
    value = _values(x, cell, exists, channel, n_channels).to(step.dtype)
    g = _values(grad_y, cell, exists, channel, n_channels).to(step.dtype)
    after = ((p + 1 < n_p) & (rows < TILE - 1))[:, None] & here_q[None, :]
    step_p = _steps(steps, cell + stride_p, after, n_directions, direction, channel, n_channels)
    after = here_p[:, None] & ((q + 1 < n_q) & (rows < TILE - 1))[None, :]
    step_q = _steps(steps, cell + stride_q, after, n_directions, direction, channel, n_channels)

    # The gradients were walked from the other end, with the passes exchanged.
    first = ((sequence * n_q + q) * tiles_p + tile_p)[:, None] * n_channels + channel[None, :]
    second = ((sequence * n_p + p) * tiles_q + tile_q)[:, None] * n_channels + channel[None, :]
    back_q = ((sequence * n_p + n_p - 1 - p) * tiles_q + tiles_q - 1 - tile_q)[:, None] * n_channels + channel[None, :]
    back_p = ((sequence * n_q + n_q - 1 - q) * tiles_p + tiles_p - 1 - tile_p)[:, None] * n_channels + channel[None, :]
    has_q, has_p = here_q[:, None] & real[None, :], here_p[:, None] & real[None, :]
    tile = ((sequence // members * n_directions + direction) * tiles_q + tile_q) * tiles_p + tile_p
    n_blocks = tl.cdiv(n_channels, BLOCK_D)
    block = tl.program_id(0) % n_blocks
    maps = cell * n_directions + direction
    grad_u = tl.zeros_like(value)
    grad_log = tl.zeros_like(value)
    for n in range(n_states):
        parameter = (direction * n_channels + channel) * n_states + n
        rate = tl.load(A + parameter, mask=real, other=0.0)[None, None, :]
        b = tl.load(B + maps * n_states + n, mask=exists, other=0.0).to(step.dtype)[:, :, None]
        decay = tl.exp2(step * (rate * LOG2_E))
        update = step * value * b
        edge = tl.load(first_edges + first * n_states + n, mask=has_q, other=0.0)
        states, kept = scan_and_keep(decay, update, edge[None, :, :], start_p, 0, False)
        edge = tl.load(second_edges + second * n_states + n, mask=has_p, other=0.0)
        _states, older = scan_and_keep(decay, states, edge[:, None, :], start_q, 1, False)

        read = g * tl.load(C + maps * n_states + n, mask=exists, other=0.0).to(step.dtype)[:, :, None]
        edge = tl.load(grad_first + back_q * n_states + n, mask=has_p, other=0.0)
        decay = tl.exp2(step_q * (rate * LOG2_E))
        grad_h, later = scan_and_keep(decay, read, edge[:, None, :], stop_q, 1, True)
        edge = tl.load(grad_second + back_p * n_states + n, mask=has_q, other=0.0)
        decay = tl.exp2(step_p * (rate * LOG2_E))
        grad_g, latest = scan_and_keep(decay, grad_h, edge[None, :, :], stop_p, 0, True)

        passed = grad_h * older + grad_g * kept
        grad_log += passed * rate
        part = (tile * n_channels + channel) * n_states + n
        tl.store(grad_A + part, tl.sum(tl.sum(passed * step, 1), 0), mask=real)
        if HAS_R:
            share = tl.load(R + parameter, mask=real, other=0.0)[None, None, :]
            tl.store(grad_R + part, -tl.sum(tl.sum(read * update, 1), 0), mask=real)
            grad_g = (1.0 - share) * read + later + latest
            update *= 1.0 - share
        grad_u += grad_g * b
        part = (maps * n_blocks + block) * n_states + n
        tl.store(grad_B + part, tl.sum(grad_g * step * value, 2), mask=exists)
        tl.store(grad_C + part, tl.sum(g * (older + kept + update), 2), mask=exists)

    dx = grad_u * step
    if HAS_D:
        dx += tl.load(D + direction * n_channels + channel, mask=real, other=0.0)[None, None, :] * g
    offset = maps[:, :, None] * n_channels + channel[None, None, :]
    there = exists[:, :, None] & real[None, None, :]
    tl.store(grad_x + offset, dx.to(grad_x.dtype.element_ty), mask=there)
    tl.store(grad_steps + offset, grad_log + grad_u * value, mask=there)
