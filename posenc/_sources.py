"""Where a model's config comes from: a file, a dictionary or an object, and its text part."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from ._args import fail
from ._classes import REFUSED
from ._fields import show
from ._gguf import NAMES, is_gguf, read_gguf
from ._models import Model, closest, find_model

__all__ = ["Source", "open_config"]

_LARGEST_FILE = 1 << 24  # bytes; published configs have some thousand
# The text model of a multimodal config, outermost first.
_TEXT = ("vlm_config", "thinker_config", "text_config", "llm_config", "language_config")
_DECODERS = ("decoder", "decoder_config")  # of an encoder and a decoder


@dataclass(frozen=True)
class Source:
    """The keys of a text model as they were given, its type and the conventions of that."""

    values: Mapping[str, Any]
    model: Model
    model_type: str
    prefix: str  # of the keys, in errors
    problems: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)  # of keys in the file, if others


def open_config(fn: str, config: object) -> Source:
    """The text model of a config of any kind."""
    if isinstance(config, (str, os.PathLike)):
        path = _path(fn, config)
        if is_gguf(path):
            values, model = read_gguf(fn, path)
            return Source(values, model, str(values["model_type"]), "", names=NAMES)
        config = _load_json(fn, path)
        if not isinstance(config, Mapping):
            wanted = f"{path.name} must hold a dictionary"
            fail(ValueError, fn, "config", wanted, show(config))
    return _text_part(_mapping(fn, config))


def _path(fn: str, config: str | os.PathLike[str]) -> Path:
    """The file that is meant, whether it is there or not."""
    try:
        path = Path(config)
        if b"\0" in os.fsencode(path):
            raise ValueError
    except TypeError:  # of bytes
        fail(TypeError, fn, "config", "must be a path of characters", repr(config))
    except ValueError:
        fail(ValueError, fn, "config", "must be a path that a file can have", ascii(str(config)))
    return path / "config.json" if path.is_dir() else path


def _mapping(fn: str, config: object) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return config
    if callable(getattr(config, "to_dict", None)):
        config = config.to_dict()  # type: ignore[attr-defined]
        if isinstance(config, Mapping):
            return config
    elif not isinstance(config, type):
        slots = any("__slots__" in vars(cls) for cls in type(config).__mro__)
        if hasattr(config, "__dict__") or slots:
            return _attributes(config)
    wanted = "must be a path, a dictionary or an object with attributes"
    fail(TypeError, fn, "config", wanted, type(config).__name__)


def _attributes(config: object) -> dict[str, Any]:
    """Those of the object and of its class, slots and properties among them, but no methods."""
    result = {}
    for name in dir(config):
        if not name.startswith("_"):
            try:
                value = getattr(config, name)
            except Exception:  # a property that does not work is not there
                continue
            if not callable(value):
                result[name] = value
    return result


def _text_part(values: Mapping[str, Any]) -> Source:
    prefix, outer, problems = "", values.get("model_type"), list[str]()
    for _ in range(4):  # deeper than any published config
        if isinstance(outer, str) and outer in REFUSED:
            break
        key, inner = _inner(values)
        if inner is None:
            break
        if not isinstance(inner, Mapping):
            try:
                inner = _mapping("", inner)
            except TypeError:
                problems.append(f"{prefix}{key}: must be a dictionary, got {show(inner)}")
                break
        prefix += f"{key}."
        values = inner
        outer = values.get("model_type") or outer
    if outer is None:
        return Source(values, Model(), "a model without model_type", prefix, tuple(problems))
    model = find_model(outer) if isinstance(outer, str) else None
    problems += [f"{prefix}model_type: {wrong}" for wrong in _refusal(outer, values, model)]
    name = outer if isinstance(outer, str) else show(outer)
    return Source(values, model or Model(), name, prefix, tuple(problems))


def _inner(values: Mapping[str, Any]) -> tuple[str, Any]:
    """The key and the value of the text model inside a multimodal one; None if it is one itself."""
    for key in _TEXT:
        if values.get(key) is not None:
            return key, values[key]
    return next(
        ((k, values[k]) for k in _DECODERS if isinstance(values.get(k), Mapping)), ("", None)
    )


def _refusal(model_type: object, values: Mapping[str, Any], model: Model | None) -> list[str]:
    """Why there is no plan for a model type, if there is none."""
    name = model_type if isinstance(model_type, str) else ""
    why = REFUSED.get(name) or REFUSED.get(name.removesuffix("_model").removesuffix("_text"))
    if not why and {"patch_size", "spatial_merge_size"} <= values.keys():
        why = REFUSED["qwen2_vl_vision"]  # where the tower has the type of the whole
    if why:
        return [f"{show(model_type)} has {why}"]
    if model is not None:
        return []
    near = closest(name)
    near = f" (the nearest is {near!r})" if near else ""
    wanted = f"must be a known type{near}, or absent for a model like Llama"
    return [f"{wanted}, got {show(model_type)}"]


def _load_json(fn: str, path: Path) -> Any:
    """A JSON file, strictly: one value a key, finite numbers, no more nesting than makes sense."""
    if path.exists() and not path.is_file():
        fail(ValueError, fn, "config", "must be a file or a folder with a config.json", path)
    with path.open("rb") as file:
        data = file.read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        fail(ValueError, fn, "config", f"must have at most {_LARGEST_FILE} bytes", "more")
    try:
        return json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=_unique,
            parse_float=_finite,
            parse_constant=_refuse,
        )
    except RecursionError:
        fail(ValueError, fn, "config", "must not be nested so deeply", path.name)
    except ValueError as error:
        raise ValueError(f"{fn}: config: {path.name} is not valid JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {show(twice)} appears twice")
    return result


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")
