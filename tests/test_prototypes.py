"""posenc.prototypes: the textbook's functions by name, against the textbook's own loops."""

import mpmath as mp
import numpy as np
import pytest

import posenc
from posenc.prototypes import (
    attention_scores,
    get_sinusoidal_encoding,
    rotary_embedding,
    sinusoidal_pe,
)

EPS = 2.0**-52


def textbook_table(max_len, d_model):
    """The loop that every tutorial has."""
    table = np.zeros((max_len, d_model))
    for pos in range(max_len):
        for i in range(0, d_model, 2):
            table[pos, i] = np.sin(pos / 10000 ** (i / d_model))
            if i + 1 < d_model:
                table[pos, i + 1] = np.cos(pos / 10000 ** (i / d_model))
    return table


@pytest.mark.parametrize("call", [get_sinusoidal_encoding, sinusoidal_pe])
class TestTable:
    @pytest.mark.parametrize(("max_len", "d_model"), [(512, 64), (100, 512), (128, 64), (9, 7)])
    def test_is_the_textbook_table(self, call, max_len, d_model):
        table = call(max_len, d_model)
        assert table.dtype == np.float64 and table.shape == (max_len, d_model)
        # the loop is off by up to 12 roundings of its angle
        bound = 12 * EPS * np.arange(max_len)[:, np.newaxis] + EPS
        assert (np.abs(table - textbook_table(max_len, d_model)) <= bound).all()

    def test_first_six_columns(self, call):
        table = call(51, 64)[[0, 1, 50], :6]
        right = [
            [0, 1, 0, 1, 0, 1],
            [0.8415, 0.5403, 0.6816, 0.7318, 0.5332, 0.8460],
            [-0.2624, 0.9650, -0.2030, 0.9792, 0.1566, -0.9877],
        ]
        np.testing.assert_allclose(table, right, rtol=0, atol=6e-5)

    def test_is_the_package_s_own(self, call):
        np.testing.assert_array_equal(call(70, 32), posenc.sinusoidal(70, 32))

    def test_empty(self, call):
        assert call(0, 4).shape == (0, 4)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ((-1, 4), ValueError, "max_len: must be at least 0, got -1"),
            ((4.0, 4), TypeError, "max_len: must be an integer, got float"),
            ((True, 4), TypeError, "max_len: must be an integer, got bool"),
            ((np.arange(3), 4), TypeError, "max_len: must be an integer, got ndarray"),
            ((4, 0), ValueError, "d_model: must be at least 1, got 0"),
            ((4, "8"), TypeError, "d_model: must be an integer, got str"),
        ],
    )
    def test_errors(self, call, arguments, error, message):
        with pytest.raises(error) as caught:
            call(*arguments)
        assert str(caught.value) == f"{call.__name__}: {message}"


def test_rotary_embedding_turns_neighbouring_channels():
    x = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]])
    right = [-1.142639663748, 1.922075596544, 2.959850667913, 4.029799501669]
    got = rotary_embedding(x, 2, 4)
    np.testing.assert_allclose(got[1], right, rtol=0, atol=1e-12)
    assert x.tolist() == [[0, 0, 0, 0], [1, 2, 3, 4]]


def test_rotary_embedding_is_the_formula():
    x = np.random.default_rng(0).normal(size=(2, 3, 40, 6))
    got = rotary_embedding(x, 40, 6)
    assert got.dtype == np.float64 and got.shape == x.shape
    for p in (0, 1, 39):
        for i in range(3):
            angle = p * mp.mpf(10000) ** (mp.mpf(-2 * i) / 6)
            a, b = x[1, 2, p, 2 * i : 2 * i + 2]
            turned = a * mp.cos(angle) - b * mp.sin(angle), a * mp.sin(angle) + b * mp.cos(angle)
            error = got[1, 2, p, 2 * i : 2 * i + 2] - np.array([float(t) for t in turned])
            assert np.abs(error).max() <= 4 * EPS * np.hypot(a, b)


def test_rotary_embedding_keeps_norms_and_the_first_row():
    x = np.random.default_rng(1).normal(size=(9, 8))
    got = rotary_embedding(x, 9, 8)
    np.testing.assert_allclose(np.linalg.norm(got, axis=1), np.linalg.norm(x, axis=1), rtol=8 * EPS)
    np.testing.assert_array_equal(got[0], x[0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
def test_rotary_embedding_of_narrow_input_is_float64(dtype):
    x = np.arange(8).reshape(2, 4).astype(dtype)
    got = rotary_embedding(x, 2, 4)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, rotary_embedding(x.astype(np.float64), 2, 4))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.ones((3, 4)), 4, 4), ValueError, "x: last two axes must be (4, 4), got (3, 4)"),
        ((np.ones((3, 4)), 3, 8), ValueError, "x: last two axes must be (3, 8), got (3, 4)"),
        ((np.ones(4), 1, 4), ValueError, "x: last two axes must be (1, 4), got (4,)"),
        ((np.ones((3, 5)), 3, 5), ValueError, "d_model: must be even, got 5"),
        ((np.ones((3, 4)), 3.0, 4), TypeError, "seq_len: must be an integer, got float"),
        ((np.ones((3, 4)), -1, 4), ValueError, "seq_len: must be at least 0, got -1"),
        ((np.ones((3, 4)), 3, None), TypeError, "d_model: must be an integer, got NoneType"),
        ((np.ones((3, 4)) * 1j, 3, 4), TypeError, "x: must be an array of integers or floats, got"),
    ],
)
def test_rotary_embedding_errors(arguments, error, message):
    with pytest.raises(error) as caught:
        rotary_embedding(*arguments)
    assert str(caught.value).startswith(f"rotary_embedding: {message}")


def test_attention_scores_are_weights():
    x = np.array([[1, 0], [0, 1], [1, 1]])
    right = [
        [0.422319, 0.155362, 0.422319],
        [0.155362, 0.422319, 0.422319],
        [0.211942, 0.211942, 0.576117],
    ]
    np.testing.assert_allclose(attention_scores(x), right, rtol=0, atol=6e-7)
    np.testing.assert_array_equal(attention_scores(x, x), attention_scores(x))
    by_hand = np.exp(x @ x[:2].T)
    np.testing.assert_allclose(
        attention_scores(x, x[:2]), by_hand / by_hand.sum(axis=1, keepdims=True), rtol=4 * EPS
    )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1.0, 2.0],), ValueError, "x: must have at least two axes, got 1"),
        (([["a"]],), TypeError, "x: must be an array of integers or floats, got <U1"),
        (([[1.0]], [[1.0, 2.0]]), ValueError, "k: last axis must be 1, as in x, got 2"),
    ],
)
def test_attention_scores_errors(arguments, error, message):
    with pytest.raises(error) as caught:
        attention_scores(*arguments)
    assert str(caught.value) == f"attention_scores: {message}"
