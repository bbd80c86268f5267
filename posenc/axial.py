"""Rotary plans for positions of several axes: text with images and video, grids of patches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from . import _args as check
from ._args import Array, fail, integer, number, positive_int
from .plan import _TWO_PI, RopePlan
from .scaling import WIDEST, check_sections, mrope_axes, scaled_frequencies, scaling_notes
from .sinusoidal import Layout

__all__ = ["axial_plan", "axial_positions", "mrope_plan"]

Axes = int | Sequence[int]
Convention = Literal[
    "pixtral", "qwen2_vl", "llama4", "dinov3", "eva", "pixels", "lucidrains", "flux"
]


class _Rule(NamedTuple):
    layout: Layout
    base: float = 10000.0
    any_axes: bool = False  # any number of axes and any widths; otherwise two, of one width
    dtype: type = np.int64  # of the coordinates


_RULES = {
    "pixtral": _Rule("half"),
    "qwen2_vl": _Rule("half"),
    "llama4": _Rule("interleaved"),
    "dinov3": _Rule("half", base=100.0, dtype=np.float64),
    "eva": _Rule("interleaved", dtype=np.float64),
    "pixels": _Rule("interleaved", any_axes=True, dtype=np.float64),
    "lucidrains": _Rule("interleaved", any_axes=True),
    "flux": _Rule("interleaved", any_axes=True),
}
_MOST_AXES = 8  # of a plan


def mrope_plan(
    dim: int,
    sections: Sequence[int],
    *,
    base: float = 10000.0,
    interleaved: bool = False,
    layout: Layout = "half",
    rotary_dim: int | None = None,
) -> RopePlan:
    """The plan of M-RoPE: time, height and width each turn some of the pairs.

    Frequencies are those of text, ``base^(-2i / rotary_dim)``; `axis` says what turns pair i.

    Parameters
    ----------
    dim : int
        The width of a head.
    sections : sequence of int
        How many pairs time, height and width have, all of them together. If `interleaved`, how
        many places each may have, with any sum. Numbers from 0 to all the pairs.
    base : float, optional
        Finite and above 0.
    interleaved : bool, optional
        False, Qwen2-VL ([16, 24, 24]): the sections one after the other. True, Qwen3-VL
        ([24, 20, 20]) and timm ([8, 12, 12]): time everywhere, but height at 1, 4, 7, ... below
        ``3 * sections[1]`` and width at 2, 5, 8, ... below ``3 * sections[2]``. What neither
        reaches stays on time, and a section too long for its places ends with the pairs.
    layout : {"half", "interleaved"}, optional
        Pairs (i, i + rotary_dim/2), as in these models, or (2i, 2i + 1).
    rotary_dim : int, optional
        How many channels turn, even, at most `dim` (default: all).

    Returns
    -------
    RopePlan
        For positions with a leading axis of length 3. Text has one position three times.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Notes
    -----
    `inv_freq` is correctly rounded. In llama.cpp the pairs left over in the interleaved form turn
    by a fourth position, 0 for text: with [24, 20, 20] those are pairs 61 and 62. Here, as in
    Hugging Face's code, they turn by time.

    References
    ----------
    Wang et al., "Qwen2-VL", 2024, arXiv:2409.12191.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> posenc.mrope_plan(16, [4, 2, 2]).axis
    array([0, 0, 0, 0, 1, 1, 2, 2])
    >>> plan = posenc.mrope_plan(16, [4, 2, 2], interleaved=True)
    >>> plan.axis
    array([0, 1, 2, 0, 1, 2, 0, 0])
    >>> x, p = np.ones((3, 16)), [[0, 1, 1], [0, 1, 1], [0, 1, 2]]  # t, h, w of three tokens
    >>> y = posenc.rope(x, p, plan=plan)
    """
    fn = "mrope_plan"
    width, name, most = positive_int(fn, "dim", dim), "dim", WIDEST
    if rotary_dim is not None:
        name, most = "rotary_dim", min(dim, WIDEST)
        width = positive_int(fn, name, rotary_dim)
    if width % 2 or width > most:
        fail(ValueError, fn, name, f"must be even and at most {most}", width)
    in_turn = check.flag(fn, "interleaved", interleaved)
    sizes = check_sections(fn, "sections", sections, width // 2, interleaved=in_turn)
    base = number(fn, "base", base, positive=True)
    check.layout(fn, layout)
    axis = mrope_axes(width // 2, sizes, interleaved=in_turn)
    plan = RopePlan._exact(_powers(fn, width, base), layout, axis=axis, naxes=3)
    method = "mrope, interleaved" if in_turn else "mrope, chunked"
    plan._note(head_dim=dim, **{**scaling_notes(None, base), "method": method})
    return plan


def axial_plan(
    dim: int,
    axes: Axes | None = None,
    *,
    convention: Convention,
    base: float | None = None,
    layout: Layout | None = None,
    max_freq: float | None = None,
    linear_bands: bool = False,
) -> RopePlan:
    """The plan of a rotary embedding of grids: each axis of the positions turns its own pairs.

    With d channels, n axes and axis a of w channels (w = d/n), the pairs are, first to last,

    - "pixtral" (half): row, ``base^(-4k/d)``; column, ``base^(-(4k + 2)/d)``: the frequencies of
      text, by turns. Mistral's own code has the same pairs interleaved.
    - "qwen2_vl" (half), the vision tower of Qwen2-VL and Qwen2.5-VL: row, column, each
      ``base^(-2k/w)``.
    - "llama4" (interleaved), the vision tower of Llama 4: column, row, each ``base^(-2k/w)``.
    - "dinov3" (half): row, column, each ``2 pi / base^(2k/w)``, and base 100.
    - "eva" (interleaved), EVA-02 and timm with ``in_pixels=False``: row, column, each
      ``base^(-2k/w)``.
    - "lucidrains" (interleaved), axial frequencies of rotary-embedding-torch, and "flux"
      (interleaved), Flux, of axes (16, 56, 56): axis after axis, each ``base^(-2k/w)``.
    - "pixels" (interleaved), timm with ``in_pixels=True`` and rotary-embedding-torch with
      ``freqs_for="pixel"``: axis after axis, each pi times w/2 numbers from 1 to ``max_freq / 2``,
      evenly spaced if `linear_bands`, else as powers.

    Parameters
    ----------
    dim : int
        How many channels turn, from the first one of a head.
    axes : int or sequence of int, optional
        How many axes share the channels, or how many channels each of them has, even and `dim`
        together. Default: 2, and three in the ratio 2 : 7 : 7 for "flux". Only "lucidrains", "flux"
        and "pixels" may have others.
    convention : str
        One of the names above.
    base : float, optional
        In place of 10000, or 100; not for "pixels".
    layout : {"half", "interleaved"}, optional
        In place of the convention's.
    max_freq : float, optional
        For "pixels" only, from 2: timm's ``max_res``, 224 (default); rotary-embedding-torch has 10.
    linear_bands : bool, optional
        For "pixels" only: False as in timm; rotary-embedding-torch has True.

    Returns
    -------
    RopePlan
        For positions with a leading axis, one for each of the axes: see `axial_positions`.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or not one of the convention's.

    Notes
    -----
    `inv_freq` is correctly rounded. The weights published for DINOv3 hold their periods rounded to
    bfloat16: give ``RopePlan(2 * np.pi / periods, ...)`` those to follow them to the last bit. For
    ``grid_indexing="xy"`` of timm, exchange the two rows of the positions.

    References
    ----------
    Heo et al., "Rotary Position Embedding for Vision Transformer", 2024, arXiv:2403.13298; Agrawal
    et al., "Pixtral 12B", 2024, arXiv:2410.07073; Fang et al., "EVA-02", 2023, arXiv:2303.11331;
    Simeoni et al., "DINOv3", 2025, arXiv:2508.10104; model code for the others.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> plan = posenc.axial_plan(8, convention="pixtral")
    >>> plan.inv_freq, plan.axis
    (array([1.   , 0.01 , 0.1  , 0.001]), array([0, 0, 1, 1]))
    >>> p = posenc.axial_positions((2, 3), convention="pixtral")
    >>> posenc.rope(np.ones((6, 8)), p, plan=plan).shape
    (6, 8)
    >>> np.bincount(posenc.axial_plan(128, convention="flux").axis)  # (16, 56, 56) channels
    array([ 8, 28, 28])
    """
    fn = "axial_plan"
    rule = _RULES[check.choice(fn, "convention", convention, tuple(_RULES))]
    widths = _widths(fn, positive_int(fn, "dim", dim), axes, convention)
    layout = rule.layout if layout is None else layout
    check.layout(fn, layout)
    linear = check.flag(fn, "linear_bands", linear_bands)
    freqs: list[Fraction]
    if convention == "pixels":
        if base is not None:
            fail(ValueError, fn, "base", f"must be None under {convention!r}", base)
        top = number(fn, "max_freq", 224.0 if max_freq is None else max_freq)
        if not 2 <= top <= 2**59:
            fail(ValueError, fn, "max_freq", "must be from 2 to 2^59", top)
        freqs = [f * _TWO_PI / 2 for w in widths for f in _bands(w // 2, top, linear)]
        form = f"max_freq {top:.10g}" + (", linear bands" if linear else "")
    else:
        if max_freq is not None or linear:
            name, got = ("linear_bands", linear) if linear else ("max_freq", max_freq)
            fail(ValueError, fn, name, 'may be given under "pixels" only', got)
        base = number(fn, "base", rule.base if base is None else base, positive=True)
        form = f"base {base:.10g}"
        if convention == "pixtral":
            text = _powers(fn, dim, base)
            freqs = text[0::2] + text[1::2]
        else:
            unit = _TWO_PI if convention == "dinov3" else Fraction(1)
            freqs = [f * unit for w in widths for f in _powers(fn, w, base)]
    order = reversed(range(2)) if convention == "llama4" else range(len(widths))
    axis = [k for k in order for _ in range(widths[k] // 2)]
    plan = RopePlan._exact(freqs, layout, axis=axis)
    plan._note(method=f"axial, {convention}, {form}", axial=(convention, base))
    return plan


def axial_positions(
    shape: Sequence[int],
    *,
    convention: Convention,
    reference: Sequence[int] | None = None,
    merge: int | None = None,
    extra_tokens: int = 0,
) -> Array:
    """The positions of a grid of patches, as `axial_plan` of the same convention wants them.

    Cell i of N along an axis has the coordinate

    - "pixtral", "qwen2_vl", "lucidrains", "flux": i. Under "flux" an axis of zeros goes before
      the two of an image.
    - "llama4": i + 1.
    - "dinov3": ``(2i + 1) / N - 1``, the centre of the cell in -1 .. 1.
    - "eva": ``i * reference / N``, or i without a reference.
    - "pixels": ``2i / (N - 1) - 1``, from -1 to 1, times ``reference / N`` if there is one; one
      cell alone is at -1.

    Parameters
    ----------
    shape : sequence of int
        Rows and columns; for "lucidrains", "pixels" and "flux" any axes, up to 8.
    convention : str
        As in `axial_plan`.
    reference : sequence of int, optional
        For "eva" and "pixels": the shape of the grid in pre-training (``ref_feat_shape``).
    merge : int, optional
        For "qwen2_vl", default 2: patches come in blocks of merge x merge, blocks row by row and
        patches row by row within a block. 1 is row by row.
    extra_tokens : int, optional
        How many tokens do not turn, such as class, register and text tokens: position 0 on every
        axis. They come before the grid, under "llama4" after it.

    Returns
    -------
    ndarray
        ``(axes, cells + extra_tokens)``, int64 or float64: rows first, then columns, of the cells
        in row-major order. For an x of (batch, rows, columns, dim), without extra tokens and merge,
        `rope` takes the grid with an axis for the batch: ``reshape(axes, 1, *shape)``.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or not one of the convention's.
    MemoryError
        If the result does not fit.

    Notes
    -----
    Fractions are rounded once. Frames of a video repeat the grid, ``np.tile(positions, frames)``;
    images follow each other, ``np.concatenate(..., 1)``.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> posenc.axial_positions((2, 3), convention="llama4", extra_tokens=1)
    array([[1, 1, 1, 2, 2, 2, 0],
           [1, 2, 3, 1, 2, 3, 0]])
    >>> posenc.axial_positions((2, 4), convention="qwen2_vl")
    array([[0, 0, 1, 1, 0, 0, 1, 1],
           [0, 1, 0, 1, 2, 3, 2, 3]])
    >>> posenc.axial_positions((1, 2), convention="dinov3")
    array([[ 0. ,  0. ],
           [-0.5,  0.5]])

    Images that are grids of 4 x 6 patches:

    >>> p = posenc.axial_positions((4, 6), convention="pixtral").reshape(2, 1, 4, 6)
    >>> plan, x = posenc.axial_plan(8, convention="pixtral"), np.ones((4, 4, 6, 8))
    >>> posenc.rope(x, p, plan=plan).shape
    (4, 4, 6, 8)
    """
    fn = "axial_positions"
    rule = _RULES[check.choice(fn, "convention", convention, tuple(_RULES))]
    sizes = check.integers(fn, "shape", shape)
    n = len(sizes)
    fewest, most = (1, _MOST_AXES) if rule.any_axes else (2, 2)
    if not fewest <= n <= most or min(sizes) < 1:
        count = f"{fewest} to {most}" if rule.any_axes else "2"
        fail(ValueError, fn, "shape", f"must be {count} sizes, each at least 1", sizes)
    if merge is not None and convention != "qwen2_vl":
        fail(ValueError, fn, "merge", 'may be given under "qwen2_vl" only', merge)
    block = 2 if merge is None else positive_int(fn, "merge", merge)
    block = block if convention == "qwen2_vl" else 1
    if any(size % block for size in sizes):
        fail(ValueError, fn, "shape", f"must be multiples of merge, {block}", sizes)
    if reference is not None and convention not in ("eva", "pixels"):
        fail(ValueError, fn, "reference", 'may be given under "eva" and "pixels" only', reference)
    scaled = sizes if reference is None else check.integers(fn, "reference", reference)
    if len(scaled) != n or min(scaled) < 1:
        fail(ValueError, fn, "reference", f"must be {n} sizes, each at least 1", scaled)
    extra = integer(fn, "extra_tokens", extra_tokens, least=0)

    cells, lead = math.prod(sizes), int(convention == "flux" and n == 2)
    out = check.allocate(fn, (lead + n, cells + extra), np.dtype(rule.dtype))
    first = 0 if convention == "llama4" else extra
    out[:, :first] = out[:, first + cells :] = out[:lead] = 0
    # one axis of the array for the place of a block, and one for that of a patch in it
    grid = out[lead:, first : first + cells].reshape(n, *(s // block for s in sizes), *[block] * n)
    for k, (size, ratio) in enumerate(zip(sizes, scaled, strict=True)):
        along = [1] * (2 * n)
        along[k], along[n + k] = size // block, block
        grid[k] = _coordinates(convention, size, ratio).reshape(along)
    return out


def _coordinates(convention: Convention, size: int, reference: int) -> Array:
    i = np.arange(size)
    if convention == "llama4":
        return i + 1
    if convention == "dinov3":
        return np.asarray((2 * i + 1 - size) / size)
    if convention == "eva":
        return np.asarray(i * float(reference) / size)
    if convention == "pixels":
        last = max(size - 1, 1)
        return np.asarray((2 * i - last) * float(reference) / (last * float(size)))
    return i


def _bands(count: int, top: float, linear: bool) -> list[Fraction]:
    """Numbers from 1 to top / 2, in even steps or even ratios; one alone is 1."""
    last = Fraction(top) / 2
    if count == 1:
        return [Fraction(1)]
    if linear:
        return [1 + (last - 1) * k / (count - 1) for k in range(count)]
    # base^(-k/(count - 1)), turned over
    return [1 / f for f in _powers("axial_plan", 2 * (count - 1), top / 2)] + [last]


def _powers(fn: str, width: int, base: float) -> list[Fraction]:
    return [Fraction(f) for f in scaled_frequencies(width, base=base, fn=fn)[0]]


def _widths(fn: str, dim: int, axes: Axes | None, convention: Convention) -> list[int]:
    """How many channels each axis has."""
    if dim > WIDEST:
        fail(ValueError, fn, "dim", f"must be at most {WIDEST}", dim)
    if axes is None and convention == "flux":
        if dim % 32:
            fail(ValueError, fn, "dim", "must be a multiple of 32, or axes be given", dim)
        return [dim // 8, dim // 16 * 7, dim // 16 * 7]
    axes = 2 if axes is None else axes
    if isinstance(axes, (int, np.integer)):
        n = min(positive_int(fn, "axes", axes), _MOST_AXES + 1)
        name, wanted, widths = "dim", f"must be a multiple of {2 * n}", [dim // n] * n
    else:
        widths = check.integers(fn, "axes", axes)
        name, wanted, n = "axes", f"must be even widths that add up to {dim}", len(widths)
    if not 1 <= n <= _MOST_AXES:
        fail(ValueError, fn, "axes", f"must be 1 to {_MOST_AXES} axes", n)
    if not _RULES[convention].any_axes and (n != 2 or widths[0] != widths[1]):
        fail(ValueError, fn, "axes", f"must be 2 of one width under {convention!r}", axes)
    if any(w < 2 or w % 2 for w in widths) or sum(widths) != dim:
        fail(ValueError, fn, name, wanted, dim if name == "dim" else widths)
    return widths
