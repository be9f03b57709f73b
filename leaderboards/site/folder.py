"""The folder of a site: a list of its files says what an export may replace, and nothing else is
touched."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.errors import UserError
from core.files import make_folder, write_atomically
from core.reading import Kind

LIST = "export.json"
_NAME = r"\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*"  # no "..", so that no place is outside
Place = Annotated[str, Field(pattern=f"^{_NAME}(/{_NAME})*$", max_length=300)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class SiteFiles(BaseModel):
    """The files of a site. While an export writes, a file may be the old one or the new one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    board: Digest
    files: dict[Place, list[Digest]]

    def to_json(self) -> bytes:
        """What the list holds, for people too."""
        return json.dumps(self.model_dump(mode="json"), indent=1, sort_keys=True).encode() + b"\n"


EXPORT = Kind("export", SiteFiles, "give a folder that is new, or empty, or an export", most=2**26)


def write(target: Path, board: str, files: Iterable[tuple[str, bytes]]) -> tuple[int, int]:
    """Let ``target`` be the site of these files. They wait beside it until all of them are made,
    so that a failure leaves the last site as it was.

    Returns:
        How many files there are, and how many of them were written or taken away.

    Raises:
        UserError: the folder is not an export, or somebody changed a file of it.
    """
    old = exported_files(target)
    make_folder(target.parent)
    waiting = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        new = {}
        for place, content in files:
            path = waiting / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            new[place] = hashlib.sha256(content).hexdigest()
        return len(new), _put(target, waiting, board, old, new)
    finally:
        shutil.rmtree(waiting, ignore_errors=True)


def exported_files(target: Path) -> Mapping[str, list[str]]:
    """The files of the export that is at ``target``; none where nothing is.

    Raises:
        UserError: something else is there.
    """
    if not target.exists() and not target.is_symlink():
        return {}
    if not target.is_dir():
        raise UserError(f"{target} is a file: {EXPORT.how}")
    if not any(target.iterdir()):
        return {}
    if not (target / LIST).exists():
        raise UserError(
            f"{target} holds files and is not an export (it has no {LIST}), so nothing there was "
            f"touched: {EXPORT.how}"
        )
    return EXPORT.read_json(target / LIST).files


def _put(
    target: Path, waiting: Path, board: str, old: Mapping[str, list[str]], new: Mapping[str, str]
) -> int:
    hash_by_place = {place: _sha256(target / place) for place in {*old, *new}}
    for place, found in sorted(hash_by_place.items()):
        if found is not None and found not in (*old.get(place, ()), new.get(place)):
            raise UserError(
                f"{target / place} is not what an export wrote, so nothing was touched: move it "
                "away, then give the same command again"
            )
    lost = [place for place in old if place not in new and hash_by_place[place] is not None]
    changed = [place for place, digest in new.items() if hash_by_place[place] != digest]
    either = {place: list(old.get(place, ())) for place in hash_by_place}
    for place, digest in new.items():
        either[place] += [digest] * (digest not in either[place])
    make_folder(target)
    write_atomically(target / LIST, SiteFiles(board=board, files=either).to_json())
    for place in changed:
        path = target / place
        path.parent.mkdir(parents=True, exist_ok=True)
        (waiting / place).replace(path)
    for place in lost:
        (target / place).unlink()
        folder = (target / place).parent
        while folder != target and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
    final = {place: [digest] for place, digest in new.items()}
    write_atomically(target / LIST, SiteFiles(board=board, files=final).to_json())
    return len(changed) + len(lost)


def _sha256(path: Path) -> str | None:
    """The hash of a file; None where none is."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return ""  # nobody's hash: an export writes neither links nor folders there
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
