"""Vectors of sixteen numbers for kernels that Numba compiles.

A kernel that says ``load(x, 0) * load(y, 0)`` becomes vector instructions because its values are
vectors, not because a compiler found a loop that it could prove free of aliases. The type is LLVM's
``<16 x float>`` or ``<16 x double>``: one or two AVX-512 registers, more of AVX2 or NEON, whatever the
processor has. No instruction of a particular processor is named, so that none can be missing.

Pointers count in elements. Products and sums may be contracted to fused multiply-adds; NaN and infinity pass
through everything.

Only CPU kernels import this file, and they are imported when they are first used.
"""

from collections.abc import Callable
from functools import update_wrapper
from inspect import Parameter, signature
from math import log
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.types import CPointer, float64, int64, void

from skop.ops._simd_checks import checked
from skop.ops._simd_compiler import inlined, outlined
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
    "larger",
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
    "smaller",
    "softplus",
    "splat",
    "store",
    "store_first",
    "sum_lanes",
    "wide",
    "widen",
]

_Builder = ir.IRBuilder
_Value = ir.Value

#: LLVM's types of what pointers point to.
_ELEMENTS = {types.float32: ir.FloatType(), float64: ir.DoubleType(), types.int32: INT32, int64: INT64}
#: Integers that pick lanes: even ones of two vectors, then odd ones.
_PICKS = [ir.Constant(ir.VectorType(INT32, LANES), list(range(start, 2 * LANES, 2))) for start in (0, 1)]


def emitted(types_of: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic of ``emit(builder, signature, *values)``, which emits its code and returns a value or None.

    `types_of` takes the Numba types of the arguments, and returns the signature, whose types these are cast to.
    """

    def decorate(emit: Callable[..., Any]) -> Any:
        def define(typing_context: Any, *kinds: types.Type) -> Any:
            def codegen(context: Any, builder: _Builder, sig: Any, args: Any) -> _Value:
                value = emit(builder, sig, *args)
                return context.get_dummy_value() if value is None else value

            return types_of(*kinds), codegen

        update_wrapper(define, emit)
        names = ["typing_context", *list(signature(emit).parameters)[2:]]
        parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        vars(define)["__signature__"] = signature(emit).replace(parameters=parameters)
        return intrinsic(define)

    return decorate


# Integers and addresses.


@emitted(lambda _, kind: CPointer(kind.dtype if isinstance(kind, CPointer) else kind.instance_type)(int64, kind))
def pointer(builder: _Builder, sig: Any, address: _Value, kind: _Value) -> _Value:
    """Turn an address, an integer, into a pointer to numbers of a type, or of another pointer's type."""
    return builder.inttoptr(address, _ELEMENTS[sig.return_type.dtype].as_pointer())


@emitted(lambda start: int64(start))
def address(builder: _Builder, sig: Any, start: _Value) -> _Value:
    """Turn a pointer into an integer."""
    return builder.ptrtoint(start, INT64)


@emitted(lambda start, _: start(start, int64))
def offset(builder: _Builder, sig: Any, start: _Value, index: _Value) -> _Value:
    """Move a pointer on by a number of elements."""
    return builder.gep(start, [index])


@emitted(lambda _, __: int64(int64, int64))
def smaller(builder: _Builder, sig: Any, left: _Value, right: _Value) -> _Value:
    """Smaller of two integers."""
    return builder.select(builder.icmp_signed("<", left, right), left, right)


@emitted(lambda _, __: int64(int64, int64))
def larger(builder: _Builder, sig: Any, left: _Value, right: _Value) -> _Value:
    """Larger of two integers."""
    return builder.select(builder.icmp_signed(">", left, right), left, right)


@emitted(lambda _: int64(CPointer(int64)))
def claim(builder: _Builder, sig: Any, counter: _Value) -> _Value:
    """Add 1 to an integer that threads share, and return what it was."""
    return builder.atomic_rmw("add", counter, ir.Constant(INT64, 1), "monotonic")


def _word(builder: _Builder, workspace: _Value, name: _Value) -> _Value:
    """Pointer to a word of a workspace."""
    return builder.gep(builder.bitcast(workspace, INT64.as_pointer()), [name])


@emitted(lambda workspace, _: int64(workspace, int64))
def number(builder: _Builder, sig: Any, workspace: _Value, name: _Value) -> _Value:
    """Integer that a word of the workspace holds; the pointer to the workspace has the type of what is computed."""
    return builder.load(_word(builder, workspace, name))


@emitted(lambda workspace, _, __: void(workspace, int64, int64))
def set_number(builder: _Builder, sig: Any, workspace: _Value, name: _Value, value: _Value) -> None:
    """Write an integer into a word of the workspace."""
    builder.store(value, _word(builder, workspace, name))


def _address_in(builder: _Builder, sig: Any, workspace: _Value, name: _Value) -> _Value:
    """Pointer to numbers whose address a word holds."""
    return builder.inttoptr(
        builder.load(_word(builder, workspace, name)), _ELEMENTS[sig.return_type.dtype].as_pointer()
    )


@emitted(lambda workspace, _: workspace(workspace, int64))
def matrix(builder: _Builder, sig: Any, workspace: _Value, name: _Value) -> _Value:
    """Pointer to numbers of the workspace's type, whose address a word holds: scratch memory, or a tensor."""
    return _address_in(builder, sig, workspace, name)


@emitted(lambda workspace, _: CPointer(float64)(workspace, int64))
def wide(builder: _Builder, sig: Any, workspace: _Value, name: _Value) -> _Value:
    """Pointer to float64 whose address a word holds."""
    return _address_in(builder, sig, workspace, name)


@emitted(lambda workspace, _: CPointer(int64)(workspace, int64))
def integers(builder: _Builder, sig: Any, workspace: _Value, name: _Value) -> _Value:
    """Pointer to int64 whose address a word holds."""
    return _address_in(builder, sig, workspace, name)


@emitted(lambda workspace, _: void(workspace, int64))
def call(builder: _Builder, sig: Any, workspace: _Value, name: _Value) -> None:
    """Call the function whose address a word holds with the workspace as its argument."""
    kind = ir.FunctionType(ir.VoidType(), [workspace.type])
    builder.call(builder.inttoptr(builder.load(_word(builder, workspace, name)), kind.as_pointer()), [workspace])


# Memory.


@emitted(lambda start, _: Vector(start.dtype)(start, int64))
def load(builder: _Builder, sig: Any, start: _Value, index: _Value) -> _Value:
    """Read sixteen neighbouring numbers, in no particular alignment."""
    return _load(builder, sig.return_type, builder.gep(start, [index]))


@emitted(lambda start, _, value: void(start, int64, value))
def store(builder: _Builder, sig: Any, start: _Value, index: _Value, value: _Value) -> None:
    """Write sixteen neighbouring numbers."""
    _store(builder, sig.args[2], builder.gep(start, [index]), value)


def _masked(builder: _Builder, kind: Vector, place: _Value, count: _Value, value: _Value | None) -> _Value:
    """Read the first lanes of a vector, or write them to memory."""
    size = kind.element.bitwidth // 8
    place = checked(builder, place, builder.mul(count, ir.Constant(INT64, size)), is_write=value is not None)
    lanes = ir.Constant(ir.VectorType(INT64, LANES), list(range(LANES)))
    mask, vector = builder.icmp_signed("<", lanes, _splat(builder, count)), KINDS[kind].vector
    word, result = ("load", vector) if value is None else ("store", ir.VoidType())
    values = [place, ir.Constant(INT32, size), mask]
    values = [*values, KINDS[kind].constant(0)] if value is None else [value, *values]
    function_type = ir.FunctionType(result, [given.type for given in values])
    name = f"llvm.masked.{word}.v{LANES}f{8 * size}.p0"
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), values)


