"""Sinusoidal tables beside the NumPy prototype, torch, and a copy of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import posenc

Job = tuple[str, dict[str, Callable[[], Any]]]


def prototype(n: int, dim: int, dtype: Any) -> np.ndarray:
    angle = np.arange(n, dtype=dtype)[:, None] / dtype(10000.0) ** (
        np.arange(0, dim, 2, dtype=dtype) / dtype(dim)
    )
    table = np.empty((n, dim), dtype)
    table[:, 0::2], table[:, 1::2] = np.sin(angle), np.cos(angle)
    return table


def torch_peer(n: int, dim: int) -> dict[str, Callable[[], Any]]:
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)

    def table() -> Any:
        angle = torch.arange(n)[:, None] * torch.exp(
            torch.arange(0, dim, 2) * (-np.log(10000.0) / dim)
        )
        out = torch.empty(n, dim)
        out[:, 0::2], out[:, 1::2] = torch.sin(angle), torch.cos(angle)
        return out

    return {"torch float32": table}


def jobs() -> Iterator[Job]:
    for n, dim, dtype in (
        (512, 64, np.float64),
        (512, 64, np.float32),
        (5000, 512, np.float64),
        (5000, 512, np.float32),
        (8192, 4096, np.float32),
    ):
        out = posenc.sinusoidal(n, dim, dtype=dtype)
        if dtype == np.float64:
            assert np.allclose(out, prototype(n, dim, dtype), atol=1e-10)
        copy, name = np.empty_like(out), np.dtype(dtype).name
        calls: dict[str, Callable[[], Any]] = {
            "posenc": lambda n=n, dim=dim, dtype=dtype, out=out: posenc.sinusoidal(
                n, dim, dtype=dtype, out=out
            ),
            "numpy": lambda n=n, dim=dim, dtype=dtype: prototype(n, dim, dtype),
            "memcpy": lambda copy=copy, out=out: np.copyto(copy, out),
        }
        if dtype == np.float32:
            calls |= torch_peer(n, dim)
        yield f"sinusoidal {name} {n} x {dim}, out=", calls
        if n * dim < 1 << 24:
            calls = {
                "posenc": lambda n=n, dim=dim, dtype=dtype: posenc.sinusoidal(n, dim, dtype=dtype),
                "numpy": calls["numpy"],
                "copy": out.copy,
            }
            yield f"sinusoidal {name} {n} x {dim}, new", calls
    x = np.random.default_rng(0).standard_normal((32, 512, 512)).astype(np.float32)
    out, table = np.empty_like(x), posenc.sinusoidal(512, 512, dtype=np.float32)
    assert (posenc.add_sinusoidal(x) == x + table).all()
    yield (
        "add_sinusoidal float32 32 x 512 x 512",
        {
            "posenc": lambda: posenc.add_sinusoidal(x, out=out),
            "numpy, table ready": lambda: np.add(x, table, out=out),
        },
    )
