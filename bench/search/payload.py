"""What travels with a run to a node that shares no file system, and comes back from it."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from bench.config.files import shared_file
from bench.config.groups import choices
from bench.config.settings import Configuration
from bench.config.source_files import modules_beside
from bench.executors.interface import Files
from bench.records.provenance import Origin, adopt, library_versions, origin
from bench.records.schema import read_record
from bench.records.store import Store
from bench.runs.get_or_run import make_data
from bench.runs.serving import LOCATIONS, find, identify, note_locations, track
from bench.search.jobs import Job, execute, served
from core.errors import RUN_FAILED, UserError
from core.files import write_atomically
from core.places import absolute_if_path, is_path
from core.progress import silent

RECORDS = ("records", "trials", "controls")  # folders of a store


@dataclass(frozen=True)
class JobPayload:
    """Weights, checkpoints and records, by their places below the store.

    Attributes:
        origin: the driver's command and commit, which the records of all nodes tell.
        libraries: versions that every node must have, since they are part of a run's identity.
        device: "cpu" or "cuda", of every run.
        sources: name of a file that classes come from -> it and the modules beside it that it
            imports, by their places below its folder.
    """

    origin: Origin
    libraries: Mapping[str, str]
    device: str
    sources: Mapping[str, Files] = field(default_factory=dict)

    @classmethod
    def of_this_process(
        cls, device: str, configurations: Iterable[Configuration] = ()
    ) -> JobPayload:
        """What the driver has."""
        sources = {}
        for configuration in configurations:
            for name, path in configuration.source_files.items():
                files = modules_beside(path).values()
                sources[name] = {str(p.relative_to(path.parent)): p.read_bytes() for p in files}
        return cls(origin(), library_versions(), device, sources)

    def found(self, job: Job) -> Any:
        """The record of a run that the store has."""
        if (record := served(job)) is not None:
            return record
        make_data(job.configuration, silent)
        in_store = find(identify(job.configuration), job.role) is not None
        return execute(job, silent) if in_store else None

    def pack(self, job: Job) -> Files:
        """Weights and checkpoints."""
        root = job.configuration.store
        files = {}
        for folder in _folders(job.configuration):
            for path in sorted(folder.glob("*.*")):
                if path.is_file() and not path.name.startswith("."):
                    files[str(path.relative_to(root))] = path.read_bytes()
        return files

    def data(self, job: Job) -> Mapping[str, str]:
        """Files and folders that the user has named, with the hash of what they hold."""
        default = _defaults(job.configuration)
        digests = {}
        for name, path in _paths(job.configuration):
            if path != absolute_if_path(default.get(name)) and Path(path).exists():
                digests[path] = _digest(Path(path))
        return digests

    def unpack(self, job: Job, folder: Path, places: Mapping[str, Path]) -> Job:
        """The same run with its store in ``folder`` and its text where it lies on this node.

        Raises:
            UserError: the libraries here are others than the driver's.
        """
        if others := dict(library_versions().items() ^ self.libraries.items()):
            names = " and ".join(sorted(others))
            raise UserError(
                f"the node {platform.node()} has another version of {names} than the driver, and a "
                "run's identity names them: install the same environment on every node",
                RUN_FAILED,
            )
        adopt(self.origin)
        configuration = job.configuration
        default = _defaults(configuration)
        paths = {}
        for name, value in _paths(configuration):  # a path of the driver's means nothing here
            default_path = default.get(name)
            paths[name] = str(places[value]) if value in places else absolute_if_path(default_path)
        changes: dict[str, Any] = {
            "store": folder,
            "tracking": "none",
            "committed": False,
            "device": self.device,
            "source_files": self._unpack_sources(configuration, folder.parent),
        }
        changes["tasks"] = {**configuration.tasks, **paths}
        return replace(job, configuration=configuration.model_copy(update=changes))

    def _unpack_sources(self, configuration: Configuration, folder: Path) -> dict[str, Path]:
        """Where the files lie on this node that classes come from: all jobs of a process find them
        in one place, since a module is imported once."""
        places = {}
        for name in configuration.source_files:
            files = self.sources[name]
            digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:32]
            place = (folder / "sources" / digest).resolve()
            for relative, content in files.items():
                if not (place / relative).exists():
                    write_atomically(place / relative, content)
            places[name] = place / name
        return places

    def keep(self, job: Job, files: Files, present: frozenset[str] | None) -> None:
        """Write what came back into the driver's store, records last.

        Raises:
            UserError: the run has another identity than the driver has given it.
        """
        root = job.configuration.store
        for name in sorted(files, key=lambda n: (n.startswith(RECORDS), n)):
            place = PurePosixPath(name)
            plain = place.parts[0] in ("work", *RECORDS) and ".." not in place.parts
            if plain and place.name != LOCATIONS:
                write_atomically(root / place, files[name])
        if present is None:
            return
        for folder in _folders(job.configuration):
            note_locations(job.configuration, folder)
            for path in folder.glob("checkpoint-*.pt"):
                if str(path.relative_to(root)) not in present:
                    path.unlink()
        for name in filter(lambda n: n.startswith(RECORDS), files):
            self._check(job, root / name)

    def _check(self, job: Job, path: Path) -> None:
        record, configuration = read_record(path), job.configuration
        is_this_run = (record.task, record.role) == (configuration.task, job.role)
        if is_this_run and record.identity not in identify(configuration).all:
            raise UserError(
                f"a node has run {record.run_id} on {record.provenance.device_class}, with other "
                "data or other code than the driver: give the sweep a cluster of one kind",
                RUN_FAILED,
            )
        track(record, configuration)


def _defaults(configuration: Configuration) -> Mapping[str, Any]:
    """The file of the task; of one from outside, which a node does not know, nothing."""
    is_known = configuration.task in choices("tasks")
    return shared_file("tasks", configuration.task) if is_known else {}


def _folders(configuration: Configuration) -> Iterator[Path]:
    """Where the run, and the training that it evaluates, keep their weights."""
    store = Store(configuration.store)
    trained = configuration.of_training()
    for run in [configuration] if trained is configuration else [configuration, trained]:
        for run_id in identify(run).run_ids(run.seed, bitwise=True):
            yield store.work(run_id)


def _paths(configuration: Configuration) -> Iterator[tuple[str, str]]:
    """Settings of the task that are paths, and no addresses or numbers."""
    for name in configuration.locations:
        value = configuration.tasks[name]
        if isinstance(value, str) and is_path(value):
            yield name, value


def _digest(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of a folder's files."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    digest = hashlib.sha256(path.name.encode())
    for file in files:
        digest.update(f"\n{file.relative_to(path)}\n".encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:32]
