"""Code identity: meaning counts, explanation does not."""

import sys
from pathlib import Path

import pytest

from bench.provenance import code_hash

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
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "stranger"]:
        del sys.modules[name]


def test_comments_docstrings_and_layout_do_not_count(package: Path) -> None:
    before = code_hash("stranger.model.Model")
    better = SOURCE.replace("Says what it is.", "Says it better.").replace("scale * x", "(scale*x)")
    (package / "model.py").write_text("# a comment\n" + better)
    (package / "unrelated.py").write_text("other = 2\n")
    assert code_hash("stranger.model.Model") == before


def test_code_counts_also_where_it_is_imported(package: Path) -> None:
    before = code_hash("stranger.model.Model")
    (package / "layers.py").write_text("scale = 3\n")
    after_layer = code_hash("stranger.model.Model")
    (package / "model.py").write_text(SOURCE.replace("scale * x", "scale + x"))
    assert len({before, after_layer, code_hash("stranger.model.Model")}) == 3


def test_relative_imports_are_followed(package: Path) -> None:
    relative = SOURCE.replace("from stranger.layers", "from .layers")
    (package / "model.py").write_text(relative)
    before = code_hash("stranger.model.Model")
    (package / "layers.py").write_text("scale = 3\n")
    assert code_hash("stranger.model.Model") != before
