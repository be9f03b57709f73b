"""``python -m reproduce repeats``: committed runs that are older runs made again.

What a run with the seed, data and settings of an earlier one says was largely known, even where
changed code gave other numbers, so it confirms no claim, whenever it began.
``leaderboards/repeats.json`` says of each when the first of its kind began. Git knows the earlier
ones, whose files are gone.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, RootModel

from bench.records.provenance import SECONDS_FOR_GIT
from bench.records.record_files import packed_in, records_below
from bench.records.schema import RunRecord, json_of
from bench.records.segments import SUFFIX, all_lines, records_of
from bench.records.store import COMMITTED
from core.errors import OK, VERIFICATION_FAILED, UserError
from core.files import ROOT, write_atomically
from core.reading import Kind

REPEATS = COMMITTED.parent / "repeats.json"
SECTIONS = ("tasks", "models", "training")
WITHOUT_EFFECT = {"_target_", "validate_every"}  # on what is trained
COMPARED = ("run_id", "task", "model", "preset", "seed", "label", "config", "provenance")
FORMS = (".json", SUFFIX)  # of a file with one record, or with many
XZ = b"\xfd7zXZ\x00"  # how a segment begins
CLAIMED = re.compile(rb'"content_sha256": "([0-9a-f]{64})"')
MARK = "commit:"  # before the hash, in what git is asked for
HELP = """\
usage: python -m reproduce repeats [update=true]

  whether leaderboards/repeats.json has the committed records that repeat one of before, with the
  same seed, data and settings (exit code 4 if not): such a run confirms no claim
  update=true   write them there; `python -m reproduce verdicts update=true` next"""


def began(record: RunRecord) -> datetime:
    """When a run began, or the first that it repeats."""
    return began_at(record.run_id, record.provenance.started_at)


def began_at(run_id: str, started_at: str) -> datetime:
    """The same of a run that says of itself when it was started."""
    first = _first_starts(REPEATS, REPEATS.stat().st_mtime_ns) if REPEATS.exists() else {}
    return first.get(run_id, moment(started_at))


def moment(text: str) -> datetime:
    """The time that ISO 8601 says; without a zone it is UTC."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


class _FirstRuns(RootModel[dict[str, AwareDatetime]]):
    """Run id -> when the first of its kind began."""


@lru_cache(maxsize=4)
def _first_starts(path: Path, _changed: int) -> dict[str, datetime]:
    """Run id -> when the first of its kind began, as a table has it that changed at a time."""
    table = Kind("table of repeats", _FirstRuns, "restore it from version control")
    return table.read_json(path).root


def main(update: bool) -> int:
    """Compare the file with git, or write it. Exit code 4: compared, and a repeat is missing."""
    start_by_run = repeats(ROOT)
    content = json.dumps(start_by_run, indent=0, sort_keys=True) + "\n"
    if start_by_run is None:
        print(f"git does not know here what was removed: {REPEATS.name} was not compared")
    elif REPEATS.exists() and REPEATS.read_text() == content:
        print(f"{REPEATS.name} holds all {len(start_by_run)} repeats")
    elif update:
        write_atomically(REPEATS, content.encode())
        print(f"{REPEATS.name} holds {len(start_by_run)} repeats now")
    else:
        raise UserError(
            f"{REPEATS.name} does not hold the {len(start_by_run)} repeats that git knows: "
            "`python -m reproduce repeats update=true` writes them",
            VERIFICATION_FAILED,
        )
    return OK


def repeats(root: Path) -> dict[str, str] | None:
    """Run id -> when the first run of its kind began, of all records of a checkout that repeat one
    that is there, or was before. None where git does not know all that was there before.

    Settings that only one of the two has are not compared: code that was added has more of them.
    """
    folder = COMMITTED.relative_to(ROOT)
    try:
        if _git(root, "rev-parse", "--is-shallow-repository") != b"false\n":
            return None
        # A clone with --filter=blob:none would fetch thousands of blobs, one after the other.
        if b".promisor=true" in _git(root, "config", "--list"):
            return None
        current = _packed(root / folder)
        before = [_told(content) for content in _before(root, folder, current)]
        before += [_told(content) for content in _withdrawn(root / folder, current)]
    except (OSError, subprocess.SubprocessError):
        return None
    committed = [_told(json_of(path)) for path in records_below(root / folder)]
    alike: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in (*before, *committed):
        alike[_kind(record)].append(record)
    start_by_run = {}
    for repeat in committed:
        first = min(
            _start(older) for older in alike[_kind(repeat)] if _same_settings(repeat, older)
        )
        if first < _start(repeat):
            start_by_run[repeat["run_id"]] = first
    return start_by_run


