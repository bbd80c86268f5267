"""rope_tables, apply_rope, rope_qk, rope_shift: tables to keep, queries with keys, cached keys."""

import json
import math
from pathlib import Path

import exact
import gmpy2
import ml_dtypes
import mpmath
import numpy as np
import pytest
from exact import DTYPES, bits
from mpmath import mp, mpc, mpf

from posenc import (
    RopePlan,
    apply_rope,
    get_num_threads,
    plan_from_config,
    rope,
    rope_plan,
    rope_qk,
    rope_shift,
    rope_tables,
    set_num_threads,
    xpos_plan,
)

DATA = Path(__file__).with_name("data")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
LAYOUTS = ("interleaved", "half")
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
by_layout = pytest.mark.parametrize("layout", LAYOUTS)


def assert_bits(got, right):
    assert got.dtype == right.dtype and got.shape == right.shape
    np.testing.assert_array_equal(bits(got), bits(right))


def some(shape, dtype=np.float64, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def channels(plan):
    """Those of the first and of the second members of the pairs."""
    pairs = plan.rotary_dim // 2
    i = np.arange(pairs)
    a, b = (2 * i, 2 * i + 1) if plan.layout == "interleaved" else (i, i + pairs)
    return a + plan.start, b + plan.start


def error_of(got, right, plan):
    """The largest error, as a part of the norm of its pair, in units of the dtype's epsilon."""
    assert got.dtype == right.dtype and got.shape == right.shape
    a, b = channels(plan)
    wide = np.longdouble if got.dtype == np.float64 else np.float64
    x, y = got.astype(wide), right.astype(wide)
    others = np.setdiff1d(np.arange(x.shape[-1]), np.concatenate([a, b]))
    assert (x[..., others] == y[..., others]).all()
    norm = np.hypot(y[..., a], y[..., b])
    errors = np.maximum(np.abs(x - y)[..., a], np.abs(x - y)[..., b])
    return float((errors / norm).max() / EPS[got.dtype.name])


# --- tables ---------------------------------------------------------------------------------------


def true_tables(plan, positions, dtype, frequencies=None):
    """Cosines and sines by MPFR, times the factor, rounded once."""
    positions = np.asarray(positions)
    planes = positions if plan.axis.any() else positions[None]
    factor = exact.exactly(plan.attention_factor)
    product = gmpy2.context(precision=exact.PRECISION).mul
    both = np.empty((2, *planes.shape[1:], len(plan.inv_freq)))
    for i, axis in enumerate(plan.axis.tolist()):
        w = exact.exactly(float(plan.inv_freq[i])) if frequencies is None else frequencies[i]
        where = planes[axis].ravel().tolist()
        values = [exact.sin_cos(p if w else 0, w) for p in where]  # no -0
        for which, to in ((1, both[0]), (0, both[1])):
            flat = [exact.nearest(product(v[which], factor), dtype) for v in values]
            to[..., i] = np.reshape(flat, planes.shape[1:])
    return tuple(both.astype(dtype))


POSITIONS = {
    "small": np.arange(-3, 200),
    "to 2^53": np.concatenate(
        [2**k + np.arange(-3, 4) for k in (10, 24, 31, 40, 52, 53)] + [-(2**53) + np.arange(4)]
    ),
    "beyond": np.array([2**62, 2**63 - 1, -(2**63), 2**60 + 12345]),
    "unsigned": np.array([2**64 - 1, 2**63, 0], np.uint64),
    "fractions": np.array([0.5, -0.25, 1e-300, 5e-324, 2.0**53 - 1, 1e15 + 0.125, 3.7]),
}


@by_dtype
@pytest.mark.parametrize("where", POSITIONS)
def test_tables_are_correctly_rounded(where, dtype):
    p = POSITIONS[where]
    plan = RopePlan([1.0, 0.7, 0.1, 1e-3, 1e-9, 0.0, 3.0])
    for got, right in zip(
        rope_tables(plan, p, dtype=dtype), true_tables(plan, p, dtype), strict=True
    ):
        assert_bits(got, right)


@by_dtype
def test_tables_of_exact_frequencies(dtype):
    """base^(-2i/dim) and a scaled one, not their float64 neighbours."""
    p = np.array([0, 1, 4095, 10**6, 2**31, 2**53, 2**62])
    w = [exact.frequency(i, 5e5, 8) for i in range(8)]
    slow = [exact.frequency(i, 5e5, 8, 0.125) for i in range(8)]
    linear = {"rope_type": "linear", "factor": 8.0}
    for scaling, frequencies in ((None, w), (linear, slow)):
        plan = rope_plan(16, base=5e5, scaling=scaling)
        right = true_tables(plan, p, dtype, frequencies)
        for got, wanted in zip(rope_tables(plan, p, dtype=dtype), right, strict=True):
            assert_bits(got, wanted)


@by_dtype
@pytest.mark.parametrize(
    "factor", [1.138629436111989, 0.75, 3.0, 1e-3, 1e4, 1e-7, 1e30, 2.0**-100, 2.0**100, 1 / 3]
)
def test_tables_times_the_factor(factor, dtype):
    """The nearest to the real product: subnormal and infinite ones, too."""
    plan = RopePlan([1.0, 0.7, 0.1, 1e-3, 1e-9, 0.0], attention_factor=factor)
    p = np.concatenate([np.arange(40), POSITIONS["small"], POSITIONS["to 2^53"], [2**62, 5e-324]])
    with np.errstate(over="ignore"):
        right = true_tables(plan, p, dtype)
    for table, wanted in zip(rope_tables(plan, p, dtype=dtype), right, strict=True):
        assert_bits(table, wanted)


@by_dtype
@pytest.mark.parametrize("bit", [-3, -8, -11, -24, -25])
def test_a_factor_half_way_between_two_numbers(bit, dtype):
    """Position 0 has it to the nearest even one; beside it the cosine lies below the middle."""
    for steps in (1, 3, 5):
        factor = 1 + steps * 2.0**bit
        cos, _ = rope_tables(RopePlan([1e-30], attention_factor=factor), [0, 1], dtype=dtype)
        assert cos[0, 0] == np.array(factor).astype(dtype)
        with gmpy2.context(precision=exact.PRECISION):
            below = exact.exactly(factor) * (1 - gmpy2.mpfr(2) ** -150)
        assert float(cos[1, 0]) == exact.nearest(below, dtype)


@pytest.mark.parametrize(("dtype", "digits"), [(np.float16, 11), (BFLOAT16, 8), (np.float32, 24)])
def test_the_product_is_not_rounded_twice(dtype, digits):
    """Through float32 a hundred of these float16 numbers would land on the wrong side."""
    plan = RopePlan([1.0, 0.7, 0.1, 0.03], attention_factor=1.138629436111989)
    wide = rope_tables(RopePlan(plan.inv_freq), 100_000, dtype=np.float64)
    for got, exact_once in zip(rope_tables(plan, 100_000, dtype=dtype), wide, strict=True):
        mantissa, exponent = np.frexp(exact_once * plan.attention_factor)
        right = np.ldexp(np.rint(np.ldexp(mantissa, digits)), exponent - digits)
        normal = np.abs(right) >= 2.0**-14
        assert normal.mean() > 0.99
        np.testing.assert_array_equal(got.astype(np.float64)[normal], right[normal])


@by_dtype
@pytest.mark.parametrize("factor", [1.0, 1.25])
@pytest.mark.parametrize("axis", [[0, 0, 1, 2], [2, 0, 2, 0], [1, 1, 1, 1]], ids=str)
def test_tables_of_several_axes(axis, factor, dtype):
    plan = RopePlan([1.0, 0.7, 0.1, 1e-3], axis=axis, attention_factor=factor)
    naxes = max(axis) + 1
    p = np.random.default_rng(3).integers(-(2**53), 2**53, (naxes, 2, 70))
    for positions in (p, p[:, 0], p[:, 0, 0], p / 8, p[..., :0], p[..., ::-2]):
        cos, sin = rope_tables(plan, positions, dtype=dtype)
        assert cos.shape == sin.shape == (*positions.shape[1:], 4)
        right = true_tables(plan, positions, dtype)
        assert_bits(cos, right[0])
        assert_bits(sin, right[1])


def test_a_count_of_positions():
    for options in ({}, {"attention_factor": 1.5}, {"axis": [0, 2]}):
        plan = RopePlan([1.0, 0.1], **options)
        naxes = int(plan.axis.max()) + 1
        for n in (0, 1, 5, 300, np.int64(7)):
            p = np.arange(n)
            one = rope_tables(plan, n)
            many = rope_tables(plan, np.array([p] * naxes) if naxes > 1 else p)
            for a, b in zip(one, many, strict=True):
                assert_bits(a, b)
                assert a.shape == (n, 2) and a.dtype == np.float32
    assert rope_tables(rope_plan(4), np.array(5))[0].shape == (2,)
    assert rope_tables(rope_plan(4), np.zeros((2, 3, 1)))[0].shape == (2, 3, 1, 2)
    assert rope_tables(RopePlan([]), 3)[0].shape == (3, 0)
    cos, sin = rope_tables(rope_plan(4), 3)
    assert cos[0].tolist() == [1, 1] and sin[0].tolist() == [0, 0]
    cos[:] = 9  # theirs to write
    assert (sin[0] == 0).all()


def test_tables_do_not_depend_on_their_neighbours():
    for options in ({}, {"attention_factor": 1.5}, {"axis": [0, 1, 0]}):
        plan = RopePlan([1.0, 0.1, 0.01], **options)
        cos, sin = rope_tables(plan, 3000)
        for p in (0, 1, 63, 64, 65, 1000, 2999):
            where = np.full(plan.axis.max() + 1, p) if plan.axis.any() else np.array(p)
            for table, row in zip((cos, sin), rope_tables(plan, where), strict=True):
                assert_bits(table[p], row)


def test_tables_of_xpos():
    """Cosine and sine times z^((p - center) / 512), within a few ulp of float64, then rounded."""
    center = 100.5
    plan = xpos_plan(8, center=center)
    p = np.array([0, 1, 99, 101, 1000, -500, 20000])
    with mp.workdps(50):
        z = [(2 * i + mpf(16) / 5) / (mpf(56) / 5) for i in range(4)]
        for which, sign in ((plan, 1), (plan.for_keys(), -1)):
            right = np.array(
                [
                    [
                        [f(k * mpf(10) ** -i) * v ** (sign * (k - mpf(center)) / 512)
                         for i, v in enumerate(z)]
                        for k in p.tolist()
                    ]
                    for f in (mpmath.cos, mpmath.sin)
                ]
            )  # fmt: skip
            wide = np.array(rope_tables(which, p, dtype=np.float64))
            exponent = np.abs(np.outer(p - center, plan.decay)) + 1
            right = right.astype(np.float64)
            assert (np.abs(wide - right) <= 4 * 2.0**-53 * exponent * np.abs(right)).all()
            narrow = np.array(rope_tables(which, p, dtype=np.float32))
            assert_bits(narrow, right.astype(np.float32))


# --- tables, applied ------------------------------------------------------------------------------


PLANS = {
    "plain": lambda layout: rope_plan(16, layout=layout),
    "partial": lambda layout: rope_plan(16, rotary_dim=10, layout=layout),
    "factor": lambda layout: RopePlan([1, 0.1, 0.01], layout=layout, attention_factor=1.1386),
    "axes": lambda layout: RopePlan([1, 0.1, 0.01], layout=layout, axis=[0, 2, 1]),
    "axes, factor": lambda layout: RopePlan(
        [1, 0.1, 0.01, 0.5], layout=layout, axis=[0, 1, 1, 2], attention_factor=0.5
    ),
    "xpos": lambda layout: xpos_plan(16, layout=layout, center=9.0),
}


def arithmetic(dtype):
    return np.float64 if dtype == np.float64 else np.float32


@by_layout
@by_dtype
@pytest.mark.parametrize("name", PLANS)
def test_rope_is_apply_rope_of_its_tables(name, dtype, layout):
    plan = PLANS[name](layout)
    naxes = int(plan.axis.max()) + 1
    rng = np.random.default_rng(8)
    x = some((2, 70, 3, 16), dtype)

    def check(x, shape, seq_axis):
        p = rng.integers(-1000, 1000, (naxes, *shape) if naxes > 1 else shape)
        tables = rope_tables(plan, p, dtype=arithmetic(dtype))
        got = apply_rope(x, *tables, layout=layout, seq_axis=seq_axis)
        assert_bits(got, rope(x, p, plan=plan, seq_axis=seq_axis))

    for shape, axis in (
        ((3,), -2),
        ((70,), 1),
        ((70,), -3),
        ((2, 70), 1),
        ((2, 3), 2),
        ((2,), 0),
        ((1, 70, 1), 1),
        ((2, 70, 3), 1),
        ((1, 1, 3), 1),
        ((), -2),
    ):
        check(x, shape, axis)
    check(x.transpose(2, 0, 1, 3), (70,), -2)
    check(x[::-1, :, :, ::-1], (2, 70), 1)
    check(x[0, :, 0], (70,), 0)
    check(x[0, 0, 0], (), -2)
    check(x[:, :0], (0,), 1)
    for k in (1, 40):
        tables = rope_tables(plan, k, dtype=arithmetic(dtype))
        part = x[:, :k]
        assert_bits(
            apply_rope(part, *tables, layout=layout, seq_axis=1), rope(part, plan=plan, seq_axis=1)
        )


@by_layout
@by_dtype
def test_apply_rope_takes_any_numbers(dtype, layout):
    """a c - b s and b c + a s, in this order, rounded once; channels beyond are copied."""
    x = some((4, 9, 13), dtype)
    plan = RopePlan(np.ones(5), layout=layout)
    a, b = channels(plan)
    for kind in DTYPES:
        cos, sin = some((9, 5), kind, 2), some((9, 5), kind, 3)
        wide = arithmetic(dtype)
        c, s, y = cos.astype(wide), sin.astype(wide), x.astype(wide)
        right = y.copy()
        right[..., a] = y[..., a] * c - y[..., b] * s
        right[..., b] = y[..., b] * c + y[..., a] * s
        assert_bits(apply_rope(x, cos, sin, layout=layout), right.astype(dtype))
    whole = apply_rope(np.arange(8).reshape(2, 4), [[0, 1], [1, 0]], [[1, 0], [0, 1]])
    assert whole.tolist() == [[-1, 0, 2, 3], [4, 5, -7, 6]]


@by_layout
def test_apply_rope_and_memory(layout):
    plan = rope_plan(8, layout=layout)
    for dtype in DTYPES:
        x = some((3, 6, 8), dtype)
        cos, sin = rope_tables(plan, 6, dtype=arithmetic(dtype))
        right = rope(x, plan=plan)
        twice = np.concatenate([cos, cos], axis=-1)  # the tables of Hugging Face
        assert_bits(apply_rope(x, twice[:, :4], sin, layout=layout), right)
        assert_bits(apply_rope(x, np.asfortranarray(cos), sin[::-1][::-1], layout=layout), right)
        one = rope_tables(plan, np.array(3), dtype=arithmetic(dtype))
        still = [np.broadcast_to(t, (6, 4)) for t in one]
        assert_bits(apply_rope(x, *still, layout=layout), rope(x, np.full(6, 3), plan=plan))
        out = np.zeros((6, 3, 16), dtype).swapaxes(0, 1)[..., ::-2]
        assert apply_rope(x, cos, sin, layout=layout, out=out) is out
        assert_bits(np.ascontiguousarray(out), right)
        y = x.copy()
        assert apply_rope(y, cos, sin, layout=layout, out=y) is y
        assert_bits(y, right)
        assert_bits(apply_rope(x, cos.tolist(), sin.tolist(), layout=layout), right)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_apply_rope_and_byte_order(dtype):
    x = some((6, 8), dtype)
    for kind in (np.float32, np.float64):
        cos, sin = rope_tables(rope_plan(8), 6, dtype=kind)
        right = apply_rope(x, cos, sin)
        swapped = [t.astype(t.dtype.newbyteorder(">")) for t in (x, cos, sin)]
        assert_bits(apply_rope(x, *swapped[1:]), right)
        assert_bits(apply_rope(swapped[0], cos, sin), right)
        assert_bits(apply_rope(*swapped), right)


def test_tables_of_two_types():
    x = some((3, 4), np.float32)
    cos, sin = rope_tables(rope_plan(4), 3, dtype="float64")
    for a in (np.float16, BFLOAT16, np.float32, np.float64):
        for b in (np.float16, BFLOAT16, np.float32, np.float64):
            c, s = cos.astype(a), sin.astype(b)
            assert_bits(apply_rope(x, c, s), apply_rope(x, c.astype(float), s.astype(float)))


def test_apply_rope_writes_over_its_tables_or_refuses():
    plan = rope_plan(4)
    x = some((2, 4))
    right = rope(x, plan=plan)
    memory = np.empty((2, 4))
    memory[:, :2], memory[:, 2:] = rope_tables(plan, 2, dtype=np.float64)
    before = memory.copy()
    try:
        apply_rope(x, memory[:, :2], memory[:, 2:], out=memory)
    except ValueError as error:
        assert str(error).startswith("apply_rope: out: must not overlap ")
        assert_bits(memory, before)
    else:
        assert_bits(memory, right)


ONES = np.ones((8, 2))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.ones((8, 4)), ONES, ONES[:7]), ValueError, r"sin: must have the shape of cos, \(8, 2"),
        ((np.ones((8, 4)), ONES[:7], ONES[:7]), ValueError, "cos: "),
        ((np.ones((8, 4)), ONES[:7], ONES), ValueError, "sin: must have the shape of cos"),
        ((np.ones((8, 4)), ONES, ONES[:, :1]), ValueError, "sin: must have the shape of cos"),
        ((np.ones((8, 2)), ONES, ONES), ValueError, "cos: twice the last axis must be at most 2"),
        ((np.ones((2, 8, 4)), np.ones((8, 2, 2)), np.ones((8, 2, 2))), ValueError, "cos: "),
        ((np.ones((2, 3, 8, 4)), np.ones((3, 8, 2)), np.ones((3, 8, 2))), ValueError, "cos: "),
        ((np.ones(4), ONES, ONES), ValueError, "cos: "),
        ((np.ones((8, 4)), 1.0, 1.0), ValueError, "cos: must have at least one axis, got 0"),
        ((np.ones(()), ONES, ONES), ValueError, "x: must have at least one axis"),
        ((np.ones((8, 4), complex), ONES, ONES), TypeError, "x: must be "),
        ((np.ones((8, 4), object), ONES, ONES), TypeError, "x: must be "),
        ((np.ones((8, 4), bool), ONES, ONES), TypeError, "x: must be "),
        (("x", ONES, ONES), TypeError, "x: must be "),
        (([[1.0, 2.0], [3.0]], ONES, ONES), TypeError, "x: must be "),
        ((np.ones((8, 4)), ONES * 1j, ONES), TypeError, "cos: must be real numbers, got complex"),
        ((np.ones((8, 4)), ONES, ONES > 0), TypeError, "sin: must be real numbers, got bool"),
        ((np.ones((8, 4)), None, ONES), TypeError, "cos: must be real numbers"),
        ((np.ones((8, 4)), [[1.0], [1.0, 2.0]], ONES), TypeError, "cos: must be "),
    ],
)
def test_what_apply_rope_refuses(arguments, error, message):
    with pytest.raises(error, match=rf"^apply_rope: {message}"):
        apply_rope(*arguments)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"layout": "neox"}, ValueError, "layout: must be "),
        ({"layout": None}, TypeError, "layout: must be "),
        ({"seq_axis": -1}, ValueError, "seq_axis: must be "),
        ({"seq_axis": 2}, ValueError, "seq_axis: must be "),
        ({"seq_axis": 0.0}, TypeError, "seq_axis: must be an integer"),
        ({"out": np.ones((8, 5))}, ValueError, "out: must have shape"),
        ({"out": np.ones((8, 4), np.float32)}, TypeError, "out: must be an array of float64"),
        ({"out": [1.0]}, TypeError, "out: must be an array"),
    ],
)
def test_wrong_options_of_apply_rope(options, error, message):
    x = np.ones((8, 4))
    with pytest.raises(error, match=rf"^apply_rope: {message}"):
        apply_rope(x, ONES, ONES, **{"out": x, **options})
    assert (x == 1).all()
    if "out" in options and isinstance(options["out"], np.ndarray):
        assert (options["out"] == 1).all()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((3, 3), {}, TypeError, "plan: must be a RopePlan, got int"),
        ((None, 3), {}, TypeError, "plan: must be a RopePlan, got NoneType"),
        ((rope_plan(4), -1), {}, ValueError, "positions: must be at least 0, got -1"),
        ((rope_plan(4), None), {}, TypeError, "positions: must be integers or floats"),
        ((rope_plan(4), True), {}, TypeError, "positions: must be integers or floats"),
        ((rope_plan(4), "12"), {}, TypeError, "positions: must be integers or floats"),
        ((rope_plan(4), [[1], [1, 2]]), {}, TypeError, "positions: must be integers or floats"),
        ((rope_plan(4), [1j]), {}, TypeError, "positions: must be integers or floats"),
        ((rope_plan(4), [1.0, math.nan]), {}, ValueError, "positions: must be finite, got nan"),
        ((rope_plan(4), [math.inf]), {}, ValueError, "positions: must be finite, got inf"),
        ((rope_plan(4), [2.0**64]), {}, ValueError, "positions: must be "),
        ((rope_plan(4), 2**62), {}, MemoryError, "positions: "),
        ((rope_plan(4), 2**200), {}, MemoryError, "positions: "),
        ((rope_plan(4), 3), {"dtype": int}, TypeError, "dtype: must be float16, bfloat16"),
        ((rope_plan(4), 3), {"dtype": ">f4"}, TypeError, "dtype: must be float16, bfloat16"),
        ((rope_plan(4), 3), {"dtype": "float99"}, TypeError, "dtype: must be float16, bfloat16"),
        (
            (RopePlan([1, 1], axis=[0, 1]), [1, 2, 3]),
            {},
            ValueError,
            "positions: must have shape .2, ...., the axes",
        ),
        ((RopePlan([1, 1], axis=[0, 1]), np.zeros((0, 2))), {}, ValueError, "positions: must have"),
    ],
)
def test_what_rope_tables_refuses(arguments, options, error, message):
    with pytest.raises(error, match=rf"^rope_tables: {message}"):
        rope_tables(*arguments, **options)


