"""What a rotary plan does, in words and a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._args import Array

if TYPE_CHECKING:
    from .plan import RopePlan

__all__ = ["explain_plan"]


def explain_plan(plan: RopePlan) -> str:
    """What a plan does, in words and a table.

    Parameters
    ----------
    plan : RopePlan
        Where it comes from is said by its `notes`; without them only what the plan holds is known.

    Returns
    -------
    str
        Method, base, trained and extended length, attention factor, wavelengths in tokens, or in
        what the positions are counted in; how many pairs are kept as without scaling, stretched by
        the full factor, or blended between; and the pairs one by one, or a choice of them.

    Examples
    --------
    >>> from posenc import plan_from_config
    >>> from posenc.explain import explain_plan
    >>> print(explain_plan(plan_from_config({"head_dim": 8, "rope_theta": 10000.0,
    ...     "max_position_embeddings": 4096,
    ...     "rope_scaling": {"type": "linear", "factor": 4.0}})))
    method            linear, factor 4
    base              10000
    length            4096 in the config
    channels          0 to 7 of 8 turn, half layout
    attention factor  1
    wavelengths       25.13 to 2.513e+04 tokens
    pairs             0 kept, 0 blended, 4 stretched
    pair  wavelength  of plain
       0       25.13      0.25  stretched
       1       251.3      0.25  stretched
       2        2513      0.25  stretched
       3   2.513e+04      0.25  stretched
    """
    notes, freq = plan.notes, plan.inv_freq
    plain = _plain(plan)
    listed = notes.get("method") == "longrope"  # whose factors are the pairs' own
    kinds = [_pair(w, p, notes.get("factor"), listed) for w, p in zip(freq, plain, strict=True)]
    rows = {
        "method": _method(notes),
        "base": f"{notes['base']:.10g}" if notes.get("base") else None,
        "length": _length(notes),
        "channels": _channels(plan),
        "axes": _axes(plan),
        "attention factor": f"{plan.attention_factor:.10g}",
        "xPos": f"scale base {notes.get('scale_base', 0):.10g}, centre {plan.center:.10g}"
        if plan.decay is not None
        else None,
        "score factor": f"{notes['score_factor']:.10g} (in the model's attention)"
        if notes.get("score_factor")
        else None,
        "temperature": notes.get("temperature"),
        "wavelengths": _wavelengths(freq, _unit(plan)),
        "pairs": ", ".join(
            f"{kinds.count(kind)} {kind}"
            for kind in ("kept", *(("divided",) if listed else ("blended", "stretched")), "still")
            if kind != "still" or "still" in kinds
        )
        if notes.get("base")
        else None,
    }
    lines = [f"{name:<18}{text}" for name, text in rows.items() if text is not None]
    lines.append("pair  wavelength" + ("  of plain" if plain.any() else ""))
    for i in _shown(kinds):
        wave = f"{2 * np.pi / freq[i]:.4g}" if freq[i] else "none"
        ratio = f"  {freq[i] / plain[i]:8.4g}" if plain[i] else ""
        axis = f"axis {plan.axis[i]}" if plan.naxes > 1 else ""
        lines.append("  ".join(filter(None, (f"{i:4}  {wave:>10}{ratio}", kinds[i], axis))))
    return "\n".join(lines)


def _unit(plan: RopePlan) -> str:
    """What the positions are counted in."""
    grid, _, convention = str(plan.notes.get("method")).partition(", ")
    if grid == "axial":
        spread = convention.startswith(("dinov3", "pixels"))
        return "units, of a grid from -1 to 1" if spread else "patches"
    return "tokens" if plan.notes.get("base") and plan.naxes == 1 else "positions"


def _plain(plan: RopePlan) -> Array:
    """The frequencies without scaling: zeros if nobody knows the base."""
    base = plan.notes.get("base")
    if not base:
        return np.zeros_like(plan.inv_freq)
    width = plan.rotary_dim or 2
    return np.asarray(float(base) ** (-2 * np.arange(len(plan.inv_freq)) / width))


def _pair(w: float, plain: float, factor: float | None, listed: bool) -> str:
    if not w:
        return "still"
    if not plain:
        return ""
    if abs(w / plain - 1) < 1e-9:
        return "kept"
    if listed:
        return "divided"
    return "stretched" if factor is None or w / plain < (1 + 1e-9) / factor else "blended"


def _shown(kinds: list[str]) -> list[int]:
    """All pairs if few; else some evenly, and those where the kind changes."""
    n = len(kinds)
    if n <= 16:
        return list(range(n))
    even = {round(k * (n - 1) / 8) for k in range(9)}
    turns = [i for i in range(1, n) if kinds[i] != kinds[i - 1]][:8]
    return sorted(even | {j for i in turns for j in (i - 1, i)})


def _method(notes: Mapping[str, Any]) -> str:
    method = str(notes.get("method", "given frequencies"))
    if _one_list(notes):
        return f"{method}, a divisor for each pair, the same at any length"
    if notes.get("factor") is not None:
        method += f", factor {notes['factor']:.10g}"
    if notes.get("seq_len") is not None:
        method += f", at length {notes['seq_len']}"
    elif method.startswith(("dynamic", "longrope")):
        method += f", as up to {notes['trained']} tokens"
    return method


def _one_list(notes: Mapping[str, Any]) -> bool:
    """Whether a longrope has the same divisors for short and long: those of a GGUF file."""
    lists = [notes.get("scaling", {}).get(f"{which}_factor") for which in ("short", "long")]
    return lists[0] is not None and lists[0] == lists[1]


def _length(notes: Mapping[str, Any]) -> str | None:
    trained, extended = notes.get("trained"), notes.get("extended")
    unknown = trained is None or notes.get("method") == "default" or _one_list(notes)
    if unknown:  # nothing says what it was trained on
        longest = extended or trained
        return f"{longest} in the config" if longest else None
    return f"{trained} trained" + (f", {extended} extended" if extended else "")


def _channels(plan: RopePlan) -> str:
    of = f" of {plan.notes['head_dim']}" if plan.notes.get("head_dim") else ""
    if not plan.rotary_dim:
        return f"none{of}, {plan.layout} layout"
    last = plan.start + plan.rotary_dim - 1
    return f"{plan.start} to {last}{of} turn, {plan.layout} layout"


def _axes(plan: RopePlan) -> str | None:
    if plan.naxes == 1:
        return None
    mrope = str(plan.notes.get("method")).startswith("mrope")
    names = plan.notes.get("axes", ("time", "height", "width") if mrope else ())
    said = [f" ({name})" for name in names] + [""] * plan.naxes
    counts = np.bincount(plan.axis, minlength=plan.naxes)
    parts = [f"{n} on axis {axis}{said[axis]}" for axis, n in enumerate(counts)]
    return ", ".join(parts).replace(" on", " pairs on", 1)


def _wavelengths(freq: Array, unit: str) -> str:
    moving = freq[freq > 0]
    if not len(moving):
        return "none: nothing turns"
    return f"{2 * np.pi / moving.max():.4g} to {2 * np.pi / moving.min():.4g} {unit}"
