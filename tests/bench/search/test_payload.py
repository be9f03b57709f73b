"""What travels with a run: nothing of the driver's machine but what the run needs."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.config.settings import RaySettings
from bench.executors.cluster import Cluster
from bench.executors.ray_worker import CheckpointActor, WatchedFolder, as_tar
from bench.records import provenance
from bench.records.provenance import Origin
from bench.records.schema import read_record
from bench.runs.serving import identify
from bench.search.jobs import Job, execute
from bench.search.payload import JobPayload
from core.errors import UserError
from core.progress import silent
from tests.configurations import compose

RUN = [
    "tasks=three_moons",
    "tasks.length=130",
    "tasks.sequences=2",
    "tasks.contexts_every=16",
    "models=lstm",
    "models.width=8",
    "models.layers=1",
    "training.steps=3",
    "training.batch_size=2",
    "training.restarts=1",
    "device=cpu",
]


@pytest.fixture
def payload(monkeypatch: pytest.MonkeyPatch) -> JobPayload:
    monkeypatch.setattr(provenance, "_adopted", [])
    of_driver = Origin("python -m bench.sweep tasks=three_moons", "0123", False)
    return replace(JobPayload.of_this_process("cpu"), origin=of_driver)


def test_a_run_made_on_a_node_is_the_driver_s_with_its_weights(
    tmp_path: Path, payload: JobPayload
) -> None:
    here, node = tmp_path / "driver", WatchedFolder(tmp_path / "node")
    node.path.mkdir()
    job = Job("trial 0", compose([*RUN, f"store={here}"]), "trial")
    run_id = identify(job.configuration).run_id(0)
    assert payload.found(job) is None
    assert payload.pack(job) == {}

    there = payload.unpack(job, node.path, {})
    assert there.configuration.store == node.path
    record = execute(there, silent)
    files = node.changed()
    assert set(files) == {f"trials/{run_id}.json"} | {
        f"work/{run_id}/{name}" for name in ("weights.safetensors", "trained.json")
    }
    assert node.changed() == {}
    half = here / "work" / run_id / "checkpoint-0.pt"
    payload.keep(job, {f"work/{run_id}/checkpoint-0.pt": b"half"}, None)
    assert payload.pack(job) == {f"work/{run_id}/checkpoint-0.pt": half.read_bytes()}
    payload.keep(job, files, frozenset(node.names()))
    assert not half.exists()
    assert read_record(here / "trials" / f"{run_id}.json") == record
    assert record.provenance.command == payload.origin.command
    assert (record.provenance.commit, record.provenance.dirty) == ("0123", False)
    assert payload.found(job) == record
    # The final run with this setting finds the weights of the trial, and sends them along.
    final = payload.pack(replace(job, role="final"))
    assert f"work/{run_id}/weights.safetensors" in final
    payload.keep(job, {"../outside": b"", "elsewhere/a": b"", "work/../../b": b""}, None)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["driver", "node"]
    assert not (here / "elsewhere").exists()


def test_text_of_the_user_s_travels_by_its_content_and_other_places_do_not(
    tmp_path: Path, payload: JobPayload, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "stories.txt"
    text.write_text("Once.")
    monkeypatch.setenv("MEMORY_BENCH_PREPARED", str(tmp_path / "prepared"))
    words = ["tasks=babistories", "models=lstm", "tasks.corpus=local", f"tasks.stories={text}"]
    job = Job("seed 0", compose([*words, f"store={tmp_path}"]), "single")
    ((path, digest),) = payload.data(job).items()
    assert path == str(text)
    text.write_text("Twice.")
    assert payload.data(job)[path] != digest
    assert b"Twice." in as_tar(text)
    there = payload.unpack(job, tmp_path, {path: Path("/node/data/stories.txt")}).configuration
    assert there.tasks["stories"] == "/node/data/stories.txt"
    assert there.resolved() == job.configuration.resolved()
    assert (there.device, there.tracking, there.committed) == ("cpu", "none", False)


def test_a_node_with_other_libraries_is_refused(tmp_path: Path, payload: JobPayload) -> None:
    other = replace(payload, libraries={**payload.libraries, "torch": "1.0"})
    job = Job("seed 0", compose([*RUN, f"store={tmp_path}"]), "single")
    with pytest.raises(UserError, match="another version of torch than the driver"):
        other.unpack(job, tmp_path, {})


def test_the_keeper_tells_what_is_new_and_keeps_the_latest() -> None:
    actor = CheckpointActor()
    actor.keep(3, {"a": b"1", "b": b"1"})
    actor.hear(3, "training", 1, 2)
    assert actor.news() == ([("training", 1, 2)], {3: {"a": b"1", "b": b"1"}})
    actor.keep(3, {"a": b"2"})
    assert actor.news() == ([], {3: {"a": b"2"}})
    assert actor.latest(3) == {"a": b"2", "b": b"1"}
    actor.forget(3)
    assert actor.latest(3) == {}


def test_without_ray_a_sentence_says_how_to_install_it(
    payload: JobPayload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    settings = RaySettings(address=None, num_cpus=1, num_gpus=0, checkpoint_every=60)
    with pytest.raises(UserError, match="executor=ray needs Ray, which is not installed"):
        Cluster(execute, payload, settings).__enter__()
