"""posenc.attention: the course's numbers, multiprecision, and what attention can and cannot see."""

import ml_dtypes
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import posenc
from posenc import reference as ref
from posenc.attention import attend, attention_scores, softmax

EPS = 2.0**-52
untimed = settings(deadline=None, max_examples=100)
THREE = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


def course():
    """Five tokens and three weight matrices, drawn as the course draws them."""
    rng = np.random.default_rng(0)
    return rng, rng.normal(0, 1, (5, 8)), [rng.normal(0, 0.5, (8, 8)) for _ in range(3)]


ORDER = [3, 0, 4, 1, 2]


# --- what the course shows ------------------------------------------------------------------------


def test_weights_of_three_vectors():
    weights = softmax(attention_scores(THREE, THREE))
    right = [
        [0.422319, 0.155362, 0.422319],
        [0.155362, 0.422319, 0.422319],
        [0.211942, 0.211942, 0.576117],
    ]
    np.testing.assert_allclose(weights, right, rtol=0, atol=6e-7)
    swapped = THREE[[1, 0, 2]]
    moved = softmax(attention_scores(swapped, swapped))
    np.testing.assert_array_equal(moved, weights[[1, 0, 2]][:, [1, 0, 2]])


def test_shuffled_tokens_give_shuffled_outputs():
    _, E, weights = course()
    before, after = attend(E, *weights), attend(E[ORDER], *weights)
    np.testing.assert_allclose(before[3, :4], [0.11995, 0.72435, 0.87476, 0.5045], atol=6e-6)
    np.testing.assert_allclose(after[0], before[3], rtol=1e-12)
    np.testing.assert_allclose(after, before[ORDER], rtol=1e-12)


def test_position_restores_order():
    rng, _, _ = course()
    E = rng.normal(0, 1, (5, 64))
    weights = [rng.normal(0, 0.5, (64, 64)) for _ in range(3)]
    pe = ref.sinusoidal(5, 64)
    placed = attend(E + pe, *weights)
    change = np.abs(placed[ORDER] - attend(E[ORDER] + pe, *weights)).max()
    assert abs(change - 5.97121) < 6e-6
    # permuting the sum moves every token together with its position: nothing has changed
    assert np.abs(placed[ORDER] - attend((E + pe)[ORDER], *weights)).max() < 1e-13


@untimed
@given(st.permutations(range(5)), st.integers(0, 2**32))
def test_attention_is_equivariant(order, seed):
    rng = np.random.default_rng(seed)
    E = rng.normal(size=(5, 4))
    weights = rng.normal(size=(3, 4, 4))
    # the order of a sum changes with the tokens': a few roundings of numbers of order 10
    np.testing.assert_allclose(
        attend(E, *weights)[order], attend(E[order], *weights), rtol=1e-11, atol=1e-11
    )


# --- softmax --------------------------------------------------------------------------------------


@untimed
@given(st.lists(st.floats(-700, 700), min_size=1, max_size=6))
def test_softmax_is_the_formula(scores):
    with mp.workdps(40):
        powers = [mp.exp(x) for x in scores]
        right = [float(x / mp.fsum(powers)) for x in powers]
    # exp turns the rounding of score - largest, at most 1400 * EPS / 2, into a relative error
    np.testing.assert_allclose(softmax(scores), right, rtol=710 * EPS, atol=1e-320)


def test_softmax_of_any_axis():
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    for axis in range(-3, 3):
        np.testing.assert_allclose(softmax(x, axis).sum(axis=axis), 1, rtol=4 * EPS)
        np.testing.assert_array_equal(
            softmax(x, axis), np.moveaxis(softmax(np.moveaxis(x, axis, -1).copy()), -1, axis)
        )
    assert softmax(np.zeros((2, 0))).shape == (2, 0)
    assert softmax(np.zeros((0, 3))).shape == (0, 3)


def test_softmax_of_large_scores():
    assert softmax([1e308, 1e308, -1e308]).tolist() == [0.5, 0.5, 0]
    assert softmax([-1000.0, -1000.0]).tolist() == [0.5, 0.5]


