"""Token rows, scaled, with the row of the position added: beside NumPy, torch, and NumPy's take."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import posenc

Job = tuple[str, dict[str, Callable[[], Any]]]


def torch_peer(
    ids: np.ndarray, weight: np.ndarray, scale: float, table: np.ndarray, want: np.ndarray
) -> dict[str, Callable[[], Any]]:
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    i, w, pe = torch.from_numpy(ids), torch.from_numpy(weight), torch.from_numpy(table)

    def embed() -> Any:
        with torch.inference_mode():
            return torch.nn.functional.embedding(i, w) * scale + pe

    assert np.allclose(embed().numpy(), want, rtol=1e-6, atol=1e-6)
    return {"torch": embed}


def jobs() -> Iterator[Job]:
    rng = np.random.default_rng(0)
    for batch, seq, vocab, dim, dtype in (
        (32, 512, 50000, 512, np.float32),
        (1, 512, 50000, 512, np.float32),
        (32, 1, 50000, 512, np.float32),
        (32, 512, 50000, 512, np.float64),
        (32, 512, 50000, 512, np.float16),
    ):
        weight = rng.normal(size=(vocab, dim)).astype(dtype)
        ids, scale = rng.integers(0, vocab, (batch, seq)), math.sqrt(dim)
        table, factor = posenc.sinusoidal(seq, dim, dtype=dtype), dtype(scale)
        want = weight[ids] * factor + table
        out = posenc.embed(ids, weight, scale=scale, encoding="sinusoidal")
        if dtype != np.float16:  # NumPy rounds three times there
            assert np.array_equal(out, want)
        assert np.array_equal(out, posenc.embed(ids, weight, scale=scale, encoding=table))

        def new(ids=ids, weight=weight, scale=scale) -> Any:
            return posenc.embed(ids, weight, scale=scale, encoding="sinusoidal")

        def into(ids=ids, weight=weight, scale=scale, out=out) -> Any:
            return posenc.embed(ids, weight, scale=scale, encoding="sinusoidal", out=out)

        def learned(ids=ids, weight=weight, scale=scale, table=table) -> Any:
            return posenc.embed(ids, weight, scale=scale, encoding=table)

        def numpy(ids=ids, weight=weight, factor=factor, table=table) -> Any:
            return weight[ids] * factor + table

        def take(ids=ids, weight=weight) -> Any:
            return np.take(weight, ids, axis=0)

        def lookup(ids=ids, weight=weight) -> Any:
            return posenc.lookup(weight, ids)

        name = f"{batch}x{seq} of {vocab}x{dim} {np.dtype(dtype).name}"
        peers = {"numpy": numpy}
        if dtype == np.float32:
            peers |= torch_peer(ids, weight, scale, table, want)
        yield f"embed {name}", {"posenc": new, **peers}
        yield f"embed out= {name}", {"posenc": into, **peers}
        yield f"embed learned {name}", {"posenc": learned, **peers}
        yield f"lookup {name}", {"posenc": lookup, "numpy take": take}
