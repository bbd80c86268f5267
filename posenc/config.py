"""The rotary embedding of a published model, from its config file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._args import Array, allocate, as_positions, fail, integer, named, positive_int
from ._methods import CONTEXT
from .explain import explain_plan
from .plan import RopePlan

if TYPE_CHECKING:
    from ._recipes import Reader, Recipe, Temperature

__all__ = ["attention_temperature", "describe", "explain_plan", "plan_from_config"]

_MOST_KINDS, _MOST_PAIRS = 16, 1 << 12  # to describe at once

Config = str | os.PathLike[str] | Mapping[str, Any] | object


def plan_from_config(
    config: Config, *, layer: int | None = None, seq_len: int | None = None
) -> RopePlan | None:
    """The rotary embedding that a layer of a published model has, from the model's config.

    Parameters
    ----------
    config : path, mapping or object
        A Hugging Face ``config.json`` or its folder, its contents, an object with these attributes
        (or `to_dict`), or a GGUF file (with the package `gguf`). Old spelling (`rope_scaling` and
        keys at the top) and new (`rope_parameters`, also by layer type); of a multimodal model the
        text part. For another part give that: ``config["talker_config"]``; a vision tower has an
        `axial_plan`.
    layer : int, optional
        From 0. May be left out if all layers that have attention turn alike.
    seq_len : int, optional
        The length in tokens, for "dynamic" and "longrope" scaling, which depend on it. Without it
        the plan is that of a short sequence.

    Returns
    -------
    RopePlan or None
        None for a layer without rotary embedding (NoPE), or without attention. `attention_factor`
        and, for M-RoPE, `axis` are set; ``explain()`` says in words what the plan does.

    Raises
    ------
    TypeError
        If `config` is no config at all.
    ValueError
        One that lists all that is wrong, each with its key; if the model type is not known, or has
        other positions than a plan can say, such as ALiBi; if `layer` is not one of the model's, or
        is left out though layers differ; if the file is no strict JSON.
    OSError
        If the file cannot be read.
    ImportError
        For a GGUF file, without the package `gguf`.

    Notes
    -----
    Frequencies are exact to 80 digits inside, `inv_freq` and `attention_factor` correctly rounded.

    The plan turns the channels of a head as it comes out of the query and key projections. In
    DeepSeek these are the 64 of the separate rotary vectors (`q_pe`, `k_pe`), from channel 0;
    Hugging Face returns them in half layout from interleaved input, which changes keys in a cache
    but no score. DeepSeek V4 turns the last channels of a head: `start` is not 0. A GGUF file has
    the layout of llama.cpp, where a Llama is interleaved; pairs of M-RoPE that llama.cpp turns by a
    fourth position, always 0, turn by time, as in training.

    Known are the models of transformers 5.24 whose rotary embedding a plan can say, and the
    authors' own code of Baichuan, ChatGLM, InternLM2, MiMo, MiniCPM, MiniMax-Text-01 and Qwen 1.
    Without `model_type` a config is read like that of a Llama (half layout); an unknown type is an
    error. A key that is left out has the value of the model's class. A `truncate` inside a layer
    type is honoured.

    References
    ----------
    `posenc.scaling.scaled_frequencies` names those of each scaling.

    Examples
    --------
    >>> import posenc
    >>> llama = {"model_type": "llama", "head_dim": 128, "max_position_embeddings": 131072,
    ...     "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
    ...     "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    ...     "original_max_position_embeddings": 8192}}
    >>> plan = posenc.plan_from_config(llama)
    >>> plan
    RopePlan(rotary_dim=128, layout='half', start=0, attention_factor=1.0)
    >>> float(plan.inv_freq[40])
    3.428102195952591e-05
    """
    fn = "plan_from_config"
    if seq_len is not None:
        seq_len = positive_int(fn, "seq_len", seq_len)
    reader, recipe = _recipe(fn, config, layer)
    return None if recipe.parameters is None else reader.plan(recipe, seq_len)


def _recipe(fn: str, config: Config, layer: int | None) -> tuple[Reader, Recipe]:
    """The recipe of a layer, or that of all layers."""
    if layer is not None:
        layer = integer(fn, "layer", layer, least=0)
    reader, groups = _groups(fn, config)
    if layer is not None:
        if reader.count is not None and layer >= reader.count:
            fail(ValueError, fn, "layer", f"must be below {reader.count}", layer)
        return reader, reader.recipe(layer)
    groups = [group for group in groups if not group[0].idle] or groups
    if len(groups) > 1:
        few = groups[:6] if len(groups) > 8 else groups
        choices = "; ".join(f"{_kind(r)}: {reader.say(where)}" for r, where in few)
        choices += "; ..." if few is not groups else ""
        fail(ValueError, fn, "layer", f"must be given, as layers differ ({choices})", None)
    return reader, groups[0][0]


def _groups(fn: str, config: Config) -> tuple[Reader, list[tuple[Recipe, list[int]]]]:
    """All kinds of layers, each with its layers."""
    from ._recipes import Reader  # with the table of models, which loads for longer than all else
    from ._sources import open_config

    try:
        reader = Reader(fn, open_config(fn, config))
        return reader, reader.groups()
    except RecursionError:  # where two values are compared
        fail(ValueError, fn, "config", "must not be nested so deeply", type(config).__name__)


def _kind(recipe: Recipe) -> str:
    if recipe.idle:
        return f"{recipe.layer_type}, no attention"
    if recipe.parameters is None:
        return f"{recipe.layer_type} without rotary embedding".lstrip()
    return recipe.layer_type or f"base {float(recipe.base):g}"


def attention_temperature(
    config: Config, positions: int | npt.ArrayLike, *, layer: int | None = None
) -> Array:
    """What a model multiplies its queries by at each position, besides rotating them.

    Llama 4, in layers without rotary embedding: ``1 + attn_scale ln(1 + floor((p + 1) /
    floor_scale))``. Ministral 3 and Mistral 4, in all layers: ``1 + llama_4_scaling_beta ln(1 +
    floor(p / original_max_position_embeddings))``. Qwen 1 with `use_logn_attn`: ``max(1, ln(p + 1)
    / ln(seq_length))``. Every other model that `plan_from_config` knows: 1.

    Parameters
    ----------
    config, layer
        As in `plan_from_config`.
    positions : int or array_like
        In tokens, not negative: a count n, meaning 0 .. n-1, or an array of integers or floats.

    Returns
    -------
    ndarray
        float64, the shape of `positions`.

    Raises
    ------
    TypeError, ValueError, OSError, ImportError
        As `plan_from_config`; ValueError if a position is negative.

    Notes
    -----
    Correctly rounded.

    References
    ----------
    Nakanishi, "Scalable-Softmax Is Superior for Attention", 2025, arXiv:2501.19399.

    Examples
    --------
    >>> from posenc.config import attention_temperature
    >>> attention_temperature({"model_type": "ministral3", "head_dim": 128}, [0, 16383, 16384])
    array([1.        , 1.        , 1.06931472])
    """
    fn = "attention_temperature"
    _, recipe = _recipe(fn, config, layer)
    with named(fn, out="positions"):
        return _temperatures(fn, recipe.temperature, positions)


def _temperatures(fn: str, rule: Temperature | None, positions: int | npt.ArrayLike) -> Array:
    p = as_positions(fn, positions)
    if isinstance(p, int):
        allocate(fn, (p,), np.dtype(np.int64))  # NumPy's own error is another for every size
        p = np.arange(p)
    p = p.astype({"i": np.int64, "u": np.uint64, "f": np.float64}[p.dtype.kind])
    if (p < 0).any():
        fail(ValueError, fn, "positions", "must not be negative", p.min())
    if rule is None:
        return np.ones(p.shape)
    if rule.beta is None:
        steps = np.maximum(p, p.dtype.type(rule.length - 1))
    else:
        steps, rest = np.divmod(p, p.dtype.type(rule.length))
        steps = steps + (rest + 1 >= rule.length if rule.shift else 0)
    distinct, place = np.unique(steps, return_inverse=True)
    with localcontext(CONTEXT):
        logarithms = [(1 + Decimal(n)).ln() for n in distinct.tolist()]
        if rule.beta is None:
            values = [y / Decimal(rule.length).ln() for y in logarithms]
        else:
            values = [1 + rule.beta * y for y in logarithms]
    return np.array([float(y) for y in values])[place].reshape(p.shape)


def describe(path: Config, layer: int | None = None) -> str:
    """What a config says of position, in words and tables: one part for each kind of layer.

    Parameters
    ----------
    path, layer
        `config` and `layer` of `plan_from_config`; without a layer all kinds are described, up to
        16 of them, or fewer if heads are very wide.

    Returns
    -------
    str

    Raises
    ------
    TypeError, ValueError, ImportError
        As `plan_from_config`; ValueError also if a file cannot be read.
    """
    fn = "posenc config"  # the command that prints it
    try:
        if layer is not None:
            reader, recipe = _recipe(fn, path, layer)
            groups = [(recipe, [layer])]
        else:
            reader, groups = _groups(fn, path)
    except OSError as error:
        raise ValueError(f"{fn}: {error.filename or path}: {error.strerror}") from None
    parts = []
    widest = max(recipe.dim for recipe, _ in groups) // 2
    most = max(1, min(_MOST_KINDS, _MOST_PAIRS // max(widest, 1)))
    for recipe, where in groups[:most]:
        which = "every layer" if len(groups) == 1 else f"layers {reader.say(where)}"
        which = which if layer is None else f"layer {layer}"
        kind = f" ({recipe.layer_type})" if recipe.layer_type and len(groups) > 1 else ""
        head = [f"{reader.source.model_type}, {which}{kind}"]
        if recipe.parameters is None:
            lines = [*head, "no attention" if recipe.idle else "no rotary embedding (NoPE)"]
            if recipe.temperature is not None:
                lines.append(f"{'temperature':<18}{recipe.temperature}")
            parts.append("\n".join(lines))
        else:
            parts.append("\n".join([*head, explain_plan(reader.plan(recipe, None))]))
    if len(groups) > most:
        parts.append(f"and {len(groups) - most} more kinds of layers: --layer shows one")
    return "\n\n".join(parts)
