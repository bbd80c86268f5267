"""The command line as its user meets it: what it prints, what it refuses, how it ends."""

import csv
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import posenc
from posenc import _compare, reference
from posenc.__main__ import main

ROOT = Path(__file__).resolve().parents[1]
DOG, MAN = "the dog bit the man", "the man bit the dog"
SCHEMES = ["none", "raw", "normalized", "sinusoidal", "rotary", "ALiBi"]
untimed = settings(deadline=None, max_examples=30)


def process(*words, **options):
    """Run ``python -m posenc`` as a process of its own."""
    command = [sys.executable, "-m", "posenc", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=120, **options
    )


@pytest.fixture
def run(capsys):
    """Run the command line in this process: (exit code, lines of output, lines of errors)."""

    def call(*words):
        code = main(words)
        out, err = capsys.readouterr()
        return code, out.splitlines(), err.splitlines()

    return call


def table(lines):
    """The rows of the printed table of schemes: {scheme: (numbers, verdict)}."""
    found = (re.match(r"(\w+) +([\d.e-]+) +([\d.e-]+) +([\d.e-]+)  (\w.*)", line) for line in lines)
    return {m[1]: ((m[2], m[3], m[4]), m[5]) for m in found if m}


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


# --- compare: what is printed ---------------------------------------------------------------------


def test_the_dog_and_the_man(run):
    code, out, err = run("compare", DOG, MAN)
    assert (code, err) == (0, [])
    assert out[:3] == [f"1: {DOG}", f"2: {MAN}", "The same words in another order."]
    seen = table(out)
    assert list(seen) == SCHEMES
    assert seen["none"] == (("0.000", "0.000", "0.000"), "cannot tell them apart")
    for scheme in SCHEMES[1:]:
        (input_gap, output_gap, _), verdict = seen[scheme]
        assert verdict.startswith("tells them apart")
        assert (float(input_gap) == 0) == (scheme in ("rotary", "ALiBi"))
        assert float(output_gap) > 0.1
    assert [seen[s][0][2] for s in SCHEMES[1:4]] == ["4.000", "0.800", "1.000"]
    assert seen["ALiBi"][0][2] == "2.000"  # four words away, at a slope of one half
    assert max(map(len, out)) <= 80


def test_the_readme_shows_what_is_printed(run):
    _, out, _ = run("compare", DOG, MAN)
    assert "```text\n" + "\n".join(out[4:11]) + "\n```" in (ROOT / "README.md").read_text()


def test_every_word_is_listed_once(run):
    _, out, _ = run("compare", DOG, MAN)
    labels = [line[:7].strip() for line in out[-5:]]
    assert labels == ["the", "dog", "bit", "the (2)", "man"]


@pytest.mark.parametrize("other", ["man bites dog", "bites dog man"])
def test_bias_by_distance_cannot_see_a_mirror_image(run, other):
    _, out, _ = run("compare", "dog bites man", other)
    seen = table(out)
    mirrored = other == "man bites dog"
    assert (seen["ALiBi"][1] == "cannot tell mirror images apart") is mirrored
    assert seen["rotary"][1] == "tells them apart (turns q and k)"


def test_the_same_sentence_twice(run):
    _, out, _ = run("compare", "The dog!", "the  DOG !")
    assert out[2] == "They are the same, word for word, so no scheme can tell them apart."
    for (input_gap, output_gap, _), verdict in table(out).values():
        assert (input_gap, output_gap, verdict) == ("0.000", "0.000", "one sentence given twice")


def test_the_same_mixture(run):
    _, out, _ = run("compare", "dog bites", "dog bites dog bites")
    assert out[2] == "The same mixture of words: every word has the same share of both."
    seen = table(out)
    assert seen["none"] == (("0.000", "0.000", "0.000"), "cannot tell them apart")
    assert seen["sinusoidal"][1] == "tells them apart"


