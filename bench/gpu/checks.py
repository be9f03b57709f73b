"""Tests on the device, by pytest: ``python -m bench.gpu.checks``, a child of ``bench.gpu``.

What has run is written while the others run, so that a limit costs only those that it cuts off.
"""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path
from typing import Any

from bench.config.command_line import read
from core.errors import OK, RUN_FAILED, UserError, command
from core.files import write_atomically

RAN = (0, 1, 5)  # of pytest's exit codes: all passed, some failed, there were none
SECONDS_BETWEEN_WRITES = 1.0
LONGEST_REASON = 300  # characters of what a test failed by


class _Tally:
    """A plugin of pytest that counts tests by how they ended."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.passed = self.skipped = 0
        self.reason_by_test: dict[str, str] = {}  # of those that failed
        self.last_write = 0.0

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One of the three phases of a test has ended."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = report.longreprtext if crash is None else crash.message
            self.reason_by_test[report.nodeid] = reason[:LONGEST_REASON]
        elif report.skipped:
            self.skipped += 1
        elif report.when == "call":
            self.passed += 1
        if time.monotonic() - self.last_write > SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """The counts so far."""
        counts = {
            "passed": self.passed,
            "failed": len(self.reason_by_test),
            "skipped": self.skipped,
            "failures": self.reason_by_test,
        }
        write_atomically(self.output, (json.dumps(counts, indent=1) + "\n").encode())
        self.last_write = time.monotonic()


def main(arguments: list[str]) -> int:
    """Run pytest with the arguments; the last is ``output=FILE``, to which the counts go.

    Raises:
        UserError: pytest is not there, or could not run.
    """
    if importlib.util.find_spec("pytest") is None:
        raise UserError(
            'there is no pytest in this environment: python -m pip install -e ".[test]"', RUN_FAILED
        )
    import pytest  # of the extra "test"

    *of_pytest, output = arguments
    tally = _Tally(Path(str(read([output])["output"])))
    code = pytest.main([*of_pytest, "-q", "-p", "no:cacheprovider"], plugins=[tally])
    tally.write()
    if code not in RAN:
        raise UserError(f"pytest could not run (exit code {int(code)})", RUN_FAILED)
    return OK


if __name__ == "__main__":
    command(main)
