"""What makes a run the same run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bench.config.settings import Configuration
from bench.records import equivalence
from bench.records.equivalence import Code, Config, Name, every_name, names
from bench.records.named_text import with_named_text
from bench.records.provenance import sha256_of
from bench.records.schema import Provenance, RunRecord, make_run_id

# The same by all equal code.
FIXED = ("data", "library_lock", "precision", "device_class", "protocol_version")


@dataclass(frozen=True)
class Identity:
    """What makes a run the same run; the seed is apart.

    Attributes:
        all: every identity of this run: by the code that is here, then by code that is proven
            equal.
        bitwise: those of them by code that gives the same bytes, without code that is equal up to
            rounding: what a training may go on from.
    """

    configuration: Configuration
    provenance: Provenance
    all: tuple[str, ...]
    bitwise: tuple[str, ...]

    @classmethod
    def of(
        cls,
        configuration: Configuration,
        config: Config,
        provenance: Provenance,
        baseline: str | None = None,
    ) -> Identity:
        """The identity of a run by the code of ``provenance``, with those by all equal code.

        Args:
            config: resolved, as a record keeps it.
            baseline: the label of a predictor without training.
        """
        everywhere = every_name(Code.of(config, provenance), config)
        same = (configuration.preset, provenance, baseline)
        identities = tuple(identity_of(name, *same) for name in everywhere)
        same_bytes = sum(name.bitwise for name in everywhere)  # these come first
        return cls(configuration, provenance, identities, identities[:same_bytes])

    @property
    def identity(self) -> str:
        """That by the code that is here."""
        return self.all[0]

    def run_id(self, seed: int) -> str:
        """The name of the run with ``seed``."""
        return self.run_ids(seed)[0]

    def run_ids(self, seed: int, *, bitwise: bool = False) -> list[str]:
        """Every name of the run with ``seed``, that of today first.

        Args:
            bitwise: by code that gives the same bytes alone.
        """
        c = self.configuration
        identities = self.bitwise if bitwise else self.all
        return [make_run_id(c.task, c.model, c.preset, identity, seed) for identity in identities]


def identity_of(name: Name, preset: str, provenance: Provenance, baseline: str | None) -> str:
    """The identity of a run by one state of the code; ``baseline`` as in ``Identity.of``."""
    content = {
        **{field: getattr(provenance, field) for field in FIXED},
        **({} if baseline is None else {"baseline": baseline}),
        "preset": preset,
        "config": name.config,
        "model_code": name.code.model_code,
        "task_code": name.code.task_code,
    }
    return sha256_of(content)


def run_ids_of(record: RunRecord) -> set[str]:
    """Every name of a trained run: by the code that made it, and by all equal code."""
    everywhere = names(Code.of(record.config, record.provenance), record.config)
    same = (record.preset, record.provenance, None)
    identities = (identity_of(name, *same) for name in everywhere)
    place = (record.task, record.model, record.preset)
    return {record.run_id, *(make_run_id(*place, identity, record.seed) for identity in identities)}


def equal_code_of(record: RunRecord) -> set[str]:
    """Hashes of the model code that made a record, and of all that is proven equal."""
    everywhere = names(Code.of(record.config, record.provenance), record.config)
    return {name.code.model_code for name in everywhere}


def canonical_record(record: RunRecord, *, bitwise: bool = False) -> RunRecord:
    """A record under the one name that all equal code gives its run; run id and numbers stay.

    Args:
        bitwise: the name that all code gives it which makes the same bytes.
    """
    name = canonical_name(record.config, record.provenance, bitwise=bitwise)
    if name.code == Code.of(record.config, record.provenance):
        return record
    baseline = record.label if record.role == "baseline" else None
    codes = {"model_code": name.code.model_code, "task_code": name.code.task_code}
    changes = {
        "config": name.config,
        "identity": identity_of(name, record.preset, record.provenance, baseline),
        "provenance": record.provenance.model_copy(update=codes),
    }
    return record.model_copy(update=changes)


def one_of_each(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Records under their canonical names and those of known text. Of the same run made by several
    states of equal code one record: that of a search before another, then the first that was made.
    """
    ordered = sorted(records, key=lambda r: (r.study is None, r.provenance.started_at, r.run_id))
    first: dict[tuple[str, int], RunRecord] = {}
    unique = []
    for record in ordered:
        canonical = canonical_record(record)
        other = first.setdefault((canonical.identity, canonical.seed), record)
        if other.identity == record.identity:  # two of one identity are not for this to judge
            unique.append(with_named_text(canonical))
    return sorted(unique, key=lambda record: record.run_id)