# --- queries and keys -----------------------------------------------------------------------------


def two_ropes(q, k, positions=None, *, plan=None, **options):
    keys = None if plan is None else plan.for_keys()
    return rope(q, positions, plan=plan, **options), rope(k, positions, plan=keys, **options)


@by_layout
@by_dtype
@pytest.mark.parametrize("name", PLANS)
def test_rope_qk_is_two_ropes(name, dtype, layout):
    plan = PLANS[name](layout)
    naxes = int(plan.axis.max()) + 1
    q, k = some((2, 8, 70, 16), dtype), some((2, 2, 70, 16), dtype, 2)
    p = np.random.default_rng(1).integers(0, 10**4, (naxes, 2, 70) if naxes > 1 else (2, 70))
    for positions, options in (
        (None, {}),
        (None, {"offset": 12}),
        (None, {"offset": [30, 25]}),
        (p, {}),
        (p[..., 0, :], {}),
        (p[..., 0, :] + 0.5, {}),
    ):
        right = two_ropes(q, k, positions, plan=plan, **options)
        got = rope_qk(q, k, positions, plan=plan, **options)
        assert isinstance(got, tuple)
        for a, b in zip(got, right, strict=True):
            assert_bits(a, b)
        moved = rope_qk(
            q.swapaxes(1, 2), k.swapaxes(1, 2), positions, plan=plan, seq_axis=1, **options
        )
        for a, b in zip(moved, right, strict=True):
            assert_bits(np.ascontiguousarray(a.swapaxes(1, 2)), b)
        both = q.copy(), k.copy()
        done = rope_qk(*both, positions, plan=plan, out=both, **options)
        assert done[0] is both[0] and done[1] is both[1]
        for a, b in zip(both, right, strict=True):
            assert_bits(a, b)


