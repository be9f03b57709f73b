"""Table 1: how many stories and tokens a corpus has, and how long its stories are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.records.schema import RunRecord
from core import escaping
from core.statistics import COUNT
from reproduce.claims.claims import Claim
from reproduce.claims.controls import NOTHING_TRAINED
from reproduce.claims.grammar import Drawn, Records, Rule, each, once, setting, told, where, within
from reproduce.claims.observations import observe
from reproduce.drawing.tables import markdown
from reproduce.experiment import Baselines
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Trace
from reproduce.stories import language
from reproduce.stories.language import BABISTORIES, ON_BABISTORIES, corpus_name

TITLE = "Table 1. The corpus of stories: how many, how many tokens, how long"
SOURCE = f"{language.PAPER}, appendix B, table 1"
SPLITS = {"train": "training", "valid": "validation"}
QUANTITIES = {"stories": "stories", "tokens": "tokens", "characters": "characters of a story, mean"}
# As printed. 4,749,107 tokens at 889 characters a story are 22 thousand stories, not 2.2.
PUBLISHED = {
    "train": {"stories": 2.2e6, "tokens": 474_704_907, "characters": 888},
    "valid": {"stories": 2.2e3, "tokens": 4_749_107, "characters": 889},
}
# By how much the printed numbers are rounded: stories relative to them.
STORIES, CHARACTERS = 0.05 / 2.2, 0.5
WORDS = {
    "stories": f"the count lies within {STORIES:.1%} of the printed number, which is rounded",
    "tokens": "that of tokens, with or without the end marks of stories, is the printed one",
    "characters": "the mean length rounds to the printed one",
}
ALIKE = 0.1

Counts = Mapping[str, float]  # of one file


def select(records: Records) -> list[RunRecord]:
    """The predictors without training on stories."""
    predictors = (r for r in records if r.task == "babistories" and r.role == "baseline")
    return language.of_one_corpus(predictors)


def counts(records: Records) -> dict[str, Counts]:
    """Split -> the three quantities; tokens with the end mark of each story, and without."""
    return {
        split: {
            "stories": facts["documents"],
            "tokens": facts["tokens"],
            "tokens without end marks": facts["tokens_without_ends"],
            "characters": facts["characters"] / facts["documents"],
        }
        for split, facts in language.corpus_facts(records).items()
        if split in SPLITS
    }


def picture(records: Records) -> Picture:
    """A panel for each quantity, a row for each file: counted here, and printed."""
    row, x = [], Axis(categories=[*SPLITS.values()])
    for quantity, name in QUANTITIES.items():
        counted = _points("here", counts(records), quantity, colour="blue", aside=-1.5)
        printed = _points("published", PUBLISHED, quantity, role="published", aside=1.5)
        y = Axis(scale="linear" if quantity == "characters" else "log")
        row.append(Panel(name, x, y, [counted, printed], sideways=True))
    return Picture(TITLE, [PanelRow(row, 2.0, shared=True)], width=10.5)


def _points(name: str, by_split: Mapping[str, Counts], quantity: str, **look: Any) -> Trace:
    places, values = [], []
    for place, split in enumerate(SPLITS):
        if split in by_split:
            places.append(place)
            values.append(by_split[split][quantity])
    texts = [f"{value:,.0f} {name}" for value in values]
    return Trace(name, places, values, texts=texts, mark="dots", **look)


def table(records: Records) -> str:
    """The table, ours beside the printed counts."""
    heads = ["file"]
    for name in QUANTITIES.values():
        heads += [name, "published"]
    by_split, rows = counts(records), []
    for split, name in SPLITS.items():
        row = [name]
        for quantity in QUANTITIES:
            row.append(f"{by_split[split][quantity]:,.0f}" if split in by_split else "none")
            row.append(f"{PUBLISHED[split][quantity]:,.0f}")
        rows.append(row)
    return f"{markdown(heads, rows)}\n{escaping.markdown(language.corpus_line(records))}\n"


def _counted(label: str, read: Callable[[dict[str, Counts]], float]) -> Drawn:
    """A number of the corpus, which is exact: no seed enters it."""

    def of_record(record: RunRecord) -> float | None:
        by_split = counts([record])
        return read(by_split) if by_split else None

    return Drawn(label, lambda records: observe(label, records, of_record, COUNT))


NUMBERS = tuple((quantity, split) for split in SPLITS for quantity in QUANTITIES)
SLIP = ("stories", "valid")  # judged by itself: no file can have the other two numbers and this


def _as_printed(name: str, numbers: Sequence[tuple[str, str]]) -> Claim:
    reason = f"the counts are those of BabiStories: use {ON_BABISTORIES}"
    ready = where(lambda r: corpus_name(r) == BABISTORIES, "counts of BabiStories", reason, "paper")
    printed = ", ".join(
        f"{_name(*number)} {PUBLISHED[number[1]][number[0]]:,.0f}" for number in numbers
    )
    rules = [WORDS[of] for of in QUANTITIES if of in dict(numbers)]
    return Claim(
        name,
        f"BabiStories: {printed}.",
        once(ready, each(_near(*number) for number in numbers)),
        "; ".join(rules),
        asked_with=ON_BABISTORIES,
    )


def _name(quantity: str, split: str) -> str:
    return f"{QUANTITIES[quantity]}, {SPLITS[split]} file"


def _near(quantity: str, split: str) -> Rule:
    printed = PUBLISHED[split][quantity]
    allowed = {"stories": STORIES * printed, "characters": CHARACTERS}.get(quantity, 0.0)

    def nearest(by_split: dict[str, Counts]) -> float:
        """The paper does not say whether end marks are counted."""
        candidates = [value for key, value in by_split[split].items() if key.startswith(quantity)]
        return min(candidates, key=lambda count: abs(count - printed))

    counted = _counted(_name(quantity, split), nearest)
    rule = within(counted, printed - allowed, printed + allowed)
    return told(rule, after=lambda _: f" (printed: {printed:,.0f})")


def _is_tiny_stories(records: Records) -> bool:
    """All of them, not a sample."""
    whole = all(setting(record, "tasks.stories_size") is None for record in records)
    return whole and corpus_name(records) == "tinystories"


def _like_tiny_stories(quantity: str) -> Rule:
    ratio = _counted(
        f"{QUANTITIES[quantity]}, relative to the printed number of BabiStories,",
        lambda by_split: by_split["train"][quantity] / PUBLISHED["train"][quantity],
    )
    return within(ratio, 1 - ALIKE, 1 + ALIKE)


ON_TINYSTORIES = "corpus=tinystories"
TINY = f"all of TinyStories is compared with the printed counts: use preset=paper {ON_TINYSTORIES}"
ON_TINY = where(_is_tiny_stories, "likeness to TinyStories", TINY, "paper")
CLAIMS = (
    _as_printed("counts of the corpus", [number for number in NUMBERS if number != SLIP]),
    _as_printed("stories, validation file", [SLIP]),
    Claim(
        "like TinyStories",
        "Number, tokens and length of the stories essentially match those of TinyStories.",
        once(ON_TINY, each(map(_like_tiny_stories, QUANTITIES))),
        f"each of the three is within {ALIKE:.0%} of that of TinyStories",
        asked_with=ON_TINYSTORIES,
    ),
)

EXPERIMENT = language.experiment(
    TITLE,
    SOURCE,
    CLAIMS,
    baselines=[Baselines("babistories", [language.GPT2])],  # which hold the counts of the corpus
    records=select,
    panels=picture,
    table=table,
    control=NOTHING_TRAINED,
)
