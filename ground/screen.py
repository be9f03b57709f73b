"""The console that tables are printed on."""

from __future__ import annotations

from rich.console import Console


def console() -> Console:
    """Standard output; wide where no terminal limits it, so that files and logs are not folded."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=160)
