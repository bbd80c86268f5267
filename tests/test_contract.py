"""One list of hostile inputs, applied to every public function.

For each argument: what NumPy can hold is computed like its friendly equal, or refused by a
documented exception whose message names the function and the argument; a refused call changes
nothing.

A new public name needs an entry in EXAMPLES, and its positional arguments in POSITIONAL.
"""

import contextlib
import gc
import inspect
import itertools
import re
import resource
import sys
import warnings

import ml_dtypes
import numpy as np
import pytest

import posenc

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def some(*shape):
    return np.linspace(-1.3, 1.7, int(np.prod(shape))).reshape(shape)


def count(*shape):
    return np.arange(np.prod(shape)).reshape(shape)


def plan():
    return posenc.rope_plan(4)


# One valid call for each public name, with every argument that is worth a hostile value. Made anew
# for each call. Arrays are float64 where numbers are data, int64 where they count or index.
EXAMPLES = {
    "LearnedPositionalEmbedding": lambda: {"max_len": 3, "d_model": 4},
    "RopePlan": lambda: {
        "inv_freq": np.array([1.0, 0.1]),
        "layout": "half",
        "start": 1,
        "axis": np.array([0, 1]),
        "attention_factor": 1.5,
    },
    "SinusoidalPositionalEncoding": lambda: {"d_model": 4, "max_len": 5, "dropout": 0.1},
    "TokenAndPositional": lambda: {"vocab_size": 7, "d_model": 4, "max_len": 5},
    "TokenEmbedding": lambda: {"vocab_size": 7, "d_model": 4, "scale": 2.0},
    "TransformerEmbedding": lambda: {
        "vocab_size": 7,
        "d_model": 4,
        "max_len": 5,
        "pos_encoding": "learned",
        "dropout": 0.1,
    },
    "add_sinusoidal": lambda: {
        "x": some(2, 3, 5, 4),
        "positions": count(2, 5),
        "offset": 3,
        "seq_axis": -2,
        "base": 10000.0,
        "layout": "half",
        "shift": 0.5,
        "scale": 2.0,
        "cos_first": True,
    },
    "alibi_bias": lambda: {
        "num_heads_or_slopes": np.array([0.5, 0.25]),
        "q_len": 3,
        "k_len": 5,
        "symmetric": False,
    },
    "alibi_slopes": lambda: {"num_heads": 6, "max_bias": 8.0},
    "apply_rope": lambda: {
        "x": some(2, 5, 4),
        "cos": some(5, 2),
        "sin": some(5, 2),
        "layout": "half",
        "seq_axis": -2,
    },
    "attend": lambda: {
        "E": some(5, 4),
        "Wq": some(4, 3),
        "Wk": some(4, 3),
        "Wv": some(4, 4),
        "bias": some(5, 5),
    },
    "attention_scores": lambda: {"q": some(3, 4), "k": some(5, 4)},
    "axial_plan": lambda: {"dim": 8, "axes": 2, "convention": "pixtral", "base": 100.0},
    "axial_positions": lambda: {"shape": (2, 3), "convention": "pixtral"},
    "cpu_info": dict,
    "embed": lambda: {
        "token_ids": count(2, 3),
        "weight": some(7, 4),
        "scale": 2.0,
        "encoding": some(9, 4),
        "positions": count(3),
        "offset": 1,
        "padding_idx": 2,
    },
    "get_num_threads": dict,
    "input_gap": lambda: {"a": some(3, 4), "b": some(3, 4) ** 2},
    "lookup": lambda: {"table": some(5, 4), "positions": count(2, 2)},
    "mrope_plan": lambda: {"dim": 12, "sections": [2, 2, 2], "base": 10000.0, "layout": "half"},
    "normalized_positions": lambda: {"positions": count(2, 3), "dim": 4, "length": 5},
    "offset_rotation": lambda: {"k": 3.0, "dim": 4, "base": 10000.0, "layout": "half"},
    "permute_rope_weight": lambda: {
        "weight": some(8, 3),
        "num_heads": 2,
        "to": "half",
        "rotary_dim": 2,
    },
    "plan_from_config": lambda: {
        "config": {"head_dim": 8, "rope_theta": 5e5, "model_type": "llama"},
        "seq_len": 10,
    },
    "positions_from_lengths": lambda: {"cu_seqlens": np.array([0, 3, 3, 7])},
    "raw_positions": lambda: {"positions": count(2, 3), "dim": 4},
    "rope": lambda: {
        "x": some(2, 3, 5, 4),
        "positions": count(2, 5),
        "base": 10000.0,
        "layout": "half",
        "offset": 3,
        "seq_axis": -2,
        "inverse": True,
    },
    "rope_plan": lambda: {
        "dim": 8,
        "base": 10000.0,
        "layout": "half",
        "rotary_dim": 4,
        "start": 2,
    },
    "rope_qk": lambda: {
        "q": some(2, 3, 5, 4),
        "k": some(2, 1, 5, 4),
        "positions": count(5),
        "base": 10000.0,
        "layout": "half",
        "offset": 3,
        "seq_axis": -2,
    },
    "rope_shift": lambda: {"k": some(2, 5, 4), "delta": 3, "plan": plan(), "seq_axis": -2},
    "rope_tables": lambda: {"plan": plan(), "positions": count(2, 3)},
    "set_num_threads": lambda: {"n": posenc.get_num_threads()},
    "similarity": lambda: {"table": some(5, 4), "position": 2},
    "sinusoidal": lambda: {
        "positions": count(2, 3),
        "dim": 4,
        "base": 10000.0,
        "layout": "half",
        "shift": 0.5,
        "scale": 2.0,
        "cos_first": True,
    },
    "softmax": lambda: {"x": some(3, 4), "axis": -1},
    "to_half": lambda: {"x": some(3, 4), "axis": -1},
    "to_interleaved": lambda: {"x": some(3, 4), "axis": -1},
    "wavelengths": lambda: {"dim": 4, "base": 10000.0},
    "xpos_plan": lambda: {"dim": 8, "base": 10000.0, "scale_base": 512.0, "center": 1.0},
}

