"""posenc.axial: which axis turns which pair, how fast, and where the cells of a grid are."""

import copy
import json
import pickle
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import exact
import gmpy2
import numpy as np
import pytest
from conftest import MROPE
from hypothesis import given
from hypothesis import strategies as st

import posenc
from posenc import RopePlan, axial_plan, axial_positions, mrope_plan, rope, rope_plan, rope_tables
from posenc.scaling import scaled_frequencies, scaled_head

DATA = Path(__file__).parent / "data"
AXIAL = json.loads((DATA / "axial.json").read_text())
CONVENTIONS = ["pixtral", "qwen2_vl", "llama4", "dinov3", "eva", "pixels", "lucidrains", "flux"]
TWO_AXES = ["pixtral", "qwen2_vl", "llama4", "dinov3", "eva"]
ANY_AXES = ["pixels", "lucidrains", "flux"]
by_convention = pytest.mark.parametrize("convention", CONVENTIONS)
WIDE = gmpy2.context(precision=440)


def error_of(function, *args, **more):
    with pytest.raises((TypeError, ValueError)) as caught:
        function(*args, **more)
    return f"{type(caught.value).__name__} {caught.value}"


def turned(x, positions, plan):
    """What a plan means, in float64: pair k turns by positions[axis[k]] * inv_freq[k] radians."""
    angles = np.moveaxis(positions[plan.axis], 0, -1) * plan.inv_freq
    y, n = np.array(x, np.float64), len(plan.inv_freq)
    interleaved = plan.layout == "interleaved"
    first = slice(0, 2 * n, 2) if interleaved else slice(0, n)
    second = slice(1, 2 * n, 2) if interleaved else slice(n, 2 * n)
    a, b = y[..., first].copy(), y[..., second].copy()
    y[..., first] = a * np.cos(angles) - b * np.sin(angles)
    y[..., second] = b * np.cos(angles) + a * np.sin(angles)
    return y


def tables(plan, positions):
    """Sine and cosine of every channel, as other libraries keep them."""
    cos, sin = rope_tables(plan, positions, dtype=np.float64)
    spread = (
        (lambda t: t.repeat(2, -1)) if plan.layout == "interleaved" else (lambda t: np.tile(t, 2))
    )
    return spread(sin), spread(cos)


def assert_like_float32(got, stored, largest_angle):
    """Angles of other libraries are float32: a few roundings of the largest one."""
    atol = 4 * 2.0**-24 * max(largest_angle, 1.0)
    np.testing.assert_allclose(got, np.array(stored, np.float64), rtol=0, atol=atol)


# --- M-RoPE ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "sections", "interleaved"), MROPE)
def test_mrope_of_transformers(case, sections, interleaved):
    plan = mrope_plan(case["head_dim"], sections, base=case["rope_theta"], interleaved=interleaved)
    positions = np.array(case["position_ids"])[:, 0]
    sin, cos = tables(plan, positions)
    assert_like_float32(sin, case["sin"], positions.max())
    assert_like_float32(cos, case["cos"], positions.max())


def test_mrope_of_timm():
    plan = mrope_plan(24, (4, 4, 4), interleaved=True)
    h, w = axial_positions((2, 3), convention="lucidrains")
    sin, cos = tables(plan, np.stack([0 * h, h, w]))
    stored = np.array(AXIAL["timm_mrope"]["2x3,dim=24,section=(4,4,4)(sin|cos)"])
    assert_like_float32(np.concatenate([sin, cos], -1), stored, 2)


def test_lanes_of_mrope():
    axis = "".join("THW"[a] for a in mrope_plan(16, [4, 2, 2]).axis)
    assert axis == "TTTTHHWW"
    plan = mrope_plan(16, [4, 2, 2], base=1e6, interleaved=True)
    assert "".join("THW"[a] for a in plan.axis) == "THWTHWTT"
    right = [-0.839071529076, 0.861040649441, 0.987526019975, 0.998419277793]
    right += [0.999995500003, 0.999999604715, 0.99999995, 0.999999998419]
    cos, _ = rope_tables(plan, np.array([10, 3, 5]), dtype=np.float64)
    np.testing.assert_allclose(cos, right, rtol=0, atol=1e-12)


def rule_of_transformers(sections, interleaved):
    """The axis of each pair, found by letting the model code move three constants."""
    pairs = sum(sections)
    of_axis = np.repeat(np.arange(3)[:, np.newaxis], pairs, 1)
    if not interleaved:
        chunks = np.split(of_axis, np.cumsum(sections)[:-1], axis=-1)
        return np.concatenate([chunk[k % 3] for k, chunk in enumerate(chunks)])
    result = of_axis[0].copy()
    for k in (1, 2):
        place = slice(k, 3 * sections[k], 3)
        result[place] = of_axis[k, place]
    return result


