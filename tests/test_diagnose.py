"""posenc.diagnose: the distance between bags of vectors, and the likeness of positions."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import posenc
from posenc import reference as ref
from posenc.diagnose import input_gap, similarity

EPS = 2.0**-52
untimed = settings(deadline=None, max_examples=200)
finite = st.floats(allow_nan=False, allow_infinity=False)
whole = st.integers(-(2**52), 2**52)  # differences are exact in float64, their sums are not


def bags(elements=finite):
    return st.integers(1, 3).flatmap(
        lambda d: hnp.arrays(
            np.float64, st.tuples(st.integers(1, 5), st.just(d)), elements=elements
        )
    )


def two_bags(elements=finite):
    shapes = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
    return shapes.flatmap(
        lambda s: st.tuples(
            hnp.arrays(np.float64, (s[0], s[2]), elements=elements),
            hnp.arrays(np.float64, (s[1], s[2]), elements=elements),
        )
    )


def shares(a):
    """How much of the bag each row is: what the gap must tell apart, by another road."""
    rows = [tuple(row) for row in (a + 0.0).tolist()]
    return {row: Fraction(rows.count(row), len(rows)) for row in rows}


# --- input_gap ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "gap"),
    [
        ([[0.0, 0.0]], [[3.0, 4.0]], 10.0),
        ([[0.0]], [[0.0], [1.0]], 0.5),  # 2 * 1/2 - 0 - 1/2
        ([[0.0], [0.0], [1.0]], [[0.0], [1.0], [1.0]], 2 / 9),  # 2 * 5/9 - 4/9 - 4/9
        ([[1], [2]], [[2], [1]], 0.0),
        ([[1.0]], [[1.0], [1.0], [1.0]], 0.0),  # one mixture
        ([[-0.0]], [[0.0]], 0.0),
        (np.zeros((2, 0)), np.zeros((3, 0)), 0.0),
    ],
)
def test_known_gaps(a, b, gap):
    assert input_gap(a, b) == gap


@untimed
@given(bags(), st.randoms(use_true_random=False))
def test_order_does_not_matter(a, random):
    order = list(range(len(a)))
    random.shuffle(order)
    assert input_gap(a, a[order]) == 0.0
    other = a[:1] * 0.5 + 1.0
    assert input_gap(a, other) == input_gap(a[order], other)


@untimed
@given(two_bags())
def test_zero_only_for_the_same_shares(pair):
    a, b = pair
    gap = input_gap(a, b)
    assert (gap == 0) == (shares(a) == shares(b))
    assert gap >= 0
    assert gap == input_gap(b, a)


@untimed
@given(bags(), st.integers(0, 4), st.integers(0, 2), st.sampled_from([-np.inf, np.inf]))
def test_the_last_bit_is_seen(a, row, column, toward):
    row, column = row % a.shape[0], column % a.shape[1]
    b = a.copy()
    with np.errstate(over="ignore"):
        b[row, column] = np.nextafter(b[row, column], toward)
    assume(np.isfinite(b).all() and shares(a) != shares(b))
    assert input_gap(a, b) > 0


@untimed
@given(two_bags(st.floats(-1e6, 1e6)))
def test_gap_is_the_energy_distance(pair):
    a, b = pair

    def mean_distance(x, y):
        return mp.fsum(
            mp.norm([mp.mpf(s) - mp.mpf(t) for s, t in zip(p, q, strict=True)])
            for p in x.tolist()
            for q in y.tolist()
        ) / (len(x) * len(y))

    with mp.workdps(60):
        terms = mean_distance(a, b), mean_distance(a, a), mean_distance(b, b)
        right = 2 * terms[0] - terms[1] - terms[2]
        # each distance is off by a few ulp, and nothing else is
        assert abs(input_gap(a, b) - right) <= 16 * EPS * sum(terms) + 1e-320


@untimed
@given(st.lists(whole, min_size=1, max_size=6), st.lists(whole, min_size=1, max_size=6))
def test_gap_of_whole_numbers_is_correctly_rounded(a, b):
    def mean_distance(x, y):
        return Fraction(sum(abs(s - t) for s in x for t in y), len(x) * len(y))

    right = 2 * mean_distance(a, b) - mean_distance(a, a) - mean_distance(b, b)
    assert input_gap(np.array([a]).T, np.array([b]).T) == float(right)


@untimed
@given(two_bags(st.floats(-1e3, 1e3)), st.integers(-20, 20))
def test_gap_has_the_unit_of_the_vectors(pair, exponent):
    a, b = (np.round(x, 6) for x in pair)
    assert input_gap(np.ldexp(a, exponent), np.ldexp(b, exponent)) == np.ldexp(
        input_gap(a, b), exponent
    )


def test_huge_and_tiny():
    assert input_gap([[1e308]], [[-1e308]]) == np.inf
    assert input_gap([[1e307]], [[0.0]]) == pytest.approx(2e307, rel=4 * EPS)
    assert input_gap([[5e-324]], [[0.0]]) == 1e-323
    assert input_gap([[1.0, 1e-200]], [[1.0, 2e-200]]) == pytest.approx(2e-200, rel=4 * EPS)
    big = np.full((50, 4), 1e10)
    moved = big.copy()
    moved[0, 0] = np.nextafter(1e10, 0)
    assert 0 < input_gap(big, moved) < 1e-5


def test_the_dog_bit_the_man():
    words = "the dog bit the man".split()
    rng = np.random.default_rng(0)
    vocabulary = {word: rng.normal(size=16) for word in sorted(set(words))}
    said = np.array([vocabulary[word] for word in words])
    swapped = np.array([vocabulary[word] for word in "the man bit the dog".split()])
    assert input_gap(said, swapped) == 0.0
    pe = ref.sinusoidal(5, 16)
    assert input_gap(said + pe, swapped + pe) > 0.01
    # one token more or less is another bag; a repeated one counts as often as it stands there
    assert input_gap(said, said[:4]) > 0 and input_gap(said, said[1:]) > 0


@pytest.mark.parametrize(
    ("a", "b", "error", "message"),
    [
        ([1.0], [[1.0]], ValueError, "a: must have two axes, got 1"),
        ([[1.0]], [[[1.0]]], ValueError, "b: must have two axes, got 3"),
        ([[1.0]], [[1.0, 2.0]], ValueError, "b: must have 1 columns, as a has, got 2"),
        (np.zeros((0, 2)), [[1.0, 2.0]], ValueError, "a: must have at least one row, got 0"),
        ([[1.0]], np.zeros((0, 1)), ValueError, "b: must have at least one row, got 0"),
        ([[np.nan]], [[1.0]], ValueError, "a: must be finite, got nan"),
        ([[1.0]], [[-np.inf]], ValueError, "b: must be finite, got -inf"),
        ([["a"]], [[1.0]], TypeError, "a: must be an array of integers or floats, got <U1"),
        ([[1.0]], [[1j]], TypeError, "b: must be an array of integers or floats, got complex128"),
        ([[True]], [[1.0]], TypeError, "a: must be an array of integers or floats, got bool"),
        (None, [[1.0]], TypeError, "a: must be an array of integers or floats, got NoneType"),
    ],
)
def test_input_gap_errors(a, b, error, message):
    with pytest.raises(error) as caught:
        input_gap(a, b)
    assert str(caught.value) == f"input_gap: {message}"


# --- similarity -----------------------------------------------------------------------------------


def test_likeness_of_the_first_position():
    got = similarity(ref.sinusoidal(128, 64), 0)[[0, 1, 2, 5, 10, 25, 50, 100]]
    right = [1, 0.9662, 0.8845, 0.7345, 0.6579, 0.6292, 0.4898, 0.5586]
    np.testing.assert_allclose(got, right, rtol=0, atol=6e-5)
    assert got[6] < got[7]  # a trend with ripples


@pytest.mark.parametrize("spot", [0, 12, 40, 63])
def test_the_peak_travels_with_the_spot(spot):
    likeness = similarity(ref.sinusoidal(64, 64), spot)
    assert likeness.shape == (64,) and likeness.argmax() == spot
    near = likeness[max(spot - 3, 0) : spot + 4]
    rising, falling = near[: min(spot, 3) + 1], near[min(spot, 3) :]
    assert (np.diff(rising) > 0).all() and (np.diff(falling) < 0).all()


@untimed
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(0, 4)), elements=finite),
    st.data(),
)
def test_similarity_is_the_cosine(table, data):
    position = data.draw(st.integers(0, len(table) - 1))
    got = similarity(table, position)
    with mp.workdps(60):
        rows = [[mp.mpf(x) for x in row] for row in table.tolist()]
        norms = [mp.sqrt(mp.fdot(row, row)) for row in rows]
        for cosine, row, norm in zip(got, rows, norms, strict=True):
            product = norm * norms[position]
            right = mp.fdot(row, rows[position]) / product if product else 0
            assert abs(cosine - right) <= (table.shape[1] + 4) * EPS
    assert (np.abs(got) <= 1).all()


def test_a_row_of_zeros_is_like_nothing():
    raw = ref.raw_positions(4, 3)
    assert similarity(raw, 0).tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(similarity(raw, 2), [0, 1, 1, 1], rtol=4 * EPS)


@pytest.mark.parametrize(
    ("table", "position", "error", "message"),
    [
        (np.ones((4, 2)), 4, IndexError, "position: must be one of the table's 4 rows, got 4"),
        (np.ones((4, 2)), -1, IndexError, "position: must be one of the table's 4 rows, got -1"),
        (np.ones((0, 2)), 0, IndexError, "position: must be one of the table's 0 rows, got 0"),
        (np.ones((4, 2)), 1.0, TypeError, "position: must be an integer, got float"),
        (np.ones((4, 2)), True, TypeError, "position: must be an integer, got bool"),
        (np.ones(4), 0, ValueError, "table: must have two axes, got 1"),
        ([[np.inf, 1.0]], 0, ValueError, "table: must be finite, got inf"),
        ([["x"]], 0, TypeError, "table: must be an array of integers or floats, got <U1"),
    ],
)
def test_similarity_errors(table, position, error, message):
    with pytest.raises(error) as caught:
        similarity(table, position)
    assert str(caught.value) == f"similarity: {message}"


def test_public_names():
    assert posenc.input_gap is input_gap
    assert posenc.similarity is similarity
