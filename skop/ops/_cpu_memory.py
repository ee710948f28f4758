"""What Numba compiles for the memory of the selective scans' kernels: vectors that may be cut short, and sums."""

from numba import njit

from skop.ops._simd import LANES, load, load_first, pointer, store, store_first

__all__: list[str] = []


@njit(forceinline=True)
def even(count):
    """Round up to an even number."""
    return count + count % 2


@njit(forceinline=True)
def whole(count):
    """Round up to whole vectors."""
    return (count + LANES - 1) // LANES * LANES


@njit(forceinline=True)
def read(start, index, lanes, spare):
    """Vector of the first `lanes` numbers."""
    return load(start, index) if lanes == LANES else load_first(start, index, lanes, spare)


@njit(forceinline=True)
def write(start, index, value, lanes, spare):
    """Write the first `lanes` numbers of a vector."""
    if lanes == LANES:
        store(start, index, value)
    else:
        store_first(start, index, value, lanes, spare)


@njit(forceinline=True)
def fill(target, count, value):
    """Set whole vectors of memory to one value."""
    for index in range(0, count, LANES):
        store(target, index, value)


@njit(forceinline=True)
def copy(target, target_index, source, source_index, count):
    """Copy whole vectors of memory."""
    for index in range(0, count, LANES):
        store(target, target_index + index, load(source, source_index + index))


@njit(forceinline=True)
def add(target, index, value):
    """Add to a vector in memory."""
    store(target, index, load(target, index) + value)


@njit(forceinline=True)
def put(target, index, value, is_first):
    """Add to a vector in memory, or begin a sum there."""
    store(target, index, value if is_first else load(target, index) + value)


@njit(forceinline=True)
def write_sums(table, address, place, sums, count, like):
    """Write what was added up in float64 to where the table says, if it does."""
    if table[address]:
        target = pointer(table[address], like)
        for index in range(count):
            target[place + index] = sums[index]
