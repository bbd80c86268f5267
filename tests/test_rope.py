"""posenc.rope: rotation by exact angles, the same bits however rows are grouped and laid out."""

import json
import math
from pathlib import Path

import exact
import ml_dtypes
import numpy as np
import pytest
from conftest import TOL, reference_atol
from exact import DTYPES, bits
from hypothesis import given, settings
from hypothesis import strategies as st

import posenc
from posenc import RopePlan, reference, rope, rope_plan

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
LAYOUTS = ("interleaved", "half")
by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
by_layout = pytest.mark.parametrize("layout", LAYOUTS)


def assert_bits(got, right):
    assert got.dtype == right.dtype and got.shape == right.shape
    np.testing.assert_array_equal(bits(got), bits(right))


def some(shape, dtype, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def pair_slices(width, layout):
    if layout == "interleaved":
        return slice(0, width, 2), slice(1, width, 2)
    return slice(0, width // 2), slice(width // 2, width)


def turned(x, p, *, base=10000.0, layout="interleaved", inverse=False):
    """The contract in NumPy: exact sines rounded once, two products and one sum, rounded once.

    p broadcasts to x without its last axis.
    """
    narrow = x.dtype.itemsize == 2
    y = x.astype(np.float32) if narrow else x.copy()
    width = x.shape[-1]
    p = np.asarray(p)
    table = exact.sinusoidal(p, width, y.dtype, base=base, layout="half")
    table = np.broadcast_to(table, (*x.shape[:-1], width))
    sin, cos = table[..., : width // 2], table[..., width // 2 :]
    first, second = pair_slices(width, layout)
    a, b = y[..., first].copy(), y[..., second].copy()
    y[..., first] = a * cos + b * sin if inverse else a * cos - b * sin
    y[..., second] = b * cos - a * sin if inverse else b * cos + a * sin
    return y.astype(x.dtype)


# --- accuracy -------------------------------------------------------------------------------------


def ulps_of_norm(x, got, p, layout, base):
    """The largest error of an element, in units in the last place of the norm of its pair."""
    wide = np.float64 if got.dtype == np.float32 else np.longdouble
    assert np.finfo(wide).nmant >= np.finfo(got.dtype).nmant + 11
    width = x.shape[-1]
    w = [exact.frequency(i, base, width / 2) for i in range(width // 2)]
    sin_cos = exact.phases(p, w)

    def array(which):  # as a sum of two doubles, which is exact enough for `wide`
        flat = [pair[which] for row in sin_cos for pair in row]
        high = [float(v) for v in flat]
        low = [float(v - h) for v, h in zip(flat, high, strict=True)]
        return (np.array(high, wide) + np.array(low, wide)).reshape(len(p), width // 2)

    sin, cos = array(0), array(1)
    first, second = pair_slices(width, layout)
    a, b = x[..., first].astype(wide), x[..., second].astype(wide)
    errors = np.maximum(
        np.abs(got[..., first].astype(wide) - (a * cos - b * sin)),
        np.abs(got[..., second].astype(wide) - (a * sin + b * cos)),
    )
    norm = np.hypot(a, b)
    ulp = np.exp2(np.floor(np.log2(norm)) - np.finfo(got.dtype).nmant)
    return float((errors / ulp).max())


@by_layout
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_error_is_below_two_ulps_of_the_norm(dtype, layout):
    # Seen: 1.89 in a search of 50 million float32 pairs for the worst, 1.79 here in float64. With a
    # norm just below 2 the table can cost 0.71 ulp, the products 0.75 (|ac| + |bs| <= norm, so they
    # are not both above 1), the sum 0.5: never more than 1.96.
    rng = np.random.default_rng(2)
    for base in (1e4, 5e5):
        for first in (0, 10**6, 2**31, 2**53, 2**62, -(10**9)):
            p = first + rng.integers(0, 1000, 40)
            x = rng.standard_normal((40, 64)).astype(dtype) * dtype(2) ** rng.integers(
                -8, 8, (40, 64)
            )
            x = x.astype(dtype)
            got = rope(x, p, layout=layout, base=base)
            error = ulps_of_norm(x, got, p, layout, base)
            assert error < TOL["rope"][np.dtype(dtype).name]["norm"]


@by_layout
@by_dtype
@pytest.mark.parametrize("width", [2, 4, 6, 8, 14, 16, 18, 30, 64, 72, 128, 130, 258])
def test_the_order_of_operations(width, dtype, layout):
    p = np.array([0, 1, 2, 77, -5, 2**31 + 1, 2**62 - 1])
    x = some((7, width), dtype)
    for inverse in (False, True):
        got = rope(x, p, layout=layout, inverse=inverse)
        assert_bits(got, turned(x, p, layout=layout, inverse=inverse))
    assert_bits(rope(x, p, layout=layout, adjoint=True), rope(x, p, layout=layout, inverse=True))


@by_layout
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=str)
def test_narrow_types_are_rounded_once(dtype, layout):
    x = some((300, 66), dtype) * np.array(4, dtype)
    p = np.random.default_rng(3).integers(0, 10**6, 300)
    wide = rope(x.astype(np.float32), p, layout=layout)
    assert_bits(rope(x, p, layout=layout), wide.astype(dtype))


def test_subnormals_and_overflow():
    with np.errstate(over="ignore"):
        x = np.array([[6e-8, 1e-7, 65504, 65504, 6e-5, -6e-5]], np.float16)
        assert_bits(rope(x, [3]), rope(x.astype(np.float32), [3]).astype(np.float16))
        x = np.array([[1e-40, 2e-40, 3e38, 3e38, 1e-45, -1e-45]], np.float32)
        assert_bits(rope(x, [3]), turned(x, [3]))
    assert 2.0**-1022 * 0.25 == 5.562684646268003e-309  # nothing flushes subnormals


# --- reports of faults in other code --------------------------------------------------------------


def close(got, right, tolerance=6e-12):
    np.testing.assert_allclose(np.asarray(got, np.float64), right, rtol=0, atol=tolerance)


ROW = np.array([1.0, 2.0, 3.0, 4.0])
EIGHT = np.arange(1.0, 9.0)
HALF_1 = [-1.984110648556, 1.959900667497, 2.462377902412, 4.019799668335]


def test_both_layouts():
    close(rope(ROW, 1, layout="half"), HALF_1)
    close(rope(ROW, 1), [-1.142639663748, 1.922075596544, 2.959850667913, 4.029799501669])
    x = some((50, 16), np.float64)
    order = np.concatenate([np.arange(0, 16, 2), np.arange(1, 16, 2)])
    assert_bits(rope(x)[:, order], rope(np.ascontiguousarray(x[:, order]), layout="half"))


def test_partial_width():
    right = [-1.413352520780, 1.879118066688, -2.828857481741, 4.058191135401, 5, 6, 7, 8]
    close(rope(EIGHT, 3, plan=rope_plan(8, rotary_dim=4, layout="half")), right)
    right = [-1.272232512720, -1.838864985141, 2.878668100437, 4.088186635603, 5, 6, 7, 8]
    close(rope(EIGHT, 3, plan=rope_plan(8, rotary_dim=4)), right)


@by_layout
@by_dtype
@pytest.mark.parametrize(
    ("width", "turning", "start"), [(8, 4, 0), (8, 4, 4), (9, 6, 3), (33, 2, 30), (80, 66, 7)]
)
def test_channels_that_do_not_turn_are_copied(width, turning, start, dtype, layout):
    x = some((2, 5, width), dtype)
    raw = np.random.default_rng(4).integers(0, 2**16, x.nbytes // 2, np.uint16)
    noise = raw.view(dtype).reshape(x.shape)  # any bits: NaNs with payloads, infinities, subnormals
    plan = rope_plan(width, rotary_dim=turning, start=start, layout=layout)
    window = slice(start, start + turning)
    copied = np.ones(width, bool)
    copied[window] = False
    x[..., copied] = noise[..., copied]
    right = x.copy()
    right[..., window] = rope(np.ascontiguousarray(x[..., window]), layout=layout)
    assert_bits(rope(x, plan=plan), right)
    out = np.zeros((5, 2, width * 2), dtype).swapaxes(0, 1)[..., ::2]
    assert rope(x, plan=plan, out=out) is out
    assert_bits(np.ascontiguousarray(out), right)
    assert rope(x, plan=plan, out=x) is x
    assert_bits(x, right)


def test_wrong_widths():
    for width in (1, 3, 33):
        with pytest.raises(ValueError, match=rf"^rope: x: last axis must be even, got {width}$"):
            rope(np.zeros((2, width)))
    with pytest.raises(ValueError, match=r"^rope_plan: dim: must be even"):
        rope_plan(33)
    with pytest.raises(ValueError, match=r"^rope_plan: rotary_dim: must be even"):
        rope_plan(64, rotary_dim=33)
    with pytest.raises(ValueError, match=r"^rope_plan: rotary_dim: must be at most 8"):
        rope_plan(8, rotary_dim=10)
    with pytest.raises(
        ValueError, match=r"^rope: plan: must turn channels below 8 here, got 0 to 9$"
    ):
        rope(np.zeros((2, 8)), plan=rope_plan(10))
    with pytest.raises(
        ValueError, match=r"^rope: plan: must turn channels below 8 here, got 6 to 9$"
    ):
        rope(np.zeros((2, 8)), plan=rope_plan(10, rotary_dim=4, start=6))


def test_offsets_are_not_confused():
    x = np.array([1.0, 0, 0, 1])
    nine = [-0.911130261885, -0.089878549198, 0.412118485242, 0.995952733012]
    ten = [-0.839071529076, -0.099833416647, -0.544021110889, 0.995004165278]
    for _ in range(2):
        close(rope(x, offset=9, layout="half"), nine)
        close(rope(x, offset=10, layout="half"), ten)
        close(rope(x[None], offset=9, layout="half")[0], nine)


def test_explicit_positions_are_used():
    x = np.tile([1.0, 0, 0, 0], (3, 1))
    y = rope(x, [5, 0, 5], layout="half")
    close(y[[0, 2]], [[0.283662185463, 0, -0.958924274663, 0]] * 2)
    assert y[1].tolist() == [1, 0, 0, 0]


def test_the_input_is_kept():
    x = ROW.copy()
    close(rope(x, 1, layout="half"), HALF_1)
    assert x.tolist() == [1, 2, 3, 4]
    assert rope(x, 1, layout="half", out=x) is x
    close(x, HALF_1)


def test_negative_and_fractional_positions():
    right = [2.311745443930, 2.079594680106, -2.157737936467, 3.959202693280]
    close(rope(ROW, -2, layout="half"), right)
    right = [-0.560694053922, 1.979975083385, 3.112173224275, 4.009949958438]
    close(rope(ROW, 0.5, layout="half"), right)


def test_axes_of_four_dimensions():
    x = some((2, 3, 4, 8), np.float64)
    y = rope(x, seq_axis=1)
    assert_bits(np.ascontiguousarray(y.swapaxes(1, 2)), rope(x.swapaxes(1, 2), seq_axis=2))
    # a third witness, which knows no axes: one row at a time
    for b, s, h in np.ndindex(2, 3, 4):
        assert_bits(y[b, s, h], rope(x[b, s, h], s))


@by_dtype
def test_the_dtype_is_kept(dtype):
    assert rope(np.ones((2, 4), dtype)).dtype == dtype
    assert rope(np.ones((2, 4), dtype), plan=rope_plan(4)).dtype == dtype


def test_integers_are_taken_as_float64():
    x = np.arange(8).reshape(2, 4)
    for kind in "bBhHiIlLqQ":
        assert_bits(rope(x.astype(kind)), rope(x.astype(np.float64)))


def test_narrow_inputs_do_not_narrow_positions():
    for dtype in (np.float16, BFLOAT16):
        x = np.ones((2, 4), dtype)
        for p in ([256, 257], [2048, 2049], [15961, 15962]):
            y = rope(x, p)
            assert (bits(y[0]) != bits(y[1])).any()
    y = rope(np.array([[1.0, 0.0]]), [15962])[0]
    close(y, [-0.908015901251, 0.418935702794])
    x = np.array([[1.0, 2, 3, 4]], np.float16)
    right = np.array([[-3.15234375, 0.54248046875, -0.255859375, -4.4375]], np.float16)
    assert_bits(rope(x, [1001], layout="half"), right)


def test_frequencies_are_not_rounded():
    x = np.zeros((1, 128))
    x[0, :64] = 1
    y = rope(x, [4095], layout="half")[0]
    close(y[[1, 65, 5]], [-0.742365817610, 0.669994770759, -0.711391972368])


# --- what a rotation is ---------------------------------------------------------------------------


@by_layout
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_only_the_difference_of_positions_counts(dtype, layout):
    q, k = some(64, dtype, 5), some(64, dtype, 6)
    eps = np.finfo(dtype).eps
    for apart in (0, 1, 7, 1000):
        products = [
            np.dot(
                rope(q, far, layout=layout).astype(np.float64),
                rope(k, far + apart, layout=layout).astype(np.float64),
            )
            for far in (0, 1, 100, 10**6, 2**31, 2**53, 2**62)
        ]
        # 2 ulp of each pair's norm on both sides: Cauchy and Schwarz
        bound = 8 * eps * np.linalg.norm(q.astype(float)) * np.linalg.norm(k.astype(float))
        assert max(products) - min(products) < bound


@by_layout
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norms_and_the_way_back(dtype, layout):
    x = some((200, 32), dtype)
    first, second = pair_slices(32, layout)
    norm = np.hypot(x[:, first].astype(np.longdouble), x[:, second])
    for offset in (0, 10**6, 2**40, -77):
        y = rope(x, offset=offset, layout=layout)
        eps = np.finfo(dtype).eps
        turned_norm = np.hypot(y[:, first].astype(np.longdouble), y[:, second])
        np.testing.assert_allclose(turned_norm / norm, 1, rtol=0, atol=3 * eps)
        whole = np.linalg.norm(x.astype(float), axis=1)
        same = np.linalg.norm(y.astype(float), axis=1)
        np.testing.assert_allclose(same / whole, 1, rtol=0, atol=3 * eps)
        for back in (
            rope(y, offset=offset, layout=layout, inverse=True),
            rope(y, offset=offset, layout=layout, adjoint=True),
            rope(y, -(np.arange(200) + offset), layout=layout),
        ):
            errors = np.maximum(np.abs(back - x)[:, first], np.abs(back - x)[:, second])
            assert (errors / norm).max() < 5 * eps
    assert_bits(rope(x, np.zeros(200, int), layout=layout), x)


def test_position_zero_is_the_identity():
    for dtype in DTYPES:
        x = some((4, 5, 10), dtype)
        assert_bits(rope(x)[:, 0], x[:, 0])


@by_layout
def test_nan_stays_in_its_pair(layout):
    x = np.ones((3, 8), np.float32)
    first, second = pair_slices(8, layout)
    x[1, first][2] = np.nan  # the first channel of pair 2
    y = rope(x, layout=layout)
    assert (
        np.isnan(y[1, first]).tolist()
        == np.isnan(y[1, second]).tolist()
        == [False, False, True, False]
    )
    assert np.isnan(y).sum() == 2


@by_layout
def test_the_attention_factor_is_a_gain_on_both_layouts(layout):
    freq = [1.0, 0.1, 0.01]
    x = some((9, 8), np.float64)
    plain = RopePlan(freq, layout=layout)
    for m in (1.0, 0.5, 1.138629436112, 3.0):
        plan = RopePlan(freq, layout=layout, attention_factor=m)
        y = rope(x, plan=plan)
        norms = np.linalg.norm(y[:, :6], axis=1) / np.linalg.norm(x[:, :6], axis=1)
        np.testing.assert_allclose(norms, m, rtol=1e-15)
        np.testing.assert_allclose(y[:, :6], m * rope(x, plan=plain)[:, :6], rtol=0, atol=4e-15)
        assert_bits(np.ascontiguousarray(y[:, 6:]), np.ascontiguousarray(x[:, 6:]))
        np.testing.assert_allclose(rope(y, plan=plan, inverse=True), x, rtol=0, atol=4e-15)
        back = rope(y, plan=plan, adjoint=True)[:, :6]
        np.testing.assert_allclose(back, m * m * x[:, :6], rtol=0, atol=3e-14)


# --- positions, axes, offsets ---------------------------------------------------------------------


@by_layout
@by_dtype
def test_positions_of_every_form(dtype, layout):
    x = some((2, 5, 3, 8), dtype)

    def check(p, **options):
        assert_bits(rope(x, layout=layout, **options), turned(x, p, layout=layout))

    seq, along = np.array([7, 0, 99]), np.array([3, 1, 4, 1, -5])
    batch = np.array([[7, 0, 99], [1, 2, 3]])
    check(np.arange(3))
    check(np.arange(5)[:, None], seq_axis=1)
    check(np.arange(5)[:, None], seq_axis=-3)
    check(np.arange(2)[:, None, None], seq_axis=0)
    check(seq, positions=seq)
    check(along[:, None], positions=along, seq_axis=1)
    check(batch[:, None], positions=batch)
    wide = np.arange(10).reshape(2, 5) * 1001
    check(wide[..., None], positions=wide, seq_axis=1)
    every = np.arange(30).reshape(2, 5, 3) ** 2
    check(every, positions=every)
    check(every, positions=every.tolist())
    for shape in ((1, 5, 3), (2, 1, 1), (1, 1, 1), (2, 5, 1), (1, 1, 3)):
        p = np.arange(math.prod(shape)).reshape(shape) * 7 % 100
        check(p, positions=p)
    check(42, positions=42)
    check(np.array(-1.5), positions=-1.5)
    check(seq, positions=seq.astype(np.float32))
    check(seq + 0.25, positions=seq + 0.25)
    check(seq, positions=seq.astype(">u2"))
    check(seq[::-1], positions=seq[::-1])
    check(40 + np.arange(3), offset=40)
    check(seq + 2**40, positions=seq, offset=2**40)
    check(np.array([30, 25])[:, None, None] + np.arange(3), offset=[30, 25])
    check(np.array([30, 25])[:, None, None] + np.arange(3), offset=np.array([30, 25], np.uint64))
    check(np.array([3, -5])[:, None, None] + np.arange(5)[:, None], offset=[3, -5], seq_axis=1)
    check(np.array([0, 3, 200]) - 1, positions=np.array([0, 3, 200], np.uint8), offset=-1)


@by_dtype
def test_the_far_ends(dtype):
    x = some((20, 6), dtype)
    for first, kind in ((2**64 - 20, np.uint64), (2**63 - 20, np.int64), (-(2**63), np.int64)):
        p = np.array([first + k for k in range(20)], kind)
        assert_bits(rope(x, p), turned(x, p))
        if kind == np.int64:
            assert_bits(rope(x, offset=first), turned(x, p))


@pytest.mark.parametrize(
    ("shape", "positions", "axis"),
    [
        ((4, 6), np.zeros(3), -2),
        ((4, 6), np.zeros((2, 4)), -2),
        ((2, 4, 6), np.zeros((4, 2)), -2),
        ((2, 4, 6), np.zeros(2), -2),
        ((2, 3, 4, 6), np.zeros((3, 4)), -2),
        ((2, 3, 4, 6), np.zeros((2, 3, 4, 1)), -2),
        ((2, 3, 4, 6), np.zeros((1, 3)), -2),
        ((6,), np.zeros(1), -2),
    ],
)
def test_positions_that_do_not_fit(shape, positions, axis):
    x = np.ones(shape)
    with pytest.raises(ValueError, match=r"^rope: positions: must "):
        rope(x, positions, seq_axis=axis, out=x)
    assert (x == 1).all()


@pytest.mark.parametrize(
    ("options", "error", "name"),
    [
        ({"offset": [1, 2, 3]}, ValueError, "offset"),
        ({"offset": [[1, 2]]}, ValueError, "offset"),
        ({"offset": 1.0}, TypeError, "offset"),
        ({"offset": True}, TypeError, "offset"),
        ({"offset": [1, 2], "positions": [0, 1, 2, 3]}, ValueError, "positions"),
        ({"offset": [1, 2], "positions": [[0, 1, 2]] * 3}, ValueError, "positions"),
        ({"offset": [1, 2], "positions": [2**63 - 2, 0, 1]}, ValueError, "offset"),
        ({"offset": [1, 2], "positions": np.uint64([2**64 - 2, 0, 1])}, ValueError, "offset"),
        ({"offset": 2**63}, ValueError, "offset"),
        ({"offset": [2**63 - 2, 0]}, ValueError, "offset"),
        ({"offset": 2**62, "positions": [2**62, 2**63 - 1, 0]}, ValueError, "offset"),
        ({"seq_axis": -1}, ValueError, "seq_axis"),
        ({"seq_axis": 2}, ValueError, "seq_axis"),
        ({"seq_axis": 3}, ValueError, "seq_axis"),
        ({"seq_axis": -4}, ValueError, "seq_axis"),
        ({"seq_axis": "1"}, TypeError, "seq_axis"),
        ({"layout": "neox"}, ValueError, "layout"),
        ({"layout": None}, TypeError, "layout"),
        ({"base": 0}, ValueError, "base"),
        ({"base": -1.0}, ValueError, "base"),
        ({"base": math.nan}, ValueError, "base"),
        ({"base": "10000"}, TypeError, "base"),
        ({"plan": 3}, TypeError, "plan"),
        ({"positions": [0, math.nan, 1]}, ValueError, "positions"),
        ({"positions": [0, math.inf, 1]}, ValueError, "positions"),
        ({"positions": [0, 2.0**64, 1]}, ValueError, "positions"),
        ({"positions": [True, False, True]}, TypeError, "positions"),
    ],
)
def test_wrong_options(options, error, name):
    x = np.ones((2, 3, 4))
    with pytest.raises(error, match=rf"^rope: {name}: "):
        rope(x, out=x, **options)
    assert (x == 1).all()


# --- memory ---------------------------------------------------------------------------------------


VIEWS = {
    "rows backwards": lambda a: a[::-1],
    "every second channel": lambda a: a[..., ::2],
    "every third, backwards": lambda a: a[..., ::-3],
    "two axes": lambda a: a[:, ::2, ::-1],
    "other order": lambda a: a.transpose(2, 0, 1, 3),
    "channels first": lambda a: a.transpose(3, 2, 1, 0)[..., :4],
    "one of an axis": lambda a: a[:, 3:4],
    "two axes less": lambda a: a[0, 0],
    "columns of a row": lambda a: a[1, 2, :, 2:4],
}


@by_layout
@by_dtype
@pytest.mark.parametrize("view", VIEWS)
def test_any_strides(view, dtype, layout):
    whole = some((4, 6, 10, 24), dtype)
    for a in (whole, np.asfortranarray(whole)):
        x = VIEWS[view](a)
        right = rope(x.copy(order="C"), layout=layout, offset=3)
        assert_bits(rope(x, layout=layout, offset=3), right)
        out = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype)[..., ::-2]
        assert rope(x, layout=layout, offset=3, out=out) is out
        assert_bits(np.ascontiguousarray(out), right)
        b = a.copy(order="K")
        y = VIEWS[view](b)
        assert rope(y, layout=layout, offset=3, out=y) is y  # in place
        assert_bits(np.ascontiguousarray(y), right)
        y[...] = x
        assert_bits(b, a)  # and nothing beside it was touched


@by_layout
@by_dtype
def test_strides_of_zero(dtype, layout):
    whole = some((4, 6, 10), dtype)
    for part in (whole[:1], whole[:, :1], whole[..., :1], whole[:1, :1, :1]):
        x = np.broadcast_to(part, whole.shape)
        assert_bits(rope(x, layout=layout), rope(x.copy(), layout=layout))


def test_unaligned_and_swapped():
    x = some((3, 8), np.float64)
    memory = bytearray(x.nbytes + 1)
    odd = np.ndarray(x.shape, x.dtype, memory, 1)
    odd[...] = x
    assert not odd.flags.aligned
    assert_bits(rope(odd), rope(x))
    assert_bits(rope(x.astype(">f8")), rope(x))
    half = x.astype(np.float16)
    assert_bits(rope(half.astype(">f2")), rope(half))
    with pytest.raises(ValueError, match=r"^rope: out: must be aligned"):
        rope(x, out=odd)
    np.testing.assert_array_equal(odd, x)


def test_swapped_bfloat16_is_not_misread():
    """It was, once, and the module refused the real one from then on."""
    x = some((2, 4), BFLOAT16)
    swapped = x.astype(BFLOAT16.newbyteorder())
    try:
        assert_bits(rope(swapped).astype(BFLOAT16), rope(x))
    except TypeError as error:
        assert str(error).startswith("rope: x: must be ")
    assert rope(x).dtype == BFLOAT16


def test_overlap():
    memory = np.ones(40)
    x = memory[:32].reshape(4, 8)
    for out in (
        memory[8:].reshape(4, 8),
        memory[1:33].reshape(4, 8),
        memory[:32].reshape(4, 8)[::-1],
        np.ndarray((4, 8), float, memory, 0, (8, 32)),  # the same place, in another order
    ):
        with pytest.raises(ValueError, match=r"^rope: out: must not overlap x"):
            rope(x, out=out)
        assert (memory == 1).all()
    both = np.ones((4, 16))
    rope(both[:, ::2], out=both[:, 1::2])  # side by side in memory, with nothing in common
    assert_bits(np.ascontiguousarray(both[:, 1::2]), rope(np.ones((4, 8))))
    assert (both[:, ::2] == 1).all()
    with pytest.raises(ValueError, match=r"^rope: out: must not overlap positions"):
        rope(np.ones((4, 8)), memory[28:32], out=x)
    assert (memory == 1).all()


@by_dtype
@by_layout
def test_grouping_cannot_be_seen(layout, dtype):
    """A full run is its prefix and then single steps, bit for bit: what a cache relies on."""
    x = some((2, 3, 150, 16), dtype)
    whole = rope(x, layout=layout)
    for split in (1, 9, 64, 130):
        assert_bits(rope(x[:, :, :split], layout=layout), np.ascontiguousarray(whole[:, :, :split]))
    for p in (9, 10, 11, 63, 64, 65, 149):
        step = rope(np.ascontiguousarray(x[:, :, p : p + 1]), layout=layout, offset=p)
        assert_bits(step, np.ascontiguousarray(whole[:, :, p : p + 1]))
        step = rope(x[:, :, p : p + 1], [p], layout=layout)
        assert_bits(step, np.ascontiguousarray(whole[:, :, p : p + 1]))
    order = np.random.default_rng(7).permutation(150)
    assert_bits(
        rope(x[:, :, order], order, layout=layout), np.ascontiguousarray(whole[:, :, order])
    )


def test_twelve_rows_or_nine_and_three():
    x = some((12, 8), np.float32)
    steps = [rope(x[:9]), *(rope(x[k : k + 1], offset=k) for k in (9, 10, 11))]
    assert_bits(np.concatenate(steps), rope(x))


@by_dtype
def test_large_arrays(dtype):
    """Long enough for chunks, parts, threads: whatever the axis, a row is the same."""
    x = some((3, 900, 5, 64), dtype)
    y = rope(x, seq_axis=1)
    z = rope(np.ascontiguousarray(x.swapaxes(1, 2)))
    assert_bits(np.ascontiguousarray(z.swapaxes(1, 2)), y)
    for p in (0, 1, 64, 500, 899):
        assert_bits(y[:, p], rope(np.ascontiguousarray(x[:, p]), np.full(5, p)))
    turning = rope(x, np.arange(900) % 7, seq_axis=1)
    few = rope(np.ascontiguousarray(x[:, 700:707]), seq_axis=1)
    assert_bits(np.ascontiguousarray(turning[:, 700:707]), few)


def test_empty():
    assert rope(np.zeros((0, 4)), []).shape == (0, 4)
    assert rope(np.zeros((3, 0, 4))).shape == (3, 0, 4)
    assert rope(np.zeros((0, 3, 4)), np.zeros(3)).shape == (0, 3, 4)
    assert rope(np.zeros((3, 0))).shape == (3, 0)
    assert rope(np.ones((2, 4)), plan=RopePlan([])).tolist() == np.ones((2, 4)).tolist()
    with pytest.raises(ValueError, match=r"^rope: x: must have at least one axis"):
        rope(np.array(1.0))


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [1e4, 5e5, 1e6, 2.0, 1.0, 0.3])
@pytest.mark.parametrize("dim", [2, 8, 64, 130])
def test_frequencies_of_a_plan_are_correctly_rounded(dim, base):
    right = [exact.nearest(exact.frequency(i, base, dim / 2), np.float64) for i in range(dim // 2)]
    assert TOL["inv_freq"]["float64"]["ulp"] == 0.5
    assert_bits(rope_plan(dim, base=base).inv_freq, np.array(right))


def test_a_plan_turns_like_its_base():
    x = some((40, 16), np.float64)
    for layout in LAYOUTS:
        plan = rope_plan(16, base=5e5, layout=layout)
        assert_bits(
            rope(x, plan=plan, offset=10**9), rope(x, base=5e5, layout=layout, offset=10**9)
        )
        # its frequencies to 53 bits are another, worse, plan
        rounded = RopePlan(plan.inv_freq, layout=layout)
        assert (rope(x, plan=rounded, offset=10**9) != rope(x, plan=plan, offset=10**9)).any()
        np.testing.assert_allclose(rope(x, plan=rounded), rope(x, plan=plan), rtol=0, atol=1e-13)


def test_a_plan_of_any_frequencies():
    freq = np.array([0.0, 1e-300, 5e-324, 0.7, 3.0, 2.0**59, 1.0])
    x = some((10, 14), np.float64)
    p = np.array([0, 1, 2, 3, 10**6, 2**62, -5, 7, 8, 9])
    got = rope(x, p, plan=RopePlan(freq))
    sin_cos = exact.phases(p, [exact.exactly(w) for w in freq.tolist()])
    for row, values in enumerate(sin_cos):
        for i, (s, c) in enumerate(values):
            s, c = exact.nearest(s, np.float64), exact.nearest(c, np.float64)
            a, b = x[row, 2 * i], x[row, 2 * i + 1]
            assert got[row, 2 * i] == a * c - b * s and got[row, 2 * i + 1] == b * c + a * s


def test_plans_are_read_only():
    plan = rope_plan(8)
    for array in (plan.inv_freq, plan.axis):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        plan.colour = 1


# --- golden numbers of other libraries ------------------------------------------------------------

GOLDEN = json.loads(Path(__file__).with_name("data").joinpath("rope.json").read_text())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hf_llama_half", {"layout": "half"}),
        ("onnx_ref_opset23_half", {"layout": "half"}),
        ("hf_gptj_interleaved", {"layout": "interleaved"}),
        ("onnx_ref_opset23_interleaved", {"layout": "interleaved"}),
        ("hf_neox_partial_rotary_dim4", {"plan": rope_plan(8, rotary_dim=4, layout="half")}),
        ("rotary_embedding_torch_interleaved_offset5", {"offset": 5}),
        ("hf_deepseek_interleave_in_half_out", {}),
    ],
)
def test_other_libraries(name, options):
    x = np.array(GOLDEN["input_bhsd"])
    if "offset" not in options:
        options = {"positions": GOLDEN["position_ids"], **options}
    got = rope(x, **options)
    if "half_out" in name:  # even channels, then odd ones
        got = np.concatenate([got[..., ::2], got[..., 1::2]], axis=-1)
    # float32 angles up to 17, values up to 3.3
    np.testing.assert_allclose(got, np.array(GOLDEN[name]), rtol=0, atol=5e-6)


# --- the second opinion ---------------------------------------------------------------------------


@settings(max_examples=200)
@given(st.data())
def test_like_the_readable_reference(data):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    width = 2 * data.draw(st.integers(1, 9))
    axis = data.draw(st.integers(0, len(shape) - 1))
    kind = data.draw(st.sampled_from(["none", "seq", "all", "batch offset", "batch"]))
    x = some((*shape, width), np.float64, seed=data.draw(st.integers(0, 9)))
    order = data.draw(st.permutations(range(x.ndim)))
    x = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, -1]))) for _ in range(x.ndim))
    x = x[steps]
    options = {
        "layout": data.draw(st.sampled_from(LAYOUTS)),
        "inverse": data.draw(st.booleans()),
        "base": data.draw(st.sampled_from([1e4, 5e5, 37.0])),
        "seq_axis": data.draw(st.sampled_from([axis, axis - x.ndim])),
    }
    number = st.one_of(st.integers(-1000, 1000), st.floats(-1000, 1000))
    if kind == "seq":
        options["positions"] = np.array([float(data.draw(number)) for _ in range(shape[axis])])
    elif kind == "all":
        options["positions"] = np.arange(math.prod(shape)).reshape(shape) - 9
    elif kind == "batch" and axis > 0 and len(shape) > 1:
        options["positions"] = np.arange(shape[0] * shape[axis]).reshape(shape[0], shape[axis])
        if len(shape) == 2:
            options["positions"] = options["positions"].reshape(shape)
    elif kind == "batch offset" and axis > 0:
        options["offset"] = np.array([data.draw(st.integers(-99, 99)) for _ in range(shape[0])])
    else:
        options["offset"] = data.draw(st.integers(-1000, 1000))
    right = reference.rope(x, **options)
    got = rope(x, **options)
    np.testing.assert_allclose(got, right, rtol=0, atol=5 * reference_atol(1100))
    out = np.full((*shape, 2 * width), 7.0)[..., 1::2]
    assert rope(x, **options, out=out) is out
    assert_bits(np.ascontiguousarray(out), got)
    rope(x, **options, out=x)
    assert_bits(np.ascontiguousarray(x), got)


