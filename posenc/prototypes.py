"""The textbook's own functions under their own names: change the import, keep the program.

Each takes the arguments of the NumPy prototype it replaces and returns the same array in float64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from . import attention
from ._args import Array, fail, integer, positive_int, real_array
from .rope import rope
from .sinusoidal import sinusoidal

__all__ = ["attention_scores", "get_sinusoidal_encoding", "rotary_embedding", "sinusoidal_pe"]


def get_sinusoidal_encoding(max_len: int, d_model: int) -> Array:
    """Sinusoidal table: ``PE(p, 2i) = sin(p / 10000^(2i/d))``, ``PE(p, 2i+1) = cos`` of the same.

    Parameters
    ----------
    max_len : int
        Number of positions, in tokens: rows 0 .. max_len - 1.
    d_model : int
        The width of a row, at least 1. If it is odd, the last column is a sine without its cosine.

    Returns
    -------
    ndarray
        Shape ``(max_len, d_model)``, float64, correctly rounded.

    Raises
    ------
    TypeError
        If an argument is no integer.
    ValueError
        If `max_len` is negative or `d_model` below 1.
    MemoryError
        If the table does not fit.

    See Also
    --------
    posenc.sinusoidal : the same with positions, layouts, dtypes and `out`.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, section 3.5.

    Examples
    --------
    >>> from posenc.prototypes import get_sinusoidal_encoding
    >>> get_sinusoidal_encoding(2, 4).round(4)
    array([[0.    , 1.    , 0.    , 1.    ],
           [0.8415, 0.5403, 0.01  , 1.    ]])
    """
    return _table("get_sinusoidal_encoding", max_len, d_model)


def sinusoidal_pe(max_len: int, d_model: int) -> Array:
    """`get_sinusoidal_encoding` under the other name in use.

    Parameters
    ----------
    max_len : int
        Number of positions, in tokens: rows 0 .. max_len - 1.
    d_model : int
        The width of a row, at least 1.

    Returns
    -------
    ndarray
        Shape ``(max_len, d_model)``, float64, correctly rounded.

    Raises
    ------
    TypeError
        If an argument is no integer.
    ValueError
        If `max_len` is negative or `d_model` below 1.
    MemoryError
        If the table does not fit.

    Examples
    --------
    >>> from posenc.prototypes import sinusoidal_pe
    >>> sinusoidal_pe(128, 64).shape
    (128, 64)
    """
    return _table("sinusoidal_pe", max_len, d_model)


def rotary_embedding(x: npt.ArrayLike, seq_len: int, d_model: int) -> Array:
    """Turn each pair of channels (2i, 2i+1) of row p by the angle ``p * 10000^(-2i/d)`` radians.

    Parameters
    ----------
    x : array_like
        Queries or keys, shape ``(..., seq_len, d_model)``; row p stands at position p.
    seq_len : int
        Number of rows.
    d_model : int
        Number of channels, even.

    Returns
    -------
    ndarray
        The shape of `x`, float64: NumPy's result for a prototype that multiplies by float64 tables.

    Raises
    ------
    TypeError
        If `x` is not made of integers or floats, or a size is no integer.
    ValueError
        If `x` does not end in the axes (seq_len, d_model), or `d_model` is odd.

    See Also
    --------
    posenc.rope : the same with positions, layouts, dtypes and `out`.

    References
    ----------
    Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.

    Examples
    --------
    >>> from posenc.prototypes import rotary_embedding
    >>> rotary_embedding([[1.0, 0.0], [1.0, 0.0]], 2, 2).round(4)
    array([[1.    , 0.    ],
           [0.5403, 0.8415]])
    """
    fn = "rotary_embedding"
    array = real_array(fn, "x", x)
    shape = integer(fn, "seq_len", seq_len, least=0), positive_int(fn, "d_model", d_model)
    if shape[1] % 2:
        fail(ValueError, fn, "d_model", "must be even", d_model)
    if array.shape[-2:] != shape:
        fail(ValueError, fn, "x", f"last two axes must be {shape}", array.shape)
    return rope(array.astype(np.float64))


def attention_scores(x: npt.ArrayLike, k: npt.ArrayLike | None = None) -> Array:
    """Attention weights without weights to learn and without scaling: ``softmax(x @ k.T)``.

    Parameters
    ----------
    x : array_like
        Queries, shape ``(..., q_len, dim)``.
    k : array_like, optional
        Keys, shape ``(..., k_len, dim)``; by default `x` itself.

    Returns
    -------
    ndarray
        Shape ``(..., q_len, k_len)``; each row adds up to 1.

    Raises
    ------
    TypeError
        If an argument is not made of integers or floats.
    ValueError
        If one has fewer than two axes, or the two do not fit.

    See Also
    --------
    posenc.attention_scores : the product alone.

    Examples
    --------
    >>> from posenc.prototypes import attention_scores
    >>> attention_scores([[1, 0], [0, 1], [1, 1]]).round(3)
    array([[0.422, 0.155, 0.422],
           [0.155, 0.422, 0.422],
           [0.212, 0.212, 0.576]])
    """
    return attention.softmax(attention.compare("x", x, x if k is None else k))


def _table(fn: str, max_len: int, d_model: int) -> Array:
    rows = integer(fn, "max_len", max_len, least=0)
    return sinusoidal(rows, positive_int(fn, "d_model", d_model))
