"""Words of the workspace of the SSD kernels; see `skop.ops._cpu_workspace` and `_cpu_kernels`.

Rows in scratch memory are filled up with zeros to whole vectors, and chunks to 16 or 32 tokens. Notation of the shapes:
P channels of a head, N states of a channel.
"""

from collections.abc import Mapping

from skop.ops._cpu_workspace import FREE, ITEMS, N_WORDS, NEXT, REGIONS, SCRATCH, SCRATCH_BYTES, SLOT, TABLE
from skop.ops._simd import LANES

__all__ = [
    "FREE", "ITEMS", "NEXT", "N_WORDS", "REGIONS", "SCRATCH", "SCRATCH_BYTES", "SLOT", "TABLE", "region_sizes",
]  # fmt: skip

#: Tokens of a chunk, and chunks from one kept state to the next.
CHUNK = 32
KEPT = 2

#: Sizes. WIDE_*: in whole vectors; SIZE: states of a head. Addresses of tensors, 0 for what is absent, then of the
#: parts of the kernel.
(
    SAMPLES, LENGTH, N_PATHS, SHARED, SHARED_MAPS, HEADS, CHANNELS, STATES, SPLITS, SPLIT_HEADS, HAS_SKIP,
    WIDE_CHANNELS, WIDE_STATES, SIZE, QUEUE_END,
    X, DT, A, B, C, D, START, PATHS, Y, FINAL, CHECKPOINTS,
    GRAD_Y, GRAD_FINAL, GRAD_X, GRAD_DT, GRAD_A, GRAD_B, GRAD_C, GRAD_D, GRAD_START,
    WALK, CHUNK_MAPS, HEAD_PART, AHEAD_PART, END_CHUNK, ADVANCE, PRODUCT, TRANSPOSE, ASK,
) = range(FREE, FREE + 44)  # fmt: skip

#: Where the thread is: sample, split, path, heads from FIRST on without LAST, the head; first token of the chunk, how
#: many, these in whole vectors; distance of the chunk that is read next. STATE, GRAD_STATE: memory of the states that
#: enter the chunk, of all heads or of the head, and of the gradient of those that leave it. Then arguments of products
#: of matrices, some of which serve other parts.
(
    BATCH, SPLIT, PATH, FIRST, LAST, HEAD, BEGIN, COUNT, FULL, DISTANCE, STATE, GRAD_STATE,
    TARGET, TARGET_ROW, SOURCE, LEFT, LEFT_ROW, LEFT_STEP, RIGHT, RIGHT_ROW, N_ROWS, N_COLUMNS, N_TERMS, WHICH,
) = range(FREE + 44, FREE + 68)  # fmt: skip

#: Scratch memory. SPARE: a vector, whose first number is the factor of a product with what it begins with. TOKENS: rows
#: of the tokens of the chunk among those of all samples, then of those to ask for. QUEUE: of addresses that products of
#: matrices ask for; see `skop.ops._simd_tiles`. ABOVE: -inf above the diagonal of a block, else 0; BELOW: the same
#: below it; UNDER: 1 below it, else 0. PARTIAL: sixteen vectors. SUMS: of each head, gradients of A, one vector, and of
#: D, in float64. ROWS: see below.
#: Matrices (tokens, P), and (P, tokens): x, x times its weight in the leaving state, outputs or gradients of u,
#: gradients of the outputs, these times the decay up to their token; x transposed, and what states give.
#: Matrices (tokens, N), and (N, tokens): B, C, what states give to the gradient of C, gradients of B and C; B or C.
#: Matrices (tokens, tokens): of B and C, of the outputs by the inputs, of gradients by x; gradient of the first.
#: Matrices (P, N) of all heads of the item: entering states, those of the second chunk of a pair, and gradients.
(
    SPARE, TOKENS, QUEUE, ROWS, ABOVE, BELOW, UNDER, PARTIAL, SUMS,
    INPUTS, SCALED, OUT, GRAD, GRAD_SCALED, ACROSS, CROSSED,
    MAPS_IN, MAPS_OUT, MAPPED, GRAD_IN, GRAD_OUT, MAPS_ACROSS,
    PRODUCTS, WEIGHTS, SHARES, GRAD_PRODUCTS,
    HELD, LATER, GRADS,
) = range(FREE + 68, FREE + 97)  # fmt: skip
FIRST_REGION, N_ARGUMENTS = FREE + 68, FREE + 97
#: Words of the queue.
QUEUE_SIZE = 1024

#: Rows of a number per token: steps; logarithms of decays up to a token, in two parts; decays up to a token, from it to
#: the end, and these times the step; then sums of the backward pass.
(
    STEP, INTEGER, REST, RISE, FALL, FEED, WITHIN, COLUMN, DIRECT, ENTERED, BEFORE, AFTER, N_TOKEN_ROWS,
) = range(13)  # fmt: skip
#: Where the tokens of the chunk are, and those of the one to read next.
HERE, AHEAD = 0, CHUNK


def region_sizes(channels: int, states: int, heads: int, width: int) -> Mapping[str, int]:
    """Bytes of each region of scratch memory, by the names of their words; a number has `width` bytes.

    Channels of a head and states of a channel are in whole vectors; the heads are those of a work item.
    """
    numbers = {"SPARE": LANES, "ROWS": N_TOKEN_ROWS * CHUNK} | dict.fromkeys(
        ("ABOVE", "BELOW", "UNDER", "PARTIAL"), LANES * LANES
    )
    for names, size in (
        ("INPUTS SCALED OUT GRAD GRAD_SCALED ACROSS CROSSED", CHUNK * channels),
        ("MAPS_IN MAPS_OUT MAPPED GRAD_IN GRAD_OUT MAPS_ACROSS", CHUNK * states),
        ("PRODUCTS WEIGHTS SHARES GRAD_PRODUCTS", CHUNK * CHUNK),
        ("HELD LATER GRADS", heads * channels * states),
    ):
        numbers |= dict.fromkeys(names.split(), size)
    few = {"TOKENS": 8 * 2 * CHUNK, "QUEUE": 8 * QUEUE_SIZE, "SUMS": 8 * heads * (LANES + channels)}
    return few | {name: width * size for name, size in numbers.items()}
