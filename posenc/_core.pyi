"""The compiled part. Arguments come by position, all of them; the public signatures are in the
modules beside this file."""

from typing import Any

import numpy as np

_Array = np.ndarray[Any, np.dtype[Any]]

def turns(fn: Any, dim: Any, base: Any, shift: Any, scale: Any, /) -> _Array: ...
def turns_from(inv_freq: _Array, /) -> _Array: ...
def inv_freq(fn: Any, dim: Any, base: Any, wavelengths: Any, /) -> _Array: ...
def sinusoidal(
    positions: Any,
    dim: Any,
    base: Any,
    layout: Any,
    shift: Any,
    scale: Any,
    cos_first: Any,
    dtype: Any,
    out: Any,
    /,
) -> _Array: ...
def add_sinusoidal(
    x: Any,
    positions: Any,
    offset: Any,
    seq_axis: Any,
    base: Any,
    layout: Any,
    shift: Any,
    scale: Any,
    cos_first: Any,
    out: Any,
    /,
) -> _Array: ...
def rope(
    fn: Any,
    x: Any,
    plan: Any,
    out: Any,
    run: bool,
    positions: Any,
    offset: Any,
    seq_axis: Any,
    base: Any,
    layout: Any,
    inverse: Any,
    adjoint: Any,
    /,
) -> _Array: ...
def rope_qk(
    q: Any,
    k: Any,
    plan: Any,
    keys_plan: Any,
    out_q: Any,
    out_k: Any,
    positions: Any,
    offset: Any,
    seq_axis: Any,
    base: Any,
    layout: Any,
    inverse: Any,
    adjoint: Any,
    /,
) -> tuple[_Array, _Array]: ...
def rope_tables(plan: Any, positions: Any, dtype: Any, /) -> _Array: ...
def apply_rope(
    fn: Any,
    x: Any,
    cos: _Array,
    sin: _Array,
    layout: Any,
    seq_axis: Any,
    start: Any,
    inverse: Any,
    out: Any,
    /,
) -> _Array: ...
def bias_arrays(
    fn: Any, heads: Any, q_len: Any, k_len: Any, dtype: Any, out: Any, view: Any, /
) -> tuple[_Array, _Array]: ...
def expand_bias(profile: _Array, bias: _Array, /) -> _Array: ...
def alibi_profile(slopes: _Array, k_len: Any, symmetric: Any, profile: _Array, /) -> None: ...
def lookup(table: Any, positions: Any, out: Any, /) -> _Array: ...
def embed(
    token_ids: Any,
    weight: Any,
    scale: Any,
    encoding: Any,
    positions: Any,
    offset: Any,
    padding_idx: Any,
    out: Any,
    /,
) -> _Array: ...
def get_num_threads() -> int: ...
def set_num_threads(n: Any, /) -> None: ...
def cpu_info() -> tuple[str, list[str]]: ...
