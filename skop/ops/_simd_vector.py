"""The Numba type behind `skop.ops._simd`: sixteen numbers as one LLVM value, with the arithmetic operators."""

import operator
from collections.abc import Callable
from math import log
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.datamodel import models
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, register_model
from numpy.polynomial import Chebyshev, Polynomial

__all__ = ["CONTRACT", "INT32", "INT64", "KINDS", "LANES", "Kind", "Vector"]

#: Numbers in a vector.
LANES = 16

INT32, INT64 = ir.IntType(32), ir.IntType(64)
CONTRACT = ("contract",)


class Vector(types.Type):
    """Numba type of a vector of float32 or float64."""

    def __init__(self, element: types.Float) -> None:
        self.element = element
        super().__init__(name=f"Vector({element})")


class Kind:
    """What code of a vector's element type needs: its LLVM types, constants and polynomials."""

    def __init__(self, element: types.Float) -> None:
        single = element == types.float32
        self.number = ir.FloatType() if single else ir.DoubleType()
        self.vector = ir.VectorType(self.number, LANES)
        self.bits = ir.VectorType(INT32 if single else INT64, LANES)
        self.mantissa, self.least = (23, -126.0) if single else (52, -1022.0)
        # 2^f = 1 + f p(f) on [-1/2, 1/2]: exactly 1 at 0, so that a step of size zero changes nothing.
        self.power = _polynomial(_growth, 4 if single else 11, (-0.5, 0.5))
        # log(1 + v) = 2 s p(s²) with s = v / (2 + v), for v in [0, 1].
        self.logarithm = _polynomial(lambda w: 2 * np.arctanh(w**0.5) / w**0.5, 4 if single else 11, (0, 1 / 9))

    def constant(self, value: float) -> ir.Constant:
        """One number in every lane."""
        return ir.Constant(self.vector, [float(value)] * LANES)

    def integers(self, value: int) -> ir.Constant:
        """One integer in every lane."""
        return ir.Constant(self.bits, [value] * LANES)


def _polynomial(function: Callable[[np.ndarray], np.ndarray], degree: int, domain: tuple[float, float]) -> list[float]:
    """Coefficients, highest first, of a nearly best approximation."""
    fit = Chebyshev.interpolate(function, degree, domain).convert(kind=Polynomial)
    return [float(coefficient) for coefficient in fit.coef[::-1]]


def _growth(exponent: np.ndarray) -> np.ndarray:
    """(2^f - 1) / f, also at 0."""
    safe = np.where(exponent == 0, 1, exponent)
    return np.where(exponent == 0, log(2), np.expm1(safe * log(2)) / safe)


KINDS = {Vector(element): Kind(element) for element in (types.float32, types.float64)}


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    """A vector is one LLVM value."""

    def __init__(self, manager: Any, numba_type: Vector) -> None:
        super().__init__(manager, numba_type, KINDS[numba_type].vector)


def _register_arithmetic(symbol: Callable[..., Any], instruction: str) -> None:
    """Let an operator work on two vectors."""

    @infer_global(symbol)
    class _Template(AbstractTemplate):
        def generic(self, args: tuple[types.Type, ...], kws: Any) -> Any:
            if len(args) == 2 and isinstance(args[0], Vector) and args[0] == args[1]:
                return signature(args[0], *args)
            return None

    for vector in KINDS:

        @lower_builtin(symbol, vector, vector)
        def _lower(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
            return getattr(builder, instruction)(*args, flags=CONTRACT)


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _register_arithmetic(_symbol, _instruction)