# Everything else is keyword-only. What is listed beside the arrays and sizes is so by the textbook.
POSITIONAL = {
    *("x", "positions", "dim", "k", "q", "cos", "sin", "plan", "delta", "weight", "num_heads", "n"),
    *("E", "Wq", "Wk", "Wv", "a", "b", "table", "position", "token_ids", "inv_freq", "config"),
    *("cu_seqlens",),
    *("num_heads_or_slopes", "q_len", "k_len", "axes", "axis", "sections", "shape"),
    *("vocab_size", "d_model", "max_len", "dropout", "pos_encoding"),
}

# k is turned in place: it may be refused where others are copied, and it changes.
IN_PLACE = {("rope_shift", "k")}

# These move whole numbers of any kind, and keep their byte order.
MOVED = {("to_half", "x"), ("to_interleaved", "x"), ("permute_rope_weight", "weight")}

# Plain NumPy, for the demonstrations: they read whatever they are given, for hours if need be.
PLAIN = {"attend", "attention_scores", "input_gap", "similarity", "softmax"}

DOCUMENTED = (TypeError, ValueError, IndexError, MemoryError)
public = pytest.mark.parametrize("name", sorted(posenc.__all__))
names = pytest.mark.parametrize("name", sorted(EXAMPLES.keys() & set(posenc.__all__)))


def parameters(name):
    return inspect.signature(getattr(posenc, name)).parameters


def flat(result):
    """A result as a list of arrays, to be compared bit for bit."""
    if isinstance(result, tuple):
        return list(itertools.chain(*map(flat, result)))
    if isinstance(result, posenc.RopePlan):
        return [result.inv_freq, result.axis, np.array([result.start, result.attention_factor])]
    if isinstance(result, (np.ndarray, float, int, np.generic)):
        array = np.asarray(result)
        return [array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))]
    return []


def same(a, b):
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
        for x, y in zip(a, b, strict=True)
    )


def snapshot(arguments):
    """The bytes of the arrays among the arguments (but not of those that only claim to be huge)."""
    arrays = {}
    for key, value in arguments.items():
        for i, array in enumerate(value if isinstance(value, tuple) else (value,)):
            if isinstance(array, np.ndarray) and array.size < 1 << 20:
                arrays[key, i] = np.array(array, copy=True, order="C").tobytes()
    return arrays


