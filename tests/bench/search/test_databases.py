"""Databases in which several drivers open their studies at the same moment, all of them fresh."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import told_by_a_process

pytestmark = pytest.mark.processes

# Three processes open a study each and drive it; prints how they ended.
THREE_DRIVERS = """
import json, multiprocessing, sys
from pathlib import Path
import alembic, optuna
import optuna.storages._rdb.storage
from bench.search.study import open_storage

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


@pytest.fixture
def postgresql() -> Iterator[str]:
    """The address of a server of its own, on a socket that is a file."""
    if not shutil.which("initdb") or not shutil.which("pg_ctl"):
        pytest.skip("no PostgreSQL here: initdb and pg_ctl are not on the path")
    other = {"user": "nobody"} if os.getuid() == 0 else {}  # it refuses to run as root
    folder = Path(tempfile.mkdtemp())
    if other:
        shutil.chown(folder, "nobody")
    data = str(folder / "data")

    def run(*words: str) -> None:
        subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL, **other)

    settings = f"-k {folder} -c listen_addresses='' -c fsync=off"
    try:
        run("initdb", "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-sync")
        run("pg_ctl", "-D", data, "-w", "-o", settings, "-l", str(folder / "log"), "start")
        yield f"postgresql+psycopg://bench@/postgres?host={folder}"
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def test_three_drivers_share_a_fresh_sqlite_file(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/studies.db"
    assert told_by_a_process(THREE_DRIVERS, address, str(tmp_path)) == [0, 0, 0]


def test_three_drivers_share_a_fresh_postgresql_database(tmp_path: Path, postgresql: str) -> None:
    assert told_by_a_process(THREE_DRIVERS, postgresql, str(tmp_path)) == [0, 0, 0]