JOINED = {  # shapes of q and k, seq_axis: one table for both, or two
    "many heads and two": ((1, 64, 130, 256), (1, 2, 130, 256), -2),
    "one head of keys": ((2, 8, 300, 16), (2, 1, 300, 16), -2),
    "one token": ((1, 32, 1, 128), (1, 8, 1, 128), -2),
    "tokens before heads": ((2, 300, 6, 16), (2, 300, 3, 16), 1),
    "packed tokens": ((500, 6, 16), (500, 2, 16), 0),
    "no heads of queries": ((2, 0, 5, 8), (2, 3, 5, 8), -2),
    "no heads of keys": ((2, 3, 5, 8), (2, 0, 5, 8), -2),
    "one query": ((4, 1, 8), (4, 500, 8), -2),
    "wider keys": ((5, 4), (5, 8), -2),
    "wider queries": ((2, 70, 64), (2, 70, 16), -2),
    "other axes": ((5, 8), (3, 2, 5, 8), -2),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", JOINED)
def test_rope_qk_of_any_two_shapes(name, threads):
    shape, other, seq_axis = JOINED[name]
    before = get_num_threads()
    set_num_threads(threads)
    try:
        for dtypes in ((np.float32,) * 2, (np.float16, np.float32), (np.float64, np.float32)):
            q, k = some(shape, dtypes[0]), some(other, dtypes[1], 2)
            for options in ({}, {"offset": 10**12}, {"base": 77.0, "layout": "half"}):
                options = {"seq_axis": seq_axis, **options}
                for a, b in zip(rope_qk(q, k, **options), two_ropes(q, k, **options), strict=True):
                    assert_bits(a, b)
    finally:
        set_num_threads(before)


def test_rope_qk_by_base():
    q, k = some((4, 5, 8), np.float32), some((2, 5, 8), np.float32)
    for layout in LAYOUTS:
        for options in ({}, {"base": 5e5}, {"offset": -3}):
            right = two_ropes(q, k, layout=layout, **options)
            for a, b in zip(rope_qk(q, k, layout=layout, **options), right, strict=True):
                assert_bits(a, b)
    for out in ((None, None), (np.empty_like(q), None), (None, np.empty_like(k))):
        got = rope_qk(q, k, out=out)
        for a, b, to in zip(got, two_ropes(q, k), out, strict=True):
            assert_bits(a, b)
            assert to is None or a is to


def test_packed_queries_keys_and_values():
    """Views of one buffer (batch, seq, 3, heads, dim) are turned where they stand."""
    for dtype in DTYPES:
        qkv = some((2, 9, 3, 4, 8), dtype)
        before = qkv.copy()
        q, k = qkv[:, :, 0], qkv[:, :, 1]
        rope_qk(q, k, seq_axis=1, out=(q, k))
        right = two_ropes(before[:, :, 0].copy(), before[:, :, 1].copy(), seq_axis=1)
        assert_bits(np.ascontiguousarray(q), right[0])
        assert_bits(np.ascontiguousarray(k), right[1])
        assert_bits(np.ascontiguousarray(qkv[:, :, 2]), np.ascontiguousarray(before[:, :, 2]))


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("k", "positions", "out", "error"),
    [
        (np.ones((3, 5)), None, 1, ValueError),  # odd
        (np.ones((3, 0, 5)), None, 1, ValueError),
        (np.ones(()), None, 1, ValueError),
        (np.ones((3, 4), complex), None, 1, TypeError),
        (np.ones((3, 4), object), None, 1, TypeError),
        ("k", None, None, TypeError),
        ([[1.0], [1.0, 2.0]], None, None, TypeError),
        (np.ones((4, 4)), [0, 1, 2], 1, ValueError),  # positions fit q only
        (read_only(np.ones((3, 4))), None, 1, ValueError),
        (np.broadcast_to(np.ones((1, 4)), (3, 4)), None, 1, ValueError),
        (np.ones((3, 4), ">f8"), None, 1, TypeError),
        (np.ones((3, 4)), None, np.ones((4, 4)), ValueError),
        (np.ones((3, 4)), None, np.ones((3, 4), np.float32), TypeError),
        (np.ones((3, 4)), None, [1.0], TypeError),
    ],
)
def test_a_refused_k_leaves_q_as_it_was(k, positions, out, error):
    q = some((3, 4))
    before = q.copy()
    with pytest.raises(error, match=r"^rope_qk: "):
        rope_qk(q, k, positions, out=(q, k if isinstance(out, int) else out))
    assert_bits(q, before)
    if isinstance(k, np.ndarray) and k.dtype == np.float64:
        assert (k == 1).all()
    if isinstance(out, np.ndarray):
        assert (out == 1).all()


