"""ALiBi: no vectors, no parameters, only a penalty on distance, of another slope for each head."""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

from . import _core
from ._args import Array, fail, named, number, positive_int, real_array

__all__ = ["alibi_bias", "alibi_slopes"]

_BITS = 192  # of every intermediate fraction


def alibi_slopes(num_heads: int, *, max_bias: float = 8.0) -> Array:
    """One slope a head: ``m_k = 2^(-max_bias k / n)``, k = 1 .. n, for a power of two n.

    n is the largest power of two up to `num_heads`. Further heads take the odd members of the
    series for 2n heads, ``2^(-max_bias (2k - 1) / (2n))``, k = 1, 2, ...

    Parameters
    ----------
    num_heads : int
        At least 1.
    max_bias : float, optional
        The exponent of the gentlest slope of the first n, ``2^-max_bias``; finite and above 0.

    Returns
    -------
    ndarray
        Shape ``(num_heads,)``, float64: what a score loses per token of distance.

    Raises
    ------
    TypeError
        If `num_heads` is no integer or `max_bias` no number.
    ValueError
        If `num_heads` is below 1, or `max_bias` is not finite and above 0.
    MemoryError
        If the result does not fit.

    Notes
    -----
    Correctly rounded, from integers only, so the same on every machine; powers of two are exact.

    References
    ----------
    Press, Smith and Lewis, "Train Short, Test Long", 2022, arXiv:2108.12409.

    Examples
    --------
    >>> import posenc
    >>> 1 / posenc.alibi_slopes(6)
    array([  4.,  16.,  64., 256.,   2.,   8.])
    """
    fn = "alibi_slopes"
    heads = positive_int(fn, "num_heads", num_heads)
    return _slopes(heads, number(fn, "max_bias", max_bias, positive=True)).copy()


@named("alibi_bias", memory="num_heads_or_slopes")
def alibi_bias(
    num_heads_or_slopes: int | npt.ArrayLike,
    q_len: int,
    k_len: int | None = None,
    *,
    symmetric: bool = True,
    dtype: npt.DTypeLike = np.float64,
    out: Array | None = None,
    view: bool = False,
) -> Array:
    """The bias of ALiBi, ``-m_h |i - j|`` for a query at i and a key at j, to add to the scores.

    The queries are the last `q_len` of the `k_len` keys: row r stands at ``i = k_len - q_len + r``.

    Parameters
    ----------
    num_heads_or_slopes : int or array_like
        A number of heads, for `alibi_slopes` of it, or the slopes: one axis, finite, of any sign.
    q_len : int
        The number of queries, at most `k_len`.
    k_len : int, optional
        The number of keys; by default `q_len`.
    symmetric : bool, optional
        If False, keys after the query are out of reach: ``-m_h (i - j)`` up to the query, -inf
        after it. This is the bias and the causal mask in one.
    dtype : dtype, optional
        float16, bfloat16 (of ml_dtypes), float32 or float64.
    out : ndarray, optional
        Where to write, and what is returned: exactly the shape and dtype of the result, any
        strides (a padded buffer, other orders of the axes).
    view : bool, optional
        Return a read-only view of ``heads * (q_len + k_len - 1)`` numbers instead of a new array.
        It costs next to nothing, and may be larger than the memory: ``scores += view``.

    Returns
    -------
    ndarray
        Shape ``(heads, q_len, k_len)``.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind, or a dtype is none of the four.
    ValueError
        If there are more queries than keys, a slope is not finite or they have not one axis, or
        `out` has another shape, is read-only, overlaps itself or comes with ``view=True``.
    MemoryError
        If the result does not fit; a view must only be below 2^63 bytes in name.

    Notes
    -----
    Each element is the float64 product of slope and distance, rounded once to `dtype`. float16
    ends at 65504: a slope of 1/2 becomes -inf from a distance of 131040 on. Narrow types cannot
    tell far neighbours apart: in float16, ``-4097/2`` and ``-4098/2`` are both stored as -2048.
    bfloat16 below 2^-126 is rounded twice.

    References
    ----------
    Press, Smith and Lewis, "Train Short, Test Long", 2022, arXiv:2108.12409.

    Examples
    --------
    >>> import posenc
    >>> posenc.alibi_bias([0.5], 2, 4)
    array([[[-1. , -0.5,  0. , -0.5],
            [-1.5, -1. , -0.5,  0. ]]])
    >>> posenc.alibi_bias([0.5], 2, 4, symmetric=False)
    array([[[-1. , -0.5,  0. , -inf],
            [-1.5, -1. , -0.5,  0. ]]])
    >>> posenc.alibi_bias(71, 32768, dtype="float32", view=True).nbytes  # of which 18.6 MB exist
    304942678016
    """
    fn, given = "alibi_bias", num_heads_or_slopes
    slopes = None
    if isinstance(given, (int, np.integer)):
        heads = positive_int(fn, "num_heads_or_slopes", given)
    else:
        slopes = _finite(fn, given)
        heads = len(slopes)
    bias, profile = _core.bias_arrays(fn, heads, q_len, k_len, dtype, out, view)
    if bias.size:
        slopes = _slopes(heads, 8.0) if slopes is None else slopes
        _core.alibi_profile(slopes, bias.shape[2], symmetric, profile)
    return _core.expand_bias(profile, bias)


def _finite(fn: str, slopes: npt.ArrayLike) -> Array:
    """The slopes as float64, a copy, so that `out` may be where they came from."""
    array = real_array(fn, "num_heads_or_slopes", slopes)
    if array.ndim != 1:
        fail(ValueError, fn, "num_heads_or_slopes", "must have one axis", array.ndim)
    with np.errstate(over="ignore"):
        result = array.astype(np.float64, order="C")
    if not np.isfinite(result).all():
        wrong = result[~np.isfinite(result)][0]
        fail(ValueError, fn, "num_heads_or_slopes", "must be finite", wrong)
    return result


@functools.lru_cache(maxsize=32)
def _slopes(heads: int, max_bias: float) -> Array:
    n = 1 << heads.bit_length() - 1
    try:
        slopes = np.empty(heads)
    except (MemoryError, ValueError):
        fail(MemoryError, "alibi_slopes", "num_heads", "must fit in memory", heads)
    # exponents k max_bias / (2n): even k for the first n heads, odd k for the others
    numerator, denominator = max_bias.as_integer_ratio()
    bits = (2 * n * denominator).bit_length() - 1
    roots = _roots(min(bits, _BITS))
    for i in range(heads):
        k = 2 * (i + 1) if i < n else 2 * (i - n) + 1
        slopes[i] = _power(k * numerator, bits, roots)
    slopes.flags.writeable = False
    return slopes


def _roots(count: int) -> list[int]:
    """2^(1/2), 2^(1/4), ... in units of 2^-192, each within a unit."""
    roots, root = [], 2 << _BITS
    for _ in range(count):
        root = math.isqrt(root << _BITS)
        roots.append(root)
    return roots


def _power(numerator: int, bits: int, roots: list[int]) -> float:
    """``2^-(numerator / 2^bits)``, rounded to nearest.

    Relative errors stay below 2^-180, and powers of two, the only results that could be a tie, are
    exact: so the rounding is the right one.
    """
    whole = -(-numerator >> bits)
    if whole > 1100:
        return 0.0
    rest = (whole << bits) - numerator  # 2^-x = 2^(rest / 2^bits) 2^-whole
    mantissa = 1 << _BITS
    for j, root in enumerate(roots, 1):
        if rest >> bits - j & 1:
            mantissa = mantissa * root >> _BITS
    return mantissa / (1 << _BITS + whole)
