"""Tests on the device, by pytest: ``python -m bench.gpu.checks``, a child of ``bench.gpu``.

Where the time is over the tests stop, and those that have run are in the report all the same.
"""

from __future__ import annotations

import importlib.util
import signal

from ground.errors import OK, RUN_FAILED, UserError, command

# Of pytest's exit codes: all passed, some failed, stopped, none collected.
RAN = (0, 1, 2, 5)


def main(words: list[str]) -> int:
    """Run pytest with the words; the last is ``output=FILE``, its report.

    Raises:
        UserError: pytest is not there, or could not run.
    """
    if importlib.util.find_spec("pytest") is None:
        raise UserError(
            'there is no pytest in this environment: python -m pip install -e ".[test]"', RUN_FAILED
        )
    import pytest

    from settings.config import parse

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, so that it reports
    *given, output = words
    report = parse([output])[0].value()
    code = pytest.main([*given, f"--junitxml={report}", "-q", "-p", "no:cacheprovider"])
    if code not in RAN:
        raise UserError(f"pytest could not run (exit code {int(code)})", RUN_FAILED)
    return OK


if __name__ == "__main__":
    command(main)
