"""Tables in the float32 rounding order of Hugging Face: stored ones, and the order by mpmath."""

import json
import math
from pathlib import Path

import ml_dtypes
import mpmath
import numpy as np
import pytest

from posenc import (
    RopePlan,
    axial_plan,
    compat,
    mrope_plan,
    plan_from_config,
    rope_plan,
    rope_tables,
    xpos_plan,
)
from posenc._powf import powers
from posenc.compat import float32_frequencies

DATA = Path(__file__).with_name("data")
STORED = json.loads((DATA / "compat.json").read_text())
PUBLISHED = json.loads((DATA / "rope_init.json").read_text())["rope_init"]
one = np.float32(1)


def stored(text):
    """Float32 numbers from the bytes in hexadecimal."""
    return np.frombuffer(bytes.fromhex(text), "<f4").astype(np.float32)


def plan_of(case):
    scaling, length = case["scaling"], case["seq_len"]
    return rope_plan(case["dim"], base=case["base"], scaling=scaling, seq_len=length)


def name_of(case):
    return f"{case['dim']} {case['base']:g} {(case['scaling'] or {}).get('rope_type', '')}"


def ulps(a, b):
    """How many float32 apart."""
    assert a.dtype == b.dtype == np.float32 and a.shape == b.shape
    ordered = [np.where(i < 0, -(i & 0x7FFFFFFF), i) for i in (a.view("i4"), b.view("i4"))]
    return np.abs(ordered[0].astype(np.int64) - ordered[1])


def nearest(x):
    """The float32 nearest to an mpf of more digits."""
    with mpmath.workprec(24):
        return np.float32(float(+x))


def tables(angles):
    with mpmath.workdps(40):
        both = [[nearest(f(float(t))) for t in angles.ravel()] for f in (mpmath.cos, mpmath.sin)]
    return np.array(both, np.float32).reshape(2, *angles.shape)


# --- beside transformers and torch ----------------------------------------------------------------


@pytest.mark.parametrize("case", STORED["cases"], ids=name_of)
def test_frequencies_of_transformers(case):
    """Every bit, at every width, by every method."""
    np.testing.assert_array_equal(float32_frequencies(plan_of(case)), stored(case["inv_freq"]))


@pytest.mark.parametrize(
    "group", STORED["models"], ids=lambda g: "-".join(filter(None, g["of"][0]))
)
def test_frequencies_of_models(group):
    for stem, layer_type in group["of"]:
        path = DATA / "configs" / f"{stem}.json"
        plans = [p for i in range(6) if (p := plan_from_config(path, layer=i)) is not None]
        plans = [p for p in plans if layer_type in (None, p.notes["layer_type"])]
        assert plans
        for plan in plans:
            np.testing.assert_array_equal(float32_frequencies(plan), stored(group["inv_freq"]))


@pytest.mark.parametrize("method", PUBLISHED)
def test_frequencies_as_published(method):
    for entry in PUBLISHED[method]:
        dim, scaling = entry["head_dim"], dict(entry["rope_parameters"])
        scaling["max_position_embeddings"] = entry["max_position_embeddings"]
        width = dim
        if method != "proportional":
            width = int(dim * scaling.get("partial_rotary_factor", 1))
        plan = rope_plan(dim, rotary_dim=width, scaling=scaling, seq_len=entry["seq_len"])
        right = np.array(entry["inv_freq_f32"], np.float32)
        np.testing.assert_array_equal(float32_frequencies(plan), right)


