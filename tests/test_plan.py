"""RopePlan, rope_plan with a scaling, xpos_plan: what a plan holds, and that `rope` does it."""

import copy
import json
import math
import pickle
from pathlib import Path

import mpmath
import numpy as np
import pytest
from conftest import MROPE
from exact import DTYPES, bits
from mpmath import mp, mpf

from posenc import RopePlan, rope, rope_plan, xpos_plan

DATA = Path(__file__).with_name("data")
STORED = json.loads((DATA / "rope_init.json").read_text())
LAYOUTS = ("interleaved", "half")
by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
by_layout = pytest.mark.parametrize("layout", LAYOUTS)
# A float32 frequency of transformers carries the rounding of a power, of its exponent and of the
# scaling: up to 5.4 half units in the last place are seen.
FLOAT32 = 8 * 2.0**-24


def assert_bits(got, right):
    assert got.dtype == right.dtype and got.shape == right.shape
    np.testing.assert_array_equal(bits(got), bits(right))


def some(shape, dtype=np.float64, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def firsts_and_seconds(layout, pairs):
    """Channels of the first and of the second members of the pairs."""
    i = np.arange(pairs)
    return (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + pairs)


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"inv_freq": "1"}, TypeError, "inv_freq: must be real numbers, got <U1"),
        ({"inv_freq": None}, TypeError, "inv_freq: must be real numbers, got object"),
        ({"inv_freq": [True]}, TypeError, "inv_freq: must be real numbers, got bool"),
        ({"inv_freq": [1j]}, TypeError, "inv_freq: must be real numbers, got complex128"),
        ({"inv_freq": [[1], [1, 2]]}, TypeError, "inv_freq: must be real numbers, got a ragged"),
        ({"inv_freq": 1.0}, ValueError, "inv_freq: must have one axis, got 0"),
        ({"inv_freq": [[1.0]]}, ValueError, "inv_freq: must have one axis, got 2"),
        ({"inv_freq": [-0.5]}, ValueError, "inv_freq: must be from 0 to 2"),
        ({"inv_freq": [math.nan]}, ValueError, "inv_freq: must be from 0 to 2"),
        ({"inv_freq": [math.inf]}, ValueError, "inv_freq: must be from 0 to 2"),
        ({"inv_freq": [2.0**60]}, ValueError, "inv_freq: must be from 0 to 2"),
        ({"layout": "neox"}, ValueError, 'layout: must be "interleaved" or "half", got \'neox\''),
        ({"layout": None}, TypeError, "layout: must be "),
        ({"start": -1}, ValueError, "start: must be at least 0, got -1"),
        ({"start": 1.0}, TypeError, "start: must be an integer, got float"),
        ({"start": True}, TypeError, "start: must be an integer, got bool"),
        ({"axis": [0]}, ValueError, "axis: must be 2 integers from 0 to 7"),
        ({"axis": 0}, ValueError, "axis: must be 2 integers from 0 to 7"),
        ({"axis": [[0, 1]]}, ValueError, "axis: must be 2 integers from 0 to 7"),
        ({"axis": [0, 8]}, ValueError, "axis: must be 2 integers from 0 to 7"),
        ({"axis": [0, -1]}, ValueError, "axis: must be 2 integers from 0 to 7"),
        ({"axis": [0.0, 1.0]}, TypeError, "axis: must be integers, got float64"),
        ({"axis": [False, True]}, TypeError, "axis: must be integers, got bool"),
        ({"axis": "01"}, TypeError, "axis: must be integers"),
        ({"axis": [[0], [1, 2]]}, (TypeError, ValueError), "axis: must be "),
        ({"attention_factor": 0}, ValueError, "attention_factor: must be finite and above 0"),
        ({"attention_factor": -1.5}, ValueError, "attention_factor: must be finite and above 0"),
        ({"attention_factor": math.nan}, ValueError, "attention_factor: must be finite"),
        ({"attention_factor": 10**400}, ValueError, "attention_factor: must be finite"),
        ({"attention_factor": "1"}, TypeError, "attention_factor: must be a real number, got str"),
        ({"attention_factor": None}, TypeError, "attention_factor: must be a real number"),
        ({"attention_factor": True}, TypeError, "attention_factor: must be a real number"),
    ],
)
def test_wrong_arguments_of_a_plan(options, error, message):
    arguments = {"inv_freq": [1.0, 0.1], **options}
    with pytest.raises(error) as caught:
        RopePlan(**arguments)
    assert str(caught.value).startswith(f"RopePlan: {message}")


@pytest.mark.parametrize("start", [2**62, 2**63, 2**70])
def test_a_start_beyond_any_width(start):
    """Refused where it is given, or where it is used; by its own name."""
    with pytest.raises(ValueError, match=r"^(RopePlan: start|rope: (start|rotary_dim)): must "):
        rope(np.ones((2, 4)), plan=RopePlan([1.0], start=start))


