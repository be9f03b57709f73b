"""What other code than that of a record can say of it: nothing."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.records.code import code_hash, forget_code
from bench.records.counted import Counted
from bench.records.schema import RunRecord, make_run_id, read_record
from bench.runs.recounting import recount
from leaderboards.verification import rerun as again
from leaderboards.verification.targets import RecordToVerify
from leaderboards.verification.verifier import Verifier
from tests.leaderboards.sending import current, sealed

MODEL = """
from models.lstm import LSTM


class Theirs(LSTM):
    FIRST = {first}
"""


@pytest.fixture
def honest() -> RunRecord:
    return read_record(current("state_tracking/smoke/state_tracking-lstm-*", "final"))


def made_by(record: RunRecord, model_code: str, folder: Path, **config: object) -> RunRecord:
    """The same run by other code of its model, in a store."""
    content = json.loads(record.model_dump_json())
    content["provenance"]["model_code"] = model_code
    content["config"]["models"].update(config)
    content["identity"] = model_code
    parts = ("task", "model", "preset", "identity", "seed")
    content["run_id"] = make_run_id(**{name: content[name] for name in parts})
    return read_record(sealed(content, folder / "records"))


def answered(words: Sequence[str], places: list[str]) -> again.Ended:
    """What a command leaves that answers so, in the file that it was told."""
    (output,) = (w.partition("=")[2].strip('"') for w in words if w.startswith("output="))
    Path(output).write_text(json.dumps(places))
    return again.Ended(0, "it said nothing")


def test_a_run_that_the_store_has_by_other_code_is_not_served(
    honest: RunRecord, tmp_path: Path
) -> None:
    """The command is what says which run it made; that of gone code has the same settings."""
    gone = made_by(honest, "f" * 64, tmp_path)

    def breaks(module: str, words: Sequence[str], limit: float) -> again.Ended:
        return again.Ended(1, "the model cannot be imported")

    assert again.Bench(tmp_path, command=breaks).run(honest) == "the model cannot be imported"
    here = made_by(honest, "e" * 64, tmp_path)

    def makes(module: str, words: Sequence[str], limit: float) -> again.Ended:
        return answered(words, [f"{tmp_path}/records/{here.run_id}.json"])

    made = again.Bench(tmp_path, command=makes).run(honest)
    assert isinstance(made, RunRecord)
    assert (made.run_id, gone.run_id != here.run_id) == (here.run_id, True)


def test_a_run_by_other_code_is_not_the_same_run(honest: RunRecord, tmp_path: Path) -> None:
    other = made_by(honest, "f" * 64, tmp_path)

    def makes(module: str, words: Sequence[str], limit: float) -> again.Ended:
        return answered(words, [f"{tmp_path}/records/{other.run_id}.json"])

    verifier = Verifier(again.Bench(tmp_path, command=makes), "re-run")
    asked = RecordToVerify(honest, tmp_path / "unused.json", to=tmp_path / "to")
    counted = {honest.run_id: Counted(run_id=honest.run_id, data=honest.provenance.data)}
    (found,) = verifier.verify([asked], counted)
    assert "the code of its model is other" in found.checks[-1].told
    assert not found.checks[-1].passed
    assert found.checks[-1].found == honest.headline.value  # the numbers alone would agree


def test_a_package_that_was_edited_counts_nothing(
    honest: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "package_of_theirs" / "model.py"
    file.parent.mkdir()
    (file.parent / "__init__.py").touch()
    file.write_text(MODEL.format(first=1))
    monkeypatch.syspath_prepend(tmp_path)
    target = "package_of_theirs.model.Theirs"
    theirs = made_by(honest, code_hash(target), tmp_path, _target_=target)
    theirs = theirs.model_copy(update={"model": "Theirs", "label": "Theirs"})
    counted = recount(theirs, trust="package_of_theirs")
    assert counted.cost is not None
    assert counted.cost.parameters == honest.cost.parameters
    untrusted = recount(theirs)
    assert untrusted.cost is None
    assert "of the package 'package_of_theirs'" in untrusted.uncounted
    file.write_text(MODEL.format(first=2))
    forget_code()
    sys.modules.pop("package_of_theirs.model", None)
    assert "the code of package_of_theirs" in recount(theirs, trust="package_of_theirs").refused


def test_what_was_not_counted_leaves_a_record_reported(honest: RunRecord, tmp_path: Path) -> None:
    asked = RecordToVerify(honest, tmp_path / "unused.json", to=tmp_path / "to")
    for uncounted, level in (("", "consistent"), ("its model is a stranger", "reported")):
        counts = Counted(run_id=honest.run_id, data=honest.provenance.data, uncounted=uncounted)
        verifier = Verifier(again.Bench(tmp_path), "consistent")
        (found,) = verifier.verify([asked], {honest.run_id: counts})
        assert found.level == level
        assert "sizes and FLOPs were not counted" in found.checks[-1].told
