"""Who made a number: hashes of code, data and libraries, the device, the commit, the command."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Collection
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench.records.schema import Provenance
from ground.files import ROOT

PLACES = ("store", "output")  # words of a command that name a place on this machine
# Raised whenever the engine's own behaviour changes a result (an optimiser rule, a schedule, the
# seeding of steps): it is part of a run's identity, so that no older result is served as current.
PROTOCOL_VERSION = 1
# The libraries that compute: another version of one of them is another identity.
COMPUTING_LIBRARIES = ("lightning", "numpy", "torch")


def library_versions() -> dict[str, str]:
    """Versions of the libraries that compute, and of Python (major and minor)."""
    versions = {name: importlib.metadata.version(name) for name in COMPUTING_LIBRARIES}
    versions["python"] = ".".join(platform.python_version_tuple()[:2])
    return versions


def sha256_of(value: Any) -> str:
    """SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1)
def commit_and_dirty() -> tuple[str | None, bool | None]:
    """The checked-out commit and whether code or settings differ from it; None outside of git."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # A new file that git does not know yet is not in the commit either.
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", "*.py", "*.yaml"))
    except (OSError, subprocess.CalledProcessError):
        return None, None


def processor() -> str:
    """The name of the processor, as far as the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def collect(
    *,
    model_code: str,
    task_code: str,
    data: dict[str, str],
    precision: str,
    device_class: str,
    started: datetime,
    locations: Collection[str] = (),
) -> Provenance:
    """The provenance of a run on this machine.

    Args:
        locations: arguments of the task that name places on this machine; records are published,
            so the command that they keep says PATH instead.
    """
    libraries = library_versions()
    commit, dirty = commit_and_dirty()
    return Provenance(
        model_code=model_code,
        task_code=task_code,
        data=data,
        library_lock=sha256_of(libraries),
        libraries=libraries,
        precision=precision,
        device_class=device_class,
        protocol_version=PROTOCOL_VERSION,
        device=processor() if device_class == "cpu" else device_class,
        platform=platform.platform(),
        python=platform.python_version(),
        commit=commit,
        dirty=dirty,
        command=_command(locations),
        started_at=started.astimezone(UTC).isoformat(timespec="seconds"),
    )


def _command(locations: Collection[str] = ()) -> str:
    words = [*_program(), *(without_place(word, locations) for word in sys.argv[1:])]
    # Records are published.
    return re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:***@", shlex.join(words))


def _program() -> list[str]:
    """``python -m MODULE`` for a command of the project, in its worker processes too: these know
    the file of the command but run another module."""
    path = Path(sys.argv[0]).resolve()
    if path.suffix == ".py" and path.is_relative_to(ROOT):
        names = path.relative_to(ROOT).with_suffix("").parts
        if all(name.isidentifier() for name in names):  # no file of an environment that lies here
            return ["python", "-m", ".".join(names).removesuffix(".__main__")]
    return [path.name]


def without_place(word: str, locations: Collection[str]) -> str:
    """A word of a command that says PATH where it names a place on this machine."""
    key, equals, _ = word.partition("=")
    place = key in PLACES or key.removeprefix("tasks.") in locations
    return f"{key}=PATH" if equals and place else word
