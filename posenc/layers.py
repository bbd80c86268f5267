"""The course's layers: NumPy objects, called like functions.

They are what a first transformer needs at its input, and no framework: weights are arrays, a call
computes, nothing is differentiated. A new layer is in training mode, in which dropout acts; `eval`
turns it off. A *parameter* is learned; a *buffer* is saved with the state, and no parameter.

>>> layer = TransformerEmbedding(1000, 64, max_len=32, rng=0).eval()
>>> layer([[5, 3, 5]]).shape, layer.num_parameters()
((1, 3, 64), 64000)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Self

import numpy as np
import numpy.typing as npt

from . import _args
from ._args import Array, fail, named, positive_int
from .learned import embed
from .naive import normalized_positions, raw_positions
from .sinusoidal import sinusoidal

__all__ = [
    "LearnedPositionalEmbedding",
    "SinusoidalPositionalEncoding",
    "TokenAndPositional",
    "TokenEmbedding",
    "TransformerEmbedding",
]

Rng = int | np.random.Generator | None


class Layer:
    """What the layers share: their arrays by name, the two modes, and dropout."""

    training = True
    dropout = 0.0
    rng: np.random.Generator
    _parameters: tuple[str, ...] = ()  # names of attributes
    _buffers: tuple[str, ...] = ()
    _layers: tuple[str, ...] = ()

    def train(self, mode: bool = True) -> Self:
        """Turn dropout on, here and in the layers inside; returns the layer."""
        self.training = bool(mode)
        for name in self._layers:
            getattr(self, name).train(mode)
        return self

    def eval(self) -> Self:
        """Turn dropout off."""
        return self.train(False)

    def parameters(self) -> list[Array]:
        """The learned arrays themselves: change one in place, and the layer has changed."""
        return [array for _, array, learned in self._arrays() if learned]

    def num_parameters(self) -> int:
        """How many numbers are learned."""
        return sum(array.size for array in self.parameters())

    def state_dict(self) -> dict[str, Array]:
        """Copies of all parameters and buffers by name, ready for `numpy.savez`."""
        return {name: array.copy() for name, array, _ in self._arrays()}

    def load_state_dict(self, state: Mapping[str, npt.ArrayLike]) -> None:
        """Take over a state: its names and shapes exactly; numbers are cast to the layer's dtype.

        Raises TypeError for something else than numbers by name, and ValueError naming what is
        missing, unexpected, or of a wrong shape. Nothing is changed then.
        """
        fn = f"{type(self).__name__}.load_state_dict"
        if not isinstance(state, Mapping):
            fail(TypeError, fn, "state", "must be a mapping of names", type(state).__name__)
        own = {name: array for name, array, _ in self._arrays()}
        missing, unexpected = own.keys() - state.keys(), state.keys() - own.keys()
        if missing or unexpected:
            got = f"missing {sorted(missing)} and unexpected {sorted(unexpected, key=str)}"
            fail(ValueError, fn, "state", "must have the names in state_dict()", got)
        given = {name: _args.real_array(fn, f"state[{name!r}]", state[name]) for name in own}
        for name, array in given.items():
            if array.shape != own[name].shape:
                wanted = f"must have shape {own[name].shape}"
                fail(ValueError, fn, f"state[{name!r}]", wanted, array.shape)
        for name, array in given.items():
            own[name][...] = array

    def _arrays(self, prefix: str = "") -> Iterator[tuple[str, Array, bool]]:
        for name in self._parameters + self._buffers:
            yield prefix + name, getattr(self, name), name in self._parameters
        for name in self._layers:
            yield from getattr(self, name)._arrays(f"{prefix}{name}.")

    def _set_dropout(self, fn: str, p: float, rng: Rng) -> None:
        self.dropout, self.rng = _args.number(fn, "dropout", p), np.random.default_rng(rng)
        if not 0 <= self.dropout <= 1:
            fail(ValueError, fn, "dropout", "must be from 0 to 1", p)

    def _drop(self, x: Array) -> Array:
        """Zero each element with probability p and divide the others by 1 - p, in place."""
        if self.training and self.dropout > 0:
            dropped = self.rng.random(x.shape) < self.dropout
            if self.dropout < 1:
                np.multiply(x, x.dtype.type(1 / (1 - self.dropout)), out=x)
            x[dropped] = 0
        return x


class TokenEmbedding(Layer):
    """Token embedding: ``weight[id] * scale``, the scale being ``sqrt(d_model)``.

    Parameters
    ----------
    vocab_size, d_model : int
        The shape of `weight`, which is drawn from a standard normal distribution.
    scale : float, optional
        Another factor than ``sqrt(d_model)``; 1 for none.
    dtype : dtype, optional
        float16, bfloat16 (of ml_dtypes), float32 or float64.
    rng : int or numpy.random.Generator, optional
        Seed or source of the weights. Default: new ones each time.

    Called with ids of any shape, it returns ``ids.shape + (d_model,)``. IndexError for an id
    outside the vocabulary; TypeError and ValueError as in `embed`.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, arXiv:1706.03762, section 3.4.

    Examples
    --------
    >>> import posenc
    >>> embed = posenc.TokenEmbedding(50000, 512, rng=0, dtype="float32")
    >>> embed([[101, 7592, 2088, 102]]).shape
    (1, 4, 512)
    """

    _parameters = ("weight",)

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        *,
        scale: float | None = None,
        dtype: npt.DTypeLike = np.float64,
        rng: Rng = None,
    ) -> None:
        fn = "TokenEmbedding"
        vocab_size = positive_int(fn, "vocab_size", vocab_size)
        d_model = positive_int(fn, "d_model", d_model)
        self.scale = math.sqrt(d_model) if scale is None else _args.number(fn, "scale", scale)
        self.weight = _normal(fn, (vocab_size, d_model), dtype, rng)

    def __call__(self, token_ids: npt.ArrayLike) -> Array:
        return embed(token_ids, self.weight, scale=self.scale)


class SinusoidalPositionalEncoding(Layer):
    """Add a sinusoidal table, then drop out: ``dropout(x + pe[:seq])``.

    Parameters
    ----------
    d_model : int
        The width of x.
    max_len : int, optional
        The rows kept in the buffer `pe`. A longer x is no fault: the formula has no end, and the
        rows past the buffer are computed.
    dropout : float, optional
        The probability of zeroing an element, in training mode.
    dtype, rng
        As in `TokenEmbedding`: of the buffer, and of the dropout.

    Called with x of shape ``(..., seq, d_model)``, it returns a new array of x's shape and dtype
    (float64 for integers), to which the rows are cast. There are no parameters. TypeError or
    ValueError where x does not fit.
    See Vaswani et al., 2017, section 3.5.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> encode = posenc.SinusoidalPositionalEncoding(4, max_len=2).eval()
    >>> encode(np.zeros((1, 3, 4)))
    array([[[ 0.        ,  1.        ,  0.        ,  1.        ],
            [ 0.84147098,  0.54030231,  0.00999983,  0.99995   ],
            [ 0.90929743, -0.41614684,  0.01999867,  0.99980001]]])
    """

    _buffers = ("pe",)

    def __init__(
        self,
        d_model: int,
        max_len: int = 5000,
        dropout: float = 0.1,
        *,
        dtype: npt.DTypeLike = np.float64,
        rng: Rng = None,
    ) -> None:
        fn = "SinusoidalPositionalEncoding"
        d_model = positive_int(fn, "d_model", d_model)
        max_len = positive_int(fn, "max_len", max_len)
        self._set_dropout(fn, dropout, rng)
        with named(fn, dim="d_model", positions="max_len", out="max_len"):
            self.pe = sinusoidal(max_len, d_model, dtype=_args.float_dtype(fn, dtype))

    def table(self, seq: int) -> Array:
        """At least `seq` rows: the buffer, and what it lacks from the formula."""
        max_len, d_model = self.pe.shape
        if seq <= max_len:
            return self.pe
        rest = sinusoidal(np.arange(max_len, seq), d_model, dtype=self.pe.dtype)
        return np.concatenate([self.pe, rest])

    def __call__(self, x: npt.ArrayLike) -> Array:
        return self._drop(_add(x, self))


class LearnedPositionalEmbedding(Layer):
    """Add a learned table: ``x + weight[:seq]``.

    Parameters
    ----------
    max_len, d_model : int
        The shape of `weight`, drawn from a normal distribution of standard deviation 0.02.
    dtype, rng
        As in `TokenEmbedding`.

    Called with x of shape ``(..., seq, d_model)``, it returns a new array of x's shape and dtype
    (float64 for integers). Past `max_len` there is no row to add: IndexError, naming both numbers.

    References
    ----------
    Gehring et al., "Convolutional Sequence to Sequence Learning", 2017, arXiv:1705.03122.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> learned = posenc.LearnedPositionalEmbedding(512, 64, rng=0)
    >>> learned.num_parameters()
    32768
    >>> learned(np.zeros((1, 513, 64)))
    Traceback (most recent call last):
    IndexError: LearnedPositionalEmbedding: x: must be at most 512 tokens long (max_len), got 513
    """

    _parameters = ("weight",)

    def __init__(
        self, max_len: int, d_model: int, *, dtype: npt.DTypeLike = np.float64, rng: Rng = None
    ) -> None:
        fn = "LearnedPositionalEmbedding"
        shape = positive_int(fn, "max_len", max_len), positive_int(fn, "d_model", d_model)
        self.weight = _normal(fn, shape, dtype, rng, 0.02)

    def table(self, seq: int) -> Array:
        """The rows there are, which have to be at least `seq`."""
        if seq > len(self.weight):
            wanted = f"must be at most {len(self.weight)} tokens long (max_len)"
            fail(IndexError, type(self).__name__, "x", wanted, seq)
        return self.weight

    def __call__(self, x: npt.ArrayLike) -> Array:
        return _add(x, self)


class TransformerEmbedding(Layer):
    """A transformer's input: ``dropout(token * sqrt(d_model) + position)``.

    Parameters
    ----------
    vocab_size, d_model : int
        The shape of ``token.weight``.
    max_len : int, optional
        The rows of the sinusoidal buffer, or of the learned table.
    pos_encoding : {"sinusoidal", "learned", "none", "raw", "normalized"}, optional
        What is added: see the layers of that name, `raw_positions`, `normalized_positions`.
    dropout : float, optional
        Applied once, to the sum, in training mode.
    dtype, rng
        As in `TokenEmbedding`; the dropout takes the same source.

    Called with ids of shape ``(..., seq)``, it returns ``(..., seq, d_model)``. Gather, scale and
    sum are one pass (see `embed`). IndexError for an id outside the vocabulary, or a text longer
    than a learned table. See Vaswani et al., 2017, sections 3.4, 3.5 and 5.4.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> layer = posenc.TransformerEmbedding(1000, 64, max_len=2048, rng=0)
    >>> layer(np.zeros((32, 100), int)).shape
    (32, 100, 64)
    >>> sorted(layer.state_dict())
    ['position.pe', 'token.weight']
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        max_len: int = 5000,
        pos_encoding: str = "sinusoidal",
        dropout: float = 0.1,
        *,
        dtype: npt.DTypeLike = np.float64,
        rng: Rng = None,
    ) -> None:
        fn, known = type(self).__name__, ("sinusoidal", "learned", "none", "raw", "normalized")
        if pos_encoding not in known:
            raise ValueError(f"Unknown pos_encoding: {pos_encoding!r}, must be one of {known}")
        self.pos_encoding = pos_encoding
        self._set_dropout(fn, dropout, rng)
        with named(fn, out="vocab_size"):
            self.token = TokenEmbedding(vocab_size, d_model, dtype=dtype, rng=self.rng)
        self.position: SinusoidalPositionalEncoding | LearnedPositionalEmbedding | None = None
        with named(fn, out="max_len"):
            if pos_encoding == "sinusoidal":
                self.position = SinusoidalPositionalEncoding(d_model, max_len, 0.0, dtype=dtype)
            elif pos_encoding == "learned":
                learned = LearnedPositionalEmbedding
                self.position = learned(max_len, d_model, dtype=dtype, rng=self.rng)
        self._layers = ("token", "position") if self.position else ("token",)

    def __call__(self, token_ids: npt.ArrayLike) -> Array:
        fn, shape = type(self).__name__, np.shape(token_ids)
        if not shape:
            fail(ValueError, fn, "token_ids", "must have a sequence axis", "a single number")
        weight, seq, table = self.token.weight, shape[-1], None
        if self.position:
            table = self.position.table(seq)
        elif self.pos_encoding == "raw":
            table = raw_positions(seq, weight.shape[1], dtype=weight.dtype)
        elif self.pos_encoding == "normalized" and seq:
            table = normalized_positions(seq, weight.shape[1], dtype=weight.dtype)
        x = embed(token_ids, weight, scale=self.token.scale, encoding=table)
        return self._drop(x)


