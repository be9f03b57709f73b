"""What a stranger's record asks for: nothing of it is imported, contacted, read or created."""

import hashlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save

from bench import evaluate, generate, prompts
from bench.records.schema import write_record
from bench.records.store import Store
from bench.runs.making import only_one
from bench.runs.saved import load_run
from bench.search.driver import _only_driver
from bench.training.building import task_or_measurement
from core.errors import UserError
from tests.bench.records import make_record
from tests.configurations import compose
from tests.conftest import Command

LOOP = compose(["tasks=memory_in_the_loop", "models=kernel"]).resolved()
REGBENCH = compose(["tasks=regbench", "models=gpt2"]).resolved()
STORIES = compose(["tasks=babistories", "models=gpt2"]).resolved()
MODULE = """
import pathlib, torch
pathlib.Path(__file__).with_name("ran").touch()
class M(torch.nn.Module):
    def __init__(self, specification, size=1):
        super().__init__()
"""


@dataclass
class Stranger:
    """A stranger's folder, and a server of his that notes every request."""

    folder: Path
    address: str
    asked: list[str | None] = field(default_factory=list)

    def record(self, task: str, model: str, config: dict[str, Any], **changes: Any) -> Path:
        """A record in a store of his, with weights that are those it names."""
        metrics = {"validation": {"accuracy": 1.0}, "test": {"accuracy": 1.0}}
        fields = {"task": task, "model": model, "config": config, "metrics": metrics, **changes}
        record = make_record(**fields)
        return write_record(record, self.folder / "records")

    def files(self) -> set[Path]:
        """What lies in and beside his folder."""
        return {path for path in self.folder.parent.rglob("*") if path.is_file()}


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stranger]:
    asked: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.headers.get("Authorization"))
            self.send_response(401)
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("MEMORY_BENCH_ENDPOINT_KEY", "sk-secret")
        folder = tmp_path / "stranger"
        (folder / "records").mkdir(parents=True)
        (folder / "evil_module.py").write_text(MODULE)
        (tmp_path / "private.txt").write_text("A private line.\n" * 400)
        monkeypatch.chdir(folder)
        yield Stranger(folder, f"http://127.0.0.1:{server.server_port}/v1", asked)
        server.shutdown()


def attacks(stranger: Stranger) -> dict[str, tuple[Path, str]]:
    """What he tries: the record, and a part of the sentence that refuses it."""
    asking = {
        "answerer": "endpoint",
        "endpoint_model": "m",
        "retries": 0,
        "patience": 1,
        "answers": str(stranger.folder / "created"),
        "endpoint": stranger.address,
    }
    asks = {**LOOP, "tasks": {**LOOP["tasks"], **asking}}
    private = {"corpus": "local", "stories": str(stranger.folder.parent / "private.txt")}
    prepared = str(stranger.folder / "prepared")
    trained = {"weights_sha256": "0" * 64}

    def stories(seed: int, **changes: Any) -> Path:
        config = {**STORIES, "tasks": {**STORIES["tasks"], **changes}}
        return stranger.record("babistories", "gpt2", config, seed=seed, **trained)

    def regbench(seed: int, section: str, model: str = "gpt2", **changes: Any) -> Path:
        config = {**REGBENCH, section: {**REGBENCH[section], **changes}}
        return stranger.record("regbench", model, config, seed=seed, **trained)

    evil = "evil_module.M"
    unproven = {**REGBENCH, "models": {"_target_": evil}}
    return {
        "the class of another task": (
            stranger.record("test_time_memory", "kernel", asks),
            "config.tasks._target_ is 'tasks.memory_in_the_loop.MemoryInTheLoop', not tasks.test",
        ),
        "a server": (
            stranger.record("memory_in_the_loop", "kernel", asks),
            r"names a place, tasks\.(endpoint|answers), .*command line",
        ),
        "a task that has no such place": (
            stranger.record("memory_in_the_loop", "kernel", asks, seed=3, preset="galactic"),
            "preset 'galactic' is none of",
        ),
        "an unknown task": (
            stranger.record("evil_task", "kernel", asks, **trained),
            "task 'evil_task' is unknown",
        ),
        "a file of ours": (stories(0, **private), r"names a place, tasks\.stories"),
        "a folder": (stories(1, prepared=prepared), r"names a place, tasks\.prepared"),
        "text of ours without its place": (stories(2, corpus="local"), "weights .* are missing"),
        "a module beside the record": (
            stranger.record("regbench", "M", unproven, **trained),
            r"model 'M' is unknown.*'evil_module'.*trust=PACKAGE",
        ),
        "such a module under our name": (
            regbench(0, "models", _target_=evil),
            r"config\.models\._target_ is 'evil_module\.M', not models\.gpt2",
        ),
        "such a module as a task": (
            regbench(1, "tasks", _target_=evil),
            r"config\.tasks\._target_ is 'evil_module\.M'",
        ),
        "a class of ours that is no model of the group": (
            regbench(2, "models", "Memory", _target_="tasks.regbench.RegBench"),
            "model 'Memory' is unknown",
        ),
        "a setting that is none": (regbench(3, "models", hook="x"), r"models\.'hook' that this"),
        "a value of another kind": (regbench(4, "models", width="x" * 9), "models.width is"),
    }


