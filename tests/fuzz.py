"""``python -m tests.fuzz``: as many hostile files and command lines as time allows.

Damaged and forged records, verdicts, published numbers, boards, journals, checkpoints, weights and
other files, and words of every command. Whatever they hold, the answer is a result or a sentence:
no traceback, no silence of 20 s, nothing written outside the store, nothing imported from outside
of this checkout and its libraries, no socket. The first failure ends it with the example and exit
code 1. The suite tries a few (``test_fuzz.py``).
"""

import faulthandler
import hashlib
import io
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from bench import evaluate, generate, prompts, train
from bench.records.schema import json_of
from bench.writing.side_by_side import read_prompts
from core.errors import OK, RUN_FAILED, UserError, command
from core.files import ROOT, fixed_working_directory, write_sealed
from core.processes import module_command
from core.progress import progress
from leaderboards import add, contents
from leaderboards.checks.admission import read_checked
from leaderboards.markdown import pages
from leaderboards.tables.builder import build_board
from leaderboards.tables.verdicts import read_verdicts
from reproduce.published.numbers import read_published
from tasks.text.recipe import __main__ as recipe
from tests.bench.runs.test_runs import words as training
from tests.bench.search.test_study import open_study, run_all
from tests.committed import committed_paths, copied
from tests.core.test_reading import (
    HOSTILE_JSON,
    HOSTILE_YAML,
    JSON_READERS,
    PUBLISHED_TEXT,
    RECORD_TREE,
    VERDICT,
    mutated,
    sealed,
)
from tests.hostile_words import DOORS, Door, Draw, words_of
from tests.leaderboards.boards import listed_again, to_parquet, write_board
from tests.leaderboards.conftest import record
from tests.leaderboards.forging.changes import identify
from tests.watching import LONGEST, watch_door

USAGE = "python -m tests.fuzz [minutes=10 seed=0]"
MEMORY = 6 * 2**30  # more than this process has: what asks for more is told so
AT_ONCE = 10  # examples of a target before the next has its turn
HOSTILE = [*HOSTILE_JSON.values(), *HOSTILE_YAML.values()]


class Found(AssertionError):
    """An example that is answered in no way that is allowed."""


