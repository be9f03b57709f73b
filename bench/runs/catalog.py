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
from bench.records.equivalence import Name
from bench.records.identity import canonical_name, identity_of, one_of_each
from bench.records.provenance import version
from bench.records.schema import FINISHED, Provenance, RunRecord, read_records
from bench.records.store import COMMITTED, Store
from bench.runs.serving import device_class


class RecordCatalog:
    """Records of one preset: the committed ones, or those below some folders, and a store's.

    Attributes:
        committed, local: under their canonical names, without trials; of one run one record.
        every: both, and those of other presets, whose speeds tell something too.
        weights: keys of the trainings whose weights the store has.
    """

    def __init__(
        self, preset: str, store: Store, committed: tuple[Path, ...] | None = None
    ) -> None:
        of_store = list(read_records([store.records, store.trials, store.controls]))
        project = _committed((COMMITTED,) if committed is None else committed)
        self.every = [*project, *of_store]
        self.committed = one_of_each(r for r in project if r.preset == preset)
        self.local = one_of_each(r for r in of_store if r.preset == preset and r.role != "trial")
        trials = one_of_each(r for r in of_store if r.preset == preset and r.role == "trial")
        self._runs = _by_name([*self.committed, *self.local])
        self._trials = _by_name(trials)
        self._data: dict[str, list[dict[str, str]]] = {}
        for record in (*self._runs.values(), *self._trials.values()):
            data_of_task = self._data.setdefault(_text(record.config["tasks"]), [])
            if record.provenance.data not in data_of_task:
                data_of_task.append(record.provenance.data)
        self._finals: dict[tuple[str, str], list[RunRecord]] = {}
        for record in self._runs.values():
            if record.role == "final" and record.study is not None:
                self._finals.setdefault((record.task, record.model), []).append(record)
        self._identities: dict[tuple[str, str, str], tuple[str, ...]] = {}
        self._predictors: dict[str, list[RunRecord]] = {}
        for record in self._runs.values():
            if record.role == "baseline":
                self._predictors.setdefault(_text(record.config["tasks"]), []).append(record)
        with_weights = (r for r in of_store if store.weights(r.run_id).exists())
        self.weights = {training_key(r.config, r.seed) for r in with_weights}

    def identities(self, configuration: Configuration) -> tuple[str, ...]:
        """What a run may be called: a name for each data that its task's settings gave."""
        if not self._data:  # as at presets that nobody has run yet
            return ()
        key = (configuration.preset, configuration.device, configuration.setting)
        if key not in self._identities:
            name, of_run = _canonical(configuration)
            identities = []
            for data in self._data.get(_text(name.config["tasks"]), ()):
                with_data = of_run.model_copy(update={"data": data})
                identities.append(identity_of(name, configuration.preset, with_data, None))
            self._identities[key] = tuple(identities)
        return self._identities[key]

    def find(self, names: Iterable[str], seed: int, *, trial: bool = False) -> RunRecord | None:
        """The finished record of a run by any of its :meth:`identities`, if there is one."""
        records = self._trials if trial else self._runs
        return next((records[n, seed] for n in names if (n, seed) in records), None)

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
    """Records by identity and seed; the later of two wins, as the store wins over what is
    committed."""
    return {(r.identity, r.seed): r for r in records if r.outcome in FINISHED}


def _canonical(configuration: Configuration) -> tuple[Name, Provenance]:
    """The one name that all equal code gives a run, and its provenance but for the data."""
    no_gpu = version("torch").endswith("+cpu")
    of_run = {
        "model_code": code_hash(configuration.models["_target_"]),
        "task_code": code_hash(configuration.tasks["_target_"]),
        "precision": configuration.training.precision,
        # Without a GPU here, a plan for device=cuda goes by the runs of the CPU.
        "device_class": "cpu" if no_gpu else device_class(configuration),
    }
    provenance_of_run = _provenance_here().model_copy(update=of_run)
    name = canonical_name(configuration.resolved(), provenance_of_run)
    codes = {"model_code": name.code.model_code, "task_code": name.code.task_code}
    return name, provenance_of_run.model_copy(update=codes)


@cache
def _provenance_here() -> Provenance:
    """What all runs of this process have in common."""
    empty: dict[str, str] = dict.fromkeys(("model_code", "task_code", "precision"), "")
    return provenance.collect(data={}, device_class="cpu", started=datetime.now(UTC), **empty)


def _text(config: dict[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)