def test_extreme_attention_factors():
    """Either they are refused, or turning back gives what was turned."""
    x = some((3, 4))
    for factor in (5e-324, 1e-300, 1e300):
        try:
            plan = RopePlan([1.0, 0.1], attention_factor=factor)
        except ValueError as error:
            assert str(error).startswith("RopePlan: attention_factor: must ")
            continue
        y = rope(x, plan=plan)
        if (np.abs(y) > 1e-290).all():
            np.testing.assert_allclose(rope(y, plan=plan, inverse=True), x, rtol=0, atol=1e-14)
        assert np.isfinite(rope(y, plan=plan, inverse=True)).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dim": 0}, ValueError, "dim: must be at least 1, got 0"),
        ({"dim": 8.0}, TypeError, "dim: must be an integer, got float"),
        ({"dim": 7}, ValueError, "dim: must be even, got 7"),
        ({"rotary_dim": 0}, ValueError, "rotary_dim: must be at least 1"),
        ({"rotary_dim": 3}, ValueError, "rotary_dim: must be even, got 3"),
        ({"rotary_dim": 10}, ValueError, "rotary_dim: must be at most 8, got 10"),
        ({"rotary_dim": 4, "start": 5}, ValueError, "rotary_dim: must be at most 3, got 4"),
        ({"rotary_dim": "4"}, TypeError, "rotary_dim: must be an integer, got str"),
        ({"start": -1}, ValueError, "start: must be at least 0"),
        ({"start": None}, TypeError, "start: must be an integer"),
        ({"layout": "gptj"}, ValueError, "layout: must be "),
        ({"base": 0}, ValueError, "base: must be finite and above 0"),
        ({"base": math.inf}, ValueError, "base: must be finite and above 0"),
        ({"base": None}, TypeError, "base: must be a number, got NoneType"),
        ({"scaling": [4.0]}, TypeError, "scaling: must be a dictionary, got list"),
        ({"scaling": "yarn"}, TypeError, "scaling: must be a dictionary, got str"),
        ({"scaling": {"type": "warp"}}, ValueError, "type: must be one of "),
        ({"scaling": {"type": "linear"}}, ValueError, "factor: is missing"),
        ({"scaling": {"type": "linear", "factor": 0}}, ValueError, "factor: must be "),
        ({"scaling": {"type": "linear", "factor": 2, "faktor": 2}}, ValueError, "faktor: is not"),
        ({"scaling": {"type": "linear", "factor": 2}, "base": -1}, ValueError, "base: must be "),
        ({"scaling": {"type": "linear", "factor": 2}, "base": "1"}, TypeError, "base: must be "),
        (
            {"scaling": {"type": "linear", "factor": 2, "rope_theta": 6.0}, "base": 5.0},
            ValueError,
            "rope_theta: must be the base, 5.0, got 6.0",
        ),
        ({"scaling": {"type": "linear", "factor": 2}, "seq_len": 0}, ValueError, "seq_len: must "),
        ({"scaling": {"type": "linear", "factor": 2}, "seq_len": 1.5}, TypeError, "seq_len: must"),
    ],
)
def test_wrong_arguments_of_rope_plan(options, error, message):
    with pytest.raises(error) as caught:
        rope_plan(**{"dim": 8, **options})
    assert str(caught.value).startswith(f"rope_plan: {message}")


SECTIONS = ["abc", 5, [1, 1, "a"], [1, 1], [1, 1, -1], [2, 2, 2], [1.0, 1.0, 2.0], [True, 1, 2]]


@pytest.mark.parametrize("sections", [*SECTIONS, [10**6, 10**6, 10**6]], ids=str)
def test_wrong_sections(sections):
    """Four pairs need three whole numbers whose sum is 4."""
    with pytest.raises((TypeError, ValueError), match=r"^rope_plan: mrope_section: must "):
        rope_plan(8, scaling={"rope_type": "default", "mrope_section": sections})


def test_numbers_of_a_scaling_that_its_method_does_not_use():
    for key in ("alpha", "original_max_position_embeddings", "max_position_embeddings"):
        with pytest.raises(ValueError, match=f"^rope_plan: {key}: must be .* got 'x'"):
            rope_plan(8, scaling={"type": "linear", "factor": 2.0, key: "x"})
    with pytest.raises(ValueError, match="^rope_plan: attention_factor: must be from 2"):
        rope_plan(
            8,
            scaling={
                "type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 64,
                "attention_factor": 1e-300,
            },
        )


def test_partial_width_of_a_scaling():
    scaling = {"rope_type": "default", "partial_rotary_factor": 0.5}
    plan = rope_plan(128, scaling=scaling)
    assert plan == rope_plan(128, rotary_dim=64) == rope_plan(128, rotary_dim=64, scaling=scaling)
    assert rope_plan(128, start=64, scaling=scaling).start == 64
    for options in ({"rotary_dim": 32}, {"scaling": {**scaling, "partial_rotary_factor": 0.01}}):
        with pytest.raises(ValueError, match="^rope_plan: partial_rotary_factor: must "):
            rope_plan(128, **{"scaling": scaling, **options})
    with pytest.raises(ValueError, match="^rope_plan: rotary_dim: must be at most 8, got 64"):
        rope_plan(128, start=120, scaling=scaling)


