"""Databases in which several drivers open their studies at the same moment, all of them fresh."""

import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sql

from bench.records.schema import Headline, RunRecord
from bench.search.coordinator import Coordinator, Lease
from bench.search.sharing import open_coordinator, place_of
from bench.search.storage import open_storage
from bench.search.study import ModelStudy
from core.database import engine_of
from core.errors import RUN_FAILED, USAGE, UserError
from tests import commands
from tests.servers import PostgreSQL, postgresql_server

pytestmark = pytest.mark.processes

# Three processes open a study each and drive it; prints how they ended.
THREE_DRIVERS = """
import json, multiprocessing, sys
from pathlib import Path
import alembic, optuna
import optuna.storages._rdb.storage
from bench.search.storage import open_storage

context = multiprocessing.get_context("fork")  # what is imported need not be imported again
barrier = context.Barrier(3)

def drive(name):
    barrier.wait()
    storage = open_storage(sys.argv[1], Path(sys.argv[2]))
    study = optuna.create_study(study_name=name, storage=storage)
    for value in range(2):
        study.tell(study.ask(), value)
    assert [trial.value for trial in study.get_trials()] == [0, 1]

drivers = [context.Process(target=drive, args=(name,)) for name in "abc"]
for driver in drivers:
    driver.start()
for driver in drivers:
    driver.join()
print(json.dumps([driver.exitcode for driver in drivers]))
"""


def three_drivers(address: str, folder: Path) -> list[int]:
    done = commands.run("-c", THREE_DRIVERS, address, str(folder))
    assert done.returncode == 0, done.stderr
    exit_codes: list[int] = json.loads(done.stdout)
    return exit_codes


