"""The machine: how many threads, which instruction set. Neither changes a bit of a result."""

from __future__ import annotations

import os
from typing import Any

from . import _core

__all__ = ["cpu_info", "get_num_threads", "set_num_threads"]


def get_num_threads() -> int:
    """How many threads a long call may use.

    Returns
    -------
    int
        At first the number of processors this process may run on, or POSENC_NUM_THREADS from the
        environment.

    Notes
    -----
    Calls of less than about a megabyte use one. Threads end before the call returns, and the
    result does not depend on their number.

    Examples
    --------
    >>> import posenc
    >>> posenc.get_num_threads() >= 1
    True
    """
    return _core.get_num_threads()


def set_num_threads(n: int) -> None:
    """Set how many threads a long call may use; one never starts any.

    Parameters
    ----------
    n : int
        At least 1; more than 64 counts as 64.

    Raises
    ------
    TypeError, ValueError
        If `n` is no integer of at least 1.

    Examples
    --------
    >>> import posenc
    >>> before = posenc.get_num_threads()
    >>> posenc.set_num_threads(1)
    >>> posenc.get_num_threads()
    1
    >>> posenc.set_num_threads(before)
    """
    _core.set_num_threads(n)


def cpu_info() -> dict[str, Any]:
    """Which kernels are in use.

    Returns
    -------
    dict
        ``"isa"``: the instruction set in use, the best one or POSENC_SIMD from the environment;
        ``"available"``: those of this build that this processor has; ``"threads"``.

    Examples
    --------
    >>> import posenc
    >>> "scalar" in posenc.cpu_info()["available"]
    True
    """
    isa, available = _core.cpu_info()
    return {"isa": isa, "available": available, "threads": get_num_threads()}


def _processors() -> int:
    """POSENC_NUM_THREADS, or the processors this process may run on."""
    asked = os.environ.get("POSENC_NUM_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_core.set_num_threads(_processors())
