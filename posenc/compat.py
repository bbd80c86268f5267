"""Tables rounded where other libraries round them, for those who must match these, errors included.

Hugging Face transformers, and most code for torch, keep frequencies, positions and angles in
float32. The rounding of the angle alone, half an ulp of p w radians, moves a cosine by 0.05 at
position 1e6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._args import Array, fail
from ._methods import CONTEXT
from ._powf import powers
from .plan import RopePlan

__all__ = ["float32_frequencies", "float32_tables"]

_f = np.float32
_ONE = _f(1)
_AT_A_TIME = 1 << 14  # pairs: what fits the cache
_SURE = 2.0**-50  # above the error of a turned value


def float32_frequencies(plan: RopePlan) -> Array:
    """Frequencies in the order of Hugging Face: numbers in float64, arrays of them in float32.

    For "default", ``1 / fl32(base)^fl32(2i/dim)``; each method then continues in float32.

    Parameters
    ----------
    plan : RopePlan
        Its `notes` say the method and its numbers. Where Hugging Face has no such method ("ntk"
        with `mixed_b`, axial plans but those of Pixtral, Qwen2-VL and Llama 4), or nothing is
        noted, `inv_freq` is rounded to float32.

    Returns
    -------
    ndarray
        float32, one a pair.

    Notes
    -----
    Bit for bit those of transformers 5.24 on torch 2.14 (x86-64 with AVX2): compared are 3833 of
    92 plans, published models and made up ones, under every method.

    Torch's power is not one function. Each whole 16 pairs go through that of SLEEF, good to 1 ulp,
    and the others through that of the C library, for which stands the correctly rounded one (4 of
    8560 were another). With AVX-512 it is each whole 32, and without AVX2 none; so where pairs are
    no multiple of 32 some frequencies may be 1 ulp off there.

    References
    ----------
    Su et al., "RoFormer", 2021, arXiv:2104.09864; Shibata and Petrogalli, "SLEEF", 2020,
    doi:10.1109/TPDS.2019.2960333.

    Examples
    --------
    >>> import posenc
    >>> from posenc.compat import float32_frequencies
    >>> float32_frequencies(posenc.rope_plan(8))
    array([1.   , 0.1  , 0.01 , 0.001], dtype=float32)
    """
    notes = plan.notes
    method = str(notes.get("method")).partition(",")[0]
    with np.errstate(all="ignore"):
        if notes.get("axial", ("",))[0] in ("pixtral", "qwen2_vl", "llama4"):
            return _axial(plan.rotary_dim, *notes["axial"])
        if method not in _ORDERS or "scaling" not in notes or "mixed_b" in notes["scaling"]:
            return plan.inv_freq.astype(_f)
        return _ORDERS[method](plan, notes["scaling"])


def _exponents(width: int, count: int) -> Array:
    return np.arange(0, 2 * count, 2).astype(_f) / _f(width)


def _axial(width: int, convention: str, base: float) -> Array:
    if convention == "pixtral":
        inv_freq = _ONE / powers(base, _exponents(width, width // 2))
        return np.concatenate([inv_freq[0::2], inv_freq[1::2]])
    return np.tile(_ONE / powers(base, _exponents(width // 2, width // 4)), 2)


def _powers(plan: RopePlan, base: float | None = None) -> Array:
    exponents = _exponents(plan.rotary_dim, plan.rotary_dim // 2)
    return powers(plan.notes["base"] if base is None else base, exponents)


def _default(plan: RopePlan, _: Mapping[str, Any]) -> Array:
    return _ONE / _powers(plan)


def _linear(plan: RopePlan, _: Mapping[str, Any]) -> Array:
    return _ONE / _powers(plan) / _f(plan.notes["factor"])


def _ntk(plan: RopePlan, _: Mapping[str, Any]) -> Array:
    base = plan.notes["base"] * _power(plan.notes["factor"], _exponent(plan))
    return _ONE / _powers(plan, base)


def _dynamic(plan: RopePlan, scaling: Mapping[str, Any]) -> Array:
    """Up to the trained length in float64; beyond, where the length comes from an array, not."""
    if scaling.get("alpha") is not None:
        return _ntk(plan, scaling)
    base, factor, trained, live = (plan.notes[k] for k in ("base", "factor", "trained", "seq_len"))
    if live is None or live <= trained:
        base *= _power(factor * trained / trained - (factor - 1), _exponent(plan))
    else:
        scale = _f(factor) * _f(live) / _f(trained) - _f(factor - 1)
        base = _f(base) * _f(_power(float(scale), _exponent(plan)))
    return _ONE / _powers(plan, base)


def _exponent(plan: RopePlan) -> float:
    return plan.rotary_dim / (plan.rotary_dim - 2)


def _yarn(plan: RopePlan, scaling: Mapping[str, Any]) -> Array:
    slow = _powers(plan)
    still, stretched = _ONE / slow, _ONE / (_f(plan.notes["factor"]) * slow)
    low, high = _ramp(plan, scaling)
    ramp: Array = (np.arange(plan.rotary_dim // 2).astype(_f) - _f(low)) / _f(high - low)
    kept: Array = _ONE - np.clip(ramp, _f(0), _ONE)
    return stretched * (_ONE - kept) + still * kept


def _ramp(plan: RopePlan, scaling: Mapping[str, Any]) -> tuple[float, float]:
    """The pairs where YaRN's ramp starts and ends."""
    width, trained = plan.rotary_dim, plan.notes["trained"]

    def index(turns: float) -> float:
        return width * _log(trained / (turns * 2 * math.pi)) / (2 * _log(plan.notes["base"]))

    fast, slow = scaling.get("beta_fast"), scaling.get("beta_slow")
    low = index(32 if fast is None else fast)
    high = width - 1 if slow == 0 else index(1 if slow is None else slow)
    if scaling.get("truncate") is not False:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    return (low, high + 0.001) if low == high else (low, high)


