"""The rotary metadata of a GGUF file, as a Hugging Face config would have it."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any

from ._args import fail
from ._fields import show
from ._models import MODELS, Model
from .sinusoidal import Layout

__all__ = ["NAMES", "is_gguf", "read_gguf"]

# What the keys of a config are in a file, after the name of the architecture.
NAMES = {
    "hidden_size": "embedding_length",
    "num_attention_heads": "attention.head_count",
    "head_dim": "attention.key_length",
    "rotary_dim": "rope.dimension_count",
    "num_hidden_layers": "block_count",
    "max_position_embeddings": "context_length",
    "rope_theta": "rope.freq_base",
    "layer_types": "attention.sliding_window_pattern",
    "sliding_window_pattern": "attention.sliding_window_pattern",
    "rope_scaling.mrope_section": "rope.dimension_sections",
    "rope_scaling.rope_type": "rope.scaling.type",
    "rope_scaling.factor": "rope.scaling.factor",
    "rope_scaling.original_max_position_embeddings": "rope.scaling.original_context_length",
    "rope_scaling.attention_factor": "rope.scaling.attn_factor",
    "rope_scaling.attn_factor": "rope.scaling.attn_factor",
    "rope_scaling.long_factor": "rope_factors_long.weight or rope_freqs.weight",
    "rope_scaling.short_factor": "rope_factors_short.weight or rope_freqs.weight",
    "rope_scaling.beta_fast": "rope.scaling.yarn_beta_fast",
    "rope_scaling.beta_slow": "rope.scaling.yarn_beta_slow",
    "rope_scaling.llama_4_scaling_beta": "attention.temperature_scale",
}

# Architectures of llama.cpp, by the model type whose layers they have. The layout is theirs, not
# that of the Hugging Face checkpoint: converting a Llama turns its weights back to interleaved, and
# those of GLM-4V to half.
_INTERLEAVED = {
    **{
        name: name
        for name in (
            "arcee baichuan chameleon chatglm cohere2 ernie4_5 granite granitemoe internlm2 llama "
            "llama4 minicpm olmo smollm3"
        ).split()
    },
    "command-r": "cohere",
    "deepseek2": "deepseek_v3",
    "ernie4_5-moe": "ernie4_5_moe",
    "glm-dsa": "glm_moe_dsa",
    "glm4": "glm4",
    "granitehybrid": "granitemoehybrid",
    "mistral3": "ministral3",
}
_HALF = {
    **{
        name: name
        for name in (
            "afmoe apertus bitnet dbrx dots1 eurobert exaone exaone4 falcon gemma gemma2 gemma3 "
            "gemma3n gemma4 jais2 lfm2 minicpm3 nemotron olmo2 olmoe phi3 phimoe qwen qwen2 qwen3 "
            "seed_oss stablelm starcoder2"
        ).split()
    },
    "exaone-moe": "exaone_moe",
    "falcon-h1": "falcon_h1",
    "gemma-embedding": "gemma3",
    "glm4moe": "glm4_moe",
    "gpt-oss": "gpt_oss",
    "gptneox": "gpt_neox",
    "hunyuan-dense": "hunyuan_v1_dense",
    "hunyuan-moe": "hunyuan_v1_moe",
    "jina-bert-v3": "jina_embeddings_v3",
    "lfm2moe": "lfm2_moe",
    "mimo2": "mimo_v2_flash",
    "minimax-m2": "minimax_m2",
    "modern-bert": "modernbert",
    "nomic-bert": "nomic_bert",
    "nomic-bert-moe": "nomic_bert",
    "paddleocr": "paddleocr_vl",
    "phi2": "phi",
    "qwen2moe": "qwen2_moe",
    "qwen2vl": "qwen2_vl",
    "qwen3moe": "qwen3_moe",
    "qwen3next": "qwen3_next",
    "qwen3vl": "qwen3_vl",
    "qwen3vlmoe": "qwen3_vl_moe",
    "qwen35": "qwen3_5",
    "qwen35moe": "qwen3_5_moe",
}


def is_gguf(path: Path) -> bool:
    """True for a file that begins as GGUF files do."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"


