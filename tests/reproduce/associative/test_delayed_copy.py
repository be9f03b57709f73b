"""Delayed copy: verdicts on rows whose numbers are given."""

import pytest

from bench.config.settings import Configuration
from bench.records.schema import RunRecord
from reproduce.delayed_copy.delayed_copy import EXPERIMENT, LONGER, MODELS, NUMBERS, STEPS, TOKENS
from tests.reproduce.associative.constructed import measured, verdicts

NAMES = [claim.name for claim in EXPERIMENT.claims]
# Error of numbers and accuracy of tokens of who knows all, of who guesses, and of who diverged.
KNOWN, GUESS, DIVERGED = {NUMBERS: 0.001, TOKENS: 0.99}, {NUMBERS: 1.0, TOKENS: 0.06}, 9.0
Scores = dict[str, float]


def rows(mosaic: Scores, long: Scores, near: Scores, others: Scores) -> list[RunRecord]:
    """Three seeds of every row at laptop."""
    records = []
    for task, metric in ((NUMBERS, "error"), (TOKENS, "accuracy")):
        settings: list[tuple[str, int, int, Scores]] = [
            (model, 10, STEPS, mosaic if model == MODELS[0] else others) for model in MODELS
        ]
        settings += [(MODELS[0], 10, LONGER * STEPS, long), (MODELS[0], 1, STEPS, near)]
        for model, delay, steps, score in settings:
            for seed in range(3):
                words = {"tasks": task, "models": model, "preset": "laptop", "seed": seed}
                words |= {"tasks.delay": delay, "training.steps": steps}
                run = Configuration.of(words)
                records.append(measured(run, {metric: score[task] * (1 + seed * 1e-3)}))
    return records


REPRODUCED, CONTRADICTED, OPEN = "reproduced", "contradicted", "not enough evidence"


@pytest.mark.parametrize(
    ("scores", "mamba", "mosaic"),
    [
        ((GUESS, GUESS, KNOWN, KNOWN), REPRODUCED, REPRODUCED),
        ((GUESS, KNOWN, KNOWN, KNOWN), REPRODUCED, CONTRADICTED),  # with more steps it copies
        ((KNOWN, KNOWN, KNOWN, KNOWN), REPRODUCED, CONTRADICTED),
        ((GUESS, GUESS, KNOWN, GUESS), CONTRADICTED, OPEN),  # nobody copies: too few steps
        ((GUESS, GUESS, GUESS, KNOWN), REPRODUCED, OPEN),  # it cannot be trained on this task
    ],
)
def test_rows_are_judged(scores: tuple[Scores, ...], mamba: str, mosaic: str) -> None:
    """That Mamba copies has the untrained network for a control, which no given number replaces:
    its rule is judged alone."""
    records = EXPERIMENT.select(rows(*scores))
    rules = {claim.name: claim.rule.judge(records, 0.95).verdict for claim in EXPERIMENT.claims}
    whole = verdicts(EXPERIMENT, records)
    assert [rules[NAMES[0]], whole[NAMES[1]], rules[NAMES[2]], whole[NAMES[3]]] == [
        mamba,
        mosaic,
        mamba,
        mosaic,
    ]


def test_a_run_that_diverged_is_no_guess() -> None:
    diverged = {NUMBERS: DIVERGED, TOKENS: GUESS[TOKENS]}
    found = verdicts(EXPERIMENT, rows(diverged, GUESS, KNOWN, KNOWN))
    assert found[NAMES[1]] != REPRODUCED
