"""The run record: immutable JSON, a file or a line of a segment, that says what came of a run.

Everything downstream (board, figures, verdicts, tracking) is a pure function of these files and of
published numbers. This module imports neither torch nor pandas.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal, NamedTuple
from weakref import WeakValueDictionary

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from bench.config.questions import Passed
from bench.records.record_files import packed_at, records_below, refuse_segment
from bench.records.segments import MAXIMUM_RECORD_BYTES, PackedRecord, canonical
from core.errors import RUN_FAILED, UserError
from core.files import ROOT, write_atomically
from core.reading import Kind, Several, beyond_bounds

SCHEMA_VERSION: Literal[1] = 1
# Part of the project: TASK/PRESET/RUN_ID.json, most of them in segments (``record_files.py``).
COMMITTED = ROOT / "leaderboards" / "records"

Outcome = Literal["ok", "diverged", "out_of_memory", "interrupted", "failed"]
# A "control" is made to fail a claim: it stands in no figure, table or board. A "final" run has the
# setting that a search chose: its record has the study where the trials were made in its store.
Role = Literal["single", "trial", "final", "baseline", "control"]
FINISHED: tuple[Outcome, ...] = ("ok", "diverged")  # the others are worth another try


class FrozenModel(BaseModel):
    """Immutable, without fields that it does not name."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Headline(FrozenModel):
    """The number that a table is ranked by, on the test split (of a trial: on validation)."""

    name: str
    direction: Literal["maximise", "minimise"]
    unit: str = ""
    value: float | None = None


class Provenance(FrozenModel):
    """Where a number comes from. The fields marked * are part of the identity."""

    model_code: str  # * SHA-256 of the model's source, comments and docstrings left out
    task_code: str  # *
    data: dict[str, str]  # * split -> SHA-256 of its content
    library_lock: str  # * SHA-256 over `libraries`
    libraries: dict[str, str]
    precision: str  # *
    device_class: str  # * "cpu", or the name of the accelerator
    protocol_version: int  # *
    device: str
    platform: str
    python: str
    commit: str | None
    dirty: bool | None
    command: str
    started_at: str  # ISO 8601, UTC


class Cost(FrozenModel):
    """What a run cost, measured by the same code for every model."""

    parameters: int = 0
    position_parameters: int = 0  # of a learned position table, included in `parameters`
    state_bytes: int | None = None  # kept by one sequence at `state_length` positions
    state_length: int | None = None
    training_flops: float | None = None  # forward and backward, counted by operator
    training_tokens: int = 0
    training_steps: int = 0
    tuning_trials: int = 0
    wall_seconds: float = 0.0
    peak_memory_bytes: int | None = None
    # Trainings, this one included, whose steps were one computation; `wall_seconds` is then its
    # share. Records of runs alone do not have it, so those from before it stay as they are.
    stacked: int | None = Field(default=None, exclude_if=lambda value: value is None)
    # Numbers in buffers that training changed, beside the parameters; None where it changed none.
    changed_buffers: int | None = Field(default=None, ge=1, exclude_if=lambda value: value is None)


class Examination(FrozenModel):
    """What the model of a run was examined for and has passed. A model that fails one is a failed
    run.

    Attributes:
        before: with fresh weights, before the training; empty where it is not known any more.
            "state bytes" is of classes of other packages and files alone, whose declared state was
            measured.
        trained: with the weights that were scored, before test data were; "in new processes" is
            about what was scored, and is asked of classes of other packages and files alone.
        unused_parameters: those that no output depends on, with these weights.
    """

    before: Several[Passed] = Field(default_factory=list)
    trained: Several[Passed] = Field(default_factory=list)
    unused_parameters: Several[str] = Field(default_factory=list)


class Curve(FrozenModel):
    """y against x."""

    x: Several[float]
    y: Several[float]


class Restart(FrozenModel):
    """One of several trainings of which the lowest final training loss was kept."""

    seed: int
    training_loss: float | None
    kept: bool


def initial_seed(restarts: Iterable[Restart], seed: int) -> int:
    """The seed of the initial weights from which a run has those that it keeps: that of the start
    that was kept, or the run's own."""
    return next((restart.seed for restart in restarts if restart.kept), seed)


