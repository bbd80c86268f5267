"""Positions of tokens, from how a batch is laid out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ._args import Array, allocate, fail, named, real_array

__all__ = ["positions_from_lengths"]

_BLOCK = 1 << 14  # sequences or tokens at a time: little memory, and signals are seen between


@named("positions_from_lengths", out="cu_seqlens")
def positions_from_lengths(cu_seqlens: npt.ArrayLike) -> Array:
    """Positions in packed sequences: 0, 1, ... and from 0 again in every sequence.

    Token t of sequence s, ``cu_seqlens[s] <= t < cu_seqlens[s + 1]``, has the position
    ``t - cu_seqlens[s]``.

    Parameters
    ----------
    cu_seqlens : array_like of int
        Shape ``(n + 1,)``: where each of n sequences starts, then the number of tokens; the sums of
        the lengths, from 0. A sequence may be empty.

    Returns
    -------
    ndarray
        int64, shape ``(cu_seqlens[-1],)``, in tokens.

    Raises
    ------
    TypeError
        If `cu_seqlens` holds something else than integers.
    ValueError
        If it has not one axis, is empty, does not start at 0, or decreases.
    MemoryError
        If the positions do not fit.

    Notes
    -----
    Exact.

    References
    ----------
    Dao, "FlashAttention-2", 2023, arXiv:2307.08691; the name and the convention are those of its
    code for sequences of different lengths.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> positions = posenc.positions_from_lengths([0, 3, 3, 5])
    >>> positions
    array([0, 1, 2, 0, 1])
    >>> x = np.ones((5, 8, 64))  # tokens, heads, dim
    >>> y = posenc.rope(x, positions, seq_axis=0)
    >>> bool((y[3:] == posenc.rope(x[3:], seq_axis=0)).all())
    True
    """
    fn, name = "positions_from_lengths", "cu_seqlens"
    starts = real_array(fn, name, cu_seqlens, "integers")
    if starts.ndim != 1:
        fail(ValueError, fn, name, "must have one axis", starts.ndim)
    if not starts.size:
        fail(ValueError, fn, name, "must have at least one element", 0)
    if starts.dtype.kind == "f":
        fail(TypeError, fn, name, "must be an array of integers", starts.dtype)
    if starts[0] != 0:
        fail(ValueError, fn, name, "must start at 0", starts[0])
    if not starts.flags.c_contiguous:  # a view may repeat one number without end
        starts = starts.copy()
    for i in range(0, len(starts), _BLOCK):
        part = starts[i : i + _BLOCK + 1]
        falls = part[1:] < part[:-1]
        if falls.any():
            at = int(falls.argmax())
            fail(ValueError, fn, name, "must not decrease", f"{part[at + 1]} after {part[at]}")
    positions = allocate(fn, (int(starts[-1]),), np.dtype(np.int64))
    for i in range(0, len(starts), _BLOCK):
        part = starts[i : i + _BLOCK + 1].astype(np.int64)
        for low in range(part[0], part[-1], _BLOCK):
            high = min(low + _BLOCK, int(part[-1]))
            tokens = np.diff(np.clip(part, low, high))  # that each sequence has from low to high
            begins = np.repeat(part[:-1], tokens)
            np.subtract(np.arange(low, high), begins, out=positions[low:high])
    return positions
