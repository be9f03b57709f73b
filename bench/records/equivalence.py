"""Older code that was proven to give the same bytes, or the same numbers up to rounding, and what a
record of it is called today.

``leaderboards/equivalences/TASK.json`` is written by ``python -m bench.equivalence`` alone. Nothing
here imports torch.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

from pydantic import Field, model_validator

from bench.records.code import code_hash, is_own
from bench.records.equality.rounded_runs import RoundedRun, Sha256, WholeRun
from bench.records.provenance import PROTOCOL_VERSION
from bench.records.schema import FrozenModel, Provenance
from core.files import ROOT, when_changed
from core.reading import Kind

IN_CHECKOUT = Path("leaderboards", "equivalences")  # a file for each task
TABLE = ROOT / IN_CHECKOUT

Config = dict[str, dict[str, Any]]  # section -> key -> value, as in a record
Proof = Literal["definitions", "runs", "rounding"]  # of two the first says more
CodeStatus = Literal["current", "equivalent", "equal up to rounding", "stale"]
CODE_STATUSES: tuple[CodeStatus, ...] = get_args(CodeStatus)
STRENGTH: tuple[Proof, ...] = get_args(Proof)
# A choice of the model in the words of a short run: models.positions="learned". A choice of the
# task changes the data, whose hashes are in every identity.
_CHOICE = re.compile(r'(models\.\w+)=("(?:[^"\\]|\\.)*"|true|false|null)(?= |$)')


class Code(FrozenModel):
    """The code behind a run: the classes of its task and model, and the hashes of their source.
    A predictor without training has the task's for both."""

    task: str
    task_code: str
    model: str
    model_code: str

    @classmethod
    def of(cls, config: Mapping[str, Any], provenance: Provenance) -> Code:
        """The code that a run with this resolved configuration was made by."""
        task = str(config.get("tasks", {}).get("_target_"))
        return cls(
            task=task,
            task_code=provenance.task_code,
            model=str(config.get("models", {}).get("_target_", task)),
            model_code=provenance.model_code,
        )

    def is_current(self, root: Path = ROOT) -> bool:
        """Whether this project, or another checkout of it, holds this very code; what other
        packages have is not looked at, so that a run of which nothing is of this project is as
        current as it can be."""
        pairs = ((self.task, self.task_code), (self.model, self.model_code))
        of_project = [(target, code) for target, code in pairs if is_own(target)]
        return all(code_hash(target, root) == code for target, code in of_project)


@dataclass(frozen=True)
class Name:
    """What one run is called by one state of the code.

    Attributes:
        bitwise: whether this code gives the same bytes as the code that it was reached from; else
            it gives the same numbers up to rounding.
    """

    code: Code
    config: Config
    bitwise: bool = True

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The run's settings by "section.key", see :func:`flat`."""
        return flat(self.config)


class Compared(FrozenModel):
    """One short run that was made by both; ``results`` hashes everything that it measured."""

    words: str
    data: dict[str, Sha256]
    weights: Sha256 | None
    results: Sha256


