"""Figure 14: where the last position looks, on windows of the training length."""

from __future__ import annotations

from functools import partial

from reproduce.attention import runs
from reproduce.attention.heads import TRAINED
from reproduce.attention.runs import IS_JUDGED_WHERE, LEARNED, MOSAIC, attends, measured
from reproduce.claims.claims import Claim
from reproduce.claims.grammar import above, provided, within

TITLE = "Figure 14. Average attention of the last position, one curve for each head"
KINDS = (LEARNED, MOSAIC)

FLAT = 0.2
IS_FLAT = (
    "the coefficient of variation over all but the newest eighth of the positions, less what the "
    "choice of windows adds, mean over heads, is at most {high:g} with its whole 95 % interval "
    "over seeds"
)
UNEVENNESS, FIRST = ("unevenness", "unevenness"), ("position 0", "first_position")
SINK = within(measured(LEARNED, *FIRST), low=3.0)
NOISY = within(measured(LEARNED, *UNEVENNESS), low=FLAT)

CLAIMS = (
    Claim(
        "the transformer has a sink",
        "A one-block transformer with learned positions keeps a strong part of its attention "
        "on position 0.",
        provided(attends(LEARNED), SINK),
        "position 0 gets at least {low:g} times uniform attention, mean over heads, with its whole "
        f"95 % interval over seeds; {IS_JUDGED_WHERE.format('the transformer attends')}",
    ),
    Claim(
        "the Mosaic has no sink",
        "A one-block Memory Mosaic has no sink at position 0, where the transformer has one.",
        provided(SINK, within(measured(MOSAIC, *FIRST), high=1.5)),
        "position 0 gets at most {high:g} times uniform attention, mean over heads, with its whole "
        "95 % interval over seeds; judged where it gets 3 times or more in the transformer",
    ),
    Claim(
        "the Mosaic's curves are flat",
        "The Mosaic's attention is mostly flat, but for the newest positions, where the "
        "transformer's is not.",
        provided(NOISY, within(measured(MOSAIC, *UNEVENNESS), high=FLAT)),
        f"{IS_FLAT}; judged where the transformer's is {FLAT:g} or more",
    ),
    Claim(
        "the transformer's curves are noisier",
        "The transformer's attention is noisy where the Mosaic's is flat.",
        provided(
            attends(LEARNED), above(measured(LEARNED, *UNEVENNESS), measured(MOSAIC, *UNEVENNESS))
        ),
        "the transformer's unevenness (as above) is larger by more than {by:g}, with its whole "
        f"95 % interval over seeds; {IS_JUDGED_WHERE.format('the transformer attends')}",
    ),
)

PANELS = partial(runs.by_position, TITLE, kinds=KINDS, windows=TRAINED)
EXPERIMENT = runs.experiment(TITLE, "figure 14", KINDS, PANELS, claims=CLAIMS)
