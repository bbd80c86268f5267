"""posenc.sinusoidal: every element is the nearest number, whatever the position and the shape."""

import json
import math
import random
import sys
from pathlib import Path

import exact
import gmpy2
import ml_dtypes
import mpmath
import numpy as np
import pytest
from conftest import TOL, reference_atol
from exact import DTYPES, bits
from hypothesis import given, settings
from hypothesis import strategies as st

import posenc
from posenc import add_sinusoidal, offset_rotation, reference, sinusoidal, wavelengths

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
LAYOUTS = ("interleaved", "half")
by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def assert_bits(got, right):
    assert got.dtype == right.dtype and got.shape == right.shape
    wrong = np.argwhere(bits(got) != bits(right))
    if len(wrong):
        at = tuple(wrong[0])
        pytest.fail(f"{len(wrong)} of {got.size} differ; at {at}: {got[at]!r}, not {right[at]!r}")


def assert_exact(positions, dim, dtype, columns=None, **options):
    got = sinusoidal(positions, dim, dtype=dtype, **options)
    right = exact.sinusoidal(positions, dim, dtype, columns=columns, **options)
    assert got.shape == (*exact.shape_of(positions), dim)
    assert_bits(got if columns is None else np.ascontiguousarray(got[..., list(columns)]), right)


# --- the truth itself -----------------------------------------------------------------------------


def test_the_truth_agrees_with_mpmath():
    rng = random.Random(1)
    with mpmath.workprec(500):
        for _ in range(200):
            p = rng.choice([rng.getrandbits(64), -rng.getrandbits(30), rng.random() * 1e6])
            base, denom = rng.choice([1e4, 5e5, 2.0, 1e30, 0.5]), rng.choice([32.0, 2.5, 64.0])
            i, scale = rng.randrange(int(denom)), rng.choice([1.0, 1000.0, -0.3])
            mp = mpmath
            angle = mp.mpf(p) * mp.mpf(scale) * mp.mpf(base) ** (-mp.mpf(i) / mp.mpf(denom))
            sine, cosine = exact.sin_cos(p, exact.frequency(i, base, denom, scale))
            for ours, theirs in ((sine, mp.sin(angle)), (cosine, mp.cos(angle))):
                difference = abs(mp.mpf(str(ours)) - theirs)  # str: 120 digits
                assert difference < mp.mpf(2) ** -240
                assert exact.nearest(ours, np.float64) == float(theirs)


