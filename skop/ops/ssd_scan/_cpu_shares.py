"""Parts of the gradients of `skop.ops.ssd_scan` that are no products of matrices; see `_cpu_backward`."""

from math import log

from numba import float64, int64, njit

from skop.ops._simd import LANES, constant, exp2, load, nan_beyond, pointer, splat, store, sum_lanes, widen
from skop.ops.ssd_scan._cpu_frame import (
    ABOVE,
    ACROSS,
    AFTER,
    BEFORE,
    CHUNK,
    COLUMN,
    CROSSED,
    DIRECT,
    ENTERED,
    FALL,
    GRAD,
    GRAD_OUT,
    GRAD_PRODUCTS,
    HEADS,
    INPUTS,
    INTEGER,
    MAPPED,
    MAPS_OUT,
    N_PATHS,
    OUT,
    PARTIAL,
    PRODUCTS,
    REST,
    SHARES,
    SIZE,
    SPARE,
    STEP,
    TOKENS,
    UNDER,
    WEIGHTS,
    WIDE_CHANNELS,
    WIDE_STATES,
    WITHIN,
    A,
    fill,
    matrix,
    number,
    row_of,
    tensor,
)

__all__: list[str] = []


_LN_2 = log(2)


@njit
def add_skip_gradient(frame, sums, full):
    """Gradient of the skip."""
    row_size, inputs, grad = number(frame, WIDE_CHANNELS), matrix(frame, INPUTS), matrix(frame, GRAD)
    for p in range(0, row_size, LANES):
        total = constant(frame, 0)
        for t in range(full):
            total = total + load(inputs, t * row_size + p) * load(grad, t * row_size + p)
        store(sums, LANES + p, load(sums, LANES + p) + widen(total))


@njit
def weigh_back(frame, full):
    """Weights S K, with rows of outputs; gradients of K; sums over pairs of an input and a later output.

    From the last output back, each input's sum over its outputs runs on. At each token, those of the inputs before it
    are what passes the token.
    """
    integer, rest, step = row_of(frame, INTEGER), row_of(frame, REST), row_of(frame, STEP)
    column = row_of(frame, COLUMN)
    above, lower, partial = matrix(frame, ABOVE), matrix(frame, UNDER), matrix(frame, PARTIAL)
    products, shares = matrix(frame, PRODUCTS), matrix(frame, SHARES)
    weights, grad_products = matrix(frame, WEIGHTS), matrix(frame, GRAD_PRODUCTS)
    fill(column, CHUNK, 0)
    for i in range(full - LANES, -1, -LANES):
        fill(partial, LANES * LANES, 0)
        for j in range(0, i + LANES, LANES):
            that_integer, that_rest, that_step = load(integer, j), load(rest, j), load(step, j)
            running = load(column, j)
            for r in range(LANES - 1, -1, -1):
                place = (i + r) * CHUNK + j
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
        store(row_of(frame, WITHIN), i, sum_lanes(partial))


@njit
def add_entered(frame, full):
    """Add what the entering state gives to the gradient of C; the share of that state in each output."""
    row_size, entered, partial = number(frame, WIDE_STATES), row_of(frame, ENTERED), matrix(frame, PARTIAL)
    mapped, maps_out, grad_out = matrix(frame, MAPPED), matrix(frame, MAPS_OUT), matrix(frame, GRAD_OUT)
    for first in range(0, full, LANES):
        for r in range(LANES):
            total = constant(frame, 0)
            for n in range(0, row_size, LANES):
                place = (first + r) * row_size + n
                value = load(mapped, place)
                total = total + value * load(maps_out, place)
                store(grad_out, place, load(grad_out, place) + value)
            store(partial, r * LANES, total)
        store(entered, first, sum_lanes(partial))


@njit
def share_of_inputs(frame, full):
    """What each input, at a step of size 1, contributes by way of the leaving state."""
    across, crossed, fall = matrix(frame, ACROSS), matrix(frame, CROSSED), row_of(frame, FALL)
    channels, direct = number(frame, WIDE_CHANNELS), row_of(frame, DIRECT)
    for t in range(0, full, LANES):
        total = constant(frame, 0)
        for p in range(channels):
            total = total + load(across, p * CHUNK + t) * load(crossed, p * CHUNK + t)
        store(direct, t, total * load(fall, t))


@njit
def state_product(frame, states, grads):
    """Product of the entering state with the gradient of the leaving one."""
    zero, spare, size = constant(frame, 0), matrix(frame, SPARE), number(frame, SIZE)
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


@njit
def write_steps(frame, grad_dt, sums, path, head, count, full, passed):
    """Write the gradients of the steps, and add to that of the rate."""
    heads, n_paths, tokens = number(frame, HEADS), number(frame, N_PATHS), tensor(frame, TOKENS, pointer(0, int64))
    rate = tensor(frame, A, pointer(0, float64))[path * heads + head] * _LN_2
    step, direct, before, after = (
        row_of(frame, STEP),
        row_of(frame, DIRECT),
        row_of(frame, BEFORE),
        row_of(frame, AFTER),
    )
    within, column, entered = row_of(frame, WITHIN), row_of(frame, COLUMN), row_of(frame, ENTERED)
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
        store(after, t, constant(frame, rate) * grad_log + load(column, t) + load(direct, t))
    for t in range(count):
        grad_dt[(tokens[t] * n_paths + path) * heads + head] = after[t]


@njit
def scale_rows(frame, full):
    """Turn gradients of u into those of x."""
    step, out, row_size = row_of(frame, STEP), matrix(frame, OUT), number(frame, WIDE_CHANNELS)
    for t in range(full):
        weight = splat(step[t])
        for p in range(0, row_size, LANES):
            store(out, t * row_size + p, weight * load(out, t * row_size + p))
