"""posenc.reference against multiprecision, published reports, other libraries and algebra."""

import ast
import inspect
import json
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from conftest import SLOPES
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc import reference as ref

EPS = 2.0**-52
GOLDEN = json.loads((Path(__file__).parent / "data" / "reference.json").read_text())
LAYOUTS = ["interleaved", "half"]
untimed = settings(deadline=None, max_examples=100)


def sine_bound(angle):
    """Largest error of a sine whose angle is a float64 product with a rounded power.

    The exponent -i / steps of a power up to 1e4 is off by EPS/2 of at most ln(1e4) = 9.2, the power
    and the two products by less than an ulp each: in all below 12 EPS of the angle. The sine itself
    adds an ulp.
    """
    return 12 * EPS * np.abs(angle) + EPS


def close(actual, desired, digits=12):
    """Equal to the digits that a published value is given with."""
    np.testing.assert_allclose(actual, desired, rtol=0, atol=0.6 * 10.0**-digits)


def close_to_float32(actual, desired):
    """Other libraries compute in float32: a few roundings of values and angles of order 1."""
    np.testing.assert_allclose(actual, desired, rtol=0, atol=2e-6)


def exact_table(positions, dim, base, layout, shift, scale, cos_first):
    """The definition once more, element by element, with 40 digits."""
    rows = []
    with mp.workdps(40):
        for p in positions:
            pairs = dim // 2 if shift else -(-dim // 2)
            steps = dim // 2 - mp.mpf(shift) if shift else mp.mpf(dim) / 2
            angles = [
                mp.mpf(scale) * mp.mpf(p) * (mp.mpf(base) ** (-i / steps) if steps else 1)
                for i in range(pairs)
            ]
            both = [(mp.cos(a), mp.sin(a)) if cos_first else (mp.sin(a), mp.cos(a)) for a in angles]
            if layout == "interleaved":
                row = [x for pair in both for x in pair]
            else:
                row = [first for first, _ in both] + [second for _, second in both]
            rows.append([float(x) for x in (row + [mp.mpf(0)])[:dim]])
    return np.array(rows)


# --- sinusoidal -----------------------------------------------------------------------------------


