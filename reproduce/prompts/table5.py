"""Table 5: models of a single block and the 24 prompts, beside the deep ones of table 4."""

from __future__ import annotations

from functools import partial

from reproduce.judging.claims import Claim
from reproduce.judging.grammar import above, difference, each
from reproduce.judging.reproduction import Plan, Reproduction
from reproduce.prompts import runs, tables
from reproduce.prompts.runs import (
    BY_US,
    GPT2,
    MODELS,
    MOSAIC,
    OTHER_STORIES,
    PUBLISHED_DEEP,
    PUBLISHED_ONE_BLOCK,
    TASK,
    sensible,
)
from reproduce.regbench.regbench import LABELS
from reproduce.stories import language

TITLE = "Table 5. Continuations of 24 prompts by models of one block"
SOURCE = f"{language.PAPER}, appendix D.3, table 5"
ONE = {model: runs.of(model, shallow=True) for model in MODELS}


def plan(preset: str, seeds: int | None) -> Plan:
    """Both models with one block over seeds, and those of table 4."""
    one_block = language.runs_of(MODELS, seeds, f"tasks={TASK}", "models.layers=1")
    return runs.plan_with((*one_block, *runs.deep_runs(preset, seeds)))


DEPTH_HELPS = each(
    above(
        sensible(runs.of(model, False, f"{LABELS[model]}, deep")),
        sensible(runs.of(model, True, f"{LABELS[model]}, one block")),
    )
    for model in MODELS
)
NOT_BEHIND = difference(sensible(ONE[MOSAIC], diverged=0.0), sensible(ONE[GPT2]), -0.042)
PASSED = {
    f"{LABELS[MOSAIC]} is not surely above {OTHER_STORIES.label}": above(
        sensible(ONE[MOSAIC]), sensible(OTHER_STORIES)
    )
}
CLAIMS = (
    Claim(
        "one block is too few",
        f"{SOURCE} beside table 4, which the paper prints without comment ({BY_US}: "
        "transformer 4 against 20, Mosaic 6 against 19 of 24)",
        "With one block either model continues fewer prompts sensibly than with many.",
        language.told_corpus(DEPTH_HELPS),
        "for both models the 95 % interval over seeds and prompts of the share of the deep model "
        "minus that of the model with one block lies above {by:g}",
    ),
    Claim(
        "one block, the Mosaic not behind",
        f"{SOURCE} as printed ({BY_US}: transformer 4, Mosaic 6 of 24); the text speaks of a "
        "small advantage in loss only (appendix D.2)",
        "With one block the Mosaic continues at least as many prompts sensibly as the transformer.",
        language.told_corpus(runs.where_passed(NOT_BEHIND, PASSED)),
        "the 95 % interval over seeds and prompts of the Mosaic's share minus the transformer's is "
        "at least {low:g} (one prompt), where the Mosaic's share is surely above that of sentences "
        "of other stories",
    ),
)
REPRODUCTION = Reproduction(
    title=TITLE,
    source=SOURCE,
    plan=plan,
    select=runs.select,
    variant=runs.is_shallow,
    varied=("models.layers",),
    panels=partial(
        tables.panels, title=TITLE, depths={True: PUBLISHED_ONE_BLOCK, False: PUBLISHED_DEEP}
    ),
    note=language.corpus_line,
    table=partial(tables.table, shallow=True, published=PUBLISHED_ONE_BLOCK),
    claims=CLAIMS,
)
