"""The same bits from any number of threads and any instruction set; fork; Ctrl-C."""

import hashlib
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import digest
import numpy as np
import pytest

import posenc

# What tests/digest.py prints. It can only change together with a promise.
GOLDEN = "ee6808a863572c20a36d622862309eb78c398153af15d5c217a29eb96a07b48a"


def run_python(code, *arguments, env=(), timeout=120):
    root = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, *([code] if os.path.exists(code) else ["-c", code]), *arguments],
        env={**os.environ, "PYTHONPATH": path, **dict(env)},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture
def threads():
    before = posenc.get_num_threads()
    yield posenc.set_num_threads
    posenc.set_num_threads(before)


@pytest.mark.parametrize("isa", posenc.cpu_info()["available"])
def test_every_instruction_set_gives_the_same_bits(isa):
    done = run_python(digest.__file__, env={"POSENC_SIMD": isa})
    assert done.stderr == "" and done.stdout.split() == [GOLDEN]


def test_an_unknown_instruction_set_is_an_import_error():
    done = run_python("import posenc", env={"POSENC_SIMD": "sse9"})
    assert done.returncode == 1 and "ImportError: POSENC_SIMD" in done.stderr


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_any_number_of_threads_gives_the_same_bits(n, threads):
    threads(n)
    assert posenc.get_num_threads() == n
    assert digest.digest() == GOLDEN


def test_more_threads_than_rows(threads):
    threads(64)
    x = digest.some((1, 3, 400_000), np.float32)
    right = posenc.sinusoidal(3, 400_000, dtype=np.float32)
    got, turned = posenc.add_sinusoidal(x), posenc.rope(x)
    threads(1)
    np.testing.assert_array_equal(posenc.sinusoidal(3, 400_000, dtype=np.float32), right)
    np.testing.assert_array_equal(posenc.add_sinusoidal(x), got)
    np.testing.assert_array_equal(posenc.rope(x), turned)


@pytest.mark.parametrize(("n", "kept"), [(1, 1), (64, 64), (65, 64), (2**40, 64), (np.int8(2), 2)])
def test_number_of_threads(n, kept, threads):
    threads(n)
    assert posenc.get_num_threads() == kept


def test_eight_python_threads():
    """Each makes all results, in an order of its own, with frequencies that others evict."""
    x = digest.some((2, 40, 64), np.float32)

    def one(case):
        base = 1000.0 + case
        p = np.arange(case, case + 50) ** 2
        table = posenc.sinusoidal(p, 64, base=base, dtype="float32")
        turned = posenc.rope(x, base=base, offset=case)
        added = posenc.add_sinusoidal(x, base=base, layout="half")
        plan = posenc.rope(x, plan=posenc.rope_plan(64, base=base), offset=case)
        assert (plan == turned).all()
        return hashlib.sha256(b"".join(map(np.ndarray.tobytes, (table, turned, added)))).digest()

    cases = range(200)  # more than the module keeps frequencies for
    serial = [one(case) for case in cases]
    ready = threading.Barrier(8)

    def all_of_them(seed):
        ready.wait()
        order = np.random.default_rng(seed).permutation(len(cases)).tolist()
        return all(one(case) == serial[case] for case in order)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(all_of_them, range(8)))


def test_long_calls_of_several_threads_at_once(threads):
    threads(4)
    right = hashlib.sha256(posenc.sinusoidal(20_000, 128).data).digest()

    def one(_):
        return hashlib.sha256(posenc.sinusoidal(20_000, 128).data).digest()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(one, range(8))) == {right}


FORK = """
    import hashlib, os, sys, warnings
    import numpy as np, posenc
    warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: that is the point
    posenc.set_num_threads(8)

    def result():
        x = np.ones((4, 2000, 64), np.float32)
        arrays = posenc.sinusoidal(20_000, 64), posenc.rope(x), posenc.add_sinusoidal(x)
        return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()

    right = result()
    for _ in range(5):
        child = os.fork()
        if child == 0:
            os._exit(0 if result() == right else 3)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit("a child went wrong")
    print("ok")
"""


def test_fork_after_use():
    """A library that keeps threads would hang here: the child has none of them."""
    done = run_python(textwrap.dedent(FORK))
    assert done.stdout == "ok\n", done.stderr


INTERRUPT = """
    import os, signal, sys, threading, time
    import numpy as np, posenc

    # Half a second of work on 128 MiB: positions that do not follow each other cost most.
    p = np.arange(1 << 19) * 0.3
    x = np.ones((1 << 19, 128), np.float16)
    out = np.full(x.shape, 7, np.float16)
    call = {
        "sinusoidal": lambda: posenc.sinusoidal(p, 128, dtype=np.float16, out=out),
        "rope": lambda: posenc.rope(x, p, out=out),
        "add_sinusoidal": lambda: posenc.add_sinusoidal(x, positions=p, out=out),
    }[sys.argv[1]]
    posenc.set_num_threads(int(sys.argv[2]))

    def interrupt():
        while out[0, 0] == 7:  # it has begun once the first row is written
            time.sleep(0.0005)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        call()
        print("ran to its end")
        thread.join()
    except KeyboardInterrupt:
        rows = int((out[:, 0] != 7).sum())
        print("stopped" if 0 < rows < len(out) else f"stopped after {rows} rows")
    thread.join()
    out[...] = 7
    call()  # and nothing is left behind
    print("again" if (out[-1] != 7).all() else "not again")
"""


@pytest.mark.parametrize("n", ["1", "2"])
@pytest.mark.parametrize("name", ["sinusoidal", "rope", "add_sinusoidal"])
def test_ctrl_c_stops_a_long_call(name, n):
    done = run_python(textwrap.dedent(INTERRUPT), name, n)
    assert done.stdout.split("\n") == ["stopped", "again", ""], done.stderr
