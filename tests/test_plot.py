"""posenc.plot: what is drawn is read back from the Axes; no picture is compared."""

import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import posenc
import posenc.plot

matplotlib.use("Agg")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def ax():
    return Figure().add_subplot()


@pytest.fixture
def plt():
    import matplotlib.pyplot as plt

    plt.close("all")
    yield plt
    plt.close("all")


@pytest.fixture(scope="module")
def table():
    from posenc import reference

    return reference.sinusoidal(100, 16)


def test_heat_map_lays_positions_across(ax, table):
    assert posenc.plot.heat_map(table, ax=ax) is ax
    (image,) = ax.images
    np.testing.assert_array_equal(image.get_array(), table.T)
    assert ax.get_xlabel() == "position" and ax.get_ylabel() == "dimension"
    assert ax.yaxis_inverted() and not ax.xaxis_inverted()  # dimension 0 on top, position 0 left


def test_heat_map_is_white_at_zero(ax):
    posenc.plot.heat_map([[0.5, -2.0, 1.0]], ax=ax)
    (image,) = ax.images
    assert image.get_clim() == (-2, 2)
    red, white, blue = image.cmap(image.norm(np.array([2.0, 0.0, -2.0])))[:, :3]
    assert white.min() > 0.95
    assert red[0] > red[2] and blue[2] > blue[0]


def test_heat_map_has_a_scale_unless_told(table):
    with_scale, without = Figure(), Figure()
    posenc.plot.heat_map(table, ax=with_scale.add_subplot())
    posenc.plot.heat_map(table, ax=without.add_subplot(), colorbar=False)
    assert (len(with_scale.axes), len(without.axes)) == (2, 1)


@pytest.mark.parametrize(
    ("values", "limit", "right"),
    [
        ([[0, 0]], None, 1),
        ([[3, -4]], None, 4),
        ([[np.nan, 0.5], [np.inf, -0.25]], None, 0.5),
        ([[0.5]], 2, 2),
        (np.array([[-128, 1]], np.int8), None, 128),
        (np.array([[0.5]], np.float16), None, 0.5),
    ],
)
def test_heat_map_limit(ax, values, limit, right):
    posenc.plot.heat_map(values, ax=ax, limit=limit)
    assert ax.images[0].get_clim() == (-right, right)


def test_heat_map_names_its_axes(ax):
    posenc.plot.heat_map([[1.0]], ax=ax, labels=("query", "key"))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("query", "key")


def test_similarity_curve(ax, table):
    assert posenc.plot.similarity(table, 12, ax=ax) is ax
    x, y = ax.lines[0].get_data()
    np.testing.assert_array_equal(x, np.arange(100))
    assert np.argmax(y) == 12
    rows = table / np.linalg.norm(table, axis=1, keepdims=True)
    np.testing.assert_allclose(y, rows @ rows[12], atol=1e-14)
    assert ax.get_ylabel() == "likeness to position 12"


def test_similarity_bars(ax):
    from posenc import reference

    at = [0, 1, 2, 5, 10, 25, 50, 100]
    posenc.plot.similarity(reference.sinusoidal(128, 64), 0, at=at, ax=ax)
    heights = [bar.get_height() for bar in ax.patches]
    right = [1, 0.9662, 0.8845, 0.7345, 0.6579, 0.6292, 0.4898, 0.5586]
    np.testing.assert_allclose(heights, right, atol=5e-5)
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(p) for p in at]


def test_wavelengths(ax):
    assert posenc.plot.wavelengths(64, ax=ax) is ax
    y = ax.lines[0].get_ydata()
    assert len(y) == 32
    np.testing.assert_allclose(y[[0, 8, 20, 31]], [6.3, 62.8, 1986.9, 47117.2], atol=0.05)
    assert ax.get_yscale() == "log"
    assert posenc.plot.wavelengths(64, base=100.0, ax=ax).lines[1].get_ydata()[-1] < y[-1]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: posenc.plot.heat_map([[1.0]]),
        lambda: posenc.plot.similarity([[1.0], [2.0]], 0),
        lambda: posenc.plot.wavelengths(8),
    ],
)
def test_a_new_figure_by_default(draw, plt):
    first, second = draw(), draw()
    assert first.get_figure() is not second.get_figure()
    assert len(plt.get_fignums()) == 2
    first.get_figure().canvas.draw()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: posenc.plot.heat_map([1.0]), ValueError, "heat_map: table: must have two axes"),
        (
            lambda: posenc.plot.heat_map(np.zeros((0, 4))),
            ValueError,
            "must not be empty, got shape",
        ),
        (lambda: posenc.plot.heat_map([["a"]]), TypeError, "heat_map: table: must be an array of"),
        (lambda: posenc.plot.heat_map([[1]], limit=0), ValueError, "heat_map: limit: must be fini"),
        (lambda: posenc.plot.similarity([[1.0]], 1), IndexError, "similarity: position: must be"),
        (lambda: posenc.plot.similarity([[1.0]], 0, at=[1]), IndexError, "similarity: at: must be"),
        (lambda: posenc.plot.similarity([[1.0]], 0, at=[-1]), IndexError, "has 1, got -1"),
        (lambda: posenc.plot.similarity([[1.0]], 0, at=0.5), TypeError, "got 0-d float64"),
        (lambda: posenc.plot.wavelengths(0), ValueError, "wavelengths: dim: must be"),
    ],
)
def test_errors_come_before_any_figure(call, error, message, plt):
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
    assert plt.get_fignums() == []


def test_without_matplotlib():
    """`import posenc` does not load it, and the module says which extra is missing."""
    program = """
import sys
import posenc
import posenc.plot
assert not any(name.split(".")[0] == "matplotlib" for name in sys.modules)
sys.modules["matplotlib"] = None
try:
    posenc.plot.wavelengths(8)
except ImportError as error:
    print(error)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.stderr == ""
    assert result.stdout == "posenc.plot needs matplotlib: pip install 'posenc[plot]'\n"
