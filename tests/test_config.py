import dataclasses
import json
import pathlib
from types import SimpleNamespace

import gguf
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

import posenc
from posenc import plan_from_config
from posenc._models import MODELS as TYPES
from posenc.config import attention_temperature, describe, explain_plan

CONFIGS = pathlib.Path(__file__).parent / "data" / "configs"
STORED = json.loads((CONFIGS.parent / "rope_init.json").read_text())["rope_init"]
FLOAT32 = 8 * 2.0**-24  # as in test_scaling.py


def load(name):
    return json.loads((CONFIGS / f"{name}.json").read_text())


def plain(dim, base, width=None):
    return [mpf(base) ** (-mpf(2 * i) / (width or dim)) for i in range(dim // 2)]


def linear(dim, base, factor):
    return [w / factor for w in plain(dim, base)]


def yarn(dim, base, factor, trained, low, high):
    """The ramp from pair `low` to pair `high`; whole ones are worked out by hand."""
    blend = [min(max((i - low) / mpf(high - low), 0), 1) for i in range(dim // 2)]
    return [w * (1 - b) + w / mpf(factor) * b for w, b in zip(plain(dim, base), blend, strict=True)]


def pair_of(dim, base, trained, turns):
    return dim * mpmath.log(trained / (2 * mp.pi * turns)) / (2 * mpmath.log(base))


def llama3(dim, base, factor):
    result = []
    for w in plain(dim, base):
        turns = 8192 * w / (2 * mp.pi)
        kept = min(max((turns - 1) / 3, 0), 1)
        result.append(w * kept + w / factor * (1 - kept))
    return result


def llama4_scout():
    """Both ends of the ramp are one turn in 8192 tokens: a step."""
    return [w if 8192 * w > 2 * mp.pi else w / 16 for w in plain(128, 500000)]


def longrope(name, which):
    lists = load(name)["rope_scaling"]
    return [w / mpf(e) for w, e in zip(plain(96, 10000), lists[f"{which}_factor"], strict=True)]


HALF, INTERLEAVED = "half", "interleaved"
# What each published model turns by: config, arguments, layout, width, frequencies (or no rotary
# embedding), attention factor. Written from the papers and model code, not from posenc's tables.
MODELS = [
    ("llama-2-7b", {}, HALF, 128, lambda: plain(128, 10000), 1),
    ("llama-3-8b", {}, HALF, 128, lambda: plain(128, 500000), 1),
    ("llama-3.1-8b", {}, HALF, 128, lambda: llama3(128, 500000, 8), 1),
    ("llama-3.2-1b", {}, HALF, 64, lambda: llama3(64, 500000, 32), 1),
    ("llama-4", {"layer": 0}, INTERLEAVED, 128, lambda: plain(128, 500000), 1),
    ("llama-4", {"layer": 47}, None, 0, None, 1),
    ("llama-4-scout", {"layer": 0}, INTERLEAVED, 128, llama4_scout, 1),
    ("llama-4-scout", {"layer": 3}, None, 0, None, 1),
    ("codellama-7b", {}, HALF, 128, lambda: plain(128, 1000000), 1),
    (
        "yarn-llama-2-7b-64k",
        {},
        HALF,
        128,
        lambda: yarn(128, 10000, 16, 4096, 20, 46),
        1.277258872224,
    ),
    ("mistral-7b", {}, HALF, 128, lambda: plain(128, 10000), 1),
    ("mixtral-8x7b", {}, HALF, 128, lambda: plain(128, 1000000), 1),
    ("ministral-3", {}, HALF, 128, lambda: yarn(128, 1000000, 16, 16384, 20, 37), 1),
    ("devstral-small-2", {}, HALF, 128, lambda: yarn(128, 10**8, 48, 8192, 12, 25), 1),
    ("qwen2.5-yarn", {}, HALF, 128, lambda: yarn(128, 1000000, 4, 32768, 23, 40), 1.138629436112),
    ("qwen3", {}, HALF, 128, lambda: plain(128, 10000), 1),
    ("qwen2-vl-7b", {}, HALF, 128, lambda: plain(128, 1000000), 1),
    ("qwen2.5-vl-7b", {}, HALF, 128, lambda: plain(128, 1000000), 1),
    ("qwen3-vl-8b", {}, HALF, 128, lambda: plain(128, 5000000), 1),
    ("qwen3.5", {}, HALF, 64, lambda: plain(64, 10000000), 1),
    ("deepseek-v2-lite", {}, INTERLEAVED, 64, lambda: yarn(64, 10000, 40, 4096, 10, 23), 1),
    ("deepseek-v3", {}, INTERLEAVED, 64, lambda: yarn(64, 10000, 40, 4096, 10, 23), 1),
    ("deepseek-v4", {"layer": 0}, INTERLEAVED, 64, lambda: plain(64, 10000), 1),
    ("deepseek-v4", {"layer": 3}, INTERLEAVED, 64, lambda: yarn(64, 160000, 16, 65536, 15, 25), 1),
    ("kimi-k2", {}, INTERLEAVED, 64, lambda: yarn(64, 50000, 32, 4096, 19, 20), 1),
    (
        "phi-3-vision-128k",
        {"seq_len": 4096},
        HALF,
        96,
        lambda: longrope("phi-3-vision-128k", "short"),
        1.190238071424,
    ),
    (
        "phi-3-vision-128k",
        {"seq_len": 4097},
        HALF,
        96,
        lambda: longrope("phi-3-vision-128k", "long"),
        1.190238071424,
    ),
    ("phi-3.5-mini", {}, HALF, 96, lambda: longrope("phi-3.5-mini", "short"), 1.190238071424),
    (
        "phi-3.5-mini",
        {"seq_len": 131072},
        HALF,
        96,
        lambda: longrope("phi-3.5-mini", "long"),
        1.190238071424,
    ),
    ("gemma-2", {}, HALF, 256, lambda: plain(256, 10000), 1),
    ("gemma-3-1b", {"layer": 0}, HALF, 256, lambda: plain(256, 10000), 1),
    ("gemma-3-1b", {"layer": 5}, HALF, 256, lambda: plain(256, 1000000), 1),
    ("gemma-3-12b", {"layer": 4}, HALF, 256, lambda: plain(256, 10000), 1),
    ("gemma-3-12b", {"layer": 47}, HALF, 256, lambda: linear(256, 1000000, 8), 1),
    ("gemma-4", {"layer": 0}, HALF, 256, lambda: plain(256, 10000), 1),
    (
        "gemma-4",
        {"layer": 29},
        HALF,
        512,
        lambda: plain(512, 1000000)[:64] + [mpf(0)] * 192,
        1,
    ),
    (
        "gpt-oss-20b",
        {},
        HALF,
        64,
        lambda: yarn(
            64, 150000, 32, 4096, pair_of(64, 150000, 4096, 32), pair_of(64, 150000, 4096, 1)
        ),
        1.346573590280,
    ),
    ("gemma-3n", {"layer": 3}, HALF, 256, lambda: plain(256, 10000), 1),
    ("gemma-3n", {"layer": 34}, HALF, 256, lambda: plain(256, 1000000), 1),
    ("gpt-j-6b", {}, INTERLEAVED, 64, lambda: plain(64, 10000), 1),
    ("gpt-neox-20b", {}, HALF, 24, lambda: plain(24, 10000), 1),
    ("pythia-1.4b", {}, HALF, 32, lambda: plain(32, 10000), 1),
    ("stablelm-3b", {}, HALF, 20, lambda: plain(20, 10000), 1),
    ("glm-4-9b", {}, INTERLEAVED, 64, lambda: plain(64, 10000), 1),
    ("glm-4-9b-chat", {}, INTERLEAVED, 64, lambda: plain(64, 5000000), 1),
    ("mimo-v2-flash", {"layer": 0}, HALF, 64, lambda: plain(64, 5000000), 1),
    ("mimo-v2-flash", {"layer": 1}, HALF, 64, lambda: plain(64, 10000), 1),
    ("mimo-v2-flash", {"layer": 47}, HALF, 64, lambda: plain(64, 5000000), 1),
    ("smollm3-3b", {"layer": 2}, HALF, 128, lambda: plain(128, 5000000), 1),
    ("smollm3-3b", {"layer": 3}, None, 0, None, 1),
    ("olmo-2-7b", {}, HALF, 128, lambda: plain(128, 500000), 1),
    ("olmo-3", {"layer": 0}, HALF, 128, lambda: plain(128, 500000), 1),
    (
        "olmo-3",
        {"layer": 31},
        HALF,
        128,
        lambda: yarn(128, 500000, 8, 8192, 18, 35),
        1.2079441541679836,
    ),
    ("modernbert", {"layer": 0}, HALF, 64, lambda: plain(64, 160000), 1),
    ("modernbert", {"layer": 1}, HALF, 64, lambda: plain(64, 10000), 1),
    ("modernbert", {"layer": 21}, HALF, 64, lambda: plain(64, 160000), 1),
    ("cohere", {}, INTERLEAVED, 128, lambda: plain(128, 500000), 1),
    ("cohere2-tiny-aya", {"layer": 2}, INTERLEAVED, 128, lambda: plain(128, 50000), 1),
    ("cohere2-tiny-aya", {"layer": 3}, None, 0, None, 1),
    ("roformer", {}, INTERLEAVED, 64, lambda: plain(64, 10000), 1),
]


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


@pytest.mark.parametrize(
    ("name", "arguments", "layout", "width", "freqs", "attention"),
    MODELS,
    ids=[f"{m[0]}{m[1] or ''}" for m in MODELS],
)
def test_published(name, arguments, layout, width, freqs, attention):
    plan = plan_from_config(CONFIGS / f"{name}.json", **arguments)
    if freqs is None:
        assert plan is None
        return
    start = 448 if name == "deepseek-v4" else 0
    assert (plan.layout, plan.rotary_dim, plan.start) == (layout, width, start)
    assert plan.inv_freq.tolist() == [float(w) for w in freqs()]
    assert plan.attention_factor == pytest.approx(attention, rel=1e-12)


def test_every_config_is_tested_and_described():
    names = sorted(path.stem for path in CONFIGS.glob("*.json"))
    assert names == sorted({model[0] for model in MODELS})
    for name in names:
        text = describe(CONFIGS / f"{name}.json")
        assert load(name).get("text_config", load(name))["model_type"] in text
        assert "method" in text
        assert max(map(len, text.splitlines())) < 100


@pytest.mark.parametrize(
    ("name", "method", "case"),
    [
        ("qwen2.5-yarn", "yarn", "qwen2.5"),
        ("deepseek-v3", "yarn", "deepseek_v3"),
        ("deepseek-v2-lite", "yarn", "deepseek_v2"),
        ("gpt-oss-20b", "yarn", "gpt_oss"),
        ("kimi-k2", "yarn", "kimi_k2"),
        ("llama-3.1-8b", "llama3", "llama3.1"),
        ("llama-3.2-1b", "llama3", "llama3.2-1b"),
    ],
)
def test_published_against_transformers(name, method, case):
    (stored,) = [c for c in STORED[method] if c["name"] == case]
    plan = plan_from_config(CONFIGS / f"{name}.json")
    expected = np.array(stored["inv_freq_f32"], np.float32)
    assert (np.abs(plan.inv_freq - expected) <= FLOAT32 * plan.inv_freq).all()
    assert plan.attention_factor == pytest.approx(stored["attention_factor"], rel=2**-52)


def same(a, b):
    return (
        a.inv_freq.tolist() == b.inv_freq.tolist()
        and a.axis.tolist() == b.axis.tolist()
        and (a.layout, a.attention_factor) == (b.layout, b.attention_factor)
    )


@pytest.mark.parametrize("method", STORED)
def test_new_spelling_is_the_old_one(method):
    """`rope_parameters` with everything in it, or `rope_scaling` and keys at the top."""
    for case in STORED[method]:
        sizes = {key: case[key] for key in ("head_dim", "max_position_embeddings")}
        parameters = dict(case["rope_parameters"])
        new = plan_from_config(sizes | {"rope_parameters": parameters}, seq_len=case["seq_len"])
        top = {"rope_theta": parameters.pop("rope_theta")}
        if "partial_rotary_factor" in parameters:
            top["partial_rotary_factor"] = parameters.pop("partial_rotary_factor")
        parameters["type"] = parameters.pop("rope_type")
        old = plan_from_config(sizes | top | {"rope_scaling": parameters}, seq_len=case["seq_len"])
        assert same(old, new)
        assert np.allclose(new.inv_freq, np.array(case["inv_freq_f32"]), rtol=FLOAT32, atol=0)


def test_kinds_of_config(tmp_path):
    expected = plan_from_config(load("llama-3.1-8b"))
    path = CONFIGS / "llama-3.1-8b.json"
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    attributes = SimpleNamespace(**load("llama-3.1-8b"))
    method = SimpleNamespace(to_dict=lambda: load("llama-3.1-8b"))
    nested = SimpleNamespace(model_type="llava", text_config=attributes)
    of_the_class = type("Config", (), load("llama-3.1-8b"))()
    slots = dataclasses.make_dataclass("Slots", load("llama-3.1-8b"), slots=True)
    slots = slots(**load("llama-3.1-8b"))
    objects = (attributes, method, nested, of_the_class, slots, Properties())
    for config in (path, str(path), folder, str(folder), *objects):
        assert same(plan_from_config(config), expected)
    for config in (None, 5, [1], b"config.json", dict):
        with pytest.raises(TypeError, match="^plan_from_config: config: must be a path, a dict"):
            plan_from_config(config)
    with pytest.raises(FileNotFoundError):
        plan_from_config(tmp_path / "nothing.json")
    with pytest.raises(ValueError, match="^posenc config: .*nothing.json: No such file"):
        describe(tmp_path / "nothing.json")
    with pytest.raises(ValueError, match=r"^posenc config: .*/config\.json: No such file"):
        describe(tmp_path)  # the folder is there
    for path in ("a\0b", "\ud800"):
        with pytest.raises(ValueError, match="^plan_from_config: config: must be a path that a"):
            plan_from_config(path)


class Properties:
    """A config some of whose attributes are worked out, and some cannot be."""

    def __init__(self):
        self.__dict__.update(load("llama-3.1-8b"))
        self.theta, self.scaling = self.__dict__.pop("rope_theta"), None

    @property
    def rope_theta(self):
        return self.theta

    @property
    def hidden_size(self):
        raise RuntimeError("known to the weights only")

    def rotary_dim(self):
        return 2


def test_the_plan_turns():
    """What comes out is a plan for `rope`: half layout, 1.19 times as long, exact far out."""
    plan = plan_from_config(CONFIGS / "phi-3.5-mini.json", seq_len=100000)
    x = np.zeros((1, 96))
    x[0, 47] = 1.0
    angle = 1000003 * mpf(plan.inv_freq[47])
    y = posenc.rope(x, [1000003], plan=plan)[0]
    factor = plan.attention_factor
    assert y[47] == pytest.approx(float(factor * mpmath.cos(angle)), rel=1e-11)
    assert y[95] == pytest.approx(float(factor * mpmath.sin(angle)), rel=1e-11)


def test_exact_in_turns():
    """The plan remembers its frequencies beyond float64: position 2^53 is right."""
    plan = plan_from_config(CONFIGS / "qwen2.5-yarn.json")
    w = yarn(128, 1000000, 4, 32768, 23, 40)[30]
    x = np.zeros((1, 128))
    x[0, 30] = 1.0
    y = posenc.rope(x, [2**53], plan=plan)[0]
    with mp.workdps(80):
        w = yarn(128, 1000000, 4, 32768, 23, 40)[30]
        factor = mpmath.log(4) / 10 + 1
        exact = [factor * f(2**53 * w) for f in (mpmath.cos, mpmath.sin)]
    assert abs(y[30] - float(exact[0])) < 4e-16
    assert abs(y[94] - float(exact[1])) < 4e-16


# Layers that differ


def test_layer_is_asked_for():
    with pytest.raises(ValueError) as error:
        plan_from_config(CONFIGS / "llama-4.json")
    assert str(error.value) == (
        "plan_from_config: layer: must be given, as layers differ (base 500000: 0-2, 4-6, 8-10, "
        "12-14, 16-18, ...; without rotary embedding: 3, 7, 11, 15, 19, ...), got None"
    )
    with pytest.raises(ValueError, match="layer: must be below 48, got 48"):
        plan_from_config(CONFIGS / "llama-4.json", layer=48)
    for layer, error in ((-1, ValueError), (1.0, TypeError), ("0", TypeError), (True, TypeError)):
        with pytest.raises(error, match="^plan_from_config: layer: "):
            plan_from_config(CONFIGS / "llama-4.json", layer=layer)


BY_TYPE = {
    "head_dim": 64,
    "max_position_embeddings": 65536,
    "num_hidden_layers": 4,
    "layer_types": ["a", "a", "b", "c"],
    "rope_parameters": {
        "a": {"rope_type": "default", "rope_theta": 10000.0},
        "b": {
            "rope_type": "yarn",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "truncate": False,
            "original_max_position_embeddings": 8192,
        },
        "c": None,
    },
}


def test_nested_by_layer_type():
    """Also the `truncate` of a nested entry, which transformers reads at the top only."""
    plans = [plan_from_config(BY_TYPE, layer=i) for i in range(4)]
    assert plans[3] is None
    assert same(plans[0], plans[1])
    low, high = (pair_of(64, 500000, 8192, turns) for turns in (32, 1))
    expected = yarn(64, 500000, 8, 8192, low, high)
    assert plans[2].inv_freq.tolist() == [float(w) for w in expected]
    trouble = {**BY_TYPE, "rope_parameters": {**BY_TYPE["rope_parameters"], "truncate": False}}
    with pytest.raises(ValueError, match="rope_parameters.truncate: must be inside the entry of"):
        plan_from_config(trouble, layer=0)
    trouble = {**BY_TYPE, "layer_types": ["a", "a", "b", "d"]}
    with pytest.raises(ValueError, match="rope_parameters.d: is missing"):
        plan_from_config(trouble, layer=0)
    without = {k: v for k, v in BY_TYPE.items() if k != "layer_types"}
    with pytest.raises(ValueError, match="layer_types: is missing, but rope_parameters is by"):
        plan_from_config(without, layer=0)


def test_nested_that_turn_alike():
    entry = {"rope_type": "default", "rope_theta": 1e6}
    types = ["full_attention", "sliding_attention"]
    config = {"head_dim": 64, "layer_types": types, "rope_parameters": dict.fromkeys(types, entry)}
    assert same(plan_from_config(config), posenc.rope_plan(64, base=1e6, layout="half"))
    assert "every layer\n" in describe(config)


def test_gemma3_new_is_old():
    new = {
        "model_type": "gemma3_text",
        "head_dim": 256,
        "num_hidden_layers": 12,
        "max_position_embeddings": 131072,
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000},
            "sliding_attention": None,
        },
    }
    for layer in (0, 5):
        old = plan_from_config(CONFIGS / "gemma-3-12b.json", layer=layer)
        assert same(plan_from_config(new, layer=layer), old)


def test_lists_a_layer():
    config = {"model_type": "smollm3", "head_dim": 64, "no_rope_layers": [1, 0, 0, 1]}
    plans = [plan_from_config(config, layer=i) for i in range(4)]
    assert [plan is None for plan in plans] == [False, True, True, False]
    config = {"model_type": "granite_swa", "head_dim": 64, "layer_rope_theta": [10000, 0, 5e5]}
    plans = [plan_from_config(config, layer=i) for i in range(3)]
    assert plans[1] is None
    assert same(plans[2], plan_from_config({"head_dim": 64, "rope_theta": 500000}))
    window = {"model_type": "exaone4", "head_dim": 128, "num_hidden_layers": 8}
    assert plan_from_config(window, layer=3) is None
    assert plan_from_config({**window, "sliding_window": None}) is not None


# Conventions


def test_axes():
    axis = plan_from_config(CONFIGS / "qwen2-vl-7b.json").axis
    assert axis.tolist() == [0] * 16 + [1] * 24 + [2] * 24
    axis = plan_from_config(CONFIGS / "qwen3-vl-8b.json").axis
    assert axis.tolist() == [0, 1, 2] * 20 + [0] * 4
    axis = plan_from_config(CONFIGS / "qwen3.5.json").axis
    assert axis.tolist() == [0, 1, 2] * 10 + [0, 1]
    assert not plan_from_config(CONFIGS / "qwen3.json").axis.any()


def test_phi3_names():
    """In Phi-3 "yarn" and "su" are longrope, and the length at the top of the config wins."""
    config = load("phi-3.5-mini")
    expected = plan_from_config(config)
    for name in ("su", "yarn", "longrope"):
        config["rope_scaling"]["type"] = name
        config["rope_scaling"]["original_max_position_embeddings"] = 131072
        plan = plan_from_config(config, seq_len=4096)
        assert same(plan, expected)
        assert plan.notes["trained"] == 4096


def test_deepseek():
    config = load("deepseek-v3")
    plan = plan_from_config(config)
    assert plan.notes["score_factor"] == pytest.approx(1.3688879454113936**2, rel=1e-15)
    assert plan_from_config(config | {"rope_interleave": False}).layout == "half"
    assert same(plan_from_config({**config, "head_dim": 192, "hidden_size": 7168}), plan)


def test_partial_width():
    """The frequencies follow from the rotary width; products are rounded down as Python does."""
    config = {"head_dim": 192, "partial_rotary_factor": 0.334}
    assert plan_from_config(config).rotary_dim == 64
    assert same(plan_from_config(config), posenc.rope_plan(64, layout="half"))
    assert plan_from_config({"head_dim": 128, "rotary_dim": 64}).rotary_dim == 64
    for bad, message in (
        (
            {"partial_rotary_factor": 0.26, "rope_scaling": {"type": "ntk", "factor": 2.0}},
            "partial_rotary_factor: must leave an even number of the 128 channels, got 33",
        ),
        ({"partial_rotary_factor": 1.5}, "partial_rotary_factor: must be at most 1, got 1.5"),
        ({"partial_rotary_factor": 0}, "partial_rotary_factor: must be .* above 0, got 0"),
        ({"partial_rotary_factor": 1e-9}, "partial_rotary_factor: must leave an even number"),
        ({"rotary_dim": 33}, "rotary_dim: must be even and at most 128, got 33"),
        ({"rotary_dim": 130}, "rotary_dim: must be even and at most 128, got 130"),
    ):
        with pytest.raises(ValueError, match=message):
            plan_from_config({"head_dim": 128, **bad})


def test_class_defaults_only_inside_a_wrapper():
    """A text_config is saved as what differs from its class; a config of its own is whole."""
    plan = plan_from_config({"model_type": "llava", "text_config": {}})
    assert (plan.rotary_dim, plan.notes["trained"]) == (128, 2048)
    with pytest.raises(ValueError, match="^plan_from_config: head_dim: is missing"):
        plan_from_config({"model_type": "llama"})
    # but a width that the class sets itself is not worked out from others, anywhere
    sizes = {"hidden_size": 1024, "num_attention_heads": 16}
    assert plan_from_config({"model_type": "qwen3", **sizes}).rotary_dim == 128
    assert plan_from_config({"model_type": "qwen2", **sizes}).rotary_dim == 64
    with pytest.raises(ValueError, match="text_config.rope_theta: must be"):
        plan_from_config({"model_type": "llama4", "text_config": {"rope_theta": "big"}}, layer=0)


# What the config does besides: temperatures


@pytest.mark.parametrize(
    ("name", "layer", "positions", "blocks"),
    [
        ("ministral-3", None, [0, 16383, 16384, 32767, 32768, 10**6], [0, 0, 1, 1, 2, 61]),
        ("ministral-3", None, [16383.5, 16384.0], [0, 1]),
        ("llama-4", 3, [0, 8190, 8191, 8192, 16382, 16383], [0, 0, 1, 1, 1, 2]),
        ("llama-4", 3, [8190.5, 8191.0], [0, 1]),
        ("llama-4", 0, [0, 10**6], [0, 0]),
        ("llama-4-scout", 0, [0, 10**6], [0, 0]),
        ("llama-4-scout", 3, [0, 8191, 10485759], [0, 1, 1280]),
        ("llama-3.1-8b", None, [0, 10**6], [0, 0]),
    ],
)
def test_temperature(name, layer, positions, blocks):
    got = attention_temperature(CONFIGS / f"{name}.json", positions, layer=layer)
    assert got.tolist() == [float(1 + mpf(0.1) * mpmath.log(1 + n)) for n in blocks]


def test_temperature_arguments():
    config = CONFIGS / "ministral-3.json"
    assert attention_temperature(config, 3).tolist() == [1.0, 1.0, 1.0]
    assert attention_temperature(config, np.zeros((2, 3), np.int8)).shape == (2, 3)
    last = np.array([2**64 - 1], np.uint64)
    expected = float(1 + mpf(0.1) * mpmath.log(2**64 // 16384))
    assert attention_temperature(config, last)[0] == expected
    with pytest.raises(ValueError, match="^attention_temperature: positions: must not be negative"):
        attention_temperature(config, [1, -1])
    for tuned, grows in ((False, False), (0, False), (True, True), (1, True), (4, True)):
        switch = {"model_type": "llama4", "head_dim": 128, "attn_temperature_tuning": tuned}
        assert bool(attention_temperature(switch, [10**6], layer=3)[0] > 1) is grows
    for tuned in (-4, 4.0, "4"):
        switch["attn_temperature_tuning"] = tuned
        with pytest.raises(ValueError, match="attn_temperature_tuning: must be true or false"):
            attention_temperature(switch, [0], layer=3)
    for large in (2**64 - 1, 2**62, 2**60):
        for other in (config, {"head_dim": 8}):
            with pytest.raises(MemoryError, match="^attention_temperature: positions: must fit"):
                attention_temperature(other, large)


# Explanations


def test_explain():
    text = explain_plan(plan_from_config(CONFIGS / "qwen2.5-yarn.json"))
    for line in (
        "method            yarn, factor 4",
        "base              1000000",
        "length            32768 trained, 131072 extended",
        "channels          0 to 127 of 128 turn, half layout",
        "attention factor  1.138629436",
        "wavelengths       6.283 to 2.025e+07 tokens",
        "pairs             24 kept, 16 blended, 24 stretched",
        "   0       6.283         1  kept",
        "  63   2.025e+07      0.25  stretched",
    ):
        assert line in text.splitlines()


def test_explain_without_notes():
    text = explain_plan(posenc.RopePlan([1.0, 0.0], layout="half"))
    assert text.splitlines() == [
        "method            given frequencies",
        "channels          0 to 3 turn, half layout",
        "attention factor  1",
        "wavelengths       6.283 to 6.283 positions",
        "pair  wavelength",
        "   0       6.283",
        "   1        none  still",
    ]
    assert "nothing turns" in explain_plan(posenc.RopePlan([0.0]))


def test_explain_says_what_positions_are():
    """Patches of a grid, parts of its width where that is 2, and neither for axes of all sorts."""
    for plan, last, row in (
        (posenc.axial_plan(16, convention="pixtral"), "1.987e+04 patches", "       6.283  axis 0"),
        (
            posenc.axial_plan(16, convention="dinov3"),
            "1 to 31.62 units, of a grid from -1 to 1",
            "           1  axis 0",
        ),
        (posenc.mrope_plan(8, [2, 1, 1]), "6283 positions", "       6.283         1  kept  axis 0"),
        (posenc.rope_plan(8), "6283 tokens", "       6.283         1  kept"),
    ):
        lines = plan.explain().splitlines()
        assert any(line.startswith("wavelengths") and line.endswith(last) for line in lines)
        assert lines[-len(plan.inv_freq)] == f"   0{row}"
        assert ("of plain" in lines[-len(plan.inv_freq) - 1]) == ("kept" in row)


def test_describe_all_kinds_of_layers():
    text = describe(CONFIGS / "llama-4.json")
    assert "llama4_text, layers 0-2, 4-6, 8-10, 12-14, 16-18, ..." in text
    assert "no rotary embedding (NoPE)" in text
    assert "queries times 1 + 0.1 ln(1 + floor((p + 1) / 8192))" in text
    one = describe(CONFIGS / "llama-4.json", 3)
    assert one.startswith("llama4_text, layer 3\nno rotary embedding (NoPE)")
    assert "layers 5, 11, 17, ... (full_attention)" in describe(CONFIGS / "gemma-3-12b.json")
    assert "as up to 4096 tokens" in describe(CONFIGS / "phi-3.5-mini.json")
    said = "24 pairs on axis 0 (time), 20 on axis 1 (height), 20 on axis 2 (width)"
    assert said in describe(CONFIGS / "qwen3-vl-8b.json")
    assert "1 kept, 47 divided" in describe(CONFIGS / "phi-3.5-mini.json")


# Untrusted input


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "head_dim: is missing, and so is hidden_size or num_attention_heads"),
        ({"model_type": "llama"}, "head_dim: is missing"),
        (
            {
                "model_type": "zamba2",
                "use_mem_rope": True,
                "hidden_size": 2560,
                "num_attention_heads": 32,
            },
            "attention_head_dim: is missing",
        ),
        (
            {"model_type": "lama", "head_dim": 8},
            r"model_type: must be a known type \(the nearest is 'llama'\), or absent for a model "
            "like Llama, got 'lama'",
        ),
        ({"model_type": 5, "head_dim": 8}, "model_type: must be a known type, or .*, got 5"),
        ({"head_dim": 0}, "head_dim: must be from 1 to 4096, got 0"),
        ({"head_dim": 1 << 20}, "head_dim: must be from 1 to 4096, got 1048576"),
        ({"head_dim": 10**5000}, "head_dim: must be from .* got an integer of 16610 bits"),
        ({"head_dim": 64.0}, "head_dim: must be an integer, got 64.0"),
        ({"head_dim": "64"}, "head_dim: must be an integer, got '64'"),
        ({"head_dim": True}, "head_dim: must be an integer, got True"),
        ({"hidden_size": 100, "num_attention_heads": 3}, "hidden_size: must be a multiple of 3"),
        (
            {"model_type": "phi", "hidden_size": 3, "num_attention_heads": 4},
            "hidden_size: must be a multiple of 4 heads, got 3",
        ),
        ({"hidden_size": 1 << 40, "num_attention_heads": 1}, "hidden_size: must make heads of"),
        ({"head_dim": 8, "rope_theta": float("nan")}, "rope_theta: .*, got nan"),
        ({"head_dim": 8, "rope_theta": -10000}, "rope_theta: .* above 0, got -10000"),
        ({"head_dim": 8, "rope_theta": [1e4]}, "rope_theta: .* got list of 1"),
        ({"head_dim": 8, "rope_scaling": "yarn"}, "rope_scaling: must be a dictionary, got 'yarn'"),
        ({"head_dim": 8, "rope_scaling": [{}] * 10**6}, "rope_scaling: .*, got list of 1000000"),
        (
            {"head_dim": 8, "rope_scaling": {str(i): {} for i in range(10**5)}},
            "rope_scaling: must have at most 64 keys, got 100000",
        ),
        ({"head_dim": 8, "num_hidden_layers": 10**9}, "num_hidden_layers: must be from 1 to 1024"),
        ({"head_dim": 8, "max_position_embeddings": -1}, "max_position_embeddings: must be from 1"),
        ({"text_config": 5}, "text_config: must be a dictionary, got 5"),
        (
            {"text_config": {"head_dim": 64, "layer_rope_theta": [-1.0]}},
            r"text_config.layer_rope_theta\[0\]: must be a finite number above 0, got -1.0",
        ),
        (
            {"model_type": "smollm3", "head_dim": 8, "no_rope_layers": [1] * 10**6},
            "no_rope_layers: must be from 1 to 1024 flags, 0 or 1, got list of 1000000",
        ),
        (
            {"model_type": "smollm3", "head_dim": 8, "no_rope_layers": [1, 2]},
            r"no_rope_layers\[1\]: must be 0 or 1, got 2",
        ),
        (
            {"model_type": "smollm3", "head_dim": 8, "no_rope_layer_interval": 0},
            "no_rope_layer_interval: must be from 1",
        ),
        (
            {"model_type": "olmo3", "head_dim": 8, "layer_types": [None]},
            r"layer_types\[0\]: must be a name, got None",
        ),
        (
            {"model_type": "olmo3", "head_dim": 8, "num_hidden_layers": 2, "layer_types": ["a"]},
            "layer_types: must be 2 names, got list of 1",
        ),
        (
            {"model_type": "qwen2_vl", "head_dim": 128, "rope_scaling": {"mrope_section": [1, 2]}},
            "rope_scaling.mrope_section: must be 3 whole numbers from 0 to 64, got list of 2",
        ),
        (
            {"head_dim": 8, "rope_scaling": {"mrope_section": [1.5, -1], "type": "mrope"}},
            "rope_scaling.mrope_section: must be 3 whole numbers from 0 to 4",
        ),
        (
            {"head_dim": 8, "rope_scaling": {"mrope_section": [2, 1, 0], "type": "mrope"}},
            "rope_scaling.mrope_section: must add up to 4 pairs, got 3",
        ),
        (
            {"head_dim": 8, "rope_scaling": {"mrope_section": [2, 2], "type": "mrope"}},
            "rope_scaling.mrope_section: must be 3 whole numbers from 0 to 4, got list of 2",
        ),
        (
            {
                "head_dim": 8,
                "model_type": "ernie4_5_vl_moe",
                "rope_scaling": {"mrope_section": [1, 2, 1]},
            },
            "rope_scaling.mrope_section: must have two equal numbers first, got list of 3",
        ),
    ],
)
def test_bad_config(config, message):
    with pytest.raises(ValueError, match=f"^plan_from_config: .*{message}"):
        plan_from_config(config, layer=0)


def test_all_problems_at_once():
    config = {
        "model_type": "unknown",
        "hidden_size": -1,
        "num_attention_heads": None,
        "rope_theta": "10000",
        "partial_rotary_factor": 7,
        "rope_scaling": {"type": "llama3", "factor": float("inf"), "high_freq_factor": []},
    }
    with pytest.raises(ValueError) as error:
        plan_from_config(config)
    message = str(error.value)
    for key in (
        "model_type",
        "hidden_size",
        "head_dim",
        "rope_theta",
        "partial_rotary_factor",
        "rope_scaling.factor",
        "rope_scaling.low_freq_factor",
        "rope_scaling.high_freq_factor",
        "rope_scaling.original_max_position_embeddings",
    ):
        assert f" {key}: " in message, key
    assert message.count("model_type") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not valid JSON"),
        ("[1, 2]", "config.json must hold a dictionary, got list of 2"),
        ('"{}"', "config.json must hold a dictionary, got '{}'"),
        ("null", "config.json must hold a dictionary, got None"),
        ("5", "config.json must hold a dictionary, got 5"),
        ('{"head_dim": NaN}', "NaN is not a number"),
        ('{"head_dim": -Infinity}', "-Infinity is not a number"),
        ('{"rope_theta": 1e999}', "1e999 is too large for a number"),
        ('{"head_dim": 64, "head_dim": 128}', "the key 'head_dim' appears twice"),
        ('{"a": {"b": 1, "b": 1}}', "the key 'b' appears twice"),
        ('{"head_dim": ' + "9" * 5000 + "}", "is not valid JSON"),
        ("[" * 10**6, "must not be nested so deeply"),
        ('{"a":' * 10**6, "must not be nested so deeply"),
        ("\xff", "is not valid JSON"),
    ],
)
def test_strict_json(tmp_path, text, message):
    path = tmp_path / "config.json"
    path.write_text(text, "latin-1")
    with pytest.raises(ValueError, match=f"^plan_from_config: config: .*{message}") as error:
        plan_from_config(path)
    assert len(str(error.value)) < 300


