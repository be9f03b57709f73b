"""The folder of an exported site: names of its files, what a new export replaces, wrong words."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import UserError
from leaderboards import export
from leaderboards.build import FOLDER
from leaderboards.site import folder
from leaderboards.site.addresses import slug

HASH = "0" * 64


@pytest.mark.parametrize(
    "texts",
    [("a", "b"), ("a/b",), ("A",), ("é",), ("..",), ("",), ("index",), ("x" * 500,), ("a" * 499,)],
)
def test_names_of_files_are_plain_and_differ(texts: tuple[str, ...]) -> None:
    others = {slug("a", "b c"), slug("a"), slug("x" * 501), slug("e"), slug("a-b"), slug(".")}
    made = slug(*texts)
    assert made not in others
    assert made.isascii()
    assert made == made.lower()
    assert made.replace("-", "").replace("_", "").isalnum()
    assert len(made) < 120
    assert made != "index"


SITE = {"index.html": b"one", "a/b.html": b"two", ".nojekyll": b""}


def test_an_export_replaces_what_it_wrote_and_nothing_else(tmp_path: Path) -> None:
    site = tmp_path / "deep" / "site"
    assert folder.write(site, HASH, SITE.items()) == (3, 3)
    (site / "CNAME").write_text("mine")
    (site / "a" / "mine.txt").write_text("mine")
    changed = {"index.html": b"other", "c/d.html": b"new", ".nojekyll": b""}
    assert folder.write(site, HASH, changed.items()) == (3, 3)
    assert (site / "index.html").read_bytes() == b"other"
    assert not (site / "a" / "b.html").exists()
    assert (site / "a" / "mine.txt").read_text() == (site / "CNAME").read_text() == "mine"
    assert folder.write(site, HASH, changed.items()) == (3, 0)
    listed = json.loads((site / folder.LIST).read_text())
    assert set(listed["files"]) == set(changed)
    assert list(tmp_path.joinpath("deep").iterdir()) == [site]


def test_what_an_export_did_not_write_is_refused_and_stays(tmp_path: Path) -> None:
    holiday, file = tmp_path / "holiday", tmp_path / "file"
    holiday.mkdir()
    (holiday / "picture.jpg").write_text("mine")
    file.write_text("mine")
    for place in (holiday, file):
        with pytest.raises(UserError, match="export"):
            folder.write(place, HASH, SITE.items())
    assert [one.name for one in holiday.iterdir()] == ["picture.jpg"]
    site = tmp_path / "site"
    folder.write(site, HASH, SITE.items())
    for place in ("index.html", "new.html"):  # what was changed, and what lies in the way
        own = site / place
        before = own.read_bytes() if own.exists() else None
        own.write_text("mine")
        with pytest.raises(UserError, match=f"{place} is not what an export wrote"):
            folder.write(site, HASH, {**SITE, "new.html": b"new", "z.html": b"z"}.items())
        assert own.read_text() == "mine"
        assert not (site / "z.html").exists()
        own.unlink() if before is None else own.write_bytes(before)


@pytest.mark.parametrize("place", ["../x", "/etc/x", "a/../../x", "a//b", "", "a/..", "x" * 999])
def test_a_list_that_names_places_outside_is_refused(tmp_path: Path, place: str) -> None:
    outside = tmp_path / "x"
    outside.write_text("mine")
    site = tmp_path / "site"
    site.mkdir()
    content = {"schema_version": 1, "board": HASH, "files": {place: [HASH]}}
    (site / folder.LIST).write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"is not a export"):
        folder.write(site, HASH, SITE.items())
    assert outside.read_text() == "mine"


def test_a_failure_leaves_the_last_site(tmp_path: Path) -> None:
    site = tmp_path / "site"
    folder.write(site, HASH, SITE.items())

    def failing():
        yield "index.html", b"half"
        raise UserError("no more")

    with pytest.raises(UserError, match="no more"):
        folder.write(site, HASH, failing())
    assert (site / "index.html").read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [site]


def test_an_export_that_was_cut_short_can_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    folder.write(site, HASH, SITE.items())
    new = {"index.html": b"other", "a/b.html": b"two", "c.html": b"three", ".nojekyll": b""}
    moved = Path.replace

    def cut(self: Path, target: Path) -> Path:
        if target.name == "c.html":
            raise KeyboardInterrupt
        return moved(self, target)

    monkeypatch.setattr(Path, "replace", cut)
    with pytest.raises(KeyboardInterrupt):
        folder.write(site, HASH, new.items())
    monkeypatch.undo()
    assert (site / "index.html").read_bytes() == b"other"
    folder.write(site, HASH, new.items())
    assert (site / "c.html").read_bytes() == b"three"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name the one folder"),
        (["a", "b"], "name the one folder"),
        (["site", "bord=x"], "did you mean 'board='"),
        (["site", "board=none.parquet"], "there is no board"),
    ],
)
def test_wrong_words_are_one_sentence(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said):
        export.main(words)
    assert list(tmp_path.iterdir()) == []


def test_help_loads_no_library_and_pages_need_no_torch_nor_streamlit() -> None:
    loaded = "import sys; from leaderboards import export; export.main(['--help']); {}"
    heavy = "assert not {{'altair', 'pandas', 'pyarrow', 'torch'}} & sys.modules.keys()"
    pages = "import leaderboards.site.site; assert not {'torch', 'streamlit'} & sys.modules.keys()"
    for code in (
        loaded.format(heavy.replace("{{", "{").replace("}}", "}")),
        f"import sys; {pages}",
    ):
        subprocess.run([sys.executable, "-c", code], check=True, cwd=FOLDER.parent)
