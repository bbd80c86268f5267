"""The two layouts of a pair of channels, and the way from one to the other."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ._args import Array, choice, fail, integer, named, positive_int
from .sinusoidal import Layout

__all__ = ["permute_rope_weight", "to_half", "to_interleaved"]


@named("to_half", out="x")
def to_half(x: npt.ArrayLike, axis: int = -1) -> Array:
    """Interleaved channels to halves: ``y[i] = x[2i]``, ``y[i + n/2] = x[2i + 1]``.

    For activations and caches: a key that was turned in one layout and moved to the other is the
    key that would have been moved and then turned.

    Parameters
    ----------
    x : array_like
        Of any dtype, with an even number n of channels along `axis`.
    axis : int, optional
        The axis of the channels.

    Returns
    -------
    ndarray
        A new array of the shape and dtype of x.

    Raises
    ------
    TypeError
        If `axis` is not an integer.
    ValueError
        If x has no such axis or an odd number of channels.

    See Also
    --------
    to_interleaved : The inverse.
    permute_rope_weight : The same for the projection that makes queries and keys.

    Examples
    --------
    >>> import posenc
    >>> posenc.to_half([0, 1, 2, 3, 4, 5])
    array([0, 2, 4, 1, 3, 5])
    """
    return _moved("to_half", "x", x, axis, "half")


@named("to_interleaved", out="x")
def to_interleaved(x: npt.ArrayLike, axis: int = -1) -> Array:
    """Halves to interleaved channels: ``y[2i] = x[i]``, ``y[2i + 1] = x[i + n/2]``.

    Parameters
    ----------
    x : array_like
        Of any dtype, with an even number n of channels along `axis`.
    axis : int, optional
        The axis of the channels.

    Returns
    -------
    ndarray
        A new array of the shape and dtype of x.

    Raises
    ------
    TypeError
        If `axis` is not an integer.
    ValueError
        If x has no such axis or an odd number of channels.

    See Also
    --------
    to_half : The inverse.

    Examples
    --------
    >>> import posenc
    >>> posenc.to_interleaved([0, 2, 4, 1, 3, 5])
    array([0, 1, 2, 3, 4, 5])
    """
    return _moved("to_interleaved", "x", x, axis, "interleaved")


@named("permute_rope_weight", out="weight")
def permute_rope_weight(
    weight: npt.ArrayLike,
    num_heads: int,
    *,
    to: Layout = "half",
    rotary_dim: int | None = None,
) -> Array:
    """Reorder the rows of a query or key projection, so that its output is in the other layout.

    With ``to="half"`` this takes the checkpoints of Meta to those of Hugging Face: per head, rows
    0, 2, 4, ... and then rows 1, 3, 5, ...; in torch ``w.view(heads, head_dim // 2, 2,
    -1).transpose(1, 2)``. Turned in the layout they are made for, both give the same scores.

    Parameters
    ----------
    weight : array_like
        ``(num_heads * head_dim, in)``, or a bias ``(num_heads * head_dim,)``, of any dtype.
    num_heads : int
        How many heads the rows belong to; for keys in groups, the number of key heads.
    to : {"half", "interleaved"}, optional
        The layout to go to, from the other one.
    rotary_dim : int, optional
        How many channels of a head turn, even (default: all). The rows after them stay.

    Returns
    -------
    ndarray
        A new array of the shape and dtype of `weight`.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If the shape of `weight` does not fit, or `rotary_dim` is odd or wider than a head.

    Examples
    --------
    Two heads of four channels; the rows are numbered.

    >>> import numpy as np, posenc
    >>> w = posenc.permute_rope_weight(np.arange(8), 2)
    >>> w
    array([0, 2, 1, 3, 4, 6, 5, 7])
    >>> posenc.permute_rope_weight(w, 2, to="interleaved")
    array([0, 1, 2, 3, 4, 5, 6, 7])
    """
    fn = "permute_rope_weight"
    rows = _array(fn, "weight", weight)
    heads = positive_int(fn, "num_heads", num_heads)
    choice(fn, "to", to, ("half", "interleaved"))
    if rows.ndim not in (1, 2):
        fail(ValueError, fn, "weight", "must have one or two axes", rows.ndim)
    if rows.shape[0] % heads:
        wanted = f"first axis must be a multiple of {heads} heads"
        fail(ValueError, fn, "weight", wanted, rows.shape[0])
    head_dim = rows.shape[0] // heads
    width, name = head_dim, "weight"
    if rotary_dim is not None:
        width, name = positive_int(fn, "rotary_dim", rotary_dim), "rotary_dim"
    if width > head_dim:
        fail(ValueError, fn, name, f"must be at most the width of a head, {head_dim}", width)
    out = np.array(rows)
    turning = out.reshape(heads, head_dim, *rows.shape[1:])[:, :width]
    turning[...] = _moved(fn, name, turning, 1, to)
    return out


def _array(fn: str, name: str, value: npt.ArrayLike) -> Array:
    try:
        return np.asarray(value)
    except ValueError:
        fail(TypeError, fn, name, "must be an array", "a ragged list")


def _moved(
    fn: str, name: str, x: npt.ArrayLike, axis: int, to: Literal["half", "interleaved"]
) -> Array:
    """The channels of x in the layout `to`, from the other one."""
    given = _array(fn, name, x)
    axis = integer(fn, "axis", axis)
    if not -given.ndim <= axis < given.ndim:
        fail(ValueError, fn, "axis", f"must be one of the {given.ndim} axes of {name}", axis)
    width = given.shape[axis]
    if width % 2:
        fail(ValueError, fn, name, "must have an even number of channels", width)
    out = np.empty_like(given)
    source, target = np.moveaxis(given, axis, -1), np.moveaxis(out, axis, -1)
    half = width // 2
    if to == "half":
        target[..., :half], target[..., half:] = source[..., 0::2], source[..., 1::2]
    else:
        target[..., 0::2], target[..., 1::2] = source[..., :half], source[..., half:]
    return out