def test_no_endless_file(tmp_path):
    big = tmp_path / "config.json"
    with big.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ValueError, match="must have at most 16777216 bytes, got more"):
        plan_from_config(big)
    with pytest.raises(ValueError, match="must be a file or a folder"):
        plan_from_config("/dev/zero")


@pytest.mark.parametrize(
    "config",
    [
        {"layer_rope_theta": [10000.0 + i for i in range(1024)]},
        {"per_layer_config": {i: {"head_dim": 2 * i + 2} for i in range(1024)}},
        {"rope_scaling_layers": list(range(10**6))},
        {"rope_scaling": {"type": "longrope", "long_factor": [1.0] * 10**6}},
        {"layer_types": ["a" * 10**6] * 1024, "rope_parameters": {"b": {}}},
        {"rope_parameters": {"full_attention": dict.fromkeys(map(str, range(10**5)))}},
        {"model_type": "llama" * 10**6},
        {"layer_types": [], "num_nextn_predict_layers": 2**62, "rope_theta": []},
    ],
)
def test_large_config(config):
    """An error of a few lines, whatever the size."""
    types = {"layer_types": ["full_attention"] * 1024, "head_dim": 128, "num_hidden_layers": 1024}
    with pytest.raises(ValueError, match="^plan_from_config: ") as error:
        plan_from_config({**types, **config})
    assert len(str(error.value)) < 500