def test_all_problems_of_a_scaling_at_once():
    with pytest.raises(ValueError, match="^rope_plan: ") as caught:
        rope_plan(8, scaling={"type": "llama3", "factor": -1, "low_freq_factor": "x"})
    for key in ("factor", "low_freq_factor", "high_freq_factor"):
        assert f"{key}: " in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dim": 3}, ValueError, "dim: must be even, got 3"),
        ({"dim": 0}, ValueError, "dim: must be at least 1"),
        ({"dim": 4.0}, TypeError, "dim: must be an integer, got float"),
        ({"scale_base": 0}, ValueError, "scale_base: must be finite and above 0"),
        ({"scale_base": -512}, ValueError, "scale_base: must be finite and above 0"),
        ({"scale_base": math.inf}, ValueError, "scale_base: must be finite and above 0"),
        ({"scale_base": "512"}, TypeError, "scale_base: must be a real number, got str"),
        ({"center": math.nan}, ValueError, "center: must be finite"),
        ({"center": None}, TypeError, "center: must be a real number"),
        ({"base": -1}, ValueError, "base: must be "),
        ({"base": "1"}, TypeError, "base: must be "),
        ({"layout": "neox"}, ValueError, "layout: must be "),
    ],
)
def test_wrong_arguments_of_xpos_plan(options, error, message):
    with pytest.raises(error) as caught:
        xpos_plan(**{"dim": 4, **options})
    assert str(caught.value).startswith(f"xpos_plan: {message}")


@pytest.mark.parametrize("scale_base", [5e-324, 1e-310, 1e-300, 1e300])
def test_no_nan_from_an_extreme_scale_base(scale_base):
    try:
        plan = xpos_plan(4, scale_base=scale_base)
    except ValueError as error:
        assert str(error).startswith("xpos_plan: scale_base: must ")
        return
    for p in (plan, plan.for_keys()):
        assert np.isfinite(rope(some((3, 4)), [0, 1, 10**9], plan=p)).all()


def test_a_plan_for_something_else():
    for plan in ([1.0], {"inv_freq": [1.0]}, rope_plan, "yarn", (1, 2)):
        with pytest.raises(TypeError, match=r"^rope: plan: must be a RopePlan, got "):
            rope(np.ones((2, 4)), plan=plan)
    for name in ("inverse", "adjoint"):
        for value in (1, None, "yes"):
            with pytest.raises(TypeError, match=rf"^rope: {name}: must be True or False"):
                rope(np.ones((2, 4)), **{name: value})
    with pytest.raises(ValueError, match=r"^rope: adjoint: inverse and adjoint exclude each other"):
        rope(np.ones((2, 4)), inverse=True, adjoint=True)


# --- what a plan holds ----------------------------------------------------------------------------


def test_attributes():
    given = np.array([1.0, 0.5, 0.0])
    axis = np.array([0, 2, 1], np.uint8)
    plan = RopePlan(given, layout="half", start=3, axis=axis, attention_factor=2)
    given[:] = axis[:] = 7  # copied
    assert plan.inv_freq.tolist() == [1, 0.5, 0] and plan.inv_freq.dtype == np.float64
    assert plan.axis.tolist() == [0, 2, 1] and plan.axis.dtype == np.int64
    assert (plan.layout, plan.rotary_dim, plan.start) == ("half", 6, 3)
    assert plan.attention_factor == 2.0 and plan.decay is None and plan.notes == {}
    assert RopePlan([1, 2]).axis.tolist() == [0, 0]
    assert repr(plan) == "RopePlan(rotary_dim=6, layout='half', start=3, attention_factor=2.0)"
    for kind in (np.float16, np.float32, np.int8, np.uint64, ">f4"):
        assert RopePlan(np.array([2, 1], kind)).inv_freq.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("name", "value"), [("attention_factor", 2.0), ("layout", "half"), ("start", 2)]
)
def test_a_plan_cannot_be_changed_in_vain(name, value):
    """Setting an attribute is refused, or `rope` follows it."""
    x = some((3, 8))
    plan = rope_plan(8, rotary_dim=4)
    before = rope(x, plan=plan)
    try:
        setattr(plan, name, value)
    except AttributeError:
        return
    assert (rope(x, plan=plan) != before).any()


@pytest.mark.parametrize(
    "plan",
    [
        rope_plan(8, base=5e5),
        RopePlan([1, 0.1, 0.01, 0], axis=[0, 1, 2, 0], attention_factor=1.5),
        xpos_plan(8, center=5.0).for_keys(),
        rope_plan(8, scaling={"rope_type": "linear", "factor": 3.0}),
    ],
    ids=["plain", "axes", "xpos", "linear"],
)
def test_copies(plan):
    x = some((5, 8))
    right = rope(x, plan=plan, offset=10**15)
    for twin in (copy.copy(plan), copy.deepcopy(plan), pickle.loads(pickle.dumps(plan))):
        assert_bits(rope(x, plan=twin, offset=10**15), right)
        assert_bits(twin.inv_freq, plan.inv_freq)
        assert twin.notes == plan.notes
        assert twin == plan and hash(twin) == hash(plan)
        assert twin.for_keys() == plan.for_keys()
        for array in (twin.inv_freq, twin.axis, twin.decay, twin._parts[0]):
            if array is not None:
                with pytest.raises(ValueError, match="WRITEABLE"):
                    array.flags.writeable = True


