"""posenc.layouts: the same numbers in other places, and the same scores after a rotation."""

import json
from pathlib import Path

import effort
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc import layouts, permute_rope_weight, rope, rope_plan, to_half, to_interleaved

STORED = json.loads((Path(__file__).parent / "data" / "rope.json").read_text())
DTYPES = ["?", "u1", "<i8", ">i4", "f2", ">f4", "f8", "g", "c16", "S3", "U2", "O", "M8[s]", "V5"]
DTYPES += [ml_dtypes.bfloat16, np.dtype([("a", "u1"), ("b", ">f8")])]
by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
by_direction = pytest.mark.parametrize("function", [to_half, to_interleaved])
shapes = st.lists(st.integers(0, 5), max_size=3)


def numbered(shape):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


def filled(shape, dtype):
    """An array whose bytes differ from element to element, whatever they mean."""
    dtype = np.dtype(dtype)
    n = int(np.prod(shape))
    if dtype.kind == "O":
        return np.array([f"item {i}" for i in range(n)], dtype).reshape(shape)
    if dtype.kind == "U":
        return np.array([chr(65 + i) for i in range(n)], dtype).reshape(shape)
    raw = np.arange(n * dtype.itemsize) % 251
    raw = raw % 2 if dtype.kind == "b" else raw
    return raw.astype(np.uint8).view(dtype).reshape(shape)


def content(x):
    return x.tolist() if x.dtype.kind == "O" else np.ascontiguousarray(x).tobytes()


def test_values():
    x = np.arange(8)
    np.testing.assert_array_equal(to_half(x), [0, 2, 4, 6, 1, 3, 5, 7])
    np.testing.assert_array_equal(to_interleaved(x), [0, 4, 1, 5, 2, 6, 3, 7])
    np.testing.assert_array_equal(to_half([["a", "b"]], axis=1), [["a", "b"]])
    np.testing.assert_array_equal(to_half([["a", "b"]] * 2, axis=0), [["a", "b"]] * 2)


@given(shapes, shapes, st.integers(0, 6), st.booleans())
def test_every_axis_of_every_shape(before, after, half, negative):
    x = numbered((*before, 2 * half, *after))
    axis = len(before) - x.ndim if negative else len(before)
    y = to_half(x, axis)
    assert y.shape == x.shape and not np.shares_memory(x, y)
    for i in range(half):
        np.testing.assert_array_equal(y.take(i, axis), x.take(2 * i, axis))
        np.testing.assert_array_equal(y.take(i + half, axis), x.take(2 * i + 1, axis))
    np.testing.assert_array_equal(to_interleaved(y, axis), x)
    np.testing.assert_array_equal(to_half(to_interleaved(x, axis), axis), x)


@by_dtype
def test_every_dtype(dtype):
    x = filled((3, 6), dtype)
    order = [0, 2, 4, 1, 3, 5]
    y = to_half(x)
    assert y.dtype == x.dtype and y.dtype.byteorder == x.dtype.byteorder
    assert content(y) == content(x[:, order]) != content(x)
    back = to_interleaved(y)
    assert back.dtype == x.dtype and content(back) == content(x)
    rows = permute_rope_weight(filled((6, 2), dtype), 1)
    assert rows.dtype == x.dtype and content(rows) == content(filled((6, 2), dtype)[order])


@by_direction
def test_any_strides(function):
    x = numbered((4, 6, 8))
    for view in (x[:, ::2, ::-1], x.T, np.asfortranarray(x), np.broadcast_to(x[0], (3, 6, 8))):
        for axis in range(3):
            if view.shape[axis] % 2 == 0:
                right = function(np.array(view, order="C"), axis)
                got = function(view, axis)
                np.testing.assert_array_equal(got, right)
                assert got.flags.writeable and not np.shares_memory(got, view)


@by_direction
def test_subclasses_become_plain_arrays(function):
    got = function(np.ma.array([1.0, 2.0], mask=[True, False]))
    assert type(got) is np.ndarray


@by_direction
@pytest.mark.parametrize(
    "x, axis, error, message",
    [
        ([1, 2, 3], -1, ValueError, "x: must have an even number of channels, got 3"),
        (np.ones((4, 5)), 1, ValueError, "x: must have an even number of channels, got 5"),
        (np.float64(1), -1, ValueError, "axis: must be one of the 0 axes of x, got -1"),
        ([1, 2], 1, ValueError, "axis: must be one of the 1 axes of x, got 1"),
        ([1, 2], -2, ValueError, "axis: must be one of the 1 axes of x, got -2"),
        ([1, 2], 0.0, TypeError, "axis: must be an integer, got float"),
        ([1, 2], True, TypeError, "axis: must be an integer, got bool"),
        ([[1, 2], [3]], -1, TypeError, "x: must be an array, got a ragged list"),
    ],
)
def test_errors(function, x, axis, error, message):
    with pytest.raises(error) as caught:
        function(x, axis)
    assert str(caught.value) == f"{function.__name__}: {message}"


