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

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from skop.ops._simd import _ask_for, _load, _splat, _store, _vector_of
from skop.ops._simd_checks import checked
from skop.ops._simd_vector import CONTRACT, INT32, INT64, KINDS, LANES, Kind

__all__ = ["ALL", "LINE", "LOWER", "UPPER", "add_product", "product", "transpose", "transpose_scaled"]

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

    def __init__(self, builder: ir.IRBuilder, start: types.CPointer, args: Any) -> None:
        self.builder, self.start, self.kind = builder, start, KINDS[_vector_of(start)]
        self.target, self.target_row, self.scale, self.source = args[:4]
        self.left, self.left_row, self.left_step, self.right, self.right_row = args[4:9]
        self.first, self.last, self.queue = args[9:]

    def emit(self, vectors: int, is_fresh: bool) -> None:
        """Compute the tile, part after part."""
        for rows, columns in _parts(self.kind, vectors):
            places = [[self._place(self.target, row, column) for column in columns] for row in rows]
            sums = [[self._start(row, column, is_fresh) for column in columns] for row in rows]
            for line, values in zip(places, self._loop(rows, columns, sums), strict=True):
                for place, value in zip(line, values, strict=True):
                    _store(self.builder, self.start, place, value)

    def _integer(self, value: int) -> ir.Constant:
        """Integer constant."""
        return ir.Constant(INT64, value)

    def _place(self, matrix: ir.Value, row: int, column: int) -> ir.Value:
        """Pointer to a vector of the result, or of what the sums begin with."""
        index = self.builder.mul(self.target_row, self._integer(row))
        return self.builder.gep(matrix, [self.builder.add(index, self._integer(column * LANES))])

    def _start(self, row: int, column: int, is_fresh: bool) -> ir.Value:
        """First value of a sum."""
        if is_fresh:
            return self.kind.constant(0)
        factor, place = _splat(self.builder, self.scale), self._place(self.source, row, column)
        return self.builder.fmul(_load(self.builder, self.start, place), factor, flags=CONTRACT)

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
            _load(builder, self.start, builder.gep(right, [self._integer(column * LANES)])) for column in columns
        ]
        results = []
        for line, start in zip(phis, starts, strict=True):
            number = checked(builder, builder.gep(start, [left_index]), self.start.dtype.bitwidth // 8, is_write=False)
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


def _function(
    context: Any, builder: ir.IRBuilder, sig: Any, args: Any, name: str, body: Callable[[ir.IRBuilder, Any], None]
) -> ir.Value:
    """Call a function of its own with this body: many calls of it compile faster than many copies."""
    kind = ir.FunctionType(ir.VoidType(), [value.type for value in args])
    function = cgutils.get_or_insert_function(builder.module, kind, f"skop_{name}_{sig.args[0].dtype}")
    if function.is_declaration:
        function.linkage = "linkonce_odr"
        function.attributes.add("noinline")
        inside = ir.IRBuilder(function.append_basic_block("entry"))
        body(inside, function.args)
        inside.ret_void()
    builder.call(function, args)
    return context.get_dummy_value()


def _sweep(builder: ir.IRBuilder, start: types.CPointer, args: Any, is_fresh: bool) -> None:
    """Compute a product tile after tile."""
    target, target_row, scale, source, left, left_row, left_step, right, right_row, rows, columns, terms, which = args[
        :-1
    ]

    def integer(value: int) -> ir.Constant:
        return ir.Constant(INT64, value)

    lower, upper = (builder.icmp_signed("==", which, integer(value)) for value in (LOWER, UPPER))
    width = integer(2 * LANES)
    with cgutils.for_range_slice(builder, integer(0), columns, width, INT64) as (j, _):
        there = builder.gep(right, [j])
        with cgutils.for_range_slice(builder, integer(0), rows, integer(_ROWS), INT64) as (i, _):
            index = builder.add(builder.mul(i, target_row), j)
            here, begin = (None if matrix is None else builder.gep(matrix, [index]) for matrix in (target, source))
            factors = builder.gep(left, [builder.mul(i, left_row)])
            first = builder.select(upper, i, integer(0))
            last = builder.select(lower, builder.add(i, integer(_ROWS)), terms)
            tile = (
                here,
                target_row,
                scale,
                begin,
                factors,
                left_row,
                left_step,
                there,
                right_row,
                first,
                last,
                args[-1],
            )
            has_two = builder.icmp_signed("<", builder.add(j, integer(LANES)), columns)
            with builder.if_else(has_two) as (two, one):
                with two:
                    _Tile(builder, start, tile).emit(2, is_fresh)
                with one:
                    _Tile(builder, start, tile).emit(1, is_fresh)


@intrinsic  # type: ignore[untyped-decorator]
def add_product(
    typing_context: Any,
    target: types.Type,
    target_row: types.Type,
    scale: types.Type,
    source: types.Type,
    left: types.Type,
    left_row: types.Type,
    left_step: types.Type,
    right: types.Type,
    right_row: types.Type,
    rows: types.Type,
    columns: types.Type,
    terms: types.Type,
    which: types.Type,
    queue: types.Type,
) -> Any:
    """Write target[i, j] = scale * source[i, j] + the sum over k of left[i * left_row + k * left_step] * right[k, j].

    There are `rows` of i, `columns` of j and `terms` of k, of which only some take part: see `ALL`.
    """

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        def body(inside: ir.IRBuilder, values: Any) -> None:
            _sweep(inside, target, values, is_fresh=False)

        return _function(context, builder, sig, args, "add_product", body)

    whole = types.int64
    matrices = (target, whole, whole, target, whole)
    asked = types.CPointer(whole)
    return types.void(target, whole, target.dtype, target, *matrices, whole, whole, whole, whole, asked), codegen


@intrinsic  # type: ignore[untyped-decorator]
def product(
    typing_context: Any,
    target: types.Type,
    target_row: types.Type,
    left: types.Type,
    left_row: types.Type,
    left_step: types.Type,
    right: types.Type,
    right_row: types.Type,
    rows: types.Type,
    columns: types.Type,
    terms: types.Type,
    queue: types.Type,
) -> Any:
    """Write the sums of `add_product`, of all terms, without reading the target before."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        def body(inside: ir.IRBuilder, values: Any) -> None:
            *matrices, queue = values[2:]
            _sweep(inside, target, (*values[:2], None, None, *matrices, ir.Constant(INT64, ALL), queue), is_fresh=True)

        return _function(context, builder, sig, args, "product", body)

    whole = types.int64
    asked = types.CPointer(whole)
    return types.void(target, whole, target, whole, whole, target, whole, whole, whole, whole, asked), codegen


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


def _transpose(builder: ir.IRBuilder, start: types.CPointer, args: Any) -> None:
    """Transpose block after block."""
    target, target_row, source, source_row, rows, columns, factors = args
    lanes, zero = ir.Constant(INT64, LANES), ir.Constant(INT64, 0)

    def place(matrix: ir.Value, distance: ir.Value, row: ir.Value, column: ir.Value, more: int) -> ir.Value:
        index = builder.mul(distance, builder.add(row, ir.Constant(INT64, more)))
        return builder.gep(matrix, [builder.add(index, column)])

    with cgutils.for_range_slice(builder, zero, columns, lanes, INT64) as (j, _):
        factor = None if factors is None else _load(builder, start, builder.gep(factors, [j]))
        with cgutils.for_range_slice(builder, zero, rows, lanes, INT64) as (i, _):
            values = [_load(builder, start, place(source, source_row, i, j, row)) for row in range(LANES)]
            if factor is not None:
                values = [builder.fmul(value, factor) for value in values]
            for row, column in enumerate(_transposed(builder, values)):
                _store(builder, start, place(target, target_row, j, i, row), column)


@intrinsic  # type: ignore[untyped-decorator]
def transpose(
    typing_context: Any,
    target: types.Type,
    target_row: types.Type,
    source: types.Type,
    source_row: types.Type,
    rows: types.Type,
    columns: types.Type,
) -> Any:
    """Write target[j, i] = source[i, j] for so many rows and columns of the source, whole blocks of sixteen."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        def body(inside: ir.IRBuilder, values: Any) -> None:
            _transpose(inside, target, (*values, None))

        return _function(context, builder, sig, args, "transpose", body)

    whole = types.int64
    return types.void(target, whole, target, whole, whole, whole), codegen


@intrinsic  # type: ignore[untyped-decorator]
def transpose_scaled(
    typing_context: Any,
    target: types.Type,
    target_row: types.Type,
    source: types.Type,
    source_row: types.Type,
    rows: types.Type,
    columns: types.Type,
    factors: types.Type,
) -> Any:
    """Write target[j, i] = source[i, j] * factors[j], as `transpose` does."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        def body(inside: ir.IRBuilder, values: Any) -> None:
            _transpose(inside, target, tuple(values))

        return _function(context, builder, sig, args, "transpose_scaled", body)

    whole = types.int64
    return types.void(target, whole, target, whole, whole, whole, target), codegen
