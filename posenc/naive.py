"""The two schemes that everybody invents first, kept to show why nobody uses them.

The raw position has no bound: it grows with the text and drowns the embedding it is added to.
Divided by the length it is bounded, but one value then names many places: 0.5 is word 5 of 10 and
word 50 of 100.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ._args import (
    Array,
    allocate,
    as_positions,
    check_out,
    fail,
    float_dtype,
    is_bfloat16,
    positive_int,
)

__all__ = ["normalized_positions", "raw_positions"]

_BLOCK = 1 << 12  # positions at a time: keeps temporaries below a megabyte


def raw_positions(
    positions: int | npt.ArrayLike,
    dim: int,
    *,
    dtype: npt.DTypeLike = np.float64,
    out: Array | None = None,
) -> Array:
    """Write the position itself into every column: ``PE(p, j) = p``.

    Parameters
    ----------
    positions : int or array_like
        In tokens: a count n, meaning 0 .. n-1, or an array of integers or floats of any shape.
    dim : int
        The width of a row, at least 1.
    dtype : dtype, optional
        float16, bfloat16 (of ml_dtypes), float32 or float64.
    out : ndarray, optional
        Where to write, and what is returned: exactly the shape and dtype of the result, writeable.

    Returns
    -------
    ndarray
        Shape ``positions.shape + (dim,)``, or ``(n, dim)`` for a count.

    Raises
    ------
    TypeError
        If `positions` is not made of integers or floats (booleans are a mask, not positions), `dim`
        is no integer, or a dtype is none of the four.
    ValueError
        If a position is NaN or infinite, `dim` or the count is too small, or `out` has another
        shape or is read-only.
    MemoryError
        If the result does not fit.

    Notes
    -----
    Every element is the position rounded once to `dtype`, integers of 64 bits included. A position
    beyond the range of `dtype` (65504 for float16) becomes infinite.

    Examples
    --------
    The largest value is the length of the text, however small the embedding's own numbers are:

    >>> import posenc
    >>> posenc.raw_positions(3, 4)
    array([[0., 0., 0., 0.],
           [1., 1., 1., 1.],
           [2., 2., 2., 2.]])
    >>> posenc.raw_positions(1000, 4).max()
    np.float64(999.0)
    """
    fn = "raw_positions"
    where = as_positions(fn, positions)
    return _columns(fn, where, positive_int(fn, "dim", dim), 1, float_dtype(fn, dtype), out)


def normalized_positions(
    positions: int | npt.ArrayLike,
    dim: int,
    *,
    length: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    out: Array | None = None,
) -> Array:
    """Write position over length into every column: ``PE(p, j) = p / length``.

    Parameters
    ----------
    positions : int or array_like
        In tokens: a count n, meaning 0 .. n-1, or an array of integers or floats of any shape.
    dim : int
        The width of a row, at least 1.
    length : int, optional
        The length of the text in tokens, at least 1. By default the count, or the size of the last
        axis of an array.
    dtype : dtype, optional
        float16, bfloat16 (of ml_dtypes), float32 or float64.
    out : ndarray, optional
        Where to write, and what is returned: exactly the shape and dtype of the result, writeable.

    Returns
    -------
    ndarray
        Shape ``positions.shape + (dim,)``, or ``(n, dim)`` for a count.

    Raises
    ------
    TypeError
        If `positions` is not made of integers or floats (booleans are a mask, not positions), `dim`
        or `length` is no integer, or a dtype is none of the four.
    ValueError
        If a position is NaN or infinite, `dim`, `length` or the count is too small, a single
        position (an array without axes) comes without a length, or `out` has another shape or is
        read-only.
    MemoryError
        If the result does not fit.

    Notes
    -----
    Every element is the exact quotient, rounded once to `dtype`.

    Examples
    --------
    One value, two places: the fifth word of ten and the fiftieth of a hundred.

    >>> import posenc
    >>> posenc.normalized_positions(10, 1)[5], posenc.normalized_positions(100, 1)[50]
    (array([0.5]), array([0.5]))
    """
    fn = "normalized_positions"
    where = as_positions(fn, positions)
    dim = positive_int(fn, "dim", dim)
    if length is not None:
        length = positive_int(fn, "length", length)
    elif isinstance(where, int):
        length = where
    elif where.ndim:
        length = where.shape[-1]
    else:
        fail(ValueError, fn, "length", "must be given for a single position", None)
    return _columns(fn, where, dim, length, float_dtype(fn, dtype), out)


def _columns(
    fn: str, where: int | Array, dim: int, length: int, dtype: np.dtype[Any], out: Array | None
) -> Array:
    shape = (where,) if isinstance(where, int) else where.shape
    result = (
        allocate(fn, (*shape, dim), dtype)
        if out is None
        else check_out(fn, out, (*shape, dim), dtype)
    )
    if not isinstance(where, int):
        if np.may_share_memory(where, result):
            where = where.copy()  # a column of out may well hold the positions
        if where.ndim == 0:
            where, shape = where[None], (1,)
    rows = result[None] if result.ndim == 1 else result
    step = max(1, _BLOCK // max(1, math.prod(shape[1:])))
    for first in range(0, shape[0], step):
        last = min(first + step, shape[0])
        block = np.arange(first, last) if isinstance(where, int) else where[first:last]
        rows[first:last] = _quotient(block, length, dtype)[..., None]
    return result


def _quotient(p: Array, length: int, dtype: np.dtype[Any]) -> Array:
    """p / length, rounded once to dtype."""
    if length == 1 and p.dtype.itemsize <= 8 and not is_bfloat16(dtype):
        with np.errstate(over="ignore"):
            return p.astype(dtype)  # a cast of NumPy's rounds once, except from longdouble
    with np.errstate(over="ignore", under="ignore"):
        x = p.astype(np.float64)
        q = x / min(length, 1 << 53)
        result = _narrow(q, dtype)
        # The exact quotient lies between the neighbours of q. Where both round to one number, so
        # does everything between them; where not, one value in thousands, ask for the exact one.
        doubt = _narrow(np.nextafter(q, -np.inf), dtype) != _narrow(np.nextafter(q, np.inf), dtype)
        if dtype == np.float64 or length & (length - 1) == 0:
            doubt[...] = False  # the division rounds once, or not at all: ties are then common
    if length > 1 << 53:
        doubt[...] = True  # no float64 holds the length
    elif p.dtype.kind == "f":
        doubt |= x != p
    elif p.dtype.itemsize == 8:
        doubt |= (p > 1 << 53) | (p < -(1 << 53))
    for i in zip(*np.nonzero(doubt), strict=True):
        result[i] = _exact(p[i], length, dtype)
    return result


def _narrow(x: Array, dtype: np.dtype[Any]) -> Array:
    """Round float64 once to dtype."""
    with np.errstate(over="ignore", under="ignore"):
        if not is_bfloat16(dtype):
            return x.astype(dtype)
        # ml_dtypes goes by way of float32 and would round twice. Rounding to odd on the way (an
        # inexact result takes the neighbour whose last bit is 1) keeps what the second must know.
        y = x.astype(np.float32)
        even = y.view(np.uint32) & 1 == 0
        toward = np.where(x > y, np.float32(np.inf), np.float32(-np.inf))
        return np.where((y != x) & even, np.nextafter(y, toward), y).astype(dtype)


def _exact(p: Any, length: int, dtype: np.dtype[Any]) -> Array:
    """One quotient from integers of any size: to nearest for float64, else to odd and narrowed."""
    numerator, denominator = (int(p), 1) if isinstance(p, np.integer) else p.as_integer_ratio()
    exact = Fraction(numerator, denominator * length)
    try:
        near = float(exact)
    except OverflowError:  # a longdouble beyond float64
        near = math.inf if exact > 0 else -math.inf
    if dtype != np.float64 and near != exact and not np.float64(near).view(np.uint64) & 1:
        near = math.nextafter(near, math.inf if exact > near else -math.inf)
    return _narrow(np.array(near), dtype)
