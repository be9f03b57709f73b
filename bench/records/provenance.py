"""Who made a number: hashes of code, data and libraries, the device, the commit, the command."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import shlex
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench.records.schema import Provenance
from core.files import ROOT
from core.privacy import public_command, public_system

# Raised whenever the engine's own behaviour changes a result (an optimiser rule, a schedule, the
# seeding of steps): it is part of a run's identity, so that no older result is served as current.
PROTOCOL_VERSION = 1
# The libraries that compute: another version of one of them is another identity.
COMPUTING_LIBRARIES = ("lightning", "numpy", "torch")
KERNELS = ("fla-core", "triton")  # of a GPU, where they are installed


@lru_cache(maxsize=16)  # what is installed later is not what this process imports
def version(library: str) -> str:
    """The version of an installed library."""
    return importlib.metadata.version(library)


def library_versions(device_class: str = "cpu") -> dict[str, str]:
    """Versions of the libraries that compute on a device, and of Python (major and minor)."""
    versions = {name: version(name) for name in COMPUTING_LIBRARIES}
    for name in KERNELS if device_class != "cpu" else ():
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = version(name)
    versions["python"] = ".".join(platform.python_version_tuple()[:2])
    return versions


def sha256_of(value: Any) -> str:
    """SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


SECONDS_FOR_GIT = 300.0  # on a slow file system; a helper of git's may hold its pipe for ever


@lru_cache(maxsize=1)
def commit_and_dirty() -> tuple[str | None, bool | None]:
    """The checked-out commit and whether code or settings differ from it; None outside of git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=SECONDS_FOR_GIT
        )
        return done.stdout.strip()

    try:
        # A new file that git does not know yet is not in the commit either.
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", "*.py", "*.yaml"))
    except (OSError, subprocess.SubprocessError):
        return None, None


@dataclass(frozen=True)
class Origin:
    """Which command made a run, from which state of the project."""

    command: str
    commit: str | None
    dirty: bool | None


_adopted: list[Origin] = []


def origin() -> Origin:
    """The command and commit of this process, or of the one that it works for."""
    if _adopted:
        return _adopted[-1]
    return Origin(shlex.join(public_command(sys.argv)), *commit_and_dirty())


def adopt(other: Origin) -> None:
    """Work for a driver on another machine: what is made here tells its command and commit."""
    _adopted[:] = [other]


@lru_cache(maxsize=1)  # every run that is named asks
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
) -> Provenance:
    """The provenance of a run on this machine."""
    libraries = library_versions(device_class)
    made_by = origin()
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
        platform=public_system(),
        python=platform.python_version(),
        commit=made_by.commit,
        dirty=made_by.dirty,
        command=made_by.command,
        started_at=started.astimezone(UTC).isoformat(timespec="seconds"),
    )
