"""The engine in this process, for tests of verification."""

from pathlib import Path

import pytest

from leaderboards.checks import admission
from leaderboards.verification import rerun as again
from tests.committed import copied_folder
from tests.leaderboards.verification.engine import in_this_process


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed are the records of one task at smoke alone: each command checks all of its task,
    of which there are hundreds."""
    folder = tmp_path / "few"
    copied_folder("state_tracking/smoke", folder)
    monkeypatch.setattr(admission, "COMMITTED", folder)
    monkeypatch.setattr(admission.records_beside, "__defaults__", (folder,))


@pytest.fixture
def engine(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again.Bench.__init__, "__defaults__", (None, {}, in_this_process, None))