def _told(content: bytes) -> dict[str, Any]:
    """What of a record is compared: not its numbers, which would fill the memory."""
    record = json.loads(content)
    return {key: record[key] for key in COMPARED if key in record}


def _start(record: Mapping[str, Any]) -> str:
    return moment(record["provenance"]["started_at"]).astimezone(UTC).isoformat()


def _kind(record: Mapping[str, Any]) -> str:
    """What a run is but for its settings, as text: data, task, model, preset, seed and label."""
    parts = (record.get(key) for key in ("task", "model", "preset", "seed", "label"))
    return json.dumps([record["provenance"]["data"], *parts], sort_keys=True)


def _same_settings(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    for section in SECTIONS:
        settings = first["config"].get(section) or {}
        others = second["config"].get(section) or {}
        # A setting of newer code is in one of them alone, and says nothing of the other.
        compared = (settings.keys() & others.keys()) - WITHOUT_EFFECT
        if any(settings[key] != others[key] for key in compared):
            return False
    return True


def _withdrawn(folder: Path, current: Collection[str]) -> Iterator[bytes]:
    """The records of segments that count no more.

    Args:
        current: content hashes of those that do.
    """
    for segment in sorted(folder.rglob(f"*{SUFFIX}")):
        for record in records_of(segment).values():
            if record.content_sha256 not in current:
                yield record.line()


def _packed(folder: Path) -> set[str]:
    """The content hashes of the records of all segments that count."""
    hashes: set[str] = set()
    for place in {segment.parent for segment in folder.rglob(f"*{SUFFIX}")}:
        hashes.update(record.content_sha256 for record in packed_in(place).values())
    return hashes


def _before(root: Path, folder: Path, current: Collection[str]) -> Iterator[bytes]:
    """Every record that a commit, or what is not committed yet, removed or wrote anew: as it was
    before that.

    Args:
        current: content hashes of records that are there in another form, and are left out.
    """
    names = ("--no-renames", "--diff-filter=DM", "--name-only", "-z")
    # All history: without the word, git leaves out what a merged branch removed.
    log = _git(root, "log", "--full-history", *names, f"--format={MARK}%H", "--", str(folder))
    commit, blob_names = "", []
    for text in log.decode().split("\0"):
        mark, has_commit, rest = text.strip().partition(MARK)
        if has_commit:
            commit = rest
        elif mark.endswith(FORMS):
            blob_names.append(f"{commit}^:{mark}")
    now = _git(root, "diff", *names, "HEAD", "--", str(folder)).decode().split("\0")
    blob_names += [f"HEAD:{path}" for path in now if path.endswith(FORMS)]
    seen = set()
    at_once = 500  # files that git is asked for
    for start in range(0, len(blob_names), at_once):
        for content in _contents(root, blob_names[start : start + at_once]):
            if (sha256 := hashlib.sha256(content).digest()) not in seen:
                seen.add(sha256)
                if content.startswith(XZ):
                    yield from all_lines(content)
                    continue
                claimed = CLAIMED.search(content)
                if claimed is None or claimed[1].decode() not in current:
                    yield content


def _contents(root: Path, blob_names: Iterable[str]) -> list[bytes]:
    """The blobs of these names; what is none, as the parent of a first commit, is left out."""
    answer = _git(root, "cat-file", "--batch", standard_input="\n".join(blob_names).encode())
    place, blobs = 0, []
    while place < len(answer):
        end = answer.index(b"\n", place)
        head = answer[place:end]
        place = end + 1
        if not head.endswith(b" missing"):
            size = int(head.rsplit(b" ", 1)[1])
            blobs.append(answer[place : place + size])
            place += size + 1
    return blobs


def _git(root: Path, *arguments: str, standard_input: bytes = b"") -> bytes:
    """What git says of this checkout, whatever its user has set."""
    usual = ("-c", "log.showSignature=false", "-c", "diff.relative=false")
    return subprocess.run(
        ["git", "-C", str(root), *usual, *arguments],
        input=standard_input,
        capture_output=True,
        check=True,
        timeout=SECONDS_FOR_GIT,
    ).stdout