def test_nothing_happens_because_a_record_says_so(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = attacks(stranger)
    before, modules = stranger.files(), set(sys.modules)
    for name, (path, sentence) in tried.items():
        with pytest.raises(UserError, match=sentence) as refusal:
            evaluate.main([f"run={path}"])
        assert "\n" not in str(refusal.value), name
        for door in (
            lambda run: generate.main([f"run={run}", "prompt=Once"]),
            lambda run: prompts.main([f"runs=[{run}]"]),
            lambda run: evaluate.main([f"run={run}", "tasks=wikipedia"]),
        ):
            with pytest.raises(UserError):
                door(path)
    assert stranger.asked == []
    assert stranger.files() == before
    assert "evil_module" not in set(sys.modules) - modules


def test_the_note_of_a_store_is_not_believed(stranger: Stranger) -> None:
    # The whole store is a stranger's: his note says where the server is, the file and the folder.
    config = {**LOOP, "tasks": {**LOOP["tasks"], "answerer": "endpoint", "endpoint_model": "m"}}
    config["tasks"] = {k: v for k, v in config["tasks"].items() if k not in ("endpoint", "answers")}
    asks = stranger.record("memory_in_the_loop", "kernel", config)
    work = stranger.folder / "work" / asks.stem
    work.mkdir(parents=True)
    answers = str(stranger.folder / "created")
    (work / "locations.json").write_text(
        json.dumps({"endpoint": stranger.address, "answers": answers, "workers": 1})
    )
    before = stranger.files()
    for run in (f"run={asks}", f"run={asks.stem}"):
        with pytest.raises(UserError, match=r"for you to say.*'?tasks\.endpoint=…") as refusal:
            evaluate.main([run, f"store={stranger.folder}"])
        assert stranger.address not in str(refusal.value)
    assert (stranger.asked, stranger.files()) == ([], before)


def test_a_lock_in_a_stranger_s_store_leads_nowhere(stranger: Stranger) -> None:
    private = stranger.folder.parent / "private.txt"
    before = private.read_bytes()
    for folder, name, locked in (
        ("work/a", "lock", only_one),
        ("studies", "driver.lock", lambda _: _only_driver(Store(stranger.folder))),
    ):
        place = stranger.folder / folder
        place.mkdir(parents=True)
        (place / name).symlink_to(private)
        with pytest.raises(OSError, match="symbolic links"), locked(place):
            pass
    assert private.read_bytes() == before


def test_a_place_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for text in (tmp_path / "pipe", Path("/dev/zero")):
        words = ["tasks=bigram", "models=gpt2", "tasks.source=text", f"tasks.text={text}"]
        with pytest.raises(UserError, match=r"tasks\.text=.* is not a regular file"):
            task_or_measurement(compose(words))


def weights_of(path: Path, content: bytes = b"") -> None:
    weights = path.parent.parent / "work" / path.stem / "weights.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(content)


def test_a_model_of_another_package_runs_only_when_it_is_named(stranger: Stranger) -> None:
    content = save({})
    config = {**REGBENCH, "models": {"_target_": "evil_module.M", "size": 2}}
    digest = hashlib.sha256(content).hexdigest()
    path = stranger.record("regbench", "M", config, weights_sha256=digest)
    weights_of(path, content)
    for trust in (None, "evil", "torch"):
        with pytest.raises(UserError, match="trust=PACKAGE"):
            load_run(str(path), stranger.folder, trust=trust)
    assert not (stranger.folder / "ran").exists()
    found = load_run(str(path), stranger.folder, trust="evil_module")
    assert type(found.model).__name__ == "M"
    assert (stranger.folder / "ran").exists()
    assert sys.path[-1] == str(stranger.folder)  # where it stands in for no other package
    sys.modules.pop("evil_module")
    sys.path[:] = [entry for entry in sys.path if entry != str(stranger.folder)]


@pytest.mark.parametrize(
    ("section", "size", "sentence"),
    [
        ("models", {"layers": 1001}, "layers are at most"),
        ("models", {"width": 10**6}, r"GiB of weights, but there are .* GiB of memory"),
        ("tasks", {"test_size": 10**11}, "counts are at most"),
    ],
    ids=["deep", "wide", "long"],
)
def test_a_record_s_sizes_take_no_more_memory_than_there_is(
    section: str, size: dict[str, int], sentence: str, stranger: Stranger
) -> None:
    content = save({})
    config = {**REGBENCH, section: {**REGBENCH[section], **size}}
    config["tasks"] = {**config["tasks"], "training_automata": 9, "validation_size": 9}
    digest = hashlib.sha256(content).hexdigest()
    path = stranger.record("regbench", "gpt2", config, weights_sha256=digest)
    weights_of(path, content)
    with pytest.raises(UserError, match=sentence):
        load_run(str(path), stranger.folder)


def test_a_file_beside_the_record_stands_in_for_no_library(
    stranger: Stranger, run_command: Command
) -> None:
    for library in ("pydantic", "omegaconf", "torch"):
        (stranger.folder / f"{library}.py").write_text("open('shadow', 'w')\nraise SystemExit\n")
    path = stranger.record("evil_task", "gpt2", REGBENCH)
    done = run_command("-m", "leaderboards.add", str(path), "to=board", cwd=stranger.folder)
    assert done.returncode != 0
    assert done.stderr.startswith("error: ")
    assert "evil_task" in done.stderr
    assert not (stranger.folder / "shadow").exists()