def deep(kind):
    """5000 dictionaries or lists, each inside of the next."""
    value = 1
    for _ in range(5000):
        value = {"a": value} if kind is dict else [value]
    return value


LONGROPE = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [1.0] * 4}


@pytest.mark.parametrize("kind", [dict, list])
@pytest.mark.parametrize(
    "config",
    [
        lambda value: {"model_type": value},
        lambda value: {"text_config": {"text_config": {"model_type": value}}},
        lambda value: {"text_config": value},
        lambda value: {"rope_scaling": value},
        lambda value: {"rope_scaling": {"rope_type": value}},
        lambda value: {"rope_scaling": {"rope_type": "linear", "factor": value}},
        lambda value: {"rope_scaling": {"rope_type": "linear", "factor": 2.0, "more": value}},
        lambda value: {"rope_scaling": {**LONGROPE, "short_factor": [value] * 4}},
        lambda value: {"rope_scaling": {"mrope_section": [value] * 3}},
        lambda value: {"layer_types": [value], "rope_parameters": {"a": {}}},
        lambda value: {"rope_theta": value},
        lambda value: {"head_dim": value},
        lambda value: {"layer_rope_theta": [value]},
        lambda value: {"per_layer_config": {"0": value, "1": {"head_dim": value}}},
        lambda value: {"model_type": "smollm3", "no_rope_layers": [value]},
        lambda value: {"model_type": "falcon", "alibi": value},
        lambda value: {"rope_scaling": {"a": {"b": value}}},
    ],
)
def test_deep_config(config, kind):
    with pytest.raises(ValueError, match="^plan_from_config: ") as error:
        plan_from_config({"head_dim": 8, **config(deep(kind))}, layer=1)
    assert len(str(error.value)) < 300