@untimed
@given(
    p=st.lists(
        st.one_of(st.integers(-(10**6), 10**6), st.floats(-1e3, 1e3)), min_size=1, max_size=3
    ),
    dim=st.integers(1, 40),
    base=st.floats(2, 1e4),
    layout=st.sampled_from(LAYOUTS),
    shift=st.sampled_from([0.0, 1.0, 0.5, -2.0]),
    scale=st.sampled_from([1.0, 1000.0, -0.25]),
    cos_first=st.booleans(),
)
def test_sinusoidal_is_the_formula(p, dim, base, layout, shift, scale, cos_first):
    steps = dim // 2 - shift
    if shift and (steps < 0 or (steps == 0 and dim // 2 != 1)):
        with pytest.raises(ValueError, match="^sinusoidal: shift: must be below"):
            ref.sinusoidal(p, dim, shift=shift)
        return
    options = {
        "base": base,
        "layout": layout,
        "shift": shift,
        "scale": scale,
        "cos_first": cos_first,
    }
    got = ref.sinusoidal(np.array(p, dtype=float), dim, **options)
    right = exact_table(p, dim, **options)
    bound = sine_bound(scale * np.array(p, dtype=float))[:, np.newaxis]
    assert (np.abs(got - right) <= bound).all()


def test_odd_width():  # the last column is a sine without its cosine
    table = ref.sinusoidal(3, 5)
    close(table[0], [0, 1, 0, 1, 0])
    close(
        table[1],
        [0.841470984808, 0.540302305868, 0.025116222910, 0.999684537915, 0.000630957303],
    )
    close(table[2, -1], 0.001261914354)
    close(ref.sinusoidal([1], 3), [[0.841470984808, 0.540302305868, 0.002154433023]])
    close(ref.sinusoidal([2], 1), [[0.909297426826]])
    assert ref.sinusoidal([2], 1, cos_first=True) == np.cos(2)


def test_a_pair_shares_its_frequency():
    close(ref.sinusoidal(2, 4)[1], [0.841470984808, 0.540302305868, 0.009999833334, 0.999950000417])
    table = ref.sinusoidal(np.arange(0, 10**6, 9973), 64)
    np.testing.assert_allclose(table[:, 0::2] ** 2 + table[:, 1::2] ** 2, 1, rtol=4 * EPS)


def test_layouts_hold_the_same_columns():
    close(
        ref.sinusoidal(2, 4, layout="half")[1],
        [0.841470984808, 0.009999833334, 0.540302305868, 0.999950000417],
    )
    for dim in (6, 7):
        table = ref.sinusoidal(9, dim)
        columns = [*range(0, dim, 2), *range(1, dim, 2)]
        np.testing.assert_array_equal(ref.sinusoidal(9, dim, layout="half"), table[:, columns])


def test_last_frequency_conventions():
    half = {"layout": "half"}
    close(
        ref.sinusoidal([10], 6, **half)[0],
        [-0.544021110889, 0.447670834719, 0.021542680272]
        + [-0.839071529076, 0.894198425263, 0.999767929535],
    )
    close(
        ref.sinusoidal([10], 6, shift=1, **half)[0],
        [-0.544021110889, 0.099833416647, 0.000999999833]
        + [-0.839071529076, 0.995004165278, 0.9999995],
    )
    close(ref.sinusoidal([10], 2, shift=1, **half)[0], [-0.544021110889, -0.839071529076])
    seven = ref.sinusoidal(20, 7, shift=1, **half)
    np.testing.assert_array_equal(seven[:, :6], ref.sinusoidal(20, 6, shift=1, **half))
    assert (seven[:, 6] == 0).all()
    assert (ref.sinusoidal(20, 7, shift=1)[:, 6] == 0).all()


def test_positions_of_any_shape():
    p = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(ref.sinusoidal(p, 4), ref.sinusoidal(6, 4).reshape(2, 3, 4))
    np.testing.assert_array_equal(ref.sinusoidal(np.array(5), 4), ref.sinusoidal(6, 4)[5])
    assert ref.sinusoidal(0, 4).shape == (0, 4)


def test_a_longer_table_begins_like_a_shorter_one():
    np.testing.assert_array_equal(ref.sinusoidal(5001, 64)[:5000], ref.sinusoidal(5000, 64))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("whisper_5x8", lambda: ref.sinusoidal(5, 8, layout="half", shift=1)),
        ("marian_5x8", lambda: ref.sinusoidal(5, 8, layout="half")),
        ("marian_5x7_odd", lambda: ref.sinusoidal(5, 7, layout="half")),
        ("vaswani_formula_f64_5x8", lambda: ref.sinusoidal(5, 8)),
        ("vaswani_formula_f64_5x7", lambda: ref.sinusoidal(5, 7)),
        ("positional_encodings_4x6", lambda: ref.sinusoidal(4, 6)),
        ("positional_encodings_4x7", lambda: ref.sinusoidal(4, 8)[:, :7]),  # it cuts an even width
    ],
)
def test_other_libraries(name, call):
    table = np.array(GOLDEN["sinusoid"][name])
    if "f64" in name:
        assert (np.abs(call() - table) <= 2 * sine_bound(4)).all()  # both sides may be off
    else:
        close_to_float32(call(), table)


def test_fairseq_with_an_odd_width():
    table = np.array(GOLDEN["sinusoid"]["m2m100_fairseq_6x9_pad0"])
    close_to_float32(
        ref.sinusoidal(6, 9, layout="half", shift=1)[1:], table[1:]
    )  # row 0 is padding


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dim=9,", {"shift": 1}),
        ("dim=9,flip=True,shift=0.0", {"cos_first": True}),
        ("dim=9,shift=0.0,scale=1000.0", {"scale": 1000.0}),
        ("dim=9,flip=True,shift=0.0,max_period=1000", {"cos_first": True, "base": 1000.0}),
    ],
)
def test_timesteps(name, options):
    t, table = (np.array(GOLDEN["timestep_f64"][name][key]) for key in ("t", "out"))
    got = ref.sinusoidal(t, 8, layout="half", **options)  # the ninth column is padding
    bound = 2 * sine_bound(options.get("scale", 1.0) * t)[:, np.newaxis]
    assert (np.abs(got - table[:, :8]) <= bound).all()


