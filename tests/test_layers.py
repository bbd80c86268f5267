"""posenc.layers: the course's numbers, states that are saved and loaded, dropout as statistics."""

import copy
import io
import math
import pickle
import re

import ml_dtypes
import numpy as np
import pytest

import posenc
from posenc import (
    LearnedPositionalEmbedding,
    SinusoidalPositionalEncoding,
    TokenAndPositional,
    TokenEmbedding,
    TransformerEmbedding,
    sinusoidal,
)

SCHEMES = ["sinusoidal", "learned", "none", "raw", "normalized"]
DTYPES = [np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
IDS = np.array([[3, 1, 4, 1, 5], [2, 6, 5, 3, 5]])

MAKERS = {
    "token": lambda **kw: TokenEmbedding(9, 6, **kw),
    "sinusoidal": lambda **kw: SinusoidalPositionalEncoding(6, 8, **kw),
    "learned": lambda **kw: LearnedPositionalEmbedding(8, 6, **kw),
    "plain": lambda **kw: TokenAndPositional(9, 6, 8, **kw),
    **{
        f"transformer {scheme}": lambda scheme=scheme, **kw: TransformerEmbedding(
            9, 6, 8, scheme, **kw
        )
        for scheme in SCHEMES
    },
}


@pytest.fixture(params=MAKERS)
def maker(request):
    return MAKERS[request.param]


def x_for(layer):
    """Something to call it with."""
    takes_ids = hasattr(layer, "token") or isinstance(layer, TokenEmbedding)
    return IDS if takes_ids else np.random.default_rng(1).normal(size=(2, 5, 6))


# ---- each layer is its formula ----------------------------------------------------------------


def test_token_embedding():
    layer = TokenEmbedding(50000, 512, dtype=np.float32, rng=0)
    ids = [[101, 7592, 2088, 102]]
    assert layer(ids).shape == (1, 4, 512)
    assert np.array_equal(layer(ids), layer.weight[ids] * np.float32(math.sqrt(512)))
    assert layer.num_parameters() == 50000 * 512
    assert (
        TokenEmbedding(9, 4, scale=1, rng=0)(3).tolist()
        == TokenEmbedding(9, 4, rng=0).weight[3].tolist()
    )
    with pytest.raises(IndexError, match=r"50000 rows\), got 50000 at \(0,\)"):
        layer([50000])


def test_sinusoidal_layer():
    layer = SinusoidalPositionalEncoding(16, max_len=10).eval()
    x = np.random.default_rng(0).normal(size=(2, 10, 16))
    assert np.array_equal(layer(x), x + sinusoidal(10, 16))
    assert np.array_equal(layer(x[:, :4]), x[:, :4] + sinusoidal(4, 16))
    assert np.array_equal(layer(x[0]), layer(x)[0])
    assert layer.num_parameters() == 0 and layer.parameters() == []
    assert list(layer.state_dict()) == ["pe"]
    assert np.array_equal(layer.pe, sinusoidal(10, 16))
    assert SinusoidalPositionalEncoding(4).pe.shape == (5000, 4)


def test_sinusoidal_layer_longer_than_its_buffer():
    """The formula has no end, and the first rows do not change: that of 5000 is that of 5001."""
    x = np.random.default_rng(0).normal(size=(2, 40, 16))
    layer = SinusoidalPositionalEncoding(16, max_len=10).eval()
    assert np.array_equal(layer(x), x + sinusoidal(40, 16))
    ids = np.arange(40) % 9
    layer = TransformerEmbedding(9, 16, max_len=10, rng=0).eval()
    assert np.array_equal(layer(ids), layer.token(ids) + sinusoidal(40, 16))
    assert np.array_equal(sinusoidal(5001, 16)[:5000], SinusoidalPositionalEncoding(16).pe)


def test_the_buffer_is_what_is_added():
    """A loaded table takes effect; it is not decoration."""
    layer = SinusoidalPositionalEncoding(4, max_len=3).eval()
    layer.load_state_dict({"pe": np.full((3, 4), 9.0)})
    assert layer(np.zeros((2, 4))).tolist() == [[9.0] * 4] * 2


def test_learned_layer():
    layer = LearnedPositionalEmbedding(512, 8, rng=0)
    x = np.random.default_rng(0).normal(size=(2, 512, 8))
    assert np.array_equal(layer(x), x + layer.weight)
    assert np.array_equal(layer(x[:, :7]), x[:, :7] + layer.weight[:7])
    assert layer.num_parameters() == 512 * 8
    wanted = "LearnedPositionalEmbedding: x: must be at most 512 tokens long (max_len), got 513"
    with pytest.raises(IndexError, match=f"^{re.escape(wanted)}$"):
        layer(np.zeros((1, 513, 8)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("make", [SinusoidalPositionalEncoding, LearnedPositionalEmbedding])
def test_x_keeps_its_dtype(make, dtype):
    layer = (make(8, 5) if make is SinusoidalPositionalEncoding else make(5, 8, rng=0)).eval()
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(dtype)
    table = next(iter(layer.state_dict().values()))
    y = layer(x)
    assert y.dtype == dtype and np.array_equal(y, x + table.astype(dtype))
    assert np.array_equal(layer(np.ones((5, 8), int)), 1.0 + table)
    swapped = np.ones((5, 8), ">f4")
    assert np.array_equal(layer(swapped), layer(swapped.astype(np.float32)))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_transformer_embedding(scheme, dtype):
    layer = TransformerEmbedding(9, 6, 8, scheme, dtype=dtype, rng=0).eval()
    token, place = layer.token.weight, np.arange(5.0)[:, None]
    table = {
        "sinusoidal": lambda: sinusoidal(5, 6, dtype=dtype),
        "learned": lambda: layer.position.weight[:5],
        "none": lambda: np.full((5, 6), -0.0),
        "raw": lambda: np.broadcast_to(place, (5, 6)),
        "normalized": lambda: np.broadcast_to(place / 5, (5, 6)).astype(dtype),
    }[scheme]()
    compute = np.float64 if dtype == np.float64 else np.float32
    want = token[IDS].astype(compute) * compute(math.sqrt(6)) + table.astype(compute)
    y = layer(IDS)
    assert y.dtype == dtype and np.array_equal(y, want.astype(dtype))
    assert layer.num_parameters() == 9 * 6 + (8 * 6 if scheme == "learned" else 0)
    assert np.array_equal(layer(IDS[0]), y[0])
    assert layer(np.zeros((2, 0), int)).shape == (2, 0, 6)
    assert layer([]).shape == (0, 6)


def test_transformer_embedding_of_the_course():
    layer = TransformerEmbedding(50000, 512, max_len=2048, dtype=np.float32, rng=0)
    ids = np.random.default_rng(0).integers(0, 50000, (32, 100))
    assert layer(ids).shape == (32, 100, 512)
    assert layer.position.pe.shape == (2048, 512)
    assert layer.num_parameters() == 50000 * 512


def test_a_text_longer_than_the_learned_table():
    layer = TransformerEmbedding(9, 6, 8, "learned")
    with pytest.raises(IndexError, match=r"at most 8 tokens long \(max_len\), got 9$"):
        layer(np.zeros((2, 9), int))


def test_token_and_positional():
    layer = TokenAndPositional(9, 16, rng=0)
    assert layer.training  # and still no dropout
    assert np.array_equal(layer(IDS), layer.token.weight[IDS] + sinusoidal(5, 16))
    assert np.array_equal(layer.token(IDS), layer.token.weight[IDS])
    assert layer.position.pe.shape == (1024, 16)
    assert layer(np.zeros(1030, int)).shape == (1030, 16)


@pytest.mark.parametrize("scheme", ["rotary", "Sinusoidal", "", None, 3])
def test_unknown_scheme(scheme):
    with pytest.raises(ValueError, match=f"^Unknown pos_encoding: {scheme!r}"):
        TransformerEmbedding(9, 6, pos_encoding=scheme)


# ---- dropout ----------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_is_inverted_and_applied_once(p):
    """The share that is kept is 1 - p (twice dropped: its square), and what is kept is divided by
    it; within five standard deviations of the binomial."""
    layer = TransformerEmbedding(50, 64, dropout=p, rng=0)
    ids = np.random.default_rng(1).integers(0, 50, (40, 30))
    y, calm = layer(ids), layer.eval()(ids)
    kept = y != 0
    assert abs(kept.mean() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / y.size)
    assert np.allclose(y[kept], calm[kept] / (1 - p), rtol=4e-16, atol=0)
    assert np.array_equal(layer(ids), calm)
    assert not np.array_equal(layer.train()(ids), y)  # another draw


def test_dropout_of_the_sinusoidal_layer():
    x = np.ones((50, 40, 16))
    layer = SinusoidalPositionalEncoding(16, dropout=0.25, rng=np.random.default_rng(5))
    y = layer(x)
    calm = x + sinusoidal(40, 16)
    assert set(np.unique((y / calm).round(9))) == {0.0, round(4 / 3, 9)}
    assert abs((y == 0).mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / y.size)
    assert (x == 1).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dropout_ends(dtype):
    for p, want in ((0, 1), (1, 0)):
        layer = TransformerEmbedding(9, 6, dropout=p, pos_encoding="none", dtype=dtype, rng=0)
        assert np.array_equal(layer(IDS), layer.token(IDS) * dtype.type(want))
    half = TransformerEmbedding(9, 6, dropout=0.5, pos_encoding="none", dtype=dtype, rng=0)
    y = half(IDS)
    assert y.dtype == dtype
    assert np.array_equal(y[y != 0], (2 * half.token(IDS))[y != 0])


def test_dropped_nan_is_zero():
    layer = SinusoidalPositionalEncoding(4, dropout=1.0)
    assert (layer(np.full((3, 4), np.nan)) == 0).all()


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan"), "0.1", True, None])
def test_dropout_must_be_a_probability(p):
    with pytest.raises((TypeError, ValueError), match="^TransformerEmbedding: dropout: must be"):
        TransformerEmbedding(9, 6, dropout=p)


def test_seeds(maker):
    """A seed fixes weights and dropout; a generator is used up."""
    one, two = maker(rng=7), maker(rng=np.random.default_rng(7))
    x = x_for(one)
    for _ in range(2):
        assert np.array_equal(one(x), two(x))
    source = np.random.default_rng(0)
    first, second = maker(rng=source), maker(rng=source)
    if first.parameters():
        assert not np.array_equal(first.parameters()[0], second.parameters()[0])
        assert not np.array_equal(maker().parameters()[0], maker().parameters()[0])


def test_weights_are_normal():
    """Mean and spread within five standard errors; the same numbers in every dtype."""
    weight = TokenEmbedding(1000, 50, rng=0).weight
    assert abs(weight.mean()) < 5 / math.sqrt(weight.size)
    assert abs(weight.std() - 1) < 5 / math.sqrt(2 * weight.size)
    table = LearnedPositionalEmbedding(1000, 50, rng=0).weight
    assert np.allclose(table, 0.02 * weight, rtol=1e-15, atol=0)
    for dtype in DTYPES:
        assert np.array_equal(
            TokenEmbedding(1000, 50, rng=0, dtype=dtype).weight, weight.astype(dtype)
        )


# ---- modes and state --------------------------------------------------------------------------


def test_modes(maker):
    layer = maker()
    assert layer.training
    assert layer.eval() is layer and not layer.training
    inner = [getattr(layer, name) for name in ("token", "position") if getattr(layer, name, None)]
    assert not any(part.training for part in inner)
    assert layer.train() is layer and layer.training and all(part.training for part in inner)
    assert not layer.train(False).training


def test_state_goes_round_through_a_file(maker):
    one, two = maker(rng=1).eval(), maker(rng=2).eval()
    x = x_for(one)
    file = io.BytesIO()
    np.savez(file, **one.state_dict())
    file.seek(0)
    with np.load(file) as state:
        two.load_state_dict(state)
    assert np.array_equal(one(x), two(x))
    for again in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert np.array_equal(again(x), one(x))


def test_state_is_a_copy_and_parameters_are_not(maker):
    layer = maker(rng=0).eval()
    x = x_for(layer)
    before, state = layer(x), layer.state_dict()
    for array in state.values():
        array[...] = 5
    assert np.array_equal(layer(x), before)
    layer.load_state_dict(state)
    for array in state.values():
        array[...] = 6
    assert all((array == 5).all() for array in layer.state_dict().values())
    for array in layer.parameters():
        array[...] = 7
    for name, array in layer.state_dict().items():
        assert (array == (5 if name.endswith("pe") else 7)).all()
    assert layer.num_parameters() == sum(a.size for n, a in state.items() if not n.endswith("pe"))


@pytest.mark.parametrize(
    "name, keys",
    [
        ("token", ["weight"]),
        ("sinusoidal", ["pe"]),
        ("learned", ["weight"]),
        ("plain", ["token.weight", "position.pe"]),
        ("transformer sinusoidal", ["token.weight", "position.pe"]),
        ("transformer learned", ["token.weight", "position.weight"]),
        ("transformer none", ["token.weight"]),
        ("transformer raw", ["token.weight"]),
        ("transformer normalized", ["token.weight"]),
    ],
)
def test_state_keys(name, keys):
    assert list(MAKERS[name]().state_dict()) == keys


def test_loading_is_strict_and_all_or_nothing():
    layer = TransformerEmbedding(9, 6, 8, "learned", rng=0)
    before = layer.state_dict()
    zeros = {name: np.zeros_like(array) for name, array in before.items()}
    short, more = dict(zeros), {**zeros, "extra": np.zeros(3), 5: np.zeros(3)}
    del short["token.weight"]
    fn = "^TransformerEmbedding.load_state_dict: state"
    for kind, match, state in [
        (ValueError, r": .*missing \['token.weight'\] and unexpected \[\]$", short),
        (ValueError, r": .*missing \[\] and unexpected \[5, 'extra'\]$", more),
        (ValueError, r"\['position.weight'\]: must have shape \(8, 6\), got \(6, 8\)$",
         {**zeros, "position.weight": np.zeros((6, 8))}),
        (ValueError, r"\['position.weight'\]: must have shape \(8, 6\), got \(\)$",
         {**zeros, "position.weight": 0.0}),
        (TypeError, r"\['position.weight'\]: must be an array of integers or floats, got complex",
         {**zeros, "position.weight": np.zeros((8, 6), complex)}),
        (TypeError, ": must be a mapping of names, got list$", list(zeros.items())),
    ]:  # fmt: skip
        with pytest.raises(kind, match=fn + match):
            layer.load_state_dict(state)
        after = layer.state_dict()
        assert all(np.array_equal(after[name], before[name]) for name in before)
    layer.load_state_dict({name: array.astype(np.float32) for name, array in before.items()})
    assert layer.token.weight.dtype == np.float64


# ---- faults -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: TokenEmbedding(0, 4), "TokenEmbedding: vocab_size: must be at least 1, got 0"),
        (lambda: TokenEmbedding(4, -1), "TokenEmbedding: d_model: must be at least 1, got -1"),
        (lambda: TokenEmbedding(4, 2.5), "TokenEmbedding: d_model: must be an integer"),
        (lambda: TokenEmbedding(4, 4, scale="2"), "TokenEmbedding: scale: must be a real number"),
        (lambda: TokenEmbedding(4, 4, dtype=int), "TokenEmbedding: dtype: must be float16"),
        (
            lambda: SinusoidalPositionalEncoding(4, 0),
            "SinusoidalPositionalEncoding: max_len: must be at least 1",
        ),
        (
            lambda: LearnedPositionalEmbedding(0, 4),
            "LearnedPositionalEmbedding: max_len: must be at least 1",
        ),
        (lambda: TransformerEmbedding(4, 4)(3), "TransformerEmbedding: token_ids: must have a"),
        (lambda: TransformerEmbedding(4, 4)([1.5]), "embed: token_ids: must be integers"),
    ],
)
def test_faults(call, match):
    with pytest.raises((TypeError, ValueError), match=f"^{match}"):
        call()


@pytest.mark.parametrize("make", [SinusoidalPositionalEncoding, LearnedPositionalEmbedding])
def test_x_must_fit(make):
    layer, fn = make(4, 4), make.__name__
    for x in (np.zeros((2, 5)), np.zeros(4), 1.0):
        with pytest.raises(ValueError, match=rf"^{fn}: x: must have shape \(\.\.\., seq, 4\)"):
            layer(x)
    for x in ([["a"]], np.zeros((2, 4), complex), np.zeros((2, 4), bool), np.zeros((2, 4), "g")):
        with pytest.raises(TypeError, match=f"^{fn}: x: must be an array of float16"):
            layer(x)


def test_too_big():
    with pytest.raises(MemoryError, match="^TokenEmbedding: out: must fit in memory"):
        TokenEmbedding(2**40, 2**20)


# ---- what the course shows with them ----------------------------------------------------------


def test_order_matters_with_an_encoding_only():
    """ "the dog bit the man" and "the man bit the dog" as bags of vectors."""
    words = {"the": 0, "dog": 1, "bit": 2, "man": 3}
    one, two = (
        [words[w] for w in t.split()] for t in ("the dog bit the man", "the man bit the dog")
    )
    for scheme in SCHEMES:
        layer = TransformerEmbedding(4, 16, pos_encoding=scheme, rng=0).eval()
        gap = posenc.input_gap(layer(one), layer(two))
        assert (gap == 0) == (scheme == "none")


def test_largest_value_of_raw_positions_grows():
    def largest(scheme, n):
        layer = TransformerEmbedding(4, 16, pos_encoding=scheme, rng=0).eval()
        return np.abs(layer(np.zeros(n, int)) - layer.token([0])).max()

    assert largest("raw", 1000) == pytest.approx(999, abs=1e-9)
    assert largest("sinusoidal", 1000) <= 1 + 1e-9
    assert largest("normalized", 1000) < 1
