"""Rotary embedding beyond one call: tables to keep, queries and keys together, keys in a cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._args import Array, choice, fail, named
from .compat import float32_tables
from .plan import RopePlan, pack_turns, unpack_turns
from .sinusoidal import Layout

__all__ = ["apply_rope", "rope_qk", "rope_shift", "rope_tables"]


def _plan(fn: str, plan: RopePlan) -> RopePlan:
    if not isinstance(plan, RopePlan):
        fail(TypeError, fn, "plan", "must be a RopePlan", type(plan).__name__)
    return plan


def rope_tables(
    plan: RopePlan,
    positions: int | npt.ArrayLike,
    *,
    dtype: npt.DTypeLike = np.float32,
    compat: str | None = None,
) -> tuple[Array, Array]:
    """Cosines and sines of a plan at positions: ``cos(p inv_freq[i])``, times the attention factor.

    Parameters
    ----------
    plan : RopePlan
        For several position axes, `positions` has one more, leading, axis.
    positions : int or array_like
        In tokens: a count n, meaning 0 .. n-1, or an array of integers or floats of any shape.
    dtype : dtype, optional
        float16, bfloat16 (of ml_dtypes), float32 or float64.
    compat : {"float32"}, optional
        Round frequencies, angles, cosines, sines and their product with the attention factor to
        float32, in the order of Hugging Face transformers, before the cast to `dtype`: for those
        who must match it. See the notes for what this costs.

    Returns
    -------
    cos, sin : ndarray
        Each of shape ``positions.shape + (pairs,)``, without the leading axis of several: two
        views of one array.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, a position is not finite, or a plan with xPos meets
        `compat`.
    MemoryError
        If the tables do not fit.

    Notes
    -----
    Correctly rounded, the product with the attention factor too. With xPos it is that product in
    float64 times the power, which has an error of 2 ulp of float64, rounded once.

    With ``compat="float32"`` an angle is off by up to half an ulp of itself, and by what a rounded
    frequency adds: tables are wrong by 0.0006 near position 8000, by 0.05 and more at 1e6, and are
    noise from 1e8 on. Measured beside transformers 5.24 on torch 2.14 (x86-64 with AVX2):

    - Frequencies are equal bit for bit under every method that both have, for all 3833 compared,
      and so are the angles. On other CPUs torch may have one 1 ulp off where the number of pairs is
      no multiple of 32.
    - 95% to 99% of the cosines and sines are equal and the others 1 ulp apart, 2 with an attention
      factor. Here they are correctly rounded. In torch they are not, and their bits depend on the
      function called and on the build.

    References
    ----------
    Su et al., "RoFormer", 2021, arXiv:2104.09864.

    Examples
    --------
    >>> import posenc
    >>> cos, sin = posenc.rope_tables(posenc.rope_plan(4), [0, 1])
    >>> sin
    array([[0.        , 0.        ],
           [0.84147096, 0.00999983]], dtype=float32)
    """
    fn = "rope_tables"
    plan = _plan(fn, plan)
    if compat is None:
        both = _core.rope_tables(plan._parts, positions, dtype)
    else:
        choice(fn, "compat", compat, ("float32",))
        both = float32_tables(plan, positions, dtype)
    return both[..., 1, :], both[..., 0, :]


@named("apply_rope", x="x")
def apply_rope(
    x: npt.ArrayLike,
    cos: npt.ArrayLike,
    sin: npt.ArrayLike,
    *,
    layout: Layout = "interleaved",
    seq_axis: int = -2,
    out: Array | None = None,
) -> Array:
    """Turn the pairs of x by angles whose cosines and sines are given.

    Pair i, ``(a, b)``, becomes ``(a cos - b sin, b cos + a sin)``.

    Parameters
    ----------
    x : array_like
        As in `rope`.
    cos, sin : array_like
        Of one shape, the last axis one entry a pair: the first ``2 pairs`` channels of x turn.
        The axes before it are matched as positions are in `rope`.
    layout, seq_axis, out
        As in `rope`.

    Returns
    -------
    ndarray
        The shape and dtype of x.

    Raises
    ------
    TypeError, ValueError
        If shapes do not fit or an argument is of the wrong kind.

    Notes
    -----
    Float64 for float64 x, else float32, to which the tables are rounded. `rope` gives the same
    bits as its tables in that dtype.

    References
    ----------
    Su et al., "RoFormer", 2021, arXiv:2104.09864.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> cos, sin = posenc.rope_tables(posenc.rope_plan(4), 2, dtype="float64")
    >>> posenc.apply_rope(np.ones((2, 4)), cos, sin)
    array([[ 1.        ,  1.        ,  1.        ,  1.        ],
           [-0.30116868,  1.38177329,  0.98995017,  1.00994983]])
    """
    fn = "apply_rope"
    x = _real(fn, "x", x)
    wide = x.dtype.newbyteorder("=") == np.float64 or x.dtype.kind in "iu"
    tables = []
    for name, value in (("cos", cos), ("sin", sin)):
        table = _real(fn, name, value)
        if table.ndim == 0:
            fail(ValueError, fn, name, "must have at least one axis", 0)
        with np.errstate(over="ignore", invalid="ignore"):
            tables.append(table.astype(np.float64 if wide else np.float32, copy=False))
    if tables[0].shape != tables[1].shape:
        wanted = f"must have the shape of cos, {tables[0].shape}"
        fail(ValueError, fn, "sin", wanted, tables[1].shape)
    return _core.apply_rope(fn, x, tables[0], tables[1], layout, seq_axis, 0, False, out)


def _real(fn: str, name: str, value: npt.ArrayLike) -> Array:
    try:
        array = np.asarray(value)
    except ValueError:
        fail(TypeError, fn, name, "must be an array of real numbers", "a ragged list")
    if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":
        fail(TypeError, fn, name, "must be real numbers", array.dtype)
    return array


def rope_qk(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    positions: npt.ArrayLike | None = None,
    *,
    plan: RopePlan | None = None,
    base: float = 10000.0,
    layout: Layout = "interleaved",
    offset: int | npt.ArrayLike = 0,
    seq_axis: int = -2,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Turn queries and keys of the same positions: ``rope(q), rope(k)``.

    Parameters
    ----------
    q, k : array_like
        As x in `rope`; they may differ in the number of heads (grouped queries) and need not have
        the same dtype.
    positions, plan, base, layout, offset, seq_axis
        As in `rope`. Keys of a plan with xPos are divided by what multiplies the queries.
    out : tuple of two ndarrays, optional
        Where to write; ``out=(q, k)`` turns both in place.

    Returns
    -------
    q, k : ndarray

    Raises
    ------
    TypeError, ValueError
        As `rope` does; nothing is written if either argument is refused for its kind.

    Notes
    -----
    Sines and cosines are made in the cache, some rows at a time, and never written to memory.

    References
    ----------
    Su et al., "RoFormer", 2021, arXiv:2104.09864.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> q, k = posenc.rope_qk(np.ones((8, 5, 4)), np.ones((2, 5, 4)), offset=7)
    >>> bool((q[:2] == k).all())
    True
    """
    fn = "rope_qk"
    if out is None:
        outs: tuple[Any, Any] = (None, None)
    elif isinstance(out, tuple) and len(out) == 2:
        outs = out
    else:
        fail(TypeError, fn, "out", "must be a tuple of two arrays", type(out).__name__)
    parts = keys = None
    if plan is not None:
        if _plan(fn, plan)._of_keys:
            fail(ValueError, fn, "plan", "must be that of the queries", "that of the keys")
        parts, keys = plan._parts, plan.for_keys()._parts
    return _core.rope_qk(
        q, k, parts, keys, *outs, positions, offset, seq_axis, base, layout, False, False
    )


