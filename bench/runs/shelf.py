"""The records at hand, found by configuration. No data is made for it and no PyTorch imported.

A run's identity holds the hashes of its data, and making data is what a plan must not wait for. The
data are a function of the task's settings, so those of any record with equal settings are taken.
Text of one's own is the exception: it is known by its hash alone, and a record on any such text
counts until the engine, which reads the text, says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from bench.config.settings import Configuration
from bench.records import provenance
from bench.records.code import code_hash
from bench.records.equivalence import Name, settled_name
from bench.records.identity import identity_of, one_of_each
from bench.records.provenance import version
from bench.records.schema import FINISHED, Provenance, RunRecord, read_records
from bench.records.store import COMMITTED, Store


class Shelf:
    """Records of one preset: the committed ones, or those below some folders, and a store's.

    Attributes:
        committed, local: under their settled names, without trials; of one run one record.
        every: both, and those of other presets, whose speeds tell something too.
        weights: keys of the trainings whose weights the store has.
    """

    def __init__(
        self, preset: str, store: Store, committed: tuple[Path, ...] | None = None
    ) -> None:
        own = list(read_records([store.records, store.trials, store.controls]))
        project = _committed((COMMITTED,) if committed is None else committed)
        self.every = [*project, *own]
        self.committed = one_of_each(r for r in project if r.preset == preset)
        self.local = one_of_each(r for r in own if r.preset == preset and r.role != "trial")
        trials = one_of_each(r for r in own if r.preset == preset and r.role == "trial")
        self._runs = _by_name([*self.committed, *self.local])
        self._trials = _by_name(trials)
        self._data: dict[str, list[dict[str, str]]] = {}
        for record in (*self._runs.values(), *self._trials.values()):
            known = self._data.setdefault(_text(record.config["tasks"]), [])
            if record.provenance.data not in known:
                known.append(record.provenance.data)
        self._finals: dict[tuple[str, str], list[RunRecord]] = {}
        for record in self._runs.values():
            if record.role == "final" and record.study is not None:
                self._finals.setdefault((record.task, record.model), []).append(record)
        self._identities: dict[tuple[str, str, str], tuple[str, ...]] = {}
        self._predictors: dict[str, list[RunRecord]] = {}
        for record in (one for one in self._runs.values() if one.role == "baseline"):
            self._predictors.setdefault(_text(record.config["tasks"]), []).append(record)
        kept = (r for r in own if store.weights(r.run_id).exists())
        self.weights = {training_key(r.config, r.seed) for r in kept}

    def identities(self, configuration: Configuration) -> tuple[str, ...]:
        """What a run may be called: a name for each data that its task's settings gave."""
        if not self._data:  # as at presets that nobody has run yet
            return ()
        key = (configuration.preset, configuration.device, configuration.setting)
        if key not in self._identities:
            self._identities[key] = tuple(self._named(configuration))
        return self._identities[key]

    def _named(self, configuration: Configuration) -> Iterator[str]:
        name, made = _settled(configuration)
        for data in self._data.get(_text(name.config["tasks"]), ()):
            made_of = made.model_copy(update={"data": data})
            yield identity_of(name, configuration.preset, made_of, None)

    def find(self, names: Iterable[str], seed: int, *, trial: bool = False) -> RunRecord | None:
        """The finished record of a run by any of its :meth:`identities`, if there is one."""
        shelf = self._trials if trial else self._runs
        return next((shelf[n, seed] for n in names if (n, seed) in shelf), None)

    def finals(self, configuration: Configuration) -> Iterator[RunRecord]:
        """What searches over the model on its task came to."""
        yield from self._finals.get((configuration.task, configuration.model), ())

    def predictors(self, configuration: Configuration) -> list[RunRecord]:
        """The task's predictors without training."""
        return self._predictors.get(_text(configuration.resolved()["tasks"]), [])


def training_key(config: dict[str, Any], seed: int) -> str:
    """Equal for runs that share one training: a search's choice and its trial, and tasks that
    measure the same weights."""
    return f"{seed} {_text(config)}"


@cache
def _committed(folders: tuple[Path, ...]) -> tuple[RunRecord, ...]:
    return tuple(read_records(folders))


def _by_name(records: list[RunRecord]) -> dict[tuple[str, int], RunRecord]:
    """By identity and seed; the later of two wins, as the store wins over what is committed."""
    return {(r.identity, r.seed): r for r in records if r.outcome in FINISHED}


def _settled(configuration: Configuration) -> tuple[Name, Provenance]:
    """The one name that all equal code gives a run, and its provenance but for the data."""
    given = {
        "model_code": code_hash(configuration.models["_target_"]),
        "task_code": code_hash(configuration.tasks["_target_"]),
        "precision": configuration.training.precision,
        "device_class": _device_class(configuration.device),
    }
    made = _here().model_copy(update=given)
    name = settled_name(configuration.resolved(), made)
    codes = {"model_code": name.code.model_code, "task_code": name.code.task_code}
    return name, made.model_copy(update=codes)


@cache
def _here() -> Provenance:
    """What all runs of this process have in common."""
    empty: dict[str, str] = dict.fromkeys(("model_code", "task_code", "precision"), "")
    return provenance.collect(data={}, device_class="cpu", started=datetime.now(UTC), **empty)


@cache
def _device_class(device: str) -> str:
    """As the engine has it. A build of PyTorch for CPUs finds no GPU, which needs no import."""
    if device == "cpu" or version("torch").endswith("+cpu"):
        return "cpu"
    import torch

    from bench.training.building import resolve_device

    found = resolve_device(device)
    return "cpu" if found.type == "cpu" else torch.cuda.get_device_name(found)


def _text(config: dict[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)
