"""The committed records as they lie: every figure comes of them, and none is of other code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from bench.records.equivalence import form
from bench.records.schema import RunRecord, read_records
from ground.errors import OK
from leaderboards.build import FOLDER
from reproduce.__main__ import reproductions
from reproduce.command import main

FIGURES = reproductions()
DRAWN = [
    (name, preset)
    for name, preset in (path.stem.rsplit("-", 1) for path in sorted(FOLDER.glob("verdicts/*")))
]


@cache
def whole() -> tuple[RunRecord, ...]:
    return tuple(read_records([FOLDER / "records"]))


@pytest.mark.parametrize(("name", "preset"), DRAWN)
def test_every_figure_with_committed_verdicts_is_drawn_from_the_whole_folder(
    name: str, preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(folders: list[Path]) -> Iterator[RunRecord]:
        """Once for all figures: it takes a second."""
        assert folders == [FOLDER / "records"]
        return iter(whole())

    monkeypatch.setattr("reproduce.command.read_records", read)
    words = [f"preset={preset}", f"records={FOLDER / 'records'}", f"store={tmp_path}"]
    assert main([name, *words], FIGURES) == OK
    folder = tmp_path / "reproductions" / name / preset
    judged = json.loads((folder / "verdicts.json").read_text())
    known = json.loads((FOLDER / "verdicts" / f"{name}-{preset}.json").read_text())
    assert len(judged["records"]) == len(known["records"])


def test_no_committed_record_is_of_an_earlier_form() -> None:
    forms = {r.run_id: form(r.config, r.provenance) for r in whole()}
    assert [run_id for run_id, one in forms.items() if one == "of an earlier form"] == []
