"""Argument checks for the modules written in Python; the compiled schemes are checked in C.

One message form, ``function: argument: what was wanted, got what came``, and one exception for each
kind of fault: TypeError for a wrong kind, ValueError for a wrong value, MemoryError for too big.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

Array = np.ndarray[Any, np.dtype[Any]]
_MAX_NDIM = 64


def fail(
    kind: Callable[[str], Exception], fn: str, name: str, wanted: str, got: object
) -> NoReturn:
    """Raise `kind` with the message every function of the package uses."""
    raise kind(f"{fn}: {name}: {wanted}, got {got}") from None


@contextmanager
def named(fn: str, **public: str) -> Iterator[None]:
    """Faults found below, under this function's name; `public` says what it calls the arguments.

    An allocation that fails there is blamed on the first of them. Serves as a decorator, too.
    """
    try:
        yield
    except (TypeError, ValueError, MemoryError) as error:
        _, _, fact = str(error).partition(": ")
        name, _, rest = fact.partition(": ")
        if rest:
            raise type(error)(f"{fn}: {public.get(name, name)}: {rest}") from None
        if isinstance(error, MemoryError):
            blamed = next(iter(public.values()))
            raise MemoryError(f"{fn}: {blamed}: the result must fit in memory") from None
        raise


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """True for the bfloat16 of ml_dtypes, which is recognised by name and never imported here."""
    return dtype.name == "bfloat16" and dtype.isnative


def integer(fn: str, name: str, value: object, *, least: int | None = None) -> int:
    """`value` as an int. Booleans are refused: they index, but nobody means them as a size."""
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        fail(TypeError, fn, name, "must be an integer", type(value).__name__)
    try:
        result = operator.index(value)
    except TypeError:  # an array of more than one element, or of floats
        fail(TypeError, fn, name, "must be an integer", type(value).__name__)
    if least is not None and result < least:
        fail(ValueError, fn, name, f"must be at least {least}", result)
    return result


def positive_int(fn: str, name: str, value: object) -> int:
    """`value` as an int of at least 1."""
    return integer(fn, name, value, least=1)


def integers(fn: str, name: str, values: object) -> list[int]:
    """`values` as a list of ints."""
    if isinstance(values, (str, bytes)) or not isinstance(values, (Sequence, np.ndarray)):
        fail(TypeError, fn, name, "must be a sequence of integers", type(values).__name__)
    return [integer(fn, name, value) for value in values]


def flag(fn: str, name: str, value: object) -> bool:
    """`value` as a bool."""
    if not isinstance(value, (bool, np.bool_)):
        fail(TypeError, fn, name, "must be True or False", type(value).__name__)
    return bool(value)


def number(fn: str, name: str, value: object, *, positive: bool = False) -> float:
    """`value` as a finite float, above zero if `positive`.

    As the core takes one: whatever has a float, a `Decimal` and an array without axes too, but no
    word, boolean or complex number.
    """
    if isinstance(value, np.ndarray):
        wrong = value.ndim > 0 or value.dtype.kind not in "iuf"
    else:
        wrong = isinstance(value, (bool, np.bool_, np.complexfloating, str, bytes, bytearray))
    try:
        if wrong:
            raise TypeError
        result = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        fail(TypeError, fn, name, "must be a real number", type(value).__name__)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result) or (positive and result <= 0):
        wanted = "must be finite and above 0" if positive else "must be finite"
        fail(ValueError, fn, name, wanted, result)
    return result


def choice(fn: str, name: str, value: object, allowed: tuple[str, ...]) -> str:
    """`value`, which must be one of the words in `allowed`."""
    words = " or ".join(repr(word) for word in allowed)
    if not isinstance(value, str):
        fail(TypeError, fn, name, f"must be {words}", type(value).__name__)
    if value not in allowed:
        fail(ValueError, fn, name, f"must be {words}", repr(value))
    return value


def layout(fn: str, value: object) -> str:
    """One of the two words for where the channels of a pair lie."""
    if not isinstance(value, str):
        fail(TypeError, fn, "layout", 'must be "interleaved" or "half"', type(value).__name__)
    if value not in ("interleaved", "half"):
        fail(ValueError, fn, "layout", 'must be "interleaved" or "half"', repr(value))
    return value


def real_array(fn: str, name: str, value: object, wanted: str = "integers or floats") -> Array:
    """`value` as an array of integers or native floats; bfloat16 is widened to float32, exactly."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:  # ragged lists, mostly
        raise type(error)(f"{fn}: {name}: must be an array of {wanted}: {error}") from None
    if is_bfloat16(array.dtype):
        return array.astype(np.float32)
    if array.dtype.kind not in "iuf":
        got = type(value).__name__ if array.dtype.kind == "O" else array.dtype
        fail(TypeError, fn, name, f"must be an array of {wanted}", got)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def as_positions(fn: str, positions: object) -> int | Array:
    """Positions in tokens: a count n, meaning 0 .. n-1, or an array of finite integers or floats.

    The count is returned as it came, for the caller to lay out when the result is known to fit.
    """
    if isinstance(positions, (int, np.integer)):
        return integer(fn, "positions", positions, least=0)
    array = real_array(fn, "positions", positions)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        fail(ValueError, fn, "positions", "must be finite", array[~np.isfinite(array)][0])
    return array


