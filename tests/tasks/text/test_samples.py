"""Named samples: rows of a public dataset that are known by their hashes."""

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from bench.records.named_text import named_text, named_texts, with_named_text
from tasks.text.corpora import articles_corpus, stories_corpus
from tasks.text.errors import TextError
from tasks.text.preparation import prepare
from tasks.text.sources import samples
from tasks.text.sources.samples import RowList, SampleCorpus, Selection, letters_of, select
from tasks.text.tokenizers import Tokenizer
from tests.committed import committed_records
from tests.configurations import compose

SPLITS = {"train": 30, "valid": 10}


@pytest.fixture
def stories() -> list[str]:
    """Generated stories, the last twenty of which are in no sample."""
    return list(stories_corpus("grammar", size=60).documents("train"))


@pytest.fixture
def repository(tmp_path: Path, stories: list[str]) -> Path:
    """A dataset in the layout of the Hugging Face hub: half of the stories in Parquet files of two
    splits with blank lines between their lines, the others in a text file, none in its order."""
    folder = tmp_path / "hub" / "stories"
    (folder / "data").mkdir(parents=True)
    public = list(stories)
    random.Random(0).shuffle(public)
    for split, texts in (("train", public[:20]), ("validation", public[20:30])):
        spread = [text.replace("\n", "\n\n") + "\n" for text in texts]
        table = pa.table({"text": spread, "id": list(range(len(spread)))})
        parquet.write_table(table, folder / "data" / f"{split}-00000-of-00001.parquet")
    marked = "".join(f" {text.replace('. ', '.  ')}\n<|endoftext|>\n" for text in public[30:])
    (folder / "stories.txt").write_text(marked)
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n"
        "    path: data/train-*\n  - split: validation\n    path: data/validation-*\n---\n"
    )
    return folder