def test_deep_values_that_are_compared():
    """Entries that would be alike, if anybody could tell."""
    entries = {name: {"rope_type": "linear", "factor": deep(list)} for name in "ab"}
    config = {"head_dim": 8, "layer_types": ["a", "b"], "rope_parameters": entries}
    with pytest.raises(ValueError, match="^plan_from_config: config: must not be nested so deeply"):
        plan_from_config(config)


@pytest.mark.parametrize(
    ("config", "problems"),
    [
        ({"head_dim": 7}, ["head_dim: must be even, got 7"]),
        ({"head_dim": 32768}, ["head_dim: must be from 1 to 4096, got 32768"]),
        ({"model_type": "deepseek_v3", "qk_rope_head_dim": 7}, ["qk_rope_head_dim: must be even"]),
        ({"model_type": "gemma4", "head_dim": 7}, ["head_dim: must be even, got 7"]),
        (
            {"model_type": "phi", "head_dim": 1},
            ["head_dim: must be so that 0.5 of it is even, got 1"],
        ),
        (
            {"hidden_size": 96, "num_attention_heads": 32},
            ["hidden_size: must make heads whose width is even, got 3"],
        ),
        ({"hidden_size": -1, "num_attention_heads": 32}, ["hidden_size: must be from 1 to"]),
        ({"hidden_size": 64, "num_attention_heads": "a"}, ["num_attention_heads: must be an int"]),
        (
            {"head_dim": "a", "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 1]}},
            ["head_dim: must be an integer"],
        ),
        (
            {
                "head_dim": 8,
                "partial_rotary_factor": "a",
                "rope_scaling": {"type": "mrope", "mrope_section": [1, 1]},
            },
            [
                "partial_rotary_factor: must be a finite number",
                "rope_scaling.mrope_section: must be 3 whole numbers from 0 to",
            ],
        ),
        (
            {"head_dim": 8, "partial_rotary_factor": -1, "rope_scaling": LONGROPE},
            [
                "partial_rotary_factor: must be a finite number above 0, got -1",
                "rope_scaling.original_max_position_embeddings: is missing",
                "rope_scaling.factor: is missing",
            ],
        ),
        (
            {"head_dim": 8, "rotary_dim": 3, "rope_scaling": {**LONGROPE, "factor": 0.5}},
            [
                "rotary_dim: must be even and at most 8, got 3",
                "rope_scaling.factor: must be a finite number of at least 1, got 0.5",
                "rope_scaling.original_max_position_embeddings: is missing",
            ],
        ),
        (
            {
                "head_dim": 8,
                "rope_theta": -5,
                "max_position_embeddings": -1,
                "rope_scaling": {"type": "yarn"},
            },
            ["max_position_embeddings: must be from 1 to", "rope_theta: must be a finite number"],
        ),
        (
            {
                "head_dim": 8,
                "num_hidden_layers": 10**9,
                "layer_types": ["a"] * 3,
                "rope_parameters": {"a": {}},
            },
            ["num_hidden_layers: must be from 1 to 1024"],
        ),
        (
            {
                "head_dim": 8,
                "num_hidden_layers": 2,
                "layer_types": ["a"] * 3,
                "rope_parameters": {"a": {}},
            },
            ["layer_types: must be 2 names, got list of 3"],
        ),
        (
            {"head_dim": 8, "rope_parameters": {"a": {}}},
            ["layer_types: is missing, but rope_parameters is by layer type"],
        ),
        (
            {"model_type": "mimo_v2_flash", "hybrid_layer_pattern": 5},
            ["hybrid_layer_pattern: must"],
        ),
        (
            {
                "model_type": "qwen",
                "head_dim": 8,
                "use_logn_attn": True,
                "max_position_embeddings": -5,
            },
            ["max_position_embeddings: must be from 1 to"],
        ),
        (
            {
                "model_type": "gpt_neox",
                "head_dim": 64,
                "rotary_emb_base": 0.5,
                "rope_scaling": {
                    "type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 64,
                },
            },
            ["rotary_emb_base: must be above 1 for a ramp, got 0.5"],
        ),
        (
            {"head_dim": 8, "rope_scaling": {"rope_type": {"a": 1}, "factor": 2.0}},
            ["rope_scaling.rope_type: must be one of"],
        ),
    ],
)
def test_only_what_is_wrong(config, problems):
    """No key that nobody gave, and no fault that only a stand-in for another has."""
    with pytest.raises(ValueError) as error:
        plan_from_config(config, layer=0)
    found = str(error.value).removeprefix("plan_from_config: ").split("; ")
    assert len(found) == len(problems)
    for got, wanted in zip(sorted(found), sorted(problems), strict=True):
        assert got.startswith(wanted)


def test_many_kinds_of_layers():
    """The first of them, as wide as they are; the others are counted."""
    for width, shown in ((64, 16), (1024, 8), (4096, 2)):
        config = {"head_dim": width, "layer_rope_theta": [10000 + i for i in range(1024)]}
        text = describe(config)
        assert text.count("\nmethod ") == shown
        assert text.endswith(f"\n\nand {1024 - shown} more kinds of layers: --layer shows one")
        assert "base              11023\n" in describe(config, 1023)


def test_a_config_inside_itself():
    config = {"model_type": "llava", "head_dim": 64}
    config["text_config"] = config
    assert plan_from_config(config).rotary_dim == 64


JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 10**20),
        st.floats(),
        st.sampled_from(["yarn", "full_attention", "llama", ""]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["full_attention", "factor", "rope_type", "rope_theta"]), inner
        ),
    ),
    max_leaves=8,
)
TOP = (
    "head_dim hidden_size num_attention_heads rope_theta rope_scaling rope_parameters layer_types "
    "num_hidden_layers partial_rotary_factor rotary_dim max_position_embeddings text_config "
    "no_rope_layers layer_rope_theta sliding_window original_max_position_embeddings "
    "per_layer_config rope_scaling_layers partial_rotary_factors compress_ratios decoder "
    "seq_length num_nextn_predict_layers kv_channels rope_ratio attn_config use_dynamic_ntk "
    "use_logn_attn"
).split()


