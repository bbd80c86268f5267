"""One hash over many results: `python tests/digest.py` has to print the same on every machine.

Inputs come from integers, so that nothing but posenc is hashed.
"""

import hashlib
import sys

import ml_dtypes
import numpy as np

import posenc

DTYPES = [np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]


def some(shape, dtype):
    """Numbers between -1 and 1 that need all the bits float64 has."""
    n = int(np.prod(shape))
    bits = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((bits >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1).reshape(shape).astype(dtype)


def results():
    scattered = np.arange(1, 40, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    fractions = some(37, np.float64) * 1000
    for dtype in DTYPES:
        for dim in (1, 2, 5, 8, 13, 31, 64, 66, 127, 130, 258):
            for layout in ("interleaved", "half"):
                yield posenc.sinusoidal(150, dim, dtype=dtype, layout=layout)
                yield posenc.sinusoidal(scattered, dim, dtype=dtype, layout=layout, base=5e5)
                yield posenc.sinusoidal(fractions, dim, dtype=dtype, layout=layout, cos_first=True)
                x = some((2, 70, dim), dtype)
                yield posenc.add_sinusoidal(x, layout=layout, offset=10**12)
                x = some((2, 3, 70, 2 * dim), dtype)
                yield posenc.rope(x, layout=layout)
                yield posenc.rope(x, layout=layout, offset=2**40, inverse=True)
                yield posenc.rope(x[..., ::-1, 1:-1], layout=layout, base=5e5)
        yield posenc.sinusoidal(3000, 256, dtype=dtype)  # large enough for threads and streams
        yield posenc.sinusoidal(9000, 256, dtype=dtype, layout="half")
        yield posenc.rope(some((4, 1000, 5, 128), dtype), seq_axis=1)
        yield posenc.add_sinusoidal(some((4, 5000, 64), dtype))


def digest():
    total = hashlib.sha256()
    for array in results():
        native = array if sys.byteorder == "little" else array.byteswap()
        total.update(native.tobytes())
    return total.hexdigest()


if __name__ == "__main__":
    print(digest())