@pytest.fixture
def lists(
    tmp_path: Path, repository: Path, stories: list[str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with the list of the sample ``some``: the first forty stories."""
    folder = tmp_path / "lists"
    folder.mkdir()
    RowList.of(stories[:40]).write(folder / "some.npz")
    place = {"repository": str(repository)}
    facts = {
        "licence": "CC0",
        "page": "https://example.org/stories",
        "splits": SPLITS,
        "bytes": SPLITS,
        "public": [
            {**place, "file": "stories.txt"},
            {**place, "split": "validation"},
            {**place, "split": "train"},
        ],
    }
    (folder / "some.yaml").write_text(yaml.safe_dump(facts))
    monkeypatch.setattr(samples, "SAMPLES", folder)
    monkeypatch.setattr(SampleCorpus, "_cache", lambda self: tmp_path / "kept" / "rows.parquet")
    return folder


@pytest.mark.usefixtures("lists")
def test_rows_are_selected_from_a_public_dataset_in_their_own_order(stories: list[str]) -> None:
    corpus = stories_corpus("local", path="sample://some")
    assert list(corpus.documents("train")) == stories[:30]
    assert list(corpus.documents("valid")) == stories[30:40]
    assert (corpus.name, corpus.licence) == ("some", "CC0")
    (note,) = corpus.notes  # type: ignore[attr-defined]
    assert note == (
        "some: 40 of 40 rows were found, 40 byte for byte: it is the text of the committed records"
    )


@pytest.mark.usefixtures("lists")
def test_a_public_dataset_is_read_once(repository: Path, stories: list[str]) -> None:
    list(SampleCorpus("some").documents("train"))
    for file in repository.rglob("*.*"):
        file.unlink()
    assert list(SampleCorpus("some").documents("valid")) == stories[30:40]


def test_tokens_are_those_of_a_local_copy_from_wherever_rows_come(
    tmp_path: Path, lists: Path, repository: Path, stories: list[str], gpt2: Tokenizer
) -> None:
    """With GPT-2's tokens by tiktoken, of the dataset, of a copy of it and of the very rows."""
    copy = tmp_path / "copy.jsonl"
    copy.write_text("".join(json.dumps(text) + "\n" for text in reversed(stories)))
    own = tmp_path / "own"
    own.mkdir()
    for split, texts in (("train", stories[:30]), ("valid", stories[30:40])):
        (own / f"{split}.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    hashes = set()
    for place in (own, "sample://some", f"sample://some{copy}", f"sample://some{repository}"):
        corpus = stories_corpus("local", path=place)
        streams = [prepare(corpus, split, gpt2, tmp_path / "prepared") for split in SPLITS]
        hashes.add(tuple(stream.manifest.tokens_sha256 for stream in streams))
    assert len(hashes) == 1


@pytest.mark.usefixtures("lists")
def test_a_part_of_the_rows_is_counted_and_none_is_refused(
    tmp_path: Path, stories: list[str]
) -> None:
    altered = [stories[0].replace(".", "!"), *stories[1:35]]  # the same letters
    part = tmp_path / "part.jsonl"
    part.write_text("".join(json.dumps(text) + "\n" for text in altered))
    corpus = SampleCorpus("some", part)
    assert list(corpus.documents("valid")) == stories[30:35]
    assert next(iter(corpus.documents("train"))) == altered[0]
    assert corpus.source.endswith("34 of the 40 rows")
    (note,) = corpus.notes
    assert "35 of 40 rows were found, 34 byte for byte: it is another text" in note
    part.write_text('"nothing of it"\n')
    with pytest.raises(TextError, match="none of the 40 rows of some is in"):
        list(SampleCorpus("some", part).documents("train"))
    with pytest.raises(TextError, match=r"no sample 'other' of text: expected some"):
        stories_corpus("local", path="sample://other")


def test_an_article_is_known_by_its_beginning() -> None:
    articles = [f"{name} is a month.\n\nHistory\nIt has days. " * 9 for name in ("May", "June")]
    articles = [text.strip() for text in articles]
    rows = RowList.of(articles, whole=False)
    public = [
        f"{text.replace('History', '== History ==')}\n\n\nReferences\nA  book" for text in articles
    ]
    found = select([*reversed(public), "July is no row."], rows)
    assert found.texts == dict(enumerate(articles))
    assert found.exact == {0, 1}


def test_a_better_copy_of_a_row_wins() -> None:
    found = Selection()
    for text, exact in (("a b.", False), ("a, b", True), ("a; b", False)):
        found.add(0, text, exact)
    assert found.texts == {0: "a, b"}
    assert letters_of("À bientôt, 2 ²_x") == "àbientôt2²x"


def test_the_committed_lists_are_small_and_have_as_many_rows_as_the_records() -> None:
    for text in named_texts():
        path = samples.SAMPLES / f"{text.name}.npz"
        assert path.stat().st_size < 1_000_000
        facts = yaml.safe_load(path.with_suffix(".yaml").read_text())
        assert len(RowList.read(path).key) == sum(facts["splits"].values())


def test_every_committed_language_record_at_laptop_has_a_named_text() -> None:
    tasks = ("babistories", "wikipedia", "attention", "story_prompts")
    records = [r for r in committed_records() if r.task in tasks and r.preset == "laptop"]
    facts = [facts for r in records for facts in r.arrays.get("corpus", {}).values()]
    assert len(facts) > 400
    names = {
        (one["documents"], getattr(named_text(one["tokens_sha256"]), "name", "")) for one in facts
    }
    assert names == {
        (22279, "tinystories_sample"),
        (2000, "tinystories_sample"),
        (963, "simple_wikipedia_sample"),
    }
    shown = with_named_text(next(r for r in records if "corpus" in r.arrays))
    assert shown.arrays["corpus"]["train"]["licence"] == "CDLA-Sharing-1.0"


def test_a_run_on_a_sample_is_the_run_on_a_copy_of_it() -> None:
    words = ["tasks=wikipedia", "models=gpt2", "preset=laptop"]
    local = compose([*words, "tasks.corpus=local", "tasks.stories=a", "tasks.wiki=b"])
    sample = compose([*words, "tasks.corpus=tinystories_sample"])
    assert sample.resolved() == local.resolved()
    assert sample.tasks["stories"] == "sample://tinystories_sample"
    assert sample.tasks["wiki"] == "sample://simple_wikipedia_sample"
    of_copies = compose(
        [
            *words,
            *("tasks.corpus=tinystories_sample", "tasks.stories=/a"),
            *("tasks.articles=simple_wikipedia_sample", "tasks.wiki=/b"),
        ]
    )
    assert of_copies.resolved() == local.resolved()
    assert of_copies.tasks["stories"] == "sample://tinystories_sample/a"
    assert of_copies.tasks["wiki"] == "sample://simple_wikipedia_sample/b"
    articles = articles_corpus("local", path=of_copies.tasks["wiki"])
    assert articles.splits == ("articles",)