def rope_shift(
    k: Array,
    delta: int | float | npt.ArrayLike,
    *,
    plan: RopePlan,
    to: RopePlan | None = None,
    positions: npt.ArrayLike | None = None,
    seq_axis: int = -2,
    out: Array | None = None,
) -> Array:
    """Move turned keys, in place: from position p to ``p + delta``, and from one plan to another.

    Rotations add up, so the original keys are not needed: ``R(delta) R(p) k = R(p + delta) k``.

    Parameters
    ----------
    k : ndarray
        Keys turned by `plan`, as x in `rope`; they are overwritten.
    delta : int, float or array_like
        In tokens, for all keys, or matched as positions are in `rope`. Negative after the oldest
        keys have been dropped from a cache (context shift).
    plan : RopePlan
        The plan that turned them; with xPos, that of the queries or of the keys, as you have it.
    to : RopePlan, optional
        The plan they shall have (dynamic NTK and LongRoPE change theirs as a text grows, xPos its
        centre); of the same layout and channels.
    positions : array_like, optional
        With `to`: where the keys stand now, as in `rope`. Default: 0, 1, ...
    seq_axis : int, optional
        As in `rope`.
    out : ndarray, optional
        Where to write instead.

    Returns
    -------
    ndarray
        k, or `out`.

    Raises
    ------
    TypeError
        If k is no array of float16, bfloat16, float32 or float64.
    ValueError
        If the plans do not fit each other, or an argument is out of range.

    Notes
    -----
    The rotation between two plans is by ``p (w' - w)``, a difference taken to 250 bits. Each
    change rounds the keys once more, two when `to` and `delta` are given.

    References
    ----------
    Su et al., "RoFormer", 2021, arXiv:2104.09864.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> x, plan = np.ones((6, 4)), posenc.rope_plan(4)
    >>> cache = posenc.rope(x, plan=plan)[2:].copy()  # the first two have been dropped
    >>> np.allclose(posenc.rope_shift(cache, -2, plan=plan), posenc.rope(x[:4], plan=plan))
    True
    """
    fn = "rope_shift"
    if not isinstance(k, np.ndarray):
        fail(TypeError, fn, "k", "must be an array", type(k).__name__)
    if delta is None:
        fail(TypeError, fn, "delta", "must be one or more numbers", "None")
    keys = _plan(fn, plan).for_keys()
    center = keys.center
    steps: list[tuple[Any, Any, bool]] = []  # parts of a plan, positions, whether to turn back
    if to is not None:
        if not isinstance(to, RopePlan):
            fail(TypeError, fn, "to", "must be a RopePlan", type(to).__name__)
        keys = to.for_keys()
        steps = list(_between(fn, plan, to, positions))
    elif positions is not None:
        fail(ValueError, fn, "positions", "go with `to` only", "no `to`")
    by_position = len(steps)
    turns, axis, *channels, _, decay, _ = keys._parts
    if decay is not None:
        fading = _fading(keys, delta, center - keys.center, k.dtype)
        if len(fading) > 1 or (fading and center != keys.center):  # not in one step with the turn
            steps, decay = steps + fading, None
    steps.append(((turns, axis, *channels, 1.0, decay, 0.0), delta, False))
    target = k if out is None else out
    for run in (False, True):  # first all checks
        source = k
        for i, (parts, where, back) in enumerate(steps):
            names = {"x": "k", "out": "k" if out is None else "out"}
            if i >= by_position:
                names["positions"] = "delta"
            with named(fn, **names):
                source = _core.rope(
                    fn, source, parts, target, run, where, 0, seq_axis, 1.0, "half", back, False
                )
    return target


