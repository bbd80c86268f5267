"""Rotary position embedding: a plan says which pairs turn how fast, one function turns them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._args import Array, fail, integer, number, positive_int
from .sinusoidal import Layout

__all__ = ["RopePlan", "rope", "rope_plan"]


class RopePlan:
    """What a rotary embedding does to one head: made by `rope_plan`, used by `rope`.

    Pair i of the turning channels is rotated by ``position * inv_freq[i]`` radians. Every rotary
    scheme is a way to fill a plan.

    Parameters
    ----------
    inv_freq : array_like
        One angle a token for each pair, in radians; finite, not negative.
    layout : {"interleaved", "half"}, optional
        Pairs (2i, 2i + 1), or (i, i + rotary_dim/2).
    start : int, optional
        The first channel that turns; those outside ``start .. start + rotary_dim`` are copied.
    axis : array_like of int, optional
        Which axis of the positions turns each pair; default: zeros, text.
    attention_factor : float, optional
        Multiplies the turned channels.

    Attributes
    ----------
    inv_freq : ndarray
        float64, read-only.
    axis : ndarray
        int64, read-only: which axis of the positions turns each pair; zeros for text.
    layout : str
    rotary_dim : int
        How many channels turn: twice the number of pairs.
    start : int
    attention_factor : float
    notes : dict
        Where the plan comes from, for people: method, base, lengths, model.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    References
    ----------
    Su et al., "RoFormer", 2021, arXiv:2104.09864.

    Examples
    --------
    >>> import posenc
    >>> posenc.RopePlan([1.0, 0.1], layout="half")
    RopePlan(rotary_dim=4, layout='half', start=0, attention_factor=1.0)
    """

    __slots__ = (
        "_parts",
        "attention_factor",
        "axis",
        "inv_freq",
        "layout",
        "notes",
        "rotary_dim",
        "start",
    )

    def __init__(
        self,
        inv_freq: npt.ArrayLike,
        *,
        layout: Layout = "interleaved",
        start: int = 0,
        axis: npt.ArrayLike | None = None,
        attention_factor: float = 1.0,
    ) -> None:
        try:
            given = np.asarray(inv_freq)
        except ValueError:
            fail(TypeError, "RopePlan", "inv_freq", "must be real numbers", "a ragged list")
        if given.dtype.kind not in "iuf":
            fail(TypeError, "RopePlan", "inv_freq", "must be real numbers", given.dtype)
        freq = np.array(given, dtype=np.float64)
        if freq.ndim != 1:
            fail(ValueError, "RopePlan", "inv_freq", "must have one axis", freq.ndim)
        if not (np.isfinite(freq) & (freq >= 0) & (freq < 2.0**60)).all():
            fail(ValueError, "RopePlan", "inv_freq", "must be from 0 to 2^60", freq)
        turns = _core.turns_from(freq)
        self._fill(freq, turns, layout, start, axis=axis, attention_factor=attention_factor)

    def _fill(
        self,
        inv_freq: Array,
        turns: Array,
        layout: Layout,
        start: int = 0,
        *,
        axis: npt.ArrayLike | None = None,
        attention_factor: float = 1.0,
    ) -> None:
        if layout not in ("interleaved", "half"):
            wanted = 'must be "interleaved" or "half"'
            fail(ValueError, "RopePlan", "layout", wanted, repr(layout))
        axes = np.zeros(len(inv_freq), np.int64) if axis is None else np.array(axis)
        if axes.dtype.kind not in "iu":
            fail(TypeError, "RopePlan", "axis", "must be integers", axes.dtype)
        if axes.shape != inv_freq.shape or (axes < 0).any() or (axes >= 8).any():
            wanted = f"must be {len(inv_freq)} integers from 0 to 7"
            fail(ValueError, "RopePlan", "axis", wanted, axes)
        factor = number("RopePlan", "attention_factor", attention_factor, positive=True)
        self.inv_freq, self.axis = inv_freq, axes.astype(np.int64)
        inv_freq.flags.writeable = self.axis.flags.writeable = False
        self.layout = layout
        self.rotary_dim = 2 * len(inv_freq)
        self.start = integer("RopePlan", "start", start, least=0)
        self.attention_factor = factor
        # for the core: the frequencies again, in turns to 256 bits, exact at any position, and the rest
        several = self.axis if axes.any() else None
        self._parts = (turns, several, layout, self.rotary_dim, self.start, factor)
        self.notes: dict[str, Any] = {}

    @classmethod
    def _exact(
        cls,
        freqs: Sequence[Fraction | Decimal],
        layout: Layout,
        start: int = 0,
        *,
        axis: npt.ArrayLike | None = None,
        attention_factor: float = 1.0,
    ) -> RopePlan:
        """A plan of frequencies known to some 80 digits: rounded once for `inv_freq`."""
        plan = cls.__new__(cls)
        turns = _exact_turns([Fraction(f) for f in freqs])
        inv_freq = np.array([float(f) for f in freqs])
        plan._fill(inv_freq, turns, layout, start, axis=axis, attention_factor=attention_factor)
        return plan

    def __repr__(self) -> str:
        return (
            f"RopePlan(rotary_dim={self.rotary_dim}, layout={self.layout!r}, start={self.start}, "
            f"attention_factor={self.attention_factor})"
        )


# 2 pi to 90 digits
_TWO_PI = Fraction(
    "6.28318530717958647692528676655900576839433879875021164194988918461563281257241799725606965068"
)


def _exact_turns(freqs: Sequence[Fraction]) -> Array:
    """Frequencies in turns as the core keeps them: four limbs of mantissa, then the exponent."""
    turns = np.zeros((len(freqs), 5), np.uint64)
    for row, freq in zip(turns, freqs, strict=True):
        t = freq / _TWO_PI
        if t == 0:
            continue
        exp = t.numerator.bit_length() - t.denominator.bit_length()
        mant = (t.numerator << (256 + 64 - exp)) // t.denominator  # 320 bits, give or take one
        excess = mant.bit_length() - 256
        mant, exp = mant >> excess, exp + excess - 64
        row[:] = [mant >> 64 * k & (2**64 - 1) for k in range(4)] + [exp % 2**64]
    turns.flags.writeable = False
    return turns


def rope_plan(
    dim: int,
    *,
    base: float = 10000.0,
    layout: Layout = "interleaved",
    rotary_dim: int | None = None,
    start: int = 0,
) -> RopePlan:
    """The plan of the plain rotary embedding: ``inv_freq[i] = base^(-2i / rotary_dim)``.

    Parameters
    ----------
    dim : int
        The width of a head, at least 1.
    base : float, optional
        Finite and above 0.
    layout : {"interleaved", "half"}, optional
        Pairs (2i, 2i + 1) as in GPT-J and RoFormer, or (i, i + rotary_dim/2) as in GPT-NeoX and
        the Llama of Hugging Face.
    rotary_dim : int, optional
        How many channels turn, even, at most `dim` (default: all). The frequencies follow from
        this width, not from that of the head.
    start : int, optional
        The first channel that turns.

    Returns
    -------
    RopePlan

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Notes
    -----
    `inv_freq` is correctly rounded; rotations use the frequencies to 256 bits.

    References
    ----------
    Su et al., "RoFormer", 2021, arXiv:2104.09864.

    Examples
    --------
    >>> import posenc
    >>> posenc.rope_plan(8).inv_freq
    array([1.   , 0.1  , 0.01 , 0.001])
    >>> posenc.rope_plan(8, rotary_dim=4)
    RopePlan(rotary_dim=4, layout='interleaved', start=0, attention_factor=1.0)
    """
    dim = positive_int("rope_plan", "dim", dim)
    width = dim if rotary_dim is None else positive_int("rope_plan", "rotary_dim", rotary_dim)
    start = integer("rope_plan", "start", start, least=0)
    if width % 2:
        name = "dim" if rotary_dim is None else "rotary_dim"
        fail(ValueError, "rope_plan", name, "must be even", width)
    if start + width > dim:
        fail(ValueError, "rope_plan", "rotary_dim", f"must be at most {dim - start}", width)
    if layout not in ("interleaved", "half"):
        fail(ValueError, "rope_plan", "layout", 'must be "interleaved" or "half"', repr(layout))
    plan = RopePlan.__new__(RopePlan)
    inv_freq = _core.inv_freq("rope_plan", width, base, False)
    plan._fill(inv_freq, _core.turns("rope_plan", width, base, 0.0, 1.0), layout, start)
    return plan


def rope(
    x: npt.ArrayLike,
    positions: npt.ArrayLike | None = None,
    *,
    plan: RopePlan | None = None,
    base: float = 10000.0,
    layout: Layout = "interleaved",
    offset: int | npt.ArrayLike = 0,
    seq_axis: int = -2,
    inverse: bool = False,
    adjoint: bool = False,
    out: Array | None = None,
) -> Array:
    """Rotary position embedding: turn the pairs of each row of x by its position.

    Pair i, ``(a, b)``, at position p becomes ``(a cos t - b sin t, a sin t + b cos t)`` with
    ``t = p base^(-2i/dim)`` radians. The product of two turned rows depends on the difference of
    their positions only.

    Parameters
    ----------
    x : array_like
        Float16, bfloat16, float32 or float64, features along the last axis, any other axes, any
        strides; integers are taken as float64.
    positions : array_like, optional
        In tokens: ``(seq,)``, ``(batch, seq)`` with batch the first axis of x, or of the shape of x
        without its last axis (broadcast). Integers of any width or floats, of any sign. Default:
        0, 1, ... along `seq_axis`.
    plan : RopePlan, optional
        Which channels turn and how fast; replaces `base` and `layout`.
    base : float, optional
        Finite and above 0.
    layout : {"interleaved", "half"}, optional
        Pairs (2i, 2i + 1), or (i, i + dim/2).
    offset : int or array_like of int, optional
        Added to the positions (the length of the cache); an array has one integer for each row
        of the batch, and then no positions may be given.
    seq_axis : int, optional
        The axis of x along which tokens follow each other: -2 for (batch, heads, seq, dim),
        1 for (batch, seq, heads, dim).
    inverse : bool, optional
        Turn back: ``rope(rope(x, p), p, inverse=True)`` is x to rounding.
    adjoint : bool, optional
        Turn back as a gradient does: the plan's attention factor f multiplies, where the inverse
        divides by it.
    out : ndarray, optional
        Where to write, and what is returned: the shape and dtype of the result. ``out=x`` turns x
        in place; any other overlap is refused.

    Returns
    -------
    ndarray
        The shape and dtype of x. Channels that do not turn are copied bit for bit.

    Raises
    ------
    TypeError
        If x or positions hold something else than such numbers.
    ValueError
        If the last axis is odd or too narrow for the plan, shapes do not fit, a position is not
        finite, or `out` cannot take the result.

    Notes
    -----
    Sines and cosines are correctly rounded (float32 for the narrow dtypes); the error of the
    result is below 2 ulp of the norm of its pair. Bits do not depend on the CPU, the number of
    threads, or how rows are grouped into calls.

    References
    ----------
    Su et al., "RoFormer", 2021, arXiv:2104.09864.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> posenc.rope(np.array([1.0, 2.0, 3.0, 4.0]), 1)
    array([-1.14263966,  1.9220756 ,  2.95985067,  4.0297995 ])
    >>> posenc.rope(np.array([1.0, 2.0, 3.0, 4.0]), 1, layout="half")
    array([-1.98411065,  1.95990067,  2.4623779 ,  4.01979967])
    """
    if plan is None:
        parts = None
    elif isinstance(plan, RopePlan):
        parts = plan._parts
    else:
        fail(TypeError, "rope", "plan", "must be a RopePlan", type(plan).__name__)
    return _core.rope(x, positions, offset, seq_axis, parts, base, layout, inverse, adjoint, out)