@pytest.mark.parametrize(
    ("q", "k", "name"),
    [
        ("a", np.ones((3, 4)), "q"),
        (np.ones((3, 4)), "a", "k"),
        (np.ones((3, 5)), np.ones((3, 4)), "q"),
        (np.ones((3, 4)), np.ones((3, 5)), "k"),
        (np.ones(()), np.ones((3, 4)), "q"),
        (np.ones((3, 4)), np.ones(()), "k"),
    ],
)
def test_which_of_the_two_is_wrong(q, k, name):
    with pytest.raises((TypeError, ValueError), match=rf"^rope_qk: {name}: "):
        rope_qk(q, k)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"plan": 3}, TypeError, "plan: must be a RopePlan, got int"),
        ({"layout": "neox"}, ValueError, "layout: must be "),
        ({"base": -1}, ValueError, "base: must be "),
        ({"offset": 0.5}, TypeError, "offset: must be "),
        ({"offset": [1, 2]}, ValueError, "offset: "),
        ({"seq_axis": 1}, ValueError, "seq_axis: must be "),
        ({"positions": [0, 1]}, ValueError, "positions: must "),
        ({"positions": [0, 1, math.nan]}, ValueError, "positions: must be finite"),
        ({"positions": "abc"}, TypeError, "positions: must be "),
        ({"out": 3}, TypeError, "out: must be a tuple of two arrays, got int"),
        ({"out": (None,)}, TypeError, "out: must be a tuple of two arrays"),
        ({"out": [None, None]}, TypeError, "out: must be a tuple of two arrays, got list"),
        ({"out": np.ones((2, 3, 4))}, TypeError, "out: must be a tuple of two arrays"),
    ],
)
def test_wrong_options_of_rope_qk(options, error, message):
    q, k = np.ones((3, 4)), np.ones((3, 4))
    with pytest.raises(error, match=rf"^rope_qk: {message}"):
        rope_qk(q, k, **{"out": (q, k), **options})
    assert (q == 1).all() and (k == 1).all()


