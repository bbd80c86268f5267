"""posenc.naive against exact fractions: one rounding, whatever the types that come and go."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import posenc
from posenc.naive import normalized_positions, raw_positions

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(t) for t in (np.float16, BFLOAT16, np.float32, np.float64)]
BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}
untimed = settings(deadline=None, max_examples=300)


def value(x):
    """The number a float >= 0 stands for; infinity as the power of two after the largest one."""
    if np.isinf(x):
        return Fraction(2) ** math.frexp(float(ml_dtypes.finfo(x.dtype).max))[1]
    return Fraction(*float(x).as_integer_ratio())


def nearest(exact, dtype):
    """The number of dtype nearest to a fraction, ties to even: found among three candidates."""
    magnitude = abs(exact)
    try:
        guess = float(magnitude)
    except OverflowError:
        guess = math.inf
    with np.errstate(over="ignore"):
        bits = int(np.float64(guess).astype(dtype).view(BITS[dtype.itemsize]))
    infinity = int(np.float64(np.inf).astype(dtype).view(BITS[dtype.itemsize]))
    candidates = [b for b in (bits - 1, bits, bits + 1) if 0 <= b <= infinity]
    numbers = [np.array(b, BITS[dtype.itemsize]).view(dtype)[()] for b in candidates]
    gaps = [(abs(value(x) - magnitude), b % 2) for x, b in zip(numbers, candidates, strict=True)]
    best = numbers[gaps.index(min(gaps))]
    return best if exact >= 0 else -best


def test_nearest_knows_the_rules():
    half, bf16 = np.dtype(np.float16), BFLOAT16
    assert nearest(Fraction(2049), half) == 2048 and nearest(Fraction(2051), half) == 2052
    assert nearest(Fraction(2049) + Fraction(1, 10**30), half) == 2050
    assert nearest(Fraction(65519), half) == 65504 and nearest(Fraction(65520), half) == np.inf
    assert nearest(Fraction(257), bf16) == 256 and nearest(Fraction(-259), bf16) == -260
    assert nearest(Fraction(1, 10), np.dtype(np.float64)) == 0.1


def same(a, b):
    return a == b and np.signbit(a) == np.signbit(b)


# --- values ---------------------------------------------------------------------------------------


def test_columns_hold_the_position():
    table = raw_positions(4, 3)
    assert table.dtype == np.float64
    np.testing.assert_array_equal(table, [[0, 0, 0], [1, 1, 1], [2, 2, 2], [3, 3, 3]])


def test_same_value_for_different_places():
    assert normalized_positions(10, 1)[5] == normalized_positions(100, 1)[50] == 0.5
    # a longer text moves every word but the first
    assert (normalized_positions(10, 4)[1:] != normalized_positions(11, 4)[1:10]).all()
    assert normalized_positions(1000, 4).max() < 1


def test_raw_has_no_bound():
    assert [raw_positions(n, 4).max() for n in (10, 100, 1000)] == [9, 99, 999]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_shape_of_positions_is_kept(dtype):
    p = np.arange(6).reshape(2, 3)
    assert raw_positions(p, 5, dtype=dtype).shape == (2, 3, 5)
    by_row = normalized_positions(p, 5, dtype=dtype)
    assert by_row.dtype == dtype
    np.testing.assert_array_equal(by_row[..., 4], (p / 3).astype(dtype))
    assert raw_positions(np.array(7), 2, dtype=dtype).tolist() == [7, 7]
    assert normalized_positions(np.array(7), 2, length=14).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_empty(shape):
    assert raw_positions(np.zeros(shape), 4).shape == (*shape, 4)
    assert normalized_positions(np.zeros(shape), 4).shape == (*shape, 4)
    assert raw_positions(0, 4).shape == normalized_positions(0, 4).shape == (0, 4)


def test_long_input_is_seamless():
    n = 3 * 4096 + 5  # more than the blocks the work is cut into
    np.testing.assert_array_equal(raw_positions(n, 2)[:, 1], np.arange(n))
    p = np.random.default_rng(1).integers(0, n, (n, 3))
    np.testing.assert_array_equal(normalized_positions(p, 2)[..., 0], p / 3)


wide_ints = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(2**53 - 4, 2**53 + 4),
    # near the ties of the narrow types: 9, 12, 25 or 54 bits and a little
    st.builds(
        lambda m, k, d: min((2 * m + 1) << k, 2**62) + d,
        st.integers(128, 2**24),
        st.integers(0, 38),
        st.integers(-1, 1),
    ),
)


@untimed
@given(wide_ints, st.sampled_from(DTYPES))
def test_integers_are_rounded_once(p, dtype):
    assert same(raw_positions(np.array([p]), 1, dtype=dtype)[0, 0], nearest(Fraction(p), dtype))


@untimed
@given(st.integers(2**63 - 2, 2**64 - 1), st.sampled_from(DTYPES))
def test_uint64_is_rounded_once(p, dtype):
    got = raw_positions(np.array([p], np.uint64), 1, dtype=dtype)[0, 0]
    assert same(got, nearest(Fraction(p), dtype))


@untimed
@given(wide_ints, st.one_of(st.integers(1, 10**6), st.integers(1, 2**70)), st.sampled_from(DTYPES))
def test_quotients_are_rounded_once(p, length, dtype):
    got = normalized_positions(np.array([p]), 1, length=length, dtype=dtype)[0, 0]
    assert got == nearest(Fraction(p, length), dtype)


@untimed
@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(1, 2**60),
    st.sampled_from(DTYPES),
)
def test_floats_are_rounded_once(p, length, dtype):
    got = normalized_positions(np.array([p]), 1, length=length, dtype=dtype)[0, 0]
    assert same(got, nearest(Fraction(p) / length, dtype)) or (p == 0 and got == 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, BFLOAT16], ids=str)
def test_every_quotient_of_a_text(dtype):
    dtype = np.dtype(dtype)
    for length in (3, 96, 100, 1000, 1024):
        got = normalized_positions(length, 1, dtype=dtype)[:, 0]
        right = [nearest(Fraction(p, length), dtype) for p in range(length)]
        np.testing.assert_array_equal(got, np.array(right, dtype))


def test_double_rounding_is_avoided():
    # each of these rounds to a tie on the way, and then to the wrong side
    p, length = 2049 * (2**50 + 1) + 1, 2**50 + 1
    assert np.float16(p / length) == 2048
    assert normalized_positions(np.array([p]), 1, length=length, dtype=np.float16) == 2050

    p, length = 2051 * 2**45 - 15, 2**45  # not quite a tie, and the float64 below is odd already
    assert np.float16(p / length) == 2050
    assert normalized_positions(np.array([p]), 1, length=length, dtype=np.float16) == 2050

    p = (257 << 40) + 1
    assert np.array([p]).astype(BFLOAT16) == 256 << 40
    assert raw_positions(np.array([p]), 1, dtype=BFLOAT16) == 258 << 40

    p = 257 + 2.0**-40
    assert np.array([p]).astype(BFLOAT16) == 256
    assert raw_positions(np.array([p]), 1, dtype=BFLOAT16) == 258

    p = np.longdouble(2049) + np.longdouble(2) ** -50
    if p != np.float64(p):
        assert p.astype(np.float16) == 2048
        assert raw_positions(np.array([p]), 1, dtype=np.float16) == 2050


def test_every_type_of_position_gives_the_same():
    right = normalized_positions(np.arange(100), 2, length=7)
    for name in "bBhHiIlLqQefdg":
        p = np.arange(100, dtype=name)
        for array in (p, p.astype(p.dtype.newbyteorder())):
            np.testing.assert_array_equal(normalized_positions(array, 2, length=7), right)
    p = np.arange(100).astype(BFLOAT16)
    np.testing.assert_array_equal(normalized_positions(p, 2, length=7), right)
    np.testing.assert_array_equal(normalized_positions(list(range(100)), 2, length=7), right)
    np.testing.assert_array_equal(
        normalized_positions(np.int16(100), 2), normalized_positions(100, 2)
    )


def test_beyond_the_range_is_infinite_without_a_warning():
    assert raw_positions(np.array([65519, 65520]), 1, dtype=np.float16).ravel().tolist() == [
        65504,
        np.inf,
    ]
    if np.finfo(np.longdouble).max > np.finfo(np.float64).max:
        p = np.array([-(np.longdouble(10) ** 400)])
        assert normalized_positions(p, 1, length=3) == -np.inf


@pytest.mark.parametrize("step", [-1, 2, 0])
def test_strided_positions(step):
    p = np.lib.stride_tricks.as_strided(np.arange(20)[10:], (5,), (8 * step,))
    np.testing.assert_array_equal(raw_positions(p, 2), raw_positions(p.copy(), 2))


# --- out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_out_is_filled_and_returned(dtype):
    out = np.zeros((6, 8), dtype)[::2, ::-2]
    assert raw_positions(3, 4, dtype=dtype, out=out) is out
    np.testing.assert_array_equal(out, raw_positions(3, 4, dtype=dtype))
    out = np.zeros(2, dtype)
    assert normalized_positions(np.array(1), 2, length=4, dtype=dtype, out=out) is out
    assert out.tolist() == [0.25, 0.25]


def test_out_may_hold_the_positions():
    out = np.arange(40_000, dtype=float).reshape(10_000, 4)  # more than one block
    p = out[::-1, 2]
    right = normalized_positions(p.copy(), 4)
    np.testing.assert_array_equal(normalized_positions(p, 4, out=out), right)


READ_ONLY = np.zeros((3, 4))
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("out", "error"),
    [
        ([[0.0] * 4] * 3, TypeError),
        (np.zeros((3, 4), np.float32), TypeError),
        (np.zeros((3, 4), ">f8"), TypeError),
        (np.zeros((3, 4), object), TypeError),
        (np.zeros((4, 3)), ValueError),
        (np.zeros((3, 4, 1)), ValueError),
        (READ_ONLY, ValueError),
        (np.lib.stride_tricks.as_strided(np.zeros(4), (3, 4), (0, 8)), ValueError),
    ],
)
@pytest.mark.parametrize("call", [raw_positions, normalized_positions])
def test_wrong_out(call, out, error):
    with pytest.raises(error, match=rf"^{call.__name__}: out: must"):
        call(3, 4, out=out)
    assert not np.any(out)


@pytest.mark.parametrize(
    "wrong",
    [
        {"positions": np.array([0.0, 1.0, np.nan])},
        {"dim": 0},
        {"dtype": np.int32},
    ],
)
def test_a_failed_call_writes_nothing(wrong):
    out = np.full((3, 4), 9.0)
    with pytest.raises((TypeError, ValueError)):
        raw_positions(**{"positions": 3, "dim": 4, "out": out, **wrong})
    assert (out == 9).all()


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [raw_positions, normalized_positions])
@pytest.mark.parametrize(
    ("positions", "error", "message"),
    [
        (-1, ValueError, "must be at least 0, got -1"),
        (True, TypeError, "must be an integer, got bool"),
        (np.timedelta64(3), TypeError, "must be an integer, got timedelta64"),
        ([True, False], TypeError, "got bool"),
        (None, TypeError, "got NoneType"),
        ("12", TypeError, "got <U2"),
        (["1", "2"], TypeError, "got <U1"),
        (1j, TypeError, "got complex128"),
        ([2**70], TypeError, "got list"),
        (np.zeros(2, "M8[s]"), TypeError, "got datetime64"),
        (np.zeros(2, "i4,f4"), TypeError, "got "),
        ([[1], [2, 3]], ValueError, "inhomogeneous"),
        ([0.0, np.nan], ValueError, "must be finite, got nan"),
        (np.array([np.inf], np.float16), ValueError, "must be finite, got inf"),
        (np.array([-np.inf], BFLOAT16), ValueError, "must be finite, got -inf"),
    ],
)
def test_wrong_positions(call, positions, error, message):
    with pytest.raises(error) as caught:
        call(positions, 4)
    assert str(caught.value).startswith(f"{call.__name__}: positions: must")
    assert message in str(caught.value)


@pytest.mark.parametrize("call", [raw_positions, normalized_positions])
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dim": 0}, ValueError, "dim: must be at least 1, got 0"),
        ({"dim": -(2**70)}, ValueError, "dim: must be at least 1, got -1180591620717411303424"),
        ({"dim": 2.0}, TypeError, "dim: must be an integer, got float"),
        ({"dim": True}, TypeError, "dim: must be an integer, got bool"),
        ({"dim": np.arange(2)}, TypeError, "dim: must be an integer, got ndarray"),
        ({"dtype": "int32"}, TypeError, "dtype: must be float16, bfloat16, float32 or float64"),
        ({"dtype": ">f4"}, TypeError, "dtype: must be float16, bfloat16, float32 or float64"),
        ({"dtype": "nonsense"}, TypeError, "dtype: must be float16"),
        ({"positions": 2**31, "dim": 2**31}, MemoryError, "out: must fit in memory, got shape"),
        ({"positions": 2**70}, MemoryError, "out: must fit in memory, got shape"),
        ({"positions": 0, "dim": 2**62}, MemoryError, "out: must fit in memory, got shape"),
        ({"positions": np.zeros((1,) * 64)}, ValueError, "positions: must have at most 63 axes"),
    ],
)
def test_wrong_options(call, options, error, message):
    with pytest.raises(error) as caught:
        call(**{"positions": 3, "dim": 4, **options})
    assert str(caught.value).startswith(f"{call.__name__}: {message}")


@pytest.mark.parametrize(
    ("length", "error", "message"),
    [
        (0, ValueError, "must be at least 1, got 0"),
        (2.5, TypeError, "must be an integer, got float"),
        (True, TypeError, "must be an integer, got bool"),
    ],
)
def test_wrong_length(length, error, message):
    with pytest.raises(error, match=f"^normalized_positions: length: {message}$"):
        normalized_positions(3, 4, length=length)


def test_a_single_position_needs_a_length():
    with pytest.raises(ValueError, match="^normalized_positions: length: must be given"):
        normalized_positions(np.array(3), 4)


def test_public_names():
    assert posenc.raw_positions is raw_positions
    assert posenc.normalized_positions is normalized_positions
