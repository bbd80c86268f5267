"""Tables in the float32 rounding order of Hugging Face: stored ones, and the order by mpmath."""

import json
from pathlib import Path

import ml_dtypes
import mpmath
import numpy as np
import pytest

from posenc import RopePlan, mrope_plan, plan_from_config, rope_plan, rope_tables, xpos_plan
from posenc.compat import float32_frequencies

DATA = Path(__file__).with_name("data")
CASES = json.loads((DATA / "compat.json").read_text())["cases"]
PUBLISHED = json.loads((DATA / "rope_init.json").read_text())["rope_init"]
by_case = pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['base']:g} {c['scaling']}")
one = np.float32(1)


def ulps(a, b):
    """How many float32 apart."""
    assert a.dtype == b.dtype == np.float32 and a.shape == b.shape
    ordered = [np.where(i < 0, -(i & 0x7FFFFFFF), i) for i in (a.view("i4"), b.view("i4"))]
    return np.abs(ordered[0].astype(np.int64) - ordered[1])


def nearest(x):
    """The float32 nearest to an mpf of more digits."""
    with mpmath.workprec(24):
        return np.float32(float(+x))


def frequencies(base, dim, divisor=1):
    with mpmath.workdps(40):
        powers = [
            nearest(mpmath.power(float(np.float32(base)), float(np.float32(i) / np.float32(dim))))
            for i in range(0, dim, 2)
        ]
    return one / np.array(powers) / np.float32(divisor)


def tables(angles):
    with mpmath.workdps(40):
        both = [[nearest(f(float(t))) for t in angles.ravel()] for f in (mpmath.cos, mpmath.sin)]
    return np.array(both, np.float32).reshape(2, *angles.shape)


# --- beside torch ---------------------------------------------------------------------------------


@by_case
def test_frequencies_beside_torch(case):
    """Its power is wrong in the last place for one of these in 200."""
    got = float32_frequencies(rope_plan(case["dim"], base=case["base"], scaling=case["scaling"]))
    apart = ulps(got, np.array(case["inv_freq"], np.float32))
    if case["scaling"] and case["scaling"]["rope_type"] == "yarn":
        assert apart.max() <= 4  # rounded once, not in its order
    else:
        assert apart.max() <= 1 and (apart > 0).sum() == (case["base"] == 1e6)


@pytest.mark.parametrize("method", ["default", "linear"])
def test_frequencies_as_published(method):
    for entry in PUBLISHED[method]:
        parameters = entry["rope_parameters"]
        width = int(entry["head_dim"] * parameters.get("partial_rotary_factor", 1))
        scaling = {k: v for k, v in parameters.items() if k in ("rope_type", "factor")}
        plan = rope_plan(width, base=parameters["rope_theta"], scaling=scaling)
        right = np.array(entry["inv_freq_f32"], np.float32)
        np.testing.assert_array_equal(float32_frequencies(plan), right)


@by_case
def test_tables_beside_torch(case):
    """With its frequencies: its cosines are not correctly rounded, one in 20 is an ulp off."""
    freq = np.array(case["inv_freq"], np.float32)
    scaled = rope_plan(case["dim"], base=case["base"], scaling=case["scaling"])
    plan = RopePlan(freq, attention_factor=scaled.attention_factor)
    both = rope_tables(plan, case["positions"], compat="float32")
    for got, name in zip(both, ("cos", "sin"), strict=True):
        apart = ulps(got[:, case["pairs"]], np.array(case[name], np.float32))
        assert apart.max() <= (1 if plan.attention_factor == 1 else 2)
        assert (apart == 0).mean() >= 0.9


# --- the order, evaluated independently -----------------------------------------------------------


@pytest.mark.parametrize(
    ("dim", "base", "factor"),
    [(2, 1e4, 1), (16, 5e5, 1), (128, 1e6, 1), (96, 12345.678, 1), (24, 0.3, 1), (64, 1e4, 3.7)],
)
def test_frequencies(dim, base, factor):
    scaling = None if factor == 1 else {"rope_type": "linear", "factor": factor}
    got = float32_frequencies(rope_plan(dim, base=base, scaling=scaling))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, frequencies(base, dim, factor))


def test_frequencies_of_bases_beyond_float32():
    """IEEE's powers of 0 and infinity, as float32 code has them."""
    assert float32_frequencies(rope_plan(2, base=1e-50)).tolist() == [1]
    assert float32_frequencies(rope_plan(4, base=1e300)).tolist() == [1, 0]


@pytest.mark.parametrize("factor", [1.0, 1.138629436111989])
def test_the_order(factor):
    positions = np.array([0, 1, 3, 8191, 999_983, 2**24 + 1, 2**53 - 1, -77, 10**18])
    freq = frequencies(5e5, 32)
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
    angles = p.astype(np.float32)[plan.axis].T * frequencies(1e6, 16)
    np.testing.assert_array_equal(rope_tables(plan, p, compat="float32"), tables(angles))
    count = rope_tables(plan, 3, compat="float32")
    np.testing.assert_array_equal(count, rope_tables(plan, [range(3)] * 3, compat="float32"))


@pytest.mark.parametrize("path", sorted((DATA / "configs").glob("*.json")), ids=lambda p: p.stem)
def test_frequencies_of_models(path):
    """Near the exact ones: what `notes` say of a plan gives its frequencies again."""
    plans = [plan_from_config(path, layer=layer) for layer in range(6)]
    assert any(plans)
    for plan in filter(None, plans):
        np.testing.assert_allclose(float32_frequencies(plan), plan.inv_freq, rtol=1e-6)


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
