"""``python -m reproduce untrained``: twins of a sweep's final runs."""

from pathlib import Path

import pytest

from bench.config.command_line import read
from bench.records.schema import read_records
from bench.search.driver import records_of
from core.errors import OK, UserError
from core.progress import silent
from reproduce.claims.controls import UNTRAINED
from reproduce.untrained import main
from tests.configurations import make_plan


def test_untrained_twins_of_a_sweep_stand_beside_its_final_runs(tmp_path: Path, capsys) -> None:
    words = ["tasks=regbench", "models=lstm", "preset=smoke", "sweep.seeds=2", "workers=0"]
    words += ["tasks.validation_size=8", "tasks.test_size=8", "sweep.n_trials=1"]
    words += ["training.steps=2", "training.validate_every=1", f"store={tmp_path}"]
    finals = [run for run in records_of(make_plan(words), silent) if run.role == "final"]
    assert main(read(words)) == OK
    twins = list(read_records([tmp_path / "controls"]))
    assert UNTRAINED.untrained_runs(finals, twins) == sorted(twins, key=lambda one: one.run_id)
    assert {(one.model, one.seed) for one in twins} == {(one.model, one.seed) for one in finals}
    assert {one.cost.training_steps for one in twins} == {1}
    assert len(capsys.readouterr().out.splitlines()) >= len(twins) == 2
    with pytest.raises(UserError, match="no network of this task is trained by the engine"):
        main({"tasks": "capacity", "store": str(tmp_path)})
