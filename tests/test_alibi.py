"""posenc.alibi: slopes against multiprecision, biases against the reference and published cases."""

import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import mpmath as mp
import numpy as np
import pytest
from conftest import SLOPES
from hypothesis import given, settings
from hypothesis import strategies as st

import posenc
from posenc import alibi_bias, alibi_slopes
from posenc import reference as ref
from posenc.attention import attend, softmax

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(t) for t in (np.float16, BFLOAT16, np.float32, np.float64)]
BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}
OTHERS = json.loads((Path(__file__).parent / "data/alibi.json").read_text())
untimed = settings(deadline=None, max_examples=200)


def rounded(x, dtype):
    """float64 rounded once to dtype. (ml_dtypes goes by way of float32: twice.)"""
    with np.errstate(over="ignore"):
        if dtype != BFLOAT16:
            return x.astype(dtype)
        mantissa, exponent = np.frexp(x)
        return np.ldexp(np.rint(mantissa * 256), exponent - 8).astype(dtype)


def same_bits(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    bits = BITS[a.dtype.itemsize]
    np.testing.assert_array_equal(
        np.ascontiguousarray(a).view(bits), np.ascontiguousarray(b).view(bits)
    )


# --- slopes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("heads", "inverse"), SLOPES)
def test_slopes_that_are_powers_of_two(heads, inverse):
    assert alibi_slopes(heads).tolist() == [1 / m for m in inverse]


def test_slopes_of_other_head_counts():
    last = [0.707106781187, 0.353553390593, 0.176776695297, 0.088388347648]
    np.testing.assert_allclose(alibi_slopes(12)[8:], last, rtol=1e-11)
    first = [0.840896415254, 0.707106781187, 0.594603557501, 0.5]
    np.testing.assert_allclose(alibi_slopes(40)[:4], first, rtol=1e-11)


def exact_slopes(heads, max_bias):
    """Correctly rounded: 2^-x for the exact x, at 400 bits."""
    n = 2 ** math.floor(math.log2(heads))
    steps = [Fraction(h, n) for h in range(1, n + 1)]
    steps += [Fraction(2 * h - 1, 2 * n) for h in range(1, heads - n + 1)]
    with mp.workprec(400):
        x = [Fraction(max_bias) * step for step in steps]
        return [float(mp.mpf(2) ** (-mp.mpf(e.numerator) / e.denominator)) for e in x]


@pytest.mark.parametrize("heads", [*range(1, 34), 40, 64, 71, 96, 112, 128, 1000])
def test_slopes_are_correctly_rounded(heads):
    assert alibi_slopes(heads).tolist() == exact_slopes(heads, 8.0)


@untimed
@given(st.integers(1, 130), st.floats(2.0**-30, 1000))
def test_slopes_of_any_bias_are_correctly_rounded(heads, max_bias):
    assert alibi_slopes(heads, max_bias=max_bias).tolist() == exact_slopes(heads, max_bias)


def test_slopes_at_the_ends_of_float64():
    smallest = 2.0**-1074
    assert alibi_slopes(1, max_bias=1074.0) == smallest
    assert alibi_slopes(1, max_bias=1074.5) == smallest  # nearer to it than to 0
    assert alibi_slopes(1, max_bias=1075.0) == 0  # a tie: to even
    assert alibi_slopes(1, max_bias=1.7e308) == 0
    assert alibi_slopes(3, max_bias=5e-324).tolist() == [1, 1, 1]
    assert alibi_slopes(1, max_bias=2.0**-53) == 1 - 2.0**-53  # 1 - 0.69 * 2^-53
    assert alibi_slopes(1, max_bias=2.0**-54) == 1


@pytest.mark.parametrize("library", ["bloom", "mpt"])
def test_slopes_of_other_libraries(library):
    """Values and order; theirs are powers in float32, off by up to four units."""
    for heads, slopes in OTHERS["slopes"][library].items():
        np.testing.assert_allclose(alibi_slopes(int(heads)), slopes, rtol=5e-7)


def test_slopes_are_the_callers_own():
    alibi_slopes(8)[0] = 7
    assert alibi_slopes(8)[0] == 0.5
    assert alibi_slopes(np.int8(8)).dtype == np.float64


# --- published cases ------------------------------------------------------------------------------


def test_last_query_stands_at_last_key():
    right = [[-0.1875, -0.125, -0.0625, 0, -0.0625], [-0.25, -0.1875, -0.125, -0.0625, 0]]
    assert alibi_bias([1 / 16], 2, 5).tolist() == [right]


def test_symmetric_for_encoders():
    right = -np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]]) / 256
    np.testing.assert_array_equal(alibi_bias(1, 3), right[np.newaxis])


