"""Attention in plain NumPy: just enough of it to show what a positional encoding is for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ._args import Array, fail, integer, real_array

__all__ = ["attend", "attention_scores", "softmax"]


def softmax(x: npt.ArrayLike, axis: int = -1) -> Array:
    r"""Turn scores into weights: ``exp(x_i) / sum_j exp(x_j)``.

    Parameters
    ----------
    x : array_like
        Scores: integers or floats, any shape with at least one axis.
    axis : int, optional
        The axis along which the weights add up to 1.

    Returns
    -------
    ndarray
        The shape of `x`; its dtype if that is a float, else float64. float16 is computed in float32
        and rounded once; bfloat16 gives float32.

    Raises
    ------
    TypeError
        If `x` is not made of integers or floats, or `axis` is no integer.
    ValueError
        If `x` has no such axis.

    Notes
    -----
    The largest score is subtracted first, which changes nothing but keeps exp from overflowing.
    Scores of -inf get the weight 0; where all are -inf, there is nothing to share out and all
    weights are 0. A NaN or +inf makes NaN of the weights along its own axis. A weight is off by a
    few ulp of itself and ``|score - largest| * eps`` for what that subtraction rounds.

    Examples
    --------
    >>> import posenc
    >>> posenc.softmax([0.0, 0.0, -float("inf")])
    array([0.5, 0.5, 0. ])
    """
    fn = "softmax"
    scores = real_array(fn, "x", x)
    axis = integer(fn, "axis", axis)
    if not -scores.ndim <= axis < scores.ndim:
        fail(ValueError, fn, "axis", f"must be an axis of x, which has {scores.ndim}", axis)
    return _softmax(scores, axis)


def attention_scores(q: npt.ArrayLike, k: npt.ArrayLike) -> Array:
    """Compare every query with every key: the plain product ``q @ k.T``, not scaled.

    Parameters
    ----------
    q : array_like
        Queries, shape ``(..., q_len, dim)``.
    k : array_like
        Keys, shape ``(..., k_len, dim)``; the leading axes broadcast against those of `q`.

    Returns
    -------
    ndarray
        Shape ``(..., q_len, k_len)``; the wider of the two dtypes, float64 for integers.

    Raises
    ------
    TypeError
        If an argument is not made of integers or floats.
    ValueError
        If one has fewer than two axes, the widths differ, or the leading axes do not broadcast.

    Examples
    --------
    Each row of weights belongs to one token. Swap two tokens and the rows and columns swap: nothing
    else happens, so attention alone cannot see order.

    >>> import posenc
    >>> x = [[1, 0], [0, 1], [1, 1]]
    >>> posenc.softmax(posenc.attention_scores(x, x)).round(3)
    array([[0.422, 0.155, 0.422],
           [0.155, 0.422, 0.422],
           [0.212, 0.212, 0.576]])
    """
    return compare("q", q, k)


def attend(
    E: npt.ArrayLike,
    Wq: npt.ArrayLike,
    Wk: npt.ArrayLike,
    Wv: npt.ArrayLike,
    *,
    bias: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
) -> Array:
    """Scaled dot-product self-attention: ``softmax(Q K^T / sqrt(d_k) + bias) V``.

    ``Q = E Wq``, ``K = E Wk`` and ``V = E Wv``; d_k is the width of Q and K.

    Parameters
    ----------
    E : array_like
        Embeddings, shape ``(..., n, d)``.
    Wq, Wk : array_like
        Weights, shape ``(..., d, d_k)``.
    Wv : array_like
        Weights, shape ``(..., d, d_v)``. The leading axes of all four broadcast (batches, heads).
    bias : array_like, optional
        Added to the scaled scores, and broadcast against their shape ``(..., n, n)``.
    mask : array_like of bool, optional
        True where a query (row) may attend to a key (column); broadcast like `bias`.

    Returns
    -------
    ndarray
        Shape ``(..., n, d_v)``; the widest dtype of the arguments, float64 for integers.

    Raises
    ------
    TypeError
        If an array is not made of integers or floats, or `mask` not of booleans: a mask of 0 and
        -inf, which is to be added, is a `bias`.
    ValueError
        If widths or leading axes do not fit.

    Notes
    -----
    A query that may attend to nothing (all its keys masked, or biased by -inf) gets zeros.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1.

    Examples
    --------
    Shuffled tokens give shuffled outputs, and no other change:

    >>> import numpy as np
    >>> import posenc
    >>> rng = np.random.default_rng(0)
    >>> E = rng.normal(0, 1, (5, 8))
    >>> weights = [rng.normal(0, 0.5, (8, 8)) for _ in range(3)]
    >>> order = [3, 0, 4, 1, 2]
    >>> before, after = posenc.attend(E, *weights), posenc.attend(E[order], *weights)
    >>> np.allclose(before[order], after)
    True
    """
    fn = "attend"
    x = _matrix(fn, "E", E)
    width = x.shape[-1]
    lead = x.shape[:-2]
    weights = {name: _matrix(fn, name, W) for name, W in (("Wq", Wq), ("Wk", Wk), ("Wv", Wv))}
    for name, W in weights.items():
        if W.shape[-2] != width:
            fail(ValueError, fn, name, f"must have {width} rows, the width of E", W.shape[-2])
        lead = _broadcast(fn, name, "E", W.shape[:-2], lead)
    if weights["Wk"].shape[-1] != weights["Wq"].shape[-1]:
        wanted = f"must have {weights['Wq'].shape[-1]} columns, as Wq has"
        fail(ValueError, fn, "Wk", wanted, weights["Wk"].shape[-1])
    shape = (*lead, x.shape[-2], x.shape[-2])
    added = None if bias is None else real_array(fn, "bias", bias)
    for name, value in (("bias", added), ("mask", mask)):
        if value is not None and np.ndim(value) > 32:
            fail(ValueError, fn, name, "must have at most 32 axes", np.ndim(value))
    if added is not None:
        shape = _fit(fn, "bias", added, shape)
    allowed = None if mask is None else np.asarray(mask)
    if allowed is not None:
        if allowed.dtype != np.bool_:
            fail(TypeError, fn, "mask", "must be bool (True = may attend)", allowed.dtype)
        _fit(fn, "mask", allowed, shape)

    q, k, v = (_product(x, W) for W in weights.values())
    scores = _product(q, np.swapaxes(k, -1, -2))
    scores = scores / np.sqrt(max(q.shape[-1], 1), dtype=scores.dtype)
    if added is not None:
        scores = scores + added
    if allowed is not None:
        scores = np.where(allowed, scores, np.array(-np.inf, scores.dtype))
    return _product(_softmax(scores, -1), v)


def compare(name: str, q: npt.ArrayLike, k: npt.ArrayLike) -> Array:
    """`attention_scores`, for a caller whose queries go by another name."""
    fn = "attention_scores"
    queries, keys = _matrix(fn, name, q), _matrix(fn, "k", k)
    width = queries.shape[-1]
    if keys.shape[-1] != width:
        fail(ValueError, fn, "k", f"last axis must be {width}, as in {name}", keys.shape[-1])
    _broadcast(fn, "k", name, keys.shape[:-2], queries.shape[:-2])
    return _product(queries, np.swapaxes(keys, -1, -2))


def _softmax(scores: Array, axis: int) -> Array:
    kept = scores.dtype if scores.dtype.kind == "f" else np.dtype(np.float64)
    work = scores.astype(np.promote_types(kept, np.float32), copy=False)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        top = work.max(axis=axis, keepdims=True, initial=-np.inf)
        weights = np.exp(work - np.where(top == -np.inf, 0, top))
        total = weights.sum(axis=axis, keepdims=True)
        shares: Array = weights / np.where(total == 0, 1, total)
    return shares.astype(kept, copy=False)


def _matrix(fn: str, name: str, value: npt.ArrayLike) -> Array:
    array = real_array(fn, name, value)
    if array.ndim < 2:
        fail(ValueError, fn, name, "must have at least two axes", array.ndim)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _product(a: Array, b: Array) -> Array:
    """a @ b without warnings: NaN and infinity in the data show in the result."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        return np.asarray(np.matmul(a, b))


def _broadcast(
    fn: str, name: str, other: str, a: tuple[int, ...], b: tuple[int, ...]
) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        fail(ValueError, fn, name, f"leading axes must broadcast against {b} of {other}", a)


def _fit(fn: str, name: str, array: Array, scores: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of scores and array together; array may add leading axes, not queries or keys."""
    try:
        shape = np.broadcast_shapes(array.shape, scores)
    except ValueError:
        shape = ()
    if shape[-2:] != scores[-2:]:
        fail(ValueError, fn, name, f"must broadcast against the scores' {scores}", array.shape)
    return shape