def test_softmax_of_nothing_and_of_nan():
    inf, nan = np.inf, np.nan
    got = softmax([[0.0, -inf], [-inf, -inf], [nan, 0.0], [inf, 0.0], [1.0, 1.0]])
    np.testing.assert_array_equal(got, [[1, 0], [0, 0], [nan, nan], [nan, nan], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("given", "returned"),
    [
        (np.float16, np.float16),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.dtype(">f4"), np.float32),
        (np.int8, np.float64),
        (np.uint64, np.float64),
        (ml_dtypes.bfloat16, np.float32),
    ],
)
def test_dtypes(given, returned):
    x = np.arange(6).reshape(2, 3).astype(given)
    right = ref.softmax(np.arange(6).reshape(2, 3))
    got = softmax(x)
    assert got.dtype == returned
    np.testing.assert_allclose(got, right, rtol=4 * np.finfo(returned).eps)
    scores = attention_scores(x, x)
    assert scores.dtype == returned
    np.testing.assert_array_equal(scores, [[5, 14], [14, 50]])
    assert attend(x, *np.ones((3, 3, 2), returned)).dtype == returned


def test_half_precision_is_rounded_once():
    x = np.linspace(-8, 8, 1000).astype(np.float16)
    right = softmax(x.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(softmax(x), right)


# --- scores and attend ----------------------------------------------------------------------------


def test_scores_are_not_scaled():
    q, k = np.random.default_rng(1).normal(size=(2, 3, 2, 4, 6))
    k = k[..., :3, :]
    got = attention_scores(q, k)
    assert got.shape == (3, 2, 4, 3)
    np.testing.assert_allclose(got, np.einsum("...qd,...kd->...qk", q, k), atol=1e-13)
    np.testing.assert_array_equal(attention_scores(q, k[0, 0])[2, 1], q[2, 1] @ k[0, 0].T)


def test_batches_and_heads():
    rng = np.random.default_rng(2)
    E, weights = rng.normal(size=(2, 1, 5, 8)), rng.normal(size=(3, 4, 8, 3))  # 2 texts, 4 heads
    out = attend(E, *weights)
    assert out.shape == (2, 4, 5, 3)
    for b in range(2):
        for h in range(4):
            np.testing.assert_allclose(out[b, h], ref.attend(E[b, 0], *weights[:, h]), rtol=1e-12)


def test_bias_and_mask():
    rng = np.random.default_rng(3)
    E, weights = rng.normal(size=(5, 8)), rng.normal(size=(3, 8, 3))
    bias = ref.alibi_bias(4, 5)
    got = attend(E, *weights, bias=bias)
    assert got.shape == (4, 5, 3)
    for h in range(4):
        np.testing.assert_allclose(got[h], ref.attend(E, *weights, bias=bias[h]), rtol=1e-12)
    past = np.tril(np.ones((5, 5), bool))
    causal = ref.alibi_bias(4, 5, symmetric=False)
    masked = attend(E, *weights, bias=bias, mask=past)
    np.testing.assert_array_equal(masked, attend(E, *weights, bias=causal))
    # what comes later cannot matter
    changed = np.vstack([E[:3], rng.normal(size=(2, 8))])
    np.testing.assert_allclose(
        attend(changed, *weights, mask=past)[:3], attend(E, *weights, mask=past)[:3], rtol=1e-12
    )
    # a key may be masked for all: one row for every query
    keys = np.array([True, False, True, True, False])
    np.testing.assert_allclose(
        attend(E, *weights, mask=keys)[:1], attend(E[keys], *weights)[:1], rtol=1e-12
    )


def test_nothing_to_attend_to():
    _, E, weights = course()
    mask = np.ones((5, 5), bool)
    mask[2] = False
    out = attend(E, *weights, mask=mask)
    assert (out[2] == 0).all()
    np.testing.assert_array_equal(out[[0, 1, 3, 4]], attend(E, *weights)[[0, 1, 3, 4]])


def test_nan_stays_in_its_row():
    q = np.array([[1.0, np.nan], [1.0, 2.0]])
    assert np.isnan(softmax(attention_scores(q, THREE))).tolist() == [[True] * 3, [False] * 3]


@untimed
@given(st.integers(0, 2**32), st.integers(1, 6), st.booleans())
def test_attend_agrees_with_the_reference(seed, n, biased):
    rng = np.random.default_rng(seed)
    E, (Wq, Wk), Wv = rng.normal(size=(n, 4)), rng.normal(size=(2, 4, 3)), rng.normal(size=(4, 2))
    options = {}
    if biased:
        options = {"bias": rng.normal(size=(n, n)), "mask": rng.random((n, n)) < 0.5}
        options["mask"] |= np.eye(n, dtype=bool)
    np.testing.assert_allclose(
        attend(E, Wq, Wk, Wv, **options), ref.attend(E, Wq, Wk, Wv, **options), rtol=0, atol=1e-13
    )


# --- errors ---------------------------------------------------------------------------------------

E, W = np.ones((5, 8)), np.ones((8, 3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: softmax(1.0),
            ValueError,
            "softmax: axis: must be an axis of x, which has 0, got -1",
        ),
        (lambda: softmax(THREE, 2), ValueError, "softmax: axis: must be an axis of x, which has 2"),
        (lambda: softmax(THREE, 1.0), TypeError, "softmax: axis: must be an integer, got float"),
        (lambda: softmax([1j]), TypeError, "softmax: x: must be an array of integers or floats"),
        (lambda: softmax([True]), TypeError, "softmax: x: must be an array of integers or floats"),
        (lambda: softmax([None]), TypeError, "softmax: x: must be an array of integers or floats"),
        (lambda: softmax([[1], [1, 2]]), ValueError, "softmax: x: must be an array of integers or"),
        (lambda: attention_scores([1.0], THREE), ValueError, "attention_scores: q: must have at l"),
        (
            lambda: attention_scores(THREE, E),
            ValueError,
            "attention_scores: k: last axis must be 2,",
        ),
        (
            lambda: attention_scores(np.ones((2, 3, 4)), np.ones((3, 3, 4))),
            ValueError,
            "attention_scores: k: leading axes must broadcast against (2,) of q, got (3,)",
        ),
        (
            lambda: attend(E[0], W, W, W),
            ValueError,
            "attend: E: must have at least two axes, got 1",
        ),
        (
            lambda: attend(E, W[1:], W, W),
            ValueError,
            "attend: Wq: must have 8 rows, the width of E",
        ),
        (
            lambda: attend(E, W, W[:, 1:], W),
            ValueError,
            "attend: Wk: must have 3 columns, as Wq has",
        ),
        (
            lambda: attend(E, W, W, W[:2]),
            ValueError,
            "attend: Wv: must have 8 rows, the width of E",
        ),
        (lambda: attend(E, W, W, W.astype(str)), TypeError, "attend: Wv: must be an array of int"),
        (
            lambda: attend(np.ones((2, 5, 8)), np.ones((3, 8, 3)), W, W),
            ValueError,
            "attend: Wq: leading axes must broadcast against (2,) of E, got (3,)",
        ),
        (
            lambda: attend(E, W, W, W, bias=np.ones((5, 4))),
            ValueError,
            "attend: bias: must broadcast against the scores' (5, 5), got (5, 4)",
        ),
        (lambda: attend(E, W, W, W, bias=[1j] * 5), TypeError, "attend: bias: must be an array of"),
        (
            lambda: attend(E, W, W, W, mask=np.zeros((5, 5))),
            TypeError,
            "attend: mask: must be bool (True = may attend), got float64",
        ),
        (
            lambda: attend(E, W, W, W, mask=np.ones((4, 5), bool)),
            ValueError,
            "attend: mask: must broadcast against the scores' (5, 5), got (4, 5)",
        ),
        (
            lambda: attend(E[:1], W, W, W, bias=np.ones((5, 5))),
            ValueError,
            "attend: bias: must broadcast against the scores' (1, 1), got (5, 5)",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_public_names():
    assert posenc.softmax is softmax
    assert posenc.attention_scores is attention_scores
    assert posenc.attend is attend
