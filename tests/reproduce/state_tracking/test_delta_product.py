"""DeltaProduct's claims on runs whose verdicts are known, and the runs that it plans."""

from functools import cache

import pytest

from bench.records.schema import RunRecord
from bench.training.building import build_model, build_task
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED, Verdict
from reproduce.state_tracking import delta_product as figure
from tasks.state_tracking import StateTracking
from tests.configurations import make_plan
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words
from tests.reproduce.state_tracking.words import SIZES, Follower, scored

NAMES = ("two reflections keep S₃", "one reflection loses S₃", "strengths to 1 lose S₃")
STEPS = figure.STEPS
TASK = StateTracking(group="s3", **SIZES)
WORDS = {"group": "s3", "letters": "all"}
USUAL, WIDE = 32, figure.WIDE["laptop"]
# Letters that a row follows, by model and width: twice the training length is not four times.
KNOWN = {
    (figure.TWO, USUAL): 64,
    (figure.TWO_POSITIVE, USUAL): 16,
    (figure.ONE, USUAL): 24,
    (figure.ONE, WIDE): 24,
    (figure.ONE_POSITIVE, USUAL): 12,
}


@cache
def run(model: str, width: int, span: int, seed: int, steps: int = STEPS) -> RunRecord:
    return scored(
        TASK,
        Follower(TASK, span),
        seed,
        model,
        tasks=WORDS,
        models={"layers": 1, "heads": 4, "width": width},
        training={"steps": steps},
    )


def runs(steps: int = STEPS, **spans: int) -> list[RunRecord]:
    """All rows with three seeds; a row's letters are given as ``delta_product_32=16``."""
    made = []
    for (model, width), known in KNOWN.items():
        span = spans.get(f"{model}_{width}", known)
        made += [run(model, width, span, seed, steps) for seed in range(3)]
    return made


def judged(records: list[RunRecord]) -> dict[str, Verdict]:
    figure_records = figure.EXPERIMENT.select(records)
    return {claim.name: claim.judge(figure_records).finding.verdict for claim in figure.CLAIMS}


def test_claims_hold_where_two_reflections_alone_follow() -> None:
    assert judged(runs()) == dict.fromkeys(NAMES, REPRODUCED)


@pytest.mark.parametrize(
    ("spans", "verdicts"),
    [
        # Two steps that do not reach the end of words; one step that does; one that needs width;
        # strengths to 1 that follow, so that it is not the reflections.
        ({"delta_product_32": 40}, (CONTRADICTED, UNDECIDED, UNDECIDED)),
        ({"gated_delta_net_negative_32": 64}, (REPRODUCED, CONTRADICTED, REPRODUCED)),
        ({f"gated_delta_net_negative_{WIDE}": 64}, (REPRODUCED, CONTRADICTED, REPRODUCED)),
        ({"delta_product_positive_32": 64}, (UNDECIDED, REPRODUCED, CONTRADICTED)),
        # Whoever learned nothing has not failed for want of reflections.
        ({"gated_delta_net_negative_32": 2}, (REPRODUCED, UNDECIDED, REPRODUCED)),
        ({"gated_delta_net_32": 2}, (REPRODUCED, REPRODUCED, UNDECIDED)),
        (dict.fromkeys((f"{model}_{width}" for model, width in KNOWN), 64), None),
    ],
)
def test_another_system_does_not_pass(
    spans: dict[str, int], verdicts: tuple[Verdict, ...] | None
) -> None:
    of_all_that_follow = (UNDECIDED, CONTRADICTED, CONTRADICTED)
    expected = dict(zip(NAMES, verdicts or of_all_that_follow, strict=True))
    assert judged(runs(**spans)) == expected


def test_letters_without_whole_words_do_not_follow() -> None:
    """One mistake in most words leaves the letters' accuracy above the line."""
    records = [r for r in runs() if r.model != figure.TWO]
    for seed in range(3):
        broken = Follower(TASK, span=64, broken=0.9, first=56)
        changes = {"models": {"layers": 1, "heads": 4, "width": USUAL}, "tasks": WORDS}
        one = scored(TASK, broken, seed, figure.TWO, training={"steps": STEPS}, **changes)
        assert one.metrics["test"]["accuracy/4x"] > figure.FOLLOWS
        assert figure.WHOLE.value(one) < figure.MANY
        records.append(one)
    assert judged(records)[NAMES[0]] == CONTRADICTED


def test_two_steps_that_do_not_know_the_words_of_training_refute_nothing() -> None:
    assert judged(runs(delta_product_32=8))[NAMES[0]] == UNDECIDED


def test_fewer_steps_are_not_asked() -> None:
    assert judged(runs(steps=60)) == dict.fromkeys(NAMES, NOT_ASKED)


def test_it_is_drawn_with_and_without_runs() -> None:
    records = figure.EXPERIMENT.select(runs())
    for some in (records, []):
        assert rendered(figure.EXPERIMENT.draw(some))
    assert figure.EXPERIMENT.table is not None
    lines = figure.EXPERIMENT.table(records).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:]] == [
        row.label for row in figure.ROWS
    ]


@pytest.mark.parametrize("preset", ["smoke", "laptop", "gpu", "paper"])
def test_all_rows_of_a_preset_are_searched_alike(preset: str) -> None:
    entries = []
    for words in in_words(figure.EXPERIMENT.plan(preset, None).sweeps):
        entries += make_plan([*words, f"preset={preset}"]).entries
    expected = set(KNOWN) if preset == "laptop" else {key for key in KNOWN if key[1] == USUAL}
    assert len(entries) == len(expected)
    assert {entry.configuration.models["layers"] for entry in entries} == {1}
    assert {entry.configuration.tasks["group"] for entry in entries} == {"s3"}
    searched = {
        (repr(entry.space), entry.configuration.training.steps, entry.configuration.sweep.seeds)
        for entry in entries
    }
    assert len(searched) == 1


def test_the_wide_layer_has_more_parameters_and_state_than_two_steps() -> None:
    sizes = {}
    for words in in_words(figure.EXPERIMENT.plan("laptop", None).sweeps):
        for entry in make_plan([*words, "preset=laptop"]).entries:
            configuration = entry.configuration
            network = build_model(configuration, build_task(configuration), seed=0)
            row = configuration.model, configuration.models["width"]
            sizes[row] = sum(weight.numel() for weight in network.parameters())
    assert sizes[figure.ONE, WIDE] > sizes[figure.TWO, USUAL] > sizes[figure.ONE, USUAL]
    assert sizes[figure.TWO, USUAL] == sizes[figure.TWO_POSITIVE, USUAL]
    assert WIDE * (WIDE // 4) > USUAL * (USUAL // 4)  # heads × key width × value width
