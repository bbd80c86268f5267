"""Rotary frequencies under every published scaling, exact to 80 digits and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any

from ._args import fail, integers, positive_int
from ._fields import Fields, show
from ._methods import CONTEXT, METHODS, SPELLINGS, Case

__all__ = [
    "check_sections",
    "mrope_axes",
    "read_frequencies",
    "rope_type",
    "scaled_frequencies",
    "scaling_notes",
]

WIDEST = 1 << 14  # of a head: a config that claims more is broken
_STRETCHED = ("yarn", "ntk-by-parts", "llama3", "longrope")  # from a trained length
_LEAST, _MOST = Decimal(2) ** -900, Decimal(2) ** 60  # of a frequency that is not 0

# Every key that a published dictionary has: one that is not here is a slip of the pen.
_KEYS = frozenset(
    "type rope_type rope_theta partial_rotary_factor factor alpha mixed_b beta_fast beta_slow "
    "truncate attention_factor mscale mscale_all_dim original_max_position_embeddings "
    "max_position_embeddings short_factor long_factor short_mscale long_mscale low_freq_factor "
    "high_freq_factor mrope_section mrope_interleaved llama_4_scaling_beta finetuned".split()
)


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
      the ratio of those of `mscale` and `mscale_all_dim`. `truncate` (true) widens the ramp to
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
        "yarn" and "longrope": `max_position` / L). Numbers are exactly the binary ones given.
    seq_len : int, optional
        The live length, for "dynamic" and "longrope".
    max_position : int, optional
        `max_position_embeddings` of the config.
    head_dim : int, optional
        The width of the head (default: `dim`).
    fn : str, optional
        The function to name in an error.

    Returns
    -------
    frequencies : list of Decimal
        Radians a token, one a pair, to 80 digits or more.
    attention_factor : float
        For sine and cosine; correctly rounded.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        One for all that is wrong, each with its key; unknown keys too.

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
    if scaling is not None and not isinstance(scaling, Mapping):
        fail(TypeError, fn, "scaling", "must be a dictionary", type(scaling).__name__)
    fields = Fields(fn, scaling or {}, [])
    return read_frequencies(fields, dim, whole, _one_base(fields, base), seq_len, max_position)


def _one_base(fields: Fields, base: float | None) -> Decimal:
    given = fields.inner("", {"base": base}).optional("base", above=0)
    own = fields.optional("rope_theta", above=0)
    if given is not None and own is not None and given != own:
        fields.wrong("rope_theta", f"must be the base, {base}", fields.get("rope_theta"))
    return given or own or Decimal(10000)


def read_frequencies(
    fields: Fields,
    dim: int,
    head_dim: int,
    base: Decimal,
    seq_len: int | None,
    max_position: int | Decimal | None,
) -> tuple[list[Decimal], float]:
    """As `scaled_frequencies`, from fields that may know of problems already."""
    for key in fields.values:
        if key not in _KEYS:
            shown = key if isinstance(key, str) and len(key) <= 40 else show(key)
            fields.problems.append(f"{fields.prefix}{shown}: is not a key of any scaling")
    method = rope_type(fields)
    part = fields.optional("partial_rotary_factor", above=0)
    if part is not None and part > 1:
        fields.wrong("partial_rotary_factor", "must be at most 1", float(part))
    elif part is not None and method != "proportional" and int(head_dim * float(part)) != dim:
        fields.wrong("partial_rotary_factor", f"must be {dim} of {head_dim} channels", float(part))
    with localcontext(CONTEXT):
        longest = None if max_position is None else Decimal(max_position)
        try:
            freqs, attention = METHODS[method](Case(dim, head_dim, base, fields, seq_len, longest))
            good = all(not w or _LEAST < w < _MOST for w in freqs)
        except ArithmeticError:
            good = False
        if not good:
            fields.fail("frequencies: must be from 2^-900 to 2^60: a number is out of scale")
        return freqs, float(attention)


def scaling_notes(
    scaling: Mapping[str, Any] | None,
    base: float | Decimal,
    seq_len: int | None = None,
    max_position: int | None = None,
) -> dict[str, Any]:
    """What `RopePlan.notes` says of a scaling that `scaled_frequencies` has accepted."""
    fields = Fields("", scaling or {}, [])
    method = rope_type(fields)
    trained, factor = fields.get("original_max_position_embeddings"), fields.get("factor")
    if method == "default":
        trained, factor = max_position, None
    elif method == "dynamic" or (trained is None and method in _STRETCHED):
        trained = max_position
    if fields.get("alpha") is not None:
        factor = fields.get("alpha")
    elif factor is None and method in ("yarn", "ntk-by-parts", "longrope"):
        factor = max_position / trained if max_position and trained else None
    extended = max_position
    if trained and factor and (not extended or extended <= trained):
        extended = int(Decimal(trained) * Decimal(factor))
    return {
        "method": method,
        "base": float(base),
        "factor": None if factor is None else float(factor),
        "trained": trained,
        "extended": None if method == "default" else extended,
        "seq_len": seq_len if method in ("dynamic", "longrope") else None,
        "scaling": {k: tuple(v) if isinstance(v, list) else v for k, v in (scaling or {}).items()},
    }


def check_sections(fn: str, name: str, sections: Sequence[int], pairs: int) -> list[int]:
    """How many pairs time, height and width turn."""
    sizes = integers(fn, name, sections)
    if len(sizes) != 3 or min(sizes) < 1 or sum(sizes) != pairs:
        fail(ValueError, fn, name, f"must be 3 numbers of pairs that add up to {pairs}", sizes)
    return sizes


def mrope_axes(pairs: int, sections: list[int], *, interleaved: bool) -> list[int]:
    """Which of the axes time, height and width turns each pair (M-RoPE).

    Chunked (Qwen2-VL): the sections one after the other, section k on axis ``k % 3``. Interleaved
    (Qwen3-VL): time everywhere, but height at 1, 4, 7, ... below ``3 sections[1]`` and width at
    2, 5, 8, ... below ``3 sections[2]``; pairs left over stay on time, and a section that is too
    long ends with the pairs.
    """
    if not interleaved:
        return [k % 3 for k, size in enumerate(sections) for _ in range(size)][:pairs]
    axes = [0] * pairs
    for axis in (1, 2):
        for i in range(axis, min(3 * sections[axis], pairs), 3):
            axes[i] = axis
    return axes
