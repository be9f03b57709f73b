"""``python -m reproduce same``: whether claims and figures say what they said at another commit.

The code of a test may be put in another form. Its hash is then another one, and its claim would
count as edited after its runs. This command unpacks the commit, lets both states of the code judge
and draw from the same committed records, and compares every sentence and number: of each claim at
several levels, beside its control, by all records and by parts of them. A test of which all is
equal, and whose words are the same, is the same test; ``update=true`` writes so, with the commit,
into ``reproduce/claims/restated_tests.yaml``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from bench.records.equivalence import IN_CHECKOUT, TABLE, Code, Equivalence, read_file
from bench.records.record_files import records_below
from bench.records.schema import as_file
from bench.records.store import COMMITTED
from core.amounts import amount
from core.errors import OK, VERIFICATION_FAILED, UserError
from core.escaping import terminal
from core.files import ROOT, write_atomically
from reproduce.claims.frozen import RESTATED
from reproduce.usage import SAME as USAGE

CODE = ("core", "models", "tasks", "bench", "reproduce")
HEAD = """\
# Tests that were put in another form and judge as before: hash of a test -> its hash afterwards.
# Written by `python -m reproduce same commit=COMMIT update=true`, which compares both.
"""


def main(values: Mapping[str, str | None]) -> int:
    """Compare with a commit, or keep which tests are the same. Exit code 4: something differs."""
    commit, update = values.get("commit"), values.get("update", "false")
    if values.keys() - {"commit", "update"} or not commit or update not in ("true", "false"):
        typed = (key if value is None else f"{key}={value}" for key, value in values.items())
        raise UserError(f"'{' '.join(typed)}' cannot be given here\n{USAGE}")
    with tempfile.TemporaryDirectory() as folder:
        unpack(commit, Path(folder))
        before, after = judged_in(Path(folder)), judged_in(ROOT)
    lines = list(differences(before, after))
    for line in lines:
        print(terminal(line))
    if lines:
        raise UserError(
            f"{amount(len(lines), 'claim or figure says', 'claims or figures say')} something "
            f"else than at {commit}",
            VERIFICATION_FAILED,
        )
    same = restated(before, after)
    if same and update == "true":
        keep(commit, same)
    count = sum(len(figure["claims"]) for figure in after.values())
    written = f", as {RESTATED.name} says now" if same and update == "true" else ""
    print(
        f"all {count} claims and {len(after)} figures say what they said at {commit}; "
        f"{amount(len(same), 'test has', 'tests have')} another form{written}"
    )
    return OK


def unpack(commit: str, folder: Path) -> None:
    """The code of a commit, beside the records of this checkout and the proofs of equal code.

    Raises:
        UserError: git knows no such commit.
    """
    command = ["git", "-C", str(ROOT), "archive", commit, "--", *CODE]
    archived = subprocess.run(command, capture_output=True, check=False)
    if archived.returncode:
        reason = archived.stderr.decode(errors="replace").strip()
        raise UserError(
            f"commit={commit} cannot be unpacked ({reason}): give one of `git log`; a shallow "
            "clone gets the rest by git fetch --unshallow"
        )
    with tarfile.open(fileobj=BytesIO(archived.stdout)) as archive:
        archive.extractall(folder, filter="data")
    house = folder / COMMITTED.parent.name
    house.mkdir()
    for path in COMMITTED.parent.iterdir():
        if path not in (COMMITTED, TABLE):
            (house / path.name).symlink_to(path)
    _write_proofs(folder)
    for path in records_below(COMMITTED):  # code from before there were segments reads files
        place = house / path.relative_to(COMMITTED.parent)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(as_file(path))


def _write_proofs(folder: Path) -> None:
    """The proofs of this checkout, turned towards the code in ``folder``: a run that later code
    makes under another name, as after a file was moved, has the name there that it had."""
    paths = sorted(TABLE.glob("*.json"))
    tables = [read_file(path) for path in paths]
    turned = towards([*chain(*tables)], lambda code: code.is_current(folder))
    (folder / IN_CHECKOUT).mkdir()
    for path in paths:
        content = json.loads(path.read_text())
        for written, entry in zip(content["entries"], turned, strict=False):
            for side, code in (("old", entry.old), ("new", entry.new)):
                written[side] = code.model_dump(mode="json")
            if "moved" in written:
                written["moved"] = entry.moved
        (folder / IN_CHECKOUT / path.name).write_text(json.dumps(content))


def towards(
    entries: Sequence[Equivalence], is_current: Callable[[Code], bool]
) -> Iterator[Equivalence]:
    """Proofs that lead from any code to that which is current, later code included. One that adds
    a setting holds in one direction alone and stays as it is."""
    by_code: dict[Code, list[Equivalence]] = defaultdict(list)
    for entry in entries:
        for code in (entry.old, entry.new):
            by_code[code].append(entry)
    distance = dict.fromkeys(filter(is_current, by_code), 0)
    waiting = deque(distance)
    while waiting:
        code = waiting.popleft()
        for other in chain(*((entry.old, entry.new) for entry in by_code[code])):
            if other not in distance:
                distance[other] = distance[code] + 1
                waiting.append(other)
    for entry in entries:
        ends = (distance.get(code, len(entries)) for code in (entry.old, entry.new))
        if entry.added or next(ends) >= next(ends):
            yield entry
            continue
        back = {new: old for old, new in entry.moved.items()}
        yield entry.model_copy(update={"old": entry.new, "new": entry.old, "moved": back})


def judged_in(folder: Path) -> dict[str, Any]:
    """What all figures of a checkout say.

    Raises:
        UserError: its code does not run here.
    """
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "judgements.json"
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        script = Path(__file__).with_name("judgements.py")
        command = [sys.executable, str(script), str(path)]
        process = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if process.returncode:
            reason = process.stderr.strip().rpartition("\n")[2]
            raise UserError(f"the code in {folder} cannot judge the records: {reason}")
        return dict(json.loads(path.read_text()))


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """A line for each figure or claim that is new, gone or says something else."""
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            yield f"{name}: is {'new' if name in after else 'gone'}"
            continue
        old, new = before[name], after[name]
        for claim in sorted({*old["claims"], *new["claims"]}):
            claim_before, claim_after = old["claims"].get(claim, {}), new["claims"].get(claim, {})
            if {**claim_before, "test": ""} != {**claim_after, "test": ""}:
                yield f"{name}, {claim}: has other words"
        presets, old_presets = new.get("presets", {}), old.get("presets", {})
        if presets.keys() != old_presets.keys():
            yield f"{name}: has records of other presets"
            continue
        for preset, of_preset in presets.items():
            for part, sayings in old_presets[preset].items():
                for key in sorted(sayings):
                    if sayings[key] != of_preset[part][key]:
                        yield f"{name} at {preset}, {key}: is {part} otherwise"


def restated(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """The hash of each test at the commit, and the other one that it has now."""
    pairs = {}
    for name, figure in after.items():
        for claim, claim_now in figure["claims"].items():
            old = before[name]["claims"][claim]["test"]
            if old != claim_now["test"]:
                pairs[old] = claim_now["test"]
    return pairs


def keep(commit: str, pairs: Mapping[str, str]) -> None:
    """Add a comparison to those that were made."""
    command = ["git", "-C", str(ROOT), "rev-parse", commit]
    full = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    comparisons = yaml.safe_load(RESTATED.read_text()) if RESTATED.exists() else []
    comparisons = [
        *(comparisons or []),
        {"compared with": full, "same": dict(sorted(pairs.items()))},
    ]
    write_atomically(RESTATED, (HEAD + yaml.safe_dump(comparisons, sort_keys=False)).encode())