def test_the_course_table():
    table = ref.sinusoidal(51, 64)[:, :6]
    close(table[1], [0.8415, 0.5403, 0.6816, 0.7318, 0.5332, 0.8460], 4)
    close(table[50], [-0.2624, 0.9650, -0.2030, 0.9792, 0.1566, -0.9877], 4)
    norms = np.linalg.norm(ref.sinusoidal(128, 64), axis=1)
    np.testing.assert_allclose(norms, np.sqrt(32), rtol=4 * EPS)


def test_defined_at_any_length_and_never_the_same_twice():
    table = ref.sinusoidal(20_000, 64)
    assert np.abs(table).max() <= 1
    assert len(np.unique(table, axis=0)) == 20_000


def test_wavelengths():
    tokens = ref.wavelengths(64)
    close(tokens[[0, 8, 20, 31]], [6.3, 62.8, 1986.9, 47117.2], 1)
    assert tokens[0] == 2 * np.pi and (np.diff(tokens) > 0).all() and tokens[-1] < 2e4 * np.pi
    assert ref.wavelengths(5).shape == (3,)
    # low dimensions oscillate fast: count how often each sine changes its sign
    signs = np.sign(ref.sinusoidal(np.arange(0.5, 500), 64)[:, 0::2])
    changes = (np.diff(signs, axis=0) != 0).sum(axis=0)
    assert (np.diff(changes) <= 0).all() and changes[0] > 100 and changes[-1] == 0


@untimed
@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.integers(1, 16), st.sampled_from(LAYOUTS))
def test_an_offset_is_a_rotation(p, k, pairs, layout):
    options = {"layout": layout, "base": 500.0}
    M = ref.offset_rotation(k, 2 * pairs, **options)
    here, there = ref.sinusoidal([p, p + k], 2 * pairs, **options)
    # three angles, each within its bound, and the sum p + k is rounded
    bound = 2 * (sine_bound(p) + sine_bound(k) + sine_bound(p + k))
    assert (np.abs(M @ here - there) <= bound).all()
    np.testing.assert_allclose(M @ M.T, np.eye(2 * pairs), rtol=0, atol=4 * EPS)


def test_likeness_depends_on_the_offset_alone():
    table = ref.sinusoidal(200, 64) / np.sqrt(32)
    for k, likeness in ((1, 0.9662), (5, 0.7345), (20, 0.5900)):
        cosines = (table[:80] * table[k : 80 + k]).sum(axis=1)
        close(cosines, likeness, 4)
        assert cosines.std() < 1e-14


# --- add_sinusoidal and the shapes of positions ---------------------------------------------------