def read_gguf(fn: str, path: Path) -> tuple[dict[str, Any], Model]:
    """Keys as in a config.json, and the model's conventions with the file's layout.

    Raises
    ------
    ImportError
        Without the package `gguf`.
    ValueError
        If the file is damaged, its architecture is not known, or it uses what cannot be told.
    """
    try:
        gguf = importlib.import_module("gguf")
    except ImportError:
        raise ImportError(
            f"{fn}: config: a GGUF file needs the package gguf: pip install posenc[gguf]"
        ) from None
    try:
        reader = gguf.GGUFReader(path)
        meta = {key: _value(item) for key, item in reader.fields.items() if _wanted(key)}
        tensors = {t.name: t.data for t in reader.tensors if t.name.startswith("rope_f")}
    except Exception as error:  # a damaged file makes the reader fail in any of many ways
        raise ValueError(f"{fn}: config: {path.name} is a damaged GGUF file: {error}") from None
    arch = meta.get("general.architecture")
    name = _INTERLEAVED.get(str(arch)) or _HALF.get(str(arch))
    if name is None:
        known = ", ".join([*_INTERLEAVED, *_HALF])
        fail(ValueError, fn, "general.architecture", f"must be one of {known}", show(arch))
    own = {key.removeprefix(f"{arch}."): value for key, value in meta.items()}
    if name == "olmo2" and own.get("attention.sliding_window"):
        name = "olmo3"
    layout: Layout = "interleaved" if arch in _INTERLEAVED else "half"
    if name == "glm4" and _sections(own):  # GLM-4V
        layout = "half"
    # The file states every width, so that no share of the head is left to the model's type.
    model = dataclasses.replace(
        MODELS[name],
        layout=layout,
        part=("", 1.0),
        mla=False,
        fixed=False,
        parameters={},
        sizes=Model.sizes,
    )
    return {"model_type": name, **_config(fn, name, model, own, tensors)}, model


def _wanted(key: str) -> bool:
    return key == "general.architecture" or any(
        part in key for part in (".rope.", ".attention.", "block_count", "_length")
    )


def _value(item: Any) -> Any:
    value = item.contents()
    return value.tolist() if hasattr(value, "tolist") else value


