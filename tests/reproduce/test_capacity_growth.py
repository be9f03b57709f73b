"""How capacity grows, on constructed records whose laws are known."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from bench.records.schema import RunRecord
from reproduce.capacity.capacity_growth import (
    ADDED,
    BY_RANK,
    CLAIMS,
    EXPERIMENT,
    LOOKED,
    OF_TWO,
    OWN,
    PAIRED,
    STORED,
    SUMMED,
    TWO,
)
from reproduce.claims.rules.growth import Growth
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED, Verdict
from tests.bench.records import make_record
from tests.configurations import compose
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words

JUDGED = {claim.name: claim for claim in EXPERIMENT.claims}
Count = Callable[[int], float]


def measured(growth: Growth, count: Count, full: bool = True, **models: Any) -> list[RunRecord]:
    """``count(width)`` associations, with exponents that differ a little in three seeds."""
    runs, found = growth.runs, []
    tasks = {key.removeprefix("tasks."): value for key, value in runs.settings.items()}
    widths, share = tasks["widths"], f"{tasks['thresholds'][0]:g}"
    for seed in range(3):
        bend = 0.01 * (seed - 1)  # of the exponent
        rows = [[count(w) * (w * (1 + sum(models.values()))) ** bend] for w in widths]
        record = make_record(
            task=runs.task,
            model=str(runs.model),
            preset="laptop",
            seed=seed,
            identity=hashlib.sha256(repr((runs, models)).encode()).hexdigest(),
            config={"tasks": tasks, "models": models, "training": {}},
            metrics={
                "test": {
                    "associations": rows[0][0],
                    **{f"weights/{share}/{w}": 33.0 * models.get("hidden", 1) for w in widths},
                }
            },
            per_sequence={},
            arrays={
                "widths": widths,
                f"associations/{share}": rows,
                f"filled/{share}": [[full]] * len(widths),
            },
        )
        found.append(record)
    return found


def over(growth: Growth, key: str, sizes: list[float], count: Callable[[float, int], float]):
    return [
        record
        for size in sizes
        for record in measured(growth, lambda w, s=size: count(s, w), **{key: size})
    ]


def ranks(exponent: float) -> list[RunRecord]:
    return over(BY_RANK, "rank", [16, 32, 64, 128], lambda m, d: m**exponent * d)


@pytest.mark.parametrize(
    ("name", "records", "verdict"),
    [
        (0, measured(TWO, lambda d: d) + measured(OWN, lambda d: d**2), REPRODUCED),
        (0, measured(TWO, lambda d: d) + measured(OWN, lambda d: d), UNDECIDED),
        (0, measured(TWO, lambda d: d**1.5) + measured(OWN, lambda d: d**2), CONTRADICTED),
        (0, measured(TWO, lambda d: d, full=False), UNDECIDED),
        (0, [], NOT_ASKED),
        (1, ranks(1) + over(OF_TWO, "rank", [16, 128], lambda m, d: d), REPRODUCED),
        (1, ranks(0.5) + over(OF_TWO, "rank", [16, 128], lambda m, d: d), CONTRADICTED),
        (
            2,
            over(PAIRED, "expansion", [1.0, 2.0], lambda m, d: m * d**2)
            + measured(ADDED, lambda d: d),
            REPRODUCED,
        ),
        (3, measured(LOOKED, lambda d: 2 ** (0.6 * d)) + measured(SUMMED, lambda d: d), REPRODUCED),
        (3, measured(LOOKED, lambda d: 2 * d**2), CONTRADICTED),  # past d², and no exponential
        (5, over(STORED, "hidden", [4, 8], lambda m, d: 3 * m), UNDECIDED),  # no untrained runs
        (5, over(STORED, "hidden", [4, 8], lambda m, d: 3 * m**2), CONTRADICTED),
    ],
)
def test_each_law_is_told_from_its_neighbours(
    name: int, records: list[RunRecord], verdict: Verdict
) -> None:
    claim = JUDGED[CLAIMS[name].name]
    result = claim.judge(EXPERIMENT.select(records))
    assert result.finding.verdict == verdict, result.finding.evidence


def test_the_figure_is_drawn_and_its_plan_makes_what_its_claims_read() -> None:
    records = measured(TWO, lambda d: d) + ranks(1)
    assert rendered(EXPERIMENT.draw(EXPERIMENT.select(records)))
    planned = [
        compose([*words, "preset=laptop"]) for words in in_words(EXPERIMENT.plan("laptop", 1).runs)
    ]
    assert len(planned) == 20
    for growth in (TWO, OWN, BY_RANK, OF_TWO, PAIRED, ADDED, LOOKED, SUMMED, STORED):
        made = [
            make_record(task=one.task, model=one.model, config=one.resolved()) for one in planned
        ]
        assert any(map(growth.runs.has, made)), growth.runs.label