@given(st.lists(st.integers(1, 30), min_size=3, max_size=3), st.booleans())
def test_axis_of_every_pair(sections, interleaved):
    plan = mrope_plan(2 * sum(sections), sections, interleaved=interleaved)
    np.testing.assert_array_equal(plan.axis, rule_of_transformers(sections, interleaved))
    np.testing.assert_array_equal(plan.inv_freq, rope_plan(2 * sum(sections)).inv_freq)
    assert plan.axis.max() == 2  # positions have three axes whatever the sections


@pytest.mark.parametrize(
    "dim, sections, interleaved, counts",
    [
        (128, [16, 24, 24], False, [16, 24, 24]),
        (128, [24, 20, 20], True, [24, 20, 20]),
        (64, [11, 11, 10], True, [11, 11, 10]),
        (16, [2, 3, 3], True, [3, 3, 2]),  # no room for a third pair of width
        (64, [8, 12, 12], True, [11, 11, 10]),
        (72, [8, 12, 12], True, [12, 12, 12]),  # GenLIP, and the default of timm: 32 of 36
        (16, [4, 4, 0], False, [4, 4]),
        (16, [0, 4, 4], False, [0, 4, 4]),
        (16, [3, 0, 8], True, [6, 0, 2]),
        (16, [0, 0, 0], True, [8]),
    ],
)
def test_pairs_of_each_axis(dim, sections, interleaved, counts):
    plan = mrope_plan(dim, sections, interleaved=interleaved)
    np.testing.assert_array_equal(np.bincount(plan.axis), counts)
    scaling = {"mrope_section": sections, "mrope_interleaved": interleaved}
    assert scaled_head("f", dim, scaling).axis == plan.axis.tolist()


@pytest.mark.parametrize(
    "sections", [[8, 0, 0], [4, 4, 0], [0, 8, 0], [0, 0, 8], [0, 4, 4]], ids=str
)
@pytest.mark.parametrize("make", ["mrope_plan", "rope_plan", "plan_from_config"])
def test_positions_have_three_axes_whatever_the_sections(make, sections):
    """Also where an axis turns no pair: three rows are never taken for three sequences."""
    scaling = {"type": "mrope", "mrope_section": sections}
    plan = {
        "mrope_plan": lambda: mrope_plan(16, sections),
        "rope_plan": lambda: rope_plan(16, layout="half", scaling=scaling),
        "plan_from_config": lambda: posenc.plan_from_config(
            {"model_type": "qwen2_vl", "head_dim": 16, "rope_theta": 1e4, "rope_scaling": scaling}
        ),
    }[make]()
    x = np.random.default_rng(16).standard_normal((3, 5, 16))
    p = np.random.default_rng(17).integers(0, 99, (3, 5))
    right = turned(x, p, plan)
    for one in (plan, copy.deepcopy(plan), pickle.loads(pickle.dumps(plan))):
        assert one.naxes == 3 and one == plan
        np.testing.assert_allclose(rope(x, p, plan=one), right, rtol=0, atol=1e-13)
    for compat in (None, "float32"):
        cos, _ = rope_tables(plan, p, compat=compat)
        np.testing.assert_allclose(cos, np.cos(p[plan.axis].T * plan.inv_freq), rtol=0, atol=1e-5)
    moved = posenc.rope_shift(rope(x, p, plan=plan), [1, 2, 3], plan=plan)
    np.testing.assert_allclose(moved, rope(x, p + [[1], [2], [3]], plan=plan), rtol=0, atol=1e-13)
    for wrong in (p[:2], p[0]):
        with pytest.raises(ValueError, match="^rope: positions: "):
            rope(x, wrong, plan=plan)
    if sections == [8, 0, 0]:
        assert plan != rope_plan(16, layout="half")


def test_pairs_left_over_stay_on_time():
    axis = mrope_plan(128, [24, 20, 20], interleaved=True).axis
    np.testing.assert_array_equal(axis[58:], [1, 2, 0, 0, 0, 0])


@pytest.mark.parametrize("interleaved", [False, True])
def test_text_turns_as_without_axes(interleaved):
    x = np.random.default_rng(5).standard_normal((2, 4, 9, 32)).astype(np.float32)
    p = np.array([0, 1, 2, 77, 1000, 65537, 10**9, 2**40, -5])
    plan = mrope_plan(32, [4, 6, 6], base=1e6, interleaved=interleaved)
    text = rope(x, p, plan=rope_plan(32, base=1e6, layout="half"))
    np.testing.assert_array_equal(rope(x, np.stack([p, p, p]), plan=plan), text)


