"""`posenc demo`: what position is for, and what the sinusoidal table does, in numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import posenc

from . import _compare
from ._args import Array


def add(commands: Any) -> None:
    """Add `demo` to the command line."""
    parser = commands.add_parser(
        "demo",
        help="what a position is for, in numbers",
        description="Print the demonstrations of the first notebook, computed on the spot.",
    )
    parser.set_defaults(run=lambda args: _demo())


def _demo() -> str:
    rng = np.random.default_rng(0)
    order = [3, 0, 4, 1, 2]
    parts = [_order(rng, order), _sentences(), _positions(rng, order)]
    return "\n".join([*parts, *_sinusoidal()])


def _order(rng: np.random.Generator, order: list[int]) -> str:
    E = rng.normal(0, 1, (5, 8))
    weights = [rng.normal(0, 0.5, (8, 8)) for _ in range(3)]
    before, after = posenc.attend(E, *weights), posenc.attend(E[order], *weights)
    return f"""\
A2  Attention without positions: five tokens, then the same five in the order {order}
    output of token 3 at place 3   {_row(before[3, :4], 5)} ...
    output of token 3 at place 0   {_row(after[0, :4], 5)} ...
    largest difference between the outputs, moved alike: {_gap(before[order], after)}
    Seen: the outputs move with their tokens and nothing else changes. Order is invisible.
"""


def _sentences() -> str:
    first, second = "the dog bit the man".split(), "the man bit the dog".split()
    none, _, _, sinusoidal, *_ = _compare.look(first, second, 64, 0)
    return f"""\
A3  "{" ".join(first)}" and "{" ".join(second)}"
    input gap without an encoding      {none.input_gap:.3f}
    input gap with the sinusoidal one  {sinusoidal.input_gap:.3f}
    Seen: as bags of vectors the two are equal; each word's place, added to it, parts them.
"""


def _positions(rng: np.random.Generator, order: list[int]) -> str:
    E = rng.normal(0, 1, (5, 64))
    weights = [rng.normal(0, 0.5, (64, 64)) for _ in range(3)]
    pe = posenc.sinusoidal(5, 64)
    before = posenc.attend(E + pe, *weights)[order]
    carried = posenc.attend((E + pe)[order], *weights)
    stayed = posenc.attend(E[order] + pe, *weights)
    return f"""\
A4  Position restores order: five tokens of width 64 with positions added, then shuffled
    shuffle tokens, then add positions  (E[order] + PE)   largest difference {_gap(before, stayed)}
    add positions, then shuffle the sum (E + PE)[order]   largest difference {_gap(before, carried)}
    Seen: the first line is the experiment, words that change places: their outputs change. The
    second carries each word's old position along, so it is A2 again: the outputs only move.
"""


def _sinusoidal() -> list[str]:
    table = posenc.sinusoidal(128, 64)
    wavelengths = posenc.wavelengths(64)
    norms = np.linalg.norm(table, axis=1)
    at = [0, 1, 2, 5, 10, 25, 50, 100]
    likeness = posenc.similarity(table, 0)[at]
    waves = [
        f"    pair {i:>2}  {wavelengths[i]:>9.1f} tokens a turn: "
        + (
            "adjacent tokens"
            if wavelengths[i] < 20
            else "nearby phrases"
            if wavelengths[i] < 500
            else "whole document"
        )
        for i in (0, 8, 20, 31)
    ]
    rows = [f"    position {p:>2}  {_row(table[p, :6], 4)}" for p in (0, 1, 2, 3, 10, 50)]
    bars = [
        f"    {p:>3}  {s:.4f}  {'#' * round(40 * s)}" for p, s in zip(at, likeness, strict=True)
    ]
    moved = []
    for k in (1, 5, 20):
        turned = table @ posenc.offset_rotation(k, 64).T
        alike = (table[:80] * table[k : 80 + k]).sum(axis=1) / 32
        moved += [
            f"    k = {k:>2}  PE(p + k) - M_k PE(p): {_gap(table[k:], turned[:-k])}"
            f"   likeness {alike.mean():.4f}, spread {alike.std():.0e}"
        ]
    return [
        "B2  The wavelengths of a table of width 64, from 2 pi to nearly 10000 times 2 pi",
        *waves,
        "    Seen: the first columns turn fast, the last hardly move within a book.\n",
        "B3  The first six columns: sine and cosine of three frequencies",
        *rows,
        "    Seen: every row is another one, and no value leaves [-1, 1].\n",
        f"B4  The norm of each of 128 rows: {norms.min():.4f} to {norms.max():.4f}, "
        f"and sqrt(32) = {math.sqrt(32):.4f}",
        "    Seen: all rows are equally long, for each pair has sin^2 + cos^2 = 1.\n",
        "B5  Likeness (cosine) of position 0 and others",
        *bars,
        "    Seen: a downward trend with ripples; it is not monotone.\n",
        "B6  A fixed offset is a fixed rotation: one matrix M_k for every p",
        *moved,
        "    Seen: how alike two positions are depends on their distance only.",
    ]


def _row(values: Array, digits: int) -> str:
    return " ".join(f"{x:>{digits + 3}.{digits}f}" for x in values)


def _gap(a: Array, b: Array) -> str:
    gap = float(np.abs(a - b).max())
    return f"{gap:.5f}" if gap > 1e-6 else f"{gap:.1e}"