def test_other_words_are_no_question_of_order(run):
    _, out, _ = run("compare", "the dog sat", "the cat sat down")
    assert out[2].startswith("Not the same words")
    assert {verdict for _, verdict in table(out).values()} == {"tells them apart: other words"}
    assert next(line for line in out if line.startswith("down")).split()[1:] == ["-"] * 6


def test_no_word_in_common(run):
    code, out, _ = run("compare", "dog", "cat")
    assert code == 0
    assert [line.split("  ")[-1] for line in out if line.startswith("rotary")] == [
        "no word in common"
    ]


def test_raw_positions_drown_words(run):
    words = [f"w{i}" for i in range(300)]
    swapped = words.copy()
    swapped[100], swapped[200] = words[200], words[100]
    _, out, _ = run("compare", " ".join(words), " ".join(swapped))
    seen = table(out)
    assert float(seen["raw"][0][0]) > 0
    assert seen["raw"][1] == "cannot: position drowns the words"
    assert seen["sinusoidal"][1] == "tells them apart"
    assert out[-1] == "and 276 more; --csv prints them all"


def test_emoji_keep_the_columns(run):
    _, out, _ = run("compare", "🐕 bit 人", "人 bit 🐕")
    labels = [line[:4] for line in out[-3:]]
    assert [label.split()[0] for label in labels] == ["🐕", "bit", "人"]
    assert [len(line) for line in out[-3:]] == [68, 69, 68]  # a wide character takes two columns


def test_nothing_drives_the_terminal(run):
    _, out, _ = run("compare", "\x1b[2J dog", "dog \x1b[2J")
    assert "\x1b" not in "".join(out)
    assert out[0] == r"1: \x1b [ 2j dog"


# --- compare: the numbers -------------------------------------------------------------------------


def embedded(words, dim, seed):
    rows = [np.random.default_rng([seed, *word.encode()]).normal(size=dim) for word in words]
    return np.array(rows)


def outputs(scheme, E, Wq, Wk, Wv):
    """One layer of attention in the plain formulas of the reference."""
    n, dim = E.shape
    if scheme == "rotary":
        q, k = reference.rope(E @ Wq), reference.rope(E @ Wk)
        return E, reference.softmax(q @ k.T / np.sqrt(dim)) @ (E @ Wv)
    if scheme == "ALiBi":
        distance = np.abs(np.arange(n)[:, None] - np.arange(n))
        return E, reference.attend(E, Wq, Wk, Wv, bias=-distance / 2)
    if scheme != "none":
        name = scheme if scheme == "sinusoidal" else f"{scheme}_positions"
        E = E + getattr(reference, name)(n, dim)
    return E, reference.attend(E, Wq, Wk, Wv)


@pytest.mark.parametrize(("dim", "seed"), [(64, 0), (16, 7)])
def test_numbers_follow_the_formulas(dim, seed):
    first, second = DOG.split(), "a man and the dog".split()
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0, dim**-0.5, (dim, dim)) for _ in range(3)]
    seen = _compare.look(first, second, dim, seed)
    assert [s.scheme for s in seen] == SCHEMES
    for s in seen:
        x, out_x = outputs(s.scheme, embedded(first, dim, seed), *weights)
        y, out_y = outputs(s.scheme, embedded(second, dim, seed), *weights)
        pairs = [("the", 0, 3), ("dog", 1, 4), ("bit", 2, None), ("the", 3, None), ("man", 4, 1)]
        pairs += [("a", None, 0), ("and", None, 2)]
        assert [w[:3] for w in s.words] == pairs
        for _, i, j, gap in s.words:
            right = np.nan if None in (i, j) else np.abs(out_x[i] - out_y[j]).max()
            assert gap == pytest.approx(right, rel=1e-9, nan_ok=True)
        assert s.input_gap == pytest.approx(posenc.input_gap(x, y), rel=1e-9)


words_strategy = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=9)


