"""Rotary embedding beside other libraries, NumPy and a copy; one token, and a long prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import posenc

Calls = dict[str, Callable[[], Any]]
Job = tuple[str, Calls]


def rotate_half(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    half = x.shape[-1] // 2
    return x * cos + np.concatenate((-x[..., half:], x[..., :half]), -1) * sin


def tables(positions: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    angle = positions[:, None] * 10000.0 ** (-np.arange(0, dim, 2) / dim)
    angle = np.concatenate((angle, angle), -1)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def onnxruntime_peer(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> Calls:
    try:
        import onnxruntime
        from onnx import TensorProto, helper
    except ImportError:
        return {}
    shape = list(x.shape)
    half = x.shape[-1] // 2
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node(
                "RotaryEmbedding",
                ["x", "p", "c", "s"],
                ["y"],
                domain="com.microsoft",
                interleaved=0,
            )
        ],
        "rope",
        [
            value("x", TensorProto.FLOAT, shape),
            value("p", TensorProto.INT64, [1]),
            value("c", TensorProto.FLOAT, [len(cos), half]),
            value("s", TensorProto.FLOAT, [len(sin), half]),
        ],
        [value("y", TensorProto.FLOAT, shape)],
    )
    opset = [helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"]
    )
    feed = {
        "x": x,
        "p": np.zeros(1, np.int64),
        "c": np.ascontiguousarray(cos[:, :half]),
        "s": np.ascontiguousarray(sin[:, :half]),
    }
    return {"onnxruntime, tables ready": lambda: session.run(None, feed)[0]}


def torch_peers(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> Calls:
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    t, c, s = map(torch.from_numpy, (x, cos, sin))
    half = x.shape[-1] // 2

    def eager() -> Any:
        return t * c + torch.cat((-t[..., half:], t[..., :half]), -1) * s

    peers: Calls = {"torch, tables ready": eager}
    try:
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
    except ImportError:
        return peers
    keys, c, s = t[:, :0], c[None], s[None]  # it turns keys as well: none
    peers["transformers, tables ready"] = lambda: apply_rotary_pos_emb(t, keys, c, s)[0]
    return peers


def rotary_embedding_torch_peer(x: np.ndarray) -> Calls:
    try:
        import torch
        from rotary_embedding_torch import RotaryEmbedding
    except ImportError:
        return {}
    torch.set_num_threads(1)
    t, rotary = torch.from_numpy(x), RotaryEmbedding(x.shape[-1])
    return {"rotary-embedding-torch": lambda: rotary.rotate_queries_or_keys(t)}


def numba_peer(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> Calls:
    try:
        import numba
    except ImportError:
        return {}

    @numba.njit
    def turn(x: Any, cos: Any, sin: Any, out: Any) -> Any:
        half = x.shape[-1] // 2
        for h in range(x.shape[1]):
            for p in range(x.shape[2]):
                for i in range(half):
                    a, b, c, s = x[0, h, p, i], x[0, h, p, i + half], cos[p, i], sin[p, i]
                    out[0, h, p, i] = a * c - b * s
                    out[0, h, p, i + half] = b * c + a * s
        return out

    out = np.empty_like(x)
    return {"numba, tables ready, out=": lambda: turn(x, cos, sin, out)}


def checked(want: np.ndarray, peers: Calls) -> Calls:
    """The peers, which must compute the same, as far as their float32 angles allow."""
    for label, call in peers.items():
        assert np.allclose(np.asarray(call()), want, atol=1e-2), label
    return peers


def narrow() -> list[np.dtype[Any]]:
    try:
        import ml_dtypes
    except ImportError:
        return [np.dtype(np.float16)]
    return [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


def jobs() -> Iterator[Job]:
    rng = np.random.default_rng(0)
    token = rng.standard_normal((1, 32, 1, 128)).astype(np.float32)
    plan, out = posenc.rope_plan(128, layout="half"), np.empty_like(token)
    cos, sin = tables(np.array([1000]), 128)
    want = rotate_half(token, cos, sin)
    assert np.allclose(posenc.rope(token, offset=1000, plan=plan), want, atol=1e-5)
    peers = {**onnxruntime_peer(token, cos, sin), **torch_peers(token, cos, sin)}
    yield (
        "rope float32, one token, 32 x 128",
        {
            "posenc": lambda: posenc.rope(token, offset=1000, plan=plan),
            "numpy, tables ready": lambda: rotate_half(token, cos, sin),
            **checked(want, peers),
        },
    )
    yield (
        "rope float32, one token, 32 x 128, out=",
        {
            "posenc": lambda: posenc.rope(token, offset=1000, plan=plan, out=out),
            "numpy, tables ready": lambda: rotate_half(token, cos, sin),
            **checked(want, numba_peer(token, cos, sin)),
        },
    )
    keys = token[:, :8].copy()
    yield (
        "rope_qk float32, one token, 32 and 8 x 128",
        {
            "posenc": lambda: posenc.rope_qk(token, keys, offset=1000, plan=plan),
            "posenc.rope twice": lambda: (
                posenc.rope(token, offset=1000, plan=plan),
                posenc.rope(keys, offset=1000, plan=plan),
            ),
            "numpy, tables ready": lambda: (
                rotate_half(token, cos, sin),
                rotate_half(keys, cos, sin),
            ),
        },
    )
    for layout in ("half", "interleaved"):
        plan = posenc.rope_plan(128, layout=layout)
        x = rng.standard_normal((1, 32, 8192, 128)).astype(np.float32)
        out = np.empty_like(x)
        cos, sin = tables(np.arange(8192), 128)
        if layout == "half":
            peers = {
                "numpy, tables ready": lambda x=x, cos=cos, sin=sin: rotate_half(x, cos, sin),
                **numba_peer(x, cos, sin),
                **onnxruntime_peer(x, cos, sin),
                **torch_peers(x, cos, sin),
            }
        else:
            peers = rotary_embedding_torch_peer(x)
        checked(posenc.rope(x, plan=plan), peers)
        yield (
            f"rope float32 1 x 32 x 8192 x 128, {layout}, out=",
            {
                "posenc": lambda plan=plan, x=x, out=out: posenc.rope(x, plan=plan, out=out),
                "memcpy": lambda x=x, out=out: np.copyto(out, x),
                **peers,
            },
        )
        yield (
            f"rope float32 1 x 32 x 8192 x 128, {layout}, in place",
            {
                "posenc": lambda plan=plan, x=x: posenc.rope(x, plan=plan, out=x),
                "memcpy": lambda x=x, out=out: np.copyto(out, x),
            },
        )
        for dtype in narrow():
            h = x.astype(dtype)
            o = np.empty_like(h)
            yield (
                f"rope {np.dtype(dtype).name} 1 x 32 x 8192 x 128, {layout}, out=",
                {
                    "posenc": lambda plan=plan, h=h, o=o: posenc.rope(h, plan=plan, out=o),
                    "posenc float32": lambda plan=plan, x=x, out=out: posenc.rope(
                        x, plan=plan, out=out
                    ),
                },
            )