class Material:
    """A folder with a store of a finished training, a journal and an evil module beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "store"
        folder.mkdir(exist_ok=True)
        (folder / "evil_module.py").write_text("raise SystemExit('an evil module was imported')")
        steps = ["training.steps=4", "training.checkpoint_every=2"]
        self.training = training(Path("store"), *steps)
        with inside(folder), redirect_stdout(io.StringIO()):
            train.main(self.training)
        run_all(open_study(self.store / "studies"))
        self.files = sorted(p for p in self.store.rglob("*.*") if p.suffix != ".lock")
        committed = committed_paths("*/*/*-s0")
        # Of each task the smallest: large ones take long to write, and show nothing more.
        by_task = {
            p.parent.parent.name: p for p in sorted(committed, key=lambda p: -len(json_of(p)))
        }
        self.records = sorted(copied(by_task.values(), folder / "committed"))
        # Of a measurement there are no weights: to evaluate it is to measure it again.
        self.slow = {path for path in self.records if seconds_of(path) > LONGEST / 4}

    @contextmanager
    def copy(self) -> Iterator[Path]:
        """A folder that may be spoiled; it stays where something is found."""
        place = Path(tempfile.mkdtemp(prefix="case-", dir=self.folder))
        shutil.copytree(self.store, place / "store")
        with inside(place):
            yield place
        shutil.rmtree(place)


def seconds_of(record: Path) -> float:
    """What its measurement takes when it is made again; 0 for a training, which has weights."""
    content = json.loads(record.read_bytes())
    is_training = content["weights_sha256"] is not None
    return 0.0 if is_training else float(content["cost"]["wall_seconds"])


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        with fixed_working_directory():
            yield
    finally:
        os.chdir(before)


def check(what: str, door: Door, words: list[str], folder: Path) -> None:
    """Raises Found: the door does what it must not."""
    if wrong := watch_door(lambda given: (door(given) and 0) or 0, words, folder):
        raise Found(f"{what}, in {folder}: {wrong}")


def damaged(data: Draw, content: bytes) -> bytes:
    """Bytes changed, cut, doubled or replaced in a few places."""
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, max(0, len(content) - 1)))
        kind = data.draw(st.sampled_from(["flip", "cut", "lose", "double", "insert", "replace"]))
        end = place + data.draw(st.sampled_from([1, 8, 100]))
        if kind == "flip" and content:
            bit = bytes([content[place] ^ 1 << data.draw(st.integers(0, 7))])
            content = content[:place] + bit + content[place + 1 :]
        elif kind == "insert":
            content = content[:place] + data.draw(st.binary(max_size=9)) + content[place:]
        elif kind == "replace":
            content = data.draw(st.sampled_from([*HOSTILE, b"\0" * 4096]))
        else:
            middle = {"cut": b"", "lose": content[end:], "double": content[place:]}.get(kind, b"")
            content = content[: end if kind == "double" else place] + middle
    return content


def put(data: Draw, path: Path, content: bytes) -> None:
    """Write it there; seldom something that is no regular file."""
    path.unlink(missing_ok=True)
    kind = data.draw(st.sampled_from(["file"] * 12 + ["pipe", "device", "folder"]))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(content)


def fuzz_records(data: Draw, material: Material) -> None:
    """Committed records and one of a made-up run, damaged, or forged and sealed again."""
    with material.copy() as here:
        source = data.draw(st.sampled_from([None, *material.records]))
        tree = RECORD_TREE if source is None else json.loads(source.read_bytes())
        tree = {k: v for k, v in tree.items() if k != "content_sha256"}
        for _ in range(data.draw(st.integers(1, 3))):
            tree = mutated(tree, data)
        try:
            identify(tree)  # as a careful forger does
            head = "-".join(str(tree[k]) for k in ("task", "model", "preset"))
            tree["run_id"] = f"{head}-{tree['identity'][:12]}-s{tree['seed']}"
        except Exception:
            pass  # what is left has no identity
        content = sealed(tree)
        if data.draw(st.booleans()):
            content = damaged(data, content)
        name = str(tree.get("run_id", "x")).replace("/", "_").replace("\0", "_")[:200]
        path = here / "records" / f"{name.encode(errors='replace').decode()}.json"
        path.parent.mkdir()
        put(data, path, content)
        what, given = f"record {path.name}", f"run={path}"
        check(what, add.main, [str(path), "to=to"], here)
        check(what, lambda _: pages(build_board(read_checked([path.parent], []))), [], here)
        if source not in material.slow:
            check(what, evaluate.main, [given], here)
        check(what, generate.main, [given, "prompt=x"], here)
        check(what, prompts.main, [f"runs=[{path}]"], here)


def fuzz_readers(data: Draw, material: Material) -> None:
    """Verdicts, published numbers, boards, figures, proofs, prompts."""
    kinds = ["published", "prompts", "board", "damaged board", *JSON_READERS]
    with material.copy() as here:
        kind = data.draw(st.sampled_from(kinds))
        path = here / ("x.yaml" if kind in ("published", "prompts") else "x.json")
        forged = data.draw(st.booleans())
        if kind == "published":
            content = PUBLISHED_TEXT.encode()
            if forged:
                content = yaml.safe_dump(mutated(yaml.safe_load(content), data)).encode()
        elif kind == "prompts":
            tree = {"a": ["x", {"prompt": "y"}], "b": ["z"]}
            content = yaml.safe_dump(mutated(tree, data) if forged else tree).encode()
        elif "board" in kind:
            path, folder = here / "x.board", here / "x.board"
            write_board(build_board([record()]), folder)
            file = data.draw(st.sampled_from(sorted(p for p in folder.rglob("*.*") if p.is_file())))
            content = file.read_bytes()
        else:
            content = json.dumps(mutated(VERDICT, data) if forged else VERDICT).encode()
        if not forged or "board" in kind:
            content = damaged(data, content)
        put(data, file if "board" in kind else path, content)
        if kind == "board" and forged and file.suffix == ".parquet":
            listed_again(path)  # as a forger does
        check(f"{kind} {path}", lambda _: use(kind, path), [], here)


def use(kind: str, path: Path) -> None:
    """What the commands do with a file of this kind."""
    if kind == "published":
        to_parquet(build_board([], read_published(path.parent)))
    elif kind == "prompts":
        read_prompts(path)
    elif "board" in kind:
        contents.read_board(path)
    elif kind == "verdicts":
        to_parquet(build_board([], [], read_verdicts([path])))
    else:
        JSON_READERS[kind](path)


def fuzz_stores(data: Draw, material: Material) -> None:
    """What lies in a store: record, weights, summary of a training, checkpoint, journal."""
    with material.copy() as here:
        (own,) = here.glob("store/records/*.json")
        work = here / "store" / "work" / own.stem
        if data.draw(st.booleans()):
            own.unlink()  # then the rest is read
        names = ["trained.json", "weights.safetensors", "checkpoint-0.pt", "diverged.json"]
        path = work / data.draw(st.sampled_from([*names, "locations.json", "studies"]))
        if path.name == "studies":
            path = here / "store" / "studies" / "journal.log"
            put(data, path, damaged(data, path.read_bytes()))
            check(f"journal {path}", lambda _: run_all(open_study(path.parent)), [], here)
            return
        summary = (work / "trained.json").read_bytes().splitlines()[0]
        content = path.read_bytes() if path.exists() else summary
        if path.name in ("checkpoint-0.pt", "diverged.json"):
            (work / "trained.json").unlink()
        if data.draw(st.booleans()) and path.suffix == ".json":
            content = json.dumps(mutated(json.loads(summary), data)).encode()
        else:
            content = damaged(data, content)
        put(data, path, content)
        regular = path.is_file() and not path.is_symlink()
        if path.suffix != ".safetensors" and regular and data.draw(st.booleans()):
            write_sealed(path, content)
        if path.suffix == ".safetensors" and regular and data.draw(st.booleans()):
            told = {**json.loads(summary), "weights_sha256": hashlib.sha256(content).hexdigest()}
            write_sealed(work / "trained.json", json.dumps(told).encode())
        check(f"training with {path}", train.main, material.training, here)
        if own.exists():
            check(
                f"evaluation with {path}", evaluate.main, [f"run={own.stem}", "store=store"], here
            )


def fuzz_words(data: Draw, material: Material) -> None:
    """Words of every command, in this process."""
    name = data.draw(st.sampled_from(sorted(DOORS)))
    door, own, last = DOORS[name]
    words = words_of(data, own, last)
    if door is recipe.main:  # shows words as they are
        words = [word for word in words if word.isprintable()]
    with material.copy() as here:
        if wrong := watch_door(door, words, here):
            raise Found(f"python -m {name} with {words!r}, in {here}: {wrong}")


def fuzz_processes(data: Draw, material: Material) -> None:
    """Words of every command as a user gives them, in a process of its own."""
    name = data.draw(st.sampled_from(sorted(DOORS)))
    _, own, last = DOORS[name]
    words = words_of(data, own, last)
    with material.copy() as here:
        line = module_command("tests.watching", [str(here), name, *words], here)
        end = time.monotonic() + LONGEST
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        with (here / "said").open("w+b") as said:
            process = subprocess.Popen(line, cwd=here, env=environment, stdout=said, stderr=said)
            try:
                code = process.wait(end - time.monotonic())
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                code = -1
            said.seek(0)
            text = said.read().decode(errors="replace")
        silent = code == -1 and not text
        if silent or "Traceback (most" in text or code not in (-1, 0, 1, 2, 3, 4):
            raise Found(f"python -m {name} with {words!r}, in {here}: code {code}, {text[-3000:]}")


TARGETS = [fuzz_records, fuzz_readers, fuzz_stores, fuzz_words]


def run_examples(
    target: Callable[[Draw, Material], None], material: Material, count: int, own_seed: int
) -> None:
    """Try ``count`` examples; the same ones for the same seed.

    Raises:
        Found: one of them is answered in no way that is allowed.
    """
    # The first example is the finding: making it smaller would take as long as a hang, often.
    options = settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @seed(own_seed)
    @options
    @given(data=st.data())
    def attempt(data: Draw) -> None:
        target(data, material)

    attempt()


def main(words: list[str]) -> int:
    """Exit code 0 if time ends it."""
    chosen = {"minutes": 10.0, "seed": 0}
    for word in words:
        key, _, value = word.partition("=")
        if key not in chosen or not value.replace(".", "", 1).isdecimal():
            raise UserError(f"'{word}' is none of the words of {USAGE}")
        chosen[key] = float(value) if key == "minutes" else int(value)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    draw, tried, total = random.Random(chosen["seed"]), 0, round(60 * chosen["minutes"])
    print(f"seed {chosen['seed']}; what is tried lies in {folder}", file=sys.stderr, flush=True)
    material, begun = Material(folder / "material"), time.monotonic()
    with progress() as report:
        while (passed := time.monotonic() - begun) < total:
            for target in (*TARGETS, fuzz_processes):
                report(f"seconds of fuzzing: {tried} examples", round(passed), total)
                count = AT_ONCE if target in TARGETS else 1
                # What hangs in a library cannot be interrupted: then this process ends.
                faulthandler.dump_traceback_later(AT_ONCE * 60, exit=True, file=sys.__stderr__)
                try:
                    run_examples(target, material, count, draw.randrange(2**32))
                except Found as found:
                    raise UserError(f"seed={chosen['seed']}: {found}", RUN_FAILED) from None
                faulthandler.cancel_dump_traceback_later()
                tried += count
    shutil.rmtree(folder)
    print(f"{tried} examples: a result or a sentence for each")
    return OK


if __name__ == "__main__":
    command(main)
