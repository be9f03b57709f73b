"""Verdicts from Python: ``from bench import judge, Runs, Number, above, within``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bench.records.schema import RunRecord
from core.arguments import described
from core.errors import UserError
from core.statistics import LEVEL
from reproduce.claims.asked import refuse_different, refuse_wrong_names, remarks
from reproduce.claims.grammar import Rule
from reproduce.claims.verdicts import Finding


def judge(rule: Rule, records: Iterable[RunRecord], level: float = LEVEL) -> Finding:
    """What runs say about a claim, by the test that judges the published ones.

    Args:
        rule: from :func:`.grammar.within` or :func:`.grammar.above`, or another word
            of that module.
        records: among which the rule finds its runs, such as those of ``read_records``. Controls,
            which are made to fail a claim, and trials are left out. Runs of one seed that differ
            in a setting count once, so name every setting that differs:
            ``Runs(..., settings={"training.steps": 7200})``. All are of one task and one preset,
            unless each ``Runs`` of the rule names its task, or chooses its records.
        level: of the interval that decides; 0.95 as everywhere.

    Returns:
        ``verdict`` ("reproduced", "contradicted" or "not enough evidence"), ``evidence`` in words,
        ``seeds``, and ``seeds_needed`` to settle an open one. The evidence ends with a note where
        runs of one seed differ, or where no run has a value that is asked for.

    Raises:
        UserError: a model, task, setting or metric that there is not, runs of different tasks or
            presets, sides that differ in a setting of the task or in their length of training
            that they do not name, or something else than a rule, records and a level.

    Example::

        accuracy = Number("accuracy", "accuracy")
        mosaic, gpt2 = Runs("Mosaic", model="memory_mosaic"), Runs("GPT2", model="gpt2")
        judge(above(accuracy.of(mosaic), accuracy.of(gpt2), by=0.1), records).verdict
    """
    if not isinstance(rule, Rule):
        raise UserError(
            "judge takes a rule and then records, judge(within(accuracy.of(runs), low=0.9), "
            f"records), and its rule is {described(rule)}"
        )
    if type(level) not in (int, float) or not 0 < level < 1:
        raise UserError(f"level is a share between 0 and 1, such as 0.95, and not {level!r}")
    results = [record for record in _checked(records) if record.role not in ("control", "trial")]
    refuse_wrong_names(rule, results)
    refuse_different(rule, results)
    finding = rule.judge(results, level)
    notes = remarks(rule, results)
    return replace(finding, evidence="; ".join([finding.evidence, *notes])) if notes else finding


def _checked(records: Iterable[RunRecord]) -> list[RunRecord]:
    # Text and a record can be iterated, too.
    if isinstance(records, Iterable) and not isinstance(records, str | RunRecord):
        listed = list(records)
        others = [described(item) for item in listed if not isinstance(item, RunRecord)]
        if not others:
            return listed
        given = f"{described(records)} with {others[0]}"
    else:
        given = described(records)
    raise UserError(f"judge takes a list of records, as read_records gives it, and not {given}")
