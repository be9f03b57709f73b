"""Figure 15: where the last position looks, on windows three times as long as in training."""

from __future__ import annotations

from functools import partial

from judging.claims import Claim
from judging.grammar import within
from reproduce.attention import runs
from reproduce.attention.figure14 import FLAT, HAS_PEAK, IS_FLAT
from reproduce.attention.heads import EXTENDED, PEAK, change_beyond, oldest_third, recent_peak
from reproduce.attention.runs import ALIBI, MOSAIC, ROPE, measured

TITLE = "Figure 15. Average attention of the last position beyond the training length"
SOURCE = f"{runs.SOURCE}, figure 15"
KINDS = (ROPE, ALIBI, MOSAIC)
CHANGE = 1.25
DEFINITION = (
    "the mean attention to positions farther away than a training window reaches is {} times above "
    "or below that to the farther half of those that it reaches (geometric mean over heads), with "
    "its whole 95 % interval over seeds"
)
BEYOND = ("change beyond training", change_beyond)


CLAIMS = (
    Claim(
        "RoPE does not extend",
        "The attention of a transformer with RoPE does not go on beyond the training length "
        "as it was.",
        within(measured(ROPE, *BEYOND), low=CHANGE),
        DEFINITION.format("at least {low:g}"),
    ),
    Claim(
        "ALiBi's attention vanishes",
        "What distant tokens contribute vanishes in a transformer with ALiBi.",
        within(measured(ALIBI, "oldest third", oldest_third), high=0.25),
        "the oldest third of the window gets at most {high:g} times uniform attention, mean over "
        "heads, with its whole 95 % interval over seeds",
    ),
    Claim(
        "the Mosaic stays flat",
        "The Mosaic's attention remains mostly flat on windows three times as long.",
        within(measured(MOSAIC, "unevenness", "unevenness_extended"), high=FLAT),
        IS_FLAT,
    ),
    Claim(
        "the Mosaic goes on as it was",
        "The level of the Mosaic's attention is the same on both sides of the training length.",
        within(measured(MOSAIC, *BEYOND), high=CHANGE),
        DEFINITION.format("at most {high:g}"),
    ),
    Claim(
        "the Mosaic keeps its recent peak",
        "The Mosaic's attention keeps its shape: higher at the newest positions.",
        within(measured(MOSAIC, "newest pair", recent_peak(EXTENDED), diverged=0.0), low=PEAK),
        HAS_PEAK,
    ),
)

PANELS = partial(runs.by_position, TITLE, kinds=KINDS, windows=EXTENDED)
REPRODUCTION = runs.reproduction(TITLE, SOURCE, KINDS, PANELS, CLAIMS)
