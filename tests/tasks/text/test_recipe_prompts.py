"""The recipe's prompts: what they ask for, where it is drawn from, and from what it follows."""

from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from scipy.stats import chisquare

from tasks.text.recipe.errors import RecipeError
from tasks.text.recipe.prompts import beginnings, draw_prompt, load_lists
from tasks.text.recipe.settings import parse

LISTS = load_lists()


def test_our_lists() -> None:
    assert min(len(LISTS.nouns), len(LISTS.verbs), len(LISTS.adjectives), len(LISTS.names)) > 200
    for words in (LISTS.nouns, LISTS.verbs, LISTS.adjectives, LISTS.names, LISTS.openings):
        assert len(set(words)) == len(words)
        assert all(isinstance(word, str) and word == word.strip() != "" for word in words)
    assert {len(opening.split()) for opening in LISTS.openings} == set(range(1, 13))
    assert set(LISTS.features) == {
        "dialogue",
        "bad ending",
        "moral value",
        "plot twist",
        "foreshadowing",
        "conflict",
    }


def test_the_instruction_holds_what_was_drawn() -> None:
    for index in range(200):
        prompt = draw_prompt(LISTS, 3, index)
        asking = prompt.instruction(LISTS, ask_for_opening=True)
        silent = prompt.instruction(LISTS, ask_for_opening=False)
        for word in (prompt.name, prompt.verb, prompt.noun, prompt.adjective):
            assert f'"{word}"' in asking
            assert f'"{word}"' in silent
        for feature, clause in LISTS.features.items():
            assert (clause in asking) == (feature in prompt.features)
        assert f"«{prompt.opening}»" in asking
        assert "«" not in silent


def test_a_prompt_follows_from_seed_and_index_alone() -> None:
    forwards = [draw_prompt(LISTS, 7, index) for index in range(20)]
    assert [draw_prompt(load_lists(), 7, index) for index in reversed(range(20))] == forwards[::-1]
    assert draw_prompt(LISTS, 8, 0) != forwards[0]
    # Frozen: a collection that is gone on with after an update asks the same questions.
    drawn = draw_prompt(LISTS, 0, 0)
    assert (drawn.name, drawn.verb, drawn.noun, drawn.opening) == (
        "Wilma",
        "throw",
        "king",
        "Happy",
    )


def test_draws_are_uniform_and_subsets_of_features_independent() -> None:
    count = 4000
    prompts = [draw_prompt(LISTS, 0, index) for index in range(count)]
    for kind in ("name", "verb", "noun", "adjective", "opening"):
        known = getattr(LISTS, kind + "s")
        seen = Counter(getattr(prompt, kind) for prompt in prompts)
        assert chisquare([seen[word] for word in known]).pvalue > 1e-4, kind
    subsets = Counter(frozenset(prompt.features) for prompt in prompts)
    all_subsets = [
        frozenset(some) for size in range(7) for some in combinations(LISTS.features, size)
    ]
    assert chisquare([subsets[some] for some in all_subsets]).pvalue > 1e-4


def test_beginnings_are_whole_words_and_distinct() -> None:
    assert beginnings(["In a hole", "In the sea"]) == (
        "In",
        "In a",
        "In a hole",
        "In the",
        "In the sea",
    )


def test_lists_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("Novak\n\n Zoë \n", encoding="utf-8")
    (tmp_path / "openings").write_text("Deep in the wood,\n", encoding="utf-8")
    (tmp_path / "words").write_text("nouns: [no]\nverbs: [go]\nadjectives: [true]\n")
    lists = load_lists(
        names=tmp_path / "names", openings=tmp_path / "openings", words=tmp_path / "words"
    )
    assert lists.names == ("Novak", "Zoë")
    assert lists.openings == ("Deep in the wood,",)
    assert (lists.nouns, lists.verbs, lists.adjectives) == (("no",), ("go",), ("true",))
    assert lists.features == LISTS.features
    assert lists.sha256 != LISTS.sha256
    assert LISTS.sha256 == load_lists().sha256


@pytest.mark.parametrize(
    ("kind", "content", "sentence"),
    [
        ("names", b"", "holds nothing"),
        ("names", b"Zo\xeb", "not UTF-8"),
        ("openings", b"one two three four five six seven eight nine ten 11 12 13", "13 words"),
        ("words", b"nouns: [a]\nverbs: [b]", "other keys"),
        ("words", b"nouns: [a]\nverbs: []\nadjectives: [c]", "'verbs'"),
        ("words", b"nouns: [a", "not YAML"),
    ],
)
def test_bad_lists_are_one_sentence(
    kind: str, content: bytes, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "list"
    path.write_bytes(content)
    with pytest.raises(RecipeError, match=sentence) as caught:
        load_lists(**{kind: path})
    assert "\n" not in str(caught.value)


def test_a_missing_list_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cannot be read"):
        load_lists(names=tmp_path / "none")


GOOD = ["writer=endpoint", "stories=5", "out=x", "address=http://a/v1", "model=m"]


def test_settings() -> None:
    settings = parse([*GOOD, "workers=2"])
    assert (settings.stories, settings.out, settings.workers, settings.seed) == (
        *(5, Path("x").absolute(), 2, 0),
    )
    assert (settings.tokenizer, settings.key_variable) == ("gpt2", "OPENAI_API_KEY")
    assert parse(["writer=grammar", "stories=1", "out=x"]).tokenizer == "grammar"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([*GOOD, "storys=4"], "did you mean 'stories'"),
        ([*GOOD, "colour=4"], "keys: writer, stories"),
        ([*GOOD, "stories=6"], "given twice"),
        ([*GOOD, "seed"], "no value"),
        ([*GOOD, "seed="], "no value"),
        ([*GOOD, "seed=-1"], "whole number"),
        ([*GOOD, "seed=" + "9" * 5000], "whole number"),
        ([*GOOD, "workers=0"], "at least 1"),
        ([*GOOD, "tokenizer=bert"], "gpt2, grammar"),
        (GOOD[1:], "writer= is missing"),
        (["writer=grammar", "out=x"], "stories= is missing"),
        (["writer=gramar", *GOOD[1:]], "endpoint, transformers, grammar"),
        (["writer=grammar", *GOOD[1:]], "address= means nothing with writer=grammar"),
        (GOOD[:4], "needs model="),
        (GOOD[:3], "needs address="),
    ],
)
def test_mistakes_in_the_command_are_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        parse(words)


def test_a_key_given_instead_of_its_variable_is_not_repeated() -> None:
    with pytest.raises(RecipeError, match="not the key") as caught:
        parse([*GOOD, "key_variable=sk-12345"])
    assert "12345" not in str(caught.value)
