"""The package as installed: metadata, typing files, public names and their documentation."""

import importlib.metadata
import importlib.resources
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import posenc

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = importlib.resources.files("posenc")


@pytest.fixture(scope="module")
def metadata():
    try:
        return importlib.metadata.metadata("posenc")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("posenc is built in place, not installed")


def test_version(metadata):
    assert re.fullmatch(r"\d+\.\d+\.\d+", posenc.__version__)
    assert metadata["Version"] == posenc.__version__


def test_changelog_knows_the_version():
    assert f"## [{posenc.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_metadata(metadata):
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"


def test_numpy_is_the_only_requirement(metadata):
    always = [item for item in metadata.get_all("Requires-Dist") if "extra ==" not in item]
    assert always == ["numpy>=2.0"]


def test_command(metadata):
    scripts = importlib.metadata.entry_points(group="console_scripts", name="posenc")
    assert {script.value for script in scripts} == {"posenc.__main__:main"}
    assert all(callable(script.load()) for script in scripts)


def test_models_are_loaded_with_the_first_config():
    """Half of the time of the import would go into a table that most programs never look at."""
    code = """
import sys, posenc
assert not {"posenc._models", "posenc._recipes", "matplotlib", "gguf"} & set(sys.modules)
posenc.plan_from_config({"head_dim": 8})
assert "posenc._models" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_typing_files_are_shipped():
    assert (PACKAGE / "py.typed").is_file()
    assert (PACKAGE / "_core.pyi").is_file()


def test_package_data_names_the_typing_files():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(config["tool"]["setuptools"]["package-data"]["posenc"]) == {"py.typed", "*.pyi"}


def test_public_names_exist_once():
    assert len(posenc.__all__) == len(set(posenc.__all__))
    assert [name for name in posenc.__all__ if not hasattr(posenc, name)] == []


def test_every_public_name_is_listed():
    """A function or class that a user can see without an underscore is in __all__."""
    seen = {
        name
        for name, value in vars(posenc).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or callable(value))
        and getattr(value, "__module__", "").startswith("posenc")
    }
    assert seen - set(posenc.__all__) == set()


def undocumented(names):
    """Public names without a docstring, and functions or classes whose docstring has no example."""
    bad = []
    for name in names:
        value = getattr(posenc, name)
        text = inspect.getdoc(value) or ""
        if callable(value) and ">>> " not in text or inspect.ismodule(value) and not text:
            bad.append(name)
    return bad


def test_every_public_name_has_an_example():
    assert undocumented(posenc.__all__) == []


def test_missing_example_is_seen(monkeypatch):
    def bare():
        """No example."""

    monkeypatch.setattr(posenc, "bare", bare, raising=False)
    assert undocumented(["bare"]) == ["bare"]


@pytest.mark.parametrize("mark", ["ci:install-and-run", "ci:install-and-test"])
def test_readme_commands_are_what_ci_runs(mark):
    """.ci/run takes the two commands from the README: a bash block after a comment each."""
    readme = (ROOT / "README.md").read_text()
    assert len(re.findall(rf"(?m)^<!-- {mark} -->\n+```bash\n[^`]+\n```$", readme)) == 1
    assert mark in (ROOT / ".ci" / "run").read_text()
