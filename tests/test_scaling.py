import decimal
import json
import math
import pathlib
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from conftest import MROPE
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from posenc.scaling import (
    check_sections,
    mrope_axes,
    scaled_frequencies,
    scaled_head,
    scaling_notes,
)

DATA = pathlib.Path(__file__).parent / "data" / "rope_init.json"
STORED = json.loads(DATA.read_text())
CASES = [
    pytest.param(method, case, id=f"{method}-{i}")
    for method, cases in STORED["rope_init"].items()
    for i, case in enumerate(cases)
]
# A float32 frequency of transformers carries the rounding of a power, of the exponent (twice, near
# the ends of llama3's ramp) and of the scaling: up to 5.4 half units in the last place are seen.
FLOAT32 = 8 * 2.0**-24


def of(dim, **more):
    freqs, attention = scaled_frequencies(dim, **more)
    return [float(w) for w in freqs], attention


# The methods once more, in mpmath, from the papers and model code.


def plain(dim, base, width=None):
    return [mpf(base) ** (-mpf(2 * i) / (width or dim)) for i in range(dim // 2)]


def ntk(dim, base, scale):
    return plain(dim, mpf(base) * mpf(scale) ** (mpf(dim) / (dim - 2)))


def ramp_ends(dim, base, trained, fast, slow, truncate):
    def turns_at(r):
        return dim * mpmath.log(mpf(trained) / (2 * mp.pi * mpf(r))) / (2 * mpmath.log(base))

    low, high = turns_at(fast), turns_at(slow) if slow else mpf(dim)
    if truncate:
        low, high = mpmath.floor(low), mpmath.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    return low, high + mpf(1) / 1000 if low == high else high


def yarn(dim, base, factor, trained, fast=32, slow=1, truncate=True):
    low, high = ramp_ends(dim, base, trained, fast, slow, truncate)
    result = []
    for i, w in enumerate(plain(dim, base)):
        blend = min(max((i - low) / (high - low), 0), 1)
        result.append(blend * w / mpf(factor) + (1 - blend) * w)
    return result


def llama3(dim, base, factor, low, high, trained):
    result = []
    for w in plain(dim, base):
        wavelength = 2 * mp.pi / w
        if wavelength < mpf(trained) / high:
            result.append(w)
        elif wavelength > mpf(trained) / low:
            result.append(w / factor)
        else:
            smooth = (trained / wavelength - low) / (mpf(high) - low)
            result.append((1 - smooth) * w / factor + smooth * w)
    return result


def mscale(factor, weight=1):
    return mpf(weight) * mpmath.log(factor) / 10 + 1 if factor > 1 else mpf(1)


def rounded(values):
    return [float(v) for v in values]


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


@pytest.mark.parametrize(("method", "case"), CASES)
def test_transformers(method, case):
    parameters = dict(case["rope_parameters"])
    part = parameters.get("partial_rotary_factor", 1.0)
    dim = case["head_dim"] if method == "proportional" else int(case["head_dim"] * part)
    got, attention = of(
        dim,
        scaling=parameters,
        seq_len=case["seq_len"],
        max_position=case["max_position_embeddings"],
        head_dim=case["head_dim"],
    )
    expected = np.array(case["inv_freq_f32"], np.float32)
    assert len(got) == len(expected)
    assert (np.abs(got - expected) <= FLOAT32 * np.array(got)).all()
    assert attention == pytest.approx(case["attention_factor"], rel=2**-52, abs=0)


# Every frequency is the float64 nearest to the exact one.


@pytest.mark.parametrize("base", [10000, 500000.0, 1e6, 1.5, 0.3, 12345.678])
@pytest.mark.parametrize("dim", [2, 6, 64, 128])
def test_plain_and_linear(dim, base):
    assert of(dim, base=base) == (rounded(plain(dim, base)), 1.0)
    scaling = {"type": "linear", "factor": 3.7}
    assert of(dim, base=base, scaling=scaling)[0] == rounded(w / mpf(3.7) for w in plain(dim, base))


@pytest.mark.parametrize("dim", [4, 64, 128])
def test_ntk(dim):
    expected = rounded(ntk(dim, 10000, 4))
    assert of(dim, scaling={"rope_type": "ntk", "factor": 4})[0] == expected
    alpha = {"rope_type": "dynamic", "alpha": 4, "factor": 1.0}  # as Hunyuan writes it
    assert of(dim, scaling=alpha)[0] == expected


def test_ntk_of_su():
    """base * s and then a further s^(2/dim): with b = 1 the same as s^(2 (i + 1) / dim)."""
    expected = [w / mpf(2) ** (mpf(2) / 64) for w in plain(64, 2 * 160000)]
    null = {"type": "ntk", "factor": 2.0, "mixed_b": None}
    assert of(64, base=160000, scaling=null)[0] == rounded(expected)
    a = mpmath.log(2) / mpf(32) ** mpf(0.5)
    expected = [w / mpmath.exp(a * mpf(m) ** mpf(0.5)) for m, w in enumerate(plain(64, 1e4), 1)]
    assert of(64, scaling={"type": "ntk", "factor": 2.0, "mixed_b": 0.5})[0] == rounded(expected)


@pytest.mark.parametrize("seq_len", [None, 1, 2048, 2049, 4096, 10**9])
def test_dynamic(seq_len):
    scaling = {"type": "dynamic", "factor": 2.5}
    live = max(seq_len or 0, 2048)
    expected = ntk(128, 10000, mpf(2.5) * live / 2048 - mpf(1.5))
    got, _ = of(128, scaling=scaling, seq_len=seq_len, max_position=2048)
    assert got == rounded(expected)
    if live == 2048:
        assert got == of(128)[0]


def test_dynamic_has_no_memory():
    """vllm#5093, transformers PR#27227: a short sequence after a long one starts afresh."""

    def base(length):
        freqs, _ = of(128, scaling={"type": "dynamic", "factor": 2}, seq_len=length, **model)
        return freqs[1] ** -64

    model = {"base": 1e4, "max_position": 2048}
    assert base(4096) == pytest.approx(30527.7367488, rel=1e-11)
    assert base(2049) == pytest.approx(10009.9207117858, rel=1e-13)
    assert base(2048) == pytest.approx(10000, rel=1e-13)


@pytest.mark.parametrize(
    ("dim", "base", "factor", "trained", "more"),
    [
        (128, 1e6, 4.0, 32768, {}),
        (64, 10000, 40, 4096, {"beta_fast": 32, "beta_slow": 1}),
        (64, 150000, 32.0, 4096, {"truncate": False}),
        (64, 50000.0, 32.0, 4096, {"beta_fast": 1.0, "beta_slow": 1.0}),
        (64, 50000.0, 32.0, 4096, {"beta_fast": 1.0, "beta_slow": 1.0, "truncate": False}),
        (16, 10000, 4.0, 20, {}),  # both ends at 0
        (64, 10000, 4.0, 4096, {"beta_slow": 0}),
        (64, 10000, 4.0, 4096, {"beta_slow": 0.25, "truncate": False}),
        (64, 10000, 1.5, 10**12, {}),
    ],
)
def test_yarn(dim, base, factor, trained, more):
    names = {"beta_fast": "fast", "beta_slow": "slow"}
    expected = yarn(dim, base, factor, trained, **{names.get(k, k): v for k, v in more.items()})
    scaling = {"factor": factor, "original_max_position_embeddings": trained, **more}
    got, attention = of(dim, base=base, scaling={"rope_type": "yarn", **scaling})
    assert got == rounded(expected)
    assert attention == float(mscale(factor))
    assert of(dim, base=base, scaling={"type": "ntk-by-parts", **scaling}) == (got, 1.0)


def test_yarn_bands():
    """pytorch/torchtitan PR#3787: with the betas swapped the wrong end is kept."""
    scaling = {"type": "yarn", "factor": 4, "original_max_position_embeddings": 4096}
    w, _ = of(128, scaling=scaling)
    assert w[20] == 0.05623413251903491
    assert w[30] == 0.009488517882700574
    assert w[46] == 0.000333380358040831
    assert w[47] == 0.00028869549617236453


@pytest.mark.parametrize(
    ("more", "attention"),
    [
        ({"factor": 4}, 1.138629436112),
        ({"factor": 16}, 1.277258872224),
        ({"factor": 32}, 1.346573590280),
        ({"factor": 64}, 1.415888308336),
        ({"factor": 1}, 1.0),
        ({"factor": 4, "attention_factor": 1.0}, 1.0),
        ({"factor": 4, "attention_factor": 0.5, "mscale": 1, "mscale_all_dim": 0.5}, 0.5),
        ({"factor": 40, "mscale": 0.707, "mscale_all_dim": 1.0}, 0.921042355316),
        ({"factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
        ({"factor": 4, "mscale": 0.5}, 1.138629436112),  # counts with the other only
        ({"factor": 4, "mscale": 0.5, "mscale_all_dim": 0}, 1.138629436112),
        ({}, 1.138629436112),  # 16384 over 4096
        ({"factor": 4, "attn_factor": 1.0, "extrapolation_factor": 1}, 1.138629436112),
        ({"factor": 4, "attn_factor": 0.5}, 0.569314718056),  # times the temperature
        ({"factor": 40, "attn_factor": 2, "mscale": 0.707, "mscale_all_dim": 1.0}, 1.842084710632),
        ({"factor": 4, "attn_factor": 1, "attention_factor": 0.5}, 0.5),
        ({"factor": 4, "apply_yarn_scaling": True}, 1.138629436112),
        ({"factor": 4, "apply_yarn_scaling": False}, 1.0),
        ({"factor": 4, "apply_yarn_scaling": False, "attn_factor": 0.5}, 0.5),
    ],
)
def test_yarn_attention(more, attention):
    scaling = {"type": "yarn", "original_max_position_embeddings": 4096, **more}
    assert of(64, scaling=scaling, max_position=16384)[1] == pytest.approx(attention, rel=1e-12)


def test_llama3():
    """jmaczan/tiny-vllm#1 and others: bands ignored, and short prompts pass."""
    numbers = {"factor": 32, "low_freq_factor": 1, "high_freq_factor": 4}
    scaling = {"rope_type": "llama3", "original_max_position_embeddings": 8192, **numbers}
    w, attention = of(64, base=500000, scaling=scaling)
    assert (w[14], attention) == (0.003211445994752591, 1.0)
    assert w[16] == pytest.approx(0.0004295567965594, rel=1e-12)
    assert w[18] == pytest.approx(1.946163818483e-05, rel=1e-12)
    assert w[31] == pytest.approx(9.41830672543e-08, rel=1e-11)
    assert w == rounded(llama3(64, 500000, 32, 1, 4, 8192))


def test_llama3_without_a_ramp():
    """Llama 4 Scout: pairs are kept or divided, and none is between."""
    numbers = {"factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0}
    scaling = {"rope_type": "llama3", "original_max_position_embeddings": 8192, **numbers}
    w, _ = of(128, base=500000, scaling=scaling)
    exact = plain(128, 500000)
    assert w == rounded(x if 2 * mpmath.pi / x < 8192 else x / 16 for x in exact)
    assert len({a / b for a, b in zip(w, map(float, exact), strict=True)}) == 2


def test_longrope():
    short, long = [1 + i / 10 for i in range(16)], [1 + 3.7 * i for i in range(16)]
    scaling = {"type": "su", "short_factor": short, "long_factor": long}
    model = {"original_max_position_embeddings": 4096}
    for seq_len, divisors in ((None, short), (1, short), (4096, short), (4097, long)):
        got, attention = of(32, scaling=scaling | model, seq_len=seq_len, max_position=131072)
        assert got == rounded(w / mpf(e) for w, e in zip(plain(32, 10000), divisors, strict=True))
        exact = mpmath.sqrt(1 + mpmath.log(32) / mpmath.log(4096))
        assert attention == float(exact) == pytest.approx(1.190238071424, rel=1e-12)
    own = scaling | model | {"short_mscale": 1.25, "long_mscale": 1.5}  # Phi-3.5-MoE
    assert of(32, scaling=own)[1] == 1.25
    assert of(32, scaling=own, seq_len=5000)[1] == 1.5
    assert of(32, scaling=scaling | model | {"attention_factor": 2})[1] == 2.0
    assert of(32, scaling=scaling | model | {"factor": 1.0})[1] == 1.0


def test_longrope_lists_follow_the_rotary_width():
    """apache/tvm PR#18102."""
    model = {"type": "longrope", "attention_factor": 1.0, "original_max_position_embeddings": 64}
    right = {"short_factor": [1, 2], "long_factor": [3, 4]}
    assert of(4, scaling=model | right, head_dim=8)[0] == rounded([1, mpf("0.005")])
    wrong = {"short_factor": [1, 2, 3, 4], "long_factor": [3, 4]}
    with pytest.raises(ValueError, match="short_factor: must be 2 numbers, got list of 4"):
        of(4, scaling=model | wrong, head_dim=8)


def test_proportional():
    scaling = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "factor": 2.0}
    expected = [w / 2 for w in plain(256, 1e6)[:32]] + [mpf(0)] * 96
    assert of(256, base=1e6, scaling=scaling)[0] == rounded(expected)
    assert of(64, base=1e6, scaling=scaling, head_dim=256)[0] == rounded(expected)


def test_linear_divides_positions():
    """lablup/mlxcel#1324."""
    w, _ = of(64, scaling={"type": "linear", "factor": 4})
    assert (np.array(w) * 8 == np.array(of(64)[0]) * 2).all()


def test_digits():
    """The decimals are right far beyond the float64, also of long products."""
    with mp.workdps(100):
        for i, w in enumerate(scaled_frequencies(4096, base=500000.0)[0]):
            exact = mpf(500000) ** (-mpf(2 * i) / 4096)
            assert abs(mpf(str(w)) / exact - 1) < mpf(10) ** -82


def test_context_of_the_caller():
    """Whatever precision and traps a program has set for its decimals."""
    scaling = {"type": "yarn", "factor": 4, "original_max_position_embeddings": 4096}
    expected = scaled_frequencies(64, scaling=scaling)
    with decimal.localcontext(prec=5, Emax=9, Emin=-9) as context:
        context.traps[decimal.Inexact] = True
        assert scaled_frequencies(64, scaling=scaling) == expected
    assert scaled_frequencies(64, scaling=scaling) == expected


@pytest.mark.parametrize(
    "scaling",
    [None, {}, {"type": "default"}, {"rope_type": None}, {"type": "mrope", "rope_type": "default"}],
)
def test_spellings_of_nothing(scaling):
    assert of(64, scaling=scaling) == of(64)


def test_today_wins_over_yesterday():
    both = {"type": "su", "rope_type": "linear", "factor": 2.0}
    assert of(64, scaling=both) == of(64, scaling={"type": "linear", "factor": 2.0})


def test_base():
    assert of(64, scaling={"rope_theta": 500000.0}) == of(64, base=500000.0)
    assert of(64, base=5e5, scaling={"rope_theta": 500000}) == of(64, base=500000.0)
    with pytest.raises(ValueError, match="rope_theta: must be the base, 1000000.0, got 500000"):
        of(64, base=1e6, scaling={"rope_theta": 500000})


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        ({"type": "linear"}, "factor: is missing"),
        ({"factor": 2.0}, "rope_type: is missing"),
        ({"type": "yarrn"}, "type: must be one of default, linear, .*, got 'yarrn'"),
        ({"rope_type": ["yarn"]}, "rope_type: must be one of .*, got list of 1"),
        ({"type": "linear", "factor": "2"}, "factor: must be a finite number .*, got '2'"),
        ({"type": "linear", "factor": True}, "factor: .* got True"),
        ({"type": "linear", "factor": 0.5}, "factor: must be .* at least 1, got 0.5"),
        ({"type": "linear", "factor": -4}, "factor: .* got -4"),
        ({"type": "linear", "factor": math.nan}, "factor: .* got nan"),
        ({"type": "linear", "factor": math.inf}, "factor: .* got inf"),
        ({"type": "linear", "factor": 10**5000}, "factor: .* got an integer of 16610 bits"),
        ({"type": "linear", "factor": [2.0] * 9}, "factor: .* got list of 9"),
        ({"type": "linear", "factor": 2, "faktor": 2}, "faktor: is not a key of any scaling"),
        ({"type": "linear", "factor": 2, 7: 2}, "7: is not a key of any scaling"),
        ({"type": "dynamic", "factor": 2}, "max_position_embeddings: is missing"),
        ({**YARN, "beta_fast": 0.5}, "beta_fast: must be at least beta_slow, 1, got 0.5"),
        ({**YARN, "beta_fast": 0}, "beta_fast: must be .* above 0, got 0"),
        ({**YARN, "beta_slow": -1}, "beta_slow: .* got -1"),
        ({**YARN, "truncate": 0}, "truncate: must be true or false, got 0"),
        ({**YARN, "attention_factor": 0}, "attention_factor: must be .* above 0, got 0"),
        ({**YARN, "original_max_position_embeddings": 0}, "original_max.*: .* got 0"),
        ({"type": "yarn", "factor": 2.0}, "original_max_position_embeddings: is missing"),
        ({**LLAMA3, "high_freq_factor": 0.5}, "high_freq_factor: must be at least low_freq_factor"),
        ({**YARN, "rope_theta": 1.0}, "rope_theta: must be above 1"),
        ({"type": "default", "rope_theta": 0}, "rope_theta: must be .* above 0, got 0"),
        ({"type": "default", "partial_rotary_factor": 2.0}, "partial_rotary_factor: must be at"),
        ({"type": "linear", "factor": 1e300}, "frequencies: must be from 2.-900 to 2.60, got some"),
        ({"type": "ntk", "factor": 1e300, "mixed_b": 1e300}, "frequencies: must be from"),
        ({"type": "linear", "factor": 2, "rope_theta": 1e300}, "rope_theta: must give .* 1e.300"),
        ({"type": "yarn", "factor": 2, "original_max_position_embeddings": 9.5}, "got 9.5"),
        ({"type": "dynamic", "factor": 2, "max_position_embeddings": "64"}, "max_.*: .* got '64'"),
        ({**YARN, "attention_factor": 1e-300}, "attention_factor: must be from .* got 1e-300"),
        ({**YARN, "attn_factor": 1e-300}, "attn_factor: must make an attention factor from"),
        ({**YARN, "mscale": 1e300, "mscale_all_dim": 1.0}, "mscale: must make an attention"),
        ({**YARN, "extrapolation_factor": 0.5}, "extrapolation_factor: must be 1, got 0.5"),
        ({**YARN, "attention_factor": 1.5, "attn_factor": 2}, "attn_factor: must be 1 beside att"),
    ],
)
def test_one_problem(scaling, message):
    with pytest.raises(ValueError, match=f"^scaled_frequencies: .*{message}") as error:
        of(64, scaling=scaling)
    assert len(str(error.value)) < 400


WRONG = {
    "rope_theta": ["x", 0, math.nan, True, [1]],
    "partial_rotary_factor": ["x", 0, 1.5],
    "original_max_position_embeddings": ["x", -5, 0, 8.5, [1], 2**63],
    "max_position_embeddings": ["x", -5, 0, 64.0, 2**63],
    "short_factor": ["x", 1.0, [0.0], ["x"]],
    "long_factor": [{}, [1.0, math.nan]],
    **dict.fromkeys(["factor", "alpha"], ["x", 0.5, math.inf, 10**400, [1], True]),
    **dict.fromkeys(["beta_slow", "mscale", "mscale_all_dim", "llama_4_scaling_beta"], ["x", -1]),
    **dict.fromkeys(["mixed_b", "beta_fast", "attention_factor"], ["x", 0, math.nan, 10**400]),
    **dict.fromkeys(["attn_factor", "extrapolation_factor"], ["x", -1, math.nan, 10**400]),
    **dict.fromkeys(["short_mscale", "long_mscale"], ["x", 0, -1.0]),
    **dict.fromkeys(["low_freq_factor", "high_freq_factor"], ["x", 0, "1"]),
    **dict.fromkeys(["truncate", "finetuned", "apply_yarn_scaling"], ["x", 0, 1]),
}


@pytest.mark.parametrize("key", WRONG)
def test_every_key_is_looked_at(key):
    """Whatever the method: nobody knows who reads it later."""
    lists = {"short_factor": [1.0] * 4, "long_factor": [1.0] * 4}
    methods = [{"type": "default"}, {"type": "linear", "factor": 2.0}, YARN, LLAMA3]
    methods += [{"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 64}]
    methods += [{"type": "su", "attention_factor": 1.0, "max_position_embeddings": 64, **lists}]
    for method in methods:
        scaled_frequencies(8, scaling=method)
        for value in WRONG[key]:
            with pytest.raises(ValueError) as error:
                scaled_frequencies(8, scaling={**method, key: value})
            assert re.match(rf"scaled_frequencies: {key}(\[\d\])?: ", str(error.value))
            assert ";" not in str(error.value)  # said once, and nothing else is


def test_all_problems_at_once():
    scaling = {**LLAMA3, "factor": math.nan, "low_freq_factor": "x", "rope_theta": -1, "betas": 1}
    del scaling["high_freq_factor"]
    with pytest.raises(ValueError) as error:
        of(64, scaling=scaling)
    message = str(error.value)
    for key in ("factor", "low_freq_factor", "high_freq_factor", "rope_theta", "betas"):
        assert f" {key}: " in message
    assert "original_max_position_embeddings" not in message


@pytest.mark.parametrize("item", [0, -1.0, math.nan, math.inf, None, "1", True, [1.0]])
def test_bad_item_of_a_list(item):
    scaling = {
        "type": "longrope",
        "original_max_position_embeddings": 64,
        "attention_factor": 1.0,
        "long_factor": [1.0, 2.0, 3.0],
        "short_factor": [1.0, 2.0, item],
    }
    with pytest.raises(ValueError, match=r"short_factor\[2\]: must be a finite number above 0"):
        of(6, scaling=scaling)


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [
        ({"dim": 3}, ValueError),
        ({"dim": 0}, ValueError),
        ({"dim": 1 << 40}, ValueError),
        ({"dim": 64.0}, TypeError),
        ({"dim": 64, "head_dim": -1}, ValueError),
        ({"dim": 64, "seq_len": 0}, ValueError),
        ({"dim": 64, "seq_len": 1.5}, TypeError),
        ({"dim": 64, "max_position": "1"}, TypeError),
        ({"dim": 64, "scaling": [("type", "linear")]}, TypeError),
        ({"dim": 64, "base": -1.0}, ValueError),
        ({"dim": 64, "base": "1e4"}, TypeError),
        ({"dim": 64, "base": np.array([1e4])}, TypeError),
        ({"dim": 2, "scaling": {"type": "ntk", "factor": 2}}, ValueError),
    ],
)
def test_arguments(kwargs, error):
    with pytest.raises(error, match="^scaled_frequencies: "):
        scaled_frequencies(**kwargs)


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=3),
    st.lists(st.floats(), max_size=4),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
KEYS = (
    "factor alpha mixed_b beta_fast beta_slow truncate attention_factor mscale mscale_all_dim "
    "original_max_position_embeddings low_freq_factor high_freq_factor short_factor long_factor"
).split()


@given(
    st.sampled_from("linear ntk dynamic ntk-by-parts yarn longrope llama3 proportional".split()),
    st.dictionaries(st.sampled_from(KEYS), JUNK),
    st.sampled_from([2, 4, 64]),
    st.one_of(st.none(), st.integers(1, 2**63)),
)
def test_junk(method, values, dim, length):
    """Any value of any key gives finite frequencies or a ValueError."""
    try:
        freqs, attention = scaled_frequencies(
            dim, scaling={"type": method, **values}, seq_len=length, max_position=length
        )
    except ValueError as error:
        assert str(error).startswith("scaled_frequencies: ")
    else:
        assert all(w.is_finite() and w >= 0 for w in freqs)
        assert 0 < attention < math.inf


ORIGINAL = {"original_max_position_embeddings": 4096}
DYNAMIC = {"type": "dynamic", "factor": 2, "max_position_embeddings": 64}
LONG = {"max_position": 256}


@pytest.mark.parametrize(
    ("scaling", "more", "trained", "extended", "factor"),
    [
        (None, {"max_position": 4096}, 4096, None, None),
        (YARN, {"max_position": 4096}, 4096, 16384, 4),
        (YARN, {"max_position": 16384}, 4096, 16384, 4),
        (LLAMA3, {"max_position": 131072}, 8192, 131072, 8),
        ({"type": "dynamic", "factor": 2}, {"max_position": 2048}, 2048, 4096, 2),
        ({"type": "linear", "factor": 8}, {"max_position": 131072}, None, 131072, 8),
        ({"type": "linear", "factor": 8, "max_position_embeddings": 64}, {}, None, 64, 8),
        ({"type": "linear", "factor": 8, "max_position_embeddings": 64}, LONG, None, 256, 8),
        (DYNAMIC, {}, 64, 128, 2),
        (DYNAMIC, LONG, 256, 512, 2),
        ({**DYNAMIC, "alpha": 4}, {}, 64, 256, 4),
        ({"type": "default", "alpha": 4, "factor": 2}, LONG, 256, None, None),
        ({"type": "ntk", "alpha": 4, "factor": 2, "mixed_b": None}, {}, None, None, 2),
        ({"type": "dynamic", "factor": 2, **ORIGINAL}, {}, 4096, 8192, 2),
        ({"type": "yarn", **ORIGINAL}, {"max_position": 16384}, 4096, 16384, 4),
        ({"type": "yarn", **ORIGINAL, "max_position_embeddings": 12288}, {}, 4096, 12288, 3),
        ({**YARN, "factor": np.float32(2.5)}, {}, 4096, 10240, 2.5),
        ({**YARN, "factor": Fraction(10, 4)}, {}, 4096, 10240, 2.5),
        ({**YARN, "original_max_position_embeddings": np.int32(64)}, {}, 64, 256, 4),
        ({"type": "su", "attention_factor": 1.0, **ORIGINAL}, {}, 4096, None, None),
    ],
)
def test_notes(scaling, more, trained, extended, factor):
    with decimal.localcontext(prec=2, Emax=1, Emin=-1) as context:
        context.traps[decimal.Inexact] = True
        notes = scaling_notes(scaling, 1e4, **more)
    assert (notes["trained"], notes["extended"], notes["factor"]) == (trained, extended, factor)
    assert type(notes["trained"]) in (int, type(None))
    assert notes["base"] == 1e4


# --- a whole head ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dim", "rotary_dim", "part", "width"),
    [(128, None, 0.5, 64), (128, 64, 0.5, 64), (96, None, 0.4, 38), (80, 32, None, 32)]
    + [(8, None, None, 8), (8, 8, 1.0, 8), (7, None, 0.9, 6)],
)
def test_partial_width(dim, rotary_dim, part, width):
    """int(dim * part) of the channels, as in every model."""
    scaling = {"type": "linear", "factor": 2.0, "partial_rotary_factor": part}
    head = scaled_head("f", dim, scaling, rotary_dim=rotary_dim)
    right = scaled_frequencies(width, scaling={"type": "linear", "factor": 2.0})[0]
    assert (head.frequencies, head.attention_factor, head.axis) == (right, 1.0, None)
    assert (head.notes["method"], head.notes["factor"]) == ("linear", 2.0)


def test_proportional_of_a_head():
    scaling = {"rope_type": "proportional", "partial_rotary_factor": 0.25}
    right = scaled_frequencies(256, scaling=scaling)[0]
    assert scaled_head("f", 256, scaling).frequencies == right
    assert scaled_head("f", 256, scaling, rotary_dim=256).frequencies == right
    with pytest.raises(ValueError, match="^f: rotary_dim: must be 256 here, got 64"):
        scaled_head("f", 256, scaling, rotary_dim=64)


def test_base_of_a_head():
    own = {"type": "default", "rope_theta": 5e5}
    right = scaled_frequencies(64, base=5e5)[0]
    for scaling, base in ((own, 1e4), (own, 5e5), ({}, 5e5), (own, np.array(5e5))):
        head = scaled_head("f", 64, scaling, base=base)
        assert (head.frequencies, head.notes["base"]) == (right, 5e5)
    with pytest.raises(ValueError, match="^f: rope_theta: must be the base, 20000.0, got 500000"):
        scaled_head("f", 64, own, base=2e4)
    assert scaled_head("f", 64, {}).notes["base"] == 1e4


@pytest.mark.parametrize("length", [64, np.int64(64), np.uint8(64)])
@pytest.mark.parametrize("key", ["max_position_embeddings", "original_max_position_embeddings"])
def test_length_of_a_dictionary(length, key):
    scaling = {"type": "dynamic", "factor": 2.0, key: length}
    head = scaled_head("f", 16, scaling, seq_len=128)
    assert [float(w) for w in head.frequencies] == rounded(ntk(16, 10000, 3))
    notes = {k: head.notes[k] for k in ("trained", "extended", "seq_len")}
    assert notes == {"trained": 64, "extended": 128, "seq_len": 128}


def test_yarn_needs_a_factor():
    """The trained length alone says nothing of how far it is to be stretched."""
    scaling = {"type": "yarn", "original_max_position_embeddings": 4096}
    with pytest.raises(ValueError, match="^f: factor: is missing$"):
        scaled_head("f", 16, scaling)


@pytest.mark.parametrize(
    ("dim", "more", "error", "message"),
    [
        (8, {"partial_rotary_factor": 0.1}, ValueError, "partial_rotary_factor: must make 2, 4, "),
        (8, {"partial_rotary_factor": 0.4}, ValueError, "partial_rotary_factor: must make 2, 4, "),
        (7, {"partial_rotary_factor": 0.1}, ValueError, "partial_rotary_factor: must make 2, 4, "),
        (8, {"partial_rotary_factor": 2.0}, ValueError, "partial_rotary_factor: must be at most 1"),
        (8, {"partial_rotary_factor": "x"}, ValueError, "partial_rotary_factor: must be a finite"),
        (7, {}, ValueError, "dim: must be even and at most 16384, got 7"),
        (1 << 15, {"partial_rotary_factor": 0.1}, ValueError, "dim: must be even and at most 16"),
        (8, {"max_position_embeddings": "x"}, ValueError, "max_position_embeddings: must be an in"),
        (8, {"mrope_section": "abc"}, ValueError, "mrope_section: must be a list of whole numbers"),
        (8, {"mrope_section": [1, 1]}, ValueError, "mrope_section: must be 3 whole numbers from"),
        (8, {"mrope_section": []}, ValueError, "mrope_section: must be 3 whole numbers from 0 to"),
        (8, {"mrope_section": [1, 1, 1]}, ValueError, "mrope_section: must add up to 4 pairs, got"),
        (8, {"mrope_interleaved": "no"}, ValueError, "mrope_interleaved: must be true or false"),
    ],
)
def test_errors_of_a_head(dim, more, error, message):
    with pytest.raises(error, match=f"^f: {message}") as caught:
        scaled_head("f", dim, {"type": "linear", "factor": 2.0, **more})
    assert ";" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"rotary_dim": 3}, ValueError, "rotary_dim: must be even and at most 8, got 3"),
        ({"rotary_dim": 10}, ValueError, "rotary_dim: must be even and at most 8, got 10"),
        ({"rotary_dim": 4.0}, TypeError, "rotary_dim: must be an integer"),
        ({"seq_len": 0}, ValueError, "seq_len: must be at least 1"),
        ({"seq_len": "a"}, TypeError, "seq_len: must be an integer"),
        ({"base": "x"}, TypeError, "base: must be a real number"),
        ({"base": 1e-300}, ValueError, "base: must give frequencies from .*, got 1e-300"),
        ({"base": 5e-324}, ValueError, "base: must give frequencies from .*, got 5e-324"),
    ],
)
def test_wrong_arguments_of_a_head(more, error, message):
    with pytest.raises(error, match=f"^f: {message}"):
        scaled_head("f", 8, {"type": "linear", "factor": 2.0}, **more)
    with pytest.raises(TypeError, match="^f: scaling: must be a dictionary, got list"):
        scaled_head("f", 8, [])


