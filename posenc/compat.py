"""Tables rounded where other libraries round them, for those who must match these, errors included.

Hugging Face transformers, and most code for torch, keep frequencies, positions and angles in
float32. The rounding of the angle alone, half an ulp of p w radians, moves a cosine by 0.05 at
position 1e6.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt

from . import _core
from ._args import Array, fail
from ._methods import CONTEXT
from .plan import RopePlan

__all__ = ["float32_frequencies", "float32_tables"]


def float32_frequencies(plan: RopePlan) -> Array:
    """``1 / fl32(base)^fl32(2i/dim)``, divided by the factor of "linear", each step in float32.

    Parameters
    ----------
    plan : RopePlan
        Its `notes` say the method and the base; if they name another method than "default",
        "mrope" or "linear", or none, `inv_freq` is rounded to float32.

    Returns
    -------
    ndarray
        float32, one a pair.

    Notes
    -----
    The power is correctly rounded; that of torch is not. Of 9216 frequencies, of 12 bases from 1e4
    to 1e7 and widths 16 to 512, 110 differ from those of torch 2.13.0 on x86-64, by 1 or 2 ulp.

    References
    ----------
    Su et al., "RoFormer", 2021, arXiv:2104.09864.

    Examples
    --------
    >>> import posenc
    >>> from posenc.compat import float32_frequencies
    >>> float32_frequencies(posenc.rope_plan(8))
    array([1.   , 0.1  , 0.01 , 0.001], dtype=float32)
    """
    method = str(plan.notes.get("method")).partition(",")[0]
    if method not in ("default", "mrope", "linear") or plan.notes.get("base") is None:
        return plan.inv_freq.astype(np.float32)
    width = plan.rotary_dim
    exponents = np.arange(0, width, 2).astype(np.float32) / np.float32(width)
    with np.errstate(all="ignore"):
        base = float(np.float32(plan.notes["base"]))
        inv_freq: Array = np.float32(1) / np.array([_power(base, e) for e in exponents], np.float32)
        return inv_freq / np.float32(plan.notes["factor"]) if method == "linear" else inv_freq


def _power(base: float, exponent: float) -> float:
    """The float32 nearest to a power of a float32: no tie is possible."""
    if exponent == 0 or base in (0, math.inf):
        return 1.0 if exponent == 0 else base
    with localcontext(CONTEXT):
        exact = Decimal(base) ** Decimal(float(exponent))
        places = 24 - math.frexp(exact)[1]
        return math.ldexp(int((exact * Decimal(2) ** places).to_integral_value()), -places)


def float32_tables(plan: RopePlan, positions: int | npt.ArrayLike, dtype: npt.DTypeLike) -> Array:
    """Sines and cosines of `rope_tables` as Hugging Face rounds them: ``(..., 2, pairs)``."""
    fn = "rope_tables"
    if plan.decay is not None:
        fail(ValueError, fn, "compat", "must be None for a plan with xPos", "'float32'")
    last = int(plan.axis.max(initial=0))
    one = RopePlan([0.0], axis=[last])  # of one pair, for the checks of positions and dtype
    dtype = _core.rope_tables(one._parts, positions, dtype).dtype
    if isinstance(positions, (int, np.integer)):
        p = np.arange(positions).astype(np.float32)
        p = np.stack([p] * (last + 1)) if last else p
    else:
        p = np.asarray(positions).astype(np.float32)
    with np.errstate(all="ignore"):
        frequencies = float32_frequencies(plan)
        p = np.moveaxis(p[plan.axis], 0, -1) if last else p[..., None]
        angles = p * frequencies
    if not (np.abs(angles) < 2.0**64).all():
        fail(ValueError, fn, "positions", "must turn by less than 2^64 radians", "more")
    both = _core.sinusoidal(angles, 2, 1.0, "half", 0.0, 1.0, False, np.float32, None)
    with np.errstate(all="ignore"):
        both *= np.float32(plan.attention_factor)
        return np.moveaxis(both, -1, -2).astype(dtype, order="C")