def beside_data(record: RunRecord) -> str:
    """What makes a run the same run, without its data and their seed."""
    tasks = {**record.config.get("tasks", {}), "data_seed": None}
    name = Name(Code.of(record.config, record.provenance), {**record.config, "tasks": tasks})
    provenance = record.provenance.model_copy(update={"data": {}})
    baseline = record.label if record.role == "baseline" else None
    return f"{record.task} {record.model} {identity_of(name, record.preset, provenance, baseline)}"


def canonical_name(config: Config, provenance: Provenance, *, bitwise: bool = False) -> Name:
    """One name for a run by all code that is proven equal: the latest that proofs lead to, which
    runs that were only made by that code have too.

    Args:
        bitwise: by code that gives the same bytes alone, not by code equal up to rounding.
    """
    code, at = (
        Code.of(config, provenance),
        (equivalence.TABLE, equivalence.table_changed(equivalence.TABLE)),
    )
    looked_at = _looked_at(*at)
    part: Config = {}
    for section, values in config.items():
        part[section] = {k: values[k] for k in looked_at.get(section, ()) if k in values}
    name = _canonical_name(code, json.dumps(part), *at, bitwise)
    if name.code == code:
        return Name(code, config)
    renamed: Config = {}
    for section, values in config.items():
        by_proofs = name.config[section]
        # In the order of the settings, which titles of rows follow.
        in_order = {
            key: by_proofs.get(key, value)
            for key, value in values.items()
            if key in by_proofs or key not in part[section]
        }
        renamed[section] = {**in_order, **by_proofs}
    return Name(name.code, renamed, name.bitwise)


@lru_cache(maxsize=4)
def _looked_at(table: Path, changed: int) -> dict[str, list[str]]:
    """Section -> the settings that a proof looks at or adds. They decide what a run is called, and
    few of thousands of configurations differ in them."""
    whole_keys = {"tasks._target_", "models._target_"}
    for entry in equivalence.read_entries(table, changed):
        whole_keys |= {*entry.choices, *entry.added}
    looked_at: dict[str, list[str]] = defaultdict(list)
    for whole in sorted(whole_keys):
        section, _, key = whole.partition(".")
        looked_at[section].append(key)
    return looked_at


@lru_cache(maxsize=2048)
def _canonical_name(code: Code, config: str, table: Path, changed: int, bitwise: bool) -> Name:
    """:func:`canonical_name` by the part of a configuration that decides it."""
    candidates = list(equivalence.every_name_by(code, config, table, changed))
    if bitwise:
        candidates = [name for name in candidates if name.bitwise]
    if len(candidates) == 1:  # as of most runs
        return candidates[0]
    entries = equivalence.by_code(table, changed)
    sides = equivalence.by_side(table, changed) if candidates[0].code not in entries else {}

    def is_replaced(name: Name) -> bool:
        """Whether newer code makes this very run: a proof may be of other choices of the model."""
        proofs = [entry for entry in entries.get(name.code, ()) if entry.old == name.code]
        if bitwise:
            proofs = [entry for entry in proofs if entry.by != "rounding"]
        return any(entry.has_other_side(name) for entry in proofs)

    def order(name: Name) -> tuple[bool, int, str]:
        replaced = [any(sides.get(side, {}).values()) for side in equivalence.sides_of(name.code)]
        return is_replaced(name), sum(replaced), name.code.model_dump_json()

    return min(candidates, key=order)
