"""Mamba-3's claims on runs whose verdicts are known, and the runs that it plans."""

from functools import cache

import pytest

from bench.records.schema import RunRecord
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED, Verdict
from reproduce.state_tracking import mamba3 as figure
from tasks.state_tracking import StateTracking
from tests.configurations import make_plan
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words
from tests.reproduce.state_tracking.words import SIZES, Follower, scored

NAMES = (
    "Mamba-3 follows parity",
    "rotation alone follows parity",
    "nothing else of Mamba-3 follows parity",
)
STEPS = figure.STEPS
TASK = StateTracking(group="parity", **SIZES)
WORDS = {"group": "parity", "letters": "all"}
KNOWN = {figure.WHOLE: 64, figure.ROTATION: 64, **dict.fromkeys(figure.NOT_TURNED, 14)}


@cache
def run(model: str, span: int, seed: int, steps: int) -> RunRecord:
    return scored(
        TASK,
        Follower(TASK, span),
        seed,
        model,
        tasks=WORDS,
        models={"layers": 1},
        training={"steps": steps},
    )


def runs(steps: int = STEPS, **spans: int) -> list[RunRecord]:
    """The letters that a model follows are given by its name."""
    known = {**KNOWN, **spans}
    return [run(model, span, seed, steps) for model, span in known.items() for seed in range(3)]


def judged(records: list[RunRecord]) -> dict[str, Verdict]:
    figure_records = figure.EXPERIMENT.select(records)
    return {claim.name: claim.judge(figure_records).finding.verdict for claim in figure.CLAIMS}


def test_claims_hold_where_turning_states_alone_follow() -> None:
    assert judged(runs()) == dict.fromkeys(NAMES, REPRODUCED)


@pytest.mark.parametrize(
    ("spans", "verdicts"),
    [
        # Rotation that needs the trapezoid; rotation that does not reach far enough.
        ({"mamba3_plain": 16}, (REPRODUCED, CONTRADICTED, REPRODUCED)),
        ({"mamba3": 48}, (CONTRADICTED, REPRODUCED, REPRODUCED)),
        # Any rotation does, or none is needed.
        ({"mamba3_fixed_rotation": 64}, (REPRODUCED, REPRODUCED, CONTRADICTED)),
        ({"mamba3_without_rotation": 64}, (UNDECIDED, UNDECIDED, CONTRADICTED)),
        # Whoever learned nothing has not failed for want of rotation, nor by it.
        ({"mamba3_fixed_rotation": 1}, (REPRODUCED, REPRODUCED, UNDECIDED)),
        ({"mamba3_plain": 8}, (REPRODUCED, UNDECIDED, REPRODUCED)),
        # All guess, so that those without rotation show nothing.
        ({"mamba3": 16, "mamba3_plain": 16}, (CONTRADICTED, CONTRADICTED, UNDECIDED)),
        (dict.fromkeys(KNOWN, 1), (UNDECIDED, UNDECIDED, UNDECIDED)),
    ],
)
def test_another_system_does_not_pass(spans: dict[str, int], verdicts: tuple[Verdict, ...]) -> None:
    assert judged(runs(**spans)) == dict(zip(NAMES, verdicts, strict=True))


def test_predictors_of_other_words_have_no_place() -> None:
    record = run("mamba3", 16, 0, STEPS)
    predictors = {"role": "baseline", "label": "product (oracle)", "study": None}
    same = record.model_copy(update=predictors)
    longer = same.model_copy(update={"config": {**same.config, "tasks": {**WORDS, "length": 32}}})
    assert figure.EXPERIMENT.select([same, longer]) == [same]


def test_fewer_steps_are_not_asked() -> None:
    assert judged(runs(steps=60)) == dict.fromkeys(NAMES, NOT_ASKED)


def test_it_is_drawn_with_and_without_runs() -> None:
    records = figure.EXPERIMENT.select(runs())
    for some in (records, []):
        assert rendered(figure.EXPERIMENT.draw(some))


@pytest.mark.parametrize("preset", ["smoke", "laptop", "gpu", "paper"])
def test_four_rows_of_one_layer_are_searched_alike(preset: str) -> None:
    (words,) = in_words(figure.EXPERIMENT.plan(preset, None).sweeps)
    entries = make_plan([*words, f"preset={preset}"]).entries
    assert {entry.configuration.model for entry in entries} == set(KNOWN)
    assert {entry.configuration.models["layers"] for entry in entries} == {1}
    assert len({(repr(e.space), e.configuration.training.steps) for e in entries}) == 1
    switches = {
        entry.configuration.model: tuple(
            entry.configuration.models[name] for name in ("rotation", "trapezoid", "bias")
        )
        for entry in entries
    }
    assert switches == {
        "mamba3": ("data", True, True),
        "mamba3_plain": ("data", False, False),
        "mamba3_fixed_rotation": ("fixed", True, True),
        "mamba3_without_rotation": ("none", True, True),
    }