@untimed
@given(words_strategy.flatmap(lambda w: st.tuples(st.just(w), st.permutations(w))))
def test_order_is_invisible_without_an_encoding(pair):
    first, second = pair
    none, raw, normalized, sinusoidal, rotary, alibi = _compare.look(first, list(second), 16, 3)
    assert none.input_gap == rotary.input_gap == alibi.input_gap == 0
    assert not none.apart
    moved = first != list(second)
    for s in (raw, normalized, sinusoidal):
        assert (s.input_gap > 0) is moved
    assert sinusoidal.apart is moved
    if first == list(second)[::-1]:
        assert not alibi.apart


def test_repeated_words_meet_the_nearest():
    rng = np.random.default_rng(0)
    first = list("abacaab")
    second = list(rng.permutation(first))
    for s in _compare.look(first, second, 16, 0):
        assert sorted(w.second for w in s.words) == list(range(7))  # every place is used once
        assert all(first[w.first] == second[w.second] == w.word for w in s.words)
    none = _compare.look(first, second, 16, 0)[0]
    assert [w.second for w in none.words if w.word == "a"] == [
        i for i, w in enumerate(second) if w == "a"
    ]


@pytest.mark.parametrize("sentence", ["a b a a b", "the dog bit the man the dog", "a a a b"])
def test_repeated_words_in_the_mirror(run, sentence):
    """Paired in order, "a" with "a (2)", the mirror image would seem to make a difference."""
    _, out, _ = run("compare", sentence, " ".join(sentence.split()[::-1]))
    seen = table(out)
    assert seen["ALiBi"][0][:2] == ("0.000", "0.000")
    assert seen["ALiBi"][1] == "cannot tell mirror images apart"
    assert seen["rotary"][1].startswith("tells")


def test_csv_holds_what_is_printed(capsys):
    assert main(["compare", DOG, "the man sat", "--csv"]) == 0
    found = rows(capsys.readouterr().out)
    assert [r["scheme"] for r in found[::6]] == SCHEMES
    assert [(r["word"], r["place_1"], r["place_2"]) for r in found[:6]] == [
        ("the", "0", "0"),
        ("dog", "1", ""),
        ("bit", "2", ""),
        ("the", "3", ""),
        ("man", "4", "1"),
        ("sat", "", "2"),
    ]
    assert main(["compare", DOG, "the man sat"]) == 0
    printed = table(capsys.readouterr().out.splitlines())
    for r in found:
        numbers, verdict = printed[r["scheme"]]
        assert r["verdict"] == verdict
        exact = (r["input_gap"], r["output_gap"], r["largest"])
        assert [f"{float(x):.3f}" for x in exact] == list(numbers)
        partners = r["place_1"] != "" and r["place_2"] != ""
        assert (r["word_gap"] != "") is partners
    assert {r["word"] for r in found} == {"the", "dog", "bit", "man", "sat"}


def test_seed_and_dim_matter(run):
    default = run("compare", DOG, MAN)
    assert run("compare", DOG, MAN, "--seed", "0", "--dim", "64") == default
    assert run("compare", DOG, MAN, "--seed", "1") != default
    assert run("compare", DOG, MAN, "--dim", "32") != default


# --- compare: where sentences come from -----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The dog's bite: 2 cm!", ["the", "dog's", "bite", ":", "2", "cm", "!"]),
        ("Don\u2019t — DON'T", ["don't", "—", "don't"]),
        ("'quoted' snake_case", ["'", "quoted", "'", "snake_case"]),
        ("É e\u0301", ["é", "é"]),
        ("हिन्दी, ไทย", ["हिन्दी", ",", "ไทย"]),
        ("🐕🐕 3.5", ["🐕", "🐕", "3", ".", "5"]),
        (" \t\n\u3000", []),
    ],
)
def test_tokens(text, tokens):
    assert _compare._tokens(text) == tokens


@untimed
@given(st.text())
def test_tokens_lose_nothing_but_white_space(text):
    folded = _compare.unicodedata.normalize("NFC", text.casefold()).replace("\u2019", "'")
    assert "".join(_compare._tokens(text)) == "".join(folded.split())


