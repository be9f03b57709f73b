"""What a board says of the numbers of a task's predictors, before there is any record of them."""

from collections.abc import Mapping
from typing import Any

from bench.records.schema import Cost
from bench.runs.recording import measured_fields
from leaderboards.checks import derived_by_code as derived
from leaderboards.checks import derived_metrics as following
from leaderboards.checks import numbers
from tasks.interface import Evaluation, Task
from tasks.measurement import Measurement
from tests.bench.records import make_record


def refusals(
    name: str,
    task: Task | Measurement,
    settings: Mapping[str, Any],
    found: Mapping[str, Evaluation],
) -> dict[str, str]:
    """Label -> why a board refuses the numbers of that predictor on the test split."""
    said = {}
    for label, evaluation in found.items():
        record = make_record(
            task=name,
            label=label,
            role="baseline",
            config={"tasks": dict(settings)},
            cost=Cost(),
            **measured_fields(task, {"test": evaluation}, "test"),
        )
        rules = (*following.RULES, *derived.RULES, *numbers.RULES)
        said[label] = next(filter(None, (rule(record) for rule in rules)), "")
    return {label: why for label, why in said.items() if why}