def test_the_truth_rounds_like_numpy():
    """On numbers of 53 bits, NumPy's casts round once, subnormals among them."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal(4000) * 2.0 ** rng.integers(-30, 3, 4000)
    x = np.concatenate(
        [x, np.ldexp(rng.standard_normal(500), -140), [0.0, 2.0**-25, 2.0**-24, 1e-45]]
    )
    for dtype in (np.float16, np.float32):
        right = x.astype(dtype)
        got = np.array([exact.nearest(gmpy2.mpfr(v), dtype) for v in x.tolist()]).astype(dtype)
        assert_bits(got, right)
    # the angle 15 * 0.1 * 2^-1074 is a midpoint, and its sine is below it
    tiny = exact.sin_cos(15, exact.frequency(1, 1e4, 4.0, 5e-324))[0]
    assert exact.nearest(tiny, np.float64) == 5e-324
    for exponent in (-125, -130, -133, -134):  # bfloat16: the grid is 2^-133 below 2^-126
        for k in range(1, 40):
            v = k * 2.0 ** (exponent - 6)
            step = 2.0 ** max(math.frexp(v)[1] - 8, -133)
            right = round(v / step) * step  # Python's round: ties to even
            assert exact.nearest(gmpy2.mpfr(v), BFLOAT16) == right


# --- positions ------------------------------------------------------------------------------------

RUNS = {
    "0": (0, np.int64),
    "2^24": (2**24 - 20, np.int64),
    "2^31": (2**31 - 20, np.int64),
    "2^53": (2**53 - 20, np.int64),
    "2^62": (2**62 - 20, np.int64),
    "2^63": (2**63 - 20, np.uint64),
    "2^64": (2**64 - 40, np.uint64),
    "-2^63": (-(2**63), np.int64),
    "0-": (-20, np.int64),
    "-1e6": (-1_000_000, np.int64),
}


@by_dtype
@pytest.mark.parametrize("run", RUNS)
def test_runs_of_positions(run, dtype):
    first, kind = RUNS[run]
    p = np.array([first + k for k in range(40)], kind)
    assert_exact(p, 130, dtype)
    assert_exact(p[::-1], 12, dtype, layout="half")


@by_dtype
def test_a_count(dtype):
    assert_exact(200, 66, dtype)
    assert sinusoidal(0, 6, dtype=dtype).shape == (0, 6)
    assert_bits(sinusoidal(np.int8(9), 6, dtype=dtype), sinusoidal(9, 6, dtype=dtype))


@by_dtype
def test_fractions_and_tiny_floats(dtype):
    rng = random.Random(3)
    p = [rng.uniform(-1, 1) * 2.0 ** rng.randrange(-40, 53) for _ in range(60)]
    p += [2.0**-k for k in (1, 10, 24, 25, 30, 60, 126, 149, 300, 1022, 1074)]
    p += [-5e-324, 0.5, 1e15 + 0.125, 2.0**53 - 0.5, 2.0**53, 2.0**63, -(2.0**63), 1.8e19, -0.0]
    p += [math.pi, math.pi / 2, -3 * math.pi, 1e22 % 1e6, 6381956970095103 * 2.0**10]
    assert_exact(np.array(p), 20, dtype)
    assert_exact(np.array(p), 5, dtype, base=0.5, layout="half", cos_first=True)


@by_dtype
def test_near_zeros_and_midpoints(dtype):
    """Angles that nearly are multiples of pi/2, and tiny ones that are midpoints of floats."""
    table = [11, 22, 33, 344, 355, 710, 51819, 52174, 103993, 104348, 208341, 312689, 833719]
    table += [80143857, 165707065, 245850922, 411557987, 6167950454, 340262731, 21053343141]
    assert_exact(np.array(table), 4, dtype)
    precision = exact.FORMATS[dtype.name][0]
    ties = [(1 + (2 * k + 1) * 2.0**-precision) * 2.0**-e for k in range(8) for e in range(4, 31)]
    ties = np.array(ties)  # one bit more than the type has; at w = 1 the angle is p itself
    assert_exact(ties if precision < 53 else np.nextafter(ties, 1), 2, dtype)


@by_dtype
@pytest.mark.parametrize("kind", "bBhHiIlLqQefd")
def test_every_type_of_position(kind, dtype):
    kind = np.dtype(kind)
    p = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100, 101, 55, 3, 127], kind)
    if kind.kind == "i":
        p = np.append(p, np.array([np.iinfo(kind).min, -1, np.iinfo(kind).max], kind))
    elif kind.kind == "u":
        p = np.append(p, np.array([np.iinfo(kind).max], kind))
    else:
        p = np.append(p, np.array([-0.1, 1.7, 1e-3, 60000], kind))
    assert_exact(p, 10, dtype)
    swapped = p.astype(kind.newbyteorder())
    assert_bits(sinusoidal(swapped, 10, dtype=dtype), sinusoidal(p, 10, dtype=dtype))


@by_dtype
def test_bfloat16_positions(dtype):
    assert_exact(np.array([0, 1, 2.5, -3, 256, 3e38 / 2**65, 1e-30], BFLOAT16), 6, dtype)


@by_dtype
def test_runs_among_scattered_positions(dtype):
    """Runs go by anchors and offsets, the rest one by one: no seam may show."""
    rng = random.Random(4)
    for kind in (np.int64, np.uint64, np.float64):
        p = []
        while len(p) < 330:
            start, n = rng.getrandbits(rng.randrange(1, 53)), rng.choice([1, 2, 6, 7, 8, 9, 40, 70])
            p += [start + k for k in range(n)]
        assert_exact(np.array(p[:330], kind), 6, dtype)


@by_dtype
def test_steps_other_than_one(dtype):
    for step in (2, 3, -1, 0, 64, 0.25):
        assert_exact(1000 + np.arange(70) * step, 6, dtype)


def test_many_blocks():
    for dtype in DTYPES:  # 70 blocks of 64 rows: past every list of steps
        assert_exact(4500, 128, dtype, columns=(0, 31, 127))


def test_positions_of_any_shape_and_make():
    p = np.arange(-6, 6).reshape(2, 2, 3)
    right = sinusoidal(p, 6)
    assert right.shape == (2, 2, 3, 6)
    assert_bits(right.reshape(12, 6), sinusoidal(p.ravel(), 6))
    assert_bits(sinusoidal(np.asfortranarray(p), 6), right)
    assert_bits(sinusoidal(p.tolist(), 6), right)
    assert_bits(sinusoidal(p[::-1, :, ::-2], 6), np.ascontiguousarray(right[::-1, :, ::-2]))
    assert_bits(sinusoidal(np.broadcast_to(p[:, :1], p.shape), 6), sinusoidal(p[:, [0, 0]], 6))
    packed = np.zeros(12, np.dtype([("tag", "u1"), ("at", "i8")], align=False))
    packed["at"] = p.ravel()
    assert_bits(sinusoidal(packed["at"], 6), right.reshape(12, 6))  # unaligned, 9 bytes apart
    assert_bits(sinusoidal(np.array(7), 6), sinusoidal(8, 6)[7])
    assert_bits(sinusoidal(7.0, 6), sinusoidal(8, 6)[7])
    read_only = np.arange(5.0)
    read_only.flags.writeable = False
    assert_bits(sinusoidal(read_only, 6), sinusoidal(5, 6))
    assert sinusoidal(np.zeros((0, 3)), 6).shape == (0, 3, 6)
    assert sinusoidal([], 6).shape == (0, 6)


# --- widths, layouts, frequencies -----------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 7, 8, 9, 16, 64, 127, 128, 129, 130, 257, 512])
def test_widths_and_layouts(dim):
    p = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 99, -3, 12345678])
    few = (
        None
        if dim < 20
        else sorted({0, 1, 2, dim // 2 - 1, dim // 2, dim // 2 + 1, dim - 2, dim - 1})
    )
    for dtype in DTYPES:
        for layout in LAYOUTS:
            for cos_first in (False, True):
                for shift in (0, 1, 0.5):
                    if shift and dim < 2:
                        continue
                    options = {"layout": layout, "cos_first": cos_first, "shift": shift}
                    assert_exact(p, dim, dtype, few, **options)


@by_dtype
def test_a_wide_table(dtype):
    assert_exact(np.arange(10**6, 10**6 + 9), 512, dtype)
    assert_exact(np.arange(3), 8192, dtype, range(0, 8192, 97), layout="half")


@by_dtype
@pytest.mark.parametrize("base", [1e4, 5e5, 1e7, 2.0, 1.0, 0.5, 1e30, 10000.5, 1.4999, 1.5, 0.75])
def test_bases(base, dtype):
    p = np.concatenate([np.arange(16), [10**6, 2**31, -5, 2**53 + 1]])
    assert_exact(p, 14, dtype, base=base)
    assert_exact(p, 7, dtype, base=base, shift=1, layout="half")


@by_dtype
@pytest.mark.parametrize("base", [5e-324, 1e-17, 1.7e308])
def test_extreme_bases(base, dtype):
    dim = 2 if base < 1e-300 else 6
    assert_exact(np.arange(12), dim, dtype, base=base)


@by_dtype
@pytest.mark.parametrize("scale", [1000.0, -1.0, 0.1, -2.5, 1e-30, 2.0**50, 5e-324])
def test_scales(scale, dtype):
    p = np.concatenate([np.arange(-4, 12), [0.5, 1e6]])
    assert_exact(p, 8, dtype, scale=scale)
    assert_exact(20, 8, dtype, scale=scale, cos_first=True)
    assert_bits(sinusoidal(p, 8, dtype=dtype, scale=1), sinusoidal(p, 8, dtype=dtype))


@by_dtype
def test_a_shift_on_an_odd_width_ends_with_zeros(dtype):
    for n in (3, 50):
        for layout in LAYOUTS:
            assert not sinusoidal(n, 7, dtype=dtype, shift=1, layout=layout)[:, 6].any()
            assert sinusoidal(n, 7, dtype=dtype, layout=layout)[1:].all()


def test_sweep():
    """Random everything, some 300 000 values."""
    rng = random.Random(5)
    seen = 0
    while seen < 300_000:
        dim = rng.choice([1, 2, 3, 4, 6, 8, 13, 32, 64, 96, 128, 130, 200, 256, 1000])
        options = {
            "base": rng.choice([1e4, 1e4, 5e5, 1e6, 2.0, 10 ** rng.uniform(-3, 40)]),
            "layout": rng.choice(LAYOUTS),
            "cos_first": rng.random() < 0.3,
            "shift": rng.choice([0, 0, 1, 0.5, -0.7]) if dim > 3 else 0,
            "scale": rng.choice([1.0, 1.0, 1000.0, -0.3, rng.uniform(-2, 2)]),
        }
        n = rng.choice([1, 7, 8, 9, 63, 64, 65, 130, 700])
        start = rng.getrandbits(62) >> rng.randrange(62)
        if rng.random() < 0.3:
            start = -start
        kind = rng.randrange(3)
        if kind == 0:
            p = np.arange(start, start + n)
        elif kind == 1:
            p = np.array([rng.getrandbits(64) >> rng.randrange(64) for _ in range(n)], np.uint64)
        else:
            p = np.array([rng.gauss(0, 1) * 2.0 ** rng.randrange(-20, 53) for _ in range(n)])
        columns = sorted({rng.randrange(dim) for _ in range(min(dim, 24))})
        # the truth is kept for a pair of sine and cosine, and for all types: ask for all of them
        for dtype in DTYPES:
            assert_exact(p, dim, dtype, columns, **options)
            seen += n * len(columns)


# --- one value, however it is asked for -----------------------------------------------------------


@by_dtype
@pytest.mark.parametrize("dim", [3, 64, 130])
def test_prefixes(dim, dtype):
    whole = sinusoidal(300, dim, dtype=dtype)
    for k in (0, 6, 31, 63, 64, 127, 200):
        for n in range(k + 1, k + 41):
            assert_bits(sinusoidal(n, dim, dtype=dtype)[k], whole[k])


@by_dtype
def test_slices(dtype):
    whole = sinusoidal(1100, 66, dtype=dtype)
    for start, stop in ((1, 9), (63, 66), (500, 1100), (7, 8), (1023, 1099)):
        assert_bits(sinusoidal(np.arange(start, stop), 66, dtype=dtype), whole[start:stop])
    every = np.random.default_rng(6).permutation(1100)
    assert_bits(sinusoidal(every, 66, dtype=dtype), whole[every])
    assert_bits(sinusoidal(every.astype(np.float64), 66, dtype=dtype), whole[every])


def test_longer_than_any_table():
    assert_bits(sinusoidal(5001, 64)[:5000], sinusoidal(5000, 64))


@by_dtype
def test_layouts_hold_the_same_numbers(dtype):
    a, b = (sinusoidal(100, 66, dtype=dtype, layout=layout) for layout in LAYOUTS)
    assert_bits(np.concatenate([a[:, ::2], a[:, 1::2]], axis=1), b)
    swapped = sinusoidal(100, 66, dtype=dtype, cos_first=True)
    assert_bits(np.ascontiguousarray(swapped.reshape(100, 33, 2)[..., ::-1]).reshape(100, 66), a)


@by_dtype
def test_large_tables_and_streaming_stores(dtype):
    """Past 4 MiB tables are written around the caches, if their alignment allows."""
    n, dim = 4 * 2**20 // dtype.itemsize // 64 + 100, 64
    whole = sinusoidal(n, dim, dtype=dtype)
    tail = np.arange(n - 70, n)
    assert_bits(whole[-70:], sinusoidal(tail, dim, dtype=dtype))
    half = sinusoidal(n, dim, dtype=dtype, layout="half")
    assert_bits(np.ascontiguousarray(half[:, :32]), np.ascontiguousarray(whole[:, ::2]))
    memory = np.empty(n * dim + 8, dtype)
    for skip in (0, 1, 3):  # off the 16 bytes, or not
        out = memory[skip : skip + n * dim].reshape(n, dim)
        assert sinusoidal(n, dim, dtype=dtype, out=out) is out
        assert_bits(out, whole)


# --- out ------------------------------------------------------------------------------------------


@by_dtype
def test_out_with_any_strides(dtype):
    right = sinusoidal(12, 10, dtype=dtype)
    memory = np.full((24, 30), 9, dtype)
    for out in (
        memory[:12, :10],
        memory[::2, 1:11],
        memory[11::-1, 29:9:-2],
        memory.T[:12, ::2][:, :10],
        np.full((12, 10), 9, dtype, order="F"),
    ):
        assert sinusoidal(12, 10, dtype=dtype, out=out) is out
        assert_bits(np.ascontiguousarray(out), right)
    memory[:] = 9
    sinusoidal(12, 10, dtype=dtype, out=memory[::2, 3:13])
    memory[::2, 3:13] = 9
    assert (memory == 9).all()  # nothing beside it was touched


def test_out_of_three_axes_and_of_one():
    p = np.arange(6).reshape(2, 3)
    out = np.zeros((4, 3, 2))
    assert sinusoidal(p, 4, out=out.transpose(2, 1, 0)) is not out
    assert_bits(np.ascontiguousarray(out.transpose(2, 1, 0)), sinusoidal(p, 4))
    row = np.zeros(8)[::2]
    sinusoidal(np.array(3), 4, out=row)
    assert_bits(np.ascontiguousarray(row), sinusoidal(4, 4)[3])


# --- reports of faults in other code --------------------------------------------------------------


def test_odd_widths():
    table = sinusoidal(3, 5)
    assert table[0].tolist() == [0, 1, 0, 1, 0]
    row = [0.841470984808, 0.540302305868, 0.025116222910, 0.999684537915, 0.000630957303]
    np.testing.assert_allclose(table[1], row, rtol=0, atol=6e-13)
    assert abs(table[2, 4] - 0.001261914354) < 6e-13
    row = [0.841470984808, 0.540302305868, 0.002154433023]
    np.testing.assert_allclose(sinusoidal(2, 3)[1], row, rtol=0, atol=6e-13)
    assert abs(sinusoidal(3, 1)[2, 0] - 0.909297426826) < 6e-13


def test_a_pair_has_one_frequency():
    row = [0.841470984808, 0.540302305868, 0.009999833334, 0.999950000417]
    np.testing.assert_allclose(sinusoidal(2, 4)[1], row, rtol=0, atol=6e-13)
    table = sinusoidal(1000, 62)
    np.testing.assert_allclose(table[:, ::2] ** 2 + table[:, 1::2] ** 2, 1, rtol=0, atol=4e-16)


def test_both_orders_of_columns():
    row = [0.841470984808, 0.009999833334, 0.540302305868, 0.999950000417]
    np.testing.assert_allclose(sinusoidal(2, 4, layout="half")[1], row, rtol=0, atol=6e-13)


def test_the_last_frequency():
    t = np.array([10])
    row = [-0.544021110889, 0.447670834719, 0.021542680272]
    row += [-0.839071529076, 0.894198425263, 0.999767929535]
    np.testing.assert_allclose(sinusoidal(t, 6, layout="half")[0], row, rtol=0, atol=6e-13)
    row = [-0.544021110889, 0.099833416647, 0.000999999833]
    row += [-0.839071529076, 0.995004165278, 0.9999995]
    got = sinusoidal(t, 6, layout="half", shift=1)[0]
    np.testing.assert_allclose(got, row, rtol=0, atol=6e-13)
    got = sinusoidal(t, 2, layout="half", shift=1)[0]  # 0/0 elsewhere
    np.testing.assert_allclose(got, [-0.544021110889, -0.839071529076], rtol=0, atol=6e-13)
    for shift in (3, 4.5, math.inf, -math.inf, math.nan):
        with pytest.raises(ValueError, match=r"^sinusoidal: shift: must be finite and below"):
            sinusoidal(t, 6, shift=shift)


def test_what_is_encoded_is_positions():
    assert sinusoidal(np.zeros((2, 3)), 4).shape == (2, 3, 4)
    assert add_sinusoidal(np.zeros((2, 3, 4))).shape == (2, 3, 4)


def test_narrow_types_are_for_results_only():
    for dtype in DTYPES:
        table = sinusoidal(np.array([256, 257, 2048, 2049, 15961, 15962]), 2, dtype=dtype)
        assert (table[::2] != table[1::2]).all()
    sine, cosine = sinusoidal(np.array([15962]), 2)[0]
    assert abs(sine - 0.418935702794) < 6e-13 and abs(cosine + 0.908015901251) < 6e-13


def test_frequencies_are_not_rounded():
    sine, cosine = sinusoidal(np.array([4095]), 128)[0, 2:4]
    assert abs(cosine + 0.742365817610) < 6e-13 and abs(sine - 0.669994770759) < 6e-13
    assert abs(sinusoidal(np.array([4095]), 128)[0, 11] + 0.711391972368) < 6e-13


def test_big_arguments():
    big = {10**9: 0.545843449449, 10**10: -0.487506025088}
    for p, sine in big.items():
        for dtype in (np.float32, np.float64):
            right = exact.sinusoidal([p], 1, dtype)[0, 0]
            assert sinusoidal([p], 1, dtype=dtype)[0, 0] == right and abs(right - sine) < 1e-7
    assert abs(sinusoidal([16793388], 1)[0, 0] + 0.970823897431) < 6e-13
    assert abs(sinusoidal([16786764], 2)[0, 1] + 0.981232630541) < 6e-13
    p = np.random.default_rng(7).integers(-(2**63), 2**63, 5000)
    for dtype in DTYPES:
        assert np.abs(sinusoidal(p, 8, dtype=dtype).astype(np.float64)).max() <= 1


# --- golden numbers of other libraries ------------------------------------------------------------

GOLDEN = json.loads(Path(__file__).with_name("data").joinpath("sinusoid.json").read_text())


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("whisper_5x8", {"convention": "whisper"}),
        ("marian_5x8", {"convention": "marian"}),
        ("vaswani_formula_f64_5x8", {"convention": "vaswani"}),
        ("vaswani_formula_f64_5x7", {}),
        ("m2m100_fairseq_6x8_pad1", {"convention": "fairseq"}),
        ("m2m100_fairseq_6x9_pad0", {"convention": "fairseq"}),
        ("marian_5x7_odd", {"convention": "marian"}),
    ],
)
def test_conventions_of_other_libraries(name, call):
    right = np.array(GOLDEN[name])
    got = sinusoidal(len(right), right.shape[1], **call)
    if "pad" in name:
        got[int(name[-1])] = 0  # their padding row
    # they are float32 sums of float32 angles; positions up to 5
    np.testing.assert_allclose(got, right, rtol=0, atol=1e-15 if "f64" in name else 3e-7)


def test_scaled_like_x_transformers():
    right = np.array(GOLDEN["x_transformers_scaled_5x8"])
    got = sinusoidal(5, 8, layout="half") * 8**-0.5
    np.testing.assert_allclose(got, right, rtol=0, atol=2e-7)


@by_dtype
def test_conventions_are_names_for_options(dtype):
    options = {
        "vaswani": {},
        "marian": {"layout": "half"},
        "tensor2tensor": {"layout": "half", "shift": 1},
        "fairseq": {"layout": "half", "shift": 1},
        "whisper": {"layout": "half", "shift": 1},
    }
    for name, same in options.items():
        got = sinusoidal(9, 10, dtype=dtype, convention=name)
        assert_bits(got, sinusoidal(9, 10, dtype=dtype, **same))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"convention": "bert"}, ValueError, "convention: must be one of 'vaswani', "),
        ({"convention": 3}, TypeError, "convention: must be a string, got int"),
        ({"convention": "marian", "layout": "half"}, ValueError, "convention: stands for layout"),
        ({"convention": "marian", "shift": 1}, ValueError, "convention: stands for layout"),
        ({"convention": "whisper", "dim": 7}, ValueError, "dim: must be even"),
    ],
)
def test_wrong_conventions(options, error, message):
    with pytest.raises(error) as caught:
        sinusoidal(**{"positions": 3, "dim": 8, **options})
    assert str(caught.value).startswith(f"sinusoidal: {message}")


# --- the second opinion ---------------------------------------------------------------------------


@settings(max_examples=200)
@given(
    st.lists(
        st.one_of(st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6)), min_size=0, max_size=20
    ),
    st.integers(1, 40),
    st.floats(1.0, 1e8),
    st.sampled_from(LAYOUTS),
    st.sampled_from([0.0, 1.0, -1.0]),
    st.floats(0.01, 10.0),
    st.booleans(),
)
def test_like_the_readable_reference(p, dim, base, layout, shift, scale, cos_first):
    if dim < 2:
        shift = 0.0
    options = {"base": base, "layout": layout, "shift": shift, "scale": scale}
    got = sinusoidal(np.array(p, np.float64), dim, cos_first=cos_first, **options)
    right = reference.sinusoidal(np.array(p, np.float64), dim, cos_first=cos_first, **options)
    largest = scale * max(map(abs, p), default=0)
    np.testing.assert_allclose(got, right, rtol=0, atol=reference_atol(largest))


@settings(max_examples=150)
@given(st.integers(-(2**63), 2**64 - 1), st.integers(1, 12), st.sampled_from(DTYPES))
def test_any_integer(p, dim, dtype):
    assert_exact(np.array([p], np.uint64 if p >= 2**63 else np.int64), dim, dtype)


@settings(max_examples=150)
@given(st.floats(-(2.0**53), 2.0**53), st.integers(1, 12), st.sampled_from(DTYPES))
def test_any_float(p, dim, dtype):
    assert_exact(np.array([p]), dim, dtype)


@settings(max_examples=60)
@given(
    st.floats(0, sys.float_info.max, exclude_min=True),
    st.floats(-(2.0**40), 2.0**40).filter(bool),
    st.floats(-20, 4),
    st.integers(1, 9),
    st.sampled_from(DTYPES),
)
def test_any_frequencies(base, scale, shift, dim, dtype):
    """Whatever base, scale and shift: right, or refused by name."""
    try:
        sinusoidal(1, dim, base=base, scale=scale, shift=shift)
    except ValueError as error:
        assert str(error).startswith(
            ("sinusoidal: base: ", "sinusoidal: shift: ", "sinusoidal: scale: ")
        )
        return
    p = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, -(10**5), 2**40])
    assert_exact(p, dim, dtype, base=base, scale=scale, shift=shift)


# --- sums -----------------------------------------------------------------------------------------


def rounded_sum(x, table):
    """x + table rounded once to the type of x; narrow types by way of float32, as promised."""
    if x.dtype.itemsize == 2:
        return (x.astype(np.float32) + table.astype(np.float32)).astype(x.dtype)
    return x + table


def some(shape, dtype, seed=8):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@by_dtype
@pytest.mark.parametrize("dim", [1, 3, 8, 30, 64, 130])
def test_add(dim, dtype):
    x = some((3, 150, dim), dtype)
    kept = x.copy()
    got = add_sinusoidal(x)
    assert_bits(got, rounded_sum(x, sinusoidal(150, dim, dtype=dtype)))
    assert_bits(x, kept)
    for options in (
        {"layout": "half", "base": 5e5},
        {"shift": 0.3, "cos_first": True} if dim > 1 else {"cos_first": True},
        {"scale": -3.0},
    ):
        right = rounded_sum(x, sinusoidal(150, dim, dtype=dtype, **options))
        assert_bits(add_sinusoidal(x, **options), right)


@by_dtype
def test_add_in_place_and_into_out(dtype):
    x = some((2, 70, 12), dtype)
    right = add_sinusoidal(x)
    out = np.zeros((12, 70, 2), dtype).T
    assert add_sinusoidal(x, out=out) is out
    assert_bits(np.ascontiguousarray(out), right)
    for y in (x.copy(), np.asfortranarray(x), np.repeat(x, 2, axis=2)[..., ::2]):
        assert add_sinusoidal(y, out=y) is y
        assert_bits(np.ascontiguousarray(y), right)
    for y in (x[:, ::-1], x[::-1, 3::2], x[..., ::-3], x.swapaxes(0, 1)):
        right = add_sinusoidal(y.copy())
        assert_bits(add_sinusoidal(y), right)


@by_dtype
def test_add_at_positions(dtype):
    x = some((2, 5, 3, 8), dtype)
    table = sinusoidal(100, 8, dtype=dtype)

    def right(p):  # one position for each row of x
        return rounded_sum(x, table[np.broadcast_to(p, x.shape[:-1])])

    seq = np.array([7, 0, 99])
    assert_bits(add_sinusoidal(x, positions=seq), right(seq))
    batch = np.array([[7, 0, 99], [1, 2, 3]])
    assert_bits(add_sinusoidal(x, positions=batch), right(batch[:, None]))
    every = np.arange(30).reshape(2, 5, 3)
    assert_bits(add_sinusoidal(x, positions=every), right(every))
    for shape in ((1, 5, 3), (2, 1, 1), (1, 1, 1), (2, 5, 1)):
        p = np.arange(math.prod(shape)).reshape(shape) * 7 % 100
        assert_bits(add_sinusoidal(x, positions=p), right(p))
    assert_bits(add_sinusoidal(x, positions=np.array(42)), right(42))
    along = np.array([3, 1, 4, 1, 5])
    assert_bits(add_sinusoidal(x, positions=along, seq_axis=1), right(along[:, None]))
    batch = np.arange(10).reshape(2, 5)
    assert_bits(add_sinusoidal(x, positions=batch, seq_axis=1), right(batch[..., None]))
    assert_bits(add_sinusoidal(x, seq_axis=0), right(np.arange(2)[:, None, None]))
    assert_bits(add_sinusoidal(x, seq_axis=-4), right(np.arange(2)[:, None, None]))
    assert_bits(add_sinusoidal(x, positions=seq - 5, offset=5), right(np.array([7, 0, 99])))
    assert_bits(add_sinusoidal(x, offset=40), right(np.arange(40, 43)))
    for kind in (np.int64, np.uint8, np.uint64, ">i4"):
        offset = np.array([30, 25], kind)
        p = np.array([30, 25])[:, None, None] + np.arange(3)
        assert_bits(add_sinusoidal(x, offset=offset), right(p))
    p = np.array([30, 25])[:, None, None] + np.arange(5)[:, None]
    assert_bits(add_sinusoidal(x, offset=[30, 25], seq_axis=1), right(p))


def test_add_is_exact_at_any_offset():
    x = some((2, 20, 6), np.float64)
    for offset in (2**62, -10, 2**63 - 21, -(2**63), 10**15):
        p = [offset + k for k in range(20)]
        right = x + exact.sinusoidal(np.array(p, np.int64), 6)
        assert_bits(add_sinusoidal(x, offset=offset), right)
    p = np.array([0, 3, 200], np.uint8)
    got = add_sinusoidal(np.zeros((3, 4)), positions=p, offset=-1)
    assert_bits(got, sinusoidal(np.array([-1, 2, 199]), 4) + 0.0)


@by_dtype
def test_add_many_rows(dtype):
    x = some((5, 700, 16), dtype)
    right = rounded_sum(x, sinusoidal(700, 16, dtype=dtype))
    assert_bits(add_sinusoidal(x), right)
    y = np.ascontiguousarray(x.swapaxes(0, 1))
    right = np.ascontiguousarray(right.swapaxes(0, 1))
    assert_bits(add_sinusoidal(y, seq_axis=0), right)


def test_add_one_row_and_none():
    x = np.array([1.0, 2.0, 3.0])
    assert_bits(add_sinusoidal(x), x + sinusoidal(1, 3)[0])
    assert_bits(add_sinusoidal(x, offset=9), x + sinusoidal(10, 3)[9])
    assert_bits(add_sinusoidal(x, positions=9), x + sinusoidal(10, 3)[9])
    assert add_sinusoidal(np.zeros((0, 5, 4))).shape == (0, 5, 4)
    assert add_sinusoidal(np.zeros((5, 0, 4))).shape == (5, 0, 4)


def test_add_keeps_nan_and_infinity_in_place():
    x = np.zeros((3, 4), np.float32)
    x[1, 2], x[2, 0] = np.nan, np.inf
    got = add_sinusoidal(x)
    assert np.isnan(got[1, 2]) and np.isinf(got[2, 0]) and np.isfinite(got).sum() == 10


@settings(max_examples=150)
@given(st.data())
def test_add_like_the_readable_reference(data):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    dim = data.draw(st.integers(1, 12))
    axis = data.draw(st.integers(0, len(shape) - 1))
    kind = data.draw(st.sampled_from(["none", "seq", "all", "batch offset"]))
    x = some((*shape, dim), np.float64)
    order = data.draw(st.permutations(range(x.ndim)))
    x = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, -1]))) for _ in range(x.ndim))
    x = x[steps]
    options = {"seq_axis": axis, "layout": data.draw(st.sampled_from(LAYOUTS))}
    number = st.integers(-1000, 1000)
    if kind == "seq":
        options["positions"] = np.array([data.draw(number) for _ in range(shape[axis])])
    elif kind == "all":
        options["positions"] = np.arange(math.prod(shape)).reshape(shape) - 9
    elif kind == "batch offset" and axis > 0:
        options["offset"] = np.array([data.draw(number) for _ in range(shape[0])])
    else:
        options["offset"] = data.draw(number)
    if kind == "seq" and len(shape) == 1 and axis == 0:
        options["seq_axis"] = -2
    right = reference.add_sinusoidal(x, **options)
    np.testing.assert_allclose(add_sinusoidal(x, **options), right, rtol=0, atol=1e-11)


# --- wavelengths and offsets ----------------------------------------------------------------------


@pytest.mark.parametrize("base", [1e4, 5e5, 1e7, 2.0, 1.0, 0.37, 1e30])
@pytest.mark.parametrize("dim", [1, 2, 5, 64, 129])
def test_wavelengths_are_correctly_rounded(dim, base):
    assert TOL["wavelengths"]["float64"]["ulp"] == 0.5
    with gmpy2.context(precision=exact.PRECISION):
        turn = 2 * gmpy2.const_pi()
        right = [turn / exact.frequency(i, base, dim / 2) for i in range((dim + 1) // 2)]
        right = np.array([exact.nearest(w, np.float64) for w in right])
    assert_bits(wavelengths(dim, base=base), right)


def test_wavelengths_of_the_course():
    w = wavelengths(64)
    assert [round(v, 1) for v in w[[0, 8, 20, 31]].tolist()] == [6.3, 62.8, 1986.9, 47117.2]
    kinds = ["adjacent" if v < 20 else "nearby" if v < 500 else "whole" for v in w[[0, 8, 20, 31]]]
    assert kinds == ["adjacent", "nearby", "whole", "whole"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [0, 1, -1, 5, 20, 0.5, 10**6, 2**53 - 1])
def test_an_offset_is_a_rotation(k, layout):
    dim = 16
    M = offset_rotation(k, dim, layout=layout)
    assert M.shape == (dim, dim) and M.dtype == np.float64
    right = exact.sinusoidal(np.array([k]), dim, layout=layout)[0]
    i = np.arange(dim // 2)
    a, b = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + dim // 2)
    wanted = np.zeros((dim, dim))
    wanted[a, a] = wanted[b, b] = right[b]
    wanted[a, b], wanted[b, a] = right[a], -right[a]
    np.testing.assert_array_equal(M, wanted)
    np.testing.assert_allclose(M @ M.T, np.eye(dim), rtol=0, atol=3e-16)
    p = np.array([0, 1, 2, 79, 10**5, -3])
    with np.errstate(all="ignore"):
        moved = sinusoidal(p + k if isinstance(k, int) else p + float(k), dim, layout=layout)
    # two roundings of the table, one of M, two products and a sum of numbers up to 1
    np.testing.assert_allclose(sinusoidal(p, dim, layout=layout) @ M.T, moved, rtol=0, atol=5e-16)


# --- the course -----------------------------------------------------------------------------------


def test_course_first_dimensions():
    table = sinusoidal(51, 64)[:, :6]
    np.testing.assert_allclose(
        table[1], [0.8415, 0.5403, 0.6816, 0.7318, 0.5332, 0.8460], atol=5e-5
    )
    row = [-0.2624, 0.9650, -0.2030, 0.9792, 0.1566, -0.9877]
    np.testing.assert_allclose(table[50], row, rtol=0, atol=5e-5)


@pytest.mark.parametrize(("n", "dim"), [(512, 64), (100, 512), (128, 64)])
def test_course_tables(n, dim):
    table = sinusoidal(n, dim)
    assert table.shape == (n, dim) and np.abs(table).max() <= 1
    assert len(np.unique(table, axis=0)) == n
    np.testing.assert_allclose(np.linalg.norm(table, axis=1), math.sqrt(dim / 2), rtol=1e-15)
    if dim == 64:
        assert round(float(np.linalg.norm(table[0])), 4) == 5.6569


def test_course_similarities():
    table = sinusoidal(101, 64)
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    got = (unit @ unit[0])[[0, 1, 2, 5, 10, 25, 50, 100]]
    right = [1, 0.9662, 0.8845, 0.7345, 0.6579, 0.6292, 0.4898, 0.5586]
    np.testing.assert_allclose(got, right, rtol=0, atol=5e-5)
    for k, value in ((1, 0.9662), (5, 0.7345), (20, 0.5900)):
        same = np.sum(unit[:80] * unit[k : 80 + k], axis=1)
        assert abs(same.mean() - value) < 5e-5 and same.std() < 5e-16


def test_course_any_length():
    far = sinusoidal(np.array([10**6, 10**9, 10**15, 10**18]), 64)
    assert np.abs(far).max() <= 1 and len(np.unique(far, axis=0)) == 4


def test_public_names():
    for name in ("sinusoidal", "add_sinusoidal", "wavelengths", "offset_rotation"):
        assert getattr(posenc, name) is globals()[name] and name in posenc.__all__
