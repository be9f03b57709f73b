"""Where things lie below the ``store`` folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Store:
    """The folders of one store; each is made by whoever first writes into it."""

    root: Path

    @property
    def records(self) -> Path:
        """Records of single and final runs and of baselines: what a board is made of."""
        return self.root / "records"

    @property
    def trials(self) -> Path:
        """Records of the trials of studies, which never saw the test split."""
        return self.root / "trials"

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
        return self.trials if role == "trial" else self.records