def test_plans_that_turn_alike_are_equal():
    plan = rope_plan(8)
    same = rope_plan(8, scaling={"rope_type": "default"})
    assert plan == same and hash(plan) == hash(same) and plan.notes != same.notes
    others = [
        rope_plan(8, base=9999.0),
        rope_plan(8, layout="half"),
        rope_plan(10, rotary_dim=8, start=2),
        RopePlan(plan.inv_freq),  # rounded to float64
        RopePlan([1.0, 0.1, 0.01, 0.001], axis=[0, 0, 0, 1]),
        rope_plan(8, scaling={"rope_type": "linear", "factor": 2.0}),
        xpos_plan(8),
        xpos_plan(8, center=1.0),
        xpos_plan(8).for_keys(),
    ]
    assert len({plan, same, *others}) == 1 + len(others)
    assert plan != 8 and plan != "plan" and (plan == None) is False  # noqa: E711
    tables = {plan: "a table"}
    assert tables[same] == "a table"


def test_notes_are_for_reading():
    plan = rope_plan(8, scaling={"rope_type": "linear", "factor": 2.0})
    with pytest.raises(TypeError):
        plan.notes["base"] = 3.0
    with pytest.raises(AttributeError, match="^RopePlan: notes: cannot be changed"):
        plan.notes = {}
    assert not hasattr(plan.notes, "clear")
    with pytest.raises(TypeError):
        plan.notes["scaling"]["factor"] = 99
    short = {"type": "su", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "factor": 4.0}
    notes = rope_plan(8, scaling={**short, "original_max_position_embeddings": 64}).notes
    assert isinstance(notes["scaling"]["short_factor"], tuple)


class Named(RopePlan):
    """A plan of a user's own."""

    name = "mine"


def test_copies_of_a_subclass():
    plan = Named([1.0, 0.1])
    for twin in (copy.copy(plan), copy.deepcopy(plan), pickle.loads(pickle.dumps(plan))):
        assert type(twin) is Named and twin == plan


def test_a_plan_of_nothing():
    assert "channels          none, interleaved layout" in RopePlan([]).explain()


@pytest.mark.parametrize("name", ["layout", "inv_freq", "_parts", "notes"])
def test_nothing_of_a_plan_can_be_deleted(name):
    with pytest.raises(AttributeError, match=f"^RopePlan: {name}: cannot be deleted"):
        delattr(rope_plan(4), name)


# --- several axes ---------------------------------------------------------------------------------


AXES = [
    [0, 0, 1, 1, 2, 2],
    [0, 1, 2, 0, 1, 2],
    [2, 1, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 1],
    [3, 0, 3, 0, 3, 0],  # two axes that turn nothing
    [1, 1, 1, 1, 1, 1],
    [7, 6, 5, 4, 3, 2],
]


@by_layout
@by_dtype
@pytest.mark.parametrize("factor", [1.0, 1.25])
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_each_pair_follows_its_axis(axis, factor, dtype, layout):
    """Pair by pair as a plan of one axis, bit for bit; that one is held against MPFR elsewhere."""
    freq = [1.0, 0.3, 0.1, 0.03, 0.01, 0.0]
    options = {"layout": layout, "start": 1, "attention_factor": factor}
    plan, plain = RopePlan(freq, axis=axis, **options), RopePlan(freq, **options)
    rng = np.random.default_rng(5)
    p = rng.integers(-(2**53), 2**53, (max(axis) + 1, 2, 70))
    x = some((2, 70, 15), dtype)
    for kind in (p, p.astype(np.float64)):
        for back in ({}, {"inverse": True}, {"adjoint": True}):
            got = rope(x, kind, plan=plan, **back)
            right = x.copy()
            first, second = firsts_and_seconds(layout, 6)
            for a, only in enumerate(p):
                turned = rope(x, only, plan=plain, **back)
                on = np.array(axis) == a
                for channels in (first[on] + 1, second[on] + 1):
                    right[..., channels] = turned[..., channels]
            assert_bits(got, right)


@by_layout
def test_text_on_a_plan_of_several_axes(layout):
    """Without positions, and with equal ones, all axes are alike: the plain plan, bit for bit."""
    freq = rope_plan(12).inv_freq
    for factor in (1.0, 0.75):
        plain = RopePlan(freq, layout=layout, attention_factor=factor)
        plan = RopePlan(freq, layout=layout, attention_factor=factor, axis=[0, 1, 2, 0, 1, 2])
        for dtype in DTYPES:
            x = some((2, 3, 130, 12), dtype)
            assert_bits(rope(x, plan=plan), rope(x, plan=plain))
            assert_bits(rope(x, plan=plan, offset=2**40), rope(x, plan=plain, offset=2**40))
            rows = [30, -25]
            assert_bits(rope(x, plan=plan, offset=rows), rope(x, plan=plain, offset=rows))
            p = np.arange(130) * 3 + 0.5
            assert_bits(rope(x, np.array([p] * 3), plan=plan), rope(x, p, plan=plain))
            batch = np.array([p, -p])
            assert_bits(rope(x, np.array([batch] * 3), plan=plan), rope(x, batch, plan=plain))
            moved = np.arange(130)[:, None]
            swapped = x.swapaxes(1, 2)
            assert_bits(
                rope(swapped, np.array([moved[:, 0]] * 3), plan=plan, seq_axis=1, offset=4),
                rope(swapped, plan=plain, seq_axis=1, offset=4),
            )