@given(
    st.sampled_from(sorted(TYPES)),
    st.dictionaries(st.sampled_from(TOP), JUNK),
    st.sampled_from([None, 0, 7]),
)
def test_junk(model_type, values, layer):
    """Whatever is in a config, there is a plan, None, or a ValueError that says why not."""
    try:
        plan = plan_from_config({"model_type": model_type, "head_dim": 64, **values}, layer=layer)
    except ValueError as error:
        assert str(error).startswith("plan_from_config: ")
    else:
        assert plan is None or np.isfinite(plan.inv_freq).all()


# GGUF


def write_gguf(path, arch, keys, tensors=()):
    writer = gguf.GGUFWriter(path, arch)
    for key, value in keys.items():
        name = f"{arch}.{key}"
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        else:
            writer.add_uint32(name, value)
    for name, data in dict(tensors).items():
        writer.add_tensor(name, np.array(data, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


SIZES = {
    "block_count": 32,
    "context_length": 131072,
    "embedding_length": 4096,
    "attention.head_count": 32,
    "rope.dimension_count": 128,
    "rope.freq_base": 500000.0,
}


def test_gguf_llama(tmp_path):
    """llama.cpp turns the weights back, so that a Llama is interleaved there."""
    path = write_gguf(tmp_path / "a.gguf", "llama", SIZES)
    plan = plan_from_config(path)
    assert same(plan, posenc.rope_plan(128, base=500000.0, layout="interleaved"))
    assert plan.notes["model_type"] == "llama"
    factors = [1.0] * 30 + [3.0] * 4 + [8.0] * 30  # what a Llama 3.1 is converted to
    path = write_gguf(tmp_path / "b.gguf", "llama", SIZES, {"rope_freqs.weight": factors})
    expected = [float(w / f) for w, f in zip(plain(128, 500000), factors, strict=True)]
    plan = plan_from_config(path)
    assert (plan.inv_freq.tolist(), plan.attention_factor) == (expected, 1.0)


def test_gguf_factors_are_explained(tmp_path):
    """They are no longrope of two lists, and nothing says what the model was trained on."""
    factors = [1.0] * 30 + [3.0] * 4 + [8.0] * 30
    path = write_gguf(tmp_path / "a.gguf", "llama", SIZES, {"rope_freqs.weight": factors})
    lines = plan_from_config(path).explain().splitlines()
    assert lines[0] == "method            longrope, a divisor for each pair, the same at any length"
    assert lines[2] == "length            131072 in the config"
    assert "pairs             30 kept, 34 divided" in lines
    path = write_gguf(tmp_path / "b.gguf", "llama", SIZES, {"rope_freqs.weight": factors[1:]})
    with pytest.raises(ValueError, match=r"rope_freqs\.weight: must be 64 numbers, got list of 63"):
        plan_from_config(path)


def test_gguf_yarn(tmp_path):
    scaling = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 32768,
    }
    keys = {**SIZES, "rope.freq_base": 1e6, "attention.key_length": 128, **scaling}
    plan = plan_from_config(write_gguf(tmp_path / "a.gguf", "qwen2", keys))
    assert same(plan, plan_from_config(CONFIGS / "qwen2.5-yarn.json"))
    keys["rope.scaling.attn_factor"] = 0.5  # times the temperature
    plan = plan_from_config(write_gguf(tmp_path / "c.gguf", "qwen2", keys))
    assert plan.attention_factor == pytest.approx(1.138629436112 / 2, rel=1e-12)
    keys["rope.scaling.yarn_ext_factor"] = 0.5
    with pytest.raises(ValueError, match="rope.scaling.yarn_ext_factor: must be 1, got 0.5"):
        plan_from_config(write_gguf(tmp_path / "b.gguf", "qwen2", keys))


def test_gguf_deepseek(tmp_path):
    keys = {
        "block_count": 61,
        "context_length": 163840,
        "embedding_length": 7168,
        "attention.head_count": 128,
        "attention.key_length": 192,
        "rope.dimension_count": 64,
        "rope.freq_base": 10000.0,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 40.0,
        "rope.scaling.original_context_length": 4096,
        "rope.scaling.yarn_log_multiplier": 0.1,
    }
    plan = plan_from_config(write_gguf(tmp_path / "a.gguf", "deepseek2", keys))
    expected = plan_from_config(CONFIGS / "deepseek-v3.json")
    assert same(plan, expected)
    assert plan.notes["score_factor"] == pytest.approx(expected.notes["score_factor"], rel=1e-7)


def test_gguf_longrope(tmp_path):
    config = load("phi-3.5-mini")["rope_scaling"]
    tensors = {f"rope_factors_{w}.weight": config[f"{w}_factor"] for w in ("long", "short")}
    keys = {
        **SIZES,
        "embedding_length": 3072,
        "rope.dimension_count": 96,
        "rope.freq_base": 10000.0,
        "rope.scaling.original_context_length": 4096,
        "rope.scaling.attn_factor": 1.1902380714238083,
    }
    path = write_gguf(tmp_path / "a.gguf", "phi3", keys, tensors)
    for seq_len in (4096, 4097):
        plan = plan_from_config(path, seq_len=seq_len)
        expected = plan_from_config(CONFIGS / "phi-3.5-mini.json", seq_len=seq_len)
        # its lists are the float32 of those in the config, which are float32 already
        assert plan.inv_freq.tolist() == expected.inv_freq.tolist()
        assert plan.attention_factor == np.float32(expected.attention_factor)


def test_gguf_layers(tmp_path):
    keys = {
        **SIZES,
        "attention.key_length": 256,
        "rope.dimension_count": 256,
        "rope.freq_base": 1e6,
        "rope.scaling.type": "linear",
        "rope.scaling.factor": 8.0,
    }
    path = write_gguf(tmp_path / "a.gguf", "gemma3", keys)
    for layer in (0, 5):
        expected = plan_from_config(CONFIGS / "gemma-3-12b.json", layer=layer)
        assert same(plan_from_config(path, layer=layer), expected)
    keys["attention.sliding_window_pattern"] = [True, False] * 16
    path = write_gguf(tmp_path / "b.gguf", "gemma3", keys)
    assert plan_from_config(path, layer=1).notes["factor"] == 8
    keys = {**SIZES, "rope.dimension_sections": [24, 20, 20, 0]}
    path = write_gguf(tmp_path / "c.gguf", "qwen3vl", keys)
    assert plan_from_config(path).axis.tolist() == [0, 1, 2] * 20 + [0] * 4


def test_gguf_gemma4(tmp_path):
    """Windows have heads and a base of their own; a factor of 1e30 is a pair that stands still."""
    keys = {
        "block_count": 6,
        "context_length": 131072,
        "embedding_length": 2304,
        "attention.head_count": 8,
        "attention.key_length": 512,
        "attention.key_length_swa": 256,
        "attention.sliding_window": 512,
        "attention.sliding_window_pattern": [True] * 5 + [False],
        "rope.dimension_count": 512,
        "rope.dimension_count_swa": 256,
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
    }
    factors = {"rope_freqs.weight": [1.0] * 64 + [1e30] * 192}
    path = write_gguf(tmp_path / "a.gguf", "gemma4", keys, factors)
    for layer in (0, 5):
        expected = plan_from_config(CONFIGS / "gemma-4.json", layer=layer)
        assert same(plan_from_config(path, layer=layer), expected)


def test_gguf_windows(tmp_path):
    """Gemma 3n has its pattern of 5; the yarn of OLMo 3, "olmo2" there, is not of its windows."""
    keys = {**SIZES, "attention.key_length": 256, "rope.dimension_count": 256}
    path = write_gguf(tmp_path / "a.gguf", "gemma3n", {**keys, "rope.freq_base": 1e6})
    for layer, base in ((3, 10000), (4, 1000000)):
        plan = plan_from_config(path, layer=layer)
        assert plan.inv_freq.tolist() == [float(w) for w in plain(256, base)]
    keys = {
        **SIZES,
        "attention.sliding_window": 4096,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 8.0,
        "rope.scaling.original_context_length": 8192,
    }
    path = write_gguf(tmp_path / "b.gguf", "olmo2", keys)
    for layer in (0, 31):
        expected = plan_from_config(CONFIGS / "olmo-3.json", layer=layer)
        assert same(plan_from_config(path, layer=layer), expected)
    keys = {**SIZES, "rope.freq_base": 5e6, "rope.freq_base_swa": 1e4, "rope.dimension_count": 64}
    keys |= {"attention.key_length": 192, "attention.sliding_window_pattern": [False, True] * 16}
    path = write_gguf(tmp_path / "c.gguf", "mimo2", keys)
    expected = {"model_type": "mimo_v2_flash", "hybrid_layer_pattern": [0, 1] * 16}
    for layer in (0, 1):
        assert same(plan_from_config(path, layer=layer), plan_from_config(expected, layer=layer))


@pytest.mark.parametrize(
    ("arch", "extra", "layout", "width", "axes"),
    [
        ("falcon", {}, HALF, 128, 1),
        ("chatglm", {"rope.dimension_count": 64}, INTERLEAVED, 64, 1),
        ("internlm2", {}, INTERLEAVED, 128, 1),
        ("baichuan", {}, INTERLEAVED, 128, 1),
        ("glm4", {"rope.dimension_count": 64}, INTERLEAVED, 64, 1),
        (
            "glm4",
            {"rope.dimension_count": 64, "rope.dimension_sections": [8, 12, 12, 0]},
            HALF,
            64,
            3,
        ),
        ("paddleocr", {"rope.dimension_sections": [16, 24, 24, 0]}, HALF, 128, 3),
        (
            "qwen35",
            {"rope.dimension_count": 64, "rope.dimension_sections": [11, 11, 10, 0]},
            HALF,
            64,
            3,
        ),
        ("minicpm3", {"rope.dimension_count": 32}, HALF, 32, 1),
        ("granitehybrid", {}, INTERLEAVED, 128, 1),
        ("exaone4", {}, HALF, 128, 1),
    ],
)
def test_gguf_architectures(tmp_path, arch, extra, layout, width, axes):
    """Layouts as llama_model_rope_type of llama.cpp lists them, and the width the file states."""
    plan = plan_from_config(write_gguf(tmp_path / "a.gguf", arch, {**SIZES, **extra}))
    assert (plan.layout, plan.rotary_dim, 1 + plan.axis.max()) == (layout, width, axes)
    assert plan.inv_freq.tolist() == [float(w) for w in plain(width, 500000)]


def test_gguf_without_rotary_embedding(tmp_path):
    keys = {**SIZES, "attention.sliding_window": 4096}
    path = write_gguf(tmp_path / "a.gguf", "exaone4", keys)
    assert [plan_from_config(path, layer=i) is None for i in range(4)] == [False] * 3 + [True]
    path = write_gguf(tmp_path / "b.gguf", "baichuan", {**SIZES, "embedding_length": 5120})
    with pytest.raises(ValueError, match="embedding_length: must be 4096 for a rotary"):
        plan_from_config(path)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"block_count": 4096}, "block_count: must be from 1 to 1024, got 4096"),
        ({"attention.head_count": 3}, "embedding_length: must be a multiple of 3 heads"),
        ({"rope.dimension_count": 130}, "rope.dimension_count: must be even and at most 128"),
        ({"rope.freq_base": -1.0}, "rope.freq_base: must be a finite number above 0, got -1.0"),
        (
            {"rope.scaling.type": "yarn", "rope.scaling.factor": 0.5},
            "rope.scaling.factor: must be a finite number of at least 1, got 0.5",
        ),
        ({"rope.scaling.type": "magic"}, "rope.scaling.type: must be one of .*, got 'magic'"),
        ({"rope.dimension_sections": [1, 2, 3, 0]}, "rope.dimension_sections: must add up to 64"),
        ({"rope.scaling.attn_factor": 2.0}, "rope.scaling.attn_factor: must be 1, got 2.0"),
        (
            {"rope.scaling.type": "yarn", "rope.scaling.yarn_log_multiplier": "a"},
            "rope.scaling.yarn_log_multiplier: must be a number, got 'a'",
        ),
        (
            {
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 4.0,
                "rope.scaling.attn_factor": -1.0,
            },
            "rope.scaling.attn_factor: must be a finite number above 0, got -1",
        ),
    ],
)
def test_gguf_errors_name_its_own_keys(tmp_path, keys, message):
    path = write_gguf(tmp_path / "a.gguf", "llama", {**SIZES, **keys})
    with pytest.raises(ValueError, match=f"^plan_from_config: .*{message}"):
        plan_from_config(path)


