"""Instruments: what can a model see of the order of its input?"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ._args import Array, fail, integer, matrix

__all__ = ["input_gap", "similarity"]


def input_gap(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """How far apart two inputs are when their order is ignored: 0 for the same vectors shuffled.

    Attention treats its input as a bag of vectors. This is the energy distance between two bags,
    ``2 E|a - b| - E|a - a'| - E|b - b'|``, each mean taken over all pairs of rows.

    Parameters
    ----------
    a, b : array_like
        One vector a row: shapes ``(n, dim)`` and ``(m, dim)``, n and m at least 1. Finite.

    Returns
    -------
    float
        In the unit of the vectors. Exactly 0.0 if every vector makes up the same share of both
        bags, in any order; otherwise positive, however small the difference.

    Raises
    ------
    TypeError
        If an argument is not made of integers or floats.
    ValueError
        If one is not a matrix with at least one row, holds NaN or infinity, or the widths differ.

    Notes
    -----
    How often a vector occurs counts: {x, x, y} is not {x, y, y}. Only shares can count, though: two
    copies of everything are the same mixture, and attention, which averages, gives the same
    outputs. Computed in float64. The sums are exact, so that the order of rows cannot matter; the
    error is that of the distances, a few ulp of the largest. Takes time and memory in proportion
    to ``(n + m)**2``.

    References
    ----------
    Szekely and Rizzo, "Energy statistics", Journal of Statistical Planning and Inference 143, 2013.

    Examples
    --------
    Swapping two words changes nothing until the words know their places:

    >>> import numpy as np
    >>> import posenc
    >>> dog_bites_man = np.random.default_rng(0).normal(size=(5, 8))
    >>> man_bites_dog = dog_bites_man[[0, 4, 2, 3, 1]]
    >>> posenc.input_gap(dog_bites_man, man_bites_dog)
    0.0
    >>> pe = posenc.reference.sinusoidal(5, 8)
    >>> posenc.input_gap(dog_bites_man + pe, man_bites_dog + pe) > 0
    True
    """
    fn = "input_gap"
    x, y = _bag(fn, "a", a), _bag(fn, "b", b)
    if x.shape[1] != y.shape[1]:
        fail(ValueError, fn, "b", f"must have {x.shape[1]} columns, as a has", y.shape[1])
    if _same_shares(x, y):
        return 0.0
    # Scaling by a power of two is exact and keeps differences and squares from overflowing.
    exponent = int(np.frexp(max(np.abs(x).max(), np.abs(y).max()))[1]) + 1
    x, y = np.ldexp(x, -exponent), np.ldexp(y, -exponent)
    n, m = len(x), len(y)
    gap = (
        2 * _total(_distances(x, y)) / (n * m)
        - _total(_distances(x, x)) / (n * n)
        - _total(_distances(y, y)) / (m * m)
    )
    # Different bags have a positive distance. Where it is lost in the rounding of the distances, or
    # below the smallest number, the smallest number stands for it.
    try:
        return max(math.ldexp(float(gap), exponent), math.ulp(0.0))
    except OverflowError:
        return math.inf


def similarity(table: npt.ArrayLike, position: int) -> Array:
    """Compare one row of a table with every row: the cosine of the angle between them.

    Parameters
    ----------
    table : array_like
        One row a position, shape ``(n, dim)``.
    position : int
        The row to compare with, 0 .. n-1.

    Returns
    -------
    ndarray
        Shape ``(n,)``, float64, in [-1, 1]; a row of zeros has no direction and is given 0.

    Raises
    ------
    TypeError
        If `table` is not made of integers or floats, or `position` is no integer.
    ValueError
        If `table` is not a matrix or holds NaN or infinity.
    IndexError
        If `position` is not a row of `table`.

    Notes
    -----
    Computed in float64, error below ``(dim + 4) * 2**-52``.

    Examples
    --------
    Near positions look alike, and the likeness falls off with ripples:

    >>> import posenc
    >>> table = posenc.reference.sinusoidal(128, 64)
    >>> posenc.similarity(table, 0)[[0, 1, 2, 5, 10, 25, 50, 100]].round(4)
    array([1.    , 0.9662, 0.8845, 0.7345, 0.6579, 0.6292, 0.4898, 0.5586])
    """
    fn = "similarity"
    rows = _finite_matrix(fn, "table", table)
    position = integer(fn, "position", position)
    if not 0 <= position < len(rows):
        fail(IndexError, fn, "position", f"must be one of the table's {len(rows)} rows", position)
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    rows = rows / np.where(
        largest == 0, 1.0, largest
    )  # the squares can neither over- nor underflow
    norms = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    rows = rows / np.where(norms == 0, 1.0, norms)
    return np.asarray(np.clip(rows @ rows[position], -1.0, 1.0))


def _finite_matrix(fn: str, name: str, value: npt.ArrayLike) -> Array:
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(matrix(fn, name, value), dtype=np.float64)
    if not np.isfinite(array).all():
        fail(ValueError, fn, name, "must be finite", array[~np.isfinite(array)][0])
    return array


def _bag(fn: str, name: str, value: npt.ArrayLike) -> Array:
    array = _finite_matrix(fn, name, value)
    if not len(array):
        fail(ValueError, fn, name, "must have at least one row", len(array))
    return array


def _same_shares(x: Array, y: Array) -> bool:
    if not x.shape[1]:
        return True
    (rows, counts), (others, other_counts) = (
        np.unique(z, axis=0, return_counts=True) for z in (x, y)
    )
    return np.array_equal(rows, others) and np.array_equal(counts * len(y), other_counts * len(x))


def _distances(x: Array, y: Array) -> Array:
    """Euclidean distance of every row of x from every row of y, shape (n, m)."""
    result = np.empty((len(x), len(y)))
    for row, target in zip(x, result, strict=True):
        gaps = np.abs(y - row)
        largest = gaps.max(axis=1)
        gaps /= np.where(largest == 0, 1.0, largest)[:, None]  # no square underflows
        target[:] = largest * np.sqrt((gaps * gaps).sum(axis=1))
    return result


def _total(distances: Array) -> Fraction:
    """The sum, to twice the precision of float64: fsum, and again for what it rounded off."""
    terms = distances.ravel().tolist()
    high = math.fsum(terms)
    return Fraction(high) + Fraction(math.fsum([*terms, -high]))