def test_bias_of_other_libraries():
    given = OTHERS["bias"]
    bias = alibi_bias(3, 2, 4, dtype=np.float32)
    np.testing.assert_array_equal(bias, np.float32(given["x_transformers_h3_i2_j4"]))
    # one row a head, the distance to the last key: what a single query at the end sees
    np.testing.assert_allclose(alibi_bias(12, 1, 5)[:, 0], given["mpt_h12_len5"], rtol=5e-7)


def test_row_form_is_another_bias_of_the_same_softmax():
    """m j, as BLOOM adds it, differs from -m (i - j) by a constant of the row."""
    row = np.array(OTHERS["bias"]["bloom_mask_h4"]["bias"])[4:, :, :4]  # second text, less its pad
    causal = alibi_bias(4, 4, symmetric=False)
    gap = (row - causal)[:, np.tri(4, dtype=bool)]
    assert np.ptp((row - causal)[:, 3], axis=-1).max() == 0 and np.ptp(gap) > 0
    mask = np.where(np.tri(4), 0, -np.inf)
    scores = np.random.default_rng(1).normal(size=(4, 4, 4))
    np.testing.assert_allclose(softmax(scores + row + mask), softmax(scores + causal), rtol=1e-12)


def test_low_precision_is_the_product_rounded_once():
    def at(distance, dtype):
        return alibi_bias([0.5], 1, distance + 1, dtype=dtype)[0, 0, 0]

    assert at(1001, BFLOAT16) == at(1000, BFLOAT16) == -500
    assert at(4097, np.float16) == at(4098, np.float16) == -2048
    assert at(4099, np.float16) == at(4100, np.float16) == -2050
    assert at(131039, np.float16) == -65504 and at(131040, np.float16) == -np.inf
    # float32 on the way, as others go, would make a tie of this and round it to -256
    slope = 257 + 2.0**-40
    assert alibi_bias([slope], 1, 2, dtype=BFLOAT16)[0, 0, 0] == -258
    assert alibi_bias([2049 + 2.0**-40], 1, 2, dtype=np.float16)[0, 0, 0] == -2050


def test_near_tokens_win_and_old_rows_stay():
    """What the course shows: a bias towards the near, and no length at which it ends."""
    weights = softmax(alibi_bias(4, 64, symmetric=False))
    assert (np.diff(weights[:, -1]) > 0).all()
    assert (np.diff(weights[:, -1, -1]) < 0).all()  # a steeper head looks closer
    np.testing.assert_array_equal(alibi_bias(4, 512)[:, :64, :64], alibi_bias(4, 64))
    rng = np.random.default_rng(0)
    E, shuffled = rng.normal(size=(5, 8)), [3, 0, 4, 1, 2]
    weights = [rng.normal(size=(8, 8)) for _ in range(3)]
    bias = alibi_bias([0.5], 5)[0]
    plain = attend(E, *weights)[shuffled] - attend(E[shuffled], *weights)
    biased = attend(E, *weights, bias=bias)[shuffled] - attend(E[shuffled], *weights, bias=bias)
    assert np.abs(plain).max() < 1e-12 and np.abs(biased).max() > 0.1


# --- every element --------------------------------------------------------------------------------

lengths = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda p: (min(p), max(p)))
slope_lists = st.lists(
    st.floats(-1e30, 1e30, allow_subnormal=False).filter(lambda m: m == 0 or abs(m) > 1e-30),
    max_size=3,
)


@untimed
@given(st.integers(1, 20), lengths, st.booleans(), st.sampled_from(DTYPES), st.booleans())
def test_heads_like_the_reference(heads, lengths, symmetric, dtype, view):
    bias = alibi_bias(heads, *lengths, symmetric=symmetric, dtype=dtype, view=view)
    right = ref.alibi_bias(heads, *lengths, symmetric=symmetric)
    assert bias.shape == right.shape and bias.dtype == dtype
    # the reference's slopes are within two units, then one rounding to the dtype
    eps = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(bias.astype(float), right, rtol=eps / 2 + 2.0**-51)


