"""The sinusoidal table of "Attention Is All You Need", correctly rounded at every position."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from . import _core
from ._args import Array, allocate, fail, named, number, positive_int
from ._args import layout as check_layout

__all__ = ["add_sinusoidal", "offset_rotation", "sinusoidal", "wavelengths"]

Layout = Literal["interleaved", "half"]

# The published variants differ in two choices: where sine and cosine stand, and the last frequency.
_CONVENTIONS: dict[str, tuple[Layout, float]] = {
    "vaswani": ("interleaved", 0.0),
    "marian": ("half", 0.0),
    "tensor2tensor": ("half", 1.0),
    "fairseq": ("half", 1.0),
    "whisper": ("half", 1.0),
}


def sinusoidal(
    positions: int | npt.ArrayLike,
    dim: int,
    *,
    base: float = 10000.0,
    layout: Layout = "interleaved",
    shift: float = 0.0,
    scale: float = 1.0,
    cos_first: bool = False,
    convention: str | None = None,
    dtype: npt.DTypeLike = np.float64,
    out: Array | None = None,
) -> Array:
    """Sinusoidal positional encoding: ``sin(p w_i)`` and ``cos(p w_i)`` in pairs of columns.

    The frequencies are ``w_i = base^(-2i/dim)`` radians a token, so that column ``2i`` holds
    ``sin(p / base^(2i/dim))`` and column ``2i + 1`` the cosine of the same angle.

    Parameters
    ----------
    positions : int or array_like
        In tokens: a count n, meaning 0 .. n-1, or an array of integers or floats of any shape.
        Integers of any width are exact; floats are taken as they are, up to 2^64 in magnitude.
    dim : int
        The width of a row, at least 1. An odd width ends with a lone sine.
    base : float, optional
        The ratio of the longest to the shortest wavelength, nearly; finite and above 0.
    layout : {"interleaved", "half"}, optional
        Sine and cosine of a frequency side by side, or all sines, then all cosines.
    shift : float, optional
        With a shift s other than 0 the frequencies are ``base^(-i / (dim//2 - s))``, as
        tensor2tensor (s = 1) and diffusion models have it, and an odd width ends with a zero.
    scale : float, optional
        Multiplies the positions (exactly).
    cos_first : bool, optional
        Cosines in the place of sines, and the other way round.
    convention : str, optional
        A published choice of layout and shift by name: "vaswani", "marian", "tensor2tensor",
        "fairseq" or "whisper". Give it instead of `layout` and `shift`.
    dtype : dtype, optional
        float16, bfloat16 (of ml_dtypes), float32 or float64.
    out : ndarray, optional
        Where to write, and what is returned: exactly the shape and dtype of the result.

    Returns
    -------
    ndarray
        Shape ``positions.shape + (dim,)``, or ``(n, dim)`` for a count.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind: positions that are no integers or floats, a dtype
        that is none of the four.
    ValueError
        If a position is NaN, infinite or beyond 2^64, `dim` is below 1, a number is out of its
        range, a name is unknown, or `out` has another shape, is read-only or overlaps.
    MemoryError
        If the result does not fit.

    Notes
    -----
    Every element is the floating-point number nearest to the exact value (0.5 ulp), whatever the
    position, the CPU, the number of threads or the slice of the table that is asked for.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, arXiv:1706.03762.

    Examples
    --------
    >>> import posenc
    >>> posenc.sinusoidal(2, 4)
    array([[0.        , 1.        , 0.        , 1.        ],
           [0.84147098, 0.54030231, 0.00999983, 0.99995   ]])
    >>> posenc.sinusoidal([1_000_000_000], 4, dtype="float32")
    array([[ 0.5458434 ,  0.83788717,  0.42054778, -0.9072704 ]],
          dtype=float32)
    """
    if convention is not None:
        layout, shift = _convention(convention, layout, shift, dim)
    return _core.sinusoidal(positions, dim, base, layout, shift, scale, cos_first, dtype, out)


def _convention(name: str, layout: Layout, shift: float, dim: int) -> tuple[Layout, float]:
    if not isinstance(name, str):
        fail(TypeError, "sinusoidal", "convention", "must be a string", type(name).__name__)
    if name not in _CONVENTIONS:
        known = ", ".join(map(repr, _CONVENTIONS))
        fail(ValueError, "sinusoidal", "convention", f"must be one of {known}", repr(name))
    if (layout, shift) != ("interleaved", 0.0):
        fail(ValueError, "sinusoidal", "convention", "stands for layout and shift", "them as well")
    if name == "whisper" and isinstance(dim, int) and dim % 2:
        fail(ValueError, "sinusoidal", "dim", "must be even for whisper", dim)
    return _CONVENTIONS[name]


def add_sinusoidal(
    x: npt.ArrayLike,
    *,
    positions: npt.ArrayLike | None = None,
    offset: int | npt.ArrayLike = 0,
    seq_axis: int = -2,
    base: float = 10000.0,
    layout: Layout = "interleaved",
    shift: float = 0.0,
    scale: float = 1.0,
    cos_first: bool = False,
    out: Array | None = None,
) -> Array:
    """Add the sinusoidal encoding to x in one pass: ``x + sinusoidal(positions, x.shape[-1])``.

    No table is made: a few rows at a time are computed in the cache and added where they belong.

    Parameters
    ----------
    x : array_like
        Float16, bfloat16, float32 or float64, features along the last axis; integers are taken as
        float64.
    positions : array_like, optional
        In tokens: ``(seq,)``, ``(batch, seq)`` with batch the first axis of x, or of the shape of x
        without its last axis (broadcast). Default: 0, 1, ... along `seq_axis`.
    offset : int or array_like of int, optional
        Added to the positions; one integer for each row of the batch if an array.
    seq_axis : int, optional
        The axis of x along which tokens follow each other.
    base, layout, shift, scale, cos_first
        As in `sinusoidal`.
    out : ndarray, optional
        Where to write, and what is returned: the shape and dtype of the result; x itself is fine.

    Returns
    -------
    ndarray
        The shape and dtype of x.

    Raises
    ------
    TypeError
        If x or positions hold something else than such numbers.
    ValueError
        If shapes do not fit, a position is not finite, or `out` cannot take the result.

    Notes
    -----
    Equal, bit for bit, to adding a table of x's dtype: the table correctly rounded, the sum
    rounded once.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, arXiv:1706.03762.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> posenc.add_sinusoidal(np.ones((2, 4)))
    array([[1.        , 2.        , 1.        , 2.        ],
           [1.84147098, 1.54030231, 1.00999983, 1.99995   ]])
    """
    return _core.add_sinusoidal(
        x, positions, offset, seq_axis, base, layout, shift, scale, cos_first, out
    )


def wavelengths(dim: int, *, base: float = 10000.0) -> Array:
    """Tokens per turn of each frequency: ``2 pi base^(2i/dim)``.

    Parameters
    ----------
    dim : int
        The width of the encoding, at least 1.
    base : float, optional
        As in `sinusoidal`.

    Returns
    -------
    ndarray
        Shape ``(ceil(dim / 2),)``, float64, in tokens; from 2 pi to nearly ``2 pi base``.

    Raises
    ------
    TypeError, ValueError
        If `dim` is no integer of at least 1, or `base` is not finite and above 0.

    Notes
    -----
    Correctly rounded.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, arXiv:1706.03762.

    Examples
    --------
    >>> import posenc
    >>> [f"{w:.1f}" for w in posenc.wavelengths(64)[[0, 8, 20, 31]]]
    ['6.3', '62.8', '1986.9', '47117.2']
    """
    return _core.inv_freq("wavelengths", dim, base, True)


def offset_rotation(
    k: float, dim: int, *, base: float = 10000.0, layout: Layout = "interleaved"
) -> Array:
    """The matrix M with ``PE(p + k) = M PE(p)`` for every position p.

    A fixed offset is a fixed rotation: pair i turns by the angle ``k w_i``, so M holds one
    2 x 2 block ``[[cos, sin], [-sin, cos]]`` a frequency and does not depend on p.

    Parameters
    ----------
    k : float
        The offset, in tokens; of any sign.
    dim : int
        The width of the encoding, even.
    base, layout
        As in `sinusoidal`.

    Returns
    -------
    ndarray
        Shape ``(dim, dim)``, float64, orthogonal to rounding.

    Raises
    ------
    TypeError, ValueError
        If `k` is no finite number, or `dim` is no even integer of at least 2.

    Notes
    -----
    Each element is correctly rounded.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, arXiv:1706.03762, section 3.5.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> M = posenc.offset_rotation(5, 64)
    >>> table = posenc.sinusoidal(100, 64)
    >>> np.allclose(table[5:], table[:-5] @ M.T, rtol=0, atol=1e-14)
    True
    """
    fn = "offset_rotation"
    row = np.asarray(number(fn, "k", k))
    dim = positive_int(fn, "dim", dim)
    if dim % 2:
        fail(ValueError, fn, "dim", "must be even", dim)
    check_layout(fn, layout)
    _core.inv_freq(fn, 2, base, False)  # checks base, under this function's name
    matrix = allocate(fn, (dim, dim), np.dtype(np.float64))
    matrix[...] = 0.0
    with named(fn, positions="k"):
        turned = _core.sinusoidal(row, dim, base, layout, 0.0, 1.0, False, np.float64, None)
    i = np.arange(dim // 2)
    a, b = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + dim // 2)
    sine, cosine = turned[a], turned[b]
    matrix[a, a] = matrix[b, b] = cosine
    matrix[a, b], matrix[b, a] = sine, -sine
    return matrix