@emitted(lambda start, _, __: Vector(start.dtype)(start, int64, int64))
def load_first(builder: _Builder, sig: Any, start: _Value, index: _Value, count: _Value) -> _Value:
    """Read the first numbers of sixteen; the other lanes are 0, and their memory is not touched."""
    return _masked(builder, sig.return_type, builder.gep(start, [index]), count, None)


@emitted(lambda start, _, value, __: void(start, int64, value, int64))
def store_first(builder: _Builder, sig: Any, start: _Value, index: _Value, value: _Value, count: _Value) -> None:
    """Write the first of sixteen numbers."""
    _masked(builder, sig.args[2], builder.gep(start, [index]), count, value)


@emitted(lambda start, _: void(start, int64))
def prefetch(builder: _Builder, sig: Any, start: _Value, index: _Value) -> None:
    """Ask for memory that will be needed soon."""
    _ask_for(builder, builder.bitcast(builder.gep(start, [index]), ir.IntType(8).as_pointer()))


# Lanes.


@emitted(lambda number: Vector(number)(number))
def splat(builder: _Builder, sig: Any, number: _Value) -> _Value:
    """Put one number into every lane."""
    return _splat(builder, number)


@emitted(lambda start, _: Vector(start.dtype)(start, start.dtype))
def constant(builder: _Builder, sig: Any, start: _Value, number: _Value) -> _Value:
    """Put one number into every lane of a vector such as a pointer loads."""
    return _splat(builder, number)


@emitted(lambda start: Vector(start.dtype)(start))
def sum_lanes(builder: _Builder, sig: Any, start: _Value) -> _Value:
    """Return a vector whose lane i is the sum over the i-th of sixteen vectors in a row of memory."""
    places = (builder.gep(start, [ir.Constant(INT64, LANES * i)]) for i in range(LANES))
    values = [_load(builder, sig.return_type, place) for place in places]
    while len(values) > 1:  # the two halves of each result are sums of neighbours of two vectors
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [builder.fadd(*(builder.shuffle_vector(*pair, pick) for pick in _PICKS)) for pair in pairs]
    return values[0]