def test_files(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("first.txt").write_text("\ufeffthe dog\nbit the man\n", encoding="utf-8")
    Path("dog").mkdir()
    code, out, _ = run("compare", "first.txt", "dog")  # a folder is not a file: this is the word
    assert (code, out[:2]) == (0, ["1: the dog bit the man", "2: dog"])


def test_standard_input():
    result = process("compare", "-", "-", input=f"{DOG}\n{MAN}\n")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == process("compare", DOG, MAN).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "", "dog"], "first sentence: must have from 1 to 1000 words, got 0"),
        (["compare", "dog", " \n"], "second sentence: must have from 1 to 1000 words, got 0"),
        (["compare", "dog", "w " * 1001], "second sentence: must have from 1 to 1000 words, got 1"),
        (["compare", "dog", "w" * (2**20 + 1)], "must have at most 1048576 characters, got more"),
        (["compare", "dog", "bytes.txt"], "second sentence, file 'bytes.txt': must be text in UTF"),
        (["compare", "dog", "empty.txt"], "file 'empty.txt': must have from 1 to 1000 words, got"),
        (["compare", "dog"], "the following arguments are required: SENTENCE"),
        (["compare", "a b", "b a", "--dim", "7"], "--dim: must be even and from 2 to 4096, got 7"),
        (["compare", "a b", "b a", "--dim", "0"], "--dim: must be even and from 2 to 4096, got 0"),
        (["compare", "a b", "b a", "--dim", "6.0"], "--dim: must be an integer, got '6.0'"),
        (["compare", "a b", "b a", "--seed", "-1"], "--seed: must be at least 0, got -1"),
        (["compare", "a", "b", "c\nd"], "unrecognized arguments: c d"),
        (["compose"], "invalid choice: 'compose'"),
        (["config", "list"], "posenc config: config: list must hold a dictionary, got list of 2"),
        (["config", "null"], "posenc config: config: null must hold a dictionary, got None"),
        (["config", "word"], "posenc config: config: word must hold a dictionary, got 'llama'"),
        (["config", "empty.txt"], "posenc config: config: empty.txt is not valid JSON"),
        (["config", "bytes.txt"], "posenc config: config: bytes.txt is not valid JSON"),
        (["config", "nowhere"], "posenc config: nowhere: No such file or directory"),
        (["config", "."], "posenc config: config.json: No such file or directory"),
        (["config", "a\0b"], "posenc config: config: must be a path that a file can have"),
        (
            ["config", "list", "--layer", "-1"],
            "--layer: must be an integer of at least 0, got '-1'",
        ),
    ],
)
def test_bad_input_is_one_line(run, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    Path("bytes.txt").write_bytes(b"\xff\xfe\x00")
    Path("empty.txt").write_bytes(b"")
    Path("list").write_text("[1, 2]")
    Path("null").write_text("null")
    Path("word").write_text('"llama"')
    code, out, err = run(*words)
    assert (code, out, len(err)) == (2, [], 1)
    assert err[0].startswith("posenc") and message in err[0]


def test_unreadable_file(run, monkeypatch, tmp_path):
    file = tmp_path / "f"
    file.write_text("dog")

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    code, _, err = run("compare", str(file), "dog")
    monkeypatch.undo()
    assert code == 2
    assert err == [
        f"posenc compare: first sentence, file '{file}': cannot be read: Permission denied"
    ]


# --- the program ----------------------------------------------------------------------------------


def test_a_process_reports_bad_input_in_one_line():
    result = process("compare", DOG, MAN, "--dim", "7")
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1 and "Traceback" not in result.stderr


def test_a_file_of_the_wrong_kind_is_no_traceback(run, monkeypatch):
    def refuse(*args):
        raise TypeError("posenc config: of another kind,\ngot this")

    monkeypatch.setattr("posenc.__main__.describe", refuse)
    assert run("config", "f") == (2, [], ["posenc config: of another kind, got this"])


def test_an_unknown_instruction_set_is_told_the_known_ones():
    result = process("info", env={**os.environ, "POSENC_SIMD": "bogus"})
    assert "ImportError: POSENC_SIMD must be " in result.stderr
    for isa in posenc.cpu_info()["available"]:
        assert isa in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_any_terminal(encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    result = process("compare", "🐕 bites", "bites 🐕", env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert ("🐕" if encoding == "utf-8" else "\\U0001f415") in result.stdout


def test_words_that_are_no_text():
    result = subprocess.run(
        [sys.executable.encode(), b"-m", b"posenc", b"compare", b"\xff a", b"a \xff"],
        cwd=ROOT,
        capture_output=True,
        timeout=120,
    )
    assert (result.returncode, result.stderr) == (0, b"")


def test_a_closed_pipe_is_no_error():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "posenc", "demo"]
    result = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, timeout=120)
    os.close(write)
    assert (result.returncode, result.stderr) == (141, b"")


def test_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "posenc", "demo"]
        result = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, timeout=120)
    assert result.returncode == 2
    assert result.stderr.startswith(b"posenc: cannot write: ") and result.stderr.count(b"\n") == 1