def test_wrong_positions_for_several_axes():
    plan = RopePlan([1.0, 0.1, 0.01], axis=[0, 1, 2])
    x = np.ones((4, 5, 6))
    for p in (
        np.arange(5),  # one axis
        np.zeros((2, 5)),
        np.zeros((4, 5)),
        np.zeros((3, 4)),
        np.zeros((3, 5, 4)),
        np.zeros((3, 4, 5, 1)),
        np.zeros((3, 4, 5))[:2],
        [[0], [1], [math.nan]],
    ):
        with pytest.raises(ValueError, match=r"^rope: positions: must "):
            rope(x, p, plan=plan, out=x)
    assert (x == 1).all()
    with pytest.raises(ValueError, match=r"^rope: offset: must have shape \(4,\), got \(3,\)"):
        rope(x, np.zeros((3, 5)), plan=plan, offset=[1, 2, 3])


def test_one_position_for_all_rows():
    plan = RopePlan([1.0, 0.1, 0.01], axis=[0, 1, 2])
    x = some((4, 6))
    assert_bits(rope(x, [1, 2, 3], plan=plan), rope(x, np.tile([[1], [2], [3]], 4), plan=plan))
    assert rope(np.zeros((0, 6)), np.zeros((3, 0)), plan=plan).shape == (0, 6)


@pytest.mark.parametrize(("case", "sections", "interleaved"), MROPE)
def test_mrope_of_transformers(case, sections, interleaved):
    scaling = {
        "rope_type": "default",
        "rope_theta": case["rope_theta"],
        "mrope_section": sections,
        "mrope_interleaved": interleaved,
    }
    plan = rope_plan(case["head_dim"], layout="half", scaling=scaling)
    x = np.zeros((1, 4, 16))
    x[..., :8] = 1  # comes back as cosines, then sines
    got = rope(x, case["position_ids"], plan=plan)[0]
    right = np.hstack([np.array(case[key]).reshape(4, 16)[:, :8] for key in ("cos", "sin")])
    np.testing.assert_allclose(got, right, rtol=0, atol=2.0**-21)  # float32 angles up to 9


def test_lanes_of_mrope():
    """Qwen3-VL: time, height, width by turns; positions 10, 3 and 5."""
    scaling = {"rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True}
    plan = rope_plan(16, base=1e6, layout="half", scaling=scaling)
    assert plan.axis.tolist() == [0, 1, 2, 0, 1, 2, 0, 0]
    x = np.zeros(16)
    x[:8] = 1
    right = [-0.839071529076, 0.861040649441, 0.987526019975, 0.998419277793]
    right += [0.999995500003, 0.999999604715, 0.99999995, 0.999999998419]
    np.testing.assert_allclose(rope(x, [10, 3, 5], plan=plan)[:8], right, rtol=0, atol=6e-13)
    chunked = rope_plan(16, scaling={"rope_type": "default", "mrope_section": [4, 2, 2]})
    assert chunked.axis.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]


# --- the attention factor -------------------------------------------------------------------------


PLANS = {
    "plain": lambda layout: RopePlan(rope_plan(16).inv_freq, layout=layout),
    "factor": lambda layout: RopePlan([1, 0.1, 0.01], layout=layout, attention_factor=1.1386),
    "small factor": lambda layout: RopePlan([1, 0.1], layout=layout, attention_factor=0.1),
    "axes": lambda layout: RopePlan([1, 0.1, 0.01], layout=layout, axis=[0, 1, 1]),
    "axes, factor": lambda layout: RopePlan(
        [1, 0.1, 0.01], layout=layout, axis=[0, 2, 1], attention_factor=3.0, start=4
    ),
    "xpos": lambda layout: xpos_plan(16, layout=layout, center=3.0),
    "xpos keys": lambda layout: xpos_plan(16, layout=layout, center=3.0).for_keys(),
}