def test_add_sinusoidal():
    x = np.random.default_rng(0).normal(size=(2, 5, 3, 8))
    pe = ref.sinusoidal(20, 8)
    np.testing.assert_array_equal(ref.add_sinusoidal(x), x + pe[:3])
    np.testing.assert_array_equal(ref.add_sinusoidal(x, seq_axis=1), x + pe[:5, np.newaxis])
    np.testing.assert_array_equal(ref.add_sinusoidal(x, offset=7), x + pe[7:10])
    np.testing.assert_array_equal(
        ref.add_sinusoidal(x, offset=[3, 9]), x + np.stack([pe[3:6], pe[9:12]])[:, np.newaxis]
    )
    np.testing.assert_array_equal(ref.add_sinusoidal(x, positions=[4, 0, 4]), x + pe[[4, 0, 4]])
    rows = [[0, 1, 2], [7, 7, 9]]
    np.testing.assert_array_equal(
        ref.add_sinusoidal(x, positions=rows), x + pe[rows][:, np.newaxis]
    )
    each = np.arange(5).reshape(1, 5, 1)
    np.testing.assert_array_equal(ref.add_sinusoidal(x, positions=each), x + pe[:5, np.newaxis])
    for one in (6, np.array(6), [6]):  # all tokens at one place
        np.testing.assert_array_equal(ref.add_sinusoidal(x, positions=one), x + pe[6])
    np.testing.assert_array_equal(ref.add_sinusoidal(x[0, 0, 0], offset=4), x[0, 0, 0] + pe[4])
    np.testing.assert_array_equal(ref.add_sinusoidal(x[0, 0, 0], positions=4), x[0, 0, 0] + pe[4])
    np.testing.assert_array_equal(
        ref.add_sinusoidal(x[0], positions=[[0], [5], [1], [2], [8]]),
        x[0] + pe[[0, 5, 1, 2, 8], np.newaxis],
    )
    half = ref.add_sinusoidal(x, layout="half", base=10.0)
    np.testing.assert_array_equal(half, x + ref.sinusoidal(3, 8, layout="half", base=10.0))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"positions": [0, 1]}, ValueError, "positions: must have shape (3,), (batch, 3) or one"),
        ({"positions": [[0, 1, 2]] * 3}, ValueError, "positions: must have shape (3,)"),
        (
            {"positions": [[0, 1, 2]] * 3, "x": np.zeros((3, 2, 2, 4)), "seq_axis": 0},
            ValueError,
            "positions: must have shape (3,)",
        ),
        (
            {"positions": [[0, 1, 2]], "x": np.zeros((3, 2, 2, 4)), "seq_axis": 0},
            ValueError,
            "positions: must have shape (3,)",
        ),
        ({"positions": [0, 1, np.inf]}, ValueError, "positions: must be finite, got inf"),
        ({"positions": [True] * 3}, TypeError, "positions: must be an array of integers or floats"),
        ({"offset": 0.5}, TypeError, "offset: must be an integer or one for each row, got float64"),
        ({"offset": [1, 2, 3]}, ValueError, "offset: must be one, or one for each row of x"),
        ({"offset": [1, 2], "seq_axis": 0}, ValueError, "offset: must be one, or one for each row"),
        ({"seq_axis": -1}, ValueError, "seq_axis: must be an axis of x, and not its last, got -1"),
        ({"seq_axis": 9}, ValueError, "seq_axis: must be an axis of x"),
        ({"x": 1.0}, ValueError, "x: must have at least one axis, got 0"),
        ({"x": [["a", "b"]]}, TypeError, "x: must be an array of integers or floats, got <U1"),
    ],
)
def test_wrong_tokens(options, error, message):
    for call in (ref.add_sinusoidal, ref.rope):
        arguments = {"x": np.zeros((2, 3, 4)), **options}
        with pytest.raises(error) as caught:
            call(**arguments)
        assert str(caught.value).startswith(f"{call.__name__}: {message}")


# --- rotary ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "row"),
    [
        ("half", [-1.984110648556, 1.959900667497, 2.462377902412, 4.019799668335]),
        ("interleaved", [-1.142639663748, 1.922075596544, 2.959850667913, 4.029799501669]),
    ],
)
def test_rope_layouts(layout, row):
    x = np.array([[1.0, 2.0, 3.0, 4.0]])
    close(ref.rope(x, [1], layout=layout), [row])
    np.testing.assert_array_equal(x, [[1, 2, 3, 4]])


def test_interleaved_is_half_permuted():
    x = np.random.default_rng(1).normal(size=(5, 12))
    order = [*range(0, 12, 2), *range(1, 12, 2)]
    np.testing.assert_array_equal(ref.rope(x)[:, order], ref.rope(x[:, order], layout="half"))


@pytest.mark.parametrize(
    ("layout", "row"),
    [
        ("half", [-1.413352520780, 1.879118066688, -2.828857481741, 4.058191135401]),
        ("interleaved", [-1.272232512720, -1.838864985141, 2.878668100437, 4.088186635603]),
    ],
)
def test_partial_width_has_its_own_frequencies(layout, row):
    got = ref.rope([np.arange(1.0, 9.0)], [3], layout=layout, rotary_dim=4)
    close(got[0, :4], row)
    np.testing.assert_array_equal(got[0, 4:], [5, 6, 7, 8])


@pytest.mark.parametrize("rotary_dim", [33, 10, 0, 7])
def test_wrong_rotary_width(rotary_dim):
    with pytest.raises(ValueError, match=f"^rope: rotary_dim: must be .*, got {rotary_dim}$"):
        ref.rope(np.zeros((2, 8)), rotary_dim=rotary_dim)
    with pytest.raises(ValueError, match="^rope: x: must be even and at most 7, got 7$"):
        ref.rope(np.zeros((2, 7)))


