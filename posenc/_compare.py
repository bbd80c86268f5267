"""`posenc compare`: can attention tell two sentences apart? The answer, scheme by scheme."""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import posenc

from ._args import Array

_MAX_WORDS = 1000  # the gap between two inputs takes time in proportion to the square
_MAX_CHARACTERS = 1 << 20
_SAME = 1e-9  # outputs that differ by less, relative to the largest of them, are taken as the same
_ROUNDING = 1e-12  # printed as 0.000
_SHOWN = 24  # words in the printed table
_SLOPE = 0.5  # of ALiBi: the steepest of the eight heads in its paper

_ABOUT = """\
Show, scheme by scheme, whether attention can tell two sentences apart.

A sentence is the text itself, the name of a file that holds it, or "-" for one
line of standard input. It is folded to lower case and cut into words (letters
and digits, with apostrophes inside) and marks, each a token of its own.

Every distinct token has a random vector, the same wherever it stands. One layer
of attention with random weights reads both sentences, where each word sees
every other (no causal mask), and the outputs of the same word are compared. If
a word stands in a sentence more than once, each of its places in the first is
paired, in turn, with the place left in the second whose output is nearest: what
cannot be told apart then shows a gap of 0."""


def add(commands: Any) -> None:
    """Add `compare` to the command line."""
    parser = commands.add_parser(
        "compare",
        help="can attention tell two sentences apart?",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("first", metavar="SENTENCE", help="text, a file, or - for a line of input")
    parser.add_argument("second", metavar="SENTENCE", help="the other one")
    parser.add_argument("--dim", type=_dim, default=64, help="width of the vectors (default: 64)")
    parser.add_argument("--seed", type=_seed, default=0, help="of vectors and weights (default: 0)")
    parser.add_argument("--csv", action="store_true", help="print every number, as one CSV table")
    parser.set_defaults(run=_report)


class _Word(NamedTuple):
    """One word: its place in each sentence, None for no partner, and the gap of its outputs."""

    word: str
    first: int | None
    second: int | None
    gap: float


class _Seen(NamedTuple):
    """What one scheme makes of the two sentences."""

    scheme: str
    input_gap: float
    words: list[_Word]
    apart: bool
    largest: float

    @property
    def output_gap(self) -> float:
        """NaN if the sentences have no word in common."""
        return max((w.gap for w in self.words if not math.isnan(w.gap)), default=math.nan)


def _report(args: argparse.Namespace) -> str:
    first = _sentence("first sentence", args.first)
    second = _sentence("second sentence", args.second)
    seen = look(first, second, args.dim, args.seed)
    verdicts = [_verdict(s, first, second, seen[0].input_gap) for s in seen]
    if args.csv:
        return _csv(seen, verdicts)

    lines = [f"{i}: {_clip(' '.join(s), 77)}" for i, s in enumerate((first, second), 1)]
    lines += [_relation(first, second, seen[0].input_gap), ""]
    lines += [f"{'scheme':<11}{'input gap':>10}{'output gap':>11}{'largest':>9}  verdict"]
    for s, verdict in zip(seen, verdicts, strict=True):
        numbers = f"{_number(s.input_gap):>10}{_number(s.output_gap):>11}{_number(s.largest):>9}"
        lines += [f"{s.scheme:<11}{numbers}  {verdict}"]
    lines += [_LEGEND]
    labels = _labels([w.word for w in seen[0].words[:_SHOWN]])
    width = max(map(_width, labels))
    lines += [" " * width + "".join(f"{s.scheme:>11}" for s in seen)]
    for i, label in enumerate(labels):
        gaps = "".join(f"{_number(s.words[i].gap):>11}" for s in seen)
        lines += [label + " " * (width - _width(label)) + gaps]
    if len(seen[0].words) > _SHOWN:
        lines += [f"and {len(seen[0].words) - _SHOWN} more; --csv prints them all"]
    return "\n".join(lines)


_LEGEND = """
input gap    between the sentences as bags of vectors, before attention
output gap   the largest difference between the attention outputs of one word
largest      the largest number the encoding brings in; raw: grows with the text
Rotary turns queries and keys, ALiBi adds a bias to the scores. Neither touches
the input, so their input gap is that of no encoding: look at the output gap.

Output gap, word by word (- where a word has no partner):"""


def _csv(seen: list[_Seen], verdicts: list[str]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    header = "scheme,input_gap,output_gap,largest,verdict,word,place_1,place_2,word_gap"
    table.writerow(header.split(","))
    for s, verdict in zip(seen, verdicts, strict=True):
        for w in s.words:
            row = [s.scheme, s.input_gap, s.output_gap, s.largest, verdict, *w]
            table.writerow("" if x is None or x != x else x for x in row)  # NaN is not itself
    return text.getvalue()


def look(first: list[str], second: list[str], dim: int, seed: int) -> list[_Seen]:
    """Read both sentences through one layer of attention, once with every scheme."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0, dim**-0.5, (dim, dim)) for _ in range(3)]
    # Seeded by the word itself: its vector does not depend on the sentence it is found in.
    vectors = {
        word: np.random.default_rng([seed, *word.encode("utf-8", "surrogatepass")]).normal(size=dim)
        for word in {*first, *second}
    }
    pair = [np.array([vectors[word] for word in words]) for words in (first, second)]
    bare_gap = posenc.input_gap(*pair)
    result = []
    for scheme in ("none", "raw", "normalized", "sinusoidal", "rotary", "ALiBi"):
        (x, out_x, top_x), (y, out_y, top_y) = (_attention(scheme, E, weights) for E in pair)
        same = _SAME * max(float(np.abs(out).max()) for out in (out_x, out_y))
        words = _partners(first, second, out_x, out_y, same)
        gap = bare_gap if x is pair[0] else posenc.input_gap(x, y)
        apart = bare_gap > 0 or any(w.gap > same for w in words)
        result.append(_Seen(scheme, gap, words, apart, max(top_x, top_y)))
    return result


def _partners(
    first: list[str], second: list[str], out_x: Array, out_y: Array, same: float
) -> list[_Word]:
    """Pair each word of the first sentence with the nearest of those left in the second.

    Gaps up to `same` count as equal, and of equal ones the earliest place is taken.
    """
    left: dict[str, list[int]] = {}
    for j, word in enumerate(second):
        left.setdefault(word, []).append(j)
    result = []
    for i, word in enumerate(first):
        places = left.get(word)
        if not places:
            result.append(_Word(word, i, None, math.nan))
            continue
        gaps = np.abs(out_y[places] - out_x[i]).max(axis=1)
        nearest = int(np.argmin(np.where(gaps <= same, 0.0, gaps)))
        result.append(_Word(word, i, places.pop(nearest), float(gaps[nearest])))
    return result + [_Word(word, None, j, math.nan) for word, rest in left.items() for j in rest]


def _attention(scheme: str, E: Array, weights: list[Array]) -> tuple[Array, Array, float]:
    """The input of the attention, its output, and the largest number the encoding brings in."""
    n, dim = E.shape
    if scheme == "rotary":
        q, k = posenc.rope(E @ weights[0]), posenc.rope(E @ weights[1])
        mix = posenc.softmax(posenc.attention_scores(q, k) / math.sqrt(dim))
        return E, mix @ (E @ weights[2]), 1.0  # the cosine of position 0
    if scheme == "ALiBi":
        bias = posenc.alibi_bias([_SLOPE], n)[0]
        return E, posenc.attend(E, *weights, bias=bias), float(np.abs(bias).max())
    if scheme == "none":
        return E, posenc.attend(E, *weights), 0.0
    make: dict[str, Callable[[int, int], Array]] = {
        "raw": posenc.raw_positions,
        "normalized": posenc.normalized_positions,
        "sinusoidal": posenc.sinusoidal,
    }
    table = make[scheme](n, dim)
    x = E + table
    return x, posenc.attend(x, *weights), float(np.abs(table).max())


def _relation(first: list[str], second: list[str], bare_gap: float) -> str:
    if first == second:
        return "They are the same, word for word, so no scheme can tell them apart."
    if Counter(first) == Counter(second):
        return "The same words in another order."
    if bare_gap == 0:
        return "The same mixture of words: every word has the same share of both."
    return (
        "Not the same words: these differ even without an encoding. Give the same words in\n"
        "another order to see what an encoding does."
    )


def _verdict(seen: _Seen, first: list[str], second: list[str], bare_gap: float) -> str:
    if first == second:
        return "one sentence given twice"
    if math.isnan(seen.output_gap):
        return "no word in common"
    if seen.apart:
        how = {"rotary": " (turns q and k)", "ALiBi": " (biases scores)"}
        return "tells them apart" + (": other words" if bare_gap else how.get(seen.scheme, ""))
    if seen.input_gap and not bare_gap:
        return "cannot: position drowns the words"
    if seen.scheme == "ALiBi" and first == second[::-1]:
        return "cannot tell mirror images apart"
    return "cannot tell them apart"


def _sentence(name: str, given: str) -> list[str]:
    """The tokens of a sentence given as text, as a file's name, or as "-"."""
    try:
        if given == "-":
            text = sys.stdin.readline(_MAX_CHARACTERS + 1) if sys.stdin else ""
        elif os.path.exists(given) and not os.path.isdir(given):
            name = f"{name}, file {given!r}"
            with open(given, encoding="utf-8-sig") as file:
                text = file.read(_MAX_CHARACTERS + 1)
        else:
            text = given
    except UnicodeDecodeError:
        raise ValueError(f"posenc compare: {name}: must be text in UTF-8") from None
    except OSError as error:
        raise ValueError(f"posenc compare: {name}: cannot be read: {error.strerror}") from None
    if len(text) > _MAX_CHARACTERS:
        wanted = f"must have at most {_MAX_CHARACTERS} characters, got more"
        raise ValueError(f"posenc compare: {name}: {wanted}")
    words = _tokens(text)
    if not 1 <= len(words) <= _MAX_WORDS:
        wanted = f"must have from 1 to {_MAX_WORDS} words, got {len(words)}"
        raise ValueError(f"posenc compare: {name}: {wanted}")
    return words


def _tokens(text: str) -> list[str]:
    """Words and marks of a text, in lower case.

    A word is a run of letters, digits and underscores, with apostrophes inside; any other character
    that is not white space is a token of its own. Accents and joiners stay with what they follow.

    >>> _tokens("The dog's bite: 2 cm!")
    ['the', "dog's", 'bite', ':', '2', 'cm', '!']
    """
    text = unicodedata.normalize("NFC", text.casefold()).replace("\u2019", "'")
    kinds = "".join(map(_kind, text))
    return [text[found.start() : found.end()] for found in _TOKEN.finditer(kinds)]


# Over one letter for each character: see _kind.
_TOKEN = re.compile(r"w[wm]*('w[wm]*)*|[^ ]m*")
_JOINS = {"Mn", "Mc", "Me", "Cf"}


def _kind(char: str) -> str:
    """Space, apostrophe, w for letters, digits and underscore, m for what joins on, p for marks."""
    if char.isspace():
        return " "
    kind = unicodedata.category(char)
    if char == "'":
        return char
    return "w" if kind[0] in "LN" or char == "_" else "m" if kind in _JOINS else "p"


def _labels(words: list[str]) -> list[str]:
    """The words, numbered from their second appearance on."""
    count: Counter[str] = Counter()
    labels = []
    for word in words:
        count[word] += 1
        number = f" ({count[word]})" if count[word] > 1 else ""
        labels.append(_clip(word, 14 - len(number)) + number)
    return labels


def _number(x: float) -> str:
    if math.isnan(x):
        return "-"
    return f"{x:.3f}" if x < _ROUNDING or 0.0005 <= x < 1e5 else f"{x:.0e}"


def _clip(text: str, most: int) -> str:
    """Text that can be printed on any terminal, shortened to so many columns."""
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    if _width(text) > most:
        while _width(text) > most - 3:
            text = text[:-1]
        text += "..."
    return text


def _width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.category(c) in _JOINS for c in text)


def _dim(text: str) -> int:
    dim = _integer(text)
    if dim % 2 or not 2 <= dim <= 4096:
        raise argparse.ArgumentTypeError(f"must be even and from 2 to 4096, got {text}")
    return dim


def _seed(text: str) -> int:
    seed = _integer(text)
    if seed < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, got {text}")
    return seed


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, got {text!r}") from None
