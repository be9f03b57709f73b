"""Servers of their own that tests start and stop."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class PostgreSQL:
    """A server on a socket that is a file, with its data in a folder."""

    folder: Path

    @property
    def address(self) -> str:
        """As storage= takes it."""
        return f"postgresql://bench@/postgres?host={self.folder}"

    def run(self, *words: str) -> None:
        """A program of PostgreSQL's, which refuses to run as root."""
        other = {"user": "nobody"} if os.getuid() == 0 else {}
        subprocess.run(words, cwd=self.folder, check=True, stdout=subprocess.DEVNULL, **other)

    def start(self) -> None:
        """Begin to answer."""
        settings = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        log = str(self.folder / "log")
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-o", settings, "-l", log, "start")

    def stop(self) -> None:
        """Cut every connection, as a crash does."""
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "stop")


@contextmanager
def postgresql_server() -> Iterator[PostgreSQL]:
    """A server with an empty database; the test is skipped where there is none."""
    if not shutil.which("initdb") or not shutil.which("pg_ctl"):
        pytest.skip("no PostgreSQL here: initdb and pg_ctl are not on the path")
    server = PostgreSQL(Path(tempfile.mkdtemp()))
    try:
        if os.getuid() == 0:
            shutil.chown(server.folder, "nobody")
        data = ("-D", f"{server.folder}/data")
        server.run("initdb", *data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-sync")
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(server.folder)
