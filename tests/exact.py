"""The truth: sines and cosines to 400 bits by MPFR, rounded once to the nearest number of a type.

Nothing here knows how posenc computes. `sinusoidal` takes the parameters of the public function and
returns what every element has to be, bit for bit; `phases` is the part that `rope` needs.
"""

from functools import lru_cache

import gmpy2
import ml_dtypes
import numpy as np

PRECISION = 400  # 124 bits of whole turns, 64 of cancellation near a zero, 53 of result, and spare
FORMATS = {
    "float16": (11, -14),
    "bfloat16": (8, -126),
    "float32": (24, -126),
    "float64": (53, -1022),
}
DTYPES = [np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}

# A tiny angle may be a midpoint of two numbers, 1.5 * 2^-1074 say, with its sine just below. So the
# angle is taken to more bits and rounded to nearest, and its sine is then cut off, not rounded.
_WIDE = gmpy2.context(precision=PRECISION + 40)
_ANGLE = gmpy2.context(precision=PRECISION)
_SINE = gmpy2.context(precision=PRECISION, round=gmpy2.RoundToZero)
_NARROW = {
    name: gmpy2.context(precision=bits, emin=emin - bits + 2, emax=1024, subnormalize=True)
    for name, (bits, emin) in FORMATS.items()
}


def bits(array):
    """The bit patterns of floats, which unlike == tell -0 from 0."""
    return np.ascontiguousarray(array).view(BITS[array.dtype.itemsize])


def nearest(x, dtype):
    """The number of `dtype` nearest to x, ties to even, subnormals included; as a float."""
    return float(_NARROW[np.dtype(dtype).name].plus(x))


def numbers(positions):
    """Positions, as sinusoidal takes them, in a flat list of Python numbers."""
    if isinstance(positions, (int, np.integer)):
        return range(int(positions))
    array = np.asarray(positions)
    if array.dtype.kind not in "iu":
        array = array.astype(np.float64)
    return array.ravel().tolist()


def shape_of(positions):
    return (positions,) if isinstance(positions, (int, np.integer)) else np.shape(positions)


def exactly(number):
    """An int or a float as an mpfr that holds it whole."""
    return gmpy2.mpfr(number, 64)


@lru_cache(maxsize=1 << 14)
def frequency(i, base, denom, scale=1.0):
    """scale * base^(-i / denom), in radians a token."""
    exponent = _WIDE.div(_WIDE.mul(_WIDE.log(exactly(base)), -i), exactly(denom))
    return _WIDE.mul(_WIDE.exp(exponent), exactly(scale))


@lru_cache(maxsize=1 << 18)
def sin_cos(p, w):
    if p == 0:
        return gmpy2.mpfr(0), gmpy2.mpfr(1)  # no -0, whatever the sign of w
    return _SINE.sin_cos(_ANGLE.mul(exactly(p), w))


def wave(dim, shift=0.0):
    """How many frequencies a table of this width has, and the denominator of their exponents."""
    if shift == 0:
        return (dim + 1) // 2, dim / 2
    return dim // 2, (dim // 2 - shift) or 1.0


def sinusoidal(
    positions,
    dim,
    dtype=np.float64,
    *,
    base=10000.0,
    layout="interleaved",
    shift=0.0,
    scale=1.0,
    cos_first=False,
    columns=None,
):
    """The table, or only some of its columns."""
    dtype = np.dtype(dtype)
    pairs, denom = wave(dim, shift)
    where = []  # the frequency of a column, and whether it holds the cosine
    for c in range(dim) if columns is None else columns:
        if c >= 2 * pairs:
            where.append(None)
            continue
        i, second = divmod(c, 2) if layout == "interleaved" else (c % pairs, c >= pairs)
        where.append((frequency(i, base, denom, scale), bool(second) != cos_first))
    narrow = _NARROW[dtype.name].plus
    flat = [
        0.0 if at is None else float(narrow(sin_cos(p, at[0])[at[1]]))
        for p in numbers(positions)
        for at in where
    ]
    return np.array(flat, np.float64).astype(dtype).reshape(*shape_of(positions), len(where))


def phases(positions, inv_freq):
    """Sine and cosine of p * w as mpfr, for frequencies w that are mpfr."""
    return [[sin_cos(p, w) for w in inv_freq] for p in numbers(positions)]