@emitted(lambda value: Vector(float64)(value))
def widen(builder: _Builder, sig: Any, value: _Value) -> _Value:
    """Turn a vector into float64."""
    return value if sig.args[0] == sig.return_type else builder.fpext(value, KINDS[sig.return_type].vector)


# Functions of numbers.


@emitted(lambda left, _: left(left, left))
def maximum(builder: _Builder, sig: Any, left: _Value, right: _Value) -> _Value:
    """Greater of two numbers in each lane; the right one where either is NaN."""
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


@emitted(lambda value, _: value(value, value))
def nan_beyond(builder: _Builder, sig: Any, value: _Value, exponent: _Value) -> _Value:
    """The value where `exp2` of the exponent is finite, else NaN."""
    kind = KINDS[sig.return_type]
    finite = builder.fcmp_ordered("<", exponent, kind.constant(1 - kind.least))
    return builder.select(finite, value, kind.constant(float("nan")))


@emitted(lambda value: value(value))
def exp2(builder: _Builder, sig: Any, value: _Value) -> _Value:
    """2 to the power of numbers below 127 (float64: 1023, see `nan_beyond`); 0 below the normal numbers, 1 at 0."""
    return _exp2(builder, KINDS[sig.return_type], value)


@emitted(lambda value: value(value))
def softplus(builder: _Builder, sig: Any, value: _Value) -> _Value:
    """log(1 + exp(v)), with a small relative error for all v; 0 at minus infinity."""
    kind = KINDS[sig.return_type]
    small = _exp_minus_abs(builder, kind, value)
    s = builder.fdiv(small, builder.fadd(small, kind.constant(2)))
    log1p = builder.fmul(s, _horner(builder, kind, kind.logarithm, builder.fmul(s, s)), flags=CONTRACT)
    positive = builder.fcmp_ordered(">", value, kind.constant(0))
    return builder.fadd(builder.select(positive, value, kind.constant(0)), log1p, flags=CONTRACT)


@emitted(lambda value: value(value))
def sigmoid(builder: _Builder, sig: Any, value: _Value) -> _Value:
    """1 / (1 + exp(-v)), the derivative of softplus."""
    kind = KINDS[sig.return_type]
    small = _exp_minus_abs(builder, kind, value)
    positive = builder.fcmp_ordered(">", value, kind.constant(0))
    above = builder.select(positive, kind.constant(1), small)
    return builder.fdiv(above, builder.fadd(small, kind.constant(1)))


# What code is made of.


def _load(builder: _Builder, kind: Vector, place: _Value) -> _Value:
    """Read sixteen numbers."""
    size = kind.element.bitwidth // 8
    place = checked(builder, place, LANES * size, is_write=False)
    return builder.load(builder.bitcast(place, KINDS[kind].vector.as_pointer()), align=size)


def _store(builder: _Builder, kind: Vector, place: _Value, value: _Value) -> None:
    """Write sixteen numbers."""
    size = kind.element.bitwidth // 8
    place = checked(builder, place, LANES * size, is_write=True)
    builder.store(value, builder.bitcast(place, value.type.as_pointer()), align=size)


def _ask_for(builder: _Builder, place: _Value) -> None:
    """Ask for the memory at a pointer to bytes: for reading, to be kept in all caches, as data."""
    kind = ir.FunctionType(ir.VoidType(), [place.type, INT32, INT32, INT32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(function, [place, *(ir.Constant(INT32, value) for value in (0, 3, 1))])


def _splat(builder: _Builder, number: _Value) -> _Value:
    """Put one value into every lane."""
    nothing = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
    single = builder.insert_element(nothing, number, ir.Constant(INT32, 0))
    return builder.shuffle_vector(single, nothing, ir.Constant(ir.VectorType(INT32, LANES), [0] * LANES))


def _horner(builder: _Builder, kind: Kind, coefficients: list[float], x: _Value) -> _Value:
    """Evaluate a polynomial, highest coefficient first."""
    result = kind.constant(coefficients[0])
    for coefficient in coefficients[1:]:
        product = builder.fmul(result, x, flags=CONTRACT)
        result = builder.fadd(product, kind.constant(coefficient), flags=CONTRACT)
    return result


def _exp2(builder: _Builder, kind: Kind, v: _Value) -> _Value:
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


def _exp_minus_abs(builder: _Builder, kind: Kind, v: _Value) -> _Value:
    """exp(-|v|)."""
    positive = builder.fcmp_ordered(">", v, kind.constant(0))
    negated = builder.select(positive, builder.fsub(kind.constant(-0.0), v), v)
    return _exp2(builder, kind, builder.fmul(negated, kind.constant(1 / log(2)), flags=CONTRACT))
