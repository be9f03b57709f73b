"""Corpora against documents that were written by hand, and each mistake as one sentence."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from tasks.text.corpora import Corpus, articles_corpus, stories_corpus
from tasks.text.errors import TextError
from tasks.text.sources import files, hub
from tasks.text.sources.hub import HubCorpus

DOCUMENTS = ["One day, Tom ran.\nHe fell.", "Café ☕ was “closed”.", " a b "]


def articles(path: Path) -> list[str]:
    return list(articles_corpus("local", path=path).documents("articles"))


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_every_format_gives_the_documents_that_were_written(tmp_path: Path) -> None:
    marked = "".join(f"{text}\n<|endoftext|>\n" for text in DOCUMENTS)
    objects = "\n\n".join(json.dumps({"id": 1, "text": text}) for text in DOCUMENTS)
    strings = "".join(json.dumps(text) + "\n" for text in DOCUMENTS)
    parquet.write_table(pa.table({"text": [*DOCUMENTS, None, ""]}), tmp_path / "a.parquet")
    assert articles(tmp_path / "a.parquet") == DOCUMENTS
    assert articles(write(tmp_path / "marked.txt", marked)) == DOCUMENTS
    assert articles(write(tmp_path / "windows.txt", marked.replace("\n", "\r\n"))) == DOCUMENTS
    assert articles(write(tmp_path / "objects.jsonl", objects)) == DOCUMENTS
    assert articles(write(tmp_path / "strings.json", "\ufeff" + strings)) == DOCUMENTS
    lines = write(tmp_path / "lines.txt", "one\n\n two<|endoftext\n  \nthree")
    assert articles(lines) == ["one", " two<|endoftext", "three"]


def test_a_folder_gives_the_splits_and_all_articles(tmp_path: Path) -> None:
    write(tmp_path / "train.txt", "a\nb\n")
    write(tmp_path / "validation.jsonl", '"c"\n')
    write(tmp_path / "test.txt", "d\n")
    write(tmp_path / "README.md", "no documents")
    corpus = stories_corpus("local", path=str(tmp_path))
    assert {split: list(corpus.documents(split)) for split in corpus.splits} == {
        "train": ["a", "b"],
        "valid": ["c"],
    }
    assert articles(tmp_path) == ["d", "a", "b", "c"]


@given(texts=st.lists(st.text("abc", min_size=1, max_size=8), min_size=2, unique=True))
def test_a_single_file_is_split_without_overlap_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    path = write(tmp_path_factory.mktemp("file") / "all.txt", "\n".join(texts))
    corpus = stories_corpus("local", path=path)
    train, valid = (list(corpus.documents(split)) for split in corpus.splits)
    assert train
    assert valid
    assert [text for text in texts if text not in valid] == train
    assert [text for text in texts if text in valid] == valid


def test_about_one_document_in_fifty_is_held_out(tmp_path: Path) -> None:
    path = write(tmp_path / "all.txt", "\n".join(str(number) for number in range(10_000)))
    held_out = len(list(stories_corpus("local", path=path).documents("valid")))
    assert held_out == pytest.approx(200, abs=4 * 14)  # four standard deviations


def test_one_document_cannot_be_split(tmp_path: Path) -> None:
    corpus = stories_corpus("local", path=write(tmp_path / "one.txt", "alone\nalone\n"))
    with pytest.raises(TextError, match="too few different documents"):
        list(corpus.documents("train"))


def test_generated_documents_are_a_function_of_seed_and_index() -> None:
    small, large = (stories_corpus("grammar", size=size) for size in (40, 80))
    train = list(large.documents("train"))
    assert list(small.documents("train")) == train[:40]
    assert list(large.documents_from(70, "train")) == train[70:]
    assert list(small.documents("valid")) == list(large.documents("valid"))[:2]
    assert not set(large.documents("valid")) & set(train)
    other = stories_corpus("grammar", size=40, seed=1)
    assert other.key("train") != small.key("train")
    assert not set(other.documents("train")) & set(train)


def test_a_key_tells_one_state_of_a_file_from_the_next(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "one\n")
    corpus = articles_corpus("local", path=path)
    before = corpus.key("articles")
    assert before == articles_corpus("local", path=path).key("articles")
    write(path, "two\n")
    assert corpus.key("articles") != before
    assert str(tmp_path) not in json.dumps(before)


def test_a_hub_dataset_is_read_by_the_library_from_its_layout(tmp_path: Path) -> None:
    """The same call on a folder with the layout of a hub repository."""
    repository = tmp_path / "dataset"
    (repository / "20231101.simple").mkdir(parents=True)
    table = pa.table({"title": ["t"] * 4, "text": [*DOCUMENTS, " "]})
    parquet.write_table(table, repository / "20231101.simple" / "train-00000-of-00001.parquet")
    write(
        repository / "README.md",
        "---\nconfigs:\n- config_name: 20231101.simple\n  data_files:\n  - split: train\n"
        "    path: 20231101.simple/train-*\n---\n",
    )
    corpus = HubCorpus(
        "x", "y", str(repository), "0" * 40, {"articles": ("train", 100)}, "20231101.simple"
    )
    assert list(corpus.documents("articles")) == DOCUMENTS


def test_no_more_of_the_hub_is_read_than_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of the hub's dataset that ends early: whoever reads on meets what is no Parquet."""
    for split in ("train", "validation"):
        texts = [f"{split} {number}" for number in range(50)]
        first = tmp_path / f"{split}-00000-of-00002.parquet"
        parquet.write_table(pa.table({"text": texts}), first, row_group_size=10)
        write(tmp_path / f"{split}-00001-of-00002.parquet", "no Parquet")
    monkeypatch.setattr(hub, "TINYSTORIES", str(tmp_path))
    corpus = stories_corpus("tinystories", size=40)
    assert list(corpus.documents("train")) == [f"train {number}" for number in range(40)]
    assert list(corpus.documents("valid")) == ["validation 0", "validation 1"]
    whole, other = stories_corpus("tinystories"), stories_corpus("tinystories", size=41)
    assert len({corpus.name, whole.name, other.name}) == 3  # never ranked together
    assert len({json.dumps(one.key("train")) for one in (corpus, whole, other)}) == 3
    with pytest.raises(TextError, match="cannot be read from the Hugging Face hub"):
        list(whole.documents("train"))


