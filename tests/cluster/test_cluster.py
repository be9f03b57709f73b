"""Sweeps on a Ray cluster and by several drivers, parts of which are killed: `nox -s cluster`.

The truth is the same sweep by two processes on this machine, which nobody disturbs. By the
environment variable MEMORY_BENCH_SWEEP another sweep takes its place, such as a shorter one.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.executors.interface import ATTEMPTS
from core.errors import INTERRUPTED, RUN_FAILED
from core.words import word
from tests.cluster.nodes import PORT, Nodes, commands, three_nodes
from tests.conftest import ROOT
from tests.kills import SECONDS_TO_DIE, _environment, left_in
from tests.servers import postgresql_server

pytestmark = pytest.mark.cluster

PATIENCE = 3600.0  # seconds until what does not end hangs
(OF_THE_PAGE,) = (line for line in commands() if "bench.sweep" in line)
SWEEP = shlex.split(os.environ.get("MEMORY_BENCH_SWEEP", "tasks=regbench preset=smoke"))
SWEEP += ["device=cpu", "training.checkpoint_every=5"]


class Sweep:
    """A sweep with its store in a folder."""

    def __init__(self, folder: Path, *words: str, environment: dict[str, str] | None = None):
        self.folder, self.store = folder, folder / "store"
        folder.mkdir(exist_ok=True)
        self.said = (folder / "said.txt").open("w+")
        settings = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.sweep", *SWEEP, *words, word("store", str(self.store))],
            cwd=folder,
            env={**(environment or os.environ), **settings},
            stdout=self.said,
            stderr=self.said,
        )

    def wait_until(self, there: Callable[[], Any]) -> None:
        """Until something is there, while the sweep runs."""
        while not there():
            assert self.process.poll() is None, self.end()
            time.sleep(0.05)

    def trials(self) -> int:
        """Trials that have ended."""
        return len(list(self.store.glob("trials/*.json")))

    def checkpoints(self) -> list[Path]:
        """Those that the driver has now."""
        return list(self.store.glob("work/*/checkpoint-*.pt"))

    def end(self) -> str:
        """What it said, once it has ended."""
        self.process.wait(PATIENCE)
        self.said.seek(0)
        return self.said.read()

    def table(self) -> list[str]:
        """The rows of its table but for the seconds, in order."""
        rows = [line.split("│") for line in self.end().splitlines() if "│" in line]
        return [" ".join(cell.strip() for cell in (*row[:7], *row[8:])) for row in rows]


def facts(sweep: Sweep) -> dict[str, Any]:
    """All that must not depend on where runs are made; the store of a cluster's driver has no
    locks, and attempts that were killed have numbers."""
    return {k: v for k, v in left_in(sweep.folder).items() if k != "the files"}


def assert_same(one: Sweep, other: Sweep) -> None:
    for what, found in facts(one).items():
        assert found == facts(other)[what], what
    assert one.table() == other.table()


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    undisturbed = Sweep(tmp_path_factory.mktemp("truth") / "sweep", "workers=2")
    said = undisturbed.end()
    assert undisturbed.process.returncode == 0, said
    return undisturbed


@pytest.fixture(scope="module")
def cluster() -> Iterator[Nodes]:
    with three_nodes() as nodes:
        yield nodes


def on(cluster: Nodes, folder: Path, *more: str) -> Sweep:
    """The sweep of the page."""
    words = [w for w in shlex.split(OF_THE_PAGE.replace(PORT, cluster.port)) if "ray" in w]
    words += ["ray.checkpoint_every=0.5", *more]
    return Sweep(folder, *words, environment=cluster.environment)


def test_three_nodes_give_what_two_processes_give(
    tmp_path: Path, truth: Sweep, cluster: Nodes
) -> None:
    sweep = on(cluster, tmp_path / "sweep")
    assert sweep.process.wait(PATIENCE) == 0, sweep.end()
    assert_same(sweep, truth)


def test_a_killed_node_changes_nothing(tmp_path: Path, truth: Sweep, cluster: Nodes) -> None:
    joining = next(line for line in commands() if "--address" in line)
    sweep = on(cluster, tmp_path / "sweep")
    sweep.wait_until(lambda: sweep.trials() and cluster.working(2))
    cluster.kill(2)
    try:
        assert sweep.process.wait(PATIENCE) == 0, sweep.end()
        assert_same(sweep, truth)
    finally:
        cluster.start(joining)


def test_a_trial_whose_worker_dies_each_time_is_made_by_the_same_command(
    tmp_path: Path, truth: Sweep, cluster: Nodes
) -> None:
    first = on(cluster, tmp_path / "sweep", "workers=1")
    journal = first.store / "studies" / "journal.log"

    def lost_after_kills() -> bool:
        if journal.exists() and '"lost"' in journal.read_text():
            return True
        for worker in cluster.at_work():
            with suppress(psutil.NoSuchProcess):
                worker.kill()
        return False

    first.wait_until(lost_after_kills)
    said = first.end()
    assert first.process.returncode == RUN_FAILED, said
    sentence = " ".join(said.split())  # its lines are as long as the console is wide
    assert sentence.count("was lost") == 1
    assert re.search(r": trial \d+ \(training.lr=", sentence)
    assert f"its worker died {ATTEMPTS} times, at last: " in sentence
    assert "the same command tries it again" in sentence
    assert not [line for line in said.splitlines() if line.startswith("Traceback")]
    second = on(cluster, tmp_path / "sweep", "workers=3")
    assert second.process.wait(PATIENCE) == 0, second.end()
    assert_same(second, truth)


@pytest.mark.parametrize("token", [None, "0" * 64])
def test_a_missing_and_a_wrong_token_are_one_sentence_that_names_it(
    token: str | None, tmp_path: Path, cluster: Nodes
) -> None:
    others = {k: v for k, v in cluster.environment.items() if not k.startswith("RAY_AUTH")}
    own = {} if token is None else {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    words = ("executor=ray", f"ray.address={cluster.address}")
    sweep = Sweep(tmp_path / "sweep", *words, environment=others | own)
    said = sweep.end().splitlines()
    assert sweep.process.returncode == RUN_FAILED
    assert said[-1].startswith("error: no Ray cluster can be joined")
    assert "started with a token is joined with the same one (RAY_AUTH_MODE=token" in said[-1]
    assert not any(line.startswith("Traceback") for line in said)


def test_a_killed_driver_goes_on(tmp_path: Path, truth: Sweep, cluster: Nodes) -> None:
    first = on(cluster, tmp_path / "sweep")
    first.wait_until(lambda: first.trials() and first.checkpoints())
    first.process.kill()
    first.end()
    finished = {path: path.stat().st_mtime_ns for path in first.store.glob("trials/*.json")}
    second = on(cluster, tmp_path / "sweep")
    assert second.process.wait(PATIENCE) == 0, second.end()
    assert finished == {path: path.stat().st_mtime_ns for path in finished}
    assert_same(second, truth)


def test_sigterm_is_ctrl_c(tmp_path: Path, truth: Sweep, cluster: Nodes) -> None:
    """As a scheduler sends it before it takes a job's machines away."""
    first = on(cluster, tmp_path / "sweep")
    first.wait_until(lambda: first.trials() and first.checkpoints())
    first.process.terminate()
    said = first.end()
    assert first.process.returncode == INTERRUPTED, said
    assert first.checkpoints()
    second = on(cluster, tmp_path / "sweep")
    assert second.process.wait(PATIENCE) == 0, second.end()
    assert_same(second, truth)