@pytest.mark.parametrize("case", STORED["vision"], ids=lambda c: c["convention"])
def test_frequencies_of_vision_towers(case):
    plan = axial_plan(case["dim"], convention=case["convention"], base=case["base"])
    right = stored(case["inv_freq"])
    whole = np.resize(right, case["dim"] // 2)  # one axis is stored, or both
    np.testing.assert_array_equal(float32_frequencies(plan), whole)


@pytest.mark.parametrize("case", [c for c in STORED["cases"] if "cos" in c], ids=name_of)
def test_tables_of_transformers(case):
    """Torch's cosines are not correctly rounded: one in 20 is an ulp off, and a product two."""
    plan = plan_of(case)
    both = rope_tables(plan, case["positions"], compat="float32")
    for got, name in zip(both, ("cos", "sin"), strict=True):
        right = stored(case[name]).reshape(len(case["positions"]), -1)
        apart = ulps(got[:, case["pairs"]], right)
        assert apart.max() <= (1 if plan.attention_factor == 1 else 2)
        assert (apart == 0).mean() >= 0.9


# --- the order, evaluated independently -----------------------------------------------------------


def rounded_powers(base, dim):
    """Correctly rounded, which torch's differ from by an ulp here and there."""
    with mpmath.workdps(40):
        exponents = [float(np.float32(i) / np.float32(dim)) for i in range(0, dim, 2)]
        power = [nearest(mpmath.power(float(np.float32(base)), e)) for e in exponents]
    return np.array(power)


@pytest.mark.parametrize("base", [0.3, 2.0, 1e4, 12345.678, 1e6, 3.0e38])
def test_powers(base):
    """Good to an ulp in each whole 16; those left over, the C library's, correctly rounded."""
    for dim in (2, 18, 32, 46, 128, 200):
        got = powers(base, np.arange(0, dim, 2).astype(np.float32) / np.float32(dim))
        right = rounded_powers(base, dim)
        whole = dim // 32 * 16
        assert ulps(got, right).max(initial=0) <= 1
        np.testing.assert_array_equal(got[whole:], right[whole:])


@pytest.mark.parametrize("base", [1e4, 5e5])
@pytest.mark.parametrize("factor", [4.0, 3.3])
def test_yarn(base, factor):
    """Step by step: the ramp's ends in float64, all else in float32."""
    scaling = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": 4096}
    power = rounded_powers(base, 24)  # 12 pairs: fewer than torch takes at a time
    ends = [24 * math.log(4096 / (n * 2 * math.pi)) / (2 * math.log(base)) for n in (32, 1)]
    low, high = math.floor(ends[0]), math.ceil(ends[1])
    with mpmath.workprec(24):  # mpmath rounds as float32 does
        expected = []
        for i, p in enumerate(map(mpmath.mpf, map(float, power))):
            ramp = min(max((mpmath.mpf(i) - low) / (high - low), mpmath.mpf(0)), mpmath.mpf(1))
            kept = 1 - ramp
            expected.append(1 / (+mpmath.mpf(factor) * p) * (1 - kept) + 1 / p * kept)
    got = float32_frequencies(rope_plan(24, base=base, scaling=scaling))
    assert got.tolist() == [float(w) for w in expected]


def test_llama3():
    numbers = {"factor": 7.3, "low_freq_factor": 1.7, "high_freq_factor": 3.9}
    scaling = {"rope_type": "llama3", "original_max_position_embeddings": 5000, **numbers}
    kinds = []
    with mpmath.workprec(24):
        factor, low, high = (+mpmath.mpf(x) for x in numbers.values())
        expected = []
        for p in map(float, rounded_powers(1e4, 30)):
            w = 1 / mpmath.mpf(p)
            length = +mpmath.mpf(2 * math.pi) * (1 / w)
            kinds.append((length > +mpmath.mpf(5000 / 1.7)) - (length < +mpmath.mpf(5000 / 3.9)))
            kept = (5000 * (1 / length) - low) / +mpmath.mpf(3.9 - 1.7)
            blended = (1 - kept) * w / factor + kept * w
            expected.append((blended, w / factor, w)[kinds[-1]])
    assert set(kinds) == {-1, 0, 1}
    got = float32_frequencies(rope_plan(30, base=1e4, scaling=scaling))
    assert got.tolist() == [float(w) for w in expected]


@pytest.mark.parametrize("live", [None, 2048, 9000])
def test_dynamic(live):
    """Longer than trained, the length is an array and so the base is made in float32."""
    scaling = {"rope_type": "dynamic", "factor": 3.3, "max_position_embeddings": 2048}
    base = 1e4
    if live == 9000:
        scale = np.float32(3.3) * np.float32(live) / np.float32(2048) - np.float32(2.3)
        base = np.float32(base) * nearest(mpmath.power(float(scale), 24 / 22))
    got = float32_frequencies(rope_plan(24, base=1e4, scaling=scaling, seq_len=live))
    np.testing.assert_array_equal(got, one / rounded_powers(base, 24))


def test_what_is_only_rounded():
    """Frequencies that came from nobody knows where, or from a method others do not have."""
    mixed = {"rope_type": "ntk", "factor": 4.0, "mixed_b": 0.7}
    plans = [rope_plan(12, scaling=mixed), RopePlan([0.3, 0.7]), axial_plan(8, convention="eva")]
    for plan in plans:
        right = plan.inv_freq.astype(np.float32)
        np.testing.assert_array_equal(float32_frequencies(plan), right)


def test_frequencies_of_bases_beyond_float32():
    """IEEE's powers of 0 and infinity, as float32 code has them."""
    assert float32_frequencies(rope_plan(2, base=1e-50)).tolist() == [1]
    assert float32_frequencies(rope_plan(4, base=1e300)).tolist() == [1, 0]


@pytest.mark.parametrize("factor", [1.0, 1.138629436111989])
def test_the_order(factor):
    positions = np.array([0, 1, 3, 8191, 999_983, 2**24 + 1, 2**53 - 1, -77, 10**18])
    freq = one / rounded_powers(5e5, 32)
    plan = RopePlan(freq, attention_factor=factor)
    angles = positions.astype(np.float32)[:, None] * freq
    right = tables(angles) * np.float32(factor)
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
        got = rope_tables(plan, positions, dtype=dtype, compat="float32")
        for table, wanted in zip(got, right, strict=True):
            assert table.dtype == dtype and table.flags.writeable
            np.testing.assert_array_equal(table.astype(np.float64), wanted.astype(dtype))
    exact, _ = rope_tables(RopePlan(freq), positions)
    assert np.abs(right[0, 4] / factor - exact[4]).max() > 0.01  # what it costs, near 1e6


def test_kinds_of_positions():
    plan = rope_plan(8)
    right = rope_tables(plan, np.arange(6), compat="float32")
    for p in (6, np.int8(6), range(6), np.arange(6.0), np.arange(6, dtype=">u4")):
        for got, wanted in zip(rope_tables(plan, p, compat="float32"), right, strict=True):
            np.testing.assert_array_equal(got, wanted)
    shaped = rope_tables(plan, np.arange(6).reshape(1, 3, 2), compat="float32")
    np.testing.assert_array_equal(shaped, np.reshape(right, (2, 1, 3, 2, 4)))
    assert rope_tables(plan, np.array(5), compat="float32")[0].shape == (4,)
    assert rope_tables(plan, 0, compat="float32")[0].shape == (0, 4)
    assert rope_tables(RopePlan([]), 3, compat="float32")[0].shape == (3, 0)


def test_several_axes():
    plan = mrope_plan(16, [4, 2, 2], base=1e6)
    p = np.array([[5, 100_003], [6, 70_001], [7, 900_001]])
    angles = p.astype(np.float32)[plan.axis].T * (one / rounded_powers(1e6, 16))
    np.testing.assert_array_equal(rope_tables(plan, p, compat="float32"), tables(angles))
    count = rope_tables(plan, 3, compat="float32")
    np.testing.assert_array_equal(count, rope_tables(plan, [range(3)] * 3, compat="float32"))


def test_scaling_is_kept():
    """As it was when the plan was made."""
    scaling = {"rope_type": "longrope", "short_factor": [1.5, 2.0], "long_factor": [4.0, 8.0]}
    scaling["original_max_position_embeddings"] = 100
    scaling["factor"] = 2.0
    short, long = (rope_plan(4, scaling=scaling, seq_len=n) for n in (100, 101))
    scaling["short_factor"][0] = 9.0
    assert float32_frequencies(short).tolist() == [float(one / np.float32(1.5)), np.float32(0.005)]
    assert float32_frequencies(long).tolist() == [0.25, np.float32(0.00125)]


def test_rounded_angles_far_out():
    """Where an angle is off by more than the short series reaches, by less, and by nothing."""
    freq = np.array([1, 0.7, 1e-3, 1e-30, 0, 2**30], np.float32)
    plan = RopePlan(freq)
    p = np.array([1.0, 3.0, 1e5, 123457.0, 2.0**20 - 1, 2.0**21 + 1, 9.9e6, 2.0**33 - 512, 1e-40])
    angles = p.astype(np.float32)[:, None] * freq
    np.testing.assert_array_equal(rope_tables(plan, p, compat="float32"), tables(angles))
    np.testing.assert_array_equal(
        rope_tables(plan, -p, compat="float32"), tables(angles) * np.reshape([1, -1], (2, 1, 1))
    )


@pytest.mark.parametrize("start", [0, 2**20 - 150])
def test_all_values_from_their_angles(monkeypatch, start):
    """The exact table turned by what the angles' rounding left is the table of the angles."""
    plan = rope_plan(64, base=5e5)
    positions = start + np.arange(0, 1500, 1.5)
    short = rope_tables(plan, positions, compat="float32")
    asked = []
    monkeypatch.setattr(compat, "_SURE", 1.0)  # nothing is settled by the turned ones
    exact = compat._core.sinusoidal

    class Core:
        rope_tables = compat._core.rope_tables

        def sinusoidal(angles, *rest):
            asked.append(len(angles))
            return exact(angles, *rest)

    monkeypatch.setattr(compat, "_core", Core)
    np.testing.assert_array_equal(short, rope_tables(plan, positions, compat="float32"))
    assert sum(asked) == np.count_nonzero(positions) * 32


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "positions", "options", "error", "message"),
    [
        (rope_plan(4), 3, {"compat": "float64"}, ValueError, "compat: .*'float32', got 'float64'"),
        (rope_plan(4), 3, {"compat": True}, TypeError, "compat: must be 'float32', got bool"),
        (xpos_plan(4), 3, {}, ValueError, "compat: must be None for a plan with xPos"),
        (None, 3, {}, TypeError, "plan: must be a RopePlan"),
        (rope_plan(4), -1, {}, ValueError, "positions: must be at least 0, got -1"),
        (rope_plan(4), [1.0, np.nan], {}, ValueError, "positions: must be finite"),
        (rope_plan(4), "12", {}, TypeError, "positions: must be integers or floats"),
        (rope_plan(4), True, {}, TypeError, "positions: must be integers or floats"),
        (mrope_plan(6, [1, 1, 1]), [[1], [2]], {}, ValueError, "positions: "),
        (RopePlan([2.0**50]), [2**40], {}, ValueError, "positions: must turn by less than 2"),
        (rope_plan(4), 3, {"dtype": "int8"}, TypeError, "dtype: "),
        (rope_plan(4), 2**62, {}, MemoryError, "positions: "),
    ],
)
def test_refused(plan, positions, options, error, message):
    with pytest.raises(error, match=rf"^rope_tables: {message}"):
        rope_tables(plan, positions, **{"compat": "float32", **options})