def test_public_names():
    assert posenc.rope is rope and posenc.RopePlan is RopePlan and posenc.rope_plan is rope_plan


# --- positions and an offset for each row ---------------------------------------------------------


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint64, np.float32, np.float64, object])
@pytest.mark.parametrize(
    "shape", [(), (5,), (1, 5), (3, 5), (3, 2, 5), (1, 1, 5), (3, 1, 1)], ids=str
)
def test_positions_with_an_offset_for_each_row(shape, kind):
    x = np.random.default_rng(1).standard_normal((3, 2, 5, 8))
    positions = np.random.default_rng(2).integers(40, 100, shape)
    positions = positions.tolist() if kind is object else positions.astype(kind)
    offsets = [30, -25, 10**15]
    got = rope(x, positions, offset=offsets)
    p = np.asarray(positions)
    for b, offset in enumerate(offsets):
        row = p[b % p.shape[0]][None] if p.ndim > 1 else p
        moved = row.astype(np.float64 if p.dtype.kind == "f" else np.int64) + offset
        np.testing.assert_array_equal(got[b : b + 1], rope(x[b : b + 1], moved))
    again = rope(x.swapaxes(1, 2), positions, offset=offsets, seq_axis=1) if p.ndim < 3 else None
    if again is not None:
        np.testing.assert_array_equal(again.swapaxes(1, 2), got)


