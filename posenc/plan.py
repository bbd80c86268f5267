"""What every rotary scheme fills in: which channels turn, how fast, by which position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._args import Array, fail, integer, named, number
from ._args import layout as check_layout
from ._methods import TWO_PI
from .explain import explain_plan
from .sinusoidal import Layout

__all__ = ["RopePlan"]

_TWO_PI = Fraction(TWO_PI)


class RopePlan:
    """What a rotary embedding does to one head: made by `rope_plan`, used by `rope`.

    Pair i of the turning channels is rotated by ``position * inv_freq[i]`` radians. Every rotary
    scheme is a way to fill a plan. Plans that turn alike are equal, wherever they come from; a plan
    can be a key, be shared, copied and pickled, and does not change.

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
    naxes : int
        How many axes the positions have: 1 for text. One may turn no pair.
    layout : str
    rotary_dim : int
        How many channels turn: twice the number of pairs.
    start : int
    attention_factor : float
    decay : ndarray or None
        Of xPos: the logarithm a token of what multiplies each pair; None without.
    center : float
        Of xPos: the position where that is 1.
    notes : mapping
        Where the plan comes from, read-only: method, base, lengths, model. For people, and for
        `compat`, which rounds as the method does.

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
        "_of_keys",
        "_parts",
        "attention_factor",
        "axis",
        "center",
        "decay",
        "inv_freq",
        "layout",
        "naxes",
        "notes",
        "rotary_dim",
        "start",
    )

    decay: Array | None
    center: float
    notes: Mapping[str, Any]
    _parts: tuple[Any, ...]
    _of_keys: bool

    @named("RopePlan", out="inv_freq")
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
        if given.dtype.itemsize > 8:
            fail(TypeError, "RopePlan", "inv_freq", "must be numbers of 64 bits", given.dtype)
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
        naxes: int = 1,
        attention_factor: float = 1.0,
    ) -> None:
        check_layout("RopePlan", layout)
        try:
            axes = np.zeros(len(inv_freq), np.int64) if axis is None else np.array(axis)
        except ValueError:
            fail(TypeError, "RopePlan", "axis", "must be integers", "a ragged list")
        if axes.dtype.kind not in "iu":
            fail(TypeError, "RopePlan", "axis", "must be integers", axes.dtype)
        if axes.shape != inv_freq.shape or (axes < 0).any() or (axes >= 8).any():
            wanted = f"must be {len(inv_freq)} integers from 0 to 7"
            fail(ValueError, "RopePlan", "axis", wanted, axes)
        factor = number("RopePlan", "attention_factor", attention_factor, positive=True)
        if not 2.0**-100 <= factor <= 2.0**100:
            fail(ValueError, "RopePlan", "attention_factor", "must be from 2^-100 to 2^100", factor)
        start = integer("RopePlan", "start", start, least=0)
        if start > 2**30:
            fail(ValueError, "RopePlan", "start", "must be at most 2^30", start)
        self.inv_freq, self.axis = _frozen(inv_freq), _frozen(axes.astype(np.int64))
        self.naxes = max(naxes, int(axes.max(initial=0)) + 1)
        self.layout = layout
        self.rotary_dim = 2 * len(inv_freq)
        self.start = start
        self.attention_factor = factor
        self._note()
        self._decays(turns, None, 0.0)

    def __setattr__(self, name: str, value: object) -> None:
        """Set once: the core has its own copy, and a plan may be shared."""
        if hasattr(self, name):
            raise AttributeError(f"RopePlan: {name}: cannot be changed, make another plan")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        """Never."""
        raise AttributeError(f"RopePlan: {name}: cannot be deleted")

    def _decays(
        self, turns: Array, decay: Array | None, center: float, *, of_keys: bool = False
    ) -> None:
        """What xPos adds (decay: high parts, low parts), and the tuple for the core."""
        # for the core: of each pair, and the last one there is
        axis = _frozen(np.append(self.axis, self.naxes - 1)) if self.naxes > 1 else None
        decay = None if decay is None else _frozen(decay)
        whole = (self.layout, self.rotary_dim, self.start, self.attention_factor, decay, center)
        for name, value in (
            ("decay", None if decay is None else _frozen(decay[0])),
            ("center", center),
            ("_of_keys", of_keys),
            ("_parts", (_frozen(turns), axis, *whole)),
        ):
            object.__setattr__(self, name, value)

    def _note(self, **notes: Any) -> None:
        object.__setattr__(self, "notes", _fixed({**getattr(self, "notes", {}), **notes}))

    def _signature(self) -> tuple[Any, ...]:
        """All that counts; of the frequencies 128 bits, in which every way to them agrees."""
        parts = self._parts[0][:, 2:5], *self._parts[1:], self._of_keys
        return tuple(part.tobytes() if isinstance(part, np.ndarray) else part for part in parts)

    def __eq__(self, other: object) -> bool:
        """Whether both turn alike; where they come from does not matter."""
        if not isinstance(other, RopePlan):
            return NotImplemented
        return self is other or self._signature() == other._signature()

    def __hash__(self) -> int:
        return hash(self._signature())

    def __reduce__(self) -> tuple[Any, ...]:
        axes = self.axis, self.naxes
        state = self.inv_freq, self._parts, *axes, self._of_keys, _loose(self.notes)
        return _restored, (type(self), *state)

    def for_keys(self) -> RopePlan:
        """The plan of the keys: xPos divides them by what it multiplies the queries with.

        Returns
        -------
        RopePlan
            The plan itself if it does not decay, or is that of keys already.

        Examples
        --------
        >>> import posenc
        >>> plan = posenc.rope_plan(8)
        >>> plan.for_keys() is plan
        True
        """
        if self.decay is None or self._of_keys:
            return self
        keys, (turns, *_, decay, center) = copy(self), self._parts
        keys._decays(turns, -decay, center, of_keys=True)
        return keys

    def explain(self) -> str:
        """Say in words and a table what the plan does.

        Returns
        -------
        str
            Method, base, lengths, attention factor, wavelengths in tokens, and how many pairs turn
            as without scaling, slower, or in between.

        Examples
        --------
        >>> import posenc
        >>> print(posenc.rope_plan(4).explain().splitlines()[0].split())
        ['method', 'default']
        """
        return explain_plan(self)

    @classmethod
    def _exact(
        cls,
        freqs: Sequence[Fraction | Decimal],
        layout: Layout,
        start: int = 0,
        *,
        axis: npt.ArrayLike | None = None,
        naxes: int = 1,
        attention_factor: float = 1.0,
    ) -> RopePlan:
        """A plan of frequencies known to some 80 digits: rounded once for `inv_freq`."""
        plan = cls.__new__(cls)
        turns = pack_turns([Fraction(f) / _TWO_PI for f in freqs])
        inv_freq = np.array([float(f) for f in freqs])
        factor = attention_factor
        plan._fill(inv_freq, turns, layout, start, axis=axis, naxes=naxes, attention_factor=factor)
        return plan

    def __repr__(self) -> str:
        return (
            f"RopePlan(rotary_dim={self.rotary_dim}, layout={self.layout!r}, start={self.start}, "
            f"attention_factor={self.attention_factor})"
        )


