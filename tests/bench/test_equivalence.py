"""Equal code: what a run is called by it, and that only identical bytes become an entry."""

import json
import shutil
from pathlib import Path

import pytest

from bench.records import equivalence, store
from bench.records.code import code_hash
from bench.records.equivalence import (
    Code,
    Compared,
    Equivalence,
    Name,
    code_status,
    names,
    read_table,
)
from bench.records.identity import Identity, canonical_name, identity_of, one_of_each
from bench.records.schema import RunRecord
from bench.runs.get_or_run import get_or_run, load_or_run
from bench.runs.proofs.by_runs import RunPair, ShortRun, short_sweeps
from bench.runs.proofs.wanted import BASELINES, RunToCompare
from bench.runs.proofs.writing import add_entries
from bench.runs.serving import identify
from bench.search.driver import records_of
from core.errors import UserError
from core.files import write_atomically
from tests.bench.records import make_record
from tests.configurations import compose, make_plan

CONFIG = {"tasks": {"_target_": "tasks.old.Task", "size": 3}, "models": {"_target_": "models.m.M"}}


def code(task: str, number: int, model: str = "models.m.M") -> Code:
    return Code(task=task, task_code=f"{number:064x}", model=model, model_code="a" * 64)


def entry(old: Code, new: Code, words: str = "", **added: object) -> Equivalence:
    compared = (Compared(words=words, data={}, weights=None, results="0" * 64),)
    settings = {key.replace("__", "."): value for key, value in added.items()}
    return Equivalence(
        task="t", model="m", commit="c" * 40, old=old, new=new, added=settings, compared=compared
    )


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the one task of these tests."""
    monkeypatch.setattr(equivalence, "TABLE", tmp_path / "equivalences")
    return tmp_path / "equivalences" / "t.json"


A, B, C = code("tasks.old.Task", 1), code("tasks.new.Task", 2), code("tasks.new.Task", 3)


def test_a_chain_of_proofs_leads_from_today_to_every_earlier_name_and_back() -> None:
    add_entries([entry(A, B)])
    add_entries([entry(B, C, tasks__kind="plain")])
    today = {**CONFIG, "tasks": {"_target_": "tasks.new.Task", "size": 3, "kind": "plain"}}
    found = {name.code: name.config for name in names(C, today)}
    assert list(found) == [C, B, A]
    assert found[A] == CONFIG
    assert found[B]["tasks"] == {"_target_": "tasks.new.Task", "size": 3}
    # From the oldest the settings come back, with the values at which all are the same.
    assert {name.code: name.config for name in names(A, CONFIG)}[C] == today
    # Of another value of the new setting there is no older run.
    other = {**today, "tasks": {**today["tasks"], "kind": "other"}}
    assert [name.code for name in names(C, other)] == [C]
    # All three go by the name that runs of the latest code alone have.
    for one in (A, B, C):
        hashes = {"task_code": one.task_code, "model_code": one.model_code}
        provenance = make_record().provenance.model_copy(update=hashes)
        name = canonical_name(found[one], provenance)
        assert name == Name(C, today)
        settings = found[one]["tasks"]  # in whose order titles of rows name them
        assert [key for key in name.config["tasks"] if key in settings] == [*settings]


def test_a_table_that_was_edited_is_refused_in_a_sentence(table: Path) -> None:
    add_entries([entry(A, B)])
    assert read_table() == (entry(A, B),)
    write_atomically(table, table.read_bytes()[:-40])
    with pytest.raises(UserError, match=r"truncated or not JSON .*: restore it"):
        read_table()


def test_a_proof_writes_the_file_of_its_task_alone_and_takes_over_what_one_file_held(
    table: Path,
) -> None:
    add_entries([entry(A, B)])
    other = entry(B, C).model_copy(update={"task": "u"})
    older = table.parent.with_name("equivalences.json")  # as before there were several files
    table.rename(older)
    assert read_table() == (entry(A, B),)
    add_entries([other])
    assert [path.name for path in sorted(table.parent.iterdir())] == ["t.json", "u.json"]
    assert not older.exists()
    assert read_table() == (entry(A, B), other)
    before = table.stat()
    add_entries([entry(A, C).model_copy(update={"task": "u"})])
    assert table.stat() == before
    assert len(read_table()) == 3


@pytest.mark.parametrize(
    ("what", "value"), [("compared", []), ("commit", "HEAD"), ("commit", None)]
)
def test_an_entry_that_names_no_proof_is_refused(table: Path, what: str, value: object) -> None:
    add_entries([entry(A, B)])
    content = json.loads(table.read_text())
    content["entries"][0][what] = value
    write_atomically(table, json.dumps(content).encode())
    with pytest.raises(UserError, match=f"{what}.*: restore it"):
        read_table()


def test_an_entry_holds_for_the_choices_of_the_model_that_were_compared() -> None:
    def with_positions(**settings: object) -> dict[str, dict[str, object]]:
        return {**CONFIG, "models": {**CONFIG["models"], **settings}}

    words = 'tasks=t preset=smoke models.positions="learned" models.width=64 models.gate=true'
    add_entries([entry(A, B, words)])
    for settings in ({"positions": "learned", "width": 256}, {"gate": True}, {"other": "x"}):
        assert [name.code for name in names(A, with_positions(**settings))] == [A, B]
    # Code that only other positions reach may have changed, and was not run.
    for settings in ({"positions": "rope"}, {"gate": False}):
        assert [name.code for name in names(A, with_positions(**settings))] == [A]
        assert [name.code for name in names(B, with_positions(**settings))] == [B]
    add_entries([entry(A, B, 'models.positions="rope"')])
    assert [name.code for name in names(A, with_positions(positions="rope"))] == [A, B]


def test_code_of_a_record_is_current_equivalent_or_of_an_earlier_form() -> None:
    target, model = "tasks.capacity.Capacity", "models.memories.delta_rule.DeltaRule"
    config = {"tasks": {"_target_": target}, "models": {"_target_": model}}
    hashes = {"task_code": code_hash(target), "model_code": code_hash(model)}
    made = make_record().provenance
    here = made.model_copy(update=hashes)
    assert code_status(config, here) == "current"
    older = here.model_copy(update={"task_code": "0" * 64})
    assert code_status(config, older) == "stale"
    add_entries([entry(Code.of(config, older), Code.of(config, here))])
    assert code_status(config, older) == "equivalent"
    assert code_status(config, here) == "current"
    engine = older.model_copy(update={"protocol_version": 0})
    assert code_status(config, engine) == "stale"


def made_by(task_code: str, run_id: str) -> RunRecord:
    """The same run, as the code of this hash made it."""
    record = make_record(run_id=run_id)
    provenance = record.provenance.model_copy(update={"task_code": task_code})
    name = Name(Code.of(record.config, provenance), record.config)
    identity = identity_of(name, record.preset, provenance, None)
    return record.model_copy(update={"provenance": provenance, "identity": identity})


def test_a_run_made_by_two_states_of_equal_code_counts_once() -> None:
    older, newer = made_by("1" * 64, "run-old"), made_by("2" * 64, "run-new")
    assert [r.run_id for r in one_of_each([older, newer])] == ["run-new", "run-old"]
    add_entries([entry(*(Code.of(r.config, r.provenance) for r in (older, newer)))])
    (one,) = one_of_each([older, newer])
    assert one.identity == newer.identity
    tuned = newer.model_copy(update={"role": "final"})
    assert [r.run_id for r in one_of_each([older, tuned])] == ["run-new"]


def test_the_first_difference_is_told_data_before_weights_before_numbers() -> None:
    old = make_record(seed=0)
    metrics = {**old.metrics, "test": {**old.metrics["test"], "loss": 0.5}}
    new = old.model_copy(update={"metrics": metrics})
    both = ShortRun(old, "w")
    assert RunPair(both, both, "").first_difference() is None
    told = str(RunPair(both, ShortRun(new, "w"), "").first_difference())
    assert told.startswith("metrics/test/loss differs: ")
    assert (
        RunPair(both, ShortRun(new, "v"), "").first_difference()
        == "weights differs: w there, v here"
    )
    data = old.provenance.model_copy(update={"data": {"test": "other"}})
    moved = ShortRun(new.model_copy(update={"provenance": data}), "v")
    assert str(RunPair(both, moved, "").first_difference()).startswith("data/")
    lacks = {**old.config, "tasks": {"_target_": "t"}}
    has = {**old.config, "tasks": {"_target_": "t", "size": 3}}
    less, more = (ShortRun(old.model_copy(update={"config": c}), "w") for c in (lacks, has))
    assert RunPair(less, more, "").first_difference() is None
    assert RunPair(less, more, "").added() == {"tasks.size": 3}
    told = str(RunPair(more, less, "").first_difference())
    assert told.startswith("the setting tasks.size is 3 in the older code and is gone here")


def test_batches_hold_every_setting_once_and_share_a_sweep_where_they_agree() -> None:
    def run(model: str, size: int, **models: int) -> RunToCompare:
        config = {
            "tasks": {"_target_": "t", "training_automata": size},
            "models": {"_target_": "m", **models},
            "training": {"lr": 0.1, "restarts": 3, "batch_size": 4},
        }
        return RunToCompare(model, "laptop", config)

    runs = [run("gpt2", 9, layers=2), run("gpt2", 9, layers=2), run("lstm", 9, layers=2)]
    runs += [run("mamba", 9, layers=3), run("gpt2", 7, layers=2)]
    runs.append(RunToCompare(BASELINES, "laptop", {"tasks": {"training_automata": 7}}))
    runs.append(RunToCompare(BASELINES, "laptop", {"tasks": {"training_automata": 5}}))
    found = [
        (b.models, b.settings["tasks.training_automata"])
        for b in short_sweeps("regbench", runs, {})
    ]
    assert found[:3] == [(["gpt2", "lstm"], 9), (["mamba"], 9), (["gpt2"], 7)]
    assert [size for _, size in found[3:]] == [5]
    settings = short_sweeps("regbench", runs, {})[0].settings
    assert "training.lr" not in settings
    assert (settings["training.steps"], settings["training.restarts"]) == (12, 2)
    same = {"tasks.training_automata": 9, "models.layers": 2}  # with which most are one run
    assert [b.models for b in short_sweeps("regbench", runs, same)] == [["gpt2", "lstm", "mamba"]]
    measured = [RunToCompare("ridge", "laptop", {"tasks": {"size": n}}) for n in (1, 2)]
    assert [(b.models, b.preset, b.settings) for b in short_sweeps("capacity", measured, {})] == [
        (["ridge"], "smoke", {})
    ]


TINY = ["tasks=capacity", "models=delta_rule", "preset=smoke"]


def test_a_run_has_an_identity_by_every_equal_code_and_todays_first(tmp_path: Path) -> None:
    asked = compose([*TINY, f"store={tmp_path}"])
    identity = identify(asked)
    here = Code.of(asked.resolved(), identity.provenance)
    made = get_or_run(asked)
    older = here.model_copy(update={"model_code": "0" * 64})
    add_entries([entry(older, here)])
    assert identify(asked).all[:1] == (identity.identity,)
    assert len(identify(asked).all) == 2
    # The other way round it is the older code that is here, and the record of the newer is served.
    provenance = made.provenance.model_copy(update={"model_code": older.model_code})
    assert made.identity in Identity.of(asked, asked.resolved(), provenance).all[1:]


def test_the_projects_own_records_are_served_on_request_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = get_or_run(compose([*TINY, f"store={tmp_path / 'made'}"]))
    own = tmp_path / "committed" / made.task / made.preset
    own.mkdir(parents=True)
    shutil.copy(tmp_path / "made" / "records" / f"{made.run_id}.json", own)
    monkeypatch.setattr(store, "COMMITTED", tmp_path / "committed")
    asked = compose([*TINY, f"store={tmp_path / 'user'}", "committed=true"])
    assert load_or_run(asked) == (made, True)
    assert not (tmp_path / "user" / "records").exists()
    assert load_or_run(asked.model_copy(update={"committed": False}))[1] is False
    assert len(list((tmp_path / "user" / "records").glob("*.json"))) == 1


@pytest.mark.parametrize("extend", [0, 1])
def test_a_committed_search_is_taken_over_and_only_missing_seeds_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extend: int
) -> None:
    monkeypatch.setattr(store, "COMMITTED", tmp_path / "committed")
    monkeypatch.setattr("bench.search.published.COMMITTED", tmp_path / "committed")
    words = [TINY[0], "models=[delta_rule]", TINY[2], "n_trials=2", "sweep.sampler=grid"]
    words += ["sweep.search_space={models.rate:[0.5,1.0]}", f"extend={extend}"]

    def sweep(name: str, *more: str) -> list[RunRecord]:
        return records_of(make_plan([*words, f"store={tmp_path / name}", *more]), lambda *_: None)

    made = [record for record in sweep("made", "seeds=1") if record.role == "final"]
    assert made[0].study is not None
    assert len(made[0].study.trials) == 2 + extend  # on one side: it has one best setting
    folder = tmp_path / "committed" / "capacity" / "smoke"
    folder.mkdir(parents=True)
    for record in made:
        shutil.copy(tmp_path / "made" / "records" / f"{record.run_id}.json", folder)
    served = sweep("user", "seeds=1", "committed=true")
    assert [r for r in served if r.role == "final"] == made
    assert not (tmp_path / "user" / "trials").exists()
    more = sweep("user", "seeds=2", "committed=true")
    finals = [record for record in more if record.role == "final"]
    assert finals[0] == made[0]
    assert finals[1].config["models"] == made[0].config["models"]
    assert finals[1].study is None  # the trials may be of another machine
    assert len(list((tmp_path / "user" / "records").glob("*.json"))) == 1
    # Another number of trials is another search, though a run of it may be there.
    (third,) = [r for r in sweep("third", "seeds=1", "n_trials=1", "committed=true") if r.study]
    assert third.study is not None
    assert len(third.study.trials) == 1
    assert (tmp_path / "third" / "records" / f"{third.run_id}.json").exists()


def test_a_search_over_a_part_of_a_committed_grid_is_served_what_all_of_it_came_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "COMMITTED", tmp_path / "committed")
    monkeypatch.setattr("bench.search.published.COMMITTED", tmp_path / "committed")

    def sweep(name: str, values: str, *more: str) -> list[RunRecord]:
        space = f"sweep.search_space={{models.rate:[{values}]}}"
        words = [TINY[0], "models=[delta_rule]", TINY[2], "sweep.sampler=grid", space, "seeds=1"]
        found = records_of(make_plan([*words, f"store={tmp_path / name}", *more]), lambda *_: None)
        return [record for record in found if record.role == "final"]

    made = sweep("made", "1.0,0.5,0.25", "n_trials=3", "extend=0")
    folder = tmp_path / "committed" / "capacity" / "smoke"
    folder.mkdir(parents=True)
    shutil.copy(tmp_path / "made" / "records" / f"{made[0].run_id}.json", folder)
    # A part of it, in another order, and with leave to grow.
    for values, trials in (("0.5,1.0", 2), ("0.25,0.5,1.0", 3)):
        asked = (values, f"n_trials={trials}", "extend=1", "committed=true")
        assert sweep(f"user-{trials}", *asked) == made
        assert not (tmp_path / f"user-{trials}" / "trials").exists()
    # A value that it lacks makes another search, and so do fewer trials than its grid has.
    for name, values, trials in (("lacking", "0.5,0.75", 2), ("fewer", "0.5,1.0", 1)):
        (other,) = sweep(name, values, f"n_trials={trials}", "committed=true")
        assert other.study is not None
        assert other.study != made[0].study
        assert len(other.study.trials) == trials


def test_a_proof_by_definitions_holds_for_each_side_with_other_code_beside_it(table: Path) -> None:
    """For a model from elsewhere, and for a model and a task that no proof is of together."""
    before, after = code("tasks.t.T", 1), code("tasks.t.T", 2)
    proof = entry(before, after).model_copy(update={"by": "definitions"})
    add_entries([proof])
    guest = before.model_copy(update={"model": "a_package.Model", "model_code": f"{9:064x}"})
    newer = guest.model_copy(update={"task_code": after.task_code})
    assert [name.code for name in names(guest, {})] == [guest, newer]
    assert [name.code for name in names(newer, {})] == [newer, guest]
    predictor = Code(
        task=before.task, task_code=before.task_code, model=before.task, model_code=before.task_code
    )
    assert [name.code.model_code for name in names(predictor, {})] == [
        before.task_code,
        after.task_code,
    ]
    # One by runs compared these two alone, and one with another setting is no proof of a side.
    other = code("tasks.u.U", 1), code("tasks.u.U", 2)
    added = code("tasks.v.V", 1), code("tasks.v.V", 2)
    add_entries(
        [entry(*other), entry(*added, **{"models.k": 1}).model_copy(update={"by": "definitions"})]
    )
    for old in (other[0], added[0]):
        guest = old.model_copy(update={"model": "a_package.Model", "model_code": f"{9:064x}"})
        assert [name.code for name in names(guest, {})] == [guest]
