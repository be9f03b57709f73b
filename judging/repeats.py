"""``python -m reproduce repeats``: committed runs that are older runs made again.

A run with the seed, data and settings of one that was committed before draws the same random
numbers. It predicts nothing, whenever it began. ``leaderboards/repeats.json`` says of each when the
first of its kind began. Git knows the older ones, whose files are gone.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench.records.schema import RunRecord
from bench.records.store import COMMITTED
from ground.errors import OK, VERIFICATION_FAILED, UserError
from ground.files import ROOT, write_atomically

REPEATS = COMMITTED.parent / "repeats.json"
SECTIONS = ("tasks", "models", "training")
HELP = """\
usage: python -m reproduce repeats [update=true]

  say which committed records repeat a run that was committed before, with the same seed, data and
  settings, and are not in leaderboards/repeats.json (exit code 4): such a run confirms no claim
  update=true   write them there; `python -m reproduce verdicts update=true` next"""


def began(record: RunRecord) -> datetime:
    """When a run began, or the first that it repeats."""
    started = moment(record.provenance.started_at)
    first = _known(REPEATS, REPEATS.stat().st_mtime_ns) if REPEATS.exists() else {}
    return min(started, first.get(record.run_id, started))


def moment(text: str) -> datetime:
    """The time that ISO 8601 says; without a zone it is UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@lru_cache(maxsize=4)
def _known(path: Path, _changed: int) -> dict[str, datetime]:
    return {run_id: moment(first) for run_id, first in json.loads(path.read_text()).items()}


def main(words: Sequence[str]) -> int:
    """Compare the file with git, or write it. Exit code 4: compared, and a repeat is missing."""
    if list(words) not in ([], ["update=true"]):
        raise UserError(f"'{' '.join(words)}' cannot be given here\n{HELP}")
    known = json.loads(REPEATS.read_text()) if REPEATS.exists() else {}
    here = {path.stem for path in COMMITTED.rglob("*.json")}
    now = {run_id: first for run_id, first in known.items() if run_id in here}
    for run_id, first in repeats(ROOT).items():
        now[run_id] = min(first, now.get(run_id, first))
    if now == known:
        print(f"{REPEATS.name} holds all {len(known)} repeats")
    elif words:
        content = json.dumps(now, indent=0, sort_keys=True) + "\n"
        write_atomically(REPEATS, content.encode())
        print(f"{REPEATS.name} holds {len(now)} repeats, {len(known)} before")
    else:
        raise UserError(
            f"{REPEATS.name} holds {len(known)} repeats, and there are {len(now)}: "
            "`python -m reproduce repeats update=true` writes them",
            VERIFICATION_FAILED,
        )
    return OK


def repeats(root: Path) -> dict[str, str]:
    """Run id -> when the first run of its kind began, of all records of a checkout that repeat one
    whose file was removed. Without git or history there are none."""
    folder = root / COMMITTED.relative_to(ROOT)
    removed: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for content in _removed(root, folder.relative_to(root)):
        removed[_kind(content)].append(content)
    found = {}
    for path in folder.rglob("*.json") if removed else ():
        own = json.loads(path.read_text())
        starts = [_start(one) for one in removed.get(_kind(own), ()) if _same_settings(own, one)]
        if starts and min(starts) < _start(own):
            found[own["run_id"]] = min(starts)
    return found


def _start(record: Mapping[str, Any]) -> str:
    return moment(record["provenance"]["started_at"]).astimezone(UTC).isoformat()


def _kind(record: Mapping[str, Any]) -> str:
    """What fixes the random numbers, but for the settings."""
    keys = ("task", "model", "preset", "seed", "role", "label")
    return json.dumps([record["provenance"]["data"], *map(record.get, keys)], sort_keys=True)


def _same_settings(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether all settings that both have are equal: later code may have more of them."""
    for section in SECTIONS:
        own, old = (config.get(section) or {} for config in (one["config"], other["config"]))
        if any(own[key] != old[key] for key in own.keys() & old.keys() - {"_target_"}):
            return False
    return True


def _removed(root: Path, folder: Path) -> Iterator[Mapping[str, Any]]:
    """Every record that a commit behind this one removed, as it last was."""
    words = ["log", "--no-renames", "--diff-filter=D", "--format=%H", "--name-only", "--"]
    try:
        lines = _git(root, *words, str(folder)).decode().splitlines()
    except (OSError, subprocess.CalledProcessError):
        return
    commit, asked = "", []
    for line in filter(None, lines):
        if line.endswith(".json"):
            asked.append(f"{commit}^:{line}")
        else:
            commit = line
    yield from map(json.loads, dict.fromkeys(_contents(root, asked)))


def _contents(root: Path, asked: Iterable[str]) -> Iterator[bytes]:
    """The blobs of these names; one that a shallow clone lacks is left out."""
    answer = _git(root, "cat-file", "--batch", given="\n".join(asked).encode())
    place = 0
    while place < len(answer):
        end = answer.index(b"\n", place)
        head = answer[place:end]
        place = end + 1
        if not head.endswith(b" missing"):
            size = int(head.rsplit(b" ", 1)[1])
            yield answer[place : place + size]
            place += size + 1


def _git(root: Path, *words: str, given: bytes = b"") -> bytes:
    return subprocess.run(
        ["git", "-C", str(root), *words], input=given, capture_output=True, check=True
    ).stdout
