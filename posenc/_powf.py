"""A power in float32 as torch computes it on a CPU, for `compat`: operation by operation.

Sixteen elements at a time go through the powf of SLEEF, which is good to 1 ulp: the logarithm and
the exponential in float32 pairs, with fused multiply-adds. Its constants and the order of its
operations are here, so the bits are the same. The elements left over go through that of the C
library, for which stands the correctly rounded power.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np

from ._args import Array
from ._methods import CONTEXT

__all__ = ["powers"]

_BLOCK = 16
_f = np.float32
_ZERO, _ONE = _f(0), _f(1)
_LN2 = _f(0.69314718246459960938), _f(-1.904654323148236017e-09)
_ATANH = _f(0.66666662693023681640625), _f(3.69183861259614332084311e-09)
_ATANH_MORE = (0.240320354700088500976562, 0.285112679004669189453125, 0.400007992982864379882812)
_EXP = (
    0.00136324646882712841033936,
    0.00836596917361021041870117,
    0.0416710823774337768554688,
    0.166665524244308471679688,
    0.499999850988388061523438,
)

Float = np.float32 | Array
Pair = tuple[Float, Float]  # high and low part of a number


def powers(base: float, exponents: Array) -> Array:
    """``base ** exponents``, the base rounded to float32; it and the exponents are not negative.

    Examples
    --------
    >>> import numpy as np
    >>> powers(2.0, np.array([0.0, 0.5], np.float32))
    array([1.       , 1.4142135], dtype=float32)
    """
    base = float(_f(base))
    whole = len(exponents) // _BLOCK * _BLOCK if 0 < base < math.inf else 0
    rest = [_nearest(base, float(e)) for e in exponents[whole:]]
    return np.concatenate([_sleef(base, exponents[:whole]), np.array(rest, _f)])


def _nearest(base: float, exponent: float) -> float:
    """The float32 nearest to a power of two float32: no tie is possible."""
    if exponent == 0 or base in (0, math.inf):
        return 1.0 if exponent == 0 else base
    with localcontext(CONTEXT):
        exact = Decimal(base) ** Decimal(exponent)
        places = 24 - math.frexp(exact)[1]
        return math.ldexp(int((exact * Decimal(2) ** places).to_integral_value()), -places)


def _sleef(base: float, exponents: Array) -> Array:
    mantissa, scale = math.frexp(base)
    if mantissa < 0.75:
        mantissa, scale = 2 * mantissa, scale - 1
    m = _f(mantissa)
    x = _divide(_add((-_ONE, _ZERO), (m, _ZERO)), _add((_ONE, _ZERO), (m, _ZERO)))
    square = _square(x)
    rest = _add(_multiply(square, (_polynomial(_ATANH_MORE, square[0]), _ZERO)), _ATANH)
    log = _join(_multiply(_LN2, (_f(scale), _ZERO)), (2 * x[0], 2 * x[1]))
    log = _join(log, _multiply(_multiply(square, x), rest))

    d = _multiply(log, (exponents, _ZERO))
    turns = np.rint((d[0] + d[1]) * _f(1.44269504088896340736))
    d = _add(d, (turns * _f(-0.693145751953125), _ZERO))
    d = _add(d, (turns * _f(-1.428606765330187045e-06), _ZERO))
    d = _join((d[0], _ZERO), (d[1], _ZERO))
    result = _join(d, _multiply(_square(d), (_polynomial(_EXP, d[0]), _ZERO)))
    high, low = _join((_ONE, _ZERO), result)
    power: Array = np.ldexp(high + low, turns.astype(np.int32))
    return power


def _polynomial(coefficients: tuple[float, ...], x: Float) -> Float:
    result: Float = _f(coefficients[0])
    for c in coefficients[1:]:
        result = _fma(result, x, _f(c))
    return result


def _fma(a: Float, b: Float, c: Float) -> Array:
    """``a b + c`` with one rounding: the product is exact in float64, and a sum that is not has
    its last bit set, so that it is on the same side of every float32 and every middle of two."""
    product, addend = np.float64(a) * np.float64(b), np.float64(c)
    total = np.asarray(product + addend)
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    even = (error != 0) & (bits % 2 == 0)
    odd = bits + np.where(even, np.where((error > 0) == (total > 0), 1, -1), 0)
    return odd.view(np.float64).astype(_f)


def _add(x: Pair, y: Pair) -> Pair:
    total = x[0] + y[0]
    back = total - x[0]
    return total, ((x[0] - (total - back)) + (y[0] - back)) + (x[1] + y[1])


def _join(x: Pair, y: Pair) -> Pair:
    """The sum, if x is the larger one."""
    total = x[0] + y[0]
    return total, x[0] - total + y[0] + x[1] + y[1]


def _multiply(x: Pair, y: Pair) -> Pair:
    product = x[0] * y[0]
    return product, _fma(x[0], y[1], _fma(x[1], y[0], _fma(x[0], y[0], -product)))


def _square(x: Pair) -> Pair:
    product = x[0] * x[0]
    return product, _fma(x[0] + x[0], x[1], _fma(x[0], x[0], -product))


def _divide(x: Pair, y: Pair) -> Pair:
    inverse = _ONE / y[0]
    quotient = x[0] * inverse
    error = _fma(-y[1], inverse, _fma(-y[0], inverse, _ONE))
    return quotient, _fma(quotient, error, _fma(x[1], inverse, _fma(inverse, x[0], -quotient)))
