"""The committed records as they lie: every figure comes of them, and none is of other code."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from bench.records.equivalence import code_status
from bench.records.schema import RunRecord
from core.errors import OK
from leaderboards.build import FOLDER
from reproduce.__main__ import reproductions
from reproduce.command import main
from reproduce.plotting.panels import Picture
from tests.committed import committed_records
from tests.reproduce.drawing.rendering import (
    assert_every_number_is_in_the_dump,
    draw_without_layout,
)

FIGURES = reproductions()
DRAWN = [
    (name, preset)
    for name, preset in (path.stem.rsplit("-", 1) for path in sorted(FOLDER.glob("verdicts/*")))
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "preset"), DRAWN)
def test_every_figure_with_committed_verdicts_is_drawn_from_the_whole_folder(
    name: str, preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(folders: list[Path]) -> Iterator[RunRecord]:
        """Once for all figures: the records of the folders that a figure asks for."""
        places = {(folder.parent.name, folder.name) for folder in folders}
        return (r for r in committed_records() if (r.task, r.preset) in places)

    figures: list[Figure] = []

    def saved(figure: Figure, salt: str) -> dict[str, bytes]:
        """Without an image: making one takes as long as all else, and test_drawing makes some."""
        figures.append(figure)
        return {}

    monkeypatch.setattr("reproduce.plotting.renderer.saved", saved)
    monkeypatch.setattr("reproduce.plotting.renderer._settle", draw_without_layout)
    monkeypatch.setattr("reproduce.obtaining.read_records", read)
    words = [f"preset={preset}", f"records={FOLDER / 'records'}", f"store={tmp_path}"]
    assert main([name, *words], FIGURES) == OK
    folder = tmp_path / "reproductions" / name / preset
    judged = json.loads((folder / "verdicts.json").read_text())
    known = json.loads((FOLDER / "verdicts" / f"{name}-{preset}.json").read_text())
    for part in ("records", "claims"):  # the claims of today say so of the records of today
        assert judged[part] == known[part]
    assert_every_number_is_in_the_dump(*figures, Picture.read(folder / "curves.json"))


def test_no_committed_record_is_of_an_earlier_form() -> None:
    forms = {r.run_id: code_status(r.config, r.provenance) for r in committed_records()}
    assert [run_id for run_id, one in forms.items() if one == "stale"] == []


def test_what_makes_runs_imports_no_database(run_command) -> None:
    script = (
        "import sys; import reproduce.making; "
        "assert not {'torch', 'sqlalchemy', 'joblib'} & set(sys.modules)"
    )
    done = run_command("-c", script)
    assert done.returncode == OK, done.stderr
