"""The same run by older code and by this checkout: made in processes of their own, compared byte by
byte."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.records.equivalence import Code, Compared, flat
from bench.records.provenance import sha256_of, without_place
from bench.records.schema import Role, RunRecord, read_records
from bench.records.store import Store
from bench.settings.config import group_file, load_groups, models_of
from ground.errors import VERIFICATION_FAILED, UserError
from ground.files import ROOT

# What task and model decide of a run's cost; FLOPs and seconds are counted by the engine.
COSTS = ("parameters", "state_bytes", "state_length", "training_tokens", "training_steps")
# What a run gave beside its data, weights and costs, in the order in which a difference is told.
RESULTS = ("metrics", "per_sequence", "curves", "arrays", "outcome", "cause", "headline")


@dataclass(frozen=True)
class Made:
    """A run, with the SHA-256 of the bytes of its trained weights; None where it keeps none."""

    record: RunRecord
    weights: str | None

    def facts(self) -> dict[str, Any]:
        """All that the run gave but its weights."""
        content = self.record.model_dump(mode="json")
        facts = {"data": self.record.provenance.data, **{name: content[name] for name in RESULTS}}
        return {**facts, "cost": {name: content["cost"][name] for name in COSTS}}

    def settings(self) -> dict[str, Any]:
        """Each setting by "section.key"."""
        settings = flat(self.record.config).items()
        return {key: value for key, value in settings if not key.endswith("._target_")}


@dataclass(frozen=True)
class Tree:
    """A checkout: this one, or that of an older commit; what it makes goes to ``work``."""

    root: Path
    work: Path
    name: str

    def settings(self, task: str, models: Iterable[str]) -> set[str]:
        """The settings that the tree's YAML files have for a task and some of its models."""
        group = models_of(task)
        known: set[str] = set()
        for model in models:
            try:
                groups = load_groups({"tasks": task, "models": model}, group, self.root)
            except UserError:
                raise UserError(
                    f"{self.name} has no task '{task}' with a model '{model}' to compare with",
                    VERIFICATION_FAILED,
                ) from None
            known |= flat({name: groups[name] for name in ("tasks", "models", "training")}).keys()
        return known

    def make(self, words: Sequence[str], number: int) -> dict[tuple[Role, str, int], Made]:
        """What a sweep by this tree's own code makes in processes of its own: by role, model and
        seed.

        Raises:
            UserError: it made nothing.
        """
        store = Store(self.work / f"store-{number}")
        own = {"PYTHONPATH": str(self.root), "MEMORY_BENCH_PREPARED": str(self.work / "prepared")}
        done = subprocess.run(
            [sys.executable, "-m", "bench.sweep", *words, f"store={store.root}"],
            cwd=self.root,
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            check=False,
        )
        made = {}
        for record in read_records([store.records]):
            path = store.weights(record.run_id)
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
            made[record.role, record.model, record.seed] = Made(record, sha256)
        if not made:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            raise UserError(
                f"{self.name} makes no such run: {said[-1].removeprefix('error: ')} "
                f"(bench.sweep {' '.join(words)})",
                VERIFICATION_FAILED,
            )
        return made


def full_name(commit: str) -> str:
    """The hash of a commit in the history of what is checked out.

    Raises:
        UserError: there is none of that name.
    """
    try:
        name = _git("rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}")
        full = name.decode().strip()
        _git("merge-base", "--is-ancestor", full, "HEAD")
    except (OSError, subprocess.CalledProcessError):
        raise UserError(
            f"the commit {commit} is not in the history of this checkout: give commit=… as git log "
            "shows it; a shallow clone gets the rest by git fetch --unshallow"
        ) from None
    return full


def _git(*words: str) -> bytes:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, check=True).stdout


@dataclass(frozen=True)
class Pair:
    """The same run by both."""

    old: Made
    new: Made
    words: str

    def first_difference(self) -> str | None:
        """In words; None if every byte is the same, and every setting of the older one is there."""
        sides = ({"data": {}, "weights": m.weights, **m.facts()} for m in (self.old, self.new))
        return next(_differences("", *sides), None) or self._gone()

    def _gone(self) -> str | None:
        new = self.new.settings()
        for key, value in self.old.settings().items():
            if key not in new or new[key] != value:
                now = f"is {new[key]!r} here" if key in new else "is gone here"
                return (
                    f"the setting {key} is {value!r} in the older code and {now}: a setting that "
                    "went cannot be equal"
                )
        return None

    def codes(self) -> tuple[Code, Code]:
        """The code of both."""
        old, new = (Code.of(m.record.config, m.record.provenance) for m in (self.old, self.new))
        return old, new

    def added(self) -> dict[str, Any]:
        """Settings that the newer run has and the older lacks, with their values."""
        old = self.old.settings()
        return {key: value for key, value in self.new.settings().items() if key not in old}

    def compared(self) -> Compared:
        """What the table says of it."""
        return Compared(
            words=self.words,
            data=self.new.record.provenance.data,
            weights=self.new.weights,
            results=sha256_of(self.new.facts()),
        )


def _differences(place: str, old: Any, new: Any) -> Iterator[str]:
    """In words, first to last."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(k for k in new if k not in old)]:
            inner = f"{place}/{key}" if place else str(key)
            yield from _differences(inner, old.get(key, "missing"), new.get(key, "missing"))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(f"{place}[{i}]", *pair)
    elif old != new:
        yield f"{place} differs: {old!s:.70} there, {new!s:.70} here"


@dataclass(frozen=True)
class Trees:
    """An older commit and this checkout."""

    older: Tree
    here: Tree

    @classmethod
    def of(cls, commit: str, folder: Path) -> Trees:
        """Unpack a commit into a folder, which also takes what both sides make; the repository
        itself is only read."""
        files = io.BytesIO(_git("archive", "--format=tar", commit))
        with tarfile.open(fileobj=files) as archive:
            archive.extractall(folder / "older", filter="data")
        older = Tree(folder / "older", folder / "made-there", commit[:8])
        return cls(older, Tree(ROOT, folder / "made-here", "this checkout"))

    def settings(self, task: str, models: Sequence[str]) -> set[str]:
        """The settings that both have."""
        return self.older.settings(task, models) & self.here.settings(task, models)

    def make(self, task: str, words: Sequence[str], number: int) -> list[Pair]:
        """What both make of the same command line, at the same time.

        Raises:
            UserError: one of them makes nothing, or not the same runs.
        """
        places = group_file("tasks", task).get("locations", ())
        said = " ".join(without_place(one, places) for one in words)
        with ThreadPoolExecutor(2) as both:
            made = [both.submit(tree.make, words, number) for tree in (self.older, self.here)]
        old, new = (one.result() for one in made)
        if lone := sorted({*old} ^ {*new}):
            where = f"by {self.older.name} alone" if lone[0] in old else "here alone"
            raise UserError(f"{lone[0][1]} ({lone[0][0]}) is made {where}", VERIFICATION_FAILED)
        return [Pair(old[key], new[key], said) for key in sorted(old)]
