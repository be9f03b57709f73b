"""One layer of attention against two, on constructed runs."""

from dataclasses import replace

import pytest

from bench.records.schema import RunRecord
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED
from reproduce.multi_query_recall import multi_query_recall
from reproduce.multi_query_recall.recall_depth import EXPERIMENT
from tests.bench.records import make_record
from tests.configurations import make_plan
from tests.reproduce.plans import in_words
from tests.reproduce.records import wobble


def runs(one: float, two: float, steps: int = 800) -> list[RunRecord]:
    task = {"pairs": [4], "protocol": "as_set", "rewritten": 0, "test_size": 512}
    return [
        make_record(
            seed=seed,
            task="multi_query_recall",
            model="gpt2",
            role="final",
            config={"tasks": task, "models": {"layers": layers}, "training": {"steps": steps}},
            metrics={"test": {"accuracy": accuracy + wobble(seed) / 10}},
        )
        for layers, accuracy in ((1, one), (2, two))
        for seed in range(3)
    ]


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (0.28, 0.995, [REPRODUCED, REPRODUCED]),
        (0.99, 0.995, [CONTRADICTED, REPRODUCED]),
        (0.28, 0.3, [UNDECIDED, CONTRADICTED]),  # the control fails to recall as well
    ],
)
def test_one_layer_fails_only_where_two_do_not(one: float, two: float, expected: list[str]) -> None:
    first, second = EXPERIMENT.claims
    found = EXPERIMENT.select(runs(one, two))
    said = [first.judge(found).finding.verdict, second.without_control(found).verdict]
    assert said == expected


def test_two_layers_that_are_not_ranked_contradict_nothing() -> None:
    found = [r.model_copy(update={"preset": "laptop"}) for r in EXPERIMENT.select(runs(0.3, 0.3))]
    claim = replace(EXPERIMENT.claims[1], control=None)
    assert claim.without_control(found).verdict == CONTRADICTED
    judged = claim.judge(found).finding
    assert judged.verdict == UNDECIDED
    assert "attention, 2 layers is untuned" in judged.evidence


def test_short_runs_are_not_asked_and_belong_to_no_other_figure() -> None:
    found = [claim.judge(runs(0.28, 0.3, steps=60)).finding for claim in EXPERIMENT.claims]
    assert {one.verdict for one in found} == {NOT_ASKED}
    assert multi_query_recall.EXPERIMENT.select(runs(0.28, 0.3)) == []
    sweeps = [
        make_plan([*words, "preset=laptop"])
        for words in in_words(EXPERIMENT.plan("laptop", 1).sweeps)
    ]
    records = [
        make_record(task=one.task, model=one.model, role="final", config=one.resolved())
        for one in (entry.configuration for sweep in sweeps for entry in sweep.entries)
    ]
    assert len(EXPERIMENT.select(records)) == 2