def test_positions_may_be_negative_and_fractional():
    x = [[1.0, 2.0, 3.0, 4.0]] * 2
    close(
        ref.rope(x, [-2, 0.5], layout="half"),
        [
            [2.311745443930, 2.079594680106, -2.157737936467, 3.959202693280],
            [-0.560694053922, 1.979975083385, 3.112173224275, 4.009949958438],
        ],
    )


def test_rope_along_another_axis():
    x = np.random.default_rng(2).normal(size=(2, 3, 4, 8))
    np.testing.assert_array_equal(
        ref.rope(x, seq_axis=1), ref.rope(x.swapaxes(1, 2), seq_axis=2).swapaxes(1, 2)
    )
    assert not np.array_equal(ref.rope(x, seq_axis=1), ref.rope(x, seq_axis=2))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hf_llama_half", {"layout": "half"}),
        ("onnx_ref_opset23_half", {"layout": "half"}),
        ("hf_gptj_interleaved", {}),
        ("onnx_ref_opset23_interleaved", {}),
        ("hf_neox_partial_rotary_dim4", {"layout": "half", "rotary_dim": 4}),
        ("rotary_embedding_torch_interleaved_offset5", {"positions": None, "offset": 5}),
    ],
)
def test_rope_of_other_libraries(name, options):
    x, positions, right = (
        np.array(GOLDEN["rope"][key]) for key in ("input_bhsd", "position_ids", name)
    )
    close_to_float32(ref.rope(x, **{"positions": positions, **options}), right)


vectors = st.lists(st.floats(-1e3, 1e3), min_size=8, max_size=8).map(np.array)


@untimed
@given(vectors, st.floats(-1e6, 1e6), st.sampled_from(LAYOUTS), st.sampled_from([None, 4, 8]))
def test_rope_turns_and_turns_back(x, p, layout, rotary_dim):
    options = {"positions": [p], "layout": layout, "rotary_dim": rotary_dim}
    y = ref.rope([x], **options)
    # Whatever the angle, two turns are a dozen roundings of numbers up to twice the largest; where
    # squares or products underflow there is nothing to compare.
    atol = 16 * EPS * np.abs(x).max() + 1e-300
    np.testing.assert_allclose(np.linalg.norm(y), np.linalg.norm(x), rtol=16 * EPS, atol=1e-150)
    np.testing.assert_allclose(ref.rope(y, **options, inverse=True)[0], x, rtol=0, atol=atol)
    back = ref.rope(y, **{**options, "positions": [-p]})
    np.testing.assert_allclose(back[0], x, rtol=0, atol=atol)


@untimed
@given(vectors, vectors, st.integers(-(10**6), 10**6), st.integers(-1000, 1000))
def test_rope_is_relative(q, k, m, offset):
    turned = ref.rope([q], [m]) @ ref.rope([k], [m + offset]).T
    right = q @ ref.rope([k], [offset])[0]
    scale = np.linalg.norm(q) * np.linalg.norm(k)
    bound = (2 * sine_bound(m) + 2 * sine_bound(m + offset) + 2 * sine_bound(offset)) * scale
    assert abs(turned[0, 0] - right) <= bound + 16 * EPS * scale + 1e-290


def test_position_zero_is_the_identity():
    x = np.random.default_rng(3).normal(size=(4, 6))
    np.testing.assert_array_equal(ref.rope(x, np.zeros(4)), x)


# --- ALiBi ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("heads", "inverse_slopes"), SLOPES)
def test_slopes(heads, inverse_slopes):
    np.testing.assert_array_equal(ref.alibi_slopes(heads), 1 / np.array(inverse_slopes))


def test_slopes_between_powers_of_two():
    twelve, forty = ref.alibi_slopes(12), ref.alibi_slopes(40)
    np.testing.assert_array_equal(twelve[:8], 2.0 ** -np.arange(1, 9))
    close(twelve[8:], [0.707106781187, 0.353553390593, 0.176776695297, 0.088388347648])
    close(forty[:4], [0.840896415254, 0.707106781187, 0.594603557501, 0.5])
    np.testing.assert_allclose(ref.alibi_slopes(8, max_bias=16.0), 4.0 ** -np.arange(1, 9))


@pytest.mark.parametrize("library", ["bloom", "mpt", "x_transformers"])
def test_slopes_of_other_libraries(library):
    for heads, slopes in GOLDEN["alibi_slopes"][library].items():
        rtol = 20 * 2.0**-24  # float32, and a power of up to 20 of a rounded number
        np.testing.assert_allclose(ref.alibi_slopes(int(heads)), slopes, rtol=rtol)


