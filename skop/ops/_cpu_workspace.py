"""The workspace of a thread in a CPU kernel, and what Numba compiles for all of them.

A kernel is compiled in parts: functions ``void part(workspace)`` that call each other by addresses, which stand
in the workspace, so that each is compiled once, whoever calls it, and that several kernels share them. The workspace
begins with words, integers of 64 bits: first what is the same for all threads (places in the table that threads
share, sizes, addresses of tensors and of parts), then what the thread is at, then addresses of its scratch memory,
which follows. A pointer to the workspace has the type of the numbers that are computed, which is all that functions
need to know: ``number(f, w.LENGTH)`` is a word, ``matrix(f, w.X)`` the memory at the address in it.
"""

from numba import int64

from skop.ops._simd import (
    LANES,
    address,
    claim,
    constant,
    inlined,
    integers,
    load,
    load_first,
    offset,
    outlined,
    pointer,
    store,
    store_first,
)

__all__: list[str] = []

#: Words of every workspace: counters of work items and of threads (in the table), work items, where the scratch memory
#: is and how much of it a thread has, the table itself, words in all, first word of an address in scratch memory.
NEXT, SLOT, ITEMS, SCRATCH, SCRATCH_BYTES, TABLE, N_WORDS, REGIONS = range(8)
#: First word that is free for others.
FREE = 8


@inlined
def claim_workspace(table):
    """Lay out the workspace of the calling thread: the table, with addresses in the place of distances."""
    shared = pointer(address(table), int64)
    start = shared[SCRATCH] + claim(offset(shared, SLOT)) * shared[SCRATCH_BYTES]
    words = pointer(start, int64)
    for name in range(shared[N_WORDS]):
        words[name] = shared[name] + start if name >= shared[REGIONS] else shared[name]
    words[TABLE] = address(table)
    return pointer(start, table)


@inlined
def next_item(f):
    """Claim the next work item."""
    return claim(offset(integers(f, TABLE), NEXT))


@inlined
def even(count):
    """Round up to an even number."""
    return count + count % 2


@inlined
def whole(count):
    """Round up to whole vectors."""
    return (count + LANES - 1) // LANES * LANES


@inlined
def read(start, index, lanes):
    """Vector of the first `lanes` numbers."""
    return load(start, index) if lanes == LANES else load_first(start, index, lanes)


@inlined
def write(start, index, value, lanes):
    """Write the first `lanes` numbers of a vector."""
    if lanes == LANES:
        store(start, index, value)
    else:
        store_first(start, index, value, lanes)


@outlined
def fill(target, count, value):
    """Set whole vectors of memory to one value."""
    for index in range(0, count, LANES):
        store(target, index, constant(target, value))


@inlined
def copy(target, target_index, source, source_index, count):
    """Copy whole vectors of memory."""
    for index in range(0, count, LANES):
        store(target, target_index + index, load(source, source_index + index))


@inlined
def add(target, index, value):
    """Add to a vector in memory."""
    store(target, index, load(target, index) + value)


@inlined
def put(target, index, value, is_first):
    """Add to a vector in memory, or begin a sum there."""
    store(target, index, value if is_first else load(target, index) + value)
