"""What a call costs beside time: its peak of memory, and how often it can be interrupted."""

import sys
import tracemalloc


def peak(call):
    """Bytes that were allocated at once, the result among them."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def lines(call):
    """How many lines of Python ran: between them signals are seen."""
    count = 0

    def trace(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