def test_two_halves_share_no_article_and_hold_all(tmp_path: Path) -> None:
    texts = [f"article {number}" for number in range(200)]
    path = write(tmp_path / "a.txt", "\n".join(texts))
    halves = [articles_corpus("local", path=path, half=number) for number in (1, 2)]
    first, second = (list(half.documents("articles")) for half in halves)
    assert sorted([*first, *second]) == sorted(texts)
    assert min(len(first), len(second)) > 70
    write(path, "\n".join(texts[::-1]))  # an article's half does not depend on the others
    assert list(halves[0].documents("articles")) == first[::-1]
    assert halves[0].key("articles") != halves[1].key("articles")


def test_hub_corpora_are_pinned() -> None:
    for corpus in (stories_corpus("tinystories"), articles_corpus("simple_wikipedia")):
        for split in corpus.splits:
            revision = corpus.key(split)["revision"]
            assert len(bytes.fromhex(revision)) == 20
            assert corpus.source.endswith(revision)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.txt", "", "a.txt: the corpus is empty"),
        ("a.jsonl", "\n \n", "a.jsonl: the corpus is empty"),
        ("a.txt", "good\nna\xefve\n".encode("latin-1"), "a.txt, line 2: byte 3 is not UTF-8"),
        ("a.txt", "good\nbad".encode("utf-16"), "a.txt, line 1: byte 1 is not UTF-8"),
        ("a.txt", b"ok\n" + b"x" * (files.LONGEST_DOCUMENT + 1), "a.txt, line 2: .* 16 MiB"),
        ("a.jsonl", '"good"\n{"text": "cut', "a.jsonl, line 2: expected a JSON string"),
        ("a.jsonl", '{"story": "no"}', "a.jsonl, line 1: .* an object with 'text'"),
        ("a.json", '["one", "two"]', "a.json, line 1: expected a JSON string"),
        ("a.jsonl", '"ok"\n"\\ud83d"', "a.jsonl, line 2: .* surrogate"),
        ("a.parquet", b"PAR1 and nothing", "a.parquet is not a whole Parquet file"),
        ("a.csv", "text\none\n", "a.csv: expected a file that ends with .txt"),
    ],
)
def test_a_bad_file_is_one_sentence(
    tmp_path: Path, name: str, content: str | bytes, sentence: str
) -> None:
    with pytest.raises(TextError, match=sentence) as caught:
        articles(write(tmp_path / name, content))
    assert "\n" not in str(caught.value)


def test_a_marked_file_without_a_second_mark_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONGEST_DOCUMENT", 1000)
    path = write(tmp_path / "a.txt", "one\n<|endoftext|>\n" + "two\n" * 300)
    with pytest.raises(TextError, match="a document of more than"):
        articles(path)


def test_a_wrong_column_is_one_sentence(tmp_path: Path) -> None:
    for table, sentence in (
        ({"story": ["a"]}, r"no column 'text' \(it has story\)"),
        ({"text": [1, 2]}, "column 'text' holds int64, expected strings"),
    ):
        parquet.write_table(pa.table(table), tmp_path / "a.parquet")
        with pytest.raises(TextError, match=sentence):
            articles(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: stories_corpus("books"), "no corpus 'books'"),
        (lambda: stories_corpus("local"), "'local' needs a path"),
        (lambda: stories_corpus("babistories"), r"volumes babistories-dataset\.7z\.001"),
        (lambda: stories_corpus("grammar", path="x"), "takes no path"),
        (lambda: stories_corpus("local", path="x", size=5), "takes no size"),
        (lambda: articles_corpus("grammar", size=0), "at least 1 document"),
        (lambda: articles_corpus("local", path="nowhere"), "no file or folder nowhere"),
    ],
)
def test_a_wrong_choice_is_one_sentence(make: type[Corpus], sentence: str) -> None:
    with pytest.raises(TextError, match=sentence):
        make()


def test_a_folder_without_valid_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="has no file that ends with"):
        stories_corpus("local", path=tmp_path)
    write(tmp_path / "train.txt", "a\n")
    with pytest.raises(TextError, match=r"no file valid\.txt"):
        stories_corpus("local", path=tmp_path)