class Trial(FrozenModel):
    """One setting that a study tried.

    Attributes:
        value: the headline on validation with the first seed.
        over_seeds: that of every seed, the first one included, where the setting was trained with
            all of them before one was chosen; None for a run that came to no number.
    """

    number: int
    parameters: dict[str, Any]
    value: float | None
    outcome: Outcome
    run_id: str | None = None
    retry_of: int | None = None
    # Records of searches by one seed do not have it, so those from before it stay as they are.
    over_seeds: Several[float | None] = Field(
        default_factory=list, exclude_if=lambda values: not values
    )

    @property
    def score(self) -> float | None:
        """What the setting is chosen by: its mean over seeds, else its value; None where a run of
        it came to no number."""
        if not self.over_seeds:
            return self.value
        finished = [value for value in self.over_seeds if value is not None]
        return fmean(finished) if len(finished) == len(self.over_seeds) else None


class Study(FrozenModel):
    """The search that chose this setting, on the validation split."""

    name: str
    sampler: str
    optuna: str
    search_space: dict[str, list[Any]]
    selected_by: str
    trials: Several[Trial]


def _usable(config: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """A configuration of which the parts are of the kinds that every reader of records relies on.

    Raises:
        ValueError: a class is not named by a word, or steps are not counted.
    """
    for section, values in config.items():
        if not isinstance(values.get("_target_", ""), str):
            raise ValueError(f"{section}._target_ is not a word")
    steps = config.get("training", {}).get("steps")
    if steps is not None and (type(steps) is not int or steps < 0):
        raise ValueError("training.steps is neither a number of steps nor null")
    return config


class RunRecord(FrozenModel):
    """One run. See ``docs/architecture.md`` for the life of a record."""

    schema_version: Literal[1] = SCHEMA_VERSION
    run_id: str
    identity: str
    seed: int
    task: str
    model: str
    label: str
    preset: str
    role: Role = "single"
    outcome: Outcome
    cause: str | None = None
    headline: Headline
    metrics: dict[str, dict[str, float]] = Field(default_factory=dict)  # split -> name -> value
    per_sequence: dict[str, Several[float]] = Field(default_factory=dict)  # as the headline
    curves: dict[str, Curve] = Field(default_factory=dict)
    arrays: dict[str, Any] = Field(default_factory=dict)
    # Resolved: section (tasks, models, training) -> key -> value.
    config: Annotated[dict[str, dict[str, Any]], AfterValidator(_usable)]
    cost: Cost
    restarts: Several[Restart] = Field(default_factory=list)
    study: Study | None = None
    provenance: Provenance
    weights_sha256: str | None = None
    # Records from before it do not have it and stay as they are: their models were examined before
    # the training only, by two passes.
    examination: Examination | None = Field(default=None, exclude_if=lambda value: value is None)

    def content_hash(self) -> str:
        """SHA-256 over the canonical JSON of every field."""
        return _content_hash(self.model_dump(mode="json"))


def _content_hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(content)).hexdigest()


def _hash_of_text(text: bytes, claimed: Any) -> str | None:
    """SHA-256 of what a file says beside its hash, without white space outside of strings: that of
    its canonical JSON, if :func:`write_record` wrote the file. None where a string may hold a
    quote."""
    if b"\\" in text:
        return None
    without = text.replace(f' "content_sha256": "{claimed}",\n'.encode(), b"", 1)
    parts = without.split(b'"')
    parts[::2] = [outside.translate(None, b" \n") for outside in parts[::2]]
    return hashlib.sha256(b'"'.join(parts)).hexdigest()


def make_run_id(task: str, model: str, preset: str, identity: str, seed: int) -> str:
    """A readable name; the identity in it keeps two settings from ever sharing one."""
    return f"{task}-{model}-{preset}-{identity[:12]}-s{seed}"


def write_record(record: RunRecord, folder: Path) -> Path:
    """Write ``<folder>/<run_id>.json`` atomically, with the hash of its own content."""
    content = record.model_dump(mode="json")
    path = folder / f"{record.run_id}.json"
    text = file_of(content, _content_hash(content))
    if len(text) > MAXIMUM_RECORD_BYTES:
        raise UserError(
            f"the record of {record.run_id} would be {len(text) / 2**20:.0f} MiB, and a record may "
            "be 16: evaluate fewer sequences, or keep fewer values per sequence",
            RUN_FAILED,
        )
    if problem := beyond_bounds(content):
        raise UserError(
            f"the record of {record.run_id} {problem}: nobody could read it", RUN_FAILED
        )
    write_atomically(path, text)
    return path


