"""What tables 4 and 5 share: continuations of the 24 prompts, counted by the check of the task.

The paper prints texts and colours, and counts nothing. The published counts here are this project's
own, by the same check on the continuations as printed, which their authors cut by hand. The words
of the check were chosen with these in view, so they say what it can see, not how good it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from bench.records.schema import RunRecord
from ground.statistics import mean_of
from judging.grammar import Drawn, Number, Records, Rule, Runs, setting
from judging.observations import Sample
from judging.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED, Finding
from reproduce.regbench.regbench import LABELS, MOSAIC
from reproduce.reproduction import Plan
from reproduce.stories import language
from reproduce.stories.language import GPT2

TASK = "story_prompts"
MODELS = (GPT2, MOSAIC)
GROUPS = {"factual": 9, "reasoning": 9, "consistency": 6}  # in the order of the prompts
GROUP_OF = tuple(group for group, size in GROUPS.items() for _ in range(size))
PUBLISHED_LAYERS = 18
Counts = Mapping[str, Mapping[str, int]]
# Sensible continuations among those printed in tables 4 and 5.
PUBLISHED_DEEP: Counts = {
    GPT2: {"factual": 8, "reasoning": 6, "consistency": 6},
    MOSAIC: {"factual": 8, "reasoning": 7, "consistency": 4},
}
PUBLISHED_ONE_BLOCK: Counts = {
    GPT2: {"factual": 1, "reasoning": 2, "consistency": 1},
    MOSAIC: {"factual": 3, "reasoning": 2, "consistency": 1},
}
BY_US = "counted by this project's check, not by the paper"
OTHER_STORIES = Runs("sentences of other stories", TASK, baseline="another story")


def plan(one_block: bool, preset: str, seeds: int | None) -> Plan:
    """Both models over seeds at the depth of the preset, or the published one; before them those
    of one block where they are wanted; and what chance gives."""
    deep = (f"models.layers={PUBLISHED_LAYERS}",) if preset == "paper" else ()
    depths = [("models.layers=1",), deep] if one_block else [deep]
    found = [language.runs_of(MODELS, seeds, f"tasks={TASK}", *words) for words in depths]
    return Plan(tuple(chain(*found)), baselines=((f"tasks={TASK}", f"models={GPT2}"),))


def select(one_block: bool, records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs of the two models, perhaps with those of one block, and the predictors without
    training."""
    return language.of_one_corpus(
        record
        for record in records
        if record.task == TASK
        and (record.role == "baseline" or record.model in MODELS)
        and (one_block or not is_shallow(record))
    )


def is_shallow(record: RunRecord) -> bool:
    """Whether a model has a single block."""
    return record.role != "baseline" and setting(record, "models.layers") == 1


def of(model: str, shallow: bool, label: str = "") -> Runs:
    """The runs of a model with one block, or with more."""
    chosen = Runs(label or LABELS[model], TASK, model)
    return replace(chosen, choose=lambda record: is_shallow(record) == shallow)


def on(record: RunRecord, *groups: str) -> RunRecord:
    """The record as if the prompts of these groups were all."""
    passed = record.per_sequence.get("sensible", []) if record.outcome == "ok" else []
    chosen = [group in (groups or GROUPS) for group in GROUP_OF]
    kept = [value for value, keep in zip(passed, chosen, strict=False) if keep]
    metrics = {"test": {"sensible": mean_of(kept)}} if kept else {}
    changes = {"metrics": metrics, "per_sequence": {"sensible": kept}}
    return record.model_copy(update=changes)


def sensible(runs: Runs, *groups: str, diverged: float | None = None) -> Drawn:
    """The share of sensible continuations among the prompts of the groups, or of all: 24 of them
    are few, and seeds that agree on all say nothing about other prompts."""
    number = Number("share", "sensible", diverged=diverged).of(runs)

    def draw(records: Records) -> Sample:
        found = number.sample([on(record, *groups) for record in runs.of(records)])
        return replace(found, items=found.items and replace(found.items, name="prompts"))

    return Drawn(runs.label, draw)


def where_passed(rule: Rule, passed: Mapping[str, Rule]) -> Rule:
    """A rule on models that come out alike, which shows nothing where they fail alike.

    Args:
        passed: what has to be sure, by what is said where it is not.
    """

    def judge(records: Records, level: float) -> Finding:
        finding = rule.judge(records, level)
        if finding.verdict == CONTRADICTED:
            return finding
        sure = (
            reason
            for reason, of in passed.items()
            if of.judge(records, level).verdict != REPRODUCED
        )
        reason = next(sure, "")
        if not reason:
            return finding
        evidence = f"{finding.evidence}; but {reason}, and to fail alike shows nothing"
        return replace(finding, verdict=UNDECIDED, evidence=evidence, seeds_needed=None)

    return replace(rule, judge=judge)
