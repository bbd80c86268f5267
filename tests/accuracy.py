"""The README's table of accuracy: `python tests/accuracy.py` prints it as markdown.

Each value is compared with the number nearest to the exact one, by MPFR at 400 bits (exact.py).
The prototype is the usual NumPy code, in the dtype of the result (narrow results from float32).
"""

import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import exact  # noqa: E402

import posenc  # noqa: E402

DIM, BASE, ROWS, COLUMNS = 128, 10000.0, 1000, 32
STARTS = {"0": 0, "10^6": 10**6, "2^24": 2**24, "2^31": 2**31, "2^53": 2**53, "2^62": 2**62}


def prototype(positions, columns, dtype):
    """The table of "Attention Is All You Need" as it is usually typed."""
    compute = np.float64 if dtype == np.float64 else np.float32
    i = np.arange(0, DIM, 2, dtype=compute)
    angles = positions.astype(compute)[:, None] * np.exp(i * -(np.log(BASE) / DIM)).astype(compute)
    table = np.empty((len(positions), DIM), compute)
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table[:, columns].astype(dtype)


def compare(table, right):
    """How many values are not the nearest number, and the largest distance from it."""
    wrong = exact.bits(np.ascontiguousarray(table)) != exact.bits(right)
    error = np.abs(table.astype(np.float64) - right.astype(np.float64)).max()
    return int(wrong.sum()), float(error)


def main():
    rng = np.random.default_rng(1)
    print("| dtype | from position | values | posenc: wrong | NumPy: wrong | NumPy: off by |")
    print("|---|---|---:|---:|---:|---:|")
    total = 0
    for dtype in exact.DTYPES:
        for name, start in STARTS.items():
            positions = start + np.arange(ROWS)
            columns = np.sort(rng.permutation(DIM)[:COLUMNS])
            right = exact.sinusoidal(positions, DIM, dtype, columns=columns.tolist())
            ours = posenc.sinusoidal(positions, DIM, dtype=dtype)[:, columns]
            wrong, _ = compare(ours, right)
            theirs, error = compare(prototype(positions, columns, dtype), right)
            total += wrong
            share = f"{100 * theirs / right.size:.1f} %"
            print(f"| {dtype} | {name} | {right.size} | {wrong} | {share} | {error:.1e} |")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
