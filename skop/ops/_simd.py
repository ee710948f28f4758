"""Vectors of sixteen numbers for kernels that Numba compiles.

A kernel that says ``load(x, 0) * load(y, 0)`` becomes vector instructions because its values are
vectors, not because a compiler found a loop that it could prove free of aliases. The type is LLVM's
``<16 x float>`` or ``<16 x double>``: one or two AVX-512 registers, more of AVX2 or NEON, whatever the
processor has. No instruction of a particular processor is named, so that none can be missing.

Pointers count in elements. Products and sums may be contracted to fused multiply-adds; NaN and infinity pass
through everything.

Only CPU kernels import this file, and they are imported when they are first used.
"""

from math import log
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from skop.ops._simd_checks import checked
from skop.ops._simd_vector import CONTRACT, INT32, INT64, KINDS, LANES, Kind, Vector

__all__ = [
    "LANES",
    "address",
    "call",
    "claim",
    "constant",
    "exp2",
    "inlined",
    "integers",
    "load",
    "load_first",
    "matrix",
    "maximum",
    "nan_beyond",
    "number",
    "offset",
    "outlined",
    "pointer",
    "prefetch",
    "set_number",
    "sigmoid",
    "softplus",
    "splat",
    "store",
    "store_first",
    "sum_lanes",
    "wide",
    "widen",
]

#: How the functions of a kernel are compiled: without the entries that Python and C would call, which take as long to
#: compile as the functions themselves, and without exceptions.
_LEAN = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
outlined = njit(**_LEAN)
inlined = njit(forceinline=True, **_LEAN)

#: Integers that pick lanes: even ones of two vectors, then odd ones.
_PICKS = [ir.Constant(ir.VectorType(INT32, LANES), list(range(start, 2 * LANES, 2))) for start in (0, 1)]


@intrinsic
def pointer(typing_context: Any, address: types.Type, kind: types.Type) -> Any:
    """Turn an address, an integer, into a pointer to numbers of a type, or of another pointer's type."""
    result = types.CPointer(kind.dtype if isinstance(kind, types.CPointer) else kind.instance_type)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.inttoptr(args[0], context.get_value_type(result))

    return result(types.int64, kind), codegen


@intrinsic
def address(typing_context: Any, start: types.Type) -> Any:
    """Turn a pointer into an integer."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.ptrtoint(args[0], INT64)

    return types.int64(start), codegen


@intrinsic
def constant(typing_context: Any, start: types.Type, number: types.Type) -> Any:
    """Put one number into every lane of a vector such as a pointer loads."""
    vector = _vector_of(start)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return _splat(builder, context.cast(builder, args[1], sig.args[1], vector.element))

    return vector(start, number), codegen


@intrinsic
def offset(typing_context: Any, start: types.Type, index: types.Type) -> Any:
    """Move a pointer on by a number of elements."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.gep(args[0], [args[1]])

    return start(start, types.int64), codegen


@intrinsic
def claim(typing_context: Any, counter: types.Type) -> Any:
    """Add 1 to an integer that threads share, and return what it was."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.atomic_rmw("add", args[0], ir.Constant(INT64, 1), "monotonic")

    return types.int64(types.CPointer(types.int64)), codegen


def _word(builder: ir.IRBuilder, workspace: ir.Value, name: ir.Value) -> ir.Value:
    """Pointer to a word of a workspace."""
    return builder.gep(builder.bitcast(workspace, INT64.as_pointer()), [name])


@intrinsic
def number(typing_context: Any, workspace: types.Type, name: types.Type) -> Any:
    """Integer that a word of the workspace holds; the pointer to the workspace has the type of what is computed."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.load(_word(builder, *args))

    return types.int64(workspace, types.int64), codegen


@intrinsic
def set_number(typing_context: Any, workspace: types.Type, name: types.Type, value: types.Type) -> Any:
    """Write an integer into a word of the workspace."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        builder.store(args[2], _word(builder, *args[:2]))
        return context.get_dummy_value()

    return types.void(workspace, types.int64, types.int64), codegen


def _address_in(workspace: types.Type, result: types.Type) -> Any:
    """What an intrinsic returns that reads an address from a word."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.inttoptr(builder.load(_word(builder, *args)), context.get_value_type(result))

    return result(workspace, types.int64), codegen


@intrinsic
def matrix(typing_context: Any, workspace: types.Type, name: types.Type) -> Any:
    """Pointer to numbers of the workspace's type, whose address a word holds: scratch memory, or a tensor."""
    return _address_in(workspace, workspace)


@intrinsic
def wide(typing_context: Any, workspace: types.Type, name: types.Type) -> Any:
    """Pointer to float64 whose address a word holds."""
    return _address_in(workspace, types.CPointer(types.float64))


@intrinsic
def integers(typing_context: Any, workspace: types.Type, name: types.Type) -> Any:
    """Pointer to int64 whose address a word holds."""
    return _address_in(workspace, types.CPointer(types.int64))


