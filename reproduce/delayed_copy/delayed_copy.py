"""Copying after a fixed delay: a Memory Mosaic beside recurrent models and a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim
from reproduce.claims.controls import Control
from reproduce.claims.grammar import (
    Measured,
    Number,
    Rule,
    Runs,
    each,
    once,
    provided,
    setting,
    trained_for,
    within,
)
from reproduce.drawing.plots import Plot, dots, names
from reproduce.experiment import Experiment, Sweep
from reproduce.plotting.models import label
from reproduce.plotting.panels import Axis, Remark

TITLE = "Copying after a fixed delay: numbers and tokens"
OUTSIDE = (
    'the task "postcasting" of CogScale (arXiv 2605.19758), on which a Memory Mosaic was seen to '
    "fail; the paper itself has no Memory Mosaic"
)
NUMBERS, TOKENS = "delayed_copy", "delayed_copy_of_tokens"
STEPS = 2000  # without which an error says nothing
MOSAIC, MAMBA = "memory_mosaic", "mamba"
MODELS = (MOSAIC, MAMBA, "lstm", "gpt2")
# A delay that one convolution of keys spans: whoever copies it can be trained on this task.
NEAR = 1
LONGER = 2  # times as many steps, for who has not learned
ERROR = Number("error in units of the variance", "error")
ACCURACY = Number("share of tokens that are right", "accuracy")
# An error that is 0 but for noise of training, and one that is nearly that of answering 0; the
# largest is what a run that diverges leaves behind.
COPIES, GUESSES, USELESS = 0.05, 0.5, 1.1
RIGHT, WRONG = 0.95, 0.5


def longer(preset: str) -> dict[str, Any]:
    """Settings of the longer training, at presets where the figure plans it."""
    return {"training.steps": LONGER * STEPS, "training.validate_every": LONGER * STEPS // 20}


def sweeps(preset: str) -> list[Sweep]:
    """All models at the delay of the preset; the Memory Mosaic at the short one as well, and at
    laptop with more steps."""
    planned = []
    for task in (NUMBERS, TOKENS):
        planned += [Sweep(task, MODELS), Sweep(task, [MOSAIC], {"tasks.delay": NEAR})]
        if preset == "laptop":
            planned.append(Sweep(task, [MOSAIC], longer(preset)))
    return planned


def has_delay(near: bool, record: RunRecord) -> bool:
    """Whether a run has the short delay, or the one of its preset."""
    return (setting(record, "tasks.delay") == NEAR) == near


def is_long(record: RunRecord) -> bool:
    """Whether a run was trained for longer than the others."""
    return bool(setting(record, "training.steps") == LONGER * STEPS)


def row(task: str, model: str) -> Runs:
    """The runs of a model at the delay and the steps of the preset."""
    return Runs(
        label(model),
        task,
        model,
        choose=lambda record: has_delay(False, record) and not is_long(record),
    )


def near(task: str) -> Runs:
    """The Memory Mosaic at the short delay."""
    return Runs(f"{label(MOSAIC)}, one back", task, MOSAIC, choose=partial(has_delay, True))


def with_more_steps(task: str) -> Runs:
    """The Memory Mosaic at the delay of the preset, trained for longer."""
    return Runs(
        f"{label(MOSAIC)}, {LONGER} times the steps",
        task,
        MOSAIC,
        choose=lambda record: has_delay(False, record) and is_long(record),
    )


def rows(task: str) -> tuple[Runs, ...]:
    """All that the figure shows of a task."""
    return (*(row(task, model) for model in MODELS), with_more_steps(task), near(task))


def score(runs: Runs) -> Measured:
    """What a task is scored by."""
    return (ERROR if runs.task == NUMBERS else ACCURACY).of(runs)


def copies(runs: Runs) -> Rule:
    """Nearly every answer is right."""
    bounds = {"high": COPIES} if runs.task == NUMBERS else {"low": RIGHT}
    return within(score(runs), **bounds)


def fails(runs: Runs) -> Rule:
    """Most of what is asked is not known, and no answer is worse than a guess: such a number would
    speak of a run that diverged."""
    low, high = (GUESSES, USELESS) if runs.task == NUMBERS else (0.0, WRONG)
    return within(score(runs), low=low, high=high)


def asked(rule: Rule) -> Rule:
    """The rule, where rows were trained for as long as at the preset that asks it."""
    return once(trained_for(STEPS, "laptop"), rule)


def fail_where_mamba_copies(task: str, slow: Sequence[Runs]) -> Rule:
    """Mamba copies, the Memory Mosaic copies what is one back, and each of ``slow`` fails."""
    able = each([copies(row(task, MAMBA)), copies(near(task))])
    return asked(provided(able, each([fails(runs) for runs in slow])))


def claims_of(task: str, what: str) -> tuple[Claim, Claim]:
    """Two claims: which models copy, and which have not learned to by then."""
    mamba = row(task, MAMBA)
    slow = [row(task, MOSAIC), with_more_steps(task)]
    return (
        Claim(
            f"Mamba copies {what} from far back",
            f"Mamba copies {what} that stand a fixed number of positions back.",
            asked(copies(mamba)),
        ),
        Claim(
            f"a Memory Mosaic has not learned to copy {what} from far back by then",
            f"A Memory Mosaic that copies {what} from one position back has not learned to copy "
            f"those of the longer delay when Mamba has, nor in {LONGER} times as many steps.",
            fail_where_mamba_copies(task, slow),
            control=Control("Mamba in its place", fail_where_mamba_copies(task, [mamba])),
        ),
    )


def _panel(task: str, title: str, metric: str, guess: float) -> Plot:
    axis = Axis(metric, limits=(0, USELESS))
    return Plot(
        title, names(rows(task)), axis, [dots(metric, rows(task))], [Remark("guess", y=guess)]
    )


EXPERIMENT = Experiment(
    TITLE,
    OUTSIDE,
    (*claims_of(NUMBERS, "numbers"), *claims_of(TOKENS, "tokens")),
    sweeps=sweeps,
    records=[*rows(NUMBERS), *rows(TOKENS)],
    panels=[_panel(NUMBERS, "numbers", "error", 1.0), _panel(TOKENS, "tokens", "accuracy", 1 / 16)],
    layout={"width": 12},
    variant=("tasks.delay", "training.steps"),
    varied=("tasks.delay", "training.steps", "training.validate_every"),
)
