"""Positional encodings of transformers: exact, fast, on NumPy arrays."""

from . import prototypes as prototypes
from . import reference as reference
from ._version import __version__ as __version__
from .alibi import alibi_bias, alibi_slopes
from .attention import attend, attention_scores, softmax
from .axial import axial_plan, axial_positions, mrope_plan
from .config import plan_from_config
from .diagnose import input_gap, similarity
from .layers import (
    LearnedPositionalEmbedding,
    SinusoidalPositionalEncoding,
    TokenAndPositional,
    TokenEmbedding,
    TransformerEmbedding,
)
from .layouts import permute_rope_weight, to_half, to_interleaved
from .learned import embed, lookup
from .naive import normalized_positions, raw_positions
from .plan import RopePlan
from .positions import positions_from_lengths
from .rope import rope, rope_plan, xpos_plan
from .rope_cache import apply_rope, rope_qk, rope_shift, rope_tables
from .runtime import cpu_info, get_num_threads, set_num_threads
from .sinusoidal import add_sinusoidal, offset_rotation, sinusoidal, wavelengths

__all__ = [
    "LearnedPositionalEmbedding",
    "RopePlan",
    "SinusoidalPositionalEncoding",
    "TokenAndPositional",
    "TokenEmbedding",
    "TransformerEmbedding",
    "add_sinusoidal",
    "alibi_bias",
    "alibi_slopes",
    "apply_rope",
    "attend",
    "attention_scores",
    "axial_plan",
    "axial_positions",
    "cpu_info",
    "embed",
    "get_num_threads",
    "input_gap",
    "lookup",
    "mrope_plan",
    "normalized_positions",
    "offset_rotation",
    "permute_rope_weight",
    "plan_from_config",
    "positions_from_lengths",
    "raw_positions",
    "rope",
    "rope_plan",
    "rope_qk",
    "rope_shift",
    "rope_tables",
    "set_num_threads",
    "similarity",
    "sinusoidal",
    "softmax",
    "to_half",
    "to_interleaved",
    "wavelengths",
    "xpos_plan",
]
