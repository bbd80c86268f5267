"""What the docstrings promise, in one table: the tests hold the results against these numbers."""

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

settings.register_profile("posenc", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("posenc")


def reference_atol(largest_angle):
    """How far posenc.reference may be from the truth where angles reach `largest_angle` radians."""
    tol = TOL["reference"]["float64"]
    return tol["abs"] + tol["rel"] * largest_angle
