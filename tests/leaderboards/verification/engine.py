"""The engine, asked in this process, as a process of its own would answer."""

import contextlib
import importlib
import io
from collections.abc import Sequence

from core.children import Ended
from core.errors import UserError


def in_this_process(module: str, words: Sequence[str], limit: float = 0.0) -> Ended:
    """What a process of the engine would do."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            code = importlib.import_module(module).main(list(words))
    except UserError as error:
        return Ended(error.exit_code, str(error))
    return Ended(code, "it said nothing")