def file_of(content: dict[str, Any], content_sha256: str) -> bytes:
    """A record as a file of its own.

    Args:
        content: all fields of the record.
        content_sha256: the hash of its canonical JSON.
    """
    with_hash = {**content, "content_sha256": content_sha256}
    return (json.dumps(with_hash, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


RECORD = Kind(
    "record",
    RunRecord,
    how="restore it from version control or a copy, or move it elsewhere and run again",
    most=MAXIMUM_RECORD_BYTES,
)


class RecordFile(NamedTuple):
    """A record, the hash of its content, and the JSON that it was read from: a file, or a line of a
    segment, which has no hash in it."""

    record: RunRecord
    content_sha256: str
    content: bytes


def read_record(path: Path, *, any_name: bool = False, bounded: bool = False) -> RunRecord:
    """Read and check one record.

    Args:
        path: RUN_ID.json, which may lie in a segment of its folder.
        any_name: take a file of another name too, such as one that was sent by mail.
        bounded: of a record of the project's own in a segment, bounds of depth and numbers are not
            looked at again: the command that packed it has, and the board's build does. Its hash
            and its types are.

    Raises:
        UserError: the file is missing, oversized, truncated, edited, or not a record.
    """
    packed = packed_at(path)
    if packed is None:
        return _read_file(path, None, any_name).record
    record = _in_use.get(packed)
    if record is None:
        record = _in_use[packed] = _read_file(path, packed, bounded=bounded).record
    return record


# Of segments, which are never rewritten: a figure asks for a record several times.
_in_use: WeakValueDictionary[PackedRecord, RunRecord] = WeakValueDictionary()


def read_file(path: Path, *, any_name: bool = False) -> RecordFile:
    """As :func:`read_record`, with what else is known of the file."""
    return _read_file(path, packed_at(path), any_name)


def _read_file(
    path: Path, packed: PackedRecord | None, any_name: bool = False, bounded: bool = False
) -> RecordFile:
    refuse_segment(path)
    is_own = path.is_relative_to(COMMITTED)
    text = RECORD.bytes_of(path) if packed is None else packed.line()
    content = RECORD.tree(path, text, bounded and is_own and packed is not None)
    if not isinstance(content, dict):
        raise RECORD.refused(path, "does not hold a run record")
    version = content.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        reads = f"but this version reads schema {SCHEMA_VERSION}"
        raise RECORD.refused(path, f"has record schema {version!r:.40} {reads}")
    claimed = packed.content_sha256 if packed else content.pop("content_sha256", None)
    record = RECORD.typed(path, content)
    # What is committed was read whole before. Its text is canonical JSON but for white space, which
    # is seen in a tenth of the time; a stranger's may say the same in other characters. A line of a
    # segment was hashed as it is.
    is_as_written = is_own and (packed is not None or claimed == _hash_of_text(text, claimed))
    if not is_as_written and claimed != _content_hash(content):
        was = "was edited after it was written (its content hash does not match)"
        raise RECORD.refused(path, was)
    if record.run_id != path.stem and not any_name:
        raise RECORD.refused(path, f"has not the name of its record, '{record.run_id}.json'")
    return RecordFile(record, str(claimed), text)


def json_of(path: Path) -> bytes:
    """The JSON of a record, unchecked, as it lies there: a file, or a line of a segment, which has
    no content hash.

    Raises:
        UserError: there is no record, or it cannot be read.
    """
    packed = packed_at(path)
    return RECORD.bytes_of(path) if packed is None else packed.line()


def as_file(path: Path) -> bytes:
    """A record as a file of its own, wherever it lies; that of a segment is as
    :func:`write_record` wrote it.

    Raises:
        UserError: as :func:`json_of`.
    """
    packed = packed_at(path)
    if packed is None:
        return RECORD.bytes_of(path)
    return file_of(json.loads(packed.line()), packed.content_sha256)


def read_records(folders: Iterable[Path]) -> Iterator[RunRecord]:
    """All records below ``folders``, sorted by run id; of equal run ids the first folder wins.

    Raises:
        UserError: at the first record that cannot be trusted.
    """
    path_by_id: dict[str, Path] = {}
    for folder in folders:
        for path in records_below(folder):
            path_by_id.setdefault(path.stem, path)
    for _, path in sorted(path_by_id.items()):
        yield read_record(path, bounded=True)