def test_three_drivers_share_a_fresh_sqlite_file(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/studies.db"
    assert three_drivers(address, tmp_path) == [0, 0, 0]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with postgresql_server() as started:
        yield started


def test_three_drivers_share_a_fresh_postgresql_database(
    tmp_path: Path, server: PostgreSQL
) -> None:
    assert three_drivers(server.address, tmp_path) == [0, 0, 0]


def test_a_run_is_one_driver_s_until_it_ends_or_its_driver_dies(
    tmp_path: Path, server: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = (Coordinator(server.address, name, tmp_path) for name in "ab")
    run = place_of("single", "task-model-0123-s0")
    assert run == "records/task-model-0123-s0.json"
    assert a.lease(run).state == "owned"
    assert b.lease(run).state == "held"
    assert a.lease(run).state == "owned"  # the next driver of the same store goes on
    b.release(run)  # what is not its own
    assert b.lease(run).state == "held"
    a.release(run)
    assert b.lease(run).state == "owned"
    b.publish(run, "what was found")
    assert a.lease(run) == Lease("done", "what was found")
    a.write_missing(tmp_path / "store")
    assert (tmp_path / "store" / run).read_text() == "what was found"

    final, trial = place_of("final", "other-s0"), place_of("trial", "other-s0")
    assert b.lease(trial).state == "owned"
    with b.working_on(["this study", "another"]):
        assert a.lease(final, trial, "this study").state == "held"  # whoever has the weights
        assert a.lease(place_of("final", "c"), trial, "a third").state == "owned"
        assert b.lease(final, trial, "this study").state == "owned"
        b.release(final)
        for served in (b, a):
            served.publish(trial, "what b found")
        assert a.lease(final, trial, "this study").state == "held"  # b has them still
        assert b.lease(final, trial, "this study").state == "owned"
    b.release(final)
    assert a.lease(final, trial, "this study").state == "owned"  # b has left the plan
    assert b.lease(final).state == "held"
    monkeypatch.setattr("bench.search.coordinator.SECONDS_UNTIL_DEAD", 0.0)
    assert b.lease(final).state == "owned"


def test_records_of_others_are_written_nowhere_else(tmp_path: Path, server: PostgreSQL) -> None:
    coordinator = Coordinator(server.address, "a", tmp_path)
    for run in ("../elsewhere.json", "records/../../elsewhere.json", "work/a/weights.json", "a"):
        coordinator.write_record(tmp_path / "store", run, "{}")
    assert not list(tmp_path.rglob("*.json"))


def driver_of(server: PostgreSQL, store: Path) -> str:
    """What the driver of a store is called that starts now."""
    open_coordinator.cache_clear()
    coordinator = open_coordinator(server.address, store)
    assert coordinator is not None
    return coordinator.name


def test_a_copy_of_a_store_has_a_driver_of_its_own_and_the_store_keeps_its_name(
    tmp_path: Path, server: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, copy, linked, renamed = (tmp_path / n for n in ("store", "copy", "linked", "renamed"))
    name = driver_of(server, store)
    study = open_study(server, store, name, "copied")
    trial = study.ask()
    shutil.copytree(store, copy)
    shutil.copytree(store, linked, copy_function=os.link)  # as `cp -al`, and backups, do
    names = [driver_of(server, place) for place in (store, copy, linked)]
    assert names[0] == name
    assert len(set(names)) == 3
    assert driver_of(server, copy) == names[1]  # the next one there has it too
    other = open_study(server, copy, names[1], "copied")
    assert other.ask().user_attrs["setting"] != trial.user_attrs["setting"]
    store.rename(renamed)
    assert driver_of(server, renamed) == name

    # A store that came to another file system: what its driver had is a dead driver's.
    shutil.rmtree(renamed)
    while other.ask():
        pass
    assert other.waits()
    monkeypatch.setattr("bench.search.coordinator.SECONDS_UNTIL_DEAD", 0.0)
    assert other.waits()
    assert other.ask().user_attrs["setting"] == trial.user_attrs["setting"]


def open_study(
    server: PostgreSQL, folder: Path, driver: str, name: str = "task-model-smoke-0123"
) -> ModelStudy:
    return ModelStudy(
        open_storage(server.address, folder),
        name,
        space={"training.lr": [1e-3, 1e-4, 1e-5], "models.layers": [1, 2]},
        budget=4,
        sampler="random",
        seed=0,
        headline=Headline(name="accuracy", direction="maximise"),
        coordinator=Coordinator(server.address, driver, folder),
    )


def test_a_study_gives_each_trial_to_one_driver_and_survives_a_restart_of_its_server(
    tmp_path: Path,
    server: PostgreSQL,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    a, b = (open_study(server, tmp_path, name) for name in "ab")
    trials = [study.ask() for study in (a, b, a, b)]
    settings = [trial.user_attrs["setting"] for trial in trials]
    assert sorted(map(str, settings)) == sorted({str(setting) for setting in settings})
    assert a.ask() is None
    assert b.ask() is None
    assert a.waits()

    monkeypatch.setattr("core.database._noted_at", [])  # of a loss in another test
    server.stop()
    threading.Timer(1.0, server.start).start()
    for study, trial in zip((a, b), trials[:2], strict=True):
        study.tell(trial, record(0.5))
    assert a.finished() == b.finished() == 2
    assert capsys.readouterr().err.count("waiting for it") == 1  # whose connections were all lost

    a.tell(trials[2], record(0.7))
    assert a.waits()  # for what b still has
    again = open_study(server, tmp_path, "b")  # b was killed, and is started again
    retried = again.ask()
    assert retried.user_attrs["setting"] == settings[3]
    assert again.ask() is None
    assert a.waits()
    monkeypatch.setattr("bench.search.coordinator.SECONDS_UNTIL_DEAD", 0.0)
    assert a.waits()  # b is gone for good: its trial is queued, and nothing is final without it
    last = a.ask()
    assert last.user_attrs["setting"] == settings[3]
    again.tell(retried, record(0.9))  # from a driver that was only slow: the setting is another's
    a.tell(last, record(0.9))
    assert not a.waits()
    assert a.best() == settings[3]
    described = a.describe().trials
    assert [trial.outcome for trial in described] == ["ok"] * 4
    assert sorted(str(t.parameters) for t in described) == sorted(map(str, settings))


def test_a_server_that_is_gone_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("core.database.SECONDS_OF_PATIENCE", 0.5)
    with postgresql_server() as server:
        study = open_study(server, tmp_path, "a")
        trial = study.ask()
        server.stop()
        with pytest.raises(UserError, match="the database given by storage= is gone"):
            study.tell(trial, record(0.5))
        assert "waiting for it" in capsys.readouterr().err
        with pytest.raises(UserError, match="the database given by storage= is gone"):
            study.tell(trial, record(0.5))  # on its way out a driver does not wait again
        assert "waiting for it" not in capsys.readouterr().err
        with pytest.raises(UserError, match="given by storage= cannot be opened") as caught:
            open_storage(server.address, tmp_path)
        assert caught.value.exit_code == RUN_FAILED
        server.start()
        study.tell(trial, record(0.5))
        assert study.finished() == 1


@pytest.mark.parametrize(
    "address",
    [
        "postgresql:/bench",
        "postgresql://nobody@127.0.0.1:abc/a",
        "postgresql+psycopg2://nobody@127.0.0.1/a",
        "postgresqlfoo://nobody@127.0.0.1/a",
    ],
)
def test_what_is_no_address_is_one_sentence_for_sweeps_and_plans(
    address: str, tmp_path: Path
) -> None:
    for use in (open_storage, lambda *words: Coordinator(words[0], "a", words[1])):
        with pytest.raises(UserError, match="the address given by storage= cannot be used") as no:
            use(address, tmp_path)
        assert no.value.exit_code == USAGE


def test_a_server_that_does_not_run_is_told_from_a_wrong_address(tmp_path: Path) -> None:
    address = "postgresql://nobody@127.0.0.1:1/a"  # where nobody listens
    for use in (open_storage, lambda *words: Coordinator(words[0], "a", words[1])):
        with pytest.raises(UserError, match=r"cannot be opened.*start its server") as caught:
            use(address, tmp_path)
        assert "\n" not in str(caught.value)
        assert caught.value.exit_code == RUN_FAILED  # the words may all be right


def test_a_server_that_refuses_is_told_from_one_that_is_away(
    tmp_path: Path, server: PostgreSQL
) -> None:
    """A plain user may not make tables in a fresh database."""
    engine = engine_of(server.address)
    with engine.begin() as connection:
        connection.execute(sql.text("CREATE ROLE plain LOGIN"))
        connection.execute(sql.text("CREATE SCHEMA empty"))
        connection.execute(sql.text("ALTER ROLE plain SET search_path TO empty"))
    engine.dispose()
    address = server.address.replace("bench@", "plain@")
    for opened in (open_storage, open_coordinator):
        with pytest.raises(UserError, match="give its user the rights to make tables") as caught:
            opened(address, tmp_path)
        assert caught.value.exit_code == USAGE


def test_a_host_that_says_nothing_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "")  # so that what is set here is gone afterwards
    monkeypatch.delenv("PGCONNECT_TIMEOUT")
    monkeypatch.setattr("core.database.SECONDS_TO_CONNECT", "2")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/a"
        begun = time.monotonic()
        with pytest.raises(UserError, match="start its server") as caught:
            open_storage(address, tmp_path)
        assert time.monotonic() - begun < 30.0
    assert caught.value.exit_code == RUN_FAILED


def record(value: float) -> RunRecord:
    metrics = {"validation": {"accuracy": value, "loss": 1.0}}
    fields = {"run_id": f"run-{value}", "outcome": "ok", "metrics": metrics, "cause": None}
    return RunRecord.model_construct(**fields)
