"""What a verdict from Python says of names that are none, and of runs that it cannot tell apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench import Number, Runs, above, judge, read_board, read_records, within
from bench.records.schema import RunRecord
from core.errors import UserError
from tests.reproduce.claims.samples import record as make_run

ACCURACY = Number("accuracy", "accuracy")
GPT2 = Runs("GPT2", model="gpt2")
VARIANT = {"tasks.training_automata": 100, "tasks.variant": "held_out"}
wrong: Callable[[object], Any] = lambda value: value  # noqa: E731


@pytest.fixture(scope="module")
def records() -> list[RunRecord]:
    return read_records(None, task="regbench", preset="smoke")


RULES = [
    (Runs("M", model="memory_mosaik"), "there is no model 'memory_mosaik': did you mean"),
    (
        Runs("M", model="./net.py:Zyx"),
        r"no model 'Zyx': those there are '\w+', '\w+', '\w+' and \d+ more\Z",
    ),
    (Runs("M", model="GPT2"), "there is no model 'GPT2': did you mean 'gpt2'"),
    (Runs("M", model=wrong(RunRecord)), "model is a name, and not the class RunRecord"),
    (Runs("M", "gpt2"), r"there is no task 'gpt2': that is a model, Runs\('M', model='gpt2'\)"),
    (Runs("M", "regbnch"), "there is no task 'regbnch': did you mean 'regbench'"),
    (Runs("M", model="gpt2", settings={"tasks.automata": 3}), "mean 'tasks.training_automata'"),
    (Runs("M", model="gpt2", settings={"preset": "smoke"}), r"read_records\(preset=…\)"),
    (Runs("M", model="gpt2", settings=wrong("a=1")), "settings is a dictionary such as"),
    (Runs("M", choose=wrong(3)), "choose is a function of a record, and not 3"),
    (Runs("M", baseline="orakel"), "no predictor 'orakel': did you mean 'oracle'"),
    (wrong("gpt2"), r"a number is one of runs, .* and not of 'gpt2'"),
]


@pytest.mark.parametrize(("runs", "sentence"), RULES)
def test_runs_that_there_cannot_be_are_named(
    runs: Runs, sentence: str, records: list[RunRecord]
) -> None:
    for rule in (
        within(ACCURACY.of(runs, "M"), 0.5),
        above(ACCURACY.of(GPT2), ACCURACY.of(runs, "M")),
    ):
        with pytest.raises(UserError, match=sentence):
            judge(rule, records)


def test_a_metric_that_no_run_has_is_named(records: list[RunRecord]) -> None:
    with pytest.raises(UserError, match="GPT2 have no metric 'acuracy': did you mean 'accuracy'"):
        judge(within(Number("accuracy", "acuracy").of(GPT2), 0.5), records)
    with pytest.raises(UserError, match=r"a Number reads the name of a metric, .* and not 3"):
        judge(within(Number("accuracy", wrong(3)).of(GPT2), 0.5), records)


def test_what_is_put_together_wrongly_is_refused() -> None:
    for what in (ACCURACY, GPT2, 0.5, "accuracy"):
        with pytest.raises(UserError, match="a rule is about a number of runs"):
            within(wrong(what), 0.5)
        with pytest.raises(UserError, match="a rule is about a number of runs"):
            above(ACCURACY.of(GPT2), wrong(what))
    with pytest.raises(UserError, match=r"low is a number, and not '0.9'"):
        within(ACCURACY.of(GPT2), wrong("0.9"))
    with pytest.raises(UserError, match=r"by is a number, and not '0.1'"):
        above(ACCURACY.of(GPT2), ACCURACY.of(GPT2), by=wrong("0.1"))
    with pytest.raises(UserError, match="a rule without a limit says nothing: give low or high"):
        within(ACCURACY.of(GPT2))
    with pytest.raises(UserError, match=r"low=0\.9 is above high=0\.5"):
        within(ACCURACY.of(GPT2), 0.9, 0.5)


def test_a_judge_takes_a_rule_records_and_a_level(records: list[RunRecord]) -> None:
    rule = within(ACCURACY.of(GPT2), 0.5)
    for what in (ACCURACY, ACCURACY.of(GPT2), records):
        with pytest.raises(UserError, match="judge takes a rule and then records"):
            judge(wrong(what), records)
    board = read_board(task="regbench", preset="smoke")
    for others in (None, "runs", records[0], board, [record.run_id for record in records]):
        with pytest.raises(UserError, match="judge takes a list of records, as read_records"):
            judge(rule, wrong(others))
    for level in (95, 0, "0.95"):
        with pytest.raises(UserError, match="level is a share between 0 and 1"):
            judge(rule, records, wrong(level))


def test_runs_of_one_seed_that_differ_are_told(records: list[RunRecord]) -> None:
    mixed = judge(within(ACCURACY.of(GPT2), 0.5), records)
    assert "; runs of GPT2 with one seed differ in tasks.training_automata (100, 500)" in (
        mixed.evidence
    )
    one = judge(within(ACCURACY.of(GPT2.but("GPT2", VARIANT)), 0.5), records)
    assert (one.seeds, "differ" in one.evidence) == (3, False)


def test_a_known_name_without_runs_leaves_a_claim_open(records: list[RunRecord]) -> None:
    nobody = judge(within(ACCURACY.of(Runs("M", model="mamba2")), 0.5), records)
    assert (nobody.verdict, nobody.evidence) == ("not enough evidence", "no runs of M")
    other_value = GPT2.but("GPT2", {"tasks.training_automata": 3})
    open_claim = judge(within(ACCURACY.of(other_value), 0.5), records)
    assert open_claim.evidence == (
        "no runs of GPT2; of GPT2 there are runs with tasks.training_automata = 100, 500, and none "
        "with 3"
    )
    assert judge(within(ACCURACY.of(GPT2), 0.5), []).verdict == "not enough evidence"


def test_runs_of_different_tasks_or_presets_are_judged_on_purpose_alone() -> None:
    seeds = range(5)
    mine = [make_run(s, 0.98 + s / 1000, task="RunningSign", model="lstm") for s in seeds]
    theirs = [make_run(s, 0.84 + s / 1000, task="regbench", model="gpt2") for s in seeds]
    lstm = Runs("LSTM", model="lstm")
    tasks = r"different tasks \(RunningSign, regbench\): give records of one, read_records"
    for second in (GPT2, GPT2.but("GPT2", task="regbench")):
        rule = above(ACCURACY.of(lstm), ACCURACY.of(second))
        with pytest.raises(UserError, match=f"the two sides are of {tasks}"):
            judge(rule, [*mine, *theirs])
    on_purpose = above(
        ACCURACY.of(lstm.but("LSTM", task="RunningSign")),
        ACCURACY.of(GPT2.but("GPT2", task="regbench")),
    )
    assert judge(on_purpose, [*mine, *theirs]).verdict == "reproduced"

    of_both = [*theirs, make_run(0, 0.98, task="RunningSign", model="gpt2")]
    with pytest.raises(UserError, match=f"runs of GPT2 are of {tasks}"):
        judge(within(ACCURACY.of(GPT2), 0.5), of_both)

    larger = [make_run(s, 0.9, task="regbench", model="gpt2", preset="laptop") for s in seeds]
    presets = r"different presets \(laptop, smoke\): give records of one, read_records"
    with pytest.raises(UserError, match=f"runs of GPT2 are of {presets}"):
        judge(within(ACCURACY.of(GPT2), 0.5), [*theirs, *larger])
    chosen = Runs("GPT2", model="gpt2", choose=lambda run: run.preset == "laptop")
    assert judge(within(ACCURACY.of(chosen), 0.5), [*theirs, *larger]).seeds == 5


def test_committed_records_of_all_presets_are_refused_without_one() -> None:
    regbench = read_records(None, task="regbench")
    with pytest.raises(UserError, match=r"GPT2 are of different presets \(laptop, smoke\)"):
        judge(within(ACCURACY.of(GPT2), 0.5), regbench)


def test_sides_that_differ_in_the_task_or_its_steps_are_told(records: list[RunRecord]) -> None:
    few = GPT2.but("GPT2, few", {"tasks.training_automata": 100, "tasks.variant": "held_out"})
    many = GPT2.but("GPT2, many", {"tasks.training_automata": 500, "tasks.variant": "held_out"})
    named = judge(above(ACCURACY.of(many), ACCURACY.of(few)), records)
    assert "the sides differ" not in named.evidence
    mosaic = Runs("Mosaic", model="memory_mosaic", settings=few.settings)
    unnamed = judge(above(ACCURACY.of(mosaic), ACCURACY.of(GPT2)), records)
    assert "the sides differ in tasks.training_automata (100 and 100, 500)" in unnamed.evidence


def test_a_class_of_a_file_is_named_by_its_place_too() -> None:
    runs = [make_run(seed, 0.9, task="Sign", model="GatedConv") for seed in range(3)]
    for model in ("GatedConv", "./gated_conv.py:GatedConv", "package.GatedConv"):
        for task in ("Sign", "~/sign.py:Sign"):
            named = Runs("mine", task=task, model=(model, "gpt2"))
            assert (named.task, named.model) == ("Sign", ("GatedConv", "gpt2"))
            one = named.but("mine", model=model)
            assert judge(within(ACCURACY.of(one), 0.5), runs).seeds == 3
