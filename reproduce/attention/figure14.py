"""Figure 14: where the last position looks, on windows of the training length."""

from __future__ import annotations

from functools import partial

from judging.claims import Claim
from judging.grammar import above, within
from reproduce.attention import runs
from reproduce.attention.heads import PEAK, TRAINED, recent_peak
from reproduce.attention.runs import LEARNED, MOSAIC, measured

TITLE = "Figure 14. Average attention of the last position, one curve for each head"
SOURCE = f"{runs.SOURCE}, figure 14"
KINDS = (LEARNED, MOSAIC)

FLAT = 0.2
IS_FLAT = (
    "the coefficient of variation over all but the newest eighth of the positions, less what the "
    "choice of windows adds, mean over heads, is at most {high:g} with its whole 95 % interval "
    "over seeds"
)
HAS_PEAK = (
    "attention to the newest pair is at least {low:g} times the flat level (the median over all "
    "but the newest eighth), mean over heads, with its whole 95 % interval over seeds"
)
UNEVENNESS, FIRST = ("unevenness", "unevenness"), ("position 0", "first_position")


CLAIMS = (
    Claim(
        "the transformer has a sink",
        "A one-block transformer with learned positions keeps a strong part of its attention "
        "on position 0.",
        within(measured(LEARNED, *FIRST), low=3.0),
        "position 0 gets at least {low:g} times uniform attention, mean over heads, with its whole "
        "95 % interval over seeds",
    ),
    Claim(
        "the Mosaic has no sink",
        "A one-block Memory Mosaic has no sink at position 0.",
        within(measured(MOSAIC, *FIRST), high=1.5),
        "position 0 gets at most {high:g} times uniform attention, mean over heads, with its whole "
        "95 % interval over seeds",
    ),
    Claim(
        "the Mosaic's curves are flat",
        "The Mosaic's attention is mostly flat, but for the newest positions.",
        within(measured(MOSAIC, *UNEVENNESS), high=FLAT),
        IS_FLAT,
    ),
    Claim(
        "the Mosaic's recent peak",
        "The Mosaic's attention is higher at the newest positions.",
        within(measured(MOSAIC, "newest pair", recent_peak(TRAINED), diverged=0.0), low=PEAK),
        HAS_PEAK,
    ),
    Claim(
        "the transformer's curves are noisier",
        "The transformer's attention is noisy where the Mosaic's is flat.",
        above(measured(LEARNED, *UNEVENNESS), measured(MOSAIC, *UNEVENNESS)),
        "the transformer's unevenness (as above) is larger by more than {by:g}, with its whole "
        "95 % interval over seeds",
    ),
)

PANELS = partial(runs.by_position, TITLE, kinds=KINDS, windows=TRAINED)
REPRODUCTION = runs.reproduction(TITLE, SOURCE, KINDS, PANELS, CLAIMS)