class Equivalence(FrozenModel):
    """Two states of the code behind one task and model that give identical bytes, or, where they
    are proven equal by "rounding", the same numbers but for rounding errors.

    Proven by runs or rounding, it holds for all numbers, and for those choices of the model (texts
    and truth values) that were compared: code behind another choice, such as other positions, was
    not run. Proven by definitions (:mod:`bench.records.equality.definitions`), it holds for every
    setting.

    Attributes:
        commit: where ``old`` was taken from.
        added: settings that ``new`` has and ``old`` lacks ("models.key"), with the value at which
            both are the same.
        compared: the runs of a proof by runs.
        rounded, whole: the short and the whole runs of a proof by rounding.
        moved: of a proof by definitions: those that lie elsewhere now, old name -> new name.
    """

    task: str
    model: str
    commit: str = Field(pattern="^[0-9a-f]{40}$")
    old: Code
    new: Code
    added: dict[str, Any]
    by: Proof = "runs"
    compared: tuple[Compared, ...] = ()
    rounded: tuple[RoundedRun, ...] = ()
    whole: tuple[WholeRun, ...] = ()
    moved: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _shows_its_proof(self) -> Self:
        if self.by == "runs" and not self.compared:
            raise ValueError("a proof by runs names the runs that were compared")
        if self.by == "rounding" and not self.rounded:
            raise ValueError("a proof by rounding names the runs that were compared")
        return self

    @cached_property
    def choices(self) -> dict[str, list[Any]]:
        """Setting -> its values in the runs that were compared."""
        values_by_setting: dict[str, list[Any]] = defaultdict(list)
        words = [run.words for run in self.compared] + [run.words for run in self.rounded]
        for words_of_run in words:
            for key, value in _CHOICE.findall(words_of_run):
                values_by_setting[key].append(json.loads(value))
        return values_by_setting

    def has_other_side(self, name: Name) -> bool:
        """Whether both of the two have this run, and all choices of it were compared."""
        if name.code not in (self.old, self.new):
            return False
        if self.by != "definitions":
            for key, compared_values in self.choices.items():
                value = name.settings.get(key)
                if isinstance(value, str | bool) and value not in compared_values:
                    return False
        if name.code == self.old:
            return True
        return all(name.settings.get(key, v) == v for key, v in self.added.items())

    def other_side(self, name: Name) -> Name | None:
        """The same run by the other one of the two; None if that has no such run, or if a choice of
        it was not compared."""
        if not self.has_other_side(name):
            return None
        if name.code == self.old:
            code, settings = self.new, {**self.added, **name.settings}
        else:
            code, settings = self.old, dict(name.settings)
            for key in self.added:
                settings.pop(key, None)
        config: dict[str, dict[str, Any]] = {section: {} for section in name.config}
        for whole, value in settings.items():
            section, _, key = whole.partition(".")
            if section in config:
                config[section][key] = value
        for section, target in (("tasks", code.task), ("models", code.model)):
            if "_target_" in name.config.get(section, {}):
                config[section]["_target_"] = target
        return Name(code, config, name.bitwise and self.by != "rounding")


