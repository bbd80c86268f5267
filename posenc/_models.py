"""What the rotary embedding of each model type is where its config does not say.

Read in the model code of transformers 5.24: layouts, and the defaults of the config classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .sinusoidal import Layout

__all__ = ["MODELS", "Model", "find_model"]


@dataclass(frozen=True)
class Model:
    """Conventions of a model type."""

    layout: Layout = "half"
    # The key that the base has at the top of the config, and what it is without; then the same for
    # layers of sliding attention, where they differ.
    base: tuple[str, float] = ("rope_theta", 10000.0)
    local_base: tuple[str, float] | None = None
    scales_local: bool = True  # a `rope_scaling` for all layers scales those too
    part: tuple[str, float] = ("partial_rotary_factor", 1.0)  # of the head that turns
    # Layers of full attention: every n-th, the last of its n or the first.
    period: tuple[str, int, Literal["last", "first"]] | None = None
    # Layers without rotary embedding: those of `no_rope_layers`, or those of full attention.
    nope: Literal["", "listed", "full"] = ""
    # Queries of layers without rotary embedding grow with the position (Llama 4).
    temperature: bool = False
    sections: tuple[int, ...] = ()  # of M-RoPE: pairs turned by time, height, width
    interleaved: bool = False  # M-RoPE's axes in turn, not one after the other
    longrope: bool = False  # "yarn" and "su" mean longrope (Phi-3)
    mla: bool = False  # the rotary channels are a vector of their own, `qk_rope_head_dim` wide
    parameters: Mapping[str, Any] = field(default_factory=dict)  # the model's own rope_parameters
    defaults: Mapping[str, Any] = field(default_factory=dict)  # other keys, if silent
    # hidden_size, num_attention_heads, head_dim, max_position_embeddings: for a `text_config`, in
    # which transformers saves only what differs from them.
    sizes: tuple[int, int, int | None, int] | None = None

    def silent(self, nested: bool) -> dict[str, Any]:
        """The values of keys that the config leaves out."""
        if not nested or self.sizes is None:
            return dict(self.defaults)
        keys = ("hidden_size", "num_attention_heads", "head_dim", "max_position_embeddings")
        return {**dict(zip(keys, self.sizes, strict=True)), **self.defaults}


def _theta(base: float, layout: Layout = "half", **more: Any) -> Model:
    return Model(layout=layout, base=("rope_theta", base), **more)


def _partial(part: float, layout: Layout = "half", **more: Any) -> Model:
    return Model(layout=layout, part=("partial_rotary_factor", part), **more)


_GEMMA3 = Model(
    base=("rope_theta", 1e6),
    local_base=("rope_local_base_freq", 1e4),
    scales_local=False,
    period=("sliding_window_pattern", 6, "last"),
    sizes=(2304, 8, 256, 131072),
)
_GEMMA4 = Model(
    period=("sliding_window_pattern", 6, "last"),
    parameters={
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {
            "rope_type": "proportional",
            "partial_rotary_factor": 0.25,
            "rope_theta": 1000000.0,
        },
    },
    defaults={"global_head_dim": 512},
    sizes=(2304, 8, 256, 131072),
)
_MODERNBERT = Model(
    base=("global_rope_theta", 160000.0),
    local_base=("local_rope_theta", 10000.0),
    period=("global_attn_every_n_layers", 3, "first"),
)
_GPTJ = Model(layout="interleaved", defaults={"rotary_dim": 64})
_DEEPSEEK = Model(layout="interleaved", mla=True, defaults={"qk_rope_head_dim": 64})

MODELS: dict[str, Model] = {
    # Half layout, base 10000, every channel, every layer, unless the config says otherwise.
    **{
        name: Model()
        for name in (
            "arcee gemma granite granitemoe hunyuan_v1_dense hunyuan_v1_moe olmo olmo2 olmoe "
            "qwen2_moe qwen3_moe seed_oss starcoder2"
        ).split()
    },
    "llama": Model(sizes=(4096, 32, None, 2048)),
    "mistral": Model(sizes=(4096, 32, None, 131072)),
    "ministral": Model(sizes=(4096, 32, None, 131072)),
    "ministral3": Model(
        parameters={
            "rope_type": "yarn",
            "rope_theta": 1000000.0,
            "factor": 16.0,
            "original_max_position_embeddings": 16384,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "mscale_all_dim": 1.0,
            "mscale": 1.0,
            "llama_4_scaling_beta": 0.1,
        },
        sizes=(4096, 32, 128, 262144),
    ),
    "mixtral": _theta(1e6),
    "llama4": _theta(
        500000.0,
        "interleaved",
        nope="listed",
        temperature=True,
        defaults={"no_rope_layer_interval": 4, "floor_scale": 8192, "attn_scale": 0.1},
        sizes=(5120, 40, 128, 131072),
    ),
    "mllama": _theta(500000.0, sizes=(4096, 32, None, 131072)),
    "bitnet": _theta(500000.0),
    "apertus": _theta(
        12e6,
        parameters={
            "rope_type": "llama3",
            "factor": 8.0,
            "original_max_position_embeddings": 8192,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
    ),
    "qwen2": Model(sizes=(4096, 32, None, 32768)),
    "qwen3": Model(sizes=(4096, 32, 128, 32768)),
    "qwen2_vl": _theta(1e6, sections=(16, 24, 24), sizes=(8192, 64, None, 32768)),
    "qwen2_5_vl": _theta(1e6, sections=(16, 24, 24), sizes=(8192, 64, None, 32768)),
    "qwen3_vl": _theta(
        500000.0, sections=(24, 20, 20), interleaved=True, sizes=(4096, 32, 128, 128000)
    ),
    "qwen3_vl_moe": _theta(
        500000.0, sections=(24, 20, 20), interleaved=True, sizes=(2048, 16, None, 128000)
    ),
    "qwen3_next": _partial(0.25, defaults={"head_dim": 256}),
    "qwen3_5": _partial(
        0.25, sections=(11, 11, 10), interleaved=True, sizes=(4096, 16, 256, 32768)
    ),
    "qwen3_5_moe": _partial(
        0.25, sections=(11, 11, 10), interleaved=True, sizes=(2048, 16, 256, 32768)
    ),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,  # the code of DeepSeek-V3
    "phi": _partial(0.5),
    "phi3": Model(longrope=True),
    "phimoe": _theta(1e6, longrope=True),
    "gemma2": Model(sizes=(2304, 8, 256, 8192)),
    "gemma3": _GEMMA3,
    "gemma3n": replace(
        _GEMMA3, period=("sliding_window_pattern", 5, "last"), sizes=(2048, 8, 256, 32768)
    ),
    "gemma4": _GEMMA4,
    "gpt_oss": _theta(
        150000.0,
        parameters={
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
        },
        defaults={"head_dim": 64},
    ),
    "gptj": _GPTJ,
    "codegen": _GPTJ,
    "gpt_neox": Model(base=("rotary_emb_base", 10000.0), part=("rotary_pct", 0.25)),
    "gpt_neox_japanese": Model(base=("rotary_emb_base", 10000.0), part=("rotary_pct", 1.0)),
    "stablelm": _partial(0.25),
    "persimmon": _partial(0.5),
    "nemotron": _partial(0.5),
    "minimax_m2": _theta(5e6),
    "glm": _partial(0.5, "interleaved", defaults={"head_dim": 128}),
    "glm4": _partial(0.5, "interleaved", defaults={"head_dim": 128}),
    "glm4_moe": _partial(0.5),
    "helium": _theta(100000.0, "interleaved", defaults={"head_dim": 128}),
    "ernie4_5": _theta(500000.0, "interleaved", defaults={"head_dim": 128}),
    "ernie4_5_moe": _theta(500000.0, "interleaved"),
    "smollm3": _theta(2e6, nope="listed", defaults={"no_rope_layer_interval": 4}),
    "olmo3": _theta(
        500000.0,
        local_base=("rope_theta", 500000.0),
        scales_local=False,
        period=("sliding_window_pattern", 4, "last"),
    ),
    "modernbert": _MODERNBERT,
    "modernbert-decoder": _MODERNBERT,
    "cohere": _theta(500000.0, "interleaved"),
    "cohere2": Model(
        layout="interleaved", period=("sliding_window_pattern", 4, "last"), nope="full"
    ),
    "exaone4": Model(period=("sliding_window_pattern", 4, "last"), nope="full"),
    "granite_swa": Model(),  # its bases a layer are `layer_rope_theta`, where 0 is none
    "roformer": Model(layout="interleaved"),
}

# The text model of a multimodal one, where its text_config leaves the type out.
_WRAPPED = {"llava": "llama", "mistral3": "mistral"}


def find_model(model_type: str) -> Model | None:
    """The conventions of a model type; None if it is not known."""
    name = model_type.removesuffix("_model").removesuffix("_text")
    return MODELS.get(_WRAPPED.get(name, name))