def test_queries_and_keys_in_one_place():
    """What one of them is written over may not be read or written by the other."""
    memory = some((3, 4, 4))
    before = memory.copy()
    q, k, o = memory
    for a, b, out in (
        (q, k, (k, q)),
        (q, k, (o, o)),
        (q, q, (q, q)),
        (q, k, (k, None)),
        (q, k, (k, o)),
        (q, k, (memory[:2].reshape(8, 4)[2:6], None)),
        (q.tolist(), k.tolist(), (o, o)),
        (q.tolist(), k, (k, None)),
        (q, k.tolist(), (None, q)),
    ):
        right = two_ropes(np.array(a), np.array(b))
        try:
            got = rope_qk(a, b, out=out)
        except ValueError as error:
            assert str(error).startswith("rope_qk: out: must not overlap ")
            assert_bits(memory, before)
        else:  # or it is done right, and both results stand
            for x, y in zip(got, right, strict=True):
                assert_bits(x, y)
            memory[...] = before


# --- only the difference of positions counts ------------------------------------------------------


@by_layout
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["plain", "factor", "axes", "axes, factor", "yarn"])
def test_scores_far_out(name, dtype, layout):
    """Scores at 10^6, 2^31 and further are those at 0, to 1e-6 of |q| |k|."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    if name == "yarn":
        plan = rope_plan(128, base=1e6, layout=layout, scaling=yarn)
    else:
        plan = PLANS[name](layout)
    width = max(plan.rotary_dim, 16)
    naxes = int(plan.axis.max()) + 1
    q, k = some((1, width), dtype), some((200, width), dtype, 2)
    near = np.random.default_rng(4).integers(0, 2000, (naxes, 201))
    scores = []
    for far in (0, 10**6, 2**31, 2**53, -(10**9)):
        p = near + far
        p = p if naxes > 1 else p[0]
        turned = [
            rope_qk(q, q, p[..., :1], plan=plan)[0],
            rope_qk(k, k, p[..., 1:], plan=plan)[1],
        ]
        scores.append(np.dot(turned[1].astype(float), turned[0][0].astype(float)))
    norms = np.linalg.norm(q.astype(float)) * np.linalg.norm(k.astype(float), axis=1)
    drift = np.ptp(scores, axis=0) / (norms * plan.attention_factor**2)
    assert drift.max() < (1e-6 if dtype == np.float32 else 1e-6 * 2.0**-29)


# --- cached keys, moved ---------------------------------------------------------------------------


SHIFTS = [-3, 5, 0.5, -1.75, np.int64(-100), np.float32(2.5), 10**6, -(2**40), np.array(7)]


@by_layout
@by_dtype
@pytest.mark.parametrize("name", [n for n in PLANS if not n.startswith("axes")])
def test_shifted_keys_are_fresh_keys(name, dtype, layout):
    plan = PLANS[name](layout)
    x = some((2, 3, 40, 16), dtype)
    start = 10**6 if plan.decay is None else 50
    p = start + np.arange(40)
    cache = rope(x, p, plan=plan.for_keys())
    for delta in SHIFTS:
        if plan.decay is not None and abs(delta) > 1000:
            continue
        fresh = rope(x, p + delta, plan=plan.for_keys())
        before, out = cache.copy(), np.empty_like(cache)
        assert rope_shift(cache, delta, plan=plan, out=out) is out
        assert_bits(cache, before)
        assert error_of(out, fresh, plan) < 6
        inplace = cache.copy()
        assert rope_shift(inplace, delta, plan=plan) is inplace
        assert_bits(inplace, out)


@by_layout
@by_dtype
def test_a_delta_for_each_token(dtype, layout):
    plan = RopePlan([1, 0.1, 0.01], layout=layout, attention_factor=1.25)
    x = some((2, 3, 40, 8), dtype)
    rng = np.random.default_rng(2)
    cache = rope(x, plan=plan)
    p = np.arange(40)
    for delta in (
        rng.integers(-50, 50, 40),
        rng.integers(-50, 50, 40) / 4,
        rng.integers(-50, 50, (2, 40)),
        rng.integers(-50, 50, (2, 1, 40)),
        rng.integers(-50, 50, (2, 3, 40)),
        np.zeros(40, int),
    ):
        wide = delta[:, None] if delta.shape == (2, 40) else delta
        fresh = rope(x, np.broadcast_to(p + wide, (2, 3, 40)), plan=plan)
        got = rope_shift(cache, delta, plan=plan, out=np.empty_like(cache))
        assert error_of(got, fresh, plan) < 6
        moved = cache.swapaxes(1, 2).copy()
        if delta.ndim == 1:
            rope_shift(moved, delta, plan=plan, seq_axis=1)
            assert_bits(np.ascontiguousarray(moved.swapaxes(1, 2)), got)
    np.testing.assert_array_equal(rope_shift(cache.copy(), 0, plan=plan), cache)


@by_dtype
def test_context_shift(dtype):
    """Drop the oldest 16 of 64 keys, keep the first 4, go on: as if it had always been so."""
    plan = rope_plan(32, base=5e5, layout="half")
    x = some((2, 64, 32), dtype)
    cache = rope(x, plan=plan)
    kept = np.concatenate([cache[:, :4], cache[:, 20:]], axis=1)
    rope_shift(kept[:, 4:], -16, plan=plan)  # a view, in place
    fresh = rope(np.concatenate([x[:, :4], x[:, 20:]], axis=1), plan=plan)
    assert_bits(kept[:, :4], fresh[:, :4])
    assert error_of(kept, fresh, plan) < 6


@by_layout
def test_a_shift_on_several_axes(layout):
    plan = RopePlan([1, 0.3, 0.1, 0.03], layout=layout, axis=[0, 1, 2, 1], attention_factor=2.0)
    x = some((3, 20, 10))
    p = np.random.default_rng(3).integers(0, 100, (3, 20))
    cache = rope(x, p, plan=plan)
    for delta in (np.array([[1], [-2], [0.5]]) * np.ones(20), np.array([4, -1, 0])):
        fresh = rope(x, p + delta.reshape(3, -1), plan=plan)
        assert error_of(rope_shift(cache.copy(), delta, plan=plan), fresh, plan) < 6


def test_one_number_shifts_all_axes():
    """Text in the cache of a model with M-RoPE: dropped tokens move every axis alike."""
    plan = RopePlan([1, 0.3, 0.1], axis=[0, 1, 2])
    x = some((20, 6))
    cache = rope(x, plan=plan)[5:]
    got = rope_shift(cache.copy(), -5, plan=plan)
    assert error_of(got, rope(x[5:], plan=plan), plan) < 6


def dynamic(length):
    scaling = {"type": "dynamic", "factor": 4.0}
    config = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 512}
    return plan_from_config({**config, "rope_theta": 1e4, "rope_scaling": scaling}, seq_len=length)


def phi(length):
    return plan_from_config(DATA / "configs" / "phi-3.5-mini.json", seq_len=length)


def scaled(**scaling):
    return rope_plan(64, layout="half", scaling=scaling)


YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}
LISTS = {"short_factor": [1.0] * 32, "long_factor": [1.0 + k / 4 for k in range(32)]}
MIXTRAL_LIKE = {**LISTS, "rope_type": "longrope", "original_max_position_embeddings": 4096}
MIXTRAL_LIKE |= {"factor": 32.0, "short_mscale": 1.1, "long_mscale": 1.3}
CHANGES = {
    "dynamic grows": lambda: (dynamic(512), dynamic(700)),
    "dynamic grows again": lambda: (dynamic(700), dynamic(5000)),
    "dynamic goes back": lambda: (dynamic(5000), dynamic(512)),
    "longrope switches": lambda: (phi(4096), phi(4097)),
    "longrope with two factors": lambda: (
        rope_plan(64, scaling=MIXTRAL_LIKE, seq_len=4096),
        rope_plan(64, scaling=MIXTRAL_LIKE, seq_len=4097),
    ),
    "plain to linear": lambda: (
        rope_plan(64),
        rope_plan(64, scaling={"type": "linear", "factor": 4}),
    ),
    "linear to plain": lambda: (
        rope_plan(64, scaling={"type": "linear", "factor": 3}),
        rope_plan(64),
    ),
    "plain to yarn": lambda: (rope_plan(64, layout="half"), scaled(**YARN)),
    "yarn to plain": lambda: (scaled(**YARN), rope_plan(64, layout="half")),
    "some faster, some slower": lambda: (
        RopePlan([1.0, 0.5, 0.25, 0.0], attention_factor=0.5, start=3),
        RopePlan([0.9, 0.6, 0.25, 1.0], attention_factor=3.0, start=3),
    ),
    "the factor alone": lambda: (
        RopePlan([1.0, 0.1], attention_factor=1.1386),
        RopePlan([1.0, 0.1], attention_factor=0.7),
    ),
    "the same": lambda: (rope_plan(64), rope_plan(64)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, BFLOAT16], ids=str)
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_plan(name, dtype):
    """Cached keys get the frequencies and the factor of the new plan, at any position."""
    plan, to = CHANGES[name]()
    if "alone" not in name and name != "the same":
        assert (plan.inv_freq != to.inv_freq).any()
    width = plan.start + plan.rotary_dim + 2
    x = some((2, 50, width), dtype)
    for positions in (None, np.arange(50) + 4000, np.arange(50) * 0.25, 2**53 - np.arange(50)):
        cache = rope(x, positions, plan=plan)
        fresh = rope(x, positions, plan=to)
        options = {} if positions is None else {"positions": positions}
        out = np.empty_like(cache)
        assert rope_shift(cache, 0, plan=plan, to=to, out=out, **options) is out
        assert error_of(out, fresh, to) < 10
        inplace = cache.copy()
        assert rope_shift(inplace, 0, plan=plan, to=to, **options) is inplace
        assert_bits(inplace, out)
        p = np.arange(50) if positions is None else positions
        rope_shift(cache, -16, plan=plan, to=to, **options)
        assert error_of(cache, rope(x, p - 16, plan=to), to) < 10


def test_a_change_of_plan_on_several_axes():
    options = {"axis": [0, 1, 2], "layout": "half"}
    plan = RopePlan([1, 0.3, 0.1], **options)
    to = RopePlan([0.5, 0.4, 0.1], attention_factor=1.5, **options)
    x = some((2, 20, 6))
    p = np.random.default_rng(3).integers(0, 10**6, (3, 20))
    got = rope_shift(rope(x, p, plan=plan), np.zeros((3, 20), int), plan=plan, to=to, positions=p)
    assert error_of(got, rope(x, p, plan=to), to) < 10


def test_there_and_back():
    plan, to = dynamic(512), dynamic(900)
    x = some((3, 600, 64), np.float64)
    cache = rope(x, plan=plan)
    for _ in range(10):
        rope_shift(cache, -7, plan=plan, to=to)
        rope_shift(cache, 7, plan=to, to=plan, positions=np.arange(600) - 7)
    assert error_of(cache, rope(x, plan=plan), plan) < 10 * 12


REFUSED = [
    ("k", [[1.0, 2.0]], {}, TypeError),
    ("k", None, {}, TypeError),
    ("k", np.ones((3, 4), int), {}, TypeError),
    ("k", np.ones((3, 4), complex), {}, TypeError),
    ("k", np.ones((3, 4), ">f8"), {}, TypeError),
    ("k", read_only(np.ones((3, 4))), {}, ValueError),
    ("k", np.broadcast_to(np.ones((1, 4)), (3, 4)), {}, ValueError),
    ("k", np.ones(()), {}, ValueError),
    ("plan", np.ones((3, 2)), {}, ValueError),
    ("delta", np.ones((3, 4)), {"delta": None}, TypeError),
    ("delta", np.ones((3, 4)), {"delta": True}, TypeError),
    ("delta", np.ones((3, 4)), {"delta": "1"}, TypeError),
    ("delta", np.ones((3, 4)), {"delta": 1j}, TypeError),
    ("delta", np.ones((3, 4)), {"delta": math.nan}, ValueError),
    ("delta", np.ones((3, 4)), {"delta": math.inf}, ValueError),
    ("delta", np.ones((3, 4)), {"delta": [1, 2]}, ValueError),
    ("delta", np.ones((3, 4)), {"delta": np.ones((1, 3, 1))}, ValueError),
    ("delta", np.ones((3, 4)), {"delta": [1, 2], "to": rope_plan(4, base=9.0)}, ValueError),
    ("plan", np.ones((3, 4)), {"plan": None}, TypeError),
    ("plan", np.ones((3, 4)), {"plan": "yarn"}, TypeError),
    ("to", np.ones((3, 4)), {"to": 3}, TypeError),
    ("to", np.ones((3, 4)), {"to": rope_plan(4, layout="half")}, ValueError),
    ("to", np.ones((3, 4)), {"to": rope_plan(2)}, ValueError),
    ("to", np.ones((3, 6)), {"to": RopePlan([1, 1], start=1)}, ValueError),
    ("to", np.ones((3, 4)), {"to": RopePlan([1, 1], axis=[0, 1])}, ValueError),
    ("to", np.ones((3, 4)), {"to": xpos_plan(4)}, ValueError),
    ("to", np.ones((3, 4)), {"plan": xpos_plan(4), "to": rope_plan(4)}, ValueError),
    ("to", np.ones((3, 4)), {"plan": xpos_plan(4), "to": xpos_plan(4, scale_base=9)}, ValueError),
    ("positions", np.ones((3, 4)), {"to": rope_plan(4, base=9.0), "positions": [1, 2]}, ValueError),
    ("positions", np.ones((3, 4)), {"to": rope_plan(4, base=9.0), "positions": "a"}, TypeError),
    (
        "positions",
        np.ones((3, 4)),
        {"to": rope_plan(4, base=9.0), "positions": [1, 2, math.nan]},
        ValueError,
    ),
    ("seq_axis", np.ones((3, 4)), {"seq_axis": 1}, ValueError),
    ("seq_axis", np.ones((3, 4)), {"seq_axis": 0.5}, TypeError),
    ("out", np.ones((3, 4)), {"out": np.ones((3, 5))}, ValueError),
    ("out", np.ones((3, 4)), {"out": np.ones((3, 4), np.float32)}, TypeError),
    ("out", np.ones((3, 4)), {"out": [1.0]}, TypeError),
]


def refused_shift(k, options, error, message):
    options = {"delta": 1, "plan": rope_plan(4), **options}
    delta = options.pop("delta")
    arrays = [a for a in (k, options.get("out")) if isinstance(a, np.ndarray)]
    before = [a.copy() for a in arrays]
    try:
        with pytest.raises(error, match=message):
            rope_shift(k, delta, **options)
        for a, b in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(a, b)
    finally:
        for a, b in zip(arrays, before, strict=True):
            if a.flags.writeable:
                a[...] = b


@pytest.mark.parametrize(("name", "k", "options", "error"), REFUSED)
def test_a_refused_shift_changes_nothing(name, k, options, error):
    refused_shift(k, options, error, "^rope_shift: ")


@pytest.mark.parametrize(("name", "k", "options", "error"), REFUSED)
def test_a_refused_shift_names_the_argument(name, k, options, error):
    refused_shift(k, options, error, rf"^rope_shift: {name}: ")


def test_a_shift_that_overlaps():
    memory = np.ones(24)
    k = memory[:16].reshape(4, 4)
    for out in (memory[4:20].reshape(4, 4), k[::-1], memory[1:17].reshape(4, 4)):
        with pytest.raises(ValueError, match=r"^rope_shift: out: must not overlap "):
            rope_shift(k, 1, plan=rope_plan(4), to=rope_plan(4, base=9.0), out=out)
        assert (memory == 1).all()


# --- xPos -----------------------------------------------------------------------------------------

XPOS = json.loads((DATA / "rope_cache.json").read_text())
INPUT = np.array(json.loads((DATA / "rope.json").read_text())["input_bhsd"])


def test_xpos_of_rotary_embedding_torch():
    """It centres at half the length of what it is given: 1 of three tokens, 0 of a single one."""
    q, k = rope_qk(INPUT, INPUT, plan=xpos_plan(8, center=1.0))
    np.testing.assert_allclose(q, np.array(XPOS["xpos_q"]), rtol=0, atol=5e-6)
    np.testing.assert_allclose(k, np.array(XPOS["xpos_k"]), rtol=0, atol=5e-6)
    last = np.array(XPOS["xpos_cached_q_last"])
    alone = rope(INPUT[..., 2:, :], [2], plan=xpos_plan(8, center=0.0))
    np.testing.assert_allclose(alone, last, rtol=0, atol=5e-6)
    assert np.abs(last - q[..., 2:, :]).max() > 1e-3  # which is why its cached scores are wrong


def true_scores(q, k, m, ns, layout, scale_base=512):
    """Of a query at m with keys at ns: the sum of z^((m-n) / scale_base) Re(q conj(k) e^(iw(m-n))).

    And the same sum of the pairs' norms, which errors are a part of.
    """
    dim, q = len(q), q.tolist()
    a, b = channels(RopePlan(np.ones(dim // 2), layout=layout))
    scores, sizes = [], []
    with mp.workdps(40):
        z = [(2 * i + mpf(2) * dim / 5) / (mpf(7) * dim / 5) for i in range(dim // 2)]
        w = [mpf(10000) ** (-mpf(2 * i) / dim) for i in range(dim // 2)]
        for row, n in zip(k.tolist(), ns, strict=True):
            score = size = mpf(0)
            for i in range(dim // 2):
                query, key = mpc(q[a[i]], q[b[i]]), mpc(row[a[i]], row[b[i]])
                gain = z[i] ** (mpf(m - n) / scale_base)
                turn = mpmath.expjpi(w[i] * (m - n) / mp.pi)
                score += gain * (query * mpmath.conj(key) * turn).real
                size += gain * abs(query) * abs(key)
            scores.append(float(score))
            sizes.append(float(size))
    return np.array(scores), np.array(sizes)


@by_layout
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_with_cached_keys(dtype, layout):
    """One query and 300 keys that came one by one: the formula's value, whatever the centre."""
    q, k = some(8, dtype), some((300, 8), dtype, 2)
    for first in (0, 10**6):
        m, ns = first + 299, list(range(first, first + 300))
        right, size = true_scores(q, k, m, ns, layout)
        for center in (first, first + 150, first + 299.5, first - 10_000):
            plan = xpos_plan(8, center=center, layout=layout)
            cached = [rope_qk(k[:100], k[:100], ns[:100], plan=plan)[1]]
            for j in range(100, 300, 50):
                part = k[j : j + 50]
                cached.append(rope_qk(part, part, plan=plan, offset=ns[j])[1])
            query = rope_qk(q[None], q[None], [m], plan=plan)[0][0]
            scores = np.concatenate(cached).astype(float) @ query.astype(float)
            exponent = 0 if dtype == np.float32 else np.abs(plan.decay).max() * 10_300
            errors = np.abs(scores - right) / size
            assert errors.max() < (8 + 4 * exponent) * np.finfo(dtype).eps