def test_mrope_of_a_part_of_the_head():
    """Qwen3.5: 64 of 256 channels."""
    plan = mrope_plan(256, [11, 11, 10], interleaved=True, rotary_dim=64, base=1e7)
    np.testing.assert_array_equal(plan.inv_freq, rope_plan(256, rotary_dim=64, base=1e7).inv_freq)
    x = np.random.default_rng(6).standard_normal((5, 256))
    y = rope(x, np.arange(15).reshape(3, 5), plan=plan)
    np.testing.assert_array_equal(y[:, 64:], x[:, 64:])
    assert (y[1:, :64] != x[1:, :64]).all()


def test_mrope_layouts():
    x = np.random.default_rng(7).standard_normal((5, 16))
    p = np.arange(15).reshape(3, 5)
    half = mrope_plan(16, [4, 2, 2])
    other = mrope_plan(16, [4, 2, 2], layout="interleaved")
    assert (half.layout, other.layout) == ("half", "interleaved")
    np.testing.assert_array_equal(
        posenc.to_half(rope(x, p, plan=other)), rope(posenc.to_half(x), p, plan=half)
    )


@pytest.mark.parametrize(
    "args, more, message",
    [
        ((0, [1, 1, 1]), {}, "ValueError mrope_plan: dim: must be at least 1, got 0"),
        ((16.0, [4, 2, 2]), {}, "TypeError mrope_plan: dim: must be an integer"),
        ((15, [4, 2, 2]), {}, "ValueError mrope_plan: dim: must be even and at most 16384, got 15"),
        ((1 << 20, [4, 2, 2]), {}, "ValueError mrope_plan: dim: must be even and at most 16384"),
        ((16, [4, 2, 2]), {"rotary_dim": 18}, "ValueError mrope_plan: rotary_dim: must be even"),
        ((16, [4, 2, 2]), {"rotary_dim": 15}, "ValueError mrope_plan: rotary_dim: must be even"),
        ((16, [4, 2, 1]), {}, "ValueError mrope_plan: sections: must add up to 8 pairs, got 7"),
        ((16, [8, 1, 0]), {}, "ValueError mrope_plan: sections: must add up to 8 pairs, got 9"),
        (
            (16, [9, -2, 1]),
            {},
            "ValueError mrope_plan: sections: must be 3 whole numbers from 0 to",
        ),
        ((16, [9, 0, 0]), {"interleaved": True}, "ValueError mrope_plan: sections: must be 3 whol"),
        ((16, [4, -1, 0]), {"interleaved": True}, "ValueError mrope_plan: sections: must be 3 who"),
        ((16, [4, 4]), {}, "ValueError mrope_plan: sections: must be 3 whole numbers from 0 to 8"),
        ((16, []), {}, "ValueError mrope_plan: sections: must be 3 whole numbers from 0 to 8"),
        ((16, [2, 2, 2, 2]), {}, "ValueError mrope_plan: sections: must be 3 whole numbers"),
        ((16, [4.0, 2, 2]), {}, "TypeError mrope_plan: sections: must be an integer, got float"),
        ((16, 8), {}, "TypeError mrope_plan: sections: must be a sequence of integers, got int"),
        ((16, "422"), {}, "TypeError mrope_plan: sections: must be a sequence of integers"),
        ((16, [4, 2, 2]), {"base": 0}, "ValueError mrope_plan: base: must be finite and above 0"),
        ((16, [4, 2, 2]), {"base": "1e4"}, "TypeError mrope_plan: base: must be a real number"),
        ((16, [4, 2, 2]), {"base": np.nan}, "ValueError mrope_plan: base: must be finite"),
        ((16, [4, 2, 2]), {"base": 5e-324}, "ValueError mrope_plan: base: must give frequencies"),
        ((16, [4, 2, 2]), {"layout": "neox"}, "ValueError mrope_plan: layout: must be"),
        ((16, [4, 2, 2]), {"interleaved": 1}, "TypeError mrope_plan: interleaved: must be True"),
    ],
)
def test_errors_of_mrope(args, more, message):
    assert error_of(mrope_plan, *args, **more).startswith(message)


def test_sections_may_be_an_array():
    np.testing.assert_array_equal(
        mrope_plan(16, np.array([4, 2, 2])).axis, [0, 0, 0, 0, 1, 1, 2, 2]
    )


# --- frequencies of grids -------------------------------------------------------------------------


def power(base, top, bottom):
    """base^(top / bottom) to 440 bits."""
    return WIDE.exp(WIDE.div(WIDE.mul(WIDE.log(exact.exactly(base)), top), bottom))


