"""A submission: a folder with records, their weights as far as they are small, and a statement.

The folder is laid out like a store, ``records/RUN_ID.json`` and
``work/RUN_ID/weights.safetensors``, with ``submission.yaml`` beside them and nothing else. All of
it is data.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import AfterValidator, Field

from bench.records.identity import equal_code_of
from bench.records.schema import FrozenModel, RunRecord, read_record
from bench.records.store import Store
from core.errors import RUN_FAILED, UserError
from core.files import open_regular, write_atomically
from core.reading import Kind

FILE = "submission.yaml"
LARGEST_WEIGHTS = 10 * 2**20  # bytes of one run that are sent along; larger ones by their address
MANY = 1000  # records of one submission


def _in_sight(text: str) -> str:
    """Text without characters that nobody sees, which may turn others round on a page.

    Raises:
        ValueError: it has one.
    """
    hidden = next((c for c in text if not c.isprintable() and c not in " \t\n"), None)
    if hidden is not None:
        raise ValueError(f"{hidden!a} is a character that cannot be seen")
    return text


LEAST_STATED = 10  # characters of a sentence
Line = Annotated[
    str, Field(min_length=1, max_length=300, pattern=r"^[^\t\n]+$"), AfterValidator(_in_sight)
]
Text = Annotated[str, Field(min_length=LEAST_STATED, max_length=5000), AfterValidator(_in_sight)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
RunId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$")]  # a file's name


class ModelSource(FrozenModel):
    """Where a model's code is to be read, and its hash, which every record of it has."""

    where: Line
    sha256: Sha256


class Weights(FrozenModel):
    """The trained weights of a run: here, or at an address that nothing here ever contacts."""

    sha256: Sha256
    address: Line | None = None


class SubmitterStatement(FrozenModel):
    """What whoever submits says of all records.

    Attributes:
        sources: class of a model -> its source.
        tuning_trials: settings that were tried for each final run, at most; trials that stand in no
            study count too.
        records: run id -> content hash.
        weights: run id -> its weights; a run may have none to be had.
    """

    schema_version: Literal[1]
    who: Line
    contact: Line
    licence: Line
    sources: dict[str, ModelSource]
    tuning_trials: int = Field(ge=0, le=10**9)
    training_data: Text
    contamination: Text
    records: dict[RunId, Sha256] = Field(min_length=1, max_length=MANY)
    weights: dict[RunId, Weights] = Field(default_factory=dict)


STATEMENT = Kind(
    "statement",
    SubmitterStatement,
    how="make the folder with `python -m leaderboards.submit`, see docs/submit.md",
)


def write_statement(statement: SubmitterStatement, folder: Path) -> None:
    """Write ``submission.yaml``."""
    text = yaml.safe_dump(statement.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    write_atomically(folder / FILE, text.encode())


def read_submission(folder: Path) -> tuple[SubmitterStatement, list[RunRecord]]:
    """The statement of a folder and its records, of which nothing was checked but that both say the
    same and that nothing else lies there.

    Raises:
        UserError: something lies there that does not belong, is missing, or is not what the
            statement says; in one sentence.
    """
    statement = STATEMENT.read_yaml(folder / FILE)
    _look_for_strangers(statement, folder)
    records = [read_record(path) for path in _paths(folder, statement)]
    for record in records:
        if reason := disagreement(statement, record) or _wrong_weights(statement, record, folder):
            raise UserError(f"the submission {folder.name} is refused because {reason}", RUN_FAILED)
    return statement, records


def _paths(folder: Path, statement: SubmitterStatement) -> Sequence[Path]:
    return [Store(folder).records / f"{run_id}.json" for run_id in statement.records]


def _look_for_strangers(statement: SubmitterStatement, folder: Path) -> None:
    """Every file is one that the statement names: no code, no link, no note of places."""
    weights = []
    for run_id, stated in statement.weights.items():
        if not stated.address:
            weights.append(Store(folder).weights(run_id))
    expected = {folder / FILE, *_paths(folder, statement), *weights}
    for place, folders, files in os.walk(folder, followlinks=False):
        for name in (*files, *folders):
            path = Path(place, name)
            if path.is_dir() and not path.is_symlink():
                continue
            if path not in expected or path.is_symlink():
                stranger = str(path.relative_to(folder))
                raise UserError(
                    f"the submission {folder.name} is refused because it holds {stranger!a:.200}, "
                    f"which {FILE} does not name: a submission is records, weights and a statement",
                    RUN_FAILED,
                )


def disagreement(statement: SubmitterStatement, record: RunRecord) -> str | None:
    """What a record and the statement say otherwise, in a clause; None if nothing."""
    if statement.records[record.run_id] != record.content_hash():
        return f"{record.run_id} is not the record that its statement names (another hash)"
    if record.role in ("trial", "control"):
        return f"{record.run_id} is a {record.role}, which stands on no board"
    if record.cost.tuning_trials > statement.tuning_trials:
        return (
            f"{record.run_id} was chosen from {record.cost.tuning_trials} trials, and its "
            f"statement says {statement.tuning_trials}"
        )
    if record.role == "baseline":
        return None
    target = str(record.config.get("models", {}).get("_target_"))
    source = statement.sources.get(target)
    if source is None or source.sha256 not in equal_code_of(record):
        return f"{record.run_id} is of a code of {target!a:.80} that its statement does not name"
    return None


def _wrong_weights(statement: SubmitterStatement, record: RunRecord, folder: Path) -> str | None:
    weights = statement.weights.get(record.run_id)
    if weights is None:
        return None
    if weights.sha256 != record.weights_sha256:
        return f"the weights that it names for {record.run_id} are not those of the record"
    path = Store(folder).weights(record.run_id)
    if weights.address:
        return None
    if not path.exists():
        return f"the weights of {record.run_id} are missing"
    with open_regular(path) as file:
        content = file.read(LARGEST_WEIGHTS + 1)
    if len(content) > LARGEST_WEIGHTS:
        return f"the weights of {record.run_id} are larger than {LARGEST_WEIGHTS >> 20} MiB"
    if hashlib.sha256(content).hexdigest() != weights.sha256:
        return f"the weights of {record.run_id} are not those of the record"
    return None
