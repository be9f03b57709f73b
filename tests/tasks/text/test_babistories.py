"""BabiStories from real 7z volumes and from extracted files."""

import io
import json
import random
import shutil
from pathlib import Path

import py7zr
import pytest

from tasks.text.corpora import stories_corpus
from tasks.text.errors import TextError
from tasks.text.preparation import prepare
from tasks.text.sources.babistories import JoinedFiles
from tasks.text.tokenizers import Tokenizer

VOLUMES = 5
STORIES = {
    split: [f"{split} {n}\n“{random.Random(n).random()}”" for n in range(size)]
    for split, size in (("train", 2000), ("valid", 20))
}


def lines(split: str) -> bytes:
    return "".join(json.dumps(story) + "\n" for story in STORIES[split]).encode()


@pytest.fixture
def volumes(tmp_path: Path) -> Path:
    """A folder with the two files in an archive of five volumes, as the official one is."""
    archive = io.BytesIO()
    with py7zr.SevenZipFile(archive, "w") as content:
        content.writestr(lines("train"), "traindataset.txt")
        content.writestr(lines("valid"), "data/testdataset.txt")
    content_bytes = archive.getvalue()
    size = -(-len(content_bytes) // VOLUMES)
    folder = tmp_path / "volumes"
    folder.mkdir()
    for number in range(VOLUMES):
        part = content_bytes[number * size : (number + 1) * size]
        (folder / f"babistories-dataset.7z.{number + 1:03d}").write_bytes(part)
    return folder


def volume(folder: Path, number: int) -> Path:
    return folder / f"babistories-dataset.7z.{number:03d}"


def test_volumes_hold_the_stories(volumes: Path, small: Tokenizer, tmp_path: Path) -> None:
    (volumes / "babistories-dataset.7z.001.part").write_text("a stray download")
    corpus = stories_corpus("babistories", path=volumes)
    heard: list[tuple[str, int, int]] = []
    for split, stories in STORIES.items():
        assert list(corpus.documents(split)) == stories
        stream = prepare(corpus, split, small, tmp_path, report=lambda *now: heard.append(now))
        assert [small.decode(stream.document(i)[:-1]) for i in range(len(stream))] == stories
        assert not (stream.folder / "scratch").exists()
        assert corpus.text_bytes(split) == len(lines(split))
    unpacking = [done for description, done, _ in heard if description.startswith("unpacking")]
    total = sum(volume(volumes, number).stat().st_size for number in range(1, VOLUMES + 1))
    assert max(unpacking) == total


def test_unpacked_text_is_kept_for_the_next_attempt(volumes: Path, tmp_path: Path) -> None:
    corpus = stories_corpus("babistories", path=volumes)
    next(corpus.documents("train", scratch=tmp_path / "scratch"))
    for number in range(1, VOLUMES + 1):
        volume(volumes, number).unlink()
    assert list(corpus.documents("train", scratch=tmp_path / "scratch")) == STORIES["train"]


@pytest.mark.parametrize("valid", ["valdataset.txt", "testdataset.txt"])
def test_extracted_files_in_both_spellings(tmp_path: Path, valid: str) -> None:
    (tmp_path / "traindataset.txt").write_bytes(lines("train"))
    with pytest.raises(TextError, match=r"no valdataset\.txt or testdataset\.txt"):
        stories_corpus("babistories", path=tmp_path)
    (tmp_path / valid).write_bytes(lines("valid"))
    corpus = stories_corpus("babistories", path=tmp_path)
    assert {split: list(corpus.documents(split)) for split in corpus.splits} == STORIES
    assert (corpus.name, corpus.licence) == ("babistories", "Apache-2.0")
    assert corpus.source.startswith("https://")


@pytest.mark.parametrize("missing", range(1, VOLUMES + 1))
def test_a_missing_volume_is_named(volumes: Path, missing: int) -> None:
    volume(volumes, missing).unlink()
    with pytest.raises(TextError, match=rf"\.7z\.{missing:03d} is missing"):
        stories_corpus("babistories", path=volumes)


def test_a_volume_that_is_cut_short_or_damaged_is_one_sentence(volumes: Path) -> None:
    whole = volume(volumes, 3).read_bytes()
    volume(volumes, 3).write_bytes(whole[:-1])
    with pytest.raises(TextError, match="one of the others is cut short"):
        stories_corpus("babistories", path=volumes)
    volume(volumes, 3).write_bytes(bytes(byte ^ 255 for byte in whole))
    with pytest.raises(TextError, match=r"7z\.001 to babistories-dataset\.7z\.005 are damaged"):
        list(stories_corpus("babistories", path=volumes).documents("train"))
    volume(volumes, 1).write_text("<html>not found</html>" * 10)
    with pytest.raises(TextError, match="not the first volume of a 7z archive"):
        stories_corpus("babistories", path=volumes)


def test_joined_files_read_like_their_concatenation(volumes: Path, tmp_path: Path) -> None:
    paths = sorted(volumes.iterdir())
    with (tmp_path / "whole").open("wb") as whole:
        for path in paths:
            with path.open("rb") as part:
                shutil.copyfileobj(part, whole)
    draw = random.Random(0)
    with (tmp_path / "whole").open("rb") as whole, JoinedFiles(paths) as raw:
        joined = io.BufferedReader(raw, 100)
        size = (tmp_path / "whole").stat().st_size
        for _ in range(200):
            whence, offset = draw.choice([(0, size), (2, -size), (1, 0)])
            step = draw.randrange(offset + 1) if offset >= 0 else -draw.randrange(-offset)
            assert joined.seek(step, whence) == whole.seek(step, whence)
            length = draw.randrange(size // 2)
            assert joined.read(length) == whole.read(length)
