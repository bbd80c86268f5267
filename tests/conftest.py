"""What the docstrings promise, in one table: the tests hold the results against these numbers."""

import json
from pathlib import Path

import pytest
from hypothesis import settings

# By scheme and dtype. "ulp": units in the last place of the exact result, 0.5 meaning correctly
# rounded (tested as equality of bits). "norm": ulps of the norm of the pair, or the row, an element
# belongs to. "rel", "abs": relative and absolute errors.
TOL = {
    "sinusoidal": {name: {"ulp": 0.5} for name in ("float16", "bfloat16", "float32", "float64")},
    "wavelengths": {"float64": {"ulp": 0.5}},
    "inv_freq": {"float64": {"ulp": 0.5}},
    "rope": {
        # the narrow ones are this float32 result, rounded once
        "float32": {"norm": 2.0},
        "float64": {"norm": 2.0},
    },
    # posenc.reference is plain float64: an angle p w is off by up to 12 * 2^-53 of itself
    "reference": {"float64": {"rel": 12 * 2.0**-53, "abs": 1e-15}},
}

# What several tests go through: heads, and one over each of their slopes of ALiBi
SLOPES = [
    (1, [256]),
    (2, [16, 256]),
    (3, [16, 256, 4]),
    (5, [4, 16, 64, 256, 2]),
    (6, [4, 16, 64, 256, 2, 8]),
    (8, [2, 4, 8, 16, 32, 64, 128, 256]),
]
# M-RoPE: tables that transformers made, sections, interleaved
_STORED = json.loads((Path(__file__).with_name("data") / "mrope.json").read_text())
MROPE = [
    pytest.param(_STORED["qwen2_vl_chunked_[2,3,3]"], [2, 3, 3], False, id="chunked"),
    pytest.param(_STORED["qwen3_vl_interleaved_[4,2,2]"], [4, 2, 2], True, id="interleaved"),
]

settings.register_profile("posenc", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("posenc")


def reference_atol(largest_angle):
    """How far posenc.reference may be from the truth where angles reach `largest_angle` radians."""
    tol = TOL["reference"]["float64"]
    return tol["abs"] + tol["rel"] * largest_angle
