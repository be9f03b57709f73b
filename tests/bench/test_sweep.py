"""Sweeps of real models on a real task, disturbed by real signals."""

import fcntl
import shlex
import signal
import time

import psutil
import pytest

from bench.records.schema import read_records
from bench.records.store import Store
from bench.runs.serving import identify
from bench.search import jobs
from bench.search.driver import SweepResult, records_of
from bench.search.jobs import Job, execute
from bench.search.model_search import ModelResult, ModelSearch
from bench.search.storage import open_storage
from bench.search.table import print_sweep
from bench.sweep import main
from core.errors import INTERRUPTED, OK, RUN_FAILED, UserError
from core.progress import silent
from leaderboards.tables.grouping import arrange
from leaderboards.tables.summaries import summary_of
from tests.bench.conftest import SWEEP, TINY, outcome, states
from tests.bench.processes import workers_of
from tests.bench.records import make_record
from tests.commands import start
from tests.configurations import make_plan

# Whatever disturbs a sweep, its runs end with the same bits.
pytestmark = pytest.mark.bitwise


def start_driver(store):
    return start("-m", "bench.sweep", *SWEEP, f"store={store}", "workers=1", pool=True)


def wait_for_second_trial(store, driver):
    """Until one trial has ended and the next has written a checkpoint."""
    deadline = time.monotonic() + 120
    while True:
        ended = list((store / "trials").glob("*.json"))
        if ended and list((store / "work").glob("*/checkpoint-0.pt")):
            return
        assert driver.poll() is None, driver.printed()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_undisturbed_sweep_is_complete(undisturbed):
    finals, trials = undisturbed
    assert len(trials) == 6
    for model in ("memory_unit", "lstm"):
        mine = [final for final in finals if f"-{model}-" in final[0]]
        assert [final[0][-3:] for final in mine] == ["-s0", "-s1"]
        assert mine[0][5] == mine[1][5]
        assert len(mine[0][5]) == 3
        best = min(value for _, value, _ in mine[0][5])
        # The chosen setting is the best on validation, and seed 0 is the trial's own weights.
        assert mine[0][2]["validation"]["error_after_max_period"] == best
        assert trials[mine[0][0]]["validation"] == mine[0][2]["validation"]
        assert "test" not in trials[mine[0][0]]
        assert "test" in mine[0][2]
    assert len(finals) > 4  # the predictors without training


@pytest.mark.processes
def test_killed_worker_costs_nothing(tmp_path, undisturbed):
    killed = []

    def kill_once(description, done, total):
        if "trial" in description and done < total and not killed:
            killed.append(description)
            (worker,) = workers_of(psutil.Process())
            worker.kill()

    records = records_of(make_plan([*SWEEP, f"store={tmp_path}", "workers=1"]), kill_once)
    assert killed
    assert outcome(tmp_path, records) == undisturbed
    assert set(map(tuple, states(tmp_path).values())) == {("COMPLETE",) * 3}
    assert not workers_of(psutil.Process())


@pytest.mark.long
@pytest.mark.processes
def test_killed_driver_loses_and_repeats_nothing(tmp_path, undisturbed):
    driver = start_driver(tmp_path)
    wait_for_second_trial(tmp_path, driver)
    workers = psutil.Process(driver.pid).children(recursive=True)
    driver.kill()
    driver.wait()
    assert workers
    assert not psutil.wait_procs(workers, timeout=60)[1]
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "trials").iterdir()}
    assert "RUNNING" in str(states(tmp_path))
    # A worker's record keeps the command that a reader can run.
    typed = ["python", "-m", "bench.sweep", *SWEEP, "workers=1"]
    for record in read_records([tmp_path / "trials"]):
        assert shlex.split(record.provenance.command) == typed

    records = records_of(make_plan([*SWEEP, f"store={tmp_path}"]), silent)
    assert outcome(tmp_path, records) == undisturbed
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "trials").iterdir()}
    assert before.items() <= after.items()  # what was there was not run again
    flat = [state for trials in states(tmp_path).values() for state in trials]
    assert flat.count("COMPLETE") == 6
    assert set(flat) == {"COMPLETE", "FAIL"}  # the failed ones are the attempts that were killed


