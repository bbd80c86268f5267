"""The two layouts of a pair of channels, and the way from one to the other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ._args import Array, choice, fail, integer, named, positive_int
from .sinusoidal import Layout

__all__ = ["permute_rope_weight", "to_half", "to_interleaved"]

_BLOCK = 1 << 19  # bytes


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
    return _moved("to_half", x, axis, "half")


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
    return _moved("to_interleaved", x, axis, "interleaved")


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
    if width % 2:
        fail(ValueError, fn, name, "must have an even number of channels", width)
    out = np.empty_like(rows)
    source, target = (a.reshape(heads, head_dim, *rows.shape[1:]) for a in (rows, out))
    _move(source[:, :width], target[:, :width], 1, to)
    _copy([source[:, width:]], [target[:, width:]])
    return out


def _array(fn: str, name: str, value: npt.ArrayLike) -> Array:
    try:
        return np.asarray(value)
    except ValueError:
        fail(TypeError, fn, name, "must be an array", "a ragged list")


def _moved(fn: str, x: npt.ArrayLike, axis: int, to: str) -> Array:
    """A copy of x with its channels in the layout `to`, from the other one."""
    given = _array(fn, "x", x)
    axis = integer(fn, "axis", axis)
    if not -given.ndim <= axis < given.ndim:
        fail(ValueError, fn, "axis", f"must be one of the {given.ndim} axes of x", axis)
    if given.shape[axis] % 2:
        fail(ValueError, fn, "x", "must have an even number of channels", given.shape[axis])
    out = np.empty_like(given)
    _move(given, out, axis % given.ndim, to)
    return out


def _move(source: Array, target: Array, axis: int, to: str) -> None:
    """Write the channels of `source` into `target`, which has the layout `to`."""
    half = source.shape[axis] // 2

    def cut(array: Array, *slices: slice) -> list[Array]:
        return [array[(*[slice(None)] * axis, s)] for s in slices]

    halves = slice(half), slice(half, None)
    pairs = slice(0, None, 2), slice(1, None, 2)
    if to == "half":
        _copy(cut(source, *pairs), cut(target, *halves))
    else:
        _copy(cut(source, *halves), cut(target, *pairs))


def _copy(sources: list[Array], targets: list[Array]) -> None:
    """Copy arrays of one shape, a block of all of them at a time.

    A block stays in the cache while its parts are copied, and signals are seen between blocks.
    """
    first = targets[0]
    if first.nbytes <= _BLOCK or first.size == 1:
        for source, target in zip(sources, targets, strict=True):
            target[...] = source
        return
    steps = [abs(step) if n > 1 else 0 for step, n in zip(first.strides, first.shape, strict=True)]
    outer = steps.index(max(steps))
    middle = first.shape[outer] // 2
    for part in (slice(middle), slice(middle, None)):
        index = (*[slice(None)] * outer, part)
        _copy([a[index] for a in sources], [a[index] for a in targets])