def flat(config: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Each setting by "section.key"; the classes of task and model are none."""
    settings = {}
    for section, values in config.items():
        for key, value in values.items():
            if not f"{section}.{key}".endswith("._target_"):
                settings[f"{section}.{key}"] = value
    return settings


class ProofTable(FrozenModel):
    schema_version: Literal[1] = 1
    entries: tuple[Equivalence, ...] = ()


def read_table() -> tuple[Equivalence, ...]:
    """The proven equivalences.

    Raises:
        UserError: a file was truncated or edited into something else.
    """
    return read_entries(TABLE, table_changed(TABLE))


def _entries(table: Path) -> Mapping[Code, Sequence[Equivalence]]:
    """Those that have a code on one side."""
    return by_code(table, table_changed(table))


@lru_cache(maxsize=4)  # every record asks, and there are hundreds of entries
def by_code(table: Path, changed: int) -> dict[Code, list[Equivalence]]:
    """Code -> the proofs that have it on one side, of a table as it was at ``changed``."""
    entries_by_code: dict[Code, list[Equivalence]] = defaultdict(list)
    for entry in read_entries(table, changed):
        for code in {entry.old, entry.new}:
            entries_by_code[code].append(entry)
    return entries_by_code


@lru_cache(maxsize=4)
def read_entries(table: Path, changed: int) -> tuple[Equivalence, ...]:
    """All proofs of a table as it was at ``changed``, in their order."""
    entries: list[Equivalence] = []
    for path in sorted(table.glob("*.json")):
        entries += read_file(path)
    if (one_file := file_of_all_tasks(table)).is_file():
        entries += [entry for entry in read_file(one_file) if entry not in entries]
    return tuple(sorted(entries, key=place_of))


def read_file(path: Path) -> tuple[Equivalence, ...]:
    """The proofs of one file.

    Raises:
        UserError: it was truncated or edited into something else.
    """
    advice = (
        "restore it from version control, or delete it and prove again what it held by "
        "python -m bench.equivalence"
    )
    return (
        Kind("table of equivalences", ProofTable, advice, most=16 * 2**20).read_json(path).entries
    )


class Side(NamedTuple):
    """The task's or the model's part of the code behind a run."""

    section: Literal["tasks", "models"]
    target: str
    code: str


def sides_of(code: Code) -> tuple[Side, Side]:
    """The task's part and the model's."""
    return Side("tasks", code.task, code.task_code), Side("models", code.model, code.model_code)


@lru_cache(maxsize=4)
def by_side(table: Path, changed: int) -> dict[Side, dict[Side, bool]]:
    """Side -> the sides that are proven equal to it, each with whether it is the newer one.

    A proof by definitions compares all that a task and a model are made of, so it holds for each of
    the two with any other code beside it: for a task with a model from elsewhere, and for a model
    with a task that no committed record has it with.
    """
    equal: dict[Side, dict[Side, bool]] = defaultdict(dict)
    for entry in read_entries(table, changed):
        if entry.by != "definitions" or entry.added:
            continue
        for old, new in zip(sides_of(entry.old), sides_of(entry.new), strict=True):
            if old != new:
                equal[old][new] = True
                equal[new].setdefault(old, False)
    return equal


def _with_side(name: Name, old: Side, new: Side) -> Name:
    """The same run with other code on one side; of a predictor, which has the task's for both, on
    both."""
    code, config = name.code, dict(name.config)
    changes: dict[str, str] = {}
    for side, part in zip(sides_of(code), ("task", "model"), strict=True):
        if (side.target, side.code) == (old.target, old.code):
            changes |= {part: new.target, f"{part}_code": new.code}
            if "_target_" in config.get(side.section, {}):
                config[side.section] = {**config[side.section], "_target_": new.target}
    return replace(name, code=code.model_copy(update=changes), config=config)


def file_of_all_tasks(table: Path) -> Path:
    """Where older commits have the proofs of all tasks."""
    return table.with_name(f"{table.name}.json")


def table_changed(table: Path) -> int:
    """When a file of a table last came, went or was replaced."""
    return when_changed(table) + when_changed(file_of_all_tasks(table))


def place_of(entry: Equivalence) -> tuple[str, str, str, str]:
    """The order of proofs."""
    return entry.task, entry.model, entry.commit, entry.old.task_code


def names(code: Code, config: Config, table: Path | None = None) -> Iterator[Name]:
    """The run itself, then the same run by every state of the code that is proven equal, through
    any chain of proofs of a table, which is the project's unless another one is given: first all
    that give the same bytes, then those that a proof by rounding is on the way to."""
    seen = set[Code]()
    waiting, up_to_rounding = [Name(code, config)], list[Name]()
    table = table or TABLE
    entries = _entries(table)
    while waiting or up_to_rounding:
        name = (waiting or up_to_rounding).pop(0)
        if name.code in seen:
            continue
        seen.add(name.code)
        yield name
        others = []
        for entry in entries.get(name.code, ()):
            if entry.old not in seen or entry.new not in seen:
                others.append(entry.other_side(name))
        if name.code not in entries:  # no proof is of this task and this model together
            sides = by_side(table, table_changed(table))
            for old in sides_of(name.code):
                others += [_with_side(name, old, new) for new in sides.get(old, ())]
        for other in others:
            if other is not None and other.code not in seen:
                (waiting if other.bitwise else up_to_rounding).append(other)


def current_name(
    config: Config, provenance: Provenance, checkout: Path | None = None
) -> Name | None:
    """What a recorded run is called today, or in another checkout of the project; None if its code
    is neither there nor proven equal."""
    if provenance.protocol_version != PROTOCOL_VERSION:
        return None
    table = checkout / IN_CHECKOUT if checkout else None
    equal = names(Code.of(config, provenance), config, table)
    return next((name for name in equal if name.code.is_current(checkout or ROOT)), None)


def every_name(code: Code, config: Config) -> tuple[Name, ...]:
    """:func:`names` by the project's proofs, known from the first time that they were asked."""
    return every_name_by(code, json.dumps(config), TABLE, table_changed(TABLE))


# Runs that differ in their seeds alone have one configuration.
@lru_cache(maxsize=2048)
def every_name_by(code: Code, config: str, table: Path, changed: int) -> tuple[Name, ...]:
    """The same of a configuration as JSON, by a table as it was at ``changed``."""
    return tuple(names(code, json.loads(config), table))


def code_status(config: Config, provenance: Provenance) -> CodeStatus:
    """Whether a record was made by the code that is here, by code that is proven to give the same
    bytes, or the same numbers up to rounding, or by other code."""
    today = current_name(config, provenance)
    if today is None:
        return "stale"
    if today.code == Code.of(config, provenance):
        return "current"
    return "equivalent" if today.bitwise else "equal up to rounding"