def call(name, arguments, blamed=None):
    """The result, flat; or the exception, whose type and words are checked, with nothing changed.

    blamed: the argument the message has to name; None: any of the function's.
    """
    before = snapshot(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = flat(getattr(posenc, name)(**arguments))
        except Exception as error:
            described = f"{name}({', '.join(f'{k}={v!r:.60}' for k, v in arguments.items())})"
            assert isinstance(error, DOCUMENTED), f"{described} raised {error!r}"
            known = [blamed] if blamed else list(parameters(name))
            if "plan" in parameters(name):
                known += ["rotary_dim", "start"]  # what a plan brings along
            if isinstance(error, MemoryError):
                known += ["out", "dim"]  # the result, or its last axis
            form = rf"(?s){name}: ({'|'.join(map(re.escape, known))})\b"
            words = str(error)
            if name == "TransformerEmbedding" and words.startswith("Unknown pos_encoding: "):
                words = "TransformerEmbedding: pos_encoding: " + words  # the course's own words
            assert re.match(form, words), f"{described} raised {error!r}"
            assert snapshot(arguments) == before, f"{described} was refused, and changed an array"
            return error
    allowed = {"out", *(key for fn, key in IN_PLACE if fn == name)}
    after = snapshot(arguments)
    for at in before:
        shared = "out" in arguments and arguments["out"] is arguments[at[0]]
        assert at[0] in allowed or shared or after[at] == before[at], f"{name} changed {at[0]}"
    return result


def arrays_of(name):
    return [key for key, value in EXAMPLES[name]().items() if isinstance(value, np.ndarray)]


def right(name, **changes):
    result = call(name, {**EXAMPLES[name](), **changes})
    assert not isinstance(result, Exception), result
    return result


# --- the table of examples ------------------------------------------------------------------------


@public
def test_every_public_name_has_an_example(name):
    assert name in EXAMPLES, (
        f"posenc.{name} is new: give EXAMPLES in tests/test_contract.py one valid call of it, with "
        f"the arguments {', '.join(parameters(name))} as a dictionary"
    )
    given = EXAMPLES[name]()
    unknown = given.keys() - parameters(name).keys()
    assert not unknown, f"EXAMPLES[{name!r}] has arguments that posenc.{name} has not: {unknown}"
    assert same(right(name), right(name))


def test_no_example_is_left_over():
    assert EXAMPLES.keys() <= set(posenc.__all__)


@public
def test_options_are_keyword_only(name):
    for key, parameter in parameters(name).items():
        assert parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            assert key in POSITIONAL, (
                f"posenc.{name}: {key} can be given by position; make it keyword-only, or add it "
                "to POSITIONAL in tests/test_contract.py if it is an array or a size"
            )
    with pytest.raises(TypeError):
        getattr(posenc, name)(no_such_option=1)
    positional = [k for k, p in parameters(name).items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    with pytest.raises(TypeError):
        getattr(posenc, name)(*[1] * (len(positional) + 1))


# --- arrays that hold the same numbers ------------------------------------------------------------


class Subclass(np.ndarray):
    pass


class Protocol:
    """What is no array, but knows how to become one: tensors of other libraries."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)


def strided(a, steps):
    big = np.full([2 * n + 1 for n in a.shape], 77, a.dtype)
    view = big[tuple(slice(1, None, 2) for _ in a.shape)]
    view[...] = a
    return (
        view
        if steps > 0
        else view[(slice(None, None, -1),) * a.ndim].copy()[(slice(None, None, -1),) * a.ndim]
    )


def unaligned(a):
    memory = bytearray(a.nbytes + 1)
    odd = np.ndarray(a.shape, a.dtype, memory, 1)
    odd[...] = a
    assert a.size == 0 or not odd.flags.aligned
    return odd


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


EQUALS = {
    "swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "fortran": np.asfortranarray,
    "strided": lambda a: strided(a, 2),
    "reversed": lambda a: strided(a, -1),
    "unaligned": unaligned,
    "unaligned and swapped": lambda a: unaligned(a.astype(a.dtype.newbyteorder())),
    "read-only": read_only,
    "subclass": lambda a: a.view(Subclass),
    "masked": np.ma.array,
    "matrix": lambda a: np.asmatrix(a) if a.ndim == 2 else a,
    "list": lambda a: a.tolist(),
    "protocol": Protocol,
    "memoryview": memoryview,
}


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@names
def test_arrays_of_any_make(name):
    for key in arrays_of(name):
        wanted = right(name)
        for make, equal in EQUALS.items():
            value = equal(EXAMPLES[name]()[key])
            got = call(name, {**EXAMPLES[name](), key: value}, key)
            if (name, key) in IN_PLACE and isinstance(got, Exception):
                continue
            assert not isinstance(got, Exception), f"{name}: {key}: {make}: {got!r}"
            assert same(got, wanted), f"{name}: {key}: {make} gives another result"


@names
def test_arrays_with_strides_of_zero(name):
    for key in arrays_of(name):
        array = EXAMPLES[name]()[key]
        for axis in range(array.ndim):
            repeated = np.broadcast_to(array.take([0], axis), array.shape)
            wanted = call(name, {**EXAMPLES[name](), key: repeated.copy()}, key)
            got = call(name, {**EXAMPLES[name](), key: repeated}, key)
            if (name, key) in IN_PLACE:
                continue
            if isinstance(wanted, Exception):
                assert type(got) is type(wanted) and str(got) == str(wanted)
            else:
                assert same(got, wanted), f"{name}: {key}: stride 0 along axis {axis}"


@names
def test_integers_of_any_width(name):
    for key in arrays_of(name):
        array = EXAMPLES[name]()[key]
        if array.dtype.kind != "i":
            continue
        wanted = right(name)
        for kind in "bBhHiIlLqQ":
            got = call(name, {**EXAMPLES[name](), key: array.astype(kind)}, key)
            assert not isinstance(got, Exception), f"{name}: {key}: {kind}: {got!r}"
            assert same(got, wanted), f"{name}: {key}: {np.dtype(kind)} gives another result"


@names
def test_empty_arrays(name):
    """Without an element along any one axis: a result, or a refusal by name; no crash."""
    for key in arrays_of(name):
        array = EXAMPLES[name]()[key]
        for axis in range(array.ndim):
            shape = list(array.shape)
            shape[axis] = 0
            call(name, {**EXAMPLES[name](), key: np.zeros(shape, array.dtype)})


@names
def test_arrays_of_other_shapes(name):
    for key in arrays_of(name):
        array = EXAMPLES[name]()[key]
        others = [array[None], array[..., None], array.ravel(), array.ravel()[0], array[:-1]]
        others += [array[..., :-1], np.zeros((1,) * 64, array.dtype), array.T, array[None, None]]
        others += [np.zeros((1,) * 40, array.dtype), np.concatenate([array, array])]
        for other in others:
            call(name, {**EXAMPLES[name](), key: other})


# --- the wrong kinds ------------------------------------------------------------------------------


def wrong_kinds(array):
    yield array.astype(object)
    yield array.astype(complex)
    yield array.astype(str)
    yield array.astype(bytes)
    yield array.astype(np.int64).astype("M8[s]")
    yield array.astype(np.int64).astype("m8[s]")
    yield np.zeros(array.shape, "i4,f4")
    yield np.zeros(array.shape, "V8")
    yield np.full(array.shape, None)
    yield np.zeros(array.shape, ml_dtypes.float8_e4m3fn)
    yield "text"
    yield b"text"
    yield object()
    yield {"a": 1}
    yield {1, 2}
    yield [[1.0], [1.0, 2.0]]
    yield [None]
    yield [2**70]
    yield len
    yield type


@names
def test_wrong_kinds_of_array(name):
    for key in arrays_of(name):
        array = EXAMPLES[name]()[key]
        for wrong in wrong_kinds(array):
            got = call(
                name, {**EXAMPLES[name](), key: wrong}, None if (name, key) in MOVED else key
            )
            refused = isinstance(got, (TypeError, ValueError))
            moved = (name, key) in MOVED and isinstance(wrong, np.ndarray)
            assert refused or moved, f"{name}: {key}: {wrong!r:.60} gives {got!r:.60}"
        # these have a meaning for some: taken, or refused by name
        for doubtful in (array.astype(bool), array.astype(np.longdouble)):
            call(name, {**EXAMPLES[name](), key: doubtful}, key)
        narrow = call(name, {**EXAMPLES[name](), key: array.astype(BFLOAT16)})
        swapped = call(name, {**EXAMPLES[name](), key: array.astype(BFLOAT16.newbyteorder())})
        assert isinstance(swapped, Exception) or same(swapped, narrow), f"{name}: {key}: bfloat16"
        if parameters(name)[key].default is not None:
            got = call(name, {**EXAMPLES[name](), key: None})
            refused = isinstance(got, TypeError) or (name, key) in MOVED
            assert refused, f"{name}: {key}: None gives {got!r}"


@names
def test_positions_that_are_not_finite(name):
    example = EXAMPLES[name]()
    for key in ("positions", "k", "delta"):
        if key not in example or (key == "k" and name != "offset_rotation"):
            continue
        for bad in (np.nan, np.inf, -np.inf):
            value = np.asarray(example[key]).astype(np.float64).copy()
            value[(-1,) * value.ndim] = bad
            got = call(name, {**EXAMPLES[name](), key: value if value.ndim else float(bad)}, key)
            assert isinstance(got, (ValueError, TypeError)), f"{name}: {key}: {bad} gives {got!r}"
            assert type(got) is ValueError or name in ("lookup", "embed")


SCALARS = {
    int: [True, 1.5, "3", b"3", 1j, object(), [], [1, 2], np.array([1, 2]), {}, len, np.nan],
    float: ["3.5", b"3", 1j, object(), [], [1.0, 2.0], np.array([1.0, 2.0]), {}, len, True],
    bool: ["yes", object(), [], np.array([True, False]), {}, len, 1.5],
    str: [3, object(), [], b"half", {}, 1.5, "nonsense", "", "HALF", "half\0", "\ud800"],
}
NUMBERS = [-1, 0, -(2**63), 2**63 - 1, 2**64, 2**70, -(2**70)]
FLOATS = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -1.0,
    5e-324,
    1.7e308,
    10**400,
    np.float32(2),
    np.array(2.0),
]


def scalars_of(name):
    for key, value in EXAMPLES[name]().items():
        if type(value) in SCALARS:
            yield key, value


@names
def test_wrong_kinds_of_scalar(name):
    for key, value in scalars_of(name):
        for wrong in SCALARS[type(value)]:
            got = call(name, {**EXAMPLES[name](), key: wrong}, key)
            if isinstance(got, Exception):
                continue
            # an array where one number is the short form of it, and such
            taken = {("add_sinusoidal", "offset"), ("rope", "offset"), ("rope_qk", "offset")}
            taken |= {("embed", "offset"), ("rope_shift", "delta"), ("axial_plan", "axes")}
            taken |= {("offset_rotation", "k")}
            assert (name, key) in taken, f"{name}: {key}: {wrong!r} is taken for {value!r}"
        course = (name, key) == ("TransformerEmbedding", "pos_encoding")  # always a ValueError
        if parameters(name)[key].default is not None and not course:
            got = call(name, {**EXAMPLES[name](), key: None}, key)
            assert isinstance(got, TypeError), f"{name}: {key}: None gives {got!r:.60}"


@contextlib.contextmanager
def little_memory(spare=1 << 29):
    """Half a gigabyte more than now: what does not fit has to be refused at once."""
    with open("/proc/self/statm") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + spare, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@names
def test_numbers_out_of_range(name):
    with little_memory():
        for key, value in scalars_of(name):
            if name == "set_num_threads":
                continue  # tests/test_threads.py
            if type(value) is int:
                for number in NUMBERS:
                    call(name, {**EXAMPLES[name](), key: number}, None)
            elif type(value) is float:
                for number in FLOATS:
                    call(name, {**EXAMPLES[name](), key: number}, None)


@names
def test_sizes_that_do_not_fit(name):
    """2^31 and more of anything: MemoryError or another refusal, at once."""
    with little_memory():
        for key, value in scalars_of(name):
            if type(value) is not int or name == "set_num_threads":
                continue
            for size in (2**31, 2**33, 2**40, 2**62, 2**63, 2**64):
                call(name, {**EXAMPLES[name](), key: size}, None)
        for key in arrays_of(name):
            array = EXAMPLES[name]()[key]
            if array.ndim == 0 or name in PLAIN:
                continue
            for shape in ((2**40, *array.shape[1:]), (*array.shape[:-1], 2**40)):
                call(name, {**EXAMPLES[name](), key: np.broadcast_to(array.ravel()[:1], shape)})
        if "positions" in EXAMPLES[name]() and parameters(name)["positions"].annotation.startswith(
            "int"
        ):
            for size in (2**31, 2**40, 2**62, 2**63, 2**70):
                if name in ("rope_tables", "lookup"):
                    got = call(name, {**EXAMPLES[name](), "positions": size})
                    assert isinstance(got, Exception)
                    continue
                for dim in (2**31, 2**40):
                    got = call(name, {**EXAMPLES[name](), "positions": size, "dim": dim})
                    assert isinstance(got, MemoryError)


# --- dtype and out --------------------------------------------------------------------------------

with_dtype = [n for n in sorted(EXAMPLES.keys() & set(posenc.__all__)) if "dtype" in parameters(n)]
with_out = [n for n in sorted(EXAMPLES.keys() & set(posenc.__all__)) if "out" in parameters(n)]


@pytest.mark.parametrize("name", with_dtype)
def test_dtypes(name):
    for dtype in (np.float16, BFLOAT16, np.float32, np.float64, "float32", "f8", "bfloat16", float):
        got = call(name, {**EXAMPLES[name](), "dtype": dtype})
        assert not isinstance(got, Exception), f"{name}: dtype: {dtype}: {got!r}"
        assert all(array.dtype == np.dtype(dtype) for array in got)
    wrong = [np.int32, int, bool, complex, object, str, "M8[s]", ">f4", "f4,f4", np.longdouble]
    wrong += [
        BFLOAT16.newbyteorder(),
        ml_dtypes.float8_e4m3fn,
        "nonsense",
        3,
        [],
        {},
        object(),
        "\0",
    ]
    for dtype in wrong:
        if np.dtype(np.longdouble) == np.float64 and dtype is np.longdouble:
            continue
        got = call(name, {**EXAMPLES[name](), "dtype": dtype}, "dtype")
        assert isinstance(got, TypeError), f"{name}: dtype: {dtype!r} gives {got!r:.60}"


def outs(name):
    """Arrays as out has to be, one for each array of the result."""
    return [np.full_like(array, 7, subok=False) for array in right(name)]


def with_one(name, arrays):
    return {**EXAMPLES[name](), "out": arrays[0] if len(arrays) == 1 else tuple(arrays)}


@pytest.mark.parametrize("name", with_out)
def test_out_of_any_make(name):
    wanted = right(name)
    for make in ("strided", "reversed", "fortran", "subclass"):
        arrays = [EQUALS[make](array) for array in outs(name)]
        arguments = with_one(name, arrays)
        got = call(name, arguments)
        assert not isinstance(got, Exception), f"{name}: out: {make}: {got!r}"
        assert same(got, wanted) and same([np.asarray(a) for a in arrays], wanted), make
        result = getattr(posenc, name)(**with_one(name, arrays))
        returned = result if isinstance(result, tuple) else (result,)
        assert all(a is b for a, b in zip(returned, arrays, strict=True)), (
            f"{name} returns another out"
        )


def bad_outs(array):
    yield TypeError, array.tolist()
    yield TypeError, "text"
    yield TypeError, object()
    yield TypeError, array.astype(np.float16)
    yield TypeError, array.astype(object)
    yield TypeError, array.astype(np.int64)
    yield TypeError, array.astype(array.dtype.newbyteorder())
    yield TypeError, array.astype(complex)
    yield TypeError, array.view("V8")
    yield ValueError, array[None]
    yield ValueError, array[..., None]
    yield ValueError, array[:-1]
    yield ValueError, array[..., :-1]
    yield ValueError, array.ravel() if array.ndim > 1 else array[:, None]
    yield ValueError, np.broadcast_to(array[..., :1], array.shape)
    yield ValueError, read_only(array)
    yield ValueError, unaligned(array)
    shared = np.zeros(array.size + 3)
    steps = [8] * array.ndim
    yield ValueError, np.lib.stride_tricks.as_strided(shared, array.shape, steps)
    yield ValueError, np.lib.stride_tricks.as_strided(shared, array.shape, [0] * array.ndim)


@pytest.mark.parametrize("name", with_out)
def test_wrong_out(name):
    for which in range(len(outs(name))):
        for error, bad in bad_outs(outs(name)[which]):
            arrays = outs(name)
            arrays[which] = bad
            aligned = not isinstance(bad, np.ndarray) or bad.flags.aligned
            got = call(name, with_one(name, arrays), "out")
            if not aligned and not isinstance(got, Exception):
                assert same([np.asarray(a) for a in arrays], right(name))  # right, or refused
                continue
            assert type(got) is error, f"{name}: out: {bad!r:.60} gives {got!r:.60}"


@pytest.mark.parametrize("name", with_out)
def test_out_that_overlaps(name):
    """The same array is right; a part of it is refused; neither ever gives another result."""
    for key in arrays_of(name):
        for shift, alias in itertools.product((-8, 0, 8, 16), (False, True)):
            example = EXAMPLES[name]()
            array = example[key]
            arrays = outs(name)
            which = 1 if len(arrays) > 1 and key == "k" else 0
            out = arrays[which]
            if array.dtype != out.dtype or (shift < 0 and alias):
                continue
            memory = bytearray(64 + array.nbytes + out.nbytes)
            example[key] = np.ndarray(array.shape, array.dtype, memory, 32)
            example[key][...] = array
            start, steps = (32 + shift, None)
            if alias and shift == 8:  # the same place, in another order
                start, steps = 32, np.empty(out.shape[::-1]).T.strides
            arrays[which] = np.ndarray(out.shape, out.dtype, memory, start, steps)
            arguments = {**example, "out": arrays[0] if len(arrays) == 1 else tuple(arrays)}
            before = bytes(memory)
            if shift == 0 and array.shape == out.shape and alias:
                example[key] = arguments[key] = arrays[which]
            wanted = right(name)
            result = None
            try:
                result = flat(getattr(posenc, name)(**arguments))
            except ValueError as error:
                assert re.match(rf"{name}: (out|{key})\b", str(error)), str(error)
                assert bytes(memory) == before, f"{name} was refused, and wrote"
            if result is not None:
                assert same(result, wanted), (
                    f"{name}: out overlaps {key} by {shift}: another result"
                )


# --- nothing is lost ------------------------------------------------------------------------------


def own_dtypes(arguments):
    """Arrays whose dtype objects are theirs alone: a lost reference to one is seen.

    (NumPy itself loses references to the shared ones, in np.ones for one.)
    """
    own = []
    for key, value in arguments.items():
        if isinstance(value, np.ndarray) and value.dtype.kind != "V":
            own.append(np.dtype(value.dtype, metadata={"of": key}))
            arguments[key] = value.astype(own[-1])
    return own


@names
def test_no_reference_is_lost(name, request):
    """Neither memory nor references to what is shared, over good calls and failing ones."""
    good, n = EXAMPLES[name](), 100
    shared = [*own_dtypes(good), None, True, (), BFLOAT16, np.ndarray, posenc._core, *good.values()]
    many_axes = np.zeros((1,) * 40)
    cases = [good, {**good, "no_such_option": 1}]
    for key in arrays_of(name):
        cases += [{**good, key: good[key].astype(complex)}, {**good, key: many_axes}]
        cases += [{**good, key: [[1], [1, 2]]}, {**good, key: np.full(good[key].shape, np.nan)}]
    for key, value in scalars_of(name):
        cases += [{**good, key: object()}, {**good, key: 2**70 if type(value) is int else "x"}]
    if "out" in parameters(name):
        cases += [{**good, "out": np.zeros(3, np.int8)}, with_one(name, outs(name))]
    if "dtype" in parameters(name):
        cases += [{**good, "dtype": wrong} for wrong in ("nonsense", np.int32, BFLOAT16)]
    function = getattr(posenc, name)
    gc.collect()
    gc.freeze()  # a hundred collections follow: what is there need not be looked through
    request.addfinalizer(gc.unfreeze)

    def repeat(case, times):
        for _ in range(times):
            with contextlib.suppress(*DOCUMENTED, RuntimeError):
                function(**case)
        gc.collect()

    for case in cases:
        repeat(case, 20)
        for _ in range(3):  # what is lost is lost each time; caches fill but once
            blocks, counts = sys.getallocatedblocks(), [sys.getrefcount(o) for o in shared]
            repeat(case, n)
            lost = [sys.getrefcount(o) - c for o, c in zip(shared, counts, strict=True)]
            grown = sys.getallocatedblocks() - blocks
            if max(map(abs, lost)) < n // 2 and grown < n // 2:
                break
        assert max(map(abs, lost)) < n // 2, f"references in {n} calls of {case}: {lost}"
        assert grown < n // 2, f"blocks in {n} calls of {case}: {grown}"