def test_a_batch_of_none_or_one():
    for batch in (0, 1):
        x, offsets = np.ones((batch, 5, 4)), np.full(batch, 7)
        for positions in (None, 3, [1, 2, 3, 4, 5], np.ones((batch, 5), int), [[1, 2, 3, 4, 5]]):
            got = rope(x, positions, offset=offsets)
            right = rope(x, np.arange(5) if positions is None else positions, offset=7)
            np.testing.assert_array_equal(got, right)


def test_integers_numpy_would_round():
    """A list of one beyond 63 bits and a small one becomes an array of floats."""
    x = np.ones((2, 4))
    for options in ({"positions": [2**63 + 1, 1]}, {"positions": [1, 2**64 - 1]}):
        with pytest.raises(ValueError, match="^rope: positions: must be an array of uint64 where"):
            rope(x, **options)
    rope(x, np.array([2**63 + 1, 1], np.uint64))
    rope(x, [2**63 + 1, 2**63])
    assert rope(np.ones((0, 2, 4)), offset=[]).shape == (0, 2, 4)


def test_the_shape_that_came():
    x = np.ones((2, 2, 5, 4))
    with pytest.raises(ValueError, match=r"positions: must have shape \(2, 5\), got \(3, 5\)$"):
        rope(x, np.zeros((3, 5), int), offset=[1, 2])


