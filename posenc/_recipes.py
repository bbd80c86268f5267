"""What each layer of a model turns by: the rules by which a config is read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Any

from ._fields import Fields, show
from ._methods import CONTEXT
from ._sources import Source
from .plan import RopePlan
from .scaling import WIDEST, mrope_axes, read_frequencies, rope_type, scaling_notes

__all__ = ["Reader", "Recipe", "Temperature"]

_MOST_LAYERS = 1024
_MOST_KEYS = 64  # of a dictionary of rotary parameters
_LENGTHS = ("llama3", "yarn", "ntk-by-parts", "longrope")  # whose trained length may stand outside


@dataclass(frozen=True)
class Temperature:
    """Queries at position p are multiplied by ``1 + beta ln(1 + floor((p + shift) / length))``."""

    beta: Decimal
    length: int
    shift: int

    def __str__(self) -> str:
        p = "(p + 1)" if self.shift else "p"
        return f"queries times 1 + {float(self.beta):g} ln(1 + floor({p} / {self.length}))"


@dataclass(frozen=True)
class Recipe:
    """All that fixes the plan of a layer; the same for layers that turn alike."""

    layer_type: str = field(compare=False)
    head_dim: int = 0
    dim: int = 0
    base: Decimal = Decimal(1)
    name: str = field(default="", compare=False)  # of the dictionary, in errors
    parameters: Mapping[str, Any] | None = None  # None: the layer has no rotary embedding
    temperature: Temperature | None = None


class Reader:
    """Reads a config, layer by layer."""

    def __init__(self, fn: str, source: Source) -> None:
        self.source = source
        self.model = model = source.model
        values = {k: v for k, v in source.values.items() if v is not None}
        values = {**model.silent(nested=bool(source.prefix)), **values}
        for key, other in (
            ("hidden_size", "n_embd"),
            ("num_attention_heads", "n_head"),
            ("num_hidden_layers", "n_layer"),
            ("max_position_embeddings", "n_positions"),
        ):
            if key not in values and other in values:
                values[key] = values[other]
        self.fields = Fields(fn, values, list(source.problems), source.prefix)
        self.count = self.fields.integer("num_hidden_layers", most=_MOST_LAYERS)
        self.max_position = self.fields.integer("max_position_embeddings")
        self.name, self.table = self._table()
        self.nested = any(isinstance(entry, Mapping) for entry in self.table.values())
        self.types = self._layer_types()
        self.turns = self._turning()
        self.bases = self._each("layer_rope_theta", "numbers")
        self.layers = self.count or min(
            math.lcm(*(len(x) for x in (self.types, self.turns, self.bases or [None]))),
            _MOST_LAYERS,
        )

    def groups(self) -> list[tuple[Recipe, list[int]]]:
        """Every kind of layer with the layers of that kind; of one period if nobody says how many.

        Raises ValueError with all that is wrong.
        """
        result: list[tuple[Recipe, list[int]]] = []
        for i in range(self.layers):
            recipe = self.recipe(i)
            for known, where in result:
                if known == recipe:
                    where.append(i)
                    break
            else:
                result.append((recipe, [i]))
        if self.fields.problems:  # those of the scalings are still to be found
            for recipe, _ in result:
                if recipe.parameters is not None:
                    self.plan(recipe, None)
        self.fields.check()
        return result

    def _table(self) -> tuple[str, Mapping[str, Any]]:
        """`rope_scaling`, or else `rope_parameters`, or else what the model has without."""
        for key in ("rope_scaling", "rope_parameters"):
            table = self.fields.get(key)
            if table is not None and not isinstance(table, Mapping):
                self.fields.wrong(key, "must be a dictionary", table)
            elif table and len(table) > _MOST_KEYS:
                self.fields.wrong(key, f"must have at most {_MOST_KEYS} keys", len(table))
            elif table:
                return key, table
        return "", self.model.parameters

    def _layer_types(self) -> list[str]:
        """The attention of each layer, or of one period of them; nameless if it does not matter."""
        model = self.model
        if not (self.nested or model.local_base or model.nope == "full"):
            return [""]
        given = self._each("layer_types", "names")
        if given:
            for i, name in enumerate(given):
                if not isinstance(name, str):
                    self.fields.wrong(f"layer_types[{i}]", "must be a name", name)
                    return [""]
            return given
        if model.period is None:
            self.fields.missing("layer_types", f", but {self.name} is by layer type")
            return [""]
        key, default, which = model.period
        every = self.fields.integer(key, most=_MOST_LAYERS) or default
        full = every - 1 if which == "last" else 0
        return ["full_attention" if i == full else "sliding_attention" for i in range(every)]

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
        if model.nope == "full":
            windowless = self.source.values.get("sliding_window", 0) is None
            return [windowless or name != "full_attention" for name in self.types]
        if model.nope != "listed":
            return [True]
        given = self._each("no_rope_layers", "of 0 or 1") if fields.get("no_rope_layers") else None
        if given is None:
            interval = fields.integer("no_rope_layer_interval", most=_MOST_LAYERS) or 1
            return [True] * (interval - 1) + [False]
        for i, flag in enumerate(given):
            if flag not in (0, 1):
                fields.wrong(f"no_rope_layers[{i}]", "must be 0 or 1", flag)
                break
        return [bool(flag) for flag in given]

    def recipe(self, i: int) -> Recipe:
        """The recipe of layer i."""
        layer_type = self.types[i % len(self.types)]
        name, entry = self._entry(layer_type)
        own_base = self.bases[i % len(self.bases)] if self.bases else None
        if entry is None or not self.turns[i % len(self.turns)] or own_base == 0:
            return Recipe(layer_type, temperature=self._temperature(None))
        inner = self.fields.inner(name, entry)
        if own_base is not None:
            base = self.fields.inner("", {"layer_rope_theta": own_base}).number(
                "layer_rope_theta", above=0
            )
        else:
            base = self._base(inner, layer_type)
        head_dim = self._head_dim(layer_type)
        dim, entry = self._width(inner, head_dim)
        return Recipe(layer_type, head_dim, dim, base, name, entry, self._temperature(entry))

    def _entry(self, layer_type: str) -> tuple[str, Mapping[str, Any] | None]:
        """The dictionary of a layer type and its name; None for a layer that does not turn."""
        if not self.nested:
            whole = layer_type != "sliding_attention" or self.model.scales_local
            return (self.name, self.table) if whole else ("", {})
        name = f"{self.name}.{layer_type}" if self.name else layer_type
        for key, value in self.table.items():
            if not isinstance(value, (Mapping, type(None))):
                where = f"{self.name}.{show(key)[1:-1]}"
                self.fields.wrong(where, "must be inside the entry of a layer type", value)
        entry = self.table.get(layer_type)
        if entry is None and self.model.local_base is not None:
            return name, {}
        if entry is None and layer_type not in self.table:
            self.fields.missing(name)
        return name, entry if isinstance(entry, Mapping) else None

    def _base(self, inner: Fields, layer_type: str) -> Decimal:
        own = inner.optional("rope_theta", above=0)
        if own is not None:
            return own
        local = layer_type == "sliding_attention" and self.model.local_base
        key, default = local or self.model.base
        base = self.fields.optional(key, above=0)
        return Decimal(default) if base is None else base

    def _head_dim(self, layer_type: str) -> int:
        fields = self.fields
        keys = ["qk_rope_head_dim"] if self.model.mla else ["head_dim"]
        if layer_type == "full_attention" and "global_head_dim" in self.model.defaults:
            keys.insert(0, "global_head_dim")
        for key in keys:
            width = fields.integer(key, most=WIDEST)
            if width is not None:
                return width
        hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
        if hidden is None or heads is None:
            fields.missing("head_dim", ", and so is hidden_size or num_attention_heads")
        elif hidden % heads:
            fields.wrong("hidden_size", f"must be a multiple of {heads} heads", hidden)
        elif hidden // heads > WIDEST:
            fields.wrong("hidden_size", f"must make heads of at most {WIDEST}", hidden // heads)
        else:
            return hidden // heads
        return 0

    def _width(self, inner: Fields, head_dim: int) -> tuple[int, dict[str, Any]]:
        """The rotary width, and the dictionary as the methods of scaling take it."""
        entry = dict(inner.values)
        if self.model.longrope and (entry.get("rope_type") or entry.get("type")) in ("su", "yarn"):
            entry["rope_type"] = "longrope"
        method = rope_type(Fields("", entry, []))
        outside = self.fields.get("original_max_position_embeddings")
        if method in _LENGTHS and outside is not None and not self.nested:
            entry["original_max_position_embeddings"] = outside
        key, default = self.model.part
        part = inner.optional("partial_rotary_factor", above=0)
        if part is None:
            part = self.fields.optional(key, above=0)
        share = default if part is None else float(part)
        if share > 1:
            self.fields.wrong(key, "must be at most 1", share)
            share = 1.0
        entry.pop("partial_rotary_factor", None)
        if method == "proportional":
            entry["partial_rotary_factor"] = share
            if head_dim % 2:
                self.fields.wrong("head_dim", "must be even", head_dim)
            return head_dim, entry
        width = self.fields.integer("rotary_dim", most=WIDEST)
        if width is None:
            width = int(head_dim * share)
            if head_dim and (width % 2 or not width):
                wanted = f"must leave an even number of the {head_dim} channels"
                self.fields.wrong(key, wanted, width)
        elif width % 2 or width > head_dim > 0:
            self.fields.wrong("rotary_dim", f"must be even and at most {head_dim}", width)
        return width, entry

    def _temperature(self, entry: Mapping[str, Any] | None) -> Temperature | None:
        fields = self.fields
        if self.model.temperature:
            if entry is not None or not fields.flag("attn_temperature_tuning", True):
                return None
            length = fields.integer("floor_scale") or 1
            return Temperature(fields.number("attn_scale", least=0), length, 1)
        inner = fields.inner(self.name, entry or {})
        beta = inner.optional("llama_4_scaling_beta", least=0)
        if beta is None:
            return None
        trained = inner.integer("original_max_position_embeddings") or self.max_position
        return Temperature(beta, trained or 1, 0)

    def plan(self, recipe: Recipe, seq_len: int | None) -> RopePlan:
        """The plan of a recipe that turns; ValueError with everything that is wrong."""
        assert recipe.parameters is not None
        inner = self.fields.inner(recipe.name, recipe.parameters)
        whole = recipe.dim > 0 and recipe.dim % 2 == 0  # if not, that is a problem already
        axis = self._axis(inner, recipe.dim // 2) if whole else None
        freqs, attention = read_frequencies(
            inner, recipe.dim, recipe.head_dim, recipe.base, seq_len, self.max_position
        )
        layout = self.model.layout
        if self.model.mla and not self.fields.flag("rope_interleave", True):
            layout = "half"
        self.fields.check()
        plan = RopePlan._exact(freqs, layout, 0, axis=axis, attention_factor=attention)
        notes = scaling_notes(recipe.parameters, recipe.base, seq_len, self.max_position)
        plan.notes.update(
            notes,
            model_type=self.source.model_type,
            layer_type=recipe.layer_type or None,
            head_dim=recipe.head_dim,
            temperature=None if recipe.temperature is None else str(recipe.temperature),
            score_factor=self._score_factor(recipe.parameters, notes["factor"]),
        )
        return plan

    def _axis(self, inner: Fields, pairs: int) -> list[int] | None:
        key = "mrope_section"
        sections = inner.list_of(key, None, "whole numbers") or list(self.model.sections)
        interleaved = inner.flag("mrope_interleaved", self.model.interleaved)
        if not sections:
            return None
        whole = all(type(n) is int and 0 <= n <= pairs for n in sections)
        if not whole or (interleaved and len(sections) != 3):
            inner.wrong(key, f"must be 3 whole numbers from 0 to {pairs}", sections)
        elif not interleaved and sum(sections) != pairs:
            inner.wrong(key, f"must add up to {pairs} pairs", sum(sections))
        else:
            return mrope_axes(pairs, sections, interleaved=interleaved)
        return None

    def _score_factor(self, entry: Mapping[str, Any], factor: float | None) -> float | None:
        """DeepSeek's code multiplies the scores by the square of YaRN's temperature."""
        weight = entry.get("mscale_all_dim")
        if not (self.model.mla and weight and factor and factor > 1):
            return None
        with localcontext(CONTEXT):
            return float((Decimal(weight) * Decimal(factor).ln() / 10 + 1) ** 2)


def ranges(layers: list[int]) -> str:
    """Layer numbers in a few words: 0-4, 6-10, ..."""
    runs = [
        [n for _, n in run]
        for _, run in itertools.groupby(enumerate(layers), lambda pair: pair[1] - pair[0])
    ]
    parts = [str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs]
    return ", ".join(parts if len(parts) <= 6 else [*parts[:5], "..."])