def test_queries_are_the_last_keys():
    np.testing.assert_array_equal(
        ref.alibi_bias([1 / 16], 2, 5)[0],
        [[-0.1875, -0.125, -0.0625, 0, -0.0625], [-0.25, -0.1875, -0.125, -0.0625, 0]],
    )
    np.testing.assert_array_equal(
        ref.alibi_bias(1, 3)[0], -np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]]) / 256
    )
    np.testing.assert_allclose(
        ref.alibi_bias(3, 2, 4), GOLDEN["alibi_bias"]["x_transformers_h3_i2_j4"], rtol=2.0**-22
    )
    # MPT keeps the last row alone: the others differ from it by a constant, which softmax drops
    np.testing.assert_allclose(
        ref.alibi_bias(12, 1, 5)[:, 0], GOLDEN["alibi_bias"]["mpt_h12_len5"], rtol=2.0**-22
    )


def test_causal_bias():
    bias = ref.alibi_bias(4, 3, 5, symmetric=False)
    future = np.triu(np.ones((3, 5), bool), k=3)
    assert (bias[:, future] == -np.inf).all()
    np.testing.assert_array_equal(bias[:, ~future], ref.alibi_bias(4, 3, 5)[:, ~future])
    assert not np.signbit(ref.alibi_bias(2, 3)[:, range(3), range(3)]).any()  # 0, not -0


# --- tables, embeddings, naive schemes ------------------------------------------------------------


TABLE = np.arange(8.0).reshape(4, 2)


def test_lookup():
    np.testing.assert_array_equal(ref.lookup(TABLE, 3), TABLE[:3])
    np.testing.assert_array_equal(ref.lookup(TABLE, [[3], [0]]), TABLE[[[3], [0]]])
    assert ref.lookup(TABLE, []).shape == (0, 2)


@pytest.mark.parametrize(("positions", "got"), [([0, 4], "4"), (5, "4"), ([-1], "-1")])
def test_a_table_ends(positions, got):
    message = f"^lookup: positions: must be one of the table's 4 rows, got {got}"
    with pytest.raises(IndexError, match=message):
        ref.lookup(TABLE, positions)


def test_embed():
    ids = np.array([[1, 3, 0], [2, 2, 1]])
    words = np.random.default_rng(4).normal(size=(4, 6))
    pe = ref.sinusoidal(9, 6)
    np.testing.assert_array_equal(ref.embed(ids, words, scale=2.0), 2 * words[ids])
    np.testing.assert_array_equal(ref.embed(ids, words, encoding="sinusoidal"), words[ids] + pe[:3])
    np.testing.assert_array_equal(
        ref.embed(ids, words, encoding=pe, offset=[1, 4]), words[ids] + pe[[[1, 2, 3], [4, 5, 6]]]
    )
    np.testing.assert_array_equal(ref.embed(3, words, encoding=pe, offset=2), words[3] + pe[2])
    rows = [[0, 0, 1], [0, 1, 2]]
    padded = ref.embed(ids, words, encoding=pe, positions=rows, padding_idx=2)
    right = words[ids] + pe[rows]
    right[1, :2] = 0
    np.testing.assert_array_equal(padded, right)


def test_naive():
    np.testing.assert_array_equal(ref.raw_positions([[5, 2]], 2), [[[5, 5], [2, 2]]])
    np.testing.assert_array_equal(ref.normalized_positions(4, 2)[:, 1], [0, 0.25, 0.5, 0.75])
    np.testing.assert_array_equal(ref.normalized_positions([1, 2], 1, length=4), [[0.25], [0.5]])
    assert ref.normalized_positions(0, 3).shape == (0, 3)


# --- attention ------------------------------------------------------------------------------------


def test_softmax():
    with mp.workdps(30):
        powers = [mp.exp(x) for x in (1, -2, 0.5)]
        right = [float(x / sum(powers)) for x in powers]
    np.testing.assert_allclose(ref.softmax([1, -2, 0.5]), right, rtol=4 * EPS)
    np.testing.assert_allclose(ref.softmax([1001, 998, 1000.5]), right, rtol=4 * EPS)
    np.testing.assert_allclose(ref.softmax(np.ones((2, 5)), axis=0), 0.5)