def test_gguf_temperature(tmp_path):
    scaling = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 16.0,
        "rope.scaling.original_context_length": 16384,
        "rope.scaling.yarn_log_multiplier": 0.1,
        "attention.temperature_scale": 0.5,
    }
    path = write_gguf(tmp_path / "a.gguf", "mistral3", {**SIZES, **scaling})
    assert attention_temperature(path, [16384])[0] == float(1 + mpf(0.5) * mpmath.log(2))


def test_gguf_that_cannot_be_read(tmp_path):
    path = write_gguf(tmp_path / "a.gguf", "mamba", SIZES)
    with pytest.raises(ValueError, match="general.architecture: must be one of .*, got 'mamba'"):
        plan_from_config(path)
    whole = write_gguf(tmp_path / "b.gguf", "llama", SIZES).read_bytes()
    path = tmp_path / "c.gguf"
    for cut in (5, 20, 40, len(whole) // 2):
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match="^plan_from_config: config: c.gguf is a damaged GGUF"):
            plan_from_config(path)


def test_gguf_without_the_package(tmp_path, monkeypatch):
    path = write_gguf(tmp_path / "a.gguf", "llama", SIZES)
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    with pytest.raises(ImportError, match=r"needs the package gguf: pip install posenc\[gguf\]"):
        plan_from_config(path)


