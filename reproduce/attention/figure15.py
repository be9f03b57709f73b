"""Figure 15: where the last position looks, on windows three times as long as in training."""

from __future__ import annotations

from functools import partial

from reproduce.attention import runs
from reproduce.attention.figure14 import FLAT, IS_FLAT
from reproduce.attention.heads import EXTENDED, change_beyond
from reproduce.attention.runs import ALIBI, IS_JUDGED_WHERE, MOSAIC, ROPE, attends, measured
from reproduce.claims.claims import Claim
from reproduce.claims.grammar import provided, within

TITLE = "Figure 15. Average attention of the last position beyond the training length"
KINDS = (ROPE, ALIBI, MOSAIC)
CHANGE = 1.25
DEFINITION = (
    "the mean attention to positions farther away than a training window reaches is {} times above "
    "or below that to the farther half of those that it reaches (geometric mean over heads), with "
    "its whole 95 % interval over seeds"
)
BEYOND = ("change beyond training", change_beyond)
BREAKS = within(measured(ROPE, *BEYOND), low=CHANGE)
WHERE_IT_BREAKS = f"judged where that of the transformer with RoPE changes by {CHANGE:g} or more"

CLAIMS = (
    Claim(
        "RoPE does not extend",
        "The attention of a transformer with RoPE does not go on beyond the training length "
        "as it was.",
        provided(attends(ROPE), BREAKS),
        f"{DEFINITION.format('at least {low:g}')}; "
        + IS_JUDGED_WHERE.format("the transformer with RoPE attends"),
    ),
    Claim(
        "the Mosaic stays flat",
        "The Mosaic's attention remains mostly flat on windows three times as long, on which that "
        "of a transformer with RoPE does not go on.",
        provided(BREAKS, within(measured(MOSAIC, "unevenness", "unevenness_extended"), high=FLAT)),
        f"{IS_FLAT}; {WHERE_IT_BREAKS}",
    ),
    Claim(
        "the Mosaic goes on as it was",
        "The level of the Mosaic's attention is the same on both sides of the training length, "
        "where that of a transformer with RoPE is not.",
        provided(BREAKS, within(measured(MOSAIC, *BEYOND), high=CHANGE)),
        f"{DEFINITION.format('at most {high:g}')}; {WHERE_IT_BREAKS}",
    ),
)

PANELS = partial(runs.by_position, TITLE, kinds=KINDS, windows=EXTENDED)
EXPERIMENT = runs.experiment(TITLE, "figure 15", KINDS, PANELS, claims=CLAIMS)