def test_attend_term_by_term():
    rng = np.random.default_rng(5)
    E, Wq, Wk, Wv = (rng.normal(size=shape) for shape in ((4, 3), (3, 2), (3, 2), (3, 5)))
    bias, mask = rng.normal(size=(4, 4)), np.tril(np.ones((4, 4), bool))
    got = ref.attend(E, Wq, Wk, Wv, bias=bias, mask=mask)
    for i in range(4):
        scores = [
            mp.exp(mp.fdot(E[i] @ Wq, E[j] @ Wk) / mp.sqrt(2) + bias[i, j]) for j in range(i + 1)
        ]
        for c in range(5):
            right = mp.fdot(scores, E[: i + 1] @ Wv[:, c]) / sum(scores)
            assert abs(got[i, c] - right) < 1e-14


# --- the module -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ref.sinusoidal(3, 0), ValueError, "sinusoidal: dim: must be at least 1, got 0"),
        (lambda: ref.sinusoidal(3, 4, base=0), ValueError, "sinusoidal: base: must be finite and"),
        (lambda: ref.sinusoidal(3, 4, base="x"), TypeError, "sinusoidal: base: must be a real"),
        (lambda: ref.sinusoidal(3, 4, base=True), TypeError, "sinusoidal: base: must be a real"),
        (lambda: ref.sinusoidal(3, 4, scale=0.0), ValueError, "sinusoidal: scale: must not be 0"),
        (lambda: ref.sinusoidal(3, 4, scale=10**400), ValueError, "sinusoidal: scale: must be fin"),
        (
            lambda: ref.sinusoidal(3, 4, layout="neox"),
            ValueError,
            'sinusoidal: layout: must be "in',
        ),
        (lambda: ref.sinusoidal(3, 4, layout=1), TypeError, 'sinusoidal: layout: must be "inter'),
        (lambda: ref.sinusoidal(3, 4, shift=2), ValueError, "sinusoidal: shift: must be below 2"),
        (lambda: ref.sinusoidal(3, 4, shift=np.nan), ValueError, "sinusoidal: shift: must be fin"),
        (lambda: ref.sinusoidal(True, 4), TypeError, "sinusoidal: positions: must be an integer"),
        (
            lambda: ref.offset_rotation(1, 5),
            ValueError,
            "offset_rotation: dim: must be even, got 5",
        ),
        (lambda: ref.alibi_slopes(0), ValueError, "alibi_slopes: num_heads: must be at least 1"),
        (lambda: ref.alibi_slopes(8, max_bias=-1), ValueError, "alibi_slopes: max_bias: must be"),
        (
            lambda: ref.alibi_bias(8, 4, 3),
            ValueError,
            "alibi_bias: k_len: must be at least 4, got 3",
        ),
        (lambda: ref.alibi_bias([[1.0]], 4), ValueError, "alibi_bias: num_heads_or_slopes: must"),
        (lambda: ref.lookup([1.0], [0]), ValueError, "lookup: table: must have two axes, got 1"),
        (lambda: ref.lookup(TABLE, [0.5]), TypeError, "lookup: positions: must be integers"),
        (lambda: ref.embed([4], TABLE), IndexError, "embed: token_ids: must be one of the table's"),
        (lambda: ref.embed(0, [1.0]), ValueError, "embed: weight: must have two axes, got 1"),
        (lambda: ref.embed([0], TABLE, encoding="rope"), ValueError, "embed: encoding: must be"),
        (lambda: ref.embed([0], TABLE, encoding=[[1.0]]), ValueError, "embed: encoding: must be 2"),
        (
            lambda: ref.embed([0] * 5, TABLE, encoding=TABLE),
            IndexError,
            "embed: positions: must be",
        ),
        (lambda: ref.normalized_positions(np.array(1), 2), ValueError, "normalized_positions: len"),
        (lambda: ref.attention_scores([1], [[1]]), ValueError, "attention_scores: q: must have at"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_nothing_compiled_is_used():
    imports = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(ref)))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    names = {
        getattr(node, "module", None) or alias.name for node in imports for alias in node.names
    }
    assert names <= {"__future__", "typing", "numpy", "numpy.typing", "_args"}