@pytest.mark.processes
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGHUP])
def test_interrupted_driver_stops_its_worker_and_goes_on_later(tmp_path, undisturbed, how):
    driver = start_driver(tmp_path)
    wait_for_second_trial(tmp_path, driver)
    workers = psutil.Process(driver.pid).children(recursive=True)
    driver.send_signal(how)
    _, complaint = driver.communicate(timeout=60)
    assert driver.returncode == INTERRUPTED, complaint
    assert complaint.splitlines()[-1].startswith("interrupted;")
    assert "Traceback" not in complaint
    assert not psutil.wait_procs(workers, timeout=60)[1]
    assert "RUNNING" not in str(states(tmp_path))
    if how == signal.SIGINT:  # whatever the signal was, the store is left as this one leaves it
        records = records_of(make_plan([*SWEEP, f"store={tmp_path}"]), silent)
        assert outcome(tmp_path, records) == undisturbed


def test_running_again_runs_only_what_is_missing(tmp_path):
    words = [*TINY, "models=memory_unit", f"store={tmp_path}", "seeds=1"]
    first = records_of(make_plan([*words, "n_trials=2"]), silent)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert records_of(make_plan([*words, "n_trials=2"]), silent) == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == times

    more = records_of(make_plan([*words, "n_trials=4", "seeds=2"]), silent)
    assert all(path.stat().st_mtime_ns == times[path] for path in times if "trials" in path.parts)
    finals = [record for record in more if record.role == "final"]
    assert [record.seed for record in finals] == [0, 1]
    # The record of seed 0 may be the old run, but it tells the search that chose it now.
    assert {record.cost.tuning_trials for record in finals} == {4}
    assert {len(record.study.trials) for record in finals} == {4}
    first_two = [t.parameters for t in first[0].study.trials]
    assert [t.parameters for t in finals[0].study.trials][:2] == first_two


def failed_finals(store):
    return [r for r in read_records([store / "records"]) if r.outcome != "ok"]


def test_final_runs_of_several_data_seeds_share_a_row(tmp_path):
    words = [*TINY, "models=memory_unit", f"store={tmp_path}", "n_trials=2", "seeds=2"]
    one = records_of(make_plan(words), silent)
    two = records_of(make_plan([*words, "data_seeds=2"]), silent)
    assert {record.run_id for record in one} < {record.run_id for record in two}
    finals = [record for record in two if record.role == "final"]
    drawn = [(record.config["tasks"]["data_seed"], record.seed) for record in finals]
    assert drawn == [(0, 0), (0, 1), (1, 2), (1, 3)]  # no training seed twice
    assert len({record.provenance.data["test"] for record in finals}) == 2
    assert len({record.study.name for record in finals}) == 1  # the same search
    kept = sorted(path.stem for path in (tmp_path / "records").glob("*.json"))
    assert kept == sorted(record.run_id for record in two)  # none is superseded
    of_models = [p for p in arrange(map(summary_of, two)) if not p.first.is_reference]
    assert [len(entry.summaries) for entry in of_models] == [4]