def test_large_positions_with_an_offset_for_each_row():
    x = np.random.default_rng(1).standard_normal((2, 3, 8))
    p = np.array([2**64 - 10, 2**63, 5], np.uint64)
    got = rope(x, p, offset=[9, 0])
    np.testing.assert_array_equal(got[0], rope(x[0], p + np.uint64(9)))
    np.testing.assert_array_equal(got[1], rope(x[1], p))
    got = rope(x, np.array([0, 1, 2], np.uint64), offset=[-9, 7])
    np.testing.assert_array_equal(got[0], rope(x[0], [-9, -8, -7]))
    np.testing.assert_array_equal(got[1], rope(x[1], [7, 8, 9]))


def test_several_axes_with_an_offset_for_each_row():
    plan = RopePlan([1.0, 0.1, 0.01, 0.001], axis=[0, 1, 2, 0])
    x = np.random.default_rng(1).standard_normal((2, 4, 5, 8))
    for shape in ((3, 5), (3, 2, 5), (3, 1, 5), (3, 2, 4, 5), (3,), ()):
        p = np.random.default_rng(3).integers(0, 1000, shape)
        got = rope(x, p, plan=plan, offset=[7, -400])
        for b, offset in enumerate((7, -400)):
            row = p[:, b % p.shape[1]] if p.ndim > 2 else p
            row = row[:, None] if row.ndim == 3 else row
            np.testing.assert_array_equal(
                got[b : b + 1], rope(x[b : b + 1], row + offset, plan=plan)
            )