def _frozen(array: Array) -> Array:
    """A copy that cannot be made writeable again."""
    base: object = array.base
    if isinstance(base, bytes):
        return array
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


def _fixed(value: Any) -> Any:
    """A value of notes that cannot be changed."""
    if isinstance(value, Mapping):
        return MappingProxyType({k: _fixed(v) for k, v in value.items()})
    return tuple(_fixed(v) for v in value) if isinstance(value, list | tuple) else value


def _loose(value: Any) -> Any:
    """The same as a dictionary, for pickles."""
    if isinstance(value, Mapping):
        return {k: _loose(v) for k, v in value.items()}
    return value


def _restored(
    kind: type[RopePlan],
    inv_freq: Array,
    parts: tuple[Any, ...],
    axis: Array,
    naxes: int,
    of_keys: bool,
    notes: dict[str, Any],
) -> RopePlan:
    """A plan from what `__reduce__` took of it."""
    plan = kind.__new__(kind)
    turns, _, layout, _, start, factor, decay, center = parts
    plan._fill(inv_freq, turns, layout, start, axis=axis, naxes=naxes, attention_factor=factor)
    plan._decays(turns, decay, center, of_keys=of_keys)
    plan._note(**notes)
    return plan


def pack_turns(turns: Sequence[Fraction]) -> Array:
    """Turns a token as the core keeps them: mantissa, exponent, fixed point (`pe_num`)."""
    packed = np.zeros((len(turns), 9), np.uint64)
    for row, t in zip(packed, turns, strict=True):
        if t == 0:
            continue
        exp = t.numerator.bit_length() - t.denominator.bit_length()
        mant = (t.numerator << (256 + 64 - exp)) // t.denominator  # 320 bits, give or take one
        excess = mant.bit_length() - 256
        mant, exp = mant >> excess, exp + excess - 64
        fixed = mant << exp >> 64 if exp > 0 else mant >> 64 - exp
        row[:] = [*_limbs(mant), exp % 2**64, *_limbs(fixed)]
    return packed


def _limbs(bits: int) -> list[int]:
    return [bits >> 64 * k & (2**64 - 1) for k in range(4)]


def unpack_turns(packed: Array) -> list[Fraction]:
    """The other way round."""
    result = []
    for a, b, c, d, exp, *_ in packed.tolist():
        mant = a | b << 64 | c << 128 | d << 192
        exp = exp - 2**64 if exp >= 2**63 else exp
        result.append(mant * Fraction(2) ** (exp - 256))
    return result
