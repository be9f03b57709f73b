"""Code identity: meaning counts, explanation does not."""

import re
import sys
from pathlib import Path

import pytest

from bench.records.code import code_hash, forget_code, imported_modules
from core.errors import UserError

SOURCE = '''"""A model."""
from stranger.layers import scale

class Model:
    """Says what it is."""
    def __call__(self, x):
        return scale * x
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "stranger"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "layers.py").write_text("scale = 2\n")
    (folder / "unrelated.py").write_text("other = 1\n")
    (folder / "model.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    forget_code()
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "stranger"]:
        del sys.modules[name]


def fresh_hash() -> str:
    """The hash in a process that starts now."""
    forget_code()
    return code_hash("stranger.model.Model")


def test_comments_docstrings_and_layout_do_not_count(package: Path) -> None:
    before = code_hash("stranger.model.Model")
    better = SOURCE.replace("Says what it is.", "Says it better.").replace("scale * x", "(scale*x)")
    (package / "model.py").write_text("# a comment\n" + better)
    (package / "unrelated.py").write_text("other = 2\n")
    assert fresh_hash() == before


def test_code_counts_also_where_it_is_imported(package: Path) -> None:
    before = code_hash("stranger.model.Model")
    (package / "layers.py").write_text("scale = 3\n")
    after_layer = fresh_hash()
    (package / "model.py").write_text(SOURCE.replace("scale * x", "scale + x"))
    assert len({before, after_layer, fresh_hash()}) == 3


def test_relative_imports_are_followed(package: Path) -> None:
    relative = SOURCE.replace("from stranger.layers", "from .layers")
    (package / "model.py").write_text(relative)
    before = code_hash("stranger.model.Model")
    (package / "layers.py").write_text("scale = 3\n")
    assert fresh_hash() != before


@pytest.mark.parametrize("inside", [SOURCE, "from .model import Model\n"])
def test_a_class_of_the_package_itself_counts(inside: str, package: Path) -> None:
    """Defined in its ``__init__.py``, or shown there: ``stranger.Model``, the shortest name."""
    (package / "__init__.py").write_text(inside)
    assert {"stranger", "stranger.layers"} <= set(imported_modules("stranger"))
    before = code_hash("stranger.Model")
    (package / "layers.py").write_text("scale = 3\n")
    forget_code()
    assert code_hash("stranger.Model") != before


def test_files_beside_a_module_and_layers_of_this_project_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lonely.py").write_text("import helper_beside\nimport torch\nclass Model: ...\n")
    (tmp_path / "helper_beside.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert set(imported_modules("lonely")) == {"lonely", "helper_beside"}
    followed = imported_modules("tasks.regbench")
    assert {"tasks.interface", "models.specification", "tasks.regbench.generator"} <= set(followed)
    assert not any(name.startswith(("torch", "bench")) for name in followed)


def test_code_that_is_edited_later_is_not_what_this_process_runs(package: Path) -> None:
    imported = code_hash("stranger.model.Model")
    (package / "layers.py").write_text("scale = 3\n")
    assert code_hash("stranger.model.Model") == imported
    forget_code()
    assert code_hash("stranger.model.Model") != imported


@pytest.mark.parametrize(
    ("code", "why"), [("x = (\n", "line 1, is no Python"), ("\0", "no Python")]
)
def test_a_file_that_is_no_python_is_named(code: str, why: str, package: Path) -> None:
    (package / "layers.py").write_text(code)
    with pytest.raises(UserError, match=f"{re.escape(str(package / 'layers.py'))}.*{why}"):
        fresh_hash()


def test_a_name_that_no_file_can_have_names_no_module() -> None:
    assert imported_modules(f"models.{'a' * 300}") == {}
    assert imported_modules(f"models.{'a' * 300}.b") == {}