# --- in blocks ------------------------------------------------------------------------------------


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(layouts, "_BLOCK", 96)


@by_direction
@pytest.mark.parametrize("dtype", ["u1", "f8", "O", "V1000"])
@pytest.mark.usefixtures("small_blocks")
def test_many_blocks(function, dtype):
    x = filled((3, 7, 10), dtype)
    for view in (x, x[::-1, :, ::-1], x.T, np.asfortranarray(x), np.broadcast_to(x[0], (5, 7, 10))):
        axis = view.shape.index(10)
        i = np.arange(10)
        order = i % 5 * 2 + i // 5 if function is to_half else i % 2 * 5 + i // 2
        assert content(function(view, axis)) == content(view.take(order, axis))


@pytest.mark.parametrize("rotary_dim", [None, 6])
@pytest.mark.usefixtures("small_blocks")
def test_many_blocks_of_a_weight(rotary_dim):
    w = numbered((40, 9))
    order = np.arange(40).reshape(4, 10)
    order[:, :rotary_dim] = np.concatenate([order[:, 0:rotary_dim:2], order[:, 1:rotary_dim:2]], 1)
    for view in (w, np.asfortranarray(w), w[::-1, ::2], w[:, 0]):
        got = permute_rope_weight(view, 4, rotary_dim=rotary_dim)
        np.testing.assert_array_equal(got, view[order.ravel()])


@pytest.mark.parametrize("shape", [(1 << 20, 8), (1, 8, 1 << 20), (1 << 23,)], ids=str)
def test_large_arrays_take_no_memory_and_can_be_interrupted(shape):
    x = np.zeros(shape, np.float32)  # 32 MiB
    small = effort.lines(lambda: to_half(np.zeros(8)))
    for call in (
        lambda: to_half(x),
        lambda: to_interleaved(x),
        lambda: permute_rope_weight(x.reshape(-1, x.shape[-1]).T, 4),
        lambda: permute_rope_weight(x.reshape(-1, x.shape[-1]).T, 1, rotary_dim=8),
    ):
        assert effort.peak(call) < x.nbytes + (1 << 20)
        assert effort.lines(call) - small > 32  # MiB


# --- with rotations -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_turning_commutes_with_moving(dtype):
    x = np.random.default_rng(2).standard_normal((2, 3, 5, 16)).astype(dtype)
    for p in (np.arange(5), np.array([0, 5, 17, 1_000_000, -3])):
        a = to_half(rope(x, p))
        b = rope(to_half(x), p, layout="half")
        np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


def test_the_case_most_often_asked_about():
    x = np.array([1.0, 2.0, 3.0, 4.0])
    half = [-1.984110648556, 1.959900667497, 2.462377902412, 4.019799668335]
    interleaved = [-1.142639663748, 1.922075596544, 2.959850667913, 4.029799501669]
    by_halves = to_interleaved(rope(to_half(x), 1, layout="half"))
    np.testing.assert_allclose(by_halves, interleaved, rtol=0, atol=1e-12)
    by_pairs = to_half(rope(to_interleaved(x), 1))
    np.testing.assert_allclose(by_pairs, half, rtol=0, atol=1e-12)


def test_keys_that_deepseek_caches():
    """Its code turns interleaved channels and leaves them in halves."""
    x = np.array(STORED["input_bhsd"], np.float32)
    got = to_half(rope(x, STORED["position_ids"]))
    right = np.array(STORED["hf_deepseek_interleave_in_half_out"], np.float32)
    # their angles are float32 products, up to 17 here
    np.testing.assert_allclose(got, right, rtol=0, atol=17 * 2.0**-22)


# --- weights --------------------------------------------------------------------------------------


@given(st.integers(1, 4), st.integers(0, 5), st.integers(1, 3), st.data())
def test_rows_of_every_head(heads, half, width, data):
    head_dim = 2 * half + data.draw(st.integers(0, 3))
    rotary = 2 * half if half and data.draw(st.booleans()) else None
    if rotary is None:
        head_dim = 2 * half
    w = numbered((heads * head_dim, width))
    got = permute_rope_weight(w, heads, rotary_dim=rotary)
    for h in range(heads):
        for r in range(head_dim):
            # the row that turns as the pair r % half of its head
            source = r if r >= 2 * half else 2 * (r % half) + r // half
            np.testing.assert_array_equal(got[h * head_dim + r], w[h * head_dim + source])
    assert got.shape == w.shape and not np.shares_memory(got, w)
    back = permute_rope_weight(got, heads, to="interleaved", rotary_dim=rotary)
    np.testing.assert_array_equal(back, w)
    bias = permute_rope_weight(w[:, 0], heads, rotary_dim=rotary)
    np.testing.assert_array_equal(bias, got[:, 0])


