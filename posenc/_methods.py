"""The methods of rotary scaling: each a few lines, from what the model says to its frequencies.

All arithmetic is on decimals, in the context `CONTEXT` of 90 digits that the caller enters, from
the exact value of the numbers given. No frequency depends on a C library, and each is right to far
more than the 53 bits of a float64 and the 256 that `RopePlan` keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from ._fields import Fields

__all__ = ["CONTEXT", "METHODS", "NUMBERS", "SPELLINGS", "Case"]

CONTEXT = Context(prec=90, Emax=MAX_EMAX, Emin=MIN_EMIN)
_ONE, _ZERO, _TENTH = Decimal(1), Decimal(0), Decimal("0.1")
TWO_PI = Decimal(
    "6.28318530717958647692528676655900576839433879875021164194988918461563281257241799725606"
    "965068423"
)

# What each number of a dictionary must be, whatever the method.
NUMBERS: dict[str, dict[str, float]] = {
    **dict.fromkeys(("factor", "alpha"), {"least": 1}),
    **dict.fromkeys(
        "beta_slow mscale mscale_all_dim llama_4_scaling_beta extrapolation_factor".split(),
        {"least": 0},
    ),
    **dict.fromkeys(
        "rope_theta partial_rotary_factor mixed_b beta_fast attention_factor attn_factor "
        "short_mscale long_mscale low_freq_factor high_freq_factor".split(),
        {"above": 0},
    ),
}

Frequencies = tuple[list[Decimal], Decimal]


@dataclass(frozen=True)
class Case:
    """What a method may use: the rotary width, the base, the lengths, and its own numbers."""

    dim: int
    head_dim: int
    base: Decimal
    base_name: str  # of its key, in errors
    fields: Fields
    seq_len: int | None
    max_position: Decimal | None

    def plain(self, base: Decimal | None = None) -> list[Decimal]:
        """``base^(-2i/dim)`` for every pair."""
        return _powers(self.base if base is None else base, self.dim, self.dim // 2)

    def number(self, key: str) -> Decimal:
        """A number that must be there."""
        return self.fields.number(key, **NUMBERS[key])

    def optional(self, key: str) -> Decimal | None:
        """A number, or None if it is null or not there."""
        return self.fields.optional(key, **NUMBERS[key])

    def trained(self) -> Decimal:
        """The length before scaling: the model's own length if nothing else is said."""
        trained = self.fields.integer("original_max_position_embeddings")
        if trained is not None:
            return Decimal(trained or 1)
        if self.max_position is None:
            self.fields.missing("original_max_position_embeddings")
        return self.max_position or _ONE

    def factor(self, trained: Decimal) -> Decimal:
        """How much longer: `factor`, or else the ratio of the two lengths."""
        if self.fields.get("factor") is None and self.max_position is not None:
            return self.max_position / trained
        return self.number("factor")


def _powers(base: Decimal, width: int, count: int) -> list[Decimal]:
    step = (base.ln() * -2 / width).exp()
    result = [_ONE]
    for _ in range(count - 1):
        result.append(result[-1] * step)
    return result[:count]


def _default(c: Case) -> Frequencies:
    c.fields.check()
    return c.plain(), _ONE


def _linear(c: Case) -> Frequencies:
    """Position interpolation (Chen 2023): every frequency over the factor."""
    factor = c.number("factor")
    c.fields.check()
    return [w / factor for w in c.plain()], _ONE


def _stretched_base(c: Case, scale: Decimal) -> Frequencies:
    """NTK-aware (bloc97 2023): the longest wavelength grows by `scale`, the shortest not at all."""
    if c.dim == 2:
        c.fields.clash("rope_type", "must be another where only one pair turns", "an NTK method")
    c.fields.check()
    return c.plain(c.base * scale ** (Decimal(c.dim) / (c.dim - 2))), _ONE


def _ntk(c: Case) -> Frequencies:
    if "mixed_b" in c.fields.values:
        return _ntk_mixed(c)
    name = "factor" if c.fields.get("alpha") is None else "alpha"
    return _stretched_base(c, c.number(name))


