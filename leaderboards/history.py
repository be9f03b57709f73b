"""``python -m leaderboards.history FROM..TO``: whether commits changed code alone.

Of each commit, beside its first parent: no record is made by other code, every verdict is what it
was, and every row of the board that is made from the same records has the numbers that it had. What
both have is read from git. Only what a commit touched is looked at, and a commit that was looked at
once is known.
"""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pyarrow import parquet

from bench.records.code import forget_code
from bench.records.equivalence import IN_CHECKOUT, Code, current_name
from bench.records.provenance import SECONDS_FOR_GIT
from bench.records.record_files import records_below
from bench.records.schema import Provenance, json_of
from core.amounts import amount
from core.errors import OK, VERIFICATION_FAILED, UserError, command
from core.escaping import terminal
from core.files import ROOT
from core.places import readable
from core.processes import module_command
from core.words import command_line
from leaderboards.arguments import Arguments, read

HELP = """\
usage: python -m leaderboards.history FROM..TO [folder=PATH] [recompute=last|each|none]

  every commit after FROM up to TO, each beside its first parent: stale records,
  verdicts that changed, rows of the board that are made from the same records and have other
  numbers. A changed verdict is only listed where the commit's message, or what it adds to
  docs/ or reproduce/claims/history.yaml, names the claim. Exit code 4 if there is anything else.
  folder=PATH      what is known of commits, and the checkout in which they are looked at (default
                   runs/history); the same command goes on where it was stopped
  recompute=last   TO's own commands make the verdicts and the board again, and find them equal;
                   each: those of every commit that touches code; none: of none
example: python -m leaderboards.history main..HEAD"""

CODE = ("models/", "tasks/")  # which makes records
RECORDS, VERDICTS = "leaderboards/records/", "leaderboards/verdicts/"
ROWS = "leaderboards/board.parquet/rows/"
REASONS = ("docs/", "reproduce/claims/history.yaml")  # where it is told why a verdict changed
WITHOUT_EFFECT = ("docs/", "tests/", "findings/")  # on what is computed
NUMBERS = ("mean", "low", "high", "seeds", "items", "parameters", "state_bytes", "trials")
OWN_COMMANDS = (
    ("reproduce", ["verdicts"]),
    ("leaderboards.build", ["--check"]),
    ("leaderboards.readme", ["--check"]),
)


def look_at_commits(arguments: Arguments) -> int:
    """Exit code 0 where every commit changed code alone, 4 where one did not."""
    recompute = arguments.one("recompute", "last")
    if len(arguments.names) != 1 or ".." not in arguments.names[0]:
        raise UserError("name a range of commits, such as main..HEAD; --help explains")
    if recompute not in ("last", "each", "none"):
        raise UserError(f"recompute={recompute} is none of last, each and none")
    commit_range = arguments.names[0]
    commits = _git("rev-list", "--reverse", "--topo-order", commit_range).decode().split()
    if not commits:
        print(f"there is no commit in {commit_range}")
        return OK
    history = History(arguments.place("folder", "runs/history"))
    wrong = 0
    for commit in commits:
        computes = recompute == "each" or (recompute == "last" and commit == commits[-1])
        faults, listed = history.faults(commit, computes)
        title = _git("show", "-s", "--format=%h %s", commit).decode().strip()
        print(f"{'differs' if faults else 'same'}: {terminal(title)}")
        for line in (*faults, *(f"named by the commit: {line}" for line in listed)):
            print(f"  {terminal(line)}")
        wrong += bool(faults)
    print(f"{len(commits) - wrong} of {amount(len(commits), 'commit')} changed code alone")
    return VERIFICATION_FAILED if wrong else OK


