"""Table 4: deep models of both kinds continue the 24 prompts alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.errors import UserError
from reproduce.claims.claims import Claim
from reproduce.claims.grammar import difference, within
from reproduce.claims.rules.guards import where_passed
from reproduce.prompts import tables
from reproduce.prompts.tables import BY_US, GPT2, MODELS, MOSAIC, sensible
from reproduce.stories.language import PAPER

TITLE = "Table 4. Continuations of 24 prompts by deep models"
SOURCE = f"{PAPER}, section 7 (qualitative evaluation), table 4"
NARRATIVE = ("reasoning", "consistency")
FLOOR = 10 / 24  # half of what the published transformer passes
GUARD = f"where the mean share of all prompts of both models is surely above {FLOOR:.3f}"
DEEP = {model: tables.of(model, shallow=False) for model in MODELS}
PASSED = {
    f"{runs.label} is not surely above {FLOOR:.3f}": within(sensible(runs), FLOOR)
    for runs in DEEP.values()
}


def several_blocks(config: Mapping[str, Any]) -> None:
    """Refuse models of a single block.

    Raises:
        UserError: the table shows deeper ones.
    """
    if config.get("models", {}).get("layers") == 1:
        raise UserError(
            "this table shows models of more than one block: give models.layers=2 or more, or "
            "reproduce table5, which has both"
        )


ALIKE = difference(sensible(DEEP[MOSAIC]), sensible(DEEP[GPT2]), -0.125, 0.125)
NOT_BEHIND = difference(
    sensible(DEEP[MOSAIC], *NARRATIVE, diverged=0.0), sensible(DEEP[GPT2], *NARRATIVE), -0.134
)
CLAIMS = (
    Claim(
        "as good as the transformer",
        "Both models continue the 24 prompts about equally well.",
        where_passed(ALIKE, PASSED),
        "the 95 % interval over seeds and prompts of the difference of the shares of sensible "
        "continuations lies within ±{high:g} (three prompts), " + GUARD,
        source=f"{SOURCE} ({BY_US}: transformer 20, Mosaic 19 of 24)",
    ),
    Claim(
        "narrative constraints",
        "The Memory Mosaic satisfies narrative constraints as well as the transformer.",
        where_passed(NOT_BEHIND, PASSED),
        "on the 15 prompts of reasoning and consistency the 95 % interval over seeds and prompts "
        "of the Mosaic's share minus the transformer's is at least {low:g} (two prompts), " + GUARD,
        source=f"{PAPER}, section 8, on table 4 ({BY_US}: transformer 12, Mosaic 11 of 15)",
    ),
)
DEPTHS = {False: tables.PUBLISHED_DEEP}
EXPERIMENT = tables.experiment(TITLE, SOURCE, DEPTHS, CLAIMS, check=several_blocks)
