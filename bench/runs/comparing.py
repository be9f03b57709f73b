"""The same run by older code and by this checkout: made in processes of their own, compared byte by
byte."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.records.equivalence import Code, Compared, Config
from bench.records.privacy import told_word
from bench.records.provenance import sha256_of
from bench.records.schema import RunRecord, read_records
from bench.records.store import Store
from bench.settings.config import load_groups, models_of
from ground.errors import VERIFICATION_FAILED, UserError
from ground.files import ROOT

# What task and model decide of a run's cost; FLOPs and seconds are counted by the engine.
COSTS = ("parameters", "state_bytes", "state_length", "training_tokens", "training_steps")


@dataclass(frozen=True)
class Tree:
    """A checkout: this one, or that of an older commit."""

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
            known |= {
                f"{section}.{key}"
                for section in ("tasks", "models", "training")
                for key in groups[section]
            }
        return known

    def make(self, words: Sequence[str], number: int) -> list[RunRecord]:
        """The records of a sweep that this tree's own code made in processes of its own.

        Raises:
            UserError: it made none.
        """
        store = self.work / f"store-{number}"
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "MEMORY_BENCH_PREPARED": str(self.work / "prepared"),
        }
        command = [sys.executable, "-m", "bench.sweep", *words, f"store={store}"]
        done = subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )
        records = list(read_records([Store(store).records]))
        if not records:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            raise UserError(
                f"{self.name} makes no such run: {said[-1].removeprefix('error: ')} "
                f"(bench.sweep {' '.join(words)})",
                VERIFICATION_FAILED,
            )
        return records

    def weights(self, record: RunRecord, number: int) -> str | None:
        """SHA-256 of the bytes of a run's trained weights; None where it keeps none."""
        path = Store(self.work / f"store-{number}").weights(record.run_id)
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


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


def unpack(commit: str, folder: Path) -> None:
    """The files of a commit; the repository itself is only read."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit))) as archive:
        archive.extractall(folder, filter="data")


@dataclass(frozen=True)
class Pair:
    """The same run by both."""

    old: RunRecord
    new: RunRecord
    old_weights: str | None
    new_weights: str | None
    words: str

    def first_difference(self) -> str | None:
        """In words; None if every byte is the same."""
        sides = [facts(record) for record in (self.old, self.new)]
        sides[0]["weights"], sides[1]["weights"] = self.old_weights, self.new_weights
        for name in ("data", "weights", *(n for n in sides[0] if n not in ("data", "weights"))):
            if found := _difference(name, sides[0][name], sides[1][name]):
                return found
        return None

    def codes(self) -> tuple[Code, Code]:
        """The code of both."""
        old, new = (Code.of(r.config, r.provenance) for r in (self.old, self.new))
        return old, new

    def added(self) -> dict[str, Any]:
        """Settings that the newer run has and the older lacks, with their values.

        Raises:
            UserError: the older one has a setting that is gone, or another value.
        """
        old, new = _flat(self.old.config), _flat(self.new.config)
        for key, value in old.items():
            if new.get(key, _MISSING) != value:
                now = "is gone here" if key not in new else f"is {new[key]!r} here"
                raise UserError(
                    f"the setting {key} is {value!r} in the older code and {now}: a setting that "
                    "went cannot be equal",
                    VERIFICATION_FAILED,
                )
        return {key: value for key, value in new.items() if key not in old}

    def compared(self) -> Compared:
        """What the table says of it."""
        return Compared(
            words=self.words,
            data=self.new.provenance.data,
            weights=self.new_weights,
            results=sha256_of(facts(self.new)),
        )


_MISSING = object()


def _flat(config: Config) -> dict[str, Any]:
    return {
        f"{section}.{key}": value
        for section, values in config.items()
        for key, value in values.items()
        if key != "_target_"
    }


def facts(record: RunRecord) -> dict[str, Any]:
    """All that a run gave, in the order in which a difference is told."""
    content = record.model_dump(mode="json")
    cost = content["cost"]
    names = ("metrics", "per_sequence", "curves", "arrays", "outcome", "cause", "headline")
    return {
        "data": record.provenance.data,
        **{name: content[name] for name in names},
        "cost": {name: cost[name] for name in COSTS},
    }


def _difference(place: str, old: Any, new: Any) -> str | None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(k for k in new if k not in old)]:
            one, other = old.get(key, "missing"), new.get(key, "missing")
            if found := _difference(f"{place}/{key}", one, other):
                return found
        return None
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        items = enumerate(zip(old, new, strict=True))
        return next(filter(None, (_difference(f"{place}[{i}]", *pair) for i, pair in items)), None)
    return None if old == new else f"{place} differs: {old!s:.70} there, {new!s:.70} here"


@dataclass(frozen=True)
class Trees:
    """An older commit and this checkout."""

    older: Tree
    here: Tree

    @classmethod
    def of(cls, commit: str, folder: Path) -> Trees:
        """Unpack a commit into a folder, which also takes what both sides make."""
        unpack(commit, folder / "older")
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
        with ThreadPoolExecutor(2) as both:
            made = [both.submit(tree.make, words, number) for tree in (self.older, self.here)]
        old, new = ({(r.role, r.model, r.seed): r for r in m.result()} for m in made)
        if lone := sorted({*old} ^ {*new}):
            where = f"by {self.older.name} alone" if lone[0] in old else "here alone"
            raise UserError(f"{lone[0][1]} ({lone[0][0]}) is made {where}", VERIFICATION_FAILED)
        return [
            Pair(
                old[key],
                new[key],
                self.older.weights(old[key], number),
                self.here.weights(new[key], number),
                " ".join(map(told_word, words)),
            )
            for key in sorted(old)
        ]
