"""Table 4: deep models of both kinds continue the 24 prompts alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bench.ground.errors import UserError
from bench.records.schema import RunRecord
from reproduce.judging.claims import Claim, Finding, Tolerance
from reproduce.judging.reproduction import Plan, Reproduction
from reproduce.prompts import story_prompts
from reproduce.prompts.story_prompts import BY_US, MODELS, PUBLISHED_DEEP
from reproduce.stories import language

TITLE = "Table 4. Continuations of 24 prompts by deep models"
SOURCE = f"{language.PAPER}, section 7 (qualitative evaluation), table 4"
DEPTHS = {False: PUBLISHED_DEEP}
NARRATIVE = ("reasoning", "consistency")
FLOOR = 10 / 24  # half of what the published transformer passes
GUARD = "where the mean share of all prompts of both models is surely above {floor:.3f}"


def plan(preset: str, seeds: int | None) -> Plan:
    """Both models over seeds, at the depth of the preset."""
    return story_prompts.plan_with(story_prompts.deep_runs(preset, seeds))


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs with more than one block, and the predictors without training."""
    return [r for r in story_prompts.select(records) if not story_prompts.is_shallow(r)]


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


def alike(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Shares of all prompts that differ by a few prompts at most."""
    bound = numbers["tolerance"]
    return story_prompts.difference(records, False, -bound, bound)


def not_behind(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """On the prompts that set constraints the Mosaic is at most a few behind."""
    low = -numbers["tolerance"]
    return story_prompts.difference(records, False, low, math.inf, *NARRATIVE, diverged=0.0)


REPRODUCTION = Reproduction(
    title=TITLE,
    source=SOURCE,
    plan=plan,
    select=select,
    check=several_blocks,
    draw=partial(story_prompts.draw, title=TITLE, depths=DEPTHS),
    curves=partial(story_prompts.curves, depths=DEPTHS),
    note=language.corpus_line,
    table=partial(story_prompts.table, shallow=False, published=PUBLISHED_DEEP),
    claims=(
        Claim(
            "as good as the transformer",
            f"{SOURCE} ({BY_US}: transformer 20, Mosaic 19 of 24)",
            "Both models continue the 24 prompts about equally well.",
            Tolerance(
                "the 95 % interval over seeds and prompts of the difference of the shares of "
                "sensible continuations lies within ±{tolerance:g} (three prompts), " + GUARD,
                {"tolerance": 0.125, "floor": FLOOR},
            ),
            language.stating_corpus(story_prompts.where_passed(alike, MODELS, shallow=False)),
        ),
        Claim(
            "narrative constraints",
            f"{language.PAPER}, section 8, on table 4 ({BY_US}: transformer 12, Mosaic 11 of 15)",
            "The Memory Mosaic satisfies narrative constraints as well as the transformer.",
            Tolerance(
                "on the 15 prompts of reasoning and consistency the 95 % interval over seeds and "
                "prompts of the Mosaic's share minus the transformer's lies above "
                "−{tolerance:g} (two prompts), " + GUARD,
                {"tolerance": 0.134, "floor": FLOOR},
            ),
            language.stating_corpus(story_prompts.where_passed(not_behind, MODELS, shallow=False)),
        ),
    ),
)
