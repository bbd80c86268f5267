"""What the rotary embedding of each model type is where its config does not say.

Read in the model code of transformers 5.24, or in the authors' code of what is not part of it:
layouts, and the defaults of the config classes.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ._classes import SIZES, WRAPPED
from .sinusoidal import Layout

__all__ = ["MODELS", "Model", "closest", "find_model"]


@dataclass(frozen=True)
class Model:
    """Conventions of a model type."""

    layout: Layout = "half"
    # The key that the base has at the top of the config, and what it is without; then the same for
    # layers of sliding attention, where they differ.
    base: tuple[str, float] = ("rope_theta", 10000.0)
    local_base: tuple[str, float] | None = None
    by_layer: bool = False  # the base may be a list
    ratio: str = ""  # the key of what multiplies the base (ChatGLM)
    scales_local: bool = True  # a `rope_scaling` for all layers scales those too
    part: tuple[str, float] = ("partial_rotary_factor", 1.0)  # of the head that turns
    last: bool = False  # the channels that turn are the last of the head (DeepSeek V4)
    # Layers of full attention: every n-th, the last of its n or the first, or the very first too.
    period: tuple[str, int, Literal["last", "first", "both"]] | None = None
    marks: tuple[str, int] | None = None  # a list with this for each layer of sliding attention
    # Layers without rotary embedding: all; those of `no_rope_layers`; those of full attention, if
    # others have windows; all without a window; every fourth, the last one of all among them; all,
    # if the base is null.
    nope: Literal["", "all", "listed", "full", "windowless", "fourth", "null"] = ""
    dense: bool = False  # but the first layers, those of a dense MLP, have one
    # A key; its value where there is a rotary embedding; its value if silent; what there is instead
    # otherwise, "" for nothing at all.
    switch: tuple[str, Any, Any, str] | None = None
    # Queries of layers without rotary embedding grow with the position (Llama 4).
    temperature: bool = False
    # M-RoPE: how many pairs time, height and width turn, and in which order: one after the other;
    # in turn; height and width in turn before time. Or, without time, rows and columns in turn.
    sections: tuple[int, ...] = ()
    order: Literal["chunked", "interleaved", "time last", "rows and columns"] = "chunked"
    fixed: bool = False  # the config sets neither base nor scaling
    longrope: bool = False  # "yarn" and "su" mean longrope (Phi-3)
    stepped: bool = False  # `use_dynamic_ntk` and `use_logn_attn` (Qwen 1)
    unscaled: bool = False  # a yarn that says no attention factor has 1 (DeepSeek V4)
    wide: bool = False  # heads are wider than hidden_size / num_attention_heads (Zamba 2)
    mla: bool = False  # the rotary channels are a vector of their own, `qk_rope_head_dim` wide
    parameters: Mapping[str, Any] = field(default_factory=dict)  # the model's own rope_parameters
    defaults: Mapping[str, Any] = field(default_factory=dict)  # other keys, if silent
    # hidden_size, num_attention_heads, head_dim, max_position_embeddings: for a `text_config`, in
    # which transformers saves only what differs from them. A head_dim counts everywhere.
    sizes: tuple[int | None, ...] = (None, None, None, None)

    def silent(self, nested: bool) -> dict[str, Any]:
        """The values of keys that the config leaves out."""
        head = "qk_rope_head_dim" if self.mla else "head_dim"
        keys = ("hidden_size", "num_attention_heads", head, "max_position_embeddings")
        sizes = dict(zip(keys, self.sizes, strict=True))
        return {**(sizes if nested else {head: sizes[head]}), **self.defaults}


def _same(names: str, **conventions: Any) -> dict[str, Model]:
    """The same conventions for several types."""
    return dict.fromkeys(names.split(), Model(**conventions))


def _theta(base: float, key: str = "rope_theta") -> dict[str, Any]:
    return {"base": (key, base)}


def _part(part: float, key: str = "partial_rotary_factor") -> dict[str, Any]:
    return {"part": (key, part)}


def _windows(
    sliding: Mapping[str, Any], full: Mapping[str, Any] | None, every: int = 0
) -> dict[str, Any]:
    """Parameters by the attention of a layer, of which every n-th is full."""
    return {
        "parameters": {"sliding_attention": sliding, "full_attention": full},
        "period": ("sliding_window_pattern", every, "last") if every else None,
    }


_INTERLEAVED: dict[str, Any] = {"layout": "interleaved"}
_EVERY_4TH: dict[str, Any] = {"period": ("sliding_window_pattern", 4, "last")}
_IN_TURN: dict[str, Any] = {"order": "interleaved"}
_LOCAL = {"rope_theta": 10000.0}  # of layers of sliding attention
_ALIBI = "ALiBi (alibi_bias)"
_GEMMA3 = Model(
    **_theta(1e6),
    local_base=("rope_local_base_freq", 1e4),
    scales_local=False,
    period=("sliding_window_pattern", 6, "last"),
)
_PROPORTIONAL = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}
_GEMMA4 = Model(**_windows(_LOCAL, _PROPORTIONAL, 6), defaults={"global_head_dim": 512})
_MODERNBERT = Model(
    **_theta(160000.0, "global_rope_theta"),
    local_base=("local_rope_theta", 10000.0),
    period=("global_attn_every_n_layers", 3, "first"),
)
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
_HIGGS = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 32.0,
    "original_max_position_embeddings": 1024,
    "low_freq_factor": 0.125,
    "high_freq_factor": 0.5,
}
_MINISTRAL3 = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale_all_dim": 1.0,
    "mscale": 1.0,
    "llama_4_scaling_beta": 0.1,
}
_MISTRAL4 = {"rope_theta": 1e4, "factor": 128.0, "original_max_position_embeddings": 8192}
_GPT_OSS = Model(
    **_theta(150000.0),
    parameters={
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    },
)
_MLA = Model(**_INTERLEAVED, mla=True)

_MODELS: dict[str, Model] = {
    # Half layout, every channel, every layer, base 10000, unless the config says otherwise.
    **_same(
        "arcee aria chameleon dbrx deepseek_ocr2 deepseek_ocr2_encoder dia_decoder dia_encoder "
        "diffllama doge dots1 esmc eurobert falcon_h1 gemma gemma2 gradium_phonon_tts granite "
        "granite4_vision granite_docling granite_swa granitemoe granitemoe_swa granitemoeshared "
        "hrm hunyuan_v1_dense hunyuan_v1_moe hyperclovax idefics internlm2 internlm3 iquestcoder "
        "jais2 jetmoe kyutai_speech_to_text lasr_encoder llama mimi mimi_decoder mimi_encoder "
        "mimo minimax_text_01 ministral mistral molmo2 moshi neucodec olmo olmo2 olmoe pocket_tts "
        "pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder "
        "pocket_tts_audio_tokenizer_encoder qwen2 qwen2_moe qwen3 qwen3_moe "
        "qwen3_omni_moe_talker_code_predictor sarvam_moe seed_oss starcoder2 t5_gemma_module "
        "timesfm2_5 unlimited_ocr vaultgemma voxtral_realtime_encoder xcodec2"
    ),
    # Another base,
    **_same("nomic_bert", **_theta(1e3)),
    **_same("jina_embeddings_v3", **_theta(2e4)),
    **_same("gte", **_theta(16e4)),
    **_same("bitnet csm csm_depth_decoder evolla exaone flex_olmo mllama", **_theta(5e5)),
    **_same("muse_glimmer_assistant", **_theta(5e5)),
    **_same("emu3 lfm2 lfm2_moe minimax mixtral solar_open voxtral_realtime", **_theta(1e6)),
    **_same("minimax_m2", **_theta(5e6)),
    **_same("minimax_m3_vl", **_theta(5e6), defaults={"rotary_dim": 64}),
    **_same("hy_v3", **_theta(11158840.0)),
    # a part of the head,
    **_same("bamba glm4_moe nemotron persimmon phi recurrent_gemma", **_part(0.5)),
    **_same("dots3_note_audio_encoder glmasr_encoder", **_part(0.5)),
    **_same("nemotron3_5_transcribe_asr_audio nemotron3_diarization_audio", **_part(0.5)),
    **_same("nemotron3_5_transcribe_word_timestamp", **_part(0.5)),
    **_same("qwen3_next stablelm", **_part(0.25)),
    "gpt_neox": Model(**_theta(1e4, "rotary_emb_base"), **_part(0.25, "rotary_pct")),
    "gpt_neox_japanese": Model(**_theta(1e4, "rotary_emb_base"), **_part(1.0, "rotary_pct")),
    # a scaling of its own,
    **_same("apertus apertus1p5", **_theta(12e6), parameters=_LLAMA3),
    "cwm": Model(**_theta(1e6), parameters={**_LLAMA3, "factor": 16.0}),
    "higgs_audio_v2": Model(parameters=_HIGGS),
    "ministral3": Model(parameters=_MINISTRAL3),
    "gpt_oss": _GPT_OSS,
    **_same("minicpm phi3 phi4_multimodal", longrope=True),
    "phimoe": Model(**_theta(1e6), longrope=True),
    "qwen": Model(**_theta(1e4, "rotary_emb_base"), **_part(1.0, "rotary_pct"), stepped=True),
    # or something else instead.
    "falcon": Model(switch=("alibi", False, False, _ALIBI)),
    "baichuan": Model(switch=("hidden_size", 4096, None, _ALIBI)),  # that of 7B, not of 13B
    "esm": Model(switch=("position_embedding_type", "rotary", "absolute", "a learned table")),
    "granitemoehybrid": Model(switch=("position_embedding_type", "rope", None, "")),
    "zamba2": Model(switch=("use_mem_rope", True, False, ""), wide=True),
    # Layers that differ
    **dict.fromkeys(("gemma3", "t5gemma2", "t5gemma2_decoder"), _GEMMA3),
    "gemma3n": replace(_GEMMA3, period=("sliding_window_pattern", 5, "last")),
    **dict.fromkeys(("gemma4", "gemma4_unified", "diffusion_gemma"), _GEMMA4),
    "embedding_gemma2": replace(_GEMMA4, **_windows(_LOCAL, {"rope_theta": 1e6}, 6)),
    "dory": Model(**_windows(_LOCAL, {"rope_theta": 1e7}, 4)),
    "ultrabert": Model(**_windows(_LOCAL, {"rope_theta": 256e4}, 3), by_layer=True),
    "laguna": Model(**_windows(_LOCAL, {"rope_theta": 5e5, "partial_rotary_factor": 0.5})),
    "mellum": Model(**_windows(_LOCAL, {"rope_theta": 5e5})),
    "lfm3": Model(**_windows(_LOCAL, {**_PROPORTIONAL, "partial_rotary_factor": 0.5})),
    "beam": Model(**_windows(_LOCAL, None)),
    "zaya": Model(
        parameters={
            "hybrid": {"rope_theta": 5e6, "partial_rotary_factor": 0.5},
            "hybrid_sliding": {"rope_theta": 1e4, "partial_rotary_factor": 0.5},
        }
    ),
    "mimo_v2_flash": Model(
        **_theta(5e6),
        **_part(0.334),
        local_base=("swa_rope_theta", 1e4),
        scales_local=False,
        period=("sliding_window_pattern", 6, "both"),
        marks=("hybrid_layer_pattern", 1),
    ),
    "olmo3": Model(**_theta(5e5), local_base=("rope_theta", 5e5), scales_local=False, **_EVERY_4TH),
    "step3p5": Model(local_base=("rope_theta", 1e4), by_layer=True, scales_local=False),
    **dict.fromkeys(("modernbert", "modernbert-decoder"), _MODERNBERT),
    "smollm3": Model(**_theta(2e6), nope="listed", defaults={"no_rope_layer_interval": 4}),
    **_same("exaone4 exaone_moe", nope="full", **_EVERY_4TH),
    "kolibri1": Model(nope="full", period=("sliding_window_pattern", 5, "last")),
    "afmoe": Model(nope="windowless", **_EVERY_4TH),
    **_same("flint lara_mini", nope="windowless"),
    "muse_glimmer": Model(nope="fourth", defaults={"num_hidden_layers": 52}),
    "muse_spark": Model(**_theta(5e5), nope="fourth", defaults={"num_hidden_layers": 62}),
    "olmo_hybrid": Model(nope="null"),
    **_same("falcon_mamba glm5_next jamba kimi_linear mamba mamba2 nemotron_h zamba", nope="all"),
    # Several axes
    **_same("qwen2_vl qwen2_5_vl qwen2_5_omni", **_theta(1e6), sections=(16, 24, 24)),
    "qwen2_5_omni_talker": Model(**_theta(1e6), sections=(16, 24, 24)),
    "paddleocr_vl": Model(**_theta(5e5), sections=(16, 24, 24)),
    "glm4v_moe": Model(**_part(0.5), sections=(8, 12, 12)),
    "glm_image": Model(sections=(8, 12, 12)),
    **_same("qwen3_vl qwen3_vl_moe", **_theta(5e5), sections=(24, 20, 20), **_IN_TURN),
    **_same("qwen3_omni_moe", **_theta(1e6), sections=(24, 20, 20), **_IN_TURN),
    **_same("qwen3_omni_moe_talker", **_theta(1e6), sections=(24, 20, 20), **_IN_TURN),
    "cosmos3_edge": Model(**_theta(1e8), sections=(24, 20, 20), **_IN_TURN),
    "cohere_compass": Model(sections=(24, 20, 20), **_IN_TURN),
    **_same("qwen3_5 qwen3_5_moe", **_part(0.25), sections=(11, 11, 10), **_IN_TURN),
    "qwen4_exp": Model(sections=(11, 11, 10), **_IN_TURN),
    "neomme": Model(
        **_windows(_LOCAL, {"rope_theta": 1e6, "partial_rotary_factor": 0.25}),
        order="rows and columns",
    ),
    # Interleaved layout
    **_same("gptj codegen", **_INTERLEAVED, fixed=True, defaults={"rotary_dim": 64}),
    **_same("roformer", **_INTERLEAVED, fixed=True),
    **_same("blt_global_transformer blt_patcher", **_INTERLEAVED, **_theta(5e5)),
    **_same("blt_local_encoder blt_local_decoder", **_INTERLEAVED, **_theta(5e5)),
    **_same("cohere ernie4_5 ernie4_5_moe", **_INTERLEAVED, **_theta(5e5)),
    **_same("helium", **_INTERLEAVED, **_theta(1e5)),
    **_same("pe_audio_encoder pe_audio_video_encoder", **_INTERLEAVED, **_theta(2e4)),
    **_same("pe_video_encoder", **_INTERLEAVED, **_theta(2e4)),
    **_same("glm glm4", **_INTERLEAVED, **_part(0.5)),
    "chatglm": Model(
        **_INTERLEAVED,
        **_part(0.5),
        ratio="rope_ratio",
        switch=("position_encoding_2d", False, False, "positions on two axes"),
    ),
    "moonshine": Model(**_INTERLEAVED, **_part(0.9)),
    "moonshine_streaming": Model(**_INTERLEAVED, parameters={"partial_rotary_factor": 0.8}),
    "openai_privacy_filter": replace(_GPT_OSS, **_INTERLEAVED),
    "cohere2": Model(**_INTERLEAVED, nope="windowless", **_EVERY_4TH),
    "cohere2_moe": Model(**_INTERLEAVED, nope="windowless", dense=True, **_EVERY_4TH),
    "llama4": Model(
        **_INTERLEAVED,
        **_theta(5e5),
        nope="listed",
        temperature=True,
        defaults={"no_rope_layer_interval": 4, "floor_scale": 8192, "attn_scale": 0.1},
    ),
    **_same("glm4v glm_ocr", **_INTERLEAVED, sections=(8, 12, 12)),
    "ernie4_5_vl_moe": Model(
        **_INTERLEAVED, **_theta(5e5), sections=(22, 22, 20), order="time last"
    ),
    "deepseek_v4": Model(
        **_INTERLEAVED,
        **_theta(160000.0, "compress_rope_theta"),
        **_part(0.125),
        local_base=("rope_theta", 1e4),
        scales_local=False,
        last=True,
        period=("", 1, "last"),
        marks=("compress_ratios", 0),
        unscaled=True,
    ),
    # The rotary channels apart: kimi_k2 has the code of DeepSeek-V3
    **dict.fromkeys(
        "axk1 axk2 deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa kimi_k2 "
        "sarvam_mla youtu".split(),
        _MLA,
    ),
    "bailing_hybrid": replace(_MLA, **_theta(6e6)),
    "longcat_flash": replace(_MLA, **_theta(1e7)),
    "mistral4": replace(_MLA, parameters={**_MINISTRAL3, **_MISTRAL4}),
    "dots3_note": replace(_MLA, **_theta(8e7), local_base=("swa_rope_theta", 5e4)),
    "hy_v4_vl": replace(_MLA, sections=(12, 10, 10), **_IN_TURN),
    **_same("hy_v4 minicpm3", mla=True),
}
MODELS = {
    name: replace(model, sizes=SIZES.get(name, model.sizes)) for name, model in _MODELS.items()
}


def find_model(model_type: str) -> Model | None:
    """The conventions of a model type; None if it is not known."""
    short = model_type.removesuffix("_model").removesuffix("_text")
    for name in (model_type, short, WRAPPED.get(short, "")):
        if name in MODELS:
            return MODELS[name]
    return None


def closest(model_type: str) -> str:
    """The known type whose name is most like this one; "" if none is."""
    return "".join(difflib.get_close_matches(model_type[:40], MODELS, 1))