def test_all_problems_of_a_head_at_once():
    scaling = {"type": "yarn", "factor": 0.5, "partial_rotary_factor": 0.1, "mrope_section": [5, 0]}
    with pytest.raises(ValueError) as error:
        scaled_head("f", 8, scaling, base=3.0)
    keys = ["factor", "original_max_position_embeddings", "partial_rotary_factor", "mrope_section"]
    assert sorted(p.split(": ")[0] for p in str(error.value)[3:].split("; ")) == sorted(keys)
    for wrong in ("a", 1.5, 0):  # how many pairs turn is not known: no fault of the sections
        scaling = {"partial_rotary_factor": wrong, "mrope_section": [1, 0, 0]}
        with pytest.raises(ValueError) as error:
            scaled_head("f", 8, scaling)
        assert str(error.value).startswith("f: partial_rotary_factor: must be ")
        assert ";" not in str(error.value)


# --- M-RoPE ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dim", "sections", "interleaved", "counts"),
    [
        (128, [16, 24, 24], False, [16, 24, 24]),
        (128, [24, 20, 20], True, [24, 20, 20]),
        (72, [8, 12, 12], True, [12, 12, 12]),  # GenLIP, and the default of timm: 32 of 36
        (64, [8, 12, 12], True, [11, 11, 10]),  # all of the places
        (64, [32, 0, 0], True, [32]),
        (64, [0, 0, 5], True, [27, 0, 5]),
        (64, [0, 32, 32], True, [11, 11, 10]),
        (64, [0, 30, 2], False, [0, 30, 2]),
        (64, [0, 0, 32], False, [0, 0, 32]),
    ],
)
def test_sections(dim, sections, interleaved, counts):
    scaling = {"mrope_section": sections, "mrope_interleaved": interleaved}
    axis = scaled_head("f", dim, scaling).axis
    assert np.bincount(axis).tolist() == counts
    checked = check_sections("f", "s", sections, dim // 2, interleaved=interleaved)
    assert axis == mrope_axes(dim // 2, checked, interleaved=interleaved)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    "sections", [[9, 0, 0], [-1, 5, 4], [4, 4], [2, 2, 2, 2], [], [10**9, 1, 1]], ids=str
)
def test_wrong_sections(sections, interleaved):
    message = "mrope_section: must be 3 whole numbers from 0 to 8, got "
    with pytest.raises(ValueError, match=f"^f: {message}"):
        scaled_head("f", 16, {"mrope_section": sections, "mrope_interleaved": interleaved})
    with pytest.raises(ValueError, match=f"^f: {message}"):
        check_sections("f", "mrope_section", sections, 8, interleaved=interleaved)


def test_mrope_axes():
    """Chunked and interleaved, with a section that saturates and pairs left over."""
    assert mrope_axes(8, [2, 3, 3], interleaved=False) == [0, 0, 1, 1, 1, 2, 2, 2]
    assert mrope_axes(8, [4, 2, 2], interleaved=True) == [0, 1, 2, 0, 1, 2, 0, 0]
    axes = mrope_axes(64, [24, 20, 20], interleaved=True)
    assert axes[:61] == [0, 1, 2] * 20 + [0]
    assert axes[60:] == [0, 0, 0, 0]
    assert mrope_axes(4, [0, 9, 9], interleaved=True) == [0, 1, 2, 0]


@pytest.mark.parametrize(("case", "sections", "interleaved"), MROPE)
def test_mrope_of_transformers(case, sections, interleaved):
    positions = np.array(case["position_ids"])[:, 0]
    axes = mrope_axes(8, sections, interleaved=interleaved)
    angles = positions[axes].T * np.array(of(16, base=case["rope_theta"])[0])
    for key, function in (("cos", np.cos), ("sin", np.sin)):
        stored = np.array(case[key]).reshape(4, 16)[:, :8]
        assert np.abs(function(angles) - stored).max() < 2**-21  # float32 angles up to 9
