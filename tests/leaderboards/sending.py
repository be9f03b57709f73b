"""Committed records to send, to change and to seal again."""

import json
from pathlib import Path

import pytest

from bench.records.equivalence import code_status
from bench.records.provenance import sha256_of
from bench.records.schema import read_record
from tests.committed import committed_paths
from tests.leaderboards.forging.changes import Content

SAID = ["who=Ada", "contact=ada@example.org", "licence=CC-BY-4.0"]
SAID += ["training_data=generated anew in every run", "contamination=none: the test is generated"]


def current(pattern: str, role: str = "") -> Path:
    """The first committed record that this checkout can make."""
    for path in committed_paths(pattern):
        record = read_record(path)
        made_here = code_status(record.config, record.provenance) != "stale"
        if made_here and record.outcome == "ok" and record.role in (role or ("final", "single")):
            return path
    pytest.skip(f"no record of {pattern} is of the code that is here")


def sealed(content: Content, folder: Path) -> Path:
    content.pop("content_sha256", None)
    path = folder / f"{content['run_id']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**content, "content_sha256": sha256_of(content)}))
    return path
