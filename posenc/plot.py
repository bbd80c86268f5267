"""The few pictures that positions need. This module asks for matplotlib: the extra `plot`.

Every function draws into `ax`, or into a new figure, and returns the Axes, so that titles, labels
and limits can be changed afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._args import fail, matrix, number
from .diagnose import similarity as _similarity
from .sinusoidal import wavelengths as _wavelengths

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["heat_map", "similarity", "wavelengths"]


def heat_map(
    table: npt.ArrayLike,
    *,
    ax: Axes | None = None,
    limit: float | None = None,
    labels: tuple[str, str] = ("position", "dimension"),
    colorbar: bool = True,
) -> Axes:
    """Draw a table of encodings: position across, dimension down, red above 0 and blue below.

    Parameters
    ----------
    table : array_like
        One row a position, shape ``(n, dim)``, neither of them 0.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    limit : float, optional
        The value of full red; its negative is full blue. By default the largest magnitude in
        `table`, or 1 if all of it is 0.
    labels : tuple of str, optional
        Names of the axis across (the rows of `table`) and of the axis down (its columns).
    colorbar : bool, optional
        Whether to draw the scale of colours beside the picture.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError, ValueError
        If `table` is no matrix of numbers or is empty, or `limit` is not above 0.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # no window
    >>> import posenc, posenc.plot
    >>> ax = posenc.plot.heat_map(posenc.sinusoidal(100, 64))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('position', 'dimension')
    """
    fn = "heat_map"
    values = matrix(fn, "table", table)
    if not values.size:
        fail(ValueError, fn, "table", "must not be empty", f"shape {values.shape}")
    if limit is None:
        finite = np.abs(values[np.isfinite(values)], dtype=np.float64)
        top = float(finite.max(initial=0.0)) or 1.0
    else:
        top = number(fn, "limit", limit, positive=True)
    ax = _axes(ax)
    image = ax.imshow(
        values.T, cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto", interpolation="nearest"
    )
    ax.set(xlabel=labels[0], ylabel=labels[1])
    if colorbar:
        ax.figure.colorbar(image, ax=ax)
    return ax


def similarity(
    table: npt.ArrayLike,
    position: int,
    *,
    at: npt.ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how alike one position is to the others: `posenc.similarity`, as a curve or as bars.

    Parameters
    ----------
    table : array_like
        One row a position, shape ``(n, dim)``.
    position : int
        The row to compare with.
    at : array_like of int, optional
        A few positions: each gets a bar. By default all of them make a curve.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError, ValueError, IndexError
        As `posenc.similarity`, or if `at` is no list of positions in the table.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # no window
    >>> import posenc, posenc.plot
    >>> table = posenc.sinusoidal(128, 64)
    >>> ax = posenc.plot.similarity(table, 0, at=[0, 1, 2, 5, 10, 25, 50, 100])
    >>> [f"{bar.get_height():.4f}" for bar in ax.patches][:3]
    ['1.0000', '0.9662', '0.8845']
    """
    fn = "similarity"
    values = _similarity(table, position)
    if at is not None:
        places = np.asarray(at)
        if places.ndim != 1 or places.dtype.kind not in "iu":
            fail(
                TypeError, fn, "at", "must be a list of integers", f"{places.ndim}-d {places.dtype}"
            )
        outside = (places < 0) | (places >= len(values))
        if outside.any():
            wanted = f"must be rows of the table, which has {len(values)}"
            fail(IndexError, fn, "at", wanted, places[outside][0])
    ax = _axes(ax)
    if at is None:
        ax.plot(values)
    else:
        ax.bar([str(p) for p in places], values[places])
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.set(xlabel="position", ylabel=f"likeness to position {position}")
    return ax


def wavelengths(dim: int, *, base: float = 10000.0, ax: Axes | None = None) -> Axes:
    """Draw how many tokens each pair of columns takes for one turn, on a logarithmic axis.

    Parameters
    ----------
    dim : int
        The width of the encoding, at least 1.
    base : float, optional
        As in `posenc.sinusoidal`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError, ValueError
        As `posenc.wavelengths`.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # no window
    >>> import posenc.plot
    >>> ax = posenc.plot.wavelengths(64)
    >>> ax.get_yscale()
    'log'
    """
    values = _wavelengths(dim, base=base)
    ax = _axes(ax)
    ax.plot(values, ".-")
    ax.set(xlabel="pair", ylabel="tokens a turn", yscale="log")
    return ax


def _axes(ax: Axes | None) -> Any:
    """`ax`, or that of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        message = "posenc.plot needs matplotlib: pip install 'posenc[plot]'"
        raise ImportError(message, name=error.name) from error
    return plt.subplots(layout="constrained")[1]