@by_layout
@by_dtype
def test_the_norm_is_multiplied_by_the_factor(dtype, layout):
    eps = 2.0 ** -{"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[dtype.name]
    x = some((300, 16), dtype)
    for m in (0.5, 1.0, 1.138629436112, 1.346573590280, 4.0):
        plan = RopePlan(rope_plan(16).inv_freq, layout=layout, attention_factor=m)
        y = rope(x, plan=plan, offset=10**6)
        first, second = firsts_and_seconds(layout, 8)
        norms = [np.hypot(z[:, first].astype(float), z[:, second].astype(float)) for z in (x, y)]
        np.testing.assert_allclose(norms[1] / norms[0], m, rtol=3 * eps)


@by_layout
@by_dtype
@pytest.mark.parametrize("name", PLANS)
def test_the_way_back(name, dtype, layout):
    """The inverse undoes the rotation, factor, decay and all."""
    plan = PLANS[name](layout)
    eps = 2.0 ** -{"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[dtype.name]
    x = some((200, 16), dtype)
    for offset in (0, 10**6 if plan.decay is None else 300):
        y = rope(x, plan=plan, offset=offset)
        back = rope(y, plan=plan, offset=offset, inverse=True)
        first, second = firsts_and_seconds(layout, plan.rotary_dim // 2)
        first, second = first + plan.start, second + plan.start
        wide, back = x.astype(float), back.astype(float)
        norm = np.hypot(wide[:, first], wide[:, second])
        errors = np.maximum(np.abs(back - wide)[:, first], np.abs(back - wide)[:, second])
        assert (errors / norm).max() < 5 * eps
        out = y.copy()
        assert rope(out, plan=plan, offset=offset, inverse=True, out=out) is out
        assert_bits(out, rope(y, plan=plan, offset=offset, inverse=True))


@by_layout
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PLANS)
def test_the_adjoint_is_the_transpose(name, dtype, layout):
    """<rope(x), y> = <x, adjoint(y)>, and the whole matrix is the transposed one."""
    plan = PLANS[name](layout)
    eps = np.finfo(dtype).eps
    x, y = some((50, 16), dtype), some((50, 16), dtype, seed=2)
    ours = (rope(x, plan=plan).astype(float) * y).sum(axis=1)
    theirs = (rope(y, plan=plan, adjoint=True).astype(float) * x).sum(axis=1)
    scale = np.linalg.norm(rope(x, plan=plan).astype(float), axis=1) * np.linalg.norm(y, axis=1)
    assert (np.abs(ours - theirs) / scale).max() < 8 * eps
    for p in (0, 7, -1000):
        where = np.full((*(() if not plan.axis.any() else (plan.axis.max() + 1,)), 16), p)
        forth = rope(np.eye(16, dtype=dtype), where, plan=plan)
        back = rope(np.eye(16, dtype=dtype), where, plan=plan, adjoint=True)
        np.testing.assert_array_equal(back, forth.T)


def test_decoding_with_a_factor():
    """A full run of 12 rows is one of 9 and three single steps, bit for bit."""
    x = some((2, 12, 16), np.float32)
    for layout in LAYOUTS:
        for make in PLANS.values():
            plan = make(layout)
            steps = [x[:, :9], *(x[:, k : k + 1] for k in (9, 10, 11))]
            starts = (0, 9, 10, 11)
            parts = [rope(s, plan=plan, offset=p) for s, p in zip(steps, starts, strict=True)]
            assert_bits(np.concatenate(parts, axis=1), rope(x, plan=plan))


def test_grouping_cannot_be_seen():
    x = some((3, 700, 4, 16), np.float32)
    for make in PLANS.values():
        plan = make("half")
        whole = rope(x, plan=plan, seq_axis=1)
        for p in (0, 1, 63, 64, 65, 127, 500, 699):
            row = rope(x[:, p : p + 1], plan=plan, seq_axis=1, offset=p)
            assert_bits(row, np.ascontiguousarray(whole[:, p : p + 1]))
        transposed = rope(np.ascontiguousarray(x.swapaxes(1, 2)), plan=plan)
        assert_bits(np.ascontiguousarray(transposed.swapaxes(1, 2)), whole)


def test_offsets_by_row():
    """Rows of a batch whose caches have different lengths."""
    x = some((2, 3, 5, 16), np.float32)
    for make in PLANS.values():
        plan = make("interleaved")
        got = rope(x, plan=plan, offset=[30, 25])
        for row, offset in enumerate((30, 25)):
            assert_bits(got[row], rope(x[row], plan=plan, offset=offset))


# --- scalings -------------------------------------------------------------------------------------


CASES = [
    pytest.param(method, case, id=f"{method}-{i}")
    for method, cases in STORED["rope_init"].items()
    for i, case in enumerate(cases)
]


@pytest.mark.parametrize(("method", "case"), CASES)
def test_scalings_of_transformers(method, case):
    """Frequencies and factor as transformers has them, and `rope` turns by these."""
    head, part = case["head_dim"], case["rope_parameters"].get("partial_rotary_factor", 1.0)
    width = head if method == "proportional" else int(head * part)
    scaling = {
        **case["rope_parameters"],
        "max_position_embeddings": case["max_position_embeddings"],
    }
    plan = rope_plan(
        head, layout="half", rotary_dim=width, scaling=scaling, seq_len=case["seq_len"]
    )
    right = np.array(case["inv_freq_f32"], np.float32)
    assert len(plan.inv_freq) == len(right)
    assert (np.abs(plan.inv_freq - right) <= FLOAT32 * plan.inv_freq).all()
    factor = plan.attention_factor
    assert factor == pytest.approx(case["attention_factor"], rel=2**-52, abs=0)
    assert (plan.layout, plan.rotary_dim, plan.start) == ("half", width, 0)
    assert plan.notes["method"] == method and plan.notes["head_dim"] == head
    assert plan.notes["base"] == case["rope_parameters"]["rope_theta"]
    x = np.zeros((3, head))
    x[:, : width // 2] = 1
    y = rope(x, [0, 1, 7], plan=plan)
    angles = np.array([[0], [1], [7]]) * plan.inv_freq
    right = np.hstack([np.cos(angles), np.sin(angles)]) * factor
    np.testing.assert_allclose(y[:, :width], right, rtol=0, atol=1e-15 * (1 + factor))


def test_dynamic_follows_the_length_and_goes_back():
    scaling = {"type": "dynamic", "factor": 2.0, "max_position_embeddings": 2048}

    def base_of(length):
        return rope_plan(128, scaling=scaling, seq_len=length).inv_freq[1] ** -64.0

    assert base_of(2048) == pytest.approx(10000, rel=1e-12)
    assert base_of(4096) == pytest.approx(30527.7367488, rel=1e-11)
    assert base_of(2049) == pytest.approx(10009.92071178585, rel=1e-12)
    assert base_of(2048) == pytest.approx(10000, rel=1e-12)
    assert base_of(None) == pytest.approx(10000, rel=1e-12)
    notes = rope_plan(128, scaling=scaling, seq_len=4096).notes
    assert (notes["trained"], notes["extended"], notes["seq_len"]) == (2048, 4096, 4096)


def test_no_scaling_is_the_plain_plan():
    x = some((40, 16))
    plain = rope(x, plan=rope_plan(16, base=5e5), offset=10**12)
    for scaling in ({}, {"rope_type": "default"}, {"type": "linear", "factor": 1.0}):
        assert_bits(rope(x, plan=rope_plan(16, base=5e5, scaling=scaling), offset=10**12), plain)
    own = rope_plan(16, scaling={"rope_type": "default", "rope_theta": 5e5})
    assert_bits(rope(x, plan=own, offset=10**12), plain)


def test_linear_divides_positions():
    x = some((5, 16))
    plan = rope_plan(16, scaling={"type": "linear", "factor": 4.0})
    p = np.array([8, 12, 2**40, -4, 0])
    assert_bits(rope(x, p, plan=plan), rope(x, p // 4))


def test_magnitudes_of_yarn():
    yarn = {"rope_type": "yarn", "original_max_position_embeddings": 4096}
    for factor, right in (
        (4.0, 1.138629436112),
        (16.0, 1.277258872224),
        (32.0, 1.346573590280),
        (64.0, 1.415888308336),
        (1.0, 1.0),
    ):
        plan = rope_plan(64, scaling={**yarn, "factor": factor})
        assert plan.attention_factor == pytest.approx(right, abs=6e-13)
        x = np.ones((1, 64))
        norm = np.linalg.norm(rope(x, [77], plan=plan)) / np.linalg.norm(x)
        assert norm == pytest.approx(right, abs=6e-13)
    given = rope_plan(64, scaling={**yarn, "factor": 4.0, "attention_factor": 1.0})
    assert given.attention_factor == 1.0
    for mscale, everywhere, right in ((0.707, 1.0, 0.921042355316), (1.0, 1.0, 1.0)):
        more = {"factor": 40.0, "mscale": mscale, "mscale_all_dim": everywhere}
        plan = rope_plan(64, scaling={**yarn, **more})
        assert plan.attention_factor == pytest.approx(right, abs=6e-13)


def test_scaled_frequencies_are_kept_to_more_than_53_bits():
    """At 10^15 tokens the 53 bits of inv_freq are an angle off by whole turns."""
    plan = rope_plan(4, base=3.0, scaling={"type": "linear", "factor": 7.0})
    with mp.workdps(60):
        w = mpf(3) ** (-mpf(1) / 2) / 7
        right = [float(mpmath.cos(10**15 * w)), float(mpmath.sin(10**15 * w))]
    got = rope(np.array([0.0, 0, 1, 0]), 10**15, plan=plan)[2:]
    assert got.tolist() == right


def test_notes_and_explain():
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    plan = rope_plan(128, base=1e6, layout="half", rotary_dim=64, start=8, scaling=scaling)
    notes = {"head_dim": 128, "method": "yarn", "base": 1e6, "factor": 4.0, "trained": 4096}
    assert notes.items() <= plan.notes.items() and plan.notes["extended"] == 16384
    text = plan.explain().splitlines()
    for line in (
        "method            yarn, factor 4",
        "base              1000000",
        "length            4096 trained, 16384 extended",
        "channels          8 to 71 of 128 turn, half layout",
        "attention factor  1.138629436",
    ):
        assert line in text
    counts = next(line for line in text if line.startswith("pairs "))
    kept = int(np.isclose(plan.inv_freq, rope_plan(64, base=1e6).inv_freq, rtol=1e-12).sum())
    slow = int(np.isclose(plan.inv_freq, rope_plan(64, base=1e6).inv_freq / 4, rtol=1e-12).sum())
    wanted = f"{kept} kept, {32 - kept - slow} blended, {slow} stretched"
    assert counts.split(maxsplit=1)[1] == wanted

    plain = rope_plan(8)
    assert {"method": "default", "base": 1e4, "head_dim": 8}.items() <= plain.notes.items()
    assert "method            default" in plain.explain()
    sections = {"rope_type": "default", "mrope_section": [1, 1, 2]}
    assert "2 on axis 2" in rope_plan(8, scaling=sections).explain()
    assert "attention factor  2" in RopePlan([1.0], attention_factor=2.0).explain()


# --- xPos -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 4, 64, 128])
@pytest.mark.parametrize("scale_base", [512, 512.0, 1.0, 12345.678])
def test_decay(dim, scale_base):
    plan = xpos_plan(dim, scale_base=scale_base)
    with mp.workdps(50):
        z = [(2 * i + mpf(2) * dim / 5) / (mpf(7) * dim / 5) for i in range(dim // 2)]
        right = [float(mpmath.log(v) / mpf(scale_base)) for v in z]
    assert plan.decay.tolist() == right
    assert_bits(plan.for_keys().decay, -plan.decay)
    assert plan.for_keys().center == plan.center == 0.0
    assert_bits(plan.inv_freq, rope_plan(dim).inv_freq)


def test_xpos_notes():
    plan = xpos_plan(8, base=5e5, scale_base=256, center=9, layout="half")
    notes = {"method": "xpos", "base": 5e5, "scale_base": 256.0, "center": 9.0, "head_dim": 8}
    assert notes.items() <= plan.notes.items()
    assert (plan.layout, plan.center) == ("half", 9.0)
    text = plan.explain()
    assert "xpos" in text and "256" in text and "center" in text.replace("centre", "center")
    with pytest.raises(ValueError, match="read-only"):
        plan.decay[0] = 1


def test_only_xpos_has_keys_of_their_own():
    plan = rope_plan(8)
    assert plan.for_keys() is plan and plan.decay is None
    xpos = xpos_plan(8)
    keys = xpos.for_keys()
    assert keys is not xpos and keys.for_keys() is keys
    assert (xpos.decay < 0).all()  # and has not been changed by asking


@by_layout
def test_xpos_multiplies_queries_and_divides_keys(layout):
    x = some((41, 8))
    first, second = firsts_and_seconds(layout, 4)
    plain = rope(x, layout=layout)
    for center in (0.0, 20.0, -7.5):
        plan = xpos_plan(8, center=center, layout=layout)
        with mp.workdps(40):
            z = [(2 * i + mpf(16) / 5) / (mpf(56) / 5) for i in range(4)]
            scale = np.array(
                [[float(v ** ((p - mpf(center)) / 512)) for v in z] for p in range(41)]
            )
        for which, power in ((plan, 1), (plan.for_keys(), -1)):
            right = plain.copy()
            right[:, first] *= scale**power
            right[:, second] *= scale**power
            np.testing.assert_allclose(rope(x, plan=which), right, rtol=0, atol=3e-15)


@by_dtype
def test_xpos_stays_finite(dtype):
    far = np.array([0, 5000, 20_000, 36_000, 10**6, 10**9, -(10**9), 2**62])
    x = some((len(far), 16), dtype)
    plan = xpos_plan(16)
    for which in (plan, plan.for_keys()):
        for back in ({}, {"inverse": True}, {"adjoint": True}):
            assert np.isfinite(rope(x, far, plan=which, **back).astype(np.float64)).all()


# --- accuracy where something multiplies ----------------------------------------------------------


def worst_error(x, got, positions, angle, multiplier, back):
    """In units in the last place of the norm of the pair, by mpmath; pairs along the last axis."""
    worst = 0
    with mp.workdps(50):
        for (a, b), (u, v), p in zip(x.tolist(), got.tolist(), positions, strict=True):
            t, m = -angle(p) if back else angle(p), multiplier(p)
            c, s = mp.cos(t), mp.sin(t)
            right = m * (a * c - b * s), m * (a * s + b * c)
            ulp = mpf(2) ** (mp.floor(mp.log(mp.hypot(*right), 2)) + 1 - mp_digits(got.dtype))
            worst = max(worst, abs(u - right[0]) / ulp, abs(v - right[1]) / ulp)
    return float(worst)


def mp_digits(dtype):
    return np.finfo(dtype).nmant + 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("how", ["forward", "inverse", "adjoint"])
@pytest.mark.parametrize("factor", [1.1902380714238083, 1.138629436111989, 1 / 3, 1e20])
def test_two_ulps_with_a_factor(factor, how, dtype):
    plan = RopePlan([0.7], attention_factor=factor)
    x = some((1500, 2), dtype)
    p = np.random.default_rng(2).integers(0, 10**6, len(x)).tolist()
    got = rope(x, p, plan=plan, inverse=how == "inverse", adjoint=how == "adjoint")
    power = -1 if how == "inverse" else 1
    w, f = mpf(0.7), mpf(factor)
    with mp.workdps(50):
        error = worst_error(x, got, p, lambda p: p * w, lambda _: f**power, how != "forward")
    assert 0.7 < error < 2


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("span", [500, 30_000, 250_000])
def test_xpos_in_float64(span, inverse):
    """As rope's notes have it: however far from the centre."""
    center = 0.1
    plan = xpos_plan(2, center=center)
    x = some((1500, 2))
    p = np.random.default_rng(2).integers(-span, span, len(x)).tolist()
    got = rope(x, p, plan=plan, inverse=inverse)
    power = -1 if inverse else 1
    with mp.workdps(60):
        z = mpf(2) / 7
        error = worst_error(
            x, got, p, mpf, lambda p: z ** (power * (p - mpf(center)) / 512), inverse
        )
    assert 1 < error < 5
