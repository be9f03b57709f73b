"""What the numbers of records are: kinds from cards of tasks, items by an analysis of variance."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from bench.config.groups import card, choices
from bench.records.numbers import items_of, kind_of
from bench.records.schema import RunRecord
from core.statistics import COUNT, KINDS, LOSS, REAL, SHARE
from tests.bench.records import make_record
from tests.committed import committed_records
from tests.conftest import ROOT

RECORDS = ROOT / "leaderboards" / "records"


def seed(number: int, values: Sequence[float], test: str = "data", **changes: object) -> RunRecord:
    provenance = make_record().provenance.model_copy(update={"data": {"test": test}})
    per_sequence = {"accuracy": list(values)} if len(values) else {}
    return make_record(seed=number, provenance=provenance, per_sequence=per_sequence, **changes)


def test_the_card_of_a_task_says_of_what_kind_a_metric_is() -> None:
    assert kind_of("regbench", "tvd") is SHARE
    assert kind_of("regbench", "loss") is LOSS
    assert kind_of("bigram_probes", "steps_to_half_output_recall") is COUNT
    assert kind_of("bigram_probes", "output_recall") is SHARE
    assert kind_of("regbench", "something new") is REAL
    assert kind_of("no task of ours", "accuracy") is REAL


def test_every_card_states_kinds_that_exist() -> None:
    assert all(set(card("tasks", task)["numbers"]) <= set(KINDS) for task in choices("tasks"))


@pytest.mark.long
def test_every_committed_number_lies_in_the_range_of_its_kind() -> None:
    records = committed_records()
    assert len(records) > 500
    outside = set()
    for record in records:
        for name, value in record.metrics.get("test", {}).items():
            kind = kind_of(record.task, name)
            # A divergence of equal distributions is a sum that may round to less than zero. A
            # predictor that knows the distribution p has it from float32: p, its logarithm and
            # their product round by half an epsilon each, of an entropy of at most ln 65 nats.
            rounded = 1e-9 if "divergence" in name else 0.0
            if rounded and record.role == "baseline":
                rounded = 1.5 * float(np.finfo(np.float32).eps) * math.log(65)
            if not kind.low - rounded <= value <= kind.high:
                outside.add((record.task, name, value))
    assert not outside


def test_items_are_a_two_way_analysis_of_variance() -> None:
    """Sums of squares by brute force: of items, of seeds, and what neither explains."""
    table = np.random.default_rng(1).random((3, 7))
    found = items_of([seed(i, row) for i, row in enumerate(table)], "accuracy")
    assert found is not None
    grand = table.mean()
    of_items = sum(3 * (table[:, j].mean() - grand) ** 2 for j in range(7))
    of_seeds = sum(7 * (table[i].mean() - grand) ** 2 for i in range(3))
    total = sum((value - grand) ** 2 for value in table.ravel())
    residual = total - of_items - of_seeds
    assert found.count == 7
    assert found.variance == pytest.approx(of_items / 6 / 21)  # mean square over all 21 numbers
    assert found.shared == pytest.approx(residual / 12 / 21)
    assert found.values == pytest.approx(table.mean(0))
    assert found.drawn == "data"


def test_items_are_known_only_where_all_seeds_were_measured_on_the_same_ones() -> None:
    two = [seed(0, [0.1, 0.2]), seed(1, [0.3, 0.4])]
    assert items_of(two, "accuracy") is not None
    assert items_of(two, "tvd") is None
    assert items_of([], "accuracy") is None
    assert items_of([*two, seed(2, [0.5, 0.6], test="other")], "accuracy") is None
    assert items_of([*two, seed(2, [0.5])], "accuracy") is None
    assert items_of([*two, seed(2, [])], "accuracy") is None
    lost = seed(2, [], outcome="diverged", metrics={})
    assert items_of([*two, lost], "accuracy") == items_of(two, "accuracy")
    alone = items_of(two[:1], "accuracy")
    assert alone is not None
    assert alone.shared == 0.0