@intrinsic
def call(typing_context: Any, workspace: types.Type, name: types.Type) -> Any:
    """Call the function whose address a word holds with the workspace as its argument."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        kind = ir.FunctionType(ir.VoidType(), [args[0].type])
        builder.call(builder.inttoptr(builder.load(_word(builder, *args)), kind.as_pointer()), args[:1])
        return context.get_dummy_value()

    return types.void(workspace, types.int64), codegen


@intrinsic
def splat(typing_context: Any, number: types.Type) -> Any:
    """Put one number into every lane."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return _splat(builder, args[0])

    return Vector(number)(number), codegen


@intrinsic
def load(typing_context: Any, start: types.Type, index: types.Type) -> Any:
    """Read sixteen neighbouring numbers, in no particular alignment."""
    result = _vector_of(start)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return _load(builder, start, builder.gep(args[0], args[1:2]))

    return result(start, types.int64), codegen


@intrinsic
def store(typing_context: Any, start: types.Type, index: types.Type, value: types.Type) -> Any:
    """Write sixteen neighbouring numbers."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        _store(builder, start, builder.gep(args[0], args[1:2]), args[2])
        return context.get_dummy_value()

    return types.void(start, types.int64, value), codegen


def _first_lanes(builder: ir.IRBuilder, count: ir.Value) -> ir.Value:
    """Mask of the first lanes."""
    lanes = ir.Constant(ir.VectorType(INT64, LANES), list(range(LANES)))
    return builder.icmp_signed("<", lanes, _splat(builder, count))


@intrinsic
def load_first(typing_context: Any, start: types.Type, index: types.Type, count: types.Type) -> Any:
    """Read the first numbers of sixteen; the other lanes are 0, and their memory is not touched."""
    result = Vector(start.dtype)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        vector, alignment = KINDS[result].vector, ir.Constant(INT32, start.dtype.bitwidth // 8)
        size = builder.mul(args[2], ir.Constant(INT64, start.dtype.bitwidth // 8))
        place = checked(builder, builder.gep(args[0], args[1:2]), size, is_write=False)
        mask = _first_lanes(builder, args[2])
        kind = ir.FunctionType(vector, [place.type, INT32, mask.type, vector])
        name = f"llvm.masked.load.v{LANES}f{start.dtype.bitwidth}.p0"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(function, [place, alignment, mask, KINDS[result].constant(0)])

    return result(start, types.int64, types.int64), codegen


@intrinsic
def store_first(typing_context: Any, start: types.Type, index: types.Type, value: types.Type, count: types.Type) -> Any:
    """Write the first of sixteen numbers."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        size = builder.mul(args[3], ir.Constant(INT64, start.dtype.bitwidth // 8))
        place = checked(builder, builder.gep(args[0], args[1:2]), size, is_write=True)
        mask = _first_lanes(builder, args[3])
        kind = ir.FunctionType(ir.VoidType(), [args[2].type, place.type, INT32, mask.type])
        name = f"llvm.masked.store.v{LANES}f{start.dtype.bitwidth}.p0"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        builder.call(function, [args[2], place, ir.Constant(INT32, start.dtype.bitwidth // 8), mask])
        return context.get_dummy_value()

    return types.void(start, types.int64, value, types.int64), codegen


@intrinsic
def maximum(typing_context: Any, left: types.Type, right: types.Type) -> Any:
    """Greater of two numbers in each lane; the right one where either is NaN."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return left(left, left), codegen


@intrinsic
def nan_beyond(typing_context: Any, value: types.Type, exponent: types.Type) -> Any:
    """The value where `exp2` of the exponent is finite, else NaN."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        kind = KINDS[value]
        finite = builder.fcmp_ordered("<", args[1], kind.constant(1 - kind.least))
        return builder.select(finite, args[0], kind.constant(float("nan")))

    return value(value, value), codegen


@intrinsic
def prefetch(typing_context: Any, start: types.Type, index: types.Type) -> Any:
    """Ask for memory that will be needed soon."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        _ask_for(builder, builder.bitcast(builder.gep(args[0], [args[1]]), ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(start, types.int64), codegen


@intrinsic
def widen(typing_context: Any, value: types.Type) -> Any:
    """Turn a vector into float64."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        single = value.element == types.float32
        return builder.fpext(args[0], ir.VectorType(ir.DoubleType(), LANES)) if single else args[0]

    return Vector(types.float64)(value), codegen


@intrinsic
def sum_lanes(typing_context: Any, start: types.Type) -> Any:
    """Return a vector whose lane i is the sum over the i-th of sixteen vectors in a row of memory."""
    result = _vector_of(start)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        places = (builder.gep(args[0], [ir.Constant(INT64, LANES * i)]) for i in range(LANES))
        values = [_load(builder, start, place) for place in places]
        while len(values) > 1:  # the two halves of each result are sums of neighbours of two vectors
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [builder.fadd(*(builder.shuffle_vector(*pair, pick) for pick in _PICKS)) for pair in pairs]
        return values[0]

    return result(start), codegen


@intrinsic
def exp2(typing_context: Any, value: types.Type) -> Any:
    """2 to the power of numbers below 127 (float64: 1023, see `nan_beyond`); 0 below the normal numbers, 1 at 0."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return _exp2(builder, KINDS[value], args[0])

    return value(value), codegen


@intrinsic
def softplus(typing_context: Any, value: types.Type) -> Any:
    """log(1 + exp(v)), with a small relative error for all v; 0 at minus infinity."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        kind, (v,) = KINDS[value], args
        small = _exp_minus_abs(builder, kind, v)
        s = builder.fdiv(small, builder.fadd(small, kind.constant(2)))
        log1p = builder.fmul(s, _horner(builder, kind, kind.logarithm, builder.fmul(s, s)), flags=CONTRACT)
        positive = builder.fcmp_ordered(">", v, kind.constant(0))
        return builder.fadd(builder.select(positive, v, kind.constant(0)), log1p, flags=CONTRACT)

    return value(value), codegen


@intrinsic
def sigmoid(typing_context: Any, value: types.Type) -> Any:
    """1 / (1 + exp(-v)), the derivative of softplus."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        kind, (v,) = KINDS[value], args
        small = _exp_minus_abs(builder, kind, v)
        positive = builder.fcmp_ordered(">", v, kind.constant(0))
        above = builder.select(positive, kind.constant(1), small)
        return builder.fdiv(above, builder.fadd(small, kind.constant(1)))

    return value(value), codegen


def _vector_of(start: types.CPointer) -> Vector:
    """Type of what a pointer loads."""
    return Vector(start.dtype)


def _load(builder: ir.IRBuilder, start: types.CPointer, place: ir.Value) -> ir.Value:
    """Read sixteen numbers."""
    size = start.dtype.bitwidth // 8
    place = checked(builder, place, LANES * size, is_write=False)
    return builder.load(builder.bitcast(place, KINDS[_vector_of(start)].vector.as_pointer()), align=size)


def _store(builder: ir.IRBuilder, start: types.CPointer, place: ir.Value, value: ir.Value) -> None:
    """Write sixteen numbers."""
    size = start.dtype.bitwidth // 8
    place = checked(builder, place, LANES * size, is_write=True)
    builder.store(value, builder.bitcast(place, value.type.as_pointer()), align=size)


def _ask_for(builder: ir.IRBuilder, place: ir.Value) -> None:
    """Ask for the memory at a pointer to bytes: for reading, to be kept in all caches, as data."""
    kind = ir.FunctionType(ir.VoidType(), [place.type, INT32, INT32, INT32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(function, [place, *(ir.Constant(INT32, value) for value in (0, 3, 1))])


def _splat(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
    """Put one value into every lane."""
    nothing = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
    single = builder.insert_element(nothing, number, ir.Constant(INT32, 0))
    return builder.shuffle_vector(single, nothing, ir.Constant(ir.VectorType(INT32, LANES), [0] * LANES))


def _horner(builder: ir.IRBuilder, kind: Kind, coefficients: list[float], x: ir.Value) -> ir.Value:
    """Evaluate a polynomial, highest coefficient first."""
    result = kind.constant(coefficients[0])
    for coefficient in coefficients[1:]:
        product = builder.fmul(result, x, flags=CONTRACT)
        result = builder.fadd(product, kind.constant(coefficient), flags=CONTRACT)
    return result


def _exp2(builder: ir.IRBuilder, kind: Kind, v: ir.Value) -> ir.Value:
    """2^v: a polynomial of the part beyond the nearest integer, whose exponent the integer is added to."""
    # Adding 1.5 x 2^mantissa rounds to an integer, which then stands in the lowest bits, here with the exponent's bias.
    rounder = kind.constant(1.5 * 2.0**kind.mantissa + 1 - kind.least)
    shifted = builder.fadd(v, rounder)
    rest = builder.fsub(v, builder.fsub(shifted, rounder), flags=CONTRACT)
    power = _horner(builder, kind, [*kind.power, 1.0], rest)
    scale = builder.shl(builder.bitcast(shifted, kind.bits), kind.integers(kind.mantissa))
    # A product, and not a sum of exponents, because NaN has to pass, whatever bits it holds.
    scaled = builder.fmul(power, builder.bitcast(scale, kind.vector), flags=CONTRACT)
    normal = builder.fcmp_unordered(">", v, kind.constant(kind.least))
    return builder.select(normal, scaled, kind.constant(0))


def _exp_minus_abs(builder: ir.IRBuilder, kind: Kind, v: ir.Value) -> ir.Value:
    """exp(-|v|)."""
    positive = builder.fcmp_ordered(">", v, kind.constant(0))
    negated = builder.select(positive, builder.fsub(kind.constant(-0.0), v), v)
    return _exp2(builder, kind, builder.fmul(negated, kind.constant(1 / log(2)), flags=CONTRACT))
