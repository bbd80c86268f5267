"""Rotary frequencies under every published scaling, exact to 80 digits and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from numbers import Integral
from typing import Any, NamedTuple

from ._args import fail, integers, number, positive_int
from ._fields import Fields, show
from ._methods import CONTEXT, METHODS, NUMBERS, SPELLINGS, Case

__all__ = [
    "Scaled",
    "check_sections",
    "mrope_axes",
    "read_axis",
    "read_frequencies",
    "rope_type",
    "scaled_frequencies",
    "scaled_head",
    "scaling_notes",
]

WIDEST = 1 << 14  # of a head: a config that claims more is broken
_STRETCHED = ("yarn", "ntk-by-parts", "llama3", "longrope")  # from a trained length
_LEAST, _MOST = Decimal(2) ** -900, Decimal(2) ** 60  # of a frequency that is not 0
_WEAKEST, _STRONGEST = Decimal(2) ** -100, Decimal(2) ** 100  # attention factor of a plan

# Every key that a published dictionary has: one that is not here is a slip of the pen.
_LENGTHS = ("original_max_position_embeddings", "max_position_embeddings")
_FLAGS = ("truncate", "finetuned", "apply_yarn_scaling")
_LISTS = ("short_factor", "long_factor")
_OTHERS = ("type", "rope_type", "mrope_section", "mrope_interleaved")
KEYS = frozenset((*NUMBERS, *_LENGTHS, *_FLAGS, *_LISTS, *_OTHERS))


class Scaled(NamedTuple):
    """What a dictionary says of the plan of a head."""

    frequencies: list[Decimal]
    attention_factor: float
    axis: list[int] | None  # of positions, for M-RoPE
    notes: dict[str, Any]


def rope_type(fields: Fields) -> str:
    """The method that a dictionary names, under today's key or yesterday's."""
    key = "type" if fields.get("rope_type") is None else "rope_type"
    name = fields.get(key)
    if name is None:
        if any(fields.get(k) is not None for k in ("factor", "short_factor", "alpha")):
            fields.missing("rope_type")
        return "default"
    if isinstance(name, str) and (name in METHODS or name in SPELLINGS):
        return SPELLINGS.get(name, name)
    fields.wrong(key, f"must be one of {', '.join(METHODS)}", name)
    return "default"


def scaled_frequencies(
    dim: int,
    *,
    base: float | None = None,
    scaling: Mapping[str, Any] | None = None,
    seq_len: int | None = None,
    max_position: int | None = None,
    head_dim: int | None = None,
    fn: str = "scaled_frequencies",
) -> tuple[list[Decimal], float]:
    """Rotary frequencies and attention factor under a scaling, as Hugging Face spells it.

    With ``w_i = base^(-2i/dim)``, factor s and trained length L the methods are

    - "default" (or "mrope"): w_i.
    - "linear", position interpolation: w_i / s.
    - "ntk", NTK-aware: base becomes ``base s^(dim/(dim-2))``; s is `factor` or `alpha`. With a key
      `mixed_b`, which may be null, the form of Su that vLLM calls "ntk": ``w_i / s^(((i+1)
      2/dim)^b)``.
    - "dynamic": "ntk" with ``s seq_len/max_position - (s-1)`` for s, and `seq_len` no less than
      `max_position`. With `alpha` it is "ntk".
    - "yarn": ``w_i (1 - r + r/s)``, r rising from 0 to 1 over the pairs that turn `beta_fast` (32)
      to `beta_slow` (1) times in L, and an attention factor ``0.1 ln s + 1``, or the given one, or
      the ratio of those of `mscale` and `mscale_all_dim`; `attn_factor` (1) multiplies it, and
      `apply_yarn_scaling` (true) can switch it off. `truncate` (true) widens the ramp to
      whole pairs. `beta_slow` 0 is the limit of the formula, a ramp that ends at pair dim - 1;
      Hugging Face takes the default, 1, for it.
    - "ntk-by-parts": the frequencies of "yarn", attention factor 1.
    - "longrope" (or "su"): ``w_i / long_factor[i]`` if `seq_len` is above L, else
      ``w_i / short_factor[i]``; attention factor ``sqrt(1 + ln s / ln L)``, or the given one, or
      `long_mscale` and `short_mscale`.
    - "llama3": w_i for more than `high_freq_factor` turns in L, w_i / s for fewer than
      `low_freq_factor`, and the line between.
    - "proportional": ``base^(-2i/head_dim) / s`` for the first `partial_rotary_factor` of the
      pairs of the head, then zeros.

    Parameters
    ----------
    dim : int
        The rotary width, even; "proportional" uses `head_dim`.
    base : float, optional
        Above 0. Default: `rope_theta` of the dictionary, or 10000.
    scaling : mapping, optional
        `rope_scaling` or `rope_parameters` of a config, with `rope_type` or `type`. L is
        `original_max_position_embeddings` (default: `max_position`), s is `factor` (default for
        "yarn", "ntk-by-parts" and "longrope": `max_position` / L). Numbers are exactly the binary
        ones given; each must be of its kind, also where the method has no use for it.
    seq_len : int, optional
        The live length, for "dynamic" and "longrope".
    max_position : int, optional
        `max_position_embeddings` of the config (default: that of the dictionary; for "dynamic"
        also `original_max_position_embeddings`).
    head_dim : int, optional
        The width of the head (default: `dim`).
    fn : str, optional
        The function to name in an error.

    Returns
    -------
    frequencies : list of Decimal
        Radians a token, one a pair, to 80 digits or more; each 0 or from 2^-900 to 2^60.
    attention_factor : float
        For sine and cosine; correctly rounded, from 2^-100 to 2^100.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        One for all that is wrong with the dictionary, each with its key; unknown keys too.

    References
    ----------
    Chen et al. 2023, arXiv:2306.15595; Peng et al. 2023, "YaRN", arXiv:2309.00071; Ding et al.
    2024, "LongRoPE", arXiv:2402.13753; Su 2023, kexue.fm/archives/9706; Llama 3.1 and Gemma 4
    model code.

    Examples
    --------
    >>> from posenc.scaling import scaled_frequencies
    >>> yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    >>> freqs, attention_factor = scaled_frequencies(128, base=1e4, scaling=yarn)
    >>> float(freqs[20]), float(freqs[30]), attention_factor
    (0.05623413251903491, 0.009488517882700574, 1.138629436111989)
    """
    dim = positive_int(fn, "dim", dim)
    whole = dim if head_dim is None else positive_int(fn, "head_dim", head_dim)
    for name, width in (("dim", dim), ("head_dim", whole)):
        if width > WIDEST or (width % 2 and name == "dim"):
            fail(ValueError, fn, name, f"must be even and at most {WIDEST}", width)
    for name, length in (("seq_len", seq_len), ("max_position", max_position)):
        if length is not None:
            positive_int(fn, name, length)
    theta = None if base is None else number(fn, "base", base, positive=True)
    fields = _dictionary(fn, scaling)
    exact = _one_base(fields, theta)
    if rope_type(fields) != "proportional":
        _rotary_width(fields, whole, dim)
    return read_frequencies(fields, dim, whole, exact, seq_len, max_position, base_name="base")


def scaled_head(
    fn: str,
    dim: int,
    scaling: Mapping[str, Any],
    *,
    base: float = 10000.0,
    rotary_dim: int | None = None,
    seq_len: int | None = None,
) -> Scaled:
    """All that a dictionary says of a head of `dim` channels, in the name of the function `fn`.

    Arguments are those of `rope_plan`. Twice as many channels turn as there are frequencies:
    `rotary_dim`, or else the `partial_rotary_factor` of the dictionary, or else all.
    """
    if rotary_dim is not None:
        positive_int(fn, "rotary_dim", rotary_dim)
    if seq_len is not None:
        positive_int(fn, "seq_len", seq_len)
    theta = number(fn, "base", base, positive=True)
    fields = _dictionary(fn, scaling)
    silent = theta == 10000 and fields.get("rope_theta") is not None
    exact = _one_base(fields, None if silent else theta)
    width = _rotary_width(fields, dim, rotary_dim)
    if dim > WIDEST or (rotary_dim is None and width % 2):
        fail(ValueError, fn, "dim", f"must be even and at most {WIDEST}", dim)
    if width % 2 or width > dim:
        fail(ValueError, fn, "rotary_dim", f"must be even and at most {dim}", width)
    axis = read_axis(fields, width // 2)
    freqs, attention = read_frequencies(fields, width, dim, exact, seq_len, None, base_name="base")
    return Scaled(freqs, attention, axis, scaling_notes(scaling, exact, seq_len))


def _dictionary(fn: str, scaling: Mapping[str, Any] | None) -> Fields:
    if scaling is not None and not isinstance(scaling, Mapping):
        fail(TypeError, fn, "scaling", "must be a dictionary", type(scaling).__name__)
    return Fields(fn, scaling or {}, [])


def _one_base(fields: Fields, base: float | None) -> Decimal:
    """That of the call or that of the dictionary: one, if both are given."""
    own = fields.optional("rope_theta", **NUMBERS["rope_theta"])
    if base is not None and own is not None and base != float(own):
        fields.wrong("rope_theta", f"must be the base, {base}", fields.get("rope_theta"))
    return own or Decimal(10000 if base is None else base)


def _rotary_width(fields: Fields, dim: int, rotary_dim: int | None) -> int:
    """How many of `dim` channels turn, 0 if that is wrong; other problems are read on for."""
    key, whole = "partial_rotary_factor", dim if rotary_dim is None else rotary_dim
    before = len(fields.problems)
    part = fields.optional(key, **NUMBERS[key])
    if rope_type(fields) == "proportional":  # of the whole head
        if rotary_dim not in (None, dim):
            fields.problems.append(f"rotary_dim: must be {dim} here, got {rotary_dim}")
        return dim
    if part is None:
        return whole
    if part > 1 or len(fields.problems) > before:
        return 0
    width = int(dim * float(part))
    if rotary_dim not in (None, width):
        fields.wrong(key, f"must be {rotary_dim} of {dim} channels", float(part))
    elif width < 2 or width % 2:
        fields.wrong(key, f"must make 2, 4, ... of the {dim} channels turn", float(part))
    else:
        return width
    return 0


def read_frequencies(
    fields: Fields,
    dim: int,
    head_dim: int,
    base: Decimal,
    seq_len: int | None,
    max_position: int | None,
    *,
    base_name: str,
) -> tuple[list[Decimal], float]:
    """As `scaled_frequencies`, from fields that may know of problems already.

    Every key is looked at, whatever the method. `base_name` is the whole name, in an error, of a
    base that is not among the fields.
    """
    method = rope_type(fields)
    if fields.get("rope_theta") is not None:
        base_name = fields.named("rope_theta")
    _check_keys(fields, method)
    own = fields.integer("max_position_embeddings")
    longest = own if max_position is None else max_position
    with localcontext(CONTEXT):
        length = None if longest is None else Decimal(longest)
        case = Case(dim, head_dim, base, base_name, fields, seq_len, length)
        try:
            freqs, attention = METHODS[method](case)
            good = _in_scale(freqs)
        except ArithmeticError:
            good = False
        if not good and _in_scale(case.plain()):
            fields.fail("frequencies: must be from 2^-900 to 2^60, got some that are not")
        if not good:
            wanted = "must give frequencies from 2^-900 to 2^60"
            fields.fail(f"{base_name}: {wanted}, got {float(base)}")
        if not _WEAKEST <= attention <= _STRONGEST:
            keys = "long_mscale short_mscale attention_factor attn_factor mscale factor".split()
            key = next(key for key in keys if fields.get(key) is not None)
            wanted = "be" if key == "attention_factor" else "make an attention factor"
            fields.wrong(key, f"must {wanted} from 2^-100 to 2^100", float(attention))
            fields.check()
        return freqs, float(attention)


def _in_scale(freqs: list[Decimal]) -> bool:
    return all(not w or _LEAST < w < _MOST for w in freqs)


def _check_keys(fields: Fields, method: str) -> None:
    """Note every key that no scaling has, and every value that is none for its key."""
    for key in fields.values:
        if key not in KEYS:
            shown = key if isinstance(key, str) and len(key) <= 40 else show(key)
            fields.problems.append(f"{fields.prefix}{shown}: is not a key of any scaling")
    numbers = {key: fields.optional(key, **bound) for key, bound in NUMBERS.items()}
    for key in _LENGTHS:
        fields.integer(key)
    for key in _FLAGS:
        fields.flag(key, True)
    for key in _LISTS:
        if fields.get(key) is not None and method != "longrope":  # which does it itself
            fields.numbers(key, None, above=0)
    part = numbers["partial_rotary_factor"]
    if part is not None and part > 1:
        fields.wrong("partial_rotary_factor", "must be at most 1", float(part))


def scaling_notes(
    scaling: Mapping[str, Any] | None,
    base: float | Decimal,
    seq_len: int | None = None,
    max_position: int | None = None,
) -> dict[str, Any]:
    """What `RopePlan.notes` says of a scaling that `read_frequencies` has accepted."""
    fields = Fields("", scaling or {}, [])
    method = rope_type(fields)
    trained, longest = (fields.integer(key) for key in _LENGTHS)
    longest = longest if max_position is None else int(max_position)
    factor = fields.optional("factor", **NUMBERS["factor"])
    if method == "default":
        trained, factor = longest, None
    elif method == "dynamic":
        trained = longest or trained
    elif method in _STRETCHED:
        trained = trained or longest
        if factor is None and longest and trained:
            factor = CONTEXT.divide(Decimal(longest), Decimal(trained))
    if method in ("ntk", "dynamic") and "mixed_b" not in fields.values:
        factor = fields.optional("alpha", **NUMBERS["alpha"]) or factor
    extended = longest
    if trained and factor and (not extended or extended <= trained):
        extended = int(trained * Fraction(factor))
    return {
        "method": method,
        "base": float(base),
        "factor": None if factor is None else float(factor),
        "trained": trained,
        "extended": None if method == "default" else extended,
        "seq_len": seq_len if method in ("dynamic", "longrope") else None,
        "scaling": {k: tuple(v) if isinstance(v, list) else v for k, v in (scaling or {}).items()},
    }


def read_axis(
    fields: Fields,
    pairs: int,
    *,
    sections: Sequence[int] | None = None,
    interleaved: bool = False,
) -> list[int] | None:
    """Which axis of the positions turns each pair, by `mrope_section` and `mrope_interleaved`.

    `sections` and `interleaved` are those of a model whose dictionary is silent. None for text.
    `pairs` is 0 if nobody knows how many.
    """
    key = "mrope_section"
    interleaved = fields.flag("mrope_interleaved", interleaved)
    own = fields.get(key) is not None
    sizes = fields.list_of(key, None, "whole numbers") if own else sections
    if sizes is None:
        return None
    misfit = _misfit(sizes, pairs, interleaved)
    if misfit:
        fields.wrong(key, *misfit)
        return None
    return mrope_axes(pairs, sizes, interleaved=interleaved)


def check_sections(
    fn: str, name: str, sections: Sequence[int], pairs: int, *, interleaved: bool
) -> list[int]:
    """How many pairs time, height and width turn, or how many places they may have."""
    sizes = integers(fn, name, sections)
    misfit = _misfit(sizes, pairs, interleaved)
    if misfit:
        fail(ValueError, fn, name, *misfit)
    return sizes


def _misfit(sizes: Sequence[Any], pairs: int, interleaved: bool) -> tuple[str, object] | None:
    """What sections should be and what they are; None if they are right."""
    whole = all(isinstance(n, Integral) and not isinstance(n, bool) for n in sizes)
    most = pairs or WIDEST
    if not whole or len(sizes) != 3 or not all(0 <= n <= most for n in sizes):
        return f"must be 3 whole numbers from 0 to {most}", sizes
    if pairs and not interleaved and sum(sizes) != pairs:
        return f"must add up to {pairs} pairs", sum(sizes)
    return None


def mrope_axes(pairs: int, sections: Sequence[int], *, interleaved: bool) -> list[int]:
    """Which of the axes time, height and width turns each pair (M-RoPE).

    Chunked (Qwen2-VL): the sections one after the other. Interleaved
    (Qwen3-VL): time everywhere, but height at 1, 4, 7, ... below ``3 sections[1]`` and width at
    2, 5, 8, ... below ``3 sections[2]``; pairs left over stay on time, and a section that is too
    long ends with the pairs.
    """
    if not interleaved:
        return [axis for axis, size in enumerate(sections) for _ in range(size)]
    axes = [0] * pairs
    for axis in (1, 2):
        for i in range(axis, min(3 * sections[axis], pairs), 3):
            axes[i] = axis
    return axes