def _longrope(plan: RopePlan, scaling: Mapping[str, Any]) -> Array:
    live = plan.notes["seq_len"]
    which = "long_factor" if live and live > plan.notes["trained"] else "short_factor"
    return _ONE / (np.array(scaling[which], _f) * _powers(plan))


def _llama3(plan: RopePlan, scaling: Mapping[str, Any]) -> Array:
    inv_freq, trained = _ONE / _powers(plan), plan.notes["trained"]
    factor = _f(plan.notes["factor"])
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    wavelength = _f(2 * math.pi) * (_ONE / inv_freq)
    long = wavelength > _f(trained / low)
    between = ~long & ~(wavelength < _f(trained / high))
    kept = (_f(trained) * (_ONE / wavelength) - _f(low)) / _f(high - low)
    blended = (_ONE - kept) * inv_freq / factor + kept * inv_freq
    return np.where(between, blended, np.where(long, inv_freq / factor, inv_freq))


def _proportional(plan: RopePlan, scaling: Mapping[str, Any]) -> Array:
    turning = int(np.count_nonzero(plan.inv_freq))
    exponents = _exponents(plan.notes["head_dim"], turning)
    result = np.zeros_like(plan.inv_freq, _f)
    result[:turning] = _ONE / powers(plan.notes["base"], exponents)
    return result / _f(scaling.get("factor") or 1)


_ORDERS: dict[str, Callable[[RopePlan, Mapping[str, Any]], Array]] = {
    "default": _default,
    "mrope": _default,
    "linear": _linear,
    "ntk": _ntk,
    "dynamic": _dynamic,
    "ntk-by-parts": _yarn,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}


def _log(x: float) -> float:
    """Correctly rounded: the same on every machine, as math.log is not."""
    return float(Decimal(x).ln(CONTEXT))


def _power(x: float, y: float) -> float:
    return float(CONTEXT.power(Decimal(x), Decimal(y)))


