"""Rotary position embedding: a plan says which pairs turn how fast, one function turns them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._args import Array, fail, integer, named, number, positive_int
from ._args import layout as check_layout
from .plan import RopePlan
from .scaling import scaled_head, scaling_notes
from .sinusoidal import Layout

__all__ = ["RopePlan", "rope", "rope_plan", "xpos_plan"]


def rope_plan(
    dim: int,
    *,
    base: float = 10000.0,
    layout: Layout = "interleaved",
    rotary_dim: int | None = None,
    start: int = 0,
    scaling: Mapping[str, Any] | None = None,
    seq_len: int | None = None,
) -> RopePlan:
    """The plan of a rotary embedding: ``inv_freq[i] = base^(-2i / rotary_dim)``, or scaled.

    Parameters
    ----------
    dim : int
        The width of a head, at least 1.
    base : float, optional
        Finite and above 0. `rope_theta` in `scaling` takes the place of the default.
    layout : {"interleaved", "half"}, optional
        Pairs (2i, 2i + 1) as in GPT-J and RoFormer, or (i, i + rotary_dim/2) as in GPT-NeoX and
        the Llama of Hugging Face.
    rotary_dim : int, optional
        How many channels turn, even, at most `dim` (default: the `partial_rotary_factor` of
        `scaling`, or all). The frequencies follow from this width, not from that of the head.
    start : int, optional
        The first channel that turns.
    scaling : mapping, optional
        `rope_scaling` or `rope_parameters` as Hugging Face spells them: "linear", "ntk",
        "dynamic", "yarn", "longrope", "llama3", "proportional" and so on, with their numbers. See
        `posenc.scaling.scaled_frequencies` for each formula.
    seq_len : int, optional
        The live length in tokens, for "dynamic" and "longrope".

    Returns
    -------
    RopePlan

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range; for `scaling`, one error that lists
        all its problems.

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
    >>> posenc.rope_plan(8, scaling={"rope_type": "linear", "factor": 4.0}).inv_freq
    array([0.25   , 0.025  , 0.0025 , 0.00025])
    >>> posenc.rope_plan(8, rotary_dim=4)
    RopePlan(rotary_dim=4, layout='interleaved', start=0, attention_factor=1.0)
    """
    fn = "rope_plan"
    dim = positive_int(fn, "dim", dim)
    start = integer(fn, "start", start, least=0)
    check_layout(fn, layout)
    if seq_len is not None:
        seq_len = positive_int(fn, "seq_len", seq_len)
    if scaling is None:
        width = dim if rotary_dim is None else positive_int(fn, "rotary_dim", rotary_dim)
        if width % 2:
            name = "dim" if rotary_dim is None else "rotary_dim"
            fail(ValueError, fn, name, "must be even", width)
        scaled = None
    else:
        scaled = scaled_head(fn, dim, scaling, base=base, rotary_dim=rotary_dim, seq_len=seq_len)
        width = 2 * len(scaled.frequencies)
    if start + width > dim:
        fail(ValueError, fn, "rotary_dim", f"must be at most {dim - start}", width)
    if scaled is None:
        plan = RopePlan.__new__(RopePlan)
        inv_freq = _core.inv_freq(fn, width, base, False)
        plan._fill(inv_freq, _core.turns(fn, width, base, 0.0, 1.0), layout, start)
        notes = scaling_notes(None, base, seq_len)
    else:
        freqs, factor, axis, notes = scaled
        naxes = 1 if axis is None else 3
        plan = RopePlan._exact(
            freqs, layout, start, axis=axis, naxes=naxes, attention_factor=factor
        )
    plan._note(head_dim=dim, **notes)
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
        without its last axis (broadcast). Integers of any width or floats, of any sign. A plan of
        several axes takes one more axis, the first, or one number an axis for all of x. For packed
        sequences see `positions_from_lengths`. Default: 0, 1, ... along `seq_axis`, on every axis.
    plan : RopePlan, optional
        Which channels turn and how fast; replaces `base` and `layout`.
    base : float, optional
        Finite and above 0.
    layout : {"interleaved", "half"}, optional
        Pairs (2i, 2i + 1), or (i, i + dim/2).
    offset : int or array_like of int, optional
        Added to the positions (the length of the cache): one integer, or one for each row of the
        batch.
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
    Sines and cosines, times the attention factor, are correctly rounded (float32 for the narrow
    dtypes); the error of the result is below 2 ulp of the norm of its pair, in float64 with xPos
    below 5. Bits do not depend on the CPU, the number of threads, or how rows are grouped into
    calls; but which NaN comes of a NaN may.

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
    return _core.rope(
        "rope", x, parts, out, True, positions, offset, seq_axis, base, layout, inverse, adjoint
    )


def xpos_plan(
    dim: int,
    *,
    base: float = 10000.0,
    scale_base: float = 512.0,
    center: float = 0.0,
    layout: Layout = "interleaved",
) -> RopePlan:
    """The plan of xPos: rotary embedding whose pairs fade with distance.

    With ``z_i = (2i + 0.4 dim) / (1.4 dim)``, queries are turned and multiplied by
    ``z_i^((p - center) / scale_base)``, keys divided by it, so that a product fades as ``z_i^((m -
    n) / scale_base)`` with the distance of query m and key n, whatever the centre.

    Parameters
    ----------
    dim : int
        The width of a head, even.
    base : float, optional
        As in `rope_plan`.
    scale_base : float, optional
        In tokens; above 0.
    center : float, optional
        The position where nothing is multiplied: the same for queries and for keys in a cache.
        Other code takes half the length, which changes as a cache grows and makes its scores
        wrong.
    layout : {"interleaved", "half"}, optional
        As in `rope_plan`.

    Returns
    -------
    RopePlan
        For queries; `for_keys` gives that of the keys, and `rope_qk` uses both.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Notes
    -----
    The exponent is kept within 80 (690 for float64, 10 for float16), so nothing overflows at any
    length: with a `scale_base` of 512, scores in float32 are true within some 32,000 tokens of the
    centre (bfloat16 the same, float16 4,000, float64 280,000), and finite beyond, where fading
    stops. Before a text gets that long, move the centre along: ``rope_shift(k, 0, plan=plan,
    to=xpos_plan(dim, center=...))`` for the keys in the cache, and that plan from then on.

    References
    ----------
    Sun et al., "A Length-Extrapolatable Transformer", 2022, arXiv:2212.10554.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> plan = posenc.xpos_plan(4)
    >>> q, k = posenc.rope_qk(np.ones((2, 4)), np.ones((2, 4)), plan=plan)
    >>> z = (2 * np.arange(2) + 1.6) / 5.6
    >>> np.allclose(q[1] @ k[0], 2 * (np.cos([1, 0.01]) * z ** (1 / 512)).sum())
    True
    """
    fn = "xpos_plan"
    dim = positive_int(fn, "dim", dim)
    if dim % 2:
        fail(ValueError, fn, "dim", "must be even", dim)
    scale_base = number(fn, "scale_base", scale_base, positive=True)
    if scale_base < 2.0**-20:
        fail(ValueError, fn, "scale_base", "must be at least 2^-20", scale_base)
    base = number(fn, "base", base, positive=True)
    check_layout(fn, layout)
    center = number(fn, "center", center)
    with named(fn, dim="dim"):
        plan = rope_plan(dim, base=base, layout=layout)
    with localcontext() as context:
        context.prec = 40
        z = [(2 * i + Decimal("0.4") * dim) / (Decimal("1.4") * dim) for i in range(dim // 2)]
        decay = [x.ln() / Decimal(scale_base) for x in z]
        high = [float(x) for x in decay]
        low = [float(x - Decimal(h)) for x, h in zip(decay, high, strict=True)]
    plan._decays(plan._parts[0], np.array([high, low]), center)
    plan._note(method="xpos", scale_base=scale_base, center=center)
    return plan
