"""The recipe's filters: every marker of the released recipe, and what must hold for any answer."""

import json
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.text.recipe.filters import KEPT, REASONS, Judge, begins_with, clean, forbidden

STORY = 'Tom had a red ball. "Come here," he said at the end of the day.'

# What follows these is no story. The recipe of BabiStories names "The end", "Moral of the story"
# and "Note:"; the others are of the same kinds.
COMMENTS = [
    "The end",
    "The end!",
    "The End.",
    "THE END",
    "\n\nMoral of the story: share your toys.",
    "\n\n**Moral of the Story:** Share.",
    "(Moral of the story: share.)",
    "The moral of the story is to share.",
    "And that is the moral of this story.",
    "So, dear children, the moral is: share.",
    "They learned a moral: share.",
    "\n*Moral*: share",
    "Moral value: sharing",
    "Note: I used simple words.",
    "\n\n(Note: I used simple words.)",
    "\n\n*Note: I used simple words.*",
    "Notes: none",
    "(Note to the moderators: fine)",
    "Note to Parents: read it aloud.",
    "\n\n> [Author's Note] hello",
    "\n\n## Questions",
    "\n\n### Words\nball",
    "\n\nWords: ball, red, come",
    "Theme: sharing",
    "Story Keywords: ball",
    "Characters: Tom",
    "* Plot Twist: the ball was blue",
    "Conflict: none",
    "Bad ending: none",
    "Dialogue: yes",
    "Confused by the bad words? Ask me.",
    "User 0: another story please",
]


@pytest.mark.parametrize("comment", COMMENTS)
@pytest.mark.parametrize("gap", [" ", "\n\n"])
def test_comments_are_cut_off(comment: str, gap: str) -> None:
    assert clean(STORY + gap + comment + " And more.\n\nAnd more.") == STORY


@pytest.mark.parametrize(
    "innocent",
    [
        "They came to the end of the road.",
        "She took note of it: the cat was gone.",
        'She said these words: "Go home!"',
        "He wrote a note to his mother.",
        "The endless road made him tired.",
        "Her morale was high.",
    ],
)
def test_ordinary_sentences_are_not_cut(innocent: str) -> None:
    text = f"{STORY} {innocent} Then they slept."
    assert clean(text) == text


# Every mark that the recipe's sheet lists, with the filter that must name it.
MARKS = {
    "(": "parentheses",
    ")": "parentheses",
    "[": "square brackets",
    "]": "square brackets",
    "{": "braces",
    "}": "braces",
    "==": "markup",
    "---": "markup",
    "\\": "markup",
    "*": "markup",
    "#": "markup",
    "<": "markup",
    ">": "markup",
    "&quot": "markup",
    "&nbsp": "markup",
    "%": "symbols",
    "^": "symbols",
    "/": "symbols",
    "@": "symbols",
    "+": "symbols",
    "http": "URL",
    "https://a.b": "URL",
    "www.stories": "URL",
    "stories.com": "URL",
    "\ufffd": "broken characters",
}


def test_an_address_that_a_sentence_follows_without_a_space_is_found() -> None:
    assert Judge().verdict("Tom saw stories.comThe end of it. He ran home.")[1] == "URL"
    assert Judge().verdict("Tom told stories.community hall was full.")[1] == KEPT


@pytest.mark.parametrize(("mark", "reason"), MARKS.items())
def test_marks_drop_a_story(mark: str, reason: str) -> None:
    story, verdict = Judge().verdict(f"Tom saw {mark} on a wall. He ran home.")
    assert verdict == reason
    assert reason in REASONS
    assert "He ran home." in story


def test_half_a_surrogate_pair_is_a_broken_character() -> None:
    # JSON can carry one, UTF-8 cannot.
    half = json.loads('"\\ud83d"')
    assert Judge().verdict(f"Tom saw {half} on a wall.")[1] == "broken characters"


@pytest.mark.parametrize(
    "text", ["Yes = no? I - well, we - ran!", "It cost $5 & a half; “fine”, said Zoë."]
)
def test_other_symbols_are_no_reason(text: str) -> None:
    assert Judge().verdict(text) == (text, KEPT)


def test_blank_lines_become_one_space_and_line_ends_stay() -> None:
    assert clean(" One.\r\n\r\nTwo. \n \t\n\n Three.\nFour.\n") == "One. Two. Three.\nFour."


@pytest.mark.parametrize("answer", ["", " \n\n ", "The end", "...", "## Story"])
def test_nothing_is_no_story(answer: str) -> None:
    assert Judge().verdict(answer, "Once")[1] == "empty"


def test_openings() -> None:
    assert begins_with('"Look, it is moving!" he said.', '"Look, it')
    assert begins_with("once UPON a time", "Once upon")
    assert begins_with("Once – upon a time", "Once upon")
    assert not begins_with("In autumn", "In a")
    assert not begins_with("Once", "Once upon")
    judge = Judge()
    assert judge.verdict("Sure! Once upon a time.", "Once upon")[1] == "other opening"
    assert judge.verdict("Once upon a time.", "Once upon")[1] == KEPT


def test_duplicates() -> None:
    judge = Judge()
    answers = ["A cat.", "A dog.", "A cat. The end", "a cat!", "“A   Cat”", "A cat.", "A cats."]
    near = "duplicate but for case and punctuation"
    expected = [KEPT, KEPT, "duplicate", near, near, "duplicate", KEPT]
    assert [judge.verdict(answer)[1] for answer in answers] == expected


def test_a_dropped_story_makes_no_duplicate() -> None:
    judge = Judge()
    assert judge.verdict("A cat (big).")[1] == "parentheses"
    assert judge.verdict("A cat big.")[1] == KEPT


pieces = st.sampled_from(
    [*COMMENTS, *MARKS, "Tom ran. ", "moral ", "The ", "end", "Note", " :", "\n", "\n\n", "*", '"']
)
answers = st.lists(st.one_of(pieces, st.text(max_size=8)), max_size=12).map("".join)


@given(answers)
def test_cleaning_twice_is_cleaning_once(answer: str) -> None:
    assert clean(clean(answer)) == clean(answer)


@given(answers)
def test_a_story_is_a_beginning_of_the_answer(answer: str) -> None:
    def letters(text: str) -> str:
        return "".join(text.replace("\ufffd", "").split())

    whole = letters("".join(c for c in answer if not "\ud800" <= c <= "\udfff"))
    assert whole.startswith(letters(clean(answer)))


@given(st.lists(answers, max_size=6))
def test_kept_stories_hold_no_mark_and_never_repeat(some: list[str]) -> None:
    judge = Judge()
    kept = [story for story, verdict in map(judge.verdict, some) if verdict == KEPT]
    # A longer word, as "stories.community", is a sentence without its space, and no address.
    longer = re.compile(r"stories\.com(?=[a-z])")
    assert not any(mark in longer.sub("", story) for story in kept for mark in MARKS)
    assert all(forbidden(story) is None for story in kept)
    skeletons = ["".join(filter(str.isalnum, story.casefold())) for story in kept]
    assert len(set(skeletons)) == len(skeletons)
    assert "" not in skeletons
    assert not any("\n\n" in story or story != story.strip() for story in kept)


@given(st.text(alphabet=string.ascii_lowercase + " ,.!?'", min_size=1))
def test_plain_text_is_left_alone(text: str) -> None:
    if forbidden(text) is None and "moral" not in text:
        assert clean(text) == text.strip()