@untimed
@given(slope_lists, lengths, st.booleans(), st.sampled_from(DTYPES), st.booleans())
def test_slopes_like_the_reference(slopes, lengths, symmetric, dtype, view):
    bias = alibi_bias(np.array(slopes), *lengths, symmetric=symmetric, dtype=dtype, view=view)
    right = ref.alibi_bias(np.array(slopes), *lengths, symmetric=symmetric)
    same_bits(bias, rounded(right + 0.0, dtype))  # + 0.0: zeros are positive here


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("symmetric", [True, False])
def test_diagonal_is_positive_zero(dtype, symmetric):
    bias = alibi_bias([0.5, -0.5, 0.0, -0.0], 9, symmetric=symmetric, dtype=dtype)
    diagonal = np.einsum("hii->hi", bias).astype(float)
    assert (diagonal == 0).all() and not np.signbit(diagonal).any()
    assert np.isneginf(bias.astype(float)).sum() == (0 if symmetric else 4 * 36)


def test_slopes_of_any_kind():
    right = alibi_bias([1.0, 2.0], 3)
    for slopes in (
        [1, 2],
        np.array([1, 2], np.uint8),
        np.array([1, 2], ">f4"),
        np.array([1, 2], BFLOAT16),
        np.array([1, 2], np.longdouble),
        np.array([2.0, 7, 1])[::-2],
    ):
        np.testing.assert_array_equal(alibi_bias(slopes, 3), right)
    assert alibi_bias([], 3).shape == (0, 3, 3)


def test_decode_steps_are_the_rows():
    whole = alibi_bias(6, 9, symmetric=False)
    for i in range(9):
        step = alibi_bias(6, 1, i + 1, symmetric=False)
        np.testing.assert_array_equal(step[:, 0], whole[:, i, : i + 1])
        assert step.flags.writeable and step.flags.c_contiguous


def test_overflow_of_float64():
    assert alibi_bias([1e308], 1, 11)[0, 0].tolist()[:2] == [-np.inf, -9e308]
    assert alibi_bias([-1e308], 1, 12)[0, 0, 0] == np.inf
    assert alibi_bias([5e-324], 1, 3)[0, 0].tolist() == [-1e-323, -5e-324, 0]


# --- where it is written --------------------------------------------------------------------------


def test_view_costs_no_memory_and_cannot_be_written():
    bias = alibi_bias(2, 5, 9, view=True)
    np.testing.assert_array_equal(bias, alibi_bias(2, 5, 9))
    assert bias.strides == (13 * 8, -8, 8) and not bias.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        bias.flags.writeable = True
    with pytest.raises(ValueError, match="read-only"):
        bias[0, 0, 0] = 1
    scores = np.ones((3, 2, 5, 9))
    scores += bias
    np.testing.assert_array_equal(scores[1] - 1, bias)


def test_view_may_be_larger_than_memory():
    bias = alibi_bias(71, 32768, dtype=np.float32, view=True)
    assert bias.nbytes == 304_942_678_016
    assert bias[70, 32767, 0] == np.float32(-alibi_slopes(71)[70] * 32767)
    assert bias[0, 0, 32767] == np.float32(-alibi_slopes(71)[0] * 32767)


SHAPE = (3, 5, 7)


def buffers(dtype, shape=SHAPE):
    """(whole buffer, out within it) for many layouts."""
    h, q, k = shape
    padded = np.full((h, q, k + 9), 9, dtype)
    yield padded, padded[..., :k]
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        whole = np.full([shape[i] for i in order], 9, dtype)
        yield whole, whole.transpose(np.argsort(order))
        whole = np.full([2 * shape[i] for i in order], 9, dtype)
        yield whole, whole.transpose(np.argsort(order))[::-2, ::2, ::-2]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [SHAPE, (1, 1, 6), (4, 1, 1), (2, 6, 6), (1, 9, 9)])
