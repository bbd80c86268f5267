"""Which kinds of layers a model has: those that differ, and those without rotary embedding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ._fields import Fields, show
from ._sources import Source
from .scaling import KEYS

__all__ = ["IDLE", "MOST_KEYS", "Layers"]

_MOST_LAYERS = 1024
_LONGEST_NAME = 64  # of a layer type
MOST_KEYS = 64  # of a dictionary of rotary parameters
_ALIASES = (
    ("hidden_size", "n_embd d_model"),
    ("num_attention_heads", "n_head n_heads decoder_num_attention_heads"),
    ("num_hidden_layers", "n_layer n_layers num_layers decoder_num_hidden_layers"),
    ("max_position_embeddings", "n_positions max_seq_len model_max_length seq_length"),
    ("head_dim", "attention_head_dim kv_channels"),
    ("layer_types", "layers_block_type"),
)
_PADDED = ("layer_types", "rope_theta", "partial_rotary_factors")  # by layers that only predict
_ALIKE = ("rope_scaling", "rope_parameters", "rotary_dim")  # in all layers
_KINDS = ("full_attention", "sliding_attention")
_SPELLINGS = {"attention": _KINDS[0], "mamba": "linear_attention"}  # older ones, of layers
IDLE = ("linear_attention", "conv", "recurrent", "mlp", "moe")  # layers without attention


class Layers:
    """The layers of a config: how many, of what attention, and what is said layer by layer."""

    def __init__(self, fn: str, source: Source) -> None:
        self.source = source
        self.model = model = source.model
        values = {k: v for k, v in source.values.items() if v is not None}
        for key, others in _ALIASES:
            for other in others.split():
                if key not in values and other in values:
                    values[key] = values[other]
        inner = values.get("attn_config")  # of DBRX
        if isinstance(inner, Mapping) and inner.get("rope_theta") is not None:
            values.setdefault("rope_theta", inner["rope_theta"])
        values = {**model.silent(nested=bool(source.prefix)), **values}
        problems = list(source.problems)
        self.fields = fields = Fields(fn, values, problems, source.prefix, source.names)
        self.count = fields.integer("num_hidden_layers", most=_MOST_LAYERS) or None
        extra = values.get("num_nextn_predict_layers")
        for key in _PADDED:
            given = values.get(key)
            if self.count and type(extra) is int and isinstance(given, list):
                if len(given) == self.count + extra:
                    values[key] = given[: self.count]
        self.max_position = fields.integer("max_position_embeddings")
        self.name, self.table = self._table()
        self.nested = any(isinstance(v, Mapping) for k, v in self.table.items() if k not in KEYS)
        self.types = self._layer_types()
        self.turns = self._turning()
        by_layer = model.by_layer and isinstance(values.get("rope_theta"), list)
        self.bases_name = "rope_theta" if by_layer else "layer_rope_theta"
        self.bases = self._each(self.bases_name, "numbers")
        self.parts = self._each("partial_rotary_factors", "numbers")
        self.scaled = self._scaled()
        self.own = self._own()
        lists = (self.types, self.turns, self.bases or [0], self.parts or [0])
        period = max(math.lcm(*[len(each) for each in lists]), max(self.own, default=0) + 1)
        self.layers = self.count or min(period, _MOST_LAYERS)

    def _table(self) -> tuple[str, Mapping[str, Any]]:
        """`rope_scaling`, or else `rope_parameters`, or else what the model has without."""
        for key in () if self.model.fixed else ("rope_scaling", "rope_parameters"):
            table = self.fields.get(key)
            if table is not None and not isinstance(table, Mapping):
                self.fields.wrong(key, "must be a dictionary", table)
            elif table and len(table) > MOST_KEYS:
                self.fields.wrong(key, f"must have at most {MOST_KEYS} keys", len(table))
            elif table:
                return key, table
        return "", self.model.parameters

    def _scaled(self) -> frozenset[int] | None:
        """The layers that a scaling is for, if not all (Molmo 2)."""
        key, wanted = "rope_scaling_layers", f"at most {_MOST_LAYERS} layers"
        given = self.fields.list_of(key, None, wanted)
        if given is None:
            return None
        if len(given) > _MOST_LAYERS or any(type(layer) is not int for layer in given):
            self.fields.wrong(key, f"must be a list of {wanted}", given)
            return None
        return frozenset(given)

    def _own(self) -> dict[int, Mapping[str, Any]]:
        """What transformers saves of layers whose heads are not those of the others."""
        given = self.fields.get("per_layer_config")
        if given is None:
            return {}
        if not isinstance(given, Mapping) or len(given) > _MOST_LAYERS:
            self.fields.wrong("per_layer_config", "must be a dictionary by layers", given)
            return {}
        result = {}
        for key, value in given.items():
            layer = str(key) if isinstance(key, (str, int)) else ""
            if not (layer.isdecimal() and len(layer) <= 4 and isinstance(value, Mapping)):
                wanted = "must have dictionaries by number of layer"
                self.fields.wrong("per_layer_config", wanted, key if value else value)
                return {}
            result[int(layer)] = value
            for name in (self.model.base[0], self.model.part[0], *_ALIKE):
                if value.get(name) is not None:
                    where = f"per_layer_config.{int(layer)}.{name}"
                    self.fields.wrong(where, "must not differ by layer", value[name])
        return result

    def _layer_types(self) -> list[str]:
        """The attention of each layer, or of one period of them; nameless if it does not matter."""
        model, fields = self.model, self.fields
        given = fields.get("layer_types")
        named = isinstance(given, list) and all(isinstance(name, str) for name in given)
        idle = named and any(_SPELLINGS.get(name, name) in IDLE for name in given)
        if not (self.nested or model.local_base or model.nope in ("full", "windowless") or idle):
            return [""]
        given = self._each("layer_types", "names")
        if given:
            for i, name in enumerate(given):
                if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
                    fields.wrong(f"layer_types[{i}]", "must be a name", name)
                    return [""]
            return [_SPELLINGS.get(name, name) for name in given]
        marks = self._each(model.marks[0], "whole numbers") if model.marks else None
        if marks and model.marks:
            return [_KINDS[mark == model.marks[1]] for mark in marks]
        if any(fields.get(key) is not None for key in ("layer_types", *(model.marks or ())[:1])):
            return [""]  # which is wrong
        if model.period is None:
            fields.missing("layer_types", f", but {self.name or 'the model'} is by layer type")
            return [""]
        key, default, which = model.period
        every = fields.integer(key, most=_MOST_LAYERS) or default
        full = 0 if which == "first" else every - 1
        length = every if which != "both" else self.count or every
        return [
            _KINDS[i % every != full and not (which == "both" and i == 0)] for i in range(length)
        ]

    def _each(self, key: str, wanted: str) -> list[Any] | None:
        """A list with an item a layer, which then says how many layers there are."""
        given = self.fields.list_of(key, self.count, wanted)
        if given is None or self.count is not None:
            return given
        if not 1 <= len(given) <= _MOST_LAYERS:
            self.fields.wrong(key, f"must be from 1 to {_MOST_LAYERS} {wanted}", given)
            return None
        self.count = len(given)
        return given

    def _turning(self) -> list[bool]:
        """Whether each layer, or each of one period, has a rotary embedding at all."""
        model, fields = self.model, self.fields
        windowless = self.source.values.get("sliding_window", 0) is None
        if not self._switched() or model.nope == "all":
            return [False]
        if model.nope == "full":
            return [windowless or name != "full_attention" for name in self.types]
        if model.nope == "windowless":
            turns = [name == "sliding_attention" and not windowless for name in self.types]
            dense = self._dense() if model.dense else []
            turns *= -(-len(dense) // len(turns)) or 1
            return [turn or i in dense for i, turn in enumerate(turns)]
        if model.nope == "null":
            table = self.table if "rope_theta" in self.table else self.source.values
            return [table.get("rope_theta", 1) is not None]
        if model.nope == "fourth" and fields.get("layer_rope_theta") is None:
            count = self.count or 4
            return [(count - 1 - i) % 4 > 0 for i in range(count)]
        if model.nope != "listed":
            return [True]
        given = (
            self._each("no_rope_layers", "flags, 0 or 1") if fields.get("no_rope_layers") else None
        )
        if given is None:
            interval = fields.integer("no_rope_layer_interval", most=_MOST_LAYERS) or 1
            return [True] * (interval - 1) + [False]
        for i, flag in enumerate(given):
            if flag not in (0, 1):
                fields.wrong(f"no_rope_layers[{i}]", "must be 0 or 1", flag)
                break
        return [bool(flag) for flag in given]

    def _dense(self) -> range:
        """The first layers of Cohere 2 MoE, if they have no pattern of windows of their own."""
        fields = self.fields
        if (fields.integer("prefix_dense_sliding_window_pattern") or 1) != 1:
            return range(0)
        first = fields.integer("first_k_dense_replace", least=0, most=_MOST_LAYERS) or 0
        if first and fields.get("layer_types") is None:
            fields.missing("layer_types", ", but first_k_dense_replace shifts their pattern")
        given = self._each("mlp_layer_types", "names") or []
        return range(first or given.count("dense"))

    def _switched(self) -> bool:
        """Whether the key that decides about it, if there is one, is for a rotary embedding."""
        if self.model.switch is None:
            return True
        key, wanted, silent, instead = self.model.switch
        value = self.fields.get(key)
        value = silent if value is None else value
        if type(value) is type(wanted) and value == wanted:
            return True
        if instead:
            why = f"must be {show(wanted)} for a rotary embedding, as else there is {instead}"
            self.fields.wrong(key, why, value)
        return False
