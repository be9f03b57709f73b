"""What the committed verdicts say, against the claims of today and the records that they name."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from bench.records.schema import RunRecord, read_records
from leaderboards.build import FOLDER
from reproduce.__main__ import reproductions

FILES = sorted((FOLDER / "verdicts").glob("*.json"))


@cache
def committed() -> dict[str, RunRecord]:
    return {record.run_id: record for record in read_records([FOLDER / "records"])}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_claims_say_so_of_these_records_today(path: Path) -> None:
    file = json.loads(path.read_text())
    records = [committed()[run_id] for run_id in [*file["records"], *file.get("controls", [])]]
    reproduction = reproductions()[file["figure"]]
    judged = [one.judge(records).to_json(reproduction.cost) for one in reproduction.claims]
    assert json.loads(json.dumps(judged)) == file["claims"]