def _ntk_mixed(c: Case) -> Frequencies:
    """Su 2023: pair m = 1, 2, ... over ``factor^((2m/dim)^b)``; b = 1 if null."""
    factor = c.number("factor")
    b = c.optional("mixed_b")
    b = _ONE if b is None else b
    c.fields.check()
    half, rise = Decimal(c.dim // 2), factor.ln()
    return [w / (rise * (m / half) ** b).exp() for m, w in enumerate(c.plain(), start=1)], _ONE


def _dynamic(c: Case) -> Frequencies:
    """NTK-aware by the live length; an `alpha` (Hunyuan) makes it static."""
    if c.fields.get("alpha") is not None:
        return _ntk(c)
    factor = c.number("factor")
    if c.max_position is None and c.fields.get("original_max_position_embeddings") is None:
        c.fields.missing("max_position_embeddings", ", the length that dynamic scaling starts at")
    c.fields.check()
    trained = c.max_position or c.trained()
    live = max(Decimal(c.seq_len or 0), trained)
    return _stretched_base(c, 1 + factor * (live - trained) / trained)


def _ramp(c: Case, trained: Decimal) -> Callable[[], list[Decimal]]:
    """0 for a pair that is kept, 1 for one that is interpolated, a line over the index between."""
    if c.optional("extrapolation_factor") not in (None, _ONE):  # of the authors' code: of 1 - r
        wrong = float(c.fields.get("extrapolation_factor"))
        c.fields.clash("extrapolation_factor", "must be 1", wrong)
    fast = c.optional("beta_fast")
    slow = c.optional("beta_slow")
    truncate = c.fields.flag("truncate", True)
    fast, slow = Decimal(32) if fast is None else fast, _ONE if slow is None else slow
    if fast < slow:
        c.fields.clash("beta_fast", f"must be at least beta_slow, {slow}", float(fast))
    if c.base <= 1:
        c.fields.clash(c.base_name, "must be above 1 for a ramp", float(c.base), whole=True)

    def index(turns: Decimal) -> Decimal:  # the pair, as a real number, that turns so often
        return c.dim * (trained / (turns * TWO_PI)).ln() / (2 * c.base.ln())

    def ramp() -> list[Decimal]:
        low = index(fast)
        high = index(slow) if slow else Decimal(c.dim - 1)  # in the limit
        if truncate:
            low = low.to_integral_value(ROUND_FLOOR)
            high = high.to_integral_value(ROUND_CEILING)
        low, high = max(low, _ZERO), min(high, Decimal(c.dim - 1))
        if low == high:
            high += Decimal("0.001")
        return [min(max((i - low) / (high - low), _ZERO), _ONE) for i in range(c.dim // 2)]

    return ramp


def _temperature(scale: Decimal, weight: Decimal = _ONE) -> Decimal:
    return _ONE if scale <= 1 else _TENTH * weight * scale.ln() + 1


def _by_parts(c: Case) -> Frequencies:
    """YaRN's frequencies without its attention factor."""
    trained = c.trained()
    factor = c.factor(trained)
    ramp = _ramp(c, trained)
    c.fields.check()
    return [w * ((1 - r) + r / factor) for w, r in zip(c.plain(), ramp(), strict=True)], _ONE


def _yarn(c: Case) -> Frequencies:
    """YaRN (Peng 2023). `mscale` counts only together with `mscale_all_dim`, both not 0.

    `attn_factor` is that of the authors' code and of vLLM: it multiplies the temperature.
    """
    given = c.optional("attention_factor")
    more = c.optional("attn_factor")
    mscale = c.optional("mscale")
    all_dim = c.optional("mscale_all_dim")
    scaled = c.fields.flag("apply_yarn_scaling", True)
    if given is not None and more not in (None, _ONE):
        c.fields.clash("attn_factor", f"must be 1 beside attention_factor, {given}", float(more))
    freqs, _ = _by_parts(c)
    factor = c.factor(c.trained()) if scaled else _ONE
    if given is not None:
        return freqs, given
    if mscale and all_dim:
        result = _temperature(factor, mscale) / _temperature(factor, all_dim)
    else:
        result = _temperature(factor)
    return freqs, result if more is None else result * more


def _longrope(c: Case) -> Frequencies:
    """LongRoPE (Ding 2024): a searched divisor a pair, from one list or the other by length."""
    trained = c.trained()
    which = "long" if c.seq_len is not None and c.seq_len > trained else "short"
    pairs = c.dim // 2 or None  # 0: the width is wrong and said to be
    divisors = {s: c.fields.numbers(f"{s}_factor", pairs, above=0) for s in ("short", "long")}
    own = {s: c.optional(f"{s}_mscale") for s in divisors}  # Phi-3.5-MoE
    given = own[which] or c.optional("attention_factor")
    factor = _ONE if given is not None else c.factor(trained)
    if trained < 2:
        c.fields.clash("original_max_position_embeddings", "must be at least 2", float(trained))
    c.fields.check()
    freqs = [w / e for w, e in zip(c.plain(), divisors[which], strict=True)]
    if given is not None:
        return freqs, given
    return freqs, _ONE if factor <= 1 else (1 + factor.ln() / trained.ln()).sqrt()


def _llama3(c: Case) -> Frequencies:
    """Llama 3.1: a ramp over the turns in the trained length, from `low_` to `high_freq_factor`.

    Both may be equal, as in Llama 4 Scout: then it is a step.
    """
    factor = c.number("factor")
    low = c.number("low_freq_factor")
    high = c.number("high_freq_factor")
    trained = c.trained()
    if high < low:
        c.fields.clash("high_freq_factor", f"must be at least low_freq_factor, {low}", float(high))
    c.fields.check()
    result = []
    for w in c.plain():
        turns = trained * w / TWO_PI
        if high > low:
            kept = min(max((turns - low) / (high - low), _ZERO), _ONE)
        else:
            kept = _ONE if turns >= low else _ZERO
        result.append(w * (kept + (1 - kept) / factor))
    return result, _ONE


def _proportional(c: Case) -> Frequencies:
    """Gemma 4: the exponent runs over the whole head, and the slow pairs stand still."""
    factor = c.optional("factor") or _ONE
    part = c.optional("partial_rotary_factor")
    c.fields.check()
    pairs = c.head_dim // 2
    turning = pairs if part is None else min(int(float(part) * c.head_dim // 2), pairs)
    moving = [w / factor for w in _powers(c.base, c.head_dim, turning)] if turning else []
    return moving + [_ZERO] * (pairs - turning), _ONE


METHODS: dict[str, Callable[[Case], Frequencies]] = {
    "default": _default,
    "linear": _linear,
    "ntk": _ntk,
    "dynamic": _dynamic,
    "ntk-by-parts": _by_parts,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}
SPELLINGS = {"mrope": "default", "su": "longrope"}