def test_without_a_command_it_explains_itself(run):
    code, out, err = run()
    assert (code, err) == (0, [])
    text = "\n".join(out)
    assert all(name in text for name in ("compare", "demo", "info"))


@pytest.mark.parametrize("words", [["--help"], ["compare", "--help"], ["--version"]])
def test_help(capsys, words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert posenc.__version__ in out if words == ["--version"] else "usage: posenc" in out


# --- demo and info --------------------------------------------------------------------------------

# The course's own numbers.
DEMO = """\
output of token 3 at place 3    0.11995  0.72435  0.87476  0.50450
output of token 3 at place 0    0.11995  0.72435  0.87476  0.50450
input gap without an encoding      0.000
(E[order] + PE)   largest difference 5.97121
pair  0        6.3 tokens a turn: adjacent tokens
pair  8       62.8 tokens a turn: nearby phrases
pair 20     1986.9 tokens a turn: whole document
pair 31    47117.2 tokens a turn: whole document
position  1   0.8415  0.5403  0.6816  0.7318  0.5332  0.8460
position 50  -0.2624  0.9650 -0.2030  0.9792  0.1566 -0.9877
5.6569 to 5.6569
  0  1.0000
  1  0.9662
  2  0.8845
  5  0.7345
 10  0.6579
 25  0.6292
 50  0.4898
100  0.5586
likeness 0.9662
likeness 0.7345
likeness 0.5900"""


@pytest.fixture(scope="module")
def demo():
    return process("demo").stdout


@pytest.mark.parametrize("line", DEMO.splitlines())
def test_demo(demo, line):
    assert line in demo


def test_demo_shows_the_trap(demo):
    """Shuffling the sum only moves the outputs: a difference of rounding, next to 5.97121."""
    found = re.search(r"\(E \+ PE\)\[order\]   largest difference (\S+)", demo)
    assert 0 <= float(found[1]) < 1e-13
    assert float(re.search(r"input gap with the sinusoidal one  (\S+)", demo)[1]) > 0
    assert all(float(gap) < 1e-14 for gap in re.findall(r"M_k PE\(p\): (\S+)", demo))
    assert all(float(spread) < 1e-15 for spread in re.findall(r"spread (\S+)", demo))
    assert max(map(len, demo.splitlines())) <= 100


def test_info(run):
    code, out, err = run("info")
    assert (code, err) == (0, [])
    facts = dict(line.split(maxsplit=1) for line in out)
    assert facts["posenc"] == posenc.__version__
    assert facts["numpy"] == np.__version__
    assert facts["kernels"].split()[0] == posenc.cpu_info()["isa"]
    assert int(facts["threads"]) == posenc.get_num_threads()
