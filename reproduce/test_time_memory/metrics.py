"""The metrics that claims about test-time memory read, and the questions behind each."""

from __future__ import annotations

from bench.records.schema import RunRecord
from reproduce.claims.grammar import Number, setting
from reproduce.test_time_memory import runs

NEWEST, OLDEST = "recall_newest_quarter", "recall_oldest_quarter"
NEW, STALE, KEPT = "overwrite_new", "overwrite_stale", "overwrite_untouched"
# Into how many the task's ``items`` are divided for a share; the others are of all of them.
PARTS = {"overwrite": 4, "tracking": 4, "exceptions": 2, NEWEST: 2, OLDEST: 2}
SEQUENCES = {"one_recall": 1, "forgetting_first_after": 50, "forgetting_second_after": 50}


def items_behind(metric: str) -> Number:
    """A metric with the number of questions that it is a mean over; every seed draws its own."""

    def count(record: RunRecord) -> int:
        trials = int(setting(record, "tasks.trials"))
        return trials if "diverged" in metric else trials * _asked(record, metric)

    return Number("", metric, items=count, fresh=True)


def _asked(record: RunRecord, metric: str) -> int:
    """The questions to one memory."""
    last = metric.rpartition("_")[2]
    if metric in SEQUENCES:
        return SEQUENCES[metric]
    if last.isdigit() and setting(record, "tasks.material") == runs.INTEGERS:
        return int(last)
    if metric == "recall":
        counts = setting(record, "tasks.counts")
        return int(counts[len(counts) // 2])
    divided = (parts for name, parts in PARTS.items() if metric.startswith(name))
    return int(setting(record, "tasks.items")) // next(divided, 1)
