"""``python -m tests.kills``: kill -9 at random moments, go on, and compare with an undisturbed run.

Trainings, sweeps with workers and trainings that two processes share are killed and started again
until they are done. Weights, metrics, curves, trials and the names of all files must then be those
of a run that nobody disturbed, what was finished must not have been made again, and no process and
no temporary file may be left. The first difference ends it, with a sentence and exit code 1.
"""

import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.records.schema import read_records
from bench.search.storage import open_storage
from core.errors import OK, RUN_FAILED, UserError, command
from core.files import ROOT
from core.processes import module_command
from core.progress import Report, progress

USAGE = "python -m tests.kills [trainings=100 sweeps=50 parallel=20 seed=0 at_once=2]"
SECONDS_TO_DIE = 10.0  # for the family of what was killed
PATIENCE = 600.0  # seconds until what does not end hangs
EARLY = 0.2  # of the kills hit a process before its first file
MARK = "MEMORY_BENCH_KILLS"  # in the environment of every process that is started here

TRAINING = [
    "bench.train",
    "tasks=regbench",
    "tasks.training_automata=64",
    "models=lstm",
    "models.width=16",
    "models.layers=1",
    "training.batch_size=8",
    "training.steps=200",
    "training.checkpoint_every=3",
    "training.validate_every=90",
]
SWEEP = [
    "bench.sweep",
    "tasks=three_moons",
    "tasks.length=130",
    "tasks.sequences=2",
    "tasks.contexts_every=16",
    "models=[memory_unit,lstm]",
    "models.width=8",
    "models.layers=1",
    "training.steps=30",
    "training.batch_size=2",
    "training.restarts=1",
    "training.checkpoint_every=1",
    "n_trials=3",
    "seeds=2",
    "workers=2",
]


@dataclass
class Kind:
    """What is killed, and what an undisturbed run of it leaves.

    Attributes:
        active: seconds that the undisturbed run took from its first file to its end.
        until_active: seconds before.
    """

    name: str
    words: list[str]
    kills: int
    expected: dict[str, Any] = field(default_factory=dict)
    until_active: float = 0.0
    active: float = 0.0