def _config(
    fn: str, name: str, model: Model, own: dict[str, Any], tensors: dict[str, Any]
) -> dict[str, Any]:
    head = own.get("attention.key_length")
    heads = own.get("attention.head_count")
    config = {
        model.base[0]: own.get("rope.freq_base", 10000.0),
        "hidden_size": own.get("embedding_length"),
        "num_attention_heads": max(heads) if isinstance(heads, list) and heads else heads,
        "head_dim": head,
        "rotary_dim": own.get("rope.dimension_count", head),
        "num_hidden_layers": own.get("block_count"),
        "max_position_embeddings": own.get("context_length"),
    }
    if model.nope == "full":  # of layers without a window, if others have one
        config["sliding_window"] = own.get("attention.sliding_window") or None
    if MODELS[name].mla:  # the key has channels that do not turn before those that do
        config["head_dim"] = config["rotary_dim"]
    if name == "granitemoehybrid":
        turns = own.get("rope.scaling.finetuned", True)
        config["position_embedding_type"] = "rope" if turns else "nope"
    if model.local_base is not None and "rope.freq_base_swa" in own:
        config[model.local_base[0]] = own["rope.freq_base_swa"]
    pattern = own.get("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        kinds = ("full_attention", "sliding_attention")
        config["layer_types"] = [kinds[bool(local)] for local in pattern]
    elif pattern is not None:
        config["sliding_window_pattern"] = pattern
    config["rope_scaling"] = _scaling(fn, name, own, tensors)
    if name == "gemma4":
        _by_window(fn, config, own)
    if name == "ministral3":
        config["rope_scaling"]["llama_4_scaling_beta"] = own.get("attention.temperature_scale")
    if sections := _sections(own):
        config["rope_scaling"]["mrope_section"] = sections
    return config


def _sections(own: dict[str, Any]) -> list[Any] | None:
    """The pairs of time, height and width; a fourth axis is 0 in every file there is."""
    given = own.get("rope.dimension_sections")
    return given[:3] if isinstance(given, list) and any(given) else None


def _by_window(fn: str, config: dict[str, Any], own: dict[str, Any]) -> None:
    """Gemma 4: heads, bases and factors are those of full attention, others for windows."""
    scaling = config["rope_scaling"]
    factors = scaling.get("long_factor")
    if factors:  # 1 for a pair that turns, 1e30 for one that does not
        turning = [f < 1e30 for f in factors].count(True) / len(factors)
        scaling = {"rope_type": "proportional", "partial_rotary_factor": turning}
    local = own.get("attention.key_length_swa", config["head_dim"])
    width = own.get("rope.dimension_count_swa", local)
    if not (type(local) is type(width) is int and 0 < width <= local):
        wanted = f"must be from 1 to {show(local)}"
        fail(ValueError, fn, "rope.dimension_count_swa", wanted, show(width))
    config["rope_scaling"] = {
        "full_attention": {**scaling, "rope_theta": config.pop("rope_theta")},
        "sliding_attention": {
            "rope_theta": own.get("rope.freq_base_swa", 10000.0),
            "partial_rotary_factor": width / local,
        },
    }
    config |= {"global_head_dim": config["head_dim"], "head_dim": local}
    config.pop("rotary_dim")


def _scaling(fn: str, name: str, own: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    scaling = {
        key.removeprefix("rope.scaling."): value
        for key, value in own.items()
        if key.startswith("rope.scaling.")
    }
    for key in ("yarn_ext_factor", "yarn_attn_factor"):
        if scaling.get(key, 1.0) not in (1.0, -1.0):
            fail(ValueError, fn, f"rope.scaling.{key}", "must be 1", show(scaling[key]))
    if scaling.get("alpha"):
        fail(ValueError, fn, "rope.scaling.alpha", "must be 0", show(scaling["alpha"]))
    trained = scaling.get("original_context_length", own.get("context_length"))
    result: dict[str, Any] = {"original_max_position_embeddings": trained}
    long, short = (tensors.get(f"rope_factors_{which}.weight") for which in ("long", "short"))
    own_factors = tensors.get("rope_freqs.weight")
    if long is not None and short is not None:
        result |= {"rope_type": "longrope", "attention_factor": scaling.get("attn_factor")}
        result |= {"long_factor": long.tolist(), "short_factor": short.tolist()}
        return result
    kind = scaling.get("type", "linear")
    attention = scaling.get("attn_factor")
    if attention not in (None, 1.0) and (own_factors is not None or kind != "yarn"):
        fail(ValueError, fn, "rope.scaling.attn_factor", "must be 1", show(attention))
    if own_factors is not None:  # what a Llama 3 has been converted to
        result |= {"rope_type": "longrope", "attention_factor": 1.0}
        return result | dict.fromkeys(("long_factor", "short_factor"), own_factors.tolist())
    factor = scaling.get("factor", own.get("rope.scale_linear", 0.0))
    if kind == "none" or (kind == "linear" and factor in (0.0, 1.0)):
        return {"rope_type": "default"}
    if kind != "yarn":
        return {"rope_type": kind, "factor": factor}
    result |= {"rope_type": "yarn", "factor": factor, "attn_factor": attention}
    result |= {key: scaling.get(f"yarn_{key}") for key in ("beta_fast", "beta_slow")}
    weight = scaling.get("yarn_log_multiplier")
    if weight:
        if not isinstance(weight, (int, float)):
            key = "rope.scaling.yarn_log_multiplier"
            fail(ValueError, fn, key, "must be a number", show(weight))
        all_dim = weight * 10.0
        result |= {"mscale_all_dim": all_dim, "mscale": all_dim if MODELS[name].mla else 1.0}
    if name == "gpt_oss":
        result["truncate"] = False  # as the model was trained; no key says so
    return result
