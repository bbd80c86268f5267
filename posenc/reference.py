"""Every scheme again, the way a textbook states it: plain float64 NumPy, meant to be read.

The package's own results come from compiled code that works in integers and double-doubles.
Nothing of that is used here. Each function is the formula and little else, so it serves twice: as
teaching text, and as a second opinion that the tests hold the compiled code against.

The price of plainness is accuracy. An angle is a float64 product, off by up to a dozen times
``2**-53`` of itself, and sine and cosine inherit that: good to 1e-15 at position 1, to 1e-12 at a
thousand, to 1e-9 at a million.

A *position* p counts tokens from 0. A *pair* i is two channels that turn with one *frequency*,
``w_i = base^(-i / (dim/2 - shift))``, in radians a token; p w_i is their *angle*. In the *layout*
"interleaved" the pairs are channels (2i, 2i+1), in "half" channels (i, i + dim/2). Arguments mean
what they mean in the package:

positions
    A count n, meaning 0 .. n-1, or an array of any shape; the result has one more axis, of `dim`
    channels. Where x is transformed: None for 0, 1, ... along `seq_axis`, or one position for all,
    or an array ``(seq,)``, ``(batch, seq)`` or of one position a token.
offset
    Added to the positions: one, or one for each row of the batch, the first axis of x.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from . import _args as check
from ._args import Array

__all__ = [
    "add_sinusoidal",
    "alibi_bias",
    "alibi_slopes",
    "attend",
    "attention_scores",
    "embed",
    "lookup",
    "normalized_positions",
    "offset_rotation",
    "raw_positions",
    "rope",
    "sinusoidal",
    "softmax",
    "wavelengths",
]


def _frequencies(fn: str, dim: int, base: float = 10000.0, shift: float = 0.0) -> Array:
    """``w_i = base^(-i / (dim/2 - shift))``; without a shift, that is ``base^(-2i/dim)``.

    The first pair turns by one radian a token, each further pair more slowly by the same factor.
    The lone last channel of an odd dim has a frequency of its own if there is no shift, and none
    if there is. A single pair turns with frequency 1, even where a shift of 1 leaves it 0/0.
    """
    dim = check.positive_int(fn, "dim", dim)
    base = check.number(fn, "base", base, positive=True)
    shift = check.number(fn, "shift", shift)
    if shift == 0:
        pairs, steps = (dim + 1) // 2, dim / 2
    else:
        pairs, steps = dim // 2, dim // 2 - shift
    if steps == 0 and pairs == 1:
        return np.ones(1)
    if steps <= 0:
        check.fail(ValueError, fn, "shift", f"must be below {dim // 2}, half of dim", shift)
    return np.asarray(base ** (-np.arange(pairs) / steps))


def sinusoidal(
    positions: int | npt.ArrayLike,
    dim: int,
    *,
    base: float = 10000.0,
    layout: str = "interleaved",
    shift: float = 0.0,
    scale: float = 1.0,
    cos_first: bool = False,
) -> Array:
    """Each pair holds ``sin(scale p w_i)`` and ``cos(scale p w_i)``, cosine first if `cos_first`.

    The lone last channel of an odd `dim` holds the first of the two, or 0 if there is a shift.
    (Vaswani et al., "Attention Is All You Need", 2017, section 3.5.)

    >>> sinusoidal(2, 4).round(4)
    array([[0.    , 1.    , 0.    , 1.    ],
           [0.8415, 0.5403, 0.01  , 1.    ]])
    >>> sinusoidal(2, 4, layout="half").round(4)
    array([[0.    , 0.    , 1.    , 1.    ],
           [0.8415, 0.01  , 0.5403, 1.    ]])
    """
    fn = "sinusoidal"
    p = check.tokens(fn, positions)
    w = _frequencies(fn, dim, base, shift)
    layout = check.layout(fn, layout)
    scale = check.number(fn, "scale", scale)
    if scale == 0:
        check.fail(ValueError, fn, "scale", "must not be 0", scale)

    angle = scale * p[..., np.newaxis] * w
    first, second = np.sin(angle), np.cos(angle)
    if cos_first:
        first, second = second, first

    pe = np.zeros((*p.shape, dim))
    pairs, whole = len(w), dim // 2  # they differ by the lone channel of an odd dim
    if layout == "interleaved":
        pe[..., 0 : 2 * pairs : 2] = first
        pe[..., 1 : 2 * whole : 2] = second[..., :whole]
    else:
        pe[..., :pairs] = first
        pe[..., pairs : pairs + whole] = second[..., :whole]
    return pe


def add_sinusoidal(
    x: npt.ArrayLike,
    *,
    positions: npt.ArrayLike | None = None,
    offset: int | npt.ArrayLike = 0,
    seq_axis: int = -2,
    **encoding: Any,
) -> Array:
    """Add to every token the encoding of its position: ``x + PE(p)``, once, at the input.

    `encoding` holds the keywords of `sinusoidal`.

    >>> add_sinusoidal([[10.0, 20.0], [10.0, 20.0]]).round(2)
    array([[10.  , 21.  ],
           [10.84, 20.54]])
    """
    fn = "add_sinusoidal"
    x = check.features(fn, "x", x, least=1)
    p = check.token_positions(fn, x.shape[:-1], positions, offset, seq_axis)
    return x + sinusoidal(p, x.shape[-1], **encoding)


def wavelengths(dim: int, *, base: float = 10000.0) -> Array:
    """How many tokens each pair takes for a full turn: ``2 pi / w_i``.

    They run from ``2 pi`` to nearly ``2 pi base``. The first channels tell neighbours apart, and
    repeat within a sentence; the last hardly move, and tell a book's beginning from its end.

    >>> [round(float(tokens), 1) for tokens in wavelengths(64)[[0, 8, 20, 31]]]
    [6.3, 62.8, 1986.9, 47117.2]
    """
    return np.asarray(2 * np.pi / _frequencies("wavelengths", dim, base))


def offset_rotation(
    k: float, dim: int, *, base: float = 10000.0, layout: str = "interleaved"
) -> Array:
    """Build the matrix M that moves any encoding by k tokens: ``PE(p + k) = M PE(p)``.

    Each pair turns by ``a = k w_i``, for ``sin(x + a) = sin x cos a + cos x sin a`` and
    ``cos(x + a) = cos x cos a - sin x sin a``. M knows k and not p, which is how a model can learn
    to look at "the word before". A lone channel has no partner to turn with: `dim` must be even.

    >>> pe = sinusoidal(100, 8)
    >>> np.allclose(pe[3:], pe[:-3] @ offset_rotation(3, 8).T)
    True
    """
    fn = "offset_rotation"
    angles = check.number(fn, "k", k) * _frequencies(fn, dim, base)
    if dim % 2:
        check.fail(ValueError, fn, "dim", "must be even", dim)
    layout = check.layout(fn, layout)
    M = np.zeros((dim, dim))
    for i, a in enumerate(angles):
        s, c = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + dim // 2)
        M[s, s], M[s, c] = np.cos(a), np.sin(a)
        M[c, s], M[c, c] = -np.sin(a), np.cos(a)
    return M


def rope(
    x: npt.ArrayLike,
    positions: npt.ArrayLike | None = None,
    *,
    base: float = 10000.0,
    layout: str = "interleaved",
    offset: int | npt.ArrayLike = 0,
    seq_axis: int = -2,
    rotary_dim: int | None = None,
    inverse: bool = False,
) -> Array:
    """Turn each pair ``(a, b)`` by its angle t: ``(a cos t - b sin t, a sin t + b cos t)``.

    The product of q turned by ``m w`` and k turned by ``n w`` depends on ``n - m`` alone. Only the
    first `rotary_dim` channels turn, and `inverse` turns them back. (Su et al., "RoFormer", 2021.)

    >>> rope([[1.0, 0.0], [1.0, 0.0]]).round(4)
    array([[1.    , 0.    ],
           [0.5403, 0.8415]])
    """
    fn = "rope"
    x = check.features(fn, "x", x, least=1)
    p = check.token_positions(fn, x.shape[:-1], positions, offset, seq_axis)
    width, name = (x.shape[-1], "x") if rotary_dim is None else (rotary_dim, "rotary_dim")
    if check.positive_int(fn, name, width) % 2 or width > x.shape[-1]:
        check.fail(ValueError, fn, name, f"must be even and at most {x.shape[-1]}", width)

    angle = p[..., np.newaxis] * _frequencies(fn, width, base)
    cos, sin = np.cos(angle), np.sin(-angle if inverse else angle)
    if check.layout(fn, layout) == "interleaved":
        first, second = slice(0, width, 2), slice(1, width, 2)
    else:
        first, second = slice(0, width // 2), slice(width // 2, width)
    a, b = x[..., first], x[..., second]
    y = x.copy()
    y[..., first] = a * cos - b * sin
    y[..., second] = a * sin + b * cos
    return y


def alibi_slopes(num_heads: int, *, max_bias: float = 8.0) -> Array:
    """One slope a head: ``m_h = 2^(-max_bias h / n)``, h = 1 .. n, n a power of two.

    n is the largest power of two up to `num_heads`. Further heads take every other slope of the
    series for 2n heads, ``2^(-max_bias (2h - 1) / (2n))``: those which fall between the first n.
    (Press et al., "Train Short, Test Long", 2022, section 3.)

    >>> 1 / alibi_slopes(6)
    array([  4.,  16.,  64., 256.,   2.,   8.])
    """
    fn = "alibi_slopes"
    num_heads = check.positive_int(fn, "num_heads", num_heads)
    max_bias = check.number(fn, "max_bias", max_bias, positive=True)
    n = 2 ** (num_heads.bit_length() - 1)
    slopes = [2 ** (-max_bias * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-max_bias * (2 * h - 1) / (2 * n)) for h in range(1, num_heads - n + 1)]
    return np.array(slopes)


def alibi_bias(
    num_heads_or_slopes: int | npt.ArrayLike,
    q_len: int,
    k_len: int | None = None,
    *,
    symmetric: bool = True,
) -> Array:
    """Add to the scores before softmax: ``-m_h |i - j|`` for a query at i and a key at j.

    The queries are the last `q_len` of `k_len` keys. If not `symmetric`, keys after the query are
    out of reach: their bias is -inf. Shape ``(heads, q_len, k_len)``.

    >>> alibi_bias([0.5], 2, 4)
    array([[[-1. , -0.5,  0. , -0.5],
            [-1.5, -1. , -0.5,  0. ]]])
    >>> alibi_bias([0.5], 2, 4, symmetric=False)
    array([[[-1. , -0.5,  0. , -inf],
            [-1.5, -1. , -0.5,  0. ]]])
    """
    fn, heads = "alibi_bias", num_heads_or_slopes
    if isinstance(heads, (int, np.integer)):
        m = alibi_slopes(check.positive_int(fn, "num_heads_or_slopes", heads))
    else:
        m = check.real_array(fn, "num_heads_or_slopes", heads).astype(np.float64)
        if m.ndim != 1:
            check.fail(ValueError, fn, "num_heads_or_slopes", "must have one axis", m.ndim)
    q_len = check.integer(fn, "q_len", q_len, least=0)
    k_len = q_len if k_len is None else check.integer(fn, "k_len", k_len, least=q_len)

    i = np.arange(k_len - q_len, k_len)[:, np.newaxis]
    j = np.arange(k_len)
    bias = m[:, np.newaxis, np.newaxis] * -np.abs(i - j)
    return bias if symmetric else np.where(j > i, -np.inf, bias)


def lookup(table: npt.ArrayLike, positions: int | npt.ArrayLike) -> Array:
    """Take rows of a learned table: ``table[p]``. Past its last row there is nothing to take.

    >>> lookup([[1.0, 2.0], [3.0, 4.0]], [1, 0])
    array([[3., 4.],
           [1., 2.]])
    """
    fn = "lookup"
    rows = check.matrix(fn, "table", table)
    return rows[check.row_ids(fn, "positions", check.tokens(fn, positions), len(rows))]


def embed(
    token_ids: npt.ArrayLike,
    weight: npt.ArrayLike,
    *,
    scale: float = 1.0,
    encoding: str | npt.ArrayLike | None = None,
    positions: npt.ArrayLike | None = None,
    offset: int | npt.ArrayLike = 0,
    padding_idx: int | None = None,
) -> Array:
    """Embed tokens and tell them their places: ``scale weight[id] + encoding[p]``.

    `encoding` is "sinusoidal", a table of learned rows, or None. Tokens whose id is `padding_idx`
    get a row of zeros. `token_ids` has the shape ``(..., seq)``, and the result one more axis.

    >>> embed([1, 0], [[5.0, 6.0], [7.0, 8.0]], scale=10.0, encoding="sinusoidal").round(2)
    array([[70.  , 81.  ],
           [50.84, 60.54]])
    """
    fn = "embed"
    weight = check.features(fn, "weight", check.matrix(fn, "weight", weight))
    ids = check.row_ids(fn, "token_ids", check.real_array(fn, "token_ids", token_ids), len(weight))
    x = check.number(fn, "scale", scale) * weight[ids]
    if encoding is not None:
        p = check.token_positions(fn, ids.shape, positions, offset, -2)
        if isinstance(encoding, str):
            check.choice(fn, "encoding", encoding, ("sinusoidal",))
            x = x + sinusoidal(p, x.shape[-1])
        else:
            table = check.matrix(fn, "encoding", encoding)
            if table.shape[1] != x.shape[-1]:
                check.fail(ValueError, fn, "encoding", f"must be {x.shape[-1]} wide", table.shape)
            x = x + table[check.row_ids(fn, "positions", p, len(table))]
    if padding_idx is not None:
        x[ids == check.integer(fn, "padding_idx", padding_idx)] = 0.0
    return x


def raw_positions(positions: int | npt.ArrayLike, dim: int) -> Array:
    """The position itself in every column. It has no bound, and swamps what it is added to.

    >>> raw_positions(2, 3)
    array([[0., 0., 0.],
           [1., 1., 1.]])
    """
    p = check.tokens("raw_positions", positions)
    return np.repeat(p[..., np.newaxis], check.positive_int("raw_positions", "dim", dim), axis=-1)


def normalized_positions(
    positions: int | npt.ArrayLike, dim: int, *, length: int | None = None
) -> Array:
    """Position over length in every column. It is bounded, but one value means many places.

    `length` is by default the count of positions, or the size of their last axis.

    >>> normalized_positions(10, 1)[5], normalized_positions(100, 1)[50]
    (array([0.5]), array([0.5]))
    """
    fn = "normalized_positions"
    p = check.tokens(fn, positions)
    if length is None and p.ndim == 0:
        check.fail(ValueError, fn, "length", "must be given for a single position", length)
    length = max(p.shape[-1], 1) if length is None else check.positive_int(fn, "length", length)
    return np.repeat(p[..., np.newaxis] / length, check.positive_int(fn, "dim", dim), axis=-1)


def softmax(x: npt.ArrayLike, axis: int = -1) -> Array:
    """``exp(x_i) / sum_j exp(x_j)``, less the largest x, which changes only the range of exp.

    >>> softmax([0.0, 0.0])
    array([0.5, 0.5])
    """
    x = check.real_array("softmax", "x", x).astype(np.float64)
    weights = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(weights / weights.sum(axis=axis, keepdims=True))


def attention_scores(q: npt.ArrayLike, k: npt.ArrayLike) -> Array:
    """The product of every query with every key, ``q k^T``, over the last two axes.

    >>> attention_scores([[1, 0], [0, 1]], [[1, 2]])
    array([[1.],
           [2.]])
    """
    q, k = (check.features("attention_scores", name, a) for name, a in (("q", q), ("k", k)))
    return np.asarray(q @ np.swapaxes(k, -1, -2))


def attend(
    E: npt.ArrayLike,
    Wq: npt.ArrayLike,
    Wk: npt.ArrayLike,
    Wv: npt.ArrayLike,
    *,
    bias: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
) -> Array:
    """Scaled dot-product self-attention: ``softmax(Q K^T / sqrt(d_k) + bias) V``, Q = E Wq, ...

    Where `mask` is False a query may not attend to a key. If every key is as good as any other,
    each token gets the mean of all:

    >>> attend([[1.0], [3.0]], [[0.0]], [[0.0]], [[1.0]])
    array([[2.],
           [2.]])
    """
    fn = "attend"
    x = check.features(fn, "E", E)
    Q, K, V = (x @ check.features(fn, name, W) for name, W in (("Wq", Wq), ("Wk", Wk), ("Wv", Wv)))
    scores = attention_scores(Q, K) / np.sqrt(Q.shape[-1])
    if bias is not None:
        scores = scores + check.real_array(fn, "bias", bias)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    return np.asarray(softmax(scores) @ V)
