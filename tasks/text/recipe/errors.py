"""What can go wrong, as sentences for the user."""

from __future__ import annotations

from tasks.text.errors import TextError

USAGE = 2
STOPPED = 1


class RecipeError(TextError):
    """One clear sentence: what was wrong, what was expected, how to go on."""

    exit_code = USAGE


class WriterError(RecipeError):
    """The model or the endpoint behind a writer does not answer (any more)."""

    exit_code = STOPPED