def right_pairs(convention, widths, base=None, max_freq=224.0, linear=False):
    """Frequency and axis of every pair, from the model code of each convention."""
    dim, pi = sum(widths), gmpy2.const_pi(440)
    base = base or (100.0 if convention == "dinov3" else 10000.0)
    if convention == "pixtral":  # even ones of the frequencies of text, then odd ones
        text = [power(base, -2 * i, dim) for i in range(dim // 2)]
        return [(w, 0) for w in text[0::2]] + [(w, 1) for w in text[1::2]]
    result = []
    for axis, width in enumerate(widths):
        for k in range(width // 2):
            w = power(base, -2 * k, width)
            if convention == "dinov3":
                period = power(base, 2 * k, width)
                w = WIDE.div(WIDE.mul(2, pi), period)
            if convention == "pixels":
                last = width // 2 - 1
                part = WIDE.div(k, last or 1)
                span = WIDE.sub(WIDE.div(exact.exactly(max_freq), 2), 1)
                band = WIDE.add(1, WIDE.mul(span, part))
                if not linear:
                    exponent = WIDE.mul(WIDE.sub(WIDE.log2(exact.exactly(max_freq)), 1), part)
                    band = WIDE.exp2(exponent)
                w = WIDE.mul(pi, band)
            result.append((w, axis))
    if convention == "llama4":  # x before y
        return [(w, 1 - axis) for w, axis in result]
    return result


def cases():
    for convention in CONVENTIONS:
        for dim in (4, 16, 72, 128):
            yield convention, dim, {"axes": 2}, [dim // 2] * 2
            if convention != "flux":
                yield convention, dim, {}, [dim // 2] * 2
    for convention in CONVENTIONS:
        if convention != "pixels":
            yield convention, 64, {"axes": 2, "base": 3.7}, [32, 32]
    for dim in (32, 64, 128):
        yield "flux", dim, {}, [dim // 8, dim * 7 // 16, dim * 7 // 16]
    for convention in ANY_AXES:
        yield convention, 128, {"axes": (16, 56, 56)}, [16, 56, 56]
        yield convention, 96, {"axes": 3}, [32, 32, 32]
        yield convention, 10, {"axes": 1}, [10]
        yield convention, 16, {"axes": np.array([2, 2, 2, 2, 2, 2, 2, 2])}, [2] * 8
    yield "pixels", 64, {"linear_bands": True}, [32, 32]
    yield "pixels", 64, {"max_freq": 10, "linear_bands": True}, [32, 32]
    yield "pixels", 64, {"max_freq": 17.3}, [32, 32]
    yield "pixels", 64, {"max_freq": 2}, [32, 32]


@pytest.mark.parametrize("convention, dim, more, widths", list(cases()))
def test_frequencies_and_axes(convention, dim, more, widths):
    plan = axial_plan(dim, convention=convention, **more)
    given = {"linear" if k == "linear_bands" else k: v for k, v in more.items() if k != "axes"}
    freqs, axis = zip(*right_pairs(convention, widths, **given), strict=True)
    np.testing.assert_array_equal(plan.axis, axis)
    np.testing.assert_array_equal(plan.inv_freq, [exact.nearest(w, np.float64) for w in freqs])
    assert plan.rotary_dim == dim and plan.start == 0 and plan.attention_factor == 1
    half = convention in ("pixtral", "qwen2_vl", "dinov3")
    assert plan.layout == ("half" if half else "interleaved")
    assert "axial" in plan.explain() and convention in plan.explain()


@by_convention
def test_tables_are_correctly_rounded(convention):
    """So the frequencies behind inv_freq are known to far more than its 53 bits."""
    plan = axial_plan(16, 2, convention=convention)
    n = 2 * 8
    p = np.random.default_rng(8).integers(-(2**53), 2**53, (2, n))
    p[:, :3] = [[0, 1, 2**53], [3, 0, -7]]
    cos, sin = rope_tables(plan, p)
    for k, (w, axis) in enumerate(right_pairs(convention, [8, 8])):
        for t in range(n):
            s, c = exact.sin_cos(int(p[axis, t]), w)
            assert (sin[t, k], cos[t, k]) == (exact.nearest(s, "f4"), exact.nearest(c, "f4"))


@by_convention
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_layout_is_free(convention, layout):
    plan = axial_plan(32, convention=convention, layout=layout)
    own = axial_plan(32, convention=convention)
    assert plan.layout == layout
    np.testing.assert_array_equal(plan.inv_freq, own.inv_freq)
    np.testing.assert_array_equal(plan.axis, own.axis)


# --- other libraries ------------------------------------------------------------------------------


def test_eva_of_timm():
    case = AXIAL["timm_rope_cat"]["2x3,dim=16,in_pixels=False,ref=4x4"]
    plan = axial_plan(16, convention="eva")
    sin, cos = tables(plan, axial_positions((2, 3), convention="eva", reference=(4, 4)))
    assert_like_float32(sin, case["sin"], 4)
    assert_like_float32(cos, case["cos"], 4)


def test_pixels_of_timm():
    case = AXIAL["timm_rope_cat"]["2x3,dim=16,in_pixels=True"]
    plan = axial_plan(16, convention="pixels")
    sin, cos = tables(plan, axial_positions((2, 3), convention="pixels"))
    assert_like_float32(sin, case["sin"], 112 * np.pi)
    assert_like_float32(cos, case["cos"], 112 * np.pi)


def test_dinov3_of_timm():
    stored = AXIAL["timm_dinov3"]["2x3,dim=16(sin|cos)"]
    plan = axial_plan(16, convention="dinov3")
    both = np.concatenate(tables(plan, axial_positions((2, 3), convention="dinov3")), -1)
    assert_like_float32(both, stored, 2 * np.pi)


def channels(freqs):
    """[h | w] angles, each channel of the pair: halves of one vector."""
    return np.concatenate([freqs, freqs], -1)


def test_pixtral_and_qwen2_vl_by_their_code():
    d, h, w = 16, 3, 5
    row, column = np.arange(h)[:, None, None], np.arange(w)[None, :, None]
    ones = np.ones((h, w, 1))
    text = 10000.0 ** -(np.arange(0, d, 2) / d)
    angles = channels(np.concatenate([ones * row * text[::2], ones * column * text[1::2]], -1))
    sin, _ = tables(
        axial_plan(d, convention="pixtral"), axial_positions((h, w), convention="pixtral")
    )
    np.testing.assert_allclose(sin, np.sin(angles.reshape(-1, d)), rtol=0, atol=1e-14)

    half = 10000.0 ** -(np.arange(0, d // 2, 2) / (d // 2))
    angles = channels(np.concatenate([ones * row * half, ones * column * half], -1))
    positions = axial_positions((h, w), convention="qwen2_vl", merge=1)
    sin, _ = tables(axial_plan(d, convention="qwen2_vl"), positions)
    np.testing.assert_allclose(sin, np.sin(angles.reshape(-1, d)), rtol=0, atol=1e-14)


def test_llama4_by_its_code():
    """Cells of a square counted one by one, x before y, each from 1; the class token last."""
    side, width = 3, 8
    index = np.append(np.arange(side * side), 0)[:, np.newaxis]
    inv = 10000.0 ** -(np.arange(0, width, 2) / width)
    angles = np.concatenate([(index % side + 1) * inv, (index // side + 1) * inv], -1)
    angles[-1] = 0
    positions = axial_positions((side, side), convention="llama4", extra_tokens=1)
    cos, sin = rope_tables(axial_plan(2 * width, convention="llama4"), positions, dtype=np.float64)
    np.testing.assert_allclose(cos, np.cos(angles), rtol=0, atol=1e-14)
    np.testing.assert_allclose(sin, np.sin(angles), rtol=0, atol=1e-14)


# --- rotations ------------------------------------------------------------------------------------


@by_convention
def test_rope_turns_each_pair_by_its_axis(convention):
    shape = (4, 6)
    axes = (4, 8, 12) if convention == "flux" else 2
    plan = axial_plan(24, axes, convention=convention)
    positions = axial_positions(shape, convention=convention, extra_tokens=2)
    x = np.random.default_rng(9).standard_normal((2, 3, 26, 40))
    got = rope(x, positions, plan=plan)
    np.testing.assert_array_equal(got[..., 24:], x[..., 24:])
    largest = np.abs(positions).max() * plan.inv_freq.max()
    # angles are rounded to 2^-53 of themselves, turn by turn
    atol = np.abs(x).max() * (4 * largest + 8) * 2.0**-53
    np.testing.assert_allclose(got, turned(x, positions, plan), rtol=0, atol=atol)
    assert not np.allclose(got[..., :24], rope(x, positions[::-1], plan=plan)[..., :24])
    np.testing.assert_allclose(rope(got, positions, plan=plan, inverse=True), x, rtol=0, atol=1e-14)


@pytest.mark.parametrize("convention", ["eva", "lucidrains", "flux", "llama4"])
def test_blocks_of_channels_are_plain_rope(convention):
    """Interleaved pairs of one axis lie together: a rotary embedding of their own."""
    widths = (8, 8) if convention in TWO_AXES else (6, 8, 10)
    p = np.random.default_rng(10).integers(0, 99, (len(widths), 7))
    x = np.random.default_rng(11).standard_normal((2, 7, sum(widths))).astype(np.float32)
    got = rope(x, p, plan=axial_plan(sum(widths), widths, convention=convention))
    ends = np.cumsum(widths)
    order = p[::-1] if convention == "llama4" else p
    for width, end, along in zip(widths, ends, order, strict=True):
        block = np.s_[..., end - width : end]
        np.testing.assert_array_equal(got[block], rope(x[block], along))


@by_convention
def test_tokens_at_position_zero_stay(convention):
    plan = axial_plan(32, convention=convention)
    p = axial_positions((2, 2), convention=convention, extra_tokens=3)
    x = np.random.default_rng(12).standard_normal((7, plan.rotary_dim)).astype(np.float32)
    extra = np.s_[4:] if convention == "llama4" else np.s_[:3]
    assert not p[:, extra].any()
    np.testing.assert_array_equal(rope(x, p, plan=plan)[extra], x[extra])


@by_convention
def test_scores_depend_on_differences(convention):
    plan = axial_plan(16, 2, convention=convention)
    rng = np.random.default_rng(13)
    q, k = rng.standard_normal((2, 1, 16))
    a, b, shift = rng.integers(0, 50, (3, 2, 1))
    score = rope(q, a, plan=plan) @ rope(k, b, plan=plan).T
    moved = rope(q, a + shift, plan=plan) @ rope(k, b + shift, plan=plan).T
    np.testing.assert_allclose(moved, score, rtol=0, atol=1e-13 * np.abs(q).max() * np.abs(k).max())


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_attention_factor_of_a_plan_with_axes(layout):
    plan = axial_plan(16, convention="eva")
    plan = RopePlan(plan.inv_freq, layout=layout, axis=plan.axis, attention_factor=1.25)
    x = np.random.default_rng(14).standard_normal((6, 16))
    y = rope(x, axial_positions((2, 3), convention="eva"), plan=plan)
    ratio = np.linalg.norm(y, axis=-1) / np.linalg.norm(x, axis=-1)
    np.testing.assert_allclose(ratio, 1.25, rtol=1e-15 * 8)


@by_convention
def test_a_plan_fits_the_positions_of_its_convention(convention):
    """By default, too; and a grid of tokens is turned as the row of its tokens."""
    plan, more = axial_plan(64, convention=convention), {}
    if convention == "qwen2_vl":
        more["merge"] = 1
    p = axial_positions((4, 6), convention=convention, **more)
    assert len(p) == plan.axis.max() + 1
    for batch in (1, 2, 4):  # 4 is the number of rows, too
        x = np.random.default_rng(15).standard_normal((batch, 4, 6, 64))
        right = rope(x.reshape(batch, 24, 64), p, plan=plan).reshape(x.shape)
        np.testing.assert_array_equal(rope(x, p.reshape(-1, 1, 4, 6), plan=plan), right)


BASES = [np.array(1e4), np.array(10000), Decimal(10000), Fraction(10000), np.float32(1e4), 10000]
NO_BASES = ["1e4", b"1", True, np.True_, 1e4 + 0j, np.complex64(1), np.array([1e4]), [1e4]]
NO_BASES += [
    np.str_("1"),
    np.array("1e4"),
    np.array(1e4, object),
    np.datetime64(5, "s"),
    Decimal("sNaN"),
]
MAKERS = {
    "rope": lambda base: rope(np.ones((3, 8)), base=base),
    "rope_plan": lambda base: rope_plan(8, base=base).inv_freq,
    "rope_plan, scaled": lambda base: rope_plan(8, base=base, scaling={}).inv_freq,
    "xpos_plan": lambda base: posenc.xpos_plan(8, base=base).inv_freq,
    "mrope_plan": lambda base: mrope_plan(8, [2, 1, 1], base=base).inv_freq,
    "axial_plan": lambda base: axial_plan(8, convention="eva", base=base).inv_freq,
    "scaled_frequencies": lambda base: np.array(scaled_frequencies(8, base=base)[0], float),
}


@pytest.mark.parametrize("name", MAKERS)
def test_one_kind_of_base_everywhere(name):
    make = MAKERS[name]
    for base in BASES:
        np.testing.assert_array_equal(make(base), make(1e4))
    fn = name.partition(",")[0]
    for base in NO_BASES:
        assert error_of(make, base).startswith(f"TypeError {fn}: base: must be a ")
    for base in (Decimal("NaN"), Decimal("1e400"), 10**400, np.array(-1.0), Decimal(0)):
        assert error_of(make, base).startswith(f"ValueError {fn}: base: must be ")


# --- positions of grids ---------------------------------------------------------------------------


def cells(h, w):
    return [(i, j) for i in range(h) for j in range(w)]


@pytest.mark.parametrize("convention", ["pixtral", "lucidrains", "eva"])
def test_cells_by_number(convention):
    got = axial_positions((2, 3), convention=convention)
    np.testing.assert_array_equal(got, [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]])
    assert got.dtype == (np.float64 if convention == "eva" else np.int64)
    grid = got.reshape(2, 2, 3)
    assert tuple(grid[:, 1, 2]) == (1, 2)


def test_llama4_counts_from_one():
    got = axial_positions((2, 3), convention="llama4", extra_tokens=1)
    np.testing.assert_array_equal(got, [[1, 1, 1, 2, 2, 2, 0], [1, 2, 3, 1, 2, 3, 0]])


def test_flux_has_an_axis_of_zeros():
    got = axial_positions((2, 3), convention="flux", extra_tokens=2)
    right = [[0] * 8, [0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 2, 0, 1, 2]]
    np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("convention", ["lucidrains", "flux"])
def test_grids_of_three_axes(convention):
    got = axial_positions((2, 3, 4), convention=convention)
    np.testing.assert_array_equal(got.reshape(3, 2, 3, 4), np.indices((2, 3, 4)))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_blocks_of_qwen2_vl(rows, columns, merge):
    h, w = rows * merge, columns * merge
    right = [
        (i * merge + r, j * merge + c)
        for i in range(rows)
        for j in range(columns)
        for r in range(merge)
        for c in range(merge)
    ]
    got = axial_positions((h, w), convention="qwen2_vl", merge=merge)
    np.testing.assert_array_equal(got.T, right)
    assert set(map(tuple, got.T.tolist())) == set(cells(h, w))
    if merge == 2:
        np.testing.assert_array_equal(axial_positions((h, w), convention="qwen2_vl"), got)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 99), st.integers(1, 99))
def test_fractions_are_rounded_once(h, w, ref_h, ref_w):
    def check(convention, coordinate, **more):
        right = [
            [float(coordinate(i, h, ref_h)) for i, _ in cells(h, w)],
            [float(coordinate(j, w, ref_w)) for _, j in cells(h, w)],
        ]
        got = axial_positions((h, w), convention=convention, **more)
        np.testing.assert_array_equal(got, right)

    def linspace(i, n):
        return Fraction(2 * i, n - 1) - 1 if n > 1 else Fraction(-1)

    reference = {"reference": (ref_h, ref_w)}
    check("dinov3", lambda i, n, _: Fraction(2 * i + 1, n) - 1)
    check("eva", lambda i, n, r: Fraction(i * r, n), **reference)
    check("pixels", lambda i, n, _: linspace(i, n))
    check("pixels", lambda i, n, r: linspace(i, n) * r / n, **reference)


@by_convention
def test_extra_tokens(convention):
    plain = axial_positions((2, 4), convention=convention)
    got = axial_positions((2, 4), convention=convention, extra_tokens=3)
    first = 0 if convention == "llama4" else 3
    np.testing.assert_array_equal(got[:, first : first + 8], plain)
    assert not np.delete(got, np.s_[first : first + 8], 1).any()
    assert got.dtype == plain.dtype and got.shape == (len(plain), 11)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args, more, message",
    [
        ((16,), {"convention": "vit"}, "ValueError axial_plan: convention: must be 'pixtral' or"),
        ((16,), {"convention": None}, "TypeError axial_plan: convention: must be 'pixtral' or"),
        ((0,), {"convention": "eva"}, "ValueError axial_plan: dim: must be at least 1, got 0"),
        ((16.0,), {"convention": "eva"}, "TypeError axial_plan: dim: must be an integer"),
        ((1 << 15,), {"convention": "eva"}, "ValueError axial_plan: dim: must be at most 16384"),
        ((18,), {"convention": "eva"}, "ValueError axial_plan: dim: must be a multiple of 4, got"),
        ((17,), {"convention": "pixtral"}, "ValueError axial_plan: dim: must be a multiple of 4"),
        ((2,), {"convention": "eva"}, "ValueError axial_plan: dim: must be a multiple of 4, got 2"),
        ((20, 3), {"convention": "flux"}, "ValueError axial_plan: dim: must be a multiple of 6"),
        ((48,), {"convention": "flux"}, "ValueError axial_plan: dim: must be a multiple of 32, or"),
        ((24, 3), {"convention": "eva"}, "ValueError axial_plan: axes: must be 2 of one width"),
        ((16, (4, 12)), {"convention": "eva"}, "ValueError axial_plan: axes: must be 2 of one"),
        ((16, (4, 8)), {"convention": "flux"}, "ValueError axial_plan: axes: must be even widths"),
        ((16, (3, 13)), {"convention": "flux"}, "ValueError axial_plan: axes: must be even"),
        ((16, (0, 16)), {"convention": "flux"}, "ValueError axial_plan: axes: must be even"),
        ((16, (-2, 18)), {"convention": "flux"}, "ValueError axial_plan: axes: must be even"),
        (
            (36, 9),
            {"convention": "flux"},
            "ValueError axial_plan: axes: must be 1 to 8 axes, got 9",
        ),
        ((16, ()), {"convention": "flux"}, "ValueError axial_plan: axes: must be 1 to 8 axes"),
        ((16, 0), {"convention": "flux"}, "ValueError axial_plan: axes: must be at least 1, got 0"),
        ((16, True), {"convention": "flux"}, "TypeError axial_plan: axes: must be an integer"),
        ((16, 2.0), {"convention": "flux"}, "TypeError axial_plan: axes: must be a sequence"),
        ((16, (8.0, 8)), {"convention": "flux"}, "TypeError axial_plan: axes: must be an integer"),
        ((16,), {"convention": "eva", "base": -1}, "ValueError axial_plan: base: must be finite"),
        ((16,), {"convention": "eva", "base": "x"}, "TypeError axial_plan: base: must be a real"),
        (
            (16,),
            {"convention": "pixels", "base": 10.0},
            "ValueError axial_plan: base: must be None",
        ),
        ((16,), {"convention": "eva", "base": 1e-300}, "ValueError axial_plan: base: must give"),
        ((16,), {"convention": "eva", "layout": "x"}, "ValueError axial_plan: layout: must be"),
        ((16,), {"convention": "eva", "max_freq": 10}, "ValueError axial_plan: max_freq: may be"),
        ((16,), {"convention": "eva", "linear_bands": True}, "ValueError axial_plan: linear_bands"),
        ((16,), {"convention": "pixels", "linear_bands": 1}, "TypeError axial_plan: linear_bands"),
        ((16,), {"convention": "pixels", "max_freq": 1.5}, "ValueError axial_plan: max_freq: must"),
        ((16,), {"convention": "pixels", "max_freq": 2.0**60}, "ValueError axial_plan: max_freq"),
        ((16,), {"convention": "pixels", "max_freq": np.inf}, "ValueError axial_plan: max_freq"),
        ((16,), {"convention": "pixels", "max_freq": "2"}, "TypeError axial_plan: max_freq: must"),
    ],
)
def test_errors_of_plans(args, more, message):
    assert error_of(axial_plan, *args, **more).startswith(message)


@pytest.mark.parametrize(
    "shape, more, message",
    [
        ((2, 3), {"convention": "vit"}, "ValueError axial_positions: convention: must be"),
        (6, {"convention": "eva"}, "TypeError axial_positions: shape: must be a sequence"),
        ((2.0, 3), {"convention": "eva"}, "TypeError axial_positions: shape: must be an integer"),
        ((2,), {"convention": "eva"}, "ValueError axial_positions: shape: must be 2 sizes"),
        ((2, 3, 4), {"convention": "llama4"}, "ValueError axial_positions: shape: must be 2"),
        ((), {"convention": "flux"}, "ValueError axial_positions: shape: must be 1 to 8 sizes"),
        ([1] * 9, {"convention": "flux"}, "ValueError axial_positions: shape: must be 1 to 8"),
        ((2, 0), {"convention": "eva"}, "ValueError axial_positions: shape: must be 2 sizes, each"),
        (
            (2, 3),
            {"convention": "qwen2_vl"},
            "ValueError axial_positions: shape: must be multiples",
        ),
        ((2, 2), {"convention": "qwen2_vl", "merge": 0}, "ValueError axial_positions: merge: must"),
        ((2, 2), {"convention": "eva", "merge": 2}, "ValueError axial_positions: merge: may be"),
        ((2, 2), {"convention": "eva", "reference": 4}, "TypeError axial_positions: reference"),
        ((2, 2), {"convention": "eva", "reference": [4]}, "ValueError axial_positions: reference"),
        ((2, 2), {"convention": "eva", "reference": [4, 0]}, "ValueError axial_positions: refere"),
        ((2, 2), {"convention": "flux", "reference": [4, 4]}, "ValueError axial_positions: refere"),
        (
            (2, 2),
            {"convention": "eva", "extra_tokens": -1},
            "ValueError axial_positions: extra_tok",
        ),
        ((2, 2), {"convention": "eva", "extra_tokens": 1.0}, "TypeError axial_positions: extra_to"),
    ],
)
def test_errors_of_positions(shape, more, message):
    assert error_of(axial_positions, shape, **more).startswith(message)


@by_convention
def test_a_grid_too_big(convention):
    with pytest.raises(MemoryError, match="axial_positions: "):
        axial_positions((1 << 40, 1 << 40), convention=convention)


def test_positions_of_another_number_of_axes_are_refused():
    with pytest.raises(ValueError, match="rope: positions: "):
        rope(np.ones((6, 16)), np.zeros((3, 6)), plan=axial_plan(16, convention="eva"))