def test_xpos_scores_do_not_depend_on_the_length():
    """A longer cache leaves old scores as they are, bit for bit."""
    plan = xpos_plan(16, center=0.0)
    x = some((500, 16), np.float32)
    q, k = rope_qk(x, x, plan=plan)
    for length in (1, 2, 64, 299):
        shorter = rope_qk(x[:length], x[:length], plan=plan)
        assert_bits(shorter[0], q[:length])
        assert_bits(shorter[1], k[:length])


def test_xpos_within_32_thousand_tokens_of_the_centre():
    """The docstring's range for float32; beyond it results are finite."""
    plan = xpos_plan(8, layout="half")
    q, k = some(8, np.float32), some((5, 8), np.float32, 2)
    m, ns = 32_000, [32_000, 31_999, 31_900, 31_000, 20_000]
    right, size = true_scores(q, k, m, ns, "half")
    turned = rope_qk(q[None], q[None], [m], plan=plan)[0][0], rope_qk(k, k, ns, plan=plan)[1]
    scores = turned[1].astype(float) @ turned[0].astype(float)
    assert (np.abs(scores - right) / size).max() < 8 * 2.0**-23
    for far in (10**9, -(10**9), 2**62):
        for part in rope_qk(q[None], k[:1], [far], plan=plan):
            assert np.isfinite(part).all()
        twin = xpos_plan(8, layout="half", center=float(far))  # move the centre instead
        near = rope_qk(q[None], k[:1], [far], plan=twin)
        dot = float(near[0][0].astype(float) @ near[1][0].astype(float))
        same, scale = true_scores(q, k[:1], 0, [0], "half")
        assert abs(dot - same[0]) < 8 * 2.0**-23 * scale[0]


