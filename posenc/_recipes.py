"""What each layer of a model turns by: the rules by which a config is read."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Any

from ._fields import Fields, show
from ._kinds import IDLE, MOST_KEYS, Layers
from ._methods import CONTEXT
from ._models import find_model
from .plan import RopePlan
from .scaling import read_axis, read_frequencies, rope_type, scaling_notes

__all__ = ["Reader", "Recipe", "Temperature"]

_WIDEST = 4096  # of a head: a config that claims more is broken
_LENGTHS = ("llama3", "yarn", "ntk-by-parts", "longrope")  # whose trained length may stand outside


@dataclass(frozen=True)
class Temperature:
    """Queries at position p are multiplied by ``1 + beta ln(1 + floor((p + shift) / length))``.

    Without a beta it is ``max(1, ln(p + 1) / ln(length))``.
    """

    beta: Decimal | None
    length: int
    shift: int = 0

    def __str__(self) -> str:
        if self.beta is None:
            return f"queries times max(1, ln(p + 1) / ln({self.length}))"
        p = "(p + 1)" if self.shift else "p"
        return f"queries times 1 + {float(self.beta):g} ln(1 + floor({p} / {self.length}))"


@dataclass(frozen=True)
class Recipe:
    """All that fixes the plan of a layer; the same for layers that turn alike."""

    layer_type: str = field(compare=False)
    head_dim: int = 0
    dim: int = 0
    base: Decimal = Decimal(1)
    base_name: str = field(default="", compare=False)  # of its key, in errors
    name: str = field(default="", compare=False)  # of the dictionary, in errors
    parameters: Mapping[str, Any] | None = None  # None: the layer has no rotary embedding
    temperature: Temperature | None = None
    idle: bool = False  # the layer has no attention


class Reader(Layers):
    """Reads a config, layer by layer."""

    def groups(self) -> list[tuple[Recipe, list[int]]]:
        """Every kind of layer with the layers of that kind; of one period if nobody says how many.

        Raises ValueError with all that is wrong.
        """
        result: list[tuple[Recipe, list[int]]] = []
        alike: dict[object, list[tuple[Recipe, list[int]]]] = {}
        for i in range(self.layers):
            recipe = self.recipe(i)
            bucket = alike.setdefault((recipe.base, recipe.head_dim, recipe.dim), [])
            group = next((g for g in bucket if g[0] == recipe), None)
            if group is None:
                group = (recipe, [])
                bucket.append(group)
                result.append(group)
            group[1].append(i)
        if self.fields.problems:  # those of the scalings are still to be found
            for recipe, _ in result:
                if recipe.parameters is not None:
                    self.plan(recipe, None)
        self.fields.check()
        return result

    def recipe(self, i: int) -> Recipe:
        """The recipe of layer i."""
        layer_type = self.types[i % len(self.types)]
        if layer_type in IDLE and layer_type not in self.table:
            return Recipe(layer_type, idle=True)
        name, entry = self._entry(layer_type)
        own_base = self.bases[i % len(self.bases)] if self.bases else None
        if entry is None or not self.turns[i % len(self.turns)] or own_base == 0:
            return Recipe(layer_type, temperature=self._temperature(None))
        if self.scaled is not None and i not in self.scaled:
            entry = {key: entry[key] for key in ("rope_theta",) if key in entry}
        inner = self.fields.inner(name, entry)
        if own_base is None:
            base, base_name = self._base(inner, layer_type)
        else:
            key = f"{self.bases_name}[{i}]"
            base = self.fields.inner("", {key: own_base}).number(key, above=0)
            base_name = self.fields.named(key)
        dim, head_dim, entry = self._width(i, inner, self._head_dim(layer_type, i))
        temperature = self._temperature(entry)
        return Recipe(layer_type, head_dim, dim, base, base_name, name, entry, temperature)

    def _entry(self, layer_type: str) -> tuple[str, Mapping[str, Any] | None]:
        """The dictionary of a layer type and its name; None for a layer that does not turn."""
        if not self.nested:
            whole = layer_type != "sliding_attention" or self.model.scales_local
            return (self.name, self.table) if whole else ("", {})
        if {"main", "compress"} <= self.table.keys():  # DeepSeek V4
            layer_type = "main" if layer_type == "sliding_attention" else "compress"
        name = f"{self.name}.{layer_type}" if self.name else layer_type
        for key, value in self.table.items():
            left_over = key in ("rope_theta", "rope_type")  # of a spelling before this one
            if not (left_over or isinstance(value, (Mapping, type(None)))):
                where = f"{self.name}.{show(key)[1:-1]}"
                self.fields.wrong(where, "must be inside the entry of a layer type", value)
        entry = self.table.get(layer_type)
        if entry is None and self.model.local_base is not None:
            return name, {}
        if entry is None and layer_type and layer_type not in self.table:
            self.fields.missing(name)
        if isinstance(entry, Mapping) and len(entry) > MOST_KEYS:
            self.fields.wrong(name, f"must have at most {MOST_KEYS} keys", len(entry))
            return name, {}
        return name, entry if isinstance(entry, Mapping) else None

    def _base(self, inner: Fields, layer_type: str) -> tuple[Decimal, str]:
        """The base of a layer type and the name of its key."""
        own = inner.optional("rope_theta", above=0)
        if own is not None:
            return own, inner.named("rope_theta")
        local = layer_type == "sliding_attention" and self.model.local_base
        key, default = local or self.model.base
        base = None if self.model.fixed else self.fields.optional(key, above=0)
        base = Decimal(default) if base is None else base
        ratio = self.fields.optional(self.model.ratio, above=0) if self.model.ratio else None
        return base if ratio is None else base * ratio, self.fields.named(key)

    def _head_dim(self, layer_type: str, layer: int) -> tuple[int, str]:
        """The width of a head, 0 if it is wrong, and the name of the key that it is from."""
        model, fields = self.model, self.fields
        own = fields.inner(f"per_layer_config.{layer}", self.own.get(layer, {}))
        keys = ["qk_rope_head_dim"] if model.mla else ["head_dim"]
        no_own = fields.get("per_layer_config") is None
        if layer_type == "full_attention" and "global_head_dim" in model.defaults and no_own:
            keys.insert(0, "global_head_dim")
        for key in keys:
            source = fields if own.get(key) is None else own
            width = source.integer(key, most=_WIDEST)
            if width is not None:
                return width, source.named(key)
        hidden, heads = (
            (fields if own.get(key) is None else own).integer(key)
            for key in ("hidden_size", "num_attention_heads")
        )
        if model.wide:
            fields.missing("attention_head_dim")
        elif hidden is None or heads is None:
            fields.missing("head_dim", ", and so is hidden_size or num_attention_heads")
        elif not hidden or not heads:
            pass  # one of them is wrong
        elif hidden < heads or (hidden % heads and model.part[1] == 1):
            fields.wrong("hidden_size", f"must be a multiple of {heads} heads", hidden)
        elif hidden // heads > _WIDEST:
            fields.wrong("hidden_size", f"must make heads of at most {_WIDEST}", hidden // heads)
        else:
            return hidden // heads, fields.named("hidden_size")
        return 0, ""

    def _width(
        self, layer: int, inner: Fields, head: tuple[int, str]
    ) -> tuple[int, int, dict[str, Any]]:
        """Widths that turn and of the head, 0 if wrong; the dictionary as scalings take it."""
        entry, model, (head_dim, head_key) = dict(inner.values), self.model, head
        named = entry.get("rope_type") or entry.get("type")
        if (model.longrope and named in ("su", "yarn")) or named == "deepseek_yarn":
            entry["rope_type"] = "longrope" if model.longrope else "yarn"
        method = rope_type(Fields("", entry, []))
        if model.unscaled and method == "yarn":
            entry.setdefault("attention_factor", 1.0)
        outside = self.fields.get("original_max_position_embeddings")
        if method in _LENGTHS and outside is not None and not self.nested:
            entry["original_max_position_embeddings"] = outside
        part, key = self._part(layer, inner)
        entry.pop("partial_rotary_factor", None)
        if model.mla:
            part, key = 1.0, ""  # of qk_rope_head_dim
        elif method == "proportional":
            entry["partial_rotary_factor"] = part or 1.0
            part, key = 1.0, ""  # of the pairs, as the method reads it
        own = "qk_rope_head_dim" if model.last else "rotary_dim"
        inside = key == inner.named("partial_rotary_factor") and model.last
        unread = inside or method == "proportional"
        width = None if unread else self.fields.integer(own, most=_WIDEST)
        if width is not None:
            if width % 2 or width > head_dim > 0:
                most = f" and at most {head_dim}" if head_dim else ""
                self.fields.wrong(own, f"must be even{most}", width)
                width = 0
            return width, head_dim, entry
        if not head_dim or not part:  # which is wrong
            return 0, head_dim, entry
        width = int(head_dim * part)
        # transformers turns one channel more than an odd part of the head
        if width and (width % 2 == 0 or (width < head_dim and method in ("default", "linear"))):
            return width, head_dim, entry
        if key:
            wanted = f"must leave an even number of the {head_dim} channels"
            self.fields.problems.append(f"{key}: {wanted}, got {width}")
        else:
            wanted = "must be even" if part == 1 else f"must be so that {part:g} of it is even"
            if head_key == self.fields.named("hidden_size"):
                wanted = wanted.replace("must be", "must make heads whose width is")
            self.fields.problems.append(f"{head_key}: {wanted}, got {head_dim}")
        return 0, head_dim, entry

    def _part(self, layer: int, inner: Fields) -> tuple[float, str]:
        """The part of the head that turns, 0 if it is wrong; its key, "" if no key says it."""
        key, default = self.model.part
        fields, own = self.fields, self.parts[layer % len(self.parts)] if self.parts else None
        if inner.get("partial_rotary_factor") is not None:
            fields, key = inner, "partial_rotary_factor"
        elif own is not None:
            key = f"partial_rotary_factors[{layer}]"
            fields = fields.inner("", {key: own})
        before = len(fields.problems)
        share = fields.optional(key, above=0)
        if share is None:
            return default, ""
        if share > 1:
            fields.wrong(key, "must be at most 1", float(share))
        return 0.0 if len(fields.problems) > before else float(share), fields.named(key)

    def _temperature(self, entry: Mapping[str, Any] | None) -> Temperature | None:
        fields = self.fields
        if self.model.stepped and fields.flag("use_logn_attn", False):
            return Temperature(None, fields.integer("max_position_embeddings", least=2) or 2)
        if self.model.temperature:
            key = "attn_temperature_tuning"
            tuned = fields.get(key)  # or 4, a whole number in what Meta published
            number = isinstance(tuned, int) and tuned >= 0
            if entry is not None or not (tuned if number else fields.flag(key, True)):
                return None
            length = fields.integer("floor_scale") or 1
            return Temperature(fields.number("attn_scale", least=0), length, 1)
        inner = fields.inner(self.name, entry or {})
        beta = inner.optional("llama_4_scaling_beta", least=0)
        if beta is None:
            return None
        trained = inner.integer("original_max_position_embeddings") or self.max_position
        return Temperature(beta, trained or 1)

    def say(self, layers: list[int]) -> str:
        """Layer numbers in a few words, 0-4, 6-10, ...; without end if nobody says how many."""
        more = ", ..." if self.count is None else ""
        if more:
            layers = [n + k * self.layers for k in range(3) for n in layers]
        runs = [
            [n for _, n in run]
            for _, run in itertools.groupby(enumerate(layers), lambda pair: pair[1] - pair[0])
        ]
        parts = [str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs]
        return ", ".join(parts if len(parts) <= 6 else [*parts[:5], "..."]) + more

    def plan(self, recipe: Recipe, seq_len: int | None) -> RopePlan:
        """The plan of a recipe that turns; ValueError with everything that is wrong."""
        assert recipe.parameters is not None
        parameters, odd = recipe.parameters, recipe.dim % 2
        if self.model.stepped and self.fields.flag("use_dynamic_ntk", False):
            parameters = self._stepped(seq_len)
        inner = self.fields.inner(recipe.name, parameters)
        axis = self._axis(inner, (recipe.dim + 1) // 2)
        # of an odd width w the powers are i / w: every second of those of 2w
        freqs, attention = read_frequencies(
            inner,
            recipe.dim << odd,
            recipe.head_dim,
            recipe.base,
            seq_len,
            self.max_position,
            base_name=recipe.base_name,
        )
        freqs = freqs[:: 1 + odd]
        layout = self.model.layout
        if self.model.mla and not self.fields.flag("rope_interleave", True):
            layout = "half"
        self.fields.check()
        start = recipe.head_dim - recipe.dim if self.model.last else 0
        naxes = 3 if axis and self.model.order != "rows and columns" else 1
        plan = RopePlan._exact(
            freqs, layout, start, axis=axis, naxes=naxes, attention_factor=attention
        )
        notes = scaling_notes(parameters, recipe.base, seq_len, self.max_position)
        if axis is not None:
            grid = self.model.order == "rows and columns"
            plan._note(axes=("row", "column") if grid else ("time", "height", "width"))
        plan._note(
            **notes,
            model_type=self.source.model_type,
            layer_type=recipe.layer_type or None,
            head_dim=recipe.head_dim,
            temperature=None if recipe.temperature is None else str(recipe.temperature),
            score_factor=self._score_factor(parameters, notes["factor"]),
        )
        return plan

    def _stepped(self, seq_len: int | None) -> dict[str, Any]:
        """NTK of Qwen 1: alpha is 1 up to the trained length, and 3, 7, 15, ... as that doubles."""
        if not seq_len or not self.max_position or seq_len <= self.max_position:
            return {}
        doublings = ((seq_len - 1) // self.max_position).bit_length()
        return {"rope_type": "ntk", "alpha": float(2 ** (doublings + 1) - 1)}

    def _axis(self, inner: Fields, pairs: int) -> list[int] | None:
        order, sections = self.model.order, list(self.model.sections) or None
        if order == "rows and columns":
            return [i % 2 for i in range(pairs)]
        if order != "time last":
            in_turn = order == "interleaved"
            return read_axis(inner, pairs, sections=sections, interleaved=in_turn)
        key = "mrope_section"
        sections = inner.list_of(key, None, "whole numbers") or sections
        if sections is None:
            return None
        most = pairs or _WIDEST
        whole = all(type(n) is int and 0 <= n <= most for n in sections)
        if not whole or len(sections) != 3:
            inner.wrong(key, f"must be 3 whole numbers from 0 to {most}", sections)
        elif pairs and sum(sections) != pairs:
            inner.wrong(key, f"must add up to {pairs} pairs", sum(sections))
        elif sections[0] != sections[1]:
            inner.wrong(key, "must have two equal numbers first", sections)
        else:
            return [1, 2] * sections[0] + [0] * sections[2]
        return None

    def _score_factor(self, entry: Mapping[str, Any], factor: float | None) -> float | None:
        """DeepSeek's code multiplies the scores by the square of YaRN's temperature."""
        model = find_model(self.source.model_type) or self.model  # that of a file says its widths
        weight = entry.get("mscale_all_dim")
        if entry.get("apply_yarn_scaling") is False:
            return None
        if not (model.mla and weight and factor and factor > 1):
            return None
        with localcontext(CONTEXT):
            return float((Decimal(weight) * Decimal(factor).ln() / 10 + 1) ** 2)
