"""ALiBi beside the usual NumPy lines and a copy of the result: out=, new, a view, one query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import posenc

Job = tuple[str, dict[str, Callable[[], Any]]]


def prototype(slopes: np.ndarray, q_len: int, k_len: int) -> np.ndarray:
    i, j = np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)
    return -slopes[:, None, None] * abs(j - i)


def prototype_float32(slopes: np.ndarray, q_len: int, k_len: int) -> np.ndarray:
    """The same with nothing in float64."""
    i, j = np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)
    return -slopes[:, None, None] * abs(j - i).astype(np.float32)


def jobs() -> Iterator[Job]:
    shape = heads, q_len, k_len = 8, 2048, 2048
    slopes = posenc.alibi_slopes(heads)
    narrow = slopes.astype(np.float32)
    assert np.array_equal(
        posenc.alibi_bias(*shape, dtype="float32"), prototype_float32(narrow, q_len, k_len)
    )
    out, source = np.zeros(shape, np.float32), np.ones(shape, np.float32)
    peers = {
        "numpy": lambda: prototype(slopes, q_len, k_len).astype(np.float32),
        "numpy in float32": lambda: prototype_float32(narrow, q_len, k_len),
    }
    yield (
        "alibi float32 8 x 2048 x 2048, out=",
        {
            "posenc": lambda: posenc.alibi_bias(*shape, dtype="float32", out=out),
            "memcpy": lambda: np.copyto(out, source),
            **peers,
        },
    )
    yield (
        "alibi float32 8 x 2048 x 2048, new",
        {
            "posenc": lambda: posenc.alibi_bias(*shape, dtype="float32"),
            "new memory, filled": lambda: np.full(shape, 1, np.float32),
            "memcpy": lambda: source.copy(),
            **peers,
        },
    )
    yield (
        "alibi float32 8 x 2048 x 2048, view",
        {"posenc": lambda: posenc.alibi_bias(*shape, dtype="float32", view=True), **peers},
    )
    odd = 8, 2047, 2047
    flat, rows = out.reshape(-1), source.reshape(-1)
    size = 8 * 2047 * 2047
    target, given = flat[:size].reshape(odd), rows[:size].reshape(odd)
    yield (
        "alibi float32 8 x 2047 x 2047, causal, out=",
        {
            "posenc": lambda: posenc.alibi_bias(*odd, symmetric=False, dtype="float32", out=target),
            "memcpy": lambda: np.copyto(target, given),
        },
    )
    by_head = np.zeros((2048, 2048, 8), np.float32).transpose(2, 0, 1)
    yield (
        "alibi float32 2048 x 2048 x 8 (heads last), out=",
        {
            "posenc": lambda: posenc.alibi_bias(*shape, dtype="float32", out=by_head),
            "numpy copy of the view": lambda: np.copyto(
                by_head, posenc.alibi_bias(*shape, dtype="float32", view=True)
            ),
        },
    )
    half, halves = np.zeros(shape, np.float16), np.ones(shape, np.float16)
    yield (
        "alibi float16 8 x 2048 x 2048, out=",
        {
            "posenc": lambda: posenc.alibi_bias(*shape, dtype="float16", out=half),
            "memcpy": lambda: np.copyto(half, halves),
        },
    )
    for heads, keys in ((8, 128), (32, 8192)):
        slopes = posenc.alibi_slopes(heads)
        assert np.allclose(posenc.alibi_bias(heads, 1, keys), prototype(slopes, 1, keys))
        yield (
            f"alibi float64 {heads} x 1 x {keys}",
            {
                "posenc": lambda heads=heads, keys=keys: posenc.alibi_bias(heads, 1, keys),
                "numpy": lambda slopes=slopes, keys=keys: prototype(slopes, 1, keys),
            },
        )