@by_layout
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_centre_moves_along(dtype, layout):
    """A text of 200,000 tokens in float32: the cache is re-centred every 20,000."""
    plan = xpos_plan(16, layout=layout)
    k = some((3, 16), dtype)
    ns = [0, 11, 19_990]
    cache = rope_qk(k, k, ns, plan=plan)[1]
    for center in (20_000.0, 40_000.0):
        moved = xpos_plan(16, layout=layout, center=center)
        both = plan, moved
        if center == 40_000.0:  # either plan of the two will do
            both = plan.for_keys(), moved.for_keys()
        assert rope_shift(cache, 0, plan=both[0], to=both[1]) is cache
        plan = moved
    right = rope(k, ns, plan=plan.for_keys())
    size = np.linalg.norm(right.astype(float), axis=-1, keepdims=True)
    exponent = np.abs(plan.decay).max() * 40_000
    errors = np.abs(cache.astype(float) - right) / size
    assert errors.max() < (4 + 2 * exponent * (dtype == np.float64)) * np.finfo(dtype).eps


@pytest.mark.parametrize("delta", [-50, 7])
def test_shifted_keys_of_xpos_by_either_plan(delta):
    x, plan = some((5, 8)), xpos_plan(8)
    ns = np.arange(100, 105)
    right = rope(x, ns + delta, plan=plan.for_keys())
    for given in (plan, plan.for_keys()):
        keys = rope(x, ns, plan=plan.for_keys())
        np.testing.assert_allclose(rope_shift(keys, delta, plan=given), right, rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="^rope_qk: plan: must be that of the queries"):
        rope_qk(x, x, plan=plan.for_keys())


