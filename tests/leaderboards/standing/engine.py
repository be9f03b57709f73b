"""The engine, asked in this process, as a process of its own would answer."""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Sequence

from ground.errors import UserError
from leaderboards.verify.again import Done


def in_this_process(module: str, words: Sequence[str]) -> Done:
    """What a process of the engine would do."""
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            code = importlib.import_module(module).main(list(words))
    except UserError as error:
        return Done(error.exit_code, output.getvalue(), f"error: {error}")
    return Done(code, output.getvalue(), "")