def test_out_of_any_layout(dtype, shape):
    right = alibi_bias(*shape, symmetric=False, dtype=dtype, view=True)
    for whole, out in buffers(dtype, shape):
        assert alibi_bias(*shape, symmetric=False, dtype=dtype, out=out) is out
        same_bits(out, right)
        untouched = whole.size - out.size
        assert (whole == 9).sum() == untouched


def test_slopes_may_lie_in_out():
    out = np.full((2, 2, 2), 0.5)
    alibi_bias(out[0, 0], 2, out=out)
    np.testing.assert_array_equal(out, alibi_bias([0.5, 0.5], 2))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "shape", [(3, 1031, 1033), (2, 1200, 1200), (1, 5, 2**19 + 3), (600, 61, 67)]
)
def test_large_results_reach_every_element(dtype, shape):
    """Past the caches, rows that end anywhere within a vector, and lines cut into parts."""
    right = alibi_bias(*shape, dtype=dtype, view=True)
    same_bits(alibi_bias(*shape, dtype=dtype), right)
    size = math.prod(shape)
    room = np.full(size + 40, 9, dtype)
    for shift in (1, 7, 30):
        room[:] = 9
        alibi_bias(*shape, dtype=dtype, out=room[shift : shift + size].reshape(shape))
        same_bits(room[shift : shift + size].reshape(shape), right)
        assert (room[:shift] == 9).all() and (room[shift + size :] == 9).all()


def test_padded_rows_of_a_large_result():
    room = np.full((3, 1000, 1024), 9, np.float32)
    alibi_bias(3, 1000, 1001, dtype=np.float32, out=room[..., :1001])
    np.testing.assert_array_equal(room[..., :1001], ref.alibi_bias(3, 1000, 1001).astype("f"))
    assert (room[..., 1001:] == 9).all()


def test_large_result_like_the_reference():
    got = alibi_bias(8, 700, 801, symmetric=False)
    np.testing.assert_array_equal(got, ref.alibi_bias(8, 700, 801, symmetric=False))


def test_a_long_profile_has_no_seam():
    bias = alibi_bias([0.75, 3.0], 2, 100_001, symmetric=False, dtype=np.float32)
    np.testing.assert_array_equal(
        bias, ref.alibi_bias([0.75, 3.0], 2, 100_001, symmetric=False).astype(np.float32)
    )


@pytest.mark.parametrize("order", ["C", "F"])
def test_threads_change_nothing(order):
    right = alibi_bias(7, 501, 601)
    before = posenc.get_num_threads()
    try:
        posenc.set_num_threads(3)
        out = np.empty((7, 501, 601), order=order)
        same_bits(alibi_bias(7, 501, 601, out=out), right)
    finally:
        posenc.set_num_threads(before)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "options", "error", "message"),
    [
        ((0, 3), {}, ValueError, "num_heads_or_slopes: must be at least 1, got 0"),
        ((True, 3), {}, TypeError, "num_heads_or_slopes: must be an integer, got bool"),
        ((8.0, 3), {}, ValueError, "num_heads_or_slopes: must have one axis, got 0"),
        (([[0.5]], 3), {}, ValueError, "num_heads_or_slopes: must have one axis, got 2"),
        (([0.5, np.nan], 3), {}, ValueError, "num_heads_or_slopes: must be finite, got nan"),
        (([-np.inf], 3), {}, ValueError, "num_heads_or_slopes: must be finite, got -inf"),
        (([1j], 3), {}, TypeError, "num_heads_or_slopes: must be an array of"),
        ((["8"], 3), {}, TypeError, "num_heads_or_slopes: must be an array of"),
        ((None, 3), {}, TypeError, "num_heads_or_slopes: must be an array of"),
        ((2, -1), {}, ValueError, "q_len: must be at least 0, got -1"),
        ((2, 3.0), {}, TypeError, "q_len: must be an integer, got float"),
        ((2, True), {}, TypeError, "q_len: must be an integer, got bool"),
        ((2, 5, 3), {}, ValueError, "k_len: must be at least 5, got 3"),
        ((2, 5, "5"), {}, TypeError, "k_len: must be an integer, got str"),
        ((2, 3), {"symmetric": 1}, TypeError, "symmetric: must be True or False, got int"),
        ((2, 3), {"view": None}, TypeError, "view: must be True or False, got NoneType"),
        ((2, 3), {"dtype": "int32"}, TypeError, "dtype: must be float16, bfloat16"),
        ((2, 3), {"dtype": ">f4"}, TypeError, "dtype: must be float16, bfloat16"),
        ((2, 2**31, 2**31), {}, MemoryError, "k_len: "),
        ((2, 2**31, 2**31), {"view": True}, MemoryError, "k_len: "),
        ((1, 1, 2**63 - 1), {}, MemoryError, "k_len: "),
        ((1, 0, 2**62), {}, MemoryError, "k_len: "),
        ((1, 2, 2**70), {}, MemoryError, "k_len: "),
    ],
)
def test_wrong_arguments(args, options, error, message):
    with pytest.raises(error) as caught:
        alibi_bias(*args, **options)
    assert str(caught.value).startswith(f"alibi_bias: {message}")


