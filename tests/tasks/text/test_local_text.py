"""Text of the user's own: what is read of a file or a folder, and what is said of it."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from bench.training import text_notes
from bench.training.text_notes import print_notes_on_text, shared_documents
from tasks.babistories import BabiStories
from tasks.text.preparation import prepare
from tasks.text.sources.files import END_MARK, read_documents
from tasks.text.sources.local import FileCorpus, local_stories
from tasks.text.tokenizers import load_tokenizer

STORIES = [f"Once there was a cat number {n}.\nIt ran." for n in range(40)]


@pytest.mark.parametrize(
    ("between", "noted"),
    [
        (f"\n{END_MARK}\n", False),
        (f"{END_MARK}\n", True),
        (f"\n{END_MARK} \n", True),
        (f"\n \t{END_MARK}\n", True),
        (f"\r\n{END_MARK}\r\n", False),
        (END_MARK, True),
    ],
)
def test_every_end_mark_ends_a_document(tmp_path: Path, between: str, noted: bool) -> None:
    file = tmp_path / "stories.txt"
    file.write_text(between.join(STORIES) + between, newline="")
    assert list(read_documents(file)) == STORIES
    corpus = local_stories(file)
    assert isinstance(corpus, FileCorpus)
    assert [END_MARK in note for note in corpus.notes] == [True] * noted
    # A stream that was made when such marks were text has another name.
    assert ("end_marks" in corpus.key("train")) == noted
    documents = sorted(d for split in corpus.splits for d in corpus.documents(split))
    assert documents == sorted(STORIES)


def test_marks_in_other_kinds_of_files_stay_text_and_are_said(tmp_path: Path) -> None:
    file = tmp_path / "stories.jsonl"
    file.write_text("".join(json.dumps(story + END_MARK) + "\n" for story in STORIES))
    assert list(read_documents(file)) == [story + END_MARK for story in STORIES]
    corpus = local_stories(file)
    assert isinstance(corpus, FileCorpus)
    assert "ordinary text" in corpus.notes[0]
    assert "end_marks" not in corpus.key("train")
    assert not getattr(local_stories(plain(tmp_path / "plain.txt", STORIES)), "notes", None)


def plain(path: Path, documents: list[str]) -> Path:
    """A file with a document in each line."""
    path.write_text("\n".join(text.replace("\n", " ") for text in documents))
    return path


@pytest.mark.parametrize(
    ("names", "read"),
    [
        (["train.txt", "train_valid_merged.txt", "training_log.txt"], ["train.txt"]),
        (["train-00000-of-00002.txt", "train-00001-of-00002.txt"], None),
        (["train_0.txt", "train_1.jsonl", "train.clean.txt"], ["train_0.txt", "train_1.jsonl"]),
        (["train.jsonl", "train.txt"], ["train.txt"]),  # one text in two forms
        (["TrainingSet_clean.txt"], None),  # no other begins so
        (["training.txt", "trainer.txt"], ["training.txt"]),
    ],
)
def test_of_a_folder_the_files_of_a_split_are_read_and_the_others_are_named(
    tmp_path: Path, names: list[str], read: list[str] | None
) -> None:
    for name in (*names, "valid.txt"):
        plain(tmp_path / name, ["text"])
    corpus = local_stories(tmp_path)
    assert isinstance(corpus, FileCorpus)
    expected = sorted(read or names)
    assert [file["name"] for file in corpus.key("train")["files"]] == expected
    said = " ".join(corpus.notes)
    left_out = set(names) - set(expected)
    assert bool(said) == bool(left_out)
    assert all(name in said.partition("not read: ")[2] for name in left_out)


def test_held_out_text_that_is_also_trained_on_is_counted_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    random.seed(1)
    words = [
        "the",
        "a",
        "dog",
        "cat",
        "sun",
        "moon",
        "ran",
        "saw",
        "lost",
        "found",
        "happy",
        "sad",
        "big",
        "red",
    ]
    texts = [" ".join(random.choices(words, k=30)) + "." for _ in range(260)]
    text, prepared = tmp_path / "text", tmp_path / "prepared"
    text.mkdir()
    plain(text / "train.txt", texts[:200])
    plain(text / "valid.txt", [*texts[150:250], texts[0]])
    task = BabiStories(
        corpus="local",
        stories=str(text),
        tokenizer="grammar",
        length=16,
        held_out_tokens=200,
        estimate_windows=4,
        prepared=str(prepared),
    )
    task.prepare(lambda *told: None)
    monkeypatch.setattr(text_notes, "_printed", set())
    print_notes_on_text(task)
    said = capsys.readouterr().err
    assert "note: 51 of the 101 documents of the held-out text are also in the training" in said
    print_notes_on_text(task)  # once in a command
    assert not capsys.readouterr().err
    (kept,) = prepared.glob("shared-documents-*.json")  # counted once for these streams
    kept.write_text("7")
    assert shared_documents(task.stream("train"), task.stream("valid")) == 7
    kept.write_text("seven")
    assert shared_documents(task.stream("train"), task.stream("valid")) == 51
    plain(text / "valid.txt", texts[200:])
    corpus = local_stories(text)
    streams = [prepare(corpus, s, load_tokenizer("grammar"), prepared) for s in corpus.splits]
    assert shared_documents(*streams) == 0
    assert np.array_equal(streams[0].tokens, task.stream("train").tokens)