# --- what cannot be read directly -----------------------------------------------------------------


def strange(x):
    """The same numbers, swapped, unaligned, and both."""
    unaligned = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    unaligned[...] = x
    return x.astype(x.dtype.newbyteorder()), unaligned, unaligned.astype(x.dtype.newbyteorder())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_swapped_and_unaligned(dtype):
    x = np.random.default_rng(5).standard_normal((2, 700, 64)).astype(dtype)
    right = rope(x, offset=5)
    for y in strange(x):
        got = rope(y, offset=5)
        assert got.dtype == np.dtype(dtype) and got.flags.aligned
        np.testing.assert_array_equal(got, right)
        out = np.empty_like(x)
        assert rope(y[:, ::-1], offset=5, out=out) is out
        np.testing.assert_array_equal(out, rope(x[:, ::-1], offset=5))


def test_integers_into_their_own_memory():
    x = np.arange(-60, 60).reshape(3, 5, 8)
    right = rope(x.astype(np.float64))
    np.testing.assert_array_equal(rope(x), right)
    out = x.view(np.float64)
    np.testing.assert_array_equal(rope(x, out=out), right)


def test_no_memory_beside_the_result():
    """Swapped and integer inputs of 64 MiB are converted where the result goes."""
    import tracemalloc

    for x in (np.ones((2, 2**16, 64), ">f8"), np.ones((2, 2**16, 64), np.int64)):
        tracemalloc.start()
        got = rope(x)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < got.nbytes + 2**20


