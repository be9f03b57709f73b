"""What is asked of the writer: required words, features, a first name and opening words.

Source: Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), Figure 11. The parts are those
of the figure: a verb, a noun and an adjective that must occur and a random subset of features, as
in TinyStories (Eldan & Li 2023), and, for more diverse stories, a name and 1 to 12 opening words.
The wording and the lists are our own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from tasks.text.recipe.errors import RecipeError

OPENING_WORDS = 12
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Lists:
    """What prompts are drawn from. ``features`` maps a name to the clause that asks for it."""

    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]
    features: Mapping[str, str]
    names: tuple[str, ...]
    openings: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """Hexadecimal hash of all that is in the lists, by which a collection knows its own."""
        # In their order: the list of features is drawn from by place.
        parts = {**vars(self), "features": list(self.features.items())}
        return hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()


@dataclass(frozen=True)
class Prompt:
    """What is asked for story ``index``."""

    index: int
    name: str
    verb: str
    noun: str
    adjective: str
    features: tuple[str, ...]
    opening: str

    def instruction(self, lists: Lists, *, ask_for_opening: bool) -> str:
        """The words for the model.

        Args:
            lists: where the clauses of the features are.
            ask_for_opening: say how the story begins. A writer that can put the opening in the
                model's mouth, as the paper did, need not ask.
        """
        sentences = [
            "Write a short story of 3 to 5 paragraphs in words that a 3-year-old understands.",
            f'The main character is called "{self.name}".',
            f'Use the verb "{self.verb}", the noun "{self.noun}" and the adjective '
            f'"{self.adjective}" somewhere in the story.',
        ]
        if self.features:
            clauses = [lists.features[feature] for feature in self.features]
            sentences.append(f"In this story, {'; '.join(clauses)}.")
        if ask_for_opening:
            sentences.append(
                "The story begins with exactly the words between these marks: "
                f"«{self.opening}» (do not write the marks)."
            )
        sentences.append("Answer with nothing but the story, and keep every word simple.")
        return " ".join(sentences)

    def facts(self) -> dict[str, Any]:
        """The parameters as JSON."""
        return {**asdict(self), "features": list(self.features)}


def draw_prompt(lists: Lists, seed: int, index: int) -> Prompt:
    """Prompt ``index``: a function of the lists, the seed and the index alone.

    Words, name and opening are uniform and independent; so is each subset of the features.
    """

    def draw(purpose: str, size: int) -> int:
        # One hash for each purpose: a longer list of one kind moves no draw of another.
        digest = hashlib.sha256(f"{seed}/{index}/{purpose}".encode()).digest()
        return int.from_bytes(digest) % size

    return Prompt(
        index=index,
        name=lists.names[draw("name", len(lists.names))],
        verb=lists.verbs[draw("verb", len(lists.verbs))],
        noun=lists.nouns[draw("noun", len(lists.nouns))],
        adjective=lists.adjectives[draw("adjective", len(lists.adjectives))],
        features=tuple(name for name in lists.features if draw(f"feature {name}", 2)),
        opening=lists.openings[draw("opening", len(lists.openings))],
    )


def load_lists(
    *, names: Path | None = None, openings: Path | None = None, words: Path | None = None
) -> Lists:
    """Our own lists, or those of the user where a file is named.

    Args:
        names: a text file, one first name in each line.
        openings: a text file, one opening of 1 to 12 words in each line, used as it stands. Of our
            own openings every beginning counts as an opening too.
        words: a YAML file with the lists ``nouns``, ``verbs`` and ``adjectives``.

    Raises:
        RecipeError: a file that is missing, empty, not UTF-8 or not of this form.
    """
    own_words = _yaml(FOLDER / "words.yaml")
    own_openings = _yaml(FOLDER / "openings.yaml")["openings"]
    chosen = _user_words(words) if words else own_words
    return Lists(
        nouns=tuple(chosen["nouns"]),
        verbs=tuple(chosen["verbs"]),
        adjectives=tuple(chosen["adjectives"]),
        # Features are clauses of the instruction, so they are always our own.
        features=own_words["features"],
        names=_lines(names) if names else tuple(_yaml(FOLDER / "names.yaml")["names"]),
        openings=_user_openings(openings) if openings else beginnings(own_openings),
    )


def beginnings(openings: Sequence[str]) -> tuple[str, ...]:
    """Every distinct beginning of 1 to 12 whole words, in the order of the openings."""
    distinct: dict[str, None] = {}
    for opening in openings:
        words = opening.split()[:OPENING_WORDS]
        for count in range(1, len(words) + 1):
            # A dict keeps the first of equal beginnings, in order.
            distinct[" ".join(words[:count])] = None
    return tuple(distinct)


def _yaml(path: Path) -> Any:
    # The base loader makes every scalar a string: "true" and "no" are words here.
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path} is not UTF-8 text; save it as UTF-8") from error
    except OSError as error:
        reason = error.strerror or error
        raise RecipeError(f"{path} cannot be read ({reason}); name an existing file") from error


def _lines(path: Path) -> tuple[str, ...]:
    lines = tuple(line.strip() for line in _text(path).splitlines() if line.strip())
    if not lines:
        raise RecipeError(f"{path} holds nothing; write one entry in each line")
    return lines


def _user_openings(path: Path) -> tuple[str, ...]:
    openings = _lines(path)
    for opening in openings:
        if (count := len(opening.split())) > OPENING_WORDS:
            raise RecipeError(
                f"{path} has an opening of {count} words ('{opening[:40]}…'); "
                f"openings have 1 to {OPENING_WORDS} words"
            )
    return openings


def _user_words(path: Path) -> Any:
    form = "it needs the three lists nouns, verbs and adjectives, such as 'nouns: [cat, dog]'"
    try:
        words_by_kind = yaml.load(_text(path), Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        place = " ".join(str(getattr(error, "problem_mark", "")).split())
        raise RecipeError(f"{path} is not YAML ({place or 'unreadable'}); {form}") from error
    kinds = ("nouns", "verbs", "adjectives")
    if not isinstance(words_by_kind, dict) or set(words_by_kind) != set(kinds):
        raise RecipeError(f"{path} has other keys than expected; {form}")
    for kind in kinds:
        words = words_by_kind[kind]
        if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
            raise RecipeError(f"'{kind}' in {path} is no list of words; {form}")
    return words_by_kind
