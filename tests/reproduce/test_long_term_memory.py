"""The claims about the second Mosaic's long-term memory, on constructed runs."""

import pytest

from bench.records.schema import RunRecord
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED
from reproduce.long_term_memory import long_term_memory as figure
from tests.bench.records import make_record

RECALL, FACTS = "multi_query_recall", "mad"
KNOWN = {  # accuracy, by task, model and window
    (RECALL, figure.WITH, 8): 1.0,
    (RECALL, figure.WITHOUT, 8): 0.2,
    (RECALL, figure.WITHOUT, 32): 1.0,
    (FACTS, figure.WITH, 8): 1.0,
    (FACTS, figure.WITHOUT, 8): 1.0,
}


def runs(known: dict[tuple[str, str, int], float]) -> list[RunRecord]:
    return [
        make_record(
            task=task,
            model=model,
            label=model,
            preset="laptop",
            role="final",
            seed=seed,
            identity=f"{task} {model} {window}",
            metrics={"test": {"accuracy": accuracy, f"accuracy/{figure.FAR}": accuracy}},
            per_sequence={"accuracy": [accuracy] * 512},
            config={
                "tasks": {"pairs": [2, 4, 8], "synthetic": "memorisation", "test_size": 512},
                "models": {"window": window},
                "training": {"steps": 600},
            },
        )
        for (task, model, window), accuracy in known.items()
        for seed in range(3)
    ]


def judged(known: dict[tuple[str, str, int], float]) -> list[str]:
    """By the rules alone: which rows are tuned, and what untrained networks do, is judged apart."""
    records = figure.EXPERIMENT.select(runs(known))
    return [claim.rule.judge(records, 0.95).verdict for claim in figure.EXPERIMENT.claims]


def test_claims_hold_where_they_should() -> None:
    assert judged(KNOWN) == [REPRODUCED] * 3


@pytest.mark.parametrize(
    ("changed", "verdicts"),
    [
        ({(RECALL, figure.WITHOUT, 8): 0.95}, [CONTRADICTED, REPRODUCED, REPRODUCED]),
        ({(RECALL, figure.WITHOUT, 32): 0.2}, [REPRODUCED, CONTRADICTED, REPRODUCED]),
        ({(FACTS, figure.WITHOUT, 8): 0.8}, [REPRODUCED, REPRODUCED, CONTRADICTED]),
        # Where the whole model recalls and knows nothing, nothing can be alike.
        ({(RECALL, figure.WITH, 8): 0.2}, [CONTRADICTED, UNDECIDED, REPRODUCED]),
        ({(FACTS, figure.WITH, 8): 0.1}, [REPRODUCED, REPRODUCED, UNDECIDED]),
    ],
)
def test_another_system_does_not_pass(
    changed: dict[tuple[str, str, int], float], verdicts: list[str]
) -> None:
    assert judged({**KNOWN, **changed}) == verdicts


def test_other_windows_and_tasks_have_no_place() -> None:
    others = runs({(RECALL, figure.WITH, 32): 1.0, ("regbench", figure.WITH, 8): 1.0})
    assert figure.EXPERIMENT.select(others) == []
