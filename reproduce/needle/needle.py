"""Numbers of a phone book: attention beside a fixed state, and a book read twice."""

from __future__ import annotations

from typing import Any

from reproduce.claims.claims import Claim
from reproduce.claims.grammar import Number, Rule, Runs, above, once, provided, trained_for, within
from reproduce.drawing.plots import dots_by_run
from reproduce.experiment import Experiment, over_seeds_of

TITLE = "Needle: numbers of a phone book, read once and twice"
JELASSI = (
    "Jelassi et al. 2024, Repeat After Me (arXiv 2402.01032), phone-book lookup: transformers "
    "against state-space models"
)
ARORA = "Arora et al. 2024, Just read twice (arXiv 2407.05483): recurrent models recall more so"
TASK, LOOKS_BACK, FIXED = "needle", "conv_attention", "lstm"
# 16 entries of one letter and two digits, read once, or twice in as many tokens as that needs.
BOOK: dict[str, Any] = {"tasks.letters": 64, "tasks.name_length": 1, "tasks.digits": 2}
ONCE, TWICE = (
    {**BOOK, "tasks.protocol": name, "tasks.lengths": [length], "tasks.evaluated_lengths": [length]}
    for name, length in (("phonebook", 64), ("just_read_twice", 120))
)
STEPS = 800
SEEDS = {"smoke": 1, "laptop": 3, "gpu": 5, "paper": 5}
ATTENTION = Runs("attention behind a convolution", TASK, LOOKS_BACK, ONCE)
LSTM = Runs("LSTM", TASK, FIXED, ONCE)
REREAD = Runs("LSTM, reading twice", TASK, FIXED, TWICE)
ALL = [ATTENTION, LSTM, REREAD]
ACCURACY = Number("share of numbers that are right", "accuracy")
TRAINED = trained_for(STEPS, "laptop")


def looks_up(attention: Runs, fixed: Runs) -> Rule:
    """Attention knows the numbers, and the other one far fewer."""
    knows = within(ACCURACY.of(attention), low=0.9)
    return once(TRAINED, provided(knows, above(ACCURACY.of(attention), ACCURACY.of(fixed), 0.3)))


def helps(twice: Runs, single: Runs) -> Rule:
    """More numbers are right after two readings, where one reading leaves more than a guess."""
    more_than_guess = within(ACCURACY.of(single), low=0.15)  # 1/16 of the entries
    rule = above(ACCURACY.of(twice), ACCURACY.of(single), 0.1)
    return once(TRAINED, provided(more_than_guess, rule))


CLAIMS = (
    Claim(
        "attention looks numbers up",
        "Attention knows nearly every number of a phone book of 16 entries, and an LSTM, whose "
        f"state has a fixed size, far fewer, after {STEPS} steps.",
        looks_up(ATTENTION, LSTM),
        source=JELASSI,
    ),
    Claim(
        "reading twice helps a fixed state",
        "A model with a state of fixed size knows more numbers of a book of as many entries where "
        "it reads the book again after the questions.",
        helps(REREAD, LSTM),
        source=ARORA,
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    f"{JELASSI}; {ARORA}",
    CLAIMS,
    runs=over_seeds_of(ALL, seeds=SEEDS),
    records=ALL,
    panels=[dots_by_run("numbers that are right", "accuracy", ALL)],
    layout={"width": 7},
    variant=["tasks.protocol"],
)
