"""Every notebook runs, and what is stored in it is what a run gives, without errors and paths."""

import base64
import copy
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import posenc

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}


def execute(notebook, folder):
    """Run a copy of the notebook in an empty folder; the copy with its outputs."""
    fresh = copy.deepcopy(notebook)
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(fresh, timeout=300, kernel_name="python3", resources=where).execute()
    return fresh


@pytest.fixture(autouse=True)
def kernel_environment(monkeypatch):
    """The kernel imports the package under test, and draws into the notebook."""
    monkeypatch.setenv("PYTHONPATH", str(Path(posenc.__file__).parents[1]))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell):
    """What a cell shows, without its values: a last digit may differ on another machine."""
    return [(out.output_type, sorted(out.get("data", {}))) for out in cell.outputs]


def problems(notebook):
    """What is wrong with a notebook as it is stored."""
    found = []
    kernel = notebook.metadata.get("kernelspec", {}).get("name")
    if kernel != "python3":
        found.append(f"kernel {kernel}")
    counts = [cell.execution_count for cell in code(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        found.append(f"not run from top to bottom: {counts}")
    outputs = [out for cell in code(notebook) for out in cell.outputs]
    found += [f"error {out.ename}" for out in outputs if out.output_type == "error"]
    found += [f"stderr {out.text!r}" for out in outputs if out.get("name") == "stderr"]
    text = copy.deepcopy(notebook)
    for cell in code(text):
        for out in cell.outputs:
            out.get("data", {}).pop("image/png", None)
    path = re.compile(r"(?<![\w.])/(home|root|tmp|usr|Users|work|opt)/\w+|\b[A-Z]:\\\\\w+")
    found += [f"path {match.group()}" for match in path.finditer(nbformat.writes(text))]
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    found += [f"no {part}" for part in ("What you will see", "## Exercises") if part not in prose]
    if not any("assert" in cell.source for cell in code(notebook)):
        found.append("no assert")
    return found


def test_there_are_notebooks():
    assert [path.name[:2] for path in NOTEBOOKS] == [
        f"{i:02}" for i in range(1, len(NOTEBOOKS) + 1)
    ]
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert problems(notebook) == []
    assert path.stat().st_size < 1_000_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    fresh = execute(notebook, tmp_path)
    assert [kinds(cell) for cell in code(fresh)] == [kinds(cell) for cell in code(notebook)]
    assert list(tmp_path.iterdir()) == []  # a lesson leaves no files behind


def lesson(source="assert True", outputs=(), **changes):
    cells = [
        new_markdown_cell("**What you will see**"),
        new_code_cell(source, execution_count=1, outputs=list(outputs)),
        new_markdown_cell("## Exercises"),
    ]
    notebook = new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC, **changes})
    return nbformat.from_dict(notebook)


def error():
    return new_output("error", ename="ValueError", evalue="no", traceback=[])


def stream(name, text):
    return new_output("stream", name=name, text=text)


def test_a_lesson_passes():
    picture = base64.b64encode(b"\xfe\xd9\xa9\xff" * 9).decode()
    assert problems(lesson(outputs=[new_output("display_data", {"image/png": picture})])) == []


@pytest.mark.parametrize(
    ("notebook", "problem"),
    [
        (lesson(kernelspec={**KERNELSPEC, "name": "venv"}), "kernel venv"),
        (lesson(source="1"), "no assert"),
        (lesson(outputs=[error()]), "error ValueError"),
        (lesson(outputs=[stream("stderr", "warning")]), "stderr 'warning'"),
        (
            lesson(outputs=[stream("stdout", "see /{}/me/x".format("home"))]),
            "path /{}/me".format("home"),
        ),
    ],
)
def test_problems_are_seen(notebook, problem):
    assert problems(notebook) == [problem]
    notebook.cells = notebook.cells[1:]
    notebook.cells[0].execution_count = None
    assert len(problems(notebook)) == 3


def test_a_failing_cell_is_seen(tmp_path):
    with pytest.raises(CellExecutionError, match="AssertionError"):
        execute(lesson(source="assert 1 + 1 == 3"), tmp_path)
