"""Exchanges: rules on rows whose numbers are given."""

import pytest

from bench.config.settings import Configuration
from bench.records.schema import RunRecord
from reproduce.state_tracking.exchanges import ATTENTION, EXPERIMENT, GATED, PRODUCT, RECALL, TASK
from tests.reproduce.associative.constructed import measured

REPRODUCED, CONTRADICTED, OPEN = "reproduced", "contradicted", "not enough evidence"


def rows(recall: float, product: float, others: float) -> list[RunRecord]:
    """Three seeds of three models, with both skills and with recall alone."""
    records = []
    for model in (PRODUCT, GATED, ATTENTION):
        both = product if model == PRODUCT else others
        for settings, accuracy in (({}, both), (RECALL, recall)):
            for seed in range(3):
                words = {"tasks": TASK, "models": model, "preset": "laptop", "seed": seed}
                run = Configuration.of({**words, **settings})
                records.append(measured(run, {"accuracy": accuracy - seed * 1e-3}))
    return records


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((1.0, 0.99, 0.6), [REPRODUCED, REPRODUCED, REPRODUCED]),
        ((1.0, 0.99, 0.98), [REPRODUCED, CONTRADICTED, CONTRADICTED]),
        ((0.6, 0.99, 0.5), [REPRODUCED, OPEN, OPEN]),  # who does not recall says nothing of state
        ((1.0, 0.5, 0.5), [CONTRADICTED, CONTRADICTED, CONTRADICTED]),
    ],
)
def test_rows_are_judged(numbers: tuple[float, ...], expected: list[str]) -> None:
    records = EXPERIMENT.select(rows(*numbers))
    found = [claim.rule.judge(records, 0.95).verdict for claim in EXPERIMENT.claims]
    assert found == expected