class Started:
    """A command in a store of its own, with all processes that come of it."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind, self.store, self.temporary = kind, folder / "store", folder / "temporary"
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.mark, self.begun = uuid.uuid4().hex, time.time()
        self.errors = (folder / "errors.txt").open("w+")
        module, *words = kind.words
        settings = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        settings |= {"TMPDIR": str(self.temporary), MARK: self.mark}
        self.process = subprocess.Popen(
            module_command(module, [*words, "device=cpu", f"store={self.store}"]),
            cwd=ROOT,
            env={**os.environ, **settings},
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
        )

    def family(self) -> list[psutil.Process]:
        """Every process with our mark that is alive."""
        return [p for p in psutil.process_iter() if _environment(p).get(MARK) == self.mark]

    def workers(self) -> list[psutil.Process]:
        """Those of them that compute, itself and the server that forks workers included."""
        kinds = ("spawn_main", "forkserver")
        return [
            process
            for process in self.family()
            if process.pid == self.process.pid or any(kind in _words(process) for kind in kinds)
        ]

    def wait_until_active(self) -> None:
        """Until it has made a step and saved, or has ended."""
        while self.process.poll() is None:
            with suppress(FileNotFoundError):  # one that was found is gone
                files = self.store.glob("work/*/checkpoint-*.pt")
                if any(path.stat().st_mtime > self.begun for path in files):
                    return
            time.sleep(0.01)

    def end(self, victim: psutil.Process | None) -> int:
        """Its exit code, once it and all others of the family are gone.

        Raises:
            UserError: one of them stays, or what was not killed failed.
        """
        if victim is not None:
            with suppress(psutil.NoSuchProcess):
                victim.kill()
        try:
            code = self.process.wait(PATIENCE)
            left = psutil.wait_procs(self.family(), SECONDS_TO_DIE)[1]
            if left:
                raise UserError(f"{len(left)} processes outlive it: {left}", RUN_FAILED)
        except subprocess.TimeoutExpired:
            raise UserError(f"it hangs for {PATIENCE:.0f} s", RUN_FAILED) from None
        finally:
            for process in self.family():
                process.kill()
        self.errors.seek(0)
        said = self.errors.read().strip()
        self.errors.close()
        died = "died (killed by SIGKILL)" in said  # a follower, and its leader says so
        if code not in (0, -9) and not (victim is not None and died):
            raise UserError(f"it ended with exit code {code}: {said[-2000:]}", RUN_FAILED)
        return code


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ() if process.status() != psutil.STATUS_ZOMBIE else {}
    except psutil.Error:
        return {}


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def make_undisturbed(kind: Kind, folder: Path) -> None:
    """Fill in what the kind leaves, and its times."""
    begun = time.monotonic()
    started = Started(kind, folder)
    started.wait_until_active()
    kind.until_active = time.monotonic() - begun
    started.end(None)
    kind.active = time.monotonic() - begun - kind.until_active
    kind.expected = left_in(folder)


def left_in(folder: Path) -> dict[str, Any]:
    """All that no kill may change: what records say, bytes of weights, trials, names of files."""
    store = folder / "store"
    records = [*read_records([store / "records"]), *read_records([store / "trials"])]
    return {
        "the files": sorted(str(path.relative_to(folder)) for path in folder.rglob("*")),
        "the records": {
            f"{record.role} {record.run_id}": [
                (record.outcome, record.cause, record.metrics, record.curves, record.arrays),
                (record.weights_sha256, record.cost.training_steps, record.cost.tuning_trials),
                record.study and [(t.parameters, t.value, t.outcome) for t in record.study.trials],
            ]
            for record in records
        },
        "the weights": {
            path.parent.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in store.glob("work/*/weights.safetensors")
        },
        "the trials": trials_in(store / "studies"),
    }


def trials_in(studies: Path) -> dict[str, list[str]]:
    """Settings that came to an end of their own, once for each time, by study."""
    if not studies.exists():
        return {}
    storage = open_storage("journal", studies)
    return {
        study.study_name: sorted(
            str(trial.user_attrs["setting"])
            for trial in storage.get_all_trials(study._study_id)
            if trial.state.name != "FAIL"  # an attempt that was killed
        )
        for study in storage.get_all_studies()
    }


def kill_until_done(kind: Kind, folder: Path, draw: random.Random, kills: int) -> None:
    """Kill ``kills`` times, start again until it is done, and compare.

    Raises:
        UserError: something is not as in the undisturbed run.
    """
    finished: dict[Path, int] = {}
    while True:
        started = Started(kind, folder)
        victim = None
        if kills:
            if draw.random() < EARLY:
                time.sleep(draw.uniform(0, kind.until_active))
            else:
                started.wait_until_active()
                time.sleep(draw.uniform(0, kind.active))
            workers = started.workers()
            victim = draw.choice(workers) if workers else None
        kills -= victim is not None
        code = started.end(victim)
        records = [*folder.glob("store/records/*.json"), *folder.glob("store/trials/*.json")]
        again = [path.name for path, at in finished.items() if path.stat().st_mtime_ns != at]
        if again:
            raise UserError(f"what was finished was made again: {again}", RUN_FAILED)
        finished = {path: path.stat().st_mtime_ns for path in records}
        if code == 0:
            compare(kind.expected, left_in(folder))
            shutil.rmtree(folder)
            if not kills:
                return
            finished = {}


def compare(expected: dict[str, Any], found: dict[str, Any]) -> None:
    """Raises UserError: something differs."""
    for what, content in expected.items():
        if found[what] == content:
            continue
        if isinstance(content, dict):
            content, other = ({str(item) for item in it.items()} for it in (content, found[what]))
        else:
            content, other = set(content), set(found[what])
        raise UserError(
            f"{what} are not those of an undisturbed run: there is {sorted(other - content)}, "
            f"and there should be {sorted(content - other)}",
            RUN_FAILED,
        )


def main(words: list[str]) -> int:
    """Exit code 0 if no kill made a difference."""
    given = {"trainings": 100, "sweeps": 50, "parallel": 20, "seed": 0, "at_once": 2}
    for word in words:
        key, _, value = word.partition("=")
        if key not in given or not value.isdecimal():
            raise UserError(f"'{word}' is none of the words of {USAGE}")
        given[key] = int(value)
    shared = [*TRAINING, "training.devices=2", "training.steps=100"]
    kinds = [
        Kind("training", TRAINING, given["trainings"]),
        Kind("sweep", SWEEP, given["sweeps"]),
        Kind("shared-training", shared, given["parallel"]),
    ]
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    print(f"seed {given['seed']}; what is killed lies in {folder}", file=sys.stderr, flush=True)
    with progress() as report:
        kill_all([kind for kind in kinds if kind.kills], folder, given, report)
    shutil.rmtree(folder)
    total = sum(kind.kills for kind in kinds)
    print(f"{total} kills made no difference, and left no process and no file")
    return OK


def kill_all(kinds: list[Kind], folder: Path, given: dict[str, int], report: Report) -> None:
    """All kinds mixed, so that the time left is known early.

    Raises:
        UserError: a kill made a difference; its folder is kept.
    """
    for number, kind in enumerate(kinds):
        report("undisturbed runs", number, len(kinds))
        make_undisturbed(kind, folder / f"{kind.name}-undisturbed")
    report("undisturbed runs", len(kinds), len(kinds))
    draw = random.Random(given["seed"])
    cases = [(kind, kills) for kind in kinds for kills in in_parts(kind.kills, draw)]
    draw.shuffle(cases)
    done, total = 0, sum(kind.kills for kind in kinds)
    report("kills", done, total)
    with ThreadPoolExecutor(max(1, given["at_once"])) as pool:
        futures = {}
        for number, (kind, kills) in enumerate(cases):
            place, own = folder / f"{kind.name}-{number}", random.Random(draw.random())
            futures[pool.submit(kill_until_done, kind, place, own, kills)] = place, kills
        for future in as_completed(futures):
            place, kills = futures[future]
            error = future.exception()
            if error is not None:
                pool.shutdown(wait=False, cancel_futures=True)
                raise UserError(f"in {place}, seed={given['seed']}: {error}", RUN_FAILED) from error
            done += kills
            report("kills", done, total)


def in_parts(kills: int, draw: random.Random) -> Iterator[int]:
    """How often each of several runs is killed: one to three times."""
    while kills:
        part = min(kills, draw.randint(1, 3))
        yield part
        kills -= part


if __name__ == "__main__":
    command(main)
