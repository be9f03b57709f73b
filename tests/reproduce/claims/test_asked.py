"""What a verdict from Python says of names that are none, and of runs that it cannot tell apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import Number, Runs, above, judge, read_board, read_records, within
from bench.config import source_files
from bench.records.code import code_hash
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
        Runs("M", model="net.Zyx"),
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


def test_sides_that_differ_in_the_task_or_its_steps_get_no_verdict(
    records: list[RunRecord],
) -> None:
    few = GPT2.but("GPT2, few", {"tasks.training_automata": 100, "tasks.variant": "held_out"})
    many = GPT2.but("GPT2, many", {"tasks.training_automata": 500, "tasks.variant": "held_out"})
    named = judge(above(ACCURACY.of(many), ACCURACY.of(few)), records)
    assert "the sides differ" not in named.evidence
    mosaic = Runs("Mosaic", model="memory_mosaic", settings=few.settings)
    differ = (
        r"the sides differ in tasks.training_automata \(100 and 100, 500\), .*: name the values"
    )
    with pytest.raises(UserError, match=differ):
        judge(above(ACCURACY.of(mosaic), ACCURACY.of(GPT2)), records)
    s4d, conv = (Runs(name, model=name) for name in ("s4d", "conv"))
    with pytest.raises(UserError, match=r"the sides differ in tasks\.variant \(held_out and mixed"):
        judge(above(ACCURACY.of(s4d), ACCURACY.of(conv), by=0.05), of_variants("held_out", "mixed"))
    same = above(ACCURACY.of(s4d), ACCURACY.of(conv), by=0.05)
    assert judge(same, of_variants("mixed", "mixed")).verdict == "reproduced"


def of_variants(first: str, second: str) -> list[RunRecord]:
    """Runs of two models, each on data of one variant."""
    return [
        make_run(s, score + s / 1000, task="regbench", model=name).model_copy(
            update={"config": {"tasks": {"variant": variant}}}
        )
        for name, variant, score in (("s4d", first, 0.9), ("conv", second, 0.7))
        for s in range(5)
    ]


def test_the_file_of_a_class_tells_its_runs_from_those_of_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(source_files, "_places", {})
    (tmp_path / "other").mkdir()
    (tmp_path / "shared.py").write_text("SIZE = 3\n")
    files = {"a.py": "1", "b.py": "2", "other/a.py": "3"}
    runs: list[RunRecord] = []
    for seed, (file, value) in enumerate(files.items()):
        (tmp_path / file).write_text(f"import shared\n\nclass GRU:\n    value = {value}\n")
        place = tmp_path / file
        target = f"{place.name}:GRU"
        source_files.use_places({place.name: place})  # as a run that names the file does
        run = make_run(seed, 0.9, task="Sign", model="GRU", label=file)
        code = {"model_code": code_hash(target)}
        run = run.model_copy(update={"provenance": run.provenance.model_copy(update=code)})
        runs.append(run.model_copy(update={"config": {"models": {"_target_": target}}}))
    for file in files:
        of_file = Runs(file, task="Sign", model=f"./{file}:GRU")
        assert [run.label for run in of_file.of(runs)] == [file]
        assert [run.label for run in of_file.but(file).of(runs)] == [file]
        assert [run.label for run in Runs("", model=(f"./{file}:GRU", "gpt2")).of(runs)] == [file]
    a, b = (Runs("same label", model=f"./{file}:GRU") for file in ("a.py", "b.py"))
    assert a != b
    for plain in ("GRU", "package.GRU"):
        assert judge(within(ACCURACY.of(Runs("all", model=plain)), 0.5), runs).seeds == 3
    (tmp_path / "a.py").write_text("# why\nimport shared\n\nclass GRU:\n    value = 1\n")
    assert len(Runs("", model="./a.py:GRU").of(runs)) == 1
    (tmp_path / "shared.py").write_text("SIZE = 4\n")  # a module beside the file
    edited = judge(within(ACCURACY.of(Runs("mine", model="./a.py:GRU")), 0.5), runs)
    assert edited.verdict == "not enough evidence"
    assert "3 runs of GRU are of another file than a.py:GRU as it is now" in edited.evidence


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match=r"there is no file \./no_net\.py in "):
        Runs("mine", model="./no_net.py:GRU")
    with pytest.raises(UserError, match=r"there is no file no_task\.py in "):
        Runs("mine", task="no_task.py:Sign")
    with pytest.raises(UserError, match="names no class"):
        Runs("mine", model=("gpt2", "./no_net.py:"))
