"""From a model's answer to a story, or to the reason why there is none.

Source: Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), appendix B, and the released
recipe: what follows an ending, a moral, a note or a list of words is cut off; blank lines become
spaces; stories with URLs, brackets of any kind, markup or unusual symbols are dropped. Our own
rules: empty stories, broken characters, duplicates (exact, or but for case and punctuation), and an
endpoint's stories that begin otherwise than asked.
"""

from __future__ import annotations

import hashlib
import re

# A model that has told its story goes on to comment on it. Each pattern marks such a comment;
# capitals matter, because a child may well reach "the end of the road".
_ENDINGS = (
    r"\b(?:The\s+[Ee]nd|THE\s+END)\b",
    # Notes, to parents, readers or moderators.
    r"\bNotes?\s*:",
    r"[(*]\s*Notes?\b",
    r"\bNotes?\s+(?:to|for)\s+(?:the\s+)?(?:[Pp]arent|[Rr]eader|[Mm]oderator|[Tt]eacher)",
    r"\b[Aa]uthor['’]s\s+[Nn]ote\b",
    # Headings and lists that repeat what the prompt asked for.
    r"##",
    r"\b(?:Story\s+)?[Kk]ey\s?words\s*:",
    r"\b(?:Words|Use\s+of\s+[Ww]ords|Theme|Characters|Features|Dialogue|Foreshadowing)[*_]*\s*:",
    r"\b(?:[Cc]onflict|[Bb]ad\s+[Ee]nding|[Pp]lot\s+[Tt]wist|[Uu]nexpected\s+[Ee]vent)[*_]*\s*:",
    r"\b(?:List|Here\s+are\s+some)\s+of\s+(?:the\s+)?simple\s+words\b",
    r"\bConfused(?:\s+by\s+the\b[^.!?\n]*)?\?",
    # The next turn of an invented conversation.
    r"\bUser\s*\d*\s*:",
)
_ENDING = re.compile("|".join(_ENDINGS))
_MORAL = re.compile(
    r"(?i)\bmorals?(?:\s+(?:value|lesson))?[*_]*(?:\s*[:?]|\s+(?:here\s+)?(?:of|is|was|for)\b)"
    r"|(?:\b(?:is|was)|['’]s)\s+the\s+moral\b"
)
_SENTENCE_END = re.compile(r"[.!?][\"'”’]*\s+|\n")
# What opens a comment, such as the star of "*Note:" or the bracket of "(Note:".
_COMMENT_OPENERS = " \t\n>*_#([\\~-"

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_BLANK_LINES = re.compile(r"[ \t]*\n(?:[ \t]*\n)+[ \t]*")

_NO_LETTERS = re.compile(r"[\W_]+")
# Any "http" counts, as in the released recipe; the other two forms are our own. A capital letter
# begins a sentence whose space is missing, a small one goes on with a word.
_URL = re.compile(r"(?i:http|\bwww\.)|(?<=\w)\.(?i:com|org|net|edu|gov)(?![a-z])")
# Filter -> marks that no story may hold. Checked in this order after URLs.
MARKS = {
    "parentheses": ("(", ")"),
    "square brackets": ("[", "]"),
    "braces": ("{", "}"),
    "markup": ("==", "---", "\\", "*", "#", "<", ">", "&quot", "&nbsp"),
    "symbols": ("%", "^", "/", "@", "+"),
    "broken characters": ("\ufffd",),
}

KEPT = "kept"
URL, EMPTY, OTHER_OPENING = "URL", "empty", "other opening"
DUPLICATE, NEAR_DUPLICATE = "duplicate", "duplicate but for case and punctuation"
REASONS = (EMPTY, OTHER_OPENING, URL, *MARKS, DUPLICATE, NEAR_DUPLICATE)


def clean(answer: str) -> str:
    """The story in an answer: comments at the end cut off, blank lines made spaces."""
    text = _LONE_SURROGATE.sub("\ufffd", answer).replace("\r\n", "\n").replace("\r", "\n").strip()
    text = text[: _end_of_story(text)].strip()
    return _BLANK_LINES.sub(" ", text)


def _end_of_story(text: str) -> int:
    end = len(text)
    if match := _ENDING.search(text):
        end = len(text[: match.start()].rstrip(_COMMENT_OPENERS))
    # Only before the end that was found: a moral behind it is cut off already.
    if match := _MORAL.search(text, 0, end):
        # The whole sentence that announces the moral goes.
        starts = [gap.end() for gap in _SENTENCE_END.finditer(text, 0, match.start())]
        end = starts[-1] if starts else 0
    return end


def forbidden(story: str) -> str | None:
    """The filter that drops a cleaned story by what is in it, or None."""
    if not _letters(story):
        return EMPTY
    if _URL.search(story):
        return URL
    for reason, marks in MARKS.items():
        if any(mark in story for mark in marks):
            return reason
    return None


def begins_with(story: str, opening: str) -> bool:
    """Whether the first words are those of the opening; case and punctuation do not count."""
    # Compared by letters alone: models change case and quotation marks.
    wanted, words = _words(opening), _words(story)
    return words[: len(wanted)] == wanted


def _letters(text: str) -> str:
    return _NO_LETTERS.sub("", text.casefold())


def _words(text: str) -> list[str]:
    # Words of punctuation alone do not count.
    return [letters for word in text.split() if (letters := _letters(word))]


class Duplicates:
    """Remembers the stories that were kept, 16 bytes for each of the two comparisons."""

    def __init__(self) -> None:
        self._exact: set[bytes] = set()
        self._letters: set[bytes] = set()

    def reason(self, story: str) -> str | None:
        """The filter that drops a repeated story; None for a new one, which is then known."""
        exact, letters = _digest(story), _digest(_letters(story))
        if exact in self._exact:
            return DUPLICATE
        if letters in self._letters:
            return NEAR_DUPLICATE
        self._exact.add(exact)
        self._letters.add(letters)
        return None


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class Judge:
    """Answers in the order of their index -> story, or the reason why it is dropped."""

    def __init__(self) -> None:
        self._duplicates = Duplicates()

    def verdict(self, answer: str, opening: str | None = None) -> tuple[str, str]:
        """(story, "kept") or (story, reason); ``opening`` is what the story must begin with."""
        story = clean(answer)
        reason = forbidden(story)
        if reason != EMPTY and opening is not None and not begins_with(story, opening):
            reason = OTHER_OPENING
        return story, reason or self._duplicates.reason(story) or KEPT