def _same(a: Array | None, b: Array | None) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


def _fading(
    keys: RopePlan, delta: Any, recentred: float, dtype: np.dtype[Any]
) -> list[tuple[tuple[Any, ...], Any, bool]]:
    """What multiplies keys of xPos on a move, in steps whose exponents the dtype can hold."""
    assert keys.decay is not None
    limit = {"float16": 10.0, "float64": 690.0}.get(dtype.name, 80.0)
    try:
        distance = np.asarray(delta, np.float64) + recentred
        far = float(np.abs(distance).max(initial=0))
    except (TypeError, ValueError):  # the core says what is wrong with it
        return []
    ratio = far * float(np.abs(keys.decay).max()) / limit
    count = math.ceil(min(ratio, 64.0)) if ratio > 1 else 1
    still = pack_turns([Fraction(0)] * len(keys.decay))
    parts = (still, None, *keys._parts[2:5], 1.0, keys._parts[6], 0.0)
    return [(parts, distance / count, False)] * count


def _between(
    fn: str, plan: RopePlan, to: RopePlan, positions: npt.ArrayLike | None
) -> Iterator[tuple[tuple[Any, ...], Any, bool]]:
    """What makes keys of one plan those of the other: parts, positions, whether to turn back."""
    channels = (to.layout, to.rotary_dim, to.start)
    old, new = plan.for_keys(), to.for_keys()
    fits = channels == (plan.layout, plan.rotary_dim, plan.start) and _same(
        to._parts[1], plan._parts[1]
    )
    if not (fits and _same(old.decay, new.decay)):
        wanted = "must have the layout, channels, axes and fading of plan"
        fail(ValueError, fn, "to", wanted, to)
    pairs = zip(unpack_turns(old._parts[0]), unpack_turns(new._parts[0]), strict=True)
    change = [b - a for a, b in pairs]
    ratio = to.attention_factor / plan.attention_factor
    for sign in (-1, 1):  # pairs that become slower are turned back, the others on
        turns = [max(Fraction(0), sign * t) for t in change]
        if any(turns) or ratio != 1.0:
            factor = 1 / ratio if sign < 0 else ratio  # turning back divides by it
            parts = (pack_turns(turns), to._parts[1], *channels, factor, None, 0.0)
            yield parts, positions, sign < 0
            ratio = 1.0
