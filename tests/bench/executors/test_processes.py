"""Executors against real processes that really die."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench.executors.interface import ATTEMPTS
from bench.executors.processes import STARTING, InProcess, Pool
from core.errors import UserError
from core.progress import Report, silent
from tests.bench.processes import wait_for
from tests.conftest import ROOT


def square(job: int, report: Report) -> tuple[int, int]:
    report(f"job {job}", 1, 1)
    return job * job, os.getpid()


def die_until(job: tuple[str, int], report: Report) -> int:
    """Kill the own process until ``times`` attempts have left their mark in the file."""
    marks, times = Path(job[0]), job[1]
    with marks.open("a") as file:
        file.write(f"{os.getpid()}\n")
    if len(marks.read_text().split()) <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def refuse(job: int, report: Report) -> None:
    raise UserError(f"no {job}: choose another", exit_code=7)


def sleep(job: str, report: Report) -> None:
    """Write the own process id, then hang; Ctrl-C is noted as a run would save a checkpoint."""
    Path(job).write_text(str(os.getpid()))
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        Path(job).write_text("saved")
        raise


def leave_somebody(job: tuple[str, bool], report: Report) -> str:
    """Fork a process that has all open files, and goes on; then end, or be killed."""
    note, killed = Path(job[0]), job[1]
    if (child := os.fork()) == 0:
        time.sleep(300)
        os._exit(0)
    with note.open("a") as file:
        file.write(f"{child}\n")
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def read_environment(job: str, report: Report) -> str | None:
    return os.environ.get(job)


def hang_with_workers(folder: str) -> None:
    """What the test of a killed parent runs as a script."""
    with Pool(sleep, [{}, {}], imported=()) as pool:
        for ticket in range(2):
            pool.submit(ticket, f"{folder}/{ticket}")
        pool.wait()


def test_in_process_gives_values_in_order():
    reports = []
    with InProcess(square, lambda *words: reports.append(words)) as executor:
        executor.submit(5, 3)
        executor.submit(6, 4)
        assert [(d.ticket, d.value[0]) for d in (executor.wait(), executor.wait())] == [
            (5, 9),
            (6, 16),
        ]
    assert reports == [("job 3", 1, 1), ("job 4", 1, 1)]


@pytest.mark.processes
def test_pool_keeps_its_workers_and_passes_their_reports_on():
    reports = []
    with Pool(square, [{}, {}], lambda *words: reports.append(words)) as pool:
        values, processes = {}, set()
        pool.submit(0, 0)
        pool.submit(1, 1)
        for ticket in range(2, 8):
            done = pool.wait()
            values[done.ticket], process = done.value
            processes.add(process)
            pool.submit(ticket, ticket)
        for done in (pool.wait(), pool.wait()):
            values[done.ticket], process = done.value
            processes.add(process)
    assert values == {n: n * n for n in range(8)}
    assert len(processes) <= 2
    assert os.getpid() not in processes
    assert sorted(r for r in reports if r[0] != STARTING) == [(f"job {n}", 1, 1) for n in range(8)]
    assert reports[0] == (STARTING, 0, 1)
    assert [r for r in reports if r[0] == STARTING][-1] == (STARTING, 1, 1)
    assert not any(psutil.pid_exists(process) for process in processes)


@pytest.mark.processes
@pytest.mark.parametrize("deaths", [1, ATTEMPTS])
def test_killed_worker_is_replaced_until_the_job_is_hopeless(tmp_path, deaths):
    marks = tmp_path / "marks"
    with Pool(die_until, [{}]) as pool:
        pool.submit(0, (str(marks), deaths))
        done = pool.wait()
        attempts = marks.read_text().split()
        assert len(set(attempts)) == len(attempts) == min(deaths + 1, ATTEMPTS)
        if deaths < ATTEMPTS:
            assert done.death is None
            assert str(done.value) == attempts[-1]
        else:
            assert "SIGKILL" in str(done.death)
        pool.submit(1, (str(marks), 0))  # the pool still works
        assert pool.wait().death is None


@pytest.mark.processes
def test_exceptions_and_environments_travel():
    with Pool(refuse, [{}]) as pool:
        pool.submit(0, 3)
        with pytest.raises(UserError, match="no 3") as caught:
            pool.wait()
        assert caught.value.exit_code == 7
    with Pool(read_environment, [{"BENCH_TEST": "a"}, {"BENCH_TEST": "b"}]) as pool:
        pool.submit(0, "BENCH_TEST")
        pool.submit(1, "BENCH_TEST")
        assert {pool.wait().value, pool.wait().value} == {"a", "b"}
    assert "BENCH_TEST" not in os.environ


@pytest.mark.processes
@pytest.mark.parametrize("killed", [False, True])
def test_what_a_job_leaves_behind_holds_nobody_and_is_ended(tmp_path, killed, capfd):
    """It keeps the worker's pipe open, whose end is all that would tell of the worker's."""
    note = tmp_path / "children"
    with Pool(leave_somebody, [{}]) as pool:
        pool.submit(0, (str(note), killed))
        done = pool.wait()
    assert done.death == ("its worker died 3 times, at last killed by SIGKILL" if killed else None)
    children = [int(line) for line in note.read_text().split()]
    assert len(children) == (ATTEMPTS if killed else 1)
    assert not any(psutil.pid_exists(child) and _runs(child) for child in children)
    said = capfd.readouterr().err
    assert all(f"({child})" in said for child in children), said


def _runs(process: int) -> bool:
    """One that has ended may stay a zombie, where the machine's first process takes none."""
    return psutil.Process(process).status() != psutil.STATUS_ZOMBIE


@pytest.mark.processes
def test_interrupted_parent_lets_workers_save(tmp_path):
    note = tmp_path / "0"
    with Pool(sleep, [{}], silent) as pool:  # left as it is when Ctrl-C is raised inside
        pool.submit(0, str(note))
        wait_for(lambda: note.exists() and note.read_text())
        worker = int(note.read_text())
    assert note.read_text() == "saved"
    assert not psutil.pid_exists(worker)


@pytest.mark.processes
def test_a_stop_of_the_whole_group_lets_workers_save_and_names_none_of_them(tmp_path, capfd):
    """As a time limit does: `timeout` sends SIGTERM to the server that forks workers, too."""
    note = tmp_path / "0"
    with Pool(sleep, [{}], silent) as pool:
        pool.submit(0, str(note))
        wait_for(lambda: note.exists() and note.read_text())
        server = psutil.Process(int(note.read_text())).ppid()
        assert server != os.getpid()
        os.kill(server, signal.SIGTERM)
        time.sleep(0.5)  # in which the server would end, and its worker with it
    assert note.read_text() == "saved"
    assert "left behind" not in capfd.readouterr().err


@pytest.mark.processes
def test_no_worker_outlives_a_killed_parent(tmp_path):
    code = f"from test_processes import hang_with_workers as run; run({str(tmp_path)!r})"
    places = [str(Path(__file__).parent), str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    notes = [tmp_path / "0", tmp_path / "1"]
    try:
        wait_for(lambda: all(note.exists() and note.read_text() for note in notes))
        workers = [int(note.read_text()) for note in notes]
        assert all(psutil.pid_exists(worker) for worker in workers)
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: not any(psutil.pid_exists(worker) for worker in workers))