READ_ONLY = np.zeros((2, 3, 3))
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("out", "error"),
    [
        ([[[0.0] * 3] * 3] * 2, TypeError),
        (np.zeros((2, 3, 3), np.float32), TypeError),
        (np.zeros((2, 3, 3), ">f8"), TypeError),
        (np.zeros((3, 3, 2)), ValueError),
        (np.zeros((2, 3, 3, 1)), ValueError),
        (READ_ONLY, ValueError),
        (np.lib.stride_tricks.as_strided(np.zeros(9), (2, 3, 3), (0, 24, 8)), ValueError),
        (np.zeros(2 * 9 * 8 + 1, np.uint8)[1:].view(float).reshape(2, 3, 3), ValueError),
    ],
)
def test_wrong_out(out, error):
    with pytest.raises(error, match="^alibi_bias: out: must"):
        alibi_bias(2, 3, out=out)
    assert not np.any(out)


@pytest.mark.parametrize(
    "wrong",
    [
        {"symmetric": 0},
        {"num_heads_or_slopes": [1.0, np.nan]},
        {"k_len": 2},
        {"view": True},
        {"dtype": np.float32},
    ],
)
def test_a_failed_call_writes_nothing(wrong):
    out = np.full((2, 3, 3), 9.0)
    with pytest.raises((TypeError, ValueError), match="^alibi_bias: "):
        alibi_bias(**{"num_heads_or_slopes": 2, "q_len": 3, "out": out, **wrong})
    out_of_one = np.full((2, 1, 3), 9.0)  # where the profile is written into out itself
    if "k_len" not in wrong:
        with pytest.raises((TypeError, ValueError), match="^alibi_bias: "):
            alibi_bias(
                **{"num_heads_or_slopes": 2, "q_len": 1, "k_len": 3, "out": out_of_one, **wrong}
            )
    assert (out == 9).all() and (out_of_one == 9).all()


@pytest.mark.parametrize(
    ("args", "options", "error", "message"),
    [
        ((0,), {}, ValueError, "num_heads: must be at least 1, got 0"),
        ((2.0,), {}, TypeError, "num_heads: must be an integer, got float"),
        ((2**62,), {}, MemoryError, "num_heads: must fit in memory, got 4611686018427387904"),
        ((2**70,), {}, MemoryError, "num_heads: must fit in memory, got 1180591620717411303424"),
        ((2,), {"max_bias": 0}, ValueError, "max_bias: must be finite and above 0, got 0.0"),
        ((2,), {"max_bias": np.nan}, ValueError, "max_bias: must be finite and above 0, got nan"),
        ((2,), {"max_bias": "8"}, TypeError, "max_bias: must be a real number, got str"),
    ],
)
def test_wrong_slopes(args, options, error, message):
    with pytest.raises(error) as caught:
        alibi_slopes(*args, **options)
    assert str(caught.value) == f"alibi_slopes: {message}"


def test_a_result_beyond_the_memory_is_refused_at_once():
    """71 heads x 32768^2: 305 GB. In a process of its own that may not have them."""
    code = """
import resource
import numpy, posenc
in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + (8 << 30), resource.RLIM_INFINITY))
try:
    posenc.alibi_bias(71, 32768, dtype="float32")
except MemoryError:
    print(posenc.alibi_bias(2, 1, 2)[0].tolist())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[[-0.0625, 0.0]]"
