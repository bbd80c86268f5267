"""Positions of packed sequences: by counting, and through rope one sequence at a time."""

import effort
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc import positions, positions_from_lengths, rope, rope_plan

lengths = st.lists(st.integers(0, 9), max_size=12)


@given(lengths)
def test_counts_from_zero_in_every_sequence(lens):
    got = positions_from_lengths(np.cumsum([0, *lens]))
    assert got.dtype == np.int64
    assert got.tolist() == [p for n in lens for p in range(n)]


@given(lengths, st.integers(1, 9))
def test_blocks(lens, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(positions, "_BLOCK", block)
        got = positions_from_lengths(np.cumsum([0, *lens]))
    assert got.tolist() == [p for n in lens for p in range(n)]


@pytest.mark.parametrize("at", [1, 3, 4, 5, 8, 9])
def test_a_fall_in_any_block(at, monkeypatch):
    monkeypatch.setattr(positions, "_BLOCK", 4)
    starts = np.arange(0, 100, 10)
    starts[at:] -= 11
    message = f"must not decrease, got {starts[at]} after {starts[at - 1]}$"
    with pytest.raises(ValueError, match=f"^positions_from_lengths: cu_seqlens: {message}"):
        positions_from_lengths(starts)


@pytest.mark.parametrize("lens", [1, 3, 1 << 21, 0], ids=str)
def test_large_batches_take_no_memory_and_can_be_interrupted(lens):
    tokens = 1 << 22
    starts = np.arange(0, tokens + 1, lens) if lens else np.repeat([0, tokens], tokens)
    starts[-1] = tokens

    def call():
        positions_from_lengths(starts)

    assert effort.peak(call) < 8 * tokens + (1 << 20)
    assert effort.lines(call) > 256


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", ">i4", "u8", "i8"])
def test_any_integers(dtype):
    starts = np.array([0, 0, 2, 2, 5, 127, 127], dtype)
    right = [0, 1, 0, 1, 2, *range(122)]
    before = starts.copy()
    assert positions_from_lengths(starts).tolist() == right
    assert positions_from_lengths(np.repeat(starts, 2)[::2]).tolist() == right
    assert (starts == before).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_packed_tokens_turn_as_alone(layout, dtype):
    lens = [1, 300, 0, 65, 2, 128]
    starts = np.cumsum([0, *lens])
    x = np.random.default_rng(4).standard_normal((starts[-1], 3, 16)).astype(dtype)
    plan = rope_plan(16, layout=layout)
    packed = rope(x, positions_from_lengths(starts), plan=plan, seq_axis=0)
    alone = [rope(x[a:b], plan=plan, seq_axis=0) for a, b in zip(starts, starts[1:], strict=False)]
    assert packed.tobytes() == np.concatenate(alone).tobytes()
    assert packed.tobytes() != rope(x, plan=plan, seq_axis=0).tobytes()


@pytest.mark.parametrize(
    ("starts", "error", "message"),
    [
        ([0, 3, 2], ValueError, "must not decrease, got 2 after 3"),
        (np.array([0, 200, 3], np.uint8), ValueError, "must not decrease, got 3 after 200"),
        ([1, 3], ValueError, "must start at 0, got 1"),
        ([-1, 0], ValueError, "must start at 0, got -1"),
        ([], ValueError, "must have at least one element, got 0"),
        (5, ValueError, "must have one axis, got 0"),
        ([[0, 1]], ValueError, "must have one axis, got 2"),
        ([0.0, 3.0], TypeError, "must be an array of integers, got float64"),
        ([False, True], TypeError, "must be an array of integers, got bool"),
        ("03", TypeError, "must be an array of integers, got"),
        (None, TypeError, "must be an array of integers, got"),
        ([0, 2**100], TypeError, "must be an array of integers, got"),
    ],
)
def test_refused(starts, error, message):
    with pytest.raises(error, match=f"^positions_from_lengths: cu_seqlens: {message}"):
        positions_from_lengths(starts)


@pytest.mark.parametrize("tokens", [2**62, 2**63 - 1, 2**64 - 1])
def test_too_many(tokens):
    with pytest.raises(
        MemoryError, match=r"^positions_from_lengths: cu_seqlens: must fit in memory"
    ):
        positions_from_lengths(np.array([0, tokens], np.uint64))
