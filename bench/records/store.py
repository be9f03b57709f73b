"""Where things lie below the ``store`` folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field

from bench.records.layout import LAYOUT, LAYOUT_FILE
from bench.records.schema import COMMITTED as COMMITTED
from bench.records.schema import RunRecord
from core.errors import RUN_FAILED, UserError
from core.files import write_atomically
from core.reading import Kind


class _Layout(BaseModel):
    layout: int = Field(ge=1)  # what a later layout adds beside it is not for this code to judge


_LAYOUT = Kind("layout of a store", _Layout, how="restore it from a copy of the store")


@dataclass(frozen=True)
class Store:
    """The folders of one store; each is made by whoever first writes into it.

    Raises:
        UserError: the store is of a newer layout, which this code would misread.
    """

    root: Path

    def __post_init__(self) -> None:
        path = self.root / LAYOUT_FILE
        if not path.is_file():
            return
        layout = _LAYOUT.read_json(path).layout
        if layout > LAYOUT:
            raise UserError(
                f"the store {self.root} has layout {layout}, and this version of the project reads "
                f"layout {LAYOUT}: use the version that wrote it, or a newer one, or another "
                "store=FOLDER",
                RUN_FAILED,
            )

    def state_layout(self) -> None:
        """Write down how the store is laid out, for whoever opens it with other code."""
        path = self.root / LAYOUT_FILE
        if not path.exists():
            write_atomically(path, (json.dumps({"layout": LAYOUT}) + "\n").encode())

    @property
    def records(self) -> Path:
        """Records of single and final runs and of baselines: what a board is made of."""
        return self.root / "records"

    @property
    def trials(self) -> Path:
        """Records of the trials of studies, which never saw the test split."""
        return self.root / "trials"

    @property
    def controls(self) -> Path:
        """Records of runs that must fail a claim: no board is made of them."""
        return self.root / "controls"

    @property
    def studies(self) -> Path:
        """Optuna's journals."""
        return self.root / "studies"

    @property
    def reproductions(self) -> Path:
        """Figures, curves and verdicts."""
        return self.root / "reproductions"

    def work(self, run_id: str) -> Path:
        """Checkpoint, weights and training report of one run."""
        return self.root / "work" / run_id

    def weights(self, run_id: str) -> Path:
        """The trained weights of one run."""
        return self.work(run_id) / "weights.safetensors"

    def record_folder(self, role: str) -> Path:
        """Where records of a role are kept."""
        return {"trial": self.trials, "control": self.controls}.get(role, self.records)


def record_path(record: RunRecord, store: Path) -> Path:
    """Where a record lies: in the store, else among the project's own."""
    in_store = Store(store).record_folder(record.role) / f"{record.run_id}.json"
    committed = committed_path(record.run_id, record.task, record.preset)
    return committed if committed.exists() and not in_store.exists() else in_store


def committed_path(run_id: str, task: str, preset: str) -> Path:
    """Where a record lies if it is one of the project's own."""
    return COMMITTED / task / preset / f"{run_id}.json"
