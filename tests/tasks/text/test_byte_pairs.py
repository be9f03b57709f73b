"""The learned byte-level BPE against counting pairs by hand, and what is kept of it."""

import json
import pickle
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.babistories import BabiStories
from tasks.text.byte_pairs import learn, tokenizer_of
from tasks.text.corpora import stories_corpus
from tasks.text.errors import TextError
from tasks.text.tokenizers import END_OF_TEXT, BytePairTokenizer

CORPUS = stories_corpus("grammar", size=40)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> BytePairTokenizer:
    return tokenizer_of(CORPUS, 400, tmp_path_factory.mktemp("prepared"))


def test_each_merge_joins_a_most_frequent_pair_of_what_came_before() -> None:
    words = [
        "low",
        "lower",
        "lowest",
        "new",
        "newer",
        "newest",
        "wide",
        "wider",
        "widest",
        "low",
        "low",
        "new",
    ]
    file = json.loads(learn([" ".join(words)], 257 + 9))
    pieces = Counter(tuple(word) for word in [words[0], *("Ġ" + word for word in words[1:])])
    assert len(file["model"]["merges"]) == 9
    for first, second in file["model"]["merges"]:
        counts: Counter[tuple[str, str]] = Counter()
        for word, times in pieces.items():
            for pair in pairwise(word):
                counts[pair] += times
        assert counts[first, second] == max(counts.values())
        pieces = Counter({_merged(word, first, second): n for word, n in pieces.items()})


def _merged(word: tuple[str, ...], first: str, second: str) -> tuple[str, ...]:
    found: list[str] = []
    for piece in word:
        if found and found[-1] == first and piece == second:
            found[-1] = first + second
        else:
            found.append(piece)
    return tuple(found)


@given(text=st.text(max_size=60) | st.just(f"a {END_OF_TEXT} b ☕ naïve"))
def test_every_text_is_written_and_read_back(learned: BytePairTokenizer, text: str) -> None:
    ids = learned.encode(text)
    assert learned.end_of_text not in ids
    assert learned.decode(ids) == text


def test_it_is_that_of_the_corpus_and_kept(learned: BytePairTokenizer, tmp_path: Path) -> None:
    assert learned.vocabulary == 400
    again = tokenizer_of(CORPUS, 400, tmp_path)
    assert again.sha256 == learned.sha256
    assert pickle.loads(pickle.dumps(again)) is again
    other = tokenizer_of(stories_corpus("grammar", size=40, seed=1), 400, tmp_path)
    assert other.sha256 != learned.sha256
    assert len(list(tmp_path.glob("grammar-bpe-*.json"))) == 2


def test_a_damaged_file_is_learned_again(learned: BytePairTokenizer, tmp_path: Path) -> None:
    tokenizer_of(CORPUS, 400, tmp_path)
    (file,) = tmp_path.glob("*.json")
    content = file.read_bytes()
    for place in range(0, len(content), len(content) // 12):
        damaged = bytearray(content)
        damaged[place] ^= 4
        file.write_bytes(damaged)
        assert tokenizer_of(CORPUS, 400, tmp_path).sha256 == learned.sha256
        assert file.read_bytes() == content


def test_a_vocabulary_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="choose from 257"):
        tokenizer_of(CORPUS, 100, tmp_path)
    with pytest.raises(ValueError, match="is for tokenizer=bpe"):
        BabiStories(vocabulary=512)


def test_the_task_reads_its_text_by_it(tmp_path: Path) -> None:
    task = BabiStories(
        stories_size=60,
        tokenizer="bpe",
        vocabulary=320,
        length=32,
        held_out_tokens=2000,
        estimate_windows=4,
        prepared=str(tmp_path),
    )
    task.prepare(lambda *_: None)
    assert task.specification().vocabulary == 320
    assert task.stream("train").manifest.tokenizer == "bpe"
    story = next(CORPUS.documents("train"))
    first = task.stream("train").document(0)
    assert task.tokenizer.decode(first) == story + END_OF_TEXT
