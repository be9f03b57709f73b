"""Folders that are no submission, and the workflow that looks at them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.records.schema import as_file, read_record
from bench.records.store import Store
from core.errors import UserError
from core.files import ROOT
from leaderboards.verification.submission import FILE, read_submission
from tests.leaderboards.sending import SAID, current, sealed


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("evil.py", "which submission.yaml does not name"),
        ("link", "which submission.yaml does not name"),
        ("locations", "which submission.yaml does not name"),
        ("who: Ada", "is not a statement"),
        ("turned round", r"'\\u202e' is a character that cannot be seen"),
        ("who twice", "a key twice in line"),
        ("trials", "chosen from 3 trials, and its statement says 2"),
        ("source", "does not name"),
        ("hash", "another hash"),
        ("escape", "is not a statement"),
        ("weights", "are not those of the record"),
    ],
)
def test_a_folder_that_is_no_submission_is_refused_in_one_sentence(
    change: str, sentence: str, tmp_path: Path
) -> None:
    source = current("state_tracking/smoke/*", "final")
    record = read_record(source)
    content = json.loads(as_file(source))
    content["cost"]["tuning_trials"] = 3 if change == "trials" else record.cost.tuning_trials
    store = Store(tmp_path / "ada")
    path = sealed(content, store.records)
    target = record.config["models"]["_target_"]
    statement: dict[str, Any] = {
        "schema_version": 1,
        **dict(pair.split("=") for pair in SAID),
        "sources": {target: {"where": "here", "sha256": record.provenance.model_code}},
        "tuning_trials": 2 if change == "trials" else 99,
        "records": {record.run_id: read_record(path).content_hash()},
        "weights": {},
    }
    if change == "evil.py":
        (store.root / "evil.py").write_text("raise SystemExit('ran')")
    elif change == "link":
        (store.root / "work").symlink_to("/etc")
    elif change == "locations":
        (store.work(record.run_id)).mkdir(parents=True)
        (store.work(record.run_id) / "locations.json").write_text("{}")
    elif change == "who: Ada":
        del statement["who"]
    elif change == "source":
        statement["sources"] = {}
    elif change == "hash":
        statement["records"][record.run_id] = "0" * 64
    elif change == "escape":
        statement["records"] = {"../../../etc/passwd": "0" * 64}
    elif change == "weights":
        statement["weights"] = {record.run_id: {"sha256": record.weights_sha256, "address": None}}
        store.work(record.run_id).mkdir(parents=True)
        store.weights(record.run_id).write_bytes(b"other")
    elif change == "turned round":
        statement["who"] = "Ada \u202elivE"
    text = yaml.safe_dump(statement)
    (store.root / FILE).write_text(f"who: Eve\n{text}" if change == "who twice" else text)
    with pytest.raises(UserError, match=sentence) as refused:
        read_submission(store.root)
    assert "\n" not in str(refused.value)


def test_the_workflow_runs_nothing_of_a_pull_request() -> None:
    """It is started by the base's own file, checks out the base, and puts no text of a pull request
    into a script; the job that may comment sees one file and no code."""
    path = ROOT / ".github" / "workflows" / "verify_submission.yml"
    workflow = yaml.load(path.read_text(), yaml.BaseLoader)
    assert list(workflow["on"]) == ["pull_request_target"]
    assert workflow["permissions"] == {}
    jobs = workflow["jobs"]
    assert jobs["verify"]["permissions"] == {"contents": "read"}
    steps = [step for job in jobs.values() for step in job["steps"]]
    checkouts = [step["with"] for step in steps if "checkout" in step.get("uses", "")]
    assert [("ref" in w, w["persist-credentials"]) for w in checkouts] == [(False, "false")]
    assert not [step for step in steps if "${{" in step.get("run", "")]
    asked = [step for step in jobs["comment"]["steps"] if "checkout" in step.get("uses", "")]
    assert not asked
    given = re.findall(r"\$\{\{ *([\w.]+) *\}\}", path.read_text())
    text = ("title", "body", "head", "label", "login")
    assert not [name for name in given if any(part in name.split(".") for part in text)]