def test_parameters_of_the_class():
    """Models whose class scales where the config says nothing."""
    expected = plan_from_config({"head_dim": 128, "rope_theta": 12e6, "rope_scaling": APERTUS})
    assert same(plan_from_config({"model_type": "apertus", "head_dim": 128}), expected)
    bare = plan_from_config({"model_type": "gpt_oss", "head_dim": 64})
    assert same(bare, plan_from_config(CONFIGS / "gpt-oss-20b.json"))
    bare = plan_from_config({"model_type": "ministral3", "head_dim": 128})
    assert same(bare, plan_from_config(CONFIGS / "ministral-3.json"))
    for layer in (0, 5):
        bare = plan_from_config({"model_type": "gemma4", "head_dim": 256}, layer=layer)
        assert same(bare, plan_from_config(CONFIGS / "gemma-4.json", layer=layer))


APERTUS = {
    "type": "llama3",
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}


# Every model type that transformers has a rotary embedding for

AUDIT = json.loads((CONFIGS.parent / "models.json").read_text())["cases"]
APART = {name for name, model in TYPES.items() if model.mla}


@pytest.mark.parametrize(
    "case", AUDIT, ids=[f"{i}-{c['config']['model_type']}" for i, c in enumerate(AUDIT)]
)
def test_every_model_of_transformers(case):
    """Its class was executed: frequencies, attention factor, and what a vector is turned to."""
    config = case["config"]
    for layer, *expected in case["layers"]:
        plan = plan_from_config(config, layer=layer)
        if not expected:
            assert plan is None
            continue
        pairs, some, total, attention, turned = expected
        assert len(plan.inv_freq) == pairs
        got = plan.inv_freq[[1, pairs // 3, pairs - 1]]
        assert (np.abs(got - some) <= 2 * FLOAT32 * np.abs(got)).all()
        assert plan.inv_freq.sum() == pytest.approx(total, rel=2 * FLOAT32)
        assert plan.attention_factor == pytest.approx(attention, rel=1e-11)
        head = config["head_dim"] if plan.start else plan.notes["head_dim"]
        x = np.cos(1.0 + 0.37 * np.arange(head))
        axes = 1 + plan.axis.max()
        y = posenc.rope(x[None], [[3], [5], [8]][:axes] if axes > 1 else [3], plan=plan)[0]
        kind = config["model_type"].removesuffix("_text")
        if kind in APART and config.get("rope_interleave", True) and plan.layout != "half":
            y = y if kind in IN_PLACE else posenc.to_half(y)
        assert (y * np.sin(2.0 + 0.61 * np.arange(head))).sum() == pytest.approx(turned, abs=5e-6)


IN_PLACE = ("deepseek_v2", "hy_v4_vl")  # MLA that does not come out in half layout


def test_every_type_is_tested():
    """Or is among the published ones, or its authors' own code, or has no rotary embedding."""
    tested = {c["config"]["model_type"] for c in AUDIT} | {"roformer", *AUTHORS}
    tested |= {name.removesuffix("_model").removesuffix("_text") for name in tested}
    assert {n for n in set(TYPES) - tested if TYPES[n].nope != "all"} == set()


# Not part of transformers: what their authors' code does, with the sizes they publish.
SIZES_7B = {"hidden_size": 4096, "num_attention_heads": 32}
AUTHORS = {
    "chatglm": ({**SIZES_7B, "kv_channels": 128, "rope_ratio": 500}, INTERLEAVED, 64, 5000000),
    "baichuan": ({**SIZES_7B, "max_position_embeddings": 4096}, HALF, 128, 10000),
    "internlm2": ({**SIZES_7B, "rope_theta": 1000000}, HALF, 128, 1000000),
    "kimi_k2": ({"qk_rope_head_dim": 64, "rope_theta": 50000}, INTERLEAVED, 64, 50000),
    "mimo": ({**SIZES_7B, "rope_theta": 640000}, HALF, 128, 640000),
    "minicpm": ({"hidden_size": 2304, "num_attention_heads": 36}, HALF, 64, 10000),
    "minimax_text_01": (
        {"head_dim": 128, "rotary_dim": 64, "rope_theta": 10000000},
        HALF,
        64,
        10000000,
    ),
    "qwen": ({**SIZES_7B, "kv_channels": 128, "seq_length": 8192}, HALF, 128, 10000),
}


@pytest.mark.parametrize("name", AUTHORS)
def test_authors_own_code(name):
    config, layout, dim, base = AUTHORS[name]
    plan = plan_from_config({"model_type": name, **config})
    assert plan.layout == layout
    assert plan.inv_freq.tolist() == [float(w) for w in plain(dim, base)]


def test_qwen1_beyond_its_length():
    """NTK by 3, 7, 15, ... as the length doubles; and queries that grow with the logarithm."""
    config = {"model_type": "qwen", **AUTHORS["qwen"][0], "use_dynamic_ntk": True}
    short = plan_from_config(config)
    for seq_len, alpha in ((8192, 1), (8193, 3), (16384, 3), (16385, 7), (65537, 31)):
        plan = plan_from_config(config, seq_len=seq_len)
        base = 10000 * mpf(alpha) ** (mpf(128) / 126)
        assert plan.inv_freq.tolist() == [float(w) for w in plain(128, base)]
        assert plan_from_config(config | {"use_dynamic_ntk": False}, seq_len=seq_len) is not plan
    assert same(plan_from_config(config | {"use_dynamic_ntk": False}, seq_len=65537), short)
    grown = attention_temperature(config | {"use_logn_attn": True}, [0, 8191, 8192, 32767])
    assert grown.tolist() == [1, 1] + [float(mpmath.log(n, 8192)) for n in (8193, 32768)]
    assert attention_temperature(config, [32767]).tolist() == [1]


# Types without a plan, and keys that take it away


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "bloom"}, "model_type: 'bloom' has ALiBi, no rotary embedding: see alibi"),
        ({"model_type": "gpt2"}, "model_type: 'gpt2' has a learned table, no rotary"),
        ({"model_type": "t5"}, "model_type: 't5' has buckets of relative positions, no rotary"),
        ({"model_type": "nanochat"}, "model_type: 'nanochat' has a rotary embedding that turns b"),
        (
            {"model_type": "hunyuan_vl", "text_config": {"model_type": "hunyuan_vl_text"}},
            "model_type: 'hunyuan_vl' has a rotary embedding that turns the two channels",
        ),
        (
            {"model_type": "mistral_large4", "text_config": {}},
            "model_type: 'mistral_large4' has a rotary embedding with trained frequencies",
        ),
        ({"model_type": "pixtral"}, 'the rotary embedding of a grid: see .*"pixtral"'),
        (
            {"model_type": "qwen2_5_vl", "patch_size": 14, "spatial_merge_size": 2},
            "model_type: 'qwen2_5_vl' has the rotary embedding of a grid: see .*qwen2_vl",
        ),
        (
            {"model_type": "llava", "text_config": {"model_type": "opt"}},
            "text_config.model_type: 'opt' has a learned table",
        ),
        (
            {"model_type": "falcon", "head_dim": 64, "alibi": True},
            r"alibi: must be False .* ALiBi \(alibi_bias\), got True",
        ),
        (
            {"model_type": "baichuan", "hidden_size": 5120, "num_attention_heads": 40},
            "hidden_size: must be 4096 for a rotary embedding, as else there is ALiBi",
        ),
        (
            {"model_type": "chatglm", "kv_channels": 128, "position_encoding_2d": True},
            "position_encoding_2d: must be False",
        ),
        ({"model_type": "esm", "head_dim": 64}, "position_embedding_type: must be 'rotary'"),
    ],
)
def test_no_plan_for_it(config, message):
    with pytest.raises(ValueError, match=f"^plan_from_config: .*{message}"):
        plan_from_config(config)


