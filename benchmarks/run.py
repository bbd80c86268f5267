"""Every job beside its peers, in one process, in turn: `python benchmarks/run.py [name ...]`.

Each bench_<scheme>.py yields jobs: a name and a dict of callables, "posenc" first. A round runs
every callable of a job once in changing order, each in a batch of some milliseconds. Printed are
the median time of posenc and, for each peer, the median over the rounds of peer / posenc, so that
a machine that slows down slows all of them. Peers that are not installed are left out. Nothing
here is a test.

`--threads N` sets the threads of posenc (default 1, as most peers use one); `--markdown` prints a
table.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import posenc

HERE = Path(__file__).parent


def batch_of(call: Callable[[], object], target: float) -> int:
    """How often to call for `target` seconds."""
    call()
    start = time.perf_counter()
    call()
    once = max(time.perf_counter() - start, 1e-9)
    return max(1, int(target / once))


def timed(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds a call, one entry a round, the callables in alternating order."""
    counts = {label: batch_of(call, 4e-3) for label, call in calls.items()}
    times: dict[str, list[float]] = {label: [] for label in calls}
    for i in range(rounds):
        for label in list(calls) if i % 2 else reversed(list(calls)):
            call, count = calls[label], counts[label]
            start = time.perf_counter()
            for _ in range(count):
                call()
            times[label].append((time.perf_counter() - start) / count)
    return times


def unit(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="schemes (default: all)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    posenc.set_num_threads(args.threads)
    info = posenc.cpu_info()
    print(
        f"posenc {posenc.__version__}, {info['isa']}, {args.threads} thread(s); "
        f"Python {platform.python_version()}, NumPy {np.__version__}",
        file=sys.stderr,
    )
    if args.markdown:
        print("| job | posenc | peer: times slower than posenc |\n|---|---|---|")
    for file in sorted(HERE.glob("bench_*.py")):
        if args.names and file.stem.removeprefix("bench_") not in args.names:
            continue
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, calls in module.jobs():
            times = timed(calls, args.rounds)
            ours = times.pop("posenc")
            peers = [
                f"{label} {statistics.median(t / o for t, o in zip(their, ours, strict=True)):.2f}"
                for label, their in times.items()
            ]
            row = name, unit(statistics.median(ours)), ", ".join(peers)
            line = "| {} | {} | {} |" if args.markdown else "{:<46}{:>10}   {}"
            print(line.format(*row), flush=True)


if __name__ == "__main__":
    main()