# --- results the caches cannot hold, written past them --------------------------------------------


@by_dtype
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize(("dim", "rotary_dim", "start"), [(128, 128, 0), (100, 36, 8), (72, 50, 3)])
def test_large_results_are_made_like_small_ones(dim, rotary_dim, start, layout, dtype):
    plan = rope_plan(dim, rotary_dim=rotary_dim, start=start, layout=layout)
    seq = 5 * 2**20 // (2 * dim * np.dtype(dtype).itemsize)
    x = np.random.default_rng(1).standard_normal((2, seq, dim), np.float32).astype(dtype)
    right = np.concatenate(
        [rope(x[:, i : i + 500], plan=plan, offset=i) for i in range(0, seq, 500)], 1
    )
    memory = np.empty(x.nbytes + 64, np.uint8)
    begin = -memory.ctypes.data % 16
    for shift in (0, 16, np.dtype(dtype).itemsize):
        out = memory[begin + shift :][: x.nbytes].view(dtype).reshape(x.shape)
        np.testing.assert_array_equal(bits(rope(x, plan=plan, out=out)), bits(right))
    strided = np.empty((2, seq, dim + 16), dtype)[..., 8:-8]
    np.testing.assert_array_equal(bits(rope(x, plan=plan, out=strided)), bits(right))
    back = rope(right, plan=plan, adjoint=True)
    pieces = [
        rope(right[:, i : i + 700], plan=plan, adjoint=True, offset=i) for i in range(0, seq, 700)
    ]
    np.testing.assert_array_equal(bits(back), bits(np.concatenate(pieces, 1)))