class History:
    """What is known of commits, kept in a folder.

    Attributes:
        known: commit -> its faults, its changed verdicts that it names, and whether its own
            commands were run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkout, self.file = folder / "checkout", folder / "commits.jsonl"
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        self.known = {entry["commit"]: entry for entry in map(json.loads, lines)}

    def faults(self, commit: str, recompute: bool) -> tuple[list[str], list[str]]:
        """What differs from the first parent: what nobody named, and what the commit names."""
        entry = self.known.get(commit)
        if entry is None or (recompute and not entry["recomputed"]):
            entry = self._look(commit, recompute)
            self.folder.mkdir(parents=True, exist_ok=True)
            with self.file.open("a") as file:
                file.write(json.dumps(entry) + "\n")
            self.known[commit] = entry
        return entry["faults"], entry["listed"]

    def _look(self, commit: str, recompute: bool) -> dict[str, Any]:
        parent = f"{commit}^1"
        touched = _git("diff", "--name-only", "-z", parent, commit).decode().split("\0")[:-1]
        faults: list[str] = []
        listed: list[str] = []
        if any(path.startswith((*CODE, RECORDS, str(IN_CHECKOUT))) for path in touched):
            self._check_out(commit)
            faults += stale_records(self.checkout)
        verdicts = [path for path in touched if path.startswith(VERDICTS)]
        named = _reasons_of(commit) if verdicts else ""
        for claim, change in changed_verdicts(parent, commit, verdicts):
            (listed if claim in named else faults).append(change)
        computes = False
        for path in touched:
            if path.startswith(ROWS):
                faults += changed_numbers(_rows(parent, path), _rows(commit, path))
            computes |= not path.startswith(WITHOUT_EFFECT)
        if recompute and computes:
            self._check_out(commit)
            faults += self._refused_by_own_commands()
        return {"commit": commit, "faults": faults, "listed": listed, "recomputed": recompute}

    def _check_out(self, commit: str) -> None:
        """The commit in a clone of its own, so that nothing here is touched."""
        if not self.checkout.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            clone = ("clone", "--quiet", "--shared", "--no-checkout")
            _git(*clone, str(ROOT), str(self.checkout))
        _git("-C", str(self.checkout), "checkout", "--quiet", "--force", "--detach", commit)

    def _refused_by_own_commands(self) -> Iterator[str]:
        for module, words in OWN_COMMANDS:
            ended = subprocess.run(
                module_command(module, words, self.checkout),
                cwd=self.checkout,
                capture_output=True,
                text=True,
                check=False,
            )
            if ended.returncode:
                last = (ended.stderr or ended.stdout).strip().splitlines()[-1:]
                yield f"python -m {module} {' '.join(words)}: {''.join(last)}"


def stale_records(root: Path) -> list[str]:
    """Committed records of a checkout that were made by code which is neither there nor proven
    equal by its table of equivalences: how many of each task and model."""
    forget_code()  # of the commit that was here before
    current: dict[str, bool] = {}
    counts: dict[str, int] = {}
    for path in records_below(root / RECORDS):
        record = json.loads(json_of(path))
        provenance = Provenance.model_validate(record["provenance"])
        code = Code.of(record["config"], provenance)
        choices = [record["config"].get(section) for section in ("tasks", "models")]
        key = json.dumps([code.model_dump(), choices], sort_keys=True)
        if key not in current:
            current[key] = current_name(record["config"], provenance, root) is not None
        if not current[key]:
            kind = f"{record['task']}, {record['model']}"
            counts[kind] = counts.get(kind, 0) + 1
    return [f"{amount(count, 'stale record')}: {kind}" for kind, count in counts.items()]


def changed_verdicts(before: str, after: str, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Claims whose verdict another commit has otherwise, or has no more, each in words."""
    for path in paths:
        old, new = _verdicts(before, path), _verdicts(after, path)
        for claim, verdict in old.items():
            if new.get(claim) != verdict:
                now = new.get(claim, "gone")
                yield claim, f"{Path(path).stem}, {claim}: {verdict} before, {now} now"


def changed_numbers(
    before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]
) -> Iterator[str]:
    """Rows that are made from the same records and have other numbers, or are gone and
    no row of the metric has one of their records; each in words."""
    old = {_row_key(row): row for row in before}
    new = {_row_key(row): row for row in after}
    used: set[tuple[str, str]] = set()
    for row in new.values():
        used.update((row["metric"], run) for run in row["run_ids"])
    for key, row in old.items():
        place = ", ".join(str(row[name]) for name in ("task", "preset", "label", "metric"))
        if key in new:
            for name in NUMBERS:
                if row.get(name) != new[key].get(name):
                    yield f"{place}: {name} {row.get(name)} before, {new[key].get(name)} now"
        elif row["run_ids"] and not any((row["metric"], run) in used for run in row["run_ids"]):
            yield f"{place}: gone"


def _row_key(row: Mapping[str, Any]) -> str:
    """What a row is made from: its runs, or where it was published."""
    keys = ("task", "preset", "metric", "kind", "run_ids")
    published = () if row["run_ids"] else ("variant", "model", "label", "setting", "source")
    return json.dumps([row[key] for key in (*keys, *published)], default=list)


def _verdicts(commit: str, path: str) -> dict[str, str]:
    content = _blob(commit, path)
    claims = json.loads(content)["claims"] if content else []
    return {claim["name"]: claim["verdict"] for claim in claims}


def _rows(commit: str, path: str) -> list[dict[str, Any]]:
    content = _blob(commit, path)
    if content is None:
        return []
    rows: list[dict[str, Any]] = parquet.read_table(io.BytesIO(content)).to_pylist()
    return rows


def _reasons_of(commit: str) -> str:
    """The message of a commit, and what it adds where reasons are told."""
    message = _git("show", "-s", "--format=%B", commit).decode()
    added = _git("diff", "--unified=0", f"{commit}^1", commit, "--", *REASONS).decode()
    lines = (line[1:] for line in added.splitlines() if line.startswith("+"))
    return " ".join(f"{message} {' '.join(lines)}".split())


def _blob(commit: str, path: str) -> bytes | None:
    """A file of a commit; None if it has none."""
    if not _git("ls-tree", commit, "--", path):
        return None
    return _git("show", f"{commit}:{path}")


def _git(*arguments: str) -> bytes:
    """What git says of this checkout.

    Raises:
        UserError: git is not there, or refuses.
    """
    try:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, check=True, timeout=SECONDS_FOR_GIT
        ).stdout
    except OSError as error:
        raise UserError(f"git cannot be asked here: {error}") from None
    except subprocess.CalledProcessError as error:
        text = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise UserError(
            f"git refuses: {text} ({readable(ROOT)}); a shallow clone gets the rest of the history "
            "by git fetch --unshallow"
        ) from None


READ = partial(read, settings=("folder", "recompute"), takes_names=True)
main = command_line(HELP, READ, look_at_commits)


if __name__ == "__main__":
    command(main)
