"""Products and transposes of small matrices in memory near the processor, for kernels that Numba compiles.

A product is cut into tiles of eight rows and one or two vectors, whose sums stay in registers while the
terms are added one after the other. Every sum has the same order whatever the tile, so processors with
fewer registers, which get smaller tiles, round alike.

While a product adds terms, which needs little of the memory, it asks for what other code will need soon. A queue of
integers holds twice the place of its next address, the place of its last, and addresses of lines of memory; two
terms take one of them. (A line for every term is more than a processor can wait for at once; then it drops some.)
The last address is asked for again and again when there are no others.

Matrices are given by a pointer and the distance of their rows. Numbers of rows are multiples of 8,
those of columns of `LANES`.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils
from numba.types import CPointer, int64, void

from skop.ops._simd import _ask_for, _load, _splat, _store, emitted
from skop.ops._simd_checks import checked
from skop.ops._simd_vector import CONTRACT, INT32, INT64, KINDS, LANES, Kind, Vector

__all__ = ["ALL", "LINE", "LOWER", "UPPER", "product", "transpose"]

#: Which terms of the sums there are: all; those up to the row; those from the row on.
ALL, LOWER, UPPER = range(3)

#: Bytes of a line of memory, which an entry of a queue asks for.
LINE = 64
#: Rows of a tile.
_ROWS = 8
_HAS_WIDE_REGISTERS = bool(binding.get_host_cpu_features().get("avx512f"))


def _registers(kind: Kind, vectors: int) -> tuple[int, int]:
    """Rows and vectors whose sums fit into the registers of this processor."""
    if _HAS_WIDE_REGISTERS:
        return _ROWS, (vectors if kind.mantissa == 23 else 1)
    return (4 if kind.mantissa == 23 else 2), 1


def _parts(kind: Kind, vectors: int) -> Iterator[tuple[range, range]]:
    """Rows and vectors of the parts of a tile."""
    height, width = _registers(kind, vectors)
    for vector in range(0, vectors, width):
        for row in range(0, _ROWS, height):
            yield range(row, row + height), range(vector, vector + width)


class _Tile:
    """Code of a tile of a product."""

    def __init__(self, builder: ir.IRBuilder, vector: Vector, args: Any) -> None:
        self.builder, self.vector, self.kind = builder, vector, KINDS[vector]
        self.target, self.target_row, self.scale, self.source = args[:4]
        self.left, self.left_row, self.left_step, self.right, self.right_row = args[4:9]
        self.first, self.last, self.queue = args[9:]

    def emit(self, vectors: int) -> None:
        """Compute the tile, part after part."""
        for rows, columns in _parts(self.kind, vectors):
            places = [[self._place(self.target, row, column) for column in columns] for row in rows]
            for line, values in zip(places, self._loop(rows, columns, self._starts(rows, columns)), strict=True):
                for place, value in zip(line, values, strict=True):
                    _store(self.builder, self.vector, place, value)

    def _integer(self, value: int) -> ir.Constant:
        """Integer constant."""
        return ir.Constant(INT64, value)

    def _place(self, matrix: ir.Value, row: int, column: int) -> ir.Value:
        """Pointer to a vector of the result, or of what the sums begin with."""
        index = self.builder.mul(self.target_row, self._integer(row))
        return self.builder.gep(matrix, [self.builder.add(index, self._integer(column * LANES))])

    def _starts(self, rows: range, columns: range) -> list[list[ir.Value]]:
        """First values of the sums: of the source, if there is one."""
        builder, before = self.builder, self.builder.block
        has_source = builder.icmp_signed("!=", builder.ptrtoint(self.source, INT64), self._integer(0))
        with builder.if_then(has_source):
            factor, inside = _splat(builder, self.scale), builder.block
            places = [[self._place(self.source, row, column) for column in columns] for row in rows]
            values = [[_load(builder, self.vector, place) for place in line] for line in places]
            scaled = [[builder.fmul(value, factor, flags=CONTRACT) for value in line] for line in values]
        starts = [[builder.phi(self.kind.vector) for _ in columns] for _ in rows]
        for start, value in zip(chain(*starts), chain(*scaled), strict=True):
            start.add_incoming(self.kind.constant(0), before)
            start.add_incoming(value, inside)
        return starts

    def _word(self, index: ir.Value) -> ir.Value:
        """Pointer to a word of the queue."""
        return self.builder.gep(self.queue, [index])

    def _ask(self, index: ir.Value, end: ir.Value) -> None:
        """Ask for the memory whose address is at half an index in the queue, or at its end."""
        builder = self.builder
        index = builder.ashr(index, self._integer(1))
        place = builder.select(builder.icmp_signed("<", index, end), index, end)
        word = checked(builder, self._word(place), 8, is_write=False)
        byte = builder.inttoptr(builder.load(word), ir.IntType(8).as_pointer())
        _ask_for(builder, byte)

    def _loop(self, rows: range, columns: range, sums: list[list[ir.Value]]) -> list[list[ir.Value]]:
        """Add all terms to the sums."""
        builder, before = self.builder, self.builder.block
        starts = [builder.gep(self.left, [builder.mul(self.left_row, self._integer(row))]) for row in rows]
        left_first, right_first = (builder.mul(self.first, step) for step in (self.left_step, self.right_row))
        body, after = builder.append_basic_block("terms"), builder.append_basic_block("sums")
        asked, end = (builder.load(self._word(self._integer(word))) for word in range(2))
        builder.branch(body)
        builder.position_at_end(body)
        indices = [builder.phi(INT64) for _ in range(4)]
        phis = [[builder.phi(self.kind.vector) for _ in line] for line in sums]
        _, left_index, right_index, queue_index = indices
        self._ask(queue_index, end)
        right = builder.gep(self.right, [right_index])
        vectors = [
            _load(builder, self.vector, builder.gep(right, [self._integer(column * LANES)])) for column in columns
        ]
        results = []
        for line, start in zip(phis, starts, strict=True):
            number = checked(
                builder, builder.gep(start, [left_index]), self.vector.element.bitwidth // 8, is_write=False
            )
            factor = _splat(builder, builder.load(number))
            products = [builder.fmul(factor, vector, flags=CONTRACT) for vector in vectors]
            results.append([builder.fadd(*pair, flags=CONTRACT) for pair in zip(line, products, strict=True)])
        steps = (self._integer(1), self.left_step, self.right_row, self._integer(1))
        following = [builder.add(index, step) for index, step in zip(indices, steps, strict=True)]
        builder.cbranch(builder.icmp_signed("<", following[0], self.last), body, after)
        entering = [self.first, left_first, right_first, asked, *chain(*sums)]
        leaving = [*following, *chain(*results)]
        for phi, first, again in zip([*indices, *chain(*phis)], entering, leaving, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(again, body)
        builder.position_at_end(after)
        builder.store(following[3], self._word(self._integer(0)))
        return results


@emitted(
    lambda target, *_: void(
        target, int64, target.dtype, target, target, int64, int64, target, *[int64] * 5, CPointer(int64)
    )
)
def product(
    builder: ir.IRBuilder,
    sig: Any,
    target: ir.Value,
    target_row: ir.Value,
    scale: ir.Value,
    source: ir.Value,
    left: ir.Value,
    left_row: ir.Value,
    left_step: ir.Value,
    right: ir.Value,
    right_row: ir.Value,
    rows: ir.Value,
    columns: ir.Value,
    terms: ir.Value,
    which: ir.Value,
    queue: ir.Value,
) -> None:
    """Write target[i, j] = scale * source[i, j] + the sum over k of left[i * left_row + k * left_step] * right[k, j].

    There are `rows` of i, `columns` of j and `terms` of k, of which only some take part: see `ALL`. The address of the
    source is 0 where there is none.
    """
    vector, zero, height = Vector(sig.args[0].dtype), ir.Constant(INT64, 0), ir.Constant(INT64, _ROWS)
    lower, upper = (builder.icmp_signed("==", which, ir.Constant(INT64, value)) for value in (LOWER, UPPER))
    has_source = builder.icmp_signed("!=", builder.ptrtoint(source, INT64), zero)
    with cgutils.for_range_slice(builder, zero, columns, ir.Constant(INT64, 2 * LANES), INT64) as (j, _):
        has_two = builder.icmp_signed("<", builder.add(j, ir.Constant(INT64, LANES)), columns)
        with cgutils.for_range_slice(builder, zero, rows, height, INT64) as (i, _):
            index = builder.add(builder.mul(i, target_row), j)
            begin = builder.select(has_source, builder.gep(source, [index]), source)
            first = builder.select(upper, i, zero)
            last = builder.select(lower, builder.add(i, height), terms)
            factors = builder.gep(left, [builder.mul(i, left_row)]), left_row, left_step
            results = builder.gep(target, [index]), target_row, scale, begin
            tile = _Tile(builder, vector, (*results, *factors, builder.gep(right, [j]), right_row, first, last, queue))
            with builder.if_else(has_two) as (two, one):
                with two:
                    tile.emit(2)
                with one:
                    tile.emit(1)


def _quads(*picks: int) -> list[int]:
    """Lanes of some quarters of two vectors."""
    quarter = LANES // 4
    return [quarter * pick + lane for pick in picks for lane in range(quarter)]


def _in_quarters(*picks: int) -> list[int]:
    """The same lanes of each quarter of two vectors; those of the second count from 4."""
    return [quarter + pick % 4 + pick // 4 * LANES for quarter in range(0, LANES, 4) for pick in picks]


def _shuffled(builder: ir.IRBuilder, left: ir.Value, right: ir.Value, lanes: list[int]) -> ir.Value:
    """Lanes of two vectors."""
    return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(INT32, LANES), lanes))


def _transposed(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """Columns of sixteen rows: first of blocks of 4 x 4, then the blocks."""

    def pick(left: ir.Value, right: ir.Value, lanes: list[int]) -> ir.Value:
        return _shuffled(builder, left, right, lanes)

    groups = []
    for a, b, c, d in (rows[i : i + 4] for i in range(0, LANES, 4)):
        low = [pick(*pair, _in_quarters(0, 4, 1, 5)) for pair in ((a, b), (c, d))]
        high = [pick(*pair, _in_quarters(2, 6, 3, 7)) for pair in ((a, b), (c, d))]
        groups.append(
            [
                pick(*pair, lanes)
                for pair in (low, high)
                for lanes in (_in_quarters(0, 1, 4, 5), _in_quarters(2, 3, 6, 7))
            ]
        )
    columns: list[ir.Value] = [None] * LANES
    for place, (a, b, c, d) in enumerate(zip(*groups, strict=True)):
        for half, lanes in enumerate((_quads(0, 1, 4, 5), _quads(2, 3, 6, 7))):
            pair = pick(a, b, lanes), pick(c, d, lanes)
            for odd, chosen in enumerate((_quads(0, 2, 4, 6), _quads(1, 3, 5, 7))):
                columns[4 * (2 * half + odd) + place] = pick(*pair, chosen)
    return columns


@emitted(lambda target, *_: void(target, int64, target, int64, int64, int64, target))
def transpose(
    builder: ir.IRBuilder,
    sig: Any,
    target: ir.Value,
    target_row: ir.Value,
    source: ir.Value,
    source_row: ir.Value,
    rows: ir.Value,
    columns: ir.Value,
    factors: ir.Value,
) -> None:
    """Write target[j, i] = source[i, j] * factors[j] for so many rows and columns, whole blocks of sixteen.

    The address of the factors is 0 where there are none.
    """
    vector, lanes, zero = Vector(sig.args[0].dtype), ir.Constant(INT64, LANES), ir.Constant(INT64, 0)
    has_factors = builder.icmp_signed("!=", builder.ptrtoint(factors, INT64), zero)

    def place(matrix: ir.Value, distance: ir.Value, row: ir.Value, column: ir.Value, more: int) -> ir.Value:
        index = builder.mul(distance, builder.add(row, ir.Constant(INT64, more)))
        return builder.gep(matrix, [builder.add(index, column)])

    with cgutils.for_range_slice(builder, zero, columns, lanes, INT64) as (j, _):
        before = builder.block
        with builder.if_then(has_factors):
            inside, given = builder.block, _load(builder, vector, builder.gep(factors, [j]))
        factor = builder.phi(KINDS[vector].vector)
        factor.add_incoming(KINDS[vector].constant(1), before)
        factor.add_incoming(given, inside)
        with cgutils.for_range_slice(builder, zero, rows, lanes, INT64) as (i, _):
            values = [_load(builder, vector, place(source, source_row, i, j, row)) for row in range(LANES)]
            values = [builder.fmul(value, factor) for value in values]
            for row, column in enumerate(_transposed(builder, values)):
                _store(builder, vector, place(target, target_row, j, i, row), column)
