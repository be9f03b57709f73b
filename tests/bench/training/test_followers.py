"""Processes that share a training, when one of them dies: real processes, really killed."""

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from bench.training import parallel
from bench.training.parallel import Ranks, leading
from core.errors import UserError
from tests.bench.processes import wait_for
from tests.commands import start

pytestmark = pytest.mark.processes

CPU = torch.device("cpu")


def add_up_for_good(ranks: Ranks, device: torch.device) -> None:
    while True:
        ranks.add_up([torch.ones(3)])


def add_up_or_end(ranks: Ranks, device: torch.device, folder: str) -> None:
    """One waits in a sum that the leader never joins, another has made all its steps."""
    Path(folder, str(os.getpid())).touch()
    if ranks.rank == 1:
        ranks.add_up([torch.ones(3)])


def add_up_and_wait_for_a_word(ranks: Ranks, device: torch.device) -> None:
    """Give up the leader at its word, a sum beyond 2, in place of seconds after SIGTERM."""
    word = threading.Event()
    parallel.time = SimpleNamespace(sleep=lambda seconds: word.wait())  # type: ignore[assignment]
    while True:
        ones = torch.ones(3)
        ranks.add_up([ones])
        if ones[0] > 2:
            word.set()


def lead_and_sleep(folder: str) -> None:
    """What the test of a killed leader runs as a script."""
    with leading(3, CPU, add_up_or_end, folder):
        time.sleep(60)


def kill_the_follower() -> None:
    wait_for(lambda: followers())
    followers()[0].kill()


def followers() -> list[psutil.Process]:
    processes = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it has ended since it was listed
            if "spawn_main" in str(child.cmdline()):
                processes.append(child)
    return processes


def test_no_follower_outlives_a_killed_leader(tmp_path: Path) -> None:
    script = (
        "from tests.bench.training.test_followers import lead_and_sleep as run;"
        f"run({str(tmp_path / 'pids')!r})"
    )
    (tmp_path / "pids").mkdir()
    (tmp_path / "temporary").mkdir()
    leader = start("-c", script, env={"TMPDIR": str(tmp_path / "temporary")})
    try:
        wait_for(lambda: len(list((tmp_path / "pids").iterdir())) == 2)
        family = psutil.Process(leader.pid).children()
    finally:
        leader.kill()
        leader.wait()
    assert len(family) >= 2
    assert not psutil.wait_procs(family, timeout=60)[1]
    assert not list((tmp_path / "temporary").iterdir())


def test_a_follower_told_to_end_tells_the_leader_and_ends_alone_where_that_one_goes_on() -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda signum, frame: told.append(signum))
    try:
        with (  # noqa: PT012
            pytest.raises(UserError, match=r"died \(killed by SIGKILL\): the same command goes on"),
            leading(2, CPU, add_up_and_wait_for_a_word) as ranks,
        ):
            ranks.add_up([torch.ones(3)])
            (follower,) = followers()
            follower.terminate()  # while it waits in a sum
            wait_for(lambda: told)
            ranks.add_up([torch.ones(3)])  # the leader still ends its step
            ranks.add_up([torch.full((3,), 2.0)])  # and goes on beyond what a follower waits for
            wait_for(lambda: follower.status() == psutil.STATUS_ZOMBIE)
            add_up_for_good(ranks, CPU)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not followers()


def test_a_follower_that_dies_at_its_start_is_not_waited_for() -> None:
    killer = threading.Thread(target=kill_the_follower)
    killer.start()
    with pytest.raises(UserError, match="SIGKILL"), leading(2, CPU, add_up_for_good):
        pytest.fail("it was waited for")
    killer.join()