@pytest.mark.long
def test_failures_are_rows_and_the_rest_is_finished(tmp_path, capsys):
    space = "{models.heads:[1,3],training.lr:[1e-3,1e30]}"
    words = [*TINY, "models=[gpt2,lstm]", "models.width=8", "models.layers=1", f"store={tmp_path}"]
    words += [f"sweep.search_space={space}", "n_trials=4", "seeds=1"]
    plan = make_plan(words)
    assert [list(entry.space) for entry in plan.entries] == [
        ["models.heads", "training.lr"],
        ["training.lr"],
    ]
    assert main(words) == OK  # some settings fail, but every model has a result
    shown = capsys.readouterr().out
    (row,) = [line for line in shown.splitlines() if "GPT2" in line and "│" in line]
    assert " 1/4 " in row
    assert "GPT2: 3 of 4 trials failed: " in shown
    assert "LSTM: 1 of 2 trials failed: the" in shown
    assert "not the same number of trials (GPT2 4, LSTM 2)" in shown
    gpt2 = next(r for r in read_records([tmp_path / "records"]) if r.model == "gpt2")
    outcomes = {tuple(t.parameters.values()): t.outcome for t in gpt2.study.trials}
    assert outcomes == {
        (1, 1e-3): "ok",
        (1, 1e30): "diverged",
        (3, 1e-3): "failed",  # width 8 has no 3 heads
        (3, 1e30): "failed",
    }

    hopeless = "sweep.search_space={training.lr:[1e25,1e30]}"
    assert main([*words, hopeless, "models=[lstm,memory_unit]"]) == RUN_FAILED
    shown = capsys.readouterr().out
    assert "LSTM: all 2 trials failed, the last: the" in shown
    paths = [tmp_path / "records" / f"{r.run_id}.json" for r in failed_finals(tmp_path)]
    assert {f"record of a failure: {path}" for path in paths} <= set(shown.splitlines())
    records, size = shown.splitlines()[-2:]
    assert records.endswith(f"records of this sweep in {tmp_path / 'records'}")
    assert "preset smoke, the default, shows that everything works" in size
    assert "For a rank: the same words and preset=laptop" in size
    failed = [r for r in failed_finals(tmp_path) if r.outcome == "diverged"]
    assert {record.model for record in failed} >= {"lstm"}
    assert all(record.role == "final" and record.headline.value is None for record in failed)


def test_model_that_refuses_every_setting_is_a_record_with_the_cause(tmp_path):
    words = [*TINY, "models=gpt2", "models.width=8", "models.layers=1", f"store={tmp_path}"]
    words += ["sweep.search_space={models.heads:[3,5]}", "n_trials=2", "seeds=1"]
    (record,) = [r for r in records_of(make_plan(words), silent) if r.role != "baseline"]
    assert (record.role, record.outcome, record.headline.value) == ("final", "failed", None)
    assert record.cause.startswith("all 2 trials failed, the last: models (models.gpt2")
    assert record.cost.tuning_trials == len(record.study.trials) == 2
    assert record in list(read_records([tmp_path / "records"]))


def test_finals_that_are_chosen_no_more_leave_the_records(tmp_path):
    words = [*TINY, "models=lstm", "models.width=8", "models.layers=1", f"store={tmp_path}"]
    words += ["sweep.search_space={training.lr:[1e30,1e-3]}", "sampler=grid"]

    def finals(*more):
        found = records_of(make_plan([*words, *more]), silent)
        returned = [record for record in found if record.role == "final"]
        kept = [r for r in read_records([tmp_path / "records"]) if r.role == "final"]
        return returned, kept

    failed, kept = finals("n_trials=1", "seeds=1")
    assert failed == kept
    assert [record.outcome for record in kept] == ["diverged"]
    better, kept = finals("n_trials=2", "seeds=2")
    assert better == kept
    assert [record.outcome for record in kept] == ["ok", "ok"]
    assert [path.stem for path in (tmp_path / "superseded").iterdir()] == [failed[0].run_id]
    # Fewer seeds are no other setting; fewer trials are, and the words alone decide.
    fewer, kept = finals("n_trials=2", "seeds=1")
    assert (fewer, kept) == (better[:1], better)
    again, kept = finals("n_trials=1", "seeds=1")
    assert again == kept == failed


def one_entry(store, *more):
    words = [*TINY, "models=gpt2", "models.width=8", "models.layers=1", f"store={store}", *more]
    return make_plan(words).entries[0]