def test_without_an_address_there_is_a_cluster_of_this_machine_until_the_end(
    tmp_path: Path, truth: Sweep
) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: python -m pip install -e '.[cluster]'")
    mark = {"MEMORY_BENCH_KILLS": uuid.uuid4().hex}
    others = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    sweep = Sweep(tmp_path / "sweep", "executor=ray", "workers=2", environment=others | mark)
    assert sweep.process.wait(PATIENCE) == 0, sweep.end()
    assert_same(sweep, truth)
    left = [p for p in psutil.process_iter() if _environment(p).items() >= mark.items()]
    assert not psutil.wait_procs(left, SECONDS_TO_DIE)[1]


def test_a_node_without_the_environment_is_one_sentence(tmp_path: Path, cluster: Nodes) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('torch', 'lightning', 'optuna', 'hydra'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    with three_nodes() as others:
        others.kill(1)
        others.kill(2)
        joining = next(line for line in commands() if "--address" in line)
        others.start(joining.replace("--num-cpus=1", "--num-cpus=4"), PYTHONPATH=str(hidden))
        sweep = on(others, tmp_path / "sweep")
        said = sweep.end().splitlines()
        assert sweep.process.returncode == RUN_FAILED
        assert "cannot run this (No module named" in said[-1]
        assert not any(line.startswith("Traceback") for line in said)


def test_a_dead_head_and_a_wrong_address_are_one_sentence_and_nothing_is_lost(
    tmp_path: Path, truth: Sweep
) -> None:
    with three_nodes() as nodes:
        sweep = on(nodes, tmp_path / "sweep")
        sweep.wait_until(lambda: sweep.trials() and sweep.checkpoints())
        for number in range(3):
            nodes.kill(number)
        said = sweep.end().splitlines()
        assert sweep.process.returncode == RUN_FAILED
        assert said[-1].startswith("error: the Ray cluster is gone")
        again = on(nodes, tmp_path / "sweep")
        said = again.end().splitlines()
        assert again.process.returncode == RUN_FAILED
        assert "no Ray cluster can be joined" in said[-1]
        assert not any(line.startswith("Traceback") for line in said)
    here = Sweep(tmp_path / "sweep", "workers=2")
    assert here.process.wait(PATIENCE) == 0, here.end()
    assert_same(here, truth)


def test_two_drivers_share_a_plan_and_survive_a_restart_of_their_database(
    tmp_path: Path, truth: Sweep
) -> None:
    with postgresql_server() as server:
        words = ("workers=1", word("storage", server.address))
        both = [Sweep(tmp_path / name, *words) for name in "ab"]
        both[0].wait_until(lambda: sum(sweep.trials() for sweep in both) > 1)
        server.stop()
        time.sleep(3)
        server.start()
        for sweep in both:
            assert sweep.process.wait(PATIENCE) == 0, sweep.end()
    trained = Counter(p.parent.name for s in both for p in s.store.glob("work/*/trained.json"))
    assert set(trained) == {p.parent.name for p in truth.store.glob("work/*/trained.json")}
    assert set(trained.values()) == {1}  # every run by one of them
    for sweep in both:
        assert sweep.table() == truth.table()
        for folder in ("records/*.json", "trials/*.json"):  # its own and the other's
            there, wanted = (s.store.glob(folder) for s in (sweep, truth))
            assert sorted(path.name for path in there) == sorted(path.name for path in wanted)
    everything = Sweep(tmp_path / "both", "workers=0", "dry_run=true")
    everything.end()
    for sweep in both:
        shutil.copytree(sweep.store, everything.store, dirs_exist_ok=True)
    for what in ("the records", "the weights"):
        assert facts(everything)[what] == facts(truth)[what]