@pytest.mark.parametrize(
    ("dtype", "start", "end", "at"),
    [
        (np.float32, 0.0, 60_000.0, 30_000),
        (np.float16, 0.0, 6000.0, 3000),
        (BFLOAT16, 60_000.0, 0.0, 30_500),
        (np.float64, 0.0, 500_000.0, 250_000),
    ],
)
def test_a_centre_moved_further_than_one_step(dtype, start, end, at):
    """Between two centres that are both in reach of the key, further than the exponents are."""
    old, new = xpos_plan(8, center=start), xpos_plan(8, center=end)
    k = some((1, 8), dtype, 5)
    right = rope(k, [at], plan=new.for_keys()).astype(np.float64)
    moved = rope_shift(rope(k, [at], plan=old.for_keys()), 0, plan=old, to=new).astype(np.float64)
    assert np.abs(moved / right - 1).max() < 64 * EPS[np.dtype(dtype).name] * (
        16 if dtype == np.float64 else 1
    )


@pytest.mark.parametrize(
    ("dtype", "far"), [(np.float16, 8000), (np.float32, 60_000), (np.float64, 400_000)]
)
def test_keys_that_move_with_the_centre(dtype, far):
    """In reach before and after, though neither the one move nor the other would be."""
    old, new = xpos_plan(8), xpos_plan(8, center=float(far))
    k = some((1, 8), dtype, 5)
    right = rope(k, [far], plan=new.for_keys()).astype(np.float64)
    for delta in (far, [far], float(far)):
        keys = rope(k, [0], plan=old.for_keys())
        moved = rope_shift(keys, delta, plan=old, to=new, positions=[0]).astype(np.float64)
        np.testing.assert_allclose(moved, right, rtol=0, atol=8 * EPS[np.dtype(dtype).name])


def test_a_long_way_of_fading_keys():
    plan = xpos_plan(8, center=40_000.0)
    x = some((3, 8), np.float32)
    p = np.array([60_000, 61_000, 59_000])
    right = rope(x, p - 40_000, plan=plan.for_keys())
    for delta in (-40_000, -40_000.0, [-40_000] * 3):
        keys = rope(x, p, plan=plan.for_keys())
        np.testing.assert_allclose(rope_shift(keys, delta, plan=plan), right, rtol=3e-5)
    for bad in ("1", [1, 2], [math.nan] * 3, None, [[1] * 3] * 3):
        keys = rope(x, p, plan=plan.for_keys())
        before = keys.copy()
        with pytest.raises((TypeError, ValueError), match="^rope_shift: delta: "):
            rope_shift(keys, bad, plan=plan)
        assert_bits(keys, before)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_small_query_beside_many_keys(threads):
    """More parts of keys than of queries, and the other way round."""
    before = get_num_threads()
    set_num_threads(threads)
    try:
        few, many = some((1, 1, 64), np.float32), some((40_000, 1, 64), np.float32, 2)
        for q, k in ((few, many), (many, few), (some((3, 1, 64), np.float32), many)):
            for a, b in zip(rope_qk(q, k, offset=9), two_ropes(q, k, offset=9), strict=True):
                assert_bits(a, b)
        few, many = some((1, 200, 64), np.float32), some((300, 200, 64), np.float32, 2)
        for q, k in ((few, many), (many, few)):
            for a, b in zip(rope_qk(q, k), two_ropes(q, k), strict=True):
                assert_bits(a, b)
    finally:
        set_num_threads(before)