def float32_tables(plan: RopePlan, positions: int | npt.ArrayLike, dtype: npt.DTypeLike) -> Array:
    """Sines and cosines of `rope_tables` as Hugging Face rounds them: ``(..., 2, pairs)``.

    Notes
    -----
    What a float32 cosine is in torch depends on the build and the device: on x86-64 it is that of
    Intel's MKL, elsewhere SLEEF's or CUDA's; in models with complex tables the C library's. Here
    it is the float32 nearest to the cosine of the rounded angle: equal to MKL's in 95% of values,
    1 ulp apart in the others.
    """
    fn = "rope_tables"
    if plan.decay is not None:
        fail(ValueError, fn, "compat", "must be None for a plan with xPos", "'float32'")
    last = plan.naxes - 1
    one = RopePlan([0.0], axis=[last])  # of one pair, for the checks of positions and dtype
    dtype = _core.rope_tables(one._parts, positions, dtype).dtype
    if isinstance(positions, (int, np.integer)):
        p = np.arange(positions).astype(_f)
        p = np.stack([p] * (last + 1)) if last else p
    else:
        p = np.asarray(positions).astype(_f)
    shape, rows = p.shape[last > 0 :], p.reshape(last + 1, -1)
    with np.errstate(all="ignore"):
        frequencies = float32_frequencies(plan)
        largest = np.abs(rows).max(axis=1, initial=0)[plan.axis] * frequencies
        if not (largest < 2.0**64).all():
            fail(ValueError, fn, "positions", "must turn by less than 2^64 radians", "more")
        pairs = len(frequencies)
        both = np.empty((rows.shape[1], 2, pairs), _f)
        step = max(min(_AT_A_TIME // max(pairs, 1), len(both)), 1)
        near = RopePlan(np.minimum(frequencies, _f(2.0**59)), axis=plan.axis)
        work = np.empty((7, step, pairs))
        for start in range(0, len(both), step):
            part = slice(start, start + step)
            _sines_and_cosines(near, frequencies, rows[:, part], work, both[part])
        both *= _f(plan.attention_factor)
        return both.reshape(*shape, *both.shape[1:]).astype(dtype, copy=False)


def _sines_and_cosines(
    near: RopePlan, frequencies: Array, p: Array, work: Array, out: Array
) -> None:
    """Of float32 angles, correctly rounded, to `out`: ``(positions, 2, pairs)``.

    The angle is ``p w + d``, with d, what its rounding left over, exact in float64: so the exact
    table is turned by d, a short series. A value is settled if no error of `_SURE`, some 4 times
    the largest possible one, moves its rounding; the few others are evaluated from the angle.
    All in place: with new arrays for the steps it takes twice as long.
    """
    table = _core.rope_tables(near._parts, p[: near.naxes] if near.naxes > 1 else p[0], np.float64)
    p = p[near.axis].T
    angles = p * frequencies
    d, dd, by_sine, by_cosine, turned, sine, cosine = work[:, : len(out)]
    np.multiply(p, near.inv_freq, out=d)
    np.subtract(angles, d, out=d)
    np.multiply(d, d, out=dd)
    _series(dd, (-1 / 5040, 1 / 120, -1 / 6), by_sine)
    by_sine *= d
    by_sine += d
    _series(dd, (-1 / 720, 1 / 24, -1 / 2), by_cosine)  # less 1

    sine[:], cosine[:] = table[:, 0], table[:, 1]
    np.multiply(sine, by_cosine, out=turned)
    np.multiply(cosine, by_sine, out=dd)
    turned += dd
    turned += sine
    by_cosine *= cosine
    sine *= by_sine
    by_cosine -= sine
    cosine += by_cosine

    rest = ~(np.abs(d, out=d) < 2.0**-5)
    for k, value in enumerate((turned, cosine)):
        value += _SURE
        out[:, k] = value
        value -= 2 * _SURE
        rest |= out[:, k] != value.astype(_f)
    pairs, still = np.moveaxis(out, 1, 2), angles == 0
    rest &= ~still
    if rest.any():
        pairs[rest] = _core.sinusoidal(angles[rest], 2, 1.0, "half", 0.0, 1.0, False, _f, None)
    if still.any():
        pairs[still] = 0, 1


def _series(x: Array, coefficients: tuple[float, ...], out: Array) -> None:
    """``x (c + x (b + x a))``"""
    np.multiply(x, coefficients[0], out=out)
    for c in coefficients[1:]:
        out += c
        out *= x