def test_no_rotary_embedding():
    for config in (
        {"model_type": "jamba"},
        {"model_type": "granitemoehybrid", "head_dim": 64, "position_embedding_type": "nope"},
        {"model_type": "zamba2", "head_dim": 64},
        {"model_type": "olmo_hybrid", "head_dim": 64, "rope_parameters": {"rope_theta": None}},
    ):
        assert plan_from_config(config) is None


def test_layers_without_attention():
    """They have no plan; without a layer number the others count."""
    types = ["linear_attention"] * 3 + ["full_attention"]
    config = {"model_type": "qwen3_next", "num_hidden_layers": 4, "layer_types": types}
    assert plan_from_config(config, layer=0) is None
    assert same(plan_from_config(config), plan_from_config(config, layer=3))
    assert "linear_attention)\nno attention" in describe(config)


def test_heads_of_single_layers():
    """What transformers saves of Gemma 4: the width of the head, layer by layer."""
    config = {"model_type": "gemma4_text", "head_dim": 256, "num_hidden_layers": 12}
    assert plan_from_config(config, layer=5).rotary_dim == 512
    own = {"05": {"head_dim": 384}, "11": {"num_key_value_heads": 1}}
    for key in ("05", 5, "5"):
        layers = {**config, "per_layer_config": {**own, key: {"head_dim": 384}}}
        assert plan_from_config(layers, layer=5).rotary_dim == 384
        assert plan_from_config(layers, layer=11).rotary_dim == 256
    assert plan_from_config({**config, "per_layer_config": {}}, layer=5).rotary_dim == 256
    for wrong in ([], {"a": {}}, {"05": 5}, {-1: {}}, {"10000": {}}):
        with pytest.raises(ValueError, match="per_layer_config: must "):
            plan_from_config({**config, "per_layer_config": wrong}, layer=5)
    for key, value, message in (
        ("head_dim", "a", "must be an integer, got 'a'"),
        ("head_dim", 7, "must be even, got 7"),
        ("rope_theta", 1e6, "must not differ by layer, got 1000000.0"),
        ("partial_rotary_factor", 0.5, "must not differ by layer, got 0.5"),
        ("rope_parameters", {"a": 1}, "must not differ by layer, got dict of 1"),
    ):
        with pytest.raises(ValueError) as error:
            plan_from_config({**config, "per_layer_config": {"05": {key: value}}}, layer=5)
        assert str(error.value) == f"plan_from_config: per_layer_config.5.{key}: {message}"


def test_dense_layers_of_cohere2_moe():
    types = ["full_attention"] * 2 + ["sliding_attention", "full_attention"]
    config = {"model_type": "cohere2_moe", "head_dim": 128, "layer_types": types}
    mlps = {"mlp_layer_types": ["dense", "dense", "sparse", "sparse"]}
    for more, missing in (
        ({}, [0, 1, 3]),
        (mlps, [3]),
        ({"first_k_dense_replace": 1}, [1, 3]),
        ({**mlps, "prefix_dense_sliding_window_pattern": 4}, [0, 1, 3]),
    ):
        plans = [plan_from_config(config | more, layer=i) for i in range(4)]
        assert [i for i in range(4) if plans[i] is None] == missing
    del config["layer_types"]
    with pytest.raises(ValueError, match="layer_types: is missing, but first_k_dense_replace"):
        plan_from_config({**config, "first_k_dense_replace": 1}, layer=0)


@pytest.mark.parametrize(
    ("config", "layout", "width"),
    [
        ({"model_type": "kimi_k25", "text_config": {}}, INTERLEAVED, 64),
        ({"model_type": "internvl", "llm_config": {"head_dim": 96}}, HALF, 96),
        ({"model_type": "t5gemma", "encoder": {}, "decoder": {"head_dim": 96}}, HALF, 96),
        ({"decoder": {"model_type": "t5_gemma_module"}}, HALF, 256),
        ({"model_type": "dia", "decoder_config": {"model_type": "dia_decoder"}}, HALF, 128),
        (
            {
                "model_type": "qwen2_5_omni",
                "talker_config": {"model_type": "qwen2_5_omni_talker"},
                "thinker_config": {"text_config": {"model_type": "qwen2_5_omni_text"}},
            },
            HALF,
            128,
        ),
        (
            {
                "model_type": "colqwen2",
                "vlm_config": {"text_config": {"model_type": "qwen2_vl_text"}},
            },
            HALF,
            128,
        ),
    ],
)
def test_text_part(config, layout, width):
    """Found inside of a multimodal config; its type follows from the outer one if it has none."""
    plan = plan_from_config(config)
    assert (plan.layout, plan.rotary_dim) == (layout, width)


def test_odd_part_of_a_head():
    """transformers turns one channel more, with the exponents of the odd width."""
    config = {"model_type": "glm4_moe", "hidden_size": 4096, "num_attention_heads": 96}
    plan = plan_from_config(config)  # 21 of 42
    assert plan.rotary_dim == 22
    assert plan.inv_freq.tolist() == [float(mpf(10000) ** (-mpf(2 * i) / 21)) for i in range(11)]
    with pytest.raises(ValueError, match="hidden_size: must be a multiple of 96 heads, got 4096"):
        plan_from_config({**config, "model_type": "llama"})


def test_lists_by_layer_with_those_that_predict():
    """Step 3.5: bases and widths layer by layer, with one more of each for what is predicted."""
    config = {
        "model_type": "step3p5",
        "head_dim": 128,
        "num_hidden_layers": 2,
        "num_nextn_predict_layers": 1,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "rope_theta": [5000000.0, 10000.0, 10000.0],
        "partial_rotary_factors": [0.5, 1.0, 1.0],
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    }
    full, local = (plan_from_config(config, layer=i) for i in range(2))
    assert full.inv_freq.tolist() == [float(w) for w in linear(64, 5000000, 2)]
    assert local.inv_freq.tolist() == [float(w) for w in plain(128, 10000)]


def test_base_of_dbrx():
    config = {"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "attn_config": {}}
    assert plan_from_config(config).notes["base"] == 10000
    config["attn_config"] = {"rope_theta": 500000}
    assert same(plan_from_config(config), posenc.rope_plan(128, base=500000.0, layout="half"))