def test_the_permutation_from_meta_to_hugging_face():
    heads, dim, width = 3, 8, 5
    w = np.random.default_rng(3).standard_normal((heads * dim, width))
    right = w.reshape(heads, dim // 2, 2, width).swapaxes(1, 2).reshape(heads * dim, width)
    np.testing.assert_array_equal(permute_rope_weight(w, heads), right)


@pytest.mark.parametrize("rotary_dim", [None, 2])
def test_weights_of_any_strides(rotary_dim):
    w = numbered((16, 6))
    for view in (
        w[:, ::-2],
        w[::-1],
        w.T[:4],
        np.asfortranarray(w),
        np.broadcast_to(w[0], (8, 6)),
    ):
        got = permute_rope_weight(view, 2, rotary_dim=rotary_dim)
        right = permute_rope_weight(np.array(view, order="C"), 2, rotary_dim=rotary_dim)
        np.testing.assert_array_equal(got, right)
        assert got.flags.writeable and not np.shares_memory(got, view)


@pytest.mark.parametrize("rotary_dim", [None, 8])
def test_projecting_with_the_permuted_weight(rotary_dim):
    """Small whole numbers, so that a projection is exact and bits can be compared."""
    rng = np.random.default_rng(4)
    tokens, heads, dim, width = 7, 3, 12, 10
    x = rng.integers(-8, 9, (tokens, width)).astype(np.float64)
    w = rng.integers(-8, 9, (heads * dim, width)).astype(np.float64)
    bias = rng.integers(-8, 9, heads * dim).astype(np.float64)
    p = rng.integers(0, 1 << 20, tokens)

    def turned(weight, bias, layout):
        y = (x @ weight.T + bias).reshape(tokens, heads, dim).swapaxes(0, 1)
        return rope(y, p, plan=rope_plan(dim, layout=layout, rotary_dim=rotary_dim))

    plain = turned(w, bias, "interleaved")
    moved = turned(
        permute_rope_weight(w, heads, rotary_dim=rotary_dim),
        permute_rope_weight(bias, heads, rotary_dim=rotary_dim),
        "half",
    )
    n = rotary_dim or dim
    np.testing.assert_array_equal(moved[..., :n], to_half(plain[..., :n]))
    np.testing.assert_array_equal(moved[..., n:], plain[..., n:])
    scores, same = plain[:, :1] @ plain.swapaxes(1, 2), moved[:, :1] @ moved.swapaxes(1, 2)
    np.testing.assert_allclose(same, scores, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize(
    "args, more, error, message",
    [
        ((np.ones((6, 2)), 4), {}, ValueError, "weight: first axis must be a multiple of 4 heads"),
        ((np.ones((6, 2)), 2), {}, ValueError, "weight: must have an even number of channels"),
        ((np.ones((2, 4, 2)), 2), {}, ValueError, "weight: must have one or two axes, got 3"),
        ((np.float64(1), 1), {}, ValueError, "weight: must have one or two axes, got 0"),
        (([[1], [2, 3]], 1), {}, TypeError, "weight: must be an array, got a ragged list"),
        ((np.ones(8), 0), {}, ValueError, "num_heads: must be at least 1, got 0"),
        ((np.ones(8), 2.0), {}, TypeError, "num_heads: must be an integer, got float"),
        ((np.ones(8), 2), {"to": "neox"}, ValueError, "to: must be 'half' or 'interleaved'"),
        ((np.ones(8), 2), {"to": None}, TypeError, "to: must be 'half' or 'interleaved'"),
        ((np.ones(8), 2), {"rotary_dim": 3}, ValueError, "rotary_dim: must have an even number"),
        ((np.ones(8), 2), {"rotary_dim": 6}, ValueError, "rotary_dim: must be at most the width"),
        ((np.ones(8), 2), {"rotary_dim": 0}, ValueError, "rotary_dim: must be at least 1, got 0"),
        ((np.ones(8), 2), {"rotary_dim": 2.0}, TypeError, "rotary_dim: must be an integer"),
    ],
)
def test_errors_of_weights(args, more, error, message):
    with pytest.raises(error) as caught:
        permute_rope_weight(*args, **more)
    assert str(caught.value).startswith(f"permute_rope_weight: {message}")