def test_only_a_refused_setting_is_a_failed_trial(tmp_path, monkeypatch):
    entry = one_entry(tmp_path)
    refused = execute(Job("trial 0", entry.at({"models.heads": 3}), "trial"), silent)
    assert isinstance(refused, UserError)
    assert "heads" in str(refused)

    def mistake(*_, **__):
        raise UserError("this machine has no GPU")  # exit code as for a refused setting

    monkeypatch.setattr(jobs, "get_or_run", mistake)
    with pytest.raises(UserError, match="no GPU"):
        execute(Job("trial 0", entry.at({"models.heads": 2}), "trial"), silent)


def test_busy_run_stops_the_sweep_and_loses_no_trial(tmp_path):
    words = [*TINY, "models=lstm", "models.width=8", "models.layers=1", f"store={tmp_path}"]
    words += ["sweep.search_space={training.lr:[1e-3,1e-4]}", "n_trials=2", "seeds=1"]
    entry = make_plan(words).entries[0]
    busy = identify(entry.at({"training.lr": 1e-3})).run_id(0)
    work = Store(tmp_path).work(busy)
    work.mkdir(parents=True)
    with (work / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another process is making this very run"):
            records_of(make_plan(words), silent)
    assert not list(read_records([tmp_path / "records"]))
    final = next(
        record for record in records_of(make_plan(words), silent) if record.role == "final"
    )
    assert [trial.outcome for trial in final.study.trials] == ["ok", "ok"]


def test_stores_that_share_a_database_do_not_share_trials(tmp_path):
    address = f"storage=sqlite:///{tmp_path}/studies.db"
    storage = open_storage(address.removeprefix("storage="), tmp_path)
    a = ModelSearch(one_entry(tmp_path / "a", address), storage, Store(tmp_path / "a"))
    trial = a.study.ask()
    b = ModelSearch(one_entry(tmp_path / "b", address), storage, Store(tmp_path / "b"))
    assert b.study.name != a.study.name
    a.study.tell_failure(trial, "failed", "told by its own driver")  # not ended by the other
    spelling = Store(tmp_path / "b" / ".." / "a")
    assert (
        ModelSearch(one_entry(spelling.root, address), storage, spelling).study.name == a.study.name
    )


def test_final_that_did_not_end_well_has_no_part_in_the_mean(tmp_path, capsys):
    good = make_record(seed=0)
    bad = make_record(
        seed=1,
        outcome="failed",
        cause="the test split is gone",
        headline=good.headline.model_copy(update={"value": 0.1}),
    )
    model = ModelResult("GPT2", 1, {}, [good, bad], bad.cause)
    where = "details in work/a/traceback.txt of the store"
    lost = ModelResult("LSTM", 1, {}, [], f"all 2 trials failed, the last: KeyError: … ({where})")
    text = '  File "x.py", line 3, in f\n    f()\nKeyError: my words\x1b[31m\nmore\n'
    Store(tmp_path).work("a").mkdir(parents=True)
    (Store(tmp_path).work("a") / "traceback.txt").write_text(text)
    print_sweep(SweepResult([model, lost], []), tmp_path)
    shown = capsys.readouterr().out
    shown_words = " ".join(shown.split())
    assert "the last: KeyError: my words" in shown_words
    assert shown_words.count("KeyError") == 1
    assert f"({where})" in shown_words
    assert "\x1b" not in shown
    (row,) = [line for line in shown.splitlines() if "GPT2" in line and "│" in line]
    assert "0.7000" in row
    assert "1/2" in row
    assert "not the same number" not in shown


def test_two_drivers_of_one_store_are_refused(tmp_path):
    folder = tmp_path / "studies"
    folder.mkdir()
    with (folder / "driver.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another sweep"):
            records_of(make_plan([*SWEEP, f"store={tmp_path}"]), silent)


def test_the_help_says_how_trials_are_counted(capsys):
    assert main(["--help"]) == OK
    shown = capsys.readouterr().out
    assert "n_trials=N" in shown
    assert "the same number of trials, or all settings\nof a smaller space" in shown