def tokens(fn: str, positions: object) -> Array:
    """Positions as a float64 array, a count laid out as 0 .. n-1."""
    p = as_positions(fn, positions)
    return np.arange(p, dtype=np.float64) if isinstance(p, int) else p.astype(np.float64)


def features(fn: str, name: str, value: object, *, least: int = 2) -> Array:
    """`value` as a float64 array of at least so many axes."""
    array = real_array(fn, name, value).astype(np.float64)
    if array.ndim < least:
        wanted = "must have at least " + ("one axis" if least == 1 else f"{least} axes")
        fail(ValueError, fn, name, wanted, array.ndim)
    return array


def matrix(fn: str, name: str, value: object) -> Array:
    """`value` as an array of exactly two axes."""
    array = real_array(fn, name, value)
    if array.ndim != 2:
        fail(ValueError, fn, name, "must have two axes", array.ndim)
    return array


def row_ids(fn: str, name: str, ids: Array, rows: int) -> Array:
    """`ids`, whole numbers, as indices of a table: NumPy would count negative ones from its end."""
    whole = ids if ids.dtype.kind in "iu" else np.floor(ids)
    if (whole != ids).any():
        fail(TypeError, fn, name, "must be integers", ids.dtype)
    outside = (whole < 0) | (whole >= rows)
    if outside.any():
        fail(IndexError, fn, name, f"must be one of the table's {rows} rows", ids[outside][0])
    return whole.astype(np.intp)


def token_positions(
    fn: str, shape: tuple[int, ...], positions: object, offset: object, seq_axis: object
) -> Array:
    """The float64 position of each token of x, where `shape` is that of x less its last axis.

    The result has as many axes, and broadcasts to `shape`.
    """
    ndim = len(shape)
    axis = integer(fn, "seq_axis", seq_axis)
    axis = axis + ndim + 1 if axis < 0 else axis
    if ndim and not 0 <= axis < ndim:
        fail(ValueError, fn, "seq_axis", "must be an axis of x, and not its last", seq_axis)
    seq = shape[axis] if ndim else 1
    p: Array
    if positions is None:
        p = np.arange(seq, dtype=np.float64).reshape(-1 if ndim else ())
    else:
        p = tokens(fn, np.asarray(positions))  # here an integer is a position, not a count
    given: tuple[int, ...] = p.shape
    if p.ndim == 2 < ndim and axis:  # the batch is the first axis of x
        p = p.reshape([given[0], *(given[1] if i == axis else 1 for i in range(1, ndim))])
    elif p.ndim < min(ndim, 2):
        p = p.reshape([p.size if i == axis else 1 for i in range(ndim)])
    if p.ndim != ndim or any(n not in (1, m) for n, m in zip(p.shape, shape, strict=True)):
        wanted = f"must have shape ({seq},), (batch, {seq}) or one that broadcasts to {shape}"
        fail(ValueError, fn, "positions", wanted, given)
    start = real_array(fn, "offset", offset)
    if start.dtype.kind == "f":
        fail(TypeError, fn, "offset", "must be an integer or one for each row", start.dtype)
    if start.ndim:
        if start.shape != shape[:1] or axis == 0:
            fail(ValueError, fn, "offset", "must be one, or one for each row of x", start.shape)
        start = start.reshape(-1, *(1 for _ in shape[1:]))
    return np.asarray(p + start)


def float_dtype(fn: str, dtype: npt.DTypeLike) -> np.dtype[Any]:
    """One of float16, bfloat16, float32 and float64, in native byte order."""
    wanted = "must be float16, bfloat16, float32 or float64"
    try:
        result = np.dtype(dtype)
    except (TypeError, ValueError):
        fail(TypeError, fn, "dtype", wanted, repr(dtype))
    if not (is_bfloat16(result) or result in (np.float16, np.float32, np.float64)):
        fail(TypeError, fn, "dtype", wanted, result)
    return result


def check_out(fn: str, out: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """`out`, which must be a writeable array of exactly this shape and dtype."""
    if not isinstance(out, np.ndarray):
        fail(TypeError, fn, "out", "must be a NumPy array", type(out).__name__)
    if out.dtype != dtype:
        fail(TypeError, fn, "out", f"must have dtype {dtype}", out.dtype)
    if out.shape != shape:
        fail(ValueError, fn, "out", f"must have shape {shape}", out.shape)
    if not out.flags.writeable:
        fail(ValueError, fn, "out", "must be writeable", "a read-only array")
    reach = out.itemsize  # each axis must step over all that those of smaller steps reach
    for step, size in sorted((abs(t), n) for t, n in zip(out.strides, shape, strict=True) if n > 1):
        if step < reach and out.size:
            fail(ValueError, fn, "out", "must not overlap itself", f"strides {out.strides}")
        reach += step * (size - 1)
    return out


def allocate(fn: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A new array, or MemoryError before a byte is touched."""
    if len(shape) > _MAX_NDIM:
        fail(ValueError, fn, "positions", f"must have at most {_MAX_NDIM - 1} axes", len(shape) - 1)
    try:
        # NumPy refuses sizes beyond the address space with a ValueError, even when one of them is 0
        if math.prod(n for n in shape if n) * dtype.itemsize > sys.maxsize:
            raise MemoryError
        return np.empty(shape, dtype)
    except MemoryError:
        fail(MemoryError, fn, "out", "must fit in memory", f"shape {shape} of {dtype}")
