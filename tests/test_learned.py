"""posenc.learned against NumPy's indexing, the composed expression bit for bit, and reference."""

import os
import re
import subprocess
import sys
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from conftest import reference_atol
from hypothesis import given, settings
from hypothesis import strategies as st

import posenc
from posenc import embed, lookup, reference, sinusoidal

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(t) for t in (np.float16, BFLOAT16, np.float32, np.float64)]
INTEGERS = "bBhHiIlLqQ"


def normal(shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def same(a, b):
    """Equal bits, whatever NaNs they hold."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def composed(ids, weight, scale, encoding):
    """weight[ids] * scale + encoding as the docstring defines it, in NumPy."""
    compute = np.float64 if weight.dtype == np.float64 else np.float32
    rows = weight[ids].astype(compute) * compute(scale)
    return (rows + encoding.astype(compute)).astype(weight.dtype)


def views(a):
    """The same matrix in other memory."""
    wide = np.zeros((2 * a.shape[0], 3 * a.shape[1]), a.dtype)
    wide[::2, ::3] = a
    return {
        "fortran": np.asfortranarray(a),
        "strided": wide[::2, ::3],
        "backwards": a[::-1, ::-1].copy()[::-1, ::-1],
        "rows backwards": a[::-1].copy()[::-1],
        "read-only": np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
        "unaligned": np.frombuffer(b"x" + a.tobytes(), a.dtype, offset=1).reshape(a.shape),
    }


# ---- lookup -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [1, 2, 7, 64])
def test_lookup_is_indexing(dtype, dim):
    table = normal((9, dim), dtype)
    for ids in ([0, 8, 3, 3], [[1], [2]], np.zeros((2, 0, 3), int), np.array(5)):
        assert same(lookup(table, ids), table[np.asarray(ids)])
    assert same(lookup(table, 4), table[:4])
    assert same(lookup(table, np.int64(9)), table)
    assert same(lookup(table, 0), table[:0])
    assert same(lookup(table, []), table[:0])


def test_lookup_copies_bits_into_a_new_array():
    bits = np.array([[0x7FF8000000000123, 1 << 63], [0x7FF0000000000001, 1]], np.uint64)
    table = bits.view(np.float64)  # NaNs with a payload, a signalling one, -0, a subnormal
    rows = lookup(table, [1, 0])
    assert (rows.view(np.uint64) == bits[::-1]).all()
    assert not np.shares_memory(rows, table)
    assert same(embed([1, 0], table), rows)


@pytest.mark.parametrize("kind", INTEGERS)
def test_ids_of_every_width(kind):
    table = normal((101, 3))
    ids = np.arange(101).astype(kind)
    for given_ids in (ids, ids.astype(ids.dtype.newbyteorder()), ids[::-1][::-1]):
        assert same(lookup(table, given_ids), table)
        assert same(embed(given_ids, table), table)
    assert same(lookup(table, list(range(101))), table)


@pytest.mark.parametrize("name", views(normal((5, 6))))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tables_in_any_memory(name, dtype):
    table = normal((5, 6), dtype)
    other = views(table)[name]
    ids = np.array([[4, 0, 2], [1, 1, 3]])
    assert same(lookup(other, ids), table[ids])
    assert same(embed(ids, other, scale=3), embed(ids, table, scale=3))
    for encoding in (normal((3, 6), dtype), "sinusoidal"):
        want = embed(ids, table, scale=3, encoding=encoding)
        assert same(embed(ids, other, scale=3, encoding=encoding), want)
    want = embed(ids % 3, table[:3], encoding=table)
    assert same(embed(ids % 3, table[:3], encoding=other), want)


def test_other_byte_order_and_zero_strides():
    table = normal((4, 6))
    swapped = table.astype(">f8")
    assert same(lookup(swapped, [3, 1]), table[[3, 1]])
    assert same(embed([3, 1], swapped, encoding=swapped), embed([3, 1], table, encoding=table))
    repeated = np.broadcast_to(table[0], (4, 6))
    assert same(lookup(repeated, [3, 1]), repeated[[3, 1]].copy())
    assert same(lookup(np.array([[1, 2], [3, 4]]), [1]), np.array([[3.0, 4.0]]))


def test_lookup_past_the_end_names_the_id_and_the_size():
    table = np.zeros((4, 2))
    wanted = "lookup: positions: must be from 0 to 3 (the table has 4 rows), got 4 at (1,)"
    with pytest.raises(IndexError, match=f"^{re.escape(wanted)}$"):
        lookup(table, [0, 4])
    with pytest.raises(IndexError, match=r"4 rows\), got -1 at \(1, 0\)$"):
        lookup(table, [[0, 1], [-1, 9]])
    with pytest.raises(IndexError, match=r"4 rows\), got 18446744073709551615 at \(0,\)$"):
        lookup(table, np.array([2**64 - 1], np.uint64))
    with pytest.raises(IndexError, match=r"4 rows\), got 4$"):
        lookup(table, 5)
    with pytest.raises(IndexError, match=r"4 rows\), got 7$"):
        lookup(table, np.array(7))
    with pytest.raises(IndexError, match=r"0 rows\), got 0 at \(0,\)$"):
        lookup(table[:0], [0])


@pytest.mark.parametrize("bad", [-1, 8])
def test_ids_are_checked_before_anything_is_written(bad):
    cache = normal((8, 4))
    for call in (
        lambda out: lookup(cache, [0, 1, bad], out=out),
        lambda out: embed([0, 1, bad], cache, out=out),
        lambda out: embed([0, 1, 2], cache, encoding=cache, positions=[0, 1, bad], out=out),
        lambda out: embed([0, 1, 2], cache, padding_idx=bad, out=out),
    ):
        out = np.full((3, 4), 7.0)
        with pytest.raises(IndexError, match=f"8 rows.*got {bad}"):
            call(out)
        assert (out == 7.0).all()


@pytest.mark.parametrize(
    "ids",
    [[0.0], np.array([]), [True], ["a"], [None], [1j], [2**70], np.array([0], "M8[s]"), None],
    ids=repr,
)
def test_ids_must_be_integers(ids):
    table = np.zeros((2, 2))
    with pytest.raises(TypeError, match="^lookup: positions: must be integers"):
        lookup(table, ids)
    with pytest.raises(TypeError, match="^embed: token_ids: must be integers"):
        embed(ids, table)


@pytest.mark.parametrize("table", [[[1j]], [["a"]], [[True]], np.zeros((1, 1), "g")], ids=repr)
def test_tables_must_be_floats(table):
    with pytest.raises(TypeError, match="^lookup: table: must be an array of float16"):
        lookup(table, [0])
    with pytest.raises(TypeError, match="^embed: weight: must be an array of float16"):
        embed([0], table)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)])
def test_tables_must_have_two_axes(shape):
    fault = rf"must have two axes, \(rows, dim\), got {len(shape)}$"
    with pytest.raises(ValueError, match=f"^lookup: table: {fault}"):
        lookup(np.zeros(shape), [0])
    with pytest.raises(ValueError, match=f"^embed: weight: {fault}"):
        embed([0], np.zeros(shape))
    with pytest.raises(ValueError, match=f"^embed: encoding: {fault}"):
        embed([0], np.zeros((2, 4)), encoding=np.zeros(shape))


def test_out():
    table, ids = normal((5, 4)), np.array([[4, 0, 2], [1, 1, 3]])
    for call in (
        lambda **kw: lookup(table, ids, **kw),
        lambda **kw: embed(ids, table, scale=2, encoding="sinusoidal", **kw),
        lambda **kw: embed(ids, table, scale=2, encoding=table, **kw),
    ):
        want = call()
        for out in (
            np.empty((2, 3, 4)),
            np.empty((4, 3, 2)).T,
            np.empty((4, 3, 8))[::-2, :, 1::2],
        ):
            assert call(out=out) is out
            assert np.array_equal(out, want)
        frozen = np.empty((2, 3, 4))
        frozen.flags.writeable = False
        for out in (np.empty((2, 3, 5)), np.empty((3, 4)), frozen):
            with pytest.raises(ValueError, match=r": out: must"):
                call(out=out)
        for out in (np.empty((2, 3, 4), np.float32), [0.0]):
            with pytest.raises(TypeError, match=r": out: must be an array"):
                call(out=out)


def test_out_may_not_overlap():
    block = normal((8, 4))
    table, ids = block[:4], np.array([0, 1])
    with pytest.raises(ValueError, match="^lookup: out: must not overlap table"):
        lookup(table, ids, out=block[3:5])
    with pytest.raises(ValueError, match="^embed: out: must not overlap weight"):
        embed(ids, table, out=block[3:5])
    with pytest.raises(ValueError, match="^embed: out: must not overlap encoding"):
        embed(ids, normal((4, 4)), encoding=table, out=block[:2])
    numbers = np.zeros(8, np.int64)
    with pytest.raises(ValueError, match="^embed: out: must not overlap token_ids"):
        embed(numbers[:2], normal((4, 4)), out=numbers.view(np.float64).reshape(2, 4))
    assert np.array_equal(block, normal((8, 4)))


def test_too_big():
    """2^40 numbers for each of 2^21 ids: 2^64 bytes, refused before anything is allocated."""
    wide = np.broadcast_to(np.float64(1), (1, 2**40))
    with pytest.raises(MemoryError, match="^lookup: positions: "):
        lookup(wide, np.zeros(2**21, np.int8))
    with pytest.raises(MemoryError, match="^embed: token_ids: "):
        embed(np.zeros(2**21, np.int8), wide)


# ---- embed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [1, 2, 3, 7, 8, 9, 16, 33, 100, 130])
def test_embed_is_the_composed_expression(dtype, dim):
    weight, learned = normal((40, dim), dtype), normal((200, dim), dtype, 1)
    ids = np.random.default_rng(2).integers(0, 40, (3, 150))  # more than one chunk of positions
    for scale in (1.0, dim**0.5, -0.1):
        for encoding, rows in (
            ("sinusoidal", sinusoidal(150, dim, dtype=dtype)),
            (learned, learned[:150]),
        ):
            got = embed(ids, weight, scale=scale, encoding=encoding)
            assert same(got, composed(ids, weight, scale, rows))
        nothing = np.full(1, -0.0, dtype)  # x + -0.0 is x
        assert same(embed(ids, weight, scale=scale), composed(ids, weight, scale, nothing))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_embed_in_numpy_words(dtype):
    weight, ids = normal((50, 24), dtype), np.random.default_rng(1).integers(0, 50, (4, 70))
    scale = dtype(24**0.5)
    got = embed(ids, weight, scale=24**0.5, encoding="sinusoidal")
    assert same(got, weight[ids] * scale + sinusoidal(70, 24, dtype=dtype))


PLACES = [
    # positions, offset, what that means for ids of shape (3, 5)
    (None, 0, np.arange(5)),
    (None, 7, np.arange(7, 12)),
    (None, np.array([30, 25, 0], np.int16), np.array([[30], [25], [0]]) + np.arange(5)),
    ([4, 0, 9, 9, 1], 0, np.array([4, 0, 9, 9, 1])),
    ([4, 0, 9, 9, 1], 2, np.array([6, 2, 11, 11, 3])),
    (np.arange(15, dtype=np.uint8).reshape(3, 5) % 7, 1, np.arange(15).reshape(3, 5) % 7 + 1),
    ([[2], [0], [5]], 0, np.array([[2], [0], [5]])),
    ([[3, 1, 4, 1, 5]], 0, np.array([[3, 1, 4, 1, 5]])),
]


@pytest.mark.parametrize("positions, offset, meant", PLACES)
def test_positions_and_offset(positions, offset, meant):
    weight, learned = normal((6, 10)), normal((40, 10), seed=1)
    ids = np.arange(15).reshape(3, 5) % 6
    where = {"positions": positions, "offset": offset}
    got = embed(ids, weight, encoding="sinusoidal", **where)
    assert same(got, weight[ids] + sinusoidal(meant, 10))
    assert same(embed(ids, weight, encoding=learned, **where), weight[ids] + learned[meant])


@pytest.mark.parametrize("shape", [(), (5,), (2, 5), (2, 3, 5), (2, 1, 3, 5), (0,), (2, 0), (0, 5)])
def test_ids_of_any_shape(shape):
    weight, learned = normal((6, 10)), normal((40, 10), seed=1)
    ids = np.random.default_rng(0).integers(0, 6, shape)
    place = np.arange(3, 3 + shape[-1]) if shape else np.array(3)
    got = embed(ids, weight, encoding="sinusoidal", offset=3)
    assert same(got, weight[ids] + sinusoidal(place, 10))
    assert same(embed(ids, weight, encoding=learned, offset=3), weight[ids] + learned[place])
    if shape:
        wide = np.zeros(shape[:-1] + (2 * shape[-1],), np.int32)
        wide[..., ::2] = ids
        assert same(embed(wide[..., ::2], weight, encoding="sinusoidal", offset=3), got)


def test_one_token_at_one_position():
    weight, learned = normal((6, 10)), normal((40, 10), seed=1)
    for positions in (31, np.array(31)):
        assert same(
            embed(2, weight, encoding=learned, positions=positions), weight[2] + learned[31]
        )
    assert same(
        embed(2, weight, encoding="sinusoidal", offset=10**6),
        weight[2] + sinusoidal([10**6], 10)[0],
    )


def test_fractional_positions_suit_a_formula_only():
    weight = normal((6, 10))
    got = embed([1, 2], weight, encoding="sinusoidal", positions=[0.5, 2.25])
    assert same(got, weight[[1, 2]] + sinusoidal([0.5, 2.25], 10))
    with pytest.raises(TypeError, match="^embed: positions: must be integers, for a learned table"):
        embed([1, 2], weight, encoding=weight, positions=[0.5, 2.25])


def test_a_full_run_equals_a_run_token_by_token():
    """Decoding: 9 tokens, then 3 single ones at offsets 9, 10 and 11."""
    weight, ids = normal((20, 16), np.float32), np.arange(12)[None] % 20
    full = embed(ids, weight, scale=4, encoding="sinusoidal")
    steps = [embed(ids[:, :9], weight, scale=4, encoding="sinusoidal")]
    steps += [
        embed(ids[:, i : i + 1], weight, scale=4, encoding="sinusoidal", offset=i)
        for i in (9, 10, 11)
    ]
    assert same(full, np.concatenate(steps, 1))


def test_learned_table_past_its_end():
    weight, table = np.zeros((9, 2)), np.zeros((4, 2))
    fault = r"^embed: positions: must be from 0 to 3 \(the table has 4 rows\), got "
    for where, got in (
        ({}, "4$"),
        ({"offset": 5}, "5$"),
        ({"offset": -1}, "-1$"),
        ({"positions": [0, 1, 2, 3, 4]}, r"4 at \(4,\)$"),
        ({"positions": [[0, 1, 2, -3, 0]]}, r"-3 at \(0, 3\)$"),
        ({"positions": [0, 0, 3, 0, 0], "offset": 1}, r"4 at \(2,\)$"),
    ):
        with pytest.raises(IndexError, match=fault + got):
            embed([[0, 1, 2, 3, 4]], weight, encoding=table, **where)
    with pytest.raises(IndexError, match=fault + r"5 at \(1, 0\)$"):
        embed(np.zeros((2, 1), int), weight, encoding=table, offset=[0, 5])
    assert embed([0, 1, 2, 3], weight, encoding=table).shape == (4, 2)


@pytest.mark.parametrize("encoding", [None, "sinusoidal", "learned"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_padding_rows_are_zeros(encoding, dtype):
    weight = normal((6, 10), dtype)
    ids = np.array([[3, 1, 1, 5], [1, 0, 2, 1]])
    encoding = normal((4, 10), dtype, 1) if encoding == "learned" else encoding
    want = embed(ids, weight, scale=2, encoding=encoding)
    weight[1] = np.nan
    got = embed(ids, weight, scale=2, encoding=encoding, padding_idx=1)
    assert same(got[ids == 1], np.zeros((4, 10), dtype))
    assert same(got[ids != 1], want[ids != 1])


def test_positions_that_count_from_the_padding_index():
    """The convention of fairseq: pad 1, real tokens from 2 on, so 512 positions need 514 rows."""
    weight, table = normal((9, 4)), normal((514, 4), seed=1)
    for ids, places in (
        ([[1, 1, 5, 3, 6, 7]], [[1, 1, 2, 3, 4, 5]]),
        ([[5, 3, 6, 7, 1, 1, 1]], [[2, 3, 4, 5, 1, 1, 1]]),
    ):
        ids, places = np.array(ids), np.array(places)
        want = np.where((ids == 1)[..., None], 0, weight[ids] + table[places])
        assert same(embed(ids, weight, encoding=table, positions=places, padding_idx=1), want)
    ids = np.full((1, 512), 5)
    assert embed(ids, weight, encoding=table, offset=2).shape == (1, 512, 4)
    with pytest.raises(IndexError, match="514 rows.*got 514$"):
        embed(ids, weight, encoding=table, offset=3)


def test_faults_are_named():
    weight = np.zeros((4, 6), np.float32)
    for kind, match, arguments in [
        (ValueError, "scale: must be finite.*got nan", {"scale": float("nan")}),
        (ValueError, "scale: must be finite.*got inf", {"scale": float("inf")}),
        (ValueError, "scale: must be finite.*1e\\+300", {"scale": 1e300}),
        (TypeError, "scale: must be a number, got str", {"scale": "2"}),
        (ValueError, "encoding: must be None.*got 'rotary'", {"encoding": "rotary"}),
        (TypeError, "encoding: .*weight's dtype.*float64", {"encoding": np.zeros((9, 6))}),
        (ValueError, r"encoding: .*\(9, 6\), got \(9, 5\)", {"encoding": np.zeros((9, 5), "f")}),
        (TypeError, "padding_idx: must be an integer, got float", {"padding_idx": 1.0}),
        (IndexError, "padding_idx: .*4 rows.*got -1$", {"padding_idx": -1}),
        (TypeError, "positions: must be integers or floats", {"positions": ["a", "b"]}),
        (ValueError, "positions: must", {"positions": [0, 1, 2]}),
        (ValueError, "positions: must", {"positions": [[[0, 1]]]}),
        (ValueError, "positions: must be finite", {"positions": [0, np.inf]}),
        (TypeError, "offset: must be an integer", {"offset": 1.5}),
        (ValueError, "offset: ", {"offset": [1, 2]}),
    ]:
        with pytest.raises(kind, match=f"^embed: {match}"):
            embed([0, 1], weight, **{"encoding": "sinusoidal", **arguments})
    with pytest.raises(ValueError, match="^embed: weight: last axis must be at least 1, got 0$"):
        embed([0], np.zeros((1, 0)), encoding="sinusoidal")
    assert embed([0], np.zeros((1, 0)), scale=2).shape == (1, 0)


def test_nan_stays_in_its_own_place():
    weight = normal((3, 9))
    weight[1, 4] = np.nan
    got = embed([[0, 1, 2]], weight, scale=2, encoding="sinusoidal")
    assert np.argwhere(np.isnan(got)).tolist() == [[0, 1, 4]]


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_reference_agrees(data):
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    vocab, dim = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 40))
    batch, seq = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 80))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    weight, ids = (
        rng.uniform(-1, 1, (vocab, dim)).astype(dtype),
        rng.integers(0, vocab, (batch, seq)),
    )
    table = rng.uniform(-1, 1, (1000, dim)).astype(dtype)
    options = {
        "scale": data.draw(st.sampled_from([1.0, 0.5])),
        "encoding": data.draw(st.sampled_from([None, "sinusoidal", table])),
        "padding_idx": data.draw(st.none() | st.integers(0, vocab - 1)),
    }
    kind = data.draw(st.integers(0, 3))
    if kind == 1:
        options["offset"] = data.draw(st.integers(0, 900))
    elif kind == 2:
        options["positions"] = rng.integers(0, 1000, (batch, seq))
    elif kind == 3:
        options["offset"] = rng.integers(0, 900, batch)
    got, want = embed(ids, weight, **options), reference.embed(ids, weight, **options)
    assert got.shape == want.shape and got.dtype == dtype
    # positions below 1000; product, encoding and sum, all below 2, are rounded once each
    assert np.abs(got - want).max(initial=0) <= reference_atol(1000) + 1.5 * np.finfo(dtype).eps
    assert np.array_equal(lookup(table, ids), reference.lookup(table, ids))


# ---- the same everywhere, without temporaries ---------------------------------------------------

DIGEST = """
import hashlib, ml_dtypes, numpy as np, posenc
rng, digest = np.random.default_rng(0), hashlib.sha256()
for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
    for dim in (1, 7, 64, 130):
        weight = rng.normal(size=(50, dim)).astype(dtype)
        table, ids = rng.normal(size=(90, dim)).astype(dtype), rng.integers(0, 50, (3, 90))
        for encoding in (None, "sinusoidal", table):
            digest.update(posenc.embed(ids, weight, scale=1.7, encoding=encoding).tobytes())
print(digest.hexdigest())
"""


def test_same_bits_on_every_instruction_set():
    def digest(**env):
        call = [sys.executable, "-c", DIGEST]
        path = os.pathsep.join(filter(None, sys.path))
        env = {**os.environ, "PYTHONPATH": path, **env}
        return subprocess.run(call, env=env, capture_output=True, text=True, check=True).stdout

    assert digest() == digest(POSENC_SIMD="scalar") != ""


def test_same_bits_on_every_number_of_threads():
    weight, table = normal((50, 256)), normal((700, 256), seed=1)
    ids = np.random.default_rng(3).integers(0, 50, (3, 700))  # 4 MB: shared out
    before = posenc.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            posenc.set_num_threads(threads)
            for encoding in (None, "sinusoidal", table):
                results.append(embed(ids, weight, scale=3, encoding=encoding))
    finally:
        posenc.set_num_threads(before)
    assert same(results[1], weight[ids] * 3.0 + sinusoidal(700, 256))
    for i in range(3, 9):
        assert same(results[i], results[i - 3])


@pytest.mark.parametrize("encoding", [None, "sinusoidal", "learned"])
@pytest.mark.parametrize("transposed", [False, True])
def test_nothing_else_is_allocated(encoding, transposed):
    """A tied output matrix is used as it lies: neither weight nor result is ever copied."""
    weight = normal((512, 20000), np.float32).T if transposed else normal((20000, 512), np.float32)
    encoding = normal((512, 512), np.float32) if encoding == "learned" else encoding
    ids = np.random.default_rng(3).integers(0, 20000, (16, 512))
    tracemalloc.start()
    try:
        out = embed(ids, weight, scale=2, encoding=encoding)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert out.nbytes <= peak < out.nbytes + (1 << 20)
