"""Rows of tables: by position (a learned encoding), and by token, with the position's row added."""

from __future__ import annotations

from typing import Literal

import numpy.typing as npt

from . import _core
from ._args import Array

__all__ = ["embed", "lookup"]


def lookup(
    table: npt.ArrayLike, positions: int | npt.ArrayLike, *, out: Array | None = None
) -> Array:
    """Rows of a learned table: ``table[p]`` for every position p.

    A learned encoding has as many positions as its table has rows, and no more: past its end there
    is no formula to go on with, so it fails. Nor does it count from the end, as indexing would.

    Parameters
    ----------
    table : array_like
        Shape ``(n, dim)``: float16, bfloat16 (of ml_dtypes), float32 or float64, any strides;
        integers are taken as float64.
    positions : int or array_like of int
        In tokens: a count n, meaning 0 .. n-1, or an array of integers of any shape and width.
    out : ndarray, optional
        Where to write, and what is returned: exactly the shape and dtype of the result.

    Returns
    -------
    ndarray
        Shape ``positions.shape + (dim,)``, or ``(n, dim)`` for a count; the dtype of the table.
        A new array, bit for bit the rows of the table.

    Raises
    ------
    TypeError
        If the table is of another dtype, or the positions are no integers.
    ValueError
        If the table has not two axes, or `out` has another shape, is read-only or overlaps.
    IndexError
        If a position is below 0 or past the end of the table. Nothing is written then.
    MemoryError
        If the result does not fit.

    References
    ----------
    Gehring et al., "Convolutional Sequence to Sequence Learning", 2017, arXiv:1705.03122.

    Examples
    --------
    >>> import posenc
    >>> table = [[1.0, 2.0], [3.0, 4.0]]
    >>> posenc.lookup(table, [[1, 0, 1]])
    array([[[3., 4.],
            [1., 2.],
            [3., 4.]]])
    >>> posenc.lookup(table, [0, 2])
    Traceback (most recent call last):
    IndexError: lookup: positions: must be from 0 to 1 (the table has 2 rows), got 2 at (1,)
    """
    return _core.lookup(table, positions, out)


def embed(
    token_ids: npt.ArrayLike,
    weight: npt.ArrayLike,
    *,
    scale: float = 1.0,
    encoding: Literal["sinusoidal"] | npt.ArrayLike | None = None,
    positions: npt.ArrayLike | None = None,
    offset: int | npt.ArrayLike = 0,
    padding_idx: int | None = None,
    out: Array | None = None,
) -> Array:
    """Embed tokens and tell them their places, in one pass: ``weight[id] * scale + encoding[p]``.

    Each row is gathered, scaled, added to and written once; nothing of the size of the result is
    made in between, and no table of sines either: a few rows at a time are computed in the cache.

    Parameters
    ----------
    token_ids : array_like of int
        Any shape and width; the last axis is the sequence. No axis: a single token.
    weight : array_like
        Shape ``(vocab_size, dim)``: float16, bfloat16 (of ml_dtypes), float32 or float64, any
        strides; integers are taken as float64.
    scale : float, optional
        Multiplies the rows of `weight`; rounded to float32 first, unless that is float64.
    encoding : "sinusoidal", array_like or None, optional
        What is added: the rows of ``sinusoidal(p, dim, dtype=weight.dtype)``, those of a learned
        table ``(max_len, dim)`` of weight's dtype, or nothing.
    positions : array_like, optional
        In tokens: ``(seq,)``, ``(batch, seq)``, or of the shape of `token_ids` with axes of 1 where
        it repeats. Default: 0, 1, ... along the last axis. A learned table takes integers only.
    offset : int or array_like of int, optional
        Added to the positions; one integer for each row of the batch if an array.
    padding_idx : int, optional
        Rows of this token are all zeros: nothing is added there.
    out : ndarray, optional
        Where to write, and what is returned: exactly the shape and dtype of the result.

    Returns
    -------
    ndarray
        Shape ``token_ids.shape + (dim,)``, the dtype of `weight`.

    Raises
    ------
    TypeError
        If ids are no integers, or `weight` or a learned table is of another dtype.
    ValueError
        If shapes do not fit, `scale` or a position is not finite, `encoding` is another word, or
        `out` cannot take the result.
    IndexError
        If a token is not in `weight`, a position not in a learned table, or `padding_idx` not in
        `weight`. Everything is checked before anything is written.
    MemoryError
        If the result does not fit.

    Notes
    -----
    float32 and float64: equal, bit for bit, to ``weight[ids] * scale + encoding[p]`` in that dtype:
    the product rounded, then the sum. float16 and bfloat16: computed like that in float32, from the
    numbers as they are stored, and rounded once at the end.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, arXiv:1706.03762, section 3.4.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> weight = np.array([[0.5, 0.25], [1.0, 2.0]])
    >>> posenc.embed([1, 0], weight, scale=2.0)
    array([[2. , 4. ],
           [1. , 0.5]])
    >>> posenc.embed([1, 0], weight, scale=2.0, encoding="sinusoidal")
    array([[2.        , 5.        ],
           [1.84147098, 1.04030231]])
    >>> posenc.embed([1, 0], weight, encoding=[[10.0, 20.0]])
    Traceback (most recent call last):
    IndexError: embed: positions: must be from 0 to 0 (the table has 1 rows), got 1
    """
    return _core.embed(token_ids, weight, scale, encoding, positions, offset, padding_idx, out)
