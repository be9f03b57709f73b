"""Verdicts from Python: ``from bench import judge, Runs, Number, above, within``."""

from __future__ import annotations

from collections.abc import Sequence

from bench.records.schema import RunRecord
from core.statistics import LEVEL
from reproduce.claims.grammar import Rule
from reproduce.claims.verdicts import Finding


def judge(rule: Rule, records: Sequence[RunRecord], level: float = LEVEL) -> Finding:
    """What runs say about a claim, by the test that judges the published ones.

    Args:
        rule: from :func:`.grammar.within` or :func:`.grammar.above`, or another word
            of that module.
        records: among which the rule finds its runs. Controls, which are made to fail a claim, and
            trials are left out. Runs of one seed that differ in a setting count once, so
            name every setting that differs: ``Runs(..., settings={"training.steps": 7200})``.
        level: of the interval that decides; 0.95 as everywhere.

    Returns:
        ``verdict`` ("reproduced", "contradicted" or "not enough evidence"), ``evidence`` in words,
        ``seeds``, and ``seeds_needed`` to settle an open one.

    Example::

        accuracy = Number("accuracy", "accuracy")
        mosaic, gpt2 = Runs("Mosaic", model="memory_mosaic"), Runs("GPT2", model="gpt2")
        judge(above(accuracy.of(mosaic), accuracy.of(gpt2), by=0.1), records).verdict
    """
    results = [record for record in records if record.role not in ("control", "trial")]
    return rule.judge(results, level)