class TokenAndPositional(TransformerEmbedding):
    """The plain sum ``token + position``: sinusoidal, not scaled, no dropout.

    Parameters
    ----------
    vocab_size, d_model : int
        The shape of ``token.weight``.
    max_len : int, optional
        The rows of the sinusoidal buffer; longer texts are computed.
    dtype, rng
        As in `TokenEmbedding`.

    Examples
    --------
    >>> import posenc
    >>> layer = posenc.TokenAndPositional(100, 16, rng=0)
    >>> (layer([7, 7]) - layer.token.weight[7] - posenc.sinusoidal(2, 16)).max().round(12)
    np.float64(0.0)
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        max_len: int = 1024,
        *,
        dtype: npt.DTypeLike = np.float64,
        rng: Rng = None,
    ) -> None:
        super().__init__(vocab_size, d_model, max_len, dropout=0.0, dtype=dtype, rng=rng)
        self.token.scale = 1.0


def _normal(
    fn: str, shape: tuple[int, int], dtype: npt.DTypeLike, rng: Rng, std: float = 1.0
) -> Array:
    """Normal numbers, drawn in float64 and rounded: a seed means the same in every dtype."""
    weight = _args.allocate(fn, shape, _args.float_dtype(fn, dtype))
    weight[...] = np.random.default_rng(rng).normal(0.0, std, shape)
    return weight


def _add(
    x: npt.ArrayLike, layer: SinusoidalPositionalEncoding | LearnedPositionalEmbedding
) -> Array:
    """A new array: x, of shape (..., seq, d_model), and the first seq rows of the layer's table."""
    fn, x, d_model = type(layer).__name__, np.asarray(x), layer.table(0).shape[1]
    if x.dtype.kind in "iu":
        x = x.astype(np.float64)
    if not _args.is_bfloat16(x.dtype) and x.dtype.type not in (np.float16, np.float32, np.float64):
        wanted = "must be an array of float16, bfloat16, float32 or float64"
        fail(TypeError, fn, "x", wanted, x.dtype)
    if x.ndim < 2 or x.shape[-1] != d_model:
        fail(ValueError, fn, "x", f"must have shape (..., seq, {d_model})", x.shape)
    rows = layer.table(x.shape[-2])[: x.shape[-2]]
    return np.asarray(x + rows.astype(x.dtype, copy=False))
